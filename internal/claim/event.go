package claim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

func (s *Service) data(c *Claim, due money.Amount) webhook.ClaimData {
	d := webhook.ClaimData{
		ClaimID: c.ID, CompanyID: c.CompanyID, PayerID: c.PayerID, ExternalID: c.ExternalID,
		Metadata: c.Metadata, Status: string(c.State),
		Exception: string(c.Exception), Reverted: c.Reverted,
		Currency: c.Amount.Asset(), Amount: c.Amount.String(), Due: due.String(), Funding: c.Funding,
		Seen:     c.Seen.String(),
		Received: c.Received().String(), Refundable: c.Refundable().String(), Refunded: c.RefundedTotal().String(),
		TxHash: c.TxHash, CheckoutURL: s.CheckoutURL(c.ID), LinkID: c.LinkID,
	}
	if c.Quote != nil {
		q := c.Quote.ForClaim()
		d.Quote = &q
	}
	return d
}

func (s *Service) emitCreated(tx *db.Tx, c *Claim) error {
	if identity.IsUser(c.CompanyID) { // events are for companies only
		return nil
	}
	return webhook.Emit(tx, webhook.ClaimCreated.Event(c.CompanyID, c.ID, c.Version, s.data(c, c.Amount)))
}

// emitStatus emits the claim's current state and, if the state changed, an event of the payment.
func (s *Service) emitStatus(tx *db.Tx, c, was *Claim, v verdict) error {
	if c.LinkID != "" && c.State != was.State {
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobLinked, Payload: Linked{c.ID, c.LinkID}})
	}
	if identity.IsUser(c.CompanyID) { // the events of the invoice inform its company
		return nil
	}
	d := s.data(c, v.left)
	if c.State != was.State {
		d.PreviousStatus = string(was.State)
	}
	if err := webhook.Emit(tx, webhook.ClaimStatusUpdate.Event(c.CompanyID, c.ID, c.Version, d)); err != nil {
		return err
	}
	if c.State == was.State {
		return nil
	}
	id := c.ID
	p := webhook.PaymentData{UserID: c.PayerID, ClaimID: &id, Status: string(c.State)}
	paid := c.State == Paid
	p.Payment.Received, p.Payment.Released, p.Payment.Fulfilled = paid, paid, paid
	p.Payment.Outputs = []webhook.PaymentOutput{}
	if c.Received().Sign() > 0 {
		p.Payment.Outputs = append(p.Payment.Outputs, webhook.PaymentOutput{
			InputCurrency: c.Funding, OutputCurrency: c.SettleIn, Input: c.Received(), Output: c.booked.merchant,
			Fees: c.booked.revenue, TxHash: c.TxHash,
		})
	}
	return webhook.Emit(tx, webhook.UserPaymentStatusUpdate.Event(c.CompanyID, c.ID, c.Version, p))
}

// mailReceipt sends a receipt to the payer if the claim has an email address. It sends no second receipt for a claim
// that is paid again after a reorganization.
func (s *Service) mailReceipt(ctx context.Context, tx *db.Tx, c *Claim) error {
	to, err := s.payerEmail(c)
	if err != nil || to == "" {
		return err
	}
	company, err := ownerOf(ctx, tx, c.CompanyID)
	if err != nil {
		return err
	}
	settings, err := settingsOf(ctx, tx, company)
	if err != nil {
		return err
	}
	brand, err := branding.Of(ctx, tx, c.CompanyID)
	if err != nil {
		return err
	}
	items := make([]string, len(c.Items))
	for i, one := range c.Items {
		items[i] = fmt.Sprintf("%d × %s: %s %s", one.Quantity, one.Description, one.Amount, c.Amount.Asset())
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: c.CompanyID, To: to, Template: mail.ClaimPaid, Key: c.ID, Language: brand.Language(company),
		Data: mail.ClaimPaidData{
			Company: brand.DisplayName(company), Amount: c.Amount.String() + " " + string(c.Amount.Asset()),
			Paid: c.Seen.String() + " " + string(c.Funding), Description: c.Description, Items: items,
			Order: c.ExternalID, ClaimID: c.ID, At: tx.Now(), ThankYou: brand.ThankYou, Support: settings.SupportEmail,
		},
	})
}

// emit emits the current state of a refund. The event contains neither the link, which is a secret, nor the payer's
// address.
func (r *Refund) emit(tx *db.Tx, event webhook.Type[webhook.RefundData], from RefundState) error {
	if identity.IsUser(r.CompanyID) {
		return nil
	}
	d := webhook.RefundData{
		RefundID: r.ID, ClaimID: r.ClaimID, CompanyID: r.CompanyID, Status: string(r.State),
		PreviousStatus: string(from),
		Currency:       r.Amount.Asset(), Amount: r.Amount.String(), TxHash: r.TxHash,
		ExpiresAt: webhook.FormatTime(r.ExpiresAt),
	}
	if r.OfMerchant() {
		d.Value, d.ValueCurrency = r.Value.String(), r.Value.Asset()
		d.Cost, d.CostCurrency = r.Cost.String(), r.Cost.Asset()
	}
	return webhook.Emit(tx, event.Event(r.CompanyID, r.ID, r.Version, d))
}

// emit emits an event for the settlement. If the settlement is paid out to a destination, the withdrawal has events
// of its own.
func (x *Settlement) emit(tx *db.Tx) error {
	if identity.IsUser(x.CompanyID) {
		return nil
	}
	d := webhook.SettlementData{
		SettlementID: x.ID, CompanyID: x.CompanyID, Currency: x.Amount.Asset(), Amount: x.Amount.String(),
		EarnedCurrency: x.Earned.Asset(), Earned: x.Earned.String(), WithdrawalID: x.WithdrawalID,
	}
	if !x.Rate.IsZero() {
		d.Rate = x.Rate.String()
	}
	return webhook.Emit(tx, webhook.SettlementCreated.Event(x.CompanyID, x.ID, 1, d))
}

// emit emits the company's current settings, in the form of the API's response.
func (s *Settings) emit(tx *db.Tx) error {
	return webhook.Emit(tx, webhook.MerchantSettingsUpdate.Event(s.CompanyID, settingsID, s.Version,
		webhook.MerchantSettingsData{
			CompanyID: s.CompanyID, ToleranceBps: s.ToleranceBps, Confirmations: s.Confirmations,
			LatePolicy:   string(s.Late),
			GraceSeconds: s.GraceSeconds, SettleIn: s.SettleIn, Schedule: string(s.Schedule),
			TimeZone: s.TimeZone, Day: Days[s.Day], ConvertTo: s.ConvertTo, DestinationID: s.DestinationID,
			SupportEmail: s.SupportEmail, Origins: append([]string{}, s.Origins...),
		}))
}

// readOrigins and writeOrigins convert a list of origins from and to JSON.
func readOrigins(text string) (origins []string, err error) {
	err = json.Unmarshal([]byte(text), &origins)
	return origins, err
}

func writeOrigins(origins []string) string {
	text, err := json.Marshal(append([]string{}, origins...))
	if err != nil {
		panic("claim: origins are strings: " + err.Error())
	}
	return string(text)
}
