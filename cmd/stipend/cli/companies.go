package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// CompaniesCmd groups the commands about companies.
type CompaniesCmd struct {
	Frozen CompaniesFrozenCmd `cmd:"" help:"List the companies that are frozen."`
	Freeze CompaniesFreezeCmd `cmd:"" help:"Stop a company at once: it reads, and changes nothing; nothing more of its payrolls leaves."`
	Thaw   CompaniesThawCmd   `cmd:"" help:"End a freeze, and let what it held go on."`
}

// CompaniesFrozenCmd lists frozen companies.
type CompaniesFrozenCmd struct {
	app.Storage
}

// Run prints a line for each.
func (c CompaniesFrozenCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := identity.FrozenCompanies(ctx, tx)
			for _, company := range all {
				fmt.Fprintf(std.Out, "%s  %s\n", company.ID, company.Name)
			}
			return err
		})
	})
}

// CompanyDecision is what is said of a company.
type CompanyDecision struct {
	app.Storage
	Company string `arg:"" help:"Id of the company (com_…)."`
	Reason  string `required:"" help:"Why, for whoever examines it."`
}

func (c CompanyDecision) run(ctx context.Context, action string, what func(ctx context.Context, tx *db.Tx, companyID string) error) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New("--reason must say something")
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if err := what(ctx, tx, c.Company); err != nil {
				return err
			}
			return backoffice.AtTheMachine(ctx, tx, action, c.Company, c.Reason)
		})
	})
}

// CompaniesFreezeCmd freezes a company.
type CompaniesFreezeCmd struct {
	CompanyDecision
}

// Run freezes it.
func (c CompaniesFreezeCmd) Run(ctx context.Context, std Streams) error {
	err := c.run(ctx, backoffice.Freeze, backoffice.FreezeCompany)
	if err == nil {
		fmt.Fprintln(std.Out, "The company is frozen. What is broadcast, or with the bank, cannot be called back.")
	}
	return err
}

// CompaniesThawCmd ends a freeze.
type CompaniesThawCmd struct {
	CompanyDecision
}

// Run ends it.
func (c CompaniesThawCmd) Run(ctx context.Context, std Streams) error {
	err := c.run(ctx, backoffice.Thaw, backoffice.ThawCompany)
	if err == nil {
		fmt.Fprintln(std.Out, "The company is not frozen any more.")
	}
	return err
}
