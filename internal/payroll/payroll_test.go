package payroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/webhook"
)

type paper struct{}

func (paper) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1q%d%d", branch, index), nil
}

// fixture is a company with four payees: rec_btc and rec_eur are paid in one asset, rec_mix in three, rec_bare has no
// destination. It acts as the surrounding packages: it writes deposits and outcomes, and runs each job twice.
type fixture struct {
	t     testing.TB
	d     *db.DB
	clock *dbtest.Clock
	s     *Service
	by    identity.Principal
}

func run(t *testing.T, f func(h *fixture)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		h := newHouse(t, d, clock)
		f(h)
		h.checkBooks()
	})
}

func newHouse(t testing.TB, d *db.DB, clock *dbtest.Clock) *fixture {
	t.Helper()
	chaintest.StartWatching(t, d, "regtest")
	h := &fixture{t: t, d: d, clock: clock}
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	h.s, err = New(Config{
		Pool: chain.NewPool(d, "regtest", paper{}), ChainName: "regtest", Network: "regtest",
		QuoteValidity: 30 * time.Minute, Treasury: funds, AllowUnverified: true,
	}, Guards{CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
		ReleaseApproved: allow.Release})
	if err != nil {
		t.Fatal(err)
	}
	const ever = 100_000 * time.Hour
	r := rates.Refresher{DB: d, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: ever, FiatLimit: ever}
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.write(func(ctx context.Context, tx *db.Tx) error {
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "DE", FeeBps: 100,
			PremiumBps: 200})
		h.by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
		return err
	})
	h.payee("rec_btc", map[money.Asset]int{money.BTC: 100})
	h.payee("rec_eur", map[money.Asset]int{money.EUR: 100})
	h.payee("rec_mix", map[money.Asset]int{money.BTC: 33, money.EUR: 33, money.USD: 34})
	h.payee("rec_bare", nil)
	return h
}

func (h *fixture) write(f func(ctx context.Context, tx *db.Tx) error) {
	h.t.Helper()
	if err := h.d.Write(h.t.Context(), f); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func (h *fixture) payee(id string, to map[money.Asset]int) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		return tx.Insert(ctx, "recipients", []string{
			"company_id", "recipient_id", "relationship_id", "user_id", "recipient_type", "role", "status", "name",
			"name_key",
			"first_name", "last_name", "email", "email_key", "country", "external_id", "department", "vendor_type",
			"details",
			"onboarded", "version", "created_at", "updated_at",
		}, [][]any{{h.by.CompanyID, id, "rel_" + id, "", "user", "contractor", "active", id, id, id, "", "", "", "DE",
			"", "", "", "", true, int64(1), int64(0), int64(0)}})
	})
	h.destinations(id, to)
}

func (h *fixture) destinations(id string, to map[money.Asset]int) {
	h.t.Helper()
	h.exec("DELETE FROM destinations WHERE owner_id = $1", id)
	h.write(func(ctx context.Context, tx *db.Tx) error {
		for asset, allocation := range to {
			kind, rail, address := "fiat", "bank", ""
			if asset == money.BTC {
				kind, rail, address = "crypto", "bitcoin", "bcrt1q"+id
			}
			if err := tx.Insert(ctx, "destinations", []string{
				"owner_id", "destination_id", "kind", "symbol", "rail", "scheme", "country", "network", "address",
				"tag", "transfer_memo",
				"sealed", "masked", "allocation", "created_at", "updated_at",
			}, [][]any{{id, "dst_" + id + string(asset), kind, string(asset), rail, "", "", "", address, "", "", "",
				"{}", int64(allocation), int64(0), int64(0)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// worked is a payroll of 600.00 in BTC and 400.00 in EUR, with fees of 10.00.
var worked = []Payee{{AmountText: "600", UserID: "rec_btc"}, {AmountText: "400", UserID: "rec_eur"}}

func (h *fixture) create(p CreateParams) Payroll {
	h.t.Helper()
	got, err := h.tryCreate(p)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

func (h *fixture) tryCreate(p CreateParams) (got Payroll, err error) {
	err = h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		got, err = h.s.Create(ctx, tx, h.by, p)
		return err
	})
	return got, err
}

func (h *fixture) get(id string) (p Payroll) {
	h.t.Helper()
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		p, err = h.s.Get(ctx, tx, h.by, id)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	return p
}

// deposit writes a deposit and runs the job that follows.
func (h *fixture) deposit(p Payroll, name string, amount int64, state string) {
	h.t.Helper()
	h.write(func(ctx context.Context, tx *db.Tx) error {
		q, err := quote.Last(ctx, tx, h.by.CompanyID, p.ID, money.BTC)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO deposits (company_id, deposit_id, chain, txid, vout, object_id, quote_id, address, asset, amount,
			state, version, on_time, dust, first_seen, want_confirmations, replaced_by)
			VALUES ($1, $2, 'regtest', $2, 0, $3, $4, $5, 'BTC', $6, $7, 1, $8, FALSE, $9, 1, '')
			ON CONFLICT (company_id, deposit_id) DO UPDATE SET state = excluded.state, version = deposits.version + 1`,
			h.by.CompanyID, name, p.ID, q.ID, p.Address, amount, state, q.Covers(tx.Now()), db.Micros(tx.Now()))
		return err
	})
	h.deliver(h.s.Fund, fmt.Sprintf(`{"object_id":%q}`, p.ID))
}

func (h *fixture) deliver(handler job.TxHandler, payload string) {
	h.t.Helper()
	for range 2 {
		h.write(func(ctx context.Context, tx *db.Tx) error {
			return handler(ctx, tx, job.Job{CompanyID: h.by.CompanyID, ID: "job_1", Payload: []byte(payload)})
		})
	}
}

func (h *fixture) release(id string) {
	h.t.Helper()
	h.deliver(h.s.Release, fmt.Sprintf(`{"payroll_id":%q}`, id))
}

// outcome sets the final state of all outputs of a payroll, or of those in one asset.
func (h *fixture) outcome(p Payroll, asset money.Asset, state payout.State) {
	h.t.Helper()
	h.exec("UPDATE outputs SET state = $1 WHERE company_id = $2 AND payroll_id = $3 AND ($4 = '' OR asset = $4)",
		string(state), p.CompanyID, p.ID, string(asset))
	h.deliver(h.s.Settle, fmt.Sprintf(`{"payroll_id":%q}`, p.ID))
}

func (h *fixture) balance(c ledger.Code, dim string, a money.Asset) int64 {
	h.t.Helper()
	var got money.Amount
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		got, err = ledger.Balance(ctx, tx, h.by.CompanyID, c, dim, a)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	return got.Units()
}

func (h *fixture) count(query string, args ...any) (n int64) {
	h.t.Helper()
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, query,
			args...).Scan(&n)
	}); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// countEvents returns the number of an object's events with a name.
func (h *fixture) countEvents(name, objectID string) (n int64) {
	h.t.Helper()
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		all, _, err := webhook.List(ctx, tx, webhook.ListParams{CompanyID: h.by.CompanyID, Names: name,
			ObjectID: objectID, Limit: 1000})
		n = int64(len(all))
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *fixture) checkBooks() {
	h.t.Helper()
	if err := h.d.Read(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
		report, err := ledger.Check(ctx, tx)
		if err == nil && len(report.Problems) > 0 {
			err = fmt.Errorf("the books: %v", report.Problems)
		}
		return err
	}); err != nil {
		h.t.Error(err)
	}
	// A payroll's escrow account holds what its row says until it is released.
	bad := h.count(`SELECT COUNT(*) FROM payrolls p WHERE p.state IN ('pending', 'received', 'cancelled') AND p.escrow <>
		(SELECT COALESCE(-SUM(l.amount), 0) FROM ledger_lines l WHERE l.company_id = p.company_id AND l.code = '2010'
			AND l.dim = p.payroll_id)`)
	bad += h.count(`SELECT COUNT(*) FROM payroll_receipts WHERE active
		AND amount <> escrow + surplus + suspense + debt_settled`)
	if bad != 0 {
		h.t.Errorf("%d rows disagree with the books", bad)
	}
}

func (h *fixture) want(id string, state State, funding FundingState, payments State) Payroll {
	h.t.Helper()
	p := h.get(id)
	if p.State != state || p.FundingState != funding {
		h.t.Errorf("payroll is %s, %s; want %s, %s", p.State, p.FundingState, state, funding)
	}
	for _, m := range p.Payments {
		if m.State != payments {
			h.t.Errorf("payment %d is %s (%s), want %s", m.Position, m.State, m.Reason, payments)
		}
	}
	h.checkSteps(p)
	return p
}

// checkSteps reports versions of a payment that the timeline lacks or repeats, and entries that change no state and
// have no reason.
func (h *fixture) checkSteps(p Payroll) {
	h.t.Helper()
	for _, s := range p.Timeline {
		if s.From == s.To && s.Reason == "" {
			h.t.Errorf("version %d of %s stays %s, and nothing says why", s.Version, s.ObjectID, s.To)
		}
	}
	for _, m := range p.Payments {
		at, version := Pending, int64(1)
		for _, s := range p.Timeline {
			if s.ObjectID != m.ID {
				continue
			}
			if version++; s.From != at || s.Version != version {
				h.t.Errorf("payment %d, version %d: from %s as version %d, where it was %s", m.Position, version,
					s.From, s.Version, at)
			}
			at = s.To
		}
		if at != m.State || version != m.Version {
			h.t.Errorf("payment %d is %s, version %d; its steps lead to %s, version %d", m.Position, m.State,
				m.Version, at, version)
		}
	}
}

func wantFault(t testing.TB, err error, code string) *apierr.Fault {
	t.Helper()
	f, ok := apierr.As(err)
	if !ok || f.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	return f
}

func TestFromCreationToFulfilled(t *testing.T) {
	run(t, func(h *fixture) {
		h.exec("UPDATE recipients SET email = 'pat@example.com', country = 'MX' WHERE recipient_id = 'rec_btc'")
		h.exec("UPDATE recipients SET email = 'eve@example.com' WHERE recipient_id = 'rec_eur'")
		p := h.create(CreateParams{ToPay: worked, ExternalID: "march"})
		if p.Volume != usd(1_000_00) || p.Fees != usd(10_00) || p.Total != usd(1_010_00) || p.Quote == nil ||
			p.Quote.Funding != sats(2_020_000) || p.Quote.Address == "" {
			t := h.t
			t.Fatalf("%+v %+v", p, p.Quote)
		}
		h.want(p.ID, Pending, FundingNone, Pending)

		h.deposit(p, "dep_1", 2_020_000, "seen")
		if got := h.want(p.ID, Pending, FundingConfirming, Pending); got.Quote.State != quote.StateAccepted {
			h.t.Errorf("the quote is %s", got.Quote.State)
		}
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		if got := h.balance(ledger.Escrow, p.ID, money.BTC); got != 2_020_000 {
			h.t.Errorf("escrow is %d", got)
		}

		h.release(p.ID)
		got := h.want(p.ID, Released, FundingFunded, Released)
		if o := got.Payments[0].Outputs; len(o) != 1 || o[0].Amount != sats(1_200_000) ||
			o[0].Address != "bcrt1qrec_btc" || o[0].Input != usd(600_00) {
			h.t.Errorf("%+v", o)
		}
		if o := got.Payments[1].Outputs; len(o) != 1 || o[0].Amount != money.New(money.EUR, 368_00) ||
			o[0].Rail != payout.RailBank {
			h.t.Errorf("%+v", o)
		}
		for _, b := range []struct {
			code  ledger.Code
			dim   string
			asset money.Asset
			want  int64
		}{
			{ledger.Escrow, p.ID, money.BTC, 0},
			{ledger.FeeRevenue, "payroll", money.USD, 10_00},
			{ledger.OutputPayable, got.Payments[0].Outputs[0].ID, money.BTC, 1_200_000},
			{ledger.OutputPayable, got.Payments[1].Outputs[0].ID, money.EUR, 368_00},
			{ledger.PayeePayable, got.Payments[1].ID, money.USD, 0}, // owed until it was exchanged
			{ledger.FXPosition, "", money.BTC, 820_000},
			{ledger.FXPosition, "", money.USD, -10_00}, // 410 bought, 400 exchanged
			{ledger.FXPosition, "", money.EUR, -368_00},
		} {
			if n := h.balance(b.code, b.dim, b.asset); n != b.want {
				h.t.Errorf("account %s %s has %d %s, want %d", b.code, b.dim, n, b.asset, b.want)
			}
		}

		h.outcome(p, money.BTC, payout.Fulfilled)
		if got := h.get(p.ID); got.State != Released || got.Payments[0].State != Fulfilled {
			h.t.Errorf("%s, %s", got.State, got.Payments[0].State)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		h.outcome(p, money.EUR, payout.Returned)
		if got := h.get(p.ID); got.State != PartiallyFulfilled || got.Payments[1].State != Returned ||
			got.Payments[1].Fulfilled {
			h.t.Errorf("%s, %+v", got.State, got.Payments[1])
		}
		h.outcome(p, money.EUR, payout.Fulfilled)
		last := h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)

		// Each payee got one mail for the arrival and one for each return.
		for address, want := range map[string][2]int64{"pat@example.com": {1, 0}, "eve@example.com": {1, 1}} {
			sent := h.count("SELECT COUNT(*) FROM mails WHERE company_id = $1 AND address = $2 AND template = 'payment_sent'",
				p.CompanyID, address)
			returned := h.count("SELECT COUNT(*) FROM mails WHERE company_id = $1 AND address = $2 AND template = "+
				"'payment_returned'", p.CompanyID, address)
			if sent != want[0] || returned != want[1] {
				h.t.Errorf("%s got %d mails of an arrival and %d of a return, want %v", address, sent, returned, want)
			}
		}
		if n := h.count(`SELECT COUNT(*) FROM mails WHERE address = 'pat@example.com' AND language = 'es'
				AND data LIKE '%"Acme"%600.00 USD%0.01200000 BTC%'`); n != 1 {
			h.t.Error("the mail does not say who paid how much, or not in the payee's language")
		}

		// Each version of the payroll and of each payment emitted one event.
		events := h.count("SELECT COUNT(*) FROM events WHERE object_id = $1", p.ID)
		if events != last.Version {
			h.t.Errorf("%d events for %d versions", events, last.Version)
		}
		for _, m := range last.Payments {
			if n := h.countEvents(webhook.UserPaymentStatusUpdate.Name, m.ID); n != m.Version-1 {
				h.t.Errorf("%d events for version %d", n, m.Version)
			}
		}
	})
}

func TestWhatIsWrongIsToldAndNothingIsWritten(t *testing.T) {
	run(t, func(h *fixture) {
		bad := CreateParams{ToPay: []Payee{{AmountText: "0.001", UserID: "rec_btc"}, {AmountText: "5",
			UserID: "rec_bare"}, {AmountText: "5", UserID: "rec_unknown"}}}
		_, err := h.tryCreate(bad)
		if f := wantFault(h.t, err, "amount_precision"); len(f.Fields) != 3 || f.Fields[1].Code != "no_distribution" {
			h.t.Errorf("%+v", f.Fields)
		}
		if n := h.count("SELECT COUNT(*) FROM payrolls") + h.count("SELECT COUNT(*) FROM chain_addresses") +
			h.count("SELECT COUNT(*) FROM events WHERE object_id LIKE 'prl_%'"); n != 0 {
			h.t.Errorf("%d rows", n)
		}
		var v Preview
		h.write(func(ctx context.Context, tx *db.Tx) (err error) {
			v, err = h.s.Preview(ctx, tx, h.by, bad)
			return err
		})
		if len(v.Blockers) != 3 {
			h.t.Errorf("%+v", v.Blockers)
		}
		h.write(func(ctx context.Context, tx *db.Tx) (err error) {
			v, err = h.s.Preview(ctx, tx, h.by, CreateParams{ToPay: worked})
			return err
		})
		if len(v.Blockers) != 0 || v.Funding != sats(2_020_000) || v.Total != usd(1_010_00) {
			h.t.Errorf("%+v", v)
		}
		_, err = h.tryCreate(CreateParams{CompanyID: "com_other", ToPay: worked})
		_ = wantFault(h.t, err, "not_found")
		h.exec("UPDATE companies SET status = 'frozen'")
		_, err = h.tryCreate(CreateParams{ToPay: worked})
		_ = wantFault(h.t, err, "company_frozen")
	})
}

func TestAnExternalIDIsUsedOnce(t *testing.T) {
	run(t, func(h *fixture) {
		var mu sync.Mutex
		var ids []string
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				p, err := h.tryCreate(CreateParams{ToPay: worked, ExternalID: "march"})
				if err == nil {
					mu.Lock()
					ids = append(ids, p.ID)
					mu.Unlock()
					return
				}
				if f, ok := apierr.As(err); !ok || f.Code != "external_id_conflict" || f.Meta["payroll_id"] == "" {
					h.t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 || h.count("SELECT COUNT(*) FROM payrolls") != 1 ||
			h.count("SELECT COUNT(*) FROM events WHERE name = $1", webhook.PayrollCreated.Name) != 1 {
			h.t.Errorf("%d payrolls", len(ids))
		}
	})
}

func TestRefresh(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		refresh := func() (q quote.Quote, err error) {
			err = h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, quotes, err := h.s.Refresh(ctx, tx, h.by, p.ID)
				if err == nil {
					q = quotes[0]
				}
				return err
			})
			return q, err
		}
		if q, err := refresh(); err != nil || q.ID != p.Quote.ID {
			h.t.Fatalf("an active quote was replaced: %v", err)
		}
		h.deposit(p, "dep_1", 1_000_000, "seen") // half of the amount, in time
		h.clock.Advance(time.Hour)
		q, err := refresh()
		if err != nil || q.Due != usd(510_00) || q.Funding != sats(1_020_000) {
			h.t.Fatalf("%+v, %v", q, err)
		}
		h.deposit(p, "dep_1", 1_000_000, "confirmed")
		h.deposit(p, "dep_2", 1_020_000, "seen")
		if _, err := refresh(); !errors.Is(err, ErrQuoteLocked) {
			h.t.Errorf("got %v", err)
		}
		h.deposit(p, "dep_2", 1_020_000, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		_, err = refresh()
		_ = wantFault(h.t, err, "invalid_state")
	})
}

func TestOnePayeeHoldsNobodyUp(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: append([]Payee{{AmountText: "100", UserID: "rec_mix"}}, worked...)})
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		got := h.get(p.ID)
		if got.State != Released || got.Payments[0].State != ActionRequired ||
			got.Payments[0].Reason != ReasonNoDestination || got.Payments[1].State != Released {
			h.t.Fatalf("%s: %+v", got.State, got.Payments)
		}
		if got := h.balance(ledger.PayeePayable, got.Payments[0].ID, money.USD); got != 100_00 {
			h.t.Errorf("%d stay owed", got)
		}
		h.outcome(p, "", payout.Fulfilled)
		if got := h.get(p.ID); got.State != PartiallyFulfilled {
			h.t.Errorf("%s", got.State)
		}
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 50, money.EUR: 50})
		h.release(p.ID)
		got = h.get(p.ID)
		if got.State != Released || got.Payments[0].State != Released || len(got.Payments[0].Outputs) != 2 {
			h.t.Fatalf("%s: %+v", got.State, got.Payments[0])
		}
		if got := h.balance(ledger.PayeePayable, got.Payments[0].ID, money.USD); got != 0 {
			h.t.Errorf("%d stay owed", got)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

func TestCancelGivesTheMoneyBack(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_009_900, "confirmed")
		cancel := func() error {
			return h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := h.s.Cancel(ctx, tx, h.by, p.ID)
				return err
			})
		}
		for range 2 {
			if err := cancel(); err != nil {
				h.t.Fatal(err)
			}
		}
		h.want(p.ID, Cancelled, FundingPartial, Cancelled)
		h.deposit(p, "dep_2", 100, "confirmed") // too late: credited to the company
		if got := h.balance(ledger.CompanyFunds, "", money.BTC); got != 2_010_000 {
			h.t.Errorf("the company has %d", got)
		}
		q := h.create(CreateParams{ToPay: worked})
		h.deposit(q, "dep_3", 2_020_000, "confirmed")
		p = q
		_ = wantFault(h.t, cancel(), "already_processing")
	})
}

// A row in a state of a newer version does not change, and the function that reads it returns an error.
func TestUnknownStatesDecideNothing(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_020_000, "confirmed")
		refused := func(handler job.TxHandler) {
			h.t.Helper()
			err := h.d.Write(h.t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return handler(ctx, tx, job.Job{CompanyID: h.by.CompanyID, ID: "job_1",
					Payload: []byte(fmt.Sprintf(`{"payroll_id":%q}`, p.ID))})
			})
			if err == nil || !strings.Contains(err.Error(), `"elsewhere"`) {
				h.t.Errorf("an unknown state: %v", err)
			}
		}
		h.exec("UPDATE payrolls SET state = 'elsewhere'")
		refused(h.s.Release)
		h.exec("UPDATE payrolls SET state = 'received'")
		h.release(p.ID)
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		h.exec("UPDATE outputs SET state = 'elsewhere'")
		refused(h.s.Settle)
		h.exec("UPDATE outputs SET state = 'returned'")
		h.exec("UPDATE payments SET state = 'elsewhere'")
		refused(h.s.Settle)
		h.exec("UPDATE payments SET state = 'fulfilled'")
		h.exec("UPDATE outputs SET state = 'fulfilled'")
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

func TestThirtyDaysWithoutMoney(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: worked})
		q := h.create(CreateParams{ToPay: worked})
		h.deposit(q, "dep_1", 1_000, "confirmed")
		h.deliver(h.s.Expire, fmt.Sprintf(`{"payroll_id":%q}`, p.ID))
		h.want(p.ID, Pending, FundingNone, Pending)
		h.clock.Advance(UnfundedAfter)
		for _, id := range []string{p.ID, q.ID} {
			h.deliver(h.s.Expire, fmt.Sprintf(`{"payroll_id":%q}`, id))
		}
		h.want(p.ID, ExpiredUnfunded, FundingNone, Pending)
		h.want(q.ID, Pending, FundingPartial, Pending)
	})
}

func TestList(t *testing.T) {
	run(t, func(h *fixture) {
		for i := range 5 {
			h.create(CreateParams{ToPay: worked, ExternalID: fmt.Sprintf("run-%d", i)})
			h.clock.Advance(time.Hour)
		}
		for _, c := range []struct {
			f           Filter
			total, rows int
			first       string
		}{
			{Filter{}, 5, 5, "run-4"},
			{Filter{Page: 2, PerPage: 2}, 5, 2, "run-2"},
			{Filter{Page: 9, PerPage: 2}, 5, 0, ""},
			{Filter{Status: Pending, ExternalID: "run-3"}, 1, 1, "run-3"},
			{Filter{Status: Fulfilled}, 0, 0, ""},
			{Filter{From: dbtest.Epoch.Add(time.Hour), To: dbtest.Epoch.Add(3 * time.Hour)}, 2, 2, "run-2"},
		} {
			var got []Payroll
			var total int64
			h.write(func(ctx context.Context, tx *db.Tx) (err error) {
				got, total, err = h.s.List(ctx, tx, h.by, "", c.f)
				return err
			})
			if int(total) != c.total || len(got) != c.rows || c.rows > 0 && got[0].ExternalID != c.first {
				h.t.Errorf("%+v: %d of %d", c.f, len(got), total)
			}
		}
	})
}

func TestTheEventTellsWhatAPayeeGets(t *testing.T) {
	run(t, func(h *fixture) {
		p := h.create(CreateParams{ToPay: []Payee{{AmountText: "100", UserID: "rec_mix"}}})
		h.deposit(p, "dep_1", p.Quote.Funding.Units(), "confirmed")
		h.release(p.ID)
		var data string
		h.write(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT data FROM events WHERE name = $1 AND sequence = 3",
				webhook.UserPaymentStatusUpdate.Name).Scan(&data)
		})
		var got struct {
			Status  string  `json:"status"`
			ClaimID *string `json:"claim_id"`
			Payment struct {
				Released bool `json:"released"`
				Outputs  []struct {
					Out    string      `json:"output_currency"`
					Input  json.Number `json:"volume_input_in_input_currency"`
					Output json.Number `json:"volume_output_in_output_currency"`
					Fees   json.Number `json:"fees"`
				} `json:"outputs"`
			} `json:"payment"`
		}
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			h.t.Fatal(err)
		}
		outs := map[string]string{}
		for _, o := range got.Payment.Outputs {
			outs[o.Out] = o.Input.String() + " " + o.Output.String() + " " + o.Fees.String()
		}
		want := map[string]string{"BTC": "33.00 0.00066000 0.33", "EUR": "33.00 30.36 0.33", "USD": "34.00 34.00 0.34"}
		if got.Status != "released" || !got.Payment.Released || fmt.Sprint(outs) != fmt.Sprint(want) {
			h.t.Errorf("%s", data)
		}
	})
}

func BenchmarkCreate1000(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		b.Run(name, func(b *testing.B) {
			clock := dbtest.NewClock()
			h := newHouse(b, dbtest.Open(b, db.Options{URL: url(b), Clock: clock.Now}), clock)
			p := CreateParams{ToPay: make([]Payee, 1000)}
			for i := range p.ToPay {
				id := fmt.Sprintf("rec_%d", i)
				h.payee(id, map[money.Asset]int{money.BTC: 60, money.EUR: 40})
				p.ToPay[i] = Payee{AmountText: "1234.56", UserID: id, Country: "DE", Description: "salary"}
			}
			b.ResetTimer()
			for range b.N {
				h.create(p)
			}
		})
	}
}
