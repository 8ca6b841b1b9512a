//go:build unix

package app

import (
	"errors"
	"os"
	"syscall"
)

// lockFile opens a file and locks it until the file is closed. locked reports whether another process has the lock.
func lockFile(path string) (f *os.File, locked bool, err error) {
	if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, false, err
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.Is(err, syscall.EWOULDBLOCK), err
	}
	return f, false, nil
}
