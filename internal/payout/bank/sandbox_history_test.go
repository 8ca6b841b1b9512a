package bank

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
)

// The simulated bank takes back an entry once and within five banking days, and settles no payment before the third
// banking day after the prenote to its account. A file that it reads again is judged as before.
func TestTheSimulatedBankRemembersEntries(t *testing.T) {
	day := func(text string) time.Time { return testkit.Must(time.Parse(time.DateOnly, text)) }
	entry := func(account string, cents int64, settles string) nacha.Entry {
		return nacha.Entry{ID: "S0000001P00001", Name: "Ada", Routing: "011000015", Account: account, Cents: cents,
			Description: nacha.Payroll, Effective: day(settles)}
	}
	back := func(e nacha.Entry, settles string) nacha.Entry {
		e.Reversal, e.Description, e.Effective = true, nacha.Reversal, day(settles)
		return e
	}
	// at returns an entry on an account with the same number at another bank.
	at := func(routing string, e nacha.Entry) nacha.Entry { e.Routing = routing; return e }
	prenote := entry("2", 0, "2026-11-10")
	prenote.Prenote, prenote.Description = true, nacha.Prenote
	paid, other := entry("1", 100, "2026-11-09"), entry("1", 100, "2026-11-09")
	other.Company, other.Description = true, nacha.Other
	root := t.TempDir()
	_, teller, err := OpenSandbox(root)
	testkit.Check(t, err)
	now := time.Date(2026, 11, 6, 15, 0, 0, 0, time.UTC)
	// send returns the text with which the bank refuses a file, or "".
	send := func(name, payer string, entries ...nacha.Entry) string {
		t.Helper()
		f := SandboxAccounts()[0].nacha(1, now)
		f.Payer, f.Entries = payer, entries
		testkit.Check(t, os.WriteFile(filepath.Join(root, partOut, name), testkit.Must(f.Write()), 0o600))
		testkit.Check(t, teller.ProcessFiles(now))
		answer := filepath.Join(root, partIn, name+".1.status.xml")
		body, err := os.ReadFile(answer)
		if err != nil {
			return ""
		}
		testkit.Check(t, os.Remove(answer))
		return strings.Join(testkit.Must(iso20022.ReadStatus(bytes.NewReader(body))).Reasons[0].Info, "")
	}
	const noEntry, late, early = "is of no entry", "more than five banking days", "before the third banking day"
	for _, c := range []struct {
		name, payer string
		entries     []nacha.Entry
		want        string
	}{
		{"S0000001.ach", "Acme", []nacha.Entry{paid, prenote}, ""},
		{"S0000002.ach", "Acme", []nacha.Entry{back(entry("1", 101, "2026-11-10"), "2026-11-10")}, noEntry},
		{"S0000003.ach", "Acme", []nacha.Entry{back(entry("3", 100, "2026-11-10"), "2026-11-10")}, noEntry},
		{"S0000004.ach", "Rose", []nacha.Entry{back(paid, "2026-11-10")}, noEntry},
		{"S0000012.ach", "Acme", []nacha.Entry{at("091000019", back(paid, "2026-11-10"))}, noEntry},
		{"S0000013.ach", "Acme", []nacha.Entry{at("091000019", entry("2", 5, "2026-11-13"))}, ""},
		{"S0000005.ach", "Acme", []nacha.Entry{back(other, "2026-11-10")}, noEntry},
		// Veterans Day, the 11th, is no banking day: the fifth one after the 9th is the 17th.
		{"S0000006.ach", "Acme", []nacha.Entry{back(paid, "2026-11-18")}, late},
		{"S0000007.ach", "Acme", []nacha.Entry{back(paid, "2026-11-17")}, ""},
		{"S0000007.ach", "Acme", []nacha.Entry{back(paid, "2026-11-17")}, ""}, // read again
		{"S0000008.ach", "Acme", []nacha.Entry{back(paid, "2026-11-17")}, noEntry},
		{"S0000009.ach", "Acme", []nacha.Entry{entry("2", 5, "2026-11-13")}, early},
		{"S0000010.ach", "Acme", []nacha.Entry{entry("2", 5, "2026-11-16")}, ""},
	} {
		got := send(c.name, c.payer, c.entries...)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The simulated bank refuses a collection that breaks a rule of SEPA direct debits.
func TestTheSimulatedBankRefusesWrongCollections(t *testing.T) {
	now := time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)
	body := string(testkit.Must(iso20022.Collection{ID: "D0000012", Created: now, Due: now.AddDate(0, 0, 2),
		Instrument: iso20022.Core, Sequence: iso20022.First, CreditorID: "DE98ZZZ09999999999",
		Creditor: iso20022.Party{Name: "Example", Account: "DE89370400440532013000", Bank: "COBADEFF"},
		Address:  iso20022.Address{Town: "Berlin", Country: "DE"},
		Debits: []iso20022.Debit{{ID: "D0000012P00001", Amount: money.New(money.EUR, 5_00), Mandate: "M-1",
			Signed: now.AddDate(0, -1, 0), Debtor: iso20022.Party{Name: "Rose", Account: "NL91ABNA0417164300",
				Bank: "ABNANL2A"}}}}.Write()))
	answer := func(body string) string {
		t.Helper()
		root := t.TempDir()
		_, teller, err := OpenSandbox(root)
		testkit.Check(t, err)
		testkit.Check(t, os.WriteFile(filepath.Join(root, partOut, "D0000012.xml"), []byte(body), 0o600))
		testkit.Check(t, teller.ProcessFiles(now))
		report := testkit.Must(os.ReadFile(filepath.Join(root, partIn, "D0000012.xml.1.status.xml")))
		st := testkit.Must(iso20022.ReadStatus(bytes.NewReader(report)))
		text := []string{st.Code}
		for _, r := range st.Reasons {
			text = append(text, r.Code)
		}
		return strings.Join(text, " ")
	}
	// The bank of a debtor outside of the European Economic Area requires the debtor's address.
	abroad := iso20022.Collection{ID: "D0000012", Created: now, Due: now.AddDate(0, 0, 2),
		Instrument: iso20022.B2B, Sequence: iso20022.Recurring, CreditorID: "DE98ZZZ09999999999",
		Creditor: iso20022.Party{Name: "Example", Account: "DE89370400440532013000"},
		Address:  iso20022.Address{Town: "Berlin", Country: "DE"},
		Debits: []iso20022.Debit{{ID: "D0000012P00001", Amount: money.New(money.EUR, 5_00), Mandate: "M-1",
			Signed: now.AddDate(0, -1, 0), Debtor: iso20022.Party{Name: "Rose", Account: "CH9300762011623852957"},
			Address: iso20022.Address{Street: "2 Main Street", Town: "Zug", Country: "CH"}}}}
	home := string(testkit.Must(abroad.Write()))
	abroad.Version, abroad.Debits[0].Address = iso20022.Collection02, iso20022.Address{}
	abroad.Debits[0].Debtor.Account = "NL91ABNA0417164300"
	old := string(testkit.Must(abroad.Write()))
	const (
		party     = "<Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm><Ctry>DE</Ctry></PstlAdr>"
		noTown    = "<Nm>X</Nm><PstlAdr><Ctry>DE</Ctry></PstlAdr>"
		noCountry = "<Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm></PstlAdr>"
	)
	for name, body := range map[string]string{"EEA": body, "version 02": old, "abroad": home,
		"the last debit": strings.Replace(body, "FRST", "FNAL", 1), "the only debit": strings.Replace(body, "FRST",
			"OOFF", 1),
		"due in 14 days": strings.Replace(body, "<ReqdColltnDt>2026-11-18<", "<ReqdColltnDt>2026-11-30<", 1),
		"the most":       strings.ReplaceAll(body, ">5.00<", ">999999999.99<"),
		"signed today":   strings.Replace(body, "<DtOfSgntr>2026-10-16<", "<DtOfSgntr>2026-11-16<", 1),
		"140 characters": strings.Replace(body, "</DrctDbtTxInf>", "<RmtInf><Ustrd>"+strings.Repeat("x", 140)+
			"</Ustrd></RmtInf></DrctDbtTxInf>", 1),
		"70 characters": strings.Replace(body, "<Nm>Rose<", "<Nm>"+strings.Repeat("x", 70)+"<", 1),
		"ultimate and initiating parties": strings.NewReplacer(
			"<Dbtr>", "<UltmtCdtr>"+party+"</UltmtCdtr><Dbtr>", "</DbtrAcct>", "</DbtrAcct><UltmtDbtr>"+party+"</UltmtDbtr>",
			"<CdtrSchmeId>", "<UltmtCdtr>"+party+"</UltmtCdtr><CdtrSchmeId>",
			"</InitgPty>", party[len("<Nm>X</Nm>"):]+"</InitgPty>").Replace(body),
		"a hybrid address": strings.Replace(body, "<TwnNm>Berlin</TwnNm>",
			"<TwnNm>Berlin</TwnNm><AdrLine>1 Main St</AdrLine>", 1),
	} {
		if got := answer(body); got != "ACSP" {
			t.Errorf("the unchanged file, %s: %s", name, got)
		}
	}
	for amount, want := range map[string]string{"0.00": "AM01", "1000000000.00": "AM02"} {
		if got := answer(strings.ReplaceAll(body, ">5.00<", ">"+amount+"<")); got != "RJCT "+want {
			t.Errorf("%s euros: %s, want %s", amount, got, want)
		}
	}
	morning := now
	for minutes, want := range map[int]string{29: "ACSP", 30: "RJCT DT01"} { // the cut-off is at 16:00
		now = time.Date(2026, 11, 17, 16, minutes, 0, 0, time.UTC)
		if got := answer(body); got != want {
			t.Errorf("at 16:%d on the day before the due date: %s, want %s", minutes, got, want)
		}
	}
	now = morning
	from, to := strings.LastIndex(home, "<PstlAdr>"), strings.LastIndex(home, "</PstlAdr>")+len("</PstlAdr>")
	for name, replacement := range map[string]string{"no address": "", "no town": "<PstlAdr><Ctry>CH</Ctry></PstlAdr>",
		"no country":   "<PstlAdr><TwnNm>Zug</TwnNm></PstlAdr>",
		"unstructured": "<PstlAdr><AdrLine>Zug</AdrLine></PstlAdr>"} {
		if got := answer(home[:from] + replacement + home[to:]); got != "RJCT BE07" {
			t.Errorf("a debtor abroad with %s: %s", name, got)
		}
	}
	for name, c := range map[string]struct{ old, replacement, want string }{
		"no amount":             {">5.00</InstdAmt>", ">five</InstdAmt>", "AM03"},
		"dollars":               {`Ccy="EUR"`, `Ccy="USD"`, "AM03"},
		"a wrong sum":           {"<CtrlSum>5.00<", "<CtrlSum>5.01<", "AM10"},
		"a wrong count":         {"<NbOfTxs>1<", "<NbOfTxs>2<", "AM10"},
		"another method":        {"<PmtMtd>DD<", "<PmtMtd>TRF<", "FF01"},
		"shared charges":        {"SLEV", "SHAR", "FF01"},
		"an unknown instrument": {"<Cd>CORE<", "<Cd>COR1<", "FF01"},
		"an unknown sequence":   {"FRST", "NEXT", "FF01"},
		"a Sunday":              {"<ReqdColltnDt>2026-11-18<", "<ReqdColltnDt>2026-11-22<", "DT01"},
		"due today":             {"<ReqdColltnDt>2026-11-18<", "<ReqdColltnDt>2026-11-16<", "DT01"},
		"due in 15 days":        {"<ReqdColltnDt>2026-11-18<", "<ReqdColltnDt>2026-12-01<", "DT04"},
		"no due date":           {"<ReqdColltnDt>2026-11-18<", "<ReqdColltnDt>soon<", "DT01"},
		"a group's sum": {"</BtchBookg>\n   <NbOfTxs>1</NbOfTxs>\n   <CtrlSum>5.00<",
			"</BtchBookg><NbOfTxs>1</NbOfTxs><CtrlSum>6.00<", "AM10"},
		"a creditor's account": {"<IBAN>DE89370400440532013000<", "<IBAN>DE88370400440532013000<", "AC03"},
		"a creditor elsewhere": {"<IBAN>DE89370400440532013000<", "<IBAN>AE070331234567890123456<", "AC03"},
		"a debtor elsewhere":   {"NL91ABNA0417164300", "AE070331234567890123456", "AC03"},
		"half a BIC":           {"ABNANL2A", "ABNANL", "RC01"},
		"an instruction ID":    {"<InstrId>D0000012P00001<", "<InstrId>/D0000012P00001<", "RF01"},
		"a long ID":            {"<EndToEndId>D0000012P00001<", "<EndToEndId>" + strings.Repeat("D", 36) + "<", "RF01"},
		"a long mandate":       {"<MndtId>M-1<", "<MndtId>" + strings.Repeat("M", 36) + "<", "MD02"},
		"no signature":         {"<DtOfSgntr>2026-10-16<", "<DtOfSgntr>2026<", "MD02"},
		"three lines": {"<TwnNm>Berlin</TwnNm>",
			"<TwnNm>Berlin</TwnNm>" + strings.Repeat("<AdrLine>x</AdrLine>", 3), "BE04"},
		"an ultimate creditor's town":        {"<Dbtr>", "<UltmtCdtr>" + noTown + "</UltmtCdtr><Dbtr>", "RR02"},
		"an ultimate creditor's country":     {"<Dbtr>", "<UltmtCdtr>" + noCountry + "</UltmtCdtr><Dbtr>", "RR02"},
		"an ultimate debtor's town":          {"</DbtrAcct>", "</DbtrAcct><UltmtDbtr>" + noTown + "</UltmtDbtr>", "RR02"},
		"an ultimate debtor's country":       {"</DbtrAcct>", "</DbtrAcct><UltmtDbtr>" + noCountry + "</UltmtDbtr>", "RR02"},
		"a group's ultimate creditor's town": {"<CdtrSchmeId>", "<UltmtCdtr>" + noTown + "</UltmtCdtr><CdtrSchmeId>", "RR02"},
		"a group's ultimate creditor's country": {"<CdtrSchmeId>", "<UltmtCdtr>" + noCountry +
			"</UltmtCdtr><CdtrSchmeId>", "RR02"},
		"an initiating party's town": {"</InitgPty>", noTown[len("<Nm>X</Nm>"):] + "</InitgPty>", "RR02"},
		"another reference":          {"<MsgId>D0000012<", "<MsgId>X0000012<", "FF01"},
		"an old version":             {"pain.008.001.08", "pain.008.001.01", "FF01"},
		"another message":            {"pain.008.001.08", "pain.001.001.09", "FF01"},
		"a wrong message ID":         {"<MsgId>D0000012<", "<MsgId>/D0000012<", "FF01"},
		"a long group ID":            {"<PmtInfId>D0000012<", "<PmtInfId>" + strings.Repeat("D", 36) + "<", "FF01"},
		"no creditor":                {"<Cdtr>\n    <Nm>Example</Nm>", "<Cdtr>", "BE04"},
		"no town":                    {"<TwnNm>Berlin</TwnNm>", "", "BE04"},
		"no country":                 {"<Ctry>DE</Ctry>", "", "BE04"},
		"an unstructured one":        {"<TwnNm>Berlin</TwnNm>", "<AdrLine>10115 Berlin</AdrLine>", "BE04"},
		"another identifier":         {"<Prtry>SEPA</Prtry>", "<Prtry>OWN</Prtry>", "BE17"},
		"a creditor's accent":        {"<Cdtr>\n    <Nm>Example<", "<Cdtr><Nm>Exämple<", "RR10"},
		"a long name":                {"<Nm>Rose<", "<Nm>" + strings.Repeat("x", 71) + "<", "RR10"},
		"a long text": {"</DrctDbtTxInf>", "<RmtInf><Ustrd>" + strings.Repeat("x",
			141) + "</Ustrd></RmtInf></DrctDbtTxInf>",
			"RR07"},
		"a creditor identifier": {"DE98ZZZ09999999999", "DE97ZZZ09999999999", "BE17"},
		"signed tomorrow":       {"<DtOfSgntr>2026-10-16<", "<DtOfSgntr>2026-11-17<", "MD02"},
		"no mandate":            {"<MndtId>M-1<", "<MndtId>/M-1<", "MD02"},
		"a wrong ID":            {"<EndToEndId>D0000012P00001<", "<EndToEndId>D0000012//1<", "RF01"},
		"a debtor's account":    {"NL91ABNA0417164300", "NL92ABNA0417164300", "AC03"},
		"no debtor's name":      {"<Nm>Rose</Nm>", "", "AC03"},
		"a BIC of elsewhere":    {"ABNANL2A", "COBADEFF", "RC01"},
		"a character":           {"<Nm>Rose<", "<Nm>Rosé<", "RR10"},
	} {
		if !strings.Contains(body, c.old) {
			t.Errorf("%s: %s is not in\n%s", name, c.old, body)
			continue
		}
		if got := answer(strings.Replace(body, c.old, c.replacement, 1)); got != "RJCT "+c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The simulated bank refuses to leave a single payment unverified, and an instant payment above its limit.
func TestTheSimulatedBankRefusesOptOutsAndLargeInstantPayments(t *testing.T) {
	now := time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC)
	a := sandboxAccount(t, money.EUR)
	for name, c := range map[string]struct {
		cents   int64
		n       int
		optOut  bool
		instant bool
		want    refusal
	}{
		"a batch that opts out": {100, 2, true, false, refusal{}},
		"a single payment that opts out": {100, 1, true, false,
			refusal{"FF01", "a single payment cannot opt out of the Verification of Payee"}},
		"an instant payment": {sandboxInstant, 1, false, true, refusal{}},
		"a too large instant payment": {sandboxInstant + 1, 1, false, true,
			refusal{"AM02", "the amount is above the bank's limit of instant payments"}},
	} {
		payments := slices.Repeat([]Payment{{Amount: money.New(money.EUR, c.cents), Country: "DE", Scheme: "sepa_ct",
			Instant: c.instant, Data: []byte(`{"account_holder_name":"Ada","iban":"DE89370400440532013000"}`)}}, c.n)
		body := string(testkit.Must(a.Encode(12, now, payments)).Body)
		if c.optOut {
			body = strings.Replace(body, "<ChrgBr>", "<InstrForDbtrAgt>VOP OPT-OUT</InstrForDbtrAgt><ChrgBr>", 1)
		}
		order := testkit.Must(readOrder([]byte(body)))
		got, group := refuseOrder(order, SandboxAccounts(), now), order.all("PmtInf")[0]
		for _, x := range group.all("CdtTrfTxInf") {
			if got == (refusal{}) {
				got = refuseTransfer(group, x, testkit.Must(orderAmount(x)))
			}
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
