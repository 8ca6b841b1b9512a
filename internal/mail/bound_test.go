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
)

// However often something is changed, an address gets a bounded number of mails of it in a day, whoever has them
// written; the newest of the rest goes out when the day is over.
func TestAnAddressGetsFewMailsOfAKindADay(t *testing.T) {
	dbtest.RunClock(t, func(t *testing.T, d *db.DB, clock *dbtest.Clock) {
		office := open(t, nil)
		x := mailer(t, "smtp://"+office.addr)
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
			if err := enqueue(t, d, m); err != nil {
				t.Fatal(err)
			}
		}
		for n := range mail.MaxToAddress {
			send(changed([]string{"com_1", "com_2"}[n%2], n))
		}
		if err := drain(d, x); err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			send(changed("com_1", 100+n))
			if err := drain(d, x); err != nil {
				t.Fatal(err)
			}
		}
		invited := invitation()
		invited.To = "victim@example.com"
		send(invited) // another kind
		other := changed("com_1", 200)
		other.To = "other@example.com"
		send(other)
		if err := drain(d, x); err != nil {
			t.Fatal(err)
		}
		if n := len(office.all()); n != mail.MaxToAddress+2 {
			t.Errorf("%d mails within a day", n)
		}
		clock.Advance(24 * time.Hour)
		if err := drain(d, x); err != nil {
			t.Fatal(err)
		}
		mails := office.all()
		if len(mails) != mail.MaxToAddress+3 {
			t.Fatalf("%d mails when the day is over", len(mails))
		}
		if got := parse(t, mails[len(mails)-1].raw); !strings.Contains(got.text, "destination 104") {
			t.Errorf("the mail that waited does not tell the newest:\n%s", got.text)
		}
		if due, parked := waiting(t, d); due+parked != 0 {
			t.Errorf("%d jobs are left", due+parked)
		}
		clock.Advance(24 * time.Hour)
		if err := mail.Forget(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		if err := d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			var n int
			if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM mail_counts").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d counts are left: %v", n, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// Who has ten warnings that tell the same of a company is warned. Neither those nor another company's keep back one
// that tells something else of it.
func TestNoFloodKeepsAWarningBack(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		office := open(t, nil)
		x := mailer(t, "smtp://"+office.addr)
		changed := func(company, change string, n int) mail.Message {
			return mail.Message{
				CompanyID: company, To: "owner@example.com", Template: mail.CompanyChanged, Key: fmt.Sprintf("%s/%d", change, n),
				Data: mail.CompanyChangedData{Name: "Ada", Company: "Acme", Change: change, What: fmt.Sprintf("%s %d", change, n),
					At: expires},
			}
		}
		var all []mail.Message
		for n := range mail.MaxToAddress + 5 {
			all = append(all, changed("com_1", mail.WebhookAdded, n), changed("com_2", mail.KeyMade, n))
		}
		if err := enqueue(t, d, append(all, changed("com_1", mail.KeyMade, 0))...); err != nil {
			t.Fatal(err)
		}
		if err := drain(d, x); err != nil {
			t.Fatal(err)
		}
		if n := len(office.all()); n != 2*mail.MaxToAddress+1 {
			t.Errorf("%d mails went out", n)
		}
		if due, parked := waiting(t, d); due+parked != 0 {
			t.Errorf("%d jobs are left", due+parked)
		}
	})
}

// A company whose word about itself nobody has checked has few mails sent, and what it calls itself and others is no
// link.
func TestAnUnverifiedCompanyHasFewPlainMailsSent(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		office := open(t, nil)
		x := mailer(t, "smtp://"+office.addr)
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
		if err := enqueue(t, d, all...); err != nil {
			t.Fatal(err)
		}
		if err := drain(d, x); err != nil {
			t.Fatal(err)
		}
		sent := map[string]int{}
		for _, m := range office.all() {
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
