// Package payee stores everyone a company pays: workers with a login, people and companies without a login, and
// vendors.
//
// A payee has one row per company. The row's ID is the user's ID (usr_…) for a worker with a login, and a separate ID
// (rec_…) otherwise. A payee is pending until the allocations of their destinations total 100, and then active.
//
// The package reads the allocations of destinations, in one statement of store.go, and never writes them.
package payee

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/metadata"
	"github.com/stipend/stipend/internal/webhook"
)

// ErrExternalID contains the ID of the recipient that already has the external ID, as Meta "recipient_id".
var ErrExternalID = apierr.New(apierr.Conflict, "external_id_conflict",
	"A recipient of this company already has this external_id.")

// The roles of recipients.
const (
	Contractor = "contractor"
	Employee   = "employee"
	Vendor     = "vendor"
)

// The types of recipients.
const (
	TypeUser    = "user"    // a person
	TypeCompany = "company" // a firm
)

// The states of a recipient.
const (
	Pending  = "pending"
	Active   = "active"
	Inactive = "inactive"
)

// Recipient is one company's record of a payee.
type Recipient struct {
	CompanyID, ID, RelationshipID string
	UserID                        string // user, if the payee is a worker with a login; otherwise ""
	Type, Role, Status            string
	Name, FirstName, LastName     string
	Email, Country, ExternalID    string
	Department, VendorType        string
	Metadata                      map[string]string
	Version                       int64
	Created                       time.Time
}

// Payee is the part of a recipient's data that payments need.
type Payee struct {
	ID      string // rec_…, or usr_… for a worker with a login
	UserID  string // user, for a worker with a login; otherwise ""
	Kind    string // TypeUser or TypeCompany
	Role    string // Contractor, Employee or Vendor
	Name    string
	Status  string
	Country string
	Email   string // "" if unknown
	// CompanyID is the company that has the payee's record, or "" for a person with an account. Only [Owner] sets it.
	CompanyID string
}

// CreateParams are the details of a recipient without a login.
type CreateParams struct {
	CompanyID  string // "" means the principal's company
	ExternalID string
	Type       string // "" means user
	Role       string // "" means contractor
	Department string
	VendorType string
	Name       string // name of a company or person; for a person, the default is first and last name
	Metadata   map[string]string
	identity.Profile
}

// Create creates a recipient without a login, who is pending until they have a destination. It returns ErrExternalID
// if another recipient of the company has the external ID, apierr.NotFoundErr for another company, and all problems
// of the parameters at once.
func Create(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal,
	p CreateParams) (Recipient, error) {
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return Recipient{}, err
	}
	r, profile, err := p.check(tx.Now())
	if err != nil {
		return Recipient{}, err
	}
	record, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return Recipient{}, err
	}
	if err := record.Active(); err != nil {
		return Recipient{}, err
	}
	r.CompanyID, r.ID, r.RelationshipID = company, tx.NewID("rec"), tx.NewID("rel")
	r.Status, r.Version, r.Created = Pending, 1, tx.Now()
	details, err := profile.Details.Seal(s, detailsOf(r))
	if err != nil {
		return Recipient{}, err
	}
	if err := insert(ctx, tx, r, details); err != nil {
		return Recipient{}, err
	}
	metadata.Index(tx, r.CompanyID, r.ID, r.Metadata)
	db.History(tx, r.CompanyID, r.ID, r.Version, "", r.Status, "created")
	return r, emitCreated(tx, r)
}

// CreateWithID creates a recipient with the given IDs, without emitting an event. It is for the initial data of a
// sandbox.
func CreateWithID(ctx context.Context, tx *db.Tx, s *identity.Sealer, id, relationshipID string, p CreateParams) error {
	r, profile, err := p.check(tx.Now())
	if err != nil {
		return err
	}
	r.CompanyID, r.ID, r.RelationshipID, r.Status, r.Version, r.Created = p.CompanyID, id, relationshipID, Pending, 1,
		tx.Now()
	details, err := profile.Details.Seal(s, detailsOf(r))
	if err != nil {
		return err
	}
	return insert(ctx, tx, r, details)
}

func detailsOf(r Recipient) identity.SealContext {
	return identity.SealContext{Table: "recipients", Column: "details", Row: r.CompanyID + "/" + r.ID}
}

// check applies the rules that need no database.
func (p CreateParams) check(now time.Time) (Recipient, identity.Profile, error) {
	var problems apierr.List
	r := Recipient{
		Type: either(&problems, "/recipient_type", p.Type, TypeUser, TypeCompany),
		Role: either(&problems, "/role", p.Role, Contractor, Employee, Vendor),
	}
	if p.Name != "" {
		r.Name = identity.Line(&problems, "/name", p.Name, 1, 200)
	}
	required := []string{"country"}
	switch {
	case p.Name != "":
	case r.Type == TypeCompany:
		problems.Add("missing_field", "/name", "A company recipient needs a name.")
	default:
		required = append(required, "first_name", "last_name")
	}
	profile := p.Profile.Check(&problems, now, required...)
	r.FirstName, r.LastName, r.Email, r.Country = profile.FirstName, profile.LastName, profile.Email, profile.Country
	if r.Name == "" {
		r.Name = strings.TrimSpace(r.FirstName + " " + r.LastName)
	}
	r.ExternalID = externalID(&problems, p.ExternalID)
	r.Department = identity.Line(&problems, "/department", p.Department, 0, 100)
	r.VendorType = identity.Line(&problems, "/vendor_type", p.VendorType, 0, 100)
	metadata.Check(&problems, "/metadata", p.Metadata)
	r.Metadata = p.Metadata
	return r, profile, problems.Err()
}

// externalID validates the company's own reference for the recipient. It changes only the reference's Unicode
// normalization form, so that two encodings of the same characters are the same reference.
func externalID(problems *apierr.List, text string) string {
	id := norm.NFC.String(text)
	if utf8.RuneCountInString(id) > 255 || !utf8.ValidString(text) || strings.TrimSpace(id) != id ||
		strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		problems.Add("invalid_parameter", "/external_id",
			"An external_id has at most 255 characters, none of them control characters, and no white space around it.")
		return ""
	}
	return id
}

// either returns the value if it is allowed, or the first allowed value if it is empty.
func either(problems *apierr.List, pointer, value string, allowed ...string) string {
	if value == "" {
		return allowed[0]
	}
	if !slices.Contains(allowed, value) {
		problems.Add("invalid_parameter", pointer, "This takes one of: "+strings.Join(allowed, ", ")+".")
		return allowed[0]
	}
	return value
}

// emitCreated emits the first event of a recipient.
func emitCreated(tx *db.Tx, r Recipient) error {
	return webhook.Emit(tx, webhook.RecipientCreated.Event(r.CompanyID, r.ID, r.Version, r.eventData()))
}

// emit emits an event about a recipient. The sequence of events is shared with events of other packages about the
// same person, such as verifications.
func emit(ctx context.Context, tx *db.Tx, event webhook.Type[webhook.RecipientData], r Recipient) error {
	return webhook.EmitNext(ctx, tx, event.Event(r.CompanyID, r.ID, 0, r.eventData()))
}

func (r Recipient) eventData() webhook.RecipientData {
	return webhook.RecipientData{
		RecipientID: r.ID, RecipientType: r.Type, RelationshipID: r.RelationshipID, CompanyID: r.CompanyID,
		ExternalID: r.ExternalID,
		Status:     r.Status, Metadata: r.Metadata,
	}
}

// AddWorker makes a user a worker of a company. If the user already is one, AddWorker updates the company's copy of
// their profile.
func AddWorker(ctx context.Context, tx *db.Tx, companyID, userID, role string) (Recipient, error) {
	var problems apierr.List
	role = either(&problems, "/role", role, Contractor, Employee)
	if err := problems.Err(); err != nil {
		return Recipient{}, err
	}
	u, err := identity.GetUser(ctx, tx, nil, userID)
	if err != nil {
		return Recipient{}, err
	}
	r := Recipient{
		CompanyID: companyID, ID: u.ID, UserID: u.ID, RelationshipID: tx.NewID("rel"), Type: TypeUser, Role: role,
		Status: Pending,
		Name:   u.Name(), FirstName: u.FirstName, LastName: u.LastName, Email: u.Email, Country: u.Country, Version: 1,
		Created: tx.Now(),
	}
	added, err := upsertWorker(ctx, tx, r, u.Complete)
	if err != nil {
		return Recipient{}, err
	}
	if added {
		db.History(tx, companyID, r.ID, r.Version, "", r.Status, "linked")
		if err := emit(ctx, tx, webhook.RecipientCreated, r); err != nil {
			return Recipient{}, err
		}
	}
	if err := activate(ctx, tx, companyID, r.ID); err != nil {
		return Recipient{}, err
	}
	return selectOne(ctx, tx, companyID, r.ID)
}

// Get returns a recipient of the principal's company, or apierr.NotFoundErr.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, id string) (Recipient, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Recipient{}, err
	}
	return selectOne(ctx, tx, company, id)
}

// Personal returns the decrypted personal details of a recipient without a login.
func Personal(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, companyID,
	id string) (identity.Details, error) {
	r, err := Get(ctx, tx, by, companyID, id)
	if err != nil {
		return identity.Details{}, err
	}
	return personal(ctx, tx, s, r)
}

// PersonalOf returns a recipient without a login, and their decrypted personal details. It does not check access.
func PersonalOf(ctx context.Context, tx *db.Tx, s *identity.Sealer, companyID, id string) (Recipient, identity.Details,
	error) {
	r, err := selectOne(ctx, tx, companyID, id)
	if err != nil {
		return r, identity.Details{}, err
	}
	d, err := personal(ctx, tx, s, r)
	return r, d, err
}

func personal(ctx context.Context, tx *db.Tx, s *identity.Sealer, r Recipient) (identity.Details, error) {
	sealed, err := selectDetails(ctx, tx, r.CompanyID, r.ID)
	if err != nil || sealed == "" {
		return identity.Details{}, err
	}
	return identity.OpenDetails(s, detailsOf(r), sealed)
}

// Owner returns the payee with the given ID if the principal may see and change the payee's destinations: a recipient
// without a login of the principal's company, or a user for whom the principal may act (see [identity.ActingUser]).
// Otherwise it returns apierr.NotFoundErr, for example for a worker who accepted the company's invitation, whose
// destinations belong to the worker.
func Owner(ctx context.Context, tx *db.Tx, by identity.Principal, id string) (Payee, error) {
	if by.CompanyID != "" {
		r, err := selectOne(ctx, tx, by.CompanyID, id)
		if err == nil && r.UserID == "" {
			return Payee{r.ID, r.UserID, r.Type, r.Role, r.Name, r.Status, r.Country, r.Email, r.CompanyID}, nil
		}
		if err != nil && !errors.Is(err, apierr.NotFoundErr) {
			return Payee{}, err
		}
	}
	if id == "" {
		return Payee{}, apierr.NotFoundErr
	}
	u, err := identity.ActingUser(ctx, tx, by, id)
	if err != nil {
		return Payee{}, err
	}
	return Payee{ID: u.ID, UserID: u.ID, Kind: TypeUser, Name: u.Name(), Status: Pending, Country: u.Country,
		Email: u.Email, CompanyID: u.CompanyID}, nil
}

// JobActivate is the kind of job that [HandleActivate] handles. Its payload is a [JobPayload].
const JobActivate = "recipient.activate"

// JobPayload is the payload of jobs about one payee.
type JobPayload struct {
	RecipientID string `json:"recipient_id"`
}

// HandleActivate is the handler of [JobActivate]. It updates the state of a payee in one company from their
// allocations.
func HandleActivate(ctx context.Context, tx *db.Tx, j job.Job) error {
	var payload JobPayload
	if err := j.Decode(&payload); err != nil {
		return err
	}
	return activate(ctx, tx, j.CompanyID, payload.RecipientID)
}

// activate makes a pending payee active if their allocations total 100, and an active payee pending if they do not.
// Calling it again, or for an unknown payee, has no effect.
func activate(ctx context.Context, tx *db.Tx, companyID, id string) error {
	r, changed, err := settle(ctx, tx, companyID, id)
	if err != nil || !changed {
		return err
	}
	from, reason := Pending, "allocations total 100"
	if r.Status == Pending {
		from, reason = Active, "allocations do not total 100"
	}
	db.History(tx, r.CompanyID, r.ID, r.Version, from, r.Status, reason)
	if r.Status == Active {
		Screen(tx, r.CompanyID, r.ID)
	}
	return emit(ctx, tx, webhook.RecipientStatusUpdate, r)
}

// ActivateEverywhere calls activate for every company that pays the payee: at once for the principal's company, and
// in jobs for other companies, because a transaction changes rows of only one company.
func ActivateEverywhere(ctx context.Context, tx *db.Tx, by identity.Principal, owner Payee) error {
	if by.CompanyID != "" {
		if err := activate(ctx, tx, by.CompanyID, owner.ID); err != nil {
			return err
		}
	}
	if owner.UserID == "" {
		return nil
	}
	companies, err := companiesOf(ctx, tx, owner.UserID, Pending)
	if err != nil {
		return err
	}
	for _, company := range companies {
		if company != by.CompanyID {
			job.Enqueue(tx, job.New{CompanyID: company, Kind: JobActivate, Payload: JobPayload{owner.ID}})
		}
	}
	return nil
}
