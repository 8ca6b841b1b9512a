// Package wise pays through the API of Wise (wise.com) from a balance of a business profile, in the balance's
// currency or in others.
//
// A payment consists of a recipient, a quote and a transfer, which cost nothing, and of the funding of the transfer
// from the balance. The quote fixes the amount that the payee receives; the cost is the amount that Wise takes from
// the balance. The transfer's customerTransactionId is derived from the payment's key: a repeated call returns the
// first transfer, and a transfer is funded only once. A transfer without funding counts as not found, so that the
// next call funds it.
package wise

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
)

// URL is the address of Wise's API. Its sandbox is https://api.wise-sandbox.com.
const URL = "https://api.wise.com"

// method is the only method of payment; Wise chooses the network.
const method = "balance"

// Limits of the search for a transfer with a key.
const (
	pageSize = 100
	maxPages = 20
)

// API implements bank.API.
type API struct {
	client bankhttp.Client
	forms  bankhttp.Client // for the forms of recipients, in the version that includes the name
}

var _ bank.API = (*API)(nil)

// New returns the API at a URL, with an API token. It does not connect.
func New(at, token string) (*API, error) {
	if at == "" || token == "" {
		return nil, errors.New("wise: the URL or the API token is missing")
	}
	header := http.Header{"Authorization": {"Bearer " + token}}
	a := &API{client: bankhttp.Client{Name: "wise", URL: at, Header: header}}
	a.forms = a.client
	a.forms.Header = header.Clone()
	a.forms.Header.Set("Accept-Minor-Version", "1")
	return a, nil
}

// CheckAccount returns an error if an account pays a currency that no destination has. Whether Wise pays the currency
// is only known with the first quote.
func CheckAccount(a bank.Account) error {
	for _, currency := range append([]money.Asset{a.Currency}, a.Pays...) {
		if !slices.Contains(country.Currencies(), string(currency)) {
			return fmt.Errorf("the bank account %s cannot pay %s, because no destination has it; remove the currency", a.ID,
				currency)
		}
	}
	return nil
}

// Method implements bank.API.
func (a *API) Method(context.Context, bank.Order) (string, error) { return method, nil }

type object map[string]any

// transfer is a transfer at Wise.
type transfer struct {
	ID       json.Number `json:"id"`
	Account  json.Number `json:"targetAccount"`
	Quote    string      `json:"quoteUuid"`
	Status   string      `json:"status"`
	Key      string      `json:"customerTransactionId"`
	Currency string      `json:"targetCurrency"`
	Amount   json.Number `json:"targetValue"`
}

// transactionID returns the customerTransactionId of an order, a UUID. It depends on the profile, because two
// profiles may have payments with the same key.
func transactionID(o bank.Order) string {
	b := sha256.Sum256([]byte(o.Account.Profile + " " + o.Key()))
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80 // version 8: defined by the application
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// Create implements bank.API.
func (a *API) Create(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	t, err := a.order(ctx, o)
	if rejected, ok := refusal(err); ok { // an earlier call may have created and funded the transfer
		if t, err = a.find(ctx, o); errors.Is(err, bank.ErrNoTransfer) {
			return rejected, nil
		}
	}
	if err != nil {
		return bank.Transfer{}, err
	}
	if t.Status == waiting {
		paid, err := a.payments(ctx, o, t)
		if err == nil && paid.Sign() == 0 {
			err = a.fund(ctx, o, t)
		}
		if err != nil {
			return bank.Transfer{}, err
		}
		return bank.Transfer{ID: t.ID.String()}, nil // the next check reads the cost
	}
	return a.read(ctx, o, t)
}

// errIncomplete reports that a destination lacks a field that Wise requires.
type errIncomplete struct{ error }

// order creates the recipient, the quote and the transfer of an order, without funding it.
func (a *API) order(ctx context.Context, o bank.Order) (t transfer, err error) {
	first, err := a.quote(ctx, o, "") // required fields depend on the profile, the currencies and the amount
	if err != nil {
		return t, err
	}
	to, err := a.recipient(ctx, o, first)
	if err != nil {
		return t, err
	}
	var account struct {
		ID json.Number `json:"id"`
	}
	if err := a.client.Post(ctx, "/v1/accounts", "", to, &account); err != nil {
		return t, err
	}
	quote, err := a.quote(ctx, o, account.ID)
	if err != nil {
		return t, err
	}
	if err := a.client.Post(ctx, "/v1/transfers", "", object{
		"targetAccount": account.ID, "quoteUuid": quote, "customerTransactionId": transactionID(o),
		"details": object{"reference": bankhttp.Cut(o.Remittance(), referenceLength(o))},
	}, &t); err != nil {
		return t, err
	}
	return t, a.check(ctx, o, t, t.Account == account.ID)
}

// quote creates a quote for an order and returns its ID. The quote is for the recipient account unless account is
// empty.
func (a *API) quote(ctx context.Context, o bank.Order, account json.Number) (string, error) {
	body := object{"sourceCurrency": o.Account.Currency, "targetCurrency": o.Amount.Asset(),
		"targetAmount": json.Number(o.Amount.String()), "preferredPayIn": "BALANCE"}
	if account != "" {
		body["targetAccount"] = account
	}
	var quote struct {
		ID string `json:"id"`
	}
	err := a.client.Post(ctx, "/v3/profiles/"+url.PathEscape(o.Account.Profile)+"/quotes", "", body, &quote)
	return quote.ID, err
}

// refusal converts an error of order to a rejected transfer. It returns false unless Wise refused the content, so
// that a repetition would be refused too.
func refusal(err error) (bank.Transfer, bool) {
	var missing errIncomplete
	if errors.As(err, &missing) {
		return bank.Transfer{Status: bank.TransferRejected, Code: bank.ReasonDestination, Info: missing.Error()}, true
	}
	var f *bankhttp.Failure
	if errors.As(err, &f) && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity) {
		return bank.Transfer{Status: bank.TransferRejected, Code: cmp.Or(f.Type, "refused")}, true
	}
	return bank.Transfer{}, false
}

// fund pays for a transfer from the balance. After an error, the transfer may or may not be funded.
func (a *API) fund(ctx context.Context, o bank.Order, t transfer) error {
	var funded struct {
		Status string `json:"status"`
		Code   string `json:"errorCode"`
	}
	path := "/v3/profiles/" + url.PathEscape(o.Account.Profile) + "/transfers/" + t.ID.String() + "/payments"
	err := a.client.Post(ctx, path, "", object{"type": "BALANCE"}, &funded)
	var f *bankhttp.Failure
	switch {
	case errors.As(err, &f) && f.Status == http.StatusForbidden:
		return fmt.Errorf("wise: the profile may not pay by API; Wise does not allow it to personal tokens of profiles "+
			"in the UK and the EEA: %w", err)
	case err != nil:
		return err
	case funded.Status != "COMPLETED":
		return fmt.Errorf("wise: transfer %s is not funded: %s", t.ID, cmp.Or(funded.Code, funded.Status))
	}
	return nil
}

// Find implements bank.API.
func (a *API) Find(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	t, err := a.find(ctx, o)
	if err != nil {
		return bank.Transfer{}, err
	}
	return a.read(ctx, o, t)
}

// find returns the transfer with the key of an order, even if it is not funded, or bank.ErrNoTransfer.
func (a *API) find(ctx context.Context, o bank.Order) (transfer, error) {
	query := url.Values{"profile": {o.Account.Profile}, "targetCurrency": {string(o.Amount.Asset())},
		"limit": {strconv.Itoa(pageSize)}}
	for page := range maxPages {
		query.Set("offset", strconv.Itoa(page*pageSize))
		var list []transfer
		if err := a.client.Get(ctx, "/v1/transfers?"+query.Encode(), &list); err != nil {
			return transfer{}, err
		}
		if i := slices.IndexFunc(list, func(t transfer) bool { return t.Key == transactionID(o) }); i >= 0 {
			return list[i], a.check(ctx, o, list[i], false)
		}
		if len(list) < pageSize {
			return transfer{}, bank.ErrNoTransfer
		}
	}
	return transfer{}, errors.New("wise: the transfer is not among the newest ones; look for it at Wise")
}

// Get implements bank.API.
func (a *API) Get(ctx context.Context, o bank.Order, id string) (bank.Transfer, error) {
	var t transfer
	if err := a.client.Get(ctx, "/v1/transfers/"+url.PathEscape(id), &t); err != nil {
		return bank.Transfer{}, err
	}
	if err := a.check(ctx, o, t, true); err != nil {
		return bank.Transfer{}, err
	}
	read, err := a.read(ctx, o, t)
	if errors.Is(err, bank.ErrNoTransfer) { // funded already; the new status will follow
		return bank.Transfer{ID: t.ID.String()}, nil
	}
	return read, err
}

// check returns ErrOther unless a transfer belongs to the order. If known is not set, it also compares the
// recipient's account.
func (a *API) check(ctx context.Context, o bank.Order, t transfer, known bool) error {
	if t.ID == "" {
		return errors.New("wise: the response is not a transfer")
	}
	other := fmt.Errorf("%w: %s", bank.ErrOther, t.ID)
	if t.Key != transactionID(o) || t.Currency != string(o.Amount.Asset()) {
		return other
	}
	if amount, err := parse(o.Amount.Asset(), t.Amount); err != nil || amount != o.Amount {
		return other
	}
	if known {
		return nil
	}
	to, err := o.Receiver()
	if err != nil {
		return err
	}
	var account struct {
		Details map[string]any `json:"details"`
	}
	if err := a.client.Get(ctx, "/v1/accounts/"+t.Account.String(), &account); err != nil {
		return err
	}
	if !slices.ContainsFunc(numbers, func(name string) bool {
		theirs, _ := account.Details[name].(string)
		return compact(theirs) == compact(to.Account)
	}) {
		return other
	}
	return nil
}

// compact returns the letters and digits of a text, in upper case.
func compact(s string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, s))
}

// waiting is the status of a transfer that is not funded.
const waiting = "incoming_payment_waiting"

// read converts a transfer that belongs to the order. A transfer is paid as soon as it is funded, because the money
// then leaves the balance. It returns ErrNoTransfer if the transfer is not funded.
func (a *API) read(ctx context.Context, o bank.Order, t transfer) (bank.Transfer, error) {
	read := bank.Transfer{ID: t.ID.String()}
	if t.Status == "charged_back" {
		return read, fmt.Errorf("wise: transfer %s is charged back; ask Wise what happened to its money", t.ID)
	}
	cost, err := a.payments(ctx, o, t)
	switch {
	case err != nil:
		return read, err
	case cost.Sign() > 0: // the money left the balance; if the payee cannot be paid, status funds_refunded follows
		read.Status = bank.TransferPaid
		if t.Status == "funds_refunded" {
			read.Status, read.Code = bank.TransferReturned, t.Status
		}
		read.Cost = cost
		read.Price, err = a.price(ctx, o, t, cost)
		return read, err
	case t.Status == waiting:
		return read, bank.ErrNoTransfer
	case t.Status == "cancelled" || t.Status == "funds_refunded":
		read.Status, read.Code = bank.TransferRejected, t.Status
	}
	return read, nil // funded; the list of payments will follow
}

// payments returns the amount taken from the balance for a transfer, in the balance's currency; zero if the transfer
// is not funded.
func (a *API) payments(ctx context.Context, o bank.Order, t transfer) (money.Amount, error) {
	var list []struct {
		Amount   json.Number `json:"amount"`
		Currency money.Asset `json:"currency"`
	}
	sum := money.Zero(o.Account.Currency)
	if err := a.client.Get(ctx, "/v1/transfers/"+t.ID.String()+"/payments", &list); err != nil {
		return sum, err
	}
	for _, p := range list {
		x, err := parse(p.Currency, p.Amount)
		if err != nil {
			return sum, fmt.Errorf("wise: a payment for transfer %s: %w", t.ID, err)
		}
		if sum, err = sum.Add(x); err != nil {
			return sum, fmt.Errorf("wise: a payment for transfer %s: %w", t.ID, err)
		}
	}
	return sum, nil
}

// price returns Wise's price, which is a part of the cost of a funded transfer.
func (a *API) price(ctx context.Context, o bank.Order, t transfer, cost money.Amount) (money.Amount, error) {
	if o.Account.Currency == o.Amount.Asset() {
		return cost.Sub(o.Amount)
	}
	var quote struct {
		Options []struct {
			PayIn string `json:"payIn"`
			Fee   struct {
				Total json.Number `json:"total"`
			} `json:"fee"`
		} `json:"paymentOptions"`
	}
	path := "/v3/profiles/" + url.PathEscape(o.Account.Profile) + "/quotes/" + url.PathEscape(t.Quote)
	if err := a.client.Get(ctx, path, &quote); err != nil {
		return cost, err
	}
	for _, option := range quote.Options {
		if option.PayIn == "BALANCE" {
			return round(o.Account.Currency, option.Fee.Total)
		}
	}
	return money.Zero(o.Account.Currency), nil
}

// parse converts a JSON number to an amount. It returns an error if the number has more decimals than the currency.
func parse(a money.Asset, n json.Number) (money.Amount, error) {
	amount, err := round(a, n)
	if err != nil {
		return amount, err
	}
	given, _ := new(big.Rat).SetString(n.String())
	if exact, _ := new(big.Rat).SetString(amount.String()); exact == nil || exact.Cmp(given) != 0 {
		return amount, fmt.Errorf("%s has more decimals than %s", n, a)
	}
	return amount, nil
}

// round converts a JSON number to an amount, rounded to the decimals of the currency.
func round(a money.Asset, n json.Number) (money.Amount, error) {
	x, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return money.Amount{}, fmt.Errorf("%q is not an amount", n)
	}
	text, negative := strings.CutPrefix(x.FloatString(a.Exponent()), "-")
	amount, err := money.Parse(a, text)
	if negative {
		amount = amount.Neg()
	}
	return amount, err
}
