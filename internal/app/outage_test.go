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
	"github.com/stipend/stipend/internal/testkit"
)

// Two processes of each role share one PostgreSQL database and nothing else. Either can answer a request, and each
// effect happens once. The processes keep working when a newer version runs compatible migrations, and another process
// of the older version can start. They end when a newer version runs one that is not compatible.
func TestRolesApart(t *testing.T) {
	t.Parallel()
	url := dbtest.Postgres(t)
	role := func(r string) *service { return boot(t, url, func(c *app.Config) { c.Roles = []string{r} }) }
	for range 2 {
		role(app.RoleWatcher)
		role(app.RoleWorker)
	}
	a, b := newAPIClient(t, role(app.RoleAPI)), newAPIClient(t, role(app.RoleAPI))
	eventually(t, 30*time.Second, "the service has prices and watches the chain", func() bool {
		return a.do("POST", "/api/company/payroll/preview", pays("", "20.00",
			a.seed.Workers[0].UserID)).status == http.StatusOK &&
			a.do("POST", createPath, pays("", "20.00", a.seed.Workers[0].UserID), "Idempotency-Key",
				freshKey()).status == http.StatusOK
	})
	added := addColumns(t, a.s.DB())
	if err := role(app.RoleAPI).Stop(t.Context()); err != nil {
		t.Errorf("an older version on a schema with %d more columns: %v", added, err)
	}
	before := a.effects()

	// Both processes get the same idempotency key at the same time. They create one payroll, and each client gets it
	// or is asked to wait.
	key, body := freshKey(), pays("", "250.00", a.seed.Workers[0].UserID, a.seed.Workers[1].UserID)
	answers := make([]response, 20)
	var all sync.WaitGroup
	for i := range answers {
		client := []*apiClient{a, b}[i%2]
		all.Go(func() { answers[i] = client.send("POST", createPath, body, "Idempotency-Key", key) })
	}
	all.Wait()
	made := a.created(b.ok("POST", createPath, body, "Idempotency-Key", key))
	for _, r := range answers {
		if r.err != nil || r.status != http.StatusOK && r.status != http.StatusConflict || r.status == http.StatusOK &&
			a.created(r).PayrollID != made.PayrollID {
			t.Errorf("%d %s %v", r.status, r.text, r.err)
		}
	}
	if after := a.effects(); after[0] != before[0]+1 || after[3] != before[3]+1 || after[4] != before[4]+1 {
		t.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after", before, after)
	}

	b.deposit(made.PayrollID, "exact", "")
	a.fulfilled(made.PayrollID)
	if n := a.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = 'payroll.status_update'",
		made.PayrollID); n < 3 {
		t.Errorf("%d events report received, released and fulfilled", n)
	}
	a.checkLedgerBalances()
	testkit.Check(t, a.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return db.SetSetting(ctx, tx, "schema.required", "9999")
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.s.Wait(ctx); !errors.Is(err, db.ErrNewer) {
		t.Errorf("a process on a schema that it cannot use ended with %v", err)
	}
	if _, err := app.Start(t.Context(), b.s.cfg, testLogger(t.Output(), "error")); !errors.Is(err, db.ErrNewer) {
		t.Errorf("an older version started on a schema that it cannot use: %v", err)
	}
}

// addColumns makes the change to every table that a migration of a newer version may make, and returns the number of
// tables.
func addColumns(t *testing.T, d *db.DB) int {
	t.Helper()
	var tables []string
	err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx,
			"SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name <> "+
				"'goose_db_version'")
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
	}), d.CheckRequired(t.Context()))
	if err != nil || len(tables) == 0 {
		t.Fatal(len(tables), err)
	}
	return len(tables)
}

// The server repeatedly closes every connection, as in a failover, while clients create payrolls. A client that
// repeats unanswered requests with their keys gets exactly the payrolls that it asked for.
func TestADatabaseThatKeepsFailing(t *testing.T) {
	url := dbtest.Postgres(t)
	s := boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 })
	d := newAPIClient(t, s)
	enemy := dbtest.Open(t, db.Options{URL: url})
	var one sync.Mutex // keeps the test from closing its own connection
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
						t.Error("the service does not recover")
						return
					}
				}
			}
		})
	}
	all.Wait()
	close(refused)
	for r := range refused {
		if r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"retry_later"`) ||
			r.header.Get("Retry-After") == "" {
			t.Errorf("while the database fails: %d %s %v", r.status, r.text, r.err)
		}
	}
	for _, pool := range s.Pools() {
		useConnections(t, pool)
	}
	after := d.effects()
	for i := range after {
		if after[i]-before[i] != clients*each && i != 3 { // the address of a payroll that was rolled back stays unused
			t.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after, want %d more", before, after,
				clients*each)
			break
		}
	}
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	d.checkLedgerBalances()
}

// useConnections uses every connection of a pool at once, so that the pool drops those that the server has closed.
func useConnections(t *testing.T, pool *db.DB) {
	t.Helper()
	var all, begun sync.WaitGroup
	most := pool.Stats().Max
	begun.Add(most)
	for range most {
		all.Go(func() {
			use := sync.OnceFunc(begun.Done)
			defer use()
			_ = pool.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error { // or an error of a closed connection
				var one int64
				err := tx.QueryRow(ctx, "SELECT 1").Scan(&one)
				use()
				begun.Wait()
				return err
			})
		})
	}
	all.Wait()
}

// When the disk is full, writes fail with an error of their own and reads still work. The service sends nothing that
// it could not store. When there is room again, no repair is needed.
func TestAFullDisk(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *app.Config) { c.BlockInterval = time.Hour })
		d := newAPIClient(t, s)
		made := d.payTwo("250.00")
		fill(t, s.DB(), true)
		// A full file may still have enough free space between its rows for a small payroll.
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

// fill makes the database engine report that the disk is full, or ends that. A SQLite file may not grow, and fill
// uses up its free space. PostgreSQL raises the error code of a full disk for every new payroll.
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
		err = run("CREATE TABLE ballast (x BLOB)", "PRAGMA max_page_count = 1") // SQLite uses the present size instead
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
	testkit.Check(t, err)
}

// When a node is down, the service still starts and answers reads. It creates no new addresses, because it would not
// see payments to them. It recovers when the node is back. If the node fails later, the service stops giving new
// prices after a while.
func TestANodeThatIsDown(t *testing.T) {
	t.Parallel()
	btcdtest.Each(t, nodeThatIsDown)
}

func nodeThatIsDown(t *testing.T, start func(testing.TB) *btcdtest.Node) {
	node := start(t)
	proxy, second := newBrokenLine(t, node.URL()), node.Clone(t)
	proxy.cut()
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.BitcoinRPC, c.BlindLimit, c.BitcoinWitness = proxy.url(), 10*time.Minute, []string{second.URL()}
	})
	d := newAPIClient(t, s)
	d.ok("GET", "/api/company/payrolls", "")
	body := pays("", "25.00", d.seed.Workers[0].UserID)
	r := d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", "down")
	if r.header.Get("Retry-After") == "" {
		t.Error("the response has no Retry-After")
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
	// While the service cannot watch the chain, the price may have been paid in time, so there is no second one.
	d.refused(503, "retry_later", "POST", "/api/company/payroll/quote/refresh", again)
	proxy.mend()
	eventually(t, 30*time.Second, "the service gives prices again", func() bool {
		return d.do("POST", createPath, body, "Idempotency-Key", "back").status == http.StatusOK
	})

	// The first node does not receive the blocks that a second node receives. Then the first node makes other blocks,
	// and in the end it switches to the second node's chain.
	must := func(err error) {
		t.Helper()
		testkit.Check(t, err)
	}
	must(second.Mine(t.Context(), chain.MaxDivergence+2))
	d.alarm(chain.Behind, true)
	must(node.Mine(t.Context(), chain.MaxDivergence+1))
	d.alarm(chain.Contradicted, true)
	d.refused(503, "retry_later", "POST", createPath, body, "Idempotency-Key", freshKey())
	must(node.CopyBlocks(t.Context(), second))
	d.alarm(chain.Contradicted, false)
	d.alarm(chain.Behind, false)
	eventually(t, 30*time.Second, "the service gives prices again after the second outage", func() bool {
		return d.do("POST", createPath, body, "Idempotency-Key", "agreed").status == http.StatusOK
	})
}

// brokenLine is the network between the service and its node, which the test can cut.
type brokenLine struct {
	server *httptest.Server
	broken atomic.Bool
	user   *neturl.Userinfo
}

func newBrokenLine(t *testing.T, to string) *brokenLine {
	t.Helper()
	target, err := neturl.Parse(to)
	testkit.Check(t, err)
	c := &brokenLine{user: target.User}
	proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Host,
			r.Out.URL.Scheme = target.Host, target.Scheme
	},
		ErrorLog: log.New(io.Discard, "", 0)} // requests that the service cancels
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

// When a long migration locks a table, requests that need the table fail quickly. When such requests hold all the
// connections that requests may use, the service refuses other requests too. It still watches chains, runs jobs and
// reports that the process is alive. It recovers when the table is unlocked.
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
		t.Error("the response has no Retry-After")
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
	eventually(t, 30*time.Second, "a request that does not need the table is refused", func() bool {
		return d.do("GET",
			"/api/company", "").status == 503
	})
	eventually(t, 30*time.Second, "the service sees new blocks", func() bool { return tip() > began+5 })
	d.ok("GET", "/healthz", "")
	d.as("").metrics()
	stop.Store(true)
	release()
	testkit.Check(t, <-done)
	all.Wait()
	close(answers)
	for r := range answers {
		if r.err != nil || r.status != http.StatusOK && (r.status != http.StatusServiceUnavailable ||
			!strings.Contains(r.text, `"retry_later"`) || r.header.Get("Retry-After") == "") {
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

// The service does not start on a database server that is read-only.
func TestAStandbyIsRefused(t *testing.T) {
	c := defaults(t)
	c.DatabaseURL, c.Listen, c.MetricsListen = dbtest.Postgres(t)+"&default_transaction_read_only=on", "127.0.0.1:0", ""
	if !strings.Contains(c.DatabaseURL, "?") {
		c.DatabaseURL = strings.Replace(c.DatabaseURL, "&", "?", 1)
	}
	if _, err := app.Start(t.Context(), c, testLogger(t.Output(), "error")); err == nil || !strings.Contains(err.Error(),
		"read-only") {
		t.Errorf("a read-only server: %v", err)
	}
}

// A database server that replaces another one may lack the most recent payments. The service pauses payouts until a
// person has compared the records.
func TestAReplacedServerPausesPayouts(t *testing.T) {
	s := boot(t, dbtest.Postgres(t))
	d := newAPIClient(t, s)
	made := d.payTwo("25.00")
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	// The database now records an older timeline than the server's.
	testkit.Check(t, s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		return db.SetSetting(ctx, tx,
			"db.timeline", "00000000")
	}))
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
	if v := d.payroll(made.PayrollID); !strings.Contains(why, "replaced") || v.Status != "released" ||
		v.Payments[0].Outputs[0].Status != "queued" {
		t.Errorf("%s: %+v", why, v)
	}
}

// The service gives no new prices while its clock and its database's clock disagree. Payrolls that already have a
// price go on.
func TestClocksThatDisagree(t *testing.T) {
	url := dbtest.Postgres(t)
	ahead := dbtest.Open(t, db.Options{URL: url, Clock: func() time.Time { return time.Now().Add(time.Hour) }})
	skew, err := ahead.Skew(t.Context())
	if err != nil || (skew+time.Hour).Abs() > time.Minute {
		t.Fatalf("a clock an hour ahead is measured as %s: %v", skew, err)
	}
	s := boot(t, url)
	d := newAPIClient(t, s)
	made := d.payTwo("25.00")
	s.SetSkew(skew)
	d.refused(503, "retry_later", "POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key",
		freshKey())
	if metrics := d.as("").metrics(); !strings.Contains(metrics, "stipend_clock_skew_seconds -3") {
		t.Error("the metrics do not contain the skew")
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	s.SetSkew(0)
	d.payTwo("25.00")
}

func (d *apiClient) metrics() string {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.s.Ready().MetricsURL, nil)
	testkit.Check(d, err)
	res, err := http.DefaultClient.Do(req)
	testkit.Check(d, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	testkit.Check(d, err)
	return string(text)
}
