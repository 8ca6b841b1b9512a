package payout

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rail/onchain"
	"github.com/stipend/stipend/internal/rates"
)

// This file pays on networks of accounts. What differs from Bitcoin:
//
//   - One transaction pays one output, out of the account that the wallet pays from. Its input is that account's next nonce, which
//     is taken and stored with the bytes: whatever happens, no other payment ever has it, and a dearer transaction takes the place
//     of a stuck one at the same nonce only.
//   - What a transaction costs is known with its block. Until then the most that it can cost is booked.
//   - A transaction can be in the chain and have failed. That is proof that nobody was paid: the output fails, and its fee is gone.
//   - Deposits are at addresses of their own and must be brought to the paying account first ([Engine.Sweep]); tokens need gas for
//     that, which the paying account sends there.

// What a transaction of an account is for.
const (
	purposePayout = "payout" // pays an output
	purposeSweep  = "sweep"  // brings a deposit to the paying account
	purposeGas    = "gas"    // brings what a sweep will cost to where the deposit is
)

// AccountConfig is what an engine for one network of accounts needs. Zero limits take the default.
type AccountConfig struct {
	Node   evm.Node
	Signer *evm.Signer
	Log    *slog.Logger // nil: slog.Default

	Witnesses []chain.Witness // see Config

	MaxOutputs int           // of each asset that one look takes; 100
	FeeMaxAge  time.Duration // age at which a price of gas is not trusted any more for a raise; 10 min
	BumpAfter  time.Duration // age of an unconfirmed transaction before its fee is raised; 2 min
	NudgeEvery time.Duration // how often one is looked at; 30 s
	Retry      time.Duration // how often a held queue is looked at; 30 s
	SweepEvery time.Duration // how often deposits are brought in; 5 s
}

type account struct {
	network    evm.Network
	node       evm.Node
	signer     *evm.Signer
	hot        string // the account that pays
	sweepEvery time.Duration
}

// NewAccount makes the engine of a network of accounts, whose name is the chain's.
func NewAccount(c AccountConfig) (*Engine, error) {
	hot, err := c.Signer.Deriver().Hot()
	if err != nil {
		return nil, err
	}
	n := c.Node.Of()
	orTime := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orTime(&c.FeeMaxAge, 10*time.Minute)
	orTime(&c.BumpAfter, 2*time.Minute)
	orTime(&c.NudgeEvery, 30*time.Second)
	orTime(&c.Retry, 30*time.Second)
	orTime(&c.SweepEvery, 5*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Engine{
		c: Config{
			Chain: n.Name, Source: c.Node, Log: c.Log.With("chain", n.Name), Confirmations: max(n.Pace, 1), ConflictDepth: 6 * max(n.Pace, 1),
			MaxOutputs: cmp.Or(c.MaxOutputs, 100), MaxFeeRate: n.MaxFee, MaxFeeShare: 300, FeeMaxAge: c.FeeMaxAge, BumpAfter: c.BumpAfter, NudgeEvery: c.NudgeEvery, Retry: c.Retry,
		},
		rail: onchain.Rail{Source: c.Node, Witnesses: c.Witnesses},
		acc:  &account{network: n, node: c.Node, signer: c.Signer, hot: hot, sweepEvery: c.SweepEvery},
	}, nil
}

// Open has the network's watcher know the account that pays, so that what others do with its key is noticed.
func (e *Engine) Open(ctx context.Context, d *db.DB) error {
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return chain.WatchAccount(ctx, tx, e.c.Chain, e.acc.hot, ledger.House)
	})
}

type accountJob struct {
	Chain string `json:"chain"`
}

func lookAtAccount(tx *db.Tx, companyID string, rail Rail, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobAccount, Payload: accountJob{string(rail)}, RunAt: at})
}

// Engines are those of all chains. A job goes to all of them; it is for one.
type Engines []*Engine

// Net hands a job that speaks to the network to every engine.
func (all Engines) Net(handle func(*Engine, context.Context, *db.DB, job.Job) error) job.NetHandler {
	return func(ctx context.Context, d *db.DB, j job.Job) error {
		var failed []error
		for _, e := range all {
			failed = append(failed, handle(e, ctx, d, j))
		}
		return errors.Join(failed...)
	}
}

// All hands jobs that share a transaction to every engine.
func (all Engines) All(handle func(*Engine, context.Context, *db.Tx, []job.Job) error) job.BatchHandler {
	return func(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
		for _, e := range all {
			if err := handle(e, ctx, tx, jobs); err != nil {
				return err
			}
		}
		return nil
	}
}

// Tx hands a job of one transaction to every engine.
func (all Engines) Tx(handle func(*Engine, context.Context, *db.Tx, job.Job) error) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		for _, e := range all {
			if err := handle(e, ctx, tx, j); err != nil {
				return err
			}
		}
		return nil
	}
}

// native is an amount of what fees are paid in.
func (e *Engine) native(units int64) money.Amount {
	if e.acc == nil {
		return sats(units)
	}
	return money.New(e.acc.network.Native, units)
}

// value is what a batch takes out of the house: nothing where it only moves what is the house's already.
func (e *Engine) value(b Batch) int64 {
	if b.Purpose == purposeSweep || b.Purpose == purposeGas {
		return 0
	}
	return b.Value
}

// sums are a batch's value and a fee: one amount where both are of one asset.
func (e *Engine) sums(b Batch, fee int64) []money.Amount {
	if b.Asset == e.native(0).Asset() {
		return []money.Amount{e.native(e.value(b) + fee)}
	}
	return []money.Amount{money.New(b.Asset, e.value(b)), e.native(fee)}
}

type side func(ledger.Code, string, money.Amount) ledger.Line

// transit are the lines of what a batch has on its way.
func (e *Engine) transit(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range e.sums(b, fee) {
		lines = append(lines, as(ledger.InTransit, b.ID, a))
	}
	return lines
}

// wallet are the lines of what it takes out of the wallet.
func (e *Engine) wallet(as side, b Batch, fee int64) (lines []ledger.Line) {
	for _, a := range e.sums(b, fee) {
		code, dim := ledger.WalletOf(a.Asset(), b.Chain)
		lines = append(lines, as(code, dim, a))
	}
	return lines
}

// wanted is a payment of the queue and what the network says of it.
type wanted struct {
	version  int64 // of the output that was asked about
	call     evm.Call
	estimate evm.Estimate
	reason   string // why it can never be paid, "" while it may
}

// PrepareAccount looks at a company's queue for the network (job JobAccount): it asks the node what the payments need, and then
// signs, stores and books them in one database transaction, each with the next nonce. What cannot be paid holds up nothing else.
func (e *Engine) PrepareAccount(ctx context.Context, d *db.DB, j job.Job) error {
	var in accountJob
	if err := j.Decode(&in); err != nil || e.acc == nil || in.Chain != e.c.Chain {
		return err
	}
	var waiting []Output
	var paused string
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if paused, err = Paused(ctx, tx); err != nil {
			return err
		}
		waiting, err = e.lines(ctx, tx, j.CompanyID)
		return err
	})
	if err != nil || len(waiting) == 0 {
		return err
	}
	later := func(why string) error {
		return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			q, err := lockQueue(ctx, tx, j.CompanyID, e.lane())
			if err != nil {
				return err
			}
			return e.hold(ctx, tx, q, why, 0)
		})
	}
	if paused != "" {
		return later(heldPaused)
	}
	state, err := e.acc.node.State(ctx, e.acc.hot)
	var ready map[string]wanted
	if err == nil {
		ready, err = e.ask(ctx, waiting, state)
	}
	if err != nil {
		e.c.Log.WarnContext(ctx, "the node does not answer", "error", err)
		return later(heldNoFee)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return e.prepareAccount(ctx, tx, j.CompanyID, state, ready)
	})
}

// ask has the node say what payments need that the account has enough for.
func (e *Engine) ask(ctx context.Context, waiting []Output, s evm.State) (map[string]wanted, error) {
	ready := make(map[string]wanted, len(waiting))
	var calls []evm.Call
	var of []Output
	for _, o := range waiting {
		to, err := evm.ParseAddress(o.Address)
		var call evm.Call
		if err == nil {
			call, err = e.acc.network.Pay(to, o.Amount)
		}
		switch {
		case err != nil:
			ready[o.ID] = wanted{version: o.Version, reason: ReasonBadAddress}
		case s.Holds[o.Amount.Asset()] < o.Amount.Units():
			ready[o.ID] = wanted{version: o.Version, estimate: evm.Estimate{Verdict: evm.Short}}
		default:
			calls, of = append(calls, call), append(of, o)
		}
	}
	estimates, err := e.acc.node.Estimate(ctx, e.acc.hot, calls)
	if err != nil {
		return nil, err
	}
	for i, o := range of {
		w := wanted{version: o.Version, call: calls[i], estimate: estimates[i]}
		switch w.estimate.Verdict {
		case evm.Refused:
			w.reason = ReasonRefused
		case evm.Unclear:
			e.c.Log.WarnContext(ctx, "the node does not say what a payout needs", "output_id", o.ID, "error", w.estimate.Refusal)
		case evm.Payable, evm.Short:
		}
		ready[o.ID] = w
	}
	return ready, nil
}

// lines are what of a company's queue is looked at, the oldest of each asset first. A shortage stops an asset's line at the first output
// that it cannot pay, and no other line.
func (e *Engine) lines(ctx context.Context, tx *db.Tx, companyID string) ([]Output, error) {
	n := e.acc.network
	assets := []money.Asset{n.Native}
	for _, t := range n.Tokens {
		assets = append(assets, t.Asset)
	}
	return accountQueue(ctx, tx, companyID, e.lane(), assets, e.c.MaxOutputs)
}

// purse is the paying account within one database transaction.
type purse struct {
	next  uint64
	left  map[money.Asset]int64
	short map[money.Asset]bool // of which an output already waits
	price int64                // the most that a unit of gas may cost
	tip   int64
}

// open takes the account's nonce and reckons what it has left. Why says what stops payments, "" when nothing does.
func (e *Engine) open(ctx context.Context, tx *db.Tx, s evm.State) (p purse, why string, err error) {
	next, known, err := lockNonce(ctx, tx, e.c.Chain, e.acc.hot)
	if err != nil {
		return p, "", err
	}
	switch why, err := MayLeave(ctx, tx, e.c.Log); {
	case err != nil:
		return p, "", err
	case why != "":
		return p, heldPaused, nil
	}
	if next < s.Nonce {
		if known {
			e.c.Log.ErrorContext(ctx, "the paying account has made transactions that are not known here; payouts are paused", "nonce", s.Nonce, "known", next)
			// Whoever lets payouts go on has seen to those; the next nonce is the account's own.
			return p, heldPaused, errors.Join(setNonce(ctx, tx, e.c.Chain, e.acc.hot, s.Nonce),
				SetPaused(ctx, tx, "the account "+e.acc.hot+" on "+e.c.Chain+" has made transactions that are not known here"))
		}
		next = s.Nonce
	}
	if s.BaseFee+s.Tip > e.c.MaxFeeRate {
		return p, heldFee, nil
	}
	spent, err := underWay(ctx, tx, e.c.Chain, e.acc.hot, s.Nonce, e.acc.network.Native)
	if err != nil {
		return p, "", err
	}
	p = purse{next: next, left: map[money.Asset]int64{}, short: map[money.Asset]bool{}, price: 2*s.BaseFee + s.Tip, tip: s.Tip}
	for asset, held := range s.Holds {
		p.left[asset] = held - spent[asset]
	}
	return p, "", nil
}

// limit is the gas that a call is given: what the node reckons, and room for what changes until its block.
func limit(gas uint64) uint64 { return gas + gas/4 + 5_000 }

// most is what a call can cost at a price of gas: its gas, and what publishing it costs where that is taken beside it, which may rise by
// a quarter until its block.
func most(w evm.Estimate, price int64) int64 {
	return evm.Cost(limit(w.Gas), price) + w.Data + w.Data/4
}

func (e *Engine) prepareAccount(ctx context.Context, tx *db.Tx, companyID string, s evm.State, ready map[string]wanted) error {
	p, why, err := e.open(ctx, tx, s)
	if err != nil {
		return err
	}
	rate := s.BaseFee + s.Tip
	q, err := lockQueue(ctx, tx, companyID, e.lane())
	if err != nil {
		return err
	}
	waiting, err := e.lines(ctx, tx, companyID)
	if err != nil || len(waiting) == 0 {
		return err
	}
	if why != "" {
		return e.hold(ctx, tx, q, why, rate)
	}
	first, done := p.next, 0
	var signed []string
	aside := map[string][]Output{} // by why they wait
	for _, o := range waiting {
		w, known := ready[o.ID]
		if !known {
			continue // added since: the next look is its own
		}
		if w.version != o.Version { // it goes elsewhere by now, perhaps
			q.look(tx, tx.Now())
			continue
		}
		failure, wait, err := e.judge(ctx, tx, o, w, p)
		switch {
		case err != nil:
			return err
		case wait != "":
			aside[wait] = append(aside[wait], o)
			p.short[o.Amount.Asset()] = p.short[o.Amount.Asset()] || wait == heldFunds
			continue
		case failure != "":
			if err := moveOne(ctx, tx, o, Queued, Failed, failure); err != nil {
				return err
			}
			changed(tx, []Output{o})
		default:
			txid, err := e.payOne(ctx, tx, o, w, &p)
			if err != nil {
				return err
			}
			signed = append(signed, txid)
		}
		done++
	}
	if p.next != first {
		if err := setNonce(ctx, tx, e.c.Chain, e.acc.hot, p.next); err != nil {
			return err
		}
	}
	send(tx, companyID, tx.Now(), signed...)
	var assets []money.Asset
	for _, reason := range []string{heldFunds, heldFee, heldUnclear} {
		if len(aside[reason]) == 0 {
			continue
		}
		if why == "" {
			why = reason
			for _, o := range aside[reason] {
				assets = append(assets, o.Amount.Asset())
			}
		}
		if reason == heldFunds { // the whole line waits, in its order
			continue
		}
		if err := setAside(ctx, tx, aside[reason], reason); err != nil {
			return err
		}
	}
	if why == heldFunds && (q.held == "" || q.held == heldComing && tx.Now().Sub(q.since) < e.c.BumpAfter) {
		why = heldComing
	}
	if done > 0 && len(waiting) >= e.c.MaxOutputs {
		q.look(tx, tx.Now()) // there may be more
	}
	if why != "" {
		return e.hold(ctx, tx, q, why, rate, assets...)
	}
	return flowing(ctx, tx, q)
}

// judge says why an output can never be paid, or why it waits; nothing when it is to be paid now.
func (e *Engine) judge(ctx context.Context, tx *db.Tx, o Output, w wanted, p purse) (failure, wait string, err error) {
	asset, amount, native := o.Amount.Asset(), o.Amount.Units(), e.acc.network.Native
	switch {
	case w.reason == ReasonBadAddress:
		return w.reason, "", nil
	case p.short[asset], p.left[asset] < amount, w.estimate.Verdict == evm.Short:
		return "", heldFunds, nil
	case w.reason != "":
		return w.reason, "", nil
	case w.estimate.Verdict == evm.Unclear:
		return "", heldUnclear, nil
	}
	fee := most(w.estimate, p.price)
	need := fee
	if asset == native {
		need += amount
	}
	if p.left[native] < need {
		return "", heldFunds, nil
	}
	if fair, err := e.fair(ctx, tx, evm.Cost(limit(w.estimate.Gas), p.price)/2+w.estimate.Data, o.Amount); err != nil || !fair {
		return "", heldFee, err
	}
	return "", "", nil
}

// payOne signs, stores and books the payment of one output with the purse's next nonce.
func (e *Engine) payOne(ctx context.Context, tx *db.Tx, o Output, w wanted, p *purse) (txid string, err error) {
	asset, amount := o.Amount.Asset(), o.Amount.Units()
	gas := limit(w.estimate.Gas)
	b := Batch{CompanyID: o.CompanyID, ID: tx.NewID("pob"), Chain: e.c.Chain, State: Prepared, Value: amount, Fee: most(w.estimate, p.price), Version: 1,
		Asset: asset, Purpose: purposePayout, account: e.acc.hot, nonce: p.next}
	if err := e.signAccount(ctx, tx, &b, w.call, gas, *p, chain.WalletCoin{Address: e.acc.hot, Branch: chain.Change}, []Output{o}); err != nil {
		return "", err
	}
	p.next++
	p.left[asset] -= amount
	p.left[e.acc.network.Native] -= b.Fee
	return b.TxID, assignOne(ctx, tx, o, b.ID, b.TxID)
}

// fair says whether a fee is worth paying for an amount: at most its share, or a dollar. Without a price for both there is only
// the cap on the price of gas.
func (e *Engine) fair(ctx context.Context, tx *db.Tx, fee int64, amount money.Amount) (bool, error) {
	inDollars := func(a money.Amount) (money.Amount, error) {
		rate, err := rates.Latest(ctx, tx, a.Asset(), money.USD)
		if err != nil {
			return money.Amount{}, err
		}
		return rate.Convert(a, money.Ceil)
	}
	cost, err := inDollars(e.native(fee))
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
	most, err := worth.Fraction(e.c.MaxFeeShare, 10_000, money.Floor)
	return cost.Units() <= 100 || cost.Cmp(most) <= 0, err
}

// signAccount signs, stores and books a transaction of an account with the batch's nonce. The caller puts outputs into the batch, and has
// it sent.
func (e *Engine) signAccount(ctx context.Context, tx *db.Tx, b *Batch, call evm.Call, gas uint64, p purse, by chain.WalletCoin, outs []Output) error {
	by.Outpoint = evm.NonceOf(b.account, b.nonce)
	b.inputs = []chain.WalletCoin{by}
	raw, txid, err := e.acc.signer.Sign(evm.Tx{ChainID: e.acc.network.ChainID, Nonce: b.nonce, Tip: p.tip, MaxFee: p.price, Gas: gas, Call: call}, by.Branch, by.Index)
	if err != nil {
		return err
	}
	b.TxID = txid
	if err := insertBatch(ctx, tx, *b); err != nil {
		return err
	}
	if err := insertTransaction(ctx, tx, Transaction{CompanyID: b.CompanyID, TxID: txid, BatchID: b.ID, Raw: raw, Fee: b.Fee, VSize: int64(gas)}); err != nil {
		return err
	}
	lines := append(e.transit(ledger.Credit, *b, b.Fee), ledger.Debit(ledger.NetworkFee, source, e.native(b.Fee)))
	for _, o := range outs {
		lines = append(lines, ledger.Debit(ledger.OutputPayable, o.ID, o.Amount))
	}
	if err := e.post(tx, *b, "send", lines...); err != nil {
		return err
	}
	if err := chain.WatchNonce(ctx, tx, e.c.Chain, txid, b.CompanyID, b.ID, e.c.Confirmations, by.Outpoint); err != nil {
		return err
	}
	e.nudge(tx, *b)
	return nil
}

// raise signs a transaction again with the same nonce and call, and a higher fee. Nodes take it in the place of the old one when
// both of its prices are higher by a tenth.
func (e *Engine) raise(ctx context.Context, tx *db.Tx, b Batch, old Transaction, rate int64) (string, error) {
	signed, _, err := evm.Decode(old.Raw)
	if err != nil {
		return "", err
	}
	if rate > e.c.MaxFeeRate {
		return "", ErrFeeTooHigh
	}
	was := evm.Cost(signed.Gas, signed.MaxFee)
	signed.MaxFee = max(signed.MaxFee+signed.MaxFee/8+1, 2*rate)
	signed.Tip += signed.Tip/8 + 1
	if signed.Nonce != b.nonce || len(b.inputs) != 1 {
		return "", errors.New("payout: a transaction of another nonce")
	}
	by := b.inputs[0]
	raw, txid, err := e.acc.signer.Sign(signed, by.Branch, by.Index)
	if err != nil {
		return "", err
	}
	more := evm.Cost(signed.Gas, signed.MaxFee) - was
	fee := b.Fee + more
	if err := insertTransaction(ctx, tx, Transaction{CompanyID: b.CompanyID, TxID: txid, BatchID: b.ID, Replaces: old.TxID, Raw: raw, Fee: fee, VSize: old.VSize}); err != nil {
		return "", err
	}
	if err := moveBatch(ctx, tx, &b, b.State, txid, fee, "fee raised"); err != nil {
		return "", err
	}
	if _, err := moveOutputs(ctx, tx, b, b.State, txid, "fee raised"); err != nil {
		return "", err
	}
	if err := e.post(tx, b, "bump", ledger.Debit(ledger.NetworkFee, source, e.native(more)), ledger.Credit(ledger.InTransit, b.ID, e.native(more))); err != nil {
		return "", err
	}
	if err := chain.WatchNonce(ctx, tx, b.Chain, txid, b.CompanyID, b.ID, e.c.Confirmations, by.Outpoint); err != nil {
		return "", err
	}
	send(tx, b.CompanyID, tx.Now(), txid)
	return txid, nil
}

// refuse ends a batch whose transaction is in the chain and moved nothing. Its fee is gone; its output needs somebody.
func (e *Engine) refuse(ctx context.Context, tx *db.Tx, b *Batch, t Transaction) error {
	booked := b.Fee
	if err := moveBatch(ctx, tx, b, Dead, t.TxID, t.Fee, ReasonRefused); err != nil {
		return err
	}
	if err := chain.Unreserve(ctx, tx, b.Chain, b.ID); err != nil {
		return err
	}
	outs, err := moveOutputs(ctx, tx, *b, Failed, t.TxID, ReasonRefused)
	if err != nil {
		return err
	}
	code, dim := ledger.WalletOf(e.acc.network.Native, b.Chain)
	lines := append(e.transit(ledger.Debit, *b, booked), ledger.Credit(code, dim, e.native(t.Fee)), ledger.Credit(ledger.NetworkFee, source, e.native(booked-t.Fee)))
	for _, o := range outs {
		lines = append(lines, ledger.Credit(ledger.OutputPayable, o.ID, o.Amount))
	}
	if err := e.post(tx, *b, "refuse", lines...); err != nil {
		return err
	}
	e.c.Log.ErrorContext(ctx, "a payout failed in its block", "company_id", b.CompanyID, "batch_id", b.ID, "txid", t.TxID, "purpose", b.Purpose)
	changed(tx, outs)
	return nil
}
