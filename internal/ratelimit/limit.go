// Package ratelimit bounds how often somebody may ask: so many times a second sustained, and some at once.
//
// It counts in the memory of one process, without waiting for anything. Several processes allow as many times as much.
package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/stipend/stipend/internal/apierr"
)

// ErrTooMany says that somebody asks too often; its "retry_after" says for how many seconds to wait.
var ErrTooMany = apierr.New(apierr.RateLimited, "rate_limited", "Too many requests with this credential.")

// Limiter bounds the requests of each of many.
type Limiter struct {
	perSecond float64
	burst     int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	swept   time.Time
}

// sweepEvery is how often those are forgotten who have not asked lately.
const sweepEvery = 10 * time.Second

// New allows perSecond requests a second sustained, and burst at once. 0 a second switches it off.
func New(perSecond float64, burst int) *Limiter {
	return &Limiter{perSecond: perSecond, burst: burst, buckets: map[string]*rate.Limiter{}}
}

// Take counts one request of who, and writes into h where they stand.
func (l *Limiter) Take(now time.Time, who string, h http.Header) error {
	if l.perSecond <= 0 {
		return nil
	}
	l.mu.Lock()
	if now.Sub(l.swept) > sweepEvery {
		// A full bucket is as good as none, so the map holds only who asked lately.
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
	h.Set("RateLimit-Policy", strconv.Itoa(l.burst)+";w="+strconv.Itoa(int(math.Ceil(float64(l.burst)/l.perSecond))))
	h.Set("RateLimit-Limit", strconv.Itoa(l.burst))
	h.Set("RateLimit-Remaining", strconv.Itoa(int(tokens)))
	h.Set("RateLimit-Reset", strconv.Itoa(int(math.Ceil((float64(l.burst)-tokens)/l.perSecond))))
	if allowed {
		return nil
	}
	wait := max(1, int(math.Ceil((1-tokens)/l.perSecond)))
	return ErrTooMany.Set("retry_after", strconv.Itoa(wait))
}
