package backoffice

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Actions about direct debits.
const (
	// DebitLimit sets the risk limit of a company. A limit above the release limit needs two members of staff.
	DebitLimit = "debit.limit"
	// ConfirmMandate and RefuseMandate need one member of staff.
	ConfirmMandate = "mandate.confirm"
	RefuseMandate  = "mandate.refuse"
)

var errDebitLimit = apierr.New(apierr.Invalid, "invalid_parameter", "Enter an amount of zero or more in EUR or USD.")

// DecideMandate confirms or refuses a mandate whose account is being checked, or one that is suspended.
func (s *Service) DecideMandate(ctx context.Context, tx *db.Tx, by Session, companyID, mandateID string, confirm bool,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	if err := directdebit.DecideMandate(ctx, tx, companyID, mandateID, confirm); err != nil {
		return err
	}
	action := RefuseMandate
	if confirm {
		action = ConfirmMandate
	}
	return record(ctx, tx, by.Member, AuditEntry{
		Action: action, CompanyID: companyID, ObjectID: mandateID, Reason: reason,
	})
}

// SetDebitLimit sets the amount that a company can use before the holds of its direct debits end, or requests it.
func (s *Service) SetDebitLimit(ctx context.Context, tx *db.Tx, by Session, companyID, currency, amount,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	companyID = strings.TrimSpace(companyID)
	if _, err := identity.CompanyByID(ctx, tx, companyID); err != nil {
		return err
	}
	limit, err := parseDebitLimit(amount + " " + currency)
	if err != nil {
		return err
	}
	return s.decide(ctx, tx, by, limit, approval.Request{Action: DebitLimit, CompanyID: companyID,
		ObjectID: string(limit.Asset()), Target: limit.String() + " " + string(limit.Asset()), Reason: reason})
}

// parseDebitLimit parses a limit such as "5000.00 EUR".
func parseDebitLimit(text string) (money.Amount, error) {
	amount, currency, _ := strings.Cut(strings.TrimSpace(text), " ")
	asset := money.Asset(strings.TrimSpace(currency))
	if asset != money.EUR && asset != money.USD {
		return money.Amount{}, errDebitLimit.At("body", "/currency")
	}
	limit, err := money.Parse(asset, amount)
	if err != nil || limit.Sign() < 0 {
		return money.Amount{}, errDebitLimit.At("body", "/amount")
	}
	return limit, nil
}

// setDebitLimit performs an approved request.
func setDebitLimit(ctx context.Context, tx *db.Tx, r approval.Request) error {
	limit, err := parseDebitLimit(r.Target)
	if err != nil {
		return err
	}
	return directdebit.SetLimit(ctx, tx, r.CompanyID, limit)
}
