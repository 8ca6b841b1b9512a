package approval

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Limit is the total above which a company's payments need an approval. An Amount without an asset means no limit.
type Limit struct {
	Amount   money.Amount
	Proposal Proposal

	since time.Time // time since which there has been a limit
}

// Proposal is a limit that a member has proposed. Its ID is empty if there is no proposal.
type Proposal struct {
	ID, By string
	Amount money.Amount
}

// LimitOf returns the limit of the principal's company.
func LimitOf(ctx context.Context, tx *db.Tx, by identity.Principal) (Limit, error) {
	company, err := by.Company("")
	if err != nil {
		return Limit{}, err
	}
	return findLimit(ctx, tx, company)
}

// LimitOfCompany returns the limit of a company, for staff.
func LimitOfCompany(ctx context.Context, tx *db.Tx, companyID string) (Limit, error) {
	return findLimit(ctx, tx, companyID)
}

// SetLimit sets the company's limit, or removes it if amount has no asset. A first limit and a lower limit take
// effect at once. A limit that would permit more is stored as a proposal, which a second member answers; see
// [AnswerLimit].
func SetLimit(ctx context.Context, tx *db.Tx, by identity.Principal, amount money.Amount) error {
	if amount.Asset() != "" && (amount.Sign() < 0 || amount.Asset().IsCrypto()) {
		return errLimit.At("body", "/limit")
	}
	// This locks the company, so that concurrent changes wait for each other.
	version, err := identity.NextCompanyVersion(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	administrators, err := Administrators(ctx, tx, by)
	if err != nil {
		return err
	}
	now, err := findLimit(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if amount.Asset() != "" && len(administrators) < 2 {
		return ErrOnlyOne.At("body", "/limit")
	}
	next, what := Limit{Amount: amount, since: now.since}, "set to"
	switch same := amount.Asset() == now.Amount.Asset(); {
	case same && (amount.Asset() == "" || amount.Cmp(now.Amount) == 0):
		return nil
	case now.Amount.Asset() == "":
		next.since = tx.Now()
	case same && amount.Cmp(now.Amount) < 0:
	default:
		next, what = Limit{
			Amount: now.Amount, Proposal: Proposal{ID: tx.NewID("alp"), By: by.UserID, Amount: amount}, since: now.since,
		}, "proposed as"
	}
	recordLimit(tx, by, version, what, amount)
	return saveLimit(ctx, tx, by.CompanyID, next)
}

// AnswerLimit makes a proposal the company's limit, or drops it. The member who made the proposal can only drop it.
// The proposal can be accepted only while that member may still approve payments.
func AnswerLimit(ctx context.Context, tx *db.Tx, by identity.Principal, proposalID string, accept bool) error {
	version, err := identity.NextCompanyVersion(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	if _, err := Administrators(ctx, tx, by); err != nil {
		return err
	}
	may, err := Approvers(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	l, err := findLimit(ctx, tx, by.CompanyID)
	if err != nil {
		return err
	}
	asked := l.Proposal
	switch {
	case asked.ID == "" || asked.ID != proposalID, accept && !slices.Contains(may, asked.By):
		return ErrProposal
	case accept && asked.By == by.UserID:
		return ErrCreator
	case accept && !slices.Contains(may, by.UserID):
		return ErrNewApprover
	}
	l.Proposal = Proposal{}
	what := "proposal declined:"
	if accept {
		l.Amount, what = asked.Amount, "set, as "+asked.By+" proposed, to"
	}
	recordLimit(tx, by, version, what, asked.Amount)
	return saveLimit(ctx, tx, by.CompanyID, l)
}

func recordLimit(tx *db.Tx, by identity.Principal, version int64, what string, amount money.Amount) {
	shown := "none"
	if amount.Asset() != "" {
		shown = amount.String() + " " + string(amount.Asset())
	}
	db.History(tx, by.CompanyID, by.CompanyID, version, "", "",
		fmt.Sprintf("approval limit: %s %s by %s", what, shown, by.UserID))
}
