package claim

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/receivable/deposit"
)

// Filter selects claims of a company and a page of them, newest first.
type Filter struct {
	Status     State
	PayerID    string
	LinkID     string // payment link
	ExternalID string
	Search     string       // beginning of an external ID, payer ID or claim ID; letter case does not matter
	Currency   money.Asset  // denomination currency
	Amount     money.Amount // exact amount; without an asset, it selects all claims
	Metadata   map[string]string
	From, To   time.Time // selects claims created in [From, To)
	Page       db.Page
}

// List returns a page of the company's claims, newest first, without their quotes, and their total number.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Claim,
	int64, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	f.Page.PerPage = min(max(f.Page.PerPage, 1), 100)
	return list(ctx, tx, company, f.normal())
}

// normal returns the filter with its texts in the stored Unicode form.
func (f Filter) normal() Filter {
	f.PayerID, f.ExternalID, f.Search = norm.NFC.String(f.PayerID), norm.NFC.String(f.ExternalID),
		norm.NFC.String(f.Search)
	return f
}

// exportPage is the number of claims that Export reads in one query.
const exportPage = 1000

// Export returns a function that writes all claims that match the filter as CSV, newest first, with cells that a
// spreadsheet can open safely. It checks the principal before it returns.
func (s *Service) Export(tx *db.Tx, by identity.Principal, companyID string, f Filter) (
	write func(context.Context, io.Writer) error, err error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	f = f.normal()
	f.Page = db.Page{PerPage: exportPage}
	return func(ctx context.Context, w io.Writer) error {
		out := csv.NewWriter(w)
		_ = out.Write([]string{"claim_id", "external_id", "created", "status", "exception", "payer_id", "description",
			"denomination_amount", "denomination_currency", "received_amount", "refundable_amount", "refunded_amount",
			"funding_currency", "proceeds", "fee", "settlement_currency", "tx_hash", "metadata"}) // Flush returns errors
		for {
			all, _, err := list(ctx, tx, company, f)
			if err != nil {
				return err
			}
			for _, c := range all {
				_ = out.Write([]string{c.ID, payee.SafeCell(c.ExternalID), c.CreatedAt.UTC().Format(time.RFC3339),
					string(c.State), string(c.Exception), payee.SafeCell(c.PayerID), payee.SafeCell(c.Description),
					c.Amount.String(), string(c.Amount.Asset()), c.Received().String(), c.Refundable().String(),
					c.RefundedTotal().String(), string(c.Funding), c.booked.merchant.String(), c.booked.revenue.String(),
					string(c.SettleIn), c.TxHash, payee.SafeCell(metadata.Text(c.Metadata))})
			}
			if err := out.Error(); err != nil {
				return err
			}
			if len(all) < exportPage {
				out.Flush()
				return out.Error()
			}
			f.Page.After = all[exportPage-1].ID
		}
	}, nil
}

// Payment is one output that pays a claim.
type Payment struct {
	deposit.Deposit
	Confirmations int64 // current number of confirmations
}

// Detail is a claim with its payments.
type Detail struct {
	Claim
	Due      money.Amount // part of the amount that payments seen in time do not cover
	Rest     money.Amount // Due in the funding asset, at the newest quote
	Payments []Payment    // ordered by the time first seen, including replaced and evicted payments
	Email    string       // email address for the payer's receipts; "" for none
}

// Get returns a claim of the company with its payments.
func (s *Service) Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, claimID string) (Detail,
	error) {
	c, err := ofCompany(ctx, tx, by, companyID, claimID, find)
	if err != nil {
		return Detail{}, err
	}
	d, err := s.detail(ctx, tx, c)
	if err == nil {
		d.Email, err = s.payerEmail(c)
	}
	return d, err
}

// lockAny locks a claim for its payer, who knows only its ID.
func lockAny(ctx context.Context, tx *db.Tx, claimID string) (*Claim, error) {
	c, err := findAny(ctx, tx, claimID)
	if err != nil {
		return nil, err
	}
	return lock(ctx, tx, c.CompanyID, c.ID)
}

func (s *Service) detail(ctx context.Context, tx *db.Tx, c *Claim) (Detail, error) {
	f, err := gather(ctx, tx, c)
	if err != nil {
		return Detail{}, err
	}
	if err := s.show(ctx, tx, f); err != nil {
		return Detail{}, err
	}
	t, err := f.current().Evaluate()
	if err != nil {
		return Detail{}, err
	}
	d := Detail{Claim: *c, Due: t.Left, Rest: t.Room, Payments: make([]Payment, len(f.deposits))}
	if c.State == Paid || c.State == Confirming || c.State == Refunded {
		d.Due = money.Zero(t.Left.Asset())
	}
	for i, one := range f.deposits {
		out, err := chain.GetOutput(ctx, tx, one.Chain, one.Outpoint)
		if err != nil && !errors.Is(err, chain.ErrUnknown) {
			return d, err
		}
		d.Payments[i] = Payment{one, out.Depth}
	}
	return d, nil
}
