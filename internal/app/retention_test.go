package app_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
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
				if c.Expired == nil || c.Name == "ended_relations" {
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
				n := count(name)
				if deleted := lastRun(t, d, name).Deleted; deleted != expired[name] {
					t.Errorf("%s: %d %s were deleted according to the last run, want %d", step, deleted, name, expired[name])
				}
				if n != rows || before[name]-n != expired[name] {
					t.Errorf("%s: %d %s are left of %d, want %d; %d were expired", step, n, name, before[name], rows, expired[name])
				}
			}
		}
		want("longer", map[string]int{"mails": 365, "notifications": 365, "security_events": 730}, 7, 3, 4)
		want("defaults", nil, 6, 2, 3)
		want("shorter", map[string]int{"mails": 7, "notifications": 30}, 5, 1, 3)
	})
}

// lastRun returns what the last run of the retention job did with a class.
func lastRun(t *testing.T, d *db.DB, class string) (found backoffice.RetentionResult) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		run, err := backoffice.LastRetention(ctx, tx)
		for _, r := range run.Classes {
			if r.Class == class {
				found = r
			}
		}
		return err
	})
	return found
}

// The data of recipients and people is erased years after their relationship to all companies ended, and that of
// companies after they were closed. The data of those who have a legal hold, also on the company, or a sanctions match,
// or who are still paid, is retained; the last run counts them.
func TestEndedRelationsAreErased(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, database string) {
		d := newAPIClient(t, boot(t, database))
		on, company := d.s.DB(), "/api/company/"+d.seed.CompanyID
		recipient := func(name string) string {
			id, _ := d.ok("POST", company+"/recipients/create", `{"first_name":"`+name+`","last_name":"Clarke","country":"DE",`+
				`"email":"`+name+`@payee.example"}`).read(t)["recipient_id"].(string)
			return id
		}
		deactivate := func(id string) { d.ok("POST", company+"/recipients/"+id+"/deactivate", "{}") }
		joan, ted, may, kay := recipient("Joan"), recipient("Ted"), recipient("May"), recipient("Kay")
		worker := d.seed.Workers[0].UserID
		for _, id := range []string{joan, ted, may, worker} {
			deactivate(id)
		}
		change := func(f func(ctx context.Context, tx *db.Tx) error) {
			t.Helper()
			testkit.Check(t, on.Write(t.Context(), f))
		}
		hold := func(id string) {
			t.Helper()
			change(func(ctx context.Context, tx *db.Tx) error {
				_, err := kyc.PlaceHold(ctx, tx, kyc.Hold{SubjectID: id, By: "Katherine", Reason: "court order"})
				return err
			})
		}
		release := func(id string) {
			t.Helper()
			change(func(ctx context.Context, tx *db.Tx) error {
				_, err := kyc.ReleaseHold(ctx, tx, id)
				return err
			})
		}
		hold(ted)
		change(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id,
				entry_name, programs, score, state, reason, decided_by, version, created_at, decided_at)
				VALUES ($1, 'hit_1', $2, 'name', 'digest', 'e', 'Somebody', 'SDN', 90, 'confirmed', '', '', 1, 1, 1)`,
				d.seed.CompanyID, may)
			return err
		})
		erased := func(ids ...string) {
			t.Helper()
			testkit.Check(t, app.PruneExpired(t.Context(), on, nil))
			for _, id := range []string{joan, ted, may, kay, worker} {
				var n, acts int
				testkit.Check(t, on.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					return errors.Join(tx.QueryRow(ctx, `SELECT COUNT(*) FROM recipients
						WHERE recipient_id = $1 AND last_name = '' AND email = '' AND details = ''`, id).Scan(&n),
						tx.QueryRow(ctx, "SELECT COUNT(*) FROM staff_actions WHERE action = 'data.erase' AND object_id = $1",
							id).Scan(&acts))
				}))
				want := 0
				if slices.Contains(ids, id) {
					want = 1
				}
				if n != want || acts != want {
					t.Errorf("%s: erased %d, %d entries in the audit log, want %d", id, n, acts, want)
				}
			}
		}
		years := func(n int) {
			for range n {
				d.advance(365 * 24 * time.Hour)
			}
		}
		years(4)
		erased()
		hold(d.seed.CompanyID)
		years(2)
		erased()
		release(d.seed.CompanyID)
		erased(joan, worker)
		if r := lastRun(t, on, "ended_relations"); r.Retained != 2 {
			t.Errorf("%d were retained in the last run, want 2", r.Retained)
		}
		release(ted)
		change(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE screening_hits SET state = 'cleared' WHERE subject_id = $1", may)
			return err
		})
		erased(joan, worker, ted, may)
		change(func(ctx context.Context, tx *db.Tx) error {
			_, err := identity.CloseCompany(ctx, tx, d.seed.CompanyID)
			if err == nil {
				_, err = tx.Exec(ctx, "UPDATE companies SET closed_at = $2 WHERE company_id = $1", d.seed.CompanyID,
					db.Micros(tx.Now().AddDate(-6, 0, 0)))
			}
			return err
		})
		erased(joan, worker, ted, may, kay)
		if r := lastRun(t, on, "ended_relations"); r.Failed {
			t.Error("the last run failed")
		}
	})
}

func TestWrongPeriodsAreRefused(t *testing.T) {
	for want, keep := range map[string]map[string]int{
		"want one of ended_relations, mails, notifications, security_events": {"ledger": 30},
		"--keep events: want one of":                                         {"events": 60},
		"--keep mails=1: want from 7 to 3650 days":                           {"mails": 1},
		"--keep security_events=90: want from 400":                           {"security_events": 90},
		"--keep ended_relations=365: want from 1827":                         {"ended_relations": 365},
	} {
		if _, err := (app.Retention{Keep: keep}).Classes(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", keep, err, want)
		}
	}
}
