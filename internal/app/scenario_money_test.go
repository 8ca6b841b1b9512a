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

// Nobody can send what is less than dust, so nobody is asked to.
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

	// A second full payment is the company's, whole.
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the second payment is confirmed", func(v payrollView) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "it is the company's", func() bool { return d.funds() == funds+surplus+due })

	// The balance pays another run, and not more than it holds.
	wallet := `"funding_method":"wallet","funding_currency":"BTC",`
	d.refused(409, "insufficient_balance", "POST", createPath, pays(wallet, "99999.00", d.seed.Workers[0].UserID), "Idempotency-Key", freshKey())
	next := d.create(pays(wallet, "20.00", d.seed.Workers[0].UserID))
	d.fulfilled(next.PayrollID)
	d.checkFunds(funds + surplus + due - 40_400) // 20.20 USD at 50,000
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

// A little late money is applied at the present price without being asked.
func lateApplied(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "late", "")
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
	if n := d.count("SELECT COUNT(*) FROM events WHERE object_id = $1 AND name = 'payroll.funding_late'", made.PayrollID); n != 1 {
		d.Errorf("the company was told %d times that the money was late, want once", n)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); !got.IsZero() {
		d.Errorf("%s BTC still wait for a decision", got)
	}
}

// Late money that is not enough counts, and a new quote asks for the rest of it only.
func lateAndShort(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	due := d.sats(made.Quote.FundingAmount)
	first := d.payroll(made.PayrollID).Quote.ID
	d.advance(31 * time.Minute)
	d.deposit(made.PayrollID, "under", "")
	v := d.until(made.PayrollID, "a new quote for the rest", func(v payrollView) bool { return v.Quote.ID != first })
	if v.Status != "pending" || v.FundingState != "partial" || d.sats(v.Funded) != due-due/10 || d.sats(v.Quote.Amount) != due/10 {
		d.Errorf("%+v, want a quote of %s", v, btc(due/10))
	}
	again := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(again) != 1 || again[0].(object)["quote_id"] != v.Quote.ID {
		d.Errorf("a refresh gives %v, want the active quote %s", again, v.Quote.ID)
	}
	d.deposit(made.PayrollID, "exact", "")
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
}

// Much late money is safe and waits until the company asks for a price.
func lateAndLarge(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("1000.00")
	due := d.sats(made.Quote.FundingAmount)
	d.deposit(made.PayrollID, "late", "")
	v := d.until(made.PayrollID, "late money", func(v payrollView) bool { return v.FundingState == "late" })
	if v.Status != "pending" {
		d.Errorf("%+v", v)
	}
	if got := d.balance(ledger.SuspenseLate, made.PayrollID); got.Units() != due {
		d.Errorf("%s BTC wait for a decision, want %s", got, btc(due))
	}
	quotes := d.ok("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`).read(d)["quotes"].([]any)
	if len(quotes) != 0 {
		d.Errorf("nothing is due, and yet there are the quotes %v", quotes)
	}
	d.fulfilled(made.PayrollID)
	d.checkFunds(funds)
}

// A refresh may come before or after the payment is seen; testdata/api/quote.txt has the other cases.
func refreshDuringDeposit(d *apiClient) {
	made := d.payTwo("250.00")
	d.deposit(made.PayrollID, "exact", "")
	d.refusedOrRefreshed(made.PayrollID)
	d.fulfilled(made.PayrollID)
}

// refusedOrRefreshed races a refresh against a payment on its way: it may come before the payment is seen, and must not
// break anything.
func (d *apiClient) refusedOrRefreshed(payroll string) {
	d.Helper()
	r := d.do("POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+payroll+`"}`)
	if code := r.read(d)["code"]; r.status != 200 && (r.status != 409 || code != "quote_locked" && code != "invalid_state") {
		d.Errorf("%d %s", r.status, r.text)
	}
}

func replacedDeposit(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("250.00")
	txid := d.deposit(made.PayrollID, "replaced", "")
	v := d.until(made.PayrollID, "the payment is gone", func(v payrollView) bool { return v.deposits("replaced") == 1 && v.FundingState == "none" })
	if v.Status != "pending" || d.sats(v.Funded) != 0 || v.Deposits[0].TxHash != txid {
		d.Errorf("%+v", v)
	}
	d.deposit(made.PayrollID, "exact", "")
	if v := d.fulfilled(made.PayrollID); v.deposits("confirmed") != 1 || v.deposits("replaced") != 1 {
		d.Errorf("%+v", v)
	}
	d.checkFunds(funds)
}

// Two confirmations are wanted, so a block that is thrown out has released nothing.
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
		d.Errorf("received %d times, want once: %+v", received, v.Timeline)
	}
	d.checkFunds(funds)
}

// One confirmation is enough, so the payroll may have been released when its block is thrown out. It ends the same.
func reorgAfterRelease(d *apiClient) {
	funds := d.funds()
	made := d.payTwo("100.00")
	d.deposit(made.PayrollID, "reorged", "")
	// The payouts may be confirmed before the funding is back. What was taken out of the company's balance meanwhile, or
	// was owed, is restored by the job that posts the deposit again.
	d.until(made.PayrollID, "fulfilled, nothing owed, and the balance as before", func(v payrollView) bool {
		return v.Status == "fulfilled" && v.deposits("confirmed") == 1 && d.balance(ledger.DueFromCustomer, "").IsZero() && d.funds() == funds
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
		if m := d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+made.PayrollID+`"}`).read(d); m["status"] != "cancelled" {
			d.Errorf("%v", m)
		}
	}
	d.checkFunds(funds + due - due/10)
	d.deposit(made.PayrollID, "exact", btc(due))
	d.until(made.PayrollID, "the payment is confirmed", func(v payrollView) bool { return v.deposits("confirmed") == 2 })
	eventually(d.T, 10*time.Second, "it is the company's", func() bool { return d.funds() == funds+2*due-due/10 })
	v := d.payroll(made.PayrollID)
	if v.Status != "cancelled" || slices.ContainsFunc(v.Payments, func(p payment) bool { return p.Status != "cancelled" || len(p.Outputs) > 0 }) {
		d.Errorf("%+v", v)
	}
	d.refused(409, "invalid_state", "POST", "/api/company/payroll/quote/refresh", `{"payroll_id":"`+made.PayrollID+`"}`)

	done := d.payTwo("250.00")
	d.deposit(done.PayrollID, "exact", "")
	d.until(done.PayrollID, "it is being paid", func(v payrollView) bool { return v.Status != "pending" })
	cancel := d.do("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+done.PayrollID+`"}`)
	if code := cancel.read(d)["code"]; cancel.status != 409 || code != "already_processing" && code != "invalid_state" { // it may have arrived by now
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

// The total is the volume and one rounded fee, to the cent.
func thousandPayees(d *apiClient) {
	var items []string
	var cents int64
	for i := range int64(1000) {
		c := 101 + 7*i
		cents += c
		items = append(items, fmt.Sprintf(`{"user_id":"%s","amount_fiat":%s}`, d.seed.Workers[i%2].UserID, money.New(money.USD, c)))
	}
	made := d.create(`{"to_pay":[` + strings.Join(items, ",") + `]}`)
	fees := cents / 100
	if rest := cents % 100; rest > 50 || rest == 50 && fees%2 == 1 { // half to even
		fees++
	}
	want := [3]string{money.New(money.USD, cents).String(), money.New(money.USD, fees).String(), money.New(money.USD, cents+fees).String()}
	if got := [3]string{made.Volume.String(), made.Fees.String(), made.Total.String()}; got != want {
		d.Errorf("volume, fees, total: %v, want %v", got, want)
	}
	var parts struct {
		Payments []struct {
			Amount json.Number `json:"amount_fiat"`
			Fees   json.Number `json:"fees"`
		} `json:"payments"`
	}
	if err := json.Unmarshal([]byte(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").text), &parts); err != nil {
		d.Fatal(err)
	}
	sum := money.Zero(money.USD)
	for _, p := range parts.Payments {
		for _, n := range []json.Number{p.Amount, p.Fees} {
			a, err := money.Parse(money.USD, n.String())
			if err != nil {
				d.Fatal(err)
			}
			if sum, err = sum.Add(a); err != nil {
				d.Fatal(err)
			}
		}
	}
	if len(parts.Payments) != 1000 || sum.String() != want[2] {
		d.Errorf("%d payments and their fees add up to %s, want %s", len(parts.Payments), sum, want[2])
	}
}

// A payroll is paid by transfers to the house's bank that name it: a part, then more than the rest. The payees get
// theirs, and what is too much is the company's. What comes for one that is cancelled is the company's too.
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
	d.decode(d.ok("POST", createPath, pays(`"funding_method":"bank",`, "250.00", payee), "Idempotency-Key", freshKey()), &made)
	if b := made.Transfer; b == nil || b.Amount != "252.50" || b.Currency != "USD" || b.Routing == "" || b.Number == "" ||
		b.Reference != strings.ToUpper(strings.ReplaceAll(made.ID, "_", "")) {
		d.Fatalf("%+v", b)
	}
	had := d.balanceIn(ledger.CompanyFunds, "", money.USD)
	d.deposit(made.ID, "under", "") // 227.25
	d.until(made.ID, "a part has come", func(v payrollView) bool { return v.FundingState == "partial" && v.deposits("confirmed") == 1 })
	if d.decode(d.ok("GET", "/api/company/payrolls/"+made.ID, ""), &again); again.Transfer == nil || again.Transfer.Amount != "25.25" {
		d.Errorf("what is due still: %+v", again.Transfer)
	}
	d.deposit(made.ID, "exact", "30.00")
	v := d.fulfilled(made.ID)
	if v.FundingState != "over" || v.deposits("confirmed") != 2 {
		d.Errorf("%+v", v)
	}
	if got, err := d.balanceIn(ledger.CompanyFunds, "", money.USD).Sub(had); err != nil || got.Units() != 4_75 {
		d.Errorf("the company has %s USD more", got)
	}
	again = asked{}
	if d.decode(d.ok("GET", "/api/company/payrolls/"+made.ID, ""), &again); again.Transfer != nil {
		d.Error("a payroll that is paid asks for a transfer")
	}

	dropped := d.create(pays(`"funding_method":"bank",`, "100.00", payee))
	d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+dropped.PayrollID+`"}`)
	d.deposit(dropped.PayrollID, "exact", "101.00")
	d.until(dropped.PayrollID, "what came late is the company's", func(v payrollView) bool { return v.Status == "cancelled" && v.FundingState == "over" })
	const answers = "SELECT COUNT(*) FROM bank_responses"
	before := d.count(answers)
	taken := d.create(pays(`"funding_method":"bank",`, "100.00", payee))
	d.deposit(taken.PayrollID, "reorged", "")
	d.until(taken.PayrollID, "the bank has taken the money back", func(v payrollView) bool { return v.deposits("evicted") == 1 })
	for _, state := range []string{"credited", "returned"} {
		if n := d.count("SELECT COUNT(*) FROM events WHERE name LIKE 'transfer.%' AND data LIKE $1 AND data LIKE $2",
			"%"+taken.PayrollID+"%", `%"status":"`+state+`"%"amount":"101.00"%`); n != 1 {
			d.Errorf("%d events say that the transfer is %s", n, state)
		}
	}
	eventually(d.T, 30*time.Second, "the bank's answer is read", func() bool { return d.count(answers) > before })
	if n := d.count(answers + " WHERE problems NOT IN ('null', '[]') AND name LIKE 'bnk_%'"); n != 0 {
		d.Errorf("%d transfers need a person", n)
	}
	for _, kind := range []string{"late", "replaced"} {
		d.refused(422, "invalid_parameter", "POST", "/api/sandbox/deposit", `{"payroll_id":"`+dropped.PayrollID+`","kind":"`+kind+`"}`)
	}
	// The bank reports the return a moment after the transfer. If the payroll was released in between, the money is
	// debited from the company's balance.
	eventually(d.T, 30*time.Second, "the money that was taken back is debited where it is", func() bool {
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
