package backoffice

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// Kinds of found payments.
const (
	KindPayroll  = "payroll"
	KindClaim    = "claim"
	KindPayout   = "payout"
	KindDeposit  = "deposit"
	KindTransfer = "transfer"
)

// MostFound is the maximum number of payments of each kind that a search returns.
const MostFound = 50

// Found is a payment that staff searched for.
type Found struct {
	Kind, CompanyID, ID string
	OfID                string // ID of the payroll, claim or withdrawal; "" if the payment is one, or none is known
	State, Detail       string
	Amount              money.Amount
	At                  time.Time
}

// FindPayments returns payments of all companies that a text names, newest first: an amount with its currency, such as
// "120.50 USD", a transaction ID, an address, a bank's reference or ours, a payer's name, or the ID of a payment, an
// object or a company.
func FindPayments(ctx context.Context, tx *db.Tx, text string) (all []Found, err error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	amount := parseAmount(text)
	s := search{map[string]bool{}, nil}
	for _, find := range []func(context.Context, *db.Tx, string, money.Amount) error{s.onChain, s.objects, s.payouts,
		s.transfers} {
		if err := find(ctx, tx, text, amount); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.found, func(a, b Found) int { return b.At.Compare(a.At) })
	return s.found, nil
}

// parseAmount returns an amount such as "120.50 USD", or an amount without an asset.
func parseAmount(text string) money.Amount {
	number, code, ok := strings.Cut(text, " ")
	asset, known := money.Lookup(strings.ToUpper(strings.TrimSpace(code)))
	if !ok || !known {
		return money.Amount{}
	}
	amount, err := money.Parse(asset, number)
	if err != nil {
		return money.Amount{}
	}
	return amount
}

// search collects what was found, each payment once.
type search struct {
	seen  map[string]bool
	found []Found
}

func (s *search) add(f Found) {
	if key := f.Kind + " " + f.CompanyID + " " + f.ID; !s.seen[key] {
		s.seen[key] = true
		s.found = append(s.found, f)
	}
}

// onChain finds what an address or a transaction belongs to, and deposits of an amount.
func (s *search) onChain(ctx context.Context, tx *db.Tx, text string, amount money.Amount) error {
	if amount.Asset() != "" {
		some, err := deposit.OfAmount(ctx, tx, amount, MostFound)
		s.deposits(some)
		return err
	}
	places, err := chain.FindPlaces(ctx, tx, text, MostFound)
	if err != nil {
		return err
	}
	for _, p := range places {
		some, err := deposit.At(ctx, tx, p.CompanyID, p.TxID, cmp.Or(p.Address, "-"), MostFound)
		if err != nil {
			return err
		}
		s.deposits(some)
		if p.Address == "" {
			outs, err := payout.InBatches(ctx, tx, p.CompanyID, p.ObjectID)
			if err != nil {
				return err
			}
			s.outputs(outs)
		}
		if err := s.objects(ctx, tx, p.ObjectID, money.Amount{}); err != nil {
			return err
		}
	}
	return nil
}

// objects finds payrolls and claims.
func (s *search) objects(ctx context.Context, tx *db.Tx, text string, amount money.Amount) error {
	payrolls, err := payroll.Search(ctx, tx, text, amount, MostFound)
	if err != nil {
		return err
	}
	for _, p := range payrolls {
		s.add(Found{Kind: KindPayroll, CompanyID: p.CompanyID, ID: p.ID, State: string(p.State), Detail: p.ExternalID,
			Amount: p.Total, At: p.CreatedAt})
	}
	claims, err := claim.Search(ctx, tx, text, amount, MostFound)
	for _, c := range claims {
		s.add(Found{Kind: KindClaim, CompanyID: c.CompanyID, ID: c.ID, State: string(c.State), Detail: c.ExternalID,
			Amount: c.Amount, At: c.CreatedAt})
	}
	return err
}

// payouts finds outputs, also by the reference of a bank.
func (s *search) payouts(ctx context.Context, tx *db.Tx, text string, amount money.Amount) error {
	outs, err := payout.Search(ctx, tx, text, amount, MostFound)
	if err != nil {
		return err
	}
	s.outputs(outs)
	if amount.Asset() != "" {
		return nil
	}
	paid, err := bank.FindPaid(ctx, tx, text)
	for _, p := range paid {
		o, err := payout.Get(ctx, tx, p.CompanyID, p.OutputID)
		if errors.Is(err, db.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		s.outputs([]payout.Output{o})
	}
	return err
}

// transfers finds credits on the operator's bank accounts.
func (s *search) transfers(ctx context.Context, tx *db.Tx, text string, amount money.Amount) error {
	all, err := bankreceipt.Search(ctx, tx, text, amount, MostFound)
	for i := range all {
		t := &all[i]
		s.add(Found{Kind: KindTransfer, CompanyID: t.OwnerID, ID: t.ID, OfID: t.PayrollID, State: string(t.State),
			Detail: strings.Join(append([]string{t.Debtor}, t.Lines...), " · "), Amount: t.Amount, At: t.CreatedAt})
	}
	return err
}

func (s *search) outputs(all []payout.Output) {
	for i := range all {
		o := &all[i]
		s.add(Found{Kind: KindPayout, CompanyID: o.CompanyID, ID: o.ID, OfID: o.PayrollID, State: string(o.State),
			Detail: strings.TrimSpace(o.Address + " " + o.TxID), Amount: o.Amount, At: o.QueuedAt})
	}
}

func (s *search) deposits(all []deposit.Deposit) {
	for i := range all {
		d := &all[i]
		s.add(Found{Kind: KindDeposit, CompanyID: d.CompanyID, ID: d.ID, OfID: d.ObjectID, State: string(d.State),
			Detail: d.Address + " " + d.TxID, Amount: d.Amount, At: d.FirstSeen})
	}
}
