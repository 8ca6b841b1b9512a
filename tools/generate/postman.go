package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/httpapi"
)

// postmanFile is the collection of all operations for Postman, in format version 2.1, which other programs can also
// import.
const postmanFile = "api/postman.json"

type (
	postmanCollection struct {
		Info struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Schema      string `json:"schema"`
		} `json:"info"`
		Auth     postmanAuth       `json:"auth"`
		Variable []postmanVariable `json:"variable"`
		Item     []postmanFolder   `json:"item"`
	}
	postmanAuth struct {
		Type  string            `json:"type"`
		Basic []postmanVariable `json:"basic"`
	}
	postmanVariable struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	postmanFolder struct {
		Name string           `json:"name"`
		Item []postmanRequest `json:"item"`
	}
	postmanRequest struct {
		Name    string `json:"name"`
		Request struct {
			Method      string            `json:"method"`
			Description string            `json:"description,omitempty"`
			Header      []postmanVariable `json:"header"`
			Body        *postmanBody      `json:"body,omitempty"`
			URL         postmanURL        `json:"url"`
		} `json:"request"`
	}
	postmanBody struct {
		Mode    string `json:"mode"`
		Raw     string `json:"raw"`
		Options any    `json:"options"`
	}
	postmanURL struct {
		Raw      string             `json:"raw"`
		Host     []string           `json:"host"`
		Path     []string           `json:"path"`
		Query    []postmanParameter `json:"query,omitempty"`
		Variable []postmanParameter `json:"variable,omitempty"`
	}
	postmanParameter struct {
		Key         string `json:"key"`
		Value       string `json:"value"`
		Description string `json:"description,omitempty"`
		Disabled    bool   `json:"disabled,omitempty"`
	}
)

// examples contains the part of the contract that the model of the SDKs does not need.
type examples struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref string `json:"$ref"`
		}
		RequestBody *struct {
			Content map[string]struct{ Example json.RawMessage }
		}
	}
	Components struct{ Parameters map[string]parameter }
}

var wholeParameter = regexp.MustCompile(`^\{(\w+)\}$`)

// writePostman writes the collection, with a folder for each tag of the contract and a request for each operation.
func writePostman() error {
	var c contract
	var more examples
	document := httpapi.Document()
	if err := json.Unmarshal(document, &c); err != nil {
		return err
	}
	if err := json.Unmarshal(document, &more); err != nil {
		return err
	}
	var all postmanCollection
	all.Info.Name = "Stipend"
	all.Info.Description = "Set the variables url and key. Guides are at /docs."
	all.Info.Schema = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
	all.Auth = postmanAuth{"basic", []postmanVariable{{"username", "{{key}}"}, {"password", ""}}}
	all.Variable = []postmanVariable{{"url", "http://127.0.0.1:8080"}, {"key", ""}}
	for _, path := range slices.Sorted(maps.Keys(c.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(c.Paths[path])) {
			op := c.Paths[path][method]
			if len(op.Tags) != 1 {
				return fmt.Errorf("%s %s has %d tags", method, path, len(op.Tags))
			}
			var r postmanRequest
			r.Name, r.Request.Method, r.Request.Description = op.Summary, strings.ToUpper(method), op.Description
			r.Request.Header = []postmanVariable{}
			own := more.Paths[path][method]
			for _, p := range own.Parameters {
				known := more.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
				if known.Name == "Idempotency-Key" {
					r.Request.Header = append(r.Request.Header, postmanVariable{known.Name, "{{$guid}}"})
				}
			}
			r.Request.URL = requestURL(path, op.Parameters)
			if own.RequestBody != nil {
				if body, ok := own.RequestBody.Content["application/json"]; ok {
					raw, err := json.MarshalIndent(body.Example, "", "  ")
					if err != nil {
						return err
					}
					r.Request.Header = append(r.Request.Header, postmanVariable{"Content-Type", "application/json"})
					r.Request.Body = &postmanBody{"raw", string(raw), map[string]any{"raw": map[string]string{"language": "json"}}}
				}
			}
			i := slices.IndexFunc(all.Item, func(f postmanFolder) bool { return f.Name == op.Tags[0] })
			if i < 0 {
				all.Item = append(all.Item, postmanFolder{Name: op.Tags[0]})
				i = len(all.Item) - 1
			}
			all.Item[i].Item = append(all.Item[i].Item, r)
		}
	}
	slices.SortFunc(all.Item, func(a, b postmanFolder) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	//nolint:gosec // a file of the repository
	return os.WriteFile(filepath.FromSlash(postmanFile), append(text, '\n'), 0o644)
}

// requestURL returns the URL of an operation. Optional query parameters are present but disabled.
func requestURL(path string, parameters []parameter) postmanURL {
	u := postmanURL{Host: []string{"{{url}}"}}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if m := wholeParameter.FindStringSubmatch(segment); m != nil {
			segment = ":" + m[1]
			u.Variable = append(u.Variable, postmanParameter{Key: m[1]})
		}
		u.Path = append(u.Path, segment)
	}
	u.Raw = "{{url}}/" + strings.Join(u.Path, "/")
	for _, p := range parameters {
		if p.In == "query" {
			u.Query = append(u.Query, postmanParameter{Key: p.Name, Description: p.Description, Disabled: !p.Required})
		}
	}
	return u
}
