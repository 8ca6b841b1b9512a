package bank

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// Checks of accounts before the first payment: a bank compares the payee's name with the account holder's name
// (Verification of Payee), or the operator sends a prenote, an ACH entry of zero that the payee's bank returns if it
// cannot post the entry.
//
//	prenote   new → ordered → accepted
//	                   ├→ returned
//	                   └→ refused
//
// A prenote is accepted on the third banking day after it settled, if it was neither returned nor corrected. Until
// then, nothing may be paid to the account.

// A Verifier compares the names of payees with the names of account holders, through calls to a bank.
type Verifier interface {
	// VerifyName returns the result, with the holder's name for a close match. Any error means that there is no answer
	// yet, so the call may be repeated.
	VerifyName(ctx context.Context, q NameQuery) (NameAnswer, error)
}

// NameQuery asks whether a name belongs to an account.
type NameQuery struct{ Name, IBAN, BIC string }

// NameAnswer is the answer to a NameQuery.
type NameAnswer struct {
	Result iso20022.Verification
	Name   string // holder's name, for a close match
}

// A Prenoter is an API that sends prenotes, or entries that check accounts in the same way.
type Prenoter interface {
	// Prenote sends a prenote, or returns the prenote that an earlier call with the same key sent.
	Prenote(ctx context.Context, o PrenoteOrder) (Prenote, error)
	// GetPrenote returns a prenote by its ID.
	GetPrenote(ctx context.Context, id string) (Prenote, error)
}

// PrenoteOrder is a prenote for an API.
type PrenoteOrder struct {
	Account Account
	Key     string // idempotency key, also the reference shown to the payee's bank
	Payee
}

// Prenote is a prenote at a bank, as its API reports it.
type Prenote struct {
	ID       string
	Sent     bool   // the bank sent it to the network
	Returned string // reason of the return, such as R03, or ""
	Refused  string // why the bank did not and will not send the prenote, or ""
	Changes  []Wanted
}

// Kinds of checks and results of prenotes, as [Checked] reports them.
const (
	CheckName       = "verification_of_payee"
	CheckPrenote    = "prenote"
	PrenotePending  = "pending"
	PrenoteAccepted = "accepted"
	PrenoteReturned = "returned" // or the payee's bank asks for a correction
	PrenoteRefused  = "not_possible"
)

// Checked is the result of a check of a destination's account.
type Checked struct {
	CompanyID   string
	Destination json.RawMessage // snapshot of the destination that was checked
	Method      string
	Result      string // result of a prenote, or an iso20022.Verification
	Name        string // holder's name, for a close match
	Code        string // reason of a returned prenote
	Until       time.Time
	Unless      time.Time // a result stored at or after this time is kept, unless this is zero
}

// CheckMethod returns the method by which accounts of a kind are checked before a payment from one of the operator's
// accounts, or "" if they are not checked. The parameters names and prenotes report whether names of accounts can be
// verified, and whether prenotes can be sent.
func CheckMethod(accounts []Account, names, prenotes bool, asset money.Asset, country, scheme string) string {
	a, ok := ChooseAccount(accounts, asset, country, scheme, "")
	switch {
	case !ok:
	case names && a.scheme() == iso20022.SEPA:
		return CheckName
	case prenotes && scheme == "ach" && slices.Contains([]string{FormatNACHA, FormatIncrease, FormatColumn}, a.Format):
		return CheckPrenote
	}
	return ""
}

// VerifyName compares the name in a destination with the name of the account's holder.
func (r *Rail) VerifyName(ctx context.Context, to Destination) (NameAnswer, error) {
	if r.c.Verifier == nil {
		return NameAnswer{}, errors.New("bank: no bank verifies names")
	}
	var d struct {
		Name string `json:"account_holder_name"`
		IBAN string `json:"iban"`
		BIC  string `json:"bic"`
	}
	if err := json.Unmarshal(to.Data, &d); err != nil {
		return NameAnswer{}, err
	}
	return r.c.Verifier.VerifyName(ctx, NameQuery{latin(d.Name), d.IBAN, d.BIC})
}

// States of a prenote.
const (
	prenoteNew      = "new"
	prenoteOrdered  = "ordered"
	prenoteAccepted = "accepted"
	prenoteReturned = "returned"
	prenoteRefused  = "refused"
)

// AddPrenote queues a prenote to a destination, for the company that entered the destination. It queues none if the
// account's holder is abroad, because the prenote would be an international transaction.
func (r *Rail) AddPrenote(ctx context.Context, tx *db.Tx, companyID string, asset money.Asset,
	snapshot json.RawMessage) error {
	to, err := r.c.Reveal(snapshot)
	if err != nil {
		return err
	}
	if abroad := to.party(""); abroad != "" {
		_, err := r.c.Checked(ctx, tx, Checked{CompanyID: companyID, Destination: snapshot, Method: CheckPrenote,
			Result: PrenoteRefused})
		return err
	}
	a, ok := ChooseAccount(r.c.Accounts, asset, to.Country, to.Scheme, "")
	if !ok {
		return fmt.Errorf("bank: no account sends prenotes in %s", asset)
	}
	return insertPrenote(ctx, tx, prenote{id: tx.NewID("pre"), companyID: companyID, account: a.ID, asset: asset,
		destination: snapshot, state: prenoteNew})
}

// workPrenotes sends new prenotes, asks banks about prenotes that were sent through an API, and accepts prenotes
// whose waiting time is over.
func (r *Rail) workPrenotes(ctx context.Context, d *db.DB) error {
	var failed []error
	for _, a := range r.c.Accounts {
		if a.Format == FormatNACHA {
			failed = append(failed, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				return r.makePrenotes(ctx, tx, a)
			}))
		} else if api, ok := r.c.APIs[a.ID].(Prenoter); ok {
			failed = append(failed, r.sendPrenotes(ctx, d, a, api))
		}
	}
	return errors.Join(append(failed, d.Write(ctx, r.acceptPrenotes))...)
}

// makePrenotes writes the new prenotes of an account to a file.
func (r *Rail) makePrenotes(ctx context.Context, tx *db.Tx, a Account) error {
	why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log, a.Currency)
	if err != nil || why != "" {
		return err
	}
	waiting, err := prenotesIn(ctx, tx, a, prenoteNew)
	if err != nil || len(waiting) == 0 {
		return err
	}
	var some []prenote
	var payments []Payment
	for _, p := range waiting {
		to, err := r.c.Reveal(p.destination)
		if err != nil {
			return err
		}
		payment := Payment{Amount: money.Zero(a.Currency), Country: to.Country, Scheme: to.Scheme, Data: to.Data,
			Prenote: true}
		if err := a.Check(tx.Now(), payment); err != nil {
			if err := r.conclude(ctx, tx, p, prenoteRefused, PrenoteRefused, ""); err != nil {
				return err
			}
			continue
		}
		some, payments = append(some, p), append(payments, payment)
	}
	if len(some) == 0 {
		return nil
	}
	number, err := NextNumber(ctx, tx)
	if err != nil {
		return err
	}
	made, err := a.Encode(number, tx.Now(), payments)
	if err != nil {
		return fmt.Errorf("file %d: %w", number, err)
	}
	f := File{CompanyID: ledger.Operator, ID: tx.NewID("bfl"), Number: number, Account: a.ID, Currency: a.Currency,
		Name: made.Name, Total: money.Zero(a.Currency), Payments: int64(len(some)),
		Execute: made.Execute.Format(time.DateOnly), Checksum: checksum(made.Body), State: Prepared, Version: 1,
		Kind: KindPrenotes}
	if f.sealed, err = r.c.Sealer.Seal(sealedAt(f), made.Body); err != nil {
		return err
	}
	outs := make([]payout.Output, len(some))
	for i, p := range some {
		outs[i] = payout.Output{ID: p.id, Amount: money.Zero(a.Currency)}
	}
	if err := insertFile(ctx, tx, f, outs, made.Parts); err != nil {
		return err
	}
	until := waitingTime(made.Execute, a.zone)
	for i := range some {
		p := &some[i]
		p.fileID, p.until = f.ID, until
		if err := r.order(ctx, tx, *p); err != nil {
			return err
		}
	}
	enqueueSend(tx, f, tx.Now())
	return nil
}

// waitingTime returns the end of the waiting time of a prenote: the start of the third banking day after its
// settlement.
func waitingTime(settled time.Time, zone *time.Location) time.Time {
	day := settled
	for range prenoteDays {
		day = FederalReserve.nextBusinessDay(day.AddDate(0, 0, 1))
	}
	return time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone)
}

// prenoteDays is the number of banking days between the settlement of a prenote and the first payment.
const prenoteDays = 3

// order records that a prenote was written to a file or sent through an API, and the time until which nothing may be
// paid.
func (r *Rail) order(ctx context.Context, tx *db.Tx, p prenote) error {
	p.state = prenoteOrdered
	if err := storePrenote(ctx, tx, p); err != nil {
		return err
	}
	_, err := r.c.Checked(ctx, tx, Checked{CompanyID: p.companyID, Destination: p.destination, Method: CheckPrenote,
		Result: PrenotePending, Until: p.until})
	return err
}

// conclude stores the final state of a prenote, and reports the result.
func (r *Rail) conclude(ctx context.Context, tx *db.Tx, p prenote, state, result, code string) error {
	if p.state != prenoteNew && p.state != prenoteOrdered {
		if p.state != prenoteAccepted || state != prenoteReturned {
			return nil
		}
	}
	p.state = state
	if err := storePrenote(ctx, tx, p); err != nil {
		return err
	}
	_, err := r.c.Checked(ctx, tx, Checked{CompanyID: p.companyID, Destination: p.destination, Method: CheckPrenote,
		Result: result, Code: code})
	return err
}

// sendPrenotes sends an account's new prenotes through the bank's API, and asks the bank about prenotes already sent.
func (r *Rail) sendPrenotes(ctx context.Context, d *db.DB, a Account, api Prenoter) error {
	var all []prenote
	paused := ""
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if paused, err = payout.PayoutsAllowed(ctx, tx, r.c.Log, a.Currency); err != nil {
			return err
		}
		if all, err = prenotesIn(ctx, tx, a, prenoteNew); err != nil {
			return err
		}
		sent, err := prenotesIn(ctx, tx, a, prenoteOrdered)
		if err != nil {
			return err
		}
		all = append(all, sent...)
		return storeAsked(ctx, tx, sent)
	}); err != nil {
		return err
	}
	asked, err := d.Now(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, p := range all {
		if paused != "" && p.transferID == "" {
			continue
		}
		var got Prenote
		order, err := r.prenoteOrder(a, p)
		switch {
		case err != nil:
		case p.transferID != "":
			got, err = api.GetPrenote(ctx, p.transferID)
		default:
			got, err = api.Prenote(ctx, order)
		}
		if err == nil {
			err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return r.recordPrenote(ctx, tx, p, got, asked) })
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

func (r *Rail) prenoteOrder(a Account, p prenote) (o PrenoteOrder, err error) {
	to, err := r.c.Reveal(p.destination)
	if err != nil {
		return o, err
	}
	o = PrenoteOrder{Account: a, Key: p.id}
	o.Payee, err = Payment{Amount: money.Zero(a.Currency), Country: to.Country, Scheme: to.Scheme, Data: to.Data}.Payee()
	return o, err
}

// recordPrenote stores the report of a bank about a prenote. The prenote is accepted if the bank was asked after the
// waiting time and reports neither a return nor a correction. asked is the time of the question.
func (r *Rail) recordPrenote(ctx context.Context, tx *db.Tx, was prenote, got Prenote, asked time.Time) error {
	p, err := lockPrenote(ctx, tx, was.id)
	if err != nil {
		return err
	}
	p.transferID = got.ID
	for _, w := range got.Changes {
		if c, err := (nacha.Response{Code: w.Code, Corrected: w.Data}).Correction(); err == nil {
			if err := r.correct(ctx, tx, p, w.Code, c); err != nil {
				return err
			}
			p.state = prenoteReturned
		}
	}
	switch {
	case p.state == prenoteReturned:
		return nil
	case got.Returned != "":
		return r.conclude(ctx, tx, p, prenoteReturned, PrenoteReturned, got.Returned)
	case got.Refused != "":
		return r.conclude(ctx, tx, p, prenoteRefused, PrenoteRefused, got.Refused)
	case p.state == prenoteNew || got.Sent && p.until.IsZero():
		if got.Sent {
			now := tx.Now()
			day := FederalReserve.nextBusinessDay(time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, time.UTC))
			p.until = waitingTime(day, time.UTC)
		}
		return r.order(ctx, tx, p)
	case p.state == prenoteOrdered && !p.until.IsZero() && !asked.Before(p.until):
		return r.conclude(ctx, tx, p, prenoteAccepted, PrenoteAccepted, "")
	}
	return storePrenote(ctx, tx, p)
}

// correct records that the payee's bank asks for a correction after a prenote. Nothing is paid to the account before
// the correction.
func (r *Rail) correct(ctx context.Context, tx *db.Tx, p prenote, code string, c nacha.Correction) error {
	if p.state == prenoteReturned {
		return nil
	}
	if err := r.conclude(ctx, tx, p, prenoteReturned, PrenoteReturned, code); err != nil {
		return err
	}
	return r.c.Changed(ctx, tx, payout.Output{CompanyID: p.companyID, Destination: p.destination}, code, c)
}

// acceptPrenotes accepts prenotes in files whose waiting time is over. The waiting time begins when the bank has the
// file.
func (r *Rail) acceptPrenotes(ctx context.Context, tx *db.Tx) error {
	due, err := duePrenotes(ctx, tx)
	if err != nil {
		return err
	}
	for _, found := range due {
		p, err := lockPrenote(ctx, tx, found.id)
		if err != nil {
			return err
		}
		if p.state != prenoteOrdered { // a return was recorded first
			continue
		}
		f, err := get(ctx, tx, ledger.Operator, p.fileID)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.c.Accounts, func(a Account) bool { return a.ID == p.account && a.Currency == p.asset })
		if f.SentAt.IsZero() || i < 0 {
			continue
		}
		sent := f.SentAt.In(r.c.Accounts[i].zone)
		settled, err := time.Parse(time.DateOnly, max(f.Execute, sent.Format(time.DateOnly)))
		if err != nil {
			return err
		}
		if p.until = waitingTime(settled, r.c.Accounts[i].zone); p.until.After(tx.Now()) {
			if err := r.order(ctx, tx, p); err != nil {
				return err
			}
			continue
		}
		if err := r.conclude(ctx, tx, p, prenoteAccepted, PrenoteAccepted, ""); err != nil {
			return err
		}
	}
	return nil
}

// applyPrenote applies a fact about the prenotes of a file.
func (b *fileUpdate) applyPrenote(some []*payment, f fact) {
	for _, p := range some {
		switch {
		case f.kind == changed:
			b.changes = append(b.changes, f)
		case f.kind == returned && p.state != Returned:
			p.state, p.reason, b.changed[p.position] = Returned, f.code, p
			b.prenotes[p.output] = Checked{Result: PrenoteReturned, Code: cmp.Or(f.code, "returned")}
		case f.kind == rejected && p.state == Ordered:
			p.state, p.reason, b.changed[p.position] = Rejected, f.code, p
			b.prenotes[p.output] = Checked{Result: PrenoteRefused, Code: f.code}
		}
	}
}

// writePrenotes stores the results of prenotes that a response contains.
func (r *Rail) writePrenotes(ctx context.Context, tx *db.Tx, b *fileUpdate) error {
	for id, c := range b.prenotes {
		p, err := lockPrenote(ctx, tx, id)
		if err != nil {
			return err
		}
		state := prenoteReturned
		if c.Result == PrenoteRefused {
			state = prenoteRefused
		}
		if err := r.conclude(ctx, tx, p, state, c.Result, c.Code); err != nil {
			return err
		}
	}
	return nil
}
