package claim_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// inEachAsset lists how a claim of 100 USD ends, as docs/states.md describes it: every row of its table. Amounts are
// percentages of the price. On a chain, every payment arrives, and the claim says what became of it. Over Lightning the
// node itself refuses payments of too little, a second one and late ones; the step "refused" expects that. A payment
// over Lightning is final, so cases in which a payment is unconfirmed, replaced or reorganized have no steps there.
var inEachAsset = []struct {
	name, policy string
	chain        string // steps on a chain: bitcoin, USDC and USDT
	lightning    string // steps over Lightning; "" if there is no such case
	end, over    claim.State
	exception    claim.Exception
	want         percentages // on a chain
}{
	{"the full amount", "", "is awaiting_payment, pay 100%, is confirming, mine 1", "lightning 100%",
		claim.Paid, claim.Paid, claim.None, percentages{}},
	{"under", "", "pay 90%, is partially_paid, mine 1, is partially_paid, wait 15m",
		"refused 90%, is awaiting_payment, wait 15m", claim.Underpaid, claim.Expired, claim.None, percentages{kept: 90}},
	{"under, and the rest at a new price", "",
		"pay 75%, mine 1, wait 15m, is underpaid, refresh partially_paid 25%, pay 25%, is confirming, mine 1", "",
		claim.Paid, "", claim.None, percentages{}},
	{"under, within the tolerance", "tolerance 500", "pay 95%, is confirming, mine 1",
		"refused 95%, is awaiting_payment, wait 15m", claim.Paid, claim.Expired, claim.WithinTolerance,
		percentages{short: 5}},
	{"under, and refunded", "", "pay 90%, mine 1, wait 15m, is underpaid, refund, mine 2", "",
		claim.Refunded, "", claim.None, percentages{}},
	{"over", "", "pay 110%, mine 1", "lightning 310%", claim.Paid, claim.Paid, claim.Overpaid, percentages{owed: 10}},
	{"over, and the excess is refunded", "", "pay 150%, mine 1, is paid, refund, mine 2", "",
		claim.Paid, "", claim.Overpaid, percentages{}},
	{"late", "", "wait 15m1s, is expired, pay 100%, is expired, mine 1", "wait 15m1s, is expired, refused 100%",
		claim.PaidLate, claim.Expired, claim.Late, percentages{kept: 100}},
	{"expired, and paid at a new price", "", "wait 15m1s, is expired, refresh, is awaiting_payment, pay 100%, mine 1",
		"wait 15m1s, is expired, refresh, is awaiting_payment, lightning 100%",
		claim.Paid, claim.Paid, claim.None, percentages{}},
	{"late, and the merchant accepts it", "", "wait 15m1s, pay 100%, mine 1, is paid_late, refresh", "",
		claim.Paid, "", claim.Late, percentages{}},
	{"late and under, and the rest in time", "", "wait 15m1s, pay 75%, mine 1, is paid_late, " +
		"refresh partially_paid 25%, pay 25%, mine 1", "", claim.Paid, "", claim.Late, percentages{}},
	{"late, and the policy accepts it", "late requote", "wait 15m1s, pay 100%, mine 1", "",
		claim.Paid, "", claim.Late, percentages{}},
	{"late, and the policy refunds it", "late refund", "wait 15m1s, pay 100%, mine 1", "",
		claim.PaidLate, "", claim.Late, percentages{owed: 100}},
	{"late, and refunded", "", "wait 15m1s, pay 100%, mine 1, is paid_late, refund, mine 2", "",
		claim.Refunded, "", claim.None, percentages{}},
	{"late, within the grace period", "grace 60", "wait 15m30s, pay 100%, mine 1", "",
		claim.Paid, "", claim.Late, percentages{}},
	{"after the merchant cancelled", "", "cancel, is cancelled, pay 100%, is cancelled, mine 1",
		"cancel, is cancelled, refused 100%", claim.PaidLate, claim.Cancelled, claim.Late, percentages{kept: 100}},
	{"after the merchant cancelled, who accepts it", "", "cancel, pay 100%, mine 1, is paid_late, refresh", "",
		claim.Paid, "", claim.Late, percentages{}},
	{"twice", "", "pay 100%, mine 1, is paid, pay 100%, mine 1", "lightning 100%, is paid, refused 100%",
		claim.Paid, claim.Paid, claim.Overpaid, percentages{owed: 100}},
	{"replaced", "", "pay 100%, is confirming, replace, mine 1", "",
		claim.AwaitingPayment, "", claim.None, percentages{}},
	{"replaced with a higher fee", "", "pay 100%, replace 100%, is confirming, mine 1", "",
		claim.Paid, "", claim.None, percentages{}},
	{"evicted", "", "pay 100%, is confirming, evict", "", claim.AwaitingPayment, "", claim.None, percentages{}},
	{"reorganized, and mined again", "", "pay 100%, mine 1, is paid, reorg 1, is confirming reverted, mine 1", "",
		claim.Paid, "", claim.None, percentages{}},
	{"reorganized for good", "", "pay 100%, mine 1, is paid, reorg 1, evict, wait 15m", "",
		claim.Expired, "", claim.None, percentages{}},
	{"in no block for a day", "", "pay 100%, wait 24h15m, is invalid, mine 1", "",
		claim.PaidLate, "", claim.Late, percentages{kept: 100}},
	{"in two transactions, one of them in no block for a day", "",
		"pay 40%, mine 1, pay 60%, is confirming, wait 24h15m, is paid_late, suspense 40%, mine 1", "",
		claim.PaidLate, "", claim.Late, percentages{kept: 100}},
	{"under, and the rest late", "", "pay 60%, mine 1, wait 15m1s, is underpaid, pay 40%, is underpaid, mine 1", "",
		claim.PaidLate, "", claim.Late, percentages{kept: 100}},
	{"expired, and cancelled", "", "wait 15m1s, is expired, cancel", "wait 15m1s, is expired, cancel, refused 100%",
		claim.Cancelled, claim.Cancelled, claim.None, percentages{}},
	{"cancelled, accepted late and reorganized for good", "",
		"cancel, pay 100%, mine 1, is paid_late, refresh, is paid, reorg 1, evict", "",
		claim.Cancelled, "", claim.None, percentages{}},
	{"settled, reorganized for good and paid again", "",
		"pay 100%, mine 1, is paid, settle, reorg 1, evict, is awaiting_payment, owes 9900, pay 100%, mine 1, owes 0", "",
		claim.Paid, "", claim.None, percentages{}},
	{"without confirmations", "confirmations 0", "pay 100%, is paid, suspense 0, mine 1", "lightning 100%",
		claim.Paid, claim.Paid, claim.None, percentages{}},
	{"without confirmations, and replaced", "confirmations 0", "pay 100%, is paid, replace, mine 1", "",
		claim.AwaitingPayment, "", claim.None, percentages{}},
	{"paid, and refunded whole", "", "pay 100%, mine 1, is paid, return, mine 2",
		"lightning 100%, is paid, return, mine 2",
		claim.Refunded, claim.Refunded, claim.None, percentages{}},
	{"paid, refunded whole, and the refund is reorganized", "",
		"pay 100%, mine 1, is paid, return, mine 2, is refunded, reorg 2, is paid, mine 3",
		"lightning 100%, is paid, return, mine 2, is refunded, reorg 2, is paid, mine 3",
		claim.Refunded, claim.Refunded, claim.None, percentages{}},
}

// percentages are balances of a claim, as percentages of its price.
type percentages struct {
	kept  int64 // in suspense (2600)
	owed  int64 // to the payer (2400)
	short int64 // of a shortfall within the tolerance
}

var percentage = regexp.MustCompile(`(\d+)%`)

// units replaces percentages of a price by numbers of units.
func units(steps string, price int64) string {
	return percentage.ReplaceAllStringFunc(steps, func(text string) string {
		n, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		return strconv.FormatInt(price*n/100, 10)
	})
}

// A claim ends as docs/states.md says in each asset: in bitcoin on a node of btcd, in USDC and USDT on anvil, and over
// Lightning at the simulated node. Refunds are paid by the rails on the same chains.
func TestAClaimInEachAsset(t *testing.T) {
	testkit.NotQuick(t, "btcd and anvil")
	bitcoin := sync.OnceValue(func() *btcdtest.Node { return btcdtest.Start(t) })
	anvil := sync.OnceValue(func() *evmtest.Node { return evmtest.Start(t) })
	t.Run("BTC", func(t *testing.T) {
		dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
			m := newMerchant(fixture.New(t, d, clock), bitcoin())
			m.startPayouts(bitcoin().Source())
			onChain(m, money.BTC, full, bitcoinsim.New(d).Home())
		})
	})
	for _, asset := range []money.Asset{money.USDC, money.USDT} {
		t.Run(string(asset), func(t *testing.T) {
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				m := newMerchant(fixture.New(t, d, clock), fixture.Simulated{Chain: bitcoinsim.New(d)})
				lab := anvil().Chain(t, asset)
				m.accept(lab, lab.Spec(), lab.Signer())
				hot := testkit.Must(lab.Signer().Deriver().HotAddress())
				testkit.Check(t, lab.Fund(t.Context(), hot, 1_000_000_000, 1_000_000_000))
				m.startTokenPayouts(lab, lab.Signer())
				onChain(m, asset, 100_000_000, "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
			})
		})
	}
	t.Run("Lightning", func(t *testing.T) {
		fixture.Run(t, func(x *fixture.Fixture) {
			overLightning(newMerchant(x, fixture.Simulated{Chain: bitcoinsim.New(x.DB)}))
		})
	})
}

// onChain plays the cases on a chain. The payer gets refunds at an address of their own.
func onChain(m *merchant, asset money.Asset, price int64, payer string) {
	t := m.TB.(*testing.T)
	for _, c := range inEachAsset {
		t.Run(c.name, func(t *testing.T) {
			m.TB = t
			m.setPolicy(c.policy)
			s := m.openIn(asset, string(asset))
			s.Play(units(c.chain, price), func(verb, rest string) { s.stepOrRefund(verb, rest, payer) })
			s.ends(c.end, c.exception, balances{
				suspense: price * c.want.kept / 100, excess: price * c.want.owed / 100, shortfall: price * c.want.short / 100,
			})
		})
	}
	m.TB = t
}

// stepOrRefund performs the steps of a sale, and four more: "refund" refunds what is the payer's, and "return" what the
// merchant was paid, to an address; "settle" settles the merchant's balance, and "owes" checks the company's debt, in
// cents.
func (s *sale) stepOrRefund(verb, rest, to string) {
	s.Helper()
	switch verb {
	case "refund":
		s.refund(to)
	case "return":
		_, token := s.part(s.m.By, claim.PartParams{AmountText: "100"})
		s.accept(token, to)
	case "settle":
		s.m.settleBalance("")
		s.merchant = -99_00 // the share of this sale left with the settlement
	case "owes":
		s.WantBalance(ledger.DueFromCustomer, "", usd(s.Number(rest)))
	default:
		s.step(verb, rest)
	}
}

// ends compares the claim and its balances. The merchant has its share if, and only if, the claim is paid; of a paid
// claim that the merchant refunded in full, the fee is left to pay. The payouts of all refunds are confirmed.
func (s *sale) ends(state claim.State, exception claim.Exception, want balances) {
	s.Helper()
	c := s.is(state)
	if c.Exception != exception {
		s.Errorf("the exception is %s, want %s", c.Exception, exception)
	}
	switch {
	case state == claim.Paid:
		want.merchant, want.revenue = 99_00, 1_00
	case c.ReturnedValue.Sign() > 0:
		want.merchant, want.revenue = -1_00, 1_00
	}
	s.wantBalances(want)
	for _, r := range fixture.Get(s.Fixture, func(ctx context.Context, tx *db.Tx) ([]claim.Refund, error) {
		return s.m.claims.Refunds(ctx, tx, s.m.By, "", s.id)
	}) {
		if r.State != claim.RefundPaid || r.TxHash == "" {
			s.Errorf("the refund is %+v", r)
		}
	}
	s.m.CheckLedger()
}

// overLightning plays the cases over Lightning. The balance of the node proves what it accepted.
func overLightning(m *merchant) {
	t := m.TB.(*testing.T)
	node := lightningsim.New(m.DB, network)
	held, booked := testkit.Must(node.Balance(t.Context())), int64(0)
	m.claims.Lightning = &lightning.Service{Client: node, Sealer: m.claims.Sealer}
	world := bitcoinsim.New(m.DB)
	table := m.payoutTable(world)
	table[lightning.JobInvoice] = job.Entry{Net: m.claims.Lightning.HandleInvoice}
	table[lightning.JobPaid] = job.Entry{Tx: deposit.InvoicePaid}
	m.Run(table)
	m.openPaid("5_000_000", "6") // coins from which refunds are paid
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = m.claims.Lightning.Watch(ctx, m.DB) // ends with the test
	}()
	defer func() {
		stop()
		<-watched
	}()
	for _, c := range inEachAsset {
		if c.lightning == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			m.TB = t
			m.setPolicy(c.policy)
			s := m.open()
			m.Settle(nil)
			request := s.get().Invoice
			if request == "" {
				t.Fatal("the claim has no invoice")
			}
			received := int64(0)
			s.Play(units(c.lightning, full), func(verb, rest string) {
				s.Helper()
				msat := int64(0)
				if verb == "refused" || verb == "lightning" {
					msat = s.Number(rest) * 1000
				}
				switch verb {
				case "refused":
					if err := node.Settle(t.Context(), request, msat); !errors.Is(err, lightningsim.ErrAmount) &&
						!errors.Is(err, lightningsim.ErrNoInvoice) {
						s.Errorf("the node accepts %s satoshis: %v", rest, err)
					}
				case "lightning":
					testkit.Check(t, node.Settle(t.Context(), request, msat))
					received += msat / 1000
					s.arrives()
				case "refresh":
					s.step(verb, rest)
					m.Settle(nil)
					if next := s.get().Invoice; next == "" || next == request {
						s.Errorf("the new price has the invoice %q", next)
					} else {
						request = next
					}
				default:
					s.stepOrRefund(verb, rest, world.Home())
					m.Settle(nil) // a cancelled claim also cancels its invoice
				}
			})
			exception, owed := c.exception, int64(0)
			switch {
			case c.over != c.end, received <= full:
				exception = claim.None
			default:
				owed = received - full
			}
			s.ends(c.over, exception, balances{excess: owed})
			held += received
			if got := testkit.Must(node.Balance(t.Context())); got != held {
				t.Errorf("the node has %d satoshis, want %d", got, held)
			}
			booked += received
			s.WantBalance(ledger.ChannelBalance, "", sats(booked))
		})
	}
	m.TB = t
}

// arrives waits until the payment of an invoice is recorded.
func (s *sale) arrives() {
	s.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for s.get().State != claim.Paid {
		select {
		case <-tick.C:
			s.Settle(nil)
		case <-s.Context().Done():
			s.Fatal("the payment was not recorded")
		}
	}
}
