package destination

import (
	"context"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
)

// A company can ask a payee for a destination at most once a day. A payee with an account gets a reminder. A payee
// without an account gets a link by mail. A destination entered at the link is stored after the payee enters a code
// from a second mail to the same address; after that, the link no longer works. The change has the effects of any
// other change: events, mails and the cool-down.

// Lifetimes of a link and of a code, the minimum time between two requests, and the maximum numbers of codes that a
// link sends and of attempts to enter a code.
const (
	RequestLife   = 7 * 24 * time.Hour
	CodeLife      = 15 * time.Minute
	requestPeriod = 24 * time.Hour
	resultLife    = time.Hour // how long a used link shows the check of the account
	maxCodes      = 5
	maxAttempts   = 5
)

// Errors that callers receive.
var (
	ErrAsked = apierr.New(apierr.Conflict, "already_asked",
		"This payee was asked within the last 24 hours. Try again tomorrow.")
	ErrNoEmail = apierr.New(apierr.Conflict, "no_email",
		"This payee has no email address. Add one first, or enter the destination for them.")
	ErrManaged = apierr.New(apierr.Conflict, "invalid_state",
		"Your company manages this payee's destinations. Enter one for them.")
	ErrCode = apierr.New(apierr.Invalid, "code_invalid",
		"This code is wrong or has expired. Check the email, or request a new code.")
	ErrCodes = apierr.New(apierr.RateLimited, "rate_limited",
		"Too many codes were requested or entered. Ask the company for a new link.")
)

// Request is a request to a payee without an account, as found by its link.
type Request struct {
	CompanyID, CompanyName string
	Owner                  payee.Payee
	Expires                time.Time
	Now                    *Destination // the destination that the entered one will replace; nil if there is none
	Entered                bool         // the payee has entered a destination that waits for the code

	draft, code  string
	codeExpires  time.Time
	codes, tries int64
	digest       string
}

// principal returns the principal under which a change through the link is recorded.
func (r Request) principal() identity.Principal {
	return identity.Principal{Kind: identity.KindLink, CompanyID: r.CompanyID}
}

// Ask mails a payee of the principal's company that a destination, or another one, is needed. It returns ErrAsked for
// a payee who was already asked within a day, ErrNoEmail for a payee without an email address, and ErrManaged for a
// user whom the company manages.
func Ask(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, recipientID string) error {
	companyID, err := by.Company("")
	if err != nil {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return err
	}
	if err := company.Active(); err != nil {
		return err
	}
	r, err := payee.Get(ctx, tx, by, "", recipientID)
	if err != nil {
		return err
	}
	if r.UserID != "" {
		switch _, err := payee.Owner(ctx, tx, by, r.ID); {
		case err == nil:
			return ErrManaged
		case !errors.Is(err, apierr.NotFoundErr):
			return err
		}
	}
	if !mail.Valid(r.Email) {
		return ErrNoEmail
	}
	token, digest := "", ""
	if r.UserID == "" {
		token = identity.NewLinkToken()
		digest = identity.LinkDigest(token)
	}
	expires := tx.Now().Add(RequestLife)
	if err := upsertRequest(ctx, tx, r.CompanyID, r.ID, digest, expires); err != nil {
		return err
	}
	m := mail.Message{CompanyID: r.CompanyID, To: r.Email, Language: mail.LanguageOf(r.Country), Sealer: s,
		Key: r.ID + "/" + tx.Now().UTC().Format(time.RFC3339)}
	if token == "" {
		m.Template, m.Data = mail.PayeeReminder, mail.PayeeReminderData{Name: r.Name, Company: company.Name,
			Correct: r.Status == payee.Active}
	} else {
		m.Template, m.Data = mail.DestinationLink, mail.DestinationLinkData{Name: r.Name, Company: company.Name,
			Token: token, Expires: expires}
	}
	return mail.Enqueue(ctx, tx, m)
}

// FindRequest returns the request that belongs to a link. It returns apierr.NotFoundErr for a link that is unknown,
// used, replaced or expired.
func FindRequest(ctx context.Context, tx *db.Tx, token string) (Request, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Request{}, apierr.NotFoundErr
	}
	r, recipientID, err := selectRequest(ctx, tx, digest)
	if err != nil {
		return Request{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, r.CompanyID)
	if err != nil {
		return Request{}, err
	}
	if err := company.Active(); err != nil {
		return Request{}, err
	}
	r.CompanyName = company.Name
	if r.Owner, err = payee.Owner(ctx, tx, r.principal(), recipientID); err != nil {
		return Request{}, err
	}
	all, err := selectFor(ctx, tx, []string{recipientID})
	for i, d := range all[recipientID] {
		if r.Now == nil || d.Allocation > r.Now.Allocation {
			r.Now = &all[recipientID][i]
		}
	}
	return r, err
}

// Check returns the error that [Create] would return for a destination of the payee. It stores nothing.
func (r Request) Check(ctx context.Context, tx *db.Tx, setup Setup, symbol string, data []byte) error {
	return Check(ctx, tx, setup, r.principal(), CreateParams{OwnerID: r.Owner.ID, Symbol: symbol, Data: data})
}

// Enter checks the destination that a payee entered at the link, stores it encrypted, and mails a code. It returns
// the errors of [Create], and ErrCodes if too many codes were sent.
func (r Request) Enter(ctx context.Context, tx *db.Tx, setup Setup, symbol string, data []byte) error {
	if err := r.Check(ctx, tx, setup, symbol, data); err != nil {
		return err
	}
	draft, err := setup.Sealer.Seal(r.draftAt(), append([]byte(symbol+"\n"), data...))
	if err != nil {
		return err
	}
	code, expires := identity.NewCode(), tx.Now().Add(CodeLife)
	if err := setDraft(ctx, tx, r, draft, r.codeDigest(code), expires); err != nil {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{CompanyID: r.CompanyID, To: r.Owner.Email, Template: mail.DestinationCode,
		Language: mail.LanguageOf(r.Owner.Country), Sealer: setup.Sealer,
		Key:  r.Owner.ID + "/" + tx.Now().UTC().Format(time.RFC3339Nano),
		Data: mail.DestinationCodeData{Name: r.Owner.Name, Company: r.CompanyName, Code: code, Expires: expires}})
}

func (r Request) draftAt() identity.SealContext {
	return identity.SealContext{Table: "destination_requests", Column: "draft", Row: r.CompanyID + "/" + r.Owner.ID}
}

func (r Request) codeDigest(code string) string { return identity.Digest(r.digest + "/" + code) }

// Confirm stores the entered destination and ends the link if the code is right. It returns false for a wrong or
// expired code, which counts as an attempt, and ErrCodes after too many attempts.
func (r Request) Confirm(ctx context.Context, tx *db.Tx, setup Setup, code string) (ok bool, err error) {
	if err := countAttempt(ctx, tx, r); err != nil {
		return false, err
	}
	if !r.Entered || !r.codeExpires.After(tx.Now()) ||
		subtle.ConstantTimeCompare([]byte(r.codeDigest(code)), []byte(r.code)) != 1 {
		return false, nil
	}
	draft, err := setup.Sealer.Open(r.draftAt(), r.draft)
	if err != nil {
		return false, err
	}
	symbol, data, err := splitDraft(draft)
	if err != nil {
		return false, err
	}
	if err := useRequest(ctx, tx, r); err != nil {
		return false, err
	}
	var d Destination
	if r.Now == nil {
		d, err = Create(ctx, tx, setup, r.principal(), CreateParams{OwnerID: r.Owner.ID, Symbol: symbol, Data: data})
	} else {
		d, err = Update(ctx, tx, setup, r.principal(), UpdateParams{OwnerID: r.Owner.ID, ID: r.Now.ID, Symbol: symbol,
			Data: data})
	}
	if err == nil {
		err = setUsed(ctx, tx, r, d.ID)
	}
	return err == nil, err
}

// FindSaved returns the destination that a payee entered at a link, with the check of the account, for an hour after
// the link was used. It returns apierr.NotFoundErr for any other link.
func FindSaved(ctx context.Context, tx *db.Tx, token string) (Destination, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Destination{}, apierr.NotFoundErr
	}
	owner, id, err := selectUsed(ctx, tx, digest)
	if err != nil {
		return Destination{}, err
	}
	return find(ctx, tx, owner, id)
}

// Checked reports whether a destination's account was checked or will be.
func (s Checks) Checked(d Destination) bool { return d.Check != nil || d.Kind == Fiat && s.checks(d) }

// splitDraft returns the currency and the data of a stored draft.
func splitDraft(draft []byte) (symbol string, data []byte, err error) {
	for i, b := range draft {
		if b == '\n' {
			return string(draft[:i]), draft[i+1:], nil
		}
	}
	return "", nil, errors.New("destination: a draft without a currency")
}

// Required returns the required fields of a destination in a currency.
func (r Request) Required(setup Setup, currency string) (Requirement, error) {
	return setup.RequiredIn(currency, r.Owner.Country)
}

// ForgetRequests deletes entered destinations that were not confirmed in time. It runs periodically.
func ForgetRequests(ctx context.Context, d *db.DB) error { return d.Write(ctx, deleteDrafts) }
