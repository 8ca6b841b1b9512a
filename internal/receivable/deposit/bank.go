package deposit

import (
	"cmp"
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// Transferred records a bank transfer for an object as a deposit, once. The deposit is confirmed from the start. Its
// chain is the receiving account, and its transaction ID is the ID of the transfer. Nothing is exchanged, so its
// quote ID is the ID of the object, and it is always on time.
func Transferred(ctx context.Context, tx *db.Tx, companyID, objectID, account, transferID string,
	amount money.Amount) error {
	d := Deposit{
		ID: tx.NewID("dep"), CompanyID: companyID, Chain: account, Outpoint: chain.Outpoint{TxID: transferID},
		ObjectID: objectID, QuoteID: objectID,
		Amount: amount, State: Confirmed, Version: 1, OnTime: true, FirstSeen: tx.Now(),
	}
	stored, err := insert(ctx, tx, d)
	if err != nil || !stored[d.ID] {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.Version, "", string(d.State), "transferred by bank")
	changed(tx, d)
	return emitDetected(tx, d)
}

// TakenBack reverts the deposit of a transfer that the bank took back. It returns false if there is no deposit for
// the transfer.
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
		return true, cmp.Or(err, db.ErrConflict)
	}
	c.note(tx)
	changed(tx, c.Deposit)
	return true, nil
}

// ByBank reports whether the deposit is a bank transfer.
func (d Deposit) ByBank() bool { return !d.Amount.Asset().IsCrypto() }

// Transfers returns the ID of the bank transfer of each deposit that is one, by deposit ID.
func Transfers(ctx context.Context, tx *db.Tx) (map[string]string, error) { return transfers(ctx, tx) }
