package datakey_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/testkit"
)

func sealer(t *testing.T, keys ...string) *identity.Sealer {
	t.Helper()
	var all [][]byte
	for _, k := range keys {
		all = append(all, []byte(strings.Repeat(k, 32)))
	}
	s, err := identity.NewSealer(all...)
	testkit.Check(t, err)
	return s
}

// process is a process of the service, as far as rotations concern it.
type process struct {
	*db.DB
	handle job.TxHandler
}

func (p process) drain(ctx context.Context) error {
	log := slog.New(slog.DiscardHandler)
	return job.NewRunner(p.DB, job.Table{datakey.JobRotate: {Tx: p.handle}}, nil, log).Drain(ctx)
}

const rows = 450 // several pages

// fill stores encrypted values: plain ones, chunks with a number in their key, and snapshots of destinations.
func fill(t *testing.T, d *db.DB, s *identity.Sealer) {
	t.Helper()
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
		var notes, chunks, snapshots [][]any
		seal := func(table, column, row, text string) string {
			sealed, err := s.Seal(identity.SealContext{Table: table, Column: column, Row: row}, []byte(text))
			testkit.Check(t, err)
			return sealed
		}
		for i := range rows {
			id := fmt.Sprintf("%04d", i)
			notes = append(notes, []any{"com_1", id, "Ada", seal("staff_notes", "sealed", id, "note "+id), int64(1)})
			chunks = append(chunks, []any{"com_1", "doc_1", int64(i), seal("vendor_document_chunks", "sealed",
				fmt.Sprintf("com_1/doc_1/%d/77", i), "chunk")})
			snapshot, err := json.Marshal(map[string]string{"owner_id": "com_1", "distribution_id": id, "masked": "<…>",
				"sealed": seal("destinations", "sealed", "com_1/"+id, "account")})
			testkit.Check(t, err)
			snapshots = append(snapshots, []any{"com_1", id, "USD", "", string(snapshot), "active", "usr_1", int64(0),
				int64(1), int64(1), int64(1)})
		}
		return errors.Join(
			tx.Insert(ctx, "staff_notes", []string{"company_id", "note_id", "name", "sealed", "created_at"}, notes),
			tx.Insert(ctx, "vendor_documents", []string{"company_id", "document_id", "media_type", "bytes", "sha256",
				"payroll_id", "payment_id", "version", "created_at"}, [][]any{{"com_1", "doc_1", "image/jpeg", int64(77), "",
				"prl_1", "", int64(1), int64(1)}}),
			tx.Insert(ctx, "vendor_document_chunks", []string{"company_id", "document_id", "n", "sealed"}, chunks),
			tx.Insert(ctx, "company_destinations", []string{"company_id", "destination_id", "asset", "label", "snapshot",
				"status", "created_by", "ready_at", "version", "created_at", "updated_at"}, snapshots))
	})
}

// column returns the values of a column, by their order.
func column(t *testing.T, d *db.DB, query string) (all []string) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		rows, err := tx.Query(ctx, query)
		all, err = db.Collect(rows, err, func(r *db.Rows) (v string, err error) { return v, r.Scan(&v) })
		return err
	})
	return all
}

func state(t *testing.T, d *db.DB) (r *datakey.Rotation) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		r, err = datakey.State(ctx, tx)
		return err
	})
	return r
}

// A rotation survives processes that die before a page is committed, runs in two processes at once, encrypts each
// value once, finds values that a process with the old key stored behind it, and ends when none is left.
func TestARotationEncryptsEverythingAgain(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		clock := dbtest.NewClock()
		open := func() *db.DB { return dbtest.Open(t, db.Options{URL: url, Clock: clock.Now}) }
		d, log := open(), slog.New(slog.DiscardHandler)
		old, fresh := sealer(t, "o"), sealer(t, "n", "o")
		fill(t, d, old)
		before := column(t, d, "SELECT sealed FROM staff_notes ORDER BY note_id")

		// A process dies after its page was written and before the commit: its lease ends and nothing has changed.
		pages := 0
		dying := process{d, func(ctx context.Context, tx *db.Tx, j job.Job) error {
			pages++
			if err := datakey.Handle(fresh, log)(ctx, tx, j); err != nil || pages < 3 {
				return err
			}
			return errors.New("killed")
		}}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := datakey.Start(ctx, tx, fresh, 1<<30)
			return err
		})
		if err := dying.drain(t.Context()); err == nil {
			t.Fatal("the handler did not fail")
		}
		if r := state(t, d); r.Values == 0 || r.Values >= 3*rows {
			t.Fatalf("%d values after two of the pages", r.Values)
		}

		// Two processes continue. One of them was started before the keys were exchanged and must not do anything.
		wrong := process{open(), datakey.Handle(sealer(t, "o", "n"), log)}
		for range 30 {
			clock.Advance(time.Minute)
			var work sync.WaitGroup
			for _, p := range []process{wrong, {d, datakey.Handle(fresh, log)}, {open(), datakey.Handle(fresh, log)}} {
				work.Go(func() { _ = p.drain(t.Context()) })
			}
			work.Wait()
			if r := state(t, d); r.Pass == 2 {
				break
			}
		}
		if r := state(t, d); r.Values != 3*rows || r.Pass != 2 || r.Failed != 0 {
			t.Fatalf("after the first pass: %+v, want %d values", r, 3*rows)
		}

		// What a process with the old key stores behind the pass is found by the next one.
		late, err := old.Seal(identity.SealContext{Table: "staff_notes", Column: "sealed", Row: "0007"}, []byte("late"))
		testkit.Check(t, err)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return tx.ExecOne(ctx, "UPDATE staff_notes SET sealed = $1 WHERE company_id = 'com_1' AND note_id = '0007'", late)
		})
		p := process{d, datakey.Handle(fresh, log)}
		for range 30 {
			clock.Advance(time.Minute)
			testkit.Check(t, p.drain(t.Context()))
			testkit.Check(t, datakey.Finish(t.Context(), d, log))
		}
		r := state(t, d)
		if r.Finished.IsZero() || r.Values != 3*rows+1 || r.Pass != 3 {
			t.Fatalf("at the end: %+v", r)
		}

		// The new key alone decrypts everything, and copies of a value are still recognized.
		alone := sealer(t, "n")
		for i, sealed := range column(t, d, "SELECT sealed FROM staff_notes ORDER BY note_id") {
			id := fmt.Sprintf("%04d", i)
			text, err := alone.Open(identity.SealContext{Table: "staff_notes", Column: "sealed", Row: id}, sealed)
			if id != "0007" && (err != nil || string(text) != "note "+id) || id == "0007" && string(text) != "late" {
				t.Fatalf("note %s: %q, %v", id, text, err)
			}
			if id != "0007" && identity.SealID(sealed) != identity.SealID(before[i]) {
				t.Fatalf("note %s has another ID", id)
			}
		}
		for i, sealed := range column(t, d, "SELECT sealed FROM vendor_document_chunks ORDER BY n") {
			at := identity.SealContext{Table: "vendor_document_chunks", Column: "sealed",
				Row: fmt.Sprintf("com_1/doc_1/%d/77", i)}
			if text, err := alone.Open(at, sealed); err != nil || string(text) != "chunk" {
				t.Fatalf("chunk %d: %q, %v", i, text, err)
			}
		}
		for i, text := range column(t, d, "SELECT snapshot FROM company_destinations ORDER BY destination_id") {
			var s struct{ Sealed, Masked string }
			testkit.Check(t, json.Unmarshal([]byte(text), &s))
			at := identity.SealContext{Table: "destinations", Column: "sealed", Row: fmt.Sprintf("com_1/%04d", i)}
			if plain, err := alone.Open(at, s.Sealed); err != nil || string(plain) != "account" || s.Masked != "<…>" {
				t.Fatalf("snapshot %d: %q, %v", i, plain, err)
			}
		}
	})
}

// A rotation does not finish while a value is left that it cannot encrypt again: one in a column that nobody listed, or
// one that no key decrypts. It says where it is, and finishes when somebody has corrected it.
func TestARotationDoesNotFinishWhileValuesAreLeft(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		log, fresh := slog.New(slog.DiscardHandler), sealer(t, "n", "o")
		seal := func(s *identity.Sealer, row string) string {
			sealed, err := s.Seal(identity.SealContext{Table: "staff_notes", Column: "sealed", Row: row}, []byte("text"))
			testkit.Check(t, err)
			return sealed
		}
		note := func(id, sealed string) {
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
				return tx.Insert(ctx, "staff_notes", []string{"company_id", "note_id", "name", "sealed", "created_at"},
					[][]any{{"com_1", id, "Ada", sealed, int64(1)}})
			})
		}
		note("lost", seal(sealer(t, "x"), "lost")) // a key that nobody has
		note("moved", seal(sealer(t, "o"), "another row"))
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := datakey.Start(ctx, tx, fresh, datakey.DefaultRate)
			return errors.Join(err, db.SetSetting(ctx, tx, "unlisted", `{"copy": "`+seal(sealer(t, "o"), "1")+`"}`))
		})
		p := process{d, datakey.Handle(fresh, log)}
		run := func() *datakey.Rotation {
			for range 10 {
				clock.Advance(20 * time.Minute)
				testkit.Check(t, p.drain(t.Context()))
				testkit.Check(t, datakey.Finish(t.Context(), d, log))
			}
			return state(t, d)
		}
		r := run()
		if want := "[{settings value 1} {staff_notes sealed 2}]"; fmt.Sprint(r.Left) != want || !r.Finished.IsZero() {
			t.Errorf("left %v, want %s; finished %v", r.Left, want, r.Finished)
		}
		if names, err := datakey.Unlisted(t.Context(), d); err != nil || fmt.Sprint(names) != "[settings.value]" {
			t.Errorf("unlisted: %v, %v", names, err)
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM staff_notes")
			return errors.Join(err, db.SetSetting(ctx, tx, "unlisted", ""))
		})
		if r := run(); r.Finished.IsZero() || len(r.Left) != 0 {
			t.Errorf("after the correction: %+v", r)
		}
	})
}

// A process does not start with keys that cannot decrypt what is stored, or that encrypt with a replaced key.
func TestAProcessNeedsTheKeysOfARotation(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		log := slog.New(slog.DiscardHandler)
		check := func(want string, keys ...string) {
			t.Helper()
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				err := datakey.Check(ctx, tx, sealer(t, keys...))
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("keys %v: %v, want %q", keys, err, want)
				}
				return nil
			})
		}
		start := func(want error, keys ...string) {
			t.Helper()
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := datakey.Start(ctx, tx, sealer(t, keys...), datakey.DefaultRate)
				return err
			}); !errors.Is(err, want) {
				t.Errorf("keys %v: %v, want %v", keys, err, want)
			}
		}
		check("", "o")
		start(datakey.ErrNoOtherKey, "o")
		start(nil, "n", "o")
		start(datakey.ErrRunning, "n", "o")
		check("", "n", "o")
		check("was rotated", "o")
		check("was rotated", "o", "n")
		check("not finished", "n")
		p := process{d, datakey.Handle(sealer(t, "n", "o"), log)}
		testkit.Check(t, p.drain(t.Context()))
		clock.Advance(time.Hour)
		testkit.Check(t, p.drain(t.Context()))
		testkit.Check(t, datakey.Finish(t.Context(), d, log))
		check("", "n")
		check("was rotated", "o", "n")
		start(nil, "o", "n") // back again
		check("", "o", "n")
	})
}

var (
	tableText  = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\);`)
	primaryKey = regexp.MustCompile(`PRIMARY KEY \(([^)]*)\)`)
)

// The list of columns agrees with the schema.
func TestColumnsAreInTheSchema(t *testing.T) {
	names, err := fs.Glob(db.Migrations(), "*.sql")
	testkit.Check(t, err)
	tables := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(db.Migrations(), name)
		testkit.Check(t, err)
		for _, m := range tableText.FindAllStringSubmatch(string(text), -1) {
			tables[m[1]] = m[2]
		}
	}
	for _, c := range datakey.Columns {
		text := tables[c.Table]
		if !regexp.MustCompile(`(?m)^\s+` + c.Name + `\s+TEXT\b`).MatchString(text) {
			t.Errorf("there is no text column %s.%s", c.Table, c.Name)
		}
		if key := primaryKey.FindStringSubmatch(text); key == nil ||
			strings.Join(strings.Fields(c.Keys), ", ") != key[1] {
			t.Errorf("%s.%s: the primary key is %v, not %s", c.Table, c.Name, key, c.Keys)
		}
	}
}
