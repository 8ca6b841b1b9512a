// Package openapitest holds answers of the service to its contract.
//
// A contract is opened once and shown every answer that a test gets. An answer with a status, code, header or
// member that the document does not name is an error, although a client must put up with one: the document would be
// behind. It also remembers what it was shown, so that a test can tell which operations nobody has tried. It is for
// tests only.
package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Contract is an OpenAPI 3.1 document, ready to be held against answers.
type Contract struct {
	mux        *http.ServeMux // finds the operation of a request as the service does
	operations map[string]*operation
	problem    *jsonschema.Schema

	mu   sync.Mutex
	seen map[string]bool // what operations have answered: "create-payroll 200", "create-payroll 404 not_found"
}

// ErrUndeclared reports an error response that the operation does not declare.
var ErrUndeclared = errors.New("declare the code in the errors of the route, in internal/httpapi/routes.go")

type operation struct {
	id      string
	sandbox bool // absent in production
	request *jsonschema.Schema
	// needsBody: a request without a body is refused.
	needsBody bool
	answers   map[int]*answer
}

type answer struct {
	schema  *jsonschema.Schema
	codes   []string
	headers []string // canonical
}

// wire is the part of a document that is read here.
type wire struct {
	Paths map[string]map[string]struct {
		OperationID string   `json:"operationId"`
		Tags        []string `json:"tags"`
		RequestBody *struct {
			Required bool           `json:"required"`
			Content  map[string]any `json:"content"`
		} `json:"requestBody"`
		Responses map[string]wireResponse `json:"responses"`
	} `json:"paths"`
	Components struct {
		Responses map[string]wireResponse `json:"responses"`
	} `json:"components"`
}

type wireResponse struct {
	Ref     string         `json:"$ref"`
	Headers map[string]any `json:"headers"`
	Content map[string]any `json:"content"`
	Codes   []string       `json:"x-codes"`
}

// responseRef begins a reference to an answer that operations share.
const responseRef = "#/components/responses/"

// Open reads a document.
func Open(document []byte) (*Contract, error) {
	var w wire
	if err := json.Unmarshal(document, &w); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	closeObjects(whole)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020) // the dialect of OpenAPI 3.1
	compiler.AssertFormat()
	if err := compiler.AddResource("contract.json", whole); err != nil {
		return nil, err
	}
	c := &Contract{mux: http.NewServeMux(), operations: map[string]*operation{}, seen: map[string]bool{}}
	if c.problem, err = compiler.Compile("contract.json#/components/schemas/Problem"); err != nil {
		return nil, err
	}
	nobody := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for path, methods := range w.Paths {
		for method, op := range methods {
			pattern := strings.ToUpper(method) + " " + path
			at := "contract.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) +
				"/" + method
			c.mux.Handle(pattern, nobody)
			o := &operation{id: op.OperationID, sandbox: slices.Contains(op.Tags, "Sandbox"), answers: map[int]*answer{}}
			if op.RequestBody != nil {
				o.needsBody = op.RequestBody.Required
				if o.request, err = compiler.Compile(at + "/requestBody/content/application~1json/schema"); err != nil {
					return nil, err
				}
			}
			for text, r := range op.Responses {
				status, err := strconv.Atoi(text)
				if err != nil {
					return nil, fmt.Errorf("%s: the status %q is no number", pattern, text)
				}
				schema := at + "/responses/" + text
				if name, shared := strings.CutPrefix(r.Ref, responseRef); shared {
					r, schema = w.Components.Responses[name], "contract.json#/components/responses/"+name
				}
				a := &answer{codes: r.Codes}
				for name := range r.Headers {
					a.headers = append(a.headers, http.CanonicalHeaderKey(name))
				}
				if r.Content["application/json"] != nil {
					if a.schema, err = compiler.Compile(schema + "/content/application~1json/schema"); err != nil {
						return nil, err
					}
				}
				o.answers[status] = a
			}
			c.operations[pattern] = o
		}
	}
	return c, nil
}

// closeObjects makes every schema of an object refuse members that it does not name.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["properties"].(map[string]any); ok && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, member := range v {
			closeObjects(member)
		}
	case []any:
		for _, item := range v {
			closeObjects(item)
		}
	}
}

// own are the headers that need no word in a contract: HTTP itself has the word.
var own = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control", "X-Content-Type-Options", "Connection", "Date",
	"Allow", "Vary", "Etag",
}

// Check says how an answer differs from the document, nil when it does not. A path that the document does not have is
// answered by the form of an error only.
func (c *Contract) Check(r *http.Request, sent []byte, status int, header http.Header, body []byte) error {
	if r.Method == http.MethodHead {
		return nil // headers alone
	}
	o := c.find(r)
	if r.Method == http.MethodHead && len(body) == 0 {
		return nil // an answer to HEAD has no body to look at
	}
	if o == nil {
		if status >= 400 && isJSON(header) {
			return c.validate("an error", c.problem, body)
		}
		return nil
	}
	if status == http.StatusMethodNotAllowed || status == http.StatusNotFound && o.sandbox && o.answers[status] == nil {
		return c.validate("an error", c.problem, body)
	}
	a := o.answers[status]
	if a == nil {
		return fmt.Errorf("%w: %s answers the undocumented status %d: %.300s", ErrUndeclared, o.id, status, body)
	}
	c.note(o.id, status, "")
	var problems []error
	for name := range header {
		if !slices.Contains(own, name) && !slices.Contains(a.headers, name) {
			problems = append(problems, fmt.Errorf("%s answers %d with the undocumented header %s", o.id, status, name))
		}
	}
	for _, name := range []string{"X-Request-Id", "Api-Version"} {
		if header.Get(name) == "" {
			problems = append(problems, fmt.Errorf("%s answers %d without %s", o.id, status, name))
		}
	}
	if a.schema != nil {
		problems = append(problems, c.validate(o.id+" "+strconv.Itoa(status), a.schema, body))
	}
	if status >= 400 {
		var p struct{ Code string }
		if json.Unmarshal(body, &p) == nil && p.Code != "" {
			c.note(o.id, status, p.Code)
		}
		if p.Code != "" && !slices.Contains(a.codes, p.Code) {
			problems = append(problems, fmt.Errorf("%w: %s answers %d with the undocumented code %s", ErrUndeclared, o.id,
				status, p.Code))
		}
	}
	if status == http.StatusOK && o.request != nil && isJSON(r.Header) && (o.needsBody || len(sent) > 0) {
		problems = append(problems, c.validate("what "+o.id+" accepted", o.request, sent))
	}
	return errors.Join(problems...)
}

func (c *Contract) find(r *http.Request) *operation {
	_, pattern := c.mux.Handler(r)
	return c.operations[pattern]
}

func isJSON(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/json") }

func (c *Contract) validate(what string, s *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s is not JSON: %w", what, err)
	}
	if strings.HasPrefix(what, "what ") {
		dropNulls(v)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%s is not as documented: %w\n%.600s", what, err, body)
	}
	return nil
}

// dropNulls takes members without a value out of a request: they count as absent.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
		for _, member := range v {
			dropNulls(member)
		}
	case []any:
		for _, item := range v {
			dropNulls(item)
		}
	}
}

func (c *Contract) note(id string, status int, code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[answerName(id, status, code)] = true
}

func answerName(id string, status int, code string) string {
	return strings.TrimSpace(id + " " + strconv.Itoa(status) + " " + code)
}

// Unseen lists what the document promises and nobody has answered yet, in order: "operation status", and for errors
// "operation status code".
func (c *Contract) Unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, o := range c.operations {
		for status, a := range o.answers {
			names := []string{answerName(o.id, status, "")}
			if len(a.codes) > 0 {
				names = names[:0]
			}
			for _, code := range a.codes {
				names = append(names, answerName(o.id, status, code))
			}
			for _, name := range names {
				if !c.seen[name] {
					list = append(list, name)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// Transport shows the contract every answer of the service that comes through another transport. An answer that
// differs is an error of the round trip, so it fails the test that asked. What no service of this kind sent passes
// by.
func (c *Contract) Transport(under http.RoundTripper) http.RoundTripper { return transport{c, under} }

type transport struct {
	contract *Contract
	under    http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		if sent, err = io.ReadAll(body); err != nil {
			return nil, err
		}
	}
	res, err := t.under.RoundTrip(r)
	if err != nil || res.Header.Get("Api-Version") == "" {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err := t.contract.Check(r, sent, res.StatusCode, res.Header, body); err != nil {
		return nil, fmt.Errorf("the contract: %w", err)
	}
	return res, nil
}
