// Package chain watches a public ledger for the addresses and transactions that Stipend cares about, and owns everything
// it learned from it: where its cursor stands, which outputs pay our addresses, which of our own transactions are in a
// block, and which coins may be spent.
//
// A [Source] is a view of one chain through one node. A [Watcher] follows a Source block by block. It believes hashes, never
// notifications: each step compares the hash under its cursor with the node's, so a reorganisation that happened while the
// program was down is found in the same way as one that happens now. A block that left the chain is taken back state by
// state, up to [MaxReorg] blocks.
//
// A Watcher may be given further nodes, each a [Witness]. It does not connect or take back a block while one of them has other blocks,
// and it says which alarms stand.
//
// News travels up as jobs: [JobOutput] when an output to a watched address changes, [JobTx] when one of our own transactions
// does. A job says "look at this"; the reader takes the present row by [GetOutput] or [GetTx], so a repeated or late job is
// harmless.
//
// What a state promises:
//
//   - seen: the node's mempool holds the transaction. It may still vanish or be replaced; nothing may rest on it.
//   - mined: a block of the present chain holds it. Confirmed is set once the wanted number of blocks stands on it, and stays
//     set until that very block leaves the chain: a shorter tip alone takes nothing back.
//   - replaced: another transaction spends one of the same coins. ReplacedBy names it.
//   - evicted: the mempool dropped it, and nothing that replaces it is known.
//
// A replaced or evicted transaction that turns up again is seen or mined again.
//
// The package never decides what a payment is worth or whom it serves, never builds a transaction, and never talks to the
// network inside a database transaction.
package chain

import (
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

// MaxReorg is how many blocks a Watcher can take back. A deeper reorganisation stops it with [ErrTooDeep]: that is no longer
// a matter for a program.
const MaxReorg = 100

// DefaultConfirmations are wanted of an output until its owner says otherwise by [RequireConfirmations]. It errs on the safe
// side, so that an output first met in a block is not called confirmed before its owner could look at its value.
const DefaultConfirmations = 6

// CoinbaseMaturity is the least number of confirmations of an output that a block itself created.
const CoinbaseMaturity = 100

// The two branches of a wallet: addresses given out, and addresses for our own change.
const (
	External uint32 = 0
	Change   uint32 = 1
)

// Kinds of the jobs that a Watcher enqueues. Their payloads are [OutputRef] and, of the others, [TxRef].
const (
	JobOutput = "chain.output"
	JobTx     = "chain.tx"
	// JobUnknownSpend is that a coin of ours was spent by a transaction that is not known here. Only our key can do that, so
	// either somebody else has it, or the database was restored from before the transaction was made.
	JobUnknownSpend = "chain.stranger"
)

var (
	// ErrNotFound is a Source's answer about a block or transaction that the node does not know.
	ErrNotFound = errors.New("chain: not found")
	// ErrRejected is a Source's answer to a broadcast that a rule of the node definitely refused.
	ErrRejected = errors.New("chain: transaction rejected")
	// ErrTooDeep stops a Watcher whose chain was rewritten deeper than MaxReorg blocks.
	ErrTooDeep = errors.New("chain: reorganisation deeper than the blocks kept")

	// ErrUnknown answers a question about an output or transaction that is not watched.
	ErrUnknown = apierr.New(apierr.NotFound, "chain_unknown", "No watched output or transaction has this id.")
	// ErrCoinTaken answers a reservation of a coin that is no longer available.
	ErrCoinTaken = apierr.New(apierr.Conflict, "coin_taken", "A coin chosen for the transaction is no longer available.")
	// ErrNotWatched means that nobody has looked at the chain yet, so that an address given out now could be paid unseen.
	ErrNotWatched = apierr.New(apierr.Unavailable, "retry_later", "The blockchain is not watched yet. Try again when the service has reached its node.")
)

// Source is one chain as one node sees it. It is safe for concurrent use.
//
// The answers of one moment agree with each other only as far as the node's do; a caller that needs more compares Tip before
// and after. Errors other than ErrNotFound and ErrRejected mean that nothing is known: a failed Broadcast may have succeeded.
type Source interface {
	// Network is "bitcoin", "testnet", "signet" or "regtest", or the name of a network of accounts (package evm).
	Network() string
	// Tip is the last block of the best chain.
	Tip(ctx context.Context) (height int64, hash string, err error)
	// BlockHash is the hash at a height of the best chain; ErrNotFound above the tip.
	BlockHash(ctx context.Context, height int64) (string, error)
	// Block is a whole block; ErrNotFound when the node never had it. Blocks off the best chain may be answered.
	Block(ctx context.Context, hash string) (Block, error)
	// Mempool is the ids of the transactions waiting for a block, in no order.
	Mempool(ctx context.Context) ([]string, error)
	// Tx is a transaction of the mempool; one in a block is answered only where the node keeps an index. ErrNotFound otherwise.
	Tx(ctx context.Context, txid string) (Tx, error)
	// Broadcast hands a signed transaction to the network. A transaction that the node already has, in its mempool or in a
	// block, is a success. ErrRejected means a rule refused it; any other error leaves it open.
	Broadcast(ctx context.Context, raw []byte) error
	// FeeRate is what a transaction should pay to be mined soon, at least 1: satoshi per virtual byte, or wei per unit of gas.
	FeeRate(ctx context.Context) (rate int64, err error)
}

// Broadcaster is a Source that is handed several transactions by one request.
type Broadcaster interface {
	// BroadcastAll is Broadcast for each, in their order; an error for each.
	BroadcastAll(ctx context.Context, raws [][]byte) []error
}

// PendingChecker is a Source whose Mempool may leave out transactions that still wait, such as those that do not fit into the next block.
type PendingChecker interface {
	// IsPending says whether the node still has a transaction that is in no block.
	IsPending(ctx context.Context, txid string) (bool, error)
}

// Outpoint names an output by its transaction and its place there.
type Outpoint struct {
	TxID string `json:"txid"`
	Vout uint32 `json:"vout"`
}

// Output is what a transaction pays. Address is empty for scripts that have none. Asset is empty for Bitcoin.
type Output struct {
	Vout    uint32
	Address string
	Amount  int64
	Asset   money.Asset
}

// Tx is a transaction as the chain carries it. Inputs are empty for a coinbase. Raw is not told by every source.
//
// On a network of accounts the one input is the nonce of the account From, which can be spent once as a coin can. Fee, in units of
// the network's own coin, is known of what is in a block, and so is Failed: executed without any effect but its fee.
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

// Block is a block with everything in it. Height is -1 where the source cannot tell it from the block.
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

// TxRef is the payload of a JobTx and of a JobStranger.
type TxRef struct {
	Chain string `json:"chain"`
	TxID  string `json:"txid"`
}

// State is where a watched output or transaction stands.
type State string

// States of a watched output: seen, mined, replaced, evicted. States of a watched transaction: watched (the chain does not
// show it), seen, mined, conflicted (another transaction spends one of its coins).
const (
	Watched    State = "watched"
	Seen       State = "seen"
	Mined      State = "mined"
	Replaced   State = "replaced"
	Evicted    State = "evicted"
	Conflicted State = "conflicted"
)

// SpendState is whether an output to our address may still be spent.
type SpendState string

// Spend states of an output.
const (
	Available SpendState = "available"
	Reserved  SpendState = "reserved"
	Spent     SpendState = "spent"
)

// WatchedOutput is an output to one of our addresses. Height, BlockHash and Depth are zero unless it is mined; Depth counts
// its own block, so an output in the last block has depth 1.
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
	SpendState            SpendState
	SpentBy               string
	BlocksPerConfirmation int64 // of the chain, see [Watcher]
}

// WithConfirmations is the output when it is to lie so deep before it is called confirmed. One of a coinbase never needs less than
// CoinbaseMaturity.
func (w WatchedOutput) WithConfirmations(confirmations int64) WatchedOutput {
	w.RequiredConfirmations = confirmations
	if w.Coinbase {
		w.RequiredConfirmations = max(w.RequiredConfirmations, CoinbaseMaturity)
	}
	w.Confirmed = w.State == Mined && w.Depth >= w.RequiredConfirmations || w.State == Seen && w.RequiredConfirmations == 0
	return w
}

// WatchedTx is a transaction of our own. In state conflicted, ConflictedBy is the rival, Height is the rival's block (zero
// while it is in the mempool only) and Confirmed says that the rival has the wanted depth: before that, our transaction may
// still win. Attested says of the block in either state that a second node has it, too, where there is one to ask; see [Witness]. Fee
// and Failed are those of [Tx], while it is mined.
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

// WalletCoin is a coin that our keys can spend. Unconfirmed is the number of our own unmined transactions that it rests on,
// itself included; nodes refuse chains longer than 25.
type WalletCoin struct {
	Outpoint
	Address     string
	Amount      int64
	Branch      uint32
	Index       uint32
	Unconfirmed int64
	Asset       money.Asset // empty for Bitcoin
}

// IsOwnAddress says whether an address was given out by this service.
func IsOwnAddress(ctx context.Context, tx *db.Tx, chain, address string) (bool, error) {
	own, err := loadAddresses(ctx, tx, chain, []string{address})
	return len(own) > 0, err
}

// UnknownSpend is a transaction that spent coins of ours and is not known here.
type UnknownSpend struct {
	Chain  string
	TxID   string
	Height int64 // of its block, 0 while it is in the mempool
	Coins  int64
	Amount int64  // of the coins, in satoshis
	Nonce  string // of the paying account, where the chain is a network of accounts: 0x…/7
}
