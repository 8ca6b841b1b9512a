package claim

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// PointOfSale is the payer ID of claims that are created on the page of a point of sale.
const PointOfSale = "point-of-sale"

// CreateParams is a request for a claim. The amount is the text of the JSON number.
type CreateParams struct {
	CompanyID   string
	PayerID     string // ID of a payer of the company or the acting user, or the merchant's own reference
	AmountText  string
	Currency    string
	Funding     string // asset in which the claim is paid, or AnyAsset; "" is BTC
	Description string
	ReturnURL   string
	RedirectURL string // like ReturnURL, but the checkout redirects to it
	ExternalID  string
	Metadata    map[string]string
	Items       []ItemParams
	ExpiresIn   time.Duration // time for which the payer can get a price; 0 for no end
	Email       string        // email address for the payer's receipts; "" for none
	LinkID      string        // payment link or invoice that creates the claim, which excludes automatic late acceptance

	// Compared replaces the metadata and line items when a repeated request with the same ExternalID is compared with
	// the first, for requests whose metadata or items depend on the sender or a language. Nil compares the metadata and
	// line items.
	Compared map[string]string
}

// ItemParams is a line item of a request. The amount is the text of the JSON number.
type ItemParams struct {
	Description, AmountText string
	Quantity                int64
}

// LineItem is a part of a claim's amount, for display.
type LineItem struct {
	Description string `json:"description"`
	Quantity    int64  `json:"quantity"`
	Amount      string `json:"amount"` // total of the line as decimal text; a discount is negative
}

// Keys returns the keys of the rows that Create will read, so that they can be loaded in advance.
func (p CreateParams) Keys() []db.Prefetch {
	all := []db.Prefetch{identity.CompanyKey(p.CompanyID), merchants.Prefetch(p.CompanyID)}
	for _, a := range acceptable {
		if p.Funding == AnyAsset || cmp.Or(p.Funding, string(money.BTC)) == string(a) {
			all = append(all, rates.Key(a), offering.Key(a))
		}
	}
	if a := money.Asset(p.Currency); a != money.USD && a != money.BTC {
		all = append(all, rates.Key(a))
	}
	return all
}

// Validate returns the claim that Create would create, without an ID, price and address. It writes nothing.
func (s *Service) Validate(ctx context.Context, tx *db.Tx, by identity.Principal, p CreateParams) (Claim, error) {
	c, first, err := begin(ctx, tx, by, p)
	switch {
	case err != nil:
		return Claim{}, err
	case first.claimID != "":
		return Claim{}, ErrExternalID.Set("claim_id", first.claimID)
	}
	return c, checkPayer(ctx, tx, by, c.CompanyID, c.PayerID)
}

// reservation is the claim that has an external ID, with the digest of the request that created it.
type reservation struct{ claimID, digest string }

// begin returns the claim that a valid request describes. If a claim with the request's external ID exists, begin
// also returns that claim as first. The request then repeats an earlier one, so begin does not check again what may
// have changed since: the merchant's origins and the company's status.
func begin(ctx context.Context, tx *db.Tx, by identity.Principal, p CreateParams) (c Claim, first reservation,
	err error) {
	companyID, err := by.Company(p.CompanyID)
	if err != nil {
		return c, first, err
	}
	company, err := ownerOf(ctx, tx, companyID)
	if err != nil {
		return c, first, err
	}
	settings, err := settingsOf(ctx, tx, company)
	if err != nil {
		return c, first, err
	}
	var invalid apierr.List
	if id := identity.Line(&invalid, "/external_id", p.ExternalID, 0, maxExternal); id != "" && invalid.Empty() {
		if first.claimID, first.digest, err = reserved(ctx, tx, companyID, id); err != nil {
			return c, first, err
		}
	}
	repeated := first.claimID != ""
	if c, err = plan(p, company, settings, repeated); err == nil && !repeated {
		err = company.Active()
	}
	return c, first, err
}

// Create creates a claim with its quotes and addresses. Its error lists all problems of the request.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p CreateParams) (Claim, error) {
	c, first, err := begin(ctx, tx, by, p)
	if err != nil {
		return Claim{}, err
	}
	companyID := c.CompanyID
	digest := c.digest(p)
	if first.claimID != "" {
		return s.madeBefore(ctx, tx, companyID, first.claimID, first.digest == digest, nil)
	}
	if err := checkPayer(ctx, tx, by, companyID, c.PayerID); err != nil {
		return Claim{}, err
	}
	if err := s.checkLimits(ctx, tx, companyID, c.LinkID != ""); err != nil {
		return Claim{}, err
	}
	if c.Policy.Confirmations == 0 {
		if c.Policy.Confirmations, err = unconfirmed(ctx, tx, c.Amount); err != nil {
			return Claim{}, err
		}
	}
	c.ID, c.CreatedAt, c.UpdatedAt = tx.NewID("clm"), tx.Now(), tx.Now()
	if p.ExpiresIn > 0 {
		c.ExpiresAt = tx.Now().Add(p.ExpiresIn)
	}
	if c.email != "" {
		if c.email, err = s.Sealer.Seal(emailPlace(c.ID), []byte(c.email)); err != nil {
			return Claim{}, err
		}
	}
	if c.ExternalID != "" { // a concurrent request may have been first
		if id, first, err := reserve(ctx, tx, &c, digest); err != nil || id != c.ID {
			return s.madeBefore(ctx, tx, companyID, id, first == digest, err)
		}
	}
	if err := s.price(ctx, tx, &c, p.Funding); err != nil {
		return Claim{}, err
	}
	insertClaim(tx, &c)
	metadata.Index(tx, c.CompanyID, c.ID, c.Metadata)
	if s.Lightning != nil && c.Funding == money.BTC {
		if err := s.invoice(tx, &c, *c.Quote); err != nil {
			return Claim{}, err
		}
	}
	db.History(tx, c.CompanyID, c.ID, c.Version, "", string(c.State), "created")
	return c, s.emitCreated(tx, &c)
}

// madeBefore returns the claim that an earlier request with the same external ID created, or ErrExternalID if that
// request had other content.
func (s *Service) madeBefore(ctx context.Context, tx *db.Tx, companyID, claimID string, same bool, err error) (Claim,
	error) {
	switch {
	case err != nil:
		return Claim{}, err
	case !same:
		return Claim{}, ErrExternalID.Set("claim_id", claimID)
	}
	c, err := find(ctx, tx, companyID, claimID)
	if err != nil {
		return Claim{}, err
	}
	f, err := gather(ctx, tx, c)
	if err == nil {
		err = s.show(ctx, tx, f)
	}
	return *c, err
}

// digest returns a digest of the content of a request, which is the same for all requests that would create the same
// claim. c.email must not be sealed yet.
func (c *Claim) digest(p CreateParams) string {
	metadata, items := c.Metadata, c.Items
	if p.Compared != nil {
		metadata, items = p.Compared, nil
	}
	if len(metadata) == 0 {
		metadata = nil // empty is the same as absent
	}
	if len(items) == 0 {
		items = nil
	}
	content, err := json.Marshal([]any{c.PayerID, c.Amount.Asset(), c.Amount.Units(),
		cmp.Or(p.Funding, string(money.BTC)), c.Description,
		c.ReturnURL, c.Redirects, metadata, items, p.ExpiresIn, c.email})
	if err != nil {
		panic("claim: the content is texts and numbers: " + err.Error())
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func emailPlace(claimID string) identity.SealContext {
	return identity.SealContext{Table: "claims", Column: "payer_email", Row: claimID}
}

// payerEmail returns the email address for the payer's receipts, or "" for none.
func (s *Service) payerEmail(c *Claim) (string, error) {
	if c.email == "" {
		return "", nil
	}
	text, err := s.Sealer.Open(emailPlace(c.ID), c.email)
	return string(text), err
}

// params returns the parameters of a quote for an amount due, in an asset at an address. The quote ends at the end of
// the claim at the latest, unless the merchant requests the quote after that end.
func (s *Service) params(c *Claim, due money.Amount, funding money.Asset, address, network string,
	now time.Time) quote.Params {
	validity := s.Validity
	if left := c.ExpiresAt.Sub(now); left > 0 && left < validity {
		validity = left
	}
	return quote.Params{
		CompanyID: c.CompanyID, ObjectID: c.ID, Due: due, Funding: funding, Address: address, Network: network,
		Validity: validity, SpreadBps: s.SpreadBps, Grace: time.Duration(c.Policy.GraceSeconds) * time.Second,
		Confirmations: max(c.Policy.Confirmations, 1), // journals are always posted after a confirmation
	}
}

// plan validates a request and returns the claim that it would create. It is pure. A repeated request may contain
// URLs that the merchant no longer accepts.
func plan(p CreateParams, company identity.Company, settings Settings, repeated bool) (Claim, error) {
	var list apierr.List
	c := Claim{
		CompanyID: company.ID, State: AwaitingPayment, Exception: None, Version: 1, settlement: settings.SettleIn,
		Policy:      settings.Policy,
		PayerID:     identity.Line(&list, "/payer_id", norm.NFC.String(p.PayerID), 0, maxReference),
		Description: identity.Line(&list, "/description", p.Description, 0, maxDescription),
		ReturnURL:   cmp.Or(p.RedirectURL, p.ReturnURL), Redirects: p.RedirectURL != "",
		ExternalID: identity.Line(&list, "/external_id", p.ExternalID, 0, maxExternal),
		email:      identity.Email(&list, "/notification_email", p.Email, false),
		Metadata:   p.Metadata, LinkID: p.LinkID,
	}
	if c.LinkID != "" && c.Policy.Late == LateRequote {
		c.Policy.Late = LateManual
	}
	if strings.TrimSpace(p.PayerID) == "" {
		list.Add(errNoReference.Code, "/payer_id", errNoReference.Detail)
	}
	if p.Funding != "" && p.Funding != AnyAsset && !slices.Contains(acceptable, money.Asset(p.Funding)) {
		list.Add(errFunding.Code, "/funding_currency", errFunding.Detail)
	}
	switch {
	case p.ReturnURL != "" && p.RedirectURL != "":
		list.Add("invalid_parameter", "/redirect_url", "Send return_url or redirect_url, not both.")
	case !repeated && p.ReturnURL != "" && !settings.LeadsBack(p.ReturnURL):
		list.Add(errReturn.Code, "/return_url", errReturn.Detail)
	case !repeated && p.RedirectURL != "" && !settings.LeadsBack(p.RedirectURL):
		list.Add(errReturn.Code, "/redirect_url", errReturn.Detail)
	}
	if p.ExpiresIn != 0 && (p.ExpiresIn < minExpiry || p.ExpiresIn > maxExpiry) {
		list.Add("invalid_parameter", "/expires_in", "expires_in must be from 60 to 7776000 seconds.")
	}
	metadata.Check(&list, "/metadata", p.Metadata)
	asset, known := money.Lookup(p.Currency)
	if !known || asset.IsCrypto() && asset != money.BTC {
		list.Add(errCurrency.Code, "/denomination_currency", errCurrency.Detail)
		return c, list.Err()
	}
	amount, err := money.Parse(asset, p.AmountText)
	if err == nil && amount.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err := list.AddErr(err, "/amount"); err != nil {
		return c, err
	}
	if list.Empty() {
		c.Items = lineItems(&list, p.Items, amount)
	}
	if err := list.Err(); err != nil {
		return c, err
	}
	c.Amount, c.feeBps = amount, company.FeeBps
	if c.Fee, err = amount.Fraction(company.FeeBps, basisPoints, money.HalfEven); err != nil {
		return c, err
	}
	c.ReturnedValue = money.Zero(asset)
	return c, nil
}

// lineItems returns the line items of a request. Their amounts must add up to the claim's amount.
func lineItems(list *apierr.List, all []ItemParams, total money.Amount) (items []LineItem) {
	if len(all) > maxItems {
		list.Add("invalid_parameter", "/line_items", fmt.Sprintf("A claim has at most %d line items.", maxItems))
		return nil
	}
	sum := money.Zero(total.Asset())
	for i, p := range all {
		at := "/line_items/" + strconv.Itoa(i)
		amount, err := money.Parse(total.Asset(), p.AmountText)
		if err == nil {
			sum, err = sum.Add(amount)
		}
		if err != nil {
			_ = list.AddErr(err, at+"/amount") // every error of package money is a problem of the request
			continue
		}
		items = append(items, LineItem{Description: identity.Line(list, at+"/description", p.Description, 1, maxDescription),
			Quantity: max(p.Quantity, 1), Amount: amount.String()})
	}
	if list.Empty() && len(items) > 0 && sum != total {
		list.Add("invalid_parameter", "/line_items", fmt.Sprintf("The line items add up to %s, not to %s %s.", sum, total,
			total.Asset()))
	}
	return items
}

// items returns the line items in the stored form, "" for none.
func (c *Claim) items() string {
	if len(c.Items) == 0 {
		return ""
	}
	text, err := json.Marshal(c.Items)
	if err != nil {
		panic("claim: only texts and numbers are stored: " + err.Error())
	}
	return string(text)
}

// checkPayer checks that a payer ID belongs to the company or the acting user. IDs in another format are the
// merchant's own references and are accepted unchecked.
func checkPayer(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) error {
	if !strings.HasPrefix(id, "pyr_") {
		return nil
	}
	_, err := payer.Use(ctx, tx, companyID, id)
	if errors.Is(err, payer.ErrNotFound) && by.UserID != "" {
		_, err = payer.Use(ctx, tx, by.UserID, id)
	}
	return err
}

// inFlight is an upper bound for the number of claims that may be waiting for a commit at the same time, in all
// processes. A company whose distance to a limit is larger need not wait for concurrent requests.
const inFlight = 1024

// checkLimits refuses claims beyond the limits. It counts committed claims and the claims of this commit. Close to a
// limit, the commit checks again and includes concurrent requests. Claims that payers create with payment links and
// invoices are counted separately from claims that the merchant creates, so that payers cannot use up the merchant's
// limits.
func (s *Service) checkLimits(ctx context.Context, tx *db.Tx, companyID string, linked bool) error {
	if s.PerMinute <= 0 && s.MaxOpen <= 0 {
		return nil
	}
	limits := limitCheck{s, companyID, linked}
	near, err := limits.check(ctx, tx, 1)
	if err == nil && near {
		limitChecks.Add(tx, limits)
	}
	return err
}

// limitCheck is a check of a company's limits that is repeated at the commit. linked selects the claims of the
// company's payment links and invoices instead of the claims that the company creates.
type limitCheck struct {
	s         *Service
	companyID string
	linked    bool
}

// limitChecks run at the commit before the claims are inserted. They make concurrent commits of a company wait for
// each other.
var limitChecks = db.NewGroup(func(ctx context.Context, tx *db.Tx, all []limitCheck) error {
	// A fixed order of locks prevents deadlocks.
	slices.SortFunc(all, func(a, b limitCheck) int {
		return cmp.Or(strings.Compare(a.companyID, b.companyID), strings.Compare(strconv.FormatBool(a.linked),
			strconv.FormatBool(b.linked)))
	})
	checks := slices.Compact(slices.Clone(all))
	all = slices.CompactFunc(all, func(a, b limitCheck) bool { return a.companyID == b.companyID })
	if err := lockLimits(ctx, tx, all); err != nil {
		return err
	}
	for _, g := range checks {
		if _, err := g.check(ctx, tx, 0); err != nil {
			return err
		}
	}
	return nil
}, "claim_rate_limits")

// check returns an error if the given number of additional claims would exceed a limit. near reports whether claims
// that are being created concurrently could exceed one.
func (g limitCheck) check(ctx context.Context, tx *db.Tx, more int64) (near bool, err error) {
	s, made := g.s, waitingClaims(tx, g)+more
	ctx = db.StoredOnly(ctx) // the queries must count only stored claims, because made counts the buffered ones
	if s.PerMinute > 0 {
		wait, err := g.pause(ctx, tx, s.PerMinute-made+1)
		if err != nil {
			return false, err
		}
		if wait > 0 {
			return false, ErrTooOften.Detailf("A company may make %d claims a minute.",
				s.PerMinute).Set("retry_after", seconds(wait))
		}
		if wait, err = g.pause(ctx, tx, s.PerMinute-made+1-inFlight); err != nil {
			return false, err
		}
		near = wait > 0
	}
	if s.MaxOpen > 0 {
		open, err := countOpen(ctx, tx, g, s.MaxOpen)
		if err != nil {
			return false, err
		}
		if open+made > s.MaxOpen {
			return false,
				ErrTooManyOpen.Detailf(
					"A company may have %d claims that wait for their payment. Cancel some, or wait until they expire.",
					s.MaxOpen).Set("retry_after", seconds(s.Validity))
		}
		near = near || open+made+inFlight > s.MaxOpen
	}
	return near, nil
}

// pause returns the time until the n-th newest claim of a company is one minute old. It returns a full minute if no
// claim is allowed.
func (g limitCheck) pause(ctx context.Context, tx *db.Tx, n int64) (time.Duration, error) {
	if n <= 0 {
		return time.Minute, nil
	}
	at, err := nthNewest(ctx, tx, g, n)
	return max(0, at.Add(time.Minute).Sub(tx.Now())), err
}

// smallest is the value up to which a payment may be accepted before it has a confirmation.
var smallest = money.New(money.USD, 100_00)

// unconfirmed returns the number of required confirmations for a merchant whose settings require none: 0 for an
// amount up to smallest.
func unconfirmed(ctx context.Context, tx *db.Tx, amount money.Amount) (int64, error) {
	if amount.Asset() != money.USD {
		rate, err := rates.Latest(ctx, tx, amount.Asset(), money.USD)
		if err != nil {
			return 0, err
		}
		if amount, err = rate.Convert(amount, money.Ceil); err != nil {
			return 0, err
		}
	}
	if amount.Cmp(smallest) > 0 {
		return 1, nil
	}
	return 0, nil
}
