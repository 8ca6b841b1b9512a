// Package stripetest is a test server with the operations of Stripe's API that virtual accounts need.
package stripetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Key is the secret key that the server accepts.
const Key = "sk_test_only"

// Server implements these operations as documented by Stripe: bearer key, form bodies, idempotent replays, and lists
// with the newest entry first, starting_after and ending_before.
type Server struct {
	URL       string
	mu        sync.Mutex
	replays   map[string]string // request by idempotency key
	answers   map[string]string
	customers int
	txs       []map[string]any // transactions, oldest first
	refuse    int              // error status of the next responses; 0 for success
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(status int, kind string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":%q,"code":"some_code","message":"Something about Ada"}}`, kind)
	}
	if r.Header.Get("Authorization") != "Bearer "+Key {
		fail(http.StatusUnauthorized, "invalid_request_error")
		return
	}
	if s.refuse != 0 {
		fail(s.refuse, "invalid_request_error")
		return
	}
	if r.Method == http.MethodGet {
		s.list(w, r)
		return
	}
	if err := r.ParseForm(); err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		fail(http.StatusBadRequest, "invalid_request_error")
		return
	}
	idempotency, request := r.Header.Get("Idempotency-Key"), r.URL.Path+"?"+r.PostForm.Encode()
	if before, used := s.replays[idempotency]; used {
		if before != request {
			fail(http.StatusBadRequest, "idempotency_error")
			return
		}
		fmt.Fprint(w, s.answers[idempotency])
		return
	}
	answer := s.create(r)
	if answer == "" {
		fail(http.StatusBadRequest, "invalid_request_error")
		return
	}
	s.replays[idempotency], s.answers[idempotency] = request, answer
	fmt.Fprint(w, answer)
}

func (s *Server) create(r *http.Request) string {
	f := r.PostForm
	switch {
	case r.URL.Path == "/v1/customers":
		if f.Get("cash_balance[settings][reconciliation_mode]") != "manual" || f.Get("name") == "" {
			return ""
		}
		s.customers++
		return fmt.Sprintf(`{"id":"cus_%d","object":"customer"}`, s.customers)
	case !strings.HasSuffix(r.URL.Path, "/funding_instructions") || f.Get("funding_type") != "bank_transfer":
		return ""
	case f.Get("currency") == "eur" && f.Get("bank_transfer[type]") == "eu_bank_transfer" &&
		f.Get("bank_transfer[eu_bank_transfer][country]") == "NL":
		return `{"object":"funding_instructions","bank_transfer":{"country":"NL","financial_addresses":[
			{"iban":{"account_holder_name":"Agent Ltd","bic":"AAAANL2A","country":"NL","iban":"NL91ABNA0417164300"},
			"supported_networks":["sepa"],"type":"iban"}],"type":"eu_bank_transfer"},
			"currency":"eur","funding_type":"bank_transfer","livemode":false}`
	case f.Get("currency") == "usd" && f.Get("bank_transfer[type]") == "us_bank_transfer":
		return `{"object":"funding_instructions","bank_transfer":{"country":"US","financial_addresses":[
			{"type":"swift","swift":{"swift_code":"X"}},
			{"aba":{"account_number":"11119987600453127","bank_name":"Some Bank","routing_number":"999999992"},
			"supported_networks":["ach","domestic_wire_us"],"type":"aba"}],
			"type":"us_bank_transfer"},"currency":"usd","funding_type":"bank_transfer","livemode":false}`
	}
	return ""
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	if r.URL.Path != "/v1/customers/cus_1/cash_balance_transactions" || limit < 1 || limit > 100 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	at := func(id string) int {
		for i, t := range s.txs {
			if t["id"] == id {
				return i
			}
		}
		return -1
	}
	from, to := max(0, len(s.txs)-limit), len(s.txs)
	more := from > 0
	if id := q.Get("starting_after"); id != "" { // starting_after selects older transactions
		to = at(id)
		from = max(0, to-limit)
		more = from > 0
	}
	if id := q.Get("ending_before"); id != "" { // ending_before selects the next newer transactions
		from = at(id) + 1
		to = min(len(s.txs), from+limit)
		more = to < len(s.txs)
	}
	data := []map[string]any{}
	for i := to - 1; i >= from; i-- {
		data = append(data, s.txs[i])
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "has_more": more})
}

// Add appends a transaction to the cash balance of the first customer. The amount is in the currency's smallest unit.
func (s *Server) Add(kind, currency string, amount int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txs = append(s.txs, map[string]any{"id": fmt.Sprintf("ccsbtxn_%04d", len(s.txs)),
		"object": "customer_cash_balance_transaction",
		"type":   kind, "currency": currency, "net_amount": amount})
}

// Start returns a server that runs until the test ends.
func Start(t *testing.T) *Server {
	s := &Server{replays: map[string]string{}, answers: map[string]string{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL + "/"
	return s
}

// Customers returns the number of customers that were created.
func (s *Server) Customers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.customers
}

// Refuse sets the error status of the next responses; 0 lets them succeed again.
func (s *Server) Refuse(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = status
}
