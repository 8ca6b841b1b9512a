package roster

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Row is what a list needs to know of a recipient. Name and Email are in the form in which they are searched and sorted.
type Row struct {
	ID, Name, Email             string
	Role, Type, Status, Country string
	Login                       bool  // a worker with a login
	Created                     int64 // microseconds
}

// Order is by what a list is sorted. Equal rows stand in the order of their ids, so every order is total.
type Order int

// The orders.
const (
	ByCreated Order = iota
	ByName
	ByEmail
	orders
)

func compare(by Order, a, b *Row) int {
	var c int
	switch by {
	case ByName:
		c = strings.Compare(a.Name, b.Name)
	case ByEmail:
		c = strings.Compare(a.Email, b.Email)
	default:
		c = cmp.Compare(a.Created, b.Created)
	}
	if c == 0 {
		c = strings.Compare(a.ID, b.ID)
	}
	return c
}

// Query asks for a stretch of a sorted, filtered list. Empty filters do not filter.
type Query struct {
	Search                      string // a part of Name or Email, in their form
	Role, Type, Status, Country string
	Login                       bool // workers with a login only
	By                          Order
	Descending                  bool
	Offset, Limit               int
}

func (q *Query) matches(r *Row) bool {
	return (q.Role == "" || q.Role == r.Role) && (q.Type == "" || q.Type == r.Type) && (q.Status == "" || q.Status == r.Status) &&
		(q.Country == "" || q.Country == r.Country) && (!q.Login || r.Login) &&
		(q.Search == "" || strings.Contains(r.Name, q.Search) || strings.Contains(r.Email, q.Search))
}

// base is many rows, packed: per row some 70 bytes and its texts, in arrays that the garbage collector need not walk. A row
// is known by its slot; slots are in the order of ids. A base never changes.
type base struct {
	n       int
	ids     texts
	names   texts // name, gap, email of each row
	mid     []uint16
	created []int64
	attrs   []uint32
	kinds   map[string]uint32 // country → its number in attrs
	order   [orders][]uint32  // rank → slot
	rank    [orders][]uint32  // slot → rank
	words   *words

	mu     sync.Mutex
	known  map[string]bitmap // what was found before, by needle or filter
	recent []string          // keys of known, the oldest first
}

// gap stands between name and email, so that no needle spans both: no name, email or search has it.
const gap = "\x00"

// texts are many strings in one.
type texts struct {
	all string
	end []uint64
}

func (t *texts) at(i uint32) string {
	start := uint64(0)
	if i > 0 {
		start = t.end[i-1]
	}
	return t.all[start:t.end[i]]
}

type packer struct {
	b   strings.Builder
	end []uint64
}

func (p *packer) add(parts ...string) {
	for _, s := range parts {
		p.b.WriteString(s)
	}
	p.end = append(p.end, uint64(p.b.Len()))
}

func (p *packer) texts() texts { return texts{p.b.String(), p.end} }

// The fields of attrs. A field holds the place of its value in the list, plus one.
var fields = []struct {
	shift  uint32
	values []string
	of     func(*Row) string
	wanted func(*Query) string
}{
	{0, []string{"contractor", "employee", "vendor"}, func(r *Row) string { return r.Role }, func(q *Query) string { return q.Role }},
	{2, []string{"user", "company"}, func(r *Row) string { return r.Type }, func(q *Query) string { return q.Type }},
	{4, []string{"pending", "active", "inactive"}, func(r *Row) string { return r.Status }, func(q *Query) string { return q.Status }},
}

const (
	fieldMask    = 3
	loginBit     = 1 << 6
	countryShift = 8
	countryMask  = 1<<24 - 1
)

// build packs rows. A row that it is given may be used again for the next.
func build(rows iter.Seq[*Row], size int) *base {
	b, sorted := pack(rows, size)
	if !sorted {
		slots := make([]uint32, b.n)
		for i := range slots {
			slots[i] = uint32(i)
		}
		slices.SortFunc(slots, func(x, y uint32) int { return strings.Compare(b.ids.at(x), b.ids.at(y)) })
		countries := b.countries()
		b, _ = pack(func(yield func(*Row) bool) {
			for _, slot := range slots {
				if !yield(b.row(slot, countries)) {
					return
				}
			}
		}, b.n)
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.words = b.index() })
	for by := range orders {
		wg.Go(func() {
			b.order[by] = b.sort(by)
			b.rank[by] = make([]uint32, b.n)
			for rank, slot := range b.order[by] {
				b.rank[by][slot] = uint32(rank)
			}
		})
	}
	wg.Wait()
	return b
}

// pack fills the arrays, and says whether the rows came in the order of their ids.
func pack(rows iter.Seq[*Row], size int) (b *base, sorted bool) {
	sorted = true
	last := ""
	b = &base{
		mid: make([]uint16, 0, size), created: make([]int64, 0, size), attrs: make([]uint32, 0, size),
		kinds: map[string]uint32{}, known: map[string]bitmap{},
	}
	ids, names := packer{end: make([]uint64, 0, size)}, packer{end: make([]uint64, 0, size)}
	for r := range rows {
		sorted = sorted && last < r.ID
		last = r.ID
		ids.add(r.ID)
		names.add(r.Name, gap, r.Email)
		b.mid = append(b.mid, uint16(len(r.Name)))
		b.created = append(b.created, r.Created)
		b.attrs = append(b.attrs, b.attributes(r))
		b.n++
	}
	b.ids, b.names = ids.texts(), names.texts()
	return b, sorted
}

func (b *base) attributes(r *Row) (a uint32) {
	for _, f := range fields {
		a |= uint32(slices.Index(f.values, f.of(r))+1) << f.shift
	}
	if r.Login {
		a |= loginBit
	}
	number, ok := b.kinds[r.Country]
	if !ok {
		number = uint32(len(b.kinds))
		b.kinds[r.Country] = number
	}
	return a | number<<countryShift
}

// row unpacks a slot.
func (b *base) row(slot uint32, countries []string) *Row {
	a := b.attrs[slot]
	value := func(i int) string {
		if place := a >> fields[i].shift & fieldMask; place > 0 {
			return fields[i].values[place-1]
		}
		return ""
	}
	return &Row{
		ID: b.ids.at(slot), Name: b.name(slot), Email: b.email(slot), Role: value(0), Type: value(1), Status: value(2),
		Country: countries[a>>countryShift], Login: a&loginBit != 0, Created: b.created[slot],
	}
}

// countries are the names of the numbers in attrs.
func (b *base) countries() []string {
	names := make([]string, len(b.kinds))
	for name, number := range b.kinds {
		names[number] = name
	}
	return names
}

func (b *base) name(slot uint32) string  { return b.names.at(slot)[:b.mid[slot]] }
func (b *base) email(slot uint32) string { return b.names.at(slot)[int(b.mid[slot])+len(gap):] }

// sort orders the slots. Most comparisons are decided by the first eight bytes, which stand beside the slot.
func (b *base) sort(by Order) []uint32 {
	type item struct {
		head uint64
		slot uint32
	}
	items := make([]item, b.n)
	for i := range items {
		slot := uint32(i)
		items[i] = item{b.head(by, slot), slot}
	}
	slices.SortFunc(items, func(x, y item) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		c := 0
		switch by {
		case ByName:
			c = strings.Compare(b.name(x.slot), b.name(y.slot))
		case ByEmail:
			c = strings.Compare(b.email(x.slot), b.email(y.slot))
		}
		return cmp.Or(c, cmp.Compare(x.slot, y.slot))
	})
	sorted := make([]uint32, b.n)
	for i := range items {
		sorted[i] = items[i].slot
	}
	return sorted
}

func (b *base) head(by Order, slot uint32) uint64 {
	var text string
	switch by {
	case ByName:
		text = b.name(slot)
	case ByEmail:
		text = b.email(slot)
	default:
		return uint64(b.created[slot])
	}
	var h uint64
	for i := range 8 {
		h <<= 8
		if i < len(text) {
			h |= uint64(text[i])
		}
	}
	return h
}

// slot finds a row by its id.
func (b *base) slot(id string) (uint32, bool) {
	lo, hi := 0, b.n
	for lo < hi {
		mid := (lo + hi) / 2
		if b.ids.at(uint32(mid)) < id {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	slot := uint32(lo)
	return slot, lo < b.n && b.ids.at(slot) == id
}

// before counts the rows that stand before r in an order.
func (b *base) before(by Order, r *Row) int {
	at, _ := slices.BinarySearchFunc(b.order[by], r, func(slot uint32, r *Row) int {
		var c int
		switch by {
		case ByName:
			c = strings.Compare(b.name(slot), r.Name)
		case ByEmail:
			c = strings.Compare(b.email(slot), r.Email)
		default:
			c = cmp.Compare(b.created[slot], r.Created)
		}
		return cmp.Or(c, strings.Compare(b.ids.at(slot), r.ID))
	})
	return at
}

// bitmap is a set of slots, or of ranks in an order.
type bitmap []uint64

func (m bitmap) has(i uint32) bool { return m[i>>6]>>(i&63)&1 == 1 }
func (m bitmap) add(i uint32)      { m[i>>6] |= 1 << (i & 63) }
func (m bitmap) drop(i uint32)     { m[i>>6] &^= 1 << (i & 63) }

// count is how many are in from ≤ i < to.
func (m bitmap) count(from, to int) (n int) {
	for from < to {
		word := m[from>>6] >> (from & 63)
		if left := 64 - from&63; to-from >= left {
			n += bits.OnesCount64(word)
			from += left
			continue
		}
		return n + bits.OnesCount64(word&(1<<(to-from)-1))
	}
	return n
}

// each yields the members in from ≤ i < to, without the first skip.
func (m bitmap) each(from, to, skip int, yield func(int) bool) {
	for at := from; at < to; at = at&^63 + 64 {
		word := m[at>>6] &^ (1<<(at&63) - 1)
		if n := bits.OnesCount64(word); n <= skip {
			skip -= n // also when some of them are past the end: then there is nothing to yield
			continue
		}
		for ; word != 0; word &= word - 1 {
			i := at&^63 + bits.TrailingZeros64(word)
			if i >= to {
				return
			}
			if skip > 0 {
				skip--
			} else if !yield(i) {
				return
			}
		}
	}
}

// matching is the set of ranks, in the order of a query, of the rows that it finds. The caller may change it.
func (b *base) matching(q *Query) bitmap {
	filter, all := q.filter()
	ranked := b.remember(ranked+strconv.Itoa(int(q.By))+" "+filter+" "+q.Search, func() bitmap {
		switch {
		case all && q.Search == "":
			return b.inOrder(q.By, b.everybody())
		case all:
			return b.inOrder(q.By, b.hits(q.Search))
		}
		found := b.remember(filtered+filter, func() bitmap { return b.filter(q) })
		if q.Search != "" {
			found = slices.Clone(found)
			for i, hits := range b.hits(q.Search) {
				found[i] &= hits
			}
		}
		return b.inOrder(q.By, found)
	})
	return slices.Clone(ranked)
}

// everybody is the set of all slots.
func (b *base) everybody() bitmap {
	all := make(bitmap, (b.n+63)/64)
	for i := range all {
		all[i] = ^uint64(0)
	}
	if tail := b.n & 63; tail > 0 {
		all[len(all)-1] = 1<<tail - 1
	}
	return all
}

// inOrder turns slots into ranks.
func (b *base) inOrder(by Order, slots bitmap) bitmap {
	ranks := make(bitmap, len(slots))
	slots.each(0, b.n, 0, func(slot int) bool {
		ranks.add(b.rank[by][slot])
		return true
	})
	return ranks
}

// filter names what a query filters by, and says whether that is everybody.
func (q *Query) filter() (name string, all bool) {
	name = strings.Join([]string{q.Role, q.Type, q.Status, q.Country}, "/")
	if q.Login {
		name += "/login"
	}
	return name, name == "///"
}

// What a base remembers is known under a kind and what was asked.
const (
	ranked   = "ranks "
	filtered = "filter "
	searched = "search "
)

// remembered is how many sets a base keeps. One of a million rows takes 125 kB.
const remembered = 128

// remember keeps what was found, since people go through pages and type letter by letter.
func (b *base) remember(key string, find func() bitmap) bitmap {
	b.mu.Lock()
	found, ok := b.known[key]
	b.mu.Unlock()
	if ok {
		return found
	}
	found = find()
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.known[key]; !ok {
		if len(b.recent) == remembered {
			delete(b.known, b.recent[0])
			b.recent = b.recent[1:]
		}
		b.known[key] = found
		b.recent = append(b.recent, key)
	}
	return found
}

// filter finds the rows with the wanted attributes.
func (b *base) filter(q *Query) bitmap {
	var mask, want uint32
	found := make(bitmap, (b.n+63)/64)
	for _, f := range fields {
		if value := f.wanted(q); value != "" {
			place := slices.Index(f.values, value) + 1
			if place == 0 {
				return found
			}
			mask |= fieldMask << f.shift
			want |= uint32(place) << f.shift
		}
	}
	if q.Login {
		mask |= loginBit
		want |= loginBit
	}
	if q.Country != "" {
		number, ok := b.kinds[q.Country]
		if !ok {
			return found
		}
		mask |= countryMask << countryShift
		want |= number << countryShift
	}
	for i, a := range b.attrs {
		if a&mask == want {
			found.add(uint32(i))
		}
	}
	return found
}

// hits are the slots whose name or email has the needle.
func (b *base) hits(needle string) bitmap {
	return b.remember(searched+needle, func() bitmap { return b.search(needle) })
}

// view is all rows at one version: a base, and what has changed since. A view never changes.
type view struct {
	version int64
	base    *base
	dead    []uint32 // slots of the base that were changed, sorted
	changed []*Row   // as they are now, by id
	placed  [orders][]placed
}

// placed is a changed row in an order, with the number of rows of the base before it.
type placed struct {
	row    *Row
	before int
}

func (v *view) size() int { return v.base.n - len(v.dead) + len(v.changed) }

// apply is the view with newer rows, which are known by their ids. Each id occurs once.
func (v *view) apply(version int64, rows []*Row) *view {
	w := &view{version: version, base: v.base}
	rows = slices.SortedFunc(slices.Values(rows), func(a, b *Row) int { return strings.Compare(a.ID, b.ID) })
	newer := make(map[string]bool, len(rows))
	w.dead = slices.Clone(v.dead)
	for _, r := range rows {
		newer[r.ID] = true
		if slot, ok := v.base.slot(r.ID); ok {
			w.dead = append(w.dead, slot)
		}
	}
	slices.Sort(w.dead)
	w.dead = slices.Compact(w.dead)
	w.changed = merge(v.changed, rows, func(r *Row) bool { return newer[r.ID] }, func(a, b *Row) int { return strings.Compare(a.ID, b.ID) })
	for by := range orders {
		added := make([]placed, len(rows))
		for i, r := range rows {
			added[i] = placed{r, v.base.before(by, r)}
		}
		inOrder := func(a, b placed) int { return compare(by, a.row, b.row) }
		slices.SortFunc(added, inOrder)
		w.placed[by] = merge(v.placed[by], added, func(p placed) bool { return newer[p.row.ID] }, inOrder)
	}
	return w
}

// merge joins two sorted lists, without those of the first that are gone.
func merge[T any](a, b []T, gone func(T) bool, compare func(T, T) int) []T {
	all := make([]T, 0, len(a)+len(b))
	for _, x := range a {
		if gone(x) {
			continue
		}
		for len(b) > 0 && compare(b[0], x) < 0 {
			all = append(all, b[0])
			b = b[1:]
		}
		all = append(all, x)
	}
	return append(all, b...)
}

// compact is the same view without changes beside its base.
func (v *view) compact() *view {
	return &view{version: v.version, base: build(v.rows, v.size())}
}

// rows yields all rows by id.
func (v *view) rows(yield func(*Row) bool) {
	countries := v.base.countries()
	changed, dead := v.changed, v.dead
	for i := range v.base.n {
		slot := uint32(i)
		id := v.base.ids.at(slot)
		for len(changed) > 0 && changed[0].ID < id {
			if !yield(changed[0]) {
				return
			}
			changed = changed[1:]
		}
		if len(dead) > 0 && dead[0] == slot {
			dead = dead[1:]
			continue
		}
		if !yield(v.base.row(slot, countries)) {
			return
		}
	}
	for _, r := range changed {
		if !yield(r) {
			return
		}
	}
}

// find answers a query: how many rows match, and the ids of the wanted stretch.
func (v *view) find(q Query) (ids []string, total int) {
	b := v.base
	found := b.matching(&q)
	for _, slot := range v.dead {
		found.drop(b.rank[q.By][slot])
	}
	var extra []placed
	for _, p := range v.placed[q.By] {
		if q.matches(p.row) {
			extra = append(extra, p)
		}
	}
	total = found.count(0, b.n) + len(extra)
	limit := min(q.Limit, total-q.Offset)
	if q.Offset < 0 || limit <= 0 {
		return nil, total
	}
	skip := q.Offset
	if q.Descending {
		skip = total - q.Offset - limit
	}
	// The ranks of the base, and before some of them a row that was changed since.
	ids = make([]string, 0, limit)
	for from := 0; len(ids) < limit; {
		to := b.n
		if len(extra) > 0 {
			to = extra[0].before
		}
		if n := found.count(from, to); n <= skip {
			skip -= n
		} else {
			found.each(from, to, skip, func(rank int) bool {
				ids = append(ids, b.ids.at(b.order[q.By][rank]))
				return len(ids) < limit
			})
			skip = 0
		}
		from = to
		if len(extra) == 0 || len(ids) == limit {
			break
		}
		if skip > 0 {
			skip--
		} else {
			ids = append(ids, extra[0].row.ID)
		}
		extra = extra[1:]
	}
	if q.Descending {
		slices.Reverse(ids)
	}
	return ids, total
}
