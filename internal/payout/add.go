package payout

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// Changed is the payload of a JobChanged. OutputID is empty when several outputs changed.
type Changed struct {
	PayrollID string `json:"payroll_id"`
	OutputID  string `json:"output_id,omitempty"`
}

// Add enqueues outputs in the transaction of their release. It assigns an ID to each output without an ID. The caller
// credits each output's amount to account 2110, with the output's ID as dimension. Each output keeps a copy of its
// destination: a later change of the payee's destination does not affect it.
func Add(tx *db.Tx, outs []Output) error {
	for i := range outs {
		o := &outs[i]
		if err := o.check(); err != nil {
			return err
		}
		if o.ID == "" {
			o.ID = tx.NewID("out")
		}
		if len(o.Destination) == 0 {
			o.Destination = []byte("{}")
		}
		o.State, o.Version, o.QueuedAt, o.UpdatedAt = Queued, 1, tx.Now(), tx.Now()
	}
	addOutputs(tx, outs)
	type queue struct {
		companyID string
		rail      RailName
	}
	enqueued := map[queue]bool{}
	for _, o := range outs {
		if q := (queue{o.CompanyID, o.Rail}); !enqueued[q] {
			enqueued[q] = true
			EnqueuePrepare(tx, o.CompanyID, o.Rail, time.Time{})
		}
	}
	return nil
}

// Hold keeps the outputs of a payroll from being prepared, including outputs that are queued again later. It returns
// the number of queued outputs. Outputs that are already prepared are not affected.
func Hold(ctx context.Context, tx *db.Tx, companyID, payrollID string) (int64, error) {
	return setOnHold(ctx, tx, companyID, payrollID, true)
}

// Resume ends the effect of [Hold]: the outputs of the payroll can be prepared again.
func Resume(ctx context.Context, tx *db.Tx, companyID, payrollID string) error {
	n, err := setOnHold(ctx, tx, companyID, payrollID, false)
	if err != nil || n == 0 {
		return err
	}
	rails, err := queuedRails(ctx, tx, companyID, payrollID)
	for _, rail := range rails {
		EnqueuePrepare(tx, companyID, rail, time.Time{})
	}
	return err
}

// HoldOutputs keeps some outputs of a company from being prepared, including outputs that are queued again later.
func HoldOutputs(ctx context.Context, tx *db.Tx, companyID string, ids []string) error {
	return setOutputsOnHold(ctx, tx, companyID, ids, true)
}

// ResumeOutputs ends the effect of [HoldOutputs].
func ResumeOutputs(ctx context.Context, tx *db.Tx, companyID string, ids []string) error {
	if err := setOutputsOnHold(ctx, tx, companyID, ids, false); err != nil {
		return err
	}
	rails, err := railsOf(ctx, tx, companyID, ids)
	for _, rail := range rails {
		EnqueuePrepare(tx, companyID, rail, time.Time{})
	}
	return err
}

// Correct queues a failed, returned or still queued output again with another destination. The rail, amount, rate,
// address and destination may differ from the stored ones. A caller that changes the asset must also change the
// amount owed to the output (account 2110), in the same transaction. The output keeps its ID, so it is paid only once
// even after several corrections. Correct returns ErrProcessing if the output is being paid or was paid, or was
// changed since it was read.
func Correct(ctx context.Context, tx *db.Tx, o Output) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := requeue(ctx, tx, o); err != nil {
		return err
	}
	EnqueuePrepare(tx, o.CompanyID, o.Rail, time.Time{})
	Announce(tx, []Output{o})
	return nil
}

// Announce enqueues a JobChanged for each payroll that owns some of the outputs.
func Announce(tx *db.Tx, outs []Output) {
	type key struct{ company, payroll string }
	var order []key
	of := map[key][]string{}
	for _, o := range outs {
		k := key{o.CompanyID, o.PayrollID}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], o.ID)
	}
	for _, k := range order {
		p := Changed{PayrollID: k.payroll}
		if ids := of[k]; len(ids) == 1 {
			p.OutputID = ids[0]
		}
		job.Enqueue(tx, job.New{CompanyID: k.company, Kind: JobChanged, Payload: p})
	}
}
