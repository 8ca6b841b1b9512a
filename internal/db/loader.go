package db

import "context"

// Loader reads values by key, and keeps them for the functions that share the transaction. The values that a caller
// names with a [Prefetch] in [DB.Write] are read before the first function runs: on PostgreSQL together, with BEGIN.
//
// A value is read again if the function that gets it has executed a statement that may change rows since it began and
// since the value was read. Items that it has added to a [Group] count when they are written, not before. A value may
// lack what other functions of the transaction changed after it was read, as it may lack what was committed
// concurrently. Create a loader once, in a package variable.
type Loader[K comparable, V any] struct {
	statements func(tx *Tx, keys []K, found func(K, V)) []Statement
}

// NewLoader returns a loader. Its function returns statements that call found for each of the keys that has a value.
func NewLoader[K comparable, V any](statements func(tx *Tx, keys []K, found func(K, V)) []Statement) *Loader[K, V] {
	return &Loader[K, V]{statements}
}

// Prefetch names a value that is to be read before the functions of a transaction run.
type Prefetch struct {
	loader interface {
		load(tx *Tx, keys []any) []Statement
	}
	key any
}

// Prefetch returns a key of the loader for [DB.Write].
func (l *Loader[K, V]) Prefetch(key K) Prefetch { return Prefetch{l, key} }

// loaded is the result for one key.
type loaded[V any] struct {
	value V
	found bool
	execs int // of the transaction when the value was read
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

// Get returns the value of a key and whether there is one.
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

// prefetch returns the statements that read all the values, each key once.
func (t *Tx) prefetch(all []Prefetch) (statements []Statement) {
	seen := map[Prefetch]bool{}
	keys := map[any][]any{} // by loader
	var loaders []Prefetch  // the first prefetch of each loader, in order of first use
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
