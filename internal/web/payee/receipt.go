package payee

import (
	"bytes"
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

// errNoReceipt is returned for a payment that was not sent.
var errNoReceipt = apierr.New(apierr.Conflict, "invalid_state",
	"There is no receipt yet, because this payment was not sent.")

// receiptPDF returns the receipt of a payment.
func receiptPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	m, err := find(ctx, tx, c, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	if m.State != payroll.Fulfilled && m.State != payroll.Released {
		return ui.View{}, errNoReceipt
	}
	facts := [][2]string{{"pay.from", m.from(c)}}
	if !m.Fee.IsZero() {
		facts = append(facts, [2]string{"pay.fee", c.FormatMoney(m.Fee)})
	}
	facts = append(facts, [][2]string{{"payroll.status", m.state(c).Text}, {"pay.about", m.About},
		{"pay.reference", m.Reference}, {"pay.date", c.FormatTime(m.At)}, {"pay.arrived", c.TimeCell(m.Arrived).Text}}...)
	doc := c.NewPDF(c.Session.User.Name(), c.Text("pay.receipt"), c.FormatMoney(m.Amount), m.ID,
		c.FormatTime(tx.Now()), facts)
	doc.Strong(11)
	doc.MultiCell(ui.PDFWidth, ui.PDFLine+2, c.Text("pay.outputs"), "", "L", false)
	for _, o := range m.Outputs {
		doc.Strong(10)
		doc.MultiCell(ui.PDFWidth, ui.PDFLine+1,
			c.Text("output.to", c.FormatMoney(o.Amount), company.DestinationHint(o)), "T", "L", false)
		doc.Plain(9)
		lines := []string{c.Word("output.state", string(o.State))}
		if !o.Rate.IsZero() {
			lines = append(lines, c.FormatMoney(o.Input)+", "+company.RateText(c, o.Rate))
		}
		if o.TxID != "" {
			key := "pay.transaction"
			if o.Rail == payout.RailBank {
				key = "pay.bank_reference"
			}
			if o.Rail == payout.RailLightning {
				key = "pay.hash"
			}
			lines = append(lines, c.Text(key)+": "+o.TxID)
		}
		if o.Proof != "" {
			lines = append(lines, c.Text("output.proof")+": "+o.Proof)
		}
		for _, line := range lines {
			doc.MultiCell(ui.PDFWidth, ui.PDFLine, line, "", "L", false)
		}
		doc.Ln(2)
	}
	var b bytes.Buffer
	err = doc.Output(&b)
	return ui.View{File: &ui.File{Name: "receipt-" + m.ID + ".pdf", ContentType: "application/pdf", Data: b.Bytes()}}, err
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
				o.Input.String(), rate, company.DestinationHint(o), o.TxID})
		}
	}
	f, err := company.Sheet("payments-"+year+".csv", rows)
	return ui.View{File: f}, err
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
	doc := c.NewPDF(c.Session.User.Name(), c.Text("pay.year", year), "", c.Session.User.ID, c.FormatTime(tx.Now()), facts)
	const left, middle, right = 0.25, 0.45, 0.3 // shares of the width
	row := func(style, rule, at, from, amount string) {
		doc.Style(style, 9)
		doc.CellFormat(ui.PDFWidth*left, ui.PDFLine+1, at, rule, 0, "L", false, 0, "")
		doc.CellFormat(ui.PDFWidth*middle, ui.PDFLine+1, ui.Shorten(doc, from, ui.PDFWidth*middle-2), rule, 0, "L", false, 0,
			"")
		doc.CellFormat(ui.PDFWidth*right, ui.PDFLine+1, amount, rule, 1, "R", false, 0, "")
	}
	row("B", "", c.Text("pay.arrived"), c.Text("pay.from"), c.Text("payment.amount"))
	for _, m := range all {
		row("", "T", c.FormatDate(m.Arrived), m.from(c), c.FormatMoney(m.Amount))
	}
	var b bytes.Buffer
	err = doc.Output(&b)
	return ui.View{File: &ui.File{Name: "payments-" + year + ".pdf", ContentType: "application/pdf", Data: b.Bytes()}}, err
}
