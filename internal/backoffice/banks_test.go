package backoffice

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/lightning/lightningtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/treasury"
)

const iban = "DE89370400440532013000"

// branch is a euro account of the operator with its payment files and statements.
type branch struct {
	*testing.T
	d        *db.DB
	clock    *dbtest.Clock
	funds    *treasury.Treasury
	root     string
	files    *bank.Rail
	accounts []bank.Account
	number   int64 // number of the newest statement
	balance  int64 // closing balance of the newest statement, in cents
}

func openBranch(t *testing.T, d *db.DB, clock *dbtest.Clock) *branch {
	t.Helper()
	accounts, err := bank.ReadAccounts(strings.NewReader(`[
		{"id":"eur","currency":"EUR","format":"pain.001","name":"Stipend","town":"Berlin",
		"number":"` + iban + `",
		"country":"DE","calendar":"target","cut_off":"15:00","zone":"Europe/Berlin","return_fee":"5.00"}]`))
	testkit.Check(t, err)
	sealer, err := identity.NewSealer(make([]byte, 32))
	testkit.Check(t, err)
	funds, err := treasury.New(treasury.Bounded)
	testkit.Check(t, err)
	b := &branch{T: t, d: d, clock: clock, funds: funds, root: t.TempDir(), accounts: accounts}
	drop, err := bank.OpenFolder(b.root)
	testkit.Check(t, err)
	if b.files, err = bank.New(bank.Config{Log: slog.New(slog.DiscardHandler), Drop: drop, Accounts: accounts,
		Sealer: sealer,
		Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
			return bank.Destination{Country: "DE", Scheme: "sepa_ct", Data: snapshot}, nil
		},
		Details: func(context.Context, *db.Tx, string, []payout.Output) (map[string]payout.Details, error) {
			return nil, nil
		},
		Changed: func(context.Context, *db.Tx, payout.Output, string, nacha.Correction) error { return nil },
		Checked: func(context.Context, *db.Tx, bank.Checked) (bool, error) { return true, nil },
		Statement: func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) ([]string, error) {
			_, err := bankreceipt.Import(ctx, d, statement, accounts, parts...)
			return nil, err
		}}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *branch) write(f func(context.Context, *db.Tx) error) {
	b.Helper()
	dbtest.Write(b, b.d, f)
}

// pay creates a payment file with one payment for each amount.
func (b *branch) pay(company string, amounts ...int64) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		var outs []payout.Output
		for i, units := range amounts {
			o := payout.Output{CompanyID: company, ID: fmt.Sprintf("out_%s_%d", company, i), PayrollID: "prl_1",
				PaymentID: fmt.Sprintf("pmt_%d", i), Rail: payout.RailBank,
				Amount: eur(units), Input: eur(units),
				Destination: json.RawMessage(`{"account_holder_name":"Ada","account_holder_type":"individual",
					"iban":"DE89370400440532013000"}`)}
			outs = append(outs, o)
			if err := ledger.Post(tx, ledger.Journal{CompanyID: company, SourceType: "test", SourceID: o.ID, Purpose: "owe",
				Lines: []ledger.Line{
					ledger.Debit(ledger.FXPosition, "", o.Amount), ledger.Credit(ledger.OutputPayable, o.ID, o.Amount)}}); err != nil {
				return err
			}
		}
		return payout.Add(tx, outs)
	})
	testkit.Check(b, b.files.Prepare(b.Context(), b.d, company))
}

// says imports a message of the bank.
func (b *branch) says(name string, body []byte) {
	b.Helper()
	testkit.Check(b, os.WriteFile(filepath.Join(b.root, "in", name), body, 0o600))
	testkit.Check(b, b.files.Collect(b.Context(), b.d))
}

// closes imports a statement with the entries of the day, which starts with the previous closing balance, and
// advances the clock by a day.
func (b *branch) closes(entries ...iso20022.Entry) {
	b.Helper()
	b.number++
	opened := b.balance
	for _, e := range entries {
		if e.Credit {
			b.balance += e.Amount.Units()
		} else {
			b.balance -= e.Amount.Units()
		}
	}
	b.says(fmt.Sprintf("s%d.xml", b.number), b.statement(opened, entries))
	b.clock.Advance(24 * time.Hour)
}

func (b *branch) statement(opened int64, entries []iso20022.Entry) []byte {
	b.Helper()
	id, today := fmt.Sprintf("ST%d", b.number), b.clock.Now()
	var out bytes.Buffer
	w, err := iso20022.WriteStatement(&out, iso20022.Statement{File: id, ID: id, Sequence: fmt.Sprint(b.number),
		Created: today, Account: iban,
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: eur(opened), Day: today}, {Type: "CLBD", Amount: eur(b.balance),
			Day: today}}})
	for _, e := range entries {
		if err == nil {
			e.Booked, e.Valued = today, today
			err = w.Entry(e)
		}
	}
	if err == nil {
		err = w.Close()
	}
	testkit.Check(b, err)
	return out.Bytes()
}

func eur(cents int64) money.Amount { return money.New(money.EUR, cents) }

func credit(units int64, words string) iso20022.Entry {
	return iso20022.Entry{Reference: "in " + words, Servicer: "in " + words, Amount: eur(units), Credit: true,
		Details: []iso20022.Detail{{Amount: eur(units), Credit: true, Debtor: iso20022.Party{Name: "Eve"},
			Remittance: []string{words}}}}
}

func debit(units int64, name string) iso20022.Entry {
	return iso20022.Entry{Reference: name, Amount: eur(units), Batch: iso20022.Batch{MessageID: name}}
}

// compare reconciles and checks the differences, each given as its kind and its object.
func (b *branch) compare(what string, want ...string) Report {
	b.Helper()
	r, err := Reconcile(b.Context(), b.d, Sources{Chain: "bitcoin", Banks: b.accounts})
	testkit.Check(b, err)
	var got []string
	for _, d := range r.Differences {
		got = append(got, d.Kind+" "+d.Object)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("%s: %q, want %q\n%+v", what, got, want, r)
	}
	return r
}

// Reconciliation reports no difference between account 1020 and the bank's statements, in whatever order the messages
// arrive, and reports each error of a posting or statement.
func TestTheBankAndTheBooksAreCompared(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		b.write(func(ctx context.Context, tx *db.Tx) error { // income of the operator, so that it can withdraw money
			_, err := treasury.Deposit(ctx, tx, treasury.Booking{
				Place: treasury.Place{Kind: treasury.PlaceBank, Name: "elsewhere"}, Reference: "1",
			}, eur(1000_00))
			return err
		})
		b.pay("com_1", 100_00, 200_00)
		if r := b.compare("before any statement"); r.Coins != 0 {
			t.Errorf("%+v", r)
		}
		b.closes(credit(900_00, "from Eve"))
		b.closes(debit(300_00, "S0000001"))
		b.compare("a credit in suspense and a file that was paid")
		// The bank returns a payment less its own deduction, and charges a fee.
		back := iso20022.Entry{Reference: "back", Amount: eur(95_00), Credit: true, Type: iso20022.Type{
			Domain: "PMNT", Family: "RCDT", SubFamily: "RRTN",
		},
			Details: []iso20022.Detail{{EndToEndID: "S0000001P00001", Amount: eur(95_00), Credit: true, ReturnReason: "AC04"}}}
		fee := iso20022.Entry{Reference: "fee", Amount: eur(20), Type: iso20022.Type{
			Domain: "PMNT", Family: "ICDT", SubFamily: "CHRG",
		},
			Details: []iso20022.Detail{{EndToEndID: "S0000001P00002", Amount: eur(20)}}}
		b.closes(back, fee)
		b.compare("what came back, and a fee")
		// The bank returns a part of the other payment. Staff then record the return of the whole payment, which
		// includes the part.
		part := back
		part.Reference, part.Amount = "part", eur(30_00)
		part.Details = []iso20022.Detail{
			{EndToEndID: "S0000001P00002", Amount: eur(30_00), Credit: true, ReturnReason: "FOCR"},
		}
		b.closes(part)
		b.compare("a part came back")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			return bank.RecordReturn(ctx, tx, 1, 2, eur(30_00), bankreceipt.ClearParts)
		})
		b.compare("the part was all")

		// A booking of the operator's own money has no bank reference. It is matched with the statement by its amount.
		own := treasury.Booking{Place: treasury.Place{Kind: treasury.PlaceBank, Name: "eur"}, Reference: "own"}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := treasury.Deposit(ctx, tx, own, eur(50_00))
			return err
		})
		b.compare("booked today, and no statement closed since")
		b.closes()
		b.compare("the day of the booking closed without it; perhaps the bank's next day has it")
		b.closes()
		b.compare("the next day closed without it", "booking_unstated eur, fx bank:eur:own", "bank_total 1020 eur")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := b.funds.Withdraw(ctx, tx, treasury.Booking{Place: own.Place, Reference: "own, taken back"}, eur(50_00))
			return err
		})
		b.compare("the booking was taken back")
		b.closes(debit(7_00, "rent"))
		b.compare("nobody knows what left", "entry_unbooked eur, rent", "bank_total 1020 eur")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := b.funds.Withdraw(ctx, tx, treasury.Booking{Place: own.Place, Reference: "March"}, eur(7_00))
			return err
		})
		b.compare("a person booked it under another name")

		// The bank confirms a payment twice: in a status message, and in a statement with another amount.
		b.pay("com_2", 10_00)
		status, err := iso20022.Status{ID: "A2", Order: "S0000002", Code: "ACSC"}.Write(clock.Now())
		testkit.Check(t, err)
		b.says("status.xml", status)
		b.closes(debit(11_00, "S0000002"))
		b.closes()
		b.compare("a payment of another amount", "entry_amount eur, S0000002", "bank_total 1020 eur")
		b.balance -= 1_00
		b.number += 2
		b.closes()
		r := b.compare("a statement is missing", "entry_amount eur, S0000002",
			"statement_missing eur, between ST9 of 2026-01-23 and ST12 of 2026-01-24", "bank_total 1020 eur")
		want := Difference{BankTotal, "1020 eur", "707.80 EUR", "705.80 EUR on 2026-01-24, difference -2.00 EUR"}
		if !slices.Contains(r.Differences, want) {
			t.Errorf("%+v", r.Differences)
		}
		b.balance -= 3_00
		body := b.statement(b.balance+3_00, nil)
		b.says("again.xml", body)
		b.compare("the newest statement again, with bookings that do not lead to its balance", "entry_amount eur, S0000002",
			"statement_missing eur, between ST9 of 2026-01-23 and ST12 of 2026-01-25", "statement_sum eur ST12",
			"bank_total 1020 eur")
	})
}

// Money that was expected and has not arrived, and money that arrived unexpectedly, is listed with its age.
func TestOpenPaymentsHaveAnAge(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		want := func(what string, want ...string) {
			t.Helper()
			var got []string
			dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
				all, err := OpenPayments(ctx, tx)
				for _, p := range all {
					got = append(got, fmt.Sprintf("%s %s %s-%s=%s %d", p.Direction, p.CompanyID, p.Expected, p.Arrived, p.Open,
						p.Age))
				}
				return err
			})
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		b.pay("com_1", 100_00, 200_00)
		want("a file that was not sent")
		testkit.Check(t, b.files.Send(t.Context(), d, "com_1", fileIDs(t, d)))
		want("a file without a response", "outgoing com_1 300.00-0.00=300.00 0")
		status, err := iso20022.Status{ID: "A1", Order: "S0000001", Code: "PART", Payments: []iso20022.PaymentStatus{
			{ID: "S0000001P00002", Code: "RJCT", Reasons: []iso20022.Reason{{Code: "AC04"}}}}}.Write(clock.Now())
		testkit.Check(t, err)
		b.says("status.xml", status)
		b.closes(credit(900_00, "from Eve"))
		want("the bank rejected one payment, and reported a transfer", "outgoing com_1 300.00-200.00=100.00 1",
			"unmatched  0.00-900.00=900.00 0")
		clock.Advance(2 * 24 * time.Hour)
		want("two days later", "outgoing com_1 300.00-200.00=100.00 2", "unmatched  0.00-900.00=900.00 1")
		clock.Advance(40 * 24 * time.Hour)
		want("a month later", "outgoing com_1 300.00-200.00=100.00 4", "unmatched  0.00-900.00=900.00 4")
		b.closes(debit(100_00, "S0000001"))
		want("the bank paid the rest", "unmatched  0.00-900.00=900.00 4")
	})
}

// Direct debits and reversals that the bank has are expected money.
func TestDebitsAndReversalsAreExpected(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		today := clock.Now().Format(time.DateOnly)
		// insert stores a row; the columns that it does not name are empty or zero.
		insert := func(table, empty, zero string, row map[string]any) {
			for _, name := range strings.Fields(empty) {
				row[name] = ""
			}
			for _, name := range strings.Fields(zero) {
				row[name] = int64(0)
			}
			names := slices.Sorted(maps.Keys(row))
			values := make([]any, len(names))
			for i, name := range names {
				values[i] = row[name]
			}
			b.write(func(ctx context.Context, tx *db.Tx) error { return tx.Insert(ctx, table, names, [][]any{values}) })
		}
		insert("direct_debit_mandates", "creditor creditor_id text language reason accepted_by accepted_from",
			"accepted_at last_used_at version", map[string]any{"company_id": "com_1", "mandate_id": "mdt_1",
				"scheme": "sepa_core", "reference": "M1", "account": "{}", "status": "active"})
		debit := func(i int, state, token string) {
			insert("direct_debits", "reason description external_id request_key retry_of name checksum sealed transfer_id "+
				"created_by payroll_id",
				"released retries attempts check_at checked_at held_until version created_at updated_at",
				map[string]any{"company_id": "com_1", "debit_id": fmt.Sprintf("ddb_%d", i), "mandate_id": "mdt_1",
					"account": "eur", "number": int64(i + 1), "asset": "EUR", "amount": int64(i+1) * 100, "due_on": today,
					"status": state, "is_final": false, "token": token})
		}
		for i, state := range []string{"scheduled", "submitting", "submitting", "submitted", "collected"} {
			token := ""
			if i > 1 {
				token = "try_1"
			}
			debit(i, state, token)
		}
		for i, state := range []string{"approved", "ordered", "collected"} {
			insert("bank_files", "name checksum sealed token", "payments total attempts sent_at version created_at",
				map[string]any{"company_id": "com_1", "file_id": fmt.Sprintf("bfl_%d", i), "number": int64(11 + i),
					"account": "usd", "currency": "USD", "asset": "USD", "execute_on": today, "instant": false, "kind": "reversals",
					"state": "sent"})
			insert("bank_reversals", "code", "approved_at", map[string]any{"company_id": "com_1", "file_id": "bfl_0",
				"position": int64(i + 1), "payment": fmt.Sprintf("S0000001P0000%d", i+1), "reason": "duplicate", "state": state,
				"number": int64(11 + i), "amount": int64(700), "collected": state == "collected"})
		}
		var got []string
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			all, err := OpenPayments(ctx, tx)
			for _, p := range all {
				got = append(got, fmt.Sprintf("%s %s %s %s %d", p.Direction, p.CompanyID, p.ObjectID, p.Open, p.Age))
			}
			return err
		})
		want := []string{"debits com_1 D0000003 3.00 0", "debits com_1 D0000004 4.00 0", "reversals com_1 S0000012 7.00 0"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		// All are returned, so that sums are complete, however many there are.
		for i := range MostItems {
			debit(100+i, "submitted", "try_1")
		}
		var unknown []iso20022.Entry
		for i := range MostItems + 1 {
			unknown = append(unknown, credit(int64(i+1), fmt.Sprintf("unknown %d", i)))
		}
		b.closes(unknown...)
		count := map[string]int{}
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			all, err := OpenPayments(ctx, tx)
			for _, p := range all {
				count[p.Direction]++
			}
			return err
		})
		if count[Debits] != MostItems+2 || count[Unmatched] != MostItems+1 {
			t.Errorf("%v", count)
		}
	})
}

// The newest statement of an account with files is late on the business day after the next one, at noon.
func TestALateStatementIsADifference(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		clock.Set(time.Date(2026, time.April, 1, 18, 0, 0, 0, time.UTC)) // the Wednesday before Easter
		b.closes()
		clock.Set(time.Date(2026, time.April, 7, 9, 59, 0, 0, time.UTC)) // Tuesday, 11:59 in Berlin
		b.compare("before noon")
		clock.Set(time.Date(2026, time.April, 7, 10, 0, 0, 0, time.UTC))
		b.compare("at noon", StatementLate+" eur, 2026-04-02")
		clock.Set(time.Date(2026, time.April, 7, 18, 0, 0, 0, time.UTC))
		b.closes()
		b.compare("after the statement")
	})
}

// An account with postings whose bank sends no statement is a difference once the first one is late, and so is a
// statement without an opening or closing balance. A negative balance is none.
func TestAnAccountWithoutBalancesIsADifference(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		b.compare("nothing was posted")
		clock.Set(time.Date(2026, time.April, 1, 10, 0, 0, 0, time.UTC)) // the Wednesday before Easter
		b.pay("com_1", 100_00)
		status, err := iso20022.Status{ID: "A1", Order: "S0000001", Code: "ACSC"}.Write(clock.Now())
		testkit.Check(t, err)
		b.says("status.xml", status)
		clock.Set(time.Date(2026, time.April, 2, 9, 59, 0, 0, time.UTC)) // Thursday, 11:59 in Berlin
		if r := b.compare("before noon"); len(r.NotCompared) != 1 || !strings.Contains(r.NotCompared[0], "-100.00 EUR") {
			t.Errorf("%q", r.NotCompared)
		}
		clock.Set(time.Date(2026, time.April, 2, 10, 0, 0, 0, time.UTC))
		b.compare("the bank has sent nothing", "statement_late eur, 2026-04-01")
		// The statement of Wednesday arrives without one of its balances, and then with both.
		clock.Set(time.Date(2026, time.April, 1, 20, 0, 0, 0, time.UTC))
		b.number, b.balance = 1, -100_00
		whole := string(b.statement(0, []iso20022.Entry{debit(100_00, "S0000001")}))
		clock.Set(time.Date(2026, time.April, 2, 10, 0, 0, 0, time.UTC))
		for kind, broken := range map[string]string{"OPBD": "INFO", "CLBD": "ITBD"} {
			b.says(kind+".xml", []byte(strings.Replace(whole, "<Cd>"+kind+"<", "<Cd>"+broken+"<", 1)))
			b.compare("no "+kind, "statement_unbalanced eur, ST1 of 2026-04-01", "statement_late eur, 2026-04-01")
		}
		b.says("whole.xml", []byte(whole))
		b.compare("both, of a negative balance")
		off := strings.Replace(whole, ">100.00</Amt>\n    <CdtDbtInd>DBIT", ">99.00</Amt>\n    <CdtDbtInd>DBIT", 1)
		if off == whole {
			t.Fatal(whole)
		}
		b.says("off.xml", []byte(off))
		b.compare("a closing balance that the entries do not lead to", "statement_sum eur ST1", "bank_total 1020 eur")
	})
}

// What was posted before the period of the first statement is part of its opening balance, also if the period begins at
// midnight of a zone in which UTC has the day before.
func TestTheFirstOpeningBalanceHasEarlierPostings(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		clock.Set(time.Date(2026, time.March, 31, 10, 0, 0, 0, time.UTC))
		b.write(func(ctx context.Context, tx *db.Tx) error {
			_, err := treasury.Deposit(ctx, tx, treasury.Booking{Place: treasury.Place{Kind: treasury.PlaceBank, Name: "eur"},
				Reference: "own"}, eur(50_00))
			return err
		})
		clock.Set(time.Date(2026, time.April, 1, 20, 0, 0, 0, time.UTC))
		b.number, b.balance = 1, 50_00
		for zone, hour := range map[string]int{"Europe/Berlin": 22, "UTC": 24, "America/New_York": 28,
			"Pacific/Auckland": 11} {
			from := time.Date(2026, time.March, 31, hour, 0, 0, 0, time.UTC)
			var out bytes.Buffer
			w := testkit.Must(iso20022.WriteStatement(&out, iso20022.Statement{File: "ST1", ID: "ST1", Created: clock.Now(),
				From: from, To: from.AddDate(0, 0, 1), Account: iban, Balances: []iso20022.Balance{
					{Type: "OPBD", Amount: eur(50_00), Day: clock.Now().AddDate(0, 0, -1)},
					{Type: "CLBD", Amount: eur(50_00), Day: clock.Now()}}}))
			testkit.Check(t, w.Close())
			b.says(strings.ReplaceAll(zone, "/", "-")+".xml", out.Bytes())
			b.compare(zone)
		}
	})
}

// The pages of a statement have one ID and number. Each page opens with the balance with which the one before closes.
func TestAStatementWithPagesIsOneStatement(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		b.number = 1
		page := func(n int, last bool, opened int64, kinds ...string) []byte {
			b.balance = opened + 5_00
			text := string(b.statement(opened, []iso20022.Entry{credit(5_00, fmt.Sprint("page ", n))}))
			text = strings.Replace(text, "<Id>ST1</Id>", fmt.Sprintf("<Id>ST1</Id><StmtPgntn><PgNb>%d</PgNb>"+
				"<LastPgInd>%t</LastPgInd></StmtPgntn>", n, last), 1)
			for i, kind := range []string{"OPBD", "CLBD"} {
				text = strings.Replace(text, "<Cd>"+kind+"<", "<Cd>"+kinds[i]+"<", 1)
			}
			return []byte(text)
		}
		first, second, third := page(1, false, 0, "OPBD", "ITBD"), page(2, false, 5_00, "ITBD", "ITBD"),
			page(3, true, 10_00, "ITBD", "CLBD")
		b.says("third.xml", third)
		b.says("first.xml", first)
		b.compare("a page is missing", "bank_total 1020 eur",
			"statement_missing eur, between ST1 page 0001 of 2026-01-15 and ST1 page 0003 of 2026-01-15")
		b.says("second.xml", second)
		b.says("second-again.xml", append(second, '\n'))
		b.compare("all pages")
	})
}

// fileIDs returns the IDs of all payment files.
func fileIDs(t *testing.T, d *db.DB) (ids []string) {
	t.Helper()
	dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
		files, err := bank.List(ctx, tx, false, 10)
		for _, f := range files {
			ids = append(ids, f.ID)
		}
		return err
	})
	return ids
}

// Account fees and interest are posted once, from the statement, as the operator's cost and income. The posting is
// reversed if the bank refunds a fee or takes interest back.
func TestFeesAndInterestArePostedOnce(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		entry := func(code string, units int64, credit bool) iso20022.Entry {
			return iso20022.Entry{Reference: code, Amount: eur(units), Credit: credit, Info: "March",
				Type: iso20022.Type{Domain: "ACMT", Family: "MDOP", SubFamily: code}}
		}
		reversed := entry("INTR", 40, false)
		reversed.Reversal = true
		fees := []iso20022.Entry{entry("CHRG", 5_00, false), entry("CHRG", 5_00, false), entry("COMM", 2_00, false),
			entry("FEES", 1_00, true), entry("INTR", 3_40, true), entry("INTR", 70, false), reversed}
		opened := b.balance
		b.closes(fees...)
		b.compare("fees and interest")
		clock.Advance(-24 * time.Hour)
		b.says("again.xml", b.statement(opened, fees)) // another file with the same statement
		b.says("resent.xml", bytes.ReplaceAll(b.statement(opened, fees), []byte("ST1"), []byte("ST1B")))
		b.compare("the statement again, with another ID", "statement_duplicate eur, ST1 and ST1B of 2026-01-15")
		b.number++
		b.says("next.xml", b.statement(opened, fees))
		clock.Advance(24 * time.Hour)
		b.compare("and with the next number", "statement_duplicate eur, ST1 and ST1B of 2026-01-15",
			"statement_duplicate eur, ST1B and ST2 of 2026-01-15")
		for code, want := range map[ledger.Code]int64{ledger.BankFee: 11_00, ledger.InterestIncome: -3_00,
			ledger.InterestExpense: 70, ledger.Bank: -8_70} {
			b.write(func(ctx context.Context, tx *db.Tx) error {
				got, err := ledger.Balance(ctx, tx, ledger.Operator, code, "eur", money.EUR)
				if got != eur(want) && got != eur(-want) {
					t.Errorf("account %s: %s, want %d cents", code, got, want)
				}
				return err
			})
		}
	})
}

// The Lightning node must have at least the balance of account 1001. A higher balance of the node is not a
// difference.
func TestTheChannelsAndTheBooksAreCompared(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		node := lightningtest.Start(t)
		client, err := lightning.NewClient(node.Options())
		testkit.Check(t, err)
		request, err := client.AddInvoice(t.Context(), lightning.NewInvoice{
			Preimage: [32]byte{7}, Amount: 5_000, Memo: "Order 7", Expiry: time.Hour,
		})
		if err == nil {
			err = node.Pay(t.Context(), request)
		}
		testkit.Check(t, err)
		compare := func() Report {
			r, err := Reconcile(t.Context(), d, Sources{Chain: "bitcoin", Channels: client})
			testkit.Check(t, err)
			return r
		}
		sats := money.New(money.BTC, 5_000)
		dbtest.Write(t, d, func(ctx context.Context, tx *db.Tx) error {
			return ledger.Post(tx, ledger.Journal{CompanyID: "com_1", SourceType: "test", SourceID: "1", Purpose: "paid",
				Lines: []ledger.Line{
					ledger.Debit(ledger.ChannelBalance, "", sats), ledger.Credit(ledger.CompanyFunds, "", sats)}})
		})
		if r := compare(); !r.Clean() || len(r.NotCompared) != 0 {
			t.Errorf("%+v", r)
		}
		node.RemoveFunds(1)
		if r := compare(); len(r.Differences) != 1 || r.Differences[0] != (Difference{
			ChannelTotal, "1001", "0.00005000 BTC", "0.00004999 BTC",
		}) {
			t.Errorf("%+v", r)
		}
		node.Lock()
		if r := compare(); !r.Clean() || len(r.NotCompared) != 1 || !strings.Contains(r.NotCompared[0],
			"0.00005000 BTC; the node does not report") {
			t.Errorf("%+v", r)
		}
	})
}

// Older postings use the number of a bank account as dimension, newer ones its ID. Reconciliation adds both. It lists
// a dimension of an unknown account as not compared.
func TestOlderPlacesAreTheAccounts(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		b := openBranch(t, d, clock)
		listed := b.accounts
		b.accounts = nil
		message := func() {
			b.number, b.balance = b.number+1, b.balance+5_00
			if _, err := bankreceipt.Import(t.Context(), d, bytes.NewReader(b.statement(b.balance-5_00,
				[]iso20022.Entry{credit(5_00, fmt.Sprint(b.number))})), b.accounts); err != nil {
				t.Fatal(err)
			}
			b.clock.Advance(24 * time.Hour)
		}
		message()
		b.compare("an account of no list")
		b.accounts = listed
		message()
		b.compare("the same account, listed")
		b.write(func(ctx context.Context, tx *db.Tx) error {
			places, err := ledger.ByDimension(ctx, tx, ledger.Bank)
			if len(places) != 2 || places[0].Dim != iban || places[1].Dim != "eur" {
				t.Errorf("%+v", places)
			}
			_, _ = treasury.Deposit(ctx, tx, treasury.Booking{
				Place: treasury.Place{Kind: treasury.PlaceBank, Name: "elsewhere"}, Reference: "1",
			}, eur(1_00))
			return err
		})
		if r := b.compare("another bank"); len(r.NotCompared) != 1 || !strings.Contains(r.NotCompared[0],
			"elsewhere: 1.00 EUR") {
			t.Errorf("%q", r.NotCompared)
		}
	})
}
