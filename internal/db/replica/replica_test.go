package replica_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/db/replica"
	"github.com/stipend/stipend/internal/testkit"
)

// set stores a setting.
func set(t *testing.T, d *db.DB, name, value string) {
	t.Helper()
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, name, value) })
}

// read returns a setting of the database in a file.
func read(t *testing.T, path, name string) (value string) {
	t.Helper()
	d := dbtest.Open(t, db.Options{URL: "sqlite:" + path})
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
		value, err = db.Setting(ctx, tx, name)
		return err
	})
	return value
}

// TestReplicasHaveEveryTransaction writes while a database is copied to a directory and to an S3-compatible store, and
// restores it from there, also by a second process on the restored file.
func TestReplicasHaveEveryTransaction(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_CA_BUNDLE", "") // Litestream has certificates of its own
	store := s3mem.New()
	testkit.Check(t, errors.Join(store.CreateBucket("copies"), store.CreateBucket("copies2")))
	server := httptest.NewServer(gofakes3.New(store).Server())
	t.Cleanup(server.Close)
	for name, to := range map[string]string{
		"directory": "file://" + filepath.Join(t.TempDir(), "copies"),
		"s3":        "s3://copies/stipend?region=us-east-1&endpoint=" + server.URL,
	} {
		t.Run(name, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			url := dbtest.SQLite(t)
			path := strings.TrimPrefix(url, "sqlite:")
			for life := range 2 {
				to := to
				if life == 1 { // a restored database does not write over the copy from which it comes
					d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
					testkit.Check(t, err)
					if _, err := replica.Start(t.Context(), d, path, to, log); !errors.Is(err, replica.ErrOccupied) {
						t.Errorf("a restored database in the same place: %v", err)
					}
					testkit.Check(t, d.Close())
					to = strings.Replace(to, "copies", "copies2", 1)
				}
				d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
				testkit.Check(t, err)
				testkit.Check(t, d.Migrate(t.Context()))
				r, err := replica.Start(t.Context(), d, path, to, log)
				testkit.Check(t, err)
				for i := range 200 {
					set(t, d, fmt.Sprintf("test.%d", i), fmt.Sprintf("%d in life %d", i, life))
				}
				testkit.Check(t, r.Sync(t.Context()))
				set(t, d, "test.last", fmt.Sprint(life))
				testkit.Check(t, d.Close())
				testkit.Check(t, r.Close(t.Context())) // copies the last transaction

				restored := filepath.Join(t.TempDir(), "restored.db")
				var seen, all int64
				until, err := replica.Restore(t.Context(), to, restored, time.Time{}, log, func(done, total int64) {
					if done < seen || done > total {
						t.Errorf("%d of %d bytes were read, after %d", done, total, seen)
					}
					seen, all = done, total
				})
				testkit.Check(t, err)
				if seen == 0 || seen != all {
					t.Errorf("at the end, %d of %d bytes were read", seen, all)
				}
				if time.Since(until) > time.Hour {
					t.Errorf("the newest transaction is of %s", until)
				}
				if got := read(t, restored, "test.199"); got != fmt.Sprintf("199 in life %d", life) {
					t.Errorf("life %d: %q", life, got)
				}
				if got := read(t, restored, "test.last"); got != fmt.Sprint(life) {
					t.Errorf("life %d: the last transaction is missing: %q", life, got)
				}
				path = restored
			}
			if _, err := replica.Restore(t.Context(), to, filepath.Join(t.TempDir(), "x.db"),
				time.Now().Add(-time.Hour), log, func(int64, int64) {}); err == nil {
				t.Error("a moment before the first copy was restored")
			}
		})
	}
}

func TestURLsOfReplicas(t *testing.T) {
	for text, want := range map[string]bool{
		"file:///mnt/copies": true, "s3://bucket/path": true, "s3://bucket/path?region=x": true,
		"": false, "/mnt/copies": false, "file://copies": false, "file:///": false, "s3://bucket": false,
		"s3://key:secret@bucket/path": false, "sftp://host/path": false,
	} {
		if err := replica.Check(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
