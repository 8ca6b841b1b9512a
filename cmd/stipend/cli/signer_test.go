package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/chain/bitcoin"
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
