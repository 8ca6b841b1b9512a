// Package approval decides whether a payment or action needs the consent of a second person, and records that
// consent.
//
// Two groups of people approve:
//
//   - Members of a company. A payroll or a withdrawal above the [Limit] that the company sets needs the approval of
//     an owner or administrator who did not create it, or of two if an API client created it ([Allowed], [Give]). The
//     company's payments without approval in the last day count towards the limit, and those in the last week towards
//     five times the limit ([Count]), so splitting an amount does not avoid it. An approval counts as long as the
//     member may approve. A lower limit takes effect immediately. Raising or removing the limit is a [Proposal] that
//     a second member must accept. A member who becomes an owner or administrator while there is a limit can approve
//     only after a week.
//   - The operator's staff. An action that releases stopped money, and any payment above the [ReleaseLimit], is a
//     [Request] that one staff member opens and another approves ([Open], [Answer]).
//
// In both groups, nobody approves their own request. An amount without an exchange rate counts as above every limit.
// A person who approves must have used a second factor in the last ten minutes. For a session, the caller checks
// this; for an access token, this package does.
package approval

import (
	"context"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// Errors of approvals by members.
var (
	ErrApprover = apierr.New(apierr.Forbidden, "role_required",
		"Only an owner or administrator can approve payments: on the pages, or by an app with their own access token.")
	ErrNewApprover = apierr.New(apierr.Forbidden, "second_person_required",
		"You became an owner or administrator in the last 7 days, so another one has to approve this.")
	ErrCreator = apierr.New(apierr.Forbidden, "second_person_required",
		"You created this, so another person has to approve it.")
	ErrOnlyOne = apierr.New(apierr.Conflict, "second_person_missing",
		"The company needs two owners or administrators before it can require approvals. Invite a second one first.")
	ErrProposal = apierr.New(apierr.Conflict, "invalid_state",
		"This proposal was already answered, replaced or withdrawn.")
	errLimit = apierr.New(apierr.Invalid, "invalid_parameter",
		"Enter an amount of zero or more in a currency that is not a crypto asset.")
)

const (
	day  = 24 * time.Hour
	week = 7 * day
	// weekFactor times the limit is the amount that a company can pay in a week without approval.
	weekFactor = 5
)

// Number of members, other than the creator, who must approve.
const (
	neededOfMember  = 1 // approvals needed for a payment that a member created
	neededOfProgram = 2 // approvals needed for a payment that an API client created
)

// Subject is a payment that members approve.
type Subject struct {
	CompanyID, ID string
	Creator       string // user ID of the member who created the payment; "" if an API client did
}

// Progress is the state of a subject's approval.
type Progress struct {
	Needed int64    // number of members who must approve
	By     []string // sorted user IDs of members who approved and may still approve
}

// Complete reports whether enough members have approved.
func (p Progress) Complete() bool { return int64(len(p.By)) >= p.Needed }

// Administrators returns the user IDs of a company's owners and administrators. It returns ErrApprover unless the
// principal is one of them, in a session or with an access token that permits approving. It returns
// identity.ErrNotProven for an access token if no second factor was used recently.
func Administrators(ctx context.Context, tx *db.Tx, by identity.Principal) ([]string, error) {
	byToken := by.Kind == identity.KindOAuth && by.Has(identity.CompanyApprove)
	if by.UserID == "" || by.Kind != identity.KindSession && !byToken {
		return nil, ErrApprover
	}
	if byToken {
		if err := identity.RequireProven(ctx, tx, by); err != nil {
			return nil, err
		}
	}
	all, err := identity.Administrators(ctx, tx, by.CompanyID)
	if err == nil && !slices.Contains(all, by.UserID) {
		err = ErrApprover
	}
	return all, err
}

// Approvers returns the user IDs of the members who may approve payments of a company: the owners and administrators,
// except members whose role began after the limit was set and less than a week ago. So one person cannot approve
// alone by inviting a second account.
func Approvers(ctx context.Context, tx *db.Tx, companyID string) ([]string, error) {
	l, err := findLimit(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	since := tx.Now()
	if l.Amount.Asset() != "" {
		since = since.Add(-week)
		if l.since.After(since) {
			since = l.since
		}
	}
	return identity.AdministratorsSince(ctx, tx, companyID, since)
}

// CreatorOf returns the user ID of a member who acts on a page, or "" for an API client.
func CreatorOf(by identity.Principal) string {
	if by.Kind == identity.KindSession {
		return by.UserID
	}
	return ""
}

// Needed returns the number of members who must approve a payment above the limit, given the payment's creator.
func Needed(creator string) int64 {
	if creator != "" {
		return neededOfMember
	}
	return neededOfProgram
}

// ProgressOf returns the approvals of a subject by members who may still approve.
func ProgressOf(ctx context.Context, tx *db.Tx, s Subject) (Progress, error) {
	p := Progress{Needed: Needed(s.Creator)}
	given, err := given(ctx, tx, s)
	if err != nil || len(given) == 0 {
		return p, err
	}
	may, err := Approvers(ctx, tx, s.CompanyID)
	for _, id := range given {
		if id != s.Creator && slices.Contains(may, id) {
			p.By = append(p.By, id)
		}
	}
	return p, err
}

// Allowed reports whether the company's rules permit paying a subject: its amount is within the company's limit, or
// the subject has its approvals. It locks the limit until the commit, so that concurrent payments are counted one
// after the other.
func Allowed(ctx context.Context, tx *db.Tx, s Subject, amount money.Amount) (bool, error) {
	if err := LockLimit(ctx, tx, s.CompanyID); err != nil {
		return false, err
	}
	above, err := AboveLimit(ctx, tx, s, amount)
	if err != nil || !above {
		return err == nil, err
	}
	p, err := ProgressOf(ctx, tx, s)
	return err == nil && p.Complete(), err
}

// Count adds a payment to the amounts that its company has paid without approval. A repeated call has no effect. An
// approved payment is not counted.
func Count(ctx context.Context, tx *db.Tx, s Subject, amount money.Amount) error {
	p, err := ProgressOf(ctx, tx, s)
	if err != nil {
		return err
	}
	if p.Complete() {
		return deleteUse(ctx, tx, s)
	}
	return insertUse(ctx, tx, s, amount)
}

// Uncount removes a payment that was not made from the amounts that its company has paid.
func Uncount(ctx context.Context, tx *db.Tx, s Subject) error { return deleteUse(ctx, tx, s) }

// Reset deletes the approvals of a subject that was changed.
func Reset(ctx context.Context, tx *db.Tx, s Subject) error { return deleteApprovals(ctx, tx, s) }

// Give records the approval of a member. first reports whether the member had not approved the subject before. It
// returns ErrApprover or ErrCreator if the member may not approve the subject.
func Give(ctx context.Context, tx *db.Tx, by identity.Principal, s Subject) (first bool, err error) {
	if by.CompanyID != s.CompanyID {
		return false, ErrApprover
	}
	if _, err := Administrators(ctx, tx, by); err != nil {
		return false, err
	}
	if by.UserID == s.Creator {
		return false, ErrCreator
	}
	if may, err := Approvers(ctx, tx, s.CompanyID); err != nil {
		return false, err
	} else if !slices.Contains(may, by.UserID) {
		return false, ErrNewApprover
	}
	return insertApproval(ctx, tx, s, by.UserID)
}

// AboveLimit reports whether the amount of a subject, together with the amounts that the company paid for other
// subjects without approval, is above the company's limit.
func AboveLimit(ctx context.Context, tx *db.Tx, s Subject, amount money.Amount) (bool, error) {
	l, err := findLimit(ctx, tx, s.CompanyID)
	if err != nil || l.Amount.Asset() == "" {
		return false, err
	}
	for _, window := range []struct {
		length time.Duration
		factor int64
	}{{day, 1}, {week, weekFactor}} {
		limit, err := l.Amount.Fraction(window.factor, 1, money.Floor)
		if err != nil {
			continue // the limit times the factor is too large for an amount
		}
		used, err := usedSince(ctx, tx, s, tx.Now().Add(-window.length))
		if err != nil {
			return false, err
		}
		if over, err := above(ctx, tx, limit, append(used, amount)...); err != nil || over {
			return over, err
		}
	}
	return false, nil
}

// above reports whether the sum of amounts is above a limit. A limit without an asset means no limit. Amounts in
// other assets are converted at the present rate; if there is no rate, they count as above the limit.
func above(ctx context.Context, tx *db.Tx, limit money.Amount, amounts ...money.Amount) (bool, error) {
	if limit.Asset() == "" {
		return false, nil
	}
	total := money.Zero(limit.Asset())
	for _, a := range amounts {
		var err error
		if a.Asset() != total.Asset() {
			_, a, err = quote.Price(ctx, tx, a, total.Asset(), 0)
		}
		if err == nil {
			total, err = total.Add(a)
		}
		if _, declared := apierr.As(err); declared {
			return true, nil // without a rate, or if the sum overflows, the amount counts as above the limit
		}
		if err != nil {
			return false, err
		}
	}
	return total.Cmp(limit) > 0, nil
}

// CoolDown is the time for which a new payment destination cannot be used. 0 means that it can be used at once.
type CoolDown time.Duration

// ReadyAt returns the time from which a destination can be used, given the time at which it was added or changed.
func (c CoolDown) ReadyAt(changed time.Time) time.Time {
	return changed.Add(max(time.Duration(c), 0))
}
