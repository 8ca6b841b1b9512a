package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

// secondNode answers requests as a second node of the sandbox's simulated chain. It can be down, ahead, or on a fork.
type secondNode struct {
	url   string
	chain atomic.Pointer[bitcoinsim.Chain] // nil while the node is down
	other atomic.Bool                      // the node is on another network
	asked atomic.Int64
	ahead atomic.Int64
	fork  atomic.Int64 // the height at which its blocks begin to differ, or 0
}

func newSecondNode(t *testing.T) *secondNode {
	n := &secondNode{}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	n.url = server.URL
	return n
}

func (n *secondNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.asked.Add(1)
	source := n.chain.Load()
	var ask struct {
		Method string
		Params []json.Number
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || source == nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	var result any
	height, hash, err := source.Tip(r.Context())
	switch {
	case err != nil:
	case ask.Method == "getblockcount":
		result = height + n.ahead.Load()
	case ask.Method == "getblockhash":
		var at int64
		if at, err = ask.Params[0].Int64(); err != nil {
			break
		}
		if at <= height {
			hash, err = source.BlockHash(r.Context(), at)
		}
		if fork := n.fork.Load(); fork > 0 && at >= fork || at > height || n.other.Load() {
			hash = strings.Repeat("f0", 32)
		}
		result = hash
	default:
		err = errors.New("a witness is asked for nothing else here: " + ask.Method)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"result": result})
}

// alarm waits until an alarm of the Bitcoin chain is raised or cleared.
func (d *apiClient) alarm(a chain.Alarm, raised bool) {
	d.Helper()
	want := `stipend_chain_alarm{alarm="` + string(a) + `",chain="bitcoin"} 0`
	if raised {
		want = want[:len(want)-1] + "1"
	}
	eventually(d.T, 30*time.Second, want, func() bool { return strings.Contains(d.metrics(), want) })
}

// figure returns the value of a metric of the Bitcoin chain.
func (d *apiClient) figure(name string) (n float64) {
	d.Helper()
	_, after, _ := strings.Cut(d.metrics(), "\n"+name+`{chain="bitcoin"} `)
	value, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		d.Fatalf("%s: %v", name, err)
	}
	return n
}

// A witness that is down or on another network stops nothing. A witness that is ahead stops new prices. While a
// witness has different blocks, the service credits nothing and gives no new price. The service resumes on its own
// when the nodes agree. The metrics and the operations page show the problem.
func TestASecondNode(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		second := newSecondNode(t)
		o := openCompanyBrowser(t, url, func(c *app.Config) {
			c.BitcoinWitness, c.TipLimit = []string{second.url},
				90*time.Minute
		})
		d, watching := o.d, employ(t, o.s, "Grace")
		watching.signIn(t)
		priced := func(status int) {
			t.Helper()
			eventually(t, 30*time.Second, "a new payroll gets the status "+strconv.Itoa(status), func() bool {
				return d.do("POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key",
					freshKey()).status == status
			})
		}
		says := func(what string) {
			t.Helper()
			o.says(watching.Get("/operations"), "bitcoin: "+what)
		}

		d.alarm(chain.WitnessSilent, true)
		says("a second node isn’t responding")
		made := d.payTwo("250.00")
		d.deposit(made.PayrollID, "exact", "")
		d.fulfilled(made.PayrollID)

		second.other.Store(true)
		second.chain.Store(o.s.Bitcoin())
		before := second.asked.Load()
		eventually(t, 30*time.Second, "the service asks the second node",
			func() bool { return second.asked.Load() >= before+3 })
		d.alarm(chain.WitnessSilent, true)
		d.alarm(chain.Contradicted, false)
		priced(http.StatusOK)
		second.other.Store(false)
		d.alarm(chain.WitnessSilent, false)
		second.ahead.Store(chain.MaxDivergence)
		d.alarm(chain.Behind, false)
		priced(http.StatusOK)
		second.ahead.Store(chain.MaxDivergence + 5) // our chain may get a block before the service asks the node again
		d.alarm(chain.Behind, true)
		says("a second node is ahead")
		priced(http.StatusServiceUnavailable)
		d.refused(503, "retry_later", "POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID), "Idempotency-Key",
			freshKey())
		height, watched := d.figure("stipend_chain_height"), d.figure("stipend_chain_watched_seconds")
		d.advance(31 * time.Minute)
		eventually(t, 30*time.Second, "the service sees two blocks",
			func() bool { return d.figure("stipend_chain_height") >= height+2 })
		if now := d.figure("stipend_chain_watched_seconds"); now != watched {
			t.Errorf("while the chain is behind, the watched time grew by %f seconds, so quotes would expire", now-watched)
		}
		second.ahead.Store(0)
		d.alarm(chain.Behind, false)
		priced(http.StatusOK)

		made = d.payTwo("250.00")
		second.fork.Store(int64(d.figure("stipend_chain_height")))
		d.alarm(chain.Contradicted, true)
		d.deposit(made.PayrollID, "exact", "")
		testkit.Check(t, o.s.Bitcoin().Mine(t.Context(), 10))
		second.chain.Store(nil) // a node that contradicted ours and then goes down still counts as contradicting
		d.alarm(chain.WitnessSilent, true)
		priced(http.StatusServiceUnavailable)
		d.alarm(chain.Contradicted, true)
		if v := d.payroll(made.PayrollID); v.Status != "pending" {
			t.Errorf("a payroll is paid by blocks that the second node doesn't have: %+v", v)
		}
		second.fork.Store(0)
		second.chain.Store(o.s.Bitcoin())
		d.alarm(chain.Contradicted, false)
		d.fulfilled(made.PayrollID)
		priced(http.StatusOK)

		// The chain gets no block for an hour and a half.
		resume := o.s.Miner().Pause()
		unlock := sync.OnceFunc(resume)
		defer unlock()
		d.advance(91 * time.Minute)
		d.alarm(chain.TipStale, true)
		priced(http.StatusOK)
		unlock()
		d.alarm(chain.TipStale, false)
		d.checkLedgerBalances()
	})
}

// Each EVM network has the witness that is configured for it. The witness's name in the log contains no secret.
func TestWitnessesOfNetworks(t *testing.T) {
	c := defaults(t)
	c.EVMRPC = map[string]string{"ethereum": "http://127.0.0.1:1", "base": "http://127.0.0.1:2"}
	c.EVMWitness = map[string]string{"base": "https://user:password@node.example/v3/key"}
	testkit.Check(t, c.Check())
	all, err := c.Complete().OpenEVM(nil)
	testkit.Check(t, err)
	for _, a := range all {
		if base := a.Network.Name == "base"; len(a.Witnesses) > 0 != base || base && a.Witnesses[0].Name != "node.example" {
			t.Errorf("%s has the witnesses %+v", a.Network.Name, a.Witnesses)
		}
	}
}
