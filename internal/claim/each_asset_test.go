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

// inEachAsset lists how a claim of 100 USD ends, as docs/states.md describes it. Amounts are percentages of the price.
// On a chain, every payment arrives, and the claim says what became of it. Over Lightning the node itself refuses
// payments of too little, a second one and late ones; the step "refused" expects that.
var inEachAsset = []struct {
	name      string
	chain     string // steps on a chain: bitcoin, USDC and USDT
	lightning string // steps over Lightning; "" if there is no such case
	end, over claim.State
	exception claim.Exception
	kept      int64 // percentage of the price in suspense (2600)
	owed      int64 // percentage of the price owed to the payer (2400)
}{
	{"the full amount", "pay 100%, mine 1", "lightning 100%", claim.Paid, claim.Paid, claim.None, 0, 0},
	{"under", "pay 90%, mine 1, is partially_paid, wait 15m", "refused 90%, is awaiting_payment, wait 15m",
		claim.Underpaid, claim.Expired, claim.None, 90, 0},
	{"over", "pay 110%, mine 1", "lightning 310%", claim.Paid, claim.Paid, claim.Overpaid, 0, 10},
	{"late", "wait 15m1s, is expired, pay 100%, mine 1", "wait 15m1s, is expired, refused 100%",
		claim.PaidLate, claim.Expired, claim.Late, 100, 0},
	{"twice", "pay 100%, mine 1, is paid, pay 100%, mine 1", "lightning 100%, is paid, refused 100%",
		claim.Paid, claim.Paid, claim.Overpaid, 0, 100},
	{"replaced", "pay 100%, is confirming, replace, mine 1", "", claim.AwaitingPayment, "", claim.None, 0, 0},
	{"replaced with a higher fee", "pay 100%, replace 100%, is confirming, mine 1", "", claim.Paid, "", claim.None, 0, 0},
	{"reorganized, and mined again", "pay 100%, mine 1, is paid, reorg 1, is confirming reverted, mine 1", "",
		claim.Paid, "", claim.None, 0, 0},
	{"reorganized for good", "pay 100%, mine 1, is paid, reorg 1, evict, wait 15m", "",
		claim.Expired, "", claim.None, 0, 0},
}

var percentage = regexp.MustCompile(`(\d+)%`)

// units replaces percentages of a price by numbers of units.
func units(steps string, price int64) string {
	return percentage.ReplaceAllStringFunc(steps, func(text string) string {
		n, _ := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		return strconv.FormatInt(price*n/100, 10)
	})
}

// A claim that is paid under, over, late, twice, replaced and reorganized ends as docs/states.md says, in each asset:
// in bitcoin on a node of btcd, in USDC and USDT on anvil, and over Lightning at the simulated node.
func TestAClaimInEachAsset(t *testing.T) {
	testkit.NotQuick(t, "btcd and anvil")
	bitcoin := sync.OnceValue(func() *btcdtest.Node { return btcdtest.Start(t) })
	anvil := sync.OnceValue(func() *evmtest.Node { return evmtest.Start(t) })
	t.Run("BTC", func(t *testing.T) {
		dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
			onChain(newMerchant(fixture.New(t, d, clock), bitcoin()), money.BTC, full)
		})
	})
	for _, asset := range []money.Asset{money.USDC, money.USDT} {
		t.Run(string(asset), func(t *testing.T) {
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
				m := newMerchant(fixture.New(t, d, clock), fixture.Simulated{Chain: bitcoinsim.New(d)})
				lab := anvil().Chain(t, asset)
				m.accept(lab, lab.Spec(), lab.Signer())
				onChain(m, asset, 100_000_000)
			})
		})
	}
	t.Run("Lightning", func(t *testing.T) {
		fixture.Run(t, func(x *fixture.Fixture) {
			overLightning(newMerchant(x, fixture.Simulated{Chain: bitcoinsim.New(x.DB)}))
		})
	})
}

func onChain(m *merchant, asset money.Asset, price int64) {
	t := m.TB.(*testing.T)
	for _, c := range inEachAsset {
		t.Run(c.name, func(t *testing.T) {
			m.TB = t
			m.setPolicy("")
			s := m.openIn(asset, string(asset))
			s.Play(units(c.chain, price), s.step)
			s.ends(c.end, c.exception, price*c.kept/100, price*c.owed/100)
		})
	}
	m.TB = t
}

// ends compares the claim and its balances: the merchant has its share if, and only if, the claim is paid.
func (s *sale) ends(state claim.State, exception claim.Exception, kept, owed int64) {
	s.Helper()
	if c := s.is(state); c.Exception != exception {
		s.Errorf("the exception is %s, want %s", c.Exception, exception)
	}
	want := balances{suspense: kept, excess: owed}
	if state == claim.Paid {
		want.merchant, want.revenue = 99_00, 1_00
	}
	s.wantBalances(want)
	s.m.CheckLedger()
}

// overLightning plays the cases over Lightning. The balance of the node proves what it accepted.
func overLightning(m *merchant) {
	t := m.TB.(*testing.T)
	node := lightningsim.New(m.DB, network)
	held, booked := testkit.Must(node.Balance(t.Context())), int64(0)
	m.claims.Lightning = &lightning.Service{Client: node, Sealer: m.claims.Sealer}
	table := m.jobTable()
	table[lightning.JobInvoice] = job.Entry{Net: m.claims.Lightning.HandleInvoice}
	table[lightning.JobPaid] = job.Entry{Tx: deposit.InvoicePaid}
	m.Run(table)
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
			m.setPolicy("")
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
				default:
					s.step(verb, rest)
				}
			})
			exception, owed := c.exception, int64(0)
			switch {
			case c.over != c.end, received <= full:
				exception = claim.None
			default:
				owed = received - full
			}
			s.ends(c.over, exception, 0, owed)
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
