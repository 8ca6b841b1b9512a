package claim_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// part refunds a part of the claim, and returns the refund with the token of its link.
func (s *sale) part(by identity.Principal, p claim.PartParams) (r claim.Refund, token string) {
	s.Helper()
	p.ClaimID = s.id
	s.Write(func(ctx context.Context, tx *db.Tx) (err error) {
		r, token, err = s.m.claims.RefundPart(ctx, tx, by, p)
		return err
	})
	return r, token
}

func (s *sale) partRefused(want error, p claim.PartParams) {
	s.Helper()
	p.ClaimID = s.id
	s.WantError(want, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := s.m.claims.RefundPart(ctx, tx, s.m.By, p)
		return err
	})
}

func (s *sale) accept(token, to string) {
	s.Helper()
	s.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Refund, error) {
		return s.m.claims.Accept(ctx, tx, s.id, token, to)
	}))
	s.m.Settle(nil)
}

// A paid claim is refunded in parts, by value and in coins, until its amount is returned. A refund that is canceled
// gives its money back, at the rate of that time.
func TestRefundsOfAPaidClaim(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		other, s := m.openPaid("200_000", "6"), m.openPaid("200_000", "6")
		owed := func(r claim.Refund, want int64) {
			t.Helper()
			m.WantBalance(ledger.RefundPayable, r.ID, sats(want))
		}
		earned := func(want int64) {
			t.Helper()
			m.WantBalance(ledger.MerchantPayable, "", usd(want))
		}
		s.partRefused(claim.ErrRefundTooMuch, claim.PartParams{AmountText: "100.01"})
		s.partRefused(claim.ErrNoBalance, claim.PartParams{AmountText: "10", Source: claim.FromBalance})

		// The price of bitcoin doubles: the same value is half the coins, the same coins cost twice as much.
		m.Exec(`UPDATE rates SET rate = '100000' WHERE asset = 'BTC'`)
		value, token := s.part(m.By, claim.PartParams{AmountText: "40", Rate: claim.CurrentRate})
		owed(value, 40_000)
		earned(2*99_00 - 40_00)
		coins, second := s.part(m.By, claim.PartParams{AmountText: "20", Rate: claim.PaidRate})
		owed(coins, 40_000)
		earned(2*99_00 - 40_00 - 40_00)
		s.partRefused(claim.ErrRefundTooMuch, claim.PartParams{AmountText: "0.00081", Currency: "BTC"})
		s.partRefused(claim.ErrRefundState, claim.PartParams{AmountText: "1", Seen: 2})
		last, _ := s.part(m.By, claim.PartParams{AmountText: "0.0008", Currency: "BTC", Seen: 3})
		if last.Value != usd(40_00) || last.Cost != usd(80_00) {
			t.Errorf("%s of the claim for %s", last.Value, last.Cost)
		}
		earned(2*99_00 - 160_00)
		m.Exec(`UPDATE rates SET rate = '50000' WHERE asset = 'BTC'`)
		m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Refund, error) {
			return m.claims.CancelRefund(ctx, tx, m.By, "", s.id, last.ID)
		}))
		owed(last, 0)
		earned(2*99_00 - 160_00 + 40_00)
		m.CheckLedger()

		// While the company is frozen, its money stays.
		status := func(from, to string) {
			m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (bool, error) {
				return identity.SetCompanyStatus(ctx, tx, m.By.CompanyID, from, to)
			}))
		}
		status(identity.CompanyActive, identity.CompanyFrozen)
		s.accept(token, world.Home())
		owed(value, 40_000)
		status(identity.CompanyFrozen, identity.CompanyActive)
		m.Clock.Advance(11 * time.Minute)
		m.Settle(nil)
		owed(value, 0)
		s.accept(second, world.Home())
		s.Play("mine 6", s.step)
		if c := s.is(claim.Paid); c.Returned != sats(80_000) || c.ReturnedValue != usd(60_00) || c.Refunded.Sign() != 0 {
			t.Errorf("returned %s, worth %s; %s of an excess", c.Returned, c.ReturnedValue, c.Refunded)
		}
		rest, third := s.part(m.By, claim.PartParams{AmountText: "40"})
		owed(rest, 80_000)
		s.accept(third, world.Home())
		s.Play("mine 6", s.step)
		s.is(claim.Refunded)
		// What was paid stays booked as it was, and a reorganization of the refund makes the claim paid again.
		s.Play("reorg 6, is paid, mine 7", s.step)
		s.is(claim.Refunded)
		if c := other.is(claim.Paid); c.Returned.Sign() != 0 {
			t.Errorf("the other claim returned %s", c.Returned)
		}
		s.partRefused(claim.ErrState, claim.PartParams{AmountText: "1"})
		m.CheckLedger()
	})
}

// A refund from the balance costs the available balance, not the share of claims. A refund that is canceled gives its
// money back.
func TestARefundIsPaidFromTheBalance(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		s := m.openPaid("200_000", "6")
		m.Write(func(_ context.Context, tx *db.Tx) error {
			return ledger.Post(tx, ledger.Journal{CompanyID: m.By.CompanyID, SourceType: "bank_deposit", SourceID: "dep_1",
				Purpose: "credit", Lines: []ledger.Line{ledger.Debit(ledger.Bank, "", usd(60_00)),
					ledger.Credit(ledger.CompanyFunds, "", usd(60_00))}})
		})
		has := func(balance int64) {
			t.Helper()
			m.WantBalance(ledger.CompanyFunds, "", usd(balance))
			m.WantBalance(ledger.MerchantPayable, "", usd(99_00))
		}
		s.partRefused(claim.ErrNoBalance, claim.PartParams{AmountText: "60.01", Source: claim.FromBalance})
		first, _ := s.part(m.By, claim.PartParams{AmountText: "50", Source: claim.FromBalance})
		if first.FromBalance != usd(50_00) || first.FromClaims.Sign() != 0 {
			t.Errorf("%s from the balance and %s from claims", first.FromBalance, first.FromClaims)
		}
		has(10_00)
		m.Write(fixture.Drop(func(ctx context.Context, tx *db.Tx) (claim.Refund, error) {
			return m.claims.CancelRefund(ctx, tx, m.By, "", s.id, first.ID)
		}))
		has(60_00)
		_, token := s.part(m.By, claim.PartParams{AmountText: "50", Source: claim.FromBalance})
		has(10_00)
		s.accept(token, world.Home())
		s.Play("mine 6", s.step)
		if c := s.is(claim.Paid); c.ReturnedValue != usd(50_00) {
			t.Errorf("refunds of %s have arrived", c.ReturnedValue)
		}
		has(10_00)
		m.CheckLedger()
	})
}

// A refund in coins is worth at least one unit of the claim's currency, and all refunds together return no more coins
// than paid the claim. By value, a refund at the current rate may return more coins, which are worth less.
func TestRefundsInCoins(t *testing.T) {
	run(t, func(m *merchant) {
		m.claims.LightningRefunds = &claim.LightningRefunds{MaxFeeBps: 30, Least: 1, Most: 1_000_000}
		tooSmall := apierr.New(apierr.Invalid, "amount_too_small", "")
		for _, x := range []struct {
			name  string
			price string             // of a bitcoin, in dollars, after the payment of 800,000 satoshis for 100 dollars
			parts []claim.PartParams // refunds before
			coins string             // the refund
			want  error              // nil if it is made
			value int64              // in cents
		}{
			{"worth nothing", "12500", nil, "0.00000039", tooSmall, 0},
			{"worth half a cent, rounded to the even cent", "12500", nil, "0.00000040", tooSmall, 0},
			{"worth a cent, rounded", "12500", nil, "0.00000041", nil, 1},
			{"all", "12500", nil, "0.00800000", nil, 100_00},
			{"more than was paid", "12500", nil, "0.00800001", claim.ErrRefundTooMuch, 0},
			{"the rest of thirds", "12500", []claim.PartParams{
				{AmountText: "0.00266667", Currency: "BTC"}, {AmountText: "0.00266667", Currency: "BTC"},
			}, "0.00266666", nil, 33_33},
			{"more than the rest of thirds, by half a cent", "12500", []claim.PartParams{
				{AmountText: "0.00266667", Currency: "BTC"}, {AmountText: "0.00266667", Currency: "BTC"},
			}, "0.00266686", claim.ErrRefundTooMuch, 0},
			{"all coins are returned at a lower price", "6250", []claim.PartParams{
				{AmountText: "50", Rate: claim.CurrentRate},
			}, "0.00001", claim.ErrRefundTooMuch, 0},
			{"more coins than were paid are returned at a lower price", "5000", []claim.PartParams{
				{AmountText: "50", Rate: claim.CurrentRate},
			}, "0.00001", claim.ErrRefundTooMuch, 0},
			{"more than the value that is left at a higher price", "25000", []claim.PartParams{
				{AmountText: "90", Rate: claim.CurrentRate},
			}, "0.00081000", claim.ErrRefundTooMuch, 0},
		} {
			m.Exec(`UPDATE rates SET rate = '12500' WHERE asset = 'BTC'`)
			s := m.openPaid("800_000", "6")
			m.Exec(`UPDATE rates SET rate = $1 WHERE asset = 'BTC'`, x.price)
			for _, p := range x.parts {
				s.part(m.By, p)
			}
			p := claim.PartParams{AmountText: x.coins, Currency: "BTC"}
			t.Log(x.name)
			if x.want != nil {
				s.partRefused(x.want, p)
				continue
			}
			if r, _ := s.part(m.By, p); r.Value != usd(x.value) {
				t.Errorf("%s: %s BTC are worth %s", x.name, x.coins, r.Value)
			}
		}
		m.CheckLedger()
	})
}

// A refund of less than its cost on the chain is paid over Lightning, less the largest fee: to an address, or by an
// invoice of a wallet for exactly what the payer gets.
func TestRefundsOverLightning(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		s := m.openPaid("200_000", "6")
		m.Exec("UPDATE hot_wallets SET fee_rate = 100")
		s.partRefused(apierr.New(apierr.Invalid, "amount_too_small", ""), claim.PartParams{AmountText: "2"})
		m.claims.LightningRefunds = &claim.LightningRefunds{MaxFeeBps: 30, Least: 1_000, Most: 150_000}
		small, token := s.part(m.By, claim.PartParams{AmountText: "2"}) // 4,000 satoshis
		_, large := s.part(m.By, claim.PartParams{AmountText: "80"})
		check := func(want, token, to string) (r claim.Refund) {
			t.Helper()
			m.WantFault(want, func(ctx context.Context, tx *db.Tx) (err error) {
				r, err = m.claims.Check(ctx, tx, s.id, token, to)
				return err
			})
			return r
		}
		const ana = "ana@wallet.example"
		invoice := func(network string, sats int64, valid time.Duration) string {
			t.Helper()
			return testkit.Must(lightningsim.New(m.DB, network).WalletInvoice(t.Context(), ana, sats, valid))
		}
		check("lightning_only", token, world.Home())
		check("lightning_amount", large, ana)
		check("invoice_invalid", token, "lnbcrt1nonsense")
		check("invoice_amount", token, invoice(network, 4_000, time.Hour))
		check("invoice_expired", token, invoice(network, 3_988, 9*time.Minute))
		check("invoice_network", token, invoice("bitcoin", 3_988, time.Hour))
		good := invoice(network, 3_988, time.Hour)
		for _, to := range []string{
			" lightning:" + strings.ToUpper(good) + " ", invoice(network, 0, time.Hour), "Ana@Wallet.Example",
		} {
			r := check("", token, to)
			if r.Network != "lightning" || r.Fee != sats(12) || r.Net() != sats(3_988) ||
				r.Address != strings.ToLower(r.Address) {
				t.Errorf("%s: %+v", to, r)
			}
		}
		hash := testkit.Must(lightning.Decode(good)).Hash.String()
		m.Exec(`INSERT INTO lightning_invoices (company_id, invoice_id, object_id, quote_id, state, amount, memo,
			expires_at, hash, preimage, node_id, request, paid, settle_index, settled_at, version, created_at)
			VALUES ('other', 'lni_x', 'clm_x', 'quo_x', 'open', 3988, '', 0, $1, '', '', '', 0, 0, 0, 1, 0)`, hash)
		check("address_of_service", token, good)

		s.accept(token, ana)
		m.WantCount(1, `claim_refunds WHERE refund_id = $1 AND state = 'accepted' AND network = 'lightning'
			AND address = $2`, small.ID, ana)
		m.WantCount(1, "outputs WHERE rail = 'lightning' AND address = $1 AND amount = 3988", ana)
		m.WantBalance(ledger.NetworkFee, "refund", sats(-12))
		m.CheckLedger()
	})
}

// A refund that waits to be paid over Lightning when the operator turns that off is offered again, to be paid on the
// chain.
func TestARefundIsOfferedAgainWhenLightningIsTurnedOff(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		s := m.openPaid("200_000", "6")
		m.claims.LightningRefunds = &claim.LightningRefunds{MaxFeeBps: 30, Least: 1_000, Most: 150_000}
		r, token := s.part(m.By, claim.PartParams{AmountText: "40"})
		m.guards.ReleaseApproved = func(context.Context, *db.Tx, string, string, money.Amount) (bool, error) {
			return false, nil
		}
		s.accept(token, "ana@wallet.example")
		const is = "claim_refunds WHERE refund_id = $1 AND state = $2 AND network = $3 AND withheld = $4 AND address = $5"
		m.WantCount(1, is, r.ID, "accepted", "lightning", true, "ana@wallet.example")

		m.claims.LightningRefunds, m.guards.ReleaseApproved = nil, allow.Release
		m.Clock.Advance(11 * time.Minute)
		m.Settle(nil)
		m.WantCount(1, is, r.ID, "offered", network, false, "")
		m.WantCount(0, "outputs")
		m.WantBalance(ledger.RefundPayable, r.ID, sats(80_000))
		s.accept(token, world.Home())
		s.Play("mine 6", s.step)
		m.WantCount(1, "outputs WHERE rail = 'bitcoin' AND state = 'fulfilled' AND input_amount = 80000")
		m.WantBalance(ledger.RefundPayable, r.ID, sats(0))
		m.CheckLedger()
	})
}

// A freeze of the company holds the queued payouts of refunds of its own money, and none of money that is the payer's.
func TestAFreezeHoldsRefundsOfTheMerchant(t *testing.T) {
	run(t, func(m *merchant) {
		world := bitcoinsim.New(m.DB)
		m.startPayouts(world)
		s := m.openPaid("200_000", "6")
		_, token := s.part(m.By, claim.PartParams{AmountText: "40"})
		m.Write(func(ctx context.Context, tx *db.Tx) error { return payout.SetPaused(ctx, tx, "an incident") })
		s.accept(token, world.Home())
		m.WantCount(1, "outputs WHERE state = 'queued' AND NOT on_hold")
		m.Write(func(ctx context.Context, tx *db.Tx) error { return backoffice.FreezeCompany(ctx, tx, m.By.CompanyID) })
		m.WantCount(1, "outputs WHERE state = 'queued' AND on_hold")
		m.Write(func(ctx context.Context, tx *db.Tx) error { return backoffice.UnfreezeCompany(ctx, tx, m.By.CompanyID) })
		m.WantCount(1, "outputs WHERE state = 'queued' AND NOT on_hold")
		m.Exec("UPDATE claim_refunds SET currency = ''") // as if the money were the payer's
		m.Write(func(ctx context.Context, tx *db.Tx) error { return backoffice.FreezeCompany(ctx, tx, m.By.CompanyID) })
		m.WantCount(0, "outputs WHERE on_hold")
	})
}

// administrator returns a new administrator of the company, on its pages.
func (m *merchant) administrator(email string) identity.Principal {
	m.Helper()
	return fixture.Do(m.Fixture, func(ctx context.Context, tx *db.Tx) (identity.Principal, error) {
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err != nil {
			return identity.Principal{}, err
		}
		u, err := identity.CreateUser(ctx, tx, sealer, identity.NewUser{Profile: identity.Profile{Email: email}})
		if err != nil {
			return identity.Principal{}, err
		}
		return identity.Principal{Kind: identity.KindSession, ID: "ses_" + u.ID, CompanyID: m.By.CompanyID, UserID: u.ID},
			identity.AddMember(ctx, tx, identity.Member{CompanyID: m.By.CompanyID, UserID: u.ID, Role: identity.RoleAdmin})
	})
}

// Above the company's limit, a refund is offered once other members approved it. Refunds count toward it together.
func TestRefundsAboveTheLimitNeedApproval(t *testing.T) {
	run(t, func(m *merchant) {
		ada, bob := m.administrator("ada@example.com"), m.administrator("bob@example.com")
		m.Write(func(ctx context.Context, tx *db.Tx) error { return approval.SetLimit(ctx, tx, ada, usd(50_00)) })
		s := m.openPaid("200_000", "6")
		small, _ := s.part(ada, claim.PartParams{AmountText: "30"})
		large, token := s.part(ada, claim.PartParams{AmountText: "30"})
		if small.State != claim.RefundOffered || large.State != claim.RefundAwaiting {
			t.Fatalf("%s and %s", small.State, large.State)
		}
		offered := func(want error) {
			t.Helper()
			m.WantError(want, func(ctx context.Context, tx *db.Tx) error {
				_, _, err := m.claims.Offer(ctx, tx, s.id, token)
				return err
			})
		}
		approve := func(by identity.Principal, want error) {
			t.Helper()
			m.WantError(want, func(ctx context.Context, tx *db.Tx) error {
				return m.claims.ApproveRefund(ctx, tx, by, s.id, large.ID)
			})
		}
		offered(claim.ErrLink)
		approve(m.By, approval.ErrApprover)
		approve(ada, approval.ErrCreator)
		m.Write(func(ctx context.Context, tx *db.Tx) error {
			return m.claims.ApproveRefund(ctx, tx, bob, s.id, large.ID)
		})
		m.Read(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := m.claims.Offer(ctx, tx, s.id, token)
			return err
		})
		approve(bob, claim.ErrRefundState)
		m.WantCount(0, "mails") // the merchant named no address

		declined, _ := s.part(ada, claim.PartParams{AmountText: "30"})
		m.Write(func(ctx context.Context, tx *db.Tx) error {
			return m.claims.DeclineRefund(ctx, tx, ada, s.id, declined.ID)
		})
		m.WantBalance(ledger.RefundPayable, declined.ID, sats(0))
		m.WantBalance(ledger.MerchantPayable, "", usd(99_00-60_00))
		m.CheckLedger()
	})
}

// The payer whose address the merchant named is mailed a link, once the refund is approved, and both links work until
// one is used.
func TestThePayerIsMailedARefund(t *testing.T) {
	run(t, func(m *merchant) {
		ada, bob := m.administrator("ada@example.com"), m.administrator("bob@example.com")
		m.Write(func(ctx context.Context, tx *db.Tx) error { return approval.SetLimit(ctx, tx, ada, usd(50_00)) })
		s := m.openPaid("200_000", "6")
		sealed, err := m.claims.Sealer.Seal(identity.SealContext{Table: "claims", Column: "payer_email", Row: s.id},
			[]byte("payer@example.com"))
		if err != nil {
			t.Fatal(err)
		}
		m.Exec("UPDATE claims SET payer_email = $1", sealed)
		small, _ := s.part(ada, claim.PartParams{AmountText: "30"})
		m.WantCount(1, "mails WHERE template = 'refund_offered' AND address = 'payer@example.com'")
		large, token := s.part(ada, claim.PartParams{AmountText: "30"})
		if small.MailedTo != "payer@example.com" || large.MailedTo != "" {
			t.Errorf("mailed to %q and %q", small.MailedTo, large.MailedTo)
		}
		m.WantCount(1, "mails")
		m.Write(func(ctx context.Context, tx *db.Tx) error {
			return m.claims.ApproveRefund(ctx, tx, bob, s.id, large.ID)
		})
		m.WantCount(2, "mails WHERE template = 'refund_offered'")
		m.WantCount(1, "claim_refunds WHERE refund_id = $1 AND mailed_digest <> '' AND mailed_digest <> token_digest",
			large.ID)
		m.Read(func(ctx context.Context, tx *db.Tx) error {
			_, _, err := m.claims.Offer(ctx, tx, s.id, token)
			return err
		})
	})
}
