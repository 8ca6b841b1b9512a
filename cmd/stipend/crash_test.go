package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/btcdtest"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	crashes     = 2 * int(numberOfKinds)
	payees      = 3
	longestLife = 5 * time.Second
	patience    = 2 * time.Minute
)

// A real process is killed while payrolls are created, funded, released and paid, on a real Bitcoin node, on a real EVM
// node and through bank files: at random times, and at the most critical ones (see [moment]). The next process
// continues. In the end the chains and the bank's files, not Stipend's own tables, must show that every payee was paid
// once for each payroll.
func TestKilledAtAnyMomentEverybodyIsPaidOnce(t *testing.T) {
	binary := build(t)
	btcdtest.Each(t, func(t *testing.T, node func(testing.TB) *btcdtest.Node) {
		dbtest.RunURL(t, func(t *testing.T, url string) { killedAtAnyMoment(t, binary, url, node(t)) })
	})
}

func killedAtAnyMoment(t *testing.T, binary, url string, node *btcdtest.Node) {
	w := &world{t: t, binary: binary, url: url, node: node, line: newLine(t, node.URL()), rails: openRails(t),
		paid: map[string]bool{}, created: map[int]payroll{}, unheard: map[int]string{}}
	w.start(time.Hour)
	for range payees {
		w.payees = append(w.payees, w.addPayee())
	}
	w.rails.addPayees(w)
	w.kill()
	for round := range crashes {
		at := moment(round % int(numberOfKinds))
		t.Logf("life %d ends %s", round, at)
		w.live(round, at)
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	deadline := time.Now().Add(patience)
	for done := false; !done; w.kill() {
		w.start(time.Hour)
		w.takeOver()
		for again := time.Now().Add(longestLife); !done && time.Now().Before(again); <-look.C {
			testkit.Check(t, w.step(2*crashes-1))
			done = w.fulfilled()
		}
		if time.Now().After(deadline) {
			t.Fatalf("not everybody was paid after %s:\n%s", patience, w.unpaid())
		}
	}
	w.start(time.Hour)
	w.verify()
	w.kill()
	w.verifyOnce(2 * crashes)
	if out, err := exec.Command(binary, "ledger", "check", "--database-url", url).CombinedOutput(); err != nil {
		t.Errorf("stipend ledger check: %v\n%s", err, out)
	}
	w.command(append([]string{"reconcile", "--bitcoin-rpc", node.URL(), "--bitcoin-network", "regtest"},
		w.rails.nodes...)...)
}

// workshop is the directory in which the program is built once for all tests; "" before the first build.
var workshop string

var built = sync.OnceValues(func() (binary string, err error) {
	if workshop, err = os.MkdirTemp("", "stipend-test-"); err != nil {
		return "", err
	}
	binary = filepath.Join(workshop, "stipend")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if workshop != "" {
		_ = os.RemoveAll(workshop)
	}
	os.Exit(code)
}

// build builds the program that users run.
func build(t *testing.T) string {
	t.Helper()
	testkit.NotQuick(t, "minutes")
	binary, err := built()
	testkit.Check(t, err)
	return binary
}

type world struct {
	t       *testing.T
	binary  string
	url     string
	node    *btcdtest.Node // nil for the simulated chain
	line    *line          // nil without a proxy before the node
	rails   *rails         // nil if Bitcoin is the only rail
	env     []string       // in addition to the test's environment
	client  *http.Client   // nil for http.DefaultClient
	process *exec.Cmd
	exited  chan struct{}
	log     *bytes.Buffer
	ready   app.Ready
	heard   http.Header // of the last response
	payees  []payee
	created map[int]payroll
	mined   time.Time       // of the last block
	unheard map[int]string  // payroll IDs that the test knows only from lists
	paid    map[string]bool // IDs of payrolls that the test has funded
}

// payee has one destination: a chain address or a bank account number.
type payee struct {
	id      string
	symbol  money.Asset
	address string
}

type payroll struct {
	PayrollID string `json:"payroll_id"`
	Quote     struct {
		Amount  json.Number `json:"funding_amount"`
		Details struct {
			Address string `json:"address"`
		} `json:"funding_details"`
	} `json:"quote"`
}

// start starts the service and kills it after life.
func (w *world) start(life time.Duration) {
	w.t.Helper()
	args := []string{"serve", "--json", "--listen", "127.0.0.1:0", "--metrics-listen", "", "--database-url", w.url,
		"--poll-interval", "20ms", "--writes-per-second", "0", "--reads-per-second", "0", "--log-level", "warn"}
	if w.node != nil {
		node := w.node.URL()
		if w.line != nil {
			node = w.line.url
		}
		args = append(args, "--bitcoin-rpc", node)
	}
	if w.rails != nil {
		args = append(args, w.rails.flags...)
	}
	cmd := exec.Command(w.binary, args...)
	w.log = &bytes.Buffer{}
	cmd.Stderr = w.log
	cmd.Env = append(os.Environ(), w.env...)
	out, err := cmd.StdoutPipe()
	testkit.Check(w.t, err)
	testkit.Check(w.t, cmd.Start())
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
		_ = cmd.Wait() // killed on purpose
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

// call sends a request. An error means that the process is gone or refused it.
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
	res, err := cmp.Or(w.client, http.DefaultClient).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	w.heard = res.Header
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
	testkit.Check(w.t, err)
	return w.hire(money.BTC, a.EncodeAddress(), map[string]any{"address": a.EncodeAddress()})
}

// hire adds a payee with one destination.
func (w *world) hire(symbol money.Asset, address string, data map[string]any) payee {
	w.t.Helper()
	company, country := w.ready.Seed.CompanyID, "US"
	if symbol == money.EUR {
		country = "DE"
	}
	var made struct {
		RecipientID string `json:"recipient_id"`
	}
	testkit.Check(w.t, w.call(http.MethodPost, "/api/company/"+company+"/recipients/create", "", map[string]any{
		"first_name": "Payee", "last_name": "Number", "country": country,
	}, &made))
	if err := w.call(http.MethodPost, "/api/company/"+company+"/recipients/"+made.RecipientID+"/distribution", "",
		map[string]any{
			"symbol": symbol, "distribution_data": data,
		}, &struct{}{}); err != nil {
		w.t.Fatal(err)
	}
	return payee{made.RecipientID, symbol, address}
}

// takeOver advances the clock until the leases of a killed process have ended.
func (w *world) takeOver() {
	// it may be killed already
	_ = w.call(http.MethodPost, "/api/sandbox/clock", "", map[string]any{"advance_seconds": 100}, &struct{}{})
}

// step takes the next step: it creates the payrolls up to this one, funds them once, and mines a block.
func (w *world) step(upTo int) error {
	for i := 0; i <= upTo; i++ {
		if err := w.fund(i); err != nil {
			return err
		}
	}
	if w.rails != nil {
		w.rails.step(w.t)
	}
	return w.mine()
}

// funding returns the funding currency of a payroll: every second one in dollars if there is an EVM network.
func (w *world) funding(i int) money.Asset {
	if w.rails != nil && i%2 == 1 {
		return money.USDC
	}
	return money.BTC
}

// payeesOf returns the payees of a payroll: only those paid in dollars on a chain if it is funded so.
func (w *world) payeesOf(i int) (all []payee) {
	for _, p := range w.payees {
		if (p.symbol == money.USDC) == (w.funding(i) == money.USDC) {
			all = append(all, p)
		}
	}
	return all
}

// share returns the amount of the k-th payee of a payroll.
func share(i, k int) money.Amount { return money.New(money.USD, int64(10_000+100*i+k)) }

const createPath = "/api/company/payroll/create"

func keyOf(i int) string      { return fmt.Sprintf("payroll-%d", i) }
func externalID(i int) string { return fmt.Sprintf("run-%d", i) }

// order returns the request that creates a payroll for all its payees.
func (w *world) order(i int) map[string]any {
	var items []map[string]any
	for k, p := range w.payeesOf(i) {
		items = append(items, map[string]any{"user_id": p.id, "amount_fiat": json.Number(share(i, k).String())})
	}
	return map[string]any{
		"company_id": w.ready.Seed.CompanyID, "currency": "USD", "external_id": externalID(i), "to_pay": items,
		"funding_currency": w.funding(i),
	}
}

// create creates a payroll for all its payees, unless it exists. If the response to an earlier request was lost, the
// same idempotency key returns it.
func (w *world) create(i int) error {
	if _, ok := w.created[i]; ok {
		return nil
	}
	var p payroll
	err := w.call(http.MethodPost, createPath, keyOf(i), w.order(i), &p)
	if err != nil {
		return err
	}
	if id, made := w.unheard[i]; made && (p.PayrollID != id || w.heard.Get("Idempotent-Replayed") != "true") {
		w.t.Errorf("payroll %d was made as %s; asked again it is %s, replayed %q", i, id, p.PayrollID,
			w.heard.Get("Idempotent-Replayed"))
	}
	w.created[i] = p
	return nil
}

// fund creates a payroll and pays its quote once.
func (w *world) fund(i int) error {
	if err := w.create(i); err != nil {
		return err
	}
	p := w.created[i]
	if w.paid[p.PayrollID] {
		return nil
	}
	amount, err := money.Parse(w.funding(i), p.Quote.Amount.String())
	testkit.Check(w.t, err)
	pay := w.node.PayAll
	if amount.Asset() == money.USDC {
		pay = w.rails.lab.PayAll
	}
	if _, err := pay(w.t.Context(), chain.Output{Address: p.Quote.Details.Address, Amount: amount.Units()}); err != nil {
		w.t.Fatal(err)
	}
	w.paid[p.PayrollID] = true
	return nil
}

// mine mines a block; an error means that the service is gone.
func (w *world) mine() error {
	testkit.Check(w.t, w.node.Mine(w.t.Context(), 1))
	var list json.RawMessage
	return w.call(http.MethodGet, "/api/company/payrolls?per_page=1", "", nil, &list)
}

type detail struct {
	Status   string `json:"status"`
	Payments []struct {
		UserID  string `json:"user_id"`
		Outputs []struct {
			Currency money.Asset `json:"output_currency"`
			Amount   json.Number `json:"volume_output_in_output_currency"`
			TxHash   string      `json:"tx_hash"`
		} `json:"outputs"`
	} `json:"payments"`
}

func (w *world) detail(p payroll) (d detail) {
	w.t.Helper()
	testkit.Check(w.t, w.call(http.MethodGet, "/api/company/payrolls/"+p.PayrollID, "", nil, &d))
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

// unpaid describes the payrolls that have not ended, as the API reports them.
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

// onChain counts the payments to payees on the Bitcoin chain.
func (w *world) onChain() map[string]int { return w.paidBlocks(w.node.Source()) }

// paidBlocks counts the payments to the payees in the blocks of a chain.
func (w *world) paidBlocks(src chain.Source) map[string]int {
	w.t.Helper()
	ctx := w.t.Context()
	found := map[string]int{}
	tip, _, err := src.Tip(ctx)
	testkit.Check(w.t, err)
	for h := int64(1); h <= tip; h++ {
		hash, err := src.BlockHash(ctx, h)
		testkit.Check(w.t, err)
		block, err := src.Block(ctx, hash)
		testkit.Check(w.t, err)
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

// verify compares the amounts due and those that the API reports as paid with the chains and the bank's files.
func (w *world) verify() {
	outside := w.onChain()
	maps.Copy(outside, w.paidBlocks(w.rails.lab.Source()))
	maps.Copy(outside, w.rails.inFiles(w.t))
	payees := map[string]payee{}
	for _, p := range w.payees {
		payees[p.id] = p
	}
	said := 0
	for i, p := range w.created {
		of := w.payeesOf(i)
		for _, payment := range w.detail(p).Payments {
			to := payees[payment.UserID]
			for _, o := range payment.Outputs {
				amount, err := money.Parse(to.symbol, o.Amount.String())
				testkit.Check(w.t, err)
				if want := share(i, slices.Index(of, to)); to.symbol == money.USD && amount != want || to.symbol == money.USDC &&
					amount.Units() != want.Units()*10_000 {
					w.t.Errorf("%s of payroll %d gets %s %s, want %s", to.address, i, amount, to.symbol, want)
				}
				line := fmt.Sprintf("%s %s %d", o.TxHash, to.address, amount.Units())
				if outside[line] == 0 {
					w.t.Errorf("the service says it paid, the world does not: %s", line)
				}
				outside[line]--
				said++
			}
		}
	}
	if want := crashes * len(w.payees); said != want {
		w.t.Errorf("%d payouts, want %d", said, want)
	}
	for line, n := range outside {
		if n != 0 {
			w.t.Errorf("the world paid %d more than the service says: %s", n, line)
		}
	}
}
