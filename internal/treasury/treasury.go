// Package treasury limits what is exchanged out of the operator's own balances, and records the operator's
// transactions.
//
// A payee who is paid in another asset than the payroll was funded in is paid out of the operator's balance of that
// asset ([ledger.OperatorBalances]). The balance consists of the money that the operator added ([Deposit], or coins
// sent to [OperatorAddress]), the money that companies exchanged, and fees. All other money in the wallets and at the
// banks is owed to others and is never exchanged.
//
// A [Limit] sets the balance of an asset that the operator keeps, the balance above which the operator wants to sell,
// and the largest amount for one destination. Without a limit, the balance may be used up but does not become negative:
// a conversion that needs more waits until the operator adds money. The limit of a bank currency may be negative if a
// bank or an exchange grants the operator credit. The limit of a crypto asset may not.
//
// The package moves no money outside the ledger: it records transactions that the operator made at a bank or an
// exchange. Prices come from package rates.
package treasury

import (
	"context"
	"errors"
	"maps"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Errors that the operator can correct.
var (
	ErrShort = apierr.New(apierr.Conflict, "insufficient_balance",
		"The operator does not own this much. The rest is owed to companies and payees.")
	ErrBooked = apierr.New(apierr.Conflict, "invalid_state",
		"Another transaction was recorded under this reference. Check the reference.")
	errCrypto = apierr.New(apierr.Invalid, "invalid_parameter",
		"The balance of a crypto asset cannot be negative. Enter 0 or more.")
	errOrder   = apierr.New(apierr.Invalid, "invalid_parameter", "The upper balance must not be below the least balance.")
	errPlace   = apierr.New(apierr.Invalid, "invalid_parameter", "Enter a bank or an exchange.")
	errSame    = apierr.New(apierr.Invalid, "invalid_parameter", "A trade needs two different assets.")
	errNothing = apierr.New(apierr.Invalid, "amount_not_positive", "The amount must be more than 0.")
	errName    = apierr.New(apierr.Invalid, "missing_field", "Enter the reference that the bank or the exchange gave.")
)

// Policy decides how much may be exchanged in a bank currency for which the operator has set no limit. A crypto asset
// for which none is set is always [Bounded].
type Policy string

// Policies.
const (
	Bounded   Policy = "bounded"   // the operator exchanges no more than it owns
	Unlimited Policy = "unlimited" // the operator exchanges any amount, as with the simulated banks of a sandbox
)

// Treasury limits exchanges and records the operator's transactions.
type Treasury struct{ policy Policy }

// New returns a Treasury. It refuses a missing policy.
func New(p Policy) (*Treasury, error) {
	if p != Bounded && p != Unlimited {
		return nil, errors.New("treasury: a policy for currencies without a limit is required")
	}
	return &Treasury{p}, nil
}

// Limit bounds the exchange into one asset.
type Limit struct {
	Asset money.Asset
	Least money.Amount // minimum balance that the operator keeps; negative only for bank currencies
	Upper money.Amount // balance above which the operator wants to sell; the zero Amount means never
	Most  money.Amount // largest amount for one destination; the zero Amount means any

	unlimited bool
}

// limits returns the limits of assets: those that were set, and the policy's for the others.
func (t *Treasury) limits(ctx context.Context, tx *db.Tx, assets []money.Asset) (map[money.Asset]Limit, error) {
	set, err := loadLimits(ctx, tx)
	if err != nil {
		return nil, err
	}
	limits := map[money.Asset]Limit{}
	for _, a := range assets {
		l, ok := set[a]
		if !ok {
			l = Limit{Asset: a, Least: money.Zero(a), unlimited: t.policy == Unlimited && !a.IsCrypto()}
		}
		limits[a] = l
	}
	return limits, nil
}

// SetLimit replaces the limit of an asset.
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
	db.History(tx, ledger.Operator, "fx_limit_"+string(l.Asset), version, before[l.Asset].text(), l.text(),
		"set by the operator")
	return nil
}

// text returns the limit for its history, "" for none.
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

// Capacity holds the amounts that may still be exchanged into some assets. The zero Capacity permits no exchange.
type Capacity struct{ of map[money.Asset]capacity }

type capacity struct {
	limit Limit
	left  money.Amount // balance above the least one of the limit; not set if the limit is unlimited
}

// UnlimitedCapacity returns a Capacity that does not limit exchanges into assets.
func UnlimitedCapacity(assets ...money.Asset) *Capacity {
	c := &Capacity{map[money.Asset]capacity{}}
	for _, a := range assets {
		c.of[a] = capacity{limit: Limit{Asset: a, unlimited: true}}
	}
	return c
}

// Capacity returns the present capacity for exchanges into assets. It can change before the caller uses it.
func (t *Treasury) Capacity(ctx context.Context, tx *db.Tx, assets ...money.Asset) (*Capacity, error) {
	return t.capacity(ctx, tx, assets, ledger.OperatorBalances)
}

// LockCapacity returns the capacity for exchanges in this transaction. Other callers for one of the assets wait until
// the transaction ends.
func (t *Treasury) LockCapacity(ctx context.Context, tx *db.Tx, assets ...money.Asset) (*Capacity, error) {
	return t.capacity(ctx, tx, assets, ledger.DebitOperator)
}

func (t *Treasury) capacity(ctx context.Context, tx *db.Tx, assets []money.Asset,
	read func(context.Context, *db.Tx, ...money.Asset) (map[money.Asset]money.Amount, error),
) (*Capacity, error) {
	c := &Capacity{map[money.Asset]capacity{}}
	if len(assets) == 0 {
		return c, nil
	}
	limits, err := t.limits(ctx, tx, assets)
	if err != nil {
		return nil, err
	}
	var bounded []money.Asset
	for a, l := range limits {
		c.of[a] = capacity{limit: l}
		if !l.unlimited {
			bounded = append(bounded, a)
		}
	}
	if len(bounded) == 0 {
		return c, nil
	}
	owned, err := read(ctx, tx, bounded...)
	if err != nil {
		return nil, err
	}
	for _, a := range bounded {
		left, err := owned[a].Sub(limits[a].Least)
		if err != nil {
			return nil, err
		}
		c.of[a] = capacity{limits[a], left}
	}
	return c, nil
}

// Limits reports whether the exchange into an asset is limited.
func (c *Capacity) Limits(a money.Asset) bool { return c == nil || !c.of[a].limit.unlimited }

// Use subtracts amounts from the capacity and reports whether it suffices. If it does not, or an asset is not part of
// the Capacity, nothing is subtracted. An amount of 0 only needs a balance that is not below the least one.
func (c *Capacity) Use(amounts ...money.Amount) (bool, error) {
	if len(amounts) == 0 {
		return true, nil
	}
	if c == nil {
		return false, nil
	}
	next := maps.Clone(c.of)
	for _, x := range amounts {
		in, ok := next[x.Asset()]
		switch most := in.limit.Most; {
		case !ok, most.Asset() != "" && x.Cmp(most) > 0:
			return false, nil
		case in.limit.unlimited:
			continue
		}
		var err error
		if in.left, err = in.left.Sub(x); err != nil || in.left.Sign() < 0 {
			return false, err
		}
		next[x.Asset()] = in
	}
	c.of = next
	return true, nil
}

// Reserve subtracts an amount that will be paid later from the capacity, which can become negative. A negative amount
// releases capacity. An asset that is not part of the Capacity is ignored.
func (c *Capacity) Reserve(x money.Amount) (err error) {
	if c == nil || c.of[x.Asset()].limit.unlimited {
		return nil
	}
	in, ok := c.of[x.Asset()]
	if !ok {
		return nil
	}
	in.left, err = in.left.Sub(x)
	c.of[x.Asset()] = in
	return err
}
