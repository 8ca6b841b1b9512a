package db

import "context"

// Loader reads values by key, and keeps them for the write functions that share the transaction. Values that callers
// of [DB.Write] name with a [Prefetch] are read before the first function runs; on PostgreSQL, all of them together
// with BEGIN.
//
// Get reads a value again if the calling function has, since the value was read, executed a statement that may have
// changed rows. An item that the function added to a [Group] counts as a change when it is written, not before. A
// value may lack changes that other functions of the transaction made after it was read, just as it may lack changes
// that were committed concurrently. Create each loader once, in a package variable.
type Loader[K comparable, V any] struct {
	statements func(tx *Tx, keys []K, found func(K, V)) []Statement
}

// NewLoader returns a loader. The function statements returns statements that read the values of keys and call found
// for each key that has a value.
func NewLoader[K comparable, V any](statements func(tx *Tx, keys []K, found func(K, V)) []Statement) *Loader[K, V] {
	return &Loader[K, V]{statements}
}

// Prefetch names a value to read before the functions of a transaction run.
type Prefetch struct {
	loader interface {
		load(tx *Tx, keys []any) []Statement
	}
	key any
}

// Prefetch returns a [Prefetch] of the value of key, for [DB.Write].
func (l *Loader[K, V]) Prefetch(key K) Prefetch { return Prefetch{l, key} }

// loaded is what a loader read for one key.
type loaded[V any] struct {
	value V
	found bool
	execs int // execs of the transaction when the value was read
}

func (l *Loader[K, V]) load(tx *Tx, keys []any) []Statement {
	if tx.loaded == nil {
		tx.loaded = map[Prefetch]any{}
	}
	typed := make([]K, len(keys))
	for i, k := range keys {
		typed[i] = k.(K)
		tx.loaded[Prefetch{l, k}] = loaded[V]{execs: tx.execs}
	}
	return l.statements(tx, typed, func(k K, v V) { tx.loaded[Prefetch{l, k}] = loaded[V]{v, true, tx.execs} })
}

// Get returns the value of a key and reports whether the key has one.
func (l *Loader[K, V]) Get(ctx context.Context, tx *Tx, key K) (v V, found bool, err error) {
	at := Prefetch{l, key}
	if known, ok := tx.loaded[at].(loaded[V]); ok && (tx.execs == tx.began || tx.execs == known.execs) {
		return known.value, known.found, nil
	}
	if err := tx.Batch(ctx, l.load(tx, []any{key})); err != nil {
		delete(tx.loaded, at)
		return v, false, err
	}
	known := tx.loaded[at].(loaded[V])
	return known.value, known.found, nil
}

// prefetch returns the statements that read all the named values, each key once.
func (t *Tx) prefetch(all []Prefetch) (statements []Statement) {
	seen := map[Prefetch]bool{}
	keys := map[any][]any{} // by loader
	var loaders []Prefetch  // the first Prefetch of each loader, in order of first use
	for _, p := range all {
		if seen[p] {
			continue
		}
		seen[p] = true
		if keys[p.loader] == nil {
			loaders = append(loaders, p)
		}
		keys[p.loader] = append(keys[p.loader], p.key)
	}
	for _, p := range loaders {
		statements = append(statements, p.loader.load(t, keys[p.loader])...)
	}
	return statements
}
