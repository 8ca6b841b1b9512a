// Package virtualaccount gives users and companies virtual bank accounts, called funding accounts in the API, and
// credits the money received on them.
//
// A virtual account is a set of account numbers that a bank or its agent (see [Bank]) assigns to one owner in one
// currency. Money received on it is credited to the owner's available balance, once for each reference of the bank.
//
//	requested → terms_pending → pending → active ⇄ suspended
//	    └──────────────────────────↑ ↓
//	                             closed
//
// An owner must be verified and must have accepted the terms: the first response says where the terms are, and the
// next request names the accepted version. If the bank assigns accounts immediately, the account is opened in the
// same transaction; otherwise a job requests the account. When the owner's verification ends, the account is
// suspended: received money is still credited, but the account is not shown until the owner is verified again.
package virtualaccount

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of an account.
type State string

// States of an account.
const (
	Requested    State = "requested"
	TermsPending State = "terms_pending" // the owner has not accepted the terms yet
	Pending      State = "pending"       // the account was requested from the bank
	Active       State = "active"
	Suspended    State = "suspended" // the owner's verification has ended
	Closed       State = "closed"    // the bank refused the account
)

// Reasons of suspended and closed accounts.
const (
	ReasonVerification = "verification_ended"
	ReasonRefused      = "refused_by_bank"
)

// TermsVersion is the version of the terms that owners must accept.
const TermsVersion = "2026-01"

// JobOpen is the kind of the job that requests an account from the bank. Its payload has owner_id and account_id.
const JobOpen = "funding.open"

const sourceType = "bank_deposit" // source type of the journals

// Errors of requests.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such funding account.")
	ErrVerify   = apierr.New(apierr.Forbidden, "kyc_required",
		"Only verified owners can have a funding account. Complete the verification first.")
	ErrCurrency   = apierr.New(apierr.Invalid, "currency_not_supported", "Funding accounts are in EUR or USD.")
	ErrNotOffered = apierr.New(apierr.Conflict, "invalid_state",
		"This installation has no bank that opens funding accounts.")
	ErrNotActive = apierr.New(apierr.Conflict, "invalid_state", "The funding account is not active.")
	ErrReference = apierr.New(apierr.Conflict, "invalid_state",
		"The bank has used this reference for another transfer to the account.")
	errTerms = apierr.New(apierr.Invalid, "invalid_parameter",
		"These are not the terms in force; read GET /api/user/funding/account/tos.")
)

// Details has the data that a payer needs to transfer money to an account: the IBAN in Europe, routing and account
// number in the United States.
type Details struct {
	Holder        string `json:"holder"`
	BankName      string `json:"bank_name,omitempty"`
	IBAN          string `json:"iban,omitempty"`
	BIC           string `json:"bic,omitempty"`
	RoutingNumber string `json:"routing_number,omitempty"`
	AccountNumber string `json:"account_number,omitempty"`
}

// key returns a digest of the account's number, by which a transfer is matched to the account.
func (d Details) key() string {
	number := d.IBAN
	if number == "" {
		number = d.RoutingNumber + "/" + d.AccountNumber
	}
	return numberKey(number)
}

func numberKey(number string) string {
	sum := sha256.Sum256([]byte("stipend account number\x00" + strings.ToUpper(strings.ReplaceAll(number, " ", ""))))
	return hex.EncodeToString(sum[:])
}

// Account is a virtual account.
type Account struct {
	OwnerID      string
	ID           string
	CompanyID    string
	Currency     money.Asset
	Provider     string
	State        State
	Reason       string // why the account is suspended or closed, or ""
	Details             // empty before the account is active or if it was read without a sealer
	TermsVersion string // version of the terms that the owner accepted, or ""
	Version      int64
	CreatedAt    time.Time
	Balance      money.Amount // owner's balance in this currency; set only by List and Open

	sealed, numberKey, providerRef, cursor string
	termsAt                                time.Time
}

// Application is a request to a bank to open an account.
type Application struct {
	AccountID string // idempotency key: the bank opens one account for each AccountID
	OwnerID   string
	Currency  money.Asset
	Holder    string
	Email     string
	Country   string
}

// Opened is an account that a bank has opened.
type Opened struct {
	Details
	Ref string // the bank's reference of the account
}

// Receipt is a transfer received on an account, or the reversal of a transfer.
type Receipt struct {
	Reference string       // the bank's reference, unique for the account
	Amount    money.Amount // negative for a reversal
	Unknown   string       // the bank's name of an unknown type of transaction, which is not booked; or ""
}

// ErrRefused reports that the bank refuses an account permanently.
var ErrRefused = errors.New("virtualaccount: the bank refuses the account")

// Bank opens accounts and lists the money received on them. All methods except Name and OpenImmediately may use the
// network.
type Bank interface {
	// Name returns the name stored with accounts; it never changes.
	Name() string
	// OpenImmediately returns an account that can be opened without a request. If ok is false, Open must be called.
	OpenImmediately(a Application) (o Opened, ok bool)
	// Open requests an account. It is idempotent by AccountID, and returns ErrRefused if the bank refuses permanently.
	Open(ctx context.Context, a Application) (Opened, error)
	// Receipts returns the receipts of an account after a cursor ("" for all), oldest first, and the next cursor. It may
	// return the same receipt repeatedly.
	Receipts(ctx context.Context, ref string, currency money.Asset, cursor string) ([]Receipt, string, error)
}

// Service opens accounts at Bank and credits receipts. If Bank is nil, no accounts are offered.
type Service struct {
	Bank   Bank
	Sealer *identity.Sealer
}

type openPayload struct {
	OwnerID   string `json:"owner_id"`
	AccountID string `json:"account_id"`
}

// verified reports whether the owner may have an account.
func verified(o identity.Owner) bool {
	if o.User.ID != "" {
		return o.User.KYCStatus == identity.KYCApproved
	}
	return o.Company.KYBStatus == identity.KYCApproved
}

// Open returns the account, in a currency, of the acting user or, for an API key without a user, of the key's
// company. It creates the account if there is none, and accepts the terms if the argument terms is their version. It
// returns ErrVerify, ErrCurrency or ErrNotOffered.
func (s *Service) Open(ctx context.Context, tx *db.Tx, by identity.Principal, userID, currency, terms string) (Account,
	error,
) {
	owner, err := identity.ChangingOwner(ctx, tx, by, userID)
	if err != nil {
		return Account{}, err
	}
	asset := money.Asset(currency)
	switch {
	case asset != money.EUR && asset != money.USD:
		return Account{}, ErrCurrency.At("body", "/currency")
	case terms != "" && terms != TermsVersion:
		return Account{}, errTerms.At("body", "/terms_version")
	case !verified(owner):
		return Account{}, ErrVerify
	case s.Bank == nil:
		return Account{}, ErrNotOffered
	}
	a, err := byCurrency(ctx, tx, owner.ID, asset)
	if errors.Is(err, ErrNotFound) {
		a = Account{
			OwnerID: owner.ID, ID: tx.NewID("fac"), CompanyID: owner.CompanyID, Currency: asset, Provider: s.Bank.Name(),
			State:   Requested,
			Version: 1, CreatedAt: tx.Now(),
		}
		var first bool
		if first, err = insert(ctx, tx, a); err == nil && !first {
			return Account{}, db.ErrConflict
		}
		if err == nil {
			db.History(tx, a.OwnerID, a.ID, a.Version, "", string(a.State), "requested")
			err = a.emit(tx, "")
		}
	}
	if err != nil {
		return Account{}, err
	}
	if a.State == Requested || a.State == TermsPending {
		if err := s.advance(ctx, tx, &a, owner, terms); err != nil {
			return a, err
		}
	}
	return s.read(ctx, tx, a)
}

// advance changes a new account to its next state: it waits for the acceptance of the terms or for the bank, or is
// active.
func (s *Service) advance(ctx context.Context, tx *db.Tx, a *Account, owner identity.Owner, terms string) error {
	if terms == "" {
		if a.State == TermsPending {
			return nil
		}
		return a.advance(ctx, tx, TermsPending, "")
	}
	a.TermsVersion, a.termsAt = terms, tx.Now()
	if err := a.advance(ctx, tx, Pending, ""); err != nil {
		return err
	}
	if o, ok := s.Bank.OpenImmediately(application(*a, owner)); ok {
		return s.activate(ctx, tx, a, o)
	}
	job.Enqueue(tx, job.New{CompanyID: a.tenant(), Kind: JobOpen, Payload: openPayload{a.OwnerID, a.ID}})
	return nil
}

func application(a Account, o identity.Owner) Application {
	p := Application{AccountID: a.ID, OwnerID: a.OwnerID, Currency: a.Currency, Holder: o.Company.Name,
		Email: o.Company.Email, Country: o.Company.Country}
	if o.User.ID != "" {
		p.Holder, p.Email, p.Country = o.User.Name(), o.User.Email, o.User.Country
	}
	return p
}

// activate stores the numbers of an account and activates it.
func (s *Service) activate(ctx context.Context, tx *db.Tx, a *Account, o Opened) error {
	a.Details, a.providerRef, a.numberKey = o.Details, o.Ref, o.key()
	text, err := json.Marshal(a.Details)
	if err != nil {
		return err
	}
	if a.sealed, err = s.Sealer.Seal(a.sealPlace(), text); err != nil {
		return err
	}
	return a.advance(ctx, tx, Active, "")
}

// owner returns the owner of an account.
func (a Account) owner(ctx context.Context, tx *db.Tx) (o identity.Owner, err error) {
	o.ID, o.CompanyID = a.OwnerID, a.CompanyID
	if strings.HasPrefix(a.OwnerID, "com_") {
		o.Company, err = identity.CompanyByID(ctx, tx, a.OwnerID)
		return o, err
	}
	o.User, err = identity.GetUser(ctx, tx, nil, a.OwnerID)
	return o, err
}

// HandleOpen requests an account from the bank (job funding.open), outside of a transaction.
func (s *Service) HandleOpen(ctx context.Context, d *db.DB, j job.Job) error {
	var in openPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	if s.Bank == nil {
		return errors.New("virtualaccount: no bank is configured; configure one to open the account")
	}
	var a Account
	var p Application
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if a, err = find(ctx, tx, in.OwnerID, in.AccountID); err != nil {
			return err
		}
		owner, err := a.owner(ctx, tx)
		p = application(a, owner)
		return err
	}); err != nil || a.State != Pending {
		return err
	}
	o, err := s.Bank.Open(ctx, p)
	if err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	refused := err != nil
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		a, err := find(ctx, tx, in.OwnerID, in.AccountID)
		if err != nil || a.State != Pending {
			return err // a concurrent job has stored the result
		}
		if refused {
			return a.advance(ctx, tx, Closed, ReasonRefused)
		}
		return s.activate(ctx, tx, &a, o)
	})
}

// List returns the owner's accounts with numbers and balances, closed accounts last.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) ([]Account, error) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	all, err := byOwner(ctx, tx, owner.ID)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i], err = s.read(ctx, tx, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read returns an account with its balance and decrypted account numbers.
func (s *Service) read(ctx context.Context, tx *db.Tx, a Account) (Account, error) {
	if identity.IsUser(a.OwnerID) {
		ctx = db.AcrossCompanies(ctx, "the account of a person belongs to no company; the statement names the person")
	}
	var err error
	if a.Balance, err = ledger.Balance(ctx, tx, a.OwnerID, ledger.CompanyFunds, "", a.Currency); err != nil ||
		a.sealed == "" {
		return a, err
	}
	text, err := s.Sealer.Open(a.sealPlace(), a.sealed)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(text, &a.Details)
}

// ForPayer returns the details of an owner's active account in a currency, for the owner's payers. found is false if
// there is no such account.
func ForPayer(ctx context.Context, tx *db.Tx, sealer *identity.Sealer, ownerID string, currency money.Asset) (d Details,
	found bool, err error) {
	a, err := byCurrency(ctx, tx, ownerID, currency)
	if errors.Is(err, ErrNotFound) {
		return d, false, nil
	}
	if err != nil || a.State != Active || a.sealed == "" {
		return d, false, err
	}
	text, err := sealer.Open(a.sealPlace(), a.sealed)
	if err != nil {
		return d, false, err
	}
	return d, true, json.Unmarshal(text, &d)
}

// ByNumber returns the account, of any owner, with an IBAN, or with a routing number and an account number joined by
// a slash. It returns ErrNotFound if there is none.
func ByNumber(ctx context.Context, tx *db.Tx, number string) (Account, error) {
	return byNumber(ctx, tx, numberKey(number))
}

// Terms returns the version of the terms that the owner accepted last, or "", and the time of the acceptance.
func (s *Service) Terms(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (accepted string,
	at time.Time, err error,
) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return "", at, err
	}
	all, err := byOwner(ctx, tx, owner.ID)
	for _, a := range all {
		if a.TermsVersion != "" && a.termsAt.After(at) {
			accepted, at = a.TermsVersion, a.termsAt
		}
	}
	return accepted, at, err
}

// HasOpen reports whether an owner has an account that is not closed. Such an account can still receive money and is
// in the owner's name.
func HasOpen(ctx context.Context, tx *db.Tx, ownerID string) (bool, error) {
	all, err := byOwner(ctx, tx, ownerID)
	return slices.ContainsFunc(all, func(a Account) bool { return a.State != Closed }), err
}

// maxTransfer is the largest simulated transfer, in minor units. It is small enough that thousands of transfers
// cannot overflow.
const maxTransfer = 10_000_000_000_000

// Incoming is a simulated transfer, see [Service.Deposit].
type Incoming struct {
	AccountID string // account ID; alternatively set IBAN
	IBAN      string
	Amount    string // decimal number
	Currency  string
	Reference string
}

// Deposit simulates a transfer to an account of the sandbox's bank for whose owner the principal may act.
func (s *Service) Deposit(ctx context.Context, tx *db.Tx, by identity.Principal, in Incoming) (receiptID string,
	a Account, err error,
) {
	var list apierr.List
	reference := identity.Line(&list, "/reference", in.Reference, 1, 140)
	if (in.AccountID == "") == (in.IBAN == "") {
		list.Add("invalid_parameter", "/funding_account_id",
			"Name the account by funding_account_id or by iban, one of them.")
	}
	if err := list.Err(); err != nil {
		return "", a, err
	}
	if in.IBAN != "" {
		a, err = byNumber(ctx, tx, numberKey(in.IBAN))
	} else {
		a, err = byID(ctx, tx, in.AccountID)
	}
	if err != nil {
		return "", a, err
	}
	userID := a.OwnerID
	if userID == by.CompanyID {
		userID = ""
	}
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	switch {
	case err != nil || owner.ID != a.OwnerID:
		return "", a, errors.Join(err, ErrNotFound)
	case in.Currency != string(a.Currency):
		return "", a, ErrCurrency.Detailf("The account is in %s.", a.Currency).At("body", "/currency")
	case a.State != Active || a.Provider != SandboxName:
		return "", a, ErrNotActive
	}
	amount, err := money.Parse(a.Currency, in.Amount)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err == nil && amount.Units() > maxTransfer {
		err = money.ErrTooLarge
	}
	if f, isFault := apierr.As(err); isFault {
		return "", a, f.At("body", "/amount")
	}
	if err != nil {
		return "", a, err
	}
	if receiptID, err = credit(ctx, tx, a, Receipt{Reference: reference, Amount: amount}); err != nil {
		return "", a, err
	}
	a, err = s.read(ctx, tx, a)
	return receiptID, a, err
}

// credit posts a receipt, or its reversal, to the owner's balance once for each reference, and returns the receipt's
// ID. It returns ErrReference if the reference was posted with another amount.
func credit(ctx context.Context, tx *db.Tx, a Account, r Receipt) (receiptID string, err error) {
	id := tx.NewID("dep")
	first, err := insertReceipt(ctx, tx, a, id, r)
	if err != nil {
		return "", err
	}
	if !first {
		id, units, err := receipt(ctx, tx, a, r.Reference)
		if err == nil && units != r.Amount.Units() {
			err = ErrReference
		}
		return id, err
	}
	data := webhook.TransferData{CompanyID: a.CompanyID, TransferID: id, Status: Credited, Currency: a.Currency,
		Amount: r.Amount.String()}
	j := ledger.Journal{CompanyID: a.OwnerID, SourceType: sourceType, SourceID: id, Purpose: "credit"}
	if r.Amount.Sign() < 0 {
		gone := r.Amount.Neg()
		if j.Lines, err = ledger.ReversalLines(ctx, tx, a.OwnerID, gone); err != nil {
			return "", err
		}
		data.Status, data.Amount, j.Purpose, j.Lines = Returned, gone.String(), "return",
			append(j.Lines, ledger.Credit(ledger.Bank, a.Provider, gone))
	} else {
		j.Lines = []ledger.Line{ledger.Debit(ledger.Bank, a.Provider, r.Amount),
			ledger.Credit(ledger.CompanyFunds, "", r.Amount)}
	}
	db.History(tx, a.OwnerID, id, 1, "", data.Status, "")
	if err := Announce(tx, a.OwnerID, 1, data); err != nil {
		return "", err
	}
	return id, ledger.Post(tx, j)
}

// Collect fetches the receipts of all open accounts from the bank and credits them. It must be called periodically.
func (s *Service) Collect(ctx context.Context, d *db.DB) error {
	if s.Bank == nil {
		return nil
	}
	return s.forEachOpen(ctx, d, func(a Account) error {
		if a.Provider != s.Bank.Name() {
			return nil
		}
		got, cursor, err := s.Bank.Receipts(ctx, a.providerRef, a.Currency, a.cursor)
		if err != nil || cursor == a.cursor && len(got) == 0 {
			return err
		}
		var unknown []error
		for _, r := range got {
			if r.Unknown != "" {
				unknown = append(unknown, fmt.Errorf("funding account %s: transaction %s of %s %s has the unknown type %.40q "+
					"and is not booked; check it at the bank",
					a.ID, r.Reference, r.Amount, r.Amount.Asset(), r.Unknown))
			}
		}
		got = slices.DeleteFunc(got, func(r Receipt) bool { return r.Unknown != "" })
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			for _, r := range got {
				if _, err := credit(ctx, tx, a, r); err != nil {
					return fmt.Errorf("funding account %s: %w", a.ID, err)
				}
			}
			return setCursor(ctx, tx, a, cursor)
		}); err != nil {
			return err
		}
		return errors.Join(unknown...) // an unknown transaction is reported only once, because the cursor has advanced
	})
}

// Review suspends accounts of owners whose verification has ended, and reactivates accounts of owners who are
// verified again.
func (s *Service) Review(ctx context.Context, d *db.DB) error {
	return s.forEachOpen(ctx, d, func(a Account) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			a, err := find(ctx, tx, a.OwnerID, a.ID)
			if err != nil {
				return err
			}
			owner, err := a.owner(ctx, tx)
			if err != nil {
				return err
			}
			switch ok := verified(owner); {
			case a.State == Active && !ok:
				return a.advance(ctx, tx, Suspended, ReasonVerification)
			case a.State == Suspended && ok:
				return a.advance(ctx, tx, Active, "")
			}
			return nil
		})
	})
}

// forEachOpen calls visit for each active or suspended account. It continues after an error, and returns all errors
// joined.
func (s *Service) forEachOpen(ctx context.Context, d *db.DB, visit func(Account) error) error {
	var problems []error
	for after := ""; ; {
		var some []Account
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			some, err = openAccounts(ctx, tx, after)
			return err
		}); err != nil || len(some) == 0 {
			return errors.Join(append(problems, err)...)
		}
		for _, a := range some {
			if err := visit(a); err != nil {
				problems = append(problems, err)
			}
			after = a.ID
		}
	}
}

// tenant returns the company ID or, if there is none, the owner's ID. It is the tenant of the account's jobs and
// events.
func (a Account) tenant() string {
	if a.CompanyID != "" {
		return a.CompanyID
	}
	return a.OwnerID
}

func (a Account) sealPlace() identity.SealContext {
	return identity.SealContext{Table: "funding_accounts", Column: "details", Row: a.OwnerID + "/" + a.ID}
}

// advance changes the state of an account, and adds its history and event. It fails if the account has changed since
// it was read.
func (a *Account) advance(ctx context.Context, tx *db.Tx, to State, reason string) error {
	from := a.State
	a.State, a.Reason = to, reason
	if err := update(ctx, tx, a, from); err != nil {
		return err
	}
	db.History(tx, a.OwnerID, a.ID, a.Version, string(from), string(to), reason)
	return a.emit(tx, from)
}

func (a *Account) emit(tx *db.Tx, from State) error {
	d := webhook.FundingAccountData{
		CompanyID: a.CompanyID, FundingAccountID: a.ID, Currency: a.Currency, Status: string(a.State),
		PreviousStatus: string(from), Reason: a.Reason,
	}
	if a.OwnerID != a.CompanyID {
		d.UserID = a.OwnerID
	}
	return webhook.Emit(tx, webhook.UserFundingAccountStatus.Event(a.CompanyID, a.ID, a.Version, d).And(d.UserID)...)
}
