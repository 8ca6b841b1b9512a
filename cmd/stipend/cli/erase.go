package cli

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
)

// EraseCmd erases the personal data of a person or company.
type EraseCmd struct {
	app.Storage
	Subject string `arg:"" help:"ID of the user (usr_…), recipient (rec_…), owner (ubo_…) or company (com_…)."`
	Reason  string `default:"stipend erase" help:"Reason, for the audit log (${default})."`
	Years   int    `default:"5" help:"Years to keep a payee after the last payroll (${default}), as the law requires."`
}

// Help returns the details of the help.
func (EraseCmd) Help() string {
	return `It destroys the key of the subject's documents and tax ids, so that copies in backups cannot be decrypted
either. Of a user it also erases the profile, the companies' copies of it, the mails and the destinations; of a
recipient without an account the company's record, the mails and the destinations. Ledger and payments keep the id
alone. It refuses while a verification or a payroll of theirs is open, and
before --years have passed since the last one, and under a legal hold. It cannot be undone. The retention job
erases people and companies by itself, years after the end of the relationship: see "stipend retention".`
}

// Run erases the data in one transaction, including stored responses that name the person or company. Then it removes
// the deleted data from the database file.
func (c EraseCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return app.Erase(ctx, tx, c.Subject, tx.Now().AddDate(-c.Years, 0, 0), c.Reason)
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
