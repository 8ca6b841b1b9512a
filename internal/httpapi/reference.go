package httpapi

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
)

type (
	rateList struct {
		Rates []rateItem `json:"rates"`
	}

	rateItem struct {
		Base       string  `json:"base"`
		Quote      string  `json:"quote" doc:"Currency of the price." example:"USD"`
		Rate       Decimal `json:"rate" doc:"Price of one whole unit of base in quote."`
		ObservedAt Time    `json:"observed_at"`
		ValidTo    Time    `json:"valid_to"`
	}

	currencyList struct {
		Currencies []currencyItem `json:"currencies"`
	}

	currencyItem struct {
		Symbol    string   `json:"symbol"`
		Type      string   `json:"type" enum:"crypto,fiat"`
		Decimals  int      `json:"decimals"`
		Minimum   Decimal  `json:"minimum" doc:"Minimum payout to one destination."`
		Payable   bool     `json:"payable" doc:"Whether this service pays out the currency."`
		Networks  []string `json:"networks" doc:"Networks that a destination can use, for a crypto currency."`
		Funding   []string `json:"funding_networks" doc:"EVM networks on which a payroll can be funded in the currency."`
		Countries []string `json:"countries"`
	}
)

func listRates(ctx context.Context, tx *db.Tx, _ *request, _ *none) (*rateList, error) {
	all, err := rates.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	out := &rateList{make([]rateItem, len(all))}
	for i, r := range all {
		out.Rates[i] = rateItem{
			string(r.Rate.Base()), string(r.Rate.Quote()), Decimal(r.Rate.String()), Time(r.ObservedAt), Time(r.ValidTo),
		}
	}
	return out, nil
}

func listCurrencies(_ context.Context, _ *db.Tx, c *request, _ *none) (*currencyList, error) {
	// A coin that only pays network fees has no networks and is not listed.
	all := slices.DeleteFunc(money.All(), func(a money.Asset) bool {
		return a.IsCrypto() && len(c.setup().Networks(a)) == 0
	})
	out := &currencyList{make([]currencyItem, len(all))}
	for i, a := range all {
		item := currencyItem{
			Symbol: string(a), Type: "fiat", Decimals: a.Exponent(), Minimum: amount(payroll.Minimum(a)), Networks: []string{},
		}
		item.Funding = append([]string{}, c.Payroll.Accounts.Carrying(a)...)
		if a.IsCrypto() {
			item.Type, item.Networks = "crypto", append(item.Networks, c.setup().Networks(a)...)
		}
		item.Countries = append([]string{}, destination.Countries(a)...)
		item.Payable = c.setup().Payable(a, "") && len(item.Networks)+len(item.Countries) > 0
		out.Currencies[i] = item
	}
	return out, nil
}
