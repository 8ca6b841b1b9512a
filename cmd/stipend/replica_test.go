package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/testkit"
)

var journalsOf = regexp.MustCompile(`(\d+) journals`)

// A process that copies its database is killed while it writes, and the database is lost. The replica has a consistent
// ledger, and the restored service is copied to another place.
func TestAReplicaSurvivesTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, copies := filepath.Join(dir, "data"), "file://"+filepath.Join(dir, "copies")
	w := &world{t: t, binary: build(t), url: "sqlite:" + filepath.Join(data, "stipend.db"), paid: map[string]bool{},
		created: map[int]payroll{}, env: []string{"STIPEND_REPLICATE_TO=" + copies}}
	last := ""
	journals := func() int {
		out, err := w.try("restore", "--replica", copies, "--check")
		last = out
		if err != nil {
			return 0
		}
		n, err := strconv.Atoi(journalsOf.FindStringSubmatch(out)[1])
		testkit.Check(t, err)
		return n
	}
	// pay creates a payroll and pays it on the simulated chain. It returns an error if the process is gone.
	pay := func(i int) error {
		if err := w.create(i); err != nil {
			return err
		}
		return w.call(http.MethodPost, "/api/sandbox/deposit", "", map[string]any{
			"payroll_id": w.created[i].PayrollID, "kind": "exact"}, &struct{}{})
	}
	w.start(time.Hour)
	w.payees = append(w.payees, w.addPayee(), w.addPayee())
	testkit.Check(t, pay(0))
	w.until("the replica has journals", func() bool { return journals() > 0 })
	seen, next := 0, 1
	for life := range 2 {
		done := make(chan int)
		go func(from int) {
			i := from
			for pay(i) == nil {
				i++
			}
			done <- i
		}(next)
		w.until("the replica has more journals", func() bool { return journals() > seen+5 })
		seen = journals()
		w.kill()
		next = <-done + 1
		for _, name := range []string{"stipend.db", "stipend.db-wal", "stipend.db-shm"} {
			testkit.Check(t, os.Remove(filepath.Join(data, name)))
		}
		if life == 1 { // nothing of the process is left
			testkit.Check(t, os.RemoveAll(data))
		}
		w.command("restore", "--replica", copies, "--watch", "10")
		w.command("ledger", "check")
		copies += "-next" // a restored database is copied to another place
		w.env = []string{"STIPEND_REPLICATE_TO=" + copies}
		w.start(time.Hour)
		var first payroll
		testkit.Check(t, w.call(http.MethodPost, createPath, keyOf(0), w.order(0), &first))
		if first.PayrollID != w.created[0].PayrollID {
			t.Errorf("life %d: the first payroll is %s, and was %s", life, first.PayrollID, w.created[0].PayrollID)
		}
	}
	w.stop()
	if got := journals(); got < seen {

		t.Errorf("%d journals at the end, %d before\n%s", got, seen, last)
	}
	for args, want := range map[string]string{"--at": "--at needs --replica",
		"--replica=/nowhere": "want file:///directory"} {
		flag := []string{"restore", args}
		if args == "--at" {
			flag = append(flag, "2026-07-01T14:30:00Z", "backup.age")
		}
		if out, err := w.try(flag...); err == nil || !regexp.MustCompile(regexp.QuoteMeta(want)).MatchString(out) {
			t.Errorf("%s: %v %s", args, err, out)
		}
	}
}
