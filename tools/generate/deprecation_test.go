package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/testkit"
)

// The method of a deprecated operation is marked in each SDK in the way of its language, with the day until which it
// works, and in the list of the methods.
func TestMethodsOfDeprecatedOperations(t *testing.T) {
	var contract map[string]any
	numbers := json.NewDecoder(bytes.NewReader(httpapi.Document()))
	numbers.UseNumber()
	testkit.Check(t, numbers.Decode(&contract))
	const path, notice = "/api/company/payrolls", "since 2027-01-01. It works until 2027-07-01."
	op := contract["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)
	op["deprecated"], op["description"] = true, op["description"].(string)+"\n\nDeprecated: "+notice
	text, err := json.Marshal(contract)
	testkit.Check(t, err)
	m, err := readModel(text)
	testkit.Check(t, err)
	for _, sdk := range []struct {
		generate   func(*model) (map[string]string, error)
		file, mark string
	}{
		{goSDK, "services_gen.go", "//\n// Deprecated: " + notice + "\nfunc (s *"},
		{typeScriptSDK, "services_gen.ts", "\t * @deprecated " + notice + "\n\t */\n"},
		{pythonSDK, "services_gen.py", "\n\n        Deprecated: " + notice + "\n"},
	} {
		files, err := sdk.generate(m)
		testkit.Check(t, err)
		if got := strings.Count(files[sdk.file], sdk.mark); got != 1 {
			t.Errorf("%s has %d methods marked as deprecated by %q", sdk.file, got, sdk.mark)
		}
	}
	if page := methodsPage(m); !strings.Contains(page, "| `GET "+path+"` (deprecated) |") ||
		strings.Count(page, "(deprecated)") != 1 {
		t.Error("the list of methods does not mark the operation")
	}
}
