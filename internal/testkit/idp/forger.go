package idp

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Forger is an OpenID provider that follows the rules, except where a test makes it break one. Set its fields before
// the sign-in.
type Forger struct {
	t      testing.TB
	Issuer string
	key    *rsa.PrivateKey
	codes  map[string]url.Values

	// Claims changes the claims of the ID token. It may be nil.
	Claims func(jwt.MapClaims)
	// Sign signs the ID token. If it is nil, the token is signed with the published key.
	Sign func(jwt.MapClaims) string
	// UserInfo is the response of the UserInfo endpoint.
	UserInfo map[string]any
	// Metadata changes the metadata. It may be nil.
	Metadata func(map[string]any)
}

// Forge starts a Forger that stops when the test ends.
func Forge(t testing.TB) *Forger {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &Forger{t: t, key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", f.metadata)
	mux.HandleFunc("GET /keys", f.keys)
	mux.HandleFunc("POST /token", f.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) { f.write(w, f.UserInfo) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f.Issuer = server.URL
	return f
}

func (f *Forger) write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Error(err)
	}
}

func (f *Forger) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{"issuer": f.Issuer, "authorization_endpoint": f.Issuer + "/authorize",
		"token_endpoint": f.Issuer + "/token", "jwks_uri": f.Issuer + "/keys", "userinfo_endpoint": f.Issuer + "/userinfo",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"},
		"subject_types_supported": []string{"public"}}
	if f.Metadata != nil {
		f.Metadata(m)
	}
	f.write(w, m)
}

func (f *Forger) keys(w http.ResponseWriter, _ *http.Request) {
	f.write(w, map[string]any{"keys": []map[string]any{{"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256",
		"n": base64.RawURLEncoding.EncodeToString(f.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(f.key.E)).Bytes())}}})
}

// Authorize returns the parameters with which the provider responds to an authorization URL.
func (f *Forger) Authorize(authURL string) url.Values {
	f.t.Helper()
	u, err := url.Parse(authURL)
	if err != nil {
		f.t.Fatal(err)
	}
	q := u.Query()
	if q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("nonce")) < 32 ||
		len(q.Get("state")) < 32 || q.Get("response_type") != "code" || q.Get("client_id") != ClientID {
		f.t.Fatalf("the request %s", authURL)
	}
	f.codes["a code"] = q
	return url.Values{"code": {"a code"}, "state": {q.Get("state")}}
}

// token exchanges each code once, for the client with its secret and the right PKCE verifier.
func (f *Forger) token(w http.ResponseWriter, r *http.Request) {
	asked := f.codes[r.FormValue("code")]
	delete(f.codes, r.FormValue("code"))
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || id != ClientID || secret != ClientSecret ||
		r.FormValue("redirect_uri") != asked.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
		w.WriteHeader(http.StatusBadRequest)
		f.write(w, map[string]any{"error": "invalid_grant"})
		return
	}
	now := time.Now()
	claims := jwt.MapClaims{"iss": f.Issuer, "aud": ClientID, "sub": "7", "nonce": asked.Get("nonce"),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "auth_time": now.Unix(), "email": "ada@acme.example",
		"email_verified": true}
	if f.Claims != nil {
		f.Claims(claims)
	}
	sign := f.SignRS256
	if f.Sign != nil {
		sign = f.Sign
	}
	f.write(w, map[string]any{"access_token": "an access token", "token_type": "Bearer", "id_token": sign(claims)})
}

// SignRS256 signs claims with the published key.
func (f *Forger) SignRS256(claims jwt.MapClaims) string {
	return f.sign(jwt.SigningMethodRS256, claims, f.key)
}

// SignWithOther signs claims with a key that is not published.
func (f *Forger) SignWithOther(claims jwt.MapClaims) string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.t.Error(err)
	}
	return f.sign(jwt.SigningMethodRS256, claims, key)
}

// SignNone returns a token with claims but without a signature.
func (f *Forger) SignNone(claims jwt.MapClaims) string {
	return f.sign(jwt.SigningMethodNone, claims, jwt.UnsafeAllowNoneSignatureType)
}

// SignHS256 signs claims with the client secret.
func (f *Forger) SignHS256(claims jwt.MapClaims) string {
	return f.sign(jwt.SigningMethodHS256, claims, []byte(ClientSecret))
}

func (f *Forger) sign(method jwt.SigningMethod, claims jwt.MapClaims, key crypto.PrivateKey) string {
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = "1"
	text, err := token.SignedString(key)
	if err != nil {
		f.t.Error(err)
	}
	return text
}
