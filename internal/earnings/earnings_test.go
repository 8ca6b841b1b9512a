package earnings_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/earnings"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// counter counts the statements on either engine.
type counter struct{ n atomic.Int64 }

func (c *counter) intercept(_ context.Context, _ string, run func() error) error {
	c.n.Add(1)
	return run()
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A year and an export read the same number of statements for one payment of each type as for many, and their outputs
// are those of each payment.
func TestAYearIsReadWithAFixedNumberOfStatements(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		var count counter
		clock := dbtest.NewClock()
		h := fixture.New(t, dbtest.Open(t, db.Options{URL: url, Clock: clock.Now, Intercept: count.intercept,
			Tracer: &count}), clock)
		h.UseCompany(identity.NewCompany{Name: "Acme", Country: "DE"})
		sealer := testkit.Must(identity.NewSealer(bytes.Repeat([]byte{7}, 32)))
		u := fixture.Do(h, func(ctx context.Context, tx *db.Tx) (identity.User, error) {
			return identity.CreateUser(ctx, tx, sealer, identity.NewUser{CompanyID: h.By.CompanyID,
				Profile: identity.Profile{Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace", Country: "DE"}})
		})
		r := earnings.Reader{Sealer: sealer, By: h.By, UserID: u.ID}
		year := clock.Now().Year()
		ofYear := func(ctx context.Context, tx *db.Tx) ([]earnings.Payment, error) { return r.OfYear(ctx, tx, year) }
		split := func(ctx context.Context, tx *db.Tx) ([]earnings.Payment, error) {
			all, err := r.OfYear(ctx, tx, year)
			if err != nil {
				return nil, err
			}
			return all, earnings.LoadOutputs(ctx, tx, all)
		}
		export := func(ctx context.Context, tx *db.Tx) ([]earnings.Payment, error) {
			e, err := r.Export(ctx, tx, nil, false)
			for _, m := range e.Payments {
				if len(m.Outputs) != 2 {
					t.Errorf("the export has %+v, want two outputs", m)
				}
			}
			return make([]earnings.Payment, len(e.Payments)), err
		}
		reads := []func(context.Context, *db.Tx) ([]earnings.Payment, error){ofYear, split, export}
		statements := make([]int64, len(reads))
		paid := 0
		for _, more := range []int{1, 15} {
			for range more {
				paid++
				pay(h, u.ID, paid)
			}
			for i, read := range reads {
				before := count.n.Load()
				if all := fixture.Get(h, read); len(all) != 2*paid {
					t.Fatalf("read %d has %d payments, want %d", i, len(all), 2*paid)
				}
				n := count.n.Load() - before
				if paid > more && n != statements[i] {
					t.Errorf("read %d takes %d statements for %d payments, and %d for 2", i, n, 2*paid, statements[i])
				}
				statements[i] = n
			}
		}
		if statements[0] == 0 || statements[1] <= statements[0] {
			t.Errorf("the statements are not counted: %d", statements)
		}
		for _, m := range fixture.Get(h, split) {
			found := fixture.Get(h, func(ctx context.Context, tx *db.Tx) (earnings.Payment, error) {
				return r.Find(ctx, tx, m.ID)
			})
			if found.Steps = nil; len(m.Outputs) != 2 || !reflect.DeepEqual(found, m) {
				t.Errorf("the year has %+v, and Find returns %+v", m, found)
			}
		}
	})
}

// pay stores a payment of a payroll and an income that a user received, each with two outputs.
func pay(h *fixture.Fixture, userID string, n int) {
	h.Helper()
	h.Clock.Advance(time.Minute)
	h.Write(func(ctx context.Context, tx *db.Tx) error {
		payrollID, paymentID, incomeID := fmt.Sprintf("pay_%d", n), fmt.Sprintf("sub_%d", n), fmt.Sprintf("inc_%d", n)
		company, now := h.By.CompanyID, db.Micros(tx.Now())
		if err := tx.Insert(ctx, "payrolls", []string{"company_id", "payroll_id", "external_id", "state", "held_from",
			"hold_reason", "funding_state", "version", "currency", "payees", "volume", "fees", "total", "escrow", "shortfall",
			"funding_method", "funding_currency", "rate", "address", "network", "tolerance_bps", "pay_date", "release_at",
			"created_at", "updated_at"}, [][]any{{company, payrollID, "", "fulfilled", "", "", "funded", int64(1), "EUR",
			int64(1), int64(100), int64(0), int64(100), int64(0), int64(0), "balance", "EUR", "", "", "", int64(0), "",
			int64(0), now, now}}); err != nil {
			return err
		}
		if err := tx.Insert(ctx, "payments", []string{"company_id", "payroll_id", "payment_id", "position", "payee_id",
			"user_id", "state", "amount", "fee", "country", "premium", "invoice_id", "description", "category",
			"external_payment_id", "reason", "version"}, [][]any{{company, payrollID, paymentID, int64(0), userID, userID,
			"fulfilled", int64(100), int64(0), "DE", false, "", "", "", "", "", int64(1)}}); err != nil {
			return err
		}
		if err := tx.Insert(ctx, "incomes", []string{"user_id", "income_id", "company_id", "transfer_id", "invoice_id",
			"payer_id", "currency", "amount", "released_at", "state", "reason", "version", "created_at", "updated_at"},
			[][]any{{userID, incomeID, "", incomeID, "", "", "EUR", int64(100), now, "fulfilled", "", int64(1), now,
				now}}); err != nil {
			return err
		}
		db.History(tx, company, paymentID, 1, "released", "fulfilled", "")
		db.History(tx, userID, incomeID, 1, "released", "fulfilled", "")
		var outs []payout.Output
		for range 2 {
			for _, o := range []payout.Output{{CompanyID: company, PayrollID: payrollID, PaymentID: paymentID},
				{CompanyID: userID, PayrollID: incomeID, PaymentID: incomeID}} {
				o.Rail, o.DistributionID = "bank", "dst_1"
				o.Amount, o.Input = fixture.EUR(50), fixture.EUR(50)
				outs = append(outs, o)
			}
		}
		return payout.Add(tx, outs)
	})
}
