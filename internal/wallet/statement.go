package wallet

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

var errPeriod = apierr.New(apierr.Invalid, "invalid_parameter", "The end of the period must be after its start.")

// Statement is the statement of one currency over a period. Closing is Opening plus In minus Out.
type Statement struct {
	CompanyID        string
	Currency         money.Asset
	From, To         time.Time
	Opening, Closing money.Amount
	In, Out          money.Amount
	Lines            []Transaction // one page of the transactions, oldest first
	Total            int64         // number of transactions on all pages
}

// StatementOf returns the statement that a filter selects; the filter's currency is required. A period without a
// start begins with the month of its end. A period without an end ends now.
func StatementOf(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) (Statement, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Statement{}, err
	}
	asset, err := f.asset()
	if err != nil {
		return Statement{}, err
	}
	if f.To.IsZero() {
		f.To = tx.Now()
	}
	if f.From.IsZero() {
		last := f.To.UTC().Add(-time.Microsecond)
		f.From = time.Date(last.Year(), last.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	if !f.From.Before(f.To) {
		return Statement{}, errPeriod.At("query", "to")
	}
	p := f.period(asset)
	p.Oldest = true
	sums, err := ledger.PeriodTotals(ctx, tx, company, f.account(), p)
	if err != nil {
		return Statement{}, err
	}
	s := Statement{
		CompanyID: company, Currency: asset, From: f.From, To: f.To, Opening: sums.Opening, In: sums.In, Out: sums.Out,
		Total: sums.Count,
	}
	if s.Closing, err = sums.Closing(); err != nil {
		return s, err
	}
	entries, _, err := ledger.Statement(ctx, tx, company, f.account(), p)
	s.Lines = transactions(entries)
	return s, err
}

// StatementCurrencies returns the currencies in which the principal's company has a balance now, or in which its
// balance changed in [from, to), sorted.
func StatementCurrencies(ctx context.Context, tx *db.Tx, by identity.Principal, from, to time.Time) ([]money.Asset,
	error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	balances, err := Balances(ctx, tx, by, company)
	if err != nil {
		return nil, err
	}
	all, err := ledger.AssetsBetween(ctx, tx, company, []ledger.Code{ledger.CompanyFunds}, from, to)
	for _, b := range balances {
		all = append(all, b.Currency)
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// MaxStatementLines is the largest number of lines that WholeStatement returns.
const MaxStatementLines = 10_000

// ErrTooLong is returned for a statement with more than MaxStatementLines lines.
var ErrTooLong = apierr.New(apierr.Invalid, "statement_too_long",
	"This period has too many lines for one file. Choose a shorter one.")

// WholeStatement returns the statement that a filter selects with all its lines. It returns ErrTooLong if there are
// more than MaxStatementLines.
func WholeStatement(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) (Statement,
	error) {
	f.Page = db.Page{PerPage: MaxStatementLines}
	s, err := StatementOf(ctx, tx, by, companyID, f)
	if err == nil && s.Total > MaxStatementLines {
		err = ErrTooLong
	}
	return s, err
}

// Month is the available balance at the end of a closed month.
type Month struct {
	Begin, End time.Time
	Closing    money.Amount
}

// maxMonths is the largest number of closed months that Months returns.
const maxMonths = 24

// Months returns the closed months of the available balance in a currency, newest first.
func Months(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, currency money.Asset) ([]Month,
	error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	closed, err := ledger.Closings(ctx, tx, company, ledger.CompanyFunds, currency, maxMonths)
	all := make([]Month, len(closed))
	for i, m := range closed {
		all[i] = Month{m.Begin, m.End, m.Balance}
	}
	return all, err
}
