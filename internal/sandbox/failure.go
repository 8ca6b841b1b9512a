package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
)

var errPayoutStarted = apierr.New(apierr.Conflict, "already_processing", "This payment is already being paid out.")

// settingFailures returns the name of the setting that contains the IDs of a payroll's payments whose payouts are to
// fail, separated by spaces.
func settingFailures(payrollID string) string { return "sandbox.payout_failure." + payrollID }

// invalidAddress is an address with which a payout fails before it is signed.
const invalidAddress = "sandbox-payout-failure"

// PayoutFailure makes the Bitcoin payouts of a payment fail, as if their destination had become invalid. Queued
// payouts fail at once, others when the payroll is released. The payment then requires action, as after a real
// failure.
func (s *Sandbox) PayoutFailure(ctx context.Context, tx *db.Tx, by identity.Principal, paymentID string) error {
	payrollID, err := payrollOf(ctx, tx, by.CompanyID, paymentID)
	if err != nil {
		return err
	}
	outs, err := payout.ForPayments(ctx, tx, by.CompanyID, payrollID, paymentID)
	if err != nil {
		return err
	}
	if len(outs) > 0 {
		return breakOutputs(ctx, tx, outs)
	}
	key := settingFailures(payrollID)
	known, err := db.Setting(ctx, tx, key)
	if err != nil || slices.Contains(strings.Fields(known), paymentID) {
		return err
	}
	return db.SetSetting(ctx, tx, key, strings.TrimSpace(known+" "+paymentID))
}

// breakOutputs replaces the address of queued Bitcoin outputs by an invalid one.
func breakOutputs(ctx context.Context, tx *db.Tx, outs []payout.Output) error {
	broken := 0
	for _, o := range outs {
		if o.Rail != payout.RailBitcoin || o.State != payout.Queued {
			continue
		}
		o.Address = invalidAddress
		if err := payout.Correct(ctx, tx, o); err != nil {
			return err
		}
		broken++
	}
	if broken == 0 {
		return errPayoutStarted
	}
	return nil
}

// WithPayoutFailures wraps the handler of the job that releases payrolls. In the transaction of the release, it
// replaces the addresses of the payouts that [Sandbox.PayoutFailure] named by an invalid one.
func WithPayoutFailures(release job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		if err := release(ctx, tx, j); err != nil {
			return err
		}
		var in struct {
			PayrollID string `json:"payroll_id"`
		}
		if err := j.Decode(&in); err != nil {
			return err
		}
		key := settingFailures(in.PayrollID)
		wanted, err := db.Setting(ctx, tx, key)
		if err != nil || wanted == "" {
			return err
		}
		outs, err := payout.ForPayments(ctx, tx, j.CompanyID, in.PayrollID, strings.Fields(wanted)...)
		if err != nil || len(outs) == 0 {
			return err
		}
		// A payment fails only once; after its destination is corrected, it is paid.
		left := slices.DeleteFunc(strings.Fields(wanted), func(id string) bool {
			return slices.ContainsFunc(outs, func(o payout.Output) bool { return o.PaymentID == id })
		})
		if err := db.SetSetting(ctx, tx, key, strings.Join(left, " ")); err != nil {
			return err
		}
		if err := breakOutputs(ctx, tx, outs); err != nil && !errors.Is(err, errPayoutStarted) {
			return fmt.Errorf("break payouts: %w", err)
		}
		return nil
	}
}
