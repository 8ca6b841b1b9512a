package cli

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
)

// RetentionCmd shows how long classes of data are stored.
type RetentionCmd struct {
	app.Storage
	app.Retention
}

// Help returns the details of the help.
func (RetentionCmd) Help() string {
	return `A worker process deletes expired data every hour. EXPIRED is the number of rows that it deletes next: try a
period with --keep before you give it to the service. A class with a dash has a period that the API promises.
The ledger, payments, documents of verifications and the audit log are in no class: they are kept.

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
		return table(std.Out, "CLASS\tDAYS\tLEAST\tEXPIRED\tCONTAINS", func(row func(...any)) {
			for i, class := range classes {
				row(class.Name, class.Days, class.Least, expired[i], class.Contains)
			}
		})
	})
}
