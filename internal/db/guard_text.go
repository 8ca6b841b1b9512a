package db

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// restriction lists the conditions on company_id in a statement.
type restriction struct {
	companies []int  // numbers of the placeholders whose argument must be the company
	open      string // the name of a table that is not restricted, or ""
}

var tokens = regexp.MustCompile(`'(?:[^']|'')*'|"[^"]*"|--[^\n]*|\$\d+|[A-Za-z_][A-Za-z_0-9]*|\d+|::|<=|>=|<>|\|\||\S`)

// keywords are the words that may follow the name of a table without being its alias.
var keywords = words("WHERE JOIN LEFT RIGHT FULL INNER OUTER CROSS NATURAL ON SET ORDER GROUP LIMIT OFFSET USING " +
	"VALUES SELECT RETURNING UNION EXCEPT INTERSECT HAVING FOR DO DEFAULT WINDOW LATERAL")

func words(list string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(list) {
		all[w] = true
	}
	return all
}

// statementText determines how a statement restricts its tables by company_id. It does not parse SQL: it finds the
// tables after FROM, JOIN, UPDATE and INTO, and equalities of their company_id columns, as this project writes them.
// A condition that it does not recognize, or that is part of an OR, does not count as a restriction.
type statementText struct {
	words  []string
	frame  []int // for each word, the index of the parentheses that contain it
	block  []int // for each word, the index of the query that contains it
	frames []frame
	blocks []queryBlock
	with   map[string]int // nodes of WITH queries, by name

	parent []int         // union-find over nodes with equal company_id
	bound  map[int][]int // placeholders by node
	alone  map[int][]int // placeholders by node, from conditions of outer joins, which restrict no other table
	nodes  []node
}

// node is a table, or a subquery in place of a table, with its column company_id.
type node struct {
	table    string // "" for a subquery
	inserted bool   // reports whether this is the table after INTO
}

type frame struct {
	up, opened int // indexes of the enclosing frame and of the opening parenthesis
	or         bool
	blocks     []int // indexes of the queries directly in this frame
	inFrom     bool  // a comma separates tables
}

type queryBlock struct {
	up    int
	frame int
	names map[string]int // indexes of nodes by alias
}

func parseRestriction(query string) restriction {
	t := &statementText{with: map[string]int{}, bound: map[int][]int{}, alone: map[int][]int{}}
	for _, w := range tokens.FindAllString(query, -1) {
		if !strings.HasPrefix(w, "--") {
			t.words = append(t.words, w)
		}
	}
	t.sources()
	for i, w := range t.words {
		if w == "company_id" {
			t.column(i)
		}
		if w == "INTO" {
			t.insert(i)
		}
	}
	var r restriction
	roots := map[int][]int{}
	for n, placeholders := range t.bound {
		root := t.root(n)
		roots[root] = append(roots[root], placeholders...)
	}
	for n := range t.nodes {
		if !byCompany()[t.nodes[n].table] {
			continue
		}
		placeholders := append(slices.Clone(t.alone[n]), roots[t.root(n)]...)
		if len(placeholders) == 0 {
			r.open = t.nodes[n].table
			return r
		}
		r.companies = append(r.companies, placeholders...)
	}
	slices.Sort(r.companies)
	r.companies = slices.Compact(r.companies)
	return r
}

func (t *statementText) word(i int) string {
	if i < 0 || i >= len(t.words) {
		return ""
	}
	return t.words[i]
}

func (t *statementText) add(table string) int {
	t.nodes, t.parent = append(t.nodes, node{table: table}), append(t.parent, len(t.parent))
	return len(t.nodes) - 1
}

func (t *statementText) root(n int) int {
	for t.parent[n] != n {
		n = t.parent[n]
	}
	return n
}

func (t *statementText) equal(a, b int) {
	if a >= 0 && b >= 0 {
		t.parent[t.root(a)] = t.root(b)
	}
}

// newBlock begins a query in a frame.
func (t *statementText) newBlock(up, in int) int {
	t.blocks = append(t.blocks, queryBlock{up: up, frame: in, names: map[string]int{}})
	t.frames[in].blocks = append(t.frames[in].blocks, len(t.blocks)-1)
	return len(t.blocks) - 1
}

// sources finds the queries of the statement and their tables.
func (t *statementText) sources() {
	t.frames = []frame{{up: -1, opened: -1}}
	in, block := 0, 0
	t.newBlock(-1, 0)
	type saved struct{ frame, block int }
	var stack []saved
	for i, w := range t.words {
		switch w {
		case "(":
			stack = append(stack, saved{in, block})
			t.frames = append(t.frames, frame{up: in, opened: i})
			in = len(t.frames) - 1
			if next := t.word(i + 1); next == "SELECT" || next == "WITH" {
				block = t.newBlock(block, in)
			}
		case ")":
			t.frame, t.block = append(t.frame, in), append(t.block, block)
			if len(stack) > 0 {
				closed := in
				in, block = stack[len(stack)-1].frame, stack[len(stack)-1].block
				stack = stack[:len(stack)-1]
				t.derived(i, closed, block, in)
			}
			continue
		case "UNION", "EXCEPT", "INTERSECT":
			block = t.newBlock(t.blocks[block].up, in)
			t.frames[in].inFrom = false
		case "OR":
			t.frames[in].or = true
		case "FROM", "JOIN", "UPDATE", "INTO", ",":
			if w == "," && !t.frames[in].inFrom || w == "FROM" && t.word(i-1) == "DISTINCT" && t.word(i-2) == "IS" ||
				w == "UPDATE" && (t.word(i-1) == "FOR" || t.word(i-1) == "DO") {
				break
			}
			t.frames[in].inFrom = w != "UPDATE" && w != "INTO"
			t.source(i+1, block)
		case "WHERE", "GROUP", "ORDER", "LIMIT", "SET", "RETURNING", "SELECT", "VALUES":
			t.frames[in].inFrom = false
		}
		t.frame, t.block = append(t.frame, in), append(t.block, block)
	}
}

// source records the table whose name is the word at index i.
func (t *statementText) source(i, block int) {
	table := t.word(i)
	if table == "LATERAL" || !isName(table) || t.word(i+1) == "(" && t.word(i-1) != "INTO" {
		return // derived records a query in parentheses at its end; functions return no company's rows
	}
	n := t.add(table)
	t.nodes[n].inserted = t.word(i-1) == "INTO"
	if with, ok := t.with[table]; ok {
		t.equal(n, with)
	}
	t.blocks[block].names[t.alias(i+1, table)] = n
}

// alias returns the alias that begins at the word at index i, or the table's own name if there is none.
func (t *statementText) alias(i int, table string) string {
	if t.word(i) == "AS" {
		return t.word(i + 1)
	}
	if isName(t.word(i)) && !keywords[t.word(i)] {
		return t.word(i)
	}
	return table
}

var name = regexp.MustCompile(`^[a-z_][a-z_0-9]*$`)

func isName(word string) bool { return name.MatchString(word) }

// derived records a query in parentheses, whose last word is at index end, if it takes the place of a table or
// belongs to a WITH clause.
func (t *statementText) derived(end, closed, block, in int) {
	f := t.frames[closed]
	if len(f.blocks) == 0 {
		return
	}
	before := t.word(f.opened - 1)
	if before == "AS" && isName(t.word(f.opened-2)) && (t.word(f.opened-3) == "WITH" || t.word(f.opened-3) == ",") {
		n := t.add("")
		t.with[t.word(f.opened-2)] = n
		t.sameAsInside(n, f)
		return
	}
	if before == "FROM" || before == "JOIN" || before == "," && t.frames[in].inFrom || before == "LATERAL" {
		if alias := t.alias(end+1, ""); alias != "" {
			n := t.add("")
			t.blocks[block].names[alias] = n
			t.sameAsInside(n, f)
		}
	}
}

// sameAsInside gives a subquery the same company as its tables. If the subquery reads several tables, each of them
// must be restricted anyway.
func (t *statementText) sameAsInside(n int, f frame) {
	for _, b := range f.blocks {
		for _, inner := range t.blocks[b].names {
			t.equal(inner, n)
		}
	}
}

// named returns the node that a qualifier refers to in a query or the queries around it, or -1. An empty qualifier
// refers to the only node with a column company_id.
func (t *statementText) named(block int, qualifier string) int {
	for ; block >= 0; block = t.blocks[block].up {
		if qualifier != "" {
			if n, ok := t.blocks[block].names[qualifier]; ok {
				return n
			}
			continue
		}
		switch found := t.companies(block); len(found) {
		case 0:
		case 1:
			return found[0]
		default:
			return -1
		}
	}
	return -1
}

// companies returns the nodes of a query that may have a column company_id. It returns the table after INTO only if
// the query has no other table.
func (t *statementText) companies(block int) (found []int) {
	into := -1
	for _, n := range t.blocks[block].names {
		_, with := t.with[t.nodes[n].table]
		switch table := t.nodes[n].table; {
		case table != "" && !withCompany()[table] && !with:
		case t.nodes[n].inserted:
			into = n
		default:
			found = append(found, n)
		}
	}
	if len(found) == 0 && into >= 0 {
		found = append(found, into)
	}
	return found
}

// operand parses the operand that begins at the word at index i: a company_id column, whose node it returns, or a
// placeholder. It also returns the index of the next word.
func (t *statementText) operand(i int) (n, placeholder, next int) {
	w := t.word(i)
	switch {
	case strings.HasPrefix(w, "$"):
		placeholder, _ = strconv.Atoi(w[1:])
		if next = i + 1; t.word(next) == "::" {
			next += 2
		}
		return -1, placeholder, next
	case w == "CAST" && strings.HasPrefix(t.word(i+2), "$"):
		placeholder, _ = strconv.Atoi(t.word(i + 2)[1:])
		return -1, placeholder, i + 6
	case w == "company_id":
		return t.named(t.block[i], ""), 0, i + 1
	case t.word(i+1) == "." && t.word(i+2) == "company_id":
		return t.named(t.block[i], w), 0, i + 3
	}
	return -1, 0, i + 1
}

// restricts reports whether the condition that begins at the word at index i must be true for all rows of its query.
func (t *statementText) restricts(i int) bool {
	switch t.word(i - 1) {
	case "WHERE", "AND", "ON", "(", "HAVING":
	default:
		return false
	}
	query := t.blocks[t.block[i]].frame
	for f := t.frame[i]; f >= 0; f = t.frames[f].up {
		if t.frames[f].or || f > 0 && t.word(t.frames[f].opened-1) == "NOT" {
			return false
		}
		if f == query {
			break
		}
	}
	for i--; i >= 0; i-- {
		if t.frame[i] != query {
			continue
		}
		switch t.words[i] {
		case "WHERE", "HAVING", "JOIN":
			return true
		case "SELECT", "FROM", "SET", "VALUES", "GROUP", "ORDER", "RETURNING": // the condition may be inside a CASE
			return false
		}
	}
	return false
}

// column looks for an equality of the company_id column at the word at index i.
func (t *statementText) column(i int) {
	start := i
	if t.word(i-1) == "." {
		start = i - 2
	}
	n, _, _ := t.operand(start)
	if before := t.word(start - 1); before == "(" && t.word(start-2) == "USING" || before == "," && t.inUsing(start) {
		if all := t.companies(t.block[i]); len(all) > 0 {
			for _, other := range all {
				t.equal(all[0], other)
			}
		}
		return
	}
	if n < 0 {
		return
	}
	if open := t.frames[t.frame[i]].opened; open >= 0 && t.word(start-1) != "WHERE" && t.word(i+1) != "=" &&
		t.word(i+1) != "IN" {
		t.tuple(n, start, open)
		return
	}
	if !t.restricts(start) {
		return
	}
	switch {
	case t.word(i+1) == "=" && t.word(i+2) == "ANY":
		t.bind(n, i+4)
	case t.word(i+1) == "=":
		other, placeholder, _ := t.operand(i + 2)
		t.equal(n, other)
		joined, outer := t.outerJoin(start)
		switch {
		case placeholder == 0:
		case !outer:
			t.bound[n] = append(t.bound[n], placeholder)
		case n == joined:
			t.alone[n] = append(t.alone[n], placeholder)
		}
	case t.word(i+1) == "IN":
		if _, outer := t.outerJoin(start); !outer {
			t.among(n, i+2, 0)
		}
	}
}

// outerJoin reports whether the word at index i is in the condition of an outer join. It also returns the node that
// is joined, or -1 if the join keeps all rows of that node, too.
func (t *statementText) outerJoin(i int) (joined int, outer bool) {
	frame := t.blocks[t.block[i]].frame
	for ; i >= 0; i-- {
		if t.frame[i] != frame {
			continue
		}
		switch t.words[i] {
		case "WHERE", "HAVING", "SELECT", "FROM":
			return -1, false
		case "JOIN":
			kind := t.word(i - 1)
			if kind == "OUTER" {
				kind = t.word(i - 2)
			}
			at := i + 1
			if t.word(at) == "LATERAL" {
				at++
			}
			alias := t.alias(at+1, t.word(at))
			if t.word(at) == "(" {
				alias = t.alias(t.end(at)+1, "")
			}
			n, ok := t.blocks[t.block[i]].names[alias]
			if kind != "LEFT" || !ok {
				n = -1
			}
			return n, kind == "LEFT" || kind == "RIGHT" || kind == "FULL"
		}
	}
	return -1, false
}

func (t *statementText) inUsing(i int) bool {
	f := t.frames[t.frame[i]]
	return f.opened >= 0 && t.word(f.opened-1) == "USING"
}

// bind records that the company_id of a node equals the operand at the word at index i.
func (t *statementText) bind(n, i int) {
	if _, placeholder, _ := t.operand(i); placeholder > 0 {
		t.bound[n] = append(t.bound[n], placeholder)
	}
}

// end returns the index of the parenthesis that closes the one at index open.
func (t *statementText) end(open int) int {
	depth := 0
	for i := open; i < len(t.words); i++ {
		switch t.words[i] {
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return len(t.words)
}

// element returns the index of the first word of the element at a position of the list that begins with the
// parenthesis at index open.
func (t *statementText) element(open, position int) int {
	depth := 0
	for i := open + 1; i < len(t.words); i++ {
		if position == 0 {
			return i
		}
		switch t.words[i] {
		case "(":
			depth++
		case ")":
			if depth--; depth < 0 {
				return len(t.words)
			}
		case ",":
			if depth == 0 {
				position--
			}
		}
	}
	return len(t.words)
}

// tuple looks for an equality or membership of a list in parentheses: (company_id, x) = (…) or (company_id, x) IN
// (…).
func (t *statementText) tuple(n, start, open int) {
	if !t.restricts(open) {
		return
	}
	position := 0
	for t.element(open, position) < start {
		position++
	}
	if t.element(open, position) != start {
		return
	}
	_, outer := t.outerJoin(open)
	switch end := t.end(open); {
	case t.word(end+1) == "=" && t.word(end+2) == "(":
		at := t.element(end+2, position)
		other, _, _ := t.operand(at)
		t.equal(n, other)
		if !outer {
			t.bind(n, at)
		}
	case t.word(end+1) == "IN" && !outer:
		t.among(n, end+2, position)
	}
}

// among binds a node to an element of each row of a list, or of the rows that a query returns. Position is the
// element's position in the row.
func (t *statementText) among(n, open, position int) {
	switch first := t.word(open + 1); {
	case t.word(open) != "(":
	case first == "SELECT" && t.word(open+2) == "*" && t.word(open+3) == "FROM" && t.word(open+4) == "unnest":
		t.bind(n, t.element(open+5, position))
	case first == "SELECT" && t.word(open+2) == "unnest" && position == 0:
		t.bind(n, open+4)
	case first == "SELECT":
		at := open + 2
		if t.word(at) == "DISTINCT" {
			at++
		}
		other, placeholder, _ := t.operand(t.element(at-1, position))
		if placeholder > 0 {
			t.bound[n] = append(t.bound[n], placeholder)
		}
		t.equal(n, other)
	case first == "VALUES" || first == "(":
		at := open + 1
		if first == "VALUES" {
			at++
		}
		var all []int
		for ; t.word(at) == "("; at = t.end(at) + 2 {
			_, placeholder, _ := t.operand(t.element(at, position))
			if placeholder == 0 {
				return
			}
			all = append(all, placeholder)
		}
		t.bound[n] = append(t.bound[n], all...)
	case strings.HasPrefix(first, "$"):
		var all []int
		for at := open + 1; ; at++ {
			_, placeholder, next := t.operand(at)
			if placeholder == 0 {
				return
			}
			all = append(all, placeholder)
			if at = next; t.word(at) != "," {
				break
			}
		}
		t.bound[n] = append(t.bound[n], all...)
	}
}

// insert binds the table after INTO to the company of the inserted rows.
func (t *statementText) insert(i int) {
	n := t.blocks[t.block[i]].names[t.alias(i+2, t.word(i+1))]
	if t.word(i+2) != "(" {
		return
	}
	position, end := -1, t.end(i+2)
	for at := 0; ; at++ {
		e := t.element(i+2, at)
		if e >= end {
			break
		}
		if t.word(e) == "company_id" {
			position = at
		}
	}
	if position < 0 {
		return
	}
	switch t.word(end + 1) {
	case "VALUES":
		var all []int
		for at := end + 2; t.word(at) == "("; at = t.end(at) + 2 {
			_, placeholder, _ := t.operand(t.element(at, position))
			if placeholder == 0 {
				return
			}
			all = append(all, placeholder)
		}
		t.bound[n] = append(t.bound[n], all...)
	case "SELECT":
		at := end + 1
		if t.word(at+1) == "DISTINCT" {
			at++
		}
		// The selected columns are not in parentheses of their own, but element counts their commas in the same way.
		other, placeholder, _ := t.operand(t.element(at, position))
		if placeholder > 0 {
			t.bound[n] = append(t.bound[n], placeholder)
		}
		if other >= 0 && other != n {
			t.equal(n, other)
		}
	}
}
