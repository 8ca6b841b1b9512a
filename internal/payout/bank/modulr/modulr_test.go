package modulr_test

import (
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/modulr"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	apiKey  = "key_1"
	secret  = "secret_1"
	account = "A123AAA4"
)

// server is a local server that follows the documentation of Modulr's API: signatures of the date and of a nonce that
// is used once, required fields, and a result by name.
type server struct {
	nonces []string
	down   bool
}

var signature = regexp.MustCompile(
	`^Signature keyId="([^"]+)",algorithm="hmac-sha512",headers="date x-mod-nonce",signature="([^"]+)"$`)

func (s *server) authentic(r *http.Request) bool {
	m := signature.FindStringSubmatch(r.Header.Get("Authorization"))
	nonce := r.Header.Get("X-Mod-Nonce")
	at, err := http.ParseTime(r.Header.Get("Date"))
	if m == nil || m[1] != apiKey || err != nil || time.Since(at).Abs() > 5*time.Minute ||
		slices.Contains(s.nonces, nonce) {
		return false
	}
	s.nonces = append(s.nonces, nonce)
	mac := hmac.New(sha512.New, []byte(secret))
	fmt.Fprintf(mac, "date: %s\nx-mod-nonce: %s", r.Header.Get("Date"), nonce)
	text, err := url.QueryUnescape(m[2])
	return err == nil && text == base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name    string `json:"name"`
		IBAN    string `json:"iban"`
		Account string `json:"paymentAccountId"`
	}
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode([]map[string]string{{"code": code, "message": code}})
	}
	switch {
	case s.down:
		fail(http.StatusServiceUnavailable, "UNAVAILABLE")
		return
	case !s.authentic(r):
		fail(http.StatusForbidden, "FORBIDDEN")
		return
	case r.Method != http.MethodPost || r.URL.Path != "/api/verify-payee":
		fail(http.StatusNotFound, "NOT_FOUND")
		return
	case json.NewDecoder(r.Body).Decode(&in) != nil || in.Name == "" || len(in.Name) > 140 || in.Account != account ||
		len(in.IBAN) < 15:
		fail(http.StatusBadRequest, "INVALID")
		return
	}
	result := map[string]string{"Ada Close": "CLOSE_MATCH", "Ada Other": "NO_MATCH", "Ada Away": "CHECK_NOT_POSSIBLE",
		"Ada New": "SOMETHING_NEW"}[in.Name]
	if result == "" {
		result = "MATCH"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"id": "PAV0000001",
		"result": map[string]string{"code": result, "matchedName": "Ada Example"}})
}

// Each result of Modulr is one of the scheme's; the holder's name is used for a close match only. What is refused or
// unknown is never a match.
func TestVerifyName(t *testing.T) {
	s := &server{}
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	const iban = "DE89370400440532013000"
	v := testkit.Must(modulr.New(at.URL+"/api", apiKey, secret, account))
	for _, c := range []struct {
		name, iban string
		want       bank.NameAnswer
		fails      bool
	}{
		{"Ada Example", iban, bank.NameAnswer{Result: iso20022.Match}, false},
		{"Ada Close", iban, bank.NameAnswer{Result: iso20022.CloseMatch, Name: "Ada Example"}, false},
		{"Ada Other", iban, bank.NameAnswer{Result: iso20022.NoMatch}, false},
		{"Ada Away", iban, bank.NameAnswer{Result: iso20022.NotPossible}, false},
		{"Ada Example", "DE89", bank.NameAnswer{Result: iso20022.NotPossible}, false},
		{"Ada New", iban, bank.NameAnswer{}, true},
	} {
		got, err := v.VerifyName(t.Context(), bank.NameQuery{Name: c.name, IBAN: c.iban})
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s, %s: %+v, %v; want %+v", c.name, c.iban, got, err, c.want)
		}
	}
	for name, v := range map[string]*modulr.Verifier{
		"another secret":  testkit.Must(modulr.New(at.URL+"/api", apiKey, "x", account)),
		"another address": testkit.Must(modulr.New(at.URL, apiKey, secret, account)),
	} {
		if got, err := v.VerifyName(t.Context(), bank.NameQuery{Name: "Ada Example", IBAN: iban}); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.down = true
	if got, err := v.VerifyName(t.Context(), bank.NameQuery{Name: "Ada Example", IBAN: iban}); err == nil {
		t.Errorf("while the server is down: %+v", got)
	}
	for _, missing := range [][4]string{{"", "k", "s", "a"}, {"u", "", "s", "a"}, {"u", "k", "", "a"},
		{"u", "k", "s", ""}} {
		if _, err := modulr.New(missing[0], missing[1], missing[2], missing[3]); err == nil {
			t.Errorf("%q: no error", missing)
		}
	}
}
