package onchain

import (
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/railtest"
)

// The rail on a real node of an Ethereum-like network: signed transfers of a token, each with its nonce. How often one is executed
// the blocks tell.
func TestRailOfAccounts(t *testing.T) {
	node := evmtest.Start(t)
	railtest.Run(t, func(t *testing.T) railtest.Outside {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		lab := node.Lab(t, money.USDC)
		hot, err := lab.Keys().Deriver().Hot()
		must(err)
		must(node.Fund(t.Context(), hot, 1_000_000_000, 1_000_000))
		nonce, payees := uint64(0), map[string]string{}
		return railtest.Outside{
			Rail: Rail{Source: node},
			Order: func() rail.Order {
				to, err := lab.Wallet().Address(chain.External, uint32(nonce))
				must(err)
				raw, txid, _, err := lab.Own(t.Context(), nonce, 2_000_000_000, chain.Output{Address: to, Amount: 100})
				must(err)
				nonce++
				payees[txid] = to
				return rail.Order{Reference: txid, Body: raw}
			},
			Refused: rail.Order{Reference: "0x" + "00000000000000000000000000000000000000000000000000000000000000ff", Body: []byte("nonsense")},
			Executed: func(txid string) int {
				must(node.Mine(t.Context(), 1))
				_, times, err := node.Paid(t.Context(), money.USDC)
				must(err)
				return times[payees[txid]]
			},
			Set: func(l railtest.Line) { node.Set(evmtest.Line(l)) },
		}
	})
}
