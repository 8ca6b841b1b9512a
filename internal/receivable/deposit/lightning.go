package deposit

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// InvoicePaid handles the job lightning.JobPaid: a paid invoice is a deposit that is confirmed from the start, since nobody can
// take it back. Its transaction is the payment hash, and its price is that of the quote for which the invoice was made.
func InvoicePaid(ctx context.Context, tx *db.Tx, j job.Job) error {
	var news lightning.News
	if err := j.Decode(&news); err != nil {
		return err
	}
	i, err := lightning.Get(ctx, tx, j.CompanyID, news.InvoiceID)
	if err != nil || i.State != lightning.Paid {
		return err
	}
	q, err := quote.Get(ctx, tx, i.CompanyID, i.QuoteID)
	if err != nil {
		return err
	}
	d := Deposit{
		ID: tx.NewID("dep"), CompanyID: i.CompanyID, Chain: lightning.Chain, Outpoint: chain.Outpoint{TxID: i.Hash}, ObjectID: i.ObjectID,
		QuoteID: q.ID, Amount: i.Paid, State: Confirmed, Version: 1, FirstSeen: within(i.SettledAt, q),
	}
	d.Timely = q.Covers(d.FirstSeen)
	stored, err := insert(ctx, tx, d)
	if err != nil || !stored[d.ID] {
		return err // it was recorded before
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "paid over Lightning")
	changed(tx, d)
	return nil
}

// within is an instant of the node's clock, brought between the ends of the quote. The node takes no money for an invoice
// after its end, and there was none before its beginning; what its clock says beyond that is the difference of two clocks.
func within(at time.Time, q quote.Quote) time.Time {
	switch last := q.ValidTo.Add(-time.Microsecond); {
	case at.Before(q.ValidFrom):
		return q.ValidFrom
	case at.After(last):
		return last
	}
	return at
}
