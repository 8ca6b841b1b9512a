package document

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"regexp"
	"time"

	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
)

// Content types of files.
const (
	TypePDF = "application/pdf"
	TypeCSV = "text/csv; charset=utf-8"
	TypeXML = "application/xml"
)

// File is a document with its file name.
type File struct {
	Name, ContentType string
	Data              []byte
}

// file returns the PDF as a file.
func (d *PDF) file(name string) (File, error) {
	data, err := d.Bytes()
	return File{name + ".pdf", TypePDF, data}, err
}

// decimal matches amounts. Negative amounts begin with a minus sign but are not formulas.
var decimal = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// Sheet returns rows as a CSV file. It escapes cells that a spreadsheet could execute as formulas.
func Sheet(name string, rows [][]string) (File, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, text := range row {
			if safe[i] = text; !decimal.MatchString(text) {
				safe[i] = payee.SafeCell(text)
			}
		}
		_ = w.Write(safe) // w.Error reports errors
	}
	w.Flush()
	return File{name, TypeCSV, b.Bytes()}, w.Error()
}

// timestamp formats a time as RFC 3339. It returns "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// DestinationHint returns a masked form of an output's destination, as it was when the payroll was released.
func DestinationHint(o payout.Output) string {
	var d destination.Destination
	if json.Unmarshal(o.Destination, &d) != nil {
		return "?"
	}
	return cmp.Or(d.Hint(), string(d.Symbol))
}
