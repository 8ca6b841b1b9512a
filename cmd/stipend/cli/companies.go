package cli

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// CompaniesCmd groups the commands for companies.
type CompaniesCmd struct {
	Frozen   CompaniesFrozenCmd   `cmd:"" help:"List the frozen companies."`
	Freeze   CompaniesFreezeCmd   `cmd:"" help:"Freeze a company: it can read but not write, and its payouts stop."`
	Unfreeze CompaniesUnfreezeCmd `cmd:"" help:"End a freeze, and resume what it held."`
	Password CompaniesPasswordCmd `cmd:"" help:"No longer require single sign-on of the members of a company."`
}

// CompaniesFrozenCmd lists frozen companies.
type CompaniesFrozenCmd struct{ app.Storage }

// Run prints a line for each company.
func (c CompaniesFrozenCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		all, err := identity.FrozenCompanies(ctx, tx)
		for _, company := range all {
			fmt.Fprintf(std.Out, "%s  %s\n", company.ID, company.Name)
		}
		return err
	})
}

// CompanyDecision contains the arguments of a decision about a company, including its reason.
type CompanyDecision struct {
	app.Storage
	Company string `arg:"" help:"Id of the company (com_…)."`
	Reason  string `required:"" help:"Reason, for the audit log."`
}

// run executes a decision, records it in the audit log, and prints the text done.
func (c CompanyDecision) run(
	ctx context.Context, std Streams, action string,
	decide func(ctx context.Context, tx *db.Tx, companyID string) error, done string,
) error {
	if err := required("--reason", c.Reason); err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		if err := decide(ctx, tx, c.Company); err != nil {
			return "", err
		}
		return done, backoffice.RecordCommand(ctx, tx, action, c.Company, c.Reason)
	})
}

// CompaniesFreezeCmd freezes a company.
type CompaniesFreezeCmd struct{ CompanyDecision }

// Run freezes the company.
func (c CompaniesFreezeCmd) Run(ctx context.Context, std Streams) error {
	return c.run(ctx, std, backoffice.Freeze, backoffice.FreezeCompany,
		"The company is frozen. Payouts that were broadcast or sent to a bank cannot be stopped.")
}

// CompaniesUnfreezeCmd ends a freeze.
type CompaniesUnfreezeCmd struct{ CompanyDecision }

// Run ends the freeze.
func (c CompaniesUnfreezeCmd) Run(ctx context.Context, std Streams) error {
	return c.run(ctx, std, backoffice.Unfreeze, backoffice.UnfreezeCompany, "The company is not frozen any more.")
}

// CompaniesPasswordCmd ends the enforcement of single sign-on for a company whose provider is no longer available.
type CompaniesPasswordCmd struct{ CompanyDecision }

// Run ends the enforcement of single sign-on, so that members can sign in with a password again.
func (c CompaniesPasswordCmd) Run(ctx context.Context, std Streams) error {
	return c.run(ctx, std, "company.sso_not_required", sso.Unrequire, "Members can sign in with a password again.")
}
