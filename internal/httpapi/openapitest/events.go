package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Events checks the payloads of events against the webhooks section of a contract.
type Events struct {
	payloads map[string]*jsonschema.Schema
}

// OpenEvents compiles the payload schemas in a contract.
func OpenEvents(document []byte) (*Events, error) {
	var contract struct {
		Webhooks map[string]any `json:"webhooks"`
	}
	if err := json.Unmarshal(document, &contract); err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	closeObjects(whole)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource("contract.json", whole); err != nil {
		return nil, err
	}
	e := &Events{map[string]*jsonschema.Schema{}}
	for name := range contract.Webhooks {
		e.payloads[name], err = compiler.Compile("contract.json#/webhooks/" + name +
			"/post/requestBody/content/application~1json/schema/properties/data")
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Check returns an error that describes how the payload of an event differs from its schema. A member that is not in
// the schema is an error.
func (e *Events) Check(name string, payload []byte) error {
	schema := e.payloads[name]
	if schema == nil {
		return fmt.Errorf("the contract has no event %s", name)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("event %s: %w: %s", name, err, payload)
	}
	return nil
}
