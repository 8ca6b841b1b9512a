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

// What is done with coins that came and that nobody expected: alone up to the house's limit.
const (
	CreditDeposit = "deposit.credit"
	ReturnDeposit = "deposit.send_back"
)

// JobRefund has a deposit sent back (payload {deposit_id}).
const JobRefund = "deposit.refund"

// refundLater is how long a refund waits whose address is like an entry of a sanctions list.
const refundLater = 10 * time.Minute

type refundPayload struct {
	DepositID string `json:"deposit_id"`
}

// DecideDeposit credits a deposit in suspense to the company or payroll of an id, or sends it back to an address of its own network. One
// above the house's limit is only asked for, and another operator agrees.
func (s *Service) DecideDeposit(ctx context.Context, tx *db.Tx, by Session, action, companyID, depositID, to, reason string) error {
	if action != CreditDeposit && action != ReturnDeposit { // whatever else there is to be done takes two
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
	r := approval.Request{Action: action, CompanyID: d.CompanyID, ObjectID: d.ID, Target: strings.TrimSpace(to), Reason: reason}
	if action == ReturnDeposit {
		if r.Target, err = s.deps.Setup.AddressOn(ctx, tx, d.Chain, r.Target); err != nil {
			return err
		}
	}
	return s.decide(ctx, tx, by, d.Amount, r)
}

// decideDeposit credits a deposit or sends it back.
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

// Refund gives a deposit that is sent back to the engine that pays everybody (job deposit.refund). An address that is on a sanctions
// list makes it wait. The service pays the fee of the network.
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
		CompanyID: d.CompanyID, ID: id, PayrollID: d.ID, PaymentID: d.ID, Rail: rail, Amount: d.Amount, Input: d.Amount, Address: d.RefundTo,
	}})
}

// Refunds says that payouts for an object send deposits back.
func Refunds(objectID string) bool { return strings.HasPrefix(objectID, "dep_") }

// RefundChanged looks what became of the payout that sends a deposit back (job payout.changed).
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
