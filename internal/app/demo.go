package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"
	"rsc.io/qr"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/money"
)

// DemoCmd shows the main job to a person. It is a client like any other: what it shows, it got from the public interface.
type DemoCmd struct {
	BaseURL        string        `name:"base-url" env:"STIPEND_BASE_URL" placeholder:"URL" help:"Sandbox to use. Default: one started for the demo."`
	APIKey         string        `name:"api-key" env:"STIPEND_API_KEY" placeholder:"KEY" help:"API key for --base-url."`
	DataDir        string        `placeholder:"DIR" help:"Where the sandbox started for the demo keeps its data. Default: a directory that is removed afterwards."`
	Payees         int           `default:"3" placeholder:"N" help:"How many people to pay, 1 to 10000 (${default})."`
	Amount         string        `default:"500.00" placeholder:"USD" help:"What each of them gets, in USD (${default})."`
	BitcoinRPC     string        `name:"bitcoin-rpc" placeholder:"URL" help:"Use this Bitcoin Core node, http://user:password@host:port, instead of the simulated chain. On regtest the demo mines and pays for itself; elsewhere it waits for you to pay."`
	BitcoinNetwork string        `default:"regtest" enum:"testnet,signet,regtest" placeholder:"NET" help:"The node's network: regtest (default), testnet or signet."`
	Timeout        time.Duration `default:"10m" help:"Give up after this long (${default})."`
}

// Help is the long form of the help.
func (DemoCmd) Help() string {
	return `Creates a payroll, shows its price and address, pays it in the sandbox, and follows the money until every payee has theirs.

  stipend demo                      a sandbox of its own, three payees
  stipend demo --payees 200
  stipend demo --bitcoin-rpc http://user:password@127.0.0.1:18443`
}

// Run plays the demo.
func (cmd DemoCmd) Run(ctx context.Context, std Streams) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the demo took longer than --timeout"))
	defer cancel()
	if cmd.Payees < 1 || cmd.Payees > 10_000 {
		return errors.New("--payees must be from 1 to 10000")
	}
	s := &stage{out: std.Out}
	if f, ok := std.Out.(*os.File); ok {
		s.live = term.IsTerminal(int(f.Fd()))
	}

	var service *Service
	if cmd.BaseURL == "" {
		started, cleanup, err := cmd.start(ctx, s)
		if err != nil {
			return err
		}
		defer cleanup()
		service = started
		cmd.BaseURL, cmd.APIKey = service.Ready().BaseURL, service.Ready().Seed.APIKey
	} else if cmd.APIKey == "" {
		cmd.APIKey = sandboxSeed().APIKey // of any sandbox
	}
	err := cmd.play(ctx, s, service)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// start runs a sandbox inside this process.
func (cmd DemoCmd) start(ctx context.Context, s *stage) (*Service, func(), error) {
	cfg, err := Defaults()
	if err != nil {
		return nil, nil, err
	}
	cfg.Env, cfg.DatabaseURL, cfg.BaseURL, cfg.AuthURL = Sandbox, "", "", ""
	cfg.Listen, cfg.MetricsListen = "127.0.0.1:0", ""
	cfg.ReadsPerSecond, cfg.WritesPerSecond = 0, 0
	cfg.BitcoinRPC, cfg.BitcoinNetwork = cmd.BitcoinRPC, cmd.BitcoinNetwork
	if cmd.BitcoinRPC != "" {
		cfg.PollInterval = 250 * time.Millisecond
	} else {
		cfg.BitcoinNetwork = "regtest"
	}
	remove := func() {}
	if cfg.DataDir = cmd.DataDir; cfg.DataDir == "" {
		if cfg.DataDir, err = os.MkdirTemp("", "stipend-demo-"); err != nil {
			return nil, nil, err
		}
		remove = func() { _ = os.RemoveAll(cfg.DataDir) }
	}
	s.note("Starting a sandbox in %s …", cfg.DataDir)
	service, err := Start(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		remove()
		return nil, nil, err
	}
	return service, func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		_ = service.Stop(stop)
		remove()
	}, nil
}

func (cmd DemoCmd) play(ctx context.Context, s *stage, service *Service) error {
	api := &demoClient{base: strings.TrimRight(cmd.BaseURL, "/"), key: cmd.APIKey}
	var company struct {
		CompanyID string `json:"company_id"`
		Name      string `json:"name"`
	}
	if err := api.get(ctx, "/api/company", &company); err != nil {
		return err
	}

	s.step("Payees of %s", company.Name)
	people, err := cmd.people(ctx, s, api, company.CompanyID)
	if err != nil {
		return err
	}
	toPay := make([]map[string]any, len(people))
	for i, p := range people {
		toPay[i] = map[string]any{"user_id": p.id, "amount_fiat": json.Number(cmd.Amount), "description": "Demo pay"}
	}
	var made demoCreated
	if err := api.post(ctx, "/api/company/payroll/create", map[string]any{
		"company_id": company.CompanyID, "currency": "USD", "funding_method": "crypto", "funding_currency": "BTC", "to_pay": toPay,
	}, &made); err != nil {
		return err
	}
	rows := [][]string{}
	for i, p := range people {
		if i == 12 && len(people) > 14 {
			rows = append(rows, []string{"", fmt.Sprintf("… and %d more", len(people)-i), ""})
			break
		}
		rows = append(rows, []string{p.name, p.id, cmd.Amount + " USD"})
	}
	rows = append(rows, []string{"", "Volume", made.Volume.String() + " USD"}, []string{"", "Fees", made.Fees.String() + " USD"},
		[]string{"", "Total", made.Total.String() + " USD"})
	s.table("NAME\tID\tAMOUNT", rows)

	q := made.Quote
	s.step("Quote for payroll %s", made.PayrollID)
	s.note("Send     %s %s", q.FundingAmount, q.FundingCurrency)
	s.note("To       %s  (%s)", q.FundingDetails.Address, q.FundingDetails.Network)
	s.note("Price    %s USD per %s", q.Rate, q.FundingCurrency)
	s.note("Until    %s", q.ValidTo.Local().Format("15:04:05"))
	if err := s.qr(fmt.Sprintf("bitcoin:%s?amount=%s", q.FundingDetails.Address, q.FundingAmount)); err != nil {
		return err
	}

	node, err := cmd.pay(ctx, s, api, made)
	if err != nil {
		return err
	}
	if err := s.follow(ctx, api, made, node); err != nil {
		return err
	}
	if service == nil {
		s.note("\nThe books are beside the service's database: stipend ledger check")
		return nil
	}
	s.step("Trial balance")
	report, err := service.checkLedger(ctx)
	if err != nil {
		return err
	}
	return printReport(s.out, report)
}

// person is one payee of the demo.
type person struct{ id, name string }

// people are the company's workers who can be paid and, where those are too few, new recipients with addresses of their own.
func (cmd DemoCmd) people(ctx context.Context, s *stage, api *demoClient, companyID string) ([]person, error) {
	var workers struct {
		Data []struct {
			UserID           string `json:"user_id"`
			FirstName        string `json:"first_name"`
			LastName         string `json:"last_name"`
			HasDistributions bool   `json:"has_distributions"`
		} `json:"data"`
	}
	if err := api.get(ctx, "/api/company/workers?per_page=100&company_id="+companyID, &workers); err != nil {
		return nil, err
	}
	var all []person
	for _, w := range workers.Data {
		// Half of this one's pay goes by a file that a bank collects, and no bank takes part in the demo.
		if w.UserID == sandboxSeed().Workers[bankWorker].UserID {
			continue
		}
		if w.HasDistributions && len(all) < cmd.Payees {
			all = append(all, person{w.UserID, w.FirstName + " " + w.LastName})
		}
	}
	if len(all) == cmd.Payees {
		return all, nil
	}
	wallet, err := newWallet(cmd.BitcoinNetwork)
	if err != nil {
		return nil, err
	}
	for i := len(all); i < cmd.Payees; i++ {
		s.status("Creating payee %d of %d", i+1, cmd.Payees)
		last := fmt.Sprintf("Demo %04d", i+1)
		var made struct {
			RecipientID string `json:"recipient_id"`
		}
		if err := api.post(ctx, "/api/company/"+companyID+"/recipients/create", map[string]any{
			"first_name": "Payee", "last_name": last, "country": "US",
		}, &made); err != nil {
			return nil, err
		}
		address, err := wallet.Deriver().Address(chain.External, uint32(i))
		if err != nil {
			return nil, err
		}
		if err := api.post(ctx, "/api/company/"+companyID+"/recipients/"+made.RecipientID+"/distribution", map[string]any{
			"symbol": "BTC", "distribution_data": map[string]any{"address": address},
		}, nil); err != nil {
			return nil, err
		}
		all = append(all, person{made.RecipientID, "Payee " + last})
	}
	s.clear()
	return all, nil
}

// pay sends the money: by the sandbox's own faucet, by mining on a regtest node, or by waiting for a person. It returns what
// finds the blocks from here on, nil where somebody else does.
func (cmd DemoCmd) pay(ctx context.Context, s *stage, api *demoClient, made demoCreated) (*miner, error) {
	s.step("Funding")
	switch {
	case cmd.BitcoinRPC == "":
		var paid map[string]any
		if err := api.post(ctx, "/api/sandbox/deposit", map[string]any{"payroll_id": made.PayrollID, "kind": "exact"}, &paid); err != nil {
			return nil, err
		}
		if tx, ok := paid["tx_hash"].(string); ok {
			s.note("Paid on the simulated chain: %s", tx)
		} else {
			s.note("Paid on the simulated chain.")
		}
		return nil, nil
	case cmd.BitcoinNetwork != "regtest":
		s.note("Pay the address above from any %s wallet; the demo goes on by itself.", cmd.BitcoinNetwork)
		return nil, nil
	}
	node, err := newMiner(cmd.BitcoinRPC)
	if err != nil {
		return nil, err
	}
	sats, err := money.Parse(money.BTC, made.Quote.FundingAmount.String())
	if err != nil {
		return nil, err
	}
	s.status("Mining coins on the regtest node")
	txid, err := node.pay(ctx, made.Quote.FundingDetails.Address, sats.Units())
	s.clear()
	if err != nil {
		return nil, fmt.Errorf("pay on the regtest node: %w", err)
	}
	s.note("Paid on the regtest node: %s", txid)
	return node, nil
}

// follow shows what changes, once each, until the payroll is through.
func (s *stage) follow(ctx context.Context, api *demoClient, made demoCreated, node *miner) error {
	var last demoDetail
	paid := map[string]bool{}
	mineAt := time.Now().Add(time.Second)
	for {
		var now demoDetail
		if err := api.get(ctx, "/api/company/payrolls/"+made.PayrollID, &now); err != nil {
			return err
		}
		if now.FundingState != last.FundingState && now.FundingState != "" && now.FundingState != "none" {
			s.event("funding", "%s", map[string]string{
				"detected": "money seen, not all of it yet", "partial": "part of it confirmed", "confirming": "money seen: enough, waiting for confirmations",
				"funded": "confirmed in full", "over": "confirmed, with a surplus for the company's balance", "late": "money came after the quote ended",
			}[now.FundingState])
		}
		if n := now.confirmations(); n > last.confirmations() {
			s.event("chain", "%d confirmation%s", n, plural(n))
		}
		if now.Status != last.Status {
			s.event("payroll", "%s", now.Status)
		}
		for _, p := range now.Payments {
			for i, o := range p.Outputs {
				key := fmt.Sprintf("%s/%d/%s/%s", p.ID, i, o.status(), o.TxHash)
				if paid[key] || o.status() == "queued" || o.status() == "" {
					continue
				}
				paid[key] = true
				if len(now.Payments) <= 20 {
					s.event("payout", "%-22s %14s %-4s %-10s %s", p.payee(), o.Volume, o.Currency, o.status(), o.TxHash)
				}
			}
		}
		done, all := now.progress()
		switch now.Status {
		case "fulfilled":
			s.event("done", "%d of %d payments reached their payee", done, all)
			return nil
		case "partially_fulfilled", "cancelled", "expired_unfunded", "on_hold":
			return fmt.Errorf("the payroll ended as %s", now.Status)
		}
		if now.Status == "pending" {
			s.status("Quote ends in %s · status %s", time.Until(made.Quote.ValidTo).Truncate(time.Second), now.Status)
		} else {
			s.status("%d of %d payments fulfilled · status %s", done, all, now.Status)
		}
		last = now
		if node != nil && time.Now().After(mineAt) {
			if err := node.mine(ctx, 1); err != nil {
				return fmt.Errorf("mine a block: %w", err)
			}
			mineAt = time.Now().Add(time.Second)
		}
		select {
		case <-ctx.Done():
			s.clear()
			return ctx.Err()
		case <-time.After(150 * time.Millisecond):
		}
	}
}

// What the demo reads of the interface's answers. Numbers stay text: they are money.
type (
	demoCreated struct {
		PayrollID string      `json:"payroll_id"`
		Fees      json.Number `json:"fees"`
		Volume    json.Number `json:"volume_input_in_input_currency"`
		Total     json.Number `json:"total_input_in_input_currency"`
		Quote     struct {
			ValidTo         time.Time   `json:"valid_to"`
			Rate            json.Number `json:"rate"`
			FundingCurrency string      `json:"funding_currency"`
			FundingAmount   json.Number `json:"funding_amount"`
			FundingDetails  struct {
				Address string `json:"address"`
				Network string `json:"network"`
			} `json:"funding_details"`
		} `json:"quote"`
	}
	demoDetail struct {
		Status       string `json:"status"`
		FundingState string `json:"funding_state"`
		Deposits     []struct {
			Confirmations int64 `json:"confirmations"`
		} `json:"deposits"`
		Payments []demoPayment `json:"payments"`
	}
	demoPayment struct {
		ID      string       `json:"subpayroll_id"`
		UserID  string       `json:"user_id"`
		Name    string       `json:"name"`
		Status  string       `json:"status"`
		Outputs []demoOutput `json:"outputs"`
	}
	demoOutput struct {
		Status   string      `json:"status"`
		State    string      `json:"state"`
		Currency string      `json:"output_currency"`
		Volume   json.Number `json:"volume_output_in_output_currency"`
		TxHash   string      `json:"tx_hash"`
	}
)

func (d demoDetail) confirmations() (n int64) {
	for _, p := range d.Deposits {
		n = max(n, p.Confirmations)
	}
	return n
}

func (d demoDetail) progress() (done, all int) {
	for _, p := range d.Payments {
		if p.Status == "fulfilled" {
			done++
		}
	}
	return done, len(d.Payments)
}

func (p demoPayment) payee() string {
	if p.Name != "" {
		return p.Name
	}
	return p.UserID
}

func (o demoOutput) status() string {
	if o.Status != "" {
		return o.Status
	}
	return o.State
}

func plural(n int64) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// demoClient speaks to the public interface.
type demoClient struct{ base, key string }

func (c *demoClient) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

func (c *demoClient) post(ctx context.Context, path string, body, into any) error {
	return c.do(ctx, http.MethodPost, path, body, into)
}

func (c *demoClient) do(ctx context.Context, method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Basic "+c.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", uuid.NewString())
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 32<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		var problem struct{ Code, Detail string }
		if json.Unmarshal(answer, &problem) != nil || problem.Code == "" {
			return fmt.Errorf("%s %s: %s", method, path, res.Status)
		}
		return fmt.Errorf("%s %s: %s: %s", method, path, problem.Code, problem.Detail)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// stage is the terminal. On a live one the last line is a status that is drawn over; anywhere else only what changes is
// printed, so that the output reads well in a file.
type stage struct {
	out   io.Writer
	live  bool
	shown string
	began time.Time
}

func (s *stage) print(format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.out, format, args...)
}

func (s *stage) step(format string, args ...any) {
	title := fmt.Sprintf(format, args...)
	if s.live {
		s.print("\n\x1b[1m%s\x1b[0m\n", title)
		return
	}
	s.print("\n%s\n%s\n", title, strings.Repeat("─", len([]rune(title))))
}

func (s *stage) note(format string, args ...any) { s.print(format+"\n", args...) }

// event is a line about what just happened, with the time since the first one.
func (s *stage) event(kind, format string, args ...any) {
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.print("%6.1fs  %-8s %s\n", time.Since(s.began).Seconds(), kind, fmt.Sprintf(format, args...))
}

func (s *stage) table(head string, rows [][]string) {
	s.clear()
	w := tabwriter.NewWriter(s.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, head)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	_ = w.Flush()
}

func (s *stage) status(format string, args ...any) {
	if !s.live {
		return
	}
	if line := fmt.Sprintf(format, args...); line != s.shown {
		s.shown = line
		fmt.Fprintf(s.out, "\r\x1b[K\x1b[2m%s\x1b[0m", line)
	}
}

func (s *stage) clear() {
	if s.shown != "" {
		s.shown = ""
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}

// qr draws a QR code, two modules to a character. A light module is ink, as terminals are mostly dark; on a live terminal the
// colours are set, so it reads on a light one too.
func (s *stage) qr(text string) error {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return err
	}
	const quiet = 2
	s.clear()
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		b.WriteString("  ")
		if s.live {
			b.WriteString("\x1b[97;40m")
		}
		for x := -quiet; x < code.Size+quiet; x++ {
			top, bottom := !code.Black(x, y), !code.Black(x, y+1)
			switch {
			case top && bottom:
				b.WriteRune('█')
			case top:
				b.WriteRune('▀')
			case bottom:
				b.WriteRune('▄')
			default:
				b.WriteRune(' ')
			}
		}
		if s.live {
			b.WriteString("\x1b[0m")
		}
		b.WriteByte('\n')
	}
	_, err = io.WriteString(s.out, b.String())
	return err
}

// newWallet is a throw-away wallet.
func newWallet(network string) (*bitcoin.Signer, error) {
	key, err := newAccount(network)
	if err != nil {
		return nil, err
	}
	return bitcoin.ParseXPriv(key, network)
}
