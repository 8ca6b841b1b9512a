// Package column pays through the API of Column (column.com): ACH, wire, and instant payments for which Column
// chooses RTP or FedNow.
//
// The payee's account is a counterparty, which is created before the transfer; an unused counterparty has no effect.
// Transfers are created with an Idempotency-Key, which Column keeps for 30 days. Column has no search by key: after
// an unknown outcome, the package lists the newest transfers of the account and compares them. Only then does it
// repeat the call with the same key, which returns the first transfer if there is one after all. An instant payment
// that Column or the network does not accept is made by same-day ACH.
package column

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// URL is the address of Column's API. Its sandbox has the same address; the API key selects it.
const URL = "https://api.column.com"

// Methods of payment, which are also the last parts of API paths.
const (
	ach      = "ach"
	wire     = "wire"
	realtime = "realtime"
)

// Limits of the networks, in cents.
const (
	sameDayLimit  = 1_000_000_00
	realtimeLimit = 10_000_000_00
)

// Limits of the search for a transfer with a key.
const (
	pageSize = 100
	maxPages = 20
)

// API implements bank.API.
type API struct{ client bankhttp.Client }

var (
	_ bank.API      = (*API)(nil)
	_ bank.Prenoter = (*API)(nil)
)

// New returns the API at a URL, with an API key. It does not connect.
func New(at, key string) (*API, error) {
	if at == "" || key == "" {
		return nil, errors.New("column: the URL or the API key is missing")
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(":"+key))
	return &API{bankhttp.Client{Name: "column", URL: at, Header: http.Header{"Authorization": {basic}}}}, nil
}

// Method implements bank.API. Column refuses instant payments to banks that do not take part.
func (a *API) Method(_ context.Context, o bank.Order) (string, error) {
	switch {
	case o.Collects():
		return ach, nil
	case o.Scheme == "fedwire":
		return wire, nil
	case o.Account.InstantLimit != "" && o.Account.AllowsInstant(o.Amount) && o.Amount.Units() <= realtimeLimit:
		return realtime, nil
	}
	return ach, nil
}

type object map[string]any

type counterparty struct {
	ID      string `json:"id"`
	Account string `json:"account_number"`
	Routing string `json:"routing_number"`
}

// transfer is a transfer of any method.
type transfer struct {
	ID           string `json:"id"`
	Amount       int64  `json:"amount"`
	Key          string `json:"idempotency_key"`
	Counterparty string `json:"counterparty_id"`
	Status       string `json:"status"`
	Reviewed     string `json:"manual_review_at"`
	Returns      []struct {
		Code string `json:"return_code"`
	} `json:"return_details"`
	Changes []struct {
		Code string `json:"change_code"`
		Data string `json:"corrected_data"` // as in the addenda record
	} `json:"notification_of_changes"`
}

// Create implements bank.API.
func (a *API) Create(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	to, err := o.Payee()
	if err != nil {
		return bank.Transfer{}, err
	}
	if o.Reverses != "" {
		return a.reverse(ctx, o)
	}
	if o.Method == wire && (to.Address.Town == "" || to.Address.Country == "") { // nothing was sent
		return bank.Transfer{Status: bank.TransferRejected, Code: bank.ReasonDestination,
			Info: "the address has no city or no country"}, nil
	}
	party, err := a.party(ctx, to, o.Method)
	if err != nil {
		if refused(err) { // no transfer was created
			return bank.Transfer{Status: bank.TransferRejected, Code: code(err)}, nil
		}
		return bank.Transfer{}, err
	}
	body := object{"amount": o.Amount.Units(), "currency_code": "USD", "bank_account_id": o.Account.Number,
		"counterparty_id": party.ID, "description": o.Remittance()}
	if o.Method == ach {
		body["type"], body["entry_class_code"] = "CREDIT", "PPD"
		if to.Business {
			body["entry_class_code"] = "CCD"
		}
		if o.Debit != "" {
			body["type"], body["entry_class_code"] = "DEBIT", string(o.Debit)
		}
		if body["company_entry_description"], err = o.EntryDescription(); err != nil {
			return bank.Transfer{}, err
		}
		body["company_name"], body["receiver_name"] = bankhttp.Cut(o.Payer(), 16), bankhttp.Cut(to.Name, 22)
		body["receiver_id"], body["same_day"] = o.Reference, o.Amount.Units() <= sameDayLimit && o.Debit == ""
		info := nacha.Remittance(o.Details.Invoice, o.Details.Description, o.Amount.Units())
		if info != "" && o.Debit != nacha.WebDebit { // a WEB entry has no addenda
			body["payment_related_info"] = info
		}
	}
	var t transfer
	if err := a.client.Post(ctx, "/transfers/"+o.Method, o.Key(), body, &t); err != nil {
		if refused(err) {
			return bank.Transfer{Status: bank.TransferRejected, Code: code(err), Fallback: fallback(o.Method)}, nil
		}
		return bank.Transfer{}, err
	}
	return a.read(ctx, o, t, t.Counterparty == party.ID)
}

// party creates the counterparty of a payee.
func (a *API) party(ctx context.Context, to bank.Payee, method string) (counterparty, error) {
	kind := map[bool]string{true: "savings", false: "checking"}[to.Savings]
	payee := object{"name": to.Name, "routing_number": to.Routing, "account_number": to.Account, "account_type": kind}
	if method == wire {
		address := object{"city": bankhttp.Cut(to.Address.Town, 35), "country_code": to.Address.Country}
		for name, text := range map[string]string{"line_1": bankhttp.Cut(to.Address.Street, 35),
			"line_2": bankhttp.Cut(to.Address.Line, 35), "state": bankhttp.Cut(to.Address.State, 35),
			"postal_code": bankhttp.Cut(to.Address.PostCode, 16)} {
			if text != "" {
				address[name] = text
			}
		}
		payee["wire"] = object{"beneficiary_name": to.Name, "beneficiary_address": address}
	}
	var party counterparty
	err := a.client.Post(ctx, "/counterparties", "", payee, &party)
	return party, err
}

// reasons maps the reasons for a reversal to Column's names.
var reasons = map[string]string{bank.ReversalDuplicate: "duplicated_entry",
	bank.ReversalPayee:  "incorrect_receiver_account",
	bank.ReversalAmount: "incorrect_amount", bank.ReversalDate: "credit_later_than_intended"}

// reverse creates the reversal of a transfer.
func (a *API) reverse(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	var t transfer
	err := a.client.Post(ctx, "/transfers/ach/"+url.PathEscape(o.Reverses)+"/reverse", o.Key(),
		object{"reason": reasons[o.Reason], "description": o.Remittance()}, &t)
	if refused(err) {
		return bank.Transfer{Status: bank.TransferRejected, Code: code(err)}, nil
	}
	if err != nil {
		return bank.Transfer{}, err
	}
	return a.read(ctx, o, t, false)
}

// refused reports whether Column refused a call because of its content, so that a repetition would be refused too. It
// returns false if the account lacks money, because a repetition may then succeed.
func refused(err error) bool {
	var f *bankhttp.Failure
	return errors.As(err, &f) && f.Status == http.StatusBadRequest && f.Type != "transfer_non_sufficient_fund" &&
		f.Type != "overdraft_not_allowed"
}

func code(err error) string {
	var f *bankhttp.Failure
	if errors.As(err, &f) && f.Type != "" {
		return f.Type
	}
	return "refused"
}

// fallback returns the method that replaces an instant payment that cannot be made, or "".
func fallback(method string) string {
	if method == realtime {
		return ach
	}
	return ""
}

// Find implements bank.API.
func (a *API) Find(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	t, err := a.find(ctx, o.Account.Number, o.Method, o.Key())
	switch {
	case errors.Is(err, bank.ErrNoTransfer) && o.Method == realtime: // the API may create it more than once
		return bank.Transfer{}, errRealtimeUnknown
	case err != nil:
		return bank.Transfer{}, err
	}
	return a.read(ctx, o, t, false)
}

// find returns the transfer of an account with a method and an idempotency key, or bank.ErrNoTransfer.
func (a *API) find(ctx context.Context, account, method, key string) (transfer, error) {
	query := url.Values{"bank_account_id": {account}, "limit": {fmt.Sprint(pageSize)}}
	for range maxPages {
		var list struct {
			Transfers []transfer `json:"transfers"`
			HasMore   bool       `json:"has_more"`
		}
		if err := a.client.Get(ctx, "/transfers/"+method+"?"+query.Encode(), &list); err != nil {
			return transfer{}, err
		}
		for _, t := range list.Transfers {
			if t.Key == key {
				return t, nil
			}
		}
		if !list.HasMore || len(list.Transfers) == 0 {
			return transfer{}, bank.ErrNoTransfer
		}
		query.Set("starting_after", list.Transfers[len(list.Transfers)-1].ID)
	}
	return transfer{}, errTooMany
}

// Errors of Find after which the transfer must not be created again. Staff must ask the bank.
var (
	errRealtimeUnknown = errors.New("column: an instant payment with an unknown outcome is not in the list of transfers")
	errTooMany         = errors.New("column: the transfer is not among the newest ones")
)

// Get implements bank.API.
func (a *API) Get(ctx context.Context, o bank.Order, id string) (bank.Transfer, error) {
	var t transfer
	if err := a.client.Get(ctx, "/transfers/"+o.Method+"/"+url.PathEscape(id), &t); err != nil {
		return bank.Transfer{}, err
	}
	return a.read(ctx, o, t, true)
}

// read converts a transfer after checking that it belongs to the order. Unless known is set, it also checks the
// counterparty.
func (a *API) read(ctx context.Context, o bank.Order, t transfer, known bool) (bank.Transfer, error) {
	if t.ID == "" {
		return bank.Transfer{}, errors.New("column: the response is not a transfer")
	}
	if t.Key != o.Key() || t.Amount != o.Amount.Units() {
		return bank.Transfer{}, fmt.Errorf("%w: %s", bank.ErrOther, t.ID)
	}
	if !known {
		to, err := o.Payee()
		if err != nil {
			return bank.Transfer{}, err
		}
		var of counterparty
		if err := a.client.Get(ctx, "/counterparties/"+url.PathEscape(t.Counterparty), &of); err != nil {
			return bank.Transfer{}, err
		}
		if of.Account != to.Account || of.Routing != to.Routing {
			return bank.Transfer{}, fmt.Errorf("%w: %s", bank.ErrOther, t.ID)
		}
	}
	read := bank.Transfer{ID: t.ID, Final: o.Method == realtime}
	switch status := strings.ToLower(t.Status); status {
	case "submitted", "acknowledged", "settled", "completed":
		if o.Method == ach && !o.Collects() || o.Collects() && status == "settled" || status == "completed" {
			read.Status = bank.TransferPaid
		}
	case "returned":
		read.Status, read.Code = bank.TransferReturned, t.returnCode()
	case "rejected", "canceled", "manual_review_rejected":
		read.Status, read.Code = bank.TransferRejected, status
		if status == "rejected" && t.Reviewed == "" { // rejected by the network, not by Column's review
			read.Fallback = fallback(o.Method)
		}
	}
	read.Changes = t.wanted()
	return read, nil
}

// returnCode returns the reason code of a returned transfer, such as R03.
func (t transfer) returnCode() string {
	code := "returned"
	for _, r := range t.Returns {
		code = r.Code
	}
	return code
}

// wanted returns the corrections that the payee's bank asks for.
func (t transfer) wanted() (all []bank.Wanted) {
	for _, c := range t.Changes {
		all = append(all, bank.Wanted{Code: c.Code, Data: c.Data})
	}
	return all
}
