package payroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/webhook"
)

// Release converts the escrow of a received payroll into debts to each destination and queues the payouts (job
// payroll.release). Each output stores a copy of its destination at that time. A payment that cannot be made now is
// marked with the reason and does not delay the others. A later release pays the payments that have become possible.
func (s *Service) Release(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in idPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	p, err := find(ctx, tx, j.CompanyID, in.PayrollID)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.handleScreening(ctx, tx, p, s.release(ctx, tx, p))
}

func (s *Service) release(ctx context.Context, tx *db.Tx, p *Payroll) error {
	switch p.State {
	case Received:
	case Released, PartiallyFulfilled:
		if owes, err := p.owes(ctx, tx); err != nil || owes {
			return err // the payroll is released again when its funding returns
		}
		return s.retry(ctx, tx, p)
	default:
		return p.State.check("payroll " + p.ID)
	}
	switch frozen, err := isFrozen(ctx, tx, p.CompanyID); {
	case err != nil:
		return err
	case frozen:
		return p.hold(ctx, tx, ReasonFrozen)
	}
	if allowed, err := approval.Allowed(ctx, tx, p.subject(), p.Total); err != nil {
		return err
	} else if !allowed {
		return p.hold(ctx, tx, ReasonApproval)
	}
	early, check := tx.Now().Before(p.ReleaseAt), s.guards.ReleaseApproved
	if early {
		check = s.guards.ReleasePlanned
	}
	if approved, err := check(ctx, tx, p.CompanyID, p.ID, p.Total); err != nil {
		return err
	} else if !approved {
		return p.hold(ctx, tx, ReasonRelease)
	}
	if early {
		enqueueRelease(tx, p.CompanyID, p.ID, p.ReleaseAt)
		return nil
	}
	waiting, err := p.allPayments(ctx, tx, Received)
	if err != nil {
		return err
	}
	if approved, err := s.payeesApproved(ctx, tx, p, waiting); err != nil {
		return err
	} else if !approved {
		return p.hold(ctx, tx, ReasonRelease)
	}
	entitlements, err := s.entitlements(ctx, tx, p, waiting)
	if err != nil {
		return err
	}
	r, err := s.planRecorded(ctx, tx, p, waiting, entitlements, escrow{payroll: p.ID, held: p.Escrow, total: p.Total,
		rate: p.Rate}, p.Fees)
	if err != nil {
		return err
	}
	if err := approval.Count(ctx, tx, p.subject(), p.Total); err != nil {
		return err
	}
	p.State = Released
	if err := p.step(ctx, tx, Received, webhook.PayrollStatusUpdate, ""); err != nil {
		return err
	}
	if err := p.post(tx, "release", r.lines.release); err != nil {
		return err
	}
	if err := p.post(tx, "convert", r.lines.convert); err != nil {
		return err
	}
	if err := payout.Add(tx, r.outputs); err != nil {
		return err
	}
	if err := p.returnAddresses(ctx, tx, waiting, entitlements, r.lines.problems); err != nil {
		return err
	}
	going := waiting[:0]
	for i, m := range waiting {
		problem, has := r.lines.problems[i]
		if !has {
			going = append(going, m)
		} else if err := p.stop(ctx, tx, &m, problem, nil); err != nil {
			return err
		}
	}
	if len(going) > 0 {
		if err := p.advanceAll(ctx, tx, going, Released, "", r.of); err != nil {
			return err
		}
	}
	if len(r.lines.problems) == 0 {
		return nil // all payments are being paid
	}
	return p.concludePayments(ctx, tx)
}

// retry releases the payments of a released payroll that could not be paid before. Each is paid from the debt to its
// payee that the first release left, at current rates. retry also sends failed and returned outputs again if their
// payees have another destination now.
func (s *Service) retry(ctx context.Context, tx *db.Tx, p *Payroll) error {
	var waiting []Payment
	for _, state := range []State{ActionRequired, OnHold, Returned} {
		some, err := p.payments(ctx, tx, state)
		if err != nil {
			return err
		}
		waiting = append(waiting, some...)
	}
	if len(waiting) == 0 {
		return nil
	}
	switch frozen, err := isFrozen(ctx, tx, p.CompanyID); {
	case err != nil:
		return err
	case frozen:
		p.releaseLater(tx)
		return nil
	}
	entitlements, err := s.entitlements(ctx, tx, p, waiting)
	if err != nil {
		return err
	}
	outputs, err := p.outputsOf(ctx, tx, waiting)
	if err != nil {
		return err
	}
	var fresh, stuck []Payment
	var of [2][]entitlement
	for i, m := range waiting {
		if len(outputs[m.ID]) == 0 {
			fresh, of[0] = append(fresh, m), append(of[0], entitlements[i])
		} else {
			stuck, of[1] = append(stuck, m), append(of[1], entitlements[i])
		}
	}
	paid, err := s.payOwed(ctx, tx, p, fresh, of[0])
	if err != nil {
		return err
	}
	corrected, err := s.correct(ctx, tx, p, stuck, of[1], outputs)
	if err != nil || !paid && !corrected {
		return err
	}
	// A new version is needed in any case: the journals of the next retry are named after the version.
	return p.reviseOrConclude(ctx, tx)
}

// payOwed pays the payments that have no outputs yet and can be paid now. It reports whether it changed a payment.
func (s *Service) payOwed(ctx context.Context, tx *db.Tx, p *Payroll, waiting []Payment,
	entitlements []entitlement) (bool, error) {
	if len(waiting) == 0 {
		return false, nil
	}
	e := escrow{payroll: p.ID, held: p.Escrow, total: p.Total, rate: p.Rate, released: true}
	r, err := s.planRecorded(ctx, tx, p, waiting, entitlements, e, money.Zero(p.Currency))
	if err != nil {
		return false, err
	}
	stopped := false
	for i := range waiting { // the payment may now wait for another reason
		m, problem := &waiting[i], r.lines.problems[i]
		if problem != "" && problem != m.Reason {
			if err := p.stop(ctx, tx, m, problem, nil); err != nil {
				return false, err
			}
			stopped = true
		}
	}
	if err := p.returnAddresses(ctx, tx, waiting, entitlements, r.lines.problems); err != nil {
		return false, err
	}
	if len(r.lines.problems) == len(waiting) {
		return stopped, nil
	}
	if err := p.post(tx, fmt.Sprintf("convert:%d", p.Version+1), r.lines.convert); err != nil {
		return false, err
	}
	if err := payout.Add(tx, r.outputs); err != nil {
		return false, err
	}
	for i := range waiting {
		if _, has := r.lines.problems[i]; has {
			continue
		}
		m := &waiting[i]
		if err := p.advance(ctx, tx, m, Released, "", r.of[m.ID]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// release is an allocation of escrow and the outputs that it creates.
type release struct {
	lines   allocation
	outputs []payout.Output
	of      map[string][]payout.Output // outputs by payment ID
}

// planRecorded plans a release and stores the records that the travel rule demands for its outputs. A payment whose
// record lacks data gets the reason as its problem, and the others are planned again without it.
func (s *Service) planRecorded(ctx context.Context, tx *db.Tx, p *Payroll, waiting []Payment,
	entitlements []entitlement, e escrow, fees money.Amount) (*release, error) {
	for {
		r, err := s.plan(ctx, tx, p, waiting, entitlements, e, fees)
		if err != nil {
			return nil, err
		}
		missing, err := s.guards.TravelRule(ctx, tx, r.outputs)
		if err != nil || len(missing) == 0 {
			return r, err
		}
		stopped := false
		for i, m := range waiting {
			if reason := missing[m.ID]; reason != "" && entitlements[i].problem == "" {
				entitlements[i].problem, entitlements[i].shares, stopped = reason, nil, true
			}
		}
		if !stopped {
			return nil, fmt.Errorf("payroll: %s: records are missing for payments that are not paid", p.ID)
		}
	}
}

func (s *Service) plan(ctx context.Context, tx *db.Tx, p *Payroll, waiting []Payment, entitlements []entitlement,
	e escrow, fees money.Amount) (*release, error) {
	prices, err := p.prices(ctx, tx, entitlements, e)
	if err != nil {
		return nil, err
	}
	capacity, err := s.Treasury.LockCapacity(ctx, tx, e.exchanged(entitlements)...)
	if err != nil {
		return nil, err
	}
	r := &release{of: map[string][]payout.Output{}}
	if r.lines, err = allocate(e, entitlements, fees, prices, capacity,
		func() string { return tx.NewID("out") }); err != nil {
		return nil, err
	}
	r.outputs = make([]payout.Output, len(r.lines.outputs))
	for i, d := range r.lines.outputs {
		to := d.share.Destination
		m := &waiting[d.payment]
		snapshot, err := json.Marshal(to)
		if err != nil {
			return nil, err
		}
		o := payout.Output{
			CompanyID: p.CompanyID, ID: d.dim, PayrollID: p.ID, PaymentID: m.ID, DistributionID: to.ID,
			Rail:   payout.RailOf(to.Rail, to.Network),
			Amount: d.amount, Input: d.share.Amount, Rate: d.rate, Address: to.Address, Destination: snapshot,
		}
		r.outputs[i] = o
		r.of[m.ID] = append(r.of[m.ID], o)
	}
	return r, nil
}

// entitlements returns the destinations and shares of each payment, with one query for all payees and one for all
// destinations. A payment waits if its destination differs from the approved destination. If a payment must wait for
// a cool-down, entitlements schedules another release.
func (s *Service) entitlements(ctx context.Context, tx *db.Tx, p *Payroll, waiting []Payment) ([]entitlement, error) {
	payees, all, err := p.destinations(ctx, tx, waiting)
	if err != nil {
		return nil, err
	}
	approved, err := p.approvedContents(ctx, tx)
	if err != nil {
		return nil, err
	}
	changed, cooling := map[string]time.Time{}, tx.Now().Add(-max(s.CoolDown, 0))
	if of := owners(payees); len(of) > 0 {
		if changed, err = destination.ChangedSince(ctx, tx, of, cooling); err != nil {
			return nil, err
		}
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err != nil {
		return nil, err
	}
	held, err := s.screen(ctx, tx, p, payees, all)
	if err != nil {
		return nil, err
	}
	prices, err := pricesOf(ctx, tx, p.Currency, received(waiting), s.SpreadBps)
	if err != nil {
		return nil, err
	}
	var borne int64
	if len(received(waiting)) > 0 {
		if borne, err = p.drift(ctx, tx); err != nil {
			return nil, err
		}
	}
	entitlements := make([]entitlement, len(waiting))
	for i, m := range waiting {
		o := &entitlements[i]
		o.paymentID, o.net = m.ID, m.Amount
		who, found := payees[m.PayeeID]
		owner, used := destinations(who, all)
		o.used = used
		at := changed[owner]
		// Only approved destinations are paid: a payment to another destination waits until a member confirms it.
		unapproved, fresh := len(approved) > 0 && approved[m.ID] != contentOf(m, used), at.After(cooling)
		if fresh && !unapproved {
			if fresh, err = p.isChange(ctx, tx, m.PayeeID, owner, at); err != nil {
				return nil, err
			}
		}
		if fresh {
			confirmed, err := p.confirmedSince(ctx, tx, m.ID, at)
			if err != nil {
				return nil, err
			}
			fresh = !confirmed
		}
		check, err := s.checkProblem(ctx, tx, p, m.ID, used)
		if err != nil {
			return nil, err
		}
		dear, err := drifted(m, prices, borne)
		if err != nil {
			return nil, err
		}
		if borne > 0 && p.State == Received && m.Receive.Asset() == p.FundingCurrency {
			dear = false // one quote brought the coins that the payee receives
		}
		switch {
		case held[m.PayeeID]:
			o.problem = ReasonReview
		case !found || who.Status == "inactive":
			o.problem = ReasonInactive
		case len(used) == 0:
			o.problem = ReasonNoDestination
		case !carried(used, s.Destinations()), onlyInternationalACH(used, s.Banks, company.Country):
			o.problem = ReasonNoRail
		case m.Receive.Sign() > 0 && !takes(used, m.Receive.Asset()):
			o.problem = ReasonReceive
		case dear:
			o.problem = ReasonPrice
		case unapproved:
			o.problem = ReasonCoolDown
		case destination.Disputed(used):
			o.problem = ReasonDisputed
		case check != "":
			o.problem = check
		case fresh:
			o.problem = ReasonCoolDown
			enqueueRelease(tx, p.CompanyID, p.ID, at.Add(s.CoolDown))
		default:
			if err := s.addressed(ctx, tx, p, who, o); err != nil {
				return nil, err
			}
		}
		if o.problem != "" {
			continue
		}
		if o.shares, err = divide(m.Amount, m.Receive, o.used); err != nil {
			return nil, err
		}
	}
	return entitlements, nil
}

// addressed replaces a payee's wallets by addresses for one payment, and screens the addresses.
func (s *Service) addressed(ctx context.Context, tx *db.Tx, p *Payroll, who payee.Payee, o *entitlement) error {
	if !slices.ContainsFunc(o.used, destination.Destination.Fresh) {
		return nil
	}
	used, err := s.Addressed(ctx, tx, destination.AddressOwner{CompanyID: p.CompanyID, PayrollID: p.ID,
		PaymentID: o.paymentID}, o.used)
	if errors.Is(err, destination.ErrGap) {
		o.problem = ReasonAddress
		p.releaseLater(tx)
		return nil
	}
	if err != nil {
		return err
	}
	o.used = used
	held, err := s.guards.Screen(ctx, tx, p.CompanyID, []destination.ScreeningSubject{{Payee: who, To: used}})
	if err == nil && held[who.ID] {
		o.problem = ReasonReview
	}
	return err
}

// returnAddresses makes the addresses of payments that get no outputs now available again.
func (p *Payroll) returnAddresses(ctx context.Context, tx *db.Tx, waiting []Payment, entitlements []entitlement,
	problems map[int]string) error {
	for i, m := range waiting {
		if problems[i] == "" || !slices.ContainsFunc(entitlements[i].used, destination.Destination.Fresh) {
			continue
		}
		if err := destination.ReturnAddresses(ctx, tx, destination.AddressOwner{CompanyID: p.CompanyID, PayrollID: p.ID,
			PaymentID: m.ID}); err != nil {
			return err
		}
	}
	return nil
}

// Addressed returns destinations with addresses for one payment in place of wallets; see
// [destination.Setup.ForPayment].
func (s *Service) Addressed(ctx context.Context, tx *db.Tx, of destination.AddressOwner,
	to []destination.Destination) ([]destination.Destination, error) {
	return s.Destinations().ForPayment(ctx, tx, of, to)
}

// Destinations returns the configuration that decides which destinations can be paid.
func (s *Service) Destinations() destination.Setup {
	return destination.Setup{Sealer: s.Sealer, BitcoinNetwork: s.Network, Chain: s.ChainName, Accounts: s.Accounts,
		Lightning: s.Lightning}
}

// destinations returns the payees of payments by ID, and the destinations of their owners by owner ID, with one query
// each.
func (p *Payroll) destinations(ctx context.Context, tx *db.Tx, payments []Payment) (map[string]payee.Payee,
	map[string][]destination.Destination, error) {
	ids := make([]string, len(payments))
	for i, m := range payments {
		ids[i] = m.PayeeID
	}
	payees, err := payee.Payees(ctx, tx, p.CompanyID, unique(ids))
	if err != nil {
		return nil, nil, err
	}
	of := owners(payees)
	if len(of) == 0 {
		return payees, nil, nil
	}
	all, err := destination.ForOwners(ctx, tx, of)
	return payees, all, err
}

// checkProblem returns the reason why a payment must wait for the check of its bank account, or "". Under the policy
// destination.CheckBlocks, any result but a pass holds the payment until a member confirms the account after the
// result. Under other policies a payment waits only for the bank's first answer, for at most
// [destination.AnswerWait]. The waiting time of a prenote and the return of a prenote hold the payment under every
// policy, and a member cannot override them.
func (s *Service) checkProblem(ctx context.Context, tx *db.Tx, p *Payroll, paymentID string,
	used []destination.Destination) (string, error) {
	c := s.Checks.Concern(tx.Now(), used)
	switch {
	case c == nil:
		return "", nil
	case c.Returned:
		return ReasonReturned, nil
	case !c.Waits.IsZero():
		return ReasonPrenote, nil
	case s.Checks.Policy != destination.CheckBlocks && c.Unanswered.IsZero():
		return "", nil
	}
	d := c.Destination
	at := d.Created
	if d.Check != nil {
		at = d.Check.Checked
	} else {
		changed, err := destination.ChangedSince(ctx, tx, []string{d.OwnerID}, at)
		if err != nil {
			return "", err
		}
		if last := changed[d.OwnerID]; last.After(at) {
			at = last
		}
	}
	confirmed, err := p.confirmedSince(ctx, tx, paymentID, at)
	if err != nil || confirmed {
		return "", err
	}
	if !c.Unanswered.IsZero() {
		enqueueRelease(tx, p.CompanyID, p.ID, c.Unanswered)
		return ReasonAnswer, nil
	}
	return ReasonCheck, nil
}

// RetryConversions retries the payrolls with payments that wait because the operator owned too little of an asset, or
// because a price changed. It runs periodically.
func RetryConversions(ctx context.Context, d *db.DB) error {
	var waiting []Issue
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if waiting, err = WaitingForConversion(ctx, tx); err != nil {
			return err
		}
		changed, err := waitingFor(ctx, tx, ReasonPrice)
		waiting = append(waiting, changed...)
		return err
	}); err != nil || len(waiting) == 0 {
		return err
	}
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		for _, w := range waiting {
			enqueueRelease(tx, w.CompanyID, w.PayrollID, time.Time{})
		}
		return nil
	})
}

// exchanged returns the assets that a release must exchange money into, without duplicates.
func (e escrow) exchanged(entitlements []entitlement) []money.Asset {
	currency, funding := e.total.Asset(), e.held.Asset()
	var assets []money.Asset
	for _, o := range entitlements {
		for _, s := range o.shares {
			switch asset := s.Destination.Symbol; {
			case asset == funding && !e.released && s.Receive.Sign() <= 0, asset == currency && funding == currency,
				slices.Contains(assets, asset):
			default:
				assets = append(assets, asset)
			}
		}
	}
	if len(assets) > 0 && funding != currency && !slices.Contains(assets, currency) {
		assets = append(assets, currency) // debts to payees reduce the capacity of the payroll's currency
	}
	return assets
}

// prices returns the current price of every asset that is paid out after an exchange. A crypto asset is the base
// currency of its price, to keep the precision.
func (p *Payroll) prices(ctx context.Context, tx *db.Tx, entitlements []entitlement,
	e escrow) (map[money.Asset]money.Rate, error) {
	prices := map[money.Asset]money.Rate{}
	for _, o := range entitlements {
		for _, s := range o.shares {
			asset := s.Destination.Symbol
			if _, known := prices[asset]; known || asset == p.Currency || asset == p.FundingCurrency && !e.released {
				continue
			}
			rate, err := price(ctx, tx, p.Currency, asset)
			if err != nil {
				return nil, err
			}
			prices[asset] = rate
		}
	}
	return prices, nil
}

// price returns the current price between a payroll's currency and another asset.
func price(ctx context.Context, tx *db.Tx, currency, asset money.Asset) (money.Rate, error) {
	if asset.IsCrypto() {
		return rates.Latest(ctx, tx, asset, currency)
	}
	return rates.Latest(ctx, tx, currency, asset)
}

func (p *Payroll) post(tx *db.Tx, purpose string, lines []ledger.Line) error {
	return ledger.Post(tx, ledger.Journal{CompanyID: p.CompanyID, SourceType: sourceType, SourceID: p.ID,
		Purpose: purpose, Lines: lines})
}

// stop records why a payment cannot be paid in this release. It changes the payment to OnHold if the obstacle can end
// without a change by the payee, else to ActionRequired.
func (p *Payroll) stop(ctx context.Context, tx *db.Tx, m *Payment, problem string, outputs []payout.Output) error {
	to := ActionRequired
	if problem == ReasonCoolDown || problem == ReasonCheck || problem == ReasonAnswer || problem == ReasonPrenote ||
		problem == ReasonReview || problem == ReasonConversion || problem == ReasonAddress || problem == ReasonPrice {
		to = OnHold
	}
	return p.advance(ctx, tx, m, to, problem, outputs)
}

// hold puts a received or released payroll on hold until unhold ends the hold.
func (p *Payroll) hold(ctx context.Context, tx *db.Tx, reason string) error {
	from := p.State
	if from != Received && from != Released {
		return ErrState
	}
	p.State, p.HeldFrom, p.HoldReason = OnHold, from, reason
	if err := p.step(ctx, tx, from, webhook.PayrollStatusUpdate, reason); err != nil {
		return err
	}
	if from == Received {
		return nil
	}
	_, err := payout.Hold(ctx, tx, p.CompanyID, p.ID)
	return err
}

func (p *Payroll) resume(ctx context.Context, tx *db.Tx, event webhook.Type[webhook.PayrollData]) error {
	if p.State != OnHold {
		return ErrState
	}
	p.State, p.HeldFrom, p.HoldReason = p.HeldFrom, "", ""
	if err := p.step(ctx, tx, OnHold, event, ""); err != nil {
		return err
	}
	if p.State == Received {
		p.enqueueRelease(tx)
		return nil
	}
	if err := payout.Resume(ctx, tx, p.CompanyID, p.ID); err != nil {
		return err
	}
	p.enqueueRelease(tx) // pays payees whose destination was corrected during the hold
	return p.concludePayments(ctx, tx)
}

// Resume ends a payroll's hold. A hold because of reverted funding ends only when the funding returns.
func (s *Service) Resume(ctx context.Context, tx *db.Tx, companyID, payrollID string) error {
	p, err := find(ctx, tx, companyID, payrollID)
	if err != nil {
		return err
	}
	return p.unhold(ctx, tx)
}

func (p *Payroll) unhold(ctx context.Context, tx *db.Tx) error {
	if p.HoldReason == ReasonReverted {
		return ErrState
	}
	if p.State == OnHold && p.escrowReleased() {
		owes, err := p.owes(ctx, tx)
		if err != nil {
			return err
		}
		if owes { // a reorganization removed the funding during the hold
			p.HoldReason = ReasonReverted
			return p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, ReasonReverted)
		}
	}
	return p.resumeUnlessFrozen(ctx, tx)
}

// resumeUnlessFrozen ends the hold of a payroll. But if the payroll was released and its company was frozen during
// the hold, the payroll stays on hold with ReasonFrozen.
func (p *Payroll) resumeUnlessFrozen(ctx context.Context, tx *db.Tx) error {
	if p.State == OnHold && p.escrowReleased() {
		frozen, err := isFrozen(ctx, tx, p.CompanyID)
		if err != nil {
			return err
		}
		if frozen {
			p.HoldReason = ReasonFrozen
			return p.step(ctx, tx, OnHold, webhook.PayrollStatusUpdate, ReasonFrozen)
		}
	}
	return p.resume(ctx, tx, webhook.PayrollStatusUpdate)
}

// owes reports whether the funding of a released payroll was reversed, by a reorganization or the return of a direct
// debit, and the company still owes some of it.
func (p *Payroll) owes(ctx context.Context, tx *db.Tx) (bool, error) {
	if p.FundingMethod == MethodDebit {
		if p.FundingState.complete() {
			return false, nil
		}
		return hasDebt(ctx, tx, p.CompanyID)
	}
	receipts, err := p.receipts(ctx, tx)
	if err != nil || !slices.ContainsFunc(receipts, func(r receipt) bool { return r.debt.Sign() > 0 }) {
		return false, err
	}
	debt, err := p.debt(ctx, tx) // money in the balance may have settled it
	return debt.Sign() > 0, err
}

// isChange reports whether a destination that changed at the time at is a change of where the payee is paid. A
// destination that was set before the first payment is not a change, unless it replaced another destination through
// an emailed link: anyone who reads the email could have entered it.
func (p *Payroll) isChange(ctx context.Context, tx *db.Tx, payeeID, ownerID string, at time.Time) (bool, error) {
	byLink, err := destination.ReplacedByLink(ctx, tx, ownerID, at)
	if err != nil || byLink {
		return byLink, err
	}
	return PaidBefore(ctx, tx, p.CompanyID, payeeID, at)
}

// payeesApproved asks the guard PayeesApproved about the sum of the payments to each person or recipient.
func (s *Service) payeesApproved(ctx context.Context, tx *db.Tx, p *Payroll, all []Payment) (bool, error) {
	amounts := make(map[string]money.Amount, len(all))
	for i := range all {
		sum, ok := amounts[all[i].UserID]
		if !ok {
			sum = money.Zero(all[i].Amount.Asset())
		}
		var err error
		if amounts[all[i].UserID], err = sum.Add(all[i].Amount); err != nil {
			return false, err
		}
	}
	return s.guards.PayeesApproved(ctx, tx, p.CompanyID, p.ID, amounts)
}
