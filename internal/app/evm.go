package app

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
)

// EVM is what can be set of the networks of accounts: Ethereum and those like it. Without any of it production has none, and a
// sandbox simulates one.
type EVM struct {
	// EVMRPC are the nodes, by network. What has no node is not offered.
	EVMRPC map[string]string `name:"evm-rpc" env:"STIPEND_EVM_RPC" group:"Ethereum and the like" mapsep:";" placeholder:"NETWORK=URL" help:"JSON-RPC of a node, by network: ethereum, base, polygon or arbitrum, such as base=http://127.0.0.1:8545; several are separated by semicolons. A network without is not offered."`
	// EVMWitness are second nodes, which are only asked whether they have the same blocks.
	EVMWitness map[string]string `name:"evm-witness" env:"STIPEND_EVM_WITNESS" group:"Ethereum and the like" mapsep:";" placeholder:"NETWORK=URL" help:"JSON-RPC of a second node, by network, that is only asked, as --bitcoin-witness has it. Default: none."`
	// EVMSimulated are the networks that a sandbox plays itself.
	EVMSimulated []string `name:"evm-simulated" env:"STIPEND_EVM_SIMULATED" group:"Ethereum and the like" placeholder:"NETWORK" help:"Networks that a sandbox simulates: ethereum, base, polygon, arbitrum, or none. Default: base, where no node is set."`
	// EVMXPub gives out addresses, the same on every network.
	EVMXPub string `name:"evm-xpub" env:"STIPEND_EVM_XPUB" group:"Ethereum and the like" placeholder:"KEY" help:"Public account key (BIP 44, m/44'/60'/0') that addresses come from. Default: that of the private key."`
	// EVMXPrv signs payouts and sweeps. Only a worker needs it.
	EVMXPrv string `name:"evm-xprv" env:"STIPEND_EVM_XPRV" group:"Ethereum and the like" placeholder:"KEY" help:"Private account key that signs payouts; only the worker role needs it. Better given by environment than as a flag."`
	// EVMChainID and EVMToken make a test network of a node. Production knows the real ones.
	EVMChainID map[string]uint64 `name:"evm-chain-id" env:"STIPEND_EVM_CHAIN_ID" group:"Ethereum and the like" mapsep:";" placeholder:"NETWORK=N" help:"Chain id of a test network that a sandbox uses under a network's name, such as base=84532."`
	EVMToken   map[string]string `name:"evm-token" env:"STIPEND_EVM_TOKEN" group:"Ethereum and the like" mapsep:";" placeholder:"NETWORK.ASSET=ADDRESS" help:"Contract of a token on a test network, such as base.USDC=0x….; what is not named is not there."`
}

// accountNetworks are the networks that a configuration offers, in the order of evm.Names.
func (c Config) accountNetworks() ([]evm.Network, error) {
	offered := slices.Clone(c.EVMSimulated)
	for name := range c.EVMRPC {
		offered = append(offered, name)
	}
	var all []evm.Network
	for _, name := range network.Names(network.EVM) {
		if !slices.Contains(offered, name) {
			continue
		}
		n, err := evm.Lookup(name)
		if err != nil {
			return nil, err
		}
		if c.Env == Sandbox && c.EVMRPC[name] == "" {
			n.BlocksPerConfirmation = 1 // nobody reorganises it but who asks for it
		}
		if id, test := c.EVMChainID[name]; test {
			n.ChainID, n.Tokens, n.BlocksPerConfirmation = id, nil, 1
			for _, asset := range []money.Asset{money.USDC, money.USDT} {
				if contract := c.EVMToken[name+"."+string(asset)]; contract != "" {
					n.Tokens = append(n.Tokens, evm.Token{Asset: asset, Contract: contract})
				}
			}
		}
		all = append(all, n)
	}
	return all, nil
}

// checkEVM says what is wrong with the networks of accounts.
func (c Config) checkEVM() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	known := func(flag, name string) {
		if !slices.Contains(network.Names(network.EVM), name) {
			bad("%s: there is no network %q; there are %s", flag, name, strings.Join(network.Names(network.EVM), ", "))
		}
	}
	for name, text := range c.EVMRPC {
		known("--evm-rpc", name)
		if u, err := url.Parse(text); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			bad("--evm-rpc of %s must be an http:// or https:// address", name)
		}
		if slices.Contains(c.EVMSimulated, name) {
			bad("--evm-simulated: %s has a node already", name)
		}
	}
	for name, text := range c.EVMWitness {
		if u, err := url.Parse(text); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			bad("--evm-witness of %s must be an http:// or https:// address", name)
		}
		if c.EVMRPC[name] == "" {
			bad("--evm-witness: %s has no node of its own, see --evm-rpc", name)
		}
	}
	for _, name := range c.EVMSimulated {
		known("--evm-simulated", name)
	}
	for name := range c.EVMChainID {
		known("--evm-chain-id", name)
	}
	for key, contract := range c.EVMToken {
		name, asset, ok := strings.Cut(key, ".")
		if known("--evm-token", name); !ok || asset != string(money.USDC) && asset != string(money.USDT) {
			bad("--evm-token is NETWORK.USDC or NETWORK.USDT, and not %q", key)
		}
		if _, err := evm.ParseAddress(contract); err != nil {
			bad("--evm-token %s: %w", key, err)
		}
	}
	if c.Env == Production {
		if len(c.EVMSimulated) > 0 {
			bad("--evm-simulated is for sandboxes")
		}
		if len(c.EVMChainID)+len(c.EVMToken) > 0 {
			bad("--evm-chain-id and --evm-token are for sandboxes: production knows the real networks only")
		}
	}
	if len(c.EVMRPC)+len(c.EVMSimulated) == 0 {
		return problems
	}
	return append(problems, c.checkEVMKeys()...)
}

func (c Config) checkEVMKeys() []error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	switch _, err := evm.ParseXPriv(c.EVMXPrv); {
	case c.EVMXPrv == "":
		if c.Has(RoleWorker) {
			bad("--evm-xprv is missing: the worker role signs payouts with it")
		}
	case err != nil:
		bad("--evm-xprv: %w", err)
	}
	d, err := evm.ParseXPub(c.EVMXPub)
	switch {
	case c.EVMXPub == "":
		if c.EVMXPrv == "" {
			bad("--evm-xpub is missing: funding addresses come from it")
		}
	case err != nil:
		bad("--evm-xpub: %w", err)
	case c.Env == Production && d.XPub() == neuterEVM(sandbox.EVMKey()):
		bad("--evm-xpub or --evm-xprv is the sandbox's, which everybody knows")
	case c.EVMXPrv != "" && neuterEVM(c.EVMXPrv) != "" && neuterEVM(c.EVMXPrv) != d.XPub():
		bad("--evm-xpub and --evm-xprv are not one pair: what is paid to the one's addresses could not be spent by the other")
	}
	return problems
}

// neuterEVM is the public account key of a private one, "" of what is none.
func neuterEVM(xprv string) string {
	s, err := evm.ParseXPriv(xprv)
	if err != nil {
		return ""
	}
	return s.Deriver().XPub()
}

// EVMChain is one network of accounts of a running process.
type EVMChain struct {
	Network   evm.Network
	Node      evm.Node
	Witnesses []chain.Witness
	Sim       *evmsim.Chain // nil on a real network
}

// EVMWallet is the key of the one wallet that serves all networks of accounts.
const EVMWallet = "evm"

// OpenEVM chooses the node of each network of accounts, or simulates it.
func (c Config) OpenEVM(d *db.DB) (all []EVMChain, err error) {
	networks, err := c.accountNetworks()
	for _, n := range networks {
		a := EVMChain{Network: n}
		if rpc := c.EVMRPC[n.Name]; rpc != "" {
			if a.Node, err = evm.NewClient(evm.Options{URL: rpc, Network: n}); err != nil {
				return nil, err
			}
			if a.Witnesses, err = c.accountWitnesses(n); err != nil {
				return nil, err
			}
		} else {
			a.Sim = evmsim.New(d, n)
			a.Node = a.Sim
		}
		all = append(all, a)
	}
	return all, err
}

// openAccounts gives out addresses on the networks of accounts.
func (s *Service) openAccounts(ctx context.Context) error {
	var err error
	if s.evms, err = s.cfg.OpenEVM(s.watching); err != nil || len(s.evms) == 0 {
		return err
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
			Name: n.Name, Assets: n.Assets(), Test: test || a.Sim != nil, URI: n.URI,
		})
	}
	s.accounts.Pool = chain.NewPool(s.db, EVMWallet, deriver, names...)
	// Addresses that were given out before a network was added are their objects' there, too.
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return chain.BackfillAddresses(ctx, tx, names)
	})
}

// evmRail returns the rail that pays on an EVM network.
func (s *Service) evmRail(ctx context.Context, a EVMChain) (*evmrail.Rail, error) {
	signer, err := evm.ParseXPriv(s.cfg.EVMXPrv)
	if err != nil {
		return nil, err
	}
	c := evmrail.Config{Node: a.Node, Signer: signer, Log: s.log, Witnesses: a.Witnesses}
	if a.Sim != nil {
		c.FeeMaxAge, c.SweepEvery = never, s.cfg.lookEvery()
	}
	rail, err := evmrail.New(ctx, s.db, c)
	if err != nil || a.Sim == nil {
		return rail, err
	}
	hot, err := signer.Deriver().HotAddress()
	if err != nil {
		return nil, err
	}
	return rail, sandbox.FundGas(ctx, s.db, a.Sim, hot)
}

// chainOf is the key of a network's rows: networks of accounts are their own, the other ones are Bitcoin's.
func (s *Service) chainOf(network string) string {
	if _, ok := s.accounts.Lookup(network); ok {
		return network
	}
	return BitcoinChain
}
