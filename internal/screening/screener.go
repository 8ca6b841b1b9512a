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

// Screener holds the sanctions lists in memory and reloads them.
type Screener struct {
	paths     []string
	threshold int
	maxAge    time.Duration
	loaded    atomic.Pointer[[]file]
}

// file is a list with the modification time and size of its file, from which changes of the file are detected.
type file struct {
	list    *List
	path    string // "" for the embedded sandbox list
	changed time.Time
	size    int64
}

// Status describes a list in use.
type Status struct {
	Path      string // "" for the embedded sandbox list
	Name      string
	Published time.Time
	Fetched   time.Time // modification time of the file; zero for the sandbox list
	Entries   int
	Addresses int
}

// Options are a screener's settings.
type Options struct {
	// Paths are the files of the lists; see [Parse]. If there are none, the sandbox's list of fictitious names is used.
	Paths []string
	// Threshold is the minimum similarity of matching names in percent.
	Threshold int
	// MaxAge is the maximum age of a list's file for the list to count as current. 0 means no limit.
	MaxAge time.Duration
}

// New returns a screener without lists; until Load has read the lists, Screen returns ErrUnavailable. New returns an
// error for invalid options, such as a threshold with which no name or every name would match.
func New(o Options) (*Screener, error) {
	if o.Threshold < 1 || o.Threshold > 100 {
		return nil, fmt.Errorf("the screening threshold is %d percent; use 1 to 100, for example 85", o.Threshold)
	}
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("the maximum age of sanctions lists is %s; use 0 for no limit, or a positive time", o.MaxAge)
	}
	for _, path := range o.Paths {
		if path == "" {
			return nil, errors.New("the path of a sanctions list is empty; remove it or set a file")
		}
	}
	return &Screener{paths: o.Paths, threshold: o.Threshold, maxAge: o.MaxAge}, nil
}

//go:embed sandbox.xml
var sandboxList []byte

// Load reads the lists whose files have changed. If a file cannot be read, Load returns an error, and the previous
// list stays in use until it reaches MaxAge. Calls must not be concurrent.
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

// read returns the current contents of the file, or the previous contents and an error.
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

// Status returns the lists in use.
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

// Current returns ErrUnavailable, with the reason, unless every list was read and none is older than MaxAge.
func (s *Screener) Current(now time.Time) error {
	p := s.loaded.Load()
	if p == nil {
		return fmt.Errorf("%w: no list was read", ErrUnavailable)
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

// Match returns the matches of a name or an address in all lists. It stores nothing.
func (s *Screener) Match(text string) []Match {
	var found []Match
	for _, list := range s.lists() {
		found = append(append(found, list.MatchAddress(text)...), list.Match(text, s.threshold)...)
	}
	return found
}
