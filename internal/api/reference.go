package api

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rates"
)

type (
	rateList struct {
		Rates []rateItem `json:"rates"`
	}

	rateItem struct {
		Base       string  `json:"base"`
		Quote      string  `json:"quote"`
		Rate       Decimal `json:"rate" doc:"Quote for one whole base."`
		ObservedAt Time    `json:"observed_at"`
		ValidTo    Time    `json:"valid_to"`
	}

	currencyList struct {
		Currencies []currencyItem `json:"currencies"`
	}

	currencyItem struct {
		Symbol   string  `json:"symbol"`
		Type     string  `json:"type" enum:"crypto,fiat"`
		Decimals int     `json:"decimals"`
		Minimum  Decimal `json:"minimum" doc:"The smallest amount that can be written."`
	}
)

func listRates(ctx context.Context, tx *db.Tx, _ *call, _ *none) (*rateList, error) {
	all, err := rates.List(ctx, tx)
	if err != nil {
		return nil, err
	}
	out := &rateList{make([]rateItem, len(all))}
	for i, r := range all {
		out.Rates[i] = rateItem{string(r.Rate.Base()), string(r.Rate.Quote()), Decimal(r.Rate.String()), Time(r.ObservedAt), Time(r.ValidTo)}
	}
	return out, nil
}

func listCurrencies(context.Context, *db.Tx, *call, *none) (*currencyList, error) {
	all := money.All()
	out := &currencyList{make([]currencyItem, len(all))}
	for i, a := range all {
		item := currencyItem{Symbol: string(a), Type: "fiat", Decimals: a.Exponent(), Minimum: amount(money.New(a, 1))}
		if a.IsCrypto() {
			item.Type = "crypto"
		}
		out.Currencies[i] = item
	}
	return out, nil
}
