package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	lightningrail "github.com/stipend/stipend/internal/payout/lightning"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/signer"
)

// EVMWallet is the name, in the database, of the wallet on all EVM networks.
const EVMWallet = "evm"

// simulatedEvery is the interval between checks of a simulated EVM network.
const simulatedEvery = 250 * time.Millisecond

// witnessTimeout is the time limit of each request to a witness node.
const witnessTimeout = 2 * time.Second

// caFileOf returns the file with the certificates for a witness node, or "" for a node without TLS.
func (c Config) caFileOf(address string) string {
	if !strings.HasPrefix(address, "https:") {
		return ""
	}
	return c.BitcoinCAFile
}

// openBitcoin connects to the Bitcoin chain or simulates it, and makes the pool of the wallet's addresses.
func (s *Service) openBitcoin() (err error) {
	if s.keys, err = bitcoin.ParseXPub(s.cfg.BitcoinXPub, s.cfg.BitcoinNetwork); err != nil {
		return err
	}
	s.pool = chain.NewPool(s.db, BitcoinChain, s.keys)
	for _, address := range s.cfg.BitcoinWitness {
		node, err := bitcoin.NewClient(bitcoin.Options{
			URL: address, CAFile: s.cfg.caFileOf(address), Network: s.cfg.BitcoinNetwork,
			HTTP: &http.Client{Timeout: witnessTimeout},
		})
		if err != nil {
			return fmt.Errorf("--bitcoin-witness: %w", err)
		}
		s.witnesses = append(s.witnesses, chain.Witness{Source: node, Name: chain.WitnessName(address)})
	}
	if s.outside.Bitcoin != nil {
		s.source = s.outside.Bitcoin
		return nil
	}
	if s.cfg.Simulated() {
		s.sim = bitcoinsim.New(s.watcherDB)
		s.source = s.sim
		return nil
	}
	s.source, err = bitcoin.NewClient(bitcoin.Options{
		URL: s.cfg.BitcoinRPC, CookieFile: s.cfg.BitcoinCookie, CAFile: s.cfg.BitcoinCAFile,
		Network: s.cfg.BitcoinNetwork,
	})
	return err
}

// EVMChain is an EVM network that this installation uses.
type EVMChain struct {
	Network   evm.Network
	Node      evm.Node
	Witnesses []chain.Witness
	Sim       *evmsim.Chain // nil unless the network is simulated
}

// simulatedChainID is the chain ID in payment URIs of simulated networks, which is that of local development nodes.
// With the real ID, a wallet that reads such a URI could pay on the real network, and the money would be lost.
const simulatedChainID = 31337

// paymentURI returns the function that makes payment URIs for the network.
func (a EVMChain) paymentURI() func(address string, amount money.Amount) string {
	n := a.Network
	if a.Sim != nil {
		n.ChainID = simulatedChainID
	}
	return n.URI
}

// evmNetworks returns the EVM networks that this installation uses, in the order of the registry.
func (c Config) evmNetworks() ([]evm.Network, error) {
	var all []evm.Network
	for _, name := range network.Names(network.EVM) {
		if c.EVMRPC[name] == "" && !slices.Contains(c.EVMSimulated, name) {
			continue
		}
		n, err := evm.Lookup(name)
		if err != nil {
			return nil, err
		}
		if c.Env == Sandbox && c.EVMRPC[name] == "" {
			n.BlocksPerConfirmation = 1 // a simulated network is reorganized only on request
			for i, t := range n.Tokens {
				if t.Domain.Name != "" {
					// A payer's signature for the simulated network must not be valid on the real one.
					n.Tokens[i].Domain.Name = "Simulated " + t.Domain.Name
				}
			}
		}
		if id, test := c.EVMChainID[name]; test {
			n.ChainID, n.Tokens, n.BlocksPerConfirmation = id, nil, 1
			for _, asset := range []money.Asset{money.USDC, money.USDT} {
				if text := c.EVMToken[name+"."+string(asset)]; text != "" {
					n.Tokens = append(n.Tokens, testToken(asset, text))
				}
			}
		}
		all = append(all, n)
	}
	return all, nil
}

// testToken returns the token of a test network that a value of --evm-token describes: CONTRACT or
// CONTRACT/NAME/VERSION.
func testToken(asset money.Asset, text string) evm.Token {
	contract, domain, _ := strings.Cut(text, "/")
	name, version, _ := strings.Cut(domain, "/")
	return evm.Token{Asset: asset, Contract: contract, Domain: network.Domain{Name: name, Version: version}}
}

// OpenEVM connects to the EVM networks that this installation uses, or simulates them in the database d.
func (c Config) OpenEVM(d *db.DB) (all []EVMChain, err error) {
	networks, err := c.evmNetworks()
	for _, n := range networks {
		a := EVMChain{Network: n}
		if rpc := c.EVMRPC[n.Name]; rpc == "" {
			a.Sim = evmsim.New(d, n)
			a.Node = a.Sim
		} else if a.Node, err = evm.NewClient(evm.Options{URL: rpc, Network: n}); err != nil {
			return nil, err
		}
		if address := c.EVMWitness[n.Name]; address != "" {
			node, err := evm.NewClient(evm.Options{
				URL: address, Network: n, HTTP: &http.Client{Timeout: witnessTimeout},
			})
			if err != nil {
				return nil, fmt.Errorf("--evm-witness: %w", err)
			}
			a.Witnesses = []chain.Witness{{Source: node, Name: chain.WitnessName(address)}}
		}
		all = append(all, a)
	}
	return all, err
}

// openEVM opens the EVM networks and makes the pool of addresses on them. An address that was issued before a network
// was added is also valid on that network.
func (s *Service) openEVM(ctx context.Context) (err error) {
	if s.evms, err = s.cfg.OpenEVM(s.watcherDB); err != nil || len(s.evms) == 0 {
		return err
	}
	for i, a := range s.evms {
		if node := s.outside.EVM[a.Network.Name]; node != nil {
			s.evms[i].Node = node
		}
	}
	deriver, err := evm.ParseXPub(s.cfg.EVMXPub)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range s.evms {
		n := a.Network
		names = append(names, n.Name)
		_, test := s.cfg.EVMChainID[n.Name]
		s.accounts.Networks = append(s.accounts.Networks, chain.EVMNetwork{
			Name: n.Name, Assets: n.Assets(), Test: test || a.Sim != nil, Simulated: a.Sim != nil, URI: a.paymentURI(),
			Spec: n.Network,
		})
	}
	s.accounts.Pool = chain.NewPool(s.db, EVMWallet, deriver, names...)
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return chain.BackfillAddresses(ctx, tx, names) })
}

// evmRail returns the rail that pays on an EVM network. If the network is simulated, evmRail funds its hot wallet.
func (s *Service) evmRail(ctx context.Context, a EVMChain, remote *signer.Client) (*evmrail.Rail, error) {
	keys, err := evm.ParseXPub(s.cfg.EVMXPub)
	if err != nil {
		return nil, err
	}
	c := evmrail.Config{
		Node: a.Node, Remote: remote, Keys: keys, Log: s.log, Witnesses: a.Witnesses, Screen: s.screenAddress,
		Due: s.claims.Due,
	}
	if remote == nil {
		if c.Signer, err = evm.ParseXPriv(s.cfg.EVMXPrv); err != nil {
			return nil, err
		}
	}
	if a.Sim != nil {
		c.FeeMaxAge, c.SweepEvery, c.Retry = never, s.cfg.checkInterval(), s.cfg.checkInterval()
	}
	rail, err := evmrail.New(ctx, s.db, c)
	if err != nil || a.Sim == nil {
		return rail, err
	}
	hot, err := keys.HotAddress()
	if err != nil {
		return nil, err
	}
	return rail, sandbox.FundHotWallet(ctx, s.db, a.Sim, hot)
}

// chainOf returns the name of the chain of a network: the network's own name for EVM networks, and BitcoinChain for
// Bitcoin.
func (s *Service) chainOf(network string) string {
	if _, ok := s.accounts.Lookup(network); ok {
		return network
	}
	return BitcoinChain
}

// OpenLightning connects to the configured Lightning node. It returns nil if none is configured. A process that only
// serves requests does not connect, and needs no macaroon.
func (c Config) OpenLightning() (*lightning.Service, error) {
	if c.LndURL == "" {
		if c.LndMacaroonFile != "" || c.LndTLSCertFile != "" {
			return nil, errors.New("--lnd-url is missing: --lnd-macaroon-file and --lnd-tls-cert-file need it")
		}
		return nil, nil
	}
	if c.LndURL == SimulatedLnd {
		if c.Env != Sandbox {
			return nil, errors.New("--lnd-url: only a sandbox has a simulated Lightning node")
		}
		return &lightning.Service{}, nil // openLightning sets the node
	}
	if !c.Has(RoleWorker) && !c.Has(RoleWatcher) {
		return &lightning.Service{}, nil
	}
	if c.LndMacaroonFile == "" {
		return nil, errors.New("--lnd-macaroon-file is missing: worker and watcher need it to create and follow invoices")
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

// openLightning connects to the Lightning node, or simulates one.
func (s *Service) openLightning() (err error) {
	if s.lightning, err = s.cfg.OpenLightning(); err != nil || s.lightning == nil {
		return err
	}
	s.lightning.Sealer = s.sealer
	if s.cfg.LndURL == SimulatedLnd {
		s.simulatedLnd = lightningsim.New(s.watcherDB, s.cfg.BitcoinNetwork)
		s.lightning.Client = s.simulatedLnd
	}
	return nil
}

// lightningRefunds returns the limits of refunds over Lightning, which are those of the rail. It returns nil if this
// installation does not pay over Lightning.
func (s *Service) lightningRefunds() *claim.LightningRefunds {
	if !s.cfg.PaysLightning() {
		return nil
	}
	return &claim.LightningRefunds{MaxFeeBps: s.cfg.LndMaxFeeBps, Least: s.cfg.LndMinPayment, Most: s.cfg.LndMaxPayment}
}

// lightningRail returns the rail that pays over Lightning. For a simulated node, it records the node's initial funds.
func (s *Service) lightningRail(ctx context.Context) (*lightningrail.Rail, error) {
	c := lightningrail.Config{
		Network: s.cfg.BitcoinNetwork, Log: s.log, MaxFeeBps: s.cfg.LndMaxFeeBps, MinAmount: s.cfg.LndMinPayment,
		MaxAmount: s.cfg.LndMaxPayment, Timeout: s.cfg.LndTimeout,
	}
	if s.simulatedLnd != nil {
		c.Node, c.Resolver = s.simulatedLnd, s.simulatedLnd
		if err := sandbox.FundChannels(ctx, s.db); err != nil {
			return nil, err
		}
		return lightningrail.New(c)
	}
	payer, ok := s.lightning.Client.(lightning.Payer)
	if !ok {
		return nil, errors.New("--lnd-payouts: the node cannot pay")
	}
	c.Node, c.Resolver = payer, lightningrail.NewServers(s.policy, nil)
	return lightningrail.New(c)
}

// startWatchers follows the chains and the Lightning node, and mines the blocks of simulated chains. Each watcher
// takes one step before requests are served, if its node responds.
func (s *Service) startWatchers(ctx, background context.Context) error {
	w, err := s.bitcoinWatcher()
	if err != nil {
		return err
	}
	s.follow(ctx, background, BitcoinChain, w, s.cfg.PollInterval)
	for _, a := range s.evms {
		name, every := a.Network.Name, s.cfg.PollInterval
		if a.Sim != nil {
			every = simulatedEvery
			s.work.Go(func() { s.miner.Run(background, name, a.Sim.Settle) })
		}
		s.follow(ctx, background, name, s.evmWatcher(a), every)
	}
	if s.lightning != nil {
		leader := job.Leader{
			DB: s.watcherDB, Name: "watcher.lightning", Holder: s.holder, Length: leaseFor, Pause: s.cfg.PollInterval,
			Report: func(err error) { s.log.Warn("the Lightning node cannot be watched", "error", err) },
		}
		s.work.Go(func() {
			leader.Run(background, func(ctx context.Context) error { return s.lightning.Watch(ctx, s.watcherDB) })
		})
	}
	if s.sim == nil {
		return nil
	}
	s.work.Go(func() {
		s.miner.Run(background, BitcoinChain, func(ctx context.Context) error { return s.sim.Mine(ctx, 1) })
	})
	if err := sandbox.FundOperator(ctx, s.db, s.sim, s.pool); err != nil {
		return fmt.Errorf("fund the sandbox: %w", err)
	}
	return nil
}

// evmWatcher returns the watcher of an EVM network.
func (s *Service) evmWatcher(a EVMChain) *chain.Watcher {
	w := chain.NewWatcher(s.watcherDB, a.Network.Name, a.Node, a.Network.BlocksPerConfirmation, s.log)
	w.SetWitnesses(a.Witnesses, s.cfg.TipLimit)
	return w
}

// bitcoinWatcher returns the watcher of the Bitcoin chain.
func (s *Service) bitcoinWatcher() (*chain.Watcher, error) {
	w := chain.NewWatcher(s.watcherDB, BitcoinChain, s.source, 1, s.log)
	if err := w.CacheAddresses(s.keys, chain.AddressCacheThreshold); err != nil {
		return nil, err
	}
	w.SetWitnesses(s.witnesses, s.cfg.TipLimit)
	return w, nil
}

func (s *Service) follow(ctx, background context.Context, name string, w *chain.Watcher, every time.Duration) {
	_, err := w.Step(ctx)
	s.warn(ctx, "the chain "+name+" cannot be watched", err)
	s.work.Go(func() { s.monitor.Follow(background, name, w, every) })
}
