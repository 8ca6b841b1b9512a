// Package apierr defines the type of errors that clients may see.
//
// A package declares its errors as variables next to the rules that they belong to. The HTTP packages convert them to
// responses. An error that is not a *Fault is internal: its text appears only in the log.
package apierr

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Kind is the class of a Fault, which determines the HTTP status.
type Kind int

// Kinds with their HTTP statuses.
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

// MaxFields is the maximum number of problems that one Fault lists.
const MaxFields = 100

// Field is one problem of a request.
type Field struct {
	Code    string
	In      string // body, query, path or header
	Pointer string // JSON pointer into the body, or the parameter's name
	Message string // states the problem and the expected value; never contains the submitted value
}

// Fault is an error that the caller can act on.
type Fault struct {
	Kind   Kind
	Code   string
	Detail string
	Fields []Field
	// Meta contains hints for the caller, such as the ID of an existing object.
	Meta map[string]string
}

// NotFoundErr is returned for an object that does not exist, and for an object of another company or user.
var NotFoundErr = New(NotFound, "not_found",
	"The object does not exist, or the credential has no access to it. Check its ID and the credential.")

// New returns a Fault. Packages use it to declare error variables.
func New(kind Kind, code, detail string) *Fault {
	return &Fault{Kind: kind, Code: code, Detail: detail}
}

func (f *Fault) Error() string { return f.Code + ": " + f.Detail }

// Is reports whether target has the same kind and code, so that errors.Is also matches modified copies.
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

// With returns a copy of f with additional problems.
func (f *Fault) With(fields ...Field) *Fault {
	c := f.clone()
	c.Fields = append(c.Fields, fields...)
	return c
}

// At returns a copy of f with one problem at a place in the request.
func (f *Fault) At(in, pointer string) *Fault {
	return f.With(Field{Code: f.Code, In: in, Pointer: pointer, Message: f.Detail})
}

// Detailf returns a copy of f with another detail text.
func (f *Fault) Detailf(format string, args ...any) *Fault {
	c := f.clone()
	c.Detail = fmt.Sprintf(format, args...)
	return c
}

// Set returns a copy of f with an additional hint.
func (f *Fault) Set(key, value string) *Fault {
	c := f.clone()
	if c.Meta == nil {
		c.Meta = map[string]string{}
	}
	c.Meta[key] = value
	return c
}

// As returns the first Fault in the error chain.
func As(err error) (*Fault, bool) {
	var f *Fault
	ok := errors.As(err, &f)
	return f, ok
}

// Passing reports whether the same request may succeed later, because the error is internal, a conflict, a rate limit
// or an outage.
func Passing(err error) bool {
	f, is := As(err)
	return !is || slices.Contains([]Kind{Internal, Conflict, RateLimited, Unavailable}, f.Kind)
}

// List collects the problems of a request in order. The zero value is an empty list.
type List struct {
	fields []Field
	more   int
}

// Add records a problem in the body. After MaxFields problems, it only counts further ones.
func (l *List) Add(code, pointer, message string) {
	l.AddField(Field{Code: code, In: "body", Pointer: pointer, Message: message})
}

// AddField records a problem anywhere in the request.
func (l *List) AddField(f Field) {
	if len(l.fields) == MaxFields {
		l.more++
		return
	}
	l.fields = append(l.fields, f)
}

// AddErr records a Fault as a problem at a place in the body. It returns any other error unchanged.
func (l *List) AddErr(err error, pointer string) error {
	f, ok := As(err)
	if !ok {
		return err
	}
	l.Add(f.Code, pointer, f.Detail)
	return nil
}

// Empty reports whether no problem was recorded.
func (l *List) Empty() bool { return len(l.fields) == 0 }

// Fields returns the recorded problems.
func (l *List) Fields() []Field { return slices.Clone(l.fields) }

// Err returns nil if the list is empty. Otherwise it returns an Invalid fault that lists all problems, and whose
// detail repeats the first.
func (l *List) Err() error {
	if l.Empty() {
		return nil
	}
	first := l.fields[0]
	return &Fault{Kind: Invalid, Code: first.Code, Detail: first.Message, Fields: slices.Clone(l.fields)}
}
