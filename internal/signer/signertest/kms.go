package signertest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/testkit"
)

// KMSSecret is the secret of the credentials that a KMS accepts.
const KMSSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

const (
	kmsID     = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	kmsAccess = "AKIDEXAMPLE"
)

// KMS answers as AWS KMS does: it verifies Signature Version 4, and signs with a key of secp256k1. Every other
// signature has a high s, which KMS returns too.
type KMS struct {
	*httptest.Server
	Key      *secp256k1.PrivateKey
	Spec     string   // of the key
	Failures []string // errors of the next requests
	Requests int      // number of requests

	mu     sync.Mutex
	signed int
	now    func() time.Time
}

// NewKMS starts a KMS with a new key, and sets the credentials for it.
func NewKMS(t testing.TB, now func() time.Time) *KMS {
	t.Helper()
	s := &KMS{Key: testkit.Must(secp256k1.GeneratePrivateKey()), Spec: "ECC_SECG_P256K1", now: now}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", kmsAccess)
	t.Setenv("AWS_SECRET_ACCESS_KEY", KMSSecret)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return s
}

// URI names the key.
func (s *KMS) URI() string {
	return "awskms:///" + kmsID + "?region=eu-central-1&endpoint=" + url.QueryEscape(s.URL)
}

func (s *KMS) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests++
	fail := func(status int, kind, message string) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": kind, "message": message})
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if why := verifySigV4(r, body, s.now()); why != "" {
		fail(http.StatusBadRequest, "InvalidSignatureException", why)
		return
	}
	if len(s.Failures) > 0 {
		kind := s.Failures[0]
		s.Failures = s.Failures[1:]
		status := http.StatusBadRequest
		if kind == "KMSInternalException" {
			status = http.StatusInternalServerError
		}
		fail(status, kind, "the request failed")
		return
	}
	var in struct {
		KeyId, MessageType, SigningAlgorithm string
		Message                              []byte
	}
	if json.Unmarshal(body, &in) != nil || r.Header.Get("Content-Type") != "application/x-amz-json-1.1" {
		fail(http.StatusBadRequest, "SerializationException", "the body cannot be read")
		return
	}
	if in.KeyId != kmsID {
		fail(http.StatusBadRequest, "NotFoundException", "there is no such key")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	switch r.Header.Get("X-Amz-Target") {
	case "TrentService.GetPublicKey":
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": kmsID, "KeySpec": s.Spec, "CustomerMasterKeySpec": s.Spec,
			"KeyUsage": "SIGN_VERIFY", "SigningAlgorithms": []string{"ECDSA_SHA_256"}, "PublicKey": spki(s.Key.PubKey())})
	case "TrentService.Sign":
		if in.MessageType != "DIGEST" || in.SigningAlgorithm != "ECDSA_SHA_256" || len(in.Message) != 32 {
			fail(http.StatusBadRequest, "ValidationException", "the digest is invalid")
			return
		}
		compact := ecdsa.SignCompact(s.Key, in.Message, true)
		r, high := new(big.Int).SetBytes(compact[1:33]), new(big.Int).SetBytes(compact[33:])
		if s.signed++; s.signed%2 == 0 {
			high.Sub(secp256k1.S256().N, high)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"KeyId": kmsID, "SigningAlgorithm": in.SigningAlgorithm,
			"Signature": testkit.Must(asn1.Marshal(struct{ R, S *big.Int }{r, high}))})
	default:
		fail(http.StatusBadRequest, "UnknownOperationException", "")
	}
}

// spki encodes a public key as KMS does.
func spki(key *secp256k1.PublicKey) []byte {
	type algorithm struct{ Kind, Curve asn1.ObjectIdentifier }
	return testkit.Must(asn1.Marshal(struct {
		Algorithm algorithm
		Key       asn1.BitString
	}{algorithm{asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}, asn1.ObjectIdentifier{1, 3, 132, 0, 10}},
		asn1.BitString{Bytes: key.SerializeUncompressed(), BitLength: 65 * 8}}))
}

// verifySigV4 returns why AWS would refuse the signature of a request, or "". It is written from the documentation of
// Signature Version 4, and shares no code with the signer.
func verifySigV4(r *http.Request, body []byte, now time.Time) string {
	fields := map[string]string{}
	kind, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if kind != "AWS4-HMAC-SHA256" || err != nil || at.Sub(now).Abs() > 5*time.Minute {
		return "the date or the algorithm is wrong"
	}
	scope := date[:8] + "/eu-central-1/kms/aws4_request"
	if fields["Credential"] != kmsAccess+"/"+scope {
		return "the credential is unknown"
	}
	signed := strings.Split(fields["SignedHeaders"], ";")
	if !slices.Contains(signed, "host") || !slices.Contains(signed, "x-amz-target") || !slices.IsSorted(signed) {
		return "headers are not signed"
	}
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&canonical, "%s:%s\n", name, strings.TrimSpace(value))
	}
	fmt.Fprintf(&canonical, "\n%s\n%x", fields["SignedHeaders"], sha256.Sum256(body))
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	key := []byte("AWS4" + KMSSecret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	want := mac(key, fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", date, scope, sha256.Sum256([]byte(canonical.String()))))
	if fields["Signature"] != hex.EncodeToString(want) {
		return "the signature does not match"
	}
	return ""
}
