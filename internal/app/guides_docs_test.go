package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// code returns the samples of a guide in a language.
func code(t *testing.T, guide, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/guides", guide))
	testkit.Check(t, err)
	var all []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// The commands of each guide run in order, in a sandbox, and none is refused.
func TestTheCommandsOfTheGuides(t *testing.T) {
	testkit.NotQuick(t, "other programs")
	t.Parallel()
	guides, err := filepath.Glob("../../docs/guides/*.md")
	testkit.Check(t, err)
	for _, guide := range guides {
		name := filepath.Base(guide)
		commands := code(t, name, "sh")
		if name == "shop.md" || len(commands) == 0 { // they have tests of their own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := boot(t, dbtest.SQLite(t))
			script := "set -eu\ncurl() { command curl -sS --fail-with-body \"$@\"; echo; }\n" + strings.Join(commands, "\n")
			run := exec.CommandContext(t.Context(), "bash", "-c", script)
			run.Dir = t.TempDir()
			run.Env = append(os.Environ(), "STIPEND_URL="+s.Ready().BaseURL, "STIPEND_KEY="+s.Ready().Seed.APIKey)
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Every page of the documentation is found through its menu, is accessible, and is Markdown with .md.
func TestTheDocumentation(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	base := s.Ready().BaseURL
	_, start := get(t, base+"/docs")
	pages := regexp.MustCompile(`href="/docs/([a-z-]+)"`).FindAllStringSubmatch(start, -1)
	if len(pages) < 20 { // in the menu, and again in the list
		t.Fatalf("the start page links %d pages", len(pages))
	}
	seen := map[string]bool{}
	for _, m := range pages {
		name := m[1]
		if seen[name] {
			continue
		}
		seen[name] = true
		status, page := get(t, base+"/docs/"+name)
		if status != http.StatusOK || !strings.Contains(page, "<h1>") {
			t.Errorf("/docs/%s: %d", name, status)
		}
		if _, text := get(t, base+"/docs/"+name+".md"); !strings.HasPrefix(text, "# ") {
			t.Errorf("/docs/%s.md begins %.40q", name, text)
		}
		for _, link := range regexp.MustCompile(`href="(/docs/[^"#]+)`).FindAllStringSubmatch(page, -1) {
			if seen[link[1]] {
				continue
			}
			seen[link[1]] = true
			if status, _ := get(t, base+link[1]); status != http.StatusOK {
				t.Errorf("/docs/%s links %s: %d", name, link[1], status)
			}
		}
	}
	for path, want := range map[string]string{
		"/docs/search?q=amount_precision": `href="/docs/errors/amount_precision`,
		"/docs/search?q=PAYROLL.created":  `href="/docs/events#payrollcreated"`,
		"/docs/search?q=quagga":           "Nothing matches",
		"/docs/search?q=%3Cb%3E":          "&lt;b&gt;",
		"/docs/errors/amount_precision":   "What to do",
		"/docs/errors/not_found.md":       "# Not found",
		"/llms.txt":                       base + "/docs/quickstart.md",
	} {
		if status, page := get(t, base+path); status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("%s: %d, without %q:\n%s", path, status, want, page)
		}
	}
	if status, _ := get(t, base+"/docs/none"); status != http.StatusNotFound {
		t.Errorf("a page that does not exist: %d", status)
	}
	b := webtest.Start(t)
	for _, path := range []string{"/docs", "/docs/quickstart", "/docs/webhooks", "/docs/search?q=quote"} {
		for _, look := range []webtest.Look{{}, {Width: 390, Dark: true}} {
			p := b.Open(base+path, look)
			p.Audit()
			p.Quiet()
			p.Close()
		}
	}
}

// A program by others executes the workflow of a payroll, and checks each response against the contract.
func TestTheWorkflowOfAPayroll(t *testing.T) {
	testkit.NotQuick(t, "other programs")
	t.Parallel()
	redocly, err := filepath.Abs("../../.tools/contract/node_modules/.bin/redocly")
	testkit.Check(t, err)
	if _, err := os.Stat(redocly); err != nil {
		t.Fatal("Redocly is not installed; run tools/install.sh contract")
	}
	s := boot(t, dbtest.SQLite(t))
	run := exec.CommandContext(t.Context(), redocly, "respect", "payroll.arazzo.yaml",
		"--input", "key="+s.Ready().Seed.APIKey, "--server", "stipend="+s.Ready().BaseURL)
	run.Dir = "../../api"
	run.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The collection for Postman has a request for each operation. Those without parameters that only read succeed.
func TestThePostmanCollection(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	base := s.Ready().BaseURL
	_, text := get(t, base+"/docs/postman.json")
	var all struct {
		Item []struct {
			Item []struct {
				Request struct {
					Method string
					URL    struct {
						Raw      string
						Variable []any
						Query    []struct{ Disabled bool }
					}
				}
			}
		}
	}
	testkit.Check(t, json.Unmarshal([]byte(text), &all))
	_, text = get(t, base+"/openapi.json")
	var contract struct{ Paths map[string]map[string]any }
	testkit.Check(t, json.Unmarshal([]byte(text), &contract))
	operations, requests, read := 0, 0, 0
	for _, methods := range contract.Paths {
		operations += len(methods)
	}
	client := newAPIClient(t, s)
	for _, folder := range all.Item {
		for _, item := range folder.Item {
			requests++
			r := item.Request
			path, ok := strings.CutPrefix(r.URL.Raw, "{{url}}")
			declared := regexp.MustCompile(`:(\w+)`).ReplaceAllString(path, "{$1}")
			if !ok || contract.Paths[declared][strings.ToLower(r.Method)] == nil {
				t.Errorf("%s %s is not in the contract", r.Method, r.URL.Raw)
			}
			required := slices.ContainsFunc(r.URL.Query, func(q struct{ Disabled bool }) bool { return !q.Disabled })
			if r.Method == http.MethodGet && len(r.URL.Variable) == 0 && !required && strings.HasPrefix(path, "/api/company") {
				read++
				client.ok("GET", path, "")
			}
		}
	}
	if requests != operations || read < 5 {
		t.Errorf("%d requests for %d operations, %d of them tried", requests, operations, read)
	}
}
