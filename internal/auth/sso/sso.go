// Package sso signs people in with OpenID Connect: members of companies that registered their provider, and the
// operator's staff.
//
// A company registers its provider, and proves with a DNS record that it owns an email domain. A person whom the
// provider authenticates can sign in if the provider states that their email address is verified, the address is in
// such a domain, and the person is a member of the company or was invited to it. The first sign-in stores the
// provider's ID of the account, so that another account with the same address is rejected later.
//
// The provider replaces only the password. A person with a second factor must still present it, whatever the provider
// required, because this service cannot check that.
//
// If a company enforces single sign-on, its members with an address in one of its domains cannot sign in in another
// way: package session refuses to start such a session. If the company's provider is no longer available, the
// operator can end the enforcement with a command.
//
// Requests to providers are made outside transactions. The package does not depend on pages or cookies.
package sso

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// AttemptLife is the time within which a person must return from the provider.
const AttemptLife = 10 * time.Minute

// MaxDomains is the maximum number of email domains of a company.
const MaxDomains = 20

// RecordPrefix precedes the domain in the name of the DNS TXT record with which a company proves that it owns the
// domain. The record's value is the company's ID.
const RecordPrefix = "_stipend."

// Errors that people see.
var (
	ErrUnknownDomain = apierr.New(apierr.Invalid, "sso_unknown",
		"No company has set up single sign-on for this address. Sign in with your password.")
	ErrFailed = apierr.New(apierr.Forbidden, "sso_failed",
		"Single sign-on did not succeed. Start again from the sign-in page.")
	ErrProvider = apierr.New(apierr.Invalid, "sso_provider",
		"The settings of this provider could not be read. Check the issuer URL.")
	errNotVerified = apierr.New(apierr.Forbidden, "sso_email_unverified",
		"Your provider does not say that your email address is verified. Ask your administrator.")
	errNoMember = apierr.New(apierr.Forbidden, "sso_no_member",
		"You are not a member of this company. Ask an administrator to invite you with this address.")
	errOtherAccount = apierr.New(apierr.Forbidden, "sso_other_account",
		"Another account at your provider signed in with this address before. Ask your administrator.")
	errDomain = apierr.New(apierr.Invalid, "invalid_parameter", "Enter an email domain, such as example.com.")
	errTaken  = apierr.New(apierr.Conflict, "sso_domain_taken", "Another company has proved that this domain is its own.")
	errRecord = apierr.New(apierr.Conflict, "sso_record_missing",
		"The DNS record was not found. Changes of DNS can take an hour. Then check again.")
	errDomains = apierr.New(apierr.Conflict, "invalid_state", "This company has 20 domains. Remove one first.")
	errProof   = apierr.New(apierr.Conflict, "sso_not_tried",
		"Sign in with single sign-on first. This shows that it works before passwords are refused.")
)

// Connection is a company's registration of its OpenID provider.
type Connection struct {
	CompanyID, Issuer, ClientID string
	Enforced                    bool
	Domains                     []Domain

	sealed string
}

// Domain is an email domain of a company.
type Domain struct {
	Name     string
	Verified bool
}

// Service signs in members of companies. All fields except Reserved are required.
type Service struct {
	Client *Client
	Sealer *identity.Sealer
	// CheckIssuer returns an error for a URL that the service must not call.
	CheckIssuer func(text string) error
	// LookupTXT returns the DNS TXT records of a name.
	LookupTXT func(ctx context.Context, name string) ([]string, error)
	// Reserved allows domains that are reserved for tests (RFC 2606) without a DNS record. It is for the sandbox.
	Reserved bool
}

// New returns s, or an error if a required field is missing.
func New(s Service) (*Service, error) {
	if s.Client == nil || s.Client.HTTP == nil || s.Client.Now == nil || s.Sealer == nil || s.CheckIssuer == nil ||
		s.LookupTXT == nil {
		return nil, errors.New("sso: Client, Sealer, CheckIssuer and LookupTXT are required")
	}
	return &s, nil
}

func secretContext(companyID string) identity.SealContext {
	return identity.SealContext{Table: "sso_connections", Column: "client_secret", Row: companyID}
}

// provider returns the registration with its decrypted client secret.
func (s *Service) provider(n Connection) (Provider, error) {
	secret, err := s.Sealer.Open(secretContext(n.CompanyID), n.sealed)
	return Provider{n.Issuer, n.ClientID, string(secret)}, err
}

// administer locks the company's members. It returns an error unless the actor administers the company.
func administer(ctx context.Context, tx *db.Tx, by auth.Actor) (version int64, members auth.Team, err error) {
	version, members, err = auth.Lock(ctx, tx, by.CompanyID)
	if err == nil && !identity.Administers(members.Role(by.UserID)) {
		err = auth.ErrRole
	}
	return version, members, err
}

// changed adds an entry to the company's history and mails its administrators.
func changed(ctx context.Context, tx *db.Tx, by auth.Actor, version int64, what string) error {
	db.History(tx, by.CompanyID, by.CompanyID, version, "", "", "single sign-on: "+what+" by "+by.UserID)
	return auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), by.CompanyID, mail.SSOChanged, what)
}

// Validate normalizes and checks a registration, including with a request to the provider. kept reports whether the
// stored client secret is kept. Call Validate outside a transaction.
func (s *Service) Validate(ctx context.Context, p Provider, kept bool) (Provider, error) {
	var problems apierr.List
	p.Issuer, p.ClientSecret = strings.TrimSpace(p.Issuer), strings.TrimSpace(p.ClientSecret)
	p.ClientID = identity.Line(&problems, "/client_id", p.ClientID, 1, 500)
	if !kept || p.ClientSecret != "" {
		p.ClientSecret = identity.Line(&problems, "/client_secret", p.ClientSecret, 1, 1000)
	}
	if u, err := url.Parse(p.Issuer); err != nil || u.RawQuery != "" || u.Fragment != "" ||
		s.CheckIssuer(p.Issuer) != nil {
		problems.Add("invalid_parameter", "/issuer",
			"Enter the issuer URL of your provider: a public https address without parameters.")
	}
	if err := problems.Err(); err != nil {
		return p, err
	}
	if err := s.Client.Check(ctx, p); err != nil {
		return p, ErrProvider.At("body", "/issuer")
	}
	return p, nil
}

// Connect stores a registration that [Service.Validate] has checked. If the issuer or the client changes, it ends the
// sessions that were started through the old provider, deletes the stored account IDs, and ends the enforcement. An
// empty client secret keeps the stored one.
func (s *Service) Connect(ctx context.Context, tx *db.Tx, by auth.Actor, p Provider) error {
	version, _, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	old, err := find(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	n := Connection{CompanyID: by.CompanyID, Issuer: p.Issuer, ClientID: p.ClientID, sealed: old.sealed}
	if p.ClientSecret != "" {
		if n.sealed, err = s.Sealer.Seal(secretContext(by.CompanyID), []byte(p.ClientSecret)); err != nil {
			return err
		}
	}
	if n.sealed == "" {
		return apierr.New(apierr.Invalid, "missing_field", "This field is required.").At("body", "/client_secret")
	}
	if n.Enforced = old.Enforced && old.Issuer == n.Issuer && old.ClientID == n.ClientID; old.Issuer != n.Issuer {
		if err := forget(ctx, tx, by.CompanyID); err != nil {
			return err
		}
	}
	if err := upsert(ctx, tx, n); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, "provider "+n.Issuer)
}

// forget ends the sessions that were started through the company's provider, and deletes the stored account IDs.
func forget(ctx context.Context, tx *db.Tx, companyID string) error {
	return errors.Join(session.EndSSO(ctx, tx, companyID), deleteIdentities(ctx, tx, companyID))
}

// Disconnect deletes a company's provider and domains, and ends the sessions that were started through the provider.
func (s *Service) Disconnect(ctx context.Context, tx *db.Tx, by auth.Actor) error {
	version, _, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	if err := errors.Join(forget(ctx, tx, by.CompanyID), deleteConnection(ctx, tx, by.CompanyID)); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, "removed")
}

// Find returns the provider of a company. The result has no issuer if the company has no provider.
func Find(ctx context.Context, tx *db.Tx, companyID string) (Connection, error) {
	n, err := find(ctx, tx, companyID)
	if err != nil {
		return n, err
	}
	n.Domains, err = domains(ctx, tx, companyID)
	return n, err
}

// domainName matches a lowercase domain name with at least two labels.
var domainName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]{0,61}[a-z0-9]$`)

// AddDomain adds an email domain, which has no effect until [Service.VerifyDomain].
func (s *Service) AddDomain(ctx context.Context, tx *db.Tx, by auth.Actor, name string) error {
	version, _, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "@")
	if len(name) > 253 || !domainName.MatchString(name) {
		return errDomain.At("body", "/domain")
	}
	all, err := domains(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if len(all) >= MaxDomains {
		return errDomains.At("body", "/domain")
	}
	if slices.ContainsFunc(all, func(d Domain) bool { return d.Name == name }) {
		return nil
	}
	if err := insertDomain(ctx, tx, by.CompanyID, name); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, "domain "+name+" added")
}

// RemoveDomain deletes an email domain. People with an address in the domain can no longer sign in through the
// provider, and are no longer required to.
func (s *Service) RemoveDomain(ctx context.Context, tx *db.Tx, by auth.Actor, name string) error {
	version, _, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	if err := deleteDomain(ctx, tx, by.CompanyID, name); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, "domain "+name+" removed")
}

// reserved matches domains that nobody can own (RFC 2606).
var reserved = regexp.MustCompile(`(^|\.)(example(\.com|\.net|\.org)?|test|invalid)$`)

// Proven returns an error unless the DNS contains the record with which a company proves that it owns a domain. Call
// it outside a transaction, before [Service.VerifyDomain].
func (s *Service) Proven(ctx context.Context, companyID, name string) error {
	if s.Reserved && reserved.MatchString(name) {
		return nil
	}
	if !domainName.MatchString(name) {
		return errDomain
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	records, err := s.LookupTXT(ctx, RecordPrefix+name)
	if err != nil || !slices.Contains(records, companyID) {
		return errRecord
	}
	return nil
}

// VerifyDomain stores that a company has proved that it owns a domain.
func (s *Service) VerifyDomain(ctx context.Context, tx *db.Tx, by auth.Actor, name string) error {
	version, members, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	free, err := domainFree(ctx, tx, by.CompanyID, name)
	if err != nil {
		return err
	}
	if !free {
		return errTaken
	}
	if err := verifyDomain(ctx, tx, by.CompanyID, name); err != nil {
		return err
	}
	if err := endOthers(ctx, tx, by.CompanyID, members); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, "domain "+name+" verified")
}

// Enforce starts or stops requiring single sign-on from members with an address in a verified domain. When it starts,
// it ends their sessions that were started in another way. The actor must then have started the session in through
// the provider.
func (s *Service) Enforce(ctx context.Context, tx *db.Tx, by auth.Actor, in session.Session, enforced bool) error {
	version, members, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	if enforced && in.SSO != by.CompanyID {
		return errProof
	}
	if err := setEnforced(ctx, tx, by.CompanyID, enforced); err != nil {
		return err
	}
	what := "not required"
	if enforced {
		what = "required"
		if err := endOthers(ctx, tx, by.CompanyID, members); err != nil {
			return err
		}
	}
	return changed(ctx, tx, by, version, what)
}

// Unrequire ends a company's enforcement of single sign-on. The operator calls it if the company's provider is no
// longer available.
func Unrequire(ctx context.Context, tx *db.Tx, companyID string) error {
	n, err := find(ctx, tx, companyID)
	if err == nil && !n.Enforced {
		err = apierr.New(apierr.Conflict, "invalid_state", "The company does not require single sign-on.")
	}
	if err != nil {
		return err
	}
	if err := setEnforced(ctx, tx, companyID, false); err != nil {
		return err
	}
	return auth.NotifyAdministrators(ctx, tx, tx.NewID("evt"), companyID, mail.SSOChanged, "not required")
}

// endOthers ends the sessions of members who must sign in through the company's provider but did not.
func endOthers(ctx context.Context, tx *db.Tx, companyID string, members auth.Team) error {
	n, err := Find(ctx, tx, companyID)
	if err != nil || !n.Enforced {
		return err
	}
	for _, m := range members {
		if n.has(m.Email) {
			if err := session.EndWithoutSSO(ctx, tx, m.UserID); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether an address is in one of the company's verified domains.
func (n Connection) has(email string) bool {
	domain := identity.EmailDomain(email)
	return slices.ContainsFunc(n.Domains, func(d Domain) bool { return d.Verified && d.Name == domain })
}

// Ready contains the data that a page needs to send a person to the provider.
type Ready struct {
	CompanyID string
	Provider  Provider
}

// For returns the provider through which people with an email address sign in, or ErrUnknownDomain.
func (s *Service) For(ctx context.Context, tx *db.Tx, email string) (Ready, error) {
	companyID, err := companyOf(ctx, tx, identity.EmailDomain(email))
	if err != nil {
		return Ready{}, err
	}
	n, err := find(ctx, tx, companyID)
	if err != nil {
		return Ready{}, err
	}
	if n.Issuer == "" {
		return Ready{}, ErrUnknownDomain.At("body", "/email")
	}
	p, err := s.provider(n)
	return Ready{companyID, p}, err
}

// Begin stores the start of a sign-in and returns its token. The sign-in later continues at the path next. companyID
// is "" for staff.
func Begin(ctx context.Context, tx *db.Tx, companyID, next string) (token string, err error) {
	token = identity.NewLinkToken()
	return token, insertAttempt(ctx, tx, identity.LinkDigest(token), companyID, "", next)
}

// Take deletes the sign-in with a token, so that it works once. It returns the path at which to continue, and the
// company's provider. It returns ErrFailed for a token that is unknown, used, expired or belongs to another company.
func (s *Service) Take(ctx context.Context, tx *db.Tx, companyID, token string) (next string, r Ready, err error) {
	if companyID == "" {
		return "", Ready{}, ErrFailed
	}
	if _, next, err = takeAttempt(ctx, tx, identity.LinkDigest(token), companyID); err != nil {
		return "", Ready{}, err
	}
	n, err := find(ctx, tx, companyID)
	if err == nil && n.Issuer == "" {
		err = ErrFailed
	}
	if err != nil {
		return "", Ready{}, err
	}
	p, err := s.provider(n)
	return next, Ready{companyID, p}, err
}

// SignIn returns the user for a person whom the company's provider has authenticated. It makes an invited person a
// member.
func (s *Service) SignIn(ctx context.Context, tx *db.Tx, companyID string, who Identity) (u identity.User, err error) {
	n, err := Find(ctx, tx, companyID)
	if err != nil {
		return u, err
	}
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return u, err
	}
	if n.Issuer != who.Issuer || !n.has(who.Email) || company.Status == identity.CompanyClosed {
		return u, ErrFailed
	}
	userID, err := selectIdentity(ctx, tx, companyID, who.Subject)
	if err != nil {
		return u, err
	}
	if userID != "" {
		u, err = identity.GetUser(ctx, tx, nil, userID)
	} else {
		u, err = identity.UserByEmail(ctx, tx, who.Email)
	}
	if err != nil {
		return u, err
	}
	if u.ID != "" && !n.has(u.Email) {
		return u, errNoMember // the account now has an address in another domain
	}
	members, err := identity.Memberships(ctx, tx, u.ID)
	if err != nil {
		return u, err
	}
	if !slices.ContainsFunc(members, func(m identity.Member) bool { return m.CompanyID == companyID }) {
		if u, err = auth.JoinInvited(ctx, tx, s.Sealer, companyID, cmp.Or(u.Email, who.Email), auth.Newcomer{
			FirstName: who.GivenName, LastName: who.FamilyName}); errors.Is(err, apierr.NotFoundErr) {
			err = errNoMember
		}
		if err != nil {
			return u, err
		}
	}
	if userID != "" {
		return u, nil
	}
	first, err := insertIdentity(ctx, tx, companyID, u.ID, who.Subject)
	if err == nil && !first {
		err = errOtherAccount
	}
	return u, err
}

// Unlink deletes the stored provider account of a member, so that the member can sign in with another one.
func (s *Service) Unlink(ctx context.Context, tx *db.Tx, by auth.Actor, userID string) error {
	version, _, err := administer(ctx, tx, by)
	if err != nil {
		return err
	}
	if err := deleteIdentity(ctx, tx, by.CompanyID, userID); err != nil {
		return err
	}
	return changed(ctx, tx, by, version, userID+" unlinked")
}

// Erase deletes the stored provider accounts of a person.
func Erase(ctx context.Context, tx *db.Tx, userID string) error {
	return deleteIdentitiesOf(ctx, tx, userID)
}

// Forget deletes sign-ins that were not completed in time.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return deleteEnded(ctx, tx) })
}
