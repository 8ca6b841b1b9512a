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

// RequiresFactor says whether acting for a company needs a second factor.
func (s *Server) RequiresFactor(companyID string) bool {
	return companyID != "" && !slices.Contains(s.SeededCompanies, companyID)
}

// missingFactor is what a route asks of the second factor and the reader has not given. Their own account is theirs to guard: where they
// have no second factor, it asks for none; to get one, for a fresh sign-in.
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

// FactorMethods are how the reader can show a second factor.
func (c *Request) FactorMethods(ctx context.Context, tx *db.Tx) (codes, keys bool, err error) {
	if codes, err = auth.HasFactor(ctx, tx, c.Session.User.ID); err != nil {
		return false, false, err
	}
	all, err := auth.Passkeys(ctx, tx, c.Session.User.ID)
	return codes, len(all) > 0, err
}

// ProofURL is the page to show a second factor that leads back here: to this page or, from a form, to the page that it is on.
func (c *Request) ProofURL() string {
	next := c.HTTP.URL.RequestURI()
	if c.HTTP.Method != http.MethodGet {
		next = c.pageOf(c.HTTP.URL.Path)
	}
	return ProofPath(next)
}

// ProofPath returns the page that asks for the second factor and then leads to next.
func ProofPath(next string) string { return "/account/proof?" + url.Values{"next": {next}}.Encode() }

// pageOf is the nearest page at or above a path.
func (s *Server) pageOf(at string) string {
	for ; at != "/"; at = path.Dir(at) {
		if _, pattern := s.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: at}}); pattern != "/" {
			return at
		}
	}
	return "/account"
}
