package destination

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/screening"
)

// Screening compares payees and their destinations with the sanctions lists.
type Screening struct {
	lists  *screening.Screener
	sealer *identity.Sealer
}

// NewScreening returns a Screening. It returns an error if an argument is nil, because nobody may be paid without
// screening.
func NewScreening(lists *screening.Screener, sealer *identity.Sealer) (Screening, error) {
	if lists == nil || sealer == nil {
		return Screening{}, errors.New("screening of payees needs sanctions lists and the sealer of bank data")
	}
	return Screening{lists, sealer}, nil
}

// ScreeningSubject is a payee and the destinations to screen.
type ScreeningSubject struct {
	payee.Payee
	To []Destination
}

// screenLater is the time after which a screening is retried if there is no current list.
const screenLater = 10 * time.Minute

// Screen returns the IDs that are blocked: payees who must not be paid, and the company's own ID if the company must
// not pay. A payee is blocked if their name, the holder of their bank account or their address matches a list and
// staff have not cleared the match. Screen returns screening.ErrUnavailable if there is no current list.
func (s Screening) Screen(ctx context.Context, tx *db.Tx, companyID string,
	all []ScreeningSubject) (held map[string]bool, err error) {
	company, err := identity.CompanyByID(ctx, tx, companyID)
	if err != nil {
		return nil, err
	}
	subjects := make([]screening.Subject, 1, 1+len(all))
	subjects[0] = screening.Subject{ID: companyID, Names: []string{company.Name}}
	for _, w := range all {
		subject, err := s.subject(w)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, subject)
	}
	return s.lists.Screen(ctx, tx, companyID, subjects)
}

// ScreenPerson reports whether nothing may be paid to a person's own account, outside of any company's payroll.
// Matches are stored with the person's ID in place of a company's.
func (s Screening) ScreenPerson(ctx context.Context, tx *db.Tx, who ScreeningSubject) (bool, error) {
	subject, err := s.subject(who)
	if err != nil {
		return true, err
	}
	blocked, err := s.lists.Screen(ctx, tx, who.ID, []screening.Subject{subject})
	return err != nil || blocked[who.ID], err
}

func (s Screening) subject(w ScreeningSubject) (screening.Subject, error) {
	out := screening.Subject{ID: w.ID, Names: []string{w.Name}}
	for i := range w.To {
		d := &w.To[i]
		if d.Kind == Crypto {
			out.Addresses = append(out.Addresses, d.Address)
			continue
		}
		if d.Sealed == "" {
			continue
		}
		data, err := Reveal(s.sealer, *d)
		if err != nil {
			return out, err
		}
		var account struct {
			Holder string `json:"account_holder_name"`
		}
		if err := json.Unmarshal(data, &account); err != nil {
			return out, err
		}
		if account.Holder != "" && account.Holder != w.Name {
			out.Names = append(out.Names, account.Holder)
		}
	}
	return out, nil
}

// HandleScreen is the handler of [payee.JobScreen]. It screens one payee, and suspends the payee if a list matches.
func (s Screening) HandleScreen(ctx context.Context, tx *db.Tx, j job.Job) error {
	var payload payee.JobPayload
	if err := j.Decode(&payload); err != nil {
		return err
	}
	payees, err := payee.Payees(ctx, tx, j.CompanyID, []string{payload.RecipientID})
	who, known := payees[payload.RecipientID]
	if err != nil || !known {
		return err
	}
	all, err := ForOwners(ctx, tx, []string{who.ID})
	if err != nil {
		return err
	}
	held, err := s.Screen(ctx, tx, j.CompanyID, []ScreeningSubject{{who, all[who.ID]}})
	if errors.Is(err, screening.ErrUnavailable) {
		job.Enqueue(tx, job.New{CompanyID: j.CompanyID, Kind: payee.JobScreen, Payload: payload,
			RunAt: tx.Now().Add(screenLater)})
		return nil
	}
	if err != nil || !held[who.ID] {
		return err
	}
	return payee.Suspend(ctx, tx, j.CompanyID, who.ID)
}
