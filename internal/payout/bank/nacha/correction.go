package nacha

import (
	"fmt"
	"strings"
)

// Correction has the data that a notification of change asks for. Empty fields need no correction.
type Correction struct {
	Routing, Account, Name string
	Type                   string // checking or savings
}

// correctionFields has, by code, the offset of each field in the corrected data of an addenda record 98; -1 means
// that the code does not have the field.
var correctionFields = map[string]struct{ routing, account, name, kind int }{
	"C01": {-1, 0, -1, -1}, "C02": {0, -1, -1, -1}, "C03": {0, 12, -1, -1}, "C04": {-1, -1, 0, -1},
	"C05": {-1, -1, -1, 0}, "C06": {-1, 0, -1, 20}, "C07": {0, 9, -1, 26},
}

// Widths of the fields in the corrected data, in characters.
const (
	routingWidth = 9
	accountWidth = 17
	nameWidth    = 22
	kindWidth    = 2
)

// Correction parses the corrected data of a notification of change. It returns an error if the code does not concern
// the receiver's account or the data does not match the code.
func (a Response) Correction() (c Correction, err error) {
	at, known := correctionFields[a.Code]
	if !known {
		return c, fmt.Errorf("nacha: %s (%s) is not about the receiver's account", a.Code, ReasonText(a.Code))
	}
	data := a.Corrected + strings.Repeat(" ", width)
	bad := func(what, got string) (Correction, error) {
		return Correction{}, fmt.Errorf("nacha: %s asks for the %s %q, which is invalid", a.Code, what, got)
	}
	part := func(from, n int) string { return strings.TrimSpace(data[from : from+n]) }
	if at.routing >= 0 {
		if c.Routing = part(at.routing, routingWidth); !ValidRoutingNumber(c.Routing) {
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

// Corrected returns the corrected data of a notification of change with the given code. It contains only the fields
// that the code concerns.
func (c Correction) Corrected(code string) string {
	at, known := correctionFields[code]
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
