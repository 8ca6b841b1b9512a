package mail_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/testkit"
)

// Mails above the limit are dropped, except the newest, which is sent after a day. All companies count together.
func TestMailsPerAddressAndDayAreLimited(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		changed := func(company string, n int) mail.Message {
			return mail.Message{
				CompanyID: company, To: "victim@example.com", Template: mail.DestinationChanged, Key: fmt.Sprintf("rcp_1/%d", n),
				Data: mail.DestinationChangedData{Name: "Ada", Change: mail.Replaced, Destination: fmt.Sprintf("destination %d", n),
					At: expires},
			}
		}
		send := func(m mail.Message) {
			t.Helper()
			clock.Advance(time.Second)
			testkit.Check(t, enqueue(t, d, m))
		}
		for n := range mail.MaxToAddress {
			send(changed([]string{"com_1", "com_2"}[n%2], n))
		}
		testkit.Check(t, drain(d, x))
		for n := range 5 {
			send(changed("com_1", 100+n))
			testkit.Check(t, drain(d, x))
		}
		invited := invitation()
		invited.To = "victim@example.com"
		send(invited) // a mail of another template is counted separately
		other := changed("com_1", 200)
		other.To = "other@example.com"
		send(other)
		testkit.Check(t, drain(d, x))
		if n := len(server.all()); n != mail.MaxToAddress+2 {
			t.Errorf("%d mails were sent within a day", n)
		}
		clock.Advance(24 * time.Hour)
		testkit.Check(t, drain(d, x))
		mails := server.all()
		if len(mails) != mail.MaxToAddress+3 {
			t.Fatalf("%d mails were sent after a day", len(mails))
		}
		if got := parse(t, mails[len(mails)-1].raw); !strings.Contains(got.text, "destination 104") {
			t.Errorf("the postponed mail is not the newest one:\n%s", got.text)
		}
		if due, parked := waiting(t, d); due+parked != 0 {
			t.Errorf("%d jobs are left", due+parked)
		}
		clock.Advance(24 * time.Hour)
		testkit.Check(t, mail.ForgetCounts(t.Context(), d))
		dbtest.Read(t, d, func(ctx context.Context, tx *db.Tx) error {
			var n int
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM mail_counts").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d counters remain: %v", n, err)
			}
			return nil
		})
	})
}

// After ten notices of one kind of change to a company, further notices of that kind to that company are dropped.
// Notices of other kinds and to other companies are sent.
func TestOtherMailsDoNotSuppressASecurityNotice(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		changed := func(company, change string, n int) mail.Message {
			return mail.Message{
				CompanyID: company, To: "owner@example.com", Template: mail.CompanyChanged, Key: fmt.Sprintf("%s/%d", change, n),
				Data: mail.CompanyChangedData{Name: "Ada", Company: "Acme", Change: change, Detail: fmt.Sprintf("%s %d", change, n),
					At: expires},
			}
		}
		var all []mail.Message
		for n := range mail.MaxToAddress + 5 {
			all = append(all, changed("com_1", mail.WebhookAdded, n), changed("com_2", mail.KeyCreated, n))
		}
		testkit.Check(t, enqueue(t, d, append(all, changed("com_1", mail.KeyCreated, 0))...))
		testkit.Check(t, drain(d, x))
		if n := len(server.all()); n != 2*mail.MaxToAddress+1 {
			t.Errorf("%d mails were sent", n)
		}
		if due, parked := waiting(t, d); due+parked != 0 {
			t.Errorf("%d jobs are left", due+parked)
		}
	})
}

func TestMailsOfUnverifiedCompaniesAreLimitedAndHaveNoLinksInNames(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		x.Verified = func(_ context.Context, _ *db.Tx, companyID string) (bool, error) { return companyID == "com_good", nil }
		evil := "Your account is locked: visit https://evil.example/login or www.evil.example now! " +
			strings.Repeat("x", 100)
		var all []mail.Message
		for _, company := range []string{"com_good", "com_new"} {
			for n := range mail.MaxUnverified + 5 {
				all = append(all, mail.Message{
					CompanyID: company, To: fmt.Sprintf("%s-%d@example.com", company, n), Template: mail.MemberInvited,
					Key:  fmt.Sprint(n),
					Data: mail.MemberInvitedData{Company: evil, Role: "viewer", Token: "t", Expires: expires}, Sealer: sealer(),
				})
			}
		}
		testkit.Check(t, enqueue(t, d, all...))
		testkit.Check(t, drain(d, x))
		sent := map[string]int{}
		for _, m := range server.all() {
			company, _, _ := strings.Cut(m.to[0], "-")
			sent[company]++
			if got := parse(t, m.raw); strings.Contains(got.text+got.subject, "evil.example") != (company == "com_good") ||
				strings.Contains(got.text+got.subject, strings.Repeat("x", 60)) != (company == "com_good") {
				t.Fatalf("%s: %s\n%s", company, got.subject, got.text)
			}
		}
		if sent["com_good"] != mail.MaxUnverified+5 || sent["com_new"] != mail.MaxUnverified {
			t.Errorf("%v", sent)
		}
	})
}

// A person's further invoices wait for a day, whichever company they act for, and none of them is dropped. Only a
// verified person of a verified company can have links in names.
func TestMailsOfInvoicesAreLimitedPerPerson(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		server := startServer(t, nil)
		x := mailer(t, "smtp://"+server.addr)
		x.Verified = func(_ context.Context, _ *db.Tx, id string) (bool, error) { return strings.HasSuffix(id, "_good"), nil }
		sent := func(company, person, to string, n int) mail.Message {
			const evil = "https://evil.example/login"
			return mail.Message{
				CompanyID: company, To: to, Template: mail.InvoiceSent, Key: fmt.Sprint(person, n), Sealer: sealer(),
				Data: mail.InvoiceSentData{UserID: person, From: evil, Payer: evil, Number: evil, Amount: "1.00 EUR",
					Due: "2026-03-16", Token: "t"},
			}
		}
		var all []mail.Message
		for n := range mail.MaxInvoices + 2 {
			all = append(all, sent([]string{"", "com_good"}[n%2], "usr_new", fmt.Sprintf("%d@example.com", n), n))
		}
		for n := range mail.MaxToAddress + 2 {
			all = append(all, sent("", fmt.Sprintf("usr_%d", n), "victim@example.com", n))
		}
		all = append(all, sent("com_good", "usr_good", "good@example.com", 0),
			sent("com_new", "usr_good", "new@example.com", 1))
		testkit.Check(t, enqueue(t, d, all...))
		testkit.Check(t, drain(d, x))
		if n := len(server.all()); n != mail.MaxInvoices+mail.MaxToAddress+2 {
			t.Errorf("%d mails were sent within a day", n)
		}
		clock.Advance(24 * time.Hour)
		testkit.Check(t, drain(d, x))
		if n := len(server.all()); n != len(all) {
			t.Errorf("%d of %d mails were sent after a day", n, len(all))
		}
		for _, m := range server.all() {
			got := parse(t, m.raw)
			if strings.Contains(got.text+got.subject, "evil.example") != (m.to[0] == "good@example.com") {
				t.Fatalf("%s: %s\n%s", m.to[0], got.subject, got.text)
			}
		}
	})
}

// Without Verified, all companies are limited like unverified ones.
func TestCompaniesAreUnverifiedByDefault(t *testing.T) {
	d := dbtest.Open(t, db.Options{URL: dbtest.SQLite(t)})
	server := startServer(t, nil)
	x := mailer(t, "smtp://"+server.addr)
	x.Verified = nil
	m := mail.Message{CompanyID: "com_1", To: "ada@example.com", Template: mail.MemberInvited, Key: "1", Sealer: sealer(),
		Data: mail.MemberInvitedData{Company: "evil.example/login", Role: "viewer", Token: "t", Expires: expires}}
	testkit.Check(t, enqueue(t, d, m))
	testkit.Check(t, drain(d, x))
	if mails := server.all(); len(mails) != 1 || strings.Contains(parse(t, mails[0].raw).text, "evil.example") {
		t.Errorf("%q", mails)
	}
}
