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
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
)

// ErrOwnership refuses owners who would hold more than the whole company.
var ErrOwnership = apierr.New(apierr.Invalid, "invalid_parameter",
	"The owners of a company hold at most 100 percent together.")

// significantBps is the share from which an owner is a beneficial owner, who must be verified.
const significantBps = 2500

// CompanyProfile is what a company tells of itself.
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
}

// check normalises a profile.
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
	if p.IncorporationDate = strings.TrimSpace(p.IncorporationDate); p.IncorporationDate != "" {
		if day, err := time.Parse(time.DateOnly, p.IncorporationDate); err != nil || day.Year() < 1000 || day.After(now) {
			problems.Add("invalid_parameter", "/incorporation_date", "This takes a day in the past as YYYY-MM-DD.")
		}
	}
	return p, problems.Err()
}

// lacking are the members that a verification needs and that are empty.
func (p CompanyProfile) lacking() (lacks []string) {
	for _, m := range []struct{ name, value string }{
		{"registration_number", p.RegistrationNumber}, {"incorporation_date", p.IncorporationDate},
		{"street_address", p.StreetAddress}, {"city", p.City},
	} {
		if m.value == "" {
			lacks = append(lacks, m.name)
		}
	}
	return lacks
}

// Onboarding is how far a company's verification is.
type Onboarding struct {
	Profile   CompanyProfile // what the company told of itself
	State     State          // "" before the company told anything
	Reasons   []string
	Missing   []string // what a verification still lacks
	Owners    []Owner
	Documents []Listed
}

// Owner is somebody who owns or controls a company.
type Owner struct {
	ID string
	Person
	OwnershipBps int64 // of the company, in hundredths of a percent
	Control      bool  // directs the company, whatever they own
	KYCStatus    string
}

// changingCompany is the principal's own company, which is the only one that it may onboard, and its case, which is
// locked until the transaction ends. A company that has none gets one.
func (s *Service) changingCompany(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID string) (identity.Company, Case, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return identity.Company{}, Case{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err == nil {
		err = company.Active()
	}
	if err != nil {
		return company, Case{}, err
	}
	c, err := selectCase(ctx, tx, id)
	if err != nil {
		return company, c, err
	}
	if c.ID == "" {
		c, err = s.open(ctx, tx, c, Case{SubjectID: id, CompanyID: id, Kind: kindCompany, State: Draft})
		return company, c, err
	}
	if err := mayStart(c.State); err != nil {
		return company, c, err
	}
	if c.State == Suspended {
		return company, c, ErrState.Detailf("The company is suspended. Ask support.")
	}
	locked, err := lockCase(ctx, tx, c)
	if err == nil && !locked {
		err = db.ErrConflict
	}
	c.Version++
	return company, c, err
}

// Onboard notes what a company tells of itself. It may be told in parts and again until the verification begins.
func (s *Service) Onboard(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	p CompanyProfile) (identity.Company, error) {
	company, c, err := s.changingCompany(ctx, tx, by, companyID)
	if err != nil {
		return company, err
	}
	if p, err = p.check(tx.Now()); err != nil {
		return company, err
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
	if c.State == MoreInfo {
		return company, nil
	}
	to := DocumentsPending
	if len(p.lacking()) > 0 {
		to = Draft
	}
	if to != c.State {
		_, err = s.move(ctx, tx, c, to, nil, time.Time{})
	}
	return company, err
}

func companyProfileAt(companyID string) identity.Place {
	return identity.Place{Table: "company_profiles", Column: "sealed", Row: companyID}
}

func ownerAt(companyID, ownerID string) identity.Place {
	return identity.Place{Table: "owners", Column: "sealed", Row: companyID + "/" + ownerID}
}

// companyProfile is what a company told of itself.
func (s *Service) companyProfile(ctx context.Context, tx *db.Tx, companyID string) (CompanyProfile, error) {
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

// AddOwner notes somebody who owns or controls the company. Everybody with 25 percent or more, and everybody in
// control, is verified before the company is.
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
			StreetAddress2: o.StreetAddress2,
			City:           o.City, State: o.Person.State, Zip: o.Zip,
		},
	}.Check(&problems, tx.Now(), "first_name", "last_name", "date_of_birth", "country")
	if o.OwnershipBps < 0 || o.OwnershipBps > 10_000 {
		problems.Add(ErrOwnership.Code, "/ownership_percentage",
			"This takes a percentage from 0 to 100 with at most 2 decimals.")
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
		return o, apierr.New(apierr.Invalid, "invalid_parameter", fmt.Sprintf("A company has at most %d owners here.",
			maxOwners))
	}
	o.ID, o.KYCStatus = tx.NewID("ubo"), identity.KYCNotStarted
	o.Person = Person{
		FirstName: p.FirstName, LastName: p.LastName, Email: p.Email, PhoneNumber: p.PhoneNumber, DateOfBirth: p.DateOfBirth,
		Country:       p.Country,
		StreetAddress: p.StreetAddress, StreetAddress2: p.StreetAddress2, City: p.City, State: p.State, Zip: p.Zip,
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

// maxOwners bounds what a company can note; no more than four can own 25 percent each.
const maxOwners = 50

// owner reads an owner of a company, or says apierr.NotFoundErr.
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

// ReadFor checks an upload for a company, or for one of its owners, and reads its image; see [Service.Read].
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

// companySubject is whose document it is, and the upload in its normal form.
func (s *Service) companySubject(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, ownerID string,
	u Upload) (string, Upload, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return "", u, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err == nil {
		err = company.Active()
	}
	if err != nil {
		return "", u, err
	}
	home := company.Country
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

// StoreFor keeps what a company hands in for itself or for one of its owners.
func (s *Service) StoreFor(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, ownerID string, u Upload,
	img Image) error {
	subjectID, u, err := s.companySubject(ctx, tx, by, companyID, ownerID, u)
	if err != nil {
		return err
	}
	return s.store(ctx, tx, subjectID, u, img)
}

// InitiateOwner starts the verification of an owner whose identity document is complete.
func (s *Service) InitiateOwner(ctx context.Context, tx *db.Tx, by identity.Principal, companyID,
	ownerID string) (Owner, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Owner{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err == nil {
		err = company.Active()
	}
	if err != nil {
		return Owner{}, err
	}
	if s.Provider == nil {
		return Owner{}, ErrNoProvider
	}
	o, err := s.owner(ctx, tx, id, ownerID)
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
	if lacks := identityLacks(documents); len(lacks) > 0 {
		return o, incomplete(ErrDocuments, "/ubo_id", lacks)
	}
	c, err := s.open(ctx, tx, old, Case{SubjectID: o.ID, CompanyID: id, Kind: kindOwner, State: Initiated})
	if err != nil {
		return o, err
	}
	job.Enqueue(tx, job.New{CompanyID: id, Kind: JobSubmit, Payload: look{c.SubjectID, c.ID}})
	o.KYCStatus = c.State.Public()
	return o, nil
}

// InitiateCompany starts the verification of a company that has told everything: its profile, its papers, and who owns
// or controls it. What is missing is listed by ErrProfile and ErrDocuments.
func (s *Service) InitiateCompany(ctx context.Context, tx *db.Tx, by identity.Principal,
	companyID string) (Case, error) {
	company, c, err := s.changingCompany(ctx, tx, by, companyID)
	if err != nil {
		return c, err
	}
	if s.Provider == nil {
		return c, ErrNoProvider
	}
	profile, papers, err := s.companyLacks(ctx, tx, company.ID)
	switch {
	case err != nil:
		return c, err
	case len(profile) > 0:
		return c, incomplete(ErrProfile, "/company_id", profile)
	case len(papers) > 0:
		return c, incomplete(ErrDocuments, "/company_id", papers)
	}
	if c, err = s.move(ctx, tx, c, Submitted, nil, time.Time{}); err != nil {
		return c, err
	}
	job.Enqueue(tx, job.New{CompanyID: company.ID, Kind: JobSubmit, Payload: look{c.SubjectID, c.ID}})
	return c, nil
}

// requiredPapers are those that every company hands in.
var requiredPapers = []string{"certificate_of_incorporation", "shareholder_register"}

// companyLacks is what a company's profile lacks, and what else: papers, and somebody who owns or controls it.
func (s *Service) companyLacks(ctx context.Context, tx *db.Tx, companyID string) (profile, papers []string, err error) {
	p, err := s.companyProfile(ctx, tx, companyID)
	if err != nil {
		return nil, nil, err
	}
	documents, err := selectDocuments(ctx, tx, companyID)
	if err != nil {
		return nil, nil, err
	}
	for _, kind := range requiredPapers {
		if !slices.ContainsFunc(documents, func(d Document) bool { return d.DocType == kind }) {
			papers = append(papers, kind)
		}
	}
	owners, err := selectOwners(ctx, tx, companyID)
	if !slices.ContainsFunc(owners, func(r ownerRow) bool { return r.bps >= significantBps || r.control }) {
		papers = append(papers, "ubo")
	}
	return p.lacking(), papers, err
}

// OnboardingOf says how far a company's verification is.
func (s *Service) OnboardingOf(ctx context.Context, tx *db.Tx, companyID string) (o Onboarding, err error) {
	c, err := selectCase(ctx, tx, companyID)
	if err != nil || c.ID == "" {
		return o, err
	}
	o.State, o.Reasons = c.State, c.Reasons
	if o.Profile, err = s.companyProfile(ctx, tx, companyID); err != nil {
		return o, err
	}
	profile, papers, err := s.companyLacks(ctx, tx, companyID)
	if err != nil {
		return o, err
	}
	o.Missing = append(profile, papers...)
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

// ownersWaiting says whether somebody who owns or controls the company is not verified yet.
func ownersWaiting(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
	owners, err := selectOwners(ctx, tx, companyID)
	return slices.ContainsFunc(owners, func(r ownerRow) bool {
		return (r.bps >= significantBps || r.control) && r.status != string(Approved)
	}), err
}

// ownersChanged approves a company that only waited for its owners.
func (s *Service) ownersChanged(ctx context.Context, tx *db.Tx, companyID string) error {
	c, err := selectCase(ctx, tx, companyID)
	if err != nil || c.State != OwnersPending {
		return err
	}
	waiting, err := ownersWaiting(ctx, tx, companyID)
	if err != nil || waiting {
		return err
	}
	_, err = s.move(ctx, tx, c, Approved, nil, time.Time{})
	return err
}

// DecideCompanyInSandbox ends the verification of a company, as the provider would: approved (which waits for the
// owners), rejected, resubmission_required or more_info, or suspended after approval. With ownerID it ends that of an
// owner.
func (s *Service) DecideCompanyInSandbox(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, ownerID,
	result string) (State, error) {
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
		return "", ErrState.Detailf("Nothing was submitted yet.")
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
