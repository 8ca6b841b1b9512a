package app_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// bitcoinWallet is a wallet that signs messages.
type bitcoinWallet struct{ key *btcec.PrivateKey }

func newBitcoinWallet(name string) bitcoinWallet {
	seed := sha256.Sum256([]byte(name))
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	return bitcoinWallet{key}
}

func (w bitcoinWallet) address() string {
	a := testkit.Must(address.NewAddressWitnessPubKeyHash(address.Hash160(w.key.PubKey().SerializeCompressed()),
		&chaincfg.RegressionNetParams))
	return a.EncodeAddress()
}

// sign signs a message as Bitcoin Core does.
func (w bitcoinWallet) sign(message string) string {
	var b bytes.Buffer
	_ = wire.WriteVarString(&b, 0, "Bitcoin Signed Message:\n")
	_ = wire.WriteVarString(&b, 0, message)
	return base64.StdEncoding.EncodeToString(ecdsa.SignCompact(w.key, chainhash.DoubleHashB(b.Bytes()), true))
}

// withTravelRule demands records from 500 USD on.
func withTravelRule(c *app.Config) {
	c.TravelRule = app.TravelRule{TravelRuleThreshold: "500 USD", TravelRuleName: "Example Payments GmbH",
		TravelRuleStreet: "Unter den Linden 1", TravelRulePostCode: "10117", TravelRuleCity: "Berlin",
		TravelRuleCountry: "DE", TravelRuleLEI: "529900T8BM49AURSDO55"}
}

// A large payment to a wallet waits until the record of who sends and who receives it is complete, and says what is
// missing. What completes it releases it. Staff download the record.
func TestTravelRule(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database, withTravelRule)
		company := o.d.seed.CompanyID
		wallet, other := newBitcoinWallet("mine"), newBitcoinWallet("another")
		path, id := o.d.recipient("Mary", "Jackson", wallet.address())
		var list struct {
			All []struct {
				ID string `json:"distribution_id"`
			} `json:"distributions"`
		}
		o.d.decode(o.d.ok("GET", path+"/distribution", ""), &list)
		to := list.All[0].ID
		reason := func(payroll, want string) {
			t.Helper()
			o.d.until(payroll, "its payment waits: "+want, func(v payrollView) bool {
				return len(v.Payments) == 1 && v.Payments[0].Reason == want
			})
		}

		// Below the threshold nothing is needed.
		small := o.d.create(pays("", "400", id))
		o.d.deposit(small.PayrollID, "exact", "")
		o.d.fulfilled(small.PayrollID)

		// From it on, the payer's address is needed, then the host of the wallet, then the proof.
		large := o.d.create(pays("", "500", id))
		o.d.deposit(large.PayrollID, "exact", "")
		reason(large.PayrollID, "travel_rule_originator")
		o.d.ok("POST", "/api/companies", `{"company_id":"`+company+`","name":"Sandbox Company","country":"US",`+
			`"street_address":"1 Main Street","city":"Springfield","state":"IL","zip":"62701"}`)
		reason(large.PayrollID, "travel_rule_wallet")
		var stated struct{ Hosting, Challenge string }
		o.d.decode(o.d.ok("POST", path+"/distribution/wallet", `{"distribution_id":"`+to+`","hosting":"self_hosted"}`),
			&stated)
		reason(large.PayrollID, "travel_rule_proof")
		if !strings.Contains(stated.Challenge, wallet.address()) || !strings.Contains(stated.Challenge, to) {
			t.Fatalf("the text to sign is %q", stated.Challenge)
		}
		if n := o.d.count("SELECT COUNT(*) FROM travel_rule_records"); n != 0 {
			t.Errorf("%d records are stored before the payment is complete", n)
		}
		prove := func(signature string) string {
			return string(testkit.Must(json.Marshal(map[string]string{"distribution_id": to, "signature": signature})))
		}
		for what, signature := range map[string]string{"another wallet": other.sign(stated.Challenge),
			"a changed text": wallet.sign(stated.Challenge + " "), "no signature": "AA=="} {
			if r := o.d.refused(http.StatusUnprocessableEntity, "signature_invalid", "POST", path+"/distribution/wallet/proof",
				prove(signature)); r.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d", what, r.status)
			}
		}
		first := wallet.sign(stated.Challenge)
		o.d.ok("POST", path+"/distribution/wallet/proof", prove(first))
		o.d.fulfilled(large.PayrollID)
		o.d.refused(http.StatusConflict, "invalid_state", "POST", path+"/distribution/wallet/proof", prove(first))

		// Another address needs another statement and another proof.
		o.d.ok("POST", path+"/distribution/update", `{"distribution_id":"`+to+`","distribution_data":{"address":"`+
			other.address()+`"},"wallet":{"hosting":"self_hosted"}}`)
		o.d.decode(o.d.ok("GET", path+"/distribution/wallet?distribution_id="+to, ""), &stated)
		o.d.refused(http.StatusUnprocessableEntity, "signature_invalid", "POST", path+"/distribution/wallet/proof",
			prove(first))
		again := o.d.create(pays("", "600", id))
		o.d.deposit(again.PayrollID, "exact", "")
		reason(again.PayrollID, "travel_rule_proof")
		late := other.sign(stated.Challenge)
		o.d.advance(2 * time.Hour)
		o.d.refused(http.StatusConflict, "invalid_state", "POST", path+"/distribution/wallet/proof", prove(late))

		// On the page, the company states that an exchange hosts it.
		at := "/recipients/" + id + "/destinations/" + to + "/wallet"
		o.says(o.Get("/recipients/"+id), at)
		page := o.says(o.Get(at), "Who controls the keys?", other.address())
		if got := o.Submit(page, at, "hosting", "vasp", "vasp_name", ""); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="vasp_name-problem"`) {
			t.Errorf("without a name: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, at, "hosting", "self_hosted"); got.Location() != at {
			t.Errorf("%d to %q", got.Status, got.Location())
		}
		page = o.says(o.Get(at), "Text to sign", "Nonce: ")
		if got := o.Submit(page, at+"/proof", "signature", "AA=="); got.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.Text, `id="signature-problem"`) {
			t.Errorf("a wrong signature: %d\n%s", got.Status, got.Text)
		}
		if got := o.Submit(page, at, "hosting", "vasp", "vasp_name", "Example Exchange Ltd"); got.Location() != at {
			t.Errorf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		o.d.fulfilled(again.PayrollID)

		// Personal data is sealed. Compliance reads and downloads the records.
		if n := o.d.count("SELECT COUNT(*) FROM travel_rule_records WHERE sealed LIKE 'v1.%' AND sealed NOT LIKE " +
			"'%Jackson%'"); n != 2 {
			t.Errorf("%d sealed records, want 2", n)
		}
		staff := employ(t, o.s, "Katherine").signIn(t)
		records := staff.Get("/operations/travel-rule?q=" + large.PayrollID).Text
		_, rest, found := strings.Cut(records, `href="/operations/travel-rule/`)
		if !found || strings.Contains(records, again.PayrollID) {
			t.Fatalf("no record\n%s", records)
		}
		record, _, _ := strings.Cut(rest, `"`)
		shown := staff.Get("/operations/travel-rule/" + record)
		for _, want := range []string{"Mary Jackson", "Sandbox Company", "1 Main Street", wallet.address(), "bip137"} {
			if !shown.Contains(want) {
				t.Errorf("the record lacks %q\n%s", want, shown.Text)
			}
		}
		file := staff.Submit(shown, "/operations/travel-rule/"+record, "reason", "request of the authority 12/3")
		var doc map[string]any
		if err := json.Unmarshal([]byte(file.Text), &doc); err != nil {
			t.Fatalf("%d %v\n%s", file.Status, err, file.Text)
		}
		want := `{"beneficiary":{"accountNumber":["` + wallet.address() + `"],"beneficiaryPersons":[{"naturalPerson":{` +
			`"countryOfResidence":"GB","name":{"nameIdentifier":[{"nameIdentifierType":"LEGL","primaryIdentifier":"Jackson",` +
			`"secondaryIdentifier":"Mary"}]}}}]},"originatingVASP":{"originatingVASP":{"legalPerson":{` +
			`"countryOfRegistration":"DE","geographicAddress":[{"addressLine":["Unter den Linden 1"],"addressType":"BIZZ",` +
			`"country":"DE","postCode":"10117","townName":"Berlin"}],"name":{"nameIdentifier":[{` +
			`"legalPersonName":"Example Payments GmbH","legalPersonNameIdentifierType":"LEGL"}]},"nationalIdentification":{` +
			`"nationalIdentifier":"529900T8BM49AURSDO55","nationalIdentifierType":"LEIX"}}}},"originator":{` +
			`"accountNumber":["` + company + `"],"originatorPersons":[{"legalPerson":{"countryOfRegistration":"US",` +
			`"geographicAddress":[{"addressLine":["1 Main Street"],"addressType":"BIZZ","country":"US",` +
			`"countrySubDivision":"IL","postCode":"62701","townName":"Springfield"}],"name":{"nameIdentifier":[{` +
			`"legalPersonName":"Sandbox Company","legalPersonNameIdentifierType":"LEGL"}]}}}]}}`
		if got := string(testkit.Must(json.Marshal(doc))); got != want {
			t.Errorf("the file is\n%s\nwant\n%s", got, want)
		}
		if acts := staff.Get("/operations/acts").Text; !strings.Contains(acts, "Exported a travel rule record") ||
			!strings.Contains(acts, "request of the authority 12/3") {
			t.Errorf("the export is not in the audit log\n%s", acts)
		}
	})
}

// A withdrawal to a wallet of the company waits, too, and goes on when the company states who hosts the wallet.
func TestTravelRuleOfWithdrawals(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database, withTravelRule, func(c *app.Config) { c.TravelRuleThreshold = "10 USD" })
		made := o.d.create(pays("", "1000", o.d.seed.Workers[0].UserID))
		o.d.deposit(made.PayrollID, "over", "")
		var seeded struct {
			Destinations []struct {
				ID string `json:"destination_id"`
			} `json:"destinations"`
		}
		o.d.decode(o.d.ok("GET", "/api/wallets/destinations", ""), &seeded)
		o.d.until(made.PayrollID, "the payroll is released", func(v payrollView) bool { return v.Status != "pending" })
		o.d.ok("POST", "/api/companies", `{"company_id":"`+o.d.seed.CompanyID+`","name":"Sandbox Company","country":"US",`+
			`"street_address":"1 Main Street","city":"Springfield","state":"IL","zip":"62701"}`)
		var w struct {
			ID     string `json:"withdrawal_id"`
			Status string
			Reason string
		}
		to := seeded.Destinations[0].ID
		o.d.decode(o.d.ok("POST", "/api/wallets/withdraw", `{"destination_id":"`+to+`","amount":0.001}`,
			"Idempotency-Key", freshKey()), &w)
		is := func(status, reason string) {
			t.Helper()
			eventually(t, 60*time.Second, "the withdrawal is "+status+" "+reason, func() bool {
				o.d.decode(o.d.ok("GET", "/api/wallets/withdrawals/"+w.ID, ""), &w)
				return w.Status == status && w.Reason == reason
			})
		}
		is("on_hold", "travel_rule_wallet")
		at := "/wallets/destinations/" + to + "/wallet"
		o.says(o.Get("/wallets/withdrawals"), at)
		if got := o.Submit(o.Get(at), at, "hosting", "vasp", "vasp_name", "Example Exchange Ltd"); got.Location() != at {
			t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
		}
		is("completed", "")
	})
}
