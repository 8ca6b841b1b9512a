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

// InvoicePaid handles the job lightning.JobPaid. A paid invoice is a deposit that is confirmed from the start,
// because a Lightning payment cannot be reversed. Its transaction ID is the payment hash, and its quote is the
// invoice's quote.
func InvoicePaid(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in lightning.InvoiceRef
	if err := j.Decode(&in); err != nil {
		return err
	}
	i, err := lightning.Get(ctx, tx, j.CompanyID, in.InvoiceID)
	if err != nil || i.State != lightning.Paid {
		return err
	}
	q, err := quote.Get(ctx, tx, i.CompanyID, i.QuoteID)
	if err != nil {
		return err
	}
	d := Deposit{
		ID: tx.NewID("dep"), CompanyID: i.CompanyID, Chain: lightning.Chain, Outpoint: chain.Outpoint{TxID: i.Hash},
		ObjectID: i.ObjectID,
		QuoteID:  q.ID, Amount: i.Paid, State: Confirmed, Version: 1, FirstSeen: within(i.SettledAt, q),
	}
	d.OnTime = q.Covers(d.FirstSeen)
	stored, err := insert(ctx, tx, d)
	if err != nil || !stored[d.ID] {
		return err // the deposit is already stored
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "paid over Lightning")
	changed(tx, d)
	return nil
}

// within limits a time to the validity of a quote. The Lightning node accepts payments of an invoice only while the
// quote is valid, so a time outside of it means that the clocks differ.
func within(at time.Time, q quote.Quote) time.Time {
	switch last := q.ValidTo.Add(-time.Microsecond); {
	case at.Before(q.ValidFrom):
		return q.ValidFrom
	case at.After(last):
		return last
	}
	return at
}
