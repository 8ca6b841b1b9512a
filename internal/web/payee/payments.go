package payee

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/earnings"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

func paymentPath(id string) string { return ui.PayPath + "/" + id }

// payments returns the reader of the signed-in person's payments.
func payments(c *ui.Request) earnings.Reader { return earnings.Reader{Sealer: c.Sealer, By: self(c)} }

// find returns a payment to the person with its outputs and steps.
func find(ctx context.Context, tx *db.Tx, c *ui.Request, id string) (earnings.Payment, error) {
	return payments(c).Find(ctx, tx, id)
}

// stateOf returns the state of a payment as a badge.
func stateOf(c *ui.Request, p earnings.Payment) ui.Cell {
	return c.StateCell("payment.state", string(p.State))
}

// why returns the reason of a state in words for the person who is paid, or "". It does not disclose screening.
func why(c *ui.Request, reason string) string {
	if key := "pay.reason." + reason; c.HasText(key) {
		return c.Text(key)
	}
	if text := company.ReasonText(c, reason); strings.HasPrefix(text, reason+": ") { // a bank's code
		return text
	}
	return ""
}

// payPage lists the payments to a person.
type payPage struct {
	Attention []ui.Task
	Payments  ui.Table
	Years     ui.Filters
	Totals    []string // of the payments that arrived, by currency
	CSV, PDF  string
}

// showPayments renders what the person was paid in a year, and what they should do. What has not arrived is shown in
// the present year.
func showPayments(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	n := yearOf(c, tx.Now())
	year, present := strconv.Itoa(n), n == tx.Now().Year()
	from, to := earnings.Year(n)
	all, err := payments(c).List(ctx, tx, from, to, present)
	if err != nil {
		return ui.View{}, err
	}
	open := all
	if !present {
		if open, err = payments(c).List(ctx, tx, time.Time{}, time.Time{}, true); err != nil {
			return ui.View{}, err
		}
	}
	p := payPage{CSV: c.URL(ui.PayPath + "/year.csv?year=" + year), PDF: c.URL(ui.PayPath + "/year.pdf?year=" + year),
		Payments: ui.Table{Caption: c.Text("pay.payments"), Empty: c.EmptyStep("banknote", "pay.none", false, "", ""),
			Heads: c.Columns("pay.from|a", "payroll.status|c", "pay.date#|d", "payment.amount#|b")}}
	if p.Attention, err = attention(ctx, tx, c, open); err != nil {
		return ui.View{}, err
	}
	for _, m := range all {
		from := c.LinkCell(fromOf(c, m), paymentPath(m.ID))
		if about := cmp.Or(m.About, m.Reference, c.Documents().Period(m.Period)); about != "" {
			from.Lines = []ui.Cell{{Text: about}}
		}
		state := stateOf(c, m)
		if text := why(c, m.Reason); text != "" {
			state.Lines = []ui.Cell{{Text: text}}
		}
		at := m.Arrived
		if at.IsZero() {
			at = m.At
		}
		p.Payments.Rows = append(p.Payments.Rows, []ui.Cell{from, state, c.TimeCell(at), c.AmountCell(m.Amount)})
	}
	if p.Totals, err = totals(c, all); err != nil {
		return ui.View{}, err
	}
	var years []ui.Option
	for y := tx.Now().Year(); y >= c.Session.User.Created.Year(); y-- {
		years = append(years, ui.Option{Value: strconv.Itoa(y), Label: strconv.Itoa(y), Selected: strconv.Itoa(y) == year})
	}
	p.Years = c.FilterBar(ui.PayPath, ui.Field{Name: "year", Label: c.Text("field.year"), Type: "select", Value: year,
		Options: years})
	return ui.View{Template: "pay", Title: c.Text("pay.title"), Data: p}, nil
}

// fromOf returns who sent the payment.
func fromOf(c *ui.Request, p earnings.Payment) string { return cmp.Or(p.From, c.Text("pay.transfer")) }

// totals returns the sums of the payments that arrived, by currency.
func totals(c *ui.Request, all []earnings.Payment) (texts []string, err error) {
	sums, err := earnings.Totals(all)
	for _, sum := range sums {
		texts = append(texts, c.FormatMoney(sum))
	}
	return texts, err
}

// yearOf returns the calendar year that the URL names, or the present one.
func yearOf(c *ui.Request, now time.Time) int {
	n, err := strconv.Atoi(c.Query("year"))
	if err != nil || n < 2000 || n > now.Year() {
		return now.Year()
	}
	return n
}

// attention returns what the person should do to be paid.
func attention(ctx context.Context, tx *db.Tx, c *ui.Request, all []earnings.Payment) (tasks []ui.Task, err error) {
	u := c.Session.User
	for _, m := range all {
		if m.State == payroll.ActionRequired || m.State == payroll.Returned {
			tasks = append(tasks, c.Task("red", "circle-alert", c.Text("pay.task.payment", c.FormatMoney(m.Amount),
				fromOf(c, m)),
				"pay.task.look", paymentPath(m.ID)))
		}
	}
	owned, err := destination.List(ctx, tx, self(c), u.ID)
	if err != nil {
		return nil, err
	}
	for _, d := range owned {
		if d.Correction != nil {
			tasks = append(tasks, c.Task("amber", "landmark", c.Text("correction.title", company.DestinationName(d)),
				"pay.task.look", destinationsPath))
		}
		if d.Check.Failed() {
			tasks = append(tasks, c.Task("amber", "landmark", c.Text("pay.task.check", company.DestinationName(d)),
				"pay.task.look", destinationsPath))
		}
	}
	if len(payroll.Allocated(owned)) == 0 {
		path := destinationsPath
		if len(owned) == 0 {
			path = accountPath + "/destinations/new"
		}
		tasks = append(tasks, c.Task("amber", "landmark", c.Text("pay.task.destination"), "pay.task.add", path))
	}
	if c.KYC != nil && u.KYCStatus != identity.KYCApproved {
		tasks = append(tasks, c.Task("amber", "shield-check", c.Text("pay.task.verify"), "pay.task.go", personPath))
	}
	has, err := auth.HasFactor(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	keys, err := auth.Passkeys(ctx, tx, u.ID)
	if !has && len(keys) == 0 {
		tasks = append(tasks, c.Task("gray", "fingerprint", c.Text("pay.task.secure"), "pay.task.go", "/account/factor"))
	}
	return tasks, err
}

// paymentPage shows one payment to the person who is paid.
type paymentPage struct {
	Means, Why, Reference, About string
	Period                       string // pay period, or ""
	Amount, Fee                  string
	From, At, ID, Receipt        string
	Fixable                      bool // another destination continues the payment
	Outputs                      []outputRow
	Steps                        []stepRow
}

type outputRow struct {
	Amount, To, Value, Rate, Why string
	State                        ui.Cell
	Reference, Kind              string // transaction or bank reference, and its label
	Proof                        string // of a payment over Lightning
}

type stepRow struct{ Tone, Text, ISO, At, Why string }

// showPayment renders a payment with its outputs and timeline.
func showPayment(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	m, err := find(ctx, tx, c, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := paymentPage{Means: c.Text("pay.means." + string(m.State)), Why: why(c, m.Reason), Reference: m.Reference,
		Period: c.Documents().Period(m.Period),
		About:  m.About, Amount: c.FormatMoney(m.Amount), From: fromOf(c, m), At: c.FormatTime(m.At), ID: m.ID,
		Fixable: m.State == payroll.ActionRequired && m.Reason != income.ReasonVerification || m.State == payroll.Returned}
	if !m.Fee.IsZero() {
		p.Fee = c.FormatMoney(m.Fee)
	}
	if document.HasReceipt(m.State) {
		p.Receipt = c.URL(paymentPath(m.ID) + "/receipt.pdf")
	}
	for _, o := range m.Outputs {
		row := outputRow{Amount: c.FormatMoney(o.Amount), To: document.DestinationHint(o), Why: why(c, o.Reason),
			State: c.StateCell("output.state", string(o.State)), Reference: o.TxID, Kind: c.Text("pay.transaction")}
		if o.Rail == payout.RailBank {
			row.Kind = c.Text("pay.bank_reference")
		}
		if o.Rail == payout.RailLightning {
			row.Kind, row.Proof = c.Text("pay.hash"), o.Proof
		}
		if o.Input.Asset() != "" && o.Input.Asset() != o.Amount.Asset() {
			row.Value = c.FormatMoney(o.Input)
		}
		if !o.Rate.IsZero() {
			row.Rate = c.FormatRate(o.Rate)
		}
		p.Outputs = append(p.Outputs, row)
	}
	for _, s := range slices.Backward(m.Steps) {
		state := c.StateCell("payment.state", string(s.To))
		if s.From == s.To {
			continue
		}
		p.Steps = append(p.Steps, stepRow{Tone: state.Tone, Text: state.Text, ISO: ui.FormatTimestamp(s.At),
			At: c.FormatTime(s.At), Why: why(c, s.Reason)})
	}
	return ui.View{Template: "payment", Title: c.Text("pay.payment.from", p.From), State: stateOf(c, m), Lead: p.Means,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("pay.title"), ui.PayPath)}, Data: p}, nil
}
