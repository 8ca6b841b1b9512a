package httpapi

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/testkit"
)

// Users and recipients prove that they control a wallet by signing the text of their statement.
func TestWalletsAreProved(t *testing.T) {
	b := newFullFixture(t, sqlite(t))
	key, _ := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{3}, 32))
	wallet := testkit.Must(address.NewAddressWitnessPubKeyHash(address.Hash160(key.PubKey().SerializeCompressed()),
		&chaincfg.RegressionNetParams)).EncodeAddress()
	user := b.user("Ada")
	_, recipient := b.recipientIn("DE")
	for path, c := range map[string]struct{ owner, kind string }{
		"/api/user/distribution": {`"user_id":"` + user + `",`, `"distribution_type":"crypto",`}, recipient: {},
	} {
		made, _ := ask[members](b, "POST", path, `{`+c.owner+c.kind+`"symbol":"BTC","distribution_data":{"address":"`+
			wallet+`"}}`)
		of := fmt.Sprintf(`{%s"distribution_id":%q,`, c.owner, made["distribution_id"])
		stated, _ := ask[members](b, "POST", path+"/wallet", of+`"hosting":"self_hosted"}`)
		var text bytes.Buffer
		_ = wire.WriteVarString(&text, 0, "Bitcoin Signed Message:\n")
		_ = wire.WriteVarString(&text, 0, stated["challenge"].(string))
		signature := base64.StdEncoding.EncodeToString(ecdsa.SignCompact(key, chainhash.DoubleHashB(text.Bytes()), true))
		proved, answer := ask[members](b, "POST", path+"/wallet/proof", of+`"signature":"`+signature+`"}`)
		if proved["proof_format"] != "bip137" || proved["proved"] == nil {
			t.Errorf("%s: %s", path, answer)
		}
	}
}
