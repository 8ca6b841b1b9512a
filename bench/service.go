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

// build makes the program as `make build` does.
func build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "stipend")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/stipend")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	return binary, nil
}

// process is the running service.
type process struct {
	url  string
	pid  int
	stop func()
}

// peak is the most memory that the process had resident since forgetPeak; 0 where the system does not say.
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
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid), []byte("5"), 0) // where it fails, the peak is that of the whole run
}

// start runs the service as an operator would, with its limits on requests off.
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
		return nil, fmt.Errorf("the service ended before it was ready: %w", err)
	}
	var ready struct {
		BaseURL string `json:"base_url"`
	}
	if err := json.Unmarshal(line, &ready); err != nil || ready.BaseURL == "" {
		p.stop()
		return nil, fmt.Errorf("the service's first line names no base_url: %s", line)
	}
	p.url = strings.TrimSuffix(ready.BaseURL, "/")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return p, nil
}

// company is one of those that pay.
type company struct {
	id, credential string
	payees         []string
}

type world struct{ companies []company }

// seed fills a fresh database with one company of many payees, and others of few. It goes through the rules of the
// packages and leaves out HTTP only, because nobody measures it.
func seed(ctx context.Context, database string, most, companies, few int) (*world, error) {
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
	w := &world{}
	for i := range companies {
		var c company
		var by identity.Principal
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			made, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: fmt.Sprintf("Bench %d", i+1), Country: "US", KYBStatus: "approved", FeeBps: 100})
			if err != nil {
				return err
			}
			app, _, err := identity.CreateApp(ctx, tx, identity.Sandbox, identity.NewApp{CompanyID: made.ID, Name: "Bench " + rand.Text(), Scopes: identity.AllScopes()})
			if err != nil {
				return err
			}
			_, token, err := identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: made.ID, AppID: app.ID})
			c.id, c.credential = made.ID, token
			by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_bench", AppID: app.ID, CompanyID: made.ID, Scopes: identity.AllScopes()}
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

// analyze lets PostgreSQL know what its tables hold, which it would find out by itself within a minute. Of those that
// hold less than fifty rows it would not: and a plan for a table that is known to be empty reads all of what it holds
// later.
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
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+name+" LIMIT 50) AS first_rows").Scan(&n); err != nil {
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

// client talks to the service, and to the floor, which takes the same requests.
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
	_, err := c.ask(ctx, by, path, key, body)
	return err
}

// ask is post, with the answer.
func (c *client) ask(ctx context.Context, by company, path, key string, body []byte) ([]byte, error) {
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

// newKey is an idempotency key in the form of an id, so that the floor can make new ones from it in the same way.
func newKey() string { return "bnc_" + strings.ToLower(rand.Text()) }

func (c *client) create(ctx context.Context, by company, body []byte) error {
	return c.post(ctx, by, createPath, newKey(), body)
}

// ready waits for the first payroll to be accepted: at its very start the service has no price yet.
func (c *client) ready(ctx context.Context, by company) error {
	for end := time.Now().Add(30 * time.Second); ; {
		err := c.create(ctx, by, by.payroll(1))
		if !errors.Is(err, errNotYet) || time.Now().After(end) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// repeat is a request that was answered once and can be sent again.
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
