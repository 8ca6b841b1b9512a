package company

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/web/ui"
)

// payrollPDF exports the statement of a payroll as PDF, in the user's language.
func payrollPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().PayrollPDF(c.Session.Company.Name, p, names, tx.Now()))
}

// payrollCSV exports the statement of a payroll with one row per output, or one for a payment without outputs.
func payrollCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, err := c.Payroll.Get(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(document.PayrollCSV(p, names))
}
