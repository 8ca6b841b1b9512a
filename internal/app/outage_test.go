package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/payout"
)

// Two processes of each role share one PostgreSQL and nothing else. Requests go to either; each thing happens once.
// They go on when a newer version moves the schema, as migrations do that need not be alone, but none of the older one
// starts any more.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	url := dbtest.Postgres(t)
	role := func(r string) *service { return boot(t, url, func(c *app.Config) { c.Roles = []string{r} }) }
	for range 2 {
		role(app.RoleWatcher)
		role(app.RoleWorker)
	}
	a, b := newAPIClient(t, role(app.RoleAPI)), newAPIClient(t, role(app.RoleAPI))
	eventually(t, 30*time.Second, "prices and a watched chain", func() bool {
		return a.do("POST", "/api/company/payroll/preview", pays("", "20.00", a.seed.Workers[0].UserID)).status == http.StatusOK &&
			a.do("POST", createPath, pays("", "20.00", a.seed.Workers[0].UserID), "Idempotency-Key", freshKey()).status == http.StatusOK
	})
	moved := addColumns(t, a.s.DB())
	if _, err := app.Start(t.Context(), a.s.cfg, testLogger(t.Output(), "error")); !errors.Is(err, db.ErrNewer) {
		t.Errorf("an older program on a schema with %d columns more: %v", moved, err)
	}
	before := a.effects()

	// One key at both at once: one payroll, and both hear of it or are asked to wait.
	key, body := freshKey(), pays("", "250.00", a.seed.Workers[0].UserID, a.seed.Workers[1].UserID)
	answers := make([]response, 20)
	var all sync.WaitGroup
	for i := range answers {
		door := []*apiClient{a, b}[i%2]
		all.Go(func() { answers[i] = door.send("POST", createPath, body, "Idempotency-Key", key) })
	}
	all.Wait()
	made := a.created(b.ok("POST", createPath, body, "Idempotency-Key", key))
	for _, r := range answers {
		if r.err != nil || r.status != http.StatusOK && r.status != http.StatusConflict || r.status == http.StatusOK && a.created(r).PayrollID != made.PayrollID {
			t.Errorf("%d %s %v", r.status, r.text, r.err)
		}
	}
	if after := a.effects(); after[0] != before[0]+1 || after[3] != before[3]+1 || after[4] != before[4]+1 {
		t.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after", before, after)
	}

	b.deposit(made.PayrollID, "exact", "")
	a.fulfilled(made.PayrollID)
	if n := a.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = 'payroll.status_update'", made.PayrollID); n < 3 {
		t.Errorf("%d events tell of received, released and fulfilled", n)
	}
	a.checkLedgerBalances()
}

// addColumns does what a migration of a newer version may do to every table, and says to how many.
func addColumns(t *testing.T, d *db.DB) int {
	t.Helper()
	var tables []string
	err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name <> 'goose_db_version'")
		tables, err = db.Collect(rows, err, func(r *db.Rows) (name string, err error) { return name, r.Scan(&name) })
		return err
	})
	for _, name := range tables {
		err = errors.Join(err, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "ALTER TABLE "+name+" ADD COLUMN of_newer TEXT NOT NULL DEFAULT ''")
			return err
		}))
	}
	err = errors.Join(err, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, TRUE)")
		return err
	}))
	if err != nil || len(tables) == 0 {
		t.Fatal(len(tables), err)
	}
	return len(tables)
}

// The server ends every connection again and again, as at a failover, while clients create payrolls. A client that
// repeats what was not answered, with its key, gets exactly what it asked for.
func TestADatabaseThatKeepsFailing(t *testing.T) {
	url := dbtest.Postgres(t)
	s := boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 })
	d := newAPIClient(t, s)
	enemy := dbtest.Open(t, db.Options{URL: url})
	var one sync.Mutex // the enemy is no enemy of itself
	cut := func() {
		one.Lock()
		defer one.Unlock()
		err := enemy.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var n int64
			return tx.QueryRow(ctx, `SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'stipend' AND pid <> pg_backend_pid()`).Scan(&n)
		})
		if err != nil {
			t.Error(err)
		}
	}
	const clients, each = 4, 15
	before := d.effects()
	refused := make(chan response, clients*each*100)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				key, body := freshKey(), pays(fmt.Sprintf(`"external_id":"cut-%d-%d",`, c, i), "25.00", d.seed.Workers[0].UserID)
				if i%3 == 0 {
					cut()
				}
				for {
					r := d.send("POST", createPath, body, "Idempotency-Key", key)
					if r.err == nil && r.status == http.StatusOK {
						break
					}
					refused <- r
					if len(refused) == cap(refused) {
						t.Error("it never recovers")
						return
					}
				}
			}
		})
	}
	all.Wait()
	close(refused)
	for r := range refused {
		if r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"retry_later"`) || r.header.Get("Retry-After") == "" {
			t.Errorf("while the database fails: %d %s %v", r.status, r.text, r.err)
		}
	}
	after := d.effects()
	for i := range after {
		if after[i]-before[i] != clients*each && i != 3 { // an address whose payroll was undone stays unused
			t.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after, want %d more", before, after, clients*each)
			break
		}
	}
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	d.checkLedgerBalances()
}

// A full disk refuses writes with their own error, reading goes on, nothing leaves that could not be stored, and
// nothing has to be repaired when there is room again.
func TestAFullDisk(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *app.Config) { c.BlockInterval = time.Hour })
		d := newAPIClient(t, s)
		made := d.payTwo("250.00")
		fill(t, s.DB(), true)
		// A full file may still have room for a small payroll between its rows.
		for n, room := 0, true; room; n++ {
			before := d.effects()
			r := d.do("POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey())
			if room = r.status == http.StatusOK && n < 1000; room {
				continue
			}
			if r.status != http.StatusServiceUnavailable || r.read(d)["code"] != "storage_unavailable" {
				d.Fatalf("payroll %d on a full disk: %d %s", n, r.status, r.text)
			}
			if after := d.effects(); after != before {
				d.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after", before, after)
			}
		}
		if v := d.payroll(made.PayrollID); v.Status != "pending" {
			d.Errorf("%+v", v)
		}
		fill(t, s.DB(), false)
		d.create(pays("", "25.00", d.seed.Workers[0].UserID))
		d.deposit(made.PayrollID, "exact", "")
		d.checkLedgerBalances()
	})
}

// fill makes the engine itself say that there is no room, or takes that back. A SQLite file may not grow, and what it
// had to spare is used up; PostgreSQL raises the code of a full disk for every new payroll.
func fill(t *testing.T, d *db.DB, full bool) {
	t.Helper()
	run := func(statements ...string) error {
		return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var all error
			for _, sql := range statements {
				_, err := tx.Exec(ctx, sql)
				all = errors.Join(all, err)
			}
			return all
		})
	}
	var err error
	switch {
	case d.Engine() == db.SQLite && full:
		err = run("CREATE TABLE ballast (x BLOB)", "PRAGMA max_page_count = 1") // it takes the present size instead
		for size := 1 << 16; err == nil && size > 8; size /= 2 {
			for full := error(nil); full == nil; {
				full = run(fmt.Sprintf("INSERT INTO ballast VALUES (zeroblob(%d))", size))
			}
		}
	case d.Engine() == db.SQLite:
		err = run("PRAGMA max_page_count = 1073741823", "DROP TABLE ballast")
	case full:
		err = run(`CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`,
			"CREATE TRIGGER no_room BEFORE INSERT ON payrolls FOR EACH ROW EXECUTE FUNCTION no_room()")
	default:
		err = run("DROP TRIGGER no_room ON payrolls", "DROP FUNCTION no_room()")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A node that is down stops nobody from starting or reading; it stops new addresses, because nobody would see them
// paid. All goes on by itself when the node is there. One that goes away later stops new prices after a while.
func TestANodeThatIsDown(t *testing.T) {
	t.Parallel()
	btcdtest.Each(t, nodeThatIsDown)
}

func nodeThatIsDown(t *testing.T, start func(testing.TB) *btcdtest.Node) {
	node := start(t)
	proxy, second := newCable(t, node.URL()), node.Clone(t)
	proxy.cut()
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.BitcoinRPC, c.BlindLimit, c.BitcoinWitness = proxy.url(), 10*time.Minute, []string{second.URL()}
	})
	d := newAPIClient(t, s)
	d.ok("GET", "/api/company/payrolls", "")
	body := pays("", "25.00", d.seed.Workers[0].UserID)
	r := d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", "down")
	if r.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	proxy.mend()
	eventually(t, 30*time.Second, "the same request succeeds", func() bool {
		return d.do("POST", createPath, body, "Idempotency-Key", "down").status == http.StatusOK
	})
	made := d.create(body)
	proxy.cut()
	d.advance(31 * time.Minute)
	d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", freshKey())
	again := `{"payroll_id":"` + made.PayrollID + `"}`
	d.ok("POST", "/api/company/payroll/quote/refresh", again) // nothing expires while nobody watches
	proxy.mend()
	eventually(t, 30*time.Second, "prices are held again", func() bool {
		return d.do("POST", createPath, body, "Idempotency-Key", "back").status == http.StatusOK
	})

	// A second node hears of blocks that the first does not hear of; then that one makes others, and in the end it gives
	// way.
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(second.Mine(t.Context(), chain.MaxDivergence+2))
	d.alarm(chain.Behind, true)
	must(node.Mine(t.Context(), chain.MaxDivergence+1))
	d.alarm(chain.Contradicted, true)
	d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", freshKey())
	must(node.CopyBlocks(t.Context(), second))
	d.alarm(chain.Contradicted, false)
	d.alarm(chain.Behind, false)
	eventually(t, 30*time.Second, "prices are held once more", func() bool {
		return d.do("POST", createPath, body, "Idempotency-Key", "agreed").status == http.StatusOK
	})
}

// brokenLine is the network between the service and its node, which the test can cut.
type brokenLine struct {
	server *httptest.Server
	broken atomic.Bool
	user   *neturl.Userinfo
}

func newCable(t *testing.T, to string) *brokenLine {
	t.Helper()
	target, err := neturl.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	c := &brokenLine{user: target.User}
	proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Host, r.Out.URL.Scheme = target.Host, target.Scheme },
		ErrorLog: log.New(io.Discard, "", 0)} // requests that the service gives up
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.broken.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.server.Close)
	return c
}

func (c *brokenLine) cut()  { c.broken.Store(true) }
func (c *brokenLine) mend() { c.broken.Store(false) }

func (c *brokenLine) url() string {
	u := neturl.URL{Scheme: "http", User: c.user, Host: c.server.Listener.Addr().String()}
	return u.String()
}

// A table that a long migration holds refuses quickly what needs it. When so many ask for it that requests have no
// connection left, all others are refused, too, but chains are watched, jobs run, and the process says that it is
// alive. When the table is free, all goes on.
func TestALockedTable(t *testing.T) {
	t.Parallel()
	url := dbtest.Postgres(t)
	s := boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 })
	d := newAPIClient(t, s)
	made := d.payTwo("25.00")
	holder := dbtest.Open(t, db.Options{URL: url})
	held, free := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	done := make(chan error, 1)
	go func() {
		done <- holder.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
			close(held)
			<-free
			return err
		})
	}()
	<-held
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	r := d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", key)
	if r.header.Get("Retry-After") == "" {
		t.Error("nobody says when to come back")
	}
	d.ok("GET", "/healthz", "")
	d.ok("GET", "/api/company", "")

	answers := make(chan response, 10_000)
	var all sync.WaitGroup
	var stop atomic.Bool
	defer stop.Store(true)
	ask := func(method, path, body string) {
		all.Go(func() {
			for !stop.Load() {
				answers <- d.send(method, path, body, "Idempotency-Key", freshKey())
			}
		})
	}
	for range 2 * app.RequestConnections {
		ask("GET", "/api/company/payrolls/"+made.PayrollID, "")
		ask("POST", createPath, body)
	}
	tip := func() int64 { return d.count("SELECT height FROM chain_cursors WHERE chain = $1", app.BitcoinChain) }
	began := tip()
	eventually(t, 30*time.Second, "what needs nothing of the table is refused", func() bool { return d.do("GET", "/api/company", "").status == 503 })
	eventually(t, 30*time.Second, "blocks are seen", func() bool { return tip() > began+5 })
	d.ok("GET", "/healthz", "")
	d.as("").metrics()
	stop.Store(true)
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	all.Wait()
	close(answers)
	for r := range answers {
		if r.err != nil || r.status != http.StatusOK && (r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"retry_later"`) || r.header.Get("Retry-After") == "") {
			t.Errorf("while a table is locked: %d %s %v", r.status, r.text, r.err)
		}
	}
	before := d.effects()
	d.ok("POST", createPath, body, "Idempotency-Key", key)
	if after := d.effects(); after[0] != before[0]+1 {
		t.Errorf("%d payrolls, want %d", after[0], before[0]+1)
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
}

// A server that cannot be written to is not served from.
func TestAStandbyIsRefused(t *testing.T) {
	c := defaults(t)
	c.DatabaseURL, c.Listen, c.MetricsListen = dbtest.Postgres(t)+"&default_transaction_read_only=on", "127.0.0.1:0", ""
	if !strings.Contains(c.DatabaseURL, "?") {
		c.DatabaseURL = strings.Replace(c.DatabaseURL, "&", "?", 1)
	}
	if _, err := app.Start(t.Context(), c, testLogger(t.Output(), "error")); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a read-only server: %v", err)
	}
}

// When another server takes the database's place, it may not know the payments that left last. Nothing leaves before a
// person has compared.
func TestAReplacedServerPausesPayouts(t *testing.T) {
	s := boot(t, dbtest.Postgres(t))
	d := newAPIClient(t, s)
	made := d.payTwo("25.00")
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	// As if what is in the database came from the timeline before the server's.
	if err := s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, "db.timeline", "00000000") }); err != nil {
		t.Fatal(err)
	}
	made = d.payTwo("25.00")
	d.deposit(made.PayrollID, "exact", "")
	why := ""
	eventually(t, 20*time.Second, "payouts pause", func() bool {
		d.read(func(ctx context.Context, tx *db.Tx) (err error) {
			why, err = payout.Paused(ctx, tx)
			return err
		})
		return why != ""
	})
	if v := d.payroll(made.PayrollID); !strings.Contains(why, "replaced") || v.Status != "released" || v.Payments[0].Outputs[0].Status != "queued" {
		t.Errorf("%s: %+v", why, v)
	}
}

// No price is given while the clocks of the service and its database disagree; what has one goes on.
func TestClocksThatDisagree(t *testing.T) {
	url := dbtest.Postgres(t)
	ahead := dbtest.Open(t, db.Options{URL: url, Clock: func() time.Time { return time.Now().Add(time.Hour) }})
	skew, err := ahead.Skew(t.Context())
	if err != nil || (skew+time.Hour).Abs() > time.Minute {
		t.Fatalf("an hour ahead is told as %s: %v", skew, err)
	}
	s := boot(t, url)
	d := newAPIClient(t, s)
	made := d.payTwo("25.00")
	s.SetSkew(skew)
	d.refused(503, "retry_later", "POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey())
	if metrics := d.as("").metrics(); !strings.Contains(metrics, "stipend_clock_skew_seconds -3") {
		t.Error("the metrics do not tell the skew")
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	s.SetSkew(0)
	d.payTwo("25.00")
}

func (d *apiClient) metrics() string {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.s.Ready().MetricsURL, nil)
	if err != nil {
		d.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return string(text)
}
