package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
)

const (
	crashes     = 10
	payees      = 3
	longestLife = 7 * time.Second
	patience    = 2 * time.Minute
)

// A real process on a real node is killed at random moments while payrolls are created, funded, released and paid. The
// next process goes on. In the end the chain itself, not our tables, says that every payee was paid once for each payroll.
func TestKilledAtAnyMomentEverybodyIsPaidOnce(t *testing.T) {
	binary := build(t)
	btcdtest.Each(t, func(t *testing.T, node func(testing.TB) *btcdtest.Node) {
		dbtest.RunURL(t, func(t *testing.T, url string) { killedAtAnyMoment(t, binary, url, node(t)) })
	})
}

func killedAtAnyMoment(t *testing.T, binary, url string, node *btcdtest.Node) {
	w := &world{t: t, binary: binary, url: url, node: node, paid: map[string]bool{}, created: map[int]payroll{}}
	w.start(time.Hour)
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	w.kill()
	for round := range crashes {
		life := mathrand.N(longestLife)
		t.Logf("life %d ends after %s", round, life)
		w.start(life)
		look := time.NewTicker(20 * time.Millisecond)
		for w.alive() && w.step(round) == nil {
			<-look.C
		}
		look.Stop()
		w.kill()
	}
	w.start(time.Hour)
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); ; <-look.C {
		if err := w.step(crashes - 1); err != nil {
			t.Fatal(err)
		}
		if w.fulfilled() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not everybody was paid after %s:\n%s", patience, w.unpaid())
		}
	}
	w.verify()
	w.kill()
	if out, err := exec.Command(binary, "ledger", "check", "--database-url", url).CombinedOutput(); err != nil {
		t.Errorf("stipend ledger check: %v\n%s", err, out)
	}
}

// build makes the program that a user runs.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "stipend")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

type world struct {
	t       *testing.T
	binary  string
	url     string
	node    *btcdtest.Node // nil: the simulated chain
	process *exec.Cmd
	exited  chan struct{}
	log     *bytes.Buffer
	ready   app.Ready
	payees  []payee
	created map[int]payroll
	paid    map[string]bool // payroll ids whose quote the test has paid, once
}

type payee struct{ id, address string }

type payroll struct {
	PayrollID string `json:"payroll_id"`
	Quote     struct {
		Amount  json.Number `json:"funding_amount"`
		Details struct {
			Address string `json:"address"`
		} `json:"funding_details"`
	} `json:"quote"`
}

// start starts the service and has it killed after life.
func (w *world) start(life time.Duration) {
	w.t.Helper()
	args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--metrics-listen", "", "--database-url", w.url,
		"--poll-interval", "20ms", "--writes-per-second", "0", "--reads-per-second", "0", "--log-level", "warn"}
	if w.node != nil {
		args = append(args, "--bitcoin-rpc", w.node.URL())
	}
	cmd := exec.Command(w.binary, args...)
	w.log = &bytes.Buffer{}
	cmd.Stderr = w.log
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.process, w.exited = cmd, make(chan struct{})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &w.ready)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.t.Fatalf("serve did not get ready: %v\n%s", err, w.log.Bytes())
	}
	exited := w.exited
	timer := time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // killed: that is the point
		timer.Stop()
		close(exited)
	}()
	w.t.Cleanup(func() { _ = cmd.Process.Kill(); <-exited })
}

func (w *world) alive() bool {
	select {
	case <-w.exited:
		return false
	default:
		return true
	}
}

func (w *world) kill() {
	_ = w.process.Process.Kill()
	<-w.exited
}

// call sends a request; an error means that the process is gone or refuses.
func (w *world) call(method, path, key string, body, answer any) error {
	var b bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&b).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.ready.BaseURL+path, &b)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Basic "+w.ready.Seed.APIKey)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}

func (w *world) addPayee() payee {
	w.t.Helper()
	program := make([]byte, 20)
	_, _ = rand.Read(program) // never fails
	a, err := address.NewAddressWitnessPubKeyHash(program, &chaincfg.RegressionNetParams)
	if err != nil {
		w.t.Fatal(err)
	}
	company := w.ready.Seed.CompanyID
	var made struct {
		RecipientID string `json:"recipient_id"`
	}
	if err := w.call(http.MethodPost, "/api/company/"+company+"/recipients/create", "", map[string]any{
		"first_name": "Payee", "last_name": "Number", "country": "US",
	}, &made); err != nil {
		w.t.Fatal(err)
	}
	if err := w.call(http.MethodPost, "/api/company/"+company+"/recipients/"+made.RecipientID+"/distribution", "", map[string]any{
		"symbol": "BTC", "distribution_data": map[string]any{"address": a.EncodeAddress()},
	}, &struct{}{}); err != nil {
		w.t.Fatal(err)
	}
	return payee{made.RecipientID, a.EncodeAddress()}
}

// step does what is to be done next: create the payrolls up to this one, pay what they ask for once, and mine a block.
func (w *world) step(upTo int) error {
	for i := 0; i <= upTo; i++ {
		if err := w.fund(i); err != nil {
			return err
		}
	}
	return w.mine()
}

// create makes a payroll for all payees, unless it is made.
func (w *world) create(i int) error {
	if _, ok := w.created[i]; ok {
		return nil
	}
	var items []map[string]any
	for k, p := range w.payees {
		items = append(items, map[string]any{"user_id": p.id, "amount_fiat": json.Number(fmt.Sprintf("%d.%02d", 100+i, k))})
	}
	var p payroll
	err := w.call(http.MethodPost, "/api/company/payroll/create", fmt.Sprintf("payroll-%d", i), map[string]any{
		"company_id": w.ready.Seed.CompanyID, "currency": "USD", "external_id": fmt.Sprintf("run-%d", i), "to_pay": items,
	}, &p)
	if err == nil {
		w.created[i] = p
	}
	return err
}

// fund creates a payroll and pays what it asks for, once.
func (w *world) fund(i int) error {
	if err := w.create(i); err != nil {
		return err
	}
	p := w.created[i]
	if w.paid[p.PayrollID] {
		return nil
	}
	amount, err := money.Parse(money.BTC, p.Quote.Amount.String())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.node.PayAll(w.t.Context(), chain.Output{Address: p.Quote.Details.Address, Amount: amount.Units()}); err != nil {
		w.t.Fatal(err)
	}
	w.paid[p.PayrollID] = true
	return nil
}

// mine finds a block; an error means that the service is gone.
func (w *world) mine() error {
	if err := w.node.Mine(w.t.Context(), 1); err != nil {
		w.t.Fatal(err)
	}
	var list json.RawMessage
	return w.call(http.MethodGet, "/api/company/payrolls?per_page=1", "", nil, &list)
}

type detail struct {
	Status   string `json:"status"`
	Payments []struct {
		Outputs []struct {
			Address string      `json:"address"`
			Amount  json.Number `json:"volume_output_in_output_currency"`
			TxHash  string      `json:"tx_hash"`
		} `json:"outputs"`
	} `json:"payments"`
}

func (w *world) detail(p payroll) (d detail) {
	w.t.Helper()
	if err := w.call(http.MethodGet, "/api/company/payrolls/"+p.PayrollID, "", nil, &d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) fulfilled() bool {
	for _, p := range w.created {
		if w.detail(p).Status != "fulfilled" {
			return false
		}
	}
	return true
}

// unpaid shows the payrolls that have not ended, as the service shows them.
func (w *world) unpaid() string {
	var b strings.Builder
	for _, p := range w.created {
		var whole json.RawMessage
		if w.detail(p).Status == "fulfilled" {
			continue
		}
		if err := w.call(http.MethodGet, "/api/company/payrolls/"+p.PayrollID, "", nil, &whole); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s\n", whole)
	}
	return b.String() + w.log.String()
}

// onChain counts the outputs of the chain to the payees' addresses.
func (w *world) onChain() map[string]int {
	w.t.Helper()
	ctx, src := w.t.Context(), w.node.Source()
	found := map[string]int{}
	tip, _, err := src.Tip(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for h := int64(1); h <= tip; h++ {
		hash, err := src.BlockHash(ctx, h)
		if err != nil {
			w.t.Fatal(err)
		}
		block, err := src.Block(ctx, hash)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, tx := range block.Txs {
			for _, out := range tx.Outputs {
				for _, p := range w.payees {
					if out.Address == p.address {
						found[fmt.Sprintf("%s %s %d", tx.ID, out.Address, out.Amount)]++
					}
				}
			}
		}
	}
	return found
}

// verify compares what the API says was paid with what the chain says.
func (w *world) verify() {
	onChain := w.onChain()
	said := 0
	for _, p := range w.created {
		for _, payment := range w.detail(p).Payments {
			for _, o := range payment.Outputs {
				amount, err := money.Parse(money.BTC, o.Amount.String())
				if err != nil {
					w.t.Fatal(err)
				}
				line := fmt.Sprintf("%s %s %d", o.TxHash, o.Address, amount.Units())
				if onChain[line] == 0 {
					w.t.Errorf("the service says it paid, the chain does not: %s", line)
				}
				onChain[line]--
				said++
			}
		}
	}
	if want := crashes * payees; said != want {
		w.t.Errorf("%d payouts, want %d", said, want)
	}
	for line, n := range onChain {
		if n != 0 {
			w.t.Errorf("the chain paid %d more than the service says: %s", n, line)
		}
	}
}
