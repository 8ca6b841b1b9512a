package evm

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/signer"
)

// quoted is the contract call that would pay a queued output, with the node's estimate of its cost.
type quoted struct {
	version  int64 // the version of the output when the node made the estimate
	call     evm.Call
	estimate evm.Estimate
	failure  string // why the output can never be paid, or ""
	refused  bool   // the signer does not permit the payment
}

// Prepare implements payout.Rail. It asks the node for estimates of the payments at the head of the queue, then signs
// and stores them in one transaction, each with the next nonce. An output that cannot be paid blocks no other output,
// except that a shortage of an asset stops the payments of that asset at the first output that cannot be paid.
func (r *Rail) Prepare(ctx context.Context, d *db.DB, companyID string) error {
	var head []payout.Output
	var paused string
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if paused, err = payout.Paused(ctx, tx); err != nil {
			return err
		}
		head, err = r.head(ctx, tx, companyID)
		return err
	}); err != nil || len(head) == 0 {
		return err
	}
	wait := func(reason string) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
			if err != nil {
				return err
			}
			return r.Wait(ctx, tx, q, payout.Delay{Reason: reason})
		})
	}
	if paused != "" {
		return wait(payout.WaitPaused)
	}
	state, err := r.node.State(ctx, r.hot)
	var quotes map[string]quoted
	if err == nil {
		quotes, err = r.quote(ctx, head, state)
	}
	var verdicts map[string]signer.Verdict
	var most signer.FeeCap
	if err == nil {
		if verdicts, err = r.Ask(ctx, d, companyID, head, false); err == nil {
			most, err = r.FeeCap(ctx)
		}
		if err != nil {
			return wait(payout.WaitSigner)
		}
	}
	if err != nil {
		r.Log.WarnContext(ctx, "the node does not answer; payouts wait", "error", err)
		return wait(payout.WaitNoFee)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return r.prepare(ctx, tx, companyID, state, quotes, verdicts, most)
	})
}

// head returns the outputs that one call of Prepare processes.
func (r *Rail) head(ctx context.Context, tx *db.Tx, companyID string) ([]payout.Output, error) {
	assets := []money.Asset{r.network.Native}
	for _, t := range r.network.Tokens {
		assets = append(assets, t.Asset)
	}
	return payout.HeadByAsset(ctx, tx, companyID, r.Name(), assets, r.maxOutputs)
}

// quote asks the node to estimate the payments that the account's balance covers.
func (r *Rail) quote(ctx context.Context, head []payout.Output, s evm.State) (map[string]quoted, error) {
	quotes := make(map[string]quoted, len(head))
	var calls []evm.Call
	var asked []payout.Output
	for _, o := range head {
		to, err := evm.ParseAddress(o.Address)
		var call evm.Call
		if err == nil {
			call, err = r.network.TransferCall(to, o.Amount)
		}
		switch {
		case err != nil:
			quotes[o.ID] = quoted{version: o.Version, failure: payout.ReasonBadAddress}
		case s.Balances[o.Amount.Asset()] < o.Amount.Units():
			quotes[o.ID] = quoted{version: o.Version, estimate: evm.Estimate{Verdict: evm.InsufficientFunds}}
		default:
			calls, asked = append(calls, call), append(asked, o)
		}
	}
	estimates, err := r.node.Estimate(ctx, r.hot, calls)
	if err != nil {
		return nil, err
	}
	for i, o := range asked {
		q := quoted{version: o.Version, call: calls[i], estimate: estimates[i]}
		switch q.estimate.Verdict {
		case evm.WillFail:
			q.failure = onchain.ReasonRefused
		case evm.Inconclusive:
			r.Log.WarnContext(ctx, "the node cannot estimate a payout", "output_id", o.ID, "error", q.estimate.Refusal)
		case evm.WillSucceed, evm.InsufficientFunds:
		}
		quotes[o.ID] = q
	}
	return quotes, nil
}

// hotWallet is the state of the hot wallet in one database transaction.
type hotWallet struct {
	nonces
	available map[money.Asset]int64 // balance minus the amounts of unconfirmed transactions
	short     map[money.Asset]bool  // assets with a waiting output
	stopped   map[money.Asset]bool  // assets whose payouts are stopped
	price     int64                 // maximum price of a unit of gas
	tip       int64
	maxFee    int64 // highest cost of a transaction that the signer permits
}

// lockHotWallet locks the hot wallet's nonces and computes its available balance. why is the reason why nothing can
// be paid now, or "".
func (r *Rail) lockHotWallet(ctx context.Context, tx *db.Tx, s evm.State) (p hotWallet, why string, err error) {
	free, err := lockNonces(ctx, tx, r.Chain, r.hot)
	if err != nil {
		return p, "", err
	}
	switch why, err := payout.PayoutsAllowed(ctx, tx, r.Log); {
	case err != nil:
		return p, "", err
	case why != "":
		return p, payout.WaitPaused, nil
	}
	if known := free.next; free.skip(s.Nonce) {
		r.Log.ErrorContext(ctx, "the hot wallet made unknown transactions; payouts are paused",
			"nonce", s.Nonce, "known", known)
		// Staff check the unknown transactions before they resume payouts. Payouts then continue with the account's nonce
		// on the chain.
		return p, payout.WaitPaused, errors.Join(free.save(ctx, tx),
			payout.SetPaused(ctx, tx, "the hot wallet "+r.hot+" on "+r.Chain+" made unknown transactions"))
	}
	if s.BaseFee+s.Tip > r.MaxFeeRate {
		return p, payout.WaitFee, nil
	}
	spent, err := r.UnderWay(ctx, tx, r.hot, s.Nonce)
	if err != nil {
		return p, "", err
	}
	p = hotWallet{nonces: free, available: map[money.Asset]int64{}, short: map[money.Asset]bool{},
		price: maxPrice(s), tip: s.Tip}
	if p.stopped, err = ledger.StoppedAssets(ctx, tx); err != nil {
		return p, "", err
	}
	for asset, held := range s.Balances {
		p.available[asset] = held - spent[asset]
	}
	return p, "", nil
}

func (p *hotWallet) spend(asset money.Asset, units int64) { p.available[asset] -= units }

// maxPrice returns the maximum price of a unit of gas for a new transaction.
func maxPrice(s evm.State) int64 { return 2*s.BaseFee + s.Tip }

// gasLimit returns the gas limit of a call: the estimate plus a margin, because the cost may change before the block.
func gasLimit(gas uint64) uint64 { return gas + gas/4 + 5_000 }

// maxCost returns the maximum cost of a call at a gas price: its gas and, on networks that charge separately for
// publishing data, that fee with a margin of a quarter.
func maxCost(e evm.Estimate, price int64) int64 {
	return evm.GasCost(gasLimit(e.Gas), price) + e.DataFee + e.DataFee/4
}

// expectedCost returns the expected cost of a call. The maximum price of gas is about twice the present price.
func expectedCost(e evm.Estimate, price int64) int64 {
	return evm.GasCost(gasLimit(e.Gas), price)/2 + e.DataFee
}

func (r *Rail) prepare(ctx context.Context, tx *db.Tx, companyID string, s evm.State, quotes map[string]quoted,
	verdicts map[string]signer.Verdict, most signer.FeeCap,
) error {
	p, why, err := r.lockHotWallet(ctx, tx, s)
	if err != nil {
		return err
	}
	p.maxFee = most.Fee
	rate := s.BaseFee + s.Tip
	q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
	if err != nil {
		return err
	}
	head, err := r.head(ctx, tx, companyID)
	if err != nil || len(head) == 0 {
		return err
	}
	if why != "" {
		return r.Wait(ctx, tx, q, payout.Delay{Reason: why, FeeRate: rate})
	}
	done := 0
	var txids []string
	waiting := map[string][]payout.Output{} // waiting outputs by reason
	for _, o := range head {
		quote, known := quotes[o.ID]
		if !known {
			continue // queued since the estimate; another job prepares it
		}
		if quote.version != o.Version { // the output's destination may have changed since the estimate
			payout.EnqueuePrepare(tx, companyID, r.Name(), tx.Now())
			continue
		}
		quote.refused = verdicts[o.ID].Code != ""
		failure, reason, err := r.validate(ctx, tx, o, quote, p)
		switch {
		case err != nil:
			return err
		case reason != "":
			waiting[reason] = append(waiting[reason], o)
			p.short[o.Amount.Asset()] = p.short[o.Amount.Asset()] || reason == payout.WaitFunds
			continue
		case failure != "":
			if err := payout.Fail(ctx, tx, o, failure); err != nil {
				return err
			}
		default:
			txid, err := r.pay(ctx, tx, o, quote, &p)
			if err != nil {
				return err
			}
			txids = append(txids, txid)
		}
		done++
	}
	if len(txids) > 0 {
		if err := p.save(ctx, tx); err != nil {
			return err
		}
	}
	payout.EnqueueSend(tx, companyID, r.Name(), tx.Now(), txids...)
	if done > 0 && len(head) >= r.maxOutputs { // the queue may have more outputs
		payout.EnqueuePrepare(tx, companyID, r.Name(), tx.Now())
	}
	if err := r.Keep(ctx, tx, waiting[payout.WaitSigner], verdicts); err != nil {
		return err
	}
	return r.recordWaiting(ctx, tx, q, waiting, rate)
}

// recordWaiting stores the reasons why outputs and the queue wait.
func (r *Rail) recordWaiting(ctx context.Context, tx *db.Tx, q payout.Queue, waiting map[string][]payout.Output,
	rate int64,
) error {
	delay := payout.Delay{FeeRate: rate}
	for _, reason := range []string{payout.WaitPaused, payout.WaitFunds, payout.WaitFee, payout.WaitNotEstimated,
		payout.WaitSigner} {
		if len(waiting[reason]) == 0 {
			continue
		}
		if delay.Reason == "" {
			delay.Reason = reason
			for _, o := range waiting[reason] {
				delay.Assets = append(delay.Assets, o.Amount.Asset())
			}
		}
		if reason == payout.WaitFunds || reason == payout.WaitPaused { // all outputs of the asset wait in order
			continue
		}
		if reason == payout.WaitSigner { // Carrier.Keep has stored the reason
			continue
		}
		if err := payout.SetReason(ctx, tx, waiting[reason], reason); err != nil {
			return err
		}
	}
	if delay.Reason == "" {
		return q.Clear(ctx, tx)
	}
	// A shortage is reported only after deposits had time to reach the hot wallet.
	was, since := q.Waiting()
	if delay.Reason == payout.WaitFunds && (was == "" || was == payout.WaitDeposits && tx.Now().Sub(since) < r.BumpAfter) {
		delay.Reason = payout.WaitDeposits
	}
	return r.Wait(ctx, tx, q, delay)
}

// validate returns the reason why an output can never be paid (failure), or why it waits (wait). Both are "" if the
// output can be paid now.
func (r *Rail) validate(ctx context.Context, tx *db.Tx, o payout.Output, q quoted, p hotWallet) (failure, wait string,
	err error,
) {
	asset, amount := o.Amount.Asset(), o.Amount.Units()
	switch {
	case p.stopped[asset]:
		return "", payout.WaitPaused, nil
	case q.failure == payout.ReasonBadAddress:
		return q.failure, "", nil
	case p.short[asset], p.available[asset] < amount, q.estimate.Verdict == evm.InsufficientFunds:
		return "", payout.WaitFunds, nil
	case q.failure != "":
		return q.failure, "", nil
	case q.refused:
		return "", payout.WaitSigner, nil
	case q.estimate.Verdict == evm.Inconclusive:
		return "", payout.WaitNotEstimated, nil
	}
	need := maxCost(q.estimate, p.price)
	if need > p.maxFee {
		return "", payout.WaitFee, nil
	}
	if asset == r.network.Native {
		need += amount
	}
	if p.available[r.network.Native] < need {
		return "", payout.WaitFunds, nil
	}
	if ok, err := r.reasonable(ctx, tx, expectedCost(q.estimate, p.price), o.Amount); err != nil || !ok {
		return "", payout.WaitFee, err
	}
	return "", "", nil
}

// pay stores the payment of one output with the next nonce and returns its ID for Send.
func (r *Rail) pay(ctx context.Context, tx *db.Tx, o payout.Output, q quoted, p *hotWallet) (id string, err error) {
	b := r.NewBatch(tx, o.CompanyID, o.Amount.Asset(), o.Amount.Units(), maxCost(q.estimate, p.price),
		onchain.PurposePayout)
	b.Account, b.Nonce = r.hot, p.take()
	signer := chain.WalletCoin{Address: r.hot, Branch: chain.Change}
	id, err = r.sign(ctx, tx, &b, q.call, gasLimit(q.estimate.Gas), *p, signer, []payout.Output{o})
	if err != nil {
		return "", err
	}
	p.spend(o.Amount.Asset(), o.Amount.Units())
	p.spend(r.network.Native, b.Fee)
	return id, payout.Assign(ctx, tx, []payout.Output{o}, b.ID, b.TxID, 0)
}

// reasonable reports whether a fee is acceptable for an amount: at most maxFeeShare of the amount, or at most one
// dollar. Without prices for both assets, only the limit on the gas price applies.
func (r *Rail) reasonable(ctx context.Context, tx *db.Tx, fee int64, amount money.Amount) (bool, error) {
	return r.within(ctx, tx, fee, amount, maxFeeShare, 100)
}

// within reports whether a fee is at most a share of an amount, in basis points, or at most a number of US cents.
// Without prices for both assets it reports true.
func (r *Rail) within(ctx context.Context, tx *db.Tx, fee int64, amount money.Amount, share, cents int64,
) (bool, error) {
	inDollars := func(a money.Amount) (money.Amount, error) {
		rate, err := rates.Latest(ctx, tx, a.Asset(), money.USD)
		if err != nil {
			return money.Amount{}, err
		}
		return rate.Convert(a, money.Ceil)
	}
	cost, err := inDollars(r.native(fee))
	var worth money.Amount
	if err == nil {
		worth, err = inDollars(amount)
	}
	if errors.Is(err, rates.ErrUnavailable) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	most, err := worth.Fraction(share, 10_000, money.Floor)
	return cost.Units() <= cents || cost.Cmp(most) <= 0, err
}

// sign creates a transaction with the batch's nonce and stores both. If the keys are in this process, it signs the
// transaction with the key of signer; otherwise Send requests the signature. It returns the ID for Send. The caller
// assigns outs to the batch and enqueues Send.
func (r *Rail) sign(ctx context.Context, tx *db.Tx, b *onchain.Batch, call evm.Call, gas uint64, p hotWallet,
	signer chain.WalletCoin, outs []payout.Output,
) (id string, err error) {
	signer.Outpoint = evm.NonceOutpoint(b.Account, b.Nonce)
	b.Inputs = []chain.WalletCoin{signer}
	t := onchain.Transaction{CompanyID: b.CompanyID, BatchID: b.ID, Fee: b.Fee, Size: int64(gas)}
	if err := r.signIfLocal(&t, evm.Tx{
		ChainID: r.network.ChainID, Nonce: b.Nonce, Tip: p.tip, MaxFee: p.price, Gas: gas, Call: call,
	}, signer); err != nil {
		return "", err
	}
	if !t.Unsigned {
		b.TxID = t.TxID
	}
	return t.TxID, r.Store(ctx, tx, *b, t, outs)
}
