package requestlog

import (
	"bytes"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// hidden stands where something was that is not kept.
const hidden = "…"

// What is kept of a body and of one list in it.
const (
	mostText  = 4 << 10
	mostItems = 5
)

// shown are the members whose values are kept, as long as they look like a word or a number: amounts, states, kinds
// and counts. What is not here is not kept, whatever it is: names, addresses, destinations, documents, secrets, and
// everything that a client may write freely.
var shown = names(`
	amount amount_due amount_fiat available balance claims denomination_amount due_amount fees funded_amount funding_amount paid rate
	received_amount refundable_amount refunded_amount reserved seen_amount subtotal tax tax_rate total total_input_in_input_currency
	volume_input_in_input_currency volume_output_in_output_currency minimum
	denomination_currency funding_currency input_currency output_currency currency symbol network settlement_currency base
	allocation approvals_needed attempts confirmations confirmations_required decimals given needed payees sequence row existing failed
	late_grace_seconds tolerance_bps advance_seconds overlap_seconds took_ms http_status status sat_per_vbyte previous_sat_per_vbyte
	page pages per_page prev_num next_num limit has_next has_prev has_more resend_count expires_in
	action account api_version category code distribution_type doc_type environment error event events exception existing from to
	funding_method funding_state grant_type hold_reason in kind kyb_state kyb_status kyc_status late_policy media_type method order
	payroll_invoice_currency product rail reason recipient_type result role settlement_schedule sort_by sort_by_dir template
	company_type token_type type which
	at accepted_at created updated due_date issue_date expires_at first_seen observed_at sent_at valid_from valid_to now
	request_id scope scopes`)

// said are members of refusals, whose words are the service's own and repeat nothing that was sent.
var said = names(`detail title message pointer error_description`)

func names(text string) map[string]bool {
	all := map[string]bool{}
	for _, name := range strings.Fields(text) {
		all[name] = true
	}
	return all
}

var (
	// anID is an id that the service made; it names nobody to whom the rest is hidden.
	anID = regexp.MustCompile(`^[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}$`)
	// aWord is a value of an enumeration, an amount, an instant, or some of these.
	aWord = regexp.MustCompile(`^[A-Za-z0-9_.:/*, +-]{1,64}$`)
	// aName is how members are called. Another name may hold what was meant as a value.
	aName = regexp.MustCompile(`^[a-z]{1,20}(_[a-z]{1,20}|_[0-9]{1,2}){0,6}$`)
	// aPointer leads to a member.
	aPointer = regexp.MustCompile(`^(/?([a-z]{1,20}(_[a-z]{1,20}|_[0-9]{1,2}){0,6}|[0-9]{1,5}))*$`)
)

// isID is asked about every text, of which most are no ids by their length alone.
func isID(text string) bool { return len(text) == 30 && anID.MatchString(text) }

// plain is a JSON body with everything left out that may be secret or personal, and the rest of what is long. Members
// keep their order. refused says that it is the service's own refusal.
func plain(body []byte, refused bool) string {
	if len(body) == 0 {
		return ""
	}
	p := &plainer{
		text: make([]byte, 0, min(len(body), mostText)+64),
		from: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)),
		refused: refused,
	}
	if !p.value("") {
		p.text = append(p.text, hidden...)
	}
	return string(p.text)
}

// plainer copies a value, as far as it may be seen.
type plainer struct {
	from    *jsontext.Decoder
	text    []byte
	refused bool
}

// value copies the next value, which belongs to a member of that name. It says whether all of it was there.
func (p *plainer) value(name string) bool {
	if len(p.text) > mostText {
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
		if shown[name] && aWord.MatchString(t.String()) {
			p.text = append(p.text, t.String()...)
		} else {
			p.quote(hidden)
		}
	default: // true, false, null
		p.text = append(p.text, t.String()...)
	}
	return true
}

// visible is a text, or what stands for it.
func (p *plainer) visible(name, text string) string {
	switch {
	case text == "", isID(text):
		return text
	case name == "pointer" && p.refused:
		if !aPointer.MatchString(text) {
			return hidden
		}
		return text
	case p.refused && said[name], shown[name] && aWord.MatchString(text):
		return text
	}
	return hidden
}

func (p *plainer) object() bool {
	_, _ = p.from.ReadToken() // it was seen
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
		if shown[name] || aName.MatchString(name) {
			p.quote(name)
		} else {
			p.quote(hidden)
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

func (p *plainer) list(name string) bool {
	_, _ = p.from.ReadToken() // it was seen
	p.text = append(p.text, '[')
	n := 0
	for ; p.from.PeekKind() != ']'; n++ {
		if n >= mostItems {
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
	if n > mostItems {
		p.text = append(p.text, ',')
		p.quote(hidden + " +" + strconv.Itoa(n-mostItems))
	}
	_, err := p.from.ReadToken()
	p.text = append(p.text, ']')
	return err == nil
}

func (p *plainer) quote(text string) {
	quoted, err := jsontext.AppendQuote(p.text, text)
	if err != nil {
		quoted = append(p.text, `"`+hidden+`"`...) // no UTF-8
	}
	p.text = quoted
}

// plainURL is path and query without what may be personal: of the path, the parts of the route and ids; of the query,
// what a body would keep.
func plainURL(route, sent string) string {
	path, query, _ := strings.Cut(sent, "?")
	want := strings.Split(route, "/")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if (i >= len(want) || part != want[i]) && !isID(part) {
			parts[i] = hidden
		}
	}
	out := strings.Join(parts, "/")
	for i, pair := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' }) {
		name, value, _ := strings.Cut(pair, "=")
		if text, err := url.QueryUnescape(value); err != nil || !anID.MatchString(text) &&
			(!shown[name] || !aWord.MatchString(text)) {
			value = hidden
		}
		if !aName.MatchString(name) {
			name = hidden
		}
		out += map[bool]string{true: "?", false: "&"}[i == 0] + name + "=" + value
		if len(out) > mostText {
			break
		}
	}
	return out
}

// masked is enough of an idempotency key to find one's own: clients make them of whatever they like.
func masked(key string) string {
	switch {
	case key == "":
		return ""
	case len(key) < 16:
		return hidden
	}
	return key[:4] + hidden + key[len(key)-4:]
}
