package httpapi

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
)

// A token that is bound to a key works for agents with a proof for each message, as it does at the API. The requests
// that a message causes need no proof of their own.
func TestAgentsProveTheKeyOfABoundToken(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	encode := base64.RawURLEncoding.EncodeToString
	public, private, err := ed25519.GenerateKey(rand.Reader)
	testkit.Check(t, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	testkit.Check(t, err)
	thumbprint := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + encode(public) + `"}`))
	_, token, _ := strings.Cut(b.token(b.user("Ada"), identity.CompanyDetail), " ")
	if n, err := b.exec("UPDATE access_tokens SET proof_key = $1 WHERE digest = $2", encode(thumbprint[:]),
		identity.Digest(token)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	digest := sha256.Sum256([]byte(token))
	proof := func(key ed25519.PrivateKey, path string) string {
		made := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"htm": "POST", "htu": b.server.BaseURL + path,
			"jti": rand.Text(), "iat": b.server.Now().Unix(), "ath": encode(digest[:])})
		made.Header["typ"] = "dpop+jwt"
		made.Header["jwk"] = map[string]any{"kty": "OKP", "crv": "Ed25519",
			"x": encode(key.Public().(ed25519.PublicKey))}
		text, err := made.SignedString(key)
		testkit.Check(t, err)
		return text
	}
	message := func(proof string) reply {
		return b.do("POST", AgentsPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_company",`+
			`"arguments":{}}}`, "Authorization", "DPoP "+token, "DPoP", proof, "Accept",
			"application/json, text/event-stream")
	}
	good := proof(private, AgentsPath)
	if got := message(good); got.status != http.StatusOK || !strings.Contains(got.text, b.company) {
		t.Errorf("with a proof: %d %s", got.status, got.text)
	}
	for name, wrong := range map[string]string{"no proof": "", "a used proof": good,
		"a proof of another key": proof(other, AgentsPath), "a proof for the API": proof(private, "/api/company")} {
		got := message(wrong)
		if got.status != http.StatusUnauthorized || strings.Contains(got.text, b.company) ||
			!strings.Contains(strings.Join(got.header.Values("WWW-Authenticate"), " "), `DPoP realm="api"`) {
			t.Errorf("%s: %d %s %q", name, got.status, got.text, got.header.Values("WWW-Authenticate"))
		}
	}
}
