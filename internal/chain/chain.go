// Package chain watches a blockchain for payments to our addresses and for our own transactions. It stores the height
// that it has reached, the outputs that pay our addresses, which of our transactions are in a block, and which coins
// may be spent.
//
// A [Source] is a node of one chain. A [Watcher] follows a Source block by block. It relies on hashes, not on
// notifications: each step compares the hash at its cursor with the node's hash at that height. A reorganization that
// happened while the program was down is therefore found like any other. A block that left the best chain is
// disconnected and its effects are reverted, up to [MaxReorg] blocks.
//
// A Watcher may have additional nodes, each a [Witness]. It neither connects nor disconnects blocks while a witness
// has different ones, and it raises alarms, see [Health].
//
// Changes are reported by jobs: [JobOutput] when an output to one of our addresses changes, [JobTx] when one of our
// own transactions does. The job contains only an id; its handler reads the current row with [GetOutput] or [GetTx].
// A repeated or late job is therefore harmless.
//
// The states mean:
//
//   - seen: the transaction is in the node's mempool. It may still vanish or be replaced, so no money may be credited
//     for it.
//   - mined: the transaction is in a block of the best chain. Confirmed is set when the required number of blocks is
//     reached. It stays set until that block is disconnected; a shorter chain alone does not clear it.
//   - replaced: another transaction spends one of the same inputs. ReplacedBy is its id.
//   - evicted: the transaction left the mempool, and no replacement is known.
//
// A replaced or evicted transaction that reappears is seen or mined again.
//
// The package does not value payments or decide what they are for. It builds no transactions, and it never accesses
// the network inside a database transaction.
package chain

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
)

// MaxReorg is the maximum number of blocks that a Watcher can disconnect. A deeper reorganization stops it with
// [ErrTooDeep], and staff must intervene.
const MaxReorg = 100

// DefaultConfirmations is the number of confirmations that an output requires until its owner calls
// [RequireConfirmations]. It is high so that an output first seen in a block is not confirmed before its owner has
// checked its value.
const DefaultConfirmations = 6

// CoinbaseMaturity is the minimum number of confirmations of an output that a coinbase transaction created.
const CoinbaseMaturity = 100

// The branches of a wallet: addresses that are given to payers, and addresses for the change of our own transactions.
const (
	External uint32 = 0
	Change   uint32 = 1
)

// Kinds of the jobs that a Watcher enqueues. The payload of JobOutput is an [OutputRef], that of the others a [TxRef].
const (
	JobOutput = "chain.output"
	JobTx     = "chain.tx"
	// JobUnknownSpend reports that an unknown transaction spent a coin of the wallet. Only the wallet's key can sign
	// one. So either the key was stolen, or the database was restored from a backup that is older than the
	// transaction.
	JobUnknownSpend = "chain.unknown_spend"
)

var (
	// ErrNotFound is returned by a Source for a block or transaction that the node does not have.
	ErrNotFound = errors.New("chain: not found")
	// ErrRejected is returned by a Source for a transaction that a rule of the node permanently refuses.
	ErrRejected = errors.New("chain: transaction rejected")
	// ErrTooDeep is returned by a Watcher after a reorganization of more than MaxReorg blocks.
	ErrTooDeep = errors.New("chain: reorganization deeper than the stored blocks")

	// ErrUnknown is returned for an output or transaction that is not watched.
	ErrUnknown = apierr.New(apierr.NotFound, "chain_unknown", "No watched output or transaction has this id.")
	// ErrCoinTaken is returned by Reserve for a coin that is not available any more.
	ErrCoinTaken = apierr.New(apierr.Conflict, "coin_taken", "A coin chosen for the transaction is no longer available.")
	// ErrNotWatched is returned while the chain has no cursor. A payment to an address assigned now might not be found.
	ErrNotWatched = apierr.New(apierr.Unavailable, "retry_later",
		"The blockchain is not watched yet. Try again when the service has reached its node.")
)

// Source is one chain as seen by one node. It is safe for concurrent use. Its answers are only as consistent with each
// other as the node's are; a caller that needs more compares Tip before and after. Errors other than ErrNotFound and
// ErrRejected leave the outcome unknown: a failed Broadcast may have succeeded.
type Source interface {
	// Network returns "bitcoin", "testnet", "signet" or "regtest", or the name of an EVM network (package evm).
	Network() string
	// Tip returns the last block of the best chain.
	Tip(ctx context.Context) (height int64, hash string, err error)
	// BlockHash returns the hash at a height of the best chain, or ErrNotFound above the tip.
	BlockHash(ctx context.Context, height int64) (string, error)
	// Block returns a block with its transactions, or ErrNotFound. It may return blocks that are not in the best chain.
	Block(ctx context.Context, hash string) (Block, error)
	// Mempool returns the ids of the transactions in the mempool, in no particular order.
	Mempool(ctx context.Context) ([]string, error)
	// Tx returns a transaction of the mempool, and a mined one if the node has an index of transactions. Otherwise it
	// returns ErrNotFound.
	Tx(ctx context.Context, txid string) (Tx, error)
	// Broadcast sends a signed transaction to the network. It succeeds if the node already has the transaction in its
	// mempool or in a block. ErrRejected means that a rule refuses it; any other error leaves the outcome unknown.
	Broadcast(ctx context.Context, raw []byte) error
	// FeeRate returns the recommended fee rate, at least 1: satoshis per virtual byte, or wei per unit of gas.
	FeeRate(ctx context.Context) (rate int64, err error)
}

// Broadcaster is a Source that broadcasts several transactions with one request.
type Broadcaster interface {
	// BroadcastAll broadcasts the transactions in order, and returns an error for each.
	BroadcastAll(ctx context.Context, raws [][]byte) []error
}

// PendingChecker is a Source whose Mempool may omit pending transactions, for example those that do not fit into the
// next block.
type PendingChecker interface {
	// IsPending reports whether the node has the transaction and it is in no block.
	IsPending(ctx context.Context, txid string) (bool, error)
}

// UTXOSource is a Source that can look up unspent outputs.
type UTXOSource interface {
	Source
	// Coin returns the amount of an output in satoshis, or ErrNotFound if it is not in a block or a block spends it.
	Coin(ctx context.Context, o Outpoint) (sats int64, err error)
}

// Outpoint identifies an output by its transaction and its index there.
type Outpoint struct {
	TxID string `json:"txid"`
	Vout uint32 `json:"vout"`
}

// Output is an output of a transaction. Address is empty for scripts without an address. Asset is empty for Bitcoin.
//
// From is the account that a token contract debited, if it is not the sender of the transaction: a contract that pays,
// or a payer who authorized the transfer (EIP-3009).
type Output struct {
	Vout    uint32
	Address string
	Amount  int64
	Asset   money.Asset
	From    string
}

// Tx is a transaction. A coinbase transaction has no inputs. Raw is empty if the source does not provide it.
//
// On an EVM network the only input is the nonce of the account From, which, like a coin, can be spent once. Fee is in
// units of the native coin. Failed means that the transaction was executed without any effect except its fee. Both
// are set only for mined transactions of EVM networks.
type Tx struct {
	ID       string
	Raw      []byte
	Inputs   []Outpoint
	Outputs  []Output
	Coinbase bool
	From     string
	Fee      int64
	Failed   bool
}

// Block is a block with its transactions. Height is -1 if the source does not know it.
type Block struct {
	Height     int64
	Hash, Prev string
	Time       time.Time
	Txs        []Tx
}

// OutputRef is the payload of a JobOutput.
type OutputRef struct {
	Chain string `json:"chain"`
	TxID  string `json:"txid"`
	Vout  uint32 `json:"vout"`
}

// OutputJob returns the job that reports the change of an output to a company.
func OutputJob(companyID, chain string, o Outpoint) job.New {
	return job.New{CompanyID: companyID, Kind: JobOutput, Payload: OutputRef{chain, o.TxID, o.Vout}}
}

// TxRef is the payload of a JobTx and of a JobUnknownSpend.
type TxRef struct {
	Chain string `json:"chain"`
	TxID  string `json:"txid"`
}

// State is the state of a watched output or transaction.
type State string

// States of a watched output: seen, mined, replaced, evicted. States of a watched transaction: watched (not found on
// the chain yet), seen, mined, conflicted (another transaction spends one of its inputs).
const (
	Watched    State = "watched"
	Seen       State = "seen"
	Mined      State = "mined"
	Replaced   State = "replaced"
	Evicted    State = "evicted"
	Conflicted State = "conflicted"
)

// SpendState is the state of an output to our address as a coin.
type SpendState string

// Spend states of an output.
const (
	Available SpendState = "available"
	Reserved  SpendState = "reserved"
	Spent     SpendState = "spent"
)

// WatchedOutput is an output to one of our addresses. FirstSeen is the time at which it was found in the mempool or, if
// it was first found in a block, the timestamp of that block, unless the mempool was scanned later without finding it.
// Height, BlockHash and Depth are zero unless it is mined. Depth counts the output's own block, so an output in the
// last block has depth 1.
type WatchedOutput struct {
	Outpoint
	CompanyID             string
	ObjectID              string
	Address               string
	Branch                uint32
	Amount                int64
	Asset                 money.Asset
	State                 State
	Height                int64
	BlockHash             string
	Depth                 int64
	FirstSeen             time.Time
	RequiredConfirmations int64
	Confirmed             bool
	Coinbase              bool
	ReplacedBy            string
	ReplacedDepth         int64 // confirmations of the transaction ReplacedBy that a witness verified, see [WatchedTx]
	SpendState            SpendState
	SpentBy               string
	BlocksPerConfirmation int64 // the chain's blocks per confirmation, see [NewWatcher]
}

// WithConfirmations returns the output with another required depth, and with Confirmed set for that depth. A coinbase
// output requires at least CoinbaseMaturity.
func (w WatchedOutput) WithConfirmations(confirmations int64) WatchedOutput {
	w.RequiredConfirmations = confirmations
	if w.Coinbase {
		w.RequiredConfirmations = max(w.RequiredConfirmations, CoinbaseMaturity)
	}
	w.Confirmed = w.State == Mined && w.Depth >= w.RequiredConfirmations || w.State == Seen && w.RequiredConfirmations == 0
	return w
}

// WatchedTx is a transaction of the service. In state conflicted, ConflictedBy is the conflicting transaction and
// Height is the block of the conflicting transaction, or 0 while that is in the mempool. Confirmed then means that the
// conflicting transaction has the required depth; before that, the watched transaction may still be mined instead.
// Verified reports whether a witness has the block too, see [Witness]; it is always set if there are no witnesses. Fee
// and Failed are those of [Tx], set while the transaction is mined.
type WatchedTx struct {
	TxID                  string
	CompanyID             string
	ObjectID              string
	State                 State
	Height                int64
	Depth                 int64
	RequiredConfirmations int64
	Confirmed             bool
	Verified              bool
	ConflictedBy          string
	Fee                   int64
	Failed                bool
}

// WalletCoin is a coin that our keys can spend. Unconfirmed is the number of our own unmined transactions that the
// coin depends on, including the one that creates it; nodes refuse chains of more than 25.
type WalletCoin struct {
	Outpoint
	Address     string
	Amount      int64
	Branch      uint32
	Index       uint32
	Unconfirmed int64
	Asset       money.Asset // asset of the coin; empty for Bitcoin
}

// HeldCoin is a coin of ours that is in a block and that no block spends.
type HeldCoin struct {
	Outpoint
	CompanyID, ObjectID string
	Amount              int64
	Change              bool // whether a transaction of the service created the coin
	Confirmed           bool
}

// UnknownSpend is a transaction that spent coins of ours and is not one of our transactions.
type UnknownSpend struct {
	Chain  string
	TxID   string
	Height int64 // block of the transaction; 0 while it is in the mempool
	Coins  int64
	Amount int64  // total of the coins, in satoshis
	Nonce  string // on an EVM network: the account that sent it and the nonce, as in 0x…/7
}

// ObjectAt returns the company and the object that an address was assigned to, or "" if it is not ours.
func ObjectAt(ctx context.Context, tx *db.Tx, chain, address string) (companyID, objectID string, err error) {
	own, err := loadAddresses(ctx, tx, chain, []string{address})
	return own[address].companyID, own[address].objectID, err
}

// IsOwnAddress reports whether the service has assigned the address.
func IsOwnAddress(ctx context.Context, tx *db.Tx, chain, address string) (bool, error) {
	own, err := loadAddresses(ctx, tx, chain, []string{address})
	return len(own) > 0, err
}
