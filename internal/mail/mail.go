// Package mail sends mails: one per cause, in the language of the recipient, as plain text and HTML.
//
// [Enqueue] stores a mail and a job in the transaction of the mail's cause. The job renders the mail and sends it to
// an SMTP server; it retries until the server accepts the mail or rejects it permanently. The Message-ID is derived
// from the row's ID, so that recipients can recognize a mail that was sent twice because of a crash. Tokens of links
// are stored encrypted, and the contents of a mail are deleted once it is sent. A sandbox without a mail server
// stores its mails so that they can be read.
//
// The number of mails per address is limited, as are the mails of each unverified company and the invoices of each
// person; see [MaxToAddress].
//
// The package owns the tables mails and mail_counts, and the texts of the mails in the languages of the pages. Its
// callers decide when a mail is sent and to whom.
package mail

import (
	"cmp"
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

// ErrAddress is returned for a text that is not exactly one email address.
var ErrAddress = apierr.New(apierr.Invalid, "invalid_parameter",
	"The value must be one email address, for example ada@example.com.")

// Email templates, each with the type of its data.
const (
	Invitation          = "invitation"           // InvitationData
	InvitationRequested = "invitation_requested" // InvitationRequestedData
	PaymentSent         = "payment_sent"         // PaymentSentData
	PaymentReturned     = "payment_returned"     // PaymentReturnedData
	DestinationChanged  = "destination_changed"  // DestinationChangedData
	CorrectionAsked     = "correction_asked"     // CorrectionAskedData
	AccountNotConfirmed = "account_unconfirmed"  // AccountNotConfirmedData
	AppConnected        = "app_connected"        // AppConnectedData
	WebhookDisabled     = "webhook_disabled"     // WebhookDisabledData
	KYCResult           = "kyc_result"           // KYCResultData
	AccountChanged      = "account_changed"      // AccountChangedData
	CompanyChanged      = "company_changed"      // CompanyChangedData
	SignUp              = "sign_up"              // SignUpData
	AccountExists       = "account_exists"       // AccountExistsData
	PasswordReset       = "password_reset"       // PasswordResetData
	MemberInvited       = "member_invited"       // MemberInvitedData
	ClaimPaid           = "claim_paid"           // ClaimPaidData
	RefundOffered       = "refund_offered"       // RefundOfferedData
	StaffAlarm          = "staff_alarm"          // StaffAlarmData
	EmailChange         = "email_change"         // EmailChangeData
	DestinationLink     = "destination_link"     // DestinationLinkData
	DestinationCode     = "destination_code"     // DestinationCodeData
	PayeeReminder       = "payee_reminder"       // PayeeReminderData
	IncomeUpdate        = "income_update"        // IncomeUpdateData
	ScheduleRun         = "schedule_run"         // ScheduleRunData
	DirectDebit         = "direct_debit"         // DirectDebitData
	InvoiceSent         = "invoice_sent"         // InvoiceSentData
	ProposalMade        = "proposal_made"        // ProposalMadeData
	MemberNotification  = "member_notification"  // MemberNotificationData
)

// The data of the templates. Texts are shown unchanged: names, amounts with their currency, masked account numbers.
// If a text is empty, its line is omitted. Times are shown in UTC.
type (
	// InvitationData invites a person to be paid by a company.
	InvitationData struct {
		Company string
		Role    string // contractor, employee or vendor
		Token   string // token of the link /invitation/{token}
		Expires time.Time
	}

	// InvitationRequestedData notifies a company that the recipient of an expired invitation requests a new one.
	InvitationRequestedData struct {
		Company, Email string
	}

	// PaymentSentData notifies a payee of a payment.
	PaymentSentData struct {
		Name, Company string
		Amount        string   // "120.00 USD"
		Description   string   // set by the company
		Reference     string   // ID of the payment
		Arrived       []string // one per destination: "0.00123 BTC (bc1q9h…k3d2)"
	}

	// PaymentReturnedData notifies a payee that their bank returned a payment.
	PaymentReturnedData struct {
		Name, Company     string
		Amount, Reference string
	}

	// DestinationChangedData notifies a payee of a changed payout destination, so that they notice an unintended
	// change.
	DestinationChangedData struct {
		Name        string
		Change      string // Added, Replaced, Removed or Reallocated
		Destination string // masked destination; "" if several destinations changed
		At          time.Time
	}

	// DirectDebitData informs a company about a direct debit of its account, or about the mandate for direct debits. The
	// announcement of a debit is the debit's pre-notification.
	DirectDebitData struct {
		Name       string
		Change     string // one of the values below
		Amount     string // "" for a mandate
		Due        string // date, such as 2026-03-16; "" for a mandate
		Account    string // masked
		Mandate    string // reference of the mandate
		Creditor   string
		CreditorID string // SEPA creditor identifier, or ""
		Reason     string // the bank's reason code, or ""
	}

	// CorrectionAskedData notifies a payee, or the company that pays them, that a bank requests a correction of a
	// destination.
	CorrectionAskedData struct {
		Name        string
		Payee       string // owner of the destination; "" if the owner receives the mail
		Destination string // masked
		Members     []string
		Own         bool // the destination belongs to the company that receives the mail
	}

	// AccountNotConfirmedData notifies a payee that a bank did not confirm the account of a destination.
	AccountNotConfirmedData struct {
		Name        string
		Destination string // masked
		// Returned reports whether the account could not be credited. Otherwise the names did not match.
		Returned bool
		Company  string // company that a payee without an account can ask for a new link; else ""
	}

	// AppConnectedData notifies a person that an app may act for them.
	AppConnectedData struct {
		Name, App, Company string
		Scopes             []string // descriptions of the scopes
		At                 time.Time
	}

	// WebhookDisabledData notifies a company that one of its endpoints no longer receives events.
	WebhookDisabledData struct {
		Company, Endpoint string // Endpoint is the URL without its query
		Since             time.Time
	}

	// KYCResultData notifies a person of the result of their identity verification.
	KYCResultData struct {
		Name    string
		Result  string   // Approved, ResubmissionRequired, Rejected or Expired
		Reasons []string // sentences in the language of the mail
	}

	// SignUpData confirms the email address of a person who signs up.
	SignUpData struct {
		Token   string // token of the link /sign-up/{token}
		Expires time.Time
	}

	// AccountExistsData notifies a person who signs up that they already have an account.
	AccountExistsData struct{ Name string }

	// PasswordResetData lets a person choose a password.
	PasswordResetData struct {
		Name    string
		Token   string // token of the link /password/{token}
		Expires time.Time
	}

	// MemberInvitedData invites a person to become a member of a company.
	MemberInvitedData struct {
		Company string
		Role    string // owner, admin, developer or viewer
		Token   string // token of the link /join/{token}
		Expires time.Time
	}

	// ClaimPaidData is a receipt for the payer of a claim.
	ClaimPaidData struct {
		Company      string
		Amount, Paid string // "120.00 EUR" and "0.00240000 BTC"
		Description  string
		Items        []string // one per line item: "2 × Coffee: 8.00 EUR"
		Order        string   // the merchant's order number
		ClaimID      string
		At           time.Time
		ThankYou     string // text of the merchant; "" for none
		Support      string // email address for questions; "" for none
	}

	// RefundOfferedData offers a refund to the payer of a claim. The payer opens the link and enters an address.
	RefundOfferedData struct {
		Company        string
		Amount         string // "0.00050000 BTC", before the network fee
		Order          string // the merchant's order number
		ClaimID, Token string // for the link /pay/{claim}/refund/{token}
		Expires        time.Time
	}

	// InvoiceSentData gives the payer of an invoice the link to its page.
	InvoiceSentData struct {
		UserID              string // person who wrote the invoice; not shown
		From, Payer, Number string
		Amount              string // "120.00 EUR"
		Due                 string // date, such as 2026-03-16
		Token               string // token of the link /invoice/{token}
	}

	// AccountChangedData notifies a person of a change of their credentials, so that they notice an unintended change.
	AccountChangedData struct {
		Name   string
		Change string // one of the constants below, such as FactorAdded
		At     time.Time
	}

	// CompanyChangedData notifies the administrators of a company of a change to its members, apps, keys or webhooks.
	CompanyChangedData struct {
		Name, Company string
		Change        string // one of the constants below, such as KeyCreated
		Detail        string // the app, the member with the role, or the URL of the endpoint without its query
		At            time.Time
	}

	// IncomeUpdateData notifies a person about money that they received.
	IncomeUpdateData struct {
		Name      string
		Change    string // IncomeArrived, IncomeWaits, IncomePaid or IncomeReturned
		Reason    string // why it waits: a reason of package income, or WaitsForAction; "" if no action is needed
		Amount    string // "120.00 EUR"
		Reference string // ID of the income
		Arrived   []string
	}

	// ScheduleRunData notifies the administrators of a company of a run of a schedule.
	ScheduleRunData struct {
		Name, Company, Schedule string
		Action                  string // one of the constants below, such as ScheduleFund
		PayDate                 string // such as 2026-09-30
		Total                   string // "1200.00 USD"; "" if there is no payroll
		Detail                  string // why the payroll cannot be created, in English
		Path                    string // path of the page on which to act
	}

	// ProposalMadeData asks the members of a company who may decide on an app's proposal to review it.
	ProposalMadeData struct {
		Name, Company, App string
		Kind               string // payroll or claim
		Amount             string // "1200.00 USD"
		Expires            time.Time
		Path               string // path of the page of the proposal
	}

	// MemberNotificationData notifies a member of a company about an event. Kind is one of the kinds in package
	// notification.
	MemberNotificationData struct {
		Name, Company, Kind string
		Amount              string // "1200.00 USD"; "" if the kind has no amount
		Detail              string // state of a verification
		Path                string // path of the page on which to act
	}

	// EmailChangeData asks the owner of an address to confirm a change of an account's email address.
	EmailChangeData struct {
		Name, Address string // Address is the new address
		Token         string // token of the link /email/{token}
		Expires       time.Time
	}

	// DestinationLinkData asks a payee without an account for a payment destination.
	DestinationLinkData struct {
		Name, Company string
		Token         string // token of the link /payee/{token}
		Expires       time.Time
	}

	// DestinationCodeData contains the code that confirms a destination of a payee without an account.
	DestinationCodeData struct {
		Name, Company, Code string
		Expires             time.Time
	}

	// PayeeReminderData reminds a person that a company cannot pay them, because they have no destination or, if Correct
	// is true, because one of their destinations cannot be paid.
	PayeeReminderData struct {
		Name, Company string
		Correct       bool
	}

	// StaffAlarmData notifies a member of staff of a condition that staff must investigate.
	StaffAlarmData struct {
		Name   string
		Alarm  string // BalanceDiffers or FundingReverted
		Detail string // English
		At     time.Time
	}
)

// linked is the data of a mail with a link. The method link returns the link's path.
type linked interface{ link() string }

func (d InvitationData) link() string    { return "/invitation/" + d.Token }
func (d SignUpData) link() string        { return "/sign-up/" + d.Token }
func (d PasswordResetData) link() string { return "/password/" + d.Token }
func (d MemberInvitedData) link() string { return "/join/" + d.Token }
func (d ScheduleRunData) link() string   { return d.Path }
func (d ProposalMadeData) link() string  { return d.Path }
func (AccountExistsData) link() string   { return "/sign-in" }
func (d ClaimPaidData) link() string     { return "/pay/" + d.ClaimID }

func (d MemberNotificationData) link() string { return d.Path }

func (d EmailChangeData) link() string     { return "/email/" + d.Token }
func (d DestinationLinkData) link() string { return "/payee/" + d.Token }
func (PayeeReminderData) link() string     { return "/account/destinations" }

func (d IncomeUpdateData) link() string { return "/account/payments/" + d.Reference }

// Values of IncomeUpdateData.Change, and values of its Reason that package income does not define.
const (
	IncomeArrived  = "arrived"
	IncomeWaits    = "waiting"
	IncomePaid     = "paid"
	IncomeReturned = "returned"
	WaitsForAction = "action"
)

func (d RefundOfferedData) link() string { return "/pay/" + d.ClaimID + "/refund/" + d.Token }

func (d InvoiceSentData) link() string { return "/invoice/" + d.Token }

// Values of AccountChangedData.Change.
const (
	FactorAdded           = "factor_added"
	FactorRemoved         = "factor_removed"
	RecoveryCodeUsed      = "recovery_code_used"
	RecoveryCodesReplaced = "recovery_codes_replaced"
	PasswordChanged       = "password_changed"
	PasskeyAdded          = "passkey_added"
	PasskeyRemoved        = "passkey_removed"
	EmailChanged          = "email_changed"
)

// Values of CompanyChangedData.Change.
const (
	KeyCreated        = "key_created"
	SecretCreated     = "secret_created"
	CodeReplayed      = "code_replayed"
	RefreshReplayed   = "refresh_replayed"
	MemberJoined      = "member_joined"
	RoleChanged       = "role_changed"
	WebhookAdded      = "webhook_added"
	WebhookURLChanged = "webhook_url_changed"
	SSOChanged        = "sso_changed"

	PlatformFeeChanged   = "platform_fee_changed"
	PlatformDisconnected = "platform_disconnected"
)

// Values of ScheduleRunData.Action.
const (
	ScheduleFund       = "fund"        // the payroll was created and waits for its funding
	ScheduleReview     = "review"      // the payroll was created and paid from the balance
	ScheduleLowBalance = "low_balance" // the balance does not cover the payroll
	ScheduleBlocked    = "blocked"     // the payroll cannot be created for another reason
)

// Values of StaffAlarmData.Alarm.
const (
	BalanceDiffers  = "balance_differs"
	FundingReverted = "funding_reverted"
)

// Values of DestinationChangedData.Change.
const (
	Added       = "added"
	Replaced    = "replaced"
	Removed     = "removed"
	Reallocated = "reallocated"
)

// Values of DirectDebitData.Change.
const (
	DebitAnnounced  = "announced"
	DebitFailed     = "failed"
	DebitReturned   = "returned"
	MandateAccepted = "mandate_accepted"
	MandateRevoked  = "mandate_revoked"
)

// Values of KYCResultData.Result.
const (
	Approved             = "approved"
	ResubmissionRequired = "resubmission_required"
	Rejected             = "rejected"
	Expired              = "expired"
)

// dataOf maps each template to the type of its data.
var dataOf = map[string]reflect.Type{
	Invitation:          reflect.TypeFor[InvitationData](),
	InvitationRequested: reflect.TypeFor[InvitationRequestedData](),
	PaymentSent:         reflect.TypeFor[PaymentSentData](),
	PaymentReturned:     reflect.TypeFor[PaymentReturnedData](),
	DestinationChanged:  reflect.TypeFor[DestinationChangedData](),
	CorrectionAsked:     reflect.TypeFor[CorrectionAskedData](),
	AccountNotConfirmed: reflect.TypeFor[AccountNotConfirmedData](),
	AppConnected:        reflect.TypeFor[AppConnectedData](),
	WebhookDisabled:     reflect.TypeFor[WebhookDisabledData](),
	KYCResult:           reflect.TypeFor[KYCResultData](),
	AccountChanged:      reflect.TypeFor[AccountChangedData](),
	CompanyChanged:      reflect.TypeFor[CompanyChangedData](),
	SignUp:              reflect.TypeFor[SignUpData](),
	AccountExists:       reflect.TypeFor[AccountExistsData](),
	PasswordReset:       reflect.TypeFor[PasswordResetData](),
	MemberInvited:       reflect.TypeFor[MemberInvitedData](),
	ClaimPaid:           reflect.TypeFor[ClaimPaidData](),
	RefundOffered:       reflect.TypeFor[RefundOfferedData](),
	StaffAlarm:          reflect.TypeFor[StaffAlarmData](),
	EmailChange:         reflect.TypeFor[EmailChangeData](),
	DestinationLink:     reflect.TypeFor[DestinationLinkData](),
	DestinationCode:     reflect.TypeFor[DestinationCodeData](),
	PayeeReminder:       reflect.TypeFor[PayeeReminderData](),
	IncomeUpdate:        reflect.TypeFor[IncomeUpdateData](),
	ScheduleRun:         reflect.TypeFor[ScheduleRunData](),
	MemberNotification:  reflect.TypeFor[MemberNotificationData](),
	DirectDebit:         reflect.TypeFor[DirectDebitData](),
	InvoiceSent:         reflect.TypeFor[InvoiceSentData](),
	ProposalMade:        reflect.TypeFor[ProposalMadeData](),
}

// Message is a mail that is sent after the transaction commits.
type Message struct {
	CompanyID string // company of the row; "" for a mail that no company caused
	To        string
	Template  string // one of the constants above
	Language  string // BCP 47 tag; a language that the recipient has chosen takes precedence; "" means English
	Data      any    // of the type that belongs to the template
	Key       string // prevents duplicates: only one mail is sent per company, template and key
	// Sealer encrypts Data. It is required if Data contains a Token.
	Sealer *identity.Sealer
}

// JobSend is the kind of job that sends a mail. Its payload is a sendPayload.
const JobSend = "mail.send"

type sendPayload struct {
	MailID string `json:"mail_id"`
}

// Enqueue stores a mail and the job that sends it. It drops a second mail with the same company, template and key. It
// returns ErrAddress unless To is valid; see [Valid]. Programming errors are returned as internal errors: an unknown
// template, data of another type, and a token without a sealer.
func Enqueue(ctx context.Context, tx *db.Tx, m Message) error {
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
	chosen, err := identity.LanguageAt(ctx, tx, m.To)
	if err != nil {
		return err
	}
	r := row{companyID: m.CompanyID, id: tx.NewID("mail"), template: m.Template, key: m.Key, to: m.To,
		language: cmp.Or(chosen, m.Language), data: string(data)}
	if _, secret := want.FieldByName("Token"); secret {
		if r.data, err = m.Sealer.Seal(dataPlace(r.id), data); err != nil {
			return err
		}
	}
	insert(tx, r)
	job.Enqueue(tx, job.New{CompanyID: m.CompanyID, Kind: JobSend, Payload: sendPayload{r.id}})
	return nil
}

func dataPlace(id string) identity.SealContext {
	return identity.SealContext{Table: "mails", Column: "data", Row: id}
}

// Valid reports whether text is exactly one email address. It rejects text that could become another header or
// recipient.
func Valid(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && a.Address == text && a.Name == "" && len(text) <= 254 &&
		!strings.ContainsFunc(text, unicode.IsControl)
}

// LanguageOf returns the most common language of a country, or "". It is used for recipients whose language is
// unknown.
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

// Mailer sends mails.
type Mailer struct {
	Server  *SMTP         // if nil, mails are stored for [List] instead of sent
	From    *mail.Address // sender; its domain is part of the Message-IDs
	BaseURL string        // base URL of links, without a slash at the end
	Sandbox bool          // marks every mail as a mail of a sandbox
	Name    string        // name of the service in the texts; "" means Stipend
	Sealer  *identity.Sealer
	// Verified reports whether a company or a person is verified. Unverified companies may send fewer mails, and the
	// names in mails of unverified companies and persons are changed so that they cannot act as links. If Verified is
	// nil, everyone counts as unverified.
	Verified func(ctx context.Context, tx *db.Tx, id string) (bool, error)
}

// Send is the handler of [JobSend]. If the process dies before Send stores the result, the mail may be sent twice,
// with the same Message-ID.
func (x *Mailer) Send(ctx context.Context, d *db.DB, j job.Job) error {
	var in sendPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	var m row
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		m, err = find(ctx, tx, j.CompanyID, in.MailID)
		return err
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil // the mail was dropped because another mail has the same key
	}
	if err != nil || m.state != queued {
		return err
	}
	if x.Server == nil { // no limits apply without a server
		text, err := x.render(m, false)
		if err != nil {
			return err
		}
		return end(ctx, d, m, result{state: stored, Content: text})
	}
	a, err := x.admit(ctx, d, m)
	switch {
	case err != nil:
		return err
	case a.rejection != "":
		return end(ctx, d, m, result{state: refused, reason: a.rejection})
	case !a.wait.IsZero():
		return postpone(ctx, d, m, a.wait)
	}
	text, err := x.render(m, a.unverified)
	if err == nil {
		err = x.deliver(ctx, m, text)
	}
	var rejected *rejection
	switch {
	case err == nil:
		return end(ctx, d, m, result{state: sent})
	case errors.As(err, &rejected):
		return end(ctx, d, m, result{state: refused, reason: rejected.Error()})
	}
	return errors.Join(err, a.release(ctx, d))
}

func end(ctx context.Context, d *db.DB, m row, r result) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return finish(ctx, tx, m, r) })
}

// deliver sends a rendered mail to the server.
func (x *Mailer) deliver(ctx context.Context, m row, text Content) error {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(x.From)
	msg.ToMailAddress(&mail.Address{Address: m.to})
	msg.Subject(text.Subject)
	_, domain, _ := strings.Cut(x.From.Address, "@")
	msg.SetMessageIDWithValue(m.id + "@" + domain)
	msg.SetDateWithValue(m.created)
	// Prevents out-of-office replies (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, text.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, text.HTML)
	return x.Server.send(ctx, msg)
}

// StoredMail is a mail of a sandbox without a mail server.
type StoredMail struct {
	ID, Template, To string
	Content
	Created time.Time
}

// List returns a page of the stored mails of a company, newest first, and their total number.
func List(ctx context.Context, tx *db.Tx, companyID string, page db.Page) ([]StoredMail, int64, error) {
	return list(ctx, tx, companyID, page)
}
