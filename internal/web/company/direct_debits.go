package company

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	debitsPath   = "/wallets/direct-debits"
	mandatesPath = "/wallets/mandates"
)

func debitPath(id string) string   { return debitsPath + "/" + id }
func mandatePath(id string) string { return mandatesPath + "/" + id }

type debitsPage struct {
	Held     []string
	Fields   []ui.Field // for a new debit; empty if not possible
	Key      string
	Offered  bool // whether the member can accept a mandate
	Mandates ui.Table
	List     ui.Table
}

// showDebits lists the mandates and direct debits, and renders the form for a new debit.
func showDebits(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	all, total, err := directdebit.List(ctx, tx, by, "", c.Page())
	if err != nil {
		return ui.View{}, err
	}
	mandates, err := directdebit.Mandates(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	held, err := directdebit.Held(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	p := debitsPage{
		Offered: c.Session.Administers() && len(c.Debits.Schemes("")) > 0, Key: c.ID,
		Mandates: ui.Table{Caption: c.Text("debits.mandates"),
			Heads: c.Columns("mandate.account|a", "payroll.status|c", "mandate.scheme|d", "mandate.accepted#|b")},
		List: ui.Table{Caption: c.Text("debits.title"), Pager: c.Pager(c.Page(), total), Empty: c.Empty("debits.none"),
			Heads: c.Columns("debit.due|a", "payroll.status|c", "debit.available#|d", "payment.amount#|b")},
	}
	p.Mandates.Empty = c.EmptyStep("landmark", "debits.mandates.none", p.Offered, "mandate.add", "/wallets/mandates/new")
	for _, a := range []money.Asset{money.EUR, money.USD} {
		if x, ok := held[a]; ok && x.Sign() > 0 {
			p.Held = append(p.Held, c.Text("debits.held", c.FormatMoney(x)))
		}
	}
	var options []ui.Option
	for _, m := range mandates {
		p.Mandates.Rows = append(p.Mandates.Rows, []ui.Cell{c.LinkCell(m.Hint(), mandatePath(m.ID)),
			withReason(c, c.StateCell("mandate.state", string(m.State)), m.Reason),
			{Text: c.Word("mandate.scheme", string(m.Scheme))}, c.TimeCell(m.AcceptedAt)})
		if m.State == directdebit.MandateActive {
			options = append(options, ui.Option{Value: m.ID, Label: m.Hint()})
		}
	}
	for _, d := range all {
		p.List.Rows = append(p.List.Rows, []ui.Cell{c.LinkCell(d.DueOn, debitPath(d.ID)),
			withReason(c, c.StateCell("debit.state", string(d.State)), d.Reason), c.AmountCell(d.Released),
			c.AmountCell(d.Amount)})
	}
	if c.Session.Administers() && len(options) > 0 {
		for name, text := range map[string]string{"mandate_id": "mandate.account", "amount": "payment.amount",
			"due_on": "debit.due", "description": "debit.description"} {
			c.Labels = withLabel(c.Labels, name, c.Text(text))
		}
		p.Fields = []ui.Field{
			c.Field(ui.Field{Name: "mandate_id", Label: c.Text("mandate.account"), Type: "select", Options: options}),
			c.Field(ui.Field{Name: "amount", Label: c.Text("payment.amount"), Required: true, MaxLength: 40}),
			c.Field(ui.Field{Name: "due_on", Label: c.Text("debit.due"), Type: "date", Hint: c.Text("debit.due.hint")}),
			c.Field(ui.Field{Name: "description", Label: c.Text("debit.description"), MaxLength: 140}),
		}
	}
	return ui.View{Template: "debits", Title: c.Text("debits.title"), Data: p}, nil
}

// withReason adds the reason of a state to its cell: a bank's code with its meaning, or a word.
func withReason(c *ui.Request, cell ui.Cell, reason string) ui.Cell {
	if reason != "" {
		cell.Lines = []ui.Cell{{Text: debitReason(c, reason)}}
	}
	return cell
}

func debitReason(c *ui.Request, reason string) string {
	if key := "debit.reason." + reason; c.HasText(key) {
		return c.Text(key)
	}
	return c.Text("debit.reason.code", reason)
}

// createDebit schedules the posted direct debit. Posting the form twice creates one.
func createDebit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p := directdebit.Params{MandateID: c.Form.Get("mandate_id"), AmountText: c.Form.Get("amount"),
		DueOn: c.Form.Get("due_on"), Description: c.Form.Get("description"), Key: c.Form.Get("key")}
	if p.Key == "" || len(p.Key) > 64 {
		return ui.View{}, ui.ErrForm
	}
	m, err := directdebit.GetMandate(ctx, tx, c.Session.Principal(), "", p.MandateID)
	if err != nil && !errors.Is(err, apierr.NotFoundErr) {
		return ui.View{}, err
	}
	if m.ID != "" {
		p.AmountText = c.PlainAmount(p.AmountText, m.Scheme.Asset())
	}
	d, err := c.Debits.Create(ctx, tx, c.Session.Principal(), p)
	return ui.View{Redirect: debitPath(d.ID)}, ui.FormConflict(err)
}

type debitPage struct {
	Path, ID, Amount, Available, Due, Held, Account, Mandate, Reference, Reason, Description string
	Payroll                                                                                  string // path, or ""
	Cancellable, Retryable                                                                   bool
	Steps                                                                                    ui.Table
}

// showDebit renders a direct debit with its history.
func showDebit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := directdebit.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	p := debitPage{Path: debitPath(d.ID), ID: d.ID, Amount: c.FormatMoney(d.Amount), Available: c.FormatMoney(d.Released),
		Due: d.DueOn, Account: d.Mandate.Hint(), Mandate: mandatePath(d.Mandate.ID), Reference: d.Reference(),
		Description: d.Description,
		Cancellable: c.Session.Administers() && d.State == directdebit.Scheduled,
		Retryable:   c.Session.Administers() && d.Retryable(tx.Now())}
	if d.Reason != "" {
		p.Reason = debitReason(c, d.Reason)
	}
	if d.PayrollID != "" {
		p.Payroll = payrollPath(d.PayrollID)
	}
	if d.State == directdebit.Collected {
		p.Held = c.FormatTime(d.HeldUntil)
	}
	p.Steps, err = debitSteps(ctx, tx, c, d.CompanyID, d.ID, "debit.state")
	return ui.View{Template: "debit", Title: c.Text("debit.title", p.Amount), Data: p}, err
}

// debitSteps returns the history of a direct debit or mandate.
func debitSteps(ctx context.Context, tx *db.Tx, c *ui.Request, companyID, id, words string) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("payroll.timeline"), Heads: c.Columns("step.at", "step.to")}
	changes, err := db.Changes(ctx, tx, companyID, id)
	for _, h := range changes {
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(db.Time(h.At)), {Text: c.Word(words, h.To)}})
	}
	return t, err
}

// cancelDebit cancels a direct debit that was not sent.
func cancelDebit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Debits.Cancel(ctx, tx, c.Session.Principal(), "", id)
	return ui.View{Redirect: debitPath(id)}, err
}

// retryDebit repeats a returned direct debit.
func retryDebit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := c.Debits.RetryDebit(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	return ui.View{Redirect: debitPath(d.ID)}, ui.FormConflict(err)
}

type mandateForm struct {
	destinationPage

	Scheme, SchemeName, Text, Language string
}

// debitCrumbs returns the links to the pages above those of direct debits.
func debitCrumbs(c *ui.Request) []ui.Cell {
	return []ui.Cell{c.LinkCell(c.Text("wallets.title"), "/wallets"), c.LinkCell(c.Text("debits.title"), debitsPath)}
}

// showNewMandate asks for the scheme of a mandate, then for its account, and shows the text to accept.
func showNewMandate(_ context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	scheme, title := bank.DebitScheme(formOrQuery(c, "scheme")), c.Text("mandate.new")
	if scheme == "" {
		p := mandateForm{}
		for _, s := range c.Debits.Schemes("") {
			p.Ways = append(p.Ways, destinationChoice{Icon: "landmark", Currency: c.Word("mandate.scheme", string(s)),
				Why: c.Word("mandate.why", string(s)), Path: c.URL(mandatesPath + "/new?scheme=" + string(s))})
		}
		return ui.View{Template: "mandate_new", Title: title, Crumbs: debitCrumbs(c), Data: p}, nil
	}
	language := c.Language.Tag
	text, err := c.Debits.Text(scheme, language)
	if err != nil {
		return ui.View{}, err
	}
	rail := "" // the only one in SEPA
	if !scheme.SEPA() {
		rail = "ach"
	}
	asked := destinationPage{Path: mandatesPath, Symbol: string(scheme.Asset()), Rail: rail}
	v, err := askDestination(c, asked, title, c.Session.Company.Country, func(symbol string) (destination.Requirement,
		error) {
		return Setup(c).RequiredByCompany(symbol, c.Session.Company.Country)
	})
	if p, ok := v.Data.(destinationPage); ok {
		c.Labels = withLabel(c.Labels, "accepted", c.Text("mandate.accept"))
		v.Template, v.Data = "mandate_new", mandateForm{p, string(scheme), c.Word("mandate.scheme", string(scheme)), text,
			language}
	}
	v.Crumbs = debitCrumbs(c)
	return v, err
}

// createMandate stores the mandate that the member accepted.
func createMandate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	data, err := destinationData(c)
	if err != nil {
		return ui.View{}, err
	}
	browser := c.HTTP.UserAgent()
	m, err := c.Debits.AddMandate(ctx, tx, c.Session.Principal(), directdebit.MandateParams{
		Scheme: c.Form.Get("scheme"), Data: data, Language: cmp.Or(c.Form.Get("language"), c.Language.Tag),
		Accepted: c.Form.Get("accepted") != "", Address: c.RemoteAddr().String(), Browser: browser[:min(len(browser), 300)],
	})
	return ui.View{Redirect: mandatePath(m.ID)}, destinationFormError(err)
}

type mandatePage struct {
	Path, Account, Scheme, Reference, Creditor, CreditorID, Reason, By, At, From, Browser, Text, Language string
	Revocable                                                                                             bool
	Steps                                                                                                 ui.Table
}

// showMandate renders a mandate with the proof of it.
func showMandate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	m, err := directdebit.GetMandate(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	proof, err := c.Debits.ProofOf(m)
	if err != nil {
		return ui.View{}, err
	}
	names, err := memberNames(ctx, c, tx, m.AcceptedBy)
	if err != nil {
		return ui.View{}, err
	}
	p := mandatePage{Path: mandatePath(m.ID), Account: m.Hint(), Scheme: c.Word("mandate.scheme", string(m.Scheme)),
		Reference: m.Reference, Creditor: m.Creditor, CreditorID: m.CreditorID, By: cmp.Or(names[0], m.AcceptedBy),
		At: m.AcceptedAt.UTC().Format(time.RFC3339), From: proof.Address, Browser: proof.Browser, Text: proof.Text,
		Language: proof.Language, Revocable: c.Session.Administers() && m.State != directdebit.MandateRevoked &&
			m.State != directdebit.MandateEnded}
	if m.Reason != "" {
		p.Reason = debitReason(c, m.Reason)
	}
	p.Steps, err = debitSteps(ctx, tx, c, m.CompanyID, m.ID, "mandate.state")
	return ui.View{Template: "mandate", Title: c.Text("mandate.title", m.Hint()), Data: p}, err
}

// revokeMandate revokes a mandate.
func revokeMandate(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Debits.Revoke(ctx, tx, c.Session.Principal(), "", id)
	return ui.View{Redirect: mandatePath(id)}, err
}
