package ui

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
)

// RequiresFactor reports whether acting for a company requires a second factor. Seeded companies of a sandbox do
// not.
func (s *Server) RequiresFactor(companyID string) bool {
	return companyID != "" && !slices.Contains(s.SeededCompanies, companyID)
}

// missingFactor returns the factor that rt requires and the session has not proven, or PasswordOnly if nothing is
// missing. On the pages of their own account, a user without a second factor needs none; to set one up, they must
// have signed in recently.
func (c *Request) missingFactor(ctx context.Context, tx *db.Tx, rt Route) (Factor, error) {
	switch {
	case rt.Factor == PasswordOnly,
		rt.Factor == ProvenFactor && c.Session.Proven(),
		rt.Factor == FreshFactor && c.Session.ProvenFreshly(c.Time),
		rt.Access >= Member && !c.RequiresFactor(c.Session.Company.ID):
		return PasswordOnly, nil
	case rt.Access >= Member:
		return rt.Factor, nil
	}
	codes, keys, err := c.FactorMethods(ctx, tx)
	if !codes && !keys && (!rt.Enrolls || c.Session.SignedInFreshly(c.Time)) {
		return PasswordOnly, err
	}
	return rt.Factor, err
}

// FactorMethods reports which second factors the user has: authenticator codes and passkeys.
func (c *Request) FactorMethods(ctx context.Context, tx *db.Tx) (codes, keys bool, err error) {
	if codes, err = auth.HasFactor(ctx, tx, c.Session.User.ID); err != nil {
		return false, false, err
	}
	all, err := auth.Passkeys(ctx, tx, c.Session.User.ID)
	return codes, len(all) > 0, err
}

// ProofURL returns the URL of the second-factor page that then returns to this page, or to the page of this form.
func (c *Request) ProofURL() string {
	next := c.HTTP.URL.RequestURI()
	if c.HTTP.Method != http.MethodGet {
		next = c.pageOf(c.HTTP.URL.Path)
	}
	return ProofPath(next)
}

// ProofPath returns the URL of the second-factor page that then redirects to next.
func ProofPath(next string) string { return "/account/proof?" + url.Values{"next": {next}}.Encode() }

// pageOf returns the nearest path at or above a path that has a page.
func (s *Server) pageOf(at string) string {
	for ; at != "/"; at = path.Dir(at) {
		if _, pattern := s.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: at}}); pattern != "/" {
			return at
		}
	}
	return "/account"
}
