package bank

import (
	"context"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// Verification is the result of a Verification of Payee for a payment: what the payee's bank says about the payee's
// name.
type Verification struct {
	Number   int64 // of the file
	Position int64 // in the file
	OutputID string
	Result   iso20022.Verification
	At       time.Time
	file     File
	sealed   string
}

// Name returns the name of the account's holder that the bank stated for a close match, or "".
func (v Verification) Name(s *identity.Sealer) (string, error) {
	if v.sealed == "" {
		return "", nil
	}
	b, err := s.Open(verificationAt(v.file, int(v.Position)), v.sealed)
	return string(b), err
}

func verificationAt(f File, position int) identity.SealContext {
	return identity.SealContext{Table: "bank_verifications", Column: "sealed",
		Row: f.CompanyID + "/" + f.ID + "/" + strconv.Itoa(position)}
}

// storeVerifications stores the results of a response. A result of one payment replaces earlier ones; a result of the
// whole file is that of the payments without their own.
func (r *Rail) storeVerifications(ctx context.Context, tx *db.Tx, b *fileUpdate) error {
	for _, f := range b.verifications {
		for _, p := range b.payments(f.ref) {
			sealed := ""
			if f.info != "" {
				var err error
				if sealed, err = r.c.Sealer.Seal(verificationAt(b.f, p.position), []byte(f.info)); err != nil {
					return err
				}
			}
			if err := insertVerification(ctx, tx, b.f, p.position, f.code, sealed, f.ref.Position > 0); err != nil {
				return err
			}
		}
	}
	return nil
}
