package bank

import (
	"context"
	"errors"
	"strconv"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// Notifications of change: a payment arrived, and its bank wants something changed before the next one. They are stored sealed, as the
// bank wrote them.

type changeJob struct {
	FileID   string `json:"file_id"`
	Position int    `json:"position"`
	Code     string `json:"code"`
}

// handleChange passes on what the bank wants changed about a payee's account (job payout.bank_change). What it wants of the operator, or
// what cannot be read, is a problem of the answer and needs a person.
func (r *Rail) handleChange(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in changeJob
	if err := j.Decode(&in); err != nil {
		return err
	}
	some, err := selectChanges(ctx, tx, "c.company_id = $1 AND c.file_id = $2 AND c.position = $3 AND c.code = $4",
		j.CompanyID, in.FileID, int64(in.Position), in.Code)
	if err != nil || len(some) == 0 {
		return err
	}
	wanted, err := some[0].Wanted(r.c.Sealer)
	if err != nil {
		return err
	}
	c, err := nacha.Answer{Code: in.Code, Corrected: wanted}.Correction()
	if err != nil {
		return nil //nolint:nilerr // it is a problem of the answer
	}
	o, err := payout.Get(ctx, tx, j.CompanyID, some[0].OutputID)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.c.Changed(ctx, tx, o, in.Code, c)
}

func changeAt(f File, position int, code string) identity.Place {
	return identity.Place{Table: "bank_changes", Column: "sealed", Row: f.CompanyID + "/" + f.ID + "/" + strconv.Itoa(position) + "/" + code}
}

// Wanted returns what the bank wants instead, as it wrote it.
func (c Change) Wanted(s *identity.Sealer) (string, error) {
	b, err := s.Open(changeAt(c.file, int(c.Position), c.Code), c.sealed)
	return string(b), err
}
