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
	maxBatch     = 64               // functions that share a commit
	maxAttempts  = 6                // of one function, before its caller gets ErrRetryLater
	maxConflicts = 20               // attempts that end in a conflict with a committed transaction
	maxLockWaits = 2                // attempts that end with a lock timeout
	batchTimeout = 60 * time.Second // of a transaction
)

// maxConflictPause bounds the pause after a conflict. The other transaction has committed, so there is nothing to wait
// for but further ones.
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

// panicked is a panic of a write function, which Write repeats in its caller's goroutine.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// Write executes fn in a transaction and commits it. Concurrent calls share a transaction: one commit, one fsync, and
// one statement for the rows that they add to the same [Group].
//
// If fn returns an error, its changes are rolled back and Write returns the error. If a shared transaction fails,
// each of its functions runs again in a transaction of its own, so that one function cannot fail another.
// Serialization failures, deadlocks, lost connections, unique violations and [ErrConflict] are retried a few times, so
// that fn sees what the concurrent transaction has committed. Then Write returns ErrConflict or [ErrRetryLater]. If
// the connection is lost during the commit, the outcome is unknown, so Write returns ErrRetryLater and does not run fn
// again. Canceling ctx has no effect once fn has started.
//
// Values that fn gets from a [Loader] can be passed as prefetch; they are read together with those of the other
// functions.
func (d *DB) Write(ctx context.Context, fn func(context.Context, *Tx) error, prefetch ...Prefetch) error {
	if err := ctx.Err(); err != nil {
		return err // a select with two ready cases would choose one at random
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
		default: // it was queued after the last committer had stopped
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

// next waits for a request and returns it with others that are queued, at most maxBatch. It returns none when the
// database is closed and the queue is empty. One committer fills its batch at a time; otherwise one would take nearly
// all requests and the others would commit almost nothing.
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
	gatherLoad = 4                    // the least number of calls in progress at which a committer waits
	gathered   = 12                   // requests that are enough for a batch
	minGather  = 2 * time.Millisecond // the bounds of the wait
	maxGather  = 6 * time.Millisecond
)

// gather adds requests to a batch while other committers execute theirs: until it has three quarters of the calls in
// progress or gathered, but not longer than a batch takes on average. Callers whose request was just committed are
// about to send the next one, and a commit of many costs little more than a commit of one. Under low load it does not
// wait, because waiting would cost more than sharing a commit saves.
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
		case <-d.executed: // checks again whether a committer is executing
		case <-limit.C:
			return batch
		}
	}
	return batch
}

// execute executes a batch: in one transaction, or each function in its own if that fails.
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

// abandoned returns an error if the request's context is done or it has waited longer than Options.QueueTimeout.
func (d *DB) abandoned(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if d.opt.QueueTimeout > 0 && time.Since(r.queued) > d.opt.QueueTimeout {
		return &unavailable{ErrRetryLater, errQueued}
	}
	return nil
}

// executeAlone executes one function in a transaction of its own until it commits, returns an error of its own, or
// has had all its attempts.
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
			d.pool.Reset() // the server became a standby; new connections find the primary
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

// again reports whether a function may succeed, or return another error, when it runs again: the cause of its error is
// the server or a concurrent transaction. On SQLite only one transaction writes at a time, so a function that runs
// again finds what it found before.
func (d *DB) again(err error) bool {
	return retryable(err) || IsUnique(err) || d.engine == Postgres && errors.Is(err, ErrConflict)
}

// attempt executes functions in one transaction. If it returns an error, nothing was committed, and the functions of
// a batch must be executed one by one. Functions that returned an error before they changed rows are left out; their
// requests have the errors.
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
		// The function gets its caller's values (request ID, trace) but not its cancellation.
		fctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), batchTimeout)
		r.err = runRecovered(fctx, tx, r.fn)
		stop()
		switch {
		case tx.failed != nil:
			return cmp.Or(r.err, tx.failed)
		case r.err == nil:
			written = true
		case tx.execs != tx.began || !isFault(r.err) || d.again(r.err) || len(batch) == 1:
			return r.err // it changed rows, a statement failed, or it must run again
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
		// The transaction may be committed, so the functions must not run again. Callers repeat their requests, which have
		// idempotency keys.
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

// begin begins a transaction. The caller must call end, which rolls back a transaction that was not committed.
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

// listeners are the functions registered by OnNotice, by topic.
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

// WithNotice returns err as an error after which the functions of [DB.OnNotice] are called with the topic, although
// its transaction is rolled back.
func WithNotice(err error, topic string) error { return noticed{err, topic} }

type noticed struct {
	error
	topic string
}

func (n noticed) Unwrap() error { return n.error }

// OnNotice registers f to be called after each commit of a transaction that called [Tx.Notify] with the topic, and
// after each error of [WithNotice] with it, before its Write returns. f must not block.
func (d *DB) OnNotice(topic string, f func()) {
	d.listeners.mu.Lock()
	defer d.listeners.mu.Unlock()
	if d.listeners.byTopic == nil {
		d.listeners.byTopic = map[string][]func(){}
	}
	d.listeners.byTopic[topic] = append(d.listeners.byTopic[topic], f)
}
