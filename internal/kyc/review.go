package kyc

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// errResult refuses a decision that is none.
var errResult = apierr.New(apierr.Invalid, "invalid_parameter",
	"A case ends as approved, resubmission_required or rejected.")

// Review is a case as a person who decides it sees it: whose it is, and what was handed in, but neither image nor
// number.
type Review struct {
	Case
	Name, Country string      // of the person or company
	Company       string      // name of the company that hears of it, "" for none
	Documents     []Document  // present ones
	TaxIDs        []TaxNumber // without the number
}

// Waiting says whether the case waits for the provider's decision.
func (c Case) Waiting() bool {
	return c.State == Initiated || c.State == Submitted || c.State == InReview
}

// ListInSandbox are the waiting cases of all companies, the oldest first, a hundred at most. Their documents are left
// out.
func (s *Service) ListInSandbox(ctx context.Context, tx *db.Tx) ([]Review, error) {
	cases, err := selectWaiting(ctx, tx)
	if err != nil {
		return nil, err
	}
	list := make([]Review, len(cases))
	for i, c := range cases {
		if list[i], err = s.review(ctx, tx, c); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ReviewInSandbox is the present case of a subject, or apierr.NotFoundErr.
func (s *Service) ReviewInSandbox(ctx context.Context, tx *db.Tx, subjectID string) (Review, error) {
	c, err := selectCase(ctx, tx, subjectID)
	if err != nil {
		return Review{}, err
	}
	if c.ID == "" {
		return Review{}, apierr.NotFoundErr
	}
	r, err := s.review(ctx, tx, c)
	if err != nil {
		return r, err
	}
	if r.Documents, err = selectDocuments(ctx, tx, subjectID); err != nil {
		return r, err
	}
	taxIDs, err := selectTaxIDs(ctx, tx, subjectID)
	for _, t := range taxIDs {
		r.TaxIDs = append(r.TaxIDs, TaxNumber{Country: t.country, Type: t.kind})
	}
	return r, err
}

func (s *Service) review(ctx context.Context, tx *db.Tx, c Case) (Review, error) {
	r := Review{Case: c}
	if c.CompanyID != "" {
		company, err := identity.CompanyByID(ctx, tx, c.CompanyID)
		if err != nil {
			return r, err
		}
		r.Company = company.Name
		if c.Kind == kindCompany {
			r.Name, r.Country = company.Name, company.Country
			return r, nil
		}
	}
	if c.Kind == kindOwner {
		owner, err := s.owner(ctx, tx, c.CompanyID, c.SubjectID)
		r.Name, r.Country = owner.FirstName+" "+owner.LastName, owner.Country
		return r, err
	}
	user, err := identity.GetUser(ctx, tx, nil, c.SubjectID)
	r.Name, r.Country = user.Name(), user.Country
	return r, err
}

// DecideCaseInSandbox ends a waiting case of whatever subject, as the provider would: Approved, Resubmission or
// Rejected. A case that is not the subject's present one, or does not wait any more, is ErrState.
func (s *Service) DecideCaseInSandbox(ctx context.Context, tx *db.Tx, subjectID, caseID string, result State) error {
	o := Outcome{State: result}
	switch result {
	case Approved:
	case Resubmission, Rejected:
		o.Reasons = []string{"sandbox"}
	default:
		return errResult
	}
	c, err := selectCase(ctx, tx, subjectID)
	switch {
	case err != nil:
		return err
	case c.ID == "":
		return apierr.NotFoundErr
	case c.ID != caseID || !c.Waiting():
		return ErrState
	}
	return s.decide(ctx, tx, c, o)
}
