// Package stripe opens virtual accounts through Stripe's funding instructions for bank transfers, which assign
// account numbers to a customer.
//
// It uses three operations of Stripe's API: create a customer, create its funding instructions, and list its cash
// balance transactions. The customer's cash balance is reconciled manually, so that Stripe does not apply it to
// payments. Create requests have the account's ID as idempotency key.
package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// Name is the name of this provider, stored with accounts.
const Name = "stripe"

// DefaultURL is the base URL of Stripe's API.
const DefaultURL = "https://api.stripe.com"

const (
	maxAnswer = 4 << 20
	pageSize  = 100
	maxPages  = 100 // maximum number of pages per call of Receipts; the next call continues
)

// Options configure a Bank. Key is required.
type Options struct {
	Key string // secret or restricted API key
	URL string // default DefaultURL
	// Country is the country of euro accounts: BE, DE, ES, FR, IE or NL; default DE.
	Country string
	// HTTP is the client to use; default: a client with a timeout of 20 seconds.
	HTTP *http.Client
}

// Bank implements virtualaccount.Bank.
type Bank struct{ o Options }

var _ virtualaccount.Bank = (*Bank)(nil)

// New returns a bank. It does not connect to Stripe.
func New(o Options) *Bank {
	if o.URL == "" {
		o.URL = DefaultURL
	}
	o.URL = strings.TrimRight(o.URL, "/")
	if o.Country == "" {
		o.Country = "DE"
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 20 * time.Second}
	}
	return &Bank{o}
}

// Name implements virtualaccount.Bank.
func (*Bank) Name() string { return Name }

// OpenImmediately returns false: Stripe opens accounts on request.
func (*Bank) OpenImmediately(virtualaccount.Application) (virtualaccount.Opened, bool) {
	return virtualaccount.Opened{}, false
}

type customer struct {
	ID string `json:"id"`
}

type instructions struct {
	BankTransfer struct {
		FinancialAddresses []struct {
			Type string `json:"type"`
			IBAN *struct {
				AccountHolderName string `json:"account_holder_name"`
				BIC               string `json:"bic"`
				IBAN              string `json:"iban"`
			} `json:"iban"`
			ABA *struct {
				AccountHolderName string `json:"account_holder_name"`
				AccountNumber     string `json:"account_number"`
				BankName          string `json:"bank_name"`
				RoutingNumber     string `json:"routing_number"`
			} `json:"aba"`
		} `json:"financial_addresses"`
	} `json:"bank_transfer"`
}

// Open creates a customer for the owner and returns the account numbers of its funding instructions. The account
// holder that Stripe returns may be a Stripe entity; payers must use that name.
func (b *Bank) Open(ctx context.Context, a virtualaccount.Application) (virtualaccount.Opened, error) {
	var c customer
	if err := b.call(ctx, http.MethodPost, "/v1/customers", url.Values{
		"name": {a.Holder}, "email": {a.Email}, "metadata[account_id]": {a.AccountID},
		"cash_balance[settings][reconciliation_mode]": {"manual"},
	}, a.AccountID+"-customer", &c); err != nil {
		return virtualaccount.Opened{}, err
	}
	if c.ID == "" {
		return virtualaccount.Opened{}, errors.New("stripe: the customer has no id")
	}
	form := url.Values{"currency": {strings.ToLower(string(a.Currency))}, "funding_type": {"bank_transfer"}}
	if a.Currency == money.EUR {
		form.Set("bank_transfer[type]", "eu_bank_transfer")
		form.Set("bank_transfer[eu_bank_transfer][country]", b.o.Country)
	} else {
		form.Set("bank_transfer[type]", "us_bank_transfer")
	}
	var in instructions
	if err := b.call(ctx, http.MethodPost, "/v1/customers/"+url.PathEscape(c.ID)+"/funding_instructions", form,
		a.AccountID+"-instructions", &in); err != nil {
		return virtualaccount.Opened{}, err
	}
	for _, f := range in.BankTransfer.FinancialAddresses {
		switch {
		case f.Type == "iban" && f.IBAN != nil && a.Currency == money.EUR:
			return virtualaccount.Opened{Ref: c.ID, Details: virtualaccount.Details{Holder: f.IBAN.AccountHolderName,
				IBAN: f.IBAN.IBAN, BIC: f.IBAN.BIC}}, nil
		case f.Type == "aba" && f.ABA != nil && a.Currency == money.USD:
			holder := f.ABA.AccountHolderName
			if holder == "" {
				holder = a.Holder
			}
			return virtualaccount.Opened{Ref: c.ID, Details: virtualaccount.Details{
				Holder: holder, BankName: f.ABA.BankName, RoutingNumber: f.ABA.RoutingNumber, AccountNumber: f.ABA.AccountNumber,
			}}, nil
		}
	}
	return virtualaccount.Opened{}, fmt.Errorf("stripe: the funding instructions have no account in %s", a.Currency)
}

type transactions struct {
	Data []struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Currency  string `json:"currency"`
		NetAmount int64  `json:"net_amount"` // amount in the smallest unit of the currency
	} `json:"data"`
	HasMore bool `json:"has_more"`
}

// internalTypes are the types of transactions that only transfer received money within Stripe.
var internalTypes = []string{"applied_to_payment", "unapplied_from_payment", "refunded_from_payment",
	"transferred_to_balance"}

// Receipts returns the transactions, after the transaction in the cursor, that funded the customer's cash balance,
// and their reversals. Stripe lists the newest transactions first. Without a cursor, Receipts follows the pages
// backward to the oldest transaction; with a cursor, it follows them forward.
func (b *Bank) Receipts(ctx context.Context, ref string, currency money.Asset, cursor string) ([]virtualaccount.Receipt,
	string, error,
) {
	var found []virtualaccount.Receipt // receipts, newest first
	next, turn, at := cursor, "ending_before", cursor
	if cursor == "" {
		turn = "starting_after"
	}
	for range maxPages {
		query := url.Values{"limit": {fmt.Sprint(pageSize)}}
		if at != "" {
			query.Set(turn, at)
		}
		var page transactions
		if err := b.call(ctx, http.MethodGet,
			"/v1/customers/"+url.PathEscape(ref)+"/cash_balance_transactions?"+query.Encode(), nil, "", &page); err != nil {
			return nil, cursor, err
		}
		var some []virtualaccount.Receipt
		for _, t := range page.Data {
			if !strings.EqualFold(t.Currency, string(currency)) || slices.Contains(internalTypes, t.Type) {
				continue
			}
			r := virtualaccount.Receipt{Reference: t.ID, Amount: money.New(currency, t.NetAmount)}
			if funds := t.Type == "funded" && t.NetAmount > 0 || t.Type == "funding_reversed" && t.NetAmount < 0; !funds {
				r.Unknown = t.Type
			}
			some = append(some, r)
		}
		if n := len(page.Data); n > 0 {
			newest, oldest := page.Data[0].ID, page.Data[n-1].ID
			if cursor == "" {
				found, at = append(found, some...), oldest
				if next == "" {
					next = newest
				}
			} else {
				found, at, next = append(some, found...), newest, newest
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			slices.Reverse(found)
			return found, next, nil
		}
	}
	if cursor == "" {
		return nil, cursor, errors.New("stripe: the account has too many transactions for a first import")
	}
	slices.Reverse(found)
	return found, next, nil
}

// failure is Stripe's error response.
type failure struct {
	Error struct {
		Type string `json:"type"`
		Code string `json:"code"`
	} `json:"error"`
}

// call sends one request. It returns virtualaccount.ErrRefused if Stripe rejects the content of the request. Errors
// omit Stripe's message, which may repeat personal data of the request.
func (b *Bank) call(ctx context.Context, method, path string, form url.Values, key string, out any) error {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, b.o.URL+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.o.Key)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Idempotency-Key", key)
	}
	answer, err := b.o.HTTP.Do(r)
	if err != nil {
		return fmt.Errorf("stripe: cannot reach %s: %w", b.o.URL, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("stripe: cannot read the response: %w", err)
	case len(text) > maxAnswer:
		return errors.New("stripe: the response is too large")
	case answer.StatusCode == http.StatusOK:
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("stripe: cannot decode the response: %w", err)
		}
		return nil
	}
	var f failure
	_ = json.Unmarshal(text, &f) // a response that is not JSON has no code
	err = fmt.Errorf("stripe: %d %s %s", answer.StatusCode, f.Error.Type, f.Error.Code)
	if (answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusPaymentRequired) &&
		f.Error.Type != "idempotency_error" {
		return errors.Join(virtualaccount.ErrRefused, err)
	}
	return err
}
