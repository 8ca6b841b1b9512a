package app

import (
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/stipend/stipend/internal/auth/session"
)

// networkShare limits the connections of one network to this fraction of all: one divided by networkShare.
const networkShare = 8

// fairListener closes a new connection from a network that already has most of the connections, so that one network
// cannot use up all connections. Proxies and this machine are not limited, because they connect on behalf of many
// clients.
type fairListener struct {
	net.Listener
	most    int
	proxies []netip.Prefix

	mu   sync.Mutex
	open map[netip.Addr]int
}

func newFairListener(l net.Listener, most int, proxies []netip.Prefix) net.Listener {
	return &fairListener{Listener: l, most: most, proxies: proxies, open: map[netip.Addr]int{}}
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil || l.unlimited(from.Addr().Unmap()) {
			return conn, nil //nolint:nilerr // a connection without a network address, such as a Unix socket, is not counted
		}
		network := session.Network(from.Addr())
		if l.enter(network) {
			return &fairConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(network) })}, nil
		}
		_ = conn.Close()
	}
}

func (l *fairListener) unlimited(from netip.Addr) bool {
	return from.IsLoopback() || slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

func (l *fairListener) enter(network netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[network] >= l.most {
		return false
	}
	l.open[network]++
	return true
}

func (l *fairListener) leave(network netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[network]--; l.open[network] == 0 {
		delete(l.open, network)
	}
}

type fairConn struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *fairConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
