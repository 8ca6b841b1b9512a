package treasury

import (
	"context"
	"fmt"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Kinds of places that hold the operator's money outside the wallets.
const (
	PlaceBank      = "bank"
	PlaceExchange  = "exchange"
	PlaceLightning = "lightning" // the channels of the Lightning node; it has no name
)

// Place is a bank, an exchange or the Lightning node. Reconciliation uses the same names.
type Place struct {
	Kind, Name string
}

// account returns the ledger account of an asset at the place.
func (p Place) account(a money.Asset) (ledger.Code, error) {
	switch p.Kind {
	case PlaceBank:
		return ledger.Bank, nil
	case PlaceExchange:
		return ledger.Exchange, nil
	case PlaceLightning:
		if a == money.BTC && p.Name == "" {
			return ledger.ChannelBalance, nil
		}
	}
	return "", errPlace
}

// Booking identifies a transaction that the operator made at a place, by the bank's or the exchange's reference. It is
// recorded once: a repeated call reports false and changes nothing. Other content under the same reference is
// ErrBooked.
type Booking struct {
	Place
	Reference string
}

// Deposit records money that the operator added at a bank or an exchange.
func Deposit(ctx context.Context, tx *db.Tx, b Booking, x money.Amount) (booked bool, err error) {
	code, err := b.account(x.Asset())
	if err != nil {
		return false, err
	}
	return b.post(ctx, tx, "deposit", x, ledger.Debit(code, b.Name, x), ledger.Credit(ledger.FXPosition, "", x))
}

// Withdraw records money that the operator took from a bank or an exchange. It returns ErrShort if the operator owns
// less.
func (t *Treasury) Withdraw(ctx context.Context, tx *db.Tx, b Booking, x money.Amount) (booked bool, err error) {
	code, err := b.account(x.Asset())
	if err != nil {
		return false, err
	}
	if err := t.checkAvailable(ctx, tx, b.Place, x); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "withdraw", x, ledger.Debit(ledger.FXPosition, "", x), ledger.Credit(code, b.Name, x))
}

// Trade records that the operator exchanged one asset for another at a place. It returns ErrShort if the operator owns
// less than was sold.
func (t *Treasury) Trade(ctx context.Context, tx *db.Tx, b Booking, sold, bought money.Amount) (booked bool,
	err error,
) {
	code, err := b.account(sold.Asset())
	if err != nil {
		return false, err
	}
	switch {
	case sold.Asset() == bought.Asset():
		return false, errSame
	case bought.Sign() <= 0:
		return false, errNothing
	}
	if err := t.checkAvailable(ctx, tx, b.Place, sold); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "trade", sold,
		ledger.Debit(ledger.FXPosition, "", sold), ledger.Credit(code, b.Name, sold),
		ledger.Debit(code, b.Name, bought), ledger.Credit(ledger.FXPosition, "", bought))
}

// Transfer records that the operator transferred its money from the booking's place to another one. It returns ErrShort
// if the operator owns less there.
func (t *Treasury) Transfer(ctx context.Context, tx *db.Tx, b Booking, to Place, x money.Amount) (booked bool,
	err error,
) {
	from, err := b.account(x.Asset())
	if err != nil {
		return false, err
	}
	into, err := to.account(x.Asset())
	if err != nil {
		return false, err
	}
	if err := t.checkAvailable(ctx, tx, b.Place, x); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "move", x, ledger.Debit(into, to.Name, x), ledger.Credit(from, b.Name, x))
}

// Send debits the operator's balance for a payout of its own coins: from then on the amount is owed to the output. It
// returns ErrShort if the operator owns less above the least balance.
func (t *Treasury) Send(ctx context.Context, tx *db.Tx, outputID string, x money.Amount) error {
	if err := t.checkAvailable(ctx, tx, Place{}, x); err != nil {
		return err
	}
	return ledger.Post(tx, ledger.Journal{
		CompanyID: ledger.Operator, SourceType: "fx", SourceID: outputID, Purpose: "send",
		Lines: []ledger.Line{ledger.Debit(ledger.FXPosition, "", x), ledger.Credit(ledger.OutputPayable, outputID, x)},
	})
}

// checkAvailable returns ErrShort if the operator cannot take an amount from a place. At an exchange, all money is the
// operator's. Elsewhere, the operator owns its balance and keeps the least one of the limit; the rest is owed to
// others. Other callers for the same asset wait until the transaction ends.
func (t *Treasury) checkAvailable(ctx context.Context, tx *db.Tx, p Place, x money.Amount) error {
	owned, err := ledger.DebitOperator(ctx, tx, x.Asset())
	if err != nil {
		return err
	}
	limits, err := t.limits(ctx, tx, []money.Asset{x.Asset()})
	if err != nil {
		return err
	}
	var left money.Amount
	if p.Kind == PlaceExchange {
		left, err = ledger.Balance(ctx, tx, ledger.Operator, ledger.Exchange, p.Name, x.Asset())
	} else {
		left, err = owned[x.Asset()].Sub(limits[x.Asset()].Least)
	}
	if err == nil && left.Cmp(x) < 0 {
		err = ErrShort.Detailf("Only %s %s are available there.", left, x.Asset())
	}
	return err
}

// post posts the lines of a booking once.
func (b Booking) post(ctx context.Context, tx *db.Tx, purpose string, x money.Amount, lines ...ledger.Line) (bool,
	error,
) {
	b.Reference = strings.TrimSpace(b.Reference)
	switch {
	case x.Sign() <= 0:
		return false, errNothing
	case b.Reference == "":
		return false, errName
	}
	id := b.Kind + ":" + b.Name + ":" + b.Reference
	entered := purpose
	for _, l := range lines {
		entered += fmt.Sprintf(" %s %s %s %s", l.Code, l.Dim, l.Amount, l.Amount.Asset())
	}
	before, err := insertBooking(ctx, tx, id, entered)
	switch {
	case err != nil:
		return false, err
	case before == entered:
		return false, nil
	case before != "":
		return false, ErrBooked
	}
	return true, ledger.Post(tx, ledger.Journal{
		CompanyID: ledger.Operator, SourceType: "fx", SourceID: id, Purpose: purpose, Lines: lines,
	})
}
