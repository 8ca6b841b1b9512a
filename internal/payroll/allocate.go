package payroll

import (
	"fmt"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/treasury"
)

// This file computes the amount owed to each destination at the release. Its functions are pure.

// escrow is the money that a release pays out.
type escrow struct {
	payroll  string
	held     money.Amount // the full escrow, in the funding asset
	total    money.Amount // the amount that the escrow covers, in the payroll's currency
	rate     money.Rate   // the rate at which the escrow was credited; zero if there were several
	released bool         // an earlier release emptied the escrow; unpaid amounts are owed in the payroll's currency
}

// worth returns the value, in the funding asset, of a part of the payroll's total, rounded down. It uses the rate at
// which the escrow was credited. If there were several rates, it returns the same share of the escrow as the part is
// of the total.
func (e escrow) worth(part money.Amount) (money.Amount, error) {
	switch {
	case e.held.Asset() == e.total.Asset():
		return part, nil
	case !e.rate.IsZero():
		return e.rate.Convert(part, money.Floor)
	}
	return e.held.Fraction(part.Units(), e.total.Units(), money.Floor)
}

// entitlement is a payment that a release turns into outputs.
type entitlement struct {
	paymentID string
	net       money.Amount
	used      []destination.Destination
	shares    []Share // empty if the payment cannot be paid now and remains owed to the payee
	problem   string  // the reason why the payment cannot be paid; "" if it has shares
}

// plannedOutput is an output that a release will create.
type plannedOutput struct {
	payment int // index of the payment in the entitlements
	share   Share
	amount  money.Amount // the amount that the destination receives
	rate    money.Rate   // the rate of the exchange; zero if nothing is exchanged
	dim     string       // the output's ID, which is also the dimension of its account
}

// allocation is a planned release.
type allocation struct {
	outputs  []plannedOutput
	problems map[int]string // reasons why payments cannot be paid, by index of the payment
	release  []ledger.Line  // lines that turn escrow into debts to payees and outputs
	convert  []ledger.Line  // lines that convert debts into the currencies of the destinations
}

// allocator plans a release.
type allocator struct {
	from      escrow
	made      allocation
	prices    map[money.Asset]money.Rate // current prices of the assets that are paid out
	capacity  *treasury.Capacity
	newID     func() string
	kept      money.Amount // sum of the outputs that are paid without an exchange, in the funding asset
	sold      money.Amount // amount to be bought with the rest of the escrow, in the payroll's currency
	exchanges positions
}

// allocate plans how escrow is paid out to payments. prices has, for each other asset that is paid out and is not the
// funding asset, its current price in the payroll's currency. capacity limits the amounts that the operator can
// exchange into each asset. newID returns IDs for outputs.
//
// Outputs in the funding asset are paid from the escrow without an exchange. The rest of the escrow, which covers all
// other outputs and the fees, is exchanged into the payroll's currency. The fraction of a unit that no conversion can
// represent is posted as rounding, so that the lines of each asset balance. A payment that exceeds the capacity
// remains owed to its payee in the payroll's currency.
func allocate(e escrow, payments []entitlement, fees money.Amount, prices map[money.Asset]money.Rate,
	capacity *treasury.Capacity, newID func() string) (allocation, error) {
	d := &allocator{
		from: e, made: allocation{problems: map[int]string{}}, prices: prices, capacity: capacity, newID: newID,
		kept: money.Zero(e.held.Asset()), sold: money.Zero(e.total.Asset()), exchanges: positions{},
	}
	for i, p := range payments {
		if err := d.pay(i, p); err != nil {
			return d.made, err
		}
	}
	d.made.convert = append(d.made.convert, d.exchanges.lines()...)
	if e.released {
		return d.made, nil
	}
	err := d.empty(fees)
	return d.made, err
}

// pay plans the outputs of one payment. Outputs in another asset than the funding asset are paid from a debt to the
// payee.
func (d *allocator) pay(index int, p entitlement) error {
	outputs, problem, err := p.outputs(index, d.from, d.prices)
	if err == nil && problem == "" {
		problem, err = d.from.exchange(outputs, d.capacity)
	}
	if err != nil {
		return err
	}
	if problem != "" {
		d.made.problems[index] = problem
		outputs = nil
		if !d.from.released && d.from.held.Asset() != d.from.total.Asset() {
			if err := d.capacity.Reserve(p.net); err != nil {
				return err
			}
		}
	}
	owed := p.net
	for _, out := range outputs {
		out.dim = d.newID()
		d.made.outputs = append(d.made.outputs, out)
		if d.from.released || out.amount.Asset() != d.from.held.Asset() || out.share.Receive.Sign() > 0 {
			if err := d.convertTo(out, p.paymentID); err != nil {
				return err
			}
			continue
		}
		d.made.release = append(d.made.release, ledger.Credit(ledger.OutputPayable, out.dim, out.amount))
		if d.kept, err = d.kept.Add(out.amount); err != nil {
			return err
		}
		if owed, err = owed.Sub(out.share.Amount); err != nil {
			return err
		}
	}
	if d.from.released || owed.IsZero() {
		return nil
	}
	d.made.release = append(d.made.release, ledger.Credit(ledger.PayeePayable, p.paymentID, owed))
	d.sold, err = d.sold.Add(owed)
	return err
}

// convertTo plans an output that is paid from the debt to the payee in the payroll's currency.
func (d *allocator) convertTo(out plannedOutput, paymentID string) error {
	d.made.convert = append(d.made.convert,
		ledger.Debit(ledger.PayeePayable, paymentID, out.share.Amount),
		ledger.Credit(ledger.OutputPayable, out.dim, out.amount))
	if out.amount.Asset() == d.from.total.Asset() {
		return nil
	}
	return d.exchanges.exchange(out.share.Amount, out.amount)
}

// empty completes the lines of the release. It debits the full escrow, credits the fees, and exchanges the part that
// is not paid out in the funding asset. Any fraction that remains is credited as rounding.
func (d *allocator) empty(fees money.Amount) error {
	sold, err := d.sold.Add(fees)
	if err != nil {
		return err
	}
	d.made.release = append([]ledger.Line{ledger.Debit(ledger.Escrow, d.from.payroll, d.from.held)}, d.made.release...)
	if !fees.IsZero() {
		d.made.release = append(d.made.release, ledger.Credit(ledger.FeeRevenue, "payroll", fees))
	}
	rest, err := d.from.held.Sub(d.kept)
	if err != nil {
		return err
	}
	if d.from.held.Asset() == d.from.total.Asset() {
		if rest.Cmp(sold) != 0 {
			return fmt.Errorf("payroll: escrow %s %s does not equal what it covers", d.from.held, d.from.held.Asset())
		}
		return nil
	}
	exchanged, err := d.from.worth(sold)
	if err != nil {
		return err
	}
	over, err := rest.Sub(exchanged)
	if err != nil {
		return err
	}
	if over.Sign() < 0 {
		return fmt.Errorf("payroll: escrow %s %s is less than what it covers", d.from.held, d.from.held.Asset())
	}
	for _, l := range []ledger.Line{
		ledger.Debit(ledger.FXPosition, "", sold), ledger.Credit(ledger.FXPosition, "", exchanged),
		ledger.Credit(ledger.Rounding, "", over),
	} {
		if !l.Amount.IsZero() {
			d.made.release = append(d.made.release, l)
		}
	}
	return nil
}

// outputs returns the planned outputs of a payment. A share that is too small for its rail is added to the payment's
// largest share. If the largest share is itself too small, outputs returns the problem [ReasonTooSmall].
func (p entitlement) outputs(index int, e escrow, rates map[money.Asset]money.Rate) ([]plannedOutput, string, error) {
	if len(p.shares) == 0 {
		return nil, p.problem, nil
	}
	shares := append([]Share(nil), p.shares...)
	for {
		outputs := make([]plannedOutput, len(shares))
		small := -1
		for i, s := range shares {
			amount, rate, err := payable(s, e, rates)
			if err != nil {
				return nil, "", err
			}
			outputs[i] = plannedOutput{payment: index, share: s, amount: amount, rate: rate}
			if tooSmall(s.Destination, amount) && small < 0 {
				small = i
			}
		}
		if small < 0 {
			return outputs, "", nil
		}
		if len(shares) == 1 {
			return nil, ReasonTooSmall, nil
		}
		dust, received := shares[small].Amount, shares[small].Receive
		shares = append(shares[:small], shares[small+1:]...)
		largest := 0
		for i, s := range shares {
			if s.Amount.Cmp(shares[largest].Amount) > 0 {
				largest = i
			}
		}
		var err error
		if shares[largest].Amount, err = shares[largest].Amount.Add(dust); err != nil {
			return nil, "", err
		}
		if received.Sign() > 0 {
			if shares[largest].Receive, err = shares[largest].Receive.Add(received); err != nil {
				return nil, "", err
			}
		}
	}
}
