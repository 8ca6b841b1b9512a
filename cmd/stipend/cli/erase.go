package cli

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/travelrule"
)

// EraseCmd erases the personal data of a person or company.
type EraseCmd struct {
	app.Storage
	Subject string `arg:"" help:"ID of the user (usr_…), recipient (rec_…), owner (ubo_…) or company (com_…)."`
	Years   int    `default:"5" help:"Years to keep a payee after the last payroll (${default}), as the law requires."`
}

// Help returns the details of the help.
func (EraseCmd) Help() string {
	return `It destroys the key of the subject's documents and tax ids, so that copies in backups cannot be decrypted
either. Of a user it also erases the profile, the companies' copies of it, the mails and the destinations; of a
recipient without an account the company's record, the mails and the destinations. Ledger and payments keep the id
alone. It refuses while a verification or a payroll of theirs is open, and
before --years have passed since the last one. It cannot be undone.`
}

// Run erases in one transaction, which includes stored responses that name the subject. Then it removes the deleted
// data from the database file.
func (c EraseCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			names, err := kyc.Erase(ctx, tx, c.Subject, c.Years)
			if err == nil {
				err = travelrule.Erase(ctx, tx, c.Subject)
			}
			if err != nil {
				return err
			}
			return httpapi.ForgetAnswers(ctx, tx, names)
		}); err != nil {
			return err
		}
		if err := d.Vacuum(ctx); err != nil {
			return err
		}
		fmt.Fprintln(std.Out, "Erased for good.")
		return nil
	})
}
