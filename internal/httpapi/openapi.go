package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// openAPI holds the contract as JSON and YAML, each also compressed with gzip.
type openAPI struct{ json, yaml, jsonGzip, yamlGzip []byte }

// compiled returns the result of compileRoutes for the service's routes. Its first call in a process takes about two
// seconds of CPU time.
var compiled = sync.OnceValues(func() (func() openAPI, []*input) { return compileRoutes(routes) })

// compile returns the result of compileRoutes. For the service's own routes it returns the shared result of compiled.
func compile(table []route) (write func() openAPI, inputs []*input) {
	if slices.EqualFunc(table, routes, func(a, b route) bool {
		return a.method == b.method && a.path == b.path && a.handler.in == b.handler.in && a.handler.out == b.handler.out
	}) {
		return compiled()
	}
	return compileRoutes(table)
}

// compileRoutes returns the decoders of the routes, and a function that generates their contract (OpenAPI 3.1) from
// the same schemas.
func compileRoutes(table []route) (write func() openAPI, inputs []*input) {
	reg := newRegistry()
	inputs = make([]*input, len(table))
	for i, rt := range table {
		inputs[i] = newInput(reg, rt.handler.in)
	}
	return sync.OnceValue(func() openAPI { return writeContract(reg, table, inputs) }), inputs
}

// schemaPrefix is the beginning of a reference to a schema.
const schemaPrefix = "#/components/schemas/"

// newRegistry returns an empty registry of schemas.
func newRegistry() huma.Registry {
	huma.DefaultArrayNullable = false // an empty list is sent as an empty array; null in a request means absent
	reg := huma.NewMapRegistry(schemaPrefix, schemaName)
	reg.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[map[string]any]())
	reg.RegisterTypeAlias(reflect.TypeFor[money.Amount](), reflect.TypeFor[Decimal]())
	reg.RegisterTypeAlias(reflect.TypeFor[money.Rate](), reflect.TypeFor[Decimal]())
	return reg
}

func writeContract(reg huma.Registry, table []route, inputs []*input) openAPI {
	requests := map[string]bool{}
	for name := range reg.Map() {
		requests[name] = true
	}
	for _, rt := range table {
		if rt.handler.paysBy402() {
			reg.Schema(reflect.TypeFor[paymentStatus](), true, "")
			reg.Schema(reflect.TypeFor[PaymentRequired](), true, "")
		} else if !rt.handler.sendsFile() {
			reg.Schema(rt.handler.out, true, schemaName(rt.handler.out, ""))
		}
	}
	registerPayloads(reg)
	problemSchema := reg.Schema(reflect.TypeFor[problem](), true, "")
	health := reg.Schema(reflect.TypeFor[healthAnswer](), true, "")
	for _, t := range []reflect.Type{
		reflect.TypeFor[oauthTokenBody](), reflect.TypeFor[oauthToken](), reflect.TypeFor[oauthRevokeBody](),
		reflect.TypeFor[oauthError](), reflect.TypeFor[oauthMetadata](),
	} {
		reg.Schema(t, true, "")
	}
	for name, s := range reg.Map() {
		describeMembers(reg.TypeFromRef(schemaPrefix+name), s, requests[name])
		if !requests[name] {
			s.AdditionalProperties = nil // responses may get additional members within a version
		}
	}
	describeHints(resolve(reg, problemSchema))

	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Stipend", Version: Version, Description: introduction,
			Extensions: map[string]any{"summary": "Payroll and payments."},
			Contact:    &huma.Contact{Name: "The operator of this service"},
			License:    &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/", Description: "The service that serves this document."}},
		Components: &huma.Components{
			Schemas: reg, Headers: responseHeaders, Parameters: requestHeaders, Examples: map[string]*huma.Example{},
			Responses:       map[string]*huma.Response{},
			SecuritySchemes: securitySchemes(),
		},
	}
	c := contract{api: api, reg: reg, problem: problemSchema, refused: map[string]string{}, variants: map[int]int{}}
	for i, rt := range table {
		c.add(c.operation(rt, inputs[i]))
	}
	for _, rt := range operationsRoutes {
		op := c.operation(rt, &input{body: -1})
		op.Responses["200"].Content = jsonContent(health)
		if rt.path == "/openapi.json" {
			op.Responses["200"].Content = jsonContent(&huma.Schema{
				Type: huma.TypeObject, Description: "An OpenAPI 3.1 document.", AdditionalProperties: true,
			})
		} else {
			status := map[string]string{"/healthz": "ok", "/readyz": "ready"}[rt.path]
			op.Responses["200"].Content["application/json"].Example = map[string]any{"status": status}
		}
		c.add(op)
	}
	c.oauth()
	for _, t := range tags {
		if c.tagged[t.name] {
			c.tagged[t.name] = false // parts of several paths may have the same tag
			api.Tags = append(api.Tags, &huma.Tag{Name: t.name, Description: t.doc})
		}
	}
	api.Webhooks = webhooks(reg)
	asJSON, err := api.MarshalJSON()
	if err != nil {
		panic("httpapi: cannot write the contract: " + err.Error())
	}
	asYAML, err := api.YAML()
	if err != nil {
		panic("httpapi: cannot write the contract: " + err.Error())
	}
	return openAPI{asJSON, asYAML, zip(asJSON), zip(asYAML)}
}

// Document returns the contract of all operations, including those of the sandbox, as JSON.
func Document() []byte {
	write, _ := compiled()
	return write().json
}

// healthAnswer is the response of the health checks.
type healthAnswer struct {
	Status   string   `json:"status" enum:"ok,ready" doc:"ok: the process is running; ready: it can process requests."`
	Problems []string `json:"problems,omitempty" doc:"What staff must investigate, although requests are processed."`
}

// operationsRoutes are operations in the contract that are served outside the route table.
var operationsRoutes = []route{
	{method: "GET", path: "/healthz", scope: public, name: "get-health", summary: "Check that the process is running"},
	{method: "GET", path: "/readyz", scope: public, name: "get-readiness",
		summary: "Check that the service is ready for requests"},
	{
		method: "GET", path: "/openapi.json", scope: public, name: "get-contract",
		summary: "Get this OpenAPI 3.1 document; also available as /openapi.yaml",
	},
}

// contract is an OpenAPI document that is being built.
type contract struct {
	api     *huma.OpenAPI
	reg     huma.Registry
	problem *huma.Schema
	tagged  map[string]bool
	// refused maps the contents of shared error responses to their component names; variants counts the responses of
	// each status.
	refused  map[string]string
	variants map[int]int
}

func (c *contract) add(op *huma.Operation) {
	if c.tagged == nil {
		c.tagged = map[string]bool{}
	}
	c.tagged[op.Tags[0]] = true
	c.api.AddOperation(op)
}

// schemaName returns the name of a Go type, starting with an uppercase letter.
func schemaName(t reflect.Type, hint string) string {
	name := []rune(huma.DefaultSchemaNamer(t, hint))
	if len(name) > 0 {
		name[0] = unicode.ToUpper(name[0])
	}
	return string(name)
}

func (c *contract) operation(rt route, in *input) *huma.Operation {
	op := &huma.Operation{
		Method: rt.method, Path: rt.path, OperationID: rt.name, Summary: rt.summary, Tags: []string{tagOf(rt.path)},
		Description: rt.describe(), Responses: map[string]*huma.Response{},
	}
	for _, p := range in.params {
		describeMember(p.name, p.schema, !p.required)
		s := *p.schema
		s.Description = "" // the parameter has the description instead
		param := &huma.Param{Name: p.name, In: p.in, Required: p.required, Schema: &s, Description: p.schema.Description}
		if s.Type == huma.TypeObject {
			param.Style, param.Explode = "deepObject", new(true)
		}
		if len(s.Examples) > 0 {
			param.Example, s.Examples = s.Examples[0], nil
		}
		op.Parameters = append(op.Parameters, param)
	}
	op.Deprecated = rt.deprecated != nil
	names := []string{"X-Request-Id", "Api-Version"}
	switch {
	case rt.kind == write && rt.keyRequired:
		names = append([]string{"Required-Idempotency-Key"}, names...)
	case rt.kind == write:
		names = append([]string{"Idempotency-Key"}, names...)
	}
	for _, name := range names {
		op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + name})
	}
	if in.body >= 0 {
		s := c.reg.Schema(in.typ.Field(in.body).Type, true, in.typ.Name()+"Body")
		content := &huma.MediaType{Schema: s, Example: exampleOf(c.reg, s, true)}
		if rt.example != "" {
			content.Example = json.RawMessage(rt.example)
		}
		op.RequestBody = &huma.RequestBody{
			Required: !rt.bodyOptional, Content: map[string]*huma.MediaType{"application/json": content},
			Description: "At most " + strconv.FormatInt(rt.maxBody()>>20, 10) +
				" MiB. `null` means absent. Unknown members are rejected.",
		}
	}
	switch rt.scope {
	case public:
		op.Security = []map[string][]string{}
	case anyScope:
		op.Security = []map[string][]string{{"api_key": {}}, {"oauth": {}}}
	default:
		op.Security = []map[string][]string{{"api_key": {}}}
		if !rt.apiKeyOnly {
			op.Security = append(op.Security, map[string][]string{"oauth": {rt.scope}})
			if rt.orScope != "" {
				op.Security = append(op.Security, map[string][]string{"oauth": {rt.orScope}})
			}
		}
		op.Extensions = map[string]any{"x-scope": rt.scope}
	}

	if access := rt.agentAccess(); access != nil {
		if op.Extensions == nil {
			op.Extensions = map[string]any{}
		}
		op.Extensions["x-agent"] = access
	}
	done := &huma.Response{Description: "Success.", Headers: headers(rt, http.StatusOK)}
	switch {
	case rt.handler.sendsFile():
		done.Content = map[string]*huma.MediaType{}
		for _, kind := range rt.fileTypes() {
			s := &huma.Schema{Type: huma.TypeString}
			if kind == document.TypePDF {
				s.Format = "binary"
			}
			done.Content[kind] = &huma.MediaType{Schema: s}
		}
	case rt.handler.paysBy402():
		c.payment(rt, op, done)
	case rt.handler.out != nil:
		s := c.reg.Schema(rt.handler.out, true, schemaName(rt.handler.out, ""))
		done.Content = map[string]*huma.MediaType{"application/json": {Schema: s, Example: exampleOf(c.reg, s, false)}}
	}
	op.Responses["200"] = done
	byStatus := map[int][]string{}
	for _, code := range rt.errorCodes(c.reg, in) {
		status := explanationOf[code].Status
		byStatus[status] = append(byStatus[status], code)
	}
	for status, codes := range byStatus {
		op.Responses[strconv.Itoa(status)] = c.refusals(rt, status, codes)
	}
	return op
}

// fileTypes returns the content types of the files that an operation sends.
func (rt route) fileTypes() []string {
	if rt.files == nil {
		return []string{"text/csv"}
	}
	return rt.files
}

// payment adds the responses of the x402 protocol to an operation.
func (c *contract) payment(rt route, op *huma.Operation, done *huma.Response) {
	content := func(t reflect.Type) map[string]*huma.MediaType {
		s := c.reg.Schema(t, true, schemaName(t, ""))
		return map[string]*huma.MediaType{"application/json": {Schema: s, Example: exampleOf(c.reg, s, false)}}
	}
	done.Description = "The claim is paid, or its payment waits for confirmations."
	done.Content = content(reflect.TypeFor[paymentStatus]())
	op.Responses["202"] = &huma.Response{
		Description: "The payment is on its way, and not in a block yet. Send the same request again.",
		Headers:     headers(rt, http.StatusAccepted), Content: done.Content,
	}
	op.Responses["402"] = &huma.Response{
		Description: "Payment is required, or the payment failed: then PAYMENT-RESPONSE has the reason. The body is what " +
			"PAYMENT-REQUIRED encodes.",
		Headers: headers(rt, http.StatusPaymentRequired), Content: content(reflect.TypeFor[PaymentRequired]()),
	}
}

// refusals returns the error response of an operation for one status, with an example for each code. Operations with
// equal responses share a component, named Conflict, Conflict2 and so on in the order of the route table.
func (c *contract) refusals(rt route, status int, codes []string) *huma.Response {
	headers := headers(rt, status)
	says := fmt.Sprint(status, codes, slices.Sorted(maps.Keys(headers)))
	name := c.refused[says]
	if name == "" {
		c.variants[status]++
		name = strings.NewReplacer(" ", "", "-", "").Replace(http.StatusText(status))
		if n := c.variants[status]; n > 1 {
			name += strconv.Itoa(n)
		}
		c.refused[says], c.api.Components.Responses[name] = name, c.refusal(status, codes, headers)
	}
	return &huma.Response{Ref: "#/components/responses/" + name}
}

func (c *contract) refusal(status int, codes []string, headers map[string]*huma.Header) *huma.Response {
	content := &huma.MediaType{Schema: c.problem, Examples: map[string]*huma.Example{}}
	var text strings.Builder
	text.WriteString(http.StatusText(status) + ". Codes:\n")
	for _, code := range codes {
		e := explanationOf[code]
		text.WriteString("\n- [`" + code + "`](/docs/errors/" + code + "): " + e.Title)
		content.Examples[code] = &huma.Example{Ref: "#/components/examples/" + code}
		if c.api.Components.Examples[code] == nil {
			c.api.Components.Examples[code] = &huma.Example{Summary: e.Title, Value: exampleProblem(e)}
		}
	}
	return &huma.Response{
		Description: text.String(), Headers: headers, Content: map[string]*huma.MediaType{"application/json": content},
		Extensions: map[string]any{"x-codes": codes},
	}
}

func exampleProblem(e explanation) any {
	return problem{
		Type: "/docs/errors/" + e.Code, Title: e.Title, Status: e.Status, Code: e.Code, Detail: e.What,
		RequestID: "req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d", Errors: []wrong{},
	}
}

// agentAccess states in the contract how agents may use an operation. Package mcp reads it.
type agentAccess struct {
	Scopes     []identity.Scope `json:"scopes"` // an agent needs one of them; empty if none is required
	APIKeyOnly bool             `json:"api_key_only,omitempty"`
	Proposes   bool             `json:"proposes,omitempty"` // the operation stores a proposal and changes nothing else
}

// agentAccess returns nil if agents cannot use the operation because it changes data, simulates events or returns a
// file.
func (rt route) agentAccess() *agentAccess {
	if rt.kind != read && !rt.proposes || rt.sandboxOnly || rt.handler.run == nil || rt.handler.sendsFile() {
		return nil
	}
	a := &agentAccess{Scopes: []identity.Scope{}, APIKeyOnly: rt.apiKeyOnly, Proposes: rt.proposes}
	if rt.scope != public && rt.scope != anyScope {
		a.Scopes = append(a.Scopes, rt.scope)
	}
	if rt.orScope != "" {
		a.Scopes = append(a.Scopes, rt.orScope)
	}
	return a
}

// maxBody returns the maximum size of a request body in bytes.
func (rt route) maxBody() int64 {
	if rt.bodyLimit == 0 {
		return defaultBodyLimit
	}
	return rt.bodyLimit
}

// describe returns the description of the operation in the contract.
func (rt route) describe() string {
	parts := []string{rt.summary + "."}
	if rt.description != "" {
		parts = append(parts, rt.description)
	}
	switch rt.scope {
	case public:
		parts = append(parts, "Requires no credential.")
	case anyScope:
		parts = append(parts, "Accepts any credential, regardless of its scopes.")
	default:
		scopes := "`" + rt.scope + "`"
		if rt.orScope != "" {
			scopes += " or `" + rt.orScope + "`"
		}
		parts = append(parts, "Requires the scope "+scopes+".")
	}
	if rt.apiKeyOnly {
		parts = append(parts, "Requires an API key of the company. A user's token is rejected with `insufficient_scope`.")
	}
	if rt.sandboxOnly {
		parts = append(parts, "Available in the sandbox only.")
	}
	if d := rt.deprecated; d != nil { // "Deprecated:" starts a paragraph that Go tools recognize
		parts = append(parts, "Deprecated: since "+d.from.UTC().Format(time.DateOnly)+". It works until "+
			d.sunset.UTC().Format(time.DateOnly)+".")
	}
	return strings.Join(parts, "\n\n")
}

func jsonContent(s *huma.Schema) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: s}}
}

// methods are the HTTP methods that a route may use.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete}

// checkRoutes describes the first problem of a route table, or returns "" if it finds none. [New] panics if there is
// a problem.
func checkRoutes(table []route) string {
	wildcard := regexp.MustCompile(`\{(\w+)\}`)
	for i, rt := range table {
		at := "route " + strconv.Itoa(i) + " (" + rt.method + " " + rt.path + ") "
		switch {
		case !slices.Contains(methods, rt.method):
			return at + "has an unknown method"
		case rt.scope == "":
			return at + "names no scope"
		case rt.perNetwork && rt.scope != public:
			return at + "limits networks although it requires a credential"
		case rt.kind != read && rt.method == http.MethodGet && !rt.handler.paysBy402():
			return at + "has a method that does not match its kind"
		case rt.scope == anyScope && !rt.sandboxOnly && rt.path != credentialPath:
			return at + "is open to any credential outside of the sandbox"
		case rt.apiKeyOnly && (rt.scope == public || rt.scope == anyScope):
			return at + "is for API keys and names no scope"
		case rt.scope == public && rt.kind != read && !rt.perNetwork:
			return at + "writes without a credential"
		case rt.handler.run == nil:
			return at + "has no handler"
		case slices.ContainsFunc(rt.errors, func(code string) bool { return explanationOf[code].Status == 0 }):
			return at + "declares an error code that is not explained"
		}
		for _, m := range wildcard.FindAllStringSubmatch(rt.path, -1) {
			found := slices.ContainsFunc(reflect.VisibleFields(rt.handler.in), func(f reflect.StructField) bool {
				return f.Tag.Get("path") == m[1]
			})
			if !found {
				return at + "does not read " + m[1]
			}
		}
	}
	return ""
}
