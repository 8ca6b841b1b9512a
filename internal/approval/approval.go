// Package approval decides whether one person's consent is enough, and records the consent of a second one.
//
// Two groups of people approve:
//
//   - Members of a company. Above the [Limit] that the company sets, a payroll or a withdrawal needs the approval of an
//     owner or administrator who did not create it, or of two if a program created it ([Allowed], [Give]). What the
//     company paid without approval in the last day counts toward the limit, and what it paid in the last week toward
//     five times the limit ([Count]), so splitting an amount does not avoid it. An approval counts as long as the
//     member can approve. A lower limit takes effect immediately. Raising or removing the limit is a [Proposal] for a
//     second member. A member who becomes an owner or administrator while there is a limit can approve a week later.
//   - The operator's staff. An action that releases stopped money, and any payment above the [ReleaseLimit], is a
//     [Request] that one member of staff opens and another one approves ([Open], [Answer]).
//
// In both groups, nobody approves their own request. An amount without an exchange rate counts as above every limit.
// A person who approves must have presented a second factor in the last ten minutes. The caller checks it for a
// session; this package checks it for an access token.
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
	// weekFactor times the limit is what a company can pay in a week without approval.
	weekFactor = 5
)

// Number of members, other than the creator, who must approve.
const (
	neededOfMember  = 1 // approvals of a payment that a member created
	neededOfProgram = 2 // approvals of a payment that a program created
)

// Subject is a payment that members approve.
type Subject struct {
	CompanyID, ID string
	Creator       string // ID of the member who created the payment; "" if a program did
}

// Progress is the state of a subject's approval.
type Progress struct {
	Needed int64    // number of members who must approve
	By     []string // sorted user IDs of members who approved and may still approve
}

// Complete reports whether enough members approved.
func (p Progress) Complete() bool { return int64(len(p.By)) >= p.Needed }

// Administrators returns the user IDs of a company's owners and administrators. It returns ErrApprover if by is not one
// of them, in a session or with an access token that permits approving. It returns identity.ErrNotProven for a
// token with which no second factor was presented lately.
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

// Approvers returns the user IDs of those who may approve payments of a company: the owners and administrators, without
// those whose role began after the limit was set and less than a week ago. So one person cannot invite the second one.
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

// CreatorOf returns the user ID of a member who acts on a page, "" for a program.
func CreatorOf(by identity.Principal) string {
	if by.Kind == identity.KindSession {
		return by.UserID
	}
	return ""
}

// Needed returns the number of members who must approve a payment of a creator, if it is above the limit.
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

// Allowed reports whether the company's rules let a subject be paid: its amount is within the company's limit, or the
// subject has its approvals. It locks the limit until the commit, so that concurrent payments count each other.
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

// Count adds a payment to what its company has paid without approval, at the time of the first call. An approved
// payment is not counted.
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

// Uncount removes a payment that was not made from what its company has paid.
func Uncount(ctx context.Context, tx *db.Tx, s Subject) error { return deleteUse(ctx, tx, s) }

// Reset deletes the approvals of a subject that was changed.
func Reset(ctx context.Context, tx *db.Tx, s Subject) error { return deleteApprovals(ctx, tx, s) }

// Give records the approval of a member, and reports whether it is their first of the subject. It returns ErrApprover
// or ErrCreator if the member may not approve it.
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

// AboveLimit reports whether an amount of a subject, together with what the company paid for others without approval,
// is above the company's limit.
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
			continue // a limit that is too large for an amount
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

// above reports whether amounts are together above a limit. A limit without an asset means no limit. Amounts in other
// assets are compared at the present rate; while there is no rate, they are above the limit.
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
			return true, nil // without a rate, or if the sum overflows, the amount is above the limit
		}
		if err != nil {
			return false, err
		}
	}
	return total.Cmp(limit) > 0, nil
}

// CoolDown is the time in which a new payment destination cannot be used. 0 means that it can be used at once.
type CoolDown time.Duration

// ReadyAt returns the time from which a destination can be used, given the time at which it was added or changed.
func (c CoolDown) ReadyAt(changed time.Time) time.Time {
	return changed.Add(max(time.Duration(c), 0))
}
