package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/freeport"
	"github.com/stipend/stipend/internal/web/webtest"
)

// staffBrowser is the browser of an operator whose account was created on the command line.
type staffBrowser struct {
	*webtest.Visitor
	email, password, secret string
	used                    string // the code that they last signed in with
}

// employ creates an operator as the command does, and does not sign them in.
func employ(t *testing.T, s *service, name string) *staffBrowser {
	t.Helper()
	var out bytes.Buffer
	c := cli.StaffAddCmd{StaffCredentials: cli.StaffCredentials{Storage: s.cfg.Storage, Email: strings.ToLower(name) +
		"@house.example"}, Name: name, Role: "admin"}
	testkit.Check(t, c.Run(t.Context(), cli.Streams{Out: &out}))
	said := func(what string) string {
		return regexp.MustCompile(what + ` +(\S+)`).FindStringSubmatch(out.String())[1]
	}
	return &staffBrowser{Visitor: webtest.NewVisitor(t, s.Ready().BaseURL), email: c.Email, password: said("Password"),
		secret: said("Authenticator")}
}

func (o *staffBrowser) code(t *testing.T) string {
	t.Helper()
	code, err := totp.GenerateCode(o.secret, time.Now())
	testkit.Check(t, err)
	return code
}

func (o *staffBrowser) signIn(t *testing.T) *staffBrowser {
	t.Helper()
	const at = "/operations/sign-in"
	o.used = o.code(t)
	if got := o.Submit(o.Get(at), at, "email", o.email, "password", o.password, "code",
		o.used); got.Location() != "/operations" {
		t.Fatalf("%d to %q\n%s", got.Status, got.Location(), got.Text)
	}
	return o
}

// sends posts the first form on a page whose action is a path.
func (o *staffBrowser) sends(t *testing.T, page, path string, want int, pairs ...string) webtest.Visit {
	t.Helper()
	got := o.Submit(o.Get(page), path, pairs...)
	if got.Status != want {
		t.Fatalf("%s: %d to %q, want %d\n%s", path, got.Status, got.Location(), want, got.Text)
	}
	return got
}

var requestPath = regexp.MustCompile(`/operations/requests/oprq_\w+`)

// One operator alone can stop payouts immediately. Two operators together are needed to resume payouts, or to release
// a payroll above the operator's limit. No member of a company can act as an operator. The service records each
// operator's actions.
func TestOperations(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		address, err := freeport.Free() // the address stays the same after a restart, so that sessions stay valid
		testkit.Check(t, err)
		limit := func(c *app.Config) { c.ReleaseLimit, c.Listen = "500 USD", address }
		o := openCompanyBrowser(t, database, limit)
		ada := o.d.seed.Workers[0].UserID
		const at = "/operations"
		first, second := employ(t, o.s, "Katherine"), employ(t, o.s, "Dorothy")
		wrong := first.Get(at + "/sign-in")
		for _, pairs := range [][]string{
			{"email", first.email, "password", first.password, "code", "000000"}, {"email", first.email, "password",
				"wire of eleven inches", "code", first.code(t)},
			{"email", "nobody@house.example", "password", first.password, "code", first.code(t)}, {"email", o.d.seed.Admin.Email,
				"password", o.d.seed.Admin.Password, "code", first.code(t)},
		} {
			if got := first.Submit(wrong, at+"/sign-in", pairs...); got.Status != http.StatusUnprocessableEntity ||
				!strings.Contains(got.Text, "Incorrect email, password or code") {
				t.Errorf("%v: %d\n%s", pairs[1], got.Status, got.Text)
			}
		}
		first.signIn(t)
		second.signIn(t)
		if got := second.Submit(wrong, at+"/sign-in", "email", first.email, "password", first.password, "code",
			first.used); got.Status != http.StatusUnprocessableEntity {
			t.Errorf("a code that was used: %d", got.Status)
		}

		// A company's owner cannot open the operations pages with their own cookie, under any name, and their own
		// form token.
		page := first.Get(at)
		_, form := webtest.Form(t, page.Text, at+"/payouts/pause")
		mine, theirs := o.Get("/settings/approvals"), form
		_, own := webtest.Form(t, mine.Text, "/settings/approvals")
		for _, path := range []string{at, at + "/acts", at + "/queues/in_doubt", at + "/position"} {
			if got := o.Get(path); got.Location() != at+"/sign-in" {
				t.Errorf("an owner at %s: %d", path, got.Status)
			}
		}
		own.Set("reason", "mine now")
		theirs.Set("reason", "mine now")
		for name, values := range map[string]map[string][]string{"own": own, "stolen": theirs} {
			if got := o.Post(at+"/payouts/pause", values); got.Location() != at+"/sign-in" {
				t.Errorf("an owner posts with their form token as %s: %d", name, got.Status)
			}
		}
		if why := o.paused(); why != "" {
			t.Errorf("paused: %q", why)
		}
		// An operator has no access to a company's pages.
		if got := first.Get("/overview"); !strings.HasPrefix(got.Location(), "/sign-in") {
			t.Errorf("an operator at a company's page: %d", got.Status)
		}

		// Above the limit, one operator requests the release and cannot approve it. Another operator approves it.
		made := o.d.create(pays("", "1000", ada))
		o.d.deposit(made.PayrollID, "exact", "0.04")
		o.d.until(made.PayrollID, "on hold", func(v payrollView) bool { return v.Status == "on_hold" })
		o.says(first.Get(at+"/queues/release"), made.PayrollID, "1,010.00\u00a0USD", "Waiting for release")
		first.sends(t, at+"/queues/release", at+"/requests", http.StatusUnprocessableEntity, "reason", " ")
		first.sends(t, at+"/queues/release", at+"/requests", http.StatusSeeOther, "reason", "the company called")
		first.sends(t, at+"/queues/release", at+"/requests", http.StatusConflict, "reason", "again")
		page = o.says(first.Get(at), "the company called", "Katherine",
			"Payouts above 500.00\u00a0USD need a second staff member")
		request := requestPath.FindString(page.Text)
		_, form = webtest.Form(t, page.Text, request)
		form.Set("reason", "myself")
		form.Set("answer", "yes")
		if got := first.Post(request, form); got.Status != http.StatusForbidden || !strings.Contains(got.Text,
			"second_person_required") {
			t.Errorf("with one operator's approval: %d\n%s", got.Status, got.Text)
		}
		if got := o.d.ok("GET", "/api/company/payrolls/"+made.PayrollID, "").read(t); got["status"] != "on_hold" ||
			got["hold_reason"] != "release_review" {
			t.Errorf("%v %v", got["status"], got["hold_reason"])
		}
		second.sends(t, at, request, http.StatusSeeOther, "reason", "called back", "answer", "yes")
		second.Post(request, form) // a repeated approval has no effect
		o.d.fulfilled(made.PayrollID)
		withdrawalIsReleased(o, first, second)

		suspenseIsDecided(o, first, second)
		coinsAreDecided(o, first, second)
		companyIsFrozen(o, first, second)

		// One operator stops all payouts immediately, and they stay stopped after a restart. Two operators resume
		// them.
		first.sends(t, at, at+"/payouts/pause", http.StatusUnprocessableEntity, "reason", "")
		first.sends(t, at, at+"/payouts/pause", http.StatusSeeOther, "reason", "a strange <b>payout</b>")
		small := o.d.create(pays("", "100", ada))
		o.d.deposit(small.PayrollID, "exact", "")
		o.d.until(small.PayrollID, "released", func(v payrollView) bool { return v.Status == "released" })
		eventually(t, 60*time.Second, "a payout waits in the queue", func() bool {
			return strings.Contains(second.Get(at+"/queues/on_hold").Text, "Payouts are paused")
		})
		o.says(second.Get(at), "a strange &lt;b&gt;payout&lt;/b&gt;", "Payouts are paused")
		for _, path := range []string{"/overview", "/payrolls/" + small.PayrollID} {
			o.silent(o.says(o.Get(path), "Payouts are paused at the moment"), "are on their way", "strange")
		}
		second.sends(t, at, at+"/requests", http.StatusSeeOther, "reason", "it was ours")
		testkit.Check(t, o.s.Stop(t.Context()))
		s := boot(t, database, limit)
		o.s, o.d = s, newAPIClient(t, s)
		if why := o.paused(); !strings.Contains(why, "strange") {
			t.Errorf("after a restart: %q", why)
		}
		page = o.says(first.Get(at), "it was ours", "Dorothy")
		request = requestPath.FindString(page.Text)
		first.sends(t, at, request, http.StatusSeeOther, "reason", "checked it", "answer", "yes")
		if why := o.paused(); why != "" {
			t.Errorf("still paused: %q", why)
		}
		o.d.fulfilled(small.PayrollID)
		checkNeeded(t, checkEvents(t, s), ofOperations)

		// After a quarter of an hour, a session can only read. After an hour without use, it is not valid.
		_, form = webtest.Form(t, second.Get(at).Text, at+"/payouts/pause")
		form.Set("reason", "too late")
		o.d.advance(16 * time.Minute)
		o.says(second.Get(at), "Sign in again to take action")
		if got := second.Post(at+"/payouts/pause", form); got.Location() != at+"/sign-in" || o.paused() != "" {
			t.Errorf("an action after a quarter of an hour: %d, paused: %q", got.Status, o.paused())
		}
		o.d.advance(61 * time.Minute)
		if got := second.Get(at); got.Location() != at+"/sign-in" {
			t.Errorf("an expired session: %d", got.Status)
		}
		mary := employ(t, s, "Mary").signIn(t)
		o.says(mary.Get(at+"/acts"), "Paused payouts", "Approved resuming payouts", "Requested a release",
			"Approved a release", "called back", "Added a staff member", "CLI")
		testkit.Check(t, (cli.StaffRemoveCmd{Storage: s.cfg.Storage, Email: mary.email}).Run(t.Context(),
			cli.Streams{Out: &bytes.Buffer{}}))
		if got := mary.Get(at); got.Location() != at+"/sign-in" {
			t.Errorf("a removed operator: %d", got.Status)
		}
	})
}

// companyIsFrozen checks that one operator can freeze a company, and that two are needed to unfreeze it.
func companyIsFrozen(o *companyBrowser, first, second *staffBrowser) {
	const at = "/operations"
	company, payees := o.d.seed.CompanyID, pays("", "100", o.d.seed.Workers[0].UserID)
	made := o.d.create(payees)
	freeze := func(want int, company string) {
		o.Helper()
		first.sends(o.T, at, at+"/companies/freeze", want, "company_id", company, "reason", "the police called")
	}
	freeze(http.StatusNotFound, "com_nobody")
	freeze(http.StatusSeeOther, " "+company)
	freeze(http.StatusConflict, company)
	o.d.refused(http.StatusForbidden, "company_frozen", "POST", "/api/company/payroll/create", payees, "Idempotency-Key",
		freshKey())
	o.d.deposit(made.PayrollID, "exact", "")
	o.d.until(made.PayrollID, "on hold", func(v payrollView) bool { return v.Status == "on_hold" })
	if got := o.d.ok("GET", "/api/company/payrolls/"+made.PayrollID,
		"").read(o.T); got["hold_reason"] != "company_frozen" {
		o.Errorf("the hold's reason is %q", got["hold_reason"])
	}
	o.d.prints(company, cli.CompaniesFrozenCmd{Storage: o.s.cfg.Storage})
	second.sends(o.T, at, at+"/requests", http.StatusSeeOther, "action", "company.unfreeze", "reason", "a mix-up")
	page := o.says(first.Get(at), "a mix-up", "Unfreeze a company")
	first.sends(o.T, at, requestPath.FindString(page.Text), http.StatusSeeOther, "reason", "so it is", "answer", "yes")
	o.d.fulfilled(made.PayrollID)
	said := cli.CompanyDecision{Storage: o.s.cfg.Storage, Company: company, Reason: "to see it"}
	o.d.prints("is frozen", cli.CompaniesFreezeCmd{CompanyDecision: said})
	o.d.prints("not frozen any more", cli.CompaniesUnfreezeCmd{CompanyDecision: said})
}

var transferPath = regexp.MustCompile(`/operations/transfers/trf_\w+`)

// suspend has the bank report transfers that name no recipient.
func (o *companyBrowser) suspend(amounts ...string) {
	o.Helper()
	var entries strings.Builder
	for _, amount := range amounts {
		fmt.Fprintf(&entries, `<Ntry><Amt Ccy="USD">%s</Amt><CdtDbtInd>CRDT</CdtDbtInd><Sts>BOOK</Sts>
			<BookgDt><Dt>2026-03-02</Dt></BookgDt><AcctSvcrRef>%s</AcctSvcrRef>
			<NtryDtls><TxDtls><RltdPties><Dbtr><Pty><Nm>A &lt;b&gt; Payer</Nm></Pty></Dbtr></RltdPties>
			<RmtInf><Ustrd>of %s</Ustrd></RmtInf></TxDtls></NtryDtls></Ntry>`, amount, freshKey(), amount)
	}
	file := filepath.Join(o.TempDir(), "camt.xml")
	testkit.Check(o, os.WriteFile(file,
		[]byte(`<Document><BkToCstmrStmt><Stmt><Id>1</Id><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>`+
			entries.String()+`</Stmt></BkToCstmrStmt></Document>`), 0o600))
	o.d.prints(fmt.Sprintf("0 credited, %d in suspense", len(amounts)), cli.TransfersImportCmd{Storage: o.s.cfg.Storage,
		Files: []string{file}})
}

// suspenseIsDecided checks that one operator credits or sends back a transfer that names no recipient, and that
// another one must approve above the limit.
func suspenseIsDecided(o *companyBrowser, first, second *staffBrowser) {
	const at, queue = "/operations", "/operations/queues/suspense"
	made := o.d.create(pays(`"funding_method":"bank",`, "100.00", o.d.bankPayee()))
	had := o.d.balanceIn(ledger.CompanyFunds, "", money.USD)
	next := func(amount string) string { // returns the path of the only transfer in suspense
		o.suspend(amount)
		return transferPath.FindString(o.says(first.Get(queue), "A &lt;b&gt; Payer", "of "+amount, "No owner found").Text)
	}
	path := next("101.00")
	o.says(first.Get("/operations/expected"), made.PayrollID, filepath.Base(path), "Transfers due for payrolls", "101.00")
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "credit", "reason", "they called", "to", "")
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "credit", "reason", "they called", "to",
		"com_nobody")
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "credit", "reason", " ", "to", made.PayrollID)
	first.sends(o.T, queue, path, http.StatusSeeOther, "answer", "credit", "reason", "they called", "to", made.PayrollID)
	o.d.fulfilled(made.PayrollID)

	first.sends(o.T, queue, next("7.00"), http.StatusSeeOther, "answer", "back", "reason", "a mistake")
	o.says(first.Get(queue), "All clear")

	first.sends(o.T, queue, next("900.00"), http.StatusSeeOther, "answer", "credit", "reason", "they wrote", "to",
		o.d.seed.CompanyID)
	if got := o.d.balanceIn(ledger.CompanyFunds, "", money.USD); got != had {
		o.Errorf("one operator alone credited %s USD", got)
	}
	page := o.says(second.Get(at), "they wrote", "Credit a transfer", o.d.seed.CompanyID)
	request := requestPath.FindString(page.Text)
	_, form := webtest.Form(o.T, first.Get(at).Text, request)
	form.Set("reason", "myself")
	form.Set("answer", "yes")
	if got := first.Post(request, form); got.Status != http.StatusForbidden {
		o.Errorf("with one operator's approval: %d", got.Status)
	}
	second.sends(o.T, at, request, http.StatusSeeOther, "reason", "read it", "answer", "yes")
	if got, err := o.d.balanceIn(ledger.CompanyFunds, "", money.USD).Sub(had); err != nil || got.Units() != 900_00 {
		o.Errorf("the company has %s USD more", got)
	}
	o.says(first.Get(queue), "All clear")
	o.says(first.Get(at+"/acts"), "Return a transfer", "Requested to credit a transfer", "Approved crediting a transfer",
		made.PayrollID+": they called")
	o.says(first.Get(at+"/position"), "Limits", "BTC", "Total value: ")
	o.d.checkLedgerBalances()
}

// The service compares the ledger with the wallet's coins, and the wallet's coins with the node. It names each
// difference, and pauses payouts if a difference means that coins are missing.
func TestReconciliation(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, database string) {
		o := openCompanyBrowser(t, database)
		node := bitcoinsim.New(o.s.DB())
		compare := func() backoffice.Report {
			t.Helper()
			r, err := backoffice.Reconcile(t.Context(), o.s.DB(), backoffice.Sources{Chain: app.BitcoinChain, Node: node,
				Accounts: []evm.Node{o.s.EVM()[0].Node}})
			testkit.Check(t, err)
			return r
		}
		finds := func(kind, object string) {
			t.Helper()
			var r backoffice.Report
			eventually(t, 30*time.Second, "the comparison finds the difference "+kind, func() bool {
				r = compare()
				return slices.ContainsFunc(r.Differences, func(d backoffice.Difference) bool {
					return d.Kind == kind && strings.Contains(d.Object+d.Ledger, object)
				})
			})
		}
		set := func(statement string, args ...any) {
			t.Helper()
			testkit.Check(t, o.s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
				n, err := tx.Exec(ctx, statement, args...)
				if err == nil && n == 0 {
					err = errors.New("nothing was changed")
				}
				return err
			}))
		}
		made := o.d.create(pays("", "1000", o.d.seed.Workers[0].UserID))
		o.d.deposit(made.PayrollID, "over", "")
		o.d.fulfilled(made.PayrollID)
		tokens := o.d.create(pays(`"funding_currency":"USDC",`, "75.00", o.d.tokenPayee("Una", "USDC",
			"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")))
		o.d.deposit(tokens.PayrollID, "over", "")
		o.d.fulfilled(tokens.PayrollID)
		waiting := o.d.create(pays("", "100", o.d.seed.Workers[0].UserID))
		o.d.deposit(waiting.PayrollID, "under", "")
		var out bytes.Buffer
		eventually(t, 60*time.Second, "the deposit is in the ledger", func() bool {
			var n int64
			o.d.read(func(ctx context.Context, tx *db.Tx) error {
				return tx.QueryRow(ctx, "SELECT COUNT(*) FROM deposits WHERE object_id = $1 AND state = 'confirmed'",
					waiting.PayrollID).Scan(&n)
			})
			return n == 1
		})
		var settled backoffice.Report
		eventually(t, 60*time.Second, "the comparison finds no difference",
			func() bool { settled = compare(); return settled.Clean() })
		if err := cli.PrintReconciliation(&out, settled); err != nil || settled.Coins < 2 || !strings.Contains(out.String(),
			"Nothing differs.") {
			t.Errorf("%v, %d coins\n%s", err, settled.Coins, out.String())
		}

		var held []chain.HeldCoin
		if err := o.s.DB().Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
			held, err = chain.HeldCoins(ctx, tx, app.BitcoinChain)
			return err
		}); err != nil || len(held) == 0 {
			t.Fatal(err, len(held))
		}
		i := slices.IndexFunc(held, func(h chain.HeldCoin) bool { return !h.Change && h.Confirmed })
		coin := held[i]
		set("UPDATE deposits SET state = 'seen' WHERE txid = $1", coin.TxID)
		finds(backoffice.DepositMissing, coin.TxID)
		set("UPDATE deposits SET state = 'confirmed' WHERE txid = $1", coin.TxID)
		set("UPDATE payout_batches SET state = 'sent' WHERE state = 'fulfilled'")
		finds(backoffice.PayoutUnbooked, "")
		set("UPDATE payout_batches SET state = 'fulfilled' WHERE state = 'sent'")
		for _, asset := range []string{"USDC", "ETH"} {
			set("UPDATE sim_evm_balances SET amount = amount + 1000 WHERE asset = $1 AND address IN (SELECT address FROM "+
				"chain_addresses WHERE chain = 'base' AND branch = 1)", asset)
			finds(backoffice.AccountTotal, "1006 base")
			set("UPDATE sim_evm_balances SET amount = amount - 1000 WHERE asset = $1 AND address IN (SELECT address FROM "+
				"chain_addresses WHERE chain = 'base' AND branch = 1)", asset)
		}
		set("UPDATE ledger_lines SET amount = amount + 1 WHERE code = '1000'")
		finds(backoffice.WalletTotal, "1000")
		finds(backoffice.LedgerInconsistent, "does not balance")
		set("UPDATE ledger_lines SET amount = amount - 1 WHERE code = '1000'")
		set("UPDATE sim_outputs SET amount = amount + 1 WHERE txid = $1 AND vout = $2", coin.TxID, int64(coin.Vout))
		finds(backoffice.CoinAmount, coin.TxID)
		if err := compare().Respond(t.Context(), o.s.DB(), testLogger(t.Output(), "error")); err != nil || o.paused() != "" {
			t.Errorf("%v, paused: %q", err, o.paused())
		}
		set("UPDATE sim_outputs SET amount = amount - 1, spent_by = 'elsewhere' WHERE txid = $1 AND vout = $2", coin.TxID,
			int64(coin.Vout))
		finds(backoffice.CoinMissing, coin.TxID)
		eventually(t, 30*time.Second, "payouts are paused", func() bool {
			if err := compare().Respond(t.Context(), o.s.DB(), testLogger(t.Output(), "error")); err != nil {
				t.Error(err)
			}
			return strings.Contains(o.paused(), coin.TxID)
		})
		first := employ(t, o.s, "Katherine").signIn(t)
		o.says(first.Get("/operations/reconciliation"), "Runs")
		eventually(t, 30*time.Second, "the page names the difference", func() bool {
			compare()
			return strings.Contains(first.Get("/operations/reconciliation").Text, "The node doesn’t have this coin")
		})
	})
}

// paused returns the reason that payouts are paused, as the engine reads it.
func (o *companyBrowser) paused() (why string) {
	o.Helper()
	testkit.Check(o, o.s.DB().Read(o.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
		why, err = payout.Paused(ctx, tx)
		return err
	}))
	return why
}

func TestOperationsInABrowser(t *testing.T) {
	t.Parallel()
	o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) { c.ReleaseLimit = "500 USD" })
	first, base := employ(t, o.s, "Katherine"), o.s.Ready().BaseURL
	made := o.d.create(pays("", "1000", o.d.seed.Workers[0].UserID))
	o.d.deposit(made.PayrollID, "exact", "")
	o.d.until(made.PayrollID, "on hold", func(v payrollView) bool { return v.Status == "on_hold" })
	o.suspend("5.00")
	testkit.Check(t, o.s.DB().Write(t.Context(), func(_ context.Context, tx *db.Tx) error {
		owed := money.New(money.USD, 9_00)
		return ledger.Post(tx, ledger.Journal{CompanyID: "com_gone", SourceType: "test", SourceID: "1", Purpose: "owe",
			Lines: []ledger.Line{ledger.Debit(ledger.DueFromCustomer, "", owed), ledger.Credit(ledger.Bank, "", owed)}})
	}))
	b := webtest.Start(t)
	p := b.Open(base+"/operations/sign-in", webtest.Look{Width: 320})
	p.Audit()
	p.Fill("#email", first.email)
	p.Fill("#password", first.password)
	p.Fill("#code", first.code(t))
	p.Send("main button")
	if p.Path() != "/operations" {
		t.Fatalf("at %s:\n%s", p.Path(), p.Text())
	}
	webtest.Evaluate[int](p, "document.querySelector('details:has(#pause)').open = true; 1")
	p.Fill("#pause", "to see it")
	p.Send(`form[action$="/pause"] button`)
	p.Fill("#resume", "seen")
	p.Send(`form[action$="/requests"] button`)
	for _, path := range []string{"/operations", "/operations/queues/release", "/operations/queues/suspense",
		"/operations/queues/debts", "/operations/jobs", "/operations/direct-debits", "/operations/reversals",
		"/operations/position", "/operations/acts", "/operations/reconciliation",
		"/operations/expected", "/operations/companies", "/operations/people", "/operations/payments?q=0.1+BTC",
		"/operations/assets", "/operations/retention", "/operations/companies/" + o.d.seed.CompanyID} {
		for _, look := range []webtest.Look{{Width: 320}, {Dark: true}} {
			p := b.Open(base+path, look)
			p.Audit()
			p.Close()
		}
	}
}

// withdrawalIsReleased withdraws an overpayment. Above the limit, the money leaves only after two operators have
// approved.
func withdrawalIsReleased(o *companyBrowser, first, second *staffBrowser) {
	const at = "/operations"
	var to struct {
		Destinations []struct {
			ID string `json:"destination_id"`
		} `json:"destinations"`
	}
	o.d.decode(o.d.ok("GET", "/api/wallets/destinations", ""), &to)
	id := o.d.ok("POST", "/api/wallets/withdraw", `{"destination_id":"`+to.Destinations[0].ID+`","amount":0.012}`,
		"Idempotency-Key", freshKey()).read(o.T)["withdrawal_id"].(string)
	becomes := func(status, reason string) {
		o.Helper()
		eventually(o.T, 60*time.Second, "the withdrawal is "+status, func() bool {
			got := o.d.ok("GET", "/api/wallets/withdrawals/"+id, "").read(o.T)
			return got["status"] == status && got["reason"] == reason
		})
	}
	becomes("on_hold", "release_review")
	o.says(first.Get(at+"/queues/release"), id, "0.01200000\u00a0BTC", "Waiting for release")
	first.sends(o.T, at+"/queues/release", at+"/requests", http.StatusSeeOther, "reason", "their accountant called")
	page := first.Get(at)
	request := requestPath.FindString(page.Text)
	_, form := webtest.Form(o.T, page.Text, request)
	form.Set("reason", "myself")
	form.Set("answer", "yes")
	if got := first.Post(request, form); got.Status != http.StatusForbidden {
		o.Errorf("with one operator's approval: %d\n%s", got.Status, got.Text)
	}
	becomes("on_hold", "release_review")
	second.sends(o.T, at, request, http.StatusSeeOther, "reason", "called back", "answer", "yes")
	becomes("completed", "")
}

var depositPath = regexp.MustCompile(`/operations/deposits/dep_\w+`)

// coinsAreDecided checks that one operator can credit unexpected coins to a company, give them to a payroll that is
// waiting for them, or send them back. Above the limit, another operator must approve.
func coinsAreDecided(o *companyBrowser, first, second *staffBrowser) {
	const at, queue = "/operations", "/operations/queues/suspense"
	node := o.s.EVM()[0].Sim
	// the test pays it in ether, which it does not accept
	waiting := o.d.create(pays(`"funding_currency":"USDC",`, "100.00", o.d.bankPayee()))
	ether := o.d.create(pays(`"funding_currency":"ETH",`, "100.00", o.d.bankPayee()))
	come := func(address string, asset money.Asset, units int64) (path string) {
		o.Helper()
		if _, err := node.Pay(o.Context(), address, money.New(asset, units)); err != nil {
			o.Fatal(err)
		}
		eventually(o.T, 60*time.Second, "the deposit is in suspense", func() bool {
			path = depositPath.FindString(first.Get(queue).Text)
			return path != ""
		})
		return path
	}
	to := waiting.Quote.FundingDetails.Address
	had := o.d.balanceIn(ledger.CompanyFunds, "", money.ETH)
	path := come(to, money.ETH, 40_000_000) // 100 USD
	o.says(first.Get(queue), waiting.PayrollID, to, "0.040000000\u00a0ETH")
	event := o.d.ok("GET", "/api/events?order=desc&limit=1&name=wallet.deposit_update", "").text
	if !strings.Contains(event, `"held":true`) || !strings.Contains(event, `"paid_to":"`+waiting.PayrollID+`"`) {
		o.Errorf("no event of the ether: %s", event)
	}
	for _, other := range []string{backoffice.Resume, backoffice.Release, "", "deposit.burn"} {
		err := o.s.DB().Write(o.Context(), func(ctx context.Context, tx *db.Tx) error {
			return o.s.BackOffice().DecideDeposit(ctx, tx, backoffice.Session{}, other, o.d.seed.CompanyID,
				strings.TrimPrefix(path, at+"/deposits/"), o.d.seed.CompanyID, "alone")
		})
		if !errors.Is(err, apierr.NotFoundErr) {
			o.Errorf("one operator alone does %q with a deposit's form: %v", other, err)
		}
	}
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "credit", "reason", "they called", "to", "")
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "back", "reason", "they called", "to", "0x12")
	first.sends(o.T, queue, path, http.StatusUnprocessableEntity, "answer", "back", "reason", "they called", "to", to)
	first.sends(o.T, queue, path, http.StatusSeeOther, "answer", "credit", "reason", "they called", "to",
		o.d.seed.CompanyID)
	o.says(first.Get(queue), "All clear")

	first.sends(o.T, queue, come(to, money.ETH, 40_400_000), http.StatusSeeOther, "answer", "credit", "reason",
		"the other payroll", "to", ether.PayrollID)
	o.d.fulfilled(ether.PayrollID)
	if got, err := o.d.balanceIn(ledger.CompanyFunds, "", money.ETH).Sub(had); err != nil || got.Units() != 40_000_000 {
		o.Errorf("the company has %s ETH more", got)
	}

	const sender = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
	// 1,000 USD
	first.sends(o.T, queue, come(to, money.ETH, 400_000_000), http.StatusSeeOther, "answer", "back", "reason",
		"they want it back", "to", sender)
	request := requestPath.FindString(o.says(second.Get(at), "they want it back", "Return a deposit", sender).Text)
	got := func() int64 {
		return o.d.count("SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM sim_evm_balances WHERE asset = 'ETH' AND "+
			"LOWER(address) = LOWER($1)", sender)
	}
	if got() != 0 {
		o.Error("one operator alone sent the deposit back")
	}
	second.sends(o.T, at, request, http.StatusSeeOther, "reason", "read it", "answer", "yes")
	eventually(o.T, 60*time.Second, "the deposit is sent back", func() bool { return got() == 400_000_000 })
	eventually(o.T, 60*time.Second, "the queue is empty", func() bool {
		return strings.Contains(first.Get(queue).Text,
			"All clear")
	})
	o.says(first.Get(at+"/acts"), "Approved returning a deposit", "Credit a deposit")
	o.d.checkLedgerBalances()
}
