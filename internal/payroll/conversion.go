package payroll

import (
	"fmt"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/treasury"
)

// This file converts shares into the destination's asset. Its functions are pure.

// enoughSats is an amount that Bitcoin nodes relay to an address of any type.
const enoughSats = 1_000

// exchange subtracts the amounts that a payment's outputs need from the capacity, and returns ReasonConversion if the
// capacity is too small. If an earlier release sold the payment's amount to the operator, the operator owes it to the
// payee. The exchange ends this debt, which frees capacity.
func (e escrow) exchange(outputs []plannedOutput, capacity *treasury.Capacity) (problem string, err error) {
	currency, funding := e.total.Asset(), e.held.Asset()
	var need []money.Amount
	freed := money.Zero(currency)
	for _, out := range outputs {
		switch asset := out.amount.Asset(); {
		case asset == funding && !e.released: // the output is paid from escrow without an exchange
			if out.share.Receive.Sign() <= 0 || asset == currency {
				continue
			}
			worth, err := e.worth(out.share.Amount)
			if err != nil {
				return "", err
			}
			if rest, err := out.amount.Sub(worth); err != nil {
				return "", err
			} else if rest.Sign() > 0 { // the fixed receive amount costs more than was funded for it
				need = append(need, rest)
			}
		case asset != currency:
			need = append(need, out.amount)
			if e.released && funding != currency {
				if freed, err = freed.Add(out.share.Amount); err != nil {
					return "", err
				}
			}
		case funding == currency: // the output is paid without an exchange
		case e.released:
			need = append(need, money.Zero(currency)) // the capacity already accounts for the debt to the payee
		default:
			need = append(need, out.amount)
		}
	}
	ok, err := capacity.Use(need...)
	if err != nil || !ok {
		return ReasonConversion, err
	}
	return "", capacity.Reserve(freed.Neg())
}

// payable returns a share converted into its destination's asset, rounded down, and the rate of the exchange.
func payable(s Share, e escrow, rates map[money.Asset]money.Rate) (money.Amount, money.Rate, error) {
	asset := s.Destination.Symbol
	switch {
	case s.Receive.Sign() > 0:
		return s.Receive, money.Rate{}, nil
	case asset == s.Amount.Asset():
		return s.Amount, money.Rate{}, nil
	case asset == e.held.Asset() && !e.released:
		amount, err := e.worth(s.Amount)
		return amount, e.rate, err
	}
	rate, ok := rates[asset]
	if !ok {
		return money.Amount{}, rate, fmt.Errorf("payroll: no rate for %s", asset)
	}
	amount, err := rate.Convert(s.Amount, money.Floor)
	return amount, rate, err
}

// tooSmall reports whether an amount is smaller than the destination's network relays to an address of this type.
func tooSmall(d destination.Destination, x money.Amount) bool {
	least := Minimum(x.Asset()).Units()
	if d.Rail == destination.RailLightning {
		return x.Units() < 1 // the minimum of an address is known only after its server has answered
	}
	if x.Asset() == money.BTC && x.Units() >= least && x.Units() < enoughSats {
		if script, err := bitcoin.AddressScript(d.Address, d.Network); err == nil {
			least = bitcoinrail.Dust(script)
		}
	}
	return x.Units() < least
}

// positions holds the net amount of each asset that the exchanges of a release sell or buy.
type positions map[money.Asset]money.Amount

// exchange records a sale of from for to.
func (p positions) exchange(from, to money.Amount) error {
	for _, x := range [2]money.Amount{from.Neg(), to} {
		sum, ok := p[x.Asset()]
		if !ok {
			sum = money.Zero(x.Asset())
		}
		sum, err := sum.Add(x)
		if err != nil {
			return err
		}
		p[x.Asset()] = sum
	}
	return nil
}

func (p positions) lines() []ledger.Line {
	var lines []ledger.Line
	for _, asset := range money.All() {
		switch sum, ok := p[asset]; {
		case !ok || sum.IsZero():
		case sum.Sign() > 0:
			lines = append(lines, ledger.Debit(ledger.FXPosition, "", sum))
		default:
			lines = append(lines, ledger.Credit(ledger.FXPosition, "", sum.Neg()))
		}
	}
	return lines
}

// Minimum returns the smallest amount of an asset that can be paid out to one destination: its smallest unit, or the
// chain's relay minimum.
func Minimum(a money.Asset) money.Amount {
	return money.New(a, chain.Dust(a))
}
