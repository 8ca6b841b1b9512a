package db_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

var errRefused = apierr.New(apierr.Conflict, "refused", "No.")

func TestAFailingWriteDoesNotAffectThoseOfItsTransaction(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		const n = 200
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				errs[i] = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
					// A third fail before they write, a third after; the rest are committed.
					if i%3 == 0 {
						db.History(tx, "com_1", fmt.Sprintf("obj_%d", i), 1, "", "a", "")
						return errRefused
					}
					if err := db.SetSetting(ctx, tx, fmt.Sprintf("key_%03d", i), "x"); err != nil {
						return err
					}
					if i%3 == 1 {
						return errRefused
					}
					return nil
				})
			})
		}
		wg.Wait()
		var want []string
		for i := range n {
			if i%3 == 2 {
				want = append(want, fmt.Sprintf("key_%03d", i))
			} else if !errors.Is(errs[i], errRefused) {
				t.Errorf("%d: got %v", i, errs[i])
			}
		}
		if got := settingKeys(t, d); !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
	})
}

// Very many rows are sent at once. A guarded statement before them still fails the transaction, with its own error.
func TestAConflictBeforeManyRowsFailsTheTransaction(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		rows := make([][]any, 2500)
		for i := range rows {
			rows[i] = []any{fmt.Sprintf("key_%04d", i), "x"}
		}
		err := d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			if err := tx.ExecOne(ctx, "UPDATE settings SET value = $1 WHERE key = $2", "y", "key_none"); err != nil {
				return err
			}
			return tx.Insert(ctx, "settings", []string{"key", "value"}, rows)
		})
		if !errors.Is(err, db.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if got := settingKeys(t, d); len(got) != 0 {
			t.Errorf("%d rows are stored", len(got))
		}
	})
}

func settingKeys(t *testing.T, d *db.DB) (keys []string) {
	t.Helper()
	err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) (err error) {
		rows, err := tx.Query(ctx, "SELECT key FROM settings WHERE key LIKE 'key_%' ORDER BY key")
		keys, err = db.Collect(rows, err, func(r *db.Rows) (k string, err error) { return k, r.Scan(&k) })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestConcurrentInsertsOfOneKeyCommitOne(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		rows := db.BulkInsert("settings", "key", "value")
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for range 50 {
			wg.Go(func() {
				err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
					if v, err := db.Setting(ctx, tx, "key_same"); err != nil || v != "" {
						return errors.Join(errRefused, err)
					}
					rows.Add(tx, []any{"key_same", "x"})
					return nil
				})
				if errors.Is(err, errRefused) {
					mu.Lock()
					refused++
					mu.Unlock()
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if refused != 49 {
			t.Errorf("%d of 50 writes found the key, want 49", refused)
		}
	})
}

func TestAPanicIsRepeatedInItsCallerAndRollsBack(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				if err := db.SetSetting(ctx, tx, "key_panic", "x"); err != nil {
					return err
				}
				panic("oh")
			})
		}()
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return db.SetSetting(ctx, tx, "key_after", "x")
		}); err != nil {
			t.Fatal(err)
		}
		if got := settingKeys(t, d); !slices.Equal(got, []string{"key_after"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// Some SQLite drivers would bind $2, $1 in the order of appearance.
func TestArgumentsAreBoundByNumber(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			var a, b string
			err := tx.QueryRow(ctx, "SELECT CAST($2 AS TEXT), CAST($1 AS TEXT)", "one", "two").Scan(&a, &b)
			if a != "two" || b != "one" {
				t.Errorf("got %s, %s", a, b)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestAReadCannotWrite(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		err := d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
			return db.SetSetting(ctx, tx, "key_read", "x")
		})
		if err == nil {
			t.Error("a read wrote")
		}
	})
}

// A read that was canceled or failed releases its connection. After Close, reads fail.
func TestFailedReadsReleaseTheirConnections(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
				var n int64
				if i%2 == 0 {
					return tx.QueryRow(ctx, "SELECT nothing FROM nowhere").Scan(&n)
				}
				cancel()
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM settings").Scan(&n)
			}); err == nil {
				t.Fatal("a read that could not end well did")
			}
			cancel()
		}
		if err := d.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if err := d.Ping(t.Context()); err == nil {
			t.Error("a closed database was read")
		}
	})
}

func TestInsertsOfAnyNumberOfRows(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		total := 0
		for _, n := range []int{1, 3, 63, 64, 65, 127, 128, 129, 1000} {
			err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				for i := range n {
					db.History(tx, "com_1", fmt.Sprintf("obj_%d_%d", n, i), 1, "", "new", "")
				}
				return nil
			})
			if err != nil {
				t.Fatalf("%d rows: %v", n, err)
			}
			total += n
		}
		var got int
		err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM history").Scan(&got)
		})
		if err != nil || got != total {
			t.Errorf("%d rows of %d, %v", got, total, err)
		}
	})
}

func TestIDsSortByTime(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		var ids []string
		for range 5 {
			err := d.Write(context.Background(), func(_ context.Context, tx *db.Tx) error {
				ids = append(ids, tx.NewID("prl"))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(time.Second)
		}
		if !slices.IsSorted(ids) || len(ids[0]) != len("prl_")+26 {
			t.Errorf("ids %v", ids)
		}
	})
}

// The path may contain characters that are special in a URL, such as "#" and "?".
func TestTheDataDirectoryCanHaveAnyName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "50% of #1?", "stipend.db")
	d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// After Close only the database file is left. SQLite removes its log when the last connection ends.
func TestClosingEndsAllConnections(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stipend.db")
	d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return db.SetSetting(ctx, tx, "any", "x")
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := db.Setting(ctx, tx, "any")
		return errors.Join(err, d.Ping(ctx)) // on another connection
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(file + "-*"); err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// When all connections are in use, a transaction fails with ErrRetryLater. It succeeds when one is free again.
func TestATransactionWithoutAConnectionFails(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t), Connections: 1})
	err := d.Read(t.Context(), func(ctx context.Context, _ *db.Tx) error {
		if err := d.Ping(ctx); !errors.Is(err, db.ErrRetryLater) {
			t.Errorf("a second transaction on one connection: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := d.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// Pools of a database do not use each other's connections and committers, and share their notices. SQLite has one pool.
func TestPoolsDoNotDelayEachOther(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		d := dbtest.Open(t, db.Options{URL: url, Connections: 1})
		busy, err := d.WithPool(t.Context(), db.Options{Connections: 1})
		if err != nil {
			t.Fatal(err)
		}
		hasty, err := d.WithPool(t.Context(), db.Options{QueueTimeout: 1}) // a nanosecond: every write times out
		if err != nil {
			t.Fatal(err)
		}
		if (d.Engine() == db.SQLite) != (busy == d) {
			t.Error("PostgreSQL must have two pools, SQLite one")
		}
		notices := 0
		busy.OnNotice("topic", func() { notices++ })
		notify := func(_ context.Context, tx *db.Tx) error {
			tx.Notify("topic")
			return nil
		}
		if err := busy.Read(t.Context(), func(ctx context.Context, _ *db.Tx) error {
			return errors.Join(d.Ping(ctx), d.Write(ctx, notify))
		}); err != nil {
			t.Errorf("while the connections of the other pool are in use: %v", err)
		}
		if notices != 1 {
			t.Errorf("%d notices, want 1", notices)
		}
		if err := hasty.Write(t.Context(), notify); errors.Is(err, db.ErrRetryLater) != (hasty != d) {
			t.Errorf("a write with a queue timeout of 1 ns: %v", err)
		}
	})
}

// A statement of a transaction that writes sees what others committed before it, whatever the server's default
// isolation is. On SQLite only one transaction writes at a time.
func TestWritesDoNotDependOnTheDefaultIsolation(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "postgres") {
			separator := "?"
			if strings.Contains(url, "?") {
				separator = "&"
			}
			url += separator + "default_transaction_isolation=serializable"
		}
		d := dbtest.Open(t, db.Options{URL: url})
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			if d.Engine() == db.SQLite {
				return db.SetSetting(ctx, tx, "isolation", "one writer")
			}
			var isolation string
			err := tx.QueryRow(ctx, "SELECT current_setting('transaction_isolation')").Scan(&isolation)
			if isolation != "read committed" {
				t.Errorf("the isolation is %q", isolation)
			}
			return err
		})
	})
}

// A program uses a newer schema if every migration that it does not know says that it may. It refuses it after one that
// does not, also while it runs.
func TestOlderVersionsUseOnlyCompatibleSchemas(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		later := func(name, text string) fs.FS {
			t.Helper()
			files := fstest.MapFS{}
			testkit.Check(t, fs.WalkDir(db.Migrations(), ".", func(at string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				data, err := fs.ReadFile(db.Migrations(), at)
				files[at] = &fstest.MapFile{Data: data}
				return err
			}))
			files["9001_more.sql"] = &fstest.MapFile{Data: []byte(
				db.Compatible + "\n-- +goose Up\nCREATE TABLE more (id TEXT NOT NULL);\n")}
			if name != "" {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			return files
		}
		usable := func() error { return errors.Join(d.Migrate(ctx), d.CheckSchema(ctx), d.CheckRequired(ctx)) }
		for range 2 {
			if err := usable(); err != nil {
				t.Fatalf("the program's own schema: %v", err)
			}
		}
		if err := errors.Join(d.MigrateAs(ctx, later("", "")), usable()); err != nil {
			t.Fatalf("a newer schema that is compatible: %v", err)
		}
		if err := d.MigrateAs(ctx, later("9002_less.sql", "-- +goose Up\nDROP TABLE more;\n")); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{d.Migrate(ctx), d.CheckSchema(ctx), d.CheckRequired(ctx),
			d.MigrateAs(ctx, later("", ""))} {
			if !errors.Is(err, db.ErrNewer) || !strings.Contains(err.Error(), "9002") {
				t.Errorf("a newer schema that is not compatible: %v", err)
			}
		}
		testkit.Check(t, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM settings WHERE key = 'schema.required'")
			return err
		}))
		if err := d.Migrate(ctx); !errors.Is(err, db.ErrNewer) {
			t.Errorf("a newer schema that says nothing: %v", err)
		}
	})
}

func TestCheckSchemaRejectsAnEmptyDatabase(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: "sqlite:" + filepath.Join(t.TempDir(), "stipend.db")})
	if err := d.CheckSchema(t.Context()); !errors.Is(err, db.ErrSchema) {
		t.Errorf("an empty database: %v", err)
	}
}

func TestAConflictRollsBackItsTransaction(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		for _, after := range []func(context.Context, *db.Tx) error{
			func(context.Context, *db.Tx) error { return nil },
			func(ctx context.Context, tx *db.Tx) error {
				_, err := db.Setting(ctx, tx, "any")
				return err
			},
			func(ctx context.Context, tx *db.Tx) error {
				_, _ = db.Setting(ctx, tx, "any") // ignoring the error does not commit either
				return nil
			},
		} {
			err := d.Write(context.Background(), func(ctx context.Context, tx *db.Tx) error {
				if err := db.SetSetting(ctx, tx, "before", "x"); err != nil {
					return err
				}
				if err := tx.ExecOne(ctx, "UPDATE settings SET value = 'y' WHERE key = $1", "none"); err != nil {
					return err
				}
				return after(ctx, tx)
			})
			if !errors.Is(err, db.ErrConflict) {
				t.Errorf("the transaction ended with %v", err)
			}
			err = d.Read(context.Background(), func(ctx context.Context, tx *db.Tx) error {
				var n int64
				err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM settings WHERE key = 'before'").Scan(&n)
				if n != 0 {
					t.Error("the transaction's row is stored")
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Of several hosts, one that accepts a connection and then says nothing is passed over.
func TestAHostThatDoesNotAnswerIsPassedOver(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	t.Cleanup(func() { silent.Close() })
	host, port, err := net.SplitHostPort(silent.Addr().String())
	testkit.Check(t, err)
	u, err := url.Parse(dbtest.Postgres(t))
	testkit.Check(t, err)
	hosts := u.Query()
	if hosts.Get("host") == "" { // TEST_PG_DSN names the host outside the query
		hosts.Set("host", u.Hostname())
		hosts.Set("port", cmp.Or(u.Port(), "5432"))
		u.Host = ""
	}
	hosts.Set("host", host+","+hosts.Get("host"))
	hosts.Set("port", port+","+hosts.Get("port"))
	u.RawQuery = hosts.Encode()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := db.Open(ctx, db.Options{URL: u.String()})
	testkit.Check(t, err)
	testkit.Check(t, d.Close())
}
