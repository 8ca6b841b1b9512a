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

// Difference is a contradiction between the ledger and a node or bank.
type Difference struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // a coin, transaction or account
	Ledger string `json:"ledger"` // value in the ledger
	Actual string `json:"actual"` // value at the node or the bank
}

// Kinds of differences.
const (
	LedgerInconsistent = "books_wrong"     // the ledger is inconsistent
	MonthChanged       = "month_changed"   // a closed month was changed
	WalletTotal        = "wallet_total"    // the wallet's coins are worth more or less than its account
	CoinMissing        = "coin_missing"    // the node does not have a coin of the wallet
	CoinAmount         = "coin_amount"     // the node has the coin with another amount
	DepositMissing     = "deposit_missing" // a coin has no deposit
	DepositGone        = "deposit_gone"    // the output of a confirmed deposit is in no block
	PayoutUnbooked     = "payout_unbooked" // a confirmed payout is not posted
	PayoutGone         = "payout_gone"     // a posted payout is not in a block
	UnknownTransaction = "stranger"        // an unknown transaction spent coins of the wallet
	AccountTotal       = "account_total"   // the accounts on a network hold more or less than their ledger account

	BankTotal        = "bank_total"        // the closing balance of a bank account differs
	EntryUnbooked    = "entry_unbooked"    // an entry of a statement is not posted
	EntryAmount      = "entry_amount"      // a posting and its entry have different amounts
	BookingUnstated  = "booking_unstated"  // a posting of a past day is on no statement
	StatementMissing = "statement_missing" // a statement does not start with the closing balance of the one before
	StatementLate    = "statement_late"    // the newest statement is older than it should be, or there is none
	// StatementDuplicate: the bank sent a statement twice, under different IDs.
	StatementDuplicate = "statement_duplicate"
	StatementSum       = "statement_sum" // the entries of a statement do not add up to the change of its balance
	// StatementUnbalanced: a statement has no opening or no closing balance, or one that cannot be read.
	StatementUnbalanced = "statement_unbalanced"

	ChannelTotal = "channel_total" // the Lightning node has less than its account
)

// Report is the result of a reconciliation.
type Report struct {
	ID          string       `json:"id"`
	At          time.Time    `json:"at"`
	Height      int64        `json:"height"` // height of the Bitcoin chain
	Coins       int64        `json:"coins"`  // number of compared coins and accounts
	Total       string       `json:"total"`  // total value of the coins
	Differences []Difference `json:"differences"`
	NotCompared []string     `json:"not_compared"` // accounts that could not be compared
}

// Clean reports whether there are no differences.
func (r Report) Clean() bool { return len(r.Differences) == 0 }

func (r *Report) differ(kind, object, ledger, actual string) {
	r.Differences = append(r.Differences, Difference{kind, object, ledger, actual})
}

func btc(sats int64) string { return text(money.BTC, sats) }

// Sources has the nodes and bank accounts that the ledger is compared with.
type Sources struct {
	Chain    string           // name of Bitcoin in the database
	Node     chain.UTXOSource // Bitcoin node, or nil
	Accounts []evm.Node       // nodes of EVM networks
	Banks    []bank.Account
	Channels lightning.Node // or nil
}

// Reconcile compares the ledger with the wallet's coins, each coin with the node, and the ledger with the accounts on
// EVM networks, the Lightning node and the bank's statements. It stores and returns a report.
func Reconcile(ctx context.Context, d *db.DB, w Sources) (Report, error) {
	var r Report
	var coins []chain.HeldCoin
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		r = Report{At: tx.Now()}
		if r.Height, _, err = chain.Tip(ctx, tx, w.Chain); err != nil {
			return err
		}
		if coins, err = chain.HeldCoins(ctx, tx, w.Chain); err != nil {
			return err
		}
		return r.compareBooks(ctx, tx, w, coins)
	}); err != nil {
		return r, err
	}
	for _, c := range coins {
		if err := r.compareCoin(ctx, d, w.Chain, w.Node, c); err != nil {
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
		return insertReport(ctx, tx, r, text)
	})
}

// compareBooks checks the ledger and compares it with the watched coins, in one snapshot.
func (r *Report) compareBooks(ctx context.Context, tx *db.Tx, w Sources, coins []chain.HeldCoin) error {
	check, err := ledger.Check(ctx, tx)
	if err != nil {
		return err
	}
	for _, p := range check.Problems {
		r.differ(LedgerInconsistent, "", p, "")
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
		if c.Change || c.Confirmed { // an unconfirmed deposit is not posted yet
			total += c.Amount
		}
	}
	r.Total = btc(total)
	booked := int64(0)
	for _, l := range check.Trial {
		switch {
		case l.Code == ledger.HotWallet && l.Debit.Asset() == money.BTC:
			booked = l.Debit.Units()
		case l.Code == ledger.OtherWallets, l.Code == ledger.Bank: // compared by network and bank account
		case l.Code == ledger.ChannelBalance && w.Channels != nil: // compareChannels compares this account with the node
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
			r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s, %s: %s %s", ledger.OtherWallets,
				ledger.OtherWallets.Name(), o.Dim, o.Amount, o.Amount.Asset()))
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

// compareRows compares the watched transactions of a chain with deposits and payouts.
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
		r.differ(UnknownTransaction, s.TxID, "", spent)
	}
	return err
}

// compareChannels compares account 1001 with the balance of the Lightning node, which may be higher.
func (r *Report) compareChannels(ctx context.Context, d *db.DB, node lightning.Node) error {
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
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s %s: %s; the node does not report its balance: %v",
			ledger.ChannelBalance, ledger.ChannelBalance.Name(), btc(booked), err))
	case holds < booked:
		r.differ(ChannelTotal, string(ledger.ChannelBalance), btc(booked), btc(holds))
	}
	return nil
}

// compareAccounts compares account 1006 of an EVM network with the balances of our addresses at the block up to which
// everything is posted. Amounts of the network's own coin may differ by one unit per movement because of rounding.
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
		r.NotCompared = append(r.NotCompared, n.Name+": the watcher has not scanned it yet")
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
		r.NotCompared = append(r.NotCompared, fmt.Sprintf("%s: the node does not report the balances at block %d: %v", n.Name,
			held.Height, err))
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
		world[asset] += 0 // adds assets that no address holds
	}
	for _, asset := range slices.Sorted(maps.Keys(world)) {
		off := world[asset] - books[asset]
		if off == 0 || asset == n.Native && -held.Movements <= off && off <= held.Movements {
			continue
		}
		r.differ(AccountTotal, string(ledger.OtherWallets)+" "+n.Name, text(asset, books[asset]), text(asset,
			world[asset])+", block "+fmt.Sprint(held.Height)+", difference "+text(asset, off))
	}
	return nil
}

func text(asset money.Asset, units int64) string {
	return money.New(asset, units).String() + " " + string(asset)
}

func coin(o chain.Outpoint) string { return fmt.Sprintf("%s:%d", o.TxID, o.Vout) }

// compareCoin compares a coin with the node. It reports no difference if the coin changed meanwhile.
func (r *Report) compareCoin(ctx context.Context, d *db.DB, chainName string, node chain.UTXOSource,
	c chain.HeldCoin) error {
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
