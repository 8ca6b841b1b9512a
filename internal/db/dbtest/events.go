package dbtest

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stipend/stipend/internal/httpapi/openapitest"
	"github.com/stipend/stipend/internal/testkit"
)

// eventSchemas returns the event schemas of the committed API contract.
var eventSchemas = sync.OnceValues(func() (*openapitest.Events, error) {
	root, err := testkit.Root()
	if err != nil {
		return nil, err
	}
	document, err := os.ReadFile(filepath.Join(root, "api", "openapi.json"))
	if err != nil {
		return nil, err
	}
	return openapitest.OpenEvents(document)
})

const selectPayloads = "SELECT DISTINCT name, data FROM events"

// checkEvents fails the test if the payload of an event in the test's database does not match the contract's schema.
func checkEvents(t testing.TB, url string) {
	t.Helper()
	payloads, err := readPayloads(url)
	if err != nil {
		t.Errorf("read the events of the test's database: %v", err)
	}
	if len(payloads) == 0 {
		return
	}
	schemas, err := eventSchemas()
	if err != nil {
		t.Errorf("read api/openapi.json: %v", err)
		return
	}
	for _, p := range payloads {
		if err := schemas.Check(p[0], []byte(p[1])); err != nil {
			t.Errorf("%v\nIf the payload's type was changed, run go run ./tools/generate contract", err)
		}
		if text := tooPrecise.FindString(p[1]); text != "" {
			t.Errorf("event %s has the time %s, want whole seconds or milliseconds", p[0], text)
		}
	}
}

// tooPrecise matches a time with more than three decimal places of a second.
var tooPrecise = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{4,}`)

func readPayloads(url string) (payloads [][2]string, err error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, nil // the test removed its database
		}
		d, err := sql.Open("sqlite", path)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		rows, err := d.QueryContext(context.Background(), selectPayloads)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var p [2]string
			if err := rows.Scan(&p[0], &p[1]); err != nil {
				return nil, err
			}
			payloads = append(payloads, p)
		}
		return payloads, rows.Err()
	}
	c, err := pgx.Connect(context.Background(), url)
	if err != nil {
		return nil, err
	}
	defer c.Close(context.Background())
	rows, err := c.Query(context.Background(), selectPayloads)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (p [2]string, err error) { return p, r.Scan(&p[0], &p[1]) })
}
