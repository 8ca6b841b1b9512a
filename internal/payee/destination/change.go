package destination

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/webhook"
)

// Change is one entry in the history of an owner's destinations. Entries are never deleted, even if the destination
// is.
type Change struct {
	ID             string
	OwnerID        string
	DistributionID string
	Action         string // added, replaced, removed, reallocated
	By             Actor
	Before, After  json.RawMessage // [State] of the destination before and after the change; null if it did not exist
	At             time.Time
}

// Actor identifies who made a change.
type Actor struct {
	Kind         identity.Kind
	CredentialID string
	CompanyID    string
	UserID       string // "" for an API key
}

// State describes a destination in the history. Bank data is masked.
type State struct {
	Kind       string          `json:"distribution_type"`
	Symbol     money.Asset     `json:"symbol"`
	Network    string          `json:"network,omitempty"`
	Data       json.RawMessage `json:"distribution_data"`
	Allocation int             `json:"allocation"`

	FixedAmount   json.Number `json:"fixed_amount,omitempty"`
	FixedCurrency money.Asset `json:"fixed_currency,omitempty"`
}

// change is a destination before and after a change. A side is nil if the destination did not exist.
type change struct{ before, after *Destination }

func (c change) either() Destination {
	if c.after != nil {
		return *c.after
	}
	return *c.before
}

func state(d *Destination) (json.RawMessage, error) {
	if d == nil {
		return json.RawMessage("null"), nil
	}
	s := State{Kind: d.Kind, Symbol: d.Symbol, Network: d.Network, Data: d.Data, Allocation: d.Allocation}
	if d.Fixed.Sign() > 0 {
		s.FixedAmount, s.FixedCurrency = json.Number(d.Fixed.String()), d.Fixed.Asset()
	}
	return json.Marshal(s)
}

// tell records a change of an owner's destinations and mails the company and the owner, so that the owner notices
// changes made by others. If the change affects payments, tell stores its time; see [ChangedSince].
func tell(ctx context.Context, tx *db.Tx, by identity.Principal, owner payee.Payee, version int64, action string,
	changes ...change) error {
	e := webhook.DestinationChangeData{RecipientID: owner.ID, UserID: owner.UserID, Change: action}
	moves := false
	for _, c := range changes {
		d := c.either()
		if err := insertChange(tx, by, owner.ID, d.ID, action, c); err != nil {
			return err
		}
		if action == mail.Added || action == mail.Replaced {
			entered(tx, owner, d)
		}
		share := webhook.DestinationShare{DistributionID: d.ID, Symbol: d.Symbol}
		if c.after != nil {
			share.Allocation, share.FixedAmount, share.FixedCurrency = c.after.Allocation, c.after.Fixed, c.after.Fixed.Asset()
			moves = moves || c.after.Used() || c.before != nil && c.before.Fixed.Sign() > 0 // the rest grows
		}
		e.Distributions = append(e.Distributions, share)
	}
	if moves {
		if err := markMoved(ctx, tx, owner.ID); err != nil {
			return err
		}
	}
	if added := action == mail.Added || action == mail.Replaced; added || moves {
		if err := payee.Moved(ctx, tx, by, owner, added, moves); err != nil {
			return err
		}
	}
	if err := webhook.EmitNext(ctx, tx,
		webhook.DistributionChanged.Event(owner.CompanyID, owner.ID, 0, e).And(owner.UserID)...); err != nil {
		return err
	}
	if !mail.Valid(owner.Email) {
		return nil
	}
	label := ""
	if len(changes) == 1 {
		label = changes[0].either().label()
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: by.CompanyID, To: owner.Email, Template: mail.DestinationChanged, Language: mail.LanguageOf(owner.Country),
		Key:  owner.ID + "/" + strconv.FormatInt(version, 10),
		Data: mail.DestinationChangedData{Name: owner.Name, Change: action, Destination: label, At: tx.Now()},
	})
}

// TellCompany emits an event about a destination of the company itself that was added or removed.
func TellCompany(ctx context.Context, tx *db.Tx, companyID, action string, d Destination) error {
	return webhook.EmitNext(ctx, tx, webhook.DistributionChanged.Event(companyID, companyID, 0,
		webhook.DestinationChangeData{
			CompanyID: companyID, Change: action,
			Distributions: []webhook.DestinationShare{{DistributionID: d.ID, Symbol: d.Symbol, Allocation: d.Allocation,
				FixedAmount: d.Fixed, FixedCurrency: d.Fixed.Asset()}},
		}))
}

// History returns a page of the changes of an owner's destinations, newest first, and the total number of changes.
// The principal must be allowed to act for the owner.
func History(ctx context.Context, tx *db.Tx, by identity.Principal, ownerID string, page db.Page) (
	[]Change, int64, error) {
	owner, err := payee.Owner(ctx, tx, by, ownerID)
	if err != nil {
		return nil, 0, err
	}
	return selectChanges(ctx, tx, owner.ID, page)
}

// ChangedSince returns, for each owner whose payment destinations changed after a given time, the time of the latest
// change. Like [ForOwners], it does not check access.
func ChangedSince(ctx context.Context, tx *db.Tx, owners []string, since time.Time) (map[string]time.Time, error) {
	return selectMoved(ctx, tx, owners, since)
}
