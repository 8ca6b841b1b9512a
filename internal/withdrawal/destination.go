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
	maxDestinations = 10 // largest number of destinations of a company
	maxLabel        = 60 // longest label, in bytes
)

var errDestinations = apierr.New(apierr.Conflict, "distribution_limit",
	"A company can have ten destinations. Remove one first.")

// Destination is an address or bank account of a company to which the company withdraws money.
type Destination struct {
	CompanyID, ID string
	Label         string
	To            destination.Destination // the address or account, masked and sealed
	Removed       bool
	ReadyAt       time.Time // end of the cool-down; the destination can be used from then on
	CreatedBy     string
	CreatedAt     time.Time

	version int64
}

// snapshot returns the destination in the form that is stored with a payout.
func (d Destination) snapshot() (json.RawMessage, error) { return json.Marshal(d.To) }

// screeningSubject returns the subject for sanctions screening: the company's name and the destination, under the
// destination's ID.
func (d Destination) screeningSubject(company identity.Company) destination.ScreeningSubject {
	return destination.ScreeningSubject{
		Payee: payee.Payee{ID: d.ID, Name: company.Name}, To: []destination.Destination{d.To},
	}
}

// Hint returns a description of the destination for people who know it: its label, its asset and the unmasked part of
// its data.
func (d Destination) Hint() string {
	return strings.TrimSpace(strings.Join([]string{d.Label, string(d.To.Symbol), d.To.Hint()}, " "))
}

// AddDestination adds a destination. Only a signed-in owner or administrator can add one. The caller must check that
// the member has just used a second factor. All owners and administrators get a mail.
func (s *Service) AddDestination(ctx context.Context, tx *db.Tx, by identity.Principal, label, symbol string,
	data []byte,
) (Destination, error) {
	company, err := s.activeCompany(ctx, tx, by, "")
	if err != nil {
		return Destination{}, err
	}
	// This locks the company, so that concurrent additions wait for each other.
	if _, err := identity.NextCompanyVersion(ctx, tx, company.ID); err != nil {
		return Destination{}, err
	}
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return Destination{}, err
	}
	have, err := destinations(ctx, tx, company.ID)
	if err != nil {
		return Destination{}, err
	}
	if len(have) >= maxDestinations {
		return Destination{}, errDestinations.At("body", "/label")
	}
	label = strings.Join(strings.FieldsFunc(label, identity.Unprintable), " ") // mails contain the label
	label = strings.TrimSpace(label)
	if len(label) > maxLabel {
		label = strings.ToValidUTF8(label[:maxLabel], "")
	}
	to, err := s.Setup.Own(ctx, tx, company.ID, company.Country, symbol, data)
	if err != nil {
		return Destination{}, err
	}
	d := Destination{
		CompanyID: company.ID, ID: to.ID, Label: label, To: to, ReadyAt: s.CoolDown.ReadyAt(tx.Now()), CreatedBy: by.UserID,
		CreatedAt: tx.Now(), version: 1,
	}
	if err := insertDestination(ctx, tx, d); err != nil {
		return d, err
	}
	db.History(tx, d.CompanyID, d.ID, d.version, "", "active", "added by "+by.UserID)
	return d, d.notify(ctx, tx, company, mail.Added)
}

// RemoveDestination removes a destination and cancels its withdrawals that are not being paid yet. Removing a
// destination twice has no effect.
func (s *Service) RemoveDestination(ctx context.Context, tx *db.Tx, by identity.Principal, id string) error {
	company, err := s.activeCompany(ctx, tx, by, "")
	if err != nil {
		return err
	}
	if _, err := approval.Administrators(ctx, tx, by); err != nil {
		return err
	}
	d, err := findDestination(ctx, tx, company.ID, id)
	switch {
	case err != nil:
		return err
	case d.ID == "":
		return errDestination
	case d.Removed:
		return nil
	}
	if err := removeDestination(ctx, tx, d); err != nil {
		return err
	}
	db.History(tx, d.CompanyID, d.ID, d.version+1, "active", "removed", "removed by "+by.UserID)
	waiting, err := selectWhere(ctx, tx, company.ID,
		"destination_id = $2 AND status IN ('pending', 'awaiting_approval', 'on_hold') ORDER BY created_at", d.ID)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		w.enqueue(tx, time.Time{})
	}
	return d.notify(ctx, tx, company, mail.Removed)
}

// notify emits an event, and mails the company and everyone who can change its destinations, so that an unauthorized
// change is noticed.
func (d Destination) notify(ctx context.Context, tx *db.Tx, company identity.Company, change string) error {
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

// DestinationOf returns a destination of a company, or a Destination without an ID if it does not exist or was
// removed.
func DestinationOf(ctx context.Context, tx *db.Tx, companyID, id string) (Destination, error) {
	d, err := findDestination(ctx, tx, companyID, id)
	if d.Removed {
		return Destination{}, err
	}
	return d, err
}

// Destinations returns a company's destinations, oldest first.
func Destinations(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) ([]Destination, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	return destinations(ctx, tx, company)
}
