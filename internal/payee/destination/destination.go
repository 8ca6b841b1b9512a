// Package destination stores the payment destinations of payees. An owner has at most three destinations. Each is a
// crypto address or a bank account, and their allocations total 100 percent.
//
// An owner is a user (usr_…) or a recipient without a login (rec_…). Destinations belong to the person who is paid,
// not to the companies that pay. The first destination gets the allocation 100, and later ones 0, until all are set
// together, so allocations always total 100. A destination can instead have a fixed amount, which is paid first; the
// allocations divide the rest. A destination can be deleted only if it receives no part of payments.
//
// Package country defines the required fields for each currency and country. They are returned by [Fields], used for
// validation, and quoted in problems. Bank data is encrypted ([identity.Sealer]), and masked in everything that is
// read without [Reveal]. Addresses on public blockchains are not secret.
package destination

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
)

// Errors that callers receive.
var (
	ErrCurrency = apierr.New(apierr.Invalid, "currency_not_supported",
		"This service does not pay out this currency in the payee's country. GET /api/currencies lists those that it pays.")
	ErrProfile = apierr.New(apierr.Conflict, "profile_incomplete",
		"The payee's profile has no country. Set it first: it decides what a bank destination consists of.")
	ErrLimit = apierr.New(apierr.Invalid, "distribution_limit",
		"A payee has at most 3 destinations. Delete one whose allocation is 0 first.")
	ErrTotal      = apierr.New(apierr.Invalid, "allocation_total", "The allocations must total exactly 100.")
	ErrAllocation = apierr.New(apierr.Invalid, "allocation_invalid",
		"An allocation is a whole number of percent from 0 to 100, and each destination is named once.")
	ErrFixed = apierr.New(apierr.Invalid, "allocation_invalid",
		"A destination gets a percentage, a fixed amount, or the remainder: set only one of them.")
	ErrRemainder  = apierr.New(apierr.Invalid, "allocation_invalid", "Only one destination can get the remainder.")
	ErrOwnAddress = apierr.New(apierr.Invalid, "address_invalid",
		"This is an address of this service itself. Give an address of the payee's own.")
	ErrNotZero = apierr.New(apierr.Conflict, "allocation_not_zero",
		"This destination still takes a part of the payments. Set its allocation to 0 first.")
)

// Most is the maximum number of destinations of an owner.
const Most = 3

// Kinds of destinations.
const (
	Crypto = "crypto"
	Fiat   = "fiat"
)

// Rails on which destinations are paid.
const (
	RailBitcoin   = "bitcoin"
	RailLightning = "lightning" // also the name of the network
	RailEVM       = "evm"
	RailBank      = "bank"
)

// Destination is a payment destination. Its JSON form can be stored as a snapshot, because bank data is masked in
// Data and encrypted in Sealed.
type Destination struct {
	ID      string      `json:"distribution_id"`
	OwnerID string      `json:"owner_id"`
	Kind    string      `json:"kind"`
	Symbol  money.Asset `json:"symbol"`
	Rail    string      `json:"rail"`
	Scheme  string      `json:"scheme,omitempty"` // payment scheme of the bank's country, such as "ach" or "pix"
	Country string      `json:"country,omitempty"`
	Network string      `json:"network,omitempty"`
	// Address is an address on a blockchain, or for Lightning a Lightning address or BOLT 11 invoice. If
	// [Destination.Fresh], it is the wallet's first address.
	Address    string          `json:"address,omitempty"`
	Data       json.RawMessage `json:"data"` // destination data, with bank data masked
	Sealed     string          `json:"sealed,omitempty"`
	Allocation int             `json:"allocation"` // percentage of what remains of a payment after fixed amounts
	Fixed      money.Amount    `json:"-"`          // paid first from each payment, in its own currency; or the zero Amount
	Created    time.Time       `json:"created"`
	Updated    time.Time       `json:"-"` // last change of the data or allocation; not in snapshots
	Correction *Correction     `json:"-"` // correction that a bank requested, or nil; not in snapshots
	Check      *AccountCheck   `json:"-"` // newest check of the bank account, or nil; not in snapshots
}

// Used reports whether the destination receives a part of payments.
func (d Destination) Used() bool { return d.Allocation > 0 || d.Fixed.Sign() > 0 }

// Payable reports whether this installation pays out an asset on a network, or on any network if network is "". It
// pays out bank currencies, bitcoin (over Lightning only if a Lightning node is configured for payments), and the
// assets of the configured EVM networks. Other destinations are rejected. A stored destination becomes unpayable if
// the operator removes its network.
func (s Setup) Payable(symbol money.Asset, network string) bool {
	on := s.Accounts.Carrying(symbol)
	return !symbol.IsCrypto() || symbol == money.BTC && (network != RailLightning || s.Lightning) ||
		slices.Contains(on, network) || network == "" && len(on) > 0
}

// Setup is the configuration that destinations depend on.
type Setup struct {
	Sealer *identity.Sealer
	// BitcoinNetwork is the Bitcoin network on which this installation pays: bitcoin in production; regtest, signet or
	// testnet in a sandbox. Addresses of other networks are rejected.
	BitcoinNetwork string
	// Chain is the name under which the service's own addresses on the Bitcoin network are stored. They are rejected as
	// destinations.
	Chain string
	// Accounts are the EVM networks on which this installation pays.
	Accounts chain.EVMNetworks
	// Lightning reports whether this installation pays over Lightning.
	Lightning bool
}

// CreateParams describes a new destination.
type CreateParams struct {
	OwnerID string
	Symbol  string
	Kind    string          // crypto or fiat, matching the symbol; may be ""
	Data    json.RawMessage // object with exactly the members that the symbol requires

	oneAddress bool // reports whether descriptors of wallets are rejected
}

// Create adds a destination to a user or recipient for whom the principal may act. It returns all problems of the
// data at once, with pointers below /distribution_data. It returns ErrLimit for a fourth destination, ErrCurrency for
// a currency that cannot be paid in the owner's country, and apierr.NotFoundErr for another company's payee.
func Create(ctx context.Context, tx *db.Tx, setup Setup, by identity.Principal, p CreateParams) (Destination, error) {
	owner, err := changeable(ctx, tx, by, p.OwnerID)
	if err != nil {
		return Destination{}, err
	}
	d, clean, err := setup.checked(ctx, tx, p, owner.Country)
	if err != nil {
		return Destination{}, err
	}
	d.ID, d.OwnerID, d.Created = tx.NewID("dst"), owner.ID, tx.Now()
	if err := setup.seal(&d, clean); err != nil {
		return Destination{}, err
	}
	count, version, err := countIn(ctx, tx, owner.ID)
	if err != nil {
		return Destination{}, err
	}
	if count == 1 {
		d.Allocation = 100
	}
	if err := insert(ctx, tx, d); err != nil {
		return Destination{}, err
	}
	db.History(tx, by.CompanyID, d.ID, version, "", allocated(d), "created")
	if err := tell(ctx, tx, by, owner, version, mail.Added, change{after: &d}); err != nil {
		return Destination{}, err
	}
	return d, payee.ActivateEverywhere(ctx, tx, by, owner)
}

// UpdateParams describes the complete new data of a destination, whose ID and allocation do not change.
type UpdateParams struct {
	OwnerID, ID string
	Symbol      string          // "" keeps the symbol
	Kind        string          // crypto or fiat, matching the symbol; may be ""
	Data        json.RawMessage // data of the destination, as in CreateParams
}

// Update replaces the data of a destination, by the rules of [Create]. Payments that are already released keep their
// destination. Update returns apierr.NotFoundErr for an unknown destination.
func Update(ctx context.Context, tx *db.Tx, setup Setup, by identity.Principal, p UpdateParams) (Destination, error) {
	owner, err := changeable(ctx, tx, by, p.OwnerID)
	if err != nil {
		return Destination{}, err
	}
	version, err := queueUp(ctx, tx, owner.ID)
	if err != nil {
		return Destination{}, err
	}
	old, err := find(ctx, tx, owner.ID, p.ID)
	if err != nil {
		return Destination{}, err
	}
	if p.Symbol == "" {
		p.Symbol = string(old.Symbol)
	}
	d, clean, err := setup.checked(ctx, tx, CreateParams{Symbol: p.Symbol, Kind: p.Kind, Data: p.Data}, owner.Country)
	if err != nil {
		return Destination{}, err
	}
	d.ID, d.OwnerID, d.Created, d.Allocation, d.Fixed = old.ID, old.OwnerID, old.Created, old.Allocation, old.Fixed
	if err := setup.seal(&d, clean); err != nil {
		return Destination{}, err
	}
	if err := replace(ctx, tx, d); err != nil {
		return Destination{}, err
	}
	db.History(tx, by.CompanyID, d.ID, version, allocated(old), allocated(d), "updated")
	return d, tell(ctx, tx, by, owner, version, mail.Replaced, change{&old, &d})
}

// Preview returns a destination as it is and as it would be after an [Update], both masked. It changes nothing.
func Preview(ctx context.Context, tx *db.Tx, setup Setup, by identity.Principal,
	p UpdateParams) (old, changed Destination, err error) {
	owner, err := changeable(ctx, tx, by, p.OwnerID)
	if err != nil {
		return old, changed, err
	}
	if old, err = Get(ctx, tx, by, owner.ID, p.ID); err != nil {
		return old, changed, err
	}
	changed, _, err = setup.checked(ctx, tx, CreateParams{Symbol: cmp.Or(p.Symbol, string(old.Symbol)), Kind: p.Kind,
		Data: p.Data}, owner.Country)
	return old, changed, err
}

// Check returns the error that [Create] would return for the data of a destination. It stores nothing.
func Check(ctx context.Context, tx *db.Tx, setup Setup, by identity.Principal, p CreateParams) error {
	owner, err := payee.Owner(ctx, tx, by, p.OwnerID)
	if err != nil {
		return err
	}
	_, _, err = setup.checked(ctx, tx, p, owner.Country)
	return err
}

// checked is like check, but also applies the rule that needs the database: it rejects the service's own addresses,
// because a payment to one would look like a deposit.
func (s Setup) checked(ctx context.Context, tx *db.Tx, p CreateParams, country string) (Destination, []byte, error) {
	d, clean, err := s.check(p, country)
	if err != nil {
		return d, clean, err
	}
	var chains []string
	switch d.Rail {
	case RailLightning:
		if r, err := lightning.Decode(d.Address); err == nil && !tx.Now().Before(r.Expires()) {
			return d, nil, errExpired.At("body", base+"/"+lightningInvoiceKey)
		}
	case RailBitcoin:
		chains = []string{s.Chain}
	case RailEVM: // a key has the same address on every EVM network, so unconfigured networks count, too
		for _, n := range s.Accounts.Networks {
			chains = append(chains, n.Name)
		}
	}
	for _, name := range chains {
		own, err := chain.IsOwnAddress(ctx, tx, name, d.Address)
		if err != nil {
			return d, nil, err
		}
		if own {
			return d, nil, ErrOwnAddress.At("body", base+"/address")
		}
	}
	return d, clean, nil
}

// changeable returns the owner with the given ID if the principal may change the owner's destinations.
func changeable(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (payee.Payee, error) {
	owner, err := payee.Owner(ctx, tx, by, id)
	if err != nil || by.CompanyID == "" || owner.UserID != "" && owner.UserID == by.UserID {
		return owner, err // a user may change their own destinations even if the company is frozen
	}
	company, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return payee.Payee{}, err
	}
	return owner, company.Active()
}

// lockOwn returns an owner's destination, which the principal must be allowed to change, and the next version of the
// owner's destinations. Other changes of the owner's destinations wait until the transaction ends.
func lockOwn(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID, id string) (owner payee.Payee,
	version int64, d Destination, err error) {
	if owner, err = changeable(ctx, tx, by, ownerID); err != nil {
		return owner, 0, d, err
	}
	if version, err = queueUp(ctx, tx, owner.ID); err != nil {
		return owner, 0, d, err
	}
	d, err = find(ctx, tx, owner.ID, id)
	return owner, version, d, err
}

// Delete deletes a destination that receives no part of payments. It returns ErrNotZero if the destination receives a
// part, and apierr.NotFoundErr if it is unknown.
func Delete(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID, id string) error {
	owner, err := changeable(ctx, tx, by, ownerID)
	if err != nil {
		return err
	}
	version, err := countOut(ctx, tx, owner.ID)
	if err != nil {
		return err
	}
	d, err := find(ctx, tx, owner.ID, id)
	if err != nil {
		return err
	}
	if d.Used() {
		return ErrNotZero
	}
	if err := remove(ctx, tx, owner.ID, id); err != nil {
		return err
	}
	db.History(tx, by.CompanyID, id, version, allocated(d), "deleted", "deleted")
	return tell(ctx, tx, by, owner, version, mail.Removed, change{before: &d})
}

// SamePlace reports whether two destinations are the same account, as it was entered. Bank data that was entered
// again counts as another account, even if it is identical.
func (d Destination) SamePlace(e Destination) bool { return d.Place() == e.Place() }

// Place returns the values that identify a destination's account.
func (d Destination) Place() [7]string {
	if d.Fresh() {
		d.Address = "" // the address is that of one payment, or the first one
	}
	return [7]string{d.Kind, string(d.Symbol), d.Rail, d.Scheme, d.Network, d.Address, identity.SealID(d.Sealed)}
}

// find returns one destination of an owner.
func find(ctx context.Context, tx *db.Tx, ownerID, id string) (Destination, error) {
	all, err := selectFor(ctx, tx, []string{ownerID})
	if err != nil {
		return Destination{}, err
	}
	for _, d := range all[ownerID] {
		if d.ID == id {
			return d, nil
		}
	}
	return Destination{}, apierr.NotFoundErr
}

func (d Destination) label() string {
	if hint := d.Hint(); hint != "" {
		return string(d.Symbol) + ": " + hint
	}
	return string(d.Symbol)
}

// identifying contains the names of members that identify an account, from most to least specific.
var identifying = []string{"iban", "account_number", "clabe", "cbu_cvu", "cci", "rib", "card_number", "pix_key",
	"alias", "phone_number", "email"}

// Hint returns an abbreviated form by which people who know the destination can recognize it, such as "bc1q9h…k3d2"
// or "••••3000". It returns "" if there is none.
func (d Destination) Hint() string {
	if d.Kind == Crypto {
		if lightning.IsAddress(d.Address) {
			return d.Address
		}
		if a := d.Address; len(a) > 12 {
			return a[:6] + "…" + a[len(a)-4:]
		}
		return ""
	}
	var masked map[string]any
	if json.Unmarshal(d.Data, &masked) != nil {
		return ""
	}
	for _, key := range identifying {
		if s, _ := masked[key].(string); s != "" {
			return s
		}
	}
	return ""
}

// ForOwners returns the destinations of several owners by owner, oldest first, with bank data masked. Owners without
// destinations are not in the map. It does not check access: callers must have checked that they may read the owners.
func ForOwners(ctx context.Context, tx *db.Tx, owners []string) (map[string][]Destination, error) {
	return selectFor(ctx, tx, owners)
}

// List returns the destinations of an owner for whom the principal may act, with bank data masked.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID string) ([]Destination, error) {
	owner, err := payee.Owner(ctx, tx, by, ownerID)
	if err != nil {
		return nil, err
	}
	all, err := selectFor(ctx, tx, []string{owner.ID})
	return all[owner.ID], err
}

// Get returns one destination of an owner for whom the principal may act, with bank data masked, or
// apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID, id string) (Destination, error) {
	own, err := List(ctx, tx, by, ownerID)
	if err != nil {
		return Destination{}, err
	}
	for _, d := range own {
		if d.ID == id {
			return d, nil
		}
	}
	return Destination{}, apierr.NotFoundErr
}

// Reveal decrypts the bank data of a destination, for a payment or for the destination's owner. d may be a stored
// snapshot. The descriptor of a wallet stays masked.
func Reveal(s *identity.Sealer, d Destination) (json.RawMessage, error) {
	if d.Kind == Crypto {
		return d.Data, nil
	}
	return s.Open(sealedAt(d), d.Sealed)
}

// Required returns the required fields of a destination in a currency, for an owner for whom the principal may act.
// [Create] and [Update] apply the same rules. Required returns ErrCurrency for an unknown currency.
func Required(ctx context.Context, tx *db.Tx, setup Setup, by identity.Principal, ownerID,
	currency string) (Requirement, error) {
	owner, err := payee.Owner(ctx, tx, by, ownerID)
	if err != nil {
		return Requirement{}, err
	}
	return setup.RequiredIn(currency, owner.Country)
}
