package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
)

// lightning is the node that was set up, nil for none. A process that only serves requests speaks to no node and needs no
// macaroon.
func (c Config) OpenLightning() (*lightning.Service, error) {
	if c.LndURL == "" {
		if c.LndMacaroonFile != "" || c.LndTLSCertFile != "" {
			return nil, errors.New("--lnd-url is missing: --lnd-macaroon-file and --lnd-tls-cert-file belong to it")
		}
		return nil, nil
	}
	if !c.Has(RoleWorker) && !c.Has(RoleWatcher) {
		return &lightning.Service{}, nil
	}
	if c.LndMacaroonFile == "" {
		return nil, errors.New("--lnd-macaroon-file is missing: the worker makes invoices with it, the watcher follows them")
	}
	o := lightning.Options{URL: c.LndURL, Network: c.Complete().BitcoinNetwork}
	var err error
	if o.Macaroon, err = os.ReadFile(c.LndMacaroonFile); err != nil {
		return nil, fmt.Errorf("--lnd-macaroon-file: %w", err)
	}
	if c.LndTLSCertFile != "" {
		if o.Certificate, err = os.ReadFile(c.LndTLSCertFile); err != nil {
			return nil, fmt.Errorf("--lnd-tls-cert-file: %w", err)
		}
	}
	client, err := lightning.NewClient(o)
	if err != nil {
		return nil, fmt.Errorf("--lnd-url: %w", err)
	}
	return &lightning.Service{Client: client}, nil
}

// watchLightning follows the node while this process holds the lease. Two that follow it would do no harm.
func (s *Service) watchLightning(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		pause.Reset(s.cfg.PollInterval)
		held, err := job.Lease(ctx, s.watching, "watcher.lightning", s.holder, leaseFor)
		if err != nil || !held {
			s.trouble(ctx, "the lease on the Lightning node", err)
			continue
		}
		s.trouble(ctx, "the Lightning node cannot be watched", s.followLightning(ctx))
	}
}

// followLightning watches as long as the lease can be prolonged.
func (s *Service) followLightning(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.lightning.Watch(ctx, s.watching) }()
	tick := time.NewTicker(leaseFor / 3)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if held, err := job.Lease(ctx, s.watching, "watcher.lightning", s.holder, leaseFor); err != nil || !held {
				stop()
				if ended := <-done; err == nil && !errors.Is(ended, context.Canceled) {
					err = ended
				}
				return err
			}
		}
	}
}
