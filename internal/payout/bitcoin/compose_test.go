package bitcoin

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/btcsuite/btcd/wire/v2"
	"pgregory.net/rapid"

	"github.com/stipend/stipend/internal/chain"
)

func script(n int) []byte { return append([]byte{0, byte(n)}, make([]byte, n)...) }

func coin(i int, amount int64) Coin {
	return Coin{Outpoint: chain.Outpoint{TxID: fmt.Sprintf("%064x", i+1)}, Amount: amount}
}

func pay(amounts ...int64) []Recipient {
	var rs []Recipient
	for _, a := range amounts {
		rs = append(rs, Recipient{script(20), a})
	}
	return rs
}

func TestComposePaysAllRecipientsAndKeepsTheChange(t *testing.T) {
	rs := pay(1_200_000, 500_000)
	p := Compose(rs, []Coin{coin(0, 1_000), coin(1, 5_000_000)}, 10)
	// One input, two recipients and change take 11 + 68 + 3·31 = 172 vB.
	if p.Paid != 2 || len(p.Inputs) != 1 || p.Inputs[0] != 1 || p.VSize != 172 || p.Fee != 1_720 ||
		p.Change != 5_000_000-1_700_000-1_720 {
		t.Fatalf("plan %+v", p)
	}
}

func TestComposeStopsAtTheFirstUnaffordableRecipient(t *testing.T) {
	rs := pay(400_000, 900_000, 1_000)
	p := Compose(rs, []Coin{coin(0, 1_000_000)}, 1)
	if p.Paid != 1 {
		t.Fatalf("paid %d: the small third output must not overtake the second", p.Paid)
	}
	if p := Compose(pay(2_000_000), []Coin{coin(0, 1_000_000)}, 1); p.Paid != 0 || p.Inputs != nil {
		t.Fatalf("an unaffordable payout made a plan: %+v", p)
	}
}

func TestComposeAddsChangeBelowDustToTheFee(t *testing.T) {
	p := Compose(pay(999_600), []Coin{coin(0, 1_000_000)}, 1)
	if p.Paid != 1 || p.Change != 0 || p.Fee != 400 {
		t.Fatalf("plan %+v", p)
	}
}

func TestComposeKeepsTheMempoolsLimits(t *testing.T) {
	deep := coin(0, 1_000_000)
	deep.Ancestors, deep.Package = maxChain-1, 5_000
	if p := Compose(pay(1_000), []Coin{deep}, 1); p.Paid != 1 || p.Ancestors != maxChain-1 {
		t.Fatalf("the 25th of a chain is allowed: %+v", p)
	}
	deep.Ancestors = maxChain
	if p := Compose(pay(1_000), []Coin{deep}, 1); p.Paid != 0 {
		t.Fatal("nodes refuse the 26th of a chain")
	}
	heavy := coin(1, 1_000_000)
	heavy.Ancestors, heavy.Package = 1, 100_400
	if p := Compose(pay(1_000), []Coin{heavy}, 1); p.Paid != 0 {
		t.Fatal("nodes refuse a package above 101 kvB")
	}
	if p := Compose(pay(1_000), []Coin{heavy, coin(2, 10_000)}, 1); p.Paid != 1 || p.Inputs[0] != 1 {
		t.Fatal("a confirmed coin comes first")
	}
}

func TestDustMatchesTheNodesLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []byte
		want   int64
	}{
		{"P2WPKH", script(20), 294},
		{"P2WSH", script(32), 330},
		{"P2PKH", append([]byte{0x76, 0xa9, 20}, append(make([]byte, 20), 0x88, 0xac)...), 546},
		{"P2SH", append([]byte{0xa9, 20}, append(make([]byte, 20), 0x87)...), 540},
	} {
		if got := Dust(c.script); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// For any queue and wallet: a prefix of the recipients is paid, inputs equal outputs plus fee, the fee is at least
// the rate for the largest possible signed size, and a replacement keeps inputs and recipients.
func TestComposeKeepsItsInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rs := pay(rapid.SliceOfN(rapid.Int64Range(294, 50_000_000), 1, 60).Draw(t, "recipients")...)
		var coins []Coin
		for i, a := range rapid.SliceOfN(rapid.Int64Range(1, 100_000_000), 0, 40).Draw(t, "coins") {
			c := coin(i, a)
			if c.Ancestors = rapid.Int64Range(-20, 25).Draw(t, "ancestors"); c.Ancestors < 0 {
				c.Ancestors = 0
			}
			c.Package = c.Ancestors * 4_000
			coins = append(coins, c)
		}
		rate := rapid.Int64Range(1, 500).Draw(t, "rate")
		p := Compose(rs, coins, rate)
		if p.Paid == 0 {
			return
		}
		var in, value int64
		seen := map[int]bool{}
		for _, i := range p.Inputs {
			if seen[i] {
				t.Fatal("a coin is spent twice")
			}
			seen[i] = true
			in += coins[i].Amount
		}
		for _, r := range rs[:p.Paid] {
			value += r.Amount
		}
		if value != p.Value || in != p.Value+p.Fee+p.Change {
			t.Fatalf("in %d, plan %+v", in, p)
		}
		if p.Ancestors+1 > maxChain || p.Ancestors > 0 && p.Package > 101_000 || p.VSize > 100_000 {
			t.Fatalf("not relayed: %+v", p)
		}
		tx, err := build(p, rs, coins, script(20))
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range tx.TxIn {
			in.Witness = wire.TxWitness{make([]byte, 72), make([]byte, 33)}
		}
		weight := 3*tx.SerializeSizeStripped() + tx.SerializeSize()
		if vb := int64(weight+3) / 4; vb > p.VSize || p.Fee < rate*vb {
			t.Fatalf("size %d estimated as %d, fee %d at %d", vb, p.VSize, p.Fee, rate)
		}

		bumped, fee, err := replacement(tx, p.Change > 0, p.Fee, p.VSize, rate*2)
		if err != nil {
			return
		}
		var out int64
		for i, o := range bumped.TxOut {
			out += o.Value
			if i < p.Paid && (o.Value != rs[i].Amount || !bytes.Equal(o.PkScript, rs[i].Script)) {
				t.Fatal("a replacement changes a recipient's amount")
			}
		}
		if in-out != fee || fee < p.Fee+p.VSize || len(bumped.TxIn) != len(tx.TxIn) {
			t.Fatalf("fee %d, in %d, out %d", fee, in, out)
		}
	})
}
