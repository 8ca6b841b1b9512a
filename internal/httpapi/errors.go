package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
)

// Errors of the HTTP layer.
var (
	errMalformed   = apierr.New(apierr.BadRequest, "malformed_json", "The body is not valid JSON.")
	errKeyRequired = apierr.New(apierr.BadRequest, "idempotency_key_required",
		"This request requires an Idempotency-Key header. Send a new unique value.")
	errKeyInvalid = apierr.New(apierr.BadRequest, "idempotency_key_invalid",
		"The Idempotency-Key must have 1 to 255 visible ASCII characters.")
	errDuplicate = apierr.New(apierr.BadRequest, "duplicate_header",
		"A header was sent more than once. Send it once.")
	errVersion = apierr.New(apierr.BadRequest, "unsupported_version",
		"This service supports version 2.0 only. Omit Api-Version or send 2.0.")
	errToken = apierr.New(apierr.Unauthorized, "invalid_token", "The credential is missing or invalid. Send a "+
		"valid one in the Authorization header.")
	errCallback = apierr.New(apierr.Unauthorized, "invalid_token", "The callback's signature is missing, wrong "+
		"or too old.")
	errKeyOnly = apierr.New(apierr.Forbidden, "insufficient_scope", "This operation requires a company API key.")
	errScope   = apierr.New(apierr.Forbidden, "insufficient_scope", "The credential lacks the required scope.")
	errMethod  = apierr.New(0, "method_not_allowed", "This address does not support the method. Use one from "+
		"the Allow header.")
	errMisdirected = apierr.New(0, "misdirected", "This service does not serve that host. Check the base URL.")
	errTooLarge    = apierr.New(apierr.TooLarge, "payload_too_large", "The body is too large. Send less data.")
	errMediaType   = apierr.New(apierr.Unsupported, "unsupported_media_type", "Send the body as application/json.")
	errKeyReused   = apierr.New(apierr.Invalid, "idempotency_key_reused",
		"This Idempotency-Key was used for another request. Use a new key.")
	errInProgress = apierr.New(apierr.Conflict, "idempotency_in_progress",
		"A request with this Idempotency-Key is still running. Retry later with the same key.")
	errRetryLater = apierr.New(apierr.Unavailable, "retry_later", "The service could not complete the request in "+
		"time. Retry with the same Idempotency-Key.")
	errInternal = apierr.New(apierr.Internal, "internal", "An internal error occurred and was logged under this "+
		"request ID. Retry, or report the request ID.")
	errNotATime = apierr.New(apierr.Invalid, "invalid_parameter", "The value must be an RFC 3339 time, for "+
		"example 2026-01-31T00:00:00Z, or a date.")
	errErasedResponse = apierr.NotFoundErr.Detailf("The response to this key contained data of a person that has been " +
		"erased. The request succeeded once and is not repeated.")
	errNoSuchRoute = apierr.NotFoundErr.Detailf("No operation has this address. Check the path.")
)

// asFault returns the error that the client receives. It returns an internal error for any error that is not a Fault.
func asFault(err error) *apierr.Fault {
	if f, ok := apierr.As(err); ok {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errRetryLater
	}
	return errInternal
}

// statusOf returns the HTTP status of a Fault.
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

// problem is an error response: the members that RFC 9457 defines, and additional ones of this API, without nesting.
type problem struct {
	Type      string  `json:"type" doc:"Address of this service that explains the code."`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Code      string  `json:"code"`
	Detail    string  `json:"detail"`
	RequestID string  `json:"request_id"`
	Errors    []wrong `json:"errors"`

	Missing []string `json:"missing,omitempty" doc:"With documents_incomplete and profile_incomplete: what is missing."`
}

// wrong describes one problem of a request.
type wrong struct {
	Code    string `json:"code"`
	In      string `json:"in" enum:"body,query,path,header"`
	Pointer string `json:"pointer" doc:"A JSON pointer into the body, or the name of the parameter."`
	Message string `json:"message"`
}

// hintMissing is the name of the hint whose space-separated words are sent as a JSON array.
const hintMissing = "missing"

// render returns the status and the body of an error response. The fault's hints, such as an existing ID, become
// members of the response.
func render(f *apierr.Fault, requestID string) (status int, body []byte) {
	status = statusOf(f)
	p := problem{
		Type: "/docs/errors/" + f.Code, Title: titleOf(f.Code), Status: status, Code: f.Code, Detail: f.Detail,
		RequestID: requestID, Errors: make([]wrong, 0, len(f.Fields)), Missing: strings.Fields(f.Meta[hintMissing]),
	}
	for _, w := range f.Fields[:min(len(f.Fields), apierr.MaxFields)] {
		p.Errors = append(p.Errors, showField(w))
	}
	body, err := json.Marshal(p)
	if err != nil { // the fault contains text that is not valid UTF-8
		body, _ = json.Marshal(p, jsontext.AllowInvalidUTF8(true))
	}
	if len(f.Meta) > 0 {
		texts := maps.Clone(f.Meta)
		delete(texts, hintMissing)
		if hints, err := json.Marshal(texts, json.Deterministic(true)); err == nil && len(hints) > 2 {
			body = append(append(body[:len(body)-1], ','), hints[1:]...)
		}
	}
	return status, body
}

// withoutHeaders returns the Fault without the hints that are sent as response headers.
func withoutHeaders(f *apierr.Fault) *apierr.Fault {
	if len(f.Meta) == 0 {
		return f
	}
	c := *f
	c.Meta = maps.Clone(f.Meta)
	delete(c.Meta, "retry_after")
	delete(c.Meta, "allow")
	return &c
}

// retryAfter returns the value of the Retry-After header for a Fault, in seconds, or "".
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
