// Package increase pays through the API of Increase (increase.com): ACH, wire, and instant payments over RTP and
// FedNow.
//
// Each transfer is created with an Idempotency-Key, which can also be used to find the transfer. An instant payment
// is chosen if the account has a source account number, the amount is within the limits, and the payee's bank takes
// part. If the network rejects the payment because the bank cannot be reached or does not accept it, the payment is
// made by same-day ACH. ACH above the limit of same-day ACH settles on the next business day.
package increase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// URL is the address of Increase's API. Its sandbox is https://sandbox.increase.com.
const URL = "https://api.increase.com"

// Methods of payment.
const (
	ach    = "ach"
	wire   = "wire"
	rtp    = "rtp"
	fedNow = "fednow"
)

// paths maps each method to the API path of its transfers.
var paths = map[string]string{ach: "/ach_transfers", wire: "/wire_transfers", rtp: "/real_time_payments_transfers",
	fedNow: "/fednow_transfers"}

// Limits of the networks, in cents.
const (
	sameDayLimit = 1_000_000_00
	rtpLimit     = 10_000_000_00
	fedNowLimit  = 10_000_000_00
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
		return nil, errors.New("increase: the URL or the API key is missing")
	}
	return &API{bankhttp.Client{Name: "increase", URL: at, Header: http.Header{"Authorization": {"Bearer " + key}}}}, nil
}

// Method implements bank.API.
func (a *API) Method(ctx context.Context, o bank.Order) (string, error) {
	switch {
	case o.Collects():
		return ach, nil
	case o.Scheme == "fedwire":
		return wire, nil
	}
	cents := o.Amount.Units()
	if o.Account.Source == "" || !o.Account.AllowsInstant(o.Amount) || cents > rtpLimit {
		return ach, nil
	}
	to, err := o.Payee()
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			RTP    string `json:"real_time_payments_transfers"`
			FedNow string `json:"fednow_transfers"`
		} `json:"data"`
	}
	query := url.Values{"routing_number": {to.Routing}}
	if err := a.client.Get(ctx, "/routing_numbers?"+query.Encode(), &list); err != nil {
		return "", err
	}
	for _, r := range list.Data {
		switch {
		case r.RTP == "supported":
			return rtp, nil
		case r.FedNow == "supported" && cents <= fedNowLimit:
			return fedNow, nil
		}
	}
	return ach, nil
}

// transfer is a transfer of any method.
type transfer struct {
	ID            string `json:"id"`
	AccountNumber string `json:"account_number"`
	RoutingNumber string `json:"routing_number"`
	Amount        int64  `json:"amount"`
	Key           string `json:"idempotency_key"`
	Status        string `json:"status"`
	Settlement    *struct {
		At string `json:"settled_at"`
	} `json:"settlement"`
	Return *struct {
		Code string `json:"raw_return_reason_code"`
		Info string `json:"addenda_information"`
	} `json:"return"`
	Reversal *struct {
		Amount int64  `json:"amount"`
		Code   string `json:"return_reason_code"`
		Info   string `json:"return_reason_additional_information"`
	} `json:"reversal"`
	Rejection *struct {
		Code string `json:"reject_reason_code"`
		Info string `json:"reject_reason_additional_information"`
	} `json:"rejection"`
	Changes []struct {
		Code    string `json:"change_code"`
		Account string `json:"corrected_account_number"`
		Routing string `json:"corrected_routing_number"`
		Funding string `json:"corrected_account_funding"`
	} `json:"notifications_of_change"`
}

type object map[string]any

// units returns the amount of an order's transfer in cents: negative if the order takes money from the payee's
// account.
func units(o bank.Order) int64 {
	if o.Collects() {
		return -o.Amount.Units()
	}
	return o.Amount.Units()
}

// request returns the body of the call that creates an order's transfer.
func request(o bank.Order) (object, error) {
	to, err := o.Payee()
	if err != nil {
		return nil, err
	}
	text := o.Remittance()
	all := object{"amount": units(o), "account_number": to.Account, "routing_number": to.Routing}
	switch o.Method {
	case ach:
		all["account_id"], all["statement_descriptor"] = o.Account.Number, text
		all["company_name"], all["individual_name"] = bankhttp.Cut(o.Payer(), 16), bankhttp.Cut(to.Name, 22)
		all["individual_id"] = o.Reference
		all["funding"] = map[bool]string{true: "savings", false: "checking"}[to.Savings]
		all["destination_account_holder"], all["standard_entry_class_code"] = "individual", "prearranged_payments_and_deposit"
		if to.Business {
			all["destination_account_holder"], all["standard_entry_class_code"] = "business", "corporate_credit_or_debit"
		}
		switch o.Debit {
		case nacha.CompanyDebit:
			all["standard_entry_class_code"] = "corporate_credit_or_debit"
		case nacha.WebDebit:
			all["standard_entry_class_code"] = "internet_initiated"
		}
		if all["company_entry_description"], err = o.EntryDescription(); err != nil {
			return nil, err
		}
		// The payee's bank sees the descriptor only if there is no company name. A WEB entry has no addenda records.
		info := nacha.Remittance(o.Details.Invoice, o.Details.Description, o.Amount.Units())
		if info != "" && o.Debit != nacha.WebDebit {
			all["addenda"] = object{"category": "freeform",
				"freeform": object{"entries": []object{{"payment_related_information": info}}}}
		}
		schedule := "same_day"
		if o.Amount.Units() > sameDayLimit || o.Debit != "" {
			schedule = "future_dated"
		}
		all["preferred_effective_date"] = object{"settlement_schedule": schedule}
	case wire:
		all["account_id"] = o.Account.Number
		address, err := structured(to.Address)
		if err != nil {
			return nil, err
		}
		all["creditor"] = object{"name": bankhttp.Cut(to.Name, 35), "address": object{"structured": address}}
		all["remittance"] = object{"category": "unstructured", "unstructured": object{"message": bankhttp.Cut(text, 140)}}
	case rtp:
		all["source_account_number_id"], all["creditor_name"] = o.Account.Source, bankhttp.Cut(to.Name, 140)
		all["ultimate_debtor_name"] = bankhttp.Cut(o.Payer(), 140)
		all["unstructured_remittance_information"] = bankhttp.Cut(text, 140)
	case fedNow:
		all["account_id"], all["source_account_number_id"] = o.Account.Number, o.Account.Source
		all["creditor_name"], all["debtor_name"] = bankhttp.Cut(to.Name, 140), bankhttp.Cut(o.Account.Name, 140)
		all["unstructured_remittance_information"] = bankhttp.Cut(text, 140)
		if to.Address.Town != "" {
			all["creditor_address"] = object{"line1": to.Address.Street, "city": to.Address.Town, "state": to.Address.State,
				"postal_code": to.Address.PostCode}
		}
	default:
		return nil, fmt.Errorf("increase: %s has the unknown method %q", o.Reference, o.Method)
	}
	return all, nil
}

// errAddress reports that the payee's address lacks a part that a wire must have.
var errAddress = errors.New("increase: the payee's address has no city or no country")

// structured returns the parts of the address of a wire's creditor. It returns errAddress if there is no city or no
// country, because banks refuse such wires.
func structured(a iso20022.Address) (object, error) {
	if a.Town == "" || a.Country == "" {
		return nil, errAddress
	}
	parts := object{"city": bankhttp.Cut(a.Town, 35), "country": a.Country}
	for name, text := range map[string]string{"line1": bankhttp.Cut(a.Street, 35), "line2": bankhttp.Cut(a.Line, 35),
		"postal_code": bankhttp.Cut(a.PostCode, 16), "state": bankhttp.Cut(a.State, 35)} {
		if text != "" {
			parts[name] = text
		}
	}
	return parts, nil
}

// Create implements bank.API.
func (a *API) Create(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	body, err := request(o)
	switch {
	case errors.Is(err, errAddress): // nothing was sent
		return bank.Transfer{Status: bank.TransferRejected, Code: bank.ReasonDestination,
			Info: "the address has no city or no country"}, nil
	case err != nil:
		return bank.Transfer{}, err
	}
	var t transfer
	err = a.client.Post(ctx, paths[o.Method], o.Key(), body, &t)
	var f *bankhttp.Failure
	if errors.As(err, &f) {
		switch {
		case f.Type == "idempotency_key_already_used_error":
			return bank.Transfer{}, fmt.Errorf("%w: %w", bank.ErrOther, err)
		case f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity:
			// The call was refused before a transfer was created, and the same content would be refused again.
			return bank.Transfer{Status: bank.TransferRejected, Code: f.Type, Fallback: fallback(o.Method)}, nil
		}
	}
	if err != nil {
		return bank.Transfer{}, err
	}
	return t.read(o)
}

// Find implements bank.API.
func (a *API) Find(ctx context.Context, o bank.Order) (bank.Transfer, error) {
	var list struct {
		Data []transfer `json:"data"`
	}
	if err := a.client.Get(ctx, paths[o.Method]+"?"+url.Values{"idempotency_key": {o.Key()}}.Encode(), &list); err != nil {
		return bank.Transfer{}, err
	}
	if len(list.Data) == 0 {
		return bank.Transfer{}, bank.ErrNoTransfer
	}
	return list.Data[0].read(o)
}

// Get implements bank.API.
func (a *API) Get(ctx context.Context, o bank.Order, id string) (bank.Transfer, error) {
	var t transfer
	if err := a.client.Get(ctx, paths[o.Method]+"/"+url.PathEscape(id), &t); err != nil {
		return bank.Transfer{}, err
	}
	return t.read(o)
}

// fallback returns the method that replaces an instant payment that the network cannot make, or "".
func fallback(method string) string {
	if method == rtp || method == fedNow {
		return ach
	}
	return ""
}

// final are the rejections of instant payments that would also apply to an ACH payment to the same account.
var final = []string{"account_closed", "account_blocked", "invalid_creditor_account_number",
	"invalid_creditor_financial_institution_identifier", "end_customer_deceased"}

// codes maps Increase's reasons to the codes of ISO 20022.
var codes = map[string]string{"account_closed": "AC04", "account_blocked": "AC06",
	"invalid_creditor_account_number": "AC03", "invalid_creditor_financial_institution_identifier": "RC04",
	"end_customer_deceased": "MD07"}

// changes maps Increase's notifications of change about the payee's account to their codes.
var changes = map[string]string{
	"incorrect_account_number": "C01", "incorrect_routing_number": "C02",
	"incorrect_routing_number_and_account_number":                  "C03",
	"incorrect_transaction_code":                                   "C05",
	"incorrect_account_number_and_transaction_code":                "C06",
	"incorrect_routing_number_account_number_and_transaction_code": "C07",
}

// read converts a transfer after checking that it belongs to the order.
func (t transfer) read(o bank.Order) (bank.Transfer, error) {
	to, err := o.Payee()
	if err != nil {
		return bank.Transfer{}, err
	}
	if t.ID == "" {
		return bank.Transfer{}, errors.New("increase: the response is not a transfer")
	}
	if t.Key != o.Key() || t.Amount != units(o) || t.AccountNumber != to.Account || t.RoutingNumber != to.Routing {
		return bank.Transfer{}, fmt.Errorf("%w: %s", bank.ErrOther, t.ID)
	}
	read := bank.Transfer{ID: t.ID, Final: o.Method == rtp || o.Method == fedNow}
	switch t.Status {
	case "submitted":
		if o.Method == ach && (!o.Collects() || t.Settlement != nil) {
			// The transfer is in a file at the Federal Reserve, and its transaction is posted.
			read.Status = bank.TransferPaid
		}
	case "complete":
		read.Status = bank.TransferPaid
	case "returned", "reversed":
		read.Status, read.Code = bank.TransferReturned, "returned"
		if t.Return != nil {
			read.Code, read.Info = t.Return.Code, t.Return.Info
		}
		if t.Reversal != nil {
			read.Code, read.Info, read.Back = t.Reversal.Code, t.Reversal.Info, money.New(money.USD, t.Reversal.Amount)
		}
	case "rejected", "reviewing_rejected", "canceled":
		read.Status, read.Code = bank.TransferRejected, t.Status
		if t.Rejection != nil {
			read.Code, read.Info = t.Rejection.Code, t.Rejection.Info
			if code := codes[read.Code]; code != "" {
				read.Code = code
			}
			if !slices.Contains(final, t.Rejection.Code) {
				read.Fallback = fallback(o.Method)
			}
		}
	}
	for _, c := range t.Changes {
		code := changes[c.Code]
		w := bank.Wanted{Code: cmp.Or(code, c.Code)} // any other change is about the operator's data
		if code != "" {
			w.Data = nacha.Correction{Routing: c.Routing, Account: c.Account, Type: c.Funding}.Corrected(code)
		}
		read.Changes = append(read.Changes, w)
	}
	return read, nil
}

// prenotes is the path of prenotes.
const prenotes = "/ach_prenotifications"

// prenote is a prenote as Increase reports it.
type prenote struct {
	ID     string `json:"id"`
	Key    string `json:"idempotency_key"`
	Status string `json:"status"`
	Return *struct {
		Code string `json:"return_reason_code"`
	} `json:"prenotification_return"`
	Changes []struct {
		Code string `json:"change_code"`
		Data string `json:"corrected_data"`
	} `json:"notifications_of_change"`
}

// returnCodes has the codes of the most frequent reasons for which prenotes are returned.
var returnCodes = map[string]string{"account_closed": "R02", "no_account": "R03",
	"invalid_account_number_structure": "R04", "non_transaction_account": "R20"}

// Prenote implements bank.Prenoter.
func (a *API) Prenote(ctx context.Context, o bank.PrenoteOrder) (bank.Prenote, error) {
	body := object{"account_id": o.Account.Number, "account_number": o.Payee.Account, "routing_number": o.Routing,
		"company_name": bankhttp.Cut(o.Account.Name, 16), "company_entry_description": nacha.Prenote,
		"credit_debit_indicator": "credit", "individual_id": bankhttp.Cut(o.Key, 15),
		"individual_name":           bankhttp.Cut(o.Payee.Name, 22),
		"standard_entry_class_code": "prearranged_payments_and_deposit"}
	if o.Business {
		body["standard_entry_class_code"] = "corporate_credit_or_debit"
	}
	var p prenote
	var f *bankhttp.Failure
	err := a.client.Post(ctx, prenotes, o.Key, body, &p)
	switch {
	case errors.As(err, &f) && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity):
		return bank.Prenote{Refused: f.Type}, nil // for example, a routing number that does not exist
	case err != nil:
		return bank.Prenote{}, err
	}
	if p.Key != o.Key {
		return bank.Prenote{}, fmt.Errorf("%w: %s", bank.ErrOther, p.ID)
	}
	return p.read()
}

// GetPrenote implements bank.Prenoter.
func (a *API) GetPrenote(ctx context.Context, id string) (bank.Prenote, error) {
	var p prenote
	if err := a.client.Get(ctx, prenotes+"/"+url.PathEscape(id), &p); err != nil {
		return bank.Prenote{}, err
	}
	return p.read()
}

func (p prenote) read() (bank.Prenote, error) {
	if p.ID == "" {
		return bank.Prenote{}, errors.New("increase: the response is not a prenote")
	}
	read := bank.Prenote{ID: p.ID, Sent: p.Status == "submitted" || p.Status == "returned"}
	if p.Status == "returned" {
		read.Returned = "returned"
		if p.Return != nil {
			read.Returned = cmp.Or(returnCodes[p.Return.Code], p.Return.Code, read.Returned)
		}
	}
	for _, c := range p.Changes {
		read.Changes = append(read.Changes, bank.Wanted{Code: cmp.Or(changes[c.Code], c.Code), Data: c.Data})
	}
	return read, nil
}
