package kyc

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Standing is how far the verification of a person is.
type Standing struct {
	User      identity.User
	State     State    // "" before the first case
	Reasons   []string // why something must be handed in again, or was refused
	Documents []Listed
	Needs     []Requirement // what a person of the country is asked for; nothing while the country is unknown
	Missing   []string      // of the profile, of what must be handed in, and "payer" while nobody is registered who pays
}

// Open says whether something may be handed in and the verification begun.
func (s Standing) Open() bool { return mayStart(s.State) == nil }

// StandingOf is how far the verification of a user is.
func (s *Service) StandingOf(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (st Standing, err error) {
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
	st.Missing = lacking(st.User.Profile)
	if st.User.Country == "" {
		return st, nil
	}
	lacks, err := s.missing(ctx, tx, st.User)
	if f, ok := apierr.As(err); ok && f.Code == ErrCountry.Code {
		st.Missing = append(st.Missing, "country_supported")
		return st, nil
	}
	if err != nil {
		return st, err
	}
	st.Missing = append(st.Missing, lacks...)
	st.Needs, err = s.Types(ctx, tx, by, userID, "")
	return st, err
}
