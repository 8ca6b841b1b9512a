// Package invoice stores the invoices that users send to their payers, and the bills that companies owe to vendors,
// and tracks their payment. A bill is recorded by the company itself and has no payer.
//
//	draft → sent ⇄ in_payroll → paid
//	  │      │         │  ↑      │
//	  │      │         ↓  │      │
//	  │      │     partially_paid
//	  └──────┴→ void
//
// An invoice that is still owed after its due date is shown as overdue; that state is not stored. A company pays an
// invoice by naming it in a payroll: the invoice is then in_payroll, its amount cannot change, and no other payroll
// can pay it. When the payment arrives, the invoice is paid. If the payroll ends in another way, the invoice is owed
// again, minus the part that arrived. Package payroll reports the outcome with [Payment.Settle], [Payment.Drop] and
// [Payment.Reopen]; this package knows only the IDs of payrolls.
package invoice

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Status is the state of an invoice.
type Status string

// States of an invoice.
const (
	Draft         Status = "draft"
	Sent          Status = "sent"
	InPayroll     Status = "in_payroll"
	PartiallyPaid Status = "partially_paid"
	Paid          Status = "paid"
	Void          Status = "void"
	Overdue       Status = "overdue" // shown instead of sent and partially_paid after the due date
)

// Limits.
const (
	MaxItems   = 100
	dueAfter   = 30 * 24 * time.Hour // default time until the due date
	latestYear = 10                  // largest number of years until the due date
)

// Errors returned to callers.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such invoice.")
	ErrState    = apierr.New(apierr.Conflict, "invalid_state", "The invoice's state does not allow this.")
	// ErrOtherPayer is returned for an invoice to a payer other than the company, which payrolls cannot pay.
	ErrOtherPayer = apierr.New(apierr.Conflict, "invalid_state",
		"The invoice is to another payer. A company pays only invoices to itself: those whose payer has is_company.")
	ErrNumber = apierr.New(apierr.Conflict, "external_id_conflict", "Another invoice has this number.")
)

// Invoice is one invoice of a user.
type Invoice struct {
	UserID    string
	ID        string
	CompanyID string // company that manages the user's record or is the payer, and receives events; "" for none
	PayerID   string
	Number    string
	Status    Status // as stored; see Shown
	Currency  money.Asset
	Subtotal  money.Amount
	Tax       money.Amount
	Total     money.Amount
	Paid      money.Amount
	IssueDate string // 2026-01-31
	DueDate   string
	Document  string // ID of a bill's document; "" for none
	Content          // empty if read without a sealer
	Metadata  map[string]string
	PayrollID string // payroll that is paying or has paid the invoice; "" for none
	PaymentID string
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time

	sealed string
	link   string // digest of Token
}

// Content is the text of an invoice, which is encrypted.
type Content struct {
	Items []Item `json:"items"`
	Notes string `json:"notes,omitempty"`
	Token string `json:"token,omitempty"` // token of the payer's page /invoice/{token}; "" for a bill
}

// Item is one line of an invoice with its amount.
type Item struct {
	Description string `json:"description"`
	Quantity    string `json:"quantity"`   // at most 3 decimals
	UnitPrice   string `json:"unit_price"` // in the invoice's currency
	TaxRate     string `json:"tax_rate"`   // percent, at most 2 decimals
	Amount      string `json:"amount"`     // quantity x unit price, rounded half to even, without tax
}

// Due returns the amount that is still owed.
func (v Invoice) Due() (money.Amount, error) { return v.Total.Sub(v.Paid) }

// Payable reports whether a payroll may pay the invoice.
func (v Invoice) Payable() bool { return v.Status == Sent || v.Status == PartiallyPaid }

// Bill reports whether the invoice is a bill that a company owes to a vendor.
func (v Invoice) Bill() bool { return v.PayerID == "" }

// Shown returns the status to display at a time.
func (v Invoice) Shown(now time.Time) Status {
	if v.Payable() && v.DueDate < now.Format(time.DateOnly) {
		return Overdue
	}
	return v.Status
}

// Is reports whether an ID is the ID of an invoice of this service. Any other invoice ID in a payroll is the
// company's own reference.
func Is(id string) bool { return strings.HasPrefix(id, "inv_") }

// CreateParams describes a new invoice. Amounts are the text of the JSON numbers.
type CreateParams struct {
	UserID    string
	PayerID   string
	Number    string // "" takes the next number
	Currency  string // "" is the payer's currency; any other currency is refused
	IssueDate string // "" is today
	DueDate   string // "" is 30 days after the issue date
	Items     []Item // Create computes the amount of each item
	Notes     string
	Metadata  map[string]string
	Draft     bool
}

// Create creates an invoice of the acting user to one of the user's payers. It sends the invoice unless it is a
// draft.
func Create(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal,
	p CreateParams) (Invoice, error) {
	user, err := acting(ctx, tx, by, p.UserID)
	if err != nil {
		return Invoice{}, err
	}
	to, err := payer.Use(ctx, tx, user.ID, p.PayerID)
	if err != nil {
		return Invoice{}, err
	}
	v := Invoice{
		UserID: user.ID, ID: tx.NewID("inv"), CompanyID: user.CompanyID, PayerID: to.ID, Status: Sent, Currency: to.Currency,
		Paid: money.Zero(to.Currency), Metadata: p.Metadata, Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	if to.IsCompany {
		v.CompanyID = to.CompanyID
	}
	if p.Draft {
		v.Status = Draft
	}
	v.Token = identity.NewLinkToken()
	v.link = identity.LinkDigest(v.Token)
	if err := v.fill(p, tx.Now()); err != nil {
		return Invoice{}, err
	}
	if err := v.seal(s); err != nil {
		return Invoice{}, err
	}
	if err := v.insert(ctx, tx, p.Number == ""); err != nil {
		return Invoice{}, err
	}
	metadata.Index(tx, v.UserID, v.ID, v.Metadata)
	db.History(tx, v.UserID, v.ID, v.Version, "", string(v.Status), "created")
	if err := v.emit(tx, webhook.InvoiceCreated, ""); err != nil || p.Draft {
		return v, err
	}
	return v, v.mailPayer(ctx, tx, s, user, to)
}

// mailPayer mails the payer a link to the invoice's page, if the payer has an email address.
func (v *Invoice) mailPayer(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.User,
	to payer.Payer) error {
	if to.Email == "" {
		return nil
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: v.CompanyID, To: to.Email, Template: mail.InvoiceSent, Key: v.ID, Sealer: s,
		Data: mail.InvoiceSentData{
			UserID: by.ID, From: by.Name(), Payer: to.Name, Number: v.Number,
			Amount: v.Total.String() + " " + string(v.Currency), Due: v.DueDate, Token: v.Token,
		},
	})
}

// ByToken returns a sent invoice with its content. It is for the payer, who knows only the token of the invoice's
// page.
func ByToken(ctx context.Context, tx *db.Tx, s *identity.Sealer, token string) (Invoice, error) {
	digest := identity.LinkDigest(token)
	if digest == "" {
		return Invoice{}, ErrNotFound
	}
	v, err := findByLink(ctx, tx, digest)
	if err != nil {
		return Invoice{}, err
	}
	if v.Status == Draft {
		return Invoice{}, ErrNotFound
	}
	return v, v.open(s)
}

// BillParams describes a new bill. The amount is the text of a JSON number.
type BillParams struct {
	CompanyID   string
	VendorID    string // recipient ID of a vendor of the company
	Number      string // the vendor's number, unique per vendor
	AmountText  string
	Currency    string
	IssueDate   string // "" is today
	DueDate     string // "" is 30 days after the issue
	Description string
	Document    string
	Metadata    map[string]string
}

// CreateBill records an amount that a company owes to a vendor. The caller checks the vendor and the document, and
// passes their problems in list; the returned error contains these and all other problems.
func CreateBill(ctx context.Context, tx *db.Tx, s *identity.Sealer, p BillParams, list *apierr.List) (Invoice, error) {
	currency, known := money.Lookup(p.Currency)
	if !known || currency.IsCrypto() {
		list.Add("currency_not_supported", "/currency",
			"The bill's currency must be a fiat currency that the service knows, as in GET /api/currencies.")
	}
	if p.Number == "" {
		list.Add("missing_field", "/number", "A bill has the number of the vendor's invoice.")
	}
	if !known {
		currency = money.USD // so that the other problems are found
	}
	v := Invoice{
		UserID: p.VendorID, ID: tx.NewID("inv"), CompanyID: p.CompanyID, Status: Sent, Currency: currency,
		Paid: money.Zero(currency), Document: p.Document, Metadata: p.Metadata, Version: 1, CreatedAt: tx.Now(),
		UpdatedAt: tx.Now(),
	}
	err := v.fill(CreateParams{Number: p.Number, IssueDate: p.IssueDate, DueDate: p.DueDate, Metadata: p.Metadata,
		Items: []Item{{Description: p.Description, UnitPrice: p.AmountText}}}, tx.Now())
	f, isFault := apierr.As(err)
	if err != nil && !isFault {
		return Invoice{}, err
	}
	if isFault {
		for _, field := range f.Fields {
			list.AddField(billField(field))
		}
	}
	if err := list.Err(); err != nil {
		return Invoice{}, err
	}
	if err := v.seal(s); err != nil {
		return Invoice{}, err
	}
	if err := v.insert(ctx, tx, false); err != nil {
		return Invoice{}, err
	}
	metadata.Index(tx, v.UserID, v.ID, v.Metadata)
	db.History(tx, v.UserID, v.ID, v.Version, "", string(v.Status), "created")
	return v, v.emit(tx, webhook.InvoiceCreated, "")
}

// billField changes the pointer to a field of an invoice into the pointer to the corresponding field of a bill.
func billField(f apierr.Field) apierr.Field {
	switch f.Pointer {
	case "/items/0/unit_price", "/items":
		f.Pointer = "/amount"
	case "/items/0/description":
		f.Pointer = "/description"
	}
	return f
}

// VoidBill voids a bill that is neither paid nor in a payroll. Voiding a bill twice has no effect.
func VoidBill(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Invoice, error) {
	v, err := OneOfCompany(ctx, tx, by, id)
	switch {
	case err != nil:
		return v, err
	case !v.Bill():
		return v, ErrState.Detailf("Only bills can be voided by the company. The person who wrote an invoice withdraws it.")
	}
	return v, v.void(ctx, tx)
}

// OpenBill reads the content of a bill.
func OpenBill(s *identity.Sealer, v *Invoice) error { return v.open(s) }

func acting(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (identity.User, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return user, err
	}
	if by.CompanyID == "" {
		return user, nil
	}
	c, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return user, err
	}
	return user, c.Active()
}

// insert inserts the invoice under its number or, if next is set, under the next free number.
func (v *Invoice) insert(ctx context.Context, tx *db.Tx, next bool) error {
	if !next {
		first, err := insert(ctx, tx, *v)
		if err != nil || first {
			return err
		}
		existing, err := byNumber(ctx, tx, v.UserID, v.Number)
		if err != nil {
			return err
		}
		return ErrNumber.Set("invoice_id", existing).At("body", "/number")
	}
	n, err := countOf(ctx, tx, v.UserID)
	if err != nil {
		return err
	}
	for try := n + 1; try <= n+MaxItems; try++ {
		v.Number = fmt.Sprintf("INV-%04d", try)
		if first, err := insert(ctx, tx, *v); err != nil || first {
			return err
		}
	}
	return db.ErrConflict
}

// Send sends a draft. Sending an invoice twice has no effect.
func Send(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID, id string) (Invoice,
	error) {
	user, err := acting(ctx, tx, by, userID)
	if err != nil {
		return Invoice{}, err
	}
	v, err := find(ctx, tx, user.ID, id)
	if err != nil || v.Status == Sent {
		return v, err
	}
	if v.Status != Draft {
		return v, ErrState.Detailf("Only a draft can be sent.")
	}
	to, err := payer.Use(ctx, tx, v.UserID, v.PayerID)
	if err != nil {
		return v, err
	}
	if err := v.open(s); err != nil {
		return v, err
	}
	if err := v.advance(ctx, tx, Sent, ""); err != nil {
		return v, err
	}
	return v, v.mailPayer(ctx, tx, s, user, to)
}

// SetMetadata replaces the metadata of an invoice in any state.
func SetMetadata(ctx context.Context, tx *db.Tx, by identity.Principal, userID, id string,
	all map[string]string) (Invoice, error) {
	user, err := acting(ctx, tx, by, userID)
	if err != nil {
		return Invoice{}, err
	}
	var list apierr.List
	metadata.Check(&list, "/metadata", all)
	if err := list.Err(); err != nil {
		return Invoice{}, err
	}
	v, err := find(ctx, tx, user.ID, id)
	if err != nil {
		return Invoice{}, err
	}
	before := v.Metadata
	v.Metadata = all
	if err := metadata.Replace(ctx, tx, v.UserID, v.ID, before, all); err != nil {
		return v, err
	}
	return v, v.advance(ctx, tx, v.Status, "metadata")
}

// Delete voids an invoice that is neither paid nor in a payroll. Deleting an invoice twice has no effect.
func Delete(ctx context.Context, tx *db.Tx, by identity.Principal, userID, id string) (Invoice, error) {
	user, err := acting(ctx, tx, by, userID)
	if err != nil {
		return Invoice{}, err
	}
	v, err := find(ctx, tx, user.ID, id)
	if err != nil {
		return v, err
	}
	return v, v.void(ctx, tx)
}

func (v *Invoice) void(ctx context.Context, tx *db.Tx) error {
	switch v.Status {
	case Void:
		return nil
	case Draft, Sent:
		return v.advance(ctx, tx, Void, "deleted")
	case InPayroll:
		return ErrState.Detailf("The invoice is in a payroll. It can be deleted once the payroll is cancelled.")
	}
	return ErrState.Detailf("The invoice is paid, in full or in part, and stays.")
}

// OfCompany returns a page of the company's bills and of the invoices whose payer is the company, newest first,
// without content, and their total number.
func OfCompany(ctx context.Context, tx *db.Tx, by identity.Principal, f Filter) ([]Invoice, int64, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, "company_id <> '' AND company_id = ? AND "+toCompany, company, f)
}

// OneOfCompany returns one of the invoices and bills that [OfCompany] lists.
func OneOfCompany(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Invoice, error) {
	company, err := by.Company("")
	if err != nil {
		return Invoice{}, err
	}
	return findOfCompany(ctx, tx, company, id)
}

// Detail returns an invoice with its content.
func Detail(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID,
	id string) (Invoice, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return Invoice{}, err
	}
	v, err := find(ctx, tx, user.ID, id)
	if err != nil {
		return Invoice{}, err
	}
	return v, v.open(s)
}

// Filter selects invoices and a page of them.
type Filter struct {
	Open     bool        // selects only invoices that a payroll of the company can pay; ignores Status
	Currency money.Asset // "" means all
	UserID   string      // person or vendor to whom the invoice is owed; "" means all
	Status   Status      // "" means all that are not void; overdue invoices are selected only by Overdue
	PayerID  string
	Number   string            // beginning of the number; letter case does not matter
	From, To time.Time         // selects invoices created in [From, To); a zero time is no bound
	Metadata map[string]string // ignored by OfCompany
	Page     db.Page
}

// List returns a page of the user's invoices, newest first, without content, and their total number.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, userID string, f Filter) ([]Invoice, int64, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, tx, "user_id = ?", user.ID, f)
}

// CheckPayable returns ErrState if the invoice is not owed or is in a payroll, payer.ErrDeleted if its payer was
// deleted, and ErrOtherPayer if its payer is not the given company.
func (v *Invoice) CheckPayable(ctx context.Context, tx *db.Tx, companyID string) error {
	if !v.Payable() {
		return ErrState.Detailf("The invoice is %s and cannot be paid.", v.Status)
	}
	if v.Bill() {
		return nil
	}
	to, err := payer.Use(ctx, tx, v.UserID, v.PayerID)
	if err == nil && (!to.IsCompany || to.CompanyID != companyID || v.CompanyID != companyID) {
		err = ErrOtherPayer
	}
	return err
}

// hold updates, with count, the number of the payer's invoices that are in payrolls. It does nothing for a bill.
func (v *Invoice) hold(ctx context.Context, tx *db.Tx,
	count func(ctx context.Context, tx *db.Tx, ownerID, payerID string) error) error {
	if v.Bill() {
		return nil
	}
	return count(ctx, tx, v.UserID, v.PayerID)
}

// Take assigns an invoice to a payroll of a company. It returns the errors of [Invoice.CheckPayable].
func Take(ctx context.Context, tx *db.Tx, companyID, userID, id, payrollID, paymentID string) error {
	v, err := find(ctx, tx, userID, id)
	if err != nil {
		return err
	}
	if err := v.CheckPayable(ctx, tx, companyID); err != nil {
		return err
	}
	v.PayrollID, v.PaymentID = payrollID, paymentID
	if err := v.hold(ctx, tx, payer.Hold); err != nil {
		return err
	}
	return v.advance(ctx, tx, InPayroll, "")
}

// Payment identifies an invoice and the payment that pays it.
type Payment struct {
	UserID    string
	InvoiceID string
	PaymentID string
	Amount    money.Amount
}

// taken returns the invoice of a payment. found is false if the invoice is not assigned to this payment any more.
func (p Payment) taken(ctx context.Context, tx *db.Tx) (v Invoice, found bool, err error) {
	v, err = find(ctx, tx, p.UserID, p.InvoiceID)
	return v, err == nil && v.PaymentID == p.PaymentID, err
}

// Settle records that the payment has arrived in full.
func (p Payment) Settle(ctx context.Context, tx *db.Tx) error {
	v, found, err := p.taken(ctx, tx)
	if err != nil || !found || v.Status != InPayroll {
		return err
	}
	if v.Paid, err = v.Paid.Add(p.Amount); err != nil {
		return err
	}
	if err := v.hold(ctx, tx, payer.Free); err != nil {
		return err
	}
	return v.advance(ctx, tx, Paid, "")
}

// Reopen records that the payment was returned and is being made again.
func (p Payment) Reopen(ctx context.Context, tx *db.Tx) error {
	v, found, err := p.taken(ctx, tx)
	if err != nil || !found || v.Status != Paid {
		return err
	}
	if v.Paid, err = v.Paid.Sub(p.Amount); err != nil {
		return err
	}
	if err := v.hold(ctx, tx, payer.HoldAgain); err != nil {
		return err
	}
	return v.advance(ctx, tx, InPayroll, "payment_returned")
}

// Drop records that the payment or its payroll has ended and only a part of the amount, possibly nothing, arrived.
func (p Payment) Drop(ctx context.Context, tx *db.Tx, arrived money.Amount) error {
	v, found, err := p.taken(ctx, tx)
	if err != nil || !found || v.Status != InPayroll {
		return err
	}
	if v.Paid, err = v.Paid.Add(arrived); err != nil {
		return err
	}
	if err := v.hold(ctx, tx, payer.Free); err != nil {
		return err
	}
	v.PayrollID, v.PaymentID = "", ""
	to := Sent
	if v.Paid.Sign() > 0 {
		to = PartiallyPaid
	}
	return v.advance(ctx, tx, to, "payroll_ended")
}

// Receive counts a payer's transfer towards an invoice, up to the amount due, and returns the counted amount. It
// returns ErrState if the invoice is not owed or is in a payroll, or if it is a bill, which only payrolls pay.
func Receive(ctx context.Context, tx *db.Tx, userID, id string, x money.Amount) (counted money.Amount, err error) {
	v, err := find(ctx, tx, userID, id)
	if err != nil {
		return counted, err
	}
	if !v.Payable() || v.Bill() {
		return counted, ErrState
	}
	due, err := v.Due()
	if err != nil {
		return counted, err
	}
	to := PartiallyPaid
	if counted = x; x.Cmp(due) >= 0 {
		counted, to = due, Paid
	}
	if v.Paid, err = v.Paid.Add(counted); err != nil {
		return counted, err
	}
	return counted, v.advance(ctx, tx, to, "transfer_received")
}

// TakeBack records that money counted towards an invoice was taken back. An invoice in a payroll keeps its counted
// amount, because the amount that is being paid cannot change.
func TakeBack(ctx context.Context, tx *db.Tx, userID, id string, x money.Amount) error {
	v, err := find(ctx, tx, userID, id)
	if err != nil {
		return err
	}
	if v.Status != Paid && v.Status != PartiallyPaid || v.Paid.Cmp(x) < 0 {
		return nil
	}
	if v.Paid, err = v.Paid.Sub(x); err != nil {
		return err
	}
	to := Sent
	if v.Paid.Sign() > 0 {
		to = PartiallyPaid
	}
	return v.advance(ctx, tx, to, "transfer_returned")
}

// advance stores the next version of an invoice, with its history and its event.
func (v *Invoice) advance(ctx context.Context, tx *db.Tx, to Status, reason string) error {
	from := v.Status
	v.Status, v.UpdatedAt = to, tx.Now()
	if err := update(ctx, tx, v, from); err != nil {
		return err
	}
	db.History(tx, v.UserID, v.ID, v.Version, string(from), string(to), reason)
	return v.emit(tx, webhook.InvoiceStatusUpdate, from)
}

func (v *Invoice) emit(tx *db.Tx, event webhook.Type[webhook.InvoiceData], from Status) error {
	if from == v.Status {
		from = "" // only the metadata changed
	}
	e := event.Event(v.CompanyID, v.ID, v.Version, webhook.InvoiceData{
		InvoiceID: v.ID, UserID: v.UserID, ExternalCompanyID: v.PayerID, Number: v.Number, Status: string(v.Status),
		PreviousStatus: string(from),
		Currency:       v.Currency, Total: v.Total, Paid: v.Paid, DueDate: v.DueDate, PayrollID: v.PayrollID,
		SubpayrollID: v.PaymentID, Metadata: v.Metadata,
	})
	if v.Bill() {
		return webhook.Emit(tx, e) // a bill is the company's own record
	}
	return webhook.Emit(tx, e.And(v.UserID)...)
}

func (v *Invoice) place() identity.SealContext {
	return identity.SealContext{Table: "invoices", Column: "content", Row: v.UserID + "/" + v.ID}
}

func (v *Invoice) seal(s *identity.Sealer) error {
	text, err := json.Marshal(v.Content)
	if err == nil {
		v.sealed, err = s.Seal(v.place(), text)
	}
	return err
}

func (v *Invoice) open(s *identity.Sealer) error {
	text, err := s.Open(v.place(), v.sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &v.Content)
}
