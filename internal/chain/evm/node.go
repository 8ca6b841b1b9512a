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

// Node is a view of a network by which payouts are made: a chain.Source, and the state of accounts.
type Node interface {
	chain.Source
	chain.Broadcaster
	// Spec is the network.
	Spec() Network
	// State is an account as the last block left it, and the price of gas.
	State(ctx context.Context, account string) (State, error)
	// Balances is what accounts together held at a block, of the native coin and of each token; chain.ErrNotFound when the node has
	// forgotten that block, or has not got it yet.
	Balances(ctx context.Context, accounts []string, height int64) (map[money.Asset]int64, error)
	// Estimate says what calls would need, each by itself, if an account made them now. What the node says against one call is that
	// call's verdict.
	Estimate(ctx context.Context, from string, calls []Call) ([]Estimate, error)
}

// State is an account at one block.
type State struct {
	Height   int64
	Nonce    uint64                // the next that a block can take
	Balances map[money.Asset]int64 // of the native coin and of each token, in booked units
	BaseFee  int64                 // wei per gas that the next block asks for
	Tip      int64                 // wei per gas beyond it
}

// Estimate is what a call would need, or why the node does not say so.
type Estimate struct {
	Gas     uint64
	DataFee int64 // what publishing it costs beside the gas, in booked units; 0 where that is in the gas
	Verdict Verdict
	Refusal string // the node's words where the verdict is not Payable
}

// Verdict is what an estimate says of its call.
type Verdict int

// The verdicts.
const (
	WillSucceed       Verdict = iota // it needs the gas of the estimate
	WillFail                         // it would fail whatever it is given: who is called fails it
	InsufficientFunds                // the account holds too little for it
	Inconclusive                     // nobody knows: it may be fine another time
)

// Verdict reads why a node gave no estimate of a call. Nodes agree on few codes and on the words of geth, which came first. Words of
// whoever fails a call count where that is a token, which we chose. Who receives coins may say anything.
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
	case has("paused", "invalid opcode"): // the token's issuer has stopped all of it; or it says nothing, even where the account is short
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
		asks := make([]rpcCall, len(some))
		for i, raw := range some {
			asks[i] = rpcCall{method: "eth_sendRawTransaction", params: []any{hexOf(raw)}}
		}
		if failed == nil {
			failed = c.batch(ctx, asks)
		}
		for i, a := range asks {
			if failed != nil || a.err == nil {
				errs = append(errs, failed)
				continue
			}
			errs = append(errs, c.refusal(ctx, some[i], a.err))
		}
	}
	return errs
}

// refusal is what a node's word against a transaction means: nothing where it has that already.
func (c *Client) refusal(ctx context.Context, raw []byte, err *Error) error {
	text := strings.ToLower(err.Message)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has("already known", "known transaction", "already imported", "alreadyknown", "already exists"):
		return nil
	case has("nonce too low", "nonce is too low", "nonce has already been used", "replacement", "underpriced to replace"):
		// The nonce is taken: by this very transaction, mined long ago or waiting, or by a rival. No verdict but the first.
		if _, found := c.Tx(ctx, ID(raw)); found == nil {
			return nil
		}
		return err
	case has("txpool is full", "pool is full", "limit", "timeout", "header not found", "syncing", "internal error"):
		return err
	}
	return fmt.Errorf("%w: %w", chain.ErrRejected, err)
}

// FeeRate implements chain.Source: wei per unit of gas.
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
	asks := []rpcCall{
		{method: "eth_getBlockByNumber", params: []any{"latest", false}, result: &b},
		{method: "eth_maxPriorityFeePerGas", result: &t},
	}
	if err := c.batch(ctx, asks); err != nil {
		return 0, 0, 0, err
	}
	for _, a := range asks {
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
	var asks []rpcCall
	var each []func() map[money.Asset]int64
	for _, account := range accounts {
		some, holds, err := c.balanceCalls(account, height)
		if err != nil {
			return nil, err
		}
		asks, each = append(asks, some...), append(each, holds)
	}
	if err := c.batch(ctx, asks); err != nil {
		return nil, err
	}
	for _, a := range asks {
		if a.err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", chain.ErrNotFound, height, a.err)
		}
	}
	all := map[money.Asset]int64{}
	for _, holds := range each {
		for asset, units := range holds() {
			all[asset] += units
		}
	}
	return all, nil
}

// balanceCalls are the questions for what an account held at a block; holds reads the answers.
func (c *Client) balanceCalls(account string, height int64) (asks []rpcCall, holds func() map[money.Asset]int64, err error) {
	who, err := ParseAddress(account)
	if err != nil {
		return nil, nil, err
	}
	at, n := hexNumber(height), c.o.Network
	var native hexInt
	tokens := make([]hexInt, len(n.Tokens))
	asks = append(asks, rpcCall{method: "eth_getBalance", params: []any{account, at}, result: &native})
	for i, t := range n.Tokens {
		data := hexOf(slices.Concat(selectorBalanceOf, make([]byte, 12), who[:]))
		asks = append(asks, rpcCall{method: "eth_call", params: []any{map[string]string{"to": t.Contract, "data": data}, at}, result: &tokens[i]})
	}
	return asks, func() map[money.Asset]int64 {
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
	asks, holds, err := c.balanceCalls(account, height)
	if err != nil {
		return State{}, err
	}
	var nonce hexInt
	asks = append(asks, rpcCall{method: "eth_getTransactionCount", params: []any{account, hexNumber(height)}, result: &nonce})
	if err := c.batch(ctx, asks); err != nil {
		return State{}, err
	}
	for _, a := range asks {
		if a.err != nil {
			return State{}, a.err
		}
	}
	return State{Height: height, Nonce: nonce.Uint64(), BaseFee: base, Tip: tip, Balances: holds()}, nil
}

// clampInt64 is a balance as far as it can be booked: more than that is never spent at once.
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
	asks := make([]rpcCall, len(calls), 2*len(calls))
	for i, call := range calls {
		params := map[string]string{"from": from, "to": call.To.String(), "value": "0x" + call.Value.Text(16)}
		if len(call.Data) > 0 {
			params["data"] = hexOf(call.Data)
		}
		asks[i] = rpcCall{method: "eth_estimateGas", params: []any{params}, result: &gas[i]}
	}
	if c.o.Network.DataFee {
		for i, call := range calls {
			params := map[string]string{"to": gasPriceOracle, "data": hexOf(c.dataFeeCall(call))}
			asks = append(asks, rpcCall{method: "eth_call", params: []any{params, "latest"}, result: &data[i]})
		}
	}
	if err := c.batch(ctx, asks); err != nil {
		return nil, err
	}
	all := make([]Estimate, len(calls))
	for i, a := range asks {
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

// dataFeeCall asks what publishing a call's transaction costs. That goes by its size; the numbers that are not known are large ones.
func (c *Client) dataFeeCall(call Call) []byte {
	t := Tx{ChainID: c.o.Network.ChainID, Nonce: 1 << 24, Tip: 1 << 36, MaxFee: 1 << 36, Gas: 1 << 20, Call: call}
	raw := append([]byte{typeDynamicFee}, rlpList(t.items())...)
	data := slices.Concat(selectorL1Fee, make([]byte, 64), raw, make([]byte, (32-len(raw)%32)%32))
	data[4+31] = 32
	big.NewInt(int64(len(raw))).FillBytes(data[4+32 : 4+64])
	return data
}
