package backoffice

import (
	"context"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Reverse is the action of reversing an ACH payment that was made in error. It needs two members of staff for any
// amount, because it takes money from a payee's account.
const Reverse = "payment.reverse"

// RequestReversal requests the reversal of an ACH payment by its reference, such as S0000012P00003, for one of
// [bank.ReversalReasons].
func (s *Service) RequestReversal(ctx context.Context, tx *db.Tx, by Session, payment, kind, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	v, err := bank.Reversible(ctx, tx, payment, kind)
	if err != nil {
		return err
	}
	return request(ctx, tx, by, approval.Request{Action: Reverse, CompanyID: v.CompanyID, ObjectID: v.Payment,
		Target: kind, Reason: reason})
}
