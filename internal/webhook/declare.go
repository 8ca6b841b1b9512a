package webhook

import (
	"reflect"
	"slices"
	"strings"
)

// Type is a declared event whose payload is a P.
type Type[P any] struct {
	Name    string // "payroll.created"
	Example P
}

// Declaration describes a declared event.
type Declaration struct {
	Name    string
	When    string // when it is sent: one or two sentences
	Payload reflect.Type
	Example any // of the payload's type
}

var declared []Declaration

func declare[P any](name, when string, example P) Type[P] {
	declared = append(declared, Declaration{name, when, reflect.TypeFor[P](), example})
	return Type[P]{name, example}
}

// Declarations returns all events, sorted by name.
func Declarations() []Declaration {
	return slices.SortedFunc(slices.Values(declared), func(a, b Declaration) int { return strings.Compare(a.Name, b.Name) })
}

// Names returns the names of all events, sorted.
func Names() []string {
	all := Declarations()
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return names
}

// Event is something that happened to an object of a company. [Type.Event] makes one.
type Event struct {
	ID        string // made by Emit if empty
	CompanyID string
	ObjectID  string
	Sequence  int64

	name string
	data any
}

// Event returns an event of an object. The sequence is the object's version after the change, or 0 for [EmitNext]. An object
// has at most one event of each name and sequence.
func (t Type[P]) Event(companyID, objectID string, sequence int64, data P) Event {
	return Event{CompanyID: companyID, ObjectID: objectID, Sequence: sequence, name: t.Name, data: data}
}
