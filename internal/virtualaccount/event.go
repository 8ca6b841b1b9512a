package virtualaccount

import (
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/webhook"
)

// Credited is the state of a transfer whose amount its owner has.
const Credited = "credited"

// Returned is the state of a transfer that had come in and was taken back: it is no longer the owner's.
const Returned = "returned"

// EmitTransfer emits the event of a bank transfer, which came in to a funding account or to the operator's own account
// (package bankreceipt). A transfer of a user who acts for no company has no event.
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
