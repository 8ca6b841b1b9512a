// Package freeport finds free ports on loopback, for servers of tests whose port must be known before they start or
// must stay the same after a restart. Other servers can simply listen on port 0.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Operating systems give outgoing connections ports from 32768 (Linux) or 49152 (others) upward. A free port in that
// range could be taken by a connection before the server starts.
const first, end = 16_384, 32_768

// Free returns an address that no server listens on, with a port that is not used for outgoing connections.
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
