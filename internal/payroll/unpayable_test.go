package payroll

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// unpayable returns the reasons for each payee who cannot be paid, by name.
func (h *env) unpayable() (all []string) {
	h.Helper()
	h.Read(func(ctx context.Context, tx *db.Tx) error {
		for page := 1; ; page++ {
			found, total, err := h.s.Unpayable(ctx, tx, h.By, "", db.Page{Number: page, PerPage: 2})
			if err != nil {
				return err
			}
			for _, u := range found {
				text := u.ID
				for _, o := range u.Obstacles {
					text += " " + o.Reason
				}
				all = append(all, text)
			}
			if int64(page*2) >= total {
				if int64(len(all)) != total {
					h.Errorf("%d of %d payees", len(all), total)
				}
				return nil
			}
		}
	})
	return all
}

func (h *env) remind(want Reminded) {
	h.Helper()
	sealer, err := identity.NewSealer(make([]byte, 32))
	if err != nil {
		h.Fatal(err)
	}
	got, err := fixture.Try(h.Fixture, func(ctx context.Context, tx *db.Tx) (Reminded, error) {
		return h.s.Remind(ctx, tx, sealer, h.By, "")
	})
	if err != nil || got != want {
		h.Errorf("reminded %+v, %v, want %+v", got, err, want)
	}
}

// Who cannot be paid is listed with every reason before a payment stops, and those whose payments stopped are, too.
func TestUnpayablePayeesAreListedWithTheirReasons(t *testing.T) {
	run(t, func(h *env) {
		want := func(what string, want ...string) {
			h.Helper()
			if got := h.unpayable(); !slices.Equal(got, want) {
				h.Errorf("%s: unpayable are %q, want %q", what, got, want)
			}
		}
		h.Exec("UPDATE recipients SET status = 'pending' WHERE recipient_id = 'rec_bare'")
		want("without a destination", "rec_bare no_distribution")
		h.Exec(`UPDATE destinations SET kind = 'crypto', rail = 'evm', symbol = 'USDC', network = 'gone'
			WHERE owner_id = 'rec_btc'`)
		h.checkAccounts(destination.CheckBlocks)
		h.Exec(`UPDATE destinations SET account_check = '{"method":"verification_of_payee","result":"match"}'
			WHERE owner_id = 'rec_mix' AND symbol = 'EUR'`)
		h.checked(destination.AccountCheck{Method: destination.CheckName, Result: destination.CheckNoMatch})
		want("no match", "rec_bare no_distribution", "rec_btc currency_not_supported", "rec_eur account_check")
		h.checked(destination.AccountCheck{Method: destination.CheckPrenote, Result: destination.CheckReturned})
		want("a returned prenote", "rec_bare no_distribution", "rec_btc currency_not_supported",
			"rec_eur account_check_failed")
		h.Exec(`UPDATE destinations SET correction = '{"code":"C01"}' WHERE owner_id = 'rec_eur'`)
		want("a correction", "rec_bare no_distribution", "rec_btc currency_not_supported",
			"rec_eur account_check_failed correction_requested")
		h.Exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id IN ('rec_bare', 'rec_eur', 'rec_btc')")
		want("inactive")

		p := h.funded(Payee{AmountText: "100", UserID: "rec_mix"})
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		h.wantPayment(p, 0, ActionRequired, ReasonNoDestination, 0)
		want("a payment that stopped", "rec_mix no_distribution payment_stopped")
		h.destinations("rec_mix", map[money.Asset]int{money.BTC: 100})
		want("a payment before its release", "rec_mix payment_stopped")
		h.release(p.ID)
		want("a released payment")
	})
}

// Whose account has not passed its check is listed, and reminded, if the release would hold the payment until something
// is changed.
func TestUnpayableAccountsFollowThePolicy(t *testing.T) {
	run(t, func(h *env) {
		h.Exec("UPDATE recipients SET status = 'inactive' WHERE recipient_id = 'rec_bare'")
		h.Exec("UPDATE recipients SET email = 'eur@example.com' WHERE recipient_id = 'rec_eur'")
		h.Exec(`UPDATE destinations SET account_check = '{"method":"verification_of_payee","result":"match"}'
			WHERE owner_id = 'rec_mix' AND symbol = 'EUR'`)
		name, prenote := destination.CheckName, destination.CheckPrenote
		for _, policy := range []destination.CheckPolicy{destination.CheckIgnored, destination.CheckWarns,
			destination.CheckBlocks} {
			h.checkAccounts(policy)
			for _, c := range []struct {
				method destination.CheckMethod
				result destination.CheckResult
				always string // reason under every policy
				blocks string // reason if the policy blocks
			}{
				{"", "", "", ReasonCheck},
				{name, destination.CheckPending, "", ReasonCheck},
				{name, destination.CheckMatch, "", ""},
				{name, destination.CheckCloseMatch, "", ReasonCheck},
				{name, destination.CheckNoMatch, "", ReasonCheck},
				{name, destination.CheckNotPossible, "", ReasonCheck},
				{prenote, destination.CheckPending, "", ""},
				{prenote, destination.CheckAccepted, "", ""},
				{prenote, destination.CheckReturned, ReasonReturned, ReasonReturned},
			} {
				h.Clock.Advance(25 * time.Hour)
				h.Exec(`UPDATE destinations SET account_check = '', created_at = 1, updated_at = $1
					WHERE owner_id = 'rec_eur'`, db.Micros(h.Clock.Now()))
				if c.result != "" {
					h.checked(destination.AccountCheck{Method: c.method, Result: c.result})
				}
				reason := c.always
				if policy == destination.CheckBlocks {
					reason = c.blocks
				}
				want := func(what, reason string) {
					h.Helper()
					var list []string
					if reason != "" {
						list = []string{"rec_eur " + reason}
					}
					if got := h.unpayable(); !slices.Equal(got, list) {
						h.Errorf("%s, %s %q, %s: unpayable are %q, want %q", policy, c.method, c.result, what, got, list)
					}
				}
				if c.result == "" || c.method == name && c.result == destination.CheckPending {
					want("while the first answer is awaited", "")
				} else {
					want("new", reason)
				}
				h.Clock.Advance(destination.AnswerWait)
				want("after the wait", reason)
				var mailed Reminded
				if reason != "" {
					mailed.Payees = 1
				}
				h.remind(mailed)
			}
		}
		h.s.Checks.Method = func(money.Asset, string, string) destination.CheckMethod { return "" }
		h.Exec("UPDATE destinations SET account_check = ''")
		if got := h.unpayable(); len(got) > 0 {
			h.Errorf("no bank checks the account, and unpayable are %q", got)
		}
	})
}

// A reminder mails everyone who cannot be paid and all open invitations, up to a limit, and continues with the others.
func TestAReminderReachesEveryone(t *testing.T) {
	run(t, func(h *env) {
		h.Exec("UPDATE recipients SET email = 'mix@example.com' WHERE recipient_id = 'rec_mix'")
		p := h.funded(Payee{AmountText: "100", UserID: "rec_mix"})
		h.destinations("rec_mix", nil)
		h.release(p.ID)
		h.wantPayment(p, 0, ActionRequired, ReasonNoDestination, 0)
		h.Write(func(ctx context.Context, tx *db.Tx) error {
			var rows [][]any
			for i := range MaxReminded + 50 {
				email := fmt.Sprintf("%d@example.com", i)
				rows = append(rows, []any{h.By.CompanyID, fmt.Sprintf("inv_%04d", i), email, email, "contractor", "sent", "",
					email, int64(0), "", int64(1), int64(2), int64(1), int64(i), int64(1)})
			}
			return tx.Insert(ctx, "invitations", []string{"company_id", "invitation_id", "email", "email_key", "role", "state",
				"reason", "token_digest", "resend_count", "user_id", "sent_at", "expires_at", "version", "created_at",
				"updated_at"}, rows)
		})
		h.remind(Reminded{Payees: 1, Invitations: MaxReminded - 1})
		h.remind(Reminded{Invitations: 51})
		h.remind(Reminded{})
		h.Clock.Advance(25 * time.Hour)
		h.remind(Reminded{Payees: 1, Invitations: MaxReminded - 1})
		h.WantCount(2, "mails WHERE template = 'destination_link'")
	})
}
