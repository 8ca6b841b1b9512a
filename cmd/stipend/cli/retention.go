package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
)

// RetentionCmd shows how long classes of data are stored.
type RetentionCmd struct {
	app.Storage
	app.Retention
}

// Help returns the details of the help.
func (RetentionCmd) Help() string {
	return `A worker process deletes expired data every hour. EXPIRED is the number of rows that it deletes next, or of
people and companies whose data it erases: try a period with --keep before you give it to the service. A class with
a dash has a period that the API promises. DELETED and RETAINED are what the last run did: it retains the data of
those with a legal hold, a sanctions match that was not cleared, or a payment within the period.
The ledger, payments and the audit log are in no class: they are kept.

  stipend retention --keep mails=30,security_events=730`
}

// Run prints the classes. It changes nothing.
func (c RetentionCmd) Run(ctx context.Context, std Streams) error {
	classes, err := c.Classes()
	if err != nil {
		return err
	}
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		expired := make([]string, len(classes))
		for i, class := range classes {
			expired[i] = "-"
			if class.Expired == nil {
				continue
			}
			n, err := class.Expired(ctx, tx, class.Kept())
			if err != nil {
				return err
			}
			expired[i] = fmt.Sprint(n)
		}
		run, err := backoffice.LastRetention(ctx, tx)
		if err != nil {
			return err
		}
		last := map[string]backoffice.RetentionResult{}
		for _, r := range run.Classes {
			last[r.Class] = r
		}
		if err := table(std.Out, "CLASS\tDAYS\tLEAST\tEXPIRED\tDELETED\tRETAINED\tCONTAINS", func(row func(...any)) {
			for i, class := range classes {
				deleted, retained := "-", "-"
				if r, ran := last[class.Name]; ran {
					deleted, retained = fmt.Sprint(r.Deleted), fmt.Sprint(r.Retained)
					if r.Failed {
						deleted += " (failed)"
					}
				}
				row(class.Name, class.Days, class.Least, expired[i], deleted, retained, class.Contains)
			}
		}); err != nil {
			return err
		}
		if run.At.IsZero() {
			fmt.Fprintln(std.Out, "\nThe job has not run yet.")
			return nil
		}
		fmt.Fprintf(std.Out, "\nThe last run was at %s.\n", run.At.UTC().Format(time.RFC3339))
		return nil
	})
}
