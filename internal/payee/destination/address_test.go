package destination

import (
	"strings"
	"testing"
)

// The addresses are from the networks' own specifications and documentation.
func TestAddresses(t *testing.T) {
	for rail, c := range map[string]struct {
		good  map[string]string // stored form by input
		wrong []string
		check bool // whether a checksum detects one changed character
	}{
		RailEVM: { // the test cases of EIP-55
			good: map[string]string{
				"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed": "", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359": "",
				"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB": "", "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb": "",
				"0x52908400098527886E0F7030069857D2E4169EE7": "", "0xde709f2102306220921060314715629080e2fb77": "",
			},
			wrong: []string{"0xfb6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "fB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
				"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d3", "0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
		},
		RailTron: { // developers.tron.network, account addresses
			good: map[string]string{"TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxMW": "", "TNPeeaaFB7K9cmo4uQpcU32zGK8G1NYqeL": ""},
			wrong: []string{"1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2", "T", "TJCnKsPa7y5okkXvQAidZBzqx3QyQ6sxM", "41" +
				strings.Repeat("a", 40)},
			check: true,
		},
		RailSolana: { // solana.com/developers/cookbook: a public key on the curve, and one that is not
			good: map[string]string{"5oNDL3swdJJF1g9DzJiZ4ynHXgszjAEpUkxVYejchzrY": ""},
			wrong: []string{"4BJXYkfvg37zEmBbsacZjeQDpTNx91KppxFJxRqrz48e", "11111111111111111111111111111111",
				"15oNDL3swdJJF1g9DzJiZ4ynHXgszjAEpUkxVYejchzrY", "0oNDL3swdJJF1g9DzJiZ4ynHXgszjAEpUkxVYejchzrY"},
		},
		// the segwit form is BIP 173's example key with Litecoin's prefix; the others are of the reference wallet's tests
		RailLitecoin: {
			good: map[string]string{
				"ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9": "",
				"LTC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KGMN4N9": "ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9",
				"LVg2kJoFNg45Nbpy53h7Fe1wKyeXVRhMH9":          "", "MGxNPPB7eBoWPUaprtX9v9CXJZoD2465zN": "",
			},
			wrong: []string{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
				"ltc1Qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9"},
			check: true,
		},
		RailBitcoinCash: { // the specification of CashAddr
			good: map[string]string{
				"bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a": "",
				"bitcoincash:ppm2qsznhks23z7629mms6s4cwef74vcwvn0h829pq": "",
				"qr95sy3j9xwd2ap32xkykttr4cvcu7as4y0qverfuy":             "bitcoincash:qr95sy3j9xwd2ap32xkykttr4cvcu7as4y0qverfuy",
				"BITCOINCASH:QQQ3728YW0Y47SQN6L2NA30MCW6ZM78DZQRE909M2R": "bitcoincash:qqq3728yw0y47sqn6l2na30mcw6zm78dzqre909m2r",
			},
			wrong: []string{"bchtest:pr6m7j9njldwwzlg9v7v53unlr4jkmx6eyvwc0uz5t",
				"bitcoincash:Qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", "1BpEi6DfDAUFd7GtittLSdBeYJvcoaVggu"},
			check: true,
		},
		RailXRP: { // xrpl.org, addresses
			good: map[string]string{"rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jpn": "", "rN7n7otQDd6FczFgLdSqtcsAUxDkw6fzRH": ""},
			wrong: []string{"rrrrrrrrrrrrrrrrrrrrrhoLvTp", "rrrrrrrrrrrrrrrrrrrrBZbvji",
				"X7AcgcsBL6XDcUb289X4mJ8djcdyKaB5hJDWMArnXr61cqZ", "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2",
				"rf1BiGeXwwQoi8Z2ueFYTEXSwuJYfV2Jp0"},
			check: true,
		},
		RailStellar: { // SEP-23
			good: map[string]string{"GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ": ""},
			wrong: []string{"MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAACJUQ",
				"GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZTXB",
				"ga7qynf7sowq3glr2bgmzehxavirza4kvwltjjfc7mgxua74p7ujvsgz", "GAAAAAAAACGC6",
				"SBU2RRGLXH3E5CQHTD3ODLDF2BWDCYUSSBLLZ5GNW7JXHDIYKXZWHXL7"},
			check: true,
		},
	} {
		on := network{rail, rail}
		for typed, want := range c.good {
			if want == "" {
				want = typed
				if rail == RailEVM { // an address in a single case has no checksum; the stored form has one
					want, _ = evmAddress(strings.ToLower(typed))
				}
			}
			got, why := Setup{}.address(typed, on)
			if got != want || why != "" {
				t.Errorf("%s %s: %q %s", rail, typed, got, why)
			}
			if !c.check {
				continue
			}
			for i := range typed {
				for _, other := range "1p9Zqr2xA" {
					mistyped := typed[:i] + string(other) + typed[i+1:]
					if got, why := (Setup{}).address(mistyped, on); why == "" && got != want && !strings.EqualFold(mistyped, typed) {
						t.Errorf("%s takes %s for %s", rail, mistyped, typed)
					}
				}
			}
		}
		for _, typed := range append(c.wrong, "", " ", "x", "\x00", strings.Repeat("1", 200), strings.Repeat("é", 30)) {
			if got, why := (Setup{}).address(typed, on); why == "" || got != "" {
				t.Errorf("%s takes %q", rail, typed)
			}
		}
	}
	for rail, example := range examples {
		name := rail
		if rail == RailBitcoin {
			name = "bitcoin"
		}
		if _, why := (Setup{}).address(example, network{name, rail}); why != "" {
			t.Errorf("the example of %s: %s", rail, why)
		}
	}
}

// For any input, an accepted address is its own normal form, and nothing panics.
func FuzzAddress(f *testing.F) {
	for rail, example := range examples {
		f.Add(rail, example)
	}
	f.Fuzz(func(t *testing.T, rail, text string) {
		if addressForms[rail] == nil && rail != RailBitcoin {
			return
		}
		on := network{rail, rail}
		addr, why := Setup{}.address(text, on)
		if (addr == "") == (why == "") {
			t.Fatalf("%q: %q, %q", text, addr, why)
		}
		if again, _ := (Setup{}).address(addr, on); why == "" && again != addr {
			t.Errorf("%q is kept as %q, which is kept as %q", text, addr, again)
		}
	})
}
