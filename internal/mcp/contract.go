package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// operation is an operation of the contract that agents can use.
type operation struct {
	OperationID, Summary, Description string
	Parameters                        []parameter
	RequestBody                       *struct {
		Content map[string]struct{ Schema map[string]any }
	}
	Agent *struct {
		Scopes     []string
		APIKeyOnly bool `json:"api_key_only"`
		Proposes   bool
	} `json:"x-agent"`

	method, template string // method and path template of the request
	tool             string
	uri, id          string // URI template of the resource and name of its parameter; "" for none
	schema           map[string]any
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                map[string]any
}

// document contains the part of the contract that this package reads.
type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct{ Schemas map[string]map[string]any }
}

// readContract returns the operations of a contract that agents can use, sorted by path.
func readContract(text []byte) (all []*operation, err error) {
	var doc document
	if err := decode(text, &doc); err != nil {
		return nil, fmt.Errorf("the contract cannot be read: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := &operation{method: strings.ToUpper(method), template: path}
			if err := decode(doc.Paths[path][method], op); err != nil {
				return nil, fmt.Errorf("%s %s in the contract: %w", method, path, err)
			}
			if op.Agent == nil {
				continue
			}
			if op.method == "GET" {
				op.RequestBody = nil // the parameters contain the same information
			}
			op.tool = strings.ReplaceAll(op.OperationID, "-", "_")
			op.schema = doc.inputOf(op)
			op.setURI()
			all = append(all, op)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the contract has no operation for agents")
	}
	return all, nil
}

// decode decodes JSON. It keeps the exact text of numbers.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

// namedByQuery lists the resources whose operation takes the ID as a query parameter.
var namedByQuery = map[string]struct{ uri, id string }{
	"get-claim-status": {"stipend://claims/{claim_id}", "claim_id"},
	"get-user":         {"stipend://users/{user_id}", "user_id"},
}

// setURI sets the URI template of the resource, if the operation is a read whose path has one parameter, at its end.
func (op *operation) setURI() {
	if named, ok := namedByQuery[op.OperationID]; ok {
		op.uri, op.id = named.uri, named.id
		return
	}
	parts := strings.Split(op.template, "/")
	last := parts[len(parts)-1]
	if op.method == "GET" && strings.HasPrefix(last, "{") && strings.Count(op.template, "{") == 1 {
		op.uri, op.id = "stipend://"+parts[len(parts)-2]+"/"+last, strings.Trim(last, "{}")
	}
}

// inputOf returns the schema of a tool's arguments, which are the members of the body, or the parameters.
func (doc *document) inputOf(op *operation) map[string]any {
	if op.RequestBody != nil {
		defs := map[string]any{}
		schema := maps.Clone(doc.resolve(op.RequestBody.Content["application/json"].Schema, defs).(map[string]any))
		if name, ok := schema["$ref"].(string); ok {
			schema = maps.Clone(defs[strings.TrimPrefix(name, defsPrefix)].(map[string]any))
		}
		if len(defs) > 0 {
			schema["$defs"] = defs
		}
		return schema
	}
	properties, required := map[string]any{}, []string{}
	for _, p := range op.Parameters {
		if p.In != "path" && p.In != "query" {
			continue
		}
		schema := maps.Clone(p.Schema)
		if p.Description != "" {
			schema["description"] = p.Description
		}
		properties[p.Name] = schema
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}

const (
	schemasPrefix = "#/components/schemas/"
	defsPrefix    = "#/$defs/"
)

// resolve returns a copy of a part of a schema in which references point into defs. It adds the referenced schemas to
// defs.
func (doc *document) resolve(node any, defs map[string]any) any {
	switch node := node.(type) {
	case []any:
		all := make([]any, len(node))
		for i, one := range node {
			all[i] = doc.resolve(one, defs)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(node))
		for name, one := range node {
			ref, isText := one.(string)
			target, isRef := strings.CutPrefix(ref, schemasPrefix)
			if name != "$ref" || !isText || !isRef {
				all[name] = doc.resolve(one, defs)
				continue
			}
			all[name] = defsPrefix + target
			if defs[target] == nil {
				defs[target] = true // ends the recursion
				defs[target] = doc.resolve(doc.Components.Schemas[target], defs)
			}
		}
		return all
	}
	return node
}

// describe returns the description of the operation as a tool.
func (op *operation) describe() *mcp.Tool {
	no := false
	return &mcp.Tool{
		Name: op.tool, Title: op.Summary, Description: op.Description, InputSchema: op.schema,
		Annotations: &mcp.ToolAnnotations{
			Title: op.Summary, ReadOnlyHint: !op.Agent.Proposes, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no,
		},
	}
}

// permits reports whether a credential may call the operation.
func (op *operation) permits(c credential) bool {
	if op == nil || op.Agent.APIKeyOnly && c.Kind != "api_key" {
		return false
	}
	return len(op.Agent.Scopes) == 0 ||
		slices.ContainsFunc(op.Agent.Scopes, func(s string) bool { return slices.Contains(c.Scopes, s) })
}

// request returns the path and the body of the request for a tool call with the given arguments.
func (op *operation) request(arguments json.RawMessage) (path string, body []byte, err error) {
	if op.RequestBody != nil {
		if len(arguments) == 0 || string(arguments) == "null" {
			arguments = json.RawMessage("{}")
		}
		return op.template, arguments, nil
	}
	args := map[string]any{}
	if len(arguments) > 0 {
		if err := decode(arguments, &args); err != nil {
			return "", nil, errors.New("the arguments must be a JSON object")
		}
	}
	return op.path(args)
}

// path returns the path and the query of a request that has no body.
func (op *operation) path(args map[string]any) (path string, body []byte, err error) {
	path = op.template
	query := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		i := slices.IndexFunc(op.Parameters, func(p parameter) bool {
			return p.Name == name && (p.In == "path" || p.In == "query")
		})
		if i < 0 {
			return "", nil, fmt.Errorf("%s has no argument %q", op.tool, name)
		}
		if args[name] == nil {
			continue
		}
		value := fmt.Sprint(args[name])
		if op.Parameters[i].In == "query" {
			query.Set(name, value)
			continue
		}
		if value == "" || value == "." || value == ".." {
			return "", nil, fmt.Errorf("%s is not a valid ID", name)
		}
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	if _, rest, missing := strings.Cut(path, "{"); missing {
		name, _, _ := strings.Cut(rest, "}")
		return "", nil, fmt.Errorf("the argument %q is required", name)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, nil, nil
}
