package virtualaccount

import (
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Events of money that came in by bank, whoever reports it: the provider of a funding account, or a statement of the operator's
// bank (package transfer).
const (
	EventTransfer       = "transfer.received"
	EventTransferStatus = "transfer.status_update"
)

// Credited is where a transfer stands whose owner has the money.
const Credited = "credited"

// Returned is money that had come in and was taken back: it is no longer the owner's.
const Returned = "returned"

// Transfer is what partners hear of money that came in. Who sent it, and with which words, is between the sender and the owner.
type Transfer struct {
	CompanyID      string `json:"company_id"`
	UserID         string `json:"user_id"` // "" where the company itself is the owner
	ID             string `json:"transfer_id"`
	Status         string `json:"status"`
	PreviousStatus string `json:"previous_status,omitempty"`

	Currency          money.Asset `json:"currency"`
	Amount            string      `json:"amount"`
	PayrollID         string      `json:"payroll_id"`
	InvoiceID         string      `json:"invoice_id"`
	ExternalCompanyID string      `json:"external_company_id"`
}

// Emit tells the company of the transfer, which has the version. A user who acts for nobody has nobody to be told.
func (t Transfer) Emit(tx *db.Tx, ownerID string, version int64) error {
	if t.CompanyID == "" {
		return nil
	}
	if ownerID != t.CompanyID {
		t.UserID = ownerID
	}
	name := EventTransferStatus
	if t.PreviousStatus == "" {
		name = EventTransfer
	}
	return webhook.Emit(tx, webhook.Event{CompanyID: t.CompanyID, Name: name, ObjectID: t.ID, Sequence: version, Data: t})
}
