package httpapi

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stipend/stipend/internal/webhook"
)

// exampleTime is the time used in examples.
const exampleTime = "2026-09-30T14:05:00Z"

// describeMembers adds descriptions and examples to the members of a schema that have none. t is the struct from
// which the schema was generated, or nil.
func describeMembers(t reflect.Type, s *huma.Schema, request bool) {
	if t != nil && t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member := s.Properties[name]; member != nil && member.Description == "" {
				describePayloadMember(webhook.MemberDocs[declaringType(t, f)][name], member)
				member.Description = cmp.Or(member.Description, typeFieldDocs[declaringType(t, f).Name()][name])
			}
		}
	}
	for name, member := range s.Properties {
		describeMember(name, member, request && !isRequired(s, name))
	}
}

// describePayloadMember adds the documentation of a member of a webhook payload to its schema.
func describePayloadMember(doc webhook.MemberDoc, s *huma.Schema) {
	s.Description = doc.Doc
	if doc.Example != "" {
		s.Examples = []any{json.RawMessage(doc.Example)}
	}
	for _, value := range doc.Values {
		s.Enum = append(s.Enum, value)
	}
}

// declaringType returns the struct that declares a visible field of t: t itself or an embedded struct.
func declaringType(t reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

// ownCompany is appended to the description of an optional company_id in a request.
const ownCompany = " Default: the company that the credential acts for. Any other is rejected."

func describeMember(name string, s *huma.Schema, optional bool) {
	w := fieldDocs[name]
	if s.Description == "" {
		s.Description = w.doc
		if optional && name == "company_id" {
			s.Description += ownCompany
		}
	}
	if len(s.Examples) > 0 || s.Ref != "" || s.Type == huma.TypeObject && len(s.Properties) > 0 {
		return
	}
	if w.example != "" && fits(s, w.example) {
		s.Examples = []any{json.RawMessage(w.example)}
	}
}

// fits reports whether an example matches the schema. It may not, because a field can be a number in one place and a
// string in another.
func fits(s *huma.Schema, example string) bool {
	kind := map[byte]string{'"': huma.TypeString, '{': huma.TypeObject, '[': huma.TypeArray, 't': huma.TypeBoolean,
		'f': huma.TypeBoolean}[example[0]]
	if kind == "" {
		return s.Type == huma.TypeNumber || s.Type == huma.TypeInteger
	}
	if s.Type != kind {
		return false
	}
	if kind != huma.TypeString {
		return kind != huma.TypeArray || example == "[]" || s.Items != nil && s.Items.Type == huma.TypeString &&
			len(s.Items.Enum) == 0
	}
	var text string
	return json.Unmarshal([]byte(example), &text) == nil && checkString(s, text) == "" && s.Format != "date-time"
}

// exampleOf returns an example of a schema, built from the examples of its members. An example of a request contains
// only the required members, an example of a response all members.
func exampleOf(reg huma.Registry, s *huma.Schema, request bool) any {
	if len(s.Examples) > 0 {
		return s.Examples[0]
	}
	s = resolve(reg, s)
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 1 && s.Enum[0] == "":
		return s.Enum[1] // prefers a value that is not empty
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case huma.TypeObject:
		members := map[string]any{}
		for name, m := range s.Properties {
			if !request || isRequired(s, name) {
				members[name] = exampleOf(reg, m, request)
			}
		}
		return members
	case huma.TypeArray:
		return []any{exampleOf(reg, s.Items, request)}
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	}
	switch s.Format {
	case "date-time":
		return exampleTime
	case "date":
		return exampleTime[:len("2026-09-30")]
	case "email":
		return "ada@example.com"
	case "uri":
		return "https://example.com"
	}
	if s.MinLength != nil {
		return strings.Repeat("x", *s.MinLength)
	}
	return ""
}

func isRequired(s *huma.Schema, name string) bool { return slices.Contains(s.Required, name) }
