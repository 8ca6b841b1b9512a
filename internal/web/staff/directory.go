package staff

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

// Paths of the directory.
const (
	companiesPath = ui.StaffPath + "/companies"
	peoplePath    = ui.StaffPath + "/people"
	paymentsPath  = ui.StaffPath + "/payments"
)

// listPage is a list with a search.
type listPage struct {
	Lead    string
	Filters ui.Filters
	Table   ui.Table
	Pager   ui.Pager
}

// recordPage is the record of a company, a person or the assets: facts, tables, and forms with actions.
type recordPage struct {
	Lead   string
	Facts  []fact
	Tables []ui.Table
	Notes  []note
	Forms  []actionForm
}

type fact struct{ Name, Value string }

type note struct{ By, At, Text string }

// actionForm is a form with an action of staff. Its ID makes the IDs of its fields unique on the page.
type actionForm struct {
	ID, Title, Lead, Path, Button, Tone string
	Hidden                              []ui.Option
	Fields                              []ui.Field
	Note                                bool // the form has a field of several lines for a note, and no reason
}

// filter returns the filter of the directory from the query.
func filter(c *ui.Request) identity.DirectoryFilter {
	q := c.HTTP.URL.Query()
	return identity.DirectoryFilter{Text: strings.TrimSpace(q.Get("q")), Status: q.Get("status"), KYBStatus: q.Get("kyb"),
		Page: c.Page()}
}

// search returns the field for the text of a search.
func search(c *ui.Request, label string) ui.Field {
	return c.Filter(ui.Field{Name: "q", Label: c.Text(label), MaxLength: 200})
}

// showCompanies lists all companies.
func showCompanies(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := filter(c)
	all, total, err := identity.Directory(ctx, tx, f)
	if err != nil {
		return ui.View{}, err
	}
	p := listPage{Filters: c.FilterBar(companiesPath, search(c, "operations.directory.text"),
		c.Filter(ui.Field{Name: "status", Label: c.Text("payroll.status"), Type: "select", Options: c.Choices(
			"operations.status", identity.CompanyActive, identity.CompanyFrozen, identity.CompanyClosed)}),
		c.Filter(ui.Field{Name: "kyb", Label: c.Text("operations.verification"), Type: "select", Options: c.Choices(
			"operations.verified", "not_started", "pending", "in_review", "ubo_pending", "approved", "resubmission_required",
			"rejected")})),
		Table: ui.Table{Caption: c.Text("operations.companies"), Empty: c.Empty("operations.empty"), Heads: c.Columns(
			"operations.company|a", "field.email|e", "payroll.status|c", "operations.verification|b",
			"operations.since|d")},
		Pager: c.Pager(f.Page, total)}
	for i := range all {
		name := c.LinkCell(all[i].Name, companiesPath+"/"+all[i].ID)
		name.Lines = []ui.Cell{ui.CodeCell(all[i].ID)}
		p.Table.Rows = append(p.Table.Rows, []ui.Cell{name, {Text: all[i].Email},
			c.StateCell("operations.status", all[i].Status), c.StateCell("operations.verified", all[i].KYBStatus),
			c.TimeCell(all[i].Created)})
	}
	return ui.View{Template: "operations_list", Title: c.Text("operations.companies"), Data: p}, nil
}

// showPeople lists all people.
func showPeople(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	f := filter(c)
	all, total, err := identity.People(ctx, tx, f)
	if err != nil {
		return ui.View{}, err
	}
	p := listPage{Filters: c.FilterBar(peoplePath, search(c, "operations.directory.text")),
		Table: ui.Table{Caption: c.Text("operations.people"), Empty: c.Empty("operations.empty"), Heads: c.Columns(
			"operations.person|a", "field.email|e", "operations.verification|c", "operations.since|d")},
		Pager: c.Pager(f.Page, total)}
	for i := range all {
		name := c.LinkCell(cmp.Or(all[i].Name(), all[i].ID), peoplePath+"/"+all[i].ID)
		name.Lines = []ui.Cell{ui.CodeCell(all[i].ID)}
		p.Table.Rows = append(p.Table.Rows, []ui.Cell{name, {Text: all[i].Email},
			c.StateCell("operations.verified", all[i].KYCStatus), c.TimeCell(all[i].Created)})
	}
	return ui.View{Template: "operations_list", Title: c.Text("operations.people"), Data: p}, nil
}

// showPayments searches payments of all companies.
func showPayments(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	found, err := backoffice.FindPayments(ctx, tx, c.HTTP.URL.Query().Get("q"))
	if err != nil {
		return ui.View{}, err
	}
	p := listPage{Lead: c.Text("operations.payments.lead"), Filters: c.FilterBar(paymentsPath,
		search(c, "operations.payments.text")),
		Table: paymentTable(c, found)}
	return ui.View{Template: "operations_list", Title: c.Text("operations.payments"), Data: p}, nil
}

// paymentTable returns a table of found payments.
func paymentTable(c *ui.Request, found []backoffice.Found) ui.Table {
	t := ui.Table{Caption: c.Text("operations.payments"), Empty: c.Empty("operations.empty"), Heads: c.Columns(
		"operations.object|a", "operations.company|e", "payroll.status|c", "payment.amount#|b", "operations.since|d")}
	prefixes := map[string]string{backoffice.KindPayroll: "payroll.state", backoffice.KindClaim: "claim.state",
		backoffice.KindPayout: "output.state", backoffice.KindDeposit: "operations.found",
		backoffice.KindTransfer: "operations.found"}
	for _, f := range found {
		object := ui.Cell{Text: c.Text("operations.kind." + f.Kind), Lines: []ui.Cell{ui.CodeCell(f.ID)}}
		for _, line := range []string{f.OfID, f.Detail} {
			if line != "" {
				object.Lines = append(object.Lines, ui.CodeCell(line))
			}
		}
		company := ui.CodeCell(f.CompanyID)
		if strings.HasPrefix(f.CompanyID, "com_") {
			company = c.LinkCell(f.CompanyID, companiesPath+"/"+f.CompanyID)
		}
		t.Rows = append(t.Rows, []ui.Cell{object, company, c.StateCell(prefixes[f.Kind], f.State), c.AmountCell(f.Amount),
			c.TimeCell(f.At)})
	}
	return t
}

// percent returns basis points as a percentage, such as "1.25 %".
func percent(bps int64) string {
	return strconv.FormatInt(bps/100, 10) + "." + strconv.FormatInt(bps%100/10, 10) + strconv.FormatInt(bps%10, 10) + " %"
}

// showCompany renders the record of a company.
func showCompany(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	company, err := identity.CompanyByID(ctx, tx, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	at := companiesPath + "/" + company.ID
	p := recordPage{Facts: []fact{{c.Text("operations.object"), company.ID}, {c.Text("field.email"), company.Email},
		{c.Text("recipient.country"), company.Country}, {c.Text("operations.verification"),
			c.Word("operations.verified", company.KYBStatus)},
		{c.Text("operations.fees.fee"), percent(company.FeeBps)},
		{c.Text("operations.fees.premium"), percent(company.PremiumBps)},
		{c.Text("operations.fees.tolerance"), percent(company.ToleranceBps)}}}
	limits, err := companyLimits(ctx, tx, c, company.ID)
	if err != nil {
		return ui.View{}, err
	}
	p.Facts = append(p.Facts, limits...)
	members, err := auth.Members(ctx, tx, company.ID)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("members.title"), Empty: c.Empty("operations.empty"),
		Heads: c.Columns("operations.person|a", "field.email|e", "operations.role|b")}
	for _, m := range members {
		name := ui.Cell{Text: cmp.Or(m.Name, m.UserID)}
		if c.Staff.Member.Has(backoffice.Support, backoffice.Compliance) {
			name = c.LinkCell(name.Text, peoplePath+"/"+m.UserID)
		}
		t.Rows = append(t.Rows, []ui.Cell{name, {Text: m.Email}, {Text: c.RoleName(m.Role)}})
	}
	found, err := backoffice.FindPayments(ctx, tx, company.ID)
	if err != nil {
		return ui.View{}, err
	}
	p.Tables = []ui.Table{t, paymentTable(c, found).WithoutColumn(1)}
	if p.Notes, err = notes(ctx, tx, c, company.ID); err != nil {
		return ui.View{}, err
	}
	fees := []ui.Field{basisPoints(c, "fee_bps", "operations.fees.fee", company.FeeBps),
		basisPoints(c, "premium_bps", "operations.fees.premium", company.PremiumBps),
		basisPoints(c, "tolerance_bps", "operations.fees.tolerance", company.ToleranceBps), reason(c)}
	p.add(c, backoffice.AddNote, noteForm(c, at))
	p.add(c, backoffice.ChangeFees, actionForm{ID: "fees", Title: c.Text("operations.fees"),
		Lead: c.Text("operations.fees.lead"), Path: at + "/fees", Button: c.Text("operations.fees.ask"), Fields: fees})
	p.add(c, backoffice.ExportCase, caseForm(c, at))
	if err := p.addHold(ctx, tx, c, company.ID); err != nil {
		return ui.View{}, err
	}
	switch company.Status {
	case identity.CompanyActive:
		p.add(c, backoffice.Freeze, actionForm{ID: "freeze", Title: c.Text("operations.freeze"), Tone: "danger",
			Path: companiesPath + "/freeze", Button: c.Text("operations.freeze"),
			Hidden: []ui.Option{{Label: "company_id", Value: company.ID}}, Fields: []ui.Field{reason(c)}})
	case identity.CompanyFrozen:
		p.add(c, backoffice.Unfreeze, actionForm{ID: "unfreeze", Title: c.Text("operations.unfreeze"),
			Path: ui.StaffPath + "/requests", Button: c.Text("operations.unfreeze"), Hidden: []ui.Option{
				{Label: "company_id", Value: company.ID}, {Label: "action", Value: backoffice.Unfreeze}},
			Fields: []ui.Field{reason(c)}})
	}
	if company.Status != identity.CompanyClosed {
		p.add(c, backoffice.CloseCompany, actionForm{ID: "close", Title: c.Word("operations.act", backoffice.CloseCompany),
			Lead: c.Text("operations.company.close"), Tone: "danger", Path: at + "/close",
			Button: c.Word("operations.act", backoffice.CloseCompany), Fields: []ui.Field{reason(c)}})
	}
	return ui.View{Template: "operations_record", Title: company.Name, Data: p,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("operations.companies"), companiesPath)},
		State:  companyState(c, company.Status)}, nil
}

// companyState returns the badge of a company's status.
func companyState(c *ui.Request, status string) ui.Cell {
	s := ui.Cell{Text: c.Word("operations.status", status), Tone: "green", Icon: "circle-check"}
	if status != identity.CompanyActive {
		s.Tone, s.Icon = "red", "lock"
	}
	return s
}

// companyLimits returns the limits that apply to a company's payments.
func companyLimits(ctx context.Context, tx *db.Tx, c *ui.Request, companyID string) ([]fact, error) {
	none := c.Text("operations.none")
	amount := func(a money.Amount) string {
		if a.Asset() == "" {
			return none
		}
		return c.FormatMoney(a)
	}
	own, err := approval.LimitOfCompany(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	all := []fact{{c.Text("operations.limits.release"), amount(c.Backoffice.ReleaseLimit())},
		{c.Text("operations.limits.approval"), amount(own.Amount)}}
	debits, err := directdebit.LimitsOf(ctx, tx, companyID)
	for _, l := range debits {
		all = append(all, fact{c.Text("operations.debits.limits"), c.FormatMoney(l.Used) + " / " + c.FormatMoney(l.Limit)})
	}
	return all, err
}

// showPerson renders the record of a person.
func showPerson(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	u, err := identity.GetUser(ctx, tx, nil, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	at := peoplePath + "/" + u.ID
	factor, err := auth.HasFactor(ctx, tx, u.ID)
	if err != nil {
		return ui.View{}, err
	}
	second := c.Text("operations.none")
	if factor {
		second = c.Text("operations.factor.set")
	}
	p := recordPage{Facts: []fact{{c.Text("operations.object"), u.ID}, {c.Text("field.email"), u.Email},
		{c.Text("recipient.country"), u.Country},
		{c.Text("operations.verification"), c.Word("operations.verified", u.KYCStatus)},
		{c.Text("operations.factor"), second}}}
	memberships, err := identity.Memberships(ctx, tx, u.ID)
	if err != nil {
		return ui.View{}, err
	}
	t := ui.Table{Caption: c.Text("operations.companies"), Empty: c.Empty("operations.empty"),
		Heads: c.Columns("operations.company|a", "operations.role|b")}
	for _, m := range memberships {
		company, err := identity.CompanyByID(ctx, tx, m.CompanyID)
		if err != nil {
			return ui.View{}, err
		}
		t.Rows = append(t.Rows, []ui.Cell{c.LinkCell(company.Name, companiesPath+"/"+company.ID),
			{Text: c.RoleName(m.Role)}})
	}
	p.Tables = []ui.Table{t}
	if p.Notes, err = notes(ctx, tx, c, u.ID); err != nil {
		return ui.View{}, err
	}
	p.add(c, backoffice.AddNote, noteForm(c, at))
	p.add(c, backoffice.ExportCase, caseForm(c, at))
	if err := p.addHold(ctx, tx, c, u.ID); err != nil {
		return ui.View{}, err
	}
	for _, action := range []string{backoffice.SignOut, backoffice.Unlock, backoffice.RemoveFactor,
		backoffice.CloseAccount} {
		if action == backoffice.RemoveFactor && !factor || action == backoffice.CloseAccount && u.Closed {
			continue
		}
		name := strings.TrimPrefix(action, "support.")
		p.add(c, action, actionForm{ID: name, Title: c.Word("operations.act", action),
			Lead: c.Text("operations.support." + name), Path: at + "/support", Button: c.Word("operations.act", action),
			Hidden: []ui.Option{{Label: "action", Value: action}}, Fields: []ui.Field{reasonCode(c), reason(c)}})
	}
	return ui.View{Template: "operations_record", Title: cmp.Or(u.Name(), u.ID), Data: p,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("operations.people"), peoplePath)}}, nil
}

// add adds a form if the reader's role permits its action.
func (p *recordPage) add(c *ui.Request, action string, f actionForm) {
	if c.Staff.Member.May(action) {
		p.Forms = append(p.Forms, f)
	}
}

func noteForm(c *ui.Request, at string) actionForm {
	return actionForm{ID: "note", Title: c.Text("operations.note"), Path: at + "/notes", Note: true,
		Button: c.Text("operations.note.add")}
}

func reason(c *ui.Request) ui.Field {
	return ui.Field{Name: "reason", Label: c.Text("operations.reason"), Required: true, MaxLength: 500}
}

func reasonCode(c *ui.Request) ui.Field {
	f := ui.Field{Name: "reason_code", Label: c.Text("operations.reason_code"), Type: "select"}
	for _, code := range backoffice.ReasonCodes {
		f.Options = append(f.Options, ui.Option{Value: code, Label: c.Word("operations.code", code)})
	}
	return f
}

func basisPoints(c *ui.Request, name, label string, value int64) ui.Field {
	return ui.Field{Name: name, Label: c.Text(label), Required: true, MaxLength: 5, InputMode: "numeric",
		Value: strconv.FormatInt(value, 10)}
}

// notes returns the notes about a company or a person.
func notes(ctx context.Context, tx *db.Tx, c *ui.Request, subjectID string) (all []note, err error) {
	found, err := c.Backoffice.Notes(ctx, tx, subjectID)
	for _, n := range found {
		all = append(all, note{n.Name, c.FormatTime(n.At), n.Text})
	}
	return all, err
}

// addCompanyNote adds a note about a company.
func addCompanyNote(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return addNote(ctx, tx, c, companiesPath)
}

// addPersonNote adds a note about a person.
func addPersonNote(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return addNote(ctx, tx, c, peoplePath)
}

func addNote(ctx context.Context, tx *db.Tx, c *ui.Request, path string) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	err := c.Backoffice.AddNote(ctx, tx, *c.Staff, id, c.Form.Get("note"))
	return ui.View{Redirect: path + "/" + id}, ui.FormConflict(err)
}

// requestFees requests that the fees of a company are changed.
func requestFees(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	var to [3]int64
	for i, name := range []string{"fee_bps", "premium_bps", "tolerance_bps"} {
		var err error
		if to[i], err = strconv.ParseInt(strings.TrimSpace(c.Form.Get(name)), 10, 64); err != nil {
			to[i] = -1
		}
	}
	id := c.HTTP.PathValue("id")
	err := c.Backoffice.RequestFees(ctx, tx, *c.Staff, id, identity.Fees{FeeBps: to[0], PremiumBps: to[1],
		ToleranceBps: to[2]}, c.Form.Get("reason"))
	return ui.View{Redirect: companiesPath + "/" + id}, ui.FormConflict(err)
}

// supportPerson performs or requests a support action on a person's account.
func supportPerson(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	if c.Form.Get("action") == "" {
		return ui.View{}, apierr.NotFoundErr
	}
	err := c.Backoffice.SupportPerson(ctx, tx, *c.Staff, c.Form.Get("action"), id, c.Form.Get("reason_code"),
		c.Form.Get("reason"))
	return ui.View{Redirect: peoplePath + "/" + id}, ui.FormConflict(err)
}
