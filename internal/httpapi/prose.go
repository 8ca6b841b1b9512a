package httpapi

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/identity"
)

// introduction opens the contract: what holds for every operation.
const introduction = `Pay people and vendors, and take Bitcoin from customers, through one interface.

## Requests and answers

Bodies are JSON in UTF-8, sent and answered as ` + "`application/json`" + `. Every success is HTTP 200 with a JSON object. A body member that
an operation does not know is refused with 422, since a misspelt member would change what you meant; ` + "`null`" + ` counts as absent. Unknown
query parameters are ignored. Answers may gain members within version 2.0, so ignore those that you do not know.

## Authentication

Either scheme serves on every operation that needs a credential.

- **API key**, for a server that acts for its own company: ` + "`Authorization: Basic <ACCESS_TOKEN>`" + `, raw or in the form of HTTP Basic with the
  key as user name and no password.
- **OAuth 2.0**, authorization code flow with PKCE, for what a user has allowed: ` + "`Authorization: Bearer <ACCESS_TOKEN>`" + `.

A credential carries scopes, and each operation names the one it needs. Without it the answer is 403 ` + "`insufficient_scope`" + `. An object
that does not exist and one that belongs to somebody else get the same 404 ` + "`not_found`" + `.

## Safe repeats

Send an ` + "`Idempotency-Key`" + ` with every write: 1 to 255 visible ASCII characters, fresh for each thing you mean, kept when you repeat it. For
30 days a repeat answers the stored first answer and carries ` + "`Idempotent-Replayed: true`" + `. Another body under the same key is refused
with 422 ` + "`idempotency_key_reused`" + `. A failed attempt leaves the key free. Creating a payroll with an API key requires one.

## Money, numbers and time

Amounts are decimal numbers in whole units of their currency: ` + "`12.50`" + ` USD is twelve dollars and fifty cents, ` + "`0.00100000`" + ` BTC is
100,000 satoshi. Read and write them as decimals, not as binary floating point. GET /api/currencies lists the decimals of each currency.
Instants are RFC 3339 in UTC with the suffix Z; dates are YYYY-MM-DD. Ids are opaque text.

## Lists

Paged lists take ` + "`page`" + ` (from 1) and ` + "`per_page`" + ` (20 unless asked otherwise, at most 100) and answer ` + "`data`" + ` beside ` + "`meta`" + `. A page
past the end is empty.

## Errors

Every error has the form of **Problem** (RFC 9457, flat). ` + "`code`" + ` is for programs, ` + "`detail`" + ` for people, and ` + "`errors`" + ` lists all problems of
the request at once, each with a pointer to its place. ` + "`type`" + ` is an address of this service that explains the code. Codes that
each operation can answer stand beside its statuses.

## Limits

Each credential has a sustained rate for reads and one for writes; the ` + "`RateLimit-*`" + ` headers say where it stands. Above it the answer is 429
with ` + "`Retry-After`" + `. A 503 carries ` + "`Retry-After`" + ` too. A network that sends many
wrong credentials is answered 429 in place of 401; right ones pass from there as ever.

## Versions

Answers carry ` + "`Api-Version: 2.0`" + `. Inside 2.x there are only additions. Something that will go is announced by ` + "`Deprecation`" + ` and ` + "`Sunset`" + `
headers at least 180 days ahead.
`

// tags group operations, in the order in which a partner meets them. The first whose part occurs in a path has it.
var tags = []struct{ part, name, doc string }{
	{"/oauth2/", "Authorization", "OAuth 2.0: codes for tokens."},
	{"/.well-known/", "Authorization", "OAuth 2.0: codes for tokens."},
	{"/api/sandbox/", "Sandbox", "Plays the outside world: the payer, the chain, the clock, the bank. Exists in the sandbox only."},
	{"/api/user/payer/", "Payers", "Those outside of this service who pay a user."},
	{"/api/user/document", "Documents", "What a user's verification needs."},
	{"/api/user/distribution", "Distributions", "Payment destinations of a user, and the share that each gets."},
	{"/api/user/invoice", "Invoices", "What a user asks a payer or company for."},
	{"/api/user/funding", "Funding accounts", "Bank accounts in a user's name on which payers pay."},
	{"/api/user/", "Users", "People, their profiles and their verification."},
	{"/recipients", "Recipients", "Workers and vendors that a company pays, and their payment destinations."},
	{"/api/company/worker", "Workers", "People who work for a company and sign in themselves."},
	{"/payroll", "Payrolls", "Pay runs: created, funded by a quote or the balance, paid out to every destination."},
	{"/api/merchant/", "Merchant claims", "Checkouts in Bitcoin: a claim, its quote, its state."},
	{"/api/wallets", "Wallets", "A company's balances and what moved them."},
	{"/api/webhooks", "Webhooks", "Endpoints that events are delivered to."},
	{"/api/events", "Events", "What happened, to poll and to replay."},
	{"/api/compan", "Company", "The company, its owners and its verification."},
	{"/api/", "Reference", "Currencies and prices. Public."},
	{"/", "Operations", "For load balancers and tools."},
}

// tagOf is the group of a path.
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
	return &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most, Pattern: "^[!-~]+$", Examples: []any{"7b0e4c1e-6f6a-4a55-9d0b-0a4a6f1f2c3d"}}
}

// requestHeaders are those that operations share, by the name of their component.
var requestHeaders = map[string]*huma.Param{
	"Idempotency-Key": {
		Name: "Idempotency-Key", In: "header", Schema: keySchema(),
		Description: "Makes the request safe to repeat: 1 to 255 visible ASCII characters, fresh for each thing you mean. Recommended for every write.",
	},
	"Required-Idempotency-Key": {
		Name: "Idempotency-Key", In: "header", Schema: keySchema(),
		Description: "Makes the request safe to repeat: 1 to 255 visible ASCII characters, fresh for each thing you mean. **Required with an API key.**",
	},
	"X-Request-Id": {
		Name: "X-Request-Id", In: "header", Schema: text("checkout-81f3"),
		Description: "An id of your own for the request; answered and logged in place of a generated one.",
	},
	"Api-Version": {
		Name: "Api-Version", In: "header", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{Version}},
		Description: "The version that you speak. Left out, it is 2.0.",
	},
}

// answerHeaders are those that answers share.
var answerHeaders = map[string]*huma.Header{
	"X-Request-Id":        {Schema: text("req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d"), Description: "Id of the request, the same as in an error body and in the service's log."},
	"Api-Version":         {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{Version}}, Description: "The version of the interface."},
	"Idempotent-Replayed": {Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}}, Description: "The answer is the stored one of an earlier request with the same Idempotency-Key."},
	"Content-Disposition": {Schema: text(`attachment; filename="recipients.csv"`), Description: "The name of the file."},
	"RateLimit-Policy":    {Schema: text("1000;w=10"), Description: "Requests at once, and the seconds over which they are counted."},
	"RateLimit-Limit":     {Schema: whole(1000), Description: "Requests that the credential may send at once."},
	"RateLimit-Remaining": {Schema: whole(999), Description: "Requests that are left of it now."},
	"RateLimit-Reset":     {Schema: whole(1), Description: "Seconds until the whole limit is there again."},
	"Retry-After":         {Schema: whole(2), Description: "Seconds to wait before the request is repeated."},
	"WWW-Authenticate":    {Schema: text(`Bearer realm="api", error="invalid_token"`), Description: "The schemes that the service takes, and the missing scope; once for each scheme."},
}

// headers are those of an operation's answer.
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

// hints are members of an error that help the caller go on.
var hints = map[string]string{
	"scope":        "With `insufficient_scope`: the scope that is missing.",
	"payroll_id":   "With `external_id_conflict`: the payroll that has the external id.",
	"recipient_id": "With `external_id_conflict`: the recipient that has the external id.",
	"currency":     "With `rate_unavailable`: the currency that has no price.",
}

// describeHints adds the hints to the form of an error. Others may join them, as text.
func describeHints(problem *huma.Schema) {
	for name, doc := range hints {
		problem.Properties[name] = &huma.Schema{Type: huma.TypeString, Description: doc}
	}
	problem.AdditionalProperties = &huma.Schema{Type: huma.TypeString, Description: "A further hint, such as the id of the object that stands in the way."}
	problem.Description = "Why a request was refused: the members of RFC 9457, flat, and those of this interface."
}

// scopeWords say what a scope permits.
var scopeWords = map[identity.Scope]string{
	identity.CompanyDetail: "company detail, wallets, webhooks and events (read)", identity.CompanyWorkerList: "company worker and recipient list",
	identity.CompanyWorkerInvitationsList: "company worker invitation list", identity.CompanyWorkersInvite: "invite company workers, manage recipients and their destinations",
	identity.CompanyWorkersPay: "pay company workers (payrolls, quotes, merchant claims)", identity.UserCreate: "create users", identity.UserUpdate: "update users",
	identity.UserUpdateDoc: "update and upload user documents", identity.UserPayerCreate: "create payers", identity.UserPayerUpdate: "update and delete payers",
	identity.UserInvoiceCreate: "create user invoices", identity.UserInvoiceDelete: "delete user invoices", identity.UserDetail: "user detail",
	identity.UserDocumentList: "list user documents", identity.UserPayerDetail: "payer detail", identity.UserPayerList: "list payers",
	identity.UserBankDetails: "user bank details", identity.UserInvoiceDetail: "user invoice detail", identity.UserInvoiceList: "list user invoices",
	identity.UserDistributionDetail: "distribution detail", identity.UserDistributionList: "list distributions",
	identity.UserDistributionCreate: "create distributions", identity.UserDistributionUpdate: "update distributions", identity.UserKYCInitiate: "initiate KYC",
}

func securitySchemes() map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"api_key": {
			Type: "http", Scheme: "basic",
			Description: "An API key: raw after Basic, or in the form of HTTP Basic with the key as user name and no password.",
		},
		"oauth": {
			Type: "oauth2", Description: "An OAuth 2.0 access token, sent as Bearer.",
			Flows: &huma.OAuthFlows{AuthorizationCode: &huma.OAuthFlow{AuthorizationURL: "/authorize", TokenURL: "/oauth2/token", Scopes: scopeWords}}, //nolint:gosec // an address, no secret
		},
	}
}
