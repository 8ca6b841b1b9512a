package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/httpapi/openapitest"
	"github.com/stipend/stipend/internal/testkit"
)

// The tests of this package check every response against the contract.
func init() {
	c, err := openapitest.Open(httpapi.Document())
	if err != nil {
		panic(err)
	}
	http.DefaultTransport = c.Transport(http.DefaultTransport)
}

// The contract that the service serves, the committed file that clients are generated from, and the contract that the
// code generates are the same document.
func TestTheCommittedContractIsTheServedOne(t *testing.T) {
	committed, err := os.ReadFile("../../api/openapi.json")
	testkit.Check(t, err)
	var compact bytes.Buffer
	testkit.Check(t, json.Compact(&compact, committed))
	if !bytes.Equal(compact.Bytes(), httpapi.Document()) {
		t.Error("api/openapi.json is not the contract of the code: run make generate and review the difference; versions " +
			"2.x allow only additions")
	}
}

// state matches the names of response members that hold a state.
var state = regexp.MustCompile(`^(status|[a-z]+_status|[a-z]+_state)$`)

// Everything in the contract has a description, every state lists its values, and every example is valid and has ids
// of the form that the service creates.
func TestTheContractIsComplete(t *testing.T) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(httpapi.Document()))
	testkit.Check(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	testkit.Check(t, compiler.AddResource("contract.json", document))
	valid := func(pointer string, example any) {
		t.Helper()
		s, err := compiler.Compile("contract.json#" + pointer)
		testkit.Check(t, err)
		if err := s.Validate(example); err != nil {
			t.Errorf("%s: its example is not valid: %v", pointer, err)
		}
	}
	// or the id of a member that a run creates
	id := regexp.MustCompile(
		`^([a-z]{3,4}_[0-9abcdefghjkmnpqrstvwxyz]{25}[048cgmrw]|(pmt|evt)_[0-9abcdefghjkmnpqrstvwxyz]{25}[0-9a-f])$`)
	var ids func(pointer, name string, v any)
	ids = func(pointer, name string, v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				ids(pointer, name, item)
			}
		case object:
			for name, member := range v {
				ids(pointer, name, member)
			}
		case string:
			named := strings.HasSuffix(name, "_id") && name != "request_id" && name != "client_id" && name != "tax_id" &&
				name != "payer_id" && name != "creditor_id" && !strings.HasPrefix(name, "external_") ||
				name == "external_company_id"
			if named && v != "" && !id.MatchString(v) {
				t.Errorf("%s: an example has %s in %s, which is not a valid id", pointer, v, name)
			}
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
						t.Errorf("%s has no description: give the field a doc tag, or its name an entry in "+
							"internal/httpapi/field_docs.go", at)
					}
					for _, example := range list(m["examples"]) {
						valid(at, example)
						ids(at, name, example)
					}
					if state.MatchString(name) && m["type"] == "string" && m["enum"] == nil && !strings.HasSuffix(pointer, "Body") {
						t.Errorf("%s is a state but lists no values: give the field an enum tag", at)
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
			for i, p := range list(o["parameters"]) {
				if example := p.(object)["example"]; example != nil {
					valid(at+"/parameters/"+strconv.Itoa(i)+"/schema", example)
					ids(at, p.(object)["name"].(string), example)
				}
				if p := p.(object); p["$ref"] == nil && p["description"] == nil {
					t.Errorf("%s: the parameter %v has no description: give the field a doc tag, or its name an entry in "+
						"internal/httpapi/field_docs.go", at, p["name"])
				}
			}
			if body, ok := o["requestBody"].(object); ok {
				content := body["content"].(object)["application/json"].(object)
				valid(at+"/requestBody/content/application~1json/schema", content["example"])
				ids(at, "", content["example"])
			}
			for status, r := range o["responses"].(object) {
				if r.(object)["$ref"] != nil {
					continue // its examples are in the components
				}
				content, _ := r.(object)["content"].(object)["application/json"].(object)
				if example, ok := content["example"]; ok {
					valid(at+"/responses/"+status+"/content/application~1json/schema", example)
					ids(at, "", example)
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
