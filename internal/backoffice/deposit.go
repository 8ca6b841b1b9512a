package backoffice

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// Actions on deposits in suspense. One member of staff suffices up to the release limit.
const (
	CreditDeposit = "deposit.credit"
	ReturnDeposit = "deposit.send_back"
)

// JobRefund is the kind of the job that returns a deposit (payload {deposit_id}).
const JobRefund = "deposit.refund"

// refundLater is the time between attempts to return a deposit whose address is blocked by sanctions screening.
const refundLater = 10 * time.Minute

type refundPayload struct {
	DepositID string `json:"deposit_id"`
}

// DecideDeposit credits a deposit in suspense to the company or payroll with an ID, or returns it to an address on its
// network. Above the release limit it only opens a request, which another member of staff approves.
func (s *Service) DecideDeposit(ctx context.Context, tx *db.Tx, by Session, action, companyID, depositID, to,
	reason string) error {
	if action != CreditDeposit && action != ReturnDeposit { // all other actions take two members of staff
		return apierr.NotFoundErr
	}
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	d, err := deposit.Get(ctx, tx, companyID, depositID)
	if err != nil {
		return err
	}
	if !d.Suspended() {
		return deposit.ErrNotSuspended
	}
	r := approval.Request{
		Action: action, CompanyID: d.CompanyID, ObjectID: d.ID, Target: strings.TrimSpace(to), Reason: reason,
	}
	if action == ReturnDeposit {
		if r.Target, err = s.deps.Setup.AddressOn(ctx, tx, d.Chain, r.Target); err != nil {
			return err
		}
	}
	return s.decide(ctx, tx, by, d.Amount, r)
}

// decideDeposit credits or returns a deposit.
func decideDeposit(ctx context.Context, tx *db.Tx, r approval.Request) error {
	d, err := deposit.Get(ctx, tx, r.CompanyID, r.ObjectID)
	if err != nil {
		return err
	}
	if r.Action == ReturnDeposit {
		if _, err := d.SendBack(ctx, tx, r.Target); err != nil {
			return err
		}
		job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: JobRefund, Payload: refundPayload{d.ID}})
		return nil
	}
	owner := r.Target
	if strings.HasPrefix(owner, "prl_") {
		if owner, err = payroll.CompanyOf(ctx, tx, r.Target); err != nil {
			return err
		}
		takes, err := payroll.TakesCoins(ctx, tx, owner, r.Target, d.Amount.Asset())
		if err != nil {
			return err
		}
		if takes && owner == d.CompanyID && !d.Dust {
			return d.GiveTo(ctx, tx, r.Target)
		}
	}
	if _, err := identity.CompanyByID(ctx, tx, owner); err != nil {
		return err
	}
	return d.CreditTo(ctx, tx, owner)
}

// Refund queues the payout that returns a deposit (job deposit.refund). It waits while the address is blocked by
// sanctions screening. The operator pays the network fee.
func (s *Service) Refund(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in refundPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	d, err := deposit.Get(ctx, tx, j.CompanyID, in.DepositID)
	if err != nil || d.RefundTo == "" || d.RefundID != "" {
		return err
	}
	held, err := s.deps.Screen(ctx, tx, d.CompanyID, d.ID, d.RefundTo)
	if err != nil {
		return err
	}
	if held || d.State != deposit.Confirmed {
		job.Enqueue(tx, job.New{CompanyID: d.CompanyID, Kind: JobRefund, Payload: in, RunAt: tx.Now().Add(refundLater)})
		return nil
	}
	id := tx.NewID("out")
	if err := d.Refunding(ctx, tx, id); err != nil {
		return err
	}
	rail := payout.RailBitcoin
	if d.Amount.Asset() != money.BTC {
		rail = payout.RailName(d.Chain)
	}
	return payout.Add(tx, []payout.Output{{
		CompanyID: d.CompanyID, ID: id, PayrollID: d.ID, PaymentID: d.ID, Rail: rail, Amount: d.Amount, Input: d.Amount,
		Address: d.RefundTo,
	}})
}

// Refunds reports whether payouts of an object return a deposit.
func Refunds(objectID string) bool { return strings.HasPrefix(objectID, "dep_") }

// RefundChanged posts the failure of a payout that returns a deposit (job payout.changed).
func RefundChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	d, err := deposit.Get(ctx, tx, j.CompanyID, in.PayrollID)
	if err != nil || d.RefundID == "" {
		return err
	}
	o, err := payout.Get(ctx, tx, d.CompanyID, d.RefundID)
	if err != nil || o.State != payout.Failed {
		return err
	}
	return d.NotRefunded(ctx, tx)
}
