package travelrule

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

func selectWallet(ctx context.Context, tx *db.Tx, ownerID, id, place string) (statement string, err error) {
	err = tx.QueryRow(ctx, `SELECT statement FROM wallet_statements WHERE owner_id = $1 AND destination_id = $2
		AND place = $3`, ownerID, id, place).Scan(&statement)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return statement, err
}

func upsertWallet(ctx context.Context, tx *db.Tx, ownerID, id, place, statement, by string) error {
	_, err := tx.Exec(ctx, `INSERT INTO wallet_statements (owner_id, destination_id, place, statement, stated_by,
			updated_at)
		VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (owner_id, destination_id) DO UPDATE SET place = excluded.place, statement = excluded.statement,
			stated_by = excluded.stated_by, updated_at = excluded.updated_at`,
		ownerID, id, place, statement, by, db.Micros(tx.Now()))
	return err
}

// Erase deletes the statements of an owner about their wallets. Records of payouts remain for as long as the law
// demands.
func Erase(ctx context.Context, tx *db.Tx, ownerID string) error {
	_, err := tx.Exec(ctx, "DELETE FROM wallet_statements WHERE owner_id = $1", ownerID)
	return err
}

func sealedAt(r Record) identity.SealContext {
	return identity.SealContext{Table: "travel_rule_records", Column: "sealed", Row: r.CompanyID + "/" + r.ID}
}

func (s *Service) insert(ctx context.Context, tx *db.Tx, all []Record) error {
	rows := make([][]any, len(all))
	for i := range all {
		r := &all[i]
		r.ID = tx.NewID("trr")
		text, err := json.Marshal(r.Document)
		if err != nil {
			return err
		}
		sealed, err := s.Sealer.Seal(sealedAt(*r), text)
		if err != nil {
			return err
		}
		rows[i] = []any{r.CompanyID, r.ID, r.ObjectID, r.PaymentID, r.OutputID, string(r.Amount.Asset()), r.Amount.Units(),
			string(r.Value.Asset()), r.Value.Units(), sealed, db.Micros(tx.Now())}
	}
	return tx.Insert(ctx, "travel_rule_records", []string{"company_id", "record_id", "object_id", "payment_id",
		"output_id", "asset", "amount", "value_currency", "value", "sealed", "created_at"}, rows)
}

const recordColumns = `company_id, record_id, object_id, payment_id, output_id, asset, amount, value_currency, value,
	sealed, created_at`

func (s *Service) scan(r *db.Rows) (x Record, err error) {
	var asset, currency, sealed string
	var amount, value, created int64
	if err := r.Scan(&x.CompanyID, &x.ID, &x.ObjectID, &x.PaymentID, &x.OutputID, &asset, &amount, &currency, &value,
		&sealed, &created); err != nil {
		return x, err
	}
	x.Amount, x.Value = money.New(money.Asset(asset), amount), money.New(money.Asset(currency), value)
	x.Created = db.Time(created)
	text, err := s.Sealer.Open(sealedAt(x), sealed)
	if err == nil {
		err = json.Unmarshal(text, &x.Document)
	}
	return x, err
}

// Records returns the newest records of all companies, or those with an ID: of the record, the payer, the payroll,
// withdrawal or income, the payment, or the output. It is for staff.
func (s *Service) Records(ctx context.Context, tx *db.Tx, id string, limit int) ([]Record, error) {
	rows, err := tx.Query(ctx, "SELECT "+recordColumns+` FROM travel_rule_records
		WHERE $1 = '' OR company_id = $1 OR record_id = $1 OR object_id = $1 OR payment_id = $1 OR output_id = $1
		ORDER BY created_at DESC, record_id DESC LIMIT $2`, id, int64(limit))
	return db.Collect(rows, err, s.scan)
}

// Get returns a record of any company, or apierr.NotFoundErr. It is for staff.
func (s *Service) Get(ctx context.Context, tx *db.Tx, id string) (Record, error) {
	rows, err := tx.Query(ctx, "SELECT "+recordColumns+" FROM travel_rule_records WHERE record_id = $1", id)
	all, err := db.Collect(rows, err, s.scan)
	if err == nil && len(all) == 0 {
		err = apierr.NotFoundErr
	}
	if err != nil {
		return Record{}, err
	}
	return all[0], nil
}
