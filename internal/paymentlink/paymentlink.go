// Package paymentlink creates claims from reusable links. Anyone who has a link can open it and pay. Each opening
// creates one claim (package claim), with the link's fixed amount or an amount that the payer chooses.
//
// Invariants:
//
//   - An opening has a key. The same key and amount return the same claim, so a form that is sent twice creates one
//     claim.
//   - A link with a limit reserves a place for each open claim. When a claim is created, paid and reserved places
//     together never exceed the limit. A claim that is not paid within [HoldFor] releases its place soon after.
//   - Late money for a claim of a link is never accepted automatically, because the place may be taken. If the
//     merchant accepts it, it counts even beyond the limit.
//
// The package owns the tables payment_links and payment_link_claims. It creates claims but never changes them.
package paymentlink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Limits.
const (
	MaxTitle       = 120
	MaxDescription = 500
	maxSuggested   = 6
	maxPayments    = 1_000_000
	maxKey         = 64

	// HoldFor is the time within which a payer can pay after opening a link.
	HoldFor = 30 * time.Minute

	// releaseAfter is the time after the end of HoldFor in which a payment that was seen in time may still be counted.
	releaseAfter = 5 * time.Minute
)

// Prefix is the prefix of the IDs of links.
const Prefix = "plk"

// Errors returned to callers.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such payment link.")
	ErrClosed   = apierr.New(apierr.Conflict, "invalid_state", "This payment link takes no payments any more.")
	ErrSoldOut  = apierr.New(apierr.Conflict, "invalid_state",
		"All payments of this link are taken or in progress. Try again in half an hour.")
)

// Link is a reusable request for payments.
type Link struct {
	ID, CompanyID      string
	Title, Description string
	Currency           money.Asset
	Funding            string         // asset in which payers pay, or claim.AnyAsset
	Amount             money.Amount   // fixed amount; zero if the payer chooses
	Min, Max           money.Amount   // bounds of the payer's amount; zero for none
	Suggested          []money.Amount // amounts to choose from
	MaxPayments        int64          // number of payments after which the link ends; 0 for no limit
	Paid, Reserved     int64          // numbers of paid claims and of open claims
	EndsAt             time.Time      // zero for no end
	Active             bool
	Metadata           map[string]string // copied to each claim
	RedirectURL        string            // where the checkout redirects after the payment; "" for none
	Version            int64
	CreatedAt          time.Time
	UpdatedAt          time.Time
}

// Full reports whether all places of the link are paid or reserved.
func (l *Link) Full() bool { return l.MaxPayments > 0 && l.Paid+l.Reserved >= l.MaxPayments }

// Open reports whether the link accepts payments.
func (l *Link) Open(now time.Time) bool {
	return l.Active && (l.EndsAt.IsZero() || now.Before(l.EndsAt)) && (l.MaxPayments == 0 || l.Paid < l.MaxPayments)
}

// Params is a request for a link. Amounts are decimal texts; "" for none.
type Params struct {
	CompanyID, Title, Description, Currency string
	Funding                                 string // like claim.CreateParams.Funding
	Amount, Min, Max                        string
	Suggested                               []string
	MaxPayments                             int64
	EndsAt                                  time.Time
	Metadata                                map[string]string
	RedirectURL                             string
}

// Change has the changes of a request. Nil members stay unchanged.
type Change struct {
	Title, Description *string
	Active             *bool
	MaxPayments        *int64
	EndsAt             *time.Time // the zero time removes the end
	RedirectURL        *string    // "" removes the URL
}

// Service creates and opens links.
type Service struct {
	claims  *claim.Service
	baseURL string // URL of the pages, without the path
}

// New returns a Service. It returns an error if claims is nil.
func New(claims *claim.Service, baseURL string) (*Service, error) {
	if claims == nil {
		return nil, errors.New("paymentlink: the claims are required")
	}
	return &Service{claims, baseURL}, nil
}

// URL returns the URL of a link.
func (s *Service) URL(linkID string) string { return s.baseURL + "/pay/" + linkID }

// Create creates a link. The error lists all problems of the request.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (Link, error) {
	settings, company, err := merchant(ctx, tx, by, p.CompanyID)
	if err != nil {
		return Link{}, err
	}
	l, err := s.plan(p, settings, tx.Now())
	if err != nil {
		return Link{}, err
	}
	if err := company.Active(); err != nil {
		return Link{}, err
	}
	l.ID, l.CompanyID, l.CreatedAt, l.UpdatedAt = tx.NewID(Prefix), company.ID, tx.Now(), tx.Now()
	if err := insert(ctx, tx, l); err != nil {
		return Link{}, err
	}
	db.History(tx, l.CompanyID, l.ID, l.Version, "", "active", "created by "+by.ID)
	return l, webhook.Emit(tx, webhook.PaymentLinkCreated.Event(l.CompanyID, l.ID, l.Version, s.data(l)))
}

func merchant(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (s claim.Settings,
	company identity.Company, err error) {
	if s, err = claim.SettingsOf(ctx, tx, by, companyID); err == nil {
		company, err = identity.CompanyByID(ctx, tx, s.CompanyID)
	}
	return s, company, err
}

// plan validates a request and returns the link that it would create.
func (s *Service) plan(p Params, settings claim.Settings, now time.Time) (Link, error) {
	var list apierr.List
	l := Link{
		Title:       identity.Line(&list, "/title", p.Title, 1, MaxTitle),
		Description: identity.Line(&list, "/description", p.Description, 0, MaxDescription),
		MaxPayments: p.MaxPayments, EndsAt: p.EndsAt, Active: true, Metadata: p.Metadata, RedirectURL: p.RedirectURL,
		Funding: cmp.Or(p.Funding, string(money.BTC)), Version: 1,
	}
	if l.Funding != claim.AnyAsset && !slices.Contains(s.claims.Accepts(), money.Asset(l.Funding)) {
		list.Add("currency_not_supported", "/funding_currency",
			"A payment link is paid in BTC, USDC or USDT, if the service has a network of the currency, or in any of them.")
	}
	metadata.Check(&list, "/metadata", p.Metadata)
	checkRedirect(&list, p.RedirectURL, settings)
	checkLimits(&list, l, now)
	asset, known := money.Lookup(p.Currency)
	if !known || asset.IsCrypto() && asset != money.BTC {
		list.Add("currency_not_supported", "/denomination_currency",
			"The service does not know this currency; see GET /api/currencies.")
		return l, list.Err()
	}
	l.Currency = asset
	amount := func(text, pointer string) money.Amount {
		a := money.Zero(asset)
		if text == "" {
			return a
		}
		a, err := money.Parse(asset, text)
		if err == nil && a.Sign() <= 0 {
			err = money.ErrNotPositive
		}
		_ = list.AddErr(err, pointer) // every error of package money is a problem of the request
		return a
	}
	l.Amount, l.Min, l.Max = amount(p.Amount, "/amount"), amount(p.Min, "/min_amount"), amount(p.Max, "/max_amount")
	if len(p.Suggested) > maxSuggested {
		list.Add("invalid_parameter", "/suggested_amounts", "There are at most 6 suggested amounts.")
	}
	for i, text := range p.Suggested {
		l.Suggested = append(l.Suggested, amount(text, "/suggested_amounts/"+strconv.Itoa(i)))
	}
	if !list.Empty() {
		return l, list.Err()
	}
	if l.Max.Sign() > 0 && l.Max.Cmp(l.Min) < 0 {
		list.Add("invalid_parameter", "/max_amount", "The maximum is less than the minimum.")
	}
	if l.Amount.Sign() > 0 && (l.Min.Sign() > 0 || l.Max.Sign() > 0 || len(l.Suggested) > 0) {
		list.Add("invalid_parameter", "/amount", "A fixed amount has no minimum, maximum or suggested amounts.")
	}
	for i, a := range l.Suggested {
		if l.outside(a) {
			list.Add("invalid_parameter", "/suggested_amounts/"+strconv.Itoa(i),
				"A suggested amount is between the minimum and the maximum.")
		}
	}
	return l, list.Err()
}

func checkRedirect(list *apierr.List, text string, settings claim.Settings) {
	if text != "" && !settings.LeadsBack(text) {
		list.Add("redirect_uri_invalid", "/redirect_url",
			"A redirect URL starts with one of the origins in the merchant settings.")
	}
}

func checkLimits(list *apierr.List, l Link, now time.Time) {
	if l.MaxPayments < 0 || l.MaxPayments > maxPayments {
		list.Add("invalid_parameter", "/max_payments", "The number of payments is 1 to 1000000, or 0 for no limit.")
	}
	if !l.EndsAt.IsZero() && !l.EndsAt.After(now) {
		list.Add("invalid_parameter", "/ends_at", "The end must be in the future.")
	}
}

// outside reports whether an amount that the payer chose is outside of the link's bounds.
func (l *Link) outside(a money.Amount) bool {
	return l.Min.Sign() > 0 && a.Cmp(l.Min) < 0 || l.Max.Sign() > 0 && a.Cmp(l.Max) > 0
}

// Get returns a link of the principal's company.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, linkID string) (Link, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Link{}, err
	}
	return find(ctx, tx, id, linkID)
}

// Filter selects payment links of a company and a page of them, newest first.
type Filter struct {
	Metadata map[string]string
	Page     db.Page
}

// List returns a page of the company's links, newest first, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) (
	[]Link, int64, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, id, f)
}

// Change changes a link. Open claims keep their terms and places.
func (s *Service) Change(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, linkID string,
	change Change) (Link, error) {
	settings, company, err := merchant(ctx, tx, by, companyID)
	if err != nil {
		return Link{}, err
	}
	l, err := lock(ctx, tx, company.ID, linkID)
	if err != nil {
		return l, err
	}
	var problems apierr.List
	state := func() string {
		if l.Active {
			return "active"
		}
		return "inactive"
	}
	before := state()
	if change.Title != nil {
		l.Title = identity.Line(&problems, "/title", *change.Title, 1, MaxTitle)
	}
	if change.Description != nil {
		l.Description = identity.Line(&problems, "/description", *change.Description, 0, MaxDescription)
	}
	if change.Active != nil {
		l.Active = *change.Active
	}
	if change.RedirectURL != nil {
		l.RedirectURL = *change.RedirectURL
		checkRedirect(&problems, l.RedirectURL, settings)
	}
	asked := l
	asked.EndsAt = time.Time{}
	if change.MaxPayments != nil {
		l.MaxPayments, asked.MaxPayments = *change.MaxPayments, *change.MaxPayments
	}
	if change.EndsAt != nil {
		l.EndsAt, asked.EndsAt = *change.EndsAt, *change.EndsAt
	}
	checkLimits(&problems, asked, tx.Now())
	if err := problems.Err(); err != nil {
		return l, err
	}
	if err := company.Active(); err != nil {
		return l, err
	}
	l.UpdatedAt = tx.Now()
	if err := update(ctx, tx, &l); err != nil {
		return l, err
	}
	db.History(tx, l.CompanyID, l.ID, l.Version, before, state(), "changed by "+by.ID)
	return l, webhook.Emit(tx, webhook.PaymentLinkUpdated.Event(l.CompanyID, l.ID, l.Version, s.data(l)))
}

// Public is the view of a link for anyone who has it.
type Public struct {
	Link
	Merchant string
	Brand    branding.Branding
	Support  string   // email address for questions; "" for none
	Origins  []string // origins that may show the link in an iframe
}

// Public reads a link for a payer, who knows only its ID.
func (s *Service) Public(ctx context.Context, tx *db.Tx, linkID string) (Public, error) {
	l, err := findAny(ctx, tx, linkID)
	if err != nil {
		return Public{}, err
	}
	settings, company, err := merchant(ctx, tx, identity.Principal{CompanyID: l.CompanyID}, "")
	if err != nil {
		return Public{}, err
	}
	brand, err := branding.Of(ctx, tx, l.CompanyID)
	return Public{l, brand.DisplayName(company), brand, settings.SupportEmail, settings.Origins}, err
}

// OpenParams is a payer's request to pay.
type OpenParams struct {
	Key    string // key of the opening; the same key and amount return the same claim
	Amount string // decimal text; used if the payer chooses the amount
	Email  string // email address for the receipt; "" for none
}

// Claim returns the claim of an opening. It creates the claim at the first call.
func (s *Service) Claim(ctx context.Context, tx *db.Tx, linkID string, p OpenParams) (claim.Claim, error) {
	shown, err := findAny(ctx, tx, linkID)
	if err != nil {
		return claim.Claim{}, err
	}
	l, err := lock(ctx, tx, shown.CompanyID, linkID)
	if err != nil {
		return claim.Claim{}, err
	}
	if p.Key == "" || len(p.Key) > maxKey {
		return claim.Claim{}, errKey
	}
	by := identity.Principal{ID: l.ID, CompanyID: l.CompanyID}
	digest := p.digest(l)
	if id, err := opened(ctx, tx, l, digest); err != nil || id != "" {
		if err != nil {
			return claim.Claim{}, err
		}
		d, err := s.claims.Get(ctx, tx, by, "", id)
		return d.Claim, err
	}
	switch {
	case !l.Open(tx.Now()):
		return claim.Claim{}, ErrClosed
	case l.Full():
		return claim.Claim{}, ErrSoldOut
	}
	amount := l.Amount.String()
	if l.Amount.IsZero() {
		if amount, err = l.chosen(p.Amount); err != nil {
			return claim.Claim{}, err
		}
	}
	c, err := s.claims.Create(ctx, tx, by, claim.CreateParams{
		PayerID: l.ID, LinkID: l.ID, AmountText: amount, Currency: string(l.Currency), Funding: l.Funding,
		Description: l.Title, RedirectURL: l.RedirectURL, Metadata: l.Metadata, ExpiresIn: HoldFor, Email: p.Email,
	})
	if err != nil {
		return claim.Claim{}, err
	}
	if err := reserve(ctx, tx, l, c.ID, digest); err != nil {
		return claim.Claim{}, err
	}
	job.Enqueue(tx, job.New{CompanyID: l.CompanyID, Kind: claim.JobLinked,
		Payload: claim.Linked{ClaimID: c.ID, LinkID: l.ID}, RunAt: c.ExpiresAt.Add(releaseAfter)})
	return c, nil
}

// ClaimAt returns the ID of the link's claim that is paid at an address (with its checksum) on an EVM network, or "".
func (s *Service) ClaimAt(ctx context.Context, tx *db.Tx, linkID, address string) (string, error) {
	l, err := findAny(ctx, tx, linkID)
	if err != nil {
		return "", err
	}
	for _, n := range s.claims.Accounts.Networks {
		companyID, id, err := chain.ObjectAt(ctx, tx, n.Name, address)
		if err != nil {
			return "", err
		}
		if companyID == l.CompanyID && id != "" {
			return madeBy(ctx, tx, l, id)
		}
	}
	return "", nil
}

var errKey = apierr.New(apierr.Invalid, "invalid_parameter", "This form is incomplete. Open the link again.")

func (p OpenParams) digest(l Link) string {
	sum := sha256.Sum256([]byte(l.ID + "\n" + p.Key + "\n" + p.Amount))
	return hex.EncodeToString(sum[:])
}

// chosen checks an amount that the payer chose, and returns it as a decimal text.
func (l *Link) chosen(text string) (string, error) {
	var list apierr.List
	a, err := money.Parse(l.Currency, text)
	if err == nil && a.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	_ = list.AddErr(err, "/amount") // every error of package money is a problem of the request
	if err == nil && l.outside(a) {
		list.Add("invalid_parameter", "/amount", "The amount is not between the minimum and the maximum.")
	}
	return a.String(), list.Err()
}

// ClaimChanged handles claim.JobLinked: it counts the claim as paid, keeps the claim's place, or releases it.
func (s *Service) ClaimChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var named claim.Linked
	if err := j.Decode(&named); err != nil {
		return err
	}
	// The claim is read after the lock, so that the last of its jobs sees the final state.
	l, err := lock(ctx, tx, j.CompanyID, named.LinkID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := s.claims.Get(ctx, tx, identity.Principal{CompanyID: j.CompanyID}, "", named.ClaimID)
	if err != nil {
		return err
	}
	return move(ctx, tx, l, d.ID, placeOf(&d.Claim, tx.Now()))
}

// place is the state of a claim's place in the limit of its link.
type place string

const (
	held     place = "held"
	taken    place = "paid"
	released place = "released"
)

// placeOf returns the state of a claim's place. A paid claim keeps its place if it is refunded.
func placeOf(c *claim.Claim, now time.Time) place {
	switch c.State {
	case claim.Paid:
		return taken
	case claim.Refunded:
		if c.ReturnedValue.Sign() > 0 {
			return taken
		}
	case claim.AwaitingPayment, claim.PartiallyPaid, claim.Confirming:
		return held
	case claim.Expired, claim.Underpaid:
		if !c.Ended(now.Add(-releaseAfter)) {
			return held
		}
	case claim.PaidLate, claim.Invalid, claim.Cancelled:
	}
	return released
}

func (s *Service) data(l Link) webhook.PaymentLinkData {
	d := webhook.PaymentLinkData{
		LinkID: l.ID, CompanyID: l.CompanyID, Title: l.Title, Active: l.Active, Currency: l.Currency,
		MaxPayments: l.MaxPayments, Paid: l.Paid, URL: s.URL(l.ID),
	}
	if l.Amount.Sign() > 0 {
		d.Amount = l.Amount.String()
	}
	return d
}
