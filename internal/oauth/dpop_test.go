package oauth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/testkit"
)

// A proof is accepted once, and only for its request, token and time. Its key is named by its thumbprint.
func TestProofs(t *testing.T) {
	const address, token = "https://pay.example/api/company", "stp_sandbox_token_x"
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	encode := base64.RawURLEncoding.EncodeToString
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Check(t, err)
	point, err := key.PublicKey.Bytes()
	testkit.Check(t, err)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	testkit.Check(t, err)
	sum := sha256.Sum256([]byte(token))

	type header = map[string]any
	ec := header{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
	proof := func(change func(h header, c jwt.MapClaims)) string {
		claims := jwt.MapClaims{"htm": "GET", "htu": address + "?a=b#c", "jti": rand.Text(), "iat": now.Unix(),
			"ath": encode(sum[:])}
		made := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
		made.Header["typ"], made.Header["jwk"] = "dpop+jwt", ec
		change(made.Header, claims)
		text, err := made.SignedString(key)
		testkit.Check(t, err)
		return text
	}
	var p oauth.Proofs
	check := func(proof string) (string, error) { return p.Check(proof, "GET", address, token, now) }

	good := proof(func(header, jwt.MapClaims) {})
	first, err := check(good)
	digest := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + encode(point[1:33]) +
		`","y":"` + encode(point[33:]) + `"}`))
	if err != nil || first != encode(digest[:]) {
		t.Errorf("%q %v", first, err)
	}
	if _, err := check(good); err == nil {
		t.Error("a proof is accepted twice")
	}
	edwards := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"htm": "GET", "htu": address, "jti": "1",
		"iat": now.Unix(), "ath": encode(sum[:])})
	edwards.Header["typ"], edwards.Header["jwk"] = "dpop+jwt", header{"kty": "OKP", "crv": "Ed25519", "x": encode(public)}
	text, err := edwards.SignedString(private)
	testkit.Check(t, err)
	if other, err := check(text); err != nil || other == first {
		t.Errorf("an Ed25519 key: %q %v", other, err)
	}
	symmetric := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"htm": "GET", "htu": address, "jti": "2",
		"iat": now.Unix(), "ath": encode(sum[:])})
	symmetric.Header["typ"], symmetric.Header["jwk"] = "dpop+jwt", ec
	hmac, err := symmetric.SignedString([]byte("secret"))
	testkit.Check(t, err)

	for name, bad := range map[string]string{
		"none": "", "no JWT": "a.b.c", "HS256": hmac,
		"another type": proof(func(h header, _ jwt.MapClaims) { h["typ"] = "JWT" }),
		"no key":       proof(func(h header, _ jwt.MapClaims) { delete(h, "jwk") }),
		"another key":  proof(func(h header, _ jwt.MapClaims) { h["jwk"] = edwards.Header["jwk"] }),
		"a private key": proof(func(h header, _ jwt.MapClaims) {
			h["jwk"] = header{"kty": "EC", "crv": "P-256", "x": ec["x"], "y": ec["y"], "d": "AA"}
		}),
		"another method":    proof(func(_ header, c jwt.MapClaims) { c["htm"] = "POST" }),
		"another path":      proof(func(_ header, c jwt.MapClaims) { c["htu"] = address + "/x" }),
		"another host":      proof(func(_ header, c jwt.MapClaims) { c["htu"] = "https://evil.example/api/company" }),
		"no token":          proof(func(_ header, c jwt.MapClaims) { delete(c, "ath") }),
		"another token":     proof(func(_ header, c jwt.MapClaims) { c["ath"] = encode(digest[:]) }),
		"no ID":             proof(func(_ header, c jwt.MapClaims) { delete(c, "jti") }),
		"no time":           proof(func(_ header, c jwt.MapClaims) { delete(c, "iat") }),
		"an old one":        proof(func(_ header, c jwt.MapClaims) { c["iat"] = now.Add(-2 * time.Minute).Unix() }),
		"one of the future": proof(func(_ header, c jwt.MapClaims) { c["iat"] = now.Add(2 * time.Minute).Unix() }),
	} {
		if _, err := check(bad); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
