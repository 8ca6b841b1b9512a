package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
)

// witnessWithin bounds each question to a witness.
const witnessWithin = 2 * time.Second

// bitcoinWitnesses are the further nodes of Bitcoin's chain.
func (c Config) bitcoinWitnesses() (all []chain.Witness, err error) {
	for _, address := range c.BitcoinWitness {
		node, err := bitcoin.NewClient(bitcoin.Options{URL: address, Network: c.BitcoinNetwork, HTTP: &http.Client{Timeout: witnessWithin}})
		if err != nil {
			return nil, fmt.Errorf("--bitcoin-witness: %w", err)
		}
		all = append(all, chain.Witness{Source: node, Name: hostOf(address)})
	}
	return all, nil
}

// accountWitnesses is the second node of a network of accounts, where there is one.
func (c Config) accountWitnesses(n evm.Network) ([]chain.Witness, error) {
	address := c.EVMWitness[n.Name]
	if address == "" {
		return nil, nil
	}
	node, err := evm.NewClient(evm.Options{URL: address, Network: n, HTTP: &http.Client{Timeout: witnessWithin}})
	if err != nil {
		return nil, fmt.Errorf("--evm-witness: %w", err)
	}
	return []chain.Witness{{Source: node, Name: hostOf(address)}}, nil
}

// hostOf is what of an address may be logged.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// standings is how the chains stood at an instant. A process believes it for as long as a watcher pauses.
type standings struct {
	at  time.Time
	all map[string]chain.Health
}

// errUnsure refuses a price of which nobody knows on which chain it would be paid.
var errUnsure = apierr.New(apierr.Unavailable, "retry_later", "The nodes of the blockchain disagree, so no price can be held. Try again in some minutes.")

// checkStanding refuses while a witness of a chain has other blocks, or more of them.
func (s *Service) checkStanding(ctx context.Context, tx *db.Tx, name string) error {
	known := s.standings.Load()
	if known == nil || tx.Now().Sub(known.at).Abs() > s.cfg.PollInterval {
		all, err := chain.LoadHealth(ctx, tx)
		if err != nil {
			return err
		}
		known = &standings{tx.Now(), all}
		s.standings.Store(known)
	}
	if known.all[name].Unreliable() {
		return errUnsure
	}
	return nil
}
