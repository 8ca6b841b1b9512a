package app_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// commandLine runs the program as a person does in a terminal, with a home directory of its own.
type commandLine struct {
	*testing.T
	program, home string
	env           []string
}

func newCommandLine(t *testing.T, s *service) *commandLine {
	t.Helper()
	c := &commandLine{T: t, program: filepath.Join(t.TempDir(), "stipend"), home: t.TempDir()}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, "../../cmd/stipend")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.env = []string{"HOME=" + c.home, "XDG_CONFIG_HOME=" + c.home, "STIPEND_URL=" + s.Ready().BaseURL,
		"PATH=" + filepath.Dir(c.program) + ":" + os.Getenv("PATH")}
	return c
}

func (c *commandLine) command(input string, args ...string) *exec.Cmd {
	run := exec.CommandContext(c.Context(), c.program, args...)
	run.Env, run.Stdin = c.env, strings.NewReader(input)
	return run
}

// says runs a command that must succeed, and returns its output.
func (c *commandLine) says(input string, args ...string) string {
	c.Helper()
	out, err := c.command(input, args...).CombinedOutput()
	if err != nil {
		c.Fatalf("stipend %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs a command that must fail with a text.
func (c *commandLine) fails(text string, args ...string) {
	c.Helper()
	if out, err := c.command("", args...).CombinedOutput(); err == nil || !strings.Contains(string(out), text) {
		c.Errorf("stipend %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// A person signs in with the code that the program prints, proposes what they may not create, and signs out. Their
// tokens are readable to nobody else, and are renewed once by several commands at the same time.
func TestSignInFromTheCommandLine(t *testing.T) {
	t.Parallel()
	s := boot(t, dbtest.SQLite(t))
	seed, c := s.Ready().Seed, newCommandLine(t, s)
	file := filepath.Join(c.home, "stipend", "credentials.json")
	login := c.command("", "login")
	out, err := login.StdoutPipe()
	testkit.Check(t, err)
	testkit.Check(t, login.Start())
	lines := bufio.NewScanner(out)
	var shown []string
	for len(shown) < 2 && lines.Scan() {
		shown = append(shown, lines.Text())
	}
	if len(shown) < 2 {
		t.Fatalf("login: %q", shown)
	}
	page, code := strings.TrimPrefix(shown[0], "Open "), regexp.MustCompile(`[A-Z]{4}-[A-Z]{4}`).FindString(shown[1])
	v := webtest.NewVisitor(t, s.Ready().AuthURL)
	v.Submit(v.Get("/sign-in"), "/sign-in", "email", seed.Admin.Email, "password", seed.Admin.Password)
	if wrong := v.Follow(v.Get("/authorize?user_code=BBBB-BBBB")); !wrong.Contains("No device shows this code") {
		t.Errorf("a wrong code: %d\n%s", wrong.Status, wrong.Text)
	}
	allowDevice(t, v, page+"?user_code="+code)
	for lines.Scan() {
		shown = append(shown, lines.Text())
	}
	if err := login.Wait(); err != nil || !strings.Contains(shown[len(shown)-1], "You are signed in") {
		t.Fatalf("login: %v %q", err, shown)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of tokens: %v %v", info, err)
	}

	run := pays("", "12.50", seed.Workers[0].UserID)
	if got := c.says(run, "payrolls", "create", "--file=-", "--propose"); !strings.Contains(got, "/proposals/pps_") {
		t.Errorf("proposed: %s", got)
	}
	write := filepath.Join(c.home, "payroll.json")
	testkit.Check(t, os.WriteFile(write, []byte(run), 0o600))
	c.fails("insufficient_scope", "payrolls", "create", "--file", write)

	text, err := os.ReadFile(file)
	testkit.Check(t, err)
	text = regexp.MustCompile(`"expiry": "[^"]*"`).ReplaceAll(text, []byte(`"expiry": "2001-01-01T00:00:00Z"`))
	testkit.Check(t, os.WriteFile(file, text, 0o600))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if out, err := c.command("", "payrolls", "list").CombinedOutput(); err != nil {
				t.Errorf("a command with expired tokens: %v\n%s", err, out)
			}
		})
	}
	all.Wait()
	before, err := os.ReadFile(file)
	testkit.Check(t, err)
	if strings.Contains(string(before), "2001-01-01") {
		t.Error("the tokens were not renewed")
	}
	c.says("", "logout")
	after, err := os.ReadFile(file)
	testkit.Check(t, err)
	if strings.Contains(string(after), "access_token") {
		t.Errorf("after signing out: %s", after)
	}
	testkit.Check(t, os.WriteFile(file, before, 0o600)) // a copy of the tokens is worthless
	c.fails("invalid_token", "payrolls", "list")
}

// A developer creates and follows a payroll and a claim, reads the log, and opens pages, each from the command line.
func TestTheCommandLine(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	c := newCommandLine(t, o.s)
	run := pays("", "12.50", o.d.seed.Workers[0].UserID)
	if got := c.says(run, "payrolls", "create", "--file=-", "--preview"); !strings.Contains(got, "12.5") ||
		strings.Contains(got, "prl_") {
		t.Errorf("preview: %s", got)
	}
	first := c.says(run, "payrolls", "create", "--file=-", "--idempotency-key=march")
	id := regexp.MustCompile(`prl_\w+`).FindString(first)
	if again := c.says(run, "payrolls", "create", "--file=-", "--idempotency-key=march"); again != first || id == "" {
		t.Errorf("created twice: %s\n%s", first, again)
	}
	var page struct {
		Data []struct {
			PayrollID string `json:"payroll_id"`
		}
	}
	testkit.Check(t, json.Unmarshal([]byte(c.says("", "payrolls", "list", "--output=json")), &page))
	if len(page.Data) != 1 || page.Data[0].PayrollID != id {
		t.Errorf("the payrolls: %+v", page)
	}
	o.d.deposit(id, "exact", "")
	if got := c.says("", "payrolls", "watch", id); !strings.HasSuffix(got, "1 of 1 paid, fulfilled\n") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("watch: %q", got)
	}
	if got := c.says("", "claims", "create", "--payer=customer-7", "--amount=120.00", "--currency=EUR",
		"--external-id=order-17"); !strings.Contains(got, "clm_") || !strings.Contains(got, "/pay/") {
		t.Errorf("claim: %s", got)
	}
	c.fails("amount must be a number", "claims", "create", "--payer=x", "--amount=12,00", "--currency=EUR")
	eventually(t, 30*time.Second, "the log has the requests", func() bool {
		got := c.says("", "logs", "tail", "--once", "--lines=100")
		return strings.Contains(got, "/api/merchant/claim/create") && strings.Contains(got, "/api/company/payroll/create")
	})
	if got := c.says("", "open", id, "--print"); got != o.s.Ready().BaseURL+"/payrolls/"+id+"\n" {
		t.Errorf("open: %s", got)
	}
	c.fails("is no page", "open", "nowhere")

	complete := exec.CommandContext(t.Context(), "bash", "-c", `source <(stipend completion bash)
		COMP_WORDS=(stipend payrolls create --f); COMP_CWORD=3; _stipend; echo "${COMPREPLY[@]}"
		COMP_WORDS=(stipend lo); COMP_CWORD=1; _stipend; echo "${COMPREPLY[@]}"
		COMP_WORDS=(stipend payrolls list --output ""); COMP_CWORD=4; _stipend; echo "${COMPREPLY[@]}"`)
	complete.Env = c.env
	if out, err := complete.CombinedOutput(); err != nil || string(out) != "--file\nlogin logout logs\ntable json\n" {
		t.Errorf("completion: %v %q", err, out)
	}
	for _, shell := range []string{"zsh", "fish"} {
		if got := c.says("", "completion", shell); !strings.Contains(got, "stipend complete --") {
			t.Errorf("%s: %s", shell, got)
		}
	}
	if got := c.says("", "man"); !strings.Contains(got, ".TH STIPEND 1") || !strings.Contains(got, `payrolls create`) {
		t.Errorf("man: %s", got)
	}
	if got := c.says("", "--help"); !strings.Contains(got, "Use an installation:") || strings.Contains(got, "complete [") {
		t.Errorf("help: %s", got)
	}
}
