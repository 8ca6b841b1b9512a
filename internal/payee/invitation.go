package payee

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/webhook"
)

// What inviting is refused with.
var (
	ErrResendLimit   = apierr.New(apierr.Conflict, "resend_limit_reached", "An invitation is sent again three times at most.")
	ErrAlreadyOpen   = apierr.New(apierr.Conflict, "invalid_state", "This address has an open invitation of the company. Send that one again, or revoke it first.")
	ErrAlreadyWorker = apierr.New(apierr.Conflict, "invalid_state", "A worker of this company already has this address.")
	ErrNotExpired    = apierr.New(apierr.Conflict, "invalid_state", "This invitation has not expired.")
	ErrNotOpen       = apierr.New(apierr.Conflict, "invalid_state", "This invitation is no longer open.")
)

// The states of an invitation.
const (
	InvitationSent     = "sent"
	InvitationAccepted = "accepted"
	InvitationExpired  = "expired"
	InvitationRevoked  = "revoked" // by the company, or declined by the person: see Invitation.Reason
)

// Why an invitation is revoked.
const (
	ByCompany = "revoked"
	ByPerson  = "declined"
)

// The life of an invitation.
const (
	InvitationLife = 14 * 24 * time.Hour
	MaxResends     = 3
)

// Invitation is a company's wish that the person with an email address become its worker.
//
// It is sent until the person accepts or declines, the company revokes it, or 14 days have passed since its mail. Sending
// again, at most three times, renews its token and its 14 days, also when they were over; the link of the earlier mail then
// leads nowhere. One address has one open invitation of a company. A new one within 14 days of a mail that was revoked
// counts as sending again, so that a company cannot fill a stranger's mailbox by revoking.
//
// Inviting never looks at who has an account: its answers are the same for every address that is not the company's own
// worker's. Accepting by the link proves that its reader has the mailbox.
type Invitation struct {
	CompanyID, ID string
	CompanyName   string // set by InvitationByToken only
	Email, Role   string
	State, Reason string
	Resends       int
	UserID        string // of who accepted, else ""
	Version       int64
	Sent, Expires time.Time
	Created       time.Time
}

// at is the invitation as it is at an instant: one whose time is up is expired, also before the job notes it.
func (v Invitation) at(now time.Time) Invitation {
	if v.State == InvitationSent && !v.Expires.After(now) {
		v.State = InvitationExpired
	}
	return v
}

// InviteParams is a wanted worker.
type InviteParams struct {
	CompanyID string // "" means the principal's
	Email     string
	Role      string // contractor, employee; "" means contractor
}

// Invite sends a person an invitation. It refuses the address of a worker (ErrAlreadyWorker), one with an open invitation
// (ErrAlreadyOpen, with Meta "invitation_id"), and one that was sent four mails within 14 days (ErrResendLimit).
func Invite(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, p InviteParams) (Invitation, error) {
	var problems apierr.List
	email := identity.Email(&problems, "/email", p.Email, true)
	role := either(&problems, "/role", p.Role, Contractor, Employee)
	if err := problems.Err(); err != nil {
		return Invitation{}, err
	}
	company, err := inviting(ctx, tx, by, p.CompanyID)
	if err != nil {
		return Invitation{}, err
	}
	worker, err := isWorker(ctx, tx, company.ID, key(email))
	if err != nil {
		return Invitation{}, err
	}
	if worker {
		return Invitation{}, ErrAlreadyWorker
	}
	v := Invitation{CompanyID: company.ID, ID: tx.NewID("ivt"), Email: email, Role: role, Version: 1, Created: tx.Now()}
	last, err := lastInvitation(ctx, tx, company.ID, key(email))
	if err != nil {
		return Invitation{}, err
	}
	if last != nil {
		if last, err = expire(ctx, tx, *last); err != nil {
			return Invitation{}, err
		}
		if last.State == InvitationRevoked && tx.Now().Before(last.Sent.Add(InvitationLife)) {
			if v.Resends = last.Resends + 1; v.Resends > MaxResends {
				return Invitation{}, ErrResendLimit
			}
		}
	}
	token := v.renew(tx.Now())
	if err := insertInvitation(ctx, tx, v, identity.LinkDigest(token)); err != nil {
		return Invitation{}, err
	}
	db.History(tx, v.CompanyID, v.ID, v.Version, "", v.State, "invited")
	return v, send(ctx, tx, s, company, v, token)
}

// renew gives the invitation a new token and its full time.
func (v *Invitation) renew(now time.Time) (token string) {
	v.State, v.Reason, v.Sent, v.Expires = InvitationSent, "", now, now.Add(InvitationLife)
	return identity.NewLinkToken()
}

// inviting resolves the company that wants to invite, or revoke.
func inviting(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (identity.Company, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return identity.Company{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return identity.Company{}, err
	}
	return company, company.Active()
}

// latest is the invitation that a company means by an address.
func latest(ctx context.Context, tx *db.Tx, companyID, email string) (Invitation, error) {
	var problems apierr.List
	email = identity.Email(&problems, "/email", email, true)
	if err := problems.Err(); err != nil {
		return Invitation{}, err
	}
	v, err := lastInvitation(ctx, tx, companyID, key(email))
	if err != nil {
		return Invitation{}, err
	}
	if v == nil {
		return Invitation{}, apierr.NotFoundErr
	}
	return *v, nil
}

// Resend sends the last invitation of an address again. The fourth time is ErrResendLimit; one that was accepted, declined or
// revoked is ErrNotOpen; an address that was not invited is apierr.NotFoundErr.
func Resend(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, companyID, email string) (Invitation, error) {
	company, err := inviting(ctx, tx, by, companyID)
	if err != nil {
		return Invitation{}, err
	}
	v, err := latest(ctx, tx, company.ID, email)
	if err != nil {
		return Invitation{}, err
	}
	from := v.at(tx.Now()).State
	token := v.renew(tx.Now())
	v, err = resend(ctx, tx, v, identity.LinkDigest(token))
	if err != nil {
		return Invitation{}, err
	}
	db.History(tx, v.CompanyID, v.ID, v.Version, from, v.State, "sent again")
	return v, send(ctx, tx, s, company, v, token)
}

// Revoke ends the open invitation of an address: its link stops working. One that has ended is ErrNotOpen, an address that
// was not invited apierr.NotFoundErr.
func Revoke(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, email string) (Invitation, error) {
	company, err := inviting(ctx, tx, by, companyID)
	if err != nil {
		return Invitation{}, err
	}
	v, err := latest(ctx, tx, company.ID, email)
	if err != nil {
		return Invitation{}, err
	}
	return end(ctx, tx, v, InvitationRevoked, ByCompany, "")
}

// end moves an open invitation to a state from which nothing follows.
func end(ctx context.Context, tx *db.Tx, v Invitation, state, reason, userID string) (Invitation, error) {
	v, err := endInvitation(ctx, tx, v, state, reason, userID)
	if err != nil {
		return Invitation{}, err
	}
	db.History(tx, v.CompanyID, v.ID, v.Version, InvitationSent, v.State, reason)
	event := webhook.InvitationRevoked
	if v.State == InvitationAccepted {
		event = webhook.InvitationAccepted
	}
	return v, emitInvitation(tx, event, v)
}

// send leaves the mail, the end and the event for the commit. The mail is the only place where the token goes.
func send(ctx context.Context, tx *db.Tx, s *identity.Sealer, company identity.Company, v Invitation, token string) error {
	err := mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: v.CompanyID, To: v.Email, Template: mail.Invitation, Language: mail.LanguageOf(company.Country),
		Key:  v.ID + "/" + strconv.FormatInt(v.Version, 10),
		Data: mail.InvitationData{Company: company.Name, Role: v.Role, Token: token, Expires: v.Expires}, Sealer: s,
	})
	if err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: v.CompanyID, Kind: JobExpire, Payload: lapse{v.ID}, RunAt: v.Expires})
	return emitInvitation(tx, webhook.InvitationSent, v)
}

func emitInvitation(tx *db.Tx, event webhook.Type[webhook.InvitationData], v Invitation) error {
	return webhook.Emit(tx, event.Event(v.CompanyID, v.ID, v.Version, webhook.InvitationData{
		InvitationID: v.ID, CompanyID: v.CompanyID, Email: v.Email, Role: v.Role, Status: v.State, ResendCount: v.Resends,
		UserID: v.UserID, Reason: v.Reason,
	}))
}

// JobExpire is the kind of job that ends an invitation whose time is up.
const JobExpire = "invitation.expire"

// lapse names the invitation that a job is about.
type lapse struct {
	InvitationID string `json:"invitation_id"`
}

// HandleExpire ends an invitation whose time is up. One that was sent again has more time, and another job.
func HandleExpire(ctx context.Context, tx *db.Tx, j job.Job) error {
	var l lapse
	if err := j.Decode(&l); err != nil {
		return err
	}
	v, err := selectInvitation(ctx, tx, j.CompanyID, l.InvitationID)
	if err != nil {
		return err
	}
	_, err = expire(ctx, tx, v)
	return err
}

// expire notes that an invitation's time is up, if it is.
func expire(ctx context.Context, tx *db.Tx, v Invitation) (*Invitation, error) {
	if v.State == v.at(tx.Now()).State {
		return &v, nil
	}
	moved, err := expireInvitation(ctx, tx, v)
	if err != nil || moved == nil {
		return &v, err
	}
	db.History(tx, v.CompanyID, v.ID, moved.Version, InvitationSent, InvitationExpired, "14 days have passed")
	return moved, emitInvitation(tx, webhook.InvitationExpired, *moved)
}

// InvitationByToken reads the invitation that a link leads to, with the company's name, in whatever state it is. A token
// that never was, or that a later mail replaced, is apierr.NotFoundErr.
func InvitationByToken(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	v, err := invitationByToken(ctx, tx, identity.LinkDigest(token))
	return v.at(tx.Now()), err
}

// open is the invitation of a link that still waits for its answer.
func open(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	v, err := InvitationByToken(ctx, tx, token)
	if err == nil && v.State != InvitationSent {
		err = ErrNotOpen
	}
	return v, err
}

// AcceptInvitation makes the reader of a link a worker of the company and says who they are. n is what they say of
// themselves; name and country are required, the address is the invitation's whatever n says. When somebody already
// signs in with that address, it is their account that is linked, and n changes nothing in it: having the mailbox shows
// who they are, not that their profile or password should change. The caller cannot tell the two apart.
//
// Refused are unknown tokens (apierr.NotFoundErr), ended invitations (ErrNotOpen), and profiles, all problems at once.
func AcceptInvitation(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string, n identity.NewUser) (userID string, err error) {
	v, err := open(ctx, tx, token)
	if err != nil {
		return "", err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil {
		return "", err
	}
	if err := company.Active(); err != nil {
		return "", err
	}
	var problems apierr.List
	n.Email, n.CompanyID = v.Email, ""
	n.Profile.Check(&problems, tx.Now(), "first_name", "last_name", "country")
	if err := problems.Err(); err != nil {
		return "", err
	}
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return "", err
	}
	if u.ID == "" {
		u, err = identity.CreateUser(ctx, tx, s, n)
		if errors.Is(err, identity.ErrEmailTaken) { // they signed up elsewhere in this moment
			u, err = identity.UserByEmail(ctx, tx, v.Email)
		}
		if err != nil {
			return "", err
		}
	}
	if v, err = end(ctx, tx, v, InvitationAccepted, "accepted", u.ID); err != nil {
		return "", err
	}
	if _, err := AddWorker(ctx, tx, v.CompanyID, u.ID, v.Role); err != nil {
		return "", err
	}
	return u.ID, nil
}

// DeclineInvitation is the reader's no. It refuses what AcceptInvitation refuses.
func DeclineInvitation(ctx context.Context, tx *db.Tx, token string) error {
	v, err := open(ctx, tx, token)
	if err != nil {
		return err
	}
	_, err = end(ctx, tx, v, InvitationRevoked, ByPerson, "")
	return err
}

// AskAgain tells the company, by one mail however often it is called, that the reader of an expired link would like to be
// invited again. It refuses links that have not expired (ErrNotExpired) and unknown ones (apierr.NotFoundErr).
func AskAgain(ctx context.Context, tx *db.Tx, token string) error {
	v, err := InvitationByToken(ctx, tx, token)
	if err != nil {
		return err
	}
	if v.State != InvitationExpired {
		return ErrNotExpired
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil || !mail.Valid(company.Email) {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: v.CompanyID, To: company.Email, Template: mail.InvitationRequested, Language: mail.LanguageOf(company.Country),
		Key:  v.ID + "/" + strconv.FormatInt(db.Micros(v.Sent), 10),
		Data: mail.InvitationRequestedData{Company: company.Name, Email: v.Email},
	})
}

// InvitationsParams are the filters of a company's invitations. Empty ones do not filter.
type InvitationsParams struct {
	CompanyID string // "" means the principal's
	Status    string
	Email     string // the whole address, whatever the case
	Page      Page
}

// Invitations finds invitations of the principal's company, the newest first.
func Invitations(ctx context.Context, tx *db.Tx, by identity.Principal, p InvitationsParams) (Slice[Invitation], error) {
	var problems apierr.List
	oneOf(&problems, "status", p.Status, InvitationSent, InvitationAccepted, InvitationExpired, InvitationRevoked)
	p.Page = p.Page.norm(&problems)
	if err := problems.Err(); err != nil {
		return Slice[Invitation]{}, err
	}
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return Slice[Invitation]{}, err
	}
	p.CompanyID = company
	return selectInvitations(ctx, tx, p)
}
