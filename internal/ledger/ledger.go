// Package ledger stores accounts and balanced, append-only journals, and prevents overdrafts. The packages that post
// know the business rules; docs/ledger.md lists every account and every posting.
//
// A journal is one business fact, unique by company, source and purpose. A journal is posted only if its lines
// balance per asset. Lines never change; a mistake is corrected by a reversing journal. Each account that must not be
// overdrawn (see [Code.Guarded]) has a balance row, which the posting updates in the same transaction. The operator's
// own accounts have only lines, so that concurrent payrolls do not wait for one row. The operator's balance of an
// asset is summed on demand (see [OperatorBalances]).
package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Code is an account of the chart of accounts.
type Code string

// The chart of accounts.
const (
	HotWallet        Code = "1000" // asset: bitcoin in the hot wallet
	ChannelBalance   Code = "1001" // asset: bitcoin in the channels of the Lightning node
	ColdWallet       Code = "1005" // asset: coins in cold storage
	OtherWallets     Code = "1006" // asset: coins on EVM networks; dim: network
	Bank             Code = "1020" // asset: money at banks; dim: bank account
	Exchange         Code = "1040" // asset: the operator's money at exchanges; dim: exchange
	ClearingDeposits Code = "1050" // asset: deposits that wait for confirmations; dim: deposit
	ContraDeposits   Code = "1055" // liability: contra account of 1050
	DueFromCustomer  Code = "1300" // asset: owed by companies because received money was reversed; dim: deposit
	CompanyFunds     Code = "2000" // liability: a company's available balance
	HeldFunds        Code = "2005" // liability: collected by direct debit and on hold; dim: debit
	Escrow           Code = "2010" // liability: funding that is reserved for a payroll; dim: payroll
	PayeePayable     Code = "2100" // liability: owed to payees in the payroll's currency; dim: payment
	OutputPayable    Code = "2110" // liability: owed to payees in the payout asset; dim: output
	MerchantPayable  Code = "2200" // liability: received for a merchant's claims, before settlement
	PlatformFees     Code = "2250" // liability: fees that platforms earned, until they are credited; dim: other company
	InTransit        Code = "2300" // liability: payouts that were sent and are not final; dim: batch or bank file
	RefundPayable    Code = "2400" // liability: owed to payers of claims; dim: claim
	SuspenseUnknown  Code = "2500" // liability: receipts that match nothing; dim: deposit or transfer
	SuspenseLate     Code = "2600" // liability: receipts that are too late or too small; dim: payroll or claim
	FXPosition       Code = "3000" // equity: the operator's position in each asset
	FeeRevenue       Code = "4000" // revenue
	FXRevenue        Code = "4010" // revenue
	Rounding         Code = "4020" // revenue
	InterestIncome   Code = "4030" // revenue: interest that banks pay; dim: bank account
	NetworkFee       Code = "5000" // expense
	BankFee          Code = "5010" // expense
	InterestExpense  Code = "5020" // expense: interest that banks charge; dim: bank account
	Shortfall        Code = "5030" // expense: shortfalls that the operator absorbs
	ReorgLoss        Code = "5040" // expense: losses by reorganizations, and debts written off
)

var names = map[Code]string{
	HotWallet: "Hot wallet", ChannelBalance: "Lightning channel balance", ColdWallet: "Cold wallet",
	OtherWallets: "Other wallets", Bank: "Bank", Exchange: "Exchange", ClearingDeposits: "Deposits in clearing",
	ContraDeposits: "Contra: unconfirmed deposits", DueFromCustomer: "Due from customer",
	CompanyFunds: "Company funds", HeldFunds: "Held funds", Escrow: "Payroll escrow", PayeePayable: "Payee payable",
	OutputPayable: "Payout payable", MerchantPayable: "Merchant payable", InTransit: "Payouts in transit",
	PlatformFees:  "Platform fees",
	RefundPayable: "Refunds payable", SuspenseUnknown: "Suspense: unidentified", SuspenseLate: "Suspense: late",
	FXPosition: "FX position", FeeRevenue: "Fee revenue", FXRevenue: "FX revenue", Rounding: "Rounding",
	InterestIncome: "Interest income", InterestExpense: "Interest expense",
	NetworkFee: "Network fees", BankFee: "Bank fees", Shortfall: "Shortfall absorbed", ReorgLoss: "Reorg loss",
}

// Codes returns all accounts, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(names)) }

// Name returns the account's name.
func (c Code) Name() string { return names[c] }

// Guarded reports whether the account must never be overdrawn. Guarded accounts are liabilities and have balance
// rows.
func (c Code) Guarded() bool {
	switch c {
	case CompanyFunds, HeldFunds, Escrow, OutputPayable, MerchantPayable, RefundPayable:
		return true
	default:
		return false
	}
}

// creditNormal reports whether credits increase the account: liabilities, equity, revenue.
func (c Code) creditNormal() bool { return c == ContraDeposits || c >= "2000" && c < "5000" }

// operatorOwned reports whether the account counts towards the operator's available balance: equity, revenue and
// expenses, minus the operator's money at exchanges.
func (c Code) operatorOwned() bool { return c >= FXPosition || c == Exchange }

// Operator is the company ID of journals that concern only the operator.
const Operator = "operator"

// ErrDiffers is returned for a posting to an account whose balance is not the sum of its lines. Because the
// transaction is rolled back, it cannot freeze the account itself; the notice [NoticeDiffers] makes the service call
// [FindDifferences].
var ErrDiffers = db.WithNotice(apierr.New(apierr.Unavailable, "retry_later",
	"This account is being checked. Try again later, or contact support."), NoticeDiffers)

// NoticeDiffers is the in-process topic to which ErrDiffers is reported.
const NoticeDiffers = "ledger.differs"

// ErrInsufficient is returned for a transaction that would overdraw a guarded account.
var ErrInsufficient = apierr.New(apierr.Conflict, "insufficient_balance", "The balance does not cover this.")

// Line is one side of a posting.
type Line struct {
	Code   Code
	Dim    string // the dimension: the payroll, output or deposit that the amount concerns; "" for none
	Amount money.Amount
	debit  bool
}

// Debit returns a line that debits an account.
func Debit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, true} }

// Credit returns a line that credits an account.
func Credit(c Code, dim string, a money.Amount) Line { return Line{c, dim, a, false} }

// Journal is a set of balanced lines for one business fact.
type Journal struct {
	CompanyID  string
	SourceType string // kind of the object, such as "payroll", "deposit" or "output"
	SourceID   string
	Purpose    string // reason of the posting, such as "fund", "release" or "settle"; unique per source
	Lines      []Line
}

// Post adds a journal to the transaction. It drops lines of zero, and drops the journal if no line remains. It
// returns an error for an unbalanced journal or a negative line, which are bugs in the caller. The transaction fails
// with ErrInsufficient if the journal overdraws a guarded account.
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
			return fmt.Errorf("ledger: %s of %s does not balance: debits exceed credits by %s %s", j.Purpose, j.SourceID, sum, a)
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
	return cmp.Or(cmp.Compare(k.company, o.company), cmp.Compare(k.code, o.code), cmp.Compare(k.dim, o.dim),
		cmp.Compare(k.asset, o.asset))
}

// postings are also written before a statement on operator_balances, because every transaction must lock balances
// first and the operator_balances rows second.
var postings = db.NewGroup(flush, "ledger_journals", "ledger_lines", "ledger_balances",
	"operator_movements", "operator_balances")

// change is the change that the journals of a transaction make to a guarded account.
type change struct {
	delta money.Amount
	lines int64 // number of lines
}

// flush writes all journals of a transaction with a fixed number of statements.
func flush(ctx context.Context, tx *db.Tx, items []*posting) error {
	journals := make([][]any, 0, len(items))
	var movements [][]any
	changes := map[balanceKey]change{}
	for _, p := range items {
		j := p.j
		owned, err := j.operatorChanges()
		if err != nil {
			return err
		}
		for _, x := range owned {
			movements = append(movements, []any{j.CompanyID, p.id, string(x.Asset()), x.Units()})
		}
		journals = append(journals, []any{j.CompanyID, p.id, j.SourceType, j.SourceID, j.Purpose, db.Micros(tx.Now())})
		for _, l := range j.Lines {
			if !l.Code.Guarded() {
				continue
			}
			k := j.balanceKey(l)
			c, ok := changes[k]
			if !ok {
				c.delta = money.Zero(k.asset)
			}
			if c.delta, err = c.delta.Sub(l.signed()); err != nil { // guarded accounts are liabilities, so a credit adds
				return err
			}
			c.lines++
			changes[k] = c
		}
	}
	if err := insertJournals(ctx, tx, journals, movements); err != nil {
		return err
	}
	// Every transaction locks the rows in the same order. The first statement locks all rows and increases the balances
	// that rise, so the second statement already holds the locks of the balances that it decreases. Otherwise two
	// transfers in opposite directions between the same accounts could deadlock.
	keys := slices.SortedFunc(maps.Keys(changes), balanceKey.compare)
	last, err := raiseBalances(ctx, tx, keys, changes)
	if err != nil {
		return err
	}
	lowered := slices.DeleteFunc(keys, func(k balanceKey) bool { return changes[k].delta.Sign() >= 0 })
	if err := lowerBalances(ctx, tx, lowered, changes); err != nil {
		return err
	}
	return insertLines(ctx, tx, items, last)
}

func (j Journal) balanceKey(l Line) balanceKey {
	return balanceKey{j.CompanyID, l.Code, l.Dim, l.Amount.Asset()}
}

// entry is the number of a line within a guarded account, and the balance of the account after the line.
type entry struct{ number, balance int64 }

// insertLines inserts the lines of journals. last has the previous entry of each guarded account.
func insertLines(ctx context.Context, tx *db.Tx, items []*posting, last map[balanceKey]entry) error {
	var lines [][]any
	for _, p := range items {
		for i, l := range p.j.Lines {
			var e entry
			if l.Code.Guarded() {
				k := p.j.balanceKey(l)
				e = entry{last[k].number + 1, last[k].balance - l.signed().Units()}
				last[k] = e
			}
			lines = append(lines, []any{p.j.CompanyID, p.id, int64(i), string(l.Code), l.Dim, string(l.Amount.Asset()),
				l.signed().Units(), e.number, e.balance})
		}
	}
	return tx.Insert(ctx, "ledger_lines",
		[]string{"company_id", "journal_id", "line", "code", "dim", "asset", "amount", "entry", "balance"}, lines)
}

// operatorChanges returns the amounts that a journal adds to the operator's balances.
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

// DebitOperator returns the operator's balances of assets, including the postings of the transaction, to a caller
// that is about to pay from them. Other callers for one of these assets wait until the transaction ends.
func DebitOperator(ctx context.Context, tx *db.Tx, assets ...money.Asset) (map[money.Asset]money.Amount, error) {
	assets = slices.Clone(assets)
	slices.Sort(assets) // every transaction locks the rows in the same order
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

// RollUp adds the operator's movements to its balances, so that [DebitOperator] has few left to add. It must be
// called periodically.
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

// Balance returns the balance of one dimension of an account on its normal side: credits minus debits for
// liabilities, equity and revenue, debits minus credits for assets and expenses. It includes the transaction's own
// postings.
func Balance(ctx context.Context, tx *db.Tx, companyID string, c Code, dim string, a money.Asset) (_ money.Amount,
	err error,
) {
	var units int64
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

// Total returns the balance of an account that is not guarded, over all its dimensions.
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
	Debit money.Amount // debits minus credits; negative for a credit balance
}

// Report is the result of [Check].
type Report struct {
	Journals int64
	Lines    int64
	Trial    []TrialLine
	Problems []string // descriptions of contradictions; empty if the ledger is consistent
	// Differences has the accounts whose balance is not the sum of their lines. Problems also describes them.
	Differences []Difference
}

// Check verifies the ledger from its rows: every journal has lines and balances per asset, every guarded balance is
// the sum of its lines and not negative, the operator's balances are the sums of its accounts, and the trial balance
// of each asset is 0.
func Check(ctx context.Context, tx *db.Tx) (Report, error) {
	var r Report
	problems, err := findProblems(ctx, tx)
	if err != nil {
		return r, err
	}
	r.Problems = problems
	if r.Differences, err = compareBalances(ctx, tx); err != nil {
		return r, err
	}
	for _, x := range r.Differences {
		r.Problems = append(r.Problems, x.String())
	}
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
			r.Problems = append(r.Problems, fmt.Sprintf("the operator's balance of %s is %s by its accounts, and stored as %s",
				a, money.New(a, operator[a]), has))
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

// WalletOf returns the account and dimension for an asset at a place: a chain, "lightning", or a bank account.
// Bitcoin has accounts of its own; all other coins share one account with a dimension per chain.
func WalletOf(asset money.Asset, place string) (Code, string) {
	switch {
	case asset == money.BTC && place == "lightning":
		return ChannelBalance, ""
	case asset == money.BTC:
		return HotWallet, ""
	case asset.IsCrypto():
		return OtherWallets, place
	}
	return Bank, place
}
