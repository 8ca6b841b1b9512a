package rates

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
)

// The default base URLs of the sources. A constructor accepts another URL, for a proxy or a test; "" means the
// default.
const (
	CoinbaseURL = "https://api.exchange.coinbase.com"
	KrakenURL   = "https://api.kraken.com"
	BitstampURL = "https://www.bitstamp.net"
	ECBURL      = "https://www.ecb.europa.eu"
)

// maxAnswer is the maximum size of a response in bytes. The longest response, the daily reference rates, has 2 KB.
const maxAnswer = 1 << 20

// market is a USD pair of an exchange, with the exchange's code for it.
type market struct {
	asset money.Asset
	code  string
}

// exchange is a source with one public ticker per market.
type exchange struct {
	name    string
	client  *http.Client
	base    string
	markets []market
	path    func(code string) string
	read    func(body []byte) (price string, at time.Time, err error)
}

func (e *exchange) Name() string { return e.name }

func (e *exchange) Fetch(ctx context.Context) ([]Price, error) {
	var prices []Price
	var problems []error
	for _, m := range e.markets {
		p, err := e.fetch(ctx, m)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", m.code, err))
			continue
		}
		prices = append(prices, p)
	}
	return prices, errors.Join(problems...)
}

func (e *exchange) fetch(ctx context.Context, m market) (Price, error) {
	body, err := get(ctx, e.client, e.base+e.path(m.code))
	if err != nil {
		return Price{}, err
	}
	text, at, err := e.read(body)
	if err != nil {
		return Price{}, err
	}
	rate, err := money.ParseRate(m.asset, money.USD, text)
	return Price{Rate: rate, At: at}, err
}

// get returns the body of a successful GET request.
func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "stipend")
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("response status %s", res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the response has more than %d bytes", maxAnswer)
	}
	return body, err
}

// trimBase returns the base URL, or the default, without a slash at the end.
func trimBase(base, published string) string { return strings.TrimRight(cmp.Or(base, published), "/") }

// Coinbase returns a source for the price of the last trade on Coinbase Exchange: GET /products/BTC-USD/ticker. It
// has no market for USDC, because Coinbase treats USDC as USD. A nil client means http.DefaultClient.
func Coinbase(client *http.Client, base string) Source {
	return &exchange{
		name: "coinbase", client: client, base: trimBase(base, CoinbaseURL),
		markets: []market{{money.BTC, "BTC-USD"}, {money.ETH, "ETH-USD"}, {money.USDT, "USDT-USD"}},
		path:    func(code string) string { return "/products/" + code + "/ticker" },
		read: func(body []byte) (string, time.Time, error) {
			var t struct {
				Price string    `json:"price"`
				Time  time.Time `json:"time"` // time of the last trade
			}
			err := json.Unmarshal(body, &t)
			return t.Price, t.Time, err
		},
	}
}

// Kraken returns a source for the price of the last trade on Kraken: GET /0/public/Ticker?pair=XBTUSD. Errors have
// status 200 and a list of errors. The response names a pair differently than the request (XXBTZUSD), so each request
// has one pair.
func Kraken(client *http.Client, base string) Source {
	return &exchange{
		name: "kraken", client: client, base: trimBase(base, KrakenURL),
		markets: []market{{money.BTC, "XBTUSD"}, {money.ETH, "ETHUSD"}, {money.USDC, "USDCUSD"}, {money.USDT, "USDTUSD"}},
		path:    func(code string) string { return "/0/public/Ticker?pair=" + url.QueryEscape(code) },
		read: func(body []byte) (string, time.Time, error) {
			var t struct {
				Error  []string `json:"error"`
				Result map[string]struct {
					Close []string `json:"c"` // price and volume of the last trade
				} `json:"result"`
			}
			if err := json.Unmarshal(body, &t); err != nil {
				return "", time.Time{}, err
			}
			if len(t.Error) > 0 {
				return "", time.Time{}, fmt.Errorf("response %s", strings.Join(t.Error, ", "))
			}
			if len(t.Result) != 1 {
				return "", time.Time{}, fmt.Errorf("the response has %d pairs, want 1", len(t.Result))
			}
			for _, pair := range t.Result {
				if len(pair.Close) > 0 {
					return pair.Close[0], time.Time{}, nil
				}
			}
			return "", time.Time{}, errors.New("the response has no last trade")
		},
	}
}

// Bitstamp returns a source for the price of the last trade on Bitstamp: GET /api/v2/ticker/btcusd/.
func Bitstamp(client *http.Client, base string) Source {
	return &exchange{
		name: "bitstamp", client: client, base: trimBase(base, BitstampURL),
		markets: []market{{money.BTC, "btcusd"}, {money.ETH, "ethusd"}, {money.USDC, "usdcusd"}, {money.USDT, "usdtusd"}},
		path:    func(code string) string { return "/api/v2/ticker/" + code + "/" },
		read: func(body []byte) (string, time.Time, error) {
			var t struct {
				Last      string `json:"last"`
				Timestamp string `json:"timestamp"` // seconds since 1970
			}
			if err := json.Unmarshal(body, &t); err != nil {
				return "", time.Time{}, err
			}
			seconds, err := strconv.ParseInt(t.Timestamp, 10, 64)
			if err != nil {
				return "", time.Time{}, fmt.Errorf("timestamp: %w", err)
			}
			return t.Last, time.Unix(seconds, 0).UTC(), nil
		},
	}
}

type ecb struct {
	client *http.Client
	base   string
}

// ECB returns a source for the euro reference rates of the European Central Bank, which are published each working
// day around 16:00 in Frankfurt: GET /stats/eurofxref/eurofxref-daily.xml. They are converted to USD with the bank's
// USD rate.
func ECB(client *http.Client, base string) Source {
	return &ecb{client, trimBase(base, ECBURL)}
}

func (*ecb) Name() string { return "ecb" }

func (e *ecb) Fetch(ctx context.Context) ([]Price, error) {
	body, err := get(ctx, e.client, e.base+"/stats/eurofxref/eurofxref-daily.xml")
	if err != nil {
		return nil, err
	}
	return readECB(body)
}

// readECB parses the reference rates.
func readECB(body []byte) ([]Price, error) {
	var envelope struct {
		Day struct {
			Time  string `xml:"time,attr"`
			Rates []struct {
				Currency string `xml:"currency,attr"`
				Rate     string `xml:"rate,attr"` // units of the currency per euro
			} `xml:"Cube"`
		} `xml:"Cube>Cube"`
	}
	if err := xml.Unmarshal(body, &envelope); err != nil {
		return nil, err
	}
	day, err := time.Parse(time.DateOnly, envelope.Day.Time)
	if err != nil {
		return nil, fmt.Errorf("date of the rates: %w", err)
	}
	at := day.Add(15 * time.Hour) // 16:00 in Frankfurt in winter
	perEuro := map[money.Asset]money.Rate{}
	var order []money.Asset
	var problems []error
	for _, c := range envelope.Day.Rates {
		asset, ok := money.Lookup(c.Currency)
		if !ok || asset.IsCrypto() {
			continue
		}
		rate, err := money.ParseRate(money.EUR, asset, c.Rate)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		perEuro[asset] = rate
		order = append(order, asset)
	}
	euro, ok := perEuro[money.USD]
	if !ok {
		return nil, errors.Join(append(problems, errors.New("the rates lack USD"))...)
	}
	prices := []Price{{Rate: euro, At: at}}
	for _, asset := range order {
		if asset == money.USD {
			continue
		}
		rate, err := perEuro[asset].Inverse()
		if err == nil {
			rate, err = rate.Cross(euro)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		prices = append(prices, Price{Rate: rate, At: at})
	}
	return prices, errors.Join(problems...)
}
