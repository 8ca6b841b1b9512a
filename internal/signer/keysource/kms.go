package keysource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
)

// kmsTimeout bounds one request to KMS, and attempts is the number of requests for one signature.
const (
	kmsTimeout = 5 * time.Second
	attempts   = 3
)

// maxResponse bounds a response of KMS.
const maxResponse = 64 << 10

// kms is a key in AWS KMS. It calls two operations of its JSON API: GetPublicKey and Sign.
type kms struct {
	endpoint, region, id string
	credentials          aws.CredentialsProvider
	signer               *v4.Signer
	client               *http.Client
	now                  func() time.Time
	public               *secp256k1.PublicKey
	closed               atomic.Bool
}

// openKMS opens the key of a URI. Credentials come from where all programs for AWS find them: the role of the machine
// or container, or the file of shared credentials.
func openKMS(ctx context.Context, u *url.URL, now func() time.Time) (*kms, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("keysource: the query of the KMS URI cannot be read")
	}
	for name := range query {
		if name != "region" && name != "endpoint" && name != "profile" {
			return nil, fmt.Errorf("keysource: the KMS URI has the unknown parameter %q", name)
		}
	}
	id := strings.TrimPrefix(u.Path, "/")
	if id == "" || u.Host != "" || u.User != nil {
		return nil, errors.New("keysource: the KMS URI names no key; write awskms:///KEY-ID, an alias/NAME or an ARN")
	}
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion(query.Get("region")),
		config.WithSharedConfigProfile(query.Get("profile")))
	if err != nil {
		return nil, fmt.Errorf("keysource: the configuration for AWS: %w", err)
	}
	if loaded.Region == "" {
		return nil, errors.New("keysource: no region is configured for AWS KMS; add ?region=NAME")
	}
	k := &kms{endpoint: query.Get("endpoint"), region: loaded.Region, id: id, credentials: loaded.Credentials,
		signer: v4.NewSigner(), now: now, client: &http.Client{Timeout: kmsTimeout, CheckRedirect: noRedirect}}
	if k.endpoint == "" {
		k.endpoint = "https://kms." + k.region + ".amazonaws.com"
	}
	if err := checkEndpoint(k.endpoint); err != nil {
		return nil, err
	}
	var out struct {
		PublicKey []byte
		KeyUsage  string
		KeySpec   string
	}
	if err := k.call(ctx, "GetPublicKey", map[string]any{"KeyId": k.id}, &out); err != nil {
		return nil, err
	}
	if out.KeyUsage != "SIGN_VERIFY" || out.KeySpec != "ECC_SECG_P256K1" {
		return nil, fmt.Errorf("keysource: the key is %s for %s; want ECC_SECG_P256K1 for SIGN_VERIFY", out.KeySpec,
			out.KeyUsage)
	}
	if k.public, err = parsePublicKey(out.PublicKey); err != nil {
		return nil, err
	}
	return k, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// checkEndpoint refuses an endpoint without TLS, except on this machine.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	local := err == nil && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !local) {
		return errors.New("keysource: the endpoint of KMS must be an https URL")
	}
	return nil
}

// problem is an error that KMS returned.
type problem struct {
	status        int
	Type, Message string
}

func (p problem) Error() string {
	return fmt.Sprintf("keysource: KMS: %d %s: %s", p.status, p.Type, p.Message)
}

// temporary reports whether the same request may succeed later.
func (p problem) temporary() bool {
	return p.status >= 500 || p.status == http.StatusTooManyRequests || strings.HasSuffix(p.Type, "ThrottlingException") ||
		strings.HasSuffix(p.Type, "LimitExceededException")
}

// call calls an operation of KMS. It repeats a request without an answer at once: to sign a hash again is harmless.
func (k *kms) call(ctx context.Context, operation string, in, out any) (err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for range attempts {
		var p problem
		if err = k.try(ctx, operation, body, out); err == nil || ctx.Err() != nil || errors.As(err, &p) && !p.temporary() {
			return err
		}
	}
	return err
}

// try sends one request, signed by Signature Version 4.
func (k *kms) try(ctx context.Context, operation string, body []byte, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", "TrentService."+operation)
	credentials, err := k.credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("keysource: credentials for AWS: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := k.signer.SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), "kms", k.region, k.now()); err != nil {
		return err
	}
	response, err := k.client.Do(r)
	if err != nil {
		return fmt.Errorf("keysource: KMS does not answer: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("keysource: KMS does not answer: %w", err)
	}
	if response.StatusCode == http.StatusOK {
		return json.Unmarshal(text, out)
	}
	p := problem{status: response.StatusCode}
	var named struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &named) == nil {
		p.Type, p.Message = named.Type, named.Message
	}
	return p
}

// PublicKey implements signer.KeySource.
func (k *kms) PublicKey() *secp256k1.PublicKey { return k.public }

// Sign implements signer.KeySource.
func (k *kms) Sign(ctx context.Context, hash []byte) (sig [64]byte, err error) {
	if k.closed.Load() {
		return sig, errClosed
	}
	if len(hash) != hashSize {
		return sig, fmt.Errorf("keysource: a hash of %d bytes cannot be signed", len(hash))
	}
	var out struct{ Signature []byte }
	if err := k.call(ctx, "Sign", map[string]any{"KeyId": k.id, "Message": hash, "MessageType": "DIGEST",
		"SigningAlgorithm": "ECDSA_SHA_256"}, &out); err != nil {
		return sig, err
	}
	var numbers struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(out.Signature, &numbers); err != nil || len(rest) > 0 || numbers.R.Sign() <= 0 ||
		numbers.S.Sign() <= 0 || numbers.R.BitLen() > 256 || numbers.S.BitLen() > 256 {
		return sig, errors.New("keysource: KMS returned no signature")
	}
	return normalize(numbers.R.Bytes(), numbers.S.Bytes(), hash, k.public)
}

// Close implements signer.KeySource.
func (k *kms) Close() error {
	k.closed.Store(true)
	k.client.CloseIdleConnections()
	return nil
}
