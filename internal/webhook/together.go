package webhook

import (
	"strings"

	"github.com/stipend/stipend/internal/db"
)

// Told is one of several objects that an event tells of, each with data of its own.
type Told struct {
	ObjectID string
	Data     any
}

// EmitTogether is Emit for each of many objects to which the same has happened: they come in this order, and are read and delivered as any
// other event. Those of a run (see [db.Tx.NewIDs]) that follow each other are one row, so one call tells of all objects of a run that reach
// the sequence.
func EmitTogether(tx *db.Tx, e Event, all []Told) error {
	for len(all) > 0 {
		n := 1
		for n < len(all) && n < db.RunLength && inRun(all[n].ObjectID) && db.RunOf(all[n].ObjectID) == db.RunOf(all[0].ObjectID) {
			n++
		}
		if err := emitRow(tx, e, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// inRun leaves alone what is no id of ours.
func inRun(id string) bool { return len(id) > len("pmt_")+20 }

func emitRow(tx *db.Tx, e Event, all []Told) error {
	if len(all) == 1 {
		e.ObjectID, e.Data = all[0].ObjectID, all[0].Data
		return Emit(tx, e)
	}
	var objects, lines []byte
	for i, one := range all {
		e.ObjectID, e.Data = one.ObjectID, one.Data
		if i > 0 {
			lines = append(lines, '\n') // which JSON in one line has not
		}
		var err error
		if lines, err = e.appendJSON(lines); err != nil {
			return err
		}
		objects = append(objects, one.ObjectID[len(one.ObjectID)-1])
	}
	e.ObjectID = rowOf(e.ObjectID)
	insertEvent(tx, rowOf(tx.NewID("evt")), e, string(lines), string(objects))
	tx.Notify(NoticeNew)
	return nil
}

// rowOf is what a row of several events has for the id of one of them, and for that of its object.
func rowOf(id string) string { return db.RunOf(id) + "z" }

// row is a row of events: one, or several that were told together.
type row struct {
	Placed         // with the row's own ids, the position of its last event and the data of all
	objects string // see EmitTogether
}

// events are those of the row, in their order.
func (r row) events() []Placed {
	if r.objects == "" {
		return []Placed{r.Placed}
	}
	all := make([]Placed, len(r.objects))
	lines := strings.Split(string(r.Data), "\n")
	for i := range all {
		e := r.Placed
		e.ID, e.ObjectID = db.RunID(db.RunOf(r.ID), i), db.RunOf(r.ObjectID)+r.objects[i:i+1]
		e.Position -= int64(len(all) - 1 - i)
		if len(r.Data) > 0 { // it was read
			e.Data = []byte(lines[i])
		}
		all[i] = e
	}
	return all
}
