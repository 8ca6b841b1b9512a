package evmsim_test

import (
	"context"
	"testing"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/chaintest"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/testkit"
)

var _ chaintest.AccountChain = testChain{}

// testChain is a simulated network that a test controls, with a wallet of its own.
type testChain struct {
	*evmsim.Chain
	wallet *evm.Signer
}

func (l testChain) Source() chain.Source { return l.Chain }

// PaysOne marks a chain that cannot pay several addresses by one transaction.
func (l testChain) PaysOne() {}

func (l testChain) PayAll(ctx context.Context, outputs ...chain.Output) (string, error) {
	return l.Pay(ctx, outputs[0].Address, money.New(money.USDC, outputs[0].Amount))
}

func (l testChain) Replace(ctx context.Context, txid string, outputs ...chain.Output) (string, error) {
	for i := range outputs {
		outputs[i].Asset = money.USDC
	}
	return l.Chain.Replace(ctx, txid, outputs...)
}

func (l testChain) Deriver() chain.Deriver { return l.wallet.Deriver() }

func (l testChain) Rebroadcast(ctx context.Context, txid string) error {
	raw, err := l.Raw(ctx, txid)
	if err != nil {
		return err
	}
	return l.Broadcast(ctx, raw)
}

func (l testChain) Fund(ctx context.Context, account string, native, tokens int64) error {
	if err := l.Chain.Fund(ctx, account, money.New(l.Spec().Native, native)); err != nil {
		return err
	}
	return l.Chain.Fund(ctx, account, money.New(money.USDC, tokens))
}

func (l testChain) SignOwn(
	_ context.Context, nonce uint64, tip int64, to chain.Output,
) (raw []byte, txid string, spends chain.Outpoint, err error) {
	hot, err := l.wallet.Deriver().HotAddress()
	if err != nil {
		return nil, "", spends, err
	}
	payee, err := evm.ParseAddress(to.Address)
	if err != nil {
		return nil, "", spends, err
	}
	call, err := l.Spec().TransferCall(payee, money.New(money.USDC, to.Amount))
	if err != nil {
		return nil, "", spends, err
	}
	raw, txid, err = l.wallet.Sign(evm.Tx{
		ChainID: l.Spec().ChainID, Nonce: nonce, Tip: tip, MaxFee: 20 * tip, Gas: 100_000, Call: call,
	}, chain.Change, 0)
	return raw, txid, evm.NonceOutpoint(hot, nonce), err
}

func TestSourceAndWatcher(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		network := testkit.Must(evm.Lookup("base"))
		open := func(t *testing.T, d *db.DB) chaintest.Chain {
			var seed string
			if err := d.Read(t.Context(), func(_ context.Context, tx *db.Tx) error {
				seed = tx.NewID("a seed")
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			xprv := testkit.Must(evm.MasterFromSeed([]byte(seed)))
			s := testkit.Must(evm.ParseXPriv(xprv))
			return testChain{evmsim.New(d, network), s}
		}
		chaintest.Run(t, d, open)
		chaintest.RunWatcher(t, d, open)
	})
}
