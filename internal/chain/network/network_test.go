package network

import (
	"slices"
	"testing"

	"github.com/stipend/stipend/internal/money"
)

// Each network has the assets, confirmations and fee limits of this table, and no output is paid in another asset.
func TestNetworksHaveAssetsAndLimits(t *testing.T) {
	const gwei = int64(1_000_000_000)
	for name, want := range map[string]struct {
		assets                []money.Asset // assets in which payrolls are funded and payees paid
		confirmation          int64
		maxFee, minTip        int64
		carried, neverCarried []money.Asset
	}{
		"bitcoin": {[]money.Asset{money.BTC}, 1, 0, 0, nil, []money.Asset{money.ETH, money.USDC, money.USD, ""}},
		"ethereum": {[]money.Asset{money.ETH, money.USDC, money.USDT}, 10, 200 * gwei, 0,
			[]money.Asset{money.POL}, []money.Asset{money.BTC, money.USD, ""}},
		"base": {[]money.Asset{money.ETH, money.USDC}, 10, 20 * gwei, 0,
			[]money.Asset{money.USDT}, []money.Asset{money.BTC, money.EUR, ""}},
		"polygon": {[]money.Asset{money.USDC, money.USDT}, 16, 2000 * gwei, 30 * gwei,
			[]money.Asset{money.ETH, money.POL}, []money.Asset{money.BTC, money.USD, ""}},
		"arbitrum": {[]money.Asset{money.ETH, money.USDC, money.USDT}, 16, 20 * gwei, 0,
			[]money.Asset{money.POL}, []money.Asset{money.BTC, money.USD, ""}},
	} {
		n, err := Lookup(name)
		if err != nil || n.BlocksPerConfirmation != want.confirmation || n.MaxFee != want.maxFee || n.MinTip != want.minTip {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
		if got := n.Assets(); !slices.Equal(got, want.assets) {
			t.Errorf("%s pays %v, want %v", name, got, want.assets)
		}
		for _, a := range slices.Concat(want.assets, want.carried) {
			if !n.MayCarry(a) {
				t.Errorf("%s does not carry %s", name, a)
			}
		}
		for _, a := range want.neverCarried {
			if n.MayCarry(a) {
				t.Errorf("%s carries %q", name, a)
			}
		}
	}
	if n := len(All(Bitcoin)) + len(All(EVM)); n != 5 {
		t.Errorf("%d networks, want 5", n)
	}
	if _, err := Lookup("litecoin"); err == nil {
		t.Error("an unknown network was found")
	}
	if got := List(EVM); got != "ethereum, base, polygon or arbitrum" {
		t.Errorf("the list is %q", got)
	}
}
