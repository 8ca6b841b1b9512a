package payroll

import (
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/fixture"
	"github.com/stipend/stipend/internal/treasury"
)

var usd, eur, sats, rate = fixture.USD, fixture.EUR, fixture.Sats, fixture.Rate

func dest(symbol money.Asset, allocation int) destination.Destination {
	d := destination.Destination{ID: fmt.Sprintf("dst_%s%d", symbol, allocation), Symbol: symbol,
		Rail: destination.RailBank, Allocation: allocation}
	if symbol == money.BTC {
		d.Rail, d.Address = destination.RailBitcoin, "bcrt1q"
	}
	return d
}

// unlimited permits every exchange.
var unlimited = treasury.UnlimitedCapacity(money.All()...)

var contract = identity.Company{ID: "com_1", Status: identity.CompanyActive, FeeBps: 100, PremiumBps: 200}

func planned(t *testing.T, p CreateParams, payees map[string]payee.Payee,
	all map[string][]destination.Destination) (plan, []apierr.Field) {
	t.Helper()
	p.CompanyID = contract.ID
	var list apierr.List
	got, err := newPlan(p, contract, "", destination.Setup{}, nil, nil, payees, all, &list)
	if err != nil {
		t.Fatal(err)
	}
	return got, list.Fields()
}

func TestEveryProblemIsToldAtItsPlace(t *testing.T) {
	payees := map[string]payee.Payee{
		"rec_a": {ID: "rec_a", Status: "active"}, "rec_gone": {ID: "rec_gone", Status: "inactive"},
		"rec_bare": {ID: "rec_bare", Status: "pending"},
		"rec_part": {ID: "rec_part", Status: "active"}, "rec_evm": {ID: "rec_evm", Status: "active"},
	}
	evm := dest(money.USDC, 100)
	evm.Rail = destination.RailEVM
	all := map[string][]destination.Destination{
		"rec_a": {dest(money.USD, 100)}, "rec_part": {dest(money.USD, 60)}, "rec_evm": {evm},
	}
	ok := Payee{AmountText: "1", UserID: "rec_a"}
	with := func(change func(*Payee)) CreateParams {
		p := ok
		change(&p)
		return CreateParams{ToPay: []Payee{ok, p}}
	}
	for name, c := range map[string]struct {
		p    CreateParams
		want string
	}{
		"nobody":    {CreateParams{}, "missing_field /to_pay"},
		"too many":  {CreateParams{ToPay: make([]Payee, MaxPayees+1)}, "invalid_parameter /to_pay"},
		"fine":      {CreateParams{ToPay: []Payee{ok}}, ""},
		"no amount": {with(func(p *Payee) { p.AmountText = "" }), "missing_field /to_pay/1/amount_fiat"},
		"zero": {with(func(p *Payee) { p.AmountText = "-0.00" }),
			"amount_not_positive /to_pay/1/amount_fiat"},
		"negative":   {with(func(p *Payee) { p.AmountText = "-5" }), "amount_not_positive /to_pay/1/amount_fiat"},
		"half cents": {with(func(p *Payee) { p.AmountText = "1.005" }), "amount_precision /to_pay/1/amount_fiat"},
		"huge":       {with(func(p *Payee) { p.AmountText = "1e30" }), "amount_too_large /to_pay/1/amount_fiat"},
		"sum too large": {with(func(p *Payee) { p.AmountText = "92233720368547758.07" }),
			"amount_too_large /to_pay"},
		"no payee": {with(func(p *Payee) { p.UserID = "" }), "missing_field /to_pay/1/user_id"},
		"only the payer": {with(func(p *Payee) { p.UserID, p.CompanyID = "", "com_1" }),
			"missing_field /to_pay/1/user_id"},
		"beside the payer": {with(func(p *Payee) { p.CompanyID = "com_1" }), ""},
		"two payees": {with(func(p *Payee) { p.CompanyID = "rec_part" }),
			"invalid_parameter /to_pay/1/company_id"},
		"a company": {with(func(p *Payee) { p.UserID, p.CompanyID = "", "rec_a" }), ""},
		"unknown company": {with(func(p *Payee) { p.UserID, p.CompanyID = "", "rec_x" }),
			"invalid_parameter /to_pay/1/company_id"},
		"unknown":        {with(func(p *Payee) { p.UserID = "rec_x" }), "invalid_parameter /to_pay/1/user_id"},
		"inactive":       {with(func(p *Payee) { p.UserID = "rec_gone" }), "recipient_inactive /to_pay/1/user_id"},
		"no destination": {with(func(p *Payee) { p.UserID = "rec_bare" }), "no_distribution /to_pay/1/user_id"},
		"not all of it":  {with(func(p *Payee) { p.UserID = "rec_part" }), "no_distribution /to_pay/1/user_id"},
		"no rail":        {with(func(p *Payee) { p.UserID = "rec_evm" }), "currency_not_supported /to_pay/1/user_id"},
		"country":        {with(func(p *Payee) { p.Country = "Germany" }), "country_not_supported /to_pay/1/country"},
		"long": {with(func(p *Payee) { p.Description = strings.Repeat("x", 501) }),
			"invalid_parameter /to_pay/1/description"},
		"invoice twice": {CreateParams{ToPay: []Payee{{AmountText: "1", UserID: "rec_a", InvoiceID: "2026-7"},
			{AmountText: "1", UserID: "rec_a", InvoiceID: "2026-7"}}}, "invalid_parameter /to_pay/1/invoice_id"},
		"currency": {CreateParams{ToPay: []Payee{ok}, Currency: "BTC"}, "currency_not_supported /currency"},
		"funding currency": {CreateParams{ToPay: []Payee{ok}, FundingCurrency: "ETH"},
			"currency_not_supported /funding_currency"},
		"unknown funding": {CreateParams{ToPay: []Payee{ok}, FundingMethod: "wallet", FundingCurrency: "ABC"},
			"currency_not_supported /funding_currency"},
		"method": {CreateParams{ToPay: []Payee{ok}, FundingMethod: "cash"},
			"invalid_parameter /funding_method"},
		"all at once": {
			CreateParams{ToPay: []Payee{{AmountText: "0", UserID: "rec_x"}, {AmountText: "1.001",
				UserID: "rec_bare"}}, Currency: "USD", FundingMethod: "cash"},
			"invalid_parameter /funding_method, amount_not_positive /to_pay/0/amount_fiat, invalid_parameter " +
				"/to_pay/0/user_id, amount_precision /to_pay/1/amount_fiat, no_distribution /to_pay/1/user_id",
		},
	} {
		_, problems := planned(t, c.p, payees, all)
		var got []string
		for _, f := range problems {
			got = append(got, f.Code+" "+f.Pointer)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: got %q, want %q", name, s, c.want)
		}
	}
}

func TestTheDestinationsOfAWorkersUserAreUsedWithoutOwn(t *testing.T) {
	all := map[string][]destination.Destination{"usr_1": {dest(money.USD, 100), dest(money.EUR, 0)},
		"rec_2": {dest(money.BTC, 100)}}
	if owner, used := destinations(payee.Payee{ID: "rec_1", UserID: "usr_1"}, all); owner != "usr_1" || len(used) != 1 {
		t.Errorf("got %q with %d", owner, len(used))
	}
	if owner, _ := destinations(payee.Payee{ID: "rec_2", UserID: "usr_1"}, all); owner != "rec_2" {
		t.Errorf("got %q", owner)
	}
}

func TestFeesAreRoundedOnceForAPayroll(t *testing.T) {
	for _, c := range []struct {
		cents   []int64
		premium []bool
		fee     int64
	}{
		{[]int64{600_00, 400_00}, []bool{false, false}, 10_00},
		{[]int64{50}, []bool{false}, 0},  // a fee of 0.5 cents is rounded to the even 0
		{[]int64{150}, []bool{false}, 2}, // a fee of 1.5 cents is rounded to the even 2
		{[]int64{49, 49}, []bool{false, false}, 1},
		{[]int64{100_00, 100_00}, []bool{false, true}, 3_00},
		{[]int64{1}, []bool{true}, 0},
	} {
		p := CreateParams{}
		for i, n := range c.cents {
			p.ToPay = append(p.ToPay, Payee{AmountText: usd(n).String(), UserID: "rec_a", IsPremium: c.premium[i]})
		}
		got, problems := planned(t, p, map[string]payee.Payee{"rec_a": {ID: "rec_a"}},
			map[string][]destination.Destination{"rec_a": {dest(money.USD, 100)}})
		if len(problems) > 0 || got.fees != usd(c.fee) {
			t.Errorf("%v: fee %s, want %s (%v)", c.cents, got.fees, usd(c.fee), problems)
		}
	}
}

func TestAPlanAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "payees")
		amounts, bps := make([]money.Amount, n), make([]int64, n)
		exact := new(big.Int)
		for i := range amounts {
			amounts[i] = usd(rapid.Int64Range(1, 1<<56).Draw(t, "cents"))
			bps[i] = rapid.SampledFrom([]int64{0, 1, 100, 200, 10_000}).Draw(t, "bps")
			exact.Add(exact, new(big.Int).Mul(big.NewInt(amounts[i].Units()), big.NewInt(bps[i])))
		}
		parts, err := fees(amounts, bps)
		if err != nil {
			t.Fatal(err)
		}
		sum := new(big.Int)
		for i, part := range parts {
			sum.Add(sum, big.NewInt(part))
			own := new(big.Int).Mul(big.NewInt(amounts[i].Units()), big.NewInt(bps[i]))
			off := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(part), big.NewInt(basisPoints)), own)
			if part < 0 || off.CmpAbs(big.NewInt(basisPoints)) > 0 {
				t.Fatalf("part %d of %s at %d bps", part, amounts[i], bps[i])
			}
		}
		want, rest := new(big.Int).QuoRem(exact, big.NewInt(basisPoints), new(big.Int))
		if r := rest.Int64(); 2*r > basisPoints || 2*r == basisPoints && want.Bit(0) == 1 {
			want.Add(want, big.NewInt(1))
		}
		if sum.Cmp(want) != 0 {
			t.Fatalf("fees are %s, want %s", sum, want)
		}
	})
}

// TestFixedAmountsArePaidFirst checks that fixed amounts are paid in the order of the destinations, as far as the
// payment suffices, only of payments in their currency, and that the parts add up exactly.
func TestFixedAmountsArePaidFirst(t *testing.T) {
	fixed := func(id string, amount money.Amount) destination.Destination {
		d := dest(money.USD, 0)
		d.ID, d.Fixed = id, amount
		return d
	}
	a, b, rest := fixed("a", usd(200_00)), fixed("b", usd(50_00)), dest(money.BTC, 100)
	for name, c := range map[string]struct {
		amount money.Amount
		used   []destination.Destination
		want   string
	}{
		"fixed and the rest":             {usd(1000_00), []destination.Destination{a, rest}, "200.00 800.00"},
		"two fixed amounts and the rest": {usd(1000_01), []destination.Destination{a, rest, b}, "200.00 750.01 50.00"},
		"fixed and percentages": {usd(1000_01), []destination.Destination{a, dest(money.EUR, 60), dest(money.BTC, 40)},
			"200.00 480.01 320.00"},
		"exactly the fixed amounts":      {usd(250_00), []destination.Destination{a, rest, b}, "200.00 50.00"},
		"less than the fixed amounts":    {usd(210_00), []destination.Destination{a, rest, b}, "200.00 10.00"},
		"less than the first one":        {usd(1), []destination.Destination{a, rest, b}, "0.01"},
		"a payment in another currency":  {eur(1000_00), []destination.Destination{a, rest, b}, "1000.00"},
		"one destination gets all of it": {usd(1000_00), []destination.Destination{rest}, "1000.00"},
	} {
		sum, got := money.Zero(c.amount.Asset()), []string{}
		for _, s := range testkit.Must(split(c.amount, c.used)) {
			got, sum = append(got, s.Amount.String()), testkit.Must(sum.Add(s.Amount))
		}
		if strings.Join(got, " ") != c.want || sum != c.amount {
			t.Errorf("%s: %v, in total %s, want %s", name, got, sum, c.want)
		}
	}
}

func TestASplitSumsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.IntRange(1, 98).Draw(t, "a")
		b := rapid.IntRange(1, 99-a).Draw(t, "b")
		amount := usd(rapid.Int64Range(1, 1<<50).Draw(t, "cents"))
		shares := testkit.Must(split(amount, []destination.Destination{dest(money.USD, a), dest(money.EUR, b),
			dest(money.BTC, 100-a-b)}))
		sum := usd(0)
		for _, s := range shares {
			if s.Amount.Sign() <= 0 {
				t.Fatalf("a share of %s", s.Amount)
			}
			sum = testkit.Must(sum.Add(s.Amount))
		}
		if sum != amount {
			t.Fatalf("%s split into %s", amount, sum)
		}
	})
}

func counter() func() string {
	n := 0
	return func() string { n++; return fmt.Sprintf("out_%d", n) }
}

func TestTheWorkedRelease(t *testing.T) {
	a, err := allocate(
		escrow{payroll: "prl_1", held: sats(2_020_000), total: usd(1_010_00), rate: rate(money.BTC, money.USD,
			"50000")},
		[]entitlement{
			{paymentID: "pmt_a", net: usd(600_00), shares: []Share{{Destination: dest(money.BTC, 100), Amount: usd(600_00)}}},
			{paymentID: "pmt_b", net: usd(400_00), shares: []Share{{Destination: dest(money.EUR, 100), Amount: usd(400_00)}}},
		},
		usd(10_00), map[money.Asset]money.Rate{money.EUR: rate(money.USD, money.EUR, "0.92")}, unlimited, counter())
	if err != nil {
		t.Fatal(err)
	}
	wantRelease := []ledger.Line{
		ledger.Debit(ledger.Escrow, "prl_1", sats(2_020_000)),
		ledger.Credit(ledger.OutputPayable, "out_1", sats(1_200_000)),
		ledger.Credit(ledger.PayeePayable, "pmt_b", usd(400_00)),
		ledger.Credit(ledger.FeeRevenue, "payroll", usd(10_00)),
		ledger.Debit(ledger.FXPosition, "", usd(410_00)),
		ledger.Credit(ledger.FXPosition, "", sats(820_000)),
	}
	wantConvert := []ledger.Line{
		ledger.Debit(ledger.PayeePayable, "pmt_b", usd(400_00)),
		ledger.Credit(ledger.OutputPayable, "out_2", eur(368_00)),
		ledger.Debit(ledger.FXPosition, "", eur(368_00)),
		ledger.Credit(ledger.FXPosition, "", usd(400_00)),
	}
	exact := cmp.Exporter(func(reflect.Type) bool { return true })
	if d := cmp.Diff(wantRelease, a.release, exact); d != "" {
		t.Errorf("release: %s", d)
	}
	if d := cmp.Diff(wantConvert, a.convert, exact); d != "" {
		t.Errorf("convert: %s", d)
	}
}

// The relay minimum depends on the type of the address.
func TestDustGoesWithTheLargestShare(t *testing.T) {
	for _, c := range []struct {
		address string
		cents   int64 // part of 100 cents that is paid in bitcoin, at 20 sat a cent
		want    string
	}{
		{"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 20, "BTC 0.00000400, EUR 0.73"},
		{"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 14, "EUR 0.92"},
		{"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", 20, "EUR 0.92"},
		{"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", 28, "BTC 0.00000560, EUR 0.66"},
	} {
		to := dest(money.BTC, int(c.cents))
		to.Address, to.Network = c.address, "regtest"
		shares := testkit.Must(split(usd(1_00), []destination.Destination{to, dest(money.EUR, 100-int(c.cents))}))
		a := testkit.Must(allocate(escrow{payroll: "prl_1", held: usd(1_00), total: usd(1_00)},
			[]entitlement{{paymentID: "pmt_1", net: usd(1_00), shares: shares}}, usd(0),
			map[money.Asset]money.Rate{money.EUR: rate(money.USD, money.EUR, "0.92"), money.BTC: rate(money.BTC,
				money.USD, "50000")}, unlimited, counter()))
		var got []string
		for _, out := range a.outputs {
			got = append(got, fmt.Sprintf("%s %s", out.amount.Asset(), out.amount))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%d cents to %s: %s, want %s", c.cents, c.address, s, c.want)
		}
	}
}

func TestAReleaseBalancesWhateverIsPaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		funding := rapid.SampledFrom([]money.Asset{money.BTC, money.USD}).Draw(t, "funding")
		price := rate(money.BTC, money.USD, fmt.Sprintf("%d.%02d", rapid.IntRange(500, 200_000).Draw(t, "dollars"),
			rapid.IntRange(0, 99).Draw(t, "cents")))
		prices := map[money.Asset]money.Rate{money.EUR: rate(money.USD, money.EUR, "0.9217"),
			money.JPY: rate(money.USD, money.JPY, "151.23")}
		if funding != money.BTC {
			prices[money.BTC] = price
		}
		n := rapid.IntRange(1, 12).Draw(t, "payments")
		var payments []entitlement
		volume := usd(0)
		for i := range n {
			net := usd(rapid.Int64Range(1, 5_000_000).Draw(t, "net"))
			volume = testkit.Must(volume.Add(net))
			o := entitlement{paymentID: fmt.Sprintf("pmt_%d", i), net: net}
			if rapid.IntRange(0, 9).Draw(t, "payable") > 0 {
				cut := rapid.IntRange(1, 99).Draw(t, "cut")
				assets := rapid.Permutation([]money.Asset{money.BTC, money.USD, money.EUR, money.JPY}).Draw(t, "assets")
				o.shares = testkit.Must(split(net, []destination.Destination{dest(assets[0], cut), dest(assets[1], 100-cut)}))
			} else {
				o.problem = ReasonNoDestination
			}
			payments = append(payments, o)
		}
		fee := testkit.Must(volume.Fraction(100, basisPoints, money.HalfEven))
		e := escrow{payroll: "prl_1", total: testkit.Must(volume.Add(fee))}
		if e.held = e.total; funding != e.total.Asset() {
			e.held = testkit.Must(price.Convert(e.total, money.Ceil))
		}
		if funding == money.BTC && rapid.Bool().Draw(t, "one rate") {
			e.rate = price
		}
		a, err := allocate(e, payments, fee, prices, unlimited, counter())
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, a.release)
		balanced(t, a.convert)
		owed := map[int]money.Amount{}
		for _, out := range a.outputs {
			if tooSmall(out.share.Destination, out.amount) {
				t.Fatalf("an output of %s %s", out.amount, out.amount.Asset())
			}
			if _, ok := owed[out.payment]; !ok {
				owed[out.payment] = usd(0)
			}
			owed[out.payment] = testkit.Must(owed[out.payment].Add(out.share.Amount))
		}
		for i, p := range payments {
			_, stopped := a.problems[i]
			if got, paid := owed[i]; paid == stopped || paid && got != p.net {
				t.Fatalf("payment %d of %s: outputs take %s, stopped %v", i, p.net, got, stopped)
			}
		}
		for _, l := range a.release {
			if l.Code == ledger.Rounding && l.Amount.Units() > int64(len(a.outputs)+3) && !e.rate.IsZero() {
				t.Fatalf("rounding took %s for %d outputs", l.Amount, len(a.outputs))
			}
		}
		e.released = true
		again, err := allocate(e, payments, usd(0), map[money.Asset]money.Rate{money.EUR: prices[money.EUR],
			money.JPY: prices[money.JPY], money.BTC: price}, unlimited, counter())
		if err != nil || len(again.release) > 0 {
			t.Fatalf("a second release books %v, %v", again.release, err)
		}
		balanced(t, again.convert)
	})
}

// balanced fails the test unless debits and credits of each asset are equal.
func balanced(t *rapid.T, lines []ledger.Line) {
	t.Helper()
	sums := map[money.Asset]int64{}
	for _, l := range lines {
		if l.Amount.Sign() < 0 {
			t.Fatalf("a line of %s", l.Amount)
		}
		if l == ledger.Debit(l.Code, l.Dim, l.Amount) {
			sums[l.Amount.Asset()] += l.Amount.Units()
		} else {
			sums[l.Amount.Asset()] -= l.Amount.Units()
		}
	}
	for asset, sum := range sums {
		if sum != 0 {
			t.Fatalf("%s is off by %d: %v", asset, sum, lines)
		}
	}
}

func TestAReceiptIsUndoneExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		balances := map[string]int64{}
		post := func(lines []ledger.Line) {
			balanced(t, lines)
			for _, l := range lines {
				n := l.Amount.Units()
				if l == ledger.Credit(l.Code, l.Dim, l.Amount) {
					n = -n
				}
				balances[string(l.Code)] += n
			}
		}
		r := newReceipt("dep_1", "bitcoin", sats(rapid.Int64Range(1, 1_000_000).Draw(t, "amount")))
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			released := balances["2010"] // debits of earlier reversals after the release
			divide := func(n int64) (escrow, suspense money.Amount) {
				x := rapid.Int64Range(0, n).Draw(t, "escrow")
				return sats(x), sats(rapid.Int64Range(0, n-x).Draw(t, "suspense"))
			}
			escrow, suspense := divide(r.amount.Units() - r.debt.Units())
			post(testkit.Must(r.book("prl_1", escrow, suspense)))
			for range rapid.IntRange(0, 2).Draw(t, "rebookings") {
				escrow, suspense = divide(r.escrow.Units() + r.suspense.Units())
				post(testkit.Must(r.rebook("prl_1", escrow, suspense)))
			}
			if got := released - balances["2010"] - balances["2600"]; got != r.escrow.Units()+r.suspense.Units() {
				t.Fatalf("escrow and suspense have %d, want %s and %s", got, r.escrow, r.suspense)
			}
			if got := balances["1000"]; got != r.amount.Units() {
				t.Fatalf("the wallet has %d of %s", got, r.amount)
			}
			post(testkit.Must(r.reverse("prl_1", rapid.Bool().Draw(t, "divided"), sats(rapid.Int64Range(0, 1_000_000).Draw(t,
				"funds")))))
			if balances["1000"] != 0 || balances["1300"] != r.debt.Units() || balances["2600"] != 0 {
				t.Fatalf("after the reversal: %v, owed %s", balances, r.debt)
			}
		}
	})
}

// Too many invoices are refused; none is left out silently.
func TestTooManyInvoicesAreRefused(t *testing.T) {
	items, _, err := ToPay(t.Context(), nil, "com_1", make([]string, MaxInvoices+1))
	f, isFault := apierr.As(err)
	if !isFault || f.Code != "invalid_parameter" || len(items) != 0 {
		t.Errorf("%d items, %v", len(items), err)
	}
}
