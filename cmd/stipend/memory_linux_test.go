package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	starved    = 2    // processes that run out of memory
	hungry     = 3    // concurrent clients
	manyPayees = 2500 // per payroll
)

// The memory runs out while large payrolls are created. The process refuses requests or ends, at any point of a
// creation. The next one has every payroll that was answered and no incomplete one, and a repeated request with the
// same key creates nothing twice.
func TestMemoryRunsOut(t *testing.T) {
	binary := build(t)
	dbtest.RunURL(t, func(t *testing.T, url string) {
		w := &world{t: t, binary: binary, url: url}
		w.env = []string{"GOGC=off"} // never frees memory, so that it runs out soon
		body := map[string]any{}
		var all sync.Mutex
		made := map[string]string{} // payroll IDs by key; "" if unknown
		ask := func(client *world, key string) error {
			var p payroll
			err := client.call(http.MethodPost, createPath, key, body, &p)
			all.Lock()
			defer all.Unlock()
			switch before := made[key]; {
			case err == nil && before != "" && before != p.PayrollID:
				t.Errorf("%s made %s and %s", key, before, p.PayrollID)
			case err == nil:
				made[key] = p.PayrollID
			case before == "":
				made[key] = ""
			}
			return err
		}
		for life := range starved {
			w.start(time.Hour)
			items := make([]map[string]any, manyPayees)
			for i := range items {
				items[i] = map[string]any{"user_id": w.ready.Seed.Workers[i%2].UserID, "amount_fiat": json.Number("12.34")}
			}
			body["to_pay"] = items
			w.starve(int64(life) << 23)
			var clients sync.WaitGroup
			for c := range hungry {
				client := *w
				clients.Go(func() {
					for n := 0; client.alive(); n++ {
						_ = ask(&client, fmt.Sprintf("life-%d-%d-%d", life, c, n)) // may be refused or lost
					}
				})
			}
			select {
			case <-w.exited:
			case <-time.After(patience):
				t.Fatal("it lives without memory")
			}
			clients.Wait()
			t.Logf("life %d ended after %d payrolls", life, len(made))
			if said := w.log.String(); !strings.Contains(said, "out of memory") && !strings.Contains(said,
				"cannot allocate memory") {
				t.Errorf("it ended for another reason:\n%.2000s", said)
			}
		}
		w.env = nil
		w.start(time.Hour)
		for _, key := range slices.Sorted(maps.Keys(made)) {
			if err := ask(w, key); err != nil {
				t.Error(err)
			}
		}
		w.kill()
		d := dbtest.Open(t, db.Options{URL: url})
		for query, want := range map[string]int{
			"SELECT COUNT(*) FROM payrolls":                              len(made),
			"SELECT COUNT(DISTINCT address) FROM payrolls":               len(made),
			"SELECT COUNT(*) FROM payments":                              len(made) * manyPayees,
			"SELECT COUNT(*) FROM quotes":                                len(made),
			"SELECT COUNT(*) FROM events WHERE name = 'payroll.created'": len(made),
			"SELECT COUNT(*) FROM idempotency WHERE key LIKE 'life-%'":   len(made),
		} {
			var n int
			if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx,
					query).Scan(&n)
			}); err != nil || n != want {
				t.Errorf("%s: %d, want %d (%v)", query, n, want, err)
			}
		}
		w.command("ledger", "check")
	})
}

// starve limits the process's memory to its present size and a little more.
func (w *world) starve(little int64) {
	w.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.process.Process.Pid))
	testkit.Check(w.t, err)
	var kib int64
	_, after, _ := strings.Cut(string(status), "VmData:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		w.t.Fatal(err)
	}
	most := uint64(kib<<10 + little)
	testkit.Check(w.t, unix.Prlimit(w.process.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil))
}
