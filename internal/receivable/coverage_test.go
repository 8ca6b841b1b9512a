package receivable

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

var usd, sats, rate = fixture.USD, fixture.Sats, fixture.Rate

func TestTolerance(t *testing.T) {
	for _, c := range []struct {
		due     money.Amount
		bps     int64
		allowed int64
	}{
		{sats(2_020_000), 0, 294}, {sats(10_000), 0, 100}, {sats(2_020_000), 50, 10_100}, {sats(50), 0, 0},
		{usd(1_000_00), 0, 0}, {usd(1_000_00), 100, 10_00},
	} {
		if got := testkit.Must(tolerance(c.due, c.bps)); got.Units() != c.allowed {
			t.Errorf("%s at %d bps: %s", c.due, c.bps, got)
		}
	}
}

func TestMoneyInPartsCoversWhatItCoversWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		price := rate(money.BTC, money.USD, fmt.Sprintf("%d.%08d", rapid.IntRange(100, 200_000).Draw(t, "dollars"),
			rapid.IntRange(0, 99_999_999).Draw(t, "rest")))
		total := usd(rapid.Int64Range(1_00, 1_000_000_00).Draw(t, "total"))
		due := testkit.Must(fundingDue(total, money.BTC, price))
		c := coverage{total: total, asset: money.BTC}
		left := due.Units()
		for left > 0 {
			part := rapid.Int64Range(1, left).Draw(t, "part")
			if rapid.Bool().Draw(t, "last") {
				part = left
			}
			left -= part
			if err := c.add("quo_1", price, sats(part)); err != nil {
				t.Fatal(err)
			}
			room := testkit.Must(c.room("quo_1", price))
			if room.Units() != left {
				t.Fatalf("room for %d, want %d", room.Units(), left)
			}
		}
		covered, short, err := c.verdict("quo_1", price, 0)
		if err != nil || !covered || !short.IsZero() {
			t.Fatalf("covered %v short %s, %v", covered, short, err)
		}
		if c.single().Cmp(price) != 0 {
			t.Fatal("the one rate is lost")
		}
	})
}

func TestTwoPricesCoverTogether(t *testing.T) {
	c := coverage{total: usd(1_010_00), asset: money.BTC}
	if err := c.add("dep_late", rate(money.BTC, money.USD, "49000"), sats(2_020_000)); err != nil {
		t.Fatal(err)
	}
	if left := testkit.Must(c.remaining("")); left != usd(20_20) {
		t.Fatalf("%s remain, want 20.20", left)
	}
	second := rate(money.BTC, money.USD, "49000")
	if need := testkit.Must(c.need("quo_2", second)); need != sats(41_225) {
		t.Fatalf("needs %s", need)
	}
	if covered, _, _ := c.verdict("quo_2", second, 0); covered {
		t.Fatal("covered before it was paid")
	}
	if err := c.add("quo_2", second, sats(41_225)); err != nil {
		t.Fatal(err)
	}
	if covered, short, _ := c.verdict("quo_2", second, 0); !covered || !short.IsZero() {
		t.Fatalf("covered %v, short %s", covered, short)
	}
}
