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

// ErrURL is the refusal of an address that this service may not call.
var ErrURL = apierr.New(apierr.Invalid, "url_not_allowed", "An endpoint is a public https address on port 443 or 8443, without user name or fragment.")

// errBlocked is what the dialer says of a peer that it may not speak to.
var errBlocked = errors.New("delivery: the address is not allowed")

// Policy says which addresses may be called.
type Policy struct {
	// Allowed are networks that may be called although they are not public: a self-hoster's own. Names that look internal
	// may then be registered; what they resolve to decides.
	Allowed []netip.Prefix
	// Loopback opens this machine itself, on any port and without TLS: for the sandbox.
	Loopback bool
}

// special are the networks that no public receiver lives in: loopback, private, link-local with the metadata services,
// carrier-grade NAT, documentation, benchmarks, multicast, reserved, and the ways of writing one address as another.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
)

// global is all of IPv6 that is given out to the public; mapped (::ffff:0:0/96), NAT64 (64:ff9b::/96), unique local, link-local,
// site-local, multicast, loopback and unspecified addresses are outside of it.
var global = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// permits says whether a peer may be spoken to. plain is a connection without TLS.
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

// dialer dials only what the policy permits. It looks at the address that the system connects to, after the name was
// resolved and at every connection, so a name that changes its mind gets nowhere.
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
	// number is a last label that the system's resolver may take for a part of an IPv4 address: 2130706433, 0x7f000001, 127.1.
	number = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`)
)

// internalNames are the ends of names that are never public.
var internalNames = []string{"localhost", "local", "internal", "intranet", "private", "corp", "home", "lan", "home.arpa", "localdomain", "test", "example", "invalid", "onion"}

// CheckURL refuses, when an address is registered, what would be refused anyway when it is called. It resolves nothing.
func (p Policy) CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > 2000 || u.Opaque != "" || u.User != nil || strings.ContainsAny(text, "#\\ \t\r\n") {
		return ErrURL
	}
	// What url.Parse unescapes in a host is not what was written.
	if i := strings.Index(text, "://"); i < 0 || !strings.HasPrefix(strings.ToLower(text[i+3:]), strings.ToLower(u.Host)) {
		return ErrURL
	}
	plain := u.Scheme == "http"
	if !plain && u.Scheme != "https" {
		return ErrURL
	}
	port := uint64(443)
	switch text := u.Port(); {
	case text != "":
		if port, err = strconv.ParseUint(text, 10, 16); err != nil || port == 0 {
			return ErrURL
		}
	case strings.HasSuffix(u.Host, ":"):
		return ErrURL
	case plain:
		port = 80
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		if !p.permits(netip.AddrPortFrom(ip, uint16(port)), plain) {
			return ErrURL
		}
		return nil
	}
	if p.Loopback && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
		return nil
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	internal := last == host || slices.ContainsFunc(internalNames, func(name string) bool { return host == name || strings.HasSuffix(host, "."+name) })
	if plain || port != 443 && port != 8443 || len(host) > 253 || !hostName.MatchString(host) || number.MatchString(last) || internal && len(p.Allowed) == 0 {
		return ErrURL
	}
	return nil
}
