// Package proposal stores payrolls and claims that a program proposes. A person decides whether they are created.
//
// An app with the scope c_company_propose describes a payroll or a claim. The request is checked as far as possible
// and stored, but the payroll or claim is not created. A member who may create it opens the proposal on a page, sees
// its effects, and confirms or declines it. Confirming creates the object on behalf of the member.
//
//	open → confirmed, declined, cancelled, expired
//
// Invariants:
//
//   - Only a person in a session can confirm a proposal. No operation of the API can.
//   - Changing the state from open, creating the object and storing its ID is one transaction, guarded by the state. A
//     proposal therefore creates at most one object, no matter how often and by how many members it is confirmed.
//   - The content never changes and is protected by a digest. For a payroll, [Shown] protects what the member saw: if
//     payees, destinations, amounts or fees have changed since, the member must first review them again.
//   - An app without access, that is, without a consent or API key in effect, cannot propose. Proposals that it made
//     earlier can only be declined.
//   - The content is encrypted while the proposal is open, and deleted afterwards.
//   - A company has at most MaxOpen open proposals, and each ends after Life.
package proposal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/webhook"
)

// Kind is the kind of object that a proposal creates.
type Kind string

// Kinds of proposals.
const (
	Payroll Kind = "payroll"
	Claim   Kind = "claim"
)

// State is the state of a proposal.
type State string

// States of a proposal.
const (
	Open      State = "open"
	Confirmed State = "confirmed" // a member created the object
	Declined  State = "declined"  // a member rejected the proposal
	Canceled  State = "cancelled" // the app withdrew the proposal
	Expired   State = "expired"   // no member answered in time
)

const (
	// Life is the time within which a member must answer a proposal.
	Life = 7 * 24 * time.Hour
	// MaxOpen is the maximum number of open proposals of a company.
	MaxOpen = 20
	// MaxNote is the maximum length of a note in characters.
	MaxNote = 500

	// MaxPayees is the maximum number of payees of a proposed payroll, which a person must be able to review.
	MaxPayees = 1000
	// Path is the path of the pages of proposals. The ID of a proposal follows it.
	Path = "/proposals/"

	// JobExpire is the kind of job that expires a proposal that nobody answered.
	JobExpire = "proposal.expire"
)

// Errors that callers receive.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such proposal.")
	ErrEnded    = apierr.New(apierr.Conflict, "invalid_state",
		"The proposal is no longer open: it was confirmed, declined or canceled, or it has expired.")
	errTooMany = apierr.New(apierr.Conflict, "invalid_state",
		"The company has 20 open proposals. Ask a member to answer them, or cancel some.")
	errBlocked = apierr.New(apierr.Invalid, "proposal_blocked",
		"What is proposed could not be created. Correct what errors lists, and propose again.")
	// ErrPerson is returned to a program that tries to confirm a proposal.
	ErrPerson = apierr.New(apierr.Forbidden, "role_required", "Only a member of the company can answer a proposal.")
	// ErrChanged is returned if a proposal would create something other than what the member saw.
	ErrChanged = apierr.New(apierr.Conflict, "preview_changed",
		"The amounts or destinations have changed. Review them again before you confirm.")
	// ErrDisconnected is returned for a proposal of an app that has lost its access.
	ErrDisconnected = apierr.New(apierr.Conflict, "app_disconnected",
		"The app that proposed this no longer has access to the company. Decline the proposal. If you want it after all, "+
			"connect the app again.")
	errOld = apierr.New(apierr.Conflict, "invalid_state",
		"The proposal was made before an update of this service. Decline it, and ask the app to propose again.")
)

// Proposal is a proposal as stored.
type Proposal struct {
	CompanyID, ID        string
	Kind                 Kind
	State                State
	Note                 string // the app's explanation
	AppID                string
	Amount               money.Amount // without fees
	Payees               int64        // 0 for a claim
	ObjectID             string       // payroll or claim that was created; "" for none
	DecidedBy            string       // member who confirmed or declined the proposal; "" for none
	Version              int64
	CreatedAt, UpdatedAt time.Time
	ExpiresAt            time.Time

	digest, sealed string
}

// Content is the content of a proposal. Exactly one field is set.
type Content struct {
	Payroll *payroll.CreateParams `json:",omitempty"`
	Claim   *claim.CreateParams   `json:",omitempty"`
}

// Service stores and answers proposals.
type Service struct {
	payrolls *payroll.Service
	claims   *claim.Service
	sealer   *identity.Sealer
}

// New returns a Service. It returns an error if a dependency is missing.
func New(p *payroll.Service, c *claim.Service, s *identity.Sealer) (*Service, error) {
	if p == nil || c == nil || s == nil {
		return nil, errors.New("proposal: the services of payrolls and claims and the sealer are required")
	}
	return &Service{p, c, s}, nil
}

// ProposePayroll stores a proposed payroll. It returns an error if the payroll could not be created now. If the app
// already has an open proposal with the same content, ProposePayroll returns that proposal.
func (s *Service) ProposePayroll(ctx context.Context, tx *db.Tx, by identity.Principal, p payroll.CreateParams,
	note string) (Proposal, error) {
	v, err := s.payrolls.Preview(ctx, tx, by, p)
	if err != nil {
		return Proposal{}, err
	}
	if len(p.ToPay) > MaxPayees {
		v.Blockers = append(v.Blockers, apierr.Field{Code: "invalid_parameter", In: "body", Pointer: "/to_pay",
			Message: "A proposed payroll can have at most 1,000 payees."})
	}
	if len(v.Blockers) > 0 {
		return Proposal{}, errBlocked.With(v.Blockers...)
	}
	n := Proposal{Kind: Payroll, Amount: v.Volume, Payees: int64(len(v.Items)), Note: note}
	return s.propose(ctx, tx, by, p.CompanyID, n, Content{Payroll: &p})
}

// ProposeClaim stores a proposed claim. It returns an error if the claim could not be created now. If the app already
// has an open proposal with the same content, ProposeClaim returns that proposal.
func (s *Service) ProposeClaim(ctx context.Context, tx *db.Tx, by identity.Principal, p claim.CreateParams,
	note string) (Proposal, error) {
	c, err := s.claims.Validate(ctx, tx, by, p)
	if f, ok := apierr.As(err); ok && (f.Kind == apierr.Invalid || f.Kind == apierr.Conflict) {
		if len(f.Fields) == 0 {
			f = f.At("body", "")
		}
		return Proposal{}, errBlocked.With(f.Fields...)
	}
	if err != nil {
		return Proposal{}, err
	}
	return s.propose(ctx, tx, by, p.CompanyID, Proposal{Kind: Claim, Amount: c.Amount, Note: note}, Content{Claim: &p})
}

func (s *Service) propose(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, n Proposal,
	content Content) (Proposal, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Proposal{}, err
	}
	var list apierr.List
	n.Note = identity.Line(&list, "/note", strings.Join(strings.Fields(n.Note), " "), 0, MaxNote)
	if err := list.Err(); err != nil {
		return Proposal{}, err
	}
	text, err := json.Marshal(content)
	if err != nil {
		return Proposal{}, err
	}
	n.CompanyID, n.AppID, n.digest = company, by.AppID, digest(text)
	same, err := openWith(ctx, tx, n)
	if err == nil && same.live(tx) {
		return same, nil
	}
	if err == nil { // the proposal has ended, but its job has not run yet
		err = s.end(ctx, tx, &same, Expired, "")
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Proposal{}, err
	}
	open, err := countOpen(ctx, tx, company)
	switch {
	case err != nil:
		return Proposal{}, err
	case open >= MaxOpen:
		return Proposal{}, errTooMany
	}
	n.ID, n.State, n.Version, n.CreatedAt, n.UpdatedAt = tx.NewID("pps"), Open, 1, tx.Now(), tx.Now()
	n.ExpiresAt = tx.Now().Add(Life)
	if n.sealed, err = s.sealer.Seal(place(n.ID), text); err != nil {
		return Proposal{}, err
	}
	if err := insert(ctx, tx, &n); err != nil {
		return Proposal{}, err
	}
	db.History(tx, company, n.ID, n.Version, "", string(n.State), "proposed by "+n.AppID)
	job.Enqueue(tx, job.New{CompanyID: company, Kind: JobExpire, Payload: expiry{n.ID}, RunAt: n.ExpiresAt})
	if err := n.notify(ctx, tx); err != nil {
		return Proposal{}, err
	}
	return n, webhook.Emit(tx, webhook.ProposalCreated.Event(company, n.ID, n.Version, n.data("")))
}

// notify mails the members who may answer a proposal. The mail contains no text from the app except the app's name.
func (n *Proposal) notify(ctx context.Context, tx *db.Tx) error {
	company, err := identity.CompanyByID(ctx, tx, n.CompanyID)
	if err != nil {
		return err
	}
	from, err := identity.ReachOf(ctx, tx, n.CompanyID, n.AppID, identity.CompanyPropose)
	if err != nil {
		return err
	}
	members, err := auth.Members(ctx, tx, n.CompanyID)
	if err != nil {
		return err
	}
	for _, m := range members {
		if !identity.Manages(m.Role) || !mail.Valid(m.Email) {
			continue
		}
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: n.CompanyID, To: m.Email, Template: mail.ProposalMade, Language: mail.LanguageOf(company.Country),
			Key: n.ID + "/" + m.UserID, Data: mail.ProposalMadeData{Name: m.Name, Company: company.Name, App: from.App,
				Kind: string(n.Kind), Amount: n.Amount.String() + " " + string(n.Amount.Asset()), Expires: n.ExpiresAt,
				Path: Path + n.ID},
		}); err != nil {
			return err
		}
	}
	return nil
}

func place(id string) identity.SealContext {
	return identity.SealContext{Table: "proposals", Column: "content", Row: id}
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// live reports whether a proposal can still be answered.
func (n *Proposal) live(tx *db.Tx) bool { return n.State == Open && tx.Now().Before(n.ExpiresAt) }

// Get returns a proposal of the principal's company.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Proposal, error) {
	company, err := by.Company("")
	if err != nil {
		return Proposal{}, err
	}
	return shown(tx)(find(ctx, tx, company, id))
}

// shown sets the state of a proposal to expired if it has ended but its job has not run yet.
func shown(tx *db.Tx) func(Proposal, error) (Proposal, error) {
	return func(n Proposal, err error) (Proposal, error) {
		if n.State == Open && !n.live(tx) {
			n.State = Expired
		}
		return n, err
	}
}

// List returns a page of the proposals of the principal's company, newest first, and their total number. An empty
// state selects all proposals.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, state State, page db.Page) (
	all []Proposal, total int64, err error) {
	company, err := by.Company("")
	if err != nil {
		return nil, 0, err
	}
	if all, total, err = list(ctx, tx, company, state, page); err != nil {
		return nil, 0, err
	}
	for i := range all {
		all[i], _ = shown(tx)(all[i], nil)
	}
	return all, total, nil
}

// Content returns the decrypted content of an open proposal.
func (s *Service) Content(n Proposal) (c Content, err error) {
	if n.State != Open {
		return c, ErrEnded
	}
	text, err := s.sealer.Open(place(n.ID), n.sealed)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return c, err
	}
	// Another version of the program may have stored members that this version does not know. The object must not be
	// created without them.
	again, err := json.Marshal(c)
	if err == nil && digest(again) != n.digest {
		err = errOld
	}
	return c, err
}

// Shown returns a digest of what a member sees of a proposed payroll: payees, destinations, amounts and fees.
func Shown(n Proposal, v payroll.Preview) (string, error) {
	seen := []any{n.digest, v.Volume.String(), v.Fees.String(), v.Total.String(), v.FundingMethod, v.FundingCurrency,
		v.PayDate}
	for _, it := range v.Items {
		seen = append(seen, it.PayeeID, it.Amount.String(), it.Fee.String())
		for _, share := range it.Shares {
			seen = append(seen, share.Destination.ID, share.Destination.Hint(), share.Amount.String(), share.Receive.String(),
				share.Receive.Asset())
		}
	}
	text, err := json.Marshal(seen)
	return digest(text), err
}

// Confirm creates the proposed object on behalf of the member, and returns the proposal with the object's ID. For a
// payroll, shown is the result of [Shown] for the preview that the member saw. Repeating Confirm has no effect.
func (s *Service) Confirm(ctx context.Context, tx *db.Tx, by identity.Principal, id, shown string) (Proposal, error) {
	n, err := s.lock(ctx, tx, by, id)
	switch {
	case err != nil:
		return n, err
	case n.State == Confirmed:
		return n, nil
	case !n.live(tx):
		return n, ErrEnded
	}
	from, err := identity.ReachOf(ctx, tx, n.CompanyID, n.AppID, identity.CompanyPropose)
	switch {
	case err != nil:
		return n, err
	case !from.Allowed:
		return n, ErrDisconnected
	}
	c, err := s.Content(n)
	if err != nil {
		return n, err
	}
	if c.Payroll != nil {
		v, err := s.payrolls.Preview(ctx, tx, by, *c.Payroll)
		if err != nil {
			return n, err
		}
		now, err := Shown(n, v)
		switch {
		case err != nil:
			return n, err
		case now != shown:
			return n, ErrChanged
		}
		made, err := s.payrolls.Create(ctx, tx, by, *c.Payroll)
		if err != nil {
			return n, err
		}
		n.ObjectID = made.ID
	} else {
		made, err := s.claims.Create(ctx, tx, by, *c.Claim)
		if err != nil {
			return n, err
		}
		n.ObjectID = made.ID
	}
	return n, s.end(ctx, tx, &n, Confirmed, by.UserID)
}

// Decline declines an open proposal. Repeating the call has no effect.
func (s *Service) Decline(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Proposal, error) {
	n, err := s.lock(ctx, tx, by, id)
	switch {
	case err != nil || n.State == Declined:
		return n, err
	case !n.live(tx):
		return n, ErrEnded
	}
	return n, s.end(ctx, tx, &n, Declined, by.UserID)
}

// lock returns a proposal that a member is about to answer, and locks it until the transaction ends.
func (s *Service) lock(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Proposal, error) {
	company, err := by.Company("")
	if err != nil {
		return Proposal{}, err
	}
	if by.Kind != identity.KindSession || by.UserID == "" {
		return Proposal{}, ErrPerson
	}
	return lock(ctx, tx, company, id)
}

// Cancel withdraws an open proposal of the principal's app. Repeating the call has no effect.
func (s *Service) Cancel(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Proposal, error) {
	company, err := by.Company("")
	if err != nil {
		return Proposal{}, err
	}
	n, err := lock(ctx, tx, company, id)
	switch {
	case err != nil:
		return n, err
	case n.AppID != by.AppID:
		return Proposal{}, ErrNotFound
	case n.State == Canceled:
		return n, nil
	case !n.live(tx):
		return n, ErrEnded
	}
	return n, s.end(ctx, tx, &n, Canceled, "")
}

// expiry is the payload of [JobExpire].
type expiry struct {
	ProposalID string `json:"proposal_id"`
}

// Expire is the handler of [JobExpire]. It expires a proposal that nobody answered in time.
func (s *Service) Expire(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in expiry
	if err := j.Decode(&in); err != nil {
		return err
	}
	n, err := lock(ctx, tx, j.CompanyID, in.ProposalID)
	if errors.Is(err, ErrNotFound) || err == nil && n.State != Open {
		return nil
	}
	if err == nil && n.live(tx) {
		job.Enqueue(tx, job.New{CompanyID: j.CompanyID, Kind: JobExpire, Payload: in, RunAt: n.ExpiresAt})
		return nil
	}
	if err != nil {
		return err
	}
	return s.end(ctx, tx, &n, Expired, "")
}

// end changes an open proposal to a final state and deletes its content.
func (s *Service) end(ctx context.Context, tx *db.Tx, n *Proposal, to State, by string) error {
	n.State, n.DecidedBy, n.UpdatedAt, n.sealed = to, by, tx.Now(), ""
	if err := n.finish(ctx, tx); err != nil {
		return err
	}
	reason := "by " + by
	if by == "" {
		reason = ""
	}
	db.History(tx, n.CompanyID, n.ID, n.Version, string(Open), string(to), reason)
	return webhook.Emit(tx, webhook.ProposalStatusUpdate.Event(n.CompanyID, n.ID, n.Version, n.data(Open)))
}

// data returns the payload of an event about the proposal.
func (n *Proposal) data(from State) webhook.ProposalData {
	d := webhook.ProposalData{ProposalID: n.ID, CompanyID: n.CompanyID, Kind: string(n.Kind), Status: string(n.State),
		PreviousStatus: string(from), Currency: n.Amount.Asset(), Amount: n.Amount}
	switch {
	case n.ObjectID != "" && n.Kind == Payroll:
		d.PayrollID = n.ObjectID
	case n.ObjectID != "":
		d.ClaimID = n.ObjectID
	}
	return d
}
