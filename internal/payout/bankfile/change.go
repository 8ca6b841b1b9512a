package bankfile

import (
	"context"
	"strconv"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/rail/bank/nacha"
)

// This file is about notifications of change: a payment arrived, and its bank wants something put right before the next one. They are
// kept as the bank wrote them, sealed. Whose destination it is hears of it by the job payout.bank_change.

type changeJob struct {
	FileID   string `json:"file_id"`
	Position int    `json:"position"`
	Code     string `json:"code"`
}

// Changed handles JobChange: tell is given the output that the bank speaks of, and what it wants of the receiver's account. What it
// wants of the originator, or what nobody can read, is for a person: it is a problem of the answer.
func (e *Engine) Changed(tell func(ctx context.Context, tx *db.Tx, o payout.Output, code string, c nacha.Correction) error) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		var in changeJob
		if err := j.Decode(&in); err != nil {
			return err
		}
		some, err := selectChanges(ctx, tx, "c.company_id = $1 AND c.file_id = $2 AND c.position = $3 AND c.code = $4", j.CompanyID, in.FileID, int64(in.Position), in.Code)
		if err != nil || len(some) == 0 {
			return err
		}
		wanted, err := some[0].Wanted(e.c.Sealer)
		if err != nil {
			return err
		}
		c, err := nacha.Answer{Code: in.Code, Corrected: wanted}.Correction()
		if err != nil {
			return nil //nolint:nilerr // the answer says so
		}
		outs, err := selectOutputs(ctx, tx, "company_id = $1 AND output_id = $2", j.CompanyID, some[0].OutputID)
		if err != nil || len(outs) == 0 {
			return err
		}
		return tell(ctx, tx, outs[0], in.Code, c)
	}
}

func changeAt(f File, position int, code string) identity.Place {
	return identity.Place{Table: "bank_changes", Column: "sealed", Row: f.CompanyID + "/" + f.ID + "/" + strconv.Itoa(position) + "/" + code}
}

// Wanted is what a bank says that something should be, as it wrote it.
func (c Change) Wanted(s *identity.Sealer) (string, error) {
	b, err := s.Open(changeAt(c.file, int(c.Position), c.Code), c.sealed)
	return string(b), err
}
