package payee

import (
	"cmp"
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

// Errors that callers receive.
var (
	ErrResendLimit = apierr.New(apierr.Conflict, "resend_limit_reached",
		"An invitation is sent again three times at most.")
	ErrAlreadyOpen = apierr.New(apierr.Conflict, "invalid_state",
		"This address has an open invitation of the company. Send that one again, or revoke it first.")
	ErrAlreadyWorker = apierr.New(apierr.Conflict, "invalid_state", "A worker of this company already has this address.")
	ErrNotExpired    = apierr.New(apierr.Conflict, "invalid_state", "This invitation has not expired.")
	ErrNotOpen       = apierr.New(apierr.Conflict, "invalid_state", "This invitation is no longer open.")
)

// States of an invitation.
const (
	InvitationSent     = "sent"
	InvitationAccepted = "accepted"
	InvitationExpired  = "expired"
	InvitationRevoked  = "revoked" // the company revoked it, or the person declined it; see Invitation.Reason
)

// Reasons for which an invitation was revoked.
const (
	ByCompany = "revoked"
	ByPerson  = "declined"
)

// Limits of invitations.
const (
	InvitationLife = 14 * 24 * time.Hour
	MaxResends     = 3
)

// Invitation is a company's request that the person with an email address become its worker.
//
// An invitation is in the state sent until the person accepts or declines it, the company revokes it, or 14 days have
// passed since its last mail. Resending it, at most three times, starts its 14 days anew, even if it has expired, and
// replaces its token, so that the link in the earlier mail stops working. A company has at most one open invitation
// per address. If a company revokes an invitation and sends a new one to the address within 14 days of the mail, the
// new one counts as a resend, so that a company cannot flood a stranger's mailbox.
//
// Inviting does not reveal who has an account: responses are the same for every address, except those of the
// company's own workers. Accepting an invitation through its link proves access to the mailbox.
type Invitation struct {
	CompanyID, ID string
	CompanyName   string // only InvitationByToken sets it
	Email, Role   string
	State, Reason string
	Resends       int
	UserID        string // user who accepted the invitation; "" before
	Version       int64
	Sent, Expires time.Time
	Created       time.Time
}

// at returns the invitation as it is at a given time: after its end it is expired, even if no job has stored that
// yet.
func (v Invitation) at(now time.Time) Invitation {
	if v.State == InvitationSent && !v.Expires.After(now) {
		v.State = InvitationExpired
	}
	return v
}

// InviteParams describes a worker to invite.
type InviteParams struct {
	CompanyID string // "" means the principal's company
	Email     string
	Role      string // contractor or employee; "" means contractor
}

// Invite sends an invitation to an email address. It returns ErrAlreadyWorker for the address of a worker of the
// company, ErrAlreadyOpen (with Meta "invitation_id") for an address with an open invitation, and ErrResendLimit for
// an address to which four mails were sent within 14 days.
func Invite(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal,
	p InviteParams) (Invitation, error) {
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

// renew resets the invitation to sent, with a new token and a new end, and returns the token.
func (v *Invitation) renew(now time.Time) (token string) {
	v.State, v.Reason, v.Sent, v.Expires = InvitationSent, "", now, now.Add(InvitationLife)
	return identity.NewLinkToken()
}

// inviting returns the company to which the principal may invite workers, and whose invitations it may revoke.
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

// latest returns a company's newest invitation to an address.
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

// Resend sends a company's newest invitation to an address again. It returns ErrResendLimit after three resends,
// ErrNotOpen for an invitation that was accepted, declined or revoked, and apierr.NotFoundErr for an address that was
// never invited.
func Resend(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, companyID,
	email string) (Invitation, error) {
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

// Revoke ends the open invitation to an address, so that its link stops working. It returns ErrNotOpen for an
// invitation that has ended, and apierr.NotFoundErr for an address that was never invited.
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

// end changes an open invitation to a final state.
func end(ctx context.Context, tx *db.Tx, v Invitation, state, reason, userID string) (Invitation, error) {
	v, err := endInvitation(ctx, tx, v, state, reason, userID)
	if err != nil {
		return Invitation{}, err
	}
	db.History(tx, v.CompanyID, v.ID, v.Version, InvitationSent, v.State, cmp.Or(reason, v.State))
	event := webhook.InvitationRevoked
	if v.State == InvitationAccepted {
		event = webhook.InvitationAccepted
	}
	return v, emitInvitation(tx, event, v)
}

// send enqueues the mail and the expiry job, and emits the event. Only the mail contains the token.
func send(ctx context.Context, tx *db.Tx, s *identity.Sealer, company identity.Company, v Invitation,
	token string) error {
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

// JobExpire is the kind of job that expires an invitation at its end.
const JobExpire = "invitation.expire"

// lapse is the payload of [JobExpire].
type lapse struct {
	InvitationID string `json:"invitation_id"`
}

// HandleExpire is the handler of [JobExpire]. It does not expire an invitation that was sent again, which has a later
// end and another job.
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

// expire changes an invitation to expired if its end has passed.
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

// InvitationByToken returns the invitation of a link, in any state, with the company's name. It returns
// apierr.NotFoundErr for a token that is unknown or was replaced by a later mail.
func InvitationByToken(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	v, err := invitationByToken(ctx, tx, identity.LinkDigest(token))
	return v.at(tx.Now()), err
}

// open returns the invitation of a link if it can still be accepted or declined.
func open(ctx context.Context, tx *db.Tx, token string) (Invitation, error) {
	v, err := InvitationByToken(ctx, tx, token)
	if err == nil && v.State != InvitationSent {
		err = ErrNotOpen
	}
	return v, err
}

// AcceptInvitation makes the person who has the link a worker of the company. If no account with the invitation's
// email address exists, AcceptInvitation creates one with the profile n, which must contain name and country; the
// email address in n is ignored. If an account exists, it is linked and its profile stays unchanged, because access
// to a mailbox must not be enough to change a profile or password. created reports whether the account is new.
//
// AcceptInvitation returns apierr.NotFoundErr for an unknown token, ErrNotOpen for an invitation that has ended, and
// otherwise all problems of the profile at once.
func AcceptInvitation(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string,
	n identity.NewUser) (userID string, created bool, err error) {
	v, err := open(ctx, tx, token)
	if err != nil {
		return "", false, err
	}
	company, err := identity.CompanyByID(ctx, tx, v.CompanyID)
	if err != nil {
		return "", false, err
	}
	if err := company.Active(); err != nil {
		return "", false, err
	}
	u, err := identity.UserByEmail(ctx, tx, v.Email)
	if err != nil {
		return "", false, err
	}
	if u.ID == "" {
		var problems apierr.List
		n.Email, n.CompanyID, created = v.Email, "", true
		n.Profile.Check(&problems, tx.Now(), "first_name", "last_name", "country")
		if err := problems.Err(); err != nil {
			return "", false, err
		}
		u, err = identity.CreateUser(ctx, tx, s, n)
		if errors.Is(err, identity.ErrEmailTaken) { // a concurrent sign-up created an account with this address
			created = false
			u, err = identity.UserByEmail(ctx, tx, v.Email)
		}
		if err != nil {
			return "", false, err
		}
	}
	if v, err = end(ctx, tx, v, InvitationAccepted, "", u.ID); err != nil {
		return "", false, err
	}
	if _, err := AddWorker(ctx, tx, v.CompanyID, u.ID, v.Role); err != nil {
		return "", false, err
	}
	return u.ID, created, nil
}

// DeclineInvitation declines the invitation of a link. It returns the same errors as [AcceptInvitation].
func DeclineInvitation(ctx context.Context, tx *db.Tx, token string) error {
	v, err := open(ctx, tx, token)
	if err != nil {
		return err
	}
	_, err = end(ctx, tx, v, InvitationRevoked, ByPerson, "")
	return err
}

// AskAgain mails the company, once, that the person with an expired link would like to be invited again. It returns
// ErrNotExpired for a link that has not expired, and apierr.NotFoundErr for an unknown link.
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
		CompanyID: v.CompanyID, To: company.Email, Template: mail.InvitationRequested,
		Language: mail.LanguageOf(company.Country),
		Key:      v.ID + "/" + strconv.FormatInt(db.Micros(v.Sent), 10),
		Data:     mail.InvitationRequestedData{Company: company.Name, Email: v.Email},
	})
}

// InvitationsParams are the filters of a list of invitations. Empty fields do not filter.
type InvitationsParams struct {
	CompanyID string // "" means the principal's company
	Status    string
	Email     string // complete email address; case does not matter
	Page      db.Page
}

// Invitations returns a page of the invitations of the principal's company, newest first.
func Invitations(ctx context.Context, tx *db.Tx, by identity.Principal,
	p InvitationsParams) (Slice[Invitation], error) {
	var problems apierr.List
	oneOf(&problems, "status", p.Status, InvitationSent, InvitationAccepted, InvitationExpired, InvitationRevoked)
	p.Page = checkPage(p.Page, &problems)
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
