// Package treasury is the house's own position in each asset, and what may be exchanged out of it.
//
// Whoever is to be paid in another asset than a pay run was funded in is paid out of what the house itself owns of it
// ([ledger.OperatorBalances]): what the operator brought ([Deposit], or coins sent to the house's own address), what companies sold to it,
// and what it earned. Everything else in the wallets and at the banks is owed to somebody, and is never exchanged.
//
// A [Limit] says how much of an asset the house keeps, how much one destination may get at once, and from how much on the
// operator is to sell. Without one, the house keeps nothing back and goes no lower: a conversion that would take it below
// waits until the operator has brought or bought more. A currency of banks may have a limit below 0, for an operator whose
// bank or exchange advances money; what lives on a chain cannot be paid before it is there.
//
// The package moves no coins and gives no prices: the books follow what the operator has done at a bank or an exchange, and
// prices are those of package rates.
package treasury

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// What an operator may be told.
var (
	ErrShort   = apierr.New(apierr.Conflict, "insufficient_balance", "The house does not own as much as this: the rest is owed to companies and payees.")
	ErrBooked  = apierr.New(apierr.Conflict, "invalid_state", "Something else is booked under this reference.")
	errCrypto  = apierr.New(apierr.Invalid, "invalid_parameter", "What lives on a chain cannot be paid before it is there: its least is 0 or more.")
	errOrder   = apierr.New(apierr.Invalid, "invalid_parameter", "The house must be allowed to hold more than its least.")
	errPlace   = apierr.New(apierr.Invalid, "invalid_parameter", "Money of the house is at a bank or at an exchange, or comes over the chain.")
	errSame    = apierr.New(apierr.Invalid, "invalid_parameter", "A trade gives one asset for another.")
	errNothing = apierr.New(apierr.Invalid, "amount_not_positive", "The amount must be more than 0.")
	errName    = apierr.New(apierr.Invalid, "missing_field", "A booking names the reference that the bank or the exchange gave it.")
)

// Limit bounds what is exchanged into one asset.
type Limit struct {
	Asset money.Asset
	// Least is what the house keeps. It is below 0 for a currency of banks only, as far as a bank or an exchange advances it.
	Least money.Amount
	Upper money.Amount // from here on the house is to sell; the zero Amount is no bound
	Most  money.Amount // what one destination may get at once; the zero Amount is no bound
	open  bool         // nothing is bounded
}

// Desk says how much may be exchanged.
type Desk struct {
	// Open bounds no currency of banks that has no limit of its own. A sandbox's banks have no bottom.
	Open bool
}

// Room is what may still be exchanged into some assets. A nil one bounds nothing.
type Room struct {
	limits map[money.Asset]Limit
	left   map[money.Asset]money.Amount // above the least
}

// Look says how much could be exchanged into assets now. It promises nothing for later.
func (d Desk) Look(ctx context.Context, tx *db.Tx, assets ...money.Asset) (*Room, error) {
	return d.room(ctx, tx, assets, ledger.OperatorBalances)
}

// Take is Look for who exchanges in this transaction: until it ends, nobody else takes of these assets.
func (d Desk) Take(ctx context.Context, tx *db.Tx, assets ...money.Asset) (*Room, error) {
	return d.room(ctx, tx, assets, ledger.DebitOperator)
}

func (d Desk) room(ctx context.Context, tx *db.Tx, assets []money.Asset,
	read func(context.Context, *db.Tx, ...money.Asset) (map[money.Asset]money.Amount, error),
) (*Room, error) {
	if len(assets) == 0 {
		return nil, nil
	}
	limits, err := d.limits(ctx, tx, assets)
	if err != nil {
		return nil, err
	}
	var bounded []money.Asset
	for _, a := range assets {
		if !limits[a].open && !slices.Contains(bounded, a) {
			bounded = append(bounded, a)
		}
	}
	if len(bounded) == 0 {
		return nil, nil
	}
	r := &Room{limits: limits, left: map[money.Asset]money.Amount{}}
	owned, err := read(ctx, tx, bounded...)
	if err != nil {
		return nil, err
	}
	for _, a := range bounded {
		if r.left[a], err = owned[a].Sub(limits[a].Least); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// limits are those of some assets, as the operator set them or as they are without that.
func (d Desk) limits(ctx context.Context, tx *db.Tx, assets []money.Asset) (map[money.Asset]Limit, error) {
	set, err := loadLimits(ctx, tx)
	if err != nil {
		return nil, err
	}
	limits := map[money.Asset]Limit{}
	for _, a := range assets {
		l, ok := set[a]
		if !ok {
			l = Limit{Asset: a, Least: money.Zero(a), open: d.Open && !a.IsCrypto()}
		}
		limits[a] = l
	}
	return limits, nil
}

// Bounds says whether anything bounds an exchange into an asset.
func (r *Room) Bounds(a money.Asset) bool {
	if r == nil {
		return false
	}
	_, bounded := r.left[a]
	return bounded
}

// Take takes some outputs out of the room, all or none of them, and says whether there was room. An amount of 0 asks only that
// the house is not below its least.
func (r *Room) Take(outputs ...money.Amount) (bool, error) {
	if r == nil {
		return true, nil
	}
	left := map[money.Asset]money.Amount{}
	for _, x := range outputs {
		a := x.Asset()
		has, ok := left[a]
		if !ok {
			if has, ok = r.left[a]; !ok {
				continue
			}
		}
		if most := r.limits[a].Most; most.Asset() != "" && x.Cmp(most) > 0 {
			return false, nil
		}
		rest, err := has.Sub(x)
		if err != nil {
			return false, err
		}
		if rest.Sign() < 0 {
			return false, nil
		}
		left[a] = rest
	}
	for a, x := range left {
		r.left[a] = x
	}
	return true, nil
}

// Owe counts what is owed from now on and will be paid out of the room later, however little that leaves; a negative amount is
// owed no more.
func (r *Room) Owe(x money.Amount) error {
	if !r.Bounds(x.Asset()) {
		return nil
	}
	left, err := r.left[x.Asset()].Sub(x)
	r.left[x.Asset()] = left
	return err
}

// Where an operator's own money can be, beside the wallets.
const (
	PlaceBank     = "bank"
	PlaceExchange = "exchange"
)

// Place is one bank or exchange, by the name that reconciliation knows it by.
type Place struct {
	Kind, Name string
}

func (p Place) account() (ledger.Code, error) {
	switch p.Kind {
	case PlaceBank:
		return ledger.Bank, nil
	case PlaceExchange:
		return ledger.Exchange, nil
	default:
		return "", errPlace
	}
}

// Booking is something that the operator did outside of the service, for the books to follow. The reference is the bank's or
// the exchange's: a booking of the same one is made once.
type Booking struct {
	Place
	Reference string
}

// Deposit books money that the operator brought to a bank or an exchange: the house owns it. Made already, it changes nothing
// and says so; another booking under the same reference is ErrBooked.
func Deposit(ctx context.Context, tx *db.Tx, b Booking, x money.Amount) (booked bool, err error) {
	code, err := b.account()
	if err != nil {
		return false, err
	}
	return b.post(ctx, tx, "deposit", x, ledger.Debit(code, b.Name, x), ledger.Credit(ledger.FXPosition, "", x))
}

// Withdraw books money that the operator took home from a bank or an exchange. More than the house has there is ErrShort.
func (d Desk) Withdraw(ctx context.Context, tx *db.Tx, b Booking, x money.Amount) (booked bool, err error) {
	code, err := b.account()
	if err != nil {
		return false, err
	}
	if err := d.give(ctx, tx, b.Place, x); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "withdraw", x, ledger.Debit(ledger.FXPosition, "", x), ledger.Credit(code, b.Name, x))
}

// Trade books an exchange of assets with the market, at the exchange or bank where both are (docs/ledger.md, treasury). Giving more than the house has
// there is ErrShort.
func (d Desk) Trade(ctx context.Context, tx *db.Tx, b Booking, given, got money.Amount) (booked bool, err error) {
	code, err := b.account()
	if err != nil {
		return false, err
	}
	switch {
	case given.Asset() == got.Asset():
		return false, errSame
	case got.Sign() <= 0:
		return false, errNothing
	}
	if err := d.give(ctx, tx, b.Place, given); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "trade", given,
		ledger.Debit(ledger.FXPosition, "", given), ledger.Credit(code, b.Name, given),
		ledger.Debit(code, b.Name, got), ledger.Credit(ledger.FXPosition, "", got))
}

// Move books money of the house that went from one bank or exchange to another. More than it has there is ErrShort.
func (d Desk) Move(ctx context.Context, tx *db.Tx, b Booking, to Place, x money.Amount) (booked bool, err error) {
	from, err := b.account()
	if err != nil {
		return false, err
	}
	into, err := to.account()
	if err != nil {
		return false, err
	}
	if err := d.give(ctx, tx, b.Place, x); err != nil {
		return false, err
	}
	return b.post(ctx, tx, "move", x, ledger.Debit(into, to.Name, x), ledger.Credit(from, b.Name, x))
}

// Give takes coins of the house out of its position for a payout to the operator: from then on they are owed to the output. More
// than it owns above its least is ErrShort.
func (d Desk) Give(ctx context.Context, tx *db.Tx, outputID string, x money.Amount) error {
	if err := d.give(ctx, tx, Place{}, x); err != nil {
		return err
	}
	return ledger.Post(tx, ledger.Journal{CompanyID: ledger.Operator, SourceType: "fx", SourceID: outputID, Purpose: "send", Lines: []ledger.Line{
		ledger.Debit(ledger.FXPosition, "", x), ledger.Credit(ledger.OutputPayable, outputID, x),
	}})
}

// give refuses what the house does not have: at an exchange what is there, elsewhere what it owns above its least, since the
// rest of what is there is owed. Whoever asks for the same asset waits until the transaction ends.
func (d Desk) give(ctx context.Context, tx *db.Tx, p Place, x money.Amount) error {
	owned, err := ledger.DebitOperator(ctx, tx, x.Asset())
	if err != nil {
		return err
	}
	limits, err := d.limits(ctx, tx, []money.Asset{x.Asset()})
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
		err = ErrShort.Detailf("The house can give %s %s from there.", left, x.Asset())
	}
	return err
}

// post books lines about an amount once.
func (b Booking) post(ctx context.Context, tx *db.Tx, what string, x money.Amount, lines ...ledger.Line) (booked bool, err error) {
	b.Reference = strings.TrimSpace(b.Reference)
	switch {
	case x.Sign() <= 0:
		return false, errNothing
	case b.Reference == "":
		return false, errName
	}
	id := b.Kind + ":" + b.Name + ":" + b.Reference
	entered := what
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
	return true, ledger.Post(tx, ledger.Journal{CompanyID: ledger.Operator, SourceType: "fx", SourceID: id, Purpose: what, Lines: lines})
}

// SetLimit sets the limit of an asset in place of the one that it had.
func SetLimit(ctx context.Context, tx *db.Tx, l Limit) error {
	switch {
	case l.Asset.IsCrypto() && l.Least.Sign() < 0:
		return errCrypto
	case l.Upper.Asset() != "" && l.Upper.Cmp(l.Least) < 0:
		return errOrder
	case l.Most.Asset() != "" && l.Most.Sign() <= 0:
		return errNothing
	}
	before, err := loadLimits(ctx, tx)
	if err != nil {
		return err
	}
	version, err := saveLimit(ctx, tx, l)
	if err != nil {
		return err
	}
	db.History(tx, ledger.Operator, "fx_limit_"+string(l.Asset), version, before[l.Asset].text(), l.text(), "set by the operator")
	return nil
}

// text is a limit for its history.
func (l Limit) text() string {
	if l.Asset == "" {
		return ""
	}
	text := "least " + l.Least.String()
	if l.Upper.Asset() != "" {
		text += " upper " + l.Upper.String()
	}
	if l.Most.Asset() != "" {
		text += " most " + l.Most.String()
	}
	return text
}
