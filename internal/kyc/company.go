package kyc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee"
)

// ErrOwnership is returned if the shares of the owners exceed 100 percent.
var ErrOwnership = apierr.New(apierr.Invalid, "invalid_parameter",
	"The shares of all owners together exceed 100 percent. Correct them.")

// significantBps is the share, in basis points, from which an owner must be verified.
const significantBps = 2500

// CompanyProfile contains the data of a company that is verified.
type CompanyProfile struct {
	Name    string `json:"-"`
	Email   string `json:"-"`
	Website string `json:"-"`
	Country string `json:"-"`

	RegistrationNumber string `json:"registration_number"`
	IncorporationDate  string `json:"incorporation_date"` // YYYY-MM-DD
	StreetAddress      string `json:"street_address"`
	StreetAddress2     string `json:"street_address_2"`
	City               string `json:"city"`
	State              string `json:"state"`
	Zip                string `json:"zip"`
	Description        string `json:"description"` // what the company does
	LEI                string `json:"lei"`         // legal entity identifier (ISO 17442)
}

// check returns the normalized profile, or an error that lists its problems.
func (p CompanyProfile) check(now time.Time) (CompanyProfile, error) {
	var problems apierr.List
	line := func(name string, text *string, most int) { *text = identity.Line(&problems, "/"+name, *text, 0, most) }
	p.Name = identity.Line(&problems, "/name", p.Name, 1, 200)
	p.Country = identity.Country(&problems, "/country", p.Country, true)
	p.Email = identity.Email(&problems, "/email", p.Email, false)
	line("website", &p.Website, 300)
	line("registration_number", &p.RegistrationNumber, 64)
	line("street_address", &p.StreetAddress, 200)
	line("street_address_2", &p.StreetAddress2, 200)
	line("city", &p.City, 100)
	line("state", &p.State, 100)
	line("zip", &p.Zip, 20)
	line("description", &p.Description, 500)
	if p.LEI = strings.ToUpper(strings.TrimSpace(p.LEI)); p.LEI != "" && !country.ValidLEI(p.LEI) {
		problems.Add("invalid_parameter", "/lei", "The value must be an LEI: 18 letters or digits and two check digits.")
	}
	if p.IncorporationDate = strings.TrimSpace(p.IncorporationDate); p.IncorporationDate != "" {
		if day, err := time.Parse(time.DateOnly, p.IncorporationDate); err != nil || day.Year() < 1000 || day.After(now) {
			problems.Add("invalid_parameter", "/incorporation_date", "The value must be a past date as YYYY-MM-DD.")
		}
	}
	return p, problems.Err()
}

// missingFields returns the names of the empty fields that a verification requires.
func (p CompanyProfile) missingFields() []string {
	return empty([]field{
		{"registration_number", p.RegistrationNumber}, {"incorporation_date", p.IncorporationDate},
		{"street_address", p.StreetAddress}, {"city", p.City},
	})
}

// Onboarding is the progress of a company's verification.
type Onboarding struct {
	Profile   CompanyProfile
	State     State // "" before the first case
	Reasons   []string
	Missing   []string // missing profile fields and documents, and "ubo" if a beneficial owner is missing
	Owners    []Owner
	Documents []DocumentSummary
}

// Owner is a person who owns or controls a company.
type Owner struct {
	ID string
	Person
	OwnershipBps int64 // share in basis points
	Control      bool  // controls the company, whatever the share
	KYCStatus    string
}

// actingCompany returns the principal's company. It returns an error if the company is not active or is not the
// requested one.
func actingCompany(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID string) (identity.Company, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return identity.Company{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err == nil {
		err = company.Active()
	}
	return company, err
}

// changingCompany returns the principal's company and its case, locked until the commit. It opens a case if there is
// none. It returns an error if the state of the case does not allow changes.
func (s *Service) changingCompany(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID string) (identity.Company, Case, error) {
	company, err := actingCompany(ctx, tx, by, companyID)
	if err != nil {
		return company, Case{}, err
	}
	c, err := selectCase(ctx, tx, company.ID)
	if err != nil {
		return company, c, err
	}
	if c.ID == "" {
		c, err = s.open(ctx, tx, c, Case{SubjectID: company.ID, CompanyID: company.ID, Kind: kindCompany, State: Draft})
		return company, c, err
	}
	if err := mayStart(c.State); err != nil {
		return company, c, err
	}
	if c.State == Suspended {
		return company, c, ErrState.Detailf("The company is suspended. Contact support.")
	}
	locked, err := lockCase(ctx, tx, c)
	if err == nil && !locked {
		err = db.ErrConflict
	}
	c.Version++
	return company, c, err
}

// Onboard stores the profile of a company. It may be incomplete, and may be replaced until the verification starts.
func (s *Service) Onboard(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	p CompanyProfile) (identity.Company, error) {
	company, c, err := s.changingCompany(ctx, tx, by, companyID)
	if err != nil {
		return company, err
	}
	if p, err = p.check(tx.Now()); err != nil {
		return company, err
	}
	if company.KYBStatus == identity.KYBApproved && (p.Name != company.Name || p.Country != company.Country) {
		return company, ErrState.Detailf("The company is verified. Its name and country cannot change.")
	}
	key, err := s.openSubject(ctx, tx, company.ID)
	if err != nil {
		return company, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return company, err
	}
	if err := upsertCompanyProfile(ctx, tx, company.ID, key.Seal(companyProfileAt(company.ID), text)); err != nil {
		return company, err
	}
	company.Name, company.Email, company.Website, company.Country = p.Name, p.Email, p.Website, p.Country
	if err := identity.SetCompanyDetails(ctx, tx, company); err != nil {
		return company, err
	}
	payee.Payable(tx, company.ID, company.ID) // payments may wait for the company's address
	if c.State == MoreInfo {
		return company, nil
	}
	to := DocumentsPending
	if len(p.missingFields()) > 0 {
		to = Draft
	}
	if to != c.State {
		_, err = s.transition(ctx, tx, c, to, nil, time.Time{})
	}
	return company, err
}

func companyProfileAt(companyID string) identity.SealContext {
	return identity.SealContext{Table: "company_profiles", Column: "sealed", Row: companyID}
}

func ownerAt(companyID, ownerID string) identity.SealContext {
	return identity.SealContext{Table: "owners", Column: "sealed", Row: companyID + "/" + ownerID}
}

// CompanyProfile returns the decrypted profile of a company.
func (s *Service) CompanyProfile(ctx context.Context, tx *db.Tx, companyID string) (CompanyProfile, error) {
	var p CompanyProfile
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return p, err
	}
	sealed, err := selectCompanyProfile(ctx, tx, companyID)
	if err != nil {
		return p, err
	}
	if sealed != nil {
		key, err := s.openSubject(ctx, tx, companyID)
		if err != nil {
			return p, err
		}
		text, err := key.Open(companyProfileAt(companyID), sealed)
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			return p, err
		}
	}
	p.Name, p.Email, p.Website, p.Country = company.Name, company.Email, company.Website, company.Country
	return p, nil
}

// AddOwner stores an owner of a company. A company is approved only after all owners with a share of at least 25
// percent, or with control, are verified.
func (s *Service) AddOwner(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	o Owner) (Owner, error) {
	company, _, err := s.changingCompany(ctx, tx, by, companyID)
	if err != nil {
		return o, err
	}
	var problems apierr.List
	p := identity.Profile{
		Email: o.Email, FirstName: o.FirstName, LastName: o.LastName, Country: o.Country,
		Details: identity.Details{
			PhoneNumber: o.PhoneNumber, DateOfBirth: o.DateOfBirth, StreetAddress: o.StreetAddress,
			StreetAddress2: o.StreetAddress2, City: o.City, State: o.Person.State, Zip: o.Zip,
		},
	}.Check(&problems, tx.Now(), "first_name", "last_name", "date_of_birth", "country")
	if o.OwnershipBps < 0 || o.OwnershipBps > 10_000 {
		problems.Add(ErrOwnership.Code, "/ownership_percentage",
			"The value must be a percentage from 0 to 100 with at most 2 decimals.")
	}
	if err := problems.Err(); err != nil {
		return o, err
	}
	owners, err := selectOwners(ctx, tx, company.ID)
	if err != nil {
		return o, err
	}
	total := o.OwnershipBps
	for _, other := range owners {
		total += other.bps
	}
	switch {
	case total > 10_000:
		return o, ErrOwnership.At("body", "/ownership_percentage")
	case len(owners) >= maxOwners:
		return o, apierr.New(apierr.Invalid, "invalid_parameter",
			fmt.Sprintf("A company can have at most %d owners.", maxOwners))
	}
	o.ID, o.KYCStatus = tx.NewID("ubo"), identity.KYCNotStarted
	o.Person = Person{
		FirstName: p.FirstName, LastName: p.LastName, Email: p.Email, PhoneNumber: p.PhoneNumber,
		DateOfBirth: p.DateOfBirth, StreetAddress: p.StreetAddress, StreetAddress2: p.StreetAddress2,
		City: p.City, State: p.State, Zip: p.Zip, Country: p.Country,
	}
	key, err := s.openSubject(ctx, tx, o.ID)
	if err != nil {
		return o, err
	}
	text, err := json.Marshal(o.Person)
	if err != nil {
		return o, err
	}
	return o, insertOwner(ctx, tx, company.ID, o, key.Seal(ownerAt(company.ID, o.ID), text))
}

// maxOwners is the maximum number of stored owners of a company.
const maxOwners = 50

// owner returns an owner of a company, or apierr.NotFoundErr.
func (s *Service) owner(ctx context.Context, tx *db.Tx, companyID, ownerID string) (Owner, error) {
	owners, err := selectOwners(ctx, tx, companyID)
	if err != nil {
		return Owner{}, err
	}
	i := slices.IndexFunc(owners, func(r ownerRow) bool { return r.id == ownerID })
	if i < 0 {
		return Owner{}, apierr.NotFoundErr
	}
	return s.openOwner(ctx, tx, companyID, owners[i])
}

func (s *Service) openOwner(ctx context.Context, tx *db.Tx, companyID string, r ownerRow) (Owner, error) {
	o := Owner{ID: r.id, OwnershipBps: r.bps, Control: r.control, KYCStatus: r.status}
	key, err := s.openSubject(ctx, tx, r.id)
	if err != nil {
		return o, err
	}
	text, err := key.Open(ownerAt(companyID, r.id), r.sealed)
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(text, &o.Person)
}

// ReadFor is like [Service.Read], for a company or, if ownerID is not empty, for one of its owners.
func (s *Service) ReadFor(ctx context.Context, d *db.DB, by identity.Principal, companyID, ownerID string,
	u Upload) (Image, error) {
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, _, err := s.companySubject(ctx, tx, by, companyID, ownerID, u)
		return err
	})
	if err != nil || u.DocType == TaxID {
		return Image{}, err
	}
	return s.readImage(ctx, u)
}

// companySubject returns the subject ID of a company or owner, and the checked upload.
func (s *Service) companySubject(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, ownerID string,
	u Upload) (string, Upload, error) {
	company, err := actingCompany(ctx, tx, by, companyID)
	if err != nil {
		return "", u, err
	}
	id, home := company.ID, company.Country
	if ownerID != "" {
		owner, err := s.owner(ctx, tx, id, ownerID)
		if err != nil {
			return "", u, err
		}
		id, home = ownerID, owner.Country
	}
	u, err = u.check(home, ownerID == "")
	return id, u, err
}

// StoreFor is like [Service.Store], for a company or, if ownerID is not empty, for one of its owners. It returns an
// error if their verification is in progress, approved or rejected.
func (s *Service) StoreFor(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, ownerID string, u Upload,
	img Image) error {
	subjectID, u, err := s.companySubject(ctx, tx, by, companyID, ownerID, u)
	if err != nil {
		return err
	}
	if err := s.checkChangeable(ctx, tx, subjectID); err != nil {
		return err
	}
	return s.store(ctx, tx, subjectID, u, img)
}

// checkChangeable returns an error if the verification of a subject is in progress or has finally ended. It locks the
// subject's case, so that no verification starts before the commit.
func (s *Service) checkChangeable(ctx context.Context, tx *db.Tx, subjectID string) error {
	c, err := selectCase(ctx, tx, subjectID)
	if err != nil || c.ID == "" {
		return err
	}
	if err := mayStart(c.State); err != nil {
		return err
	}
	locked, err := lockCase(ctx, tx, c)
	if err == nil && !locked {
		err = db.ErrConflict
	}
	return err
}

// InitiateOwner starts the verification of an owner. It returns ErrDocuments if no complete identity document is
// stored.
func (s *Service) InitiateOwner(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID, ownerID string) (Owner, error) {
	company, err := actingCompany(ctx, tx, by, companyID)
	if err != nil {
		return Owner{}, err
	}
	if s.Provider == nil {
		return Owner{}, ErrNoProvider
	}
	o, err := s.owner(ctx, tx, company.ID, ownerID)
	if err != nil {
		return o, err
	}
	old, err := selectCase(ctx, tx, o.ID)
	if err != nil {
		return o, err
	}
	if err := mayStart(old.State); err != nil {
		return o, err
	}
	documents, err := selectDocuments(ctx, tx, o.ID)
	if err != nil {
		return o, err
	}
	if missing := missingIdentity(documents); len(missing) > 0 {
		return o, incomplete(ErrDocuments, "/ubo_id", missing)
	}
	c, err := s.open(ctx, tx, old, Case{SubjectID: o.ID, CompanyID: company.ID, Kind: kindOwner, State: Initiated})
	if err != nil {
		return o, err
	}
	job.Enqueue(tx, job.New{CompanyID: company.ID, Kind: JobSubmit, Payload: jobPayload{c.SubjectID, c.ID}})
	o.KYCStatus = c.State.Public()
	return o, nil
}

// InitiateCompany starts the verification of a company. It returns ErrProfile with the missing profile fields, or
// ErrDocuments with the missing documents and, if no beneficial owner is stored, "ubo".
func (s *Service) InitiateCompany(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID string) (Case, error) {
	company, c, err := s.changingCompany(ctx, tx, by, companyID)
	if err != nil {
		return c, err
	}
	if s.Provider == nil {
		return c, ErrNoProvider
	}
	profile, documents, err := s.companyMissing(ctx, tx, company.ID)
	switch {
	case err != nil:
		return c, err
	case len(profile) > 0:
		return c, incomplete(ErrProfile, "/company_id", profile)
	case len(documents) > 0:
		return c, incomplete(ErrDocuments, "/company_id", documents)
	}
	if c, err = s.transition(ctx, tx, c, Submitted, nil, time.Time{}); err != nil {
		return c, err
	}
	job.Enqueue(tx, job.New{CompanyID: company.ID, Kind: JobSubmit, Payload: jobPayload{c.SubjectID, c.ID}})
	return c, nil
}

// requiredCompanyDocuments are the documents that every company must upload.
var requiredCompanyDocuments = []string{"certificate_of_incorporation", "shareholder_register"}

// companyMissing returns the missing profile fields of a company and its missing documents. The documents include "ubo"
// if no beneficial owner is stored.
func (s *Service) companyMissing(ctx context.Context, tx *db.Tx,
	companyID string) (profile, documents []string, err error) {
	p, err := s.CompanyProfile(ctx, tx, companyID)
	if err != nil {
		return nil, nil, err
	}
	stored, err := selectDocuments(ctx, tx, companyID)
	if err != nil {
		return nil, nil, err
	}
	for _, kind := range requiredCompanyDocuments {
		if !slices.ContainsFunc(stored, func(d Document) bool { return d.DocType == kind }) {
			documents = append(documents, kind)
		}
	}
	owners, err := selectOwners(ctx, tx, companyID)
	if !slices.ContainsFunc(owners, ownerRow.beneficial) {
		documents = append(documents, "ubo")
	}
	return p.missingFields(), documents, err
}

// OnboardingOf returns the progress of a company's verification.
func (s *Service) OnboardingOf(ctx context.Context, tx *db.Tx, companyID string) (o Onboarding, err error) {
	c, err := selectCase(ctx, tx, companyID)
	if err != nil {
		return o, err
	}
	if c.ID == "" { // not begun, or verified without a case, as a sandbox's initial company
		company, err := identity.CompanyByID(ctx, tx, companyID)
		if err != nil || company.KYBStatus == identity.KYBApproved {
			return o, err
		}
	}
	o.State, o.Reasons = c.State, c.Reasons
	if o.Profile, err = s.CompanyProfile(ctx, tx, companyID); err != nil {
		return o, err
	}
	profile, documents, err := s.companyMissing(ctx, tx, companyID)
	if err != nil {
		return o, err
	}
	o.Missing = append(profile, documents...)
	if o.Documents, err = listOf(ctx, tx, companyID); err != nil {
		return o, err
	}
	rows, err := selectOwners(ctx, tx, companyID)
	for _, r := range rows {
		owner, err := s.openOwner(ctx, tx, companyID, r)
		if err != nil && !errors.Is(err, ErrErased) {
			return o, err
		}
		o.Owners = append(o.Owners, owner)
	}
	return o, err
}

// beneficial reports whether the owner must be verified before the company is approved.
func (r ownerRow) beneficial() bool { return r.bps >= significantBps || r.control }

// ownersUnverified reports whether a beneficial owner of the company is not verified yet.
func ownersUnverified(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	owners, err := selectOwners(ctx, tx, companyID)
	return slices.ContainsFunc(owners, func(r ownerRow) bool {
		return r.beneficial() && r.status != string(Approved)
	}), err
}

// ownersChanged approves a company in OwnersPending once all its beneficial owners are verified.
func (s *Service) ownersChanged(ctx context.Context, tx *db.Tx, companyID string) error {
	c, err := selectCase(ctx, tx, companyID)
	if err != nil || c.State != OwnersPending {
		return err
	}
	waiting, err := ownersUnverified(ctx, tx, companyID)
	if err != nil || waiting {
		return err
	}
	_, err = s.transition(ctx, tx, c, Approved, nil, time.Time{})
	return err
}

// DecideCompanyInSandbox decides the verification of a company or, if ownerID is not empty, of one of its owners, in
// place of the provider. result is approved, rejected, resubmission_required or more_info, or suspended after an
// approval.
func (s *Service) DecideCompanyInSandbox(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID, ownerID, result string) (State, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return "", err
	}
	subject := id
	if ownerID != "" {
		if _, err := s.owner(ctx, tx, id, ownerID); err != nil {
			return "", err
		}
		subject = ownerID
	}
	c, err := selectCase(ctx, tx, subject)
	if err != nil {
		return "", err
	}
	if c.ID == "" {
		return "", ErrState.Detailf("No verification was submitted yet. Submit one first.")
	}
	o := Outcome{State: State(result)}
	if o.State != Approved {
		o.Reasons = []string{"sandbox"}
	}
	if c.Kind == kindOwner && o.State == MoreInfo {
		o.State = Resubmission
	}
	if err := s.decide(ctx, tx, c, o); err != nil {
		return "", err
	}
	c, err = selectCase(ctx, tx, subject)
	return c.State, err
}
