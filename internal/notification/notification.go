// Package notification notifies the members of a company of events that need their attention, on a web page and by
// mail.
//
// For each event that concerns members, [Handle] enqueues a job that creates the notifications. Each member has
// separate notifications: each person reads their own, and chooses which kinds are also mailed. The package does not
// notify payees, payers and apps.
package notification

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Kind is the kind of a notification.
type Kind string

// The kinds of notifications.
const (
	ApprovalNeeded  Kind = "approval_needed"  // a payroll, withdrawal or refund waits for the member's approval
	QuoteEnding     Kind = "quote_ending"     // the quote of an unfunded payroll ends soon
	PayrollFunded   Kind = "payroll_funded"   // a payroll was funded with money from outside the service
	PayrollPaid     Kind = "payroll_paid"     // all payments of a payroll have arrived
	PaymentReturned Kind = "payment_returned" // a bank returned a payout
	DepositHeld     Kind = "deposit_held"     // a deposit arrived in a coin that its address does not accept
	Verification    Kind = "verification"     // the company's verification has a result
)

// Kinds lists all kinds, in the order of the page.
var Kinds = []Kind{ApprovalNeeded, QuoteEnding, PayrollFunded, PayrollPaid, PaymentReturned, DepositHeld,
	Verification}

const pruneSize = 2000

// Members are notified this long before the end of a quote, if the quote is valid for longer than shortest.
const (
	beforeEnd = 15 * time.Minute
	shortest  = 20 * time.Minute
)

// MostUnread is the largest number of unread notifications that [Unread] returns.
const MostUnread = 100

// Notification is a notification for a member.
type Notification struct {
	ID       string
	Kind     Kind
	ObjectID string       // payroll, withdrawal, claim, wallet or company
	Amount   money.Amount // has no asset if the kind has no amount
	Detail   string       // state of the verification
	Created  time.Time
	Read     bool
}

// Path returns the path of the page about the object.
func (n Notification) Path() string {
	switch prefix, _, _ := strings.Cut(n.ObjectID, "_"); prefix {
	case "prl":
		if n.Kind == QuoteEnding {
			return "/payrolls/" + n.ObjectID + "/fund"
		}
		return "/payrolls/" + n.ObjectID
	case "wdr":
		return "/withdrawals/" + n.ObjectID
	case "clm":
		return "/claims/" + n.ObjectID
	case "wal":
		return "/wallets"
	}
	return "/company/verification"
}

// news is the meaning of an event for members.
type news struct {
	Notification
	about string    // object; a member who has not read a notification about it is not notified again; "" for no object
	at    time.Time // when members are notified; zero means at once
	ends  time.Time // end of the quote
}

// JobNotify is the kind of job that notifies members of an event.
const JobNotify = "notification.notify"

// notify is the payload of [JobNotify].
type notify struct {
	EventID string `json:"event_id"`
}

// Handle enqueues a job for each event that concerns members. Each event is passed to it once, in the transaction
// that advances the position of handled events.
func Handle(ctx context.Context, tx *db.Tx, events []webhook.StoredEvent) error {
	var positions []int64
	for _, e := range events {
		if _, ok := readers[e.Name]; ok {
			positions = append(positions, e.Position)
		}
	}
	stored, err := webhook.ByPosition(ctx, tx, positions...)
	if err != nil {
		return err
	}
	for _, position := range positions {
		e := stored[position]
		n, err := read(e)
		if err == nil && n == nil {
			continue
		}
		later := job.New{CompanyID: e.CompanyID, Kind: JobNotify, Payload: notify{e.ID}}
		if n != nil && !n.at.IsZero() {
			if n.ends.Sub(e.Created) <= shortest {
				continue
			}
			later.RunAt = n.at
		}
		job.Enqueue(tx, later) // a separate job for each event, so that an invalid event makes only its own job fail
	}
	return nil
}

// HandleNotify is the handler of [JobNotify].
func HandleNotify(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in notify
	if err := j.Decode(&in); err != nil {
		return err
	}
	e, err := webhook.Get(ctx, tx, webhook.Source{CompanyID: j.CompanyID}, in.EventID)
	if errors.Is(err, apierr.NotFoundErr) {
		return nil // the event was deleted because of its age
	}
	if err != nil {
		return err
	}
	n, err := read(e)
	if err != nil || n == nil {
		return err
	}
	if n.Kind == QuoteEnding {
		if n.Amount, err = selectUnfunded(ctx, tx, j.CompanyID, n.ObjectID, db.Micros(n.ends)); err != nil ||
			n.Amount.Asset() == "" {
			return err
		}
	}
	n.about = cmp.Or(n.about, e.ID)
	return n.send(ctx, tx, e.CompanyID)
}

// payload contains those members of the payloads of events that this package needs.
type payload struct {
	PayrollID      string          `json:"payroll_id"`
	WithdrawalID   string          `json:"withdrawal_id"`
	RefundID       string          `json:"refund_id"`
	ClaimID        string          `json:"claim_id"`
	CompanyID      string          `json:"company_id"`
	DepositID      string          `json:"deposit_id"`
	PaidTo         string          `json:"paid_to"`
	Held           bool            `json:"held"`
	Status         string          `json:"status"`
	PreviousStatus string          `json:"previous_status"`
	Reason         string          `json:"reason"`
	FundingMethod  string          `json:"funding_method"`
	Currency       money.Asset     `json:"currency"`
	Amount         json.RawMessage `json:"amount"`
	Total          json.RawMessage `json:"total_input_in_input_currency"`
	ValidTo        string          `json:"valid_to"`
	Quote          struct {
		ValidTo string `json:"valid_to"`
	} `json:"quote"`
}

// read returns the meaning of an event for members, or nil.
func read(e webhook.StoredEvent) (*news, error) {
	of, ok := readers[e.Name]
	if !ok {
		return nil, nil
	}
	var d payload
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return nil, err
	}
	return of(d)
}

// readers maps the names of events to functions that return the meaning of an event, or nil.
var readers = map[string]func(payload) (*news, error){
	webhook.PayrollCreated.Name:        func(d payload) (*news, error) { return ofQuote(d.PayrollID, d.Quote.ValidTo) },
	webhook.PayrollQuoteRefreshed.Name: func(d payload) (*news, error) { return ofQuote(d.PayrollID, d.ValidTo) },
	webhook.PayrollStatusUpdate.Name:   ofPayroll,
	webhook.PayoutReturned.Name: func(d payload) (*news, error) {
		if d.PayrollID == "" {
			return nil, nil
		}
		return newsOf(PaymentReturned, d.PayrollID, d.Currency, d.Amount)
	},
	webhook.WithdrawalCreated.Name:      ofApproval,
	webhook.WithdrawalStatusUpdate.Name: ofApproval,
	webhook.RefundCreated.Name:          ofApproval,
	webhook.RefundStatusUpdate.Name:     ofApproval,
	webhook.WalletDepositUpdate.Name: func(d payload) (*news, error) {
		if !d.Held || d.Status != "confirmed" {
			return nil, nil
		}
		n, err := newsOf(DepositHeld, d.PaidTo, d.Currency, d.Amount)
		n.about = d.DepositID
		return n, err
	},
	webhook.CompanyKYBStatusUpdate.Name: func(d payload) (*news, error) {
		if !slices.Contains([]string{"approved", "rejected", "resubmission_required"}, d.Status) {
			return nil, nil
		}
		return &news{Notification: Notification{Kind: Verification, ObjectID: d.CompanyID, Detail: d.Status}}, nil
	},
}

func newsOf(kind Kind, objectID string, currency money.Asset, amount json.RawMessage) (*news, error) {
	value, err := money.Parse(currency, strings.Trim(string(amount), `"`))
	return &news{Notification: Notification{Kind: kind, ObjectID: objectID, Amount: value}}, err
}

func ofQuote(payrollID, validTo string) (*news, error) {
	if validTo == "" {
		return nil, nil // funded by a transfer or from the balance
	}
	end, err := time.Parse(time.RFC3339, validTo)
	return &news{Notification: Notification{Kind: QuoteEnding, ObjectID: payrollID}, at: end.Add(-beforeEnd),
		ends: end}, err
}

// fromOutside are the funding methods with which money comes from outside the service.
var fromOutside = []string{"crypto", "bank"}

func ofPayroll(d payload) (*news, error) {
	var kind Kind
	switch changed := d.PreviousStatus != ""; {
	case changed && d.Status == "on_hold" && d.Reason == "approval_required":
		kind = ApprovalNeeded
	case d.Status == "received" && d.Reason == "funding_confirmed" && slices.Contains(fromOutside, d.FundingMethod):
		kind = PayrollFunded
	case changed && d.Status == "fulfilled":
		kind = PayrollPaid
	default:
		return nil, nil
	}
	n, err := newsOf(kind, d.PayrollID, d.Currency, d.Total)
	if kind == ApprovalNeeded {
		n.about = d.PayrollID
	}
	return n, err
}

func ofApproval(d payload) (*news, error) {
	if d.Status != "awaiting_approval" {
		return nil, nil
	}
	n, err := newsOf(ApprovalNeeded, cmp.Or(d.ClaimID, d.WithdrawalID), d.Currency, d.Amount)
	n.about = cmp.Or(d.RefundID, d.WithdrawalID)
	return n, err
}

// send stores the notification for each member whom it concerns, and mails it to those who have chosen mails of its
// kind. It skips members who have not yet read a notification of the same kind about the same object.
func (n *news) send(ctx context.Context, tx *db.Tx, companyID string) error {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return err
	}
	to, err := n.members(ctx, tx, companyID)
	if err != nil || len(to) == 0 {
		return err
	}
	unwanted, err := selectUnwanted(ctx, tx, companyID, n.Kind)
	if err != nil {
		return err
	}
	amount := ""
	if n.Amount.Asset() != "" {
		amount = n.Amount.String() + " " + string(n.Amount.Asset())
	}
	var rows [][]any
	for _, m := range to {
		id := tx.NewID("ntf")
		rows = append(rows, n.row(tx, companyID, m.UserID, id))
		if slices.Contains(unwanted, m.UserID) || !mail.Valid(m.Email) {
			continue
		}
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: companyID, To: m.Email, Template: mail.MemberNotification, Key: id,
			Language: mail.LanguageOf(company.Country),
			Data: mail.MemberNotificationData{Name: m.Name, Company: company.Name, Kind: string(n.Kind), Amount: amount,
				Detail: n.Detail, Path: n.Path()},
		}); err != nil {
			return err
		}
	}
	return insertNotifications(ctx, tx, rows)
}

// members returns the owners and administrators whom the notification concerns, except those who have not yet read a
// notification of the same kind about the same object.
func (n *news) members(ctx context.Context, tx *db.Tx, companyID string) ([]auth.Member, error) {
	all, err := auth.Members(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	unread, err := selectUnread(ctx, tx, companyID, n.Kind, n.about)
	if err != nil {
		return nil, err
	}
	may := func(m auth.Member) bool { return identity.Administers(m.Role) }
	if n.Kind == ApprovalNeeded {
		creator, err := selectCreator(ctx, tx, companyID, n.about)
		if err != nil {
			return nil, err
		}
		approvers, err := approval.Approvers(ctx, tx, companyID)
		if err != nil {
			return nil, err
		}
		may = func(m auth.Member) bool { return m.UserID != creator && slices.Contains(approvers, m.UserID) }
	}
	return slices.DeleteFunc(all, func(m auth.Member) bool { return !may(m) || slices.Contains(unread, m.UserID) }), nil
}

// List returns a page of a member's notifications, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, by auth.Actor, page, perPage int) (all []Notification, total int64,
	err error) {
	return selectNotifications(ctx, tx, by, page, perPage)
}

// Unread returns the number of a member's unread notifications, at most [MostUnread].
func Unread(ctx context.Context, tx *db.Tx, by auth.Actor) (int64, error) {
	return countUnread(ctx, tx, by)
}

// Open marks a notification as read and returns it.
func Open(ctx context.Context, tx *db.Tx, by auth.Actor, id string) (Notification, error) {
	n, err := selectNotification(ctx, tx, by, id)
	if err != nil {
		return n, err
	}
	return n, markRead(ctx, tx, by, id)
}

// ReadAll marks all notifications of a member as read.
func ReadAll(ctx context.Context, tx *db.Tx, by auth.Actor) error { return markRead(ctx, tx, by, "") }

// Unmailed returns the kinds that a person has chosen not to receive by mail.
func Unmailed(ctx context.Context, tx *db.Tx, userID string) ([]Kind, error) {
	return selectPreferences(ctx, tx, userID)
}

var errKind = apierr.New(apierr.Invalid, "invalid_parameter", "There is no such kind of notification.")

// Mail stores the kinds that a person wants to receive by mail. Other kinds appear only on the page.
func Mail(ctx context.Context, tx *db.Tx, userID string, wanted []Kind) error {
	for _, k := range wanted {
		if !slices.Contains(Kinds, k) {
			return errKind.At("body", "/mail")
		}
	}
	var unwanted []Kind
	for _, k := range Kinds {
		if !slices.Contains(wanted, k) {
			unwanted = append(unwanted, k)
		}
	}
	return savePreferences(ctx, tx, userID, unwanted)
}

// Prune deletes notifications that are older than kept, in small transactions, and returns their number.
func Prune(ctx context.Context, d *db.DB, kept time.Duration) (deleted int64, err error) {
	for {
		var n int64
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			n, err = deleteOld(ctx, tx, tx.Now().Add(-kept))
			return err
		})
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < pruneSize {
			return deleted, nil
		}
	}
}
