package sso

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/identity"
)

// maxAge is the maximum age of a sign-in at the provider. The provider asks a person who signed in earlier to sign in
// again.
const maxAge = session.FreshSignIn

// leeway is the permitted difference between the clocks of the provider and this service.
const leeway = time.Minute

// Provider contains this service's registration as a client of an OpenID provider.
type Provider struct{ Issuer, ClientID, ClientSecret string }

// Identity is a person whom a provider has authenticated. The provider has stated that the email address is verified.
type Identity struct{ Issuer, Subject, Email, GivenName, FamilyName string }

// Client sends people to OpenID providers and processes the responses. It implements the authorization code flow of
// OpenID Connect Core with PKCE.
type Client struct {
	// HTTP sends requests to providers. It must not follow redirects. Unless the operator runs the providers, it must
	// refuse addresses inside the operator's network.
	HTTP *http.Client
	// Now returns the real time.
	Now func() time.Time
}

// attempt contains the secrets of one sign-in. They are derived from the token in the browser's cookie; only the
// token's digest is stored.
type attempt struct{ state, nonce, verifier string }

func attemptOf(token string) attempt {
	derive := func(purpose string) string { return identity.Digest("single sign-on " + purpose + " of " + token) }
	return attempt{derive("state"), derive("nonce"), derive("verifier")}
}

// connect reads the provider's metadata. It returns an error if the metadata names another issuer.
func (c *Client) connect(ctx context.Context, p Provider, redirectURL string) (context.Context, *oidc.Provider,
	oauth2.Config, error) {
	ctx = oidc.ClientContext(ctx, c.HTTP)
	provider, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		return ctx, nil, oauth2.Config{}, fmt.Errorf("sso: read the metadata of %s: %w", p.Issuer, err)
	}
	return ctx, provider, oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: redirectURL,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}, nil
}

// Check returns an error if the provider's metadata cannot be read.
func (c *Client) Check(ctx context.Context, p Provider) error {
	_, provider, _, err := c.connect(ctx, p, "")
	if err != nil {
		return err
	}
	e := provider.Endpoint()
	for _, text := range []string{e.AuthURL, e.TokenURL} {
		if u, err := url.Parse(text); err != nil || u.Host == "" {
			return fmt.Errorf("sso: the metadata of %s has no valid endpoints", p.Issuer)
		}
	}
	return nil
}

// AuthURL returns the provider's URL at which a person signs in. The token identifies the attempt.
func (c *Client) AuthURL(ctx context.Context, p Provider, redirectURL, token string) (string, error) {
	_, _, config, err := c.connect(ctx, p, redirectURL)
	if err != nil {
		return "", err
	}
	a := attemptOf(token)
	return config.AuthCodeURL(a.state, oidc.Nonce(a.nonce), oauth2.S256ChallengeOption(a.verifier),
		oauth2.SetAuthURLParam("max_age", fmt.Sprint(int(maxAge.Seconds())))), nil
}

// claims are the claims that this service reads in an ID token or in the response of the UserInfo endpoint.
type claims struct {
	Email      string   `json:"email"`
	Verified   verified `json:"email_verified"`
	GivenName  string   `json:"given_name"`
	FamilyName string   `json:"family_name"`
	AuthTime   int64    `json:"auth_time"`
	Authorized string   `json:"azp"`
}

// verified is a boolean claim, which some providers send as a string.
type verified bool

// UnmarshalJSON stores true for true and "true", and false for everything else.
func (v *verified) UnmarshalJSON(text []byte) error {
	*v = string(text) == "true" || string(text) == `"true"`
	return nil
}

// Finish checks the provider's response to a sign-in and returns the person. It verifies the state, the issuer if the
// response names it, and the code with the PKCE verifier. In the ID token it verifies the signature, issuer,
// audience, authorized party, expiry, nonce, access token hash and time of authentication.
func (c *Client) Finish(ctx context.Context, p Provider, redirectURL, token string, answer url.Values) (Identity,
	error) {
	a := attemptOf(token)
	if subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.state)) != 1 {
		return Identity{}, errors.New("sso: the answer has another state")
	}
	if iss := answer.Get("iss"); iss != "" && iss != p.Issuer {
		return Identity{}, errors.New("sso: the answer is from another issuer")
	}
	if refused := answer.Get("error"); refused != "" || answer.Get("code") == "" {
		return Identity{}, fmt.Errorf("sso: the provider refused: %q", refused)
	}
	ctx, provider, config, err := c.connect(ctx, p, redirectURL)
	if err != nil {
		return Identity{}, err
	}
	tokens, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(a.verifier))
	if err != nil {
		return Identity{}, fmt.Errorf("sso: exchange the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	verifier := provider.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, Now: c.Now})
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Identity{}, fmt.Errorf("sso: verify the ID token: %w", err)
	}
	var found claims
	if err := id.Claims(&found); err != nil {
		return Identity{}, err
	}
	if err := c.checkToken(id, found, p, a, tokens.AccessToken, claimsSupported(provider)); err != nil {
		return Identity{}, err
	}
	if found.Email == "" { // only the UserInfo endpoint may return it
		info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err != nil {
			return Identity{}, fmt.Errorf("sso: read the UserInfo endpoint: %w", err)
		}
		if info.Subject != id.Subject {
			return Identity{}, errors.New("sso: the UserInfo endpoint described another person")
		}
		if err := info.Claims(&found); err != nil {
			return Identity{}, err
		}
	}
	if id.Subject == "" || found.Email == "" {
		return Identity{}, errors.New("sso: the provider names no subject or email address")
	}
	if !found.Verified {
		return Identity{}, errNotVerified
	}
	return Identity{p.Issuer, id.Subject, found.Email, found.GivenName, found.FamilyName}, nil
}

// checkToken makes the checks of an ID token that the library leaves to its callers.
func (c *Client) checkToken(id *oidc.IDToken, found claims, p Provider, a attempt, access string,
	supported []string) error {
	now := c.Now()
	switch {
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.nonce)) != 1:
		return errors.New("sso: the ID token has another nonce")
	case len(id.Audience) > 1 && found.Authorized == "", found.Authorized != "" && found.Authorized != p.ClientID:
		return errors.New("sso: the ID token was issued to another client")
	case id.IssuedAt.After(now.Add(leeway)):
		return errors.New("sso: the ID token was issued in the future")
	case found.AuthTime == 0 && (len(supported) == 0 || slices.Contains(supported, "auth_time")):
		return errors.New("sso: the ID token has no auth_time, which max_age requires")
	case found.AuthTime != 0 && now.Sub(time.Unix(found.AuthTime, 0)) > maxAge+leeway:
		return errors.New("sso: the person signed in at the provider too long ago")
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(access); err != nil {
			return fmt.Errorf("sso: %w", err)
		}
	}
	return nil
}

// claimsSupported returns the names of the claims that the provider's metadata lists, or nil if it lists none.
func claimsSupported(provider *oidc.Provider) []string {
	var metadata struct {
		Claims []string `json:"claims_supported"`
	}
	if provider.Claims(&metadata) != nil {
		return nil
	}
	return metadata.Claims
}
