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
	d       *db.DB
	name    string
	chains  []string
	keys    Deriver
	keysAre func() (string, error) // see keysName
	refill  chan struct{}
	// followed is set once the chain is known to have a watcher's cursor; it never loses it again.
	followed atomic.Bool

	mu   sync.Mutex
	free [2][]indexRange

	// made are external addresses whose keys were worked out before anybody asked: that takes longer than all else of giving one
	// out, and transactions that share a commit run one after another.
	made chan made
	more chan struct{}
}

type made struct {
	address string
	index   int64
}

// madeAhead is how many they are at most.
const madeAhead = 64

type indexRange struct{ next, end int64 }

// NewPool makes a pool of the chain's addresses. It works at once; Start makes it fast. With chains named, the pool is theirs
// together, and name is that of the wallet only.
func NewPool(d *db.DB, name string, keys Deriver, chains ...string) *Pool {
	if len(chains) == 0 {
		chains = []string{name}
	}
	return &Pool{d: d, name: name, chains: chains, keys: keys, keysAre: sync.OnceValues(func() (string, error) { return keysName(keys) }), refill: make(chan struct{}, 1),
		made: make(chan made, madeAhead), more: make(chan struct{}, 1),
	}
}

// Start takes the first ranges, and more whenever they run low, until ctx ends.
func (p *Pool) Start(ctx context.Context) error {
	if err := p.fill(ctx); err != nil {
		return err
	}
	go p.makeAhead(ctx)
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

// makeAhead keeps addresses ready once the first was asked for, until ctx ends.
func (p *Pool) makeAhead(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.more:
		}
		for ctx.Err() == nil && len(p.made) < madeAhead {
			index, ok := p.next(External)
			if !ok {
				break // whoever takes the next one asks again
			}
			addr, err := p.derive(External, index)
			if err != nil {
				continue // this index has no key, or there is none left, which Take tells
			}
			p.made <- made{addr, index}
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
		if p.left(branch) >= rangeSize/2 {
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
	keys, err := p.keysAre()
	if err != nil {
		return 0, err
	}
	return reserveIndexes(ctx, tx, p.name, keys, branch, n)
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
	if branch == External {
		wake(p.more)
		select {
		case m := <-p.made:
			p.give(tx, address{m.address, companyID, objectID, int64(branch), m.index})
			return m.address, nil
		default:
		}
	}
	// One index in 2^127 has no key; the next one does.
	var last error
	for range 3 {
		index, ok := p.next(branch)
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
		p.give(tx, address{addr, companyID, objectID, int64(branch), index})
		return addr, nil
	}
	return "", last
}

func (p *Pool) give(tx *db.Tx, a address) {
	for _, name := range p.chains {
		insertAddress(tx, name, a)
	}
}

// wake tells whoever listens, unless it was told already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
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

// next is an index of those that were taken ahead, if there is one.
func (p *Pool) next(branch uint32) (index int64, ok bool) {
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
		wake(p.refill)
	}
	return index, ok
}
