package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// Tell writes to those who run a company ([Administrators]) that something was changed about who or what acts for it, one of the
// changes of [mail.CompanyChangedData]: one of them notices when nobody meant it. They get one mail of a cause.
func Tell(ctx context.Context, tx *db.Tx, cause, companyID, change, what string) error {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return err
	}
	to, err := Administrators(ctx, tx, company)
	if err != nil {
		return err
	}
	for address, name := range to {
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: company.ID, To: address, Template: mail.CompanyChanged, Language: mail.LanguageOf(company.Country),
			Key:  cause + "/" + identity.EmailKey(address),
			Data: mail.CompanyChangedData{Name: name, Company: company.Name, Change: change, What: what, At: tx.Now()},
		}); err != nil {
			return err
		}
	}
	return nil
}
