// Package dbtest gives a test a fresh, migrated database on each engine that Stipend supports.
//
// A store that is right on one engine may be wrong on the other, so a store test runs on both:
//
//	func TestCreate(t *testing.T) {
//		dbtest.Run(t, func(t *testing.T, d *db.DB) { … })
//	}
//
// No two tests share a database, and nothing is left behind. The SQLite database is a file in t.TempDir. The PostgreSQL
// database is a clone of one migrated template, on the server that TEST_PG_DSN names or on a throw-away server that the
// test binaries of a run share (see postgres.go). A machine without PostgreSQL fails the test and is told how to get it:
// a skipped engine would look like a passed one. A quick run (go test -short) uses SQLite only.
package dbtest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Run runs f on SQLite and on PostgreSQL, one after the other, as subtests. The database is migrated, empty, on the
// real clock, and closed and removed when the subtest ends.
func Run(t *testing.T, f func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) { f(t, Open(t, db.Options{URL: engine.url(t)})) })
	}
}

// RunClock is Run with a clock that moves only when the test says so. Each engine starts its clock at Epoch.
func RunClock(t *testing.T, f func(t *testing.T, d *db.DB, clock *Clock)) {
	t.Helper()
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			clock := NewClock()
			f(t, Open(t, db.Options{URL: engine.url(t), Clock: clock.Now}), clock)
		})
	}
}

// RunURL runs f on both engines with the address of a migrated, empty database: for tests that start the service
// itself, or open one database several times.
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

// engines returns the engines to test on: in a quick run, SQLite.
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

// SQLite returns the address of a migrated, empty SQLite database that goes away with the test.
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

// sqliteTemplate migrates one database per test binary; closing it folds its log into the file, so its bytes are whole.
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

// Epoch is where a test's clock starts: a Thursday at noon, UTC, away from any month's or year's edge.
var Epoch = time.Date(2026, time.January, 15, 12, 0, 0, 0, time.UTC)

// Clock is a clock that stands still until it is told to move. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at Epoch.
func NewClock() *Clock { return &Clock{now: Epoch} }

// Now returns the instant at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward and returns the new instant.
func (c *Clock) Advance(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// Set puts the clock at an instant, earlier ones included: real clocks jump back too.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}
