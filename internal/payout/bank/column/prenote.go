package column

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
)

// The amount, in cents, of an entry that checks an account, and its description under Nacha's rules.
const (
	microEntry            = 1
	microEntryDescription = "ACCTVERIFY"
)

// Prenote implements bank.Prenoter. Column's API has no prenotes, and chooses the transaction codes of entries
// itself, so an entry of zero would not be a prenote. A micro-entry has the same purpose: a credit of one cent, which
// the payee's bank returns or corrects in the same way.
func (a *API) Prenote(ctx context.Context, o bank.PrenoteOrder) (bank.Prenote, error) {
	party, err := a.party(ctx, o.Payee, ach)
	if refused(err) {
		return bank.Prenote{Refused: code(err)}, nil
	}
	if err != nil {
		return bank.Prenote{}, err
	}
	body := object{"amount": microEntry, "currency_code": "USD", "bank_account_id": o.Account.Number,
		"counterparty_id": party.ID, "description": "Account check", "type": "CREDIT", "entry_class_code": "PPD",
		"company_entry_description": microEntryDescription, "company_name": bankhttp.Cut(o.Account.Name, 16),
		"receiver_name": bankhttp.Cut(o.Payee.Name, 22), "receiver_id": bankhttp.Cut(o.Key, 15), "same_day": false}
	if o.Business {
		body["entry_class_code"] = "CCD"
	}
	var t transfer
	if err = a.client.Post(ctx, "/transfers/"+ach, o.Key, body, &t); refused(err) {
		// An earlier call whose answer was lost may have sent the entry, with another counterparty.
		why := code(err)
		if t, err = a.find(ctx, o.Account.Number, ach, o.Key); errors.Is(err, bank.ErrNoTransfer) {
			return bank.Prenote{Refused: why}, nil
		}
	}
	if err != nil {
		return bank.Prenote{}, err
	}
	if t.Key != o.Key || t.Amount != microEntry {
		return bank.Prenote{}, fmt.Errorf("%w: %s", bank.ErrOther, t.ID)
	}
	return t.prenote()
}

// GetPrenote implements bank.Prenoter.
func (a *API) GetPrenote(ctx context.Context, id string) (bank.Prenote, error) {
	var t transfer
	if err := a.client.Get(ctx, "/transfers/"+ach+"/"+url.PathEscape(id), &t); err != nil {
		return bank.Prenote{}, err
	}
	return t.prenote()
}

// prenote converts the transfer of a micro-entry to a prenote.
func (t transfer) prenote() (bank.Prenote, error) {
	if t.ID == "" {
		return bank.Prenote{}, errors.New("column: the response is not a transfer")
	}
	p := bank.Prenote{ID: t.ID, Changes: t.wanted()}
	switch status := strings.ToLower(t.Status); status {
	case "submitted", "acknowledged", "settled", "completed":
		p.Sent = true
	case "returned":
		p.Sent, p.Returned = true, t.returnCode()
	case "rejected", "canceled", "manual_review_rejected":
		p.Refused = status
	}
	return p, nil
}
