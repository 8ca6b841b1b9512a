package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// A year later nothing is left of the rows that exist only for a time.
func TestEverythingThatGrowsHasABound(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(receiver.Close)
		s := boot(t, url)
		d := newAPIClient(t, s)
		d.ok("POST", "/api/webhooks", `{"url":"`+receiver.URL+`"}`)
		d.ok("POST", "/api/company/worker/invite", `{"email":"grows@example.com"}`, "Idempotency-Key", freshKey())
		now, err := s.DB().Now(t.Context())
		testkit.Check(t, err)
		firstYear := now.Add(time.Hour).UnixMicro()
		tables := map[string]string{
			"events": "created_at", "webhook_deliveries": "created_at", "idempotency": "created_at", "requests": "at",
			"mails": "created_at",
		}
		count := func(table string) int64 {
			return d.count("SELECT COUNT(*) FROM "+table+" WHERE "+tables[table]+" < $1", firstYear)
		}
		for table := range tables {
			if !await(t, time.Minute, func() bool { return count(table) > 0 }) {
				t.Errorf("%s has no rows", table)
			}
		}
		d.advance(365 * 24 * time.Hour)
		testkit.Check(t, s.Stop(t.Context()))
		d.s = boot(t, url)
		for table := range tables { // what was stored after the hourly work of the start is deleted an hour later
			d.advanceUntil(time.Hour, table+" has no row of the first year", func() bool { return count(table) == 0 })
		}
		due := func() int64 {
			return d.count("SELECT COUNT(*) FROM jobs WHERE run_at < $1 AND dead_at = 0", firstYear)
		}
		if !await(t, time.Minute, func() bool { return due() == 0 }) {
			t.Errorf("%d jobs of the first year are left", due())
		}
	})
}
