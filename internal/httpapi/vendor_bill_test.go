package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payroll"
)

const canary = "CANARY-of-the-invoice"

func pdf(more string) string {
	return base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\n" + canary + more + "\n%%EOF\n"))
}

func (b *fixture) paper(more string) string {
	b.t.Helper()
	made, _ := ask[members](b, "POST", "/api/vendor/payroll/documents", encode(members{"base64_document": pdf(more)}))
	return made["document_id"].(string)
}

func TestVendorPayroll(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		b.credit("dep_1", money.New(money.USD, 1000_00))
		firm := b.payable(`"recipient_type":"company","role":"vendor","name":"Supplies Ltd"`)
		person := b.payable(`"role":"vendor","first_name":"Vera","last_name":"Vendor"`)
		worker := b.payee()
		one, two := b.paper("1"), b.paper(strings.Repeat("x", 1<<20))

		quote := func(items string) reply {
			return b.do("POST", "/api/vendor/payroll/quotes",
				`{"currency":"USD","funding_method":"wallet","to_pay":[`+items+`]}`)
		}
		before := b.rows()
		if got := quote(`{"vendor_id":"` + firm + `","amount_fiat":600},{"vendor_id":"` + person +
			`","amount_fiat":500}`); got.status != 200 ||
			!strings.Contains(got.text, `"total_input_in_input_currency":1100.00`) ||
			!strings.Contains(got.text, `insufficient_balance`) {
			t.Errorf("%d %s", got.status, got.text)
		}
		if got := quote(`{"vendor_id":"` + worker + `","amount_fiat":1}`); got.status != 422 ||
			!strings.Contains(got.text, "/to_pay/0/vendor_id") {
			t.Errorf("a worker is not a vendor: %d %s", got.status, got.text)
		}
		if b.rows() != before {
			t.Error("a quote has an effect")
		}

		item := func(vendor, document, amount string) string {
			return `{"vendor_id":"` + vendor + `","document_id":"` + document + `","amount_fiat":` + amount +
				`,"invoice_number":"2026/7"}`
		}
		pay := func(key string, items ...string) reply {
			return b.do("POST", "/api/vendor/payroll",
				`{"funding_method":"wallet","external_id":"`+key+`","to_pay":[`+strings.Join(items, ",")+`]}`, "Idempotency-Key",
				strings.ReplaceAll(key, " ", "-"))
		}
		b.wants(400, "idempotency_key_required", "POST", "/api/vendor/payroll", `{"to_pay":[`+item(firm, one, "1")+`]}`)
		before = b.rows()
		for name, c := range map[string]struct {
			items   []string
			pointer string
		}{
			"a worker":           {[]string{item(worker, one, "1")}, "/to_pay/0/vendor_id"},
			"unknown document":   {[]string{item(firm, "doc_x", "1")}, "/to_pay/0/document_id"},
			"the same one twice": {[]string{item(firm, one, "1"), item(person, one, "1")}, "/to_pay/1/document_id"},
			"too fine":           {[]string{item(firm, one, "1.001")}, "/to_pay/0/amount_fiat"},
			"nothing":            {[]string{item(firm, one, "0")}, "/to_pay/0/amount_fiat"},
		} {
			if got := pay(name, c.items...); got.status != 422 || !strings.Contains(got.text, c.pointer) {
				t.Errorf("%s: %d %s", name, got.status, got.text)
			}
		}
		if after := b.rows(); after != before {
			t.Errorf("%s, before %s", after, before)
		}
		made := pay("k1", item(firm, one, "600"), item(person, two, "300"))
		run, _ := made.json(t)["payroll_id"].(string)
		if made.status != 200 || strings.Contains(made.text, `"quote"`) ||
			!strings.Contains(made.text, `"vendor_id":"`+firm+`","document_id":"`+one+`","amount_fiat":600.00`) {
			t.Fatalf("%d %s", made.status, made.text)
		}
		if detail, text := ask[members](b, "GET", "/api/company/payrolls/"+run, ""); detail["status"] != "received" ||
			!strings.Contains(text, `"invoice_id":"2026/7"`) {
			t.Errorf("%s", text)
		}
		if got := pay("k2", item(firm, one, "1")); got.status != 409 || !strings.Contains(got.text, "/to_pay/0/document_id") {
			t.Errorf("a document is paid twice: %d %s", got.status, got.text)
		}
		ask[members](b, "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+run+`"}`)

		// Of twenty concurrent payrolls for the released document, one succeeds.
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := map[int]int{}
		for i := range 20 {
			wg.Go(func() {
				got := pay(fmt.Sprint("same-", i), item(firm, one, "1"))
				mu.Lock()
				defer mu.Unlock()
				count[got.status]++
			})
		}
		wg.Wait()
		if count[200] != 1 || count[409] != 19 {
			t.Errorf("%v", count)
		}

		// Two requests that share a transaction get the same error.
		by := identity.Principal{Kind: identity.KindAPIKey, CompanyID: b.company, Scopes: identity.AllScopes()}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			for _, want := range []error{nil, vendorbill.ErrTaken} {
				run := vendorbill.Params{
					CreateParams: payroll.CreateParams{Currency: "USD"},
					Items:        []vendorbill.Item{{VendorID: person, DocumentID: two, AmountText: "10"}},
				}
				if _, err := b.server.Vendor.Create(ctx, tx, by, run); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
			return nil
		})

		// Another company can use neither the vendor nor the document.
		other := b.otherCompany()
		theirs := other.payable(`"recipient_type":"company","role":"vendor","name":"Supplies Ltd"`)
		for _, items := range []string{item(firm, one, "1"), item(theirs, two, "1")} {
			if got := other.do("POST", "/api/vendor/payroll", `{"to_pay":[`+items+`]}`, "Idempotency-Key",
				"k"+items); got.status != 422 {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
		other.wants(404, "not_found", "POST", "/api/vendor/payroll/documents",
			encode(members{"company_id": b.company, "base64_document": pdf("")}))
		b.wants(403, "insufficient_scope", "POST", "/api/vendor/payroll", `{"to_pay":[`+item(firm, one, "1")+`]}`,
			"Authorization", b.token(b.user("ada"), identity.CompanyDetail))

		bad := members{"vendor_id": firm, "document_id": two, "amount_fiat": 1, "invoice_number": "7"}
		before = b.rows()
		for member, values := range map[string][]any{
			"vendor_id": {nil, 7, "", strings.Repeat("x", 65), "\u202e"}, "document_id": {nil, 7, "", strings.Repeat("x", 65)},
			"amount_fiat": {nil, "1", -1, 0, 1e30}, "invoice_number": {7, strings.Repeat("x", 65),
				"inv_00000000000000000000000000"},
		} {
			for _, v := range values {
				one := members{}
				for k, w := range bad {
					one[k] = w
				}
				one[member] = v
				if got := b.do("POST", "/api/vendor/payroll", encode(members{"funding_method": "wallet", "to_pay": []any{one}}),
					"Idempotency-Key", "bad"); got.status != 422 || !strings.Contains(got.text, "/to_pay/0/"+member) {
					t.Errorf("%s %v: %d %.300s", member, v, got.status, got.text)
				}
			}
		}
		if after := b.rows(); after != before {
			t.Errorf("%s, before %s", after, before)
		}
		b.checkLedger()
	})
}

func TestVendorDocuments(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newBilling(t, d)
		const path = "/api/vendor/payroll/documents"
		b.paper("")
		if n := b.tally("SELECT COUNT(*) FROM vendor_document_chunks " +
			"WHERE sealed LIKE 'v1.%' AND sealed NOT LIKE '%CANARY%'"); n != 1 {
			t.Error("the document is not sealed")
		}
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 600, 600))); err != nil {
			t.Fatal(err)
		}
		if made, text := ask[members](b, "POST", path,
			encode(members{"base64_document": base64.StdEncoding.EncodeToString(picture.Bytes())})); made["media_type"] != "image/jpeg" {
			t.Errorf("%s", text)
		}
		before := b.rows()
		for name, c := range map[string]struct {
			text   string
			status int
		}{
			"no base64":      {"%%%", 422},
			"line break":     {pdf("")[:8] + "\n" + pdf("")[8:], 422},
			"no file":        {base64.StdEncoding.EncodeToString([]byte("hello")), 422},
			"a cut-off PDF":  {base64.StdEncoding.EncodeToString([]byte("%PDF-1.7\nhalf of it")), 422},
			"a hidden PDF":   {base64.StdEncoding.EncodeToString([]byte("MZ%PDF-1.7\n%%EOF")), 422},
			"HTML":           {base64.StdEncoding.EncodeToString([]byte("<html>%PDF-</html>%%EOF")), 422},
			"a broken image": {base64.StdEncoding.EncodeToString(picture.Bytes()[:60]), 422},
			"too large":      {pdf(strings.Repeat("x", 10<<20)), 413},
		} {
			if got := b.do("POST", path, encode(members{"base64_document": c.text})); got.status != c.status ||
				c.status == 422 && !strings.Contains(got.text, `"pointer":"/base64_document"`) {
				t.Errorf("%s: %d %.300s", name, got.status, got.text)
			}
		}
		for _, body := range []string{`{}`, `{"base64_document":null}`, `{"base64_document":7}`, `{"base64_document":""}`} {
			if got := b.do("POST", path, body); got.status != 422 {
				t.Errorf("%s: %d %s", body, got.status, got.text)
			}
		}
		if after := b.rows(); after != before {
			t.Errorf("refused uploads left rows: %s, before %s", after, before)
		}
	})
}
