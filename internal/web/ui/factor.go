package ui

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
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
	if c.HTTP.Method != http.MethodGet {
		return ProofPath(c.home() + "?" + resumeParameter + "=1")
	}
	return ProofPath(c.HTTP.URL.RequestURI())
}

// ProofPath returns the URL of the second-factor page that then redirects to next.
func ProofPath(next string) string { return "/account/proof?" + url.Values{"next": {next}}.Encode() }

// resumeParameter is the URL parameter of the page of a kept form.
const resumeParameter = "resume"

// keptForm is a form that was posted without the second factor it requires.
type keptForm struct {
	Page   string // path of the form's page
	Values url.Values
}

// keepForm stores the posted form, without secrets and files, so that its user need not enter it again after proving
// the second factor. It stores nothing if the server has no Sealer.
func (c *Request) keepForm() error {
	if c.Sealer == nil || c.Session == nil {
		return nil
	}
	k := keptForm{Page: c.home(), Values: maps.Clone(c.Form)}
	for _, name := range []string{"form_token", "password", "new_password", "code"} {
		delete(k.Values, name)
	}
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return c.DB.Write(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) error {
		return session.KeepForm(ctx, tx, c.Sealer, *c.Session, data)
	})
}

// resumeForm fills the page's form with the values that keepForm stored.
func (c *Request) resumeForm(ctx context.Context, tx *db.Tx) error {
	if c.Sealer == nil || tx == nil || c.HTTP.Method != http.MethodGet || c.Query(resumeParameter) == "" {
		return nil
	}
	data, err := session.KeptForm(ctx, tx, c.Sealer, *c.Session)
	if err != nil || data == nil {
		return err
	}
	var k keptForm
	if err := json.Unmarshal(data, &k); err != nil {
		return err
	}
	if k.Page == c.HTTP.URL.EscapedPath() {
		c.Form, c.resumed = k.Values, true
	}
	return nil
}
