package payroll

import (
	"context"
	"fmt"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// A platform that created a company earns a part of the fees of the company's payrolls, at the rate that applied when
// the payroll was created. It earns the part of a payment once the payment has reached its payee and all other
// payments of the payroll have ended. It keeps the part if a bank returns the payment later, because the company's
// fee is not returned then either.

// platformSource is the source type of journals that credit a platform.
const platformSource = "platform_fee"

// platformFee is the payload of JobPlatformFee.
type platformFee struct {
	PayrollID string      `json:"payroll_id"`
	CompanyID string      `json:"company_id"` // company of the payroll
	Version   int64       `json:"version"`    // version of the payroll, which makes the posting unique
	Currency  money.Asset `json:"currency"`
	Units     int64       `json:"units"`
}

// earn posts what the platform has earned since the last posting, and enqueues the job that credits the platform.
func (p *Payroll) earn(ctx context.Context, tx *db.Tx) error {
	if p.PlatformID == "" || p.PlatformFeeBps == 0 {
		return nil
	}
	volume, err := p.fulfilledVolume(ctx, tx)
	if err != nil {
		return err
	}
	due, err := volume.Fraction(p.PlatformFeeBps, basisPoints, money.HalfEven)
	if err != nil {
		return err
	}
	if due.Cmp(p.Fees) > 0 {
		due = p.Fees
	}
	more, err := due.Sub(p.PlatformEarned)
	if err != nil || more.Sign() <= 0 {
		return err
	}
	if err := p.setEarned(ctx, tx, due); err != nil {
		return err
	}
	job.Enqueue(tx, job.New{CompanyID: p.PlatformID, Kind: JobPlatformFee,
		Payload: platformFee{p.ID, p.CompanyID, p.Version, p.Currency, more.Units()}})
	return p.post(tx, fmt.Sprintf("platform:%d", p.Version), []ledger.Line{
		ledger.Debit(ledger.FeeRevenue, "payroll", more), ledger.Credit(ledger.PlatformFees, p.PlatformID, more),
	})
}

// CreditPlatform credits the part of a payroll's fees that a platform earned to its balance (job
// payroll.platform_fee).
func CreditPlatform(_ context.Context, tx *db.Tx, j job.Job) error {
	var in platformFee
	if err := j.Decode(&in); err != nil {
		return err
	}
	amount := money.New(in.Currency, in.Units)
	return ledger.Post(tx, ledger.Journal{CompanyID: j.CompanyID, SourceType: platformSource, SourceID: in.PayrollID,
		Purpose: fmt.Sprintf("earn:%d", in.Version), Lines: []ledger.Line{
			ledger.Debit(ledger.PlatformFees, in.CompanyID, amount), ledger.Credit(ledger.CompanyFunds, "", amount),
		}})
}
