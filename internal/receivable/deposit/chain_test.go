package deposit

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
)

// TestWithAWatchedChain sends real transactions on the simulated chain through the watcher and its jobs.
func TestWithAWatchedChain(t *testing.T) {
	for name, play := range map[string]func(s *chainFixture){
		"paid": func(s *chainFixture) {
			txid := s.pay(2_020_000)
			s.want(txid, Seen, true)
			s.do(s.chain.Mine(s.t.Context(), 1))
			s.want(txid, Seen, true) // 1,010 USD need two confirmations
			s.do(s.chain.Mine(s.t.Context(), 1))
			s.want(txid, Confirmed, true)
		},
		"fee raised after the quote's end": func(s *chainFixture) {
			old := s.pay(2_020_000)
			s.want(old, Seen, true)
			s.clock.Advance(2 * validity)
			txid, err := s.chain.Replace(s.t.Context(), old, chain.Output{Address: s.address, Amount: 2_020_000})
			s.do(err)
			s.want(txid, Seen, true)
			s.want(old, Replaced, true)
			s.do(s.chain.Mine(s.t.Context(), 2))
			s.want(txid, Confirmed, true)
		},
		"taken back by the payer": func(s *chainFixture) {
			txid := s.pay(2_020_000)
			s.want(txid, Seen, true)
			_, err := s.chain.Replace(s.t.Context(), txid)
			s.do(err)
			s.want(txid, Replaced, true)
		},
		"evicted": func(s *chainFixture) {
			txid := s.pay(2_020_000)
			s.want(txid, Seen, true)
			s.do(s.chain.Evict(s.t.Context(), txid))
			s.want(txid, Evicted, true)
		},
		"late": func(s *chainFixture) {
			s.clock.Advance(validity)
			txid := s.pay(2_020_000)
			s.do(s.chain.Mine(s.t.Context(), 2))
			s.want(txid, Confirmed, false)
		},
		"reorganised and mined again": func(s *chainFixture) {
			txid := s.pay(2_020_000)
			s.do(s.chain.Mine(s.t.Context(), 3))
			s.want(txid, Confirmed, true)
			s.do(s.chain.Reorg(s.t.Context(), 3))
			s.want(txid, Reverted, true)
			s.do(s.chain.Mine(s.t.Context(), 2))
			s.want(txid, Confirmed, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, h *fixture) {
				s := newChainFixture(t, h)
				play(s)
			})
		})
	}
}

// chainFixture is a fixture whose chain is watched.
type chainFixture struct {
	*fixture
	chain   *bitcoinsim.Chain
	watcher *chain.Watcher
	jobs    *job.Runner
	address string
}

func newChainFixture(t *testing.T, h *fixture) *chainFixture {
	t.Helper()
	s := &chainFixture{fixture: h, chain: bitcoinsim.New(h.d)}
	h.exec("DELETE FROM chain_cursors WHERE chain = $1", network) // the watcher creates its own
	log := slog.New(slog.DiscardHandler)
	s.watcher = chain.NewWatcher(h.d, network, s.chain, 1, log)
	s.jobs = job.NewRunner(h.d, job.Table{chain.JobOutput: {Batch: OutputsChanged}}, nil, log)
	xprv, err := bitcoin.MasterFromSeed(make([]byte, 32), "regtest")
	s.do(err)
	signer, err := bitcoin.ParseXPriv(xprv, "regtest")
	s.do(err)
	pool := chain.NewPool(h.d, network, signer.Deriver())
	s.do(pool.Start(t.Context()))
	s.settle()
	s.do(h.d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		s.address, err = pool.NewAddress(ctx, tx, company, "prl_1")
		return err
	}))
	s.do(s.chain.Mine(t.Context(), 1))
	s.settle()
	return s
}

func (s *chainFixture) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *chainFixture) pay(sats int64) string {
	s.t.Helper()
	txid, err := s.chain.Pay(s.t.Context(), s.address, sats)
	s.do(err)
	return txid
}

// settle runs the watcher and its jobs.
func (s *chainFixture) settle() {
	s.t.Helper()
	s.do(s.watcher.Sync(s.t.Context()))
	s.do(s.jobs.Drain(s.t.Context()))
}

func (s *chainFixture) want(txid string, state State, timely bool) {
	s.t.Helper()
	s.settle()
	d := s.one(txid, 0)
	if d.State != state || d.OnTime != timely || d.Amount != money.New(money.BTC, 2_020_000) {
		s.t.Errorf("after %s: %s, timely %v, %s; want %s, %v", s.clock.Now().Sub(dbtest.Epoch).Round(time.Second),
			d.State, d.OnTime, d.Amount, state, timely)
	}
	s.checkLedger()
}
