package backoffice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// Difference is one thing that the books and the world tell differently.
type Difference struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // a coin, a transaction, an account
	Books  string `json:"books"`  // what the books say
	World  string `json:"world"`  // what the chain, a node or the bank says
}

// The kinds of differences.
const (
	BooksWrong     = "books_wrong"     // the books contradict themselves
	MonthChanged   = "month_changed"   // a month that is closed is not what it was
	WalletTotal    = "wallet_total"    // the coins are worth more or less than the books hold
	CoinMissing    = "coin_missing"    // the node does not have a coin that we count on
	CoinAmount     = "coin_amount"     // the node has it with another amount
	DepositMissing = "deposit_missing" // a coin came, and no deposit says so
	DepositGone    = "deposit_gone"    // a deposit's coin is in no block
	PayoutUnbooked = "payout_unbooked" // a payout is confirmed, and not in the books
	PayoutGone     = "payout_gone"     // a payout is in the books, and in no block
	Stranger       = "stranger"        // a transaction that is not ours spent our coins
	AccountTotal   = "account_total"   // our accounts on a network hold more or less of an asset than the books

	BankTotal        = "bank_total"        // an account closes with more or less than the books hold
	EntryUnbooked    = "entry_unbooked"    // a statement has a booking that the books do not have
	EntryAmount      = "entry_amount"      // both have it, with different amounts
	BookingUnstated  = "booking_unstated"  // the books have a booking that no statement has, and its day is over
	StatementMissing = "statement_missing" // one statement does not begin where the one before it ended
	StatementSum     = "statement_sum"     // the bookings of a statement do not lead from its opening to its closing balance
	ChannelTotal     = "channel_total"     // the Lightning node has less than the books
)

// Report is what one comparison found.
type Report struct {
	ID          string       `json:"id"`
	At          time.Time    `json:"at"`
	Height      int64        `json:"height"` // of the chain, up to which was compared
	Coins       int64        `json:"coins"`  // that the node was asked for, and accounts on other networks
	Total       string       `json:"total"`  // what they are worth
	Differences []Difference `json:"differences"`
	NotCompared []string     `json:"not_compared"` // accounts that hold something, with nothing to compare it to
}

// Clean says that nothing differs.
func (r Report) Clean() bool { return len(r.Differences) == 0 }

func (r *Report) differ(kind, object, books, world string) {
	r.Differences = append(r.Differences, Difference{kind, object, books, world})
}

func btc(sats int64) string { return text(money.BTC, sats) }

// World is what the books are compared with.
type World struct {
	Chain    string           // under whose name the rows of Bitcoin's coins are
	Node     chain.UTXOSource // nil: nobody can be asked for them
	Accounts []evm.Node       // of the networks of accounts
	Banks    []bank.Account
	Channels *lightning.Client // nil: there is no Lightning node, or nobody may ask it
}

// Reconcile compares the books with the wallet's coins, and those with the node, coin by coin, with what our accounts hold on other
// networks, and with the bank's statements. It keeps its report.
func Reconcile(ctx context.Context, d *db.DB, w World) (Report, error) {
	var r Report
	var coins []chain.HeldCoin
	chainName := w.Chain
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		r = Report{At: tx.Now()}
		if r.Height, _, err = chain.Tip(ctx, tx, chainName); err != nil {
			return err
		}
		if coins, err = chain.HeldCoins(ctx, tx, chainName); err != nil {
			return err
		}
		return r.compareBooks(ctx, tx, w, coins)
	}); err != nil {
		return r, err
	}
	for _, c := range coins {
		if err := r.compareCoin(ctx, d, chainName, w.Node, c); err != nil {
			return r, err
		}
	}
	for _, node := range w.Accounts {
		if err := r.compareAccounts(ctx, d, node); err != nil {
			return r, err
		}
	}
	if err := r.compareChannels(ctx, d, w.Channels); err != nil {
		return r, err
	}
	return r, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		r.ID = tx.NewID("rcn")
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return insertReport(ctx, tx, kept{r.ID, r.At, int64(len(r.Differences)), string(text)})
	})
}

// compareBooks compares the books with what the watcher has seen, in one snapshot.
func (r *Report) compareBooks(ctx context.Context, tx *db.Tx, w World, coins []chain.HeldCoin) error {
	check, err := ledger.Check(ctx, tx)
	if err != nil {
		return err
	}
	for _, p := range check.Problems {
		r.differ(BooksWrong, "", p, "")
	}
	changed, err := ledger.CheckClosings(ctx, tx)
	if err != nil {
		return err
	}
	for _, p := range changed {
		r.differ(MonthChanged, "", p, "")
	}
	var total int64
	for _, c := range coins {
		if c.Change || c.Confirmed { // what lies less deep is not booked yet
			total += c.Amount
		}
	}
	r.Total = btc(total)
	booked := int64(0)
	for _, l := range check.Trial {
		switch {
		case l.Code == ledger.HotWallet && l.Debit.Asset() == money.BTC:
			booked = l.Debit.Units()
		case l.Code == ledger.OtherWallets, l.Code == ledger.Bank: // by network and by account, below
		case l.Code == ledger.ChannelBalance && w.Channels != nil: // the node is asked
		case l.Code >= ledger.HotWallet && l.Code < ledger.ClearingDeposits && !l.Debit.IsZero():
			r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s: %s %s", l.Code, l.Code.Name(), l.Debit, l.Debit.Asset()))
		}
	}
	if booked != total {
		r.differ(WalletTotal, string(ledger.HotWallet), btc(booked), btc(total))
	}
	others, err := ledger.ByDimension(ctx, tx, ledger.OtherWallets)
	if err != nil {
		return err
	}
	for _, o := range others {
		if !slices.ContainsFunc(w.Accounts, func(n evm.Node) bool { return n.Spec().Name == o.Dim }) {
			r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s %s", ledger.OtherWallets, ledger.OtherWallets.Name(), o.Dim, o.Amount, o.Amount.Asset()))
		}
	}
	if err := r.compareBanks(ctx, tx, w.Banks); err != nil {
		return err
	}
	if err := r.compareRows(ctx, tx, w.Chain); err != nil {
		return err
	}
	for _, n := range w.Accounts {
		if err := r.compareRows(ctx, tx, n.Spec().Name); err != nil {
			return err
		}
	}
	return nil
}

// compareRows compares what the watcher has seen of a chain with the deposits and payouts that are booked.
func (r *Report) compareRows(ctx context.Context, tx *db.Tx, chainName string) error {
	missing, err := deposit.Unbooked(ctx, tx, chainName)
	if err != nil {
		return err
	}
	for _, o := range missing {
		r.differ(DepositMissing, coin(o), "", "in a block")
	}
	gone, err := deposit.Gone(ctx, tx, chainName)
	if err != nil {
		return err
	}
	for _, o := range gone {
		r.differ(DepositGone, coin(o), "confirmed", "")
	}
	unbooked, vanished, err := onchain.Mismatched(ctx, tx, chainName)
	if err != nil {
		return err
	}
	for _, t := range unbooked {
		r.differ(PayoutUnbooked, t.TxID, "batch "+t.BatchID+" of "+t.CompanyID+" is not fulfilled", "in a block")
	}
	for _, t := range vanished {
		r.differ(PayoutGone, t.TxID, "batch "+t.BatchID+" of "+t.CompanyID+" is fulfilled", "in no block")
	}
	strangers, err := chain.UnknownSpends(ctx, tx, chainName)
	for _, s := range strangers {
		spent := "spent " + btc(s.Amount)
		if s.Nonce != "" {
			spent = "made by " + s.Nonce
		}
		r.differ(Stranger, s.TxID, "", spent)
	}
	return err
}

// compareChannels compares what came over Lightning with what the node holds. What it holds beyond that is its owner's own.
func (r *Report) compareChannels(ctx context.Context, d *db.DB, node *lightning.Client) error {
	if node == nil {
		return nil
	}
	booked := int64(0)
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		places, err := ledger.ByDimension(ctx, tx, ledger.ChannelBalance)
		booked = 0
		for _, p := range places {
			booked += p.Amount.Units()
		}
		return err
	}); err != nil {
		return err
	}
	holds, err := node.Balance(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s: %s; the node does not say what it holds: %v", ledger.ChannelBalance, ledger.ChannelBalance.Name(), btc(booked), err))
	case holds < booked:
		r.differ(ChannelTotal, string(ledger.ChannelBalance), btc(booked), btc(holds))
	}
	return nil
}

// compareAccounts compares what the books hold on a network of accounts with what our accounts held at the block up to which
// everything is booked. Of the network's own coin each move may have been rounded by one unit.
func (r *Report) compareAccounts(ctx context.Context, d *db.DB, node evm.Node) error {
	n := node.Spec()
	var held chain.EVMHoldings
	books := map[money.Asset]int64{}
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if held, err = chain.LoadEVMHoldings(ctx, tx, n.Name); err != nil {
			return err
		}
		clear(books)
		all, err := ledger.ByDimension(ctx, tx, ledger.OtherWallets)
		for _, o := range all {
			if o.Dim == n.Name {
				books[o.Amount.Asset()] = o.Amount.Units()
			}
		}
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		r.NotCompared = append(r.NotCompared, n.Name+": the watcher has not looked at it yet")
		return nil
	}
	if err != nil {
		return err
	}
	world := map[money.Asset]int64{}
	for asset, early := range held.Unconfirmed {
		world[asset] -= early
	}
	holds, err := node.Balances(ctx, held.Addresses, held.Height)
	if errors.Is(err, chain.ErrNotFound) {
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s: the node does not say what was held at block %d: %v", n.Name, held.Height, err))
		return nil
	}
	if err != nil {
		return err
	}
	r.Coins += int64(len(held.Addresses))
	for asset, units := range holds {
		world[asset] += units
	}
	for asset := range books {
		world[asset] += 0 // also what no account holds
	}
	for _, asset := range slices.Sorted(maps.Keys(world)) {
		off := world[asset] - books[asset]
		if off == 0 || asset == n.Native && -held.Movements <= off && off <= held.Movements {
			continue
		}
		r.differ(AccountTotal, string(ledger.OtherWallets)+" "+n.Name, text(asset, books[asset]), text(asset, world[asset])+", block "+fmt.Sprint(held.Height)+", difference "+text(asset, off))
	}
	return nil
}

func text(asset money.Asset, units int64) string {
	return money.New(asset, units).String() + " " + string(asset)
}

func coin(o chain.Outpoint) string { return fmt.Sprintf("%s:%d", o.TxID, o.Vout) }

// compareCoin asks the node for a coin. What the watcher has heard of meanwhile is no difference.
func (r *Report) compareCoin(ctx context.Context, d *db.DB, chainName string, node chain.UTXOSource, c chain.HeldCoin) error {
	r.Coins++
	sats, err := node.Coin(ctx, c.Outpoint)
	if err != nil && !errors.Is(err, chain.ErrNotFound) {
		return err
	}
	if err == nil && sats == c.Amount {
		return nil
	}
	if err == nil {
		r.differ(CoinAmount, coin(c.Outpoint), btc(c.Amount), btc(sats))
		return nil
	}
	_, top, err := node.Tip(ctx)
	if err != nil {
		return err
	}
	return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, seen, err := chain.Tip(ctx, tx, chainName)
		if err != nil {
			return err
		}
		now, err := chain.GetOutput(ctx, tx, chainName, c.Outpoint)
		switch {
		case err != nil:
			return err
		case now.State != chain.Mined || now.SpendState == chain.Spent:
			return nil
		case seen != top:
			r.NotCompared = append(r.NotCompared, "coin "+coin(c.Outpoint)+": the watcher is behind the node")
			return nil
		}
		r.differ(CoinMissing, coin(c.Outpoint), btc(c.Amount), "")
		return nil
	})
}

// Reports are the last ones, newest first.
func Reports(ctx context.Context, tx *db.Tx, limit int) ([]Report, error) {
	all, err := reports(ctx, tx, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Report, len(all))
	for i, k := range all {
		if err := json.Unmarshal([]byte(k.text), &out[i]); err != nil {
			return nil, err
		}
		out[i].ID = k.id
	}
	return out, nil
}
