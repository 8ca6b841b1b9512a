package main

import (
	"context"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
)

const (
	incomeLives   = 8
	incomeAddress = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"
)

// incomes are the incomes of a person, as the API lists and returns them.
type incomes struct {
	Data []struct {
		ID      string      `json:"income_id"`
		Status  string      `json:"status"`
		Fees    json.Number `json:"fees"`
		Outputs []struct {
			Input  json.Number `json:"volume_input_in_input_currency"`
			Symbol money.Asset `json:"output_currency"`
			TxHash string      `json:"tx_hash"`
		} `json:"outputs"`
	} `json:"data"`
}

// A real process is killed again and again while EUR 1,000 arrive on a person's funding account and are paid, 60 % in
// bitcoin and 40 % to a bank account. The bank reports each transfer again to the next process. Each becomes one income
// with two outputs, whose sum is EUR 1,000 less the fee, and each output is paid once.
func TestKilledAtAnyMomentAnIncomeIsPaidOnce(t *testing.T) {
	binary := build(t)
	dbtest.RunURL(t, func(t *testing.T, url string) {
		w := &world{t: t, binary: binary, url: url}
		w.start(time.Hour)
		user, account := w.addPerson()
		w.kill()
		for life := range incomeLives {
			w.start(mathrand.N(2 * time.Second))
			w.takeOver()
			_ = w.credit(account, life) // the process may be killed before it responds
			w.until("the process is killed", func() bool { return !w.alive() })
		}
		w.start(time.Hour)
		w.takeOver()
		for life := range incomeLives {
			testkit.Check(t, w.credit(account, life))
		}
		var all incomes
		w.until("every income is paid", func() bool {
			testkit.Check(t, w.call(http.MethodGet, "/api/user/income?user_id="+user, "", nil, &all))
			open := 0
			for _, i := range all.Data {
				if i.Status != "fulfilled" {
					open++
				}
			}
			return open == 0 && len(all.Data) >= incomeLives
		})
		if len(all.Data) != incomeLives {
			t.Errorf("%d incomes, want %d", len(all.Data), incomeLives)
		}
		transactions := map[string]bool{}
		for i := range all.Data {
			one := &all.Data[i]
			testkit.Check(t, w.call(http.MethodGet, "/api/user/income/"+one.ID+"?user_id="+user, "", nil, one))
			got := map[money.Asset]string{}
			for _, o := range one.Outputs {
				got[o.Symbol] = o.Input.String()
				if o.Symbol == money.BTC {
					transactions[o.TxHash] = true
				}
			}
			want := map[money.Asset]string{money.BTC: "594.00", money.EUR: "396.00"}
			if fmt.Sprint(got, len(one.Outputs), one.Fees) != fmt.Sprint(want, 2, "10.00") {
				t.Errorf("%s: %d outputs of %v and the fee %s", one.ID, len(one.Outputs), got, one.Fees)
			}
		}
		w.kill()
		d := dbtest.Open(t, db.Options{URL: url})
		w.payees = []payee{{symbol: money.BTC, address: incomeAddress}}
		outputs := 0
		for _, times := range w.paidBlocks(bitcoinsim.New(d)) {
			outputs += times
		}
		if outputs != incomeLives {
			t.Errorf("the chain has %d payments in %d transactions, want %d", outputs, len(transactions), incomeLives)
		}
		testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var orders int
			err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM bank_payments WHERE company_id = $1", user).Scan(&orders)
			if orders != incomeLives {
				t.Errorf("the bank got %d orders, want %d", orders, incomeLives)
			}
			return err
		}))
		w.command("ledger", "check")
	})
}

// credit has the bank report a transfer of EUR 1,000, which has the same reference each time.
func (w *world) credit(account string, n int) error {
	return w.call(http.MethodPost, "/api/sandbox/bank-deposit", "", map[string]any{"funding_account_id": account,
		"amount": 1000, "currency": "EUR", "reference": fmt.Sprintf("E2E-%d", n)}, &struct{}{})
}

// addPerson creates a verified user with a funding account in euros and two destinations.
func (w *world) addPerson() (userID, accountID string) {
	w.t.Helper()
	post := func(path string, body map[string]any) (made struct {
		UserID         string `json:"user_id"`
		AccountID      string `json:"funding_account_id"`
		DistributionID string `json:"distribution_id"`
	}) {
		testkit.Check(w.t, w.call(http.MethodPost, path, "", body, &made))
		return made
	}
	user := post("/api/user/create", map[string]any{"email": "ada@example.com", "first_name": "Ada",
		"last_name": "Lovelace", "phone_number": "+4930901820", "phone_country": "DE", "date_of_birth": "1990-12-10",
		"street_address": "Unter den Linden 1", "city": "Berlin", "state": "BE", "zip": "10117", "country": "DE",
		"product": "worker"}).UserID
	post("/api/sandbox/kyc", map[string]any{"user_id": user, "result": "approved"})
	account := post("/api/user/funding/account", map[string]any{"user_id": user, "currency": "EUR",
		"terms_version": "2026-01"}).AccountID
	coins := post("/api/user/distribution", map[string]any{"user_id": user, "symbol": "BTC",
		"distribution_type": "crypto", "distribution_data": map[string]any{"address": incomeAddress}}).DistributionID
	bank := post("/api/user/distribution", map[string]any{"user_id": user, "symbol": "EUR", "distribution_type": "fiat",
		"distribution_data": map[string]any{"account_holder_name": "Ada Lovelace", "account_holder_type": "individual",
			"iban": "DE89370400440532013000"}}).DistributionID
	testkit.Check(w.t, w.call(http.MethodPatch, "/api/user/distribution/allocations", "", map[string]any{"user_id": user,
		"allocations": []map[string]any{{"distribution_id": coins, "allocation": 60},
			{"distribution_id": bank, "allocation": 40}}}, &struct{}{}))
	return user, account
}
