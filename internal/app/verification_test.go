package app

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub/sumsubtest"
)

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// Documents must be legible where somebody reads them. A sandbox takes pictures of any size, so that tests need no large files.
func TestSmallPicturesAreForTheSandbox(t *testing.T) {
	if img, err := (Config{Env: Sandbox}).intake().Read(t.Context(), pixel); err != nil || img.Width != 1 {
		t.Errorf("the sandbox: %+v %v", img, err)
	}
	if _, err := (Config{Env: Production}).intake().Read(t.Context(), pixel); !errors.Is(err, kyc.ErrImage) {
		t.Errorf("production: %v", err)
	}

	d := newDoor(t, boot(t, dbtest.SQLite(t)))
	at, body := "/api/user/document/upload", `{"user_id":"`+d.seed.Workers[0].UserID+`","doc_type":"passport","category":"front","issuing_country":"DE","base64_image":"`
	d.ok("POST", at, body+pixel+`"}`)
	d.refused(422, "unsupported_image", "POST", at, body+base64.StdEncoding.EncodeToString([]byte("no picture"))+`"}`)
}

// What the vendor calls back comes through the service's one address, with its signature and without any other credential.
func TestTheVendorReachesTheService(t *testing.T) {
	s := boot(t, dbtest.SQLite(t), func(c *Config) {
		c.SumsubURL, c.SumsubToken, c.SumsubSecret = sumsubtest.Start(t).URL, sumsubtest.Token, sumsubtest.Secret
		c.SumsubWebhookSecret = sumsubtest.WebhookSecret
	})
	d := newDoor(t, s)
	now, err := s.db.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const path = "/callbacks/verification/sumsub"
	body := `{"applicantId":"somebody","type":"applicantReviewed","createdAtMs":"` + now.UTC().Format("2006-01-02 15:04:05.000") + `"}`
	signed := []string{"Authorization", "", "X-Payload-Digest", sumsubtest.Sign(sumsubtest.WebhookSecret, body), "X-Payload-Digest-Alg", "HMAC_SHA256_HEX"}
	d.ok("POST", path, body, signed...)
	d.refused(401, "invalid_token", "POST", path, body+" ", signed...)
	d.advance(6 * time.Minute)
	d.refused(401, "invalid_token", "POST", path, body, signed...)
}
