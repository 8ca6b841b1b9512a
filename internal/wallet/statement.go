package wallet

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

var errPeriod = apierr.New(apierr.Invalid, "invalid_parameter", "A period ends after it begins.")

// Statement is what a period did to the available balance in one currency. Opening, plus what came in, less what went out, is
// Closing; and so is the balance of the last line.
type Statement struct {
	CompanyID        string
	Currency         money.Asset
	From, To         time.Time
	Opening, Closing money.Amount
	In, Out          money.Amount
	Lines            []Transaction // those of the page, the oldest first
	Total            int64         // lines on all pages
}

// StatementOf reads a statement. A period without a beginning begins with the month of its end, one without an end ends now. The
// filter's Currency is needed.
func StatementOf(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) (Statement, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Statement{}, err
	}
	asset, known := money.Lookup(f.Currency)
	if !known {
		return Statement{}, errCurrency.At("query", "currency")
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
	account := ledger.CompanyFunds
	if f.Claims {
		account = ledger.MerchantPayable
	}
	p := ledger.Period{Asset: asset, From: f.From, To: f.To, Oldest: true, Limit: f.PerPage, Offset: int64(max(f.Page, 1)-1) * int64(f.PerPage)}
	sums, err := ledger.PeriodTotals(ctx, tx, company, account, p)
	if err != nil {
		return Statement{}, err
	}
	s := Statement{CompanyID: company, Currency: asset, From: f.From, To: f.To, Opening: sums.Opening, In: sums.In, Out: sums.Out, Total: sums.Count}
	if s.Closing, err = sums.Closing(); err != nil {
		return s, err
	}
	entries, _, err := ledger.Statement(ctx, tx, company, account, p)
	if err != nil {
		return s, err
	}
	s.Lines = make([]Transaction, len(entries))
	for i, e := range entries {
		s.Lines[i] = explain(e)
	}
	return s, nil
}

// Month is what the available balance was when a month was over. Nothing changes it any more.
type Month struct {
	Begin, End time.Time
	Closing    money.Amount
}

// Months are the closed months of the available balance in a currency, the last first: two years of them at most.
func Months(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, currency money.Asset) ([]Month, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	closed, err := ledger.Closings(ctx, tx, company, ledger.CompanyFunds, currency, 24)
	all := make([]Month, len(closed))
	for i, m := range closed {
		all[i] = Month{m.Begin, m.End, m.Balance}
	}
	return all, err
}
