// Package webhook owns the events that partners hear of.
//
// An event is a row that commits with the change it tells of: the snapshot taken then is what is told, however
// late. Each event of an object carries the object's sequence, so a reader can put them in order.
package webhook

import (
	"encoding/json"
	"fmt"

	"github.com/stipend/stipend/internal/db"
)

// Event is something that happened to an object of a company.
type Event struct {
	CompanyID string
	Name      string // "payroll.created"
	ObjectID  string
	Sequence  int64 // the object's version after the change; one event per object, name and sequence
	Data      any   // the event's data, written as JSON
}

// Emit leaves an event for the commit.
func Emit(tx *db.Tx, e Event) error {
	data, err := json.Marshal(e.Data)
	if err != nil {
		return fmt.Errorf("event %s of %s: %w", e.Name, e.ObjectID, err)
	}
	insertEvent(tx, e, string(data))
	return nil
}
