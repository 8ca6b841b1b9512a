package bank_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// nameChecks collects the results that a rail reports for destinations, by the name of the payee.
type nameChecks struct {
	of  map[string]string
	own bool // the destinations belong to the company
}

// check collects the results of a rail.
func (b *fixture) nameChecks() *nameChecks {
	n := &nameChecks{of: map[string]string{}}
	b.e.Config().Checked = func(_ context.Context, _ *db.Tx, c bank.Checked) (bool, error) {
		var to struct {
			IBAN string `json:"iban"`
		}
		err := json.Unmarshal(c.Destination, &to)
		if c.Unless.IsZero() || n.of[to.IBAN] == "" {
			n.of[to.IBAN] = c.Result + c.Name
		}
		return !n.own, err
	}
	return n
}

var ibans = []string{"DE89370400440532013000", "DE35370400440000993001", "DE08370400440000993002"}

func (b *fixture) queueTo(n int) {
	for i, iban := range ibans[:n] {
		b.Queue(payout.Output{ID: fmt.Sprintf("out_%d", i+1), Rail: payout.RailBank, Amount: eur(100),
			Destination: fmt.Appendf(nil, `{"account_holder_name":"Ada","iban":%q}`, iban)})
	}
	b.prepare()
	b.send()
}

func (n *nameChecks) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, iban := range ibans {
		if n.of[iban] != "" {
			got = append(got, n.of[iban])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Each result of Verification of Payee in a status report is a check of the payment's destination, with the name that
// the bank states, and the payments go on. A result of the whole file does not replace that of a payment. The result
// for a company's own account is a problem for staff, unless it is a match.
func TestVerificationsOfPayeesAreChecks(t *testing.T) {
	for _, own := range []bool{false, true} {
		run(t, 0, func(b *fixture) {
			got := b.nameChecks()
			got.own = own
			b.queueTo(3)
			report := func(id, code string, problems int, payments ...iso20022.PaymentStatus) {
				t.Helper()
				body, err := iso20022.Status{ID: id, Order: "S0000001", Code: code, Payments: payments}.Write(time.Unix(0, 0))
				b.Must(err)
				if a := b.response(id, body); !a.Settled || own && len(a.Problems) != problems || !own && len(a.Problems) != 0 {
					t.Errorf("%s: %+v", id, a)
				}
			}
			report("V1", "RVCM", 2, iso20022.PaymentStatus{ID: "S0000001P00001", Code: "RVMC",
				Reasons: []iso20022.Reason{{Code: "NARR", Info: []string{"Ada Q", "Example"}}}},
				iso20022.PaymentStatus{ID: "S0000001P00002", Code: "RVNM",
					Reasons: []iso20022.Reason{{Code: "AC01", Info: []string{"no such name"}}}})
			got.want(t, "close_matchAda Q Example", "no_match")
			report("V2", "RCVC", 1, iso20022.PaymentStatus{ID: "S0000001P00002", Code: "RVNA"})
			got.want(t, "close_matchAda Q Example", "not_possible", "match")
			if o := b.Load("out_2"); o.State != payout.Sent {
				t.Errorf("the output is %s", o.State)
			}
		})
	}
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
					got := b.nameChecks()
					b.queueTo(payments)
					b.Must(teller.ProcessFiles(b.Clock.Now()))
					b.Must(b.e.Collect(b.Context(), b.DB))
					want := []string{"match", "close_matchAda Sandbox", "no_match"}[:payments]
					if optOut != "" && payments > 1 {
						want = nil
					}
					got.want(t, want...)
					if o := b.Load("out_1"); o.State != payout.Fulfilled {
						b.Errorf("the output is %s", o.State)
					}
				})
			})
		}
	}
}
