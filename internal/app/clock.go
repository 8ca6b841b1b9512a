package app

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

const (
	// clockEvery is the interval at which the clock is compared with the database server's.
	clockEvery = 10 * time.Second
	// maxSkew is the difference between the clocks above which no quotes are given, because processes would disagree on
	// when a quote expires.
	maxSkew = time.Second
)

var errSkewed = apierr.New(apierr.Unavailable, "retry_later",
	"The service's clocks disagree, so no price can be held. Try again in some minutes.")

// followClock compares this process's clock with that of the database server, and logs jumps of this process's clock.
// It also stops the process if a newer version has migrated the database to a schema that this version cannot use.
func (s *Service) followClock(ctx context.Context) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		skew, err := s.db.Skew(ctx)
		s.warn(ctx, "the database server's clock cannot be read", err)
		if err == nil {
			s.setSkew(skew)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		// now.Sub(last) uses the monotonic clock. Without the monotonic readings, Sub uses the wall clock.
		if jump := now.Round(0).Sub(last.Round(0)) - now.Sub(last); jump.Abs() > maxSkew {
			s.log.Error("the clock jumped", "seconds", jump.Seconds())
		}
		last = now
		if err := s.db.CheckRequired(ctx); errors.Is(err, db.ErrNewer) {
			s.fail(err)
		}
	}
}

func (s *Service) setSkew(skew time.Duration) {
	was := s.metrics.skew.Swap(int64(skew))
	if skew.Abs() > maxSkew {
		s.log.Error("the clock disagrees with the database server's; no quote is given",
			"database_ahead_seconds", skew.Seconds())
	} else if time.Duration(was).Abs() > maxSkew {
		s.log.Info("the clock agrees with the database server's again")
	}
}

// checkQuotable returns an error if no quote can be given on a network: the clocks disagree, the network's chain is
// not watched, or it was not watched up to a given time.
func (s *Service) checkQuotable(ctx context.Context, tx *db.Tx, network string, until time.Time) error {
	if time.Duration(s.metrics.skew.Load()).Abs() > maxSkew {
		return errSkewed
	}
	return s.monitor.Check(ctx, tx, s.chainOf(network), until)
}

// checkWatched returns an error if a network's chain is not watched, or was not watched up to a given time.
func (s *Service) checkWatched(ctx context.Context, tx *db.Tx, network string, until time.Time) error {
	return s.monitor.Check(ctx, tx, s.chainOf(network), until)
}
