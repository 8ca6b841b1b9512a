package claim

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Types of the lines of a statement.
const (
	LineClaim           = "claim"
	LineClaimReverted   = "claim_reverted"   // a payment was removed from its chain
	LineRefund          = "refund"           // a refund of a paid claim
	LineRefundWithdrawn = "refund_withdrawn" // a refund that was canceled or declined
)

// Statement explains a settlement from the ledger: the changes of the money that claims earned in a currency since
// the previous settlement. Opening + Claims - Fees - Refunds - Settlement.Earned = Closing.
type Statement struct {
	Settlement

	Opening money.Amount // earned and not settled, right after the previous settlement
	Claims  money.Amount // money from claims, before fees and minus reverted payments
	Fees    money.Amount
	Refunds money.Amount // refunds minus withdrawn refunds
	Closing money.Amount // earned and not settled, right after this settlement
	Count   int64        // number of lines

	since ledger.Since
}

// StatementLine is a change of the money that claims earned. Gross - Fee = Net.
type StatementLine struct {
	At                            time.Time
	Type                          string
	ClaimID, ExternalID, RefundID string
	Gross, Fee, Net               money.Amount // negative for money that leaves the account
}

// StatementOf returns the statement of a settlement of the company, without its lines.
func (s *Service) StatementOf(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, settlementID string) (
	Statement, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Statement{}, err
	}
	x, err := findSettlement(ctx, tx, company, settlementID)
	if err != nil {
		return Statement{}, err
	}
	zero := money.Zero(x.Earned.Asset())
	st := Statement{Settlement: x, Claims: zero, Fees: zero, Refunds: zero}
	if st.since, err = ledger.EntriesSince(ctx, tx, company, ledger.MerchantPayable, x.Earned.Asset(), "settlement", x.ID,
		"settle"); err != nil {
		return st, err
	}
	st.Opening = st.since.Opening
	if st.Closing, err = st.since.Closing.Sub(x.Earned); err != nil {
		return st, err
	}
	for _, c := range st.since.Changes {
		st.Count += c.Count
		if c.SourceType == "refund" {
			st.Refunds = c.Net.Neg()
			continue
		}
		gross, err := c.Net.Add(c.Revenue)
		if err != nil {
			return st, err
		}
		if st.Claims, err = st.Claims.Add(gross); err != nil {
			return st, err
		}
		if st.Fees, err = st.Fees.Add(c.Revenue); err != nil {
			return st, err
		}
	}
	return st, nil
}

// AllLines returns all lines of the statement, oldest first.
func (st Statement) AllLines(ctx context.Context, tx *db.Tx) (all []StatementLine, err error) {
	const size = 1000 // lines read at a time
	for page := 1; int64(page-1)*size < st.Count; page++ {
		some, err := st.Lines(ctx, tx, db.Page{Number: page, PerPage: size})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Lines returns a page of the statement's lines, oldest first.
func (st Statement) Lines(ctx context.Context, tx *db.Tx, page db.Page) ([]StatementLine, error) {
	entries, err := st.since.Entries(ctx, tx, page)
	if err != nil {
		return nil, err
	}
	var refundIDs, claimIDs []string
	for _, e := range entries {
		if e.SourceType == "refund" {
			refundIDs = append(refundIDs, e.SourceID)
		} else {
			claimIDs = append(claimIDs, e.SourceID)
		}
	}
	claimOf, err := claimsOfRefunds(ctx, tx, st.CompanyID, refundIDs)
	if err != nil {
		return nil, err
	}
	for _, id := range claimOf {
		claimIDs = append(claimIDs, id)
	}
	order, err := orders(ctx, tx, st.CompanyID, claimIDs)
	if err != nil {
		return nil, err
	}
	all := make([]StatementLine, len(entries))
	for i, e := range entries {
		l := StatementLine{At: e.BookedAt, Type: LineClaim, ClaimID: e.SourceID, Fee: e.Revenue, Net: e.Amount}
		if l.Gross, err = e.Amount.Add(e.Revenue); err != nil {
			return nil, err
		}
		switch refund := e.SourceType == "refund"; {
		case refund && e.Amount.Sign() > 0:
			l.Type, l.RefundID, l.ClaimID = LineRefundWithdrawn, e.SourceID, claimOf[e.SourceID]
		case refund:
			l.Type, l.RefundID, l.ClaimID = LineRefund, e.SourceID, claimOf[e.SourceID]
		case e.Amount.Sign() < 0:
			l.Type = LineClaimReverted
		}
		l.ExternalID = order[l.ClaimID]
		all[i] = l
	}
	return all, nil
}
