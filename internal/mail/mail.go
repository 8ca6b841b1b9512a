// Package mail writes to people: one mail per cause, in their language, as plain text and as HTML.
//
// A mail is a row and a job that commit with what it tells of ([Enqueue]); the job makes the text and hands it to an
// SMTP server, again and again until the server has taken it or refused it for good. The Message-ID is the row's id,
// so a mail that a crash made leave twice can be recognised as one. What holds the token of a link is sealed while it
// waits, and when a mail has left, what it said is deleted. A sandbox without a server keeps its mails to be read.
//
// What companies can have written to anybody is bounded, by address and, until they are verified, by company; see
// [MaxToAddress].
//
// The package owns the tables mails and mail_counts and the words of the mails, in four languages. Who is written to,
// and whether, is decided by those who enqueue.
package mail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"reflect"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/text/language"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
)

// ErrAddress refuses what is no single email address, before it comes near a header.
var ErrAddress = apierr.New(apierr.Invalid, "invalid_parameter",
	"This takes one email address, such as ada@example.com.")

// The templates, each with the struct that is its Data.
const (
	Invitation         = "invitation"          // InvitationData
	InvitationWanted   = "invitation_wanted"   // InvitationWantedData
	PaymentSent        = "payment_sent"        // PaymentSentData
	PaymentReturned    = "payment_returned"    // PaymentReturnedData
	DestinationChanged = "destination_changed" // DestinationChangedData
	CorrectionAsked    = "correction_asked"    // CorrectionAskedData
	AppConnected       = "app_connected"       // AppConnectedData
	WebhookDisabled    = "webhook_disabled"    // WebhookDisabledData
	KYCResult          = "kyc_result"          // KYCResultData
	AccountChanged     = "account_changed"     // AccountChangedData
	CompanyChanged     = "company_changed"     // CompanyChangedData
	SignUp             = "sign_up"             // SignUpData
	AccountExists      = "account_exists"      // AccountExistsData
	PasswordReset      = "password_reset"      // PasswordResetData
	MemberInvited      = "member_invited"      // MemberInvitedData
)

// The data of the templates. Everything is for people to read: names, amounts with their currency, masked account
// numbers. An empty text leaves its line out. Instants are written in UTC.
type (
	// InvitationData invites to work for a company; a resend is the same mail with the new token, under a key of its own.
	InvitationData struct {
		Company string // who invites
		Role    string // contractor, employee or vendor
		Token   string // of the link /invitation/{token}
		Expires time.Time
	}

	// InvitationWantedData tells a company that somebody found their invitation expired and would like another.
	InvitationWantedData struct {
		Company, Email string
	}

	// PaymentSentData tells a payee that a payment has arrived where they want their money.
	PaymentSentData struct {
		Name, Company string
		Amount        string   // "120.00 USD"
		Description   string   // the company's own words
		Reference     string   // id of the payment
		Arrived       []string // per destination: "0.00123 BTC (bc1q9h…k3d2)"
	}

	// PaymentReturnedData tells a payee that their bank sent a payment back.
	PaymentReturnedData struct {
		Name, Company     string
		Amount, Reference string
	}

	// DestinationChangedData warns a payee that where their money goes was changed, perhaps not by them.
	DestinationChangedData struct {
		Name        string
		Change      string // Added, Replaced, Removed or Reallocated
		Destination string // masked; "" for several
		At          time.Time
	}

	// CorrectionAskedData tells a payee, and who runs the company that pays them, that a bank wants a destination put
	// right.
	CorrectionAskedData struct {
		Name        string
		Payee       string // whose destination it is, where that is not the reader
		Destination string // masked
		Members     []string
		Own         bool // it is the company's that is written to
	}

	// AppConnectedData tells a person that an app may act for them from now on.
	AppConnectedData struct {
		Name, App, Company string
		Scopes             []string // in words
		At                 time.Time
	}

	// WebhookDisabledData tells a company that its endpoint gets no events any more.
	WebhookDisabledData struct {
		Company, Endpoint string // the endpoint's address without its query
		Since             time.Time
	}

	// KYCResultData tells a person how the check of their identity ended.
	KYCResultData struct {
		Name    string
		Result  string   // Approved, ResubmissionRequired, Rejected or Expired
		Reasons []string // whole sentences, in the mail's language
	}

	// SignUpData lets somebody go on who wants to open an account with this address.
	SignUpData struct {
		Token   string // of the link /sign-up/{token}
		Expires time.Time
	}

	// AccountExistsData tells somebody who wants to open an account that they have one.
	AccountExistsData struct{ Name string }

	// PasswordResetData lets a person choose a password.
	PasswordResetData struct {
		Name    string
		Token   string // of the link /password/{token}
		Expires time.Time
	}

	// MemberInvitedData asks somebody to act for a company.
	MemberInvitedData struct {
		Company string
		Role    string // owner, admin, developer or viewer
		Token   string // of the link /join/{token}
		Expires time.Time
	}

	// AccountChangedData warns a person that the way they sign in was changed, perhaps not by them.
	AccountChangedData struct {
		Name   string
		Change string // FactorAdded and so on
		At     time.Time
	}

	// CompanyChangedData warns those who answer for a company that something was changed about who or what acts for it.
	CompanyChangedData struct {
		Name, Company string
		Change        string // KeyMade and so on
		What          string // the app, the member with the role, the endpoint's address without its query
		At            time.Time
	}
)

// linked is data whose mail has a link, to a path of the pages.
type linked interface{ link() string }

func (d InvitationData) link() string    { return "/invitation/" + d.Token }
func (d SignUpData) link() string        { return "/sign-up/" + d.Token }
func (d PasswordResetData) link() string { return "/password/" + d.Token }
func (d MemberInvitedData) link() string { return "/join/" + d.Token }
func (AccountExistsData) link() string   { return "/sign-in" }

// The values of AccountChangedData.Change.
const (
	FactorAdded     = "factor_added"
	FactorRemoved   = "factor_removed"
	RecoveryUsed    = "recovery_used"
	RecoveryRenewed = "recovery_renewed"
	PasswordChanged = "password_changed"
	PasskeyAdded    = "passkey_added"
	PasskeyRemoved  = "passkey_removed"
)

// The values of CompanyChangedData.Change.
const (
	KeyMade      = "key_made"
	SecretMade   = "secret_made"
	CodeReplayed = "code_replayed"
	MemberJoined = "member_joined"
	RoleChanged  = "role_changed"
	WebhookAdded = "webhook_added"
	WebhookMoved = "webhook_moved"
)

// The values of DestinationChangedData.Change.
const (
	Added       = "added"
	Replaced    = "replaced"
	Removed     = "removed"
	Reallocated = "reallocated"
)

// The values of KYCResultData.Result.
const (
	Approved             = "approved"
	ResubmissionRequired = "resubmission_required"
	Rejected             = "rejected"
	Expired              = "expired"
)

// dataOf is the type of each template's data.
var dataOf = map[string]reflect.Type{
	Invitation:         reflect.TypeFor[InvitationData](),
	InvitationWanted:   reflect.TypeFor[InvitationWantedData](),
	PaymentSent:        reflect.TypeFor[PaymentSentData](),
	PaymentReturned:    reflect.TypeFor[PaymentReturnedData](),
	DestinationChanged: reflect.TypeFor[DestinationChangedData](),
	CorrectionAsked:    reflect.TypeFor[CorrectionAskedData](),
	AppConnected:       reflect.TypeFor[AppConnectedData](),
	WebhookDisabled:    reflect.TypeFor[WebhookDisabledData](),
	KYCResult:          reflect.TypeFor[KYCResultData](),
	AccountChanged:     reflect.TypeFor[AccountChangedData](),
	CompanyChanged:     reflect.TypeFor[CompanyChangedData](),
	SignUp:             reflect.TypeFor[SignUpData](),
	AccountExists:      reflect.TypeFor[AccountExistsData](),
	PasswordReset:      reflect.TypeFor[PasswordResetData](),
	MemberInvited:      reflect.TypeFor[MemberInvitedData](),
}

// Message is one mail to be sent, by a job, after its transaction commits.
type Message struct {
	CompanyID string // whose business it is; the row's tenant ("" where a person is written to without one)
	To        string
	Template  string // one of the constants above
	Language  string // BCP 47; "" is English
	Data      any    // the template's own struct
	Key       string // one mail per company, template and key
	// Sealer keeps the token of a link from whoever reads the database. Required where Data has one.
	Sealer *identity.Sealer
}

// JobSend is the kind of job that sends a mail; its payload names the row.
const JobSend = "mail.send"

type look struct {
	MailID string `json:"mail_id"`
}

// Enqueue leaves a mail for the commit. A second one of the same company, template and key is silently dropped. It
// refuses what is no single address with ErrAddress; see [Valid]. A template that does not exist, or the wrong data
// for it, is a mistake in the program and an internal error, and so is a token without a sealer.
func Enqueue(_ context.Context, tx *db.Tx, m Message) error {
	if !Valid(m.To) {
		return ErrAddress
	}
	want, known := dataOf[m.Template]
	if !known || reflect.TypeOf(m.Data) != want || m.Key == "" {
		return fmt.Errorf("mail: template %q with %T and key %q", m.Template, m.Data, m.Key)
	}
	data, err := json.Marshal(m.Data)
	if err != nil {
		return fmt.Errorf("mail: %s: %w", m.Template, err)
	}
	r := row{companyID: m.CompanyID, id: tx.NewID("mail"), template: m.Template, key: m.Key, to: m.To,
		language: m.Language, data: string(data)}
	if _, secret := want.FieldByName("Token"); secret {
		if r.data, err = m.Sealer.Seal(dataOfMail(r.id), data); err != nil {
			return err
		}
	}
	insert(tx, r)
	job.Enqueue(tx, job.New{CompanyID: m.CompanyID, Kind: JobSend, Payload: look{r.id}})
	return nil
}

func dataOfMail(id string) identity.Place {
	return identity.Place{Table: "mails", Column: "data", Row: id}
}

// Valid says whether text is exactly one address, with nothing around it that could become another header or recipient.
func Valid(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text && a.Name == "" && len(text) <= 254 &&
		!strings.ContainsFunc(text, unicode.IsControl)
}

// LanguageOf is the language that most people of a country read, for those who have told no other.
func LanguageOf(country string) string {
	region, err := language.ParseRegion(country)
	if err != nil {
		return ""
	}
	tag, err := language.Compose(region)
	if err != nil {
		return ""
	}
	base, _ := tag.Base()
	return base.String()
}

// Mailer is the job that sends mails.
type Mailer struct {
	Server  *SMTP         // nil keeps mails in the table, to be read by [List]
	From    *mail.Address // whose mails these are; the domain is also that of the Message-IDs
	BaseURL string        // of links, without a slash at the end
	Sandbox bool          // every mail says that there is no real money in it
	Sealer  *identity.Sealer
	// Verified says whether a company's word about itself was checked. Others have few mails sent, with plain names. Nil:
	// all were.
	Verified func(ctx context.Context, tx *db.Tx, companyID string) (bool, error)
}

// Send sends the mail that a job names (job mail.send). It may send one twice when the process dies between the
// server's answer and the row's; both have one Message-ID.
func (x *Mailer) Send(ctx context.Context, d *db.DB, j job.Job) error {
	var in look
	if err := j.Decode(&in); err != nil {
		return err
	}
	var m row
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		m, err = find(ctx, tx, j.CompanyID, in.MailID)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil // a second one of its key, or its transaction's row was dropped
	}
	if err != nil || m.state != queued {
		return err
	}
	if x.Server == nil { // nobody gets it, so nothing is bounded
		text, err := x.write(m, false)
		if err != nil {
			return err
		}
		return end(ctx, d, m, ending{state: kept, Letter: text})
	}
	o, err := x.admit(ctx, d, m)
	switch {
	case err != nil:
		return err
	case o.refusal != "":
		return end(ctx, d, m, ending{state: refused, reason: o.refusal})
	case !o.wait.IsZero():
		return postpone(ctx, d, m, o.wait)
	}
	text, err := x.write(m, o.unverified)
	if err == nil {
		err = x.hand(ctx, m, text)
	}
	var refusal *refusal
	switch {
	case err == nil:
		return end(ctx, d, m, ending{state: sent})
	case errors.As(err, &refusal):
		return end(ctx, d, m, ending{state: refused, reason: refusal.Error()})
	}
	return errors.Join(err, x.release(ctx, d, m, o))
}

func end(ctx context.Context, d *db.DB, m row, e ending) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return finish(ctx, tx, m, e) })
}

// hand gives a finished mail to the server.
func (x *Mailer) hand(ctx context.Context, m row, text Letter) error {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(x.From)
	msg.ToMailAddress(&mail.Address{Address: m.to})
	msg.Subject(text.Subject)
	_, domain, _ := strings.Cut(x.From.Address, "@")
	msg.SetMessageIDWithValue(m.id + "@" + domain)
	msg.SetDateWithValue(m.created)
	// So that no out-of-office reply comes back, and no mailing list takes it for a person's letter.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, text.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, text.HTML)
	return x.Server.send(ctx, msg)
}

// Kept is a mail of a sandbox without a mail server.
type Kept struct {
	ID, Template, To string
	Letter
	Created time.Time
}

// List reads the newest mails that were kept for a company instead of being sent, newest first, at most limit, and
// says how many there are after skipping offset.
func List(ctx context.Context, tx *db.Tx, companyID string, offset, limit int) (mails []Kept, total int64, err error) {
	return list(ctx, tx, companyID, offset, limit)
}
