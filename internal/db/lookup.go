package db

import (
	"context"
	"errors"
	"slices"
)

// Question is a query with what reads each of its rows.
type Question struct {
	Query string
	Args  []any
	Row   func(*Rows) error
}

// Collecting is a question whose rows go to the end of a list.
func Collecting[T any](into *[]T, scan func(*Rows) (T, error), query string, args ...any) Question {
	return Question{Query: query, Args: args, Row: func(r *Rows) error {
		v, err := scan(r)
		*into = append(*into, v)
		return err
	}}
}

// Ask runs queries that do not wait for each other's answers, in their order: on PostgreSQL in one round trip.
func (t *Tx) Ask(ctx context.Context, all []Question) error {
	if len(all) == 0 {
		return nil
	}
	if slices.ContainsFunc(all, func(q Question) bool { return returnsChanges(q.Query) }) {
		if t.readOnly {
			return errors.New("db: a write in a read-only transaction")
		}
		t.execs++
	}
	for _, q := range all {
		if err := t.writeNamed(ctx, q.Query); err != nil {
			return err
		}
	}
	return t.conn.ask(ctx, all)
}

// read gives the rows of an answer to its question.
func (q Question) read(rows *Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := q.Row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Lookup is a read by key that functions of one transaction share. Who knows its key before the transaction begins gives it to
// [DB.Write], and all that is known so is read at once before the first function runs. What was read counts for a function until
// it changes rows itself; then it is read again when it is asked for. What another function of the transaction has changed since
// it may miss, as it may miss what another transaction commits at that moment. Make it once, in a package variable.
type Lookup[K comparable, V any] struct {
	questions func(tx *Tx, keys []K, found func(K, V)) []Question
}

// NewLookup makes a lookup of the questions that find what there is of some keys, each once. A key of which nothing is found has
// no value.
func NewLookup[K comparable, V any](questions func(tx *Tx, keys []K, found func(K, V)) []Question) *Lookup[K, V] {
	return &Lookup[K, V]{questions}
}

// Ahead is a key that a function will look up.
type Ahead struct {
	lookup interface {
		ahead(tx *Tx, keys []any) []Question
	}
	key any
}

// Key is a key of the lookup, to be given to [DB.Write].
func (l *Lookup[K, V]) Key(key K) Ahead { return Ahead{l, key} }

// looked is what a lookup found under a key, and how many statements had changed rows by then.
type looked[V any] struct {
	value V
	found bool
	execs int
}

func (l *Lookup[K, V]) ahead(tx *Tx, keys []any) []Question {
	if tx.looked == nil {
		tx.looked = map[Ahead]any{}
	}
	typed := make([]K, len(keys))
	for i, k := range keys {
		typed[i] = k.(K)
		tx.looked[Ahead{l, k}] = looked[V]{execs: tx.execs}
	}
	return l.questions(tx, typed, func(k K, v V) { tx.looked[Ahead{l, k}] = looked[V]{v, true, tx.execs} })
}

// Get is the value of a key, and whether it has one.
func (l *Lookup[K, V]) Get(ctx context.Context, tx *Tx, key K) (v V, found bool, err error) {
	if known, ok := tx.looked[Ahead{l, key}].(looked[V]); ok && (tx.execs == tx.began || tx.execs == known.execs) {
		return known.value, known.found, nil
	}
	if err := tx.Ask(ctx, l.ahead(tx, []any{key})); err != nil {
		delete(tx.looked, Ahead{l, key})
		return v, false, err
	}
	known := tx.looked[Ahead{l, key}].(looked[V])
	return known.value, known.found, nil
}

// questions are those that find all that is known ahead.
func (t *Tx) questions(ahead []Ahead) (all []Question) {
	keys := map[Ahead]bool{}
	byLookup := map[any][]any{}
	var order []Ahead // one of each lookup
	for _, a := range ahead {
		if keys[a] {
			continue
		}
		keys[a] = true
		if byLookup[a.lookup] == nil {
			order = append(order, a)
		}
		byLookup[a.lookup] = append(byLookup[a.lookup], a.key)
	}
	for _, a := range order {
		all = append(all, a.lookup.ahead(t, byLookup[a.lookup])...)
	}
	return all
}
