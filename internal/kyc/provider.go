package kyc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Provider verifies people and companies. Jobs call Submit and Fetch while no transaction is open.
type Provider interface {
	// Name returns the identifier of the provider, which is stored with its cases.
	Name() string
	// Submit starts the verification of a case and returns the provider's reference for the case. It must be idempotent,
	// because a job calls it again if it did not receive the result.
	Submit(ctx context.Context, a Application) (ref string, err error)
	// Fetch returns the current outcome of a case. The state of a case changes only according to this result.
	Fetch(ctx context.Context, ref string) (Outcome, error)
	// Signed reports whether a request's headers have the form of a signed callback. It is called before the body is
	// read.
	Signed(h http.Header) bool
	// Callback authenticates a callback and returns the case to fetch. It returns ErrCallback for a request that is
	// forged, altered or too old.
	Callback(h http.Header, body []byte, now time.Time) (Notice, error)
	// PollEvery returns the interval at which undecided cases are fetched, because callbacks may be lost. 0 means never.
	PollEvery() time.Duration
}

// ErrCallback is returned for a callback that cannot be authenticated. A provider that does not use callbacks returns
// it for every request.
var ErrCallback = errors.New("kyc: not a callback of the provider")

// Application contains the data of a case for the provider.
type Application struct {
	CaseID    string
	Person    *Person // either Person or Company is set
	Company   *CompanyProfile
	TaxIDs    []TaxNumber
	Documents []DocumentFile
}

// Person contains the data of a person who is verified.
type Person struct {
	FirstName, LastName, Email, PhoneNumber, DateOfBirth, Country string
	StreetAddress, StreetAddress2, City, State, Zip               string
}

// TaxNumber is a tax ID in its canonical form.
type TaxNumber struct{ Country, Type, Number string }

// DocumentFile is a document with a function that loads and decrypts its image.
type DocumentFile struct {
	Document
	JPEG func(ctx context.Context) ([]byte, error)
}

// Outcome is the state of a case at the provider.
type Outcome struct {
	State   State     // InReview, Approved, Resubmission or Rejected
	Reasons []string  // codes, for Resubmission and Rejected
	Expires time.Time // expiration of the document; zero if unknown
}

// Notice is an authenticated callback.
type Notice struct {
	ID  string // ID of the callback
	Ref string // the provider's reference for the case
}

// Sandbox is the provider of the sandbox. It decides by the last word of the name of the person or company: Approved,
// Rejected or Resubmit. With any other name, the case stays in review until it is decided with POST /api/sandbox/kyc
// or kyb, or on the page /sandbox/verifications.
type Sandbox struct{}

var _ Provider = Sandbox{}

// Name returns "sandbox".
func (Sandbox) Name() string { return "sandbox" }

// PollEvery returns 0, because the outcome of a case never changes at this provider.
func (Sandbox) PollEvery() time.Duration { return 0 }

// Submit decides immediately and returns a reference that contains the decision.
func (Sandbox) Submit(_ context.Context, a Application) (string, error) {
	name := ""
	if a.Person != nil {
		name = a.Person.LastName
	} else if a.Company != nil {
		name = a.Company.Name
	}
	state := InReview
	for word, decision := range map[string]State{"Approved": Approved, "Rejected": Rejected, "Resubmit": Resubmission} {
		if name == word || strings.HasSuffix(name, " "+word) {
			state = decision
		}
	}
	return "sandbox/" + string(state) + "/" + a.CaseID, nil
}

// Fetch returns the decision that the reference contains.
func (Sandbox) Fetch(_ context.Context, ref string) (Outcome, error) {
	for _, decision := range []State{Approved, Rejected, Resubmission} {
		if strings.HasPrefix(ref, "sandbox/"+string(decision)+"/") {
			o := Outcome{State: decision}
			if decision != Approved {
				o.Reasons = []string{"sandbox"}
			}
			return o, nil
		}
	}
	return Outcome{State: InReview}, nil
}

// Signed returns false, because this provider sends no callbacks.
func (Sandbox) Signed(http.Header) bool { return false }

// Callback returns ErrCallback, because this provider sends no callbacks.
func (Sandbox) Callback(http.Header, []byte, time.Time) (Notice, error) { return Notice{}, ErrCallback }
