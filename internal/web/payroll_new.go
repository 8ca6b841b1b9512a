package web

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/wallet"
)

// A pay run is made in three steps, and until the last one nothing is: amounts are typed beside payees or come in a file; a preview
// says what would happen, or what is wrong; then it is confirmed. What was asked travels in the pages as a draft.

const (
	draftLimit    = 8 << 20 // of a form with a draft or a file, in bytes
	payeesTyped   = 100     // beside whom amounts can be typed on one page
	previewShown  = 100     // payments of a preview
	problemsShown = 100     // of a file
)

var (
	errChangedPreview = apierr.New(apierr.Conflict, "preview_changed", "The total has changed since it was shown. Look at it again, and confirm.")
	errFactorFirst    = apierr.New(apierr.Forbidden, "factor_needed", "Show your second factor first; then confirm here.")
	errNobody         = apierr.New(apierr.Invalid, "nobody_to_pay", "Type an amount beside at least one payee.")
)

// draft is a pay run that was asked for and not made yet.
type draft struct {
	ExternalID string      `json:"external_id,omitempty"`
	Currency   string      `json:"currency,omitempty"`
	Method     string      `json:"funding_method,omitempty"` // crypto/USDC/base names a coin and its network, too
	Items      []draftItem `json:"items"`
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
}

// params is the draft in the domain's words.
func (d draft) params() payroll.CreateParams {
	p := payroll.CreateParams{ExternalID: d.ExternalID, Currency: d.Currency}
	p.FundingMethod, p.FundingCurrency, _ = strings.Cut(d.Method, "/")
	p.FundingCurrency, p.FundingNetwork, _ = strings.Cut(p.FundingCurrency, "/")
	for _, it := range d.Items {
		p.ToPay = append(p.ToPay, payroll.Payee{
			UserID: it.Payee, AmountText: it.Amount, Description: it.Description, Category: it.Category, ExternalPaymentID: it.External,
			InvoiceID: it.Invoice, Country: it.Country, IsPremium: it.Premium,
		})
	}
	return p
}

// terms are the fields that say how all of a pay run is made.
func (c *call) terms(ctx context.Context, tx *db.Tx) ([]field, error) {
	currencies := []option{{Value: string(money.USD), Label: string(money.USD)}}
	for _, a := range money.All() {
		if !a.IsCrypto() && a != money.USD {
			currencies = append(currencies, option{Value: string(a), Label: string(a)})
		}
	}
	methods := []option{{Value: "", Label: c.text("funding.usual")}, {Value: payroll.MethodCrypto, Label: c.text("funding.crypto")}}
	for _, n := range c.Payroll.Accounts.Networks {
		for _, a := range n.Assets {
			methods = append(methods, option{Value: strings.Join([]string{payroll.MethodCrypto, string(a), n.Name}, "/"), Label: c.text("funding.on", string(a), networkName(n.Name))})
		}
	}
	if len(c.Payroll.Banks) > 0 {
		methods = append(methods, option{Value: payroll.MethodBank, Label: c.text("funding.bank")})
	}
	balances, err := wallet.Balances(ctx, tx, c.session.Principal(), "")
	if err != nil {
		return nil, err
	}
	for _, b := range balances {
		if b.ID != "" && b.State == wallet.Completed {
			methods = append(methods, option{Value: b.ID, Label: c.text("funding.balance", c.money(b.Available))})
		}
	}
	return []field{
		c.field(field{Name: "currency", Type: "select", Options: currencies}),
		c.field(field{Name: "funding_method", Type: "select", Options: methods}),
		c.field(field{Name: "external_id", Most: 255}),
	}, nil
}

func (c *call) draftTerms() draft {
	return draft{ExternalID: strings.TrimSpace(c.form.Get("external_id")), Currency: c.form.Get("currency"), Method: c.form.Get("funding_method")}
}

type newPayrollPage struct {
	Terms  []field
	Payees []payeeFields
	Search field
	More   string // why not everybody is here
}

// payeeFields are the inputs beside one payee.
type payeeFields struct {
	ID, Name, Country string
	Amount, Note      field
}

// showNewPayroll lists whom the company can pay, with a place for an amount beside each.
func showNewPayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	p := newPayrollPage{}
	var payees []payeeFields
	if c.form == nil {
		found, err := payee.List(ctx, tx, by, payee.ListParams{Search: c.query("search"), Status: payee.Active, SortBy: "name", Page: payee.Page{PerPage: payeesTyped}})
		if err != nil {
			return view{}, err
		}
		for _, r := range found.Items {
			payees = append(payees, payeeFields{ID: r.ID, Name: r.Name, Country: r.Country})
		}
		if found.Total > len(found.Items) {
			p.More = c.text("new.more", c.count(int64(len(found.Items))), c.count(int64(found.Total)))
		}
	} else { // the same as before, whatever has changed since
		ids := c.form["payee"][:min(len(c.form["payee"]), payeesTyped)]
		known, err := payee.Payees(ctx, tx, c.session.Company.ID, ids)
		if err != nil {
			return view{}, err
		}
		for _, id := range ids {
			if who, ok := known[id]; ok {
				payees = append(payees, payeeFields{ID: id, Name: who.Name, Country: who.Country})
			}
		}
	}
	c.labels = map[string]string{}
	for _, who := range payees {
		c.labels["amount."+who.ID], c.labels["note."+who.ID] = who.Name, c.text("new.note", who.Name)
	}
	for _, who := range payees {
		who.Amount = c.field(field{Name: "amount." + who.ID, Label: c.text("new.amount", who.Name), Most: 30})
		who.Note = c.field(field{Name: "note." + who.ID, Label: c.text("new.note", who.Name), Most: 500})
		p.Payees = append(p.Payees, who)
	}
	var err error
	if p.Terms, err = c.terms(ctx, tx); err != nil {
		return view{}, err
	}
	p.Search = c.filter(field{Name: "search", Most: 100})
	return view{page: "payroll_new", title: c.text("payrolls.new"), wide: true, data: p}, nil
}

// typed is what amounts were typed beside payees.
func (c *call) typed() draft {
	d := c.draftTerms()
	for _, id := range c.form["payee"][:min(len(c.form["payee"]), payeesTyped)] {
		if amount := strings.TrimSpace(c.form.Get("amount." + id)); amount != "" {
			d.Items = append(d.Items, draftItem{Payee: id, Amount: amount, Description: strings.TrimSpace(c.form.Get("note." + id))})
		}
	}
	return d
}

// previewTyped shows what the typed amounts would come to, or what is wrong beside them.
func previewTyped(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	d := c.typed()
	if len(d.Items) == 0 {
		return view{}, errNobody.At("body", "")
	}
	return c.preview(ctx, tx, d, func(i int, member string) string {
		if member == "description" {
			return "/note." + d.Items[i].Payee
		}
		return "/amount." + d.Items[i].Payee
	})
}

// previewPage is a pay run that can be confirmed.
type previewPage struct {
	Draft, Key                   string
	Seen                         string // the total, for the answer
	Volume, Fees, Total, Funding string
	Rate, Method                 string
	Payments                     table
	More                         string
	Proof                        string // where to show the second factor, "" when that is not asked
	Approvals                    string
}

// preview shows what a draft would do. When it could not be made it refuses, with what stands in its way; at gives the field for a
// member of an item.
func (c *call) preview(ctx context.Context, tx *db.Tx, d draft, at func(i int, member string) string) (view, error) {
	v, err := c.Payroll.Preview(ctx, tx, c.session.Principal(), d.params())
	if err != nil {
		return view{}, err
	}
	if len(v.Blockers) > 0 {
		return view{}, refused(v.Blockers, at)
	}
	text, err := json.Marshal(d)
	if err != nil {
		return view{}, err
	}
	p := previewPage{
		Draft: string(text), Key: c.form.Get("key"), Seen: v.Total.String(), Volume: c.money(v.Volume), Fees: c.money(v.Fees), Total: c.money(v.Total),
		Funding: c.money(v.Funding), Method: c.text("funding.from_balance"),
		Payments: table{Caption: c.text("payroll.payments"), Heads: c.heads("payment.payee", "payment.amount#", "payroll.fees#", "preview.outputs")},
	}
	if p.Key == "" {
		p.Key = uuid.NewString()
	}
	switch {
	case v.FundingMethod == payroll.MethodBank:
		p.Method = c.text("funding.bank")
	case v.FundingMethod == payroll.MethodCrypto && v.FundingNetwork != "":
		p.Method = c.text("funding.on", string(v.FundingCurrency), networkName(v.FundingNetwork))
	case v.FundingMethod == payroll.MethodCrypto:
		p.Method = c.text("funding.crypto")
	}
	if !v.Rate.IsZero() {
		p.Rate = c.text("payroll.rate.is", string(v.Rate.Base()), c.number(v.Rate.String()), string(v.Rate.Quote()))
	}
	for _, it := range v.Items[:min(len(v.Items), previewShown)] {
		who := cell{Text: it.Name}
		if it.Description != "" {
			who.Lines = []cell{{Text: it.Description}}
		}
		var outs cell
		for i, s := range it.Shares {
			o := cell{Text: c.text("output.to", c.money(s.Amount), string(s.Distribution.Symbol)+" "+s.Distribution.Hint())}
			if i == 0 {
				outs = o
			} else {
				outs.Lines = append(outs.Lines, o)
			}
		}
		p.Payments.Rows = append(p.Payments.Rows, []cell{who, c.amount(it.Amount), c.amount(it.Fee), outs})
	}
	if !c.showedFactor() {
		p.Proof = c.url(proofPath("/payrolls"))
	}
	if v.Approvals > 0 {
		p.Approvals = c.text("preview.approval")
	}
	if len(v.Items) > previewShown {
		p.More = c.text("preview.more", c.count(int64(previewShown)), c.count(int64(len(v.Items))))
	}
	return view{page: "payroll_preview", title: c.text("preview.title"), wide: true, data: p}, nil
}

// refused says what stands in the way of a draft, at the fields of its form.
func refused(blockers []apierr.Field, at func(i int, member string) string) error {
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

// ofDraft reads a draft that came back.
func (c *call) ofDraft() (d draft, err error) {
	if json.Unmarshal([]byte(c.form.Get("draft")), &d) != nil || c.form.Get("key") == "" || len(c.form.Get("key")) > 64 {
		return d, errForm
	}
	return d, nil
}

// showedFactor says whether the reader has shown a second factor lately, or need not.
func (c *call) showedFactor() bool {
	return !c.guarded(c.session.Company.ID) || c.session.ProvenFreshly(c.now)
}

// createPayroll makes the pay run that was confirmed. Sent twice, it is the same one. It asks for a fresh second factor itself: the
// route would lead away from the page, and with it from the draft.
func createPayroll(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	d, err := c.ofDraft()
	if err != nil {
		return view{}, err
	}
	if !c.showedFactor() {
		return view{}, errFactorFirst.At("body", "")
	}
	params := d.params()
	params.Key = c.form.Get("key")
	p, err := c.Payroll.Create(ctx, tx, c.session.Principal(), params)
	if f, ok := apierr.As(err); ok && f.Kind != apierr.Internal && len(f.Fields) == 0 && f.Kind != apierr.Unavailable {
		return view{}, f.At("body", "")
	}
	switch {
	case err != nil:
		return view{}, err
	case p.Total.String() != c.form.Get("seen"):
		return view{}, errChangedPreview.At("body", "")
	case p.FromOutside():
		return view{redirect: payrollPath(p.ID) + "/fund"}, nil
	}
	return view{redirect: payrollPath(p.ID)}, nil
}

// showPreview is the preview again, after the confirmation was refused. Where the draft cannot be made any more, only what stands
// in its way is said.
func showPreview(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	d, err := c.ofDraft()
	if err != nil {
		return view{}, err
	}
	v, err := c.preview(ctx, tx, d, func(int, string) string { return "" })
	if f, ok := apierr.As(err); ok {
		c.problem = f
		return view{page: "payroll_refused", title: c.text("preview.title"), data: nil}, nil
	}
	return v, err
}

// The columns of a file of payments. Those beside payee and amount may be absent.
var importColumns = []string{"payee", "amount", "description", "category", "external_payment_id", "invoice_id", "country", "is_premium"}

type importPage struct {
	Terms   []field
	CSV     string
	Columns []string
	Rows    table // what is wrong with the file, by row
	Problem said
}

// showImport asks for a file, and says what was wrong with the last one.
func showImport(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p := importPage{Columns: importColumns, CSV: c.form.Get("csv")}
	if data, err := c.upload("file"); err != nil {
		return view{}, err
	} else if len(data) > 0 {
		p.CSV = "" // the file is the reader's; it is chosen again
	}
	var err error
	if p.Terms, err = c.terms(ctx, tx); err != nil {
		return view{}, err
	}
	if c.problem != nil {
		p.Rows = table{Caption: c.text("import.problems"), Heads: c.heads("import.row#", "import.column", "import.wrong")}
		kept := *c.problem
		kept.Fields = nil
		for _, f := range c.problem.Fields {
			row, column, ofRow := rowOf(f.Pointer)
			if !ofRow {
				kept.Fields = append(kept.Fields, f)
				continue
			}
			if len(p.Rows.Rows) < problemsShown {
				p.Rows.Rows = append(p.Rows.Rows, []cell{{Text: row, Kind: "number"}, {Text: column}, {Text: c.said(f.Code, f.Message, column).Text}})
			}
		}
		if len(p.Rows.Rows) > 0 {
			kept.Fields = append(kept.Fields, apierr.Field{Code: "file_refused", Pointer: "/file", Message: "Some rows cannot be paid as they are, so nothing was made."})
		}
		c.problem = &kept
		for _, w := range c.problems() {
			if w.Name == "file" {
				p.Problem = w.said
			}
		}
	}
	return view{page: "payroll_import", title: c.text("payrolls.import"), wide: true, data: p}, nil
}

// atRow is the pointer to a column of a row, which rowOf reads.
func atRow(row int, column string) string { return fmt.Sprintf("/row/%d/%s", row, column) }

func rowOf(pointer string) (row, column string, ok bool) {
	parts := strings.Split(pointer, "/")
	if len(parts) == 4 && parts[1] == "row" {
		return parts[2], parts[3], true
	}
	return "", "", false
}

// previewImport reads a file, resolves whom it names, and shows what it would come to, or what is wrong with which row.
func previewImport(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	text := c.form.Get("csv")
	if data, err := c.upload("file"); err != nil {
		return view{}, err
	} else if len(data) > 0 {
		text = string(data)
	}
	d := c.draftTerms()
	rows, err := readPayments(text, &d)
	if err != nil {
		return view{}, err
	}
	if err := resolve(ctx, tx, c.session.Company.ID, &d, rows); err != nil {
		return view{}, err
	}
	return c.preview(ctx, tx, d, func(i int, member string) string {
		column := member
		switch member {
		case "user_id", "company_id":
			column = "payee"
		case "amount_fiat":
			column = "amount"
		}
		return atRow(rows[i], column)
	})
}

// resolve replaces names of payees by ids, or refuses every row that names nobody.
func resolve(ctx context.Context, tx *db.Tx, companyID string, d *draft, rows []int) error {
	var names []string
	for _, it := range d.Items {
		names = append(names, it.Payee)
	}
	slices.Sort(names)
	ids, err := payee.Resolve(ctx, tx, companyID, slices.Compact(names))
	if err != nil {
		return err
	}
	var list apierr.List
	for i := range d.Items {
		id, found := ids[d.Items[i].Payee]
		if !found {
			list.Add("unknown_payee", atRow(rows[i], "payee"), "Nobody, or more than one payee, has this id, external id or email address.")
			continue
		}
		d.Items[i].Payee = id
	}
	return list.Err()
}
