package screening_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit"
)

// ofac has the format of sdn.xml, with invented entries.
const ofac = `<?xml version="1.0" standalone="yes"?>
<sdnList xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xmlns="https://sanctionslistservice.ofac.treas.gov/api/PublicationPreview/exports/XML">
  <publshInformation><Publish_Date>11/20/2026</Publish_Date><Record_Count>5</Record_Count></publshInformation>
  <sdnEntry><uid>101</uid><firstName>Vladimir Borisovich</firstName><lastName>KUZNETSOV</lastName>
    <sdnType>Individual</sdnType>
    <programList><program>CYBER2</program><program>RUSSIA-EO14024</program></programList>
    <akaList><aka><uid>1</uid><type>a.k.a.</type><category>weak</category><lastName>BORIS</lastName></aka>
      <aka><uid>2</uid><type>a.k.a.</type><category>strong</category><firstName>Volodya</firstName>
      <lastName>KOVALCHUK</lastName></aka></akaList>
    <idList><id><uid>3</uid><idType>Digital Currency Address - XBT</idType>
      <idNumber>1Lbcfr7sAHTD9CgdQo3HTMTkV8LK4ZnX71</idNumber></id>
      <id><uid>4</uid><idType>Passport</idType><idNumber>0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B</idNumber></id>
      <id><uid>5</uid><idType>Digital Currency Address - ETH</idType>
      <idNumber>0x098B716B8Aaf21512996dC57EB0615e2383E2f96</idNumber></id></idList></sdnEntry>
  <sdnEntry><uid>102</uid><lastName>DELTA STAR TRADING COMPANY LLC</lastName><sdnType>Entity</sdnType><programList>
    <program>IRAN</program></programList></sdnEntry>
  <sdnEntry><uid>103</uid><lastName>AL-BASRA</lastName><sdnType>Entity</sdnType><programList><program>SDGT</program>
    </programList></sdnEntry>
  <sdnEntry><uid>104</uid><firstName>Jérôme Ngúyen</firstName><lastName>ØSTERGÅRD-STRAßE</lastName>
    <sdnType>Individual</sdnType></sdnEntry>
  <sdnEntry><uid>105</uid><firstName>Yusuf</firstName><lastName>AL-HAMDANI</lastName><sdnType>Individual</sdnType>
    </sdnEntry>
</sdnList>`

const un = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<CONSOLIDATED_LIST xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" dateGenerated="2026-11-19T23:00:02.141Z">
  <INDIVIDUALS><INDIVIDUAL><DATAID>1</DATAID><FIRST_NAME>ERIC</FIRST_NAME><SECOND_NAME>MBADEGE</SECOND_NAME>
    <THIRD_NAME>LUSAMBO</THIRD_NAME>
    <UN_LIST_TYPE>DRC</UN_LIST_TYPE><REFERENCE_NUMBER>CDi.901</REFERENCE_NUMBER>
      <NAME_ORIGINAL_SCRIPT>Эрик Мбадеге</NAME_ORIGINAL_SCRIPT>
    <INDIVIDUAL_ALIAS><QUALITY>Good</QUALITY><ALIAS_NAME>Commandant Erique Badegué</ALIAS_NAME></INDIVIDUAL_ALIAS>
    <INDIVIDUAL_ALIAS><QUALITY>Low</QUALITY><ALIAS_NAME>Petit Lion</ALIAS_NAME></INDIVIDUAL_ALIAS></INDIVIDUAL>
      </INDIVIDUALS>
  <ENTITIES><ENTITY><DATAID>2</DATAID><FIRST_NAME>GREEN MOUNTAIN MINERALS</FIRST_NAME><UN_LIST_TYPE>DRC</UN_LIST_TYPE>
    <REFERENCE_NUMBER>CDe.902</REFERENCE_NUMBER><ENTITY_ALIAS><QUALITY>a.k.a.</QUALITY>
      <ALIAS_NAME>GMM Export SARL</ALIAS_NAME></ENTITY_ALIAS></ENTITY></ENTITIES>
</CONSOLIDATED_LIST>`

func parse(t *testing.T, text string) *screening.List {
	t.Helper()
	l, err := screening.Parse(strings.NewReader(text))
	testkit.Check(t, err)
	return l
}

func TestPublishedListsAreRead(t *testing.T) {
	a, b := parse(t, ofac), parse(t, un)
	if a.Name != "OFAC" || a.Entries != 5 || a.Addresses != 2 || a.Published.Format(time.DateOnly) != "2026-11-20" {
		t.Errorf("%s %d %d %s", a.Name, a.Entries, a.Addresses, a.Published)
	}
	if b.Name != "UN" || b.Entries != 2 || b.Published.Format(time.DateOnly) != "2026-11-19" {
		t.Errorf("%s %d %s", b.Name, b.Entries, b.Published)
	}
	found := a.Match("Vladimir Borisovich Kuznetsov", 85)
	if len(found) != 1 || found[0].Entry.ID != "OFAC 101" || found[0].Score != 100 ||
		strings.Join(found[0].Entry.Programs, " ") != "CYBER2 RUSSIA-EO14024" {
		t.Errorf("%+v", found)
	}
}

func TestBrokenListsAreRejected(t *testing.T) {
	for name, text := range map[string]string{
		"truncated":       ofac[:len(ofac)/2],
		"without the end": strings.TrimSuffix(un, "</CONSOLIDATED_LIST>"),
		"fewer entries":   strings.Replace(ofac, "<Record_Count>5", "<Record_Count>6", 1),
		"a web page":      "<html><body>503</body></html>",
		"nothing":         "",
		"no entries":      "<sdnList></sdnList>",
	} {
		if _, err := screening.Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNamesMatchInOtherSpellings(t *testing.T) {
	lists := []*screening.List{parse(t, ofac), parse(t, un)}
	for name, want := range map[string]string{
		"Vladimir Kuznetsov":              "OFAC 101", // a name omitted
		"KUZNETSOV, Vladimir Borisovich":  "OFAC 101", // another order
		"Владимир Борисович Кузнецов":     "OFAC 101", // another script
		"Wladimir Kuznetsow":              "OFAC 101", // another transliteration
		"Vladmir Kuznetsov":               "OFAC 101", // a missing letter
		"Vladimri Kuznetsov":              "OFAC 101", // two letters swapped
		"volodya  kovalchuk":              "OFAC 101", // an alias
		"Delta Star Trading":              "OFAC 102", // without the legal form
		"The Delta Star Trading Co. Ltd.": "OFAC 102",
		"Albasra":                         "OFAC 103", // as one word
		"Jerome Nguyen Ostergard-Strasse": "OFAC 104", // without accents
		"ＹＵＳＵＦ ＨＡＭＤＡＮＩ":                   "OFAC 105", // fullwidth letters
		"Jusuf Hamdani":                   "OFAC 105",
		"Eric Mbadege":                    "UN CDi.901",
		"Erique Badegue Commandant":       "UN CDi.901",
		"GMM Export":                      "UN CDe.902",

		"Boris":               "", // a weak alias
		"Petit Lion":          "",
		"Vladimir":            "", // only a first name
		"Vladimir Smirnov":    "",
		"Delta Trading":       "OFAC 102",
		"Star":                "",
		"Kuznetsov Anna":      "",
		"Eric Clapton":        "",
		"Green Mountain Café": "",
		"Yusuf":               "",
		"":                    "",
		"Ltd.":                "",
	} {
		got := ""
		for _, l := range lists {
			if found := l.Match(name, 85); len(found) > 0 {
				got = found[0].Entry.ID
			}
		}
		if got != want {
			t.Errorf("%q matches %q, want %q", name, got, want)
		}
	}
}

func TestAddressesMatchRegardlessOfInsignificantCase(t *testing.T) {
	l := parse(t, ofac)
	for address, want := range map[string]int{
		"1Lbcfr7sAHTD9CgdQo3HTMTkV8LK4ZnX71":         1,
		"1lbcfr7sahtd9cgdqo3htmtkv8lk4znx71":         0, // case is significant in this format
		"0x098b716b8aaf21512996dc57eb0615e2383e2f96": 1,
		"0x098B716B8AAF21512996DC57EB0615E2383E2F96": 1,
		"0xAb5801a7D398351b8bE11C439e05C5B3259aeC9B": 0, // listed as a passport number
	} {
		if got := len(l.MatchAddress(address)); got != want {
			t.Errorf("%s: %d, want %d", address, got, want)
		}
	}
}

// A broken file does not replace the list, and a file older than MaxAge is not current.
func TestAListIsReloadedWhenItsFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sdn.xml")
	at := time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)
	write := func(text string, at time.Time) {
		t.Helper()
		testkit.Check(t, os.WriteFile(path, []byte(text), 0o600))
		testkit.Check(t, os.Chtimes(path, at, at))
	}
	s := newScreener(t, screening.Options{Paths: []string{path}, Threshold: 85, MaxAge: 72 * time.Hour})
	if _, err := s.Load(); err == nil {
		t.Error("no error for a missing file")
	}
	if err := s.Current(at); !errors.Is(err, screening.ErrUnavailable) {
		t.Errorf("without a list: %v", err)
	}
	write(ofac, at)
	if changed, err := s.Load(); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if changed, err := s.Load(); err != nil || changed {
		t.Error("an unchanged file is read again", err)
	}
	write(ofac[:1000], at.Add(time.Hour))
	if changed, err := s.Load(); err == nil || changed {
		t.Error("a broken file is loaded", err)
	}
	if len(s.Match("Vladimir Kuznetsov")) != 1 {
		t.Error("a broken file replaced the list")
	}
	if err := s.Current(at.Add(72 * time.Hour)); err != nil {
		t.Error(err)
	}
	if err := s.Current(at.Add(73 * time.Hour)); !errors.Is(err, screening.ErrUnavailable) {
		t.Errorf("an old list is current: %v", err)
	}
	write(strings.ReplaceAll(ofac, "KUZNETSOV", "SIDOROV"), at.Add(2*time.Hour))
	if changed, err := s.Load(); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if len(s.Match("Vladimir Kuznetsov")) != 0 || len(s.Match("Vladimir Sidorov")) != 1 {
		t.Error("the old list is still in use")
	}
	if err := s.Current(at.Add(74 * time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestADecisionHoldsForTheSameNameAndEntry(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) {
		s := newScreener(t, screening.Options{Threshold: 85})
		if _, err := s.Load(); err != nil {
			t.Fatal(err)
		}
		screen := func(subject screening.Subject) (blocked map[string]bool) {
			t.Helper()
			other := screening.Subject{ID: "rec_2", Names: []string{"Ada Example"}}
			dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				blocked, err = s.Screen(ctx, tx, "com_1", []screening.Subject{subject, other})
				return err
			})
			if blocked["rec_2"] {
				t.Error("a subject without a hit is blocked")
			}
			return blocked
		}
		hits := func(state screening.State) (all []screening.Hit) {
			t.Helper()
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) (err error) {
				all, err = screening.Hits(ctx, tx, state, 100)
				return err
			})
			return all
		}
		decide := func(id string, to screening.State) error {
			return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := screening.Decide(ctx, tx, id, to, "Officer", "born in another year")
				return err
			})
		}
		subject := screening.Subject{ID: "rec_1", Names: []string{"Sandboxov Sanctioned"}}
		for range 2 {
			if !screen(subject)["rec_1"] {
				t.Fatal("a listed subject is not blocked")
			}
		}
		open := hits(screening.Open)
		if len(open) != 1 || open[0].EntryID != "OFAC 1" || open[0].SubjectID != "rec_1" || open[0].Score != 100 ||
			strings.Contains(open[0].Matched, "sandboxov") {
			t.Fatalf("%+v", open)
		}
		testkit.Check(t, decide(open[0].ID, screening.Cleared))
		if err := decide(open[0].ID, screening.Confirmed); !errors.Is(err, screening.ErrNoHit) {
			t.Errorf("a cleared hit is confirmed: %v", err)
		}
		subject.Names = []string{"SANDBOXOV, Sanctioned"}
		if screen(subject)["rec_1"] {
			t.Error("a cleared name is blocked again")
		}
		subject.Names = []string{"Sanctioned X. Sandboxov"}
		if !screen(subject)["rec_1"] {
			t.Error("another name is not blocked")
		}
		subject = screening.Subject{ID: "rec_1", Addresses: []string{"0x00000000000000000000000000000000deadbeef"}}
		if !screen(subject)["rec_1"] || len(hits(screening.Open)) != 2 {
			t.Errorf("a listed address is not blocked: %+v", hits(screening.Open))
		}
		confirmed := hits(screening.Open)[0]
		if confirmed.Kind != screening.KindAddress {
			confirmed = hits(screening.Open)[1]
		}
		testkit.Check(t, decide(confirmed.ID, screening.Confirmed))
		if !screen(subject)["rec_1"] {
			t.Error("a subject with a confirmed hit is not blocked")
		}
		if err := decide(confirmed.ID, screening.Cleared); err != nil {
			t.Errorf("a confirmed hit cannot be cleared: %v", err)
		}
		if !screen(subject)["rec_1"] {
			t.Error("a subject with another open hit is not blocked")
		}
		for _, h := range hits(screening.Open) {
			if err := decide(h.ID, screening.Cleared); err != nil {
				t.Error(err)
			}
		}
		if screen(subject)["rec_1"] {
			t.Error("a subject with only cleared hits is blocked")
		}
		var steps []db.Change
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			steps, err = db.Changes(ctx, tx, "com_1", confirmed.ID)
			return err
		}); err != nil || len(steps) != 3 || steps[2].To != string(screening.Cleared) ||
			steps[2].Reason != "Officer: born in another year" {
			t.Errorf("%+v, %v", steps, err)
		}
	})
}

func newScreener(t *testing.T, o screening.Options) *screening.Screener {
	t.Helper()
	s, err := screening.New(o)
	testkit.Check(t, err)
	return s
}

func TestNewRejectsInvalidOptions(t *testing.T) {
	for name, o := range map[string]screening.Options{
		"no threshold":          {},
		"a threshold over 100":  {Threshold: 101},
		"a negative age":        {Threshold: 85, MaxAge: -time.Hour},
		"a list without a path": {Threshold: 85, Paths: []string{""}},
	} {
		if _, err := screening.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestScreenFailsBeforeTheListsAreLoaded(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		s := newScreener(t, screening.Options{Threshold: 85})
		err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := s.Screen(ctx, tx, "com_1", []screening.Subject{{ID: "rec_1", Names: []string{"Ada Lovelace"}}})
			return err
		})
		if !errors.Is(err, screening.ErrUnavailable) {
			t.Errorf("got %v, want ErrUnavailable", err)
		}
	})
}
