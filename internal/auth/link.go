package auth

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
)

// Purpose is the purpose of a link in a mail.
type Purpose string

// Purposes of links.
const (
	ToSignUp Purpose = "sign_up"
	ToReset  Purpose = "reset" // to choose a new password, or the first one
)

// Lifetimes of links.
const (
	SignUpLife = 24 * time.Hour
	ResetLife  = 30 * time.Minute
)

func (p Purpose) life() time.Duration {
	if p == ToReset {
		return ResetLife
	}
	return SignUpLife
}

// JobLink is the kind of job that sends a link. Its payload is a linkRequest.
const JobLink = "account.link"

// linkRequest is an unauthenticated request for a link.
type linkRequest struct {
	Purpose  Purpose `json:"purpose"`
	Email    string  `json:"email"`
	Language string  `json:"language"`
}

// RequestLink requests a link for an address. A job looks up the account after the response, so that neither the
// response nor its timing reveals whether there is an account.
func RequestLink(_ context.Context, tx *db.Tx, p Purpose, email, language string) error {
	var problems apierr.List
	email = identity.Email(&problems, "/email", email, true)
	if err := problems.Err(); err != nil {
		return err
	}
	if !mail.Valid(email) {
		return mail.ErrAddress.At("body", "/email")
	}
	job.Enqueue(tx, job.New{Kind: JobLink, Payload: linkRequest{p, email, language}})
	return nil
}

// HandleLink returns the handler of [JobLink], which sends the requested mail. A person who signs up although they
// have an account is mailed that the account exists. A password reset for an address without an account sends
// nothing.
func HandleLink(s *identity.Sealer) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		var w linkRequest
		if err := j.Decode(&w); err != nil {
			return err
		}
		return w.send(ctx, tx, s, j.ID)
	}
}

// send enqueues the mail for the request. The key prevents that the mail is sent twice.
func (w linkRequest) send(ctx context.Context, tx *db.Tx, s *identity.Sealer, key string) error {
	u, err := identity.UserByEmail(ctx, tx, w.Email)
	if err != nil {
		return err
	}
	m := mail.Message{To: w.Email, Language: w.Language, Key: key, Sealer: s}
	switch {
	case w.Purpose == ToSignUp && u.ID != "":
		m.To, m.Template, m.Data = u.Email, mail.AccountExists, mail.AccountExistsData{Name: u.FirstName}
		return mail.Enqueue(ctx, tx, m)
	case w.Purpose == ToReset && u.ID == "":
		return nil
	}
	token := identity.NewLinkToken()
	expires := tx.Now().Add(w.Purpose.life())
	l := link{digest: identity.LinkDigest(token), purpose: w.Purpose, email: w.Email, expires: expires}
	if err := replaceLink(ctx, tx, l); err != nil {
		return err
	}
	if w.Purpose == ToSignUp {
		m.Template, m.Data = mail.SignUp, mail.SignUpData{Token: token, Expires: expires}
	} else {
		m.To, m.Template = u.Email, mail.PasswordReset
		m.Data = mail.PasswordResetData{Name: u.FirstName, Token: token, Expires: expires}
	}
	return mail.Enqueue(ctx, tx, m)
}

// link is a row of account_links.
type link struct {
	digest  string
	purpose Purpose
	email   string
	expires time.Time
}

// Find returns the address to which a link was sent. It returns apierr.NotFoundErr for a link that is unknown, used,
// replaced or expired.
func Find(ctx context.Context, tx *db.Tx, p Purpose, token string) (email string, err error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return "", apierr.NotFoundErr
	}
	return selectLink(ctx, tx, p, digest)
}

// SetPassword completes a password reset: it invalidates the link, stores the hash of the new password, ends all
// sessions and returns the user. The second factor stays.
func SetPassword(ctx context.Context, tx *db.Tx, token, hash, language string) (identity.User, error) {
	email, err := takeLink(ctx, tx, ToReset, identity.LinkDigest(token))
	if err != nil {
		return identity.User{}, err
	}
	u, err := identity.UserByEmail(ctx, tx, email)
	if err != nil {
		return u, err
	}
	if u.ID == "" { // the account was erased in the meantime
		return u, apierr.NotFoundErr
	}
	return u, errors.Join(changePassword(ctx, tx, Person{u, language}, hash), session.EndAll(ctx, tx, u.ID))
}

// ChangePassword sets the password of a signed-in person and ends their other sessions.
func ChangePassword(ctx context.Context, tx *db.Tx, p Person, s session.Session, hash string) error {
	return errors.Join(changePassword(ctx, tx, p, hash), session.EndOthers(ctx, tx, s))
}

func changePassword(ctx context.Context, tx *db.Tx, p Person, hash string) error {
	err := errors.Join(identity.SetPasswordHash(ctx, tx, p.ID, hash), deleteLinks(ctx, tx, ToReset, p.Email))
	if err != nil {
		return err
	}
	return p.notify(ctx, tx, mail.PasswordChanged)
}

// Business contains the data with which a business signs up.
type Business struct {
	FirstName, LastName           string
	CompanyName, Country, Website string
	PasswordHash                  string
}

// Check normalizes the data and returns its problems.
func (b Business) Check() (Business, error) {
	var problems apierr.List
	b.FirstName = identity.Line(&problems, "/first_name", b.FirstName, 1, 100)
	b.LastName = identity.Line(&problems, "/last_name", b.LastName, 1, 100)
	b.CompanyName = identity.Line(&problems, "/company_name", b.CompanyName, 1, 200)
	b.Country = identity.Country(&problems, "/country", b.Country, true)
	b.Website = identity.Line(&problems, "/website", b.Website, 0, 300)
	return b, problems.Err()
}

// SignUp invalidates a link and creates the user and a company that the user owns. contract contains the standard
// fees.
func SignUp(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string, b Business,
	contract identity.NewCompany) (identity.User, identity.Company, error) {
	email, err := takeLink(ctx, tx, ToSignUp, identity.LinkDigest(token))
	if err != nil {
		return identity.User{}, identity.Company{}, err
	}
	u, err := identity.CreateUser(ctx, tx, s, identity.NewUser{
		Profile: identity.Profile{Email: email, FirstName: b.FirstName, LastName: b.LastName}, PasswordHash: b.PasswordHash,
	})
	if err != nil {
		return identity.User{}, identity.Company{}, err
	}
	contract.Name, contract.Email, contract.Website, contract.Country = b.CompanyName, email, b.Website, b.Country
	c, err := identity.CreateCompany(ctx, tx, contract)
	if err != nil {
		return identity.User{}, identity.Company{}, err
	}
	db.History(tx, c.ID, c.ID, c.Version, "", c.Status, "signed up by "+u.ID)
	return u, c, identity.AddMember(ctx, tx, identity.Member{CompanyID: c.ID, UserID: u.ID, Role: identity.RoleOwner})
}

// Forget deletes expired links, WebAuthn challenges and changes of email addresses.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return errors.Join(deleteEndedLinks(ctx, tx), deleteEndedChallenges(ctx, tx), deleteEndedEmailChanges(ctx, tx))
	})
}
