package sumsub_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub"
	"github.com/stipend/stipend/internal/kyc/sumsub/sumsubtest"
	"github.com/stipend/stipend/internal/testkit"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func begin(t *testing.T) (*sumsubtest.Server, *sumsub.Provider) {
	v := sumsubtest.Start(t)
	return v, sumsub.New(sumsub.Options{URL: v.URL, Token: sumsubtest.Token, Secret: sumsubtest.Secret,
		WebhookSecret: sumsubtest.WebhookSecret,
		PersonLevel:   "basic kyc", CompanyLevel: "kyb", Now: func() time.Time { return now }})
}

func application() kyc.Application {
	return kyc.Application{
		CaseID: "ver_1", Person: &kyc.Person{FirstName: "Ada", LastName: "Lovelace", Country: "DE",
			DateOfBirth: "1990-12-10"},
		Documents: []kyc.DocumentFile{{
			Document: kyc.Document{ID: "doc_1", DocType: "national_id", Category: "back", IssuingCountry: "BR"},
			JPEG:     func(context.Context) ([]byte, error) { return []byte("\xff\xd8pixels"), nil },
		}},
	}
}

func TestSubmitCreatesOneApplicantPerCase(t *testing.T) {
	v, p := begin(t)
	for range 3 {
		ref, err := p.Submit(t.Context(), application())
		if err != nil || ref != "app1" {
			t.Fatalf("%s %v", ref, err)
		}
	}
	documents := v.Documents()
	if len(documents) != 1 || !strings.Contains(documents[0], `"idDocType":"ID_CARD"`) ||
		!strings.Contains(documents[0], `"idDocSubType":"BACK_SIDE"`) ||
		!strings.Contains(documents[0], `"country":"BRA"`) || !strings.Contains(documents[0], "\xff\xd8pixels") {
		t.Errorf("%q", documents)
	}
	if first := v.Bodies()[0]; v.Status("app1") != "pending" || !strings.Contains(first, `"country":"DEU"`) {
		t.Errorf("%s %s", v.Status("app1"), first)
	}
	company := kyc.Application{CaseID: "ver_2", Company: &kyc.CompanyProfile{Name: "Acme", Country: "US",
		RegistrationNumber: "1"}}
	if ref, err := p.Submit(t.Context(), company); err != nil || ref != "app2" ||
		!strings.Contains(strings.Join(v.Bodies(), ""), `"companyName":"Acme"`) {
		t.Errorf("%s %v", ref, err)
	}
}

func TestFetch(t *testing.T) {
	v, p := begin(t)
	if _, err := p.Submit(t.Context(), application()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status, answer, rejectType, label string
		want                              kyc.State
	}{
		{"pending", "", "", "", kyc.InReview},
		{"onHold", "RED", "FINAL", "", kyc.InReview},
		{"completed", "GREEN", "", "", kyc.Approved},
		{"completed", "RED", "RETRY", "UNSATISFACTORY_PHOTOS", kyc.Resubmission},
		{"completed", "RED", "FINAL", "FORGERY", kyc.Rejected},
	} {
		var labels, reasons []string
		if c.label != "" {
			labels, reasons = []string{c.label}, []string{strings.ToLower(c.label)}
		}
		review, err := json.Marshal(map[string]any{"reviewStatus": c.status, "reviewResult": map[string]any{
			"reviewAnswer": c.answer, "reviewRejectType": c.rejectType, "rejectLabels": labels}})
		testkit.Check(t, err)
		v.Decide(string(review))
		got, err := p.Fetch(t.Context(), "app1")
		if err != nil || got.State != c.want || !slices.Equal(got.Reasons, reasons) {
			t.Errorf("%s: %+v %v", review, got, err)
		}
	}
	// Unknown values decide nothing and are reported as an error.
	for _, review := range []string{
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"YELLOW"}}`,
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"RED","reviewRejectType":"LATER"}}`,
		`{"reviewStatus":"archived","reviewResult":{"reviewAnswer":"GREEN"}}`, `{}`,
	} {
		v.Decide(review)
		if got, err := p.Fetch(t.Context(), "app1"); err == nil || !strings.Contains(err.Error(), "unknown") ||
			got.State != kyc.InReview {
			t.Errorf("%s: %+v %v", review, got, err)
		}
	}
	if _, err := p.Fetch(t.Context(), "nobody"); err == nil {
		t.Error("Fetch returns an outcome of an unknown applicant")
	}
}

func TestCallbackNeedsAValidSignatureAndARecentTime(t *testing.T) {
	_, p := begin(t)
	body := `{"applicantId":"app1","type":"applicantReviewed","createdAtMs":"2026-05-01 12:04:59.000"}`
	headers := func(digest, algorithm string) http.Header {
		return http.Header{"X-Payload-Digest": {digest}, "X-Payload-Digest-Alg": {algorithm}}
	}
	good := headers(sumsubtest.Sign(sumsubtest.WebhookSecret, body), "HMAC_SHA256_HEX")
	n, err := p.Callback(good, []byte(body), now)
	if err != nil || n.Ref != "app1" || n.ID == "" {
		t.Fatalf("%+v %v", n, err)
	}
	old := strings.Replace(body, "12:04:59", "11:54:59", 1)
	undated := `{"applicantId":"app1"}`
	for name, c := range map[string]struct {
		h    http.Header
		body string
	}{
		"no digest":        {http.Header{}, body},
		"another body":     {good, strings.Replace(body, "app1", "app2", 1)},
		"another secret":   {headers(sumsubtest.Sign(sumsubtest.Secret, body), "HMAC_SHA256_HEX"), body},
		"a weak algorithm": {headers(sumsubtest.Sign(sumsubtest.WebhookSecret, body), "HMAC_SHA1_HEX"), body},
		"no algorithm":     {headers(sumsubtest.Sign(sumsubtest.WebhookSecret, body), ""), body},
		"six minutes ago":  {headers(sumsubtest.Sign(sumsubtest.WebhookSecret, old), "HMAC_SHA256_HEX"), old},
		"without a time":   {headers(sumsubtest.Sign(sumsubtest.WebhookSecret, undated), "HMAC_SHA256_HEX"), undated},
		"not JSON":         {headers(sumsubtest.Sign(sumsubtest.WebhookSecret, "x"), "HMAC_SHA256_HEX"), "x"},
	} {
		if _, err := p.Callback(c.h, []byte(c.body), now); !errors.Is(err, kyc.ErrCallback) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A callback names its applicant, or is refused. Only the provider can sign one.
func FuzzCallback(f *testing.F) {
	p := sumsub.New(sumsub.Options{WebhookSecret: sumsubtest.WebhookSecret})
	for _, body := range []string{`{"applicantId":"app1","createdAtMs":"2026-05-01 12:00:00.000"}`,
		`{"applicantId":1}`, `{"createdAtMs":"2026-05-01 12:00:00.000"}`, `[]`, ``} {
		f.Add(body, sumsubtest.Sign(sumsubtest.WebhookSecret, body), true)
		f.Add(body, sumsubtest.Sign("another", body), false)
	}
	f.Fuzz(func(t *testing.T, body, signature string, sign bool) {
		right := sumsubtest.Sign(sumsubtest.WebhookSecret, body)
		if sign {
			signature = right
		}
		h := http.Header{}
		h.Set("X-Payload-Digest-Alg", "HMAC_SHA256_HEX")
		h.Set("X-Payload-Digest", signature)
		notice, err := p.Callback(h, []byte(body), now)
		if err == nil && (notice.Ref == "" || notice.ID == "" || !strings.EqualFold(signature, right)) {
			t.Errorf("%q with %q is accepted: %+v", body, signature, notice)
		}
	})
}
