package payee

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// receiptPDF returns the receipt of a payment.
func receiptPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	m, err := find(ctx, tx, c, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().ReceiptPDF(document.Receipt{ID: m.ID, Owner: c.Session.User.Name(), From: m.from(c),
		Reference: m.Reference, About: m.About, State: m.State, Amount: m.Amount, Fee: m.Fee, At: m.At, Arrived: m.Arrived,
		Outputs: m.Outputs}, tx.Now()))
}

// latestArrival is the time after its creation within which a payment is found for the year of its arrival.
const latestArrival = 92 * 24 * time.Hour

// ofYear returns the payments that arrived in the year that the URL names, oldest first.
func ofYear(ctx context.Context, tx *db.Tx, c *ui.Request) (year string, all []payment, err error) {
	year, from, to := yearOf(c, tx.Now())
	some, err := list(ctx, tx, c, from.Add(-latestArrival), to)
	for i := len(some) - 1; err == nil && i >= 0; i-- {
		if some[i].State != payroll.Fulfilled {
			continue
		}
		var m payment
		if m, err = find(ctx, tx, c, some[i].ID); err == nil && !m.Arrived.Before(from) && m.Arrived.Before(to) {
			all = append(all, m)
		}
	}
	return year, all, err
}

// yearCSV returns the payments that arrived in a year, with one row per output.
func yearCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	year, all, err := ofYear(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	rows := [][]string{{"payment_id", "from", "arrived", "amount", "currency", "fee", "description", "reference",
		"output_amount", "output_currency", "value", "rate", "destination", "transaction"}}
	for _, m := range all {
		for _, o := range m.Outputs {
			rate := ""
			if !o.Rate.IsZero() {
				rate = o.Rate.String()
			}
			rows = append(rows, []string{m.ID, m.From, ui.FormatTimestamp(m.Arrived), m.Amount.String(),
				string(m.Amount.Asset()), m.Fee.String(), m.About, m.Reference, o.Amount.String(), string(o.Amount.Asset()),
				o.Input.String(), rate, document.DestinationHint(o), o.TxID})
		}
	}
	return ui.Download(document.Sheet("payments-"+year+".csv", rows))
}

// yearPDF returns the summary of the payments that arrived in a year.
func yearPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	year, all, err := ofYear(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	sums, err := totals(c, all)
	if err != nil {
		return ui.View{}, err
	}
	facts := [][2]string{{"pay.count", c.FormatCount(int64(len(all)))}}
	for _, sum := range sums {
		facts = append(facts, [2]string{"pay.total", sum})
	}
	doc := c.Documents().New(c.Session.User.Name(), c.Text("pay.year", year), "", c.Session.User.ID, tx.Now(), facts)
	const left, middle, right = 0.25, 0.45, 0.3 // shares of the width
	row := func(style, rule, at, from, amount string) {
		doc.Style(style, 9)
		doc.CellFormat(document.Width*left, document.Line+1, at, rule, 0, "L", false, 0, "")
		doc.CellFormat(document.Width*middle, document.Line+1, doc.Shorten(from, document.Width*middle-2), rule, 0, "L",
			false, 0, "")
		doc.CellFormat(document.Width*right, document.Line+1, amount, rule, 1, "R", false, 0, "")
	}
	row("B", "", c.Text("pay.arrived"), c.Text("pay.from"), c.Text("payment.amount"))
	for _, m := range all {
		row("", "T", c.FormatDate(m.Arrived), m.from(c), c.FormatMoney(m.Amount))
	}
	data, err := doc.Bytes()
	return ui.Download(document.File{Name: "payments-" + year + ".pdf", ContentType: document.TypePDF, Data: data}, err)
}
