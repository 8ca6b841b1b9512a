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

// InvoicePaid handles the job lightning.JobPaid: a paid invoice is a deposit that is confirmed from the start, since
// nobody can take it back. Its transaction is the payment hash, its quote the one for which the invoice was made.
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
		return err // it was recorded before
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "paid over Lightning")
	changed(tx, d)
	return nil
}

// within limits a time of the node's clock to the validity of the quote. The node takes no money for an invoice
// before or after it; any difference is one between two clocks.
func within(at time.Time, q quote.Quote) time.Time {
	switch last := q.ValidTo.Add(-time.Microsecond); {
	case at.Before(q.ValidFrom):
		return q.ValidFrom
	case at.After(last):
		return last
	}
	return at
}
