// Package wallet shows a company its money: what it has, what is set aside for pay runs, and what moved it.
//
// A wallet is a reading of the ledger, never a store of money. Its row names one currency of the company's available
// balance (account 2000) so that a pay run can be funded from it by id; asking for one is
//
//	pending → in_progress → completed
//	   │           └──────→ rejected
//	   ├──────────────────→ completed
//	   └──────────────────→ rejected
//
// A balance can be there before anybody asked for a wallet (a surplus, a cancelled pay run), and is shown all the same.
//
// A wallet in coins has an address of its own from when it is completed, for ever. What comes there package deposit credits to the
// available balance, in the coin that came.
package wallet

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// State is where a request for a wallet stands.
type State string

// The states of a request.
const (
	Pending    State = "pending"     // asked for
	InProgress State = "in_progress" // waits for the company's verification
	Completed  State = "completed"   // in use
	Rejected   State = "rejected"
)

// Why a request is rejected.
const (
	ReasonCurrency = "currency_not_supported" // this installation holds no money in it
	ReasonFrozen   = "company_frozen"
)

// JobOpen has a request looked at (payload {wallet_id}).
const JobOpen = "wallet.open"

// recheck is how long a request waits between two looks at the company's verification.
const recheck = time.Hour

// Currencies are those in which this service can hold money for companies: coins that fund pay runs, and the currencies of funding
// accounts.
var Currencies = []money.Asset{money.BTC, money.ETH, money.EUR, money.USD, money.USDC, money.USDT}

// What a caller may be told.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such wallet.")
	errCurrency = apierr.New(apierr.Invalid, "currency_not_supported", "The service does not know this currency; see GET /api/currencies.")
)

// Wallet is a company's request for one, and then the wallet.
type Wallet struct {
	CompanyID string
	ID        string
	Currency  money.Asset
	State     State
	Reason    string // why it was rejected, "" otherwise
	Address   string // where it is paid in coins; "" where it is in no coin, or not in use
	Version   int64
	CreatedAt time.Time
}

// Balance is what a company has in one currency.
type Balance struct {
	Wallet                 // the zero Wallet where none was asked for; Currency is always set
	Available money.Amount // to fund pay runs with
	Reserved  money.Amount // set aside for pay runs that are not released yet
	Claims    money.Amount // what merchant claims have brought, before it is settled
}

type openPayload struct {
	WalletID string `json:"wallet_id"`
}

// Request asks for a wallet in a currency. There is one for each: asking again answers the one that is there, unless it
// was rejected.
func Request(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, currency string) (Wallet, error) {
	company, err := active(ctx, tx, by, companyID)
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
		if w, err = byCurrency(ctx, tx, company, asset); err == nil && w.lacksAddress() {
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

func active(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (string, error) {
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

// Opener decides requests.
type Opener struct {
	// Verified says that a company must be verified before it may hold money. A sandbox asks for nothing.
	Verified bool
	// Pool gives out Bitcoin's addresses; Accounts are the networks of accounts.
	Pool     *chain.Pool
	Accounts chain.EVMNetworks
}

// Networks are those on which a wallet in an asset is paid, none where that is no coin. bitcoin is the network of Bitcoin's.
func Networks(a money.Asset, bitcoin string, accounts chain.EVMNetworks) []string {
	if a == money.BTC {
		return []string{bitcoin}
	}
	return accounts.Carrying(a)
}

// holds says that this installation can hold an asset for companies.
func (o Opener) holds(a money.Asset) bool {
	return slices.Contains(Currencies, a) && (!a.IsCrypto() || len(Networks(a, "", o.Accounts)) > 0)
}

// lacksAddress says that a wallet in coins is in use and has no address: it was opened before wallets had any.
func (w Wallet) lacksAddress() bool {
	return w.State == Completed && w.Currency.IsCrypto() && w.Address == ""
}

// give takes an address for a wallet in coins that has none.
func (o Opener) give(ctx context.Context, tx *db.Tx, w *Wallet) (err error) {
	switch {
	case w.Address != "" || !w.Currency.IsCrypto():
	case w.Currency == money.BTC:
		w.Address, err = o.Pool.NewAddress(ctx, tx, w.CompanyID, w.ID)
	default:
		w.Address, err = o.Accounts.Pool.NewAddress(ctx, tx, w.CompanyID, w.ID)
	}
	return err
}

// Open decides a request (job wallet.open). One that waits for the company's verification is looked at again.
func (o Opener) Open(ctx context.Context, tx *db.Tx, j job.Job) error {
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
		if !o.holds(w.Currency) {
			return nil
		}
	case !o.holds(w.Currency):
		return w.move(ctx, tx, Rejected, ReasonCurrency)
	case c.Active() != nil:
		return w.move(ctx, tx, Rejected, ReasonFrozen)
	case o.Verified && c.KYBStatus != "approved":
		job.Enqueue(tx, job.New{CompanyID: w.CompanyID, Kind: JobOpen, Payload: in, RunAt: tx.Now().Add(recheck)})
		if w.State == InProgress {
			return nil
		}
		return w.move(ctx, tx, InProgress, "")
	}
	if err := o.give(ctx, tx, &w); err != nil {
		return err
	}
	return w.move(ctx, tx, Completed, "")
}

// move takes a request on from the version that was read.
func (w Wallet) move(ctx context.Context, tx *db.Tx, to State, reason string) error {
	if err := update(ctx, tx, w, to, reason); err != nil {
		return err
	}
	from := w.State
	w.State, w.Reason, w.Version = to, reason, w.Version+1
	db.History(tx, w.CompanyID, w.ID, w.Version, string(from), string(to), reason)
	return w.emit(tx, webhook.WalletStatusUpdate)
}

// emit tells the company how its request stands.
func (w Wallet) emit(tx *db.Tx, event webhook.Type[webhook.WalletData]) error {
	return webhook.Emit(tx, event.Event(w.CompanyID, w.ID, w.Version, webhook.WalletData{
		WalletID: w.ID, Currency: w.Currency, Status: string(w.State), Reason: w.Reason, Address: w.Address,
	}))
}

// Get is a wallet of the principal's company, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Wallet, error) {
	company, err := by.Company("")
	if err != nil {
		return Wallet{}, err
	}
	return find(ctx, tx, company, id)
}

// Currency is what a wallet in use of the company holds. It returns ErrNotFound.
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

// Balances are the company's currencies: those that it has something in, and those that it has a wallet for.
func Balances(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) ([]Balance, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	wallets, err := latest(ctx, tx, company)
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
			all = append(all, Balance{Wallet: Wallet{CompanyID: company, Currency: a}, Available: money.Zero(a), Reserved: money.Zero(a), Claims: money.Zero(a)})
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
		default: // what is owed to others is not the company's
		}
	}
	return all, nil
}

// The types of transactions. One of another source is named after it.
const (
	PayrollFunding   = "payroll_funding"   // a pay run was paid from the balance
	PayrollSurplus   = "payroll_surplus"   // more than a pay run needed came in for it, or too late
	PayrollCancelled = "payroll_cancelled" // what a cancelled pay run had received
	FundingReverted  = "funding_reverted"  // the chain took back what had come in
	BankDeposit      = "bank_deposit"      // a transfer to a funding account
	CoinDeposit      = "coin_deposit"      // coins that came to a wallet's address
	CoinsReverted    = "coins_reverted"    // the chain took such coins back
	ClaimPayment     = "claim_payment"     // a claim was paid
	ClaimReverted    = "claim_reverted"    // the chain took a claim's payment back
	Settlement       = "settlement"        // what claims had brought was moved to the wallet, or paid out
	Withdrawal       = "withdrawal"        // the company took it out
	Debt             = "debt"              // what the company owed was settled out of its balance
	WithdrawalUndone = "withdrawal_undone" // what it took out did not leave, or came back
)

// Transaction is one line of a company's statement.
type Transaction struct {
	ID          string
	Type        string
	Description string
	Amount      money.Amount // negative: it went out
	Balance     money.Amount // after it
	SourceType  string       // what it was for: payroll, claim, bank_deposit …
	SourceID    string
	PayrollID   string // "" where no pay run is concerned
	DepositID   string // "" where no deposit is concerned
	At          time.Time
}

// Filter chooses and pages transactions.
type Filter struct {
	Claims   bool      // of what claims have brought, instead of the available balance
	Currency string    // "" means every one
	From, To time.Time // in [From, To); zero is open
	Page     int       // from 1
	PerPage  int
}

// Transactions is the statement of the company's available balance, or of what claims have brought, newest first, with the number of lines in all.
func Transactions(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Transaction, int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	p := ledger.Period{From: f.From, To: f.To, Limit: f.PerPage, Offset: int64(max(f.Page, 1)-1) * int64(f.PerPage)}
	if f.Currency != "" {
		asset, known := money.Lookup(f.Currency)
		if !known {
			return nil, 0, errCurrency.At("query", "currency")
		}
		p.Asset = asset
	}
	account := ledger.CompanyFunds
	if f.Claims {
		account = ledger.MerchantPayable
	}
	entries, total, err := ledger.Statement(ctx, tx, company, account, p)
	if err != nil {
		return nil, 0, err
	}
	all := make([]Transaction, len(entries))
	for i, e := range entries {
		all[i] = explain(e)
	}
	return all, total, nil
}

// explain says in words what a journal did to the balance. The purposes are those under which pay runs and funding
// accounts book.
func explain(e ledger.Entry) Transaction {
	t := Transaction{ID: e.JournalID, Amount: e.Amount, Balance: e.Balance, SourceType: e.SourceType, SourceID: e.SourceID, At: e.BookedAt}
	what, rest, _ := strings.Cut(e.Purpose, ":")
	switch e.SourceType {
	case "payroll":
		t.PayrollID = e.SourceID
		t.DepositID, _, _ = strings.Cut(rest, ":")
		switch what {
		case "fund":
			t.Type, t.Description = PayrollFunding, "Payroll "+e.SourceID+" was funded from the balance"
		case "cancel":
			t.Type, t.Description = PayrollCancelled, "Payroll "+e.SourceID+" was cancelled; what it had received came back"
		case "reverse":
			t.Type, t.Description = FundingReverted, "A deposit for payroll "+e.SourceID+" is no longer in the chain"
		default:
			t.Type, t.Description = PayrollSurplus, "A deposit for payroll "+e.SourceID+" was more than it took"
		}
	case "claim":
		t.Type, t.Description = ClaimPayment, "Claim "+e.SourceID+" was paid"
		if e.Amount.Sign() < 0 {
			t.Type, t.Description = ClaimReverted, "The payment of claim "+e.SourceID+" is no longer in the chain"
		}
	case Settlement:
		t.Type, t.Description = Settlement, "Settlement "+e.SourceID+" of what claims had brought"
	case Withdrawal:
		t.Type, t.Description = Withdrawal, "Withdrawal "+e.SourceID
		if e.Amount.Sign() > 0 {
			t.Type, t.Description = WithdrawalUndone, "Withdrawal "+e.SourceID+" did not leave, or came back"
		}
	case "deposit":
		t.Type, t.DepositID, t.Description = CoinDeposit, e.SourceID, "Coins that came for the wallet"
		if e.Amount.Sign() < 0 {
			t.Type, t.Description = CoinsReverted, "A deposit of coins is no longer in the chain"
		}
	case BankDeposit:
		t.Type, t.DepositID, t.Description = BankDeposit, e.SourceID, "A bank transfer to a funding account"
	case Debt:
		t.Type, t.Description = Debt, "What was owed since money that had come in was taken back"
	default:
		t.Type, t.Description = e.SourceType, fmt.Sprintf("%s %s", e.SourceType, e.SourceID)
	}
	return t
}
