// Package evm is the payout rail for one EVM network. It differs from Bitcoin as follows:
//
//   - One transaction pays one output from the hot wallet, which is one account. Its input is the account's next
//     nonce, which is stored with the bytes. No other payment ever uses that nonce; only a transaction with the same
//     nonce and a higher fee replaces an unconfirmed transaction. There is one exception: if the signer refused a
//     transaction, it has no signature, and its nonce is used again (fill.go).
//   - The cost of a transaction is known with its block. Until then its maximum cost is posted.
//   - A transaction can be in a block and have failed. That proves that nothing was paid: the output fails, and the
//     fee is spent.
//   - Deposits are received on separate addresses and swept to the hot wallet (sweep.go). Sweeping tokens requires
//     gas, which the hot wallet sends.
//   - The hot wallet also sends transfers that payers authorized (collect.go): the money arrives as a deposit.
//
// Package onchain stores, broadcasts and follows the transactions.
package evm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/onchain"
	"github.com/stipend/stipend/internal/signer"
)

// maxFeeShare is the fee, in basis points of the amount paid, above which a payout waits.
const maxFeeShare = 300

// Config has the dependencies and limits of a Rail. A limit of zero means its default. Node, Log, Screen, Due, and
// either Signer or Remote with Keys are required.
type Config struct {
	Node      evm.Node
	Signer    *evm.Signer     // keys of the wallet; nil with Remote
	Remote    *signer.Client  // signer in another process; nil with Signer
	Keys      *evm.Deriver    // public keys of the wallet; default those of Signer
	Witnesses []chain.Witness // further nodes, asked about transactions that Node does not know
	Log       *slog.Logger
	// Screen reports whether sanctions screening blocks payments from an address, for a subject of the company.
	Screen func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (blocked bool, err error)
	// Due locks the object of a collection and reports whether it still requires exactly this payment.
	Due func(ctx context.Context, tx *db.Tx, c Collection) (bool, error)

	MaxOutputs int           // outputs of each asset per Prepare; default 100
	FeeMaxAge  time.Duration // maximum age of a gas price that raises a fee; default 10 min
	BumpAfter  time.Duration // age of an unconfirmed transaction when its fee is raised; default 2 min
	NudgeEvery time.Duration // interval between checks of an unconfirmed transaction; default 30 s
	Retry      time.Duration // interval between checks of a waiting queue; default 30 s
	SweepEvery time.Duration // interval between sweeps of deposits; default 5 s
}

// Rail pays outputs on one EVM network. It implements payout.Rail.
type Rail struct {
	*onchain.Carrier
	network    evm.Network
	node       evm.Node
	signer     *evm.Signer    // nil with remote
	remote     *signer.Client // nil with signer
	keys       *evm.Deriver
	hot        string // address of the hot wallet
	screen     func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (bool, error)
	due        func(ctx context.Context, tx *db.Tx, c Collection) (bool, error)
	maxOutputs int
	sweepEvery time.Duration
}

var (
	_ payout.Rail    = (*Rail)(nil)
	_ onchain.Family = (*Rail)(nil)
)

// New returns the rail of the node's network. It makes the network's watcher follow the hot wallet, to detect other
// uses of its key.
func New(ctx context.Context, d *db.DB, c Config) (*Rail, error) {
	if c.Signer != nil && c.Keys == nil {
		c.Keys = c.Signer.Deriver()
	}
	if d == nil || c.Node == nil || c.Keys == nil || (c.Signer == nil) == (c.Remote == nil) || c.Screen == nil ||
		c.Due == nil {
		return nil, errors.New("evm: the database, the node, the signer, the screening or the check of payments is missing")
	}
	hot, err := c.Keys.HotAddress()
	if err != nil {
		return nil, err
	}
	n := c.Node.Spec()
	r := &Rail{
		network: n, node: c.Node, signer: c.Signer, remote: c.Remote, keys: c.Keys, hot: hot, screen: c.Screen, due: c.Due,
		maxOutputs: cmp.Or(c.MaxOutputs, 100), sweepEvery: cmp.Or(c.SweepEvery, 5*time.Second),
	}
	log := c.Log
	if log != nil {
		log = log.With("chain", n.Name)
	}
	if r.Carrier, err = onchain.New(onchain.Config{
		Rail: payout.RailName(n.Name), Chain: n.Name, Native: n.Native, Source: c.Node, Witnesses: c.Witnesses, Log: log,
		Signer:        c.Remote,
		Confirmations: n.BlocksPerConfirmation,
		ConflictDepth: 6 * n.BlocksPerConfirmation,
		MaxFeeRate:    n.MaxFee,
		FeeMaxAge:     cmp.Or(c.FeeMaxAge, 10*time.Minute),
		BumpAfter:     cmp.Or(c.BumpAfter, 2*time.Minute),
		NudgeEvery:    cmp.Or(c.NudgeEvery, 30*time.Second),
		Retry:         cmp.Or(c.Retry, 30*time.Second),
		FeeEvery:      20 * time.Second,
	}, r); err != nil {
		return nil, err
	}
	return r, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return chain.WatchAccount(ctx, tx, r.Chain, r.hot, ledger.Operator)
	})
}

// Periodic implements payout.Rail.
func (r *Rail) Periodic(d *db.DB) []job.Periodic {
	return append(r.Carrier.Periodic(d), job.Periodic{
		Name: "payout.sweep." + r.Chain, Every: r.sweepEvery, Run: func(ctx context.Context) error { return r.Sweep(ctx, d) },
	})
}

// Watch implements onchain.Family. A transaction spends a nonce of its account.
func (r *Rail) Watch(ctx context.Context, tx *db.Tx, b onchain.Batch, txid string) error {
	return chain.WatchNonce(ctx, tx, b.Chain, txid, b.CompanyID, b.ID, r.Confirmations,
		evm.NonceOutpoint(b.Account, b.Nonce))
}

// Free implements onchain.Family. The account's next transaction uses the nonce, and a collection is sent again.
func (r *Rail) Free(ctx context.Context, tx *db.Tx, b onchain.Batch) error {
	if err := insertFree(ctx, tx, b.Chain, b.Account, b.Nonce); err != nil || b.Purpose != onchain.PurposeCollect {
		return err
	}
	c, err := collectionOf(ctx, tx, b.Chain, b.ID)
	if err != nil {
		return err
	}
	if err := clearCollectionBatch(ctx, tx, c); err != nil {
		return err
	}
	db.History(tx, c.CompanyID, c.ID, c.Version+1, "signed", "authorized", payout.WaitSigner)
	enqueueCollect(tx, c, tx.Now().Add(r.Retry))
	return nil
}

// Replace implements onchain.Family. It signs the same call with the same nonce and a higher fee. Nodes accept it if
// both prices are at least a tenth higher.
func (r *Rail) Replace(_ context.Context, _ *db.Tx, b onchain.Batch, old onchain.Transaction,
	rate int64,
) (onchain.Transaction, error) {
	signed, _, err := evm.DecodeTx(old.Raw)
	if err != nil {
		return onchain.Transaction{}, err
	}
	if rate > r.MaxFeeRate {
		return onchain.Transaction{}, onchain.ErrFeeTooHigh
	}
	before := evm.GasCost(signed.Gas, signed.MaxFee)
	signed.MaxFee = max(signed.MaxFee+signed.MaxFee/8+1, 2*rate)
	signed.Tip += signed.Tip/8 + 1
	if signed.Nonce != b.Nonce || len(b.Inputs) != 1 {
		return onchain.Transaction{}, fmt.Errorf("evm: transaction %s of batch %s has the wrong nonce", old.TxID, b.ID)
	}
	t := onchain.Transaction{Fee: b.Fee + evm.GasCost(signed.Gas, signed.MaxFee) - before, Size: old.Size}
	return t, r.signIfLocal(&t, signed, b.Inputs[0])
}

// signIfLocal sets the bytes of a transaction: signed if the keys are in this process, otherwise unsigned.
func (r *Rail) signIfLocal(t *onchain.Transaction, unsigned evm.Tx, key chain.WalletCoin) (err error) {
	if r.signer == nil {
		t.Raw, t.TxID, t.Unsigned = unsigned.Unsigned(), fmt.Sprintf("0x%x", unsigned.SigningHash()), true
		return nil
	}
	t.Raw, t.TxID, err = r.signer.Sign(unsigned, key.Branch, key.Index)
	return err
}

// Sign implements onchain.Family. The target of a sweep, of gas or of a collection is one of the wallet's addresses.
func (r *Rail) Sign(ctx context.Context, d *db.DB, b onchain.Batch, t onchain.Transaction,
	approvals []signer.Approval,
) (raw []byte, txid string, err error) {
	unsigned, err := evm.DecodeUnsigned(t.Raw)
	if err != nil {
		return nil, "", err
	}
	account, err := evm.ParseAddress(b.Account)
	if err != nil || len(b.Inputs) != 1 {
		return nil, "", fmt.Errorf("evm: batch %s has no account (%w)", b.ID, err)
	}
	request := signer.EVMRequest{Chain: b.Chain, Transaction: t.Raw, Approvals: approvals,
		From: bitcoin.KeyPath{Branch: b.Inputs[0].Branch, Index: b.Inputs[0].Index}}
	switch {
	case len(b.Outs) > 0:
		request.Reference = b.Outs[0].ID
	case b.Change == r.hot:
		request.Own = &bitcoin.KeyPath{Branch: chain.Change}
	case b.Change != "":
		branch, index, ok, err := onchain.OwnPath(ctx, d, b.Chain, b.Change)
		if err != nil || !ok {
			return nil, "", fmt.Errorf("evm: %s is not an address of the wallet (%w)", b.Change, err)
		}
		request.Own = &bitcoin.KeyPath{Branch: branch, Index: index}
	}
	sig, err := r.remote.SignEVM(ctx, request)
	if err != nil {
		return nil, "", err
	}
	return unsigned.WithSignature(sig, account)
}

// Underpays implements onchain.Family.
func (r *Rail) Underpays(_ onchain.Batch, t onchain.Transaction, rate int64) bool {
	signed, _, err := evm.DecodeTx(t.Raw)
	return err == nil && rate > signed.MaxFee
}

// Cost implements onchain.Family. The cost is known with the block.
func (r *Rail) Cost(_ onchain.Transaction, seen chain.WatchedTx) int64 { return seen.Fee }

func (r *Rail) native(units int64) money.Amount { return money.New(r.network.Native, units) }

// MarkPaid marks a queued output as paid by a transaction that the database does not contain, see onchain.MarkPaid.
// The nonce of the transaction is not used again.
func MarkPaid(ctx context.Context, tx *db.Tx, n evm.Network, outputID string, t chain.Tx) (payout.Output, error) {
	o, spent, err := onchain.MarkPaid(ctx, tx, onchain.UnknownPayment{
		Rail: payout.RailName(n.Name), Chain: n.Name, Native: n.Native,
		Depth: chain.DefaultConfirmations * n.BlocksPerConfirmation,
		Fee:   func(t chain.Tx, _ chain.UnknownSpend) int64 { return t.Fee },
	}, outputID, t)
	if err != nil {
		return o, err
	}
	account, number, _ := strings.Cut(spent.Nonce, "/")
	nonce, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return o, fmt.Errorf("evm: invalid nonce %q: %w", spent.Nonce, err)
	}
	of, err := lockNonces(ctx, tx, n.Name, account)
	if err != nil {
		return o, err
	}
	of.skip(nonce + 1)
	return o, of.save(ctx, tx)
}
