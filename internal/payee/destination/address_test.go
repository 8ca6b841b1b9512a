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
		}
		for _, typed := range append(c.wrong, "", " ", "x", "\x00", strings.Repeat("1", 200), strings.Repeat("é", 30)) {
			if got, why := (Setup{}).address(typed, on); why == "" || got != "" {
				t.Errorf("%s takes %q", rail, typed)
			}
		}
	}
}

// For any input, an accepted address is its own normal form, and nothing panics.
func FuzzAddress(f *testing.F) {
	f.Add(RailEVM, evmExample)
	f.Add(RailBitcoin, bitcoinExamples["bitcoin"])
	f.Fuzz(func(t *testing.T, rail, text string) {
		if rail != RailEVM && rail != RailBitcoin {
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
