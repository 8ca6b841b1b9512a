package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

func insertJournals(ctx context.Context, tx *db.Tx, journals, movements [][]any) error {
	err := tx.Insert(ctx, "ledger_journals",
		[]string{"company_id", "journal_id", "source_type", "source_id", "purpose", "booked_at"}, journals)
	if err != nil || len(movements) == 0 {
		return err
	}
	return tx.Insert(ctx, "operator_movements", []string{"company_id", "journal_id", "asset", "amount"}, movements)
}

// OperatorBalances returns the operator's available balance of each given asset, or of all assets if none is given.
// It is the content of the wallets and bank accounts minus the liabilities to companies, payees and payers; money at
// exchanges is not available. If the balance is negative, the operator must add that amount before all liabilities
// can be paid. Use [DebitOperator] to spend from a balance.
func OperatorBalances(ctx context.Context, tx *db.Tx, assets ...money.Asset) (map[money.Asset]money.Amount, error) {
	ctx = db.AcrossCompanies(ctx, "the operator's own funds are stored by company")
	all := map[money.Asset]money.Amount{}
	read := func(in string, args []any) error {
		where := ""
		if in != "" {
			where = " WHERE asset IN " + in
		}
		rows, err := tx.Query(ctx, `SELECT asset, CAST(SUM(amount) AS BIGINT) FROM (
				SELECT asset, balance AS amount FROM operator_balances`+where+`
				UNION ALL SELECT asset, amount FROM operator_movements`+where+`) x
			GROUP BY asset`, args...)
		some, err := db.Collect(rows, err, func(r *db.Rows) (money.Amount, error) {
			var asset string
			var units int64
			err := r.Scan(&asset, &units)
			return money.New(money.Asset(asset), units), err
		})
		for _, x := range some {
			all[x.Asset()] = x
		}
		return err
	}
	if len(assets) == 0 {
		return all, read("", nil)
	}
	ids := make([]string, len(assets))
	for i, a := range assets {
		ids[i], all[a] = string(a), money.Zero(a)
	}
	for in, args := range db.BindList(tx, ids, 1) {
		if err := read(in, args); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// rollUpBatch is the largest number of movements that one statement reads.
const rollUpBatch = 5_000

// rollUp locks the operator's balance of an asset, adds at most limit movements to it and returns their number. It
// locks the balance before it reads, so that no movement is counted twice.
func rollUp(ctx context.Context, tx *db.Tx, a money.Asset, limit int) (int, error) {
	ctx = db.AcrossCompanies(ctx, "the operator's own funds are stored by company")
	if _, err := tx.Exec(ctx, `INSERT INTO operator_balances (asset, balance) VALUES ($1, 0)
		ON CONFLICT (asset) DO UPDATE SET balance = operator_balances.balance`, string(a)); err != nil {
		return 0, err
	}
	rows, err := tx.Query(ctx, `DELETE FROM operator_movements WHERE (company_id, journal_id, asset) IN
		(SELECT company_id, journal_id, asset FROM operator_movements WHERE asset = $1 LIMIT $2) RETURNING amount`,
		string(a), int64(limit))
	movements, err := db.Collect(rows, err, func(r *db.Rows) (units int64, err error) { return units, r.Scan(&units) })
	if err != nil || len(movements) == 0 {
		return 0, err
	}
	sum := money.Zero(a)
	for _, units := range movements {
		if sum, err = sum.Add(money.New(a, units)); err != nil {
			return 0, err
		}
	}
	_, err = tx.Exec(ctx, "UPDATE operator_balances SET balance = balance + $2 WHERE asset = $1", string(a), sum.Units())
	return len(movements), err
}

// unsummed returns the assets that have movements which are not yet added to the operator's balance.
func unsummed(ctx context.Context, tx *db.Tx) ([]money.Asset, error) {
	rows, err := tx.Query(ctx, "SELECT DISTINCT asset FROM operator_movements ORDER BY asset")
	return db.Collect(rows, err, func(r *db.Rows) (a money.Asset, err error) {
		var code string
		err = r.Scan(&code)
		return money.Asset(code), err
	})
}

// raiseBalances adds the positive deltas to the balances. It locks the rows of all keys, and inserts missing rows. It
// returns the previous entry of each account, or ErrDiffers if the entry's balance is not the account's balance.
func raiseBalances(ctx context.Context, tx *db.Tx, keys []balanceKey, changes map[balanceKey]change) (
	map[balanceKey]entry, error) {
	rows := make([][]any, len(keys))
	for i, k := range keys {
		c := changes[k]
		rows[i] = []any{k.company, string(k.code), k.dim, string(k.asset), max(0, c.delta.Units()), c.lines}
	}
	before, last := map[balanceKey]entry{}, map[balanceKey]entry{}
	frozen := false
	var all []db.Statement
	for values, args := range db.BindRows(tx, rows, 1) {
		all = append(all, db.Statement{
			Query: `INSERT INTO ledger_balances (company_id, code, dim, asset, balance, entries) ` + values + `
				ON CONFLICT (company_id, code, dim, asset) DO UPDATE SET
					balance = ledger_balances.balance + excluded.balance, entries = ledger_balances.entries + excluded.entries
				RETURNING company_id, code, dim, asset, entries, balance`,
			Args: args, Row: func(r *db.Rows) error {
				k, e, err := scanEntry(r)
				before[k] = entry{e.number - changes[k].lines, e.balance - max(0, changes[k].delta.Units())}
				return err
			},
		})
	}
	// This statement is separate, so that it sees the lines of the transactions for whose locks the first statement
	// waited.
	for values, args := range db.BindRows(tx, rows, 1) {
		all = append(all, db.Statement{
			Query: `WITH v (company_id, code, dim, asset, raise, lines) AS (` + values + `)
				SELECT l.company_id, l.code, l.dim, l.asset, l.entry, l.balance FROM v
				JOIN ledger_balances b ON b.company_id = v.company_id AND b.code = v.code AND b.dim = v.dim
					AND b.asset = v.asset
				JOIN ledger_lines l ON l.company_id = v.company_id AND l.code = v.code AND l.dim = v.dim
					AND l.asset = v.asset AND l.entry = b.entries - v.lines`,
			Args: args, Row: func(r *db.Rows) error {
				k, e, err := scanEntry(r)
				last[k] = e
				return err
			},
		}, db.Statement{
			Query: `WITH v (company_id, code, dim, asset, raise, lines) AS (` + values + `)
				SELECT 1 FROM v JOIN ledger_differences d ON d.company_id = v.company_id AND d.code = v.code
				AND d.dim = v.dim AND d.asset = v.asset LIMIT 1`,
			Args: args, Row: func(*db.Rows) error { frozen = true; return nil },
		})
	}
	if err := tx.Batch(ctx, all); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if before[k] != last[k] || frozen {
			return nil, fmt.Errorf("account %s %s of company %s has the balance %d after %d lines, which say %d (%d): %w",
				k.code, k.asset, k.company, before[k].balance, before[k].number, last[k].balance, last[k].number, ErrDiffers)
		}
	}
	return last, nil
}

// scanEntry scans the key of an account, the number of an entry and a balance.
func scanEntry(r *db.Rows) (k balanceKey, e entry, err error) {
	var code, asset string
	err = r.Scan(&k.company, &code, &k.dim, &asset, &e.number, &e.balance)
	k.code, k.asset = Code(code), money.Asset(asset)
	return k, e, err
}

// lowerBalances adds the negative deltas of keys to the balances. The table's CHECK constraint fails the transaction if
// a balance would become negative.
func lowerBalances(ctx context.Context, tx *db.Tx, keys []balanceKey, changes map[balanceKey]change) error {
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{k.company, string(k.code), k.dim, string(k.asset), changes[k].delta.Neg().Units()}
	}
	for values, args := range db.BindRows(tx, rows, 1) {
		if _, err := tx.Exec(ctx, `WITH v (company_id, code, dim, asset, take) AS (`+values+`)
			UPDATE ledger_balances SET balance = ledger_balances.balance - v.take FROM v
			WHERE ledger_balances.company_id = v.company_id AND ledger_balances.code = v.code
				AND ledger_balances.dim = v.dim AND ledger_balances.asset = v.asset`, args...); err != nil {
			if db.IsCheck(err, "ledger_balances") { // a balance would become negative
				err = fmt.Errorf("%w (%w)", ErrInsufficient, err)
			}
			return err
		}
	}
	return nil
}

func guardedBalance(ctx context.Context, tx *db.Tx, companyID string, c Code, dim string, a money.Asset) (units int64,
	err error,
) {
	err = tx.QueryRow(ctx, `SELECT balance FROM ledger_balances
		WHERE company_id = $1 AND code = $2 AND dim = $3 AND asset = $4`,
		companyID, string(c), dim, string(a)).Scan(&units)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	return units, err
}

// HasMoney reports whether any guarded account of a company or a user has a balance, such as its own money or money
// owed to its payees.
func HasMoney(ctx context.Context, tx *db.Tx, companyID string) (has bool, err error) {
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM ledger_balances WHERE company_id = $1 AND balance <> 0)",
		companyID).Scan(&has)
	return has, err
}

// sumLines returns the debits minus the credits of one dimension of an account.
func sumLines(ctx context.Context, tx *db.Tx, companyID string, c Code, dim string, a money.Asset) (units int64,
	err error,
) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger_lines
		WHERE company_id = $1 AND code = $2 AND dim = $3 AND asset = $4`,
		companyID, string(c), dim, string(a)).Scan(&units)
	return units, err
}

// sumAccount returns the debits minus the credits of an account over all dimensions.
func sumAccount(ctx context.Context, tx *db.Tx, companyID string, c Code, a money.Asset) (units int64, err error) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger_lines
		WHERE company_id = $1 AND code = $2 AND asset = $3`, companyID, string(c), string(a)).Scan(&units)
	return units, err
}

// findProblems returns descriptions of rows that contradict each other, at most 100 of each kind.
func findProblems(ctx context.Context, tx *db.Tx) ([]string, error) {
	var problems []string
	for _, q := range []struct{ text, query string }{
		{"journal %s of company %s does not balance in %s", `SELECT journal_id, company_id, asset FROM ledger_lines
			GROUP BY company_id, journal_id, asset HAVING SUM(amount) <> 0 LIMIT 100`},
		{"journal %s of company %s has no lines (%s)", `SELECT j.journal_id, j.company_id, j.purpose FROM ledger_journals j
			LEFT JOIN ledger_lines l ON l.company_id = j.company_id AND l.journal_id = j.journal_id
			WHERE l.journal_id IS NULL LIMIT 100`},
		{"line of journal %s of company %s belongs to no journal (%s)", `SELECT l.journal_id, l.company_id, l.code
			FROM ledger_lines l LEFT JOIN ledger_journals j ON l.company_id = j.company_id AND l.journal_id = j.journal_id
			WHERE j.journal_id IS NULL LIMIT 100`},
	} {
		rows, err := tx.Query(ctx, q.query)
		found, err := db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var a, b, c string
			err := r.Scan(&a, &b, &c)
			return fmt.Sprintf(q.text, a, b, c), err
		})
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func count(ctx context.Context, tx *db.Tx) (journals, lines int64, err error) {
	if err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM ledger_journals").Scan(&journals); err != nil {
		return 0, 0, err
	}
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM ledger_lines").Scan(&lines)
	return journals, lines, err
}

// DimensionBalance is the balance of one dimension of an account in one asset, for example of a network or a bank
// account.
type DimensionBalance struct {
	Dim    string
	Amount money.Amount // debits minus credits
}

// ByDimension returns the balances of an account by dimension, over all companies.
func ByDimension(ctx context.Context, tx *db.Tx, c Code) ([]DimensionBalance, error) {
	rows, err := tx.Query(ctx, `SELECT dim, asset, CAST(SUM(amount) AS BIGINT) FROM ledger_lines WHERE code = $1
		GROUP BY dim, asset HAVING SUM(amount) <> 0 ORDER BY dim, asset`, string(c))
	return db.Collect(rows, err, func(r *db.Rows) (p DimensionBalance, err error) {
		var asset string
		var units int64
		err = r.Scan(&p.Dim, &asset, &units)
		p.Amount = money.New(money.Asset(asset), units)
		return p, err
	})
}

// Movement is the change that one journal made to a dimension of an account.
type Movement struct {
	Dim                           string
	SourceType, SourceID, Purpose string
	Amount                        money.Amount // amount of the change; positive for a debit
	BookedAt                      time.Time
}

// EachMovement calls f with every movement of an account, over all companies.
func EachMovement(ctx context.Context, tx *db.Tx, c Code, f func(Movement)) error {
	rows, err := tx.Query(ctx, `SELECT l.dim, l.asset, j.source_type, j.source_id, j.purpose, j.booked_at,
			CAST(SUM(l.amount) AS BIGINT)
		FROM ledger_lines l JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
		WHERE l.code = $1 GROUP BY l.dim, l.asset, j.source_type, j.source_id, j.purpose, j.booked_at`, string(c))
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var m Movement
		var asset string
		var at, units int64
		err := r.Scan(&m.Dim, &asset, &m.SourceType, &m.SourceID, &m.Purpose, &at, &units)
		m.Amount, m.BookedAt = money.New(money.Asset(asset), units), db.Time(at)
		f(m)
		return struct{}{}, err
	})
	return err
}

// trial returns the trial balance over all companies.
func trial(ctx context.Context, tx *db.Tx) ([]TrialLine, error) {
	rows, err := tx.Query(ctx, `SELECT code, asset, CAST(SUM(amount) AS BIGINT) FROM ledger_lines
		GROUP BY code, asset ORDER BY asset, code`)
	return db.Collect(rows, err, func(r *db.Rows) (TrialLine, error) {
		var code, asset string
		var units int64
		err := r.Scan(&code, &asset, &units)
		return TrialLine{Code(code), money.New(money.Asset(asset), units)}, err
	})
}

// Holdings returns the positive balances of a company's guarded accounts, by asset and account.
func Holdings(ctx context.Context, tx *db.Tx, companyID string) ([]Holding, error) {
	rows, err := tx.Query(ctx, `SELECT code, asset, CAST(SUM(balance) AS BIGINT) FROM ledger_balances
		WHERE company_id = $1 GROUP BY code, asset HAVING SUM(balance) > 0 ORDER BY asset, code`, companyID)
	return db.Collect(rows, err, func(r *db.Rows) (Holding, error) {
		var code, asset string
		var units int64
		err := r.Scan(&code, &asset, &units)
		return Holding{Code(code), money.New(money.Asset(asset), units)}, err
	})
}

// entries selects the changes of an account, one row per journal and asset.
const entries = `(SELECT l.journal_id, l.asset, j.source_type, j.source_id, j.purpose, j.booked_at,
		-SUM(l.amount) AS amount
	FROM ledger_lines l JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
	WHERE l.company_id = $1 AND l.code = $2 AND ($3 = '' OR l.asset = $3)
	GROUP BY l.journal_id, l.asset, j.source_type, j.source_id, j.purpose, j.booked_at HAVING SUM(l.amount) <> 0) e`

// bounds returns the start and end of the period in microseconds.
func (p Period) bounds() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !p.From.IsZero() {
		from = db.Micros(p.From)
	}
	if !p.To.IsZero() {
		to = db.Micros(p.To)
	}
	return from, to
}

// PeriodTotals sums the entries of a company's liability account over a period. The period must have an asset.
func PeriodTotals(ctx context.Context, tx *db.Tx, companyID string, c Code, p Period) (t Totals, err error) {
	from, to := p.bounds()
	var opening, in, out int64
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(CASE WHEN booked_at < $4 THEN amount ELSE 0 END), 0) AS BIGINT),
		CAST(COALESCE(SUM(CASE WHEN booked_at >= $4 AND amount > 0 THEN amount ELSE 0 END), 0) AS BIGINT),
		CAST(COALESCE(SUM(CASE WHEN booked_at >= $4 AND amount < 0 THEN -amount ELSE 0 END), 0) AS BIGINT),
		CAST(COALESCE(SUM(CASE WHEN booked_at >= $4 THEN 1 ELSE 0 END), 0) AS BIGINT)
		FROM `+entries+" WHERE booked_at < $5", companyID, string(c), string(p.Asset), from, to).
		Scan(&opening, &in, &out, &t.Count)
	t.Opening, t.In, t.Out = money.New(p.Asset, opening), money.New(p.Asset, in), money.New(p.Asset, out)
	return t, err
}

// Statement returns a page of the entries of a company's liability account, and the number of entries in the period.
// The balances of the entries include entries before the period.
func Statement(ctx context.Context, tx *db.Tx, companyID string, c Code, p Period) (found []Entry, total int64,
	err error,
) {
	from, to := p.bounds()
	order := "booked_at DESC, journal_id DESC, asset DESC"
	if p.Oldest {
		order = "booked_at, journal_id, asset"
	}
	args := []any{companyID, string(c), string(p.Asset), from, to}
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+entries+" WHERE booked_at >= $4 AND booked_at < $5", args...).
		Scan(&total); err != nil {
		return nil, 0, err
	}
	args = append(args, int64(p.Page.PerPage), p.Page.Offset())
	after := ""
	if journalID, asset, _ := strings.Cut(p.Page.After, "."); journalID != "" {
		var booked int64
		switch err := tx.QueryRow(ctx, "SELECT booked_at FROM "+entries+" WHERE journal_id = $4 AND asset = $5",
			companyID, string(c), string(p.Asset), journalID, asset).Scan(&booked); {
		case errors.Is(err, db.ErrNoRows) || p.Oldest:
			return nil, 0, db.ErrAfter
		case err != nil:
			return nil, 0, err
		}
		after = " AND (booked_at, journal_id, asset) < ($8, $9, $10)"
		args = append(args, booked, journalID, asset)
	}
	rows, err := tx.Query(ctx, `SELECT journal_id, asset, source_type, source_id, purpose, booked_at,
			CAST(amount AS BIGINT), CAST(balance AS BIGINT)
		FROM (SELECT e.*, SUM(amount) OVER (PARTITION BY asset ORDER BY booked_at, journal_id) AS balance
			FROM `+entries+`) s
		WHERE booked_at >= $4 AND booked_at < $5`+after+" ORDER BY "+order+" LIMIT $6 OFFSET $7", args...)
	found, err = db.Collect(rows, err, func(r *db.Rows) (e Entry, err error) {
		var asset string
		var booked, amount, balance int64
		err = r.Scan(&e.JournalID, &asset, &e.SourceType, &e.SourceID, &e.Purpose, &booked, &amount, &balance)
		e.Amount, e.Balance = money.New(money.Asset(asset), amount), money.New(money.Asset(asset), balance)
		e.BookedAt = db.Time(booked)
		return e, err
	})
	return found, total, err
}

// Posted is a stored journal. The amounts of its lines are positive for debits and negative for credits.
type Posted struct {
	JournalID, SourceType, SourceID, Purpose string

	BookedAt time.Time
	Lines    []Line
}

// JournalsBetween returns the journals of a company that were posted in [from, to), oldest first.
func JournalsBetween(ctx context.Context, tx *db.Tx, companyID string, from, to time.Time) (all []Posted, err error) {
	rows, err := tx.Query(ctx, `SELECT j.journal_id, j.source_type, j.source_id, j.purpose, j.booked_at, l.code, l.dim,
			l.asset, l.amount
		FROM ledger_journals j JOIN ledger_lines l ON l.company_id = j.company_id AND l.journal_id = j.journal_id
		WHERE j.company_id = $1 AND j.booked_at >= $2 AND j.booked_at < $3 ORDER BY j.booked_at, j.journal_id, l.line`,
		companyID, db.Micros(from), db.Micros(to))
	_, err = db.Collect(rows, err, func(r *db.Rows) (none struct{}, err error) {
		var p Posted
		var l Line
		var code, asset string
		var booked, amount int64
		err = r.Scan(&p.JournalID, &p.SourceType, &p.SourceID, &p.Purpose, &booked, &code, &l.Dim, &asset, &amount)
		if n := len(all); n == 0 || all[n-1].JournalID != p.JournalID {
			p.BookedAt = db.Time(booked)
			all = append(all, p)
		}
		l.Code, l.Amount, l.debit = Code(code), money.New(money.Asset(asset), amount), amount > 0
		all[len(all)-1].Lines = append(all[len(all)-1].Lines, l)
		return none, err
	})
	return all, err
}

// AssetsBetween returns the assets of a company's lines on the given accounts that were posted in [from, to), sorted.
func AssetsBetween(ctx context.Context, tx *db.Tx, companyID string, codes []Code, from, to time.Time) ([]money.Asset,
	error) {
	args := []any{companyID, db.Micros(from), db.Micros(to)}
	for _, c := range codes {
		args = append(args, string(c))
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT l.asset
		FROM ledger_journals j JOIN ledger_lines l ON l.company_id = j.company_id AND l.journal_id = j.journal_id
		WHERE j.company_id = $1 AND j.booked_at >= $2 AND j.booked_at < $3 AND l.code IN `+
		db.Placeholders(1, len(codes), 4)+" ORDER BY l.asset", args...)
	return db.Collect(rows, err, func(r *db.Rows) (money.Asset, error) {
		var asset string
		err := r.Scan(&asset)
		return money.Asset(asset), err
	})
}

// EntriesSince returns the changes of an account between a journal and the previous journal of the same source type.
// The account must be a guarded liability account without a dimension. EntriesSince returns db.ErrNoRows if the
// journal did not change the account.
func EntriesSince(ctx context.Context, tx *db.Tx, companyID string, c Code, a money.Asset, sourceType, sourceID,
	purpose string) (Since, error) {
	s := Since{Opening: money.Zero(a), Closing: money.Zero(a), account: account{companyID: companyID, code: c, asset: a}}
	var amount, balance int64
	if err := tx.QueryRow(ctx, `SELECT l.entry, l.amount, l.balance FROM ledger_journals j
		JOIN ledger_lines l ON l.company_id = j.company_id AND l.journal_id = j.journal_id
		WHERE j.company_id = $1 AND j.source_type = $2 AND j.source_id = $3 AND j.purpose = $4
			AND l.code = $5 AND l.dim = '' AND l.asset = $6`,
		companyID, sourceType, sourceID, purpose, string(c), string(a)).
		Scan(&s.account.before, &amount, &balance); err != nil {
		return s, err
	}
	s.Closing = money.New(a, balance+amount) // a debit is positive
	err := tx.QueryRow(ctx, `SELECT l.entry, l.balance FROM ledger_lines l
		JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
		WHERE l.company_id = $1 AND l.code = $2 AND l.dim = '' AND l.asset = $3 AND l.entry < $4 AND j.source_type = $5
		ORDER BY l.entry DESC LIMIT 1`,
		companyID, string(c), string(a), s.account.before, sourceType).Scan(&s.account.after, &balance)
	switch {
	case errors.Is(err, db.ErrNoRows):
	case err != nil:
		return s, err
	default:
		s.Opening = money.New(a, balance)
	}
	rows, err := tx.Query(ctx, `SELECT source_type, CAST(SUM(net) AS BIGINT), CAST(SUM(revenue) AS BIGINT), COUNT(*)
		FROM (`+numbered+`) e GROUP BY source_type ORDER BY source_type`, s.account.args()...)
	s.Changes, err = db.Collect(rows, err, func(r *db.Rows) (x Change, err error) {
		var net, revenue int64
		err = r.Scan(&x.SourceType, &net, &revenue, &x.Count)
		x.Net, x.Revenue = money.New(a, net), money.New(a, revenue)
		return x, err
	})
	return s, err
}

// Entries returns a page of the entries, oldest first.
func (s Since) Entries(ctx context.Context, tx *db.Tx, page db.Page) ([]RevenueEntry, error) {
	a := s.account.asset
	rows, err := tx.Query(ctx, "SELECT * FROM ("+numbered+") e ORDER BY entry LIMIT $7 OFFSET $8",
		append(s.account.args(), int64(page.PerPage), page.Offset())...)
	return db.Collect(rows, err, func(r *db.Rows) (e RevenueEntry, err error) {
		var number, booked, net, balance, revenue int64
		err = r.Scan(&number, &e.JournalID, &e.SourceType, &e.SourceID, &e.Purpose, &booked, &net, &balance, &revenue)
		e.Amount, e.Balance, e.Revenue = money.New(a, net), money.New(a, balance), money.New(a, revenue)
		e.BookedAt = db.Time(booked)
		return e, err
	})
}

// numbered selects the entries of an account whose numbers are between two numbers.
const numbered = `SELECT l.entry, l.journal_id, j.source_type, j.source_id, j.purpose, j.booked_at,
		-l.amount AS net, l.balance, CAST(COALESCE((SELECT -SUM(f.amount) FROM ledger_lines f
			WHERE f.company_id = l.company_id AND f.journal_id = l.journal_id AND f.asset = l.asset AND f.code = $6), 0)
			AS BIGINT) AS revenue
	FROM ledger_lines l JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
	WHERE l.company_id = $1 AND l.code = $2 AND l.dim = '' AND l.asset = $3 AND l.entry > $4 AND l.entry < $5`

func (a account) args() []any {
	return []any{a.companyID, string(a.code), string(a.asset), a.after, a.before, string(FeeRevenue)}
}

// OpenItem is the balance of one dimension of a company's account.
type OpenItem struct {
	CompanyID, Dim string
	Balance        money.Amount
	Since          time.Time // time of the first line
}

// OpenItems returns the balances of a liability account by company and dimension, over all companies, that are not 0,
// oldest first. It is for staff.
func OpenItems(ctx context.Context, tx *db.Tx, c Code, limit int) ([]OpenItem, error) {
	rows, err := tx.Query(ctx, `SELECT l.company_id, l.dim, l.asset, CAST(-SUM(l.amount) AS BIGINT), MIN(j.booked_at)
		FROM ledger_lines l JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
		WHERE l.code = $1 GROUP BY l.company_id, l.dim, l.asset HAVING SUM(l.amount) <> 0
		ORDER BY MIN(j.booked_at), l.company_id, l.dim LIMIT $2`, string(c), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (i OpenItem, err error) {
		var asset string
		var units, since int64
		err = r.Scan(&i.CompanyID, &i.Dim, &asset, &units, &since)
		i.Balance, i.Since = money.New(money.Asset(asset), units), db.Time(since)
		return i, err
	})
}

// unclosedOf returns the companies that have journals, each with its first month that is not closed: the month after
// its last closed month or else the month of its first journal.
func unclosedOf(ctx context.Context, tx *db.Tx) ([]unclosed, error) {
	rows, err := tx.Query(ctx, `SELECT j.company_id, MIN(j.booked_at),
			COALESCE((SELECT MAX(m.month) FROM period_closings m WHERE m.company_id = j.company_id), '')
		FROM ledger_journals j GROUP BY j.company_id ORDER BY j.company_id`)
	return db.Collect(rows, err, func(r *db.Rows) (u unclosed, err error) {
		var first int64
		var last string
		if err := r.Scan(&u.company, &first, &last); err != nil {
			return u, err
		}
		u.from = monthOf(db.Time(first))
		if last != "" {
			var m Month
			if err := m.set(last); err != nil {
				return u, err
			}
			u.from = m.End
		}
		return u, nil
	})
}

func closeMonth(ctx context.Context, tx *db.Tx, companyID string, month time.Time) error {
	_, err := tx.Exec(ctx, `INSERT INTO period_closings (company_id, month, code, asset, balance, closed_at)
		SELECT l.company_id, $2, l.code, l.asset, CAST(SUM(l.amount) AS BIGINT), $4
		FROM ledger_lines l JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
		WHERE l.company_id = $1 AND j.booked_at < $3 GROUP BY l.company_id, l.code, l.asset
		ON CONFLICT (company_id, month, code, asset) DO NOTHING`,
		companyID, month.Format(monthLayout), db.Micros(month.AddDate(0, 1, 0)), db.Micros(tx.Now()))
	return err
}

// Closings returns the closed months of an account of a company in an asset, newest first.
func Closings(ctx context.Context, tx *db.Tx, companyID string, c Code, a money.Asset, limit int) ([]Month, error) {
	rows, err := tx.Query(ctx, `SELECT month, balance, closed_at FROM period_closings
		WHERE company_id = $1 AND code = $2 AND asset = $3 ORDER BY month DESC LIMIT $4`,
		companyID, string(c), string(a), int64(limit))
	return db.Collect(rows, err, func(r *db.Rows) (m Month, err error) {
		var month string
		var units, closed int64
		if err := r.Scan(&month, &units, &closed); err != nil {
			return m, err
		}
		if c.creditNormal() {
			units = -units
		}
		m.Balance, m.ClosedAt = money.New(a, units), db.Time(closed)
		return m, m.set(month)
	})
}

// changedMonths compares the closed months since a time with their lines, and returns a description of each
// difference.
func changedMonths(ctx context.Context, tx *db.Tx, since time.Time) (problems []string, err error) {
	rows, err := tx.Query(ctx, "SELECT DISTINCT month FROM period_closings WHERE month >= $1 ORDER BY month",
		since.Format(monthLayout))
	names, err := db.Collect(rows, err, func(r *db.Rows) (name string, err error) { return name, r.Scan(&name) })
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var m Month
		if err := m.set(name); err != nil {
			return nil, err
		}
		rows, err := tx.Query(ctx, `SELECT c.company_id, c.code, c.asset FROM period_closings c LEFT JOIN (
				SELECT l.company_id, l.code, l.asset, SUM(l.amount) AS total FROM ledger_lines l
				JOIN ledger_journals j ON j.company_id = l.company_id AND j.journal_id = l.journal_id
				WHERE j.booked_at < $2 GROUP BY l.company_id, l.code, l.asset) t
			ON t.company_id = c.company_id AND t.code = c.code AND t.asset = c.asset
			WHERE c.month = $1 AND c.balance <> COALESCE(t.total, 0)
			UNION ALL SELECT company_id, '', asset FROM period_closings
			WHERE month = $1 GROUP BY company_id, asset HAVING SUM(balance) <> 0 LIMIT 100`, name, db.Micros(m.End))
		some, err := db.Collect(rows, err, func(r *db.Rows) (string, error) {
			var company, code, asset string
			err := r.Scan(&company, &code, &asset)
			if code == "" {
				return fmt.Sprintf("month %s of company %s does not add up to 0 in %s", name, company, asset), err
			}
			return fmt.Sprintf("account %s of company %s in %s changed after month %s was closed",
				code, company, asset, name), err
		})
		if err != nil {
			return nil, err
		}
		problems = append(problems, some...)
	}
	return problems, nil
}

// selectDebts returns the debts that meet a condition.
func selectDebts(ctx context.Context, tx *db.Tx, where string, args ...any) ([]Debt, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, dim, asset, CAST(SUM(amount) AS BIGINT) FROM ledger_lines
		WHERE code = '1300' AND `+where+`
		GROUP BY company_id, dim, asset HAVING SUM(amount) <> 0 ORDER BY company_id, dim, asset`, args...)
	return db.Collect(rows, err, func(r *db.Rows) (d Debt, err error) {
		var asset string
		var units int64
		err = r.Scan(&d.OwnerID, &d.Dim, &asset, &units)
		d.Amount = money.New(money.Asset(asset), units)
		return d, err
	})
}

// Debts returns the debts of all companies.
func Debts(ctx context.Context, tx *db.Tx) ([]Debt, error) { return selectDebts(ctx, tx, "TRUE") }

func debtsOf(ctx context.Context, tx *db.Tx, companyID string) ([]Debt, error) {
	return selectDebts(ctx, tx, "company_id = $1", companyID)
}

// maxDifferences is the largest number of accounts that are frozen in one run. More differences mean that the whole
// ledger needs repair.
const maxDifferences = 100

// compareBalances returns the guarded accounts whose balance is not the sum of their lines, at most maxDifferences.
func compareBalances(ctx context.Context, tx *db.Tx) ([]Difference, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, code, dim, asset, CAST(SUM(balance) AS BIGINT),
			CAST(SUM(lines) AS BIGINT), 0
		FROM (SELECT company_id, code, dim, asset, balance, 0 AS lines FROM ledger_balances
			UNION ALL SELECT company_id, code, dim, asset, 0, -amount FROM ledger_lines
			WHERE code IN ('2000', '2005', '2010', '2110', '2200', '2400')) AS x
		GROUP BY company_id, code, dim, asset HAVING SUM(balance) <> SUM(lines) OR SUM(balance) < 0
		ORDER BY company_id, code, dim, asset LIMIT $1`, int64(maxDifferences))
	return db.Collect(rows, err, scanDifference)
}

// Differences returns the accounts that are frozen because of a difference.
func Differences(ctx context.Context, tx *db.Tx) ([]Difference, error) {
	rows, err := tx.Query(ctx, `SELECT company_id, code, dim, asset, balance, lines, found_at FROM ledger_differences
		ORDER BY found_at, company_id, code, dim, asset`)
	return db.Collect(rows, err, scanDifference)
}

func scanDifference(r *db.Rows) (x Difference, err error) {
	var code, asset string
	var balance, lines, found int64
	err = r.Scan(&x.CompanyID, &code, &x.Dim, &asset, &balance, &lines, &found)
	x.Code, x.Found = Code(code), db.Time(found)
	x.Balance, x.Lines = money.New(money.Asset(asset), balance), money.New(money.Asset(asset), lines)
	return x, err
}

func insertDifference(ctx context.Context, tx *db.Tx, x Difference) error {
	_, err := tx.Exec(ctx, `INSERT INTO ledger_differences (company_id, code, dim, asset, balance, lines, found_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`, x.CompanyID, string(x.Code), x.Dim,
		string(x.Balance.Asset()), x.Balance.Units(), x.Lines.Units(), db.Micros(x.Found))
	return err
}

func deleteDifference(ctx context.Context, tx *db.Tx, k balanceKey) error {
	_, err := tx.Exec(ctx, `DELETE FROM ledger_differences WHERE company_id = $1 AND code = $2 AND dim = $3
		AND asset = $4`, k.company, string(k.code), k.dim, string(k.asset))
	return err
}
