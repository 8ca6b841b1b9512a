// Package sumsubtest stands in for Sumsub in tests: a server that follows the vendor's published interface.
package sumsubtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The credentials that the vendor knows.
const (
	Token         = "token"
	Secret        = "secret"
	WebhookSecret = "hook"
)

// Vendor checks each signature, knows an applicant by externalUserId once, takes documents while an applicant is init,
// and has a review.
type Vendor struct {
	URL string

	mu         sync.Mutex
	applicants map[string]string // externalUserId → id
	status     map[string]string
	documents  []string
	bodies     []string
	review     string
	asked      int
}

// Start starts a vendor that ends with the test. Its applicants wait until Decide.
func Start(t testing.TB) *Vendor {
	v := &Vendor{applicants: map[string]string{}, status: map[string]string{}, review: `{"reviewStatus":"pending"}`}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	v.URL = server.URL
	return v
}

// Decide makes every review say this from now on.
func (v *Vendor) Decide(review string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.review = review
}

// Asked is how often somebody asked where an applicant stands.
func (v *Vendor) Asked() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked
}

// Status is how far an applicant is: init, pending, or "" for nobody.
func (v *Vendor) Status(id string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status[id]
}

// Documents are the bodies of all uploads.
func (v *Vendor) Documents() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.documents)
}

// Bodies are those of all requests.
func (v *Vendor) Bodies() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.bodies)
}

// Sign is the digest that the vendor puts on a text.
func Sign(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// ServeHTTP is the vendor's interface.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // a broken request has a wrong signature
	if r.Header.Get("X-App-Token") != Token || r.Header.Get("X-App-Access-Sig") != Sign(Secret,
		r.Header.Get("X-App-Access-Ts")+r.Method+r.URL.RequestURI()+string(body)) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	v.bodies = append(v.bodies, string(body))
	path := r.URL.Path
	id, rest, _ := strings.Cut(strings.TrimPrefix(path, "/resources/applicants/"), "/")
	switch {
	case r.Method == http.MethodPost && path == "/resources/applicants":
		var in struct{ ExternalUserID string }
		if json.Unmarshal(body, &in) != nil || v.applicants[in.ExternalUserID] != "" {
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
		_, _ = io.WriteString(w, `{}`)
	case rest == "status/pending" && v.status[id] == "init":
		v.status[id] = "pending"
		_, _ = io.WriteString(w, `{"ok":1}`)
	case rest == "status" && v.status[id] != "":
		v.asked++
		_, _ = io.WriteString(w, v.review)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
