// Package freeport finds ports on loopback for the servers of tests whose port must be known before they start, or be
// the same
// after a restart. Who can listen on port 0 and ask which one it became needs nothing of this.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Systems give outgoing connections ports from 32768 up (Linux) or from 49152 up (the others). One from there that is
// free now may be some
// connection's end a moment later, and its server cannot start.
const first, end = 16_384, 32_768

// Free is an address nobody listens on, whose port no outgoing connection is given by chance.
func Free() (string, error) {
	var last error
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		last = err
	}
	return "", fmt.Errorf("porttest: no port is free: %w", last)
}
