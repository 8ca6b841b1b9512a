package httpapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/withdrawal"
)

// till is a company with members, a balance and withdrawal destinations.
type till struct {
	*fixture
	take     *withdrawal.Service
	owner    identity.Principal
	bitcoin  string // IDs of destinations
	dollars  string
	screener *screening.Screener
}

func openTill(t *testing.T, d *db.DB) *till {
	b := newFullFixture(t, d)
	lists, err := screening.New(screening.Options{Threshold: 85})
	if err != nil {
		t.Fatal(err)
	}
	x := &till{fixture: b, take: b.server.Withdrawal, screener: lists}
	if _, err := x.screener.Load(); err != nil {
		t.Fatal(err)
	}
	x.release(allow.Release)
	x.owner = x.hire("owner@acme.example")
	x.set("UPDATE companies SET country = 'US'")
	x.bitcoin = x.add("Vault", "BTC", `{"address":"`+btcAddress+`"}`)
	x.dollars = x.add("Bank", "USD", `{"rail":"ach","account_holder_name":"Acme Inc","account_holder_type":"business",`+
		`"routing_number":"021000021","account_number":"000123456789","account_type":"checking",`+
		`"address":{"address_line1":"1 Example Street","city":"Springfield","state":"IL","postal_code":"62701",`+
		`"country":"US"}}`)
	return x
}

// release replaces the check of the operator's release limit.
func (x *till) release(approved func(context.Context, *db.Tx, string, string, money.Amount) (bool, error)) {
	x.t.Helper()
	screening, err := destination.NewScreening(x.screener, x.server.Sealer)
	if err != nil {
		x.t.Fatal(err)
	}
	take, err := withdrawal.New(x.take.Config, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
		Screen: screening.Screen, ReleaseApproved: approved})
	if err != nil {
		x.t.Fatal(err)
	}
	*x.take = *take // the server has this pointer
}

// hire returns a signed-in administrator.
func (x *till) hire(email string) identity.Principal {
	x.t.Helper()
	var user identity.User
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		if user, err = identity.CreateUser(ctx, tx, x.server.Sealer,
			identity.NewUser{Profile: identity.Profile{Email: email}}); err != nil {
			return err
		}
		return identity.AddMember(ctx, tx, identity.Member{CompanyID: x.company, UserID: user.ID, Role: identity.RoleAdmin})
	})
	return identity.Principal{Kind: identity.KindSession, ID: "ses_" + email, CompanyID: x.company, UserID: user.ID}
}

func (x *till) add(label, symbol, data string) (id string) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		d, err := x.take.AddDestination(ctx, tx, x.owner, label, symbol, []byte(data))
		id = d.ID
		return err
	})
	return id
}

func (x *till) look() { x.drain(job.Table{withdrawal.JobProcess: {Tx: x.take.Process}}) }

const withdrawPath = "/api/wallets/withdraw"

func (x *till) wanted(to, amount string, more ...string) string {
	return `{"destination_id":"` + to + `","amount":` + amount + strings.Join(more, "") + `}`
}

func (x *till) taken(key, to, amount string, more ...string) members {
	x.t.Helper()
	got, _ := ask[members](x.fixture, "POST", withdrawPath, x.wanted(to, amount, more...), "Idempotency-Key", key)
	return got
}

func (x *till) status(id string) string {
	x.t.Helper()
	got, _ := ask[members](x.fixture, "GET", "/api/wallets/withdrawals/"+id, "")
	return fmt.Sprint(got["status"], " ", got["reason"])
}

func (x *till) balance(a money.Asset) (units int64) {
	x.t.Helper()
	x.write(func(ctx context.Context, tx *db.Tx) error {
		got, err := ledger.Balance(ctx, tx, x.company, ledger.CompanyFunds, "", a)
		units = got.Units()
		return err
	})
	return units
}

// ends sets the state of the payout of a withdrawal, as the rails do.
func (x *till) ends(id string, state payout.State) {
	x.t.Helper()
	if _, err := x.exec("UPDATE outputs SET state = $1, txid = 'tx' WHERE payroll_id = $2", string(state),
		id); err != nil {
		x.t.Fatal(err)
	}
	x.write(func(_ context.Context, tx *db.Tx) error {
		job.Enqueue(tx, job.New{CompanyID: x.company, Kind: payout.JobChanged, Payload: payout.Changed{PayrollID: id}})
		return nil
	})
	x.drain(job.Table{payout.JobChanged: {Tx: x.take.PayoutChanged}})
}

// A withdrawal leaves the balance once and is credited again if it fails.
func TestWithdrawals(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := openTill(t, d)
		x.credit("dep_1", money.New(money.USD, 100_00))
		x.credit("dep_2", money.New(money.BTC, 100_000))
		refused := func(status int, code, pointer, body string) refusal {
			return refusal{status, code, pointer, "POST", withdrawPath, body, ""}
		}
		x.refuses(
			refused(404, "not_found", "/destination_id", x.wanted("dst_none", "1")),
			refused(422, "amount_not_positive", "/amount", x.wanted(x.dollars, "0")),
			refused(422, "amount_precision", "/amount", x.wanted(x.dollars, "1.001")),
			refused(422, "amount_too_large", "/amount", x.wanted(x.dollars, "99999999999999999999")),
			refused(422, "amount_too_small", "/amount", x.wanted(x.bitcoin, "0.00009999")),
			refused(409, "insufficient_balance", "/amount", x.wanted(x.dollars, "100.01")),
			refusal{404, "not_found", "", "GET", "/api/wallets/withdrawals/wdr_none", "", ""},
			refusal{404, "not_found", "", "POST", "/api/wallets/withdrawals/cancel", `{"withdrawal_id":"wdr_none"}`, ""},
		)
		x.wants(400, "idempotency_key_required", "POST", withdrawPath, x.wanted(x.dollars, "1"))
		x.take.AllowUnverified = false
		x.refuses(refused(403, "kyc_required", "", x.wanted(x.dollars, "1")))
		x.take.AllowUnverified = true
		x.set("UPDATE companies SET status = 'frozen'")
		x.refuses(refused(403, "company_frozen", "", x.wanted(x.dollars, "1")))
		x.set("UPDATE companies SET status = 'active'")

		// The amount is reserved at once. A repeated request is the same withdrawal.
		first := x.taken("w1", x.dollars, "60.00", `,"external_id":"draw-1"`)
		id := first["withdrawal_id"].(string)
		if again := x.taken("w1", x.dollars, "60.00", `,"external_id":"draw-1"`); again["withdrawal_id"] != id ||
			first["status"] != "pending" || first["destination"] != "Bank USD ••••6789" {
			t.Errorf("%v\n%v", first, again)
		}
		x.refuses(refused(409, "external_id_conflict", "", x.wanted(x.dollars, "1", `,"external_id":"draw-1"`)),
			refused(409, "insufficient_balance", "/amount", x.wanted(x.dollars, "40.01")))
		x.look()
		if got := x.status(id); got != "processing " {
			t.Error(got)
		}
		if n := x.tally("SELECT COUNT(*) FROM outputs WHERE payroll_id = $1 AND rail = 'bank' AND asset = 'USD' AND "+
			"amount = 6000 AND destination LIKE '%sealed%'", id); n != 1 {
			t.Errorf("%d outputs", n)
		}
		cancel := func(code string) {
			x.refuses(refusal{409, code, "", "POST", "/api/wallets/withdrawals/cancel", `{"withdrawal_id":"` + id + `"}`, ""})
		}
		cancel("already_processing") // the payout may already be on its way
		x.ends(id, payout.Fulfilled)
		x.ends(id, payout.Fulfilled)
		cancel("invalid_state")
		if got := x.status(id); got != "completed " || x.balance(money.USD) != 40_00 {
			t.Error(got, x.balance(money.USD))
		}
		x.ends(id, payout.Returned) // the bank returns it
		if got := x.status(id); got != "returned " || x.balance(money.USD) != 100_00 {
			t.Error(got, x.balance(money.USD))
		}
		x.ends(id, payout.Returned)

		off := x.taken("w2", x.bitcoin, "0.0005")["withdrawal_id"].(string)
		for range 2 {
			if got, _ := ask[members](x.fixture, "POST", "/api/wallets/withdrawals/cancel",
				`{"withdrawal_id":"`+off+`"}`); got["status"] != "cancelled" {
				t.Errorf("%v", got)
			}
		}
		x.look()
		failed := x.taken("w3", x.bitcoin, "0.0005")["withdrawal_id"].(string)
		x.look()
		x.ends(failed, payout.Failed)
		if got := x.status(failed) + x.status(off); got != "failed cancelled " || x.balance(money.BTC) != 100_000 {
			t.Error(got, x.balance(money.BTC))
		}

		// Another company can neither see nor create withdrawals.
		other := x.otherCompany()
		other.wants(404, "not_found", "GET", "/api/wallets/withdrawals/"+id, "")
		other.wants(404, "not_found", "POST", withdrawPath, x.wanted(x.dollars, "1"), "Idempotency-Key", "x")

		page, text := ask[members](x.fixture, "GET", "/api/wallets/withdrawals?per_page=2", "")
		if page["meta"].(members)["total"] != 3.0 || len(page["data"].([]any)) != 2 || !strings.Contains(text, failed) {
			t.Error(text)
		}
		if _, text := ask[members](x.fixture, "GET", "/api/wallets/transactions?currency=USD", ""); !strings.Contains(text,
			`"type":"withdrawal"`) || !strings.Contains(text, `"type":"withdrawal_undone"`) {
			t.Error(text)
		}
		if _, text := ask[members](x.fixture, "GET", "/api/wallets/destinations", ""); strings.Contains(text, "123456789") ||
			!strings.Contains(text, `"hint":"••••6789"`) {
			t.Error(text)
		}
		// Every version of every withdrawal has one event, in order.
		if silent := x.count(`SELECT COUNT(*) FROM history h
			JOIN withdrawals w ON w.company_id = h.company_id AND w.withdrawal_id = h.object_id
			WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.object_id = h.object_id AND e.sequence = h.version
				AND e.name = CASE WHEN h.version = 1 THEN 'withdrawal.created' ELSE 'withdrawal.status_update' END
				AND e.data LIKE '%"status":"' || h.to_state || '"%')`); silent != 0 {
			t.Errorf("%d changes of withdrawals without an event", silent)
		}
		x.checkLedger()
	})
}

// Concurrent withdrawals cannot exceed the balance.
func TestConcurrentWithdrawalsDoNotOverdraw(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := openTill(t, d)
		x.credit("dep_1", money.New(money.USD, 100_00))
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if got := x.do("POST", withdrawPath, x.wanted(x.dollars, "30"), "Idempotency-Key",
					fmt.Sprint("k", i)); got.status != 200 && !strings.Contains(got.text, "insufficient_balance") {
					t.Errorf("%d %s", got.status, got.text)
				}
			})
		}
		all.Wait()
		if n := x.count("SELECT COUNT(*) FROM withdrawals"); n != 3 || x.balance(money.USD) != 10_00 {
			t.Errorf("%d withdrawals, %d left", n, x.balance(money.USD))
		}
		x.checkLedger()
	})
}

// A stolen key or session cannot withdraw to a new destination unnoticed, past screening, or above the limit of the
// company.
func TestWithdrawalsAreGuarded(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		x := openTill(t, d)
		x.credit("dep_1", money.New(money.USD, 1000_00))
		x.credit("dep_2", money.New(money.BTC, 100_000))
		refuse := func(code string, f func(ctx context.Context, tx *db.Tx) error) {
			t.Helper()
			if err := x.db.Write(t.Context(), f); err == nil || !strings.HasPrefix(err.Error(), code) {
				t.Errorf("%v, want %s", err, code)
			}
		}
		program := identity.Principal{Kind: identity.KindAPIKey, ID: "key", CompanyID: x.company}
		refuse("role_required", func(ctx context.Context, tx *db.Tx) error {
			_, err := x.take.AddDestination(ctx, tx, program, "", "BTC", []byte(`{"address":"`+btcAddress+`"}`))
			return err
		})
		refuse("currency_not_supported", func(ctx context.Context, tx *db.Tx) error {
			_, err := x.take.AddDestination(ctx, tx, x.owner, "", "XRP",
				[]byte(`{"address":"rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn"}`))
			return err
		})

		// A new destination can be used after its cool-down, and administrators are notified.
		x.take.CoolDown = approval.CoolDown(24 * time.Hour)
		second := x.hire("second@acme.example")
		fresh := x.add("Fresh", "BTC", `{"address":"`+btcAddress+`"}`)
		x.refuses(refusal{409, "destination_cooling", "/destination_id", "POST", withdrawPath, x.wanted(fresh, "0.0005"), ""})
		if n := x.count("SELECT COUNT(*) FROM mails WHERE template = 'destination_changed' AND address IN " +
			"('owner@acme.example', 'second@acme.example') AND mail_key LIKE '" + fresh + "%'"); n != 2 {
			t.Errorf("%d mails", n)
		}
		clock.Advance(24 * time.Hour)
		x.take.CoolDown = 0

		// A withdrawal that waits is cancelled when its destination is deleted.
		waits := x.taken("w1", fresh, "0.0005")["withdrawal_id"].(string)
		x.write(func(ctx context.Context, tx *db.Tx) error { return x.take.RemoveDestination(ctx, tx, second, fresh) })
		x.look()
		if got := x.status(waits); got != "cancelled destination_gone" {
			t.Error(got)
		}
		x.refuses(refusal{404, "not_found", "/destination_id", "POST", withdrawPath, x.wanted(fresh, "0.0005"), ""})

		// A company with a debt cannot withdraw: waiting withdrawals are held, and new ones are rejected until the
		// debt is paid.
		early := x.taken("w0", x.bitcoin, "0.0001")["withdrawal_id"].(string)
		x.credit("dep_5", money.New(money.USD, 5_00))
		x.write(func(_ context.Context, tx *db.Tx) error {
			owed := money.New(money.USD, 5_00)
			return ledger.Post(tx, ledger.Journal{CompanyID: x.company, SourceType: "bank_deposit", SourceID: "trf_1",
				Purpose: "return",
				Lines:   []ledger.Line{ledger.Debit(ledger.DueFromCustomer, "", owed), ledger.Credit(ledger.Bank, "", owed)}})
		})
		x.refuses(refusal{409, "insufficient_balance", "", "POST", withdrawPath, x.wanted(x.dollars, "1"), ""})
		x.look()
		if got := x.status(early); got != "on_hold balance_owed" {
			t.Error(got)
		}
		for range 2 {
			if err := payroll.SettleDebts(t.Context(), x.db); err != nil || x.balance(money.USD) != 1000_00 {
				t.Error(err, x.balance(money.USD))
			}
		}
		clock.Advance(10 * time.Minute)
		x.look()
		if got := x.status(early); got != "processing " {
			t.Error(got)
		}

		// Above the limit, also in parts, a withdrawal by an app requires two approvals and one by a member requires
		// another member.
		x.write(func(ctx context.Context, tx *db.Tx) error {
			return approval.SetLimit(ctx, tx, x.owner, money.New(money.USD, 100_00))
		})
		approve := func(by identity.Principal, id string) func(context.Context, *db.Tx) error {
			return func(ctx context.Context, tx *db.Tx) error {
				_, err := x.take.Approve(ctx, tx, by, id)
				return err
			}
		}
		small := x.taken("w2", x.dollars, "60")["withdrawal_id"].(string)
		clock.Advance(time.Second)
		piece := x.taken("w3", x.dollars, "60")["withdrawal_id"].(string)
		x.look()
		if got := x.status(small) + x.status(piece); got != "processing awaiting_approval approval_required" {
			t.Error(got)
		}
		clock.Advance(time.Second)
		// the limit applies to the value of all assets
		another := x.taken("w3b", x.bitcoin, "0.0001")["withdrawal_id"].(string)
		x.look()
		if got := x.status(another); got != "awaiting_approval approval_required" {
			t.Error(got)
		}
		got, _ := ask[members](x.fixture, "GET", "/api/wallets/withdrawals/"+piece, "")
		if got["approvals_needed"] != 2.0 || got["approvals_given"] != 0.0 {
			t.Errorf("%v", got)
		}
		refuse("role_required", approve(program, piece))
		for range 2 {
			x.write(approve(x.owner, piece))
			x.look()
		}
		if got := x.status(piece); got != "awaiting_approval approval_required" {
			t.Error("one of two:", got)
		}
		x.write(approve(second, piece))
		x.look()
		if got := x.status(piece); got != "processing " {
			t.Error(got)
		}
		var own withdrawal.Withdrawal
		x.write(func(ctx context.Context, tx *db.Tx) (err error) {
			own, err = x.take.Create(ctx, tx, x.owner, withdrawal.Params{DestinationID: x.dollars, AmountText: "500",
				Key: "form"})
			return err
		})
		x.write(func(ctx context.Context, tx *db.Tx) error {
			again, err := x.take.Create(ctx, tx, x.owner, withdrawal.Params{DestinationID: x.dollars, AmountText: "500",
				Key: "form"})
			if again.ID != own.ID {
				t.Errorf("sent twice: %s and %s", own.ID, again.ID)
			}
			return err
		})
		x.look()
		refuse("second_person_required", approve(x.owner, own.ID))
		x.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := x.take.Decline(ctx, tx, second, own.ID)
			return err
		})
		refuse("invalid_state", approve(second, own.ID))
		x.look()
		if got := x.status(own.ID); got != "declined " || x.balance(money.USD) != 880_00 {
			t.Error(got, x.balance(money.USD))
		}

		// A destination that matches a sanctions list is held until staff clear it.
		x.set("UPDATE approval_limits SET currency = ''")
		listed := x.taken("w4", x.add("", "BTC", `{"address":"bcrt1qtt0m2f6rg66xt26wcavtd5tuz5yvgny3sx5g08"}`),
			"0.0005")["withdrawal_id"].(string)
		x.look()
		if got := x.status(listed); got != "on_hold under_review" {
			t.Error(got)
		}
		x.write(func(ctx context.Context, tx *db.Tx) error {
			hits, err := screening.Hits(ctx, tx, screening.Open, 10)
			if err != nil || len(hits) != 1 {
				return fmt.Errorf("%d hits (%w)", len(hits), err)
			}
			if _, err := screening.Decide(ctx, tx, hits[0].ID, screening.Cleared, "Ada", "another one"); err != nil {
				return err
			}
			return withdrawal.RetryReviewed(ctx, tx, x.company)
		})
		x.look()
		if got := x.status(listed); got != "processing " {
			t.Error(got)
		}
		x.checkLedger()
	})
}
