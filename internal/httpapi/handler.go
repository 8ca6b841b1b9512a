package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/requestlog"
)

// servedRoute is a mounted route.
type servedRoute struct {
	*server
	rt       route
	in       *input
	template string // method and path pattern
	limits   *ratelimit.Limiter
	maxBody  int64 // in bytes
}

// serveRoute returns the handler of a route, which authenticates, authorizes, decodes and executes requests.
func (s *server) serveRoute(rt route, in *input) func(*responseWriter, *http.Request) {
	served := &servedRoute{
		server: s, rt: rt, in: in, template: rt.method + " " + rt.path, limits: s.writes, maxBody: rt.maxBody(),
	}
	if rt.kind == read {
		served.limits = s.reads
	}
	return func(w *responseWriter, r *http.Request) {
		w.route, w.reads = rt.path, rt.kind == read
		if rt.deprecated != nil {
			rt.deprecated.announce(w.Header(), s.BaseURL)
		}
		if rt.handler.paysBy402() && r.Method != rt.method { // a HEAD request would create claims
			s.refuse(w, errMethod.Set("allow", rt.method))
			return
		}
		if err := served.serve(w, r); err != nil {
			s.refuse(w, err)
		}
	}
}

func (s *servedRoute) serve(w *responseWriter, r *http.Request) error {
	c := &request{server: s.server, network: network(r)}
	if err := s.authorize(c, w, r); err != nil {
		return err
	}
	key, err := s.readKey(c, r)
	if err != nil {
		return err
	}
	wanted := s.in.body >= 0 && (!s.rt.bodyOptional || r.ContentLength != 0)
	if wanted {
		leave, ok := s.Bodies.Acquire(w, r, s.Now, s.maxBody,
			cmp.Or(c.by.CompanyID, c.by.UserID), network(r))
		if !ok {
			return errRetryLater
		}
		defer leave()
	}
	body, err := readAll(w, r, s.maxBody, wanted)
	if err != nil {
		return err
	}
	w.body = requestlog.Truncate(body)
	var out []byte
	if key == "" || s.rt.kind != write {
		out, err = s.decodeAndDo(c, w, r, body, nil)
	} else {
		out, err = s.doWithKey(c, w, r, body, idempotencyKey{keyAccount(c.by), s.template, key})
	}
	if err != nil {
		return err
	}
	if s.rt.kind != read {
		w.sent = requestlog.Truncate(out)
	}
	if out != nil {
		send(w, http.StatusOK, out)
	}
	return nil
}

// doWithKey executes a write that has an idempotency key and returns its response.
func (s *servedRoute) doWithKey(c *request, w *responseWriter, r *http.Request, body []byte, key idempotencyKey) (
	out []byte, err error,
) {
	k := &keyedWrite{idempotencyKey: key}
	sent := sentDigest(key, r, body)
	if sum, ok := s.answered.fingerprint(sent); ok {
		k.fingerprint = sum
		out, err = s.doOnce(r.Context(), w, k, nil, nil)
	}
	if k.fingerprint == "" || errors.Is(err, errNotStored) {
		out, err = s.decodeAndDo(c, w, r, body, k)
	}
	if err == nil {
		s.answered.add(sent, k.fingerprint)
	}
	return out, err
}

// decodeAndDo decodes and executes a request. key is nil if the request has no idempotency key.
func (s *servedRoute) decodeAndDo(c *request, w *responseWriter, r *http.Request, body []byte, key *keyedWrite) (
	out []byte, err error,
) {
	v, err := s.in.read(r, body)
	if err != nil {
		return nil, s.withHandlerProblems(r.Context(), c, r, body, err)
	}
	if s.in.company != nil && !c.actsFor(v.Elem().FieldByIndex(s.in.company)) {
		return nil, s.denyOtherCompany(r.Context(), c.by, s.template, w.requestID)
	}
	if key != nil { // computed now, so that a large body can be freed before the handler runs
		key.fingerprint = fingerprint(r, s.in, body)
	}
	return s.do(r.Context(), c, w, v.Interface(), key)
}

// authorize authenticates the caller and checks the rate limit, the scope and the kind of credential.
func (s *servedRoute) authorize(c *request, w *responseWriter, r *http.Request) (err error) {
	if s.rt.perNetwork {
		return s.payments.Allow(s.Now(), c.network, http.Header{})
	}
	if s.rt.scope == public {
		return nil
	}
	if c.by, err = s.authenticate(r); err != nil {
		return s.countWrong(r, err)
	}
	w.by = c.by
	if err := s.limits.Allow(s.Now(), c.by.ID, w.Header()); err != nil {
		return err
	}
	if s.rt.scope != anyScope {
		if err := requireScope(c.by, s.rt.scope); err != nil && !c.by.Has(s.rt.orScope) {
			return err
		}
	}
	if s.rt.apiKeyOnly && c.by.Kind != identity.KindAPIKey &&
		(!s.rt.platforms || c.by.Kind != identity.KindPlatform) {
		return errKeyOnly
	}
	return nil
}

// readKey returns the idempotency key of a write, or "" if the request has none.
func (s *servedRoute) readKey(c *request, r *http.Request) (string, error) {
	if s.rt.kind == read {
		return "", nil
	}
	key, err := keyHeader(r.Header)
	if err == nil && key == "" && s.rt.keyRequired && c.by.ForCompany() {
		return "", errKeyRequired.At("header", "Idempotency-Key")
	}
	return key, err
}

// read decodes a request into a new value of the input type. It returns a single error that lists all problems.
func (in *input) read(r *http.Request, body []byte) (v reflect.Value, err error) {
	v = reflect.New(in.typ)
	var problems apierr.List
	if in.body >= 0 && body != nil {
		if err := in.readBody(body, v.Elem(), &problems); err != nil {
			return v, err
		}
	}
	if err := in.readParams(r, v.Elem(), &problems); err != nil {
		return v, err
	}
	return v, problems.Err()
}

// do runs the handler, in a transaction if its kind requires one, and returns the response body, or nil if the
// handler has sent a file.
func (s *servedRoute) do(
	ctx context.Context, c *request, w *responseWriter, asked any, key *keyedWrite,
) (out []byte, err error) {
	if c.by.CompanyID != "" {
		ctx = db.ForCompany(ctx, c.by.CompanyID)
	}
	h := s.rt.handler
	if h.preprocess != nil {
		if err := h.preprocess(ctx, c, asked); err != nil {
			return nil, s.in.locateUser(err)
		}
	}
	var ahead []db.Prefetch
	if h.prefetch != nil {
		ahead = h.prefetch(c, asked)
	}
	run := func(ctx context.Context, tx *db.Tx) ([]byte, error) {
		if s.rt.changesCompany() && c.by.CompanyID != "" {
			company, err := identity.CompanyByID(ctx, tx, c.by.CompanyID)
			if err == nil {
				err = company.Active()
			}
			if err != nil {
				return nil, err
			}
		}
		made, err := h.run(ctx, tx, c, asked)
		if err != nil {
			return nil, s.in.locateUser(err)
		}
		if f, ok := made.(*file); ok {
			s.sendFile(w, f)
			return nil, nil
		}
		if a, ok := made.(*paymentAnswer); ok {
			return nil, a.send(w)
		}
		return json.Marshal(made)
	}
	within := func(ctx context.Context, tx *db.Tx) (err error) {
		out, err = run(ctx, tx)
		return err
	}
	switch {
	case s.rt.kind == direct:
		err = within(ctx, nil)
	case s.rt.kind == read:
		err = s.DB.Read(ctx, within)
	case key == nil:
		err = s.DB.Write(ctx, within, ahead...)
	default:
		return s.doOnce(ctx, w, key, run, ahead)
	}
	return out, err
}

// changesCompany reports whether a route is refused while the credential's company is frozen. Sandbox routes are not
// refused, because they simulate events from outside, such as deposits.
func (rt *route) changesCompany() bool {
	return rt.kind == write && rt.scope != public && !rt.sandboxOnly
}

// doOnce executes a write with an idempotency key. If a response is stored for the key, doOnce returns that response
// and sets a header that marks it as repeated.
func (s *servedRoute) doOnce(
	ctx context.Context, w *responseWriter, key *keyedWrite, run func(context.Context, *db.Tx) ([]byte, error),
	ahead []db.Prefetch,
) ([]byte, error) {
	out, replayed, err := s.once(ctx, key.idempotencyKey, key.fingerprint, s.rt.handler, run, ahead)
	if replayed && err == nil {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	return out, err
}

// actsFor sets the acting company in the input. It returns false if the input names a company other than the
// credential's.
func (c *request) actsFor(field reflect.Value) bool {
	c.company = c.by.CompanyID
	if named := field.String(); c.company == "" || named != "" && named != c.company {
		return false
	}
	field.SetString(c.company)
	return true
}
