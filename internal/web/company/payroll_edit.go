package company

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

type editPage struct {
	Path   string
	Terms  []ui.Field
	Payees []payeeFields
}

// editablePayroll returns the payroll of the URL, if its amounts can be changed on a page.
func editablePayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (payroll.Payroll, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err == nil && (p.State != payroll.Pending || len(p.Payments) > maxPayeeInputs) {
		err = apierr.NotFoundErr
	}
	return p, err
}

// showEdit renders the form that changes a payroll before its funding.
func showEdit(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := editablePayroll(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	v := editPage{Path: payrollPath(p.ID) + "/edit",
		Terms: []ui.Field{c.Field(ui.Field{Name: "external_id", MaxLength: 255, Value: p.ExternalID}),
			c.Field(ui.Field{Name: "period_start", Type: "date", Value: p.Period.Start}),
			c.Field(ui.Field{Name: "period_end", Type: "date", Value: p.Period.End})}}
	c.Labels = map[string]string{}
	for _, m := range p.Payments {
		c.Labels[editName(m)] = names[m.PayeeID]
	}
	for _, m := range p.Payments {
		name := names[m.PayeeID]
		label, amount := c.Text("new.amount", name), m.Amount
		if m.Receive.Sign() > 0 {
			label, amount = c.Text("new.receive", name, string(m.Receive.Asset())), m.Receive
		}
		v.Payees = append(v.Payees, payeeFields{ID: m.PayeeID, Name: name, Amount: c.Field(ui.Field{
			Name: editName(m), Label: label, MaxLength: 30, InputMode: "decimal", Value: amount.String()})})
	}
	return ui.View{Template: "payroll_edit", Title: c.Text("edit.title"), Crumbs: append(payrollCrumbs(c),
		c.LinkCell(payrollName(c, p), payrollPath(p.ID))), Data: v}, nil
}

// editName returns the name of the field with the amount of a payment. Each change of a payroll creates new payments,
// so a form that was opened before the change names none of them.
func editName(m payroll.Payment) string { return "amount." + m.ID }

// editPayroll changes the amounts, the reference and the pay period of a payroll. A payee without an amount is left
// out.
func editPayroll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := editablePayroll(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	reference := strings.TrimSpace(c.Form.Get("external_id"))
	period := periodOf(c)
	e := payroll.EditParams{PayrollID: p.ID, ExternalID: &reference, Period: &period}
	documents, err := vendorbill.OfPayments(ctx, tx, c.Session.Principal(), p.ID)
	if err != nil {
		return ui.View{}, err
	}
	var fields, kept []string // fields and documents of e.ToPay
	for _, m := range p.Payments {
		text := strings.TrimSpace(c.Form.Get(editName(m)))
		if text == "" {
			continue
		}
		to := payroll.Payee{UserID: m.PayeeID, ReceiveCurrency: string(m.Receive.Asset()),
			Country: m.Country, IsPremium: m.IsPremium, InvoiceID: m.InvoiceID, Description: m.Description,
			Category: m.Category, ExternalPaymentID: m.ExternalPaymentID, Metadata: m.Metadata}
		to.SetAmount(c.PlainAmount(text, cmp.Or(m.Receive.Asset(), p.Currency)))
		e.ToPay = append(e.ToPay, to)
		fields = append(fields, editName(m))
		if id := documents[m.ID]; id != "" {
			kept = append(kept, id)
		}
	}
	if len(e.ToPay) == 0 {
		return ui.View{}, errNobody.At("body", "")
	}
	_, err = c.Vendor.Edit(ctx, tx, c.Session.Principal(), e, kept)
	err = ui.RenameFields(ui.FormConflict(err), func(pointer string) string {
		var i int
		if k, _ := fmt.Sscanf(pointer, "/to_pay/%d/", &i); k == 1 && i < len(fields) {
			return "/" + fields[i]
		}
		return pointer
	})
	return ui.View{Redirect: payrollPath(p.ID)}, err
}
