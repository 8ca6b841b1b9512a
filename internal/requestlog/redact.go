package requestlog

import (
	"bytes"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// redacted is the text that replaces redacted values.
const redacted = "…"

// The limits of a redacted body.
const (
	maxText  = 4 << 10 // maximum length of a text, in bytes
	maxItems = 5       // maximum number of items of a list
)

// visibleFields are the names of fields whose values are stored if they match wordPattern: amounts, states, kinds and
// counts. All other values are redacted: names, addresses, destinations, documents, secrets and free text.
var visibleFields = names(`
	amount amount_due amount_fiat available balance claims denomination_amount due_amount fees funded_amount
	funding_amount paid rate received_amount refundable_amount refunded_amount reserved seen_amount subtotal tax
	tax_rate total total_input_in_input_currency volume_input_in_input_currency volume_output_in_output_currency minimum
	denomination_currency funding_currency input_currency output_currency currency symbol network settlement_currency
	base allocation approvals_needed attempts confirmations confirmations_required decimals given needed payees sequence
	row existing failed late_grace_seconds tolerance_bps advance_seconds overlap_seconds took_ms http_status status
	sat_per_vbyte previous_sat_per_vbyte page pages per_page prev_num next_num limit has_next has_prev has_more
	resend_count expires_in action account api_version category code distribution_type doc_type environment error event
	events exception existing from to funding_method funding_state grant_type hold_reason in kind kyb_state kyb_status
	kyc_status late_policy media_type method order payroll_invoice_currency product rail reason recipient_type result
	role settlement_schedule sort_by sort_by_dir template company_type token_type type which at accepted_at created
	updated due_date issue_date expires_at first_seen observed_at sent_at valid_from valid_to now request_id scope
	scopes`)

// errorTexts are the fields of error responses whose text comes from the service and contains no submitted values.
var errorTexts = names(`detail title message pointer error_description`)

func names(text string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(text) {
		all[name] = true
	}
	return all
}

var (
	// idPattern matches IDs of the service, which are not personal data.
	idPattern = regexp.MustCompile(`^[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}$`)
	// wordPattern matches values of enumerations, amounts, times, and short lists of them.
	wordPattern = regexp.MustCompile(`^[A-Za-z0-9_.:/*, +-]{1,64}$`)
	// namePattern matches names of fields. Any other name may be a misplaced value.
	namePattern = regexp.MustCompile(`^[a-z]{1,20}(_[a-z]{1,20}|_[0-9]{1,2}){0,6}$`)
	// pointerPattern matches JSON pointers to fields.
	pointerPattern = regexp.MustCompile(`^(/?([a-z]{1,20}(_[a-z]{1,20}|_[0-9]{1,2}){0,6}|[0-9]{1,5}))*$`)
)

// isID reports whether text is an ID of the service. The length check comes first because it is fast.
func isID(text string) bool { return len(text) == 30 && idPattern.MatchString(text) }

// redact returns a JSON body without values that may be secret or personal, and with long bodies and lists truncated.
// Fields keep their order. isError states that the body is an error response, whose texts come from the service.
func redact(body []byte, isError bool) string {
	if len(body) == 0 {
		return ""
	}
	p := &redactor{
		text: make([]byte, 0, min(len(body), maxText)+64),
		from: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)),
		isError: isError,
	}
	if !p.value("") {
		p.text = append(p.text, redacted...)
	}
	return string(p.text)
}

// redactor copies the visible parts of a JSON value.
type redactor struct {
	from    *jsontext.Decoder
	text    []byte
	isError bool
}

// value copies the next JSON value, which is the value of the field name. It returns false if the value was truncated
// or is invalid.
func (p *redactor) value(name string) bool {
	if len(p.text) > maxText {
		return false
	}
	switch p.from.PeekKind() {
	case '{':
		return p.object()
	case '[':
		return p.list(name)
	}
	t, err := p.from.ReadToken()
	if err != nil {
		return false
	}
	switch t.Kind() {
	case '"':
		p.quote(p.visible(name, t.String()))
	case '0':
		if visibleFields[name] && wordPattern.MatchString(t.String()) {
			p.text = append(p.text, t.String()...)
		} else {
			p.quote(redacted)
		}
	default: // the values true, false and null
		p.text = append(p.text, t.String()...)
	}
	return true
}

// visible returns the text of a field, or redacted.
func (p *redactor) visible(name, text string) string {
	switch {
	case text == "", isID(text):
		return text
	case name == "pointer" && p.isError:
		if !pointerPattern.MatchString(text) {
			return redacted
		}
		return text
	case p.isError && errorTexts[name], visibleFields[name] && wordPattern.MatchString(text):
		return text
	}
	return redacted
}

func (p *redactor) object() bool {
	_, _ = p.from.ReadToken() // cannot fail, because PeekKind has returned this token
	p.text = append(p.text, '{')
	for first := true; p.from.PeekKind() != '}'; first = false {
		t, err := p.from.ReadToken()
		if err != nil {
			return false
		}
		name := t.String()
		if !first {
			p.text = append(p.text, ',')
		}
		if visibleFields[name] || namePattern.MatchString(name) {
			p.quote(name)
		} else {
			p.quote(redacted)
		}
		p.text = append(p.text, ':')
		if !p.value(name) {
			return false
		}
	}
	_, err := p.from.ReadToken()
	p.text = append(p.text, '}')
	return err == nil
}

func (p *redactor) list(name string) bool {
	_, _ = p.from.ReadToken() // cannot fail, because PeekKind has returned this token
	p.text = append(p.text, '[')
	n := 0
	for ; p.from.PeekKind() != ']'; n++ {
		if n >= maxItems {
			if p.from.SkipValue() != nil {
				return false
			}
			continue
		}
		if n > 0 {
			p.text = append(p.text, ',')
		}
		if !p.value(name) {
			return false
		}
	}
	if n > maxItems {
		p.text = append(p.text, ',')
		p.quote(redacted + " +" + strconv.Itoa(n-maxItems))
	}
	_, err := p.from.ReadToken()
	p.text = append(p.text, ']')
	return err == nil
}

func (p *redactor) quote(text string) {
	quoted, err := jsontext.AppendQuote(p.text, text)
	if err != nil {
		quoted = append(p.text, `"`+redacted+`"`...) // the text is not valid UTF-8
	}
	p.text = quoted
}

// redactURL returns the path and query of a URL without values that may be personal. It keeps the literal parts of
// the route, IDs, and query parameters whose values redact would keep.
func redactURL(route, sent string) string {
	path, query, _ := strings.Cut(sent, "?")
	want := strings.Split(route, "/")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if (i >= len(want) || part != want[i]) && !isID(part) {
			parts[i] = redacted
		}
	}
	out := strings.Join(parts, "/")
	for i, pair := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' }) {
		name, value, _ := strings.Cut(pair, "=")
		if text, err := url.QueryUnescape(value); err != nil || !idPattern.MatchString(text) &&
			(!visibleFields[name] || !wordPattern.MatchString(text)) {
			value = redacted
		}
		if !namePattern.MatchString(name) {
			name = redacted
		}
		out += map[bool]string{true: "?", false: "&"}[i == 0] + name + "=" + value
		if len(out) > maxText {
			break
		}
	}
	return out
}

// maskKey returns the first and last characters of an idempotency key, because the whole key may contain personal
// data.
func maskKey(key string) string {
	switch {
	case key == "":
		return ""
	case len(key) < 16:
		return redacted
	}
	return key[:4] + redacted + key[len(key)-4:]
}
