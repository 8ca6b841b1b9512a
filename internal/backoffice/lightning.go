package backoffice

import (
	"context"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout/lightning"
)

// LightningOutcome is the action of deciding what became of a payment over Lightning that the node no longer tells. It
// needs two members of staff for any amount. The target of its request is lightningFailed and the payment hash, or the
// preimage and the fee.
const LightningOutcome = "lightning.outcome"

const lightningFailed = "failed"

// RequestLightningPaid requests that a payment over Lightning is recorded as made, with its preimage and the fee in
// satoshis, "" for none.
func (s *Service) RequestLightningPaid(ctx context.Context, tx *db.Tx, by Session, companyID, outputID, preimage, fee,
	reason string) error {
	preimage, paid := strings.ToLower(strings.TrimSpace(preimage)), int64(0)
	if fee = strings.TrimSpace(fee); fee != "" {
		var err error
		if paid, err = strconv.ParseInt(fee, 10, 64); err != nil {
			return lightning.ErrFee.At("body", "")
		}
	}
	if err := lightning.CheckPaid(ctx, tx, companyID, outputID, preimage, paid); err != nil {
		return err
	}
	return requestOutcome(ctx, tx, by, companyID, outputID, preimage+" "+strconv.FormatInt(paid, 10), reason)
}

// RequestLightningFailed requests that a payment over Lightning is recorded as not made.
func (s *Service) RequestLightningFailed(ctx context.Context, tx *db.Tx, by Session, companyID, outputID,
	reason string) error {
	hash, err := lightning.CheckFailed(ctx, tx, companyID, outputID)
	if err != nil {
		return err
	}
	return requestOutcome(ctx, tx, by, companyID, outputID, lightningFailed+" "+hash, reason)
}

func requestOutcome(ctx context.Context, tx *db.Tx, by Session, companyID, outputID, target, reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	return request(ctx, tx, by, approval.Request{Action: LightningOutcome, CompanyID: companyID, ObjectID: outputID,
		Target: target, Reason: reason})
}

// decideLightning performs an approved request.
func decideLightning(ctx context.Context, tx *db.Tx, r approval.Request) error {
	if hash, failed := strings.CutPrefix(r.Target, lightningFailed+" "); failed {
		return lightning.MarkFailed(ctx, tx, r.CompanyID, r.ObjectID, hash)
	}
	preimage, text, _ := strings.Cut(r.Target, " ")
	fee, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return lightning.ErrFee.At("body", "")
	}
	return lightning.MarkPaid(ctx, tx, r.CompanyID, r.ObjectID, preimage, fee)
}
