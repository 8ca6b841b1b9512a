// Package travelrule stores who sends and who receives each large payout of crypto assets, as the travel rule of the
// FATF demands: an IVMS101 record of the originator, the beneficiary and the providers of their wallets.
//
// The owner of a destination states who hosts its wallet: the owner (self-hosted) or a provider, such as an exchange.
// The owner of a self-hosted wallet proves control of it by signing a text; see [Service.Prove]. The statement and the
// proof count for the address that they were made for.
//
// Before payouts are queued, [Service.Record] values those of one payment together. From the operator's threshold on,
// it stores the record of each, in the same transaction. If data is missing, nothing is stored, and the payment waits
// with the reason. The change that provides the data releases it.
package travelrule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/quote"
)

// VASP is the identity of a provider of crypto-asset services. The one of the operator is complete; of others, only the
// name is required.
type VASP struct {
	Name, Street, PostCode, City, Country string
	LEI                                   string // legal entity identifier (ISO 17442)
	// Registration is the number in a register, with the code of the register by GLEIF, such as "RA000585/01234567". It
	// takes the place of the LEI.
	Registration string
}

// check returns what the operator's identity lacks.
func (v VASP) check() error {
	for _, f := range []struct{ flag, value string }{
		{"--travel-rule-name", v.Name}, {"--travel-rule-street", v.Street}, {"--travel-rule-city", v.City},
	} {
		if f.value == "" {
			return fmt.Errorf("%s is missing: the records of --travel-rule-threshold name the operator", f.flag)
		}
	}
	var problems apierr.List
	if identity.Country(&problems, "", v.Country, true) != v.Country || problems.Err() != nil {
		return fmt.Errorf("--travel-rule-country %q: want the two letters of a country, such as DE", v.Country)
	}
	switch register, number, _ := strings.Cut(v.Registration, "/"); {
	case v.LEI == "" && v.Registration == "":
		return errors.New("--travel-rule-lei or --travel-rule-registration is missing: the records of " +
			"--travel-rule-threshold identify the operator")
	case v.LEI != "" && v.Registration != "":
		return errors.New("--travel-rule-lei and --travel-rule-registration are both set: want one of them")
	case v.LEI != "" && !country.ValidLEI(v.LEI):
		return fmt.Errorf("--travel-rule-lei %q: want 18 letters or digits and two check digits", v.LEI)
	case v.LEI == "" && (len(register) != 8 || !strings.HasPrefix(register, "RA") || number == "" || len(number) > 35):
		return fmt.Errorf("--travel-rule-registration %q: want the code of a register and a number, such as "+
			"RA000585/01234567", v.Registration)
	}
	return nil
}

// Config configures a Service.
type Config struct {
	// Threshold is the value from which on payouts need a record. An amount without an asset switches the records off.
	Threshold money.Amount
	VASP      VASP // the operator
	Sealer    *identity.Sealer
	Network   string // Bitcoin network of addresses
	// Company returns the legal name and the address of a company.
	Company func(ctx context.Context, tx *db.Tx, companyID string) (kyc.CompanyProfile, error)
}

// Service stores statements about wallets, and records of payouts.
type Service struct{ Config }

// New returns a Service. It returns an error if a dependency is missing, or the operator's identity while there is a
// threshold.
func New(c Config) (*Service, error) {
	switch {
	case c.Sealer == nil:
		return nil, errors.New("travelrule: Config.Sealer is required")
	case c.Network == "":
		return nil, errors.New("travelrule: Config.Network is required")
	case c.Company == nil:
		return nil, errors.New("travelrule: Config.Company is required")
	}
	return &Service{c}, c.Check()
}

// Check returns an error if there is a threshold, and the operator's identity is incomplete.
func (c Config) Check() error {
	if !c.On() {
		return nil
	}
	return c.VASP.check()
}

// On reports whether payouts need records.
func (c Config) On() bool { return c.Threshold.Asset() != "" }

// Record is what was stored about one payout.
type Record struct {
	CompanyID, ID                 string // the payer: a company, or a user who pays their own income out
	ObjectID, PaymentID, OutputID string
	Amount                        money.Amount
	Value                         money.Amount // of Amount, when the payout was queued
	Document                      Document
	Created                       time.Time
}

// Document is the part of a record with personal data.
type Document struct {
	IVMS101 IVMS101 `json:"ivms101"`
	Hosting Hosting `json:"hosting"`
	Proof   *Proof  `json:"proof,omitempty"`
}

// Record stores the records of payouts that are about to be queued. If data is missing, it stores nothing, and returns
// why each payment must wait, by the ID of the payment: a Reason of package payroll. Payouts of the same payment count
// together toward the threshold. Without a price, a payout counts as above it.
func (s *Service) Record(ctx context.Context, tx *db.Tx, outs []payout.Output) (missing map[string]string, err error) {
	if !s.On() {
		return nil, nil
	}
	b := &batch{Service: s, values: map[string]money.Amount{}, totals: map[string]money.Amount{},
		above: map[string]bool{}, payers: map[string]*party{}}
	for i := range outs {
		if outs[i].Amount.Asset().IsCrypto() {
			if err := b.count(ctx, tx, &outs[i]); err != nil {
				return nil, err
			}
		}
	}
	var records []Record
	missing = map[string]string{}
	for i := range outs {
		o := &outs[i]
		if !b.above[o.PaymentID] || !o.Amount.Asset().IsCrypto() {
			continue
		}
		r, reason, err := b.record(ctx, tx, o)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			missing[o.PaymentID] = reason
		}
		records = append(records, r)
	}
	if len(missing) > 0 || len(records) == 0 {
		return missing, nil
	}
	return nil, s.insert(ctx, tx, records)
}

// batch are payouts that are queued together.
type batch struct {
	*Service

	values map[string]money.Amount // of outputs, by ID; missing without a price
	totals map[string]money.Amount // of payments
	above  map[string]bool         // payments that need records
	payers map[string]*party
}

// count adds a payout to its payment.
func (b *batch) count(ctx context.Context, tx *db.Tx, o *payout.Output) error {
	_, value, err := quote.Price(ctx, tx, o.Amount, b.Threshold.Asset(), 0)
	total, has := b.totals[o.PaymentID]
	if !has {
		total = money.Zero(b.Threshold.Asset())
	}
	if err == nil {
		b.values[o.ID] = value
		total, err = total.Add(value)
	}
	if _, declared := apierr.As(err); declared {
		b.above[o.PaymentID] = true // without a rate, or if the sum overflows
		return nil
	}
	if err != nil {
		return err
	}
	b.totals[o.PaymentID] = total
	b.above[o.PaymentID] = b.above[o.PaymentID] || total.Cmp(b.Threshold) >= 0
	return nil
}

// record returns the record of a payout, or the reason why its payment must wait.
func (b *batch) record(ctx context.Context, tx *db.Tx, o *payout.Output) (r Record, reason string, err error) {
	var to destination.Destination
	if len(o.Destination) > 0 {
		if err := json.Unmarshal(o.Destination, &to); err != nil {
			return r, "", err
		}
	}
	payer, known := b.payers[o.CompanyID]
	if !known {
		if payer, err = b.party(ctx, tx, o.CompanyID, o.CompanyID); err != nil {
			return r, "", err
		}
		b.payers[o.CompanyID] = payer
	}
	if !payer.addressed() {
		return r, payroll.ReasonOriginator, nil
	}
	w, err := b.Wallet(ctx, tx, to)
	switch {
	case err != nil:
		return r, "", err
	case w.Hosting == "":
		return r, payroll.ReasonWallet, nil
	case w.Hosting == SelfHosted && Provable(to) && w.Proof == nil:
		return r, payroll.ReasonProof, nil
	}
	payeeOf, err := b.party(ctx, tx, o.CompanyID, to.OwnerID)
	if err != nil {
		return r, "", err
	}
	value, priced := b.values[o.ID]
	if !priced {
		value = money.Zero(b.Threshold.Asset())
	}
	doc := Document{Hosting: w.Hosting, Proof: w.Proof, IVMS101: IVMS101{
		Originator:      &Originator{[]Person{payer.person()}, []string{o.CompanyID}},
		Beneficiary:     &Beneficiary{[]Person{payeeOf.person()}, []string{o.Address}},
		OriginatingVASP: &OriginatingVASP{b.VASP.person()},
	}}
	if w.Hosting == Hosted {
		doc.IVMS101.BeneficiaryVASP = &BeneficiaryVASP{w.VASP.person()}
	}
	return Record{CompanyID: o.CompanyID, ObjectID: o.PayrollID, PaymentID: o.PaymentID, OutputID: o.ID,
		Amount: o.Amount, Value: value, Document: doc}, "", nil
}

// party is a payer or a payee.
type party struct {
	legal                       bool   // a company
	name                        string // of a company, or the full name of a person
	first, last                 string
	street, street2, town, area string
	postCode, country, lei      string
}

// addressed reports whether the postal address is known.
func (p *party) addressed() bool { return p.street != "" && p.town != "" && p.country != "" }

// party returns a user, a recipient of a company, or a company.
func (s *Service) party(ctx context.Context, tx *db.Tx, companyID, id string) (*party, error) {
	switch {
	case identity.IsUser(id):
		u, err := identity.GetUser(ctx, tx, s.Sealer, id)
		return personOf(u.Name(), u.FirstName, u.LastName, u.Country, u.Details), err
	case id == companyID:
		c, err := s.Company(ctx, tx, id)
		return &party{legal: true, name: c.Name, street: c.StreetAddress, street2: c.StreetAddress2, town: c.City,
			area: c.State, postCode: c.Zip, country: c.Country, lei: c.LEI}, err
	}
	r, details, err := payee.PersonalOf(ctx, tx, s.Sealer, companyID, id)
	p := personOf(r.Name, r.FirstName, r.LastName, r.Country, details)
	p.legal = r.Type == payee.TypeCompany
	return p, err
}

func personOf(name, first, last, in string, d identity.Details) *party {
	return &party{name: name, first: first, last: last, street: d.StreetAddress, street2: d.StreetAddress2, town: d.City,
		area: d.State, postCode: d.Zip, country: in}
}
