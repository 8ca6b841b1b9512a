package bank

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/stipend/stipend/internal/payout"
)

// The parts of a drop. Where it keeps files of its own it makes the parts that are missing.
const (
	partOut   = "out"   // files that wait for the bank, which takes them away
	partTaken = "taken" // files that the bank took, where it leaves them to be seen
	partIn    = "in"    // answers of the bank
	partDone  = "done"  // answers that have been read
)

// Drop is where a bank and we leave files for each other.
//
// Handing a file over takes two steps, so that it happens at most once whatever breaks in between: Stage leaves the whole file under
// a name that the bank does not look at, and Release gives it its name by moving it there. What was moved is not there to be moved again.
// Who remembers the token of a staged file before the first Release may call Release as often as wanted.
type Drop struct {
	name  string
	files files
}

// files is what a drop needs of a directory, on this machine or another one. Paths are relative, with slashes.
type files interface {
	// do runs f while there is a way to the directory.
	do(ctx context.Context, f func(dir) error) error
}

// dir is a directory that is reached.
type dir interface {
	Mkdir(name string) error // an existing one is none's error
	Create(name string, body []byte) error
	Move(from, to string) error // fails when there is nothing to move; never takes the place of something
	Exists(name string) (bool, error)
	List(name string) ([]fs.FileInfo, error)
	Open(name string) (io.ReadCloser, error)
}

// Name says where it is, for logs.
func (d *Drop) Name() string { return d.name }

// fileName keeps names within their part.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func staged(name, token string) string { return path.Join(partOut, "."+name+"."+token+".part") }

// Stage leaves a file, complete and on disk, where the bank does not look. The token tells attempts apart: an attempt whose token
// nobody remembers is never released.
func (d *Drop) Stage(ctx context.Context, name, token string, body []byte) error {
	if !fileName.MatchString(name) || !fileName.MatchString(token) || len(body) == 0 {
		return fmt.Errorf("bank drop: %q is no name of a file, or it is empty", name)
	}
	return d.files.do(ctx, func(at dir) error {
		if err := at.Mkdir(partOut); err != nil {
			return err
		}
		return at.Create(staged(name, token), body)
	})
}

// Release lets the bank see a staged file. It answers Accepted when the bank has it or can take it, and Unclear for everything else. It
// never answers Refused: a directory refuses no file.
func (d *Drop) Release(ctx context.Context, name, token string) payout.Answer {
	if !fileName.MatchString(name) || !fileName.MatchString(token) {
		return payout.Answer{Reason: "bank drop: no name of a file"}
	}
	var found bool
	var moved error
	err := d.files.do(ctx, func(at dir) (err error) {
		if moved = at.Move(staged(name, token), path.Join(partOut, name)); moved == nil {
			found = true
			return nil
		}
		found, err = find(at, name)
		return err
	})
	switch {
	case err != nil:
		return payout.Answer{Reason: errors.Join(moved, err).Error()}
	case found:
		return payout.Answer{Outcome: payout.Accepted}
	}
	return payout.Answer{Reason: fmt.Sprintf("the file is neither where it was staged (%v) nor where the bank takes it", moved)}
}

// Find reports whether the bank has a file or can take it. False is no proof that it never did: banks take files away.
func (d *Drop) Find(ctx context.Context, name string) (found bool, err error) {
	if !fileName.MatchString(name) {
		return false, nil
	}
	err = d.files.do(ctx, func(at dir) (err error) { found, err = find(at, name); return err })
	return found, err
}

func find(at dir, name string) (bool, error) {
	for _, part := range []string{partOut, partTaken} { // in the order in which files move
		if found, err := at.Exists(path.Join(part, name)); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Answers lists the files that the bank has left, by name. Files whose names begin with a dot, and those with other characters than names
// have, are not the bank's yet.
func (d *Drop) Answers(ctx context.Context) (names []string, err error) {
	err = d.files.do(ctx, func(at dir) error {
		all, err := at.List(partIn)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		names = names[:0]
		for _, f := range all {
			if f.Mode().IsRegular() && fileName.MatchString(f.Name()) {
				names = append(names, f.Name())
			}
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// Read hands an answer to a function.
func (d *Drop) Read(ctx context.Context, name string, fn func(io.Reader) error) error {
	return d.files.do(ctx, func(at dir) error {
		f, err := at.Open(path.Join(partIn, name))
		if err != nil {
			return err
		}
		return errors.Join(fn(f), f.Close())
	})
}

// Done puts an answer away. One that is away already is no error.
func (d *Drop) Done(ctx context.Context, name string) error {
	return d.files.do(ctx, func(at dir) error {
		if err := at.Mkdir(partDone); err != nil {
			return err
		}
		from, to := path.Join(partIn, name), path.Join(partDone, name)
		err := at.Move(from, to)
		if err == nil {
			return nil
		}
		if there, missing := at.Exists(from); missing == nil && !there {
			return nil
		}
		for n := 2; n < 100; n++ { // the bank has used the name before
			if at.Move(from, fmt.Sprintf("%s.%d", to, n)) == nil {
				return nil
			}
		}
		return err
	})
}

// OpenFolder makes a directory of this machine a drop.
func OpenFolder(root string) (*Drop, error) {
	for _, part := range []string{partOut, partTaken, partIn, partDone} {
		if err := os.MkdirAll(filepath.Join(root, part), 0o700); err != nil {
			return nil, fmt.Errorf("bank folder: %w", err)
		}
	}
	return &Drop{name: root, files: folder(root)}, nil
}

type folder string

func (f folder) do(ctx context.Context, fn func(dir) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fn(f)
}

func (f folder) at(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

func (f folder) Mkdir(name string) error {
	if err := os.Mkdir(f.at(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (f folder) Create(name string, body []byte) error {
	file, err := os.OpenFile(f.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	return errors.Join(err, file.Sync(), file.Close(), syncDir(filepath.Dir(f.at(name))))
}

// Move renames. A link and its removal would leave a moment in which a crash keeps both names, and the file could be moved twice.
func (f folder) Move(from, to string) error {
	if there, err := f.Exists(to); err != nil || there {
		return errors.Join(err, fs.ErrExist)
	}
	if err := os.Rename(f.at(from), f.at(to)); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(f.at(to))), syncDir(filepath.Dir(f.at(from))))
}

func (f folder) Exists(name string) (bool, error) {
	_, err := os.Lstat(f.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (f folder) List(name string) ([]fs.FileInfo, error) {
	entries, err := os.ReadDir(f.at(name))
	all := make([]fs.FileInfo, 0, len(entries))
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all = append(all, info)
		}
	}
	return all, err
}

func (f folder) Open(name string) (io.ReadCloser, error) { return os.Open(f.at(name)) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
