package delivery

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stipend/stipend/internal/apierr"
)

// ErrURL is returned for a URL that this service must not call.
var ErrURL = apierr.New(apierr.Invalid, "url_not_allowed",
	"An endpoint is a public https address on port 443 or 8443, without user name or fragment.")

// errLoopbackURL is the form of ErrURL for a policy that permits calls to this machine.
var errLoopbackURL = ErrURL.Detailf("An endpoint is a public https address on port 443 or 8443, without user name or " +
	"fragment. In a sandbox it can also be a program on the sandbox's machine, for example http://localhost:3000/hooks.")

// errBlocked is returned by the dialer for an IP address that the policy does not permit.
var errBlocked = errors.New("delivery: the address is not allowed")

// Policy decides which addresses the service may call. The zero value permits only public addresses.
type Policy struct {
	// Allowed lists networks that may be called although they are not public. If it is not empty, URLs with host names
	// that look internal can be registered; the addresses to which the names resolve are still checked.
	Allowed []netip.Prefix
	// Loopback permits calls to this machine, on any port and without TLS. It is for the sandbox.
	Loopback bool
}

// special are the IP networks that contain no public receivers: loopback, private, link-local (which includes cloud
// metadata services), carrier-grade NAT, documentation, benchmarking, multicast and reserved networks, and networks
// whose addresses embed other addresses.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24",
	"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
)

// global is the part of IPv6 that is assigned to the public. It does not contain mapped (::ffff:0:0/96), NAT64
// (64:ff9b::/96), unique local, link-local, site-local, multicast, loopback and unspecified addresses.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// permits reports whether an address may be called, without TLS if plain is true.
func (p Policy) permits(to netip.AddrPort, plain bool) bool {
	ip := to.Addr()
	if p.Loopback && ip.IsLoopback() {
		return true
	}
	if plain || to.Port() != 443 && to.Port() != 8443 || ip.Zone() != "" {
		return false
	}
	in := func(n netip.Prefix) bool { return n.Contains(ip) }
	if slices.ContainsFunc(p.Allowed, in) {
		return true
	}
	return (ip.Is4() || global.Contains(ip)) && !slices.ContainsFunc(special, in)
}

// dialer returns a dialer that connects only to permitted addresses. It checks the IP address of each connection
// after name resolution, so that a name that later resolves to another address (DNS rebinding) is checked again.
func (p Policy) dialer(plain bool) *net.Dialer {
	return &net.Dialer{
		KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || network != "tcp4" && network != "tcp6" || !p.permits(to, plain) {
				return errBlocked
			}
			return nil
		},
	}
}

var (
	hostName = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// number matches a last label that a resolver may interpret as part of an IPv4 address: 2130706433, 0x7f000001,
	// 127.1.
	number = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
)

// internalNames are the top-level domains and suffixes of names that are never public.
var internalNames = []string{
	"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "localdomain", "test",
	"example", "invalid", "onion",
}

// refusal returns ErrURL with a detail that states what the policy permits.
func (p Policy) refusal() error {
	if p.Loopback {
		return errLoopbackURL
	}
	return ErrURL
}

// CheckURL returns ErrURL for a URL that the service could never call, so that it is not registered. It does not
// resolve host names.
func (p Policy) CheckURL(text string) error {
	u, port, ok := parseURL(text)
	if !ok {
		return p.refusal()
	}
	plain, host := u.Scheme == "http", strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		ok = p.permits(netip.AddrPortFrom(ip, port), plain)
	} else if !p.Loopback || host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		ok = !plain && (port == 443 || port == 8443) && publicName(host, len(p.Allowed) > 0)
	}
	if !ok {
		return p.refusal()
	}
	return nil
}

// parseURL parses an http or https URL. It rejects a URL with a user name or a fragment.
func parseURL(text string) (u *url.URL, port uint16, ok bool) {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2000 || u.Opaque != "" || u.User != nil || strings.ContainsAny(text, "#\\ \t\r\n") {
		return nil, 0, false
	}
	// If the host contains percent escapes, the parsed host differs from the URL's text.
	_, rest, ok := strings.Cut(text, "://")
	if !ok || !strings.HasPrefix(strings.ToLower(rest), strings.ToLower(u.Host)) {
		return nil, 0, false
	}
	switch u.Scheme {
	case "http":
		port = 80
	case "https":
		port = 443
	default:
		return nil, 0, false
	}
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		return u, uint16(n), err == nil && n > 0
	}
	return u, port, !strings.HasSuffix(u.Host, ":")
}

// publicName reports whether a host name may be public. If internal is true, it also accepts names that look
// internal.
func publicName(host string, internal bool) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if len(host) > 253 || !hostName.MatchString(host) || number.MatchString(last) {
		return false
	}
	return internal || last != host && !slices.ContainsFunc(internalNames, func(name string) bool {
		return host == name || strings.HasSuffix(host, "."+name)
	})
}
