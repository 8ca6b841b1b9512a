package app_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub/sumsubtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// pixel is a PNG image of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// In production, documents must be large enough to read. A sandbox accepts images of any size, so that tests need no
// large files.
func TestSmallPicturesAreForTheSandbox(t *testing.T) {
	if img, err := app.ImageDecoder(app.Config{Process: app.Process{Env: app.Sandbox}}).Read(t.Context(),
		pixel); err != nil || img.Width != 1 {
		t.Errorf("the sandbox: %+v %v", img, err)
	}
	if _, err := app.ImageDecoder(app.Config{Process: app.Process{Env: app.Production}}).Read(t.Context(),
		pixel); !errors.Is(err, kyc.ErrImage) {
		t.Errorf("production: %v", err)
	}

	d := newAPIClient(t, boot(t, dbtest.SQLite(t)))
	at, body := "/api/user/document/upload",
		`{"user_id":"`+d.seed.Workers[0].UserID+`","doc_type":"passport","category":"front","issuing_country":"DE",`+
			`"base64_image":"`
	d.ok("POST", at, body+pixel+`"}`)
	d.refused(422, "unsupported_image", "POST", at, body+base64.StdEncoding.EncodeToString([]byte("no picture"))+`"}`)
}

// The service accepts the vendor's callbacks at its public address. They need a valid signature and no other
// credential.
func TestTheVendorReachesTheService(t *testing.T) {
	s := boot(t, dbtest.SQLite(t), func(c *app.Config) {
		c.SumsubURL, c.SumsubToken, c.SumsubSecret = sumsubtest.Start(t).URL, sumsubtest.Token, sumsubtest.Secret
		c.SumsubWebhookSecret = sumsubtest.WebhookSecret
	})
	d := newAPIClient(t, s)
	now, err := s.DB().Now(t.Context())
	testkit.Check(t, err)
	const path = "/callbacks/verification/sumsub"
	body := `{"applicantId":"somebody","type":"applicantReviewed","createdAtMs":"` +
		now.UTC().Format("2006-01-02 15:04:05.000") + `"}`
	signed := []string{"Authorization", "", "X-Payload-Digest", sumsubtest.Sign(sumsubtest.WebhookSecret, body),
		"X-Payload-Digest-Alg", "HMAC_SHA256_HEX"}
	d.ok("POST", path, body, signed...)
	d.refused(401, "invalid_token", "POST", path, body+" ", signed...)
	d.advance(6 * time.Minute)
	d.refused(401, "invalid_token", "POST", path, body, signed...)
}

// The service erases a paid person's data only when no payment to them is open and the legal retention period is
// over. The payments stay, under the person's ID (S82).
func TestErasureKeepsTheBooks(t *testing.T) {
	d := newAPIClient(t, boot(t, dbtest.SQLite(t)))
	worker := d.seed.Workers[0]
	keep := 0
	forget := func(want error) {
		t.Helper()
		err := d.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			known, err := kyc.Erase(ctx, tx, worker.UserID, keep)
			if err != nil {
				return err
			}
			return httpapi.ForgetAnswers(ctx, tx, known)
		})
		if !errors.Is(err, want) {
			t.Errorf("erase: %v, want %v", err, want)
		}
	}
	known := func() bool {
		return strings.Contains(d.ok("GET", "/api/company/workers", "").text, worker.Email)
	}
	made := d.payTwo("100.00")
	forget(kyc.ErrUnpaid)
	d.deposit(made.PayrollID, "exact", "")
	before := d.fulfilled(made.PayrollID)
	keep = 5
	forget(kyc.ErrRetention)
	years := func(n int) {
		for range n {
			d.advance(365 * 24 * time.Hour)
		}
	}
	years(4)
	forget(kyc.ErrRetention)
	if !known() {
		t.Error("a refused erasure erased the worker")
	}
	years(2)
	for range 2 {
		forget(nil)
	}
	if known() {
		t.Error("the company's list still names the erased worker")
	}
	after := d.payroll(made.PayrollID)
	if len(after.Payments) != len(before.Payments) || after.Payments[0].UserID != worker.UserID ||
		after.Status != "fulfilled" {
		t.Errorf("%+v", after)
	}
	if report, err := checkLedger(t.Context(), d.s); err != nil || len(report.Problems) > 0 {
		t.Errorf("%v %v", report.Problems, err)
	}
	if got := d.do("POST", createPath, pays("", "100.00", worker.UserID), "Idempotency-Key",
		freshKey()); got.status/100 != 4 {
		t.Errorf("a payroll for the erased worker: got status %d, want 4xx", got.status)
	}
	d.create(pays("", "100.00", d.seed.Workers[1].UserID))
}

// A person's incomes are kept as long as payments of companies: not erased while one is open, nor within the retention
// period.
func TestAPersonWithIncomesIsErasedAfterTheRetentionPeriod(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, database string) {
		d := newAPIClient(t, boot(t, database))
		ada, _ := d.ok("POST", "/api/user/create", strings.Replace(person, "{", `{"email": "ada@payee.example", `, 1)).
			read(t)["user_id"].(string)
		forget := func(want error) {
			t.Helper()
			err := d.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := kyc.Erase(ctx, tx, ada, 5)
				return err
			})
			if !errors.Is(err, want) {
				t.Errorf("erase: %v, want %v", err, want)
			}
		}
		d.ok("POST", "/api/sandbox/kyc", `{"user_id":"`+ada+`","result":"approved"}`)
		account, _ := d.ok("POST", "/api/user/funding/account", `{"user_id":"`+ada+
			`","currency":"EUR","terms_version":"2026-01"}`).read(t)["funding_account_id"].(string)
		d.ok("POST", "/api/sandbox/bank-deposit", `{"funding_account_id":"`+account+
			`","amount":50,"currency":"EUR","reference":"E2E-1"}`)
		status := func(want string) {
			t.Helper()
			eventually(t, 60*time.Second, "the income is "+want, func() bool {
				return strings.Contains(d.ok("GET", "/api/user/income?user_id="+ada, "").text, `"status":"`+want+`"`)
			})
		}
		status("action_required")
		forget(kyc.ErrAccount)
		testkit.Check(t, d.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE funding_accounts SET status = 'closed' WHERE owner_id = $1", ada)
			return err
		}))
		forget(kyc.ErrUnpaid)
		d.ok("POST", "/api/user/distribution", `{"user_id":"`+ada+`","symbol":"EUR","distribution_type":"fiat",`+
			`"distribution_data":{"account_holder_name":"Ada Lovelace","account_holder_type":"individual",`+
			`"iban":"DE89370400440532013000"}}`)
		status("fulfilled")
		forget(kyc.ErrRetention)
		for range 6 {
			d.advance(365 * 24 * time.Hour)
		}
		forget(nil)
		forget(nil)
	})
}

// The service erases a recipient without an account, with the tax form that they certified, by the same rules as a
// user: not before their payments have ended and the retention period is over.
func TestARecipientIsErasedAfterTheRetentionPeriod(t *testing.T) {
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		on := o.s.DB()
		const who = "joan@payee.example"
		company := "/api/company/" + o.d.seed.CompanyID
		joan, _ := o.d.ok("POST", company+"/recipients/create",
			`{"first_name":"Joan","last_name":"Clarke","country":"DE","email":"`+who+`"}`).read(t)["recipient_id"].(string)
		o.d.ok("POST", company+"/recipients/"+joan+"/distribution", `{"symbol":"EUR","distribution_data":`+
			`{"account_holder_name":"Joan Clarke","account_holder_type":"individual","iban":"DE89370400440532013000"}}`)
		o.Submit(o.Get("/recipients/"+joan), "/recipients/"+joan+"/ask")
		link, v := o.mailed(who, "/payee/"), webtest.NewVisitor(t, o.s.Ready().BaseURL)
		v.Submit(v.Get(link+"/tax?form=w9"), link+"/tax", "tax_id", "536-90-4399", "tax_id_type", "ssn", "street_address",
			"1 Main Street", "city", "Springfield", "certified", "yes")
		left := func(query string) (n int64) {
			t.Helper()
			testkit.Check(t, on.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+query, joan).Scan(&n)
			}))
			return n
		}
		personal := []string{"tax_forms WHERE subject_id = $1", "destinations WHERE owner_id = $1",
			"destination_requests WHERE recipient_id = $1",
			"recipients WHERE recipient_id = $1 AND (last_name <> '' OR email <> '' OR details <> '')"}
		forget := func(want error) {
			t.Helper()
			err := on.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				known, err := kyc.Erase(ctx, tx, joan, 5)
				if err != nil {
					return err
				}
				return httpapi.ForgetAnswers(ctx, tx, known)
			})
			if !errors.Is(err, want) {
				t.Errorf("erase: %v, want %v", err, want)
			}
			for _, query := range personal {
				if n := left(query); n != map[bool]int64{true: 0, false: 1}[want == nil] {
					t.Errorf("after %v: %d rows of %s", want, n, query)
				}
			}
		}
		made := o.d.create(pays("", "100", joan))
		forget(kyc.ErrUnpaid)
		o.d.deposit(made.PayrollID, "exact", "")
		o.d.fulfilled(made.PayrollID)
		forget(kyc.ErrRetention)
		for range 6 {
			o.d.advance(365 * 24 * time.Hour)
		}
		forget(nil)
		forget(nil)
		if got := o.d.payroll(made.PayrollID); got.Status != "fulfilled" || len(got.Payments) != 1 {
			t.Errorf("%+v", got)
		}
		if got := o.d.ok("GET", "/api/company/recipients", "").text; strings.Contains(got, "Clarke") {
			t.Error("the company's list still names the erased recipient")
		}
		err := on.Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			_, err := kyc.Erase(ctx, tx, "rec_unknown", 0)
			return err
		})
		if !errors.Is(err, apierr.NotFoundErr) {
			t.Errorf("an unknown recipient: %v", err)
		}
	})
}
