package chaintest

import (
	"context"
	"sync"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
)

// signOwn signs a payment from the wallet's hot account and watches it, without broadcasting it.
func (b *fixture) signOwn(nonce uint64, tip int64, to chain.Output) (raw []byte, txid string) {
	b.Helper()
	raw, txid, spends, err := b.accounts.SignOwn(b.Context(), nonce, tip, to)
	b.must(err)
	b.write(func(ctx context.Context, tx *db.Tx) error {
		return chain.WatchNonce(ctx, tx, b.name, txid, company, "batch_1", 2, spends)
	})
	b.wantTx(txid, chain.Watched, false)
	return raw, txid
}

// fundHotAccount assigns the wallet's hot account and funds it.
func (b *fixture) fundHotAccount() (account string) {
	b.Helper()
	b.write(func(ctx context.Context, tx *db.Tx) (err error) {
		account, err = b.pool.NewChangeAddress(ctx, tx, company, "")
		return err
	})
	b.must(b.accounts.Fund(b.Context(), account, 1_000_000_000, 1_000_000_000))
	b.sync()
	b.changes()
	return account
}

// runAccounts tests transactions of the service on an EVM network.
func runAccounts(run func(name string, f func(b *fixture))) {
	const tip = 2_000_000_000
	run("own transaction of a nonce", func(b *fixture) {
		b.fundHotAccount()
		to := b.newAddress()
		raw, txid := b.signOwn(0, tip, chain.Output{Address: to, Amount: 300_000})
		b.must(b.chain.Source().Broadcast(b.Context(), raw))
		b.sync()
		if w := b.wantTx(txid, chain.Seen, false); w.Fee != 0 {
			b.Errorf("a fee before the block: %+v", w)
		}
		b.must(b.chain.Evict(b.Context(), txid))
		b.sync()
		b.wantTx(txid, chain.Watched, false)
		b.must(b.chain.Source().Broadcast(b.Context(), raw))
		b.mine(1)
		if w := b.wantTx(txid, chain.Mined, false); w.Fee <= 0 || w.Failed {
			b.Errorf("%+v", w)
		}
		b.mine(1)
		b.wantTx(txid, chain.Mined, true)
		b.must(b.chain.Reorg(b.Context(), 2))
		b.sync()
		b.wantTx(txid, chain.Seen, false)
		b.mine(2)
		if w := b.wantTx(txid, chain.Mined, true); w.Depth != 2 || w.Fee <= 0 {
			b.Errorf("%+v", w)
		}
	})
	run("own transaction replaced at its nonce", func(b *fixture) {
		b.fundHotAccount()
		to := b.newAddress()
		raw, txid := b.signOwn(0, tip, chain.Output{Address: to, Amount: 300_000})
		b.must(b.chain.Source().Broadcast(b.Context(), raw))
		b.sync()
		higher, second := b.signOwn(0, 3*tip, chain.Output{Address: to, Amount: 300_000})
		b.must(b.chain.Source().Broadcast(b.Context(), higher))
		b.sync()
		if w := b.wantTx(txid, chain.Conflicted, false); w.ConflictedBy != second || w.Height != 0 {
			b.Errorf("%+v", w)
		}
		b.wantTx(second, chain.Seen, false)
		b.mine(2)
		b.wantTx(txid, chain.Conflicted, true)
		b.wantTx(second, chain.Mined, true)
	})
	run("an unknown transaction spends a nonce of ours", func(b *fixture) {
		b.fundHotAccount()
		to := b.newAddress()
		raw, txid := b.signOwn(0, tip, chain.Output{Address: to, Amount: 300_000})
		theft, rival, _, err := b.accounts.SignOwn(b.Context(), 0, 5*tip, chain.Output{Address: to, Amount: 900_000})
		b.must(err)
		b.must(b.chain.Source().Broadcast(b.Context(), theft))
		b.mine(1)
		if w := b.wantTx(txid, chain.Conflicted, false); w.ConflictedBy != rival || w.Height == 0 {
			b.Errorf("%+v", w)
		}
		var mu sync.Mutex
		unknownSpends := 0
		count := func(_ context.Context, _ *db.Tx, j job.Job) error {
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
		}
		b.drain(job.Table{chain.JobUnknownSpend: {Tx: count}})
		if unknownSpends == 0 {
			b.Error("no job for the unknown spend")
		}
		b.mine(1)
		b.wantTx(txid, chain.Conflicted, true)
		b.must(b.chain.Reorg(b.Context(), 2))
		b.must(b.chain.Evict(b.Context(), rival))
		b.sync()
		b.wantTx(txid, chain.Watched, false)
		b.must(b.chain.Source().Broadcast(b.Context(), raw))
		b.mine(2)
		b.wantTx(txid, chain.Mined, true)
		b.want(rival, 0, chain.Replaced, false)
	})
}
