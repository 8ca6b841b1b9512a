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

// Subdirectories of a drop. In a local drop, missing subdirectories are created.
const (
	partOut   = "out"   // files for the bank, which removes them
	partTaken = "taken" // files that the bank received, if it keeps them
	partIn    = "in"    // responses of the bank
	partDone  = "done"  // processed responses
)

// Drop is a directory through which files are exchanged with a bank.
//
// A file is submitted in two steps, so that it is submitted at most once even if the program or the connection fails
// between them. Stage writes the whole file under a hidden name. Release renames it to its final name; a renamed file
// cannot be renamed again. A caller that stores the token of a staged file before the first call of Release may call
// Release repeatedly.
type Drop struct {
	name  string
	files files
}

// files connects to a directory, local or remote. Paths are relative, with slashes.
type files interface {
	// do calls f with the connected directory.
	do(ctx context.Context, f func(dir) error) error
}

// dir is a connected directory.
type dir interface {
	Mkdir(name string) error // no error if it exists
	Create(name string, body []byte) error
	Move(from, to string) error // fails if from does not exist or to exists
	Exists(name string) (bool, error)
	List(name string) ([]fs.FileInfo, error)
	Open(name string) (io.ReadCloser, error)
}

// Name returns the location of the drop, for logs.
func (d *Drop) Name() string { return d.name }

// fileName matches valid file names, which cannot leave their directory.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func staged(name, token string) string { return path.Join(partOut, "."+name+"."+token+".part") }

// Stage writes a complete file, synced to disk, under a hidden name. The token distinguishes attempts: the caller
// must never release an attempt whose token was not stored.
func (d *Drop) Stage(ctx context.Context, name, token string, body []byte) error {
	if !fileName.MatchString(name) || !fileName.MatchString(token) || len(body) == 0 {
		return fmt.Errorf("bank drop: the file name %q is invalid, or the file is empty", name)
	}
	return d.files.do(ctx, func(at dir) error {
		if err := at.Mkdir(partOut); err != nil {
			return err
		}
		return at.Create(staged(name, token), body)
	})
}

// Release makes a staged file visible to the bank. The outcome is Accepted if the bank received the file or can
// collect it, and Unknown otherwise. It is never Refused: a directory does not refuse files.
func (d *Drop) Release(ctx context.Context, name, token string) payout.Answer {
	if !fileName.MatchString(name) || !fileName.MatchString(token) {
		return payout.Answer{Reason: "bank drop: the file name is invalid"}
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
	return payout.Answer{Reason: fmt.Sprintf("neither the staged copy (%v) nor the file itself is in the drop", moved)}
}

// Find reports whether a file is in the drop, either waiting for the bank or kept there by the bank. A result of
// false does not prove that the bank never received the file: banks may delete files.
func (d *Drop) Find(ctx context.Context, name string) (found bool, err error) {
	if !fileName.MatchString(name) {
		return false, nil
	}
	err = d.files.do(ctx, func(at dir) (err error) { found, err = find(at, name); return err })
	return found, err
}

func find(at dir, name string) (bool, error) {
	for _, part := range []string{partOut, partTaken} { // in the order in which the bank moves files
		if found, err := at.Exists(path.Join(part, name)); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// Responses returns the sorted names of the response files. It ignores hidden files and invalid names.
func (d *Drop) Responses(ctx context.Context) (names []string, err error) {
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

// Read calls fn with the content of a response.
func (d *Drop) Read(ctx context.Context, name string, fn func(io.Reader) error) error {
	return d.files.do(ctx, func(at dir) error {
		f, err := at.Open(path.Join(partIn, name))
		if err != nil {
			return err
		}
		return errors.Join(fn(f), f.Close())
	})
}

// Done moves a response to the directory of processed responses. It returns no error if the response was already
// there.
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
		for n := 2; n < 100; n++ { // an earlier response may have had the same name
			if at.Move(from, fmt.Sprintf("%s.%d", to, n)) == nil {
				return nil
			}
		}
		return err
	})
}

// OpenFolder returns a drop in a local directory.
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

// Move renames a file. It does not link and unlink, because a crash between the two steps could leave both names, and
// the file could be submitted twice.
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
