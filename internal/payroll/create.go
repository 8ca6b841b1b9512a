package payroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook"
)

type idPayload struct {
	PayrollID string `json:"payroll_id"`
}

// work reads the rows that the plan needs, with one query per table, and makes the plan. It adds the problems of the
// request to list.
func (s *Service) work(ctx context.Context, tx *db.Tx, by identity.Principal, p *CreateParams,
	list *apierr.List) (plan, identity.Company, error) {
	var err error
	if p.CompanyID, err = by.Company(p.CompanyID); err != nil {
		return plan{}, identity.Company{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, p.CompanyID)
	if err != nil {
		return plan{}, company, err
	}
	p.ExternalID = norm.NFC.String(p.ExternalID)

	var payees map[string]payee.Payee
	var all map[string][]destination.Destination
	if ids := payeeIDs(*p); len(ids) > 0 && len(p.ToPay) <= MaxPayees {
		if payees, err = payee.Payees(ctx, tx, p.CompanyID, ids); err != nil {
			return plan{}, company, err
		}
		if owners := owners(payees); len(owners) > 0 {
			if all, err = destination.ForOwners(ctx, tx, owners); err != nil {
				return plan{}, company, err
			}
		}
	}
	var held money.Asset
	if id := method(*p, company); walletID.MatchString(id) {
		if held, err = wallet.Currency(ctx, tx, company.ID, id); err != nil && !errors.Is(err, wallet.ErrNotFound) {
			return plan{}, company, err
		}
	}
	named, err := invoices(ctx, tx, p)
	if err != nil {
		return plan{}, company, err
	}
	var receive []money.Asset
	for _, item := range p.ToPay {
		receive = append(receive, money.Asset(item.ReceiveCurrency))
	}
	if p.prices, err = pricesOf(ctx, tx, money.Asset(cmp.Or(p.Currency, string(money.USD))), receive,
		s.SpreadBps); err != nil {
		return plan{}, company, err
	}
	t, err := newPlan(*p, company, held, s.Destinations(), s.Banks, named, payees, all, list)
	t.named = named
	t.setPayDay(p.PayDay, company, tx.Now(), list)
	t.checkReceive(list)
	if err != nil || !list.Empty() {
		return t, company, err
	}
	return t, company, s.checkExchange(ctx, tx, t, list)
}

// checkExchange adds to list each item that needs an exchange for which the operator owns too little now. The release
// checks again; this check keeps companies from funding payments that would have to wait.
func (s *Service) checkExchange(ctx context.Context, tx *db.Tx, t plan, list *apierr.List) error {
	entitlements := make([]entitlement, len(t.items))
	for i := range t.items {
		entitlements[i] = entitlement{net: t.items[i].Amount, shares: t.items[i].Shares}
	}
	e := escrow{held: money.Zero(t.funding), total: t.total}
	assets := e.exchanged(entitlements)
	capacity, err := s.Treasury.Capacity(ctx, tx, assets...)
	if err != nil || !slices.ContainsFunc(assets, capacity.Limits) {
		return err
	}
	prices := map[money.Asset]money.Rate{}
	for i, o := range entitlements {
		var outputs []plannedOutput
		for _, share := range o.shares {
			asset := share.Destination.Symbol
			out := plannedOutput{share: share, amount: share.Amount}
			if share.Receive.Sign() > 0 && asset != t.funding && capacity.Limits(asset) {
				out.amount = share.Receive
			} else if share.Receive.Sign() > 0 { // it is funded at the same price
				out.share.Receive, out.amount = money.Amount{}, money.Zero(asset)
			} else if asset != t.currency && asset != t.funding && capacity.Limits(asset) {
				if _, known := prices[asset]; !known {
					if prices[asset], err = price(ctx, tx, t.currency, asset); err != nil {
						return err
					}
				}
				if out.amount, err = prices[asset].Convert(share.Amount, money.Floor); err != nil {
					return err
				}
			} else if asset != t.currency {
				out.amount = money.Zero(asset) // paid from the funding, or without a limit: needs no capacity
			}
			outputs = append(outputs, out)
		}
		problem, err := e.exchange(outputs, capacity)
		if err != nil {
			return err
		}
		if problem != "" {
			list.Add("conversion_unavailable", fmt.Sprintf("/to_pay/%d/user_id", i), fmt.Sprintf(
				"The service cannot exchange this much %s into what the payee is paid in now. Pay less, fund the payroll in the "+
					"payee's currency, or try again later.", t.funding))
		}
	}
	return nil
}

// Create creates a payroll with its payments. A payroll funded on chain, by bank or by direct debit is pending; one
// paid from the company's balance is received at once. If the request has problems, nothing is written, and the error
// lists all of them.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, params CreateParams) (Payroll, error) {
	if params.Key != "" {
		if made, err := madeBefore(ctx, tx, by, params); err != nil || made.ID != "" {
			return made, err
		}
	}
	var list apierr.List
	t, company, err := s.work(ctx, tx, by, &params, &list)
	if err != nil {
		return Payroll{}, err
	}
	if err := list.Err(); err != nil {
		return Payroll{}, err
	}
	if err := company.Active(); err != nil {
		return Payroll{}, err
	}
	if !s.AllowUnverified && company.KYBStatus != identity.KYBApproved {
		return Payroll{}, ErrUnverified
	}
	if t.externalID != "" {
		id, err := findExternal(ctx, tx, company.ID, t.externalID)
		if err != nil {
			return Payroll{}, err
		}
		if id != "" {
			return Payroll{}, ErrExternalID.Set("payroll_id", id)
		}
	}
	if err := t.checkPaid(ctx, tx, ""); err != nil {
		return Payroll{}, err
	}
	if err := offering.Check(ctx, tx, t.funding); err != nil {
		return Payroll{}, err
	}
	if err := s.checkDebit(ctx, tx, by, t); err != nil {
		return Payroll{}, err
	}
	p := t.payroll(tx)
	p.CreatedBy = approval.CreatorOf(by)
	if params.Key != "" {
		if first, err := keepKey(ctx, tx, p, params.Key); err != nil {
			return Payroll{}, err
		} else if !first { // a concurrent request created the payroll first
			return madeBefore(ctx, tx, by, params)
		}
	}
	if err := p.reserveInvoices(ctx, tx); err != nil {
		return Payroll{}, err
	}
	switch t.method {
	case MethodCrypto:
		err = s.createOnChain(ctx, tx, p, t.network)
	case MethodBank:
		err = p.createPending(tx)
	case MethodDebit:
		err = s.createByDebit(ctx, tx, by, p)
	default:
		err = s.createFromBalance(ctx, tx, p)
	}
	return *p, err
}

// checkPaid returns ErrPaid, listing the items, if a payroll other than own already pays an external payment ID of
// the plan. If two transactions create such payrolls at the same time, a unique index makes the second one run again.
func (t *plan) checkPaid(ctx context.Context, tx *db.Tx, own string) error {
	var ids []string
	for i := range t.items {
		if id := t.items[i].ExternalPaymentID; id != "" {
			ids = append(ids, id)
		}
	}
	payrolls, err := findExternalPayments(ctx, tx, t.companyID, ids)
	maps.DeleteFunc(payrolls, func(_, payrollID string) bool { return payrollID == own })
	if err != nil || len(payrolls) == 0 {
		return err
	}
	fault := ErrPaid
	for i := range t.items {
		if id := payrolls[t.items[i].ExternalPaymentID]; id != "" {
			if len(fault.Fields) == 0 {
				fault = fault.Set("payroll_id", id)
			}
			fault = fault.At("body", fmt.Sprintf("/to_pay/%d/external_payment_id", i))
		}
	}
	return fault
}

// madeBefore returns the payroll that an earlier request with the same key created, or the zero Payroll if there is
// none.
func madeBefore(ctx context.Context, tx *db.Tx, by identity.Principal, params CreateParams) (Payroll, error) {
	company, err := by.Company(params.CompanyID)
	if err != nil {
		return Payroll{}, err
	}
	id, err := findKey(ctx, tx, company, params.Key)
	if err != nil || id == "" {
		return Payroll{}, err
	}
	p, err := find(ctx, tx, company, id)
	if err != nil {
		return Payroll{}, err
	}
	return *p, nil
}

// payroll returns a new payroll with a new ID for a plan.
func (t *plan) payroll(tx *db.Tx) *Payroll {
	p := &Payroll{
		ID: tx.NewID("prl"), CompanyID: t.companyID, ExternalID: t.externalID, State: Pending,
		FundingState: FundingNone, Version: 1,
		Currency: t.currency, FundingMethod: t.method, FundingCurrency: t.funding, Count: int64(len(t.items)),
		Volume: t.volume, Fees: t.fees, Total: t.total, Escrow: money.Zero(t.funding), Shortfall: money.Zero(t.funding),
		ToleranceBps: t.tolerance, PayDate: t.payDate, ReleaseAt: t.releaseAt, Period: t.period,
		Metadata:   t.metadata,
		PlatformID: t.platformID, PlatformFeeBps: t.platformBps, PlatformEarned: money.Zero(t.currency),
		CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	p.Payments = t.payments(tx, p.ID)
	return p
}

// payments returns new payments with new IDs for the items of a plan.
func (t *plan) payments(tx *db.Tx, payrollID string) []Payment {
	all := make([]Payment, len(t.items))
	for i := range t.items {
		it := &t.items[i]
		all[i] = Payment{
			ID: tx.NewID("pmt"), PayrollID: payrollID, Position: int64(i), PayeeID: it.PayeeID, UserID: it.userID,
			State: Pending, Version: 1,
			Amount: it.Amount, Receive: it.Receive, Fee: it.Fee,
			Country: it.Country, IsPremium: it.IsPremium, InvoiceID: it.InvoiceID,
			Description: it.Description, Category: it.Category, ExternalPaymentID: it.ExternalPaymentID,
			Metadata: it.Metadata,
		}
	}
	return all
}

// createOnChain creates a payroll that is funded on an EVM network or, if network is "", on Bitcoin.
func (s *Service) createOnChain(ctx context.Context, tx *db.Tx, p *Payroll, network string) error {
	pool := s.Accounts.Pool
	if network == "" {
		pool, network = s.Pool, s.Network
	}
	if err := s.guards.CheckWatched(ctx, tx, network, time.Time{}); err != nil {
		return err
	}
	address, err := pool.NewAddress(ctx, tx, p.CompanyID, p.ID)
	if err != nil {
		return err
	}
	p.Address, p.Network = address, network
	q, err := s.price(ctx, tx, p, p.Total)
	if err != nil {
		return err
	}
	p.Quote = &q
	return p.createPending(tx)
}

// createPending stores a payroll that waits for its funding.
func (p *Payroll) createPending(tx *db.Tx) error {
	insertPayroll(tx, p)
	db.History(tx, p.CompanyID, p.ID, p.Version, "", string(p.State), reasonCreated)
	job.Enqueue(tx, job.New{CompanyID: p.CompanyID, Kind: JobExpire, Payload: idPayload{p.ID},
		RunAt: tx.Now().Add(UnfundedAfter)})
	return p.emit(tx, webhook.PayrollCreated, p.State, "")
}

// price creates a quote for the amount still due.
func (s *Service) price(ctx context.Context, tx *db.Tx, p *Payroll, due money.Amount) (quote.Quote, error) {
	return quote.Make(ctx, tx, quote.Params{
		CompanyID: p.CompanyID, ObjectID: p.ID, Due: due, Funding: p.FundingCurrency, Address: p.Address,
		Network:  p.Network,
		Validity: s.QuoteValidity, SpreadBps: s.SpreadBps,
	})
}

// createFromBalance creates a payroll that is paid from the company's balance, and debits its total. It inserts the
// payroll once, in the state received, with the history rows and events of both pending and received.
func (s *Service) createFromBalance(ctx context.Context, tx *db.Tx, p *Payroll) error {
	rate, due, err := s.balanceDue(ctx, tx, p.Total, p.FundingCurrency)
	if err != nil {
		return err
	}
	if err := ledger.CheckNoDebt(ctx, tx, p.CompanyID); err != nil {
		return err
	}
	available, err := ledger.Balance(ctx, tx, p.CompanyID, ledger.CompanyFunds, "", p.FundingCurrency)
	if err != nil {
		return err
	}
	if available.Cmp(due) < 0 {
		return ErrNoFunds.Detailf("The payroll needs %s %s and the company's balance is %s.", due, p.FundingCurrency,
			available)
	}
	if err := p.post(tx, "fund", []ledger.Line{
		ledger.Debit(ledger.CompanyFunds, "", due), ledger.Credit(ledger.Escrow, p.ID, due),
	}); err != nil {
		return err
	}
	if err := p.emit(tx, webhook.PayrollCreated, p.State, ""); err != nil {
		return err
	}
	db.History(tx, p.CompanyID, p.ID, p.Version, "", string(p.State), reasonCreated)

	p.State, p.FundingState, p.Version, p.Escrow, p.Rate = Received, FundingFunded, 2, due, rate
	db.History(tx, p.CompanyID, p.ID, p.Version, string(Pending), string(p.State), reasonCompanyBalance)
	if err := p.emit(tx, webhook.PayrollStatusUpdate, Pending, reasonCompanyBalance); err != nil {
		return err
	}
	for i := range p.Payments {
		m := &p.Payments[i]
		m.setState(Received)
		m.Version = 2
		if err := p.recordStep(ctx, tx, m, Pending, "", nil); err != nil {
			return err
		}
	}
	insertPayroll(tx, p)
	p.enqueueRelease(tx)
	return nil
}

// balanceDue returns the amount to debit from a balance for a total, and the rate of the exchange, which is zero if
// none is needed.
func (s *Service) balanceDue(ctx context.Context, tx *db.Tx, total money.Amount, funding money.Asset) (money.Rate,
	money.Amount, error) {
	if funding == total.Asset() {
		return money.Rate{}, total, nil
	}
	return quote.Price(ctx, tx, total, funding, s.SpreadBps)
}

// Preview computes the payroll that Create would create, and writes nothing. Problems that would make Create fail are
// listed in Blockers.
func (s *Service) Preview(ctx context.Context, tx *db.Tx, by identity.Principal, params CreateParams) (Preview, error) {
	var list apierr.List
	t, company, err := s.work(ctx, tx, by, &params, &list)
	if err != nil {
		return Preview{}, err
	}
	v := Preview{
		Currency: t.currency, FundingMethod: t.method, FundingCurrency: t.funding,
		FundingNetwork: t.network, Volume: t.volume, Fees: t.fees, Total: t.total, Items: t.items,
		PayDate: t.payDate, Period: t.period,
	}
	if err := company.Active(); err != nil {
		if err := list.AddErr(err, ""); err != nil {
			return v, err
		}
	}
	if t.externalID != "" {
		id, err := findExternal(ctx, tx, company.ID, t.externalID)
		if err != nil {
			return v, err
		}
		if id != "" {
			list.Add(ErrExternalID.Code, "/external_id", ErrExternalID.Detail)
		}
	}
	if err := t.checkPaid(ctx, tx, ""); err != nil {
		f, isFault := apierr.As(err)
		if !isFault {
			return v, err
		}
		for _, field := range f.Fields {
			list.AddField(field)
		}
	}
	for i := range t.items {
		named, found := t.named[t.items[i].InvoiceID]
		if !found || named.UserID != t.items[i].userID {
			continue
		}
		if err := list.AddErr(named.CheckPayable(ctx, tx, company.ID), fmt.Sprintf("/to_pay/%d/invoice_id", i)); err != nil {
			return v, err
		}
	}
	if v.Total.Sign() > 0 {
		if err := list.AddErr(s.checkDebit(ctx, tx, by, t), "/funding_method"); err != nil {
			return v, err
		}
		if err := s.previewFunding(ctx, tx, company.ID, &v, &list); err != nil {
			return v, err
		}
		if above, err := approval.AboveLimit(ctx, tx, approval.Subject{CompanyID: company.ID}, v.Total); err != nil {
			return v, err
		} else if above {
			v.Approvals = approval.Needed(approval.CreatorOf(by))
		}
	}
	v.Blockers = list.Fields()
	return v, nil
}

func (s *Service) previewFunding(ctx context.Context, tx *db.Tx, companyID string, v *Preview,
	list *apierr.List) error {
	var err error
	if v.Rate, v.Funding, err = s.balanceDue(ctx, tx, v.Total, v.FundingCurrency); err != nil {
		if _, isFault := apierr.As(err); !isFault {
			return err
		}
		return list.AddErr(err, "/funding_currency")
	}
	switch v.FundingMethod {
	case MethodBank, MethodDebit:
		return nil
	case MethodCrypto:
		if least := quote.Least(v.FundingCurrency, false); v.Funding.Cmp(least) < 0 {
			return list.AddErr(quote.TooSmall(v.Funding, least), "/to_pay")
		}
		return nil
	}
	if err := ledger.CheckNoDebt(ctx, tx, companyID); err != nil {
		return list.AddErr(err, "/funding_method")
	}
	available, err := ledger.Balance(ctx, tx, companyID, ledger.CompanyFunds, "", v.FundingCurrency)
	if err != nil {
		return err
	}
	if available.Cmp(v.Funding) < 0 {
		list.Add(ErrNoFunds.Code, "/funding_method", ErrNoFunds.Detail)
	}
	return nil
}
