package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/webhook"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// singleEvents is the number of events that are measured one at a time for each number of connected companies.
const singleEvents = 1000

// connections measures the time to add an event to the queues of its receivers, for a company that connected no app,
// while an app has no or many connected companies, and the time to commit events of people who connected no app.
func (b *bench) connections(ctx context.Context) error {
	t := newTable(b.out, b.engine+": an event of a company that connected no app", "connected companies", "events", "p50",
		"p99", "ratio")
	var none spread
	for _, n := range []int{0, 100, 10_000} {
		b.logf("connections: %d companies", n)
		s, err := b.unconcerned(ctx, n)
		if err != nil {
			return err
		}
		if n == 0 {
			none = s
		}
		t.row(n, singleEvents, s.p50, s.p99, ratio(s.p50.Seconds(), none.p50.Seconds()))
	}
	if err := t.end(); err != nil {
		return err
	}
	t = newTable(b.out, b.engine+": an event of a person who connected no app", "connected people", "commits",
		"events in each", "p50", "p99")
	for _, n := range []int{0, 10_000} {
		s, err := b.unconnected(ctx, n)
		if err != nil {
			return err
		}
		t.row(n, singleEvents, peopleOfCommit, s.p50, s.p99)
	}
	return t.end()
}

// peopleOfCommit is the number of people whose events a measured commit emits.
const peopleOfCommit = 100

// unconnected returns the times of commits with events of people who connected no app, which are not stored, while
// other people have connected an app.
func (b *bench) unconnected(ctx context.Context, connected int) (out spread, err error) {
	address, err := b.databases(fmt.Sprintf("people_%d", connected))
	if err != nil {
		return out, err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return out, err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return out, err
	}
	if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		var grants [][]any
		for i := range connected {
			grants = append(grants, []any{"", fmt.Sprintf("gra_%05d", i), "app_1", fmt.Sprintf("usr_%05d", i),
				identity.UserBankDetails, int64(1) << 60, int64(0), int64(0)})
		}
		return tx.Insert(ctx, "app_grants", grantColumns, grants)
	}); err != nil {
		return out, err
	}
	var times []time.Duration
	for i := range singleEvents {
		began := time.Now()
		if err := d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
			for j := range peopleOfCommit {
				paid := webhook.UserPaymentStatusUpdate
				if err := webhook.Emit(tx, paid.Event("", "pmt_"+strconv.Itoa(i), 1, paid.Example).
					And(fmt.Sprintf("usr_other_%d_%d", i, j))...); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return out, err
		}
		times = append(times, time.Since(began))
	}
	return spreadOf(times), nil
}

var grantColumns = []string{"company_id", "grant_id", "app_id", "user_id", "scopes", "expires_at", "revoked_at",
	"created_at"}

// unconcerned returns the times for single events of a company while connected other companies have connected an app.
func (b *bench) unconcerned(ctx context.Context, connected int) (out spread, err error) {
	address, err := b.databases(fmt.Sprintf("connections_%d", connected))
	if err != nil {
		return out, err
	}
	d, err := db.Open(ctx, db.Options{URL: address})
	if err != nil {
		return out, err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return out, err
	}
	if err := connectCompanies(ctx, d, connected); err != nil {
		return out, err
	}
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		return out, err
	}
	sender, err := delivery.NewSender(delivery.Options{DB: d, Sealer: sealer, Env: identity.Sandbox,
		Policy: delivery.Policy{Loopback: true}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return out, err
	}
	var times []time.Duration
	for i := range singleEvents {
		if err := d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
			return webhook.Emit(tx, webhook.PayrollCreated.Event("com_unconcerned", "prl_"+strconv.Itoa(i), 1,
				webhook.PayrollCreated.Example))
		}); err != nil {
			return out, err
		}
		began := time.Now()
		if _, err := sender.Step(ctx); err != nil {
			return out, err
		}
		times = append(times, time.Since(began))
	}
	return spreadOf(times), nil
}

// connectCompanies stores an app that n companies have connected.
func connectCompanies(ctx context.Context, d *db.DB, n int) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := tx.Insert(ctx, "apps", []string{"company_id", "app_id", "name", "client_id", "secret_digest",
			"redirect_uri", "scopes", "status", "created_at"}, [][]any{{"com_app", "app_1", "App", "cli_1", "", "",
			identity.CompanyDetail, "active", int64(0)}}); err != nil || n == 0 {
			return err
		}
		var grants, members [][]any
		for i := range n {
			company := fmt.Sprintf("com_%05d", i)
			grants = append(grants, []any{company, "gra_" + company, "app_1", "usr_1", identity.CompanyDetail, int64(1) << 60,
				int64(0), int64(0)})
			members = append(members, []any{company, "usr_1", "owner", int64(0), int64(0)})
		}
		if err := tx.Insert(ctx, "members", []string{"company_id", "user_id", "role", "role_since", "created_at"},
			members); err != nil {
			return err
		}
		return tx.Insert(ctx, "app_grants", grantColumns, grants)
	})
}
