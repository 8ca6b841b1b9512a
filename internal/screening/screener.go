package screening

import (
	"bytes"
	_ "embed" // the sandbox's list
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Screener holds the lists of a process and keeps them current. It is safe for concurrent use.
type Screener struct {
	paths     []string
	threshold int
	maxAge    time.Duration
	loaded    atomic.Pointer[[]file]
}

// file is a list with what tells whether it has changed since.
type file struct {
	list    *List
	path    string // "" for the sandbox's own
	changed time.Time
	size    int64
}

// Status is what there is to know of a list in use.
type Status struct {
	Path      string // "" for the sandbox's own
	Name      string
	Published time.Time
	Fetched   time.Time // when the file was last written; zero for the sandbox's own
	Entries   int
	Addresses int
}

// Options are a screener's settings.
type Options struct {
	// Paths are the files of the lists; see [Parse]. Without one there is the sandbox's list, of invented names.
	Paths []string
	// Threshold is how alike two names must be, in percent.
	Threshold int
	// MaxAge is how long after its file was last written a list is current. Zero: for ever.
	MaxAge time.Duration
}

// New makes a screener that has no lists yet; see Load.
func New(o Options) *Screener {
	return &Screener{paths: o.Paths, threshold: o.Threshold, maxAge: o.MaxAge}
}

//go:embed sandbox.xml
var sandboxList []byte

// Load reads the lists whose files have changed since they were read. A file that cannot be read leaves the list as it was,
// growing older, and is told. One process calls it at a time.
func (s *Screener) Load() (changed bool, err error) {
	var have []file
	if p := s.loaded.Load(); p != nil {
		have = *p
	}
	if len(s.paths) == 0 {
		if have != nil {
			return false, nil
		}
		list, err := Parse(bytes.NewReader(sandboxList))
		if err != nil {
			return false, err
		}
		list.Name = "sandbox"
		s.loaded.Store(&[]file{{list: list}})
		return true, nil
	}
	next := make([]file, len(s.paths))
	var problems []error
	for i, path := range s.paths {
		var old file
		if have != nil {
			old = have[i]
		}
		f, err := old.read(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("sanctions list %s: %w", path, err))
		}
		changed = changed || f.list != old.list
		next[i] = f
	}
	if changed {
		s.loaded.Store(&next)
	}
	return changed, errors.Join(problems...)
}

// read gives the file as it is now, or as it was together with what is wrong with it.
func (f file) read(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	if f.list != nil && info.ModTime().Equal(f.changed) && info.Size() == f.size {
		return f, nil
	}
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	list, err := Parse(in)
	if err != nil {
		return f, err
	}
	return file{list, path, info.ModTime(), info.Size()}, nil
}

func (s *Screener) lists() []*List {
	p := s.loaded.Load()
	if p == nil {
		return nil
	}
	var lists []*List
	for _, f := range *p {
		if f.list != nil {
			lists = append(lists, f.list)
		}
	}
	return lists
}

// Status says which lists are in use.
func (s *Screener) Status() []Status {
	p := s.loaded.Load()
	if p == nil {
		return nil
	}
	var all []Status
	for _, f := range *p {
		if f.list != nil {
			all = append(all, Status{f.path, f.list.Name, f.list.Published, f.changed, f.list.Entries, f.list.Addresses})
		}
	}
	return all
}

// Current says ErrUnavailable, with the reason, unless every list is there and young enough.
func (s *Screener) Current(now time.Time) error {
	p := s.loaded.Load()
	if p == nil {
		return fmt.Errorf("%w: none was read", ErrUnavailable)
	}
	for i, f := range *p {
		switch {
		case f.list == nil:
			return fmt.Errorf("%w: %s was never read", ErrUnavailable, s.paths[i])
		case f.path != "" && s.maxAge > 0 && now.Sub(f.changed) > s.maxAge:
			return fmt.Errorf("%w: %s was last written %s", ErrUnavailable, f.path, f.changed.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// Match looks for a name or an address on all lists, without noting anything.
func (s *Screener) Match(text string) []Match {
	var found []Match
	for _, list := range s.lists() {
		found = append(append(found, list.MatchAddress(text)...), list.Match(text, s.threshold)...)
	}
	return found
}
