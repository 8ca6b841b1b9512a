package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/mail"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
)

// maxDepth bounds how deep a body may nest.
const maxDepth = 32

// input reads a request into one Go type: path and query parameters from its tagged fields, the JSON body into its
// field Body. The rules of every value (required, lengths, choices, ranges) are those of its schema, the same that the
// contract publishes, so that what is documented is what is enforced.
type input struct {
	typ    reflect.Type
	params []param
	body   int // index of Body, -1 for none
	decode decodeFunc
	root   *object
	// company is where the acting company stands, nil where the operation has none.
	company []int
}

// param is one path or query parameter.
type param struct {
	name, in string
	index    []int
	schema   *huma.Schema
	required bool
	pattern  *regexp.Regexp
	initial  string // the default, as text
}

// newInput compiles the reader of a type. It panics on a type that it cannot read, which happens at start or never.
func newInput(reg huma.Registry, t reflect.Type) *input {
	in := &input{typ: t, body: -1}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		if f.Name == "Body" {
			in.body = f.Index[0]
			s := reg.Schema(f.Type, true, t.Name()+"Body")
			in.root = compileStruct(reg, f.Type, resolve(reg, s))
			in.decode = in.root.read
			if m, ok := in.root.members["company_id"]; ok {
				in.company = []int{in.body, m.index}
			}
			continue
		}
		for _, place := range []string{"path", "query"} {
			name, ok := f.Tag.Lookup(place)
			if !ok {
				continue
			}
			s := huma.SchemaFromField(reg, f, "")
			p := param{name: name, in: place, index: f.Index, schema: s, required: place == "path" || f.Tag.Get("required") == "true"}
			p.initial = f.Tag.Get("default")
			if s.Pattern != "" {
				p.pattern = regexp.MustCompile(s.Pattern)
			}
			in.params = append(in.params, p)
			if name == "company_id" {
				in.company = f.Index
			}
		}
	}
	return in
}

func resolve(reg huma.Registry, s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = reg.SchemaFromRef(s.Ref)
	}
	return s
}

// pointAtUser completes the refusal of a request that names no user with the place where this operation takes one.
func (in *input) pointAtUser(err error) error {
	f, ok := apierr.As(err)
	if !ok || len(f.Fields) > 0 || !errors.Is(err, identity.ErrUserRequired) {
		return err
	}
	if slices.ContainsFunc(in.params, func(p param) bool { return p.name == "user_id" }) {
		return f.At("query", "user_id")
	}
	return f.At("body", "/user_id")
}

// errNotFoundPath stops the reading of a request whose path cannot name anything.
var errNotFoundPath = apierr.NotFoundErr

// readParams fills the parameters and notes what is wrong with them.
func (in *input) readParams(r *http.Request, v reflect.Value, problems *apierr.List) error {
	if len(in.params) == 0 {
		return nil
	}
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			problems.AddField(apierr.Field{Code: "invalid_parameter", In: "query", Message: "The query string is not valid percent-encoded text."})
		}
	}
	for i := range in.params {
		p := &in.params[i]
		var text string
		if p.in == "path" {
			if text = r.PathValue(p.name); !plain(text) || len(text) > 255 {
				return errNotFoundPath
			}
		} else {
			switch values := query[p.name]; {
			case len(values) > 1:
				p.bad(problems, "The parameter is given more than once.")
				continue
			case len(values) == 1:
				if text = values[0]; !plain(text) {
					p.bad(problems, "The parameter is not valid text.")
					continue
				}
			default:
				if p.required {
					problems.AddField(apierr.Field{Code: "missing_field", In: p.in, Pointer: p.name, Message: "The parameter is required."})
					continue
				}
				if text = p.initial; text == "" {
					continue
				}
			}
		}
		if message := p.set(v.FieldByIndex(p.index), text); message != "" {
			if p.in == "path" {
				return errNotFoundPath
			}
			p.bad(problems, message)
		}
	}
	return nil
}

func (p *param) bad(problems *apierr.List, message string) {
	problems.AddField(apierr.Field{Code: "invalid_parameter", In: p.in, Pointer: p.name, Message: message})
}

var timeType = reflect.TypeFor[time.Time]()

// set stores the text and says what is wrong with it, "" when nothing is.
func (p *param) set(v reflect.Value, text string) string {
	switch {
	case v.Type() == timeType:
		t, err := parseTime(text)
		if err != nil {
			return "The parameter is a time in RFC 3339, such as 2026-01-31T00:00:00Z, or a date."
		}
		v.Set(reflect.ValueOf(t))
		return ""
	case v.Kind() == reflect.String:
		if message := checkString(p.schema, p.pattern, text); message != "" {
			return message
		}
		v.SetString(text)
		return ""
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return "The parameter is true or false."
		}
		v.SetBool(text == "true")
		return ""
	default: // newInput has seen to it that nothing else than an integer is left
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "The parameter is an integer."
		}
		if message := checkInt(p.schema, n); message != "" {
			return message
		}
		v.SetInt(n)
		return ""
	}
}

// plain says whether every part of the service, and both databases, can hold the text.
func plain(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err
}

// malformed is an error of syntax: nothing else can be said about such a body.
func malformed(format string, args ...any) *apierr.Fault {
	return errMalformed.Detailf(format, args...)
}

// readBody decodes a whole body into v in one pass and notes every problem of it. The error is one of syntax.
func (in *input) readBody(body []byte, v reflect.Value, problems *apierr.List) error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return malformed("The body is empty. It should be a JSON object.")
	}
	if err := scan(body); err != nil {
		return err
	}
	d := &decoder{Decoder: jsontext.NewDecoder(bytes.NewBuffer(body)), problems: problems}
	if err := in.decode(d, v.Field(in.body)); err != nil {
		return syntaxError(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("Something follows the JSON object. Send exactly one.")
	}
	return nil
}

func syntaxError(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return malformed("A member name occurs twice in one object.")
	case errors.As(err, &s):
		return malformed("The body is not valid JSON: see byte %d.", s.ByteOffset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return malformed("The body ends in the middle of the JSON.")
	}
	return malformed("The body is not valid JSON in UTF-8.")
}

// scan refuses what the JSON grammar allows and this interface does not: depth, and U+0000 in text. It runs over raw
// bytes before the decoder, so that it also sees what the decoder will skip.
func scan(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return malformed("The body nests deeper than %d.", maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] != '\\' {
					continue
				}
				if bytes.HasPrefix(body[i:], []byte(`\u0000`)) {
					return malformed("A string holds the character U+0000.")
				}
				i++
			}
		}
	}
	return nil
}

// decoder reads a body and notes its problems.
type decoder struct {
	*jsontext.Decoder
	problems *apierr.List
}

// decodeFunc reads the next value into v. It returns errors of syntax only; all other problems are noted.
type decodeFunc func(d *decoder, v reflect.Value) error

// note notes a problem of the value that was just read.
func (d *decoder) note(code, message string) {
	d.problems.Add(code, string(d.StackPointer()), message)
}

// object is the compiled reader of a struct.
type object struct {
	members map[string]*member
	order   []*member
}

type member struct {
	name     string
	index    int
	at       int
	required bool
	decode   decodeFunc
}

func compileStruct(reg huma.Registry, t reflect.Type, s *huma.Schema) *object {
	o := &object{members: map[string]*member{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		m := &member{name: name, index: i, at: len(o.order), required: slices.Contains(s.Required, name)}
		m.decode = compile(reg, f.Type, s.Properties[name])
		o.members[name] = m
		o.order = append(o.order, m)
	}
	if len(o.order) > 64 {
		panic(fmt.Sprintf("api: %s has more than 64 members", t))
	}
	return o
}

func (o *object) read(d *decoder, v reflect.Value) error {
	if ok, err := d.open('{', "The value is a JSON object."); !ok {
		return err
	}
	var seen uint64
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		m, ok := o.members[name.String()]
		if !ok {
			if err := d.SkipValue(); err != nil {
				return err
			}
			d.noteUnknown()
			continue
		}
		if d.PeekKind() == 'n' { // null is the same as absent
			if _, err := d.ReadToken(); err != nil {
				return err
			}
			continue
		}
		seen |= 1 << m.at
		if err := m.decode(d, v.Field(m.index)); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for _, m := range o.order {
		if m.required && seen&(1<<m.at) == 0 {
			d.problems.Add("missing_field", string(d.StackPointer().AppendToken(m.name)), "The member "+m.name+" is required.")
		}
	}
	return nil
}

// noteUnknown names the member that nobody knows. The name is the client's own text, so its length is bounded.
func (d *decoder) noteUnknown() {
	p := d.StackPointer()
	name := p.LastToken()
	if len(name) > 64 {
		p = p.Parent().AppendToken(strings.ToValidUTF8(name[:64], ""))
	}
	d.problems.Add("unknown_field", string(p), "There is no such member here. Check its spelling.")
}

// open steps into an object or array, or notes that there is another kind of value and steps over it.
func (d *decoder) open(kind jsontext.Kind, message string) (bool, error) {
	if d.PeekKind() != kind {
		return false, d.wrong(message)
	}
	_, err := d.ReadToken()
	return err == nil, err
}

// wrong steps over a value of the wrong type.
func (d *decoder) wrong(message string) error {
	if err := d.SkipValue(); err != nil {
		return err
	}
	d.note("invalid_type", message)
	return nil
}

var (
	decimalType = reflect.TypeFor[Decimal]()
	valueType   = reflect.TypeFor[jsontext.Value]()
)

// compile makes the reader of a type under the rules of a schema.
func compile(reg huma.Registry, t reflect.Type, s *huma.Schema) decodeFunc {
	s = resolve(reg, s)
	switch {
	case t.Kind() == reflect.Pointer:
		elem := compile(reg, t.Elem(), s)
		return func(d *decoder, v reflect.Value) error {
			v.Set(reflect.New(t.Elem()))
			return elem(d, v.Elem())
		}
	case t == decimalType:
		return readDecimal
	case t == valueType:
		return readObject
	}
	switch t.Kind() {
	case reflect.String:
		return readString(s)
	case reflect.Bool:
		return readBool
	case reflect.Int, reflect.Int64:
		return readInt(s)
	case reflect.Slice:
		return readSlice(s, compile(reg, t.Elem(), s.Items))
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return readStrings
		}
	case reflect.Struct:
		return compileStruct(reg, t, s).read
	default: // no wire shape has a member of another kind
	}
	panic(fmt.Sprintf("api: no reader for %s", t))
}

func readString(s *huma.Schema) decodeFunc {
	var pattern *regexp.Regexp
	if s.Pattern != "" {
		pattern = regexp.MustCompile(s.Pattern)
	}
	return func(d *decoder, v reflect.Value) error {
		if d.PeekKind() != '"' {
			return d.wrong("The value is a string.")
		}
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		text := t.String()
		if message := checkString(s, pattern, text); message != "" {
			d.note("invalid_parameter", message)
			return nil
		}
		v.SetString(text)
		return nil
	}
}

func readBool(d *decoder, v reflect.Value) error {
	if k := d.PeekKind(); k != 't' && k != 'f' {
		return d.wrong("The value is true or false.")
	}
	t, err := d.ReadToken()
	if err == nil {
		v.SetBool(t.Bool())
	}
	return err
}

func readInt(s *huma.Schema) decodeFunc {
	return func(d *decoder, v reflect.Value) error {
		if d.PeekKind() != '0' {
			return d.wrong("The value is an integer.")
		}
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(t.String(), 10, 64)
		if err != nil {
			d.note("invalid_type", "The value is an integer.")
			return nil //nolint:nilerr // a problem of the request, noted beside the others
		}
		if message := checkInt(s, n); message != "" {
			d.note("invalid_parameter", message)
			return nil
		}
		v.SetInt(n)
		return nil
	}
}

func readDecimal(d *decoder, v reflect.Value) error {
	if d.PeekKind() != '0' {
		return d.wrong("The value is a JSON number, not text.")
	}
	t, err := d.ReadToken()
	if err != nil {
		return err
	}
	text, ok := plainNumber(t.String())
	if !ok {
		d.note("amount_too_large", "The number has too many digits.")
		return nil
	}
	v.SetString(text)
	return nil
}

// readObject keeps an object as it is, for a reader further in that knows its members.
func readObject(d *decoder, v reflect.Value) error {
	if d.PeekKind() != '{' {
		return d.wrong("The value is a JSON object.")
	}
	raw, err := d.ReadValue()
	if err == nil {
		v.SetBytes(bytes.Clone(raw))
	}
	return err
}

// readStrings reads an object whose members are all strings, under names that only a reader further in knows.
func readStrings(d *decoder, v reflect.Value) error {
	if ok, err := d.open('{', "The value is a JSON object."); !ok {
		return err
	}
	members := reflect.MakeMap(v.Type())
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		switch d.PeekKind() {
		case 'n':
			_, err = d.ReadToken()
		case '"':
			var t jsontext.Token
			if t, err = d.ReadToken(); err == nil {
				members.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), reflect.ValueOf(t.String()).Convert(v.Type().Elem()))
			}
		default:
			err = d.wrong("The value is a string.")
		}
		if err != nil {
			return err
		}
	}
	v.Set(members)
	_, err := d.ReadToken()
	return err
}

func readSlice(s *huma.Schema, item decodeFunc) decodeFunc {
	least, most := 0, math.MaxInt
	if s.MinItems != nil {
		least = *s.MinItems
	}
	if s.MaxItems != nil {
		most = *s.MaxItems
	}
	return func(d *decoder, v reflect.Value) error {
		if ok, err := d.open('[', "The value is an array."); !ok {
			return err
		}
		n := 0
		for ; d.PeekKind() != ']'; n++ {
			if n >= most {
				if err := d.SkipValue(); err != nil {
					return err
				}
				continue
			}
			if n == v.Cap() {
				v.Grow(max(8, n)) // doubles, so that a long list is copied few times
			}
			v.SetLen(n + 1)
			if err := item(d, v.Index(n)); err != nil {
				return err
			}
		}
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch {
		case n < least:
			d.note("invalid_parameter", fmt.Sprintf("The array has at least %s.", count(least, "item")))
		case n > most:
			d.note("invalid_parameter", fmt.Sprintf("The array has at most %s.", count(most, "item")))
		}
		return nil
	}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// checkString says what is wrong with a string, "" when nothing is.
func checkString(s *huma.Schema, pattern *regexp.Regexp, text string) string {
	if s.MinLength != nil && utf8.RuneCountInString(text) < *s.MinLength {
		return "The text has at least " + count(*s.MinLength, "character") + "."
	}
	if s.MaxLength != nil && len(text) > *s.MaxLength && utf8.RuneCountInString(text) > *s.MaxLength {
		return "The text has at most " + count(*s.MaxLength, "character") + "."
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return e == text }) {
		choices := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			choices[i] = fmt.Sprint(e)
		}
		return "The value is one of: " + strings.Join(choices, ", ") + "."
	}
	if pattern != nil && !pattern.MatchString(text) {
		return "The text does not have the form " + s.Pattern + "."
	}
	if message := checkLine(s, text); message != "" {
		return message
	}
	switch s.Format {
	case "email":
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text || len(text) > 254 {
			return "The text is an email address, such as ada@example.com."
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return "The text is a date, such as 1990-12-31."
		}
	}
	return ""
}

// multiline is the format of text that may have several lines.
const multiline = "multiline"

// inCSV is the format of a text whose cells have readers of their own.
const inCSV = "csv"

// checkLine refuses text that does not read as it is written. Base64 has its own reader, and is too long to look at twice.
func checkLine(s *huma.Schema, text string) string {
	lines := s.Format == multiline
	bad := func(r rune) bool {
		return identity.Unprintable(r) && (!lines || r != '\n' && r != '\r' && r != '\t')
	}
	switch {
	case s.ContentEncoding != "" || s.Format == inCSV || !strings.ContainsFunc(text, bad):
		return ""
	case lines:
		return "The text has no control characters but line breaks and tabs."
	}
	return "The text is one line without control characters."
}

func checkInt(s *huma.Schema, n int64) string {
	if s.Minimum != nil && n < int64(*s.Minimum) {
		return fmt.Sprintf("The value is at least %d.", int64(*s.Minimum))
	}
	if s.Maximum != nil && n > int64(*s.Maximum) {
		return fmt.Sprintf("The value is at most %d.", int64(*s.Maximum))
	}
	return ""
}
