package cli

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/kyc"
)

// EraseCmd destroys what a subject handed in.
type EraseCmd struct {
	app.Storage
	Subject string `arg:"" help:"Id of the user (usr_…), owner (ubo_…) or company (com_…)."`
	Years   int    `default:"5" help:"For how many years after the last pay run a user is kept (${default}): the law's number."`
}

// Help is the long form of the help.
func (EraseCmd) Help() string {
	return `It destroys the key of the subject, so that copies in backups cannot be read any more either. Of a user it
also empties the profile, the companies' copies of it, their mails and destinations; ledger and payments keep the id alone. It
refuses while a verification or a pay run of theirs is open, and before --years have passed since the last one. It cannot be undone.`
}

// erase forgets a subject, and the answers kept for repeated requests that name it.
func erase(ctx context.Context, tx *db.Tx, subject string, years int) error {
	known, err := kyc.Erase(ctx, tx, subject, years)
	if err != nil {
		return err
	}
	return httpapi.ForgetAnswers(ctx, tx, known)
}

// Run erases in one transaction.
func (c EraseCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return erase(ctx, tx, c.Subject, c.Years) })
		if err == nil {
			fmt.Fprintln(std.Out, "Erased for good.")
		}
		return err
	})
}
