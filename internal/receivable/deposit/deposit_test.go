package deposit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/webhook"
)

const (
	company  = "cmp_1"
	network  = "bitcoin"
	validity = 30 * time.Minute
)

// env is a test database with one payroll of 1,010.00 USD quoted at 2,020,000 sat. Tests store the rows that the
// watcher of the chain would store, and run the jobs.
type env struct{ *fixture.Fixture }

func run(t *testing.T, f func(h *env)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) { runIn(t, d, clock, f) })
}

func runIn(t *testing.T, d *db.DB, clock *dbtest.Clock, f func(h *env)) {
	t.Helper()
	h := &env{fixture.New(t, d, clock)}
	h.By.CompanyID = company
	h.Exec("INSERT INTO chain_cursors (chain, height, hash, updated) VALUES ($1, $2, $3, $4)", network, 100, "tip", 0)
	h.quote("prl_1", fixture.USD(1_010_00))
	f(h)
	h.checkLedger()
}

// exec runs a statement that must change one row.
func (h *env) exec(query string, args ...any) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		n, err := tx.Exec(ctx, query, args...)
		if err == nil && n != 1 {
			err = fmt.Errorf("%d rows: %s", n, query)
		}
		return err
	})
}

func (h *env) quote(object string, due money.Amount) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := quote.Make(ctx, tx, quote.Params{
			CompanyID: company, ObjectID: object, Due: due, Funding: money.BTC, Address: "a", Network: "regtest",
			Validity: validity,
		})
		return err
	})
}

// output inserts a watched output that was just seen.
func (h *env) output(txid string, vout uint32, object string, amount int64) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		return tx.Insert(ctx, "chain_outputs", []string{
			"chain", "txid", "vout", "company_id", "object_id", "address", "branch", "idx", "amount", "own",
			"coinbase", "state", "height",
			"block_hash", "first_seen", "want_confirmations", "confirmed", "replaced_by", "spend_state",
			"reserved_by", "spent_by", "spent_height", "depth",
		}, [][]any{{
			network, txid, int64(vout), company, object, "bcrt1q" + object, int64(chain.External), int64(1), amount,
			false, false, "seen", int64(0),
			"", db.Micros(tx.Now()), int64(chain.DefaultConfirmations), false, "", "available", "", "", int64(0),
			int64(0),
		}})
	})
}

// chain updates a transaction's outputs as the watcher would.
func (h *env) chain(txid, state string, confirmed bool, replacedBy string) {
	h.Helper()
	height := 0
	if state == "mined" {
		height = 100
	}
	if confirmed {
		height = 90 // deep enough for a payment of any value
	}
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx,
			"UPDATE chain_outputs SET state = $1, confirmed = $2, replaced_by = $3, height = $4 WHERE chain = $5 AND txid = $6",
			state, confirmed, replacedBy, height, network, txid)
		return err
	})
}

// sync runs the job of an output twice, because every job may run again.
func (h *env) sync(txid string, vout uint32) {
	h.Helper()
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		all := []job.Job{{CompanyID: company, Kind: chain.JobOutput, Payload: fmt.Appendf(nil,
			`{"chain":%q,"txid":%q,"vout":%d}`, network, txid, vout)}}
		return errors.Join(OutputsChanged(ctx, tx, all), OutputsChanged(ctx, tx, all))
	})
}

func (h *env) deposits(object string) []Deposit {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) ([]Deposit, error) {
		return ForObject(ctx, tx, company, object)
	})
}

func (h *env) one(txid string, vout uint32) Deposit {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) (Deposit, error) {
		return find(ctx, tx, company, network, chain.Outpoint{TxID: txid, Vout: vout})
	})
}

// report changes the state of a transaction's outputs and runs the job of its first output.
func (h *env) report(txid, state string, confirmed bool) {
	h.Helper()
	h.chain(txid, state, confirmed, "")
	h.sync(txid, 0)
}

// receive stores an output that was just seen and runs its job.
func (h *env) receive(txid, object string, amount int64) {
	h.Helper()
	h.output(txid, 0, object, amount)
	h.sync(txid, 0)
}

func (h *env) unknown() []Deposit {
	h.Helper()
	return fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) ([]Deposit, error) {
		return UnknownToAll(ctx, tx, 10)
	})
}

// checkLedger checks that the clearing account has exactly the waiting deposits and that the ledger balances.
func (h *env) checkLedger() {
	h.Helper()
	h.CheckLedger()
	rows := fixture.Get(h.Fixture, func(ctx context.Context, tx *db.Tx) ([]Deposit, error) {
		q, err := tx.Query(ctx, "SELECT "+columns+" FROM deposits WHERE company_id = $1", company)
		return db.Collect(q, err, func(r *db.Rows) (Deposit, error) { return scan(r) })
	})
	for _, d := range rows {
		clearing, suspense := int64(0), int64(0)
		if d.State.Waiting() && !d.Dust {
			clearing = d.Amount.Units()
		}
		if d.State == Confirmed && !d.expected() && d.OwnerID == "" {
			suspense = d.Amount.Units()
		}
		for code, want := range map[ledger.Code]int64{ledger.ClearingDeposits: clearing,
			ledger.ContraDeposits: clearing, ledger.SuspenseUnknown: suspense} {
			if got := h.Balance(code, d.ID, d.Amount.Asset()); got != want {
				h.Errorf("%s deposit %s:%d: account %s has %d, want %d", d.State, d.TxID, d.Vout, code, got, want)
			}
		}
	}
}

func TestADepositFollowsTheChain(t *testing.T) {
	// Each step is a state of the transaction on the chain and the expected state of the deposit.
	for name, steps := range map[string]string{
		"paid":                   "mined seen, buried confirmed",
		"evicted":                "evicted evicted",
		"evicted and back":       "evicted evicted, seen seen, buried confirmed",
		"replaced":               "replaced replaced",
		"replaced, yet mined":    "replaced replaced, mined seen, buried confirmed",
		"reorganized and back":   "buried confirmed, seen reverted, mined reverted, buried confirmed",
		"reorganized, replaced":  "buried confirmed, replaced replaced",
		"reorganized, evicted":   "buried confirmed, seen reverted, evicted evicted, buried confirmed",
		"reorganized repeatedly": "buried confirmed, seen reverted, buried confirmed, seen reverted",
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(h *env) {
				h.receive("tx1", "prl_1", 2_020_000)
				d := h.one("tx1", 0)
				if d.State != Seen || !d.OnTime || d.QuoteID == "" || d.Wanted != 2 ||
					d.Amount != fixture.Sats(2_020_000) || d.Version != 1 {
					h.Fatalf("%+v", d)
				}
				h.checkLedger()
				jobs := h.Count("SELECT COUNT(*) FROM jobs WHERE kind = $1", JobChanged)
				for step := range strings.SplitSeq(steps, ", ") {
					state, want, _ := strings.Cut(step, " ")
					if State(want) != d.State {
						jobs++
					}
					if state == "buried" {
						h.report("tx1", "mined", true)
					} else {
						h.report("tx1", state, false)
					}
					if d = h.one("tx1", 0); d.State != State(want) {
						h.Fatalf("%s: the deposit is %s", step, d.State)
					}
					h.checkLedger()
					h.WantCount(jobs, "jobs WHERE kind = $1", JobChanged)
				}
				h.WantCount(d.Version, "history WHERE company_id = $1 AND object_id = $2", company, d.ID)
				h.WantCount(1, "chain_outputs WHERE want_confirmations = 2")
			})
		})
	}
}

func TestADepositIsReportedOnce(t *testing.T) {
	run(t, func(h *env) {
		h.receive("tx1", "prl_1", 2_020_000)
		h.report("tx1", "mined", true)
		h.WantCount(1, "events WHERE name = $1", webhook.PayrollFundingDetected.Name)
	})
}

// A payment seen just before the quote's end is in time, however late it confirms; one seen at its end is not.
func TestFirstSightDecidesTimeliness(t *testing.T) {
	run(t, func(h *env) {
		h.Clock.Advance(validity - time.Microsecond)
		h.output("early", 0, "prl_1", 1_000_000)
		h.Clock.Advance(time.Microsecond)
		h.output("late", 0, "prl_1", 1_000_000)
		h.Clock.Advance(40 * time.Minute)
		for _, txid := range []string{"late", "early"} {
			h.sync(txid, 0)
			h.report(txid, "mined", true)
		}
		if d := h.one("early", 0); !d.OnTime || d.State != Confirmed {
			h.Errorf("early: %+v", d)
		}
		if d := h.one("late", 0); d.OnTime || d.State != Confirmed || d.QuoteID == "" {
			h.Errorf("late: %+v", d)
		}
	})
}

func TestAReplacementKeepsTheFirstSight(t *testing.T) {
	run(t, func(h *env) {
		for i, c := range []struct {
			name   string
			amount int64
			other  bool // a transaction to another address replaces the payment
			inTime bool
		}{
			{"same amount", 2_020_000, false, true},
			{"more", 2_030_000, false, true},
			{"less", 2_019_999, false, false},
			{"replaced by something else", 2_020_000, true, false},
		} {
			for _, order := range []string{"old first", "new first", "old never processed before"} {
				object := fmt.Sprintf("prl_%d %s", i, order)
				tx1, tx2, by := object+" old", object+" new", object+" new"
				if c.other {
					by = "elsewhere"
				}
				h.quote(object, fixture.USD(1_010_00))
				first := h.Clock.Now()
				h.output(tx1, 0, object, 2_020_000)
				if order != "old never processed before" {
					h.sync(tx1, 0)
				}
				h.Clock.Advance(validity)
				h.output(tx2, 1, object, c.amount)
				h.chain(tx1, "replaced", false, by)
				if order == "old first" {
					h.sync(tx1, 0)
					h.sync(tx2, 1)
				} else {
					h.sync(tx2, 1)
					h.sync(tx1, 0)
				}
				old, d := h.one(tx1, 0), h.one(tx2, 1)
				if old.State != Replaced || d.State != Seen || d.OnTime != c.inTime {
					h.Errorf("%s, %s: old %+v, new %+v", c.name, order, old, d)
				}
				if c.inTime && !d.FirstSeen.Equal(first) {
					h.Errorf("%s, %s: first seen %s, want %s", c.name, order, d.FirstSeen, first)
				}
			}
		}
	})
}

// A replacement after the end of the price counts as in time only up to the amount that had been seen in time.
func TestAReplacementAddsNothingToTheFirstSight(t *testing.T) {
	run(t, func(h *env) {
		for i, c := range []struct {
			name   string
			beside int64 // amount that another transaction pays in time
			// olds has the outputs of successive transactions: the first is in time, each other replaces the one before.
			olds   [][]int64
			late   int // number of the transactions in olds after the end of the quote
			next   []int64
			inTime int64 // amount of the last transaction that counts as in time
		}{
			{"a small part, and then the full amount", 0, [][]int64{{1_000}}, 0, []int64{2_020_000}, 0},
			{"a small part, late the rest, and then one payment", 0, [][]int64{{1_000}, {1_000, 2_019_000}}, 1,
				[]int64{2_020_000}, 0},
			{"a small part, late the rest, and then the same two", 0, [][]int64{{1_000}, {1_000, 2_019_000}}, 1,
				[]int64{1_000, 2_019_000}, 1_000},
			{"a small part, the rest in time, and then one payment", 0, [][]int64{{1_000}, {1_000, 2_019_000}},
				0, []int64{2_020_000}, 2_020_000},
			{"a half, and then two halves", 0, [][]int64{{1_010_000}}, 0, []int64{1_010_000, 1_010_000}, 1_010_000},
			{"a half, raised twice, and then the sum of all", 0, [][]int64{{1_000_000}, {1_010_000}, {1_020_000}}, 0,
				[]int64{1_020_000, 1_010_000, 1_000_000}, 1_020_000},
			{"a half beside another half, raised", 1_000_000, [][]int64{{1_020_000}}, 0, []int64{1_020_001}, 1_020_001},
			{"less than a half beside a half, raised", 1_000_000, [][]int64{{1_019_999}}, 0, []int64{1_020_000}, 0},
			{"two parts, and then the same two", 0, [][]int64{{900_000, 1_110_000}}, 0, []int64{900_000, 1_110_000},
				2_010_000},
			{"two parts, and then one", 0, [][]int64{{900_000, 1_110_000}}, 0, []int64{2_010_000}, 2_010_000},
			{"two parts of the full amount, and then more", 0, [][]int64{{900_000, 1_120_000}}, 0,
				[]int64{1_000_000, 1_120_000}, 2_120_000},
		} {
			object := fmt.Sprint("prl_whole", i)
			h.quote(object, fixture.USD(1_010_00))
			pay := func(txid string, outputs []int64) {
				for vout, amount := range outputs {
					h.output(txid, uint32(vout), object, amount)
				}
				for vout := range outputs {
					h.sync(txid, uint32(vout))
				}
			}
			name := func(n int) string { return fmt.Sprint("tx", i, "_", n) }
			last := len(c.olds)
			if c.beside > 0 {
				pay(fmt.Sprint("beside", i), []int64{c.beside})
			}
			for n, outputs := range append(c.olds, c.next) {
				if n == last-c.late {
					h.Clock.Advance(validity)
				}
				for old := range n {
					h.chain(name(old), "replaced", false, name(n))
				}
				h.Clock.Advance(time.Second)
				pay(name(n), outputs)
				for old := range n {
					for vout := range c.olds[old] {
						h.sync(name(old), uint32(vout))
					}
				}
			}
			var inTime int64
			for _, d := range h.deposits(object) {
				if d.TxID == name(last) && d.OnTime {
					inTime += d.Amount.Units()
				}
			}
			if inTime != c.inTime {
				h.Errorf("%s: %d satoshis are in time, want %d", c.name, inTime, c.inTime)
			}
		}
	})
}

// A replacement of a replacement keeps the time at which the first transaction was seen.
func TestReplacedTwice(t *testing.T) {
	run(t, func(h *env) {
		first := h.Clock.Now()
		for i, txid := range []string{"tx1", "tx2", "tx3"} {
			h.output(txid, 0, "prl_1", 2_020_000+int64(i))
			if i > 0 {
				h.chain(fmt.Sprint("tx", i), "replaced", false, txid)
			}
			h.sync(txid, 0)
			h.Clock.Advance(20 * time.Minute)
		}
		h.report("tx3", "mined", true)
		if d := h.one("tx3", 0); !d.OnTime || !d.FirstSeen.Equal(first) || d.State != Confirmed {
			h.Errorf("%+v", d)
		}
	})
}

func TestEachOutputIsADeposit(t *testing.T) {
	run(t, func(h *env) {
		for vout := range uint32(3) {
			h.output("tx1", vout, "prl_1", 700_000)
			h.sync("tx1", vout)
		}
		h.chain("tx1", "mined", true, "")
		for vout := range uint32(3) {
			h.sync("tx1", vout)
		}
		all := h.deposits("prl_1")
		if len(all) != 3 || all[0].ID == all[1].ID || all[2].State != Confirmed {
			h.Errorf("%+v", all)
		}
	})
}

func TestConfirmationsByValue(t *testing.T) {
	for _, c := range []struct{ cents, want int64 }{
		{0, 1}, {999_99, 1}, {1_000_00, 2}, {9_999_99, 2}, {10_000_00, 3}, {99_999_99, 3}, {100_000_00, 6},
		{1 << 60, 6},
	} {
		if got := confirmationsFor(money.New(money.USD, c.cents)); got != c.want {
			t.Errorf("%d cents: %d, want %d", c.cents, got, c.want)
		}
	}
	run(t, func(h *env) {
		h.quote("prl_small", fixture.USD(500_00))
		h.quote("prl_euro", fixture.EUR(950_00)) // worth 1,032.61 USD
		h.quote("prl_rare", money.New(money.KWD, 50_000))
		h.exec("DELETE FROM rates WHERE asset = $1", "KWD")
		for i, c := range []struct {
			object string
			amount int64
			want   int64
		}{
			{"prl_1", 1_000, 2},              // the value of the payroll counts, not that of the deposit
			{"prl_1", 18_000_000, 2},         // worth 9,000 USD
			{"prl_1", 1_999_000, 3},          // worth 10,000 USD together with the earlier deposits
			{"prl_1", 200_000_000, 6},        // worth 100,000 USD
			{"prl_small", 1_000_000, 1},      // worth 500 USD
			{"prl_small", 1_000_000, 2},      // worth 1,000 USD together with the earlier deposit
			{"prl_euro", 1_000, 2},           // the quote is worth more than 1,000 USD
			{"prl_rare", 1_000, 6},           // without a price in dollars the highest number is required
			{"prl_unknown", 1_000_000_00, 6}, // without an object the highest number is required
		} {
			txid := fmt.Sprint("tx", i)
			h.receive(txid, c.object, c.amount)
			if d := h.one(txid, 0); d.Wanted != c.want {
				h.Errorf("%s %d: %d confirmations, want %d", c.object, c.amount, d.Wanted, c.want)
			}
		}
	})
}

// An output first seen in a block is confirmed at once if it has the confirmations that its value needs, even if they
// are fewer than the watcher's default.
func TestConfirmedAtFirstSight(t *testing.T) {
	run(t, func(h *env) {
		h.output("tx1", 0, "prl_1", 2_020_000)
		h.exec("UPDATE chain_outputs SET state = 'mined', height = 99 WHERE txid = $1", "tx1")
		h.sync("tx1", 0)
		if d := h.one("tx1", 0); d.State != Confirmed {
			h.Errorf("%+v", d)
		}
		h.WantCount(1, "events WHERE name = $1", webhook.PayrollFundingDetected.Name)
	})
}

func TestUnknownPaymentsGoToSuspense(t *testing.T) {
	run(t, func(h *env) {
		for i, object := range []string{"prl_gone", ""} {
			txid := fmt.Sprint("tx", i)
			h.receive(txid, object, 70_000)
			h.report(txid, "mined", true)
		}
		h.WantBalance(ledger.HotWallet, "", fixture.Sats(140_000))
		if all := h.unknown(); len(all) != 2 {
			h.Errorf("%d unknown deposits", len(all))
		}
		h.checkLedger()
		h.report("tx0", "seen", false)
		h.WantBalance(ledger.HotWallet, "", fixture.Sats(70_000))
		h.WantCount(0, "jobs WHERE kind = $1", JobChanged)
		// The company whose address it came to gets an event when it is seen, confirmed and reverted.
		h.WantCount(3, "events WHERE name = $1 AND object_id = $2", webhook.WalletDepositUpdate.Name, h.one("tx0", 0).ID)
		h.WantCount(3, "events")
	})
}

func TestDustIsNotReported(t *testing.T) {
	run(t, func(h *env) {
		h.output("tx1", 0, "prl_1", chain.Dust(money.BTC)-1)
		h.output("tx2", 0, "prl_1", chain.Dust(money.BTC))
		for _, txid := range []string{"tx1", "tx2"} {
			h.sync(txid, 0)
			h.report(txid, "mined", true)
		}
		if all := h.deposits("prl_1"); len(all) != 1 || all[0].TxID != "tx2" {
			h.Errorf("%+v", all)
		}
		h.WantBalance(ledger.HotWallet, "", fixture.Sats(chain.Dust(money.BTC)-1))
		h.WantCount(1, "events")
	})
}

func TestOutputsThatAreNoDeposits(t *testing.T) {
	run(t, func(h *env) {
		h.output("change", 0, "prl_1", 5_000)
		h.exec("UPDATE chain_outputs SET branch = $1 WHERE txid = 'change'", int64(chain.Change))
		h.output("foreign", 0, "prl_1", 5_000)
		h.exec("UPDATE chain_outputs SET company_id = $1 WHERE txid = 'foreign'", "cmp_2")
		for _, txid := range []string{"change", "foreign", "never seen"} {
			h.sync(txid, 0)
		}
		h.WantCount(0, "deposits")
	})
}

func TestAStaleChangeIsRefused(t *testing.T) {
	run(t, func(h *env) {
		h.receive("tx1", "prl_1", 2_020_000)
		old := h.one("tx1", 0)
		h.report("tx1", "mined", true)
		stale := &change{Deposit: old, was: old}
		stale.step(old.State, "a concurrent change")
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			stored, err := update(ctx, tx, []*change{stale})
			if len(stored) != 0 {
				h.Errorf("stored %v", stored)
			}
			return err
		})
	})
}

// Whatever the chain does and in whichever order its changes are reported, each deposit ends in the state of the
// chain, is posted exactly once, and clearing holds exactly the waiting deposits.
func TestDepositsFollowAnyChain(t *testing.T) {
	run(t, func(h *env) {
		trial := 0
		rapid.Check(t, func(r *rapid.T) {
			trial++
			object := fmt.Sprint("prl_any", trial)
			h.quote(object, fixture.USD(1_010_00))
			type coin struct{ state string }
			coins := map[string]*coin{}
			var names []string
			for range rapid.IntRange(1, 12).Draw(r, "number of changes") {
				switch rapid.IntRange(0, 2).Draw(r, "change") {
				case 0:
					txid := fmt.Sprintf("tx%d_%d", trial, len(names))
					h.output(txid, 0, object, rapid.Int64Range(1, 3_000_000).Draw(r, "amount"))
					coins[txid] = &coin{"seen"}
					names = append(names, txid)
				case 1:
					if len(names) == 0 {
						continue
					}
					txid := rapid.SampledFrom(names).Draw(r, "txid")
					state := rapid.SampledFrom([]string{"seen", "mined", "confirmed", "evicted", "replaced"}).Draw(r,
						"state")
					by := ""
					if state == "replaced" {
						by = rapid.SampledFrom(names).Draw(r, "by")
					}
					coins[txid].state = state
					if state == "confirmed" {
						h.chain(txid, "mined", true, "")
					} else {
						h.chain(txid, state, false, by)
					}
				case 2:
					if len(names) > 0 {
						h.sync(rapid.SampledFrom(names).Draw(r, "changed"), 0)
					}
				}
			}
			for _, txid := range rapid.Permutation(names).Draw(r, "last changes") {
				h.sync(txid, 0)
			}
			got, want := map[string]string{}, map[string]string{}
			for txid, c := range coins {
				want[txid] = c.state
				d := h.one(txid, 0)
				switch got[txid] = string(d.State); {
				case d.State == Confirmed:
				case d.State.Waiting() && (c.state == "mined" || c.state == "seen"):
					got[txid] = c.state
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatal(diff)
			}
		})
	})
}
