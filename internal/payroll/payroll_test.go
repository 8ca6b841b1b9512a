package payroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/webhook"
)

// addresses derives addresses that name their index.
type addresses struct{}

func (addresses) Address(branch, index uint32) (string, error) {
	return fmt.Sprintf("bcrt1q%d%d", branch, index), nil
}

// env is a company with four payees: rec_btc and rec_eur are paid in one asset, rec_mix in three, rec_bare has no
// destination. Tests store the deposits and the outcomes of payouts, which other packages report.
type env struct {
	*fixture.Fixture
	s *Service
}

func run(t *testing.T, f func(h *env)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		h := newEnv(x)
		f(h)
		h.check()
	})
}

func newEnv(x *fixture.Fixture) *env {
	x.Helper()
	chaintest.StartWatching(x, x.DB, "regtest")
	h := &env{Fixture: x}
	funds, err := treasury.New(treasury.Unlimited)
	if err != nil {
		x.Fatal(err)
	}
	h.s, err = New(Config{
		Pool: chain.NewPool(x.DB, "regtest", addresses{}), ChainName: "regtest", Network: "regtest",
		QuoteValidity: 30 * time.Minute, Treasury: funds, AllowUnverified: true, Sealer: &identity.Sealer{},
	}, Guards{TravelRule: allow.Records[payout.Output],
		CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
		ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees})
	if err != nil {
		x.Fatal(err)
	}
	x.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE", FeeBps: 100, PremiumBps: 200})
	h.payee("rec_btc", map[money.Asset]int{money.BTC: 100})
	h.payee("rec_eur", map[money.Asset]int{money.EUR: 100})
	h.payee("rec_mix", map[money.Asset]int{money.BTC: 33, money.EUR: 33, money.USD: 34})
	h.payee("rec_bare", nil)
	return h
}

func (h *env) payee(id string, to map[money.Asset]int) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		return tx.Insert(ctx, "recipients", []string{
			"company_id", "recipient_id", "relationship_id", "user_id", "recipient_type", "role", "status", "name",
			"name_key",
			"first_name", "last_name", "email", "email_key", "country", "external_id", "department", "vendor_type",
			"details",
			"onboarded", "version", "created_at", "updated_at",
		}, [][]any{{h.By.CompanyID, id, "rel_" + id, "", "user", "contractor", "active", id, id, id, "", "", "", "DE",
			"", "", "", "", true, int64(1), int64(0), int64(0)}})
	})
	h.destinations(id, to)
}

func (h *env) destinations(id string, to map[money.Asset]int) {
	h.Helper()
	h.Exec("DELETE FROM destinations WHERE owner_id = $1", id)
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		for asset, allocation := range to {
			kind, rail, address := "fiat", "bank", ""
			if asset == money.BTC {
				kind, rail, address = "crypto", "bitcoin", "bcrt1q"+id
			}
			if err := tx.Insert(ctx, "destinations", []string{
				"owner_id", "destination_id", "kind", "symbol", "rail", "scheme", "country", "network", "address",
				"sealed", "masked", "allocation", "created_at", "updated_at",
			}, [][]any{{id, "dst_" + id + string(asset), kind, string(asset), rail, "", "", "", address, "",
				"{}", int64(allocation), int64(0), int64(0)}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// worked pays 600.00 USD in BTC and 400.00 USD in EUR. The fees are 10.00 USD.
var worked = []Payee{{AmountText: "600", UserID: "rec_btc"}, {AmountText: "400", UserID: "rec_eur"}}

func (h *env) create(p CreateParams) Payroll {
	h.Helper()
	got, err := h.tryCreate(p)
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func (h *env) tryCreate(p CreateParams) (Payroll, error) {
	return fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
		return h.s.Create(ctx, tx, h.By, p)
	})
}

func (h *env) get(id string) Payroll {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (Payroll, error) {
		return h.s.Get(ctx, tx, h.By, id)
	})
}

// deposit stores a deposit of a payroll in a state and runs the job that follows. A deposit that exists gets the state.
func (h *env) deposit(p Payroll, name string, amount int64, state string) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		q, err := quote.Last(ctx, tx, h.By.CompanyID, p.ID, money.BTC)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx,
			`INSERT INTO deposits (company_id, deposit_id, chain, txid, vout, object_id, quote_id, address, asset, amount,
			state, version, on_time, dust, first_seen, want_confirmations, replaced_by)
			VALUES ($1, $2, 'regtest', $2, 0, $3, $4, $5, 'BTC', $6, $7, 1, $8, FALSE, $9, 1, '')
			ON CONFLICT (company_id, deposit_id) DO UPDATE SET state = excluded.state, version = deposits.version + 1`,
			h.By.CompanyID, name+p.ID, p.ID, q.ID, p.Address, amount, state, q.Covers(tx.Now()), db.Micros(tx.Now()))
		return err
	})
	h.Deliver(h.s.Fund, "object_id", p.ID)
}

// fund stores a deposit of the full amount in a state.
func (h *env) fund(p Payroll, state string) {
	h.Helper()
	h.deposit(p, "full", p.Quote.Funding.Units(), state)
}

// funded returns a payroll whose funding is confirmed.
func (h *env) funded(to ...Payee) Payroll {
	h.Helper()
	p := h.create(CreateParams{ToPay: to})
	h.fund(p, "confirmed")
	return p
}

// released returns a payroll as it is after its release.
func (h *env) released(to ...Payee) Payroll {
	h.Helper()
	p := h.funded(to...)
	h.release(p.ID)
	return h.get(p.ID)
}

func (h *env) release(id string) {
	h.Helper()
	h.Deliver(h.s.Release, "payroll_id", id)
}

// outcome sets the final state of all outputs of a payroll, or of those in one asset.
func (h *env) outcome(p Payroll, asset money.Asset, state payout.State) {
	h.Helper()
	h.Exec("UPDATE outputs SET state = $1 WHERE company_id = $2 AND payroll_id = $3 AND ($4 = '' OR asset = $4)",
		string(state), p.CompanyID, p.ID, string(asset))
	h.Deliver(h.s.Settle, "payroll_id", p.ID)
}

// check compares the amounts of payrolls and receipts with the ledger.
func (h *env) check() {
	h.Helper()
	h.CheckLedger()
	h.WantCount(0, `payrolls p WHERE p.state IN ('pending', 'received', 'cancelled') AND p.escrow <>
		(SELECT COALESCE(-SUM(l.amount), 0) FROM ledger_lines l WHERE l.company_id = p.company_id AND l.code = '2010'
			AND l.dim = p.payroll_id)`)
	h.WantCount(0, "payroll_receipts WHERE active AND amount <> escrow + surplus + suspense + debt_settled")
}

func (h *env) want(id string, state State, funding FundingState, payments State) Payroll {
	h.Helper()
	p := h.get(id)
	if p.State != state || p.FundingState != funding {
		h.Errorf("payroll is %s, %s; want %s, %s", p.State, p.FundingState, state, funding)
	}
	for _, m := range p.Payments {
		if m.State != payments {
			h.Errorf("payment %d is %s (%s), want %s", m.Position, m.State, m.Reason, payments)
		}
	}
	h.checkSteps(p)
	return p
}

func (h *env) wantState(p Payroll, state State) {
	h.Helper()
	if got := h.get(p.ID); got.State != state {
		h.Errorf("the payroll is %s (%s), want %s", got.State, got.HoldReason, state)
	}
}

// wantPayment returns a payment. It ends the test unless the payment has the state, reason and number of outputs.
func (h *env) wantPayment(p Payroll, i int, state State, reason string, outputs int) Payment {
	h.Helper()
	m := h.get(p.ID).Payments[i]
	if m.State != state || m.Reason != reason || len(m.Outputs) != outputs {
		h.Fatalf("payment %d is %s (%s) with %d outputs, want %s (%s) with %d", i, m.State, m.Reason, len(m.Outputs),
			state, reason, outputs)
	}
	return m
}

// checkSteps reports versions of a payment that the timeline lacks or repeats, and entries that change no state and
// have no reason.
func (h *env) checkSteps(p Payroll) {
	h.Helper()
	for _, s := range p.Timeline {
		if s.From == s.To && s.Reason == "" {
			h.Errorf("version %d of %s stays %s, and nothing says why", s.Version, s.ObjectID, s.To)
		}
	}
	for _, m := range p.Payments {
		at, version := Pending, int64(1)
		for _, s := range p.Timeline {
			if s.ObjectID != m.ID {
				continue
			}
			if version++; s.From != at || s.Version != version {
				h.Errorf("payment %d, version %d: from %s as version %d, where it was %s", m.Position, version,
					s.From, s.Version, at)
			}
			at = s.To
		}
		if at != m.State || version != m.Version {
			h.Errorf("payment %d is %s, version %d; its steps lead to %s, version %d", m.Position, m.State,
				m.Version, at, version)
		}
	}
}

func TestLifecycle(t *testing.T) {
	run(t, func(h *env) {
		h.Exec("UPDATE recipients SET email = 'pat@example.com', country = 'MX' WHERE recipient_id = 'rec_btc'")
		h.Exec("UPDATE recipients SET email = 'eve@example.com' WHERE recipient_id = 'rec_eur'")
		p := h.create(CreateParams{ToPay: worked, ExternalID: "march"})
		if p.Volume != usd(1_000_00) || p.Fees != usd(10_00) || p.Total != usd(1_010_00) || p.Quote == nil ||
			p.Quote.Funding != sats(2_020_000) || p.Quote.Address == "" {
			h.Fatalf("%+v %+v", p, p.Quote)
		}
		h.want(p.ID, Pending, FundingNone, Pending)

		h.fund(p, "seen")
		if got := h.want(p.ID, Pending, FundingConfirming, Pending); got.Quote.State != quote.StateAccepted {
			h.Errorf("the quote is %s", got.Quote.State)
		}
		h.fund(p, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		h.WantBalance(ledger.Escrow, p.ID, sats(2_020_000))

		h.release(p.ID)
		got := h.want(p.ID, Released, FundingFunded, Released)
		if o := got.Payments[0].Outputs; len(o) != 1 || o[0].Amount != sats(1_200_000) ||
			o[0].Address != "bcrt1qrec_btc" || o[0].Input != usd(600_00) {
			h.Errorf("%+v", o)
		}
		if o := got.Payments[1].Outputs; len(o) != 1 || o[0].Amount != money.New(money.EUR, 368_00) ||
			o[0].Rail != payout.RailBank {
			h.Errorf("%+v", o)
		}
		h.WantBalance(ledger.Escrow, p.ID, sats(0))
		h.WantBalance(ledger.FeeRevenue, "payroll", usd(10_00))
		h.WantBalance(ledger.OutputPayable, got.Payments[0].Outputs[0].ID, sats(1_200_000))
		h.WantBalance(ledger.OutputPayable, got.Payments[1].Outputs[0].ID, eur(368_00))
		h.WantBalance(ledger.PayeePayable, got.Payments[1].ID, usd(0)) // debt of 400.00 USD, now exchanged
		h.WantBalance(ledger.FXPosition, "", sats(820_000))
		h.WantBalance(ledger.FXPosition, "", usd(-10_00)) // 410.00 USD were bought and 400.00 USD exchanged
		h.WantBalance(ledger.FXPosition, "", eur(-368_00))

		h.outcome(p, money.BTC, payout.Fulfilled)
		if got := h.get(p.ID); got.State != Released || got.Payments[0].State != Fulfilled {
			h.Errorf("%s, %s", got.State, got.Payments[0].State)
		}
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		h.outcome(p, money.EUR, payout.Returned)
		if got := h.get(p.ID); got.State != PartiallyFulfilled || got.Payments[1].State != Returned ||
			got.Payments[1].Fulfilled {
			h.Errorf("%s, %+v", got.State, got.Payments[1])
		}
		h.outcome(p, money.EUR, payout.Fulfilled)
		last := h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)

		// Each payee got one mail for the arrival and one for each return.
		for _, mail := range []struct {
			address, template string
			want              int64
		}{
			{"pat@example.com", "payment_sent", 1}, {"pat@example.com", "payment_returned", 0},
			{"eve@example.com", "payment_sent", 1}, {"eve@example.com", "payment_returned", 1},
		} {
			h.WantCount(mail.want, "mails WHERE company_id = $1 AND address = $2 AND template = $3", p.CompanyID,
				mail.address, mail.template)
		}
		// The mail has the payer and both amounts, in the payee's language.
		h.WantCount(1, `mails WHERE address = 'pat@example.com' AND language = 'es'
			AND data LIKE '%"Acme"%600.00 USD%0.01200000 BTC%'`)

		// Each version of the payroll and of each payment emitted one event.
		h.WantCount(last.Version, "events WHERE object_id = $1", p.ID)
		for _, m := range last.Payments {
			if n := h.CountEvents(webhook.UserPaymentStatusUpdate.Name, m.ID); n != m.Version-1 {
				h.Errorf("%d events for version %d", n, m.Version)
			}
		}
	})
}

func TestARefusedPayrollWritesNothing(t *testing.T) {
	run(t, func(h *env) {
		bad := CreateParams{ToPay: []Payee{{AmountText: "0.001", UserID: "rec_btc"},
			{AmountText: "5", UserID: "rec_bare"}, {AmountText: "5", UserID: "rec_unknown"}}}
		_, err := h.tryCreate(bad)
		if f := h.Fault("amount_precision", err); len(f.Fields) != 3 || f.Fields[1].Code != "no_distribution" {
			h.Errorf("%+v", f.Fields)
		}
		for _, rows := range []string{"payrolls", "chain_addresses", "events WHERE object_id LIKE 'prl_%'"} {
			h.WantCount(0, rows)
		}
		preview := func(p CreateParams) Preview {
			return fixture.Do(h.Fixture, func(ctx context.Context, tx *db.Tx) (Preview, error) {
				return h.s.Preview(ctx, tx, h.By, p)
			})
		}
		if v := preview(bad); len(v.Blockers) != 3 {
			h.Errorf("%+v", v.Blockers)
		}
		v := preview(CreateParams{ToPay: worked})
		if len(v.Blockers) != 0 || v.Funding != sats(2_020_000) || v.Total != usd(1_010_00) {
			h.Errorf("%+v", v)
		}
		_, err = h.tryCreate(CreateParams{CompanyID: "com_other", ToPay: worked})
		_ = h.Fault("not_found", err)
		h.Exec("UPDATE companies SET status = 'frozen'")
		_, err = h.tryCreate(CreateParams{ToPay: worked})
		_ = h.Fault("company_frozen", err)
	})
}

func TestAnExternalIDIsUsedOnce(t *testing.T) {
	run(t, func(h *env) {
		var created atomic.Int64
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				_, err := h.tryCreate(CreateParams{ToPay: worked, ExternalID: "march"})
				if err == nil {
					created.Add(1)
				} else if f, ok := apierr.As(err); !ok || f.Code != "external_id_conflict" || f.Meta["payroll_id"] == "" {
					h.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if n := created.Load(); n != 1 {
			h.Errorf("%d payrolls", n)
		}
		h.WantCount(1, "payrolls")
		h.WantCount(1, "events WHERE name = $1", webhook.PayrollCreated.Name)
	})
}

func TestRefresh(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		refresh := func() (quote.Quote, error) {
			return fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (q quote.Quote, err error) {
				_, quotes, err := h.s.Refresh(ctx, tx, h.By, p.ID)
				if err == nil {
					q = quotes[0]
				}
				return q, err
			})
		}
		if q, err := refresh(); err != nil || q.ID != p.Quote.ID {
			h.Fatalf("an active quote was replaced: %v", err)
		}
		h.deposit(p, "dep_1", 1_000_000, "seen") // half of the amount due is seen in time
		h.Clock.Advance(time.Hour)
		q, err := refresh()
		if err != nil || q.Due != usd(510_00) || q.Funding != sats(1_020_000) {
			h.Fatalf("%+v, %v", q, err)
		}
		h.deposit(p, "dep_1", 1_000_000, "confirmed")
		h.deposit(p, "dep_2", 1_020_000, "seen")
		if _, err := refresh(); !errors.Is(err, ErrQuoteLocked) {
			h.Errorf("got %v", err)
		}
		h.deposit(p, "dep_2", 1_020_000, "confirmed")
		h.want(p.ID, Received, FundingFunded, Received)
		_, err = refresh()
		_ = h.Fault("invalid_state", err)
	})
}

func TestAPayeeWithoutDestinationDoesNotDelayOthers(t *testing.T) {
	run(t, func(h *env) {
		p := h.funded(append([]Payee{{AmountText: "100", UserID: "rec_mix"}}, worked...)...)
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		h.wantState(p, Released)
		first := h.wantPayment(p, 0, ActionRequired, ReasonNoDestination, 0)
		h.wantPayment(p, 1, Released, "", 1)
		h.WantBalance(ledger.PayeePayable, first.ID, usd(100_00))
		h.outcome(p, "", payout.Fulfilled)
		h.wantState(p, PartiallyFulfilled)
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 50, money.EUR: 50})
		h.release(p.ID)
		h.wantState(p, Released)
		h.wantPayment(p, 0, Released, "", 2)
		h.WantBalance(ledger.PayeePayable, first.ID, usd(0))
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

func TestCancelReturnsTheMoney(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		h.deposit(p, "dep_1", 2_009_900, "confirmed")
		for range 2 {
			h.does("", h.s.Cancel, h.By, p.ID)
		}
		h.want(p.ID, Cancelled, FundingPartial, Cancelled)
		h.deposit(p, "dep_2", 100, "confirmed") // money for a cancelled payroll is credited to the company
		h.WantBalance(ledger.CompanyFunds, "", sats(2_010_000))
		h.does("already_processing", h.s.Cancel, h.By, h.funded(worked...).ID)
	})
}

// A row in a state of a newer version does not change, and the function that reads it returns an error.
func TestUnknownStatesAreRefused(t *testing.T) {
	run(t, func(h *env) {
		p := h.funded(worked...)
		refused := func(handler job.TxHandler) {
			h.Helper()
			err := h.DB.Write(h.Context(), h.Job(handler, "payroll_id", p.ID))
			if err == nil || !strings.Contains(err.Error(), `"elsewhere"`) {
				h.Errorf("an unknown state: %v", err)
			}
		}
		h.Exec("UPDATE payrolls SET state = 'elsewhere'")
		refused(h.s.Release)
		h.Exec("UPDATE payrolls SET state = 'received'")
		h.release(p.ID)
		h.outcome(p, "", payout.Fulfilled)
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
		h.Exec("UPDATE outputs SET state = 'elsewhere'")
		refused(h.s.Settle)
		h.Exec("UPDATE outputs SET state = 'returned'")
		h.Exec("UPDATE payments SET state = 'elsewhere'")
		refused(h.s.Settle)
		h.Exec("UPDATE payments SET state = 'fulfilled'")
		h.Exec("UPDATE outputs SET state = 'fulfilled'")
		h.want(p.ID, Fulfilled, FundingFunded, Fulfilled)
	})
}

func TestAnUnfundedPayrollExpires(t *testing.T) {
	run(t, func(h *env) {
		p := h.create(CreateParams{ToPay: worked})
		q := h.create(CreateParams{ToPay: worked})
		h.deposit(q, "dep_1", 1_000, "confirmed")
		h.Deliver(h.s.Expire, "payroll_id", p.ID)
		h.want(p.ID, Pending, FundingNone, Pending)
		h.Clock.Advance(UnfundedAfter)
		for _, id := range []string{p.ID, q.ID} {
			h.Deliver(h.s.Expire, "payroll_id", id)
		}
		h.want(p.ID, ExpiredUnfunded, FundingNone, Pending)
		h.want(q.ID, Pending, FundingPartial, Pending)
	})
}

func TestList(t *testing.T) {
	run(t, func(h *env) {
		for i := range 5 {
			h.create(CreateParams{ToPay: worked, ExternalID: fmt.Sprintf("run-%d", i)})
			h.Clock.Advance(time.Hour)
		}
		for _, c := range []struct {
			f           Filter
			total, rows int
			first       string
		}{
			{Filter{}, 5, 5, "run-4"},
			{Filter{Page: db.Page{Number: 2, PerPage: 2}}, 5, 2, "run-2"},
			{Filter{Page: db.Page{Number: 9, PerPage: 2}}, 5, 0, ""},
			{Filter{Status: Pending, ExternalID: "run-3"}, 1, 1, "run-3"},
			{Filter{Status: Fulfilled}, 0, 0, ""},
			{Filter{From: dbtest.Epoch.Add(time.Hour), To: dbtest.Epoch.Add(3 * time.Hour)}, 2, 2, "run-2"},
		} {
			var total int64
			got := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (got []Payroll, err error) {
				got, total, err = h.s.List(ctx, tx, h.By, "", c.f)
				return got, err
			})
			if int(total) != c.total || len(got) != c.rows || c.rows > 0 && got[0].ExternalID != c.first {
				h.Errorf("%+v: %d of %d", c.f, len(got), total)
			}
		}
	})
}

func TestThePaymentEventHasTheOutputs(t *testing.T) {
	run(t, func(h *env) {
		h.released(Payee{AmountText: "100", UserID: "rec_mix"})
		data := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (data string, err error) {
			return data, tx.QueryRow(ctx, "SELECT data FROM events WHERE name = $1 AND sequence = 3",
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
			h.Fatal(err)
		}
		outs := map[string]string{}
		for _, o := range got.Payment.Outputs {
			outs[o.Out] = o.Input.String() + " " + o.Output.String() + " " + o.Fees.String()
		}
		want := map[string]string{"BTC": "33.00 0.00066000 0.33", "EUR": "33.00 30.36 0.33", "USD": "34.00 34.00 0.34"}
		if got.Status != "released" || !got.Payment.Released || fmt.Sprint(outs) != fmt.Sprint(want) {
			h.Errorf("%s", data)
		}
	})
}

func BenchmarkCreate1000(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{"sqlite": dbtest.SQLite, "postgres": dbtest.Postgres} {
		b.Run(name, func(b *testing.B) {
			clock := dbtest.NewClock()
			h := newEnv(fixture.New(b, dbtest.Open(b, db.Options{URL: url(b), Clock: clock.Now}), clock))
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
