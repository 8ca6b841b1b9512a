package ui

import (
	"net/netip"
	"net/url"
	"slices"

	"github.com/stipend/stipend/internal/identity"
)

// RemoteAddr returns the IP address of the client, or the zero address if it is unknown.
func (c *Request) RemoteAddr() netip.Addr {
	at, err := netip.ParseAddrPort(c.HTTP.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// OnThisMachine reports whether the client runs on the same machine as a sandbox that is configured for this
// machine only. Because a local proxy makes every client look local, BaseURL and the Host header must be loopback
// names too, and there must be no forwarding header. The Host check also stops DNS rebinding.
func (c *Request) OnThisMachine() bool {
	u, err := url.Parse(c.BaseURL)
	if err != nil || c.Env != identity.Sandbox {
		return false
	}
	asked := url.URL{Host: c.HTTP.Host}
	from := url.URL{Host: c.HTTP.RemoteAddr}
	forwarded := slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host"},
		func(name string) bool { return c.HTTP.Header.Get(name) != "" })
	return isLoopbackName(u.Hostname()) && isLoopbackName(asked.Hostname()) && isLoopbackName(from.Hostname()) &&
		!forwarded
}

// isLoopbackName reports whether name is "localhost" or a loopback address.
func isLoopbackName(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
