// Package ratelimit limits the rate of requests and the memory that request bodies use.
//
// Each process counts separately, so n processes together permit n times the limit.
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

// ErrTooMany is returned for requests above the limit. Its hint "retry_after" is the number of seconds to wait.
var ErrTooMany = apierr.New(apierr.RateLimited, "rate_limited",
	"Too many requests with this credential. Retry after the seconds in Retry-After.")

// policy is the name of the policy in the RateLimit and RateLimit-Policy headers.
const policy = "credential"

// Limiter limits the requests of each key with a token bucket.
type Limiter struct {
	perSecond float64
	burst     int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
	swept   time.Time
}

// sweepEvery is the interval between removals of full buckets.
// mostBuckets is the maximum number of buckets, which bounds the memory of a Limiter to about 20 MB. Above it, each
// new key starts with a full bucket every time.
const mostBuckets = 100_000

const sweepEvery = 10 * time.Second

// New returns a limiter that permits each key perSecond requests per second on average, and burst requests at once.
// If perSecond is zero, there is no limit.
func New(perSecond float64, burst int) *Limiter {
	return &Limiter{perSecond: perSecond, burst: burst, buckets: map[string]*rate.Limiter{}}
}

// Return reverts the counting of a request by Allow, so that the request does not count against the limit.
func (l *Limiter) Return(now time.Time, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[key]; b != nil && b.TokensAt(now) < float64(l.burst) {
		b.AllowN(now, -1)
	}
}

// Allow counts a request with a key and sets the RateLimit headers. It returns ErrTooMany if the request exceeds the
// limit.
func (l *Limiter) Allow(now time.Time, key string, h http.Header) error {
	if l.perSecond <= 0 {
		return nil
	}
	l.mu.Lock()
	if now.Sub(l.swept) > sweepEvery {
		// Deleting a full bucket loses nothing, because a new bucket is also full.
		for k, b := range l.buckets {
			if b.TokensAt(now) >= float64(l.burst) {
				delete(l.buckets, k)
			}
		}
		l.swept = now
	}
	b := l.buckets[key]
	if b == nil {
		for k := range l.buckets {
			if len(l.buckets) < mostBuckets {
				break
			}
			delete(l.buckets, k)
		}
		b = rate.NewLimiter(rate.Limit(l.perSecond), l.burst)
		l.buckets[key] = b
	}
	allowed := b.AllowN(now, 1)
	tokens := b.TokensAt(now)
	l.mu.Unlock()

	tokens = max(0, tokens)
	burst, left := strconv.Itoa(l.burst), strconv.Itoa(int(tokens))
	reset := strconv.Itoa(int(math.Ceil((float64(l.burst) - tokens) / l.perSecond)))
	window := strconv.Itoa(int(math.Ceil(float64(l.burst) / l.perSecond)))
	// These are the headers of the IETF draft "RateLimit header fields for HTTP", and of earlier versions of the draft.
	h.Set("RateLimit-Policy", `"`+policy+`";q=`+burst+";w="+window)
	h.Set("RateLimit", `"`+policy+`";r=`+left+";t="+reset)
	h.Set("RateLimit-Limit", burst)
	h.Set("RateLimit-Remaining", left)
	h.Set("RateLimit-Reset", reset)
	if allowed {
		return nil
	}
	wait := max(1, int(math.Ceil((1-tokens)/l.perSecond)))
	return ErrTooMany.Set("retry_after", strconv.Itoa(wait))
}
