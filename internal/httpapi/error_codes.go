package httpapi

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
)

// explanation describes an error code on its page of the documentation.
type explanation struct {
	Code   string
	Status int
	Title  string
	What   string // what happened
	Do     string // what to do next
}

// explanations lists every error code, sorted by HTTP status.
var explanations = []explanation{
	{
		"malformed_json", 400, "The body is not valid JSON",
		"The body could not be parsed: a syntax error, a duplicate member name, text after the end, invalid " +
			"UTF-8, the character U+0000, or nesting deeper than 32 levels. Nothing was done.",
		"Serialize the body with a JSON library and send exactly one object in UTF-8.",
	},
	{
		"idempotency_key_required", 400, "An idempotency key is required",
		"With an API key, this operation requires an Idempotency-Key header, because it moves money and must " +
			"be safe to repeat.",
		"Send an Idempotency-Key header with a new value, such as a UUID, for each intended payment. Reuse " +
			"the value when you repeat the request.",
	},
	{
		"idempotency_key_invalid", 400, "The idempotency key is invalid",
		"The Idempotency-Key header is empty, longer than 255 characters, or contains characters other than " +
			"visible ASCII.",
		"Use 1 to 255 visible ASCII characters without spaces, for example a UUID.",
	},
	{
		"duplicate_header", 400, "A header is duplicated",
		"A header that may occur only once was sent more than once.",
		"Send the header once. Check proxies that add headers.",
	},
	{
		"unsupported_version", 400, "The version is not supported",
		"The Api-Version header requests a version that this service does not support.",
		"Omit the header, or send 2.0.",
	},
	{
		"invalid_token", 401, "The credential is invalid",
		"The Authorization header is missing, or its credential is unknown, revoked, expired, of the other " +
			"environment, or sent with the wrong scheme.",
		"Send an API key as Basic, or an OAuth token as Bearer. Check that it belongs to this environment and " +
			"was not rotated.",
	},
	{
		"role_required", 403, "A person with another role is required",
		"Only an owner or administrator of the company can do this, with an access token that they granted to the app.",
		"Ask an owner or administrator to connect the app, and send their access token.",
	},
	{
		"same_email", 422, "The email address is the present one",
		"This is the address of the account already.",
		"Send another address.",
	},
	{
		"second_factor_required", 403, "A second factor is required",
		"The person has not presented a second factor with this access token in the last 10 minutes.",
		"Ask the person for a code, send it to POST /api/user/second-factor, and repeat the request.",
	},
	{
		"second_person_required", 403, "A second person is required",
		"The person created the payment, or became an owner or administrator in the last 7 days.",
		"Ask another owner or administrator to approve it.",
	},
	{
		"insufficient_scope", 403, "A scope is missing",
		"The credential is valid but does not have the scope named in the detail.",
		"Add the scope to your app and have the user authorize it again, or use a credential that has it.",
	},
	{
		"csrf_failed", 403, "The form has expired",
		"The page's protection against cross-site request forgery rejected the form.",
		"Reload the page and repeat the step.",
	},
	{
		"mfa_required", 403, "A second factor is required",
		"This step requires a recent second factor.",
		"Sign in with the second factor, then repeat the step.",
	},
	{
		"kyc_required", 403, "Verification is required",
		"This operation requires a verified person or company.",
		"Complete the verification, then repeat the request.",
	},
	{
		"company_frozen", 403, "The company is frozen",
		"The company is frozen and cannot make changes.",
		"Contact the operator of this service.",
	},
	{
		"not_found", 404, "Not found",
		"The address or object does not exist, or the object belongs to another company or user.",
		"Check the address, the ID, and the company that the credential acts for.",
	},
	{
		"method_not_allowed", 405, "The method is not allowed",
		"The address does not support this method.",
		"Use one of the methods in the Allow header.",
	},
	{
		"idempotency_in_progress", 409, "The same request is still running",
		"A request with the same Idempotency-Key has not finished.",
		"Wait for the seconds in Retry-After, then repeat the request with the same key.",
	},
	{
		"invitation_limit_reached", 409, "Too many open invitations",
		"The company has 50 open invitations of members.",
		"Revoke an invitation, or wait until one is accepted or expires.",
	},
	{
		"last_owner", 409, "The company needs an owner",
		"The member is the only owner of the company.",
		"Make another member an owner first.",
	},
	{
		"payroll_changed", 409, "The payroll has changed",
		"A payee, an amount or a destination has changed since the list of approvals was read.",
		"Read the list of approvals again, show the member what has changed, and approve with the new content_digest.",
	},
	{
		"external_id_conflict", 409, "The external ID is taken",
		"Another object of the company has this external_id. The response contains its ID.",
		"Use the existing object, or another external_id.",
	},
	{
		"user_exists", 409, "The user already exists",
		"A user of the company has this email address. The response contains the user's ID.",
		"Use the existing user, or another address.",
	},
	{
		"allocation_not_zero", 409, "The allocation is not zero",
		"A destination with an allocation cannot be deleted.",
		"Allocate its share to other destinations, then delete it.",
	},
	{
		"resend_limit_reached", 409, "The resend limit is reached",
		"An invitation can be resent three times.",
		"Create a new invitation after this one has expired, or contact the person in another way.",
	},
	{
		"destination_cooling", 409, "The destination is new",
		"Money can be sent to a new destination only after its cool-down, so that an unauthorized one is noticed.",
		"Wait until the destination's ready_at, which the list of destinations shows.",
	},
	{
		"already_processing", 409, "Processing has already started",
		"The same step was started and has not finished.",
		"Read the object to see the outcome.",
	},
	{
		"payer_deleted", 409, "The payer is deleted",
		"A deleted payer cannot be used.",
		"Use another payer.",
	},
	{
		"quote_locked", 409, "The quote is locked",
		"The quote is paid in full and waits for confirmations, so its price cannot change.",
		"Wait for the confirmations.",
	},
	{
		"documents_incomplete", 409, "Documents are missing",
		"Not all required documents have been uploaded.",
		"List the required document types and upload the missing ones.",
	},
	{
		"profile_incomplete", 409, "The profile is incomplete",
		"Required fields of the profile are empty.",
		"Update the profile, then repeat the request.",
	},
	{
		"insufficient_balance", 409, "The balance is too low",
		"The company's balance does not cover the amount and its fees.",
		"Add funds, or choose another funding method.",
	},
	{
		"invalid_state", 409, "The state does not permit this",
		"The object's current state does not permit this step.",
		"Read the object and check which steps its state permits.",
	},
	{
		"payload_too_large", 413, "The body is too large",
		"The body exceeds the limit of this operation.",
		"Send less data per request; split long lists.",
	},
	{
		"unsupported_media_type", 415, "The media type is not supported",
		"The body is not sent as application/json, is compressed, or uses a charset other than UTF-8.",
		"Send Content-Type: application/json without Content-Encoding.",
	},
	{
		"misdirected", 421, "The host is not served here",
		"The Host header does not name this service.",
		"Check the base URL.",
	},
	{
		"code_wrong", 422, "The code is wrong",
		"The code of the authenticator is wrong, was used before or has expired.",
		"Ask the person for the newest code.",
	},
	{
		"proposal_blocked", 422, "The proposal could not be created",
		"A proposal is stored only if what it proposes could be created now. errors lists each problem.",
		"Correct the problems, and propose again.",
	},
	{
		"unknown_field", 422, "A field is unknown",
		"The body contains a field that this operation does not have. It was rejected rather than ignored, " +
			"because a misspelled field would change the meaning of the request.",
		"Correct or remove the field at the pointer.",
	},
	{
		"missing_field", 422, "A field is missing",
		"A required field or parameter is absent or null.",
		"Add the field at the pointer.",
	},
	{
		"invalid_type", 422, "A value has the wrong type",
		"The JSON type of a value is wrong. Numbers and strings are not converted.",
		"Correct the value at the pointer.",
	},
	{
		"invalid_parameter", 422, "A value is invalid",
		"A value violates a rule about its choices, length, range or form, or a parameter is duplicated.",
		"Correct the value at the pointer; the message states the rule.",
	},
	{
		"idempotency_key_reused", 422, "The idempotency key was used for another request",
		"An earlier request with another body or path used this key.",
		"Use a new key for a new request. Reuse a key only to repeat the same request.",
	},
	{
		"mandate_not_active", 409, "The mandate cannot be used",
		"The mandate is being checked, or was suspended, revoked or ended.",
		"Get the mandate to see its state and reason; if it has ended, accept a new one.",
	},
	{
		"amount_precision", 422, "The amount has too many decimals",
		"The amount has more decimals than its currency.",
		"Round the amount to the currency's decimals.",
	},
	{
		"amount_too_large", 422, "The amount is too large",
		"The amount, or a sum of amounts, exceeds the maximum.",
		"Split the amount.",
	},
	{
		"amount_too_small", 422, "The amount is too small",
		"The amount is below the minimum that can be paid on the chain.",
		"Pay a larger amount, or choose another funding method.",
	},
	{
		"amount_not_positive", 422, "The amount is not positive",
		"Amounts to pay must be greater than zero.",
		"Send a positive amount.",
	},
	{
		"currency_not_supported", 422, "The currency is not supported",
		"The currency is unknown or not supported for this purpose.",
		"Choose a currency from GET /api/currencies.",
	},
	{
		"conversion_unavailable", 422, "The currency cannot be exchanged now",
		"The operator has too little of the currency that must be paid out.",
		"Pay less, fund in the payee's currency, or try again later.",
	},
	{
		"allocation_total", 422, "The allocations do not total 100",
		"The allocations of a payee's destinations must total 100.",
		"Send allocations that total exactly 100.",
	},
	{
		"allocation_invalid", 422, "An allocation is invalid",
		"An allocation must be an integer from 0 to 100, and each destination may occur once.",
		"Correct the value at the pointer.",
	},
	{
		"distribution_limit", 422, "There are too many destinations",
		"A payee can have at most three destinations.",
		"Delete a destination that is no longer needed.",
	},
	{
		"no_distribution", 422, "The payee has no destination",
		"A payee in the list has no payment destination.",
		"Add a destination for the payee at the pointer.",
	},
	{
		"recipient_inactive", 422, "The recipient is not active",
		"A recipient in the list is inactive and cannot be paid.",
		"Reactivate the recipient or remove it from the list.",
	},
	{
		"signature_invalid", 422, "The signature is invalid",
		"The signature is not one of the challenge by the key of the destination's address.",
		"Sign the whole challenge, unchanged, with the wallet that has the address: by personal_sign for EVM, by BIP-322 " +
			"or as a signed message for Bitcoin.",
	},
	{
		"address_invalid", 422, "The address is invalid",
		"The crypto address has a wrong checksum or belongs to another network.",
		"Copy the whole address again and check its network.",
	},
	{
		"address_of_service", 422, "The address belongs to this service",
		"The crypto address was assigned by this service, so a payment to it would not leave the service.",
		"Use an address of your own wallet.",
	},
	{
		"iban_invalid", 422, "The IBAN is invalid",
		"The IBAN has wrong check digits or the wrong length for its country.",
		"Correct the IBAN.",
	},
	{
		"tax_id_invalid", 422, "The tax ID is invalid",
		"The tax ID does not match the form or check digits of its type, or the country does not have the type.",
		"Correct the tax ID or its type; the message lists the types.",
	},
	{
		"country_not_supported", 422, "The country is not supported",
		"The country is not served, or the value is not a two-letter ISO code.",
		"Use a supported ISO 3166-1 alpha-2 code.",
	},
	{
		"name_mixed_scripts", 422, "The name mixes scripts",
		"A word of the name has letters of several scripts, so it could be confused with another name.",
		"Write each word in letters of one script.",
	},
	{
		"name_reserved", 422, "The name is reserved",
		"The name looks like that of this service or of a well-known company.",
		"Choose another name.",
	},
	{
		"unsupported_image", 422, "The image is not supported",
		"The format or size of the image is not supported.",
		"Send one JPEG or PNG, not animated, of at most 10 MiB and 40 megapixels, with at least 600 pixels on " +
			"the shorter side (in the sandbox, any size). A logo is a PNG, JPEG or WebP of at most 1 MiB and 2048 × 2048 " +
			"pixels.",
	},
	{
		"category_not_allowed", 422, "The category is not allowed",
		"This type of document does not have that side.",
		"Use front for passports, proofs of address and selfies.",
	},
	{
		"document_limit", 422, "There are too many documents",
		"At most 20 documents with a total of 100 MiB are stored at a time.",
		"Replace a document: upload one with the same type, side and issuing country.",
	},
	{
		"url_not_allowed", 422, "The URL is not allowed",
		"This service may not call the URL.",
		"Use a public https URL.",
	},
	{
		"redirect_uri_invalid", 422, "The redirect URI is invalid",
		"The redirect_uri does not equal the registered one.",
		"Send the registered URI, or register this one.",
	},
	{
		"rate_limited", 429, "Too many requests",
		"The credential exceeded its rate limit, or its network sent too many wrong credentials.",
		"Wait for the seconds in Retry-After. Use the RateLimit headers to stay below the limit.",
	},
	{
		"internal", 500, "Internal error",
		"The service encountered an internal error and logged it under the request ID. A write with an " +
			"idempotency key can be repeated safely.",
		"Repeat the request with the same key. If the error persists, report the request ID.",
	},
	{
		"rate_unavailable", 503, "No exchange rate is available",
		"No sufficiently recent exchange rate is available to quote a price.",
		"Retry in a minute.",
	},
	{
		"storage_unavailable", 503, "The database is not available",
		"The database did not respond. Nothing was done.",
		"Repeat the request with the same idempotency key.",
	},
	{
		"retry_later", 503, "Retry later",
		"The service was busy or stopping, or the object was modified concurrently.",
		"Repeat the request with the same idempotency key after the seconds in Retry-After.",
	},
	{
		"payouts_paused", 503, "Payouts are paused",
		"The operator has paused payouts.",
		"Retry later. Payrolls that are already funded resume automatically.",
	},
}

var explanationOf = func() map[string]explanation {
	m := make(map[string]explanation, len(explanations))
	for _, e := range explanations {
		m[e.Code] = e
	}
	return m
}()

// titleOf returns the title of an error code. The title of a code without an explanation is made from the words of
// the code.
func titleOf(code string) string {
	if e, ok := explanationOf[code]; ok {
		return e.Title
	}
	text := strings.ReplaceAll(code, "_", " ")
	if text == "" {
		return "Error"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// errorCodes returns the error codes of an operation, sorted by HTTP status: the declared codes and those that follow
// from the rest of its declaration.
func (rt route) errorCodes(reg huma.Registry, in *input) []string {
	can := map[string]bool{errVersion.Code: true, errMisdirected.Code: !anyHost(rt.path)}
	add := func(codes ...string) {
		for _, code := range codes {
			can[code] = true
		}
	}
	if rt.handler.run != nil {
		add(errInternal.Code, errRetryLater.Code, "storage_unavailable")
		add(rt.errors...)
	}
	if rt.path == "/readyz" {
		add(errRetryLater.Code)
	}
	if rt.perNetwork {
		add(ratelimit.ErrTooMany.Code)
	}
	if rt.scope != public {
		add(errToken.Code, errDuplicate.Code, ratelimit.ErrTooMany.Code)
		if rt.scope != anyScope {
			add(errScope.Code)
		}
	}
	if rt.kind == write {
		add(errDuplicate.Code, errKeyInvalid.Code, errKeyReused.Code, errInProgress.Code)
		if rt.keyRequired {
			add(errKeyRequired.Code)
		}
	}
	if rt.changesCompany() {
		add(identity.ErrFrozen.Code)
	}
	if in.company != nil {
		add(apierr.NotFoundErr.Code)
	}
	for _, p := range in.params {
		switch {
		case p.in == "path":
			add(apierr.NotFoundErr.Code)
		case p.required:
			add("missing_field", "invalid_parameter")
		default:
			add("invalid_parameter")
		}
	}
	if in.body >= 0 {
		add(errMalformed.Code, errDuplicate.Code, errTooLarge.Code, errMediaType.Code, "unknown_field", "invalid_type")
		bodyCodes(reg, reg.Schema(in.typ.Field(in.body).Type, true, in.typ.Name()+"Body"), add)
	}
	var all []string
	for _, e := range explanations {
		if can[e.Code] {
			all = append(all, e.Code)
		}
	}
	return all
}

// bodyCodes passes to add the codes that the decoder can return for values of a schema.
func bodyCodes(reg huma.Registry, s *huma.Schema, add func(...string)) {
	s = resolve(reg, s)
	switch s.Type {
	case huma.TypeObject:
		if len(s.Required) > 0 {
			add("missing_field")
		}
		for _, member := range s.Properties {
			bodyCodes(reg, member, add)
		}
	case huma.TypeArray:
		if s.MinItems != nil || s.MaxItems != nil {
			add("invalid_parameter")
		}
		bodyCodes(reg, s.Items, add)
	case huma.TypeNumber:
		add("amount_too_large")
	case huma.TypeString:
		add("invalid_parameter")
	case huma.TypeInteger:
		if s.Minimum != nil || s.Maximum != nil {
			add("invalid_parameter")
		}
	}
}
