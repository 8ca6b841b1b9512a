package roster

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// some picks a value, each seldom enough that filters leave something and drop something.
func some(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

func anyRow(r *rand.Rand, id string) *Row {
	first := some(r, "ada", "bob", "zoë", "çelik", "ann-marie", "", "a @ b c")
	last := some(r, "lovelace", "ångström", "o'neil", "100%_\\", "")
	return &Row{
		ID: id, Name: strings.TrimSpace(first + " " + last), Email: some(r, "", fmt.Sprintf("%s%d@example.com", first, r.IntN(50)), "x@y.example", `"a@b"@example.com`, "no address"),
		Role: some(r, "contractor", "employee", "vendor"), Type: some(r, "user", "company"), Status: some(r, "pending", "active", "inactive"),
		Country: some(r, "US", "DE", "BR", "SE"), Login: r.IntN(4) == 0, Created: r.Int64N(40),
	}
}

func anyQuery(r *rand.Rand) Query {
	q := Query{By: Order(r.IntN(int(orders))), Descending: r.IntN(2) == 0, Offset: r.IntN(60), Limit: 1 + r.IntN(30), Login: r.IntN(5) == 0}
	maybe := func(values ...string) string {
		if r.IntN(3) > 0 {
			return ""
		}
		return some(r, values...)
	}
	q.Role, q.Type = maybe("contractor", "employee", "vendor"), maybe("user", "company")
	q.Status, q.Country = maybe("pending", "active", "inactive"), maybe("US", "DE", "FR")
	q.Search = maybe("4", "ada4", "a1", "@example", "@e", "2@", "da2@ex", "x@y", "@y.", "y.e", " ", "o'n", "'", "-m", "e l", "0%", "_", "ç", "ë", "a@b@", "b c@", "@ b", ".com", "ple.c", "a", "da", "ada l", "zoë", "@", "example.com", "%", "ada@", "eada", "nobody")
	return q
}

// plainly answers a query as slowly and as simply as can be.
func plainly(rows map[string]*Row, q Query) (ids []string, total int) {
	var found []*Row
	for _, r := range rows {
		if q.matches(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *Row) int {
		c := map[Order]int{ByName: strings.Compare(a.Name, b.Name), ByEmail: strings.Compare(a.Email, b.Email), ByCreated: cmp.Compare(a.Created, b.Created)}[q.By]
		if c = cmp.Or(c, strings.Compare(a.ID, b.ID)); q.Descending {
			return -c
		}
		return c
	})
	for _, r := range found[min(q.Offset, len(found)):min(q.Offset+q.Limit, len(found))] {
		ids = append(ids, r.ID)
	}
	return ids, len(found)
}

// Whatever changes, in whatever portions, and however often it is folded: a view answers what its rows say.
func TestViewsAnswerTheirRows(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := map[string]*Row{}
		var first []*Row
		for i := range r.IntN(200) {
			id := fmt.Sprintf("rec_%03d", i*2)
			rows[id] = anyRow(r, id)
			first = append(first, rows[id])
		}
		r.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
		v := &view{base: build(slices.Values(first), len(first))}
		for step := range 60 {
			changed := map[string]*Row{}
			for range r.IntN(8) {
				id := fmt.Sprintf("rec_%03d", r.IntN(300))
				changed[id] = anyRow(r, id)
				rows[id] = changed[id]
			}
			var list []*Row
			for _, row := range changed {
				list = append(list, row)
			}
			if v = v.apply(v.version+1, list); r.IntN(10) == 0 {
				v = v.compact()
			}
			for range 20 {
				q := anyQuery(r)
				ids, total := v.find(q)
				wantIDs, wantTotal := plainly(rows, q)
				if total != wantTotal || !slices.Equal(ids, wantIDs) {
					t.Fatalf("seed %d step %d: %+v\ngot  %d %v\nwant %d %v", seed, step, q, total, ids, wantTotal, wantIDs)
				}
			}
		}
	}
}

// The offsets at which the walk turns round, one by one.
func TestEveryOffset(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	rows := map[string]*Row{}
	var first, later []*Row
	for i := range 70 {
		id := fmt.Sprintf("rec_%03d", i)
		rows[id] = anyRow(r, id)
		if i%3 == 0 {
			later = append(later, rows[id])
		} else {
			first = append(first, rows[id])
		}
	}
	v := (&view{base: build(slices.Values(first), 0)}).apply(1, later)
	for by := range orders {
		for _, down := range []bool{false, true} {
			for offset := range 75 {
				q := Query{By: by, Descending: down, Offset: offset, Limit: 7}
				ids, total := v.find(q)
				if want, n := plainly(rows, q); total != n || !slices.Equal(ids, want) {
					t.Fatalf("%+v\ngot  %v\nwant %v", q, ids, want)
				}
			}
		}
	}
}

func million(n int) []*Row {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]*Row, n)
	for i := range rows {
		row := anyRow(r, fmt.Sprintf("rec_%026d", i))
		row.Created = int64(i)
		row.Name = fmt.Sprintf("%s %s%d", some(r, "ada", "grace", "linus", "barbara", "edsger"), some(r, "lovelace", "hopper", "liskov"), r.IntN(n))
		row.Email = fmt.Sprintf("%s.%d@example.com", some(r, "ada", "grace", "linus", "barbara", "edsger"), i)
		rows[i] = row
	}
	return rows
}

func BenchmarkMillion(b *testing.B) {
	rows := million(1_000_000)
	v := &view{base: build(slices.Values(rows), len(rows))}
	b.Run("build", func(b *testing.B) {
		for b.Loop() {
			build(slices.Values(rows), len(rows))
		}
	})
	b.Run("page 40000", func(b *testing.B) {
		for b.Loop() {
			v.find(Query{By: ByName, Offset: 800_000, Limit: 20})
		}
	})
	b.Run("page 20000 of a filter", func(b *testing.B) {
		for b.Loop() {
			v.find(Query{By: ByEmail, Role: "vendor", Offset: 160_000, Limit: 20})
		}
	})
	for _, needle := range []string{"a", "e", "2", "an", "example", ".example.com", "lovelace9", "barbara.77", "ada hop", "nobody", "@"} {
		b.Run("search "+needle, func(b *testing.B) {
			for b.Loop() {
				v.base.search(needle)
			}
		})
	}
}
