// Package payer stores external payers: parties to whom a user or company sends invoices, or who pay a merchant's
// claims.
//
// A payer belongs to its owner, a user or a company. It consists of a name and an address, and is never a credential:
// a payer cannot sign in and owns no money. Its states are
//
//	active → deleted
//
// A deleted payer keeps its row, because past payments refer to it. It is no longer listed and cannot be used. A
// payer cannot be deleted while one of its invoices is in a payroll that has not ended: package invoice counts such
// invoices with [Hold] and [Free].
package payer

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

// Status is the state of a payer.
type Status string

// States of a payer.
const (
	Active  Status = "active"
	Deleted Status = "deleted"
)

// Types of payers.
const (
	Employer = "employer"
	Client   = "client"
)

// Errors returned to callers.
var (
	ErrNotFound = apierr.New(apierr.NotFound, "not_found", "There is no such payer.")
	ErrDeleted  = apierr.New(apierr.Conflict, "payer_deleted", "The payer was deleted and cannot be used.")
	ErrBusy     = apierr.New(apierr.Conflict, "invalid_state",
		"An unpaid invoice to this payer is in a payroll. It can be deleted once the payroll has ended.")

	errNotOfUser = apierr.New(apierr.Invalid, "invalid_parameter",
		"Only a payer of a user can be the company. Name the user in user_id, and use an API key of the company.")
)

// Payer is one external payer.
type Payer struct {
	OwnerID   string
	ID        string
	CompanyID string // company that manages the user's record or is the payer, and receives events; "" for none
	IsCompany bool   // the payer is that company, which pays the invoices in its payrolls
	Name      string
	Email     string
	Type      string      // type of the payer: Employer or Client
	Currency  money.Asset // currency of the payer's invoices: EUR or USD
	Website   string      // stored as text and never fetched
	Details               // empty if the payer was read without a sealer
	Status    Status
	Version   int64
	CreatedAt time.Time

	sealed string
}

// Details are the owner's encrypted notes about a payer.
type Details struct {
	Occupation    string `json:"occupation,omitempty"`     // occupation of the owner at an employer
	PaymentAmount string `json:"payment_amount,omitempty"` // an employer's usual payment, in the payer's currency

	StreetAddress  string `json:"street_address,omitempty"` // address of a client
	StreetAddress2 string `json:"street_address_2,omitempty"`
	City           string `json:"city,omitempty"`
	Region         string `json:"region,omitempty"`
	Zip            string `json:"zip,omitempty"`
	Country        string `json:"country,omitempty"`
}

// Changes has the changed members of a payer. Nil members stay unchanged; "" clears a member.
type Changes struct {
	Name, Email, Type, Currency, Website *string
	Occupation, PaymentAmount            *string
	StreetAddress, StreetAddress2, City  *string
	Region, Zip, Country                 *string
	IsCompany                            bool // the payer is the company of the principal; used only by Create
}

// Create adds a payer of the acting user or, for an API key that names no user, of the key's company. Name, type and
// currency are required.
func Create(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID string,
	c Changes) (Payer, error) {
	owner, err := identity.ChangingOwner(ctx, tx, by, userID)
	if err != nil {
		return Payer{}, err
	}
	p := Payer{OwnerID: owner.ID, ID: tx.NewID("pyr"), CompanyID: owner.CompanyID, Status: Active, Version: 1,
		CreatedAt: tx.Now()}
	if err := p.apply(c); err != nil {
		return Payer{}, err
	}
	if c.IsCompany {
		if owner.User.ID == "" || by.CompanyID == "" {
			return Payer{}, errNotOfUser.At("body", "/is_company")
		}
		p.IsCompany, p.CompanyID = true, by.CompanyID
	}
	if err := p.seal(s); err != nil {
		return Payer{}, err
	}
	if err := insert(ctx, tx, p); err != nil {
		return Payer{}, err
	}
	db.History(tx, p.OwnerID, p.ID, p.Version, "", string(p.Status), "created")
	return p, p.emit(tx, webhook.PayerCreated, "")
}

// Update changes the given members. A payer whose type changes loses the members of the old type. Update returns
// ErrDeleted for a deleted payer.
func Update(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID, id string,
	c Changes) (Payer, error) {
	owner, err := identity.ChangingOwner(ctx, tx, by, userID)
	if err != nil {
		return Payer{}, err
	}
	p, err := Use(ctx, tx, owner.ID, id)
	if err != nil {
		return Payer{}, err
	}
	if err := p.open(s); err != nil {
		return Payer{}, err
	}
	if err := p.apply(c); err != nil {
		return Payer{}, err
	}
	if err := p.seal(s); err != nil {
		return Payer{}, err
	}
	return p, update(ctx, tx, &p)
}

// Detail returns a payer with its details, including a deleted payer.
func Detail(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID,
	id string) (Payer, error) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return Payer{}, err
	}
	p, err := Get(ctx, tx, owner.ID, id)
	if err != nil {
		return Payer{}, err
	}
	return p, p.open(s)
}

// List returns the owner's payers that are not deleted, newest first.
func List(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, userID string) ([]Payer, error) {
	owner, err := identity.ActingOwner(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	all, err := Of(ctx, tx, owner.ID)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if err := all[i].open(s); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Use returns a payer for an invoice or a payment. It returns ErrNotFound or, for a deleted payer, ErrDeleted.
func Use(ctx context.Context, tx *db.Tx, ownerID, id string) (Payer, error) {
	p, err := Get(ctx, tx, ownerID, id)
	if err == nil && p.Status == Deleted {
		return Payer{}, ErrDeleted
	}
	return p, err
}

// Delete deletes a payer; its name and history remain. Deleting a payer twice has no effect. Delete returns ErrBusy
// if an unpaid invoice to the payer is in a payroll that has not ended.
func Delete(ctx context.Context, tx *db.Tx, by identity.Principal, userID, id string) error {
	owner, err := identity.ChangingOwner(ctx, tx, by, userID)
	if err != nil {
		return err
	}
	p, err := Get(ctx, tx, owner.ID, id)
	if err != nil || p.Status == Deleted {
		return err
	}
	if err := remove(ctx, tx, &p); err != nil {
		return err
	}
	p.Status = Deleted
	db.History(tx, p.OwnerID, p.ID, p.Version, string(Active), string(Deleted), "deleted")
	return p.emit(tx, webhook.PayerStatusUpdate, Active)
}

// emit emits an event for the payer's owner and company. It omits the details, which belong to the owner.
func (p *Payer) emit(tx *db.Tx, event webhook.Type[webhook.PayerData], from Status) error {
	d := webhook.PayerData{
		ExternalCompanyID: p.ID, CompanyID: p.CompanyID, Name: p.Name, Type: p.Type, Currency: p.Currency,
		Status: string(p.Status), PreviousStatus: string(from),
	}
	if p.OwnerID != p.CompanyID {
		d.UserID = p.OwnerID
	}
	return webhook.Emit(tx, event.Event(p.CompanyID, p.ID, p.Version, d).And(d.UserID)...)
}

// apply validates the changes and applies them.
func (p *Payer) apply(c Changes) error {
	var list apierr.List
	text := func(member string, to *string, given *string, least, most int) {
		if given != nil {
			*to = identity.Line(&list, "/"+member, *given, least, most)
		} else if *to == "" && least > 0 {
			list.Add("missing_field", "/"+member, "This member is required.")
		}
	}
	choice := func(member string, to *string, given *string, options ...string) {
		text(member, to, given, 1, 20)
		for _, o := range options {
			if *to == o {
				return
			}
		}
		if given != nil && *to != "" {
			list.Add("invalid_parameter", "/"+member, "This is "+options[0]+" or "+options[1]+".")
		}
	}
	text("name", &p.Name, c.Name, 1, 200)
	if c.Email != nil {
		p.Email = identity.Email(&list, "/email", *c.Email, false)
	}
	before := p.Type
	choice("company_type", &p.Type, c.Type, Employer, Client)
	if before != "" && before != p.Type {
		p.Details = Details{}
	}
	currency := string(p.Currency)
	choice("payroll_invoice_currency", &currency, c.Currency, string(money.EUR), string(money.USD))
	p.Currency = money.Asset(currency)
	if c.Website != nil {
		p.Website = website(&list, *c.Website)
	}
	for _, m := range []struct {
		of, member string
		to, given  *string
		most       int
	}{
		{Employer, "occupation", &p.Occupation, c.Occupation, 100},
		{Employer, "payment_amount", &p.PaymentAmount, c.PaymentAmount, 40},
		{Client, "street_address", &p.StreetAddress, c.StreetAddress, 200},
		{Client, "street_address_2", &p.StreetAddress2, c.StreetAddress2, 200},
		{Client, "city", &p.City, c.City, 100},
		{Client, "region", &p.Region, c.Region, 100},
		{Client, "zip", &p.Zip, c.Zip, 20},
	} {
		if m.given != nil && *m.given != "" && p.Type != m.of {
			list.Add("invalid_parameter", "/"+m.member, "Only a payer of the type "+m.of+" has this.")
			continue
		}
		text(m.member, m.to, m.given, 0, m.most)
	}
	switch {
	case c.Country == nil:
	case *c.Country != "" && p.Type != Client:
		list.Add("invalid_parameter", "/country", "Only a payer of the type client has this.")
	default:
		p.Country = identity.Country(&list, "/country", *c.Country, false)
	}
	if c.PaymentAmount != nil && *c.PaymentAmount != "" && p.Type == Employer && p.Currency != "" {
		a, err := money.Parse(p.Currency, *c.PaymentAmount)
		if err == nil && a.Sign() <= 0 {
			err = money.ErrNotPositive
		}
		if err := list.AddErr(err, "/payment_amount"); err != nil {
			return err
		}
		p.PaymentAmount = a.String()
	}
	return list.Err()
}

// website reads an absolute http or https URL. It is only displayed, never fetched.
func website(list *apierr.List, text string) string {
	text = identity.Line(list, "/website", text, 0, 300)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		list.Add("invalid_parameter", "/website", "A website is an address that starts with http:// or https://.")
		return ""
	}
	return text
}

func (p *Payer) place() identity.SealContext {
	return identity.SealContext{Table: "payers", Column: "details", Row: p.OwnerID + "/" + p.ID}
}

func (p *Payer) seal(s *identity.Sealer) error {
	text, err := json.Marshal(p.Details)
	if err == nil {
		p.sealed, err = s.Seal(p.place(), text)
	}
	return err
}

func (p *Payer) open(s *identity.Sealer) error {
	if p.sealed == "" {
		return nil
	}
	text, err := s.Open(p.place(), p.sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &p.Details)
}
