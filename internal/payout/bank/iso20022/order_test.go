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

// conforms validates messages against a schema, with xmllint.
func conforms(t *testing.T, name string, messages ...[]byte) {
	t.Helper()
	dir := t.TempDir()
	testkit.NotQuick(t, "xmllint")
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
}

func order(transfers ...Transfer) Order {
	return Order{
		ID: "S00000012", Created: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Execute: day("2026-03-02"),
		Initiator: "Example Payments GmbH",
		Debtor:    Party{"Example Payments GmbH", "DE89370400440532013000", "COBADEFFXXX"},
		Country:   "DE", Transfers: transfers,
	}
}

func transfer(n int, a money.Amount) Transfer {
	return Transfer{ID: fmt.Sprintf("S00000012P%05d", n), Amount: a,
		Creditor: Party{"Ada <Lovelace> & Co", "NL91ABNA0417164300", ""}, Remittance: "pay_1"}
}

// Every variant of an order conforms to the published schema.
func TestOrdersConformToTheSchema(t *testing.T) {
	sepa := order(transfer(1, eur(1234_56)), transfer(2, eur(1)))
	sepa.SEPA = true
	local := transfer(1, money.New(money.GBP, 500))
	local.Creditor.Account, local.Number, local.Clearing = "55779911", "BBAN", Member{"GBDSC", true, "200000"}
	foreign := transfer(2, money.New(money.GBP, 501))
	foreign.Creditor = Party{"Example KK", "1234567", "MHCBJPJT"}
	foreign.Clearing, foreign.TaxID, foreign.Company = Member{"a system of its own", false, "1"}, "T123", true
	foreign.Address = Address{"1 Main Street", "94107", strings.Repeat("San Francisco", 5), "CA", "US"}
	person := transfer(3, money.New(money.GBP, 502))
	person.TaxID = "123"
	mixed := order(local, foreign, person)
	mixed.Debtor.Account, mixed.Debtor.Bank = "12345678", ""
	yen := order(transfer(1, money.New(money.JPY, 5000)))
	dinar := order(transfer(1, money.New(money.KWD, 5001)))
	for name, o := range map[string]Order{"SEPA": sepa, "local": mixed, "no decimals": yen, "three decimals": dinar} {
		t.Run(name, func(t *testing.T) {
			b := testkit.Must(o.Write())
			conforms(t, "pain.001.001.09", b)
		})
	}
	b := testkit.Must(sepa.Write())
	for _, want := range []string{"<NbOfTxs>2</NbOfTxs>", "<CtrlSum>1234.57</CtrlSum>",
		"<ReqdExctnDt>\n    <Dt>2026-03-02</Dt>", `<InstdAmt Ccy="EUR">1234.56</InstdAmt>`, "<ChrgBr>SLEV</ChrgBr>"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s is not in\n%s", want, b)
		}
	}
}

func TestWriteRejectsInvalidOrders(t *testing.T) {
	dollars := transfer(1, money.New(money.USD, 5))
	number := transfer(1, eur(5))
	number.Creditor.Account = "12345"
	for name, o := range map[string]Order{
		"nothing": order(), "duplicate ID": order(transfer(1, eur(1)), transfer(1, eur(2))),
		"two currencies": order(transfer(1, eur(1)), func() Transfer { d := dollars; d.ID = "x"; return d }()),
		"an amount of 0": order(transfer(1, eur(0))),
		"dollars in SEPA": {ID: "1", Created: day("2026-03-02"), Execute: day("2026-03-02"), SEPA: true,
			Debtor: Party{Account: "1"}, Transfers: []Transfer{dollars}},
		"a number in SEPA": {ID: "1", Created: day("2026-03-02"), Execute: day("2026-03-02"), SEPA: true,
			Debtor: Party{Account: "1"}, Transfers: []Transfer{number}},
		"no day":    {ID: "1", Created: day("2026-03-02"), Debtor: Party{Account: "1"}, Transfers: []Transfer{number}},
		"a long ID": func() Order { o := order(transfer(1, eur(1))); o.ID = strings.Repeat("x", 36); return o }(),
	} {
		if b, err := o.Write(); err == nil {
			t.Errorf("%s: %s", name, b)
		}
	}
}

// Every reason of the published list has a text and can be read from a report that conforms to the schema.
func TestReadStatusReadsEveryReason(t *testing.T) {
	list := regexp.MustCompile(`enumeration value="([A-Z]{2}[0-9]{2}|NARR)"`).FindAllSubmatch(schema(t, "pain.002.002.02"),
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
	conforms(t, "pain.002.001.10", b)
	got, err := ReadStatus(bytes.NewReader(b))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(answer) {
		t.Errorf("%v\n%+v\n%+v", err, got, answer)
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
