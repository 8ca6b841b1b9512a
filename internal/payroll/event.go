package payroll

import (
	"context"
	"fmt"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/webhook"
)

// Reasons that events and the history give.
const (
	sourceType            = "payroll"
	reasonCreated         = "created"
	reasonCompanyBalance  = "company_balance"
	reasonFundingComplete = "funding_confirmed"
	reasonFunding         = "funding_"         // prefix of a FundingState
	reasonPayments        = "payments_changed" // payments that waited were released
)

func (p *Payroll) emit(tx *db.Tx, event webhook.Type[webhook.PayrollData], previous State, reason string) error {
	d := webhook.PayrollData{
		PayrollID: p.ID, CompanyID: p.CompanyID, ExternalID: p.ExternalID, Status: string(p.State),
		FundingState: string(p.FundingState),
		Reason:       reason, Currency: p.Currency, FundingMethod: p.FundingMethod, FundingCurrency: p.FundingCurrency,
		Fees: p.Fees, Volume: p.Volume, Total: p.Total, Funded: p.Escrow, Payees: p.Count, PayDate: p.PayDate,
		PeriodStart: p.Period.Start, PeriodEnd: p.Period.End,
		Metadata: p.Metadata,
	}
	if p.Quote != nil {
		q := p.Quote.ForPayroll()
		d.Quote = &q
	}
	if previous != p.State {
		d.PreviousStatus = string(previous)
	}
	return webhook.Emit(tx, event.Event(p.CompanyID, p.ID, p.Version, d))
}

// step stores the next version of a payroll whose state changed, and records the change in the history and as an
// event.
func (p *Payroll) step(ctx context.Context, tx *db.Tx, from State, event webhook.Type[webhook.PayrollData],
	reason string) error {
	if err := update(ctx, tx, p, from); err != nil {
		return err
	}
	db.History(tx, p.CompanyID, p.ID, p.Version, string(from), string(p.State), reason)
	return p.emit(tx, event, from, reason)
}

// revise stores a version that does not change the state. Only the history records the reason, because an event
// describes the current state.
func (p *Payroll) revise(ctx context.Context, tx *db.Tx, event webhook.Type[webhook.PayrollData], reason string) error {
	if err := update(ctx, tx, p, p.State); err != nil {
		return err
	}
	db.History(tx, p.CompanyID, p.ID, p.Version, string(p.State), string(p.State), reason)
	return p.emit(tx, event, p.State, "")
}

// noteFunding stores the next version of a payroll whose funding state changed while its state did not.
func (p *Payroll) noteFunding(ctx context.Context, tx *db.Tx, event webhook.Type[webhook.PayrollData]) error {
	now := p.FundingState
	if event.Name == webhook.PayrollFundingLate.Name {
		now = FundingLate
	}
	return p.revise(ctx, tx, event, reasonFunding+string(now))
}

// advanceEach changes the state of all payments of a payroll and emits an event for each. It fails unless all
// payments are in the state from.
func (p *Payroll) advanceEach(ctx context.Context, tx *db.Tx, from, to State, reason string) error {
	all, err := p.allPayments(ctx, tx, from)
	if err != nil {
		return err
	}
	return p.advanceAll(ctx, tx, all, to, reason, nil)
}

// allPayments returns all payments of a payroll. It fails unless all of them are in the given state.
func (p *Payroll) allPayments(ctx context.Context, tx *db.Tx, state State) ([]Payment, error) {
	all, err := p.payments(ctx, tx, state)
	if err == nil && int64(len(all)) != p.Count {
		err = fmt.Errorf("payroll %s: %d of %d payments are %s", p.ID, len(all), p.Count, state)
	}
	return all, err
}

// advanceAll changes the state of several payments, and emits an event for each. The payments must have the same
// state and version, and no other payment of the payroll may have both.
func (p *Payroll) advanceAll(ctx context.Context, tx *db.Tx, all []Payment, to State, reason string,
	outputs map[string][]payout.Output) error {
	from := all[0].State
	if err := p.updatePayments(ctx, tx, all, to); err != nil {
		return err
	}
	for i := range all {
		if err := p.recordStep(ctx, tx, &all[i], from, reason, outputs[all[i].ID]); err != nil {
			return err
		}
	}
	return nil
}

// advance changes the state of one payment and emits its event.
func (p *Payroll) advance(ctx context.Context, tx *db.Tx, m *Payment, to State, reason string,
	outputs []payout.Output) error {
	from := m.State
	if err := p.updatePayment(ctx, tx, m, to, reason); err != nil {
		return err
	}
	return p.recordStep(ctx, tx, m, from, reason, outputs)
}

// recordStep records a payment's change of state in the history, emits its event, and updates the invoice that it pays.
func (p *Payroll) recordStep(ctx context.Context, tx *db.Tx, m *Payment, from State, reason string,
	outputs []payout.Output) error {
	db.History(tx, p.CompanyID, m.ID, m.Version, string(from), string(m.State), reason)
	d, err := p.dataOf(m, reason, outputs)
	if err != nil {
		return err
	}
	if err := webhook.Emit(tx, webhook.UserPaymentStatusUpdate.Event(p.CompanyID, m.ID, m.Version, d)); err != nil {
		return err
	}
	if err := m.emitToPayee(tx, from, d); err != nil {
		return err
	}
	return m.updateInvoice(ctx, tx, from, outputs)
}

// emitToPayee emits the event of a payment to a payee with an account. It emits nothing before the release, because
// until then the payment is only planned by the company. The event leaves out the company's data: the payroll, the
// metadata and the fees.
func (m *Payment) emitToPayee(tx *db.Tx, from State, d webhook.PaymentData) error {
	plan := func(s State) bool { return s == Pending || s == Received }
	if plan(m.State) || m.State == Cancelled && plan(from) {
		return nil
	}
	d.PayrollID, d.Metadata = "", nil
	d.Payment.Outputs = slices.Clone(d.Payment.Outputs)
	for i := range d.Payment.Outputs {
		d.Payment.Outputs[i].Fees = money.Zero(d.Payment.Outputs[i].InputCurrency)
	}
	return webhook.Emit(tx, webhook.UserPaymentStatusUpdate.Event("", m.ID, m.Version, d).And(m.UserID)...)
}

// dataOf returns the payload of a payment's event.
func (p *Payroll) dataOf(m *Payment, reason string, outputs []payout.Output) (webhook.PaymentData, error) {
	fees, err := OutputFees(m.Fee, outputs)
	if err != nil {
		return webhook.PaymentData{}, err
	}
	id := m.ID
	d := webhook.PaymentData{
		UserID: m.UserID, SubpayrollID: &id, PayrollID: p.ID, Status: string(m.State), Reason: reason,
		Metadata: m.Metadata,
		Payment: webhook.Payment{
			SubpayrollID: &id, Received: m.Received, Released: m.Released, Fulfilled: m.Fulfilled,
			Outputs: make([]webhook.PaymentOutput, len(outputs)),
		},
	}
	for i, o := range outputs {
		d.Payment.Outputs[i] = webhook.PaymentOutput{
			InputCurrency: o.Input.Asset(), OutputCurrency: o.Amount.Asset(), Input: o.Input, Output: o.Amount,
			Fees: fees[i], TxHash: o.TxID,
		}
	}
	return d, nil
}

// OutputFees divides a payment's fee over its outputs in proportion to their input amounts.
func OutputFees(fee money.Amount, outputs []payout.Output) ([]money.Amount, error) {
	if len(outputs) == 0 {
		return nil, nil
	}
	weights := make([]int64, len(outputs))
	for i, o := range outputs {
		weights[i] = o.Input.Units()
	}
	return fee.Split(weights)
}
