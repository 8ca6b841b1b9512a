package virtualaccount

import (
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
)

// Credited is the state of a transfer that is in its owner's balance.
const Credited = "credited"

// Returned is the state of a transfer that was taken back from its owner.
const Returned = "returned"

// EmitTransfer emits the event of a transfer received on a funding account or on the operator's account (package
// bankreceipt). A transfer to a user without a company has no event.
func EmitTransfer(tx *db.Tx, ownerID string, version int64, d webhook.TransferData) error {
	if d.CompanyID == "" {
		return nil
	}
	if ownerID != d.CompanyID {
		d.UserID = ownerID
	}
	event := webhook.TransferStatusUpdate
	if d.PreviousStatus == "" {
		event = webhook.TransferReceived
	}
	return webhook.Emit(tx, event.Event(d.CompanyID, d.TransferID, version, d))
}
