package ui

import (
	"net/netip"
	"net/url"
	"slices"

	"github.com/stipend/stipend/internal/identity"
)

// OnThisMachine says whether the reader sits at the machine of a sandbox that is for this machine only. Behind a proxy everybody seems to,
// so the address at which browsers find the pages must be of this machine as well, and the one that was asked for: neither a proxy
// that says so itself, nor a page elsewhere whose name was made to lead here, reads what is for who sits here.
func (c *Request) OnThisMachine() bool {
	u, err := url.Parse(c.BaseURL)
	if err != nil || c.Env != identity.Sandbox {
		return false
	}
	asked := url.URL{Host: c.HTTP.Host}
	from := url.URL{Host: c.HTTP.RemoteAddr}
	forwarded := slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host"}, func(name string) bool { return c.HTTP.Header.Get(name) != "" })
	return isLoopbackName(u.Hostname()) && isLoopbackName(asked.Hostname()) && isLoopbackName(from.Hostname()) && !forwarded
}

// isLoopbackName says whether a name is this machine's own, wherever it is looked up.
func isLoopbackName(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
