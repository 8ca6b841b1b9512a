package api

import (
	"context"
	"crypto/sha256"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// credential takes scheme and credential from the request; identity knows what they mean.
func credential(h http.Header) (scheme, token string, err error) {
	switch values := h["Authorization"]; {
	case len(values) == 0:
		return "", "", errToken
	case len(values) > 1:
		return "", "", errDuplicate.At("header", "Authorization")
	default:
		scheme, token, _ = strings.Cut(values[0], " ")
	}
	if token = strings.TrimSpace(token); !visible(token, 1024) {
		return "", "", errToken
	}
	return scheme, token, nil
}

// visible says whether s is 1 to most visible ASCII characters.
func visible(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// authenticate finds who asks, and notes now and then that the credential is in use.
func (s *server) authenticate(ctx context.Context, h http.Header) (by identity.Principal, err error) {
	scheme, token, err := credential(h)
	if err != nil {
		return by, err
	}
	return s.principals.get(scheme, token, s.Now(), func() (by identity.Principal, err error) {
		var touch bool
		err = s.DB.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			by, err = identity.Authenticate(ctx, tx, scheme, token, s.Env)
			touch = err == nil && by.NeedsTouch(tx.Now())
			return err
		})
		if touch {
			err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return identity.Touch(ctx, tx, by) })
		}
		return by, err
	})
}

// principals remembers for a moment who a credential stands for, so that a busy one is not looked up at every request. A
// revocation is heeded at once in the process that makes it, and within principalLife in the others.
type principals struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]knownPrincipal
	era   int // counts the revocations: what was read before one is not remembered after it
}

type knownPrincipal struct {
	by identity.Principal
	at time.Time
}

const (
	principalLife  = time.Second / 2
	mostPrincipals = 10_000
)

// get answers from memory or from look, which is asked again for whoever was refused. Only digests are kept of credentials.
func (p *principals) get(scheme, token string, now time.Time, look func() (identity.Principal, error)) (identity.Principal, error) {
	digest := sha256.Sum256([]byte(strings.ToLower(scheme) + " " + token))
	p.mu.Lock()
	k, ok := p.known[digest]
	era := p.era
	p.mu.Unlock()
	if age := now.Sub(k.at); ok && age >= 0 && age < principalLife {
		return k.by, nil
	}
	by, err := look()
	if err != nil {
		return by, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.era == era {
		if p.known == nil || len(p.known) >= mostPrincipals {
			p.known = map[[sha256.Size]byte]knownPrincipal{}
		}
		p.known[digest] = knownPrincipal{by, now}
	}
	return by, nil
}

func (p *principals) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.era = nil, p.era+1
}

// permit refuses a principal without the scope.
func permit(by identity.Principal, scope identity.Scope) error {
	if by.Has(scope) {
		return nil
	}
	return errScope.Detailf("The credential lacks the scope %s.", scope).Set("scope", scope)
}

// limiter bounds the requests of each credential: so many a second sustained, ten seconds' worth at once.
type limiter struct {
	perSecond float64 // 0 switches off
	burst     int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	swept   time.Time
}

const burstSeconds = 10

func newLimiter(perSecond float64) *limiter {
	return &limiter{perSecond: perSecond, burst: int(math.Ceil(perSecond * burstSeconds)), buckets: map[string]*rate.Limiter{}}
}

// take counts one request of who, and writes into h where its credential stands.
func (l *limiter) take(now time.Time, who string, h http.Header) error {
	if l.perSecond <= 0 {
		return nil
	}
	l.mu.Lock()
	if now.Sub(l.swept) > burstSeconds*time.Second {
		// A full bucket is as good as none, so the map holds only who asked in the last seconds.
		for k, b := range l.buckets {
			if b.TokensAt(now) >= float64(l.burst) {
				delete(l.buckets, k)
			}
		}
		l.swept = now
	}
	b := l.buckets[who]
	if b == nil {
		b = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.buckets[who] = b
	}
	allowed := b.AllowN(now, 1)
	tokens := b.TokensAt(now)
	l.mu.Unlock()

	tokens = max(0, tokens)
	h.Set("RateLimit-Policy", strconv.Itoa(l.burst)+";w="+strconv.Itoa(burstSeconds))
	h.Set("RateLimit-Limit", strconv.Itoa(l.burst))
	h.Set("RateLimit-Remaining", strconv.Itoa(int(tokens)))
	h.Set("RateLimit-Reset", strconv.Itoa(int(math.Ceil((float64(l.burst)-tokens)/l.perSecond))))
	if allowed {
		return nil
	}
	wait := max(1, int(math.Ceil((1-tokens)/l.perSecond)))
	return errRateLimited.Set("retry_after", strconv.Itoa(wait))
}

// flights knows which idempotency keys are being worked on in this process.
type flights struct {
	mu      sync.Mutex
	running map[keyUse]chan struct{}
}

// twinWait is how long a request waits for its running twin.
const twinWait = 10 * time.Second

// enter waits until no twin runs, then takes its place. Call leave when done.
func (f *flights) enter(ctx context.Context, c keyUse, wait time.Duration) (leave func(), err error) {
	c.fingerprint = "" // another body under the same key waits too: it may be refused only if the first one succeeds
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		f.mu.Lock()
		done, busy := f.running[c]
		if !busy {
			done = make(chan struct{})
			f.running[c] = done
			f.mu.Unlock()
			return func() {
				f.mu.Lock()
				delete(f.running, c)
				f.mu.Unlock()
				close(done)
			}, nil
		}
		f.mu.Unlock()
		select {
		case <-done:
		case <-timeout.C:
			return nil, errInProgress
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// idempotencyKey takes the key of a request, "" for none.
func idempotencyKey(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", errDuplicate.At("header", "Idempotency-Key")
	case !visible(values[0], 255):
		return "", errKeyInvalid.At("header", "Idempotency-Key")
	}
	return values[0], nil
}
