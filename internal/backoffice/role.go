package backoffice

import (
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
)

// Role is the role of a member of staff. It decides which pages they see and which actions they take.
type Role string

// The roles of staff.
const (
	Support    Role = "support"    // helps companies and people: directory, payment search, sessions, failed jobs
	Finance    Role = "finance"    // decides about money: releases, transfers, deposits, debts, fees, assets
	Compliance Role = "compliance" // decides about people: sanctions matches, freezes, cases
	Admin      Role = "admin"      // everything that the other roles may do
)

// Roles lists all roles.
var Roles = []Role{Support, Finance, Compliance, Admin}

// Errors of roles.
var (
	ErrRole = apierr.New(apierr.Forbidden, "staff_role_required",
		"Your staff role does not permit this. Ask a member of staff whose role does.")
	errUnknownRole = apierr.New(apierr.Invalid, "invalid_parameter",
		"The role must be support, finance, compliance or admin.")
)

// SignIn is the action of signing in.
const SignIn = "sign_in"

// Pause is the action of pausing all payouts.
const Pause = "payouts.pause"

// permissions are the roles that may take each action, besides Admin. An action that is not listed is refused.
// Requesting an action, approving it and dropping it require the same role.
var permissions = map[string][]Role{
	SignIn:           {Support, Finance, Compliance},
	Pause:            {Finance, Compliance},
	Resume:           {Finance},
	Release:          {Finance},
	Credit:           {Finance},
	SendBack:         {Finance},
	CreditDeposit:    {Finance},
	ReturnDeposit:    {Finance},
	LightningOutcome: {Finance},
	Reverse:          {Finance},
	WriteOff:         {Finance},
	ConfirmMandate:   {Finance},
	RefuseMandate:    {Finance},
	DebitLimit:       {Finance},
	Freeze:           {Compliance},
	Unfreeze:         {Compliance},
	ClearHit:         {Compliance},
	confirmHit:       {Compliance},
	RetryJob:         {Support, Finance},
	ChangeFees:       {Finance},
	ExportCase:       {Compliance},
	ExportRecord:     {Compliance},
	AddNote:          {Support, Finance, Compliance},
	SignOut:          {Support, Compliance},
	Unlock:           {Support},
	RemoveFactor:     {Support},
	CloseAccount:     {Support, Compliance},
	CloseCompany:     {Compliance},
	PlaceHold:        {Compliance},
	ReleaseHold:      {Compliance},
	SwitchAsset:      {Finance},
}

// readers are the roles that may read each queue, besides Admin.
var readers = map[string][]Role{
	InDoubt:  {Finance},
	Releases: {Finance, Compliance},
	Hits:     {Compliance},
	Returned: {Support, Finance},
	Suspense: {Support, Finance},
	Late:     {Support, Finance},
	Debts:    {Finance},
	OnHold:   {Support, Finance, Compliance},
}

// May reports whether a member of staff may take an action, and request, approve and drop it.
func (o StaffMember) May(action string) bool {
	base := action
	for _, suffix := range []string{".ask", ".agree", ".drop"} {
		base = strings.TrimSuffix(base, suffix)
	}
	return o.is(permissions[base])
}

// MayRead reports whether a member of staff may read a queue.
func (o StaffMember) MayRead(queue string) bool { return o.is(readers[queue]) }

// Has reports whether a member of staff has one of some roles, or is an administrator.
func (o StaffMember) Has(roles ...Role) bool { return o.is(roles) }

// is reports whether the member has one of some roles. Administrators have all; with no role listed, nobody has one.
func (o StaffMember) is(roles []Role) bool {
	return len(roles) > 0 && (o.Role == Admin || slices.Contains(roles, o.Role))
}
