package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
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

// How many wrong credentials a network may send.
const (
	wrongsAtOnce    = 60
	wrongsPerSecond = 1
)

// wrong counts a credential that stands for nobody against the network that it came from, which is told to wait when it tries out many.
// Those that stand for somebody pass from there as ever.
func (s *server) wrong(r *http.Request, err error) error {
	if r.Header["Authorization"] == nil || !errors.Is(err, identity.ErrInvalidToken) {
		return err
	}
	if many, ok := apierr.As(s.wrongs.Take(s.Now(), network(r), http.Header{})); ok {
		return many.Detailf("Too many wrong credentials came from this network.")
	}
	return err
}

// network is what counts as one address; all who come from nowhere are together.
func network(r *http.Request) string {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return session.Network(from.Addr()).String()
}

// strays refuses who asks for another company than their own, and keeps once a minute for each credential that it was so used.
func (s *server) strays(ctx context.Context, by identity.Principal, route, requestID string) error {
	now := s.Now()
	if s.stray.Take(now, by.ID, http.Header{}) != nil {
		return apierr.NotFoundErr
	}
	err := s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return insertDenied(ctx, tx, by, now.Unix()/60, route+" of another company, request "+requestID)
	})
	if err != nil {
		return err
	}
	return apierr.NotFoundErr
}

// permit refuses a principal without the scope.
func permit(by identity.Principal, scope identity.Scope) error {
	if by.Has(scope) {
		return nil
	}
	return errScope.Detailf("The credential lacks the scope %s.", scope).Set("scope", scope)
}

// burstSeconds is how many seconds' worth of requests a credential may make at once.
const burstSeconds = 10

// perCredential bounds the requests of each credential; 0 a second switches it off.
func perCredential(perSecond float64) *ratelimit.Limiter {
	return ratelimit.New(perSecond, int(math.Ceil(perSecond*burstSeconds)))
}
