package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// The part of OpenAPI 3.1 that the contract uses.
type (
	contract struct {
		Paths      map[string]map[string]operation
		Webhooks   map[string]map[string]operation
		Components struct {
			Schemas  map[string]*schema
			Examples map[string]struct{ Summary string }
		}
	}
	operation struct {
		OperationID string
		Summary     string
		Description string
		Deprecated  bool
		Tags        []string
		Parameters  []parameter
		RequestBody *struct {
			Content map[string]struct{ Schema *schema }
		}
		Responses map[string]struct {
			Content map[string]struct{ Schema *schema }
		}
	}
	parameter struct {
		Name, In, Description string
		Required              bool
		Schema                *schema
	}
	schema struct {
		Ref                  string `json:"$ref"`
		Type                 any
		Format, Description  string
		Enum                 []any
		Properties           map[string]*schema
		Required             []string
		Items                *schema
		AdditionalProperties any
	}
)

// Model of the contract from which the SDKs are generated. The code for each language only names and formats its
// parts.
type (
	model struct {
		contract
		services []*service
		objects  map[string]*object // by name
		errors   []named            // error codes
		events   []event
		requests map[string]bool // schemas of request bodies, by name
		updates  map[string]bool // schemas of requests in which an absent field stays unchanged, by name
	}
	// service is a group of endpoints. Names of services and endpoints are words with underscores.
	service struct {
		name      string
		endpoints []*endpoint
	}
	endpoint struct {
		service, name, verb, path, summary, description string

		params []string // names of path parameters
		query  []field
		body   *shape // nil if there is no body; an object without a name is sent empty
		result *shape // nil if the response is a file
		binary bool   // the file may contain binary data

		deprecated bool   // a paragraph of the description, after deprecatedMark, states when the operation ends
		paging     string // query parameter that selects the next page of a list: page, after, or ""
		item       *shape // element of the list
	}
	object struct {
		name    string // name of the type: PayrollCreated
		request bool   // reports whether the object is for requests
		update  bool   // reports whether an absent field stays unchanged

		decimals bool // values contain decimals
		fields   []field
	}
	field struct {
		name, doc string
		shape     *shape
		required  bool
		values    []string // values of an enumeration, except the empty one
	}
	// shape is the type of a value.
	shape struct {
		kind     kind
		object   string   // name of an object, if the value is one
		item     *shape   // element of a list, or value of a map
		values   []string // values of an enumeration
		nullable bool
	}
	kind  string
	named struct{ name, doc string }
	event struct {
		named
		data *shape
	}
)

const (
	text      kind = "string"
	timestamp kind = "time"
	integer   kind = "integer"
	decimal   kind = "number"
	boolean   kind = "boolean"
	list      kind = "array"
	record    kind = "object"
	mapping   kind = "map"
	unknown   kind = ""
)

// skipped lists the operations that the SDKs omit: the contract itself, and OAuth and x402, for which other libraries
// exist.
var skipped = []string{"get-contract", "exchange-code", "revoke-token", "push-authorization", "authorize-device",
	"oauth-metadata", "resource-metadata", "mcp-resource-metadata", "pay-by-x402"}

// serviceNames lists the services whose name differs from that of their tag.
var serviceNames = map[string]string{"Merchant claims": "claims", "Operations": "health", "Company": "companies"}

// methodNames lists the methods for which methodName would return an unclear name.
var methodNames = map[string]string{
	"create-vendor-payroll":  "create_for_vendors",
	"quote-vendor-payroll":   "quote_for_vendors",
	"upload-vendor-document": "upload_vendor_document",
	"invite-workers":         "invite_many",
	"get-health":             "live",
	"get-readiness":          "ready",
}

// deprecatedMark begins the paragraph about the end of a deprecated operation, as in Go doc comments.
const deprecatedMark = "\n\nDeprecated: "

// implied lists the words that method names omit, because the name of the service implies them.
var implied = map[string][]string{
	"Destinations": {"user"}, "Invoices": {"user"}, "Payers": {"user"}, "Merchant claims": {"claim"},
	"Company": {"company"},
}

// readModel builds the model from the contract, an OpenAPI document.
func readModel(document []byte) (*model, error) {
	m := &model{objects: map[string]*object{}, requests: map[string]bool{}, updates: map[string]bool{}}
	if err := json.Unmarshal(document, &m.contract); err != nil {
		return nil, err
	}
	delete(m.Components.Schemas, "Problem") // the SDKs declare errors separately
	delete(m.Components.Schemas, "Wrong")
	m.markRequests()
	for _, path := range slices.Sorted(maps.Keys(m.Paths)) {
		for _, verb := range slices.Sorted(maps.Keys(m.Paths[path])) {
			if err := m.addEndpoint(strings.ToUpper(verb), path, m.Paths[path][verb]); err != nil {
				return nil, fmt.Errorf("%s %s: %w", verb, path, err)
			}
		}
	}
	slices.SortFunc(m.services, func(a, b *service) int { return cmp.Compare(a.name, b.name) })
	for _, code := range slices.Sorted(maps.Keys(m.Components.Examples)) {
		m.errors = append(m.errors, named{code, m.Components.Examples[code].Summary})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Webhooks)) {
		op := m.Webhooks[name]["post"]
		data := m.shape(jsonBody(op).Properties["data"], "Event_"+name)
		if data.kind != record {
			return nil, fmt.Errorf("the data of %s is not an object", name)
		}
		m.events = append(m.events, event{named{name, op.Summary}, data})
	}
	m.nameBodies()
	m.markDecimals()
	return m, nil
}

// markRequests marks the schemas that occur in request bodies.
func (m *model) markRequests() {
	var mark func(s *schema, update bool)
	mark = func(s *schema, update bool) {
		if s == nil {
			return
		}
		if name := refName(s); name != "" {
			if m.requests[name] && (!update || m.updates[name]) {
				return
			}
			m.requests[name] = true
			m.updates[name] = m.updates[name] || update
			mark(m.Components.Schemas[name], false)
			return
		}
		for _, p := range s.Properties {
			mark(p, update)
		}
		mark(s.Items, update)
	}
	for _, verbs := range m.Paths {
		for verb, op := range verbs {
			if s := jsonBody(op); s != nil {
				first, _, _ := strings.Cut(op.OperationID, "-")
				mark(s, verb == "patch" || first == "update" || first == "change")
			}
		}
	}
}

// markDecimals marks the objects that contain decimals. The data of an event always counts as such an object.
func (m *model) markDecimals() {
	var has func(s *shape) bool
	has = func(s *shape) bool {
		return s.kind == decimal || s.kind == list && has(s.item) || s.kind == record && m.objects[s.object].decimals
	}
	for changed := true; changed; {
		changed = false
		for _, o := range m.objects {
			if !o.decimals && (o.isEvent() || slices.ContainsFunc(o.fields, func(f field) bool { return has(f.shape) })) {
				o.decimals, changed = true, true
			}
		}
	}
}

func jsonBody(op operation) *schema {
	if op.RequestBody == nil {
		return nil
	}
	return op.RequestBody.Content["application/json"].Schema
}

// nameBodies names the body of each operation after the operation's method, as it names query parameters, unless the
// body also occurs elsewhere.
func (m *model) nameBodies() {
	users := map[string]int{}
	endpoints := func(do func(e *endpoint)) {
		for _, s := range m.services {
			for _, e := range s.endpoints {
				if e.body != nil && e.body.kind == record {
					do(e)
				}
			}
		}
	}
	endpoints(func(e *endpoint) { users[e.body.object]++ })
	var count func(s *shape)
	count = func(s *shape) {
		if s != nil && s.kind == record {
			users[s.object]++
		} else if s != nil {
			count(s.item)
		}
	}
	for _, o := range m.objects {
		for _, f := range o.fields {
			count(f.shape)
		}
	}
	endpoints(func(e *endpoint) {
		o := m.objects[e.body.object]
		if name := e.paramsName(); users[o.name] == 1 && m.objects[name] == nil {
			delete(m.objects, o.name)
			o.name, e.body.object = name, name
			m.objects[name] = o
		}
	})
}

// addEndpoint adds an operation to its service.
func (m *model) addEndpoint(verb, path string, op operation) error {
	if slices.Contains(skipped, op.OperationID) {
		return nil
	}
	e := &endpoint{
		service: serviceName(op.Tags[0]), name: methodName(op), verb: verb, path: path,
		summary: strings.TrimSuffix(op.Summary, "."), deprecated: op.Deprecated,
	}
	_, e.description, _ = strings.Cut(op.Description, "\n\n") // the first paragraph is the summary
	i := slices.IndexFunc(m.services, func(s *service) bool { return s.name == e.service })
	if i < 0 {
		i, m.services = len(m.services), append(m.services, &service{name: e.service})
	}
	s := m.services[i]
	if slices.ContainsFunc(s.endpoints, func(o *endpoint) bool { return o.name == e.name }) {
		return fmt.Errorf("%s.%s exists already: add a name for one of them to methodNames", e.service, e.name)
	}
	s.endpoints = append(s.endpoints, e)
	body := jsonBody(op)
	if verb == "GET" {
		body = nil
	}
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			e.params = append(e.params, p.Name)
		case p.In == "query" && body == nil:
			e.query = append(e.query, field{p.Name, p.Description, m.shape(p.Schema, ""), p.Required, values(p.Schema)})
		}
	}
	if body != nil {
		e.body = m.shape(body, "")
	}
	content, ok := op.Responses["200"].Content["application/json"]
	if !ok {
		_, e.binary = op.Responses["200"].Content["application/pdf"]
		return nil
	}
	e.result = m.shape(content.Schema, goName(e.service)+goName(e.name)+"Result")
	page := m.Components.Schemas[refName(content.Schema)]
	if page == nil || page.Properties["data"] == nil || !strings.HasPrefix(e.name, "list") {
		return nil
	}
	e.item = m.shape(page.Properties["data"].Items, "")
	for parameter, member := range map[string]string{"cursor": "meta", "after": "next_after"} {
		asked := slices.ContainsFunc(e.query, func(f field) bool { return f.name == parameter })
		if asked && page.Properties[member] != nil {
			e.paging = parameter
		}
	}
	return nil
}

// all returns the name of the method that iterates over all pages of a list.
func (e *endpoint) all() string { return "all" + strings.TrimPrefix(e.name, "list") }

// paramsName returns the name of the type of the query parameters.
func (e *endpoint) paramsName() string {
	one, ok := strings.CutSuffix(goName(e.service), "ies")
	if ok {
		one += "y"
	}
	return strings.TrimSuffix(one, "s") + goName(e.name) + "Params"
}

// shape returns the type of a schema. If the schema is an object, shape also declares it. parent is used to name an
// object without a name.
func (m *model) shape(s *schema, parent string) *shape {
	if name := refName(s); name != "" {
		if !m.declare(name, m.Components.Schemas[name], m.requests[name], m.updates[name]) {
			return &shape{kind: mapping, item: &shape{}}
		}
		return &shape{kind: record, object: typeName(name)}
	}
	sh := &shape{}
	switch t := s.Type.(type) {
	case string:
		sh.kind = kind(t)
	case []any:
		for _, v := range t {
			if v == "null" {
				sh.nullable = true
			} else {
				sh.kind = kind(fmt.Sprint(v))
			}
		}
	}
	for _, v := range s.Enum {
		if v != nil {
			sh.values = append(sh.values, fmt.Sprint(v))
		}
	}
	switch {
	case sh.kind == text && s.Format == "date-time":
		sh.kind = timestamp
	case sh.kind == list:
		sh.item = m.shape(s.Items, parent+"Item")
	case sh.kind == record && len(s.Properties) > 0:
		m.declare(parent, s, false, false)
		sh.object = typeName(parent)
	case sh.kind == record:
		sh.kind, sh.item = unknown, &shape{}
		if more, ok := s.AdditionalProperties.(map[string]any); ok {
			sh.kind = mapping
			if more["type"] == "string" {
				sh.item.kind = text
			}
		}
	}
	return sh
}

// declare adds an object. It returns false for an object without members.
func (m *model) declare(name string, s *schema, request, update bool) bool {
	if s == nil || len(s.Properties) == 0 {
		return false
	}
	o := &object{name: typeName(name), request: request, update: update}
	if m.objects[o.name] != nil {
		return true
	}
	m.objects[o.name] = o // added first, because objects can contain themselves
	for _, member := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[member]
		o.fields = append(o.fields, field{
			member, p.Description, m.shape(p, name+"_"+member), slices.Contains(s.Required, member), values(p),
		})
	}
	return true
}

// uses adds the names of the objects that occur in a value of the shape.
func (m *model) uses(s *shape, names map[string]bool) {
	switch {
	case s == nil:
	case s.kind == list:
		m.uses(s.item, names)
	case s.kind == record && !names[s.object]:
		names[s.object] = true
		for _, f := range m.objects[s.object].fields {
			m.uses(f.shape, names)
		}
	}
}

// isEvent reports whether the object is an event in a list of events. The SDKs declare its type separately.
func (o *object) isEvent() bool {
	return slices.ContainsFunc(o.fields, func(f field) bool { return f.name == "data" && f.shape.kind == unknown }) &&
		slices.ContainsFunc(o.fields, func(f field) bool { return f.name == "event" })
}

// values returns the values of an enumeration that are not empty.
func values(s *schema) (all []string) {
	for _, v := range s.Enum {
		if v != nil && v != "" {
			all = append(all, fmt.Sprint(v))
		}
	}
	return all
}

// text returns the description of a field, including its possible values.
func (f field) text() string {
	if len(f.values) == 0 {
		return f.doc
	}
	return strings.TrimSpace(f.doc + " One of: " + strings.Join(f.values, ", ") + ".")
}

func refName(s *schema) string {
	if s == nil {
		return ""
	}
	return strings.TrimPrefix(s.Ref, "#/components/schemas/")
}

func serviceName(tag string) string {
	if name, ok := serviceNames[tag]; ok {
		return name
	}
	return strings.ToLower(strings.ReplaceAll(tag, " ", "_"))
}

// methodName returns the words of the operation's ID, except those that its service implies.
func methodName(op operation) string {
	if name, ok := methodNames[op.OperationID]; ok {
		return name
	}
	omit := append([]string{}, implied[op.Tags[0]]...)
	for _, word := range strings.Fields(strings.ToLower(op.Tags[0])) {
		omit = append(omit, word, strings.TrimSuffix(word, "s"))
	}
	var used []string
	for i, word := range strings.Split(op.OperationID, "-") {
		if (i == 0 && op.Tags[0] != "Sandbox") || !slices.Contains(omit, word) {
			used = append(used, word)
		}
	}
	return strings.Join(used, "_")
}

// typeName returns the name of the type for a schema.
func typeName(schema string) string {
	for _, suffix := range []string{"InputBody", "Body"} {
		if short, ok := strings.CutSuffix(schema, suffix); ok {
			return goName(short) + "Params"
		}
	}
	return goName(schema)
}

var initialisms = map[string]string{
	"id": "ID", "url": "URL", "api": "API", "kyc": "KYC", "kyb": "KYB", "ubo": "UBO", "csv": "CSV", "iban": "IBAN",
	"ip":   "IP",
	"http": "HTTP", "tos": "TOS", "btc": "BTC", "usd": "USD", "txid": "TxID", "ids": "IDs", "uri": "URI", "json": "JSON",
}

// goName converts snake_case, kebab-case, dots and CamelCase to a Go name.
func goName(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || r == ' '
	}) {
		if upper, ok := initialisms[strings.ToLower(word)]; ok {
			b.WriteString(upper)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// camelName converts snake_case to camelCase.
func camelName(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// lowerFirst returns s with its first letter, or the initialism at its beginning, in lower case.
func lowerFirst(s string) string {
	runes := []rune(s)
	for i := range runes {
		if i > 0 && (i+1 >= len(runes) || !unicode.IsUpper(runes[i+1])) && i+1 < len(runes) {
			break
		}
		if !unicode.IsUpper(runes[i]) {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
		if i == 0 && len(runes) > 1 && !unicode.IsUpper(runes[1]) {
			break
		}
	}
	return string(runes)
}

// wrap breaks text into lines of at most width columns. Empty lines separate paragraphs.
func wrap(text string, width int) (lines []string) {
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			lines = append(lines, "")
		}
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// text returns the description as a sentence.
func (n named) text() string { return strings.TrimSuffix(n.doc, ".") + "." }
