package bitcoin

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// The published vectors of BIP-322, and of Bitcoin Core's signmessage.
const (
	segwitVector  = "bc1q9vza2e8x573nczrlzms0wvx3gsqjx7vavgkx0l"
	taprootVector = "bc1ppv609nr0vr25u07u95waq5lucwfm6tde4nydujnu8npg4q75mr5sxq8lt3"
)

func TestVerifyMessageVectors(t *testing.T) {
	for _, v := range []struct{ address, message, signature, format string }{
		{segwitVector, "", "AkcwRAIgM2gBAQqvZX15ZiysmKmQpDrG83avLIT492QBzLnQIxYCIBaTpOaD20qRlEylyxFSeEA2ba9YOixpX8z46T" +
			"SDtS40ASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI=", BIP322},
		{segwitVector, "", "AkgwRQIhAPkJ1Q4oYS0htvyuSFHLxRQpFAY56b70UvE7Dxazen0ZAiAtZfFz1S6T6I23MWI2lK/pcNTWncuyL8UL+o" +
			"MdydVgzAEhAsfxIAMZZEKUPYWI4BruhAQjzFT8FSFSajuFwrDL1Yhy", BIP322},
		{segwitVector, "Hello World", "AkcwRAIgZRfIY3p7/DoVTty6YZbWS71bc5Vct9p9Fia83eRmw2QCICK/ENGfwLtptFluMGs2KsqoNSk8" +
			"9pO7F29zJLUx9a/sASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI=", BIP322},
		{segwitVector, "Hello World", "smpAkgwRQIhAOzyynlqt93lOKJr+wmmxIens//zPzl9tqIOua93wO6MAiBi5n5EyAcPScOjf1lAqIUIQt" +
			"r3zKNeavYabHyR8eGhowEhAsfxIAMZZEKUPYWI4BruhAQjzFT8FSFSajuFwrDL1Yhy", BIP322},
		{taprootVector, "Hello World", "AUHd69PrJQEv+oKTfZ8l+WROBHuy9HKrbFCJu7U1iK2iiEy1vMU5EfMtjc+VSHM7aU0SDbak5IUZRVno" +
			"2P5mjSafAQ==", BIP322},
		{"15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", "Trust no one", "IPojfrX2dfPnH26UegfbGQQLrdK844DlHq5157/P6h57WyuS/Qsl+h/WS" +
			"VGDF4MUi4rWSswW38oimDYfNNUBUOk=", BIP137},
		{"11canuhp9X2NocwCq7xNrQYTmUgZAnLK3", "Trust me", "IIcaIENoYW5jZWxsb3Igb24gYnJpbmsgb2Ygc2Vjb25kIGJhaWxvdXQgZm9yI" +
			"GJhbmtzIAaHRtbCeDZINyavx14=", BIP137},
	} {
		format, err := VerifyMessage(v.address, "bitcoin", v.message, v.signature)
		if err != nil || format != v.format {
			t.Errorf("%s, %q: %q, %v", v.address, v.message, format, err)
		}
		if _, err := VerifyMessage(v.address, "bitcoin", v.message+".", v.signature); !errors.Is(err, ErrSignature) {
			t.Errorf("%s with a changed message: %v", v.address, err)
		}
		for _, other := range []string{segwitVector, taprootVector, "15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs",
			"3EktnHQD7RiAE6uzMj2ZifT9YgRrkSgzQX", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"} {
			if other == v.address {
				continue
			}
			if _, err := VerifyMessage(other, "bitcoin", v.message, v.signature); !errors.Is(err, ErrSignature) {
				t.Errorf("the signature of %s for %s: %v", v.address, other, err)
			}
		}
	}
}

func TestBIP322Hashes(t *testing.T) {
	script, err := AddressScript(segwitVector, "bitcoin")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ message, hash, spend, sign string }{
		{"", "c90c269c4f8fcbe6880f72a721ddfbf1914268a794cbb21cfafee13770ae19f1",
			"c5680aa69bb8d860bf82d4e9cd3504b55dde018de765a91bb566283c545a99a7",
			"1e9654e951a5ba44c8604c4de6c67fd78a27e81dcadcfe1edf638ba3aaebaed6"},
		{"Hello World", "f0eb03b1a75ac6d9847f55c624a99169b5dccba2a31f5b23bea77ba270de0a7a",
			"b79d196740ad5217771c1098fc4a4b51e0535c32236c71f1ea4d61a2d603352b",
			"88737ae86f2077145f93cc4b153ae9a1cb8d56afa511988c149c5c8c9d93bddf"},
	} {
		tx := toSign(script, v.message)
		if hash := hex.EncodeToString(bip322Hash(v.message)); hash != v.hash {
			t.Errorf("hash of %q: %s", v.message, hash)
		}
		if got := tx.TxIn[0].PreviousOutPoint.Hash.String(); got != v.spend {
			t.Errorf("to_spend of %q: %s", v.message, got)
		}
		if got := tx.TxHash().String(); got != v.sign {
			t.Errorf("to_sign of %q: %s", v.message, got)
		}
	}
}

// Each type of address with a key of its own, signed as wallets sign.
func TestVerifyMessageOfEachAddress(t *testing.T) {
	seed := sha256.Sum256([]byte("verify message"))
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	net := &chaincfg.RegressionNetParams
	hash := address.Hash160(key.PubKey().SerializeCompressed())
	must := func(a address.Address, err error) address.Address {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	legacy := must(address.NewAddressPubKeyHash(hash, net))
	wrapped := must(address.NewAddressScriptHash(keyProgram(hash), net))
	segwit := must(address.NewAddressWitnessPubKeyHash(hash, net))
	output := txscript.ComputeTaprootKeyNoScript(key.PubKey())
	taproot := must(address.NewAddressTaproot(output.SerializeCompressed()[1:], net))
	const message = "This wallet is mine.\nNonce: 1"

	recoverable := func(first byte) string {
		raw := ecdsa.SignCompact(key, signedMessageHash(message), true)
		raw[0] += first
		return base64.StdEncoding.EncodeToString(raw)
	}
	simple := func(a address.Address) string {
		script, err := txscript.PayToAddrScript(a)
		if err != nil {
			t.Fatal(err)
		}
		tx := toSign(script, message)
		fetcher := txscript.NewCannedPrevOutputFetcher(script, 0)
		hashes := txscript.NewTxSigHashes(tx, fetcher)
		var witness wire.TxWitness
		if a == taproot {
			witness, err = txscript.TaprootWitnessSignature(tx, hashes, 0, 0, script, txscript.SigHashDefault, key)
		} else {
			witness, err = txscript.WitnessSignature(tx, hashes, 0, 0, keyProgram(hash), txscript.SigHashAll, key, true)
		}
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := wire.WriteVarInt(&b, 0, uint64(len(witness))); err != nil {
			t.Fatal(err)
		}
		for _, item := range witness {
			if err := wire.WriteVarBytes(&b, 0, item); err != nil {
				t.Fatal(err)
			}
		}
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	for _, v := range []struct {
		name      string
		of        address.Address
		signature string
		format    string // "" if it is refused
	}{
		{"P2PKH, BIP-137", legacy, recoverable(0), BIP137},
		{"P2SH-P2WPKH, BIP-137", wrapped, recoverable(4), BIP137},
		{"P2SH-P2WPKH, as Electrum", wrapped, recoverable(0), BIP137},
		{"P2WPKH, BIP-137", segwit, recoverable(8), BIP137},
		{"P2WPKH, BIP-322", segwit, simple(segwit), BIP322},
		{"P2SH-P2WPKH, BIP-322", wrapped, simple(wrapped), BIP322},
		{"P2TR, BIP-322", taproot, simple(taproot), BIP322},
		{"P2TR, BIP-137", taproot, recoverable(0), ""},
		{"P2PKH, BIP-322", legacy, simple(segwit), ""},
		{"P2TR, the signature of P2WPKH", taproot, simple(segwit), ""},
		{"not base64", segwit, "%%%", ""},
		{"empty", segwit, "", ""},
		{"too long", segwit, strings.Repeat("A", maxSignature+1), ""},
		{"a huge count", segwit, base64.StdEncoding.EncodeToString([]byte{0xff, 1, 2, 3, 4, 5, 6, 7, 8}), ""},
	} {
		format, err := VerifyMessage(v.of.EncodeAddress(), "regtest", message, v.signature)
		if v.format == "" && !errors.Is(err, ErrSignature) || v.format != "" && (err != nil || format != v.format) {
			t.Errorf("%s: %q, %v", v.name, format, err)
		}
	}
}
