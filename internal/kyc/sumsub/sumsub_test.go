package sumsub_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub"
)

// vendor behaves as the published interface says: it checks each signature, knows an applicant by externalUserId once,
// takes documents while an applicant is init, and has a review.
type vendor struct {
	mu         sync.Mutex
	applicants map[string]string // externalUserId → id
	status     map[string]string
	documents  []string
	review     string
	bodies     []string
}

func sign(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if r.Header.Get("X-App-Token") != "token" || r.Header.Get("X-App-Access-Sig") != sign("secret", r.Header.Get("X-App-Access-Ts")+r.Method+r.URL.RequestURI()+string(body)) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	v.bodies = append(v.bodies, string(body))
	path := r.URL.Path
	id := strings.TrimPrefix(path, "/resources/applicants/")
	id, rest, _ := strings.Cut(id, "/")
	switch {
	case r.Method == http.MethodPost && path == "/resources/applicants":
		var in struct{ ExternalUserID string }
		_ = json.Unmarshal(body, &in)
		if v.applicants[in.ExternalUserID] != "" {
			w.WriteHeader(http.StatusConflict)
			return
		}
		id := fmt.Sprint("app", len(v.applicants)+1)
		v.applicants[in.ExternalUserID], v.status[id] = id, "init"
		_, _ = fmt.Fprintf(w, `{"id":%q,"review":{"reviewStatus":"init"}}`, id)
	case strings.HasPrefix(id, "-;externalUserId="):
		id := v.applicants[strings.TrimPrefix(id, "-;externalUserId=")]
		_, _ = fmt.Fprintf(w, `{"id":%q,"review":{"reviewStatus":%q}}`, id, v.status[id])
	case rest == "info/idDoc" && v.status[id] == "init":
		v.documents = append(v.documents, string(body))
		_, _ = w.Write([]byte(`{}`))
	case rest == "status/pending" && v.status[id] == "init":
		v.status[id] = "pending"
		_, _ = w.Write([]byte(`{"ok":1}`))
	case rest == "status" && v.status[id] != "":
		_, _ = w.Write([]byte(v.review))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func begin(t *testing.T) (*vendor, *sumsub.Provider) {
	v := &vendor{applicants: map[string]string{}, status: map[string]string{}}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	return v, sumsub.New(sumsub.Options{URL: server.URL, Token: "token", Secret: "secret", WebhookSecret: "hook", PersonLevel: "basic kyc", CompanyLevel: "kyb",
		Now: func() time.Time { return now }})
}

func application() kyc.Application {
	return kyc.Application{
		CaseID: "ver_1", Person: &kyc.Person{FirstName: "Ada", LastName: "Lovelace", Country: "DE", DateOfBirth: "1990-12-10"},
		Document: []kyc.Paper{{
			Document: kyc.Document{ID: "doc_1", DocType: "national_id", Category: "back", IssuingCountry: "BR"},
			JPEG:     func(context.Context) ([]byte, error) { return []byte("\xff\xd8pixels"), nil },
		}},
	}
}

// A case is submitted once, also when the answer was lost and it is submitted again.
func TestSubmit(t *testing.T) {
	v, p := begin(t)
	for range 3 {
		ref, err := p.Submit(t.Context(), application())
		if err != nil || ref != "app1" {
			t.Fatalf("%s %v", ref, err)
		}
	}
	if len(v.documents) != 1 || !strings.Contains(v.documents[0], `"idDocType":"ID_CARD"`) || !strings.Contains(v.documents[0], `"idDocSubType":"BACK_SIDE"`) ||
		!strings.Contains(v.documents[0], `"country":"BRA"`) || !strings.Contains(v.documents[0], "\xff\xd8pixels") {
		t.Errorf("%q", v.documents)
	}
	if v.status["app1"] != "pending" || !strings.Contains(v.bodies[0], `"country":"DEU"`) {
		t.Errorf("%v %s", v.status, v.bodies[0])
	}
	firm := kyc.Application{CaseID: "ver_2", Company: &kyc.CompanyProfile{Name: "Acme", Country: "US", RegistrationNumber: "1"}}
	if ref, err := p.Submit(t.Context(), firm); err != nil || ref != "app2" || !strings.Contains(strings.Join(v.bodies, ""), `"companyName":"Acme"`) {
		t.Errorf("%s %v", ref, err)
	}
}

func TestFetch(t *testing.T) {
	v, p := begin(t)
	v.status["app1"] = "pending"
	for review, want := range map[string]kyc.Outcome{
		`{"reviewStatus":"pending"}`: {State: kyc.InReview},
		`{"reviewStatus":"onHold","reviewResult":{"reviewAnswer":"RED","reviewRejectType":"FINAL"}}`:                                             {State: kyc.InReview},
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"GREEN"}}`:                                                                   {State: kyc.Approved},
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"RED","reviewRejectType":"RETRY","rejectLabels":["UNSATISFACTORY_PHOTOS"]}}`: {State: kyc.Resubmission, Reasons: []string{"unsatisfactory_photos"}},
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"RED","reviewRejectType":"FINAL","rejectLabels":["FORGERY"]}}`:               {State: kyc.Rejected, Reasons: []string{"forgery"}},
		`{"reviewStatus":"completed","reviewResult":{"reviewAnswer":"YELLOW"}}`:                                                                  {State: kyc.InReview},
	} {
		v.review = review
		got, err := p.Fetch(t.Context(), "app1")
		if err != nil || got.State != want.State || !slices.Equal(got.Reasons, want.Reasons) {
			t.Errorf("%s: %+v %v", review, got, err)
		}
	}
	if _, err := p.Fetch(t.Context(), "nobody"); err == nil {
		t.Error("an unknown applicant has an outcome")
	}
}

// A callback is believed to come from the vendor only with its digest over the very body, and within five minutes (S62).
func TestCallback(t *testing.T) {
	_, p := begin(t)
	body := `{"applicantId":"app1","type":"applicantReviewed","createdAtMs":"2026-05-01 12:04:59.000"}`
	headers := func(digest, algorithm string) http.Header {
		return http.Header{"X-Payload-Digest": {digest}, "X-Payload-Digest-Alg": {algorithm}}
	}
	good := headers(sign("hook", body), "HMAC_SHA256_HEX")
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
		"another secret":   {headers(sign("secret", body), "HMAC_SHA256_HEX"), body},
		"a weak algorithm": {headers(sign("hook", body), "HMAC_SHA1_HEX"), body},
		"no algorithm":     {headers(sign("hook", body), ""), body},
		"six minutes ago":  {headers(sign("hook", old), "HMAC_SHA256_HEX"), old},
		"without a time":   {headers(sign("hook", undated), "HMAC_SHA256_HEX"), undated},
		"not JSON":         {headers(sign("hook", "x"), "HMAC_SHA256_HEX"), "x"},
	} {
		if _, err := p.Callback(c.h, []byte(c.body), now); !errors.Is(err, kyc.ErrCallback) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
