package column_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/payout/bank/banktest"
)

const apiKey = "test_key_1"

type object = map[string]any

// server is a local server that follows the documentation of Column's API: basic authentication, counterparties, errors
// with a code, idempotency keys that return the first result, lists by page, and the statuses of each kind of transfer.
type server struct {
	*banktest.Server
	parties    map[string]object
	transfers  []object // oldest first
	reject     bool     // the network rejects instant payments
	review     bool     // Column's review rejects transfers
	ineligible bool     // the payee's bank does not take part in instant payments
	funds      int64    // cents that are available; 0 means enough
	listed     int      // number of pages that were read
}

// required are the parameters that a transfer must have, by kind.
var required = map[string][]string{
	"ach":      {"amount", "currency_code", "bank_account_id", "counterparty_id", "type", "entry_class_code"},
	"wire":     {"amount", "currency_code", "bank_account_id", "counterparty_id"},
	"realtime": {"amount", "currency_code", "bank_account_id", "counterparty_id"},
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{parties: map[string]object{}}
	s.Server = banktest.Serve(t, s.handle)
	return s
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"type": "error", "code": code, "message": code, "details": nil})
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	if user, key, _ := r.BasicAuth(); user != "" || key != apiKey {
		fail(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "counterparties" && len(parts) == 2 && s.parties[parts[1]] != nil:
		_ = json.NewEncoder(w).Encode(s.parties[parts[1]])
	case parts[0] == "counterparties" && len(parts) == 1 && r.Method == http.MethodPost:
		s.addParty(w, r)
	case parts[0] != "transfers" || len(parts) < 2 || required[parts[1]] == nil:
		fail(w, http.StatusNotFound, "resource_not_found")
	case r.Method == http.MethodPost && len(parts) == 4 && parts[3] == "reverse":
		s.reverse(w, r, parts[2])
	case r.Method == http.MethodPost:
		s.create(w, r, parts[1])
	case len(parts) == 2:
		s.list(w, r, parts[1])
	default:
		i := slices.IndexFunc(s.transfers, func(t object) bool { return t["id"] == parts[2] && t["kind"] == parts[1] })
		if i < 0 {
			fail(w, http.StatusNotFound, "resource_not_found")
			return
		}
		_ = json.NewEncoder(w).Encode(s.transfers[i])
	}
}

func (s *server) addParty(w http.ResponseWriter, r *http.Request) {
	var in object
	_ = json.NewDecoder(r.Body).Decode(&in)
	if number, _ := in["routing_number"].(string); len(number) != 9 || in["account_number"] == "" {
		fail(w, http.StatusBadRequest, "invalid_routing_number")
		return
	}
	in["id"] = fmt.Sprintf("cpty_%d", len(s.parties)+1)
	s.parties[in["id"].(string)] = in
	_ = json.NewEncoder(w).Encode(in)
}

// list writes a page of transfers, newest first.
func (s *server) list(w http.ResponseWriter, r *http.Request, kind string) {
	s.listed++
	page, after, more := []object{}, r.URL.Query().Get("starting_after"), false
	for i := len(s.transfers) - 1; i >= 0; i-- {
		t := s.transfers[i]
		switch {
		case t["kind"] != kind || t["bank_account_id"] != r.URL.Query().Get("bank_account_id"):
		case after != "":
			if t["id"] == after {
				after = ""
			}
		case fmt.Sprint(len(page)) == r.URL.Query().Get("limit"):
			more = true
		default:
			page = append(page, t)
		}
	}
	_ = json.NewEncoder(w).Encode(object{"transfers": page, "has_more": more})
}

func (s *server) create(w http.ResponseWriter, r *http.Request, kind string) {
	key := r.Header.Get("Idempotency-Key")
	for _, t := range s.transfers {
		if key != "" && t["idempotency_key"] == key {
			_ = json.NewEncoder(w).Encode(t)
			return
		}
	}
	var t object
	if json.NewDecoder(r.Body).Decode(&t) != nil {
		fail(w, http.StatusBadRequest, "invalid_request")
		return
	}
	for _, name := range required[kind] {
		if t[name] == nil || t[name] == "" {
			fail(w, http.StatusBadRequest, "missing_parameter")
			return
		}
	}
	amount, party := int64(t["amount"].(float64)), s.parties[t["counterparty_id"].(string)]
	switch {
	case party == nil:
		fail(w, http.StatusBadRequest, "counterparty_not_found")
		return
	case kind == "wire" && party["wire"] == nil:
		fail(w, http.StatusBadRequest, "missing_wire_details")
		return
	case kind == "realtime" && s.ineligible:
		fail(w, http.StatusBadRequest, "routing_number_not_supported")
		return
	case s.funds > 0 && amount > s.funds:
		fail(w, http.StatusBadRequest, "transfer_non_sufficient_fund")
		return
	}
	t["id"], t["kind"], t["amount"], t["idempotency_key"] = fmt.Sprintf("%s_%d", kind, len(s.transfers)), kind, amount, key
	t["status"], t["manual_review_at"], t["return_details"] = "initiated", nil, []object{}
	if kind == "ach" {
		t["status"] = "INITIATED"
	}
	s.transfers = append(s.transfers, t)
	_ = json.NewEncoder(w).Encode(t)
}

// reverse creates the reversal of an ACH transfer, at most once.
func (s *server) reverse(w http.ResponseWriter, r *http.Request, id string) {
	var in object
	_ = json.NewDecoder(r.Body).Decode(&in)
	key := r.Header.Get("Idempotency-Key")
	for _, t := range s.transfers {
		if key != "" && t["idempotency_key"] == key {
			_ = json.NewEncoder(w).Encode(t)
			return
		}
	}
	i := slices.IndexFunc(s.transfers, func(t object) bool { return t["id"] == id && t["kind"] == "ach" })
	if i < 0 || s.transfers[i]["reversal_pair_transfer_id"] != nil || !slices.Contains([]any{"duplicated_entry",
		"incorrect_amount", "incorrect_receiver_account", "credit_later_than_intended"}, in["reason"]) {
		fail(w, http.StatusBadRequest, "transfer_not_reversible")
		return
	}
	t := maps.Clone(s.transfers[i])
	t["id"], t["idempotency_key"], t["type"] = fmt.Sprintf("ach_%d", len(s.transfers)), key, "DEBIT"
	t["status"], t["return_details"], t["reversal_pair_transfer_id"] = "INITIATED", []object{}, id
	s.transfers[i]["reversal_pair_transfer_id"] = t["id"]
	s.transfers = append(s.transfers, t)
	_ = json.NewEncoder(w).Encode(t)
}

// advance lets the networks execute the pending transfers.
func (s *server) advance() {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		switch {
		case !strings.EqualFold(t["status"].(string), "initiated"):
		case s.review:
			t["status"], t["manual_review_at"] = "rejected", "2026-01-15T12:00:00Z"
		case t["kind"] == "realtime" && s.reject:
			t["status"] = "rejected"
		case t["kind"] == "ach":
			t["status"] = "SETTLED"
		default:
			t["status"] = "completed"
		}
	}
}

// change changes the transfers with a key that begins with the prefix, and returns their number.
func (s *server) change(prefix string, with object) (n int) {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		if strings.HasPrefix(t["idempotency_key"].(string), prefix) {
			maps.Copy(t, with)
			n++
		}
	}
	return n
}

// paid returns the kinds of the transfers to an account number that were not rejected.
func (s *server) paid(number string) (all []string) {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		if s.parties[t["counterparty_id"].(string)]["account_number"] == number && t["status"] != "rejected" {
			all = append(all, t["kind"].(string))
		}
	}
	return all
}
