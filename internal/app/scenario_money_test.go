package app_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/testkit"
)

func underThenTopUp(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "under", "")
	v := d.until(made.PayrollID, "a part is confirmed", func(v payrollView) bool { return v.FundingState == "partial" })
	if v.Status != "pending" || d.sats(v.Funded) >= d.sats(made.Quote.FundingAmount) {
		d.Errorf("%+v", v)
	}
	d.deposit(made.PayrollID, "exact", "")
	v = d.fulfilled(made.PayrollID)
	if len(v.Deposits) != 2 || v.FundingState != "funded" {
		d.Errorf("%+v", v)
	}
	d.checkFunds(funds)
}

// No payer can send an amount below the dust limit, so the service doesn't ask for one.
func shortByDust(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", btc(d.sats(made.Quote.FundingAmount)-200))
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
}

func overPaid(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "over", "")
	if v := d.fulfilled(made.PayrollID); v.FundingState != "over" {
		d.Errorf("%+v", v)
	}
	surplus := due / 10
	d.checkFunds(funds + surplus)

	// All of a second full payment belongs to the company.
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the second payment is confirmed",
		func(v payrollView) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "the payment is in the company's balance",
		func() bool { return d.funds() == funds+surplus+due })

	// The balance can fund another payroll, but only up to the balance.
	wallet := `"funding_method":"wallet","funding_currency":"BTC",`
	d.refused(409, "insufficient_balance", "POST", createPath, pays(wallet, "99999.00", d.seed.Workers[0].UserID),
		"Idempotency-Key", freshKey())
	next := d.create(pays(wallet, "20.00", d.seed.Workers[0].UserID))
	d.fulfilled(next.PayrollID)
	d.checkFunds(funds + surplus + due - 40_400) // 20.20 USD at 50,000 USD per BTC
}

func splitDeposit(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	part := due / 3
	d.deposit(made.PayrollID, "exact", btc(part))
	d.deposit(made.PayrollID, "exact", btc(part))
	d.deposit(made.PayrollID, "exact", btc(due-2*part))
	if v := d.fulfilled(made.PayrollID); v.deposits("confirmed") != 3 || v.FundingState != "funded" {
		d.Errorf("%+v", v)
	}
	d.checkFunds(funds)
}

// The service applies a small late payment at the current price without asking the company.
func lateApplied(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "late", "")
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
	if n := d.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = 'payroll.funding_late'",
		made.PayrollID); n != 1 {
		d.Errorf("%d events report that the payment was late, want 1", n)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); !got.IsZero() {
		d.Errorf("%s BTC are still unallocated", got)
	}
}

// A late payment that is too small still counts, and a new quote asks only for the rest.
func lateAndShort(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	first := d.payroll(made.PayrollID).Quote.ID
	d.advance(31 * time.Minute)
	d.deposit(made.PayrollID, "under", "")
	v := d.until(made.PayrollID, "there is a new quote for the rest",
		func(v payrollView) bool { return v.Quote.ID != first })
	if v.Status != "pending" || v.FundingState != "partial" || d.sats(v.Funded) != due-due/10 ||
		d.sats(v.Quote.Amount) != due/10 {
		d.Errorf("%+v, want a quote of %s", v, btc(due/10))
	}
	again := d.ok("POST", "/api/company/payroll/quote/refresh",
		`{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(again) != 1 || again[0].(object)["quote_id"] != v.Quote.ID {
		d.Errorf("a refresh gives %v, want the active quote %s", again, v.Quote.ID)
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
}

// The service keeps a large late payment until the company asks for a new price.
func lateAndLarge(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("1000.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "late", "")
	v := d.until(made.PayrollID, "the payment is late", func(v payrollView) bool { return v.FundingState == "late" })
	if v.Status != "pending" {
		d.Errorf("%+v", v)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); got.Units() != due {
		d.Errorf("%s BTC are unallocated, want %s", got, btc(due))
	}
	quotes := d.ok("POST", "/api/company/payroll/quote/refresh",
		`{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(quotes) != 0 {
		d.Errorf("nothing is due, but the service gives the quotes %v", quotes)
	}
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
}

// A company can refresh a quote before or after the service sees the payment. testdata/api/quote.txt has the other
// cases.
func refreshDuringDeposit(d *apiClient) {
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", "")
	d.refusedOrRefreshed(made.PayrollID)
	d.fulfilled(made.PayrollID)
}

// refusedOrRefreshed refreshes the quote while a payment is on its way. The service accepts the refresh if it hasn't
// seen the payment yet, and otherwise refuses it. Neither may break anything.
func (d *apiClient) refusedOrRefreshed(payroll string) {
	d.Helper()
	r := d.do("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+payroll+`"}`)
	if code := r.read(d)["code"]; r.status != 200 && (r.status != 409 || code != "quote_locked" &&
		code != "invalid_state") {
		d.Errorf("%d %s", r.status, r.text)
	}
}

func replacedDeposit(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	txid := d.deposit(made.PayrollID, "replaced", "")
	v := d.until(made.PayrollID, "the payment is replaced",
		func(v payrollView) bool { return v.deposits("replaced") == 1 && v.FundingState == "none" })
	if v.Status != "pending" || d.sats(v.Funded) != 0 || v.Deposits[0].TxHash != txid {
		d.Errorf("%+v", v)
	}
	d.deposit(made.PayrollID, "exact", "")
	if v := d.fulfilled(made.PayrollID); v.deposits("confirmed") != 1 || v.deposits("replaced") != 1 {
		d.Errorf("%+v", v)
	}
	d.checkFunds(funds)
}

// This amount requires two confirmations, so a block that the chain discards hasn't released anything.
func reorgBeforeRelease(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("600.00")
	d.deposit(made.PayrollID, "reorged", "")
	v := d.fulfilled(made.PayrollID)
	if v.deposits("confirmed") != 1 || len(v.Deposits) != 1 {
		d.Errorf("%+v", v)
	}
	received := 0
	for _, step := range v.Timeline {
		if step.ObjectID == made.PayrollID && step.To == "received" {
			received++
		}
	}
	if received != 1 {
		d.Errorf("the payroll changed to received %d times, want once: %+v", received, v.Timeline)
	}
	d.checkFunds(funds)
}

// This amount requires one confirmation, so the service may have released the payroll before the chain discards the
// block. The result is the same.
func reorgAfterRelease(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("100.00")
	d.deposit(made.PayrollID, "reorged", "")
	// The payouts may be confirmed before the deposit is mined again. Meanwhile, the ledger takes the missing money
	// from the company's balance, or record that the company owes it. The job that posts the deposit again restores
	// both.
	d.until(made.PayrollID, "fulfilled, nothing owed, and the balance as before", func(v payrollView) bool {
		return v.Status == "fulfilled" && v.deposits("confirmed") == 1 && d.balance(ledger.DueFromCustomer, "").IsZero() &&
			d.funds() == funds
	})
	d.fulfilled(made.PayrollID)
}

func cancelThenDeposit(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "under", "")
	d.until(made.PayrollID, "a part is confirmed", func(v payrollView) bool { return v.FundingState == "partial" })
	for range 2 {
		if m := d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+made.PayrollID+`"}`).read(
			d); m["status"] != "cancelled" {
			d.Errorf("%v", m)
		}
	}
	d.checkFunds(funds + due - due/10)
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the payment is confirmed", func(v payrollView) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "the payment is in the company's balance",
		func() bool { return d.funds() == funds+2*due-due/10 })
	v := d.payroll(made.PayrollID)
	if v.Status != "cancelled" || slices.ContainsFunc(v.Payments, func(p payment) bool {
		return p.Status != "cancelled" ||
			len(p.Outputs) > 0
	}) {
		d.Errorf("%+v", v)
	}
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`)

	done := d.payTwo("250.00")
	d.deposit(done.PayrollID, "exact", "")
	d.until(done.PayrollID, "the payroll is released", func(v payrollView) bool { return v.Status != "pending" })
	cancel := d.do("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+done.PayrollID+`"}`)
	// the payout may have arrived by now
	if code := cancel.read(d)["code"]; cancel.status != 409 || code != "already_processing" && code != "invalid_state" {
		d.Errorf("%d %s", cancel.status, cancel.text)
	}
	d.fulfilled(done.PayrollID)
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/cancel", `{"payroll_id":"`+done.PayrollID+`"}`)
}

func halfToBank(d *apiClient) {
	made := d.create(pays("", "200.00", d.seed.Workers[sandbox.BankWorker].UserID))
	d.deposit(made.PayrollID, "exact", "")
	half := func(v payrollView, currency string) (o output) {
		for _, p := range v.Payments {
			for _, x := range p.Outputs {
				if x.Currency == currency {
					o = x
				}
			}
		}
		return o
	}
	v := d.until(made.PayrollID, "both halves have arrived", func(v payrollView) bool { return v.Status == "fulfilled" })
	if o := half(v, "BTC"); o.Volume != "0.00200000" || o.Status != "fulfilled" || o.TxHash == "" {
		d.Errorf("%+v", o)
	}
	if o := half(v, "USD"); o.Volume != "100.00" || o.Status != "fulfilled" || o.TxHash != "" {
		d.Errorf("%+v", o)
	}
	if len(v.Payments) != 1 || len(v.Payments[0].Outputs) != 2 || v.Payments[0].Status != "fulfilled" {
		d.Errorf("%+v", v)
	}
}

// The total is the volume plus one rounded fee, to the cent.
func thousandPayees(d *apiClient) {
	var items []string
	var cents int64
	for i := range int64(1000) {
		c := 101 + 7*i
		cents += c
		items = append(items, fmt.Sprintf(`{"user_id":"%s","amount_fiat":%s}`, d.seed.Workers[i%2].UserID,
			money.New(money.USD, c)))
	}
	made := d.create(`{"to_pay":[` + strings.Join(items, ",") + `]}`)
	fees := cents / 100
	if rest := cents % 100; rest > 50 || rest == 50 && fees%2 == 1 { // round half to even
		fees++
	}
	want := [3]string{money.New(money.USD, cents).String(), money.New(money.USD, fees).String(), money.New(money.USD,
		cents+fees).String()}
	if got := [3]string{made.Volume.String(), made.Fees.String(), made.Total.String()}; got != want {
		d.Errorf("volume, fees, total: %v, want %v", got, want)
	}
	var parts struct {
		Payments []struct {
			Amount json.Number `json:"amount_fiat"`
			Fees   json.Number `json:"fees"`
		} `json:"payments"`
	}
	testkit.Check(d, json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").text), &parts))
	sum := money.Zero(money.USD)
	for _, p := range parts.Payments {
		for _, n := range []json.Number{p.Amount, p.Fees} {
			a, err := money.Parse(money.USD, n.String())
			testkit.Check(d, err)
			if sum, err = sum.Add(a); err != nil {
				d.Fatal(err)
			}
		}
	}
	if len(parts.Payments) != 1000 || sum.String() != want[2] {
		d.Errorf("%d payments and their fees add up to %s, want %s", len(parts.Payments), sum, want[2])
	}
}

// A company funds a payroll by bank transfers that name it: first a part, then more than the rest. The payees are
// paid, and the company keeps the excess. A transfer for a cancelled payroll also belongs to the company.
func fundedByBank(d *apiClient) {
	payee := d.bankPayee()
	type asked struct {
		ID       string `json:"payroll_id"`
		Transfer *struct {
			Holder    string      `json:"account_holder_name"`
			Routing   string      `json:"routing_number"`
			Number    string      `json:"account_number"`
			Currency  string      `json:"currency"`
			Amount    json.Number `json:"amount"`
			Reference string      `json:"reference"`
		} `json:"bank_transfer"`
	}
	var made, again asked
	d.decode(d.ok("POST", createPath, pays(`"funding_method":"bank",`, "250.00", payee), "Idempotency-Key", freshKey()),
		&made)
	if b := made.Transfer; b == nil || b.Amount != "252.50" || b.Currency != "USD" || b.Routing == "" || b.Number == "" ||
		b.Reference != strings.ToUpper(strings.ReplaceAll(made.ID, "_", "")) {
		d.Fatalf("%+v", b)
	}
	had := d.balanceIn(ledger.CompanyFunds, "", money.USD)
	d.deposit(made.ID, "under", "") // 227.25
	d.until(made.ID, "a part of the funding is confirmed", func(v payrollView) bool {
		return v.FundingState == "partial" &&
			v.deposits("confirmed") == 1
	})
	if d.decode(d.ok("GET", "/api/company/payrolls/"+made.ID, ""), &again); again.Transfer == nil ||
		again.Transfer.Amount != "25.25" {
		d.Errorf("the service asks for the wrong transfer after a part: %+v", again.Transfer)
	}
	d.deposit(made.ID, "exact", "30.00")
	v := d.fulfilled(made.ID)
	if v.FundingState != "over" || v.deposits("confirmed") != 2 {
		d.Errorf("%+v", v)
	}
	if got, err := d.balanceIn(ledger.CompanyFunds, "", money.USD).Sub(had); err != nil || got.Units() != 4_75 {
		d.Errorf("the company's balance grew by %s USD", got)
	}
	again = asked{}
	if d.decode(d.ok("GET", "/api/company/payrolls/"+made.ID, ""), &again); again.Transfer != nil {
		d.Error("a paid payroll still asks for a transfer")
	}

	dropped := d.create(pays(`"funding_method":"bank",`, "100.00", payee))
	d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+dropped.PayrollID+`"}`)
	d.deposit(dropped.PayrollID, "exact", "101.00")
	d.until(dropped.PayrollID, "the late transfer is in the company's balance",
		func(v payrollView) bool { return v.Status == "cancelled" && v.FundingState == "over" })
	const answers = "SELECT COUNT(*) FROM bank_responses"
	before := d.count(answers)
	taken := d.create(pays(`"funding_method":"bank",`, "100.00", payee))
	d.deposit(taken.PayrollID, "reorged", "")
	d.until(taken.PayrollID, "the bank returned the transfer",
		func(v payrollView) bool { return v.deposits("evicted") == 1 })
	for _, state := range []string{"credited", "returned"} {
		if n := d.count("SELECT COUNT(*) FROM events WHERE name LIKE 'transfer.%' AND data LIKE $1 AND data LIKE $2",
			"%"+taken.PayrollID+"%", `%"status":"`+state+`"%"amount":"101.00"%`); n != 1 {
			d.Errorf("%d events say that the transfer is %s", n, state)
		}
	}
	eventually(d.T, 30*time.Second, "the service reads the bank's answer",
		func() bool { return d.count(answers) > before })
	if n := d.count(answers + " WHERE problems NOT IN ('null', '[]') AND name LIKE 'bnk_%'"); n != 0 {
		d.Errorf("%d transfers need a person's decision", n)
	}
	for _, kind := range []string{"late", "replaced"} {
		d.refused(422, "invalid_parameter", "POST", "/api/sandbox/deposit",
			`{"payroll_id":"`+dropped.PayrollID+`","kind":"`+kind+`"}`)
	}
	// The bank reports the return a moment after the transfer. If the payroll was released in between, the service
	// debits the company's balance.
	eventually(d.T, 30*time.Second, "the service debits the returned money", func() bool {
		want := int64(4_75 + 101_00)
		for _, step := range d.payroll(taken.PayrollID).Timeline {
			if step.ObjectID == taken.PayrollID && step.To == "released" {
				want = 4_75
			}
		}
		got, err := d.balanceIn(ledger.CompanyFunds, "", money.USD).Sub(had)
		return err == nil && got.Units() == want
	})
}
