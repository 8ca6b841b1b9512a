package db_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// A copy has a whole number of transactions, however many are committed while it is made.
func TestBackupIsConsistent(t *testing.T) {
	dir := t.TempDir()
	d := dbtest.Open(t, db.Options{URL: "sqlite:" + filepath.Join(dir, "stipend.db")})
	testkit.Check(t, d.Migrate(t.Context()))
	pair := func(n int) {
		testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			for _, side := range []string{"debit", "credit"} {
				if err := db.SetSetting(ctx, tx, side, fmt.Sprint(n)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	pair(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
				pair(n)
			}
		}
	}()
	for i := range 20 {
		path := filepath.Join(dir, fmt.Sprintf("copy%d.db", i))
		testkit.Check(t, d.Backup(t.Context(), path))
		info, err := os.Stat(path)
		testkit.Check(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the copy has mode %o", info.Mode().Perm())
		}
		checkPair(t, path)
	}
	close(stop)
	<-stopped
	if err := d.Backup(t.Context(), filepath.Join(dir, "copy0.db")); !errors.Is(err, os.ErrExist) {
		t.Errorf("a backup replaced a file: %v", err)
	}
}

func checkPair(t *testing.T, path string) {
	t.Helper()
	copied := dbtest.Open(t, db.Options{URL: "sqlite:" + path})
	testkit.Check(t, copied.CheckFile(t.Context()))
	testkit.Check(t, copied.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		debit, err := db.Setting(ctx, tx, "debit")
		if err != nil {
			return err
		}
		credit, err := db.Setting(ctx, tx, "credit")
		if debit == "" || debit != credit {
			t.Errorf("the copy has half of a transaction: %s, %s", debit, credit)
		}
		return err
	}))
}

// A damaged file is found.
func TestCheckFileFindsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stipend.db")
	d, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + path})
	testkit.Check(t, err)
	testkit.Check(t, d.Migrate(t.Context()))
	testkit.Check(t, d.Close())
	data, err := os.ReadFile(path)
	testkit.Check(t, err)
	for page := 4096; page < len(data); page += 4096 {
		copy(data[page:], strings.Repeat("\xff", 64))
	}
	testkit.Check(t, os.WriteFile(path, data, 0o600))
	if d, err = db.Open(t.Context(), db.Options{URL: "sqlite:" + path}); err != nil {
		return // found when it is opened
	}
	defer d.Close()
	if err := d.CheckFile(t.Context()); err == nil {
		t.Error("the damage is not found")
	}
}
