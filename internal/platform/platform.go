// Package platform lets an app, called a platform, create companies for its own customers and act for them.
//
// An app whose API key has the scope p_companies creates a company and invites its first owner. The company is
// connected to the platform: the app gets tokens for the company, receives the company's events, and earns a fee on
// the company's payrolls.
//
//	connected → disconnected
//
// Invariants:
//
//   - An app sees and acts for only the companies that it created.
//   - A platform never becomes a member. Its tokens last an hour, have at most the scopes of the app, and cannot
//     withdraw money or change members.
//   - The company can disconnect the platform at any time and keeps its account. After that, the platform's tokens are
//     invalid, the platform receives no events of the company, and new payrolls have no platform fee.
//   - The platform's fee is at most identity.MaxPlatformFeeBps. Each payroll keeps the fee with which it was created,
//     and each change of the fee is mailed to the owners and administrators.
//   - A link to the onboarding pages gives no access by itself: the person must sign in as a member.
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

// States of a connection.
const (
	Connected    = "connected"
	Disconnected = "disconnected"
)

// LinkLife is how long a link to the onboarding pages is valid.
const LinkLife = 24 * time.Hour

// LinkPath is the path of the onboarding pages. In a link, the token follows it.
const LinkPath = "/onboarding"

// Errors that callers receive.
var (
	ErrUnverified = apierr.New(apierr.Forbidden, "kyc_required",
		"A platform creates companies once its own verification is approved. Complete that first.")
	ErrDisconnected = apierr.New(apierr.Conflict, "invalid_state",
		"The company has disconnected the platform. It keeps its account; you can no longer act for it.")
	// ErrExternalID contains the ID of the company that has the external ID, as Meta "company_id".
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"A company with this external_id exists already.")
	errReturnURL = apierr.New(apierr.Invalid, "redirect_uri_invalid",
		"The return_url must be an absolute https URL without fragment, user name or wildcard. In the sandbox it may also "+
			"use http on localhost.")
	errScope = apierr.New(apierr.Invalid, "invalid_parameter",
		"The scopes are unknown or exceed those of the app. A platform's token cannot have p_companies.")
)

// Service creates companies that are connected to platforms.
type Service struct {
	Sealer *identity.Sealer
	Env    identity.Environment
	// Contract contains the fees of new companies.
	Contract identity.NewCompany
	// BaseURL is the address of the pages, for links. It is empty in a process that serves no API.
	BaseURL string
	// AllowUnverified permits companies that are not verified to run platforms.
	AllowUnverified bool
}

// New returns the service. It returns an error if the sealer or environment is missing.
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
	ExternalID string // the platform's own reference; "" for none
	ReturnURL  string // address to which the onboarding pages return; "" for none
	State      string
	Created    time.Time
	Ended      time.Time // when the company disconnected the platform; zero while it is connected

	owner, grantID string // owner is the company that runs the platform
	version        int64
}

// Platform returns the ID of the company that runs the platform.
func (c Company) Platform() string { return c.owner }

// NewCompany contains the data of a company that a platform creates.
type NewCompany struct {
	Name, Country, Email, Website string
	OwnerEmail                    string // email address of the first owner, who is invited
	Language                      string // language of the invitation; "" means the country's language
	ExternalID                    string
	ReturnURL                     string
	FeeBps                        int64
}

// acrossConnected returns a context for a platform's statements on companies that are connected to it.
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

// check returns an error that lists all problems with the data of a new company.
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

// located adds the field of the owner's email address to an error about that address.
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

// connected locks and returns a connected company that the principal's app created, or returns ErrDisconnected.
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

// Filter selects companies of a platform. Empty fields do not filter.
type Filter struct {
	State, ExternalID, KYBStatus string
	Page                         db.Page
}

// List returns a page of the companies that the principal's app created, newest first, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, f Filter) ([]Company, int64, error) {
	ctx = acrossConnected(ctx)
	return list(ctx, tx, by, f)
}

// SetFee changes the platform's fee on payrolls that a connected company creates from now on.
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

// percent formats basis points as a percentage.
func percent(bps int64) string {
	return strings.TrimSuffix(strings.TrimSuffix(fmt.Sprintf("%d.%02d", bps/100, bps%100), "0"), ".0")
}

// Invite sends another invitation to the first owner, at the same or another address. Earlier invitations stop
// working. Invite returns auth.ErrMember if the company already has members.
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

// IssueToken returns a token for a connected company, which is valid for an hour. scopes are separated by spaces; if
// the text is empty, the token has all scopes of the app.
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
	g.Scopes = app.Scopes & identity.GrantableScopes() // the app may have gained scopes since the company was created
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

// Link returns a link to the onboarding pages of a connected company. The pages lead back to returnURL or, if it is
// empty, to the return URL of the company.
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

// Find returns the company to which a link to the onboarding pages belongs. It returns apierr.NotFoundErr for a link
// that is unknown or expired, or whose company has disconnected the platform.
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

// Of returns a company's connection to a platform and the platform's app, for the company's own pages. connected is
// false if the company has no connected platform.
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

// Disconnect ends the connection of a company to its platform. The actor must be an owner or administrator.
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

// emit emits an event to the company that runs the platform.
func emit(tx *db.Tx, c Company, t webhook.Type[webhook.PlatformCompanyData], before string) error {
	return webhook.Emit(tx, t.Event(c.owner, c.ID, c.version, webhook.PlatformCompanyData{
		CompanyID: c.ID, ExternalID: c.ExternalID, Status: c.State, PreviousStatus: before, FeeBps: c.PlatformFeeBps,
	}))
}

// Forget deletes expired links.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, deleteExpired)
}
