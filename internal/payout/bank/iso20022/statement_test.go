package iso20022

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

func day(text string) time.Time {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return t
}

func eur(cents int64) money.Amount { return money.New(money.EUR, cents) }

type read struct {
	statements []Statement
	entries    []Entry
}

func readAll(in io.Reader) (all read, err error) {
	err = ReadStatements(in, func(s *Statement, e *Entry) error {
		if e == nil {
			all.statements = append(all.statements, *s)
		} else {
			all.entries = append(all.entries, *e)
		}
		return nil
	})
	return all, err
}

func readFile(t *testing.T, name string) read {
	t.Helper()
	f := testkit.Must(os.Open(filepath.Join("testdata", name)))
	defer f.Close()
	return testkit.Must(readAll(f))
}

var same = cmp.Options{cmp.AllowUnexported(money.Amount{}), cmpopts.EquateErrors()}

func TestReadStatementsReadsAllFields(t *testing.T) {
	got := readFile(t, "camt053_v08.xml")
	want := []Statement{{
		Message: BankStatement, File: "STM-20260302", ID: "STM-20260302-1", Sequence: "42",
		Created: time.Date(2026, 3, 2, 20, 5, 0, 0, time.UTC),
		From:    time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 2, 22, 59, 59, 0, time.UTC),
		Account: "DE89370400440532013000", Currency: "EUR", Owner: "Example Payments GmbH", Bank: "COBADEFFXXX",
		Balances: []Balance{{"OPBD", eur(1000_00), day("2026-03-02")}, {"CLBD", eur(-21_50), day("2026-03-02")}},
	}}
	if diff := cmp.Diff(want, got.statements, same); diff != "" {
		t.Error(diff)
	}
	if len(got.entries) != 4 {
		t.Fatalf("%d entries", len(got.entries))
	}
	credit := Entry{
		Reference: "1", Servicer: "SRV1", Amount: eur(250_00), Credit: true, Status: "BOOK", Booked: day("2026-03-02"),
		Valued: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Type: Type{"PMNT", "RCDT", "ESCT", "NTRF+166"},
		Details: []Detail{{
			EndToEndID: "INV-77", UETR: "eb6305c9-1f7f-49de-aed0-16487c27b42d", Amount: eur(250_00), Credit: true,
			Type:   Type{"PMNT", "RCDT", "ESCT", "NTRF+166"},
			Debtor: Party{"Müller & Söhne", "NL91ABNA0417164300", "ABNANL2A"}, UltimateDebtor: "Anna Müller",
			Remittance: []string{"payroll prl_1", "March"}, Creditors: []string{"RF18539007547034"},
		}},
	}
	if diff := cmp.Diff(credit, got.entries[0], same); diff != "" {
		t.Error(diff)
	}
	if b := got.entries[1].Batch; b != (Batch{"STP1", "STP1-1"}) {
		t.Errorf("a batch of %+v", b)
	}
	batch := got.entries[1].Details
	if len(batch) != 2 || batch[0].Amount != eur(800_00) || batch[0].EndToEndID != "out_a" ||
		batch[0].PaymentInfoID != "STP1-1" || batch[0].Credit ||
		batch[1].Amount != eur(500_00) || len(batch[1].Charges) != 1 || batch[1].Charges[0] != (Charge{eur(20), false}) {
		t.Errorf("a batch: %+v", batch)
	}
	back := got.entries[2]
	if d := back.Details[0]; !back.Reversal || back.Final() || !d.Type.Returned() || d.ReturnReason != "AC04" ||
		d.ReturnInfo[0] != "account closed" ||
		d.Amount != eur(28_50) || !d.Credit || back.Info != "return" {
		t.Errorf("a return: %+v", back)
	}
	if bad := got.entries[3]; bad.Err == nil || !strings.Contains(bad.Err.Error(), `"1.2.3" is not an amount of EUR`) ||
		bad.Reference != "4" {
		t.Errorf("an amount that is none: %+v", bad)
	}
}

func TestReadStatementsReadsOldVersionsAndNotifications(t *testing.T) {
	old := readFile(t, "camt053_v02.xml")
	yen := money.New(money.JPY, 5000)
	entry := Type{Proprietary: "166"}
	want := []Entry{{
		Amount: yen, Credit: true, Status: "BOOK", Booked: day("2026-03-02"), Type: entry,
		Details: []Detail{{Amount: yen, Credit: true, Type: entry, Charges: []Charge{{money.New(money.JPY, 30), false}},
			Debtor: Party{"Jörg Müller", "123456", "ABNANL2A"}}},
	}}
	if diff := cmp.Diff(want, old.entries, same); diff != "" {
		t.Error(diff)
	}
	if s := old.statements[0]; s.Account != "55779911" || s.Bank != "COBADEFF" ||
		s.Created != time.Date(2026, 3, 2, 21, 5, 0, 0, time.UTC) {
		t.Errorf("%+v", s)
	}
	note := readFile(t, "camt054.xml")
	if s := note.statements[0]; s.Message != Notification || s.ID != "NTF-1-1" {
		t.Errorf("%+v", s)
	}
	if d := note.entries[0].Details[0]; d.EndToEndID != "X1" || d.Amount != eur(12_00) || d.Debtor.Name != "A bank" {
		t.Errorf("%+v", d)
	}
}

// A written statement is read back unchanged.
func TestWrittenStatementsAreReadUnchanged(t *testing.T) {
	for _, name := range []string{"camt053_v08.xml", "camt054.xml"} {
		first := readFile(t, name)
		var out bytes.Buffer
		w := testkit.Must(WriteStatement(&out, first.statements[0]))
		var entries []Entry
		for _, e := range first.entries {
			if e.Err != nil {
				continue
			}
			e.Valued = e.Valued.Truncate(24 * time.Hour)
			entries = append(entries, e)
			testkit.Check(t, w.Entry(e))
		}
		testkit.Check(t, w.Close())
		again := testkit.Must(readAll(&out))
		if diff := cmp.Diff(read{first.statements, entries}, again, same, cmp.AllowUnexported(read{})); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := WriteStatement(io.Discard, Statement{File: strings.Repeat("x", 36), ID: "1", Account: "1",
		Created: day("2026-03-02")}); err == nil {
		t.Error("an identification of 36 characters")
	}
	for message, balances := range map[Message][]Balance{Notification: {{"OPBD", eur(1), day("2026-03-02")}},
		AccountReport: nil} {
		if _, err := WriteStatement(io.Discard, Statement{Message: message, File: "1", ID: "1", Account: "1",
			Created: day("2026-03-02"), Balances: balances}); err == nil {
			t.Errorf("%s was written", message)
		}
	}
	w := testkit.Must(WriteStatement(io.Discard, Statement{File: "1", ID: "1", Account: "1", Created: day("2026-03-02")}))
	if err := w.Entry(Entry{Amount: eur(-1)}); err == nil {
		t.Error("a negative booking")
	}
}

// document returns a statement with one entry that has the given content.
func document(entry string) string {
	return `<Document><BkToCstmrStmt><GrpHdr><MsgId>1</MsgId></GrpHdr><Stmt><Id>1</Id><Ntry>` + entry +
		`</Ntry></Stmt></BkToCstmrStmt></Document>`
}

func TestReadStatementsRejectsHostileMessagesInBoundedMemory(t *testing.T) {
	long := strings.Repeat("x", maxPart+10_000)
	for name, c := range map[string]struct {
		in   io.Reader
		much bool
	}{
		"a document type": {strings.NewReader(`<!DOCTYPE x [<!ENTITY a "b">]>` + document(`<NtryRef>1</NtryRef>`)),
			false},
		"an entity":       {strings.NewReader(document(`<NtryRef>&a;</NtryRef>`)), false},
		"another message": {strings.NewReader(`<Document><CstmrCdtTrfInitn/></Document>`), false},
		"another root":    {strings.NewReader(`<html/>`), false},
		"nothing":         {strings.NewReader(``), false},
		"an end too early": {strings.NewReader(strings.TrimSuffix(document(`<NtryRef>1</NtryRef>`), "</Document>")),
			false},
		"crossed elements":       {strings.NewReader(document(`<NtryDtls></Ntry></NtryDtls>`)), false},
		"an unknown encoding":    {strings.NewReader(`<?xml version="1.0" encoding="ebcdic"?><Document/>`), false},
		"deep nesting":           {strings.NewReader(document(strings.Repeat("<A>", 10_000))), true},
		"deep nesting elsewhere": {strings.NewReader(`<Document><BkToCstmrStmt>` + strings.Repeat("<A>", 10_000)), true},
		"a long text":            {strings.NewReader(document("<NtryRef>" + long)), true},
		"a long attribute":       {strings.NewReader(document(`<NtryRef a="` + long)), true},
		"a long comment":         {strings.NewReader(document(`<!--` + long)), true},
		"many charges": {strings.NewReader(document(`<NtryDtls><TxDtls>` + strings.Repeat("<Chrgs/>", maxTokens))),
			true},
		"many balances": {strings.NewReader(`<Document><BkToCstmrStmt><Stmt>` +
			strings.Repeat(`<Bal><Amt Ccy="EUR">1</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>`, 101)), true},
		"many transactions": {strings.NewReader(document(`<NtryDtls>` + strings.Repeat("<TxDtls/>", maxUnits+1))), true},
		"endless statements": {io.MultiReader(strings.NewReader(`<Document><BkToCstmrStmt>`),
			endless(`<Stmt><Id>1</Id></Stmt>`)), true},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ReadStatements(c.in, func(*Statement, *Entry) error { return nil })
			runtime.ReadMemStats(&after)
			if err == nil || errors.Is(err, ErrTooMuch) != c.much {
				t.Errorf("error %v", err)
			}
			if grown := int64(after.Sys) - int64(before.Sys); grown > 256<<20 {
				t.Errorf("took %d MiB of memory", grown>>20)
			}
		})
	}
}

type endlessReader struct {
	text string
	at   int
}

func endless(text string) io.Reader { return &endlessReader{text: text} }

func (r *endlessReader) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		c := copy(b[n:], r.text[r.at:])
		n += c
		r.at = (r.at + c) % len(r.text)
	}
	return n, nil
}

// ReadStatements stops at the first error of its callback and returns it.
func TestReadStatementsStopsAtAnErrorOfItsCallback(t *testing.T) {
	enough := errors.New("enough")
	n := 0
	err := ReadStatements(io.MultiReader(strings.NewReader(`<Document><BkToCstmrStmt><Stmt>`),
		endless(`<Ntry><Amt Ccy="EUR">1</Amt></Ntry>`)), func(_ *Statement, e *Entry) error {
		if n++; n > 1000 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestAmountsHaveOnlyDigitsAndAPoint(t *testing.T) {
	for text, want := range map[string]string{"1": "1.00", "0012.30": "12.30", " 5 ": "5.00", "1e2": "", "-1": "",
		"+1": "", "1,00": "", "": "", ".": "", "1.234": "",
		"92233720368547758.07": "92233720368547758.07", "92233720368547758.08": ""} {
		got, err := Amount{"EUR", text}.Money()
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, currency := range []string{"", "XXX", "BTC", "eur"} {
		if _, err := (Amount{currency, "1"}).Money(); err == nil {
			t.Errorf("%q is a currency", currency)
		}
	}
}

func TestIsIBANChecksTheCheckDigits(t *testing.T) {
	for number, want := range map[string]bool{"DE89370400440532013000": true, "DE88370400440532013000": false,
		"NO9386011117947": true, "NL91 ABNA": false, "123456789012345": false} {
		if IsIBAN(number) != want {
			t.Errorf("%s: %v", number, !want)
		}
	}
}

var byText = cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })

// No input makes the reader panic or loop, and reading twice gives the same result.
func FuzzReadStatements(f *testing.F) {
	for _, name := range []string{"camt053_v08.xml", "camt053_v02.xml", "camt054.xml"} {
		b := testkit.Must(os.ReadFile(filepath.Join("testdata", name)))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := readAll(bytes.NewReader(b))
		again, twice := readAll(bytes.NewReader(b))
		if fmt.Sprint(err) != fmt.Sprint(twice) ||
			!cmp.Equal(first, again, cmp.AllowUnexported(money.Amount{}, read{}), byText) {
			t.Errorf("%v and then %v", err, twice)
		}
	})
}
