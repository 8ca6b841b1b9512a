package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/webhook"
)

// schedule contains the pause before each attempt. The ten attempts take 75 h 35 min in total, plus jitter.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	perEndpoint   = 8    // concurrent requests to an endpoint that responds; any other endpoint gets one
	busyRequests  = 256  // if the process has this many requests in progress, each endpoint gets only one
	maxActive     = 4096 // endpoints that a process serves at the same time
	maxSnapshots  = 4    // concurrent reads of queues, limited to leave connections to other parts of the process
	batchSize     = 64   // deliveries read at once
	recordSize    = 32   // results stored at once; after a crash, deliveries without a stored result are sent again
	addSize       = 500  // events added to queues in one transaction
	claimSize     = 256  // queues leased in one transaction
	leaseDuration = time.Minute
	renewEvery    = 15 * time.Second // how often leases are renewed, in real time
	recordEvery   = 25 * time.Millisecond
	pollEvery     = 250 * time.Millisecond
	stepPause     = 10 * time.Millisecond // pause between steps, so that one step handles several notices

	// After this many failed attempts, about two and a half hours, an event no longer blocks later events of its object.
	blockingAttempts = 5

	// After more consecutive failures than this, which is the number of attempts for one event, the receiver counts as
	// down. Then a failed event always blocks later events of its object, and single requests check periodically whether
	// the receiver responds again.
	downAfter = 10
	downPause = 30 * time.Second

	firstThrottle = 5 * time.Second // first pause after status 429, 502 or 504; each further pause is twice as long
)

// noticeDue is the topic of the notice in this process that wakes the delivery loop.
const noticeDue = "webhook.due"

// Options are the parameters of a [Sender]. DB, Sealer, Env and Log are required.
type Options struct {
	DB     *db.DB
	Sealer *identity.Sealer
	Env    identity.Environment
	Policy Policy
	Log    *slog.Logger
	// Handle is called with new events, without their data, in the transaction that adds them to the queues. Each call
	// that commits covers an event exactly once. Handle may be nil.
	Handle func(context.Context, *db.Tx, []webhook.StoredEvent) error
	// Limit is the time limit of an attempt. Zero means 15 seconds.
	Limit time.Duration
	// Wall is the real clock. Signatures contain real time, even in a sandbox whose clock differs, because receivers
	// compare it with their own clocks. Nil means time.Now.
	Wall func() time.Time
	// Transport sends the requests. Nil means HTTP over TLS, to addresses that the policy permits. A simulation replaces
	// it.
	Transport http.RoundTripper
	// TLS contains the root certificates with which receivers are verified. Nil means those of the system.
	TLS *tls.Config
	// Jitter returns a duration to add to a pause, so that deliveries that failed together are not retried together. Nil
	// means a random duration of up to a tenth of the pause.
	Jitter func(time.Duration) time.Duration
	// Observe is called before each attempt. The function that it returns is called with the outcome: "succeeded", or
	// the class of the failure. A trace in the context that it returns is sent to the receiver in the traceparent
	// header. Observe may be nil.
	Observe func(context.Context) (context.Context, func(outcome string))
}

// Sender adds events to the queues of endpoints and delivers them. Several processes can run a Sender on the same
// database.
type Sender struct {
	Options
	client    *client
	wake      chan struct{}
	snapshots chan struct{} // limits the number of concurrent snapshots

	requests atomic.Int64 // number of requests in progress

	mu      sync.Mutex
	active  map[[2]string]bool // endpoints that this process serves, by company and endpoint ID
	skipped bool               // some due queues were not leased, because they are being served or too many others are
	work    sync.WaitGroup
}

// NewSender returns a sender. It returns an error if a required option is missing.
func NewSender(o Options) (*Sender, error) {
	if o.DB == nil || o.Sealer == nil || o.Env == "" || o.Log == nil {
		return nil, errors.New("delivery: a sender needs a database, a sealer, an environment and a log")
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = func(d time.Duration) time.Duration { return db.Jitter(d/10 + 1) }
	}
	s := &Sender{
		Options: o, client: newClient(o.Policy, o.Limit, o.Wall, o.TLS, o.Transport),
		wake: make(chan struct{}, 1), snapshots: make(chan struct{}, maxSnapshots), active: map[[2]string]bool{},
	}
	o.DB.OnNotice(webhook.NoticeNew, s.signal)
	o.DB.OnNotice(noticeDue, s.signal)
	return s, nil
}

func (s *Sender) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run delivers events until ctx is done, then waits for the attempts in progress.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if _, err := s.step(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("webhooks cannot be delivered; retrying", "error", err)
		}
		pause := time.After(stepPause)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
		case <-pause:
		}
	}
	s.work.Wait()
}

// Drain delivers events until nothing is due. It does not wait for other processes.
func (s *Sender) Drain(ctx context.Context) error {
	for {
		if n, err := s.Step(ctx); err != nil || n == 0 {
			return err
		}
	}
}

// Step adds new events to the queues and delivers everything that is due, but not what becomes due meanwhile. It
// returns the number of events and queues that it handled. A simulation uses it instead of [Sender.Run].
func (s *Sender) Step(ctx context.Context) (int, error) {
	n, err := s.step(ctx)
	s.work.Wait()
	return n, err
}

// step adds new events to the queues and starts to serve due queues. It returns the number of events and queues.
func (s *Sender) step(ctx context.Context) (int, error) {
	done := 0
	for ctx.Err() == nil {
		n, err := s.add(ctx)
		done += n
		if err != nil {
			return done, err
		}
		if n < addSize {
			break
		}
	}
	n, err := s.claim(ctx)
	return done + n, err
}

// add adds new events to the queues of endpoints. The transaction that emits an event does not do this, because each
// endpoint would make it slower.
func (s *Sender) add(ctx context.Context) (n int, err error) {
	found := false
	if err := s.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		found, err = webhook.Waiting(ctx, tx)
		return err
	}); err != nil || !found {
		return 0, err
	}
	err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		events, err := webhook.Next(ctx, tx, addSize)
		n = len(events)
		if err != nil || n == 0 {
			return err
		}
		if s.Handle != nil {
			if err := s.Handle(ctx, tx, events); err != nil {
				return err
			}
		}
		return enqueue(ctx, tx, events)
	})
	return n, err
}

// enqueue adds events to the queues of the endpoints that receive them.
func enqueue(ctx context.Context, tx *db.Tx, events []webhook.StoredEvent) error {
	var companies []string
	for _, ev := range events {
		companies = append(companies, ev.CompanyID)
	}
	slices.Sort(companies)
	companies = slices.Compact(companies)
	endpoints := map[string][]Endpoint{}
	connected := map[string][]Endpoint{} // endpoints of apps, by ID of the companies and users who have connected the app
	tested := map[string]Endpoint{}      // endpoints of apps of the events' own companies, for test events
	var connections webhook.Connections
	for len(companies) > 0 {
		some := companies[:min(len(companies), 100)]
		companies = companies[len(some):]
		found, err := selectEndpoints(ctx, tx, some...)
		if err != nil {
			return err
		}
		for _, e := range found {
			if e.enabled() && e.AppID == "" {
				endpoints[e.CompanyID] = append(endpoints[e.CompanyID], e)
			} else if e.enabled() {
				tested[e.ID] = e
			}
		}
		made, err := webhook.ConnectionsOf(ctx, tx, some...)
		if err != nil {
			return err
		}
		connections = append(connections, made...)
		var apps []string
		for _, c := range made {
			apps = append(apps, c.AppID)
		}
		slices.Sort(apps)
		found, err = selectAppEndpoints(ctx, tx, slices.Compact(apps)...)
		if err != nil {
			return err
		}
		for _, c := range made {
			for _, e := range found {
				if e.AppID == c.AppID && e.enabled() {
					connected[c.SourceID] = append(connected[c.SourceID], e)
				}
			}
		}
	}
	var rows [][]any
	woken := map[string]bool{}
	for _, ev := range events {
		receivers := slices.Concat(endpoints[ev.CompanyID], connected[ev.CompanyID])
		if e, ok := tested[ev.ObjectID]; ok && ev.Name == webhook.WebhookTest.Name {
			receivers = append(receivers, e)
		}
		for _, e := range receivers {
			test := ev.Name == webhook.WebhookTest.Name
			if !e.wants(ev) || e.AppID != "" && !test && !connections.Allow(e.AppID, ev) {
				continue
			}
			rows = append(rows, deliveryRow(tx, e, ev))
			if !woken[e.ID] {
				woken[e.ID] = true
				wake(tx, e.CompanyID, e.ID)
			}
		}
	}
	return insertDeliveries(ctx, tx, rows, "NOTHING") // the delivery may exist because of a redelivery
}

// queue is the queue of an endpoint that this process serves. Its fields are a copy of columns in the endpoint's row,
// which only the holder of the lease writes.
type queue struct {
	companyID, endpointID, holder string

	failures                               int64 // number of consecutive failures
	failingSince, pausedUntil, lastSuccess int64

	width int  // concurrent requests; each response raises it, up to perEndpoint, and a failure to respond sets it to 1
	lost  bool // another process has the lease, or the endpoint has been disabled or deleted
}

// claim leases due queues and starts to serve them. It returns the number of queues that it tried to lease.
func (s *Sender) claim(ctx context.Context) (int, error) {
	var keys [][2]string
	if err := s.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		keys, err = dueEndpoints(ctx, tx, claimSize)
		return err
	}); err != nil {
		return 0, err
	}
	s.mu.Lock()
	found := len(keys)
	keys = slices.DeleteFunc(keys, func(k [2]string) bool { return s.active[k] })
	keys = keys[:min(len(keys), maxActive-len(s.active))]
	s.skipped = s.skipped || len(keys) < found
	for _, k := range keys {
		s.active[k] = true
	}
	s.mu.Unlock()
	if found == claimSize && len(keys) > 0 {
		s.signal() // wakes the loop again, because more queues may be due
	}
	if len(keys) == 0 {
		return 0, nil
	}
	taken := make([]bool, len(keys))
	queues := make([]*queue, len(keys))
	for i, k := range keys {
		queues[i] = &queue{companyID: k[0], endpointID: k[1], holder: rand.Text(), width: 1}
	}
	err := s.DB.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		for i, q := range queues {
			claim(tx, q.companyID, q.endpointID, q.holder, leaseDuration, &taken[i])
		}
		return nil
	})
	for i, q := range queues {
		if err != nil || !taken[i] {
			s.drop(q)
			continue
		}
		s.work.Go(func() {
			defer s.drop(q)
			s.serve(db.WithLabel(ctx, q.endpointID), q)
		})
	}
	return len(keys), err
}

// drop removes a queue from those that this process serves.
func (s *Sender) drop(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, [2]string{q.companyID, q.endpointID})
	if s.skipped {
		s.skipped = false
		s.signal()
	}
}

// snapshot is the state of a queue as read by one transaction.
type snapshot struct {
	now       time.Time
	endpoint  Endpoint
	secrets   []string
	chains    [][]due         // the due deliveries of each object, in order
	ended     []due           // due deliveries of events of companies and users who have disconnected the app
	postponed map[int64]int64 // next attempt, by position, of deliveries that wait for an earlier one
}

// serve serves a queue until nothing is due or another process has leased the queue. While the database is not
// available, serve retries with growing pauses instead of giving up, because deliveries without a stored result would
// be sent again.
func (s *Sender) serve(ctx context.Context, q *queue) {
	for pause := time.Second; ; pause = min(2*pause, leaseDuration) {
		err := s.deliverDue(ctx, q)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.Log.Warn("a webhook queue is retried", "endpoint_id", q.endpointID, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause + s.Jitter(pause)):
		}
	}
}

// deliverDue delivers everything that is due, then releases the queue.
func (s *Sender) deliverDue(ctx context.Context, q *queue) error {
	for {
		l, err := s.read(ctx, q)
		if err != nil || q.lost {
			return err
		}
		if len(l.ended) > 0 && ctx.Err() == nil {
			if err := s.DB.Write(ctx, func(_ context.Context, tx *db.Tx) error {
				cancelEnded(tx, q, l.ended)
				return nil
			}); err != nil {
				return err
			}
			continue
		}
		if len(l.chains) == 0 && len(l.postponed) == 0 || ctx.Err() != nil || q.pausedUntil > db.Micros(l.now) {
			released, err := s.release(context.WithoutCancel(ctx), q, l.endpoint.generation, ctx.Err() != nil)
			if err != nil || released {
				return err
			}
			continue // a delivery was added after the snapshot, so the queue is read again
		}
		if released, err := s.deliver(ctx, q, l); err != nil || released || q.lost {
			return err
		}
	}
}

func (s *Sender) read(ctx context.Context, q *queue) (l snapshot, err error) {
	s.snapshots <- struct{}{}
	defer func() { <-s.snapshots }()
	// A stopped sender still has to release its queues, so the read is not canceled.
	err = s.DB.Read(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		l = snapshot{now: tx.Now(), postponed: map[int64]int64{}}
		l.endpoint, err = selectEndpoint(ctx, tx, q.companyID, q.endpointID)
		if err != nil && !errors.Is(err, apierr.NotFoundErr) {
			return err
		}
		e := l.endpoint
		if q.lost = err != nil || e.holder != q.holder || !e.enabled(); q.lost {
			return nil
		}
		q.failures, q.failingSince, q.pausedUntil = e.failures, e.failingSince, e.pausedUntil
		if !e.LastSuccess.IsZero() {
			q.lastSuccess = db.Micros(e.LastSuccess)
		}
		if q.pausedUntil > db.Micros(l.now) {
			return nil
		}
		var dues []due
		if dues, l.ended, err = dueDeliveries(ctx, tx, e, batchSize); err != nil || len(dues) == 0 {
			return err
		}
		if l.secrets, err = e.secrets(s.Sealer, l.now); err != nil {
			return err
		}
		if err = l.order(ctx, tx, q, dues); q.failures > 0 {
			l.chains = l.chains[:min(len(l.chains), 1)] // after a failure, only one object at a time
		}
		return err
	})
	return l, err
}

// blocker is a pending delivery that is not in a snapshot and blocks later events of its object. It waits for its
// next attempt after a failure, waits for another such delivery, or is due but did not fit into the snapshot.
type blocker struct{ position, nextAt int64 }

// order groups due deliveries by object, sorts them in the order of the events, and postpones deliveries that must
// wait for an earlier event.
func (l *snapshot) order(ctx context.Context, tx *db.Tx, q *queue, dues []due) error {
	slices.SortFunc(dues, func(a, b due) int { return int(a.position - b.position) })
	var objects []string
	chains := map[string][]due{}
	for _, d := range dues {
		if chains[d.ObjectID] == nil {
			objects = append(objects, d.ObjectID)
		}
		chains[d.ObjectID] = append(chains[d.ObjectID], d)
	}
	blocking := int64(blockingAttempts)
	if q.failures > downAfter {
		blocking = math.MaxInt64
	}
	first, err := blockers(ctx, tx, q, chains, blocking)
	if err != nil {
		return err
	}
	for _, object := range objects {
		chain := chains[object]
		if b, blocked := first[object]; blocked {
			for i, d := range chain {
				if d.position > b.position {
					for _, later := range chain[i:] {
						l.postponed[later.position] = b.nextAt
					}
					chain = chain[:i]
					break
				}
			}
		}
		if len(chain) > 0 {
			l.chains = append(l.chains, chain)
		}
	}
	return nil
}

// release releases the lease and reports whether it did so. It does not release the lease if a delivery was added
// since the snapshot, or if a delivery is due and force is false.
func (s *Sender) release(ctx context.Context, q *queue, generation int64, force bool) (released bool, err error) {
	err = s.DB.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		release(tx, q, generation, force, &released)
		return nil
	})
	return released, err
}

// result is the result of an attempt to deliver an event.
type result struct {
	due
	response
	url string
}

// deliver sends the due deliveries of a snapshot and stores the results in batches. After a failure it sends no
// further deliveries of that object. It starts no request after a response that asks for a pause, or while the
// receiver is down. If nothing else is due, storing the last batch also releases the queue.
func (s *Sender) deliver(ctx context.Context, q *queue, l snapshot) (released bool, err error) {
	results := make(chan result, batchSize) // buffered, so that workers continue while results are stored
	chains := make(chan []due, len(l.chains))
	for _, chain := range l.chains {
		chains <- chain
	}
	close(chains)
	var paused sync.Once
	stop := make(chan struct{})
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return ctx.Err() != nil
		}
	}
	var failures atomic.Int64 // number of consecutive failures
	failures.Store(q.failures)
	c := workers{sender: s, width: q.width}
	c.work = func() {
		for chain := range chains {
			for _, d := range chain {
				if stopped() {
					return
				}
				r := s.attempt(context.WithoutCancel(ctx), l, d)
				results <- result{d, r, l.endpoint.URL}
				if r.failure == "" {
					failures.Store(0)
					c.grow(len(chains))
					continue
				}
				if failures.Add(1) > downAfter || r.asksForPause() || r.status == 410 {
					paused.Do(func() { close(stop) })
				}
				if r.status == 0 {
					c.shrink()
				}
				break
			}
			if c.surplus() {
				return
			}
		}
	}
	c.start(len(l.chains))
	go func() {
		c.running.Wait()
		close(results)
	}()

	postponed := l.postponed
	var unstored []result
	flush := time.NewTimer(recordEvery) // active while there are results to store
	flush.Stop()
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	write := func(last bool) {
		if err == nil && !q.lost {
			released, err = s.record(context.WithoutCancel(ctx), q, l.endpoint.generation, unstored, postponed, last)
		}
		if err != nil || q.lost {
			paused.Do(func() { close(stop) })
		}
		unstored, postponed = nil, nil
		flush.Stop()
	}
	for {
		select {
		case r, more := <-results:
			if !more {
				q.width = c.width
				write(true)
				return released, err
			}
			switch unstored = append(unstored, r); len(unstored) {
			case 1:
				flush.Reset(recordEvery)
			case recordSize:
				write(false)
			}
		case <-flush.C:
			write(false)
		case <-renew.C:
			write(false)
		}
	}
}

// attempt sends the request of a delivery once.
func (s *Sender) attempt(ctx context.Context, l snapshot, d due) response {
	s.requests.Add(1)
	defer s.requests.Add(-1)
	end := func(string) {}
	if s.Observe != nil {
		ctx, end = s.Observe(ctx)
	}
	r := s.client.send(ctx, l.endpoint.URL, d.EventID, d.event.Body(s.Env), l.secrets)
	end(cmp.Or(r.failure, "succeeded"))
	return r
}

// workers are the goroutines that send to one endpoint. Their number grows as the endpoint responds, so that an
// endpoint that hangs uses only one connection and the memory of one request. While the process has many requests in
// progress, each endpoint has only one worker.
type workers struct {
	sender  *Sender
	work    func()
	running sync.WaitGroup

	mu    sync.Mutex
	width int // maximum number of workers
	count int // number of running workers
}

// start starts workers for a number of objects that have due deliveries.
func (w *workers) start(chains int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fill(chains)
}

func (w *workers) fill(chains int) {
	for ; chains > 0 && w.count < w.width && (w.count == 0 || w.sender.requests.Load() < busyRequests); chains-- {
		w.count++
		w.running.Go(w.work)
	}
}

// grow allows one more worker after a response, and starts workers for the remaining objects.
func (w *workers) grow(chains int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width = min(w.width+1, perEndpoint)
	w.fill(chains)
}

// shrink reduces the allowed number of workers to one, after a request without a response.
func (w *workers) shrink() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.width = 1
}

// surplus reports whether the calling worker must end, because more workers are running than are allowed.
func (w *workers) surplus() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count > w.width {
		w.count--
		return true
	}
	return false
}

// asksForPause reports whether a response requests that the sender pause.
func (r response) asksForPause() bool {
	return r.failure != "" &&
		(r.status == 429 || r.status == 502 || r.status == 504 || r.retryAfter > 0 && r.status >= 500)
}

// record stores the results of attempts and the state of the endpoint. If last is true, nothing is due, and no
// delivery was added since the snapshot's generation, record also releases the queue and reports that it did so.
func (s *Sender) record(ctx context.Context, q *queue, generation int64, results []result, postponed map[int64]int64,
	last bool) (released bool, err error) {
	before := *q
	err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		*q, released = before, false // this function may run more than once, so it restores the initial state
		now := tx.Now()
		recovered := false
		reason := ""
		for position, to := range postponed {
			postpone(tx, q, position, to)
		}
		for _, r := range results {
			if r.failure == "" {
				succeeded(tx, q, r)
				if r.Attempts > 0 {
					dueAgain(tx, q, r.ObjectID)
				}
				recovered = recovered || q.failures > downAfter
				q.failures, q.failingSince, q.pausedUntil, q.lastSuccess = 0, 0, 0, db.Micros(now)
				continue
			}
			q.failures++
			if q.failingSince == 0 {
				q.failingSince = db.Micros(now)
			}
			state, nextAt := s.afterFailure(r, now)
			failed(tx, q, r, state, nextAt)
			switch {
			case r.asksForPause():
				pause := max(r.retryAfter, firstThrottle<<min(q.failures-1, 4))
				q.pausedUntil = max(q.pausedUntil, db.Micros(now.Add(pause+s.Jitter(pause))))
			case q.failures > downAfter:
				q.pausedUntil = max(q.pausedUntil, db.Micros(now.Add(downPause+s.Jitter(downPause))))
			}
			switch {
			case r.status == 410:
				reason = reasonGone
			case reason == "" && now.Sub(db.Time(q.failingSince)) >= disableAfter:
				reason = reasonFailing
			}
		}
		if recovered && q.failures == 0 {
			retryNow(tx, q)
		}
		insertAttempts(tx, q, results)
		renewLease(tx, q, leaseDuration)
		if reason != "" && (reason != reasonFailing || q.failures > 0) {
			return s.disable(ctx, tx, q, reason)
		}
		if last {
			release(tx, q, generation, false, &released)
		}
		return nil
	})
	return released, err
}

// afterFailure returns the new state of a delivery after a failed attempt, and the time of its next attempt.
func (s *Sender) afterFailure(r result, now time.Time) (state string, nextAt int64) {
	switch tries := int(r.tries) + 1; {
	case r.failure == failBlocked:
		return Blocked, 0
	case tries >= len(schedule):
		return Failed, 0
	default:
		pause := schedule[tries] + s.Jitter(schedule[tries])
		return Pending, db.Micros(now.Add(max(pause, r.retryAfter)))
	}
}

// disable disables an endpoint whose receiver is permanently failing, and sends an email to the company.
func (s *Sender) disable(ctx context.Context, tx *db.Tx, q *queue, reason string) error {
	q.lost = true
	done, err := disable(ctx, tx, q, reason)
	if err != nil || !done {
		return err
	}
	clearLater(tx, q.companyID, q.endpointID)
	s.Log.WarnContext(ctx, "a webhook endpoint was disabled",
		"company_id", q.companyID, "endpoint_id", q.endpointID, "reason", reason)
	e, err := selectEndpoint(ctx, tx, q.companyID, q.endpointID)
	if err != nil {
		return err
	}
	if err := e.emitStatus(tx, Enabled); err != nil {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, q.companyID)
	if err != nil || !mail.Valid(company.Email) {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: company.ID, To: company.Email, Template: mail.WebhookDisabled, Language: mail.LanguageOf(company.Country),
		Data: mail.WebhookDisabledData{Company: company.Name, Endpoint: e.redactedURL(), Since: db.Time(q.failingSince)},
		Key:  e.ID + "." + strconv.FormatInt(q.failingSince, 10),
	})
}
