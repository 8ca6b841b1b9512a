package roster

import "strings"

// words is where each word of names and emails occurs: a search looks through the words, which are far fewer than the
// rows, and takes the rows of those that have the needle.
//
// A word is a run of letters (every byte beyond ASCII counts as one), or of digits, in the name or in the email before its
// last "@"; or that "@" and all that follows, the domain. Whatever lies within one run of a needle lies within one word of
// a text, so a needle of one run is answered by the words alone. A longer one is looked up by that of its runs which the
// fewest rows have, and then looked for in those rows' texts.
type words struct {
	lists [kinds]list
	odd   []uint32 // slots with an "@" before the last one of the email
}

// kind is what a word is made of.
type kind int

const (
	letters kind = iota
	digits
	domains
	kinds
	other kind = -1 // what stands between words
)

// list are the words of one kind, close together, each with the slots of its rows.
type list struct {
	words texts
	start []uint32 // of each word's slots, and the end of the last
	slots []uint32
}

func kindOf(c byte) kind {
	switch {
	case c >= 'a' && c <= 'z', c >= 0x80:
		return letters
	case c >= '0' && c <= '9':
		return digits
	}
	return other
}

// run is a stretch of a text of one kind.
type run struct {
	text        string
	kind        kind
	opens, ends bool // at the start, or the end, of the whole text
}

// runs cuts a text into the runs of letters and digits.
func runs(text string) (all []run) {
	for from := 0; from < len(text); {
		to, k := from+1, kindOf(text[from])
		for to < len(text) && kindOf(text[to]) == k {
			to++
		}
		if k != other {
			all = append(all, run{text[from:to], k, from == 0, to == len(text)})
		}
		from = to
	}
	return all
}

// fits says whether a word can hold the run at the run's place in the needle: inside the needle it is the whole word.
func (r *run) fits(word string) bool {
	switch {
	case r.opens && r.ends:
		return strings.Contains(word, r.text)
	case r.opens:
		return strings.HasSuffix(word, r.text)
	case r.ends:
		return strings.HasPrefix(word, r.text)
	}
	return word == r.text
}

// domain is where the domain of a text begins; the text's end when it has none.
func domain(text string, mid int) int {
	if at := strings.LastIndexByte(text[mid:], '@'); at >= 0 {
		return mid + at
	}
	return len(text)
}

// index finds the words of all texts.
func (b *base) index() *words {
	w := &words{}
	var occurs [kinds]struct {
		number map[string]uint32
		pack   packer
		words  []uint32 // the word of each occurrence
		slots  []uint32 // and its row
	}
	for k := range occurs {
		occurs[k].number = map[string]uint32{}
	}
	note := func(k kind, word string, slot uint32) {
		o := &occurs[k]
		number, ok := o.number[word]
		if !ok {
			number = uint32(len(o.number))
			o.number[word] = number
			o.pack.add(word)
		}
		o.words, o.slots = append(o.words, number), append(o.slots, slot)
	}
	for i := range b.n {
		slot := uint32(i)
		text := b.names.at(slot)
		at := domain(text, int(b.mid[slot])+len(gap))
		if strings.IndexByte(text[:at], '@') >= 0 {
			w.odd = append(w.odd, slot)
		}
		for from := 0; from < at; {
			to, k := from+1, kindOf(text[from])
			for to < at && kindOf(text[to]) == k {
				to++
			}
			if k != other {
				note(k, text[from:to], slot)
			}
			from = to
		}
		if at < len(text) {
			note(domains, text[at:], slot)
		}
	}
	for k := range w.lists {
		l, o := &w.lists[k], &occurs[k]
		l.words = o.pack.texts()
		l.start = make([]uint32, len(l.words.end)+1)
		for _, number := range o.words {
			l.start[number+1]++
		}
		for i := range l.words.end {
			l.start[i+1] += l.start[i]
		}
		next := append([]uint32(nil), l.start...)
		l.slots = make([]uint32, len(o.slots))
		for i, number := range o.words {
			l.slots[next[number]] = o.slots[i]
			next[number]++
		}
	}
	return w
}

// having are the words that fit, and how often they occur together.
func (l *list) having(fits func(string) bool) (found []uint32, rows int) {
	from := uint64(0)
	for i, to := range l.words.end {
		word := l.words.all[from:to]
		from = to
		if fits(word) {
			found = append(found, uint32(i))
			rows += int(l.start[i+1] - l.start[i])
		}
	}
	return found, rows
}

// mark adds the rows of words.
func (l *list) mark(m bitmap, found []uint32) {
	for _, i := range found {
		for _, slot := range l.slots[l.start[i]:l.start[i+1]] {
			m.add(slot)
		}
	}
}

// search finds the slots whose name or email has the needle.
func (b *base) search(needle string) bitmap {
	hits := make(bitmap, (b.n+63)/64)
	w := b.words
	found, _ := w.lists[domains].having(func(word string) bool { return strings.Contains(word, needle) })
	w.lists[domains].mark(hits, found)
	before, _, crosses := strings.Cut(needle, "@")
	if crosses {
		for _, slot := range w.odd {
			if strings.Contains(b.names.at(slot), needle) {
				hits.add(slot)
			}
		}
		if before == "" {
			return hits
		}
	}
	all := runs(before)
	if !crosses && len(all) == 1 && all[0].opens && all[0].ends {
		l := &w.lists[all[0].kind]
		found, _ := l.having(all[0].fits)
		l.mark(hits, found)
		return hits
	}
	var best *list
	var rarest []uint32
	fewest := b.n
	for _, k := range []kind{letters, digits} {
		for i := range all {
			r := &all[i]
			if r.kind != k || fewest < b.n/fewEnough {
				continue
			}
			r.ends = r.ends && !crosses // the "@" ends the word
			if found, rows := w.lists[k].having(r.fits); rows < fewest {
				best, rarest, fewest = &w.lists[k], found, rows
			}
		}
	}
	candidates := b.everybody()
	if best != nil {
		clear(candidates)
		best.mark(candidates, rarest)
	}
	candidates.each(0, b.n, 0, func(slot int) bool {
		if !hits.has(uint32(slot)) && strings.Contains(b.names.at(uint32(slot)), needle) {
			hits.add(uint32(slot))
		}
		return true
	})
	return hits
}

// fewEnough: when no more than one in so many rows is left to look at, other words are not worth looking up.
const fewEnough = 8
