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
	keyID  func() (string, error) // see keysName
	refill chan struct{}
	// watched is set once the chain is known to have a watcher's cursor; it never loses it again.
	watched atomic.Bool

	mu   sync.Mutex
	free [2][]indexRange

	// derived are external addresses whose keys were worked out before anybody asked: that takes longer than all else of giving one
	// out, and transactions that share a commit run one after another.
	derived    chan derivedAddress
	deriveMore chan struct{}
}

type derivedAddress struct {
	address string
	index   int64
}

// madeAhead is how many they are at most.
const derivedAhead = 64

type indexRange struct{ next, end int64 }

// NewPool makes a pool of the chain's addresses. It works at once; Start makes it fast. With chains named, the pool is theirs
// together, and name is that of the wallet only.
func NewPool(d *db.DB, name string, keys Deriver, chains ...string) *Pool {
	if len(chains) == 0 {
		chains = []string{name}
	}
	return &Pool{d: d, name: name, chains: chains, keys: keys, keyID: sync.OnceValues(func() (string, error) { return keyID(keys) }), refill: make(chan struct{}, 1),
		derived: make(chan derivedAddress, derivedAhead), deriveMore: make(chan struct{}, 1),
	}
}

// Start takes the first ranges, and more whenever they run low, until ctx ends.
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

// deriveAhead keeps addresses ready once the first was asked for, until ctx ends.
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
				break // whoever takes the next one asks again
			}
			addr, err := p.derive(External, index)
			if err != nil {
				continue // this index has no key, or there is none left, which Take tells
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

// NewAddress gives an object a new address to be paid at. It is watched for ever from the commit on. Before the chain's watcher has
// taken its first look it answers ErrNotFollowed.
func (p *Pool) NewAddress(ctx context.Context, tx *db.Tx, companyID, objectID string) (string, error) {
	return p.newAddress(ctx, tx, External, companyID, objectID)
}

// NewChangeAddress is Take for the change of our own transaction.
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
	// One index in 2^127 has no key; the next one does.
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

// signal tells whoever listens, unless it was told already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// checkWatched refuses while the chain has no cursor: a new watcher begins at the tip of its first look, so it would miss
// what is paid in a block before that.
func (p *Pool) checkWatched(ctx context.Context, tx *db.Tx) error {
	if p.watched.Load() {
		return nil
	}
	for _, name := range p.chains {
		_, _, ok, err := loadCursor(ctx, tx, name)
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

// nextIndex is an index of those that were taken ahead, if there is one.
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
