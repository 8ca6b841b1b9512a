package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
)

// KeysCmd groups the commands for keys.
type KeysCmd struct {
	New  KeysNewCmd  `cmd:"" help:"Create production keys and print them once, as environment variables."`
	Show KeysShowCmd `cmd:"" help:"Show the keys of a configuration without their secrets."`

	Backup KeysBackupCmd `cmd:"" help:"Create a key that decrypts backups, and print it once."`
}

// KeysNewCmd creates keys.
type KeysNewCmd struct {
	Network string `default:"bitcoin" enum:"bitcoin,testnet,signet,regtest" help:"Network of the keys (${default})."`
}

// Help returns the details of the help.
func (KeysNewCmd) Help() string {
	return `The private key can spend everything the service holds. Store the output in a secret store, not in a file
next to the service; give processes without the worker role the public key only.

  stipend keys new > keys.env && chmod 600 keys.env`
}

// Run prints a new account key pair and a new data key.
func (k KeysNewCmd) Run(std Streams) error {
	prv, err := newAccount(k.Network)
	if err != nil {
		return err
	}
	evmPrv, err := newEVMAccount()
	if err != nil {
		return err
	}
	signer, err := bitcoin.ParseXPriv(prv, k.Network)
	if err != nil {
		return err
	}
	evmSigner, err := evm.ParseXPriv(evmPrv)
	if err != nil {
		return err
	}
	data := make([]byte, 32)
	_, _ = rand.Read(data) // never returns an error
	env := app.Production
	if k.Network == "regtest" { // production rejects keys of regtest
		env = app.Sandbox
	}
	fmt.Fprintf(std.Out, newKeys, coinType(k.Network), env, k.Network, signer.Deriver().XPub(), prv,
		evmSigner.Deriver().XPub(), evmPrv, hex.EncodeToString(data))
	return nil
}

const newKeys = `# Created by stipend keys new. Nobody else has these keys, and nobody can restore them: keep a copy
# offline.
# The accounts are m/84'/%d'/0' and m/44'/60'/0' of discarded seeds; no other backup of them exists.
STIPEND_ENV=%s
STIPEND_BITCOIN_NETWORK=%s
# Public: addresses are derived from it. For the roles api and watcher.
STIPEND_BITCOIN_XPUB=%s
# SECRET: signs payouts. Only for the role worker.
STIPEND_BITCOIN_XPRV=%s
# The same for EVM networks, if STIPEND_EVM_RPC names their nodes.
STIPEND_EVM_XPUB=%s
# SECRET: signs payouts. Only for the role worker.
STIPEND_EVM_XPRV=%s
# SECRET: encrypts stored secrets. For every role, the same everywhere.
STIPEND_DATA_KEY=%s
`

// KeysShowCmd shows the keys of a configuration.
type KeysShowCmd struct {
	app.Config
}

// Run prints public keys, fingerprints and first addresses.
func (k KeysShowCmd) Run(std Streams) error {
	c := k.Complete()
	for _, err := range c.CheckKeys() {
		fmt.Fprintf(std.Err, "stipend: %v\n", err)
	}
	d, err := bitcoin.ParseXPub(c.BitcoinXPub, c.BitcoinNetwork)
	if err != nil {
		return fmt.Errorf("no valid Bitcoin key is configured: %w", err)
	}
	fmt.Fprintf(std.Out, "environment    %s\nnetwork        %s\npublic key     %s\ncan sign       %v\n",
		c.Env, c.BitcoinNetwork, d.XPub(), c.BitcoinXPrv != "")
	for _, b := range []struct {
		branch uint32
		name   string
	}{{chain.External, "first address "}, {chain.Change, "first change  "}} {
		a, err := d.Address(b.branch, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "%s %s\n", b.name, a)
	}
	if d, err := evm.ParseXPub(c.EVMXPub); err == nil {
		hot, err := d.HotAddress()
		if err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "EVM public key %s\nEVM can sign   %v\nEVM account    %s\n", d.XPub(), c.EVMXPrv != "", hot)
	}
	if data, err := app.ParseDataKey(c.DataKey); err == nil {
		sum := sha256.Sum256(data)
		fmt.Fprintf(std.Out, "data key       fingerprint %s\n", hex.EncodeToString(sum[:4]))
	}
	return nil
}

// newAccount returns the private key of the first BIP 84 account of a new seed. It discards the seed, because the
// service needs only the account's key.
func newAccount(network string) (string, error) {
	params, err := bitcoin.Params(network)
	if err != nil {
		return "", err
	}
	seed, err := hdkeychain.GenerateSeed(hdkeychain.RecommendedSeedLen)
	if err != nil {
		return "", err
	}
	key, err := hdkeychain.NewMaster(seed, params)
	if err != nil {
		return "", err
	}
	for _, i := range []uint32{84, params.HDCoinType, 0} {
		if key, err = key.Derive(hdkeychain.HardenedKeyStart + i); err != nil {
			return "", err
		}
	}
	return key.String(), nil
}

// newEVMAccount returns the private key of the first BIP 44 account of a new seed, for EVM networks.
func newEVMAccount() (string, error) {
	seed, err := hdkeychain.GenerateSeed(hdkeychain.RecommendedSeedLen)
	if err != nil {
		return "", err
	}
	key, err := hdkeychain.NewMaster(seed, &chaincfg.MainNetParams)
	if err != nil {
		return "", err
	}
	if key, err = evm.Account(key); err != nil {
		return "", err
	}
	return key.String(), nil
}

func coinType(network string) uint32 {
	params, err := bitcoin.Params(network)
	if err != nil {
		return 1
	}
	return params.HDCoinType
}
