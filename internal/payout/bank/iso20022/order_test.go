package iso20022

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// schema returns an ISO 20022 schema from a third-party library for online banking; tools/install.sh iso20022
// downloads it.
func schema(t *testing.T, name string) []byte {
	t.Helper()
	testkit.NotQuick(t, "the schemas of ISO 20022")
	jar := filepath.Join("..", "..", "..", "..", ".tools", "iso20022", "schemas.jar")
	z, err := zip.OpenReader(jar)
	if err != nil {
		t.Fatalf("%v; run tools/install.sh iso20022", err)
	}
	defer z.Close()
	f := testkit.Must(z.Open(name + ".xsd"))
	defer f.Close()
	return testkit.Must(io.ReadAll(f))
}

// conforms validates messages against a schema, with xmllint, in a test of its own: a quick run does the rest of the
// test that calls it.
func conforms(t *testing.T, name string, messages ...[]byte) {
	t.Helper()
	t.Run("schema "+name, func(t *testing.T) {
		dir := t.TempDir()
		at := filepath.Join(dir, name+".xsd")
		testkit.Check(t, os.WriteFile(at, schema(t, name), 0o600))
		args := []string{"--noout", "--nonet", "--schema", at}
		for i, message := range messages {
			file := filepath.Join(dir, fmt.Sprintf("%d.xml", i))
			testkit.Check(t, os.WriteFile(file, message, 0o600))
			args = append(args, file)
		}
		if out, err := exec.Command("xmllint", args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, bytes.Join(messages, []byte("\n")))
		}
	})
}

func order(transfers ...Transfer) Order {
	return Order{
		ID: "S00000012", Created: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Execute: day("2026-03-02"),
		Initiator: "Example Payments GmbH",
		Debtor:    Party{"Example Payments GmbH", "DE89370400440532013000", "COBADEFF"},
		Address:   Address{PostCode: "10115", Town: "Berlin", Country: "DE"}, Transfers: transfers,
	}
}

func transfer(n int, a money.Amount) Transfer {
	return Transfer{ID: fmt.Sprintf("S00000012P%05d", n), Amount: a,
		Creditor: Party{"Ada Lovelace (Co)", "NL91ABNA0417164300", ""}, Remittance: "Design work INV-7"}
}

// Every variant of an order conforms to the published schema of each version.
func TestOrdersConformToTheSchema(t *testing.T) {
	sepa := order(transfer(1, eur(1234_56)), transfer(2, eur(1)))
	sepa.Scheme, sepa.Category, sepa.Instruction = SEPA, "SALA", "as agreed"
	first := &sepa.Transfers[0]
	first.Purpose, first.UltimateDebtor, first.Creditor.Bank = "SALA", "Example AG", "ABNANL2A"
	first.UltimateLEI = "506700GE1G29325QX363"
	first.Address = Address{Street: "1 Main Street", Line: "Floor 2", Town: "Utrecht", Country: "NL"}
	first.Email, first.Kind, first.BankName = "ada@example.com", "CACC", "Example Bank" // not part of SEPA
	instant := order(transfer(1, eur(1)))
	instant.Scheme = SEPAInstant
	local := transfer(1, money.New(money.GBP, 500))
	local.Creditor.Account, local.Number, local.Clearing = "55779911", "BBAN", Member{"GBDSC", true, "200000"}
	local.Creditor.Name, local.Kind, local.Email, local.Phone = "Ada (Lovelace), Co", "CACC", "ada@example.com", "+441"
	foreign := transfer(2, money.New(money.GBP, 501))
	foreign.Creditor = Party{"Example KK", "1234567", "MHCBJPJT"}
	foreign.Clearing, foreign.TaxID, foreign.Company = Member{"a system of its own", false, "1"}, "T123", true
	foreign.Address = Address{Street: "1 Main Street", PostCode: "94107", Town: strings.Repeat("San Francisco", 5),
		State: "CA", Country: "US"}
	foreign.UltimateDebtor, foreign.UltimateAddress = "Example AG", Address{Street: "2 Main Street", Town: "Zug",
		Country: "CH"}
	foreign.Purpose, foreign.LocalPurpose = "SUPP", "P0802"
	person := transfer(3, money.New(money.GBP, 502))
	person.TaxID, person.Purpose = "123", "SUPP"
	alias := transfer(4, money.New(money.GBP, 503))
	alias.Creditor.Account, alias.Number, alias.Proxy = strings.Repeat("a", 77), "PIX email", true
	mixed := order(local, foreign, person, alias)
	mixed.Debtor.Account, mixed.Debtor.Bank = "12345678", ""
	yen := order(transfer(1, money.New(money.JPY, 5000)))
	dinar := order(transfer(1, money.New(money.KWD, 5001)))
	written := map[string]string{}
	for name, o := range map[string]Order{"SEPA": sepa, "instant": instant, "local": mixed, "no decimals": yen,
		"three decimals": dinar} {
		for _, version := range []string{Order09, Order11} {
			t.Run(name+" "+version, func(t *testing.T) {
				o.Version = version
				b := testkit.Must(o.Write())
				conforms(t, version, b)
				written[name] = strings.Join(strings.Fields(string(b)), " ")
			})
		}
	}
	for name, parts := range map[string][]string{
		"SEPA": {"<NbOfTxs>2</NbOfTxs>", "<CtrlSum>1234.57</CtrlSum>", "<ReqdExctnDt> <Dt>2026-03-02</Dt>",
			`<InstdAmt Ccy="EUR">1234.56</InstdAmt>`, "<ChrgBr>SLEV</ChrgBr>", "<CtgyPurp> <Cd>SALA</Cd>",
			"<Purp> <Cd>SALA</Cd>",
			"<UltmtDbtr> <Nm>Example AG</Nm> <Id> <OrgId> <LEI>506700GE1G29325QX363</LEI> </OrgId> </Id> </UltmtDbtr>",
			"<InstrForDbtrAgt>as agreed</InstrForDbtrAgt>",
			"<Dbtr> <Nm>Example Payments GmbH</Nm> <PstlAdr> <PstCd>10115</PstCd> <TwnNm>Berlin</TwnNm> <Ctry>DE</Ctry>",
			"<TwnNm>Utrecht</TwnNm> <Ctry>NL</Ctry> <AdrLine>Floor 2</AdrLine>",
			"<EndToEndId>S00000012P00001</EndToEndId>", "<RmtInf> <Ustrd>Design work INV-7</Ustrd>"},
		"instant": {"<SvcLvl> <Cd>SEPA</Cd> </SvcLvl> <LclInstrm> <Cd>INST</Cd> </LclInstrm>"},
		"local": {"<ChrgBr>SHAR</ChrgBr>", "<Purp> <Prtry>P0802</Prtry>", "<Purp> <Cd>SUPP</Cd>",
			"<UltmtDbtr> <Nm>Example AG</Nm> <PstlAdr> <StrtNm>2 Main Street</StrtNm> <TwnNm>Zug</TwnNm> <Ctry>CH</Ctry>"},
	} {
		for _, part := range parts {
			if !strings.Contains(written[name], part) {
				t.Errorf("%s: %s is not in\n%s", name, part, written[name])
			}
		}
	}
	for _, part := range []string{"CtctDtls", "<Tp>", "Example Bank", "LclInstrm"} {
		if strings.Contains(written["SEPA"], part) {
			t.Errorf("%s is not part of SEPA", part)
		}
	}
}

func TestWriteRejectsInvalidOrders(t *testing.T) {
	sepa := func(change func(*Transfer)) Order {
		p := transfer(1, eur(5))
		change(&p)
		o := order(p)
		o.Scheme = SEPA
		return o
	}
	whole := func(change func(*Order)) Order {
		o := order(transfer(1, eur(5)))
		change(&o)
		return o
	}
	abroad := func(change func(*Transfer)) Order { o := sepa(change); o.Scheme = CreditTransfer; return o }
	dollars := transfer(2, money.New(money.USD, 5))
	if _, err := sepa(func(*Transfer) {}).Write(); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Order{
		"nothing": order(), "duplicate ID": order(transfer(1, eur(1)), transfer(1, eur(2))),
		"two currencies":              order(transfer(1, eur(1)), dollars),
		"an amount of 0":              order(transfer(1, eur(0))),
		"no day":                      whole(func(o *Order) { o.Execute = time.Time{} }),
		"a long ID":                   whole(func(o *Order) { o.ID = strings.Repeat("x", 36) }),
		"no ID":                       whole(func(o *Order) { o.ID = "" }),
		"no creation time":            whole(func(o *Order) { o.Created = time.Time{} }),
		"no account of the debtor":    whole(func(o *Order) { o.Debtor.Account = "" }),
		"a payment without an ID":     whole(func(o *Order) { o.Transfers[0].ID = "" }),
		"a payment's long ID":         whole(func(o *Order) { o.Transfers[0].ID = strings.Repeat("x", 36) }),
		"no name":                     whole(func(o *Order) { o.Debtor.Name = "" }),
		"another version":             whole(func(o *Order) { o.Version = "pain.001.001.03" }),
		"no address of the debtor":    whole(func(o *Order) { o.Address = Address{} }),
		"no town of the debtor":       whole(func(o *Order) { o.Address.Town = "" }),
		"no country of the debtor":    whole(func(o *Order) { o.Address.Country = "" }),
		"a payee without a name":      whole(func(o *Order) { o.Transfers[0].Creditor.Name = "" }),
		"a bad BIC":                   whole(func(o *Order) { o.Transfers[0].Creditor.Bank = "ABNANL2" }),
		"no town of the payee":        sepa(func(p *Transfer) { p.Address = Address{Street: "1 Main St", Country: "NL"} }),
		"no country of the payee":     sepa(func(p *Transfer) { p.Address = Address{Town: "Utrecht"} }),
		"no town of the payer":        sepa(func(p *Transfer) { p.UltimateAddress = Address{Country: "NL"} }),
		"a country in words":          sepa(func(p *Transfer) { p.Address = Address{Town: "Utrecht", Country: "Holland"} }),
		"dollars in SEPA":             sepa(func(p *Transfer) { *p = dollars }),
		"a number in SEPA":            sepa(func(p *Transfer) { p.Creditor.Account = "12345" }),
		"an address line alone":       sepa(func(p *Transfer) { p.Address = Address{Line: "3500 Utrecht", Country: "NL"} }),
		"too much for SEPA":           sepa(func(p *Transfer) { p.Amount = eur(1_000_000_000_00) }),
		"BIC of another country":      sepa(func(p *Transfer) { p.Creditor.Bank = "COBADEFF" }),
		"a character of no SEPA name": sepa(func(p *Transfer) { p.Creditor.Name = "Ada & Co" }),
		"an umlaut in the text":       sepa(func(p *Transfer) { p.Remittance = "Löhne" }),
		"a long tax ID in SEPA":       sepa(func(p *Transfer) { p.TaxID = strings.Repeat("1", 36) }),

		"an umlaut in the name":         abroad(func(p *Transfer) { p.Creditor.Name = "Zoë" }),
		"a payer with an umlaut":        abroad(func(p *Transfer) { p.UltimateDebtor = "Löhne AG" }),
		"an umlaut in the text, abroad": abroad(func(p *Transfer) { p.Remittance = "Löhne" }),
		"katakana in the text":          abroad(func(p *Transfer) { p.Remittance = "アダ" }),
		"a bank with an ampersand":      abroad(func(p *Transfer) { p.BankName = "A & B" }),
		"a town with an umlaut":         abroad(func(p *Transfer) { p.Address = Address{Town: "Köln", Country: "DE"} }),
		"an umlaut of the payer's town": abroad(func(p *Transfer) {
			p.UltimateAddress = Address{Town: "Köln", Country: "DE"}
		}),
		"a long account number":           abroad(func(p *Transfer) { p.Creditor.Account = strings.Repeat("1", 35) }),
		"an account number with a hash":   abroad(func(p *Transfer) { p.Creditor.Account = "12#34" }),
		"a long scheme":                   abroad(func(p *Transfer) { p.Number = strings.Repeat("x", 36) }),
		"a long type":                     abroad(func(p *Transfer) { p.Kind = strings.Repeat("x", 36) }),
		"a long code of a bank":           abroad(func(p *Transfer) { p.Clearing.Code = strings.Repeat("1", 36) }),
		"a long name of a clearing":       abroad(func(p *Transfer) { p.Clearing.System = strings.Repeat("1", 36) }),
		"a long tax ID":                   abroad(func(p *Transfer) { p.TaxID = strings.Repeat("1", 36) }),
		"a long purpose":                  abroad(func(p *Transfer) { p.LocalPurpose = strings.Repeat("1", 36) }),
		"an email address with an umlaut": abroad(func(p *Transfer) { p.Email = "zoë@example.com" }),
	} {
		if b, err := o.Write(); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
	long := sepa(func(p *Transfer) {
		p.Creditor.Name, p.Remittance = strings.Repeat("n", 200), strings.Repeat("r", 200)
	})
	b := testkit.Must(long.Write())
	for _, part := range []string{"<Nm>" + strings.Repeat("n", 70) + "<", "<Ustrd>" + strings.Repeat("r", 140) + "<"} {
		if !bytes.Contains(b, []byte(part)) {
			t.Errorf("%s is not in\n%s", part, b)
		}
	}
	for name, o := range map[string]Order{
		"katakana":             abroad(func(p *Transfer) { p.Creditor.Name = "エイダ ｴｲﾀﾞ Ltd." }),
		"34 characters":        abroad(func(p *Transfer) { p.Creditor.Account = strings.Repeat("1", 34) }),
		"an alias":             abroad(func(p *Transfer) { p.Creditor.Account, p.Proxy = strings.Repeat("1", 77), true }),
		"an address by email":  abroad(func(p *Transfer) { p.Email, p.Phone = "ada_l@example.com", "+49 30 1234" }),
		"a name with brackets": abroad(func(p *Transfer) { p.Creditor.Name = "Ada (London), Inc." }),
	} {
		if _, err := o.Write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]Order{
		"the most": sepa(func(p *Transfer) { p.Amount = eur(999_999_999_99) }),
		"a cent":   sepa(func(p *Transfer) { p.Amount = eur(1) }),
		"a hybrid address": sepa(func(p *Transfer) {
			p.Address = Address{Line: "1 Main St", Town: "Utrecht",
				Country: "NL"}
		}),
		"35 characters": sepa(func(p *Transfer) { p.ID, p.TaxID = strings.Repeat("x", 35), strings.Repeat("1", 35) }),
	} {
		if _, err := o.Write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	territory := sepa(func(p *Transfer) { p.Creditor.Bank, p.Creditor.Account = "MIDLJESH", "GB29NWBK60161331926819" })
	if _, err := territory.Write(); err != nil {
		t.Errorf("a bank in Jersey has IBANs of the United Kingdom: %v", err)
	}
}

// Every reason of the published list has a text and can be read from a report that conforms to the schema.
func TestReadStatusReadsEveryReason(t *testing.T) {
	list := regexp.MustCompile(`enumeration value="([A-Z]{2}[0-9]{2}|NARR)"`).FindAllSubmatch(schema(t,
		"pain.002.002.02"),
		-1)
	codes := map[string]bool{}
	for _, m := range list {
		codes[string(m[1])] = true
	}
	if len(codes) < 30 {
		t.Fatalf("%d reasons", len(codes))
	}
	for code := range reasonTexts {
		codes[code] = true
	}
	answer := Status{ID: "A1", Order: "S00000012", Code: "PART"}
	for code := range codes {
		if ReasonText(code) == "" {
			t.Errorf("%s has no text", code)
		}
		answer.Payments = append(answer.Payments,
			PaymentStatus{ID: "S00000012P" + code, Code: "RJCT", Reasons: []Reason{{code, []string{"words"}}}})
	}
	b := testkit.Must(answer.Write(day("2026-03-02")))
	for _, version := range []string{"pain.002.001.10", "pain.002.001.12"} {
		b := bytes.Replace(b, []byte("pain.002.001.10"), []byte(version), 1)
		conforms(t, version, b)
		got, err := ReadStatus(bytes.NewReader(b))
		if err != nil || fmt.Sprint(got) != fmt.Sprint(answer) {
			t.Errorf("%s: %v\n%+v\n%+v", version, err, got, answer)
		}
	}
}

func TestReadStatusReadsGroupsAndPayments(t *testing.T) {
	got, err := ReadStatus(strings.NewReader(`<?xml version="1.0"?>
		<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.03"><CstmrPmtStsRpt>
		<GrpHdr><MsgId>A1</MsgId><CreDtTm>2026-03-02T09:00:00</CreDtTm></GrpHdr>
		<OrgnlGrpInfAndSts><OrgnlMsgId>S00000012</OrgnlMsgId><OrgnlMsgNmId>pain.001</OrgnlMsgNmId></OrgnlGrpInfAndSts>
		<OrgnlPmtInfAndSts><OrgnlPmtInfId>S00000012</OrgnlPmtInfId><PmtInfSts>RJCT</PmtInfSts>
		<StsRsnInf><Orgtr><Nm>x</Nm></Orgtr><Rsn><Prtry>own</Prtry></Rsn><AddtlInf>format</AddtlInf></StsRsnInf>
		<TxInfAndSts><StsId>1</StsId><OrgnlEndToEndId>NOTPROVIDED</OrgnlEndToEndId>
		<OrgnlInstrId>S00000012P00001</OrgnlInstrId><TxSts>RJCT</TxSts>
		<StsRsnInf><Rsn><Cd>AC04</Cd></Rsn></StsRsnInf></TxInfAndSts>
		</OrgnlPmtInfAndSts></CstmrPmtStsRpt></Document>`))
	want := Status{ID: "A1", Order: "S00000012", Code: "RJCT", Reasons: []Reason{{"own", []string{"format"}}},
		Payments: []PaymentStatus{{ID: "S00000012P00001", Code: "RJCT", Reasons: []Reason{{Code: "AC04"}}}}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
	for code, want := range map[string]Verification{"RCVC": Match, "RVMC": CloseMatch, "RVNM": NoMatch,
		"RVNA": NotPossible,
		"RVCM": "", "RVNC": "", "ACSP": "", "RJCT": "", "": ""} {
		if got := VerificationOf(code); got != want {
			t.Errorf("%q is the result %q, want %q", code, got, want)
		}
	}
	for code, want := range map[string]Outcome{"ACTC": Accepted, "ACSP": Accepted, "PDNG": Accepted, "ACSC": Paid,
		"ACCC": Paid, "RJCT": Rejected, "CANC": Rejected, "PART": Mixed, "": Unknown, "XXXX": Unknown} {
		if OutcomeOf(code) != want {
			t.Errorf("%q means %d", code, OutcomeOf(code))
		}
	}
	for _, bad := range []string{"", "<Document/>", "<Document><BkToCstmrStmt/></Document>",
		"<Document><CstmrPmtStsRpt><GrpHdr></CstmrPmtStsRpt></Document>",
		"<Document><CstmrPmtStsRpt><OrgnlPmtInfAndSts>" + strings.Repeat("<TxInfAndSts/>", maxUnits+1)} {
		if got, err := ReadStatus(strings.NewReader(bad)); err == nil {
			t.Errorf("%.60s: %+v", bad, got)
		}
	}
}

// The written statement is checked against the schema of camt.052, which has the same entries: only the names of two
// elements differ.
func TestStatementsConformToTheSchema(t *testing.T) {
	all := readFile(t, "camt053_v08.xml")
	var out bytes.Buffer
	w := testkit.Must(WriteStatement(&out, all.statements[0]))
	for _, e := range all.entries {
		if e.Err != nil {
			continue
		}
		testkit.Check(t, w.Entry(e))
	}
	if err := w.Entry(Entry{Amount: eur(5), Booked: day("2026-03-02"),
		Details: []Detail{{Creditor: Party{"A", "12345", "200000"}}}}); err != nil {
		t.Fatal(err)
	}
	testkit.Check(t, w.Close())
	report := strings.NewReplacer("camt.053.001.08", "camt.052.001.08", "BkToCstmrStmt>", "BkToCstmrAcctRpt>", "Stmt>",
		"Rpt>").Replace(out.String())
	conforms(t, "camt.052.001.08", []byte(report))
	conforms(t, "camt.052.001.09", []byte(strings.Replace(report, "camt.052.001.08", "camt.052.001.09", 1)))
	// A notification has no balances.
	var note bytes.Buffer
	head := all.statements[0]
	head.Message, head.Balances = Notification, nil
	w = testkit.Must(WriteStatement(&note, head))
	for _, e := range all.entries {
		if e.Err == nil {
			testkit.Check(t, w.Entry(e))
		}
	}
	testkit.Check(t, w.Close())
	conforms(t, "camt.052.001.08", []byte(strings.NewReplacer("camt.054", "camt.052", "BkToCstmrDbtCdtNtfctn>",
		"BkToCstmrAcctRpt>", "Ntfctn>", "Rpt>").Replace(note.String())))
	// Reports, statements and notifications of every version have the same entries.
	notification := strings.NewReplacer("camt.052", "camt.054", "BkToCstmrAcctRpt>", "BkToCstmrDbtCdtNtfctn>", "Rpt>",
		"Ntfctn>").Replace(report)
	want := ""
	for _, message := range []string{out.String(), report, notification} {
		for version := 8; version <= 13; version++ {
			got := ""
			testkit.Check(t, ReadStatements(strings.NewReader(strings.Replace(message, ".001.08",
				fmt.Sprintf(".001.%02d", version), 1)), func(_ *Statement, e *Entry) error {
				if e != nil {
					got += fmt.Sprintf("%+v\n", *e)
				}
				return nil
			}))
			if want == "" {
				want = got
			}
			if got != want || got == "" {
				t.Errorf("version %d: %s, want %s", version, got, want)
			}
		}
	}
}

func FuzzReadStatus(f *testing.F) {
	b := testkit.Must(Status{ID: "A1", Order: "S1", Code: "PART",
		Payments: []PaymentStatus{{ID: "S1P1", Code: "RJCT", Reasons: []Reason{{Code: "AC04"}}}}}.Write(day("2026-03-02")))
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := ReadStatus(bytes.NewReader(b)); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}
