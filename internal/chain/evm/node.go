package evm

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
)

// Node is a node of an EVM network as payouts use it: a chain.Source with the state of accounts.
type Node interface {
	chain.Source
	chain.Broadcaster
	// Spec returns the network.
	Spec() Network
	// State returns the state of an account after the last block, and the price of gas.
	State(ctx context.Context, account string) (State, error)
	// Balances returns the total balances of accounts at a block: of the native coin, and of each token. It returns
	// chain.ErrNotFound if the node does not have the state of that block.
	Balances(ctx context.Context, accounts []string, height int64) (map[money.Asset]int64, error)
	// Estimate estimates each call as if the account made it alone, now. If the node refuses to estimate a call, the
	// verdict of its estimate says why.
	Estimate(ctx context.Context, from string, calls []Call) ([]Estimate, error)
}

// State is the state of an account at one block.
type State struct {
	Height   int64
	Nonce    uint64                // nonce of the account's next transaction
	Balances map[money.Asset]int64 // balances of the native coin and of each token, in the ledger's units
	BaseFee  int64                 // wei per gas that the next block requires
	Tip      int64                 // recommended tip, in wei per gas
}

// Estimate is the estimated cost of a call, or the reason why the node gives none.
type Estimate struct {
	Gas     uint64
	DataFee int64 // the cost of publication in addition to the gas, in the ledger's units; 0 if the gas includes it
	Verdict Verdict
	Refusal string // the node's error message, unless the verdict is WillSucceed
}

// Verdict is the outcome of an estimate.
type Verdict int

// Verdicts.
const (
	WillSucceed       Verdict = iota // the call would succeed with the estimated gas
	WillFail                         // the recipient reverts the call, however much gas it gets
	InsufficientFunds                // the account's balance is too low
	Inconclusive                     // the call may succeed later
)

// Verdict interprets the error of an estimate of a call. Nodes share few error codes, but most use the messages of
// geth. The message of a reverted call is trusted only if a token contract produced it, because any other recipient
// can return any text.
func (e *Error) Verdict(call Call) Verdict {
	text := strings.ToLower(e.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	token, failed := len(call.Data) > 0, e.Code == codeRevert || has("revert", "invalid opcode", "invalid jump")
	switch {
	case failed && !token:
		return WillFail
	case has("insufficient funds", "insufficient balance", "exceeds balance"):
		return InsufficientFunds
	// A paused token rejects transfers by every account. An invalid opcode has no message, even if the balance is too
	// low.
	case has("paused", "invalid opcode"):
		return Inconclusive
	case failed, has("out of gas", "gas required exceeds allowance"):
		return WillFail
	}
	return Inconclusive
}

// Broadcast implements chain.Source.
func (c *Client) Broadcast(ctx context.Context, raw []byte) error {
	return c.BroadcastAll(ctx, [][]byte{raw})[0]
}

// BroadcastAll implements chain.Broadcaster.
func (c *Client) BroadcastAll(ctx context.Context, raws [][]byte) []error {
	errs := make([]error, 0, len(raws))
	failed := c.check(ctx)
	for some := range slices.Chunk(raws, batchSize) {
		rpcs := make([]rpcCall, len(some))
		for i, raw := range some {
			rpcs[i] = rpcCall{method: "eth_sendRawTransaction", params: []any{hexOf(raw)}}
		}
		if failed == nil {
			failed = c.batch(ctx, rpcs)
		}
		for i, a := range rpcs {
			if failed != nil || a.err == nil {
				errs = append(errs, failed)
				continue
			}
			errs = append(errs, c.refusal(ctx, some[i], a.err))
		}
	}
	return errs
}

// refusal interprets the node's error for a broadcast. It returns nil if the node already has the transaction.
func (c *Client) refusal(ctx context.Context, raw []byte, err *Error) error {
	text := strings.ToLower(err.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("already known", "known transaction", "already imported", "alreadyknown", "already exists"):
		return nil
	case has("nonce too low", "nonce is too low", "nonce has already been used", "replacement", "underpriced to replace"):
		// The nonce is used: by this transaction, pending or mined, or by a conflicting one. Only the former is a success;
		// the outcome of the latter is unknown.
		if _, found := c.Tx(ctx, ID(raw)); found == nil {
			return nil
		}
		return err
	case has("txpool is full", "pool is full", "limit", "timeout", "header not found", "syncing", "internal error"):
		return err
	}
	return fmt.Errorf("%w: %w", chain.ErrRejected, err)
}

// FeeRate implements chain.Source. The rate is in wei per unit of gas.
func (c *Client) FeeRate(ctx context.Context) (int64, error) {
	base, tip, _, err := c.fees(ctx)
	return max(base+tip, 1), err
}

func (c *Client) fees(ctx context.Context) (base, tip, height int64, err error) {
	if err := c.check(ctx); err != nil {
		return 0, 0, 0, err
	}
	var b wireHead
	var t hexInt
	rpcs := []rpcCall{
		{method: "eth_getBlockByNumber", params: []any{"latest", false}, result: &b},
		{method: "eth_maxPriorityFeePerGas", result: &t},
	}
	if err := c.batch(ctx, rpcs); err != nil {
		return 0, 0, 0, err
	}
	for _, a := range rpcs {
		if a.err != nil {
			return 0, 0, 0, a.err
		}
	}
	if b.BaseFee == nil || !b.BaseFee.IsInt64() || !t.IsInt64() {
		return 0, 0, 0, errors.New("evm: the node's price of gas is out of range")
	}
	return b.BaseFee.Int64(), max(t.Int64(), c.o.Network.MinTip), b.Number.Int64(), nil
}

// Balances implements Node.
func (c *Client) Balances(ctx context.Context, accounts []string, height int64) (map[money.Asset]int64, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	var rpcs []rpcCall
	var each []func() map[money.Asset]int64
	for _, account := range accounts {
		some, balances, err := c.balanceCalls(account, height)
		if err != nil {
			return nil, err
		}
		rpcs, each = append(rpcs, some...), append(each, balances)
	}
	if err := c.batch(ctx, rpcs); err != nil {
		return nil, err
	}
	for _, a := range rpcs {
		if a.err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", chain.ErrNotFound, height, a.err)
		}
	}
	all := map[money.Asset]int64{}
	for _, balances := range each {
		for asset, units := range balances() {
			all[asset] += units
		}
	}
	return all, nil
}

// balanceCalls returns the calls that read the balances of an account at a block, and a function that returns the
// balances after the calls were made.
func (c *Client) balanceCalls(
	account string, height int64,
) (rpcs []rpcCall, balances func() map[money.Asset]int64, err error) {
	who, err := ParseAddress(account)
	if err != nil {
		return nil, nil, err
	}
	at, n := hexNumber(height), c.o.Network
	var native hexInt
	tokens := make([]hexInt, len(n.Tokens))
	rpcs = append(rpcs, rpcCall{method: "eth_getBalance", params: []any{account, at}, result: &native})
	for i, t := range n.Tokens {
		data := hexOf(slices.Concat(selectorBalanceOf, make([]byte, 12), who[:]))
		rpcs = append(rpcs, rpcCall{method: "eth_call", params: []any{map[string]string{"to": t.Contract, "data": data}, at},
			result: &tokens[i]})
	}
	return rpcs, func() map[money.Asset]int64 {
		all := map[money.Asset]int64{n.Native: clampInt64(Gwei(&native.Int))}
		for i, t := range n.Tokens {
			all[t.Asset] = clampInt64(&tokens[i].Int)
		}
		return all
	}, nil
}

// State implements Node.
func (c *Client) State(ctx context.Context, account string) (State, error) {
	base, tip, height, err := c.fees(ctx)
	if err != nil {
		return State{}, err
	}
	rpcs, balances, err := c.balanceCalls(account, height)
	if err != nil {
		return State{}, err
	}
	var nonce hexInt
	rpcs = append(rpcs, rpcCall{method: "eth_getTransactionCount", params: []any{account, hexNumber(height)},
		result: &nonce})
	if err := c.batch(ctx, rpcs); err != nil {
		return State{}, err
	}
	for _, a := range rpcs {
		if a.err != nil {
			return State{}, a.err
		}
	}
	return State{Height: height, Nonce: nonce.Uint64(), BaseFee: base, Tip: tip, Balances: balances()}, nil
}

// clampInt64 returns a balance, or the maximum if it does not fit into an int64.
func clampInt64(n *big.Int) int64 {
	if !n.IsInt64() {
		return 1<<63 - 1
	}
	return n.Int64()
}

// Estimate implements Node.
func (c *Client) Estimate(ctx context.Context, from string, calls []Call) ([]Estimate, error) {
	if err := c.check(ctx); err != nil {
		return nil, err
	}
	gas, data := make([]hexInt, len(calls)), make([]hexInt, len(calls))
	rpcs := make([]rpcCall, len(calls), 2*len(calls))
	for i, call := range calls {
		params := map[string]string{"from": from, "to": call.To.String(), "value": "0x" + call.Value.Text(16)}
		if len(call.Data) > 0 {
			params["data"] = hexOf(call.Data)
		}
		rpcs[i] = rpcCall{method: "eth_estimateGas", params: []any{params}, result: &gas[i]}
	}
	if c.o.Network.DataFee {
		for i, call := range calls {
			params := map[string]string{"to": gasPriceOracle, "data": hexOf(c.dataFeeCall(call))}
			rpcs = append(rpcs, rpcCall{method: "eth_call", params: []any{params, "latest"}, result: &data[i]})
		}
	}
	if err := c.batch(ctx, rpcs); err != nil {
		return nil, err
	}
	all := make([]Estimate, len(calls))
	for i, a := range rpcs {
		one := &all[i%len(calls)]
		switch {
		case one.Verdict != WillSucceed:
		case a.err != nil && i < len(calls):
			*one = Estimate{Verdict: a.err.Verdict(calls[i]), Refusal: a.err.Error()}
		case a.err != nil:
			*one = Estimate{Verdict: Inconclusive, Refusal: a.err.Error()}
		case i < len(calls):
			one.Gas = gas[i].Uint64()
		default:
			one.DataFee = clampInt64(Gwei(new(big.Int).Add(&data[i-len(calls)].Int, big.NewInt(gwei-1))))
		}
	}
	return all, nil
}

// dataFeeCall returns the call data for the cost of publishing a call's transaction. The cost depends on the size, so
// the unknown fields are set to large numbers.
func (c *Client) dataFeeCall(call Call) []byte {
	t := Tx{ChainID: c.o.Network.ChainID, Nonce: 1 << 24, Tip: 1 << 36, MaxFee: 1 << 36, Gas: 1 << 20, Call: call}
	raw := append([]byte{typeDynamicFee}, rlpList(t.items())...)
	data := slices.Concat(selectorL1Fee, make([]byte, 64), raw, make([]byte, (32-len(raw)%32)%32))
	data[4+31] = 32
	big.NewInt(int64(len(raw))).FillBytes(data[4+32 : 4+64])
	return data
}
