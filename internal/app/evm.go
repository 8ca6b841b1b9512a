package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmsim"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/receivable/deposit"
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
	sandbox := sandboxEVMXPrv()
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
	case c.Env == Production && d.XPub() == neuterEVM(sandbox):
		bad("--evm-xpub or --evm-xprv is the sandbox's, which everybody knows")
	case c.EVMXPrv != "" && neuterEVM(c.EVMXPrv) != "" && neuterEVM(c.EVMXPrv) != d.XPub():
		bad("--evm-xpub and --evm-xprv are not one pair: what is paid to the one's addresses could not be spent by the other")
	}
	return problems
}

// sandboxEVMXPrv is the master key of every sandbox.
var sandboxEVMXPrv = sync.OnceValue(func() string {
	seed := sha256.Sum256([]byte("stipend sandbox wallet of accounts"))
	key, err := evm.MasterFromSeed(seed[:])
	if err != nil {
		panic(err) // the same on every machine, so a test would have seen it
	}
	return key
})

// neuterEVM is the public account key of a private one, "" of what is none.
func neuterEVM(xprv string) string {
	s, err := evm.ParseXPriv(xprv)
	if err != nil {
		return ""
	}
	return s.Deriver().XPub()
}

// accountChain is one network of accounts of a running process.
type accountChain struct {
	network   evm.Network
	node      evm.Node
	witnesses []chain.Witness
	sim       *evmsim.Chain // nil on a real network
}

// accountPool is the key of the one wallet that serves all networks of accounts.
const accountPool = "evm"

// openNetworks chooses the node of each network of accounts, or simulates it.
func (c Config) openNetworks(d *db.DB) (all []accountChain, err error) {
	networks, err := c.accountNetworks()
	for _, n := range networks {
		a := accountChain{network: n}
		if rpc := c.EVMRPC[n.Name]; rpc != "" {
			if a.node, err = evm.NewClient(evm.Options{URL: rpc, Network: n}); err != nil {
				return nil, err
			}
			if a.witnesses, err = c.accountWitnesses(n); err != nil {
				return nil, err
			}
		} else {
			a.sim = evmsim.New(d, n)
			a.node = a.sim
		}
		all = append(all, a)
	}
	return all, err
}

// openAccounts gives out addresses on the networks of accounts.
func (s *Service) openAccounts(ctx context.Context) error {
	var err error
	if s.evms, err = s.cfg.openNetworks(s.watching); err != nil || len(s.evms) == 0 {
		return err
	}
	deriver, err := evm.ParseXPub(s.cfg.EVMXPub)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range s.evms {
		n := a.network
		names = append(names, n.Name)
		_, test := s.cfg.EVMChainID[n.Name]
		s.accounts.Networks = append(s.accounts.Networks, chain.AccountNetwork{
			Name: n.Name, Assets: n.Assets(), Test: test || a.sim != nil, URI: n.URI,
		})
	}
	s.accounts.Pool = chain.NewPool(s.db, accountPool, deriver, names...)
	// Addresses that were given out before a network was added are their objects' there, too.
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return chain.Adopt(ctx, tx, names)
	})
}

// gasOfSandbox is what the paying account of a simulated network begins with, in gwei.
const gasOfSandbox = 100_000_000_000

// evmRail returns the rail that pays on an EVM network.
func (s *Service) evmRail(ctx context.Context, a accountChain) (*evmrail.Rail, error) {
	signer, err := evm.ParseXPriv(s.cfg.EVMXPrv)
	if err != nil {
		return nil, err
	}
	c := evmrail.Config{Node: a.node, Signer: signer, Log: s.log, Witnesses: a.witnesses}
	if a.sim != nil {
		c.FeeMaxAge, c.SweepEvery = never, s.cfg.lookEvery()
	}
	rail, err := evmrail.New(ctx, s.db, c)
	if err != nil || a.sim == nil {
		return rail, err
	}
	hot, err := signer.Deriver().Hot()
	if err != nil {
		return nil, err
	}
	return rail, s.giveGas(ctx, a, hot)
}

// giveGas sends the paying account of a new simulated network coins for gas, once, and books what an old one had from the start.
func (s *Service) giveGas(ctx context.Context, a accountChain, hot string) error {
	given, opened := "sandbox.gas."+a.network.Name, "sandbox.gas_opening."+a.network.Name
	var was, known string
	if err := s.db.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if was, err = db.Setting(ctx, tx, given); err == nil {
			known, err = db.Setting(ctx, tx, opened)
		}
		return err
	}); err != nil || was != "" && known != "" {
		return err
	}
	set := func(setting, value string) error {
		return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return db.SetSetting(ctx, tx, setting, value) })
	}
	if was == "" {
		has, err := a.sim.State(ctx, hot)
		if err != nil {
			return err
		}
		if known == "" && has.Holds[a.network.Native] > 0 { // it has what it needs, and no deposit of it
			if err := set(given, hot); err != nil {
				return err
			}
			return s.openGas(ctx, a, opened, false)
		}
		if err := set(opened, "0"); err != nil { // before the coins come: those are a deposit
			return err
		}
		if _, err := a.sim.Pay(ctx, hot, money.New(a.network.Native, gasOfSandbox)); err != nil {
			return err
		}
		return set(given, hot)
	}
	return s.openGas(ctx, a, opened, true)
}

// openGas books what the paying account of a simulated network was once given out of nothing, as what a new sandbox is sent is booked: it
// is what our accounts hold beyond the books, where that is very much the gift. As long as the two cannot be compared, because something
// is under way, the next start looks again. sent says that another gift was sent since.
func (s *Service) openGas(ctx context.Context, a accountChain, setting string, sent bool) error {
	n := a.network
	gift := money.New(n.Native, gasOfSandbox)
	var held chain.AccountsHeld
	var books int64
	settled := false
	err := s.db.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if held, err = chain.HeldByAccounts(ctx, tx, n.Name); err != nil {
			return err
		}
		waiting, err := deposit.Unbooked(ctx, tx, n.Name)
		if err != nil {
			return err
		}
		books, settled = 0, !sent
		err = ledger.Moves(ctx, tx, ledger.OtherWallets, func(m ledger.Move) {
			if m.Dim != n.Name || m.Amount.Asset() != n.Native {
				return
			}
			books += m.Amount.Units()
			settled = settled || m.SourceType == deposit.SourceType && m.Amount == gift
		})
		settled = settled && len(waiting) == 0
		return err
	})
	if err != nil || !settled {
		if errors.Is(err, db.ErrNoRows) { // nobody has looked at the network yet
			return nil
		}
		return err
	}
	holds, err := a.sim.Holdings(ctx, held.Addresses, held.Height)
	if errors.Is(err, chain.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	off := holds[n.Native] - held.Early[n.Native] - books
	near := func(units int64) bool { return off-units <= held.Moves && units-off <= held.Moves }
	value := "0"
	switch {
	case near(gasOfSandbox):
		value = gift.String()
	case !near(0):
		return nil
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		if known, err := db.Setting(ctx, tx, setting); err != nil || known != "" {
			return err
		}
		if value != "0" {
			if err := ledger.Post(tx, ledger.Journal{CompanyID: ledger.House, SourceType: "sandbox", SourceID: n.Name, Purpose: "opening", Lines: []ledger.Line{
				ledger.Debit(ledger.OtherWallets, n.Name, gift), ledger.Credit(ledger.FXPosition, "", gift)}}); err != nil {
				return err
			}
		}
		return db.SetSetting(ctx, tx, setting, value)
	})
}

// chainOf is the key of a network's rows: networks of accounts are their own, the other ones are Bitcoin's.
func (s *Service) chainOf(network string) string {
	if _, ok := s.accounts.Network(network); ok {
		return network
	}
	return chainName
}
