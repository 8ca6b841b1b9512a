package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
)

// germanIBAN returns a German IBAN. It pads the digits of the bank and account to eighteen.
func germanIBAN(number string) string {
	if len(number) < 18 {
		number = number[:8] + strings.Repeat("0", 18-len(number)) + number[8:]
	}
	n, _ := new(big.Int).SetString(number+"131400", 10) // DE00
	return fmt.Sprintf("DE%02d%s", 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), number)
}

// reasonNumber returns the account number that makes the sandbox's bank answer with a reason code from ISO's list.
func reasonNumber(code string) string {
	return fmt.Sprintf("%03d", slices.Index(bank.SandboxReasons(), code)+1)
}

// hire creates a payee with one bank account.
func (d *apiClient) hire(country, symbol, data string) (id string) {
	d.Helper()
	var made struct {
		ID string `json:"recipient_id"`
	}
	at := "/api/company/" + d.seed.CompanyID + "/recipients/"
	d.decode(d.ok("POST", at+"create",
		fmt.Sprintf(`{"first_name":"Ada","last_name":"Example","country":%q,"email":"%s@example.com","external_id":%q}`,
			country, freshKey(), freshKey())), &made)
	d.ok("POST", at+made.ID+"/distribution",
		`{"symbol":"`+symbol+`","distribution_data":{"account_holder_name":"Ada Example",`+
			`"account_holder_type":"individual",`+data+`}}`)
	return made.ID
}

func (d *apiClient) decode(r response, to any) {
	d.Helper()
	testkit.Check(d, json.Unmarshal([]byte(r.text), to))
}

func ach(number string) string {
	return `"routing_number":"091000019","account_number":"` + number + `","account_type":"checking",
		"address":{"address_line1":"1 Main Street","city":"Springfield","state":"IL","postal_code":"62701","country":"US"}`
}

func iban(number string) string { return `"iban":"` + germanIBAN(number) + `"` }

// A payroll to bank accounts in three currencies ends without intervention in the sandbox. Every payee who can be
// paid is paid. An amount that the bank rejects or returns is owed again in full, with a reason, an event and an
// email.
func TestPayoutsToBanks(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		o := openCompanyBrowser(t, url)
		d := o.d
		payees := []struct{ id, status, reason string }{
			{d.hire("DE", "EUR", iban("370400440532013000")), "fulfilled", ""},
			{d.hire("DE", "EUR", iban("370400440990"+reasonNumber("AC04"))), "returned", "AC04"},
			{d.hire("DE", "EUR", iban("370400440991"+reasonNumber("AC01"))), "action_required", "AC01"},
			{d.hire("US", "USD", ach("12345678")), "fulfilled", ""},
			{d.hire("US", "USD", ach("12990003")), "returned", "R03"},
			{d.hire("US", "USD", ach("12991001")), "fulfilled", ""}, // the bank also sends a notification of change
			{d.hire("GB", "GBP", `"sort_code":"200000","account_number":"55779911"`), "fulfilled", ""},
		}
		var items []string
		for _, p := range payees {
			items = append(items, fmt.Sprintf(`{"user_id":%q,"amount_fiat":100.00}`, p.id))
		}
		made := d.create(`{"currency":"USD","to_pay":[` + strings.Join(items, ",") + `]}`)
		d.deposit(made.PayrollID, "exact", "")
		d.until(made.PayrollID, "the payroll has ended",
			func(v payrollView) bool { return v.Status == "partially_fulfilled" })

		type paid struct {
			ID      string `json:"subpayroll_id"`
			UserID  string `json:"user_id"`
			Status  string `json:"status"`
			Outputs []struct {
				Volume   json.Number `json:"volume_output_in_output_currency"`
				Currency string      `json:"output_currency"`
			} `json:"outputs"`
		}
		type payments struct {
			Payments []paid `json:"payments"`
		}
		var detail payments
		// A payment that the bank returns is fulfilled until the return arrives.
		eventually(t, time.Minute, "each payment has its final state", func() bool {
			detail = payments{}
			d.decode(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, ""), &detail)
			final := 0
			for _, p := range payees {
				if slices.ContainsFunc(detail.Payments, func(m paid) bool { return m.UserID == p.id && m.Status == p.status }) {
					final++
				}
			}
			return final == len(payees)
		})
		by := map[string]paid{}
		owed, left := map[money.Asset]money.Amount{}, map[money.Asset]money.Amount{}
		for _, p := range detail.Payments {
			by[p.UserID] = p
			a, err := money.Parse(money.Asset(p.Outputs[0].Currency), p.Outputs[0].Volume.String())
			testkit.Check(t, err)
			to := owed
			if p.Status == "fulfilled" {
				to = left
			}
			if _, has := to[a.Asset()]; !has {
				to[a.Asset()] = money.Zero(a.Asset())
			}
			if to[a.Asset()], err = to[a.Asset()].Add(a); err != nil {
				t.Fatal(err)
			}
		}
		for i, p := range payees {
			if got := by[p.id].Status; got != p.status {
				t.Errorf("payee %d is %s, want %s", i, got, p.status)
			}
		}
		// In the ledger, the amounts that left the accounts equal the amounts that the bank paid. The amounts still
		// owed equal those that it did not pay. Nothing is in transit.
		for asset, want := range left {
			if got := d.balanceIn(ledger.Bank, "sandbox", asset); got != want.Neg() {
				t.Errorf("the account in %s holds %s, want %s", asset, got, want.Neg())
			}
		}
		open := d.count(`SELECT CAST(COALESCE(SUM(balance), 0) AS BIGINT) FROM ledger_balances WHERE company_id = $1
			AND code = '2110' AND dim IN
			(SELECT output_id FROM outputs WHERE company_id = $1 AND payroll_id = $2)`, d.seed.CompanyID, made.PayrollID)
		want := int64(0)
		for _, a := range owed {
			want += a.Units()
		}
		if open != want {
			t.Errorf("%d units are still owed, want %d", open, want)
		}
		if n := d.count(`SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger_lines WHERE company_id = $1
			AND code = '2300' AND dim LIKE 'bfl%'`, d.seed.CompanyID); n != 0 {
			t.Errorf("%d units are still in transit", n)
		}
		// The service sent three files, one for each account, each with its own number. The bank asked for one
		// change.
		if n := d.count("SELECT COUNT(DISTINCT number) FROM bank_files WHERE state = 'sent'"); n != 3 {
			t.Errorf("the service sent %d files", n)
		}
		if n := d.count("SELECT COUNT(*) FROM bank_changes WHERE code = 'C01'"); n != 1 {
			t.Errorf("the bank asked for %d changes", n)
		}
		d.corrected(o, payees[5].id)
		// Each return has one event, with the bank's reason.
		for i, p := range payees {
			returns := 0
			d.read(func(ctx context.Context, tx *db.Tx) error {
				rows, err := tx.Query(ctx, "SELECT data FROM events WHERE company_id = $1 AND name = 'payout.returned'",
					d.seed.CompanyID)
				all, err := db.Collect(rows, err, func(r *db.Rows) (text string, err error) { return text, r.Scan(&text) })
				for _, text := range all {
					if strings.Contains(text, by[p.id].ID) && strings.Contains(text, `"reason":"`+p.reason+`"`) {
						returns++
					}
				}
				return err
			})
			if want := map[bool]int{true: 1}[p.status == "returned"]; returns != want {
				t.Errorf("payee %d: %d events report a return", i, returns)
			}
		}
		// The bank can return a payment after it was paid. The payment is returned once, and the payroll's status
		// changes.
		back := by[payees[0].id].ID
		d.ok("POST", "/api/sandbox/bank-return", `{"subpayroll_id":"`+back+`","reason":"AC06"}`)
		eventually(t, 30*time.Second, "the payment is returned", func() bool {
			d.decode(d.ok("GET", "/api/company/payrolls/"+made.PayrollID, ""), &detail)
			return slices.ContainsFunc(detail.Payments, func(p paid) bool { return p.ID == back && p.Status == "returned" })
		})
		d.refused(409, "invalid_state", "POST", "/api/sandbox/bank-return", `{"subpayroll_id":"`+back+`"}`)
		d.checkLedgerBalances()

		// After the details are corrected, each payment is sent again, once, for the same output. The corrections
		// are: another bank account, given by three requests at the same time; a new destination on a chain that
		// replaces the old one; a change at a page; and the same details entered again.
		at := func(i int) string {
			return "/api/company/" + d.seed.CompanyID + "/recipients/" + payees[i].id + "/distribution"
		}
		own := func(i int) string {
			return d.ok("GET", at(i), "").read(t)["distributions"].([]any)[0].(object)["distribution_id"].(string)
		}
		correct := func(i int, data string) {
			d.ok("POST", at(i)+"/update",
				`{"distribution_id":"`+own(i)+`","distribution_data":{"account_holder_name":"Ada Example",`+
					`"account_holder_type":"individual",`+data+`}}`)
		}
		var all sync.WaitGroup
		for n := range 3 {
			all.Go(func() { correct(1, iban(fmt.Sprintf("3704004405320130%02d", n+1))) })
		}
		all.Wait()
		old := own(2)
		added := d.ok("POST", at(2),
			`{"symbol":"BTC","distribution_data":{"address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}}`,
		).read(t)["distribution_id"].(string)
		d.ok("PATCH", at(2)+"/allocations",
			`{"allocations":[{"distribution_id":"`+added+`","allocation":100},{"distribution_id":"`+old+`","allocation":0}]}`)
		page := "/recipients/" + payees[4].id
		replace := page + "/destinations/" + own(4) + "/replace"
		check := o.Submit(o.Get(replace+"?d.rail=ach"), replace+"/check", "d.account_holder_name", "Ada Example",
			"d.account_holder_type", "individual",
			"d.routing_number", "091000019", "d.account_number", "12345679", "d.account_type", "checking",
			"d.address.address_line1", "1 Main Street",
			"d.address.city", "Springfield", "d.address.state", "IL", "d.address.postal_code", "62701", "d.address.country",
			"US")
		if got := o.Submit(check, replace); got.Location() != page {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		correct(0, iban("370400440532013000"))
		correct(3, ach("12345670")) // this payment was paid already, and stays so
		last := d.fulfilled(made.PayrollID)
		for _, p := range last.Payments {
			if len(p.Outputs) != 1 {
				t.Errorf("%d outputs for payment %s", len(p.Outputs), p.ID)
			}
		}
		for i, want := range map[int][2]int64{0: {2, 1}, 1: {2, 1}, 2: {1, 0}, 3: {1, 1}, 4: {2, 1}} {
			const ofPayment = "FROM bank_payments WHERE output_id = (SELECT output_id FROM outputs WHERE payment_id = $1)"
			payment := by[payees[i].id].ID
			if got := [2]int64{d.count("SELECT COUNT(*) "+ofPayment, payment),
				d.count("SELECT COUNT(*) "+ofPayment+" AND state = 'paid'", payment)}; got != want {
				t.Errorf("payee %d: %d orders, %d of them arrived; want %v", i, got[0], got[1], want)
			}
		}
		if n := d.count("SELECT COUNT(*) FROM payout_batches WHERE state = 'fulfilled' AND chain = 'bitcoin'"); n != 1 {
			t.Errorf("%d payout transactions, want one, to payee 2", n)
		}
		if n := d.count("SELECT COUNT(*) FROM ledger_balances WHERE company_id = $1 AND code IN ('2100', '2110') AND "+
			"balance <> 0", d.seed.CompanyID); n != 0 {
			t.Errorf("%d payees are still owed something", n)
		}
		d.ownCorrected(o)
		d.checkLedgerBalances()
		checkEvents(t, d.s)
	})
}

// ownCorrected checks a withdrawal to the company's own account when the bank asks for another account number. The
// company's administrators and apps each learn once which account it is. The service does not change the account.
func (d *apiClient) ownCorrected(o *companyBrowser) {
	d.Helper()
	const at, form = "/wallets/withdrawals", "/wallets/destinations/new"
	dropped := d.create(pays(`"funding_method":"bank",`, "100.00", d.bankPayee()))
	d.ok("POST", "/api/company/payroll/cancel", `{"payroll_id":"`+dropped.PayrollID+`"}`)
	d.deposit(dropped.PayrollID, "exact", "101.00")
	d.until(dropped.PayrollID, "the late deposit counts as an overpayment",
		func(v payrollView) bool { return v.FundingState == "over" })
	if got := o.Submit(o.Get(form+"?symbol=USD&d.rail=ach"), form, "label", "House bank", "d.account_holder_name",
		"Example Inc", "d.account_holder_type", "business",
		"d.routing_number", "091000019", "d.account_number", "12991001", "d.account_type", "checking",
		"d.address.address_line1", "1 Main Street",
		"d.address.city", "Springfield", "d.address.state", "IL", "d.address.postal_code", "62701", "d.address.country",
		"US"); got.Location() != at {
		d.Fatalf("%d\n%s", got.Status, got.Text)
	}
	var known struct {
		Destinations []struct {
			ID   string `json:"destination_id"`
			Hint string `json:"hint"`
		} `json:"destinations"`
	}
	d.decode(d.ok("GET", "/api/wallets/destinations", ""), &known)
	own := slices.IndexFunc(known.Destinations, func(x struct {
		ID   string `json:"destination_id"`
		Hint string `json:"hint"`
	}) bool {
		return x.Hint == "••••1001"
	})
	if own < 0 {
		d.Fatalf("%+v", known)
	}
	const mails = `SELECT COUNT(*) FROM mails WHERE template = 'correction_asked' AND address = $1
		AND body_text LIKE '%••••1001%' AND body_text LIKE '%remove the destination%'`
	admin := d.s.Ready().Seed.Admin.Email
	paid := d.ok("POST", "/api/wallets/withdraw", `{"destination_id":"`+known.Destinations[own].ID+`","amount":100.00}`,
		"Idempotency-Key", freshKey()).read(d.T)["withdrawal_id"].(string)
	const asked = "SELECT COUNT(*) FROM events WHERE company_id = $1 AND object_id = $1 AND name = " +
		"'distribution.correction_asked'"
	eventually(d.T, 60*time.Second, "the bank's correction is announced", func() bool {
		return d.count(asked,
			d.seed.CompanyID) > 0
	})
	if n := d.count(asked+` AND data LIKE $2`, d.seed.CompanyID,
		`{"company_id":"`+d.seed.CompanyID+`","recipient_id":"","user_id":"",%"code":"C01","reason":"account number",`+
			`"members":["account_number"],"payroll_id":"","subpayroll_id":"","payout_id":"out_%`); n != 1 {
		d.Errorf("%d events announce the correction, want 1", n)
	}
	eventually(d.T, 30*time.Second, "the withdrawal arrived despite the correction", func() bool {
		return d.ok("GET", "/api/wallets/withdrawals/"+paid, "").read(d.T)["status"] == "completed"
	})
	eventually(d.T, 30*time.Second, "the administrator has one email that explains how to correct the account",
		func() bool { return d.count(mails, admin) == 1 })
	if n := d.count("SELECT COUNT(*) FROM mails WHERE template = 'correction_asked' AND body_text LIKE " +
		"'%1918171614%'"); n != 0 {
		d.Error("an email contains the account number")
	}
	d.decode(d.ok("GET", "/api/wallets/destinations", ""), &known)
	if got := known.Destinations[own]; got.Hint != "••••1001" {
		d.Errorf("the destination changed without a request: %+v", got)
	}
	o.says(o.Get(at), "House bank")
}

// corrected checks a correction that a bank asks for to the number of a payee's account. The service shows it,
// announces it once, and lets an administrator accept it at a page. Later payments go to the new number.
func (d *apiClient) corrected(o *companyBrowser, payee string) {
	d.Helper()
	at := "/api/company/" + d.seed.CompanyID + "/recipients/" + payee + "/distribution"
	shown := func() (destination object) {
		return d.ok("GET", at, "").read(d.T)["distributions"].([]any)[0].(object)
	}
	eventually(d.T, 30*time.Second, "the bank's correction is announced",
		func() bool { return shown()["correction"] != nil })
	was := shown()
	asked := was["correction"].(object)
	if data := asked["distribution_data"].(object); asked["code"] != "C01" || asked["reason"] != "account number" ||
		data["account_number"] != "••••1614" ||
		data["routing_number"] != was["distribution_data"].(object)["routing_number"] ||
		fmt.Sprint(asked["members"]) != "[account_number]" {
		d.Errorf("the correction is %v", asked)
	}
	if n := d.count("SELECT COUNT(*) FROM events WHERE company_id = $1 AND object_id = $2 AND name = "+
		"'distribution.correction_asked'", d.seed.CompanyID, payee); n != 1 {
		d.Errorf("%d events announce the correction", n)
	}
	if n := d.count("SELECT COUNT(DISTINCT address) FROM mails WHERE template = 'correction_asked'"); n < 2 {
		d.Errorf("%d people got an email, want the payee and the company's administrators", n)
	}
	if data := was["distribution_data"].(object); data["account_number"] != "••••1001" {
		d.Errorf("the destination changed without a request: %v", data)
	}
	page := "/recipients/" + payee
	take := page + "/destinations/" + was["distribution_id"].(string) + "/correct"
	o.says(o.Get("/overview"), "reported a correction for USD ••••1001")
	o.role("viewer")
	o.silent(o.says(o.Get(page), "The bank reported a correction for USD ••••1001", "C01", "••••1614"), take)
	o.role("owner")
	o.silent(o.Get(page), "1918171614")
	if got := o.Submit(o.Get(page), take, "correction_id", "cor_other"); got.Status != 409 {
		d.Errorf("accepting a correction with another id: %d", got.Status)
	}
	form := o.Get(page)
	if got := o.Submit(form, take); got.Location() != page {
		d.Fatalf("%d\n%s", got.Status, got.Text)
	}
	if got := o.Submit(form, take); got.Status != 409 {
		d.Errorf("accepting the same correction again: %d", got.Status)
	}
	o.silent(o.says(o.Get(page), "USD ••••1614", "Replaced"), "reported a correction")
	o.silent(o.Get("/overview"), "reported a correction")
	if is := shown(); is["correction"] != nil || is["distribution_data"].(object)["account_number"] != "••••1614" {
		d.Errorf("after the correction, the destination is %v", is)
	}
	next := d.create(`{"currency":"USD","to_pay":[{"user_id":"` + payee + `","amount_fiat":10.00}]}`)
	d.deposit(next.PayrollID, "exact", "")
	d.fulfilled(next.PayrollID)
	var stored string
	d.read(func(ctx context.Context, tx *db.Tx) error {
		return tx.QueryRow(ctx, "SELECT destination FROM outputs WHERE payroll_id = $1", next.PayrollID).Scan(&stored)
	})
	var to destination.Destination
	testkit.Check(d, json.Unmarshal([]byte(stored), &to))
	if data, err := destination.Reveal(d.s.Sealer(), to); err != nil || !strings.Contains(string(data),
		`"account_number":"1918171614"`) {
		d.Errorf("the next payment went to %s, %v", to.Data, err)
	}
}

// The payee's page shows what the payee's bank says about the name when an account is entered.
func TestThePayeesPageShowsTheVerification(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	for number, want := range map[string]string{
		"370400440532013000": "The payee’s bank confirms the name.",
		"370400440000993001": "The payee’s bank says that the account belongs to Ada Example Sandbox.",
		"370400440000993002": "The payee’s bank says that the name does not match the account.",
		"370400440000993003": "The payee’s bank could not check the name.",
	} {
		page := "/recipients/" + o.d.hire("DE", "EUR", iban(number))
		eventually(t, 30*time.Second, want, func() bool {
			return strings.Contains(html.UnescapeString(o.Get(page).Text), want)
		})
	}
}
