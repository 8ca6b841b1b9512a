package payee

import (
	"testing"
	"time"
)

// Every row of a file is valid or has problems, and nothing but its cells gets into the recipient.
func FuzzImportedFile(f *testing.F) {
	for _, text := range []string{
		"external_id,first_name,last_name,country\ni-1,Mary,Jackson,US\n",
		"\ufeffexternal_id;first_name;last_name;country\ni-1;Mary;Jackson;US;\n;;;\n",
		"first_name,first_name\n\"a\nb\",c\n", "email,name,country\n'=1+1,Acme,DE\n",
	} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		r, header, err := readHeader(text)
		if err != nil {
			return
		}
		for {
			record, err := r.Read()
			if err != nil {
				return
			}
			row, p := importRow(record, header, now)
			if valid := row.Status == ImportValid; valid != (len(row.Problems) == 0) {
				t.Errorf("%q is %s with the problems %v", record, row.Status, row.Problems)
			} else if valid && p.r.Name == "" {
				t.Errorf("%q is valid without a name", record)
			}
		}
	})
}
