package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/testkit"
)

func sameKeyAgain(d *apiClient) {
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	first := d.ok("POST", createPath, body, "Idempotency-Key", key)
	if first.header.Get("Idempotent-Replayed") != "" {
		d.Error("a first answer is marked as a replay")
	}
	d.storesNothing(func() {
		for _, same := range []string{body, " " + strings.ReplaceAll(body, ":", " : ")} {
			again := d.ok("POST", createPath, same, "Idempotency-Key", key)
			if again.text != first.text || again.header.Get("Idempotent-Replayed") != "true" {
				d.Errorf("got %s with Idempotent-Replayed %q; want %s", again.text, again.header.Get("Idempotent-Replayed"),
					first.text)
			}
		}
		before := d.do("GET", "/api/company/payrolls/"+first.read(d)["payroll_id"].(string), "").text
		d.refused(422, "idempotency_key_reused", "POST", createPath, pays("", "25.01", d.seed.Workers[0].UserID),
			"Idempotency-Key", key)
		if after := d.do("GET", "/api/company/payrolls/"+first.read(d)["payroll_id"].(string), "").text; after != before {
			d.Errorf("%s\n%s", before, after)
		}
	})
}

func sameKeyAtOnce(d *apiClient) {
	before := d.effects()
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	answers := make([]response, 100)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = d.send("POST", createPath, body, "Idempotency-Key", key) })
	}
	all.Wait()
	ids := map[string]bool{}
	fresh := 0
	for _, r := range answers {
		switch {
		case r.err != nil:
			d.Error(r.err)
		case r.status == 200:
			ids[r.text] = true
			if r.header.Get("Idempotent-Replayed") == "" {
				fresh++
			}
		case r.status == 409 && r.read(d)["code"] == "idempotency_in_progress" && r.header.Get("Retry-After") != "":
		default:
			d.Errorf("%d %s", r.status, r.text)
		}
	}
	if len(ids) != 1 || fresh != 1 {
		d.Errorf("got %d different answers, %d of them not replayed", len(ids), fresh)
	}
	after := d.effects()
	for i := range after {
		if after[i]-before[i] != 1 {
			d.Errorf("payrolls, payments, quotes, addresses, events: %v before, %v after; want one more of each", before, after)
			break
		}
	}
}

func sameKeyElsewhere(d *apiClient) {
	key, body := freshKey(), pays("", "25.00", d.seed.Workers[0].UserID)
	first := d.ok("POST", createPath, body, "Idempotency-Key", key)
	id := first.read(d)["payroll_id"].(string)

	// Another operation has its own keys.
	refreshed := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+id+`"}`, "Idempotency-Key", key)
	if refreshed.header.Get("Idempotent-Replayed") != "" || refreshed.text == first.text {
		d.Errorf("%s", refreshed.text)
	}
	// Another user of the same app and another company have their own keys too.
	if by := d.as(d.token(identity.CompanyWorkersPay)).ok("POST", createPath, body, "Idempotency-Key",
		key); by.read(d)["payroll_id"] == id {
		d.Error("a token gets the answer of the API key")
	}
	_, stranger := d.stranger()
	d.storesNothing(func() {
		r := stranger.refused(422, "invalid_parameter", "POST", createPath, body, "Idempotency-Key", key)
		if strings.Contains(r.text, id) || r.header.Get("Idempotent-Replayed") != "" {
			d.Errorf("another company gets %s", r.text)
		}
	})
}

func externalID(d *apiClient) {
	user := d.as(d.token(identity.CompanyWorkersPay))
	body := pays(`"external_id":"`+freshKey()+`",`, "25.00", d.seed.Workers[0].UserID)
	id := user.ok("POST", createPath, body).read(d)["payroll_id"]
	d.storesNothing(func() {
		if m := user.refused(409, "external_id_conflict", "POST", createPath, body).read(d); m["payroll_id"] != id {
			d.Errorf("the answer names %v, want %v", m["payroll_id"], id)
		}
	})

	body = pays(`"external_id":"`+freshKey()+`",`, "25.00", d.seed.Workers[0].UserID)
	before := d.effects()
	answers := make([]response, 10)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = user.send("POST", createPath, body) })
	}
	all.Wait()
	made := 0
	for _, r := range answers {
		switch {
		case r.err != nil:
			d.Error(r.err)
		case r.status == 200:
			made++
		case r.status != 409 || r.read(d)["code"] != "external_id_conflict":
			d.Errorf("%d %s", r.status, r.text)
		}
	}
	if after := d.effects(); made != 1 || after[0]-before[0] != 1 || after[4]-before[4] != 1 {
		d.Errorf("%d requests succeeded; the counts are %v before and %v after", made, before, after)
	}
}

// The responses for another company's objects and for objects that don't exist are the same, byte for byte.
func foreignCompany(d *apiClient) {
	made := d.payTwo("25.00")
	before := d.do("GET", "/api/company/payrolls/"+made.PayrollID, "").text
	payment := d.payroll(made.PayrollID).Payments[0].ID
	company, stranger := d.stranger()
	ada, person := d.seed.Workers[0].UserID, d.seed.Recipients[0].RecipientID
	missing := strings.NewReplacer(d.seed.CompanyID, sandbox.SeedID("com", "none"), made.PayrollID, sandbox.SeedID("prl",
		"none"), payment, sandbox.SeedID("pmt", "none"),
		person, sandbox.SeedID("rec", "none"))
	d.storesNothing(func() {
		for _, c := range [][3]string{
			{"GET", "/api/company/payrolls/" + made.PayrollID, ""},
			{"GET", "/api/company/payrolls?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/workers?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/recipients?company_id=" + d.seed.CompanyID, ""},
			{"GET", "/api/company/" + d.seed.CompanyID + "/recipients/" + person + "/distribution", ""},
			{"GET", "/api/company/" + company + "/recipients/" + person + "/distribution", ""},
			{"POST", createPath, pays(`"company_id":"`+d.seed.CompanyID+`",`, "25.00", ada)},
			{"POST", "/api/company/payroll/preview", pays(`"company_id":"`+d.seed.CompanyID+`",`, "25.00", ada)},
			{"POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"` + made.PayrollID + `"}`},
			{"POST", "/api/company/payroll/quote/refresh", `{"company_id":"` + d.seed.CompanyID + `","payroll_id":"` +
				made.PayrollID + `"}`},
			{"POST", "/api/company/payroll/cancel", `{"payroll_id":"` + made.PayrollID + `"}`},
			{"POST", "/api/company/" + d.seed.CompanyID + "/recipients/create",
				`{"first_name":"A","last_name":"B","country":"US","email":"a@b.example"}`},
			{"POST", "/api/sandbox/deposit", `{"payroll_id":"` + made.PayrollID + `","kind":"exact"}`},
			{"POST", "/api/sandbox/payout-failure", `{"subpayroll_id":"` + payment + `"}`},
			{"POST", "/api/sandbox/bank-return", `{"subpayroll_id":"` + payment + `"}`},
		} {
			headers := []string{"X-Request-Id", "same", "Idempotency-Key", ""}
			if c[0] == "POST" {
				headers[3] = freshKey()
			}
			foreign := stranger.refused(404, "not_found", c[0], c[1], c[2], headers...)
			none := stranger.refused(404, "not_found", c[0], missing.Replace(c[1]), missing.Replace(c[2]), headers...)
			if foreign.text != none.text {
				d.Errorf("%s %s: another company can tell apart the answers\n%s\n%s", c[0], c[1], foreign.text, none.text)
			}
		}
	})
	if after := d.do("GET", "/api/company/payrolls/"+made.PayrollID, "").text; after != before {
		d.Errorf("another company changed the payroll:\n%s\n%s", before, after)
	}
}

func deadCredentials(d *apiClient) {
	var keyID, key string
	write := func(f func(context.Context, *db.Tx) error) {
		testkit.Check(d, d.s.DB().Write(d.Context(), f))
	}
	write(func(ctx context.Context, tx *db.Tx) (err error) {
		keyID, key, err = identity.CreateAPIKey(ctx, tx, identity.Sandbox, identity.NewAPIKey{CompanyID: d.seed.CompanyID,
			AppID: sandbox.SeedID("app", "app")})
		return err
	})
	d.as("Basic "+key).ok("GET", "/api/company", "")
	write(func(ctx context.Context, tx *db.Tx) error {
		return identity.RevokeAPIKey(ctx, tx, d.seed.CompanyID, keyID)
	})
	for _, auth := range []string{
		"Basic " + key, "Bearer " + d.seed.APIKey, "Basic " + strings.Replace(d.seed.APIKey, "sandbox", "production", 1),
		"Basic x' OR '1'='1", "",
	} {
		r := d.refused(401, "invalid_token", "GET", "/api/company", "", "Authorization", auth)
		if r.header.Get("WWW-Authenticate") == "" {
			d.Errorf("the refusal of %q has no WWW-Authenticate header", auth)
		}
	}
}

func bodyAttacks(d *apiClient) {
	item := `{"user_id":"` + d.seed.Workers[0].UserID + `","amount_fiat":25.00}`
	good := `{"to_pay":[` + item + `]}`
	var many bytes.Buffer
	many.WriteString(`{"to_pay":[` + item + `]`)
	for i := range 500_000 {
		fmt.Fprintf(&many, `,"k%d":0`, i)
	}
	many.WriteString(`}`)
	post := func(status int, code, body string, headers ...string) response {
		d.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := d.refused(status, code, "POST", createPath, body, append([]string{"Idempotency-Key", freshKey()}, headers...)...)
		runtime.ReadMemStats(&after)
		// The memory for refusing a body grows in proportion to the body. Meanwhile, the rest of the service keeps
		// working.
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(32*len(body))+8<<20 {
			d.Errorf("refusing a body of %d bytes took %d bytes of memory", len(body), used)
		}
		if len(r.text) > 32<<10 {
			d.Errorf("the refusal of a body of %d bytes has %d bytes", len(body), len(r.text))
		}
		return r
	}
	d.storesNothing(func() {
		post(400, "malformed_json", strings.Repeat(`{"to_pay":`, 10_000)+"1"+strings.Repeat("}", 10_000))
		post(400, "malformed_json", strings.Repeat("[", 1<<20))
		post(422, "unknown_field", many.String())
		post(400, "malformed_json", `{"to_pay":[`+item+`],"to_pay":[]}`)
		post(400, "malformed_json", `{"to_pay":[`+strings.Replace(item, "}", `,"amount_fiat":1}`, 1)+`]}`)
		post(400, "malformed_json", `{"to_pay":[`+strings.Replace(item, "}", `,"amount\u005ffiat":1}`, 1)+`]}`)
		post(400, "malformed_json", good+good)
		if got := d.pointers(post(422, "unknown_field", `{"to_pay":[`+strings.Replace(item, "}", `,"amount":1}`,
			1)+`]}`)); !slices.Contains(got, "unknown_field /to_pay/0/amount") {
			d.Errorf("problems %q", got)
		}
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16",
			"application/jsonx", ""} {
			post(415, "unsupported_media_type", good, "Content-Type", kind)
		}
		post(415, "unsupported_media_type", good, "Content-Encoding", "gzip")
		post(422, "invalid_type", `[`+good+`]`)
		post(422, "invalid_type", strings.Replace(good, "25.00", `"25.00"`, 1))
		post(422, "missing_field", `{"to_pay":[{"user_id":"`+d.seed.Workers[0].UserID+`","amount_fiat":null}]}`)
		post(413, "payload_too_large", `{"to_pay":[`+strings.Repeat(" ", 8<<20)+item+`]}`)
	})
	// The service still works afterward.
	d.create(good)
}

func injection(d *apiClient) {
	d.payTwo("25.00")
	evil := []string{"' OR '1'='1", "'; DROP TABLE payrolls; --", `" OR ""="`, "%' OR 1=1 --", "$1", "?1",
		"1;SELECT pg_sleep(9)--"}
	escape := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
		return b.String()
	}
	d.storesNothing(func() {
		for _, text := range evil {
			r := d.ok("GET", "/api/company/payrolls?external_id="+escape(text), "")
			if rows := r.read(d)["data"].([]any); len(rows) != 0 {
				d.Errorf("%q finds %d payrolls", text, len(rows))
			}
			if rows := d.ok("GET", "/api/company/recipients?search="+escape(text), "").read(d)["data"].([]any); len(rows) != 0 {
				d.Errorf("%q finds %d recipients", text, len(rows))
			}
			d.refused(422, "invalid_parameter", "GET", "/api/company/payrolls?status="+escape(text), "")
			d.refused(404, "not_found", "GET", "/api/company/payrolls/"+escape(text), "")
			d.refused(404, "not_found", "GET", "/api/company/payrolls?company_id="+escape(text), "")
			for _, name := range []string{"sort_by", "sort_by_dir"} {
				if r := d.do("GET", "/api/company/recipients?"+name+"="+escape(text), ""); r.status != 422 {
					d.Errorf("%s=%s: %d %.300s", name, text, r.status, r.text)
				}
			}
			quoted, err := json.Marshal(text)
			testkit.Check(d, err)
			d.refused(404, "not_found", "POST", "/api/company/payroll/cancel", `{"payroll_id":`+string(quoted)+`}`)
		}
		d.refused(404, "not_found", "POST", "/api/company/payroll/cancel", `{"payroll_id":"x"}`, "Idempotency-Key",
			"';DROP/**/TABLE/**/idempotency;--")
		d.refused(400, "idempotency_key_invalid", "POST", createPath, pays("", "25.00", d.seed.Workers[0].UserID),
			"Idempotency-Key", "' OR '1'='1")
	})
	// The service stores a text unchanged, and a search finds it.
	text := "O'Brien'); DROP TABLE payments; -- %_ " + freshKey()
	quoted, err := json.Marshal(text)
	testkit.Check(d, err)
	d.create(pays(`"external_id":`+string(quoted)+`,`, "25.00", d.seed.Workers[0].UserID))
	if rows := d.ok("GET", "/api/company/payrolls?external_id="+escape(text),
		"").read(d)["data"].([]any); len(rows) != 1 || rows[0].(object)["external_id"] != text {
		d.Errorf("%v", rows)
	}
}

// recipient creates a recipient who can be paid in bitcoin, and returns the recipient's path and ID.
func (d *apiClient) recipient(first, last, address string) (path, id string) {
	d.Helper()
	made := d.ok("POST", "/api/company/"+d.seed.CompanyID+"/recipients/create",
		`{"first_name":"`+first+`","last_name":"`+last+`","country":"GB"}`).read(d)
	id = made["recipient_id"].(string)
	path = "/api/company/" + d.seed.CompanyID + "/recipients/" + id
	d.ok("POST", path+"/distribution", `{"symbol":"BTC","distribution_data":{"address":"`+address+`"}}`)
	return path, id
}

// The service holds payments to people on a sanctions list until an officer has reviewed them, whether the match
// comes before or after the payroll is created. The other payees are paid. The payees and their company learn only
// that there is a review.
func sanctionedPayees(d *apiClient) {
	status := func(path string) string { return d.ok("GET", path, "").read(d)["status"].(string) }
	becomes := func(path, want string) {
		d.Helper()
		eventually(d.T, 20*time.Second, path+" is "+want, func() bool { return status(path) == want })
	}
	addresses, err := sandbox.SeedAddresses("regtest", 8)
	testkit.Check(d, err)
	hit := func(id string) (hit string) {
		d.Helper()
		d.read(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx,
				"SELECT hit_id FROM screening_hits WHERE company_id = $1 AND subject_id = $2 AND state <> 'cleared'",
				d.seed.CompanyID, id).Scan(&hit)
		})
		return hit
	}
	decide := func(hit string, to screening.State) {
		d.Helper()
		testkit.Check(d, d.s.DB().Write(d.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, _, err := backoffice.DecideHit(ctx, tx, hit, to, "Officer", "compared the passports")
			return err
		}))
	}

	// Before the payroll: the company can't pay a recipient with a listed name, and can't reactivate the recipient.
	listed, listedID := d.recipient("Sanktioned", "Sandboxow", addresses[5])
	becomes(listed, "inactive")
	d.refused(422, "recipient_inactive", "POST", createPath, pays("", "25.00", listedID), "Idempotency-Key", freshKey())
	d.refused(409, "invalid_state", "POST", listed+"/reactivate", "")

	// After the payroll: a name and an address match the list while the payroll waits for its funding.
	renamed, renamedID := d.recipient("Honest", "Person", addresses[6])
	other, otherID := d.recipient("Other", "Human", addresses[7])
	becomes(renamed, "active")
	made := d.create(pays("", "25.00", d.seed.Workers[0].UserID, renamedID, otherID))
	d.ok("POST", renamed+"/update", `{"first_name":"Sanctioned","last_name":"SANDBOXOV"}`)
	d.ok("POST", other+"/distribution",
		`{"symbol":"BTC","distribution_data":{"address":"bcrt1qtt0m2f6rg66xt26wcavtd5tuz5yvgny3sx5g08"}}`)
	becomes(renamed, "inactive")
	becomes(other, "inactive")
	decide(hit(otherID), screening.Confirmed)
	d.refused(409, "invalid_state", "POST", other+"/reactivate", "")
	d.deposit(made.PayrollID, "exact", "")
	v := d.until(made.PayrollID, "the other payees are paid", func(v payrollView) bool {
		return len(v.Payments) == 3 && v.Payments[0].Status == "fulfilled" && v.Payments[1].Status == "on_hold"
	})
	if v.Status != "released" || len(v.Payments[1].Outputs) != 0 || v.Payments[2].Status != "on_hold" {
		d.Errorf("%+v", v)
	}
	if n := d.count("SELECT COUNT(*) FROM events WHERE company_id = $1 AND object_id = $2 AND data LIKE '%under_review%'",
		d.seed.CompanyID, v.Payments[1].ID); n != 1 {
		d.Errorf("%d events report that the payment is under review, want 1", n)
	}
	if n := d.count("SELECT COUNT(*) FROM events WHERE company_id = $1 AND (LOWER(data) LIKE '%sanction list%' OR data "+
		"LIKE '%SANDBOX,%' OR data LIKE '%hit_%')", d.seed.CompanyID); n != 0 {
		d.Error("an event reveals the match on the sanctions list")
	}

	// An officer clears them, and they are paid.
	decide(hit(renamedID), screening.Cleared)
	becomes(renamed, "active")
	v = d.until(made.PayrollID, "the cleared payee is paid",
		func(v payrollView) bool { return v.Payments[1].Status == "fulfilled" })
	if v.Payments[2].Status != "on_hold" || status(other) != "inactive" {
		d.Errorf("the payee with the confirmed match is %s: %+v", status(other), v)
	}
	decide(hit(otherID), screening.Cleared)
	d.fulfilled(made.PayrollID)
	becomes(other, "active")
}
