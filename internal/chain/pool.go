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

// Deriver makes the address at an index of a branch. An error means that this index has none.
type Deriver interface {
	Address(branch, index uint32) (string, error)
}

// rangeSize is how many indexes a pool takes at once, and half of it when it fetches more. A stop of the program leaves the
// rest of a range unused: a wallet restored from its key must look past gaps of this size.
const rangeSize = 200

// Pool gives out the addresses of a wallet, each to one object and never again. Between processes that share the database an
// index goes to one of them only.
//
// Ranges of indexes are taken ahead, outside the transactions that need an address, so that requests do not queue for one
// row. An index whose transaction is undone stays unused.
//
// One wallet may serve several chains whose addresses are alike. Then an address belongs to its object on all of them: what is
// paid there is that object's, whichever of the chains the payer chose.
type Pool struct {
	d      *db.DB
	name   string
	chains []string
	keys   Deriver
	refill chan struct{}
	// followed is set once the chain is known to have a watcher's cursor; it never loses it again.
	followed atomic.Bool

	mu   sync.Mutex
	free [2][]indexRange
}

type indexRange struct{ next, end int64 }

// NewPool makes a pool of the chain's addresses. It works at once; Start makes it fast. With chains named, the pool is theirs
// together, and name is that of the wallet only.
func NewPool(d *db.DB, name string, keys Deriver, chains ...string) *Pool {
	if len(chains) == 0 {
		chains = []string{name}
	}
	return &Pool{d: d, name: name, chains: chains, keys: keys, refill: make(chan struct{}, 1)}
}

// Start takes the first ranges, and more whenever they run low, until ctx ends.
func (p *Pool) Start(ctx context.Context) error {
	if err := p.fill(ctx); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.refill:
			}
			// A failure is not lost: Take takes single indexes meanwhile, and asks again.
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

func (p *Pool) fill(ctx context.Context) error {
	for _, branch := range []uint32{External, Change} {
		if p.left(branch) >= rangeSize/2 {
			continue
		}
		var first int64
		err := p.d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			first, err = reserveIndexes(ctx, tx, p.name, branch, rangeSize)
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

func (p *Pool) left(branch uint32) (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.free[branch] {
		n += r.end - r.next
	}
	return n
}

// Take gives an object a new address to be paid at. It is watched for ever from the commit on. Before the chain's watcher has
// taken its first look it answers ErrNotFollowed.
func (p *Pool) Take(ctx context.Context, tx *db.Tx, companyID, objectID string) (string, error) {
	return p.take(ctx, tx, External, companyID, objectID)
}

// TakeChange is Take for the change of our own transaction.
func (p *Pool) TakeChange(ctx context.Context, tx *db.Tx, companyID, objectID string) (string, error) {
	return p.take(ctx, tx, Change, companyID, objectID)
}

func (p *Pool) take(ctx context.Context, tx *db.Tx, branch uint32, companyID, objectID string) (string, error) {
	if err := p.checkFollowed(ctx, tx); err != nil {
		return "", err
	}
	// One index in 2^127 has no key; the next one does.
	var last error
	for range 3 {
		index, err := p.index(ctx, tx, branch)
		if err != nil {
			return "", err
		}
		if index > math.MaxInt32 {
			return "", fmt.Errorf("chain %s: branch %d has no addresses left", p.name, branch)
		}
		addr, err := p.keys.Address(branch, uint32(index))
		if err != nil {
			last = err
			continue
		}
		for _, name := range p.chains {
			insertAddress(tx, name, address{addr, companyID, objectID, int64(branch), index})
		}
		return addr, nil
	}
	return "", last
}

// Ours says that an address was given out by the wallet.
func Ours(ctx context.Context, tx *db.Tx, chainName, address string) (bool, error) {
	found, err := addressesOf(ctx, tx, chainName, []string{address})
	return len(found) > 0, err
}

// checkFollowed refuses while the chain has no cursor: a new watcher begins at the tip of its first look, so it would miss
// what is paid in a block before that.
func (p *Pool) checkFollowed(ctx context.Context, tx *db.Tx) error {
	if p.followed.Load() {
		return nil
	}
	for _, name := range p.chains {
		_, _, ok, err := loadCursor(ctx, tx, name)
		if err != nil {
			return err
		}
		if !ok {
			return ErrNotFollowed
		}
	}
	p.followed.Store(true)
	return nil
}

func (p *Pool) index(ctx context.Context, tx *db.Tx, branch uint32) (int64, error) {
	p.mu.Lock()
	left := int64(0)
	index := int64(-1)
	ranges := p.free[branch]
	for len(ranges) > 0 && ranges[0].next == ranges[0].end {
		ranges = ranges[1:]
	}
	if len(ranges) > 0 {
		index = ranges[0].next
		ranges[0].next++
	}
	for _, r := range ranges {
		left += r.end - r.next
	}
	p.free[branch] = ranges
	p.mu.Unlock()
	if left < rangeSize/2 {
		select {
		case p.refill <- struct{}{}:
		default:
		}
	}
	if index >= 0 {
		return index, nil
	}
	return reserveIndexes(ctx, tx, p.name, branch, 1)
}
