package wise_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/payout/bank/banktest"
)

const (
	token   = "token_1"
	profile = "101"
	balance = "64"
)

type object = map[string]any

// server is a local server that follows the documentation of Wise's API: recipients with the fields that it requires,
// quotes that fix the target amount and can be used once, transfers that a customerTransactionId identifies, funding
// from a balance, the statuses of a transfer, and statements of the balance.
type server struct {
	*banktest.Server
	now       func() time.Time
	currency  string              // of the balance
	cents     int64               // balance
	rates     map[string]*big.Rat // units of a currency for one of the balance's
	accounts  []object
	quotes    map[string]object
	transfers []object
	entries   []object // of the balance, oldest first
	protected bool     // funding requires strong customer authentication
	refuse    bool     // recipients are refused
	funding   int      // number of calls that funded a transfer
	asked     int      // number of calls for the fields of recipients
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{currency: "USD", cents: 10_000_000_00, quotes: map[string]object{}, now: time.Now,
		rates: map[string]*big.Rat{"PHP": big.NewRat(645, 10), "JPY": big.NewRat(163, 1), "GBP": big.NewRat(85, 100)}}
	s.Server = banktest.Serve(t, s.handle)
	return s
}

func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	reply(w, object{"errors": []object{{"code": code, "message": code}}})
}

var paths = regexp.MustCompile(`^/v[0-9]/(accounts|transfers|quotes|profiles/` + profile +
	`/(?:quotes|transfers)|profiles/` + profile + `/balance-statements/` + balance + `)(?:/([^/]+))?(?:/([^/]+))?$`)

func (s *server) handle(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+token {
		fail(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	m := paths.FindStringSubmatch(r.URL.Path)
	if m == nil {
		fail(w, http.StatusNotFound, "not_found")
		return
	}
	var in object
	if r.Method == http.MethodPost {
		d := json.NewDecoder(r.Body)
		d.UseNumber()
		if d.Decode(&in) != nil {
			fail(w, http.StatusBadRequest, "bad.request")
			return
		}
	}
	kind, id, of := m[1][strings.LastIndex(m[1], "/")+1:], m[2], m[3]
	find := func(all []object) object {
		i := slices.IndexFunc(all, func(o object) bool { return fmt.Sprint(o["id"]) == id })
		if i < 0 {
			return nil
		}
		return all[i]
	}
	var found object
	switch kind {
	case "accounts":
		found = find(s.accounts)
	case "transfers":
		found = find(s.transfers)
	case "quotes":
		found = s.quotes[id]
	}
	switch {
	case id == "" && r.Method == http.MethodPost:
		map[string]func(http.ResponseWriter, object){"accounts": s.addAccount, "quotes": s.addQuote,
			"transfers": s.addTransfer}[kind](w, in)
	case id == "" && kind == "transfers":
		s.list(w, r)
	case kind == balance || id == "statement.json":
		s.statement(w, r)
	case found == nil:
		fail(w, http.StatusNotFound, kind+".not-found")
	case of == "account-requirements":
		s.require(w, r, found, in)
	case of == "payments" && r.Method == http.MethodPost:
		s.fund(w, found, in)
	case of == "payments":
		reply(w, found["payments"])
	default:
		reply(w, found)
	}
}

func (s *server) addAccount(w http.ResponseWriter, in object) {
	if s.refuse || fmt.Sprint(in["profile"]) != profile || s.wrong(in) != "" {
		fail(w, http.StatusUnprocessableEntity, "NOT_VALID")
		return
	}
	in["id"] = len(s.accounts) + 1
	s.accounts = append(s.accounts, in)
	reply(w, in)
}

// units returns an amount of a currency in its smallest unit.
func units(text, currency string) int64 {
	x, _ := new(big.Rat).SetString(text)
	if currency != "JPY" {
		x.Mul(x, big.NewRat(100, 1))
	}
	return x.Num().Int64()
}

func decimal(cents int64) json.Number {
	return json.Number(new(big.Rat).SetFrac64(cents, 100).FloatString(2))
}

// addQuote adds a quote with a price of 0.60 and half a percent, in the currency of the balance.
func (s *server) addQuote(w http.ResponseWriter, in object) {
	target, _ := in["targetCurrency"].(string)
	rate := big.NewRat(1, 1)
	if target != s.currency {
		if rate = s.rates[target]; rate == nil && forms[target] != "" {
			rate = big.NewRat(2, 1)
		}
	}
	amount, ok := in["targetAmount"].(json.Number)
	if rate == nil || !ok || in["sourceCurrency"] != s.currency || in["preferredPayIn"] != "BALANCE" {
		fail(w, http.StatusUnprocessableEntity, "error.route.not.supported")
		return
	}
	x, _ := new(big.Rat).SetString(amount.String())
	x.Mul(x.Quo(x, rate), big.NewRat(100, 1))
	cents := new(big.Int).Quo(new(big.Int).Add(x.Num(), new(big.Int).Sub(x.Denom(), big.NewInt(1))), x.Denom()).Int64()
	fee := 60 + cents/200
	id := fmt.Sprintf("00000000-0000-4000-8000-%012d", len(s.quotes)+1)
	s.quotes[id] = object{"id": id, "targetAccount": in["targetAccount"], "targetCurrency": target, "targetAmount": amount,
		"sourceCurrency": s.currency, "cents": cents + fee, "rateType": "FIXED", "paymentOptions": []object{
			{"payIn": "BANK_TRANSFER", "fee": object{"total": 99}},
			{"payIn": "BALANCE", "fee": object{"total": decimal(fee)}, "sourceAmount": decimal(cents + fee)}}}
	reply(w, s.quotes[id])
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func (s *server) addTransfer(w http.ResponseWriter, in object) {
	key, _ := in["customerTransactionId"].(string)
	if !uuid.MatchString(key) {
		fail(w, http.StatusBadRequest, "bad.request")
		return
	}
	for _, t := range s.transfers {
		if t["customerTransactionId"] == key {
			reply(w, t)
			return
		}
	}
	quote := s.quotes[fmt.Sprint(in["quoteUuid"])]
	reference, _ := in["details"].(object)["reference"].(string)
	if quote == nil || quote["targetAccount"] == nil || quote["used"] != nil || reference == "" || len(reference) > 35 {
		fail(w, http.StatusUnprocessableEntity, "NOT_VALID")
		return
	}
	quote["used"] = true
	t := object{"id": 1000 + len(s.transfers), "targetAccount": in["targetAccount"], "quoteUuid": quote["id"],
		"customerTransactionId": key, "status": "incoming_payment_waiting", "targetCurrency": quote["targetCurrency"],
		"targetValue": quote["targetAmount"], "sourceCurrency": s.currency, "details": in["details"], "payments": []object{}}
	s.transfers = append(s.transfers, t)
	reply(w, t)
}

// list writes a page of transfers, newest first.
func (s *server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	page := []object{}
	for _, t := range slices.Backward(s.transfers) {
		if t["targetCurrency"] == q.Get("targetCurrency") && q.Get("profile") == profile {
			page = append(page, t)
		}
	}
	offset, _ := strconv.Atoi(q.Get("offset"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	reply(w, page[min(offset, len(page)):min(offset+limit, len(page))])
}

func (s *server) fund(w http.ResponseWriter, t, in object) {
	cents := s.quotes[t["quoteUuid"].(string)]["cents"].(int64)
	switch {
	case s.protected:
		w.Header().Set("X-2fa-Approval-Result", "REJECTED")
		fail(w, http.StatusForbidden, "")
	case in["type"] != "BALANCE" || t["status"] != "incoming_payment_waiting":
		fail(w, http.StatusConflict, "transfer.status.invalid")
	case s.cents < cents:
		reply(w, object{"type": "BALANCE", "status": "REJECTED", "errorCode": "transfer.insufficient_funds"})
	default:
		s.funding++
		s.book(-cents, fmt.Sprint("TRANSFER-", t["id"]), "TRANSFER", "Sent money")
		t["status"] = "processing"
		t["payments"] = []object{{"id": 1, "method": "BALANCE", "amount": decimal(cents), "currency": s.currency}}
		reply(w, object{"type": "BALANCE", "status": "COMPLETED", "errorCode": nil})
	}
}

// book changes the balance.
func (s *server) book(cents int64, name, kind, text string) {
	s.cents += cents
	amount := func(x int64) object { return object{"value": decimal(x), "currency": s.currency} }
	s.entries = append(s.entries, object{"date": s.now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"amount": amount(cents), "runningBalance": amount(s.cents), "referenceNumber": name,
		"details": object{"type": kind, "description": text, "senderName": "Rose GmbH"}})
}

func (s *server) statement(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	end := s.cents
	page := []object{}
	for _, e := range slices.Backward(s.entries) { // newest first
		switch date := e["date"].(string); {
		case date > q.Get("intervalEnd"):
			end -= units(e["amount"].(object)["value"].(json.Number).String(), s.currency)
		case date >= q.Get("intervalStart"):
			page = append(page, e)
		}
	}
	if q.Get("currency") != s.currency || q.Get("type") != "COMPACT" {
		fail(w, http.StatusBadRequest, "bad.request")
		return
	}
	reply(w, object{"transactions": page, "endOfStatementBalance": object{"value": decimal(end), "currency": s.currency}})
}

// advance lets the networks execute the funded transfers.
func (s *server) advance() {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		if t["status"] == "processing" {
			t["status"] = "outgoing_payment_sent"
		}
	}
}

// refund makes the payee's bank return the transfer with a reference, and Wise refund what it cost.
func (s *server) refund(reference string) (n int) {
	return s.change(reference, func(t object) {
		s.book(s.quotes[t["quoteUuid"].(string)]["cents"].(int64), fmt.Sprint("TRANSFER-", t["id"]), "TRANSFER", "Refund")
		t["status"] = "funds_refunded"
	})
}

// change changes the transfers with a reference, and returns their number.
func (s *server) change(reference string, f func(t object)) (n int) {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		if t["customerTransactionId"] == transactionID(reference) {
			f(t)
			n++
		}
	}
	return n
}

// paid returns the IDs of the funded transfers to an account number that Wise did not refund.
func (s *server) paid(number string) (all []string) {
	s.Lock()
	defer s.Unlock()
	for _, t := range s.transfers {
		id := fmt.Sprint(t["targetAccount"])
		i := slices.IndexFunc(s.accounts, func(a object) bool { return fmt.Sprint(a["id"]) == id })
		details := s.accounts[i]["details"].(object)
		to := cmp.Or(fmt.Sprint(details["accountNumber"]), fmt.Sprint(details["IBAN"]))
		if to == number && len(t["payments"].([]object)) > 0 {
			all = append(all, fmt.Sprint(t["id"]))
		}
	}
	return all
}
