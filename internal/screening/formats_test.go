package screening

import (
	"strings"
	"testing"
	"time"
)

const euList = `<?xml version="1.0" encoding="UTF-8"?>
<export xmlns="http://eu.europa.ec/fpi/fsd/export" generationDate="2026-05-06T17:02:47.983+02:00" globalFileId="1">
<sanctionEntity euReferenceNumber="EU.27.28" logicalId="13"><remark>x</remark>
<regulation programme="IRQ"><publicationUrl>u</publicationUrl></regulation><regulation programme="IRQ"/>
<subjectType code="person" classificationCode="P"/>
<nameAlias firstName="Vorname" lastName="Beispielmann" wholeName="Vorname Beispielmann" strong="true"/>
<nameAlias wholeName="Der Grosse Unbekannte" strong="false"/>
<nameAlias wholeName="Форнаме Бейспильман" strong="true"/></sanctionEntity>
<sanctionEntity logicalId="14"><subjectType code="enterprise" classificationCode="E"/>
<nameAlias firstName="" lastName="Exempel Shipping" wholeName="" strong="true"/></sanctionEntity>
</export>`

const ukList = `<Designations><DateGenerated>28/01/2026</DateGenerated>
<Designation><UniqueID>AFG0001</UniqueID><OFSIGroupID>1</OFSIGroupID><Names>
<Name><Name1>Samp</Name1><Name6>LEALIAS</Name6><NameType>Alias</NameType>
<AliasStrength>Good quality a.k.a</AliasStrength></Name>
<Name><Name6>WEAKLY KNOWN</Name6><NameType>Alias</NameType><AliasStrength>Low quality a.k.a</AliasStrength></Name>
<Name><Name1>Probe</Name1><Name2>von</Name2><Name6>MUSTERIUS</Name6><NameType>Primary Name</NameType></Name></Names>
<NonLatinNames><NonLatinName>
<NameNonLatinScript>Пробе Мустериус</NameNonLatinScript></NonLatinName></NonLatinNames>
<RegimeName>The Example Regulations 2020</RegimeName>
<IndividualEntityShip>Individual</IndividualEntityShip></Designation>
</Designations>`

const swissList = `<swiss-sanctions-list date="2026-03-04">
<sanctions-program ssid="1"><program-key lang="ger">Beispielland</program-key>
<program-key lang="eng">Exampleland</program-key>
<sanctions-set ssid="4387" lang="eng">x</sanctions-set></sanctions-program>
<place ssid="9"><location>Bern</location></place>
<target ssid="5142"><sanctions-set-id>4387</sanctions-set-id><individual sex="male"><identity ssid="2" main="true">
<name name-type="alias" quality="low"><name-part order="1"><value>Schattenfigur Nebel</value></name-part></name>
<name name-type="alias" quality="good"><name-part order="1"><value>Zweitname</value></name-part></name>
<name name-type="primary-name" quality="good"><name-part order="2"><value>Alexandr</value>
<spelling-variant lang="eng" script="LATN">Alexander</spelling-variant></name-part>
<name-part order="1"><value>Musterienko</value></name-part></name></identity></individual>
<modification modification-type="amended" effective-date="2016-01-01">
<removed><individual><identity><name>
<name-part order="1"><value>Frueherer Eintrag</value></name-part></name></identity></individual></removed>
</modification><modification modification-type="de-listed" effective-date="2015-01-01"/>
<modification modification-type="listed" effective-date="2016-01-01"/></target>
<target ssid="5144"><individual><identity main="true"><name name-type="primary-name">
<name-part order="1"><value>Entlastet Ehemals</value></name-part></name></identity></individual>
<modification modification-type="de-listed" effective-date="2016-03-01"/>
<modification modification-type="listed" effective-date="2012-03-01"/></target>
<target ssid="6"><entity><identity main="true"><name name-type="primary-name">
<name-part order="1"><value>Beispielbank AG</value></name-part></name></identity></entity></target>
</swiss-sanctions-list>`

const targets = `"id","schema","name","aliases","birth_date","countries","sanctions","dataset","last_change"
"Q1","Person","Beatrix Beispielhaft","Bea Beispielhaft;Беатрикс","1960","de","","Exposed Persons","2026-03-01T10:00:00"
"Q2","Organization","Musterministerium","","","de","Some program","Exposed Persons","2026-04-02T10:00:00"
`

// TestPublishedFormatsAreRead parses samples in the formats of the EU, the UK and Switzerland: names, aliases in other
// scripts, weak aliases and entries that were taken off the list.
func TestPublishedFormatsAreRead(t *testing.T) {
	for _, c := range []struct {
		text, name, published string
		entries               int
		matches               map[string]string // entry by name that is searched; "" for none
		programs              string            // of the first entry
		person                bool
	}{
		{euList, "EU", "2026-05-06", 2, map[string]string{"beispielmann, vorname": "EU EU.27.28",
			"Fornaje Bejspilman": "", "Форнаме Бейспильман": "EU EU.27.28", "Exempel Shipping": "EU 14",
			"Der Grosse Unbekannte": ""}, "IRQ", true},
		{ukList, "UK", "2026-01-28", 1, map[string]string{"Musterius Probe von": "UK AFG0001", "Samp Lealias": "UK AFG0001",
			"Weakly Known": "", "Пробе Мустериус": "UK AFG0001"}, "The Example Regulations 2020", true},
		{swissList, "SECO", "2026-03-04", 2, map[string]string{"Alexander Musterienko": "SECO 5142",
			"Musterienko Alexandr": "SECO 5142", "Zweitname": "SECO 5142", "Schattenfigur Nebel": "",
			"Frueherer Eintrag": "", "Entlastet Ehemals": "", "Beispielbank AG": "SECO 6"}, "Exampleland", true},
		{targets, "Targets", "2026-04-02", 2, map[string]string{"Beispielhaft Bea": "Targets Q1",
			"Musterministerium": "Targets Q2", "Niemand Hier": ""}, "Exposed Persons", true},
	} {
		l, err := Parse(strings.NewReader(c.text))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if l.Name != c.name || l.Published.Format(time.DateOnly) != c.published || l.Entries != c.entries {
			t.Errorf("%s of %s with %d entries, want %s of %s with %d", l.Name, l.Published, l.Entries, c.name, c.published,
				c.entries)
		}
		if e := l.entries[0]; strings.Join(e.Programs, ", ") != c.programs || e.Person != c.person {
			t.Errorf("%s: programs %v, person %v", c.name, e.Programs, e.Person)
		}
		for text, want := range c.matches {
			got := ""
			if found := l.Match(text, 95); len(found) > 0 {
				got = found[0].Entry.ID
			}
			if got != want {
				t.Errorf("%s: %q matches %q, want %q", c.name, text, got, want)
			}
		}
		for _, end := range []int{len(c.text) / 2, len(c.text) - 5} {
			if c.name == "Targets" {
				end -= 3 // in the middle of a quoted field
			}
			if _, err := Parse(strings.NewReader(c.text[:end])); err == nil {
				t.Errorf("%s: a truncated file is accepted", c.name)
			}
		}
	}
	if l, _ := Parse(strings.NewReader(ukList)); l.entries[0].Name != "Probe von MUSTERIUS" {
		t.Errorf("the primary name is %q", l.entries[0].Name)
	}
	for name, text := range map[string]string{
		"EU": `<export><sanctionEntity logicalId="1"><subjectType classificationCode="P"/>
</sanctionEntity></export>`,
		"a table without names":      "id,schema,aliases\n1,Person,x\n",
		"a table with an empty name": "id,schema,name,aliases\n1,Person,,\n",
		"UK":                         `<Designations><DateGenerated>2026-01-28</DateGenerated></Designations>`,
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: an entry without a name, or a date that is none, is accepted", name)
		}
	}
}
