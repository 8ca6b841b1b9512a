// Package dbtest provides tests with a new, migrated database on each engine.
//
// A statement that is correct on one engine may be wrong on the other, so tests of statements run on both:
//
//	func TestCreate(t *testing.T) {
//		dbtest.Run(t, func(t *testing.T, d *db.DB) { … })
//	}
//
// Tests do not share databases, and databases are removed after the test. The SQLite database is a file in t.TempDir.
// The PostgreSQL database is a clone of a migrated template, on the server of TEST_PG_DSN or on a temporary server
// that the test binaries of a run share (see postgres.go). Without PostgreSQL the test fails, and the message
// explains how to install it; a skipped engine would look like a passed one.
//
// After each test, the events in its database are checked against the contract (see checkEvents).
package dbtest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/testkit"
)

// Run runs f on SQLite and on PostgreSQL, as subtests. The database is migrated and empty, uses the real clock, and
// is closed and removed when the subtest ends.
func Run(t *testing.T, f func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) { f(t, Open(t, db.Options{URL: engine.url(t)})) })
	}
}

// RunClock is like Run, with a clock that only the test advances. It starts at Epoch for each engine.
func RunClock(t *testing.T, f func(t *testing.T, d *db.DB, clock *Clock)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			clock := NewClock()
			f(t, Open(t, db.Options{URL: engine.url(t), Clock: clock.Now}), clock)
		})
	}
}

// RunURL runs f on both engines with the URL of a migrated, empty database. It is for tests that start the service,
// or open a database several times.
func RunURL(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) { f(t, engine.url(t)) })
	}
}

type engine struct {
	name string
	url  func(testing.TB) string
}

// engines returns the engines to test on. A quick run tests on SQLite only.
func engines() []engine {
	all := []engine{{"sqlite", SQLite}, {"postgres", Postgres}}
	if testing.Short() {
		return all[:1]
	}
	return all
}

// Open opens a database and closes it when the test ends.
func Open(t testing.TB, o db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open %s: %v", o.URL, err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// Write runs f in a transaction that writes. If the transaction fails, the test fails at once.
func Write(t testing.TB, d *db.DB, f func(context.Context, *db.Tx) error) {
	t.Helper()
	testkit.Check(t, d.Write(context.Background(), f))
}

// Read runs f in a transaction that reads. If the transaction fails, the test fails at once.
func Read(t testing.TB, d *db.DB, f func(context.Context, *db.Tx) error) {
	t.Helper()
	testkit.Check(t, d.Read(context.Background(), f))
}

// SQLite returns the URL of a migrated, empty SQLite database, which is removed when the test ends.
func SQLite(t testing.TB) string {
	t.Helper()
	template, err := sqliteTemplate()
	if err != nil {
		t.Fatalf("migrate a SQLite database: %v", err)
	}
	path := filepath.Join(t.TempDir(), "stipend.db")
	if err := os.WriteFile(path, template, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkEvents(t, "sqlite:"+path) })
	return "sqlite:" + path
}

// sqliteTemplate returns the contents of the file of a migrated database. Closing the database writes the write-ahead
// log into the file.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "stipend-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "stipend.db")
	if err := migrate(context.Background(), "sqlite:"+path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func migrate(ctx context.Context, url string) error {
	d, err := db.Open(ctx, db.Options{URL: url})
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Migrate(ctx)
}

// Epoch is the initial time of a test's clock: a Thursday at noon, UTC, in the middle of a month.
var Epoch = time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)

// Clock is a clock that only the test advances. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock set to Epoch.
func NewClock() *Clock { return &Clock{now: Epoch} }

// Now returns the clock's current time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance advances the clock and returns the new time.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// Set sets the clock. It may set it back, as happens with real clocks.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}
