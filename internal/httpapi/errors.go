package httpapi

import (
	"context"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
)

// What this face itself refuses.
var (
	errMalformed      = apierr.New(apierr.BadRequest, "malformed_json", "The body is not valid JSON.")
	errKeyRequired    = apierr.New(apierr.BadRequest, "idempotency_key_required", "Send an Idempotency-Key header with this request.")
	errKeyInvalid     = apierr.New(apierr.BadRequest, "idempotency_key_invalid", "An Idempotency-Key is 1 to 255 visible ASCII characters.")
	errDuplicate      = apierr.New(apierr.BadRequest, "duplicate_header", "A header is given more than once.")
	errVersion        = apierr.New(apierr.BadRequest, "unsupported_version", "This service speaks version 2.0 of the interface.")
	errToken          = apierr.New(apierr.Unauthorized, "invalid_token", "Send a valid credential in the Authorization header.")
	errCallback       = apierr.New(apierr.Unauthorized, "invalid_token", "The callback's signature is missing or wrong, or it is too old.")
	errKeyOnly        = apierr.New(apierr.Forbidden, "insufficient_scope", "Only the company's own API key may do this, no user's token.")
	errScope          = apierr.New(apierr.Forbidden, "insufficient_scope", "The credential lacks the scope that this needs.")
	errMethod         = apierr.New(0, "method_not_allowed", "This address does not take that method.")
	errMisdirected    = apierr.New(0, "misdirected", "This service does not answer for that host.")
	errTooLarge       = apierr.New(apierr.TooLarge, "payload_too_large", "The body is too large.")
	errMediaType      = apierr.New(apierr.Unsupported, "unsupported_media_type", "Send the body as application/json.")
	errKeyReused      = apierr.New(apierr.Invalid, "idempotency_key_reused", "This Idempotency-Key was used for another request.")
	errInProgress     = apierr.New(apierr.Conflict, "idempotency_in_progress", "A request with this Idempotency-Key is still running.")
	errRetryLater     = apierr.New(apierr.Unavailable, "retry_later", "The service could not finish in time. Try again.")
	errInternal       = apierr.New(apierr.Internal, "internal", "Something went wrong in the service. It has been noted under this request id.")
	errNotATime       = apierr.New(apierr.Invalid, "invalid_parameter", "The value is a time in RFC 3339, such as 2026-01-31T00:00:00Z, or a date.")
	errErasedResponse = apierr.NotFoundErr.Detailf("The response to this key contained data of a person that has been erased. The request succeeded once and is not repeated.")
	errNoSuchRoute    = apierr.NotFoundErr.Detailf("There is nothing at this address.")
)

// asFault is the one way from an error to what a client may see. What is not a fault is a bare 500.
func asFault(err error) *apierr.Fault {
	if f, ok := apierr.As(err); ok {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errRetryLater
	}
	return errInternal
}

// statusOf is the one map from a fault to its HTTP status.
func statusOf(f *apierr.Fault) int {
	switch f.Code {
	case errMethod.Code:
		return http.StatusMethodNotAllowed
	case errMisdirected.Code:
		return http.StatusMisdirectedRequest
	}
	if f.Kind < 400 || f.Kind > 599 {
		return http.StatusInternalServerError
	}
	return int(f.Kind)
}

// problem is an error answer: the members of RFC 9457, flat, and those of this interface.
type problem struct {
	Type      string  `json:"type" doc:"An address of this service that explains the code."`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Code      string  `json:"code"`
	Detail    string  `json:"detail"`
	RequestID string  `json:"request_id"`
	Errors    []wrong `json:"errors" doc:"All problems of the request, in order, at most 100. code and detail repeat the first."`
}

// wrong is one problem of a request.
type wrong struct {
	Code    string `json:"code"`
	In      string `json:"in" enum:"body,query,path,header"`
	Pointer string `json:"pointer" doc:"A JSON pointer into the body, or the name of the parameter."`
	Message string `json:"message"`
}

// render writes the answer for a fault. Hints of the fault, such as an existing id, stand beside the other members.
func render(f *apierr.Fault, requestID string) (status int, body []byte) {
	status = statusOf(f)
	p := problem{
		Type: "/docs/errors/" + f.Code, Title: titleOf(f.Code), Status: status, Code: f.Code, Detail: f.Detail,
		RequestID: requestID, Errors: make([]wrong, 0, len(f.Fields)),
	}
	for _, w := range f.Fields[:min(len(f.Fields), apierr.MaxFields)] {
		p.Errors = append(p.Errors, showField(w))
	}
	body, err := json.Marshal(p)
	if err != nil { // a fault with text that is not UTF-8
		body, _ = json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	}
	if len(f.Meta) > 0 {
		if hints, err := json.Marshal(f.Meta, json.Deterministic(true)); err == nil && len(hints) > 2 {
			body = append(append(body[:len(body)-1], ','), hints[1:]...)
		}
	}
	return status, body
}

// forBody is the fault without the hints that travel as headers.
func forBody(f *apierr.Fault) *apierr.Fault {
	if len(f.Meta) == 0 {
		return f
	}
	c := *f
	c.Meta = maps.Clone(f.Meta)
	delete(c.Meta, "retry_after")
	delete(c.Meta, "allow")
	return &c
}

// retryAfter is how many seconds a client had better wait, by code.
func retryAfter(f *apierr.Fault) string {
	if s := f.Meta["retry_after"]; s != "" {
		return s
	}
	switch statusOf(f) {
	case http.StatusServiceUnavailable:
		return "5"
	case http.StatusTooManyRequests:
		return "1"
	}
	if f.Code == errInProgress.Code {
		return "2"
	}
	return ""
}

// explanation is what the page of a code says.
type explanation struct {
	Code   string
	Status int
	Title  string
	What   string
	Do     string
}

// explanations is every code that a client may meet, in the order of their status.
var explanations = []explanation{
	{"malformed_json", 400, "The body is not valid JSON", "The body could not be read: a syntax error, a member name twice in one object, something after the end, invalid UTF-8, the character U+0000, or nesting deeper than 32. Nothing was done.", "Serialize the body with a JSON library and send exactly one object in UTF-8."},
	{"idempotency_key_required", 400, "An idempotency key is required", "With an API key, this operation moves money and must be safe to repeat. It was refused because it came without an Idempotency-Key header.", "Send an Idempotency-Key header with a fresh value, such as a UUID, for each payment you mean. Keep the value when you repeat the request."},
	{"idempotency_key_invalid", 400, "The idempotency key is not valid", "The Idempotency-Key header is empty, longer than 255 characters, or holds something else than visible ASCII.", "Use 1 to 255 visible ASCII characters without spaces; a UUID is fine."},
	{"duplicate_header", 400, "A header is given twice", "A header that may occur once came more than once, so its meaning is unclear.", "Send the header once. Look at proxies that add headers."},
	{"unsupported_version", 400, "The version is not supported", "The Api-Version header asks for a version that this service does not speak.", "Leave the header out, or send 2.0."},
	{"invalid_token", 401, "The credential is not valid", "The Authorization header is missing, or its credential is unknown, revoked, expired, of the other environment, or sent with the wrong scheme.", "Send an API key as Basic, or an OAuth token as Bearer. Check that it belongs to this environment and was not rotated."},
	{"insufficient_scope", 403, "A scope is missing", "The credential is valid, but it does not carry the scope that the detail names.", "Choose the scope for your app and let the user authorize it again, or use a credential that has it."},
	{"csrf_failed", 403, "The form has expired", "The page's protection against forged requests did not match.", "Load the page again and repeat the step."},
	{"mfa_required", 403, "A second factor is required", "This step needs a fresh second factor.", "Sign in with the second factor, then repeat the step."},
	{"kyc_required", 403, "Verification is required", "The person or company has not been verified, and this needs it.", "Complete the verification, then repeat the request."},
	{"company_frozen", 403, "The company is frozen", "The company's money must not move at the moment.", "Contact the operator of this service."},
	{"not_found", 404, "Not found", "There is no such address or object, or the object belongs to somebody else.", "Check the address, the id, and the company that the credential acts for."},
	{"method_not_allowed", 405, "The method is not allowed", "The address exists, but takes other methods.", "Use one of the methods in the Allow header."},
	{"idempotency_in_progress", 409, "The same request is still running", "A request with the same Idempotency-Key has not finished yet.", "Wait for the seconds in Retry-After, then repeat the request with the same key."},
	{"external_id_conflict", 409, "The external id is taken", "Another object of the company has this external_id. The answer names it.", "Use the existing object, or another external_id."},
	{"user_exists", 409, "The company has this user already", "A user of the company has this email address. The answer names it.", "Use the existing user, or another address."},
	{"allocation_not_zero", 409, "The allocation is not zero", "A destination that receives a share cannot be deleted.", "Move its share to other destinations first, then delete it."},
	{"resend_limit_reached", 409, "The resend limit is reached", "An invitation can be sent again three times at most.", "Create a new invitation after the old one has ended, or tell the person another way."},
	{"destination_cooling", 409, "The destination is new", "Money can go to a new destination when its cool-down has passed, so that somebody notices one that nobody meant.", "Wait until its ready_at, which the list of destinations shows."},
	{"already_processing", 409, "It is already being processed", "The same thing has been started and is not finished.", "Wait for its outcome; read the object to see it."},
	{"payer_deleted", 409, "The payer is deleted", "The payer was deleted and cannot be used.", "Use another payer."},
	{"quote_locked", 409, "The quote is locked", "The quote is paid in full and waits for confirmations, so its price cannot change.", "Wait for the confirmations."},
	{"documents_incomplete", 409, "Documents are missing", "Not all required documents have been uploaded.", "Read the required document types and upload what is missing."},
	{"profile_incomplete", 409, "The profile is incomplete", "Fields of the profile that this needs are empty.", "Update the profile, then repeat the request."},
	{"insufficient_balance", 409, "The balance is too low", "The company's balance does not cover the amount and its fees.", "Add money, or choose another way of funding."},
	{"invalid_state", 409, "The state does not allow this", "The object's present state does not allow this step.", "Read the object and do what its state allows."},
	{"payload_too_large", 413, "The body is too large", "The body is larger than this operation takes.", "Send less at once; split long lists."},
	{"unsupported_media_type", 415, "The media type is not supported", "The body is not sent as application/json, is compressed, or is in another charset than UTF-8.", "Send Content-Type: application/json and no Content-Encoding."},
	{"misdirected", 421, "The host is not served here", "The Host of the request is not one that this service answers for.", "Check the base address."},
	{"unknown_field", 422, "A member is unknown", "The body has a member that this operation does not know. It was refused rather than ignored, since a misspelt member changes what you meant.", "Correct or remove the member that the pointer names."},
	{"missing_field", 422, "A member is missing", "A required member or parameter is absent or null.", "Add what the pointer names."},
	{"invalid_type", 422, "A value has the wrong type", "A member's JSON type is not the one that this operation takes. Numbers are not text and text is not a number.", "Correct the value that the pointer names."},
	{"invalid_parameter", 422, "A value is not allowed", "A value is outside its choices, length or range, or a parameter is given twice.", "Correct what the pointer names; the message says what is right."},
	{"idempotency_key_reused", 422, "The idempotency key was used for something else", "The key belongs to an earlier request with another body or path.", "Use a fresh key for a new request; keep a key only to repeat the very same one."},
	{"amount_precision", 422, "Amount has too many decimals", "The amount is finer than the smallest unit of its currency.", "Round the amount to the currency's decimals."},
	{"amount_too_large", 422, "The amount is too large", "The amount or a sum of amounts is larger than this service counts.", "Split it."},
	{"amount_too_small", 422, "The amount is too small", "The amount is below the least that can be paid on the chain.", "Pay a larger amount, or choose another way of funding."},
	{"amount_not_positive", 422, "The amount is not positive", "An amount to be paid is more than zero.", "Send a positive amount."},
	{"currency_not_supported", 422, "The currency is not supported", "This service does not know the currency, or not for this use.", "Choose one of GET /api/currencies."},
	{"allocation_total", 422, "The allocations do not add up", "The shares of a payee's destinations total 100.", "Send shares that add up to exactly 100."},
	{"allocation_invalid", 422, "An allocation is not valid", "A share is an integer from 0 to 100, and each destination occurs once.", "Correct what the pointer names."},
	{"distribution_limit", 422, "There are too many destinations", "A payee has three destinations at most.", "Delete one that you no longer need."},
	{"no_distribution", 422, "The payee has no destination", "Somebody in the list has no destination for the money.", "Add a destination for the payee that the pointer names."},
	{"recipient_inactive", 422, "The recipient is not active", "Somebody in the list cannot be paid because the recipient is not active.", "Activate the recipient or leave it out."},
	{"address_invalid", 422, "The address is not valid", "The crypto address fails its checksum or belongs to another network.", "Copy the whole address again and check its network."},
	{"address_of_service", 422, "The address is the service's own", "The crypto address was given out by the service itself, so money sent there would not leave it.", "Name an address of a wallet of your own."},
	{"iban_invalid", 422, "The IBAN is not valid", "The IBAN fails its check digits or has the wrong length for its country.", "Correct the IBAN."},
	{"tax_id_invalid", 422, "The tax id is not valid", "The tax id does not have the form or the check digits of its type, or the country has no such type.", "Correct the tax id or its type; the message says which types there are."},
	{"country_not_supported", 422, "The country is not supported", "The country is not served, or not a 2-letter ISO code.", "Use a supported ISO 3166-1 alpha-2 code."},
	{"unsupported_image", 422, "The image is not supported", "The image's format or size is not one that can be read.", "Send one whole JPEG or PNG of up to 10 MiB and 40 megapixels whose shorter side has 600 pixels or more (in the sandbox, any size), not animated."},
	{"category_not_allowed", 422, "The category is not allowed", "This kind of document does not have that side.", "Use front for passports, proofs of address and selfies."},
	{"document_limit", 422, "There are too many documents", "20 documents of at most 100 MiB together are kept at a time.", "Replace a document instead: send the same kind, side and issuing country again."},
	{"url_not_allowed", 422, "The address is not allowed", "The URL is not one that this service may call.", "Use a public https address."},
	{"redirect_uri_invalid", 422, "The redirect address is not valid", "The redirect_uri is not the registered one, byte for byte.", "Send the registered address, or register this one."},
	{"rate_limited", 429, "Too many requests", "The credential has used up what it may ask at once, or its network sent too many wrong credentials.", "Wait for the seconds in Retry-After; watch the RateLimit headers to stay below."},
	{"internal", 500, "Something went wrong", "The service met an error of its own. It was noted under the request id. A write with an idempotency key is safe to repeat.", "Repeat the request with the same key; if it stays, report the request id."},
	{"rate_unavailable", 503, "No exchange rate is available", "There is no rate fresh enough to promise a price.", "Try again in a minute."},
	{"storage_unavailable", 503, "The storage is not available", "The database did not answer. Nothing was done.", "Repeat the request with the same idempotency key."},
	{"retry_later", 503, "Try again", "The service was too busy, stopped, or met the same change at the same moment.", "Repeat the request with the same idempotency key after the seconds in Retry-After."},
	{"payouts_paused", 503, "Payouts are paused", "The operator has paused outgoing money.", "Try again later; pay runs that are funded go on by themselves."},
}

var explanationOf = func() map[string]explanation {
	m := make(map[string]explanation, len(explanations))
	for _, e := range explanations {
		m[e.Code] = e
	}
	return m
}()

// titleOf is the short human name of a code; a code without a page is still readable.
func titleOf(code string) string {
	if e, ok := explanationOf[code]; ok {
		return e.Title
	}
	words := strings.ReplaceAll(code, "_", " ")
	if words == "" {
		return "Error"
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

var errorPage = template.Must(template.New("error").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{with .One}}{{.Title}}{{else}}Error codes{{end}}</title>
<style>
body { font: 1.0625rem/1.6 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
code { background: #f0f0f0; padding: .1em .3em; border-radius: 3px }
a { color: #0b5394 }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #161616 } code { background: #2a2a2a } a { color: #8ab4f8 } }
</style>
<main>
{{with .One}}<h1>{{.Title}}</h1>
<p>HTTP status <strong>{{.Status}}</strong>, code <code>{{.Code}}</code></p>
<h2>What happened, and why</h2>
<p>{{.What}}</p>
<h2>What to do</h2>
<p>{{.Do}}</p>
<p><a href="/docs/errors/">All error codes</a></p>
{{else}}<h1>Error codes</h1>
<ul>
{{range .All}}<li><a href="/docs/errors/{{.Code}}">{{.Title}}</a>: <code>{{.Code}}</code>, {{.Status}}</li>
{{end}}</ul>
{{end}}</main>
</html>
`))

// serveErrorPage explains a code, or lists them all.
func serveErrorPage(w http.ResponseWriter, r *http.Request) *apierr.Fault {
	var page struct {
		One *explanation
		All []explanation
	}
	if code := r.PathValue("code"); code != "" {
		i := slices.IndexFunc(explanations, func(e explanation) bool { return e.Code == code })
		if i < 0 {
			return errNoSuchRoute
		}
		page.One = &explanations[i]
	} else {
		page.All = explanations
	}
	var b strings.Builder
	if err := errorPage.Execute(&b, page); err != nil {
		return errInternal
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_, _ = w.Write([]byte(b.String())) // a reader that left needs no page
	return nil
}
