package payroll

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Reasons why a company cannot pay a payee.
const (
	UnpayableNoDestination = ReasonNoDestination
	UnpayableNoRail        = ReasonNoRail           // the installation does not pay out to the destination
	UnpayableName          = ReasonCheck            // the account has not passed its check, and the policy blocks it
	UnpayableReturned      = ReasonReturned         // the bank returned the prenote
	UnpayableCorrection    = "correction_requested" // the bank asks for a correction of the destination
	UnpayableDisputed      = ReasonDisputed         // the payee says that the correction is wrong
	UnpayablePayment       = "payment_stopped"      // a payment failed, came back or waits for the payee
)

// Limits of [Service.Remind].
const (
	MaxReminded  = 500            // largest number of people that are mailed
	remindPeriod = 24 * time.Hour // each person is mailed at most once within this time
)

// Obstacle is a reason why a payee cannot be paid.
type Obstacle struct {
	Reason      string
	Destination *destination.Destination // the destination concerned, or nil
	Payment     *PayeePayment            // the payment concerned, or nil
}

// Unpayable is a payee who cannot be paid until somebody removes the obstacles.
type Unpayable struct {
	payee.Recipient
	Obstacles []Obstacle
	Asked     time.Time // time of the last mail that asked for a destination; zero if there was none
}

// maxStopped is the largest number of payments among the obstacles of one payee.
const maxStopped = 5

// Unpayable returns a page of the company's payees who cannot be paid yet, sorted by name, and their total number. A
// payee cannot be paid without a destination; with a destination whose check holds payments, that a bank wants
// corrected, or to which this installation does not pay; or while a payment waits for the payee.
func (s *Service) Unpayable(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page db.Page) (
	[]Unpayable, int64, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return nil, 0, err
	}
	if page.PerPage < 1 {
		page.PerPage = defaultPerPage
	}
	page.PerPage = min(page.PerPage, maxPerPage)
	obstacles, err := s.obstaclesFor(ctx, tx, company)
	if err != nil {
		return nil, 0, err
	}
	ids, total, err := selectUnpayable(ctx, tx, company.ID, obstacles, page)
	if err != nil || len(ids) == 0 {
		return nil, total, err
	}
	recipients, err := payee.Recipients(ctx, tx, company.ID, ids)
	if err != nil {
		return nil, 0, err
	}
	destinations, err := destination.ForOwners(ctx, tx, ids)
	if err != nil {
		return nil, 0, err
	}
	asked, err := destination.AskedAt(ctx, tx, company.ID, ids)
	if err != nil {
		return nil, 0, err
	}
	stopped, err := stoppedPayments(ctx, tx, company.ID, ids)
	if err != nil {
		return nil, 0, err
	}
	all := make([]Unpayable, 0, len(ids))
	for _, r := range recipients {
		u := Unpayable{Recipient: r, Asked: asked[r.ID]}
		used := Allocated(destinations[r.ID])
		if len(used) == 0 {
			u.Obstacles = append(u.Obstacles, Obstacle{Reason: UnpayableNoDestination})
		}
		for i := range used {
			for _, reason := range s.obstacles(tx.Now(), used[i], company.Country) {
				u.Obstacles = append(u.Obstacles, Obstacle{Reason: reason, Destination: &used[i]})
			}
		}
		for i := range stopped[r.ID] {
			if i < maxStopped {
				u.Obstacles = append(u.Obstacles, Obstacle{Reason: UnpayablePayment, Payment: &stopped[r.ID][i]})
			}
		}
		all = append(all, u)
	}
	return all, total, nil
}

// obstacles returns the reasons why a company's payments may not reach a destination. A check is an obstacle if it
// holds payments under the policy and does not end by itself, unlike the wait for a bank's first answer or for a
// prenote.
func (s *Service) obstacles(now time.Time, d destination.Destination, payerCountry string) (reasons []string) {
	if !s.Carried([]destination.Destination{d}, payerCountry) {
		reasons = append(reasons, UnpayableNoRail)
	}
	switch c := s.Checks.Concern(now, []destination.Destination{d}); {
	case c == nil || !c.Waits.IsZero() || !c.Unanswered.IsZero():
	case c.Returned:
		reasons = append(reasons, UnpayableReturned)
	case s.Checks.Policy == destination.CheckBlocks:
		reasons = append(reasons, UnpayableName)
	}
	switch {
	case d.Correction == nil:
	case !d.Correction.Disputed.IsZero():
		reasons = append(reasons, UnpayableDisputed)
	default:
		reasons = append(reasons, UnpayableCorrection)
	}
	return reasons
}

// obstacleRules describes for a query which destinations [Service.obstacles] objects to.
type obstacleRules struct {
	payable    []string  // see payableOn
	refusedACH bool      // see Service.refusedACH
	checked    []account // accounts that must have passed a check; empty unless the policy blocks unchecked accounts
	entered    time.Time // for accounts entered after this time, the bank's first answer is still awaited
}

// account has the properties of a bank account that decide whether the account is checked.
type account struct{ symbol, country, scheme string }

// obstaclesFor returns the rules for the payees of a company.
func (s *Service) obstaclesFor(ctx context.Context, tx *db.Tx, company identity.Company) (obstacleRules, error) {
	r := obstacleRules{payable: s.payableOn(), refusedACH: s.refusedACH(company.Country),
		entered: tx.Now().Add(-destination.AnswerWait)}
	if s.Checks.Policy != destination.CheckBlocks || s.Checks.Method == nil {
		return r, nil
	}
	all, err := selectAccounts(ctx, tx, company.ID)
	for _, a := range all {
		if s.Checks.Method(money.Asset(a.symbol), a.country, a.scheme) != "" {
			r.checked = append(r.checked, a)
		}
	}
	return r, err
}

// payableOn returns the assets that this installation pays out, each with a network, such as "USDC base". Bitcoin on
// its own chain is left out.
func (s *Service) payableOn() (pairs []string) {
	for _, a := range money.All() {
		for _, network := range s.Accounts.Carrying(a) {
			pairs = append(pairs, string(a)+" "+network)
		}
	}
	if s.Lightning {
		pairs = append(pairs, string(money.BTC)+" "+destination.RailLightning)
	}
	return append(pairs, "")
}

// refusedACH reports whether a company in a country cannot pay by ACH because the operator's bank allows ACH payments
// only within the United States.
func (s *Service) refusedACH(payerCountry string) bool {
	return bank.OnlyInternationalACH(s.Banks, "USD", "US", "ach", payerCountry)
}

// Reminded is the result of [Service.Remind].
type Reminded struct {
	Payees      int // number of payees who were mailed
	Invitations int // number of invitations that were sent again
}

// Remind mails all payees who cannot be paid yet, and everyone with an open or expired invitation, except people who
// were mailed within the last day or have no email address. It mails at most MaxReminded people; the next call
// continues with the others. It returns errors of [payee.Resend] that concern the company, for example that the
// company is frozen.
func (s *Service) Remind(ctx context.Context, tx *db.Tx, sealer *identity.Sealer, by identity.Principal,
	companyID string) (Reminded, error) {
	var done Reminded
	id, err := by.Company(companyID)
	if err != nil {
		return done, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err == nil {
		err = company.Active()
	}
	if err != nil {
		return done, err
	}
	before := tx.Now().Add(-remindPeriod)
	obstacles, err := s.obstaclesFor(ctx, tx, company)
	if err != nil {
		return done, err
	}
	due, err := selectUnasked(ctx, tx, company.ID, obstacles, before, MaxReminded)
	if err != nil {
		return done, err
	}
	for _, id := range due {
		switch err := destination.Ask(ctx, tx, sealer, by, id); {
		case err == nil:
			done.Payees++
		case !errors.Is(err, destination.ErrAsked) && !errors.Is(err, destination.ErrManaged) &&
			!errors.Is(err, destination.ErrNoEmail):
			return done, err
		}
	}
	if done.Payees >= MaxReminded {
		return done, nil
	}
	open, err := payee.Unanswered(ctx, tx, company.ID, before, MaxReminded-done.Payees)
	if err != nil {
		return done, err
	}
	for _, email := range open {
		switch _, err := payee.Resend(ctx, tx, sealer, by, company.ID, email); {
		case err == nil:
			done.Invitations++
		case !errors.Is(err, payee.ErrNotOpen) && !errors.Is(err, payee.ErrResendLimit):
			return done, err
		}
	}
	return done, nil
}

// stoppedPayments returns the payments that wait for their payees, by payee ID, the newest payroll first.
func stoppedPayments(ctx context.Context, tx *db.Tx, companyID string, ids []string) (map[string][]PayeePayment,
	error) {
	all, err := selectStopped(ctx, tx, companyID, ids)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b PayeePayment) int { return b.CreatedAt.Compare(a.CreatedAt) })
	of := map[string][]PayeePayment{}
	for _, m := range all {
		of[m.PayeeID] = append(of[m.PayeeID], m)
	}
	return of, nil
}
