package ui

import (
	"maps"
	"slices"
)

// look is the tone and the icon of a badge.
type look struct{ tone, icon string }

var (
	idle     = look{"gray", "circle-dashed"}
	ended    = look{"gray", "ban"}
	expired  = look{"gray", "clock"}
	waits    = look{"amber", "hourglass"}
	warns    = look{"amber", "triangle-alert"}
	held     = look{"amber", "circle-pause"}
	late     = look{"amber", "clock"}
	funded   = look{"blue", "circle-check"}
	sending  = look{"blue", "send"}
	loading  = look{"blue", "loader"}
	reviewed = look{"blue", "eye"}
	decides  = look{"violet", "shield-check"}
	done     = look{"green", "check"}
	urgent   = look{"red", "circle-alert"}
	failed   = look{"red", "circle-x"}
	returned = look{"red", "undo-2"}
)

// looks maps the prefix of the texts of a kind of state, and the state, to the look of its badge. Gray is idle or over,
// amber waits for someone else, blue advances by itself, violet waits for a decision here, green is done, and red
// needs a person.
var looks = map[string]map[string]look{
	"payroll.state": {"pending": waits, "received": funded, "released": sending, "fulfilled": done,
		"partially_fulfilled": warns, "on_hold": held, "action_required": urgent, "returned": returned,
		"cancelled": ended, "expired_unfunded": expired, "approval_required": decides},
	"payment.state": {"pending": idle, "received": funded, "released": sending, "fulfilled": done,
		"action_required": urgent, "returned": returned, "on_hold": held, "cancelled": ended},
	"payroll.funding": {"none": idle, "detected": warns, "partial": warns, "confirming": loading, "funded": done,
		"late": late, "over": {"green", "plus"}},
	"proposal.state": {"open": decides, "confirmed": done, "declined": ended, "cancelled": ended, "expired": expired},
	"schedule.state": {"active": done, "paused": held, "ended": ended},
	"run.state":      {"planned": idle, "skipped": ended, "waiting": held, "created": done},
	"output.state": {"queued": idle, "prepared": {"blue", "pencil"}, "sent": sending, "in_doubt": {"amber", "search"},
		"fulfilled": done, "failed": failed, "returned": returned, "cancelled": ended},
	"claim.state": {"awaiting_payment": waits, "partially_paid": warns, "confirming": loading, "paid": done,
		"expired": expired, "underpaid": urgent, "invalid": failed, "paid_late": late, "refunded": {"violet", "undo-2"},
		"cancelled": ended},
	"link.state": {"open": done, "ended": expired, "inactive": ended},
	"refund.state": {"awaiting_approval": decides, "offered": waits, "accepted": sending, "paid": done,
		"withdrawn": ended},
	"checkout.state": {"awaiting_payment": waits, "partially_paid": warns, "confirming": loading, "paid": done,
		"expired": expired, "underpaid": urgent, "invalid": failed, "paid_late": late, "refunded": {"violet", "undo-2"},
		"refunding": {"violet", "undo-2"}, "ended": expired, "checking": loading, "cancelled": ended},
	"deposit.state": {"seen": {"blue", "eye"}, "confirmed": done, "replaced": ended, "evicted": ended,
		"reverted": returned},
	"recipient.status": {"active": done, "pending": warns, "inactive": ended},
	"invitation.state": {"sent": {"amber", "mail"}, "accepted": done, "declined": ended, "expired": expired,
		"revoked": ended},
	"invoice.state": {"draft": {"gray", "pencil"}, "sent": waits, "overdue": urgent, "in_payroll": {"blue", "list-checks"},
		"partially_paid": warns, "paid": done, "void": ended},
	"withdrawal.state": {"pending": idle, "awaiting_approval": decides, "on_hold": held, "processing": sending,
		"completed": done, "failed": failed, "returned": returned, "declined": ended, "cancelled": ended},
	"debit.state": {"scheduled": waits, "submitting": sending, "submitted": sending, "collected": held, "available": done,
		"failed": failed, "returned": returned, "cancelled": ended},
	"reversals.state": {"approved": waits, "ordered": sending, "collected": done, "returned": failed, "refused": failed,
		"expired": expired},
	"mandate.state": {"pending": reviewed, "active": done, "suspended": {"red", "circle-pause"}, "revoked": ended,
		"ended": ended},
	"operations.asset":  {"offered": done, "stop_new": held, "stop_all": {"red", "ban"}},
	"operations.status": {"active": done, "frozen": {"red", "circle-pause"}, "closed": ended},
	"operations.verified": {"not_started": idle, "pending": waits, "in_review": reviewed, "ubo_pending": waits,
		"approved": done, "resubmission_required": warns, "rejected": failed, "expired": expired},
	"wallet.state": {"requested": waits, "terms_pending": waits, "pending": loading, "in_progress": loading,
		"active": done, "completed": done, "suspended": {"red", "circle-pause"}, "closed": ended, "rejected": ended},
	"delivery.status": {"pending": idle, "succeeded": done, "retrying": {"amber", "refresh-cw"}, "failed": failed,
		"blocked": {"red", "ban"}, "cancelled": ended},
	"webhook.status": {"enabled": done, "throttled": late, "disabled_auto": failed, "disabled_manual": ended},
	"kyb.state": {"not_started": idle, "draft": {"gray", "pencil"}, "documents_pending": warns, "initiated": sending,
		"submitted": sending, "in_review": reviewed, "ubo_pending": waits, "more_info": warns,
		"resubmission_required": warns, "approved": done, "rejected": failed, "expired": expired,
		"suspended": {"red", "circle-pause"}},
	"tax.status": {"missing": warns, "valid": done, "expired": expired},
	"kyc.state": {"not_started": idle, "pending": reviewed, "in_review": reviewed, "approved": done,
		"resubmission_required": warns, "rejected": failed, "expired": expired},
}

// StateCell returns a state as a badge. Its text has the key prefix.value; states without a look are gray.
func (c *Request) StateCell(prefix, value string) Cell {
	seen, ok := looks[prefix][value]
	if !ok {
		seen = idle
	}
	return Cell{Text: c.Word(prefix, value), Tone: seen.tone, Icon: seen.icon}
}

// WithText returns a copy of the cell with its text replaced.
func (c Cell) WithText(text string) Cell {
	c.Text = text
	return c
}

// StateGroup is the badges of all states of one kind.
type StateGroup struct {
	Name   string
	States []Cell
}

// States returns the badges of every state that has a look, for the page of components.
func (c *Request) States() (all []StateGroup) {
	for _, prefix := range slices.Sorted(maps.Keys(looks)) {
		g := StateGroup{Name: prefix}
		for _, state := range slices.Sorted(maps.Keys(looks[prefix])) {
			g.States = append(g.States, c.StateCell(prefix, state))
		}
		all = append(all, g)
	}
	return all
}
