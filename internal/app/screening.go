package app

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/screening"
)

// listsEvery is how often a worker looks whether the files of the sanctions lists have changed.
const listsEvery = 30 * time.Second

// startScreening loads the lists, without which a worker does not start, and reloads those that change.
func (s *Service) startScreening(ctx, background context.Context, lists *screening.Screener) error {
	if _, err := lists.Load(); err != nil {
		return err
	}
	if err := s.noteLists(ctx, lists); err != nil {
		return err
	}
	if len(s.cfg.SanctionsList) > 0 {
		s.work.Go(func() { s.followLists(background, lists) })
	}
	return nil
}

// maxListAge is when a list is too old. The sandbox's clock jumps, so there it never is.
func (c Config) maxListAge() time.Duration {
	if c.Env == Sandbox {
		return 0
	}
	return c.SanctionsMaxAge
}

func (s *Service) followLists(ctx context.Context, lists *screening.Screener) {
	tick := time.NewTicker(listsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := lists.Load()
		s.trouble(ctx, "a sanctions list cannot be read; the one before stays in use", err)
		if changed {
			s.trouble(ctx, "the sanctions lists could not be noted", s.noteLists(ctx, lists))
		}
		if err := lists.Current(time.Now()); err != nil {
			s.log.Error("nothing is released before there is a current sanctions list", "error", err)
		}
	}
}

func (s *Service) noteLists(ctx context.Context, lists *screening.Screener) error {
	for _, l := range lists.Status() {
		s.log.Info("sanctions list", "list", l.Name, "published", l.Published.Format(time.DateOnly), "entries", l.Entries, "addresses", l.Addresses)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return screening.SetInUse(ctx, tx, lists.Status()) })
}
