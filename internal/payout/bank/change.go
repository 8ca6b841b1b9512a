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

// changeJob is the payload of a job for one notification of change: a payment arrived, and the payee's bank asks for
// a correction before the next payment. The corrected data is stored sealed, in the form that the bank sent.
type changeJob struct {
	FileID   string `json:"file_id"`
	Position int    `json:"position"`
	Code     string `json:"code"`
}

// handleChange calls Config.Changed for a notification of change (job payout.bank_change). A notification about the
// operator's own data, or one that cannot be parsed, is ignored; it is listed as a problem of the bank's response.
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
	wanted, err := some[0].CorrectedData(r.c.Sealer)
	if err != nil {
		return err
	}
	c, err := nacha.Response{Code: in.Code, Corrected: wanted}.Correction()
	if err != nil {
		return nil //nolint:nilerr // the response already lists the problem
	}
	p, err := lockPrenote(ctx, tx, some[0].OutputID)
	if !errors.Is(err, db.ErrNoRows) {
		if err == nil {
			err = r.correct(ctx, tx, p, in.Code, c)
		}
		return err
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

func changeAt(f File, position int, code string) identity.SealContext {
	return identity.SealContext{Table: "bank_changes", Column: "sealed",
		Row: f.CompanyID + "/" + f.ID + "/" + strconv.Itoa(position) + "/" + code}
}

// CorrectedData returns the corrected data of the notification, in the form that the bank sent.
func (c Change) CorrectedData(s *identity.Sealer) (string, error) {
	b, err := s.Open(changeAt(c.file, int(c.Position), c.Code), c.sealed)
	return string(b), err
}
