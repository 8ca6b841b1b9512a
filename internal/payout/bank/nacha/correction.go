package nacha

import (
	"fmt"
	"strings"
)

// Correction is what a notification of change says that an entry should have had. What is empty was right.
type Correction struct {
	Routing, Account, Name string
	Type                   string // checking or savings
}

// about says where the parts of a correction stand in the corrected data of an addenda record 98, by the code; -1 for none.
var about = map[string]struct{ routing, account, name, kind int }{
	"C01": {-1, 0, -1, -1}, "C02": {0, -1, -1, -1}, "C03": {0, 12, -1, -1}, "C04": {-1, -1, 0, -1},
	"C05": {-1, -1, -1, 0}, "C06": {-1, 0, -1, 20}, "C07": {0, 9, -1, 26},
}

// The widths of the parts.
const (
	routingWidth = 9
	accountWidth = 17
	nameWidth    = 22
	kindWidth    = 2
)

// Correction reads what a notification of change wants. It refuses one that is not about the receiver's account (what it wants is the
// originator's own matter), and one whose data is not what its code says.
func (a Answer) Correction() (c Correction, err error) {
	at, known := about[a.Code]
	if !known {
		return c, fmt.Errorf("nacha: %s (%s) is not about the receiver's account", a.Code, Says(a.Code))
	}
	data := a.Corrected + strings.Repeat(" ", width)
	bad := func(what, got string) (Correction, error) {
		return Correction{}, fmt.Errorf("nacha: %s wants the %s %q, which is none", a.Code, what, got)
	}
	part := func(from, n int) string { return strings.TrimSpace(data[from : from+n]) }
	if at.routing >= 0 {
		if c.Routing = part(at.routing, routingWidth); !Routing(c.Routing) {
			return bad("routing number", c.Routing)
		}
	}
	if at.account >= 0 {
		if c.Account = part(at.account, accountWidth); c.Account == "" {
			return bad("account number", c.Account)
		}
	}
	if at.name >= 0 {
		if c.Name = part(at.name, nameWidth); c.Name == "" {
			return bad("name", c.Name)
		}
	}
	if at.kind >= 0 {
		switch code := part(at.kind, kindWidth); code {
		case "22", "23", "24", "27", "28", "29":
			c.Type = "checking"
		case "32", "33", "34", "37", "38", "39":
			c.Type = "savings"
		default:
			return bad("transaction code", code)
		}
	}
	return c, nil
}

// Corrected writes a correction as a notification of change with a code has it: the parts that the code is about.
func (c Correction) Corrected(code string) string {
	at, known := about[code]
	if !known {
		return ""
	}
	data := []byte(strings.Repeat(" ", 29))
	put := func(from int, s string) {
		if from >= 0 {
			copy(data[from:], s)
		}
	}
	put(at.routing, c.Routing)
	put(at.account, c.Account)
	put(at.name, c.Name)
	put(at.kind, map[string]string{"checking": "22", "savings": "32"}[c.Type])
	return strings.TrimRight(string(data), " ")
}
