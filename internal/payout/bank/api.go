package bank

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// An API executes single payments through calls to a bank, instead of payment files. The payments of one call of
// Prepare still form a file, which is numbered, sealed and stored before anything is sent.
//
//	transfer  new → in_doubt → accepted → ended
//	           ↑        └→ new with the fallback method, or ended if the bank refused it
//	           └──────────────┘
//
// The state in_doubt and the method are committed before the first call that creates a transfer. After a response
// that leaves the outcome unknown, the rail first asks the bank for the transfer with the same key, and only then
// repeats the call with that key. The key consists of the payment's reference and the method.
type API interface {
	// Method returns the way in which the bank should pay an order, such as "rtp" or "ach". It has no side effects.
	Method(ctx context.Context, o Order) (string, error)
	// Create creates a transfer, or returns the transfer that an earlier call with the same key created. A definite
	// refusal is returned as a Transfer with status TransferRejected. Any error means that the transfer may exist. The
	// error is ErrOther if the key belongs to another payment.
	Create(ctx context.Context, o Order) (Transfer, error)
	// Find returns the transfer with the key of an order, ErrNoTransfer if the bank has no such transfer, or ErrOther.
	Find(ctx context.Context, o Order) (Transfer, error)
	// Get returns a transfer by its ID.
	Get(ctx context.Context, o Order, id string) (Transfer, error)
	// Statement returns the entries of an account in [from, to), which is one day in the account's time zone, or
	// [ErrStatementPending].
	Statement(ctx context.Context, a Account, from, to time.Time) (Statement, error)
}

// Errors of an API.
var (
	ErrNoTransfer = errors.New("the bank has no transfer with this key")
	ErrOther      = errors.New("the bank has another payment with the key of this one")
)

// Order is a payment for an API.
type Order struct {
	Account   Account
	Reference string // S0000012P00003
	Method    string
	Payment
	Debit nacha.Debit // kind of the debit if the order collects the amount from the account; "" for a payment
	Retry bool        // the order is a debit that repeats a returned debit
	// Reverses is the bank's ID of the ACH transfer that this order reverses, and Reason is one of [ReversalReasons];
	// both are "" for other orders.
	Reverses, Reason string
}

// Collects reports whether the order takes money from the account: a direct debit or a reversal.
func (o Order) Collects() bool { return o.Debit != "" || o.Reverses != "" }

// Key returns the idempotency key of the order's transfer, such as S0000012P00003-ach.
func (o Order) Key() string { return o.Reference + "-" + o.Method }

// TransferStatus is the status of a transfer at a bank.
type TransferStatus int

// Statuses of a transfer.
const (
	TransferPending  TransferStatus = iota // the bank has accepted the transfer
	TransferPaid                           // the money left the account
	TransferRejected                       // the bank did not and will not pay the transfer
	TransferReturned                       // the money left the account and came back
)

// Transfer is a payment at a bank, as its API reports it.
type Transfer struct {
	ID     string
	Status TransferStatus
	Code   string       // the bank's reason for a rejection or return, such as R03 or AC04
	Info   string       // the bank's text
	Back   money.Amount // amount that came back; without an asset it is the full amount
	// Cost is the total that left the account for a paid transfer, including the bank's price, in the account's
	// currency; without an asset it is the payment's amount. Price is the bank's price, which is a part of Cost; it may
	// lack an asset.
	Cost, Price money.Amount
	Fallback    string   // the method that may pay a rejected transfer, or ""
	Final       bool     // no return can follow
	Changes     []Wanted // corrections of the destination that the payee's bank asks for
}

// Wanted is a notification of change.
type Wanted struct{ Code, Data string } // Data as [nacha.Correction.Corrected] returns it

// addChange adds a notification of change of a payment. A notification that does not correct the destination is a
// problem for staff.
func (b *fileUpdate) addChange(ref Reference, w Wanted) {
	if _, err := (nacha.Response{Code: w.Code, Corrected: w.Data}).Correction(); err != nil {
		b.problem("payment %d has the notification of change %q, which corrects no destination; ask the bank", ref.Position,
			w.Code)
		return
	}
	b.apply(fact{ref: ref, kind: changed, code: w.Code, info: w.Data})
}

// Payee has the fields of a destination that banks in the United States need.
type Payee struct {
	Name, Routing, Account string
	Savings, Business      bool
	Address                iso20022.Address
}

// Payer returns the name of the company that pays, transliterated. If it is unknown, or the order is a debit, Payer
// returns the name of the account holder.
func (o Order) Payer() string {
	if o.Debit != "" {
		return latin(o.Account.Name)
	}
	return cmp.Or(latin(o.Details.Payer), latin(o.Account.Name))
}

// Remittance returns the text that the payee sees: 1 to 140 ASCII characters.
func (o Order) Remittance() string { return cmp.Or(remittance(o.Details), o.Payer()) }

// EntryDescription returns the company entry description of an ACH entry, such as PAYROLL.
func (o Order) EntryDescription() (string, error) {
	switch {
	case o.Debit != "":
		return debitDescription(o.Retry), nil
	case o.Reverses != "":
		return nacha.Reversal, nil
	}
	to, err := o.Payee()
	return entryDescription(o.Details.Purpose, to.Business), err
}

// Payee returns the fields of the payment's destination, transliterated, or an error if a field is missing.
func (p Payment) Payee() (Payee, error) {
	to, err := p.Receiver()
	if err == nil && to.Routing == "" {
		err = errDestination
	}
	return to, err
}

// Receiver is like [Payment.Payee], but accepts a destination without a routing number.
func (p Payment) Receiver() (Payee, error) {
	t, err := Account{}.transfer(p)
	return Payee{t.holder, t.routing, t.Creditor.Account, t.savings, t.Company, t.Address}, err
}

// methodACH is the method of ACH transfers at every bank with an API.
const methodACH = "ach"

// States of a transfer in bank_transfers.
const (
	transferNew      = "new"      // nothing was sent
	transferInDoubt  = "in_doubt" // the bank may have the transfer
	transferAccepted = "accepted" // the bank has the transfer
	transferEnded    = "ended"    // its outcome is final
)

// Numbers of transfers that are processed together.
const (
	transfersPerStep  = 50
	stepsPerJob       = 4
	transfersInFlight = 8
	transfersPerCheck = 200 // per run of Collect and account
)

// Intervals at which an accepted transfer is checked: the shortest, the longest, and the age at which the checks end.
// ACH payments can be returned for 60 days.
const (
	firstCheck   = time.Minute
	longestCheck = 24 * time.Hour
	checksEnd    = 65 * 24 * time.Hour
)

// storedOrder is a payment in the body of a file for an API.
type storedOrder struct {
	Units   int64           `json:"units"`
	Country string          `json:"country"`
	Scheme  string          `json:"scheme"`
	Data    json.RawMessage `json:"data"`
	Details payout.Details  `json:"details"`
	// Reverses and Reason are set in the order of a reversal.
	Reverses string `json:"reverses,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// encodeOrders returns the body of a file for an API.
func (a Account) encodeOrders(payments []Payment) ([]byte, error) {
	all := make([]storedOrder, len(payments))
	for i, p := range payments {
		if _, err := a.transfer(p); err != nil {
			return nil, fmt.Errorf("payment %d: %w", i+1, err)
		}
		all[i] = storedOrder{Units: p.Amount.Units(), Country: p.Country, Scheme: p.Scheme, Data: p.Data, Details: p.Details}
	}
	return json.Marshal(all)
}

// orders returns the payments of a file for an API.
func (r *Rail) orders(f File, a Account) ([]Order, error) {
	body, err := f.Body(r.c.Sealer)
	if err != nil {
		return nil, err
	}
	var stored []storedOrder
	if err := json.Unmarshal(body, &stored); err != nil {
		return nil, fmt.Errorf("file %s: %w", f.Name, err)
	}
	all := make([]Order, len(stored))
	for i, s := range stored {
		all[i] = Order{Account: a, Reference: PaymentReference(f.Number, i+1), Payment: Payment{
			Amount: money.New(f.Total.Asset(), s.Units), Country: s.Country, Scheme: s.Scheme, Data: s.Data, Details: s.Details},
			Reverses: s.Reverses, Reason: s.Reason}
	}
	return all, nil
}

// apiOf returns the account and the API of a file. ok is false if the file is not for an API.
func (r *Rail) apiOf(f File) (a Account, api API, ok bool, err error) {
	if !strings.HasSuffix(f.Name, apiSuffix) {
		return a, nil, false, nil
	}
	i := slices.IndexFunc(r.c.Accounts, func(a Account) bool { return a.ID == f.Account && a.ByAPI() })
	if i < 0 || r.c.APIs[f.Account] == nil {
		return a, nil, true, fmt.Errorf("bank: the account %s of file %s is not configured", f.Account, f.Name)
	}
	return r.c.Accounts[i], r.c.APIs[f.Account], true, nil
}

// result is the result of one call about a transfer.
type result struct {
	row      bankTransfer
	transfer Transfer
	err      error
}

// sendByAPI orders the payments of a file that the bank has not accepted yet. It handles some steps and enqueues a
// job for the rest.
func (r *Rail) sendByAPI(ctx context.Context, d *db.DB, f File, a Account, api API) error {
	orders, err := r.orders(f, a)
	if err != nil {
		return err
	}
	if f.State == Prepared {
		claimed := false
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			claimed = false
			why, err := payout.PayoutsAllowed(ctx, tx, r.c.Log, f.Total.Asset(), f.Currency)
			if err != nil {
				return err
			}
			if why != "" {
				enqueueSend(tx, f, tx.Now().Add(payout.Backoff(r.c.Retry, f.Attempts)))
				return countAttempt(ctx, tx, f)
			}
			if f.Kind == KindReversals {
				if why, err := r.recheckReversal(ctx, tx, f); err != nil || why != "" {
					return err
				}
			}
			if claimed, err = claim(ctx, tx, f, "api"); err != nil || !claimed {
				return err
			}
			return insertTransfers(ctx, tx, f, len(orders))
		}); err != nil || !claimed {
			return err
		}
	}
	for range stepsPerJob {
		if more, err := r.sendStep(ctx, d, f, orders, api); err != nil || !more {
			return err
		}
	}
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		enqueueSend(tx, f, tx.Now())
		return nil
	})
}

// sendStep handles some transfers of a file that are new or in doubt. more reports whether new transfers are left.
func (r *Rail) sendStep(ctx context.Context, d *db.DB, f File, orders []Order, api API) (more bool, err error) {
	var rows []bankTransfer
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		rows, err = openTransfers(ctx, tx, f, transfersPerStep)
		return err
	}); err != nil || len(rows) == 0 {
		return false, err
	}
	order := func(row bankTransfer) Order {
		o := orders[row.position-1]
		o.Method = row.method
		return o
	}
	results := make([]result, len(rows))
	each := func(call func(i int)) error {
		var g errgroup.Group
		g.SetLimit(transfersInFlight)
		for i := range rows {
			g.Go(func() error { call(i); return nil })
		}
		return g.Wait()
	}
	_ = each(func(i int) {
		if rows[i].method == "" {
			rows[i].method, results[i].err = api.Method(ctx, order(rows[i]))
		}
	})
	// Only the process that changes a new transfer to in_doubt may make the first call, and only after that commit.
	first, paused, late := map[int]bool{}, "", false
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		clear(first)
		late = tx.Now().Sub(f.Created) > keyLife
		paused, err = payout.PayoutsAllowed(ctx, tx, r.c.Log, f.Total.Asset(), f.Currency)
		if err == nil && paused == "" && f.Kind == KindReversals {
			paused, err = r.recheckReversal(ctx, tx, f)
		}
		if err != nil || paused != "" {
			return err
		}
		for i, row := range rows {
			if row.state == transferNew && results[i].err == nil {
				if first[i], err = beginTransfer(ctx, tx, f, row); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return false, err
	}
	_ = each(func(i int) {
		results[i].row = rows[i]
		o := order(rows[i])
		switch {
		case results[i].err != nil: // no method was chosen
		case first[i]:
			results[i].transfer, results[i].err = api.Create(ctx, o)
		case rows[i].state == transferNew:
			results[i].err = errNotSent // payouts are paused, or another process sends this transfer
		default:
			results[i].transfer, results[i].err = api.Find(ctx, o)
			switch {
			case !errors.Is(results[i].err, ErrNoTransfer) || paused != "":
			case late:
				results[i].err = errKeyExpired
			default:
				results[i].transfer, results[i].err = Repeat(ctx, api, o)
			}
		}
	})
	err = d.Write(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) (err error) {
		more, err = r.recordTransfers(ctx, tx, f.Number, results, true)
		return err
	})
	return more, err
}

// Repeat repeats the call that creates the transfer of an order. It is used after an earlier call with an unknown
// outcome, when the bank did not find the transfer. The bank may refuse the repetition because of the first call, so
// Repeat asks the bank again before it returns a refusal.
func Repeat(ctx context.Context, api API, o Order) (Transfer, error) {
	t, err := api.Create(ctx, o)
	if err != nil || t.Status != TransferRejected {
		return t, err
	}
	found, err := api.Find(ctx, o)
	if errors.Is(err, ErrNoTransfer) {
		return t, nil
	}
	return found, err
}

// keyLife is the age of a file after which no transfer is repeated: banks keep idempotency keys for 30 days.
const keyLife = 25 * 24 * time.Hour

// errKeyExpired reports that the bank may have a transfer under a key that has expired.
var errKeyExpired = errors.New(
	"the outcome has been unknown for too long to repeat the transfer; ask the bank about it")

// errNotSent reports that a transfer is new and this process did not send it.
var errNotSent = errors.New("payouts are paused, or another process sends it")

// recordTransfers stores the results of calls about transfers of a file, and applies them to the payments of the
// file. If sending is set and transfers have no outcome, it schedules the next attempt. more reports whether the next
// step can follow at once.
func (r *Rail) recordTransfers(ctx context.Context, tx *db.Tx, number int64, results []result, sending bool,
) (more bool, err error) {
	f, err := lock(ctx, tx, number)
	if err != nil {
		return false, err
	}
	b, err := newFileUpdate(ctx, tx, f, r.returnFee(f))
	if err != nil {
		return false, err
	}
	var accepted, unknown []int
	failed, otherWay := false, false
	for _, res := range results {
		row := res.row
		current, err := getTransfer(ctx, tx, f, row.position)
		if err != nil {
			return false, err
		}
		if current.method != row.method && current.method != "" || current.state == transferEnded {
			continue // another process has recorded the outcome
		}
		ref := Reference{File: f.Number, Position: row.position}
		t := res.transfer
		switch {
		case errors.Is(res.err, errNotSent):
			failed = true
			continue
		case res.err != nil:
			failed = true
			r.c.Log.WarnContext(ctx, "a call to the bank failed", "payment", PaymentReference(f.Number, row.position),
				"attempts", current.attempts, "error", res.err)
			if errors.Is(res.err, ErrOther) {
				if err := PauseOther(ctx, tx, PaymentReference(f.Number, row.position)+"-"+row.method); err != nil {
					return false, err
				}
			}
			current.reason = res.err.Error()
			if current.state == transferInDoubt {
				unknown = append(unknown, row.position)
			}
		case t.Status == TransferRejected && t.Fallback != "":
			current.method, current.id, current.state, current.reason = t.Fallback, "", transferNew, t.Code
			current.checkAt, otherWay = time.Time{}, true
			r.c.Log.InfoContext(ctx, "the bank rejected a transfer; another way is used",
				"payment", PaymentReference(f.Number, row.position), "was", row.method, "method", t.Fallback, "reason", t.Code)
		case t.Status == TransferRejected:
			current.id, current.state, current.reason = cmp.Or(t.ID, current.id), transferEnded, t.Code
			current.checkAt = time.Time{}
			b.apply(fact{ref: ref, kind: rejected, code: t.Code, info: t.Info})
			if t.Code == ReasonDestination && t.Info != "" {
				b.problem("payment %d cannot be made to its destination: %s; ask the payee to correct it", row.position, t.Info)
			}
		default:
			current.id, current.state, current.reason = t.ID, transferAccepted, ""
			current.checkAt = nextCheck(tx.Now(), current.createdAt)
			accepted = append(accepted, row.position)
			if t.Status == TransferPaid || t.Status == TransferReturned {
				b.apply(fact{ref: ref, kind: paid, cost: t.Cost, price: t.Price})
			}
			for _, w := range t.Changes {
				b.addChange(ref, w)
			}
			if t.Status == TransferReturned {
				b.apply(fact{ref: ref, kind: returned, code: t.Code, info: t.Info, amount: t.Back})
			}
			if t.Status == TransferReturned || t.Final && t.Status == TransferPaid {
				current.state, current.checkAt = transferEnded, time.Time{}
			}
		}
		current.attempts++
		if err := storeTransfer(ctx, tx, f, current); err != nil {
			return false, err
		}
	}
	if err := advancePositions(ctx, tx, f, accepted, payout.Sent); err != nil {
		return false, err
	}
	if err := advancePositions(ctx, tx, f, unknown, payout.UnknownOutcome); err != nil {
		return false, err
	}
	if open, err := openTransfers(ctx, tx, f, 1); err != nil {
		return false, err
	} else if len(open) == 0 && b.f.State == UnknownOutcome {
		if err := b.f.advance(ctx, tx, Sent, ""); err != nil {
			return false, err
		}
	} else {
		more = len(open) > 0
	}
	if err := r.storeChanges(ctx, tx, b); err != nil {
		return false, err
	}
	if err := r.storeProblems(ctx, tx, b); err != nil {
		return false, err
	}
	if err := b.writeReversal(ctx, tx); err != nil {
		return false, err
	}
	if otherWay && !sending || failed && sending {
		enqueueSend(tx, f, tx.Now().Add(payout.Backoff(r.c.Retry, f.Attempts)))
		if err := countAttempt(ctx, tx, f); err != nil {
			return false, err
		}
	}
	return more && !failed, b.write(ctx, tx)
}

// storeProblems stores the problems that staff must handle, each once.
func (r *Rail) storeProblems(ctx context.Context, tx *db.Tx, b *fileUpdate) error {
	for _, p := range b.parts {
		b.problem("%s %s were returned for %s, which is a part of it; record what came back by `stipend bank returned`",
			p.Amount, p.Amount.Asset(), p.Payment)
	}
	if len(b.problems) == 0 {
		return nil
	}
	r.c.Log.ErrorContext(ctx, "a bank's response needs a person", "file", b.f.Name, "problems", b.problems)
	return storeResponse(ctx, tx, Response{Checksum: checksum([]byte(strings.Join(b.problems, "\n"))), Name: b.f.Name,
		Kind: "api", Problems: b.problems, Settled: true})
}

// PauseOther pauses all payouts because the bank has another payment with the idempotency key of one of our payments:
// the database was restored from an older backup, or two installations use one account.
func PauseOther(ctx context.Context, tx *db.Tx, key string) error {
	if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
		return err
	}
	return payout.SetPaused(ctx, tx, "the bank has another payment with the key "+key)
}

// advancePositions changes the state of the outputs at some positions of a file that the bank has not paid.
func advancePositions(ctx context.Context, tx *db.Tx, f File, positions []int, to payout.State) error {
	if len(positions) == 0 {
		return nil
	}
	outs, err := payout.InBatches(ctx, tx, f.CompanyID, f.ID)
	if err != nil {
		return err
	}
	var some []*payout.Output
	for i := range outs {
		o := &outs[i]
		if o.State != to && slices.Contains(positions, int(o.Vout)) &&
			(o.State == payout.Prepared || o.State == payout.UnknownOutcome || o.State == payout.Sent) {
			some = append(some, o)
		}
	}
	return payout.Advance(ctx, tx, some, to, func(*payout.Output) string { return "" })
}

// nextCheck returns the time of the next check of an accepted transfer, or the zero time if the checks have ended.
// The interval grows with the age of the transfer.
func nextCheck(now, created time.Time) time.Time {
	age := now.Sub(created)
	if age > checksEnd {
		return time.Time{}
	}
	return now.Add(min(max(age/8, firstCheck), longestCheck))
}

// checkTransfers asks the banks about accepted transfers whose next check is due.
func (r *Rail) checkTransfers(ctx context.Context, d *db.DB) error {
	var failed []error
	for _, a := range r.c.Accounts {
		if !a.ByAPI() {
			continue
		}
		var due []dueTransfer
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			due, err = dueTransfers(ctx, tx, a.ID, transfersPerCheck)
			return err
		}); err != nil {
			return err
		}
		for from := 0; from < len(due); {
			to := from + 1
			for to < len(due) && due[to].file.Number == due[from].file.Number {
				to++
			}
			failed = append(failed, r.checkFile(ctx, d, due[from].file, due[from:to]))
			from = to
		}
	}
	return errors.Join(failed...)
}

// checkFile asks the bank about some transfers of one file.
func (r *Rail) checkFile(ctx context.Context, d *db.DB, f File, due []dueTransfer) error {
	a, api, _, err := r.apiOf(f)
	if err != nil {
		return err
	}
	orders, err := r.orders(f, a)
	if err != nil {
		return err
	}
	results := make([]result, len(due))
	var g errgroup.Group
	g.SetLimit(transfersInFlight)
	for i, t := range due {
		g.Go(func() error {
			o := orders[t.position-1]
			o.Method = t.method
			results[i].row = t.bankTransfer
			results[i].transfer, results[i].err = api.Get(ctx, o, t.id)
			return nil
		})
	}
	_ = g.Wait()
	var failed []error
	var answered []result
	for _, res := range results {
		if res.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", PaymentReference(f.Number, res.row.position), res.err))
			continue
		}
		answered = append(answered, res)
	}
	err = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		for _, res := range results {
			if res.err == nil {
				continue
			}
			if err := postponeCheck(ctx, tx, f, res); err != nil {
				return err
			}
		}
		_, err := r.recordTransfers(ctx, tx, f.Number, answered, false)
		return err
	})
	return errors.Join(append(failed, err)...)
}

// postponeCheck sets the time of the next check of a transfer whose check failed, so that other transfers are checked
// too. It pauses payouts if the bank has another payment under the transfer's key.
func postponeCheck(ctx context.Context, tx *db.Tx, f File, res result) error {
	current, err := getTransfer(ctx, tx, f, res.row.position)
	if err != nil || current.state != transferAccepted {
		return err
	}
	if errors.Is(res.err, ErrOther) {
		if err := PauseOther(ctx, tx, PaymentReference(f.Number, res.row.position)+"-"+current.method); err != nil {
			return err
		}
	}
	if next := nextCheck(tx.Now(), current.createdAt); !next.IsZero() { // else it stays due until staff resolve it
		current.checkAt = next
	}
	return storeTransfer(ctx, tx, f, current)
}
