// Package datakey encrypts all stored secrets again after the data key was replaced, so that the old key can be
// removed.
//
// A rotation is a job that reads the tables of [Columns] page by page, and encrypts with the current key all values
// that another key encrypts. Each page is one transaction that also enqueues the job for the next page, so nothing is
// lost if a process dies, and only one process works at a time. A value is replaced only if it has not changed since
// it was read.
//
// A pass reads all columns once. Passes are repeated until a complete pass has begun more than settle after the last
// change. By then, every transaction that read a row before that change has ended and can no longer store an old
// value. Finally, [Finish] searches all text columns of the database, including columns that are not in Columns. The
// rotation is finished only if Finish finds no value with another key.
//
// The package never stores a key. It refers to keys by names, which are digests (see [identity.Sealer]).
package datakey

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
)

// JobRotate is the kind of job that encrypts the next page of a rotation.
const JobRotate = "datakey.rotate"

const (
	// settle is how long after the last change a pass must begin to be the last pass. Every transaction ends within this
	// time.
	settle = 2 * time.Minute

	pageRows = 200 // rows that are read at once
	jobPages = 10  // maximum number of pages without a change in one transaction
)

// DefaultRate is the default number of rows that are read per second.
const DefaultRate = 2000

// Errors for a rotation that cannot start.
var (
	ErrNoOtherKey = errors.New("no other key is set: put the new key in STIPEND_DATA_KEY and the old one in " +
		"STIPEND_DECRYPT_DATA_KEYS")
	ErrRunning = errors.New("a rotation is running already; see stipend datakey status")
)

// Rotation is the state of the newest rotation.
type Rotation struct {
	Key      string    `json:"key"`   // name of the key that encrypts
	Others   []string  `json:"other"` // names of the keys that are being replaced
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Values   int64     `json:"values"` // number of values that were encrypted again
	Pass     int       `json:"pass"`   // number of the current or last pass, starting at 1
	// Changed is the time at which a value was last encrypted again. Began is the time at which the current pass began.
	Changed time.Time `json:"changed,omitzero"`
	Began   time.Time `json:"began"`
	// Passed is the time at which the last pass ended. It is zero if all columns have been searched since then.
	Passed time.Time `json:"passed,omitzero"`
	// Failed is the number of values that no key decrypted in the current pass, and FirstFailed describes the first of
	// them. Left is the result of a search of all columns.
	Failed      int64  `json:"failed,omitempty"`
	FirstFailed string `json:"first_failed,omitempty"`
	Left        []Left `json:"left,omitempty"`
	Rate        int    `json:"rate"` // rows per second
}

// Left is a column that contains values encrypted with another key.
type Left struct {
	Table  string `json:"table"`
	Column string `json:"column"`
	Values int64  `json:"values"`
}

// next is the payload of [JobRotate]: the position at which the pass continues.
type next struct {
	Started time.Time `json:"started"` // start of the rotation
	Column  int       `json:"column"`  // index in Columns
	After   []string  `json:"after,omitempty"`
}

const setting = "data_key"

// State returns the newest rotation, or nil if there is none.
func State(ctx context.Context, tx *db.Tx) (*Rotation, error) {
	text, err := db.Setting(ctx, tx, setting)
	if err != nil || text == "" {
		return nil, err
	}
	r := new(Rotation)
	return r, json.Unmarshal([]byte(text), r)
}

func (r *Rotation) store(ctx context.Context, tx *db.Tx) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return db.SetSetting(ctx, tx, setting, string(text))
}

// Start starts a rotation from the other keys of a sealer to the sealer's current key.
func Start(ctx context.Context, tx *db.Tx, s *identity.Sealer, rate int) (*Rotation, error) {
	if len(s.OtherKeys()) == 0 {
		return nil, ErrNoOtherKey
	}
	old, err := State(ctx, tx)
	if err != nil {
		return nil, err
	}
	if old != nil && old.Finished.IsZero() && old.Key == s.Key() {
		return nil, ErrRunning
	}
	r := &Rotation{Key: s.Key(), Others: s.OtherKeys(), Started: tx.Now(), Began: tx.Now(), Pass: 1, Rate: max(rate, 1)}
	job.Enqueue(tx, job.New{Kind: JobRotate, Payload: next{Started: r.Started}})
	return r, r.store(ctx, tx)
}

// Check returns an error if a process with these keys must not start, because the data key was rotated to another
// key, or because the process could not decrypt some stored values.
func Check(ctx context.Context, tx *db.Tx, s *identity.Sealer) error {
	r, err := State(ctx, tx)
	if err != nil || r == nil {
		return err
	}
	if r.Key != s.Key() {
		return fmt.Errorf("the data key was rotated to the key with the fingerprint %s: put it in STIPEND_DATA_KEY, which "+
			"has %s", r.Key, s.Key())
	}
	if !r.Finished.IsZero() {
		return nil
	}
	for _, name := range r.Others {
		if !slices.Contains(s.OtherKeys(), name) {
			return fmt.Errorf("the rotation of the data key is not finished: put the key with the fingerprint %s in "+
				"STIPEND_DECRYPT_DATA_KEYS", name)
		}
	}
	return nil
}

// Handle returns the handler of [JobRotate]. It logs values that no key decrypts, and the end of the rotation.
func Handle(s *identity.Sealer, log *slog.Logger) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		var at next
		if err := j.Decode(&at); err != nil {
			return err
		}
		r, err := State(ctx, tx)
		if err != nil || r == nil || !r.Started.Equal(at.Started) || !r.Finished.IsZero() {
			return err // another rotation has replaced this one
		}
		if err := Check(ctx, tx, s); err != nil {
			return errors.Join(fmt.Errorf("restart this process with other keys: %w", err), job.ErrRetryLater)
		}
		w := work{r, s, log}
		rows, err := w.pages(ctx, tx, &at)
		if err != nil {
			return err
		}
		switch {
		case at.Column < len(Columns):
			wait := time.Duration(rows) * time.Second / time.Duration(r.Rate)
			job.Enqueue(tx, job.New{Kind: JobRotate, Payload: at, RunAt: tx.Now().Add(wait)})
		case r.Changed.IsZero() || !r.Began.Before(r.Changed.Add(settle)):
			r.Passed = tx.Now()
		default:
			r.pass(tx, settle)
		}
		return r.store(ctx, tx)
	}
}

// work is one job of a rotation.
type work struct {
	*Rotation
	sealer *identity.Sealer
	log    *slog.Logger
}

// pages encrypts pages until a page has changed or enough pages were read. It sets at to the position after them, and
// returns the number of rows read.
func (w work) pages(ctx context.Context, tx *db.Tx, at *next) (rows int, err error) {
	for range jobPages {
		if at.Column == len(Columns) {
			return rows, nil
		}
		c := Columns[at.Column]
		p, err := c.page(ctx, tx, w.Others, at.After)
		if err != nil {
			return rows, err
		}
		rows += p.rows
		changed := false
		for _, v := range p.values {
			ok, err := w.reseal(ctx, tx, c, v)
			if err != nil {
				return rows, err
			}
			changed = changed || ok
		}
		if at.After = nil; p.last == nil {
			at.Column++
		}
		for _, k := range p.last {
			at.After = append(at.After, fmt.Sprint(k))
		}
		if changed {
			w.Changed = tx.Now()
			return rows, nil
		}
	}
	return rows, nil
}

// reseal encrypts a value again, and reports whether it did.
func (w work) reseal(ctx context.Context, tx *db.Tx, c Column, v value) (bool, error) {
	failed := error(nil)
	text := sealedText.ReplaceAllStringFunc(v.text, func(sealed string) string {
		at, err := c.context(v)
		if err == nil {
			sealed, err = w.sealer.Reseal(at, sealed)
		}
		if err != nil {
			failed = err
		}
		return sealed
	})
	if failed != nil {
		where := fmt.Sprintf("%s.%s of %v", c.Table, c.Name, v.key)
		if w.Failed++; w.FirstFailed == "" {
			w.FirstFailed = where
		}
		w.log.Error("a value cannot be encrypted with the new data key", "value", where, "error", failed)
	}
	if text == v.text {
		return false, nil
	}
	n, err := c.replace(ctx, tx, v, text)
	w.Values += n
	return n == 1, err
}

// pass begins another pass after the given time.
func (r *Rotation) pass(tx *db.Tx, wait time.Duration) {
	r.Pass++
	r.Began, r.Passed, r.Failed, r.FirstFailed = tx.Now().Add(wait), time.Time{}, 0, ""
	job.Enqueue(tx, job.New{Kind: JobRotate, Payload: next{Started: r.Started}, RunAt: r.Began})
}

// Finish searches all columns if the passes of a rotation are complete. If it finds no value with another key, the
// rotation is finished. Otherwise it logs the columns that contain such values, and another pass begins an hour
// later.
func Finish(ctx context.Context, d *db.DB, log *slog.Logger) error {
	var r *Rotation
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		r, err = State(ctx, tx)
		return err
	}); err != nil || r == nil || r.Passed.IsZero() || !r.Finished.IsZero() {
		return err
	}
	left, err := Search(ctx, d, r.Key)
	if err != nil {
		return err
	}
	started, passed := r.Started, r.Passed
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		r, err := State(ctx, tx)
		if err != nil || !r.Started.Equal(started) || !r.Passed.Equal(passed) || !r.Finished.IsZero() {
			return err // another process has already finished the rotation
		}
		if r.Left = left; len(left) > 0 {
			log.Error("values are left that another data key encrypts", "columns", left)
			r.pass(tx, time.Hour)
		} else {
			r.Finished = tx.Now()
			log.Info("the rotation of the data key is finished", "key", r.Key, "values", r.Values)
		}
		return r.store(ctx, tx)
	})
}

// sealedText matches an encrypted value, which has at least 28 bytes in base64.
var sealedText = regexp.MustCompile(`v1\.[0-9a-f]{8}\.[A-Za-z0-9+/]{38,}`)

// otherKeys returns the number of values in a text that are encrypted with a key other than the named one.
func otherKeys(text, key string) (n int64) {
	for _, sealed := range sealedText.FindAllString(text, -1) {
		if !strings.HasPrefix(sealed, "v1."+key+".") {
			n++
		}
	}
	return n
}
