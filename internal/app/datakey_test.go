package app_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
)

// newDataKey is the key that tests rotate to.
var newDataKey = []byte(strings.Repeat("n", 32))

// rotateDataKey rotates the data key of a sandbox that has stopped. Each encrypted value that its tests stored must be
// in a listed column, and encrypted again.
func rotateDataKey(t *testing.T, url string) {
	t.Helper()
	ctx, log := context.Background(), slog.New(slog.NewTextHandler(t.Output(), nil))
	now := time.Now().Add(48 * time.Hour)
	d, err := db.Open(ctx, db.Options{URL: url, Clock: func() time.Time { return now }})
	testkit.Check(t, err)
	defer d.Close()
	if names, err := datakey.Unlisted(ctx, d); err != nil || len(names) > 0 {
		t.Errorf("columns with encrypted values that internal/datakey/columns.go does not list: %v, %v", names, err)
	}
	sealer, err := identity.NewSealer(newDataKey, sandbox.DataKey())
	testkit.Check(t, err)
	left, err := datakey.Search(ctx, d, sealer.Key())
	testkit.Check(t, err)
	if len(left) < 15 {
		t.Errorf("the tests store encrypted values in %d columns only: %v", len(left), left)
	}
	testkit.Check(t, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := datakey.Start(ctx, tx, sealer, datakey.DefaultRate)
		return err
	}))
	runner := job.NewRunner(d, job.Table{datakey.JobRotate: {Tx: datakey.Handle(sealer, log)}}, nil, log)
	r := new(datakey.Rotation)
	for i := 0; i < 50 && r.Finished.IsZero(); i++ {
		testkit.Check(t, runner.Drain(ctx))
		testkit.Check(t, datakey.Finish(ctx, d, log))
		testkit.Check(t, d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			r, err = datakey.State(ctx, tx)
			return err
		}))
		now = now.Add(time.Minute)
	}
	if r.Finished.IsZero() || r.Failed > 0 {
		t.Errorf("the rotation did not finish: %+v", r)
	}
}

// A service whose data key is rotated keeps running, also if its process is replaced in between. Afterwards it runs
// with the new key alone, and does not start with the old one.
func TestTheDataKeyIsRotatedWhileTheServiceRuns(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		old, fresh := hex.EncodeToString(sandbox.DataKey()), hex.EncodeToString(newDataKey)
		run := func(keys ...string) *service {
			return start(t, url, func(c *app.Config) { c.DataKey, c.DecryptDataKeys = keys[0], keys[1:] })
		}
		stop := func(s *service) {
			ctx, cancel := context.WithTimeout(context.Background(), app.StopTimeout)
			defer cancel()
			testkit.Check(t, s.Stop(ctx))
		}
		profile := func(s *service) string { // of a worker, whose birth date is stored encrypted
			c := newAPIClient(t, s)
			return c.ok("GET", "/api/user/detail?user_id="+c.seed.Workers[0].UserID, "").text
		}
		s := run(old, fresh) // the new key only decrypts
		before := profile(s)
		stop(s)

		s = run(fresh, old)
		sealer, err := s.cfg.Sealer()
		testkit.Check(t, err)
		d := dbtest.Open(t, db.Options{URL: url, AdjustableClock: true})
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := datakey.Start(ctx, tx, sealer, 50) // slowly
			return err
		})
		eventually(t, time.Minute, "the first values are encrypted again", func() bool { return rotation(t, d).Values > 0 })
		stop(s)

		s = run(fresh, old)
		if got := profile(s); got != before || !strings.Contains(got, "1990-01-31") {
			t.Errorf("during the rotation: %s, before: %s", got, before)
		}
		eventually(t, time.Minute, "the rotation is finished", func() bool {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return db.AdvanceClock(ctx, tx, time.Minute) })
			testkit.Check(t, datakey.Finish(t.Context(), d, slog.New(slog.DiscardHandler))) // does not wait for the minute
			return !rotation(t, d).Finished.IsZero()
		})
		stop(s)

		s = run(fresh)
		if got := profile(s); got != before {
			t.Errorf("after the rotation: %s, before: %s", got, before)
		}
		stop(s)
		cfg := s.cfg
		cfg.DataKey = old
		if _, err := app.Start(t.Context(), cfg, testLogger(t.Output(), "warn")); err == nil ||
			!strings.Contains(err.Error(), "rotated") {
			t.Errorf("the old key: %v", err)
		}
	})
}

func rotation(t *testing.T, d *db.DB) (r *datakey.Rotation) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		r, err = datakey.State(ctx, tx)
		return err
	})
	return r
}
