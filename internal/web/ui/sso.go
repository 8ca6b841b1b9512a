package ui

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/auth/sso"
)

// SSOPage is the page on which a person begins to sign in by their company's OpenID provider.
const SSOPage = "/sign-in/sso"

// SSOPath returns the URL of [SSOPage] that then redirects to next.
func SSOPath(next string) string { return SSOPage + "?" + url.Values{"next": {next}}.Encode() }

// SSORedirectURL returns the URL to which the OpenID provider of a company sends people back. Each company has its own,
// so that an answer of one provider cannot be taken for that of another.
func (s *Server) SSORedirectURL(companyID string) string {
	return s.origin() + SSOPage + "/" + companyID + "/callback"
}

// StaffSSOPath is the page that sends staff to the operator's OpenID provider.
const StaffSSOPath = StaffSignInPath + "/sso"

// StaffSSORedirectURL returns the URL to which the operator's OpenID provider sends staff back.
func (s *Server) StaffSSORedirectURL() string { return s.origin() + StaffSSOPath + "/callback" }

// origin returns the public URL of the pages without a slash at its end.
func (s *Server) origin() string { return strings.TrimRight(s.BaseURL, "/") }

func (s *Server) ssoCookieName() string { return strings.Replace(s.cookieName(), "session", "sso", 1) }

// SSOToken returns the token of a sign-in that waits for an OpenID provider, or "".
func (c *Request) SSOToken() string {
	if k, err := c.HTTP.Cookie(c.ssoCookieName()); err == nil {
		return k.Value
	}
	return ""
}

// SSOCookie returns the cookie of a sign-in that waits for an OpenID provider. An empty token deletes it. Browsers send
// it when the provider leads the person back.
func (s *Server) SSOCookie(token string) *http.Cookie {
	k := s.SessionCookie(token) //nolint:gosec // Secure and HttpOnly as that one is
	k.Name = s.ssoCookieName()
	if token != "" {
		k.MaxAge = int(sso.AttemptLife.Seconds())
	}
	return k
}

// HasSSOFormToken reports whether the posted form carries the token of the sign-in that waits.
func (c *Request) HasSSOFormToken() bool {
	return c.SSOToken() != "" &&
		subtle.ConstantTimeCompare([]byte(c.Form.Get("form_token")), []byte(FormToken(c.SSOToken()))) == 1
}

// FormSchemeOf returns the scheme for [View.FormScheme] of a page whose form leads to an OpenID provider: https, or
// http in a sandbox without TLS.
func (s *Server) FormSchemeOf() string {
	if s.secure() {
		return "https"
	}
	return "http"
}

// LimitAnonymous counts a GET request that writes or calls another service for a person who is not signed in, as posted
// forms are counted, and returns an error above the limit.
func (c *Request) LimitAnonymous() error {
	return c.AnonymousLimiter.Allow(c.Now(), session.Network(c.RemoteAddr()).String(), http.Header{})
}
