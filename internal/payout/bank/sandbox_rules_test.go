package bank

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/testkit"
)

// The simulated bank pays the files that this package writes. It refuses the same files when they break one rule: the
// whole file, or the payment.
func TestTheSimulatedBankRefusesWrongFiles(t *testing.T) {
	now := time.Date(2026, time.November, 16, 10, 0, 0, 0, time.UTC)
	d := payout.Details{Payer: "Example AG", PayerCountry: "CH", PayerTown: "Zug", Purpose: payout.PurposeWages,
		PayerLEI:    "506700GE1G29325QX363",
		Description: "November wages"}
	file := func(asset money.Asset, version, data string) string {
		a := sandboxAccount(t, asset)
		a.Version = version
		p := Payment{Amount: money.New(asset, 500), Country: "DE", Data: []byte(data), Details: d}
		return string(testkit.Must(a.Encode(12, now, []Payment{p, p})).Body)
	}
	const home = `"address":{"address_line1":"1 Main Street","city":"Bonn","postal_code":"53111","country":"DE"}`
	euros := file(money.EUR, "", `{"account_holder_name":"Ada","iban":"DE89370400440532013000","bic":"COBADEFF",`+
		home+`}`)
	francs := file("CHF", iso20022.Order11, `{"account_holder_name":"Ada","iban":"CH9300762011623852957",`+home+`}`)
	reais := file("BRL", "", `{"account_holder_name":"Ada","pix_key_type":"email","pix_key":"ada_l@example.com",
		"tax_id":"52998224725"}`)
	kenya := file("KES", "", `{"account_holder_name":"Ada","account_number":"0123456789","bank_code":"01",
		"branch_code":"002","bank_name":"Example Bank"}`)
	answer := func(body string) string {
		root := t.TempDir()
		_, bank, err := OpenSandbox(root)
		testkit.Check(t, err)
		testkit.Check(t, os.WriteFile(filepath.Join(root, partOut, "S0000012.xml"), []byte(body), 0o600))
		testkit.Check(t, bank.ProcessFiles(now))
		report := testkit.Must(os.ReadFile(filepath.Join(root, partIn, "S0000012.xml.1.status.xml")))
		st := testkit.Must(iso20022.ReadStatus(bytes.NewReader(report)))
		text := st.Code
		for _, r := range st.Reasons {
			text += " " + r.Code
		}
		for _, p := range st.Payments {
			text += fmt.Sprintf(" %s:%s", p.ID[len(p.ID)-1:], p.Reasons[0].Code)
		}
		return text
	}
	for name, body := range map[string]string{"euros": euros, "francs": francs, "reais": reais, "shillings": kenya} {
		if got := answer(body); got != "ACSP" {
			t.Errorf("%s: %s", name, got)
		}
	}
	const town = "<TwnNm>Berlin</TwnNm>"
	// ultimate returns an ultimate debtor of the group, before the debtor.
	ultimate := func(content string) string { return "<UltmtDbtr>" + content + "</UltmtDbtr><Dbtr>" }
	for name, c := range map[string]struct{ body, old, replacement, want string }{
		"an old version":        {euros, "pain.001.001.09", "pain.001.001.03", "RJCT FF01"},
		"a wrong ID":            {euros, "<MsgId>S0000012<", "<MsgId>/S0000012<", "RJCT FF01"},
		"a cheque":              {euros, "<PmtMtd>TRF<", "<PmtMtd>CHK<", "RJCT FF01"},
		"a wrong count":         {euros, "<NbOfTxs>2<", "<NbOfTxs>3<", "RJCT AM10"},
		"a wrong sum":           {euros, "<CtrlSum>10.00<", "<CtrlSum>10.01<", "RJCT AM10"},
		"two currencies":        {euros, `<InstdAmt Ccy="EUR">`, `<InstdAmt Ccy="USD">`, "RJCT AM12"},
		"no amount":             {euros, `<InstdAmt Ccy="EUR">5.00<`, `<InstdAmt Ccy="EUR">five<`, "RJCT AM12"},
		"no day":                {euros, "<Dt>2026-11-16<", "<Dt>tomorrow<", "RJCT DT01"},
		"a past day":            {euros, "<Dt>2026-11-16<", "<Dt>2026-11-13<", "RJCT DT01"},
		"a Saturday":            {euros, "<Dt>2026-11-16<", "<Dt>2026-11-21<", "RJCT DT01"},
		"a holiday of the euro": {euros, "<Dt>2026-11-16<", "<Dt>2026-12-25<", "RJCT DT01"},
		"a business day":        {euros, "<Dt>2026-11-16<", "<Dt>2026-12-28<", "ACSP"},
		"no holiday of francs":  {francs, "<Dt>2026-11-16<", "<Dt>2026-12-25<", "ACSP"},
		"a Sunday, in francs":   {francs, "<Dt>2026-11-16<", "<Dt>2026-11-22<", "RJCT DT01"},
		"no debtor":             {euros, "<Dbtr>\n    <Nm>Stipend Sandbox</Nm>", "<Dbtr>", "RJCT BE07"},
		"no town":               {euros, town, "", "RJCT BE07"},
		"no country":            {euros, town + "\n     <Ctry>DE</Ctry>", town, "RJCT BE07"},
		"an unstructured one":   {euros, town, "<AdrLine>10115 Berlin</AdrLine>", "RJCT BE07"},
		"three lines":           {euros, town, town + strings.Repeat("<AdrLine>x</AdrLine>", 3), "RJCT BE07"},
		"a long line":           {euros, town, town + "<AdrLine>" + strings.Repeat("x", 71) + "</AdrLine>", "RJCT BE07"},
		"shared charges":        {euros, "SLEV", "SHAR", "RJCT AM08"},
		"SEPA charges":          {francs, "SHAR", "SLEV", "RJCT AM08"},
		"a purpose in words":    {euros, "<CtgyPurp>\n     <Cd>SALA<", "<CtgyPurp>\n     <Cd>Salary<", "RJCT FF01"},
		"an instrument":         {euros, "<CtgyPurp>", "<LclInstrm><Cd>TRF</Cd></LclInstrm><CtgyPurp>", "RJCT FF01"},
		"instant francs":        {francs, "<CtgyPurp>", "<LclInstrm><Cd>INST</Cd></LclInstrm><CtgyPurp>", "RJCT FF01"},
		"a debtor with umlauts": {euros, "<Nm>Stipend Sandbox</Nm>\n    <PstlAdr>", "<Nm>Löhne</Nm><PstlAdr>", "RJCT RR10"},
		"a debtor's number": {euros, "<DbtrAcct>\n    <Id>\n     <IBAN>DE89370400440532013000<",
			"<DbtrAcct><Id><IBAN>DE88370400440532013000<", "RJCT AC02"},

		"a group's ID":      {euros, "<PmtInfId>S0000012<", "<PmtInfId>S0000012/<", "RJCT FF01"},
		"a group's long ID": {euros, "<PmtInfId>S0000012<", "<PmtInfId>" + strings.Repeat("S", 36) + "<", "RJCT FF01"},
		"a long ID":         {euros, "<MsgId>S0000012<", "<MsgId>" + strings.Repeat("S", 36) + "<", "RJCT FF01"},
		"a group's count":   {euros, "</BtchBookg>\n   <NbOfTxs>2<", "</BtchBookg><NbOfTxs>1<", "RJCT AM10"},
		"a group's sum":     {euros, "</NbOfTxs>\n   <CtrlSum>10.00<", "</NbOfTxs><CtrlSum>9.99<", "RJCT AM10"},
		"a hybrid address":  {euros, town, town + "<AdrLine>" + strings.Repeat("x", 70) + "</AdrLine>", "ACSP"},
		"two lines":         {euros, town, town + strings.Repeat("<AdrLine>x</AdrLine>", 2), "ACSP"},
		"a debtor's 70": {euros, "<Nm>Stipend Sandbox</Nm>\n    <PstlAdr>", "<Nm>" + strings.Repeat("x",
			70) + "</Nm><PstlAdr>", "ACSP"},
		"a debtor's 71": {euros, "<Nm>Stipend Sandbox</Nm>\n    <PstlAdr>", "<Nm>" + strings.Repeat("x",
			71) + "</Nm><PstlAdr>", "RJCT RR10"},
		"a debtor's 141": {francs, "<Nm>Stipend Sandbox</Nm>\n    <PstlAdr>", "<Nm>" + strings.Repeat("x",
			141) + "</Nm><PstlAdr>", "RJCT RR10"},
		"a debtor's elsewhere": {euros, "<DbtrAcct>\n    <Id>\n     <IBAN>DE89370400440532013000<",
			"<DbtrAcct><Id><IBAN>AE070331234567890123456<", "RJCT AC02"},

		"an instruction ID": {euros, "<InstrId>S0000012P00001<", "<InstrId>/S0000012P00001<", "PART 1:RF01"},
		"no instruction ID": {euros, "<InstrId>S0000012P00001<", "<InstrId><", "PART 1:RF01"},
		"a long instruction ID": {euros, "<InstrId>S0000012P00001<", "<InstrId>" + strings.Repeat("S", 36) + "<",
			"PART 1:RF01"},
		"35 characters": {euros, "<InstrId>S0000012P00001<", "<InstrId>" + strings.Repeat("S", 35) + "<", "ACSP"},
		"a payment's long ID": {euros, "<EndToEndId>S0000012P00001<", "<EndToEndId>" + strings.Repeat("S", 36) + "<",
			"PART S:RF01"},
		"a payee's hybrid one":   {euros, "<TwnNm>Bonn</TwnNm>", "<TwnNm>Bonn</TwnNm><AdrLine>1 Main St</AdrLine>", "ACSP"},
		"a payee's unstructured": {euros, "<TwnNm>Bonn</TwnNm>", "<AdrLine>53111 Bonn</AdrLine>", "PART 1:BE04"},
		"no country of a payee":  {euros, "Bonn</TwnNm>\n      <Ctry>DE</Ctry>", "Bonn</TwnNm>", "PART 1:BE04"},
		"a payer's hybrid one":   {francs, "<TwnNm>Zug</TwnNm>", "<TwnNm>Zug</TwnNm><AdrLine>1 Main St</AdrLine>", "ACSP"},
		"a payer's unstructured": {francs, "<TwnNm>Zug</TwnNm>", "<AdrLine>6300 Zug</AdrLine>", "PART 1:RR02"},
		"an ultimate payee": {euros, "</Cdtr>", "</Cdtr><UltmtCdtr><Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm><Ctry>DE</Ctry>" +
			"</PstlAdr></UltmtCdtr>", "ACSP"},
		"an ultimate payee's town": {euros, "</Cdtr>",
			"</Cdtr><UltmtCdtr><Nm>X</Nm><PstlAdr><Ctry>DE</Ctry></PstlAdr></UltmtCdtr>",
			"PART 1:BE04"},
		"an ultimate payee's country": {euros, "</Cdtr>",
			"</Cdtr><UltmtCdtr><Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm></PstlAdr></UltmtCdtr>", "PART 1:BE04"},
		"a group's ultimate debtor": {euros, "<Dbtr>", ultimate("<Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm><Ctry>DE</Ctry>" +
			"</PstlAdr><Id><OrgId><LEI>506700GE1G29325QX363</LEI></OrgId></Id>"), "ACSP"},
		"a group's ultimate debtor without name": {euros, "<Dbtr>", ultimate("<PstlAdr><TwnNm>Bonn</TwnNm><Ctry>DE</Ctry>" +
			"</PstlAdr>"), "RJCT RR02"},
		"a group's ultimate debtor's town": {euros, "<Dbtr>",
			ultimate("<Nm>X</Nm><PstlAdr><Ctry>DE</Ctry></PstlAdr>"), "RJCT RR02"},
		"a group's ultimate debtor's country": {euros, "<Dbtr>",
			ultimate("<Nm>X</Nm><PstlAdr><TwnNm>Bonn</TwnNm></PstlAdr>"), "RJCT RR02"},
		"a group's ultimate debtor's LEI": {euros, "<Dbtr>",
			ultimate("<Nm>X</Nm><Id><OrgId><LEI>506700GE1G29325QX364</LEI></OrgId></Id>"), "RJCT RR02"},
		"an initiating party": {euros, "</InitgPty>",
			"<PstlAdr><TwnNm>Bonn</TwnNm><Ctry>DE</Ctry></PstlAdr></InitgPty>", "ACSP"},
		"an initiating party's country": {euros, "</InitgPty>", "<PstlAdr><TwnNm>Bonn</TwnNm></PstlAdr></InitgPty>",
			"RJCT FF01"},
		"140 characters": {euros, "<Ustrd>November wages<", "<Ustrd>" + strings.Repeat("x", 140) + "<", "ACSP"},
		"70 characters":  {euros, "<Nm>Ada<", "<Nm>" + strings.Repeat("x", 70) + "<", "ACSP"},
		"140, in francs": {francs, "<Nm>Ada<", "<Nm>" + strings.Repeat("x", 140) + "<", "ACSP"},
		"a number of 34": {kenya, "<Id>0123456789<", "<Id>" + strings.Repeat("1", 34) + "<", "ACSP"},
		"a whole BIC":    {euros, "<BICFI>COBADEFF<", "<BICFI>COBADEFF123<", "ACSP"},
		"a long BIC":     {euros, "<BICFI>COBADEFF<", "<BICFI>COBADEFF12<", "PART 1:RC04"},

		"an opt-out": {euros, "<ChrgBr>", "<InstrForDbtrAgt>VOP OPT-OUT</InstrForDbtrAgt><ChrgBr>", "ACSP"},

		"no payee":             {euros, "<Cdtr>\n     <Nm>Ada</Nm>", "<Cdtr>", "PART 1:BE22"},
		"a payee's ID":         {euros, "<EndToEndId>S0000012P00001<", "<EndToEndId>S0000012//P00001<", "PART 1:RF01"},
		"the same ID":          {euros, "P00001</EndToEndId>", "P00002</EndToEndId>", "PART 2:DU04"},
		"a payee's town":       {euros, "<TwnNm>Bonn</TwnNm>", "", "PART 1:BE04"},
		"a payee's country":    {francs, "Bonn</TwnNm>\n      <Ctry>DE<", "Bonn</TwnNm><Ctry>XX<", "PART 1:BE04"},
		"a payer without name": {euros, "<Nm>Example AG</Nm>", "", "PART 1:RR02"},
		"a payer's LEI":        {euros, "506700GE1G29325QX363", "506700GE1G29325QX364", "PART 1:RR02"},
		"a payer's town":       {francs, "<TwnNm>Zug</TwnNm>", "", "PART 1:RR02"},
		"check digits": {euros, "<CdtrAcct>\n     <Id>\n      <IBAN>DE89", "<CdtrAcct><Id><IBAN>DE88",
			"PART 1:AC03"},
		"not in SEPA": {euros, "<CdtrAcct>\n     <Id>\n      <IBAN>DE89370400440532013000<",
			"<CdtrAcct><Id><IBAN>AE070331234567890123456<", "PART 1:AC03"},
		"half a BIC":         {euros, "<BICFI>COBADEFF<", "<BICFI>COBADE<", "PART 1:RC04"},
		"a BIC of elsewhere": {euros, "<BICFI>COBADEFF<", "<BICFI>ABNANL2A<", "PART 1:RC04"},
		"a payee's purpose":  {euros, "<Purp>\n     <Cd>SALA<", "<Purp><Cd>pay<", "PART 1:FF01"},
		"a long text":        {euros, "<Ustrd>November", "<Ustrd>" + strings.Repeat("x", 140), "PART 1:RR07"},
		"two texts":          {euros, "<Ustrd>November", "<Ustrd>x</Ustrd><Ustrd>November", "PART 1:RR07"},
		"a character":        {euros, "<Ustrd>November", "<Ustrd>Novembér", "PART 1:RR10"},
		"a long name":        {euros, "<Nm>Ada<", "<Nm>" + strings.Repeat("x", 71) + "<", "PART 1:RR10"},

		"71 characters, in francs": {francs, "<Nm>Ada<", "<Nm>" + strings.Repeat("x", 71) + "<", "ACSP"},
		"141, in francs":           {francs, "<Nm>Ada<", "<Nm>" + strings.Repeat("x", 141) + "<", "PART 1:RR10"},
		"an umlaut, in francs":     {francs, "<Nm>Ada<", "<Nm>Zoë<", "PART 1:RR10"},
		"katakana":                 {kenya, "<Nm>Ada<", "<Nm>エイダ<", "ACSP"},
		"katakana in a text":       {kenya, "<Ustrd>November", "<Ustrd>エイダ", "PART 1:RR10"},
		"a long town":              {francs, "<TwnNm>Bonn<", "<TwnNm>" + strings.Repeat("x", 36) + "<", "PART 1:RR10"},
		"a long number":            {kenya, "<Id>0123456789<", "<Id>" + strings.Repeat("1", 35) + "<", "PART 1:AC03"},
		"a hash in a number":       {kenya, "<Id>0123456789<", "<Id>0123#<", "PART 1:RR10"},
		"a long code of a bank":    {kenya, "<MmbId>01002<", "<MmbId>" + strings.Repeat("1", 36) + "<", "PART 1:RR10"},
		"a long tax ID":            {reais, "<Id>52998224725<", "<Id>" + strings.Repeat("1", 36) + "<", "PART 1:RR10"},
		"no key":                   {reais, "<Id>ada_l@example.com</Id>", "", "PART 1:AC03"},
		"no number and no key":     {kenya, "<Id>0123456789<", "<Id>NOTPROVIDED<", "PART 1:AC03"},
		"a debtor with an umlaut": {francs, "<Nm>Stipend Sandbox</Nm>\n    <PstlAdr>", "<Nm>Löhne</Nm><PstlAdr>",
			"RJCT RR10"},
	} {
		if !strings.Contains(c.body, c.old) {
			t.Errorf("%s: %s is not in\n%s", name, c.old, c.body)
			continue
		}
		if got := answer(strings.Replace(c.body, c.old, c.replacement, 1)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for name, c := range map[string]struct{ units, sum, want string }{
		"nothing":       {"0.00", "5.00", "PART 1:AM01"},
		"over the most": {"1000000000.00", "1000000005.00", "PART 1:AM02"},
		"the most":      {"999999999.99", "1000000004.99", "ACSP"},
		"a negative":    {"-5.00", "0.00", "RJCT AM12"},
		"three digits":  {"5.001", "10.001", "RJCT AM12"},
	} {
		body := strings.Replace(euros, ">5.00<", ">"+c.units+"<", 1)
		if got := answer(strings.ReplaceAll(body, ">10.00<", ">"+c.sum+"<")); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	order := testkit.Must(readOrder([]byte(euros)))
	if got := refuseOrder(order, nil, now); got.code != "AM03" {
		t.Errorf("no account in the currency: %v", got)
	}
	if got := answer(strings.ReplaceAll(euros, `Ccy="EUR"`, `Ccy="USD"`)); got != "PART 1:AM03 2:AM03" {
		t.Errorf("dollars in SEPA: %s", got)
	}
}

// The simulated bank refuses a file that arrives after the cut-off of its day, and instant payments outside of its
// hours, with some time for files that were on their way.
func TestTheSimulatedBankHasCutOffTimes(t *testing.T) {
	at := func(text string) time.Time { return testkit.Must(time.Parse(time.RFC3339, text)) }
	answer := func(name string, body []byte, now time.Time) string {
		root := t.TempDir()
		_, teller, err := OpenSandbox(root)
		testkit.Check(t, err)
		testkit.Check(t, os.WriteFile(filepath.Join(root, partOut, name), body, 0o600))
		testkit.Check(t, teller.ProcessFiles(now))
		report, err := os.ReadFile(filepath.Join(root, partIn, name+".1.status.xml"))
		if err != nil { // accepted NACHA files have no report
			return "ACSP"
		}
		st := testkit.Must(iso20022.ReadStatus(bytes.NewReader(report)))
		text := st.Code
		for _, r := range st.Reasons {
			text += " " + r.Code
		}
		return text
	}
	ach := `{"account_holder_name":"Ada","routing_number":"021000021","account_number":"12345678"}`
	euros := `{"account_holder_name":"Ada","iban":"DE89370400440532013000"}`
	for name, c := range map[string]struct {
		asset         money.Asset
		written, read string
		instant       bool
		want          string
	}{
		"before the cut-off":        {money.EUR, "2026-11-16T15:59:00Z", "2026-11-16T15:59:30Z", false, "ACSP"},
		"on its way":                {money.EUR, "2026-11-16T15:59:00Z", "2026-11-16T16:29:00Z", false, "ACSP"},
		"after the cut-off":         {money.EUR, "2026-11-16T15:59:00Z", "2026-11-16T16:30:00Z", false, "RJCT DT01"},
		"for the next day":          {money.EUR, "2026-11-16T16:00:00Z", "2026-11-16T16:30:00Z", false, "ACSP"},
		"on Friday":                 {money.EUR, "2026-11-13T16:00:00Z", "2026-11-16T16:29:00Z", false, "ACSP"},
		"for Monday, after it":      {money.EUR, "2026-11-13T16:00:00Z", "2026-11-16T16:30:00Z", false, "RJCT DT01"},
		"francs, after the cut-off": {"CHF", "2026-11-16T15:59:00Z", "2026-11-16T16:30:00Z", false, "RJCT DT01"},
		"instant, on a Sunday":      {money.EUR, "2026-11-15T20:00:00Z", "2026-11-15T20:00:01Z", true, "ACSP"},
		"instant, on its way":       {money.EUR, "2026-11-15T23:29:00Z", "2026-11-15T23:44:00Z", true, "ACSP"},
		"instant, in the night":     {money.EUR, "2026-11-15T23:29:00Z", "2026-11-15T23:45:00Z", true, "RJCT TM01"},
		"instant, too early":        {money.EUR, "2026-11-16T00:10:00Z", "2026-11-16T00:10:00Z", true, "RJCT TM01"},
		"instant, on another day":   {money.EUR, "2026-11-15T23:29:00Z", "2026-11-16T00:45:00Z", true, "RJCT DT01"},
		// New York is five hours behind: 17:30 is 22:30, and the windows of the same day are over.
		"ACH, on its way":       {money.USD, "2026-11-16T22:29:00Z", "2026-11-16T22:59:00Z", false, "ACSP"},
		"ACH, after it":         {money.USD, "2026-11-16T22:29:00Z", "2026-11-16T23:00:00Z", false, "RJCT DT01"},
		"ACH, for the next day": {money.USD, "2026-11-16T22:30:00Z", "2026-11-16T23:00:00Z", false, "ACSP"},
	} {
		a, data := sandboxAccount(t, c.asset), euros
		if c.asset == money.USD {
			a, data = SandboxAccounts()[0], ach
		}
		f := testkit.Must(a.Encode(12, at(c.written), []Payment{{Amount: money.New(c.asset, 500), Country: "DE",
			Data: []byte(data), Instant: c.instant, Details: payout.Details{Payer: "Example AG"}}}))
		if got := answer(f.Name, f.Body, at(c.read)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	eur := sandboxAccount(t, money.EUR)
	for text, want := range map[string]bool{"2026-11-15T00:29:00Z": false, "2026-11-15T00:30:00Z": true,
		"2026-11-15T23:29:00Z": true, "2026-11-15T23:30:00Z": false} {
		if got := eur.PaysInstantly(at(text), money.New(money.EUR, 1)); got != want {
			t.Errorf("an instant payment at %s: %v", text, got)
		}
	}
}

// The simulated bank rejects a file that it cannot read, or that has another number of groups or payments than the
// files of this package, names the file, and processes the next one.
func TestTheSimulatedBankRejectsUnreadableFiles(t *testing.T) {
	now := time.Date(2026, time.November, 16, 10, 0, 0, 0, time.UTC)
	pays := func(number int64) string {
		p := Payment{Amount: money.New(money.EUR, 500), Country: "DE", Details: payout.Details{Description: "Wages"},
			Data: []byte(`{"account_holder_name":"Ada","iban":"DE89370400440532013000"}`)}
		return string(testkit.Must(sandboxAccount(t, money.EUR).Encode(number, now, []Payment{p, p})).Body)
	}
	collects := func(number int64) string {
		id := DebitReference(number)
		return string(testkit.Must(iso20022.Collection{ID: id, Created: now, Due: now.AddDate(0, 0, 2),
			Instrument: iso20022.Core, Sequence: iso20022.First, CreditorID: "DE98ZZZ09999999999",
			Creditor: iso20022.Party{Name: "Example", Account: "DE89370400440532013000"},
			Address:  iso20022.Address{Town: "Berlin", Country: "DE"},
			Debits: []iso20022.Debit{{ID: id + "P00001", Amount: money.New(money.EUR, 5_00), Mandate: "M-1",
				Signed: now.AddDate(0, -1, 0), Debtor: iso20022.Party{Name: "Rose", Account: "NL91ABNA0417164300"}}}}.Write()))
	}
	// repeat replaces the elements of a name, from the first to the last, by n copies.
	repeat := func(body, name string, n int) string {
		from, end := strings.Index(body, "<"+name+">"), "</"+name+">"
		to := strings.LastIndex(body, end) + len(end)
		return body[:from] + strings.Repeat(body[from:to], n) + body[to:]
	}
	for prefix, kind := range map[string]struct {
		body func(number int64) string
		unit string
	}{"S": {pays, "CdtTrfTxInf"}, "D": {collects, "DrctDbtTxInf"}} {
		body := kind.body(12)
		for name, broken := range map[string]string{
			"an empty file":      "",
			"no XML":             "%PDF-1.7",
			"half a file":        body[:len(body)/2],
			"a wrong end":        strings.Replace(body, "</Document>", "</Dokument>", 1),
			"two groups":         repeat(body, "PmtInf", 2),
			"no group":           repeat(body, "PmtInf", 0),
			"no payment":         repeat(body, kind.unit, 0),
			"no message ID":      strings.Replace(body, "<MsgId>"+prefix+"0000012</MsgId>", "", 1),
			"a long message ID":  strings.Replace(body, "<MsgId>", "<MsgId>"+strings.Repeat("x", 90), 1),
			"not a payment file": `<Document><CstmrPmtStsRpt></CstmrPmtStsRpt></Document>`,
		} {
			root := t.TempDir()
			_, teller, err := OpenSandbox(root)
			testkit.Check(t, err)
			for number, text := range map[int]string{12: broken, 13: kind.body(13)} {
				at := filepath.Join(root, partOut, fmt.Sprintf("%s%07d.xml", prefix, number))
				testkit.Check(t, os.WriteFile(at, []byte(text), 0o600))
			}
			if err := teller.ProcessFiles(now); err != nil {
				t.Errorf("%s, %s: %v", prefix, name, err)
				continue
			}
			for number, want := range map[int]string{12: "RJCT FF01", 13: "ACSP"} {
				file := fmt.Sprintf("%s%07d", prefix, number)
				report := testkit.Must(os.ReadFile(filepath.Join(root, partIn, file+".xml.1.status.xml")))
				st := testkit.Must(iso20022.ReadStatus(bytes.NewReader(report)))
				got := st.Code
				for _, r := range st.Reasons {
					if got += " " + r.Code; len(r.Info) != 1 {
						t.Errorf("%s, %s: the reason has the texts %q", prefix, name, r.Info)
					}
				}
				if got != want || st.Order != file {
					t.Errorf("%s, %s: %s of %s, want %s of %s", prefix, name, got, st.Order, want, file)
				}
			}
			if left := testkit.Must(os.ReadDir(filepath.Join(root, partOut))); len(left) != 0 {
				t.Errorf("%s, %s: %d files are left", prefix, name, len(left))
			}
			// The rejected file pays and collects nothing.
			for _, f := range testkit.Must(os.ReadDir(filepath.Join(root, partIn))) {
				if strings.HasPrefix(f.Name(), prefix+"0000012") && !strings.HasSuffix(f.Name(), ".1.status.xml") {
					t.Errorf("%s, %s: the bank sent %s", prefix, name, f.Name())
				}
			}
		}
	}
}
