package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// ProofAlgorithms are the accepted signature algorithms of DPoP proofs.
var ProofAlgorithms = []string{"ES256", "EdDSA"}

const (
	// proofSkew is the maximum difference between the time in a proof and the current time.
	proofSkew = time.Minute
	// maxProofs is the number of proofs that a process remembers. If more are sent within two minutes, they are
	// rejected.
	maxProofs = 200_000
	maxProof  = 4096 // maximum size of a proof in bytes
)

// Errors for DPoP proofs.
var (
	errProof = &Error{"invalid_dpop_proof",
		"The DPoP proof is missing, malformed, too old, already used, or made for another request or key."}
	errProofFull = errors.New("oauth: too many DPoP proofs")
)

// Proofs checks DPoP proofs (RFC 9449). It remembers them, so that this process accepts each proof only once.
type Proofs struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]time.Time // time after which each proof can be forgotten
}

// proofClaims are the claims of a proof.
type proofClaims struct {
	jwt.RegisteredClaims

	Method string `json:"htm"`
	URL    string `json:"htu"`
	Token  string `json:"ath"` // digest of the access token
}

// Check checks the DPoP proof of a request and returns the thumbprint (RFC 7638) of the key that signed it. token is
// the access token of the request, or "" at the token endpoint. Check returns an error if the proof is invalid or was
// used before.
func (p *Proofs) Check(proof, method, address, token string, now time.Time) (key string, err error) {
	if len(proof) > maxProof {
		return "", errProof
	}
	var claims proofClaims
	parser := jwt.NewParser(jwt.WithValidMethods(ProofAlgorithms), jwt.WithoutClaimsValidation())
	if _, err := parser.ParseWithClaims(proof, &claims, func(t *jwt.Token) (public any, err error) {
		if t.Header["typ"] != "dpop+jwt" {
			return nil, errProof
		}
		public, key, err = publicKey(t.Header["jwk"])
		return public, err
	}); err != nil {
		return "", fmt.Errorf("%w: %w", errProof, err)
	}
	digest := ""
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		digest = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	switch at := claims.IssuedAt; {
	case at == nil || at.Time.Before(now.Add(-proofSkew)) || at.Time.After(now.Add(proofSkew)),
		claims.ID == "", claims.Method != method, !sameAddress(claims.URL, address), claims.Token != digest:
		return "", errProof
	}
	return key, p.use(key+" "+claims.ID, now)
}

// use remembers a proof by its ID. It returns an error if the proof was used before.
func (p *Proofs) use(id string, now time.Time) error {
	digest := sha256.Sum256([]byte(id))
	p.mu.Lock()
	defer p.mu.Unlock()
	if end, used := p.seen[digest]; used && now.Before(end) {
		return errProof
	}
	if len(p.seen) >= maxProofs {
		for d, end := range p.seen {
			if !now.Before(end) {
				delete(p.seen, d)
			}
		}
		if len(p.seen) >= maxProofs {
			return errProofFull
		}
	}
	if p.seen == nil {
		p.seen = map[[sha256.Size]byte]time.Time{}
	}
	p.seen[digest] = now.Add(2 * proofSkew)
	return nil
}

// sameAddress reports whether the URL in a proof, without its query and fragment, is that of the request.
func sameAddress(claimed, address string) bool {
	u, err := url.Parse(claimed)
	if err != nil {
		return false
	}
	at, err := url.Parse(address)
	return err == nil && strings.EqualFold(u.Scheme, at.Scheme) && strings.EqualFold(u.Host, at.Host) &&
		u.EscapedPath() == at.EscapedPath() && u.User == nil
}

// publicKey returns the public key in a JWK, and its thumbprint. It rejects private keys.
func publicKey(header any) (key crypto.PublicKey, thumbprint string, err error) {
	jwk, _ := header.(map[string]any)
	member := func(name string) string {
		text, _ := jwk[name].(string)
		return text
	}
	if _, private := jwk["d"]; private || jwk == nil {
		return nil, "", errProof
	}
	x, err := base64.RawURLEncoding.DecodeString(member("x"))
	if err != nil || len(x) != 32 {
		return nil, "", errProof
	}
	// The members of a thumbprint must be in lexicographic order (RFC 7638, section 3.3). Encoding x and y again makes
	// them canonical.
	encode := base64.RawURLEncoding.EncodeToString
	switch {
	case member("kty") == "EC" && member("crv") == "P-256":
		y, err := base64.RawURLEncoding.DecodeString(member("y"))
		if err != nil || len(y) != 32 {
			return nil, "", errProof
		}
		point := append(append([]byte{4}, x...), y...)
		if key, err = ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point); err != nil {
			return nil, "", err
		}
		thumbprint = fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, encode(x), encode(y))
	case member("kty") == "OKP" && member("crv") == "Ed25519":
		key = ed25519.PublicKey(x)
		thumbprint = fmt.Sprintf(`{"crv":"Ed25519","kty":"OKP","x":"%s"}`, encode(x))
	default:
		return nil, "", errProof
	}
	sum := sha256.Sum256([]byte(thumbprint))
	return key, encode(sum[:]), nil
}
