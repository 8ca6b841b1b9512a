package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// A database restored from a backup does not know which payments were made and which addresses were issued since.
// With the chain, the service finds out, pays nobody twice and gives no address to a second owner.
func TestARestoredBackupPaysNobodyTwice(t *testing.T) {
	btcdtest.Each(t, restoredBackup)
}

func restoredBackup(t *testing.T, node func(testing.TB) *btcdtest.Node) {
	dir := t.TempDir()
	data, backup := filepath.Join(dir, "data"), filepath.Join(dir, "backup.age")
	w := &world{t: t, binary: build(t), url: "sqlite:" + filepath.Join(data, "stipend.db"), node: node(t),
		paid: map[string]bool{}, created: map[int]payroll{}}
	w.start(time.Hour)
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	w.until("the payroll is created and paid into the mempool", func() bool { return w.fund(0) == nil })
	// The wallet has enough coins to pay the payroll a second time.
	for range 3 {
		if _, err := w.node.PayAll(t.Context(), chain.Output{Address: w.created[0].Quote.Details.Address,
			Amount: 100_000_000}); err != nil {
			t.Fatal(err)
		}
	}
	key, public := newBackupKey(t, w.binary, dir)
	w.command("backup", "--to", backup, "--recipient", public)
	w.until("everybody is paid", func() bool { return w.step(0) == nil && w.fulfilled() })
	w.until("another payroll is created", func() bool { return w.fund(1) == nil })
	given := w.created[1].Quote.Details.Address // paid in the mempool and in the next block
	before := w.onChain()
	w.stop()

	if out, err := w.try("restore", backup, "--identity", key); err == nil ||
		!strings.Contains(out, "move the file away") {
		t.Errorf("a restore replaces a database: %s %v", out, err)
	}
	testkit.Check(t, os.RemoveAll(data))
	if out := w.command("restore", backup, "--identity", key, "--check"); !strings.Contains(out, "can be restored") {
		t.Errorf("the check says %s", out)
	}
	if out := w.command("restore", backup, "--identity", key); !strings.Contains(out, "Payouts are paused.") {
		t.Errorf("the restore says %s", out)
	}
	w.start(time.Hour)
	w.until("the payroll is funded and released", func() bool {
		return w.mine() == nil && w.detail(w.created[0]).Status == "released"
	})
	w.until("the payments made since the backup are found", func() bool {
		return w.mine() == nil && strings.Contains(w.command("payouts", "status"), "not known here:")
	})
	for range 10 {
		testkit.Check(t, w.mine())
	}
	if status := w.command("payouts", "status"); !strings.Contains(status, "paused") || !strings.Contains(status,
		"queued  3\n") {
		t.Errorf("payouts that may have been made must wait for a person, but:\n%s", status)
	}
	if after := w.onChain(); !maps.Equal(after, before) {
		t.Errorf("the payees got %v before the restore, and %v after it", before, after)
	}
	// The money for the forgotten payroll is in suspense, and later payments to its address join it.
	if _, err := w.node.PayAll(t.Context(), chain.Output{Address: given, Amount: 12_345_678}); err != nil {
		t.Fatal(err)
	}
	w.until("the money at the forgotten address is found", func() bool {
		found := w.command("ledger", "suspense")
		return w.mine() == nil && strings.Count(found, given) == 2 && strings.Contains(found, "0.12345678")
	})

	if out, err := w.try("payouts", "resume"); err == nil || !strings.Contains(out, "payouts paid") {
		t.Errorf("payouts resume although a transaction that paid queued outputs is not explained: %s %v", out, err)
	}

	// Staff marks the outputs that were paid with their transaction; the command verifies it on the chain.
	queued := strings.Fields(w.command("payouts", "queued"))[7:]
	txid := strings.Fields(w.command("payouts", "status")[strings.Index(w.command("payouts", "status"),
		"not known here:"):])[3]
	for _, wrong := range [][]string{
		{"out_nobody", txid, "not queued for payout"},
		{queued[0], w.paidBy(given), "has not seen the transaction"},
		{queued[0], strings.Repeat("ab", 32), "not found"},
	} {
		if out, err := w.try("payouts", "paid", wrong[0], "--txid", wrong[1], "--bitcoin-rpc", w.node.URL(),
			"--bitcoin-network", "regtest"); err == nil || !strings.Contains(out, wrong[2]) {
			t.Errorf("%v: %v %s", wrong, err, out)
		}
	}
	for i := 0; i < len(queued); i += 7 {
		w.command("payouts", "paid", queued[i], "--txid", txid, "--bitcoin-rpc", w.node.URL(), "--bitcoin-network", "regtest")
	}
	if out, err := w.try("payouts", "paid", queued[0], "--txid", txid, "--bitcoin-rpc", w.node.URL(), "--bitcoin-network",
		"regtest"); err == nil {
		t.Errorf("an output is paid twice: %s", out)
	}
	delete(w.created, 1)
	w.until("the payroll is fulfilled", w.fulfilled)
	if status := w.command("payouts", "status"); strings.Contains(status, "not known here:") {
		t.Errorf("a transaction whose outputs are all explained is still a stranger:\n%s", status)
	}
	w.command("payouts", "resume")
	w.until("a payroll after the restore", func() bool { return w.create(2) == nil })
	if got := w.created[2].Quote.Details.Address; got == given {
		t.Errorf("the address %s has two owners", got)
	}
	w.until("and it is paid", func() bool { return w.step(2) == nil && w.detail(w.created[2]).Status == "fulfilled" })
	w.stop()
	w.command("ledger", "check")
}

// newBackupKey returns the file of a new key of backups, and the public key.
func newBackupKey(t *testing.T, binary, dir string) (name, public string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, "keys", "backup").Output()
	testkit.Check(t, err)
	name = filepath.Join(dir, "backup-key.txt")
	testkit.Check(t, os.WriteFile(name, out, 0o600))
	for word := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(word, "age1") {
			public = word
		}
	}
	return name, public
}

// A standby that lagged behind replaces a database that failed just after everyone was paid. The service reconnects
// to it by itself, and waits for a person before it pays outputs that are unpaid there.
func TestAPromotedStandbyPaysNobodyTwice(t *testing.T) {
	servers, err := dbtest.StartFailover(t.Context(), "stipend")
	testkit.Check(t, err)
	defer servers.Close()
	w := &world{t: t, binary: build(t), url: servers.URL("stipend"), node: btcdtest.Start(t), paid: map[string]bool{},
		created: map[int]payroll{}}
	w.start(time.Hour)
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	w.until("the payroll is created and paid into the mempool", func() bool { return w.fund(0) == nil })
	for range 3 { // enough coins to pay a second time
		if _, err := w.node.PayAll(t.Context(), chain.Output{Address: w.created[0].Quote.Details.Address,
			Amount: 100_000_000}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Check(t, servers.Cut(t.Context()))
	w.until("everybody is paid", func() bool { return w.step(0) == nil && w.fulfilled() })
	before := w.onChain()
	testkit.Check(t, servers.Promote(t.Context()))
	w.until("the service goes on with the standby, which does not know that anybody is paid", func() bool {
		var d detail
		return w.mine() == nil && w.call(http.MethodGet, "/api/company/payrolls/"+w.created[0].PayrollID, "", nil,
			&d) == nil && d.Status == "released"
	})
	w.until("the payments that it does not know are found", func() bool {
		status := w.command("payouts", "status")
		return w.mine() == nil && strings.Contains(status, "replaced") && strings.Contains(status, "not known here:")
	})
	for range 10 {
		testkit.Check(t, w.mine())
	}
	if status := w.command("payouts", "status"); !strings.Contains(status, "paused") || !strings.Contains(status,
		"queued  3\n") {
		t.Errorf("payouts that may have been made must wait for a person, but:\n%s", status)
	}
	if after := w.onChain(); !maps.Equal(after, before) {
		t.Errorf("the payees got %v before the failover, and %v after it", before, after)
	}
	w.stop()
	w.command("ledger", "check")
}

// paidBy returns another transaction that paid an address.
func (w *world) paidBy(address string) string {
	w.t.Helper()
	for _, line := range strings.Split(w.command("ledger", "suspense"), "\n") {
		if strings.Contains(line, address) {
			for _, word := range strings.Fields(line) {
				if txid, _, ok := strings.Cut(word, ":"); ok && len(txid) == 64 {
					return txid
				}
			}
		}
	}
	w.t.Fatalf("nobody paid %s", address)
	return ""
}

// SIGTERM ends a service within 30 seconds, during requests and payouts: it finishes what it began and leaves no
// lock, so the next process continues at once.
func TestATerminatedServiceFinishesWhatItBegan(t *testing.T) {
	dbtest.RunURL(t, terminated)
}

func terminated(t *testing.T, url string) {
	const funded = 6
	w := &world{t: t, binary: build(t), url: url, node: btcdtest.Start(t), paid: map[string]bool{},
		created: map[int]payroll{}}
	w.start(time.Hour)
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	w.until("payrolls are created and paid into the mempool", func() bool { return w.fund(0) == nil })
	for i := range funded {
		testkit.Check(t, w.fund(i))
	}
	client := *w
	client.created = map[int]payroll{}
	done := make(chan struct{})
	created := make(chan struct{})
	go func() {
		defer close(done)
		for i := funded; client.create(i) == nil; i++ {
			if i == funded+20 {
				close(created)
			}
		}
	}()
	if err := w.mine(); err != nil { // from now on they are released and paid
		t.Fatal(err)
	}
	select {
	case <-created:
	case <-done:
		t.Fatal("no more payrolls can be created")
	}
	w.stop()
	<-done
	d := dbtest.Open(t, db.Options{URL: url})
	var claimed int64
	if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM jobs WHERE attempt > 0 AND last_error = '' AND run_at > $1",
			db.Micros(tx.Now())).Scan(&claimed)
	}); err != nil || claimed != 0 {
		t.Errorf("%d jobs are still somebody's, %v", claimed, err)
	}
	w.start(time.Hour)
	for i, p := range client.created {
		if got := w.detail(p).Status; got != "pending" {
			t.Errorf("payroll %d, which was answered, is %q", i, got)
		}
	}
	if err := w.call(http.MethodGet, "/readyz", "", nil, &struct{}{}); err != nil {
		t.Error(err)
	}
	w.until("those that were funded are paid", func() bool { return w.mine() == nil && w.fulfilled() })
	w.stop()
	w.command("ledger", "check")
}

// stop terminates the service and checks that it ends without an error.
func (w *world) stop() {
	w.t.Helper()
	testkit.Check(w.t, w.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-w.exited:
	case <-time.After(30 * time.Second):
		w.t.Fatalf("still there 30 s after SIGTERM:\n%s", w.log)
	}
	if code := w.process.ProcessState.ExitCode(); code != 0 {
		w.t.Fatalf("exit code %d after SIGTERM:\n%s", code, w.log)
	}
}

// command runs a command on the service's database.
func (w *world) command(args ...string) string {
	w.t.Helper()
	out, err := w.try(args...)
	if err != nil {
		w.t.Fatalf("stipend %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try is command, but returns an error if the command fails.
func (w *world) try(args ...string) (string, error) {
	out, err := exec.Command(w.binary, append(args, "--database-url", w.url)...).CombinedOutput()
	return string(out), err
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-look.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %s: %s\n%s", patience, what, w.log)
		}
	}
}
