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

// credential returns the scheme and the credential of a request.
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

// visible reports whether s has 1 to limit visible ASCII characters.
func visible(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// authenticate returns the principal of a request, and from time to time stores that its credential is in use. If the
// token is bound to a key, the request must contain a DPoP proof of that key.
func (s *server) authenticate(r *http.Request) (by identity.Principal, err error) {
	scheme, token, err := credential(r.Header)
	if err != nil {
		return by, err
	}
	if by, err = s.principalOf(r.Context(), scheme, token); err != nil || by.ProofKey == "" {
		return by, err
	}
	key, proven := r.Context().Value(messageKey{}).(string)
	if !proven {
		key, err = s.proofKey(r, token)
	}
	if err == nil && key != by.ProofKey {
		err = errNotProven
	}
	if err != nil {
		return identity.Principal{}, err
	}
	return by, nil
}

// proofKey checks the request's DPoP proof and returns the thumbprint of its key. The proof must have been made for
// the token, or for no token if token is empty.
func (s *server) proofKey(r *http.Request, token string) (string, error) {
	proofs := r.Header["Dpop"]
	if len(proofs) != 1 {
		return "", errNotProven
	}
	key, err := s.proofs.Check(proofs[0], r.Method, s.BaseURL+r.URL.EscapedPath(), token, s.Now())
	if err != nil {
		return "", errNotProven
	}
	return key, nil
}

// messageKey is the context key of the thumbprint of the key that proved an agent's message. API requests that the
// message causes within this process need no DPoP proof of their own: they have the message's credential, and no
// client can set a context value.
type messageKey struct{}

// withProof checks the DPoP proof of an agent's message and returns the message with the result in its context. If
// the proof is missing or invalid, withProof returns the message unchanged; API requests that the message causes then
// fail if the token is bound to a key.
func (s *server) withProof(r *http.Request) *http.Request {
	_, token, err := credential(r.Header)
	if err != nil || len(r.Header["Dpop"]) == 0 {
		return r
	}
	key, err := s.proofKey(r, token)
	if err != nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), messageKey{}, key))
}

// errNotProven is returned if a request's token is bound to a key and the request has no valid proof of that key.
var errNotProven = identity.ErrInvalidToken.Detailf("The token is bound to a key, and the DPoP proof is missing, " +
	"malformed, too old, already used, or made for another request, token or key.")

func (s *server) principalOf(ctx context.Context, scheme, token string) (identity.Principal, error) {
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

// principals caches principals by credential for principalLife. A revocation takes effect at once in the process that
// executes it, and within principalLife in other processes. The cache contains digests of credentials, not the
// credentials.
type principals struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]knownPrincipal
	era   int // number of revocations; a principal that was loaded before the latest one is not cached
}

type knownPrincipal struct {
	by identity.Principal
	at time.Time
}

const (
	principalLife  = time.Second / 2
	mostPrincipals = 10_000
)

// get returns a cached principal or the result of load. Failures are not cached.
func (p *principals) get(
	scheme, token string, now time.Time, load func() (identity.Principal, error),
) (identity.Principal, error) {
	digest := sha256.Sum256([]byte(strings.ToLower(scheme) + " " + token))
	p.mu.Lock()
	k, ok := p.known[digest]
	era := p.era
	p.mu.Unlock()
	if age := now.Sub(k.at); ok && age >= 0 && age < principalLife {
		return k.by, nil
	}
	by, err := load()
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

// Limits of requests with wrong credentials per network.
const (
	wrongsAtOnce    = 60
	wrongsPerSecond = 1
)

// countWrong counts a wrong credential against the client's network, and returns ErrTooMany once there are too many.
// Valid credentials from that network are not affected.
func (s *server) countWrong(r *http.Request, err error) error {
	if r.Header["Authorization"] == nil || !errors.Is(err, identity.ErrInvalidToken) {
		return err
	}
	if many, ok := apierr.As(s.wrongs.Allow(s.Now(), network(r), http.Header{})); ok {
		return many.Detailf("Too many wrong credentials were sent from this network. Wait before trying again.")
	}
	return err
}

// network returns the rate-limit key of the client's address.
func network(r *http.Request) string {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return session.Network(from.Addr()).String()
}

// denyOtherCompany rejects a request for another company and audits the attempt at most once a minute per
// credential.
func (s *server) denyOtherCompany(ctx context.Context, by identity.Principal, route, requestID string) error {
	now := s.Now()
	if s.denials.Allow(now, by.ID, http.Header{}) != nil {
		return apierr.NotFoundErr
	}
	err := s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return insertDenied(ctx, tx, by, now.Unix()/60, route+" for another company, request "+requestID)
	})
	if err != nil {
		return err
	}
	return apierr.NotFoundErr
}

// requireScope returns errScope unless the principal has the scope.
func requireScope(by identity.Principal, scope identity.Scope) error {
	if by.Has(scope) {
		return nil
	}
	return errScope.Detailf("The credential lacks the scope %s. Use a credential that has it.", scope).Set("scope", scope)
}

// burstSeconds determines how many requests a credential may send at once: as many as its rate allows in this number
// of seconds.
const burstSeconds = 10

// perCredential returns a limiter of the requests of each credential. If perSecond is zero, there is no limit.
func perCredential(perSecond float64) *ratelimit.Limiter {
	return ratelimit.New(perSecond, int(math.Ceil(perSecond*burstSeconds)))
}
