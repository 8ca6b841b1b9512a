package app_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
)

// printedText collects what a program prints.
type printedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *printedText) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *printedText) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// The programs of the guide for shops create one claim for an order, accept only signed deliveries, and ship an order
// once, however often its event is delivered.
func TestTheGuideForShops(t *testing.T) {
	testkit.NotQuick(t, "other languages")
	t.Parallel()
	guide, err := os.ReadFile("../../docs/guides/shop.md")
	testkit.Check(t, err)
	s := boot(t, dbtest.SQLite(t))
	for _, c := range []struct{ language, file, order string }{{"js", "shop.mjs", "1001"}, {"go", "main.go", "1002"}} {
		t.Run(c.language, func(t *testing.T) {
			d := newAPIClient(t, s)
			code := regexp.MustCompile("(?s)```" + c.language + "\n(.*?)```").FindSubmatch(guide)
			if code == nil {
				t.Fatal("the guide has no such program")
			}
			dir := t.TempDir()
			testkit.Check(t, os.WriteFile(filepath.Join(dir, c.file), code[1], 0o600))
			command := []string{"node", c.file}
			if c.language == "go" {
				command = []string{filepath.Join(dir, "shop")}
				build := exec.CommandContext(t.Context(), "go", "build", "-o", "shop", c.file)
				build.Dir = dir
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			address, err := freeport.Free()
			testkit.Check(t, err)
			shop := "http://" + address
			paid := &atomic.Int64{} // deliveries of the payment that the shop answered
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				forward, err2 := http.NewRequestWithContext(r.Context(), r.Method, shop+r.URL.Path, bytes.NewReader(body))
				if err != nil || err2 != nil {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				forward.Header = r.Header.Clone()
				resp, err := http.DefaultClient.Do(forward)
				if err != nil {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				resp.Body.Close()
				if resp.StatusCode == http.StatusNoContent && bytes.Contains(body, []byte(`"status":"paid"`)) {
					paid.Add(1)
				}
				w.WriteHeader(resp.StatusCode)
			}))
			t.Cleanup(receiver.Close)
			hook := d.ok("POST", "/api/webhooks", `{"url":"`+receiver.URL+`/hooks","events":["claim.*"]}`).read(t)
			run := exec.CommandContext(t.Context(), command[0], command[1:]...)
			printed := &printedText{}
			run.Dir, run.Stdout, run.Stderr = dir, printed, printed
			run.Env = append(os.Environ(), "STIPEND_URL="+s.Ready().BaseURL, "STIPEND_KEY="+s.Ready().Seed.APIKey,
				"WEBHOOK_SECRET="+hook["secret"].(string), "SHOP_ADDRESS="+address)
			testkit.Check(t, run.Start())
			defer func() { _ = run.Process.Kill(); _ = run.Wait() }()

			client := &http.Client{
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			post := func(path, body string) (int, string) {
				resp, err := client.Post(shop+path, "application/json", strings.NewReader(body))
				if err != nil {
					return 0, ""
				}
				defer resp.Body.Close()
				return resp.StatusCode, resp.Header.Get("Location")
			}
			var checkout string
			eventually(t, 30*time.Second, "the shop redirects to the checkout", func() bool {
				var status int
				status, checkout = post("/buy?order="+c.order, "")
				return status == http.StatusSeeOther
			})
			if _, again := post("/buy?order="+c.order, ""); again != checkout {
				t.Errorf("the same order has the checkouts %q and %q", checkout, again)
			}
			forged := `{"event":"claim.status_update","data":{"status":"paid","external_id":"` + c.order + `"}}`
			if status, _ := post("/hooks", forged); status != http.StatusUnauthorized {
				t.Errorf("a delivery without a signature: %d", status)
			}
			if printed.String() != "" {
				t.Fatalf("before the payment: %s", printed)
			}
			_, claimID, _ := strings.Cut(checkout, "/pay/")
			d.payClaim(claimID, "exact", "")
			eventually(t, 30*time.Second, "the payment is delivered", func() bool { return paid.Load() > 0 })
			before := paid.Load()
			d.ok("POST", "/api/webhooks/"+hook["webhook_id"].(string)+"/redeliver", `{"which":"all"}`)
			eventually(t, 30*time.Second, "the payment is delivered again", func() bool { return paid.Load() > before })
			if n := strings.Count(printed.String(), "ship "+c.order+"\n"); n != 1 {
				t.Errorf("the shop shipped the order %d times: %s", n, printed)
			}
		})
	}
}
