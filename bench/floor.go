package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stipend/stipend/internal/db"
)

// model is a request and the rows that it wrote.
type model struct {
	body    []byte
	company string // company of the request
	tables  []modelTable
}

type modelTable struct {
	name       string
	columns    []string
	rows       [][]any
	newIDs     []patch // positions of ids that must differ in each copy
	companyIDs []patch // positions of the company's id
	counted    []int   // columns of numbers that increase with each row
}

// patch is the position, in a text value of a row, of eight characters of an id or of a company's id. The service's
// ids increase with time; scattered values are random, so they are spread over the whole index.
type patch struct {
	row, column, at int
	scattered       bool
}

func (m *model) rows() int {
	n := 0
	for _, t := range m.tables {
		n += len(t.rows)
	}
	return n
}

// ids matches the values that must be new in each copy of a row: ids and keys of the service, receive addresses,
// transaction ids, and request ids. A serial number replaces the eight characters before the last one. The last
// character separates ids of one request.
var (
	ids = regexp.MustCompile(
		`(?:\b[a-z]{3}_[0-9a-z]{17}|bcrt1q[0-9a-z]{29}|\b[0-9a-f]{55}|\breq_[0-9a-f]{23})([0-9a-z]{8})[0-9a-z]\b`)
	scattered = regexp.MustCompile(`^(?:bnc_|bcrt1q|[0-9a-f]{55}|req_[0-9a-f]{23})`)
)

// background matches tables that the service writes independently of requests, or whose rows requests only update.
var background = regexp.MustCompile(
	`^(sim_|chain_(blocks|cursors|pools|spends|txs|outputs)|goose_|leases|settings|event_cursors|` +
		`rates|operator_balances$)`)

// capture runs f until two consecutive runs have written the same number of rows to the same tables, and returns the
// model of the last run. This excludes rows of unrelated work of the service.
func capture(ctx context.Context, database string, f func() ([]byte, error)) (*model, error) {
	var last *model
	for range 10 {
		m, err := captureOne(ctx, database, f)
		if err != nil {
			return nil, err
		}
		if last != nil && slices.EqualFunc(m.tables, last.tables, func(a, b modelTable) bool {
			return a.name == b.name && len(a.rows) == len(b.rows)
		}) {
			return m, nil
		}
		last = m
	}
	return nil, errors.New("no two consecutive requests wrote the same number of rows")
}

// captureOne runs f once and returns a model of the rows that it wrote.
func captureOne(ctx context.Context, database string, f func() ([]byte, error)) (*model, error) {
	before, err := dumpWhenIdle(ctx, database)
	if err != nil {
		return nil, err
	}
	body, err := f()
	if err != nil {
		return nil, err
	}
	if _, err := dumpWhenIdle(ctx, database); err != nil { // includes the rows that are written after the response
		return nil, err
	}
	after, err := dump(ctx, database)
	if err != nil {
		return nil, err
	}
	return modelOf(body, before, after)
}

// modelOf returns a model of the rows that were added between two dumps. body is the request, or nil.
func modelOf(body []byte, before, after []modelTable) (*model, error) {
	m := &model{body: body}
	if body != nil {
		var request requestBody
		if err := json.Unmarshal(body, &request); err != nil {
			return nil, err
		}
		m.company = request.CompanyID
	}
	for _, t := range added(before, after) {
		for i, row := range t.rows {
			for j, value := range row {
				text, ok := value.(string)
				if !ok {
					continue
				}
				for _, at := range ids.FindAllStringSubmatchIndex(text, -1) {
					switch id := text[at[0]:at[1]]; {
					case id == m.company:
						t.companyIDs = append(t.companyIDs, patch{row: i, column: j, at: at[0]})
					case t.columns[j] != "company_id":
						t.newIDs = append(t.newIDs, patch{i, j, at[2], scattered.MatchString(id)})
					}
				}
			}
		}
		// The position of an event is one above the previous one. The floor counts positions in memory; the service
		// makes them follow the order of commits.
		if i := slices.Index(t.columns, "position"); t.name == "events" && i >= 0 {
			t.counted = append(t.counted, i)
		}
		m.tables = append(m.tables, t)
	}
	if m.rows() == 0 {
		return nil, errors.New("the request wrote no rows")
	}
	return m, nil
}

// dumpWhenIdle returns a dump of all tables once they have not changed for longer than the request log is buffered.
// Pending work (mails, the request log) would otherwise be attributed to another request or missed, and would slow
// down the measurement.
func dumpWhenIdle(ctx context.Context, database string) ([]modelTable, error) {
	last, err := dump(ctx, database)
	for since, still := 0, 0; since < 240; since++ {
		if err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		var now []modelTable
		if now, err = dump(ctx, database); err != nil || !reflect.DeepEqual(now, last) {
			last, still = now, 0
		} else if still++; still == 3 {
			return now, nil
		}
	}
	return nil, errors.Join(err, errors.New("the service does not become idle"))
}

// dump returns the rows of all tables.
func dump(ctx context.Context, database string) ([]modelTable, error) {
	b, err := openBare(ctx, database)
	if err != nil {
		return nil, err
	}
	defer b.close()
	names, err := b.tables(ctx)
	if err != nil {
		return nil, err
	}
	var all []modelTable
	for _, name := range names {
		if background.MatchString(name) {
			continue
		}
		t := modelTable{name: name}
		if t.columns, t.rows, err = b.all(ctx, name); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// added returns the rows that are in after but not in before. It omits tables that did not grow, and rows without an
// id of their own: these existed before and were updated.
func added(before, after []modelTable) []modelTable {
	var all []modelTable
	for _, t := range after {
		seen := map[string]bool{}
		if i := slices.IndexFunc(before, func(k modelTable) bool { return k.name == t.name }); i >= 0 {
			for _, row := range before[i].rows {
				seen[fmt.Sprint(row...)] = true
			}
			if len(t.rows) <= len(seen) {
				continue
			}
		}
		rows := t.rows[:0:0]
		for _, row := range t.rows {
			if !seen[fmt.Sprint(row...)] && t.hasOwnID(row) {
				rows = append(rows, row)
			}
		}
		if t.rows = rows; len(rows) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// hasOwnID reports whether a row has an id other than its company's.
func (t modelTable) hasOwnID(row []any) bool {
	for i, v := range row {
		if text, ok := v.(string); ok && t.columns[i] != "company_id" && ids.MatchString(text) {
			return true
		}
	}
	return false
}

const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// lastPosition is the last number used in a counted column.
var lastPosition atomic.Int64

// encodeSerial encodes a number below 2^40 in eight characters.
func encodeSerial(n uint64) string {
	var text [8]byte
	for i := range text {
		text[len(text)-1-i] = digits[n>>(5*i)&31]
	}
	return string(text[:])
}

// copy returns the rows of another request like the model's, for the given company. An empty company means the
// model's own.
func (m *model) copy(serial uint64, company string) []modelTable {
	const odd = 0x9e3779b97f4a7c15 // multiplication by an odd number is a bijection that spreads adjacent numbers
	rising, anywhere := encodeSerial(serial), encodeSerial(serial*odd)
	if company == "" {
		company = m.company
	}
	tables := make([]modelTable, len(m.tables))
	for i, t := range m.tables {
		rows := make([][]any, len(t.rows))
		for j, row := range t.rows {
			rows[j] = slices.Clone(row)
			for _, c := range t.counted {
				rows[j][c] = lastPosition.Add(1)
			}
		}
		put := func(p patch, id string) {
			text := rows[p.row][p.column].(string)
			rows[p.row][p.column] = text[:p.at] + id + text[p.at+len(id):]
		}
		for _, p := range t.newIDs {
			if p.scattered {
				put(p, anywhere)
			} else {
				put(p, rising)
			}
		}
		if company != m.company {
			for _, p := range t.companyIDs {
				put(p, company)
			}
		}
		tables[i] = modelTable{name: t.name, columns: t.columns, rows: rows}
	}
	return tables
}

// stockTables are the tables that later operations on a payroll or claim read. The other tables that a new payroll or
// claim writes to are not read again.
var stockTables = []string{"payrolls", "payments", "claims", "quotes", "chain_addresses"}

// fill writes the rows of n requests like the model's, thousands of them by one statement for each table.
func fill(ctx context.Context, database string, m *model, n int) error {
	b, err := openBare(ctx, database)
	if err != nil {
		return err
	}
	defer b.close()
	const step = 20_000
	for from := 0; from < n; from += step {
		var all []statement
		for _, t := range m.tables {
			if slices.Contains(stockTables, t.name) {
				all = append(all, t.multiply(from, min(from+step, n))...)
			}
		}
		if err := b.batch(ctx, all); err != nil {
			return err
		}
	}
	switch b := b.(type) {
	case barePostgres:
		// Otherwise the server would do both during the measurement, for rows that a service writes in months.
		for _, text := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
			if _, err := b.pool.Exec(ctx, text); err != nil {
				return err
			}
		}
	case *bareSQLite: // a busy service would have checkpointed its log as it grew
		return b.exec(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return nil
}

// multiply returns statements that copy the rows of a table once for each number from..to-1, with ids that end in the
// number.
func (t modelTable) multiply(from, to int) []statement {
	all := make([]statement, len(t.rows))
	for i, row := range t.rows {
		values := make([]string, len(row))
		for j, v := range row {
			values[j] = literal(v)
		}
		for _, p := range t.newIDs {
			if p.row != i {
				continue
			}
			text := row[p.column].(string)
			if end := p.at + 8; end+1 == len(text) {
				values[p.column] = literal(text[:p.at]) + " || CAST(10000000 + n AS TEXT) || " + literal(text[end:])
			}
		}
		all[i] = statement{text: fmt.Sprintf(
			"INSERT INTO %s (%s) WITH RECURSIVE s (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) "+
				"SELECT %s FROM s",
			t.name, strings.Join(t.columns, ", "), from, to-1, strings.Join(values, ", "))}
	}
	return all
}

// literal returns a value as an SQL literal.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	default:
		return strings.ToUpper(fmt.Sprint(v)) // a number or a boolean
	}
}

// floor is an HTTP server that writes the rows of a model for each request, with the company of the request.
type floor struct {
	url    string
	stop   func()
	db     bare
	model  atomic.Pointer[model]
	serial atomic.Uint64
	keys   sync.Map
}

// startFloor starts a floor on its own database.
func (b *bench) startFloor(ctx context.Context, name string) (*floor, error) {
	database, err := b.databases(name)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{URL: database})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.Migrate(ctx), d.Close()); err != nil {
		return nil, err
	}
	rows, err := openBare(ctx, database)
	if err != nil {
		return nil, err
	}
	f := &floor{db: rows}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		rows.close()
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(f.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	f.url = "http://" + listener.Addr().String()
	f.stop = func() {
		_ = server.Close()
		rows.close()
	}
	return f, nil
}

func (f *floor) use(m *model) { f.model.Store(m) }

// remember stores a response under an idempotency key. The floor reads it for each repetition.
func (f *floor) remember(ctx context.Context, key string) error {
	f.keys.Store(key, true)
	return f.db.write(ctx, []modelTable{{
		name:    "idempotency",
		columns: []string{"principal", "route", "key", "fingerprint", "response", "created_at"},
		rows:    [][]any{{"bench", createPath, key, "", `{"payroll_id":"prl_bench"}`, int64(0)}},
	}})
}

// requestBody has the fields of a request that the floor parses.
type requestBody struct {
	CompanyID string `json:"company_id"`
	ToPay     []struct {
		UserID string      `json:"user_id"`
		Amount json.Number `json:"amount_fiat"`
	} `json:"to_pay"`
}

func (f *floor) serve(w http.ResponseWriter, r *http.Request) {
	var body requestBody
	answer := `{"payroll_id":"prl_bench"}`
	err := json.NewDecoder(r.Body).Decode(&body)
	if err == nil {
		key := r.Header.Get("Idempotency-Key")
		if _, again := f.keys.Load(key); again {
			answer, err = f.db.answer(r.Context(), key)
		} else {
			err = f.db.write(r.Context(), f.model.Load().copy(f.serial.Add(1), body.CompanyID))
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

// bare is a database accessed without package db.
type bare interface {
	tables(ctx context.Context) ([]string, error)
	all(ctx context.Context, table string) (columns []string, rows [][]any, err error)
	write(ctx context.Context, tables []modelTable) error
	answer(ctx context.Context, key string) (string, error)
	batch(ctx context.Context, statements []statement) error // in one transaction
	close()
}

type statement struct {
	text string
	args []any
}

func openBare(ctx context.Context, database string) (bare, error) {
	if path, ok := strings.CutPrefix(database, "sqlite:"); ok {
		return openBareSQLite(ctx, path)
	}
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return barePostgres{pool}, err
}

// On SQLite, short prepared statements are as fast as long ones. On PostgreSQL a round trip costs more than a row,
// and COPY is faster for some hundred rows or more.
const (
	sqliteRows = 8
	copyRows   = 256
)

// numbered matches PostgreSQL's numbered parameters. SQLite searches all earlier parameters for each numbered one, so
// the cost of a long statement is quadratic. Ordered ? parameters avoid this.
var numbered = regexp.MustCompile(`\$[0-9]+`)

func plain(text string) string { return numbered.ReplaceAllString(text, "?") }

// insert returns a statement that inserts the first n rows of a table.
func insert(t modelTable, n int) statement {
	args := make([]any, 0, n*len(t.columns))
	for _, row := range t.rows[:n] {
		args = append(args, row...)
	}
	return statement{"INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ") VALUES " +
		db.Placeholders(n, len(t.columns), 1), args}
}

// bareSQLite writes on one connection and caches its prepared statements: there are few different ones, and parsing a
// long statement costs more than running it.
type bareSQLite struct {
	db, readers *sql.DB
	mu          sync.Mutex // guards the fields below
	writer      *sql.Conn
	prepared    map[string]*sql.Stmt
}

func openBareSQLite(ctx context.Context, path string) (bare, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	q := url.Values{"_pragma": {"journal_mode(WAL)", "wal_autocheckpoint(8000)", "busy_timeout(10000)",
		"synchronous(FULL)", "cache_size(-65536)", "temp_store(MEMORY)"}}
	name := "file:" + path + "?" + q.Encode()
	b := &bareSQLite{prepared: map[string]*sql.Stmt{}}
	var err error
	if b.db, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	if b.readers, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	b.readers.SetMaxOpenConns(2 * runtime.NumCPU())
	b.readers.SetMaxIdleConns(2 * runtime.NumCPU())
	b.writer, err = b.db.Conn(ctx)
	return b, err
}

func (b *bareSQLite) close() { _ = errors.Join(b.readers.Close(), b.writer.Close(), b.db.Close()) }

func (b *bareSQLite) exec(ctx context.Context, text string, args ...any) error {
	s, ok := b.prepared[text]
	if !ok {
		var err error
		if s, err = b.writer.PrepareContext(ctx, plain(text)); err != nil {
			return err
		}
		b.prepared[text] = s
	}
	_, err := s.ExecContext(ctx, args...)
	return err
}

// batch runs the statements in one transaction.
func (b *bareSQLite) batch(ctx context.Context, statements []statement) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, s := range statements {
		if err := b.exec(ctx, s.text, s.args...); err != nil {
			return errors.Join(fmt.Errorf("%.60s: %w", s.text, err), b.exec(context.WithoutCancel(ctx), "ROLLBACK"))
		}
	}
	return b.exec(ctx, "COMMIT")
}

func (b *bareSQLite) write(ctx context.Context, tables []modelTable) error {
	var all []statement
	for _, t := range tables {
		for _, n := range db.Chunks(len(t.rows), sqliteRows) {
			all = append(all, insert(t, n))
			t.rows = t.rows[n:]
		}
	}
	return b.batch(ctx, all)
}

func (b *bareSQLite) tables(ctx context.Context) ([]string, error) {
	rows, err := b.readers.QueryContext(ctx,
		"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (b *bareSQLite) all(ctx context.Context, table string) ([]string, [][]any, error) {
	rows, err := b.readers.QueryContext(ctx, "SELECT * FROM "+table)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, nil, err
	}
	var all [][]any
	for rows.Next() {
		row, at := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			at[i] = &row[i]
		}
		if err := rows.Scan(at...); err != nil {
			return nil, nil, err
		}
		all = append(all, row)
	}
	return columns, all, rows.Err()
}

func (b *bareSQLite) answer(ctx context.Context, key string) (text string, err error) {
	err = b.readers.QueryRowContext(ctx,
		"SELECT response FROM idempotency WHERE principal = ?1 AND route = ?2 AND key = ?3", "bench", createPath,
		key).Scan(&text)
	return text, err
}

type barePostgres struct{ pool *pgxpool.Pool }

func (b barePostgres) close() { b.pool.Close() }

func (b barePostgres) tables(ctx context.Context) ([]string, error) {
	rows, err := b.pool.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (b barePostgres) all(ctx context.Context, table string) ([]string, [][]any, error) {
	rows, err := b.pool.Query(ctx, "SELECT * FROM "+table)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var columns []string
	for _, f := range rows.FieldDescriptions() {
		columns = append(columns, f.Name)
	}
	var all [][]any
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return nil, nil, err
		}
		all = append(all, row)
	}
	return columns, all, rows.Err()
}

func (b barePostgres) answer(ctx context.Context, key string) (text string, err error) {
	err = b.pool.QueryRow(ctx, "SELECT response FROM idempotency WHERE principal = $1 AND route = $2 AND key = $3",
		"bench", createPath, key).Scan(&text)
	return text, err
}

func (b barePostgres) write(ctx context.Context, tables []modelTable) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var batch pgx.Batch
		for _, t := range tables {
			if len(t.rows) >= copyRows {
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromRows(t.rows)); err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				continue
			}
			s := insert(t, len(t.rows))
			batch.Queue(s.text, s.args...)
		}
		if batch.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
}

func (b barePostgres) batch(ctx context.Context, statements []statement) error {
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		var batch pgx.Batch
		for _, s := range statements {
			batch.Queue(s.text, s.args...)
		}
		return tx.SendBatch(ctx, &batch).Close()
	})
}
