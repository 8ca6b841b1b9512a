//go:build release

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// nextMigration is an additive migration that only the newer program of the test has, so that the older one serves on a
// schema that it does not know.
const nextMigration = db.Compatible + `
-- +goose Up

-- What only a newer version knows.
-- Shared: belongs to a test.
-- Writer: internal/db
CREATE TABLE of_newer_version (name TEXT NOT NULL, PRIMARY KEY (name));
ALTER TABLE payrolls ADD COLUMN of_newer_version TEXT NOT NULL DEFAULT '';
ALTER TABLE payments ADD COLUMN of_newer_version TEXT NOT NULL DEFAULT '';
`

// The program of the previous release is filled over the API: payrolls that are done, in flight and not yet paid, a
// claim, and a webhook. Then the present program starts on the same database, while the previous one serves if the
// schema allows that. Both create payrolls, the previous one ends, and the present one pays the rest. Everybody is paid
// once on the chain, each event arrives, and the books balance.
//
// The previous release is the newest tag v* before the commit. Without one, it is the same commit with another version.
func TestUpgradeFromThePreviousRelease(t *testing.T) {
	previous, present := buildReleases(t)
	t.Run("postgres", func(t *testing.T) { upgrade(t, previous, present, emptyDatabase(t), rolling(t)) })
	t.Run("sqlite", func(t *testing.T) { // which one process serves
		upgrade(t, previous, present, "sqlite:"+filepath.Join(t.TempDir(), "stipend.db"), false)
	})
}

func upgrade(t *testing.T, previous, present, url string, whileServing bool) {
	old := &world{t: t, binary: previous, url: url, node: btcdtest.Start(t), paid: map[string]bool{},
		created: map[int]payroll{}}
	old.start(time.Hour)
	for range payees {
		old.payees = append(old.payees, old.addPayee())
	}
	hooks := &deliveries{bodies: map[string][]byte{}}
	server := httptest.NewServer(hooks)
	defer server.Close()
	var endpoint struct {
		ID     string `json:"webhook_id"`
		Secret string `json:"secret"`
	}
	testkit.Check(t, old.call(http.MethodPost, "/api/webhooks", "", map[string]any{"url": server.URL,
		"events": []string{"payroll.*"}}, &endpoint))
	verifier, err := standardwebhooks.NewWebhook(endpoint.Secret)
	testkit.Check(t, err)
	hooks.verifier = verifier

	old.until("a payroll is created", func() bool { return old.fund(0) == nil })
	old.until("it is paid", func() bool { return old.mine() == nil && old.fulfilled() })
	paid, open := old.addClaim(), old.addClaim()
	old.payClaim(paid)
	testkit.Check(t, old.fund(1))   // in flight: paid in the mempool
	testkit.Check(t, old.create(2)) // not paid yet

	if !whileServing {
		old.stop()
	}
	next := *old
	next.binary = present
	next.start(time.Hour)
	if whileServing {
		if !old.alive() {
			t.Fatalf("the previous program ended:\n%s", old.log)
		}
		testkit.Check(t, old.fund(3))
		if err := old.call(http.MethodGet, "/readyz", "", nil, &struct{}{}); err != nil {
			t.Error(err)
		}
		old.until("both pay", func() bool { return old.mine() == nil && old.detail(old.created[1]).Status == "fulfilled" })
		old.command("ledger", "check")
		old.stop()
	}
	testkit.Check(t, next.fund(2))
	testkit.Check(t, next.fund(4))
	next.payClaim(open)
	next.until("everybody is paid", func() bool { return next.mine() == nil && next.fulfilled() })
	for _, c := range []claimView{paid, open} {
		next.until("a claim of the previous program is paid", func() bool {
			return next.mine() == nil && next.claim(c.ID).Status == "paid"
		})
	}
	found := next.onChain()
	for line, times := range found {
		if times != 1 {
			t.Errorf("paid %d times: %s", times, line)
		}
	}
	if want := len(next.created) * payees; len(found) != want {
		t.Errorf("%d payments on the chain, want %d", len(found), want)
	}
	next.until("all events are delivered", func() bool {
		var waiting struct{ Data []json.RawMessage }
		testkit.Check(t, next.call(http.MethodGet, "/api/webhooks/"+endpoint.ID+"/deliveries?status=pending", "", nil,
			&waiting))
		return len(waiting.Data) == 0
	})
	next.stop()
	for _, what := range hooks.wrong {
		t.Error(what)
	}
	var events int
	testkit.Check(t, dbtest.Open(t, db.Options{URL: url}).Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE name LIKE 'payroll.%'").Scan(&events)
	}))
	if len(hooks.bodies) != events || events < 3*len(next.created) {
		t.Errorf("%d of %d events were delivered", len(hooks.bodies), events)
	}
	next.command("ledger", "check")
	next.command("audit", "verify")
}

// rolling reports whether every migration since the previous release lets its program serve.
func rolling(t *testing.T) bool {
	tag := previousTag(t)
	if tag == "" {
		return true
	}
	files := strings.Fields(git(t, "diff", "--name-only", "--diff-filter=A", tag, "--", "internal/db/migrations"))
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root(t), name))
		testkit.Check(t, err)
		if !strings.Contains(string(text), db.Compatible+"\n") {
			t.Logf("%s is not compatible with %s: it is stopped first", name, tag)
			return false
		}
	}
	return true
}

// buildReleases returns the programs of the previous release and of this commit with one more migration.
func buildReleases(t *testing.T) (previous, present string) {
	t.Helper()
	dir := t.TempDir()
	tag, source := previousTag(t), root(t)
	if tag != "" {
		source = filepath.Join(dir, "source")
		git(t, "worktree", "add", "--detach", source, tag)
		t.Cleanup(func() { git(t, "worktree", "remove", "--force", source) })
		t.Logf("the previous release is %s", tag)
	} else {
		tag = "v0.0.0-previous"
		t.Log("there is no release yet: the previous one is this commit")
	}
	migration := filepath.Join(dir, "9000_next.sql")
	testkit.Check(t, os.WriteFile(migration, []byte(nextMigration), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root(t), "internal/db/migrations/9000_next.sql"): migration}})
	testkit.Check(t, err)
	replace := filepath.Join(dir, "overlay.json")
	testkit.Check(t, os.WriteFile(replace, overlay, 0o600))
	compile := func(name, source, version string, flags ...string) string {
		binary := filepath.Join(dir, name)
		c := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-trimpath", "-ldflags",
			"-X github.com/stipend/stipend/internal/app.version=" + version, "-o", binary}, flags...), "./cmd/stipend")...)
		c.Dir, c.Env = source, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", version, err, out)
		}
		out, err := exec.CommandContext(t.Context(), binary, "version", "--json").Output()
		if err != nil || !strings.Contains(string(out), version) {
			t.Fatalf("the program says %s, %v", out, err)
		}
		return binary
	}
	return compile("previous", source, tag), compile("present", root(t), "v9999.0.0-present", "-overlay", replace)
}

var release = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

// previousTag returns the newest tag of a release among the ancestors of the commit, not of the commit itself, or "".
func previousTag(t *testing.T) string {
	t.Helper()
	for tag := range strings.FieldsSeq(git(t, "tag", "--merged", "HEAD", "--no-contains", "HEAD", "--sort=-v:refname",
		"v*")) {
		if release.MatchString(tag) {
			return tag
		}
	}
	return ""
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	testkit.Check(t, err)
	return dir
}

// git returns the output of a git command in the repository. A copy without its history has no tags.
func git(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	c.Dir = root(t)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// emptyDatabase returns the URL of a PostgreSQL database without tables.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	at := dbtest.Postgres(t)
	d := dbtest.Open(t, db.Options{URL: at})
	testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		for _, statement := range []string{"DROP SCHEMA public CASCADE", "CREATE SCHEMA public"} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Check(t, d.Close())
	return at
}

// deliveries is a partner's server that records the events that it gets.
type deliveries struct {
	mu       sync.Mutex
	bodies   map[string][]byte // by webhook-id
	wrong    []string
	verifier *standardwebhooks.Webhook
}

func (r *deliveries) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	id := req.Header.Get("webhook-id")
	if err = errors.Join(err, r.verifier.Verify(body, req.Header)); err != nil {
		r.wrong = append(r.wrong, id+": "+err.Error())
	}
	if before, again := r.bodies[id]; again && !bytes.Equal(before, body) {
		r.wrong = append(r.wrong, id+" came twice, and not the same")
	}
	r.bodies[id] = body
}

type claimView struct {
	ID      string      `json:"claim_id"`
	Status  string      `json:"status"`
	Amount  json.Number `json:"funding_amount"`
	Details struct {
		Address string `json:"address"`
	} `json:"funding_details"`
}

// addClaim creates a claim of 25 dollars that is paid in bitcoin.
func (w *world) addClaim() (c claimView) {
	w.t.Helper()
	testkit.Check(w.t, w.call(http.MethodPost, "/api/merchant/claim/create", "", map[string]any{"payer_id": "customer",
		"amount": 25, "denomination_currency": "USD", "funding_currency": "BTC"}, &c))
	return c
}

func (w *world) claim(id string) (c claimView) {
	w.t.Helper()
	testkit.Check(w.t, w.call(http.MethodGet, "/api/merchant/claim/status?claim_id="+id, "", nil, &c))
	return c
}

// payClaim pays a claim.
func (w *world) payClaim(c claimView) {
	w.t.Helper()
	amount, err := money.Parse(money.BTC, c.Amount.String())
	testkit.Check(w.t, err)
	if _, err := w.node.PayAll(w.t.Context(), chain.Output{Address: c.Details.Address,
		Amount: amount.Units()}); err != nil {
		w.t.Fatal(err)
	}
}
