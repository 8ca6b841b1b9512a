package nacha

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moov-io/ach"

	"github.com/stipend/stipend/internal/testkit"
)

var ours = Originator{
	Name: "Example Payments Inc.", ID: "1234567890", ODFI: "091400606", Account: "987654321", Destination: "091400606",
	DestinationName: "First Bank",
}

func file(entries ...Entry) File {
	return File{Originator: ours, Created: time.Date(2026, 3, 2, 14, 5, 0, 0, time.UTC), Modifier: 'B',
		Reference: "S0000012",
		Effective: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC), Entries: entries}
}

func entry(n int, cents int64) Entry {
	return Entry{ID: fmt.Sprintf("S0000012P%05d", n), Name: "Zoë Müller-Łukasz", Routing: "011000015",
		Account: fmt.Sprintf("1000%05d", n), Cents: cents}
}

// A third-party reader reads the files and finds every value.
func TestAThirdPartyReaderReadsWrittenFiles(t *testing.T) {
	saver, firm := entry(2, 7), entry(3, 100_00)
	saver.Savings, firm.Company = true, true
	b := testkit.Must(file(entry(1, 1234_56), saver, firm, entry(4, MaxCents), entry(5, MaxCents)).Write())
	got := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
	testkit.Check(t, got.Validate())
	type line struct {
		sec, code, id, account, name string
		cents                        int
	}
	var lines []line
	for _, b := range got.Batches {
		if h := b.GetHeader(); h.EffectiveEntryDate != "260303" || h.CompanyIdentification != "1234567890" ||
			h.ServiceClassCode != ach.MixedDebitsAndCredits {
			t.Errorf("%+v", h)
		}
		if c := b.GetControl(); c.TotalDebitEntryDollarAmount != c.TotalCreditEntryDollarAmount {
			t.Errorf("a batch is not balanced: %+v", c)
		}
		for _, e := range b.GetEntries() {
			lines = append(lines, line{b.GetHeader().StandardEntryClassCode, fmt.Sprint(e.TransactionCode),
				strings.TrimSpace(e.IdentificationNumber), strings.TrimSpace(e.DFIAccountNumber),
				strings.TrimSpace(e.IndividualName), e.Amount})
		}
	}
	name, own := "Zoe Muller-Lukasz", "Example Payments Inc."
	want := []line{
		{"PPD", "22", "S0000012P00001", "100000001", name, 1234_56}, {"PPD", "32", "S0000012P00002", "100000002", name, 7},
		{"PPD", "27", "S0000012B00001", "987654321", own, 1234_63},
		{"CCD", "22", "S0000012P00003", "100000003", name, 100_00}, {"CCD", "27", "S0000012B00002", "987654321", own, 100_00},
		{"PPD", "22", "S0000012P00004", "100000004", name, MaxCents},
		{"PPD", "27", "S0000012B00003", "987654321", own, MaxCents},
		{"PPD", "22", "S0000012P00005", "100000005", name, MaxCents},
		{"PPD", "27", "S0000012B00004", "987654321", own, MaxCents},
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("got\n%v\nwant\n%v", lines, want)
	}
	if h := got.Header; h.FileCreationDate != "260302" || h.FileCreationTime != "1405" || h.FileIDModifier != "B" ||
		h.ReferenceCode != "S0000012" {
		t.Errorf("%+v", h)
	}
	if len(b)%(10*(width+1)) != 0 {
		t.Errorf("%d bytes are not a multiple of the block size", len(b))
	}
}

func TestWriteRejectsInvalidFiles(t *testing.T) {
	change := func(f func(*Entry)) File {
		e := entry(1, 100)
		f(&e)
		return file(e)
	}
	for name, f := range map[string]File{
		"nothing":           file(),
		"an amount of 0":    change(func(e *Entry) { e.Cents = 0 }),
		"too large":         change(func(e *Entry) { e.Cents = MaxCents + 1 }),
		"a routing number":  change(func(e *Entry) { e.Routing = "011000016" }),
		"an account number": change(func(e *Entry) { e.Account = "123456789012345678" }),
		"an entry ID":       change(func(e *Entry) { e.ID = "1234567890123456" }),
		"no originator":     {Created: time.Now(), Effective: time.Now(), Entries: []Entry{entry(1, 1)}},
	} {
		if b, err := f.Write(); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
}

// back returns a file with one returned entry, written by a third-party library.
func back(t *testing.T, code, trace string) []byte {
	t.Helper()
	h := ach.NewBatchHeader()
	h.ServiceClassCode, h.CompanyName, h.CompanyIdentification, h.CompanyEntryDescription = ach.CreditsOnly, "Example",
		"1234567890", "RETURN"
	h.StandardEntryClassCode, h.EffectiveEntryDate, h.ODFIIdentification = ach.PPD, "260304", "01100001"
	e := ach.NewEntryDetail()
	e.TransactionCode = ach.CheckingReturnNOCCredit
	e.SetRDFI("091400606")
	e.DFIAccountNumber, e.Amount, e.IdentificationNumber, e.IndividualName, e.AddendaRecordIndicator = "100000001",
		1234_56, "S0000012P00001", "Zoe Muller", 1
	e.SetTraceNumber("01100001", 1)
	if code[0] == 'C' {
		h.StandardEntryClassCode, e.Amount = ach.COR, 0
		a := ach.NewAddenda98()
		a.ChangeCode, a.OriginalTrace, a.OriginalDFI, a.CorrectedData, a.TraceNumber = code, trace, "01100001", "1918171614",
			e.TraceNumber
		e.Addenda98, e.Category = a, ach.CategoryNOC
	} else {
		a := ach.NewAddenda99()
		a.ReturnCode, a.OriginalTrace, a.OriginalDFI, a.AddendaInformation, a.TraceNumber = code, trace, "01100001",
			"text of the bank", e.TraceNumber
		e.Addenda99, e.Category = a, ach.CategoryReturn
	}
	b := testkit.Must(ach.NewBatch(h))
	b.AddEntry(e)
	if err := b.Create(); err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	f := ach.NewFile()
	fh := ach.NewFileHeader()
	fh.ImmediateDestination, fh.ImmediateOrigin, fh.FileCreationDate, fh.FileCreationTime = "091400606", "011000015",
		"260304", "0900"
	f.SetHeader(fh)
	f.AddBatch(b)
	testkit.Check(t, f.Create())
	var out bytes.Buffer
	testkit.Check(t, ach.NewWriter(&out).Write(f))
	return out.Bytes()
}

// Every reason that the third-party library knows is read from files that it wrote, and has a text.
func TestReadReadsEveryReason(t *testing.T) {
	known := 0
	for _, letter := range "RC" {
		for n := 1; n < 100; n++ {
			code := fmt.Sprintf("%c%02d", letter, n)
			if letter == 'R' && ach.LookupReturnCode(code) == nil || letter == 'C' && ach.LookupChangeCode(code) == nil {
				continue
			}
			if letter == 'C' && n >= 60 {
				continue // refused notifications, which only the receiving bank gets
			}
			known++
			if ReasonText(code) == "" {
				t.Errorf("%s has no text", code)
			}
			if dishonored := code >= "R61" && code <= "R77"; dishonored {
				continue // their addenda record differs; see TestAThirdPartyReaderReadsWrittenResponses
			}
			got, err := Read(bytes.NewReader(back(t, code, "091400600000001")))
			if err != nil {
				t.Errorf("%s: %v", code, err)
				continue
			}
			want := Response{Code: code, ID: "S0000012P00001", Trace: "091400600000001", Name: "Zoe Muller", Cents: 1234_56,
				Info: "text of the bank"}
			if letter == 'C' {
				want.Cents, want.Info, want.Corrected = 0, "", "1918171614"
			}
			if len(got.Responses) != 1 || got.Responses[0] != want || got.Responses[0].IsChange() != (letter == 'C') ||
				got.Responses[0].Dishonored() {
				t.Errorf("%s: %+v", code, got.Responses)
			}
		}
	}
	if known < 60 {
		t.Errorf("%d reasons", known)
	}
}

// Correction reads the data of every change code as the third-party library does, and rejects codes that are not
// about the receiver's account.
func TestCorrectionReadsTheDataOfEachCode(t *testing.T) {
	all := Correction{Routing: "021000021", Account: "1918171614", Name: "Ada Q Example", Type: "savings"}
	for code, want := range map[string]Correction{
		"C01": {Account: all.Account}, "C02": {Routing: all.Routing}, "C03": {Routing: all.Routing, Account: all.Account},
		"C04": {Name: all.Name},
		"C05": {Type: all.Type}, "C06": {Account: all.Account, Type: all.Type},
		"C07": {Routing: all.Routing, Account: all.Account, Type: all.Type},
	} {
		written := testkit.Must(file().WriteResponses([]Response{{Code: code, ID: "S0000012P00001", Trace: "091400600000001",
			Name:      "Zoe",
			Corrected: all.Corrected(code)}}))
		got := testkit.Must(Read(bytes.NewReader(written)))
		if c, err := got.Responses[0].Correction(); err != nil || c != want {
			t.Errorf("%s: %+v, %v; want %+v", code, c, err, want)
		}
		theirs := testkit.Must(ach.NewReader(bytes.NewReader(written)).Read())
		data := theirs.NotificationOfChange[0].GetEntries()[0].Addenda98.ParseCorrectedData()
		if data == nil || data.AccountNumber != want.Account || data.RoutingNumber != want.Routing ||
			data.Name != want.Name ||
			(data.TransactionCode == ach.SavingsCredit) != (want.Type == "savings") {
			t.Errorf("%s: the third-party library reads %+v in %q", code, data, all.Corrected(code))
		}
		for _, wrong := range []string{"", "x"} {
			if c, err := (Response{Code: code, Corrected: wrong}).Correction(); err == nil &&
				(wrong == "" || code != "C01" && code != "C04") {
				t.Errorf("%s: %q is %+v", code, wrong, c)
			}
		}
	}
	for _, code := range []string{"C08", "C09", "C10", "C11", "C12", "C13", "C14", "R03", ""} {
		if c, err := (Response{Code: code, Corrected: "1918171614"}).Correction(); err == nil {
			t.Errorf("%s: %+v", code, c)
		}
	}
}

// The third-party library reads the responses that the simulated bank writes.
func TestAThirdPartyReaderReadsWrittenResponses(t *testing.T) {
	want := []Response{
		{Code: "R03", ID: "S0000012P00001", Trace: "091400600000001", Name: "Zoe", Cents: 5, Info: "no account"},
		{Code: "C01", ID: "S0000012P00002", Trace: "091400600000002", Name: "Zoe", Corrected: "1918171614"},
		{Code: "R61", ID: "S0000012P00003", Trace: "091400600000003", Name: "Zoe", Cents: 6, Debit: true},
	}
	b := testkit.Must(file().WriteResponses(want))
	got, err := Read(bytes.NewReader(b))
	if err != nil || fmt.Sprint(got.Responses) != fmt.Sprint(want) || !got.Responses[2].Dishonored() {
		t.Errorf("%+v, %v", got, err)
	}
	b = testkit.Must(file().WriteResponses(want[:2]))
	theirs := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
	if len(theirs.ReturnEntries) != 1 || len(theirs.NotificationOfChange) != 1 ||
		theirs.ReturnEntries[0].GetEntries()[0].Addenda99.ReturnCode != "R03" {
		t.Errorf("%+v", theirs)
	}
}

func TestReadRejectsInconsistentFiles(t *testing.T) {
	good := string(back(t, "R03", "091400600000001"))
	if _, err := Read(strings.NewReader(strings.ReplaceAll(good, "\n", "\r\n"))); err != nil {
		t.Error(err)
	}
	if _, err := Read(strings.NewReader(strings.ReplaceAll(good, "\n", ""))); err != nil {
		t.Error(err)
	}
	lines := strings.SplitAfter(good, "\n")
	for name, bad := range map[string]string{
		"another amount":     strings.Replace(good, "0000123456", "0000123457", 1),
		"no end":             strings.Join(lines[:5], ""),
		"an entry less":      lines[0] + lines[1] + strings.Join(lines[4:], ""),
		"no header":          strings.Join(lines[1:], ""),
		"two headers":        lines[0] + good,
		"a batch in another": lines[0] + lines[1] + strings.Join(lines[1:], ""),
		"a lone addenda":     lines[0] + lines[1] + strings.Join(lines[3:], ""),
		"twice returned":     strings.Join(lines[:4], "") + strings.Join(lines[3:], ""),
		"more behind":        good + lines[1],
		"another record":     lines[0] + "2" + good[96:],
		"no digits":          strings.Replace(good, "0000123456", "00x0123456", 1),
		"an invalid reason":  strings.Replace(good, "799R03", "799RXX", 1),
		"invalid characters": strings.Replace(good, "text", "te\x01t", 1),
		"nothing":            "",
	} {
		if got, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	b := testkit.Must(file().WriteResponses([]Response{
		{Code: "R03", ID: "S0000012P00001", Trace: "091400600000001", Cents: 5}, {Code: "C01", ID: "x", Corrected: "1"}}))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Read(bytes.NewReader(b))
		if err == nil && len(got.Responses) > len(b)/width {
			t.Errorf("%d responses in %d bytes", len(got.Responses), len(b))
		}
	})
}
