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
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
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

// Documents are encrypted with a key of their subject, in chunks that cannot be exchanged. Nothing is stored or logged
// in plain text.
func TestDocumentsAreEncrypted(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b, log := newKYC(t, d)
		ada := b.user("ada")
		const path, refused = "/api/user/document/upload", "078051120"
		page := scan64(900, 640, 3)
		ask[members](b, "POST", path, encode(upload(ada, "passport", "front", "DE", page)))
		tax := members{"user_id": ada, "doc_type": "tax_id", "tax_id": "36574261809", "tax_id_type": "idnr"}
		ask[members](b, "POST", path, encode(tax))
		tax["tax_id"] = refused
		b.wants(422, "tax_id_invalid", "POST", path, encode(tax))
		for _, secret := range []string{refused, "36574261809", page[:64]} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
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
		leave, ok := b.server.Bodies.Acquire(httptest.NewRecorder(), another, time.Now, imageLimit)
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
		if _, ok := b.server.Bodies.Acquire(httptest.NewRecorder(), r, time.Now, defaultBodyLimit); ok != want {
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

// One company, and one network, use a part of the memory for bodies only, so they do not delay the requests of others.
func TestOneCompanyDoesNotUseUpTheMemoryForBodies(t *testing.T) {
	for _, c := range []struct{ name, company, network string }{
		{"one company", "com_a", ""}, {"one network", "", "198.51.100.7"},
	} {
		b, _ := newKYC(t, sqlite(t))
		b.server.Bodies = ratelimit.NewBodyBudget(48<<20, 16<<20, 10*time.Millisecond)
		for range 8 {
			stalled := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(""))
			stalled.ContentLength = 2_000_000
			b.server.Bodies.Acquire(httptest.NewRecorder(), stalled, time.Now, defaultBodyLimit, c.company, c.network)
		}
		payroll := `{"to_pay":[` + strings.Repeat(`{"user_id":"usr_none","amount_fiat":0},`, 800) +
			`{"user_id":"usr_none","amount_fiat":0}]}`
		got := b.do("POST", "/api/company/payroll/create", payroll, "Idempotency-Key", strings.ReplaceAll(c.name, " ", "-"))
		if got.status == http.StatusServiceUnavailable {
			t.Errorf("%s: %s", c.name, got.text)
		}
	}
}
