package increase

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
)

// maxPages is the largest number of pages, of 100 transactions each, that are read for one day.
const maxPages = 500

// transaction is an entry of an account.
type transaction struct {
	ID          string                     `json:"id"`
	Amount      int64                      `json:"amount"`
	Created     time.Time                  `json:"created_at"`
	Description string                     `json:"description"`
	Source      map[string]json.RawMessage `json:"source"`
}

// Statement implements bank.API.
func (a *API) Statement(ctx context.Context, of bank.Account, from, to time.Time) (bank.Statement, error) {
	var s bank.Statement
	for _, b := range []struct {
		at   time.Time
		into *money.Amount
	}{{from, &s.Opening}, {to, &s.Closing}} {
		var balance struct {
			Account string `json:"account_id"`
			Current int64  `json:"current_balance"`
		}
		query := url.Values{"at_time": {b.at.UTC().Format(time.RFC3339)}}
		if err := a.client.Get(ctx, "/accounts/"+url.PathEscape(of.Number)+"/balance?"+query.Encode(), &balance); err != nil {
			return s, err
		}
		if balance.Account != of.Number {
			return s, fmt.Errorf("increase: the balance is that of account %q", balance.Account)
		}
		*b.into = money.New(money.USD, balance.Current)
	}
	query := url.Values{"account_id": {of.Number}, "limit": {"100"},
		"created_at.on_or_after": {from.UTC().Format(time.RFC3339)}, "created_at.before": {to.UTC().Format(time.RFC3339)}}
	for range maxPages {
		var page struct {
			Data []transaction `json:"data"`
			Next string        `json:"next_cursor"`
		}
		if err := a.client.Get(ctx, "/transactions?"+query.Encode(), &page); err != nil {
			return s, err
		}
		for _, t := range page.Data {
			e, err := t.entry()
			if err != nil {
				return s, err
			}
			s.Entries = append(s.Entries, e)
		}
		if page.Next == "" {
			slices.Reverse(s.Entries) // the list has the newest first
			return s, nil
		}
		query.Set("cursor", page.Next)
	}
	return s, fmt.Errorf("increase: there are more than %d pages of transactions", maxPages)
}

// entry converts a transaction to an entry of the statement.
func (t transaction) entry() (bank.Entry, error) {
	e := bank.Entry{ID: t.ID, At: t.Created, Amount: money.New(money.USD, t.Amount), Text: t.Description}
	var category string
	if err := json.Unmarshal(t.Source["category"], &category); err != nil {
		return e, fmt.Errorf("increase: transaction %s has no category", t.ID)
	}
	var of struct {
		Transfer   string `json:"transfer_id"`
		Wire       string `json:"wire_transfer_id"` // wire that was sent and reversed
		Originator string `json:"originator_company_name"`
		Debtor     string `json:"debtor_name"`
		From       string `json:"debtor_account_number"`
		Text       string `json:"unstructured_remittance_information"`
	}
	if text := t.Source[category]; text != nil && string(text) != "null" {
		if err := json.Unmarshal(text, &of); err != nil {
			return e, fmt.Errorf("increase: transaction %s: %w", t.ID, err)
		}
	}
	e.Returned = strings.HasSuffix(category, "_return") || strings.HasSuffix(category, "_return_intention") ||
		strings.HasSuffix(category, "_rejection") || strings.HasSuffix(category, "_reversal")
	e.Fee, e.Interest = category == "fee_payment", category == "interest_payment"
	switch {
	case of.Wire != "":
		e.Transfer, e.Ordered = of.Wire, true
	case !strings.HasPrefix(category, "inbound_"):
		e.Transfer, e.Ordered = of.Transfer, of.Transfer != ""
	default:
		e.Payer, e.From = of.Originator+of.Debtor, of.From // each kind of transfer has one of the names
		if of.Text != "" {
			e.Text = of.Text
		}
	}
	return e, nil
}
