package app

import (
	"net"
	"net/netip"
	"testing"
)

// queue is a listener that accepts given connections.
type queue struct {
	net.Listener
	conns []net.Conn
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	if len(q.conns) == 0 {
		return nil, net.ErrClosed
	}
	conn := q.conns[0]
	q.conns = q.conns[1:]
	return conn, nil
}

// connFrom is a connection from an address.
type connFrom struct {
	net.Conn
	addr string
}

// RemoteAddr implements net.Conn.
func (c connFrom) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
}

// A network that holds its share of the connections gets no further ones, while others do.
func TestOneNetworkDoesNotUseUpTheConnections(t *testing.T) {
	var conns []net.Conn
	for _, addr := range []string{
		"198.51.100.7:1", "198.51.100.7:2", "198.51.100.7:3", "203.0.113.9:1", "[2001:db8::1]:1", "[2001:db8::2]:1",
		"[2001:db8::3]:1", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3",
	} {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close(); there.Close() })
		conns = append(conns, connFrom{here, addr})
	}
	l := newFairListener(&queue{conns: conns}, 2, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
	var got []string
	var first net.Conn
	for {
		conn, err := l.Accept()
		if err != nil {
			break
		}
		if first == nil {
			first = conn
		}
		got = append(got, conn.RemoteAddr().String())
	}
	if len(got) != 11 || got[2] != "203.0.113.9:1" || got[5] != "127.0.0.1:1" {
		t.Errorf("%q are accepted", got)
	}
	first.Close()
	first.Close() // which counts once
	here, there := net.Pipe()
	defer there.Close()
	conns = []net.Conn{connFrom{here, "198.51.100.7:4"}, connFrom{here, "198.51.100.7:5"}}
	l.(*fairListener).Listener = &queue{conns: conns}
	if conn, err := l.Accept(); err != nil || conn.RemoteAddr().String() != "198.51.100.7:4" {
		t.Errorf("after a connection has ended: %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("a connection that was closed twice counts twice")
	}
}
