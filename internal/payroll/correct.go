package payroll

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/treasury"
)

// This file pays again what failed or came back, once its payee has another destination for it. Nobody asks for that but the
// destination itself: it is given by the payee, or by the company for a payee without a login, at a page or by a program.

// Payable releases anew what waits for a payee (job recipient.payable).
func Payable(ctx context.Context, tx *db.Tx, j job.Job) error {
	var look payee.Look
	if err := j.Decode(&look); err != nil {
		return err
	}
	return releaseAnew(ctx, tx, j.CompanyID, look.RecipientID)
}

// correct sends every output that failed or came back, and that is to go elsewhere now, on its way again, and says whether it
// moved a payment. It is the same output at its next version: whoever corrects at the same moment finds it gone. A payment whose
// payee cannot be paid now waits, with the reason, as at a release.
func (s *Service) correct(ctx context.Context, tx *db.Tx, p *Payroll, stuck []Payment, owings []owing, outputs map[string][]payout.Output) (bool, error) {
	wanted := make([][]correction, len(stuck))
	exchanged := make([]owing, len(stuck)) // what changes its asset, as if it was released
	for i, m := range stuck {
		var err error
		if wanted[i], err = corrections(outputs[m.ID], owings[i].used); err != nil {
			return false, err
		}
		if owings[i].problem != "" {
			continue
		}
		for _, c := range wanted[i] {
			if c.to.Symbol != c.output.Amount.Asset() {
				exchanged[i].shares = append(exchanged[i].shares, Share{c.to, c.output.Input})
			}
		}
	}
	e := escrow{payroll: p.ID, held: p.Escrow, total: p.Total, rate: p.Rate, divided: true}
	prices, err := p.prices(ctx, tx, exchanged, e)
	if err != nil {
		return false, err
	}
	room, err := s.FX.Take(ctx, tx, e.exchanged(exchanged)...)
	if err != nil {
		return false, err
	}
	books := positions{}
	var lines []ledger.Line
	moved := false
	for i := range stuck {
		m, problem := &stuck[i], owings[i].problem
		if len(wanted[i]) > 0 && problem == "" {
			if problem, err = e.redirect(wanted[i], prices, room); err != nil {
				return false, err
			}
		}
		switch {
		case len(wanted[i]) == 0 && m.State == OnHold: // the destination that it waited for is gone again
			to, reason, err := outcome(m.ID, Released, outputs[m.ID])
			if err != nil {
				return false, err
			}
			if err := p.advance(ctx, tx, m, to, reason, outputs[m.ID]); err != nil {
				return false, err
			}
			moved = true
			continue
		case len(wanted[i]) == 0, problem != "" && problem == m.Reason:
			continue
		case problem != "":
			if err := p.stop(ctx, tx, m, problem, outputs[m.ID]); err != nil {
				return false, err
			}
			moved = true
			continue
		}
		for _, c := range wanted[i] {
			if was, is := c.output.Amount, c.next.Amount; was.Asset() != is.Asset() {
				lines = append(lines, ledger.Debit(ledger.OutputPayable, c.next.ID, was), ledger.Credit(ledger.OutputPayable, c.next.ID, is))
				if err := books.exchange(was, is); err != nil {
					return false, err
				}
			}
			if err := payout.Correct(ctx, tx, c.next); err != nil {
				return false, err
			}
			*c.output = c.next
		}
		if err := p.advance(ctx, tx, m, Released, "", outputs[m.ID]); err != nil {
			return false, err
		}
		moved = true
	}
	return moved, p.post(tx, fmt.Sprintf("correct:%d", p.Version+1), append(lines, books.lines()...))
}

// correction is an output that is to go elsewhere.
type correction struct {
	output *payout.Output
	to     destination.Distribution
	next   payout.Output // what it becomes
}

// corrections finds the outputs that failed or came back and that have another destination now: the same one with other data, or,
// where that one takes nothing any more, the one that takes the most.
func corrections(outputs []payout.Output, used []destination.Distribution) ([]correction, error) {
	var all []correction
	for i := range outputs {
		o := &outputs[i]
		if o.State != payout.Failed && o.State != payout.Returned || len(used) == 0 {
			continue
		}
		var was destination.Distribution
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

// redirect works out what the outputs of one payment become. What keeps its asset keeps its amount; the rest is worth what it was
// worth at the first release, at the present price. The problem is why none of them can go.
func (e escrow) redirect(some []correction, prices map[money.Asset]money.Rate, room *treasury.Room) (problem string, err error) {
	var need []money.Amount
	for i := range some {
		c := &some[i]
		c.next = *c.output
		if c.to.Symbol != c.output.Amount.Asset() {
			if c.next.Amount, c.next.Rate, err = payable(Share{c.to, c.output.Input}, e, prices); err != nil {
				return "", err
			}
			need = append(need, c.next.Amount)
		}
		if tooSmall(c.to, c.next.Amount) {
			return ReasonTooSmall, nil
		}
		c.next.DistributionID, c.next.Rail, c.next.Address, c.next.TxID = c.to.ID, payout.RailOf(c.to.Rail, c.to.Network), c.to.Address, ""
		if c.next.Destination, err = json.Marshal(c.to); err != nil {
			return "", err
		}
	}
	if ok, err := room.Take(need...); err != nil || !ok {
		return ReasonConversion, err
	}
	return "", nil
}

// outputsOf reads the outputs of some payments, by payment.
func (p *Payroll) outputsOf(ctx context.Context, tx *db.Tx, payments []Payment) (map[string][]payout.Output, error) {
	ids := make([]string, len(payments))
	for i, m := range payments {
		ids[i] = m.ID
	}
	outputs, err := payout.ForPayments(ctx, tx, p.CompanyID, p.ID, ids...)
	of := map[string][]payout.Output{}
	for _, o := range outputs {
		of[o.PaymentID] = append(of[o.PaymentID], o)
	}
	return of, err
}
