package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// errTried rolls back the transaction of a request that is executed only to find its problems.
var errTried = errors.New("httpapi: the request has problems")

// withHandlerProblems finds the problems that the handler reports for the valid part of a body, so that the caller
// can correct them together with the problems that the decoder found. It executes the write without the items in
// which the decoder found problems, and rolls it back. It returns malformed, with the added problems if there are
// any.
func (s *servedRoute) withHandlerProblems(
	ctx context.Context, c *request, r *http.Request, body []byte, malformed error,
) error {
	f, ok := apierr.As(malformed)
	if !ok || f.Kind != apierr.Invalid || s.rt.kind != write || s.rt.handler.preprocess != nil ||
		len(f.Fields) == apierr.MaxFields || slices.ContainsFunc(f.Fields, outsideOfItems) {
		return malformed
	}
	valid := validItems{problems: f.Fields, was: map[jsontext.Pointer]jsontext.Pointer{}}
	rest := valid.of(bytes.TrimSpace(body), "", "")
	if rest == nil {
		return malformed
	}
	v, err := s.in.read(r, rest)
	if err != nil || s.in.company != nil && !c.actsFor(v.Elem().FieldByIndex(s.in.company)) {
		return malformed
	}
	if c.by.CompanyID != "" {
		ctx = db.ForCompany(ctx, c.by.CompanyID)
	}
	var found *apierr.Fault
	err = s.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if _, err := s.rt.handler.run(ctx, tx, c, v.Interface()); err != nil {
			found, _ = apierr.As(err)
		}
		return errTried
	})
	if !errors.Is(err, errTried) || found == nil || found.Kind != apierr.Invalid {
		return malformed
	}
	var all apierr.List
	for _, p := range f.Fields {
		all.AddField(p)
	}
	for _, p := range found.Fields {
		if p.Pointer, ok = valid.original(p.Pointer); ok {
			all.AddField(p)
		}
	}
	return all.Err()
}

// outsideOfItems reports whether a problem is outside the items of arrays: it is not in the body, or its pointer has
// no index.
func outsideOfItems(p apierr.Field) bool {
	return p.In != "body" || !strings.ContainsAny(p.Pointer, "0123456789")
}

// validItems reduces a body to the array items in which the decoder found no problem.
type validItems struct {
	problems []apierr.Field
	was      map[jsontext.Pointer]jsontext.Pointer // original places, by place in the reduced body
}

// of returns the value v without the array items that have problems. It returns nil if v has problems elsewhere or if
// an array would lose all its items. at is the value's place in the reduced body, was its place in the original body.
func (r *validItems) of(v jsontext.Value, at, was jsontext.Pointer) jsontext.Value {
	has := func(within jsontext.Pointer) bool {
		return slices.ContainsFunc(r.problems, func(p apierr.Field) bool {
			return within.Contains(jsontext.Pointer(p.Pointer))
		})
	}
	if !has(was) {
		return v
	}
	switch v.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if json.Unmarshal(v, &members) != nil {
			return nil
		}
		for name, member := range members {
			if members[name] = r.of(member, at.AppendToken(name), was.AppendToken(name)); members[name] == nil {
				return nil
			}
		}
		v, err := json.Marshal(members)
		if err != nil {
			return nil
		}
		return v
	case '[':
		var items, kept []jsontext.Value
		if json.Unmarshal(v, &items) != nil {
			return nil
		}
		for i, item := range items {
			if from := was.AppendToken(strconv.Itoa(i)); !has(from) {
				r.was[at.AppendToken(strconv.Itoa(len(kept)))] = from
				kept = append(kept, item)
			}
		}
		v, err := json.Marshal(kept)
		if err != nil || len(kept) == 0 {
			return nil
		}
		return v
	}
	return nil
}

// original converts a place in the reduced body to the place in the original body. It returns false for an array that
// lost items, because the missing items may have caused the array's problems.
func (r *validItems) original(pointer string) (string, bool) {
	at := jsontext.Pointer(pointer)
	if _, shortened := r.was[at.AppendToken("0")]; shortened {
		return "", false
	}
	for item := at; item != ""; item = item.Parent() {
		if was, moved := r.was[item]; moved {
			return string(was) + strings.TrimPrefix(pointer, string(item)), true
		}
	}
	return pointer, true
}
