package dbtest_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

func set(t *testing.T, d *db.DB, key, value string) {
	t.Helper()
	err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO settings (key, value) VALUES ($1, $2)", key, value)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunsDoNotShareADatabase(t *testing.T) {
	for _, name := range []string{"first", "second"} { // the second insert would fail if the row of the first existed
		t.Run(name, func(t *testing.T) {
			dbtest.Run(t, func(t *testing.T, d *db.DB) { set(t, d, "dbtest", "1") })
		})
	}
}

func TestConcurrentDatabases(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { dbtest.Postgres(t); dbtest.SQLite(t) })
		}
		all.Wait()
	})
}

func TestOnlyTheTestAdvancesTheClock(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		for _, want := range []time.Time{dbtest.Epoch, dbtest.Epoch.Add(36 * time.Hour)} {
			now, err := d.Now(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !now.Equal(want) {
				t.Errorf("the transaction's time is %v, want %v", now, want)
			}
			clock.Advance(36 * time.Hour)
		}
	})
}

// With TEST_PG_DSN the machine needs no PostgreSQL programs, and no server is started. Otherwise missing programs
// fail this test, as they fail all tests.
func TestStopRemovesTheServer(t *testing.T) {
	if os.Getenv("TEST_PG_DSN") != "" {
		t.Skip("with TEST_PG_DSN no server is ever started, and this machine may have none")
	}
	s, err := dbtest.Start(t.Context(), "../../..", false)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
}
