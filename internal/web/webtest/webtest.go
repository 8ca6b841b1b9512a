// Package webtest tests pages in a real browser: headless Chromium with axe-core.
//
// tools/install.sh installs Chromium and axe-core. If one is missing, the test fails instead of being skipped.
package webtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stipend/stipend/internal/testkit"
)

// timeout is the maximum time of a whole browser test.
const timeout = 5 * time.Minute

// programs are the possible names of the Chromium executable.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Program returns the path of the installed Chromium.
func Program() (path string, err error) {
	for _, name := range programs {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium among %s: run tools/install.sh chromium", strings.Join(programs, ", "))
}

// Browser is a Chromium process with an empty profile.
type Browser struct {
	t   testing.TB
	ctx context.Context
	axe string
}

// Start starts a browser that stops at the end of the test, or after five minutes.
func Start(t testing.TB) *Browser {
	t.Helper()
	return StartFor(t, timeout)
}

// StartFor starts a browser that stops at the end of the test, or after the given time.
func StartFor(t testing.TB, life time.Duration) *Browser {
	t.Helper()
	testkit.NotQuick(t, "Chromium")
	axe, err := readAxe()
	if err != nil {
		t.Fatal(err)
	}
	program, err := Program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), life)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("ignore-certificate-errors", true),
	)...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // stop the browser before its profile is deleted
		end()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{t: t, ctx: ctx, axe: axe}
}

// readAxe returns axe-core from .tools in the module's root directory.
func readAxe() (string, error) {
	dir, err := testkit.Root()
	if err != nil {
		return "", err
	}
	script, err := os.ReadFile(filepath.Join(dir, ".tools", "npm", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("no axe-core: run tools/install.sh axe (%w)", err)
	}
	return string(script), nil
}

// Look is how a page is displayed. The zero value is a wide window in light colors, with JavaScript.
type Look struct {
	Width    int  // CSS pixels; 0 is 1280
	Dark     bool // prefers-color-scheme
	NoScript bool
	Language string // Accept-Language
}

// String describes the look in test output.
func (l Look) String() string {
	name := fmt.Sprintf("%d px", l.width())
	if l.Dark {
		name += ", dark"
	}
	if l.NoScript {
		name += ", no script"
	}
	return name
}

func (l Look) width() int {
	if l.Width == 0 {
		return 1280
	}
	return l.Width
}

// Page is a browser tab. Requests to other hosts and errors in the browser's log fail the test.
type Page struct {
	t     testing.TB
	ctx   context.Context
	close context.CancelFunc
	axe   string
	look  Look
	mu    sync.Mutex
	hosts map[string]bool
	// received is the number of bytes received over the network, including headers.
	received float64
	// complaints are errors in the browser's log
	complaints []string
}

// Open opens a URL in a new tab, which closes at the end of the test.
func (b *Browser) Open(address string, look Look) *Page {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	p := &Page{t: b.t, ctx: ctx, close: cancel, axe: b.axe, look: look, hosts: map[string]bool{}}
	headers := network.Headers{}
	if look.Language != "" {
		headers["Accept-Language"] = look.Language
	}
	if err := chromedp.Listen(ctx, p.onEvent); err != nil {
		b.t.Fatalf("open a tab: %v", err)
	}
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		}
		if err == nil {
			_, err = cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers})
		}
		if err == nil {
			_, err = cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: look.NoScript})
		}
		return err
	}))
	p.emulate(look)
	p.Do(chromedp.Navigate(address))
	return p
}

// emulate sets the window size and the colors of a look.
func (p *Page) emulate(look Look) {
	p.t.Helper()
	p.look = look
	scheme := "light"
	if look.Dark {
		scheme = "dark"
	}
	p.Do(chromedp.EmulateViewport(int64(look.width()), 800),
		chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		}))
}

// Close closes the tab and its event streams. A browser opens at most six connections per site.
func (p *Page) Close() { p.close() }

// onEvent records requests and errors.
func (p *Page) onEvent(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err == nil && u.Scheme != "data" {
			p.hosts[u.Host] = true
		}
	case *network.EventLoadingFinished:
		p.received += ev.EncodedDataLength
	case *log.EventEntryAdded:
		if s := ev.Entry.Source; s == log.EntrySourceSecurity || s == log.EntrySourceJavascript {
			p.complaints = append(p.complaints, ev.Entry.Text)
		}
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError {
			text := "console.error:"
			for _, a := range ev.Args {
				text += fmt.Sprintf(" %s%s", a.Value, a.Description)
			}
			p.complaints = append(p.complaints, text)
		}
	case *runtime.EventExceptionThrown:
		p.complaints = append(p.complaints, ev.ExceptionDetails.Text)
	}
}

// Do runs actions in the tab. A failed action ends the test.
func (p *Page) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", p.look, err)
	}
}

// Evaluate runs JavaScript in a page and returns the result.
func Evaluate[T any](p *Page, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", p.look, err)
	}
	return v
}

// Authenticator adds a virtual device that creates and uses passkeys without user interaction.
func (p *Page) Authenticator() {
	p.t.Helper()
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, webauthn.Enable, webauthn.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator,
				webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
					Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
					HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
				}})
		}
		return err
	}))
}

// Fill types text into an input.
func (p *Page) Fill(input, text string) {
	p.t.Helper()
	p.Do(chromedp.SendKeys(input, text))
}

// Send clicks a button or link and waits for the next page.
func (p *Page) Send(button string) {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click(button)); err != nil {
		p.t.Fatalf("%s: click %s: %v", p.look, button, err)
	}
}

// Download clicks a link or button and returns the file that it downloads.
func (p *Page) Download(button string) []byte {
	p.t.Helper()
	dir := p.t.TempDir()
	done := make(chan struct{}, 1)
	if err := chromedp.Listen(p.ctx, func(ev any) {
		if e, ok := ev.(*browser.EventDownloadProgress); ok && e.State == browser.DownloadProgressStateCompleted {
			select {
			case done <- struct{}{}:
			default:
			}
		}
	}); err != nil {
		p.t.Fatal(err)
	}
	events := true
	p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
			Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir, EventsEnabled: &events})
		return err
	}), chromedp.Click(button))
	select {
	case <-done:
	case <-p.ctx.Done():
		p.t.Fatalf("%s: %s downloads nothing", p.look, button)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		p.t.Fatalf("%s: %s downloads %q: %v", p.look, button, files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// Keys presses keys in order.
func (p *Page) Keys(keys string) {
	p.t.Helper()
	p.Do(chromedp.KeyEvent(keys))
}

// Reach presses Tab until the element that matches selector has the focus. It fails the test if an element on the
// way has no visible focus.
func (p *Page) Reach(selector string) {
	p.t.Helper()
	for range 200 {
		p.Keys(kb.Tab)
		at := Evaluate[struct {
			There, Seen bool
			What        string
		}](p, `(selector => {
			const at = document.activeElement, s = getComputedStyle(at)
			const outlined = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2
			const seen = at === document.body || outlined || s.boxShadow !== 'none'
			return {There: at.matches(selector), Seen: seen, What: at.outerHTML.slice(0, 200)}
		})(`+strconv.Quote(selector)+`)`)
		if !at.Seen {
			p.t.Fatalf("%s: at %s the focus is not visible on %s", p.look, p.Path(), at.What)
		}
		if at.There {
			return
		}
	}
	p.t.Fatalf("%s: Tab does not reach %s at %s", p.look, selector, p.Path())
}

// Enter presses Enter and waits for the next page.
func (p *Page) Enter() {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		p.t.Fatalf("%s: enter: %v", p.look, err)
	}
}

// Path returns the path of the current page.
func (p *Page) Path() string {
	p.t.Helper()
	address, err := chromedp.Run(p.ctx, chromedp.Location())
	if err != nil {
		p.t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	return u.Path
}

// Text returns the visible text of the page.
func (p *Page) Text() string {
	p.t.Helper()
	return Evaluate[string](p, "document.body.innerText")
}

// Picture returns a screenshot of the window as PNG.
func (p *Page) Picture() []byte {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// Received returns the number of bytes received, including headers and files.
func (p *Page) Received() int64 {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.received)
}

// Shot returns a screenshot of an element as PNG.
func (p *Page) Shot(selector string) []byte {
	p.t.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.Screenshot(selector))
	for try := 0; err != nil && try < 3; try++ { // a live update may replace the element
		picture, err = chromedp.Run(p.ctx, chromedp.Screenshot(selector))
	}
	if err != nil {
		p.t.Fatalf("%s: picture of %s: %v", p.look, selector, err)
	}
	return picture
}

// finding is a violation that axe-core reports.
type finding struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// Audit fails the test for each serious or critical violation of axe-core, for a page wider than the window, and
// for everything that Quiet reports.
func (p *Page) Audit() {
	p.t.Helper()
	p.audit("")
}

// AuditExcept is Audit without the given rules of axe-core, which a library's elements violate.
func (p *Page) AuditExcept(rules ...string) {
	p.t.Helper()
	var off []string
	for _, rule := range rules {
		off = append(off, fmt.Sprintf("%q: {enabled: false}", rule))
	}
	p.audit("rules: {" + strings.Join(off, ", ") + "}")
}

// audit is Audit with further options of axe.run, such as the rules to check.
func (p *Page) audit(options string) {
	p.t.Helper()
	if !Evaluate[bool](p, "'axe' in window") {
		p.Do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := chromedp.Evaluate[chromedp.Void](p.axe+";undefined")(ctx, t)
			return err
		}))
	}
	for _, f := range Evaluate[[]finding](p, `axe.run(document, {resultTypes: ["violations"],`+options+
		`}).then(r => r.violations)`) {
		if f.Impact == "serious" || f.Impact == "critical" {
			for _, n := range f.Nodes {
				p.t.Errorf("%s %s: %s %s: %s\n%s\n%s", p.Path(), p.look, f.Impact, f.ID, f.Help, n.HTML, n.Summary)
			}
		}
	}
	if wide := Evaluate[int](p, "document.documentElement.scrollWidth"); wide > p.look.width() {
		p.t.Errorf("%s is %d px wide in a window of %s", p.Path(), wide, p.look)
	}
	p.Quiet()
}

// Quiet fails the test if the page sent requests to hosts other than its own and those in others, violated the content
// security policy, or had script errors.
func (p *Page) Quiet(others ...string) {
	p.t.Helper()
	own := Evaluate[string](p, "location.host")
	p.mu.Lock()
	defer p.mu.Unlock()
	for host := range p.hosts {
		if host != own && !slices.Contains(others, host) {
			p.t.Errorf("%s: request to %s", p.look, host)
		}
	}
	for _, text := range p.complaints {
		p.t.Errorf("%s: %s", p.look, text)
	}
}

// Complains reports whether the browser's log has an error with this text.
func (p *Page) Complains(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.complaints, func(one string) bool { return strings.Contains(one, text) })
}

// looks are the looks in which Check audits pages.
var looks = []Look{{Width: 1440}, {Width: 320}, {Width: 390, Dark: true}, {Width: 1440, Dark: true}}

// Check audits a URL in all looks, and only the rules about colors again in dark ones. It reuses one tab, because only
// the style sheet depends on the look.
func (b *Browser) Check(address string) {
	b.t.Helper()
	p := b.Open(address, looks[0])
	defer p.Close()
	for _, look := range looks {
		p.emulate(look)
		if look.Dark {
			p.audit(`runOnly: ["color-contrast", "link-in-text-block"]`)
		} else {
			p.Audit()
		}
	}
}
