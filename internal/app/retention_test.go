package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// Expired data is deleted after the operator's period, or the default one. Queued mails stay. The counts that operators
// see before are the numbers of deleted rows.
func TestDataIsDeletedAfterItsPeriod(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		ago := func(n int) int64 { return db.Micros(time.Now().AddDate(0, 0, -n)) }
		testkit.Check(t, d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			for _, n := range []int{5, 50, 200, 500} {
				id := "id_" + time.Duration(n).String()
				for _, state := range []string{"sent", "queued"} {
					err = errors.Join(err, tx.Insert(ctx, "mails", []string{"company_id", "mail_id", "template", "mail_key", "address",
						"address_key", "language", "data", "state", "subject", "body_text", "body_html", "reason", "created_at",
						"ended_at"}, [][]any{{"com_1", id + state, "", id + state, "", "", "en", "", state, "", "", "", "", ago(n),
						int64(0)}}))
				}
				err = errors.Join(err, tx.Insert(ctx, "notifications", []string{"company_id", "user_id", "notification_id", "kind",
					"object_id", "about", "amount", "currency", "detail", "created_at", "read_at"}, [][]any{{"com_1", "usr_1", id,
					"payroll_paid", "", "", int64(0), "", "", ago(n), int64(0)}}),
					tx.Insert(ctx, "security_events", []string{"company_id", "at", "event_id", "category", "action", "path", "user_id",
						"staff_id", "outcome", "address", "network", "agent"}, [][]any{{"com_1", ago(n), id, "sign_in", "", "", "", "",
						"", "", "", ""}}))
			}
			return err
		}))
		want := func(step string, keep map[string]int, mails, notifications, security int64) {
			t.Helper()
			count := func(table string) (n int64) {
				dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
					return tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+table).Scan(&n)
				})
				return n
			}
			before := map[string]int64{}
			expired := map[string]int64{}
			classes, err := app.Retention{Keep: keep}.Classes()
			testkit.Check(t, err)
			for _, c := range classes {
				if c.Expired == nil {
					continue
				}
				before[c.Name] = count(c.Name)
				dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
					expired[c.Name], err = c.Expired(ctx, tx, c.Kept())
					return err
				})
			}
			testkit.Check(t, app.PruneExpired(t.Context(), d, keep))
			for name, rows := range map[string]int64{"mails": mails, "notifications": notifications,
				"security_events": security} {
				if n := count(name); n != rows || before[name]-n != expired[name] {
					t.Errorf("%s: %d %s are left of %d, want %d; %d were expired", step, n, name, before[name], rows, expired[name])
				}
			}
		}
		want("longer", map[string]int{"mails": 365, "notifications": 365, "security_events": 730}, 7, 3, 4)
		want("defaults", nil, 6, 2, 3)
		want("shorter", map[string]int{"mails": 7, "notifications": 30}, 5, 1, 3)
	})
}

func TestWrongPeriodsAreRefused(t *testing.T) {
	for want, keep := range map[string]map[string]int{
		"want one of mails, notifications, security_events": {"ledger": 30},
		"--keep events: want one of":                        {"events": 60},
		"--keep mails=1: want from 7 to 3650 days":          {"mails": 1},
		"--keep security_events=90: want from 400":          {"security_events": 90},
	} {
		if _, err := (app.Retention{Keep: keep}).Classes(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", keep, err, want)
		}
	}
}
