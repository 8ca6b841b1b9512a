//go:build !linux

package signer

// Harden does nothing on systems other than Linux.
func Harden() (locked bool, err error) { return false, nil }
