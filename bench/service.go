package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
)

// build builds the program as `make build` does.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "stipend")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/stipend")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return binary, nil
}

// process is a running service.
type process struct {
	url  string
	pid  int
	stop func()
}

// peak returns the peak resident memory since forgetPeak, or 0 if the system does not report it.
func (p *process) peak() memory {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return memory(kib << 10)
}

func (p *process) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0) // if this fails, peak covers the whole run
}

// start starts the service as an operator would, without request limits.
func start(ctx context.Context, binary, database string) (*process, error) {
	cmd := exec.CommandContext(ctx, binary, "serve", "--json", "--listen", "127.0.0.1:0", "--metrics-listen", "",
		"--data-dir", filepath.Dir(binary), "--database-url", database, "--reads-per-second", "0", "--writes-per-second", "0",
		"--claims-per-minute", "0", "--open-claims", "0", "--log-level", "error")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{pid: cmd.Process.Pid, stop: sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("the service exited before it was ready: %w", err)
	}
	var ready struct {
		BaseURL string `json:"base_url"`
	}
	if err := json.Unmarshal(line, &ready); err != nil || ready.BaseURL == "" {
		p.stop()
		return nil, fmt.Errorf("the first line of the service has no base_url: %s", line)
	}
	p.url = strings.TrimSuffix(ready.BaseURL, "/")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p, nil
}

// company is a company that creates payrolls.
type company struct {
	id, credential string
	payees         []string
}

type dataset struct{ companies []company }

// seed migrates a new database and creates one company with most payees, and others with few payees each. It calls
// the packages directly, without HTTP, because this work is not measured.
func seed(ctx context.Context, database string, most, companies, few int) (*dataset, error) {
	d, err := db.Open(ctx, db.Options{URL: database})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := d.Migrate(ctx); err != nil {
		return nil, err
	}
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		return nil, err
	}
	setup := destination.Setup{Sealer: sealer, BitcoinNetwork: "regtest"}
	w := &dataset{}
	for i := range companies {
		var c company
		var by identity.Principal
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			made, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: fmt.Sprintf("Bench %d", i+1), Country: "US",
				KYBStatus: "approved", FeeBps: 100})
			if err != nil {
				return err
			}
			app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: made.ID,
				Name: "Bench " + rand.Text(), Scopes: identity.AllScopes()})
			if err != nil {
				return err
			}
			_, token, err := identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: made.ID,
				AppID: app.ID})
			c.id, c.credential = made.ID, token
			by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_bench", AppID: app.ID, CompanyID: made.ID,
				Scopes: identity.AllScopes()}
			return err
		})
		if err != nil {
			return nil, err
		}
		want := few
		if i == 0 {
			want = max(most, few)
		}
		for len(c.payees) < want {
			var made []string
			err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				made = made[:0]
				for range min(500, want-len(c.payees)) {
					id, err := newPayee(ctx, tx, setup, by)
					if err != nil {
						return err
					}
					made = append(made, id)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			c.payees = append(c.payees, made...)
		}
		w.companies = append(w.companies, c)
	}
	return w, analyze(ctx, d)
}

// analyze updates PostgreSQL's statistics, as the server itself would within a minute. It omits tables with fewer
// than fifty rows, as the server does: a plan for a table that is known to be empty scans the whole table later.
func analyze(ctx context.Context, d *db.DB) error {
	if d.Engine() != db.Postgres {
		return nil
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
		names, err := db.Collect(rows, err, func(r *db.Rows) (name string, err error) { return name, r.Scan(&name) })
		if err != nil {
			return err
		}
		for _, name := range names {
			var n int64
			if err := tx.QueryRow(ctx,
				"SELECT COUNT(*) FROM (SELECT 1 FROM "+name+" LIMIT 50) AS first_rows").Scan(&n); err != nil {
				return err
			}
			if n == 50 {
				if _, err := tx.Exec(ctx, "ANALYZE "+name); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func newPayee(ctx context.Context, tx *db.Tx, setup destination.Setup, by identity.Principal) (string, error) {
	person := payee.CreateParams{}
	person.FirstName, person.LastName, person.Country = "Pay", "Ee", "US"
	r, err := payee.Create(ctx, tx, setup.Sealer, by, person)
	if err != nil {
		return "", err
	}
	to, err := anyAddress()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{"address": to})
	if err != nil {
		return "", err
	}
	_, err = destination.Create(ctx, tx, setup, by, destination.CreateParams{OwnerID: r.ID, Symbol: "BTC", Data: data})
	return r.ID, err
}

// payroll returns the body of a request that creates a payroll for the first n payees.
func (c company) payroll(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"company_id":%q,"currency":"USD","funding_currency":"BTC","to_pay":[`, c.id)
	for i, id := range c.payees[:n] {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"user_id":%q,"amount_fiat":%d.%02d}`, id, 500+i%100, i%100)
	}
	b.WriteString("]}")
	return b.Bytes()
}

const createPath = "/api/company/payroll/create"

// client sends requests to the service or to the floor, which accepts the same requests.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string, most int) *client {
	return &client{url, &http.Client{
		Timeout:   5 * time.Minute,
		Transport: &http.Transport{MaxIdleConnsPerHost: most + 1},
	}}
}

var errNotYet = errors.New("not yet")

func (c *client) post(ctx context.Context, by company, path, key string, body []byte) error {
	_, err := c.do(ctx, by, path, key, body)
	return err
}

// do sends a POST request and returns the response body.
func (c *client) do(ctx context.Context, by company, path, key string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Basic "+by.credential)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("%w: %s", errNotYet, answer)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %.500s", res.Status, answer)
	}
	return answer, nil
}

// newKey returns an idempotency key in the format of an id, so that the floor can derive new keys from it.
func newKey() string { return "bnc_" + strings.ToLower(rand.Text()) }

func (c *client) create(ctx context.Context, by company, body []byte) error {
	return c.post(ctx, by, createPath, newKey(), body)
}

// ready waits until the service accepts a payroll. Just after its start it has no exchange rates.
func (c *client) ready(ctx context.Context, by company) error {
	for end := time.Now().Add(30 * time.Second); ; {
		err := c.create(ctx, by, by.payroll(1))
		if !errors.Is(err, errNotYet) || time.Now().After(end) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// repeat is a request that has been answered once and can be sent again.
type repeat struct {
	by   company
	key  string
	body []byte
}

func (c *client) repeatable(ctx context.Context, by company, payees int) (repeat, error) {
	r := repeat{by, newKey(), by.payroll(payees)}
	return r, r.send(ctx, c)
}

func (r repeat) send(ctx context.Context, c *client) error {
	return c.post(ctx, r.by, createPath, r.key, r.body)
}
