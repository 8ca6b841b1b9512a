package receivable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/testkit"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// quotes has a quote of 1,010.00 USD at a rate of 50,000, and from the second hour on a quote of the remainder at
// 40,000; each is valid for half an hour.
var quotes = []quote.Quote{
	{
		ID: "quo_1", Number: 1, State: quote.StateExpired, ValidFrom: begin, ValidTo: begin.Add(30 * time.Minute),
		Grace: time.Minute,
		Rate:  rate(money.BTC, money.USD, "50000"), Due: usd(1_010_00), Funding: sats(2_020_000),
	},
	{
		ID: "quo_2", Number: 2, State: quote.StateActive, ValidFrom: begin.Add(time.Hour),
		ValidTo: begin.Add(90 * time.Minute),
		Rate:    rate(money.BTC, money.USD, "40000"), Due: usd(505_00), Funding: sats(1_262_500),
	},
}

// received returns a deposit first seen some minutes after the start.
func received(id string, n int64, minute int, state deposit.State) deposit.Deposit {
	d := deposit.Deposit{
		ID: id, Amount: sats(n), State: state, FirstSeen: begin.Add(time.Duration(minute) * time.Minute),
		Outpoint: chain.Outpoint{TxID: "tx_" + id},
	}
	q, _ := quote.InForce([]quote.Quote{quotes[1], quotes[0]}, money.BTC, d.FirstSeen)
	d.QuoteID, d.OnTime = q.ID, q.Covers(d.FirstSeen)
	return d
}

func facts(deposits ...deposit.Deposit) Facts {
	f := Facts{Due: usd(1_010_00), Asset: money.BTC, Deposits: deposits}
	for _, q := range quotes {
		f.AddQuote(q)
	}
	return f
}

func TestVerdict(t *testing.T) {
	const confirmed, seen, reverted = deposit.Confirmed, deposit.Seen, deposit.Reverted
	type list = []deposit.Deposit
	type want struct {
		counted, held, short        int64
		covered, enough             bool
		left                        int64 // cents
		waiting, anyCounts, lateOne bool
		completedBy                 string
	}
	for _, c := range []struct {
		name     string
		deposits list
		change   func(*Facts)
		want     want
	}{
		{name: "no payment", want: want{left: 1_010_00}},
		{name: "the full amount is seen", deposits: list{received("a", 2_020_000, 1, seen)},
			want: want{enough: true, waiting: true, anyCounts: true, completedBy: "tx_a"}},
		{name: "the full amount is confirmed", deposits: list{received("a", 2_020_000, 1, confirmed)},
			want: want{counted: 2_020_000, covered: true, enough: true, anyCounts: true, completedBy: "tx_a"}},
		{name: "half is confirmed", deposits: list{received("a", 1_010_000, 1, confirmed)},
			want: want{counted: 1_010_000, left: 505_00, anyCounts: true}},
		{name: "half is confirmed and half is seen",
			deposits: list{received("a", 1_010_000, 1, confirmed), received("b", 1_010_000, 2, seen)},
			want:     want{counted: 1_010_000, enough: true, waiting: true, anyCounts: true, completedBy: "tx_b"}},
		{name: "the rest is paid at another price",
			deposits: list{received("a", 1_010_000, 1, confirmed), received("b", 1_262_500, 61, confirmed)},
			want:     want{counted: 2_272_500, covered: true, enough: true, anyCounts: true, completedBy: "tx_b"}},
		{name: "too much", deposits: list{received("a", 3_000_000, 1, confirmed)},
			want: want{counted: 2_020_000, covered: true, enough: true, anyCounts: true, completedBy: "tx_a"}},
		{name: "too little, by less than any transaction can pay",
			deposits: list{received("a", 2_019_800, 1, confirmed)},
			want: want{counted: 2_019_800, short: 250, covered: true, enough: true, left: 10, anyCounts: true,
				completedBy: "tx_a"}},
		{name: "too little, within the tolerance", deposits: list{received("a", 2_010_000, 1, confirmed)},
			change: func(f *Facts) { f.ToleranceBps = 50 },
			want: want{counted: 2_010_000, short: 12_500, covered: true, enough: true, left: 5_00, anyCounts: true,
				completedBy: "tx_a"}},
		{name: "late", deposits: list{received("a", 2_020_000, 40, confirmed)},
			want: want{held: 2_020_000, left: 1_010_00}},
		{name: "late, and accepted", deposits: list{received("a", 2_020_000, 40, confirmed)},
			change: func(f *Facts) { f.Accepted = map[string]money.Rate{"a": rate(money.BTC, money.USD, "50000")} },
			want: want{counted: 2_020_000, covered: true, enough: true, anyCounts: true, lateOne: true,
				completedBy: "tx_a"}},
		{name: "in the grace period",
			deposits: list{received("a", 30, 30, confirmed), received("b", 2_020_000, 30, confirmed)},
			want: want{counted: 2_020_000, covered: true, enough: true, anyCounts: true, lateOne: true,
				completedBy: "tx_b"}},
		{name: "replaced by a payment that is confirmed",
			deposits: list{received("a", 2_020_000, 1, deposit.Replaced), received("b", 2_020_000, 1, confirmed)},
			want:     want{counted: 2_020_000, covered: true, enough: true, anyCounts: true, completedBy: "tx_b"}},
		{name: "evicted", deposits: list{received("a", 2_020_000, 1, deposit.Evicted)}, want: want{left: 1_010_00}},
		{name: "removed by a reorganization", deposits: list{received("a", 2_020_000, 1, reverted)},
			want: want{enough: true, waiting: true, anyCounts: true, completedBy: "tx_a"}},
		{name: "a confirmed payment counts before an earlier one",
			deposits: list{received("a", 2_020_000, 1, seen), received("b", 2_020_000, 2, confirmed)},
			want: want{counted: 2_020_000, covered: true, enough: true, waiting: true, anyCounts: true,
				completedBy: "tx_b"}},
		{name: "spent", deposits: list{received("a", 2_020_000, 1, confirmed)},
			change: func(f *Facts) { f.Spent = map[string]money.Amount{"a": sats(1_010_000)} },
			want:   want{counted: 1_010_000, left: 505_00, anyCounts: true}},
		{name: "closed", deposits: list{received("a", 2_020_000, 1, confirmed)},
			change: func(f *Facts) { f.Closed = true }, want: want{held: 2_020_000, left: 1_010_00}},
		{name: "void quotes",
			deposits: list{received("a", 2_020_000, 1, confirmed), received("b", 1_262_500, 61, confirmed)},
			change:   func(f *Facts) { f.VoidUntil = begin.Add(45 * time.Minute) },
			want:     want{counted: 1_262_500, held: 2_020_000, left: 505_00, anyCounts: true}},
	} {
		f := facts(c.deposits...)
		if c.change != nil {
			c.change(&f)
		}
		v, err := f.Evaluate()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := want{
			v.Counted.Units(), v.Held.Units(), v.Shortfall.Units(), v.Covered, v.Enough, v.Left.Units(), v.Waiting,
			v.AnyCounts, v.LateCounted, v.CompletedBy,
		}
		if got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestABankTransferCountsWithoutAQuote(t *testing.T) {
	f := Facts{Due: usd(100_00), Asset: money.USD, Deposits: []deposit.Deposit{{
		ID: "dep_1", ObjectID: "prl_1", QuoteID: "prl_1", Amount: usd(120_00), State: deposit.Confirmed, OnTime: true,
		FirstSeen: begin,
	}}}
	v, err := f.Evaluate()
	if err != nil || !v.Covered || v.Counted != usd(100_00) || v.Parts[0].Excess != usd(20_00) || !v.Rate.IsZero() {
		t.Errorf("%+v, %v", v, err)
	}
}

// The verdict does not depend on the order of the facts, and it accounts for each deposit exactly.
func TestTheOrderOfFactsDoesNotMatter(t *testing.T) {
	exact := cmp.Comparer(func(a, b money.Rate) bool {
		return a.IsZero() && b.IsZero() || !a.IsZero() && !b.IsZero() && a.Cmp(b) == 0
	})
	amounts := cmp.Comparer(func(a, b money.Amount) bool { return a == b })
	rapid.Check(t, func(t *rapid.T) {
		states := []deposit.State{deposit.Seen, deposit.Confirmed, deposit.Reverted, deposit.Replaced, deposit.Evicted}
		var all []deposit.Deposit
		f := facts()
		f.Accepted, f.Spent = map[string]money.Rate{}, map[string]money.Amount{}
		for i := range rapid.IntRange(0, 6).Draw(t, "deposits") {
			d := received(fmt.Sprint("dep_", i), rapid.Int64Range(1, 3_000_000).Draw(t, "amount"),
				rapid.IntRange(0, 100).Draw(t, "minute"), rapid.SampledFrom(states).Draw(t, "state"))
			all = append(all, d)
			if rapid.IntRange(0, 3).Draw(t, "spent") == 0 {
				f.Spent[d.ID] = sats(rapid.Int64Range(0, d.Amount.Units()).Draw(t, "spent amount"))
			}
			if !d.OnTime && rapid.Bool().Draw(t, "accepted") {
				f.Accepted[d.ID] = rate(money.BTC, money.USD, "45000")
			}
		}
		f.ToleranceBps = rapid.Int64Range(0, 200).Draw(t, "tolerance")
		f.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
		f.Deposits = all
		want, err := f.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		g := Facts{
			Due: f.Due, Asset: f.Asset, ToleranceBps: f.ToleranceBps, Accepted: f.Accepted, Spent: f.Spent,
			Closed:   f.Closed,
			Deposits: rapid.Permutation(all).Draw(t, "order"),
		}
		for _, q := range rapid.Permutation(quotes).Draw(t, "order of quotes") {
			g.AddQuote(q)
		}
		got, err := g.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, exact, amounts); diff != "" {
			t.Fatal(diff)
		}

		total := sats(0)
		for _, p := range got.Parts {
			i := slices.IndexFunc(all, func(d deposit.Deposit) bool { return d.ID == p.DepositID })
			whole := testkit.Must(testkit.Must(p.Counted.Add(p.Excess)).Add(p.Held))
			if spent, ok := f.Spent[p.DepositID]; ok {
				whole = testkit.Must(whole.Add(spent))
			}
			if whole != all[i].Amount {
				t.Fatalf("%+v of a deposit of %s", p, all[i].Amount)
			}
			total = testkit.Must(total.Add(whole))
		}
		if total != got.Confirmed {
			t.Fatalf("the parts sum up to %s of %s", total, got.Confirmed)
		}
		if got.Covered && !got.Enough {
			t.Fatalf("confirmed money covers it, and all money does not: %+v", got)
		}
	})
}
