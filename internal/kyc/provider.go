package kyc

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Provider verifies people and companies. Jobs call its Submit and Fetch; no transaction is open meanwhile.
type Provider interface {
	// Name returns the identifier of the provider, which is stored with its cases.
	Name() string
	// Submit starts the verification of a case and returns the provider's reference for it. It is idempotent: a job
	// calls it again if it did not learn the result.
	Submit(ctx context.Context, a Application) (ref string, err error)
	// Fetch returns the current outcome of a case. Only this result changes the state of a case.
	Fetch(ctx context.Context, ref string) (Outcome, error)
	// Signed reports whether headers have the form of a signed callback. It is called before the body is read.
	Signed(h http.Header) bool
	// Callback authenticates a callback and returns the case to fetch. A request that is forged, altered or too old is
	// ErrCallback.
	Callback(h http.Header, body []byte, now time.Time) (Notice, error)
	// PollEvery returns the interval in which undecided cases are fetched, because a callback may be lost. 0 means never.
	PollEvery() time.Duration
}

// ErrCallback is returned for a callback that cannot be authenticated, and for every callback if the provider does
// not use callbacks.
var ErrCallback = errors.New("kyc: not a callback of the provider")

// Application contains the data that a provider receives about a case.
type Application struct {
	CaseID    string
	Person    *Person // either Person or Company is set
	Company   *CompanyProfile
	TaxIDs    []TaxNumber
	Documents []DocumentFile
}

// Person contains the data of a person to verify.
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
	ID  string // of the callback
	Ref string // the provider's reference for the case
}

// Sandbox is the provider of the sandbox. It decides by the last word of the person's or company's name: Approved,
// Rejected or Resubmit. Any other case stays in review until a decision is made with POST /api/sandbox/kyc or kyb, or
// on the page /sandbox/verifications.
type Sandbox struct{}

var _ Provider = Sandbox{}

// Name returns "sandbox".
func (Sandbox) Name() string { return "sandbox" }

// PollEvery returns 0: a case in review does not change at this provider.
func (Sandbox) PollEvery() time.Duration { return 0 }

// Submit decides at once. The reference that it returns contains the decision.
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
