// Package virtualaccount gives users and companies bank accounts of their own to be paid on, and credits what comes in.
//
// An account is virtual: numbers that a bank or its agent (see [Bank]) gives out for one owner in one currency. Money that
// arrives on it is booked to the owner's available balance, once for each reference of the bank.
//
//	requested → terms_pending → pending → active ⇄ suspended
//	    └──────────────────────────↑ ↓
//	                             closed
//
// An owner must be verified before they get one, and must have accepted the terms: the answer says where they can be read,
// and the next request names the version that was read. A bank that needs no asking opens the account in the same
// transaction; another one is asked by a job. When the owner's verification ends, the account is suspended: what still comes
// is credited, since the bank has taken it, but the account is not shown for use until the owner is verified again.
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

// State is where an account stands.
type State string

// The states of an account.
const (
	Requested    State = "requested"
	TermsPending State = "terms_pending" // waits for the terms to be accepted
	Pending      State = "pending"       // the bank is asked
	Active       State = "active"
	Suspended    State = "suspended" // the owner is not verified any more
	Closed       State = "closed"    // the bank refused it
)

// Why an account is suspended or closed.
const (
	ReasonVerification = "verification_ended"
	ReasonRefused      = "refused_by_bank"
)

// TermsVersion names the terms that are to be accepted now.
const TermsVersion = "2026-01"

// JobOpen asks the bank for an account (payload {owner_id, account_id}).
const JobOpen = "funding.open"

const sourceType = "bank_deposit" // of the journals

// What a caller may be told.
var (
	ErrNotFound   = apierr.New(apierr.NotFound, "not_found", "There is no such funding account.")
	ErrVerify     = apierr.New(apierr.Forbidden, "kyc_required", "A funding account is given to verified owners only. Complete the verification first.")
	ErrCurrency   = apierr.New(apierr.Invalid, "currency_not_supported", "Funding accounts are in EUR or USD.")
	ErrNotOffered = apierr.New(apierr.Conflict, "invalid_state", "This installation has no bank that opens funding accounts.")
	ErrNotActive  = apierr.New(apierr.Conflict, "invalid_state", "The funding account is not in use yet.")
	ErrReference  = apierr.New(apierr.Conflict, "invalid_state", "The bank has used this reference for another transfer to the account.")
	errTerms      = apierr.New(apierr.Invalid, "invalid_parameter", "These are not the terms in force; read GET /api/user/funding/account/tos.")
)

// Details are what a payer needs to transfer to an account. European accounts have an IBAN, American ones the two numbers.
type Details struct {
	Holder        string `json:"holder"`
	BankName      string `json:"bank_name,omitempty"`
	IBAN          string `json:"iban,omitempty"`
	BIC           string `json:"bic,omitempty"`
	RoutingNumber string `json:"routing_number,omitempty"`
	AccountNumber string `json:"account_number,omitempty"`
}

// key is the digest by which a transfer finds the account.
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

// Account is one funding account.
type Account struct {
	OwnerID      string
	ID           string
	CompanyID    string
	Currency     money.Asset
	Provider     string
	State        State
	Reason       string // why it is suspended or closed, "" otherwise
	Details             // empty until it is active, and where it was read without a sealer
	TermsVersion string // that was accepted, "" before
	Version      int64
	CreatedAt    time.Time
	Balance      money.Amount // of the owner in this currency; by List and Open only

	sealed, numberKey, providerRef, cursor string
	termsAt                                time.Time
}

// Application is what a bank is told about an account that it is to open.
type Application struct {
	AccountID string // ours; asking again with the same one must not open a second account
	OwnerID   string
	Currency  money.Asset
	Holder    string
	Email     string
	Country   string
}

// Opened is an account as the bank gave it out.
type Opened struct {
	Details
	Ref string // the bank's own name of it
}

// Receipt is a transfer that has arrived, or what the sender's bank took back of one.
type Receipt struct {
	Reference string       // the bank's own, unique for the account
	Amount    money.Amount // negative: it was taken back
	Unknown   string       // what the bank calls it, where nobody here knows what that means; nothing is booked
}

// ErrRefused is a bank's final no.
var ErrRefused = errors.New("funding: the bank refuses the account")

// Bank opens accounts and says what came in on them. All methods but Now may talk to the network.
type Bank interface {
	// Name stands in the rows; it never changes.
	Name() string
	// Now gives an account that needs no asking. ok is false where Open must be called.
	Now(a Application) (o Opened, ok bool)
	// Open gives the account for an application, the same one however often it is asked, or ErrRefused.
	Open(ctx context.Context, a Application) (Opened, error)
	// Receipts gives what came in on an account after a cursor, "" for all, oldest first, and the next cursor. A receipt
	// may be given again.
	Receipts(ctx context.Context, ref string, currency money.Asset, cursor string) ([]Receipt, string, error)
}

// Service opens accounts at a bank. Without a bank it opens none.
type Service struct {
	Bank   Bank
	Sealer *identity.Sealer
}

type openPayload struct {
	OwnerID   string `json:"owner_id"`
	AccountID string `json:"account_id"`
}

// verified says whether the owner may have an account.
func verified(o identity.Owner) bool {
	if o.User.ID != "" {
		return o.User.KYCStatus == identity.KYCApproved
	}
	return o.Company.KYBStatus == identity.KYCApproved
}

// Open asks for an account of the acting user or, with an API key that names none, of its company. There is one for each
// currency: asking again answers the one that is there, and accepts the terms when it names their version. It returns
// ErrVerify, ErrCurrency, ErrNotOffered.
func (s *Service) Open(ctx context.Context, tx *db.Tx, by identity.Principal, userID, currency, terms string) (Account, error) {
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
			OwnerID: owner.ID, ID: tx.NewID("fac"), CompanyID: owner.CompanyID, Currency: asset, Provider: s.Bank.Name(), State: Requested,
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

// advance takes an account as far as it comes now: to the terms, to the bank, or into use.
func (s *Service) advance(ctx context.Context, tx *db.Tx, a *Account, owner identity.Owner, terms string) error {
	if terms == "" {
		if a.State == TermsPending {
			return nil
		}
		return a.move(ctx, tx, TermsPending, "")
	}
	a.TermsVersion, a.termsAt = terms, tx.Now()
	if err := a.move(ctx, tx, Pending, ""); err != nil {
		return err
	}
	if o, ok := s.Bank.Now(application(*a, owner)); ok {
		return s.activate(ctx, tx, a, o)
	}
	job.Enqueue(tx, job.New{CompanyID: a.tenant(), Kind: JobOpen, Payload: openPayload{a.OwnerID, a.ID}})
	return nil
}

func application(a Account, o identity.Owner) Application {
	p := Application{AccountID: a.ID, OwnerID: a.OwnerID, Currency: a.Currency, Holder: o.Company.Name, Email: o.Company.Email, Country: o.Company.Country}
	if o.User.ID != "" {
		p.Holder, p.Email, p.Country = o.User.Name(), o.User.Email, o.User.Country
	}
	return p
}

// activate puts the numbers into the account and the account into use.
func (s *Service) activate(ctx context.Context, tx *db.Tx, a *Account, o Opened) error {
	a.Details, a.providerRef, a.numberKey = o.Details, o.Ref, o.key()
	text, err := json.Marshal(a.Details)
	if err != nil {
		return err
	}
	if a.sealed, err = s.Sealer.Seal(a.place(), text); err != nil {
		return err
	}
	return a.move(ctx, tx, Active, "")
}

// owner reads who an account belongs to.
func (a Account) owner(ctx context.Context, tx *db.Tx) (o identity.Owner, err error) {
	o.ID, o.CompanyID = a.OwnerID, a.CompanyID
	if strings.HasPrefix(a.OwnerID, "com_") {
		o.Company, err = identity.CompanyByID(ctx, tx, a.OwnerID)
		return o, err
	}
	o.User, err = identity.GetUser(ctx, tx, nil, a.OwnerID)
	return o, err
}

// HandleOpen asks the bank for an account (job funding.open), outside of any transaction.
func (s *Service) HandleOpen(ctx context.Context, d *db.DB, j job.Job) error {
	var in openPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	if s.Bank == nil {
		return errors.New("funding: no bank is configured, the account waits")
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
			return err // a twin was first
		}
		if refused {
			return a.move(ctx, tx, Closed, ReasonRefused)
		}
		return s.activate(ctx, tx, &a, o)
	})
}

// List is the owner's accounts with their numbers and balances, the closed ones last.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) ([]Account, error) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	all, err := of(ctx, tx, owner.ID)
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

// read adds what the row does not say in the open.
func (s *Service) read(ctx context.Context, tx *db.Tx, a Account) (Account, error) {
	var err error
	if a.Balance, err = ledger.Balance(ctx, tx, a.OwnerID, ledger.CompanyFunds, "", a.Currency); err != nil || a.sealed == "" {
		return a, err
	}
	text, err := s.Sealer.Open(a.place(), a.sealed)
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(text, &a.Details)
}

// ByNumber finds the account that has a number, an IBAN or routing number/account number, whoever's it is: a bank says where money
// arrived, not for whom. It returns ErrNotFound.
func ByNumber(ctx context.Context, tx *db.Tx, number string) (Account, error) {
	return byNumber(ctx, tx, numberKey(number))
}

// Terms says which terms are in force, and which the owner accepted last: "" for none.
func (s *Service) Terms(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (accepted string, at time.Time, err error) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return "", at, err
	}
	all, err := of(ctx, tx, owner.ID)
	for _, a := range all {
		if a.TermsVersion != "" && a.termsAt.After(at) {
			accepted, at = a.TermsVersion, a.termsAt
		}
	}
	return accepted, at, err
}

// HasOpen says whether an owner has an account that is not closed: on it money may still come in, and with it stands their name.
func HasOpen(ctx context.Context, tx *db.Tx, ownerID string) (bool, error) {
	all, err := of(ctx, tx, ownerID)
	return slices.ContainsFunc(all, func(a Account) bool { return a.State != Closed }), err
}

// maxTransfer is the most that the sandbox's bank carries at once, in minor units: more than any bank, and little enough for
// thousands of them to add up.
const maxTransfer = 10_000_000_000_000

// Incoming is a transfer that somebody says has come in, for [Service.Deposit].
type Incoming struct {
	AccountID string // or IBAN
	IBAN      string
	Amount    string // the JSON number's own text
	Currency  string
	Reference string
}

// Deposit lets the sandbox's bank receive a transfer to an account that the principal may act for.
func (s *Service) Deposit(ctx context.Context, tx *db.Tx, by identity.Principal, in Incoming) (receiptID string, a Account, err error) {
	var list apierr.List
	reference := identity.Line(&list, "/reference", in.Reference, 1, 140)
	if (in.AccountID == "") == (in.IBAN == "") {
		list.Add("invalid_parameter", "/funding_account_id", "Name the account by funding_account_id or by iban, one of them.")
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

// credit books a transfer to the owner's balance, or what the provider took back out of it, once for each reference. The same one again gives the first one's id; with
// another amount it is ErrReference.
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
	data := webhook.TransferData{CompanyID: a.CompanyID, TransferID: id, Status: Credited, Currency: a.Currency, Amount: r.Amount.String()}
	j := ledger.Journal{CompanyID: a.OwnerID, SourceType: sourceType, SourceID: id, Purpose: "credit"}
	if r.Amount.Sign() < 0 {
		gone := r.Amount.Neg()
		if j.Lines, err = ledger.ReversalLines(ctx, tx, a.OwnerID, gone); err != nil {
			return "", err
		}
		data.Status, data.Amount, j.Purpose, j.Lines = Returned, gone.String(), "return", append(j.Lines, ledger.Credit(ledger.Bank, a.Provider, gone))
	} else {
		j.Lines = []ledger.Line{ledger.Debit(ledger.Bank, a.Provider, r.Amount), ledger.Credit(ledger.CompanyFunds, "", r.Amount)}
	}
	db.History(tx, a.OwnerID, id, 1, "", data.Status, "")
	if err := EmitTransfer(tx, a.OwnerID, 1, data); err != nil {
		return "", err
	}
	return id, ledger.Post(tx, j)
}

// Collect asks the bank what came in on every account in use, and books it. It belongs to no request: run it now and then.
func (s *Service) Collect(ctx context.Context, d *db.DB) error {
	if s.Bank == nil {
		return nil
	}
	return s.each(ctx, d, func(a Account) error {
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
				unknown = append(unknown, fmt.Errorf("funding account %s: nothing is booked for %s of %s %s, which the bank calls %.40q; somebody must look there",
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
		return errors.Join(unknown...) // told once
	})
}

// Review suspends the accounts of owners whose verification has ended, and lifts that when they are verified again.
func (s *Service) Review(ctx context.Context, d *db.DB) error {
	return s.each(ctx, d, func(a Account) error {
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
				return a.move(ctx, tx, Suspended, ReasonVerification)
			case a.State == Suspended && ok:
				return a.move(ctx, tx, Active, "")
			}
			return nil
		})
	})
}

// each visits the accounts that are or were in use. An error of one does not keep the others.
func (s *Service) each(ctx context.Context, d *db.DB, visit func(Account) error) error {
	var problems []error
	for after := ""; ; {
		var some []Account
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			some, err = opened(ctx, tx, after)
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

// tenant is whose job and event it is.
func (a Account) tenant() string {
	if a.CompanyID != "" {
		return a.CompanyID
	}
	return a.OwnerID
}

func (a Account) place() identity.Place {
	return identity.Place{Table: "funding_accounts", Column: "details", Row: a.OwnerID + "/" + a.ID}
}

// move takes an account on from the version that was read, with its history and its event.
func (a *Account) move(ctx context.Context, tx *db.Tx, to State, reason string) error {
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
	if a.CompanyID == "" {
		return nil
	}
	return webhook.Emit(tx, webhook.UserFundingAccountStatus.Event(a.CompanyID, a.ID, a.Version, d))
}
