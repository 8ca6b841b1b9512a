package app_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

var metricName = regexp.MustCompile(`\bstipend_[a-z_]+`)

// Alerts, the dashboard and the documentation name metrics that exist, and no metric is without documentation.
func TestDeployedFilesNameExistingMetrics(t *testing.T) {
	names := app.MetricNames()
	if len(names) < 30 {
		t.Fatalf("%d metrics were found", len(names))
	}
	root, err := testkit.Root()
	testkit.Check(t, err)
	var files []string
	testkit.Check(t, filepath.WalkDir(filepath.Join(root, "deploy"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, name)
		}
		return err
	}))
	files = append(files, filepath.Join(root, "docs", "operating.md"), filepath.Join(root, "docs", "observing.md"))
	documented := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Check(t, err)
		for _, name := range metricName.FindAllString(string(text), -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !slices.Contains(names, name) {
				t.Errorf("%s names %s, which does not exist", filepath.Base(file), name)
			}
			if strings.HasSuffix(file, ".md") {
				documented[name] = true
			}
		}
	}
	for _, name := range names {
		if !documented[name] {
			t.Errorf("docs/observing.md lacks %s", name)
		}
	}
}

// The metrics of what waits have values in a service that has just paid.
func TestMetricsShowWhatWaits(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url)
		d := newAPIClient(t, s)
		made := d.payTwo("25.00")
		d.deposit(made.PayrollID, "exact", "")
		d.fulfilled(made.PayrollID)
		_, body := get(t, s.Ready().MetricsURL)
		for _, want := range []string{
			`stipend_payrolls{state="on_hold"} 0`, "stipend_payouts_paused 0", "stipend_webhooks_waiting ",
			`stipend_db_connections{pool="jobs",state="max"} 8`, "stipend_commit_functions_count ",
			`stipend_job_seconds_bucket{`, "stipend_price_observed_seconds ", "stipend_audit_entries 0",
			`stipend_build_info{`, `stipend_db_writes{pool="jobs"} `,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
	})
}

// The address of the metrics says why a process is not ready, and what staff must investigate.
func TestReadinessExplainsItself(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	address := strings.TrimSuffix(s.Ready().MetricsURL, "/metrics") + "/readyz"
	s.SetStopping(true)
	defer s.SetStopping(false)
	code, body := get(t, address)
	var answer struct{ Status, Reason string }
	testkit.Check(t, json.Unmarshal([]byte(body), &answer))
	if code != http.StatusServiceUnavailable || answer.Status != "not_ready" || answer.Reason != "stopping" {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if code, body := get(t, s.Ready().BaseURL+"/readyz"); code != http.StatusServiceUnavailable ||
		strings.Contains(body, "stopping") {
		t.Errorf("the public /readyz answers %d %s", code, body)
	}
}
