package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/webhook"
)

// Banks check an account before the first payment to it: they compare the payee's name with the name of the account
// holder, or receive a prenote, which is a payment of zero. The newest result is stored with the destination until
// the destination's data changes.

// JobEntered is the kind of job that is enqueued after bank data was entered. Its payload is an [Entered].
const JobEntered = "distribution.entered"

// Entered is the payload of JobEntered.
type Entered struct {
	OwnerID        string `json:"owner_id"`
	DistributionID string `json:"distribution_id"`
}

// CheckMethod is the way in which a bank checks an account.
type CheckMethod string

// Methods of a check.
const (
	CheckName    CheckMethod = "verification_of_payee" // the bank compares the payee's and the holder's names
	CheckPrenote CheckMethod = "prenote"               // ACH entries of zero; a bank returns those that it cannot post
)

// CheckResult is the result of a check.
type CheckResult string

// Results of a check.
const (
	CheckPending     CheckResult = "pending"
	CheckMatch       CheckResult = "match"
	CheckCloseMatch  CheckResult = "close_match"
	CheckNoMatch     CheckResult = "no_match"
	CheckNotPossible CheckResult = "not_possible"
	CheckAccepted    CheckResult = "accepted" // the prenote was not returned within its waiting time
	CheckReturned    CheckResult = "returned" // the prenote was returned
)

// AccountCheck is the newest check of the bank account of a destination.
type AccountCheck struct {
	Method CheckMethod `json:"method"`
	Result CheckResult `json:"result"`
	Code   string      `json:"code,omitempty"`   // reason for the return of a prenote, such as R03
	Sealed string      `json:"sealed,omitempty"` // encrypted name of the account holder, for a close match
	// Until is the end of the period after a prenote in which nothing may be paid, or zero.
	Until     time.Time `json:"until,omitzero"`
	Checked   time.Time `json:"checked"`    // time of the result, or of the request if there is no result yet
	CompanyID string    `json:"company_id"` // company that has the payee's record or made the payment, or ""
	// Confirmed is the time at which the owner confirmed the account despite the result, or zero. It applies to the
	// owner's income, but not to payrolls, in which a member of the company confirms each payment.
	Confirmed time.Time `json:"confirmed,omitzero"`
}

// Passed reports whether the bank has confirmed the account.
func (c *AccountCheck) Passed() bool {
	return c != nil && (c.Result == CheckMatch || c.Result == CheckAccepted)
}

// Failed reports whether the bank has answered without confirming the account.
func (c *AccountCheck) Failed() bool {
	return c != nil && (c.Result == CheckCloseMatch || c.Result == CheckNoMatch || c.Result == CheckReturned)
}

func checkAt(d Destination) identity.SealContext {
	return identity.SealContext{Table: "destinations", Column: "account_check", Row: d.OwnerID + "/" + d.ID}
}

// SealHolder encrypts the name of the holder of a destination's bank account.
func SealHolder(s *identity.Sealer, d Destination, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	return s.Seal(checkAt(d), []byte(name))
}

// Holder returns the name of the account's holder that the bank stated for a close match, or "".
func (d Destination) Holder(s *identity.Sealer) (string, error) {
	if d.Check == nil || d.Check.Sealed == "" {
		return "", nil
	}
	b, err := s.Open(checkAt(d), d.Check.Sealed)
	return string(b), err
}

// entered enqueues a [JobEntered] for new bank data.
func entered(tx *db.Tx, owner payee.Payee, d Destination) {
	if d.Kind == Fiat {
		job.Enqueue(tx, job.New{CompanyID: owner.CompanyID, Kind: JobEntered, Payload: Entered{d.OwnerID, d.ID}})
	}
}

// FindEntered returns the destination that a [JobEntered] names, or apierr.NotFoundErr.
func FindEntered(ctx context.Context, tx *db.Tx, j job.Job) (Destination, error) {
	var in Entered
	if err := j.Decode(&in); err != nil {
		return Destination{}, err
	}
	return find(ctx, tx, in.OwnerID, in.DistributionID)
}

// RecordCheck stores a check of a destination and reports whether it did; it does not if the destination's data has
// changed since. It emits the event distribution.checked with the result, and enqueues jobs for payments that waited
// for it.
func RecordCheck(ctx context.Context, tx *db.Tx, d Destination, c AccountCheck) (bool, error) {
	c.Checked = tx.Now()
	text, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	stored, err := setCheck(ctx, tx, d, string(text))
	if err != nil || !stored || c.Result == CheckPending {
		return stored, err
	}
	owner := payee.Payee{ID: d.OwnerID}
	if identity.IsUser(d.OwnerID) {
		owner.UserID = d.OwnerID
	}
	by := identity.Principal{CompanyID: c.CompanyID}
	if err := errors.Join(payee.Moved(ctx, tx, by, owner, false, true), mailCheck(ctx, tx, d, c)); err != nil {
		return true, err
	}
	return true, webhook.EmitNext(ctx, tx, webhook.DistributionChecked.Event(c.CompanyID, owner.ID, 0,
		webhook.AccountCheckData{RecipientID: owner.ID, UserID: owner.UserID, DistributionID: d.ID,
			Symbol: string(d.Symbol), Method: string(c.Method), Result: string(c.Result), Code: c.Code,
			Checked: c.Checked.Truncate(time.Millisecond)}).And(owner.UserID)...)
}

// mailCheck mails the payee that a bank did not confirm the account, once for the same account and result. It does
// not mail a user whom a company created, because the company receives the event.
func mailCheck(ctx context.Context, tx *db.Tx, d Destination, c AccountCheck) error {
	if !c.Failed() {
		return nil
	}
	var to, country string
	data := mail.AccountNotConfirmedData{Destination: d.label(), Returned: c.Result == CheckReturned}
	if identity.IsUser(d.OwnerID) {
		u, err := identity.GetUser(ctx, tx, nil, d.OwnerID)
		if err != nil || u.CompanyID != "" {
			return err
		}
		to, country, data.Name = u.Email, u.Country, u.Name()
	} else if c.CompanyID != "" {
		company, err := identity.CompanyByID(ctx, tx, c.CompanyID)
		if err != nil {
			return err
		}
		owner, err := payee.Owner(ctx, tx, identity.Principal{Kind: identity.KindLink, CompanyID: c.CompanyID}, d.OwnerID)
		if errors.Is(err, apierr.NotFoundErr) {
			return nil
		}
		if err != nil {
			return err
		}
		to, country, data.Name, data.Company = owner.Email, owner.Country, owner.Name, company.Name
	}
	if !mail.Valid(to) {
		return nil
	}
	return mail.Enqueue(ctx, tx, mail.Message{CompanyID: c.CompanyID, To: to, Template: mail.AccountNotConfirmed,
		Language: mail.LanguageOf(country), Data: data,
		Key: d.ID + "/" + string(c.Result) + "/" + identity.Digest(identity.SealID(d.Sealed))})
}

// CheckOf returns the newest check of a destination. It returns nil if there is none or the destination's data has
// changed since.
func CheckOf(ctx context.Context, tx *db.Tx, of Destination) (*AccountCheck, error) {
	now, err := find(ctx, tx, of.OwnerID, of.ID)
	if errors.Is(err, apierr.NotFoundErr) || err == nil && !now.SamePlace(of) {
		return nil, nil //nolint:nilnil // the destination has no check
	}
	return now.Check, err
}

// NameChecks returns destinations for which a bank compared the payee's name with that of the account holder, newest
// first. If all is false, it returns only those without a match.
func NameChecks(ctx context.Context, tx *db.Tx, all bool, limit int) ([]Destination, error) {
	owners, err := checked(ctx, tx)
	if err != nil {
		return nil, err
	}
	of, err := selectFor(ctx, tx, owners)
	var found []Destination
	for _, some := range of {
		for _, d := range some {
			if d.Check != nil && d.Check.Method == CheckName && (all || !d.Check.Passed()) {
				found = append(found, d)
			}
		}
	}
	slices.SortFunc(found, func(a, b Destination) int {
		return cmp.Or(b.Check.Checked.Compare(a.Check.Checked), cmp.Compare(a.ID, b.ID))
	})
	return found[:min(limit, len(found))], err
}

// errConfirm is returned for an account that needs no confirmation for income payments, or that cannot be confirmed.
var errConfirm = apierr.New(apierr.Conflict, "invalid_state", "This account needs no confirmation now, or cannot be "+
	"confirmed: wait for the bank's answer, or replace the account if the bank returned a prenote.")

// Confirm records that the owner confirms a bank account that has not passed its check, so that the owner's income is
// paid to it. The confirmation ends with a later result of a check and with new data. Confirm returns
// apierr.NotFoundErr for an unknown destination. It also returns an error if the bank's first answer or the result of
// a prenote is still awaited, if the prenote was returned, if the account has passed its check, and if no bank checks
// the account.
func Confirm(ctx context.Context, tx *db.Tx, by identity.Principal, checks Checks, ownerID, id string) (Destination,
	error) {
	owner, version, d, err := lockOwn(ctx, tx, by, ownerID, id)
	if err != nil {
		return Destination{}, err
	}
	if !checks.Confirmable(tx.Now(), d) {
		return d, errConfirm
	}
	was, c := "", AccountCheck{Method: CheckName, Result: CheckPending, Checked: d.Updated}
	if d.Check != nil {
		text, err := json.Marshal(d.Check)
		if err != nil {
			return d, err
		}
		was, c = string(text), *d.Check
	}
	c.Confirmed = tx.Now()
	text, err := json.Marshal(c)
	if err != nil {
		return d, err
	}
	if stored, err := changeCheck(ctx, tx, d, was, string(text)); err != nil {
		return d, err
	} else if !stored { // a new result arrived in the meantime
		return d, db.ErrConflict
	}
	d.Check = &c
	db.History(tx, by.CompanyID, d.ID, version, allocated(d), allocated(d), "the owner confirmed the account")
	return d, payee.Moved(ctx, tx, by, owner, false, true)
}

// Confirmable reports whether the owner can confirm a destination's bank account: the account has not passed its
// check, and the bank has answered or has not answered in time.
func (s Checks) Confirmable(now time.Time, d Destination) bool {
	c := s.Concern(now, Unconfirmed([]Destination{d}))
	return c != nil && !c.Returned && c.Waits.IsZero() && c.Unanswered.IsZero()
}

// Unconfirmed returns the destinations whose bank accounts their owner has not confirmed.
func Unconfirmed(all []Destination) (some []Destination) {
	for _, d := range all {
		if d.Check == nil || d.Check.Confirmed.IsZero() {
			some = append(some, d)
		}
	}
	return some
}

// CheckPolicy determines the effect on payments of a missing check, or of a check without a match.
type CheckPolicy string

// Policies for account checks.
const (
	CheckIgnored CheckPolicy = "ignore" // accounts are not checked
	CheckWarns   CheckPolicy = "warn"   // approvers see a warning
	CheckBlocks  CheckPolicy = "block"  // payments wait until the account passes its check or a member confirms it
)

// AnswerWait is how long payments wait for a bank's first answer about new data. After that, the policy applies as if
// the check were not possible.
const AnswerWait = 10 * time.Minute

// Checks determines the effect of account checks on payments.
type Checks struct {
	Policy CheckPolicy // "" means CheckIgnored
	// Method returns how a kind of account is checked, or "" if none of the operator's banks can check it.
	Method func(symbol money.Asset, country, scheme string) CheckMethod
}

// Concern is the most serious problem with the account checks of a payment's destinations.
type Concern struct {
	Destination Destination
	Result      CheckResult // "" if the account was never checked
	Waits       time.Time   // nothing may be paid until this time because of a prenote; or zero
	Unanswered  time.Time   // payments wait until this time for the bank's first answer; or zero
	Returned    bool        // the prenote was returned: nothing may be paid to the account
}

// outranks reports whether c is more serious than d.
func (c *Concern) outranks(d *Concern) bool {
	switch {
	case d == nil || c.Returned != d.Returned:
		return d == nil || c.Returned
	case !c.Waits.Equal(d.Waits):
		return c.Waits.After(d.Waits)
	}
	return c.Unanswered.After(d.Unanswered)
}

// Concern returns the most serious problem with the account checks of a payment's destinations, or nil. A returned
// prenote, and the waiting time of a prenote, count under every policy.
func (s Checks) Concern(now time.Time, used []Destination) (worst *Concern) {
	for _, d := range used {
		if d.Kind != Fiat {
			continue
		}
		c := Concern{Destination: d}
		if d.Check != nil {
			c.Result = d.Check.Result
			c.Returned = d.Check.Method == CheckPrenote && d.Check.Result == CheckReturned
			if d.Check.Method == CheckPrenote && d.Check.Result == CheckPending { // the result of the prenote ends the wait
				c.Waits = later(d.Check.Until, now.Add(time.Hour))
			}
		}
		open := s.checks(d) && !d.Check.Passed()
		if open && (d.Check == nil || d.Check.Method == CheckName && d.Check.Result == CheckPending) {
			if until := d.Updated.Add(AnswerWait); until.After(now) {
				c.Unanswered = until
			}
		}
		if (c.Returned || !c.Waits.IsZero() || open) && c.outranks(worst) {
			worst = &c
		}
	}
	return worst
}

// checks reports whether the policy requires that a destination be checked.
func (s Checks) checks(d Destination) bool {
	return (s.Policy == CheckWarns || s.Policy == CheckBlocks) && s.Method != nil &&
		s.Method(d.Symbol, d.Country, d.Scheme) != ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
