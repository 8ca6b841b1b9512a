package signer

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Harden keeps the keys of the process out of core dumps, of other processes of its user, and, if the system allows it,
// of swap. locked reports whether memory is locked; that needs an unlimited RLIMIT_MEMLOCK.
func Harden() (locked bool, err error) {
	err = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // no core dumps, and no debugger of the same user
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) != nil && err != nil {
		err = errors.New("signer: core dumps cannot be turned off")
	}
	var most unix.Rlimit
	// With a limit, a later allocation would end the process.
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &most) == nil && most.Cur == unix.RLIM_INFINITY {
		locked = unix.Mlockall(unix.MCL_CURRENT|unix.MCL_FUTURE|unix.MCL_ONFAULT) == nil
	}
	return locked, err
}
