package app

import (
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"

	"github.com/stipend/stipend/internal/chain/bitcoin"
)

// neuter is the public account key of a private one, of whatever network its version bytes allow.
func neuter(xprv string) (string, error) {
	var err error
	for _, network := range []string{"bitcoin", "regtest"} {
		var s *bitcoin.Signer
		if s, err = bitcoin.ParseXPriv(xprv, network); err == nil {
			return s.Deriver().XPub(), nil
		}
	}
	return "", err
}

func checkXPrv(key, network string) error {
	_, err := bitcoin.ParseXPriv(key, network)
	return err
}

func checkXPub(key, network string) error {
	_, err := bitcoin.ParseXPub(key, network)
	return err
}

// sameKey compares two extended keys by their secret or public point, whatever network and depth their texts are written
// for: the sandbox's key under another name is still the sandbox's key.
func sameKey(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	ka, errA := points(a)
	kb, errB := points(b)
	if errA != nil || errB != nil {
		return a == b
	}
	for _, x := range ka {
		for _, y := range kb {
			if x == y {
				return true
			}
		}
	}
	return false
}

// points are the public points a key stands for: its own and, of a master key, those of its first account on each network.
func points(text string) ([]string, error) {
	key, err := hdkeychain.NewKeyFromString(text)
	if err != nil {
		return nil, err
	}
	keys := []*hdkeychain.ExtendedKey{key}
	if key.IsPrivate() && key.Depth() == 0 {
		for _, coin := range []uint32{0, 1} {
			account := key
			for _, i := range []uint32{84, coin, 0} {
				if account, err = account.Derive(hdkeychain.HardenedKeyStart + i); err != nil {
					return nil, err
				}
			}
			keys = append(keys, account)
		}
	}
	var all []string
	for _, k := range keys {
		p, err := k.ECPubKey()
		if err != nil {
			return nil, err
		}
		all = append(all, string(p.SerializeCompressed()))
	}
	return all, nil
}
