package keysource_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/big"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/keysource"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

var start = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

// file creates an encrypted file of keys, and returns the wallet that was read from it.
func file(t *testing.T) *signer.Wallet[*evm.Deriver] {
	t.Helper()
	path, passphrase := filepath.Join(t.TempDir(), "keys"), []byte("a long enough passphrase")
	keys := signer.KeyFile{Network: "regtest", EVM: testkit.Must(evm.MasterFromSeed(bytes.Repeat([]byte{1}, 32)))}
	if err := keys.Create(path, passphrase); err != nil {
		t.Fatal(err)
	}
	_, wallet, err := testkit.Must(signer.OpenKeyFile(path, passphrase)).Wallets()
	if err != nil {
		t.Fatal(err)
	}
	return wallet
}

// hot is the path of the key that pays.
var hot = bitcoin.KeyPath{Branch: chain.Change}

// Every source of keys pays by the same rules.
func TestSources(t *testing.T) {
	testkit.NotQuick(t, "SoftHSM")
	wallet, now := file(t), func() time.Time { return start }
	t.Run("file", func(t *testing.T) { suite(t, wallet) })
	t.Run("pkcs11", func(t *testing.T) {
		source := testkit.Must(keysource.Open(t.Context(), softHSM(t).uri, nil))
		suite(t, signer.WithHotKey(file(t), source))
	})
	t.Run("kms", func(t *testing.T) {
		source := testkit.Must(keysource.Open(t.Context(), signertest.NewKMS(t, now).URI(), now))
		suite(t, signer.WithHotKey(file(t), source))
	})
}

func suite(t *testing.T, wallet *signer.Wallet[*evm.Deriver]) {
	ctx := t.Context()
	address := testkit.Must(evm.ParseAddress(testkit.Must(wallet.Deriver.HotAddress())))
	deposit := testkit.Must(evm.ParseAddress(testkit.Must(wallet.Deriver.Address(chain.External, 3))))

	// The public text that the service gets derives the same addresses.
	public := testkit.Must(evm.ParseXPub(wallet.Deriver.XPub()))
	for _, path := range []bitcoin.KeyPath{hot, {Index: 3}, {Branch: chain.Change, Index: 1}} {
		got, want := testkit.Must(public.Address(path.Branch, path.Index)), testkit.Must(wallet.Deriver.Address(path.Branch,
			path.Index))
		if got != want {
			t.Errorf("the service derives %s for %v, the signer %s", got, path, want)
		}
	}

	// Signatures are by the key, with a low s, for any hash: also one with leading zeros.
	half := new(big.Int).Rsh(secp256k1.S256().N, 1)
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Go(func() {
			hash := sha256.Sum256([]byte{byte(i)})
			if i == 0 {
				hash = [32]byte{31: 1}
			}
			sig, err := wallet.Keys.Sign(ctx, hot, hash[:])
			if err != nil {
				t.Errorf("hash %d: %v", i, err)
				return
			}
			if new(big.Int).SetBytes(sig[32:]).Cmp(half) > 0 {
				t.Errorf("hash %d: s is not low", i)
			}
			if !recovers(sig, hash[:], address) {
				t.Errorf("hash %d: the signature is not by the key of %s", i, address)
			}
		})
	}
	wait.Wait()

	// Deposits are signed by derived keys.
	hash := sha256.Sum256([]byte("deposit"))
	if sig := testkit.Must(wallet.Keys.Sign(ctx, bitcoin.KeyPath{Index: 3}, hash[:])); !recovers(sig, hash[:], deposit) {
		t.Error("a deposit is not signed by its derived key")
	}
	if _, err := wallet.Keys.Sign(ctx, hot, hash[:31]); err == nil {
		t.Error("a hash of 31 bytes was signed")
	}

	pays(t, wallet, address)

	wallet.Keys.Close()
	for _, path := range []bitcoin.KeyPath{hot, {Index: 3}} {
		if _, err := wallet.Keys.Sign(ctx, path, hash[:]); err == nil {
			t.Errorf("%v signs after Close", path)
		}
	}
}

// pays lets a signer with the wallet sign a transaction, which must be one of the hot address.
func pays(t *testing.T, wallet *signer.Wallet[*evm.Deriver], address evm.Address) {
	t.Helper()
	const payee = "0x00000000000000000000000000000000000000aa"
	policy := fmt.Sprintf(`{"assets": {"ETH": {"transaction": "1", "hour": "1", "day": "1", "approval_above": "1"}},
		"evm": {"base": {"max_fee": "0.01"}}, "destinations": {"known_for": "0s", "allowed": [%q]}}`, payee)
	service := testkit.Must(signer.New(signer.Options{Policy: testkit.Must(signer.ParsePolicy([]byte(policy))),
		Log: testkit.Must(signer.OpenLog(filepath.Join(t.TempDir(), "log"))), EVM: wallet,
		Alarm: slog.New(slog.DiscardHandler), Now: func() time.Time { return start }}))
	tx := evm.Tx{ChainID: 8453, Nonce: 1, Tip: 1e9, MaxFee: 1e9, Gas: 21_000,
		Call: evm.Call{To: testkit.Must(evm.ParseAddress(payee)), Value: big.NewInt(1e15)}}
	sig := testkit.Must(service.SignEVM(t.Context(), signer.EVMRequest{Chain: "base", Transaction: tx.Unsigned(),
		From: hot}))
	if _, _, err := tx.WithSignature(sig, address); err != nil {
		t.Error(err)
	}
}

func recovers(sig [64]byte, hash []byte, address evm.Address) bool {
	for parity := range byte(2) {
		key, _, err := ecdsa.RecoverCompact(append([]byte{27 + parity}, sig[:]...), hash)
		if err == nil && evm.AddressOf(key) == address {
			return true
		}
	}
	return false
}

// What is not configured completely is refused at the start.
func TestURIsThatAreRefused(t *testing.T) {
	for _, uri := range []string{
		"", "file:///keys", "pkcs11:", "pkcs11:token=a;id=%01", "pkcs11:token=a;id=%01?module-path=/m.so",
		"pkcs11:token=a;id=%01?module-path=/m.so&pin-source=file:/does/not/exist",
		"pkcs11:token=a;id=%01?module-path=/m.so&pin-value=1234",
		"pkcs11:token=--help;id=%01?module-path=/m.so&pin-source=file:/dev/null",
		"pkcs11:token=a;slot-id=1?module-path=/m.so&pin-source=file:/dev/null",
		"awskms://", "awskms:///?region=eu-central-1", "awskms://host/key?region=eu-central-1",
		"awskms:///key?region=eu-central-1&secret=x", "awskms:///key?region=eu-central-1&endpoint=http://kms.example.com",
	} {
		if source, err := keysource.Open(context.Background(), uri, time.Now); err == nil {
			_ = source.Close()
			t.Errorf("%q was accepted", uri)
		}
	}
}
