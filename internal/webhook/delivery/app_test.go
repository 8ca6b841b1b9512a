package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// connection is a company whose manager has connected the app of a world.
type connection struct {
	company string
	grant   identity.Grant
}

// connect creates a company that connects the app with some scopes.
func (w *world) connect(role string, scopes ...identity.Scope) (c connection) {
	w.Helper()
	c.company = w.company().CompanyID
	w.write(func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, w.setup.Sealer, identity.NewUser{Profile: identity.Profile{
			Email: c.company + "@example.com", FirstName: "Ada",
		}})
		if err != nil {
			return err
		}
		if err := identity.AddMember(ctx, tx, identity.Member{CompanyID: c.company, UserID: u.ID, Role: role}); err != nil {
			return err
		}
		c.grant, err = identity.CreateGrant(ctx, tx, identity.Grant{
			CompanyID: c.company, AppID: w.by.AppID, UserID: u.ID, Scopes: identity.NewScopes(scopes...),
		})
		return err
	})
	return c
}

// emitFor commits an event of an object of a company.
func (w *world) emitFor(company, object string, sequence int64) {
	w.Helper()
	w.write(func(_ context.Context, tx *db.Tx) error {
		return webhook.Emit(tx, eventOf[webhook.PayrollStatusUpdate.Name](company, object, sequence))
	})
}

// appEndpoint creates an app and an endpoint for the events of the companies and users who connect it.
func (w *world) appEndpoint(url string) (e delivery.Endpoint, secret string) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{
			CompanyID: w.by.CompanyID, Name: "Books", RedirectURI: "https://books.example/callback",
			Scopes: identity.NewScopes(identity.CompanyDetail, identity.CompanyWorkerList, identity.UserDetail,
				identity.UserBankDetails),
		})
		if err != nil {
			return err
		}
		w.by.AppID = app.ID
		e, secret, err = w.setup.Create(ctx, tx, w.by, delivery.Params{URL: &url, Connections: true})
		return err
	})
	everything.secret(secret)
	return e, secret
}

// companies returns the companies and objects of the received events.
func companies(t *testing.T, all []got) (list []string) {
	t.Helper()
	for _, g := range all {
		var body struct {
			CompanyID string `json:"company_id"`
			Sequence  int64
		}
		testkit.Check(t, json.Unmarshal(g.body, &body))
		list = append(list, body.CompanyID+" "+strconv.FormatInt(body.Sequence, 10))
	}
	return list
}

// An endpoint of an app receives the events of the companies that connected the app with the scope to read them, in
// the order of each object, and none of others.
func TestAnAppReceivesTheEventsOfConnectedCompanies(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, secret := w.appEndpoint(r.URL)
		a, b := w.connect(identity.RoleOwner, identity.CompanyDetail), w.connect(identity.RoleAdmin, identity.CompanyDetail)
		noScope := w.connect(identity.RoleOwner, identity.CompanyWorkerList)
		viewer := w.connect(identity.RoleViewer, identity.CompanyDetail)
		alone := w.company().CompanyID
		for sequence := range int64(3) {
			for _, company := range []string{
				a.company, b.company, noScope.company, viewer.company, alone, w.by.CompanyID,
			} {
				w.emitFor(company, "prl_"+company, sequence+1)
			}
		}
		w.drain()
		var ofA []string
		all := companies(t, r.all())
		for _, line := range all {
			if line[:len(a.company)] == a.company {
				ofA = append(ofA, line)
			}
		}
		if len(all) != 6 || !slices.Equal(ofA, []string{a.company + " 1", a.company + " 2", a.company + " 3"}) {
			t.Fatalf("received %q", all)
		}
		for _, g := range r.all() {
			if err := accepts(g, secret); err != nil {
				t.Error(err)
			}
		}

		// The list has the same events, and continues after each.
		var listed []string
		after := ""
		for more := true; more; {
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				events, next, err := webhook.List(ctx, tx, webhook.ListParams{
					CompanyID: w.by.CompanyID, AppID: w.by.AppID, After: after, Limit: 2,
				})
				for _, ev := range events {
					listed, after = append(listed, ev.CompanyID+" "+strconv.FormatInt(ev.Sequence, 10)), ev.ID
				}
				more = next
				return err
			})
		}
		slices.Sort(all)
		slices.Sort(listed)
		if !slices.Equal(listed, all) {
			t.Errorf("listed %q, received %q", listed, all)
		}

		// A test goes to the endpoint only. Events are sent again, one or all.
		done := w.deliveries(e.ID, delivery.Succeeded)
		w.write(func(ctx context.Context, tx *db.Tx) error {
			if _, err := delivery.Ping(ctx, tx, w.by, e.ID); err != nil {
				return err
			}
			_, err := delivery.Redeliver(ctx, tx, w.by, e.ID, done[0].EventID)
			return err
		})
		w.drain()
		if n := len(r.all()); n != 8 {
			t.Errorf("%d deliveries after a test and a repetition, want 8", n)
		}
		if attempts := w.attempts(e.ID, done[0].EventID); len(attempts) != 2 {
			t.Errorf("attempts: %+v", attempts)
		}
		w.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := delivery.Replay(ctx, tx, w.by, e.ID, delivery.Range{All: true})
			return err
		})
		w.drain()
		if n := len(r.all()); n != 14 {
			t.Errorf("%d deliveries after a replay, want 14", n)
		}

		// After a company has disconnected the app, what waits is not sent, and past events cannot be read.
		r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		w.emitFor(a.company, "prl_last", 1)
		w.drain()
		w.write(func(ctx context.Context, tx *db.Tx) error {
			return identity.RevokeGrant(ctx, tx, a.company, a.grant.ID)
		})
		r.answers(nil)
		sent := len(r.all())
		w.emitFor(a.company, "prl_last", 2)
		clock.Advance(time.Hour)
		w.drain()
		if n := len(r.all()); n != sent {
			t.Errorf("%d events were sent after the company had disconnected the app", n-sent)
		}
		if cancelled := w.deliveries(e.ID, delivery.Cancelled); len(cancelled) != 1 {
			t.Errorf("cancelled: %+v", cancelled)
		}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			source := webhook.Source{CompanyID: w.by.CompanyID, AppID: w.by.AppID}
			for _, one := range done {
				_, err := webhook.Get(ctx, tx, source, one.EventID)
				if ended := one.SourceID == a.company; ended != errors.Is(err, apierr.NotFoundErr) {
					t.Errorf("an event of %s: %v", one.SourceID, err)
				}
			}
			return nil
		})
	})
}

// person creates a person with an account, who connects the app without a company if there are scopes.
func (w *world) person(name string, scopes ...identity.Scope) (userID string, g identity.Grant) {
	w.Helper()
	w.write(func(ctx context.Context, tx *db.Tx) error {
		u, err := identity.CreateUser(ctx, tx, w.setup.Sealer, identity.NewUser{Profile: identity.Profile{
			Email: name + "@example.com", FirstName: name,
		}})
		if userID = u.ID; err != nil || len(scopes) == 0 {
			return err
		}
		g, err = identity.CreateGrant(ctx, tx, identity.Grant{AppID: w.by.AppID, UserID: u.ID,
			Scopes: identity.NewScopes(scopes...)})
		return err
	})
	return userID, g
}

// An endpoint of an app receives the events that the scopes allow of the users who connected the app without a company,
// in the order of each object, until they disconnect it. Events of users who connected no app are not stored.
func TestAnAppReceivesTheEventsOfConnectedUsers(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		r := newReceiver(t, clock)
		e, secret := w.appEndpoint(r.URL)
		ada, consent := w.person("ada", identity.UserBankDetails)
		w.write(func(ctx context.Context, tx *db.Tx) error { // another consent of the same person
			_, err := identity.CreateGrant(ctx, tx, identity.Grant{AppID: w.by.AppID, UserID: ada,
				Scopes: identity.NewScopes(identity.UserDetail)})
			return err
		})
		bob, _ := w.person("bob", identity.UserDetail)
		cy, _ := w.person("cy")
		member := w.connect(identity.RoleOwner, identity.CompanyDetail, identity.UserBankDetails, identity.UserDetail)
		w.write(func(ctx context.Context, tx *db.Tx) error { // the member has connected another app for themselves
			_, err := identity.CreateGrant(ctx, tx, identity.Grant{AppID: "app_other", UserID: member.grant.UserID,
				Scopes: identity.NewScopes(identity.UserBankDetails)})
			return err
		})
		emit := func(userID string, sequence int64) {
			t.Helper()
			w.write(func(_ context.Context, tx *db.Tx) error {
				paid := webhook.IncomeStatusUpdate
				return webhook.Emit(tx, paid.Event("", "inc_"+userID, sequence, paid.Example).And(userID)...)
			})
		}
		for sequence := range int64(3) {
			for _, userID := range []string{bob, ada, cy, member.grant.UserID} {
				emit(userID, sequence+1)
			}
		}
		w.drain()
		var users []string
		for _, g := range r.all() {
			var body struct {
				CompanyID string `json:"company_id"`
				UserID    string `json:"user_id"`
				Sequence  int64
			}
			testkit.Check(t, json.Unmarshal(g.body, &body))
			testkit.Check(t, accepts(g, secret))
			users = append(users, body.CompanyID+body.UserID+" "+strconv.FormatInt(body.Sequence, 10))
		}
		if !slices.Equal(users, []string{ada + " 1", ada + " 2", ada + " 3"}) {
			t.Errorf("received %q", users)
		}
		stored := func(userID string) (n int) {
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM events WHERE company_id = $1", userID).Scan(&n)
			})
			return n
		}
		for userID, want := range map[string]int{ada: 3, bob: 3, cy: 0, member.grant.UserID: 3} {
			if n := stored(userID); n != want {
				t.Errorf("%d events are stored, want %d", n, want)
			}
		}
		listed := func() (list []string) {
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				events, _, err := webhook.List(ctx, tx, webhook.ListParams{
					CompanyID: w.by.CompanyID, AppID: w.by.AppID, Names: "income.*", Limit: 100})
				for _, ev := range events {
					list = append(list, ev.CompanyID+" "+strconv.FormatInt(ev.Sequence, 10))
				}
				return err
			})
			return list
		}
		if got := listed(); !slices.Equal(got, users) {
			t.Errorf("listed %q", got)
		}

		// An event that counts by itself is stored for connected users only, too.
		w.write(func(ctx context.Context, tx *db.Tx) error {
			for _, userID := range []string{ada, cy} {
				decided := webhook.UserKYCStatusUpdate
				if err := webhook.EmitNext(ctx, tx, decided.Event("", userID, 0, decided.Example).And(userID)...); err != nil {
					return err
				}
			}
			return nil
		})
		w.drain()
		if got := r.all(); len(got) != 4 || stored(cy) != 0 {
			t.Errorf("%d events were received and %d are stored", len(got), stored(cy))
		}

		// A scope that the app loses counts no longer, and gives the events back with it.
		scopes := func(scopes ...identity.Scope) {
			w.write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE apps SET scopes = $2 WHERE app_id = $1", w.by.AppID,
					identity.NewScopes(scopes...).String())
				return err
			})
		}
		scopes(identity.CompanyDetail, identity.UserDetail)
		if got := listed(); len(got) != 0 {
			t.Errorf("listed %q", got)
		}
		scopes(identity.CompanyDetail, identity.UserDetail, identity.UserBankDetails)

		// After the user has withdrawn the consent, what waits is not sent.
		r.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		emit(ada, 4)
		w.drain()
		w.write(func(ctx context.Context, tx *db.Tx) error { return identity.RevokeGrant(ctx, tx, "", consent.ID) })
		r.answers(nil)
		sent := len(r.all())
		emit(ada, 5) // stored, because of the other consent, whose scope does not allow it
		clock.Advance(time.Hour)
		w.drain()
		if n := len(r.all()); n != sent || len(listed()) != 0 {
			t.Errorf("%d events were sent after the user had disconnected, and %q are listed", n-sent, listed())
		}
		if cancelled := w.deliveries(e.ID, delivery.Cancelled); len(cancelled) != 1 || cancelled[0].SourceID != ada {
			t.Errorf("cancelled: %+v", cancelled)
		}
	})
}

// Only a key of the app can register an endpoint for the companies that connected it.
func TestAnEndpointForConnectionsNeedsAnApp(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		w := newWorld(t, d, clock)
		url := "http://127.0.0.1:1/"
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, _, err := w.setup.Create(ctx, tx, w.by, delivery.Params{URL: &url, Connections: true})
			return err
		})
		if f, ok := apierr.As(err); !ok || f.Code != delivery.ErrNoApp.Code {
			t.Errorf("got %v", err)
		}
	})
}
