package app_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// minAttacks is the least number of cases in testdata/attack.
const minAttacks = 150

// attack is one request with what its response must be like.
type attack struct {
	class, name string
	request     string
	expect      []string
}

var (
	repeated = regexp.MustCompile(`\$\{"(.*?)"\*(\d+)\}`)
	controls = strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\t`, "\t", `\0`, "\x00", `\xef\xbb\xbf`, "\ufeff")
)

// readAttacks reads the cases of a file of testdata/attack. docs/security/attacks.md describes the format.
func readAttacks(t *testing.T, path string, variables map[string]string) (attacks []attack) {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Check(t, err)
	class := strings.TrimSuffix(filepath.Base(path), ".txt")
	for section := range strings.SplitSeq("\n"+string(text), "\n-- ") {
		title, rest, found := strings.Cut(section, " --\n")
		if !found {
			continue // the comment at the start
		}
		var rows, request, expect []string
		variable := ""
		for line := range strings.Lines(rest) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "for $"):
				variable = strings.TrimPrefix(line, "for ")
			case variable != "" && len(request) == 0 && strings.HasPrefix(line, "  "):
				rows = append(rows, strings.TrimPrefix(line, "  "))
			case strings.HasPrefix(line, "> "):
				expect = append(expect, strings.TrimPrefix(line, "> "))
			case len(expect) == 0:
				request = append(request, line)
			case line != "" && !strings.HasPrefix(line, "#"):
				t.Fatalf("%s: %s: %q is after what is expected", path, title, line)
			}
		}
		if variable == "" {
			rows = []string{""}
		}
		if len(rows) == 0 || len(request) == 0 || len(expect) == 0 {
			t.Fatalf("%s: %s needs a request, rows if it has a variable, and what is expected", path, title)
		}
		for i, row := range rows {
			fill := func(text string) string {
				if variable != "" {
					text = strings.ReplaceAll(text, variable, row)
				}
				for name, value := range variables {
					text = strings.ReplaceAll(text, name, value)
				}
				text = repeated.ReplaceAllStringFunc(text, func(m string) string {
					parts := repeated.FindStringSubmatch(m)
					return strings.Repeat(parts[1], testkit.Must(strconv.Atoi(parts[2])))
				})
				return controls.Replace(text)
			}
			a := attack{class: class, name: fmt.Sprintf("%s %d", title, i+1), request: assemble(request, fill)}
			for _, e := range expect {
				a.expect = append(a.expect, fill(e))
			}
			attacks = append(attacks, a)
		}
	}
	return attacks
}

// assemble returns the bytes of a request. It adds Host, unless a line "Host" without a colon asks for none, the length
// of a body unless the request has its own framing, and Connection: close.
func assemble(lines []string, fill func(string) string) string {
	head, body, hasBody := lines, "", false
	if i := slices.Index(lines, ""); i >= 0 {
		head, body = lines[:i], fill(strings.TrimRight(strings.Join(lines[i+1:], "\n"), "\n"))
		hasBody = body != ""
	}
	var out strings.Builder
	has := func(name string) bool {
		return slices.ContainsFunc(head, func(line string) bool {
			return strings.HasPrefix(strings.ToLower(line), name)
		})
	}
	for i, line := range head {
		if line == "Host" {
			continue
		}
		out.WriteString(fill(line) + "\r\n")
		if i == 0 && !has("host") {
			out.WriteString("Host: localhost\r\n")
		}
	}
	if hasBody && !has("content-length") && !has("transfer-encoding") {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(body))
	}
	if !has("connection") {
		out.WriteString("Connection: close\r\n")
	}
	return out.String() + "\r\n" + body
}

// run sends the request, and returns why the response is wrong, or "".
func (a attack) run(t *testing.T, address string) string {
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	testkit.Check(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.WriteString(c, a.request); err != nil && !slices.Contains(a.expect, "closed") {
		return "the request was not read: " + err.Error()
	}
	if slices.Contains(a.expect, "ends") {
		_ = c.(*net.TCPConn).CloseWrite() // the service may have closed the connection
	}
	in := bufio.NewReader(c)
	method, _, _ := strings.Cut(a.request, " ")
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		if slices.Contains(a.expect, "closed") {
			return ""
		}
		return "no response: " + err.Error()
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil && !slices.Contains(a.expect, "closed") {
		return "the response is incomplete: " + err.Error()
	}
	if next, err := http.ReadResponse(in, nil); err == nil {
		_ = next.Body.Close()
		return fmt.Sprintf("the bytes after the request got a response with status %d", next.StatusCode)
	}
	text := string(body)
	for _, leak := range []string{"goroutine ", "runtime error", "SQLSTATE", "sqlite", "/internal/"} {
		if strings.Contains(text, leak) {
			return fmt.Sprintf("the response has %q", leak)
		}
	}
	for _, e := range a.expect {
		word, rest, _ := strings.Cut(e, " ")
		name, value, isHeader := strings.Cut(e, ": ")
		var ok bool
		switch {
		case word == "closed", word == "ends":
			ok = true
		case word == "unredirected":
			to, err := url.Parse(res.Header.Get("Location"))
			ok = err == nil && (to.Host == "" || to.Host == address) && !strings.HasPrefix(to.Path, "//") &&
				!strings.HasPrefix(to.Path, `/\`) && to.Opaque == ""
		case word == "has":
			ok = strings.Contains(text, rest)
		case word == "lacks":
			ok = !strings.Contains(text, rest)
		case word == "without":
			ok = len(res.Header.Values(rest)) == 0
		case isHeader:
			ok = strings.Contains(strings.Join(res.Header.Values(name), ", "), value)
		default:
			ok = slices.Contains(strings.Fields(e), strconv.Itoa(res.StatusCode))
		}
		if !ok {
			return fmt.Sprintf("want %q, got status %d, %v\n%.300s", e, res.StatusCode, res.Header, text)
		}
	}
	return ""
}

// The service answers every attack of testdata/attack as expected, each over its own connection. The attacks create no
// payroll, claim or user, and the service serves others afterwards.
func TestAttacks(t *testing.T) {
	s := start(t, dbtest.SQLite(t), func(c *app.Config) {
		c.ReadsPerSecond, c.WritesPerSecond, c.ClaimsPerMinute = 0, 0, 0
	})
	d := newAPIClient(t, s)
	admin := &companyBrowser{T: t, s: s, d: d}
	admin.signIn()
	variables := map[string]string{"$key": d.seed.APIKey, "$company": d.seed.CompanyID,
		"$worker": d.seed.Workers[0].UserID,
		"$client": d.seed.ClientID, "$callback": d.seed.RedirectURI,
		"$session": "stipend_session=" + admin.Cookie("stipend_session"), "$origin": s.Ready().BaseURL}
	files, err := filepath.Glob("testdata/attack/*.txt")
	testkit.Check(t, err)
	count := func() int64 {
		return d.count("SELECT (SELECT COUNT(*) FROM payrolls) + (SELECT COUNT(*) FROM claims) + " +
			"(SELECT COUNT(*) FROM users)")
	}
	before := count()
	address := strings.TrimPrefix(s.Ready().BaseURL, "http://")
	cases, total := map[string]int{}, 0
	for _, file := range files {
		for _, a := range readAttacks(t, file, variables) {
			cases[a.class]++
			total++
			if problem := a.run(t, address); problem != "" {
				t.Errorf("%s: %s: %s", a.class, a.name, problem)
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(cases)) {
		t.Logf("%-12s %4d", class, cases[class])
	}
	t.Logf("%-12s %4d", "all", total)
	if total < minAttacks {
		t.Errorf("there are %d attacks, want at least %d", total, minAttacks)
	}
	if after := count(); after != before {
		t.Errorf("the attacks stored %d objects", after-before)
	}
	d.ok("GET", "/api/company/payrolls", "")
	d.checkLedgerBalances()
}
