package stripe_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
)

// forgetful wraps a bank. While lost is set, it lists the receipts without a cursor, so that all of them are returned
// again.
type forgetful struct {
	*stripe.Bank
	lost bool
}

func (f *forgetful) Receipts(ctx context.Context, ref string, currency money.Asset, cursor string,
) ([]virtualaccount.Receipt, string, error) {
	if f.lost {
		f.lost, cursor = false, ""
	}
	return f.Bank.Receipts(ctx, ref, currency, cursor)
}

// The job opens the account. Each receipt is booked once, even if it is collected repeatedly.
func TestReceiptsAreBookedOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		bank, connected := open(t)
		b := &forgetful{Bank: connected}
		sealer, err := identity.NewSealer(make([]byte, 32))
		testkit.Check(t, err)
		s := &virtualaccount.Service{Bank: b, Sealer: sealer}
		var by identity.Principal
		ask := func() (a virtualaccount.Account) {
			t.Helper()
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				a, err = s.Open(ctx, tx, by, "", "EUR", virtualaccount.TermsVersion)
				return err
			})
			return a
		}
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx,
				identity.NewCompany{Name: "Acme", Country: "DE", Email: "ops@acme.example", KYBStatus: identity.KYCApproved})
			by = identity.Principal{Kind: identity.KindAPIKey, CompanyID: c.ID, Scopes: identity.AllScopes()}
			return err
		})
		if a := ask(); a.State != virtualaccount.Pending {
			t.Fatalf("%+v", a)
		}
		runner := job.NewRunner(d, job.Table{virtualaccount.JobOpen: {Net: s.HandleOpen}}, nil, slog.New(slog.DiscardHandler))
		testkit.Check(t, runner.Drain(t.Context()))
		if a := ask(); a.State != virtualaccount.Active || a.IBAN != "NL91ABNA0417164300" || a.Provider != stripeName {
			t.Fatalf("%+v", a)
		}
		want := int64(0)
		for round := range 3 {
			for i := range 3 {
				bank.Add("funded", "eur", int64(100+i))
				want += int64(100 + i)
			}
			b.lost = round == 1 // without a cursor all receipts are returned again
			for range 2 {
				testkit.Check(t, s.Collect(t.Context(), d))
			}
			if a := ask(); a.Balance.Units() != want {
				t.Errorf("the balance is %s, want %d cents", a.Balance, want)
			}
		}
		// A transaction of an unknown type is reported once, books nothing and does not block the others.
		bank.Add("return_initiated", "eur", -50)
		bank.Add("funded", "eur", 1)
		want++
		if err := s.Collect(t.Context(), d); err == nil || !strings.Contains(err.Error(), `is not booked`) ||
			!strings.Contains(err.Error(), `"return_initiated"`) {
			t.Errorf("a transaction of an unknown type: %v", err)
		}
		if err := s.Collect(t.Context(), d); err != nil {
			t.Error(err)
		}
		if a := ask(); a.Balance.Units() != want {
			t.Errorf("the balance is %s, want %d cents", a.Balance, want)
		}
		// The sender's bank takes money back: it is taken from the owner's balance, and the rest becomes a debt, once.
		bank.Add("funding_reversed", "eur", -200)
		bank.Add("funding_reversed", "eur", -want)
		for range 2 {
			b.lost = true
			if err := s.Collect(t.Context(), d); err == nil { // the transaction is returned again, and therefore reported again
				t.Error("a transaction of an unknown type is not reported again")
			}
		}
		if a := ask(); !a.Balance.IsZero() {
			t.Errorf("the balance is %s after everything was taken back", a.Balance)
		}
		want = -200
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			if err := ledger.CheckNoDebt(ctx, tx, by.CompanyID); !errors.Is(err, ledger.ErrInsufficient) {
				t.Errorf("2.00 EUR are not owed: %v", err)
			}
			held, err := ledger.Balance(ctx, tx, by.CompanyID, ledger.Bank, stripeName, money.EUR)
			if held.Units() != want {
				t.Errorf("the bank has %s", held)
			}
			return err
		})
	})
}

const stripeName = "stripe"
