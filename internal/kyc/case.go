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
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/webhook"
)

// State is the state of a case.
type State string

// States of a person's case.
const (
	Initiated    State = "initiated" // complete, but not yet submitted to the provider
	InReview     State = "in_review"
	Approved     State = "approved"
	Resubmission State = "resubmission_required"
	Rejected     State = "rejected"
	Expired      State = "expired"
)

// Additional states of a company's case.
const (
	Draft            State = "draft" // the profile is incomplete
	DocumentsPending State = "documents_pending"
	Submitted        State = "submitted"   // complete, but not yet submitted to the provider
	OwnersPending    State = "ubo_pending" // approved by the provider, but an owner is not verified yet
	MoreInfo         State = "more_info"
	Suspended        State = "suspended"
)

// next lists the states to which each state may change. A person's new attempt is a new case.
var next = map[State][]State{
	Initiated: {InReview, Approved, Resubmission, Rejected},
	InReview:  {Approved, Resubmission, Rejected, OwnersPending, MoreInfo},
	Approved:  {Expired, Suspended, Resubmission},

	Draft:            {DocumentsPending},
	DocumentsPending: {Draft, Submitted},
	Submitted:        {InReview, Approved, OwnersPending, MoreInfo, Rejected},
	OwnersPending:    {Approved, MoreInfo, Rejected},
	MoreInfo:         {Draft, Submitted},
	Suspended:        {Approved, Rejected},
}

// Public returns the status that the API shows for the state.
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

// Kinds of subjects.
const (
	kindPerson  = "person"
	kindOwner   = "owner"
	kindCompany = "company"
)

// approvalMonths is the number of months after which an approval expires, unless the identity document expires
// earlier.
const approvalMonths = 24

// Errors of starting or deciding a verification; see also ErrProfile.
var (
	ErrDocuments = apierr.New(apierr.Conflict, "documents_incomplete",
		"Documents that the verification requires are missing. Upload them first.")
	ErrProcessing = apierr.New(apierr.Conflict, "already_processing",
		"The verification is in progress. Wait for its result.")
	ErrNoProvider = apierr.New(apierr.Unavailable, "retry_later",
		"This installation has no verification provider yet. Try again later.")
	ErrState = apierr.New(apierr.Conflict, "invalid_state",
		"The current state of the verification does not allow this.")
)

// Case is one verification of a subject.
type Case struct {
	SubjectID, ID string
	CompanyID     string // company that receives the events; "" for none
	Kind          string
	State         State
	Provider, Ref string
	Reasons       []string
	Expires       time.Time // time at which the approval expires
	Version       int64
	Opened        time.Time
}

// Kinds of jobs of this package.
const (
	JobSubmit = "kyc.submit" // submits a complete case to the provider
	JobCheck  = "kyc.check"  // fetches the state of a case from the provider
)

// jobPayload is the payload of the jobs JobSubmit and JobCheck.
type jobPayload struct {
	SubjectID string `json:"subject_id"`
	CaseID    string `json:"case_id"`
}

// Initiate starts the verification of a user. It has no effect while a verification is in progress or the user is
// approved. It returns ErrProfile or ErrDocuments with the missing fields or documents. It returns ErrState if the
// user was rejected, which is final unless support staff reopen the verification.
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
	switch old.State {
	case Initiated, InReview, Approved:
		return user, nil
	}
	if err := mayStart(old.State); err != nil {
		return user, err
	}
	if missing := missingFields(user.Profile); len(missing) > 0 {
		return user, incomplete(ErrProfile, "/user_id", missing)
	}
	missing, err := s.missing(ctx, tx, user)
	if err != nil {
		return user, err
	}
	if len(missing) > 0 {
		return user, incomplete(ErrDocuments, "/user_id", missing)
	}
	c, err := s.open(ctx, tx, old, Case{SubjectID: user.ID, CompanyID: user.CompanyID, Kind: kindPerson,
		State: Initiated})
	if err != nil {
		return user, err
	}
	job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobSubmit, Payload: jobPayload{c.SubjectID, c.ID}})
	return user, nil
}

// Reasons why a change by a person, or on behalf of them, ends a verification.
const (
	reasonProfile   = "profile_changed"
	reasonDocuments = "documents_changed"
)

// UpdateUser is like [payee.UpdateUser]. If it changes data that the user's verification has confirmed or is checking
// (name, date of birth or country), a new verification is required.
func (s *Service) UpdateUser(ctx context.Context, tx *db.Tx, by identity.Principal, id string,
	c identity.ProfileChanges) (identity.User, error) {
	old, err := identity.ActingUser(ctx, tx, by, id)
	if err == nil {
		old, err = old.Open(s.Sealer)
	}
	if err != nil {
		return old, err
	}
	u, err := payee.UpdateUser(ctx, tx, s.Sealer, by, id, c)
	if err != nil || identityOf(u.Profile) == identityOf(old.Profile) {
		return u, err
	}
	return u, s.endOnChange(ctx, tx, u.ID, reasonProfile)
}

// identityOf returns the part of a profile that a verification confirms.
func identityOf(p identity.Profile) identity.Profile {
	return identity.Profile{FirstName: p.FirstName, LastName: p.LastName, Country: p.Country,
		Details: identity.Details{DateOfBirth: p.DateOfBirth}}
}

// endOnChange requires a new verification of a user whose last verification is approved or in progress, because the
// verified data has changed. It locks the user first, so that it also finds a verification that starts concurrently.
func (s *Service) endOnChange(ctx context.Context, tx *db.Tx, userID, reason string) error {
	if err := identity.LockUser(ctx, tx, userID); err != nil {
		return err
	}
	c, err := selectCase(ctx, tx, userID)
	if err != nil || c.State != Approved && c.State != Initiated && c.State != InReview {
		return err
	}
	_, err = s.transition(ctx, tx, c, Resubmission, []string{reason}, time.Time{})
	return err
}

// mayStart returns nil if a new verification may start when the subject's last case has the given state.
func mayStart(state State) error {
	switch state {
	case Initiated, InReview, Submitted, OwnersPending:
		return ErrProcessing
	case Approved:
		return ErrState.Detailf("The verification is already approved.")
	case Rejected:
		return ErrState.Detailf("The verification was rejected. Contact support to reopen it.")
	}
	return nil
}

// incomplete adds to a fault a problem for each missing field or document. It also adds all names, separated by
// spaces, as the hint "missing", which the API sends as an array. The fault's detail repeats the first problem.
func incomplete(f *apierr.Fault, pointer string, missing []string) error {
	f = f.Detailf("Missing: %s.", missing[0])
	for _, name := range missing {
		f = f.With(apierr.Field{Code: f.Code, In: "body", Pointer: pointer, Message: "Missing: " + name + "."})
	}
	return f.Set("missing", strings.Join(missing, " "))
}

// missingFields returns the names of the empty profile fields that a verification requires.
func missingFields(p identity.Profile) []string {
	return empty([]field{
		{"first_name", p.FirstName}, {"last_name", p.LastName}, {"date_of_birth", p.DateOfBirth}, {"country", p.Country},
		{"street_address", p.StreetAddress}, {"city", p.City},
	})
}

type field struct{ name, value string }

// empty returns the names of the empty fields.
func empty(fields []field) (names []string) {
	for _, f := range fields {
		if f.value == "" {
			names = append(names, f.name)
		}
	}
	return names
}

// missing returns the documents that a user's verification requires but that are not stored, and "payer" if the user
// has no active payer.
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
	missing := missingIdentity(documents)
	has := func(docType string) bool {
		return slices.ContainsFunc(documents, func(d Document) bool { return d.DocType == docType })
	}
	for _, r := range []struct {
		name              string
		required, present bool
	}{
		{Selfie, n.selfie, has(Selfie)}, {ProofOfAddress, n.proofOfAddress, has(ProofOfAddress)},
		{TaxID, n.taxID, len(taxIDs) > 0},
		{"payer", true, len(currencies) > 0},
	} {
		if r.required && !r.present {
			missing = append(missing, r.name)
		}
	}
	return missing, nil
}

// missingIdentity returns nil if the documents include a complete identity document. Otherwise it returns the side
// that would complete one, or "identity_document".
func missingIdentity(documents []Document) []string {
	missing := []string{"identity_document"}
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
		complete := d.Category == Front && !document(c, d.DocType).Backside ||
			slices.ContainsFunc(documents, func(o Document) bool {
				return o.DocType == d.DocType && o.IssuingCountry == d.IssuingCountry && o.Category == other
			})
		if complete {
			return nil
		}
		missing = []string{d.DocType + "_" + other}
	}
	return missing
}

// open makes c the subject's current case in place of last, which is the zero Case if there was none. It returns
// db.ErrConflict if a concurrent transaction changed the current case.
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
	return c, s.publish(ctx, tx, "", c)
}

// transition changes the state of a case and publishes the change. It returns ErrState if the change is not allowed,
// and db.ErrConflict if a concurrent transaction changed the case.
func (s *Service) transition(ctx context.Context, tx *db.Tx, c Case, to State, reasons []string,
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
	updated, err := updateCase(ctx, tx, c, from)
	if err != nil {
		return c, err
	}
	if !updated {
		return c, db.ErrConflict
	}
	c.Version++
	db.History(tx, c.CompanyID, c.ID, c.Version, string(from), string(to), strings.Join(reasons, " "))
	if to == Approved || to == Rejected {
		if err := deleteReplaced(ctx, tx, c.SubjectID); err != nil {
			return c, err
		}
	}
	return c, s.publish(ctx, tx, from, c)
}

// publish stores the public status with the user, company or owner, emits an event, and mails the result to a person.
func (s *Service) publish(ctx context.Context, tx *db.Tx, from State, c Case) error {
	public := c.State.Public()
	switch c.Kind {
	case kindOwner:
		if err := updateOwnerStatus(ctx, tx, c.CompanyID, c.SubjectID, public); err != nil || c.State != Approved {
			return err
		}
		return s.ownersChanged(ctx, tx, c.CompanyID)
	case kindCompany:
		if public == identity.KYCNotStarted {
			return nil // preparing a case does not change the company's status
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
	if c.State == Approved {
		payee.Payable(tx, c.SubjectID, c.SubjectID)
	}
	if err := webhook.EmitNext(ctx, tx, webhook.UserKYCStatusUpdate.Event(c.CompanyID, c.SubjectID, 0,
		webhook.UserVerificationData{
			UserID: c.SubjectID, Status: public, Reasons: notNil(c.Reasons),
		}).And(c.SubjectID)...); err != nil {
		return err
	}
	return s.sendResult(ctx, tx, c)
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// sendResult enqueues a mail to the person if the case has ended.
func (s *Service) sendResult(ctx context.Context, tx *db.Tx, c Case) error {
	result := map[State]string{
		Approved: mail.Approved, Resubmission: mail.ResubmissionRequired, Rejected: mail.Rejected, Expired: mail.Expired,
	}[c.State]
	if result == "" {
		return nil
	}
	user, err := identity.GetUser(ctx, tx, nil, c.SubjectID)
	if err != nil || !mail.Valid(user.Email) {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: c.CompanyID, To: user.Email, Template: mail.KYCResult, Language: mail.LanguageOf(user.Country),
		Key: c.ID + "/" + string(c.State), Data: mail.KYCResultData{Name: user.Name(), Result: result},
	})
}

// Submit is the handler of [JobSubmit]. It submits a case to the provider.
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
			return err // a concurrent transaction has decided the case
		}
		c.Ref = ref
		if c, err = s.transition(ctx, tx, c, InReview, nil, time.Time{}); err != nil {
			return err
		}
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: jobPayload{c.SubjectID, c.ID}})
		return nil
	})
}

// Check is the handler of [JobCheck]. It fetches the outcome of a case from the provider and applies it. While the
// case is undecided, it enqueues the next check.
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
			job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: jobPayload{c.SubjectID, c.ID},
				RunAt: tx.Now().Add(every)})
		}
		return nil
	})
}

// decide changes a case to the provider's outcome. A company that the provider approves stays in OwnersPending until
// all its beneficial owners are verified.
func (s *Service) decide(ctx context.Context, tx *db.Tx, c Case, o Outcome) error {
	to := o.State
	if c.Kind == kindCompany {
		switch o.State {
		case Resubmission:
			to = MoreInfo
		case Approved:
			waiting, err := ownersUnverified(ctx, tx, c.CompanyID)
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
	_, err := s.transition(ctx, tx, c, to, o.Reasons, o.Expires)
	return err
}

// caseOf returns the case of a job, or the zero Case if it is no longer the subject's current case.
func (s *Service) caseOf(ctx context.Context, d *db.DB, j job.Job) (c Case, err error) {
	var in jobPayload
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

// application returns the data of a case for the provider. Images are loaded only when the provider reads them.
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
				DateOfBirth: user.DateOfBirth, StreetAddress: user.StreetAddress, StreetAddress2: user.StreetAddress2,
				City: user.City, State: user.State, Zip: user.Zip, Country: user.Country,
			}
		case kindOwner:
			owner, err := s.owner(ctx, tx, c.CompanyID, c.SubjectID)
			if err != nil {
				return err
			}
			a.Person = &owner.Person
		case kindCompany:
			profile, err := s.CompanyProfile(ctx, tx, c.CompanyID)
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
			a.Documents = append(a.Documents, DocumentFile{doc, func(ctx context.Context) (data []byte, err error) {
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

// openDocument returns the decrypted image of a document.
func openDocument(ctx context.Context, tx *db.Tx, key identity.SubjectKey,
	subjectID, documentID string) ([]byte, error) {
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

// ExpectsCallback reports whether a request with these headers can be a callback from the provider. It is called
// before the body is read.
func (s *Service) ExpectsCallback(provider string, h http.Header) bool {
	return s.Provider != nil && provider == s.Provider.Name() && s.Provider.Signed(h)
}

// HandleCallback authenticates a callback from the provider and, if the callback is new, enqueues a check of its
// case. It returns ErrCallback if the callback cannot be authenticated.
func (s *Service) HandleCallback(ctx context.Context, d *db.DB, provider string, h http.Header, body []byte) error {
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
		inserted, err := insertCallback(ctx, tx, provider, n.ID)
		if err != nil || !inserted {
			return err
		}
		c, err := selectCaseByRef(ctx, tx, provider, n.Ref)
		if err != nil || c.ID == "" {
			return err
		}
		job.Enqueue(tx, job.New{CompanyID: c.CompanyID, Kind: JobCheck, Payload: jobPayload{c.SubjectID, c.ID}})
		return nil
	})
}

// ExpireDue ends all expired approvals: a person's becomes Expired, a company's Suspended.
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
				_, err = s.transition(ctx, tx, c, to, []string{"outdated"}, time.Time{})
				return err
			})
			if err != nil && !errors.Is(err, db.ErrConflict) {
				return err
			}
		}
	}
}

// DecideInSandbox decides the verification of a user in place of the provider, and starts a verification if none is
// in progress. No documents are required. result is a public status; expired is allowed only after approved.
func (s *Service) DecideInSandbox(ctx context.Context, tx *db.Tx, by identity.Principal,
	userID, result string) (id, status string, err error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return "", "", err
	}
	c, err := selectCase(ctx, tx, user.ID)
	if err != nil {
		return "", "", err
	}
	if State(result) == Expired {
		c, err = s.transition(ctx, tx, c, Expired, []string{"sandbox"}, time.Time{})
		return user.ID, c.State.Public(), err
	}
	if c.State != Initiated && c.State != InReview {
		c, err = s.open(ctx, tx, c, Case{SubjectID: user.ID, CompanyID: user.CompanyID, Kind: kindPerson,
			State: Initiated})
		if err != nil {
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
	c, err = s.transition(ctx, tx, c, State(result), reasons, time.Time{})
	return user.ID, c.State.Public(), err
}
