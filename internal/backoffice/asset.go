package backoffice

import (
	"context"
	"fmt"
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

var (
	errAsset        = apierr.New(apierr.Invalid, "invalid_parameter", "Choose an asset and a state.")
	errAssetChanged = apierr.New(apierr.Conflict, "invalid_state",
		"The state of the asset has changed since this was requested. Drop the request, and make a new one.")
)

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
	r := approval.Request{Action: SwitchAsset, ObjectID: code, Target: fmt.Sprintf(switchFormat, now, to), Reason: reason}
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

// switchFormat is the target of a request to stop less: the state before and after.
const switchFormat = "%s → %s"

// switchAsset performs an approved request, and resumes payouts that waited. It fails if the state is not the one for
// which the request was made: staff may have stopped more since.
func switchAsset(ctx context.Context, tx *db.Tx, r approval.Request) error {
	var from, to offering.State
	if _, err := fmt.Sscanf(r.Target, switchFormat, &from, &to); err != nil {
		return err
	}
	done, err := offering.Change(ctx, tx, money.Asset(r.ObjectID), from, to)
	if err != nil {
		return err
	}
	if !done {
		return errAssetChanged
	}
	return payout.WakePaused(ctx, tx)
}
