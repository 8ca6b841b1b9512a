package dbtest

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/db"
)

// Interleave runs two transactions on a PostgreSQL database as two concurrent processes would: second begins after
// first has run its statements, and first commits once second has ended or waits for a lock. It returns the errors of
// both.
func Interleave(t *testing.T, url string, first, second func(context.Context, *db.Tx) error) (err1, err2 error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	one, two, observer := Open(t, db.Options{URL: url}), Open(t, db.Options{URL: url}), Open(t, db.Options{URL: url})
	ran, commit, done1, done2 := make(chan error, 1), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		done1 <- one.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			err := first(ctx, tx)
			select {
			case ran <- err:
			default: // the write function runs again on a retry
			}
			<-commit
			return err
		})
	}()
	if err := <-ran; err != nil {
		close(commit)
		return <-done1, nil
	}
	go func() { done2 <- two.Write(ctx, second) }()
	for waiting := false; len(done2) == 0 && !waiting && t.Context().Err() == nil; {
		if err := observer.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)").Scan(&waiting)
		}); err != nil {
			t.Error(err)
			break
		}
	}
	close(commit)
	return <-done1, <-done2
}
