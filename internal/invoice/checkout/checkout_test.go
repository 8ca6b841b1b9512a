package checkout_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/checkout"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/withdrawal"
)

const network = "regtest"

// env is a verified person of a company, with an invoice of 100 USD to a client.
type env struct {
	*fixture.Chain
	s      *checkout.Service
	claims *claim.Service
	sealer *identity.Sealer
	user   string
	v      invoice.Invoice
	claim  string // the last claim that the payer opened
	crash  int64  // number of the call of a job that fails after its work, from 1; 0 for none
	calls  int64
}

var errCrash = errors.New("the process ends before the commit")

func run(t *testing.T, f func(b *env)) {
	t.Helper()
	fixture.Run(t, func(x *fixture.Fixture) {
		b := &env{sealer: testkit.Must(identity.NewSealer(make([]byte, 32)))}
		keys := chaintest.NewSigner(x, x.DB)
		b.claims = testkit.Must(claim.New(claim.Config{
			Pool: chain.NewPool(x.DB, network, keys.Deriver()), ChainName: network, Network: network,
			Validity: 15 * time.Minute, BaseURL: "https://pay.example.com", Sealer: b.sealer,
			Treasury: testkit.Must(treasury.New(treasury.Unlimited)),
			Withdrawals: testkit.Must(withdrawal.New(withdrawal.Config{Setup: destination.Setup{Sealer: b.sealer},
				AllowUnverified: true}, withdrawal.Guards{TravelRule: allow.Records[payout.Output],
				Screen:          allow.Subjects[destination.ScreeningSubject],
				ReleaseApproved: allow.Release})),
		}, claim.Guards{CheckWatched: allow.Network, Screen: allow.Address, ReleaseApproved: allow.Release,
			Renewable: checkout.Renewable}))
		b.s = testkit.Must(checkout.New(b.claims))
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "US"})
		jobs := job.Table{
			chain.JobOutput: {Batch: deposit.OutputsChanged}, deposit.JobChanged: {Batch: b.claims.Follow},
			quote.JobExpired: {Batch: b.claims.QuoteExpired}, claim.JobMonitor: {Batch: b.claims.Monitor},
			claim.JobLinked: {Tx: b.crashing(b.s.ClaimChanged)}, virtualaccount.JobTransfer: {Tx: b.crashing(income.Received)},
			income.JobRelease: {Tx: func(context.Context, *db.Tx, job.Job) error { return nil }},
		}
		b.Chain = x.NewChain(network, fixture.Simulated{Chain: bitcoinsim.New(x.DB)}, jobs, func(ctx context.Context) error {
			for range 3 { // jobs that failed run again
				if err := job.NewRunner(x.DB, jobs, nil, slog.New(slog.DiscardHandler)).Drain(ctx); err == nil {
					break
				} else if !errors.Is(err, errCrash) {
					return err
				}
				x.Clock.Advance(time.Minute)
			}
			_, err := quote.ExpireDue(ctx, x.DB, network, nil)
			return err
		})
		b.user = fixture.Do(x, func(ctx context.Context, tx *db.Tx) (identity.User, error) {
			return identity.CreateUser(ctx, tx, b.sealer, identity.NewUser{CompanyID: b.By.CompanyID,
				Profile: identity.Profile{Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace"}})
		}).ID
		b.verify(identity.KYCApproved)
		b.v = b.write("100")
		f(b)
	})
}

func (b *env) crashing(run job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		if err := run(ctx, tx, j); err != nil {
			return err
		}
		if b.calls++; b.calls == b.crash {
			return errCrash
		}
		return nil
	}
}

func (b *env) verify(status string) {
	b.Helper()
	b.Write(func(ctx context.Context, tx *db.Tx) error { return identity.SetKYCStatus(ctx, tx, b.user, status) })
}

// write sends an invoice to a new client.
func (b *env) write(amount string) invoice.Invoice {
	b.Helper()
	return fixture.Do(b.Fixture, func(ctx context.Context, tx *db.Tx) (invoice.Invoice, error) {
		name, kind, currency, email := "Client", payer.Client, "USD", "books@client.example"
		to, err := payer.Create(ctx, tx, b.sealer, b.By, b.user, payer.Changes{Name: &name, Type: &kind,
			Currency: &currency, Email: &email})
		if err != nil {
			return invoice.Invoice{}, err
		}
		return invoice.Create(ctx, tx, b.sealer, b.By, invoice.CreateParams{UserID: b.user, PayerID: to.ID,
			Items: []invoice.Item{{Description: "Design", UnitPrice: amount}}})
	})
}

func (b *env) tryOpen() (string, error) {
	return fixture.Try(b.Fixture, func(ctx context.Context, tx *db.Tx) (string, error) {
		return b.s.Open(ctx, tx, b.sealer, b.v.Token)
	})
}

// open opens the checkout, whose address the steps of Play then pay.
func (b *env) open() {
	b.Helper()
	b.claim = testkit.Must(b.tryOpen())
	b.Address = b.get().Address
}

func (b *env) get() claim.Detail {
	b.Helper()
	return fixture.Get(b.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Detail, error) {
		return b.claims.Get(ctx, tx, identity.Principal{CompanyID: b.user}, "", b.claim)
	})
}

func (b *env) play(steps string) {
	b.Helper()
	b.Play(steps, func(verb, _ string) { b.Fatalf("unknown step %q", verb) })
}

// is compares the claim, the invoice, the person's balance in cents, and the sorted states of their incomes, which were
// all created at the same time.
func (b *env) is(state claim.State, shown invoice.Status, balance int64, incomes ...string) {
	b.Helper()
	if got := b.get().State; got != state {
		b.Errorf("the claim is %s, want %s", got, state)
	}
	b.Read(func(ctx context.Context, tx *db.Tx) error {
		v, err := invoice.Detail(ctx, tx, b.sealer, b.By, b.user, b.v.ID)
		if err != nil || v.Status != shown {
			b.Errorf("the invoice is %s, want %s: %v", v.Status, shown, err)
		}
		got, err := ledger.Balance(ctx, tx, b.user, ledger.CompanyFunds, "", money.USD)
		if err != nil || got.Units() != balance {
			b.Errorf("the balance is %s, want %d cents: %v", got, balance, err)
		}
		all, _, err := income.List(ctx, tx, b.By, b.user, income.Filter{Page: db.Page{PerPage: 10}})
		if err != nil || len(all) != len(incomes) {
			b.Errorf("%d incomes, want %d: %v", len(all), len(incomes), err)
			return nil
		}
		slices.SortFunc(all, func(a, b income.Income) int { return strings.Compare(string(a.State), string(b.State)) })
		for n, i := range all {
			if string(i.State) != incomes[n] || i.InvoiceID != b.v.ID || i.Amount != fixture.USD(100_00) {
				b.Errorf("income %d: %+v, want %s", n, i, incomes[n])
			}
		}
		return nil
	})
	b.CheckLedger()
}

// A payment pays the invoice and becomes one income, also if the process ends in the middle of a job.
func TestAPaymentInACoinPaysTheInvoiceOnce(t *testing.T) {
	run(t, func(b *env) {
		for b.crash = range 3 {
			b.calls, b.v = 0, b.write("100")
			had := b.Count("SELECT COUNT(*) FROM incomes")
			b.open()
			b.play("pay 200_000, mine 1")
			b.Settle(nil)
			if n := b.Count("SELECT COUNT(*) FROM incomes") - had; n != 1 || b.get().State != claim.Paid {
				b.Errorf("crash %d: %d incomes, the claim is %s", b.crash, n, b.get().State)
			}
		}
		b.Read(func(ctx context.Context, tx *db.Tx) error {
			got, err := ledger.Balance(ctx, tx, b.user, ledger.CompanyFunds, "", money.USD)
			if got != fixture.USD(300_00) {
				b.Errorf("the balance is %s", got)
			}
			return err
		})
		if n := b.Count("SELECT COUNT(*) FROM events WHERE company_id = $1", b.user); n != 0 {
			b.Errorf("%d events that no company gets", n)
		}
		b.CheckLedger()
	})
}

func TestPaymentsOfInvoicesEndAsThoseOfClaims(t *testing.T) {
	for name, c := range map[string]struct {
		play    string
		state   claim.State
		shown   invoice.Status
		balance int64
		incomes []string
	}{
		"exact":      {"pay 200_000, mine 1", claim.Paid, invoice.Paid, 100_00, []string{"received"}},
		"too much":   {"pay 250_000, mine 1", claim.Paid, invoice.Paid, 100_00, []string{"received"}},
		"in parts":   {"pay 150_000, mine 1, pay 50_000, mine 1", claim.Paid, invoice.Paid, 100_00, []string{"received"}},
		"seen":       {"pay 200_000", claim.Confirming, invoice.Sent, 0, nil},
		"too little": {"pay 150_000, mine 1, wait 15m", claim.Underpaid, invoice.Sent, 0, nil},
		"late":       {"wait 16m, pay 200_000, mine 1", claim.PaidLate, invoice.Sent, 0, nil},
		"none":       {"wait 16m", claim.Expired, invoice.Sent, 0, nil},
		"reverted":   {"pay 200_000, mine 1, reorg 1, evict", claim.AwaitingPayment, invoice.Sent, 0, []string{"cancelled"}},
		"reverted and paid again": {"pay 200_000, mine 1, reorg 1, mine 1", claim.Paid, invoice.Paid, 100_00,
			[]string{"cancelled", "received"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *env) {
				b.open()
				b.play(c.play)
				b.is(c.state, c.shown, c.balance, c.incomes...)
			})
		})
	}
}

// The person accepts late money, and gives back what is too much, late or not enough, by a link that is mailed to the
// payer.
func TestThePersonDecidesAboutLateAndOtherMoney(t *testing.T) {
	run(t, func(b *env) {
		refund := func() (r claim.Refund, err error) {
			return fixture.Try(b.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Refund, error) {
				r, link, err := b.s.Refund(ctx, tx, b.By, b.user, b.v.ID, b.claim)
				if err == nil && link == "" {
					b.Error("no link")
				}
				return r, err
			})
		}
		b.open()
		b.play("wait 16m, pay 200_000, mine 1")
		if _, err := fixture.Try(b.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
			return b.claims.Renew(ctx, tx, b.claim)
		}); err == nil {
			b.Error("the payer decided about late money")
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			return b.s.Accept(ctx, tx, b.By, b.user, b.v.ID, b.claim)
		})
		b.Settle(nil)
		b.is(claim.Paid, invoice.Paid, 100_00, "received")
		if _, err := refund(); !errors.Is(err, claim.ErrNothing) {
			b.Errorf("a refund of money that paid: %v", err)
		}

		b.v = b.write("100")
		b.open()
		b.play("pay 150_000, mine 1, wait 15m")
		r, err := refund()
		if err != nil || r.Amount != fixture.Sats(150_000) || r.MailedTo != "books@client.example" {
			b.Errorf("%+v, %v", r, err)
		}
		first := b.claim
		b.open()
		if b.claim == first {
			b.Error("the payer is led to a payment that is given back")
		}
		b.WantFault("not_found", func(ctx context.Context, tx *db.Tx) error {
			return b.s.Accept(ctx, tx, b.By, b.user, "inv_other", b.claim)
		})
	})
}

// An invoice has one claim that takes money, for what is due.
func TestAnInvoiceHasOneOpenClaim(t *testing.T) {
	run(t, func(b *env) {
		b.open()
		first := b.claim
		if b.open(); b.claim != first {
			b.Error("another claim for the same amount")
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := invoice.Receive(ctx, tx, b.user, b.v.ID, fixture.USD(40_00))
			return err
		})
		renew := func(id string) error {
			_, err := fixture.Try(b.Fixture, func(ctx context.Context, tx *db.Tx) (claim.Claim, error) {
				return b.claims.Renew(ctx, tx, id)
			})
			return err
		}
		if err := renew(first); !errors.Is(err, checkout.ErrClosed) {
			b.Errorf("a new price for another amount than is due: %v", err)
		}
		if b.open(); b.claim == first || b.get().Amount != fixture.USD(60_00) {
			b.Errorf("a claim of %s", b.get().Amount)
		}
		b.play("pay 120_000, mine 1")
		if got := b.get().State; got != claim.Paid {
			b.Errorf("the claim is %s", got)
		}
		b.Settle(nil)
		if _, err := b.tryOpen(); !errors.Is(err, checkout.ErrNotOffered) {
			b.Errorf("a paid invoice: %v", err)
		}

		// Only a verified person is paid in coins.
		b.v = b.write("100")
		b.verify("expired")
		if _, err := b.tryOpen(); !errors.Is(err, checkout.ErrNotOffered) {
			b.Errorf("of a person who is not verified: %v", err)
		}
		b.CheckLedger()
	})
}
