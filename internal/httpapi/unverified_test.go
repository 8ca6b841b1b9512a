package httpapi

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

// If companies must be verified, an unverified one cannot create a payroll.
func TestUnverifiedCompanyCannotPay(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, func(own *Deps) { own.Payroll.AllowUnverified = false })
		body := `{"currency":"USD","to_pay":[{"user_id":"` + b.payable(`"first_name":"Ada","last_name":"Lovelace"`) +
			`","amount_fiat":12.50}]}`
		b.wants(403, "kyc_required", "POST", "/api/company/payroll/create", body, "Idempotency-Key", "one")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return identity.SetKYBStatus(ctx, tx, b.company, identity.KYBApproved)
		})
		ask[members](b, "POST", "/api/company/payroll/create", body, "Idempotency-Key", "two")
	})
}
