package sso_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit/idp"
)

const redirectURL = "https://pay.example.com/sign-in/sso/com_1/callback"

func client() *sso.Client { return &sso.Client{HTTP: &http.Client{}, Now: time.Now} }

// TestSignInAtAnIndependentProvider signs in at a provider whose implementation is not this project's.
func TestSignInAtAnIndependentProvider(t *testing.T) {
	op := idp.Start(t, []string{redirectURL}, idp.User{Subject: "7", Email: "ada@acme.example", First: "Ada",
		Last: "Lovelace"}, idp.User{Subject: "8", Email: "eve@acme.example", Unverified: true})
	c, p := client(), sso.Provider{Issuer: op.Issuer, ClientID: idp.ClientID, ClientSecret: idp.ClientSecret}
	if err := c.Check(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	answer := func(token, subject string) url.Values {
		to, err := c.AuthURL(t.Context(), p, redirectURL, token)
		if err != nil {
			t.Fatal(err)
		}
		back, err := url.Parse(op.SignIn(to, subject))
		if err != nil {
			t.Fatal(err)
		}
		return back.Query()
	}
	token := identity.NewLinkToken()
	first := answer(token, "7")
	who, err := c.Finish(t.Context(), p, redirectURL, token, first)
	if want := (sso.Identity{Issuer: op.Issuer, Subject: "7", Email: "ada@acme.example", GivenName: "Ada",
		FamilyName: "Lovelace"}); err != nil || who != want {
		t.Errorf("%+v %v", who, err)
	}
	if _, err := c.Finish(t.Context(), p, redirectURL, token, first); err == nil {
		t.Error("a code was used twice")
	}
	stolen := answer(token, "7")
	if _, err := c.Finish(t.Context(), p, redirectURL, identity.NewLinkToken(), stolen); err == nil {
		t.Error("a browser without the attempt signs in")
	}
	if _, err := c.Finish(t.Context(), p, redirectURL, token, answer(token, "8")); err == nil ||
		!strings.Contains(err.Error(), "verified") {
		t.Errorf("with an unverified address: %v", err)
	}
	p.ClientSecret = "another"
	if _, err := c.Finish(t.Context(), p, redirectURL, token, answer(token, "7")); err == nil {
		t.Error("another client secret is accepted")
	}
}

// TestForgedAnswersAreRefused breaks one rule at a time.
func TestForgedAnswersAreRefused(t *testing.T) {
	set := func(name string, value any) func(*idp.Forger) {
		return func(f *idp.Forger) {
			f.Claims = func(c jwt.MapClaims) {
				if c[name] = value; value == nil {
					delete(c, name)
				}
			}
		}
	}
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, c := range map[string]struct {
		breaks func(*idp.Forger)
		answer func(url.Values)
		want   string // part of the error; "" if the answer is accepted
	}{
		"nothing":                   {},
		"a verified claim as text":  {breaks: set("email_verified", "true")},
		"the issuer in the answer":  {answer: func(q url.Values) { q.Set("iss", "https://evil.example") }, want: "issuer"},
		"the state":                 {answer: func(q url.Values) { q.Set("state", "x") }, want: "state"},
		"no state":                  {answer: func(q url.Values) { q.Del("state") }, want: "state"},
		"a refusal":                 {answer: func(q url.Values) { q.Set("error", "access_denied") }, want: "access_denied"},
		"another code":              {answer: func(q url.Values) { q.Set("code", "x") }, want: "exchange"},
		"the issuer of the token":   {breaks: set("iss", "https://evil.example"), want: "issue"},
		"the audience":              {breaks: set("aud", "another client"), want: "audience"},
		"two audiences without azp": {breaks: set("aud", []string{idp.ClientID, "another"}), want: "another client"},
		"the authorized party":      {breaks: set("azp", "another"), want: "another client"},
		"the nonce":                 {breaks: set("nonce", "x"), want: "nonce"},
		"no nonce":                  {breaks: set("nonce", nil), want: "nonce"},
		"expiry":                    {breaks: set("exp", in(-time.Minute)), want: "expired"},
		"a token of the future":     {breaks: set("iat", in(time.Hour)), want: "future"},
		"an old sign-in":            {breaks: set("auth_time", in(-time.Hour)), want: "too long ago"},
		"no time of the sign-in":    {breaks: set("auth_time", nil), want: "auth_time"},
		"the access token's hash":   {breaks: set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), want: "access token hash"},
		"an unverified address":     {breaks: set("email_verified", false), want: "verified"},
		"verification not stated":   {breaks: set("email_verified", nil), want: "verified"},
		"no subject":                {breaks: set("sub", ""), want: "no subject"},
		"another key":               {breaks: func(f *idp.Forger) { f.Sign = f.SignWithOther }, want: "verify"},
		"no signature":              {breaks: func(f *idp.Forger) { f.Sign = f.SignNone }, want: "verify"},
		"the secret as a key":       {breaks: func(f *idp.Forger) { f.Sign = f.SignHS256 }, want: "verify"},
		"another issuer's metadata": {breaks: func(f *idp.Forger) {
			f.Metadata = func(m map[string]any) { m["issuer"] = "https://evil.example" }
		}, want: "metadata"},
		"a provider that publishes no time of the sign-in": {breaks: func(f *idp.Forger) {
			set("auth_time", nil)(f)
			f.Metadata = func(m map[string]any) { m["claims_supported"] = []string{"sub", "email"} }
		}},
		"the address by UserInfo": {breaks: func(f *idp.Forger) {
			set("email", nil)(f)
			f.UserInfo = map[string]any{"sub": "7", "email": "ada@acme.example", "email_verified": true}
		}},
		"another person by UserInfo": {breaks: func(f *idp.Forger) {
			set("email", nil)(f)
			f.UserInfo = map[string]any{"sub": "8", "email": "ada@acme.example", "email_verified": true}
		}, want: "another person"},
		"no address": {breaks: func(f *idp.Forger) {
			set("email", nil)(f)
			f.UserInfo = map[string]any{"sub": "7", "email_verified": true}
		}, want: "email"},
	} {
		t.Run(name, func(t *testing.T) {
			f := idp.Forge(t)
			p := sso.Provider{Issuer: f.Issuer, ClientID: idp.ClientID, ClientSecret: idp.ClientSecret}
			token := identity.NewLinkToken()
			to, err := client().AuthURL(t.Context(), p, redirectURL, token)
			if err != nil {
				t.Fatal(err)
			}
			if c.breaks != nil {
				c.breaks(f)
			}
			answer := f.Authorize(to)
			if c.answer != nil {
				c.answer(answer)
			}
			who, err := client().Finish(t.Context(), p, redirectURL, token, answer)
			switch {
			case c.want == "" && (err != nil || who.Subject != "7" || who.Email != "ada@acme.example"):
				t.Errorf("%+v %v", who, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%+v %v, want an error with %q", who, err, c.want)
			}
		})
	}
}
