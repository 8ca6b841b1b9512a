package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/webhook"
)

// What is told of many objects at once is a few rows, and is read as an event of each of them: in order, page by page in both directions, by its
// id and by its object, whoever of them took part.
func TestEventsToldTogetherAreReadAsEventsOfEach(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		var objects []string
		emit := func(sequence int64, whom []string) {
			write(t, d, func(_ context.Context, tx *db.Tx) error {
				var told []webhook.Told
				for _, id := range whom {
					told = append(told, webhook.Told{ObjectID: id, Data: map[string]string{"of": id, "text": "a\nb"}})
				}
				e := webhook.Event{CompanyID: "com_1", Name: "user.payment_status_update", Sequence: sequence}
				alone := webhook.Event{CompanyID: "com_1", Name: "payroll.status_update", ObjectID: "prl_1", Sequence: sequence, Data: "alone"}
				if err := webhook.Emit(tx, alone); err != nil {
					return err
				}
				return webhook.EmitTogether(tx, e, told)
			})
		}
		write(t, d, func(_ context.Context, tx *db.Tx) error {
			objects = append(tx.NewIDs("pmt", 35), "pmt_1", "pmt_2", tx.NewID("pmt"))
			return nil
		})
		emit(1, objects)
		parted := append(slices.Clone(objects[:3]), objects[4:]...) // one goes its own way
		emit(2, parted)
		emit(3, objects[3:4])
		var want []string
		for sequence, whom := range [][]string{objects, parted, objects[3:4]} {
			for _, id := range append([]string{"prl_1"}, whom...) {
				want = append(want, fmt.Sprint(id, " ", sequence+1))
			}
		}

		taken := next(t, d, 7)
		var got []string
		for i, e := range taken {
			got = append(got, fmt.Sprint(e.ObjectID, " ", e.Sequence))
			if e.Position != taken[0].Position+int64(i) {
				t.Errorf("event %d stands at %d behind %d", i, e.Position, taken[0].Position)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("there are %v\nwant %v", got, want)
		}
		var rows int
		read := func(f func(context.Context, *db.Tx) error) {
			t.Helper()
			if err := d.Read(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		read(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events").Scan(&rows)
		})
		if rows != 3+6+6+1 { // three runs, of 35, and three ids that are in none
			t.Errorf("%d events are %d rows", len(want), rows)
		}

		pages := func(p webhook.ListParams) (all []webhook.Placed) {
			p.CompanyID = "com_1"
			for more := true; more; {
				read(func(ctx context.Context, tx *db.Tx) (err error) {
					var some []webhook.Placed
					some, more, err = webhook.List(ctx, tx, p)
					if more && len(some) != p.Limit {
						t.Errorf("a page of %d, and there is more", len(some))
					}
					if all = append(all, some...); len(some) > 0 {
						p.After = some[len(some)-1].ID
					}
					return err
				})
			}
			return all
		}
		same := func(what string, got, want []webhook.Placed) {
			t.Helper()
			equal := slices.EqualFunc(got, want, func(a, b webhook.Placed) bool {
				return a.ID == b.ID && a.ObjectID == b.ObjectID && a.Position == b.Position && a.Sequence == b.Sequence && a.Name == b.Name
			})
			if !equal {
				t.Errorf("%s: %d events, want %d", what, len(got), len(want))
			}
		}
		backwards := slices.Clone(taken)
		slices.Reverse(backwards)
		for _, limit := range []int{5, 16, 200} {
			same(fmt.Sprint("pages of ", limit), pages(webhook.ListParams{Limit: limit}), taken)
			same(fmt.Sprint("newest first, pages of ", limit), pages(webhook.ListParams{Limit: limit, Newest: true}), backwards)
		}
		for _, id := range append([]string{"prl_1"}, objects[2:5]...) {
			of := slices.DeleteFunc(slices.Clone(taken), func(e webhook.Placed) bool { return e.ObjectID != id })
			same(id, pages(webhook.ListParams{Limit: 1, ObjectID: id}), of)
		}
		for _, e := range taken[30:60] {
			read(func(ctx context.Context, tx *db.Tx) error {
				one, err := webhook.Get(ctx, tx, "com_1", e.ID)
				same(e.ID, []webhook.Placed{one}, []webhook.Placed{e})
				var data struct{ Of, Text string }
				if e.ObjectID != "prl_1" && (json.Unmarshal(one.Data, &data) != nil || data.Of != e.ObjectID || data.Text != "a\nb") {
					t.Errorf("the event of %s says %s", e.ObjectID, one.Data)
				}
				return err
			})
		}
	})
}
