package app

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// simulatedEvery is how often a simulated network of accounts is looked at.
const simulatedEvery = 250 * time.Millisecond

// follower watches one chain.
type follower struct {
	chain   string
	watcher *chain.Watcher
	every   time.Duration
	noted   time.Time // up to which instant the chain is known to have been seen
}

// startWatcher follows the chains and, where they are simulated, finds their blocks. The first look is taken before anything is
// served, where the node answers: until there was one, no address is given out.
func (s *Service) startWatcher(ctx, background context.Context, keys chain.Deriver) error {
	w := chain.NewWatcher(s.watching, BitcoinChain, s.source, 1, s.log)
	if err := w.CacheAddresses(keys, chain.AddressCacheThreshold); err != nil {
		return err
	}
	w.SetWitnesses(s.witnesses, s.cfg.TipLimit)
	all := []*follower{{chain: BitcoinChain, watcher: w, every: s.cfg.PollInterval}}
	for _, a := range s.evms {
		f := &follower{chain: a.Network.Name, watcher: chain.NewWatcher(s.watching, a.Network.Name, a.Node, a.Network.BlocksPerConfirmation, s.log), every: s.cfg.PollInterval}
		f.watcher.SetWitnesses(a.Witnesses, s.cfg.TipLimit)
		if a.Sim != nil {
			f.every = simulatedEvery
			s.work.Go(func() { s.miner.Run(background, a.Network.Name, a.Sim.Settle) }) // where somebody waits for a block
		}
		all = append(all, f)
	}
	for _, f := range all {
		_, err := f.watcher.Step(ctx)
		s.trouble(ctx, "the chain "+f.chain+" cannot be watched", err)
		s.work.Go(func() { s.watch(background, f) })
	}
	if s.sim != nil {
		s.work.Go(func() {
			s.miner.Run(background, BitcoinChain, func(ctx context.Context) error { return s.sim.Mine(ctx, 1) })
		})
	}
	if s.lightning != nil {
		s.work.Go(func() { s.watchLightning(background) })
	}
	return nil
}

// watch steps the watcher while this process holds the lease. Two watchers would do no harm, only double work.
func (s *Service) watch(ctx context.Context, f *follower) {
	var leased time.Time
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		pause.Reset(f.every)
		if time.Since(leased) > leaseFor/3 {
			held, err := job.Lease(ctx, s.watching, "watcher."+f.chain, s.holder, leaseFor)
			if err != nil || !held {
				s.trouble(ctx, "the watcher's lease", err)
				continue
			}
			leased = time.Now()
		}
		if err := s.look(ctx, f); err != nil {
			if errors.Is(err, chain.ErrTooDeep) {
				s.fail(err)
				return
			}
			s.trouble(ctx, "the chain "+f.chain+" cannot be watched", err)
		}
	}
}

// look steps to the tip, at most for a while, and notes the instant up to which everything was seen.
func (s *Service) look(ctx context.Context, f *follower) error {
	began := time.Now()
	for time.Since(began) < leaseFor/3 {
		seen, err := s.watching.Now(ctx)
		if err != nil {
			return err
		}
		progressed, err := f.watcher.Step(ctx)
		if errors.Is(err, chain.ErrNodesDisagree) {
			return nil // an alarm tells of it
		}
		if err != nil {
			return err
		}
		if !progressed {
			return s.noteWatched(ctx, f, seen)
		}
	}
	return nil
}

// noteWatched writes the instant down, not more often than quotes expire. What a node that is behind has not shown was not seen: no quote
// ends by it.
func (s *Service) noteWatched(ctx context.Context, f *follower, seen time.Time) error {
	if seen.Sub(f.noted) < 2*time.Second || f.watcher.WitnessAhead() {
		return nil
	}
	err := s.watching.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if all, err := chain.LoadHealth(ctx, tx); err != nil || all[f.chain].Unreliable() {
			return err
		}
		return db.SetSetting(ctx, tx, settingWatched(f.chain), strconv.FormatInt(db.Micros(seen), 10))
	})
	if err == nil {
		f.noted = seen
	}
	return err
}

// settingWatched is up to which instant a chain has been looked at, in microseconds.
func settingWatched(chain string) string { return "chain.watched." + chain }

// watchedUntil is that instant. Before the first look it is the beginning of time: no quote expires unseen.
func watchedUntil(chain string) func(ctx context.Context, tx *db.Tx) (time.Time, error) {
	return func(ctx context.Context, tx *db.Tx) (time.Time, error) {
		text, err := db.Setting(ctx, tx, settingWatched(chain))
		if err != nil || text == "" {
			return time.Time{}, err
		}
		n, err := strconv.ParseInt(text, 10, 64)
		return db.Time(n), err
	}
}

// errBlind refuses a price that nobody could see being paid.
var errBlind = apierr.New(apierr.Unavailable, "retry_later", "The blockchain is not being watched at the moment, so no price can be held. Try again in some minutes.")

// checkWatched is checkChain for Bitcoin's.
func (s *Service) checkWatched(ctx context.Context, tx *db.Tx) error {
	return s.checkChain(ctx, tx, BitcoinChain)
}

// checkChain refuses while a chain has gone unwatched for too long, or its nodes disagree. Its answer may be a few seconds old.
func (s *Service) checkChain(ctx context.Context, tx *db.Tx, name string) error {
	if err := s.checkStanding(ctx, tx, name); err != nil {
		return err
	}
	limit := s.cfg.BlindLimit
	last, _ := s.watched.Load(name)
	if seen, _ := last.(time.Time); limit <= 0 || tx.Now().Sub(seen) < limit/2 {
		return nil
	}
	at, err := watchedUntil(name)(ctx, tx)
	if err != nil {
		return err
	}
	if tx.Now().Sub(at) > limit {
		return errBlind
	}
	s.watched.Store(name, at)
	return nil
}
