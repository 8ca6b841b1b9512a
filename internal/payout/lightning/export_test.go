package lightning

import (
	"crypto/tls"

	"github.com/stipend/stipend/internal/webhook/delivery"
)

// NewTestServers returns a resolver that calls one server for every domain.
func NewTestServers(p delivery.Policy, roots *tls.Config, host string) *Servers {
	s := NewServers(p, roots)
	s.host = host
	return s
}
