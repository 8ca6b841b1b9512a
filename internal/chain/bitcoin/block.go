package bitcoin

import (
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
)

// NewBlock builds a block at a height of a regtest chain: a coinbase transaction that pays the reward, then the
// transactions, with the commitment to their witnesses (BIP 141) and a proof of work. The caller sets the version,
// previous block, time and bits of the header. Blocks at the same height differ by the salt.
func NewBlock(
	header wire.BlockHeader, height int64, salt []byte, reward []*wire.TxOut, txs []*wire.MsgTx,
) (*wire.MsgBlock, error) {
	// BIP 34 requires the height as the first item.
	script, err := txscript.NewScriptBuilder().AddInt64(height).AddData(salt).Script()
	if err != nil {
		return nil, err
	}
	coinbase := wire.NewMsgTx(2)
	coinbase.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&chainhash.Hash{}, wire.MaxPrevOutIndex), script, nil))
	for _, out := range reward {
		coinbase.AddTxOut(out)
	}
	// In the witness commitment the coinbase counts as zero. Its id is known only after the commitment is added.
	ids, witnesses := make([]chainhash.Hash, 1), make([]chainhash.Hash, 1)
	for _, tx := range txs {
		ids, witnesses = append(ids, tx.TxHash()), append(witnesses, tx.WitnessHash())
	}
	if len(txs) > 0 {
		root, reserved := merkleRoot(witnesses), make([]byte, chainhash.HashSize)
		commitment := chainhash.DoubleHashB(append(root[:], reserved...))
		coinbase.TxIn[0].Witness = wire.TxWitness{reserved}
		coinbase.AddTxOut(wire.NewTxOut(0, append([]byte{txscript.OP_RETURN, txscript.OP_DATA_36, 0xaa, 0x21, 0xa9, 0xed},
			commitment...)))
	}
	ids[0] = coinbase.TxHash()
	header.MerkleRoot = merkleRoot(ids)
	for hash := header.BlockHash(); hash[chainhash.HashSize-1] >= 0x7f; hash = header.BlockHash() {
		header.Nonce++
	}
	block := wire.NewMsgBlock(&header)
	block.Transactions = append([]*wire.MsgTx{coinbase}, txs...)
	return block, nil
}

// merkleRoot returns the root of a Merkle tree. An odd hash is paired with itself.
func merkleRoot(level []chainhash.Hash) chainhash.Hash {
	for len(level) > 1 {
		var up []chainhash.Hash
		for i := 0; i < len(level); i += 2 {
			left, right := level[i], level[min(i+1, len(level)-1)]
			up = append(up, chainhash.DoubleHashH(append(left[:], right[:]...)))
		}
		level = up
	}
	return level[0]
}
