package onchain_test

import (
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// A real EVM node keeps the contract of onchain.Nodes. Its blocks show how often each transaction was executed.
func TestNodesOnARealEVMNode(t *testing.T) {
	node := evmtest.Start(t)
	payouttest.RunNodes(t, func(t *testing.T) payouttest.Network {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		lab := node.Chain(t, money.USDC)
		hot, err := lab.Signer().Deriver().HotAddress()
		must(err)
		must(node.Fund(t.Context(), hot, 1_000_000_000, 1_000_000))
		nonce, payees := uint64(0), map[string]string{}
		return payouttest.Network{
			Nodes: onchain.Nodes{Source: node},
			Sign: func() onchain.Transaction {
				to, err := lab.Deriver().Address(chain.External, uint32(nonce))
				must(err)
				raw, txid, _, err := lab.SignOwn(t.Context(), nonce, 2_000_000_000, chain.Output{Address: to, Amount: 100})
				must(err)
				nonce++
				payees[txid] = to
				return onchain.Transaction{TxID: txid, Raw: raw}
			},
			Refused: onchain.Transaction{TxID: "0x" + "00000000000000000000000000000000000000000000000000000000000000ff",
				Raw: []byte("nonsense")},
			Executed: func(txid string) int {
				must(node.Mine(t.Context(), 1))
				_, times, err := node.Paid(t.Context(), money.USDC)
				must(err)
				return times[payees[txid]]
			},
			Set: func(l payouttest.Connection) { node.SetConnection(evmtest.Connection(l)) },
		}
	})
}
