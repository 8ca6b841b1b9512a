package webhook_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/webhook"
)

// TestEveryEventIsDocumented holds that docs/webhooks.md lists every event with when it is sent, and no other.
func TestEveryEventIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/webhooks.md")
	testkit.Check(t, err)
	var want strings.Builder
	want.WriteString("| Event | When it is sent |\n|---|---|\n")
	for _, d := range webhook.Declarations() {
		want.WriteString("| `" + d.Name + "` | " + d.When + " |\n")
	}
	if !strings.Contains(string(text), want.String()+"\n") {
		t.Errorf("docs/webhooks.md must have exactly this table:\n%s", want.String())
	}
}

// TestExamplesAreComplete holds that the example of an event can be written and names its object.
func TestExamplesAreComplete(t *testing.T) {
	for _, d := range webhook.Declarations() {
		text, err := json.Marshal(d.Example)
		if err != nil || !strings.Contains(string(text), "_") {
			t.Errorf("%s: %s %v", d.Name, text, err)
		}
	}
}

// TestAnEventNeedsASequence holds that an event without a declared type or a sequence is refused.
func TestAnEventNeedsASequence(t *testing.T) {
	for _, e := range []webhook.Event{
		{CompanyID: "com_1", ObjectID: "prl_1", Sequence: 1},
		webhook.PayrollCreated.Event("com_1", "prl_1", 0, webhook.PayrollCreated.Example),
	} {
		if webhook.Emit(nil, e) == nil {
			t.Errorf("%+v was stored", e)
		}
	}
}

func TestMemberDocsNameExistingMembers(t *testing.T) {
	for payload, docs := range webhook.MemberDocs {
		for member := range docs {
			if !slices.ContainsFunc(reflect.VisibleFields(payload), func(f reflect.StructField) bool {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				return name == member
			}) {
				t.Errorf("%s has no member %s", payload, member)
			}
		}
	}
}
