package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	accounts "github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub"
	"github.com/stipend/stipend/internal/kyc/sumsub/sumsubtest"
	"github.com/stipend/stipend/internal/payout/bank"
)

// person creates a user with a complete profile and returns the ID. change replaces members.
func (b *fixture) person(last string, change members) (id string) {
	b.t.Helper()
	body := members{
		"email": strings.ToLower(last) + "@example.com", "phone_number": "+4930901820", "phone_country": "DE",
		"first_name": "Ada", "last_name": last,
		"date_of_birth": "1990-12-10", "street_address": "1 Example Street", "city": "Berlin", "state": "BE", "zip": "10115",
		"country": "DE", "product": "worker",
	}
	for k, v := range change {
		body[k] = v
	}
	made, _ := ask[members](b, "POST", "/api/user/create", encode(body))
	return made["user_id"].(string)
}

// documented creates a user with a payer and all required documents.
func (b *fixture) documented(last string) string {
	b.t.Helper()
	id := b.person(last, nil)
	ask[members](b, "POST", "/api/user/payer/create", encode(goodPayer(id)))
	for _, docType := range []string{"passport", "selfie"} {
		ask[members](b, "POST", "/api/user/document/upload", encode(upload(id, docType, "front", "DE", scan64(900, 640, 9))))
	}
	return id
}

func (b *fixture) kycStatus(userID string) string {
	b.t.Helper()
	got, _ := ask[members](b, "GET", "/api/user/detail?user_id="+userID, "")
	return got["kyc_status"].(string)
}

// eventsOf returns the data of the events of an object by name, in order.
func (b *fixture) eventsOf(name, object string) (all []members) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		rows, err := tx.Query(ctx, "SELECT data FROM events WHERE name = $1 AND object_id = $2 ORDER BY sequence", name,
			object)
		texts, err := db.Collect(rows, err, func(r *db.Rows) (s string, err error) { return s, r.Scan(&s) })
		all = nil
		for _, text := range texts {
			m := members{}
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				return err
			}
			all = append(all, m)
		}
		return err
	})
	return all
}

func statuses(events []members) string {
	var words []string
	for _, e := range events {
		words = append(words, e["status"].(string))
	}
	return strings.Join(words, " ")
}

func (b *fixture) verify() {
	b.t.Helper()
	b.drain(job.Table{kyc.JobSubmit: {Net: b.server.KYC.Submit}, kyc.JobCheck: {Net: b.server.KYC.Check}})
}

// A person without a profile cannot be verified. The missing fields are listed.
func TestVerificationNeedsAProfile(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		var bare identity.User
		b.write(func(ctx context.Context, tx *db.Tx) (err error) {
			bare, err = identity.CreateUser(ctx, tx, b.server.Sealer, identity.NewUser{
				CompanyID: b.company, Profile: identity.Profile{Email: "bare@example.com"},
			})
			return err
		})
		before := b.rows()
		m := b.do("POST", "/api/user/kyc-initiate", `{"user_id":"`+bare.ID+`"}`).json(t)
		if m["code"] != "profile_incomplete" || m["detail"] != "Missing: first_name." ||
			encode(m["missing"]) != `["first_name","last_name","date_of_birth","country","street_address","city"]` {
			t.Errorf("%v", m)
		}
		if after := b.rows(); after != before {
			t.Errorf("left rows: %s, before %s", after, before)
		}
	})
}

// An approval expires after two years, and the user can be verified again.
func TestApprovalsExpire(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		id := b.documented("Approved")
		decide := `{"user_id":"` + id + `","result":"approved"}`
		ask[members](b, "POST", "/api/sandbox/kyc", decide)
		expire := func() {
			if err := b.server.KYC.ExpireDue(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		expire()
		if got := b.kycStatus(id); got != "approved" {
			t.Errorf("%s at once", got)
		}
		b.set("UPDATE verifications SET expires_at = 1")
		expire()
		expire()
		if got := statuses(b.eventsOf("user.kyc_status_update", id)); got != "pending approved expired" ||
			b.kycStatus(id) != "expired" {
			t.Errorf("events %s", got)
		}
		ask[members](b, "POST", "/api/user/kyc-initiate", `{"user_id":"`+id+`"}`)
		b.wants(409, "invalid_state", "POST", "/api/sandbox/kyc", `{"user_id":"`+id+`","result":"expired"}`)
	})
}

// Ten concurrent requests start one verification.
func TestConcurrentRequestsStartOneVerification(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		id := b.documented("Many")
		done := make(chan reply)
		for range 10 {
			go func() { done <- b.do("POST", "/api/user/kyc-initiate", `{"user_id":"`+id+`"}`) }()
		}
		for range 10 {
			if got := <-done; got.status != 200 {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
		if n := b.count("SELECT COUNT(*) FROM verifications"); n != 1 {
			t.Errorf("%d began", n)
		}
	})
}

const newCompany = `{"name":"Acme Widgets GmbH","country":"DE"`

// onboarded submits the details of the company and adds an owner of 60 percent.
func (b *fixture) onboarded(last string) (owner string) {
	b.t.Helper()
	at := "/api/companies/" + b.company
	ask[members](b, "POST", "/api/companies", newCompany+`,"registration_number":"HRB 1",`+
		`"incorporation_date":"2001-02-03","street_address":"1 Street","city":"Berlin"}`)
	made, _ := ask[members](b, "POST", at+"/ubo",
		`{"first_name":"Ada","last_name":"`+last+`","date_of_birth":"1970-01-31","country":"DE","ownership_percentage":60}`)
	owner = made["ubo_id"].(string)
	page := scan64(900, 640, 9)
	for _, docType := range []string{"certificate_of_incorporation", "shareholder_register"} {
		ask[members](b, "POST", at+"/documents", encode(members{
			"doc_type": docType, "issuing_country": "DE", "base64_image": page,
		}))
	}
	ask[members](b, "POST", at+"/documents", encode(members{
		"ubo_id": owner, "doc_type": "passport", "category": "front", "issuing_country": "DE", "base64_image": page,
	}))
	return owner
}

// A company submits its details in steps, uploads documents and adds owners. It is approved when the provider
// approves it and every owner with 25 percent or control.
func TestCompanyOnboarding(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, log := newKYC(t, d)
		at := "/api/companies/" + b.company
		state := func() string {
			got, _ := ask[members](b, "GET", "/api/company", "")
			return got["kyb_state"].(string) + "/" + got["kyb_status"].(string)
		}
		if got := state(); got != "/not_started" {
			t.Errorf("%s", got)
		}
		first, _ := ask[members](b, "POST", "/api/companies", newCompany+`}`)
		if first["company_id"] != b.company || first["kyb_state"] != "draft" || encode(first["missing"]) !=
			`["registration_number","incorporation_date","street_address","city","certificate_of_incorporation",`+
				`"shareholder_register","ubo"]` {
			t.Errorf("%v", first)
		}
		b.wants(409, "profile_incomplete", "POST", at+"/kyb", `{}`)
		owner := b.onboarded("Lovelace")
		if got := state(); got != "documents_pending/not_started" {
			t.Errorf("%s", got)
		}
		minor, _ := ask[members](b, "POST", at+"/ubo", `{"first_name":"Bob","last_name":"Small",`+
			`"date_of_birth":"1970-01-31","country":"DE","ownership_percentage":24.99}`)
		boss, _ := ask[members](b, "POST", at+"/ubo", `{"first_name":"Eve","last_name":"Approved",`+
			`"date_of_birth":"1970-01-31","country":"DE","control_person":true}`)
		b.wants(409, "documents_incomplete", "POST", at+"/ubo/kyc", `{"ubo_id":"`+boss["ubo_id"].(string)+`"}`)
		b.wants(422, "invalid_parameter", "POST", at+"/ubo", `{"first_name":"X","last_name":"Y",`+
			`"date_of_birth":"1970-01-31","country":"DE","ownership_percentage":15.02}`)

		sent, _ := ask[members](b, "POST", at+"/kyb", "")
		if sent["kyb_state"] != "submitted" || sent["kyb_status"] != "pending" || encode(sent["missing"]) != "[]" {
			t.Errorf("%v", sent)
		}
		b.wants(409, "already_processing", "POST", at+"/kyb", `{}`)
		b.wants(409, "already_processing", "POST", "/api/companies", newCompany+`}`)
		b.wants(409, "already_processing", "POST", at+"/ubo", `{"first_name":"X","last_name":"Y",`+
			`"date_of_birth":"1970-01-31","country":"DE"}`)
		b.verify()
		if got := state(); got != "in_review/in_review" {
			t.Errorf("%s", got)
		}
		ask[members](b, "POST", "/api/sandbox/kyb", `{"result":"approved"}`)
		if got := state(); got != "ubo_pending/in_review" {
			t.Errorf("%s", got)
		}
		for _, id := range []string{owner, boss["ubo_id"].(string)} {
			ask[members](b, "POST", at+"/documents", encode(members{
				"ubo_id": id, "doc_type": "passport", "category": "front", "issuing_country": "DE",
				"base64_image": scan64(900, 640, 9),
			}))
			if got, _ := ask[members](b, "POST", at+"/ubo/kyc", `{"ubo_id":"`+id+`"}`); got["kyc_status"] != "pending" {
				t.Errorf("%v", got)
			}
		}
		b.verify()
		if got := state(); got != "ubo_pending/in_review" {
			t.Errorf("%s although an owner is in review", got)
		}
		ask[members](b, "POST", "/api/sandbox/kyb", `{"result":"approved","ubo_id":"`+owner+`"}`)
		if got := state(); got != "approved/approved" {
			t.Errorf("%s", got)
		}
		if got := statuses(b.eventsOf("company.kyb_status_update",
			b.company)); got != "pending in_review in_review approved" {
			t.Errorf("events %s", got)
		}
		b.wants(409, "invalid_state", "POST", "/api/companies", newCompany+`}`)
		ask[members](b, "POST", "/api/sandbox/kyb", `{"result":"suspended"}`)
		if got := state(); got != "suspended/suspended" {
			t.Errorf("%s", got)
		}

		got, _ := ask[members](b, "GET", "/api/company", `{"company_id":"`+b.company+`"}`)
		if got["name"] != "Acme Widgets GmbH" || len(got["ubos"].([]any)) != 3 ||
			got["ubos"].([]any)[1].(members)["kyc_status"] != "not_started" ||
			got["ubos"].([]any)[1].(members)["ownership_percentage"] != 24.99 || minor["kyc_status"] != "not_started" {
			t.Errorf("%v", got)
		}
		if strings.Contains(encode(got), "1970") {
			t.Error("the detail shows a birth date")
		}
		ada := b.user("ada")
		token, _ := ask[members](b, "GET", "/api/company", "", "Authorization", b.token(ada, identity.CompanyDetail))
		if len(token["ubos"].([]any)) != 0 {
			t.Errorf("a token sees owners: %v", token)
		}
		for _, secret := range []string{"Lovelace", "1970-01-31", "HRB 1"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
	})
}

// A company's details can be submitted only with its own API key, not with a token or another company's key.
func TestOnboardingRequiresAPIKeyOfCompany(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		owner, other := b.onboarded("Lovelace"), b.otherCompany()
		at, ada := "/api/companies/"+b.company, b.user("ada")
		page := scan64(900, 640, 9)
		bodies := map[string]string{
			"/ubo":     `{"first_name":"X","last_name":"Y","date_of_birth":"1970-01-31","country":"DE"}`,
			"/ubo/kyc": `{"ubo_id":"` + owner + `"}`,
			"/documents": encode(members{
				"ubo_id": owner, "doc_type": "passport", "category": "front", "issuing_country": "DE", "base64_image": page,
			}),
			"/kyb": `{}`,
		}
		before := b.rows()
		for path, body := range bodies {
			other.wants(404, "not_found", "POST", at+path, body)
			b.wants(403, "insufficient_scope", "POST", at+path, body, "Authorization", b.token(ada, identity.CompanyDetail))
		}
		other.wants(404, "not_found", "POST", "/api/companies", `{"company_id":"`+b.company+`","name":"X","country":"DE"}`)
		other.wants(404, "not_found", "POST", "/api/companies/"+other.company+"/ubo/kyc", bodies["/ubo/kyc"])
		other.wants(404, "not_found", "POST", "/api/companies/"+other.company+"/documents", bodies["/documents"])
		other.wants(404, "not_found", "GET", "/api/company", `{"company_id":"`+b.company+`"}`)
		other.wants(404, "not_found", "GET", "/api/company?company_id="+b.company, "")
		other.wants(404, "not_found", "POST", "/api/sandbox/kyb", `{"company_id":"`+b.company+`","result":"approved"}`)
		b.wants(403, "insufficient_scope", "POST", "/api/companies", newCompany+`}`, "Authorization",
			b.token(ada, identity.CompanyDetail))
		if after := b.rows(); after != before {
			t.Errorf("left rows: %s, before %s", after, before)
		}

		full := members{"name": "Acme", "country": "DE", "email": "a@acme.example", "website": "https://acme.example",
			"registration_number": "HRB 1",
			"incorporation_date":  "2001-02-03", "street_address": "1 Street", "city": "Berlin", "street_address_2": "x",
			"state": "BE", "zip": "10115", "description": "Widgets", "lei": "506700GE1G29325QX363"}
		refuseBadInput(b, "POST", "/api/companies", full, map[string]rule{
			"name": {required: true}, "country": {required: true}, "email": {}, "website": {}, "registration_number": {},
			"incorporation_date": {},
			"street_address":     {}, "city": {}, "street_address_2": {}, "state": {}, "zip": {}, "description": {}, "lei": {}})
		for _, lei := range []string{"506700GE1G29325QX364", "506700GE1G29325QX3", "506700GE1G29325QX36A"} {
			b.wants(422, "invalid_parameter", "POST", "/api/companies", `{"name":"A","country":"DE","lei":"`+lei+`"}`)
		}
		b.wants(422, "invalid_parameter", "POST", "/api/companies", `{"name":"A","country":"DE",`+
			`"incorporation_date":"2999-01-01"}`)
		ubo := members{"first_name": "Ada", "last_name": "L", "date_of_birth": "1970-01-31", "country": "DE",
			"ownership_percentage": 10, "control_person": true,
			"email": "a@example.com", "phone_number": "+4930901820", "street_address": "1 Street", "street_address_2": "x",
			"city": "Berlin", "state": "BE", "zip": "1"}
		refuseBadInput(b, "POST", at+"/ubo", ubo, map[string]rule{
			"first_name": {required: true}, "last_name": {required: true}, "date_of_birth": {required: true},
			"country": {required: true}, "ownership_percentage": {},
			"control_person": {}, "email": {}, "phone_number": {}, "street_address": {}, "street_address_2": {}, "city": {},
			"state": {}, "zip": {}})
		for _, share := range []string{"-1", "100.01", "33.333", "1e3", "41"} {
			b.wants(422, "invalid_parameter", "POST", at+"/ubo", `{"first_name":"A","last_name":"B",`+
				`"date_of_birth":"1970-01-31","country":"DE","ownership_percentage":`+share+`}`)
		}
		refuseBadInput(b, "POST", at+"/ubo/kyc", members{"ubo_id": owner},
			map[string]rule{"ubo_id": {required: true, id: true}})
		refuseBadInput(b, "POST", at+"/documents", members{
			"doc_type": "certificate_of_incorporation", "issuing_country": "DE", "base64_image": page,
		},
			map[string]rule{"doc_type": {required: true}, "issuing_country": {required: true}, "base64_image": {required: true}})
		b.wants(422, "invalid_parameter", "POST", at+"/documents", encode(members{
			"doc_type": "passport", "issuing_country": "DE", "base64_image": page,
		}))
		refuseBadInput(b, "POST", "/api/sandbox/kyb", members{"result": "approved"},
			map[string]rule{"result": {required: true}})
	})
}

// An erasure destroys the key of the subject and the encrypted data. New data of an erased subject is rejected.
func TestErasure(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		ada, bob := b.documented("Erased"), b.documented("Kept")
		erase := func(id string) error {
			return d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				known, err := kyc.Erase(ctx, tx, id, 5)
				return errors.Join(err, ForgetAnswers(ctx, tx, known))
			})
		}
		// Stored responses contain the ID and the address.
		payer := []string{
			"POST", "/api/user/payer/create",
			`{"user_id":"` + bob + `","name":"E","company_type":"employer","payroll_invoice_currency":"EUR",` +
				`"website":"https://example.com","email":"erased@example.com","occupation":"x"}`,
			"Idempotency-Key", "payer",
		}
		pay := func(user string) []string {
			return []string{
				"POST", "/api/user/distribution",
				`{"user_id":"` + user + `","symbol":"BTC","distribution_type":"crypto","distribution_data":` + btcData + `}`,
				"Idempotency-Key", "dst" + user,
			}
		}
		do := func(r []string) reply { return b.do(r[0], r[1], r[2], r[3:]...) }
		for _, r := range [][]string{payer, pay(ada), pay(bob)} {
			if got := do(r); got.status != 200 {
				t.Fatalf("%v: %d %s", r, got.status, got.text)
			}
		}
		ask[members](b, "POST", "/api/user/kyc-initiate", `{"user_id":"`+ada+`"}`)
		if err := erase(ada); !errors.Is(err, kyc.ErrProcessing) {
			t.Errorf("under way: %v", err)
		}
		ask[members](b, "POST", "/api/sandbox/kyc", `{"user_id":"`+ada+`","result":"approved"}`)
		if err := d.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			by := accounts.Actor{CompanyID: b.company, UserID: bob}
			owner := identity.Member{CompanyID: b.company, UserID: bob, Role: identity.RoleOwner}
			job := job.Job{ID: "job_1", Payload: []byte(`{"purpose":"sign_up","email":"erased@example.com"}`)}
			return errors.Join(identity.AddMember(ctx, tx, owner),
				accounts.Invite(ctx, tx, b.server.Sealer, by, "Erased@example.com", identity.RoleViewer, "en"),
				accounts.HandleLink(b.server.Sealer)(ctx, tx, job))
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := erase(ada); err != nil {
				t.Fatal(err)
			}
		}
		if err := erase("usr_nobody"); !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("nobody: %v", err)
		}
		if got := b.listed(ada); got != `{"documents":[]}` || b.listed(bob) == got {
			t.Errorf("%s", got)
		}
		left := b.count("SELECT COUNT(*) FROM document_chunks WHERE subject_id = '"+ada+"'") +
			b.count("SELECT COUNT(*) FROM subjects WHERE subject_id = '"+ada+"' AND wrapped_key <> ''")
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
		b.wants(409, "invalid_state", "POST", "/api/user/document/upload",
			encode(upload(ada, "passport", "front", "DE", scan64(900, 640, 9))))

		for _, table := range []string{
			"mails WHERE LOWER(address)", "member_invitations WHERE LOWER(email)", "email_tokens WHERE LOWER(email)",
		} {
			if n := b.count("SELECT COUNT(*) FROM " + table + " LIKE 'erased@%'"); n != 0 {
				t.Errorf("%d of %s", n, table)
			}
		}

		for _, r := range [][]string{pay(ada), payer} {
			if got := do(r); got.status != 404 || !strings.Contains(got.text, "erased") {
				t.Errorf("repeated: %v: %d %s", r, got.status, got.text)
			}
		}
		if got := do(pay(bob)); got.status != 200 || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("of another client, repeated: %d %s", got.status, got.text)
		}
		if n := b.count("SELECT COUNT(*) FROM idempotency WHERE response LIKE '%" + ada +
			"%' OR response LIKE '%erased@%'"); n != 0 {
			t.Errorf("%d responses name the erased subject", n)
		}

		// No data of the erased subject remains, and no other subject is affected.
		detail, text := ask[members](b, "GET", "/api/user/detail?user_id="+ada, "")
		if detail["user_id"] != ada || strings.Contains(strings.ToLower(text), "erased@") ||
			strings.Contains(text, "Example Street") || strings.Contains(text, "1990") || strings.Contains(text, "Ada") {
			t.Errorf("%s", text)
		}
		if _, text := ask[members](b, "GET", "/api/user/detail?user_id="+bob, ""); !strings.Contains(text,
			"kept@example.com") {
			t.Errorf("%s", text)
		}
		for _, table := range []string{"users", "recipients", "mails"} {
			column := map[string]string{"users": "email", "recipients": "email", "mails": "address"}[table]
			if n := b.count("SELECT COUNT(*) FROM " + table + " WHERE " + column + " LIKE 'erased@%'"); n != 0 {
				t.Errorf("%d of %s", n, table)
			}
		}
	})
}

// A callback changes a verification only if it is authentic and recent, and then to the state that the provider
// reports when asked. A repeated callback gets the same response and has no effect.
func TestCallbacks(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		vendor := sumsubtest.Start(t)
		b.server.KYC.Provider = sumsub.New(sumsub.Options{URL: vendor.URL, Token: sumsubtest.Token, Secret: sumsubtest.Secret,
			WebhookSecret: sumsubtest.WebhookSecret, PersonLevel: "kyc", CompanyLevel: "kyb", Now: time.Now})
		id := b.documented("Approved") // the provider does not decide by the name
		ask[members](b, "POST", "/api/user/kyc-initiate", `{"user_id":"`+id+`"}`)
		b.verify()
		now, err := d.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		body := func(applicant, kind string, at time.Time) string {
			return `{"applicantId":"` + applicant + `","type":"` + kind + `","createdAtMs":"` +
				at.UTC().Format("2006-01-02 15:04:05.000") + `","reviewResult":{"reviewAnswer":"GREEN"}}`
		}
		const path, algorithm = "/callbacks/verification/sumsub", "HMAC_SHA256_HEX"
		call := func(digest, body string) reply {
			return b.do("POST", path, body, "Authorization", "", "X-Payload-Digest", digest, "X-Payload-Digest-Alg", algorithm)
		}
		sign := func(body string) string { return sumsubtest.Sign(sumsubtest.WebhookSecret, body) }
		const once = 1 // after the upload
		if vendor.Status("app1") != "pending" || vendor.StatusRequests() != once || b.kycStatus(id) != "in_review" {
			t.Fatalf("%s, asked %d times, %s", vendor.Status("app1"), vendor.StatusRequests(), b.kycStatus(id))
		}

		// The provider has decided, so every query would return the decision.
		vendor.Decide(`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"GREEN"}}`)
		genuine, before := body("app1", "applicantReviewed", now), b.rows()
		old, early := body("app1", "applicantReviewed", now.Add(-6*time.Minute)),
			body("app1", "applicantReviewed", now.Add(6*time.Minute))
		for name, c := range map[string]struct{ digest, body string }{
			"unsigned":                {"", genuine},
			"forged":                  {sumsubtest.Sign("guess", genuine), genuine},
			"signed as a request":     {sumsubtest.Sign(sumsubtest.Secret, genuine), genuine},
			"another body":            {sign(genuine), body("app1", "applicantPending", now)},
			"one byte more":           {sign(genuine), genuine + " "},
			"old":                     {sign(old), old},
			"from the future":         {sign(early), early},
			"old, with another time":  {sign(old), genuine},
			"a digest that is no hex": {"zz" + sign(genuine)[2:], genuine},
			"nothing":                 {sign(""), ""},
		} {
			if got := call(c.digest, c.body); got.status != 401 || got.json(t)["code"] != "invalid_token" {
				t.Errorf("%s: %d %s", name, got.status, got.text)
			}
		}
		for _, provider := range []string{"sandbox", "nobody"} {
			got := b.do("POST", "/callbacks/verification/"+provider, genuine, "Authorization", "", "X-Payload-Digest",
				sign(genuine), "X-Payload-Digest-Alg", algorithm)
			if got.status != 401 {
				t.Errorf("%s: %d", provider, got.status)
			}
		}
		b.verify()
		if after := b.rows(); after != before || vendor.StatusRequests() != once || b.kycStatus(id) != "in_review" {
			t.Fatalf("rejected callbacks left %s, before %s; %d status requests, %s", after, before,
				vendor.StatusRequests(), b.kycStatus(id))
		}

		// The content of a callback is not trusted: the provider is asked, and is still undecided.
		vendor.Decide(`{"reviewStatus":"pending"}`)
		for range 3 {
			if got := call(sign(genuine), genuine); got.status != 200 {
				t.Fatalf("%d %s", got.status, got.text)
			}
			b.verify()
		}
		if stranger := body("app99", "applicantReviewed", now); call(sign(stranger), stranger).status != 200 {
			t.Error("an applicant of another client is an internal error")
		}
		b.verify()
		if vendor.StatusRequests() != once+1 || b.kycStatus(id) != "in_review" {
			t.Errorf("asked %d times, %s", vendor.StatusRequests(), b.kycStatus(id))
		}

		vendor.Decide(`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"GREEN"}}`)
		next := body("app1", "applicantReviewed", now.Add(time.Second))
		if got := call(sign(next), next); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.text)
		}
		if got := b.kycStatus(id); got != "in_review" {
			t.Errorf("%s before the vendor was asked", got)
		}
		b.verify()
		if got := statuses(b.eventsOf("user.kyc_status_update", id)); got != "pending in_review approved" {
			t.Errorf("events %s", got)
		}
	})
}

// unread is a body that fails the test if it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// A webhook of a bank is refused unless it is signed and of at most 64 KiB.
func TestBankCallbacks(t *testing.T) {
	d := newFullFixture(t, sqlite(t)).server.Deps
	d.BankCallbacks = bank.Callbacks{"increase": {Header: "Webhook-Signature",
		Transfer: func(h http.Header, body []byte, _ time.Time) (string, error) {
			if h.Get("Webhook-Signature") != "right" {
				return "", bank.ErrCallback
			}
			return string(body), nil
		}}}
	server := New(d)
	for name, c := range map[string]struct {
		path, signature, body string
		want                  int
	}{
		"signed":                {"increase", "right", "ach_transfer_1", http.StatusOK},
		"unsigned":              {"increase", "", "ach_transfer_1", http.StatusUnauthorized},
		"signed by others":      {"increase", "wrong", "ach_transfer_1", http.StatusUnauthorized},
		"a bank without secret": {"column", "right", "ach_transfer_1", http.StatusUnauthorized},
		"too large":             {"increase", "right", strings.Repeat("x", 64<<10+1), http.StatusRequestEntityTooLarge},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/callbacks/bank/"+c.path, strings.NewReader(c.body))
		r.Header.Set("Webhook-Signature", c.signature)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A callback that the provider cannot have sent is refused before its body takes memory. So is every webhook of a bank
// whose secret is not configured.
func TestCallbacksOfStrangersAreNotRead(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	for _, path := range []string{"verification/sandbox", "verification/sumsub", "verification/x", "bank/increase"} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/callbacks/"+path, unread{t})
		r.Header.Set("Webhook-Signature", "v1,AAAA")
		r.ContentLength = 1 << 20
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
