package auth

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// NotifyAdministrators mails the administrators of a company (see [Administrators]) about a change of its members,
// apps or keys, so that they notice unintended changes. change and detail are fields of [mail.CompanyChangedData].
// Each recipient gets one mail per cause.
func NotifyAdministrators(ctx context.Context, tx *db.Tx, cause, companyID, change, detail string) error {
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
			Data: mail.CompanyChangedData{Name: name, Company: company.Name, Change: change, Detail: detail, At: tx.Now()},
		}); err != nil {
			return err
		}
	}
	return nil
}
