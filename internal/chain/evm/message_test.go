package evm

import (
	"errors"
	"strings"
	"testing"
)

// The example of the documentation of web3.js.
func TestVerifyMessage(t *testing.T) {
	const account, message = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23", "Some data"
	const signature = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422f" +
		"c2da167c747ef045e5d18a5f5d4300f8e1a0291c"
	for _, valid := range []string{signature, strings.TrimPrefix(signature, "0x"), " " + signature + "\n",
		strings.TrimSuffix(signature, "1c") + "01"} {
		if err := VerifyMessage(account, message, valid); err != nil {
			t.Errorf("%q: %v", valid, err)
		}
	}
	for name, v := range map[string][3]string{
		"another account": {"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", message, signature},
		"another message": {account, "Some data.", signature},
		"the other key":   {account, message, strings.TrimSuffix(signature, "1c") + "1b"},
		"no such key":     {account, message, strings.TrimSuffix(signature, "1c") + "1d"},
		"shorter":         {account, message, strings.TrimSuffix(signature, "1c")},
		"not hexadecimal": {account, message, "0xzz"},
		"empty":           {account, message, ""},
	} {
		if err := VerifyMessage(v[0], v[1], v[2]); !errors.Is(err, ErrMessageSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
