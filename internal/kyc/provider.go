package kyc

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Provider is who verifies people and companies. It is called by jobs only, never in a request or a transaction.
//
//   - Submit tells it of a case and starts the check. It may be called again for the same case, after an answer was lost: it
//     then finds what it has and goes on. It returns the provider's own name for the case.
//   - Fetch says where a case stands now. It is the only thing that moves a case: a callback merely says that it is time to ask.
//   - Callback checks that a request comes from the provider, now, and is whole, and says which case it is about. Anything
//     doubtful is ErrCallback.
type Provider interface {
	Name() string
	Submit(ctx context.Context, a Application) (ref string, err error)
	Fetch(ctx context.Context, ref string) (Outcome, error)
	Callback(h http.Header, body []byte, now time.Time) (Notice, error)
	// PollEvery is how often an undecided case is asked for, in case a callback was lost; 0 is never.
	PollEvery() time.Duration
}

// ErrCallback refuses a callback that is forged, changed, too old, or from a provider that sends none.
var ErrCallback = errors.New("kyc: not a callback of the provider")

// Application is what a provider is given of a case.
type Application struct {
	CaseID   string
	Person   *Person // one of the two
	Company  *CompanyProfile
	TaxIDs   []TaxNumber
	Document []Paper
}

// Person is whom a provider verifies.
type Person struct {
	FirstName, LastName, Email, PhoneNumber, DateOfBirth, Country string
	StreetAddress, StreetAddress2, City, State, Zip               string
}

// TaxNumber is a tax id in its canonical form.
type TaxNumber struct{ Country, Type, Number string }

// Paper is a document whose bytes are read, and opened, when they are needed.
type Paper struct {
	Document
	JPEG func(ctx context.Context) ([]byte, error)
}

// Outcome is where a case stands at the provider.
type Outcome struct {
	State   State     // InReview, Approved, Resubmission or Rejected
	Reasons []string  // codes, for Resubmission and Rejected
	Expires time.Time // of the document; zero when it is not known
}

// Notice is a callback that was checked.
type Notice struct {
	ID  string // of the callback
	Ref string // of the case
}

// Sandbox is the provider of the sandbox. It decides by the last name of a person, or the last word of a company's
// name: Approved, Rejected or Resubmit. Everybody else stays in review until somebody decides, by POST
// /api/sandbox/kyc or kyb, or on the page /sandbox/verifications.
type Sandbox struct{}

var _ Provider = Sandbox{}

// Name says which provider a case was given to.
func (Sandbox) Name() string { return "sandbox" }

// PollEvery is never: nothing changes by itself.
func (Sandbox) PollEvery() time.Duration { return 0 }

// Submit decides at once and keeps the decision in the name that it gives the case.
func (Sandbox) Submit(_ context.Context, a Application) (string, error) {
	name := ""
	if a.Person != nil {
		name = a.Person.LastName
	} else if a.Company != nil {
		name = a.Company.Name
	}
	state := InReview
	for word, decided := range map[string]State{"Approved": Approved, "Rejected": Rejected, "Resubmit": Resubmission} {
		if name == word || len(name) > len(word) && name[len(name)-len(word)-1:] == " "+word {
			state = decided
		}
	}
	return "sandbox/" + string(state) + "/" + a.CaseID, nil
}

// Fetch reads the decision from the name.
func (Sandbox) Fetch(_ context.Context, ref string) (Outcome, error) {
	for _, decided := range []State{Approved, Rejected, Resubmission} {
		if len(ref) > 8+len(decided) && ref[8:8+len(decided)] == string(decided) {
			o := Outcome{State: decided}
			if decided != Approved {
				o.Reasons = []string{"sandbox"}
			}
			return o, nil
		}
	}
	return Outcome{State: InReview}, nil
}

// Callback is always ErrCallback: nobody calls back.
func (Sandbox) Callback(http.Header, []byte, time.Time) (Notice, error) { return Notice{}, ErrCallback }
