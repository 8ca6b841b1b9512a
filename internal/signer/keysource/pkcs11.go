package keysource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/stipend/stipend/internal/signer"
)

// tool is the program of OpenSC that loads the module of a device. It is a process of its own, so the signer remains a
// static binary, and a failure of a vendor's code does not end it.
const tool = "pkcs11-tool"

// pinVariable is the variable of the tool's environment with the PIN. The signer's own environment does not have it.
const pinVariable = "STIPEND_PKCS11_PIN"

// deviceTimeout bounds one request to a device.
const deviceTimeout = 15 * time.Second

// pkcs11 is a key in a device.
type pkcs11 struct {
	module, token string
	id            string // CKA_ID of the key, hexadecimal: the tool ignores labels when it signs
	pin           []byte
	public        *secp256k1.PublicKey
	turn          chan struct{} // one request at a time, because few modules let processes use a token together
	closed        atomic.Bool
}

// openPKCS11 opens the key that a URI of RFC 7512 names.
func openPKCS11(ctx context.Context, u *url.URL) (*pkcs11, error) {
	k := &pkcs11{turn: make(chan struct{}, 1)}
	for attribute := range strings.SplitSeq(u.Opaque, ";") {
		name, escaped, _ := strings.Cut(attribute, "=")
		value, err := url.PathUnescape(escaped)
		if err != nil || value == "" || strings.HasPrefix(value, "-") {
			return nil, fmt.Errorf("keysource: the attribute %q of the PKCS#11 URI has no usable value", name)
		}
		switch name {
		case "token":
			k.token = value
		case "id":
			k.id = fmt.Sprintf("%x", value)
		default:
			return nil, fmt.Errorf("keysource: the PKCS#11 URI has the unknown attribute %q", name)
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("keysource: the query of the PKCS#11 URI cannot be read")
	}
	if query.Has("pin-value") {
		return nil, errors.New("keysource: others can read a PIN in the URI; name a file with pin-source=file:PATH")
	}
	k.module = query.Get("module-path")
	pinFile, isFile := strings.CutPrefix(query.Get("pin-source"), "file:")
	if k.token == "" || k.id == "" || k.module == "" || !isFile {
		return nil, errors.New("keysource: the PKCS#11 URI needs token, id, module-path and pin-source=file:PATH")
	}
	pin, err := signer.ReadSecretFile(strings.TrimPrefix(pinFile, "//"))
	if err != nil {
		return nil, err
	}
	if k.pin = bytes.TrimRight(pin, "\r\n"); len(k.pin) == 0 || bytes.IndexByte(k.pin, 0) >= 0 {
		return nil, errors.New("keysource: the file of the PIN has none")
	}
	der, err := k.run(ctx, nil, "--read-object", "--type", "pubkey", "--output-file", "/dev/stdout")
	if err != nil {
		return nil, err
	}
	if k.public, err = parsePublicKey(der); err != nil {
		return nil, err
	}
	return k, nil
}

// run runs the tool with a login, and returns its output.
func (k *pkcs11) run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deviceTimeout)
	defer cancel()
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("keysource: the device is busy: %w", ctx.Err())
	}
	args = append([]string{"--module", k.module, "--token-label", k.token, "--id", k.id, "--login", "--pin",
		"env:" + pinVariable}, args...)
	command := exec.CommandContext(ctx, tool, args...)
	var out, problem bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &problem
	command.Env = append(command.Environ(), pinVariable+"="+string(k.pin))
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("keysource: the device does not answer: %w", ctx.Err())
		}
		return nil, fmt.Errorf("keysource: %s: %w: %s", tool, err, strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), nil
}

// PublicKey implements signer.KeySource.
func (k *pkcs11) PublicKey() *secp256k1.PublicKey { return k.public }

// Sign implements signer.KeySource.
func (k *pkcs11) Sign(ctx context.Context, hash []byte) (sig [64]byte, err error) {
	if k.closed.Load() {
		return sig, errClosed
	}
	if len(hash) != hashSize {
		return sig, fmt.Errorf("keysource: a hash of %d bytes cannot be signed", len(hash))
	}
	out, err := k.run(ctx, hash, "--sign", "--mechanism", "ECDSA", "--signature-format", "rs", "--input-file",
		"/dev/stdin", "--output-file", "/dev/stdout")
	if err != nil {
		return sig, err
	}
	if len(out) != len(sig) {
		return sig, fmt.Errorf("keysource: the device returned a signature of %d bytes", len(out))
	}
	return normalize(out[:32], out[32:], hash, k.public)
}

// Close implements signer.KeySource.
func (k *pkcs11) Close() error {
	k.closed.Store(true)
	return nil
}
