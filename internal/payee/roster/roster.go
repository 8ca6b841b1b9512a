// Package roster answers the lists of a company's recipients: which match, how many they are, and in which order, for a
// million of them as fast as for ten.
//
// A database cannot count and sort a million rows by any filter, and by any part of a name, within milliseconds. So each
// process keeps what lists ask for in memory, packed (some 130 bytes per recipient), and looks there. The database stays the
// truth: every commit that changes recipients raises the version of its company's roster, as its last act, and notes which
// they were ([Changed]). A reader compares the version in its own snapshot with what the memory holds and takes over what
// changed in between, so an answer is exactly that of its snapshot, whichever process wrote.
//
// What is in memory never changes: taking over makes a new view beside the old ones, so readers of several snapshots do
// not meet. Many changes are folded into a new base in the background.
//
// The package owns the tables recipient_rosters and recipient_changes, and reads recipients.
package roster

import (
	"context"
	"slices"
	"sync"

	"github.com/stipend/stipend/internal/db"
)

const (
	// maxRows bounds what a process keeps, over all companies; who was not asked about for longest goes. One company alone
	// may be larger.
	maxRows = 4_000_000
	// views is how many versions of a roster stay at hand, for readers of older snapshots.
	views = 16
	// fold is how many changes a view carries before they are folded into its base; of a large base, 1 in foldPart.
	fold     = 1024
	foldPart = 64
)

// Find answers a query about a company, as the transaction's snapshot has it: how many rows match, and the ids of the wanted
// stretch in their order. The caller has asked whose company it is. In a transaction that may write, it sees what is
// committed or flushed.
func Find(ctx context.Context, tx *db.Tx, companyID string, q Query) (ids []string, total int, err error) {
	v, err := at(ctx, tx, companyID)
	if err != nil {
		return nil, 0, err
	}
	ids, total = v.find(q)
	return ids, total, nil
}

// Changed notes that a recipient was made, or that something changed by which lists filter, search or sort. It belongs into
// the transaction of every such statement.
func Changed(tx *db.Tx, companyID, recipientID string) {
	tx.Defer(changes, [2]string{companyID, recipientID})
}

// Warm reads the rosters of all companies with many recipients, so that the first request need not. It is for the start of
// a process.
func Warm(ctx context.Context, d *db.DB) error {
	var companies []string
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		companies, err = largest(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, company := range companies {
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			_, err := at(ctx, tx, company)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// rosters are what a process keeps of one database.
type rosters struct {
	mu    sync.Mutex
	all   map[string]*kept
	clock int64 // counts uses
}

// kept is what a process keeps of one company.
type kept struct {
	used int64 // under the lock of rosters
	rows int   // under the lock of rosters

	mu      sync.Mutex
	views   []*view // by rising version
	folding bool
}

func (s *rosters) of(companyID string) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.all[companyID]
	if k == nil {
		k = &kept{}
		s.all[companyID] = k
	}
	s.clock++
	k.used = s.clock
	return k
}

// weigh notes the size of a roster and lets go of others until all is within bounds.
func (s *rosters) weigh(k *kept, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.rows = rows
	for {
		sum, oldest := 0, ""
		for company, other := range s.all {
			sum += other.rows
			if other != k && (oldest == "" || other.used < s.all[oldest].used) {
				oldest = company
			}
		}
		if sum <= maxRows || oldest == "" {
			return
		}
		delete(s.all, oldest)
	}
}

type memoKey struct{}

// at is the view of the transaction's snapshot.
func at(ctx context.Context, tx *db.Tx, companyID string) (*view, error) {
	version, floor, err := current(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	if !tx.ReadOnly() { // what it sees may never be committed
		return load(ctx, tx, companyID, version)
	}
	s := tx.Memo(memoKey{}, func() any { return &rosters{all: map[string]*kept{}} }).(*rosters)
	k := s.of(companyID)
	k.mu.Lock()
	defer k.mu.Unlock()
	next := len(k.views)
	for next > 0 && k.views[next-1].version > version {
		next--
	}
	switch {
	case next > 0 && k.views[next-1].version == version:
		return k.views[next-1], nil
	case next == 0 && len(k.views) > 0: // a snapshot from before what is kept
		return load(ctx, tx, companyID, version)
	}
	var v *view
	if next > 0 && k.views[next-1].version >= floor {
		old := k.views[next-1]
		changed, err := changedSince(ctx, tx, companyID, old.version)
		if err != nil {
			return nil, err
		}
		rows, err := read(ctx, tx, companyID, changed)
		if err != nil {
			return nil, err
		}
		v = old.apply(version, rows)
	} else if v, err = load(ctx, tx, companyID, version); err != nil {
		return nil, err
	}
	k.views = slices.Insert(k.views, next, v)
	if len(k.views) > views {
		k.views = slices.Delete(k.views, 0, len(k.views)-views)
	}
	s.weigh(k, v.size())
	k.fold()
	return v, nil
}

// fold makes a base of the newest view, in the background, once it carries many changes. Changes that come meanwhile are
// applied to what it makes.
func (k *kept) fold() {
	v := k.views[len(k.views)-1]
	if k.folding || len(v.changed) < max(fold, v.base.n/foldPart) {
		return
	}
	k.folding = true
	go func() {
		folded := v.compact()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.folding = false
		inBase := make(map[*Row]bool, len(v.changed))
		for _, r := range v.changed {
			inBase[r] = true
		}
		fresh := []*view{folded}
		for _, w := range k.views {
			if w.version > v.version {
				newer := slices.DeleteFunc(slices.Clone(w.changed), func(r *Row) bool { return inBase[r] })
				fresh = append(fresh, folded.apply(w.version, newer))
			}
		}
		k.views = fresh
	}()
}
