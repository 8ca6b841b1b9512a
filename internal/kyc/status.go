package kyc

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Status is the progress of a person's verification.
type Status struct {
	User      identity.User
	State     State    // "" before the first case
	Reasons   []string // codes of the reasons for a rejection or for requesting new documents
	Documents []DocumentSummary
	Needs     []Requirement // empty if the profile has no country
	Missing   []string      // missing profile fields and documents, and "payer" if no payer is registered
}

// Open reports whether the person can upload documents and start the verification.
func (s Status) Open() bool { return mayStart(s.State) == nil }

// StatusOf returns the progress of a user's verification.
func (s *Service) StatusOf(ctx context.Context, tx *db.Tx, by identity.Principal,
	userID string) (st Status, err error) {
	if st.User, err = identity.ActingUser(ctx, tx, by, userID); err != nil {
		return st, err
	}
	if st.User, err = st.User.Open(s.Sealer); err != nil {
		return st, err
	}
	c, err := selectCase(ctx, tx, st.User.ID)
	if err != nil {
		return st, err
	}
	st.State, st.Reasons = c.State, c.Reasons
	if st.Documents, err = listOf(ctx, tx, st.User.ID); err != nil {
		return st, err
	}
	st.Missing = missingFields(st.User.Profile)
	if st.User.Country == "" {
		return st, nil
	}
	missing, err := s.missing(ctx, tx, st.User)
	if f, ok := apierr.As(err); ok && f.Code == ErrCountry.Code {
		st.Missing = append(st.Missing, "country_supported")
		return st, nil
	}
	if err != nil {
		return st, err
	}
	st.Missing = append(st.Missing, missing...)
	st.Needs, err = s.Types(ctx, tx, by, userID, "")
	return st, err
}
