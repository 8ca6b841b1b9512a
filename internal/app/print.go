package app

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// printReport shows a ledger's trial balance and what is wrong with the books. It returns ledger.ErrWrong when anything is.
func printReport(w io.Writer, r ledger.Report) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "CODE\tASSET\tDEBIT\tCREDIT\t  ACCOUNT")
	for _, l := range r.Trial {
		debit, credit := "", ""
		switch l.Debit.Sign() {
		case 1:
			debit = l.Debit.String()
		case -1:
			credit = l.Debit.Neg().String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t  %s\n", l.Code, l.Debit.Asset(), debit, credit, l.Code.Name())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d journals, %d lines\n", r.Journals, r.Lines)
	for _, p := range r.Problems {
		fmt.Fprintf(w, "WRONG: %s\n", p)
	}
	if len(r.Problems) > 0 {
		return ledger.ErrWrong
	}
	fmt.Fprintln(w, "The books balance.")
	return nil
}

// printPayouts shows whether payouts go out and what waits.
func printPayouts(w io.Writer, why string, counts map[payout.State]int64, strangers []chain.Stranger) {
	if why == "" {
		fmt.Fprintln(w, "Payouts go out.")
	} else {
		fmt.Fprintf(w, "Payouts are paused: %s.\n", why)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(t, "%s\t%d\n", state, counts[state])
	}
	_ = t.Flush() // as a failed write to the terminal before it
	if len(strangers) > 0 {
		fmt.Fprintln(w, "Transactions that spent coins of the wallet and are not known here:")
	}
	for _, s := range strangers {
		where := "in the mempool"
		if s.Height > 0 {
			where = fmt.Sprintf("in block %d", s.Height)
		}
		spent := fmt.Sprintf("%d coins of %s BTC", s.Coins, money.New(money.BTC, s.Amount))
		if s.Nonce != "" {
			spent = fmt.Sprintf("nonce %s on %s", s.Nonce, s.Chain)
		}
		fmt.Fprintf(w, "  %s %s, %s\n", s.TxID, where, spent)
	}
}

// greet tells a person what was started and what to try first.
func (s *Service) greet(w io.Writer) {
	r := s.ready
	fmt.Fprintf(w, "Stipend %s is running (%s).\n\n", Version(), r.Environment)
	for _, line := range [][2]string{{"Interface", r.BaseURL}, {"Docs", under(r.BaseURL, "/docs")}, {"Contract", under(r.BaseURL, "/openapi.json")}, {"Errors", under(r.BaseURL, "/docs/errors/")}, {"Metrics", r.MetricsURL}, {"Database", s.db.Engine().String()}} {
		if line[1] != "" {
			fmt.Fprintf(w, "  %-10s %s\n", line[0], line[1])
		}
	}
	if r.Seed == nil || r.BaseURL == "" {
		return
	}
	fmt.Fprintf(w, `
  Company    %s
  API key    %s

Create a payroll (copy the lines as they are; the shell keeps its id):

  BASE=%s
  AUTH='Authorization: Basic %s'
  ID=$(curl -sw '\n' $BASE/api/company/payroll/create -H "$AUTH" -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $(date +%%s)" \
    -d '{"company_id":"%s","currency":"USD","to_pay":[
         {"user_id":"%s","amount_fiat":100.00},
         {"user_id":"%s","amount_fiat":250.00}]}' | tee /dev/stderr | grep -o 'prl_[0-9a-z]*')

Pay it, and a few seconds later see it fulfilled:

  curl -sw '\n' $BASE/api/sandbox/deposit -H "$AUTH" -H 'Content-Type: application/json' -d '{"payroll_id":"'$ID'","kind":"exact"}'
  curl -sw '\n' $BASE/api/company/payrolls/$ID -H "$AUTH"

In a browser: %s/sandbox/verifications decides the verifications that wait; %s/sign-in takes %s with the password %s.

Everything here is a simulation with public keys. Stop with Ctrl-C.
`, r.Seed.CompanyID, r.Seed.APIKey, r.BaseURL, r.Seed.APIKey, r.Seed.CompanyID, r.Seed.Workers[0].UserID, r.Seed.Workers[1].UserID,
		r.BaseURL, r.BaseURL, r.Seed.Admin.Email, r.Seed.Admin.Password)
}

// under is an address below a base, if there is one.
func under(base, path string) string {
	if base == "" {
		return ""
	}
	return base + path
}
