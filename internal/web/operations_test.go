package web

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/operator"
	"github.com/stipend/stipend/internal/web/webtest"
)

// operates makes an operator and signs them in.
func (x *staff) operates(name string) *webtest.Visitor {
	x.Helper()
	var made operator.Credentials
	email := strings.ToLower(name) + "@house.example"
	x.write(func(ctx context.Context, tx *db.Tx) (err error) {
		_, made, err = operator.Add(ctx, tx, x.face.Sealer, name, email)
		return err
	})
	code, err := totp.GenerateCode(made.Secret, x.wall())
	if err != nil {
		x.Fatal(err)
	}
	v := webtest.NewVisitor(x, x.url)
	if got := v.Submit(v.Get("/operations/sign-in"), "/operations/sign-in", "email", email, "password", made.Password, "code", code); got.Location() != "/operations" {
		x.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return v
}

var requestPath = regexp.MustCompile(`/operations/requests/oprq_\w+`)

// To clear a hit lets money go: one operator asks, and another agrees, unless the hit was confirmed meanwhile. To confirm one takes one.
func TestAHitIsClearedByTwoAndConfirmedByOne(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := hire(t, d)
		for _, id := range []string{"hit_1", "hit_2"} {
			x.write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, `INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id, entry_name, programs, score, state, reason, decided_by, version, created_at, decided_at)
					VALUES ($1, $2, 'rcp_1', 'name', 'digest', $2, 'Somebody', 'SDN', 90, 'open', '', '', 1, 1, 0)`, x.company.ID, id)
				return err
			})
		}
		katherine, dorothy := x.operates("Katherine"), x.operates("Dorothy")
		const queue = "/operations/queues/hits"
		decide := func(v *webtest.Visitor, hit, answer string, want int) {
			t.Helper()
			if got := v.Submit(v.Get(queue), "/operations/hits/"+hit, "answer", answer, "reason", "born in another year"); got.Status != want {
				t.Fatalf("%s of %s: %d\n%s", answer, hit, got.Status, got.Text)
			}
		}
		answer := func(v *webtest.Visitor, answer string) int {
			t.Helper()
			page := v.Get("/operations")
			return v.Submit(page, requestPath.FindString(page.Text), "answer", answer, "reason", "compared the passports").Status
		}
		state := func(hit string) (now, by string) {
			x.write(func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT state, decided_by FROM screening_hits WHERE hit_id = $1", hit).Scan(&now, &by)
			})
			return now, by
		}
		decide(katherine, "hit_1", "clear", http.StatusSeeOther)
		decide(katherine, "hit_1", "clear", http.StatusConflict)
		if got := answer(katherine, "yes"); got != http.StatusForbidden {
			t.Errorf("who asked agrees: %d", got)
		}
		if now, _ := state("hit_1"); now != "open" {
			t.Fatalf("one operator alone made it %s", now)
		}
		if got := answer(dorothy, "yes"); got != http.StatusSeeOther {
			t.Errorf("another one agrees: %d", got)
		}
		if now, by := state("hit_1"); now != "cleared" || by != "Katherine, Dorothy" {
			t.Errorf("%s by %s", now, by)
		}

		decide(katherine, "hit_2", "clear", http.StatusSeeOther)
		decide(dorothy, "hit_2", "confirm", http.StatusSeeOther)
		if got := answer(dorothy, "yes"); got != http.StatusConflict {
			t.Errorf("the clearing of what was confirmed meanwhile: %d", got)
		}
		if now, by := state("hit_2"); now != "confirmed" || by != "Dorothy" {
			t.Errorf("%s by %s", now, by)
		}
		acts := katherine.Get("/operations/acts").Text
		for _, want := range []string{"asked that a hit be cleared", "agreed that a hit be cleared", "confirmed a hit"} {
			if !strings.Contains(acts, want) {
				t.Errorf("the acts lack %q", want)
			}
		}
	})
}
