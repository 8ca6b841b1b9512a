package httpapi

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/identity"
)

// introduction is the description of the contract: rules for every operation.
const introduction = `Pay people and vendors, and accept Bitcoin from customers, through one API.

## Requests and responses

Request and response bodies are JSON in UTF-8, sent as ` + "`application/json`" + `. Every success is HTTP 200 with a JSON object. A request body
with an unknown field is rejected with 422, because a misspelled field would change the meaning of the request. ` + "`null`" + ` means absent.
Unknown query parameters are ignored. Responses may gain fields within version 2.0, so ignore fields that you do not know.

## Authentication

Every operation that requires a credential accepts both schemes, unless its description says otherwise.

- **API key**, for a server that acts for its own company: ` + "`Authorization: Basic <ACCESS_TOKEN>`" + `, either raw or as HTTP Basic with the
  key as user name and an empty password.
- **OAuth 2.0**, authorization code flow with PKCE, to act for a user: ` + "`Authorization: Bearer <ACCESS_TOKEN>`" + `.

A credential has scopes, and each operation names the scope that it requires. Without it the response is 403 ` + "`insufficient_scope`" + `. An
object that does not exist and one that belongs to someone else get the same 404 ` + "`not_found`" + `.

## Idempotency

Send an ` + "`Idempotency-Key`" + ` with every write: 1 to 255 visible ASCII characters, new for each intended operation and reused when you repeat
the request. For 30 days a repeated request gets the stored first response with ` + "`Idempotent-Replayed: true`" + `. Another body with the same key
is rejected with 422 ` + "`idempotency_key_reused`" + `. A failed request leaves the key unused. Creating a payroll with an API key requires one.

## Amounts, numbers and time

Amounts are decimal numbers in whole units of their currency: ` + "`12.50`" + ` USD is twelve dollars and fifty cents, ` + "`0.00100000`" + ` BTC is
100,000 satoshis. Parse and serialize them as decimals, not as binary floating point. GET /api/currencies lists the decimals of each
currency. Times are RFC 3339 in UTC with the suffix Z; dates are YYYY-MM-DD. IDs are opaque strings.

## Lists

Paged lists accept ` + "`page`" + ` (from 1) and ` + "`per_page`" + ` (default 20, at most 100) and return ` + "`data`" + ` and ` + "`meta`" + `. A page past the end is
empty.

## Errors

Every error has the form of **Problem** (RFC 9457, without nesting). ` + "`code`" + ` is for programs, ` + "`detail`" + ` for people, and ` + "`errors`" + ` lists all
problems of the request, each with a pointer to its place. ` + "`type`" + ` is an address of this service that explains the code. Each operation
lists its codes under their statuses.

## Rate limits

Each credential has a sustained rate of reads and one of writes, reported in the ` + "`RateLimit-*`" + ` headers. Above it the response is 429 with
` + "`Retry-After`" + `. A 503 response has ` + "`Retry-After`" + ` too. A network that sends many wrong credentials gets 429 instead of 401; valid
credentials from it are not affected.

## Versions

Responses have the header ` + "`Api-Version: 2.0`" + `. Within 2.x there are only additions. The headers ` + "`Deprecation`" + ` and ` + "`Sunset`" + ` announce a
removal at least 180 days in advance.
`

// tags group the operations. An operation has the first tag whose part occurs in its path.
var tags = []struct{ part, name, doc string }{
	{"/oauth2/", "Authorization", "OAuth 2.0 token endpoint and metadata."},
	{"/.well-known/", "Authorization", "OAuth 2.0 token endpoint and metadata."},
	{"/api/sandbox/", "Sandbox", "Simulates payers, the chain, the clock and the bank. Available in the sandbox only."},
	{"/api/user/payer/", "Payers", "External payers of a user."},
	{"/api/user/document", "Documents", "Documents for the verification of a user."},
	{"/api/user/distribution", "Distributions", "Payment destinations of a user and their allocations."},
	{"/api/user/invoice", "Invoices", "Invoices of a user to a payer or company."},
	{"/api/user/funding", "Funding accounts", "Virtual bank accounts of a user, to which payers pay."},
	{"/api/user/", "Users", "People, their profiles and their verification."},
	{"/recipients", "Recipients", "Workers and vendors that a company pays, and their payment destinations."},
	{"/api/company/worker", "Workers", "People who work for a company and sign in themselves."},
	{"/payroll", "Payrolls", "Payrolls: created, funded by a quote, a bank transfer or the balance, and paid out to " +
		"every destination."},
	{"/api/merchant/", "Merchant claims", "Bitcoin checkouts: claims, quotes and refunds."},
	{"/api/wallets", "Wallets", "Balances of a company and their transactions."},
	{"/api/webhooks", "Webhooks", "Webhook endpoints and their deliveries."},
	{"/api/events", "Events", "Events, to poll and to replay."},
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

// examplePayroll is the example body of creating and of previewing a payroll.
const examplePayroll = `{"currency":"USD","external_id":"run-2026-09","to_pay":[` +
	`{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","amount_fiat":1250.50,"description":"September"}]}`

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

// responseHeaders are the shared response headers.
var responseHeaders = map[string]*huma.Header{
	"X-Request-Id": {Schema: text("req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d"),
		Description: "ID of the request, as in an error body and in the service's log."},
	"Api-Version": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{Version}},
		Description: "The API version."},
	"Idempotent-Replayed": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
		Description: "The response is the stored one of an earlier request with the same Idempotency-Key."},
	"Content-Disposition": {Schema: text(`attachment; filename="recipients.csv"`), Description: "The name of the file."},
	"RateLimit-Policy":    {Schema: text("1000;w=10"), Description: "Burst size and the seconds in which it refills."},
	"RateLimit-Limit":     {Schema: whole(1000), Description: "Burst size of the credential."},
	"RateLimit-Remaining": {Schema: whole(999), Description: "Requests remaining of the burst."},
	"RateLimit-Reset":     {Schema: whole(1), Description: "Seconds until the burst is fully available."},
	"Retry-After":         {Schema: whole(2), Description: "Seconds to wait before repeating the request."},
	"WWW-Authenticate": {Schema: text(`Bearer realm="api", error="invalid_token"`),
		Description: "The supported schemes, one per header, with the missing scope if any."},
}

// headers returns the response headers of an operation and status.
func headers(rt route, status int) map[string]*huma.Header {
	names := []string{"X-Request-Id", "Api-Version"}
	if rt.scope != public && status != 400 && status != 401 && status != 421 {
		names = append(names, "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	}
	switch status {
	case 200:
		if rt.kind == write {
			names = append(names, "Idempotent-Replayed")
		}
		if rt.handler.sendsFile() {
			names = append(names, "Content-Disposition")
		}
	case 401, 403:
		names = append(names, "WWW-Authenticate")
	case 409, 429, 503:
		names = append(names, "Retry-After")
	}
	all := map[string]*huma.Header{}
	for _, name := range names {
		all[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return all
}

// hints are additional members of an error that help the caller.
var hints = map[string]string{
	"scope":        "With `insufficient_scope`: the missing scope.",
	"payroll_id":   "With `external_id_conflict`: ID of the payroll with the external ID.",
	"recipient_id": "With `external_id_conflict`: ID of the recipient with the external ID.",
	"currency":     "With `rate_unavailable`: the currency without a rate.",
}

// describeHints adds the hints to the schema of an error.
func describeHints(problem *huma.Schema) {
	for name, doc := range hints {
		problem.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: doc}
	}
	problem.AdditionalProperties = &huma.Schema{
		Type: huma.TypeString, Description: "A further hint, such as the ID of a conflicting object.",
	}
	problem.Description = "An error: the members of RFC 9457, without nesting, and additional ones."
}

// scopeTexts describe the scopes.
var scopeTexts = map[identity.Scope]string{
	identity.CompanyDetail:                "company detail, wallets, webhooks and events (read)",
	identity.CompanyWorkerList:            "company worker and recipient list",
	identity.CompanyWorkerInvitationsList: "company worker invitation list",
	identity.CompanyWorkersInvite:         "invite company workers, manage recipients and their destinations",
	identity.CompanyWorkersPay:            "pay company workers (payrolls, quotes, merchant claims)",
	identity.UserCreate:                   "create users", identity.UserUpdate: "update users",
	identity.UserUpdateDoc: "update and upload user documents", identity.UserPayerCreate: "create payers",
	identity.UserPayerUpdate:   "update and delete payers",
	identity.UserInvoiceCreate: "create user invoices", identity.UserInvoiceDelete: "delete user invoices",
	identity.UserDetail:       "user detail",
	identity.UserDocumentList: "list user documents", identity.UserPayerDetail: "payer detail",
	identity.UserPayerList:   "list payers",
	identity.UserBankDetails: "user bank details", identity.UserInvoiceDetail: "user invoice detail",
	identity.UserInvoiceList:        "list user invoices",
	identity.UserDistributionDetail: "distribution detail", identity.UserDistributionList: "list distributions",
	identity.UserDistributionCreate: "create distributions", identity.UserDistributionUpdate: "update distributions",
	identity.UserKYCInitiate: "initiate KYC",
}

func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"api_key": {
			Type: "http", Scheme: "basic",
			Description: "An API key: raw after Basic, or as HTTP Basic with the key as user name and an empty password.",
		},
		"oauth": {
			Type: "oauth2", Description: "An OAuth 2.0 access token, sent as Bearer.",
			Flows: &huma.OAuthFlows{AuthorizationCode: &huma.OAuthFlow{AuthorizationURL: "/authorize", TokenURL: "/oauth2/token", Scopes: scopeTexts}}, //nolint:gosec // an address, no secret
		},
	}
}
