// Package db provides transactions on SQLite (embedded) and PostgreSQL.
//
// It owns connections, group commit, retries and migrations, and supplies the time and the IDs of a transaction. It
// contains no business rules and uses no tables except settings and history. Both engines execute the same SQL text,
// with placeholders $1, $2.
//
// Concurrent writes share a commit (see [DB.Write]), and a write function may run more than once. A write function
// must therefore have no effects that a rollback does not undo. Correctness rests on guarded statements and unique
// constraints at READ COMMITTED, never on which other functions share the transaction.
package db

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	// The SQLite engine, in pure Go.
	_ "modernc.org/sqlite"
)

// Engine is a kind of database.
type Engine int

// The engines.
const (
	SQLite Engine = iota
	Postgres
)

func (e Engine) String() string {
	if e == Postgres {
		return "postgres"
	}
	return "sqlite"
}

// Options are the parameters of [Open]. Only URL is required.
type Options struct {
	// URL is "sqlite:/path/to/file" or a PostgreSQL URL.
	URL string
	// Clock returns the time of a transaction. Nil means the system's clock.
	Clock func() time.Time
	// AdjustableClock adds settings.clock_offset (microseconds) to the clock. All processes of a sandbox share the offset.
	AdjustableClock bool
	// Committers is the number of transactions that commit at the same time on PostgreSQL. Zero means 4. SQLite has one.
	Committers int
	// Connections is the maximum size of the PostgreSQL pool. Zero means 16.
	Connections int32
	// QueueTimeout bounds how long a write may wait in the queue before it fails with ErrRetryLater. Zero means no limit.
	QueueTimeout time.Duration
	// ObserveBatch is called after each shared commit with the number of functions in it and its duration. It may be
	// nil.
	ObserveBatch func(functions int, took time.Duration)
	// Tracer receives the statements on PostgreSQL. It may be nil.
	Tracer Tracer
	// Intercept wraps each statement on SQLite, including BEGIN, COMMIT and ROLLBACK. It may be nil. A simulation uses
	// it to order transactions and to make them fail. The context carries the label of the work, see [WithLabel].
	Intercept Intercept
}

// Intercept executes a statement by calling run. To make the statement fail, it returns an error, without calling run
// or after run has returned.
type Intercept = func(ctx context.Context, query string, run func() error) error

// Gather is passed to an [Intercept] in place of a statement, after the first request of a batch was received.
// Requests that arrive before the Intercept returns join the batch, ordered by their labels.
const Gather = "GATHER"

// LabelWrite is the label of the statements that begin and end transactions that write.
const LabelWrite = "write"

type labelKey struct{}

// WithLabel returns a context with a label for the work done in it, which [Options.Intercept] can read with [Label].
// Concurrent work must use different labels.
func WithLabel(ctx context.Context, label string) context.Context {
	if outer := Label(ctx); outer != "" {
		label = outer + "/" + label
	}
	return context.WithValue(ctx, labelKey{}, label)
}

// Label returns the label of a context, or "".
func Label(ctx context.Context) string {
	label, _ := ctx.Value(labelKey{}).(string)
	return label
}

// Jitter returns a random duration in [0, limit), so that operations that failed together are not retried together.
func Jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on a supported system
	}
	return time.Duration(binary.BigEndian.Uint64(b[:]) % uint64(limit))
}

// Tracer receives the beginning and the end of each statement.
type Tracer = pgx.QueryTracer

// DB is an open database. Its methods may be called concurrently.
type DB struct {
	engine    Engine
	opt       Options
	pools     []*DB // created by WithPool; closed together with this handle
	listeners *listeners

	// SQLite
	writer    *sql.DB // two connections: writeConn, and one for migrations
	writeConn sqliteConn
	readers   readers

	// PostgreSQL
	pool         *pgxpool.Pool
	hasTimelines bool // see Replaced

	// Group commit
	queue      chan *request
	committing atomic.Int64  // committers that are executing a batch
	pending    atomic.Int64  // calls of Write that have not returned
	filling    sync.Mutex    // held by the committer that is filling its batch
	load       int64         // the recent maximum of pending, decaying with each batch; guarded by filling
	batchTime  atomic.Int64  // the moving average of the duration of a batch, in nanoseconds
	executed   chan struct{} // receives a value after a committer has executed a batch
	stop       chan struct{}
	stopping   sync.Once
	running    sync.WaitGroup // committers
}

// Open opens a database. It does not migrate it.
func Open(ctx context.Context, opt Options) (*DB, error) {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	d := newDB(opt)
	d.listeners = &listeners{}
	switch {
	case strings.HasPrefix(opt.URL, "sqlite:"):
		if err := d.openSQLite(ctx, strings.TrimPrefix(opt.URL, "sqlite:")); err != nil {
			return nil, err
		}
	case strings.HasPrefix(opt.URL, "postgres://"), strings.HasPrefix(opt.URL, "postgresql://"):
		if err := d.openPostgres(ctx); err != nil {
			return nil, err
		}
		if err := d.checkServer(ctx); err != nil {
			d.pool.Close()
			return nil, err
		}
	default:
		return nil, fmt.Errorf("database URL: want sqlite:/path or postgres://…, got a URL that starts with neither")
	}
	d.startCommitters()
	return d, nil
}

func newDB(opt Options) *DB {
	return &DB{opt: opt, queue: make(chan *request, queueSize), executed: make(chan struct{}, 1),
		stop: make(chan struct{})}
}

func (d *DB) startCommitters() {
	committers := 1
	if d.engine == Postgres {
		committers = cmp.Or(d.opt.Committers, 4)
	}
	for range committers {
		d.running.Go(d.commitLoop)
	}
}

// WithPool returns a handle to the same database with its own connections and committers, so that one workload cannot
// use up the connections of another. The handles share their listeners (see [DB.OnNotice]), and closing d closes
// both. On SQLite, where only one transaction writes at a time and reads never wait, WithPool returns d.
func (d *DB) WithPool(ctx context.Context, opt Options) (*DB, error) {
	if d.engine == SQLite {
		return d, nil
	}
	opt.URL, opt.Clock, opt.AdjustableClock = d.opt.URL, d.opt.Clock, d.opt.AdjustableClock
	opt.ObserveBatch, opt.Tracer = d.opt.ObserveBatch, d.opt.Tracer
	b := newDB(opt)
	b.listeners, b.hasTimelines = d.listeners, d.hasTimelines
	if err := b.openPostgres(ctx); err != nil {
		return nil, err
	}
	b.startCommitters()
	d.pools = append(d.pools, b)
	return b, nil
}

func (d *DB) openSQLite(ctx context.Context, path string) error {
	path = strings.TrimPrefix(path, "//")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	// Only the owner may read the database. SQLite gives its write-ahead log the permissions of this file.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	d.engine = SQLite
	open := func(pragmas ...string) (*sql.DB, error) {
		q := url.Values{"_pragma": append(pragmas, "busy_timeout(10000)", "foreign_keys(1)", "synchronous(FULL)",
			"temp_store(MEMORY)")}
		return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	}
	// A checkpoint runs when the write-ahead log reaches 32 MiB. A few dozen commits write that much, mostly to the same
	// pages.
	if d.writer, err = open("journal_mode(WAL)", "wal_autocheckpoint(8000)", "cache_size(-65536)"); err != nil {
		return err
	}
	d.writer.SetMaxOpenConns(2)
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	d.writeConn = sqliteConn{conn, map[string]*sql.Stmt{}, d.opt.Intercept}
	// A reader's cache becomes invalid with each commit, so it only has to hold the pages that one transaction reads
	// twice.
	from, err := open("query_only(1)", "cache_size(-8192)")
	if err != nil {
		return err
	}
	d.readers.open(from, d.opt.Intercept)
	return nil
}

// Vacuum removes deleted data from the file of an SQLite database. On PostgreSQL it does nothing: the server vacuums
// in the background.
func (d *DB) Vacuum(ctx context.Context) error {
	if d.engine != SQLite {
		return nil
	}
	for _, statement := range []string{"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := d.writer.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("remove deleted data from the file: %w", err)
		}
	}
	return nil
}

// Errors of [Server] for connections that someone on the network could read or intercept.
var (
	ErrNotEncrypted = errors.New("the connection to PostgreSQL is not encrypted")
	ErrNotVerified  = errors.New("the certificate of PostgreSQL is not verified")
)

// Server returns the host of a PostgreSQL URL, or "" for other URLs. It returns ErrNotEncrypted or ErrNotVerified if
// the URL's settings allow a connection that is not encrypted or whose certificate is not verified.
func Server(address string) (host string, tls error) {
	if strings.HasPrefix(address, "sqlite:") {
		return "", nil
	}
	cfg, err := pgxpool.ParseConfig(address)
	switch {
	case err != nil:
		return "", nil //nolint:nilerr // Open reports it
	case cfg.ConnConfig.TLSConfig == nil ||
		slices.ContainsFunc(cfg.ConnConfig.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil }):
		return cfg.ConnConfig.Host, ErrNotEncrypted
	case cfg.ConnConfig.TLSConfig.InsecureSkipVerify && cfg.ConnConfig.TLSConfig.VerifyPeerCertificate == nil:
		return cfg.ConnConfig.Host, ErrNotVerified
	}
	return cfg.ConnConfig.Host, nil
}

func (d *DB) openPostgres(ctx context.Context) error {
	d.engine = Postgres
	cfg, err := pgxpool.ParseConfig(d.opt.URL)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	cfg.MaxConns = cmp.Or(d.opt.Connections, 16)
	cfg.ConnConfig.RuntimeParams["application_name"] = "stipend"
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "3s"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "60s"
	// If this machine or its network fails during a commit, the server releases the transaction's locks after half a
	// minute instead of two hours.
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_idle"] = "15"
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_interval"] = "5"
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_count"] = "3"
	// A machine that has failed answers nothing. Without these limits, attempts to reach it would occupy the pool for
	// minutes after another machine has taken over, and each idle connection to it would delay a caller by
	// connectTimeout.
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	cfg.PingTimeout = pingTimeout
	cfg.ConnConfig.Tracer = d.opt.Tracer
	d.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return err
}

// checkServer returns an error if the server is read-only.
func (d *DB) checkServer(ctx context.Context) error {
	var readOnly string
	if err := d.pool.QueryRow(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if readOnly == "on" {
		return errors.New("this PostgreSQL server is read-only, perhaps a standby; connect to the primary " +
			"(with several hosts in the URL, add target_session_attrs=read-write)")
	}
	var text string
	d.hasTimelines = d.pool.QueryRow(ctx, timeline).Scan(&text) == nil
	return nil
}

// Engine returns the kind of database.
func (d *DB) Engine() Engine { return d.engine }

// Close commits the pending writes and closes the connections. Later writes fail.
func (d *DB) Close() error {
	for _, p := range d.pools {
		_ = p.Close() // closing a PostgreSQL pool never fails
	}
	d.stopping.Do(func() { close(d.stop) })
	d.running.Wait()
	if d.engine == Postgres {
		d.pool.Close()
		return nil
	}
	return errors.Join(d.writeConn.close(), d.readers.close(), d.writer.Close())
}

// Ping returns an error if the database does not answer.
func (d *DB) Ping(ctx context.Context) error {
	return d.Read(ctx, func(ctx context.Context, tx *Tx) error {
		var one int64
		return tx.QueryRow(ctx, "SELECT 1").Scan(&one)
	})
}

// Skew returns how far the database server's clock is ahead of this process's clock, or behind if negative. It is
// accurate to the duration of a round trip. It returns zero for SQLite.
func (d *DB) Skew(ctx context.Context) (time.Duration, error) {
	if d.engine != Postgres {
		return 0, nil
	}
	var micros int64
	asked := d.opt.Clock()
	const serverTime = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
	if err := d.pool.QueryRow(ctx, serverTime).Scan(&micros); err != nil {
		return 0, classify(err)
	}
	took := d.opt.Clock().Sub(asked)
	return Time(micros).Sub(asked.Add(took / 2)), nil
}

// Now returns the current time of the database's clock, which is the time of a transaction that starts now.
func (d *DB) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := d.Read(ctx, func(_ context.Context, tx *Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// beginWrite begins a transaction that writes. It names the isolation level so that the server's
// default_transaction_isolation has no effect: each statement must see everything that was committed before it, for
// example while it waited for a lock.
const beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"

const beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// Read executes fn in a read-only transaction, which sees one snapshot of the committed rows.
func (d *DB) Read(ctx context.Context, fn func(context.Context, *Tx) error) error {
	if d.engine == Postgres {
		p, err := beginPostgres(ctx, d.pool, beginSnapshot)
		if err != nil {
			return classify(err)
		}
		defer p.end(ctx)
		return d.readWith(ctx, p, fn)
	}
	r, err := d.readers.begin(ctx)
	if err != nil {
		return classify(err)
	}
	defer d.readers.end(r)
	return d.readWith(ctx, r, fn)
}

func (d *DB) readWith(ctx context.Context, c conn, fn func(context.Context, *Tx) error) error {
	tx := &Tx{db: d, conn: c, readOnly: true}
	if err := tx.start(ctx, nil); err != nil {
		return classify(err)
	}
	return classify(fn(ctx, tx))
}

// Micros converts a time to the stored form: microseconds since 1970.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time converts a stored time, in microseconds since 1970, to a time.Time in UTC.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
