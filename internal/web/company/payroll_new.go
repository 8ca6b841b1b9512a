package company

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
)

// A payroll is created in three steps. The user enters amounts or uploads a file, reviews a preview, and confirms it.
// Until then nothing is stored: the draft travels in the forms.

const (
	draftLimit         = 8 << 20 // maximum size in bytes of a form with a draft or a file
	maxFoundPayees     = 100     // payees that a search adds to the form for amounts
	maxPayeeInputs     = 1000    // payees on the form for amounts
	maxPreviewPayments = 100     // payments in a preview
	maxProblems        = 100     // problems of a file
)

var (
	errChangedPreview = apierr.New(apierr.Conflict, "preview_changed",
		"The total has changed. Review it again before you confirm.")
	errFactorFirst = apierr.New(apierr.Forbidden, "factor_needed", "Verify your second factor first, then confirm here.")
	errNobody      = apierr.New(apierr.Invalid, "nobody_to_pay", "Enter an amount for at least one person.")
)

// draft is a payroll that is not created yet.
type draft struct {
	ExternalID string `json:"external_id,omitempty"`
	Currency   string `json:"currency,omitempty"`
	Saved      string `json:"saved,omitempty"` // name of the saved draft, which is deleted when the payroll is created
	// such as "crypto", or "crypto/USDC/base" with currency and network
	Method string         `json:"funding_method,omitempty"`
	PayDay payDay         `json:"pay_day,omitzero"`
	Period payroll.Period `json:"period,omitzero"`
	Items  []draftItem    `json:"items"`
}

type draftItem struct {
	Payee       string `json:"payee"`
	Amount      string `json:"amount"`
	Description string `json:"description,omitempty"`
	Category    string `json:"category,omitempty"`
	External    string `json:"external,omitempty"`
	Invoice     string `json:"invoice,omitempty"`
	Country     string `json:"country,omitempty"`
	Premium     bool   `json:"premium,omitempty"`
	// Receive is the currency of Amount if that is what the payee receives, "" for the payroll's currency.
	Receive string `json:"receive,omitempty"`
}

// payDay has the fields of a form that set the pay date.
type payDay struct {
	Date       string `json:"date,omitempty"`
	WorkingDay string `json:"working_day,omitempty"`
	TimeZone   string `json:"time_zone,omitempty"`
}

// params converts the draft to the parameters of the payroll.
func (d draft) params() payroll.CreateParams {
	p := payroll.CreateParams{ExternalID: d.ExternalID, Currency: d.Currency, Period: d.Period}
	if d.PayDay.Date != "" {
		p.PayDay = payroll.PayDay{Date: d.PayDay.Date, TimeZone: d.PayDay.TimeZone,
			WorkingDay: workday.Rule(d.PayDay.WorkingDay)}
	}
	p.FundingMethod, p.FundingCurrency, _ = strings.Cut(d.Method, "/")
	p.FundingCurrency, p.FundingNetwork, _ = strings.Cut(p.FundingCurrency, "/")
	for _, it := range d.Items {
		to := payroll.Payee{
			UserID: it.Payee, ReceiveCurrency: it.Receive, Description: it.Description, Category: it.Category,
			ExternalPaymentID: it.External,
			InvoiceID:         it.Invoice, Country: it.Country, IsPremium: it.Premium,
		}
		to.SetAmount(it.Amount)
		p.ToPay = append(p.ToPay, to)
	}
	return p
}

// terms returns the fields that apply to the whole payroll.
func terms(ctx context.Context, c *ui.Request, tx *db.Tx) ([]ui.Field, error) {
	currencies := []ui.Option{{Value: string(money.USD), Label: string(money.USD)}}
	for _, a := range money.All() {
		if !a.IsCrypto() && a != money.USD {
			currencies = append(currencies, ui.Option{Value: string(a), Label: string(a)})
		}
	}
	methods := []ui.Option{{Value: "", Label: c.Text("funding.usual")},
		{Value: payroll.MethodCrypto, Label: c.Text("funding.crypto")}}
	for _, n := range c.Payroll.Accounts.Networks {
		for _, a := range n.Assets {
			methods = append(methods, ui.Option{Value: strings.Join([]string{payroll.MethodCrypto, string(a), n.Name}, "/"),
				Label: c.Text("funding.on", string(a), networkName(n.Name))})
		}
	}
	if len(c.Payroll.Banks) > 0 {
		methods = append(methods, ui.Option{Value: payroll.MethodBank, Label: c.Text("funding.bank")})
	}
	if len(c.Debits.Schemes("")) > 0 && c.Session.Administers() {
		methods = append(methods, ui.Option{Value: payroll.MethodDebit, Label: c.Text("funding.debit")})
	}
	balances, err := wallet.Balances(ctx, tx, c.Session.Principal(), "")
	if err != nil {
		return nil, err
	}
	for _, b := range balances {
		if b.ID != "" && b.State == wallet.Completed {
			methods = append(methods, ui.Option{Value: b.ID, Label: c.Text("funding.balance", c.FormatMoney(b.Available))})
		}
	}
	return []ui.Field{
		c.Field(ui.Field{Name: "currency", Type: "select", Options: currencies}),
		c.Field(ui.Field{Name: "funding_method", Type: "select", Options: methods}),
		c.Field(ui.Field{Name: "external_id", MaxLength: 255}),
		c.Field(ui.Field{Name: "period_start", Type: "date"}),
		c.Field(ui.Field{Name: "period_end", Type: "date"}),
	}, nil
}

// payDayFields returns the fields that set the pay date.
func payDayFields(c *ui.Request) []ui.Field {
	return []ui.Field{c.Field(ui.Field{Name: "pay_date", Type: "date"}), workingDayField(c, workday.Before),
		timeZoneField(c)}
}

// creationSteps returns the steps to create a payroll; now is the index of the present one.
func creationSteps(c *ui.Request, now int) []ui.Cell {
	steps := []ui.Cell{
		{Text: c.Text("new.step.people"), Lines: []ui.Cell{{Text: c.Text("new.step.people.what")}}},
		{Text: c.Text("new.step.review"), Lines: []ui.Cell{{Text: c.Text("new.step.review.what")}}},
		{Text: c.Text("new.step.fund"), Lines: []ui.Cell{{Text: c.Text("new.step.fund.what")}}},
	}
	for i := range steps[:now] {
		steps[i].Kind = "done"
	}
	steps[now].Kind = "now"
	return steps
}

// workingDayField returns the field that says what happens to a pay date that is not a working day.
func workingDayField(c *ui.Request, chosen workday.Rule) ui.Field {
	f := ui.Field{Name: "working_day", Type: "select", Value: string(chosen)}
	for _, r := range []workday.Rule{workday.Before, workday.After, workday.None} {
		f.Options = append(f.Options, ui.Option{Value: string(r), Label: c.Text("working_day." + string(r))})
	}
	return c.Field(f)
}

func timeZoneField(c *ui.Request) ui.Field {
	return c.Field(ui.Field{Name: "time_zone", MaxLength: 64, Value: "UTC"})
}

func draftTerms(c *ui.Request) draft {
	return draft{Saved: c.Form.Get("saved"), ExternalID: strings.TrimSpace(c.Form.Get("external_id")),
		Currency: c.Form.Get("currency"), Period: periodOf(c),
		Method: c.Form.Get("funding_method"), PayDay: payDay{Date: c.Form.Get("pay_date"),
			WorkingDay: c.Form.Get("working_day"), TimeZone: strings.TrimSpace(c.Form.Get("time_zone"))}}
}

// periodOf returns the posted pay period.
func periodOf(c *ui.Request) payroll.Period {
	return payroll.Period{Start: c.Form.Get("period_start"), End: c.Form.Get("period_end")}
}

type newPayrollPage struct {
	Steps    []ui.Cell
	Terms    []ui.Field
	PayDay   []ui.Field
	Later    bool // a pay date is entered
	Payees   []payeeFields
	Search   ui.Field
	Searches bool    // the company has more payees than the form lists
	More     string  // says that only some payees are listed
	Copy     ui.Cell // link that copies the amounts of the latest payroll; without a path, there is none
	Saved    string  // name of the draft that is continued
	Copied   string  // says which payroll's amounts were copied
}

// payeeFields are the inputs for one payee.
type payeeFields struct {
	ID, Name, Country string
	Amount, Note      ui.Field
	In                ui.Field // currency of the amount; without options, it is the payroll's
}

// copyAmounts fills the form with the currency, amounts and notes of an earlier payroll of the company, and with
// the pay period that follows. Payments to the same payee are added up. Invoices are not copied, because they are paid
// once.
func copyAmounts(ctx context.Context, tx *db.Tx, c *ui.Request, payrollID string) (string, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), payrollID)
	if err != nil {
		return "", err
	}
	form, sums := url.Values{}, map[string]money.Amount{}
	form.Set("currency", string(p.Currency))
	next := p.Period.Next()
	form.Set("period_start", next.Start)
	form.Set("period_end", next.End)
	for _, m := range p.Payments {
		amount := m.Amount
		if m.Receive.Sign() > 0 {
			amount = m.Receive
			form.Set("in."+m.PayeeID, string(amount.Asset()))
		}
		earlier, again := sums[m.PayeeID]
		if again && earlier.Asset() == amount.Asset() {
			if amount, err = earlier.Add(amount); err != nil {
				return "", err
			}
		}
		sums[m.PayeeID] = amount
		if !again {
			form.Add("payee", m.PayeeID)
		}
		form.Set("amount."+m.PayeeID, c.FormatNumber(amount.String()))
		if m.Description != "" {
			form.Set("note."+m.PayeeID, m.Description)
		}
	}
	c.Form = form
	return c.Text("new.copied", payrollName(c, p)), nil
}

// showNewPayroll lists the active payees with an input for the amount of each. After a search it lists the payees with
// an entered amount and those that were found. The parameter from names a payroll whose amounts are copied.
func showNewPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := newPayrollPage{Steps: creationSteps(c, 0)}
	searches, search := c.Form == nil || c.Form.Has("find"), c.Query("search")
	if from := c.Query("from"); c.Form == nil && from != "" {
		copied, err := copyAmounts(ctx, tx, c, from)
		if err != nil {
			return ui.View{}, err
		}
		p.Copied = copied
	} else if name := c.Query("draft"); c.Form == nil && name != "" {
		if err := openDraft(ctx, tx, c, name); err != nil {
			return ui.View{}, err
		}
	} else if c.Form == nil {
		latest, _, err := c.Payroll.List(ctx, tx, c.Session.Principal(), "", payroll.Filter{Page: db.Page{Number: 1,
			PerPage: 1}})
		if err != nil {
			return ui.View{}, err
		}
		for _, one := range latest {
			p.Copy = c.LinkCell(c.Text("new.copy", payrollName(c, one)), "/payrolls/new?from="+one.ID)
		}
	}
	ids := slices.Clone(c.Form["payee"][:min(len(c.Form["payee"]), maxPayeeInputs)]) // the payees of the posted form
	if c.Form.Has("find") {
		search = c.Form.Get("search")
		ids = slices.DeleteFunc(ids, func(id string) bool {
			return c.Form.Get("amount."+id) == "" && c.Form.Get("note."+id) == ""
		})
	}
	if ticked := c.HTTP.URL.Query()["to"]; c.Form == nil && len(ticked) > 0 { // the people ticked in the list
		ids, searches, p.Searches = ticked[:min(len(ticked), maxTicked)], search != "", true
	}
	known, err := payee.Payees(ctx, tx, c.Session.Company.ID, ids)
	if err != nil {
		return ui.View{}, err
	}
	var payees []payeeFields
	for _, id := range ids {
		if who, ok := known[id]; ok {
			payees = append(payees, payeeFields{ID: id, Name: who.Name, Country: who.Country})
		}
	}
	if searches {
		found, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Search: search, Status: payee.Active,
			SortBy: "name", Page: db.Page{PerPage: min(maxFoundPayees, max(1, maxPayeeInputs-len(payees)))}})
		if err != nil {
			return ui.View{}, err
		}
		for _, r := range found.Items {
			if _, listed := known[r.ID]; !listed {
				payees = append(payees, payeeFields{ID: r.ID, Name: r.Name, Country: r.Country})
			}
		}
		if found.Total > len(found.Items) {
			p.More = c.Text("new.more", c.FormatCount(int64(len(found.Items))), c.FormatCount(int64(found.Total)))
		}
	}
	p.Searches = p.Searches || p.More != "" || search != ""
	c.Labels = map[string]string{}
	for _, who := range payees {
		c.Labels["amount."+who.ID], c.Labels["note."+who.ID] = who.Name, c.Text("new.note", who.Name)
	}
	listed := make([]string, len(payees))
	for i, who := range payees {
		listed[i] = who.ID
	}
	receive, err := payroll.ReceiveCurrencies(ctx, tx, c.Session.Company.ID, listed)
	if err != nil {
		return ui.View{}, err
	}
	for _, who := range payees {
		if symbol := string(receive[who.ID]); symbol != "" {
			who.In = c.Field(ui.Field{Name: "in." + who.ID, Type: "select", Label: c.Text("new.in", who.Name),
				Options: []ui.Option{{Label: c.Text("new.in.payroll")},
					{Value: symbol, Label: c.Text("new.in.receive", symbol)}}})
		}
		who.Amount = c.Field(ui.Field{Name: "amount." + who.ID, Label: c.Text("new.amount", who.Name), MaxLength: 30,
			InputMode: "decimal", Placeholder: c.FormatNumber("0.00")})
		who.Note = c.Field(ui.Field{Name: "note." + who.ID, Label: c.Text("new.note", who.Name), MaxLength: 500,
			Placeholder: c.Text("new.note.head")})
		p.Payees = append(p.Payees, who)
	}
	if p.Terms, err = terms(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	p.Saved = c.Form.Get("saved")
	p.PayDay = payDayFields(c)
	p.Later = p.PayDay[0].Value != "" || p.PayDay[0].Problem.Text != ""
	p.Search = c.Field(ui.Field{Name: "search", MaxLength: 100, Value: search})
	return ui.View{Template: "payroll_new", Title: c.Text("payrolls.new"), Crumbs: payrollCrumbs(c), Data: p}, nil
}

// typedDraft returns the draft of the amounts that the user entered.
func typedDraft(c *ui.Request) draft {
	d := draftTerms(c)
	for _, id := range c.Form["payee"][:min(len(c.Form["payee"]), maxPayeeInputs)] {
		if amount := strings.TrimSpace(c.Form.Get("amount." + id)); amount != "" {
			in := c.Form.Get("in." + id)
			d.Items = append(d.Items, draftItem{Payee: id, Receive: in,
				Amount:      c.PlainAmount(amount, money.Asset(cmp.Or(in, d.Currency))),
				Description: strings.TrimSpace(c.Form.Get("note." + id))})
		}
	}
	return d
}

// previewTyped shows a preview of the entered amounts, or their problems. If the user searches, it shows the form
// again, with the entered amounts and the payees that were found.
func previewTyped(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if c.Form.Has("find") {
		return showNewPayroll(ctx, tx, c)
	}
	d := typedDraft(c)
	if len(d.Items) == 0 {
		return ui.View{}, errNobody.At("body", "")
	}
	return preview(ctx, c, tx, d, 0, func(i int, member string) string {
		if member == "description" {
			return "/note." + d.Items[i].Payee
		}
		return "/amount." + d.Items[i].Payee
	})
}

// previewPage shows a draft that can be confirmed.
type previewPage struct {
	Steps                        []ui.Cell
	Draft, Key                   string
	Seen                         string // the total, to detect changes before confirmation
	Volume, Fees, Total, Funding string
	Rate, Method, PayDate        string
	Period                       string
	Payments                     ui.Table
	More                         string
	Proof                        string // URL to prove the second factor; "" if not required
	Approvals                    string
	Warnings                     []string      // what to check before confirming
	Proposal                     *proposalCard // nil for the user's own draft
}

// preview shows what a draft would pay. If the draft is invalid, it returns the problems; at returns the form field
// for a member of an item.
// skipped is the number of rows of a file that have no amount.
func preview(ctx context.Context, c *ui.Request, tx *db.Tx, d draft, skipped int64,
	at func(i int, member string) string) (ui.View, error) {
	v, err := c.Payroll.Preview(ctx, tx, c.Session.Principal(), d.params())
	if err != nil {
		return ui.View{}, err
	}
	if len(v.Blockers) > 0 {
		return ui.View{}, blockerProblems(v.Blockers, at)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return ui.View{}, err
	}
	p := previewOf(c, v, maxPreviewPayments)
	p.Steps, p.Draft, p.Key = creationSteps(c, 1), string(text), c.Form.Get("key")
	if p.Key == "" {
		p.Key = uuid.NewString()
	}
	if !hasFreshFactor(c) {
		p.Proof = c.URL(ui.ProofPath("/payrolls"))
	}
	if skipped > 0 {
		p.Warnings = append(p.Warnings, c.Plural("preview.skipped", skipped, c.FormatCount(skipped)))
	}
	return ui.View{Template: "payroll_preview", Title: c.Text("preview.title"), Data: p}, nil
}

// previewOf returns what a page shows of a payroll before it is created, with at most that many payments.
func previewOf(c *ui.Request, v payroll.Preview, most int) previewPage {
	p := previewPage{Seen: v.Total.String(), PayDate: v.PayDate, Period: c.Documents().Period(v.Period),
		Volume: c.FormatMoney(v.Volume), Fees: c.FormatMoney(v.Fees), Total: c.FormatMoney(v.Total),
		Funding: c.FormatMoney(v.Funding), Method: c.Text("funding.from_balance"),
		Payments: ui.Table{Caption: c.Text("payroll.payments"),
			Heads: c.Columns("payment.payee|a", "preview.outputs|e", "payroll.fees#|hide", "payment.amount#|b")},
	}
	switch {
	case v.FundingMethod == payroll.MethodBank:
		p.Method = c.Text("funding.bank")
	case v.FundingMethod == payroll.MethodDebit:
		p.Method = c.Text("funding.debit")
	case v.FundingMethod == payroll.MethodCrypto && v.FundingNetwork != "":
		p.Method = c.Text("funding.on", string(v.FundingCurrency), networkName(v.FundingNetwork))
	case v.FundingMethod == payroll.MethodCrypto:
		p.Method = c.Text("funding.crypto")
	}
	if !v.Rate.IsZero() {
		p.Rate = c.Text("payroll.rate.is", string(v.Rate.Base()), c.FormatNumber(v.Rate.String()), string(v.Rate.Quote()))
	}
	for _, it := range v.Items[:min(len(v.Items), most)] {
		who := ui.Cell{Text: it.Name, Kind: "person"}
		if it.Description != "" {
			who.Lines = []ui.Cell{{Text: it.Description}}
		}
		var outs ui.Cell
		for i, s := range it.Shares {
			gets := s.Amount
			if s.Receive.Sign() > 0 {
				gets = s.Receive
			}
			o := ui.Cell{Text: c.Text("output.to", c.FormatMoney(gets),
				string(s.Destination.Symbol)+" "+s.Destination.Hint())}
			if i == 0 {
				outs = o
			} else {
				outs.Lines = append(outs.Lines, o)
			}
		}
		p.Payments.Rows = append(p.Payments.Rows, []ui.Cell{who, outs, c.AmountCell(it.Fee), c.AmountCell(it.Amount)})
	}
	if v.Approvals > 0 {
		p.Approvals = c.Text("preview.approval")
	}
	p.Warnings = warnings(c, v.Items)
	if len(v.Items) > most {
		p.More = c.Text("preview.more", c.FormatCount(int64(most)), c.FormatCount(int64(len(v.Items))))
	}
	return p
}

// maxWarnings is the number of warnings that a preview lists.
const maxWarnings = 20

// warnings names payees who are paid more than once, and amounts of more than ten times the median.
func warnings(c *ui.Request, items []payroll.Item) (all []string) {
	times, units := map[string]int64{}, make([]int64, 0, len(items))
	for _, it := range items {
		times[it.PayeeID]++
		units = append(units, it.Amount.Units())
	}
	slices.Sort(units)
	for _, it := range items {
		if n := times[it.PayeeID]; n > 1 {
			all = append(all, c.Text("preview.twice", it.Name, c.FormatCount(n)))
			times[it.PayeeID] = 0 // name each payee once
		}
		if len(items) >= 3 && it.Amount.Units()/10 > units[len(units)/2] {
			all = append(all, c.Text("preview.large", it.Name, c.FormatMoney(it.Amount)))
		}
	}
	return all[:min(len(all), maxWarnings)]
}

// blockerProblems returns the problems of a draft, at the fields of its form.
func blockerProblems(blockers []apierr.Field, at func(i int, member string) string) error {
	var list apierr.List
	for _, b := range blockers {
		parts := strings.SplitN(strings.TrimPrefix(b.Pointer, "/"), "/", 3)
		if len(parts) == 3 && parts[0] == "to_pay" {
			if i, err := strconv.Atoi(parts[1]); err == nil {
				b.Pointer = at(i, parts[2])
			}
		}
		list.Add(b.Code, b.Pointer, b.Message)
	}
	return list.Err()
}

// readDraft reads the draft from the posted form.
func readDraft(c *ui.Request) (d draft, err error) {
	if json.Unmarshal([]byte(c.Form.Get("draft")), &d) != nil || c.Form.Get("key") == "" || len(c.Form.Get("key")) > 64 {
		return d, ui.ErrForm
	}
	return d, nil
}

// hasFreshFactor reports whether the user has a fresh second factor or needs none.
func hasFreshFactor(c *ui.Request) bool {
	return !c.RequiresFactor(c.Session.Company.ID) || c.Session.ProvenFreshly(c.Time)
}

// createPayroll creates the confirmed payroll. Posting the form twice creates one payroll. It checks the second
// factor itself, because a redirect would lose the draft.
func createPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := readDraft(c)
	if err != nil {
		return ui.View{}, err
	}
	if !hasFreshFactor(c) {
		return ui.View{}, errFactorFirst.At("body", "")
	}
	params := d.params()
	params.Key = c.Form.Get("key")
	p, err := c.Payroll.Create(ctx, tx, c.Session.Principal(), params)
	if f, ok := apierr.As(err); ok && f.Kind != apierr.Internal && len(f.Fields) == 0 && f.Kind != apierr.Unavailable {
		return ui.View{}, f.At("body", "")
	}
	switch {
	case err != nil:
		return ui.View{}, err
	case p.Total.String() != c.Form.Get("seen"):
		return ui.View{}, errChangedPreview.At("body", "")
	case d.Saved != "":
		err = auth.DeleteSearch(ctx, tx, by(c), auth.DraftList, d.Saved)
	}
	switch {
	case err != nil:
		return ui.View{}, err
	case p.FromOutside():
		return ui.View{Redirect: payrollPath(p.ID) + "/fund"}, nil
	}
	return ui.View{Redirect: payrollPath(p.ID)}, nil
}

// showPreview shows the preview again after a failed confirmation. If the draft has become invalid, it shows only
// the problems.
func showPreview(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := readDraft(c)
	if err != nil {
		return ui.View{}, err
	}
	v, err := preview(ctx, c, tx, d, 0, func(int, string) string { return "" })
	if f, ok := apierr.As(err); ok {
		c.Problem = f
		return ui.View{Template: "payroll_refused", Title: c.Text("preview.title"), Data: nil}, nil
	}
	return v, err
}
