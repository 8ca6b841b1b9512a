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
const RememberFrom = 5_000

const (
	readAtOnce   = 20_000 // rows of addresses
	deriveAtOnce = 500    // addresses: about 25 ms, and hardly any for those that the pool has just derived
)

// wallet is what a watcher remembers of the addresses of its chain: enough to say of most that they are not among them, without the
// database. A block pays thousands of others, whom it would look for in vain among all that were ever given out.
//
// It never says so of an address that was given out. An address has an index, which its pool reserved no later than it gave the address
// out, and a reservation says whose key it is for. So while no index is reserved beyond those remembered, and none for another key,
// there is no other address: the transaction that asks looks at that. Remembered are the addresses of all indexes below upTo, given out
// or not: read from the rows where there is one, and derived where there was none yet.
type wallet struct {
	keys  Deriver
	name  string // of the key, see keysName
	from  int64
	seed  maphash.Seed
	known map[uint64]struct{} // hashes of addresses; what merely has the hash of one is looked for in vain

	after   string      // the last row that was read
	readAll bool        // to the end, once
	read    [2][]uint64 // the indexes of each branch that rows were read of, a bit for each
	upTo    [2]int64    // of each branch
}

// reserved is how far the indexes of a wallet's branches are reserved, and for which key.
type reserved struct {
	next [2]int64
	keys [2]string
}

// Remember has the watcher of a chain whose pool is its own, and takes its addresses from these keys, remember the addresses once there
// are as many as from. It does so a little at each look at the mempool.
func (w *Watcher) Remember(keys Deriver, from int64) error {
	name, err := keysName(keys)
	if err == nil {
		w.ours = &wallet{keys: keys, name: name, from: from, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}}
	}
	return err
}

// keysName tells keys apart: it is the first address that has a key.
func keysName(keys Deriver) (name string, err error) {
	for i := range uint32(3) {
		if name, err = keys.Address(External, i); err == nil {
			return name, nil
		}
	}
	return "", err
}

func (o *wallet) add(address string) { o.known[maphash.String(o.seed, address)] = struct{}{} }

// parts are the addresses that may be ours, and those that are not as long as [wallet.complete].
func (o *wallet) parts(addresses []string) (maybe, others []string) {
	if o == nil || !o.readAll {
		return addresses, nil
	}
	for _, a := range addresses {
		if _, ok := o.known[maphash.String(o.seed, a)]; ok {
			maybe = append(maybe, a)
		} else {
			others = append(others, a)
		}
	}
	return maybe, others
}

// complete says that no address can have been given out that is not remembered.
func (o *wallet) complete(r reserved) bool {
	return o.of(r) && r.next[External] <= o.upTo[External] && r.next[Change] <= o.upTo[Change]
}

// of says that all indexes were reserved for the key of the wallet.
func (o *wallet) of(r reserved) bool {
	return !slices.ContainsFunc([]uint32{External, Change}, func(b uint32) bool { return r.next[b] > 0 && r.keys[b] != o.name })
}

// learn remembers some more addresses.
func (o *wallet) learn(ctx context.Context, d *db.DB, chain string) error {
	var r reserved
	var rows []address
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		r, rows = reserved{}, nil
		if err = tx.Ask(ctx, []db.Question{askReserved(chain, &r)}); err == nil && !o.readAll && o.of(r) && r.next[External] >= o.from {
			rows, err = addressesAfter(ctx, tx, chain, o.after, readAtOnce)
		}
		return err
	})
	if err != nil || !o.of(r) || r.next[External] < o.from {
		return err
	}
	if !o.readAll {
		for _, a := range rows {
			o.add(a.address)
			o.tick(a.branch, a.index)
			o.after = a.address
		}
		o.readAll = len(rows) < readAtOnce
		return nil
	}
	left := deriveAtOnce
	for branch := range o.upTo {
		for ; o.upTo[branch] < min(r.next[branch], math.MaxInt32) && left > 0; o.upTo[branch]++ {
			if o.ticked(branch, o.upTo[branch]) {
				continue
			}
			left--
			if a, err := o.keys.Address(uint32(branch), uint32(o.upTo[branch])); err == nil { // else nobody gets one of this index
				o.add(a)
			}
		}
		if o.upTo[branch] == r.next[branch] {
			o.read[branch] = nil // all of them lie below
		}
	}
	return nil
}

func (o *wallet) tick(branch, index int64) {
	word := int(index / 64)
	if n := word + 1 - len(o.read[branch]); n > 0 {
		o.read[branch] = append(o.read[branch], make([]uint64, n)...)
	}
	o.read[branch][word] |= 1 << (index % 64)
}

func (o *wallet) ticked(branch int, index int64) bool {
	word := int(index / 64)
	return word < len(o.read[branch]) && o.read[branch][word]>>(index%64)&1 == 1
}
