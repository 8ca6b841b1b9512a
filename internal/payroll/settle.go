package payroll

import (
	"context"
	"errors"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/webhook"
)

// Settle updates the payments of a payroll from the states of their outputs, and then the payroll itself (job
// payout.changed). If the job names an output, only its payment is updated.
func (s *Service) Settle(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in struct {
		PayrollID string `json:"payroll_id"`
		OutputID  string `json:"output_id"`
	}
	if err := j.Decode(&in); err != nil {
		return err
	}
	// Without the lock, two transactions that each settle one of the last two payments would not see each other's
	// change, and neither would conclude the payroll.
	p, err := lock(ctx, tx, j.CompanyID, in.PayrollID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var outputs []payout.Output
	var payments []Payment
	if in.OutputID != "" {
		payments, outputs, err = p.ofOutput(ctx, tx, in.OutputID)
	} else if outputs, err = payout.ForPayroll(ctx, tx, p.CompanyID, p.ID); err == nil {
		payments, err = p.payments(ctx, tx, "")
	}
	if err != nil {
		return err
	}
	of := byPayment(outputs)
	var changed []*Payment
	for i := range payments {
		m := &payments[i]
		to, reason, err := Outcome(m.ID, m.State, of[m.ID])
		if err != nil {
			return err
		}
		if to == m.State {
			continue
		}
		if err := p.advance(ctx, tx, m, to, reason, of[m.ID]); err != nil {
			return err
		}
		changed = append(changed, m)
	}
	if len(changed) == 0 {
		return nil
	}
	if err := p.notifyPayees(ctx, tx, changed, of); err != nil {
		return err
	}
	if slices.ContainsFunc(changed, func(m *Payment) bool { return m.State == ActionRequired || m.State == Returned }) {
		p.enqueueRelease(tx) // the payee may have corrected the destination already
	}
	return p.concludePayments(ctx, tx)
}

// ofOutput reads the payment of an output, with all outputs of that payment.
func (p *Payroll) ofOutput(ctx context.Context, tx *db.Tx, outputID string) ([]Payment, []payout.Output, error) {
	o, err := payout.Get(ctx, tx, p.CompanyID, outputID)
	if errors.Is(err, db.ErrNoRows) || err == nil && o.PayrollID != p.ID {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	m, found, err := p.payment(ctx, tx, o.PaymentID)
	if err != nil || !found {
		return nil, nil, err
	}
	outputs, err := payout.ForPayments(ctx, tx, p.CompanyID, p.ID, m.ID)
	return []Payment{m}, outputs, err
}

// Outcome returns the state of a payment that follows from its outputs. A failed or returned output determines the
// state; the payment is fulfilled when all its outputs are. The state changes only after the release.
func Outcome(id string, now State, outputs []payout.Output) (to State, reason string, err error) {
	switch now {
	case Released, Fulfilled, ActionRequired, Returned, Cancelled:
	default:
		return now, "", now.check("payment " + id)
	}
	if len(outputs) == 0 {
		return now, "", nil
	}
	counts := map[payout.State]int{}
	for _, o := range outputs {
		if err := o.State.Check("output " + o.ID); err != nil {
			return now, "", err
		}
		counts[o.State]++
		if o.State == payout.Failed && reason == "" {
			reason = o.Reason
		}
	}
	switch {
	case counts[payout.Failed] > 0:
		return ActionRequired, ReasonPayoutFailed, nil
	case counts[payout.Returned] > 0:
		return Returned, reason, nil
	case counts[payout.Fulfilled] == len(outputs):
		return Fulfilled, "", nil
	case counts[payout.Fulfilled]+counts[payout.Cancelled] == len(outputs):
		return Cancelled, "", nil
	}
	return Released, "", nil
}

// concludePayments updates the state of a released payroll from its payments: fulfilled when all are fulfilled,
// partially_fulfilled when all have ended but not all are fulfilled, and released when one is being paid again. A
// payroll on hold stays on hold.
func (p *Payroll) concludePayments(ctx context.Context, tx *db.Tx) error {
	counts, err := p.countPayments(ctx, tx)
	if err != nil {
		return err
	}
	to := conclusion(p.State, counts, p.Count)
	if to == p.State {
		return nil
	}
	if err := p.conclude(ctx, tx, to); err != nil || to != Released {
		return err
	}
	if owes, err := p.owes(ctx, tx); err != nil || !owes {
		return err
	}
	return p.hold(ctx, tx, ReasonReverted)
}

// conclude changes the state of a released payroll. If the payments have ended, it also credits the payroll's
// platform.
func (p *Payroll) conclude(ctx context.Context, tx *db.Tx, to State) error {
	from := p.State
	p.State = to
	if err := p.step(ctx, tx, from, webhook.PayrollStatusUpdate, ""); err != nil || to == Released {
		return err
	}
	return p.earn(ctx, tx)
}

// reviseOrConclude stores the next version of a released payroll after some of its payments were released again or
// canceled. It also changes the payroll's state if the payments require it.
func (p *Payroll) reviseOrConclude(ctx context.Context, tx *db.Tx) error {
	counts, err := p.countPayments(ctx, tx)
	if err != nil {
		return err
	}
	if to := conclusion(p.State, counts, p.Count); to != p.State {
		return p.conclude(ctx, tx, to)
	}
	return p.revise(ctx, tx, webhook.PayrollStatusUpdate, reasonPayments)
}

func conclusion(now State, counts map[State]int64, all int64) State {
	switch now {
	case Released, Fulfilled, PartiallyFulfilled:
	default:
		return now
	}
	ended := counts[Fulfilled] + counts[ActionRequired] + counts[Returned] + counts[Cancelled]
	switch {
	case counts[Fulfilled] == all:
		return Fulfilled
	case ended == all:
		return PartiallyFulfilled
	}
	return Released
}
