package increase_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout/bank/banktest"
)

const apiKey = "sandbox_key_1"

type object = map[string]any

// server is a local server that follows the documentation of Increase's API: authentication, errors of RFC 9457,
// idempotency keys that are unique across all objects, lists filtered by them, the routing numbers of its sandbox, and
// the statuses of each kind of transfer.
type server struct {
	*banktest.Server
	transfers []object
	reject    string // reason with which the network rejects instant payments, or ""
	review    bool   // Increase rejects the next transfers in its review
	funds     int64  // cents that are available; 0 means enough
	now       func() time.Time
	entries   []object // transactions of the account, oldest first
}

// kinds are the paths of transfers, with their first and their final status.
var kinds = map[string][2]string{
	"ach_transfers":                {"pending_submission", "submitted"},
	"wire_transfers":               {"pending_creating", "complete"},
	"real_time_payments_transfers": {"pending_submission", "complete"},
	"fednow_transfers":             {"pending_submitting", "complete"},
	"ach_prenotifications":         {"pending_submitting", "submitted"},
}

// required are the parameters that a call must have, by path.
var required = map[string][]string{
	"ach_transfers":        {"account_id", "amount", "statement_descriptor", "account_number", "routing_number"},
	"ach_prenotifications": {"account_id", "account_number", "routing_number"},
	"wire_transfers":       {"account_id", "amount", "creditor", "remittance", "account_number", "routing_number"},
	"real_time_payments_transfers": {"amount", "creditor_name", "source_account_number_id",
		"unstructured_remittance_information", "account_number", "routing_number"},
	"fednow_transfers": {"account_id", "amount", "creditor_name", "debtor_name", "source_account_number_id",
		"unstructured_remittance_information", "account_number", "routing_number"},
}

// fedNowOnly is the routing number of a bank that takes part in FedNow, but not in RTP. Increase's sandbox has none.
const fedNowOnly = "026073150"

// Routing numbers of Increase's sandbox, with the methods that each supports.
var routingNumbers = map[string]string{fedNowOnly: "afw", "110000000": "arfw", "101050001": "arfw", "790000064": "aw",
	"790000051": ""}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = banktest.Serve(t, s.handle)
	return s
}

func fail(w http.ResponseWriter, status int, kind string, more object) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	all := object{"type": kind, "status": status, "title": kind}
	maps.Copy(all, more)
	_ = json.NewEncoder(w).Encode(all)
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+apiKey {
		fail(w, http.StatusUnauthorized, "invalid_api_key_error", nil)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case kind == "accounts" && id == "account_1/balance":
		s.balance(w, r.URL.Query().Get("at_time"))
	case kind == "transactions":
		s.list(w, r.URL.Query())
	case kind == "routing_numbers" && r.Method == http.MethodGet:
		s.routing(w, r.URL.Query().Get("routing_number"))
	case kinds[kind][0] == "":
		fail(w, http.StatusNotFound, "api_method_not_found_error", nil)
	case r.Method == http.MethodPost && id == "":
		s.create(w, r, kind)
	case r.Method == http.MethodGet && id == "":
		found := []object{}
		for _, t := range s.transfers {
			key := r.URL.Query().Get("idempotency_key")
			if t["kind"] == kind && (key == "" || t["idempotency_key"] == key) {
				found = append(found, t)
			}
		}
		_ = json.NewEncoder(w).Encode(object{"data": found, "next_cursor": nil})
	case r.Method == http.MethodGet:
		i := slices.IndexFunc(s.transfers, func(t object) bool { return t["id"] == id && t["kind"] == kind })
		if i < 0 {
			fail(w, http.StatusNotFound, "object_not_found_error", nil)
			return
		}
		_ = json.NewEncoder(w).Encode(s.transfers[i])
	default:
		fail(w, http.StatusMethodNotAllowed, "api_method_not_found_error", nil)
	}
}

// balance writes the sum of the transactions before a time.
func (s *server) balance(w http.ResponseWriter, at string) {
	sum := int64(0)
	for _, e := range s.entries {
		if e["created_at"].(string) < at {
			sum += e["amount"].(int64)
		}
	}
	_ = json.NewEncoder(w).Encode(object{"account_id": "account_1", "current_balance": sum, "available_balance": sum,
		"type": "balance_lookup"})
}

// list writes a page of two transactions of a period, newest first.
func (s *server) list(w http.ResponseWriter, q url.Values) {
	page, next, after := []object{}, any(nil), q.Get("cursor")
	for _, e := range slices.Backward(s.entries) {
		at := e["created_at"].(string)
		switch {
		case q.Get("account_id") != "account_1" || at < q.Get("created_at.on_or_after") || at >= q.Get("created_at.before"):
		case after != "":
			if e["id"] == after {
				after = ""
			}
		case len(page) == 2:
			next = page[1]["id"]
		default:
			page = append(page, e)
		}
	}
	_ = json.NewEncoder(w).Encode(object{"data": page, "next_cursor": next})
}

// book adds a transaction of a category to the account.
func (s *server) book(cents int64, category string, source object) {
	if s.now == nil {
		return
	}
	s.entries = append(s.entries, object{"id": fmt.Sprintf("transaction_%d", len(s.entries)+1), "amount": cents,
		"created_at": s.now().UTC().Format(time.RFC3339), "currency": "USD", "description": category,
		"source": object{"category": category, category: source}})
}

// posted are the categories of transactions that pay a transfer of each kind.
var posted = map[string]string{"ach_transfers": "ach_transfer_intention", "wire_transfers": "wire_transfer_intention",
	"real_time_payments_transfers": "real_time_payments_transfer_acknowledgement",
	"fednow_transfers":             "fednow_transfer_acknowledgement"}

func (s *server) routing(w http.ResponseWriter, number string) {
	data := []object{}
	if methods, known := routingNumbers[number]; known {
		entry := object{"routing_number": number, "name": "Example Bank", "type": "routing_number"}
		for letter, name := range map[string]string{"a": "ach_transfers", "r": "real_time_payments_transfers",
			"f": "fednow_transfers", "w": "wire_transfers"} {
			entry[name] = map[bool]string{true: "supported", false: "not_supported"}[strings.Contains(methods, letter)]
		}
		data = append(data, entry)
	}
	_ = json.NewEncoder(w).Encode(object{"data": data, "next_cursor": nil})
}

func (s *server) create(w http.ResponseWriter, r *http.Request, kind string) {
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	for _, t := range s.transfers {
		if key == "" || t["idempotency_key"] != key {
			continue
		}
		if t["kind"] != kind || !bytes.Equal(t["request"].([]byte), body) {
			fail(w, http.StatusConflict, "idempotency_key_already_used_error", object{"resource_id": t["id"]})
			return
		}
		w.Header().Set("Idempotent-Replayed", "true")
		_ = json.NewEncoder(w).Encode(t)
		return
	}
	var in object
	if json.Unmarshal(body, &in) != nil {
		fail(w, http.StatusBadRequest, "malformed_request_error", nil)
		return
	}
	missing := slices.IndexFunc(required[kind], func(name string) bool { return in[name] == nil || in[name] == "" })
	wrong := ""
	switch {
	case missing >= 0:
		wrong = required[kind][missing]
	case kind == "ach_transfers":
		wrong = wrongAddenda(in)
	case kind == "wire_transfers":
		wrong = wrongAddress(in)
	}
	if wrong != "" {
		fail(w, http.StatusBadRequest, "invalid_parameters_error", object{"errors": []object{{"field": wrong}}})
		return
	}
	amount := int64(0)
	if kind != "ach_prenotifications" {
		amount = int64(in["amount"].(float64))
	}
	switch {
	case len(in["routing_number"].(string)) != 9:
		fail(w, http.StatusBadRequest, "invalid_parameters_error", object{"errors": []object{{"field": "routing_number"}}})
		return
	case s.funds > 0 && amount > s.funds:
		fail(w, http.StatusConflict, "invalid_operation_error", object{"detail": "There's an insufficient balance."})
		return
	}
	s.transfers = append(s.transfers, object{
		"id": fmt.Sprintf("%s_%d", kind, len(s.transfers)), "type": kind, "kind": kind,
		"idempotency_key": key, "status": kinds[kind][0], "amount": amount, "account_number": in["account_number"],
		"routing_number": in["routing_number"], "request": body, "return": nil, "rejection": nil, "reversal": nil,
		"notifications_of_change": []object{}})
	_ = json.NewEncoder(w).Encode(s.transfers[len(s.transfers)-1])
}

// wrongAddenda returns the name of the first wrong parameter in the addenda of an ACH transfer, or "". One entry of 1
// to 80 printable ASCII characters is allowed, and none for a WEB debit.
func wrongAddenda(in object) string {
	if _, sent := in["addenda"]; !sent {
		return ""
	}
	addenda, _ := in["addenda"].(object)
	form, _ := addenda["freeform"].(object)
	entries, _ := form["entries"].([]any)
	switch {
	case in["standard_entry_class_code"] == "internet_initiated" || len(addenda) != 2:
		return "addenda"
	case addenda["category"] != "freeform":
		return "addenda.category"
	case len(form) != 1 || len(entries) != 1:
		return "addenda.freeform.entries"
	}
	entry, _ := entries[0].(object)
	text, _ := entry["payment_related_information"].(string)
	if len(entry) != 1 || text == "" || len(text) > 80 ||
		strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "addenda.freeform.entries.payment_related_information"
	}
	return ""
}

// wrongAddress returns the name of the first wrong parameter in the address of a wire's creditor, or "". The address
// must be structured, with a city and a country.
func wrongAddress(in object) string {
	creditor, _ := in["creditor"].(object)
	address, _ := creditor["address"].(object)
	parts, structured := address["structured"].(object)
	if !structured || len(address) != 1 {
		return "creditor.address.structured"
	}
	for name, value := range parts {
		if text, _ := value.(string); text == "" ||
			!slices.Contains([]string{"city", "country", "line1", "line2", "postal_code", "state"}, name) {
			return "creditor.address.structured." + name
		}
	}
	if parts["city"] == nil {
		return "creditor.address.structured.city"
	}
	if code, _ := parts["country"].(string); len(code) != 2 || code != strings.ToUpper(code) {
		return "creditor.address.structured.country"
	}
	return ""
}

// advance lets the networks execute the pending transfers.
func (s *server) advance() {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		kind := t["kind"].(string)
		instant := kind == "real_time_payments_transfers" || kind == "fednow_transfers"
		switch {
		case t["status"] != kinds[kind][0]:
		case s.review:
			t["status"] = map[bool]string{true: "reviewing_rejected", false: "rejected"}[kind == "fednow_transfers"]
		case instant && s.reject != "":
			t["status"], t["rejection"] = "rejected", object{"reject_reason_code": s.reject}
		default:
			t["status"] = kinds[kind][1]
			s.book(-t["amount"].(int64), posted[kind], object{"transfer_id": t["id"], "amount": t["amount"]})
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
		if t["account_number"] == number && !strings.HasSuffix(t["status"].(string), "rejected") {
			all = append(all, t["kind"].(string))
		}
	}
	return all
}
