package virtualaccount

import (
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/webhook"
)

// Credited is the state of a transfer that was credited to its owner's balance.
const Credited = "credited"

// Returned is the state of a transfer that was taken back from its owner.
const Returned = "returned"

// JobTransfer is the kind of the job that reports a transfer to a user, or the return of a transfer. Its payload is a
// [webhook.TransferData].
const JobTransfer = "transfer.changed"

// Announce reports a transfer received on a funding account or on the operator's account (package bankreceipt). It
// emits the event, and enqueues a JobTransfer if the owner is a user.
func Announce(tx *db.Tx, ownerID string, version int64, d webhook.TransferData) error {
	if identity.IsUser(ownerID) {
		d.UserID = ownerID
		job.Enqueue(tx, job.New{CompanyID: ownerID, Kind: JobTransfer, Payload: d})
	}
	event := webhook.TransferStatusUpdate
	if d.PreviousStatus == "" {
		event = webhook.TransferReceived
	}
	return webhook.Emit(tx, event.Event(d.CompanyID, d.TransferID, version, d).And(d.UserID)...)
}
