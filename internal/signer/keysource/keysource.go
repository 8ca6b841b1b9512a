// Package keysource signs with keys of secp256k1 that never leave a device or a service: by PKCS#11 in a hardware
// security module, or in AWS KMS. Such a key has no child keys (BIP 32), so it is the key of the hot address only.
//
// It verifies each signature before it returns it, so a device that fails cannot make the signer return a signature by
// another key.
package keysource

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/signer"
)

// hashSize is the length of the hashes that are signed.
const hashSize = 32

// errClosed is returned by a source after Close.
var errClosed = errors.New("keysource: the source of the key was closed")

// Open connects to the key that a URI names, and reads its public key:
//
//	pkcs11:token=stipend;id=%01?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=file:/etc/stipend/pin
//	awskms:///alias/stipend-hot?region=eu-central-1
//
// The first form is that of RFC 7512. A URI with a PIN or a secret is refused, because other users of the machine can
// read it.
func Open(ctx context.Context, uri string, now func() time.Time) (signer.KeySource, error) {
	parsed, err := url.Parse(uri)
	if err != nil {
		return nil, errors.New("keysource: the key is not named by a URI")
	}
	switch parsed.Scheme {
	case "pkcs11":
		return openPKCS11(ctx, parsed)
	case "awskms":
		return openKMS(ctx, parsed, now)
	}
	return nil, fmt.Errorf("keysource: want a pkcs11: or awskms: URI, not %q", parsed.Scheme)
}

// subjectPublicKey is the structure of a public key in X.509. The standard library does not know the curve.
type subjectPublicKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Key       asn1.BitString
}

var (
	oidPublicKey = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	oidSecp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}
)

// parsePublicKey parses a public key of secp256k1 in X.509's encoding (DER).
func parsePublicKey(der []byte) (*secp256k1.PublicKey, error) {
	var info subjectPublicKey
	var curve asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(der, &info)
	if err != nil || len(rest) > 0 || !info.Algorithm.Algorithm.Equal(oidPublicKey) {
		return nil, errors.New("keysource: this is not the public key of an elliptic curve")
	}
	rest, err = asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &curve)
	if err != nil || len(rest) > 0 || !curve.Equal(oidSecp256k1) {
		return nil, errors.New("keysource: the key is not of the curve secp256k1")
	}
	key, err := secp256k1.ParsePubKey(info.Key.RightAlign())
	if err != nil {
		return nil, errors.New("keysource: the public key is not a point of secp256k1")
	}
	return key, nil
}

// normalize returns r and s with the lower s of the two that are valid. It returns an error if the signature is not one
// of a hash by a key.
func normalize(r, s, hash []byte, key *secp256k1.PublicKey) (sig [64]byte, err error) {
	var rn, sn secp256k1.ModNScalar
	if rn.SetByteSlice(r) || sn.SetByteSlice(s) {
		return sig, errors.New("keysource: the signature has a number that is too large")
	}
	if sn.IsOverHalfOrder() {
		sn.Negate()
	}
	if !ecdsa.NewSignature(&rn, &sn).Verify(hash, key) {
		return sig, errors.New("keysource: the signature is not by the key that was read at the start")
	}
	rn.PutBytesUnchecked(sig[:32])
	sn.PutBytesUnchecked(sig[32:])
	return sig, nil
}
