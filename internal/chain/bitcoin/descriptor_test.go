package bitcoin

import (
	"errors"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg/v2"
)

// The keys and addresses are the test vectors of BIP 49, 84 and 86.
const (
	key49 = "tpubDD7tXK8KeQ3YY83yWq755fHY2JW8Ha8Q765tknUM5rSvjPcGWfUppDFM" +
		"pQ1ScziKfW3ZNtZvAD7M3u7bSs7HofjTD3KP3YxPK7X6hwV8Rk2"
	key84 = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3Ef" +
		"H1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"
	key86 = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcL" +
		"teoGVky7D3UKDP9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ"
)

func TestAReceiverDerivesTheAddressesOfAWallet(t *testing.T) {
	for name, c := range map[string]struct{ network, text, first, second string }{
		"BIP 84": {"bitcoin", key84, "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
			"bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"},
		"BIP 84, as a descriptor": {"bitcoin", "wpkh([73c5da0a/84h/0h/0h]" + key84 + "/0/*)",
			"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g"},
		"BIP 86, with two branches": {"bitcoin", "tr([73c5da0a/86'/0'/0']" + key86 + "/<0;1>/*)",
			"bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
			"bc1p4qhjn9zdvkux4e44uhx8tc55attvtyu358kutcqkudyccelu0was9fqzwh"},
		"BIP 49": {"testnet", "sh(wpkh(" + key49 + "/0/*))", "2Mww8dCYPUpKHofjgcXcBCEGmniw9CoaiD2", ""},
	} {
		r, err := ParseReceiver(c.text, c.network)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range []string{c.first, c.second} {
			if got, err := r.Address(uint32(i)); want != "" && (got != want || err != nil) {
				t.Errorf("%s: address %d is %s (%v), want %s", name, i, got, err, want)
			}
		}
		sum := descriptorChecksum(c.text)
		if again, err := ParseReceiver(c.text+"#"+sum, c.network); strings.Contains(c.text, "(") &&
			(err != nil || again.ID() != r.ID()) {
			t.Errorf("%s with its checksum %s: %v", name, sum, err)
		}
	}
	plain, _ := ParseReceiver(key84, "bitcoin")
	if same, _ := ParseReceiver("wpkh("+key84+"/0/*)", "bitcoin"); same.ID() != plain.ID() {
		t.Error("the same wallet has two IDs")
	}
	if other, _ := ParseReceiver("pkh("+key84+"/0/*)", "bitcoin"); other.ID() == plain.ID() {
		t.Error("two wallets have one ID")
	}
	if got := descriptorChecksum("raw(deadbeef)"); got != "89f8spxm" { // of BIP 380
		t.Errorf("the checksum is %s", got)
	}
}

func TestAReceiverIsRefused(t *testing.T) {
	master, err := hdkeychain.NewMaster([]byte(strings.Repeat("k", 32)), &chaincfg.MainNetParams)
	if err != nil {
		t.Fatal(err)
	}
	public, err := master.Neuter()
	if err != nil {
		t.Fatal(err)
	}
	private := master.String()
	for text, want := range map[string]error{
		"":                                     ErrDescriptor,
		"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z": ErrDescriptor,
		private:                                ErrPrivateKey,
		"wpkh(" + private + "/0/*)":            ErrPrivateKey,
		"wsh(" + private + "/0/*)":             ErrPrivateKey,
		private + "x":                          ErrPrivateKey,
		public.String():                        ErrKeyDepth,
		key49:                                  ErrKeyNetwork,
		"wpkh(" + key84 + ")":                  ErrDescriptor, // one address only
		"wpkh(" + key84 + "/0h/*)":             ErrDescriptor, // needs the private key
		"wpkh(" + key84 + "/0/*":               ErrDescriptor,
		"sh(wpkh(" + key84 + "/0/*)":           ErrDescriptor,
		"wsh(pk(" + key84 + "/0/*))":           ErrDescriptor,
		"wpkh(" + key84 + "/0/*)#qqqqqqqq":     ErrChecksum,
		"wpkh(" + key84 + "/2147483648/*)":     ErrDescriptor,
		key84[:100] + "x" + key84[101:]:        ErrDescriptor,
	} {
		_, err := ParseReceiver(text, "bitcoin")
		if !errors.Is(err, want) {
			t.Errorf("%.40s: %v, want %v", text, err, want)
		}
		if err != nil && len(text) > 20 && strings.Contains(err.Error(), text[:20]) {
			t.Errorf("the error contains the key: %v", err)
		}
	}
}

// Whatever parses derives addresses that are valid on the network.
func FuzzReceiver(f *testing.F) {
	for _, text := range []string{key84, "wpkh([73c5da0a/84h/0h/0h]" + key84 + "/0/*)",
		"tr([73c5da0a/86'/0'/0']" + key86 + "/<0;1>/*)", "sh(wpkh(" + key49 + "/0/*))", "xprv", "pkh(/*)#aaaaaaaa"} {
		f.Add(text, "bitcoin")
	}
	f.Fuzz(func(t *testing.T, text, network string) {
		r, err := ParseReceiver(text, network)
		if err != nil {
			return
		}
		for _, index := range []uint32{0, 7} {
			address, err := r.Address(index)
			if err != nil {
				t.Fatalf("%q on %q: address %d: %v", text, network, index, err)
			}
			if _, err := NormalizeAddress(address, network); err != nil {
				t.Errorf("%q on %q derives %s: %v", text, network, address, err)
			}
		}
	})
}
