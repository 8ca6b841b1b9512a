package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"

	"github.com/stipend/stipend/internal/apierr"
)

// What a caller is told when the database cannot take the write now.
var (
	ErrRetryLater = apierr.New(apierr.Unavailable, "retry_later", "The service is busy. Repeat the same request, with the same Idempotency-Key, in a few seconds.")
	// ErrConflict means that a guarded statement changed no row: another transaction has changed the resource since it was read.
	ErrConflict = apierr.New(apierr.Unavailable, "retry_later", "The resource was modified concurrently. Retry.")
	ErrStorage  = apierr.New(apierr.Unavailable, "storage_unavailable", "The service cannot store anything at the moment. Nothing was changed. Repeat the request later.")
)

const (
	maxBatch     = 64               // functions that share one commit
	maxAttempts  = 6                // runs of one function before its caller is sent away
	maxLockWaits = 2                // runs of one function that each waited for a lock in vain
	batchLimit   = 60 * time.Second // a batch that takes longer is given up
)

type request struct {
	ctx   context.Context
	came  time.Time
	fn    func(context.Context, *Tx) error
	ahead []Ahead
	err   error
	done  chan struct{}
}

// panicked carries a panic of a write function back to its own caller.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// Write runs fn in a transaction and commits it, together with other writes that wait at the same time: one
// commit, one fsync, and one statement for what they deferred to the same group.
//
// When fn returns an error, what it did is undone and the error is returned. When a batch fails, its functions
// are run again one by one, so a bad one never spoils its neighbours. Serialization failures, deadlocks, lost
// connections and unique violations found at the commit are retried a few times, then ErrRetryLater. A connection lost
// during the commit itself is ErrRetryLater at once: what became of it is unknown, so fn is not run again. The caller's cancellation is
// heeded until fn starts, not after: a commit is never abandoned half-way.
//
// What fn will look up may be said ahead: then it is read together with what the others want.
func (d *DB) Write(ctx context.Context, fn func(context.Context, *Tx) error, ahead ...Ahead) error {
	d.underWay.Add(1)
	defer d.underWay.Add(-1)
	r := &request{ctx: ctx, came: time.Now(), fn: fn, ahead: ahead, done: make(chan struct{})}
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stop:
		return ErrRetryLater
	}
	select {
	case <-r.done:
	case <-d.stop:
		d.running.Wait()
		select {
		case <-r.done:
		default: // it came in after the last committer had left
			return ErrRetryLater
		}
	}
	var p *panicked
	if errors.As(r.err, &p) {
		panic(p)
	}
	return classify(r.err)
}

func (d *DB) commitLoop() {
	for {
		batch := d.next()
		if len(batch) == 0 {
			return
		}
		d.serve(batch)
		d.busy.Add(-1)
	}
}

// next waits for a write and takes all that wait with it, up to maxBatch; none when the database is closed and nothing waits any more.
// One committer does so at a time: of several at once one would get nearly all of what they waited for, and the others a commit for
// hardly anything.
func (d *DB) next() (batch []*request) {
	d.filling.Lock()
	defer d.filling.Unlock()
	select {
	case r := <-d.queue:
		batch = append(batch, r)
	case <-d.stop:
	}
	if len(batch) > 0 {
		d.gather()
	}
	for len(batch) < maxBatch {
		select {
		case r := <-d.queue:
			batch = append(batch, r)
			continue
		default:
		}
		break
	}
	if len(batch) > 0 {
		d.busy.Add(1)
	}
	return batch
}

// A committer that starts while others are at work lets more writes come in first, for as long as a commit has lately taken and no
// longer than gatherMost: those whom the last commit has answered are about to write again, and one commit for many costs little
// more than one for few. Where few writes are under way, and were lately, they would lose more by waiting than they gain by sharing.
const (
	gatherLeast = 2 * time.Millisecond
	gatherMost  = 6 * time.Millisecond
	gatherStep  = 200 * time.Microsecond
	gatherFrom  = 16 // writes under way, or nearly as many some commits ago
	gathered    = 12 // writes that are worth a commit of their own, while another is under way
)

func (d *DB) gather() {
	d.crowd = max(d.underWay.Load(), d.crowd*7/8)
	for waited, limit := time.Duration(0), min(max(gatherLeast, time.Duration(d.lately.Load())), gatherMost); waited < limit && d.busy.Load() > 0 &&
		len(d.queue) < gathered && max(d.underWay.Load(), d.crowd) >= gatherFrom; waited += gatherStep {
		time.Sleep(gatherStep)
	}
}

// note remembers how long commits take, the last few most of all.
func (d *DB) note(took time.Duration) {
	was := d.lately.Load()
	d.lately.Store(was + (int64(took)-was)/4)
}

// serve runs a batch.
func (d *DB) serve(batch []*request) {
	began := time.Now()
	defer func() { d.note(time.Since(began)) }()
	live := batch[:0]
	for _, r := range batch {
		if r.err = d.givenUp(r); r.err != nil {
			close(r.done)
			continue
		}
		live = append(live, r)
	}
	if len(live) > 1 && d.attempt(live) == nil {
		for _, r := range live {
			close(r.done)
		}
		return
	}
	for _, r := range live {
		if r.err = d.givenUp(r); r.err == nil {
			d.alone(r)
		}
		close(r.done)
	}
}

// givenUp says why a write is not begun any more: its caller has left, or has waited for as long as anybody may.
func (d *DB) givenUp(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if d.opt.Patience > 0 && time.Since(r.came) > d.opt.Patience {
		return fmt.Errorf("%w (its turn to write did not come)", ErrRetryLater)
	}
	return nil
}

// alone runs one function until it commits, is refused, or has been tried often enough.
func (d *DB) alone(r *request) {
	for try := 1; ; try++ {
		err := d.attempt([]*request{r})
		if err == nil || r.err != nil && !retryable(r.err) && !IsUnique(r.err) {
			return
		}
		if r.err == nil {
			r.err = err
		}
		if !retryable(r.err) && !IsUnique(r.err) {
			return
		}
		if isReadOnly(r.err) {
			d.pool.Reset() // the server became a standby; the primary is elsewhere
		}
		if try == maxAttempts || isLockTimeout(r.err) && (try == maxLockWaits || d.givenUp(r) != nil) {
			if retryable(r.err) {
				r.err = fmt.Errorf("%w (%w)", ErrRetryLater, r.err)
			}
			return
		}
		time.Sleep(rand.N(5 * time.Millisecond << try)) //nolint:gosec // jitter, not a secret
	}
}

// attempt runs functions in one transaction. An error means that nothing was committed and, for a batch, that
// each function has to run alone; the errors of functions that were refused cleanly are in their requests.
func (d *DB) attempt(batch []*request) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchLimit)
	defer cancel()
	c, commit, end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	tx := &Tx{db: d, conn: c}
	var ahead []Ahead
	for _, r := range batch {
		ahead = append(ahead, r.ahead...)
	}
	if err := tx.start(ctx, ahead); err != nil {
		return err
	}
	written := false
	for _, r := range batch {
		r.err = nil
		mark, execs := tx.mark(), tx.execs
		tx.began = execs
		// The function keeps its caller's values (request id, trace) but not its cancellation.
		fctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), batchLimit)
		r.err = runSafely(fctx, tx, r.fn)
		stop()
		if r.err == nil {
			written = true
			continue
		}
		if tx.execs != execs || !isRefusal(r.err) || len(batch) == 1 {
			return r.err // it left traces, or the transaction is broken
		}
		tx.rewind(mark)
	}
	if !written {
		return nil
	}
	if err := tx.finish(ctx); err != nil {
		return err
	}
	err = commit()
	if err != nil && !unclear(err) {
		return err
	}
	d.listeners.tell(tx.notices)
	if err != nil {
		// It may be committed. Running anything again could do it twice; the callers know better, by their keys.
		for _, r := range batch {
			if r.err == nil {
				r.err = fmt.Errorf("%w (%w)", ErrRetryLater, err)
			}
		}
	}
	return nil
}

// unclear says that a commit that failed may have happened: the connection was lost before its answer.
func unclear(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "57P0") || strings.HasPrefix(pg.Code, "08")
	}
	var lite *sqlite.Error
	return !errors.As(err, &lite) && !pgconn.SafeToRetry(err)
}

// isRefusal says that a function ended by its own rule, not by a statement that failed under it.
func isRefusal(err error) bool {
	_, ok := apierr.As(err)
	return ok
}

func runSafely(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return fn(ctx, tx)
}

// begin starts a transaction. Its end is due whatever happens, and undoes what is not committed.
func (d *DB) begin(ctx context.Context) (c conn, commit func() error, end func(), err error) {
	if d.engine == Postgres {
		p, err := beginPostgres(ctx, d.pool, "BEGIN")
		if err != nil {
			return nil, nil, nil, err
		}
		return p, func() error { return p.commit(ctx) }, func() { p.end(ctx) }, nil
	}
	sc := d.writerConn
	if _, err := sc.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, nil, nil, err
	}
	ended := false
	finish := func(how string) error {
		if ended {
			return nil
		}
		ended = true
		_, err := sc.ExecContext(context.WithoutCancel(ctx), how)
		if err != nil && how == "COMMIT" {
			_, _ = sc.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
		return err
	}
	return sqliteConn{prepared{sc, d.statements}}, func() error { return finish("COMMIT") }, func() { _ = finish("ROLLBACK") }, nil
}

// statementCache keeps the statements of the writer's one connection prepared: parsing a small statement
// costs more than running it. Only the committer uses it, so it needs no lock.
type statementCache map[string]*sql.Stmt

const maxStatements = 500

// close is due before the connection closes: package sql leaves the statements of a connection to whoever prepared them, and while one
// is left SQLite keeps the connection, with its files and its memory.
func (c statementCache) close() (err error) {
	for _, s := range c {
		err = errors.Join(err, s.Close())
	}
	clear(c)
	return err
}

// prepared runs statements through the cache of their connection.
type prepared struct {
	c     *sql.Conn
	cache statementCache
}

func (p prepared) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := p.cache[query]; ok {
		return s, nil
	}
	s, err := p.c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if len(p.cache) >= maxStatements {
		for text, old := range p.cache {
			_ = old.Close()
			delete(p.cache, text)
			break
		}
	}
	p.cache[query] = s
	return s, nil
}

func (p prepared) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

func (p prepared) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := p.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// listeners are who is told what, by topic.
type listeners struct {
	mu      sync.Mutex
	byTopic map[string][]func()
}

func (l *listeners) tell(topics []string) {
	if len(topics) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, topic := range topics {
		for _, f := range l.byTopic[topic] {
			f()
		}
	}
}

// OnNotice has f called after each commit of a transaction that called Notify with the topic, before its Write returns. f must
// not block.
func (d *DB) OnNotice(topic string, f func()) {
	d.listeners.mu.Lock()
	defer d.listeners.mu.Unlock()
	if d.listeners.byTopic == nil {
		d.listeners.byTopic = map[string][]func(){}
	}
	d.listeners.byTopic[topic] = append(d.listeners.byTopic[topic], f)
}

// IsUnique says whether an error is the violation of a primary key or unique index.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && (lite.Code() == 2067 || lite.Code() == 1555)
}

// IsCheck says whether an error is a CHECK that a row would have broken.
func IsCheck(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23514"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code() == 275
}

func isReadOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "25006"
}

func isLockTimeout(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "55P03"
}

// retryable says that the same transaction may well succeed when run again.
func retryable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case pg.Code == "40001", pg.Code == "40P01", pg.Code == "25006", pg.Code == "55P03",
			strings.HasPrefix(pg.Code, "57P0"), strings.HasPrefix(pg.Code, "08"):
			return true
		}
		return false
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return lite.Code()&0xff == 5 || lite.Code()&0xff == 6 // BUSY, LOCKED
	}
	var network *net.OpError // a connection that ended in the middle
	return pgconn.SafeToRetry(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network)
}

// classify turns what a client may be told about the database into a fault; the rest stays as it is.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := apierr.As(err); ok {
		return err
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "53100" || pg.Code == "53200") {
		return fmt.Errorf("%w (%w)", ErrStorage, err)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) && (lite.Code()&0xff == 13 || lite.Code()&0xff == 7) { // FULL, NOMEM
		return fmt.Errorf("%w (%w)", ErrStorage, err)
	}
	var connect *pgconn.ConnectError
	if retryable(err) || errors.As(err, &connect) {
		return fmt.Errorf("%w (%w)", ErrRetryLater, err)
	}
	return err
}
