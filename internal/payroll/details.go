package payroll

import (
	"context"
	"maps"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payout"
)

// Details returns the details of what each output of a company pays for, by output ID. For outputs without a payroll,
// such as withdrawals, only the paying company is set.
func Details(ctx context.Context, tx *db.Tx, companyID string, outs []payout.Output) (map[string]payout.Details,
	error) {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	paying := map[string]map[string]bool{} // IDs of payments by payroll
	for _, o := range outs {
		if paying[o.PayrollID] == nil {
			paying[o.PayrollID] = map[string]bool{}
		}
		paying[o.PayrollID][o.PaymentID] = true
	}
	payments := map[string]Payment{}
	for payrollID, ids := range paying {
		if err := paymentTexts(ctx, tx, companyID, payrollID, slices.Sorted(maps.Keys(ids)), payments); err != nil {
			return nil, err
		}
	}
	var payeeIDs, invoiceIDs []string
	for _, m := range payments {
		payeeIDs = append(payeeIDs, m.PayeeID)
		if invoice.Is(m.InvoiceID) {
			invoiceIDs = append(invoiceIDs, m.InvoiceID)
		}
	}
	payees, err := payee.Payees(ctx, tx, companyID, unique(payeeIDs))
	if err != nil {
		return nil, err
	}
	invoices, err := invoice.Named(ctx, tx, invoiceIDs)
	if err != nil {
		return nil, err
	}
	all := make(map[string]payout.Details, len(outs))
	for _, o := range outs {
		d := payout.Details{Payer: company.Name, PayerCountry: company.Country}
		if m, found := payments[o.PaymentID]; found {
			d.Description, d.Invoice = m.Description, m.InvoiceID
			if invoice.Is(m.InvoiceID) {
				d.Invoice = invoices[m.InvoiceID].Number
			}
			d.Purpose = payout.PurposeWages
			if who := payees[m.PayeeID]; who.Kind != payee.TypeUser || who.Role == payee.Vendor {
				d.Purpose = payout.PurposeVendor
			}
		}
		all[o.ID] = d
	}
	return all, nil
}
