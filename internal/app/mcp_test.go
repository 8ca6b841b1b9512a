package app_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// agent is the official client of the Model Context Protocol in Node.js.
type agent struct {
	t     *testing.T
	in    io.WriteCloser
	lines *bufio.Scanner
}

// startAgent starts the client. See testdata/mcp.mjs for the arguments.
func startAgent(t *testing.T, args ...string) *agent {
	t.Helper()
	modules, err := filepath.Abs("../../.tools/mcp")
	testkit.Check(t, err)
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "@modelcontextprotocol", "sdk")); err != nil {
		t.Fatal("npm's @modelcontextprotocol/sdk is not installed; run tools/install.sh mcp")
	}
	node := exec.CommandContext(t.Context(), "node", append([]string{"testdata/mcp.mjs", modules}, args...)...)
	node.Stderr = t.Output()
	a := &agent{t: t}
	a.in, err = node.StdinPipe()
	testkit.Check(t, err)
	out, err := node.StdoutPipe()
	testkit.Check(t, err)
	a.lines = bufio.NewScanner(out)
	a.lines.Buffer(nil, 8<<20)
	testkit.Check(t, node.Start())
	t.Cleanup(func() {
		_ = a.in.Close()
		_ = node.Wait()
	})
	return a
}

// next returns the next line that the client prints.
func (a *agent) next() string {
	a.t.Helper()
	if !a.lines.Scan() {
		a.t.Fatalf("the client ended its output early: %v", a.lines.Err())
	}
	return a.lines.Text()
}

// connected waits until the client has connected.
func (a *agent) connected() *agent {
	a.t.Helper()
	if said := a.next(); said != "connected" {
		a.t.Fatalf("the client printed %s", said)
	}
	return a
}

// answer is the result of a call of the client, or its error.
type answer struct {
	Tools []struct {
		Name        string
		InputSchema struct{ Properties map[string]any }
		Annotations struct{ ReadOnlyHint, DestructiveHint bool }
	}
	ResourceTemplates []struct{ URITemplate string }
	Contents          []struct{ Text string }
	Content           []struct{ Text string }
	StructuredContent map[string]any
	IsError           bool
	Code              int
	Error             string
}

func (a *agent) do(method string, with any) (v answer) {
	a.t.Helper()
	line, err := json.Marshal(map[string]any{"do": method, "with": with})
	testkit.Check(a.t, err)
	_, err = a.in.Write(append(line, '\n'))
	testkit.Check(a.t, err)
	testkit.Check(a.t, json.Unmarshal([]byte(a.next()), &v))
	return v
}

// call calls a tool.
func (a *agent) call(tool string, args map[string]any) answer {
	a.t.Helper()
	return a.do("callTool", map[string]any{"name": tool, "arguments": args})
}

// must calls a tool, which must succeed.
func (a *agent) must(tool string, args map[string]any) map[string]any {
	a.t.Helper()
	v := a.call(tool, args)
	if v.IsError || v.Error != "" || v.StructuredContent == nil {
		a.t.Fatalf("%s: %+v", tool, v)
	}
	return v.StructuredContent
}

// tools returns the names of the tools.
func (a *agent) tools() (names []string) {
	a.t.Helper()
	for _, tool := range a.do("listTools", nil).Tools {
		names = append(names, tool.Name)
	}
	return names
}

// The official TypeScript client finds out from /mcp alone where to authorize, and gets a token for the scopes that the
// user agrees to. It sees and calls the tools and resources of these scopes only.
func TestAgentReadsWhatItsScopesAllow(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		s := boot(t, database)
		seed, mcpURL := s.Ready().Seed, s.Ready().BaseURL+"/mcp"
		browser := webtest.NewVisitor(t, s.Ready().AuthURL)

		a := startAgent(t, "oauth", mcpURL, seed.ClientID, seed.ClientSecret, seed.RedirectURI,
			"c_company_detail c_company_worker_list")
		address := a.next()
		if !strings.Contains(address, "resource=") {
			t.Errorf("the client asks for no resource: %s", address)
		}
		_, err := io.WriteString(a.in, agree(t, browser, seed.Admin, address)+"\n")
		testkit.Check(t, err)
		names := a.connected().tools()
		for _, name := range []string{"get_company", "list_workers", "list_rates", "get_credential"} {
			if !slices.Contains(names, name) {
				t.Errorf("the tools %v lack %s", names, name)
			}
		}
		for _, name := range []string{"list_payrolls", "preview_payroll", "create_payroll", "list_security_events",
			"sandbox_mails"} {
			if slices.Contains(names, name) {
				t.Errorf("the tools contain %s", name)
			}
		}
		if got := a.must("get_company", nil); got["company_id"] != seed.CompanyID {
			t.Errorf("get_company: %v", got)
		}
		if got := a.must("list_workers", map[string]any{"per_page": 1}); len(got["data"].([]any)) != 1 {
			t.Errorf("list_workers: %v", got)
		}
		if got := a.call("list_payrolls", nil); got.Error == "" {
			t.Errorf("list_payrolls without its scope: %+v", got)
		}
		if got := a.call("get_company", map[string]any{"company_id": "com_another"}); !got.IsError ||
			!strings.Contains(got.Content[0].Text, `"code":"not_found"`) {
			t.Errorf("get_company of another company: %+v", got)
		}

		key := startAgent(t, "header", mcpURL, "Basic "+seed.APIKey).connected()
		list := key.do("listTools", nil).Tools
		for _, tool := range list {
			proposes := slices.Contains([]string{"propose_payroll", "propose_claim", "cancel_proposal"}, tool.Name)
			if tool.Annotations.DestructiveHint || tool.Annotations.ReadOnlyHint == proposes {
				t.Errorf("%s: %+v", tool.Name, tool.Annotations)
			}
			if tool.Name == "preview_payroll" && tool.InputSchema.Properties["to_pay"] == nil {
				t.Errorf("preview_payroll: %+v", tool.InputSchema)
			}
		}
		if names := key.tools(); !slices.Contains(names, "list_security_events") || slices.ContainsFunc(names,
			func(name string) bool {
				return strings.HasPrefix(name, "create_") || strings.HasPrefix(name, "sandbox_")
			}) {
			t.Errorf("an API key has the tools %v", names)
		}
		preview := key.must("preview_payroll", map[string]any{"currency": "USD",
			"to_pay": []any{map[string]any{"user_id": seed.Workers[0].UserID, "amount_fiat": json.Number("100.50")}}})
		if preview["volume_input_in_input_currency"] != 100.5 {
			t.Errorf("preview_payroll: %v", preview)
		}
		if got := key.call("preview_payroll", map[string]any{"currency": "USD", "surprise": 1}); !got.IsError ||
			!strings.Contains(got.Content[0].Text, "surprise") {
			t.Errorf("a preview with an unknown member: %+v", got)
		}

		var templates []string
		for _, one := range key.do("listResourceTemplates", nil).ResourceTemplates {
			templates = append(templates, one.URITemplate)
		}
		for _, uri := range []string{"stipend://payrolls/{payroll_id}", "stipend://claims/{claim_id}",
			"stipend://users/{user_id}"} {
			if !slices.Contains(templates, uri) {
				t.Errorf("the resources %v lack %s", templates, uri)
			}
		}
		uri := "stipend://users/" + seed.Workers[0].UserID
		if got := key.do("readResource", map[string]any{"uri": uri}); len(got.Contents) != 1 ||
			!strings.Contains(got.Contents[0].Text, seed.Workers[0].UserID) {
			t.Errorf("%s: %+v", uri, got)
		}
		if got := key.do("readResource", map[string]any{"uri": "stipend://payrolls/prl_none"}); got.Code != -32602 {
			t.Errorf("a payroll that does not exist: %+v", got)
		}
	})
}

// An agent whose scope only lets it propose reads and previews payrolls, and proposes one. A person reviews it on a
// page and creates it in their name, once. The same goes for a claim.
func TestAgentProposesAndAPersonCreates(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		s := boot(t, database)
		seed := s.Ready().Seed
		browser := webtest.NewVisitor(t, s.Ready().AuthURL)
		a := startAgent(t, "oauth", s.Ready().BaseURL+"/mcp", seed.ClientID, seed.ClientSecret, seed.RedirectURI,
			"c_company_propose c_company_worker_list")
		_, err := io.WriteString(a.in, agree(t, browser, seed.Admin, a.next())+"\n")
		testkit.Check(t, err)
		names := a.connected().tools()
		for _, name := range []string{"propose_payroll", "propose_claim", "get_proposal", "preview_payroll",
			"list_payrolls"} {
			if !slices.Contains(names, name) {
				t.Errorf("the tools %v lack %s", names, name)
			}
		}
		if slices.Contains(names, "create_payroll") || slices.Contains(names, "create_claim") {
			t.Errorf("the tools are %v", names)
		}
		payrolls := func() int { return len(a.must("list_payrolls", nil)["data"].([]any)) }
		before := payrolls()
		run := map[string]any{"currency": "USD", "note": "Bonus for the release", "to_pay": []any{
			map[string]any{"user_id": seed.Workers[0].UserID, "amount_fiat": json.Number("100.50")},
			map[string]any{"user_id": seed.Workers[1].UserID, "amount_fiat": 20}}}
		made := a.must("propose_payroll", run)
		id, review := made["proposal_id"].(string), made["review_url"].(string)
		if made["status"] != "open" || made["amount"] != 120.5 || payrolls() != before {
			t.Errorf("proposed %v, and there are %d payrolls", made, payrolls())
		}
		if again := a.must("propose_payroll", run); again["proposal_id"] != id {
			t.Errorf("proposed again: %v", again)
		}

		pages := webtest.NewVisitor(t, s.Ready().BaseURL)
		sign := pages.Follow(pages.Get(review))
		page := pages.Follow(pages.Submit(sign, "/sign-in", "email", seed.Admin.Email, "password", seed.Admin.Password))
		for _, text := range []string{"Proposed payroll", "Bonus for the release", "Ada Lovelace", "100.50", "120.50",
			"Confirm and create", "Nothing has been created yet."} {
			if !strings.Contains(page.Text, text) {
				t.Errorf("the page lacks %q", text)
			}
		}
		if waiting := pages.Get("/settings/approvals"); !strings.Contains(waiting.Text, "/proposals/"+id) {
			t.Error("the proposal is not on the approvals page")
		}
		if answer := pages.Submit(page, "/proposals/"+id+"/confirm", "shown", "something else"); answer.Status ==
			http.StatusSeeOther || payrolls() != before {
			t.Errorf("confirmed what was not shown: %d", answer.Status)
		}
		var created string
		for range 2 { // posting the form twice creates one payroll
			answer := pages.Submit(page, "/proposals/"+id+"/confirm")
			if answer.Status != http.StatusSeeOther || !strings.Contains(answer.Location(), "/payrolls/prl_") ||
				created != "" && answer.Location() != created {
				t.Fatalf("confirm: %d %s\n%s", answer.Status, answer.Location(), answer.Text)
			}
			created = answer.Location()
		}
		got := a.must("get_proposal", map[string]any{"proposal_id": id})
		payroll, _ := got["payroll_id"].(string)
		if got["status"] != "confirmed" || !strings.HasSuffix(created, payroll) || payrolls() != before+1 {
			t.Errorf("the proposal is %v, and there are %d payrolls", got, payrolls())
		}
		if paid := a.must("get_payroll", map[string]any{"payroll_id": payroll}); paid["status"] != "pending" {
			t.Errorf("the payroll is %v", paid["status"])
		}
		if !strings.Contains(pages.Get(review).Text, "View what was created") {
			t.Error("the page of a confirmed proposal does not lead to the payroll")
		}

		claim := a.must("propose_claim", map[string]any{"payer_id": "customer-9", "amount": json.Number("12.50"),
			"denomination_currency": "EUR", "description": "Order 17"})
		path := "/proposals/" + claim["proposal_id"].(string)
		page = pages.Get(path)
		if !strings.Contains(page.Text, "12.50") || !strings.Contains(page.Text, "customer-9") {
			t.Errorf("the page of a claim: %s", page.Text)
		}
		if answer := pages.Submit(page, path+"/confirm"); !strings.Contains(answer.Location(), "/claims/clm_") {
			t.Errorf("confirm a claim: %d %s", answer.Status, answer.Text)
		}
		declined := a.must("propose_claim", map[string]any{"payer_id": "customer-9", "amount": 1,
			"denomination_currency": "EUR"})
		path = "/proposals/" + declined["proposal_id"].(string)
		page = pages.Get(path)
		pages.Submit(page, path+"/decline")
		if answer := pages.Submit(page, path+"/confirm"); answer.Status == http.StatusSeeOther {
			t.Errorf("a declined proposal was confirmed: %s", answer.Location())
		}
		if got := a.must("get_proposal", map[string]any{"proposal_id": declined["proposal_id"]}); got["status"] !=
			"declined" || got["claim_id"] != "" {
			t.Errorf("the declined proposal is %v", got)
		}
		if got := a.call("get_proposal", map[string]any{"proposal_id": "pps_another"}); !got.IsError {
			t.Errorf("a proposal that does not exist: %+v", got)
		}
	})
}

// An agent on another machine uses the same tools by the command stipend mcp, which it starts.
func TestAgentOverStandardInputAndOutput(t *testing.T) {
	s := boot(t, dbtest.SQLite(t))
	program := filepath.Join(t.TempDir(), "stipend")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/stipend")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("STIPEND_KEY", s.Ready().Seed.APIKey)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // without sign-ins
	a := startAgent(t, "stdio", program, "mcp", "--url", s.Ready().BaseURL).connected()
	if names := a.tools(); !slices.Contains(names, "list_payrolls") || slices.Contains(names, "create_payroll") {
		t.Errorf("the tools are %v", names)
	}
	if got := a.must("get_company", nil); got["company_id"] != s.Ready().Seed.CompanyID {
		t.Errorf("get_company: %v", got)
	}
	uri := "stipend://users/" + s.Ready().Seed.Workers[0].UserID
	if got := a.do("readResource", map[string]any{"uri": uri}); len(got.Contents) != 1 {
		t.Errorf("%s: %+v", uri, got)
	}

	for _, c := range []struct{ credential, url, says string }{
		{"", "https://stipend.example", "sign in first"},
		{"stp_sandbox_token_wrong", s.Ready().BaseURL, "invalid_token"},
		{s.Ready().Seed.APIKey, "http://stipend.example", "must be an https:// address"},
		{s.Ready().Seed.APIKey, s.Ready().BaseURL + "/docs", "is it the address of an installation?"},
	} {
		command := cli.MCPCmd{Client: cli.Client{URL: c.url, Key: c.credential}}
		err := command.Run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %q: %v", c.url, c.credential, err)
		}
	}
}

// A client without a valid credential gets nothing but the address of the metadata, and a web page of another site
// nothing at all.
func TestAgentsAreAuthenticated(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	post := func(header ...string) (status int, challenge, text string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Ready().BaseURL+"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		testkit.Check(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(r)
		testkit.Check(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		testkit.Check(t, err)
		return res.StatusCode, res.Header.Get("WWW-Authenticate"), string(body)
	}
	metadata := s.Ready().BaseURL + "/.well-known/oauth-protected-resource/mcp"
	for _, credential := range []string{"", "Bearer stp_sandbox_token_wrong", "Basic wrong"} {
		status, challenge, text := post("Authorization", credential)
		if status != http.StatusUnauthorized || !strings.Contains(text, "invalid_token") ||
			!strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(challenge, `resource_metadata="`+metadata+`"`) {
			t.Errorf("with %q: %d %s %s", credential, status, challenge, text)
		}
	}
	key := "Basic " + s.Ready().Seed.APIKey
	if status, _, text := post("Authorization", key); status != http.StatusOK || !strings.Contains(text, "get_company") {
		t.Errorf("with a key: %d %.200s", status, text)
	}
	if status, _, text := post("Authorization", key, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another site: %d %.200s", status, text)
	}
	res, err := http.Get(metadata)
	testkit.Check(t, err)
	defer res.Body.Close()
	var got struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	testkit.Check(t, json.NewDecoder(res.Body).Decode(&got))
	if got.Resource != s.Ready().BaseURL+"/mcp" || !slices.Equal(got.Servers, []string{s.Ready().AuthURL}) {
		t.Errorf("metadata: %+v", got)
	}
}
