package screening

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"time"
)

// addName adds a name to an entry. The first name becomes the entry's Name.
func (e *Entry) addName(words ...string) {
	name := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if name == "" {
		return
	}
	e.Name = cmp.Or(e.Name, name)
	e.names = append(e.names, name)
}

type euEntry struct {
	Reference string `xml:"euReferenceNumber,attr"`
	ID        string `xml:"logicalId,attr"`
	Subject   struct {
		Code string `xml:"classificationCode,attr"`
	} `xml:"subjectType"`
	Regulations []struct {
		Programme string `xml:"programme,attr"`
	} `xml:"regulation"`
	Names []struct {
		Whole  string `xml:"wholeName,attr"`
		First  string `xml:"firstName,attr"`
		Middle string `xml:"middleName,attr"`
		Last   string `xml:"lastName,attr"`
		Strong string `xml:"strong,attr"`
	} `xml:"nameAlias"`
}

// readEU reads the consolidated list of the European Union (XML 1.1).
func (l *List) readEU(dec *xml.Decoder, root xml.StartElement) (err error) {
	l.Name = "EU"
	if l.Published, err = dateOf(root, "generationDate"); err != nil {
		return err
	}
	return elements(dec, func(e xml.StartElement) error {
		if e.Name.Local != "sanctionEntity" {
			return dec.Skip()
		}
		var in euEntry
		if err := dec.DecodeElement(&in, &e); err != nil {
			return err
		}
		out := Entry{ID: "EU " + cmp.Or(in.Reference, in.ID), Person: in.Subject.Code == "P"}
		for _, r := range in.Regulations {
			if r.Programme != "" && !slices.Contains(out.Programs, r.Programme) {
				out.Programs = append(out.Programs, r.Programme)
			}
		}
		for _, n := range in.Names {
			if n.Strong != "false" {
				out.addName(cmp.Or(n.Whole, n.First+" "+n.Middle+" "+n.Last))
			}
		}
		return l.add(out)
	})
}

type ukEntry struct {
	ID       string   `xml:"UniqueID"`
	Names    []ukName `xml:"Names>Name"`
	NonLatin []struct {
		Name string `xml:"NameNonLatinScript"`
	} `xml:"NonLatinNames>NonLatinName"`
	Regime string `xml:"RegimeName"`
	Kind   string `xml:"IndividualEntityShip"`
}

type ukName struct {
	First    string `xml:"Name1"`
	Second   string `xml:"Name2"`
	Third    string `xml:"Name3"`
	Fourth   string `xml:"Name4"`
	Fifth    string `xml:"Name5"`
	Last     string `xml:"Name6"`
	Type     string `xml:"NameType"`
	Strength string `xml:"AliasStrength"`
}

// readUK reads the UK Sanctions List.
func (l *List) readUK(dec *xml.Decoder) error {
	l.Name = "UK"
	return elements(dec, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "DateGenerated":
			var date string
			if err := dec.DecodeElement(&date, &e); err != nil {
				return err
			}
			var err error
			if l.Published, err = time.Parse("02/01/2006", strings.TrimSpace(date)); err != nil {
				return fmt.Errorf("DateGenerated: %w", err)
			}
			return nil
		case "Designation":
			var in ukEntry
			if err := dec.DecodeElement(&in, &e); err != nil {
				return err
			}
			out := Entry{ID: "UK " + strings.TrimSpace(in.ID), Programs: []string{strings.TrimSpace(in.Regime)},
				Person: strings.EqualFold(strings.TrimSpace(in.Kind), "Individual")}
			// The primary name comes first, regardless of its position in the file.
			slices.SortStableFunc(in.Names, func(a, b ukName) int { return cmp.Compare(rankUK(a.Type), rankUK(b.Type)) })
			for _, n := range in.Names {
				if !strings.Contains(strings.ToLower(n.Strength), "low") {
					out.addName(n.First, n.Second, n.Third, n.Fourth, n.Fifth, n.Last)
				}
			}
			for _, n := range in.NonLatin {
				out.addName(n.Name)
			}
			return l.add(out)
		}
		return dec.Skip()
	})
}

// rankUK returns the order of a name within an entry of the UK list: the primary name first, then its variations,
// then aliases.
func rankUK(kind string) int {
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case "primary name":
		return 0
	case "primary name variation":
		return 1
	}
	return 2
}

type secoProgram struct {
	Keys []struct {
		Language string `xml:"lang,attr"`
		Text     string `xml:",chardata"`
	} `xml:"program-key"`
	Sets []struct {
		ID string `xml:"ssid,attr"`
	} `xml:"sanctions-set"`
}

type secoTarget struct {
	ID         string       `xml:"ssid,attr"`
	Sets       []string     `xml:"sanctions-set-id"`
	Individual *secoSubject `xml:"individual"`
	Entity     *secoSubject `xml:"entity"`
	Object     *secoSubject `xml:"object"`
	Changes    []struct {
		Kind string `xml:"modification-type,attr"`
		At   string `xml:"effective-date,attr"`
	} `xml:"modification"`
}

// removed reports whether the newest change of the target removed it from the list.
func (t secoTarget) removed() bool {
	newest, removed := "", false
	for _, c := range t.Changes {
		if c.At >= newest {
			removed = c.Kind == "de-listed" || removed && c.At == newest
			newest = c.At
		}
	}
	return removed
}

type secoSubject struct {
	Identities []struct {
		Main  string     `xml:"main,attr"`
		Names []secoName `xml:"name"`
	} `xml:"identity"`
}

type secoName struct {
	Kind    string     `xml:"name-type,attr"`
	Quality string     `xml:"quality,attr"`
	Parts   []secoPart `xml:"name-part"`
}

type secoPart struct {
	Order    int    `xml:"order,attr"`
	Value    string `xml:"value"`
	Variants []struct {
		Language string `xml:"lang,attr"`
		Script   string `xml:"script,attr"`
		Text     string `xml:",chardata"`
	} `xml:"spelling-variant"`
}

// spellings returns the name, and the name in each language and script of its variants.
func (n secoName) spellings() [][]string {
	slices.SortStableFunc(n.Parts, func(a, b secoPart) int { return cmp.Compare(a.Order, b.Order) })
	var kinds []string
	whole := make([]string, len(n.Parts))
	for i, p := range n.Parts {
		whole[i] = p.Value
		for _, v := range p.Variants {
			if kind := v.Language + " " + v.Script; !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	all := [][]string{whole}
	for _, kind := range kinds {
		spelled := slices.Clone(whole)
		for i, p := range n.Parts {
			for _, v := range p.Variants {
				if v.Language+" "+v.Script == kind {
					spelled[i] = v.Text
				}
			}
		}
		all = append(all, spelled)
	}
	return all
}

// readSECO reads the Swiss list of the State Secretariat for Economic Affairs. It skips targets that were removed
// from the list but remain in the file.
func (l *List) readSECO(dec *xml.Decoder, root xml.StartElement) (err error) {
	l.Name = "SECO"
	if l.Published, err = dateOf(root, "date"); err != nil {
		return err
	}
	programs := map[string]string{} // by ID of a set of sanctions
	return elements(dec, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "sanctions-program":
			var in secoProgram
			if err := dec.DecodeElement(&in, &e); err != nil {
				return err
			}
			for _, set := range in.Sets {
				for _, key := range in.Keys {
					if programs[set.ID] == "" || key.Language == "eng" {
						programs[set.ID] = strings.TrimSpace(key.Text)
					}
				}
			}
			return nil
		case "target":
			var in secoTarget
			if err := dec.DecodeElement(&in, &e); err != nil {
				return err
			}
			if in.removed() {
				return nil
			}
			out := Entry{ID: "SECO " + in.ID, Person: in.Individual != nil}
			for _, id := range in.Sets {
				if p := programs[strings.TrimSpace(id)]; p != "" {
					out.Programs = append(out.Programs, p)
				}
			}
			for _, s := range []*secoSubject{in.Individual, in.Entity, in.Object} {
				out.addNames(s)
			}
			return l.add(out)
		}
		return dec.Skip()
	})
}

// addNames adds the names of a subject, the primary name of the main identity first.
func (e *Entry) addNames(s *secoSubject) {
	if s == nil {
		return
	}
	for _, first := range []bool{true, false} {
		for _, identity := range s.Identities {
			for _, n := range identity.Names {
				primary := n.Kind == "primary-name" && identity.Main != "false"
				if primary != first || n.Quality == "low" {
					continue
				}
				for _, words := range n.spellings() {
					e.addName(words...)
				}
			}
		}
	}
}

// dateOf returns the date at the beginning of an attribute, or the zero time if the attribute is missing.
func dateOf(root xml.StartElement, name string) (time.Time, error) {
	for _, a := range root.Attr {
		if a.Name.Local == name && len(a.Value) >= len(time.DateOnly) {
			t, err := time.Parse(time.DateOnly, a.Value[:len(time.DateOnly)])
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return t, err
		}
	}
	return time.Time{}, nil
}

// add adds an entry. It returns an error for an entry without a usable name, because such an entry would never match.
func (l *List) add(e Entry) error {
	if len(e.names) == 0 {
		return fmt.Errorf("the entry %s has no name", e.ID)
	}
	l.entries = append(l.entries, e)
	return nil
}
