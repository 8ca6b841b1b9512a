package accounting

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
)

// Account is an account of a company's journal, with its code and name in the company's own chart of accounts.
type Account struct {
	Key  string // one of the keys below
	Code string
	Name string
}

// The keys of accounts, which have default codes and names until a company sets its own. The first four accounts and
// Debt are the company's money in Stipend. The others are the accounts from which that money comes or to which it
// goes.
const (
	Balance   = "balance"   // available balance
	Held      = "held"      // money from direct debits that the bank can still take back
	Payrolls  = "payrolls"  // funding of payrolls that are not released
	Claims    = "claims"    // proceeds of claims before their settlement
	Debt      = "debt"      // owed to the operator
	Transfers = "transfers" // to and from the company's own bank accounts and wallets
	Pay       = "pay"       // expense: payments to payees
	Fees      = "fees"      // expense: the operator's fees
	Sales     = "sales"     // income: paid claims
	Refunds   = "refunds"   // refunds of claims
	Exchange  = "exchange"  // exchange differences, rounding, and shortfalls that the operator absorbs

	TaxRate = "tax_rate" // not an account: its name is the name of the tax rate without any tax in Xero
)

// Defaults are all accounts with the codes and names that apply until the company sets its own.
var Defaults = []Account{
	{Balance, "1100", "Stipend balance"}, {Held, "1110", "Stipend direct debits on hold"},
	{Payrolls, "1120", "Stipend payrolls in progress"}, {Claims, "1130", "Stipend claims to be settled"},
	{Debt, "2100", "Owed to Stipend"}, {Transfers, "1190", "Stipend transfers"}, {Sales, "4000", "Sales"},
	{Refunds, "4010", "Sales refunds"}, {Pay, "6000", "Payroll and contractors"}, {Fees, "6100", "Payment fees"},
	{Exchange, "7000", "Exchange gain or loss"}, {TaxRate, "", "Tax Exempt (0%)"},
}

// owned maps the ledger accounts that hold the company's money to the accounts of the company's journal.
var owned = map[ledger.Code]string{
	ledger.CompanyFunds: Balance, ledger.HeldFunds: Held, ledger.Escrow: Payrolls, ledger.SuspenseLate: Payrolls,
	ledger.MerchantPayable: Claims, ledger.DueFromCustomer: Debt,
}

// Journal has the changes of a company's money in Stipend in a month (UTC).
type Journal struct {
	Month    time.Time
	Currency money.Asset // currency of all values: USD or EUR
	Entries  []Entry     // in the order in which they were posted

	taxRate string
}

// Entry is one journal entry. Its values sum to zero. The amounts of its lines without a value also sum to zero in
// each currency, so that the entry stays balanced when these lines get values.
type Entry struct {
	ID, Text string
	At       time.Time
	Lines    []Line
}

// Line is one side of an entry.
type Line struct {
	Account  Account
	Value    money.Amount // value at the time of the entry, in the journal's currency; a debit is positive
	Amount   money.Amount // amount in its own currency
	Unvalued bool         // no price of the amount's currency is known: Value is zero, and is written as an empty field
}

var (
	errMonth = apierr.New(apierr.Invalid, "invalid_parameter", "month is a month such as 2026-01.").At("query", "month")
	errValue = apierr.New(apierr.Invalid, "invalid_parameter", "A journal is in USD or EUR.").At("query", "currency")
)

// JournalOf returns the journal of a month, such as 2026-01, of the principal's company. Each line has its value at
// the time of the entry. The funding of a payroll is valued at the rate at which it paid the payroll, both when it is
// received and when it is released, so that no difference remains. Lines in a currency without any known price are
// Unvalued.
func JournalOf(ctx context.Context, tx *db.Tx, by identity.Principal, month string, in money.Asset) (Journal, error) {
	company, err := by.Company("")
	if err != nil {
		return Journal{}, err
	}
	from, err := time.Parse("2006-01", month)
	if err != nil || from.After(tx.Now()) || from.Year() < 2000 {
		return Journal{}, errMonth
	}
	if in != money.USD && in != money.EUR {
		return Journal{}, errValue
	}
	posted, err := ledger.JournalsBetween(ctx, tx, company, from, from.AddDate(0, 1, 0))
	if err != nil {
		return Journal{}, err
	}
	accounts, err := AccountsOf(ctx, tx, by)
	if err != nil {
		return Journal{}, err
	}
	b := builder{in: in, prices: valuer{}, accounts: map[string]Account{}}
	for _, a := range accounts {
		b.accounts[a.Key] = a
	}
	var payrolls []string
	for _, p := range posted {
		if p.SourceType == "payroll" {
			payrolls = append(payrolls, p.SourceID)
		}
	}
	if b.fixed, err = payroll.FixedRates(ctx, tx, company, payrolls); err != nil {
		return Journal{}, err
	}
	j := Journal{Month: from, Currency: in, taxRate: b.accounts[TaxRate].Name}
	for _, p := range posted {
		e, err := b.entry(ctx, tx, p)
		if err != nil {
			return j, err
		}
		if len(e.Lines) > 0 {
			j.Entries = append(j.Entries, e)
		}
	}
	return j, nil
}

// builder creates the entries of a journal.
type builder struct {
	in       money.Asset
	prices   valuer
	accounts map[string]Account
	fixed    map[string]payroll.FixedRate
}

// entry returns the company's side of a posting of the ledger, or an entry without lines if the posting does not
// concern the company's money. The remainder of the lines is posted to the account that belongs to the posting's
// source.
func (b *builder) entry(ctx context.Context, tx *db.Tx, p ledger.Posted) (Entry, error) {
	e := Entry{ID: p.JournalID, Text: text(p), At: p.BookedAt}
	rest := money.Zero(b.in)
	var unvalued []money.Amount                     // remainders of the lines without a value, one for each currency
	add := func(key string, x money.Amount) error { // x is the increase of the company's money, or a payment
		value, known, err := b.value(ctx, tx, p, x)
		if err != nil {
			return err
		}
		if known {
			e.Lines = append(e.Lines, Line{Account: b.accounts[key], Value: value, Amount: x})
			rest, err = rest.Sub(value)
			return err
		}
		e.Lines = append(e.Lines, Line{Account: b.accounts[key], Value: money.Zero(b.in), Amount: x, Unvalued: true})
		i := slices.IndexFunc(unvalued, func(a money.Amount) bool { return a.Asset() == x.Asset() })
		if i < 0 {
			i, unvalued = len(unvalued), append(unvalued, money.Zero(x.Asset()))
		}
		unvalued[i], err = unvalued[i].Sub(x)
		return err
	}
	var fees []money.Amount
	for _, l := range p.Lines {
		switch key, is := owned[l.Code]; {
		case l.Code == ledger.SuspenseLate && p.SourceType == "claim": // not the merchant's money yet
		case is: // a claim on or a debt to the operator: a credit in the ledger is a debit here
			if err := add(key, l.Amount.Neg()); err != nil {
				return e, err
			}
		case l.Code == ledger.FeeRevenue:
			fees = append(fees, l.Amount.Neg())
		}
	}
	if len(e.Lines) == 0 {
		return e, nil
	}
	for _, x := range fees {
		if err := add(Fees, x); err != nil {
			return e, err
		}
	}
	other := b.accounts[counter(p)]
	if !rest.IsZero() {
		e.Lines = append(e.Lines, Line{Account: other, Value: rest, Amount: rest})
	}
	for _, x := range unvalued {
		if !x.IsZero() {
			e.Lines = append(e.Lines, Line{Account: other, Value: money.Zero(b.in), Amount: x, Unvalued: true})
		}
	}
	return e, nil
}

// counter returns the account from which the money of an entry came or to which it went.
func counter(p ledger.Posted) string {
	purpose, _, _ := strings.Cut(p.Purpose, ":")
	switch p.SourceType {
	case "payroll":
		switch purpose {
		case "release":
			return Pay
		case "book", "reverse":
			return Transfers
		}
		return Exchange
	case "claim":
		return Sales
	case "refund":
		return Refunds
	case "settlement", "debt":
		return Exchange
	}
	return Transfers
}

// value returns the value of an amount of a posting at the time of the posting, or false if no price is known.
func (b *builder) value(ctx context.Context, tx *db.Tx, p ledger.Posted, x money.Amount) (money.Amount, bool, error) {
	at := p.BookedAt
	if f, is := b.fixed[p.SourceID]; is && p.SourceType == "payroll" {
		at = f.At
		if f.Rate.Base() == x.Asset() && !f.Rate.IsZero() {
			var err error
			if x, err = f.Rate.Convert(x, money.HalfEven); err != nil {
				return x, false, err
			}
		}
	}
	return b.prices.value(ctx, tx, x, b.in, at)
}

// Unpriced returns the currencies without any known price in which a company's money changed in a month (UTC). Lines
// of the month's journal in these currencies have no value.
func Unpriced(ctx context.Context, tx *db.Tx, by identity.Principal, month time.Time, in money.Asset) ([]money.Asset,
	error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	used, err := ledger.AssetsBetween(ctx, tx, company, slices.Sorted(maps.Keys(owned)), month, month.AddDate(0, 1, 0))
	if err != nil {
		return nil, err
	}
	var unpriced []money.Asset
	for _, asset := range used {
		if _, known, err := (valuer{}).value(ctx, tx, money.Zero(asset), in, month); err != nil {
			return nil, err
		} else if !known {
			unpriced = append(unpriced, asset)
		}
	}
	return unpriced, nil
}

// text returns a description of a posting, such as "Payroll prl_… release".
func text(p ledger.Posted) string {
	purpose, _, _ := strings.Cut(p.Purpose, ":")
	name := strings.ReplaceAll(p.SourceType, "_", " ")
	name = strings.ToUpper(name[:1]) + name[1:]
	return name + " " + p.SourceID + " " + strings.ReplaceAll(purpose, "_", " ")
}

// The formats of a journal.
const (
	FormatCSV        = "csv"        // all columns
	FormatQuickBooks = "quickbooks" // QuickBooks Online, "Import journal entries"
	FormatXero       = "xero"       // Xero, "Import manual journals"
)

// Formats are all formats of a journal.
var Formats = []string{FormatCSV, FormatQuickBooks, FormatXero}

// maxLines is the largest number of lines in a file that the accounting program of a format imports. Other formats
// have no limit.
var maxLines = map[string]int{FormatQuickBooks: 1000, FormatXero: 300}

// Parts divides the journal into parts whose files are small enough for the accounting program of a format. It does
// not divide entries.
func (j *Journal) Parts(format string) []Journal {
	all, limit, lines := []Journal{*j}, maxLines[format], 0
	if limit == 0 {
		return all
	}
	all[0].Entries = nil
	for _, e := range j.Entries {
		if lines > 0 && lines+len(e.Lines) > limit {
			all, lines = append(all, *j), 0
			all[len(all)-1].Entries = nil
		}
		part := &all[len(all)-1]
		part.Entries = append(part.Entries, e)
		lines += len(e.Lines)
	}
	return all
}

// Write writes the journal in one of Formats.
func (j *Journal) Write(to io.Writer, format string) error {
	w := csv.NewWriter(to)
	heads := map[string][]string{
		FormatCSV: {"journal_id", "booked_at", "account_code", "account_name", "debit", "credit", "currency", "amount",
			"asset", "description"},
		FormatQuickBooks: {"JournalNo", "JournalDate", "AccountName", "Debits", "Credits", "Description", "Name",
			"Currency"},
		FormatXero: {"*Narration", "*Date", "Description", "*AccountCode", "*TaxRate", "*Amount", "TrackingName1",
			"TrackingOption1", "TrackingName2", "TrackingOption2"},
	}
	if heads[format] == nil {
		return fmt.Errorf("accounting: no format %q", format)
	}
	_ = w.Write(heads[format]) // Error returns it
	for _, e := range j.Entries {
		for _, l := range e.Lines {
			value, debit, credit := l.Value.String(), l.Value.String(), ""
			if l.Value.Sign() < 0 {
				debit, credit = "", l.Value.Neg().String()
			}
			text, about := e.Text, e.Text
			if l.Amount.Asset() != j.Currency {
				about = fmt.Sprintf("%s (%s %s)", e.Text, l.Amount, l.Amount.Asset())
			}
			if l.Unvalued { // accounting programs refuse the file until a value is entered
				value, debit, credit = "", "", ""
				mark := fmt.Sprintf(": no %s price of %s; enter the value", j.Currency, l.Amount.Asset())
				text, about = text+mark, about+mark
			}
			code, name := payee.SafeCell(l.Account.Code), payee.SafeCell(l.Account.Name)
			switch format {
			case FormatCSV:
				_ = w.Write([]string{e.ID, e.At.UTC().Format(time.RFC3339), code, name, debit, credit, string(j.Currency),
					l.Amount.String(), string(l.Amount.Asset()), text})
			case FormatQuickBooks:
				_ = w.Write([]string{e.number(), e.At.UTC().Format("01/02/2006"), name, debit, credit, about, "",
					string(j.Currency)})
			case FormatXero:
				_ = w.Write([]string{e.Text + " " + e.ID, e.At.UTC().Format("02/01/2006"), about, code,
					payee.SafeCell(j.taxRate), value, "", "", "", ""})
			}
		}
	}
	w.Flush()
	return w.Error()
}

// maxNumber is the largest length of a journal number in QuickBooks Online.
const maxNumber = 21

// number returns the entry's number in QuickBooks Online: the last characters of the entry's ID, which are random.
func (e *Entry) number() string { return e.ID[max(0, len(e.ID)-maxNumber):] }

// AccountsOf returns the accounts of the journal of the principal's company, in the order of Defaults.
func AccountsOf(ctx context.Context, tx *db.Tx, by identity.Principal) ([]Account, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	set, err := selectAccounts(ctx, tx, company)
	all := slices.Clone(Defaults)
	for i := range all {
		if own, is := set[all[i].Key]; is {
			all[i] = own
		}
	}
	return all, err
}

// SetAccounts stores codes and names of accounts; an empty code or name restores the default. Accounts that are not
// listed stay unchanged. Its error lists all problems.
func SetAccounts(ctx context.Context, tx *db.Tx, by identity.Principal, changed []Account) error {
	company, err := by.Company("")
	if err != nil {
		return err
	}
	var list apierr.List
	for i := range changed {
		a := &changed[i]
		a.Code, a.Name = strings.TrimSpace(a.Code), strings.TrimSpace(a.Name)
		at := slices.IndexFunc(Defaults, func(d Account) bool { return d.Key == a.Key })
		if at < 0 {
			list.Add("invalid_parameter", fmt.Sprintf("/accounts/%d/account", i), "There is no such account.")
			continue
		}
		a.Code, a.Name = cmp.Or(a.Code, Defaults[at].Code), cmp.Or(a.Name, Defaults[at].Name)
		if len(a.Code) > 40 || strings.ContainsFunc(a.Code, control) {
			list.Add("invalid_parameter", fmt.Sprintf("/accounts/%d/code", i), "A code has at most 40 characters.")
		}
		if len(a.Name) > 100 || strings.ContainsFunc(a.Name, control) {
			list.Add("invalid_parameter", fmt.Sprintf("/accounts/%d/name", i), "A name has at most 100 characters.")
		}
	}
	if err := list.Err(); err != nil {
		return err
	}
	return upsertAccounts(ctx, tx, company, changed)
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
