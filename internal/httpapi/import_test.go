package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// asImport returns the body of an import.
func asImport(file string, dryRun bool) string {
	body, _ := json.Marshal(members{"csv": file, "dry_run": dryRun})
	return string(body)
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
