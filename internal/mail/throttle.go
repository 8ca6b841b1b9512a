package mail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// Daily limits of mails that companies and people can cause. Mails about payments are not limited, because payments
// cost money. Mails that people request for themselves are limited where they are requested.
const (
	MaxToAddress  = 10 // of one template to one address, from all companies; the newest further mail waits for a day
	MaxUnverified = 50 // from an unverified company, for all limited templates together
	MaxInvoices   = 50 // for invoices of one person; further mails wait for a day

	day = 24 * time.Hour
)

// limited are the templates with limits.
var limited = []string{Invitation, InvitationRequested, DestinationChanged, MemberInvited, CompanyChanged, InvoiceSent,
	ProposalMade, MemberNotification}

// admission is the result of checking the limits for a mail.
type admission struct {
	unverified bool      // the company, or the person who wrote the invoice, is not verified
	counters   []string  // keys of the counters that were incremented
	wait       time.Time // if not zero, the mail must wait until then
	rejection  string    // if not "", the reason why the mail is never sent
}

const (
	rejectedUnverified = "the unverified company reached its number of mails per day"
	rejectedNewer      = "a newer mail of the same kind follows"
	rejectedRepeated   = "the address reached its number of mails per day about this kind of change"
)

// admit checks the limits for a mail and counts the mail if it may be sent. If the mail is not sent after all, the
// caller must call release.
func (x *Mailer) admit(ctx context.Context, d *db.DB, m row) (a admission, err error) {
	person, err := x.personOf(m)
	if err != nil {
		return a, err
	}
	var newCompany bool
	verify := func(ctx context.Context, tx *db.Tx) (err error) {
		a = admission{}
		if newCompany, err = x.unverified(ctx, tx, m.companyID); err != nil {
			return err
		}
		newPerson, err := x.unverified(ctx, tx, person)
		a.unverified = newCompany || newPerson
		return err
	}
	if !slices.Contains(limited, m.template) {
		return a, d.Read(ctx, verify)
	}
	return a, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := verify(ctx, tx); err != nil {
			return err
		}
		if tx.Now().Sub(m.created) >= day { // the mail was postponed and is now due
			if replaced, err := isReplaced(ctx, tx, m); err != nil || replaced {
				a.rejection = rejectedNewer
				return err
			}
		}
		if newCompany {
			n, _, err := count(ctx, tx, companyCounter(m))
			if err != nil || n > MaxUnverified {
				a.rejection = rejectedUnverified
				return err
			}
			a.counters = append(a.counters, companyCounter(m))
		}
		if person != "" {
			n, since, err := count(ctx, tx, digest("person", person))
			if err != nil {
				return err
			}
			if n > MaxInvoices {
				a.wait = since.Add(day)
				return a.discount(ctx, tx)
			}
			a.counters = append(a.counters, digest("person", person))
		}
		n, since, err := count(ctx, tx, addressCounter(m))
		if err != nil {
			return err
		}
		if n <= MaxToAddress {
			a.counters = append(a.counters, addressCounter(m))
			return nil
		}
		if err := a.discount(ctx, tx); err != nil {
			return err
		}
		if m.template == CompanyChanged {
			a.rejection = rejectedRepeated
			return nil
		}
		a.wait = since.Add(day)
		if replaced, err := isReplaced(ctx, tx, m); err != nil || replaced {
			a.rejection = rejectedNewer
			return err
		}
		return nil
	})
}

// personOf returns the ID of the person who wrote the invoice that a mail concerns, or "".
func (x *Mailer) personOf(m row) (id string, err error) {
	if m.template != InvoiceSent {
		return "", nil
	}
	plain, err := x.open(m)
	if err != nil {
		return "", err
	}
	var about InvoiceSentData
	err = json.Unmarshal(plain, &about)
	return about.UserID, err
}

// unverified reports whether a company or person is not verified. It returns false for "".
func (x *Mailer) unverified(ctx context.Context, tx *db.Tx, id string) (bool, error) {
	if id == "" || x.Verified == nil {
		return id != "", nil
	}
	verified, err := x.Verified(ctx, tx, id)
	return !verified, err
}

// isReplaced reports whether a newer mail makes this mail unnecessary. It returns false for a mail about an invoice,
// because each invoice has its own mail.
func isReplaced(ctx context.Context, tx *db.Tx, m row) (bool, error) {
	if m.template == InvoiceSent {
		return false, nil
	}
	return hasNewer(ctx, tx, m)
}

// discount subtracts a mail from its counters.
func (a *admission) discount(ctx context.Context, tx *db.Tx) error {
	for _, counter := range a.counters {
		if err := discount(ctx, tx, counter); err != nil {
			return err
		}
	}
	return nil
}

// release subtracts a mail that was not sent from its counters.
func (a *admission) release(ctx context.Context, d *db.DB) error {
	if len(a.counters) == 0 {
		return nil
	}
	return d.Write(ctx, a.discount)
}

// postpone enqueues another attempt to send a mail.
func postpone(ctx context.Context, d *db.DB, m row, until time.Time) error {
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		job.Enqueue(tx, job.New{CompanyID: m.companyID, Kind: JobSend, Payload: sendPayload{m.id}, RunAt: until})
		return nil
	})
}

// addressCounter returns the key of the counter of mails with a template to an address. For CompanyChanged the key
// includes the company and the kind of change, so that other mails cannot suppress a security notice.
func addressCounter(m row) string {
	to := strings.ToLower(m.to)
	if m.template != CompanyChanged {
		return digest("address", m.template, to)
	}
	var about CompanyChangedData
	_ = json.Unmarshal([]byte(m.data), &about) // rendering the mail reports the error
	return digest("address", m.template, to, m.companyID, about.Change)
}

// companyCounter returns the key of the counter of mails from a company.
func companyCounter(m row) string { return digest("company", m.companyID) }

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// pruneSize is the number of mails that one transaction deletes.
const pruneSize = 1000

// ForgetCounts deletes expired counters.
func ForgetCounts(ctx context.Context, d *db.DB) error { return d.Write(ctx, deleteCounts) }

// Prune deletes mails that were created longer ago than kept and are not queued, in small transactions. It returns
// their number.
func Prune(ctx context.Context, d *db.DB, kept time.Duration) (deleted int64, err error) {
	for company, found := "", true; found; {
		var n int64
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			if company, found, err = companyFrom(ctx, tx, company); err != nil || !found {
				return err
			}
			n, err = deleteOld(ctx, tx, company, tx.Now().Add(-kept))
			return err
		})
		if err != nil {
			return deleted, err
		}
		deleted += n
		if n < pruneSize {
			company += "\x01" // continues with the next company
		}
	}
	return deleted, nil
}

// maxName is the maximum length of a name in a mail from an unverified company or person, in characters.
const maxName = 60

// sanitizeNames shortens the names in a mail's data, and changes them so that no mail program shows them as links.
// Otherwise an unverified company or person could send phishing links from the operator's address.
func sanitizeNames(data reflect.Value) {
	for _, field := range []string{"Name", "Company", "App", "Detail", "ThankYou", "From", "Payer", "Number"} {
		if v := data.FieldByName(field); v.IsValid() && v.Kind() == reflect.String {
			v.SetString(sanitizeName(v.String()))
		}
	}
}

func sanitizeName(name string) string {
	text := []rune(name)
	for i, r := range text {
		inside := i+1 < len(text) && !unicode.IsSpace(text[i+1])
		if r == ':' || r == '/' || r == '\\' || r == '@' || r == '.' && inside {
			text[i] = ' '
		}
	}
	text = []rune(strings.Join(strings.Fields(string(text)), " "))
	if len(text) > maxName {
		text = append(text[:maxName-1], '…')
	}
	return string(text)
}
