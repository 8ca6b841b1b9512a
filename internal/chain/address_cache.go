package chain

import (
	"context"
	"hash/maphash"
	"math"
	"slices"

	"github.com/stipend/stipend/internal/db"
)

// AddressCacheThreshold is the number of assigned addresses at which a watcher should start to cache them. Below it,
// looking up a block's addresses in the database is as fast.
const AddressCacheThreshold = 5_000

const (
	cacheRowsPerLoad = 20_000
	// deriving 500 new keys takes about 25 ms; addresses that the pool has just derived take almost no time
	cacheKeysPerLoad = 500
)

// addressCache holds hashes of a chain's assigned addresses, so that a watcher can rule out most addresses of a block
// without a database query. It never rules out an assigned address: before an address is assigned, its pool reserves a
// range of indexes, and the reservation names the key. While all reserved indexes are cached and no other key was
// used, every assigned address is cached; a transaction that relies on the cache verifies this with
// [addressCache.complete]. Addresses below cachedTo are cached whether they are assigned or not: assigned ones are
// read from the database, the others are derived.
type addressCache struct {
	keys      Deriver
	keyID     string
	threshold int64
	seed      maphash.Seed
	hashes    map[uint64]struct{}

	lastRow  string      // the last address that was read from the database
	loaded   bool        // all assigned addresses were read once
	indexes  [2][]uint64 // for each branch, a bit per index whose row was read
	cachedTo [2]int64    // for each branch, the number of indexes that are cached completely
}

// poolState holds, per branch, the next index that the chain's pool will reserve, and the key of the reservations.
type poolState struct {
	next   [2]int64
	keyIDs [2]string
}

// CacheAddresses makes the watcher cache the addresses of its chain once there are at least threshold of them. The
// chain must have a pool of its own that derives addresses from keys. The cache is filled in small portions, one at
// each step at the tip.
func (w *Watcher) CacheAddresses(keys Deriver, threshold int64) error {
	id, err := keyID(keys)
	if err == nil {
		w.addresses = &addressCache{keys: keys, keyID: id, threshold: threshold, seed: maphash.MakeSeed(),
			hashes: map[uint64]struct{}{}}
	}
	return err
}

// keyID returns an identifier of the keys: the first external address.
func keyID(keys Deriver) (id string, err error) {
	for i := range uint32(3) { // one index in 2^127 has no key
		if id, err = keys.Address(External, i); err == nil {
			return id, nil
		}
	}
	return "", err
}

func (c *addressCache) add(address string) { c.hashes[maphash.String(c.seed, address)] = struct{}{} }

// split separates the addresses that may belong to the service from those that do not, provided that the cache is
// complete.
func (c *addressCache) split(addresses []string) (maybeOurs, others []string) {
	if c == nil || !c.loaded {
		return addresses, nil
	}
	for _, a := range addresses {
		if _, ok := c.hashes[maphash.String(c.seed, a)]; ok {
			maybeOurs = append(maybeOurs, a)
		} else {
			others = append(others, a)
		}
	}
	return maybeOurs, others
}

// complete reports whether every address that can have been assigned is cached.
func (c *addressCache) complete(p poolState) bool {
	return c.sameKey(p) && p.next[External] <= c.cachedTo[External] && p.next[Change] <= c.cachedTo[Change]
}

// sameKey reports whether every index was reserved for the cache's key.
func (c *addressCache) sameKey(p poolState) bool {
	return !slices.ContainsFunc([]uint32{External, Change}, func(b uint32) bool {
		return p.next[b] > 0 && p.keyIDs[b] != c.keyID
	})
}

// load adds the next portion of addresses: rows until all are read, then derived addresses of reserved indexes.
func (c *addressCache) load(ctx context.Context, d *db.DB, chain string) error {
	var pool poolState
	var rows []address
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		pool, rows = poolState{}, nil
		err = tx.Batch(ctx, []db.Statement{poolQuery(chain, &pool)})
		if err == nil && !c.loaded && c.sameKey(pool) && pool.next[External] >= c.threshold {
			rows, err = addressPage(ctx, tx, chain, c.lastRow, cacheRowsPerLoad)
		}
		return err
	})
	if err != nil || !c.sameKey(pool) || pool.next[External] < c.threshold {
		return err
	}
	if !c.loaded {
		for _, a := range rows {
			c.add(a.address)
			c.mark(a.branch, a.index)
			c.lastRow = a.address
		}
		c.loaded = len(rows) < cacheRowsPerLoad
		return nil
	}
	left := cacheKeysPerLoad
	for branch := range c.cachedTo {
		for ; c.cachedTo[branch] < min(pool.next[branch], math.MaxInt32) && left > 0; c.cachedTo[branch]++ {
			if c.marked(branch, c.cachedTo[branch]) {
				continue
			}
			left--
			// An index without a key has no address that could be assigned.
			if a, err := c.keys.Address(uint32(branch), uint32(c.cachedTo[branch])); err == nil {
				c.add(a)
			}
		}
		if c.cachedTo[branch] == pool.next[branch] {
			c.indexes[branch] = nil // cachedTo now covers every read index
		}
	}
	return nil
}

func (c *addressCache) mark(branch, index int64) {
	word := int(index / 64)
	if n := word + 1 - len(c.indexes[branch]); n > 0 {
		c.indexes[branch] = append(c.indexes[branch], make([]uint64, n)...)
	}
	c.indexes[branch][word] |= 1 << (index % 64)
}

func (c *addressCache) marked(branch int, index int64) bool {
	word := int(index / 64)
	return word < len(c.indexes[branch]) && c.indexes[branch][word]>>(index%64)&1 == 1
}
