package httpapi

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
)

// asImport returns the body of an import.
func asImport(file string, dryRun bool) string {
	body, _ := json.Marshal(members{"csv": file, "dry_run": dryRun})
	return string(body)
}

// outcome returns the status and the columns with problems of each row: "created", "failed country,email".
func outcome(answer members) (rows []string) {
	for _, r := range answer["results"].([]any) {
		row := r.(members)
		var columns []string
		for _, e := range row["errors"].([]any) {
			columns = append(columns, e.(members)["column"].(string))
		}
		rows = append(rows, strings.TrimSpace(row["status"].(string)+" "+strings.Join(columns, ",")))
	}
	return rows
}

const staff = "\ufeffLast_Name,first_name,country,external_id,email,role,name,recipient_type\r\n" +
	"Lovelace,Ada,GB,e-1,ada@example.com,employee,,\r\n" +
	",,DE,e-2,,vendor,\"Acme, \"\"the\"\" firm\",company\r\n" +
	"Nobody,,XX,e-3,no,boss,,\r\n" +
	"Twice,Bob,US,e-1,,,,\r\n" +
	"Short,Row\r\n" +
	"'=HYPERLINK(),Eve,US,,,,,\r\n"

func TestImport(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		at := "/api/company/" + b.company + "/recipients/import"
		count := func() (n int) {
			b.query("SELECT COUNT(*) FROM recipients", &n)
			return n
		}
		dry, text := ask[members](b, "POST", at, asImport(staff, true))
		want := []string{"valid", "valid", "failed role,email,country,first_name", "failed external_id", "failed", "valid"}
		if got := outcome(dry); len(got) != 6 || got[0] != want[0] || got[1] != want[1] ||
			!strings.HasPrefix(got[2], "failed") || got[3] != want[3] || got[4] != want[4] || got[5] != want[5] || count() != 0 {
			t.Errorf("dry run: %d made, %s", count(), text)
		}
		made, text := ask[members](b, "POST", at, asImport(staff, false))
		if made["created"] != 3.0 || made["failed"] != 3.0 || made["existing"] != 0.0 || count() != 3 {
			t.Fatalf("%d made, %s", count(), text)
		}
		if problems := made["results"].([]any)[2].(members)["errors"].([]any); len(problems) != 4 ||
			made["results"].([]any)[2].(members)["row"] != 4.0 {
			t.Errorf("%s", text)
		}
		if strings.Contains(text, "boss") || strings.Contains(text, "XX") {
			t.Errorf("the response contains submitted values: %s", text)
		}
		var events int
		b.query("SELECT COUNT(*) FROM events WHERE name = 'recipient.created'", &events)
		if events != 3 {
			t.Errorf("%d events", events)
		}

		// A second import finds the recipients with an external ID.
		again, text := ask[members](b, "POST", at, asImport(staff, false))
		if got := outcome(again); got[0] != "existing" || got[1] != "existing" || got[5] != "created" {
			t.Errorf("%s", text)
		}
		if again["results"].([]any)[0].(members)["recipient_id"] != made["results"].([]any)[0].(members)["recipient_id"] {
			t.Error("another recipient has the external id")
		}
		keyed, _ := ask[members](b, "POST", at, asImport("first_name,last_name,country\nA,B,US\n", false), "Idempotency-Key",
			"i1")
		replay, _ := ask[members](b, "POST", at, asImport("first_name,last_name,country\nA,B,US\n", false), "Idempotency-Key",
			"i1")
		if fmt.Sprint(keyed) != fmt.Sprint(replay) || count() != 5 {
			t.Errorf("a replay made more: %d", count())
		}

		// An export can be opened in a spreadsheet and imported again.
		got := b.do("GET", "/api/company/"+b.company+"/recipients/export?sort_by=name", "")
		if got.status != 200 || got.header.Get("Content-Type") != "text/csv; charset=utf-8" ||
			!strings.Contains(got.header.Get("Content-Disposition"), "recipients.csv") {
			t.Fatalf("%d %v", got.status, got.header)
		}
		rows, err := csv.NewReader(strings.NewReader(got.text)).ReadAll()
		if err != nil || len(rows) != 6 {
			t.Fatalf("%v %s", err, got.text)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") {
					t.Errorf("a spreadsheet runs %q", cell)
				}
			}
		}
		if !strings.Contains(got.text, "'=HYPERLINK()") || !strings.Contains(got.text, `"Acme, ""the"" firm"`) {
			t.Errorf("%s", got.text)
		}
		if back, text := ask[members](b, "POST", at, asImport(got.text, true)); back["existing"] != 2.0 ||
			back["failed"] != 0.0 {
			t.Errorf("%s", text)
		}
		if one := b.do("GET", "/api/company/"+b.company+"/recipients/export?search=love", ""); strings.Count(one.text,
			"\n") != 2 {
			t.Errorf("%s", one.text)
		}

		stranger := newService(t, d, nil)
		if got := stranger.do("GET", "/api/company/"+stranger.company+"/recipients/export", ""); strings.Count(got.text,
			"\n") != 1 {
			t.Errorf("another company gets %s", got.text)
		}
		header := "first_name,last_name,country\n"
		before := count()
		for name, c := range map[string]struct {
			status int
			code   string
			path   string
			body   string
			auth   string
		}{
			"no file":            {422, "missing_field", at, `{}`, ""},
			"an empty file":      {422, "invalid_parameter", at, asImport("", false), ""},
			"only white space":   {422, "unknown_field", at, asImport("  ", false), ""},
			"an unknown column":  {422, "unknown_field", at, asImport("first_name,salary\nA,5\n", false), ""},
			"a column twice":     {422, "invalid_parameter", at, asImport("country,Country\nUS,US\n", false), ""},
			"quotes that run on": {422, "invalid_parameter", at, asImport(header+"A,B,US\n\"A,B,US\n", false), ""},
			"too many rows": {422, "invalid_parameter", at, asImport(header+strings.Repeat("A,B,US\n", 10_001), false),
				""},
			"a list for a file": {422, "invalid_type", at, `{"csv":[]}`, ""},
			"a member too many": {422, "unknown_field", at, `{"csv":"a","mode":"x"}`, ""},
			"too many bytes":    {413, "payload_too_large", at, asImport(strings.Repeat("x", 8<<20), false), ""},
			"another company":   {404, "not_found", at, asImport(header+"A,B,US\n", false), "Basic " + stranger.key},
			"export of another": {404, "not_found", "/api/company/" + stranger.company + "/recipients/export", "", ""},
			"export without scope": {403, "insufficient_scope", "/api/company/" + b.company + "/recipients/export", "",
				b.keyWith(identity.CompanyDetail)},
			"import without scope": {403, "insufficient_scope", at, asImport(header, false),
				b.keyWith(identity.CompanyWorkerList)},
			"export by what": {422, "invalid_parameter", "/api/company/" + b.company + "/recipients/export?sort_by=salary",
				"", ""},
		} {
			method, headers := "POST", []string{}
			if c.body == "" {
				method = "GET"
			}
			if c.auth != "" {
				headers = []string{"Authorization", c.auth}
			}
			if got := b.do(method, c.path, c.body, headers...); got.status != c.status || got.json(t)["code"] != c.code {
				t.Errorf("%s: %d %s", name, got.status, got.text[:min(300, len(got.text))])
			}
		}
		if count() != before {
			t.Errorf("refusals made %d", count()-before)
		}
	})
}

// Two concurrent imports of the same people create each person once.
func TestConcurrentImportsCreateEachPersonOnce(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		var file strings.Builder
		file.WriteString("name;recipient_type;country;external_id\n")
		for i := range 300 {
			fmt.Fprintf(&file, "Firm %d;company;DE;f-%d\n", i, i)
		}
		body := asImport(file.String(), false)
		answers := make([]reply, 4)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = b.do("POST", "/api/company/"+b.company+"/recipients/import", body) })
		}
		wg.Wait()
		var created []float64
		for _, got := range answers {
			if got.status != 200 {
				t.Fatalf("%d %s", got.status, got.text)
			}
			created = append(created, got.json(t)["created"].(float64))
		}
		slices.Sort(created)
		if !slices.Equal(created, []float64{0, 0, 0, 300}) {
			t.Errorf("created %v", created)
		}
		if list, text := ask[members](b, "GET", "/api/company/recipients?recipient_type=company&per_page=1",
			""); list["meta"].(members)["total"] != 300.0 {
			t.Errorf("%s", text)
		}
	})
}
