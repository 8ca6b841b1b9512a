// Package platform lets an app create companies and act for them: the accounts of the platform's own customers.
//
// An app whose API key has the scope p_companies creates a company with the invitation of its first owner. The
// company is connected to the platform: the app gets tokens for it, receives its events, and earns a fee on its
// payrolls.
//
//	connected → disconnected
//
// Invariants:
//
//   - An app sees and acts for the companies that it created, and no others.
//   - A platform never becomes a member. Its tokens last an hour, have at most the scopes of the app, and cannot
//     withdraw money or change members.
//   - The company can disconnect the platform at any time, and keeps its account. From then on the tokens do not work,
//     no event is sent, and new payrolls have no fee of the platform.
//   - The platform's fee is at most identity.MaxPlatformFeeBps. Each payroll keeps the fee with which it was created,
//     and each change is mailed to the owners and administrators.
//   - A link to the onboarding pages opens nothing by itself: the person must sign in as a member.
package platform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/webhook"
)

// The states of a connection.
const (
	Connected    = "connected"
	Disconnected = "disconnected"
)

// LinkLife is the lifetime of a link to the onboarding pages.
const LinkLife = 24 * time.Hour

// LinkPath is the path of the onboarding pages, which the token of a link follows.
const LinkPath = "/onboarding"

// Errors that callers see.
var (
	ErrUnverified = apierr.New(apierr.Forbidden, "kyc_required",
		"A platform creates companies once its own verification is approved. Complete that first.")
	ErrDisconnected = apierr.New(apierr.Conflict, "invalid_state",
		"The company has disconnected the platform. It keeps its account; you can no longer act for it.")
	// ErrExternalID has the ID of the company with the external ID in Meta "company_id".
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"A company with this external_id exists already.")
	errReturnURL = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"The return_url must be an absolute https URL without fragment, user name or wildcard. In the sandbox it may also "+
			"use http on localhost.")
	errScope = apierr.New(apierr.Invalid, "invalid_parameter",
		"The scopes are unknown or exceed those of the app. A platform's token cannot have p_companies.")
)

// Service creates and connects companies.
type Service struct {
	Sealer *identity.Sealer
	Env    identity.Environment
	// Contract has the fees of new companies.
	Contract identity.NewCompany
	// BaseURL is the address of the pages, for links to them. It is empty in a process that serves no API.
	BaseURL string
	// AllowUnverified lets companies that are not verified be platforms.
	AllowUnverified bool
}

// New returns the service. It returns an error without a sealer or environment.
func New(s Service) (*Service, error) {
	if s.Sealer == nil || s.Env == "" {
		return nil, errors.New("platform: Sealer and Env are required")
	}
	return &s, nil
}

// Company is a company that a platform created.
type Company struct {
	identity.Company

	AppID      string
	ExternalID string // the platform's reference, "" for none
	ReturnURL  string // where the onboarding pages return to, "" for none
	State      string
	Created    time.Time
	Ended      time.Time // when the company disconnected the platform; zero while it is connected

	owner, grantID string // owner is the company of the platform
	version        int64
}

// Platform returns the ID of the company that runs the platform.
func (c Company) Platform() string { return c.owner }

// NewCompany contains what a platform says about a company that it creates.
type NewCompany struct {
	Name, Country, Email, Website string
	OwnerEmail                    string // address of the first owner, who is invited
	Language                      string // of the invitation, "" for that of the country
	ExternalID                    string
	ReturnURL                     string
	FeeBps                        int64
}

// acrossConnected returns the context of what a platform does for companies that connected it.
func acrossConnected(ctx context.Context) context.Context {
	return db.AcrossCompanies(ctx, "a platform acts for other companies; each statement follows a check of the connection")
}

// Create creates a company that is connected to the principal's app, and invites its first owner.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, n NewCompany) (Company, error) {
	ctx = acrossConnected(ctx)
	owner, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return Company{}, err
	}
	if owner.KYBStatus != identity.KYBApproved && !s.AllowUnverified {
		return Company{}, ErrUnverified
	}
	terms := s.Contract
	terms.Name, terms.Country, terms.Email, terms.Website = n.Name, n.Country, n.Email, n.Website
	terms.PlatformID, terms.PlatformFeeBps = owner.ID, n.FeeBps
	if err := s.check(terms, n); err != nil {
		return Company{}, err
	}
	if n.ExternalID != "" {
		existing, err := findExternal(ctx, tx, by.AppID, n.ExternalID)
		if err == nil {
			return Company{}, ErrExternalID.Set("company_id", existing.ID).At("body", "/external_id")
		}
		if !errors.Is(err, apierr.NotFoundErr) {
			return Company{}, err
		}
	}
	app, err := identity.AppByID(ctx, tx, by.CompanyID, by.AppID)
	if err != nil {
		return Company{}, err
	}
	c := Company{AppID: app.ID, ExternalID: n.ExternalID, ReturnURL: n.ReturnURL, State: Connected, Created: tx.Now(),
		owner: owner.ID, version: 1}
	if c.Company, err = identity.CreateCompany(ctx, tx, terms); err != nil {
		return c, err
	}
	db.History(tx, c.ID, c.ID, c.Version, "", c.Status, "created by "+app.ID)
	g, err := identity.CreateGrant(ctx, tx, identity.Grant{CompanyID: c.ID, AppID: app.ID,
		Scopes: app.Scopes & identity.GrantableScopes()})
	if err != nil {
		return c, err
	}
	c.grantID = g.ID
	if err := insert(ctx, tx, c); err != nil {
		return c, err
	}
	if err := emit(tx, c, webhook.PlatformCompanyCreated, ""); err != nil {
		return c, err
	}
	_, err = auth.InviteOwner(ctx, tx, s.Sealer, c.ID, n.OwnerEmail, language(n.Language, c.Country), app.ID)
	return c, located(err)
}

// check returns an error that lists all problems of a new company.
func (s *Service) check(terms identity.NewCompany, n NewCompany) error {
	var problems apierr.List
	terms.Check(&problems)
	if _, err := auth.Invitable(n.OwnerEmail); err != nil {
		if err := problems.AddErr(err, "/owner_email"); err != nil {
			return err
		}
	}
	if err := s.checkReturn(n.ReturnURL); err != nil {
		if err := problems.AddErr(err, "/return_url"); err != nil {
			return err
		}
	}
	return problems.Err()
}

// located names the field of the owner's address in an error about it.
func located(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 1 && f.Fields[0].Pointer == "/email" {
		owner := *f
		owner.Fields = nil
		return owner.At("body", "/owner_email")
	}
	return err
}

func orElse(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func language(tag, country string) string {
	if tag != "" {
		return tag
	}
	return mail.LanguageOf(country)
}

func (s *Service) checkReturn(url string) error {
	if url != "" && !identity.RedirectAllowed(url, s.Env) {
		return errReturnURL.At("body", "/return_url")
	}
	return nil
}

// Get returns a company that the principal's app created, or apierr.NotFoundErr.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (Company, error) {
	ctx = acrossConnected(ctx)
	c, err := find(ctx, tx, companyID)
	if err == nil && (c.AppID != by.AppID || c.owner != by.CompanyID) {
		err = apierr.NotFoundErr
	}
	return c, err
}

// connected returns a connected company of the principal's app for a change, or ErrDisconnected.
func (s *Service) connected(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (Company, error) {
	if err := lock(ctx, tx, companyID); err != nil {
		return Company{}, err
	}
	c, err := s.Get(ctx, tx, by, companyID)
	if err == nil && c.State != Connected {
		err = ErrDisconnected
	}
	return c, err
}

// Filter selects companies of a platform. Empty fields select all.
type Filter struct {
	State, ExternalID, KYBStatus string
	Page                         db.Page
}

// List returns the companies that the principal's app created, newest first, and the number on all pages.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, f Filter) ([]Company, int64, error) {
	ctx = acrossConnected(ctx)
	return list(ctx, tx, by, f)
}

// SetFee changes the fee of a platform on the payrolls that a connected company creates from now on.
func (s *Service) SetFee(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, bps int64) (
	Company, error) {
	ctx = acrossConnected(ctx)
	c, err := s.connected(ctx, tx, by, companyID)
	if err != nil || c.PlatformFeeBps == bps {
		return c, err
	}
	if bps < 0 || bps > identity.MaxPlatformFeeBps {
		return c, apierr.New(apierr.Invalid, "invalid_parameter",
			"The fee is in hundredths of a percent and must be from 0 to 1000.").At("body", "/fee_bps")
	}
	before := c.PlatformFeeBps
	c.PlatformFeeBps = bps
	if err := identity.SetPlatform(ctx, tx, c.ID, c.owner, bps); err != nil {
		return c, err
	}
	app, err := identity.AppWithID(ctx, tx, c.AppID)
	if err != nil {
		return c, err
	}
	if err := update(ctx, tx, &c); err != nil {
		return c, err
	}
	if err := emit(tx, c, webhook.PlatformCompanyUpdate, ""); err != nil {
		return c, err
	}
	detail := fmt.Sprintf("%s: %s %% → %s %%", app.Name, percent(before), percent(bps))
	return c, auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), c.ID, mail.PlatformFeeChanged, detail)
}

// percent formats hundredths of a percent.
func percent(bps int64) string {
	return strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%d.%02d", bps/100, bps%100), "0"), ".0")
}

// Invite invites the first owner again, at the same or another address. Earlier invitations stop working. It returns
// auth.ErrMember once the company has members.
func (s *Service) Invite(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, email, tag string) (
	auth.Invitation, error) {
	ctx = acrossConnected(ctx)
	c, err := s.connected(ctx, tx, by, companyID)
	if err != nil {
		return auth.Invitation{}, err
	}
	v, err := auth.InviteOwner(ctx, tx, s.Sealer, c.ID, email, language(tag, c.Country), c.AppID)
	return v, located(err)
}

// Token is an access token with which a platform acts for a company.
type Token struct {
	Token  string
	Scopes identity.Scopes
	Life   time.Duration
}

// IssueToken returns a token for a connected company, valid for an hour, with the scopes separated by spaces, or all of
// the app if scopes is empty.
func (s *Service) IssueToken(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, scopes string) (
	Token, error) {
	ctx = acrossConnected(ctx)
	c, err := s.connected(ctx, tx, by, companyID)
	if err != nil {
		return Token{}, err
	}
	g, err := identity.GrantByID(ctx, tx, c.ID, c.grantID)
	if err != nil {
		return Token{}, err
	}
	app, err := identity.AppByID(ctx, tx, by.CompanyID, by.AppID)
	if err != nil {
		return Token{}, err
	}
	g.Scopes = app.Scopes & identity.GrantableScopes() // the app may have gained scopes since
	t := Token{Scopes: g.Scopes, Life: oauth.MoneyLife}
	if scopes != "" {
		requested, known := identity.ParseScopes(scopes)
		if !known || !requested.Within(g.Scopes) || requested == 0 {
			return t, errScope.At("body", "/scope")
		}
		t.Scopes = requested
	}
	_, t.Token, err = identity.CreateAccessToken(ctx, tx, s.Env, identity.NewAccessToken{
		CompanyID: c.ID, AppID: c.AppID, Scopes: t.Scopes, GrantID: g.ID, Life: t.Life})
	return t, err
}

// Link returns a link to the onboarding pages of a connected company, which lead back to returnURL or, if it is empty,
// to that of the company.
func (s *Service) Link(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, returnURL string) (
	url string, expires time.Time, err error) {
	ctx = acrossConnected(ctx)
	c, err := s.connected(ctx, tx, by, companyID)
	if err != nil {
		return "", expires, err
	}
	if err := s.checkReturn(returnURL); err != nil {
		return "", expires, err
	}
	if returnURL != "" && returnURL != c.ReturnURL {
		c.ReturnURL = returnURL
		if err := update(ctx, tx, &c); err != nil {
			return "", expires, err
		}
	}
	token := identity.NewLinkToken()
	expires = tx.Now().Add(LinkLife)
	return s.BaseURL + LinkPath + "/" + token, expires, insertLink(ctx, tx, identity.LinkDigest(token), c.ID, expires)
}

// Find returns the company of a link to the onboarding pages. A link that is unknown or has expired, or whose company
// has disconnected the platform, is apierr.NotFoundErr.
func Find(ctx context.Context, tx *db.Tx, token string) (Company, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Company{}, apierr.NotFoundErr
	}
	ctx = db.AcrossCompanies(ctx, "members of other companies open links, too; the secret token names one company")
	id, err := selectLink(ctx, tx, digest)
	if err != nil {
		return Company{}, err
	}
	c, err := find(ctx, tx, id)
	if err == nil && c.State != Connected {
		err = apierr.NotFoundErr
	}
	return c, err
}

// Of returns the connection of a company, for its own pages. connected is false if no platform is connected to it.
func Of(ctx context.Context, tx *db.Tx, companyID string) (c Company, app identity.App, connected bool, err error) {
	c, err = find(ctx, tx, companyID)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && c.State != Connected {
		return Company{}, app, false, nil
	}
	if err != nil {
		return c, app, false, err
	}
	app, err = identity.AppWithID(ctx, tx, c.AppID)
	return c, app, err == nil, err
}

// Disconnect ends the connection of a company to its platform, for an owner or administrator.
func Disconnect(ctx context.Context, tx *db.Tx, by auth.Actor) error {
	version, members, err := auth.Lock(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if !identity.Administers(members.Role(by.UserID)) {
		return auth.ErrRole
	}
	c, app, connected, err := Of(ctx, tx, by.CompanyID)
	if err != nil || !connected {
		return orElse(err, apierr.NotFoundErr)
	}
	db.History(tx, c.ID, c.ID, version, "", "", "platform: disconnected "+c.AppID+" by "+by.UserID)
	c.State, c.Ended, c.PlatformFeeBps = Disconnected, tx.Now(), 0
	if err := update(ctx, tx, &c); err != nil {
		return err
	}
	return errors.Join(identity.RevokeGrant(ctx, tx, c.ID, c.grantID), identity.SetPlatform(ctx, tx, c.ID, "", 0),
		deleteLinks(ctx, tx, c.ID), emit(tx, c, webhook.PlatformCompanyUpdate, Connected),
		auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), c.ID, mail.PlatformDisconnected, app.Name))
}

// emit emits an event of the platform's own company.
func emit(tx *db.Tx, c Company, t webhook.Type[webhook.PlatformCompanyData], before string) error {
	return webhook.Emit(tx, t.Event(c.owner, c.ID, c.version, webhook.PlatformCompanyData{
		CompanyID: c.ID, ExternalID: c.ExternalID, Status: c.State, PreviousStatus: before, FeeBps: c.PlatformFeeBps,
	}))
}

// Forget deletes links that have expired.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, deleteExpired)
}
