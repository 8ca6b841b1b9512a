package bank

import (
	"context"

	"github.com/stipend/stipend/internal/payout/payouttest"
)

// The following declarations export internals to external tests.
const IncompleteTimeout = incompleteTimeout

var (
	Claim              = claim
	ChecksumOf         = checksum
	IncompleteChecksum = incompleteChecksum
)

// Config returns the rail's configuration, which a test may change.
func (r *Rail) Config() *Config { return &r.c }

// broken is a drop whose connection fails.
type broken struct {
	files
	connection payouttest.Connection
}

func (b *broken) do(ctx context.Context, fn func(dir) error) error {
	return b.connection.Send(func() error { return b.files.do(ctx, fn) })
}

// Break returns a function that sets the state of a drop's connection.
func Break(d *Drop) func(payouttest.Connection) {
	b := &broken{files: d.files}
	d.files = b
	return func(c payouttest.Connection) { b.connection = c }
}
