package invoice

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

func TestAmountsOfLines(t *testing.T) {
	for name, c := range map[string]struct {
		items                []Item
		subtotal, tax, total string // "" if refused
		problem              string
	}{
		"a quantity of one by default": {items: []Item{{UnitPrice: "100"}}, subtotal: "100.00", tax: "0.00", total: "100.00"},
		"three decimals of quantity": {items: []Item{{Quantity: "1.125", UnitPrice: "80"}}, subtotal: "90.00", tax: "0.00",
			total: "90.00"},
		"each line rounded half to even": {items: []Item{{Quantity: "0.5", UnitPrice: "0.01"}, {Quantity: "1.5",
			UnitPrice: "0.01"}},
			subtotal: "0.02", tax: "0.00", total: "0.02"},
		"tax rounded for each line": {items: []Item{{UnitPrice: "0.10", TaxRate: "5"}, {UnitPrice: "0.30", TaxRate: "5"}},
			subtotal: "0.40", tax: "0.02", total: "0.42"},
		"four decimals of quantity": {items: []Item{{Quantity: "0.0001", UnitPrice: "1"}}, problem: "/items/0/quantity"},
		"more tax than the amount":  {items: []Item{{UnitPrice: "1", TaxRate: "100.01"}}, problem: "/items/0/tax_rate"},
		"a price of zero":           {items: []Item{{UnitPrice: "0"}}, problem: "/items/0/unit_price"},
		"too many decimals":         {items: []Item{{UnitPrice: "0.001"}}, problem: "/items/0/unit_price"},
		"nothing left after rounding": {items: []Item{{Quantity: "0.001", UnitPrice: "0.01"}},
			problem: "/items"},
		"no line": {problem: "/items"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.items {
				c.items[i].Description = "Design"
			}
			v := Invoice{Currency: money.EUR}
			err := v.fill(CreateParams{Items: c.items}, dbtest.Epoch)
			if c.problem != "" {
				fault, _ := errors.AsType[*apierr.Fault](err)
				if fault == nil || len(fault.Fields) != 1 || fault.Fields[0].Pointer != c.problem {
					t.Fatalf("got %v, want one problem at %s", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Subtotal.String() != c.subtotal || v.Tax.String() != c.tax || v.Total.String() != c.total {
				t.Errorf("got %s + %s = %s, want %s + %s = %s", v.Subtotal, v.Tax, v.Total, c.subtotal, c.tax, c.total)
			}
		})
	}
}

// TestLifecycle runs sequences of steps on an invoice of EUR 100. Each step names the expected state and amount paid.
func TestLifecycle(t *testing.T) {
	for name, steps := range map[string]string{
		"paid by a payroll":               "take in_payroll 0, settle paid 100, settle paid 100, delete refused",
		"returned and paid again":         "take in_payroll 0, settle paid 100, reopen in_payroll 0, settle paid 100",
		"a payroll that ends unpaid":      "take in_payroll 0, drop0 sent 0, take in_payroll 0",
		"a payroll that pays a part":      "take in_payroll 0, drop40 partially_paid 40, receive60 paid 100",
		"only one payroll at a time":      "take in_payroll 0, take refused, receive60 refused, delete refused",
		"transfers in parts":              "receive40 partially_paid 40, receive80 paid 100, receive40 refused",
		"a transfer that is taken back":   "receive40 partially_paid 40, back40 sent 0, back40 sent 0",
		"taken back after full payment":   "receive60 partially_paid 60, receive40 paid 100, back40 partially_paid 60",
		"taken back while in a payroll":   "receive40 partially_paid 40, take in_payroll 40, back40 in_payroll 40",
		"deleted":                         "delete void 0, delete void 0, take refused, send refused",
		"a payment of another assignment": "take in_payroll 0, drop0 sent 0, settle sent 0",
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *env) {
				id := b.create(false)
				for _, step := range strings.Split(steps, ", ") {
					words := strings.Fields(step)
					err := b.do(id, words[0])
					if words[1] == "refused" {
						if !errors.Is(err, ErrState) {
							b.Fatalf("%s: %v, want ErrState", step, err)
						}
						continue
					}
					if err != nil {
						b.Fatalf("%s: %v", step, err)
					}
					v := b.get(id)
					if string(v.Status) != words[1] || v.Paid.String() != words[2]+".00" && v.Paid.String() != words[2] {
						b.Fatalf("after %s: %s, %s paid", step, v.Status, v.Paid)
					}
				}
			})
		})
	}
}

// A draft is not owed before it is sent; a sent invoice is shown as overdue after its due date.
func TestDraftAndOverdue(t *testing.T) {
	run(t, func(b *env) {
		id := b.create(true)
		if err := b.do(id, "take"); !errors.Is(err, ErrState) {
			b.Errorf("a payroll took a draft: %v", err)
		}
		if err := b.do(id, "send"); err != nil {
			b.Fatal(err)
		}
		v := b.get(id)
		due := testkit.Must(time.Parse(time.DateOnly, v.DueDate))
		if got := v.Shown(due); got != Sent {
			b.Errorf("on the due date: %s", got)
		}
		if got := v.Shown(due.AddDate(0, 0, 1)); got != Overdue {
			b.Errorf("a day after the due date: %s", got)
		}
	})
}

// A number is used once per user; without one, the next free number is used.
func TestNumbers(t *testing.T) {
	run(t, func(b *env) {
		first := b.get(b.create(false))
		if first.Number != "INV-0001" {
			b.Errorf("the first number is %s", first.Number)
		}
		if _, err := b.write(CreateParams{Number: "INV-0001"}); !errors.Is(err, ErrNumber) {
			b.Errorf("the same number again: %v", err)
		}
		if v := b.get(b.create(false)); v.Number != "INV-0002" {
			b.Errorf("the next number is %s", v.Number)
		}
	})
}

// env is a user of a company with one payer, who writes invoices.
type env struct {
	*fixture.Fixture
	sealer *identity.Sealer
	user   string
	payer  string
}

func run(t *testing.T, f func(b *env)) {
	t.Helper()
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := &env{Fixture: fixture.New(t, d, clock), sealer: testkit.Must(identity.NewSealer(make([]byte, 32)))}
		b.UseCompany(identity.NewCompany{Name: "Acme", Country: "US"})
		b.user = fixture.Do(b.Fixture, func(ctx context.Context, tx *db.Tx) (identity.User, error) {
			return identity.CreateUser(ctx, tx, b.sealer, identity.NewUser{CompanyID: b.By.CompanyID,
				Profile: identity.Profile{Email: "a@worker.example", FirstName: "A", LastName: "Worker"}})
		}).ID
		b.payer = fixture.Do(b.Fixture, func(ctx context.Context, tx *db.Tx) (payer.Payer, error) {
			name, kind, currency := "Client", payer.Client, "EUR"
			return payer.Create(ctx, tx, b.sealer, b.By, b.user,
				payer.Changes{Name: &name, Type: &kind, Currency: &currency, IsCompany: true})
		}).ID
		f(b)
	})
}

// write creates an invoice of EUR 100.
func (b *env) write(p CreateParams) (Invoice, error) {
	p.UserID, p.PayerID, p.Items = b.user, b.payer, []Item{{Description: "Design", UnitPrice: "100"}}
	return fixture.Try(b.Fixture, func(ctx context.Context, tx *db.Tx) (Invoice, error) {
		return Create(ctx, tx, b.sealer, b.By, p)
	})
}

func (b *env) create(draft bool) (id string) {
	b.Helper()
	v, err := b.write(CreateParams{Draft: draft})
	if err != nil {
		b.Fatal(err)
	}
	return v.ID
}

func (b *env) get(id string) Invoice {
	b.Helper()
	return fixture.Get(b.Fixture, func(ctx context.Context, tx *db.Tx) (Invoice, error) {
		return Detail(ctx, tx, b.sealer, b.By, b.user, id)
	})
}

// do runs a step: the name of an operation, followed by an amount of EUR where it has one.
func (b *env) do(id, step string) error {
	b.Helper()
	name := strings.TrimRight(step, "0123456789")
	x := money.Zero(money.EUR)
	if text := step[len(name):]; text != "" {
		var err error
		if x, err = money.Parse(money.EUR, text); err != nil {
			b.Fatal(err)
		}
	}
	payment := Payment{UserID: b.user, InvoiceID: id, PaymentID: "sub_1", Amount: money.New(money.EUR, 100_00)}
	return b.DB.Write(b.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		switch name {
		case "take":
			err = Take(ctx, tx, b.By.CompanyID, b.user, id, "prl_1", payment.PaymentID)
		case "settle":
			err = payment.Settle(ctx, tx)
		case "reopen":
			err = payment.Reopen(ctx, tx)
		case "drop":
			err = payment.Drop(ctx, tx, x)
		case "receive":
			_, err = Receive(ctx, tx, b.user, id, x)
		case "back":
			err = TakeBack(ctx, tx, b.user, id, x)
		case "send":
			_, err = Send(ctx, tx, b.sealer, b.By, b.user, id)
		case "delete":
			_, err = Delete(ctx, tx, b.By, b.user, id)
		default:
			b.Fatalf("unknown step %q", step)
		}
		return err
	})
}
