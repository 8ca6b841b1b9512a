package backoffice

import (
	"context"
	"slices"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/offering"
	"github.com/stipend/stipend/internal/payout"
)

// SwitchAsset is the action of changing the state of an asset. One member of staff can stop more, and two are needed to
// stop less.
const SwitchAsset = "asset.switch"

var errAsset = apierr.New(apierr.Invalid, "invalid_parameter", "Choose an asset and a state.")

// SwitchAsset stops something in an asset at once, or requests that less is stopped.
func (s *Service) SwitchAsset(ctx context.Context, tx *db.Tx, by Session, code string, to offering.State,
	reason string) error {
	reason, err := reasonOf(reason)
	if err != nil {
		return err
	}
	asset, known := money.Lookup(code)
	rank := slices.Index(offering.States, to)
	if !known || rank < 0 {
		return errAsset.At("body", "")
	}
	now, err := offering.Of(ctx, tx, asset)
	if err != nil {
		return err
	}
	r := approval.Request{Action: SwitchAsset, ObjectID: code, Target: string(to), Reason: reason}
	switch {
	case now == to:
		return errNothing
	case rank < slices.Index(offering.States, now):
		return request(ctx, tx, by, r)
	}
	if err := offering.Set(ctx, tx, asset, to); err != nil {
		return err
	}
	return record(ctx, tx, by.Member, AuditEntry{Action: SwitchAsset, ObjectID: code, Reason: why(r)})
}

// switchAsset performs an approved request, and resumes payouts that waited.
func switchAsset(ctx context.Context, tx *db.Tx, r approval.Request) error {
	asset := money.Asset(r.ObjectID)
	if err := offering.Set(ctx, tx, asset, offering.State(r.Target)); err != nil {
		return err
	}
	return payout.WakePaused(ctx, tx)
}
