package company

import (
	"bytes"
	"context"
	"encoding/csv"
	"regexp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/web/ui"
)

// amount matches decimals; negative ones are not formulas.
var amount = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// Sheet returns rows as a CSV file. Cells that a spreadsheet could run as formulas are escaped.
func Sheet(name string, rows [][]string) (*ui.File, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, text := range row {
			if safe[i] = text; !amount.MatchString(text) {
				safe[i] = payee.SafeCell(text)
			}
		}
		_ = w.Write(safe) // w.Error reports errors
	}
	w.Flush()
	return &ui.File{Name: name, ContentType: "text/csv; charset=utf-8", Data: b.Bytes()}, w.Error()
}

// payrollCSV exports the statement of a payroll with one row per output, or one for a payment without outputs.
func payrollCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := payeeNames(ctx, tx, p)
	if err != nil {
		return ui.View{}, err
	}
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
				ui.FormatTimestamp(o.UpdatedAt)))
		}
		if len(m.Outputs) == 0 {
			rows = append(rows, append(row, "", "", "", "", "", "", ""))
		}
	}
	f, err := Sheet("payroll-"+p.ID+".csv", rows)
	return ui.View{File: f}, err
}
