// Package ledger stores accounts and balanced, append-only journals, and guards balances. It knows no business rules: docs/ledger.md
// lists every account and every posting.
//
// A journal is one business fact, unique by company, source and purpose. Its lines balance per asset, or it is not posted. Lines
// never change; a mistake is corrected by a reversing journal. Accounts that must not be overdrawn (see [Code.Guarded]) have a balance
// row that the posting updates in the same transaction. The operator's own accounts have lines only, so that concurrent payrolls do
// not wait for one row; the operator's balance of an asset is summed on demand (see [OperatorBalances]).
package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Code is an account of the chart of accounts.
type Code string

// The chart of accounts.
const (
	HotWallet         Code = "1000" // asset: coins in the hot wallet
	ChannelBalance    Code = "1001" // asset: coins in the channels of the Lightning node
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
	SuspenseUnknown   Code = "2500" // liability: receipts that match nothing; dim: deposit
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

// Codes returns all accounts, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(names)) }

// Name returns the account's name.
func (c Code) Name() string { return names[c] }

// Guarded reports whether the account must not be overdrawn: its balance is never below 0.
func (c Code) Guarded() bool {
	switch c {
	case CompanyFunds, Escrow, OutputPayable, MerchantPayable, RefundPayable:
		return true
	default:
		return false
	}
}

// creditNormal reports whether credits increase the account: liabilities, equity, revenue.
func (c Code) creditNormal() bool { return c == ContraDeposits || c >= "2000" && c < "5000" }

// operatorOwned reports whether the account counts for what the operator owns and has available: its equity, revenue and expenses, less
// what is at exchanges.
func (c Code) operatorOwned() bool { return c >= FXPosition || c == Exchange }

// Operator is the company of journals that concern the operator alone. Its stored value is part of the data.
const Operator = "house"

// ErrInsufficient refuses an overdraft.
var ErrInsufficient = apierr.New(apierr.Conflict, "insufficient_balance", "The balance does not cover this.")

// Line is one side of a posting.
type Line struct {
	Code   Code
	Dim    string // the dimension that the account is subdivided by: a payroll, output or deposit; "" for none
	Amount money.Amount
	debit  bool
}

// Debit returns a line that debits an account.
func Debit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, true} }

// Credit returns a line that credits an account.
func Credit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, false} }

// Journal is one business fact.
type Journal struct {
	CompanyID  string
	SourceType string // "payroll", "deposit", "output"
	SourceID   string
	Purpose    string // "fund", "release", "settle": once per source
	Lines      []Line
}

// Post writes a journal with the transaction. Lines of zero are dropped, and a journal without lines is not written. An unbalanced
// journal or a negative line is a bug of the caller and an error; an overdraft fails the transaction with ErrInsufficient.
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
	postings.Add(tx, &posting{tx.NewID("jrn"), j})
	return nil
}

// signed returns the amount as it is stored: debits are positive.
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

// postings are also written before a statement on operator_balances: every transaction locks balances first, then that row.
var postings = db.NewGroup(flush, "ledger_journals", "ledger_lines", "ledger_balances",
	"operator_movements", "operator_balances")

// flush writes all journals of a commit with a few statements, whatever their number.
func flush(ctx context.Context, tx *db.Tx, items []*posting) error {
	journals := make([][]any, 0, len(items))
	var lines [][]any
	deltas := map[balanceKey]money.Amount{}
	var moves [][]any
	for _, p := range items {
		j := p.j
		owned, err := j.operatorChanges()
		if err != nil {
			return err
		}
		for _, x := range owned {
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

// operatorChanges returns what a journal adds to the operator's balances.
func (j Journal) operatorChanges() ([]money.Amount, error) {
	var sums []money.Amount
	for _, l := range j.Lines {
		if !l.Code.operatorOwned() {
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

// DebitOperator returns the operator's balances for a transaction that is going to pay out of them: until it ends, other callers for one
// of these assets wait. It counts what the transaction itself has posted.
func DebitOperator(ctx context.Context, tx *db.Tx, assets ...money.Asset) (map[money.Asset]money.Amount, error) {
	assets = slices.Clone(assets)
	slices.Sort(assets) // every transaction takes the rows in one order
	assets = slices.Compact(assets)
	for _, a := range assets {
		for n := rollUpBatch; n == rollUpBatch; {
			var err error
			if n, err = rollUp(ctx, tx, a, rollUpBatch); err != nil {
				return nil, err
			}
		}
	}
	return OperatorBalances(ctx, tx, assets...)
}

// RollUp adds the operator's movements to its balances, so that [DebitOperator] finds few to add. Run it periodically.
func RollUp(ctx context.Context, d *db.DB) error {
	var assets []money.Asset
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		assets, err = unsummed(ctx, tx)
		return err
	}); err != nil {
		return err
	}
	for _, a := range assets {
		for n := rollUpBatch; n == rollUpBatch; {
			if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				n, err = rollUp(ctx, tx, a, rollUpBatch)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Balance returns an account's balance on its normal side: a liability's credits less its debits, an asset's or expense's debits less
// its credits. It counts the journals of the same transaction.
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

// Total returns the balance of an account that is not guarded over all its dimensions.
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
	Problems []string // empty: the ledger is consistent
}

// Check verifies the ledger from its rows: every journal balances per asset and has lines, every guarded balance is the sum of its lines
// and not below 0, the operator's balances are those of its accounts, and the trial balance of each asset is 0.
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
	sums, operator := map[money.Asset]int64{}, map[money.Asset]int64{}
	for _, l := range r.Trial {
		sums[l.Debit.Asset()] += l.Debit.Units()
		if l.Code.operatorOwned() {
			operator[l.Debit.Asset()] -= l.Debit.Units()
		}
	}
	owned, err := OperatorBalances(ctx, tx)
	if err != nil {
		return r, err
	}
	for a := range sums {
		if has, ok := owned[a]; operator[a] != 0 && !ok || ok && has.Units() != operator[a] {
			r.Problems = append(r.Problems, fmt.Sprintf("the operator's balance of %s is %s by its accounts, and stored as %s", a, money.New(a, operator[a]), has))
		}
	}
	for a, sum := range sums {
		if sum != 0 {
			r.Problems = append(r.Problems, fmt.Sprintf("the trial balance of %s is off by %s", a, money.New(a, sum)))
		}
	}
	return r, nil
}

// ErrWrong reports that [Check] found problems.
var ErrWrong = errors.New("the ledger is inconsistent")

// WalletOf returns the account and dimension that hold an asset on a chain, or a currency at a bank. Bitcoin has an account of its own;
// the accounts of other coins are subdivided by chain.
func WalletOf(asset money.Asset, place string) (Code, string) {
	switch {
	case asset == money.BTC:
		return HotWallet, ""
	case asset.IsCrypto():
		return OtherWallets, place
	}
	return Bank, place
}
