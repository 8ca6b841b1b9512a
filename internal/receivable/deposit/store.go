package deposit

import (
	"context"
	"errors"
	"maps"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
)

const columns = `company_id, deposit_id, chain, txid, vout, object_id, quote_id, address, asset, amount, state, version,
	on_time, dust, first_seen, want_confirmations, replaced_by, owner_id, refund_to, refund_id`

func row(d Deposit) []any {
	return []any{d.CompanyID, d.ID, d.Chain, d.TxID, int64(d.Vout), d.ObjectID, d.QuoteID, d.Address,
		string(d.Amount.Asset()), d.Amount.Units(),
		string(d.State), d.Version, d.OnTime, d.Dust, db.Micros(d.FirstSeen), d.Wanted, d.ReplacedBy, d.OwnerID,
		d.RefundTo, d.RefundID}
}

// insert inserts deposits and returns the IDs of the inserted deposits. It omits a deposit that a concurrent
// transaction has inserted.
func insert(ctx context.Context, tx *db.Tx, all ...Deposit) (map[string]bool, error) {
	rows := make([][]any, len(all))
	for i, d := range all {
		rows[i] = row(d)
	}
	return stored(ctx, tx, rows, func(values string) string {
		return "INSERT INTO deposits (" + columns + ") " + values + " ON CONFLICT DO NOTHING RETURNING deposit_id"
	})
}

// update writes the next versions of deposits, and returns the IDs of the deposits that had not changed since they
// were read.
func update(ctx context.Context, tx *db.Tx, all []*change) (map[string]bool, error) {
	rows := make([][]any, len(all))
	for i, c := range all {
		rows[i] = []any{c.CompanyID, c.ID, c.was.Version, c.Version, string(c.State), c.QuoteID, c.OnTime,
			db.Micros(c.FirstSeen), c.ReplacedBy, c.OwnerID,
			c.ObjectID, c.RefundTo, c.RefundID}
	}
	return stored(ctx, tx, rows, func(values string) string {
		return `WITH v (company_id, deposit_id, was, version, state, quote_id, on_time, first_seen, replaced_by,
			owner_id, object_id,
				refund_to, refund_id) AS (` + values + `)
			UPDATE deposits SET version = v.version, state = v.state, quote_id = v.quote_id, on_time = v.on_time,
			first_seen = v.first_seen, replaced_by = v.replaced_by,
				owner_id = v.owner_id, object_id = v.object_id, refund_to = v.refund_to, refund_id = v.refund_id
			FROM v WHERE deposits.company_id = v.company_id AND deposits.deposit_id = v.deposit_id
			AND deposits.version = v.was
			RETURNING deposits.deposit_id`
	})
}

// stored runs a statement for rows and collects the IDs that it returns.
func stored(ctx context.Context, tx *db.Tx, rows [][]any, statement func(values string) string) (map[string]bool,
	error) {
	ids := make(map[string]bool, len(rows))
	for values, args := range db.BindRows(tx, rows, 1) {
		answer, err := tx.Query(ctx, statement(values), args...)
		some, err := db.Collect(answer, err, func(r *db.Rows) (id string, err error) { return id, r.Scan(&id) })
		if err != nil {
			return nil, err
		}
		for _, id := range some {
			ids[id] = true
		}
	}
	return ids, nil
}

// find returns the deposit of an output, or db.ErrNoRows.
func find(ctx context.Context, tx *db.Tx, companyID, chainName string, at chain.Outpoint) (Deposit, error) {
	return scan(tx.QueryRow(ctx,
		"SELECT "+columns+" FROM deposits WHERE company_id = $1 AND chain = $2 AND txid = $3 AND vout = $4",
		companyID, chainName, at.TxID, int64(at.Vout)))
}

// Get returns a deposit by its ID, or ErrNotFound.
func Get(ctx context.Context, tx *db.Tx, companyID, id string) (Deposit, error) {
	d, err := scan(tx.QueryRow(ctx, "SELECT "+columns+" FROM deposits WHERE company_id = $1 AND deposit_id = $2",
		companyID, id))
	if errors.Is(err, db.ErrNoRows) {
		return d, ErrNotFound
	}
	return d, err
}

// storeAll writes new and changed deposits, and returns the IDs of the written deposits.
func storeAll(ctx context.Context, tx *db.Tx, all []*change) (map[string]bool, error) {
	var fresh []Deposit
	var known []*change
	for _, c := range all {
		if c.isNew() {
			fresh = append(fresh, c.Deposit)
		} else {
			known = append(known, c)
		}
	}
	ids, err := insert(ctx, tx, fresh...)
	if err != nil {
		return nil, err
	}
	more, err := update(ctx, tx, known)
	maps.Copy(ids, more)
	return ids, err
}

// askOutputs returns the queries that read outputs from the rows that the chain watcher stored.
func (s *syncing) askOutputs(places []place) []db.Statement {
	return perTransaction(places, func(p place) db.Statement {
		return chain.OutputsQuery(p.chain, p.at.TxID, func(out chain.WatchedOutput) {
			s.outputs[place{out.CompanyID, p.chain, out.Outpoint}] = out
		})
	})
}

// askDeposits returns the queries that read the deposits of the outputs' transactions.
func (s *syncing) askDeposits(places []place) []db.Statement {
	return perTransaction(places, func(p place) db.Statement {
		return db.Statement{
			Query: "SELECT " + columns + " FROM deposits WHERE company_id = $1 AND chain = $2 AND txid = $3",
			Args:  []any{p.companyID, p.chain, p.at.TxID},
			Row: func(r *db.Rows) error {
				d, err := scan(r)
				s.meet(&change{Deposit: d, was: d})
				return err
			},
		}
	})
}

// perTransaction returns one query for each transaction that has one of the outputs.
func perTransaction(places []place, ask func(place) db.Statement) (all []db.Statement) {
	asked := map[place]bool{}
	for _, p := range places {
		if p.at.Vout = 0; !asked[p] {
			asked[p], all = true, append(all, ask(p))
		}
	}
	return all
}

// askObjects returns the queries for the deposits and quotes of the objects.
func (s *syncing) askObjects() (all []db.Statement) {
	for at, o := range s.objects {
		if ofWallet(at.id) {
			all = append(all, askWaiting(at, func(d Deposit) {
				o.deposits = append(o.deposits,
					s.meet(&change{Deposit: d, was: d}))
			}))
			continue
		}
		all = append(all,
			Asked(at.companyID, at.id, func(d Deposit) {
				o.deposits = append(o.deposits, s.meet(&change{Deposit: d,
					was: d}))
			}),
			quote.Asked(at.companyID, at.id, func(q quote.Quote) { o.quotes = append(o.quotes, q) }))
	}
	return all
}

// askWaiting returns the query for the deposits of an object that wait for confirmations.
func askWaiting(at object, found func(Deposit)) db.Statement {
	return db.Statement{
		Query: "SELECT " + columns +
			" FROM deposits WHERE company_id = $1 AND object_id = $2 AND state IN ('seen', 'reverted') AND dust = FALSE",
		Args: []any{at.companyID, at.id}, Row: each(found),
	}
}

// each returns a function that scans a deposit and passes it to found.
func each(found func(Deposit)) func(*db.Rows) error {
	return func(r *db.Rows) error {
		d, err := scan(r)
		if err == nil {
			found(d)
		}
		return err
	}
}

// OfBalance returns a page of the deposits to a company's available balance, newest first, and their total number. If
// currency is "", it includes all currencies.
func OfBalance(ctx context.Context, tx *db.Tx, companyID, currency string, page db.Page) (
	[]Deposit, int64, error) {
	// A deposit to a forgotten address belongs to the operator's rows, even after staff have found its owner.
	ctx = db.AcrossCompanies(ctx, "the operator's rows are read, too; the statement names the owner")
	l := &db.List{Columns: columns, Table: "deposits", ID: "deposit_id", Time: "first_seen", Page: page}
	l.Where("company_id IN (?, '"+ledger.Operator+"') AND owner_id <> '' AND owner_id = ?", companyID, companyID)
	if currency != "" {
		l.Where("asset = ?", currency)
	}
	return db.ReadPage(ctx, tx, l, func(r *db.Rows) (Deposit, error) { return scan(r) })
}

// ForObject returns the deposits that an object expects, in any state but without dust, ordered by the time first
// seen.
func ForObject(ctx context.Context, tx *db.Tx, companyID, objectID string) (all []Deposit, err error) {
	err = tx.Batch(ctx, []db.Statement{Asked(companyID, objectID, func(d Deposit) { all = append(all, d) })})
	return all, err
}

// Asked returns the query of [ForObject], for use in a batch.
func Asked(companyID, objectID string, found func(Deposit)) db.Statement {
	return db.Statement{Query: "SELECT " + columns + ` FROM deposits
		WHERE company_id = $1 AND object_id = $2 AND quote_id <> '' AND dust = FALSE ORDER BY first_seen, txid,
		vout`, Args: []any{companyID, objectID},
		Row: each(found)}
}

// UnknownToAll returns the confirmed deposits of all companies that no object expects and that wait for a decision by
// staff, newest first. It includes deposits to forgotten addresses (chain.Nobody), but not deposits to the operator's
// own addresses.
func UnknownToAll(ctx context.Context, tx *db.Tx, limit int) ([]Deposit, error) {
	rows, err := tx.Query(ctx, "SELECT "+columns+` FROM deposits
		WHERE quote_id = '' AND owner_id = '' AND refund_to = '' AND state = 'confirmed' AND dust = FALSE
		AND NOT (company_id = $2 AND object_id <> '') ORDER BY first_seen DESC, txid, vout LIMIT $1`,
		int64(limit), ledger.Operator)
	return db.Collect(rows, err, func(r *db.Rows) (Deposit, error) { return scan(r) })
}

func scan(r interface{ Scan(dest ...any) error }) (Deposit, error) {
	var d Deposit
	var asset, state string
	var vout, amount, firstSeen int64
	err := r.Scan(&d.CompanyID, &d.ID, &d.Chain, &d.TxID, &vout, &d.ObjectID, &d.QuoteID, &d.Address, &asset, &amount,
		&state, &d.Version,
		&d.OnTime, &d.Dust, &firstSeen, &d.Wanted, &d.ReplacedBy, &d.OwnerID, &d.RefundTo, &d.RefundID)
	d.Vout, d.Amount, d.State, d.FirstSeen = uint32(vout), money.New(money.Asset(asset), amount), State(state),
		db.Time(firstSeen)
	return d, err
}

// Unbooked returns the outpoints of coins that are mined and confirmed, but have no confirmed deposit yet.
func Unbooked(ctx context.Context, tx *db.Tx, chainName string) ([]chain.Outpoint, error) {
	places, err := unbooked(ctx, tx, chainName)
	return outpoints(places), err
}

func unbooked(ctx context.Context, tx *db.Tx, chainName string) ([]place, error) {
	return places(ctx, tx, chainName, `SELECT o.company_id, o.txid, o.vout FROM chain_outputs o LEFT JOIN deposits d
			ON d.company_id = o.company_id AND d.chain = o.chain AND d.txid = o.txid AND d.vout = o.vout
			AND d.state = 'confirmed'
		WHERE o.chain = $1 AND o.state = 'mined' AND o.confirmed = TRUE AND o.branch = $2 AND d.txid IS NULL
		ORDER BY o.txid, o.vout`, int64(chain.External))
}

// Gone returns the outpoints of confirmed deposits that are no longer in a block of the chain.
func Gone(ctx context.Context, tx *db.Tx, chainName string) ([]chain.Outpoint, error) {
	places, err := gone(ctx, tx, chainName)
	return outpoints(places), err
}

func gone(ctx context.Context, tx *db.Tx, chainName string) ([]place, error) {
	return places(ctx, tx, chainName, `SELECT d.company_id, d.txid, d.vout FROM deposits d LEFT JOIN chain_outputs o
			ON o.chain = d.chain AND o.txid = d.txid AND o.vout = d.vout AND o.state = 'mined'
		WHERE d.chain = $1 AND d.state = 'confirmed' AND o.txid IS NULL ORDER BY d.txid, d.vout`)
}

func places(ctx context.Context, tx *db.Tx, chainName, query string, args ...any) ([]place, error) {
	rows, err := tx.Query(ctx, query, append([]any{chainName}, args...)...)
	return db.Collect(rows, err, func(r *db.Rows) (p place, err error) {
		var vout int64
		err = r.Scan(&p.companyID, &p.at.TxID, &vout)
		p.chain, p.at.Vout = chainName, uint32(vout)
		return p, err
	})
}

func outpoints(places []place) (all []chain.Outpoint) {
	for _, p := range places {
		all = append(all, p.at)
	}
	return all
}

func transfers(ctx context.Context, tx *db.Tx) (map[string]string, error) {
	rows, err := tx.Query(ctx, "SELECT deposit_id, txid FROM deposits WHERE address = '' AND txid LIKE 'trf_%'")
	of := map[string]string{}
	_, err = db.Collect(rows, err, func(r *db.Rows) (struct{}, error) {
		var id, transfer string
		err := r.Scan(&id, &transfer)
		of[id] = transfer
		return struct{}{}, err
	})
	return of, err
}
