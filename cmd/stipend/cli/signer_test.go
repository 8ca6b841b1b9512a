package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

// An operator moves existing keys to a signer, runs it, and checks its log.
func TestTheCommandsOfASigner(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { testkit.Check(t, os.WriteFile(file(name), []byte(text), 0o600)) }
	write("passphrase", "correct horse battery\n")
	write("policy", signertest.Policy)
	master := testkit.Must(bitcoin.MasterFromSeed(make([]byte, 32), "regtest"))
	var out bytes.Buffer
	passphrase := cli.Passphrase{PassphraseFile: file("passphrase")}
	testkit.Check(t, cli.SignerKeysCmd{File: file("keys"), Network: "regtest", Import: true, Passphrase: passphrase}.
		Run(cli.Streams{In: strings.NewReader("STIPEND_BITCOIN_XPRV=" + master + "\n"), Out: &out}))
	public := testkit.Must(bitcoin.PublicKey(master))
	if !strings.Contains(out.String(), "STIPEND_BITCOIN_XPUB="+public+"\n") || strings.Contains(out.String(), master) {
		t.Errorf("printed %q", out.String())
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cli.SignerServeCmd{Listen: "unix:" + file("socket"), Policy: file("policy"), Log: file("log"),
			KeyFile: file("keys"), Passphrase: passphrase}.Run(ctx, cli.Streams{Err: &bytes.Buffer{}})
	}()
	client := testkit.Must(signer.NewClient("unix:"+file("socket"), signer.TLSFiles{}))
	var info signer.Info
	for err := os.ErrNotExist; err != nil && len(done) == 0; {
		info, err = client.Info(t.Context())
	}
	if info.BitcoinXPub != public {
		t.Errorf("%+v", info)
	}
	stop()
	testkit.Check(t, <-done)
	out.Reset()
	testkit.Check(t, cli.SignerVerifyCmd{Log: file("log"), Head: info.Hash}.Run(cli.Streams{Out: &out}))
	if text := out.String(); !strings.Contains(text, "1 entries are as") || !strings.Contains(text, info.Hash) {
		t.Errorf("printed %q", out.String())
	}
	if err := (cli.SignerVerifyCmd{Log: file("log"), Head: "0"}).Run(cli.Streams{Out: &out}); err == nil {
		t.Error("an unknown hash is accepted")
	}
}

// An operator gives the hot account a key in AWS KMS. The service derives the account from the printed public keys.
func TestASignerWithAHotKeyInKMS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { testkit.Check(t, os.WriteFile(file(name), []byte(text), 0o600)) }
	write("passphrase", "correct horse battery\n")
	write("policy", signertest.Policy)
	kms := signertest.NewKMS(t, time.Now)
	passphrase, key := cli.Passphrase{PassphraseFile: file("passphrase")}, cli.HotKey{EVMHotKey: kms.URI()}
	master := testkit.Must(evm.MasterFromSeed(make([]byte, 32)))
	testkit.Check(t, cli.SignerKeysCmd{File: file("keys"), Network: "regtest", Import: true, Passphrase: passphrase}.
		Run(cli.Streams{In: strings.NewReader("STIPEND_EVM_XPRV=" + master + "\n"), Out: &bytes.Buffer{}}))

	var out bytes.Buffer
	testkit.Check(t, cli.SignerPublicCmd{KeyFile: file("keys"), Passphrase: passphrase, HotKey: key}.
		Run(t.Context(), cli.Streams{Out: &out}))
	xpub, found := strings.CutPrefix(strings.TrimSpace(out.String()), "STIPEND_EVM_XPUB=")
	account := testkit.Must(evm.ParseAddress(testkit.Must(testkit.Must(evm.ParseXPub(xpub)).HotAddress())))
	if !found || account != evm.AddressOf(kms.Key.PubKey()) {
		t.Errorf("printed %q, want the account of the key in KMS", out.String())
	}

	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- cli.SignerServeCmd{Listen: "unix:" + file("socket"), Policy: file("policy"), Log: file("log"),
			KeyFile: file("keys"), Passphrase: passphrase, HotKey: key}.Run(ctx, cli.Streams{Err: &bytes.Buffer{}})
	}()
	client := testkit.Must(signer.NewClient("unix:"+file("socket"), signer.TLSFiles{}))
	var info signer.Info
	for err := os.ErrNotExist; err != nil && len(done) == 0; {
		info, err = client.Info(t.Context())
	}
	if info.EVMXPub != xpub {
		t.Errorf("the signer has the keys %q, want %q", info.EVMXPub, xpub)
	}
	stop()
	testkit.Check(t, <-done)

	key.EVMHotKey = "pkcs11:token=stipend"
	if err := (cli.SignerPublicCmd{KeyFile: file("keys"), Passphrase: passphrase, HotKey: key}).Run(t.Context(),
		cli.Streams{Out: &out}); err == nil || !strings.Contains(err.Error(), "--evm-hot-key") {
		t.Errorf("an incomplete URI: %v", err)
	}
}
