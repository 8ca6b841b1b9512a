package nacha

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/testkit"
)

// The bank accepts what this package writes.
func TestInspectReturnsTheEntriesOfAFile(t *testing.T) {
	bill, fast := entry(1, 1234_05), entry(2, SameDayMaxCents)
	bill.Company, bill.Description, bill.Addenda = true, Vendor, Remittance("2026-0017", "", 1234_05)
	fast.Effective = fast.Effective.AddDate(0, 0, -1)
	b := testkit.Must(file(bill, fast, entry(3, MaxCents)).Write())
	got := testkit.Must(Inspect(b, time.Date(2026, 3, 2, 16, 45, 0, 0, time.UTC), isWeekday))
	if len(got) != 6 || got[0].ID != bill.ID || got[0].Class != "CCD" || got[0].Addenda != bill.Addenda ||
		got[0].Company != "Acme Research La" || got[0].Cents != bill.Cents || got[0].Debit || !got[1].Debit ||
		got[2].Account != "100000002" || got[2].Description != Payroll || !got[2].Effective.Equal(fast.Effective) {
		t.Errorf("%+v", got)
	}
}

func TestInspectRefusesWhatABankRefuses(t *testing.T) {
	bill := entry(1, 1234_05)
	bill.Company, bill.Description, bill.Addenda = true, Vendor, Remittance("2026-0017", "", 1234_05)
	tomorrow := entry(2, SameDayMaxCents+1)
	text := func(entries ...Entry) string { return string(testkit.Must(file(entries...).Write())) }
	// sameDay is a file whose entries settle on the day on which it arrives.
	sameDay := func(entries ...Entry) string {
		return strings.ReplaceAll(text(entries...), "260303260303", "260302260302")
	}
	pay, vendor := text(entry(1, 100)), text(bill)
	day := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	at := func(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }
	fast := tomorrow
	fast.Cents--
	fast.Effective = fast.Effective.AddDate(0, 0, -1)
	other := fast
	other.ID = "S00000012P00003"
	sum := sameDay(entry(1, SameDayMaxCents-1), entry(2, 2))
	in := func(i int) string { e := fast; e.Window = SameDayWindows[i].Date; return text(e) }
	zero := totaled(strings.NewReplacer("0000000100S0000012P", "0000000000S0000012P", "0000000100S0000012B",
		"0000000000S0000012B").Replace(pay))
	header, batch := strings.Split(pay, "\n")[0], strings.Split(pay, "\n")[1]
	nines := func(n int) []string { return slices.Repeat([]string{strings.Repeat("9", width)}, n) }
	for name, c := range map[string]struct {
		file, old, new, want string
		at                   time.Time
	}{
		"PAYROLL to a company":     {vendor, "VENDOR PMT", "PAYROLL   ", "PAYROLL is for PPD credits", day},
		"PURCHASE as a credit":     {pay, "PAYROLL   ", "PURCHASE  ", "PURCHASE in WEB debits only", day},
		"no description":           {pay, "PAYROLL   ", "          ", "description is missing", day},
		"another class":            {pay, "PPDPAYROLL", "TELPAYROLL", `class "TEL"`, day},
		"an international entry":   {pay, "PPDPAYROLL", "IATPAYROLL", `class "IAT"`, day},
		"no company name":          {pay, "5200Acme Research La", "5200                ", "company name", day},
		"a prenote with an amount": {pay, "622011000015", "623011000015", "a prenote has one", day},
		"a Sunday":                 {pay, "260303   1", "260301   1", "not a banking day", day},
		"too large for today":      {sameDay(tomorrow), "", "", "limit of an entry that settles on the same day", day},
		"too late for today":       {text(fast), "", "", "too late", at(16, 46)},
		"too late for a window":    {in(0), "", "", `window "SD1300"`, at(10, 31)},
		"too late for the second":  {in(1), "", "", `window "SD1700"`, at(14, 46)},
		"too late for the third":   {in(2), "", "", `window "SD1800"`, at(16, 46)},
		"an unknown window":        {in(0), "SD1300", "SD1200", "does not exist", at(9, 0)},
		"an amount of zero":        {zero, "", "", "the amount is zero", day},
		"no company identification": {pay, "Payments Inc1234567890PPD", "Payments Inc          PPD",
			"identification is missing", day},
		"another identification": {pay, "Payments Inc1234567890PPD", "Payments Inc1234567891PPD",
			"does not match the header", day},
		"no destination":      {pay, "101 091400606", "101          ", "the file header is invalid", day},
		"a wrong destination": {pay, "101 091400606", "101 091400607", "the file header is invalid", day},
		"no origin":           {pay, "1234567890260302", "          260302", "the file header is invalid", day},
		"another format":      {pay, "B094101", "B094102", "the file header is invalid", day},
		"no account number": {pay, "100000001        ", "                 ",
			"account number or the name is missing", day},
		"a trace of another bank":    {pay, "0091400600000001\n6", "0011000010000001\n6", "of another bank", day},
		"a day that is no date":      {pay, "260303   1", "26XX03   1", "not a banking day", day},
		"too large for a window":     {text(tomorrow), "260303260303", "SD1300260303", "limit of an entry", at(9, 0)},
		"too large a debit":          {sum, "", "", "limit of an entry", at(9, 0)},
		"yesterday":                  {text(fast), "", "", "before the day on which the file arrived", at(24+9, 0)},
		"an addenda without a mark":  {vendor, "Lukasz       1", "Lukasz       0", "indicator", day},
		"a mark without an addenda":  {pay, "Lukasz       0", "Lukasz       1", "indicator", day},
		"free text in an addenda":    {vendor, `RMR*IV*2026-0017**1234.05\`, "Invoice number 2026-0017  ", "X12", day},
		"another entry's addenda":    {vendor, "00010000001\n", "00010000002\n", "not the first one", day},
		"a check digit":              {pay, "622011000015", "622011000016", "routing number", day},
		"an unknown kind of entry":   {pay, "622011000015", "621011000015", "transaction code", day},
		"no name":                    {pay, "Zoe Muller-Lukasz", "                 ", "name is missing", day},
		"traces that do not ascend":  {pay, "091400600000002", "091400600000001", "does not ascend", day},
		"a control of another batch": {pay, "091400600000001\n9", "091400600000002\n9", "batch control", day},
		"another service class": {strings.ReplaceAll(pay, "\n5200", "\n5220"), "\n8200", "\n8220", "service class",
			day},
		"an empty record": {strings.Replace(pay, strings.Repeat("9", 94)+"\n", "", 1), "\n5", "\n\n5",
			"it has 0 characters", day},
		"a wrong number of blocks": {pay, "\n9000001000001", "\n9000001000002", "000002 blocks of ten records", day},
		"a file without a batch": {strings.Join(append([]string{header, "9000000000001" + strings.Repeat("0", 42) +
			strings.Repeat(" ", 39)}, nines(8)...), "\n") + "\n", "", "", "no batch", day},
		"a batch without an entry": {strings.Join(append([]string{header, batch, "8" + batch[1:4] + strings.Repeat("0", 40) +
			batch[40:50] + strings.Repeat(" ", 25) + batch[79:], "9000001000001" + strings.Repeat("0", 42) +
			strings.Repeat(" ", 39)}, nines(6)...), "\n") + "\n", "", "", "the batch has no entry", day},
		"batch numbers that do not ascend": {text(entry(1, 100), bill), "1091400600000002\n6", "1091400600000001\n6",
			"batch number 0000001 does not ascend", day},
		"records left out": {pay, strings.Repeat("9", 94) + "\n", "", "multiple of ten", day},
	} {
		body := c.file
		if c.old != "" {
			if !strings.Contains(body, c.old) {
				t.Fatalf("%s: the file has no %q:\n%s", name, c.old, body)
			}
			body = strings.Replace(body, c.old, c.new, 1)
		}
		if got, err := Inspect([]byte(body), c.at, isWeekday); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %+v; want %q", name, err, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		file string
		at   time.Time
	}{
		"tomorrow": {pay, day}, "today": {text(fast), at(16, 45)}, "the first window": {in(0), at(10, 30)},
		"the second window": {in(1), at(14, 45)}, "the third window": {in(2), at(16, 45)},
		"two entries that are each within the limit": {text(fast, other), at(16, 45)},
	} {
		if _, err := Inspect([]byte(c.file), c.at, isWeekday); err != nil {
			t.Errorf("the unchanged file, %s: %v", name, err)
		}
	}
}

// totaled returns a file of one batch with the counts, hashes and sums of its entries, in whole blocks.
func totaled(body string) string {
	var lines []string
	var count, hash, debits, credits int64
	for _, l := range strings.Split(strings.TrimRight(body, "9\n"), "\n") {
		switch l[0] {
		case '6':
			prefix, _ := strconv.ParseInt(l[3:11], 10, 64)
			cents, _ := strconv.ParseInt(l[29:39], 10, 64)
			hash += prefix
			if l[2] == '7' {
				debits += cents
			} else {
				credits += cents
			}
			count++
		case '7':
			count++
		case '8':
			l = l[:4] + fmt.Sprintf("%06d%010d%012d%012d", count, hash, debits, credits) + l[44:]
		case '9':
			l = l[:7] + fmt.Sprintf("%06d%08d%010d%012d%012d", 1, count, hash, debits, credits) + l[55:]
		}
		lines = append(lines, l)
	}
	for len(lines)%10 != 0 {
		lines = append(lines, strings.Repeat("9", width))
	}
	return strings.Join(lines, "\n") + "\n"
}

// A batch is balanced by its last entry, on an account at the originator's bank. Its description, class and service
// class fit the direction of the others.
func TestInspectWantsBalancedBatches(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	pay, fund, web := entry(1, 100), debit(1, 100, CompanyDebit), debit(1, 100, WebDebit)
	other, back, check := pay, pay, entry(1, 0)
	other.Description, back.Description, back.Reversal = Other, Reversal, true
	check.Prenote, check.Description = true, Prenote
	text := func(e ...Entry) string { return string(testkit.Must(file(e...).Write())) }
	// alone returns a file without the entry of the originator, whose batch has the service class.
	alone := func(body, class string) string {
		var lines []string
		for _, l := range strings.Split(body, "\n") {
			if !strings.HasPrefix(l, "6") || !strings.Contains(l, "S0000012B") {
				lines = append(lines, l)
			}
		}
		return totaled(strings.NewReplacer("\n5200", "\n5"+class, "\n8200", "\n8"+class).Replace(strings.Join(lines,
			"\n")))
	}
	for name, c := range map[string]struct{ file, want string }{
		"pay":                {text(pay), ""},
		"other":              {text(other), ""},
		"a company's debit":  {text(fund), ""},
		"a consumer's debit": {text(web), ""},
		"a reversal":         {text(back), ""},
		"prenotes":           {text(check), ""},
		"a purchase":         {strings.Replace(text(web), "FUNDING   ", "PURCHASE  ", 1), ""},
		"a single purchase":  {strings.Replace(text(web), "R 0091", "S 0091", 1), ""},
		"a purchase by a company": {strings.Replace(text(fund), "FUNDING   ", "PURCHASE  ", 1),
			"PURCHASE in WEB debits only"},
		"a purchase by PPD": {strings.Replace(text(back), "REVERSAL  ", "PURCHASE  ", 1),
			"PURCHASE in WEB debits only"},
		"a debit as PAYROLL": {strings.Replace(text(back), "REVERSAL  ", "PAYROLL   ", 1),
			"PAYROLL is for PPD credits"},
		"a WEB debit of unknown terms": {strings.Replace(text(web), "R 0091", "  0091", 1), "single or recurring"},
		"a WEB credit": {strings.NewReplacer("PPDPAYMENT", "WEBPAYMENT", "Inc.   0",
			"Inc. S 0").Replace(text(other)), "between people"},
		"a credit as PURCHASE": {strings.NewReplacer("PPDPAYMENT   ", "WEBPURCHASE  ",
			"Lukasz       0", "Lukasz     S 0", "Inc.   0", "Inc. S 0").Replace(text(other)), "PURCHASE in WEB debits only"},
		"mixed, without a debit":     {alone(text(pay), "200"), "not balanced"},
		"credits only":               {alone(text(pay), "220"), "not balanced"},
		"debits only":                {alone(text(fund), "225"), "not balanced"},
		"a credit among debits only": {alone(text(pay), "225"), "service class code"},
		"a debit among credits only": {alone(text(fund), "220"), "service class code"},
		"an unknown service class": {strings.NewReplacer("\n5200", "\n5300", "\n8200", "\n8300").Replace(text(pay)),
			`class code "300"`},
		"a debit at another bank": {totaled(strings.Replace(text(pay), "627091400606", "627011000015", 1)),
			"another bank"},
		"a debit of less": {totaled(strings.Replace(text(pay), "0000000100S0000012B", "0000000099S0000012B", 1)),
			"not balanced"},
		"a debit of another account": {totaled(strings.Replace(text(pay, entry(2, 100)), "622011000015100000002",
			"627011000015100000002", 1)), "direction of the one"},
		"a prenote among payments": {totaled(strings.Replace(text(pay, entry(2, 100)),
			"622011000015100000002        0000000100",
			"623011000015100000002        0000000000", 1)), "prenotes and payments"},
	} {
		_, err := Inspect([]byte(c.file), at, isWeekday)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, c.want, c.file)
		}
	}
}
