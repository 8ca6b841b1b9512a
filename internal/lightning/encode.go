package lightning

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
)

// Encode encodes and signs a payment request (BOLT 11), like a real node; simulated nodes use it. secret is the
// payment secret.
func Encode(key *btcec.PrivateKey, r Request, secret [32]byte) (string, error) {
	human := Prefix(r.Network)
	if r.Msat > 0 {
		human += encodeAmount(r.Msat)
	}
	data := groups(r.Created.Unix(), 7)
	field := func(kind byte, value []byte) {
		data = append(data, kind, byte(len(value)>>5), byte(len(value)&31))
		data = append(data, value...)
	}
	bytes := func(kind byte, raw []byte) error {
		value, err := bech32.ConvertBits(raw, 8, 5, true)
		field(kind, value)
		return err
	}
	describes, description := byte(fieldDescription), []byte(r.Memo)
	if r.DescriptionHash != (Hash{}) {
		describes, description = fieldDescriptionHash, r.DescriptionHash[:]
	}
	for _, f := range []struct {
		kind byte
		raw  []byte
	}{{fieldHash, r.Hash[:]}, {describes, description}, {16, secret[:]}} {
		if err := bytes(f.kind, f.raw); err != nil {
			return "", err
		}
	}
	field(6, shortest(int64(r.Expiry/time.Second)))
	field(24, shortest(80))    // the minimum final CLTV expiry, in blocks
	field(5, []byte{16, 8, 0}) // features 8 and 14 are required: variable onions and payment secret
	body, err := bech32.ConvertBits(data, 5, 8, true)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(append([]byte(human), body...))
	compact := ecdsa.SignCompact(key, digest[:], true)
	signature, err := bech32.ConvertBits(append(compact[1:], compact[0]-27-4), 8, 5, true)
	if err != nil {
		return "", err
	}
	return bech32.Encode(human, append(data, signature...))
}

// encodeAmount encodes an amount in millisatoshis with the largest unit that divides it.
func encodeAmount(msat int64) string {
	for _, u := range []struct {
		letter string
		msat   int64
	}{{"", 100_000_000_000}, {"m", 100_000_000}, {"u", 100_000}, {"n", 100}} {
		if msat%u.msat == 0 {
			return fmt.Sprintf("%d%s", msat/u.msat, u.letter)
		}
	}
	return fmt.Sprintf("%dp", msat*10)
}

func groups(n int64, count int) []byte {
	b := make([]byte, count)
	for i := range b {
		b[count-1-i] = byte(n & 31)
		n >>= 5
	}
	return b
}

func shortest(n int64) []byte {
	b := groups(n, 7)
	if i := slices.IndexFunc(b, func(g byte) bool { return g != 0 }); i >= 0 {
		return b[i:]
	}
	return nil
}
