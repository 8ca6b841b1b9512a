//go:build !unix

package app

import "os"

// lockFile does not lock: this system has other ways, which nobody has needed yet.
func lockFile(path string) (f *os.File, taken bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	return f, false, err
}
