package kyc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/webhook"
)

// State is where a case stands.
type State string

// The states of a person's case. A subject without a case has not started.
const (
	Initiated    State = "initiated" // complete, not yet with the provider
	InReview     State = "in_review"
	Approved     State = "approved"
	Resubmission State = "resubmission_required"
	Rejected     State = "rejected"
	Expired      State = "expired"
)

// The further states of a company's case.
const (
	Draft            State = "draft" // the profile lacks something
	DocumentsPending State = "documents_pending"
	Submitted        State = "submitted" // complete, not yet with the provider
	OwnersPending    State = "ubo_pending"
	MoreInfo         State = "more_info"
	Suspended        State = "suspended"
)

// next is every step that a case may take. A case that must be tried again makes room for a new one.
var next = map[State][]State{
	Initiated: {InReview, Approved, Resubmission, Rejected},
	InReview:  {Approved, Resubmission, Rejected, OwnersPending, MoreInfo},
	Approved:  {Expired, Suspended},

	Draft:            {DocumentsPending},
	DocumentsPending: {Draft, Submitted},
	Submitted:        {InReview, Approved, OwnersPending, MoreInfo, Rejected},
	OwnersPending:    {Approved, MoreInfo, Rejected},
	MoreInfo:         {Draft, Submitted},
	Suspended:        {Approved, Rejected},
}

// Public is the word under which partners know a state.
func (s State) Public() string {
	switch s {
	case "", Draft, DocumentsPending:
		return identity.KYCNotStarted
	case Initiated, Submitted:
		return "pending"
	case OwnersPending:
		return string(InReview)
	case MoreInfo:
		return string(Resubmission)
	}
	return string(s)
}

// The kinds of subjects.
const (
	kindPerson  = "person"
	kindOwner   = "owner"
	kindCompany = "company"
)

// How long an approval holds: 24 months, or as long as the document if that is shorter.
const approvalMonths = 24

// What starting a verification is refused with, beside ErrProfile.
var (
	ErrDocuments = apierr.New(apierr.Conflict, "documents_incomplete",
		"Something that a verification needs is missing. Upload it first.")
	ErrProcessing = apierr.New(apierr.Conflict, "already_processing",
		"The verification is under way. Its outcome comes by itself.")
	ErrNoProvider = apierr.New(apierr.Unavailable, "retry_later", "Nobody verifies people and companies here yet.")
	ErrState      = apierr.New(apierr.Conflict, "invalid_state",
		"The verification does not take this step in its present state.")
)

// Case is one verification of a subject.
type Case struct {
	SubjectID, ID string
	CompanyID     string // hears of it
	Kind          string
	State         State
	Provider, Ref string
	Reasons       []string
	Expires       time.Time // of an approval
	Version       int64
	Opened        time.Time
}

// The kinds of this package's jobs.
const (
	JobSubmit = "kyc.submit" // a case is complete: give it to the provider
	JobCheck  = "kyc.check"  // ask the provider where a case stands
)

// look is the payload of both.
type look struct {
	SubjectID string `json:"subject_id"`
	CaseID    string `json:"case_id"`
}

// Initiate starts the verification of a user whose profile and documents are complete. What is missing is listed by
// ErrProfile and ErrDocuments; a verification under way is ErrProcessing, and one that was approved or rejected
// ErrState: a rejection is final unless support reopens it.
func (s *Service) Initiate(ctx context.Context, tx *db.Tx, by identity.Principal,
	userID string) (identity.User, error) {
	user, err := changingUser(ctx, tx, by, userID)
	if err != nil {
		return user, err
	}
	if s.Provider == nil {
		return user, ErrNoProvider
	}
	if user, err = user.Open(s.Sealer); err != nil {
		return user, err
	}
	old, err := selectCase(ctx, tx, user.ID)
	if err != nil {
		return user, err
	}
	if err := mayStart(old.State); err != nil {
		return user, err
	}
	if lacks := lacking(user.Profile); len(lacks) > 0 {
		return user, incomplete(ErrProfile, "/user_id", lacks)
	}
	lacks, err := s.missing(ctx, tx, user)
	if err != nil {
		return user, err
	}
	if len(lacks) > 0 {
		return user, incomplete(ErrDocuments, "/user_id", lacks)
	}
	company := by.CompanyID
	if company == "" {
		company = user.CompanyID
	}
	c, err := s.open(ctx, tx, old, Case{SubjectID: user.ID, CompanyID: company, Kind: kindPerson, State: Initiated})
	if err != nil {
		return user, err
	}
	job.Enqueue(tx, job.New{CompanyID: company, Kind: JobSubmit, Payload: look{c.SubjectID, c.ID}})
	return user, nil
}

func mayStart(state State) error {
	switch state {
	case Initiated, InReview, Submitted, OwnersPending:
		return ErrProcessing
	case Approved:
		return ErrState.Detailf("The verification was approved already.")
	case Rejected:
		return ErrState.Detailf("The verification was rejected. Ask support, who may reopen it.")
	}
	return nil
}

// incomplete lists what is missing, as problems and as one hint of words.
func incomplete(f *apierr.Fault, pointer string, lacks []string) error {
	for _, name := range lacks {
		f = f.With(apierr.Field{Code: f.Code, In: "body", Pointer: pointer, Message: "Missing: " + name + "."})
	}
	return f.Set("missing", strings.Join(lacks, " "))
}

// lacking are the members of a profile that a verification needs and that are empty.
func lacking(p identity.Profile) (lacks []string) {
	for _, m := range []struct{ name, value string }{
		{"first_name", p.FirstName}, {"last_name", p.LastName}, {"date_of_birth", p.DateOfBirth}, {"country", p.Country},
		{"street_address", p.StreetAddress}, {"city", p.City},
	} {
		if m.value == "" {
			lacks = append(lacks, m.name)
		}
	}
	return lacks
}

// missing is what a user's documents and payers lack.
func (s *Service) missing(ctx context.Context, tx *db.Tx, user identity.User) ([]string, error) {
	currencies, err := payerCurrencies(ctx, tx, user.ID)
	if err != nil {
		return nil, err
	}
	n, err := needsOf(user.Country, currencies)
	if err != nil {
		return nil, err
	}
	documents, err := selectDocuments(ctx, tx, user.ID)
	if err != nil {
		return nil, err
	}
	taxIDs, err := selectTaxIDs(ctx, tx, user.ID)
	if err != nil {
		return nil, err
	}
	lacks := identityLacks(documents)
	has := func(docType string) bool {
		return slices.ContainsFunc(documents, func(d Document) bool { return d.DocType == docType })
	}
	for _, need := range []struct {
		name   string
		needed bool
		there  bool
	}{
		{Selfie, n.selfie, has(Selfie)}, {ProofOfAddress, n.proofOfAddress, has(ProofOfAddress)},
		{TaxID, n.taxID, len(taxIDs) > 0},
		{"payer", true, len(currencies) > 0},
	} {
		if need.needed && !need.there {
			lacks = append(lacks, need.name)
		}
	}
	return lacks, nil
}

// identityLacks is nothing when one identity document is whole, else what would make one so.
func identityLacks(documents []Document) []string {
	lacks := []string{"identity_document"}
	for _, d := range documents {
		if d.DocType == Passport {
			return nil
		}
		c := supported(d.IssuingCountry)
		if c == nil || document(c, d.DocType) == nil {
			continue
		}
		other := Back
		if d.Category == Back {
			other = Front
		}
		whole := d.Category == Front && !document(c, d.DocType).Backside ||
			slices.ContainsFunc(documents, func(o Document) bool {
				return o.DocType == d.DocType && o.IssuingCountry == d.IssuingCountry && o.Category == other
			})
		if whole {
			return nil
		}
		lacks = []string{d.DocType + "_" + other}
	}
	return lacks
}

// open begins a case in place of the subject's last one, a zero one when there is none. It is db.ErrConflict when
// another took that place meanwhile.
func (s *Service) open(ctx context.Context, tx *db.Tx, last, c Case) (Case, error) {
	c.ID, c.Version = tx.NewID("ver"), 1
	if s.Provider != nil {
		c.Provider = s.Provider.Name()
	}
	if last.ID != "" {
		retired, err := retireCase(ctx, tx, last)
		if err != nil {
			return c, err
		}
		if !retired {
			return c, db.ErrConflict
		}
	}
	if err := insertCase(ctx, tx, c); err != nil {
		return c, err
	}
	db.History(tx, c.CompanyID, c.ID, c.Version, "", string(c.State), "opened")
	return c, s.tell(ctx, tx, "", c)
}

// move takes a case to another state, with everything that follows. It is db.ErrConflict when the case moved meanwhile.
func (s *Service) move(ctx context.Context, tx *db.Tx, c Case, to State, reasons []string,
	documentExpires time.Time) (Case, error) {
	if !slices.Contains(next[c.State], to) {
		return c, ErrState
	}
	from := c.State
	c.State, c.Reasons, c.Expires = to, reasons, time.Time{}
	if to == Approved {
		c.Expires = tx.Now().AddDate(0, approvalMonths, 0)
		if !documentExpires.IsZero() && documentExpires.Before(c.Expires) {
			c.Expires = documentExpires
		}
	}
	moved, err := updateCase(ctx, tx, c, from)
	if err != nil {
		return c, err
	}
	if !moved {
		return c, db.ErrConflict
	}
	c.Version++
	db.History(tx, c.CompanyID, c.ID, c.Version, string(from), string(to), strings.Join(reasons, " "))
	if to == Approved || to == Rejected {
		if err := deleteReplaced(ctx, tx, c.SubjectID); err != nil {
			return c, err
		}
	}
	return c, s.tell(ctx, tx, from, c)
}

// tell makes a case's state known: to who reads the subject, by an event, and by a mail when it is an end.
func (s *Service) tell(ctx context.Context, tx *db.Tx, from State, c Case) error {
	public := c.State.Public()
	switch c.Kind {
	case kindOwner:
		if err := updateOwnerStatus(ctx, tx, c.CompanyID, c.SubjectID, public); err != nil || c.State != Approved {
			return err
		}
		return s.ownersChanged(ctx, tx, c.CompanyID)
	case kindCompany:
		if public == identity.KYCNotStarted {
			return nil // what a company prepares changes nothing, and takes no earlier agreement away
		}
		if err := identity.SetKYBStatus(ctx, tx, c.CompanyID, public); err != nil {
			return err
		}
		return webhook.EmitNext(ctx, tx, webhook.CompanyKYBStatusUpdate.Event(c.CompanyID, c.CompanyID, 0,
			webhook.CompanyVerificationData{
				CompanyID: c.CompanyID, Status: public, State: string(c.State), Reasons: notNil(c.Reasons),
			}))
	}
	if from != "" && from.Public() == public {
		return nil
	}
	if err := identity.SetKYCStatus(ctx, tx, c.SubjectID, public); err != nil {
		return err
	}
	if c.CompanyID != "" {
		if err := webhook.EmitNext(ctx, tx, webhook.UserKYCStatusUpdate.Event(c.CompanyID, c.SubjectID, 0,
			webhook.UserVerificationData{
				UserID: c.SubjectID, Status: public, Reasons: notNil(c.Reasons),
			})); err != nil {
			return err
		}
	}
	return s.writeTo(ctx, tx, c)
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// writeTo tells a person by mail how the verification ended.
func (s *Service) writeTo(ctx context.Context, tx *db.Tx, c Case) error {
	result := map[State]string{Approved: mail.Approved, Resubmission: mail.ResubmissionRequired, Rejected: mail.Rejected,
		Expired: mail.Expired}[c.State]
	if result == "" {
		return nil
	}
	user, err := identity.GetUser(ctx, tx, nil, c.SubjectID)
	if err != nil || !mail.Valid(user.Email) {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: c.CompanyID, To: user.Email, Template: mail.KYCResult, Language: mail.LanguageOf(user.Country), Key: c.ID +
			"/" + string(c.State),
		Data: mail.KYCResultData{Name: user.Name(), Result: result},
	})
}

// Submit gives a case to the provider.
func (s *Service) Submit(ctx context.Context, d *db.DB, j job.Job) error {
	c, err := s.caseOf(ctx, d, j)
	if err != nil || c.State != Initiated && c.State != Submitted {
		return err
	}
	if s.Provider == nil {
		return ErrNoProvider
	}
	a, err := s.application(ctx, d, c)
	if err != nil {
		return err
	}
	ref, err := s.Provider.Submit(ctx, a)
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		c, err := selectCase(ctx, tx, c.SubjectID)
		if err != nil || c.ID != a.CaseID || c.State != Initiated && c.State != Submitted {
			return err // somebody decided meanwhile
		}
		c.Ref = ref
		if c, err = s.move(ctx, tx, c, InReview, nil, time.Time{}); err != nil {
			return err
		}
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: look{c.SubjectID, c.ID}})
		return nil
	})
}

// Check asks the provider where a case stands, and again later while it is not decided.
func (s *Service) Check(ctx context.Context, d *db.DB, j job.Job) error {
	c, err := s.caseOf(ctx, d, j)
	if err != nil || c.State != InReview || c.Ref == "" {
		return err
	}
	if s.Provider == nil {
		return ErrNoProvider
	}
	o, err := s.Provider.Fetch(ctx, c.Ref)
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		now, err := selectCase(ctx, tx, c.SubjectID)
		if err != nil || now.ID != c.ID || now.State != InReview {
			return err
		}
		if o.State != InReview {
			return s.decide(ctx, tx, now, o)
		}
		if every := s.Provider.PollEvery(); every > 0 {
			job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: look{c.SubjectID, c.ID},
				RunAt: tx.Now().Add(every)})
		}
		return nil
	})
}

// decide moves a case to what the provider found. A company is approved only with everybody who owns or controls it.
func (s *Service) decide(ctx context.Context, tx *db.Tx, c Case, o Outcome) error {
	to := o.State
	if c.Kind == kindCompany {
		switch o.State {
		case Resubmission:
			to = MoreInfo
		case Approved:
			waiting, err := ownersWaiting(ctx, tx, c.CompanyID)
			if err != nil {
				return err
			}
			if waiting {
				if to = OwnersPending; c.State == OwnersPending {
					return nil
				}
			}
		}
	}
	_, err := s.move(ctx, tx, c, to, o.Reasons, o.Expires)
	return err
}

// caseOf is the case that a job names, a zero one when another took its place.
func (s *Service) caseOf(ctx context.Context, d *db.DB, j job.Job) (c Case, err error) {
	var in look
	if err := j.Decode(&in); err != nil {
		return c, err
	}
	err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		c, err = selectCase(ctx, tx, in.SubjectID)
		return err
	})
	if c.ID != in.CaseID {
		return Case{}, err
	}
	return c, err
}

// application is what the provider is given. The bytes of a document are read when it asks for them, one at a time.
func (s *Service) application(ctx context.Context, d *db.DB, c Case) (Application, error) {
	a := Application{CaseID: c.ID}
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		switch c.Kind {
		case kindPerson:
			user, err := identity.GetUser(ctx, tx, s.Sealer, c.SubjectID)
			if err != nil {
				return err
			}
			a.Person = &Person{
				FirstName: user.FirstName, LastName: user.LastName, Email: user.Email, PhoneNumber: user.PhoneNumber,
				DateOfBirth: user.DateOfBirth,
				Country:     user.Country, StreetAddress: user.StreetAddress, StreetAddress2: user.StreetAddress2, City: user.City,
				State: user.State, Zip: user.Zip,
			}
		case kindOwner:
			owner, err := s.owner(ctx, tx, c.CompanyID, c.SubjectID)
			if err != nil {
				return err
			}
			a.Person = &owner.Person
		case kindCompany:
			profile, err := s.companyProfile(ctx, tx, c.CompanyID)
			if err != nil {
				return err
			}
			a.Company = &profile
		}
		key, err := s.openSubject(ctx, tx, c.SubjectID)
		if err != nil {
			return err
		}
		taxIDs, err := selectTaxIDs(ctx, tx, c.SubjectID)
		if err != nil {
			return err
		}
		for _, t := range taxIDs {
			number, err := key.Open(taxIDAt(c.SubjectID, t.country), t.sealed)
			if err != nil {
				return err
			}
			a.TaxIDs = append(a.TaxIDs, TaxNumber{t.country, t.kind, string(number)})
		}
		documents, err := selectDocuments(ctx, tx, c.SubjectID)
		for _, doc := range documents {
			a.Document = append(a.Document, Paper{doc, func(ctx context.Context) (data []byte, err error) {
				err = d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
					data, err = openDocument(ctx, tx, key, c.SubjectID, doc.ID)
					return err
				})
				return data, err
			}})
		}
		return err
	})
	return a, err
}

func openDocument(ctx context.Context, tx *db.Tx, key identity.SubjectKey, subjectID,
	documentID string) ([]byte, error) {
	chunks, err := selectChunks(ctx, tx, subjectID, documentID)
	if err != nil {
		return nil, err
	}
	var data []byte
	for n, sealed := range chunks {
		plain, err := key.Open(chunkAt(documentID, n, len(chunks)), sealed)
		if err != nil {
			return nil, err
		}
		data = append(data, plain...)
	}
	return data, nil
}

// Hear takes a callback of the provider: when it is genuine and new, the case is asked for. The callback itself moves
// nothing. A doubtful one is ErrCallback.
func (s *Service) Hear(ctx context.Context, d *db.DB, provider string, h http.Header, body []byte) error {
	now, err := d.Now(ctx)
	if err != nil {
		return err
	}
	if s.Provider == nil || provider != s.Provider.Name() {
		return ErrCallback
	}
	n, err := s.Provider.Callback(h, body, now)
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		fresh, err := insertCallback(ctx, tx, provider, n.ID)
		if err != nil || !fresh {
			return err
		}
		c, err := selectCaseByRef(ctx, tx, provider, n.Ref)
		if err != nil || c.ID == "" {
			return err
		}
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: look{c.SubjectID, c.ID}})
		return nil
	})
}

// ExpireDue ends the approvals whose time has come.
func (s *Service) ExpireDue(ctx context.Context, d *db.DB) error {
	for {
		var due []string
		err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			due, err = selectExpiring(ctx, tx)
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, subjectID := range due {
			err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				c, err := selectCase(ctx, tx, subjectID)
				if err != nil || c.State != Approved || c.Expires.After(tx.Now()) {
					return err
				}
				to := Expired
				if c.Kind == kindCompany {
					to = Suspended
				}
				_, err = s.move(ctx, tx, c, to, []string{"outdated"}, time.Time{})
				return err
			})
			if err != nil && !errors.Is(err, db.ErrConflict) {
				return err
			}
		}
	}
}

// DecideInSandbox ends the verification of a user as result says, as the provider would. It needs no documents: where
// no verification is under way it begins one. Result is a public state; expired follows approved only.
func (s *Service) DecideInSandbox(ctx context.Context, tx *db.Tx, by identity.Principal, userID,
	result string) (id, status string, err error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return "", "", err
	}
	c, err := selectCase(ctx, tx, user.ID)
	if err != nil {
		return "", "", err
	}
	if State(result) == Expired {
		c, err = s.move(ctx, tx, c, Expired, []string{"sandbox"}, time.Time{})
		return user.ID, c.State.Public(), err
	}
	if c.State != Initiated && c.State != InReview {
		company := by.CompanyID
		if company == "" {
			company = user.CompanyID
		}
		if c, err = s.open(ctx, tx, c, Case{SubjectID: user.ID, CompanyID: company, Kind: kindPerson,
			State: Initiated}); err != nil {
			return "", "", err
		}
	}
	if c.State == State(result) {
		return user.ID, c.State.Public(), nil
	}
	var reasons []string
	if State(result) == Rejected || State(result) == Resubmission {
		reasons = []string{"sandbox"}
	}
	c, err = s.move(ctx, tx, c, State(result), reasons, time.Time{})
	return user.ID, c.State.Public(), err
}
