// Package sumsubtest provides a server for tests that implements the API of Sumsub.
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

// The credentials that the server accepts.
const (
	Token         = "token"
	Secret        = "secret"
	WebhookSecret = "hook"
)

// Server is a simulated Sumsub. It checks the signature of each request, creates one applicant per externalUserId,
// and accepts documents while the applicant's status is init. All applicants have the same review.
type Server struct {
	URL string

	mu             sync.Mutex
	applicants     map[string]string // externalUserId → id
	status         map[string]string
	documents      []string
	bodies         []string
	review         string
	statusRequests int
}

// Start starts a server that runs until the test ends. Reviews are pending until Decide is called.
func Start(t testing.TB) *Server {
	v := &Server{applicants: map[string]string{}, status: map[string]string{}, review: `{"reviewStatus":"pending"}`}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	v.URL = server.URL
	return v
}

// Decide sets the review of all applicants, as JSON.
func (v *Server) Decide(review string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.review = review
}

// StatusRequests returns the number of requests for an applicant's status.
func (v *Server) StatusRequests() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.statusRequests
}

// Status returns the status of an applicant: init, pending, or "" if unknown.
func (v *Server) Status(id string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status[id]
}

// Documents returns the bodies of all uploads.
func (v *Server) Documents() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.documents)
}

// Bodies returns the bodies of all requests.
func (v *Server) Bodies() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.bodies)
}

// Sign returns the signature of a text.
func Sign(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// ServeHTTP implements the API.
func (v *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, _ := io.ReadAll(r.Body) // an incomplete body fails the signature check
	signature := Sign(Secret, r.Header.Get("X-App-Access-Ts")+r.Method+r.URL.RequestURI()+string(body))
	if r.Header.Get("X-App-Token") != Token || r.Header.Get("X-App-Access-Sig") != signature {
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
		v.statusRequests++
		_, _ = io.WriteString(w, v.review)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
