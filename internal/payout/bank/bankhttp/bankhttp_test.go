package bankhttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
)

// A document is downloaded only with the scheme of the API's URL, and without the API's authentication.
func TestDownloadRefusesAnotherScheme(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls++; r.Header.Get("Authorization") != "" {
			t.Error("the request is authenticated")
		}
		_, _ = w.Write([]byte(`{"n":1}`))
	}))
	defer s.Close()
	var document struct{ N int }
	secret := http.Header{"Authorization": {"Bearer secret"}}
	c := bankhttp.Client{Name: "bank", URL: "https://api.bank.example", Header: secret}
	for _, at := range []string{s.URL + "/document", "file:///etc/hostname", "ftp://bank.example/x", "//bank.example/x",
		""} {
		err := c.Download(t.Context(), at, &document)
		if err == nil || !strings.Contains(err.Error(), "does not begin with https://") ||
			at != "" && strings.Contains(err.Error(), at) {
			t.Errorf("%q: %v", at, err)
		}
	}
	if calls != 0 {
		t.Errorf("%d requests were sent", calls)
	}
	c.URL = s.URL
	if err := c.Download(t.Context(), s.URL+"/document", &document); err != nil || document.N != 1 {
		t.Errorf("%+v, %v", document, err)
	}
}
