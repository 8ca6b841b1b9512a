package bankreceipt

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/testkit/allow"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook"
)

const pooled = "DE89370400440532013000" // the operator's account

// fixture has a company with a user who has a funding account in euros and a payer named Müller & Söhne GmbH. It
// writes messages as a bank does.
type fixture struct {
	*testing.T
	d       *db.DB
	sealer  *identity.Sealer
	by      identity.Principal
	user    string
	number  string // number of the user's funding account
	payer   string
	message int
}

func run(t *testing.T, f func(b *fixture)) {
	t.Helper()
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		sealer, err := identity.NewSealer(bytes.Repeat([]byte{7}, 32))
		testkit.Check(t, err)
		b := &fixture{T: t, d: d, sealer: sealer}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			c, err := identity.CreateCompany(ctx, tx, identity.NewCompany{Name: "Acme", Country: "DE"})
			if err != nil {
				return err
			}
			b.by = identity.Principal{Kind: identity.KindAPIKey, ID: "key_1", CompanyID: c.ID, Scopes: identity.AllScopes()}
			u, err := identity.CreateUser(ctx, tx, sealer, identity.NewUser{CompanyID: c.ID, Profile: identity.Profile{
				Email: "ada@example.com", FirstName: "Ada", LastName: "Lovelace", Country: "DE"}})
			if err != nil {
				return err
			}
			b.user = u.ID
			return identity.SetKYCStatus(ctx, tx, u.ID, identity.KYCApproved)
		})
		b.write(func(ctx context.Context, tx *db.Tx) error {
			s := virtualaccount.Service{Bank: virtualaccount.Sandbox{}, Sealer: sealer}
			a, err := s.Open(ctx, tx, b.by, b.user, "EUR", virtualaccount.TermsVersion)
			b.number, b.payer = a.IBAN, tx.NewID("pyr")
			if err != nil {
				return err
			}
			_, err = payer.Ensure(ctx, tx, payer.Payer{OwnerID: b.user, ID: b.payer, Name: "Müller & Söhne GmbH",
				Currency: money.EUR, Type: "client", Status: "active"})
			return err
		})
		if b.number == "" {
			t.Fatal("the user has no account")
		}
		f(b)
		b.read(func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			if len(report.Problems) > 0 {
				t.Errorf("ledger: %v", report.Problems)
			}
			return err
		})
	})
}

func (b *fixture) write(f func(context.Context, *db.Tx) error) {
	b.Helper()
	dbtest.Write(b, b.d, f)
}

func (b *fixture) read(f func(context.Context, *db.Tx) error) {
	b.Helper()
	dbtest.Read(b, b.d, f)
}

// createInvoice creates an invoice of the user to the payer.
func (b *fixture) createInvoice(number, amount string) (id string) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		v, err := invoice.Create(ctx, tx, b.sealer, b.by,
			invoice.CreateParams{UserID: b.user, PayerID: b.payer, Number: number,
				Items: []invoice.Item{{Description: "work", Quantity: "1", UnitPrice: amount, TaxRate: "0"}}})
		id = v.ID
		return err
	})
	return id
}

// credit has the fields of an entry or of one of its details.
type credit struct {
	amount, currency string // "" is EUR
	debit, reversal  bool
	to               string // number of the funding account
	from             string
	words            string
	servicer         string
	reference        string // of the entry
	parts            []credit
	day              string
}

func text(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder returns no error
	return b.String()
}

func (c credit) details() string {
	cur := c.currency
	if cur == "" {
		cur = "EUR"
	}
	return fmt.Sprintf(`<TxDtls><Refs><AcctSvcrRef>%s</AcctSvcrRef><EndToEndId>NOTPROVIDED</EndToEndId></Refs>
		<Amt Ccy="%s">%s</Amt>
		<RltdPties><Dbtr><Pty><Nm>%s</Nm></Pty></Dbtr><DbtrAcct><Id><IBAN>FR7630006000011234567890189</IBAN></Id></DbtrAcct>
		<CdtrAcct><Id><IBAN>%s</IBAN></Id></CdtrAcct></RltdPties><RmtInf><Ustrd>%s</Ustrd></RmtInf></TxDtls>`,
		text(c.servicer), cur, c.amount, text(c.from), c.to, text(c.words))
}

func (c credit) entry() string {
	cur, day := c.currency, c.day
	if cur == "" {
		cur = "EUR"
	}
	if day == "" {
		day = "2026-03-02"
	}
	side := "CRDT"
	if c.debit {
		side = "DBIT"
	}
	details := c.details()
	if c.parts != nil {
		details = ""
		for _, p := range c.parts {
			details += p.details()
		}
	}
	ref := ""
	if c.reference != "" {
		ref = "<NtryRef>" + c.reference + "</NtryRef>"
	}
	return fmt.Sprintf(`<Ntry>%s<Amt Ccy="%s">%s</Amt><CdtDbtInd>%s</CdtDbtInd><RvslInd>%v</RvslInd>
		<Sts><Cd>BOOK</Cd></Sts><BookgDt><Dt>%s</Dt></BookgDt>
		<AcctSvcrRef>%s</AcctSvcrRef><NtryDtls>%s</NtryDtls></Ntry>`,
		ref, cur, c.amount, side, c.reversal, day, text(c.servicer), details)
}

// mustImport imports a camt.053 or camt.054 message with some credits.
func (b *fixture) mustImport(kind string, credits ...credit) Summary {
	b.Helper()
	s, err := b.importMessage(kind, credits...)
	testkit.Check(b, err)
	return s
}

func (b *fixture) importMessage(kind string, credits ...credit) (Summary, error) {
	return Import(b.Context(), b.d, strings.NewReader(b.camt(kind, credits...)), nil)
}

func (b *fixture) camt(kind string, credits ...credit) string {
	b.message++
	var entries strings.Builder
	for _, c := range credits {
		entries.WriteString(c.entry())
	}
	root, part := "BkToCstmrStmt", "Stmt"
	if kind == "054" {
		root, part = "BkToCstmrDbtCdtNtfctn", "Ntfctn"
	}
	return fmt.Sprintf(`<Document><%[1]s><GrpHdr><MsgId>%[3]d</MsgId><CreDtTm>2026-03-02T10:00:00Z</CreDtTm></GrpHdr>
		<%[2]s><Id>%[3]d</Id><CreDtTm>2026-03-02T10:00:00Z</CreDtTm>
		<Acct><Id><IBAN>%[4]s</IBAN></Id></Acct>%[5]s</%[2]s></%[1]s></Document>`,
		root, part, b.message, pooled, entries.String())
}

// problem checks that an import reported one problem, whose text contains want.
func (b *fixture) problem(what string, s Summary, want string) {
	b.Helper()
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], want) {
		b.Errorf("%s: %q, want %q", what, s.Problems, want)
	}
}

func (b *fixture) want(what string, got, want any) {
	b.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("%s: %v, want %v", what, got, want)
	}
}

// balance returns the balance of an owner, in cents.
func (b *fixture) balance(owner string) int64 {
	return b.account(owner, ledger.CompanyFunds, "", money.EUR)
}

func (b *fixture) account(owner string, c ledger.Code, dim string, a money.Asset) (units int64) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) error {
		x, err := ledger.Balance(ctx, tx, owner, c, dim, a)
		units = x.Units()
		return err
	})
	return units
}

func (b *fixture) invoice(id string) (status invoice.Status, paid string) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) error {
		found, err := invoice.Named(ctx, tx, []string{id})
		status, paid = found[id].Status, found[id].Paid.String()
		return err
	})
	return status, paid
}

func (b *fixture) all() (all []Transfer) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) (err error) {
		all, err = List(ctx, tx, true, 100)
		return err
	})
	return all
}

func TestACreditOnAFundingAccountBelongsToItsOwner(t *testing.T) {
	run(t, func(b *fixture) {
		id := b.createInvoice("2026-0042", "100.00")
		c := credit{amount: "100.00", to: b.number, from: "Mueller", words: "Rechnung 2026-0042, danke", servicer: "S1"}
		b.want("the first time", b.mustImport("054", c), Summary{Credited: 1})
		b.want("in the statement", b.mustImport("053", c), Summary{Known: 1})
		b.want("once more", b.mustImport("053", c), Summary{Known: 1})
		b.want("the balance", b.balance(b.user), 100_00)
		status, paid := b.invoice(id)
		b.want("the invoice", fmt.Sprint(status, paid), "paid100.00")
		got := b.all()[0]
		b.want("the transfer", fmt.Sprint(got.State, got.Reason, got.InvoiceID == id, got.PayerID == b.payer,
			got.DebtorAccount), "creditedaccounttrue true…0189")
	})
}

// Credits without references are identified by content: equal credits in one message are different ones, those in
// another message are the same.
func TestCreditsWithoutReferencesAreBookedOnce(t *testing.T) {
	run(t, func(b *fixture) {
		c := credit{amount: "5.00", to: b.number, from: "Eve", words: "fee"}
		b.want("announced one by one", fmt.Sprint(b.mustImport("054", c), b.mustImport("054", c)),
			fmt.Sprint(Summary{Credited: 1}, Summary{Known: 1}))
		b.want("two in the statement", b.mustImport("053", c, c), Summary{Credited: 1, Known: 1})
		b.want("again", b.mustImport("053", c, c), Summary{Known: 2})
		next := c
		next.day = "2026-04-02"
		b.want("the next month", b.mustImport("053", next), Summary{Credited: 1})
		named := c
		named.servicer = "S9"
		b.want("one of them named later", b.mustImport("053", named), Summary{Known: 1})
		other := c
		other.servicer = "S10"
		b.want("each of them named", b.mustImport("053", named, other), Summary{Known: 2})
		mixed := c
		b.want("one that is named after one that is not", b.mustImport("054", mixed, named, other),
			Summary{Credited: 1, Known: 2})
		third := c
		third.servicer = "S11"
		b.want("and another", b.mustImport("053", named, other, third), Summary{Known: 3})
		b.want("the balance", b.balance(b.user), 20_00)
	})
}

// A notification and a statement may give one credit without references different dates. With equal content it is
// booked once; if the content only does not contradict, it waits for staff. If the content contradicts, or both
// messages are of one kind, it is another credit.
func TestACreditWithTwoDatesIsBookedOnce(t *testing.T) {
	run(t, func(b *fixture) {
		c := credit{amount: "5.00", to: b.number, from: "Eve", words: "fee", day: "2026-03-02"}
		later := c
		later.day = "2026-03-04"
		b.want("announced", b.mustImport("054", c), Summary{Credited: 1})
		b.want("booked two days later", b.mustImport("053", later), Summary{Known: 1})
		b.want("another of the same, by a statement", b.mustImport("053", later), Summary{Credited: 1})
		b.want("which is announced late", b.mustImport("054", later), Summary{Known: 1})
		far := c
		far.day = "2026-03-12"
		b.want("a week later", b.mustImport("053", far), Summary{Credited: 1})
		b.want("the balance", b.balance(b.user), 15_00)

		silent := credit{amount: "7.00", to: b.number, day: "2026-03-02"}
		worded := credit{amount: "7.00", to: b.number, from: "Eve", words: "rent", day: "2026-03-03"}
		b.want("announced without a text", b.mustImport("054", silent), Summary{Credited: 1})
		b.want("booked with a text", b.mustImport("053", worded), Summary{Suspense: 1})
		b.want("once more", b.mustImport("053", worded), Summary{Known: 1})
		b.want("of another payer", b.mustImport("054",
			credit{amount: "7.00", to: b.number, from: "Mallory", words: "gift", day: "2026-03-20"}), Summary{Credited: 1})
		b.want("with another text", b.mustImport("053",
			credit{amount: "7.00", to: b.number, from: "Trent", words: "loan", day: "2026-03-20"}), Summary{Credited: 1})
		b.want("the balance", b.balance(b.user), 36_00)
		named := credit{amount: "9.00", to: b.number, from: "Eve", words: "fee", day: "2026-03-02", servicer: "S1"}
		second := named
		second.day, second.servicer = "2026-03-03", "S2"
		b.want("two with references", fmt.Sprint(b.mustImport("054", named), b.mustImport("053", second)),
			fmt.Sprint(Summary{Credited: 1}, Summary{Credited: 1}))
	})
}

func TestPartialPaymentsOfAnInvoiceAddUp(t *testing.T) {
	run(t, func(b *fixture) {
		id := b.createInvoice("2026-0001", "100.00")
		status := func() string {
			s, paid := b.invoice(id)
			return fmt.Sprint(s, " ", paid)
		}
		b.mustImport("053", credit{amount: "40.00", to: b.number, words: "2026-0001", servicer: "1"})
		b.want("a part", status(), "partially_paid 40.00")
		b.mustImport("053", credit{amount: "70.00", to: b.number, words: strings.ToUpper(strings.ReplaceAll(id, "_", " ")),
			servicer: "2"})
		b.want("more than the rest, by its ID as banks write it", status(), "paid 100.00")
		b.want("the balance has all of it", b.balance(b.user), 110_00)

		back := credit{amount: "70.00", debit: true, reversal: true, to: b.number, servicer: "2"}
		b.want("taken back", b.mustImport("053", back), Summary{Returned: 1})
		b.want("taken back again", b.mustImport("053", back), Summary{Known: 1})
		b.want("a part again", status(), "partially_paid 40.00")
		b.want("the balance", b.balance(b.user), 40_00)
	})
}

func TestNameAndAmountIdentifyTheInvoice(t *testing.T) {
	run(t, func(b *fixture) {
		first, second, third := b.createInvoice("A-1", "10.00"), b.createInvoice("A-2", "20.00"),
			b.createInvoice("A-3", "30.00")
		fourth := b.createInvoice("A-4", "30.00")
		pay := func(amount, from, words string) {
			b.message += 100
			b.mustImport("053", credit{amount: amount, to: b.number, from: from, words: words, servicer: fmt.Sprint(b.message)})
		}
		pay("20.00", "MULLER & SOHNE GMBH", "thanks")
		pay("10.00", "Another Person", "thanks")
		pay("30.00", "Müller & Söhne GmbH", "either of two")
		pay("30.00", "", "A-3 A-4")
		for id, want := range map[string]invoice.Status{first: invoice.Sent, second: invoice.Paid, third: invoice.Sent,
			fourth: invoice.Sent} {
			status, _ := b.invoice(id)
			b.want(id, status, want)
		}
		b.want("the balance", b.balance(b.user), 90_00)
	})
}

func TestCreditsWithoutAnOwnerWaitInSuspense(t *testing.T) {
	run(t, func(b *fixture) {
		words := strings.ReplaceAll(b.by.CompanyID, "_", "")
		id := b.createInvoice("7", "50.00")
		other := strings.ReplaceAll(id, "_", "")
		for _, c := range []struct {
			credit
			reason, owner string
		}{
			{credit{amount: "1.00", words: "hello"}, ReasonUnknown, ""},
			{credit{amount: "2.00", words: "for " + words + " please"}, ReasonReference, b.by.CompanyID},
			{credit{amount: "3.00", words: words + " and " + other}, ReasonAmbiguous, ""},
			{credit{amount: "4.00", words: "com" + strings.Repeat("0", 26)}, ReasonUnknown, ""},
			{credit{amount: "5.00", currency: "USD", to: b.number}, ReasonCurrency, ""},
			{credit{amount: "6.00", parts: []credit{{amount: "1.00", to: b.number}, {amount: "4.99", to: b.number}}},
				ReasonParts, ""},
			{credit{amount: "50.00", words: other}, ReasonReference, b.user},
		} {
			c.servicer = c.amount
			b.mustImport("053", c.credit)
			got := b.all()[0]
			b.want(c.amount+" "+c.words, fmt.Sprint(got.Reason, " ", got.OwnerID), c.reason+" "+c.owner)
			if got.State == Suspense {
				b.want("in suspense", b.account(ledger.Operator, ledger.SuspenseUnknown, got.ID, got.Amount.Asset()),
					got.Amount.Units())
			}
		}
		b.want("the company's", b.balance(b.by.CompanyID), 2_00)
		b.want("the user's", b.balance(b.user), 50_00)
		status, _ := b.invoice(id)
		b.want("the invoice that was named", status, invoice.Paid)
		b.want("an entry with two details", b.mustImport("053", credit{amount: "9.00", parts: []credit{
			{amount: "4.00", to: b.number, servicer: "P1"}, {amount: "5.00", words: "?", servicer: "P2"}}}),
			Summary{Credited: 1, Suspense: 1})
		b.want("debits and returned payments", b.mustImport("053", credit{amount: "9.00", debit: true, servicer: "D1"},
			credit{amount: "9.00", reversal: true, servicer: "D2"}, credit{amount: "8.00", servicer: "D3", debit: true},
			credit{amount: "7.00", reversal: true, words: "S0000012P00003 came back", servicer: "D4"}), Summary{Others: 4})
		b.want("a credit that mentions a payment of ours",
			b.mustImport("053", credit{amount: "7.00", to: b.number, words: "S0000012P00003 came back",
				servicer: "D5"}), Summary{Credited: 1})
	})
}

// The vendor of a bill has no balance, so neither the payer's text nor staff can credit the vendor, and the bill stays
// owed.
func TestACreditThatNamesABillWaitsInSuspense(t *testing.T) {
	run(t, func(b *fixture) {
		var bill string
		b.write(func(ctx context.Context, tx *db.Tx) error {
			v, err := invoice.CreateBill(ctx, tx, b.sealer, invoice.BillParams{CompanyID: b.by.CompanyID, Number: "R-17",
				VendorID: tx.NewID("rec"), AmountText: "80.00", Currency: "EUR", Description: "Paper"}, &apierr.List{})
			bill = v.ID
			return err
		})
		b.want("the import", b.mustImport("053", credit{amount: "80.00", words: bill, servicer: "x"}), Summary{Suspense: 1})
		got := b.all()[0]
		b.want("the transfer", fmt.Sprint(got.Reason, " ", got.OwnerID), ReasonUnknown+" ")
		assign := func(to string) error {
			return b.d.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := Assign(ctx, tx, got.ID, to)
				return err
			})
		}
		if err := assign(bill); !errors.Is(err, errBill) {
			b.Errorf("the transfer is credited to the bill: %v", err)
		}
		b.write(func(ctx context.Context, tx *db.Tx) error {
			found, err := invoice.Named(ctx, tx, []string{bill})
			if err != nil {
				return err
			}
			vendor := found[bill].UserID
			open, err := invoice.Open(ctx, tx, vendor, money.EUR)
			b.want("open invoices of the vendor", len(open), 0)
			if _, err := invoice.Receive(ctx, tx, vendor, bill, got.Amount); !errors.Is(err, invoice.ErrState) {
				b.Errorf("the bill receives a transfer: %v", err)
			}
			x := Transfer{ID: got.ID, OwnerID: vendor, Amount: got.Amount}
			if err := x.credit(ctx, tx); err == nil {
				b.Error("the transfer is credited to a vendor")
			}
			return err
		})
		status, paid := b.invoice(bill)
		b.want("the bill", fmt.Sprint(status, " ", paid), "sent 0.00")
		testkit.Check(b, assign(b.by.CompanyID))
		b.want("the company's", b.balance(b.by.CompanyID), 80_00)
	})
}

func TestStaffDecideAboutTransfersInSuspense(t *testing.T) {
	run(t, func(b *fixture) {
		id := b.createInvoice("7", "10.00")
		waiting := func(ref, amount string) string {
			b.mustImport("053", credit{amount: amount, words: ref, servicer: ref})
			return b.all()[0].ID
		}
		try := func(f func(context.Context, *db.Tx) (Transfer, error)) error {
			return b.d.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
				_, err := f(ctx, tx)
				return err
			})
		}
		run := b.payroll("95.00")
		first, second, third := waiting("x", "10.00"), waiting("y", "20.00"), waiting("z", "30.00")
		fourth, fifth := waiting("u", "40.00"), waiting("v", "50.00")
		for _, c := range []struct {
			id, to string
			want   error
		}{
			{"trf_none", b.user, ErrNotFound},
			{first, "com_none", errOwner},
			{first, "usr_none", errOwner},
			{first, "pyr_none", errOwner},
			{first, "prl_none", errOwner},
			{first, "inv_none", errInvoice},
			{first, "", errOwner},
			{first, id, nil},
			{first, b.user, ErrState},
			{third, ledger.Operator, nil},
			{fourth, b.payer, nil},
			{fifth, run, nil},
		} {
			err := try(func(ctx context.Context, tx *db.Tx) (Transfer, error) { return Assign(ctx, tx, c.id, c.to) })
			if !errors.Is(err, c.want) {
				b.Errorf("%s to %s: %v, want %v", c.id, c.to, err, c.want)
			}
		}
		status, _ := b.invoice(id)
		b.want("the invoice", status, invoice.Paid)
		b.want("the balance", b.balance(b.user), 50_00)
		b.want("for the payroll", b.funding(run), "50.00 confirmed")
		if err := try(func(ctx context.Context, tx *db.Tx) (Transfer,
			error) {
			return SendBack(ctx, tx, second)
		}); err != nil {
			b.Error(err)
		}
		b.want("the statement shows that", b.mustImport("053",
			credit{amount: "20.00", debit: true, reversal: true, servicer: "y"}), Summary{Known: 1})
		b.want("at the bank", b.account(ledger.Operator, ledger.SuspenseUnknown, first, money.EUR)+b.account(ledger.Operator,
			ledger.SuspenseUnknown, second, money.EUR), 0)
		b.read(func(ctx context.Context, tx *db.Tx) error {
			own, err := ledger.OperatorBalances(ctx, tx, money.EUR)
			b.want("the operator's own funds", own[money.EUR], "30.00")
			waiting, err2 := List(ctx, tx, false, 10)
			b.want("in suspense", len(waiting), 0)
			return errors.Join(err, err2)
		})
	})
}

// A transfer becomes a deposit of a payroll that is funded by bank transfer if it mentions the payroll or has exactly
// the expected amount. The bank can reverse it. A transfer that mentions any other payroll is added to the company's
// balance.
func TestATransferFundsAPayroll(t *testing.T) {
	run(t, func(b *fixture) {
		first, second := b.payroll("100.00"), b.payroll("200.00")
		own := b.companyAccount()
		named := credit{amount: "90.00", words: "wages " + strings.ToUpper(strings.ReplaceAll(first, "_", "")),
			servicer: "1"}
		b.want("named", b.mustImport("054", named), Summary{Credited: 1})
		b.want("reported again", b.mustImport("053", named), Summary{Known: 1})
		b.mustImport("053", credit{amount: "200.00", to: own, servicer: "2"})
		b.want("deposits", b.funding(first)+", "+b.funding(second), "90.00 confirmed, 200.00 confirmed")
		b.mustImport("053", credit{amount: "200.01", to: own, servicer: "3"})
		b.want("another amount", b.balance(b.by.CompanyID), 200_01)
		b.payroll("100.00")
		b.mustImport("053", credit{amount: "100.00", to: own, servicer: "4"})
		b.want("the amount of two payrolls", b.balance(b.by.CompanyID), 300_01)
		b.want("taken back", b.mustImport("053", credit{amount: "90.00", debit: true, reversal: true, servicer: "1"}),
			Summary{Returned: 1})
		b.want("deposit", b.funding(first), "90.00 evicted")
		b.want("the balance", b.balance(b.by.CompanyID), 300_01)
		fromBalance := b.payrollFunded(payroll.MethodWallet, "50.00")
		b.mustImport("053", credit{amount: "1.00", words: fromBalance, servicer: "5"})
		b.want("for a payroll funded otherwise", b.balance(b.by.CompanyID), 251_01)
	})
}

// payroll creates a payroll of the company that waits for a transfer.
func (b *fixture) payroll(total string) (id string) {
	return b.payrollFunded(payroll.MethodBank, total)
}

func (b *fixture) payrollFunded(method, total string) (id string) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		funds, err := treasury.New(treasury.Unlimited)
		if err != nil {
			return err
		}
		pay, err := payroll.New(payroll.Config{
			Pool: chain.NewPool(b.d, "regtest", nil), ChainName: "regtest", Network: "regtest", QuoteValidity: time.Minute,
			Banks: []bank.Account{{Currency: money.EUR, Number: pooled}}, Treasury: funds,
			AllowUnverified: true, Sealer: b.sealer,
		}, payroll.Guards{TravelRule: allow.Records[payout.Output],
			CheckWatched: allow.Network, Screen: allow.Subjects[destination.ScreeningSubject],
			ReleasePlanned: allow.Release, ReleaseApproved: allow.Release, PayeesApproved: allow.Payees})
		if err != nil {
			return err
		}
		r, err := payee.Create(ctx, tx, b.sealer, b.by,
			payee.CreateParams{Profile: identity.Profile{FirstName: "Ada", LastName: "Example", Country: "DE"}})
		if err != nil {
			return err
		}
		if _, err := destination.Create(ctx, tx, destination.Setup{Sealer: b.sealer}, b.by, destination.CreateParams{
			OwnerID: r.ID, Symbol: "EUR",
			Data: []byte(`{"account_holder_name":"Ada Example","account_holder_type":"individual","iban":"` + pooled + `"}`),
		}); err != nil {
			return err
		}
		p, err := pay.Create(ctx, tx, b.by, payroll.CreateParams{Currency: "EUR", FundingMethod: method,
			ToPay: []payroll.Payee{{AmountText: total, UserID: r.ID}}})
		id = p.ID
		return err
	})
	return id
}

// funding returns the deposits of a payroll.
func (b *fixture) funding(id string) (text string) {
	b.Helper()
	b.read(func(ctx context.Context, tx *db.Tx) error {
		all, err := deposit.ForObject(ctx, tx, b.by.CompanyID, id)
		for _, d := range all {
			text += d.Amount.String() + " " + string(d.State)
		}
		return err
	})
	return text
}

// companyAccount opens a funding account for the company and returns its number.
func (b *fixture) companyAccount() (number string) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) error {
		if err := identity.SetKYBStatus(ctx, tx, b.by.CompanyID, identity.KYCApproved); err != nil {
			return err
		}
		s := virtualaccount.Service{Bank: virtualaccount.Sandbox{}, Sealer: b.sealer}
		a, err := s.Open(ctx, tx, b.by, "", "EUR", virtualaccount.TermsVersion)
		number = a.IBAN
		return err
	})
	return number
}

// If the owner has spent a credit when the bank takes it back, the owner owes the rest.
func TestAReversedCreditThatWasSpentIsOwed(t *testing.T) {
	run(t, func(b *fixture) {
		b.mustImport("053", credit{amount: "10.00", to: b.number, words: "gift", servicer: "1"})
		b.write(func(_ context.Context, tx *db.Tx) error {
			x := money.New(money.EUR, 7_00)
			return ledger.Post(tx, ledger.Journal{CompanyID: b.user, SourceType: "test", SourceID: "1", Purpose: "spend",
				Lines: []ledger.Line{ledger.Debit(ledger.CompanyFunds, "", x), ledger.Credit(ledger.Escrow, "prl_1", x)}})
		})
		b.want("taken back, identified by its text",
			b.mustImport("053", credit{amount: "10.00", debit: true, reversal: true, words: "gift", servicer: "R1"}),
			Summary{Returned: 1})
		b.want("the balance", b.balance(b.user), 0)
		b.want("owed", b.account(b.user, ledger.DueFromCustomer, "", money.EUR), 7_00)
	})
}

// A credit to a user and its return are each reported once to the packages that follow transfers, however often the
// bank reports them. A credit to a company is not.
func TestTransfersToUsersAreAnnouncedOnce(t *testing.T) {
	run(t, func(b *fixture) {
		id := b.createInvoice("2026-0042", "10.00")
		paid := credit{amount: "10.00", to: b.number, words: "2026-0042", servicer: "1"}
		back := credit{amount: "10.00", debit: true, reversal: true, words: "2026-0042", servicer: "R1"}
		for _, c := range []credit{paid, paid, back, back} {
			b.mustImport("053", c)
		}
		b.mustImport("053", credit{amount: "7.00", to: b.companyAccount(), servicer: "2"})
		b.read(func(ctx context.Context, tx *db.Tx) error {
			rows, err := tx.Query(ctx, "SELECT company_id, payload FROM jobs WHERE kind = $1 ORDER BY payload",
				virtualaccount.JobTransfer)
			all, err := db.Collect(rows, err, func(r *db.Rows) (text string, err error) {
				var owner, payload string
				var d webhook.TransferData
				err = errors.Join(r.Scan(&owner, &payload), json.Unmarshal([]byte(payload), &d))
				return fmt.Sprint(owner == b.user, d.UserID == b.user, d.PreviousStatus, "→", d.Status, d.Amount,
					d.InvoiceID == id), err
			})
			slices.Sort(all)
			b.want("jobs", strings.Join(all, "; "), "true truecredited→returned10.00true; true true→credited10.00true")
			return err
		})
	})
}

// Two programs that import the same message concurrently book each credit once.
func TestConcurrentImportsBookOnce(t *testing.T) {
	url := dbtest.Postgres(t)
	b := &fixture{T: t, d: dbtest.Open(t, db.Options{URL: url})}
	var some []credit
	for i := range 20 {
		some = append(some, credit{amount: "5.00", words: fmt.Sprint("fee ", i)})
	}
	text := b.camt("053", some...)
	var readers sync.WaitGroup
	for _, d := range []*db.DB{b.d, dbtest.Open(t, db.Options{URL: url})} {
		readers.Go(func() {
			if _, err := Import(t.Context(), d, strings.NewReader(text), nil); err != nil {
				t.Error(err)
			}
		})
	}
	readers.Wait()
	b.want("transfers", len(b.all()), len(some))
}

// A problem is reported if the bank reverses another amount than was credited, reverses an unknown credit, or reports
// a credit again with another amount.
func TestAReversalOfAnotherAmountIsAProblem(t *testing.T) {
	run(t, func(b *fixture) {
		b.mustImport("053", credit{amount: "10.00", to: b.number, words: "gift", servicer: "1"})
		b.problem("a part is taken back", b.mustImport("053",
			credit{amount: "4.00", debit: true, reversal: true, servicer: "1"}), "booked with 10.00 EUR")
		b.problem("another currency", b.mustImport("053",
			credit{amount: "10.00", currency: "USD", debit: true, reversal: true, servicer: "1"}), "booked with 10.00 EUR")
		b.problem("an unknown credit", b.mustImport("053",
			credit{amount: "4.00", debit: true, reversal: true, servicer: "2"}), "unknown credit")
		b.problem("reported with another amount",
			b.mustImport("054", credit{amount: "9.00", to: b.number, words: "gift", servicer: "1"}), "booked with 10.00 EUR")
		b.want("the balance", b.balance(b.user), 10_00)
		b.want("all of it is taken back", b.mustImport("053",
			credit{amount: "10.00", debit: true, reversal: true, servicer: "1"}), Summary{Returned: 1})
		b.want("the balance", b.balance(b.user), 0)
	})
}

// An item that fails does not block those after it.
func TestAFailedItemDoesNotBlockOthers(t *testing.T) {
	run(t, func(b *fixture) {
		huge := credit{amount: "92233720368547758.07", to: b.number, servicer: "1"} // an amount above the ledger's limit
		s, err := b.importMessage("053", huge, credit{amount: "5.00", words: "?", servicer: "2"})
		b.want("the one after it", s, Summary{Suspense: 1})
		b.want("it is read again", err != nil && apierr.Passing(err), true)
	})
}

// Each credit is booked once and the ledger balances, however often and in whatever order the bank reports it.
func TestRandomReportsBookEachCreditOnce(t *testing.T) {
	run(t, func(b *fixture) {
		random := rand.New(rand.NewPCG(1, 2))
		var credits []credit
		var sum int64
		for i := range 12 {
			cents := 1 + random.Int64N(100_00)
			sum += cents
			c := credit{amount: money.New(money.EUR, cents).String(), words: fmt.Sprint("note ", random.IntN(3)),
				servicer: fmt.Sprint("S", i)}
			if random.IntN(2) == 0 {
				c.to = b.number
			}
			credits = append(credits, c)
		}
		for range 8 {
			from := random.IntN(len(credits))
			to := from + 1 + random.IntN(len(credits)-from)
			b.mustImport([]string{"053", "054"}[random.IntN(2)], credits[from:to]...)
		}
		random.Shuffle(len(credits), func(i, j int) { credits[i], credits[j] = credits[j], credits[i] })
		b.mustImport("053", credits...)
		b.want("transfers", len(b.all()), len(credits))
		b.read(func(ctx context.Context, tx *db.Tx) error {
			report, err := ledger.Check(ctx, tx)
			for _, l := range report.Trial {
				if l.Code == ledger.Bank {
					b.want("at the bank", l.Debit.Units(), sum)
				}
			}
			return err
		})
	})
}

func TestImportRejectsAccountReports(t *testing.T) {
	run(t, func(b *fixture) {
		_,
			err := Import(b.Context(), b.d,
			strings.NewReader(`<Document><BkToCstmrAcctRpt><Rpt><Id>1</Id><Acct><Id><IBAN>`+pooled+`</IBAN></Id></Acct>`+
				credit{amount: "1.00"}.entry()+`</Rpt></BkToCstmrAcctRpt></Document>`), nil)
		if !errors.Is(err, errMessage) || len(b.all()) != 0 {
			b.Error(err)
		}
	})
}
