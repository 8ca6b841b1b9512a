package onchain_test

import (
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/payout/payouttest"
	"github.com/stipend/stipend/internal/testkit"
)

// A real EVM node keeps the contract of onchain.Nodes. Its blocks show how often each transaction was executed.
func TestNodesOnARealEVMNode(t *testing.T) {
	node := evmtest.Start(t)
	payouttest.RunNodes(t, func(t *testing.T) payouttest.Network {
		lab := node.Chain(t, money.USDC)
		hot := testkit.Must(lab.Signer().Deriver().HotAddress())
		testkit.Check(t, node.Fund(t.Context(), hot, 1_000_000_000, 1_000_000))
		nonce, payees := uint64(0), map[string]string{}
		return payouttest.Network{
			Nodes: onchain.Nodes{Source: node},
			Sign: func() onchain.Transaction {
				to := testkit.Must(lab.Deriver().Address(chain.External, uint32(nonce)))
				raw, txid, _, err := lab.SignOwn(t.Context(), nonce, 2_000_000_000, chain.Output{Address: to, Amount: 100})
				testkit.Check(t, err)
				nonce++
				payees[txid] = to
				return onchain.Transaction{TxID: txid, Raw: raw}
			},
			Refused: onchain.Transaction{TxID: "0x" + "00000000000000000000000000000000000000000000000000000000000000ff",
				Raw: []byte("nonsense")},
			Executed: func(txid string) int {
				testkit.Check(t, node.Mine(t.Context(), 1))
				_, times, err := node.Paid(t.Context(), money.USDC)
				testkit.Check(t, err)
				return times[payees[txid]]
			},
			Set: func(l payouttest.Connection) { node.SetConnection(evmtest.Connection(l)) },
		}
	})
}
