package httpapi

import (
	_ "embed" // for the introduction
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/identity"
)

// introduction is the description in the contract: the rules that apply to every operation.
//
//go:embed docs/introduction.md
var introduction string

// tags group the operations in the documentation. An operation gets the first tag whose part occurs in its path.
var tags = []struct{ part, name, doc string }{
	{"/oauth2/", "Authorization", "OAuth 2.0 token endpoint and metadata."},
	{"/.well-known/", "Authorization", "OAuth 2.0 token endpoint and metadata."},
	{"/api/sandbox/", "Sandbox", "Simulates payers, the chain, the clock and the bank. Available in the sandbox only."},
	{"/api/user/payer/", "Payers", "External payers of a user."},
	{"/api/user/document", "Documents", "Documents for the verification of a user."},
	{"/api/user/distribution", "Destinations", "Payment destinations of a user and their allocations."},
	{"/api/user/invoice", "Invoices", "Invoices of a user to a payer or company."},
	{"/api/user/income", "Income", "Money that a user received, on its way to the user's destinations."},
	{"/api/user/funding", "Funding accounts", "Virtual bank accounts of a user, to which payers pay."},
	{"/api/user/", "Users", "People, their profiles and their verification."},
	{"/recipients", "Recipients", "Workers and vendors that a company pays, and their payment destinations."},
	{"/api/company/worker", "Workers", "People who work for a company and sign in themselves."},
	{"/proposals", "Proposals", "Payrolls and claims that an app proposes and a member of the company creates."},
	{"/payroll", "Payrolls", "Payrolls: created, funded by a quote, a bank transfer or the balance, and paid out to " +
		"every destination."},
	{"/api/x402/", "Merchant claims", "Bitcoin checkouts: claims, quotes and refunds."},
	{"/api/merchant/", "Merchant claims", "Bitcoin checkouts: claims, quotes and refunds."},
	{"/api/wallets", "Wallets", "Balances of a company and their transactions."},
	{"/api/webhooks", "Webhooks", "Webhook endpoints and their deliveries."},
	{"/api/events", "Events", "Events, to poll and to replay."},
	{"/api/platform/", "Platforms", "Companies that an app creates for its own customers, and acts for."},
	{"/api/credential", "Credential", "The credential of the request."},
	{"/api/compan", "Company", "The company, its owners and its verification."},
	{"/api/", "Reference", "Currencies and exchange rates. Public."},
	{"/", "Operations", "Health checks and this document."},
}

// tagOf returns the tag of a path.
func tagOf(path string) string {
	for _, t := range tags {
		if strings.Contains(path, t.part) {
			return t.name
		}
	}
	return "Operations"
}

// examplePayroll is the example body for creating or previewing a payroll.
const examplePayroll = `{"currency":"USD","external_id":"run-2026-09","to_pay":[` +
	`{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","amount_fiat":1250.50,"description":"September"}]}`

// exampleSchedule is the example body for creating a schedule.
const exampleSchedule = `{"name":"Salaries","frequency":"monthly","start_date":"2026-10-01","days":[31],` +
	`"time_zone":"Europe/Berlin","days_ahead":3,"to_pay":[` +
	`{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","amount_fiat":1250.50}]}`

func text(s string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Examples: []any{s}} }

func whole(n int) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Examples: []any{n}} }

func keySchema() *huma.Schema {
	least, most := 1, 255
	return &huma.Schema{
		Type: huma.TypeString, MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$",
		Examples: []any{"7b0e4c1e-6f6a-4a55-9d0b-0a4a6f1f2c3d"},
	}
}

// requestHeaders are the shared request headers by component name.
var requestHeaders = map[string]*huma.Param{
	"Idempotency-Key": {
		Name: "Idempotency-Key", In: "header", Schema: keySchema(),
		Description: "Makes the request safe to repeat: 1 to 255 visible ASCII characters, new for each intended " +
			"operation. Recommended for every write.",
	},
	"Required-Idempotency-Key": {
		Name: "Idempotency-Key", In: "header", Schema: keySchema(),
		Description: "Makes the request safe to repeat: 1 to 255 visible ASCII characters, new for each intended " +
			"operation. **Required with an API key.**",
	},
	"X-Request-Id": {
		Name: "X-Request-Id", In: "header", Schema: text("checkout-81f3"),
		Description: "Your own ID of the request, returned and logged instead of a generated one.",
	},
	"Api-Version": {
		Name: "Api-Version", In: "header", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{Version}},
		Description: "The API version. Default: 2.0.",
	},
}

// responseHeaders are the shared response headers by component name.
var responseHeaders = map[string]*huma.Header{
	"X-Request-Id": {Schema: text("req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d"),
		Description: "ID of the request, as in an error body and in the service's log."},
	"Api-Version": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{Version}},
		Description: "The API version."},
	"Idempotent-Replayed": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
		Description: "The response is the stored one of an earlier request with the same Idempotency-Key."},
	"Content-Disposition": {Schema: text(`attachment; filename="recipients.csv"`), Description: "The name of the file."},
	"RateLimit-Policy": {Schema: text(`"credential";q=1000;w=10`),
		Description: "Burst size q and the seconds w in which it refills."},
	"RateLimit": {Schema: text(`"credential";r=999;t=1`),
		Description: "Requests r that remain of the burst, and the seconds t until it is fully available."},
	"RateLimit-Limit":     {Schema: whole(1000), Description: "Burst size of the credential."},
	"RateLimit-Remaining": {Schema: whole(999), Description: "Requests remaining of the burst."},
	"RateLimit-Reset":     {Schema: whole(1), Description: "Seconds until the burst is fully available."},
	"Retry-After":         {Schema: whole(2), Description: "Seconds to wait before repeating the request."},
	"PAYMENT-REQUIRED": {Schema: text("eyJ4NDAyVmVyc2lvbiI6Mn0="),
		Description: "The body in base64 (x402)."},
	"PAYMENT-RESPONSE": {Schema: text("eyJzdWNjZXNzIjp0cnVlfQ=="),
		Description: "The outcome of the payment that the request made, as JSON in base64 (x402). Absent if it made none."},
	"WWW-Authenticate": {Schema: text(`Bearer realm="api", error="invalid_token"`),
		Description: "The supported schemes, one per header, with the missing scope if any."},
}

// headers returns the response headers of an operation for a status.
func headers(rt route, status int) map[string]*huma.Header {
	names := []string{"X-Request-Id", "Api-Version"}
	if rt.scope != public && status != 400 && status != 401 && status != 421 {
		names = append(names, "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	}
	switch status {
	case 200:
		if rt.kind == write {
			names = append(names, "Idempotent-Replayed")
		}
		if rt.handler.sendsFile() {
			names = append(names, "Content-Disposition")
		}
	case 202, 402:
		names = append(names, map[int]string{202: "Retry-After", 402: "PAYMENT-REQUIRED"}[status])
	case 401, 403:
		names = append(names, "WWW-Authenticate")
	case 409, 429, 503:
		names = append(names, "Retry-After")
	}
	if rt.handler.paysBy402() && (status == 200 || status == 402) {
		names = append(names, "PAYMENT-RESPONSE")
	}
	all := map[string]*huma.Header{}
	for _, name := range names {
		all[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	if rt.deprecated != nil {
		all["Deprecation"] = &huma.Header{Schema: text(rt.deprecated.since()), Description: "Since when (RFC 9745)."}
		all["Sunset"] = &huma.Header{Schema: text(rt.deprecated.until()), Description: "Until when (RFC 8594)."}
	}
	return all
}

// hints describes the additional members of an error response that help the caller.
var hints = map[string]string{
	"scope":        "With `insufficient_scope`: the missing scope.",
	"claim_id":     "With `external_id_conflict`: ID of the claim with the external ID.",
	"company_id":   "With `external_id_conflict`: ID of the company with the external ID.",
	"payroll_id":   "With `external_id_conflict`: ID of the payroll with the external ID.",
	"recipient_id": "With `external_id_conflict`: ID of the recipient with the external ID.",
	"currency":     "With `rate_unavailable`: the currency without a rate.",
}

// describeHints adds the hints to the schema of error responses.
func describeHints(problem *huma.Schema) {
	for name, doc := range hints {
		problem.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: doc}
	}
	problem.AdditionalProperties = &huma.Schema{
		Type: huma.TypeString, Description: "A further hint, such as the ID of a conflicting object.",
	}
	problem.Description = "An error: the members of RFC 9457, without nesting, and additional ones."
}

// scopeTexts describes the scopes.
var scopeTexts = map[identity.Scope]string{
	identity.CompanyDetail:                "Read the company, its wallets, webhooks and events.",
	identity.CompanyWorkerList:            "List workers and recipients.",
	identity.CompanyWorkerInvitationsList: "List invitations.",
	identity.CompanyWorkersInvite:         "Invite workers, and manage recipients and their destinations.",
	identity.CompanyWorkersPay:            "Pay workers and vendors, and manage payrolls and claims.",
	identity.CompanyPropose:               "Read payrolls and claims, and propose new ones, which a member creates.",
	identity.CompanyApprove:               "Approve or decline payments as a member, with a second factor.",
	identity.CompanyMembers:               "Manage members as a member, with a second factor.",
	identity.UserCreate:                   "Create users.",
	identity.UserUpdate:                   "Update users.",
	identity.UserUpdateDoc:                "Upload documents of users.",
	identity.UserPayerCreate:              "Create payers.",
	identity.UserPayerUpdate:              "Update and delete payers.",
	identity.UserInvoiceCreate:            "Create and send invoices.",
	identity.UserInvoiceDelete:            "Void invoices.",
	identity.UserDetail:                   "Read users.",
	identity.UserDocumentList:             "List documents of users.",
	identity.UserPayerDetail:              "Read payers.",
	identity.UserPayerList:                "List payers.",
	identity.UserBankDetails:              "Manage funding accounts and read their account numbers.",
	identity.UserInvoiceDetail:            "Read invoices.",
	identity.UserInvoiceList:              "List invoices.",
	identity.UserDistributionDetail:       "Read destinations of users.",
	identity.UserDistributionList:         "List destinations of users.",
	identity.UserDistributionCreate:       "Create destinations of users.",
	identity.UserDistributionUpdate:       "Change and delete destinations of users.",
	identity.UserKYCInitiate:              "Start the verification of users.",
}

func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"api_key": {
			Type: "http", Scheme: "basic",
			Description: "An API key: raw after Basic, or as HTTP Basic with the key as user name and an empty password.",
		},
		"oauth": {
			Type: "oauth2", Description: "An OAuth 2.0 access token, sent as Bearer.",
			Flows: &huma.OAuthFlows{AuthorizationCode: &huma.OAuthFlow{ //nolint:gosec // no secret
				AuthorizationURL: "/authorize", TokenURL: "/oauth2/token", Scopes: scopeTexts,
			}},
		},
	}
}
