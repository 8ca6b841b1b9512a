package rates

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// answers starts a server that returns fixed bodies by path and query, and 404 otherwise.
func answers(t *testing.T, bodies map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.RequestURI()]
		if !ok {
			http.Error(w, `{"message":"NotFound"}`, http.StatusNotFound)
			return
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const ecbDaily = `<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"
	xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
	<gesmes:subject>Reference rates</gesmes:subject>
	<gesmes:Sender><gesmes:name>European Central Bank</gesmes:name></gesmes:Sender>
	<Cube><Cube time='2026-01-15'>
		<Cube currency='USD' rate='1.0850'/>
		<Cube currency='JPY' rate='171.50'/>
		<Cube currency='GBP' rate='0.86800'/>
		<Cube currency='ZZZ' rate='3'/>
	</Cube></Cube>
</gesmes:Envelope>`

func TestSourcesParsePublishedResponses(t *testing.T) {
	base := answers(t, map[string]string{
		"/products/BTC-USD/ticker": `{"trade_id":86326522,"price":"50010.04","size":"0.00698254",
			"time":"2026-01-15T11:59:58.123456Z",
			"bid":"50010.03","ask":"50010.05","volume":"6753.42","rfq_volume":"1.2"}`,
		"/products/ETH-USD/ticker": `{"price":"0","time":"2026-01-15T11:59:58Z"}`,
		"/0/public/Ticker?pair=XBTUSD": `{"error":[],"result":{"XXBTZUSD":{
			"a":["50000.10","1","1.000"],"b":["49999.9","1","1.000"],
			"c":["50000.00000","0.00281500"],
			"v":["1","2"],"p":["1","2"],"t":[1,2],"l":["1","2"],"h":["1","2"],"o":"1"}}}`,
		"/0/public/Ticker?pair=ETHUSD": `{"error":["EQuery:Unknown asset pair"]}`,
		"/api/v2/ticker/btcusd/": `{"timestamp":"1768478390","open":"49000","high":"51000","low":"48000",
			"last":"49990","volume":"100.1","vwap":"50001","bid":"49989","ask":"49991","side":"0",
			"open_24":"1","percent_change_24":"2","market_type":"SPOT"}`,
		"/api/v2/ticker/ethusd/":               `{"last":"2500","timestamp":"soon"}`,
		"/stats/eurofxref/eurofxref-daily.xml": ecbDaily,
	})
	at := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		source Source
		price  string
		at     time.Time
		fails  []string // texts that the error must contain
	}{
		{Coinbase(nil, base), "50010.04", at.Add(-1876544 * time.Microsecond),
			[]string{"ETH-USD: ", "USDT-USD: response status 404"}},
		{Kraken(nil, base), "50000", time.Time{}, []string{"ETHUSD: response EQuery:Unknown asset pair"}},
		{Bitstamp(nil, base), "49990", time.Unix(1768478390, 0), []string{"ethusd: timestamp"}},
	} {
		t.Run(c.source.Name(), func(t *testing.T) {
			prices, err := c.source.Fetch(t.Context())
			if len(prices) != 1 || prices[0].Rate.Base() != money.BTC || prices[0].Rate.String() != c.price ||
				!prices[0].At.Equal(c.at) {
				t.Errorf("got %+v, want one price of BTC, %s at %s", prices, c.price, c.at)
			}
			for _, part := range c.fails {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not contain %q", err, part)
				}
			}
		})
	}
	t.Run("ecb", func(t *testing.T) {
		prices, err := ECB(nil, base).Fetch(t.Context())
		testkit.Check(t, err)
		got := ""
		for _, p := range prices {
			got += fmt.Sprintf("%s %.10s;", p.Rate.Base(), p.Rate)
		}
		if want := "EUR 1.085;JPY 0.00632653;GBP 1.25;"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if want := time.Date(2026, 1, 15, 15, 0, 0, 0, time.UTC); !prices[0].At.Equal(want) {
			t.Errorf("at %s, want %s", prices[0].At, want)
		}
	})
	t.Run("ecb without dollars", func(t *testing.T) {
		if prices, err := readECB([]byte(strings.ReplaceAll(ecbDaily, "USD", "CHF"))); err == nil {
			t.Errorf("got %v, want an error", prices)
		}
	})
}

func TestSourcesReturnWhenTheirContextEnds(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, source := range []Source{Coinbase(nil, s.URL), Kraken(nil, s.URL), Bitstamp(nil, s.URL), ECB(nil, s.URL)} {
		if prices, err := source.Fetch(ctx); err == nil || len(prices) > 0 {
			t.Errorf("%s: got %v, %v", source.Name(), prices, err)
		}
	}
}

func TestTheSandboxHasAPriceOfEveryAsset(t *testing.T) {
	prices, err := Sandbox().Fetch(t.Context())
	testkit.Check(t, err)
	priced := map[money.Asset]bool{money.USD: true}
	for _, p := range prices {
		if priced[p.Rate.Base()] {
			t.Errorf("%s is priced twice", p.Rate.Base())
		}
		priced[p.Rate.Base()] = true
	}
	for _, a := range money.All() {
		if !priced[a] {
			t.Errorf("%s has no price", a)
		}
	}
	if len(priced) != len(money.All()) {
		t.Errorf("%d assets are priced, %d exist", len(priced), len(money.All()))
	}
}

// fixed is a source with prices and an error set by a test.
type fixed struct {
	name   string
	prices []Price
	err    error
}

func (f *fixed) Name() string                           { return f.name }
func (f *fixed) Fetch(context.Context) ([]Price, error) { return f.prices, f.err }

func price(t *testing.T, a money.Asset, text string, at time.Time) Price {
	t.Helper()
	r, err := money.ParseRate(a, money.USD, text)
	testkit.Check(t, err)
	return Price{r, at}
}

func latest(t *testing.T, d *db.DB, base, quote money.Asset) (string, error) {
	t.Helper()
	var r money.Rate
	err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		r, err = Latest(ctx, tx, base, quote)
		return err
	})
	return r.String(), err
}

func TestRefreshAcceptsPricesThatSourcesAgreeOn(t *testing.T) {
	now := dbtest.Epoch
	for _, c := range []struct {
		name    string
		a, b, c string // "" is a failed source, "stale …" an old observation
		want    string // "" is unavailable
		sources string
	}{
		{"median of three", "50000", "50100", "49900", "50000", "a,b,c"},
		{"mean of two", "50000", "50100", "", "50050", "a,b"},
		{"one is 40 % off", "50000", "70000", "50200", "50100", "a,c"},
		{"one is exactly 2 % off", "50000", "51000", "50000", "50000", "a,b,c"},
		{"two disagree", "50000", "70000", "", "", ""},
		{"all three disagree", "50000", "70000", "30000", "", ""},
		{"only one", "50000", "", "", "", ""},
		{"one fresh, two stale", "50000", "stale 50000", "stale 50000", "", ""},
		{"two fresh, one stale and far off", "50000", "50000", "stale 10", "50000", "a,b"},
		{"none", "", "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dbtest.RunClock(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
				var sources []Source
				for i, text := range []string{c.a, c.b, c.c} {
					f := &fixed{name: string(rune('a' + i))}
					if text == "" {
						f.err = errors.New("down")
					} else if old, ok := strings.CutPrefix(text, "stale "); ok {
						f.prices = []Price{price(t, money.BTC, old, now.Add(-10*time.Minute))}
					} else {
						f.prices = []Price{price(t, money.BTC, text, now.Add(-10*time.Second))}
					}
					sources = append(sources, f)
				}
				err := (&Refresher{DB: d, Sources: sources}).Refresh(t.Context())
				if c.want == "" && err == nil {
					t.Error("Refresh returns no error for a rejected price")
				}
				got, err := latest(t, d, money.BTC, money.USD)
				if c.want == "" {
					if !errors.Is(err, ErrUnavailable) {
						t.Fatalf("got %s, %v; want ErrUnavailable", got, err)
					}
					return
				}
				if err != nil || got != c.want {
					t.Fatalf("got %s, %v; want %s", got, err, c.want)
				}
				_ = d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
					list, err := List(ctx, tx)
					if err != nil || len(list) != 1 || list[0].Sources != c.sources ||
						!list[0].ValidTo.Equal(now.Add(50*time.Second)) {
						t.Errorf("list: %+v, %v", list, err)
					}
					return nil
				})
			})
		})
	}
}

func TestPricesExpire(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		one := &fixed{name: "one", prices: []Price{price(t, money.BTC, "50000", time.Time{}),
			price(t, money.EUR, "1.25", time.Time{})}}
		two := &fixed{name: "two", prices: []Price{price(t, money.BTC, "50000", time.Time{})}}
		r := &Refresher{DB: d, Sources: []Source{one, two}}
		testkit.Check(t, r.Refresh(t.Context()))
		for _, c := range []struct {
			base, quote money.Asset
			want        string
		}{
			{money.BTC, money.USD, "50000"}, {money.BTC, money.EUR, "40000"}, {money.EUR, money.BTC, "0.000025"},
			{money.USD, money.EUR, "0.8"}, {money.EUR, money.USD, "1.25"}, {money.BTC, money.BTC, "1"},
			{money.USD, money.USD, "1"},
		} {
			if got, err := latest(t, d, c.base, c.quote); err != nil || got != c.want {
				t.Errorf("%s/%s: got %s, %v; want %s", c.base, c.quote, got, err, c.want)
			}
		}
		if _, err := latest(t, d, money.BTC, money.GBP); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a pair without price: %v", err)
		}
		clock.Advance(60*time.Second - time.Microsecond)
		if _, err := latest(t, d, money.BTC, money.EUR); err != nil {
			t.Errorf("just within a minute: %v", err)
		}
		clock.Advance(time.Microsecond)
		if _, err := latest(t, d, money.BTC, money.EUR); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after a minute: %v", err)
		}
		if _, err := latest(t, d, money.EUR, money.USD); err != nil {
			t.Errorf("fiat after a minute: %v", err)
		}
		one.prices = []Price{price(t, money.EUR, "0.75", time.Time{})} // 40 % below the stored price
		if err := r.Refresh(t.Context()); err == nil {
			t.Error("Refresh accepts a fiat price that differs by 40 %")
		}
		if got, err := latest(t, d, money.EUR, money.USD); err != nil || got != "1.25" {
			t.Errorf("after a rejected price: %s, %v", got, err)
		}
		clock.Advance(FiatLimit)
		if _, err := latest(t, d, money.EUR, money.USD); !errors.Is(err, ErrUnavailable) {
			t.Errorf("fiat after its limit: %v", err)
		}
		// A stored price that has expired does not prevent a much lower new one.
		_ = r.Refresh(t.Context())
		if got, err := latest(t, d, money.EUR, money.USD); err != nil || got != "0.75" {
			t.Errorf("after the old price expired: %s, %v", got, err)
		}
	})
}

func TestAnOlderObservationDoesNotReplaceANewerOne(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		f := &fixed{name: "f", prices: []Price{price(t, money.BTC, "50000", time.Time{})}}
		r := &Refresher{DB: d, Sources: []Source{f}, Quorum: 1}
		testkit.Check(t, r.Refresh(t.Context()))
		f.prices = []Price{price(t, money.BTC, "49000", clock.Now().Add(-5*time.Second))}
		testkit.Check(t, r.Refresh(t.Context()))
		if got, _ := latest(t, d, money.BTC, money.USD); got != "50000" {
			t.Errorf("got %s", got)
		}
	})
}

// What was paid before is valued at the price of its hour, or of the last hour with a price before it.
func TestPricesOfThePast(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		f := &fixed{name: "f"}
		r := &Refresher{DB: d, Sources: []Source{f}, Quorum: 1}
		start := clock.Now().Truncate(time.Hour)
		for _, c := range [][2]string{{"50000", "1.25"}, {"51000", "1.25"}, {"60000", "1.25"}} {
			f.prices = []Price{price(t, money.BTC, c[0], time.Time{}), price(t, money.EUR, c[1], time.Time{})}
			testkit.Check(t, r.Refresh(t.Context()))
			clock.Advance(40 * time.Minute)
		}
		for _, c := range []struct {
			base, quote money.Asset
			after       time.Duration
			want        string
		}{
			{money.BTC, money.USD, -time.Hour, "50000"}, {money.BTC, money.USD, 59 * time.Minute, "50000"},
			{money.BTC, money.USD, time.Hour, "60000"}, {money.BTC, money.USD, 100 * time.Hour, "60000"},
			{money.BTC, money.EUR, 0, "40000"}, {money.BTC, money.EUR, time.Hour, "48000"},
			{money.USD, money.EUR, 0, "0.8"}, {money.EUR, money.EUR, 0, "1"}, {money.GBP, money.USD, 0, ""},
		} {
			var got money.Rate
			err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
				got, err = Past(ctx, tx, c.base, c.quote, start.Add(c.after))
				return err
			})
			if c.want == "" && !errors.Is(err, ErrUnavailable) || c.want != "" && (err != nil || got.String() != c.want) {
				t.Errorf("%s/%s after %s: %s, %v; want %s", c.base, c.quote, c.after, got, err, c.want)
			}
		}
	})
}

func TestSandboxRefresh(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		testkit.Check(t, (&Refresher{DB: d, Sources: []Source{Sandbox()}, Quorum: 1}).Refresh(t.Context()))
		for pair, want := range map[[2]money.Asset]string{{money.BTC, money.USD}: "50000", {money.BTC, money.EUR}: "46000"} {
			if got, err := latest(t, d, pair[0], pair[1]); err != nil || !strings.HasPrefix(got, want) {
				t.Errorf("%v: got %s, %v; want %s", pair, got, err, want)
			}
		}
	})
}
