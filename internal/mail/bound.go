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

// The bounds of mails that a company can have written to anybody, in a day. Mails about payments are not among them:
// those cost money; nor are those that people ask for themselves, which are counted where they ask.
const (
	MaxToAddress  = 10 // of one kind to one address, whoever has them written; the newest waits for the next day
	MaxUnverified = 50 // of all kinds, of a company that is not verified

	day = 24 * time.Hour
)

var bounded = []string{Invitation, InvitationWanted, DestinationChanged, MemberInvited, CompanyChanged}

// outlook is what stands against sending a mail.
type outlook struct {
	unverified bool      // its company
	wait       time.Time // until when its address gets none of its kind; zero: it may go at once
	refusal    string    // why it never goes, "" while it may
}

const (
	refusedSpent = "its company is not verified and had its mails of a day"
	refusedNewer = "a newer one of its kind followed"
	refusedAlike = "its address had those of a day that tell the same of the company"
)

// admit finds what stands against sending a mail now, and counts it when nothing does. One that is not sent after all
// gives its place back; see [Mailer.release].
func (x *Mailer) admit(ctx context.Context, d *db.DB, m row) (o outlook, err error) {
	look := func(ctx context.Context, tx *db.Tx) error {
		o = outlook{}
		if m.companyID != "" && x.Verified != nil {
			verified, err := x.Verified(ctx, tx, m.companyID)
			if err != nil {
				return err
			}
			o.unverified = !verified
		}
		return nil
	}
	if !slices.Contains(bounded, m.template) {
		return o, d.Read(ctx, look)
	}
	return o, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if err := look(ctx, tx); err != nil {
			return err
		}
		if tx.Now().Sub(m.created) >= day { // it has waited
			if newer, err := hasNewer(ctx, tx, m); err != nil || newer {
				o.refusal = refusedNewer
				return err
			}
		}
		if o.unverified {
			n, _, err := count(ctx, tx, ofCompany(m))
			if err != nil || n > MaxUnverified {
				o.refusal = refusedSpent
				return err
			}
		}
		n, since, err := count(ctx, tx, ofAddress(m))
		if err != nil || n <= MaxToAddress {
			return err
		}
		if o.unverified {
			if err := discount(ctx, tx, ofCompany(m)); err != nil {
				return err
			}
		}
		if m.template == CompanyChanged {
			o.refusal = refusedAlike
			return nil
		}
		o.wait = since.Add(day)
		if newer, err := hasNewer(ctx, tx, m); err != nil || newer {
			o.refusal = refusedNewer
			return err
		}
		return nil
	})
}

// release gives back the place of a mail that was not sent.
func (x *Mailer) release(ctx context.Context, d *db.DB, m row, o outlook) error {
	if !slices.Contains(bounded, m.template) {
		return nil
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if o.unverified {
			if err := discount(ctx, tx, ofCompany(m)); err != nil {
				return err
			}
		}
		return discount(ctx, tx, ofAddress(m))
	})
}

// postpone leaves a mail for when its address gets some again.
func postpone(ctx context.Context, d *db.DB, m row, until time.Time) error {
	return d.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		job.Enqueue(tx, job.New{CompanyID: m.companyID, Kind: JobSend, Payload: look{m.id}, RunAt: until})
		return nil
	})
}

// ofAddress counts the mails of a kind to an address, whoever has them written. What warns those who answer for a
// company counts by the company and by what was changed: no other company's mails, and no flood of lesser changes,
// keep a warning back. Who had ten of the same is warned, so the next ones of a day are dropped.
func ofAddress(m row) string {
	to := strings.ToLower(m.to)
	if m.template != CompanyChanged {
		return digest("address", m.template, to)
	}
	var about CompanyChangedData
	_ = json.Unmarshal([]byte(m.data), &about) // what cannot be read fails when it is written
	return digest("address", m.template, to, m.companyID, about.Change)
}

func ofCompany(m row) string { return digest("company", m.companyID) }

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Forget deletes counts of days that are over.
func Forget(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return deleteCounts(ctx, tx) })
}

// longestName is how much of a name is shown of a company that is not verified, in characters.
const longestName = 60

// plainNames makes names within a mail's data ones that no reader's program takes for a link, and short: whoever has
// just signed up chose them, and the mail comes from our address.
func plainNames(data reflect.Value) {
	for _, field := range []string{"Name", "Company", "App", "What"} {
		if v := data.FieldByName(field); v.IsValid() && v.Kind() == reflect.String {
			v.SetString(plainName(v.String()))
		}
	}
}

func plainName(name string) string {
	text := []rune(name)
	for i, r := range text {
		inside := i+1 < len(text) && !unicode.IsSpace(text[i+1])
		if r == ':' || r == '/' || r == '\\' || r == '@' || r == '.' && inside {
			text[i] = ' '
		}
	}
	text = []rune(strings.Join(strings.Fields(string(text)), " "))
	if len(text) > longestName {
		text = append(text[:longestName-1], '…')
	}
	return string(text)
}
