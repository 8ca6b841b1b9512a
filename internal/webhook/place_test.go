package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/webhook"
)

// Instants do not say what committed last: a transaction may begin first and commit last, and a clock may jump back. An object's
// events keep their order all the same, however many are placed at once.
func TestAnObjectsEventsKeepTheirOrder(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		write := func(f func(context.Context, *db.Tx) error) {
			t.Helper()
			if err := d.Write(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		emit := func(object, name string, sequence int64) {
			t.Helper()
			write(func(ctx context.Context, tx *db.Tx) error {
				e := webhook.Event{CompanyID: "com_1", Name: name, ObjectID: object, Sequence: sequence}
				if sequence == 0 {
					return webhook.EmitNext(ctx, tx, e)
				}
				return webhook.Emit(tx, e)
			})
		}
		for range 3 { // of two rows that both tell of one object, and the clock goes back from one to the next
			emit("usr_1", "recipient.status_update", 0)
			clock.Advance(-time.Second)
			emit("usr_1", "user.kyc_status_update", 0)
			clock.Advance(-time.Second)
		}
		for i := range int64(3) {
			emit("prl_1", "payroll.status_update", i+1)
			clock.Advance(-time.Second)
			emit("prl_2", "payroll.created", i+1)
		}
		var got []string
		for more := true; more; {
			write(func(ctx context.Context, tx *db.Tx) error {
				placed, err := webhook.Place(ctx, tx, 2)
				more = len(placed) > 0
				for _, p := range placed {
					got = append(got, fmt.Sprintf("%s %d", p.ObjectID, p.Sequence))
				}
				return err
			})
		}
		of := func(object string, from, n int64) (list []string) {
			for i := range n {
				list = append(list, fmt.Sprintf("%s %d", object, from+i))
			}
			return list
		}
		want := slices.Concat(of("prl_1", 1, 3), of("prl_2", 1, 3), of("usr_1", 2, 6))
		if stable := slices.Clone(got); !slices.Equal(byObject(stable), want) {
			t.Errorf("placed in the order %v, and of each object %v", got, stable)
		}
	})
}

// byObject puts objects behind one another and leaves the order of each one's events.
func byObject(list []string) []string {
	slices.SortStableFunc(list, func(a, b string) int { return slices.Compare([]byte(a[:5]), []byte(b[:5])) })
	return list
}
