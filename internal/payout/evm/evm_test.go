package evm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/webhook"
)

// fixture has a hot wallet on a network, with payouts.
type fixture struct {
	*testing.T
	d       *db.DB
	clock   *dbtest.Clock
	node    testNode
	lab     *evmtest.Chain // set only on a real node
	keys    *evm.Signer
	hot     string
	watcher *chain.Watcher
	rail    *evmrail.Rail
	runner  *job.Runner
	payees  uint32
}

func (w *fixture) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// maxOutputs is the number of outputs of an asset per Prepare.
const maxOutputs = 5

const (
	company = "com_1"
	payroll = "prl_1"
)

// secondNode is a second node, which can be down.
type secondNode struct {
	chain.Source
	down bool
}

func (s *secondNode) Tip(ctx context.Context) (int64, string, error) {
	if s.down {
		return 0, "", errors.New("connection refused")
	}
	return s.Source.Tip(ctx)
}

// testNode is a node of the network base that a test controls, with coins for every account.
type testNode interface {
	evm.Node
	Fund(ctx context.Context, account string, native, tokens int64) error
	Mine(ctx context.Context, blocks int) error
	SetBaseFee(ctx context.Context, wei int64) error
}

func newRealFixture(t *testing.T, d *db.DB, clock *dbtest.Clock, node *evmtest.Node) *fixture {
	lab := node.Chain(t, money.USDC)
	w := newFixture(t, d, clock, node, lab.Signer())
	w.lab = lab
	return w
}

func newFixture(t *testing.T, d *db.DB, clock *dbtest.Clock, node testNode, keys *evm.Signer) *fixture {
	w := &fixture{T: t, d: d, clock: clock, node: node, keys: keys}
	var err error
	w.hot, err = keys.Deriver().HotAddress()
	w.must(err)
	w.must(node.Fund(t.Context(), w.hot, 1_000_000_000_000, 1_000_000_000))
	log := slog.New(slog.DiscardHandler)
	w.rail, err = evmrail.New(t.Context(), d, evmrail.Config{Node: node, Signer: keys, Log: log, MaxOutputs: maxOutputs})
	w.must(err)
	payouts, err := payout.New(w.rail)
	w.must(err)
	table := payouts.Jobs()
	nothing := job.Entry{Tx: func(context.Context, *db.Tx, job.Job) error { return nil }}
	table[payout.JobChanged], table[chain.JobOutput] = nothing, nothing
	w.runner = job.NewRunner(d, table, nil, log)
	w.watcher = chain.NewWatcher(d, node.Spec().Name, node, 1, log)
	w.sync()
	return w
}

// sync follows the chain and runs the jobs that are due.
func (w *fixture) sync() {
	w.Helper()
	w.must(w.watcher.Sync(w.Context()))
	w.must(w.runner.Drain(w.Context()))
}

// wait lets time pass and then syncs.
func (w *fixture) wait(d time.Duration) {
	w.Helper()
	w.clock.Advance(d)
	w.sync()
}

// mine mines a block and syncs.
func (w *fixture) mine() {
	w.Helper()
	w.must(w.node.Mine(w.Context(), 1))
	w.sync()
}

// add queues an amount to a new payee and returns the payee's address and the output's ID.
func (w *fixture) add(amount money.Amount) (address, id string) {
	w.Helper()
	address, err := w.keys.Deriver().Address(chain.External, 1_000+w.payees)
	w.must(err)
	w.payees++
	return address, w.addTo(address, amount)
}

// addTo queues an amount to an address, at the end of the queue.
func (w *fixture) addTo(address string, amount money.Amount) (id string) {
	w.Helper()
	return w.addAll(amount, address)[0]
}

// addAll appends a payout of the amount to the queue for each address.
func (w *fixture) addAll(amount money.Amount, addresses ...string) (ids []string) {
	w.Helper()
	w.clock.Advance(time.Millisecond)
	w.must(w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		outs := make([]payout.Output, len(addresses))
		for i, to := range addresses {
			outs[i] = payout.Output{CompanyID: company, PayrollID: payroll, PaymentID: tx.NewID("pmt"), Rail: "base",
				Amount: amount, Input: amount, Address: to}
		}
		if err := payout.Add(tx, outs); err != nil {
			return err
		}
		ids = nil
		code, dim := ledger.WalletOf(amount.Asset(), "base")
		for _, o := range outs {
			ids = append(ids, o.ID)
			if err := ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: o.ID, Purpose: "owe",
				Lines: []ledger.Line{
					ledger.Debit(code, dim, amount), ledger.Credit(ledger.OutputPayable, o.ID, amount),
				}}); err != nil {
				return err
			}
		}
		return nil
	}))
	return ids
}

func (w *fixture) want(id string, state payout.State, reason string) (o payout.Output) {
	w.Helper()
	w.must(w.d.Read(w.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		o, err = payout.Get(ctx, tx, company, id)
		return err
	}))
	if o.State != state || reason != "" && o.Reason != reason {
		w.Fatalf("output %s is %s (%s), want %s (%s)", id, o.State, o.Reason, state, reason)
	}
	return o
}

// delays compares the payout.delayed events of the company.
func (w *fixture) delays(want ...string) {
	w.Helper()
	var got []string
	w.must(w.d.Read(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT data FROM events WHERE company_id = $1 AND name = $2 ORDER BY sequence", company,
			webhook.PayoutDelayed.Name)
		got, err = db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var text string
			if err := r.Scan(&text); err != nil {
				return "", err
			}
			var d struct {
				Reason, Currency, Network string
				Amount                    json.Number
				Waiting                   int
			}
			err := json.Unmarshal([]byte(text), &d)
			return fmt.Sprintf("%s %d %s %s %s", d.Reason, d.Waiting, d.Amount, d.Currency, d.Network), err
		})
		return err
	}))
	if !slices.Equal(got, want) {
		w.Fatalf("payout.delayed events %q, want %q", got, want)
	}
}

// paid checks on the chain that an address received an amount in one transfer, or nothing.
func (w *fixture) paid(address string, amount money.Amount) {
	w.Helper()
	got, times, err := w.lab.Paid(w.Context(), amount.Asset())
	w.must(err)
	want := 1
	if amount.IsZero() {
		want = 0
	}
	if got[address] != amount.Units() || times[address] != want {
		w.Fatalf("%s got %d in %d transfers, want %d in %d", address, got[address], times[address], amount.Units(), want)
	}
}

// holds compares the balance of a ledger account.
func (w *fixture) holds(code ledger.Code, dim string, asset money.Asset, want int64) {
	w.Helper()
	w.must(w.d.Read(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		got, err := ledger.Balance(ctx, tx, company, code, dim, asset)
		if got.Units() != want {
			w.Errorf("account %s %s has %d %s, want %d", code, dim, got.Units(), asset, want)
		}
		return err
	}))
}

// Payouts on a real node with failures and changing fees. The chain proves that every payee is paid once.
func TestPayoutsOnARealNode(t *testing.T) {
	node := evmtest.Start(t)
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newRealFixture(t, d, clock, node)
		usdc := func(n int64) money.Amount { return money.New(money.USDC, n) }

		// Payments of three assets are sent in the order of their nonces.
		amounts := []money.Amount{usdc(5_000_000), money.New(money.ETH, 3_000_000), money.New(money.USDT, 7_000_000)}
		var to, ids []string
		for _, a := range amounts {
			address, id := w.add(a)
			to, ids = append(to, address), append(ids, id)
		}
		w.sync()
		fees := int64(0)
		for i, id := range ids {
			o := w.want(id, payout.Sent, "")
			code, dim := ledger.WalletOf(amounts[i].Asset(), "base")
			w.holds(ledger.OutputPayable, id, amounts[i].Asset(), 0)
			// the amount is in transit until the payment is in a block
			w.holds(code, dim, amounts[i].Asset(), amounts[i].Units())
			w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				fee, err := ledger.Balance(ctx, tx, company, ledger.InTransit, o.BatchID, money.ETH)
				if amounts[i].Asset() == money.ETH {
					fee = money.New(money.ETH, fee.Units()-amounts[i].Units())
				} else {
					w.holds(ledger.InTransit, o.BatchID, amounts[i].Asset(), amounts[i].Units())
				}
				if fees += fee.Units(); fee.Units() <= 0 {
					t.Errorf("a fee of %s is in transit with %s", fee, o.Amount.Asset())
				}
				return err
			}))
		}
		w.holds(ledger.NetworkFee, "payout", money.ETH, fees)
		w.mine()
		for i, a := range amounts {
			o := w.want(ids[i], payout.Fulfilled, "")
			w.paid(to[i], a)
			w.holds(ledger.InTransit, o.BatchID, a.Asset(), 0)
			w.holds(ledger.InTransit, o.BatchID, money.ETH, 0)
			// the wallet's ETH also paid the fees
			if code, dim := ledger.WalletOf(a.Asset(), "base"); a.Asset() != money.ETH {
				w.holds(code, dim, a.Asset(), 0)
			}
		}

		// The block leaves the chain: the same transaction is confirmed again.
		before := w.want(ids[2], payout.Fulfilled, "")
		w.must(w.lab.Reorg(w.Context(), 1))
		w.sync()
		w.want(ids[2], payout.Sent, "")
		w.mine()
		if after := w.want(ids[2], payout.Fulfilled, ""); after.TxID != before.TxID {
			w.Errorf("paid again by %s", after.TxID)
		}
		w.paid(to[2], amounts[2])

		// The number of requests to the node does not depend on the number of payouts.
		asked := func(n int) int64 {
			before := node.Requests()
			ids := w.addAll(usdc(100), to[:n]...)
			w.must(w.runner.Drain(w.Context()))
			requests := node.Requests() - before
			w.mine()
			for _, id := range ids {
				w.want(id, payout.Fulfilled, "")
			}
			return requests
		}
		if one, three := asked(1), asked(3); one != three {
			t.Errorf("%d requests for one payout, %d for three", one, three)
		}

		// The node does not answer for a while.
		node.SetConnection(evmtest.RequestsLost)
		address, id := w.add(usdc(1_000_000))
		w.must(w.runner.Drain(w.Context()))
		w.want(id, payout.Queued, "")
		node.SetConnection(evmtest.Connected)
		w.clock.Advance(time.Minute)
		w.must(w.rail.RefreshFees(w.Context(), d))
		w.sync()
		w.want(id, payout.Sent, "")
		w.mine()
		w.want(id, payout.Fulfilled, "")
		w.paid(address, usdc(1_000_000))

		// Blocks grow expensive after the payment was sent: it is replaced at its nonce, and one of the two is mined.
		address, id = w.add(usdc(2_000_000))
		w.sync()
		first := w.want(id, payout.Sent, "")
		w.must(node.SetBaseFee(w.Context(), 15_000_000_000))
		w.mine()
		w.want(id, payout.Sent, "")
		w.must(w.rail.RefreshFees(w.Context(), d))
		w.wait(3 * time.Minute)
		second := w.want(id, payout.Sent, "")
		if second.TxID == first.TxID {
			w.Fatal("the fee was not raised")
		}
		w.mine()
		w.want(id, payout.Fulfilled, "")
		w.paid(address, usdc(2_000_000))

		// The base fee rises above the limit: the sent transaction is stuck and is not replaced, and the queue waits. The
		// delay is reported once.
		w.delays()
		stuckTo, stuck := w.add(usdc(2_500_000))
		w.sync()
		first = w.want(stuck, payout.Sent, "")
		w.must(node.SetBaseFee(w.Context(), 30_000_000_000))
		w.mine()
		w.must(w.rail.RefreshFees(w.Context(), d))
		w.wait(3 * time.Minute)
		w.delays("fee_too_high 1 2.500000 USDC base")
		address, id = w.add(usdc(3_000_000))
		for range 3 {
			w.wait(time.Minute)
		}
		w.want(id, payout.Queued, "")
		if w.want(stuck, payout.Sent, "").TxID != first.TxID {
			t.Error("a fee above the limit was offered")
		}
		w.must(node.SetBaseFee(w.Context(), 1_000_000_000))
		w.mine()
		w.wait(time.Minute)
		w.want(stuck, payout.Fulfilled, "")
		w.paid(stuckTo, usdc(2_500_000))
		w.want(id, payout.Sent, "")
		w.mine()
		w.paid(address, usdc(3_000_000))
		w.wait(time.Minute)
		w.delays("fee_too_high 1 2.500000 USDC base")

		// A token contract rejects a payee: first when the node estimates the payment, then when a block executes it.
		address, id = w.add(usdc(4_000_000))
		w.must(node.Blacklist(w.Context(), money.USDC, address, true))
		w.sync()
		w.want(id, payout.Failed, onchain.ReasonRefused)
		w.paid(address, usdc(0))
		address, id = w.add(usdc(4_500_000))
		w.sync()
		// Evicting the transaction keeps it out of the block that blacklists the payee.
		w.must(w.lab.Evict(w.Context(), w.want(id, payout.Sent, "").TxID))
		w.must(node.Blacklist(w.Context(), money.USDC, address, true))
		w.wait(time.Minute) // the transaction is broadcast again
		witness := &secondNode{Source: node, down: true}
		w.watcher.SetWitnesses([]chain.Witness{{Source: witness, Name: "second"}}, 0)
		w.mine()
		w.wait(time.Minute)
		w.want(id, payout.Sent, "") // only one node reports that the transaction failed
		witness.down = false
		for range 11 { // a witness that was down is retried after some blocks
			w.mine()
		}
		w.wait(time.Minute)
		w.want(id, payout.Failed, onchain.ReasonRefused)
		w.paid(address, usdc(0))
		w.watcher.SetWitnesses(nil, 0)

		// An output above the balance waits and does not fail.
		_, id = w.add(usdc(900_000_000_000))
		w.sync()
		w.want(id, payout.Queued, "")
		w.wait(time.Minute) // deposits may be on their way to the account
		w.delays("fee_too_high 1 2.500000 USDC base")
		w.wait(2 * time.Minute)
		w.delays("fee_too_high 1 2.500000 USDC base", "insufficient_funds 1 900000.000000 USDC base")

		w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			if len(report.Problems) > 0 {
				t.Errorf("ledger: %v", report.Problems)
			}
			if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
				t.Errorf("paused: %s, %v", why, err)
			}
			return err
		}))

		// Another program uses the key: payouts are paused.
		state, err := node.State(t.Context(), w.hot)
		w.must(err)
		raw, _, _, err := w.lab.SignOwn(t.Context(), state.Nonce, 2_000_000_000, chain.Output{Address: to[0], Amount: 1})
		w.must(err)
		w.must(node.Broadcast(t.Context(), raw))
		w.mine()
		w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			why, err := payout.Paused(ctx, tx)
			if why == "" {
				t.Error("payouts are not paused after another use of the hot wallet's key")
			}
			return err
		}))

		// MarkPaid accepts a transaction that this service made before its database was restored, and that paid an
		// output which is queued again. It accepts the transaction once, for the exact amount and address. Then
		// payouts resume, and no payee is paid twice.
		address, id = w.add(usdc(6_000_000))
		_, other := w.add(usdc(6_000_000))
		w.sync()
		w.want(id, payout.Queued, "")
		raw, txid, _, err := w.lab.SignOwn(t.Context(), state.Nonce+1, 2_000_000_000,
			chain.Output{Address: address, Amount: 6_000_000})
		w.must(err)
		w.must(node.Broadcast(t.Context(), raw))
		found := func(id string) error {
			seen, err := node.Tx(t.Context(), txid)
			w.must(err)
			return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := evmrail.MarkPaid(ctx, tx, node.Spec(), id, seen)
				return err
			})
		}
		w.mine()
		if err := found(id); !errors.Is(err, onchain.ErrNoPayment) {
			t.Errorf("accepted after one block: %v", err)
		}
		for range 5 {
			w.mine()
		}
		if err := found(other); !errors.Is(err, onchain.ErrNoPayment) {
			t.Errorf("accepted for another output: %v", err)
		}
		w.must(found(id))
		w.want(id, payout.Fulfilled, "")
		if err := found(id); !errors.Is(err, onchain.ErrNotQueued) {
			t.Errorf("found twice: %v", err)
		}
		resume := func() {
			w.must(d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "") }))
			w.wait(time.Minute)
		}
		// The balance now also pays the outputs that are ahead in the queue.
		w.must(node.Fund(t.Context(), w.hot, 1_000_000_000_000, 1_000_000_000_000))
		resume()
		w.want(other, payout.Sent, "")
		w.mine()
		w.want(other, payout.Fulfilled, "")
		w.paid(address, usdc(6_000_000))

		// An unknown transaction pauses payouts when it is found, and once more before the next nonce is used. After
		// staff resume payouts the second time, the queue is paid.
		state, err = node.State(t.Context(), w.hot)
		w.must(err)
		raw, _, _, err = w.lab.SignOwn(t.Context(), state.Nonce, 2_000_000_000, chain.Output{Address: to[0], Amount: 1})
		w.must(err)
		w.must(node.Broadcast(t.Context(), raw))
		w.mine()
		address, id = w.add(usdc(7_500_000))
		resume()
		w.want(id, payout.Queued, "")
		resume()
		w.want(id, payout.Sent, "")
		w.mine()
		w.paid(address, usdc(7_500_000))
		w.must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			strangers, failed := chain.UnknownSpends(ctx, tx, "base")
			// no payout explains the two transfers of one unit
			if len(report.Problems) > 0 || failed != nil || len(strangers) != 2 {
				t.Errorf("ledger: %v, unknown transactions: %v, %v", report.Problems, strangers, failed)
			}
			return err
		}))
	})
}
