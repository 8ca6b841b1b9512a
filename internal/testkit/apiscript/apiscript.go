// Package apiscript runs text scripts of API requests and the responses they must get, against a running service.
//
// A script is a list of steps:
//
//	POST /api/company/payroll/create {"to_pay": [{"user_id": "$worker1", "amount_fiat": 25}]}
//	Idempotency-Key: $unique
//	> 200 {"payroll_id": "$payroll", "fees": 0.25}
//
//	clock +31m
//	GET /api/company/payrolls/$payroll
//	~ 200 {"status": "expired"}
//
// A request is a method, a path and a JSON body, which may continue on lines that begin with a space or tab. A body
// can be a sum such as $good + {"amount": 0}: members of later objects replace those of earlier ones. The lines after
// it are headers; an empty value omits a header. The line that begins with ">" is the expected response: its status,
// and the members that its body must contain. If it begins with "~" instead, the request is repeated until the
// response is as expected. The lines after it are response headers, whose values must contain the given text.
//
// An object in an expected body needs to list only the members to compare. An expected null also matches a missing
// member. An array must list all elements or, if one of them is "…", only those that must be present. "*" matches any
// value, "…text…" any string that contains text, and "!text" any string other than text. Numbers are compared as
// text, because amounts are exact. A body that is not JSON is compared as one string. The first "$name" in an
// expected body sets a variable; later ones are replaced by the variable's value. $unique is a new value each time,
// and ${"x"*300} repeats a quoted text. After the response, "has TEXT" and "lacks TEXT" check the body exactly as it
// was sent.
//
// The steps after a table, up to an empty line, are executed once for each row of the table, with the row's values.
// Several consecutive tables are combined.
//
//	for $query | $pointer
//	   page=0      | page
//	   sort_by=age | sort_by
//	GET /api/company/recipients?$query
//	> 422 {"errors": [{"in": "query", "pointer": "$pointer"}]}
//
// Further steps:
//
//   - "as NAME" sends the following requests as another caller.
//   - "clock +15m" advances the sandbox's clock and sets $now and $today.
//   - "clock every 6h" makes the clock advance by 6 hours four times a second while a later request is repeated until
//     it gets the expected response. "clock every 0s" ends this.
//   - "set $name KIND …" does something that the API cannot do, and stores the result in a variable.
//   - "rows 2 TABLE WHERE …" checks the number of stored rows.
//   - "snapshot" and "unchanged" check that the requests between them stored nothing.
//
// A line that begins with "#" is a comment. A file contains several scripts, each below a line "-- name --". They share
// only the service.
package apiscript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// patience is the maximum time for which a request is repeated until it gets the expected response.
const patience = 90 * time.Second

// advanceEvery is the interval of the step "clock every". At each interval, the service does the work that has become
// due.
const advanceEvery = 250 * time.Millisecond

// Service describes a running service for scripts.
type Service struct {
	BaseURL   string
	Variables map[string]string
	// Authorization returns the Authorization header of the caller that a step "as" names. The name is "" before the
	// first such step.
	Authorization func(t *testing.T, name string) string
	// Stored returns the data that the service has stored, for the step "unchanged".
	Stored func() any
	// Set executes a step "set". It calls set for the step's variable, and for further variables whose names begin with
	// that name.
	Set func(t *testing.T, name, what string, set func(name, value string))
	// Rows returns the number of rows of a table, for the step "rows".
	Rows func(tableAndCondition string) int64
	// Responded is called with the body of each response.
	Responded func(body []byte)
}

// Run runs each script in the files that match pattern as a subtest.
func Run(t *testing.T, s Service, pattern string) {
	t.Helper()
	for _, name := range files(t, pattern) {
		for _, script := range scripts(t, name) {
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txt")+"/"+script.name, func(t *testing.T) {
				r := runner{T: t, service: s, file: filepath.Base(name), variables: maps.Clone(s.Variables)}
				r.authorization = s.Authorization(t, "")
				r.run(script)
			})
		}
	}
}

// Responses calls f for each request in the files that match pattern, with the expected response. code is the error
// code of the response, or "" if the script does not name one.
func Responses(t *testing.T, pattern string, f func(method, path string, status int, code string)) {
	t.Helper()
	for _, name := range files(t, pattern) {
		r := runner{T: t, file: filepath.Base(name), variables: map[string]string{}, record: func(st step) {
			var body struct{ Code string }
			_ = json.Unmarshal([]byte(st.expected), &body) // other bodies contain no code
			f(st.method, st.path, st.status, body.Code)
		}}
		for _, script := range scripts(t, name) {
			r.run(script)
		}
	}
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts match %s: %v", pattern, err)
	}
	return names
}

// scripts returns the scripts in a file.
func scripts(t *testing.T, name string) []script {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return split(string(text))
}

type script struct {
	name  string
	first int // number of the script's first line in the file
	lines []string
}

var heading = regexp.MustCompile(`^-- (.+) --$`)

// split returns the scripts in the text of a file.
func split(text string) (all []script) {
	for i, line := range strings.Split(text, "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			all = append(all, script{name: m[1], first: i + 2})
		} else if len(all) > 0 {
			last := &all[len(all)-1]
			last.lines = append(last.lines, strings.TrimRight(line, " \t"))
		}
	}
	return all
}

type runner struct {
	*testing.T
	service       Service
	file          string
	line          int
	variables     map[string]string
	authorization string
	stored        any
	every         string     // interval of "clock every", or ""
	record        func(step) // if not nil, called with each request instead of sending it
}

// step is a request and its expected response.
type step struct {
	line           int
	method, path   string
	body           string
	headers        [][2]string
	repeat         bool
	status         int
	expected       string
	expectedHeader [][2]string
	has, lacks     []string
}

var (
	requestLine  = regexp.MustCompile(`^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE) (\S+)(?: (.*))?$`)
	responseLine = regexp.MustCompile(`^([>~]) (\d{3})(?: (.*))?$`)
	headerLine   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*):(?: (.*))?$`)
	textLine     = regexp.MustCompile(`^(has|lacks) (.+)$`)
	variable     = regexp.MustCompile(`\$[a-z][a-z0-9_]*`)
	repeated     = regexp.MustCompile(`\$\{("(?:[^"\\]|\\.)*")(?:\*(\d+))?\}`)
)

func (r *runner) run(s script) {
	for i := 0; i < len(s.lines); {
		line := s.lines[i]
		r.line = s.first + i
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case r.record != nil && word != "for" && !requestLine.MatchString(line):
		case word == "as":
			r.authorization = r.service.Authorization(r.T, r.replace(rest))
		case word == "clock":
			if each, every := strings.CutPrefix(rest, "every "); every {
				r.every = each
			} else {
				r.advance(rest)
			}
		case word == "snapshot":
			r.stored = r.service.Stored()
		case word == "unchanged":
			if now := r.service.Stored(); now != r.stored {
				r.Errorf("%s:%d: stored %v before, %v now", r.file, r.line, r.stored, now)
			}
		case word == "set":
			for ; i+1 < len(s.lines) && strings.HasPrefix(s.lines[i+1], " "); i++ {
				rest += "\n" + s.lines[i+1]
			}
			name, what, _ := strings.Cut(rest, " ")
			r.service.Set(r.T, strings.TrimPrefix(name, "$"), r.replace(what), func(name, value string) {
				r.variables[name] = value
			})
		case word == "rows":
			number, table, _ := strings.Cut(rest, " ")
			if got := r.service.Rows(r.replace(table)); number != strconv.FormatInt(got, 10) {
				r.Errorf("%s:%d: %d rows, want %s", r.file, r.line, got, number)
			}
		case word == "for":
			i = r.each(s, i)
			continue
		default:
			var st step
			if st, i = r.parse(s, i); r.record != nil {
				r.record(st)
			} else if !r.Failed() {
				r.do(st)
			}
			continue
		}
		i++
	}
}

// each executes the steps that follow the table at line i once for each row. It returns the index of the line after
// these steps.
func (r *runner) each(s script, i int) (next int) {
	names, table := strings.Split(strings.TrimPrefix(s.lines[i], "for "), "|"), i
	for i++; i < len(s.lines) && strings.HasPrefix(s.lines[i], " "); i++ {
	}
	first := i
	for i < len(s.lines) && s.lines[i] != "" {
		i++
	}
	if first == table+1 || first == i {
		r.Fatalf("%s:%d: a table without rows, or without a step after it", r.file, r.line)
	}
	for at, row := range s.lines[table+1 : first] {
		values := strings.Split(row, "|")
		if len(values) != len(names) {
			r.Fatalf("%s:%d: %d values, want %d", r.file, s.first+table+1+at, len(values), len(names))
		}
		row := map[string]string{}
		for k, name := range names {
			row[strings.TrimSpace(name)] = strings.TrimSpace(values[k])
		}
		filled := variable.ReplaceAllStringFunc(strings.Join(s.lines[first:i], "\n"), func(name string) string {
			if value, ok := row[name]; ok {
				return value
			}
			return name
		})
		variables := maps.Clone(r.variables)
		r.run(script{first: s.first + table + 1 + at, lines: strings.Split(filled, "\n")})
		r.variables = variables
	}
	return i
}

// parse parses the request at line i and its expected response. It returns the index of the line after them.
func (r *runner) parse(s script, i int) (st step, next int) {
	m := requestLine.FindStringSubmatch(s.lines[i])
	if m == nil {
		r.Fatalf("%s:%d: %q is not a step", r.file, r.line, s.lines[i])
	}
	st = step{line: r.line, method: m[1], path: m[2], body: m[3]}
	text, headers := &st.body, &st.headers
	for i++; i < len(s.lines) && s.lines[i] != "" && !requestLine.MatchString(s.lines[i]); i++ {
		line := s.lines[i]
		if m := responseLine.FindStringSubmatch(line); m != nil && st.status == 0 {
			st.repeat = m[1] == "~"
			st.status, _ = strconv.Atoi(m[2])
			st.expected = m[3]
			text, headers = &st.expected, &st.expectedHeader
		} else if line[0] == ' ' || line[0] == '\t' {
			*text += "\n" + line
		} else if m := textLine.FindStringSubmatch(line); m != nil && st.status != 0 {
			if m[1] == "has" {
				st.has = append(st.has, m[2])
			} else {
				st.lacks = append(st.lacks, m[2])
			}
		} else if m := headerLine.FindStringSubmatch(line); m != nil {
			*headers = append(*headers, [2]string{m[1], m[2]})
		} else {
			break
		}
	}
	if st.status == 0 {
		r.Fatalf("%s:%d: a request without a response: add a line such as > 200", r.file, st.line)
	}
	return st, i
}

// do sends a request and compares the response with the expected one.
func (r *runner) do(st step) {
	end := time.NewTimer(patience)
	defer end.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	advance := time.NewTicker(advanceEvery)
	defer advance.Stop()
	body := r.join(r.replace(st.body))
	for {
		set := maps.Clone(r.variables)
		got, problem := r.send(st, body)
		if problem == "" {
			return
		}
		r.variables = set
		if !st.repeat {
			r.Fatalf("%s:%d: %s %s: %s\nresponse: %.2000s", r.file, st.line, st.method, st.path, problem, got)
		}
		select {
		case <-end.C:
			r.Fatalf("%s:%d: not within %s: %s %s: %s\nresponse: %.2000s",
				r.file, st.line, patience, st.method, st.path, problem, got)
		case <-advance.C:
			if r.every != "" {
				r.advance(r.every)
			}
		case <-again.C:
		}
	}
}

// join merges the objects in a body into one. Members of later objects replace members of earlier ones.
func (r *runner) join(body string) string {
	parts := strings.Split(body, "} + {")
	if len(parts) == 1 {
		return body
	}
	whole := map[string]json.RawMessage{}
	for i, part := range parts {
		if i > 0 {
			part = "{" + part
		}
		if i < len(parts)-1 {
			part += "}"
		}
		if err := json.Unmarshal([]byte(part), &whole); err != nil {
			r.Fatalf("%s:%d: %s: %v", r.file, r.line, part, err)
		}
	}
	text, err := json.Marshal(whole)
	if err != nil {
		r.Fatal(err)
	}
	return string(text)
}

func (r *runner) send(st step, body string) (got, problem string) {
	url := r.replace(st.path)
	if strings.HasPrefix(url, "/") {
		url = r.service.BaseURL + url
	}
	req, err := http.NewRequestWithContext(r.Context(), st.method, url, strings.NewReader(body))
	if err != nil {
		return "", err.Error()
	}
	if r.authorization != "" {
		req.Header.Set("Authorization", r.authorization)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range st.headers {
		if h[1] == "" {
			req.Header.Del(h[0])
		} else {
			req.Header.Set(h[0], r.replace(h[1]))
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err.Error()
	}
	r.service.Responded(text)
	return string(text), r.compare(st, res, text)
}

// compare describes how a response differs from the expected one. It returns "" if it does not differ.
func (r *runner) compare(st step, res *http.Response, text []byte) string {
	if res.StatusCode != st.status {
		return fmt.Sprintf("status %d, want %d", res.StatusCode, st.status)
	}
	for _, h := range st.expectedHeader {
		got, want := strings.Join(res.Header.Values(h[0]), ", "), r.replace(h[1])
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			return fmt.Sprintf("header %s: %q, want %q", h[0], got, want)
		}
	}
	for _, part := range st.has {
		if part = r.replace(part); !bytes.Contains(text, []byte(part)) {
			return "the body has no " + part
		}
	}
	for _, part := range st.lacks {
		if part = r.replace(part); bytes.Contains(text, []byte(part)) {
			return "the body has " + part
		}
	}
	if st.expected == "" {
		return ""
	}
	want, err := decode([]byte(st.expected))
	if err != nil {
		r.Fatalf("%s:%d: the expected body is not JSON: %v", r.file, st.line, err)
	}
	got, err := decode(text)
	if err != nil {
		if _, isText := want.(string); !isText {
			return "the body is not JSON: " + err.Error()
		}
		got = string(text)
	}
	return r.differ("", want, got)
}

func decode(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return v, d.Decode(&v)
}

// differ describes the first difference between a value and the expected value, or returns "".
func (r *runner) differ(at string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", at, got)
		}
		for name, w := range want {
			g, ok := object[name]
			if !ok && w != nil {
				return fmt.Sprintf("%s/%s is missing", at, name)
			}
			if d := r.differ(at+"/"+name, w, g); d != "" {
				return d
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if some := slices.Index(want, any("…")); ok && some >= 0 {
			return r.differSome(at, slices.Delete(slices.Clone(want), some, some+1), list)
		}
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, want %d elements", at, got, len(want))
		}
		for i, w := range want {
			if d := r.differ(fmt.Sprintf("%s/%d", at, i), w, list[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		return r.differString(at, want, got)
	}
	if got != want {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

// differSome describes the first expected element that is not in the list, or returns "".
func (r *runner) differSome(at string, want, list []any) string {
	for i, w := range want {
		if !slices.ContainsFunc(list, func(got any) bool {
			set := maps.Clone(r.variables)
			if r.differ(at, w, got) == "" {
				return true
			}
			r.variables = set
			return false
		}) {
			return fmt.Sprintf("%s is %v, without the expected element %d", at, list, i)
		}
	}
	return ""
}

func (r *runner) differString(at, want string, got any) string {
	if want == "*" {
		return ""
	}
	text, isText := got.(string)
	if number, ok := got.(json.Number); ok {
		text = number.String() // a variable may contain a number
	}
	if variable.FindString(want) == want && want != "" {
		name := want[1:]
		if _, known := r.variables[name]; !known {
			r.variables[name] = text
			return ""
		}
	} else if !isText {
		return fmt.Sprintf("%s is %v, want %q", at, got, want)
	}
	if other, ok := strings.CutPrefix(want, "!"); ok {
		if text == r.replace(other) {
			return fmt.Sprintf("%s is %q, want another value", at, text)
		}
		return ""
	}
	want = r.replace(want)
	if part, ok := strings.CutPrefix(want, "…"); ok {
		if part, ok = strings.CutSuffix(part, "…"); ok && strings.Contains(text, part) {
			return ""
		}
	}
	if text != want {
		return fmt.Sprintf("%s is %q, want %q", at, text, want)
	}
	return ""
}

var unique atomic.Int64

// replace replaces the variables and the repeated texts (${"x"*300}) in a text.
func (r *runner) replace(text string) string {
	text = repeated.ReplaceAllStringFunc(text, func(all string) string {
		m := repeated.FindStringSubmatch(all)
		part, err := strconv.Unquote(m[1])
		if err != nil {
			r.Fatalf("%s:%d: %s: %v", r.file, r.line, all, err)
		}
		times := 1
		if m[2] != "" {
			times, _ = strconv.Atoi(m[2])
		}
		return strings.Repeat(part, times)
	})
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		if v == "$unique" {
			return fmt.Sprintf("script-%d", unique.Add(1))
		}
		value, ok := r.variables[v[1:]]
		if !ok {
			r.Fatalf("%s:%d: %s is not set", r.file, r.line, v)
		}
		return value
	})
}

// advance advances the sandbox's clock by a duration such as +15m.
func (r *runner) advance(text string) {
	by, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil {
		r.Fatalf("%s:%d: clock: %v", r.file, r.line, err)
	}
	for year := 365 * 24 * time.Hour; by > 0; by -= year { // the maximum of one request
		body := fmt.Sprintf(`{"advance_seconds":%d}`, int64(min(by, year).Seconds()))
		delete(r.variables, "now")
		r.do(step{line: r.line, method: "POST", path: "/api/sandbox/clock", body: body, status: http.StatusOK,
			headers:  [][2]string{{"Authorization", r.service.Authorization(r.T, "")}},
			expected: `{"now": "$now"}`})
		r.variables["today"], _, _ = strings.Cut(r.variables["now"], "T")
	}
}
