// Package directdebit collects money from companies' own bank accounts by SEPA direct debit or ACH debit, under
// mandates that the companies accepted. It credits the money to their balances after a hold.
//
//	mandate  pending → active ⇄ suspended
//	         └───────────┴──────────┴→ revoked, ended
//
//	debit    scheduled → submitting → submitted → collected → available
//	             ↓            └→ failed ←┘  └→ returned ←┴─────────┘
//	         cancelled
//
// A [Mandate] is a company's permission to debit one of its accounts. A member accepts the text of the mandate on a
// page after using a second factor; the text, the member, the time and the network address are the proof. A mandate
// can be used once it is known that the account belongs to the company ([Guards.Owns], or a check by staff). A SEPA
// mandate that is not used for 36 months ends.
//
// A [Debit] is announced to the company by mail when it is created, as many days before its due date as its scheme
// requires. It is sent to the bank on the last day on which the bank can meet the due date: as a file of its own
// through the [bank.Drop], or through the bank's API. The reports of the bank are applied by [Collector.Apply] or are
// the answers of the API.
//
// Invariants:
//
//   - Collected money can still be taken back. It is in account 2005 until the hold of its scheme ends, and only then
//     in the balance (2000). Up to the risk limit that the operator set for the company, a part is in the balance at
//     once.
//   - A return takes the money from 2005, then from the balance; the rest becomes a debt of the company. It suspends
//     all mandates of the company.
//   - Write ahead: the file or order with its number is stored before the bank can see it. A lost answer never
//     repeats a debit: a file is released under its staged name only once, and an API is asked for the debit with the
//     same key before the call is repeated with that key.
//   - No debit is sent while its company is frozen, its mandate is not active, its currency is stopped, or payouts
//     are paused, because after the restoration of a backup the bank may already have the debit.
package directdebit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
)

// Kinds of jobs. The payload of both is a debitPayload.
const (
	jobSubmit  = "direct_debit.submit"
	jobRelease = "direct_debit.release"
)

// Source is the source type of debits' journals. The source ID is the debit's ID.
const Source = "direct_debit"

// Errors that a caller sees.
var (
	ErrNotFound   = apierr.New(apierr.NotFound, "not_found", "There is no such direct debit or mandate.")
	ErrNotOffered = apierr.New(apierr.Conflict, "invalid_state", "The operator offers no direct debits in this currency.")
	ErrMandate    = apierr.New(apierr.Conflict, "mandate_not_active",
		"This mandate cannot be used. Its state tells why; accept a new mandate if it has ended.")
	ErrState = apierr.New(apierr.Conflict, "invalid_state",
		"The direct debit was sent to the bank or has ended. It cannot be changed.")
	ErrRetry = apierr.New(apierr.Conflict, "invalid_state",
		"Only a direct debit that was returned for lack of funds in the last 30 days can be retried, at most twice.")
	ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
		"The company already has a direct debit with this external_id.")
	errTooLarge = apierr.New(apierr.Invalid, "amount_too_large", "The amount is above the maximum of one direct debit.")
	errDue      = apierr.New(apierr.Invalid, "invalid_parameter", "The due date must be a date such as 2026-03-02, "+
		"at most 90 days ahead.")
	errAccept  = apierr.New(apierr.Invalid, "invalid_parameter", "Accept the text of the mandate.")
	errTooMany = apierr.New(apierr.Conflict, "invalid_state", "A company can have ten mandates. Revoke one first.")
	errAccount = apierr.New(apierr.Invalid, "invalid_parameter", "Enter an account that this scheme can debit.")
	errAddress = apierr.New(apierr.Invalid, "invalid_parameter", "Banks outside of the European Economic Area require "+
		"the company's address. Enter the street and the city in the company's profile, and accept the mandate again.")
	errAbroad = apierr.New(apierr.Invalid, "invalid_parameter", "ACH debits are for companies in the United States whose "+
		"account holder has an address there. Fund payrolls by a transfer or in crypto instead.")
	errDecision = apierr.New(apierr.Conflict, "invalid_state", "Only a pending or suspended mandate can be decided.")
)

// Config configures a Service.
type Config struct {
	Accounts []bank.Account    // the operator's accounts; accounts with rules for debits collect
	Setup    destination.Setup // validates and encrypts accounts of companies
	// Payer returns the name and the address of a company, as far as they are known. SEPA requires the address if the
	// debited account is outside of the European Economic Area.
	Payer func(ctx context.Context, tx *db.Tx, companyID string) (payout.Details, error)
	// AllowUnverified lets companies without an approved verification debit their accounts, as in a sandbox.
	AllowUnverified bool
}

// Guards decide whether an account may be debited and held money released. All of them are required.
type Guards struct {
	// Owns reports whether it is known that an account belongs to the company. If it is not, staff check the account.
	Owns func(ctx context.Context, tx *db.Tx, m Mandate) (bool, error)
	// Stated returns the day, such as 2026-03-02, through which the statements of one of the operator's accounts with
	// files were read, or "". Held money is not released before the statements up to the end of its hold were read.
	Stated func(ctx context.Context, tx *db.Tx, a bank.Account) (string, error)
}

// Service manages mandates and debits. A [Collector] sends the debits to the bank.
type Service struct {
	c      Config
	guards Guards
}

// New returns a Service. It returns an error if a dependency or a guard is missing.
func New(c Config, g Guards) (*Service, error) {
	if c.Setup.Sealer == nil || c.Payer == nil || g.Owns == nil || g.Stated == nil {
		return nil, errors.New("directdebit: Setup.Sealer, Payer, Guards.Owns or Guards.Stated is missing")
	}
	return &Service{c, g}, nil
}

// Collector sends debits to the bank and applies the bank's reports about them.
type Collector struct {
	*Service

	drop  *bank.Drop
	apis  map[string]bank.API
	log   *slog.Logger
	retry time.Duration

	sent func(ctx context.Context, d *db.DB) error // set by AfterSend
}

// AfterSend makes s call f after each file that the bank accepted; in f, a simulated bank processes the file.
// AfterSend must be called before s is used.
func (s *Collector) AfterSend(f func(ctx context.Context, d *db.DB) error) { s.sent = f }

// NewCollector returns a Collector. The drop is required if an account with rules for debits exchanges files; apis
// must have an API for each other such account, by account ID. retry is the delay after the first failed attempt to
// send a debit.
func NewCollector(s *Service, drop *bank.Drop, apis map[string]bank.API, log *slog.Logger, retry time.Duration) (
	*Collector, error,
) {
	if s == nil || log == nil || retry <= 0 {
		return nil, errors.New("directdebit: the service, the log or the delay is missing")
	}
	for _, a := range s.c.Accounts {
		if a.Debits != nil && (a.ByAPI() && apis[a.ID] == nil || !a.ByAPI() && drop == nil) {
			return nil, errors.New("directdebit: the drop, or the API of the account " + a.ID + ", is missing")
		}
	}
	return &Collector{Service: s, drop: drop, apis: apis, log: log, retry: retry}, nil
}

// Jobs returns the handlers of the package's jobs.
func (s *Collector) Jobs() job.Table {
	return job.Table{jobSubmit: {Net: s.submit, Limit: 4}, jobRelease: {Tx: s.release}}
}

// Periodic returns the periodic work of the package.
func (s *Collector) Periodic(d *db.DB) []job.Periodic {
	return []job.Periodic{
		{Name: "direct_debit.check", Every: time.Minute, Run: func(ctx context.Context) error { return s.check(ctx, d) }},
		{Name: "direct_debit.mandates", Every: time.Hour, Run: func(ctx context.Context) error { return s.expire(ctx, d) }},
	}
}

// Schemes returns the schemes in which the operator collects a currency, or all schemes if asset is "".
func (s *Service) Schemes(asset money.Asset) (all []bank.DebitScheme) {
	for _, scheme := range bank.DebitSchemes {
		if _, ok := bank.DebitAccount(s.c.Accounts, scheme); ok && (asset == "" || scheme.Asset() == asset) {
			all = append(all, scheme)
		}
	}
	return all
}

// account returns the operator's account that collects a scheme.
func (s *Service) account(scheme bank.DebitScheme) (bank.Account, error) {
	a, ok := bank.DebitAccount(s.c.Accounts, scheme)
	if !ok {
		return a, ErrNotOffered
	}
	return a, nil
}

// accountOf returns the operator's account with which a debit was numbered.
func (s *Service) accountOf(d Debit) (bank.Account, error) {
	i := slices.IndexFunc(s.c.Accounts, func(a bank.Account) bool {
		return a.ID == d.account && a.Currency == d.Amount.Asset() && a.Debits != nil
	})
	if i < 0 {
		return bank.Account{}, errors.New("directdebit: the account " + d.account + " of " + d.ID + " is not configured")
	}
	return s.c.Accounts[i], nil
}

// activeCompany returns the company for which a principal acts, or an error if the company cannot be debited.
func (s *Service) activeCompany(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (
	identity.Company, error,
) {
	id, err := by.Company(companyID)
	if err != nil {
		return identity.Company{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return company, err
	}
	if err := company.Active(); err != nil {
		return company, err
	}
	if !s.c.AllowUnverified && company.KYBStatus != identity.KYBApproved {
		return company, payroll.ErrUnverified
	}
	if by.Kind == identity.KindSession {
		_, err = approval.Administrators(ctx, tx, by)
	}
	return company, err
}

// notify sends a mail to everyone who can change the mandates of a company. cause is part of the mail's key: each
// recipient gets one mail per cause.
func notify(ctx context.Context, tx *db.Tx, companyID, cause string, data mail.DirectDebitData) error {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return err
	}
	to, err := auth.Administrators(ctx, tx, company)
	if err != nil {
		return err
	}
	for address, name := range to {
		data.Name = name
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: company.ID, To: address, Template: mail.DirectDebit, Language: mail.LanguageOf(company.Country),
			Key: cause + "/" + identity.EmailKey(address), Data: data,
		}); err != nil {
			return err
		}
	}
	return nil
}
