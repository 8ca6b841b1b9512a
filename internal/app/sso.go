package app

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/auth/sso"
)

// ssoTimeout is the time limit of each request to an OpenID provider.
const ssoTimeout = 10 * time.Second

// sso returns the service that signs members in through their companies' OpenID providers. Companies choose the URLs of
// their providers, so requests to them are restricted like those to webhooks.
func (s *Service) sso() (*sso.Service, error) {
	return sso.New(sso.Service{
		Client: &sso.Client{HTTP: s.policy.Client(ssoTimeout, nil), Now: time.Now}, Sealer: s.sealer,
		CheckIssuer: s.policy.CheckURL,
		LookupTXT: func(ctx context.Context, name string) ([]string, error) {
			return net.DefaultResolver.LookupTXT(ctx, name)
		}, Reserved: s.cfg.Env == Sandbox,
	})
}

// staff returns the service that signs staff in through the operator's OpenID provider, or nil if none is configured.
func (c Config) staff() (*sso.Staff, error) {
	if c.StaffSSOIssuer == "" {
		if c.StaffSSOOnly {
			return nil, errors.New("--staff-sso-only needs --staff-sso-issuer")
		}
		return nil, nil
	}
	if c.Env == Production && !strings.HasPrefix(c.StaffSSOIssuer, "https://") {
		return nil, errors.New("--staff-sso-issuer must begin with https://")
	}
	domains := make([]string, len(c.StaffSSODomains))
	for i, d := range c.StaffSSODomains {
		domains[i] = strings.ToLower(strings.TrimSpace(d))
	}
	s, err := sso.NewStaff(sso.Staff{
		Client: &sso.Client{HTTP: &http.Client{Timeout: ssoTimeout}, Now: time.Now},
		Provider: sso.Provider{Issuer: c.StaffSSOIssuer, ClientID: c.StaffSSOClientID,
			ClientSecret: c.StaffSSOClientSecret},
		Domains: domains, Only: c.StaffSSOOnly,
	})
	if err != nil {
		return nil, errors.New("--staff-sso-issuer needs --staff-sso-client-id, --staff-sso-client-secret and " +
			"--staff-sso-domains")
	}
	return s, nil
}
