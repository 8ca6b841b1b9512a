package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	queueSize    = 4096
	maxBatch     = 64               // the maximum number of functions that share a commit
	maxAttempts  = 6                // attempts to execute one function before its caller receives ErrRetryLater
	maxConflicts = 20               // attempts that end in a conflict with a committed transaction
	maxLockWaits = 2                // attempts that end with a lock timeout
	batchTimeout = 60 * time.Second // the time limit of a transaction
)

// maxConflictPause is the longest pause after a conflict. It is short because the other transaction has already
// committed; a pause only avoids conflicts with further transactions.
const maxConflictPause = 20 * time.Millisecond

// request is a call of Write.
type request struct {
	ctx      context.Context
	queued   time.Time
	fn       func(context.Context, *Tx) error
	prefetch []Prefetch
	err      error
	done     chan struct{}
}

// panicked is a panic of a write function. Write panics with its value again, in the caller's goroutine.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// Write executes fn in a transaction and commits it. Concurrent calls share a transaction: one commit, one fsync, and
// one statement for the rows that they add to the same [Group].
//
// If fn returns an error, its changes are rolled back and Write returns the error. If a shared transaction fails,
// each of its functions runs again in a separate transaction, so that one function cannot make another fail.
//
// After a serialization failure, deadlock, lost connection, unique violation or [ErrConflict], Write runs fn again, a
// limited number of times, so that fn sees the changes that the concurrent transaction committed. If every attempt
// fails, Write returns ErrConflict or [ErrRetryLater]. If the connection is lost during the commit, the outcome is
// unknown, so Write returns ErrRetryLater without running fn again. Canceling ctx has no effect once fn has started.
//
// The values named by prefetch, which fn gets from a [Loader], are read together with those of the other functions.
func (d *DB) Write(ctx context.Context, fn func(context.Context, *Tx) error, prefetch ...Prefetch) error {
	if err := ctx.Err(); err != nil {
		return err // checked first, because a select with two ready cases chooses one at random
	}
	d.pending.Add(1)
	defer d.pending.Add(-1)
	r := &request{ctx: ctx, queued: time.Now(), fn: fn, prefetch: prefetch, done: make(chan struct{})}
	select {
	case d.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stop:
		return &unavailable{ErrRetryLater, errClosed}
	}
	select {
	case <-r.done:
	case <-d.stop:
		d.running.Wait()
		select {
		case <-r.done:
		default: // the request was queued after the last committer had stopped
			return &unavailable{ErrRetryLater, errClosed}
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
		d.execute(batch)
		d.committing.Add(-1)
		select {
		case d.executed <- struct{}{}:
		default:
		}
	}
}

// next waits for a request and returns it together with other queued requests, at most maxBatch. It returns no
// requests when the database is closed and the queue is empty. Only one committer fills its batch at a time;
// otherwise the first would take nearly all requests and leave almost none to the others.
func (d *DB) next() (batch []*request) {
	d.filling.Lock()
	defer d.filling.Unlock()
	select {
	case r := <-d.queue:
		if d.opt.Intercept != nil {
			_ = d.opt.Intercept(WithLabel(context.Background(), LabelWrite), Gather, func() error { return nil })
		}
		batch = d.gather(append(batch, r))
	case <-d.stop:
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
		d.committing.Add(1)
	}
	if d.opt.Intercept != nil {
		slices.SortStableFunc(batch, func(a, b *request) int { return strings.Compare(Label(a.ctx), Label(b.ctx)) })
	}
	return batch
}

const (
	gatherLoad = 4                    // the least number of calls in progress at which a committer waits for more requests
	gathered   = 12                   // the number of requests at which a batch is always large enough
	minGather  = 2 * time.Millisecond // the minimum wait
	maxGather  = 6 * time.Millisecond
)

// gather adds requests to a batch while other committers execute theirs. It stops when the batch has three quarters
// of the calls in progress, or the number gathered, and waits no longer than a batch takes on average. Waiting pays
// because callers whose requests were just committed are about to send their next ones, and a commit of many requests
// costs little more than a commit of one. Under low load gather does not wait: the wait would cost more than a shared
// commit saves.
func (d *DB) gather(batch []*request) []*request {
	d.load = max(d.pending.Load(), d.load*7/8)
	if d.load < gatherLoad {
		return batch
	}
	enough := int(min(d.load*3/4, gathered))
	limit := time.NewTimer(min(max(minGather, time.Duration(d.batchTime.Load())), maxGather))
	defer limit.Stop()
	for len(batch) < enough && d.committing.Load() > 0 {
		select {
		case r := <-d.queue:
			batch = append(batch, r)
		case <-d.executed: // then the loop checks again whether another committer is executing
		case <-limit.C:
			return batch
		}
	}
	return batch
}

// execute executes a batch in one transaction. If the transaction fails, it executes each function in a separate
// transaction.
func (d *DB) execute(batch []*request) {
	began := time.Now()
	defer func() {
		average := d.batchTime.Load()
		d.batchTime.Store(average + (int64(time.Since(began))-average)/4)
		if d.opt.ObserveBatch != nil {
			d.opt.ObserveBatch(len(batch), time.Since(began))
		}
	}()
	live := batch[:0]
	for _, r := range batch {
		if r.err = d.abandoned(r); r.err != nil {
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
		if r.err = d.abandoned(r); r.err == nil {
			d.executeAlone(r)
		}
		if n := (noticed{}); errors.As(r.err, &n) {
			d.listeners.notify([]string{n.topic})
		}
		close(r.done)
	}
}

// abandoned returns an error if the request's context is done or the request has waited longer than
// Options.QueueTimeout.
func (d *DB) abandoned(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if d.opt.QueueTimeout > 0 && time.Since(r.queued) > d.opt.QueueTimeout {
		return &unavailable{ErrRetryLater, errQueued}
	}
	return nil
}

// executeAlone executes one function in a separate transaction until the transaction commits, the function itself
// returns an error, or all attempts are used.
func (d *DB) executeAlone(r *request) {
	for try := 1; ; try++ {
		err := d.attempt([]*request{r})
		if err == nil {
			return
		}
		if r.err == nil {
			r.err = err
		}
		if !d.again(r.err) {
			return
		}
		if isReadOnly(r.err) {
			d.pool.Reset() // the server became a standby; new connections go to the primary
		}
		most, pause := maxAttempts, 5*time.Millisecond<<try
		if errors.Is(r.err, ErrConflict) {
			most, pause = maxConflicts, min(pause, maxConflictPause)
		}
		if try >= most || isLockTimeout(r.err) && (try == maxLockWaits || d.abandoned(r) != nil) {
			if retryable(r.err) {
				r.err = &unavailable{ErrRetryLater, r.err}
			}
			return
		}
		time.Sleep(Jitter(pause))
	}
}

// again reports whether running a function again may change its result, because its error was caused by the server or
// a concurrent transaction. On SQLite an ErrConflict is not repeated: only one transaction writes at a time, so the
// function would find the same rows.
func (d *DB) again(err error) bool {
	return retryable(err) || IsUnique(err) || d.engine == Postgres && errors.Is(err, ErrConflict)
}

// attempt executes functions in one transaction. If it returns an error, nothing was committed, and the functions of
// a batch must be executed one by one. A function that returned an error before it changed any row does not make
// attempt fail; its error is stored in its request.
func (d *DB) attempt(batch []*request) error {
	ctx, cancel := context.WithTimeout(WithLabel(context.Background(), LabelWrite), batchTimeout)
	defer cancel()
	c, commit, end, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	tx := &Tx{db: d, conn: c}
	var prefetch []Prefetch
	for _, r := range batch {
		prefetch = append(prefetch, r.prefetch...)
	}
	if err := tx.start(ctx, prefetch); err != nil {
		return err
	}
	written := false
	for _, r := range batch {
		r.err = nil
		tx.mark()
		// The function's context keeps the values of its caller's context (request ID, trace), but not its cancellation.
		fctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), batchTimeout)
		r.err = runRecovered(fctx, tx, r.fn)
		stop()
		switch {
		case tx.failed != nil:
			return cmp.Or(r.err, tx.failed)
		case r.err == nil:
			written = true
		case tx.execs != tx.began || !isFault(r.err) || d.again(r.err) || len(batch) == 1:
			return r.err // the function changed rows, a statement failed, or the function must run again
		default:
			tx.rewind()
		}
	}
	if !written {
		return nil
	}
	if err := tx.finish(ctx); err != nil {
		return err
	}
	err = commit()
	if err != nil && !outcomeUnknown(err) {
		return err
	}
	d.listeners.notify(tx.notices)
	if err != nil {
		// The transaction may have been committed, so the functions must not run again. Callers can safely repeat their
		// requests, which have idempotency keys.
		for _, r := range batch {
			if r.err == nil {
				r.err = &unavailable{ErrRetryLater, err}
			}
		}
	}
	return nil
}

func runRecovered(ctx context.Context, tx *Tx, fn func(context.Context, *Tx) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return fn(ctx, tx)
}

// begin begins a transaction. The caller must call end, which rolls the transaction back unless it was committed.
func (d *DB) begin(ctx context.Context) (c conn, commit func() error, end func(), err error) {
	if d.engine == Postgres {
		p, err := beginPostgres(ctx, d.pool, beginWrite)
		if err != nil {
			return nil, nil, nil, err
		}
		return p, func() error { return p.commit(ctx) }, func() { p.end(ctx) }, nil
	}
	if _, err := d.writeConn.exec(ctx, "BEGIN IMMEDIATE", nil); err != nil {
		return nil, nil, nil, err
	}
	ended := false
	finish := func(how string) error {
		if ended {
			return nil
		}
		ended = true
		_, err := d.writeConn.exec(context.WithoutCancel(ctx), how, nil)
		if err != nil && how == "COMMIT" {
			_, _ = d.writeConn.exec(context.WithoutCancel(ctx), "ROLLBACK", nil)
		}
		return err
	}
	commit = func() error { return finish("COMMIT") }
	return d.writeConn, commit, func() { _ = finish("ROLLBACK") }, nil
}

// listeners holds the functions registered with OnNotice, by topic.
type listeners struct {
	mu      sync.Mutex
	byTopic map[string][]func()
}

func (l *listeners) notify(topics []string) {
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

// WithNotice wraps err. If a write function returns the wrapped error, [DB.Write] calls the functions registered with
// [DB.OnNotice] for the topic, although the transaction is rolled back.
func WithNotice(err error, topic string) error { return noticed{err, topic} }

type noticed struct {
	error
	topic string
}

func (n noticed) Unwrap() error { return n.error }

// OnNotice registers f for a topic. [DB.Write] calls f, before it returns, after each commit of a transaction that
// called [Tx.Notify] with the topic and after each error made by [WithNotice] with the topic. The function f must not
// block.
func (d *DB) OnNotice(topic string, f func()) {
	d.listeners.mu.Lock()
	defer d.listeners.mu.Unlock()
	if d.listeners.byTopic == nil {
		d.listeners.byTopic = map[string][]func(){}
	}
	d.listeners.byTopic[topic] = append(d.listeners.byTopic[topic], f)
}
