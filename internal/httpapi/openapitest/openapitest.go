// Package openapitest checks responses of the service against its contract, in tests.
//
// A [Contract] is opened once and checks every response that a test receives. A response with a status, error code,
// header or field that the document does not declare is an error, although clients must accept such responses. The
// Contract also records the checked responses, so that a test can list the declared responses that no test causes.
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

// Contract is a compiled OpenAPI 3.1 document.
type Contract struct {
	mux        *http.ServeMux // finds the operation of a request
	operations map[string]*operation
	problem    *jsonschema.Schema

	mu   sync.Mutex
	seen map[string]bool // responses checked so far, as "create-payroll 200" or "create-payroll 404 not_found"
}

// ErrUndeclared means that an operation returned an error code that it does not declare.
var ErrUndeclared = errors.New("declare the code in the errors of the route, in internal/httpapi")

type operation struct {
	id        string
	sandbox   bool // absent in production
	request   *jsonschema.Schema
	needsBody bool
	responses map[int]*response
}

type response struct {
	schema  *jsonschema.Schema
	codes   []string
	headers []string // canonical names of the declared headers
}

// wire is the part of a document that Open reads.
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

// responseRef is the beginning of a reference to a shared response.
const responseRef = "#/components/responses/"

// Open compiles a document.
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
	noop := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for path, methods := range w.Paths {
		for method, op := range methods {
			pattern := strings.ToUpper(method) + " " + path
			at := "contract.json#/paths/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(path) +
				"/" + method
			c.mux.Handle(pattern, noop)
			o := &operation{id: op.OperationID, sandbox: slices.Contains(op.Tags, "Sandbox"), responses: map[int]*response{}}
			if op.RequestBody != nil {
				o.needsBody = op.RequestBody.Required
				if o.request, err = compiler.Compile(at + "/requestBody/content/application~1json/schema"); err != nil {
					return nil, err
				}
			}
			for text, r := range op.Responses {
				status, err := strconv.Atoi(text)
				if err != nil {
					return nil, fmt.Errorf("%s: the status %q is not a number", pattern, text)
				}
				schema := at + "/responses/" + text
				if name, shared := strings.CutPrefix(r.Ref, responseRef); shared {
					r, schema = w.Components.Responses[name], "contract.json#/components/responses/"+name
				}
				a := &response{codes: r.Codes}
				for name := range r.Headers {
					a.headers = append(a.headers, http.CanonicalHeaderKey(name))
				}
				if r.Content["application/json"] != nil {
					if a.schema, err = compiler.Compile(schema + "/content/application~1json/schema"); err != nil {
						return nil, err
					}
				}
				o.responses[status] = a
			}
			c.operations[pattern] = o
		}
	}
	return c, nil
}

// closeObjects makes every object schema reject members that it does not declare.
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

// standardHeaders are defined by HTTP and need not be in the contract.
var standardHeaders = []string{
	"Content-Type", "Content-Length", "Content-Encoding", "Cache-Control", "X-Content-Type-Options", "Connection", "Date",
	"Allow", "Vary", "Etag", "Strict-Transport-Security",
}

// Check returns an error that describes how a response differs from the document, or nil. For a request whose
// operation is not in the document, only an error in the common format is valid.
func (c *Contract) Check(r *http.Request, sent []byte, status int, header http.Header, body []byte) error {
	if r.Method == http.MethodHead {
		return nil // a response to HEAD has no body
	}
	o := c.find(r)
	if o == nil {
		if status >= 400 && isJSON(header) {
			return c.validate("an error", c.problem, body)
		}
		return nil
	}
	if status == http.StatusMethodNotAllowed || status == http.StatusNotFound && o.sandbox && o.responses[status] == nil {
		return c.validate("an error", c.problem, body)
	}
	a := o.responses[status]
	if a == nil {
		return fmt.Errorf("%w: %s returns the undeclared status %d: %.300s", ErrUndeclared, o.id, status, body)
	}
	c.note(o.id, status, "")
	var problems []error
	for name := range header {
		if !slices.Contains(standardHeaders, name) && !slices.Contains(a.headers, name) {
			problems = append(problems, fmt.Errorf("%s returns %d with the undeclared header %s", o.id, status, name))
		}
	}
	for _, name := range []string{"X-Request-Id", "Api-Version"} {
		if header.Get(name) == "" {
			problems = append(problems, fmt.Errorf("%s returns %d without %s", o.id, status, name))
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
			problems = append(problems, fmt.Errorf("%w: %s returns %d with the undeclared code %s", ErrUndeclared, o.id,
				status, p.Code))
		}
	}
	if status == http.StatusOK && o.request != nil && isJSON(r.Header) && (o.needsBody || len(sent) > 0) {
		problems = append(problems, c.validate("the accepted request of "+o.id, o.request, dropNulls(sent)))
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
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("%s does not match its schema: %w\n%.600s", what, err, body)
	}
	return nil
}

// dropNulls returns a request body without null members, which the service treats as absent.
func dropNulls(body []byte) []byte {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return body
	}
	var drop func(v any)
	drop = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
			for _, member := range v {
				drop(member)
			}
		case []any:
			for _, item := range v {
				drop(item)
			}
		}
	}
	drop(v)
	text, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return text
}

// Expected records a response that a test of another package checks. code is its error code, or "" for a success.
func (c *Contract) Expected(method, path string, status int, code string) {
	if r, err := http.NewRequest(method, path, nil); err == nil {
		if o := c.find(r); o != nil {
			c.note(o.id, status, code)
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

// Unseen returns a sorted list of the declared responses that have not been returned yet, as "operation status", or
// "operation status code" for errors.
func (c *Contract) Unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []string
	for _, o := range c.operations {
		for status, a := range o.responses {
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

// Transport returns a transport that checks every response of the service. If a response differs from the contract,
// RoundTrip returns an error. Responses of other servers are not checked.
func (c *Contract) Transport(base http.RoundTripper) http.RoundTripper { return transport{c, base} }

type transport struct {
	contract *Contract
	base     http.RoundTripper
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
	res, err := t.base.RoundTrip(r)
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
