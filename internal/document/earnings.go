package document

import (
	"cmp"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/earnings"
)

// ReceiptOf returns the receipt of a payment for the person who was paid. owner is the person's name, and from the
// payer's.
func ReceiptOf(m earnings.Payment, owner, from string) Receipt {
	return Receipt{ID: m.ID, Owner: owner, From: from, Reference: m.Reference, Period: m.Period, About: m.About,
		State:  m.State,
		Amount: m.Amount, Fee: m.Fee, At: m.At, Arrived: m.Arrived, Outputs: m.Outputs}
}

// EarningsCSV returns the payments that a person received in a year as CSV, with one row per output. The outputs must
// have been loaded with [earnings.LoadOutputs].
func EarningsCSV(year int, all []earnings.Payment) (File, error) {
	rows := [][]string{{"payment_id", "from", "arrived", "amount", "currency", "fee", "description", "reference",
		"period_start", "period_end",
		"output_amount", "output_currency", "value", "rate", "destination", "transaction"}}
	for _, m := range all {
		for _, o := range m.Outputs {
			rate := ""
			if !o.Rate.IsZero() {
				rate = o.Rate.String()
			}
			rows = append(rows, []string{m.ID, m.From, timestamp(m.Arrived), m.Amount.String(),
				string(m.Amount.Asset()), m.Fee.String(), m.About, m.Reference, m.Period.Start, m.Period.End,
				o.Amount.String(), string(o.Amount.Asset()),
				o.Input.String(), rate, DestinationHint(o), o.TxID})
		}
	}
	return Sheet("payments-"+strconv.Itoa(year)+".csv", rows)
}

// EarningsPDF returns a summary of the payments that a person received in a year, as a PDF.
func (w *Writer) EarningsPDF(userID, name string, year int, all []earnings.Payment, now time.Time) (File, error) {
	sums, err := earnings.Totals(all)
	if err != nil {
		return File{}, err
	}
	facts := [][2]string{{"pay.count", w.FormatCount(int64(len(all)))}}
	for _, sum := range sums {
		facts = append(facts, [2]string{"pay.total", w.FormatMoney(sum)})
	}
	doc := w.New(name, w.Text("pay.year", strconv.Itoa(year)), "", userID, now, facts)
	const left, middle, right = 0.25, 0.45, 0.3 // shares of the width
	row := func(style, rule, at, from, amount string) {
		doc.Style(style, 9)
		doc.CellFormat(Width*left, Line+1, at, rule, 0, "L", false, 0, "")
		doc.CellFormat(Width*middle, Line+1, doc.Shorten(from, Width*middle-2), rule, 0, "L", false, 0, "")
		doc.CellFormat(Width*right, Line+1, amount, rule, 1, "R", false, 0, "")
	}
	row("B", "", w.Text("pay.arrived"), w.Text("pay.from"), w.Text("payment.amount"))
	for _, m := range all {
		row("", "T", w.FormatDate(m.Arrived), cmp.Or(m.From, w.Text("pay.transfer")), w.FormatMoney(m.Amount))
	}
	return doc.file("payments-" + strconv.Itoa(year))
}
