package document

import (
	"cmp"
	"time"

	"github.com/stipend/stipend/internal/payroll"
)

// PayrollName returns the name of a payroll in documents: the company's reference, or the pay period, or the date,
// whichever is available first.
func (w *Writer) PayrollName(p payroll.Payroll) string {
	return cmp.Or(p.ExternalID, w.Period(p.Period), w.Text("payroll.of", w.FormatDate(p.CreatedAt)))
}

// Period formats a pay period. It returns "" if there is none.
func (w *Writer) Period(p payroll.Period) string {
	start, err := time.Parse(time.DateOnly, p.Start)
	end, err2 := time.Parse(time.DateOnly, p.End)
	if err != nil || err2 != nil {
		return ""
	}
	return w.Text("payroll.period.is", w.FormatDate(start), w.FormatDate(end))
}

// PayrollPDF returns the statement of a payroll as a PDF. owner is the name of the company. names contains the
// payees' names by ID, except those of erased payees.
func (w *Writer) PayrollPDF(owner string, p payroll.Payroll, names map[string]string, now time.Time) (File, error) {
	doc := w.New(owner, w.PayrollName(p), w.FormatMoney(p.Total), p.ID, now, [][2]string{
		{"payroll.status", w.Word("payroll.state", string(p.State))}, {"field.external_id", p.ExternalID},
		{"payroll.period", w.Period(p.Period)}, {"payroll.created", w.FormatTime(p.CreatedAt)},
		{"payroll.payees", w.FormatCount(p.Count)}, {"payroll.volume", w.FormatMoney(p.Volume)},
		{"payroll.fees", w.FormatMoney(p.Fees)}, {"payroll.total", w.FormatMoney(p.Total)},
	})
	const left, middle, right = 0.42, 0.22, 0.36 // shares of the width
	row := func(style, rule, payee, amount, state string) {
		doc.Style(style, 9)
		doc.CellFormat(Width*left, Line+1, doc.Shorten(payee, Width*left-2), rule, 0, "L", false, 0, "")
		doc.CellFormat(Width*middle, Line+1, amount, rule, 0, "R", false, 0, "")
		doc.CellFormat(Width*right, Line+1, "   "+doc.Shorten(state, Width*right-8), rule, 1, "L", false, 0, "")
	}
	row("B", "", w.Text("payment.payee"), w.Text("payment.amount"), w.Text("payroll.status"))
	for _, m := range p.Payments {
		row("", "T", cmp.Or(names[m.PayeeID], m.PayeeID), w.FormatMoney(m.Amount), w.Word("payment.state", string(m.State)))
		doc.Quiet(8)
		for _, o := range m.Outputs {
			text := w.Text("output.to", w.FormatMoney(o.Amount), DestinationHint(o)) + ", " +
				w.Word("output.state", string(o.State))
			if o.TxID != "" {
				text += ", " + o.TxID
			}
			doc.SetX(Margin + 5)
			doc.MultiCell(Width-5, 4, text, "", "L", false)
		}
		if m.Description != "" {
			doc.SetX(Margin + 5)
			doc.MultiCell(Width-5, 4, m.Description, "", "L", false)
		}
	}
	return doc.file("payroll-" + p.ID)
}

// PayrollCSV returns the statement of a payroll as CSV, with one row per output. A payment without outputs has one
// row.
func PayrollCSV(p payroll.Payroll, names map[string]string) (File, error) {
	rows := [][]string{{
		"payroll_id", "payroll_status", "payment_id", "payee_id", "payee", "amount", "currency", "fee", "status", "reason",
		"description", "category",
		"invoice_id", "external_payment_id", "receive_amount", "receive_currency", "surcharge", "output_id",
		"output_amount", "output_currency", "destination", "output_status",
		"tx_hash", "updated",
	}}
	for _, m := range p.Payments {
		receives := ""
		if m.Receive.Sign() > 0 {
			receives = m.Receive.String()
		}
		row := []string{
			p.ID, string(p.State), m.ID, m.PayeeID, names[m.PayeeID], m.Amount.String(), string(p.Currency), m.Fee.String(),
			string(m.State), m.Reason,
			m.Description, m.Category, m.InvoiceID, m.ExternalPaymentID, receives, string(m.Receive.Asset()),
			m.Surcharge.String(),
		}
		for _, o := range m.Outputs {
			rows = append(rows, append(row[:len(row):len(row)],
				o.ID, o.Amount.String(), string(o.Amount.Asset()), DestinationHint(o), string(o.State), o.TxID,
				timestamp(o.UpdatedAt)))
		}
		if len(m.Outputs) == 0 {
			rows = append(rows, append(row, "", "", "", "", "", "", ""))
		}
	}
	return Sheet("payroll-"+p.ID+".csv", rows)
}
