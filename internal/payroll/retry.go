package payroll

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/treasury"
)

// Payouts that failed or were returned are sent again when the destination of the payee changes. The payee changes
// the destination; for a payee without a login, the company does.

// HandlePayable releases again each payroll in which a payment to the payee of the job waits (job recipient.payable).
func HandlePayable(ctx context.Context, tx *db.Tx, j job.Job) error {
	var payload payee.JobPayload
	if err := j.Decode(&payload); err != nil {
		return err
	}
	if payload.RecipientID == j.CompanyID { // the company's own address, which travel rule records need
		ids, err := stoppedBy(ctx, tx, j.CompanyID, ReasonOriginator)
		for _, id := range ids {
			enqueueRelease(tx, j.CompanyID, id, time.Time{})
		}
		return err
	}
	return releaseAnew(ctx, tx, j.CompanyID, payload.RecipientID)
}

// correct sends failed and returned outputs again if their payees have another destination now, and reports whether
// it changed a payment. Each output is sent as its next version, so a concurrent correction fails. A payment whose
// payee cannot be paid now waits with the reason, as at a release.
func (s *Service) correct(ctx context.Context, tx *db.Tx, p *Payroll, stuck []Payment, entitlements []entitlement,
	outputs map[string][]payout.Output) (bool, error) {
	wanted := make([][]correction, len(stuck))
	exchanged := make([]entitlement, len(stuck)) // outputs that change their asset, exchanged as in a release
	var assets []money.Asset                     // assets into which outputs are exchanged
	for i, m := range stuck {
		var err error
		if wanted[i], err = corrections(outputs[m.ID], entitlements[i].used); err != nil {
			return false, err
		}
		if entitlements[i].problem != "" {
			continue
		}
		var into []money.Asset
		exchanged[i], into = exchangedBy(wanted[i])
		assets = append(assets, into...)
	}
	e := escrow{payroll: p.ID, held: p.Escrow, total: p.Total, rate: p.Rate, released: true}
	prices, err := p.prices(ctx, tx, exchanged, e)
	if err != nil {
		return false, err
	}
	capacity, err := s.Treasury.LockCapacity(ctx, tx, assets...)
	if err != nil {
		return false, err
	}
	books := positions{}
	var lines []ledger.Line
	changed := false
	for i := range stuck {
		m, problem := &stuck[i], entitlements[i].problem
		if len(wanted[i]) > 0 && problem == "" {
			if problem, err = e.redirect(wanted[i], prices, capacity); err == nil && problem == "" {
				problem, err = s.recordNext(ctx, tx, m.ID, wanted[i])
			}
			if err != nil {
				return false, err
			}
		}
		switch {
		case len(wanted[i]) == 0 && m.State == OnHold: // the destination that the payment waited for was removed
			to, reason, err := Outcome(m.ID, Released, outputs[m.ID])
			if err != nil {
				return false, err
			}
			if err := p.advance(ctx, tx, m, to, reason, outputs[m.ID]); err != nil {
				return false, err
			}
			changed = true
			continue
		case len(wanted[i]) == 0, problem != "" && problem == m.Reason:
			continue
		case problem != "":
			if err := p.stop(ctx, tx, m, problem, outputs[m.ID]); err != nil {
				return false, err
			}
			changed = true
			continue
		}
		debts, err := resend(ctx, tx, wanted[i], books)
		if err != nil {
			return false, err
		}
		lines = append(lines, debts...)
		if err := p.advance(ctx, tx, m, Released, "", outputs[m.ID]); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, p.post(tx, fmt.Sprintf("correct:%d", p.Version+1), append(lines, books.lines()...))
}

// correction is an output whose destination has changed.
type correction struct {
	output *payout.Output
	to     destination.Destination
	next   payout.Output // the next version of the output
}

// corrections returns the failed and returned outputs whose destination has changed, each with its new destination:
// the same destination with its new data or, if that destination was removed, the one with the largest allocation.
func corrections(outputs []payout.Output, used []destination.Destination) ([]correction, error) {
	var all []correction
	for i := range outputs {
		o := &outputs[i]
		if o.State != payout.Failed && o.State != payout.Returned || len(used) == 0 {
			continue
		}
		var was destination.Destination
		if err := json.Unmarshal(o.Destination, &was); err != nil {
			return nil, err
		}
		to := used[0]
		for _, d := range used[1:] {
			if d.ID == o.DistributionID || to.ID != o.DistributionID && d.Allocation > to.Allocation {
				to = d
			}
		}
		if to.ID != was.ID || !to.SamePlace(was) {
			all = append(all, correction{output: o, to: to})
		}
	}
	return all, nil
}

// redirect computes the next versions of the outputs of one payment. An output that keeps its asset keeps its amount.
// Otherwise, its value at the first release is converted at the current price. problem is the reason why none of the
// outputs can be sent.
func (e escrow) redirect(some []correction, prices map[money.Asset]money.Rate,
	capacity *treasury.Capacity) (problem string,
	err error) {
	var need []money.Amount
	for i := range some {
		c := &some[i]
		c.next = *c.output
		if c.to.Symbol != c.output.Amount.Asset() {
			share := Share{Destination: c.to, Amount: c.output.Input}
			if c.next.Amount, c.next.Rate, err = payable(share, e, prices); err != nil {
				return "", err
			}
			need = append(need, c.next.Amount)
		}
		if tooSmall(c.to, c.next.Amount) {
			return ReasonTooSmall, nil
		}
		c.next.DistributionID, c.next.Rail, c.next.Address, c.next.TxID = c.to.ID, payout.RailOf(c.to.Rail,
			c.to.Network), c.to.Address, ""
		if c.next.Destination, err = json.Marshal(c.to); err != nil {
			return "", err
		}
	}
	if ok, err := capacity.Use(need...); err != nil || !ok {
		return ReasonConversion, err
	}
	return "", nil
}

// recordNext stores the records that the travel rule demands for the next versions of a payment's outputs. If data is
// missing, it returns the reason why the payment must wait.
func (s *Service) recordNext(ctx context.Context, tx *db.Tx, paymentID string, some []correction) (reason string,
	err error) {
	next := make([]payout.Output, len(some))
	for i, c := range some {
		next[i] = c.next
	}
	missing, err := s.guards.TravelRule(ctx, tx, next)
	return missing[paymentID], err
}

// exchangedBy returns the outputs that change their asset, as shares to exchange, and the new assets.
func exchangedBy(some []correction) (e entitlement, assets []money.Asset) {
	for _, c := range some {
		if c.to.Symbol != c.output.Amount.Asset() {
			e.shares = append(e.shares, Share{Destination: c.to, Amount: c.output.Input})
			assets = append(assets, c.to.Symbol)
		}
	}
	return e, assets
}

// resend queues corrected outputs again. It returns the lines that convert the debts to outputs whose asset changed,
// and adds the exchanges to traded.
func resend(ctx context.Context, tx *db.Tx, some []correction, traded positions) (lines []ledger.Line, err error) {
	for _, c := range some {
		if was, is := c.output.Amount, c.next.Amount; was.Asset() != is.Asset() {
			lines = append(lines, ledger.Debit(ledger.OutputPayable, c.next.ID, was),
				ledger.Credit(ledger.OutputPayable, c.next.ID, is))
			if err := traded.exchange(was, is); err != nil {
				return nil, err
			}
		}
		if err := payout.Correct(ctx, tx, c.next); err != nil {
			return nil, err
		}
		*c.output = c.next
	}
	return lines, nil
}

// outputsOf reads the outputs of payments, by payment ID.
func (p *Payroll) outputsOf(ctx context.Context, tx *db.Tx, payments []Payment) (map[string][]payout.Output, error) {
	ids := make([]string, len(payments))
	for i, m := range payments {
		ids[i] = m.ID
	}
	outputs, err := payout.ForPayments(ctx, tx, p.CompanyID, p.ID, ids...)
	return byPayment(outputs), err
}

// byPayment groups outputs by payment ID.
func byPayment(outputs []payout.Output) map[string][]payout.Output {
	of := map[string][]payout.Output{}
	for _, o := range outputs {
		of[o.PaymentID] = append(of[o.PaymentID], o)
	}
	return of
}
