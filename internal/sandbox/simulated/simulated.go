// Package simulated stores simulated chains in the database. It contains the parts that packages bitcoinsim and
// evmsim share.
package simulated

import (
	"context"
	"strconv"
	"sync"

	"github.com/stipend/stipend/internal/db"
)

// Store is a simulated chain in a database. All Stores of the same chain in a database are the same chain.
type Store struct {
	DB *db.DB
	// Begin creates the chain unless it exists.
	Begin func(ctx context.Context, tx *db.Tx) error
	// FeeSetting is the name of the setting that contains the chain's fee rate. FeeRate is the rate until the setting is
	// set.
	FeeSetting string
	FeeRate    int64

	mu    sync.Mutex // serializes changes in this process
	begun bool
}

// Write runs a function that changes the chain. It creates the chain first if necessary.
func (s *Store) Write(ctx context.Context, fn func(context.Context, *db.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := s.Begin(ctx, tx); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
	s.begun = s.begun || err == nil
	return err
}

// Read runs a function that reads the chain and returns its result. It creates the chain first if necessary.
func Read[T any](ctx context.Context, s *Store, fn func(context.Context, *db.Tx) (T, error)) (v T, err error) {
	s.mu.Lock()
	begun := s.begun
	s.mu.Unlock()
	if !begun {
		if err := s.Write(ctx, func(context.Context, *db.Tx) error { return nil }); err != nil {
			return v, err
		}
	}
	err = s.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		v, err = fn(ctx, tx)
		return err
	})
	return v, err
}

// Fee returns the fee rate of the chain.
func (s *Store) Fee(ctx context.Context, tx *db.Tx) (int64, error) {
	text, err := db.Setting(ctx, tx, s.FeeSetting)
	if err != nil || text == "" {
		return s.FeeRate, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// SetFee sets the fee rate of the chain and returns the previous one.
func (s *Store) SetFee(ctx context.Context, rate int64) (before int64, err error) {
	err = s.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if before, err = s.Fee(ctx, tx); err != nil {
			return err
		}
		return db.SetSetting(ctx, tx, s.FeeSetting, strconv.FormatInt(rate, 10))
	})
	return before, err
}
