package kyc

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// errResult is returned for a decision with an unknown result.
var errResult = apierr.New(apierr.Invalid, "invalid_parameter",
	"The result must be approved, resubmission_required or rejected.")

// Review contains a case with its subject and documents, for a decision on the sandbox pages. It contains no images.
type Review struct {
	Case
	Name, Country string      // of the person or company
	Company       string      // name of the company that receives the events; "" for none
	Documents     []Document  // the current documents
	TaxIDs        []TaxNumber // without the numbers
}

// Waiting reports whether the case waits for the provider's decision.
func (c Case) Waiting() bool {
	return c.State == Initiated || c.State == Submitted || c.State == InReview
}

// ListInSandbox returns up to 100 waiting cases of all companies, oldest first, without documents.
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

// ReviewInSandbox returns the current case of a subject, or apierr.NotFoundErr.
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

// DecideCaseInSandbox decides a waiting case in place of the provider. result is Approved, Resubmission or Rejected.
// It returns ErrState if the case is not the subject's current case or is already decided.
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
