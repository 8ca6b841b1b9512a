package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// rails is a pipeline that also sends payouts: in bitcoin, on an EVM network, and in files for a bank. The chains are
// simulated. The bank is a directory; its responses are written when the benchmark requests them.
type rails struct {
	*pipeline
	all        *job.Runner // all jobs from a deposit to a settled payroll
	evm        *evmsim.Chain
	evmWatcher *chain.Watcher // watcher of evm
	deriver    *evm.Deriver
	banker     *bank.Rail
	bank       *bank.Sandbox
	bankPayees []string                // payees with bank accounts
	account    destination.Destination // bank account of one of the payees
}

const railsNetwork = "base"

func newRails(ctx context.Context, database, folder string, payees int) (*rails, error) {
	l, err := newPipeline(ctx, database, payees)
	if err != nil {
		return nil, err
	}
	r := &rails{pipeline: l}
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		return nil, err
	}
	if err := r.createBankPayees(ctx, sealer, payees/2); err != nil {
		return nil, err
	}
	network, err := evm.Lookup(railsNetwork)
	if err != nil {
		return nil, err
	}
	seed, err := evm.MasterFromSeed(make([]byte, 32))
	if err != nil {
		return nil, err
	}
	signer, err := evm.ParseXPriv(seed)
	if err != nil {
		return nil, err
	}
	r.evm, r.deriver = evmsim.New(l.d, network), signer.Deriver()
	hot, err := r.deriver.HotAddress()
	if err != nil {
		return nil, err
	}
	for _, x := range []money.Amount{money.New(money.ETH, 100_000_000_000), money.New(money.USDC, 1_000_000_000_000)} {
		if err := r.evm.Fund(ctx, hot, x); err != nil {
			return nil, err
		}
	}
	quiet := slog.New(slog.DiscardHandler)
	const never = 24 * time.Hour
	account, err := evmrail.New(ctx, l.d, evmrail.Config{
		Node: r.evm, Signer: signer, Log: quiet, FeeMaxAge: never,
		Screen: func(context.Context, *db.Tx, string, string, string) (bool, error) { return false, nil },
		Due:    func(context.Context, *db.Tx, evmrail.Collection) (bool, error) { return true, nil },
	})
	if err != nil {
		return nil, err
	}
	if err := account.RefreshFees(ctx, l.d); err != nil {
		return nil, err
	}
	r.evmWatcher = chain.NewWatcher(l.d, railsNetwork, r.evm, network.BlocksPerConfirmation, quiet)
	if err := r.evmWatcher.Sync(ctx); err != nil {
		return nil, err
	}
	var drop *bank.Drop
	if drop, r.bank, err = bank.OpenSandbox(folder); err != nil {
		return nil, err
	}
	r.banker, err = bank.New(bank.Config{Drop: drop, Accounts: bank.SandboxAccounts(), Sealer: sealer, Log: quiet,
		Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			var d destination.Destination
			if err := json.Unmarshal(snapshot, &d); err != nil {
				return bank.Destination{}, err
			}
			data, err := destination.Reveal(sealer, d)
			return bank.Destination{Country: d.Country, Scheme: d.Scheme, Data: data}, err
		},
		Details: payroll.Details,
		Changed: func(context.Context, *db.Tx, payout.Output, string, nacha.Correction) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	payouts, err := payout.New(l.rail, account, r.banker)
	if err != nil {
		return nil, err
	}
	table := payouts.Jobs()
	maps.Copy(table, job.Table{
		chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Tx: l.pay.Fund},
		payroll.JobRelease: {Tx: l.pay.Release},
		payout.JobChanged: {Tx: func(ctx context.Context, tx *db.Tx, j job.Job) error {
			var in payout.Changed
			if err := j.Decode(&in); err != nil || in.PayrollID == unknownPayroll {
				return err
			}
			return l.pay.Settle(ctx, tx, j)
		}},
	})
	r.all = job.NewRunner(l.d, table, nil, quiet)
	return r, nil
}

// unknownPayroll is the payroll id of payouts that were queued without a payroll.
const unknownPayroll = "prl_unknown"

// createBankPayees creates payees with a German bank account each.
func (r *rails) createBankPayees(ctx context.Context, sealer *identity.Sealer, n int) error {
	setup := destination.Setup{Sealer: sealer, BitcoinNetwork: networkName}
	for len(r.bankPayees) < n {
		var made []string
		if err := r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			made = made[:0]
			for range min(500, n-len(r.bankPayees)) {
				person := payee.CreateParams{}
				person.FirstName, person.LastName, person.Country = "Pay", "Ee", "DE"
				p, err := payee.Create(ctx, tx, sealer, r.by, person)
				if err != nil {
					return err
				}
				data := `{"account_holder_name":"Pay Ee","account_holder_type":"individual","iban":"DE89370400440532013000"}`
				if r.account, err = destination.Create(ctx, tx, setup, r.by, destination.CreateParams{
					OwnerID: p.ID, Symbol: "EUR", Data: json.RawMessage(data),
				}); err != nil {
					return err
				}
				made = append(made, p.ID)
			}
			return nil
		}); err != nil {
			return err
		}
		r.bankPayees = append(r.bankPayees, made...)
	}
	if err := analyze(ctx, r.d); err != nil {
		return err
	}
	return r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM jobs") // jobs of the creation of payees
		return err
	})
}

// createSplitPayroll creates and funds a payroll: half of its payments are to Bitcoin addresses, half to bank
// accounts.
func (r *rails) createSplitPayroll(ctx context.Context, payees int) (p payroll.Payroll, err error) {
	params := payroll.CreateParams{CompanyID: r.company.id, Currency: "USD", FundingCurrency: "BTC"}
	for i := range payees {
		id := r.company.payees[i]
		if i%2 == 1 {
			id = r.bankPayees[i/2]
		}
		params.ToPay = append(params.ToPay, payroll.Payee{UserID: id, AmountText: fmt.Sprintf("20.%02d", i%100)})
	}
	if err := r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		p, err = r.pay.Create(ctx, tx, r.by, params)
		return err
	}); err != nil {
		return p, err
	}
	_, err = r.fundAndMatch(ctx, []payroll.Payroll{p}, 1)
	return p, err
}

// run runs all jobs that are due and returns the time taken.
func (r *rails) run(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := r.all.Drain(ctx)
	return time.Since(began), err
}

// confirm makes a chain and the bank process the submitted payouts, and returns the time that the service needs to
// record this. The chain is the EVM network if accounts is true, otherwise Bitcoin.
func (r *rails) confirm(ctx context.Context, accounts bool) (time.Duration, error) {
	mine, watcher, blocks := r.chain.Mine, r.watcher, 6
	if accounts {
		mine, watcher, blocks = r.evm.Mine, r.evmWatcher, 60
	}
	if err := mine(ctx, blocks); err != nil {
		return 0, err
	}
	now, err := r.d.Now(ctx)
	if err != nil {
		return 0, err
	}
	if err := r.bank.ProcessFiles(now); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := watcher.Sync(ctx); err != nil {
		return 0, err
	}
	if err := r.banker.Collect(ctx, r.d); err != nil {
		return 0, err
	}
	if _, err := r.run(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// checkPayouts returns an error unless exactly want payouts of a payroll are in a state.
func (r *rails) checkPayouts(ctx context.Context, payrollID string, want int, state payout.State) error {
	return r.d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		outs, err := payout.ForPayroll(ctx, tx, r.company.id, payrollID)
		n := 0
		for _, o := range outs {
			if o.State == state {
				n++
			}
		}
		if err == nil && n != want {
			err = fmt.Errorf("%d of %d payouts are %s", n, want, state)
		}
		return err
	})
}

// queuePayouts queues n payouts on one rail directly. No payroll has the ID that it returns.
func (r *rails) queuePayouts(ctx context.Context, rail string, n int) (payrollID string, err error) {
	return unknownPayroll, r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		outs := make([]payout.Output, n)
		for i := range outs {
			o := payout.Output{CompanyID: r.company.id, ID: tx.NewID("out"), PayrollID: unknownPayroll,
				PaymentID: tx.NewID("pmt"), Rail: payout.RailName(rail)}
			from, where := ledger.Bank, "sandbox"
			var err error
			switch o.Rail {
			case payout.RailBitcoin:
				o.Amount, o.Address = money.New(money.BTC, 20_000), "bcrt1qgljkmvcegvkcchwe93t7qfyw5sr5sdyfdsnwpg"
				from, where = ledger.WalletOf(money.BTC, "")
			case payout.RailBank:
				o.Amount = money.New(money.EUR, 20_00)
				o.Destination, err = json.Marshal(r.account)
			default:
				o.Amount = money.New(money.USDC, 20_000_000)
				o.Address, err = r.deriver.Address(chain.External, 1_000+uint32(i))
				from, where = ledger.WalletOf(money.USDC, rail)
			}
			if err != nil {
				return err
			}
			o.Input, outs[i] = o.Amount, o
			if err := ledger.Post(tx, ledger.Journal{CompanyID: o.CompanyID, SourceType: "bench", SourceID: o.ID,
				Purpose: "queue", Lines: []ledger.Line{
					ledger.Debit(from, where, o.Amount), ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)}}); err != nil {
				return err
			}
		}
		return payout.Add(tx, outs)
	})
}

// payoutRails measures the throughput of each rail, and the time of a whole payroll from its funding to its last
// payout.
func (b *bench) payoutRails(ctx context.Context, dir string) error {
	database, err := b.databases("rails")
	if err != nil {
		return err
	}
	most := 0
	for _, n := range b.sizes {
		most = max(most, n)
	}
	b.logf("preparing a wallet, a network and a bank")
	r, err := newRails(ctx, database, filepath.Join(dir, "bank"), most)
	if err != nil {
		return fmt.Errorf("rails: %w", err)
	}
	defer r.d.Close()

	t := newTable(b.out, b.engine+": payouts by one rail, a second", "rail", "payouts", "queued to submitted",
		"submitted to confirmed")
	carried := 0
	for _, c := range []struct {
		rail string
		n    int
	}{{string(payout.RailBitcoin), 2_000}, {railsNetwork, 2_000}, {string(payout.RailBank), 2_000}} {
		b.logf("%d payouts by %s", c.n, c.rail)
		id, err := r.queuePayouts(ctx, c.rail, c.n)
		if err != nil {
			return err
		}
		submitted, err := r.run(ctx)
		if err != nil {
			return err
		}
		if err := r.checkPayouts(ctx, id, c.n, payout.Sent); err != nil {
			return fmt.Errorf("%s: %w", c.rail, err)
		}
		confirmed, err := r.confirm(ctx, c.rail == railsNetwork)
		if err != nil {
			return err
		}
		carried += c.n
		if err := r.checkPayouts(ctx, id, carried, payout.Fulfilled); err != nil {
			return fmt.Errorf("%s: %w", c.rail, err)
		}
		t.row(c.rail, c.n, float64(c.n)/submitted.Seconds(), float64(c.n)/confirmed.Seconds())
	}
	if err := t.end(); err != nil {
		return err
	}

	own := &process{pid: os.Getpid()}
	t = newTable(b.out, b.engine+": a payroll, half in bitcoin, half to bank accounts", "payees", "funded to submitted",
		"per payee", "peak memory", "submitted to fulfilled", "per payee")
	for _, n := range b.sizes {
		if n < 2 {
			continue
		}
		rounds := min(7, max(1, 3_000/n))
		b.logf("%d payees, half in bitcoin, half to banks, %d rounds", n, rounds)
		submit, settle := make([]time.Duration, rounds), make([]time.Duration, rounds)
		var peak memory
		for i := range rounds {
			p, err := r.createSplitPayroll(ctx, n)
			if err != nil {
				return err
			}
			debug.FreeOSMemory()
			own.forgetPeak()
			if submit[i], err = r.run(ctx); err != nil {
				return err
			}
			peak = max(peak, own.peak())
			if err := r.checkPayouts(ctx, p.ID, n, payout.Sent); err != nil {
				return err
			}
			if settle[i], err = r.confirm(ctx, false); err != nil {
				return err
			}
			if err := r.checkPayouts(ctx, p.ID, n, payout.Fulfilled); err != nil {
				return err
			}
		}
		s, f := spreadOf(submit).p50, spreadOf(settle).p50
		t.row(n, s, micros(s/time.Duration(n)), peak, f, micros(f/time.Duration(n)))
	}
	return t.end()
}
