package api

import (
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
)

// document is the contract in its two spellings.
type document struct{ json, yaml []byte }

// describe makes the contract of a table (OpenAPI 3.1), and the reader of each route's input out of the very same schemas.
func describe(table []route) (document, []*input) {
	huma.DefaultArrayNullable = false // an answer without items has an empty array, a request's null is absence
	reg := huma.NewMapRegistry("#/components/schemas/", schemaName)
	reg.RegisterTypeAlias(valueType, reflect.TypeFor[map[string]any]())
	inputs := make([]*input, len(table))
	for i, rt := range table {
		inputs[i] = newInput(reg, rt.handler.in)
	}
	requests := map[string]bool{}
	for name := range reg.Map() {
		requests[name] = true
	}
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:       "Stipend",
			Version:     Version,
			Description: "Payroll and payments. Every answer is JSON; a success is always 200, an error has the form of Problem and an address that explains its code.",
		},
		Components: &huma.Components{
			Schemas: reg,
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"api_key": {Type: "http", Scheme: "basic", Description: "An API key, raw after Basic or as base64 of the key and a colon."},
				"oauth":   {Type: "http", Scheme: "bearer", Description: "An OAuth 2.0 access token."},
			},
		},
	}
	problemSchema := reg.Schema(reflect.TypeFor[problem](), true, "")
	for i, rt := range table {
		api.AddOperation(operation(reg, rt, inputs[i], problemSchema))
	}
	// An answer may carry more than the contract says, so that additions break nobody.
	for name, s := range reg.Map() {
		if !requests[name] {
			s.AdditionalProperties = nil
		}
	}
	asJSON, err := api.MarshalJSON()
	if err != nil {
		panic("api: the contract cannot be written: " + err.Error())
	}
	asYAML, err := api.YAML()
	if err != nil {
		panic("api: the contract cannot be written: " + err.Error())
	}
	return document{asJSON, asYAML}, inputs
}

// schemaName is the name of a Go type with a capital letter.
func schemaName(t reflect.Type, hint string) string {
	name := []rune(huma.DefaultSchemaNamer(t, hint))
	if len(name) > 0 {
		name[0] = unicode.ToUpper(name[0])
	}
	return string(name)
}

func operation(reg huma.Registry, rt route, in *input, problemSchema *huma.Schema) *huma.Operation {
	id := rt.name
	if id == "" {
		id = strings.ToLower(rt.method) + strings.Map(func(r rune) rune {
			if r == '/' || r == '{' || r == '}' {
				return '-'
			}
			return r
		}, rt.path)
	}
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: id, Summary: rt.summary, Tags: []string{tagOf(rt.path)},
		Responses: map[string]*huma.Response{
			"200": {Description: "Done.", Content: jsonContent(reg.Schema(rt.handler.out, true, schemaName(rt.handler.out, "")))},
			"default": {
				Description: "An error.",
				Content:     jsonContent(problemSchema),
			},
		},
	}
	for _, p := range in.params {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: p.name, In: p.in, Required: p.required, Schema: p.schema, Description: p.schema.Description,
		})
	}
	if rt.kind == write {
		least, most := 1, 255
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: "string", MinLength: &least, MaxLength: &most},
			Description: keyNote(rt.keyed),
		})
	}
	if in.body >= 0 {
		f := in.typ.Field(in.body)
		op.RequestBody = &huma.RequestBody{Required: true, Content: jsonContent(reg.Schema(f.Type, true, in.typ.Name()+"Body"))}
	}
	switch rt.scope {
	case public:
		op.Security = []map[string][]string{}
	default:
		var scopes []string
		if rt.scope != anyScope {
			scopes = []string{rt.scope}
			op.Description = "Scope: " + rt.scope + "."
		}
		op.Security = []map[string][]string{{"api_key": scopes}, {"oauth": scopes}}
	}
	return op
}

func keyNote(required bool) string {
	if required {
		return "Makes the request safe to repeat. Required with an API key."
	}
	return "Makes the request safe to repeat."
}

func jsonContent(s *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: s}}
}

// tagOf groups operations by the last fixed word that names a thing.
func tagOf(path string) string {
	for _, tag := range []string{"document", "distribution", "recipients", "workers", "payroll", "sandbox"} {
		if strings.Contains(path, "/"+tag) {
			return tag
		}
	}
	return "reference"
}

// methods are those that a table may use.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}

// checkTable says what is wrong with a table of routes, "" when nothing is. New refuses such a table at start.
func checkTable(table []route) string {
	wildcard := regexp.MustCompile(`\{(\w+)\}`)
	for i, rt := range table {
		at := "route " + strconv.Itoa(i) + " (" + rt.method + " " + rt.path + ") "
		switch {
		case !slices.Contains(methods, rt.method):
			return at + "has an unknown method"
		case rt.scope == "":
			return at + "names no scope"
		case rt.kind != read && rt.method == http.MethodGet:
			return at + "has a method that does not fit its kind"
		case rt.scope == anyScope && !rt.sandbox:
			return at + "is open to any credential outside of the sandbox"
		case rt.scope == public && rt.kind != read:
			return at + "writes without a credential"
		case rt.handler.run == nil:
			return at + "has no handler"
		}
		for _, m := range wildcard.FindAllStringSubmatch(rt.path, -1) {
			found := slices.ContainsFunc(reflect.VisibleFields(rt.handler.in), func(f reflect.StructField) bool { return f.Tag.Get("path") == m[1] })
			if !found {
				return at + "does not read " + m[1]
			}
		}
	}
	return ""
}
