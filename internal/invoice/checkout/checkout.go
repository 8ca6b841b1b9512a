// Package checkout lets the payer of a person's invoice pay the invoice in a coin, without an account.
//
// Each attempt is a claim of package claim that the person owns: it is priced, paid, reversed, refunded and shown on
// the checkout page like the claim of a merchant. An invoice has at most one claim at a time that accepts money, for
// the amount due.
//
//	opened → credited → opened  if a reorganization removed the payment
//
// Invariants:
//
//   - A paid claim is credited to the person's balance once ([Service.ClaimChanged]): its proceeds are settled and
//     count towards the invoice, and package income pays them to the person's destinations like a bank transfer.
//   - If a reorganization removes a payment, its amount no longer counts towards the invoice, and its income ends. If
//     the income was paid out already, the person owes the money.
//   - Money that is late or not enough does not pay the invoice automatically. The person accepts late money, or
//     refunds it.
package checkout

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/invoice/payer"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/webhook"
)

// Errors returned to payers and to the person.
var (
	ErrClosed = apierr.New(apierr.Conflict, "invalid_state",
		"This invoice is not open any more, or another amount is due. Open the link of the invoice again.")
	ErrNotOffered = apierr.New(apierr.Conflict, "invalid_state",
		"This invoice cannot be paid in a coin. Ask the person who sent it where to pay.")
	errNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such payment of this invoice.")
)

// Service creates and follows the claims of invoices.
type Service struct{ claims *claim.Service }

// New returns a Service.
func New(claims *claim.Service) (*Service, error) {
	if claims == nil {
		return nil, errors.New("checkout: the claims are required")
	}
	return &Service{claims}, nil
}

// payment is a claim of an invoice.
type payment struct {
	UserID, InvoiceID, ClaimID string

	number     int64        // 1 for the first claim of the invoice
	transferID string       // credit to the person's balance; "" while the claim is not credited
	counted    money.Amount // part of the credit that counts towards the invoice
}

// owner returns the principal that acts for a person on the claims of the person's invoices.
func owner(id, userID string) identity.Principal {
	return identity.Principal{ID: id, CompanyID: userID}
}

// Offered reports whether the payer can pay an invoice in a coin: the invoice is owed and the person is verified.
func Offered(ctx context.Context, tx *db.Tx, v invoice.Invoice) (bool, error) {
	if !v.Payable() || v.Bill() {
		return false, nil
	}
	u, err := identity.GetUser(ctx, tx, nil, v.UserID)
	return u.KYCStatus == identity.KYCApproved, err
}

// Open returns the claim with which the payer, who knows the token of the invoice's page, pays the amount due on the
// invoice. It returns the previous claim, unless that has ended or is for another amount.
func (s *Service) Open(ctx context.Context, tx *db.Tx, sealer *identity.Sealer, token string) (claimID string,
	err error) {
	shown, err := invoice.ByToken(ctx, tx, sealer, token)
	if err != nil {
		return "", err
	}
	v, err := invoice.Lock(ctx, tx, shown.UserID, shown.ID)
	if err != nil {
		return "", err
	}
	last, err := newest(ctx, tx, v)
	if err != nil {
		return "", err
	}
	due, err := v.Due()
	if err != nil {
		return "", err
	}
	by := owner(v.ID, v.UserID)
	if last.ClaimID != "" {
		if current, err := s.reuse(ctx, tx, by, last, due); err != nil || current {
			return last.ClaimID, err
		}
	}
	offered, err := Offered(ctx, tx, v)
	if err == nil && !offered {
		err = ErrNotOffered
	}
	if err != nil {
		return "", err
	}
	to, err := payer.Use(ctx, tx, v.UserID, v.PayerID)
	if err != nil {
		return "", err
	}
	c, err := s.claims.Create(ctx, tx, by, claim.CreateParams{
		PayerID: v.PayerID, LinkID: v.ID, AmountText: due.String(), Currency: string(due.Asset()), Funding: claim.AnyAsset,
		Description: v.Number, Email: to.Email,
	})
	if err != nil {
		return "", err
	}
	return c.ID, insert(ctx, tx, payment{UserID: v.UserID, InvoiceID: v.ID, ClaimID: c.ID, number: last.number + 1,
		counted: money.Zero(due.Asset())})
}

// reuse reports whether the payer can use the previous claim. It cancels a claim for another amount that has received
// nothing.
func (s *Service) reuse(ctx context.Context, tx *db.Tx, by identity.Principal, last payment, due money.Amount) (bool,
	error) {
	d, err := s.claims.Get(ctx, tx, by, "", last.ClaimID)
	if err != nil {
		return false, err
	}
	switch {
	case d.State == claim.Paid:
		return last.transferID == "", nil // the claim will be credited within moments
	case d.State == claim.Cancelled || d.State == claim.Refunded || d.Refunding:
		return false, nil
	case d.State == claim.Confirming:
		return true, nil
	case d.Amount == due:
		return true, nil
	case d.State == claim.AwaitingPayment || d.State == claim.Expired:
		_, err := s.claims.Cancel(ctx, tx, by, "", d.ID)
		if _, seen := apierr.As(err); seen { // a payment was just seen
			return true, nil
		}
		return false, err
	}
	return false, nil
}

// Renewable returns ErrClosed if the payer of an invoice's claim must not get a new price, because the invoice is no
// longer owed or another amount is due. It implements the guard Renewable of package claim.
func Renewable(ctx context.Context, tx *db.Tx, ownerID, linkID string, amount money.Amount) error {
	if !invoice.Is(linkID) {
		return nil
	}
	v, err := invoice.Lock(ctx, tx, ownerID, linkID)
	if err != nil {
		return err
	}
	due, err := v.Due()
	if err == nil && (!v.Payable() || due != amount) {
		err = ErrClosed
	}
	return err
}

// ClaimChanged credits a paid claim of an invoice, and takes the credit back if the payment disappears (job
// claim.linked).
func (s *Service) ClaimChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var named claim.Linked
	if err := j.Decode(&named); err != nil {
		return err
	}
	// The claim is read after the lock, so that the last of its jobs sees the final state.
	p, err := lock(ctx, tx, j.CompanyID, named.ClaimID)
	if err != nil {
		return err
	}
	by := owner(p.InvoiceID, p.UserID)
	d, err := s.claims.Get(ctx, tx, by, "", p.ClaimID)
	if err != nil {
		return err
	}
	switch paid := d.State == claim.Paid; {
	case paid && p.transferID == "":
		return s.credit(ctx, tx, by, p, d)
	case !paid && p.transferID != "":
		return takeBack(ctx, tx, p, d)
	}
	return nil
}

// credit transfers the proceeds of a claim to the person's balance, from which package income pays them out. If an
// earlier payment disappeared after it was paid out, the proceeds first settle the person's debt, and only the rest
// is credited.
func (s *Service) credit(ctx context.Context, tx *db.Tx, by identity.Principal, p payment, d claim.Detail) error {
	v, err := invoice.Lock(ctx, tx, p.UserID, p.InvoiceID)
	if err != nil {
		return err
	}
	earned, err := ledger.Balance(ctx, tx, p.UserID, ledger.MerchantPayable, "", d.Amount.Asset())
	if err != nil {
		return err
	}
	if earned.Sign() > 0 {
		if _, err := s.claims.Settle(ctx, tx, by, "", string(earned.Asset()), ""); err != nil {
			return err
		}
	}
	if err := ledger.OffsetAll(ctx, tx, p.UserID); err != nil {
		return err
	}
	p.counted, err = invoice.Receive(ctx, tx, p.UserID, p.InvoiceID, d.Amount)
	if errors.Is(err, invoice.ErrState) { // meanwhile the invoice was paid in another way or withdrawn
		p.counted, err = money.Zero(d.Amount.Asset()), nil
	}
	if err != nil {
		return err
	}
	p.transferID = tx.NewID("dep")
	if err := update(ctx, tx, p); err != nil {
		return err
	}
	return announce(tx, v, p, d, 1, virtualaccount.Credited, "")
}

// takeBack reverses credit. The claim has posted the money as a debt of the person, which the balance settles.
func takeBack(ctx context.Context, tx *db.Tx, p payment, d claim.Detail) error {
	v, err := invoice.Lock(ctx, tx, p.UserID, p.InvoiceID)
	if err != nil {
		return err
	}
	if p.counted.Sign() > 0 {
		if err := invoice.TakeBack(ctx, tx, p.UserID, p.InvoiceID, p.counted); err != nil {
			return err
		}
	}
	if err := ledger.OffsetAll(ctx, tx, p.UserID); err != nil {
		return err
	}
	if err := announce(tx, v, p, d, 2, virtualaccount.Returned, virtualaccount.Credited); err != nil {
		return err
	}
	p.transferID, p.counted = "", money.Zero(d.Amount.Asset())
	return update(ctx, tx, p)
}

func announce(tx *db.Tx, v invoice.Invoice, p payment, d claim.Detail, version int64, to, from string) error {
	db.History(tx, p.UserID, p.transferID, version, from, to, "")
	return virtualaccount.Announce(tx, p.UserID, version, webhook.TransferData{
		CompanyID: v.CompanyID, TransferID: p.transferID, Status: to, PreviousStatus: from, Currency: d.Amount.Asset(),
		Amount: d.Amount.String(), InvoiceID: v.ID, ExternalCompanyID: v.PayerID,
	})
}

// Payments returns the claims of an invoice of the acting user, oldest first.
func (s *Service) Payments(ctx context.Context, tx *db.Tx, by identity.Principal, userID,
	invoiceID string) (all []claim.Detail, err error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	found, err := ofInvoice(ctx, tx, user.ID, invoiceID)
	for _, p := range found {
		d, err := s.claims.Get(ctx, tx, owner(by.ID, user.ID), "", p.ClaimID)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, err
}

// Accept counts late money of a claim at the current rate, by a decision of the person.
func (s *Service) Accept(ctx context.Context, tx *db.Tx, by identity.Principal, userID, invoiceID,
	claimID string) error {
	on, err := s.decides(ctx, tx, by, userID, invoiceID, claimID)
	if err == nil {
		_, err = s.claims.Refresh(ctx, tx, on, "", claimID)
	}
	return err
}

// Refund offers the payer a refund of a claim, by a decision of the person: of an overpayment, or of all money if it
// was late or not enough. It returns the link, which is also mailed to the payer if the payer's email address is
// known.
func (s *Service) Refund(ctx context.Context, tx *db.Tx, by identity.Principal, userID, invoiceID,
	claimID string) (r claim.Refund, link string, err error) {
	on, err := s.decides(ctx, tx, by, userID, invoiceID, claimID)
	if err != nil {
		return r, "", err
	}
	r, token, err := s.claims.Refund(ctx, tx, on, "", claimID)
	if err != nil {
		return r, "", err
	}
	return r, s.claims.RefundURL(claimID, token), nil
}

// decides returns the principal for a decision of the acting user about a claim of the user's own invoice.
func (s *Service) decides(ctx context.Context, tx *db.Tx, by identity.Principal, userID, invoiceID,
	claimID string) (identity.Principal, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return by, err
	}
	p, err := lock(ctx, tx, user.ID, claimID)
	if err == nil && p.InvoiceID != invoiceID {
		err = errNotFound
	}
	return owner(by.ID, user.ID), err
}
