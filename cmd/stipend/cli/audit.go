package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
)

// AuditCmd groups the commands for the audit log of staff.
type AuditCmd struct {
	Verify AuditVerifyCmd `cmd:"" help:"Check that no entry of the audit log was changed, removed or inserted."`
	Export AuditExportCmd `cmd:"" help:"Print the audit log as lines of JSON, for an archive or syslog."`
}

// AuditVerifyCmd checks the audit log.
type AuditVerifyCmd struct {
	app.Storage
	File string `placeholder:"FILE" help:"Check this export (- for stdin) instead of the database."`
	Head string `placeholder:"HASH" help:"Hash of an entry known from an earlier check, which must still be in the log."`
}

// Help returns the details of the help.
func (AuditVerifyCmd) Help() string {
	return `Each entry has the hash of the entry before it. Someone who can write to the database could write a new log
with new hashes. To detect that, keep the hash that this command prints, or exports, where they cannot change it,
and give a kept hash with --head. The exit code is 1 if the log was changed.`
}

// Run checks the log and prints its last hash. It returns backoffice.ErrAudit if the log was changed.
func (c AuditVerifyCmd) Run(ctx context.Context, std Streams) error {
	found, all := c.Head == "", int64(0)
	bar := &progress{w: std.Err}
	defer bar.end()
	visit := func(a backoffice.AuditEntry) error {
		found = found || a.Hash == c.Head
		if c.File == "" {
			bar.share(a.Sequence, all, "checked")
		}
		return ctx.Err()
	}
	var chain backoffice.AuditChain
	var err error
	if c.File != "" {
		chain, err = c.verifyFile(std, bar, visit)
	} else {
		err = withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) (err error) {
			if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
				all, err = backoffice.AuditEntries(ctx, tx)
				return err
			}); err != nil {
				return err
			}
			chain, err = backoffice.VerifyAudit(ctx, d, visit)
			return err
		})
	}
	bar.end()
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: no entry has the hash %s", backoffice.ErrAudit, c.Head)
	}
	fmt.Fprintf(std.Out, "%d entries are as they were written.\n", chain.Entries)
	if chain.Entries > 0 {
		fmt.Fprintf(std.Out, "Entry %d has the hash %s\n", chain.Sequence, chain.Hash)
	}
	return nil
}

func (c AuditVerifyCmd) verifyFile(
	std Streams, bar *progress, visit func(backoffice.AuditEntry) error,
) (backoffice.AuditChain, error) {
	from := std.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return backoffice.AuditChain{}, err
		}
		defer f.Close()
		from = f
	}
	return backoffice.VerifyAuditFile(bar.reader(from, fileSize(c.File), "checked"), visit)
}

// AuditExportCmd prints the audit log.
type AuditExportCmd struct {
	app.Storage
	After int64 `placeholder:"N" help:"Only entries after this number: the sequence of the last line exported before."`
}

// Run checks the whole log, and prints the entries.
func (c AuditExportCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		w := bufio.NewWriter(std.Out)
		lines := json.NewEncoder(w)
		_, err := backoffice.VerifyAudit(ctx, d, func(a backoffice.AuditEntry) error {
			if a.Sequence <= c.After {
				return nil
			}
			return lines.Encode(a)
		})
		if flushed := w.Flush(); err == nil {
			err = flushed
		}
		return err
	})
}
