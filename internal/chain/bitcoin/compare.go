package bitcoin

import (
	"slices"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
)

// PublicKey returns the public account key of a private one, of any network.
func PublicKey(private string) (string, error) {
	var err error
	for _, network := range []string{"bitcoin", "regtest"} {
		var s *Signer
		if s, err = ParseXPriv(private, network); err == nil {
			return s.Deriver().XPub(), nil
		}
	}
	return "", err
}

// SameKey reports whether two extended Bitcoin keys have a public key in common, of any network and depth.
func SameKey(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	ka, errA := publicKeys(a)
	kb, errB := publicKeys(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return slices.ContainsFunc(ka, func(k string) bool { return slices.Contains(kb, k) })
}

// publicKeys returns the compressed public key of an extended key and, for a master key, those of its first account on
// each Bitcoin network.
func publicKeys(text string) ([]string, error) {
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
