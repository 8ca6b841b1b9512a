package app

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

const (
	// clockEvery is how often the clock is compared with the database server's.
	clockEvery = 10 * time.Second
	// maxSkew is by how much they may differ before no price is given: whether one has ended depends on who is asked.
	maxSkew = time.Second
)

// errSkewed refuses a price whose end nobody could tell.
var errSkewed = apierr.New(apierr.Unavailable, "retry_later", "The service's clocks disagree, so no price can be held. Try again in some minutes.")

// followClock compares this process's clock with the database server's, and reports jumps of it.
func (s *Service) followClock(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		skew, err := s.db.Skew(ctx)
		s.trouble(ctx, "the database server's clock cannot be read", err)
		if err == nil {
			s.noteSkew(skew)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// The difference of two instants follows the clock that never jumps; without its reading it follows the other.
		if jump := now.Round(0).Sub(last.Round(0)) - now.Sub(last); jump.Abs() > maxSkew {
			s.log.Error("the clock jumped", "seconds", jump.Seconds())
		}
		last = now
	}
}

func (s *Service) noteSkew(skew time.Duration) {
	was := s.metrics.skew.Swap(int64(skew))
	if skew.Abs() > maxSkew {
		s.log.Error("the clock disagrees with the database server's; no price is given", "database_ahead_seconds", skew.Seconds())
	} else if time.Duration(was).Abs() > maxSkew {
		s.log.Info("the clocks agree again")
	}
}

// checkQuotable refuses while a price could not be held: the clocks disagree, or the chain goes unwatched.
func (s *Service) checkQuotable(ctx context.Context, tx *db.Tx, network string) error {
	if time.Duration(s.metrics.skew.Load()).Abs() > maxSkew {
		return errSkewed
	}
	return s.checkChain(ctx, tx, s.chainOf(network))
}
