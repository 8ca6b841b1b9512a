package payroll

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// An item of a payroll can fix the amount that the payee receives, in the currency of all the payee's destinations,
// instead of the amount in the payroll's currency. The latter is then the cost of the receive amount at the price
// when the payroll is created, with the spread of quotes, rounded up. The cost is set anew when an expired quote of a
// payroll that has received nothing is replaced. The payee receives exactly the fixed amount: the operator bears
// price increases up to maxDrift. After a larger increase, even after an approval, the payment waits until the
// company pays the difference or takes its money back (price.go). To keep companies from waiting for the market, the
// release must follow soon (checkReceive), the operator bears no increase if the funding took several quotes (drift),
// and a cancellation returns at most the present cost of the receive amount (presentValue, TakeBack).

// maxDrift is the largest increase of the cost that the operator bears, in basis points of the cost that was set.
const maxDrift = 100

var (
	errTwoAmounts = apierr.New(apierr.Invalid, "invalid_parameter",
		"Give amount_fiat, or receive_amount with receive_currency, not both.")
	errReceiveCurrency = apierr.New(apierr.Invalid, "missing_field",
		"receive_amount and receive_currency are given together.")
)

// amount sets the amount of an item: the given amount in the payroll's currency, or the cost of the fixed receive
// amount.
func (t *plan) amount(it *Item, prices map[money.Asset]money.Rate, list *apierr.List, at func(string) string) error {
	if it.ReceiveText == "" && it.ReceiveCurrency == "" {
		amount, err := parseAmount(t.currency, it.AmountText)
		if err != nil {
			return list.AddErr(err, at("amount_fiat"))
		}
		it.Amount = amount
		return nil
	}
	asset, known := money.Lookup(it.ReceiveCurrency)
	switch {
	case it.AmountText != "":
		return list.AddErr(errTwoAmounts, at("receive_amount"))
	case it.ReceiveText == "":
		return list.AddErr(errReceiveCurrency, at("receive_amount"))
	case it.ReceiveCurrency == "":
		return list.AddErr(errReceiveCurrency, at("receive_currency"))
	case !known:
		list.Add("currency_not_supported", at("receive_currency"),
			"The service does not know this currency; see GET /api/currencies.")
		return nil
	}
	receive, err := parseAmount(asset, it.ReceiveText)
	if err != nil {
		return list.AddErr(err, at("receive_amount"))
	}
	it.Receive = receive
	it.Amount, err = costOf(receive, t.currency, prices)
	if err != nil {
		return list.AddErr(err, at("receive_amount"))
	}
	return nil
}

// checkReceive adds to list each item that fixes a receive amount in another currency in a payroll that is not
// released soon: one with a later pay date, or one funded by bank transfer or direct debit. Otherwise a company could
// wait for the market at the operator's cost.
func (t *plan) checkReceive(list *apierr.List) {
	for i, it := range t.items {
		at := fmt.Sprintf("/to_pay/%d/receive_amount", i)
		switch r := it.Receive; {
		case r.Sign() <= 0 || r.Asset() == t.currency:
		case t.method == MethodBank:
			list.Add("invalid_parameter", at, "A payroll funded by bank transfer cannot fix a received amount in another "+
				"currency. Give amount_fiat, or fund the payroll on a chain or from the balance.")
		case t.method == MethodDebit:
			list.Add("invalid_parameter", at, "A payroll funded by direct debit cannot fix a received amount in another "+
				"currency. Give amount_fiat, or fund the payroll on a chain or from the balance.")
		case t.payDate != "":
			list.Add("invalid_parameter", at, "A payroll with a pay date cannot fix a received amount in another currency. "+
				"Give amount_fiat, or create the payroll on the day of the payment.")
		}
	}
}

// costOf returns the cost of a receive amount in another currency, rounded up.
func costOf(receive money.Amount, currency money.Asset, prices map[money.Asset]money.Rate) (money.Amount, error) {
	if receive.Asset() == currency {
		return receive, nil
	}
	return prices[receive.Asset()].Convert(receive, money.Ceil)
}

// pricesOf returns the current prices of receive currencies in a payroll's currency, with a spread that the payer
// bears. It skips unknown currencies.
func pricesOf(ctx context.Context, tx *db.Tx, currency money.Asset, received []money.Asset,
	spreadBps int64) (map[money.Asset]money.Rate, error) {
	prices := map[money.Asset]money.Rate{}
	if a, known := money.Lookup(string(currency)); !known || a.IsCrypto() {
		return prices, nil
	}
	for _, asset := range received {
		_, done := prices[asset]
		if _, known := money.Lookup(string(asset)); !known || done || asset == currency {
			continue
		}
		rate, err := price(ctx, tx, currency, asset)
		if err != nil {
			return nil, err
		}
		// In a price, a coin is the base currency; a bank currency is the quote currency.
		if prices[asset], err = rate.WithSpread(spreadBps, asset.IsCrypto()); err != nil {
			return nil, err
		}
	}
	return prices, nil
}

// ReceiveCurrencies returns, by payee ID, the currency in which a payee of a company can receive a fixed amount: the
// currency that all the payee's destinations share. Payees without such a currency are missing.
func ReceiveCurrencies(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string]money.Asset,
	error) {
	payees, err := payee.Payees(ctx, tx, companyID, unique(slices.Clone(ids)))
	if err != nil || len(payees) == 0 {
		return nil, err
	}
	all, err := destination.ForOwners(ctx, tx, owners(payees))
	if err != nil {
		return nil, err
	}
	currencies := map[string]money.Asset{}
	for id, who := range payees {
		if _, used := destinations(who, all); len(used) > 0 && takes(used, used[0].Symbol) {
			currencies[id] = used[0].Symbol
		}
	}
	return currencies, nil
}

// SetAmount replaces the amount of an item: the receive amount if the item fixes one, else the amount in the
// payroll's currency.
func (p *Payee) SetAmount(text string) {
	if p.ReceiveCurrency != "" {
		p.ReceiveText = text
		return
	}
	p.AmountText = text
}

// takes reports whether all destinations receive the asset.
func takes(used []destination.Destination, asset money.Asset) bool {
	return !slices.ContainsFunc(used, func(d destination.Destination) bool { return d.Symbol != asset })
}

// symbols returns the assets of destinations as a list for a sentence.
func symbols(used []destination.Destination) string {
	var all []string
	for _, d := range used {
		if s := string(d.Symbol); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return strings.Join(all, " and ")
}

// divide splits an amount over destinations. If the receive amount is fixed, it splits the receive amount, and
// divides the cost in the same proportion.
func divide(amount, receive money.Amount, used []destination.Destination) ([]Share, error) {
	if receive.Sign() <= 0 {
		return split(amount, used)
	}
	shares, err := split(receive, used)
	if err != nil {
		return nil, err
	}
	weights := make([]int64, len(shares))
	for i, s := range shares {
		weights[i] = s.Amount.Units()
	}
	costs, err := amount.Split(weights)
	if err != nil {
		return nil, err
	}
	for i := range shares {
		shares[i].Receive, shares[i].Amount = shares[i].Amount, costs[i]
	}
	return shares, nil
}

// fallen returns how much less the fixed receive amount of a payment costs now than was paid for it, at least 0.
func (m *Payment) fallen(prices map[money.Asset]money.Rate) (money.Amount, error) {
	none := money.Zero(m.Amount.Asset())
	if m.Receive.Sign() <= 0 {
		return none, nil
	}
	cost, err := costOf(m.Receive, m.Amount.Asset(), prices)
	if err != nil {
		return none, err
	}
	less, err := money.Sum(m.Amount.Asset(), m.Amount, m.Surcharge, cost.Neg())
	if err != nil || less.Sign() < 0 {
		return none, err
	}
	return less, nil
}

// drift returns the largest increase of the cost of fixed receive amounts that the operator bears at the release of a
// payroll, in basis points. It is 0 if money had arrived before the quote that funds the payroll: the costs were not
// set anew with that quote, so the company could choose among the prices of several times.
func (p *Payroll) drift(ctx context.Context, tx *db.Tx) (int64, error) {
	if !p.FromOutside() {
		return maxDrift, nil
	}
	f, err := loadFunding(ctx, tx, p)
	if err != nil {
		return 0, err
	}
	for i := range f.receipts {
		r := &f.receipts[i]
		if !r.active || r.escrow.IsZero() {
			continue
		}
		q, known := f.facts.Quote(r.price)
		if !known || slices.ContainsFunc(f.facts.Deposits, func(d deposit.Deposit) bool {
			return d.FirstSeen.Before(q.ValidFrom)
		}) {
			return 0, nil
		}
	}
	return maxDrift, nil
}

// drifted reports whether the fixed receive amount of a payment costs so much more now that the payment must wait.
// borne is the increase that the operator bears, in basis points.
func drifted(m Payment, prices map[money.Asset]money.Rate, borne int64) (bool, error) {
	if m.Receive.Sign() <= 0 {
		return false, nil
	}
	cost, err := costOf(m.Receive, m.Amount.Asset(), prices)
	if err != nil {
		return false, err
	}
	paid, err := m.Amount.Add(m.Surcharge)
	if err != nil {
		return false, err
	}
	most, err := paid.Fraction(basisPoints+borne, basisPoints, money.Ceil)
	return err == nil && cost.Cmp(most) > 0, err
}

// received returns the currencies of the payments' fixed receive amounts, each once.
func received(payments []Payment) []money.Asset {
	var all []money.Asset
	for _, m := range payments {
		if m.Receive.Sign() > 0 && !slices.Contains(all, m.Receive.Asset()) {
			all = append(all, m.Receive.Asset())
		}
	}
	return all
}

// revalue sets the costs of fixed receive amounts at the current prices, before a payroll that has received nothing
// gets a new quote. It reports whether the payroll changed.
func (s *Service) revalue(ctx context.Context, tx *db.Tx, p *Payroll) (bool, error) {
	payments, err := p.allPayments(ctx, tx, Pending)
	if err != nil || len(received(payments)) == 0 {
		return false, err
	}
	prices, err := pricesOf(ctx, tx, p.Currency, received(payments), s.SpreadBps)
	if err != nil {
		return false, err
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err != nil {
		return false, err
	}
	t := plan{currency: p.Currency, items: make([]Item, len(payments))}
	for i, m := range payments {
		t.items[i].Amount, t.items[i].IsPremium = m.Amount, m.IsPremium
		if m.Receive.Sign() > 0 {
			if t.items[i].Amount, err = costOf(m.Receive, p.Currency, prices); err != nil {
				return false, err
			}
		}
	}
	if err := t.add(company); err != nil {
		return false, err
	}
	p.Payments = payments
	before := *p
	if t.volume == p.Volume && t.total == p.Total {
		return false, nil
	}
	p.Payments = slices.Clone(payments)
	for i := range p.Payments {
		p.Payments[i].Amount, p.Payments[i].Fee = t.items[i].Amount, t.items[i].Fee
	}
	p.Volume, p.Fees, p.Total = t.volume, t.fees, t.total
	p.PlatformID, p.PlatformFeeBps = t.platformID, t.platformBps
	return true, p.replacePayments(ctx, tx, &before)
}
