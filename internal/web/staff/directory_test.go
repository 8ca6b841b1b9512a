package staff_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/webtest"
)

// TestDirectoryFindsCompaniesAndPeople searches the directory, adds notes, and checks that people in other roles see no
// people.
func TestDirectoryFindsCompaniesAndPeople(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		v := x.SignInStaffAs("Katherine", backoffice.Support)
		const companies = "/operations/companies"
		for query, want := range map[string]bool{"": true, "?q=aCm": true, "?q=" + x.Company.ID: true, "?q=100%25": false,
			"?status=active": true, "?status=frozen": false, "?q=acme&kyb=rejected": false} {
			if got := v.Get(companies + query); got.Status != http.StatusOK || strings.Contains(got.Text, x.Company.ID) != want {
				t.Errorf("%q: %d, found %v", query, got.Status, !want)
			}
		}
		page := v.Get(companies + "/" + x.Company.ID)
		for _, want := range []string{x.Company.Name, "0.00 %", "owner@acme.example", "Active"} {
			if !page.Contains(want) {
				t.Errorf("the record lacks %q:\n%s", want, page.Text)
			}
		}
		if page.Contains("Freeze") {
			t.Error("support can freeze")
		}
		note := companies + "/" + x.Company.ID + "/notes"
		if got := v.Submit(page, note, "note", " "); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("an empty note: %d", got.Status)
		}
		if got := v.Submit(page, note, "note", "called <b>twice</b>"); got.Status != http.StatusSeeOther {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		if got := v.Get(companies + "/" + x.Company.ID).Text; !strings.Contains(got, "called &lt;b&gt;twice&lt;/b&gt;") {
			t.Errorf("no note in\n%s", got)
		}
		if n := x.Count("SELECT COUNT(*) FROM staff_notes WHERE sealed LIKE '%called%'"); n != 0 {
			t.Error("a note is stored in the clear")
		}
		if got := v.Get("/operations/people?q=OWNER@acme"); !got.Contains("owner@acme.example") {
			t.Errorf("%d\n%s", got.Status, got.Text)
		}
		for _, path := range []string{companies + "/com_nobody", "/operations/people/usr_nobody"} {
			if got := v.Get(path); got.Status != http.StatusNotFound {
				t.Errorf("%s: %d", path, got.Status)
			}
		}
	})
}

// TestFeesNeedTwoStaffMembers checks that fees change with a second approval only, and not if they were changed since
// the request.
func TestFeesNeedTwoStaffMembers(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		katherine, dorothy := x.SignInStaffAs("Katherine", backoffice.Finance), x.SignInStaff("Dorothy")
		at := "/operations/companies/" + x.Company.ID
		ask := func(want int, fee, premium, tolerance string) {
			t.Helper()
			if got := katherine.Submit(katherine.Get(at), at+"/fees", "fee_bps", fee, "premium_bps", premium, "tolerance_bps",
				tolerance, "reason", "volume discount"); got.Status != want {
				t.Fatalf("%s, %s, %s: %d, want %d\n%s", fee, premium, tolerance, got.Status, want, got.Text)
			}
		}
		answer := func(v *webtest.Visitor, answer string, want int) {
			t.Helper()
			page := v.Get("/operations")
			if got := v.Submit(page, requestPath.FindString(page.Text), "answer", answer, "reason",
				"read the contract"); got.Status != want {
				t.Fatalf("%s: %d, want %d\n%s", answer, got.Status, want, got.Text)
			}
		}
		fees := func(fee int64) {
			t.Helper()
			if n := x.Count("SELECT fee_bps FROM companies WHERE company_id = $1", x.Company.ID); n != fee {
				t.Errorf("the fee is %d, want %d", n, fee)
			}
		}
		ask(http.StatusUnprocessableEntity, "5001", "0", "0")
		ask(http.StatusUnprocessableEntity, "80", "0", "501")
		ask(http.StatusUnprocessableEntity, "0.8", "0", "0")
		ask(http.StatusSeeOther, "80", "150", "25")
		answer(katherine, "yes", http.StatusForbidden)
		fees(0)
		answer(dorothy, "yes", http.StatusSeeOther)
		fees(80)
		ask(http.StatusConflict, "80", "150", "25")
		ask(http.StatusSeeOther, "70", "150", "25")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE companies SET fee_bps = 60 WHERE company_id = $1", x.Company.ID)
			return err
		})
		answer(dorothy, "yes", http.StatusConflict)
		fees(60)
		if acts := dorothy.Get("/operations/acts").Text; !strings.Contains(acts, "0/0/0 → 80/150/25") ||
			!strings.Contains(acts, "Approved new fees") {
			t.Errorf("audit log:\n%s", acts)
		}
	})
}

// TestSupportActionsHaveReasonCodes checks the actions on a person's account: each needs a reason code, and removing a
// second factor needs two members of staff.
func TestSupportActionsHaveReasonCodes(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		owner := x.SignIn("owner")
		userID := x.Users["owner"].ID
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			return tx.Insert(ctx, "second_factors", []string{"user_id", "secret", "last_step", "confirmed_at", "created_at"},
				[][]any{{userID, "sealed", int64(0), int64(1), int64(1)}})
		})
		at := "/operations/people/" + userID
		katherine, dorothy := x.SignInStaffAs("Katherine", backoffice.Support), x.SignInStaffAs("Dorothy", backoffice.Support)
		act := func(action, code string, want int) {
			t.Helper()
			if got := send(t, katherine, at+"/support", "action", action, "reason_code", code, "reason",
				"lost the phone"); got.Status != want {
				t.Fatalf("%s %s: %d, want %d\n%s", action, code, got.Status, want, got.Text)
			}
		}
		for _, action := range []string{backoffice.SignOut, backoffice.Unlock, backoffice.RemoveFactor} {
			act(action, "", http.StatusUnprocessableEntity)
			act(action, "because", http.StatusUnprocessableEntity)
		}
		act("support.sign_in", "other", http.StatusNotFound)
		factors := func() int64 { return x.Count("SELECT COUNT(*) FROM second_factors WHERE user_id = $1", userID) }
		before := factors()
		act(backoffice.RemoveFactor, "lost_access", http.StatusSeeOther)
		if factors() != before || before == 0 {
			t.Errorf("%d factors, before %d", factors(), before)
		}
		page := dorothy.Get("/operations")
		if got := dorothy.Submit(page, requestPath.FindString(page.Text), "answer", "yes", "reason",
			"called back"); got.Status != http.StatusSeeOther {
			t.Fatalf("%d\n%s", got.Status, got.Text)
		}
		if factors() != 0 {
			t.Error("the factor was not removed")
		}
		if got := owner.Get("/overview"); got.Status != http.StatusSeeOther {
			t.Errorf("still signed in: %d", got.Status)
		}
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE sign_in_attempts SET attempts = 1000`)
			return err
		})
		locked := x.Count("SELECT COUNT(*) FROM sign_in_attempts")
		act(backoffice.Unlock, "lost_access", http.StatusSeeOther)
		if n := x.Count("SELECT COUNT(*) FROM sign_in_attempts"); n >= locked {
			t.Errorf("%d counters, before %d", n, locked)
		}
		act(backoffice.SignOut, "suspected_takeover", http.StatusSeeOther)
		if n := x.Count(`SELECT COUNT(*) FROM staff_actions WHERE reason_code IN ('lost_access', 'suspected_takeover')
			AND reason <> ''`); n != 4 {
			t.Errorf("%d entries with a reason code", n)
		}
	})
}

// TestAssetsAreSwitched checks that one member of staff stops an asset and two offer it again, and what each state
// stops.
func TestAssetsAreSwitched(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		katherine, dorothy := x.SignInStaffAs("Katherine", backoffice.Finance), x.SignInStaff("Dorothy")
		const path = "/operations/assets"
		set := func(state string, want int) {
			t.Helper()
			if got := katherine.Submit(katherine.Get(path), path, "asset", "BTC", "state", state, "reason",
				"a bug in the node"); got.Status != want {
				t.Fatalf("%s: %d, want %d\n%s", state, got.Status, want, got.Text)
			}
		}
		check := func(state string, refused, stopped bool) {
			t.Helper()
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				err := offering.Check(ctx, tx, money.BTC)
				if (err != nil) != refused {
					t.Errorf("%s: new payrolls: %v", state, err)
				}
				why, err := payout.PayoutsAllowed(ctx, tx, slog.New(slog.DiscardHandler), money.BTC)
				if (why != "") != stopped || err != nil {
					t.Errorf("%s: payouts: %q, %v", state, why, err)
				}
				if why, err := payout.PayoutsAllowed(ctx, tx, slog.New(slog.DiscardHandler), money.USDC); why != "" || err != nil {
					t.Errorf("%s: payouts in USDC: %q, %v", state, why, err)
				}
				return nil
			})
		}
		check("unset", false, false)
		set("off", http.StatusUnprocessableEntity)
		set("offered", http.StatusConflict)
		set("stop_new", http.StatusSeeOther)
		check("stop_new", true, false)
		set("stop_all", http.StatusSeeOther)
		check("stop_all", true, true)
		if page := katherine.Get(path); !page.Contains("Stopped, including payouts") {
			t.Errorf("%s", page.Text)
		}
		answer := func(answer string, want int) {
			t.Helper()
			page := dorothy.Get("/operations")
			if got := dorothy.Submit(page, requestPath.FindString(page.Text), "answer", answer, "reason",
				"repaired"); got.Status != want {
				t.Fatalf("%s: %d, want %d\n%s", answer, got.Status, want, got.Text)
			}
		}
		set("offered", http.StatusSeeOther)
		check("requested", true, true)
		answer("yes", http.StatusSeeOther)
		check("offered", false, false)

		// A request is only for the state in which it was made: staff stop more afterwards.
		set("stop_new", http.StatusSeeOther)
		set("offered", http.StatusSeeOther)
		set("stop_all", http.StatusSeeOther)
		answer("yes", http.StatusConflict)
		check("stopped since the request", true, true)
		answer("no", http.StatusSeeOther)
	})
}

// TestPaymentsAreFoundAcrossCompanies searches by transaction, address, bank reference, amount and ID.
func TestPaymentsAreFoundAcrossCompanies(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d)
		const txid, paid = "4d0e5b1b6d9c2a0e9a2f2a2fd3d7c4e1c3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8", "bcrt1qpayee"
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			for _, statement := range []string{
				`INSERT INTO chain_cursors (chain, height, hash, updated) VALUES ('regtest', 1, 'h', 1) 
					ON CONFLICT DO NOTHING`,
				`INSERT INTO chain_addresses (chain, address, company_id, object_id, branch, idx, created)
					VALUES ('regtest', 'bcrt1qfund', 'com_a', 'prl_a', 0, 1, 1)`,
				`INSERT INTO deposits (company_id, deposit_id, chain, txid, vout, address, asset, amount, object_id, quote_id,
					state, on_time, dust, first_seen, want_confirmations, replaced_by, version)
					VALUES ('com_a', 'dep_a', 'regtest', 'dd', 0, 'bcrt1qfund', 'BTC', 777, 'prl_a', 'quo_a', 'seen', TRUE, FALSE,
						1, 1, '', 1)`,
				`INSERT INTO outputs (company_id, output_id, payroll_id, payment_id, destination_id, rail, asset, amount, address,
					destination, input_asset, input_amount, state, reason, on_hold, queued_at, batch_id, txid, vout, version,
					updated_at) VALUES ('com_b', 'out_b', 'prl_b', 'pay_b', 'dst_b', 'bitcoin', 'BTC', 1234500, '` + paid + `', '{}',
					'', 0, 'sent', '', FALSE, 2, '', '` + txid + `', 0, 1, 2)`,
				`INSERT INTO outputs (company_id, output_id, payroll_id, payment_id, destination_id, rail, asset, amount, address,
					destination, input_asset, input_amount, state, reason, on_hold, queued_at, batch_id, txid, vout, version,
					updated_at) VALUES ('com_a', 'out_a', 'wdr_a', 'pay_a', 'dst_a', 'bank', 'EUR', 25050, '', '{}', '', 0, 'sent', '',
					FALSE, 3, '', '', 0, 1, 2)`,
				`INSERT INTO bank_files (company_id, file_id, number, account, currency, name, asset, payments, total, execute_on,
					instant, kind, checksum, sealed, state, token, attempts, sent_at, version, created_at) VALUES ('com_a', 'bfl_1',
					12, 'eur', 'EUR', 'S0000012.xml', 'EUR', 1, 25050, '2026-01-02', FALSE, 'payments', '', '', 'sent', '', 0, 1, 1,
					1)`,
				`INSERT INTO bank_payments (company_id, file_id, position, part, output_id, amount, state, reason, fee, cost, price,
					updated_at) VALUES ('com_a', 'bfl_1', 3, 1, 'out_a', 25050, 'ordered', '', 0, 0, 0, 1)`,
				`INSERT INTO transfers (transfer_id, bank_account, number, currency, amount, booked_on, debtor,
					debtor_account, lines, fingerprint, seen, state, reason, owner_id, payer_id, invoice_id, invoice_part, payroll_id,
					version, created_at, updated_at) VALUES ('trf_a', 'DE1', '', 'EUR', 25050, '2026-01-02', 'Muster GmbH', 'DE2',
					'["RF18 INVOICE"]', 'f', 's',
					'suspense', '', '', '', '', 0, '', 1, 4, 4)`,
				`INSERT INTO transfer_references (bank_account, name, transfer_id) VALUES ('DE1', 'BANK-REF-7', 'trf_a')`,
			} {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
		v := x.SignInStaffAs("Katherine", backoffice.Support)
		for query, want := range map[string]string{
			txid: "out_b", paid: "out_b", "out_b": "out_b", "0.012345 btc": "out_b", "250.50 EUR": "out_a trf_a",
			"S0000012P00003": "out_a", "bcrt1qfund": "dep_a", "0.00000777 BTC": "dep_a",
			"BANK-REF-7": "trf_a", "muster": "trf_a", "rf18 invoice": "trf_a", "DE2": "trf_a",
			"S0000012P00004": "", "nothing": "", "1 EUR": "", "250.505 EUR": "", "": "",
		} {
			page := v.Get("/operations/payments?q=" + url.QueryEscape(query))
			for _, id := range []string{"out_a", "out_b", "trf_a", "dep_a"} {
				if found := strings.Contains(page.Text, "<code>"+id+"</code>"); found != strings.Contains(want, id) {
					t.Errorf("%q: %s found is %v\n", query, id, found)
				}
			}
			if page.Status != http.StatusOK {
				t.Errorf("%q: %d", query, page.Status)
			}
		}
	})
}

// TestCaseFileIsExported checks that compliance exports a case file with a reason, which the audit log has.
func TestCaseFileIsExported(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		x := pagetest.NewFixture(t, d, "owner")
		x.Write(func(ctx context.Context, tx *db.Tx) error {
			for _, subject := range []string{x.Company.ID, x.Users["owner"].ID} {
				if _, err := tx.Exec(ctx, `INSERT INTO verifications (subject_id, case_id, company_id, kind, state, provider,
					provider_ref, reasons, is_current, expires_at, version, created_at, updated_at)
					VALUES ($1, 'ver_1', $1, 'company', 'rejected', 'sandbox', '', 'document_expired', TRUE, 0, 1, 1, 1)`,
					subject); err != nil {
					return err
				}
				db.History(tx, subject, "ver_1", 1, "", "rejected", "document_expired")
				if _, err := tx.Exec(ctx, `INSERT INTO screening_hits (company_id, hit_id, subject_id, kind, matched, entry_id,
					entry_name, programs, score, state, reason, decided_by, version, created_at, decided_at)
					VALUES ($1, $1, $1, 'name', 'digest', 'UN 1', 'Somebody', 'SDN', 90, 'cleared', 'born later', 'Dorothy', 1, 1, 2)`,
					subject); err != nil {
					return err
				}
			}
			return nil
		})
		v := x.SignInStaffAs("Katherine", backoffice.Compliance)
		for _, at := range []string{"/operations/companies/" + x.Company.ID, "/operations/people/" + x.Users["owner"].ID} {
			page := v.Get(at)
			v.Submit(page, at+"/notes", "note", "called twice")
			if got := v.Submit(page, at+"/case", "reason", " "); got.Status != http.StatusUnprocessableEntity {
				t.Errorf("%s without a reason: %d", at, got.Status)
			}
			got := v.Submit(page, at+"/case", "reason", "asked by the regulator")
			if got.Status != http.StatusOK || !strings.HasPrefix(got.Text, "%PDF-") ||
				!strings.Contains(got.Header.Get("Content-Disposition"), ".pdf") {
				t.Errorf("%s: %d %s", at, got.Status, got.Header.Get("Content-Disposition"))
			}
		}
		if n := x.Count("SELECT COUNT(*) FROM staff_actions WHERE action = 'case.export' AND name = 'Katherine'"); n != 2 {
			t.Errorf("%d exports in the audit log", n)
		}
		var f backoffice.CaseFile
		x.Write(func(ctx context.Context, tx *db.Tx) (err error) {
			f, err = x.Server.Backoffice.ExportCase(ctx, tx, backoffice.Session{}, x.Company.ID, "test")
			return err
		})
		if len(f.Verifications) != 1 || len(f.Verifications[0].Changes) != 1 || len(f.Hits) != 1 || len(f.Notes) != 1 ||
			f.Notes[0].Text != "called twice" || len(f.Actions) != 2 {
			t.Errorf("%+v", f)
		}
	})
}
