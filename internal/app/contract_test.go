package app

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stipend/stipend/internal/api"
	"github.com/stipend/stipend/internal/api/contracttest"
)

// Every answer that a test of this package gets is held to the contract.
func init() {
	c, err := contracttest.Open(api.Document())
	if err != nil {
		panic(err)
	}
	http.DefaultTransport = c.Transport(http.DefaultTransport)
}

// What the service serves, what is committed for clients to be made from, and what the code says are one document.
func TestTheCommittedContractIsTheServedOne(t *testing.T) {
	committed, err := os.ReadFile("../../client/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, committed); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(compact.Bytes(), api.Document()) {
		t.Error("client/openapi.json is not the contract of the code: run make generate, and look at the difference; within 2.x there are only additions")
	}
}

// The contract is written for people: everything in it is described, and every example is a valid one.
func TestTheContractIsComplete(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(api.Document()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("contract.json", document); err != nil {
		t.Fatal(err)
	}
	valid := func(pointer string, example any) {
		t.Helper()
		s, err := compiler.Compile("contract.json#" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(example); err != nil {
			t.Errorf("%s: its example is not valid: %v", pointer, err)
		}
	}
	var walk func(pointer string, v any)
	walk = func(pointer string, v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				walk(pointer+"/-", item)
			}
		case object:
			if members, ok := v["properties"].(object); ok && v["type"] == "object" {
				for name, member := range members {
					at := pointer + "/properties/" + name
					m := member.(object)
					if m["description"] == nil && m["$ref"] == nil {
						t.Errorf("%s has no description: give the field a doc tag, or the word a line in internal/api/words.go", at)
					}
					for _, example := range list(m["examples"]) {
						valid(at, example)
					}
				}
			}
			for name, member := range v {
				walk(pointer+"/"+strings.ReplaceAll(name, "/", "~1"), member)
			}
		}
	}
	walk("", document)
	for path, methods := range document.(object)["paths"].(object) {
		for method, op := range methods.(object) {
			o := op.(object)
			at := "/paths/" + escaped(path) + "/" + method
			if about, _ := o["description"].(string); about == "" || o["summary"] == "" {
				t.Errorf("%s has no description", at)
			}
			for _, p := range list(o["parameters"]) {
				if p := p.(object); p["$ref"] == nil && p["description"] == nil {
					t.Errorf("%s: the parameter %v has no description: give the field a doc tag, or the word a line in internal/api/words.go", at, p["name"])
				}
			}
			if body, ok := o["requestBody"].(object); ok {
				content := body["content"].(object)["application/json"].(object)
				valid(at+"/requestBody/content/application~1json/schema", content["example"])
			}
			for status, r := range o["responses"].(object) {
				content, _ := r.(object)["content"].(object)["application/json"].(object)
				if example, ok := content["example"]; ok {
					valid(at+"/responses/"+status+"/content/application~1json/schema", example)
				}
			}
		}
	}
	for code, example := range document.(object)["components"].(object)["examples"].(object) {
		if e := example.(object)["value"].(object); e["code"] != code {
			t.Errorf("the example of %s shows %v", code, e["code"])
		} else {
			valid("/components/schemas/Problem", e)
		}
	}
}

func escaped(path string) string {
	return strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(path)
}

func list(v any) []any {
	l, _ := v.([]any)
	return slices.Clone(l)
}
