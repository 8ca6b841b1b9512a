package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
)

// The commands start a rotation, which is audited, and say when the old key may be removed.
func TestTheDataKeyIsRotatedByCommands(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		now := time.Now()
		d := dbtest.Open(t, db.Options{URL: url, Clock: func() time.Time { return now }})
		at, keys := app.Storage{DatabaseURL: url}, app.DataKeys{DataKey: strings.Repeat("22", 32)}
		rotate := func() error {
			return cli.DatakeyRotateCmd{Storage: at, DataKeys: keys, Rate: datakey.DefaultRate}.Run(t.Context(),
				cli.Streams{Out: io.Discard})
		}
		status := func() (string, error) {
			var out bytes.Buffer
			err := cli.DatakeyStatusCmd{Storage: at, Search: true}.Run(t.Context(), cli.Streams{Out: &out})
			return out.String(), err
		}
		if _, err := status(); err == nil {
			t.Error("the status before any rotation is success")
		}
		if err := rotate(); !errors.Is(err, datakey.ErrNoOtherKey) {
			t.Errorf("without the old key: %v", err)
		}
		old := testkit.Must(app.DataKeys{DataKey: strings.Repeat("11", 32)}.Sealer())
		place := identity.SealContext{Table: "staff_notes", Column: "sealed", Row: "1"}
		sealed := testkit.Must(old.Seal(place, []byte("note")))
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "staff_notes", []string{"company_id", "note_id", "name", "sealed", "created_at"},
				[][]any{{"com_1", "1", "Ada", sealed, int64(1)}})
		})
		keys.DecryptDataKeys = []string{strings.Repeat("11", 32)}
		testkit.Check(t, rotate())
		if out, err := status(); err == nil || !strings.Contains(out, "1 values in staff_notes.sealed") {
			t.Errorf("at the start: %q, %v", out, err)
		}
		log := slog.New(slog.DiscardHandler)
		runner := job.NewRunner(d, job.Table{datakey.JobRotate: {Tx: datakey.Handle(testkit.Must(keys.Sealer()), log)}}, nil,
			log)
		for range 6 {
			now = now.Add(time.Minute)
			testkit.Check(t, runner.Drain(t.Context()))
			testkit.Check(t, datakey.Finish(t.Context(), d, log))
		}
		if out, err := status(); err != nil || !strings.Contains(out, "1 encrypted again") ||
			!strings.Contains(out, "Remove STIPEND_DECRYPT_DATA_KEYS.") {
			t.Errorf("at the end: %q, %v", out, err)
		}
		var audited string
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT object_id FROM staff_actions WHERE action = 'datakey.rotate'").Scan(&audited)
		})
		if audited != testkit.Must(keys.Sealer()).Key() {
			t.Errorf("audited: %q", audited)
		}
	})
}
