package bank

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// storeVerifications stores the results of Verification of Payee in a response as checks of the destinations. A
// result for the whole file applies to each payment without a result of its own. If checks of a destination are not
// stored, because it is a company's own account, any result but a match is a problem for staff.
func (r *Rail) storeVerifications(ctx context.Context, tx *db.Tx, b *fileUpdate) error {
	if len(b.verifications) == 0 {
		return nil
	}
	outs, err := payout.InBatches(ctx, tx, b.f.CompanyID, b.f.ID)
	if err != nil {
		return err
	}
	to := map[string]payout.Output{}
	for _, o := range outs {
		to[o.ID] = o
	}
	own := map[string]bool{}
	for _, f := range b.verifications {
		if f.ref.Position > 0 {
			for _, p := range b.payments(f.ref) {
				own[p.output] = true
			}
		}
	}
	for _, f := range b.verifications {
		whole, since := f.ref.Position == 0, time.Time{}
		if whole {
			since = b.f.Created
		}
		for _, p := range b.payments(f.ref) {
			o, known := to[p.output]
			if !known || whole && own[o.ID] {
				continue
			}
			kept, err := r.c.Checked(ctx, tx, Checked{CompanyID: b.f.CompanyID, Destination: o.Destination, Method: CheckName,
				Result: f.code, Name: f.info, Unless: since})
			if err != nil {
				return err
			}
			if !kept && f.code != string(iso20022.Match) {
				b.problem("the payee's bank says about the name in payment %d: %s", p.position, f.code)
			}
		}
	}
	return nil
}
