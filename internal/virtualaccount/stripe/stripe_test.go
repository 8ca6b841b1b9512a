package stripe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
)

const key = "sk_test_only"

// server implements the three operations as Stripe documents them: bearer key, form bodies, idempotent replays, and
// lists with the newest first, starting_after and ending_before.
type server struct {
	t         *testing.T
	mu        sync.Mutex
	replays   map[string]string // request by idempotency key
	answers   map[string]string
	customers int
	txs       []map[string]any // transactions, oldest first
	refuse    int              // error status of the next responses; 0 for success
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fail := func(status int, kind string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":{"type":%q,"code":"some_code","message":"Something about Ada"}}`, kind)
	}
	if r.Header.Get("Authorization") != "Bearer "+key {
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

func (s *server) create(r *http.Request) string {
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

func (s *server) list(w http.ResponseWriter, r *http.Request) {
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

func (s *server) add(kind, currency string, amount int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.txs = append(s.txs, map[string]any{"id": fmt.Sprintf("ccsbtxn_%04d", len(s.txs)),
		"object": "customer_cash_balance_transaction",
		"type":   kind, "currency": currency, "net_amount": amount})
}

func open(t *testing.T) (*server, *stripe.Bank) {
	s := &server{t: t, replays: map[string]string{}, answers: map[string]string{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, stripe.New(stripe.Options{Key: key, URL: h.URL + "/", Country: "NL"})
}

func TestOpen(t *testing.T) {
	s, b := open(t)
	euro := virtualaccount.Application{AccountID: "fac_1", OwnerID: "usr_1", Currency: money.EUR, Holder: "Ada Lovelace",
		Email: "ada@example.com"}
	if _, ok := b.OpenImmediately(euro); ok {
		t.Error("the account was opened without a request")
	}
	for range 2 { // the second request has the same idempotency key
		got, err := b.Open(t.Context(), euro)
		want := virtualaccount.Opened{Ref: "cus_1",
			Details: virtualaccount.Details{Holder: "Agent Ltd", IBAN: "NL91ABNA0417164300", BIC: "AAAANL2A"}}
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	dollar := euro
	dollar.AccountID, dollar.Currency = "fac_2", money.USD
	got, err := b.Open(t.Context(), dollar)
	if want := (virtualaccount.Opened{Ref: "cus_2",
		Details: virtualaccount.Details{Holder: "Ada Lovelace", BankName: "Some Bank", RoutingNumber: "999999992",
			AccountNumber: "11119987600453127"}}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if s.customers != 2 {
		t.Errorf("%d customers for two accounts", s.customers)
	}

	// Permanent refusals are distinguished from temporary failures, and Stripe's message is not passed on.
	other := euro
	other.AccountID = "fac_3"
	for status, final := range map[int]bool{400: true, 401: false, 429: false, 500: false} {
		s.refuse = status
		_, err := b.Open(t.Context(), other)
		if err == nil || errors.Is(err, virtualaccount.ErrRefused) != final || strings.Contains(err.Error(), "Ada") {
			t.Errorf("%d: %v", status, err)
		}
	}
	s.refuse = 0
	other.AccountID, other.Holder = "fac_1", "Another Person" // reuses the idempotency key of another request
	if _, err := b.Open(t.Context(), other); err == nil || errors.Is(err, virtualaccount.ErrRefused) {
		t.Errorf("a reused key: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Open(ended, euro); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled call: %v", err)
	}
}

func TestReceipts(t *testing.T) {
	s, b := open(t)
	var cursor string
	var seen []string
	collect := func() (n int) {
		t.Helper()
		got, next, err := b.Receipts(t.Context(), "cus_1", money.EUR, cursor)
		testkit.Check(t, err)
		for _, r := range got {
			if r.Amount.Asset() != money.EUR || r.Amount.Units() <= 0 || len(seen) > 0 && r.Reference <= seen[len(seen)-1] {
				t.Errorf("%+v after %v", r, seen)
			}
			seen = append(seen, r.Reference)
		}
		cursor = next
		return len(got)
	}
	if collect() != 0 || cursor != "" {
		t.Errorf("%v %q", seen, cursor)
	}
	for i := range 250 {
		s.add("funded", "eur", int64(i+1))
	}
	s.add("applied_to_payment", "eur", -5)
	s.add("funded", "usd", 7)
	if n := collect(); n != 250 {
		t.Errorf("first call: %d", n)
	}
	if n := collect(); n != 0 {
		t.Errorf("nothing new: %d", n)
	}
	for range 230 {
		s.add("funded", "eur", 1)
	}
	if n := collect(); n != 230 {
		t.Errorf("later: %d", n)
	}
	s.refuse = 500
	if _, next, err := b.Receipts(t.Context(), "cus_1", money.EUR, cursor); err == nil || next != cursor {
		t.Errorf("%q %v", next, err)
	}
}
