package chain

import (
	"context"
	"hash/maphash"
	"math"
	"slices"

	"github.com/stipend/stipend/internal/db"
)

// RememberFrom is the number of addresses from which on a service's watcher is better off to remember them: among fewer the database finds
// those of a block as fast.
const AddressCacheThreshold = 5_000

const (
	cacheRowsPerLoad = 20_000 // rows of addresses
	cacheKeysPerLoad = 500    // addresses: about 25 ms, and hardly any for those that the pool has just derived
)

// addressCache is what a watcher remembers of the addresses of its chain: enough to say of most that they are not among them, without the
// database. A block pays thousands of others, whom it would look for in vain among all that were ever given out.
//
// It never says so of an address that was given out. An address has an index, which its pool reserved no later than it gave the address
// out, and a reservation says whose key it is for. So while no index is reserved beyond those remembered, and none for another key,
// there is no other address: the transaction that asks looks at that. Remembered are the addresses of all indexes below upTo, given out
// or not: read from the rows where there is one, and derived where there was none yet.
type addressCache struct {
	keys      Deriver
	keyID     string // of the key, see keysName
	threshold int64
	seed      maphash.Seed
	hashes    map[uint64]struct{} // hashes of addresses; what merely has the hash of one is looked for in vain

	lastRow  string      // the last row that was read
	loaded   bool        // to the end, once
	indexes  [2][]uint64 // the indexes of each branch that rows were read of, a bit for each
	cachedTo [2]int64    // of each branch
}

// poolState is how far the indexes of a wallet's branches are reserved, and for which key.
type poolState struct {
	next   [2]int64
	keyIDs [2]string
}

// CacheAddresses has the watcher of a chain whose pool is its own, and takes its addresses from these keys, remember the addresses once there
// are as many as from. It does so a little at each look at the mempool.
func (w *Watcher) CacheAddresses(keys Deriver, from int64) error {
	name, err := keyID(keys)
	if err == nil {
		w.addresses = &addressCache{keys: keys, keyID: name, threshold: from, seed: maphash.MakeSeed(), hashes: map[uint64]struct{}{}}
	}
	return err
}

// keyID tells keys apart: it is the first address that has a key.
func keyID(keys Deriver) (name string, err error) {
	for i := range uint32(3) {
		if name, err = keys.Address(External, i); err == nil {
			return name, nil
		}
	}
	return "", err
}

func (o *addressCache) add(address string) { o.hashes[maphash.String(o.seed, address)] = struct{}{} }

// split are the addresses that may be ours, and those that are not as long as [wallet.complete].
func (o *addressCache) split(addresses []string) (maybe, others []string) {
	if o == nil || !o.loaded {
		return addresses, nil
	}
	for _, a := range addresses {
		if _, ok := o.hashes[maphash.String(o.seed, a)]; ok {
			maybe = append(maybe, a)
		} else {
			others = append(others, a)
		}
	}
	return maybe, others
}

// complete says that no address can have been given out that is not remembered.
func (o *addressCache) complete(r poolState) bool {
	return o.sameKey(r) && r.next[External] <= o.cachedTo[External] && r.next[Change] <= o.cachedTo[Change]
}

// sameKey says that all indexes were reserved for the key of the wallet.
func (o *addressCache) sameKey(r poolState) bool {
	return !slices.ContainsFunc([]uint32{External, Change}, func(b uint32) bool { return r.next[b] > 0 && r.keyIDs[b] != o.keyID })
}

// load remembers some more addresses.
func (o *addressCache) load(ctx context.Context, d *db.DB, chain string) error {
	var r poolState
	var rows []address
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		r, rows = poolState{}, nil
		if err = tx.Batch(ctx, []db.Statement{poolQuery(chain, &r)}); err == nil && !o.loaded && o.sameKey(r) && r.next[External] >= o.threshold {
			rows, err = addressPage(ctx, tx, chain, o.lastRow, cacheRowsPerLoad)
		}
		return err
	})
	if err != nil || !o.sameKey(r) || r.next[External] < o.threshold {
		return err
	}
	if !o.loaded {
		for _, a := range rows {
			o.add(a.address)
			o.mark(a.branch, a.index)
			o.lastRow = a.address
		}
		o.loaded = len(rows) < cacheRowsPerLoad
		return nil
	}
	left := cacheKeysPerLoad
	for branch := range o.cachedTo {
		for ; o.cachedTo[branch] < min(r.next[branch], math.MaxInt32) && left > 0; o.cachedTo[branch]++ {
			if o.marked(branch, o.cachedTo[branch]) {
				continue
			}
			left--
			if a, err := o.keys.Address(uint32(branch), uint32(o.cachedTo[branch])); err == nil { // else nobody gets one of this index
				o.add(a)
			}
		}
		if o.cachedTo[branch] == r.next[branch] {
			o.indexes[branch] = nil // all of them lie below
		}
	}
	return nil
}

func (o *addressCache) mark(branch, index int64) {
	word := int(index / 64)
	if n := word + 1 - len(o.indexes[branch]); n > 0 {
		o.indexes[branch] = append(o.indexes[branch], make([]uint64, n)...)
	}
	o.indexes[branch][word] |= 1 << (index % 64)
}

func (o *addressCache) marked(branch int, index int64) bool {
	word := int(index / 64)
	return word < len(o.indexes[branch]) && o.indexes[branch][word]>>(index%64)&1 == 1
}
