// Package apierr is the one error that a client may see.
//
// A package declares its faults beside the rule they guard and returns them; the HTTP faces map them once.
// Whatever is not a *Fault is an internal error: its text stays in the logs.
package apierr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Kind says what sort of refusal a fault is. It decides the HTTP status, nothing else.
type Kind int

// The kinds, with the HTTP status that the API answers for each.
const (
	Internal     Kind = 500
	BadRequest   Kind = 400
	Unauthorized Kind = 401
	Forbidden    Kind = 403
	NotFound     Kind = 404
	Conflict     Kind = 409
	TooLarge     Kind = 413
	Unsupported  Kind = 415
	Invalid      Kind = 422
	RateLimited  Kind = 429
	Unavailable  Kind = 503
)

// MaxFields is how many problems one fault lists.
const MaxFields = 100

// Field is one problem of a request.
type Field struct {
	Code    string
	In      string // body, query, path or header
	Pointer string // JSON pointer into the body, or the parameter's name
	Message string // what is wrong and what would be right; never the submitted value
}

// Fault is a refusal that its reader can act on.
type Fault struct {
	Kind   Kind
	Code   string
	Detail string
	Fields []Field
	// Meta carries what helps the caller go on, such as the id of the object that already exists.
	Meta map[string]string
}

// NotFoundErr is the one answer for a missing object and for one that belongs to somebody else.
var NotFoundErr = New(NotFound, "not_found", "There is no such object, or it is not yours.")

// New declares a fault.
func New(kind Kind, code, detail string) *Fault {
	return &Fault{Kind: kind, Code: code, Detail: detail}
}

func (f *Fault) Error() string { return f.Code + ": " + f.Detail }

// Is makes errors.Is compare kind and code, so that a detailed copy still is the declared fault.
func (f *Fault) Is(target error) bool {
	t, ok := target.(*Fault)
	return ok && t.Kind == f.Kind && t.Code == f.Code
}

func (f *Fault) clone() *Fault {
	c := *f
	c.Fields = slices.Clone(f.Fields)
	c.Meta = maps.Clone(f.Meta)
	return &c
}

// With returns a copy that lists the given problems too.
func (f *Fault) With(fields ...Field) *Fault {
	c := f.clone()
	c.Fields = append(c.Fields, fields...)
	return c
}

// At returns a copy whose one problem stands at a place in the request.
func (f *Fault) At(in, pointer string) *Fault {
	return f.With(Field{Code: f.Code, In: in, Pointer: pointer, Message: f.Detail})
}

// Detailf returns a copy with another explanation.
func (f *Fault) Detailf(format string, args ...any) *Fault {
	c := f.clone()
	c.Detail = fmt.Sprintf(format, args...)
	return c
}

// Set returns a copy that carries one more hint.
func (f *Fault) Set(key, value string) *Fault {
	c := f.clone()
	if c.Meta == nil {
		c.Meta = map[string]string{}
	}
	c.Meta[key] = value
	return c
}

// As finds the fault in an error chain.
func As(err error) (*Fault, bool) {
	var f *Fault
	ok := errors.As(err, &f)
	return f, ok
}

// Passing says whether the same may succeed when it is tried again: whatever is no fault, and what is so at this moment only.
func Passing(err error) bool {
	f, is := As(err)
	return !is || slices.Contains([]Kind{Internal, Conflict, RateLimited, Unavailable}, f.Kind)
}

// List collects the problems of a request body in order. Its zero value is ready.
type List struct {
	fields []Field
	more   int
}

// Add notes a problem of the body. Past MaxFields it only counts.
func (l *List) Add(code, pointer, message string) {
	l.AddField(Field{Code: code, In: "body", Pointer: pointer, Message: message})
}

// AddField notes a problem anywhere in the request.
func (l *List) AddField(f Field) {
	if len(l.fields) == MaxFields {
		l.more++
		return
	}
	l.fields = append(l.fields, f)
}

// AddErr notes what an error says at a place: a fault with its own code, anything else is returned.
func (l *List) AddErr(err error, pointer string) error {
	f, ok := As(err)
	if !ok {
		return err
	}
	l.Add(f.Code, pointer, f.Detail)
	return nil
}

// Empty says whether nothing was noted.
func (l *List) Empty() bool { return len(l.fields) == 0 }

// Fields returns the problems noted so far.
func (l *List) Fields() []Field { return slices.Clone(l.fields) }

// Err is nil for an empty list, else one Invalid fault that repeats the first problem and lists all.
func (l *List) Err() error {
	if l.Empty() {
		return nil
	}
	first := l.fields[0]
	return &Fault{Kind: Invalid, Code: first.Code, Detail: first.Message, Fields: slices.Clone(l.fields)}
}
