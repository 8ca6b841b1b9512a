package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/mail"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
)

// maxFilterKeys is the maximum number of keys in query parameters of the form name[key]=value.
const maxFilterKeys = 10

// maxDepth is the maximum nesting depth of a request body.
const maxDepth = 32

// input decodes requests into a Go struct: path, query and header parameters into tagged fields, and the JSON body
// into the field Body. It checks values against the schemas of the contract, so that the documented rules are the
// enforced ones.
type input struct {
	typ     reflect.Type
	params  []param
	body    int          // index of the field Body, -1 for none
	schema  *huma.Schema // schema of Body, with references resolved
	company []int        // index of the field company_id, nil for none
}

// param is a path, query or header parameter.
type param struct {
	name, in string
	index    []int
	schema   *huma.Schema
	required bool
	initial  string // default value
}

// newInput returns the decoder of a struct type. It panics if a schema and its Go value have different types.
func newInput(reg huma.Registry, t reflect.Type) *input {
	in := &input{typ: t, body: -1}
	for _, f := range reflect.VisibleFields(t) {
		if f.Name == "Body" {
			in.body = f.Index[0]
			in.schema = inline(reg, reg.Schema(f.Type, true, t.Name()+"Body"))
			requireTypes(in.schema, f.Type, t.Name()+".Body")
			for _, member := range reflect.VisibleFields(f.Type) {
				if name, _, _ := strings.Cut(member.Tag.Get("json"), ","); name == "company_id" {
					in.company = slices.Concat(f.Index, member.Index)
				}
			}
		}
		for _, place := range []string{"path", "query", "header"} {
			name, ok := f.Tag.Lookup(place)
			if !ok {
				continue
			}
			s := huma.SchemaFromField(reg, f, "")
			requireTypes(s, f.Type, t.Name()+"."+f.Name)
			if s.Description == "" {
				s.Description = typeFieldDocs[declaringType(t, f).Name()][name]
			}
			in.params = append(in.params, param{
				name, place, f.Index, s, place == "path" || f.Tag.Get("required") == "true", f.Tag.Get("default"),
			})
			if name == "company_id" {
				in.company = f.Index
			}
		}
	}
	return in
}

// requireTypes panics unless a schema, and the schemas of its members, have the types of their Go values. A value
// whose schema has no type would be decoded without a check.
func requireTypes(s *huma.Schema, t reflect.Type, at string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := map[reflect.Kind]string{
		reflect.Bool: huma.TypeBoolean, reflect.Int: huma.TypeInteger, reflect.Int64: huma.TypeInteger,
		reflect.String: huma.TypeString, reflect.Slice: huma.TypeArray, reflect.Struct: huma.TypeObject,
		reflect.Map: huma.TypeObject,
	}[t.Kind()]
	switch t {
	case reflect.TypeFor[Decimal]():
		want = huma.TypeNumber
	case reflect.TypeFor[jsontext.Value]():
		want = huma.TypeObject
	case reflect.TypeFor[time.Time](), reflect.TypeFor[[]byte]():
		want = huma.TypeString
	}
	if s == nil || s.Type != want || want == "" {
		panic(fmt.Sprintf("httpapi: the schema of %s has not the type %q of %s", at, want, t))
	}
	switch {
	case want == huma.TypeArray:
		requireTypes(s.Items, t.Elem(), at+"[]")
	case want == huma.TypeObject && t.Kind() == reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
				requireTypes(s.Properties[name], f.Type, at+"."+f.Name)
			}
		}
	}
}

func resolve(reg huma.Registry, s *huma.Schema) *huma.Schema {
	for s.Ref != "" {
		s = reg.SchemaFromRef(s.Ref)
	}
	return s
}

// inline returns a copy of a schema with its references resolved. The registry must not be read while requests are
// served, because generating the contract writes to it.
func inline(reg huma.Registry, s *huma.Schema) *huma.Schema {
	c := *resolve(reg, s)
	if c.Items != nil {
		c.Items = inline(reg, c.Items)
	}
	c.Properties = maps.Clone(c.Properties)
	for name, member := range c.Properties {
		c.Properties[name] = inline(reg, member)
	}
	return &c
}

// locateUser adds the place of user_id in this operation, the query or the body, to identity.ErrUserRequired. It
// returns other errors unchanged.
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

// readParams decodes the parameters into v and records their problems. It returns not_found if the value of a path
// parameter cannot be an ID.
func (in *input) readParams(r *http.Request, v reflect.Value, problems *apierr.List) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil && len(in.params) > 0 {
		problems.AddField(apierr.Field{
			Code: "invalid_parameter", In: "query", Message: "The query string is not valid percent-encoded text.",
		})
	}
	for _, p := range in.params {
		if p.schema.Type == huma.TypeObject {
			readTexts(p.name, query, v.FieldByIndex(p.index), problems)
			continue
		}
		field, values := v.FieldByIndex(p.index), query[p.name]
		if p.in == "header" {
			values = r.Header.Values(p.name)
		}
		if p.in == "path" {
			text := r.PathValue(p.name)
			if !validText(text) || len(text) > 255 || p.set(field, text) != "" {
				return apierr.NotFoundErr
			}
			continue
		}
		code, message := "invalid_parameter", ""
		switch {
		case len(values) > 1:
			message = "The parameter is given more than once. Send it once."
		case len(values) == 1 && !validText(values[0]):
			message = "The parameter must be valid UTF-8 text without U+0000."
		case len(values) == 1:
			message = p.set(field, values[0])
		case p.required:
			code, message = "missing_field", "The parameter is required."
		case p.initial != "":
			message = p.set(field, p.initial)
		}
		if message != "" {
			problems.AddField(apierr.Field{Code: code, In: p.in, Pointer: p.name, Message: message})
		}
	}
	return nil
}

// readTexts decodes query parameters of the form name[key]=value into a map.
func readTexts(name string, query url.Values, to reflect.Value, problems *apierr.List) {
	all := map[string]string{}
	for parameter, values := range query {
		key, ok := strings.CutPrefix(parameter, name+"[")
		if !ok || !strings.HasSuffix(key, "]") {
			continue
		}
		message := ""
		switch {
		case len(values) > 1:
			message = "The parameter is given more than once for a key. Send it once."
		case !validText(key) || !validText(values[0]):
			message = "The parameter must be valid UTF-8 text without U+0000."
		case len(all) == maxFilterKeys:
			message = fmt.Sprintf("The parameter has more than %d keys.", maxFilterKeys)
		default:
			all[strings.TrimSuffix(key, "]")] = values[0]
		}
		if message != "" {
			problems.AddField(apierr.Field{Code: "invalid_parameter", In: "query", Pointer: name, Message: message})
			return
		}
	}
	if _, plain := query[name]; plain {
		problems.AddField(apierr.Field{Code: "invalid_parameter", In: "query", Pointer: name,
			Message: "The parameter has a key: " + name + "[key]=value."})
	}
	to.Set(reflect.ValueOf(all))
}

// set stores the value of a parameter. It returns "", or a message if the value is invalid.
func (p *param) set(v reflect.Value, text string) (message string) {
	switch to := v.Addr().Interface().(type) {
	case *time.Time:
		t, err := parseTime(text)
		if err != nil {
			return "The parameter must be an RFC 3339 time, for example 2026-01-31T00:00:00Z, or a date."
		}
		*to = t
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return "The parameter must be an integer."
		}
		*to, message = n, checkInt(p.schema, int64(n))
	case *bool:
		if *to = text == "true"; !*to && text != "false" {
			return "The parameter must be true or false."
		}
	default:
		v.SetString(text)
		message = checkString(p.schema, text)
	}
	return message
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

// readBody decodes a body into v and records its problems. It returns an error only if the body is not a single JSON
// value. It parses the body twice: first to find every problem and its place, then, if there is none, to decode the
// values.
func (in *input) readBody(body []byte, v reflect.Value, problems *apierr.List) error {
	if len(bytes.TrimLeft(body, " \t\r\n")) == 0 {
		return errMalformed.Detailf("The body is empty. Send a JSON object.")
	}
	if hasNUL(body) {
		return errMalformed.Detailf("A string contains the character U+0000.")
	}
	c := &checker{jsontext.NewDecoder(bytes.NewBuffer(body)), problems}
	if err := c.check(in.schema); err != nil {
		return syntaxError(err)
	}
	if _, err := c.ReadToken(); !errors.Is(err, io.EOF) {
		return errMalformed.Detailf("The body continues after the JSON object. Send exactly one object.")
	}
	if !problems.Empty() {
		return nil
	}
	if err := json.Unmarshal(body, v.Field(in.body).Addr().Interface()); err != nil {
		return fmt.Errorf("decode a checked body: %w", err)
	}
	return nil
}

// hasNUL reports whether a string in a JSON text contains U+0000, as an escape.
func hasNUL(body []byte) bool {
	for {
		before, after, found := bytes.Cut(body, []byte(`\u0000`))
		backslashes := len(before) - len(bytes.TrimRight(before, `\`))
		if !found || backslashes%2 == 0 {
			return found
		}
		body = after
	}
}

func syntaxError(err error) error {
	var s *jsontext.SyntacticError
	switch _, declared := apierr.As(err); {
	case declared:
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		return errMalformed.Detailf("An object contains the same member twice.")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errMalformed.Detailf("The body ends before the JSON object is complete.")
	case errors.As(err, &s):
		return errMalformed.Detailf("The body is not valid JSON. The error is at byte %d.", s.ByteOffset)
	}
	return errMalformed.Detailf("The body is not valid JSON in UTF-8.")
}

// checker compares a request body with its schema and records the problems.
type checker struct {
	*jsontext.Decoder
	problems *apierr.List
}

// skip reads and ignores the next value, including its members.
func (c *checker) skip() error {
	for depth := c.StackDepth(); ; {
		if _, err := c.ReadToken(); err != nil {
			return err
		}
		switch {
		case c.StackDepth() > maxDepth:
			return errMalformed.Detailf("The body is nested deeper than %d levels.", maxDepth)
		case c.StackDepth() <= depth:
			return nil
		}
	}
}

// note records a problem with the value just read, unless message is empty.
func (c *checker) note(code, message string) {
	if message != "" {
		c.problems.Add(code, string(c.StackPointer()), message)
	}
}

// jsonTypes contains, for each type of a schema, the kinds of its JSON tokens and the message for a value of another
// type.
var jsonTypes = map[string]struct{ kinds, message string }{
	huma.TypeObject:  {"{", "The value must be a JSON object."},
	huma.TypeArray:   {"[", "The value must be an array."},
	huma.TypeString:  {`"`, "The value must be a string."},
	huma.TypeBoolean: {"tf", "The value must be true or false."},
	huma.TypeInteger: {"0", "The value must be an integer."},
	huma.TypeNumber:  {"0", "The value must be a JSON number, not a string."},
}

// check reads the next value and records how it differs from its schema. It returns an error only for invalid JSON
// syntax.
func (c *checker) check(s *huma.Schema) error {
	want := jsonTypes[s.Type]
	if kind := c.PeekKind(); !strings.ContainsRune(want.kinds, rune(kind)) || kind == 0 {
		if err := c.skip(); err != nil {
			return err
		}
		c.note("invalid_type", want.message)
		return nil
	}
	switch {
	case s.Type == huma.TypeObject && hasTexts(s):
		return c.checkTexts()
	case s.Type == huma.TypeObject && s.AdditionalProperties != false: // the domain checks its members
		return c.skip()
	case s.Type == huma.TypeObject:
		return c.checkObject(s)
	case s.Type == huma.TypeArray:
		return c.checkArray(s)
	}
	t, err := c.ReadToken()
	if err != nil || s.Type == huma.TypeBoolean {
		return err
	}
	text := t.String()
	switch s.Type {
	case huma.TypeString:
		c.note("invalid_parameter", checkString(s, text))
	case huma.TypeInteger:
		if n, err := strconv.ParseInt(text, 10, 64); err != nil {
			c.note("invalid_type", want.message)
		} else {
			c.note("invalid_parameter", checkInt(s, n))
		}
	case huma.TypeNumber:
		if _, ok := plainNumber(text); !ok {
			c.note("amount_too_large", "The number has too many digits.")
		}
	}
	return nil
}

// hasTexts reports whether a schema describes an object with members of any name whose values are strings.
func hasTexts(s *huma.Schema) bool {
	value, ok := s.AdditionalProperties.(*huma.Schema)
	return ok && value.Type == huma.TypeString
}

// checkTexts checks an object with members of any name whose values must be strings.
func (c *checker) checkTexts() error {
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	at, onlyTexts := string(c.StackPointer()), true
	for c.PeekKind() != '}' {
		if _, err := c.ReadToken(); err != nil {
			return err
		}
		onlyTexts = onlyTexts && c.PeekKind() == '"'
		if err := c.skip(); err != nil {
			return err
		}
	}
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	if !onlyTexts {
		c.problems.Add("invalid_parameter", at, "The value must be an object whose values are strings.")
	}
	return nil
}

func (c *checker) checkObject(s *huma.Schema) error {
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	seen := make([]bool, len(s.Required))
	for c.PeekKind() != '}' {
		t, err := c.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		member := s.Properties[name]
		switch {
		case member == nil:
			err = c.skip()
			c.noteUnknown()
		case c.PeekKind() == 'n': // null means absent
			err = c.skip()
		default:
			if i := slices.Index(s.Required, name); i >= 0 {
				seen[i] = true
			}
			err = c.check(member)
		}
		if err != nil {
			return err
		}
	}
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	for i, name := range s.Required {
		if !seen[i] {
			c.problems.Add("missing_field", string(c.StackPointer().AppendToken(name)), "The field "+name+" is required.")
		}
	}
	return nil
}

// noteUnknown records an unknown member. It shortens the member's name, which can be of any length.
func (c *checker) noteUnknown() {
	p := c.StackPointer()
	if name := p.LastToken(); len(name) > 64 {
		p = p.Parent().AppendToken(strings.ToValidUTF8(name[:64], ""))
	}
	c.problems.Add("unknown_field", string(p), "This field is unknown. Check its spelling.")
}

func (c *checker) checkArray(s *huma.Schema) error {
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	n := 0
	for ; c.PeekKind() != ']'; n++ {
		check := func() error { return c.check(s.Items) }
		if s.MaxItems != nil && n >= *s.MaxItems {
			check = c.skip
		}
		if err := check(); err != nil {
			return err
		}
	}
	if _, err := c.ReadToken(); err != nil {
		return err
	}
	if s.MinItems != nil && n < *s.MinItems {
		c.note("invalid_parameter", "The array must have at least "+count(*s.MinItems, "item")+".")
	}
	if s.MaxItems != nil && n > *s.MaxItems {
		c.note("invalid_parameter", "The array must have at most "+count(*s.MaxItems, "item")+".")
	}
	return nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Formats of strings that are not a single line of text.
const (
	multiline = "multiline" // may contain line breaks and tabs
	inCSV     = "csv"       // a CSV file, whose cells are checked separately
	inCountry = "country"   // the code of a country, which the domain checks
)

// checkString returns a message if text violates its schema, or "".
func checkString(s *huma.Schema, text string) string {
	if s.Format == inCountry && text != "" && text == strings.TrimSpace(text) {
		return "" // identity.Country reports a wrong code together with the other problems of a person
	}
	if s.MinLength != nil && utf8.RuneCountInString(text) < *s.MinLength {
		return "The text must have at least " + count(*s.MinLength, "character") + "."
	}
	if s.MaxLength != nil && len(text) > *s.MaxLength && utf8.RuneCountInString(text) > *s.MaxLength {
		return "The text must have at most " + count(*s.MaxLength, "character") + "."
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(text)) {
		return "The value must be one of: " + strings.Join(strings.Fields(fmt.Sprintln(s.Enum...)), ", ") + "."
	}
	if s.ContentEncoding != "" || s.Format == inCSV {
		return "" // the decoder of the value checks it
	}
	isBad := func(r rune) bool {
		return identity.Unprintable(r) && (s.Format != multiline || !strings.ContainsRune("\r\n\t", r))
	}
	if strings.ContainsFunc(text, isBad) {
		if s.Format == multiline {
			return "The text must not contain control characters other than line breaks and tabs."
		}
		return "The text must be one line without control characters."
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
	case "date-time":
		if new(time.Time).UnmarshalText([]byte(text)) != nil {
			return "The text must be an RFC 3339 time, for example 2026-01-31T00:00:00Z."
		}
	}
	return ""
}

// checkInt returns a message if an integer is outside the range of its schema, or "".
func checkInt(s *huma.Schema, n int64) string {
	if s.Minimum != nil && n < int64(*s.Minimum) {
		return fmt.Sprintf("The value must be at least %d.", int64(*s.Minimum))
	}
	if s.Maximum != nil && n > int64(*s.Maximum) {
		return fmt.Sprintf("The value must be at most %d.", int64(*s.Maximum))
	}
	return ""
}
