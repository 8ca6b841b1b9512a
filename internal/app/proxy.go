package app

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// clients gives each request the address of the client that sent it, where proxies of our own stand between: they add the
// address that they were asked from to the end of X-Forwarded-For. What stands before the last address that is no proxy of ours
// may have been written by anybody, and is believed by nobody. Without proxies the header means nothing.
func clients(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	trusted := func(a netip.Addr) bool {
		for _, p := range proxies {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		client := peer.Addr().Unmap()
		if err != nil || !trusted(client) {
			next.ServeHTTP(w, r)
			return
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(hops) - 1; i >= 0 && trusted(client); i-- {
			hop, ok := address(hops[i])
			if !ok {
				break
			}
			client = hop
		}
		copied := *r
		copied.RemoteAddr = netip.AddrPortFrom(client, peer.Port()).String()
		next.ServeHTTP(w, &copied)
	})
}

// address reads an entry of X-Forwarded-For, which some proxies write with a port.
func address(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddrPort(text)
	return a.Addr().Unmap().WithZone(""), err == nil
}

// hosts are the names that the service answers for: those of its public addresses, if it has any.
func (c Config) hosts() []string {
	if c.BaseURL == "" {
		return nil
	}
	var names []string
	for _, text := range []string{c.BaseURL, c.AuthURL} {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			names = append(names, u.Host)
		}
	}
	return names
}
