package screening

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Entry is one listed person, firm, ship or aircraft.
type Entry struct {
	ID       string // the list's name and its number there: "OFAC 7160"
	Name     string
	Programs []string
	Person   bool

	names     []string // all spellings, Name first
	addresses []string // on public chains
}

// Match is an entry that something is like.
type Match struct {
	Entry *Entry
	Score int // 1 to 100
}

// List is one list as read, ready to be searched. It is safe for concurrent use.
type List struct {
	Name      string // of the authority
	Published time.Time
	Entries   int
	Addresses int

	entries []Entry
	names   []spelling
	vocab   map[byte]map[int][]string // words by class and length
	uses    map[string][]int32        // names by word
	joined  map[string][]int32        // names by all their letters
	address map[string][]int32        // entries by address

	mu     sync.Mutex
	recent map[string][]Match // answers, by threshold and folded name
}

// spelling is one folded name of an entry.
type spelling struct {
	words []string
	entry int32
}

// manyAnswers bounds how many answers a list remembers; then it forgets them all.
const manyAnswers = 50_000

// Parse reads a list in the form in which its authority publishes it, told apart by the first element:
//
//   - sdnList: the Specially Designated Nationals list (sdn.xml) and the consolidated list (consolidated.xml) of the US Office of
//     Foreign Assets Control, with digital currency addresses;
//   - CONSOLIDATED_LIST: the consolidated list of the United Nations Security Council.
//
// Weak aliases ("weak", "Low"), which their authorities advise against screening by, are left out. A file that is cut
// off, has no entries, or fewer than it says, is an error.
func Parse(r io.Reader) (*List, error) {
	dec := xml.NewDecoder(r)
	for {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("this is no sanctions list: %w", err)
		}
		root, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		l := &List{}
		switch root.Name.Local {
		case "sdnList":
			err = l.readOFAC(dec)
		case "CONSOLIDATED_LIST":
			err = l.readUN(dec, root)
		default:
			return nil, fmt.Errorf("this is no sanctions list that is known: its first element is %q; want sdnList or "+
				"CONSOLIDATED_LIST", root.Name.Local)
		}
		if err != nil {
			return nil, err
		}
		if len(l.entries) == 0 {
			return nil, errors.New("the sanctions list has no entries")
		}
		l.index()
		return l, nil
	}
}

type ofacName struct {
	First    string `xml:"firstName"`
	Last     string `xml:"lastName"`
	Category string `xml:"category"` // of an alias
}

func (n ofacName) String() string { return strings.TrimSpace(n.First + " " + n.Last) }

type ofacEntry struct {
	ofacName
	UID      string     `xml:"uid"`
	Type     string     `xml:"sdnType"`
	Programs []string   `xml:"programList>program"`
	Aliases  []ofacName `xml:"akaList>aka"`
	IDs      []struct {
		Type   string `xml:"idType"`
		Number string `xml:"idNumber"`
	} `xml:"idList>id"`
}

func (l *List) readOFAC(dec *xml.Decoder) error {
	l.Name = "OFAC"
	promised := -1
	err := elements(dec, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "publshInformation": // so spelled by the authority
			var about struct {
				Date  string `xml:"Publish_Date"`
				Count string `xml:"Record_Count"`
			}
			if err := dec.DecodeElement(&about, &e); err != nil {
				return err
			}
			var err error
			if l.Published, err = time.Parse("01/02/2006", strings.TrimSpace(about.Date)); err != nil {
				return fmt.Errorf("Publish_Date: %w", err)
			}
			if n, err := strconv.Atoi(strings.TrimSpace(about.Count)); err == nil {
				promised = n
			}
			return nil
		case "sdnEntry":
			var in ofacEntry
			if err := dec.DecodeElement(&in, &e); err != nil {
				return err
			}
			out := Entry{ID: "OFAC " + in.UID, Name: in.String(), Programs: in.Programs, Person: in.Type == "Individual",
				names: []string{in.String()}}
			for _, a := range in.Aliases {
				if !strings.EqualFold(a.Category, "weak") {
					out.names = append(out.names, a.String())
				}
			}
			for _, id := range in.IDs {
				if strings.HasPrefix(id.Type, "Digital Currency Address") {
					out.addresses = append(out.addresses, strings.TrimSpace(id.Number))
				}
			}
			l.entries = append(l.entries, out)
			return nil
		default:
			return dec.Skip()
		}
	})
	if err == nil && promised >= 0 && promised != len(l.entries) {
		return fmt.Errorf("the sanctions list promises %d entries and has %d", promised, len(l.entries))
	}
	return err
}

type unEntry struct {
	ID       string   `xml:"DATAID"`
	First    string   `xml:"FIRST_NAME"`
	Second   string   `xml:"SECOND_NAME"`
	Third    string   `xml:"THIRD_NAME"`
	Fourth   string   `xml:"FOURTH_NAME"`
	Original string   `xml:"NAME_ORIGINAL_SCRIPT"`
	Type     string   `xml:"UN_LIST_TYPE"`
	Number   string   `xml:"REFERENCE_NUMBER"`
	People   []unName `xml:"INDIVIDUAL_ALIAS"`
	Firms    []unName `xml:"ENTITY_ALIAS"`
}

type unName struct {
	Quality string `xml:"QUALITY"`
	Name    string `xml:"ALIAS_NAME"`
}

func (l *List) readUN(dec *xml.Decoder, root xml.StartElement) error {
	l.Name = "UN"
	for _, a := range root.Attr {
		if a.Name.Local == "dateGenerated" && len(a.Value) >= len(time.DateOnly) {
			var err error
			if l.Published, err = time.Parse(time.DateOnly, a.Value[:len(time.DateOnly)]); err != nil {
				return fmt.Errorf("dateGenerated: %w", err)
			}
		}
	}
	return elements(dec, func(group xml.StartElement) error {
		if group.Name.Local != "INDIVIDUALS" && group.Name.Local != "ENTITIES" {
			return dec.Skip()
		}
		return elements(dec, func(e xml.StartElement) error {
			var in unEntry
			if err := dec.DecodeElement(&in, &e); err != nil {
				return err
			}
			name := strings.Join(strings.Fields(in.First+" "+in.Second+" "+in.Third+" "+in.Fourth), " ")
			out := Entry{ID: "UN " + in.Number, Name: name, Programs: []string{in.Type}, Person: e.Name.Local == "INDIVIDUAL",
				names: []string{name, in.Original}}
			for _, a := range append(in.People, in.Firms...) {
				if !strings.EqualFold(a.Quality, "low") {
					out.names = append(out.names, a.Name)
				}
			}
			l.entries = append(l.entries, out)
			return nil
		})
	})
}

// elements calls f with each element below the one that was begun, until its end. f reads its element to the end.
func elements(dec *xml.Decoder, f func(xml.StartElement) error) error {
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := f(t); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

func (l *List) index() {
	l.Entries = len(l.entries)
	l.vocab, l.uses, l.joined = map[byte]map[int][]string{}, map[string][]int32{}, map[string][]int32{}
	l.address, l.recent = map[string][]int32{}, map[string][]Match{}
	for i := range l.entries {
		e := &l.entries[i]
		seen := map[string]bool{}
		for _, name := range e.names {
			words, joined := foldAll(name)
			key := strings.Join(words, " ")
			if len(words) == 0 || seen[key] {
				continue
			}
			seen[key] = true
			n := int32(len(l.names))
			l.names = append(l.names, spelling{words, int32(i)})
			l.joined[joined] = append(l.joined[joined], n)
			for _, w := range slices.Compact(slices.Sorted(slices.Values(words))) {
				if l.uses[w] == nil {
					sizes := l.vocab[class(w)]
					if sizes == nil {
						sizes = map[int][]string{}
						l.vocab[class(w)] = sizes
					}
					sizes[len(w)] = append(sizes[len(w)], w)
				}
				l.uses[w] = append(l.uses[w], n)
			}
		}
		e.names = nil
		for _, a := range e.addresses {
			l.address[canonical(a)] = append(l.address[canonical(a)], int32(i))
			l.Addresses++
		}
	}
}

// canonical brings the spellings of one address together: those whose letters mean the same in both cases become lower
// case.
func canonical(address string) string {
	address = strings.TrimSpace(address)
	lower := strings.ToLower(address)
	if _, rest, found := strings.Cut(lower, ":"); found { // bitcoincash:q…
		return rest
	}
	for _, prefix := range []string{"0x", "bc1", "tb1", "bcrt1", "ltc1"} {
		if strings.HasPrefix(lower, prefix) {
			return lower
		}
	}
	return address
}

// MatchAddress finds the entries that list an address, in whatever currency.
func (l *List) MatchAddress(address string) []Match {
	var found []Match
	for _, i := range l.address[canonical(address)] {
		found = append(found, Match{&l.entries[i], 100})
	}
	return found
}

// Match finds the entries that a name is like by at least so many percent (see score), the best first.
func (l *List) Match(name string, threshold int) []Match {
	words, joined := foldAll(name)
	if len(words) == 0 {
		return nil
	}
	key := strconv.Itoa(threshold) + " " + joined + " " + strings.Join(words, " ")
	l.mu.Lock()
	found, known := l.recent[key]
	l.mu.Unlock()
	if known {
		return found
	}
	found = l.search(words, joined, threshold)
	l.mu.Lock()
	if len(l.recent) >= manyAnswers {
		clear(l.recent)
	}
	l.recent[key] = found
	l.mu.Unlock()
	return found
}

func (l *List) search(words []string, joined string, threshold int) []Match {
	best := map[int32]int{} // by entry
	for _, n := range l.joined[joined] {
		best[l.names[n].entry] = 100 // Al Qaida, Alqaida
	}
	shared := map[int32]int{} // by name: how many of the words it has, or has one like
	for _, w := range words {
		had := map[int32]bool{}
		for _, like := range l.wordsLike(w) {
			for _, n := range l.uses[like] {
				if !had[n] {
					had[n] = true
					shared[n]++
				}
			}
		}
	}
	for n, count := range shared {
		other := &l.names[n]
		// A name of three words or more may have one that is spelled quite differently.
		need := min(len(words), len(other.words))
		if need > 2 {
			need--
		}
		if count < need {
			continue
		}
		if s := score(words, other.words, l.entries[other.entry].Person); s >= threshold {
			best[other.entry] = max(best[other.entry], s)
		}
	}
	found := make([]Match, 0, len(best))
	for i, s := range best {
		found = append(found, Match{&l.entries[i], s})
	}
	slices.SortFunc(found, func(a, b Match) int {
		if a.Score != b.Score {
			return b.Score - a.Score
		}
		return strings.Compare(a.Entry.ID, b.Entry.ID)
	})
	return found
}

// wordsLike are the list's words that a word may stand for.
func (l *List) wordsLike(w string) []string {
	var found []string
	sizes := l.vocab[class(w)]
	for size := max(1, len(w)-2); size <= len(w)+2; size++ {
		for _, other := range sizes[size] {
			if alike(w, other) > 0 {
				found = append(found, other)
			}
		}
	}
	return found
}
