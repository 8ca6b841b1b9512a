package payee

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

// payment is a payment to the signed-in person: of a payroll, or of an income.
type payment struct {
	ID, From         string // From is the name of the company or payer, "" if unknown
	CompanyID        string // tenant of the payment: the company, or the person for an income
	Reference, About string
	State            payroll.State
	Reason           string
	Amount, Fee      money.Amount // Fee is what the person paid
	At               time.Time    // when it was created or received
	Arrived          time.Time    // when it was fulfilled; set by find only
	Outputs          []payout.Output
	Steps            []payroll.Step
}

func paymentPath(id string) string { return ui.PayPath + "/" + id }

// list returns the payments to the person in [from, to), the newest first, without outputs and steps.
func list(ctx context.Context, tx *db.Tx, c *ui.Request, from, to time.Time) (all []payment, err error) {
	companies, err := payee.CompaniesOf(ctx, tx, c.Session.User.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range companies {
		paying, err := identity.CompanyByID(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		some, err := payroll.FundedPaymentsTo(ctx, tx, id, c.Session.User.ID, from, to)
		if err != nil {
			return nil, err
		}
		for _, m := range some {
			all = append(all, ofPayroll(paying, m))
		}
	}
	names, err := payerNames(ctx, tx, c)
	if err != nil {
		return nil, err
	}
	for page := 1; ; page++ {
		some, total, err := income.List(ctx, tx, self(c), "", income.Filter{From: from, To: to,
			Page: db.Page{Number: page, PerPage: 100}})
		if err != nil {
			return nil, err
		}
		for i := range some {
			all = append(all, ofIncome(names, &some[i]))
		}
		if int64(page)*100 >= total {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b payment) int { return b.At.Compare(a.At) })
	return all, nil
}

func ofPayroll(paying identity.Company, m payroll.PayeePayment) payment {
	return payment{ID: m.ID, From: paying.Name, CompanyID: paying.ID, Reference: m.ExternalID, About: m.Description,
		State: m.State, Reason: m.Reason, Amount: m.Amount, Fee: money.Zero(m.Amount.Asset()), At: m.CreatedAt,
		Outputs: m.Outputs}
}

func ofIncome(names map[string]string, i *income.Income) payment {
	return payment{ID: i.ID, From: names[i.PayerID], CompanyID: i.UserID, Reference: i.InvoiceID, State: i.State,
		Reason: i.Reason, Amount: i.Amount, Fee: i.Fee, At: i.CreatedAt, Outputs: i.Outputs, Steps: i.Timeline}
}

// payerNames returns the names of the person's payers by ID.
func payerNames(ctx context.Context, tx *db.Tx, c *ui.Request) (map[string]string, error) {
	all, err := payer.List(ctx, tx, c.Sealer, self(c), "")
	names := map[string]string{}
	for _, p := range all {
		names[p.ID] = p.Name
	}
	return names, err
}

// find returns a payment to the person with its outputs and steps.
func find(ctx context.Context, tx *db.Tx, c *ui.Request, id string) (payment, error) {
	if income.IsIncome(id) {
		i, err := income.Get(ctx, tx, self(c), "", id)
		if err != nil {
			return payment{}, err
		}
		names, err := payerNames(ctx, tx, c)
		return ofIncome(names, &i).arrived(), err
	}
	companies, err := payee.CompaniesOf(ctx, tx, c.Session.User.ID)
	if err != nil {
		return payment{}, err
	}
	for _, of := range companies {
		m, steps, err := payroll.FundedPaymentTo(ctx, tx, of, c.Session.User.ID, id)
		if errors.Is(err, payroll.ErrNotFound) {
			continue
		}
		if err != nil {
			return payment{}, err
		}
		paying, err := identity.CompanyByID(ctx, tx, of)
		p := ofPayroll(paying, m)
		p.Steps = steps
		return p.arrived(), err
	}
	return payment{}, apierr.NotFoundErr
}

// arrived sets the time at which the payment was fulfilled.
func (p payment) arrived() payment {
	p.Arrived = payroll.Arrived(p.State, p.Steps)
	return p
}

// state returns the state of a payment as a badge.
func (p payment) state(c *ui.Request) ui.Cell { return c.StateCell("payment.state", string(p.State)) }

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

// showPayments renders what the person was paid in a year, and what they should do.
func showPayments(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	year, from, to := yearOf(c, tx.Now())
	all, err := list(ctx, tx, c, from, to)
	if err != nil {
		return ui.View{}, err
	}
	p := payPage{CSV: c.URL(ui.PayPath + "/year.csv?year=" + year), PDF: c.URL(ui.PayPath + "/year.pdf?year=" + year),
		Payments: ui.Table{Caption: c.Text("pay.payments"), Empty: c.Text("pay.none"),
			Heads: c.Columns("pay.from|a", "payroll.status|c", "pay.date#|d", "payment.amount#|b")}}
	if p.Attention, err = attention(ctx, tx, c, all); err != nil {
		return ui.View{}, err
	}
	for _, m := range all {
		from := c.LinkCell(m.from(c), paymentPath(m.ID))
		if about := cmp.Or(m.About, m.Reference); about != "" {
			from.Lines = []ui.Cell{{Text: about}}
		}
		state := m.state(c)
		if text := why(c, m.Reason); text != "" {
			state.Lines = []ui.Cell{{Text: text}}
		}
		p.Payments.Rows = append(p.Payments.Rows, []ui.Cell{from, state, c.TimeCell(m.At), c.AmountCell(m.Amount)})
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

// from returns who sent the payment.
func (p payment) from(c *ui.Request) string { return cmp.Or(p.From, c.Text("pay.transfer")) }

// totals returns the sums of the fulfilled payments, by currency.
func totals(c *ui.Request, all []payment) (texts []string, err error) {
	sums := map[money.Asset]money.Amount{}
	for _, m := range all {
		if m.State != payroll.Fulfilled {
			continue
		}
		sum, ok := sums[m.Amount.Asset()]
		if !ok {
			sum = money.Zero(m.Amount.Asset())
		}
		if sums[m.Amount.Asset()], err = sum.Add(m.Amount); err != nil {
			return nil, err
		}
	}
	for _, a := range money.All() {
		if sum, ok := sums[a]; ok {
			texts = append(texts, c.FormatMoney(sum))
		}
	}
	return texts, nil
}

// yearOf returns the calendar year that the URL names, or the present one, and its bounds in UTC.
func yearOf(c *ui.Request, now time.Time) (year string, from, to time.Time) {
	n, err := strconv.Atoi(c.Query("year"))
	if err != nil || n < 2000 || n > now.Year() {
		n = now.Year()
	}
	from = time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC)
	return strconv.Itoa(n), from, from.AddDate(1, 0, 0)
}

// attention returns what the person should do to be paid.
func attention(ctx context.Context, tx *db.Tx, c *ui.Request, all []payment) (tasks []ui.Task, err error) {
	u := c.Session.User
	for _, m := range all {
		if m.State == payroll.ActionRequired || m.State == payroll.Returned {
			tasks = append(tasks, c.Task("red", "circle-alert", c.Text("pay.task.payment", c.FormatMoney(m.Amount), m.from(c)),
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
		About: m.About, Amount: c.FormatMoney(m.Amount), From: m.from(c), At: c.FormatTime(m.At), ID: m.ID,
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
	return ui.View{Template: "payment", Title: c.Text("pay.payment.from", p.From), State: m.state(c), Lead: p.Means,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("pay.title"), ui.PayPath)}, Data: p}, nil
}
