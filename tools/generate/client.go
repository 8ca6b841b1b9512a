package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stipend/stipend/internal/httpapi"
)

// writeClientDocument writes the contract as the generator of the Go client takes it: without what the hand-written layer does
// for every operation alike (credentials, keys, versions), and with one form for all errors.
func writeClientDocument(name string) error {
	var doc map[string]any
	if err := json.Unmarshal(httpapi.Document(), &doc); err != nil {
		return err
	}
	components := doc["components"].(map[string]any)
	for _, part := range []string{"securitySchemes", "parameters", "headers", "examples", "responses"} {
		delete(components, part)
	}
	for _, methods := range doc["paths"].(map[string]any) {
		for _, op := range methods.(map[string]any) {
			simplify(op.(map[string]any))
		}
	}
	// A document, not an answer; and what every OAuth library does better.
	for _, path := range []string{"/openapi.json", "/oauth2/token", "/oauth2/revoke", "/.well-known/oauth-authorization-server"} {
		delete(doc["paths"].(map[string]any), path)
	}
	dropExamples(doc)
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // a directory of the repository
		return err
	}
	return os.WriteFile(name, text, 0o600) //nolint:gosec // the file that the caller of this tool names
}

func simplify(op map[string]any) {
	delete(op, "security")
	var params []any
	for _, p := range list(op["parameters"]) {
		if p.(map[string]any)["$ref"] == nil {
			params = append(params, p)
		}
	}
	op["parameters"] = params
	done := op["responses"].(map[string]any)["200"].(map[string]any)
	delete(done, "headers")
	op["responses"] = map[string]any{"200": done, "default": map[string]any{
		"description": "An error.",
		"content":     map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Problem"}}},
	}}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// dropExamples leaves out what the generator would read as numbers and lose digits of.
func dropExamples(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, named := v["properties"]; named || v["type"] != nil || v["schema"] != nil || v["content"] != nil {
			delete(v, "examples")
			delete(v, "example")
		}
		for _, member := range v {
			dropExamples(member)
		}
	case []any:
		for _, item := range v {
			dropExamples(item)
		}
	}
}
