package httpapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// WithClientAddress replaces the remote address of each request that comes from one of the operator's proxies by the
// client's address. A proxy appends the address of its peer to X-Forwarded-For, so the last address there that does
// not belong to one of the proxies is the client's; anything before it may be forged. If proxies is empty, the header
// is ignored.
func WithClientAddress(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
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
			hop, ok := parseHop(hops[i])
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

// parseHop parses an entry of X-Forwarded-For, to which some proxies add a port.
func parseHop(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddrPort(text)
	return a.Addr().Unmap().WithZone(""), err == nil
}
