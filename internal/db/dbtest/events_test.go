package dbtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
)

// recorder records the failures of a test instead of reporting them.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestAnEventThatDiffersFromTheContractFailsItsTest(t *testing.T) {
	const valid = `{"webhook_id": "whk_1", "status": "enabled", "reason": ""}`
	RunURL(t, func(t *testing.T, url string) {
		d := Open(t, db.Options{URL: url})
		for _, x := range []struct{ name, data, problem string }{
			{"webhook.status_update", valid, ""},
			{"webhook.status_update", `{"webhook_id": "whk_1"}`, "status"},
			{"webhook.status_update", `{"webhook_id": "whk_1", "status": "enabled", "reason": "", "secret": "s"}`, "secret"},
			{"webhook.unknown", valid, "webhook.unknown"},
		} {
			if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, "DELETE FROM events"); err != nil {
					return err
				}
				return tx.Insert(ctx, "events",
					[]string{"company_id", "event_id", "object_id", "sequence", "name", "data", "created_at", "position"},
					[][]any{{"com_1", "evt_1", "whk_1", int64(1), x.name, x.data, int64(0), int64(1)}})
			}); err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			checkEvents(r, url)
			got := strings.Join(r.errors, "\n")
			if (got == "") != (x.problem == "") || !strings.Contains(got, x.problem) {
				t.Errorf("%s with payload %s: reported %q", x.name, x.data, got)
			}
		}
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM events")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}
