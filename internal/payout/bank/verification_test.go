package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// verifications returns the stored results by output, with the name that a bank stated.
func (b *fixture) verifications(all bool) string {
	found := map[string]string{}
	b.Write(func(ctx context.Context, tx *db.Tx) error {
		results, err := bank.Verifications(ctx, tx, all, 10)
		if err != nil {
			return err
		}
		for _, v := range results {
			name, err := v.Name(b.e.Config().Sealer)
			b.Must(err)
			found[v.OutputID] = string(v.Result) + name
		}
		of, err := bank.VerificationsOf(ctx, tx, payouttest.Company, []string{"out_1", "out_2", "out_3"})
		if all && len(of) != len(results) {
			b.Errorf("%d results by output, want %d", len(of), len(results))
		}
		return err
	})
	return fmt.Sprint(found)
}

// Each result of Verification of Payee in a status report is stored with the name that the bank states, and the
// payments go on. A result of the whole file does not replace that of a payment.
func TestVerificationsOfPayeesAreStored(t *testing.T) {
	run(t, 3, func(b *fixture) {
		b.send()
		report := func(id, code string, payments ...iso20022.PaymentStatus) {
			body, err := iso20022.Status{ID: id, Order: "S0000001", Code: code, Payments: payments}.Write(time.Unix(0, 0))
			b.Must(err)
			if a := b.response(id, body); !a.Settled || len(a.Problems) != 0 {
				b.Errorf("%+v", a)
			}
		}
		report("V1", "RCVM", iso20022.PaymentStatus{ID: "S0000001P00001", Code: "RVMC",
			Reasons: []iso20022.Reason{{Code: "NARR", Info: []string{"Ada Q", "Example"}}}},
			iso20022.PaymentStatus{ID: "S0000001P00002", Code: "RVNM",
				Reasons: []iso20022.Reason{{Code: "AC01", Info: []string{"no such name"}}}})
		if got := b.verifications(true); got != "map[out_1:close_matchAda Q Example out_2:no_match]" {
			b.Error(got)
		}
		report("V2", "RCVC", iso20022.PaymentStatus{ID: "S0000001P00002", Code: "RVNA"})
		if got := b.verifications(true); got != "map[out_1:close_matchAda Q Example out_2:not_possible out_3:match]" {
			b.Error(got)
		}
		if got := b.verifications(false); got != "map[out_1:close_matchAda Q Example out_2:not_possible]" {
			b.Error(got)
		}
		if o := b.Load("out_2"); o.State != payout.Sent {
			b.Errorf("the output is %s", o.State)
		}
		b.Write(func(ctx context.Context, tx *db.Tx) error {
			var sealed string
			err := tx.QueryRow(ctx, "SELECT sealed FROM bank_verifications WHERE company_id = $1 AND result = 'close_match'",
				payouttest.Company).Scan(&sealed)
			if bytes.Contains([]byte(sealed), []byte("Ada")) {
				b.Error("the name is stored in plain text")
			}
			return err
		})
	})
}

// The simulated bank verifies payees by their account number, except in files with several payments that opt out.
func TestTheSimulatedBankVerifiesPayees(t *testing.T) {
	for _, optOut := range []string{"", "VOP OPT-OUT"} {
		for _, payments := range []int{1, 3} {
			t.Run(fmt.Sprint(optOut, payments), func(t *testing.T) {
				run(t, 0, func(b *fixture) {
					_, teller, err := bank.OpenSandbox(b.root)
					b.Must(err)
					for i := range b.e.Config().Accounts {
						if a := &b.e.Config().Accounts[i]; a.Instant != nil {
							a.VerificationOptOut = optOut
						}
					}
					ibans := []string{"DE89370400440532013000", "DE35370400440000993001", "DE08370400440000993002"}
					for i, iban := range ibans[:payments] {
						data := fmt.Sprintf(`{"account_holder_name":"Ada","iban":%q}`, iban)
						b.Queue(payout.Output{ID: fmt.Sprintf("out_%d", i+1), Rail: payout.RailBank, Amount: eur(100),
							Destination: json.RawMessage(data)})
					}
					b.prepare()
					b.send()
					b.Must(teller.ProcessFiles(time.Date(2026, 11, 16, 10, 0, 0, 0, time.UTC)))
					b.Must(b.e.Collect(b.Context(), b.DB))
					want := "map[out_1:match]"
					if payments > 1 {
						want = "map[out_1:match out_2:close_matchAda Sandbox out_3:no_match]"
					}
					if optOut != "" && payments > 1 {
						want = "map[]"
					}
					if got := b.verifications(true); got != want {
						b.Errorf("%s, want %s", got, want)
					}
					if o := b.Load("out_1"); o.State != payout.Fulfilled {
						b.Errorf("the output is %s", o.State)
					}
				})
			})
		}
	}
}
