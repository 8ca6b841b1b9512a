package bitcoin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/payout/onchain"
)

// Sizes, and the network's rules for transactions.
const (
	// maxVSize is below the 100,000 vB that nodes relay.
	maxVSize = 99_000
	// maxPackage is the maximum size of a transaction with its unconfirmed ancestors. It is below the 101 kvB that nodes
	// accept.
	maxPackage = 100_500
	// tooHeavy is the Package of a coin that must not be spent before it is confirmed.
	tooHeavy int64 = 1 << 40
	// maxChain is the maximum number of unconfirmed transactions that depend on each other, including the new one.
	maxChain = 25
	// dustRate is the fee rate, in sat/vB, at which the cost of spending an output must be below its amount.
	dustRate = 3
	// incrementalRate is the rate, in sat/vB, by which the fee of a replacement must at least exceed the replaced fee.
	incrementalRate = 1

	// replaceable is the sequence number of inputs of a transaction that may be replaced.
	replaceable uint32 = wire.MaxTxInSequenceNum - 2

	inputBase    = 41  // bytes of the outpoint, empty script and sequence
	inputWitness = 108 // bytes of the P2WPKH witness: count, 72-byte signature, key, with their lengths
	changeSize   = 31  // bytes of a P2WPKH output
)

// Coin is an unspent output of the wallet.
type Coin struct {
	Outpoint  chain.Outpoint
	Amount    int64
	Ancestors int64 // unconfirmed transactions that the coin depends on, including its own; 0 if confirmed
	Package   int64 // virtual size of the transaction and its unconfirmed ancestors
}

// Recipient is an output to pay.
type Recipient struct {
	Script []byte
	Amount int64
}

// Plan is the composition of a transaction.
type Plan struct {
	Paid      int   // number of recipients paid, from the first
	Inputs    []int // indexes into the coins
	Value     int64 // sum paid to recipients
	Fee       int64
	Change    int64 // amount of the change output; 0 means that there is none
	VSize     int64 // upper bound of the size of the signed transaction
	Ancestors int64
	Package   int64 // VSize plus all unconfirmed ancestors
}

// rate returns the fee per virtual byte of the transaction, rounded up. VSize includes an output for change even if
// there is none.
func (p Plan) rate() int64 {
	size := p.VSize
	if p.Change == 0 {
		size -= changeSize
	}
	return (p.Fee + size - 1) / size
}

// Compose chooses coins that pay as many recipients as possible, in order: the first recipient that cannot be paid
// ends the plan. It prefers confirmed coins, then large coins, so that a payout rarely depends on the confirmation of
// another. It has no side effects. rate is in sat/vB.
func Compose(recipients []Recipient, coins []Coin, rate int64) Plan {
	order := make([]int, 0, len(coins))
	for i, c := range coins {
		// Spending a coin that is worth less than the cost of its input would increase the fee. Coins at the limits of
		// unconfirmed ancestors cannot be used.
		if c.Amount > rate*(inputBase+(inputWitness+3)/4) && c.Ancestors < maxChain && c.Package < maxPackage {
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
		scripts int64 // size of the recipients' outputs
	)
	// The size always includes a change output, so that one formula suffices: without change, the fee pays for 31 vB too
	// many.
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
		if !fits || vb > maxVSize || ancestors+1 > maxChain || ancestors > 0 && pack+vb > maxPackage {
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

// build returns the unsigned transaction of a plan: recipients at positions 0 to Paid-1, then the change.
func build(p Plan, recipients []Recipient, coins []Coin, change []byte) (*wire.MsgTx, error) {
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

// replacement returns a copy of a signed transaction with the same inputs and recipients, a higher fee and less
// change. If hasChange is set, the last output is the change. It returns onchain.ErrUnaffordable if there is too
// little change.
func replacement(signed *wire.MsgTx, hasChange bool, fee, vsize, rate int64) (tx *wire.MsgTx, newFee int64, err error) {
	tx = signed.Copy()
	for _, in := range tx.TxIn {
		in.Witness = nil
	}
	if !hasChange {
		return nil, 0, onchain.ErrUnaffordable
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
		return nil, 0, onchain.ErrUnaffordable
	}
	return tx, newFee, nil
}

// Dust returns the smallest amount that nodes relay for a script.
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

// vsize returns the size of a transaction with P2WPKH inputs and the longest possible signatures.
func vsize(inputs, outputs int, outputBytes int64) int64 {
	base := int64(8+wire.VarIntSerializeSize(uint64(inputs))+wire.VarIntSerializeSize(uint64(outputs))+inputs*inputBase) +
		outputBytes
	return (4*base + 2 + int64(inputs*inputWitness) + 3) / 4
}
