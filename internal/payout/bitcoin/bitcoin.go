// Package bitcoin is the payout rail for Bitcoin. It pays a company's outputs together in one transaction, and raises
// the fee while the transaction is unconfirmed (BIP 125).
//
// The package chooses coins, fee and change (compose.go, without side effects) and signs. Package onchain stores,
// broadcasts and follows the transactions. If funds are short, a transaction ends before the first output of the
// queue that the wallet cannot pay, so that later outputs do not delay an output forever.
package bitcoin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/btcsuite/btcd/psbt/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/signer"
)

// ReasonDust is the reason of an output that failed because nodes do not relay an amount that small.
const ReasonDust = "amount_below_dust"

// Config has the dependencies and limits of a Rail. A limit of zero means its default. Source, Pool, Log, and
// either Signer or Remote with Keys are required.
type Config struct {
	Chain     string           // name of the network in package chain
	Source    chain.Source     // node to broadcast through
	Witnesses []chain.Witness  // further nodes, asked about transactions that Source does not know
	Pool      *chain.Pool      // source of change addresses
	Signer    *bitcoin.Signer  // keys of the hot wallet; nil with Remote
	Remote    *signer.Client   // signer in another process; nil with Signer
	Keys      *bitcoin.Deriver // public keys of the wallet; default those of Signer
	Log       *slog.Logger

	// Confirmations is the number of confirmations that make a payout fulfilled. The default of 1 is enough, because a
	// payout is reverted if a reorganization removes its transaction.
	Confirmations int64
	// ConflictDepth is the number of confirmations of a conflicting transaction that make a payout fail finally; default
	// 6.
	ConflictDepth int64
	MaxOutputs    int   // outputs in one transaction; default 2000
	MaxFeeRate    int64 // fee rate, in sat/vB, above which payouts wait; default 150
	MaxFeeShare   int64 // fee, in basis points of the value paid, above which payouts wait; default 300
	// SmallFee is the fee, in sat, up to which MaxFeeShare is ignored, so that small payrolls are paid; default 1000.
	SmallFee   int64
	FeeMaxAge  time.Duration // maximum age of a fee rate; default 2 h
	BumpAfter  time.Duration // age of an unconfirmed batch when its fee is raised; default 6 h
	NudgeEvery time.Duration // interval between checks of an unconfirmed batch; default 1 h
	Retry      time.Duration // interval between checks of a waiting queue; default 1 min
}

// Rail pays outputs from the Bitcoin hot wallet. It implements payout.Rail.
type Rail struct {
	*onchain.Carrier
	c Config
}

var (
	_ payout.Rail    = (*Rail)(nil)
	_ onchain.Family = (*Rail)(nil)
)

// New returns the Bitcoin rail.
func New(c Config) (*Rail, error) {
	if c.Signer != nil && c.Keys == nil {
		c.Keys = c.Signer.Deriver()
	}
	if c.Pool == nil || c.Keys == nil || (c.Signer == nil) == (c.Remote == nil) {
		return nil, errors.New("bitcoin: the address pool or the keys are missing, or there is not exactly one signer")
	}
	c.MaxOutputs = cmp.Or(c.MaxOutputs, 2000)
	c.MaxFeeShare = cmp.Or(c.MaxFeeShare, 300)
	c.SmallFee = cmp.Or(c.SmallFee, 1000)
	r := &Rail{c: c}
	var err error
	r.Carrier, err = onchain.New(onchain.Config{
		Rail: payout.RailBitcoin, Chain: c.Chain, Native: money.BTC, Source: c.Source, Witnesses: c.Witnesses, Log: c.Log,
		Signer:        c.Remote,
		Confirmations: cmp.Or(c.Confirmations, 1),
		ConflictDepth: cmp.Or(c.ConflictDepth, 6),
		MaxFeeRate:    cmp.Or(c.MaxFeeRate, 150),
		FeeMaxAge:     cmp.Or(c.FeeMaxAge, 2*time.Hour),
		BumpAfter:     cmp.Or(c.BumpAfter, 6*time.Hour),
		NudgeEvery:    cmp.Or(c.NudgeEvery, time.Hour),
		Retry:         cmp.Or(c.Retry, time.Minute),
		FeeEvery:      time.Minute,
	}, r)
	return r, err
}

// Prepare implements payout.Rail. It pays the head of the company's queue with one transaction.
func (r *Rail) Prepare(ctx context.Context, d *db.DB, companyID string) error {
	a, err := r.ask(ctx, d, companyID)
	if err != nil {
		return err
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return r.prepare(ctx, tx, companyID, a) })
}

// answers are the signer's verdicts on the outputs at the head of a queue.
type answers struct {
	verdicts map[string]signer.Verdict // by output ID; nil if the keys are in this process
	silent   bool                      // the signer did not answer
	most     signer.FeeCap             // highest fees that the signer permits
}

// ask asks the signer about the head of a company's queue. It does nothing if the keys are in this process.
func (r *Rail) ask(ctx context.Context, d *db.DB, companyID string) (a answers, err error) {
	if a.most, err = r.FeeCap(ctx); err != nil || r.c.Remote == nil {
		a.silent = err != nil
		return a, nil //nolint:nilerr // silent reports it, and the payouts wait
	}
	var head []payout.Output
	if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		head, err = payout.Head(ctx, tx, companyID, r.Name(), r.c.MaxOutputs)
		return err
	}); err != nil {
		return a, err
	}
	a.verdicts, err = r.Ask(ctx, d, companyID, head, true)
	a.silent = err != nil
	return a, nil
}

// permitted returns the outputs that the signer permits, and stores why it does not permit the others. Outputs that
// were queued or changed since the signer was asked are left for another Prepare; later reports whether there are such
// outputs. If the head is full and has outputs that the signer refused for the first time, permitted enqueues another
// Prepare, in which the next outputs of the queue take their place, so that the signer is asked about every new
// destination.
func (r *Rail) permitted(ctx context.Context, tx *db.Tx, head []payout.Output, full bool, a answers) (
	outs []payout.Output, later bool, err error,
) {
	if r.c.Remote == nil {
		return head, false, nil
	}
	var held []payout.Output
	refused := false
	for _, o := range head {
		switch v, asked := a.verdicts[o.ID]; {
		case !asked:
			later = true
		case v.Code == "":
			outs = append(outs, o)
		default:
			held = append(held, o)
			refused = refused || o.Reason != payout.WaitSigner
			later = later || v.Code == signer.AboveLimit && len(outs) > 0 // may fit into the next transaction
		}
	}
	if refused && full {
		payout.EnqueuePrepare(tx, head[0].CompanyID, r.Name(), tx.Now())
	}
	return outs, later, r.Keep(ctx, tx, held, a.verdicts)
}

func (r *Rail) prepare(ctx context.Context, tx *db.Tx, companyID string, a answers) error {
	rate, fresh, err := r.LockWallet(ctx, tx)
	if err != nil {
		return err
	}
	q, err := payout.LockQueue(ctx, tx, companyID, r.Name())
	if err != nil {
		return err
	}
	head, err := payout.Head(ctx, tx, companyID, r.Name(), r.c.MaxOutputs)
	if err != nil || len(head) == 0 {
		return err
	}
	switch why, err := payout.PayoutsAllowed(ctx, tx, r.Log, money.BTC); {
	case err != nil:
		return err
	case why != "":
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitPaused})
	}
	switch {
	case a.silent:
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitSigner, FeeRate: rate})
	case !fresh:
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitNoFee, FeeRate: rate})
	case rate > min(r.MaxFeeRate, a.most.Rate):
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitFee, FeeRate: rate})
	}

	full := len(head) == r.c.MaxOutputs
	payable, err := r.payable(ctx, tx, head)
	if err != nil {
		return err
	}
	if len(payable) == 0 { // all outputs at the head failed; the next outputs may be payable
		payout.EnqueuePrepare(tx, companyID, r.Name(), tx.Now())
		return nil
	}
	outs, later, err := r.permitted(ctx, tx, payable, full, a)
	if err != nil {
		return err
	}
	if len(outs) == 0 {
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitSigner, FeeRate: rate})
	}
	recipients := r.recipients(outs)
	wallet, coins, err := r.coins(ctx, tx)
	if err != nil {
		return err
	}
	plan := Compose(recipients, coins, rate)
	if plan.Paid == 0 {
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitFunds, FeeRate: rate})
	}
	for plan.Fee > a.most.Fee && plan.Paid > 1 { // the next transaction pays the other outputs
		plan = Compose(recipients[:min(plan.Paid-1, int(int64(plan.Paid)*a.most.Fee/plan.Fee)+1)], coins, rate)
	}
	if !r.reasonable(plan.Fee, plan.Value) || plan.Fee > a.most.Fee || plan.rate() > a.most.Rate {
		return r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitFee, FeeRate: rate})
	}
	if len(outs) < len(payable) {
		err = r.Wait(ctx, tx, q, payout.Delay{Reason: payout.WaitSigner, FeeRate: rate})
	} else {
		err = q.Clear(ctx, tx)
	}
	if err != nil {
		return err
	}
	if plan.Paid < len(outs) || full || later {
		payout.EnqueuePrepare(tx, companyID, r.Name(), tx.Now())
	}
	return r.sign(ctx, tx, companyID, outs[:plan.Paid], recipients, wallet, coins, plan)
}

// script returns the script that pays an output, or the reason why it can never be paid.
func (r *Rail) script(o payout.Output) (script []byte, reason string) {
	if o.Amount.Asset() != money.BTC {
		return nil, payout.ReasonUnsupportedAsset
	}
	script, err := bitcoin.AddressScript(o.Address, r.Source.Network())
	switch {
	case err != nil:
		return nil, payout.ReasonBadAddress
	case o.Amount.Units() < Dust(script):
		return nil, ReasonDust
	}
	return script, ""
}

// payable returns the outputs that a transaction can pay. It changes all others to failed.
func (r *Rail) payable(ctx context.Context, tx *db.Tx, head []payout.Output) ([]payout.Output, error) {
	outs := make([]payout.Output, 0, len(head))
	for _, o := range head {
		if _, reason := r.script(o); reason == "" {
			outs = append(outs, o)
		} else if err := payout.Fail(ctx, tx, o, reason); err != nil {
			return nil, err
		}
	}
	return outs, nil
}

// recipients returns the recipients of payable outputs.
func (r *Rail) recipients(outs []payout.Output) []Recipient {
	all := make([]Recipient, len(outs))
	for i, o := range outs {
		script, _ := r.script(o)
		all[i] = Recipient{Script: script, Amount: o.Amount.Units()}
	}
	return all
}

// coins returns the wallet's coins, and the same coins with the data of their unconfirmed ancestors.
func (r *Rail) coins(ctx context.Context, tx *db.Tx) ([]chain.WalletCoin, []Coin, error) {
	wallet, err := chain.Coins(ctx, tx, r.Chain)
	if err != nil {
		return nil, nil, err
	}
	coins := make([]Coin, len(wallet))
	for i, c := range wallet {
		coins[i] = Coin{Outpoint: c.Outpoint, Amount: c.Amount, Ancestors: c.Unconfirmed}
		if c.Unconfirmed == 0 {
			continue
		}
		// Unconfirmed change is used only for the company whose payouts created it. A coin whose transaction is not found
		// is not used.
		parent, err := chain.GetOutput(ctx, tx, r.Chain, c.Outpoint)
		if err == nil {
			coins[i].Ancestors, coins[i].Package, err = onchain.Ancestry(ctx, tx, parent.CompanyID, c)
		}
		switch {
		case errors.Is(err, db.ErrNoRows), errors.Is(err, chain.ErrUnknown):
			coins[i].Package = tooHeavy
		case err != nil:
			return nil, nil, err
		}
	}
	return wallet, coins, nil
}

// reasonable reports whether a fee is acceptable for a value, both in sat.
func (r *Rail) reasonable(fee, value int64) bool {
	return fee <= r.c.SmallFee || fee <= value/10_000*r.c.MaxFeeShare+value%10_000*r.c.MaxFeeShare/10_000
}

// sign reserves the coins of a plan, signs its transaction, stores it as a batch that pays outs, and enqueues Send.
func (r *Rail) sign(ctx context.Context, tx *db.Tx, companyID string, outs []payout.Output, recipients []Recipient,
	wallet []chain.WalletCoin, coins []Coin, plan Plan,
) error {
	b := r.NewBatch(tx, companyID, money.BTC, plan.Value, plan.Fee, onchain.PurposePayout)
	var change []byte
	if plan.Change > 0 {
		var err error
		if b.Change, err = r.c.Pool.NewChangeAddress(ctx, tx, companyID, b.ID); err != nil {
			return err
		}
		if change, err = bitcoin.AddressScript(b.Change, r.Source.Network()); err != nil {
			return err
		}
	}
	points := make([]chain.Outpoint, len(plan.Inputs))
	for i, n := range plan.Inputs {
		b.Inputs = append(b.Inputs, wallet[n])
		points[i] = wallet[n].Outpoint
	}
	if err := chain.Reserve(ctx, tx, r.Chain, points, b.ID); err != nil {
		return err
	}
	unsigned, err := build(plan, recipients, coins, change)
	if err != nil {
		return err
	}
	t := onchain.Transaction{CompanyID: companyID, BatchID: b.ID, Fee: plan.Fee, Size: plan.VSize,
		Package: plan.Package, Ancestors: plan.Ancestors + 1}
	if err := r.signIfLocal(&t, unsigned, b.Inputs); err != nil {
		return err
	}
	if !t.Unsigned {
		b.TxID = t.TxID
	}
	if err := r.Store(ctx, tx, b, t, outs); err != nil {
		return err
	}
	payout.EnqueueSend(tx, companyID, r.Name(), tx.Now(), t.TxID)
	return payout.Assign(ctx, tx, outs, b.ID, b.TxID, 0)
}

// signIfLocal sets the bytes of a transaction: signed if the keys are in this process, otherwise unsigned.
func (r *Rail) signIfLocal(t *onchain.Transaction, unsigned *wire.MsgTx, inputs []chain.WalletCoin) (err error) {
	if r.c.Signer == nil {
		t.Raw, t.TxID, t.Unsigned = bitcoin.Serialize(unsigned), unsigned.TxID(), true
		return nil
	}
	t.Raw, t.TxID, err = r.c.Signer.Sign(unsigned, inputs)
	return err
}

// Free implements onchain.Family. It does nothing: a batch of bitcoins holds nothing but coins and outputs.
func (r *Rail) Free(context.Context, *db.Tx, onchain.Batch) error { return nil }

// Sign implements onchain.Family. It sends a PSBT that identifies the wallet's own inputs and change by their
// derivation paths.
func (r *Rail) Sign(ctx context.Context, d *db.DB, b onchain.Batch, t onchain.Transaction,
	approvals []signer.Approval,
) (raw []byte, txid string, err error) {
	var unsigned wire.MsgTx
	if err := unsigned.Deserialize(bytes.NewReader(t.Raw)); err != nil {
		return nil, "", err
	}
	own := map[int]bitcoin.KeyPath{}
	if len(unsigned.TxOut) > len(b.Outs) {
		branch, index, ok, err := onchain.OwnPath(ctx, d, b.Chain, b.Change)
		if err != nil || !ok {
			return nil, "", fmt.Errorf("bitcoin: the change address of batch %s is not the wallet's (%w)", b.ID, err)
		}
		own[len(b.Outs)] = bitcoin.KeyPath{Branch: branch, Index: index}
	}
	packet, err := r.c.Keys.Packet(&unsigned, b.Inputs, own)
	if err != nil {
		return nil, "", err
	}
	var text bytes.Buffer
	if err := packet.Serialize(&text); err != nil {
		return nil, "", err
	}
	references := make([]string, len(b.Outs))
	for i, o := range b.Outs {
		references[i] = o.ID
	}
	signed, err := r.c.Remote.SignBitcoin(ctx, signer.BitcoinRequest{PSBT: text.Bytes(), References: references,
		Approvals: approvals})
	if err != nil {
		return nil, "", err
	}
	answer, err := psbt.NewFromRawBytes(bytes.NewReader(signed), false)
	if err != nil {
		return nil, "", err
	}
	return bitcoin.Finish(answer, &unsigned, b.Inputs, r.Source.Network())
}

// Watch implements onchain.Family. The inputs are the coins reserved for the batch.
func (r *Rail) Watch(ctx context.Context, tx *db.Tx, b onchain.Batch, txid string) error {
	return chain.WatchTx(ctx, tx, b.Chain, txid, b.CompanyID, b.ID, r.Confirmations)
}

// Replace implements onchain.Family. It takes the higher fee from the change.
func (r *Rail) Replace(ctx context.Context, tx *db.Tx, b onchain.Batch, old onchain.Transaction,
	rate int64,
) (onchain.Transaction, error) {
	var signed wire.MsgTx
	if err := signed.Deserialize(bytes.NewReader(old.Raw)); err != nil {
		return onchain.Transaction{}, err
	}
	unsigned, fee, err := replacement(&signed, len(signed.TxOut) > len(b.Outs), old.Fee, old.Size, rate)
	if err != nil {
		return onchain.Transaction{}, err
	}
	if fee > r.MaxFeeRate*old.Size {
		return onchain.Transaction{}, onchain.ErrFeeTooHigh
	}
	// The change no longer exists once its transaction is replaced, so it is reserved.
	change := chain.Outpoint{TxID: old.TxID, Vout: uint32(len(b.Outs))}
	switch w, err := chain.GetOutput(ctx, tx, b.Chain, change); {
	case errors.Is(err, chain.ErrUnknown): // the watcher has not seen the change, so no transaction spends it
	case err != nil:
		return onchain.Transaction{}, err
	case w.SpendState != chain.Available:
		return onchain.Transaction{}, onchain.ErrChangeSpent
	default:
		if err := chain.Reserve(ctx, tx, b.Chain, []chain.Outpoint{change}, b.ChangeReservation()); err != nil {
			return onchain.Transaction{}, err
		}
	}
	t := onchain.Transaction{Fee: fee, Size: old.Size, Package: old.Package, Ancestors: old.Ancestors}
	return t, r.signIfLocal(&t, unsigned, b.Inputs)
}

// Underpays implements onchain.Family.
func (r *Rail) Underpays(b onchain.Batch, t onchain.Transaction, rate int64) bool {
	return rate*t.Size > t.Fee && r.reasonable(rate*t.Size, b.Value)
}

// Cost implements onchain.Family. The fee is fixed when the transaction is signed.
func (r *Rail) Cost(t onchain.Transaction, _ chain.WatchedTx) int64 { return t.Fee }

// MarkPaid marks a queued output as paid by a transaction that the database does not contain; see onchain.MarkPaid.
func MarkPaid(ctx context.Context, tx *db.Tx, chainName, outputID string, t chain.Tx) (payout.Output, error) {
	o, _, err := onchain.MarkPaid(ctx, tx, onchain.UnknownPayment{
		Rail: payout.RailBitcoin, Chain: chainName, Native: money.BTC, Depth: chain.DefaultConfirmations,
		Fee: func(t chain.Tx, spent chain.UnknownSpend) int64 {
			fee := spent.Amount
			for _, out := range t.Outputs {
				fee -= out.Amount
			}
			return fee
		},
	}, outputID, t)
	return o, err
}
