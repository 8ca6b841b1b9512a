package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
)

// DatakeyCmd groups the commands for the rotation of the data key.
type DatakeyCmd struct {
	Rotate DatakeyRotateCmd `cmd:"" help:"Encrypt all stored secrets with the new data key, in the background."`
	Status DatakeyStatusCmd `cmd:"" help:"Show how far the rotation is, and whether the old key may be removed."`
}

// DatakeyRotateCmd starts a rotation of the data key.
type DatakeyRotateCmd struct {
	app.Storage
	app.DataKeys
	Rate int `default:"2000" help:"Rows to read in a second (${default})."`
}

// Help returns the details of the help.
func (DatakeyRotateCmd) Help() string {
	return `1. Create a key:  openssl rand -hex 32
2. Put it in STIPEND_DECRYPT_DATA_KEYS of every process, and restart them one after the other.
3. Exchange it with STIPEND_DATA_KEY, and restart them again. New values are encrypted with the new key.
4. Run stipend datakey rotate with both variables. Workers encrypt all other values again, while the service runs.
5. When stipend datakey status says that it is finished, remove STIPEND_DECRYPT_DATA_KEYS, and restart the processes.

A process that is restarted with the wrong keys in between does not start.`
}

// Run enqueues the first job of the rotation.
func (c DatakeyRotateCmd) Run(ctx context.Context, std Streams) error {
	sealer, err := newSealer(c.DataKeys)
	if err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		r, err := datakey.Start(ctx, tx, sealer, c.Rate)
		if err != nil {
			return "", err
		}
		what := fmt.Sprintf("from %s to %s", strings.Join(r.Others, ", "), r.Key)
		return "Workers encrypt all stored secrets again, " + what + ". Follow it with: stipend datakey status",
			backoffice.RecordCommand(ctx, tx, "datakey.rotate", r.Key, what)
	})
}

// DatakeyStatusCmd shows the newest rotation of the data key.
type DatakeyStatusCmd struct {
	app.Storage
	Search bool `help:"Search all columns for values of other keys now, which reads the whole database."`
}

// Help returns the details of the help.
func (DatakeyStatusCmd) Help() string {
	return `The exit code is 0 if the rotation is finished and the old key may be removed, else 1.`
}

var errNotRotated = errors.New("the old data key is still needed")

// Run prints the state of the rotation. It returns errNotRotated as long as another key is needed.
func (c DatakeyStatusCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var r *datakey.Rotation
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			r, err = datakey.State(ctx, tx)
			return err
		}); err != nil {
			return err
		}
		if r == nil {
			return errors.New("the data key was never rotated; see stipend datakey rotate --help")
		}
		when := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
		fmt.Fprintf(std.Out, "key            %s\nreplaced       %s\nstarted        %s\nvalues         %d encrypted again\n",
			r.Key, strings.Join(r.Others, ", "), when(r.Started), r.Values)
		if c.Search {
			var err error
			if r.Left, err = datakey.Search(ctx, d, r.Key); err != nil {
				return err
			}
		}
		for _, l := range r.Left {
			fmt.Fprintf(std.Out, "other key      %d values in %s.%s\n", l.Values, l.Table, l.Column)
		}
		if r.Failed > 0 {
			fmt.Fprintf(std.Out, "no key         %d values, the first in %s; see the worker's log\n", r.Failed, r.FirstFailed)
		}
		if r.Finished.IsZero() || len(r.Left) > 0 {
			fmt.Fprintf(std.Out, "pass           %d\n", r.Pass)
			return errNotRotated
		}
		fmt.Fprintf(std.Out, "finished       %s\nNo value is encrypted with another key. Remove STIPEND_DECRYPT_DATA_KEYS.\n",
			when(r.Finished))
		return nil
	})
}
