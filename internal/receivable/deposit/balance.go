package deposit

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/webhook"
)

// bookBalance posts or reverses a deposit that is credited to a balance, and emits its event. If the company has
// already spent a part of a deposit that is reverted, it owes that part (1300) until the deposit is confirmed again.
func (d Deposit) bookBalance(ctx context.Context, tx *db.Tx, from State) error {
	var err error
	switch {
	case d.State == Confirmed && from != Confirmed:
		err = d.creditBalance(ctx, tx)
	case d.State != Confirmed && from == Confirmed:
		err = d.takeBack(ctx, tx)
	}
	if err != nil || d.State == from {
		return err
	}
	return d.emitBalance(tx, from)
}

func (d Deposit) creditBalance(ctx context.Context, tx *db.Tx) error {
	owed, err := ledger.Balance(ctx, tx, d.OwnerID, ledger.DueFromCustomer, d.ID, d.Amount.Asset())
	if err != nil {
		return err
	}
	rest, err := d.Amount.Sub(owed)
	if err != nil {
		return err
	}
	wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
	return d.post(tx, d.OwnerID, "credited",
		ledger.Debit(wallet, where, d.Amount), ledger.Credit(ledger.DueFromCustomer, d.ID, owed),
		ledger.Credit(ledger.CompanyFunds, "", rest))
}

func (d Deposit) takeBack(ctx context.Context, tx *db.Tx) error {
	taken, err := ledger.Balance(ctx, tx, d.OwnerID, ledger.CompanyFunds, "", d.Amount.Asset())
	if err != nil {
		return err
	}
	if d.Amount.Cmp(taken) < 0 {
		taken = d.Amount
	}
	owed, err := d.Amount.Sub(taken)
	if err != nil {
		return err
	}
	wallet, where := ledger.WalletOf(d.Amount.Asset(), d.Chain)
	return d.post(tx, d.OwnerID, "taken_back",
		ledger.Debit(ledger.CompanyFunds, "", taken), ledger.Debit(ledger.DueFromCustomer, d.ID, owed),
		ledger.Credit(wallet, where, d.Amount))
}

// WalletID returns the ID of the wallet whose address a deposit paid, or "" if it paid another object.
func (d Deposit) WalletID() string {
	if !ofWallet(d.ObjectID) {
		return ""
	}
	return d.ObjectID
}

// Depths returns the current number of confirmations of each deposit.
func Depths(ctx context.Context, tx *db.Tx, all []Deposit) ([]int64, error) {
	depths := make([]int64, len(all))
	var questions []db.Statement
	for i, d := range all {
		questions = append(questions, chain.OutputsQuery(d.Chain, d.TxID, func(o chain.WatchedOutput) {
			if o.Vout == d.Vout {
				depths[i] = o.Depth
			}
		}))
	}
	return depths, tx.Batch(ctx, questions)
}

// emitBalance emits the event of a deposit that is credited to a balance. While nobody owns the deposit, the event
// goes to the company whose address it paid.
func (d Deposit) emitBalance(tx *db.Tx, from State) error {
	company := cmp.Or(d.OwnerID, d.CompanyID)
	return webhook.Emit(tx, webhook.WalletDepositUpdate.Event(company, d.ID, d.Version, webhook.WalletDepositData{
		WalletID: d.WalletID(), DepositID: d.ID, PaidTo: d.ObjectID, Held: d.OwnerID == "" && d.RefundTo == "",
		Status: string(d.State), PreviousStatus: string(from),
		Currency: d.Amount.Asset(),
		Amount:   d.Amount, Chain: d.Chain, Address: d.Address, TxHash: d.TxID, Vout: int64(d.Vout),
		FirstSeen: webhook.FormatTime(d.FirstSeen), ConfirmationsRequired: d.Wanted,
	}))
}
