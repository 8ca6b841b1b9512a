package withdrawal

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
)

const (
	// maxDestinations is how many a company has at a time.
	maxDestinations = 10
	// maxLabel is how long the name of one may be, in bytes.
	maxLabel = 60
)

var errDestinations = apierr.New(apierr.Conflict, "distribution_limit", "A company has ten destinations at most. Remove one first.")

// Destination is where a company takes its money to.
type Destination struct {
	CompanyID, ID string
	Label         string
	To            destination.Distribution // masked and sealed
	Removed       bool
	ReadyAt       time.Time // money can go there from then on
	CreatedBy     string
	CreatedAt     time.Time

	version int64
}

// snapshot is the destination as payouts keep it.
func (d Destination) snapshot() (json.RawMessage, error) { return json.Marshal(d.To) }

// whom is the destination as sanctions lists are asked for it: the company under the destination's id.
func (d Destination) whom(company identity.Company) destination.ScreeningSubject {
	return destination.ScreeningSubject{Payee: payee.Payee{ID: d.ID, Name: company.Name}, To: []destination.Distribution{d.To}}
}

// Hint tells the destination from others to somebody who knows it: its name, and what of it is shown.
func (d Destination) Hint() string {
	return strings.TrimSpace(strings.Join([]string{d.Label, string(d.To.Symbol), d.To.Hint()}, " "))
}

// AddDestination names a destination. Only an owner or administrator who is signed in may; that they have just shown a second
// factor is the caller's to see to. Everybody who may is told by mail.
func (s *Service) AddDestination(ctx context.Context, tx *db.Tx, by identity.Principal, label, symbol string, data []byte) (Destination, error) {
	company, err := s.acting(ctx, tx, by, "")
	if err != nil {
		return Destination{}, err
	}
	if _, err := identity.NextCompanyVersion(ctx, tx, company.ID); err != nil { // two that add at once see each other
		return Destination{}, err
	}
	if _, err := approval.Approvers(ctx, tx, by); err != nil {
		return Destination{}, err
	}
	have, err := destinations(ctx, tx, company.ID)
	if err != nil {
		return Destination{}, err
	}
	if len(have) >= maxDestinations {
		return Destination{}, errDestinations.At("body", "/label")
	}
	label = strings.TrimSpace(label)
	if len(label) > maxLabel {
		label = strings.ToValidUTF8(label[:maxLabel], "")
	}
	to, err := s.Setup.Own(ctx, tx, company.ID, company.Country, symbol, data)
	if err != nil {
		return Destination{}, err
	}
	d := Destination{CompanyID: company.ID, ID: to.ID, Label: label, To: to, ReadyAt: s.CoolDown.ReadyAt(tx.Now()), CreatedBy: by.UserID, CreatedAt: tx.Now(), version: 1}
	if err := insertDestination(ctx, tx, d); err != nil {
		return d, err
	}
	db.History(tx, d.CompanyID, d.ID, d.version, "", "active", "added by "+by.UserID)
	return d, d.tell(ctx, tx, company, mail.Added)
}

// RemoveDestination takes a destination out of use; withdrawals that wait to go there are cancelled. Removing it again is fine.
func (s *Service) RemoveDestination(ctx context.Context, tx *db.Tx, by identity.Principal, id string) error {
	company, err := s.acting(ctx, tx, by, "")
	if err != nil {
		return err
	}
	if _, err := approval.Approvers(ctx, tx, by); err != nil {
		return err
	}
	d, err := findDestination(ctx, tx, company.ID, id)
	switch {
	case err != nil:
		return err
	case d.ID == "":
		return errTo
	case d.Removed:
		return nil
	}
	if err := removeDestination(ctx, tx, d); err != nil {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.version+1, "active", "removed", "removed by "+by.UserID)
	waiting, err := selectWhere(ctx, tx, company.ID, "destination_id = $2 AND status IN ('pending', 'awaiting_approval', 'on_hold') ORDER BY created_at", d.ID)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		w.enqueue(tx, time.Time{})
	}
	return d.tell(ctx, tx, company, mail.Removed)
}

// tell leaves the event, and writes to the company and to everybody who may change where its money goes: one of them notices when
// nobody meant it.
func (d Destination) tell(ctx context.Context, tx *db.Tx, company identity.Company, change string) error {
	if err := destination.TellCompany(ctx, tx, company.ID, change, d.To); err != nil {
		return err
	}
	to, err := auth.Administrators(ctx, tx, company)
	if err != nil {
		return err
	}
	for address, name := range to {
		if err := mail.Enqueue(ctx, tx, mail.Message{
			CompanyID: company.ID, To: address, Template: mail.DestinationChanged, Language: mail.LanguageOf(company.Country),
			Key:  d.ID + "/" + change + "/" + identity.EmailKey(address),
			Data: mail.DestinationChangedData{Name: name, Change: change, Destination: d.Hint(), At: tx.Now()},
		}); err != nil {
			return err
		}
	}
	return nil
}

// DestinationOf is one that a company has; without an ID when it has no such one any more.
func DestinationOf(ctx context.Context, tx *db.Tx, companyID, id string) (Destination, error) {
	d, err := findDestination(ctx, tx, companyID, id)
	if d.Removed {
		return Destination{}, err
	}
	return d, err
}

// Destinations are the ones that a company has, oldest first.
func Destinations(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) ([]Destination, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	return destinations(ctx, tx, company)
}
