package chaintest

import (
	"context"
	"sync"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// coinCases are cases with transactions of the service on Bitcoin.
var coinCases = map[string]func(b *fixture){
	"own transaction and its change":                        (*fixture).ownTransactionAndChange,
	"own transaction loses its coin":                        (*fixture).ownTransactionLosesItsCoin,
	"a coin is paid and spent while the watcher is stopped": (*fixture).coinSpentWhileStopped,
}

// accountCases are cases with transactions of the service on an EVM network.
var accountCases = map[string]func(b *fixture){
	"own transaction of a nonce":                    (*fixture).ownTransactionOfANonce,
	"own transaction replaced at its nonce":         (*fixture).replacedAtItsNonce,
	"an unknown transaction spends a nonce of ours": (*fixture).unknownSpendOfANonce,
}

// tip is the usual tip of transactions on an EVM network, in wei per gas.
const tip = 2_000_000_000

// spend signs a transaction of the service that spends coins, reserves them and watches the transaction, without
// broadcasting it.
func (b *fixture) spend(coins []chain.WalletCoin, outputs ...chain.Output) (raw []byte, txid string) {
	b.Helper()
	raw, txid = Spend(b.T, b.keys, coins, outputs...)
	b.write(func(ctx context.Context, tx *db.Tx) error {
		if err := chain.Reserve(ctx, tx, b.name, []chain.Outpoint{coins[0].Outpoint}, "batch_1"); err != nil {
			return err
		}
		return chain.WatchTx(ctx, tx, b.name, txid, company, "batch_1", 2)
	})
	b.wantTx(txid, chain.Watched, false)
	return raw, txid
}

// fundCoin pays a confirmed coin of 1,000,000 satoshis to the wallet and returns its address and all coins.
func (b *fixture) fundCoin() (address string, coins []chain.WalletCoin) {
	b.Helper()
	address = b.newAddress()
	txid := b.payTo(chain.Output{Address: address, Amount: 1_000_000})
	b.mine(6)
	coins = b.coins()
	if len(coins) != 1 || coins[0].TxID != txid || coins[0].Unconfirmed != 0 {
		b.Fatalf("%+v", coins)
	}
	return address, coins
}

// wantLife broadcasts a watched transaction, evicts it, broadcasts it again, confirms it and reorganizes it. seen and
// evicted check further state at their stage.
func (b *fixture) wantLife(raw []byte, txid string, seen, evicted func()) {
	b.Helper()
	b.broadcast(raw)
	b.sync()
	if w := b.wantTx(txid, chain.Seen, false); w.Fee != 0 {
		b.Errorf("a fee before the block: %+v", w)
	}
	seen()
	b.evict(txid)
	b.wantTx(txid, chain.Watched, false)
	evicted()
	b.broadcast(raw)
	b.mine(1)
	b.wantTx(txid, chain.Mined, false)
	for _, coin := range b.coins() {
		if coin.Unconfirmed != 0 {
			b.Errorf("%+v", coin)
		}
	}
	b.mine(1)
	b.wantTx(txid, chain.Mined, true)
	b.reorg(2)
	b.wantTx(txid, chain.Seen, false)
	b.mine(2)
	if w := b.wantTx(txid, chain.Mined, true); w.Depth != 2 || w.Failed || b.accounts != nil && w.Fee <= 0 {
		b.Errorf("%+v", w)
	}
}

// wantRivalGone confirms a transaction that conflicts with a watched one, and then removes it from the chain. The
// watched transaction can be mined again.
func (b *fixture) wantRivalGone(raw []byte, txid, rival string) {
	b.Helper()
	b.mine(1)
	b.wantTx(txid, chain.Conflicted, true)
	b.reorg(2)
	b.wantTx(txid, chain.Conflicted, false)
	b.evict(rival)
	b.wantTx(txid, chain.Watched, false)
	b.broadcast(raw)
	b.mine(2)
	b.wantTx(txid, chain.Mined, true)
	b.want(rival, 0, chain.Replaced, false)
}

// wantConflict returns a watched transaction, which must conflict with rival.
func (b *fixture) wantConflict(txid, rival string, mined bool) {
	b.Helper()
	if w := b.wantTx(txid, chain.Conflicted, false); w.ConflictedBy != rival || (w.Height != 0) != mined {
		b.Errorf("%+v", w)
	}
}

func (b *fixture) ownTransactionAndChange() {
	from, coins := b.fundCoin()
	funded := coins[0].Outpoint
	var change string
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		change, err = b.pool.NewChangeAddress(ctx, tx, company, "batch_1")
		return err
	})
	raw, txid := b.spend(coins, chain.Output{Address: from, Amount: 300_000},
		chain.Output{Address: change, Amount: 695_000})
	if len(b.coins()) != 0 {
		b.Error("a reserved coin is offered")
	}
	if err := b.d.Write(b.Context(), func(ctx context.Context, tx *db.Tx) error {
		return chain.Reserve(ctx, tx, b.name, []chain.Outpoint{funded}, "batch_2")
	}); err == nil {
		b.Error("a coin was reserved twice")
	}
	b.changes()
	b.wantLife(raw, txid, func() {
		if o := b.output(funded.TxID, 0); o.SpendState != chain.Spent || o.SpentBy != txid {
			b.Errorf("%+v", o)
		}
		// The change can be spent at once, but the payment to the wallet itself only after it is confirmed. Only the
		// payment causes a job.
		if coins := b.coins(); len(coins) != 1 || coins[0].Address != change || coins[0].Unconfirmed != 1 ||
			coins[0].Branch != chain.Change {
			b.Fatalf("%+v", coins)
		}
		if got := b.changes(); len(got) != 2 {
			b.Errorf("jobs: %v", got)
		}
	}, func() {
		if o := b.output(funded.TxID, 0); o.SpendState != chain.Reserved || len(b.coins()) != 0 {
			b.Errorf("%+v, coins %v", o, b.coins())
		}
	})
}

func (b *fixture) coinSpentWhileStopped() {
	from, coins := b.fundCoin()
	elsewhere, err := b.keys.Deriver().Address(chain.External, 1_000_000) // an address that no pool has assigned
	b.must(err)
	coin := coins[0]
	coin.TxID, coin.Vout = b.payTo(chain.Output{Address: from, Amount: coin.Amount}), 0
	b.must(b.chain.Mine(b.Context(), 2))
	theft, thief := Spend(b.T, b.keys, []chain.WalletCoin{coin}, chain.Output{Address: elsewhere, Amount: 900_000})
	b.broadcast(theft)
	b.must(b.chain.Mine(b.Context(), 2))
	b.sync()
	if o := b.want(coin.TxID, 0, chain.Mined, false); o.SpendState != chain.Spent || o.SpentBy != thief || o.Depth != 4 {
		b.Errorf("%+v", o)
	}
}

// ownTransactionLosesItsCoin tests a transaction of another program that has the wallet's key and pays a higher fee.
func (b *fixture) ownTransactionLosesItsCoin() {
	from, coins := b.fundCoin()
	raw, txid := b.spend(coins, chain.Output{Address: from, Amount: 990_000})
	b.broadcast(raw)
	b.sync()
	theft, rival := Spend(b.T, b.keys, coins, chain.Output{Address: from, Amount: 900_000})
	b.broadcast(theft)
	b.sync()
	b.wantConflict(txid, rival, false)
	b.want(txid, 0, chain.Replaced, false)
	b.mine(1)
	b.wantConflict(txid, rival, true)
	b.wantRivalGone(raw, txid, rival)
}

// signOwn signs a payment to a new address from the wallet's hot account and watches it, without broadcasting it.
func (b *fixture) signOwn(tip int64) (raw []byte, txid string) {
	b.Helper()
	raw, txid, spends, err := b.accounts.SignOwn(b.Context(), 0, tip,
		chain.Output{Address: b.newAddress(), Amount: 300_000})
	b.must(err)
	b.write(func(ctx context.Context, tx *db.Tx) error {
		return chain.WatchNonce(ctx, tx, b.name, txid, company, "batch_1", 2, spends)
	})
	b.wantTx(txid, chain.Watched, false)
	return raw, txid
}

// fundHotAccount assigns the wallet's hot account and funds it.
func (b *fixture) fundHotAccount() {
	b.Helper()
	var account string
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		account, err = b.pool.NewChangeAddress(ctx, tx, company, "")
		return err
	})
	b.must(b.accounts.Fund(b.Context(), account, 1_000_000_000, 1_000_000_000))
	b.sync()
	b.changes()
}

func (b *fixture) ownTransactionOfANonce() {
	b.fundHotAccount()
	raw, txid := b.signOwn(tip)
	b.wantLife(raw, txid, func() {}, func() {})
}

func (b *fixture) replacedAtItsNonce() {
	b.fundHotAccount()
	raw, txid := b.signOwn(tip)
	b.broadcast(raw)
	b.sync()
	higher, second := b.signOwn(3 * tip)
	b.broadcast(higher)
	b.sync()
	b.wantConflict(txid, second, false)
	b.wantTx(second, chain.Seen, false)
	b.mine(2)
	b.wantTx(txid, chain.Conflicted, true)
	b.wantTx(second, chain.Mined, true)
}

func (b *fixture) unknownSpendOfANonce() {
	b.fundHotAccount()
	raw, txid := b.signOwn(tip)
	theft, rival, _, err := b.accounts.SignOwn(b.Context(), 0, 5*tip,
		chain.Output{Address: b.newAddress(), Amount: 900_000})
	b.must(err)
	b.broadcast(theft)
	b.mine(1)
	b.wantConflict(txid, rival, true)
	var mu sync.Mutex
	unknownSpends := 0
	b.drain(job.Table{chain.JobUnknownSpend: {Tx: func(_ context.Context, _ *db.Tx, j job.Job) error {
		var n chain.TxRef
		if err := j.Decode(&n); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if n.Chain == b.name && n.TxID == rival {
			unknownSpends++
		}
		return nil
	}}})
	if unknownSpends == 0 {
		b.Error("no job for the unknown spend")
	}
	b.wantRivalGone(raw, txid, rival)
}
