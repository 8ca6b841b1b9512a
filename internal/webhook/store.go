package webhook

import "github.com/stipend/stipend/internal/db"

var eventRows = db.InsertGroup(95, "events", "company_id", "event_id", "object_id", "sequence", "name", "data", "created_at")

func insertEvent(tx *db.Tx, e Event, data string) {
	tx.Defer(eventRows, []any{e.CompanyID, tx.NewID("evt"), e.ObjectID, e.Sequence, e.Name, data, db.Micros(tx.Now())})
}
