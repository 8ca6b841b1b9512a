// Package bank pays by files of credit transfers that a bank's own software collects from a folder.
//
// An order is one file, its reference the file's name and message id. The folder has two parts: "out", where
// files wait, and "taken", where the collector moves what it has sent on. A file appears complete or not at
// all, and a reference that is in either part is never written again, so submitting twice pays once.
package bank

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stipend/stipend/internal/rail"
)

// Folder is the rail.
type Folder struct {
	dir string
	// link makes a file appear under its final name; a variable so that tests can break the line.
	link func(from, to string) error
}

var _ rail.Rail = (*Folder)(nil)

// Open makes the folder's parts where they are missing.
func Open(dir string) (*Folder, error) {
	for _, part := range []string{"out", "taken"} {
		if err := os.MkdirAll(filepath.Join(dir, part), 0o700); err != nil {
			return nil, fmt.Errorf("bank folder: %w", err)
		}
	}
	return &Folder{dir: dir, link: os.Link}, nil
}

// Name says where the files go.
func (f *Folder) Name() string { return "bank " + f.dir }

// Submit leaves the file for the collector.
func (f *Folder) Submit(ctx context.Context, o rail.Order) rail.Answer {
	if !validReference(o.Reference) || len(o.Body) == 0 {
		return rail.Answer{Outcome: rail.Refused, Reason: "the order has no usable reference or no body"}
	}
	if err := ctx.Err(); err != nil {
		return unclear(err)
	}
	switch have, err := f.read(o.Reference); {
	case err != nil:
		return unclear(err)
	case have != nil:
		return same(have, o.Body)
	}
	final := f.path("out", o.Reference)
	temp, err := os.CreateTemp(f.dir, ".new-*")
	if err != nil {
		return unclear(err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // what is linked stays under its other name
	_, err = temp.Write(o.Body)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return unclear(err)
	}
	// A link fails when the name exists, which a rename does not: two submissions at once make one file.
	if err := f.link(temp.Name(), final); errors.Is(err, fs.ErrExist) {
		have, err := f.read(o.Reference)
		if err != nil {
			return unclear(err)
		}
		return same(have, o.Body)
	} else if err != nil {
		return unclear(err)
	}
	if err := syncDir(filepath.Dir(final)); err != nil {
		return unclear(err)
	}
	return rail.Answer{Outcome: rail.Accepted}
}

// Find looks in both parts of the folder.
func (f *Folder) Find(_ context.Context, reference string) (bool, error) {
	if !validReference(reference) {
		return false, nil
	}
	have, err := f.read(reference)
	return have != nil, err
}

// read is the file of a reference, nil when there is none. It looks in "out" first: files move to "taken", never
// back, so one that moves meanwhile is found there.
func (f *Folder) read(reference string) ([]byte, error) {
	for _, part := range []string{"out", "taken"} {
		b, err := os.ReadFile(f.path(part, reference))
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, nil
}

func (f *Folder) path(part, reference string) string {
	return filepath.Join(f.dir, part, reference+".xml")
}

func same(have, want []byte) rail.Answer {
	if bytes.Equal(have, want) {
		return rail.Answer{Outcome: rail.Accepted}
	}
	return rail.Answer{Outcome: rail.Refused, Reason: "another order has this reference"}
}

func unclear(err error) rail.Answer {
	return rail.Answer{Outcome: rail.Unclear, Reason: err.Error()}
}

// validReference keeps references inside the folder, and within the 35 characters of a bank message id.
func validReference(s string) bool {
	if len(s) == 0 || len(s) > 35 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
