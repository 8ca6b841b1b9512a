package chain

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/db"
)

// Deriver derives the address at an index of a branch. An error means that the index has no address.
type Deriver interface {
	Address(branch, index uint32) (string, error)
}

// rangeSize is the number of indexes that a pool reserves at once. When the program stops, the rest of a range
// remains unused; a wallet that is restored from its key must search across gaps of this size.
const rangeSize = 200

// Pool assigns the addresses of a wallet, each to one object and never again, also if several processes share the
// database.
//
// It reserves ranges of indexes in advance, outside the transactions that need an address, so that requests do not
// contend for one row. An index remains unused if its transaction is rolled back.
//
// One wallet may serve several chains with the same address format. Then an address is assigned to the same object on
// all of them.
type Pool struct {
	d      *db.DB
	name   string
	chains []string
	keys   Deriver
	keyID  func() (string, error) // returns the ID of keys, see the function keyID
	refill chan struct{}
	// watched is set once all chains have a cursor; a cursor is never deleted.
	watched atomic.Bool

	mu   sync.Mutex
	free [2][]indexRange

	// derived holds external addresses that are derived in advance. Derivation takes longer than the rest of an
	// assignment, and it would delay the other transactions of a group commit.
	derived    chan derivedAddress
	deriveMore chan struct{}
}

type derivedAddress struct {
	address string
	index   int64
}

// derivedAhead is the maximum number of addresses that are derived in advance.
const derivedAhead = 64

type indexRange struct{ next, end int64 }

// NewPool returns a pool of a chain's addresses. It works at once, and faster after Start. If chains are given, they
// share the pool, and name is only the name of the wallet.
func NewPool(d *db.DB, name string, keys Deriver, chains ...string) *Pool {
	if len(chains) == 0 {
		chains = []string{name}
	}
	return &Pool{
		d: d, name: name, chains: chains, keys: keys, keyID: sync.OnceValues(func() (string, error) { return keyID(keys) }),
		refill:  make(chan struct{}, 1),
		derived: make(chan derivedAddress, derivedAhead), deriveMore: make(chan struct{}, 1),
	}
}

// Start reserves the first ranges, and further ones whenever few indexes are left, until ctx is canceled.
func (p *Pool) Start(ctx context.Context) error {
	if err := p.fill(ctx); err != nil {
		return err
	}
	go p.deriveAhead(ctx)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.refill:
			}
			// If fill fails, newAddress reserves one index at a time and signals refill again.
			if p.fill(ctx) != nil {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}()
	return nil
}

// deriveAhead derives addresses in advance once the first one was assigned, until ctx is canceled.
func (p *Pool) deriveAhead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.deriveMore:
		}
		for ctx.Err() == nil && len(p.derived) < derivedAhead {
			index, ok := p.nextIndex(External)
			if !ok {
				break // the next assignment signals again
			}
			addr, err := p.derive(External, index)
			if err != nil {
				continue // the index has no address, or none is left, which newAddress reports
			}
			p.derived <- derivedAddress{addr, index}
		}
	}
}

func (p *Pool) derive(branch uint32, index int64) (string, error) {
	if index > math.MaxInt32 {
		return "", fmt.Errorf("chain %s: branch %d has no addresses left", p.name, branch)
	}
	return p.keys.Address(branch, uint32(index))
}

func (p *Pool) fill(ctx context.Context) error {
	for _, branch := range []uint32{External, Change} {
		if p.unused(branch) >= rangeSize/2 {
			continue
		}
		var first int64
		err := p.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			first, err = p.reserve(ctx, tx, branch, rangeSize)
			return err
		})
		if err != nil {
			return fmt.Errorf("chain %s: reserve addresses: %w", p.name, err)
		}
		p.mu.Lock()
		p.free[branch] = append(p.free[branch], indexRange{first, first + rangeSize})
		p.mu.Unlock()
	}
	return nil
}

func (p *Pool) reserve(ctx context.Context, tx *db.Tx, branch uint32, n int64) (first int64, err error) {
	keys, err := p.keyID()
	if err != nil {
		return 0, err
	}
	return reserveIndexes(ctx, tx, p.name, keys, branch, n)
}

func (p *Pool) unused(branch uint32) (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.free[branch] {
		n += r.end - r.next
	}
	return n
}

// NewAddress assigns a new address to an object. The address is watched permanently from the commit on. Before the
// first step of the chain's watcher it returns ErrNotWatched.
func (p *Pool) NewAddress(ctx context.Context, tx *db.Tx, companyID, objectID string) (string, error) {
	return p.newAddress(ctx, tx, External, companyID, objectID)
}

// NewChangeAddress assigns an address for the change of our own transaction, like NewAddress.
func (p *Pool) NewChangeAddress(ctx context.Context, tx *db.Tx, companyID, objectID string) (string, error) {
	return p.newAddress(ctx, tx, Change, companyID, objectID)
}

func (p *Pool) newAddress(ctx context.Context, tx *db.Tx, branch uint32, companyID, objectID string) (string, error) {
	if err := p.checkWatched(ctx, tx); err != nil {
		return "", err
	}
	if branch == External {
		signal(p.deriveMore)
		select {
		case m := <-p.derived:
			p.assign(tx, address{m.address, companyID, objectID, int64(branch), m.index})
			return m.address, nil
		default:
		}
	}
	// One index in 2^127 has no address; the next one does.
	var last error
	for range 3 {
		index, ok := p.nextIndex(branch)
		if !ok {
			var err error
			if index, err = p.reserve(ctx, tx, branch, 1); err != nil {
				return "", err
			}
		}
		addr, err := p.derive(branch, index)
		if err != nil {
			last = err
			continue
		}
		p.assign(tx, address{addr, companyID, objectID, int64(branch), index})
		return addr, nil
	}
	return "", last
}

func (p *Pool) assign(tx *db.Tx, a address) {
	for _, name := range p.chains {
		insertAddress(tx, name, a)
	}
}

// signal wakes the receiver of c, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// checkWatched returns ErrNotWatched while a chain has no cursor. A new watcher starts at the tip, so a payment in an
// earlier block would be missed.
func (p *Pool) checkWatched(ctx context.Context, tx *db.Tx) error {
	if p.watched.Load() {
		return nil
	}
	for _, name := range p.chains {
		_, ok, err := loadCursor(ctx, tx, name)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotWatched
		}
	}
	p.watched.Store(true)
	return nil
}

// nextIndex returns the next index of the reserved ranges, if any is left.
func (p *Pool) nextIndex(branch uint32) (index int64, ok bool) {
	p.mu.Lock()
	left := int64(0)
	ranges := p.free[branch]
	for len(ranges) > 0 && ranges[0].next == ranges[0].end {
		ranges = ranges[1:]
	}
	if ok = len(ranges) > 0; ok {
		index = ranges[0].next
		ranges[0].next++
	}
	for _, r := range ranges {
		left += r.end - r.next
	}
	p.free[branch] = ranges
	p.mu.Unlock()
	if left < rangeSize/2 {
		signal(p.refill)
	}
	return index, ok
}
