package claim

import (
	"encoding/json"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

// Events of this package.
const (
	EventCreated = "claim.created"
	EventStatus  = "claim.status_update"
	EventPayment = "user.payment_status_update"

	EventRefund       = "refund.created"
	EventRefundStatus = "refund.status_update"
	EventSettlement   = "settlement.created"
	EventSettings     = "merchant.settings_update"
)

// eventData is what every event of a claim tells. Figures are text, as in the answers of the interface.
type eventData struct {
	ClaimID        string      `json:"claim_id"`
	CompanyID      string      `json:"company_id"`
	PayerID        string      `json:"payer_id"`
	Status         State       `json:"status"`
	PreviousStatus State       `json:"previous_status,omitempty"`
	Exception      Exception   `json:"exception"`
	Reverted       bool        `json:"reverted"`
	Currency       money.Asset `json:"denomination_currency"`
	Amount         string      `json:"denomination_amount"`
	Due            string      `json:"due_amount"` // of it, what nothing seen in time covers; none once it is enough
	Funding        money.Asset `json:"funding_currency"`
	Seen           string      `json:"seen_amount"`     // in the funding currency, confirmed or not
	Received       string      `json:"received_amount"` // of that, what is confirmed
	Refundable     string      `json:"refundable_amount"`
	Refunded       string      `json:"refunded_amount"`
	TxHash         string      `json:"tx_hash"`
	CheckoutURL    string      `json:"checkout_url"`
	Quote          *quoteData  `json:"quote,omitempty"`
}

type quoteData struct {
	QuoteID   string `json:"quote_id"`
	ValidFrom string `json:"valid_from"`
	ValidTo   string `json:"valid_to"`
	Rate      string `json:"rate"`
	Amount    string `json:"denomination_amount"`
	Funding   string `json:"funding_amount"`
	Details   struct {
		Address string `json:"address"`
		Network string `json:"network"`
	} `json:"funding_details"`
}

func dataOf(q *quote.Quote) *quoteData {
	if q == nil {
		return nil
	}
	d := &quoteData{
		QuoteID: q.ID, ValidFrom: q.ValidFrom.UTC().Format(time.RFC3339), ValidTo: q.ValidTo.UTC().Format(time.RFC3339),
		Rate: q.Rate.String(), Amount: q.Due.String(), Funding: q.Funding.String(),
	}
	d.Details.Address, d.Details.Network = q.Address, q.Network
	return d
}

func (s *Service) data(c *Claim, due money.Amount) eventData {
	return eventData{
		ClaimID: c.ID, CompanyID: c.CompanyID, PayerID: c.PayerID, Status: c.State, Exception: c.Exception, Reverted: c.Reverted,
		Currency: c.Amount.Asset(), Amount: c.Amount.String(), Due: due.String(), Funding: c.Funding, Seen: c.Seen.String(),
		Received: c.Received().String(), Refundable: c.Refundable().String(), Refunded: c.Refunded.String(),
		TxHash: c.TxHash, CheckoutURL: s.CheckoutURL(c.ID), Quote: dataOf(c.Quote),
	}
}

func (s *Service) emitCreated(tx *db.Tx, c *Claim) error {
	return webhook.Emit(tx, webhook.Event{CompanyID: c.CompanyID, Name: EventCreated, ObjectID: c.ID, Sequence: c.Version, Data: s.data(c, c.Amount)})
}

// paymentData is the published form of user.payment_status_update, for a claim.
type paymentData struct {
	UserID       string  `json:"user_id"`
	SubpayrollID *string `json:"subpayroll_id"` // null: this is no payment of a pay run
	ClaimID      string  `json:"claim_id"`
	Status       State   `json:"status"`
	Payment      struct {
		SubpayrollID *string      `json:"subpayroll_id"`
		Received     bool         `json:"received"`
		Released     bool         `json:"released"`
		Fulfilled    bool         `json:"fulfilled"`
		Outputs      []outputData `json:"outputs"`
	} `json:"payment"`
}

type outputData struct {
	InputCurrency  money.Asset  `json:"input_currency"`
	OutputCurrency money.Asset  `json:"output_currency"`
	Input          money.Amount `json:"volume_input_in_input_currency"`
	Output         money.Amount `json:"volume_output_in_output_currency"`
	Fees           money.Amount `json:"fees"`
	TxHash         string       `json:"tx_hash"`
}

// emitStatus tells the merchant where a claim stands now and, where its state is another, what that means for the payment.
func (s *Service) emitStatus(tx *db.Tx, c, was *Claim, v verdict) error {
	d := s.data(c, v.left)
	if c.State != was.State {
		d.PreviousStatus = was.State
	}
	if err := webhook.Emit(tx, webhook.Event{CompanyID: c.CompanyID, Name: EventStatus, ObjectID: c.ID, Sequence: c.Version, Data: d}); err != nil {
		return err
	}
	if c.State == was.State {
		return nil
	}
	p := paymentData{UserID: c.PayerID, ClaimID: c.ID, Status: c.State}
	paid := c.State == Paid
	p.Payment.Received, p.Payment.Released, p.Payment.Fulfilled = paid, paid, paid
	p.Payment.Outputs = []outputData{}
	if c.Received().Sign() > 0 {
		p.Payment.Outputs = append(p.Payment.Outputs, outputData{
			InputCurrency: c.Funding, OutputCurrency: c.SettleIn, Input: c.Received(), Output: c.booked.merchant, Fees: c.booked.revenue, TxHash: c.TxHash,
		})
	}
	return webhook.Emit(tx, webhook.Event{CompanyID: c.CompanyID, Name: EventPayment, ObjectID: c.ID, Sequence: c.Version, Data: p})
}

// emit tells the merchant where a refund stands. The link, which is as good as the money, and the payer's address are not told.
func (r *Refund) emit(tx *db.Tx, name string, from RefundState) error {
	return webhook.Emit(tx, webhook.Event{CompanyID: r.CompanyID, Name: name, ObjectID: r.ID, Sequence: r.Version, Data: struct {
		RefundID       string      `json:"refund_id"`
		ClaimID        string      `json:"claim_id"`
		CompanyID      string      `json:"company_id"`
		Status         RefundState `json:"status"`
		PreviousStatus RefundState `json:"previous_status,omitempty"`
		Currency       money.Asset `json:"currency"`
		Amount         string      `json:"amount"`
		TxHash         string      `json:"tx_hash"`
		ExpiresAt      string      `json:"expires_at"`
	}{r.ID, r.ClaimID, r.CompanyID, r.State, from, r.Amount.Asset(), r.Amount.String(), r.TxHash, r.ExpiresAt.UTC().Format(time.RFC3339)}})
}

// emit tells the merchant what was settled. Where it goes on to a destination, the events of the withdrawal tell how.
func (x *Settlement) emit(tx *db.Tx) error {
	return webhook.Emit(tx, webhook.Event{CompanyID: x.CompanyID, Name: EventSettlement, ObjectID: x.ID, Sequence: 1, Data: struct {
		SettlementID string      `json:"settlement_id"`
		CompanyID    string      `json:"company_id"`
		Currency     money.Asset `json:"currency"`
		Amount       string      `json:"amount"`
		WithdrawalID string      `json:"withdrawal_id"` // "" where it stays in the balance
	}{x.ID, x.CompanyID, x.Amount.Asset(), x.Amount.String(), x.WithdrawalID}})
}

// emit tells the company what its settings are now, in the words of their answer.
func (s *Settings) emit(tx *db.Tx) error {
	return webhook.Emit(tx, webhook.Event{CompanyID: s.CompanyID, Name: EventSettings, ObjectID: settingsID, Sequence: s.Version, Data: struct {
		CompanyID     string      `json:"company_id"`
		ToleranceBps  int64       `json:"tolerance_bps"`
		Confirmations int64       `json:"confirmations"`
		Late          LatePolicy  `json:"late_policy"`
		GraceSeconds  int64       `json:"late_grace_seconds"`
		SettleIn      money.Asset `json:"settlement_currency"`
		Schedule      Schedule    `json:"settlement_schedule"`
		DestinationID string      `json:"settlement_destination_id"`
		SupportEmail  string      `json:"support_email"`
		Origins       []string    `json:"origins"`
	}{
		s.CompanyID, s.ToleranceBps, s.Confirmations, s.Late, s.GraceSeconds, s.SettleIn, s.Schedule, s.DestinationID, s.SupportEmail,
		append([]string{}, s.Origins...),
	}})
}

// origins are kept as JSON.
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
