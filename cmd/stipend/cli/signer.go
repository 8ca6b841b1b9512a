package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/keysource"
)

// SignerCmd groups the commands of the signer.
type SignerCmd struct {
	Serve  SignerServeCmd  `cmd:"" help:"Run the signer: hold the keys, and sign what the policy permits."`
	Keys   SignerKeysCmd   `cmd:"" help:"Create an encrypted file of keys, and print the public ones."`
	Public SignerPublicCmd `cmd:"" help:"Print the public keys for the service."`
	Verify SignerVerifyCmd `cmd:"" help:"Check that no entry of the signer's log was changed or removed."`
}

// Passphrase contains the flag for the source of the passphrase of a key file.
type Passphrase struct {
	PassphraseFile string `placeholder:"FILE" help:"File with the passphrase, readable by its owner only. Default: ask."`
}

// open reads the passphrase and decrypts a file of keys.
func (p Passphrase) open(std Streams, path string) (signer.KeyFile, error) {
	passphrase, err := p.read(std, false)
	if err != nil {
		return signer.KeyFile{}, err
	}
	defer clear(passphrase)
	return signer.OpenKeyFile(path, passphrase)
}

// read returns the passphrase. If create is true, it asks for the passphrase twice.
func (p Passphrase) read(std Streams, create bool) ([]byte, error) {
	if p.PassphraseFile != "" {
		text, err := signer.ReadSecretFile(p.PassphraseFile)
		return bytes.TrimRight(text, "\r\n"), err
	}
	in, ok := std.In.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil, errors.New("there is no terminal to ask for the passphrase; name a file with --passphrase-file")
	}
	ask := func(prompt string) ([]byte, error) {
		fmt.Fprint(std.Err, prompt)
		defer fmt.Fprintln(std.Err)
		return term.ReadPassword(int(in.Fd()))
	}
	first, err := ask("Passphrase: ")
	if err != nil || !create {
		return first, err
	}
	second, err := ask("Again: ")
	if err == nil && !bytes.Equal(first, second) {
		err = errors.New("the passphrases differ")
	}
	return first, err
}

// SignerServeCmd runs the signer.
type SignerServeCmd struct {
	Listen  string `required:"" placeholder:"ADDRESS" help:"unix:PATH, or HOST:PORT with mutual TLS."`
	Policy  string `required:"" placeholder:"FILE" help:"What the signer permits, as JSON."`
	Log     string `required:"" placeholder:"FILE" help:"Log of what it signed and refused. It is created."`
	KeyFile string `required:"" placeholder:"FILE" help:"File of keys that stipend signer keys created."`
	Passphrase
	HotKey
	TLSCertFile string `name:"tls-cert-file" placeholder:"FILE" help:"Certificate of the signer."`
	TLSKeyFile  string `name:"tls-key-file" placeholder:"FILE" help:"Private key of the certificate."`
	TLSCAFile   string `name:"tls-ca-file" placeholder:"FILE" help:"Certificate authority of the service's certificate."`
}

// Help returns the details of the help.
func (SignerServeCmd) Help() string {
	return `The signer is the only process with private keys. Run it as a user of its own, on a machine of its own if you
can, and give the service only its address (--signer). It connects to nothing but the key that --evm-hot-key names.
docs/custody.md describes the policy.`
}

// Run serves requests until ctx is done.
func (c SignerServeCmd) Run(ctx context.Context, std Streams) error {
	log := newLogger(std.Err, "info")
	locked, err := signer.Harden()
	if err != nil {
		return err
	}
	if !locked {
		log.Warn("the memory is not locked, so keys may be written to swap; set LimitMEMLOCK=infinity, or use no swap")
	}
	policy, err := signer.LoadPolicy(c.Policy)
	if err != nil {
		return err
	}
	keys, err := c.open(std, c.KeyFile)
	if err != nil {
		return err
	}
	o := signer.Options{Policy: policy, Alarm: log, Now: time.Now}
	if o.Bitcoin, o.EVM, err = keys.Wallets(); err != nil {
		return err
	}
	if o.EVM, err = c.use(ctx, o.EVM); err != nil {
		return err
	}
	if o.Bitcoin != nil {
		defer o.Bitcoin.Keys.Close()
	}
	if o.EVM != nil {
		defer o.EVM.Keys.Close()
	}
	if o.Log, err = signer.OpenLog(c.Log); err != nil {
		return err
	}
	defer o.Log.Close()
	service, err := signer.New(o)
	if err != nil {
		return err
	}
	l, err := signer.Listen(c.Listen, signer.TLSFiles{Cert: c.TLSCertFile, Key: c.TLSKeyFile, CA: c.TLSCAFile})
	if err != nil {
		return err
	}
	i := service.Info()
	log.Info("the signer is ready", "listen", c.Listen, "policy", i.Policy, "entries", i.Entries, "hash", i.Hash)
	return service.Serve(ctx, l)
}

// SignerKeysCmd creates a key file.
type SignerKeysCmd struct {
	File    string `arg:"" help:"File to create."`
	Network string `default:"bitcoin" enum:"bitcoin,testnet,signet,regtest" help:"Network of the key (${default})."`
	Import  bool   `help:"Read existing keys from stdin instead of creating new ones."`
	Passphrase
}

// Help returns the details of the help.
func (SignerKeysCmd) Help() string {
	return `The file is encrypted with a passphrase (age, scrypt). Keep a copy of the file and of the passphrase
offline, in two places: without them all coins are lost. --import reads lines STIPEND_BITCOIN_XPRV=… and
STIPEND_EVM_XPRV=…, to move the keys of a running service to a signer:

  grep XPRV keys.env | stipend signer keys --import --passphrase-file passphrase signer.keys`
}

// Run creates the file and prints the public keys for the configuration of the service.
func (c SignerKeysCmd) Run(std Streams) (err error) {
	keys := signer.KeyFile{Network: c.Network}
	if c.Import {
		err = importKeys(std, &keys)
	} else if keys.Bitcoin, err = newAccount(c.Network); err == nil {
		keys.EVM, err = newEVMAccount()
	}
	if err != nil {
		return err
	}
	b, e, err := keys.Wallets()
	if err != nil {
		return err
	}
	passphrase, err := c.read(std, true)
	if err != nil {
		return err
	}
	defer clear(passphrase)
	if err := keys.Create(c.File, passphrase); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "# %s has the private keys. These are the public ones, for the service:\n", c.File)
	printPublic(std, c.Network, b, e)
	return nil
}

// printPublic prints the settings of the service that contain the public keys of wallets.
func printPublic(std Streams, network string, b *signer.Wallet[*bitcoin.Deriver], e *signer.Wallet[*evm.Deriver]) {
	if b != nil {
		fmt.Fprintf(std.Out, "STIPEND_BITCOIN_NETWORK=%s\nSTIPEND_BITCOIN_XPUB=%s\n", network, b.Deriver.XPub())
	}
	if e != nil {
		fmt.Fprintf(std.Out, "STIPEND_EVM_XPUB=%s\n", e.Deriver.XPub())
	}
}

// HotKey contains the flags for the key of the hot account on EVM networks, if a device or a service holds the key.
type HotKey struct {
	EVMHotKey string `name:"evm-hot-key" placeholder:"URI" help:"Key of the EVM hot account, in a device or AWS KMS."`
}

// use returns the wallet with this key as its hot key.
func (c HotKey) use(ctx context.Context, w *signer.Wallet[*evm.Deriver]) (*signer.Wallet[*evm.Deriver], error) {
	if c.EVMHotKey == "" {
		return w, nil
	}
	if w == nil {
		return nil, errors.New("--evm-hot-key: the file of keys has no account for deposits on EVM networks")
	}
	source, err := keysource.Open(ctx, c.EVMHotKey, time.Now)
	if err != nil {
		return nil, fmt.Errorf("--evm-hot-key: %w", err)
	}
	return signer.WithHotKey(w, source), nil
}

// SignerPublicCmd prints public keys.
type SignerPublicCmd struct {
	KeyFile string `required:"" placeholder:"FILE" help:"File of keys that stipend signer keys created."`
	Passphrase
	HotKey
}

// Run prints the public keys.
func (c SignerPublicCmd) Run(ctx context.Context, std Streams) error {
	keys, err := c.open(std, c.KeyFile)
	if err != nil {
		return err
	}
	b, e, err := keys.Wallets()
	if err != nil {
		return err
	}
	if e, err = c.use(ctx, e); err != nil {
		return err
	}
	printPublic(std, keys.Network, b, e)
	return nil
}

// importKeys reads keys from the lines of an environment file on the standard input.
func importKeys(std Streams, keys *signer.KeyFile) error {
	var text bytes.Buffer
	if _, err := text.ReadFrom(std.In); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "STIPEND_BITCOIN_XPRV":
			keys.Bitcoin = value
		case "STIPEND_EVM_XPRV":
			keys.EVM = value
		}
	}
	if keys.Bitcoin == "" && keys.EVM == "" {
		return errors.New("stdin has no line STIPEND_BITCOIN_XPRV=… or STIPEND_EVM_XPRV=…")
	}
	return nil
}

// SignerVerifyCmd checks the log of a signer.
type SignerVerifyCmd struct {
	Log  string `arg:"" help:"File of the log."`
	Head string `placeholder:"HASH" help:"Hash of an entry known from an earlier check, which must still be in the log."`
}

// Run checks the log and prints its last hash.
func (c SignerVerifyCmd) Run(std Streams) error {
	file, err := os.Open(c.Log)
	if err != nil {
		return err
	}
	defer file.Close()
	var last signer.Entry
	found := c.Head == ""
	if _, err := signer.ReadLog(file, func(e signer.Entry) { last, found = e, found || e.Hash == c.Head }); err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: no entry has the hash %s", signer.ErrLogBroken, c.Head)
	}
	fmt.Fprintf(std.Out, "%d entries are as they were written.\n", last.Seq)
	if last.Seq > 0 {
		fmt.Fprintf(std.Out, "Entry %d has the hash %s\n", last.Seq, last.Hash)
	}
	return nil
}
