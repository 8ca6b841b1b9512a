package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/sandbox"
)

const (
	processCount = 2
	clientCount  = 3
	blockEvery   = 45 * time.Second

	evmBlockEvery = 20 * time.Second
)

// MakeTemplate creates the databases with which each run begins: that of the service, with its schema, initial data
// and a webhook endpoint, and that of the chain, with the operator's funds. dir must be empty.
func MakeTemplate(t *testing.T, dir string) {
	t.Helper()
	if !t.Run("template", func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, 1)
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(epoch))
			if err := makeTemplate(context.Background(), dir); err != nil {
				t.Fatal(err)
			}
		})
	}) {
		t.FailNow()
	}
}

// epoch is the virtual time at which the template begins. A synctest bubble would begin in the year 2000, when the
// payees of the initial data were children.
var epoch = time.Date(2027, 1, 4, 9, 0, 0, 0, time.UTC)

func makeTemplate(ctx context.Context, dir string) (err error) {
	n, err := openNetwork(ctx, dir, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.d.Close()) }()
	c, err := config(dir + "/stipend.db")
	if err != nil {
		return err
	}
	accounts, err := openEVM(n.d)
	if err != nil {
		return err
	}
	a, err := app.Assemble(ctx, c, slog.New(slog.DiscardHandler), "template", app.Outside{
		Bitcoin: n.Chain, EVM: map[string]evm.Node{evmName: accounts},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := stepAll(ctx, a); err != nil {
		return err
	}
	if err := fundHotWallet(ctx, accounts); err != nil {
		return err
	}
	address, err := a.OperatorAddress(ctx)
	if err != nil {
		return err
	}
	if _, err := n.Pay(ctx, address, 5_00000000); err != nil {
		return err
	}
	if err := n.Mine(ctx, 101); err != nil { // deeper than any reorganization of a run
		return err
	}
	if err := stepAll(ctx, a); err != nil {
		return err
	}
	if err := a.Jobs.Drain(ctx); err != nil {
		return err
	}
	calls := 0
	post := func(v any, path string, body map[string]any) error {
		calls++
		rec := httptest.NewRecorder()
		a.Handler.ServeHTTP(rec, request(ctx, http.MethodPost, path, "template-"+strconv.Itoa(calls), encode(body)))
		if rec.Code != http.StatusOK {
			return fmt.Errorf("POST %s: %d %s", path, rec.Code, rec.Body)
		}
		return json.Unmarshal(rec.Body.Bytes(), v)
	}
	var ignored struct{}
	if err := post(&ignored, "/api/webhooks", map[string]any{
		"url": "https://hooks.example.com/stipend", "events": []string{"*"},
	}); err != nil {
		return err
	}
	payees, err := makePayees(post)
	if err != nil {
		return err
	}
	text, err := json.Marshal(payees)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, payeesFile), text, 0o600)
}

// stepAll steps each watcher until it has reached the end of its chain.
func stepAll(ctx context.Context, a *app.Assembly) error {
	for _, name := range slices.Sorted(maps.Keys(a.Watchers)) {
		if err := a.Watchers[name].Step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// payeesFile is the name of the file with the payees of the template.
const payeesFile = "payees.json"

// makePayees creates payees who are paid by bank and in USDC, and returns all payees of the runs.
func makePayees(post func(v any, path string, body map[string]any) error) ([]payee, error) {
	all, err := seededPayees()
	if err != nil {
		return nil, err
	}
	base := "/api/company/" + sandbox.DefaultSeed().CompanyID + "/recipients/"
	add := func(name, place, currency, symbol string, data map[string]any) error {
		first, last, _ := strings.Cut(name, " ")
		var created struct {
			ID string `json:"recipient_id"`
		}
		if err := post(&created, base+"create", map[string]any{
			"first_name": first, "last_name": last, "country": "US",
		}); err != nil {
			return err
		}
		all = append(all, payee{ID: created.ID, Place: place, Currency: currency})
		var ignored struct{}
		return post(&ignored, base+created.ID+"/distribution", map[string]any{
			"symbol": symbol, "distribution_data": data,
		})
	}
	for i, name := range []string{"Ada Lovelace", "Alan Turing"} {
		number := fmt.Sprintf("00012345%04d", i)
		if err := add(name, number, "USD", "USD", map[string]any{
			"account_holder_name": name, "account_holder_type": "individual", "routing_number": "110000000",
			"account_number": number, "account_type": "checking", "address": map[string]any{
				"address_line1": "1 Example Street", "city": "Springfield", "state": "IL", "postal_code": "62701",
				"country": "US",
			},
		}); err != nil {
			return nil, err
		}
	}
	for i, address := range []string{
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	} {
		if err := add([]string{"Grace Hopper", "Edsger Dijkstra"}[i], address, "USDC", "USDC", map[string]any{
			"address": address, "network": evmName,
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Run runs a world with the given options. It uses t only for its bubble and its randomness.
func Run(t *testing.T, o Options) (result Result) {
	t.Helper()
	t.Run(strconv.FormatUint(o.Seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, o.Seed)
		synctest.Test(t, func(t *testing.T) {
			w, err := newWorld(o)
			if err != nil {
				t.Fatal(err)
			}
			w.run()
			w.model.verify()
			result = w.result()
			w.stop()
		})
	})
	return result
}

// Shortest looks for the failing run with the fewest faults. It repeats a failed run with the same faults in the same
// order, but stops injecting them earlier.
func Shortest(t *testing.T, o Options, failed Result) Result {
	t.Helper()
	low, high := 0, len(failed.Faults) // a run with high faults fails
	for low < high {
		o.MaxFaults = (low + high) / 2
		if o.MaxFaults == 0 {
			o.MaxFaults = -1
		}
		if r := Run(t, o); len(r.Violations) > 0 {
			failed, high = r, (low+high)/2
		} else {
			low = (low+high)/2 + 1
		}
	}
	return failed
}

func newWorld(o Options) (*World, error) {
	if o.Trouble == 0 {
		o.Trouble = defaultTrouble
	}
	for _, name := range []string{"stipend.db", "chain.db"} {
		if err := copyFile(filepath.Join(o.Template, name), filepath.Join(o.Dir, name)); err != nil {
			return nil, err
		}
	}
	time.Sleep(time.Until(epoch.Add(time.Hour))) // the template's times must be in the past
	w := &World{
		agenda: agenda{seen: -1}, trial: time.Now().Add(5 * time.Minute),
		o: o, began: time.Now(), trouble: time.Now().Add(o.Trouble), ctx: context.Background(),
		order:  rand.New(rand.NewPCG(o.Seed, 1)), //nolint:gosec // must be repeatable
		chance: rand.New(rand.NewPCG(o.Seed, 2)), //nolint:gosec // must be repeatable
		parked: map[string]*gate{}, woken: make(chan struct{}, 1), receiver: &receiver{count: map[string]int{}},
	}
	w.model = &model{w: w, states: map[string]int{}}
	var err error
	if w.payees, err = readPayees(o.Template); err != nil {
		return nil, err
	}
	if w.refunds, err = refundAddresses(); err != nil {
		return nil, err
	}
	if w.chain, err = openNetwork(w.ctx, o.Dir, o.Seed); err != nil {
		return nil, err
	}
	if w.evm, err = openEVM(w.chain.d); err != nil {
		return nil, err
	}
	if w.agenda.d, err = db.Open(w.ctx, db.Options{URL: "sqlite:" + o.Dir + "/stipend.db"}); err != nil {
		return nil, err
	}
	w.actors = append(w.actors, &actor{
		name: "mine", next: time.Now().Add(blockEvery), every: blockEvery, run: w.chain.mine,
	})
	w.actors = append(w.actors, &actor{
		name: "mine EVM", next: time.Now().Add(evmBlockEvery), every: evmBlockEvery, run: w.mineEVM,
	})
	for i := range processCount {
		p := &process{w: w, slot: i + 1}
		w.processes = append(w.processes, p)
		w.boot(p)
		synctest.Wait()
	}
	for i := range clientCount {
		c := &client{
			w: w, name: "client" + strconv.Itoa(i+1),
			rng: rand.New(rand.NewPCG(o.Seed, 10+uint64(i))), //nolint:gosec // must be repeatable
		}
		w.clients = append(w.clients, c)
		w.spawn(nil, c.name, func() { c.run(1 + c.rng.IntN(3)) })
		synctest.Wait()
	}
	return w, nil
}

// stop ends all goroutines of the world.
func (w *World) stop() {
	for _, p := range w.processes {
		p.dead = true
		p.restart = time.Now().Add(1000 * time.Hour)
		p.cancel()
	}
	for {
		synctest.Wait()
		w.mu.Lock()
		var g *gate
		for _, x := range w.parked {
			g = x
			break
		}
		tasks := w.tasks
		w.mu.Unlock()
		switch {
		case g != nil:
			w.mu.Lock()
			delete(w.parked, g.label)
			w.mu.Unlock()
			g.release <- killed
		case tasks > 0:
			time.Sleep(time.Minute)
		default:
			w.bury()
			if w.model.auditor != nil {
				_ = w.model.auditor.Close()
			}
			_, _ = w.agenda.d.Close(), w.chain.d.Close()
			return
		}
	}
}

func (w *World) result() Result {
	return Result{
		Seed: w.o.Seed, Violations: w.model.violations, Trace: w.trace, Faults: w.faults, Steps: w.steps,
		Virtual: time.Since(w.began), Payrolls: w.model.states, Events: len(w.receiver.first),
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
