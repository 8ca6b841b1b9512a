package delivery

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

// Reading a queue and storing results reads a constant number of rows, however many deliveries are pending and even
// before the database has statistics. PostgreSQL counts the rows that a transaction reads.
func TestABacklogIsNotRead(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	const pending, most = 20_000, 1000
	write := func(f func(context.Context, *db.Tx) error) {
		t.Helper()
		dbtest.Write(t, d, f)
	}
	var e Endpoint
	write(func(ctx context.Context, tx *db.Tx) (err error) {
		url := "https://hooks.example.com/"
		c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "US"})
		if err != nil {
			return err
		}
		by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: c.ID}
		e, _, err = Setup{Sealer: sealer}.Create(ctx, tx, by, Params{URL: &url})
		return err
	})
	write(func(ctx context.Context, tx *db.Tx) error {
		now := db.Micros(tx.Now())
		data, err := json.Marshal(webhook.PayrollCreated.Example)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO events
				(company_id, event_id, object_id, sequence, name, data, created_at, position)
			SELECT CAST($3 AS TEXT), 'evt_' || i, 'prl_' || i, 1, 'payroll.created', $4, CAST($1 AS BIGINT), i
			FROM generate_series(1, CAST($2 AS BIGINT)) AS i`, now, int64(pending), e.CompanyID, string(data)); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO webhook_deliveries (company_id, endpoint_id, position, event_id,
				source_id, object_id, state, tries, attempts, next_at, error, http_status, created_at, updated_at)
			SELECT CAST($4 AS TEXT), CAST($1 AS TEXT), i, 'evt_' || i, CAST($4 AS TEXT), 'prl_' || i,
				'pending', 0, 0, CAST($2 AS BIGINT), '', 0, CAST($2 AS BIGINT), CAST($2 AS BIGINT)
			FROM generate_series(1, CAST($3 AS BIGINT)) AS i`, e.ID, now, int64(pending), e.CompanyID)
		wake(tx, e.CompanyID, e.ID)
		return err
	})
	for round := range 3 {
		write(func(ctx context.Context, tx *db.Tx) error {
			read := func() (rows int64) {
				testkit.Check(t, tx.QueryRow(ctx, `SELECT seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables
					WHERE relname = 'webhook_deliveries'`).Scan(&rows))
				return rows
			}
			q := &queue{companyID: e.CompanyID, endpointID: e.ID, holder: "me"}
			var taken, released bool
			claim(tx, q.companyID, q.endpointID, q.holder, leaseDuration, &taken)
			if err := writeBuffers(ctx, tx); err != nil {
				return err
			}
			l := snapshot{now: tx.Now(), postponed: map[int64]int64{}}
			dues, _, err := dueDeliveries(ctx, tx, e, batchSize)
			if err != nil {
				return err
			}
			if err := l.order(ctx, tx, q, dues); err != nil {
				return err
			}
			var results []result
			for i, d := range dues {
				r := result{due: d, response: response{sentAt: tx.Now(), status: 200}}
				switch i % 3 {
				case 0:
					succeeded(tx, q, r)
				case 1:
					r.failure = failTimeout
					failed(tx, q, r, Pending, db.Micros(tx.Now().Add(time.Minute)))
				default:
					postpone(tx, q, d.position, db.Micros(tx.Now().Add(time.Minute)))
				}
				results = append(results, r)
			}
			insertAttempts(tx, q, results)
			renewLease(tx, q, leaseDuration)
			release(tx, q, int64(round)+1, true, &released)
			if err := writeBuffers(ctx, tx); err != nil {
				return err
			}
			if n := read(); n > most || !taken || len(dues) != batchSize {
				t.Errorf("round %d: %d rows read of %d for %d deliveries, taken %v", round, n, pending, len(dues), taken)
			}
			wake(tx, e.CompanyID, e.ID)
			return nil
		})
	}
}

// Adding events to queues reads only the connections of the companies of the events, however many companies have
// connected an app.
func TestConnectionsOfOtherCompaniesAreNotRead(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.Postgres(t)})
	const connected, most = 10_000, 20
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
		for _, query := range []string{
			`INSERT INTO app_grants (company_id, grant_id, app_id, user_id, scopes, expires_at, revoked_at, created_at)
			SELECT 'com_' || i, 'gra_' || i, 'app_1', 'usr_' || i, 'c_company_detail', $1, 0, 0
			FROM generate_series(1, CAST($2 AS BIGINT)) AS i`,
			`INSERT INTO members (company_id, user_id, role, role_since, created_at)
			SELECT 'com_' || i, 'usr_' || i, 'owner', CAST($1 AS BIGINT) * 0, 0
			FROM generate_series(1, CAST($2 AS BIGINT)) AS i`,
		} {
			if _, err := tx.Exec(ctx, query, db.Micros(tx.Now().Add(time.Hour)), int64(connected)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
		var events []webhook.StoredEvent
		for _, company := range []string{"com_a", "com_b", "com_7"} {
			events = append(events, webhook.StoredEvent{CompanyID: company, Name: "payroll.created", Position: 1})
		}
		if err := enqueue(ctx, tx, events); err != nil {
			return err
		}
		var rows int64
		err := tx.QueryRow(ctx, `SELECT SUM(seq_tup_read + COALESCE(idx_tup_fetch, 0)) FROM pg_stat_xact_user_tables
			WHERE relname IN ('app_grants', 'members', 'webhook_endpoints')`).Scan(&rows)
		if rows > most {
			t.Errorf("%d rows read of %d connections", rows, connected)
		}
		return err
	})
}

// writeBuffers writes the buffered changes of queues and results.
func writeBuffers(ctx context.Context, tx *db.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE webhook_endpoints SET generation = generation WHERE company_id = ''")
	return err
}

// SQLite does not count rows, so this test checks the index that the query plan names.
func TestABacklogIsNotReadBySQLite(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "EXPLAIN QUERY PLAN "+selectWaiting, "x", "x", "x", 1, 1, 1)
		plan, err := db.Collect(rows, err, func(r *db.Rows) (line string, err error) {
			var id, parent, unused int64
			return line, r.Scan(&id, &parent, &unused, &line)
		})
		if err != nil {
			return err
		}
		index := "webhook_deliveries_of_object (company_id=? AND endpoint_id=? AND object_id=? AND position<?)"
		if len(plan) != 1 || !strings.Contains(plan[0], index) {
			t.Errorf("%q", plan)
		}
		return nil
	})
}
