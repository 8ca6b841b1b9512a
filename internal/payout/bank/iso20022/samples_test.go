package iso20022

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
)

// Samples of each message, with the elements that banks write since version 08 of statements and version 10 of status
// reports, conform to the published schemas and are read. The schema of camt.052 checks all statements: those of
// camt.053 and camt.054 have other names for two elements only.
func TestSamplesOfNewVersionsAreRead(t *testing.T) {
	sample := func(name string) []byte { return testkit.Must(os.ReadFile(filepath.Join("testdata", name))) }
	asReport := map[string]*strings.Replacer{
		"camt052_v08.xml": strings.NewReplacer(),
		"camt053_v08_full.xml": strings.NewReplacer("camt.053", "camt.052", "BkToCstmrStmt>", "BkToCstmrAcctRpt>",
			"StmtPgntn>", "RptPgntn>", "Stmt>", "Rpt>"),
		"camt054_v08.xml": strings.NewReplacer("camt.054", "camt.052", "BkToCstmrDbtCdtNtfctn>", "BkToCstmrAcctRpt>",
			"Ntfctn>", "Rpt>"),
	}
	for name, r := range asReport {
		report := r.Replace(string(sample(name)))
		conforms(t, "camt.052.001.08", []byte(report))
		conforms(t, "camt.052.001.09", []byte(strings.Replace(report, "camt.052.001.08", "camt.052.001.09", 1)))
	}
	full := readFile(t, "camt053_v08_full.xml")
	st := full.statements[0]
	if st.Err != nil || st.Account != "DE89370400440532013000" || st.Sequence != "231" || st.Bank != "COBADEFFXXX" ||
		st.Owner != "Example Payments GmbH" || len(st.Balances) != 3 || st.Balances[1] != (Balance{"CLAV", eur(1225_75),
		day("2026-11-16")}) {
		t.Errorf("%+v", st)
	}
	transfer := Type{"PMNT", "RCDT", "XBCT", "NTRF+202"}
	out := Type{"PMNT", "ICDT", "ESCT", ""}
	want := []Entry{{
		Reference: "1", Servicer: "2026111600001", Amount: eur(250_00), Credit: true, Status: "BOOK",
		Booked: day("2026-11-16"), Valued: day("2026-11-17"), Type: transfer,
		Details: []Detail{{
			MessageID: "M1", InstructionID: "I1", EndToEndID: "INV-2026-77", TransactionID: "X1", Servicer: "T1",
			UETR: "eb6305c9-1f7f-49de-aed0-16487c27b42d", Amount: eur(250_00), Credit: true, Type: transfer,
			Debtor: Party{"Lovelace Ltd", "GB29NWBK60161331926819", "NWBKGB2L"}, UltimateDebtor: "Ada Lovelace",
			Creditor:   Party{Name: "Example Payments GmbH", Account: "DE89370400440532013000"},
			Remittance: []string{"prl 1", "thank you"}, Creditors: []string{"RF18539007547034"},
		}},
	}, {
		Reference: "2", Servicer: "2026111600002", Amount: eur(24_25), Status: "BOOK",
		Booked: time.Date(2026, 11, 16, 17, 0, 0, 0, time.UTC), Valued: day("2026-11-16"), Type: out,
		Batch: Batch{"S0000012", "S0000012"}, Info: "salaries",
		Details: []Detail{{
			MessageID: "S0000012", PaymentInfoID: "S0000012", InstructionID: "S0000012P00001", EndToEndID: "S0000012P00001",
			Amount: eur(24_00), Type: out, Creditor: Party{"Grace Hopper", "NL91ABNA0417164300", "ABNANL2A"},
		}},
	}}
	if diff := cmp.Diff(want, full.entries, same); diff != "" {
		t.Error(diff)
	}
	intraday := readFile(t, "camt052_v08.xml")
	if e := intraday.entries; intraday.statements[0].Message != AccountReport || len(e) != 2 || e[0].Final() ||
		e[0].Err != nil || e[0].Details[0].EndToEndID != "" || e[0].Details[0].Debtor.Name != "A bank" || e[1].Err == nil {
		t.Errorf("%+v", intraday)
	}
	note := readFile(t, "camt054_v08.xml")
	if d := note.entries[0].Details[0]; note.statements[0].Message != Notification || note.entries[0].Err != nil ||
		d.ReturnReason != "MD06" || d.MandateID != "MDT-1" || d.PaymentInfoID != "D0000012" || d.ReturnInfo[0] != "refund" {
		t.Errorf("%+v", note)
	}
	report := sample("pain002_v10.xml")
	for _, version := range []string{"pain.002.001.10", "pain.002.001.12"} {
		b := bytes.Replace(report, []byte("pain.002.001.10"), []byte(version), 1)
		conforms(t, version, b)
		got := testkit.Must(ReadStatus(bytes.NewReader(b)))
		if diff := cmp.Diff(Status{ID: "R1", Order: "S0000012", Code: "PART", Payments: []PaymentStatus{
			{ID: "S0000012P00001", Code: "ACSC"},
			{ID: "S0000012P00002", Code: "RJCT", Reasons: []Reason{{"AC04", []string{"closed"}}}}}}, got,
			cmp.AllowUnexported(money.Amount{})); diff != "" {
			t.Error(diff)
		}
	}
}
