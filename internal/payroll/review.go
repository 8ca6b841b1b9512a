package payroll

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/screening"
)

// retryLater is the time until the next attempt to release a payroll while there is no current sanctions list, or
// while the company is frozen or under review.
const retryLater = 5 * time.Minute

// errCompanyReview stops a release because the company itself is under review.
var errCompanyReview = errors.New("payroll: the company is under review")

// screen returns the payees of a payroll that sanctions screening blocks. It must run before a release writes
// anything. It returns errCompanyReview if the company itself is blocked.
func (s *Service) screen(ctx context.Context, tx *db.Tx, p *Payroll, payees map[string]payee.Payee,
	all map[string][]destination.Destination) (map[string]bool, error) {
	whom := make([]destination.ScreeningSubject, 0, len(payees))
	for _, who := range payees {
		_, used := destinations(who, all)
		whom = append(whom, destination.ScreeningSubject{Payee: who, To: used})
	}
	held, err := s.guards.Screen(ctx, tx, p.CompanyID, whom)
	if err == nil && held[p.CompanyID] {
		err = errCompanyReview
	}
	return held, err
}

// handleScreening handles an error of screen. A received payroll of a company under review is put on hold. If the
// payroll was already released, or cannot be screened because there is no current list, another release is scheduled.
func (s *Service) handleScreening(ctx context.Context, tx *db.Tx, p *Payroll, err error) error {
	switch {
	case errors.Is(err, errCompanyReview) && p.State == Received:
		return p.hold(ctx, tx, ReasonReview)
	case errors.Is(err, errCompanyReview), errors.Is(err, screening.ErrUnavailable):
		p.releaseLater(tx)
		return nil
	}
	return err
}

// releaseLater schedules another release after retryLater.
func (p *Payroll) releaseLater(tx *db.Tx) {
	enqueueRelease(tx, p.CompanyID, p.ID, tx.Now().Add(retryLater))
}

// releaseAnew queues a release of each payroll of a company in which a payment to the payee waits.
func releaseAnew(ctx context.Context, tx *db.Tx, companyID, payeeID string) error {
	ids, err := stoppedFor(ctx, tx, companyID, payeeID)
	for _, id := range ids {
		enqueueRelease(tx, companyID, id, time.Time{})
	}
	return err
}

// OnScreeningResolved resumes the payrolls that waited for the review of a payee, or of the company itself, unless
// another reason prevents it.
func OnScreeningResolved(ctx context.Context, tx *db.Tx, companyID, subjectID string) error {
	if subjectID != companyID {
		return releaseAnew(ctx, tx, companyID, subjectID)
	}
	return unholdAll(ctx, tx, companyID, ReasonReview)
}
