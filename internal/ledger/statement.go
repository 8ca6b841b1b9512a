package ledger

import (
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Holding is the balance of a guarded account of a company in one asset, over all dimensions.
type Holding struct {
	Code    Code
	Balance money.Amount
}

// Entry is the change that one journal made to a liability account in one asset.
type Entry struct {
	JournalID, SourceType, SourceID, Purpose string

	Amount   money.Amount // change of the balance; positive for a credit
	Balance  money.Amount // balance after the journal
	BookedAt time.Time
}

// Ref returns a text that identifies the entry among the entries of its account, for Period.Page.
func (e Entry) Ref() string { return e.JournalID + "." + string(e.Amount.Asset()) }

// Period selects entries of an account and a page of them.
type Period struct {
	Asset    money.Asset // "" for all assets
	From, To time.Time   // selects entries posted at From or later and before To; a zero time is no bound
	Oldest   bool        // oldest first; otherwise newest first
	Page     db.Page     // After is an Entry.Ref from a page in the same order
}

// Totals sums the entries of an account in one asset over a period.
type Totals struct {
	Opening money.Amount // balance before the period
	In, Out money.Amount // sums of the positive and of the negative entries, both as positive amounts
	Count   int64        // number of entries
}

// Closing returns the balance after the period.
func (t Totals) Closing() (money.Amount, error) {
	sum, err := t.Opening.Add(t.In)
	if err != nil {
		return sum, err
	}
	return sum.Sub(t.Out)
}

// Since describes the changes of a company's account without a dimension between two journals of the same source
// type.
type Since struct {
	Opening money.Amount // balance after the earlier journal, 0 if there is none
	Closing money.Amount // balance before the later journal
	Changes []Change     // one for each source type

	account account
}

// Change sums the entries of one source type.
type Change struct {
	SourceType string
	Net        money.Amount // change of the balance
	Revenue    money.Amount // credited to fee revenue (4000) by the same journals in the same asset
	Count      int64
}

// RevenueEntry is an entry with the amount that the same journal credited to fee revenue (4000) in the same asset.
type RevenueEntry struct {
	Entry

	Revenue money.Amount
}

// account selects the entries of an account whose numbers are strictly between after and before.
type account struct {
	companyID     string
	code          Code
	asset         money.Asset
	after, before int64
}
