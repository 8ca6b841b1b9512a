package wise

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

// value is an amount of a statement.
type value struct {
	Value    json.Number `json:"value"`
	Currency money.Asset `json:"currency"`
}

// transaction is an entry of a balance. Its amount includes Wise's price.
type transaction struct {
	Date    time.Time `json:"date"`
	Amount  value     `json:"amount"`
	Running value     `json:"runningBalance"`
	Name    string    `json:"referenceNumber"` // such as TRANSFER-16521632
	Details struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Sender      string `json:"senderName"`
		From        string `json:"senderAccount"`
		Reference   string `json:"paymentReference"`
	} `json:"details"`
}

// Statement implements bank.API.
func (a *API) Statement(ctx context.Context, of bank.Account, from, to time.Time) (bank.Statement, error) {
	const form = "2006-01-02T15:04:05.000Z"
	query := url.Values{"currency": {string(of.Currency)}, "type": {"COMPACT"},
		"intervalStart": {from.UTC().Format(form)}, "intervalEnd": {to.Add(-time.Millisecond).UTC().Format(form)}}
	var all struct {
		Transactions []transaction `json:"transactions"`
		End          value         `json:"endOfStatementBalance"`
	}
	path := "/v1/profiles/" + url.PathEscape(of.Profile) + "/balance-statements/" + url.PathEscape(of.Number) +
		"/statement.json?" + query.Encode()
	if err := a.client.Get(ctx, path, &all); err != nil {
		return bank.Statement{}, err
	}
	var s bank.Statement
	var err error
	if s.Closing, err = all.End.amount(of); err != nil {
		return s, err
	}
	if n := len(all.Transactions); n > 0 && all.Transactions[0].Date.After(all.Transactions[n-1].Date) {
		slices.Reverse(all.Transactions)
	}
	s.Opening = s.Closing
	for i, t := range all.Transactions {
		e := bank.Entry{ID: t.Name, At: t.Date, Text: t.Details.Description, Payer: t.Details.Sender, From: t.Details.From}
		if e.Amount, err = t.Amount.amount(of); err != nil {
			return s, err
		}
		if i == 0 { // the end balance is not used, so that it can be compared with the sum of the entries
			running, err := t.Running.amount(of)
			if err != nil {
				return s, err
			}
			if s.Opening, err = running.Sub(e.Amount); err != nil {
				return s, err
			}
		}
		if t.Details.Reference != "" {
			e.Text = t.Details.Reference
		}
		e.Transfer, _ = strings.CutPrefix(t.Name, "TRANSFER-")
		e.Ordered = t.Details.Type == "TRANSFER"
		e.Fee, e.Interest = t.Details.Type == "ACCRUAL_CHARGE", t.Details.Type == "BALANCE_INTEREST"
		s.Entries = append(s.Entries, e)
	}
	return s, nil
}

func (v value) amount(of bank.Account) (money.Amount, error) {
	if v.Currency != of.Currency {
		return money.Amount{}, fmt.Errorf("wise: the statement has an amount in %q, but the balance is in %s", v.Currency,
			of.Currency)
	}
	return parse(v.Currency, v.Value)
}
