package httpapi

import (
	"context"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/requestlog"
)

// servedRoute is a route with what its requests need.
type servedRoute struct {
	*server
	rt       route
	in       *input
	template string // method and path, as they stand in the table
	limits   *ratelimit.Limiter
	most     int64 // bytes of a body
}

// serveRoute makes the way of a request through a route: who asks, may they, what do they ask, do it.
func (s *server) serveRoute(rt route, in *input) func(*answer, *http.Request) {
	served := &servedRoute{server: s, rt: rt, in: in, template: rt.method + " " + rt.path, limits: s.writes, most: rt.maxBody()}
	if rt.kind == read {
		served.limits = s.reads
	}
	return func(w *answer, r *http.Request) {
		w.route, w.reads = rt.path, rt.kind == read
		if err := served.serve(w, r); err != nil {
			s.refuse(w, err)
		}
	}
}

func (s *servedRoute) serve(w *answer, r *http.Request) error {
	ctx := r.Context()
	c := &call{server: s.server}
	if err := s.admit(c, w, r); err != nil {
		return err
	}
	key, err := s.keyOf(c, r)
	if err != nil {
		return err
	}
	wanted := s.in.body >= 0 && (!s.rt.bodyOptional || r.ContentLength != 0)
	if wanted {
		// Its time begins now: the clock is that of connections.
		leave, ok := s.Bodies.Enter(w, r, s.Now(), s.most)
		if !ok {
			return errRetryLater
		}
		defer leave()
	}
	body, err := readAll(w, r, s.most, wanted)
	if err != nil {
		return err
	}
	w.body = requestlog.Kept(body)
	v, err := s.in.read(r, body)
	if err != nil {
		return err
	}
	if s.in.company != nil && !c.actsFor(v.Elem().FieldByIndex(s.in.company)) {
		return s.strays(ctx, c.by, s.template, w.requestID)
	}
	var sum string // computed here so that a large body can be freed before the handler runs
	if key != "" && s.rt.kind == write {
		sum = fingerprint(r, s.in, body)
	}
	out, err := s.do(ctx, c, w, v.Interface(), key, sum)
	if err != nil {
		return err
	}
	if s.rt.kind != read {
		w.sent = requestlog.Kept(out)
	}
	if out != nil {
		send(w, http.StatusOK, out)
	}
	return nil
}

// admit finds who asks, and refuses who may not, or asks too often.
func (s *servedRoute) admit(c *call, w *answer, r *http.Request) (err error) {
	if s.rt.scope == public {
		return nil
	}
	if c.by, err = s.authenticate(r.Context(), r.Header); err != nil {
		return s.wrong(r, err)
	}
	w.by = c.by
	if err := s.limits.Take(s.Now(), c.by.ID, w.Header()); err != nil {
		return err
	}
	if s.rt.scope != anyScope {
		if err := permit(c.by, s.rt.scope); err != nil {
			return err
		}
	}
	if s.rt.apiKeyOnly && c.by.Kind != identity.KindAPIKey {
		return errKeyOnly
	}
	return nil
}

// keyOf reads the idempotency key of a request that may change something, "" without one.
func (s *servedRoute) keyOf(c *call, r *http.Request) (string, error) {
	if s.rt.kind == read {
		return "", nil
	}
	key, err := keyHeader(r.Header)
	if err == nil && key == "" && s.rt.keyRequired && c.by.Kind == identity.KindAPIKey {
		return "", errKeyRequired.At("header", "Idempotency-Key")
	}
	return key, err
}

// read makes a value of the input's type out of a request, with all that is wrong with it in one refusal.
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

// do runs the handler, in the transaction that its kind of route has, and makes its answer; nil when a file was sent instead.
func (s *servedRoute) do(ctx context.Context, c *call, w *answer, asked any, key, fingerprint string) (out []byte, err error) {
	h := s.rt.handler
	if h.before != nil {
		if err := h.before(ctx, c, asked); err != nil {
			return nil, s.in.pointAtUser(err)
		}
	}
	var ahead []db.Ahead
	if h.ahead != nil {
		ahead = h.ahead(c, asked)
	}
	run := func(ctx context.Context, tx *db.Tx) ([]byte, error) {
		made, err := h.run(ctx, tx, c, asked)
		if err != nil {
			return nil, s.in.pointAtUser(err)
		}
		if f, ok := made.(*file); ok {
			s.sendFile(w, f)
			return nil, nil
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
	case key == "":
		err = s.DB.Write(ctx, within, ahead...)
	default:
		var replayed bool
		out, replayed, err = s.once(ctx, idempotencyKey{keyAccount(c.by), s.template, key}, fingerprint, h, run, ahead)
		if replayed && err == nil {
			w.Header().Set("Idempotent-Replayed", "true")
		}
	}
	return out, err
}

// actsFor settles for which company the call acts: the credential's own, which is also the only one that it may name.
func (c *call) actsFor(field reflect.Value) bool {
	c.company = c.by.CompanyID
	if named := field.String(); c.company == "" || named != "" && named != c.company {
		return false
	}
	field.SetString(c.company)
	return true
}
