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
)

// cutProxy lie on the way to a PostgreSQL server and cut connections where a test wants it, by what was said so far.
type cutProxy struct {
	network, address string

	mu    sync.Mutex
	at    int  // the saying that is cut, counted down; 0: none
	every int  // again and again, each so many
	heard bool // by the server, before the cut: only its answer is lost
	cuts  int
}

// newScissors gives the way, and its address in place of the server's.
func newScissors(t *testing.T, url string) (*cutProxy, string) {
	t.Helper()
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	s := &cutProxy{}
	s.network, s.address = pgconn.NetworkAddress(c.Host, c.Port)
	dir, err := os.MkdirTemp("", "cut") // a socket has a short name
	if err != nil {
		t.Fatal(err)
	}
	way, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, ".s.PGSQL."+strconv.Itoa(int(c.Port))))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = way.Close()
		_ = os.RemoveAll(dir)
	})
	go func() {
		for {
			client, err := way.Accept()
			if err != nil {
				return // the test is over
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
	said := make([]byte, 1<<20) // what a client sends at once is one saying
	for {
		n, err := client.Read(said)
		if err != nil {
			return
		}
		switch cut, heard := s.cut(); {
		case cut && heard:
			_ = client.Close() // nobody hears the answer
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

func (s *cutProxy) cut() (cut, heard bool) {
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
		s.every++ // whatever takes long comes through at last
		s.at, s.heard = s.every, !s.heard
	}
	return true, s.heard
}

// arm has the next saying of this number cut, and the ones so many later and more and more; it says how many were cut
// since the last time.
func (s *cutProxy) arm(at, every int, heard bool) (cuts int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cuts, s.cuts = s.cuts, 0
	s.at, s.every, s.heard = at, every, heard
	return cuts
}

// A process may die, or lose its database, between any two things that it says to it, also when it has said that all is
// done and does not hear the answer. All of a payroll is there then or nothing, and who asks again gets it once. Then
// the payroll is funded and paid by workers who lose their database again and again.
func TestCutAfterEachStatement(t *testing.T) {
	url := dbtest.Postgres(t)
	asking, wayOfAPI := newScissors(t, url)
	working, wayOfWorkers := newScissors(t, url)
	boot(t, wayOfWorkers, func(c *app.Config) { c.Roles = []string{app.RoleWorker, app.RoleWatcher} })
	api := newAPIClient(t, boot(t, wayOfAPI, func(c *app.Config) { c.Roles = []string{app.RoleAPI} }))
	eventually(t, 30*time.Second, "prices and a watched chain", func() bool {
		return api.do("POST", createPath, pays("", "20.00", api.seed.Workers[0].UserID), "Idempotency-Key", freshKey()).status == http.StatusOK
	})
	var made createdPayroll
	for _, heard := range []bool{false, true} {
		cuts := 1
		for at := 1; cuts > 0; at++ {
			before := api.effects()
			key, body := freshKey(), pays("", "50.00", api.seed.Workers[0].UserID, api.seed.Workers[1].UserID)
			asking.arm(at, 0, heard)
			r := api.send("POST", createPath, body, "Idempotency-Key", key)
			cuts = asking.arm(0, 0, false)
			for tries := 0; r.status != http.StatusOK; tries++ {
				if tries > 20 || r.err != nil || r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"retry_later"`) {
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
			if after[0]-before[0] != 1 || after[1]-before[1] != 2 || after[2]-before[2] != 1 || after[4]-before[4] != 1 { // an address may stay unused
				t.Errorf("cut at %d: payrolls, payments, quotes, addresses, events: %v before, %v after", at, before, after)
			}
			if at == 1 && cuts == 0 || at > 100 {
				t.Fatalf("%d cuts at %d", cuts, at)
			}
		}
	}
	working.arm(5, 5, false)
	api.deposit(made.PayrollID, "exact", "")
	eventually(t, 90*time.Second, "everybody is paid", func() bool {
		api.advance(10 * time.Second) // what failed is tried again after a while
		return api.payroll(made.PayrollID).Status == "fulfilled"
	})
	api.fulfilled(made.PayrollID)
	if cuts := working.arm(0, 0, false); cuts < 10 {
		t.Errorf("the workers lost their database %d times", cuts)
	}
	if n := api.count("SELECT COUNT(*) FROM (SELECT object_id, sequence FROM events WHERE company_id = $1 GROUP BY object_id, sequence HAVING COUNT(*) > 1) twice", api.seed.CompanyID); n != 0 {
		t.Errorf("%d steps were told twice", n)
	}
	eventually(t, 30*time.Second, "nothing is on its way", func() bool {
		return api.count("SELECT COUNT(*) FROM ledger_balances WHERE company_id = $1 AND code = $2 AND balance <> 0", api.seed.CompanyID, string(ledger.InTransit)) == 0
	})
	api.checkLedgerBalances()
}

// What the server ends because two transactions met is run again as a whole, five times, and has its effect once. Then
// the client is told to come back, nothing is there, and the same request succeeds later.
func TestTransactionsThatMeetAreTriedAgain(t *testing.T) {
	url := dbtest.Postgres(t)
	d := newAPIClient(t, boot(t, url))
	server := dbtest.Open(t, db.Options{URL: url})
	do := func(sql string) {
		t.Helper()
		if err := server.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE SEQUENCE met") // which no rollback takes back
	do(`CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('met') <= CAST(TG_ARGV[1] AS INT) THEN RAISE EXCEPTION 'two met' USING ERRCODE = TG_ARGV[0]; END IF;
		RETURN NEW; END $$`)
	for _, code := range []string{"40001", "40P01"} { // serialization failure, deadlock
		for _, times := range []int{5, 6} {
			do("ALTER SEQUENCE met RESTART")
			do(fmt.Sprintf("CREATE TRIGGER meet BEFORE INSERT ON payrolls FOR EACH ROW EXECUTE FUNCTION meet('%s', '%d')", code, times))
			before := d.effects()
			key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
			r := d.do("POST", createPath, body, "Idempotency-Key", key)
			do("DROP TRIGGER meet ON payrolls")
			if times > 5 {
				if r.status != http.StatusServiceUnavailable || r.read(d)["code"] != "retry_later" || r.header.Get("Retry-After") == "" {
					t.Errorf("%s, %d times: %d %s", code, times, r.status, r.text)
				}
				if tried := d.count("SELECT last_value FROM met"); tried != 6 {
					t.Errorf("%s: tried %d times", code, tried)
				}
				if after := d.effects(); after[0] != before[0] || after[1] != before[1] || after[2] != before[2] || after[4] != before[4] {
					t.Errorf("%s: payrolls, payments, quotes, addresses, events: %v before, %v after", code, before, after)
				}
				r = d.ok("POST", createPath, body, "Idempotency-Key", key)
			}
			if after := d.effects(); r.status != http.StatusOK || after[0]-before[0] != 1 || after[1]-before[1] != 1 || after[2]-before[2] != 1 || after[4]-before[4] != 1 {
				t.Errorf("%s, %d times: %d; payrolls, payments, quotes, addresses, events: %v before, %v after", code, times, r.status, before, after)
			}
		}
	}
}
