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
		Reference: "S0000012", Payer: "Acme Research Laboratories", Entries: entries}
}

func entry(n int, cents int64) Entry {
	return Entry{ID: fmt.Sprintf("S0000012P%05d", n), Name: "Zoë Müller-Łukasz", Routing: "011000015",
		Account: fmt.Sprintf("1000%05d", n), Cents: cents, Description: Payroll,
		Effective: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)}
}

// A third-party reader reads the files and finds every value.
func TestAThirdPartyReaderReadsWrittenFiles(t *testing.T) {
	saver, firm := entry(2, 7), entry(3, 100_00)
	saver.Savings, firm.Company, firm.Description = true, true, Vendor
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
			h.CompanyName != "Acme Research La" || h.CompanyDiscretionaryData != "Example Payments Inc" ||
			h.CompanyEntryDescription != map[string]string{"PPD": "PAYROLL", "CCD": "VENDOR PMT"}[h.StandardEntryClassCode] ||
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

// Prenotes are entries of zero without a debit of the originator. A reversal debits the receiver and credits the
// originator.
func TestAThirdPartyReaderReadsPrenotesAndReversals(t *testing.T) {
	check, back := entry(1, 0), entry(2, 1234_56)
	check.Prenote, check.Savings, check.Description = true, true, Prenote
	back.Reversal, back.Description = true, Reversal
	body := testkit.Must(file(check, back).Write())
	got := testkit.Must(ach.NewReader(bytes.NewReader(body)).Read())
	testkit.Check(t, got.Validate())
	var lines []string
	for _, b := range got.Batches {
		for _, e := range b.GetEntries() {
			lines = append(lines, fmt.Sprint(b.GetHeader().ServiceClassCode, " ", b.GetHeader().CompanyEntryDescription, " ",
				e.TransactionCode, " ", strings.TrimSpace(e.DFIAccountNumber), " ", e.Amount))
		}
	}
	want := []string{"220 PRENOTE 33 100000001 0", "200 REVERSAL 27 100000002 123456", "200 REVERSAL 22 987654321 123456"}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	found, payer, ok := Find(body, back.ID)
	if !ok || payer != "Acme Research La" || found.Account != back.Account || found.Routing != back.Routing ||
		found.Cents != back.Cents || found.Savings || found.Company {
		t.Errorf("%+v, %q, %v", found, payer, ok)
	}
	if _, _, ok := Find(body, "S0000012P00009"); ok {
		t.Error("found a payment that is not in the file")
	}
}

func TestWriteRejectsInvalidFiles(t *testing.T) {
	change := func(f func(*Entry)) File {
		e := entry(1, 100)
		f(&e)
		return file(e)
	}
	changed := func(e Entry, f func(*Entry)) Entry { f(&e); return e }
	from := func(f func(*Originator)) File { all := file(entry(1, 100)); f(&all.Originator); return all }
	check, back, order := entry(1, 0), entry(1, 100), entry(1, 100)
	check.Prenote, check.Description = true, Prenote
	back.Reversal, back.Description = true, Reversal
	order.Company, order.CTX, order.Description, order.Addenda = true, true, Vendor, "x"
	for name, e := range map[string]Entry{"a prenote": check, "a reversal": back, "an order": order,
		"17 characters": changed(order, func(e *Entry) { e.Account = "12345678901234567" }),
		"9,999 records": changed(order, func(e *Entry) { e.Addenda = strings.Repeat("x", addendaWidth*maxLines) }),
		"the most":      changed(order, func(e *Entry) { e.Cents = MaxCents }),
	} {
		if _, err := file(e).Write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]File{
		"nothing":           file(),
		"an amount of 0":    change(func(e *Entry) { e.Cents = 0 }),
		"a prenote of 1":    change(func(e *Entry) { e.Prenote = true }),
		"not a reversal":    change(func(e *Entry) { e.Description = Reversal }),
		"a silent reversal": change(func(e *Entry) { e.Reversal = true }),
		"too large":         change(func(e *Entry) { e.Cents = MaxCents + 1 }),
		"a routing number":  change(func(e *Entry) { e.Routing = "011000016" }),
		"an account number": change(func(e *Entry) { e.Account = "123456789012345678" }),
		"an entry ID":       change(func(e *Entry) { e.ID = "1234567890123456" }),
		"no originator":     {Created: time.Now(), Entries: []Entry{entry(1, 1)}},
		"no day":            change(func(e *Entry) { e.Effective = time.Time{} }),
		"no description":    change(func(e *Entry) { e.Description = "" }),
		"a description":     change(func(e *Entry) { e.Description = "SUPPLIER PMT" }),
		"a company's pay":   change(func(e *Entry) { e.Company = true }),
		"an addenda":        change(func(e *Entry) { e.Addenda = strings.Repeat("x", 81) }),
		"a kind of debit":   file(debit(1, 1, "PPD")),
		"a debit's addenda": file(func() Entry { e := debit(1, 1, WebDebit); e.Addenda = "NTE*PMT*x\\"; return e }()),
		"a mixed file":      file(entry(1, 1), debit(2, 1, CompanyDebit)),

		"a prenote with an addenda": file(changed(check, func(e *Entry) { e.Addenda = "NTE*PMT*x\\" })),
		"a prenote of a debit":      file(changed(check, func(e *Entry) { e.Debit = CompanyDebit })),
		"a reversal of a debit":     file(changed(back, func(e *Entry) { e.Debit = CompanyDebit })),
		"a CTX prenote":             file(changed(check, func(e *Entry) { e.CTX, e.Company = true, true })),
		"a CTX entry to a person":   file(changed(order, func(e *Entry) { e.Company = false })),
		"an order of 10,000 records": file(changed(order, func(e *Entry) {
			e.Addenda = strings.Repeat("x",
				addendaWidth*maxLines+1)
		})),
		"a bank's routing number":      from(func(o *Originator) { o.ODFI = "091400607" }),
		"a destination":                from(func(o *Originator) { o.Destination = "091400607" }),
		"no account of the originator": from(func(o *Originator) { o.Account = "" }),
		"a long account of the originator": from(func(o *Originator) {
			o.Account = strings.Repeat("1", 18)
		}),
		"no identification":     from(func(o *Originator) { o.ID = "" }),
		"a long identification": from(func(o *Originator) { o.ID = "12345678901" }),
	} {
		if b, err := f.Write(); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
}

// A batch has up to 9,999 entries; the next entry begins another batch.
func TestBatchesAreSplitByNumber(t *testing.T) {
	var entries []Entry
	for n := range maxLines + 1 {
		entries = append(entries, entry(n+1, 1))
	}
	for n, want := range map[int]int{maxLines: 1, maxLines + 1: 2} {
		f := file(entries[:n]...)
		parts := testkit.Must(f.Parts())
		if parts[maxLines-1] != 1 || parts[n-1] != want {
			t.Errorf("%d entries: the last is in batch %d, want %d", n, parts[n-1], want)
		}
		if got := testkit.Must(Inspect(testkit.Must(f.Write()), f.Created, isWeekday)); len(got) != n+want {
			t.Errorf("%d entries: the bank reads %d", n, len(got))
		}
	}
}

// Entries with invoices, with notes and for other days are in batches of their own kinds, and a third-party reader
// finds the information about the payments.
func TestAThirdPartyReaderReadsAddendaAndSameDayBatches(t *testing.T) {
	bill, note, fast, plain := entry(1, 1234_05), entry(2, 200), entry(3, 300), entry(4, 400)
	bill.Company, bill.Description, bill.Addenda = true, Vendor, Remittance("2026*0017\\é", "ignored", 1234_05)
	note.Addenda = Remittance("", strings.Repeat("März ", 30), 200)
	fast.Effective, fast.Window = fast.Effective.AddDate(0, 0, -1), SameDayWindows[1].Date
	b := testkit.Must(file(bill, note, fast, plain).Write())
	got := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
	testkit.Check(t, got.Validate())
	var lines []string
	for _, b := range got.Batches {
		h := b.GetHeader()
		for _, e := range b.GetEntries() {
			if e.TransactionCode == ach.CheckingDebit {
				continue
			}
			line := strings.Join([]string{h.StandardEntryClassCode, h.CompanyEntryDescription, h.CompanyDescriptiveDate,
				h.EffectiveEntryDate, fmt.Sprint(e.Amount)}, "|")
			for _, a := range e.Addenda05 {
				line += "|" + strings.TrimSpace(a.PaymentRelatedInformation)
			}
			lines = append(lines, line)
		}
	}
	want := []string{
		`CCD|VENDOR PMT|260303|260303|123405|RMR*IV*2026 0017 e**1234.05\`,
		`PPD|PAYROLL|260303|260303|200|NTE*PMT*` + strings.Repeat("Marz ", 12)[:59] + `\`,
		`PPD|PAYROLL|260303|260303|400`,
		`PPD|PAYROLL|SD1700|260302|300`,
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if text := Remittance("", "  ", 1); text != "" {
		t.Errorf("%q without an invoice or a note", text)
	}
}

// An order without a text that X12 requires is not encoded: the bank would refuse the file.
func TestOrdersWithEmptyTextsAreRefused(t *testing.T) {
	advice := Advice{Reference: "S1", Payer: "Acme", Payee: "Ada", Invoice: "1", Note: "March", Cents: 100,
		Created: time.Date(2026, 3, 2, 14, 5, 0, 0, time.UTC), Effective: time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC)}
	if _, err := advice.Encode(); err != nil {
		t.Fatal(err)
	}
	for name, clear := range map[string]func(a *Advice){
		"invoice": func(a *Advice) { a.Invoice = "***" },
		"note":    func(a *Advice) { a.Note = "~\U0001F389" },
		"payer":   func(a *Advice) { a.Payer = "> >" },
		"payee":   func(a *Advice) { a.Payee = "\U0001F389" },
	} {
		empty := advice
		clear(&empty)
		if text, err := empty.Encode(); err == nil {
			t.Errorf("an order without the %s: %s", name, text)
		}
	}
}

// A CTX entry has an order of ANSI X12 in several addenda records, which a third-party reader reads and a bank accepts.
func TestAThirdPartyReaderReadsOrders(t *testing.T) {
	order := entry(1, 1234_05)
	order.Company, order.CTX, order.Description = true, true, Vendor
	advice := Advice{Reference: order.ID, Payer: "Acme*Research", Payee: "Zoë GmbH", Invoice: "2026-0017",
		Note: "Consulting in March ~ 12 hours", Cents: order.Cents, Created: time.Date(2026, 3, 2, 14, 5, 0, 0, time.UTC),
		Effective: order.Effective}
	order.Addenda = testkit.Must(advice.Encode())
	plain := entry(2, 200)
	b := testkit.Must(file(order, plain).Write())
	got := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
	testkit.Check(t, got.Validate())
	if class := got.Batches[0].GetHeader().StandardEntryClassCode; class != ach.CTX {
		t.Fatalf("the class is %s", class)
	}
	e, text := got.Batches[0].GetEntries()[0], ""
	for _, a := range e.Addenda05 {
		text += fmt.Sprintf("%-80s", a.PaymentRelatedInformation)
	}
	const want = `ISA*00*          *00*          *ZZ*Acme Research  *ZZ*Zoe GmbH       *260302*1405*U*00401*` +
		`000000001*0*P*>\GS*RA*Acme Research*Zoe GmbH*20260302*1405*1*X*004010\ST*820*0001\` +
		`BPR*C*1234.05*C*ACH*CTX***********20260303\` +
		`NTE*PMT*Consulting in March   12 hours\TRN*1*S0000012P00001\N1*PR*Acme Research\N1*PE*Zoe GmbH\ENT*1\` +
		`RMR*IV*2026-0017**1234.05\SE*9*0001\GE*1*1\IEA*1*000000001\`
	if strings.TrimSpace(text) != want || e.CATXAddendaRecordsField() != fmt.Sprintf("%04d", len(e.Addenda05)) ||
		strings.TrimSpace(e.CATXReceivingCompanyField()) != "Zoe Muller-Lukas" {
		t.Errorf("%s %q\n%s\nwant\n%s", e.CATXAddendaRecordsField(), e.CATXReceivingCompanyField(), text, want)
	}
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	entries, err := Inspect(b, at, isWeekday)
	if err != nil || entries[0].Addenda != want || entries[0].Name != "Zoe Muller-Lukas" || entries[0].Class != "CTX" {
		t.Errorf("%v %+v", err, entries)
	}
	found, _, ok := Find(b, order.ID)
	if !ok || !found.CTX || !found.Company || found.Name != "Zoe Muller-Lukas" || found.Cents != order.Cents {
		t.Errorf("%+v", found)
	}
	found.Reversal, found.Description, found.Effective = true, Reversal, order.Effective
	if _, err := Inspect(testkit.Must(file(found).Write()), at, isWeekday); err != nil {
		t.Errorf("its reversal: %v", err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"another amount":      {"BPR*C*1234.05", "BPR*C*1234.06", "does not pay the amount"},
		"another set":         {"ST*820", "ST*810", "not 820"},
		"a missing segment":   {`ENT*1\`, `ENT*1 `, "number of segments"},
		"no invoice":          {"IV*2026-0017**", "IV**2026-0017*", "no invoice"},
		"no remittance":       {`ENT*1\RMR*`, `ENT*1\REF*`, "not an order"},
		"another envelope":    {"GS*RA*", "GX*RA*", "not an order"},
		"a shorter envelope":  {"*ZZ*Zoe GmbH       *", `*ZZ*Zoe GmbH      *\`, "characters, not 105"},
		"a number too many":   {"Zoe Muller-Lukas    1", "Zoe Muller-Lukas    0", "disagrees with its indicator"},
		"records not in line": {"00020000001\n", "00030000001\n", "not numbered"},
	} {
		if !bytes.Contains(b, []byte(c.old)) {
			t.Fatalf("%s: the file has no %q:\n%s", name, c.old, b)
		}
		changed := bytes.Replace(b, []byte(c.old), []byte(c.new), 1)
		if _, err := Inspect(changed, at, isWeekday); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, change := range map[string]func(e *Entry){
		"to a person": func(e *Entry) { e.Company = false },
		"a debit":     func(e *Entry) { e.Debit = CompanyDebit },
	} {
		wrong := order
		change(&wrong)
		if _, err := file(wrong).Write(); err == nil {
			t.Errorf("%s is a CTX entry", name)
		}
	}
}

func isWeekday(day time.Time) bool {
	return day.Weekday() != time.Saturday && day.Weekday() != time.Sunday
}

// The entries of the originator's account are entries, too: those of a same-day batch are within the limit of same-day
// entries, and others within that of the amount.
func TestBatchesKeepTheLimitOfAnEntry(t *testing.T) {
	for name, c := range map[string]struct {
		cents, limit int64
		window       string
	}{
		"same day": {SameDayMaxCents / 5 * 2, SameDayMaxCents, SameDayWindows[2].Date},
		"next day": {MaxCents / 5 * 2, MaxCents, ""},
	} {
		var entries []Entry
		for n := range 5 {
			e := entry(n+1, c.cents)
			if e.Window = c.window; c.window != "" {
				e.Effective = e.Effective.AddDate(0, 0, -1)
			}
			entries = append(entries, e)
		}
		f := file(entries...)
		b := testkit.Must(f.Write())
		got := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
		testkit.Check(t, got.Validate())
		if len(got.Batches) != 3 {
			t.Errorf("%s: %d batches", name, len(got.Batches))
		}
		for _, batch := range got.Batches {
			for _, e := range batch.GetEntries() {
				if int64(e.Amount) > c.limit {
					t.Errorf("%s: an entry of %d cents", name, e.Amount)
				}
			}
		}
		if parts := testkit.Must(f.Parts()); fmt.Sprint(parts) != "[1 1 2 2 3]" {
			t.Errorf("%s: %v", name, parts)
		}
		if _, err := Inspect(b, time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), isWeekday); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range Schedules(b) {
			if s.Window != c.window || !s.Effective.Equal(entries[0].Effective) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
	large := entry(1, SameDayMaxCents+1)
	large.Window = SameDayWindows[0].Date
	if _, err := file(large).Write(); err == nil {
		t.Error("an entry above the limit settles on the same day")
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
		a.ChangeCode, a.OriginalTrace, a.OriginalDFI, a.CorrectedData, a.TraceNumber = code, trace, "01100001",
			"1918171614",
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
		written := testkit.Must(file().WriteResponses([]Response{{Code: code, ID: "S0000012P00001",
			Trace:     "091400600000001",
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

// debit returns a debit of a company's account.
func debit(n int, cents int64, kind Debit) Entry {
	e := entry(n, cents)
	e.ID, e.Description, e.Debit = fmt.Sprintf("D0000012P%05d", n), Funding, kind
	return e
}

// A third-party reader reads files of debits, and each batch credits the originator's account with its sum.
func TestAThirdPartyReaderReadsDebits(t *testing.T) {
	again, saver := debit(2, 7, CompanyDebit), debit(3, 500_00, WebDebit)
	again.Description, saver.Savings = Retry, true
	b := testkit.Must(file(debit(1, 1234_56, CompanyDebit), again, saver).Write())
	got := testkit.Must(ach.NewReader(bytes.NewReader(b)).Read())
	testkit.Check(t, got.Validate())
	var lines []string
	for _, b := range got.Batches {
		h := b.GetHeader()
		if c := b.GetControl(); c.TotalDebitEntryDollarAmount != c.TotalCreditEntryDollarAmount {
			t.Errorf("a batch is not balanced: %+v", c)
		}
		for _, e := range b.GetEntries() {
			lines = append(lines, fmt.Sprintf("%s %s %d %s %d", h.StandardEntryClassCode, h.CompanyEntryDescription,
				e.TransactionCode, strings.TrimSpace(e.IdentificationNumber), e.Amount))
		}
	}
	want := []string{
		"CCD FUNDING 27 D0000012P00001 123456", "CCD FUNDING 22 S0000012B00001 123456",
		"CCD RETRY PYMT 27 D0000012P00002 7", "CCD RETRY PYMT 22 S0000012B00002 7",
		"WEB FUNDING 37 D0000012P00003 50000", "WEB FUNDING 22 S0000012B00003 50000",
	}
	if fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", lines, want)
	}
	entries := testkit.Must(Inspect(b, time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), isWeekday))
	if len(entries) != 6 || !entries[0].Debit || entries[1].Debit || entries[4].Class != "WEB" {
		t.Errorf("%+v", entries)
	}
}
