package company

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

// errMonth is returned for an invalid month.
var errMonth = apierr.New(apierr.Invalid, "month_invalid", "Enter a month such as 2026-01.")

// maxMonthlyPayrolls is the maximum number of payrolls in the export of a month.
const maxMonthlyPayrolls = 10_000

// maxMonthlyRows is the number of rows above which the export of a month's payments is refused.
const maxMonthlyRows = 100_000

// jsonAmount returns an amount as a JSON number.
func jsonAmount(a money.Amount) json.Number {
	if a.Asset() == "" {
		return "0"
	}
	return json.Number(a.String())
}

// monthOf returns the requested month and the payrolls created in it, oldest first.
func monthOf(ctx context.Context, c *ui.Request, tx *db.Tx) (string, []payroll.Payroll, error) {
	month := c.Query("month")
	from, err := time.Parse("2006-01", month)
	if err != nil {
		return "", nil, errMonth
	}
	var all []payroll.Payroll
	for page := 1; ; page++ {
		some, total, err := c.Payroll.List(ctx, tx, c.Session.Principal(), "",
			payroll.Filter{From: from, To: from.AddDate(0, 1, 0), Page: db.Page{Number: page, PerPage: 100}})
		if err != nil {
			return "", nil, err
		}
		if total > maxMonthlyPayrolls {
			return "", nil, errMonth.Detailf(
				"This month has too many payrolls for one file. Use the API instead.")
		}
		all = append(all, some...)
		if len(some) == 0 || int64(len(all)) >= total {
			slices.Reverse(all)
			return month, all, nil
		}
	}
}

// monthCSV exports a month with one row per payroll.
func monthCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	month, all, err := monthOf(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	rows := [][]string{{"month", "payroll_id", "created", "external_id", "status", "payees", "volume", "fees", "total",
		"currency"}}
	for _, p := range all {
		rows = append(rows, []string{
			month, p.ID, ui.FormatTimestamp(p.CreatedAt), p.ExternalID, string(p.State), strconv.FormatInt(p.Count, 10),
			p.Volume.String(), p.Fees.String(), p.Total.String(), string(p.Currency),
		})
	}
	return ui.Download(document.Sheet("payrolls-"+month+".csv", rows))
}

// monthPayments exports the payments of a month's payrolls for accountants: one row per output, or one for a payment
// without outputs, with the rate, the coins, the fee and the transaction.
func monthPayments(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	month, all, err := monthOf(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	rows := [][]string{{"date", "payroll_id", "payroll", "payment_id", "payee_id", "payee", "description", "category",
		"invoice_id", "external_payment_id", "status", "amount", "currency", "fee", "value", "rate", "output_amount",
		"output_currency", "destination", "output_status", "transaction", "output_at"}}
	for _, head := range all {
		p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), head.ID)
		if err != nil {
			return ui.View{}, err
		}
		names, err := p.PayeeNames(ctx, tx)
		if err != nil {
			return ui.View{}, err
		}
		for _, m := range p.Payments {
			row := []string{ui.FormatTimestamp(p.CreatedAt), p.ID, p.ExternalID, m.ID, m.PayeeID, names[m.PayeeID],
				m.Description, m.Category, m.InvoiceID, m.ExternalPaymentID, string(m.State), m.Amount.String(),
				string(p.Currency), m.Fee.String()}
			if len(m.Outputs) == 0 {
				rows = append(rows, append(row, "", "", "", "", "", "", "", ""))
			}
			for i, o := range m.Outputs {
				if i > 0 { // a sum of the column counts each payment and fee once
					row = slices.Clone(row)
					row[11], row[13] = "", ""
				}
				rate := ""
				if !o.Rate.IsZero() {
					rate = o.Rate.String()
				}
				rows = append(rows, append(slices.Clone(row), o.Input.String(), rate, o.Amount.String(),
					string(o.Amount.Asset()), document.DestinationHint(o), string(o.State), o.TxID, ui.FormatTimestamp(o.UpdatedAt)))
			}
		}
		if len(rows) > maxMonthlyRows {
			return ui.View{}, errMonth.Detailf("This month has too many payments for one file. Use the API instead.")
		}
	}
	return ui.Download(document.Sheet("payments-"+month+".csv", rows))
}

type monthFile struct {
	Month    string        `json:"month"`
	Payrolls []monthlyLine `json:"payrolls"`
	Totals   []monthlySum  `json:"totals"`
}

type monthlyLine struct {
	PayrollID  string      `json:"payroll_id"`
	Created    string      `json:"created"`
	ExternalID string      `json:"external_id"`
	Status     string      `json:"status"`
	Payees     int64       `json:"payees"`
	Volume     json.Number `json:"volume"`
	Fees       json.Number `json:"fees"`
	Total      json.Number `json:"total"`
	Currency   string      `json:"currency"`
}

// monthlySum is the total of the payrolls of one currency and state.
type monthlySum struct {
	Currency string      `json:"currency"`
	Status   string      `json:"status"`
	Payrolls int64       `json:"payrolls"`
	Volume   json.Number `json:"volume"`
	Fees     json.Number `json:"fees"`
	Total    json.Number `json:"total"`
}

// monthJSON exports a month with its payrolls and their totals.
func monthJSON(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	month, all, err := monthOf(ctx, c, tx)
	if err != nil {
		return ui.View{}, err
	}
	out := monthFile{Month: month, Payrolls: []monthlyLine{}, Totals: []monthlySum{}}
	type key struct{ currency, status string }
	sums := map[key]*[3]money.Amount{}
	var order []key
	counts := map[key]int64{}
	for _, p := range all {
		out.Payrolls = append(out.Payrolls, monthlyLine{
			p.ID, ui.FormatTimestamp(p.CreatedAt), p.ExternalID, string(p.State), p.Count, jsonAmount(p.Volume),
			jsonAmount(p.Fees), jsonAmount(p.Total), string(p.Currency),
		})
		k := key{string(p.Currency), string(p.State)}
		if sums[k] == nil {
			sums[k] = &[3]money.Amount{money.Zero(p.Currency), money.Zero(p.Currency), money.Zero(p.Currency)}
			order = append(order, k)
		}
		counts[k]++
		for i, a := range []money.Amount{p.Volume, p.Fees, p.Total} {
			if sums[k][i], err = sums[k][i].Add(a); err != nil {
				return ui.View{}, err
			}
		}
	}
	for _, k := range order {
		s := sums[k]
		out.Totals = append(out.Totals, monthlySum{k.currency, k.status, counts[k], jsonAmount(s[0]), jsonAmount(s[1]),
			jsonAmount(s[2])})
	}
	return jsonFile("payrolls-"+month+".json", out)
}

func jsonFile(name string, out any) (ui.View, error) {
	data, err := json.MarshalIndent(out, "", "  ")
	return ui.View{File: &ui.File{Name: name, ContentType: "application/json", Data: data}}, err
}

type statementFile struct {
	monthlyLine
	Payments []statementPayment `json:"payments"`
}

type statementPayment struct {
	PaymentID         string            `json:"payment_id"`
	PayeeID           string            `json:"payee_id"`
	Payee             string            `json:"payee"`
	Amount            json.Number       `json:"amount"`
	Fee               json.Number       `json:"fee"`
	Status            string            `json:"status"`
	Reason            string            `json:"reason"`
	Description       string            `json:"description"`
	Category          string            `json:"category"`
	InvoiceID         string            `json:"invoice_id"`
	ExternalPaymentID string            `json:"external_payment_id"`
	Outputs           []statementOutput `json:"outputs"`
}

type statementOutput struct {
	OutputID    string      `json:"output_id"`
	Amount      json.Number `json:"amount"`
	Currency    string      `json:"currency"`
	Destination string      `json:"destination"`
	Status      string      `json:"status"`
	TxHash      string      `json:"tx_hash"`
	Updated     string      `json:"updated"`
}

// payrollJSON exports the statement of a payroll as JSON.
func payrollJSON(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	out := statementFile{monthlyLine{
		p.ID, ui.FormatTimestamp(p.CreatedAt), p.ExternalID, string(p.State), p.Count, jsonAmount(p.Volume),
		jsonAmount(p.Fees), jsonAmount(p.Total), string(p.Currency),
	}, []statementPayment{}}
	for _, m := range p.Payments {
		line := statementPayment{
			m.ID, m.PayeeID, names[m.PayeeID], jsonAmount(m.Amount), jsonAmount(m.Fee), string(m.State), m.Reason, m.Description,
			m.Category, m.InvoiceID,
			m.ExternalPaymentID, []statementOutput{},
		}
		for _, o := range m.Outputs {
			line.Outputs = append(line.Outputs, statementOutput{
				o.ID, jsonAmount(o.Amount), string(o.Amount.Asset()), document.DestinationHint(o), string(o.State), o.TxID,
				ui.FormatTimestamp(o.UpdatedAt)})
		}
		out.Payments = append(out.Payments, line)
	}
	return jsonFile("payroll-"+p.ID+".json", out)
}
