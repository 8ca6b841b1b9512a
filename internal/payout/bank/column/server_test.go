package column_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout/bank/banktest"
)

const apiKey = "test_key_1"

type object = map[string]any

// server is a local server that follows the documentation of Column's API: basic authentication, counterparties, errors
// with a code, idempotency keys that return the first result, lists by page, the statuses of each kind of transfer, and
// reports that are made on request and downloaded from a signed URL.
type server struct {
	*banktest.Server
	parties    map[string]object
	transfers  []object // oldest first
	reject     bool     // the network rejects instant payments
	review     bool     // Column's review rejects transfers
	ineligible bool     // the payee's bank does not take part in instant payments
	funds      int64    // cents that are available; 0 means enough
	listed     int      // number of pages that were read
	now        func() time.Time
	entries    []object // rows of bank_account_transaction reports, oldest first, if now is set
	reports    []object
	documents  map[string][]object // of reports
	otherZone  string              // time zone of all reports, or ""
	refuseKeys bool                // a known idempotency key is refused if other content comes with it
	refusals   int                 // number of such refusals
	hide       int                 // number of lists that lack the newest transfer
}

// required are the parameters that a transfer must have, by kind.
var required = map[string][]string{
	"ach":      {"amount", "currency_code", "bank_account_id", "counterparty_id", "type", "entry_class_code"},
	"wire":     {"amount", "currency_code", "bank_account_id", "counterparty_id"},
	"realtime": {"amount", "currency_code", "bank_account_id", "counterparty_id"},
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{parties: map[string]object{}, documents: map[string][]object{}}
	s.Server = banktest.Serve(t, s.handle)
	return s
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"type": "error", "code": code, "message": code, "details": nil})
}

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	if id, signed := strings.CutPrefix(r.URL.Path, "/signed/"); signed {
		if r.Header.Get("Authorization") != "" || s.documents[id] == nil {
			fail(w, http.StatusBadRequest, "only one auth mechanism is allowed")
			return
		}
		_ = json.NewEncoder(w).Encode(s.documents[id])
		return
	}
	if user, key, _ := r.BasicAuth(); user != "" || key != apiKey {
		fail(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "reporting" && r.Method == http.MethodPost:
		s.addReport(w, r)
	case parts[0] == "reporting":
		s.listReports(w, r)
	case parts[0] == "documents" && len(parts) == 2 && s.documents[parts[1]] != nil:
		_ = json.NewEncoder(w).Encode(object{"id": parts[1], "url": s.URL + "/signed/" + parts[1]})
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
	newest := len(s.transfers) - 1
	if s.hide > 0 {
		s.hide--
		newest--
	}
	for i := newest; i >= 0; i-- {
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
			if s.refuseKeys { // every call has a counterparty of its own
				s.refusals++
				fail(w, http.StatusBadRequest, "idempotency_key_mismatch")
				return
			}
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
	if wrong := wrongAddenda(kind, t); wrong != "" {
		fail(w, http.StatusBadRequest, wrong)
		return
	}
	amount, party := int64(t["amount"].(float64)), s.parties[t["counterparty_id"].(string)]
	switch {
	case party == nil:
		fail(w, http.StatusBadRequest, "counterparty_not_found")
		return
	case kind == "wire" && !hasWireAddress(party):
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
	if t["type"] != "DEBIT" { // the money of a credit leaves the account at once
		s.book(t["id"].(string), kind+".outgoing_transfer.initiated", balance{available: -amount})
	}
	_ = json.NewEncoder(w).Encode(t)
}

// wrongAddenda returns the error code of wrong addenda of a transfer, or "": payment_related_info is the text of one
// addenda record, of 1 to 80 ASCII characters, of a PPD or CCD entry.
func wrongAddenda(kind string, t object) string {
	info, sent := t["payment_related_info"]
	if !sent {
		return ""
	}
	text, _ := info.(string)
	isASCII := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if kind != "ach" || text == "" || len(text) > 80 || !isASCII ||
		t["entry_class_code"] != "PPD" && t["entry_class_code"] != "CCD" {
		return "invalid_payment_related_info"
	}
	return ""
}

// hasWireAddress reports whether a counterparty can receive a wire: its name and structured address are known.
func hasWireAddress(party object) bool {
	details, _ := party["wire"].(object)
	address, _ := details["beneficiary_address"].(object)
	return details["beneficiary_name"] != "" && address["city"] != nil && address["country_code"] != nil
}

// balance is a change of the balances of the account, in cents.
type balance struct{ available, pending, locked, holding int64 }

// book adds a row to the transactions of the account.
func (s *server) book(id, kind string, by balance) {
	if s.now == nil {
		return
	}
	at := s.now().UTC().Format(time.RFC3339)
	s.entries = append(s.entries, object{"effective_at": at, "effective_at_utc": at, "bank_account_id": "account_1",
		"transaction_id": id, "transaction_type": kind, "currency": "USD", "available_amount": by.available,
		"pending_amount": by.pending, "locked_amount": by.locked, "holding_amount": by.holding})
}

// receive adds a received ACH transfer.
func (s *server) receive(id string, cents int64, company string) {
	s.transfers = append(s.transfers, object{"id": id, "kind": "ach", "amount": cents, "company_name": company,
		"company_entry_description": "INV 7", "idempotency_key": "", "counterparty_id": "", "status": "SETTLED",
		"bank_account_id": "account_1", "is_incoming": true})
	s.book(id, "ach.incoming_transfer.scheduled", balance{pending: cents})
	s.book(id, "ach.incoming_transfer.settled", balance{pending: -cents, available: cents})
}

// addReport schedules a report, once for a key.
func (s *server) addReport(w http.ResponseWriter, r *http.Request) {
	var in object
	_ = json.NewDecoder(r.Body).Decode(&in)
	key := r.Header.Get("Idempotency-Key")
	for _, x := range s.reports {
		if x["key"] == key {
			_ = json.NewEncoder(w).Encode(x)
			return
		}
	}
	if in["type"] == nil || in["from_date"] == nil || in["to_date"] == nil {
		fail(w, http.StatusBadRequest, "missing_parameter")
		return
	}
	in["id"], in["status"], in["json_document_id"], in["key"] = fmt.Sprint("rpt_", len(s.reports)), "scheduled", "", key
	if s.otherZone != "" {
		in["time_zone"] = s.otherZone
	}
	s.reports = append(s.reports, in)
	_ = json.NewEncoder(w).Encode(in)
}

func (s *server) listReports(w http.ResponseWriter, r *http.Request) {
	q, found := r.URL.Query(), []object{}
	for _, x := range s.reports {
		if x["type"] == q.Get("type") && x["from_date"] == q.Get("from_date") && x["to_date"] == q.Get("to_date") {
			found = append(found, x)
		}
	}
	_ = json.NewEncoder(w).Encode(object{"reports": found, "has_more": false})
}

// makeReport makes the document of a scheduled report.
func (s *server) makeReport(x object) {
	zone, _ := time.LoadLocation(x["time_zone"].(string))
	rows, before, during := []object{}, map[string]int64{}, map[string]int64{}
	for _, e := range s.entries {
		at, _ := time.Parse(time.RFC3339, e["effective_at_utc"].(string))
		day := at.In(zone).Format(time.DateOnly)
		if day >= x["from_date"].(string) && day <= x["to_date"].(string) {
			rows = append(rows, e, object{"bank_account_id": "account_2", "transaction_id": "of another account",
				"available_amount": 1, "currency": "USD", "effective_at_utc": e["effective_at_utc"], "transaction_type": "book"})
		}
		for _, kind := range []string{"available", "pending", "locked", "holding"} {
			cents := e[kind+"_amount"].(int64)
			if day < x["from_date"].(string) {
				before[kind] += cents
			}
			if day <= x["to_date"].(string) {
				during[kind] += cents
			}
		}
	}
	if x["type"] == "bank_account_summary" {
		row := object{"bank_account_id": "account_1", "currency": "USD"}
		for kind := range during {
			row[kind+"_balance_open"], row[kind+"_balance_close"] = before[kind], during[kind]
		}
		rows = []object{{"bank_account_id": "account_2", "available_balance_open": 5, "currency": "USD"}, row}
	}
	x["status"], x["json_document_id"] = "completed", "docu_"+x["id"].(string)
	s.documents["docu_"+x["id"].(string)] = rows
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
	for _, x := range s.reports {
		if x["status"] == "scheduled" {
			s.makeReport(x)
		}
	}
	for _, t := range s.transfers {
		switch {
		case !strings.EqualFold(t["status"].(string), "initiated"):
		case s.review:
			t["status"], t["manual_review_at"] = "rejected", "2026-01-15T12:00:00Z"
		case t["kind"] == "realtime" && s.reject:
			t["status"] = "rejected"
		case t["kind"] == "ach":
			t["status"] = "SETTLED"
			if t["type"] == "DEBIT" {
				s.book(t["id"].(string), "ach.outgoing_transfer.settled", balance{available: t["amount"].(int64)})
			}
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
