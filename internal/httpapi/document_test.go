package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
)

// newKYC returns a fixture with verification, and its log.
func newKYC(t testing.TB, d *db.DB) (*fixture, *bytes.Buffer) {
	log := &bytes.Buffer{}
	b := newService(t, d, func(deps *Deps) {
		deps.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	b.useAllScopes()
	return b, log
}

// scan64 returns a JPEG of a given size in base64.
func scan64(w, h int, shade uint8) string {
	img := image.NewGray(image.Rect(0, 0, w, h))
	draw.Draw(img, img.Bounds(), image.NewUniform(color.Gray{Y: shade}), image.Point{}, draw.Src)
	var file bytes.Buffer
	if err := jpeg.Encode(&file, img, nil); err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(file.Bytes())
}

func upload(userID, docType, category, country, image string) members {
	return members{
		"user_id": userID, "doc_type": docType, "category": category, "issuing_country": country, "base64_image": image,
	}
}

func (b *fixture) listed(userID string) string {
	b.t.Helper()
	_, text := ask[members](b, "GET", "/api/user/document/list?user_id="+userID, "")
	return text
}

func TestDocuments(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		ada := b.user("ada")
		at := "/api/user/document/upload"
		page := scan64(900, 640, 200)
		if got := b.listed(ada); got != `{"documents":[]}` {
			t.Errorf("%s", got)
		}
		for _, body := range []members{
			upload(ada, "national_id", "front", "DE", page),
			upload(ada, "national_id", "back", "de", page),
			upload(ada, "passport", "front", "MC", page), // not in the table, but passports are always accepted
			upload(ada, "proof_of_address", "front", "DE", page),
			upload(ada, "selfie", "front", "DE", page),
			{"user_id": ada, "doc_type": "tax_id", "tax_id": "36 574 261 809", "tax_id_type": "idnr"},
			{"user_id": ada, "doc_type": "tax_id", "tax_id": "390.533.447-05", "tax_id_type": "cpf", "issuing_country": "BR"},
		} {
			if got, _ := ask[members](b, "POST", at, encode(body)); got["success"] != true {
				t.Errorf("%v", got)
			}
		}
		want := `{"documents":[{"doc_type":"national_id","issuing_country":"DE"},{"doc_type":"passport",` +
			`"issuing_country":"MC"},` +
			`{"doc_type":"proof_of_address","issuing_country":"DE"},{"doc_type":"selfie","issuing_country":"DE"},` +
			`{"doc_type":"tax_id","issuing_country":"DE"},{"doc_type":"tax_id","issuing_country":"BR"}]}`
		if got := b.listed(ada); got != want {
			t.Errorf("%s", got)
		}

		// An upload of the same type, side and country replaces the earlier one, which is stored until the decision.
		ask[members](b, "POST", at, encode(upload(ada, "passport", "front", "MC", scan64(800, 600, 10))))
		if got := b.listed(ada); len(got) != len(want) || strings.Count(got, "passport") != 1 {
			t.Errorf("%s", got)
		}
		if n := b.count("SELECT COUNT(*) FROM documents WHERE doc_type = 'passport' AND state = 'replaced'"); n != 1 {
			t.Errorf("%d replaced", n)
		}
		if n := b.count("SELECT files FROM subjects"); n != 5 {
			t.Errorf("%d files counted", n)
		}

		// A token uploads for its own user. An API key must name the user.
		token := b.token(ada, identity.UserUpdateDoc, identity.UserDocumentList)
		mine := upload("", "drivers_license", "front", "DE", page)
		delete(mine, "user_id")
		ask[members](b, "POST", at, encode(mine), "Authorization", token)
		b.wants(422, "missing_field", "POST", at, encode(mine))
		b.wants(403, "insufficient_scope", "POST", at, encode(mine), "Authorization", b.token(ada, identity.UserDetail))

		// A repeated idempotency key returns the first response and stores nothing.
		again := encode(upload(ada, "residence_permit", "front", "DE", page))
		before := ""
		for range 2 {
			ask[members](b, "POST", at, again, "Idempotency-Key", "one")
			if before == "" {
				before = b.rows()
			}
		}
		if after := b.rows(); after != before {
			t.Errorf("%s, before %s", after, before)
		}

		b.set("UPDATE companies SET status = 'frozen'")
		b.wants(403, "company_frozen", "POST", at, again)
	})
}

func TestDocumentUploadsAreRefused(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, log := newKYC(t, d)
		ada := b.user("ada")
		at := "/api/user/document/upload"
		page := scan64(900, 640, 200)
		refuseBadInput(b, "POST", at, upload(ada, "national_id", "front", "DE", page), map[string]rule{
			"user_id": {required: true, id: true}, "doc_type": {required: true}, "category": {required: true},
			"issuing_country": {required: true}, "base64_image": {required: true},
		})
		refuseBadInput(b, "POST", at, members{"user_id": ada, "doc_type": "tax_id", "tax_id": "36574261809",
			"tax_id_type": "idnr", "issuing_country": "DE"}, map[string]rule{
			"user_id": {required: true, id: true}, "tax_id": {required: true}, "tax_id_type": {required: true},
			"issuing_country": {},
		})
		var animated bytes.Buffer
		if err := png.Encode(&animated, image.NewGray(image.Rect(0, 0, 1, 1))); err != nil {
			t.Fatal(err)
		}
		manyScans, err := os.ReadFile("../kyc/testdata/65-scans.jpeg")
		if err != nil {
			t.Fatal(err)
		}
		before := b.rows()
		const canary = "078051120"
		with := func(change members) members {
			body := upload(ada, "national_id", "front", "DE", page)
			for k, v := range change {
				if body[k] = v; v == nil {
					delete(body, k)
				}
			}
			return body
		}
		tax := func(kind, number, country string) members {
			return members{
				"user_id": ada, "doc_type": "tax_id", "tax_id": number, "tax_id_type": kind, "issuing_country": country,
			}
		}
		for name, c := range map[string]struct {
			body    members
			status  int
			code    string
			pointer string
		}{
			"passport, back": {with(members{"doc_type": "passport", "category": "back"}), 422,
				"category_not_allowed", "/category"},
			"proof of address, back": {with(members{"doc_type": "proof_of_address", "category": "back"}), 422,
				"category_not_allowed", "/category"},
			"selfie, back": {with(members{"doc_type": "selfie", "category": "back"}), 422,
				"category_not_allowed", "/category"},
			"third side":                  {with(members{"category": "left"}), 422, "invalid_parameter", "/category"},
			"no such document":            {with(members{"doc_type": "library_card"}), 422, "invalid_parameter", "/doc_type"},
			"document of another country": {with(members{"doc_type": "voter_id"}), 422, "invalid_parameter", "/doc_type"},
			"no country": {with(members{"issuing_country": "XX"}), 422, "country_not_supported",
				"/issuing_country"},
			"three letters": {with(members{"issuing_country": "DEU"}), 422, "country_not_supported",
				"/issuing_country"},
			"a country without a row": {with(members{"issuing_country": "MC"}), 422, "country_not_supported",
				"/issuing_country"},
			"tax id beside an image": {with(members{"tax_id": "1"}), 422, "invalid_parameter", "/tax_id"},
			"image beside a tax id": {members{"user_id": ada, "doc_type": "tax_id", "tax_id": "36574261809",
				"tax_id_type": "idnr", "base64_image": page}, 422, "invalid_parameter", "/base64_image"},
			"no image": {with(members{"base64_image": "aGVsbG8="}), 422, "unsupported_image",
				"/base64_image"},
			"no base64": {with(members{"base64_image": "?"}), 422, "unsupported_image", "/base64_image"},
			"one pixel": {with(members{"base64_image": base64.StdEncoding.EncodeToString(animated.Bytes())}),
				422, "unsupported_image", "/base64_image"},
			"65 scans": {with(members{"base64_image": base64.StdEncoding.EncodeToString(manyScans)}), 422,
				"unsupported_image", "/base64_image"},
			"11 MiB": {with(members{"base64_image": strings.Repeat("A", 11<<20*4/3)}), 413,
				"payload_too_large", "/base64_image"},
			"wrong check digit":            {tax("idnr", "36574261808", "DE"), 422, "tax_id_invalid", "/tax_id"},
			"advertised number":            {tax("ssn", canary, "US"), 422, "tax_id_invalid", "/tax_id"},
			"a firm's number":              {tax("ein", "911144442", "US"), 422, "tax_id_invalid", "/tax_id_type"},
			"another country's type":       {tax("ssn", "536904399", "DE"), 422, "tax_id_invalid", "/tax_id_type"},
			"tax id of an unknown country": {tax("ssn", "536904399", "MC"), 422, "country_not_supported", "/issuing_country"},
			"another's user":               {with(members{"user_id": b.otherCompany().user("eve")}), 404, "not_found", ""},
			"nobody":                       {with(members{"user_id": "usr_00000000000000000000000000"}), 404, "not_found", ""},
		} {
			got := b.do("POST", at, encode(c.body))
			m := got.json(t)
			if got.status != c.status || m["code"] != c.code || c.pointer != "" &&
				!strings.Contains(got.text, `"pointer":"`+c.pointer+`"`) {
				t.Errorf("%s: %d %.400s", name, got.status, got.text)
			}
			if strings.Contains(got.text, canary) {
				t.Errorf("%s: the response repeats what was sent", name)
			}
		}
		if got := b.do("POST", at, `{"base64_image":"`+strings.Repeat("A", 16<<20)+`"}`); got.status != 413 {
			t.Errorf("16 MiB: %d", got.status)
		}
		if after := b.rows(); after != before {
			t.Errorf("refused uploads left rows: %s, before %s", after, before)
		}
		for _, secret := range []string{canary, "36574261809", page[:64]} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
	})
}

// Only the owner of a document learns that it exists.
func TestDocumentsAreVisibleToTheirOwnerOnly(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		ada, bob, other := b.user("ada"), b.user("bob"), b.otherCompany()
		ask[members](b, "POST", "/api/user/document/upload", encode(upload(ada, "passport", "front", "DE",
			scan64(900, 640, 3))))
		for _, at := range []string{"/api/user/document/list?user_id=", "/api/user/document/types?user_id="} {
			_, known := ask[members](b, "GET", at+ada, "")
			if got, _ := ask[members](b, "GET", at, "", "Authorization",
				b.token(ada, identity.UserDocumentList)); encode(got) == "" || known == "" {
				t.Error(got)
			}
			nobody := other.do("GET", at+"usr_00000000000000000000000000", "")
			for name, got := range map[string]reply{
				"another company":      other.do("GET", at+ada, ""),
				"another user's token": b.do("GET", at+ada, "", "Authorization", b.token(bob, identity.UserDocumentList)),
			} {
				if got.status != 404 || got.json(t)["code"] != "not_found" || got.json(t)["detail"] != nobody.json(t)["detail"] {
					t.Errorf("%s of %s: %d %s", at, name, got.status, got.text)
				}
			}
			b.wants(422, "missing_field", "GET", at, "")
			b.wants(422, "invalid_parameter", "GET", at+ada+"&user_id="+ada, "")
		}
		if got := b.listed(bob); got != `{"documents":[]}` {
			t.Errorf("%s", got)
		}
	})
}

// Documents are encrypted with a key of their subject, in chunks that cannot be exchanged, and nothing is stored in
// plain text.
func TestDocumentsAreEncrypted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		ada := b.user("ada")
		ask[members](b, "POST", "/api/user/document/upload", encode(upload(ada, "passport", "front", "DE",
			scan64(900, 640, 3))))
		ask[members](b, "POST", "/api/user/document/upload", encode(members{
			"user_id": ada, "doc_type": "tax_id", "tax_id": "36574261809", "tax_id_type": "idnr",
		}))
		b.write(func(ctx context.Context, tx *db.Tx) error {
			var sealed, number []byte
			if err := tx.QueryRow(ctx, "SELECT sealed FROM document_chunks").Scan(&sealed); err != nil {
				return err
			}
			if err := tx.QueryRow(ctx, "SELECT sealed FROM tax_ids").Scan(&number); err != nil {
				return err
			}
			if len(sealed) < 1000 || bytes.Contains(sealed, []byte("\xff\xd8\xff")) ||
				bytes.Contains(number, []byte("36574261809")) {
				t.Error("something is stored in plain")
			}
			return nil
		})
	})
}

// Requests wait for a while if their bodies exceed the memory budget, and then get 503. Each size class has its own
// budget, and tiny bodies need none.
func TestBodiesWaitForMemory(t *testing.T) {
	b, _ := newKYC(t, sqlite(t))
	user := b.person("Lovelace", nil)
	body := func(image string) string {
		text, _ := json.Marshal(upload(user, "passport", "front", "US", image))
		return string(text)
	}
	const at, pay = "/api/user/document/upload", "/api/company/payroll/create"
	large := body(strings.Repeat("A", defaultBodyLimit))
	people := func(n int) string {
		return `{"to_pay":[` + strings.Repeat(`{"user_id":"usr_none","amount_fiat":0},`, n-1) +
			`{"user_id":"usr_none","amount_fiat":0}]}`
	}
	// a response arrives before its budget is released
	b.server.Bodies = ratelimit.NewBodyBudget(imageLimit, defaultBodyLimit, 50*time.Millisecond)
	fill := func(size int64) (leave func()) {
		t.Helper()
		another := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(""))
		another.ContentLength = size
		leave, ok := b.server.Bodies.Acquire(httptest.NewRecorder(), another, time.Now(), imageLimit)
		if !ok {
			t.Fatal("no memory at the start")
		}
		return leave
	}
	refusedAs := func(status int, code, path, body string) {
		t.Helper()
		before := b.count("SELECT COUNT(*) FROM payrolls") + b.count("SELECT COUNT(*) FROM idempotency")
		b.wants(status, code, "POST", path, body, "Idempotency-Key", "room")
		if after := b.count("SELECT COUNT(*) FROM payrolls") + b.count("SELECT COUNT(*) FROM idempotency"); after != before {
			t.Errorf("%s left data", path)
		}
	}
	leave := fill(imageLimit - defaultBodyLimit)
	refusedAs(503, "retry_later", at, large)
	ask[members](b, "POST", at, body(scan64(700, 700, 200)))
	refusedAs(422, "amount_not_positive", pay, people(1_000))
	leave()
	leave = fill(defaultBodyLimit)
	refusedAs(503, "retry_later", pay, people(1_000))
	for text, want := range map[string]bool{people(10): true, people(1_000): false} { // without Content-Length
		r := httptest.NewRequestWithContext(t.Context(), "POST", pay, io.MultiReader(strings.NewReader(text)))
		if _, ok := b.server.Bodies.Acquire(httptest.NewRecorder(), r, time.Now(), defaultBodyLimit); ok != want {
			t.Errorf("%d bytes in chunks: room %v", len(text), ok)
		}
		if got, err := io.ReadAll(r.Body); want && (err != nil || string(got) != text) {
			t.Errorf("%d bytes of %d in chunks are left, %v", len(got), len(text), err)
		}
	}
	refusedAs(422, "amount_not_positive", pay, people(10))
	refusedAs(422, "unsupported_image", at, large)
	leave()
	for range 10 { // every request releases its memory
		refusedAs(422, "unsupported_image", at, large)
		refusedAs(422, "amount_not_positive", pay, people(1_000))
	}
}

// At most 20 documents of a subject are stored, even if uploads are concurrent. A replacement is always accepted.
func TestDocumentLimit(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		ada, page := b.user("ada"), scan64(600, 600, 7)
		countries := strings.Fields("DE FR IT ES PT NL BE AT PL SE NO FI DK IE GB CH CZ SK HU RO BG HR")
		done := make(chan reply, len(countries))
		for _, c := range countries {
			go func() {
				done <- b.do("POST", "/api/user/document/upload", encode(upload(ada, "passport", "front", c, page)))
			}()
		}
		var refused []reply
		for range countries {
			if got := <-done; got.status != 200 {
				refused = append(refused, got)
			}
		}
		if len(refused) != len(countries)-20 || slices.ContainsFunc(refused, func(r reply) bool {
			return r.status != 422 || r.json(t)["code"] != "document_limit"
		}) {
			t.Errorf("%d of %d refused: %v", len(refused), len(countries), refused)
		}
		var one string
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, "SELECT issuing_country FROM documents ORDER BY document_id").Scan(&one)
		})
		ask[members](b, "POST", "/api/user/document/upload", encode(upload(ada, "passport", "front", one, page)))
		if n := b.count("SELECT COUNT(*) FROM documents WHERE state = 'current'"); n != 20 {
			t.Errorf("%d documents", n)
		}
		// Replaced documents count toward the limit of 100 MiB.
		b.set("UPDATE subjects SET bytes = 104857600")
		b.wants(422, "document_limit", "POST", "/api/user/document/upload",
			encode(upload(ada, "passport", "front", one, page)))
	})
}

// The required documents depend on the country of the user and the currencies of the payers.
func TestDocumentTypes(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, _ := newKYC(t, d)
		resident := func(name, country string) (id string) {
			b.write(func(ctx context.Context, tx *db.Tx) error {
				u, err := identity.CreateUser(ctx, tx, b.server.Sealer, identity.NewUser{
					CompanyID: b.company, Profile: identity.Profile{Email: name + "@example.com", Country: country},
				})
				id = u.ID
				return err
			})
			return id
		}
		pays := func(user, currency string) string {
			p := goodPayer(user)
			p["payroll_invoice_currency"] = currency
			made, _ := ask[members](b, "POST", "/api/user/payer/create", encode(p))
			return made["external_company_id"].(string)
		}
		types := func(user, payer string) string {
			got, _ := ask[struct {
				DocTypes []documentType `json:"doc_types"`
			}](b, "GET", "/api/user/document/types?user_id="+user+payer, "")
			var text []string
			for _, d := range got.DocTypes {
				flags := ""
				if d.RequiresBackside {
					flags += "b"
				}
				if d.RequiresSelfie {
					flags += "s"
				}
				if d.RequiresProofOfAddress {
					flags += "p"
				}
				text = append(text, fmt.Sprint(d.DocType, ":", flags, len(d.TaxIDTypes)))
			}
			return strings.Join(text, " ")
		}
		de, br, ng, us := resident("de", "DE"), resident("br", "BR"), resident("ng", "NG"), resident("us", "US")
		for _, c := range []struct{ user, want string }{
			{de, "passport:2 national_id:b2 drivers_license:b2 residence_permit:b2"},
			{br, "passport:1 national_id:b1 drivers_license:b1 residence_permit:b1 tax_id:1"},
			{ng, "passport:p3 national_id:p3 drivers_license:bp3 voter_id:bp3 proof_of_address:0 tax_id:3"},
		} {
			if got := types(c.user, ""); got != c.want {
				t.Errorf("%s", got)
			}
		}
		euro := pays(de, "EUR")
		if got := types(de, ""); got != "passport:s2 national_id:bs2 drivers_license:bs2 residence_permit:bs2 selfie:0" {
			t.Errorf("euros in Germany: %s", got)
		}
		pays(de, "USD")
		if got := types(de, ""); !strings.HasSuffix(got, "selfie:0 tax_id:2") {
			t.Errorf("dollars in Germany: %s", got)
		}
		if got := types(de, "&external_company_id="+euro); !strings.HasSuffix(got, "selfie:0") {
			t.Errorf("only euros in Germany: %s", got)
		}
		far := pays(us, "EUR")
		if got := types(us, "&external_company_id="+far); got != "passport:sp2 national_id:bsp2 drivers_license:bsp2 "+
			"residence_permit:bsp2 selfie:0 proof_of_address:0 tax_id:2" {
			t.Errorf("euros in America: %s", got)
		}
		ask[members](b, "POST", "/api/user/payer/delete", `{"user_id":"`+us+`","external_company_id":"`+far+`"}`)
		if got := types(us, ""); got != "passport:2 national_id:b2 drivers_license:b2 residence_permit:b2 tax_id:2" {
			t.Errorf("after the payer is deleted: %s", got)
		}
		b.wants(409, "payer_deleted", "GET", "/api/user/document/types?user_id="+us+"&external_company_id="+far, "")
		b.wants(404, "not_found", "GET", "/api/user/document/types?user_id="+de+"&external_company_id="+far, "")
		b.wants(404, "not_found", "GET", "/api/user/document/types?user_id="+de+"&external_company_id=pyr_x", "")
		b.wants(409, "profile_incomplete", "GET", "/api/user/document/types?user_id="+resident("none", ""), "")
		b.wants(422, "country_not_supported", "GET", "/api/user/document/types?user_id="+resident("mc", "MC"), "")
	})
}

func (b *fixture) set(statement string) {
	b.t.Helper()
	if _, err := b.exec(statement); err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) count(query string) (n int64) {
	b.t.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error { return tx.QueryRow(ctx, query).Scan(&n) })
	return n
}
