package bankreceipt

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/virtualaccount"
)

// match determines the owner of a credit and the object that the credit pays.
func (t *Transfer) match(ctx context.Context, tx *db.Tx) error {
	t.Reason = ReasonUnknown
	if t.file > 0 {
		company, err := bank.CollectReversal(ctx, tx, t.file, t.Amount)
		if err != nil {
			return err
		}
		if company != "" {
			t.State, t.Reason, t.OwnerID, t.CompanyID = Credited, ReasonReversal, company, company
			return nil
		}
	}
	for _, number := range []string{t.Number, t.BankAccount} {
		if number == "" {
			continue
		}
		account, err := virtualaccount.ByNumber(ctx, tx, number)
		if errors.Is(err, virtualaccount.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if account.Currency != t.Amount.Asset() {
			t.Reason = ReasonCurrency
			return nil
		}
		t.State, t.Reason, t.OwnerID, t.CompanyID = Credited, ReasonAccount, account.OwnerID, account.CompanyID
		break
	}
	mentioned := t.mentionedIDs()
	if t.State == Suspense {
		if err := t.matchOwner(ctx, tx, mentioned); err != nil || t.State == Suspense {
			return err
		}
	}
	return t.matchPurpose(ctx, tx, mentioned)
}

// ids matches the IDs that a payer may write. It omits the underscore, because banks remove it.
var ids = regexp.MustCompile(`(com|inv|prl)[0-9a-hjkmnp-tv-z]{26}`)

// mentionedIDs returns the IDs in the payer's text, whatever characters a bank or a person inserted. It tries every
// position, because the text before an ID may end with the letters of an ID's prefix.
func (t *Transfer) mentionedIDs() (found []string) {
	text := letters(strings.Join(t.Lines, " "))
	for i := range text {
		if at := ids.FindStringIndex(text[i:]); at != nil && at[0] == 0 {
			if id := text[i:i+3] + "_" + text[i+3:i+at[1]]; !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	return found
}

// letters returns the letters, in lower case and without accents, and the digits of a text.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(norm.NFKD.String(s)))
}

// matchOwner sets the owner if the mentioned IDs have exactly one owner.
func (t *Transfer) matchOwner(ctx context.Context, tx *db.Tx, mentioned []string) error {
	var owners []string
	var companyID string
	add := func(id, company string) {
		if id != "" && !slices.Contains(owners, id) {
			owners, companyID = append(owners, id), company
		}
	}
	for _, id := range mentioned {
		switch {
		case strings.HasPrefix(id, "com_"):
			c, err := identity.CompanyByID(ctx, tx, id)
			if err != nil && !isUnknown(err) {
				return err
			}
			add(c.ID, c.ID)
		case strings.HasPrefix(id, "inv_"):
			found, err := invoice.Named(ctx, tx, []string{id})
			if err != nil {
				return err
			}
			if v := found[id]; !v.Bill() { // a bill belongs to a vendor, who has no balance
				add(v.UserID, v.CompanyID)
			}
		default:
			company, err := payroll.CompanyOf(ctx, tx, id)
			if err != nil {
				return err
			}
			add(company, company)
		}
	}
	switch len(owners) {
	case 0:
		return nil
	case 1:
		t.State, t.Reason, t.OwnerID, t.CompanyID = Credited, ReasonReference, owners[0], companyID
		return nil
	}
	t.Reason = ReasonAmbiguous
	return nil
}

// matchPurpose determines the object that a credit pays: the payroll that the payer mentioned or, if the payer
// mentioned no ID, the payroll that waits for exactly this amount. Otherwise it determines the payer by name, and an
// invoice by its ID or number or, if none is mentioned, by payer and exact amount.
func (t *Transfer) matchPurpose(ctx context.Context, tx *db.Tx, mentioned []string) error {
	for _, id := range mentioned {
		if !strings.HasPrefix(id, "prl_") {
			continue
		}
		company, err := payroll.CompanyOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if company == t.OwnerID {
			t.PayrollID = id
		}
	}
	var err error
	if len(mentioned) == 0 && strings.HasPrefix(t.OwnerID, "com_") {
		if t.PayrollID, err = payroll.AwaitsTransfer(ctx, tx, t.OwnerID, t.Amount); err != nil {
			return err
		}
	}
	if t.PayrollID != "" {
		if t.fundsPayroll, err = payroll.TakesTransfer(ctx, tx, t.OwnerID, t.PayrollID, t.Amount.Asset()); err != nil ||
			t.fundsPayroll {
			return err
		}
	}
	payers, err := payer.Of(ctx, tx, t.OwnerID)
	if err != nil {
		return err
	}
	if who := letters(t.Debtor); who != "" {
		same := slices.DeleteFunc(slices.Clone(payers), func(p payer.Payer) bool { return letters(p.Name) != who })
		if len(same) == 1 {
			t.PayerID = same[0].ID
		}
	}
	open, err := invoice.Open(ctx, tx, t.OwnerID, t.Amount.Asset())
	if err != nil || len(open) == 0 {
		return err
	}
	var words []string
	for _, line := range t.Lines {
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) }) {
			words = append(words, letters(word))
		}
	}
	byName := func(v invoice.Invoice) bool {
		return slices.Contains(mentioned, v.ID) || slices.Contains(words, letters(v.Number))
	}
	exact := func(v invoice.Invoice) bool {
		due, err := v.Due()
		return err == nil && due.Cmp(t.Amount) == 0
	}
	pick := func(all []invoice.Invoice, by func(invoice.Invoice) bool) []invoice.Invoice {
		return slices.DeleteFunc(slices.Clone(all), func(v invoice.Invoice) bool { return !by(v) })
	}
	fit := pick(open, byName)
	if len(fit) == 0 && t.PayerID != "" {
		fit = pick(open, func(v invoice.Invoice) bool { return v.PayerID == t.PayerID && exact(v) })
	}
	if len(fit) > 1 {
		fit = pick(fit, exact)
	}
	if len(fit) != 1 {
		return nil
	}
	return t.applyToInvoice(ctx, tx, fit[0])
}

// applyToInvoice pays an invoice with a credit, up to the amount due.
func (t *Transfer) applyToInvoice(ctx context.Context, tx *db.Tx, v invoice.Invoice) (err error) {
	t.InvoiceID = v.ID
	if t.PayerID == "" {
		t.PayerID = v.PayerID
	}
	t.invoiceAmount, err = invoice.Receive(ctx, tx, v.UserID, v.ID, t.Amount)
	return err
}

// Assign credits a transfer in suspense to an owner, by a decision of staff. to is the ID of a company or user, or of
// an open invoice, a payer or a payroll whose owner gets the credit, or [ledger.Operator]. The transfer's currency
// may differ from the currency of the owner's funding account.
func Assign(ctx context.Context, tx *db.Tx, id, to string) (Transfer, error) {
	t, err := Get(ctx, tx, id)
	if err != nil {
		return t, err
	}
	if t.State != Suspense {
		return t, ErrState
	}
	if err := t.assignTo(ctx, tx, to); err != nil {
		return t, err
	}
	if err := t.advance(ctx, tx, Credited, ReasonOperator); err != nil {
		return t, err
	}
	if err := t.post(tx, "leave", ledger.Operator,
		ledger.Debit(ledger.SuspenseUnknown, t.ID, t.Amount), ledger.Credit(ledger.Bank, t.accountID, t.Amount)); err != nil {
		return t, err
	}
	return t, t.credit(ctx, tx)
}

// assignTo sets the owner that an ID determines, and the object that the transfer pays.
func (t *Transfer) assignTo(ctx context.Context, tx *db.Tx, to string) (err error) {
	kind, _, _ := strings.Cut(to, "_")
	switch kind {
	case "inv":
		found, err := invoice.Named(ctx, tx, []string{to})
		if err != nil {
			return err
		}
		v := found[to]
		if v.ID != "" && v.Bill() {
			return errBill
		}
		open, err := invoice.Open(ctx, tx, v.UserID, t.Amount.Asset())
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(open, func(o invoice.Invoice) bool { return o.ID == to }) {
			return errInvoice
		}
		t.OwnerID, t.CompanyID = v.UserID, v.CompanyID
		return t.applyToInvoice(ctx, tx, v)
	case "pyr":
		p, err := payer.ByID(ctx, tx, to)
		if isUnknown(err) {
			return errOwner
		}
		t.OwnerID, t.CompanyID, t.PayerID = p.OwnerID, p.CompanyID, p.ID
		return err
	case "prl":
		company, err := payroll.CompanyOf(ctx, tx, to)
		if err != nil || company == "" {
			return cmp.Or(err, error(errOwner))
		}
		t.OwnerID, t.CompanyID, t.PayrollID = company, company, to
		t.fundsPayroll, err = payroll.TakesTransfer(ctx, tx, company, to, t.Amount.Asset())
		return err
	}
	t.OwnerID = to
	t.CompanyID, err = notifiedCompany(ctx, tx, to)
	return err
}

// SendBack records that the bank, at the request of staff, sent a transfer in suspense back to its sender. Nothing
// more is booked when a statement shows the payment.
func SendBack(ctx context.Context, tx *db.Tx, id string) (Transfer, error) {
	t, err := Get(ctx, tx, id)
	if err != nil {
		return t, err
	}
	if t.State != Suspense {
		return t, ErrState
	}
	return t, t.reverse(ctx, tx, ReasonOperator)
}

// notifiedCompany returns the company that gets the events of an owner's transfers: the owner itself, or the company
// of the user. It returns an error if the ID is neither the ID of a company nor of a user.
func notifiedCompany(ctx context.Context, tx *db.Tx, id string) (company string, err error) {
	switch {
	case id == ledger.Operator:
		return "", nil
	case strings.HasPrefix(id, "com_"):
		_, err = identity.CompanyByID(ctx, tx, id)
		company = id
	default:
		var u identity.User
		u, err = identity.GetUser(ctx, tx, nil, id)
		company = u.CompanyID
	}
	if isUnknown(err) {
		err = errOwner
	}
	return company, err
}

func isUnknown(err error) bool { return errors.Is(err, apierr.NotFoundErr) }
