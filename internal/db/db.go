// Package db is the one door to the database: SQLite, embedded, or PostgreSQL.
//
// It owns connections, transactions, the instant and the ids of a transaction, group commit, retries and
// migrations. It knows no business and no table but settings and history. All SQL is one text for both
// engines, with $1 binds.
//
// Writes of several callers share a commit (see [DB.Write]), so what a write function does must be undone by
// a rollback: it may run more than once. Correctness rests on guarded statements and unique constraints at
// READ COMMITTED, never on who else is in the batch.
package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	// The SQLite engine, in pure Go.
	_ "modernc.org/sqlite"
)

// Engine is the kind of database behind a DB.
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

// Options says which database to open and how. Its zero value but for URL is what production uses.
type Options struct {
	// URL is "sqlite:/path/to/file" or a PostgreSQL URL.
	URL string
	// Clock gives the instant of each transaction; nil is the system's clock.
	Clock func() time.Time
	// AdjustableClock adds settings.clock_offset (microseconds) to the clock, so that a sandbox can be
	// moved through time by every process that shares its database.
	AdjustableClock bool
	// Committers is how many transactions commit at once. SQLite has one; PostgreSQL 4 when 0.
	Committers int
	// Connections bounds the PostgreSQL pool; 16 when 0.
	Connections int32
	// Patience is how long after it came a write may begin on PostgreSQL; later it is refused with ErrRetryLater. 0 is for ever.
	Patience time.Duration
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	engine    Engine
	opt       Options
	writer    *sql.DB // SQLite: the committer's connection, and one for migrations
	readers   readers // SQLite: many
	pool      *pgxpool.Pool
	queue     chan *request
	busy      atomic.Int64 // committers at work
	underWay  atomic.Int64 // writes that wait for their commit
	filling   sync.Mutex   // held by the committer that fills its batch
	crowd     int64        // how many writes were under way lately, more and more forgotten with each batch; under filling
	lately    atomic.Int64 // how long a committer works, in nanoseconds
	stop      chan struct{}
	stopping  sync.Once
	running   sync.WaitGroup
	listeners *listeners
	memo      *sync.Map // see Tx.Memo
	beside    []*DB     // closed with this one
	timelines bool      // the server counts how often it was replaced; see Replaced

	writerConn *sql.Conn
	statements statementCache
}

// Open connects. It does not migrate.
func Open(ctx context.Context, opt Options) (*DB, error) {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	d := &DB{opt: opt, queue: make(chan *request, 4096), stop: make(chan struct{}), listeners: &listeners{}, memo: &sync.Map{}}
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

func (d *DB) startCommitters() {
	committers := 1
	if d.engine == Postgres {
		committers = cmp.Or(d.opt.Committers, 4)
	}
	for range committers {
		d.running.Go(d.commitLoop)
	}
}

// Beside is the same database over connections and committers of its own, on PostgreSQL: whoever takes all of one side's, or waits there
// for a lock, takes none of the other's. Both sides hear of each other's commits (OnNotice) and remember the same (Tx.Memo), and Close closes
// both. On SQLite it is d itself: one transaction writes at a time there, and none that reads waits for it.
func (d *DB) Beside(ctx context.Context, opt Options) (*DB, error) {
	if d.engine == SQLite {
		return d, nil
	}
	opt.URL, opt.Clock, opt.AdjustableClock = d.opt.URL, d.opt.Clock, d.opt.AdjustableClock
	b := &DB{opt: opt, queue: make(chan *request, cap(d.queue)), stop: make(chan struct{}), listeners: d.listeners, memo: d.memo, timelines: d.timelines}
	if err := b.openPostgres(ctx); err != nil {
		return nil, err
	}
	b.startCommitters()
	d.beside = append(d.beside, b)
	return b, nil
}

func (d *DB) openSQLite(ctx context.Context, path string) error {
	path = strings.TrimPrefix(path, "//")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	d.engine = SQLite
	open := func(pragmas ...string) (*sql.DB, error) {
		q := url.Values{"_pragma": append(pragmas, "busy_timeout(10000)", "foreign_keys(1)", "synchronous(FULL)", "temp_store(MEMORY)")}
		return sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	}
	var err error
	// The log is moved into the file when it has 32 MiB: commits of many companies write as much in a few dozen, to the same
	// pages again and again.
	if d.writer, err = open("journal_mode(WAL)", "wal_autocheckpoint(8000)", "cache_size(-65536)"); err != nil {
		return err
	}
	d.writer.SetMaxOpenConns(2)
	if d.writerConn, err = d.writer.Conn(ctx); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	d.statements = statementCache{}
	// What a reader has in its cache it forgets when somebody else commits. It needs no more than a transaction reads twice.
	from, err := open("query_only(1)", "cache_size(-8192)")
	if err != nil {
		return err
	}
	d.readers.open(from)
	return nil
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
	// A process whose machine or network is gone in the middle of a commit holds its locks for half a minute, not for two hours.
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_idle"] = "15"
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_interval"] = "5"
	cfg.ConnConfig.RuntimeParams["tcp_keepalives_count"] = "3"
	d.pool, err = pgxpool.NewWithConfig(ctx, cfg)
	return err
}

// checkServer refuses a server that cannot be written to.
func (d *DB) checkServer(ctx context.Context) error {
	var readOnly string
	if err := d.pool.QueryRow(ctx, "SHOW transaction_read_only").Scan(&readOnly); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if readOnly == "on" {
		return errors.New("this PostgreSQL server is read-only, a standby perhaps; connect to the primary (with several hosts in the URL, add target_session_attrs=read-write)")
	}
	var text string
	d.timelines = d.pool.QueryRow(ctx, timeline).Scan(&text) == nil
	return nil
}

// Engine says which database this is.
func (d *DB) Engine() Engine { return d.engine }

// Close lets the writes under way commit and closes the connections. Later writes fail.
func (d *DB) Close() error {
	for _, b := range d.beside {
		_ = b.Close() // closing a pool never fails
	}
	d.stopping.Do(func() { close(d.stop) })
	d.running.Wait()
	if d.engine == Postgres {
		d.pool.Close()
		return nil
	}
	return errors.Join(d.statements.close(), d.writerConn.Close(), d.readers.close(), d.writer.Close())
}

// Ping says whether the database answers.
func (d *DB) Ping(ctx context.Context) error {
	return d.Read(ctx, func(ctx context.Context, tx *Tx) error {
		var one int64
		return tx.QueryRow(ctx, "SELECT 1").Scan(&one)
	})
}

// Skew is by how much the database server's clock is ahead of this process's, give or take the time that asking takes; below
// zero it is behind. An embedded database has no other clock.
func (d *DB) Skew(ctx context.Context) (time.Duration, error) {
	if d.engine != Postgres {
		return 0, nil
	}
	var micros int64
	asked := d.opt.Clock()
	if err := d.pool.QueryRow(ctx, "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&micros); err != nil {
		return 0, classify(err)
	}
	took := d.opt.Clock().Sub(asked)
	return Time(micros).Sub(asked.Add(took / 2)), nil
}

// Now is the instant that a transaction started now would have.
func (d *DB) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := d.Read(ctx, func(_ context.Context, tx *Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// Read runs fn in a read-only transaction that sees one snapshot.
func (d *DB) Read(ctx context.Context, fn func(context.Context, *Tx) error) error {
	if d.engine == Postgres {
		p, err := beginPostgres(ctx, d.pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
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
	return d.readWith(ctx, sqliteConn{prepared{r.conn, r.statements}}, fn)
}

func (d *DB) readWith(ctx context.Context, c conn, fn func(context.Context, *Tx) error) error {
	tx := &Tx{db: d, conn: c, readOnly: true}
	if err := tx.start(ctx, nil); err != nil {
		return classify(err)
	}
	return classify(fn(ctx, tx))
}

// Micros is how an instant is stored.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time reads a stored instant.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
