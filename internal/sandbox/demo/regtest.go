package demo

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain/bitcoin"
)

// segwitHeight is the height at which segwit becomes active on btcd's regtest chain. On Bitcoin Core it is active
// from the start.
const segwitHeight = 432

// noSuchMethod is the error code for an unknown method: btcd has no generatetoaddress.
const noSuchMethod = -32601

// template is a node's template for its next block.
type template struct {
	Version  int32  `json:"version"`
	Previous string `json:"previousblockhash"`
	Bits     string `json:"bits"`
	Time     int64  `json:"curtime"`
	Height   int64  `json:"height"`
	Value    int64  `json:"coinbasevalue"`
	Txs      []struct {
		Data string `json:"data"`
	} `json:"transactions"`
}

// generate mines a block and returns its hash. It uses the node's method for mining if there is one, and otherwise
// assembles the block.
func (m *miner) generate(ctx context.Context) (string, error) {
	var hashes []string
	err := m.node.Call(ctx, &hashes, "generatetoaddress", 1, m.address)
	var refused *bitcoin.Error
	if errors.As(err, &refused) && refused.Code == noSuchMethod {
		return m.assemble(ctx)
	}
	if err == nil && len(hashes) != 1 {
		err = errors.New("the node did not say which block it mined")
	}
	if err != nil {
		return "", err
	}
	return hashes[0], nil
}

// assemble mines a block from the node's template.
func (m *miner) assemble(ctx context.Context) (string, error) {
	var t template
	ask := map[string]any{"mode": "template", "capabilities": []string{"coinbasevalue"}, "rules": []string{"segwit"}}
	if err := m.node.Call(ctx, &t, "getblocktemplate", ask); err != nil {
		return "", err
	}
	block, err := m.fill(t)
	if err != nil {
		return "", fmt.Errorf("the node's block template: %w", err)
	}
	var raw bytes.Buffer
	if err := block.Serialize(&raw); err != nil {
		return "", err
	}
	var refusal *string
	if err := m.node.Call(ctx, &refusal, "submitblock", hex.EncodeToString(raw.Bytes())); err != nil {
		return "", err
	}
	if refusal != nil {
		return "", fmt.Errorf("the node refused the block: %s", *refusal)
	}
	return block.BlockHash().String(), nil
}

func (m *miner) fill(t template) (*wire.MsgBlock, error) {
	previous, err := chainhash.NewHashFromStr(t.Previous)
	if err != nil {
		return nil, err
	}
	bits, err := strconv.ParseUint(t.Bits, 16, 32)
	if err != nil {
		return nil, err
	}
	reward, err := bitcoin.AddressScript(m.address, "regtest")
	if err != nil {
		return nil, err
	}
	var txs []*wire.MsgTx
	for _, given := range t.Txs {
		raw, err := hex.DecodeString(given.Data)
		if err != nil {
			return nil, err
		}
		tx := new(wire.MsgTx)
		if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
			return nil, err
		}
		txs = append(txs, tx)
	}
	header := wire.BlockHeader{Version: t.Version, PrevBlock: *previous, Timestamp: time.Unix(t.Time, 0),
		Bits: uint32(bits)}
	return bitcoin.NewBlock(header, t.Height, []byte("stipend"), []*wire.TxOut{wire.NewTxOut(t.Value, reward)}, txs)
}
