package bank

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/payout/payouttest"
)

// What external tests use of the package's inside.
const Unfinished = unfinished

var (
	Claim        = claim
	ChecksumOf   = checksum
	TornChecksum = tornChecksum
)

// Config returns the rail's configuration, to be changed by a test.
func (r *Rail) Config() *Config { return &r.c }

// broken is a server whose connection breaks.
type broken struct {
	files
	connection payouttest.Connection
}

func (b *broken) do(ctx context.Context, fn func(dir) error) error {
	if b.connection == payouttest.LostBefore {
		return errors.New("connection refused")
	}
	err := b.files.do(ctx, fn)
	if b.connection == payouttest.LostAfter {
		return errors.New("connection reset")
	}
	return err
}

// Break returns a function that changes the connection of a drop.
func Break(d *Drop) func(payouttest.Connection) {
	b := &broken{files: d.files}
	d.files = b
	return func(c payouttest.Connection) { b.connection = c }
}
