package bitcoin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
)

// Sizes and rules of the network that a composed transaction keeps.
const (
	// maxVSize keeps a transaction below the 100,000 vB that nodes relay.
	maxVSize = 99_000
	// maxPackage keeps a transaction with its unconfirmed ancestors below the 101 kvB that nodes accept.
	maxPackage = 100_500
	// TooHeavy is the Package of a coin that cannot be built on before it is confirmed.
	TooHeavy int64 = 1 << 40
	// MaxChain is how many unconfirmed transactions may hang on each other, the new one included.
	MaxChain = 25
	// dustRate is the rate, in sat/vB, at which spending an output must cost less than it holds.
	dustRate = 3
	// incrementalRate is what a replacement has to pay for its own relay, in sat/vB, above the old fee.
	incrementalRate = 1

	// replaceable signals that the transaction may be replaced by one with a higher fee.
	replaceable uint32 = wire.MaxTxInSequenceNum - 2

	inputBase    = 41  // outpoint, empty script, sequence
	inputWitness = 108 // P2WPKH: count, 72-byte signature, key, with their lengths
	changeSize   = 31  // P2WPKH output
)

// ErrUnaffordable says that the change of a transaction cannot pay for its replacement.
var ErrUnaffordable = errors.New("the change cannot pay the higher fee")

// Coin is something that the wallet can spend.
type Coin struct {
	Outpoint  chain.Outpoint
	Amount    int64
	Ancestors int64 // unconfirmed transactions that it stands on, its own included; 0 when confirmed
	Package   int64 // their size in vB
}

// Recipient is one output to pay.
type Recipient struct {
	Script []byte
	Amount int64
}

// Plan is a transaction decided but not built.
type Plan struct {
	Paid      int   // how many recipients, from the first on
	Inputs    []int // indexes into the coins
	Value     int64 // sum paid to recipients
	Fee       int64
	Change    int64 // 0: no change output
	VSize     int64 // upper bound; the signed transaction is never larger
	Ancestors int64
	Package   int64 // VSize with all unconfirmed ancestors
}

// Compose chooses coins that pay as many recipients as possible, in their order and without leaving one
// out: the first that cannot be paid ends the plan, and Paid says where. Confirmed coins come first, then
// large ones, so a payout rarely depends on another one's confirmation. Pure.
func Compose(recipients []Recipient, coins []Coin, rate int64) Plan {
	order := make([]int, 0, len(coins))
	for i, c := range coins {
		// A coin that costs more than it holds would make the payout dearer; one that nobody may build on yet
		// would only be in the way of the others.
		if c.Amount > rate*(inputBase+(inputWitness+3)/4) && c.Ancestors < MaxChain && c.Package < maxPackage {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := coins[a], coins[b]
		return cmp.Or(cmp.Compare(x.Ancestors, y.Ancestors), cmp.Compare(y.Amount, x.Amount),
			strings.Compare(x.Outpoint.TxID, y.Outpoint.TxID), cmp.Compare(x.Outpoint.Vout, y.Outpoint.Vout))
	})

	var (
		p       Plan
		next    int   // next coin in order
		in      int64 // sum of the chosen coins
		scripts int64 // size of the recipient outputs
	)
	// The fee is always reckoned with a change output: 31 vB too much when there is none is the price of
	// one formula.
	size := func(inputs, outputs int, scripts int64) int64 { return vsize(inputs, outputs+1, scripts+changeSize) }
	for _, r := range recipients {
		outs := scripts + outputSize(r.Script)
		inputs, sum, ancestors, pack, at := len(p.Inputs), in, p.Ancestors, p.Package, next
		fits := true
		for sum < p.Value+r.Amount+rate*size(inputs, p.Paid+1, outs) {
			if at == len(order) {
				fits = false
				break
			}
			c := coins[order[at]]
			at++
			inputs, sum, ancestors, pack = inputs+1, sum+c.Amount, ancestors+c.Ancestors, pack+c.Package
		}
		vb := size(inputs, p.Paid+1, outs)
		if !fits || vb > maxVSize || ancestors+1 > MaxChain || ancestors > 0 && pack+vb > maxPackage {
			break
		}
		for ; next < at; next++ {
			p.Inputs = append(p.Inputs, order[next])
		}
		in, scripts, p.Ancestors, p.Package = sum, outs, ancestors, pack
		p.Paid++
		p.Value += r.Amount
		p.VSize = vb
	}
	if p.Paid == 0 {
		return Plan{}
	}
	p.Fee = rate * p.VSize
	p.Change = in - p.Value - p.Fee
	if p.Change < dust(changeSize, true) {
		p.Fee += p.Change
		p.Change = 0
	}
	p.Package += p.VSize
	return p
}

// Build writes the plan as a transaction to be signed: recipients at positions 0 to Paid-1, the change
// after them.
func Build(p Plan, recipients []Recipient, coins []Coin, change []byte) (*wire.MsgTx, error) {
	tx := wire.NewMsgTx(2)
	for _, i := range p.Inputs {
		hash, err := chainhash.NewHashFromStr(coins[i].Outpoint.TxID)
		if err != nil {
			return nil, fmt.Errorf("coin %s:%d: %w", coins[i].Outpoint.TxID, coins[i].Outpoint.Vout, err)
		}
		in := wire.NewTxIn(wire.NewOutPoint(hash, coins[i].Outpoint.Vout), nil, nil)
		in.Sequence = replaceable
		tx.AddTxIn(in)
	}
	for _, r := range recipients[:p.Paid] {
		tx.AddTxOut(wire.NewTxOut(r.Amount, r.Script))
	}
	if p.Change > 0 {
		tx.AddTxOut(wire.NewTxOut(p.Change, change))
	}
	return tx, nil
}

// Replacement is a signed transaction written again with a higher fee: same inputs, same recipients at the
// same positions, less change. The change, when there is one, is the last output. Pure; it returns
// ErrUnaffordable when the change is too small.
func Replacement(signed *wire.MsgTx, hasChange bool, fee, vsize, rate int64) (tx *wire.MsgTx, newFee int64, err error) {
	tx = signed.Copy()
	for _, in := range tx.TxIn {
		in.Witness = nil
	}
	if !hasChange {
		return nil, 0, ErrUnaffordable
	}
	newFee = max(rate*vsize, fee+incrementalRate*vsize)
	last := tx.TxOut[len(tx.TxOut)-1]
	left := last.Value - (newFee - fee)
	switch {
	case left >= dust(changeSize, true):
		last.Value = left
	case left >= 0:
		newFee += left
		tx.TxOut = tx.TxOut[:len(tx.TxOut)-1]
	default:
		return nil, 0, ErrUnaffordable
	}
	return tx, newFee, nil
}

// Dust is the least amount that nodes relay for a script.
func Dust(script []byte) int64 { return dust(outputSize(script), txscript.IsWitnessProgram(script)) }

func dust(size int64, witness bool) int64 {
	spend := int64(inputBase + 107)
	if witness {
		spend = inputBase + 107/4
	}
	return dustRate * (size + spend)
}

func outputSize(script []byte) int64 {
	return int64(8 + wire.VarIntSerializeSize(uint64(len(script))) + len(script))
}

// vsize is the size of a transaction with P2WPKH inputs, each with the longest signature.
func vsize(inputs, outputs int, outputBytes int64) int64 {
	base := int64(8+wire.VarIntSerializeSize(uint64(inputs))+wire.VarIntSerializeSize(uint64(outputs))+inputs*inputBase) + outputBytes
	return (4*base + 2 + int64(inputs*inputWitness) + 3) / 4
}
