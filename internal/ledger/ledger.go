// Package ledger keeps the books: accounts, balanced append-only journals, guarded balances. It knows no business.
//
// A journal is one business fact, unique by company, source and purpose. Its lines balance per asset, or it is
// not posted. Lines are never changed; a mistake is corrected by a journal the other way round. The accounts that
// must not be overdrawn (see [Guarded]) keep a balance row that the posting changes in the same transaction;
// the house's own accounts are lines only, so that no two payrolls wait for one row. What the house owns of each asset is
// added up from them when somebody asks (see [Own]).
package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Code is an account of the chart.
type Code string

// The chart of accounts.
const (
	HotWallet         Code = "1000" // asset: coins in the hot wallet
	ChannelBalance    Code = "1001" // asset: what came over Lightning, in the channels of the node
	ColdWallet        Code = "1005"
	OtherWallets      Code = "1006"
	Bank              Code = "1020"
	Exchange          Code = "1040"
	ClearingDeposits  Code = "1050" // asset: deposits seen, below their confirmations; dim: deposit
	ContraDeposits    Code = "1055" // liability: the other side of 1050
	DueFromCustomer   Code = "1300" // asset: money a company owes after a reorg
	CompanyFunds      Code = "2000" // liability: a company's available balance
	Escrow            Code = "2010" // liability: funding earmarked for a payroll; dim: payroll
	PayeePayable      Code = "2100" // liability: owed to payees in the denomination; dim: payment
	OutputPayable     Code = "2110" // liability: owed to payees in the payout asset; dim: output
	MerchantPayable   Code = "2200"
	InTransit         Code = "2300" // liability: payouts on their way; dim: payout
	RefundPayable     Code = "2400"
	SuspenseUnknown   Code = "2500" // liability: receipts nobody expected; dim: deposit
	SuspenseLate      Code = "2600" // liability: receipts after their quote's end; dim: payroll or claim
	FXPosition        Code = "3000" // equity: trading position per asset
	FeeRevenue        Code = "4000"
	FXRevenue         Code = "4010"
	Rounding          Code = "4020"
	NetworkFee        Code = "5000" // expense
	BankFee           Code = "5010"
	ShortfallAbsorbed Code = "5030"
	ReorgLoss         Code = "5040"
)

// Shortfall is the short name of ShortfallAbsorbed.
const Shortfall = ShortfallAbsorbed

var names = map[Code]string{
	HotWallet: "Hot wallet", ChannelBalance: "Lightning channel balance", ColdWallet: "Cold wallet", OtherWallets: "Other wallets", Bank: "Bank", Exchange: "Exchange",
	ClearingDeposits: "Deposits in clearing", ContraDeposits: "Contra: unconfirmed deposits", DueFromCustomer: "Due from customer",
	CompanyFunds: "Company funds", Escrow: "Payroll escrow", PayeePayable: "Payee payable", OutputPayable: "Payout payable",
	MerchantPayable: "Merchant payable", InTransit: "Payouts in transit", RefundPayable: "Refunds payable",
	SuspenseUnknown: "Suspense: unidentified", SuspenseLate: "Suspense: late", FXPosition: "FX position", FeeRevenue: "Fee revenue",
	FXRevenue: "FX revenue", Rounding: "Rounding", NetworkFee: "Network fees", BankFee: "Bank fees",
	ShortfallAbsorbed: "Shortfall absorbed", ReorgLoss: "Reorg loss",
}

// Name is the account's name for people.
func (c Code) Name() string { return names[c] }

// Guarded says that an account may not be overdrawn: what it owes its owner is never below 0.
func (c Code) Guarded() bool {
	switch c {
	case CompanyFunds, Escrow, OutputPayable, MerchantPayable, RefundPayable:
		return true
	default:
		return false
	}
}

// creditNormal says that an account holds what it is credited: liabilities, equity, revenue.
func (c Code) creditNormal() bool { return c == ContraDeposits || c >= "2000" && c < "5000" }

// own says that an account tells what the house owns and has at hand: its equity, revenue and expense, and, taken off them, what
// of it is at exchanges.
func (c Code) own() bool { return c >= FXPosition || c == Exchange }

// House stands for the company in journals that concern the house alone.
const House = "house"

// ErrInsufficient is an overdraft refused.
var ErrInsufficient = apierr.New(apierr.Conflict, "insufficient_balance", "The balance does not cover this.")

// Line is one side of a posting.
type Line struct {
	Code   Code
	Dim    string // what the account is kept per: payroll, output, deposit; "" for none
	Amount money.Amount
	debit  bool
}

// Debit is a line that debits.
func Debit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, true} }

// Credit is a line that credits.
func Credit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, false} }

// Journal is one business fact.
type Journal struct {
	CompanyID  string
	SourceType string // "payroll", "deposit", "output"
	SourceID   string
	Purpose    string // "fund", "release", "settle": once per source
	Lines      []Line
}

// Post leaves a journal for the commit. Lines of nothing are dropped, a journal without lines is none. An
// unbalanced or negative one is a bug of the caller and an error; an overdraft fails the commit with ErrInsufficient.
func Post(tx *db.Tx, j Journal) error {
	if j.CompanyID == "" || j.SourceType == "" || j.SourceID == "" || j.Purpose == "" {
		return fmt.Errorf("ledger: a journal without company, source or purpose: %+v", j)
	}
	sums := map[money.Asset]money.Amount{}
	lines := make([]Line, 0, len(j.Lines))
	for _, l := range j.Lines {
		if l.Amount.Sign() < 0 || names[l.Code] == "" {
			return fmt.Errorf("ledger: %s of %s: bad line %s %s %s", j.Purpose, j.SourceID, l.Code, l.Amount, l.Amount.Asset())
		}
		if l.Amount.IsZero() {
			continue
		}
		a := l.Amount.Asset()
		sum, ok := sums[a]
		if !ok {
			sum = money.Zero(a)
		}
		sum, err := sum.Add(l.signed())
		if err != nil {
			return fmt.Errorf("ledger: %s of %s: %w", j.Purpose, j.SourceID, err)
		}
		sums[a] = sum
		lines = append(lines, l)
	}
	for a, sum := range sums {
		if !sum.IsZero() {
			return fmt.Errorf("ledger: %s of %s does not balance: %s %s are left", j.Purpose, j.SourceID, sum, a)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	j.Lines = lines
	tx.Defer(postings, &posting{tx.NewID("jrn"), j})
	return nil
}

// Pass says that everything under some dimensions of an account was given and taken by journals of this transaction that are not
// written yet, so nobody will ever have seen it there. Each of these journals then keeps one line for all of them, under no dimension:
// what it moved between whom stands with the business that posts. Where something of it is left, the lines stay as they are.
func Pass(tx *db.Tx, companyID string, c Code, dims map[string]bool) error {
	var of []*posting
	left := map[balanceKey]money.Amount{}
	for _, item := range tx.Deferred(postings) {
		p := item.(*posting)
		for _, l := range p.j.Lines {
			if p.j.CompanyID != companyID || l.Code != c || !dims[l.Dim] {
				continue
			}
			if len(of) == 0 || of[len(of)-1] != p {
				of = append(of, p)
			}
			k := balanceKey{dim: l.Dim, asset: l.Amount.Asset()}
			sum, ok := left[k]
			if !ok {
				sum = money.Zero(k.asset)
			}
			var err error
			if left[k], err = sum.Add(l.signed()); err != nil {
				return err
			}
		}
	}
	for _, sum := range left {
		if !sum.IsZero() {
			return nil
		}
	}
	for _, p := range of {
		if err := p.j.sum(c, dims); err != nil {
			return err
		}
	}
	return nil
}

// sum makes one line of all lines under some dimensions that are of one side and asset.
func (j *Journal) sum(c Code, dims map[string]bool) error {
	type side struct {
		asset money.Asset
		debit bool
	}
	at := map[side]int{}
	lines := make([]Line, 0, len(j.Lines))
	for _, l := range j.Lines {
		if l.Code == c && dims[l.Dim] {
			k := side{l.Amount.Asset(), l.debit}
			if i, has := at[k]; has {
				var err error
				if lines[i].Amount, err = lines[i].Amount.Add(l.Amount); err != nil {
					return err
				}
				continue
			}
			at[k], l.Dim = len(lines), ""
		}
		lines = append(lines, l)
	}
	j.Lines = lines
	return nil
}

// signed is how a line is stored: debit positive.
func (l Line) signed() money.Amount {
	if l.debit {
		return l.Amount
	}
	return l.Amount.Neg()
}

type posting struct {
	id string
	j  Journal
}

type balanceKey struct {
	company string
	code    Code
	dim     string
	asset   money.Asset
}

func (k balanceKey) compare(o balanceKey) int {
	for _, c := range []int{strings.Compare(k.company, o.company), strings.Compare(string(k.code), string(o.code)),
		strings.Compare(k.dim, o.dim), strings.Compare(string(k.asset), string(o.asset))} {
		if c != 0 {
			return c
		}
	}
	return 0
}

var postings = db.NewGroup(50, flush)

// flush writes all journals of a commit with a few statements, whatever their number.
func flush(ctx context.Context, tx *db.Tx, items []any) error {
	journals := make([][]any, 0, len(items))
	var lines [][]any
	deltas := map[balanceKey]money.Amount{}
	var moves [][]any
	for _, item := range items {
		p := item.(*posting)
		j := p.j
		own, err := j.own()
		if err != nil {
			return err
		}
		for _, x := range own {
			moves = append(moves, []any{j.CompanyID, p.id, string(x.Asset()), x.Units()})
		}
		journals = append(journals, []any{j.CompanyID, p.id, j.SourceType, j.SourceID, j.Purpose, db.Micros(tx.Now())})
		for i, l := range j.Lines {
			a := l.Amount.Asset()
			lines = append(lines, []any{j.CompanyID, p.id, int64(i), string(l.Code), l.Dim, string(a), l.signed().Units()})
			if !l.Code.Guarded() {
				continue
			}
			k := balanceKey{j.CompanyID, l.Code, l.Dim, a}
			d, ok := deltas[k]
			if !ok {
				d = money.Zero(a)
			}
			d, err := d.Sub(l.signed()) // guarded accounts are liabilities: a credit adds
			if err != nil {
				return err
			}
			deltas[k] = d
		}
	}
	if err := insertJournals(ctx, tx, journals, lines, moves); err != nil {
		return err
	}
	keys := make([]balanceKey, 0, len(deltas))
	for k, d := range deltas {
		if !d.IsZero() { // what a commit gives and takes back leaves no trace on the balance
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, balanceKey.compare) // every transaction takes the rows in one order
	// The first statement touches every row, in that order, and raises those that rise; so when the second one lowers the
	// others it holds their locks already. Raising one set and then lowering another would be two orders, and a deadlock
	// between two transactions that move money between the same accounts in opposite directions.
	var less []balanceKey
	for _, k := range keys {
		if deltas[k].Sign() < 0 {
			less = append(less, k)
		}
	}
	if err := addBalances(ctx, tx, keys, deltas); err != nil {
		return err
	}
	return takeBalances(ctx, tx, less, deltas)
}

// own is what a journal adds to what the house owns, of each asset that it changes.
func (j Journal) own() ([]money.Amount, error) {
	var sums []money.Amount
	for _, l := range j.Lines {
		if !l.Code.own() {
			continue
		}
		i := slices.IndexFunc(sums, func(x money.Amount) bool { return x.Asset() == l.Amount.Asset() })
		if i < 0 {
			i, sums = len(sums), append(sums, money.Zero(l.Amount.Asset()))
		}
		var err error
		if sums[i], err = sums[i].Sub(l.signed()); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(sums, money.Amount.IsZero), nil
}

// Own is what the house itself owns of some assets and has at hand: what wallets and banks hold less what is owed to companies,
// payees and payers, by the books. What is at an exchange is owned too, but not at hand. It is below 0 where the house would have
// to bring some before it could pay everybody. What the same transaction has posted counts once it was flushed.
func Own(ctx context.Context, tx *db.Tx, assets ...money.Asset) (map[money.Asset]money.Amount, error) {
	return own(ctx, tx, assets)
}

// TakeOwn is Own for who is going to pay out of it: it writes what is posted so far, and keeps everybody else who calls it for
// one of these assets waiting until the transaction ends. It adds up what was booked since the last time.
func TakeOwn(ctx context.Context, tx *db.Tx, assets ...money.Asset) (map[money.Asset]money.Amount, error) {
	if err := tx.Flush(ctx); err != nil {
		return nil, err
	}
	assets = slices.Clone(assets)
	slices.Sort(assets) // every transaction takes the rows in one order
	assets = slices.Compact(assets)
	for _, a := range assets {
		for n := foldAtOnce; n == foldAtOnce; {
			var err error
			if n, err = fold(ctx, tx, a, foldAtOnce); err != nil {
				return nil, err
			}
		}
	}
	return own(ctx, tx, assets)
}

// Fold adds up what was booked, so that who takes out of what the house owns finds little left to add. It belongs to no request:
// run it now and then.
func Fold(ctx context.Context, d *db.DB) error {
	var assets []money.Asset
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		assets, err = moved(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	for _, a := range assets {
		for n := foldAtOnce; n == foldAtOnce; {
			if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				n, err = fold(ctx, tx, a, foldAtOnce)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Owned lists what the house owns and has at hand, of every asset that it ever had to do with.
func Owned(ctx context.Context, tx *db.Tx) (map[money.Asset]money.Amount, error) {
	return own(ctx, tx, nil)
}

// Balance is what an account holds on its normal side: a liability's credits less its debits, an asset's or
// expense's debits less its credits. Journals of the same transaction count once it was flushed.
func Balance(ctx context.Context, tx *db.Tx, companyID string, c Code, dim string, a money.Asset) (money.Amount, error) {
	var units int64
	var err error
	if c.Guarded() {
		units, err = guardedBalance(ctx, tx, companyID, c, dim, a)
	} else {
		units, err = sumLines(ctx, tx, companyID, c, dim, a)
		if c.creditNormal() {
			units = -units
		}
	}
	if err != nil {
		return money.Amount{}, err
	}
	return money.New(a, units), nil
}

// Total is Balance over all dimensions of an account that is not guarded.
func Total(ctx context.Context, tx *db.Tx, companyID string, c Code, a money.Asset) (money.Amount, error) {
	units, err := sumAccount(ctx, tx, companyID, c, a)
	if c.creditNormal() {
		units = -units
	}
	return money.New(a, units), err
}

// TrialLine is the total of an account in one asset.
type TrialLine struct {
	Code  Code
	Debit money.Amount // negative: a credit balance
}

// Report is the outcome of Check.
type Report struct {
	Journals int64
	Lines    int64
	Trial    []TrialLine
	Problems []string // empty: the books are right
}

// Check proves the books from the rows: every journal balances per asset and has lines, every guarded balance, 0 where
// none is kept, is the sum of its lines and not below 0, what the house owns is what its accounts say, and the trial balance
// of each asset is 0.
func Check(ctx context.Context, tx *db.Tx) (Report, error) {
	var r Report
	problems, err := findProblems(ctx, tx)
	if err != nil {
		return r, err
	}
	r.Problems = problems
	if r.Journals, r.Lines, err = count(ctx, tx); err != nil {
		return r, err
	}
	if r.Trial, err = trial(ctx, tx); err != nil {
		return r, err
	}
	sums, house := map[money.Asset]int64{}, map[money.Asset]int64{}
	for _, l := range r.Trial {
		sums[l.Debit.Asset()] += l.Debit.Units()
		if l.Code.own() {
			house[l.Debit.Asset()] -= l.Debit.Units()
		}
	}
	owned, err := Owned(ctx, tx)
	if err != nil {
		return r, err
	}
	for a := range sums {
		if has, ok := owned[a]; house[a] != 0 && !ok || ok && has.Units() != house[a] {
			r.Problems = append(r.Problems, fmt.Sprintf("the house's %s are %s by its accounts, and counted as %s", a, money.New(a, house[a]), has))
		}
	}
	for a, sum := range sums {
		if sum != 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("the trial balance of %s is off by %s", a, money.New(a, sum)))
		}
	}
	return r, nil
}

// ErrWrong is a Report with problems, as an error.
var ErrWrong = errors.New("the books are not right")

// WalletOf is the account of what the service holds of an asset on a chain, or of a currency in a bank account, with its dimension.
// Bitcoin has its own; what else is on chains is kept apart by chain.
func WalletOf(asset money.Asset, place string) (Code, string) {
	switch {
	case asset == money.BTC:
		return HotWallet, ""
	case asset.IsCrypto():
		return OtherWallets, place
	}
	return Bank, place
}
