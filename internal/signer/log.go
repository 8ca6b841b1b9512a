package signer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gofrs/flock"

	"github.com/stipend/stipend/internal/money"
)

// Kinds of entries.
const (
	kindStart  = "start"  // the process started with a policy
	kindSeen   = "seen"   // a destination was named for the first time
	kindSign   = "sign"   // a transaction was permitted; its signature follows
	kindRefuse = "refuse" // a transaction was refused
)

// Entry is one entry of the log. Hash is the SHA-256 of the entry with an empty Hash; Prev is that of the entry before
// it.
type Entry struct {
	Seq         int64                 `json:"seq"`
	Time        time.Time             `json:"time"`
	Kind        string                `json:"kind"`
	Policy      string                `json:"policy,omitempty"`
	Chain       string                `json:"chain,omitempty"`
	Transaction string                `json:"transaction,omitempty"`
	Spends      string                `json:"spends,omitempty"`
	Inputs      []string              `json:"inputs,omitempty"`
	Payments    []Payment             `json:"payments,omitempty"`
	Totals      map[money.Asset]int64 `json:"totals,omitempty"`
	Approvals   []string              `json:"approvals,omitempty"`
	Code        Code                  `json:"code,omitempty"`
	Detail      string                `json:"detail,omitempty"`
	Prev        string                `json:"prev"`
	Hash        string                `json:"hash"`
}

func (e Entry) seal() (Entry, []byte, error) {
	e.Hash = ""
	text, err := json.Marshal(e)
	if err != nil {
		return e, nil, err
	}
	sum := sha256.Sum256(text)
	e.Hash = hex.EncodeToString(sum[:])
	text, err = json.Marshal(e)
	return e, append(text, '\n'), err
}

// ErrLogBroken is returned for a log that was changed.
var ErrLogBroken = errors.New("signer: the log was changed or cut; restore it from a copy, or start a new one after " +
	"you know why")

// Log is an append-only file with one entry per line. Each entry is on the disk before Append returns. After a failed
// write it accepts no further entries: only OpenLog finds out where the last complete entry ends.
type Log struct {
	file    file
	failed  error // the error of the first write that failed
	lock    *flock.Flock
	seq     int64
	hash    string
	entries []Entry // read at the start, for the service
}

// file is what a Log needs of its file.
type file interface {
	io.WriteCloser
	Sync() error
}

// OpenLog opens or creates a log, verifies it, and locks it against other processes. An incomplete last line, which a
// crash left before its transaction was signed, is removed.
func OpenLog(path string) (*Log, error) {
	lock := flock.New(path + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return nil, fmt.Errorf("signer: another process uses the log %s (%w)", path, errors.Join(err))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	l := &Log{file: f, lock: lock}
	end, err := ReadLog(f, func(e Entry) { l.seq, l.hash, l.entries = e.Seq, e.Hash, append(l.entries, e) })
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ReadLog verifies a log and calls visit for each entry. It returns where the last complete entry ends, and
// ErrLogBroken if an entry does not follow the one before it.
func ReadLog(r io.Reader, visit func(Entry)) (end int64, err error) {
	lines := bufio.NewReader(r)
	var last Entry
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		var e Entry
		if json.Unmarshal(line, &e) != nil {
			return end, fmt.Errorf("%w (after entry %d)", ErrLogBroken, last.Seq)
		}
		sealed, text, err := e.seal()
		if err != nil || sealed.Hash != e.Hash || string(text) != string(line) || e.Prev != last.Hash || e.Seq != last.Seq+1 {
			return end, fmt.Errorf("%w (entry %d)", ErrLogBroken, last.Seq+1)
		}
		end += int64(len(line))
		last = e
		visit(e)
	}
}

// Append writes an entry and waits until the disk has it. After an error it returns an error until the log is opened
// again.
func (l *Log) Append(e Entry) (Entry, error) {
	if l.failed != nil {
		return e, fmt.Errorf("signer: an earlier write to the log failed; restart the signer: %w", l.failed)
	}
	e.Seq, e.Prev = l.seq+1, l.hash
	e, text, err := e.seal()
	if err != nil {
		return e, err
	}
	if _, err = l.file.Write(text); err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.failed = err
		return e, fmt.Errorf("signer: the log cannot be written: %w", err)
	}
	l.seq, l.hash = e.Seq, e.Hash
	return e, nil
}

// Close closes the log and unlocks it.
func (l *Log) Close() error { return errors.Join(l.file.Close(), l.lock.Unlock()) }

// spent is what one set of inputs may pay.
type spent struct {
	at     time.Time
	totals map[money.Asset]int64
}

// reserved is a permitted payment that is not signed yet.
type reserved struct {
	asset   money.Asset
	units   int64
	expires time.Time
}

// state is what the limits need to know about the past.
type state struct {
	seen     map[string]time.Time // first time of each destination
	spent    map[string]spent     // by the identity of the inputs, for a day
	coins    map[string]string    // coins that were signed for, with their amounts
	approved map[string]string    // used approvals, with the inputs that they were used for
	refusals map[string]time.Time
	reserved map[string]reserved // permitted payments that are not signed yet
	refused  int64
}

func newState() state {
	return state{seen: map[string]time.Time{}, spent: map[string]spent{}, coins: map[string]string{},
		approved: map[string]string{}, refusals: map[string]time.Time{},
		reserved: map[string]reserved{}}
}

// add counts an entry.
func (s *state) add(e Entry) {
	switch e.Kind {
	case kindSeen:
		for _, p := range e.Payments {
			if _, ok := s.seen[p.destination()]; !ok {
				s.seen[p.destination()] = e.Time
			}
		}
	case kindSign:
		now := spent{at: e.Time, totals: map[money.Asset]int64{}}
		for asset, units := range e.Totals {
			now.totals[asset] = units
		}
		for asset, units := range s.spent[e.Spends].totals {
			now.totals[asset] = max(now.totals[asset], units)
		}
		s.spent[e.Spends] = now
		for _, in := range e.Inputs {
			point, amount := splitInput(in)
			s.coins[point] = amount
		}
		for _, a := range e.Approvals {
			s.approved[a] = e.Spends
		}
	}
}

// sum returns what was signed since a time in one asset, by other inputs than the given ones. It forgets what is older
// than a day.
func (s *state) sum(asset money.Asset, except string, since time.Time) (total int64) {
	for id, w := range s.spent {
		if id != except && w.at.After(since) {
			total += w.totals[asset]
		}
	}
	return total
}

// reservedSum returns the sum of the permitted payments in one asset that are not signed yet.
func (s *state) reservedSum(asset money.Asset) (total int64) {
	for _, r := range s.reserved {
		if r.asset == asset {
			total += r.units
		}
	}
	return total
}

// forget drops what no limit needs any more.
func (s *state) forget(now time.Time) {
	for id, w := range s.spent {
		if now.Sub(w.at) > 25*time.Hour {
			delete(s.spent, id)
		}
	}
	for id, r := range s.reserved {
		if now.After(r.expires) {
			delete(s.reserved, id)
		}
	}
	for id, at := range s.refusals {
		if now.Sub(at) > time.Hour {
			delete(s.refusals, id)
		}
	}
}

// maxRefusals bounds the number of refusals that are logged in an hour.
const maxRefusals = 1000

// firstRefusal reports whether a refusal is the first of its kind within an hour.
func (s *state) firstRefusal(id string, now time.Time) bool {
	s.forget(now)
	if _, ok := s.refusals[id]; ok || len(s.refusals) >= maxRefusals {
		return false
	}
	s.refusals[id] = now
	return true
}
