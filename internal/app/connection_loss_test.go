package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit"
)

// cutProxy is a proxy in front of a PostgreSQL server. It closes connections when a test asks for it, depending on
// the number of messages that clients have sent.
type cutProxy struct {
	network, address string

	mu        sync.Mutex
	at        int  // number of messages until the one that is cut; 0: none
	every     int  // after the first cut, cut again after this many messages
	delivered bool // the server gets the message before the cut, so only its answer is lost
	cuts      int
}

// newCutProxy returns a proxy, and the URL that connects to the server through it.
func newCutProxy(t *testing.T, url string) (*cutProxy, string) {
	t.Helper()
	c, err := pgconn.ParseConfig(url)
	testkit.Check(t, err)
	s := &cutProxy{}
	s.network, s.address = pgconn.NetworkAddress(c.Host, c.Port)
	dir, err := os.MkdirTemp("", "cut") // the path of a socket must be short
	testkit.Check(t, err)
	way, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir,
		".s.PGSQL."+strconv.Itoa(int(c.Port))))
	testkit.Check(t, err)
	t.Cleanup(func() {
		_ = way.Close()
		_ = os.RemoveAll(dir)
	})
	go func() {
		for {
			client, err := way.Accept()
			if err != nil {
				return // the test has ended
			}
			server, err := net.Dial(s.network, s.address)
			if err != nil {
				_ = client.Close()
				continue
			}
			go s.carry(client, server)
		}
	}()
	u := neturl.URL{Scheme: "postgres", User: neturl.UserPassword(c.User, c.Password), Path: "/" + c.Database,
		RawQuery: neturl.Values{"host": {dir}, "port": {strconv.Itoa(int(c.Port))}, "sslmode": {"disable"}}.Encode()}
	return s, u.String()
}

func (s *cutProxy) carry(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	said := make([]byte, 1<<20) // one read is one message
	for {
		n, err := client.Read(said)
		if err != nil {
			return
		}
		switch cut, delivered := s.cut(); {
		case cut && delivered:
			_ = client.Close() // the client does not get the answer
			_, _ = server.Write(said[:n])
			return
		case cut:
			return
		}
		if _, err := server.Write(said[:n]); err != nil {
			return
		}
	}
}

func (s *cutProxy) cut() (cut, delivered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == 0 {
		return false, false
	}
	if s.at--; s.at > 0 {
		return false, false
	}
	s.cuts++
	if s.every > 0 {
		s.every++ // widen the interval so that long transactions finish in the end
		s.at, s.delivered = s.every, !s.delivered
	}
	return true, s.delivered
}

// arm cuts the message with the number at, and then further messages at intervals that start at every and grow. It
// returns the number of cuts since the last call.
func (s *cutProxy) arm(at, every int, delivered bool) (cuts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cuts, s.cuts = s.cuts, 0
	s.at, s.every, s.delivered = at, every, delivered
	return cuts
}

// A process can die or lose its database between any two messages to it, even after it sends COMMIT and before it
// gets the answer. Then the database has the whole payroll or none of it, and a client that repeats the request
// creates one payroll. Afterward, workers that keep losing their database fund and pay the payroll.
func TestCutAfterEachStatement(t *testing.T) {
	url := dbtest.Postgres(t)
	apiProxy, apiURL := newCutProxy(t, url)
	workersProxy, workersURL := newCutProxy(t, url)
	boot(t, workersURL, func(c *app.Config) { c.Roles = []string{app.RoleWorker, app.RoleWatcher} })
	api := newAPIClient(t, boot(t, apiURL, func(c *app.Config) { c.Roles = []string{app.RoleAPI} }))
	eventually(t, 30*time.Second, "the service has prices and watches the chain", func() bool {
		return api.do("POST", createPath, pays("", "20.00", api.seed.Workers[0].UserID), "Idempotency-Key",
			freshKey()).status == http.StatusOK
	})
	var made createdPayroll
	for _, delivered := range []bool{false, true} {
		cuts := 1
		for at := 1; cuts > 0; at++ {
			before := api.effects()
			key, body := freshKey(), pays("", "50.00", api.seed.Workers[0].UserID, api.seed.Workers[1].UserID)
			apiProxy.arm(at, 0, delivered)
			r := api.send("POST", createPath, body, "Idempotency-Key", key)
			cuts = apiProxy.arm(0, 0, false)
			for tries := 0; r.status != http.StatusOK; tries++ {
				if tries > 20 || r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(r.text,
					`"retry_later"`) {
					t.Fatalf("cut at %d: %d %s %v", at, r.status, r.text, r.err)
				}
				r = api.send("POST", createPath, body, "Idempotency-Key", key)
			}
			made = api.created(r)
			again := api.ok("POST", createPath, body, "Idempotency-Key", key)
			if again.text != r.text || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("cut at %d: %s, then %s", at, r.text, again.text)
			}
			after := api.effects()
			// Addresses (index 3) are not compared, because a lost connection may leave one unused.
			if after[0]-before[0] != 1 || after[1]-before[1] != 2 || after[2]-before[2] != 1 || after[4]-before[4] != 1 {
				t.Errorf("cut at %d: payrolls, payments, quotes, addresses, events: %v before, %v after", at, before, after)
			}
			if at == 1 && cuts == 0 || at > 100 {
				t.Fatalf("%d cuts at %d", cuts, at)
			}
		}
	}
	workersProxy.arm(5, 5, false)
	api.deposit(made.PayrollID, "exact", "")
	eventually(t, 90*time.Second, "every payee is paid", func() bool {
		api.advance(10 * time.Second) // failed jobs run again after a delay
		return api.payroll(made.PayrollID).Status == "fulfilled"
	})
	api.fulfilled(made.PayrollID)
	if cuts := workersProxy.arm(0, 0, false); cuts < 10 {
		t.Errorf("the workers lost their database %d times", cuts)
	}
	if n := api.count("SELECT COUNT(*) FROM (SELECT object_id, sequence FROM events WHERE company_id = $1 GROUP BY "+
		"object_id, sequence HAVING COUNT(*) > 1) twice", api.seed.CompanyID); n != 0 {
		t.Errorf("%d steps have two events", n)
	}
	eventually(t, 30*time.Second, "no payment is in transit", func() bool {
		return api.count("SELECT COUNT(*) FROM ledger_balances WHERE company_id = $1 AND code = $2 AND balance <> 0",
			api.seed.CompanyID, string(ledger.InTransit)) == 0
	})
	api.checkLedgerBalances()
}

// When the server aborts a transaction because it conflicts with another one, the service runs the whole transaction
// again, up to five times, and it takes effect once. After that, the client is asked to retry, nothing is stored, and
// the same request succeeds later.
func TestTransactionsThatMeetAreTriedAgain(t *testing.T) {
	url := dbtest.Postgres(t)
	d := newAPIClient(t, boot(t, url))
	server := dbtest.Open(t, db.Options{URL: url})
	do := func(sql string) {
		t.Helper()
		testkit.Check(t, server.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}))
	}
	do("CREATE SEQUENCE met") // a rollback does not reset a sequence
	do(`CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('met') <= CAST(TG_ARGV[1] AS INT) THEN RAISE EXCEPTION 'two met' USING ERRCODE = TG_ARGV[0]; END IF;
		RETURN NEW; END $$`)
	for _, code := range []string{"40001", "40P01"} { // serialization failure, deadlock
		for _, times := range []int{5, 6} {
			do("ALTER SEQUENCE met RESTART")
			do(fmt.Sprintf("CREATE TRIGGER meet BEFORE INSERT ON payrolls FOR EACH ROW EXECUTE FUNCTION meet('%s', '%d')", code,
				times))
			before := d.effects()
			key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
			r := d.do("POST", createPath, body, "Idempotency-Key", key)
			do("DROP TRIGGER meet ON payrolls")
			if times > 5 {
				if r.status != http.StatusServiceUnavailable || r.read(d)["code"] != "retry_later" ||
					r.header.Get("Retry-After") == "" {
					t.Errorf("%s, %d times: %d %s", code, times, r.status, r.text)
				}
				if tried := d.count("SELECT last_value FROM met"); tried != 6 {
					t.Errorf("%s: the transaction ran %d times", code, tried)
				}
				if after := d.effects(); after[0] != before[0] || after[1] != before[1] || after[2] != before[2] ||
					after[4] != before[4] {
					t.Errorf("%s: payrolls, payments, quotes, addresses, events: %v before, %v after", code, before, after)
				}
				r = d.ok("POST", createPath, body, "Idempotency-Key", key)
			}
			if after := d.effects(); r.status != http.StatusOK || after[0]-before[0] != 1 || after[1]-before[1] != 1 ||
				after[2]-before[2] != 1 || after[4]-before[4] != 1 {
				t.Errorf("%s, %d times: %d; payrolls, payments, quotes, addresses, events: %v before, %v after", code, times,
					r.status, before, after)
			}
		}
	}
}
