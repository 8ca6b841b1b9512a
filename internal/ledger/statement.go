package ledger

import (
	"time"

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

// Period selects a page of an account's entries.
type Period struct {
	Asset    money.Asset // "" for all assets
	From, To time.Time   // selects entries posted at From or later and before To; a zero time is no bound
	Oldest   bool        // oldest first; otherwise newest first
	Limit    int
	Offset   int64
}

// Totals sums the entries of an account in one asset over a period.
type Totals struct {
	Opening money.Amount // balance before the period
	In, Out money.Amount // sums of the positive and of the negative entries; both are positive
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
