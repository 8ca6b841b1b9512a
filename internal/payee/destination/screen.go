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

// Screening compares payees, and where they want their money, with the sanctions lists.
type Screening struct {
	Lists  *screening.Screener
	Sealer *identity.Sealer
}

// Whom is a payee with the destinations that matter.
type Whom struct {
	payee.Payee
	To []Distribution
}

// screenLater is how long a payee waits to be screened while there is no current list.
const screenLater = 10 * time.Minute

// Screen says which of a company's payees may not be paid, by their ids, and whether the company itself may not pay, by its own:
// their names, the holders of their bank accounts or their addresses are on a list, and nobody has cleared it. Without a
// current list it returns screening.ErrUnavailable.
func (s Screening) Screen(ctx context.Context, tx *db.Tx, companyID string, all []Whom) (held map[string]bool, err error) {
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
	return s.Lists.Screen(ctx, tx, companyID, subjects)
}

func (s Screening) subject(w Whom) (screening.Subject, error) {
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
		data, err := Reveal(s.Sealer, *d)
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

// Look screens one payee (job recipient.screen) and suspends them on a hit. Twice is once.
func (s Screening) Look(ctx context.Context, tx *db.Tx, j job.Job) error {
	var look payee.Look
	if err := j.Decode(&look); err != nil {
		return err
	}
	payees, err := payee.Payees(ctx, tx, j.CompanyID, []string{look.RecipientID})
	who, known := payees[look.RecipientID]
	if err != nil || !known {
		return err
	}
	all, err := ForOwners(ctx, tx, []string{who.ID})
	if err != nil {
		return err
	}
	held, err := s.Screen(ctx, tx, j.CompanyID, []Whom{{who, all[who.ID]}})
	if errors.Is(err, screening.ErrUnavailable) {
		job.Enqueue(tx, job.New{CompanyID: j.CompanyID, Kind: payee.JobScreen, Payload: look, RunAt: tx.Now().Add(screenLater)})
		return nil
	}
	if err != nil || !held[who.ID] {
		return err
	}
	return payee.Suspend(ctx, tx, j.CompanyID, who.ID)
}
