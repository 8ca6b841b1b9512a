package simulation_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/testkit"
)

var plant = flag.String("plant", "", "plant the bugs whose names match, and report how soon each is found")

// planted is a bug: a text of a file, and what replaces it.
type planted struct{ name, file, old, new string }

// bugs are planted one at a time, to see that the simulation finds them.
var bugs = []planted{
	{"pay from an unconfirmed deposit", "internal/chain/chain.go",
		"w.Confirmed = w.State == Mined && w.Depth >= w.RequiredConfirmations ||",
		"w.Confirmed = w.State == Mined || w.State == Seen ||"},
	{"repeat a commit of unknown outcome", "internal/db/group_commit.go",
		"if err != nil && !outcomeUnknown(err) {", "if err != nil {"},
	{"acknowledge a commit of unknown outcome", "internal/db/group_commit.go",
		"r.err = &unavailable{ErrRetryLater, err}\n\t\t\t}\n\t\t}\n\t}\n\treturn nil",
		"r.err = nil\n\t\t\t}\n\t\t}\n\t}\n\treturn nil"},
	{"drop the rows of a flush after an error", "internal/db/group.go",
		"for _, b := range t.buffers {\n\t\tif b.len() > 0 {\n\t\t\tif err := b.write(ctx, t); err != nil {",
		"for _, b := range t.buffers {\n\t\tif b.len() == 1 {\n\t\t\tif err := b.write(ctx, t); err != nil {"},
	{"forget that the outputs of a transaction are assigned to it", "internal/payout/bitcoin/bitcoin.go",
		"return payout.Assign(ctx, tx, outs, b.ID, b.TxID, 0)", "return nil"},
	{"never send a signed transaction", "internal/payout/bitcoin/bitcoin.go",
		"payout.EnqueueSend(tx, companyID, r.Name(), tx.Now(), t.TxID)\n\treturn payout.Assign",
		"return payout.Assign"},
	{"pay one satoshi too much", "internal/payout/bitcoin/compose.go",
		"tx.AddTxOut(wire.NewTxOut(r.Amount, r.Script))", "tx.AddTxOut(wire.NewTxOut(r.Amount+1, r.Script))"},
	{"pay one satoshi too little", "internal/payout/bitcoin/compose.go",
		"tx.AddTxOut(wire.NewTxOut(r.Amount, r.Script))", "tx.AddTxOut(wire.NewTxOut(r.Amount-1, r.Script))"},
	{"leave a reserved coin available", "internal/chain/store.go",
		"UPDATE chain_outputs SET spend_state = 'reserved', reserved_by = $2 FROM v",
		"UPDATE chain_outputs SET spend_state = 'available', reserved_by = $2 FROM v"},
	{"pay again when the outcome of a broadcast is unknown", "internal/payout/onchain/confirm.go",
		"\t\tif gone {\n\t\t\tv.dead = reasonConflict",
		"\t\tif gone || b.State == payout.UnknownOutcome {\n\t\t\tv.dead = reasonConflict"},
	{"do not announce that a payout is confirmed", "internal/payout/onchain/confirm.go",
		"payout.Announce(tx, outs)\n\tif b.Purpose", "if b.Purpose"},
	{"do not post a confirmed payout", "internal/payout/onchain/confirm.go",
		"if err := post(tx, *b, \"confirm\", lines); err != nil {", "if err := error(nil); err != nil {"},
	{"keep the money of a canceled payroll", "internal/payroll/cancel.go",
		"if !r.active || r.escrow.IsZero() && r.suspense.IsZero() {",
		"if r.active || r.escrow.IsZero() && r.suspense.IsZero() {"},
	{"cancel a payroll that is funded", "internal/payroll/cancel.go",
		"return *p, payout.ErrProcessing.Detailf(\"This payroll is funded and about to be paid out.\")",
		"return *p, s.withdraw(ctx, tx, p, \"\")"},
	{"count received money without waiting for its state", "internal/payroll/funding.go",
		"confirmed[d.ID] = d.State == deposit.Confirmed", "confirmed[d.ID] = d.State != deposit.Seen"},
	{"report the delivery of a webhook that failed", "internal/webhook/delivery/send.go",
		"case r.status < 200 || r.status >= 300:\n\t\tr.failure = failStatus",
		"case r.status < 200 || r.status >= 600:\n\t\tr.failure = failStatus"},
	{"deliver the later events of an object before an earlier one", "internal/webhook/delivery/queue.go",
		"if b, blocked := first[object]; blocked {", "if b, blocked := first[object]; blocked && len(chain) > 64 {"},
	{"go on with an object after a failed delivery", "internal/webhook/delivery/queue.go",
		"if r.status == 0 {\n\t\t\t\t\tc.shrink()\n\t\t\t\t}\n\t\t\t\tbreak",
		"if r.status == 0 {\n\t\t\t\t\tc.shrink()\n\t\t\t\t}"},
	{"skip events when they are queued together", "internal/webhook/delivery/queue.go",
		"return enqueue(ctx, tx, events)", "return enqueue(ctx, tx, events[:1])"},
	{"lose the changes that a block brings", "internal/chain/watcher.go",
		"changes.enqueue(tx)\n\t\treturn prune(", "return prune("},
	{"lose the changes that a reorganization brings", "internal/chain/watcher.go",
		"changes.enqueue(tx)\n\t\treturn nil\n\t})\n\tif err == nil {", "return nil\n\t})\n\tif err == nil {"},
	{"give a job up after its first failure", "internal/job/job.go",
		"dead := j.Attempt >= maxAttempts &&", "dead := j.Attempt >= 1 &&"},
	{"end a job whose handler failed", "internal/job/job.go",
		"if err := handle(ctx, r.d, j); err != nil {\n\t\treturn err",
		"if err := handle(ctx, r.d, j); err != nil {\n\t\t_ = err"},
	{"end a job before its handler runs", "internal/job/job.go",
		"defer recoverTo(&err)\n\tif err := handle(ctx, r.d, j); err != nil {",
		"defer recoverTo(&err)\n\t_ = r.d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {" +
			"\n\t\t_, err := completeAll(ctx, tx, []Job{j})\n\t\treturn err\n\t})" +
			"\n\tif err := handle(ctx, r.d, j); err != nil {"},
	{"store no response for an idempotency key", "internal/httpapi/idempotency.go",
		"storeResponse(tx, key, fingerprint, stored)", "_ = stored"},
	{"give two payments on an EVM network one nonce", "internal/payout/evm/store.go",
		"n.next++\n\treturn n.next - 1", "n.next++\n\treturn max(n.next, 2) - 2"},
	{"forget that an output has a transaction on an EVM network", "internal/payout/evm/prepare.go",
		"return id, payout.Assign(ctx, tx, []payout.Output{o}, b.ID, b.TxID, 0)", "return id, nil"},
	{"forget that outputs are in a file to the bank", "internal/payout/bank/bank.go",
		"if err := payout.Assign(ctx, tx, outs, f.ID, \"\", 1); err != nil {", "if err := error(nil); err != nil {"},
	{"pay a claim with money that has no confirmation", "internal/claim/evaluate.go",
		"case t.Covered || t.Enough && c.Policy.Confirmations == 0:", "case t.Covered || t.Enough:"},
	{"pay a refund without deducting its fee", "internal/claim/refund.go",
		"Amount: net, Input: r.Amount, Address: r.Address,", "Amount: r.Amount, Input: r.Amount, Address: r.Address,"},
	{"leave a settled payment without its payroll", "internal/payroll/settle.go",
		"return p.concludePayments(ctx, tx)\n}\n\n// ofOutput", "return nil\n}\n\n// ofOutput"},
}

// Each planted bug can be planted: its file has the text once.
func TestPlantedBugsApply(t *testing.T) {
	for _, b := range bugs {
		if text := read(t, b.file); strings.Count(text, b.old) != 1 {
			t.Errorf("%s: %s has the text to replace %d times", b.name, b.file, strings.Count(text, b.old))
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	root := testkit.Must(testkit.Root())
	return string(testkit.Must(os.ReadFile(filepath.Join(root, file))))
}

// TestPlantedBugsAreFound plants the bugs of -plant and fails if one is not found within -runs. It compiles the
// service once for each.
func TestPlantedBugsAreFound(t *testing.T) {
	if *plant == "" {
		return // make simulate-planted
	}
	wanted := regexp.MustCompile(*plant)
	for _, b := range bugs {
		if wanted.MatchString(b.name) {
			t.Run(b.name, func(t *testing.T) { findPlanted(t, b) })
		}
	}
}

func findPlanted(t *testing.T, b planted) {
	dir := t.TempDir()
	root := testkit.Must(testkit.Root())
	changed := filepath.Join(dir, "changed.go")
	original := read(t, b.file)
	text := strings.Replace(original, b.old, b.new, 1)
	if text == original {
		t.Fatalf("%s does not have the text to replace", b.file)
	}
	if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := testkit.Must(json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(root, b.file): changed},
	}))
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "simulation.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", binary,
		"-overlay", filepath.Join(dir, "overlay.json"), "./internal/simulation")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the bug cannot be planted: %v\n%s", err, out)
	}
	n := max(*runs, 1)
	began := time.Now()
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestNothingIsLostDoubledOrInvented$",
		"-test.timeout", "24h", "-first", "-seed", strconv.FormatUint(*seed, 10), "-runs", strconv.Itoa(n))
	run.Dir = filepath.Join(root, "internal/simulation")
	out, err := run.CombinedOutput()
	found := regexp.MustCompile(`(?m)seed (\d+): (.*)$`).FindStringSubmatch(string(out))
	if err == nil || found == nil {
		t.Errorf("not found within %d runs: %v\n%s", n, err, out[max(0, len(out)-2000):])
		return
	}
	at := testkit.Must(strconv.ParseUint(found[1], 10, 64))
	t.Logf("found in run %d after %s: %s", at-*seed+1, time.Since(began).Round(time.Second), found[2])
}
