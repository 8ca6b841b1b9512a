package payee

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/earnings"
	"github.com/stipend/stipend/internal/web/ui"
)

// receiptPDF returns the receipt of a payment.
func receiptPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	m, err := find(ctx, tx, c, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().ReceiptPDF(document.ReceiptOf(m, c.Session.User.Name(), fromOf(c, m)), tx.Now()))
}

// yearCSV returns the payments that arrived in a year, with one row per output.
func yearCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	year := yearOf(c, tx.Now())
	all, err := payments(c).OfYear(ctx, tx, year)
	if err != nil {
		return ui.View{}, err
	}
	if err := earnings.LoadOutputs(ctx, tx, all); err != nil {
		return ui.View{}, err
	}
	return ui.Download(document.EarningsCSV(year, all))
}

// yearPDF returns the summary of the payments that arrived in a year.
func yearPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	year := yearOf(c, tx.Now())
	all, err := payments(c).OfYear(ctx, tx, year)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().EarningsPDF(c.Session.User.ID, c.Session.User.Name(), year, all, tx.Now()))
}
