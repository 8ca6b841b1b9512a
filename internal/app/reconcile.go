package app

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
)

const (
	// reconcileEvery is how often a worker compares.
	reconcileEvery = time.Hour
	// reconcileAgain and reconcileTries are for what differs because work is under way: a block came, and its jobs have not run.
	reconcileAgain = 5 * time.Second
	reconcileTries = 3
)

// ErrDifferences is a comparison that found differences.
var ErrDifferences = errors.New("the books and the world differ")

// Reconcile compares until nothing differs, or what does has stayed.
func Reconcile(ctx context.Context, d *db.DB, w backoffice.World) (r backoffice.Report, err error) {
	for range reconcileTries {
		if r, err = backoffice.Reconcile(ctx, d, w); err != nil || r.Clean() {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(reconcileAgain):
		}
	}
	return r, nil
}

// reconcileNow compares, where the node can be asked for coins.
func (s *Service) reconcileNow(ctx context.Context) error {
	node, ok := s.source.(chain.UTXOSource)
	if !ok {
		return nil
	}
	w := backoffice.World{Chain: BitcoinChain, Node: node}
	for _, a := range s.evms {
		w.Accounts = append(w.Accounts, a.Node)
	}
	if s.lightning != nil {
		w.Channels = s.lightning.Client
	}
	var err error
	if w.Banks, err = s.cfg.OperatorBankAccounts(); err != nil {
		return err
	}
	r, err := Reconcile(ctx, s.db, w)
	if err != nil {
		return err
	}
	return s.judge(ctx, r)
}

// judge tells the log of what differs, and pauses payouts where a coin that we count on is not there, or the books
// contradict themselves: what would be paid with cannot be trusted then.
func (s *Service) judge(ctx context.Context, r backoffice.Report) error {
	stop := ""
	for _, d := range r.Differences {
		s.log.ErrorContext(ctx, "the books and the world differ", "kind", d.Kind, "object", d.Object, "books", d.Books, "world", d.World)
		if d.Kind == backoffice.CoinMissing || d.Kind == backoffice.BooksWrong {
			stop = "reconciliation " + r.ID + " found " + d.Kind + " " + d.Object
		}
	}
	if stop == "" {
		return nil
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if why, err := payout.Paused(ctx, tx); err != nil || why != "" {
			return err
		}
		return errors.Join(payout.SetPaused(ctx, tx, stop), backoffice.AtTheMachine(ctx, tx, "payouts.pause", r.ID, stop))
	})
}
