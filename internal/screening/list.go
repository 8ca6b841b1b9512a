package screening

import (
	"bufio"
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

// Entry is a listed person, company, ship or aircraft.
type Entry struct {
	ID       string // name of the list and number of the entry, such as "OFAC 7160"
	Name     string
	Programs []string
	Person   bool

	names     []string // Name and all aliases
	addresses []string // blockchain addresses
}

// Match is an entry that matches a name or an address.
type Match struct {
	Entry *Entry
	Score int // 1 to 100
}

// List is a parsed and indexed list. It is safe for concurrent use.
type List struct {
	Name      string // name of the authority
	Published time.Time
	Entries   int
	Addresses int

	entries []Entry
	names   []foldedName
	vocab   map[byte]map[int][]string // words by class and length
	uses    map[string][]int32        // indexes in names, by word
	joined  map[string][]int32        // indexes in names, by joined words
	address map[string][]int32        // indexes in entries, by canonical address

	mu     sync.Mutex
	recent map[string][]Match // cache of results, by threshold and folded name
}

// foldedName is a name or alias of an entry.
type foldedName struct {
	words []string
	entry int32 // index in entries
}

// maxCached is the number of cached results after which the cache is emptied.
const maxCached = 50_000

// Parse reads a list as published by its authority. The root element determines the format:
//
//   - sdnList: the Specially Designated Nationals list (sdn.xml) or the consolidated list (consolidated.xml) of the US
//     Office of Foreign Assets Control, with digital currency addresses;
//   - CONSOLIDATED_LIST: the consolidated list of the United Nations Security Council;
//   - export: the consolidated list of the European Union (XML 1.1);
//   - Designations: the UK Sanctions List;
//   - swiss-sanctions-list: the list of the Swiss State Secretariat for Economic Affairs.
//
// A file that is not XML is a table of targets (targets.simple.csv) as OpenSanctions publishes it, for example of
// politically exposed persons.
//
// Parse omits weak aliases ("weak", "Low", not "strong"), as the authorities recommend. It returns an error
// if the file is truncated, has no entries, or has another number of entries than it states.
func Parse(r io.Reader) (*List, error) {
	buffered := bufio.NewReader(r)
	if isTable(buffered) {
		l := &List{}
		if err := l.readTable(buffered); err != nil {
			return nil, err
		}
		if len(l.entries) == 0 {
			return nil, errors.New("the list has no entries")
		}
		l.index()
		return l, nil
	}
	dec := xml.NewDecoder(buffered)
	for {
		token, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("the file is not a sanctions list: %w", err)
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
		case "export":
			err = l.readEU(dec, root)
		case "Designations":
			err = l.readUK(dec)
		case "swiss-sanctions-list":
			err = l.readSECO(dec, root)
		default:
			return nil, fmt.Errorf("the file is not a supported sanctions list: its root element is %q, want sdnList, "+
				"CONSOLIDATED_LIST, export, Designations or swiss-sanctions-list", root.Name.Local)
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
	Category string `xml:"category"` // category of an alias
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
	stated := -1
	err := elements(dec, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "publshInformation": // spelled in this way by the authority
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
				stated = n
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
	if err == nil && stated >= 0 && stated != len(l.entries) {
		return fmt.Errorf("the sanctions list states %d entries but has %d", stated, len(l.entries))
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
	Entities []unName `xml:"ENTITY_ALIAS"`
}

type unName struct {
	Quality string `xml:"QUALITY"`
	Name    string `xml:"ALIAS_NAME"`
}

func (l *List) readUN(dec *xml.Decoder, root xml.StartElement) error {
	l.Name = "UN"
	var err error
	if l.Published, err = dateOf(root, "dateGenerated"); err != nil {
		return err
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
			for _, a := range append(in.People, in.Entities...) {
				if !strings.EqualFold(a.Quality, "low") {
					out.names = append(out.names, a.Name)
				}
			}
			l.entries = append(l.entries, out)
			return nil
		})
	})
}

// elements calls f with each child of the current element until the end of the current element. f must read its element
// to the end.
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

// index builds the search indexes from the entries.
func (l *List) index() {
	l.Entries = len(l.entries)
	l.vocab, l.uses, l.joined = map[byte]map[int][]string{}, map[string][]int32{}, map[string][]int32{}
	l.address, l.recent = map[string][]int32{}, map[string][]Match{}
	for i := range l.entries {
		e := &l.entries[i]
		seen := map[string]bool{}
		for _, name := range e.names {
			words, joined := foldJoined(name)
			key := strings.Join(words, " ")
			if len(words) == 0 || seen[key] {
				continue
			}
			seen[key] = true
			n := int32(len(l.names))
			l.names = append(l.names, foldedName{words, int32(i)})
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

// canonical returns an address in lower case if its format ignores case, and without a URI scheme.
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

// MatchAddress returns the entries that list the address, in any currency.
func (l *List) MatchAddress(address string) []Match {
	var found []Match
	for _, i := range l.address[canonical(address)] {
		found = append(found, Match{&l.entries[i], 100})
	}
	return found
}

// Match returns the entries whose score for a name is at least threshold percent, best first.
func (l *List) Match(name string, threshold int) []Match {
	words, joined := foldJoined(name)
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
	if len(l.recent) >= maxCached {
		clear(l.recent)
	}
	l.recent[key] = found
	l.mu.Unlock()
	return found
}

func (l *List) search(words []string, joined string, threshold int) []Match {
	best := map[int32]int{} // by entry
	for _, n := range l.joined[joined] {
		best[l.names[n].entry] = 100 // the same letters, such as "Al Qaida" and "Alqaida"
	}
	shared := map[int32]int{} // number of words with a similar word in the name, by index of the name
	for _, w := range words {
		counted := map[int32]bool{}
		for _, similar := range l.similarWords(w) {
			for _, n := range l.uses[similar] {
				if !counted[n] {
					counted[n] = true
					shared[n]++
				}
			}
		}
	}
	for n, count := range shared {
		other := &l.names[n]
		// If a name has three or more words, one word may be entirely different.
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

// similarWords returns the words of the list that are similar to a given word.
func (l *List) similarWords(w string) []string {
	var found []string
	sizes := l.vocab[class(w)]
	for size := max(1, len(w)-2); size <= len(w)+2; size++ {
		for _, other := range sizes[size] {
			if similarity(w, other) > 0 {
				found = append(found, other)
			}
		}
	}
	return found
}
