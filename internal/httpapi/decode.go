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

// maxDepth is the maximum nesting depth of a body.
const maxDepth = 32

// input decodes a request into a Go type: path and query parameters into tagged fields, and the JSON body into the
// field Body. Values are validated by the schemas that the contract publishes, so the documented rules are the
// enforced rules.
type input struct {
	typ    reflect.Type
	params []param
	body   int // index of Body, -1 for none
	decode decodeFunc
	root   *object
	// company is the index of the field company_id, or nil if the input has none.
	company []int
}

// param is a path or query parameter.
type param struct {
	name, in string
	index    []int
	schema   *huma.Schema
	required bool
	pattern  *regexp.Regexp
	initial  string // default value
}

// newInput returns the decoder of a type. It panics on a type that it does not support.
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
			if s.Description == "" {
				s.Description = typeFieldDocs[declaringType(t, f).Name()][name]
			}
			p := param{
				name: name, in: place, index: f.Index, schema: s, required: place == "path" || f.Tag.Get("required") == "true",
			}
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

// locateUser completes identity.ErrUserRequired with the place of user_id in this operation.
func (in *input) locateUser(err error) error {
	f, ok := apierr.As(err)
	if !ok || len(f.Fields) > 0 || !errors.Is(err, identity.ErrUserRequired) {
		return err
	}
	if slices.ContainsFunc(in.params, func(p param) bool { return p.name == "user_id" }) {
		return f.At("query", "user_id")
	}
	return f.At("body", "/user_id")
}

// errNotFoundPath is the error of a path parameter that cannot be an ID.
var errNotFoundPath = apierr.NotFoundErr

// readParams decodes the parameters and records their problems.
func (in *input) readParams(r *http.Request, v reflect.Value, problems *apierr.List) error {
	if len(in.params) == 0 {
		return nil
	}
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			problems.AddField(apierr.Field{
				Code: "invalid_parameter", In: "query", Message: "The query string is not valid percent-encoded text.",
			})
		}
	}
	for i := range in.params {
		p := &in.params[i]
		var text string
		if p.in == "path" {
			if text = r.PathValue(p.name); !validText(text) || len(text) > 255 {
				return errNotFoundPath
			}
		} else {
			switch values := query[p.name]; {
			case len(values) > 1:
				p.bad(problems, "The parameter is given more than once. Send it once.")
				continue
			case len(values) == 1:
				if text = values[0]; !validText(text) {
					p.bad(problems, "The parameter must be valid UTF-8 text without U+0000.")
					continue
				}
			default:
				if p.required {
					problems.AddField(apierr.Field{
						Code: "missing_field", In: p.in, Pointer: p.name, Message: "The parameter is required.",
					})
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

// set stores a value. It returns a message if the value is invalid, or "".
func (p *param) set(v reflect.Value, text string) string {
	switch {
	case v.Type() == timeType:
		t, err := parseTime(text)
		if err != nil {
			return "The parameter must be an RFC 3339 time, for example 2026-01-31T00:00:00Z, or a date."
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
			return "The parameter must be true or false."
		}
		v.SetBool(text == "true")
		return ""
	default: // an integer: newInput supports no other type
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "The parameter must be an integer."
		}
		if message := checkInt(p.schema, n); message != "" {
			return message
		}
		v.SetInt(n)
		return ""
	}
}

// validText reports whether s is valid UTF-8 without U+0000, which PostgreSQL cannot store.
func validText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func parseTime(text string) (time.Time, error) {
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UTC(), err
}

// malformed returns a syntax error.
func malformed(format string, args ...any) *apierr.Fault {
	return errMalformed.Detailf(format, args...)
}

// readBody decodes a body into v and records its problems. It returns an error only if the syntax is wrong.
func (in *input) readBody(body []byte, v reflect.Value, problems *apierr.List) error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return malformed("The body is empty. Send a JSON object.")
	}
	if err := checkRaw(body); err != nil {
		return err
	}
	d := &decoder{Decoder: jsontext.NewDecoder(bytes.NewBuffer(body)), problems: problems}
	if err := in.decode(d, v.Field(in.body)); err != nil {
		return syntaxError(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return malformed("The body continues after the JSON object. Send exactly one object.")
	}
	return nil
}

func syntaxError(err error) error {
	var s *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return malformed("An object contains the same member twice.")
	case errors.As(err, &s):
		return malformed("The body is not valid JSON. The error is at byte %d.", s.ByteOffset)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return malformed("The body ends before the JSON object is complete.")
	}
	return malformed("The body is not valid JSON in UTF-8.")
}

// checkRaw rejects valid JSON that the API does not accept: deep nesting and U+0000 in strings. It also covers
// members that the decoder skips.
func checkRaw(body []byte) error {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return malformed("The body is nested deeper than %d levels.", maxDepth)
			}
		case '}', ']':
			depth--
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] != '\\' {
					continue
				}
				if bytes.HasPrefix(body[i:], []byte(`\u0000`)) {
					return malformed("A string contains the character U+0000.")
				}
				i++
			}
		}
	}
	return nil
}

// decoder reads a body and records its problems.
type decoder struct {
	*jsontext.Decoder
	problems *apierr.List
}

// decodeFunc decodes the next value into v. It returns syntax errors only and records other problems.
type decodeFunc func(d *decoder, v reflect.Value) error

// note records a problem of the value just read.
func (d *decoder) note(code, message string) {
	d.problems.Add(code, string(d.StackPointer()), message)
}

// object decodes a struct.
type object struct {
	members map[string]*member
	order   []*member
}

type member struct {
	name     string
	index    int
	bit      int // in the set of members seen
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
		m := &member{name: name, index: i, bit: len(o.order), required: slices.Contains(s.Required, name)}
		m.decode = compile(reg, f.Type, s.Properties[name])
		o.members[name] = m
		o.order = append(o.order, m)
	}
	if len(o.order) > 64 {
		panic(fmt.Sprintf("httpapi: %s has more than 64 members", t))
	}
	return o
}

func (o *object) read(d *decoder, v reflect.Value) error {
	if ok, err := d.open('{', "The value must be a JSON object."); !ok {
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
		if d.PeekKind() == 'n' { // null means absent
			if _, err := d.ReadToken(); err != nil {
				return err
			}
			continue
		}
		seen |= 1 << m.bit
		if err := m.decode(d, v.Field(m.index)); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for _, m := range o.order {
		if m.required && seen&(1<<m.bit) == 0 {
			d.problems.Add("missing_field", string(d.StackPointer().AppendToken(m.name)), "The field "+m.name+" is required.")
		}
	}
	return nil
}

// noteUnknown records an unknown member. It shortens the name, which is chosen by the client.
func (d *decoder) noteUnknown() {
	p := d.StackPointer()
	name := p.LastToken()
	if len(name) > 64 {
		p = p.Parent().AppendToken(strings.ToValidUTF8(name[:64], ""))
	}
	d.problems.Add("unknown_field", string(p), "This field is unknown. Check its spelling.")
}

// open enters an object or array. If the value has another type, it records that and skips the value.
func (d *decoder) open(kind jsontext.Kind, message string) (bool, error) {
	if d.PeekKind() != kind {
		return false, d.wrongType(message)
	}
	_, err := d.ReadToken()
	return err == nil, err
}

// wrongType skips a value of the wrong type and records it.
func (d *decoder) wrongType(message string) error {
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

// compile returns the decoder of a type with the rules of a schema.
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
	default: // not supported
	}
	panic(fmt.Sprintf("httpapi: no reader for %s", t))
}

func readString(s *huma.Schema) decodeFunc {
	var pattern *regexp.Regexp
	if s.Pattern != "" {
		pattern = regexp.MustCompile(s.Pattern)
	}
	return func(d *decoder, v reflect.Value) error {
		if d.PeekKind() != '"' {
			return d.wrongType("The value must be a string.")
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
		return d.wrongType("The value must be true or false.")
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
			return d.wrongType("The value must be an integer.")
		}
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(t.String(), 10, 64)
		if err != nil {
			d.note("invalid_type", "The value must be an integer.")
			return nil //nolint:nilerr // recorded as a problem of the request
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
		return d.wrongType("The value must be a JSON number, not a string.")
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

// readObject stores an object undecoded, for a domain function that knows its members.
func readObject(d *decoder, v reflect.Value) error {
	if d.PeekKind() != '{' {
		return d.wrongType("The value must be a JSON object.")
	}
	raw, err := d.ReadValue()
	if err == nil {
		v.SetBytes(bytes.Clone(raw))
	}
	return err
}

// readStrings decodes an object of strings with arbitrary member names.
func readStrings(d *decoder, v reflect.Value) error {
	if ok, err := d.open('{', "The value must be a JSON object."); !ok {
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
				members.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()),
					reflect.ValueOf(t.String()).Convert(v.Type().Elem()))
			}
		default:
			err = d.wrongType("The value must be a string.")
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
		if ok, err := d.open('[', "The value must be an array."); !ok {
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
				v.Grow(max(8, n)) // doubles the capacity
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
			d.note("invalid_parameter", fmt.Sprintf("The array must have at least %s.", count(least, "item")))
		case n > most:
			d.note("invalid_parameter", fmt.Sprintf("The array must have at most %s.", count(most, "item")))
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

// checkString returns a message if a string violates its schema, or "".
func checkString(s *huma.Schema, pattern *regexp.Regexp, text string) string {
	if s.MinLength != nil && utf8.RuneCountInString(text) < *s.MinLength {
		return "The text must have at least " + count(*s.MinLength, "character") + "."
	}
	if s.MaxLength != nil && len(text) > *s.MaxLength && utf8.RuneCountInString(text) > *s.MaxLength {
		return "The text must have at most " + count(*s.MaxLength, "character") + "."
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return e == text }) {
		choices := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			choices[i] = fmt.Sprint(e)
		}
		return "The value must be one of: " + strings.Join(choices, ", ") + "."
	}
	if pattern != nil && !pattern.MatchString(text) {
		return "The text must match " + s.Pattern + "."
	}
	if message := checkLine(s, text); message != "" {
		return message
	}
	switch s.Format {
	case "email":
		if a, err := mail.ParseAddress(text); err != nil || a.Address != text || len(text) > 254 {
			return "The text must be an email address, for example ada@example.com."
		}
	case "date":
		if _, err := time.Parse(time.DateOnly, text); err != nil {
			return "The text must be a date, for example 1990-12-31."
		}
	}
	return ""
}

// multiline is the format of text that may contain line breaks.
const multiline = "multiline"

// inCSV is the format of a CSV file, whose cells are validated separately.
const inCSV = "csv"

// checkLine rejects text with control or invisible characters. Base64 is validated by its decoder.
func checkLine(s *huma.Schema, text string) string {
	lines := s.Format == multiline
	bad := func(r rune) bool {
		return identity.Unprintable(r) && (!lines || r != '\n' && r != '\r' && r != '\t')
	}
	switch {
	case s.ContentEncoding != "" || s.Format == inCSV || !strings.ContainsFunc(text, bad):
		return ""
	case lines:
		return "The text must not contain control characters other than line breaks and tabs."
	}
	return "The text must be one line without control characters."
}

func checkInt(s *huma.Schema, n int64) string {
	if s.Minimum != nil && n < int64(*s.Minimum) {
		return fmt.Sprintf("The value must be at least %d.", int64(*s.Minimum))
	}
	if s.Maximum != nil && n > int64(*s.Maximum) {
		return fmt.Sprintf("The value must be at most %d.", int64(*s.Maximum))
	}
	return ""
}
