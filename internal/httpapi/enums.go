package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/oauth"
)

// Types of fields whose value is one of a fixed list. A short list is in the field's enum tag instead.
type (
	claimState      string
	payrollState    string
	paymentState    string
	timelineState   string // of a payroll or payment
	previousState   string // like timelineState, but empty at creation
	kycState        string
	kybState        string
	onboardingState string
	reviewResult    string // public state of a verification in the sandbox
	reviewState     string // of a company's or owner's verification in the sandbox
	deliveryFailure string
	incomeState     string
	withdrawalState string
	debitScheme     string
	debitState      string
	mandateState    string
	oauthErrorCode  string
	oauthGrantType  string
	unpayableReason string
)

func oneOf(values ...any) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: values} }

// Schema returns a schema that explains the reasons why a recipient cannot be paid.
func (unpayableReason) Schema(huma.Registry) *huma.Schema {
	s := oneOf("no_distribution", "currency_not_supported", "account_check", "account_check_failed",
		"correction_requested", "correction_disputed", "payment_stopped")
	s.Description = "no_distribution: the recipient has no destination. currency_not_supported: this service does not " +
		"pay to the destination. account_check: the account has not passed its check, and payments to it wait. " +
		"account_check_failed: the bank " +
		"returned a prenote. correction_requested: the bank asks to correct the account details. correction_disputed: the " +
		"payee says that the correction is wrong. payment_stopped: a payment failed, came back or waits for the recipient."
	return s
}

func (claimState) Schema(huma.Registry) *huma.Schema {
	return oneOf("awaiting_payment", "partially_paid", "confirming", "paid", "expired", "underpaid", "paid_late",
		"invalid",
		"refunded", "cancelled")
}

func (payrollState) Schema(huma.Registry) *huma.Schema {
	return oneOf("pending", "received", "released", "fulfilled", "partially_fulfilled", "cancelled", "on_hold",
		"expired_unfunded")
}

func (paymentState) Schema(huma.Registry) *huma.Schema {
	return oneOf("pending", "received", "released", "fulfilled", "action_required", "on_hold", "returned", "cancelled")
}

func (timelineState) Schema(huma.Registry) *huma.Schema {
	return oneOf("pending", "received", "released", "fulfilled", "partially_fulfilled", "cancelled", "on_hold",
		"expired_unfunded", "action_required", "returned")
}

func (previousState) Schema(r huma.Registry) *huma.Schema {
	s := timelineState("").Schema(r)
	s.Enum = append([]any{""}, s.Enum...)
	return s
}

func (kycState) Schema(huma.Registry) *huma.Schema {
	return oneOf("not_started", "pending", "in_review", "approved", "resubmission_required", "rejected", "expired")
}

func (kybState) Schema(huma.Registry) *huma.Schema {
	return oneOf("not_started", "pending", "in_review", "approved", "resubmission_required", "rejected", "suspended")
}

func (onboardingState) Schema(huma.Registry) *huma.Schema {
	return oneOf("", "draft", "documents_pending", "submitted", "in_review", "ubo_pending", "approved", "more_info",
		"rejected", "suspended")
}

func (reviewResult) Schema(huma.Registry) *huma.Schema {
	return oneOf("not_started", "pending", "in_review", "approved", "resubmission_required", "rejected", "expired",
		"suspended")
}

func (reviewState) Schema(huma.Registry) *huma.Schema {
	return oneOf("initiated", "submitted", "in_review", "ubo_pending", "approved", "more_info", "resubmission_required",
		"rejected", "expired", "suspended")
}

func (deliveryFailure) Schema(huma.Registry) *huma.Schema {
	return oneOf("", "timeout", "connection_failed", "name_not_resolved", "tls_failed", "blocked_address", "redirect",
		"http_status")
}

func (incomeState) Schema(huma.Registry) *huma.Schema {
	return oneOf("received", "released", "fulfilled", "action_required", "on_hold", "returned", "cancelled")
}

func (withdrawalState) Schema(huma.Registry) *huma.Schema {
	return oneOf("pending", "awaiting_approval", "on_hold", "processing", "completed", "returned", "failed", "declined",
		"cancelled")
}

func (debitScheme) Schema(huma.Registry) *huma.Schema {
	return oneOf("sepa_core", "sepa_b2b", "ach_ccd", "ach_web")
}

func (debitState) Schema(huma.Registry) *huma.Schema {
	return oneOf("scheduled", "submitting", "submitted", "collected", "available", "failed", "returned", "cancelled")
}

func (mandateState) Schema(huma.Registry) *huma.Schema {
	return oneOf("pending", "active", "suspended", "revoked", "ended")
}

func (oauthGrantType) Schema(huma.Registry) *huma.Schema {
	return oneOf("authorization_code", "refresh_token", oauth.DeviceGrant)
}

func (oauthErrorCode) Schema(huma.Registry) *huma.Schema {
	return oneOf("invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "invalid_target",
		"unsupported_grant_type", "unsupported_response_type", "authorization_pending", "slow_down",
		"invalid_dpop_proof", "access_denied", "expired_token", "rate_limited", "server_error")
}
