package ledger

import (
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Holding is what a company has on one guarded account in one asset, over all dimensions.
type Holding struct {
	Code    Code
	Balance money.Amount
}

// Entry is what one journal did to an account: the amount is positive where the account gained on its normal side.
type Entry struct {
	JournalID, SourceType, SourceID, Purpose string

	Amount   money.Amount
	Balance  money.Amount // of the account in this asset, after it
	BookedAt time.Time
}

// Period chooses and pages the entries of an account.
type Period struct {
	Asset    money.Asset // "" means every asset
	From, To time.Time   // booked in [From, To); zero is open
	Oldest   bool        // the oldest first, rather than the newest
	Limit    int
	Offset   int64
}

// Totals are what a period did to an account in one asset.
type Totals struct {
	Opening money.Amount // before it
	In, Out money.Amount // gained and lost in it, each journal by what it did in all; neither is negative
	Count   int64        // journals
}

// Closing is the balance after the period.
func (t Totals) Closing() (money.Amount, error) {
	sum, err := t.Opening.Add(t.In)
	if err != nil {
		return sum, err
	}
	return sum.Sub(t.Out)
}
