// Package wallet shows companies their money: available and reserved balances, transactions and statements.
//
// A wallet is a view of the ledger and stores no money. Its row gives an ID to one currency of the company's
// available balance (account 2000), so that a payroll can be funded from it by ID. A company requests a wallet:
//
//	pending → in_progress → completed
//	   │           └──────→ rejected
//	   ├──────────────────→ completed
//	   └──────────────────→ rejected
//
// A company can have a balance in a currency without a wallet, for example after a payroll was canceled. That balance
// is shown too.
//
// A wallet in a crypto asset gets a permanent address when it is completed. Package deposit credits coins paid to the
// address to the available balance.
package wallet

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of a request for a wallet.
type State string

// States of a request.
const (
	Pending    State = "pending"     // the wallet was requested
	InProgress State = "in_progress" // the request waits for the company's verification
	Completed  State = "completed"   // the wallet can be used
	Rejected   State = "rejected"
)

// Reasons for a rejection.
const (
	ReasonCurrency = "currency_not_supported" // this installation does not hold the currency
	ReasonFrozen   = "company_frozen"
)

// JobOpen is the kind of the job that decides a request (payload {wallet_id}).
const JobOpen = "wallet.open"

// recheckInterval is the time between checks of a company's verification while a request waits for it.
const recheckInterval = time.Hour

// Currencies are the assets that the service can hold for companies: the crypto assets that fund payrolls, and the
// currencies of virtual accounts.
var Currencies = []money.Asset{money.BTC, money.ETH, money.EUR, money.USD, money.USDC, money.USDT}

// Errors that a caller sees.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such wallet.")
	errCurrency = apierr.New(apierr.Invalid, "currency_not_supported",
		"The service does not know this currency. GET /api/currencies lists the currencies.")
)

// Wallet is a company's wallet, or its request for one.
type Wallet struct {
	CompanyID string
	ID        string
	Currency  money.Asset
	State     State
	Reason    string // reason for a rejection, "" otherwise
	Address   string // address for deposits; "" unless the wallet is completed and its currency is a crypto asset
	Version   int64
	CreatedAt time.Time
}

// Balance is a company's money in one currency.
type Balance struct {
	Wallet                 // only Currency is set if the company has requested no wallet
	Available money.Amount // can fund payrolls and be withdrawn
	Reserved  money.Amount // reserved for payrolls that are not released
	Claims    money.Amount // received for merchants' claims and not settled
}

type openPayload struct {
	WalletID string `json:"wallet_id"`
}

// Request requests a wallet in a currency. A company has one wallet per currency: if it already has a wallet that was
// not rejected, Request returns that wallet.
func Request(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, currency string) (Wallet, error) {
	company, err := activeCompany(ctx, tx, by, companyID)
	if err != nil {
		return Wallet{}, err
	}
	asset, known := money.Lookup(currency)
	if !known {
		return Wallet{}, errCurrency.At("body", "/currency")
	}
	w := Wallet{CompanyID: company, ID: tx.NewID("wal"), Currency: asset, State: Pending, Version: 1, CreatedAt: tx.Now()}
	first, err := insert(ctx, tx, w)
	if err != nil {
		return Wallet{}, err
	}
	if !first {
		if w, err = findByCurrency(ctx, tx, company, asset); err == nil && w.lacksAddress() {
			job.Enqueue(tx, job.New{CompanyID: company, Kind: JobOpen, Payload: openPayload{w.ID}})
		}
		return w, err
	}
	db.History(tx, w.CompanyID, w.ID, w.Version, "", string(w.State), "requested")
	if err := w.emit(tx, webhook.WalletCreated); err != nil {
		return Wallet{}, err
	}
	job.Enqueue(tx, job.New{CompanyID: company, Kind: JobOpen, Payload: openPayload{w.ID}})
	return w, nil
}

// activeCompany returns the company that the principal acts for, or an error if it is not active.
func activeCompany(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (string, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return "", err
	}
	c, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return "", err
	}
	return company, c.Active()
}

// Config configures an Opener.
type Config struct {
	Pool            *chain.Pool       // provides Bitcoin addresses; required
	Accounts        chain.EVMNetworks // EVM networks; their Pool is required if there are any
	AllowUnverified bool              // lets companies without an approved verification open wallets, as in a sandbox
}

// Opener decides requests for wallets.
type Opener struct{ config Config }

// New returns an Opener. It returns an error if a dependency is missing.
func New(c Config) (*Opener, error) {
	switch {
	case c.Pool == nil:
		return nil, errors.New("wallet: Config.Pool is required")
	case len(c.Accounts.Networks) > 0 && c.Accounts.Pool == nil:
		return nil, errors.New("wallet: Config.Accounts.Pool is required")
	}
	return &Opener{c}, nil
}

// Networks returns the networks on which deposits in a crypto asset are accepted, or none for a bank currency.
// bitcoin is the name of the Bitcoin network.
func Networks(a money.Asset, bitcoin string, accounts chain.EVMNetworks) []string {
	if a == money.BTC {
		return []string{bitcoin}
	}
	return accounts.Carrying(a)
}

// supports reports whether this installation can hold an asset for companies.
func (o *Opener) supports(a money.Asset) bool {
	return slices.Contains(Currencies, a) && (!a.IsCrypto() || len(Networks(a, "", o.config.Accounts)) > 0)
}

// lacksAddress reports whether a completed wallet in a crypto asset has no address.
func (w Wallet) lacksAddress() bool {
	return w.State == Completed && w.Currency.IsCrypto() && w.Address == ""
}

// assignAddress assigns an address from the pool to a wallet in a crypto asset that has no address.
func (o *Opener) assignAddress(ctx context.Context, tx *db.Tx, w *Wallet) (err error) {
	switch {
	case w.Address != "" || !w.Currency.IsCrypto():
	case w.Currency == money.BTC:
		w.Address, err = o.config.Pool.NewAddress(ctx, tx, w.CompanyID, w.ID)
	default:
		w.Address, err = o.config.Accounts.Pool.NewAddress(ctx, tx, w.CompanyID, w.ID)
	}
	return err
}

// Open decides a request (job wallet.open). While the company is not verified, the request waits and Open runs again.
func (o *Opener) Open(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in openPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	w, err := find(ctx, tx, j.CompanyID, in.WalletID)
	if err != nil {
		return err
	}
	if w.State != Pending && w.State != InProgress && !w.lacksAddress() {
		return nil
	}
	c, err := identity.CompanyByID(ctx, tx, j.CompanyID)
	if err != nil {
		return err
	}
	switch {
	case w.lacksAddress():
		if !o.supports(w.Currency) {
			return nil
		}
	case !o.supports(w.Currency):
		return w.advance(ctx, tx, Rejected, ReasonCurrency)
	case c.Active() != nil:
		return w.advance(ctx, tx, Rejected, ReasonFrozen)
	case !o.config.AllowUnverified && c.KYBStatus != identity.KYBApproved:
		job.Enqueue(tx, job.New{
			CompanyID: w.CompanyID, Kind: JobOpen, Payload: in, RunAt: tx.Now().Add(recheckInterval),
		})
		if w.State == InProgress {
			return nil
		}
		return w.advance(ctx, tx, InProgress, "")
	}
	if err := o.assignAddress(ctx, tx, &w); err != nil {
		return err
	}
	return w.advance(ctx, tx, Completed, "")
}

// advance stores the next state and emits an event. It fails if the wallet has changed since it was read.
func (w Wallet) advance(ctx context.Context, tx *db.Tx, to State, reason string) error {
	if err := update(ctx, tx, w, to, reason); err != nil {
		return err
	}
	from := w.State
	w.State, w.Reason, w.Version = to, reason, w.Version+1
	db.History(tx, w.CompanyID, w.ID, w.Version, string(from), string(to), reason)
	return w.emit(tx, webhook.WalletStatusUpdate)
}

// emit emits an event with the wallet's state.
func (w Wallet) emit(tx *db.Tx, event webhook.Type[webhook.WalletData]) error {
	return webhook.Emit(tx, event.Event(w.CompanyID, w.ID, w.Version, webhook.WalletData{
		WalletID: w.ID, Currency: w.Currency, Status: string(w.State), Reason: w.Reason, Address: w.Address,
	}))
}

// Get returns a wallet of the principal's company, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Wallet, error) {
	company, err := by.Company("")
	if err != nil {
		return Wallet{}, err
	}
	return find(ctx, tx, company, id)
}

// Currency returns the currency of a completed wallet of the company, or ErrNotFound.
func Currency(ctx context.Context, tx *db.Tx, companyID, walletID string) (money.Asset, error) {
	w, err := find(ctx, tx, companyID, walletID)
	if err != nil {
		return "", err
	}
	if w.State != Completed {
		return "", ErrNotFound
	}
	return w.Currency, nil
}

// Balances returns the company's balances in every currency in which it has money or a wallet.
func Balances(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) ([]Balance, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	wallets, err := list(ctx, tx, company)
	if err != nil {
		return nil, err
	}
	holdings, err := ledger.Holdings(ctx, tx, company)
	if err != nil {
		return nil, err
	}
	var all []Balance
	at := map[money.Asset]int{}
	of := func(a money.Asset) *Balance {
		if _, ok := at[a]; !ok {
			at[a] = len(all)
			all = append(all, Balance{
				Wallet:    Wallet{CompanyID: company, Currency: a},
				Available: money.Zero(a), Reserved: money.Zero(a), Claims: money.Zero(a),
			})
		}
		return &all[at[a]]
	}
	for _, w := range wallets {
		of(w.Currency).Wallet = w
	}
	for _, h := range holdings {
		switch h.Code {
		case ledger.CompanyFunds:
			of(h.Balance.Asset()).Available = h.Balance
		case ledger.Escrow:
			of(h.Balance.Asset()).Reserved = h.Balance
		case ledger.MerchantPayable:
			of(h.Balance.Asset()).Claims = h.Balance
		default: // owed to payees and payers
		}
	}
	return all, nil
}
