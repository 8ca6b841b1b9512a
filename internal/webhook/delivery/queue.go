package delivery

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
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

// schedule is how long after an attempt the next one follows: ten attempts in 75 h 35 min, and what jitter adds.
var schedule = []time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	perEndpoint = 8                // requests at once to one endpoint that answers; one that does not has one
	crowd       = 256              // requests under way in all, from which on each endpoint has one
	batchSize   = 64               // deliveries that are read at once
	noteSize    = 32               // results that are written down at once; what a killed process had not written down is sent again
	addSize     = 500              // events that are added to queues in one transaction
	leaseFor    = time.Minute      // of an endpoint's queue
	renewEvery  = 15 * time.Second // by the wall's clock
	flushEvery  = 25 * time.Millisecond
	pollEvery   = 250 * time.Millisecond
	restFor     = 10 * time.Millisecond // between two steps: what comes meanwhile shares the next one
	claimSize   = 256                   // queues that are taken in one transaction
	looks       = 4                     // queues that are read at once, so that connections are left for those whom the service serves
	maxActive   = 4096                  // endpoints that one process works on at once

	// An object's later events wait for the first attempts of an earlier one that failed: for two hours and a half.
	patience = 5
	// A receiver that failed more often in a row than one event has attempts is down, not picky. Then all of an object's events
	// keep their order, and a request now and then finds out when it is up again.
	downAfter  = 10
	downPause  = 30 * time.Second
	throttling = 5 * time.Second // the first pause after 429, 502 or 504; it doubles
)

// noticeDue is the notice that a queue is to be looked at.
const noticeDue = "webhook.due"

// Options are what a sender stands on. DB, Sealer, Env and Log are required.
type Options struct {
	DB     *db.DB
	Sealer *identity.Sealer
	Env    identity.Environment
	Policy Policy
	Log    *slog.Logger
	// Limit is how long one attempt may take in all; 15 seconds when 0.
	Limit time.Duration
	// Wall is the real clock, which signatures name: a receiver compares it with its own, whatever a sandbox's clock says.
	Wall func() time.Time
	// TLS has the roots that receivers' certificates must lead to; nil is the system's.
	TLS *tls.Config
	// Jitter is added to a pause, so that what failed together does not come back together; nil is up to a tenth of it.
	Jitter func(time.Duration) time.Duration
}

// Sender adds events to queues, and delivers them. Any number of processes may run one on the same database.
type Sender struct {
	Options
	client *client
	wake   chan struct{}
	looks  chan struct{} // a place for each look under way

	underway atomic.Int64 // requests

	mu      sync.Mutex
	active  map[[2]string]bool // endpoints that this process works on
	skipped bool               // something was due and had to wait until one of them is left
	work    sync.WaitGroup
}

// NewSender makes a sender.
func NewSender(o Options) *Sender {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.Jitter == nil {
		o.Jitter = func(d time.Duration) time.Duration { return mathrand.N(d/10 + 1) } //nolint:gosec // jitter, not a secret
	}
	s := &Sender{Options: o, client: newClient(o.Policy, o.Limit, o.Wall, o.TLS), wake: make(chan struct{}, 1), looks: make(chan struct{}, looks), active: map[[2]string]bool{}}
	o.DB.OnNotice(webhook.NoticeNew, s.poke)
	o.DB.OnNotice(noticeDue, s.poke)
	return s
}

func (s *Sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run delivers until ctx ends, then lets the attempts under way end.
func (s *Sender) Run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if _, err := s.step(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("webhooks cannot be delivered", "error", err)
		}
		rest := time.After(restFor)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
		case <-rest:
		}
	}
	s.work.Wait()
}

// Drain delivers what is due now, until nothing is. Deliveries of other processes it does not wait for.
func (s *Sender) Drain(ctx context.Context) error {
	for {
		n, err := s.step(ctx)
		s.work.Wait()
		if err != nil || n == 0 {
			return err
		}
	}
}

// step adds new events to the queues and starts work on the queues that are due. It says how much it found to do.
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

// add adds new events to the queues of the endpoints that want them. It is not done by the transaction that emits: that would pay
// for each endpoint of the company.
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
		return enqueue(ctx, tx, events)
	})
	return n, err
}

// enqueue adds events to the queues of the endpoints that want them.
func enqueue(ctx context.Context, tx *db.Tx, events []webhook.StoredEvent) error {
	var companies []string
	for _, ev := range events {
		companies = append(companies, ev.CompanyID)
	}
	slices.Sort(companies)
	companies = slices.Compact(companies)
	endpoints := map[string][]Endpoint{}
	for len(companies) > 0 {
		some := companies[:min(len(companies), 100)]
		companies = companies[len(some):]
		found, err := selectEndpoints(ctx, tx, some...)
		if err != nil {
			return err
		}
		for _, e := range found {
			if e.enabled() {
				endpoints[e.CompanyID] = append(endpoints[e.CompanyID], e)
			}
		}
	}
	var rows [][]any
	awake := map[string]bool{}
	for _, ev := range events {
		for _, e := range endpoints[ev.CompanyID] {
			if !e.wants(ev) {
				continue
			}
			rows = append(rows, deliveryRow(tx, e, ev))
			if !awake[e.ID] {
				awake[e.ID] = true
				wake(tx, e.CompanyID, e.ID)
			}
		}
	}
	return addDeliveries(ctx, tx, rows)
}

// queue is one endpoint's, while this process works on it. Its figures are the endpoint's row, which only the holder writes.
type queue struct {
	companyID, endpointID, holder string

	failures                               int64 // in a row
	failingSince, pausedUntil, lastSuccess int64

	width int  // requests at once: one more with each success up to perEndpoint, and one again when there was no answer
	lost  bool // another process holds it now, or it was disabled or deleted
}

// claim starts work on queues that are due and that nobody works on.
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
		s.poke() // there may be more
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
			claim(tx, q.companyID, q.endpointID, q.holder, leaseFor, &taken[i])
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
			s.keep(ctx, q)
		})
	}
	return len(keys), err
}

func (s *Sender) drop(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, [2]string{q.companyID, q.endpointID})
	if s.skipped {
		s.skipped = false
		s.poke()
	}
}

// look is what one snapshot says of a queue.
type look struct {
	now      time.Time
	endpoint Endpoint
	secrets  []string
	chains   [][]due         // of one object each, in their order
	pushed   map[int64]int64 // position → instant: they wait for an earlier event of their object
}

// keep serves a queue to its end. What could not be read or written, because the database was busy or away, is tried again, ever
// more slowly, since a result that was not written down is sent again; whoever took the queue meanwhile goes on with it.
func (s *Sender) keep(ctx context.Context, q *queue) {
	for pause := time.Second; ; pause = min(2*pause, leaseFor) {
		err := s.serve(ctx, q)
		if err == nil || ctx.Err() != nil {
			return
		}
		s.Log.Warn("a webhook queue waits", "endpoint_id", q.endpointID, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause + s.Jitter(pause)):
		}
	}
}

// serve works on a queue until nothing is due, then leaves it.
func (s *Sender) serve(ctx context.Context, q *queue) error {
	for {
		l, err := s.look(ctx, q)
		if err != nil || q.lost {
			return err
		}
		if len(l.chains) == 0 && len(l.pushed) == 0 || ctx.Err() != nil || q.pausedUntil > db.Micros(l.now) {
			left, err := s.leave(context.WithoutCancel(ctx), q, l.endpoint.generation, ctx.Err() != nil)
			if err != nil || left {
				return err
			}
			continue // something came in between
		}
		if left, err := s.deliver(ctx, q, l); err != nil || left || q.lost {
			return err
		}
	}
}

func (s *Sender) look(ctx context.Context, q *queue) (l look, err error) {
	s.looks <- struct{}{}
	defer func() { <-s.looks }()
	// An orderly stop still leaves the queue, so it reads to the end.
	err = s.DB.Read(context.WithoutCancel(ctx), func(ctx context.Context, tx *db.Tx) error {
		l = look{now: tx.Now(), pushed: map[int64]int64{}}
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
		dues, err := dueDeliveries(ctx, tx, q.companyID, q.endpointID, batchSize)
		if err != nil || len(dues) == 0 {
			return err
		}
		if l.secrets, err = e.secrets(s.Sealer, l.now); err != nil {
			return err
		}
		if err = l.order(ctx, tx, q, dues); q.failures > 0 {
			l.chains = l.chains[:min(len(l.chains), 1)] // what did not answer well shows first that it does
		}
		return err
	})
	return l, err
}

// blocker is an earlier event of an object, which failed and waits, or is due after others.
type blocker struct{ position, tries, nextAt int64 }

// order groups deliveries by object, in the order of the events, and finds those that must wait for an earlier one.
func (l *look) order(ctx context.Context, tx *db.Tx, q *queue, dues []due) error {
	slices.SortFunc(dues, func(a, b due) int { return int(a.position - b.position) })
	var objects []string
	chains := map[string][]due{}
	now := map[int64]bool{}
	for _, d := range dues {
		now[d.position] = true
		if chains[d.ObjectID] == nil {
			objects = append(objects, d.ObjectID)
		}
		chains[d.ObjectID] = append(chains[d.ObjectID], d)
	}
	first, err := waiting(ctx, tx, q.companyID, q.endpointID, objects, now)
	if err != nil {
		return err
	}
	for _, object := range objects {
		chain := chains[object]
		if b, held := first[object]; held && (b.tries < patience || q.failures > downAfter) {
			for i, d := range chain {
				if d.position > b.position {
					for _, later := range chain[i:] {
						l.pushed[later.position] = b.nextAt
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

// leave gives the queue back. It fails when something was added since the look.
func (s *Sender) leave(ctx context.Context, q *queue, generation int64, must bool) (left bool, err error) {
	err = s.DB.Write(ctx, func(_ context.Context, tx *db.Tx) error {
		leave(tx, q, generation, must, &left)
		return nil
	})
	return left, err
}

// result is how an attempt at a delivery ended.
type result struct {
	due
	answer
	url string
}

// deliver sends what a look found and writes down how it went, in parts. A chain ends at its first failure; after an answer
// that asks for a pause, or when the receiver is down, nothing more is begun. When nothing else is due, the last part leaves the queue too.
func (s *Sender) deliver(ctx context.Context, q *queue, l look) (left bool, err error) {
	results := make(chan result, batchSize) // senders go on while results are written down
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
	var failures atomic.Int64 // in a row
	failures.Store(q.failures)
	c := crew{sender: s, width: q.width}
	c.work = func() {
		for chain := range chains {
			for _, d := range chain {
				if stopped() {
					return
				}
				a := s.attempt(context.WithoutCancel(ctx), l, d)
				results <- result{d, a, l.endpoint.URL}
				if a.fail == "" {
					failures.Store(0)
					c.answered(len(chains))
					continue
				}
				if failures.Add(1) > downAfter || pauses(a) || a.status == 410 {
					paused.Do(func() { close(stop) })
				}
				if a.status == 0 {
					c.silent()
				}
				break
			}
			if c.tooMany() {
				return
			}
		}
	}
	c.begin(len(l.chains))
	go func() {
		c.senders.Wait()
		close(results)
	}()

	pushed := l.pushed
	var some []result
	flush := time.NewTimer(flushEvery) // while there are results
	flush.Stop()
	renew := time.NewTicker(renewEvery)
	defer renew.Stop()
	write := func(last bool) {
		if err == nil && !q.lost {
			left, err = s.note(context.WithoutCancel(ctx), q, l.endpoint.generation, some, pushed, last)
		}
		if err != nil || q.lost {
			paused.Do(func() { close(stop) })
		}
		some, pushed = nil, nil
		flush.Stop()
	}
	for {
		select {
		case r, more := <-results:
			if !more {
				q.width = c.width
				write(true)
				return left, err
			}
			switch some = append(some, r); len(some) {
			case 1:
				flush.Reset(flushEvery)
			case noteSize:
				write(false)
			}
		case <-flush.C:
			write(false)
		case <-renew.C:
			write(false)
		}
	}
}

// attempt sends one delivery.
func (s *Sender) attempt(ctx context.Context, l look, d due) answer {
	s.underway.Add(1)
	defer s.underway.Add(-1)
	return s.client.send(ctx, l.endpoint.URL, d.EventID, d.event.Body(s.Env), l.secrets)
}

// crew are those who send to one endpoint: as many as it is known to answer. What hangs holds one connection and one request's
// memory, whatever waits for it. When there are many requests in all, an endpoint has one as well: more would not be faster.
type crew struct {
	sender  *Sender
	work    func()
	senders sync.WaitGroup

	mu    sync.Mutex
	width int // senders that may work
	at    int // that do
}

// begin starts the first senders, of whom each takes what nobody has taken yet.
func (c *crew) begin(chains int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grow(chains)
}

func (c *crew) grow(chains int) {
	for ; chains > 0 && c.at < c.width && (c.at == 0 || c.sender.underway.Load() < crowd); chains-- {
		c.at++
		c.senders.Go(c.work)
	}
}

// answered lets one more sender work, if there is work.
func (c *crew) answered(chains int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.width = min(c.width+1, perEndpoint)
	c.grow(chains)
}

func (c *crew) silent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.width = 1
}

// tooMany says that a sender has to stop, since others go on.
func (c *crew) tooMany() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at > c.width {
		c.at--
		return true
	}
	return false
}

// pauses says whether an answer asks to leave the receiver alone for a while.
func pauses(a answer) bool {
	return a.fail != "" && (a.status == 429 || a.status == 502 || a.status == 504 || a.retryAfter > 0 && a.status >= 500)
}

// note writes results down: deliveries, attempts, and how the endpoint is doing. With last it also leaves the queue, if nothing is
// due and nothing was added since the look that counted the generation, and says whether it did.
func (s *Sender) note(ctx context.Context, q *queue, generation int64, results []result, pushed map[int64]int64, last bool) (left bool, err error) {
	before := *q
	err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		*q, left = before, false // this may run more than once
		now := tx.Now()
		recovered := false
		reason := ""
		for _, r := range results {
			if r.fail == "" {
				succeeded(tx, q, r)
				recovered = recovered || q.failures > downAfter
				q.failures, q.failingSince, q.pausedUntil, q.lastSuccess = 0, 0, 0, db.Micros(now)
				continue
			}
			q.failures++
			if q.failingSince == 0 {
				q.failingSince = db.Micros(now)
			}
			state, nextAt := s.after(r, now)
			failed(tx, q, r, state, nextAt)
			switch {
			case pauses(r.answer):
				pause := max(r.retryAfter, throttling<<min(q.failures-1, 4))
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
		for position, to := range pushed {
			push(tx, q, position, to)
		}
		if recovered && q.failures == 0 {
			pullForward(tx, q)
		}
		addAttempts(tx, q, results)
		hold(tx, q, leaseFor)
		if reason != "" && (reason != reasonFailing || q.failures > 0) {
			return s.disable(ctx, tx, q, reason)
		}
		if last {
			leave(tx, q, generation, false, &left)
		}
		return nil
	})
	return left, err
}

// after says what becomes of a delivery whose attempt failed, and when its next one is.
func (s *Sender) after(r result, now time.Time) (state string, nextAt int64) {
	switch tried := int(r.tries) + 1; {
	case r.fail == failBlocked:
		return Blocked, 0
	case tried >= len(schedule):
		return Failed, 0
	default:
		pause := schedule[tried] + s.Jitter(schedule[tried])
		return Pending, db.Micros(now.Add(max(pause, r.retryAfter)))
	}
}

// disable stops an endpoint whose receiver is gone and tells its company.
func (s *Sender) disable(ctx context.Context, tx *db.Tx, q *queue, reason string) error {
	q.lost = true
	done, err := disable(ctx, tx, q, reason)
	if err != nil || !done {
		return err
	}
	clearLater(tx, q.companyID, q.endpointID)
	s.Log.WarnContext(ctx, "a webhook endpoint was disabled", "company_id", q.companyID, "endpoint_id", q.endpointID, "reason", reason)
	e, err := selectEndpoint(ctx, tx, q.companyID, q.endpointID)
	if err != nil {
		return err
	}
	if err := e.moved(tx, Enabled); err != nil {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, q.companyID)
	if err != nil || !mail.Valid(company.Email) {
		return err
	}
	return mail.Enqueue(ctx, tx, mail.Message{
		CompanyID: company.ID, To: company.Email, Template: mail.WebhookDisabled, Language: mail.LanguageOf(company.Country),
		Data: mail.WebhookDisabledData{Company: company.Name, Endpoint: e.plainURL(), Since: db.Time(q.failingSince)},
		Key:  e.ID + "." + strconv.FormatInt(q.failingSince, 10),
	})
}
