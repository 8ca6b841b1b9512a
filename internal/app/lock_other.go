//go:build !unix

package app

import "os"

// lockFile opens a file without locking it, because locking is implemented only for Unix.
func lockFile(path string) (f *os.File, locked bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	return f, false, err
}
