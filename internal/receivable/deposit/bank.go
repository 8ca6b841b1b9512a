package deposit

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Transferred is money that a bank's statement says has come for an object. It is confirmed from the start; its chain is the
// account that it came to, its transaction the transfer. Nothing is exchanged, so the object itself is its price, and it is in time
// whenever it comes. It is recorded once.
func Transferred(ctx context.Context, tx *db.Tx, companyID, objectID, account, transferID string, amount money.Amount) error {
	d := Deposit{
		ID: tx.NewID("dep"), CompanyID: companyID, Chain: account, Outpoint: chain.Outpoint{TxID: transferID}, ObjectID: objectID, QuoteID: objectID,
		Amount: amount, State: Confirmed, Version: 1, Timely: true, FirstSeen: tx.Now(),
	}
	stored, err := insert(ctx, tx, d)
	if err != nil || !stored[d.ID] {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "transferred by bank")
	changed(tx, d)
	return emitDetected(tx, d)
}

// TakenBack says that the bank took a transfer back, and whether it was a deposit at all: what is none is booked elsewhere.
func TakenBack(ctx context.Context, tx *db.Tx, companyID, account, transferID string) (bool, error) {
	d, err := find(ctx, tx, companyID, account, chain.Outpoint{TxID: transferID})
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil || d.State != Confirmed {
		return err == nil, err
	}
	c := &change{Deposit: d, was: d}
	c.State = Evicted
	c.step(Confirmed, "the bank took it back")
	stored, err := update(ctx, tx, []*change{c})
	if err != nil || !stored[d.ID] {
		return true, cmp.Or(err, error(db.ErrConflict))
	}
	c.note(tx)
	changed(tx, c.Deposit)
	return true, nil
}

// ByBank says that a deposit came by a bank, not on a chain.
func (d Deposit) ByBank() bool { return !d.Amount.Asset().IsCrypto() }

// Transfers are the transfers that deposits by bank came by, by the deposits' ids.
func Transfers(ctx context.Context, tx *db.Tx) (map[string]string, error) { return transfers(ctx, tx) }
