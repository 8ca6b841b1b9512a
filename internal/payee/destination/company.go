package destination

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Own validates and encrypts a destination that belongs to a company itself, by the rules of the company's country.
// The caller must store the destination. Problems have the same pointers as those of [Create]. Own returns
// ErrCurrency for a currency that cannot be paid out.
func (s Setup) Own(ctx context.Context, tx *db.Tx, companyID, country, symbol string,
	data []byte) (Destination, error) {
	d, clean, err := s.checked(ctx, tx, CreateParams{Symbol: symbol, Data: data, oneAddress: true}, country)
	if err != nil {
		return Destination{}, err
	}
	d.ID, d.OwnerID, d.Created = tx.NewID("dst"), companyID, tx.Now()
	return d, s.seal(&d, clean)
}

// RequiredByCompany returns the required fields of a destination that belongs to a company itself. Its wallets must
// be given as one address.
func (s Setup) RequiredByCompany(currency, country string) (Requirement, error) {
	return s.required(currency, country, true)
}

// RequiredIn returns the required fields of a payee's destination in a currency and country. It returns ErrCurrency
// for an unknown currency.
func (s Setup) RequiredIn(currency, country string) (Requirement, error) {
	return s.required(currency, country, false)
}

func (s Setup) required(currency, country string, oneAddress bool) (Requirement, error) {
	if fields := s.cryptoFields(money.Asset(currency), oneAddress); fields != nil {
		return Requirement{Currency: currency, Country: country, Fields: fields}, nil
	}
	return Fields(currency, country)
}
