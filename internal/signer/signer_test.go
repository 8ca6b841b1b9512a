package signer_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/psbt/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/signer/signertest"
	"github.com/stipend/stipend/internal/testkit"
)

const policy = `{
	"assets": {
		"BTC": {"transaction": "0.5", "hour": "1", "day": "2", "approval_above": "0.2"},
		"ETH": {"transaction": "1", "hour": "2", "day": "3", "approval_above": "1"},
		"USDC": {"transaction": "1000", "hour": "5000", "day": "9000", "approval_above": "500"}
	},
	"bitcoin": {"network": "regtest", "script_types": ["p2wpkh", "p2tr"], "max_fee": "0.001", "max_fee_rate": 100},
	"evm": {"base": {"max_fee": "0.01"}},
	"destinations": {"known_for": "24h", "allowed": []},
	"approvers": [%s]
}`

// fixture is a signer behind its socket, with the keys of the service that may have been stolen.
type fixture struct {
	testing.TB
	dir    string
	policy string
	now    time.Time
	client *signer.Client
	alarms bytes.Buffer
	log    *signer.Log
	stop   func()
	keys   *bitcoin.Deriver
	evm    *evm.Deriver
	payee  *bitcoin.Deriver
	coins  int
	staff  []signertest.Passkey
}

func start(t testing.TB) *fixture {
	f := &fixture{TB: t, dir: t.TempDir(), now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC),
		staff: []signertest.Passkey{signertest.NewPasskey("ada"), signertest.NewPasskey("grace")}}
	f.policy = fmt.Sprintf(policy, f.staff[0].Approver()+","+f.staff[1].Approver())
	f.payee = testkit.Must(bitcoin.ParseXPriv(testkit.Must(bitcoin.MasterFromSeed(bytes.Repeat([]byte{2}, 32), "regtest")),
		"regtest")).Deriver()
	f.open()
	t.Cleanup(func() { f.stop() })
	return f
}

func (f *fixture) open() {
	f.Helper()
	master := testkit.Must(bitcoin.MasterFromSeed(bytes.Repeat([]byte{1}, 32), "regtest"))
	wallet := testkit.Must(signer.BitcoinWallet(master, "regtest"))
	tokens := testkit.Must(signer.EVMWallet(testkit.Must(evm.MasterFromSeed(bytes.Repeat([]byte{1}, 32)))))
	f.keys, f.evm = wallet.Deriver, tokens.Deriver
	f.log = testkit.Must(signer.OpenLog(filepath.Join(f.dir, "log")))
	service := testkit.Must(signer.New(signer.Options{
		Policy: testkit.Must(signer.ParsePolicy([]byte(f.policy))), Log: f.log, Bitcoin: wallet, EVM: tokens,
		Alarm: slog.New(slog.NewTextHandler(&f.alarms, nil)), Now: func() time.Time { return f.now },
	}))
	l := testkit.Must(signer.Listen("unix:"+filepath.Join(f.dir, "s"), signer.TLSFiles{}))
	done := make(chan error, 1)
	ctx := f.Context() // within a fuzz target, that of the fuzz test cannot be read
	go func() { done <- service.Serve(ctx, l) }()
	f.stop = func() {
		_ = l.Close()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			f.Error(err)
		}
		_ = f.log.Close()
	}
	f.client = testkit.Must(signer.NewClient("unix:"+filepath.Join(f.dir, "s"), signer.TLSFiles{}))
}

func (f *fixture) restart() {
	f.stop()
	f.open()
}

// address returns the payee's address at an index.
func (f *fixture) address(i uint32) string { return testkit.Must(f.payee.Address(0, i)) }

// coin returns a new coin of the wallet.
func (f *fixture) coin(sats int64) chain.WalletCoin {
	f.coins++
	return chain.WalletCoin{Outpoint: chain.Outpoint{TxID: fmt.Sprintf("%064x", f.coins)}, Amount: sats,
		Address: testkit.Must(f.keys.Address(0, uint32(f.coins))), Index: uint32(f.coins)}
}

type out struct {
	address string
	sats    int64
	own     *bitcoin.KeyPath
}

// packet returns the PSBT and its transaction.
func (f *fixture) packet(coins []chain.WalletCoin, outs ...out) (*psbt.Packet, *wire.MsgTx) {
	f.Helper()
	tx := wire.NewMsgTx(2)
	for _, c := range coins {
		point := wire.NewOutPoint(testkit.Must(chainhash.NewHashFromStr(c.TxID)), c.Vout)
		tx.AddTxIn(wire.NewTxIn(point, nil, nil))
	}
	own := map[int]bitcoin.KeyPath{}
	for i, o := range outs {
		tx.AddTxOut(wire.NewTxOut(o.sats, testkit.Must(bitcoin.AddressScript(o.address, "regtest"))))
		if o.own != nil {
			own[i] = *o.own
		}
	}
	return testkit.Must(f.keys.Packet(tx, coins, own)), tx
}

func encode(p *psbt.Packet) []byte {
	var b bytes.Buffer
	if err := p.Serialize(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// sign asks the signer for a transaction and verifies it.
func (f *fixture) sign(approvals []signer.Approval, coins []chain.WalletCoin, outs ...out) error {
	f.Helper()
	p, tx := f.packet(coins, outs...)
	references := make([]string, len(outs))
	for i := range references {
		references[i] = fmt.Sprintf("out_%d", i)
	}
	signed, err := f.client.SignBitcoin(f.Context(), signer.BitcoinRequest{PSBT: encode(p), References: references,
		Approvals: approvals})
	if err != nil {
		return err
	}
	answer := testkit.Must(psbt.NewFromRawBytes(bytes.NewReader(signed), false))
	_, _, err = bitcoin.Finish(answer, tx, coins, "regtest")
	return err
}

// refused fails the test unless err is a refusal with a code.
func (f *fixture) refused(what string, err error, code signer.Code) {
	f.Helper()
	var r signer.Refused
	if !errors.As(err, &r) || r.Code != code {
		f.Errorf("%s: %v, want the refusal %s", what, err, code)
	}
}

func (f *fixture) must(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

// know names destinations to the signer and lets a day pass.
func (f *fixture) know(addresses ...string) {
	f.Helper()
	var all []signer.Payment
	for _, a := range addresses {
		all = append(all, signer.Payment{Chain: "bitcoin", Asset: money.BTC, Address: a, Units: 1})
	}
	for _, v := range testkit.Must(f.client.Check(f.Context(), signer.CheckRequest{Payments: all})) {
		if v.Code != signer.ApprovalRequired || v.Until.IsZero() {
			f.Errorf("a new destination: %+v", v)
		}
	}
	f.now = f.now.Add(24 * time.Hour)
}

const btc = 100_000_000

// Somebody has everything that the service's process has: the signer's socket, the public keys, the database. They take
// no more than the policy permits, whatever they ask for, and every refusal is an alarm in the log.
func TestAThiefCannotExceedThePolicy(t *testing.T) {
	f := start(t)
	thief := f.address(0)
	pay := func(sats int64) error {
		return f.sign(nil, []chain.WalletCoin{f.coin(sats + 1000)}, out{address: thief, sats: sats})
	}
	f.refused("a new destination", pay(btc/10), signer.ApprovalRequired)
	f.now = f.now.Add(23 * time.Hour)
	f.refused("known for 23 hours", pay(btc/10), signer.ApprovalRequired)
	f.now = f.now.Add(time.Hour)
	f.refused("above the amount for approvals", pay(btc/4), signer.ApprovalRequired)
	f.refused("above the limit per transaction", pay(btc), signer.AboveLimit)

	// Own addresses are recognized by derivation, not by what the request claims.
	change := bitcoin.KeyPath{Branch: 1, Index: 7}
	coin := f.coin(btc)
	p, _ := f.packet([]chain.WalletCoin{coin},
		out{address: testkit.Must(f.keys.Address(1, 7)), sats: btc - 1000, own: &change})
	p.UnsignedTx.TxOut[0].PkScript = testkit.Must(bitcoin.AddressScript(thief, "regtest"))
	_, err := f.client.SignBitcoin(t.Context(), signer.BitcoinRequest{PSBT: encode(p)})
	f.refused("change to a foreign address", err, signer.AboveLimit)
	f.refused("a fee that burns the coin", f.sign(nil, []chain.WalletCoin{f.coin(btc)},
		out{address: thief, sats: btc / 100}), signer.FeeTooHigh)
	wsh := "bcrt1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qzf4jry"
	f.refused("a script that is not permitted", f.sign(nil, []chain.WalletCoin{f.coin(btc / 10)},
		out{address: wsh, sats: btc/10 - 1000}), signer.NotPermitted)

	// A false amount of a coin would hide the fee; each coin keeps its first amount.
	coin = f.coin(btc / 10)
	f.must("sign", f.sign(nil, []chain.WalletCoin{coin}, out{address: thief, sats: btc/10 - 1000}))
	coin.Amount = btc
	f.refused("another amount of a coin", f.sign(nil, []chain.WalletCoin{coin}, out{address: thief, sats: btc/10 - 1000}),
		signer.Malformed)

	// Whatever they ask for, restarts included, at most the limit of the hour leaves, and then that of the day.
	taken := int64(btc / 10)
	steal := func() {
		for range 12 {
			if pay(btc/5-1000) == nil {
				taken += btc / 5
			}
			f.restart()
		}
	}
	steal()
	if taken > btc || taken < btc/2 {
		t.Errorf("%d taken in an hour", taken)
	}
	f.now = f.now.Add(time.Hour + time.Minute)
	steal()
	f.now = f.now.Add(time.Hour + time.Minute)
	steal()
	if taken > 2*btc || taken < btc {
		t.Errorf("%d taken in a day", taken)
	}
	if !strings.Contains(f.alarms.String(), "level=ERROR") || !strings.Contains(f.alarms.String(), "above_limit") {
		t.Error("no alarm")
	}
	kinds := map[string]int{}
	_ = testkit.Must(signer.ReadLog(testkit.Must(os.Open(filepath.Join(f.dir, "log"))), func(e signer.Entry) {
		kinds[e.Kind+string(e.Code)]++
	}))
	for _, k := range []string{"start", "seen", "sign", "refuseabove_limit", "refusefee_too_high", "refusenot_permitted"} {
		if kinds[k] == 0 {
			t.Errorf("the log has no %s: %v", k, kinds)
		}
	}
}

// A replacement with a higher fee spends the same coins, so it does not count again.
func TestAReplacementCountsOnce(t *testing.T) {
	f := start(t)
	f.know(f.address(0))
	coin := f.coin(btc / 5)
	for fee := range int64(30) {
		f.must("sign", f.sign(nil, []chain.WalletCoin{coin}, out{address: f.address(0), sats: btc/5 - 1000 - 100*fee}))
	}
}

func TestTwoPeopleApproveByPasskeys(t *testing.T) {
	f := start(t)
	payment := signer.Payment{Chain: "bitcoin", Asset: money.BTC, Address: f.address(1), Units: btc / 4,
		Reference: "out_0"}
	expires := f.now.Add(time.Hour)
	ada, grace := f.staff[0].Approve(payment, expires), f.staff[1].Approve(payment, expires)
	coin := f.coin(btc/4 + 1000)
	try := func(what string, approvals ...signer.Approval) {
		t.Helper()
		f.refused(what, f.sign(approvals, []chain.WalletCoin{coin}, out{address: payment.Address, sats: payment.Units}),
			signer.ApprovalRequired)
	}
	try("nobody")
	try("one person", ada)
	try("one person twice", ada, f.staff[0].Approve(payment, expires.Add(time.Minute)))
	other := payment
	other.Units--
	try("another amount", ada, f.staff[1].Approve(other, expires))
	stranger := signertest.NewPasskey("grace")
	try("a stranger's passkey", ada, stranger.Approve(payment, expires))
	unverified := grace
	unverified.AuthenticatorData = bytes.Clone(grace.AuthenticatorData)
	unverified.AuthenticatorData[32] = 1
	try("a passkey that verified nobody", ada, unverified)
	page := grace
	page.ClientData = bytes.Replace(grace.ClientData, []byte("pay.example"), []byte("pay.exampel"), 1)
	try("another page", ada, page)
	later := f.now.Add(25 * time.Hour)
	try("too long", f.staff[0].Approve(payment, later), f.staff[1].Approve(payment, later))
	past := f.now.Add(-time.Second)
	try("expired", f.staff[0].Approve(payment, past), f.staff[1].Approve(payment, past))

	verdicts := testkit.Must(f.client.Check(t.Context(), signer.CheckRequest{Payments: []signer.Payment{payment},
		Approvals: []signer.Approval{ada, grace}}))
	if verdicts[0].Code != "" {
		t.Errorf("check: %+v", verdicts[0])
	}
	f.must("two people", f.sign([]signer.Approval{ada, grace}, []chain.WalletCoin{coin},
		out{address: payment.Address, sats: payment.Units}))
	f.restart()
	f.must("the same coins again", f.sign([]signer.Approval{ada, grace}, []chain.WalletCoin{coin},
		out{address: payment.Address, sats: payment.Units}))
	f.refused("an approval that was used", f.sign([]signer.Approval{ada, grace}, []chain.WalletCoin{f.coin(btc/4 + 1000)},
		out{address: payment.Address, sats: payment.Units}), signer.ApprovalRequired)
}

func TestOnlyKnownCallsAreSigned(t *testing.T) {
	f := start(t)
	n := testkit.Must(evm.Lookup("base"))
	thief := testkit.Must(evm.ParseAddress("0x00000000000000000000000000000000000000aa"))
	hot := bitcoin.KeyPath{Branch: 1}
	nonce := uint64(0)
	sign := func(call evm.Call, own *bitcoin.KeyPath, change ...func(*evm.Tx)) error {
		nonce++
		tx := evm.Tx{ChainID: n.ChainID, Nonce: nonce, Tip: 1, MaxFee: 1_000_000_000, Gas: 100_000, Call: call}
		for _, c := range change {
			c(&tx)
		}
		sig, err := f.client.SignEVM(t.Context(), signer.EVMRequest{Chain: "base", Transaction: tx.Unsigned(), From: hot,
			Own: own})
		if err == nil {
			_, _, err = tx.WithSignature(sig, testkit.Must(evm.ParseAddress(testkit.Must(f.evm.HotAddress()))))
		}
		return err
	}
	transfer := func(to evm.Address, units int64) evm.Call {
		return testkit.Must(n.TransferCall(to, money.New(money.USDC, units)))
	}
	f.refused("a new destination", sign(transfer(thief, 1_000_000), nil), signer.ApprovalRequired)
	f.now = f.now.Add(24 * time.Hour)
	f.must("a known one", sign(transfer(thief, 1_000_000), nil))
	f.refused("above the limit", sign(transfer(thief, 1_001_000_000), nil), signer.AboveLimit)
	own := &bitcoin.KeyPath{Branch: 0, Index: 3}
	f.must("to an own address", sign(transfer(testkit.Must(evm.ParseAddress(testkit.Must(f.evm.Address(0, 3)))),
		5_000_000_000), own))
	f.refused("to an address that is claimed to be own", sign(transfer(thief, 5_000_000_000), own), signer.AboveLimit)
	approve := transfer(thief, 1_000_000)
	approve.Data = bytes.Clone(approve.Data)
	copy(approve.Data, []byte{0x09, 0x5e, 0xa7, 0xb3})
	f.refused("a permission to take tokens", sign(approve, nil), signer.NotPermitted)
	f.refused("a call of another contract", sign(evm.Call{To: thief, Value: big.NewInt(2_000_000_000),
		Data: []byte{1, 2, 3, 4}}, nil), signer.NotPermitted)
	value := transfer(thief, 1_000_000)
	value.Value = big.NewInt(1_000_000_000)
	f.refused("coins beside a token", sign(value, nil), signer.NotPermitted)
	f.refused("another network", sign(transfer(thief, 1), nil, func(t *evm.Tx) { t.ChainID = 1 }), signer.NotPermitted)
	f.refused("a fee above the cap", sign(transfer(thief, 1), nil, func(t *evm.Tx) { t.Gas = 20_000_000 }),
		signer.FeeTooHigh)
	f.refused("a fee that overflows", sign(transfer(thief, 1), nil, func(t *evm.Tx) { t.Gas, t.MaxFee = 1<<62, 1<<62 }),
		signer.FeeTooHigh)
}

// Nobody changes, removes or reorders entries of the log without the next start noticing.
func TestALogThatWasChangedIsRefused(t *testing.T) {
	f := start(t)
	f.know(f.address(0), f.address(1))
	f.must("sign", f.sign(nil, []chain.WalletCoin{f.coin(btc / 10)}, out{address: f.address(0), sats: btc/10 - 1000}))
	f.stop()
	path := filepath.Join(f.dir, "log")
	whole := testkit.Must(os.ReadFile(path))
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, changed := range map[string][]byte{
		"removed":   slices.Concat(lines[0], lines[2], lines[3]),
		"reordered": slices.Concat(lines[0], lines[2], lines[1], lines[3]),
		"changed":   bytes.Replace(whole, []byte(f.address(0)), []byte(f.address(1)), 1),
	} {
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := signer.OpenLog(path); !errors.Is(err, signer.ErrLogBroken) {
			t.Errorf("%s: %v", name, err)
			_ = l.Close()
		}
	}
	if err := os.WriteFile(path, append(bytes.Clone(whole), `{"seq":5,"ti`...), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	if got := testkit.Must(f.client.Info(t.Context())); got.Entries != 5 { // a crash left part of an entry
		t.Errorf("%+v", got)
	}
}

func TestPoliciesThatAreIncompleteAreRefused(t *testing.T) {
	whole := fmt.Sprintf(policy, signertest.NewPasskey("a").Approver()+","+signertest.NewPasskey("b").Approver())
	for _, change := range [][2]string{
		{`"hour": "1"`, `"hour": "0.1"`}, {`"day": "2"`, `"dya": "2"`}, {`"0.5"`, `"many"`}, {`"24h"`, `"soon"`},
		{`"max_fee_rate": 100`, `"max_fee_rate": 0`}, {`"base"`, `"moon"`}, {`"USDC"`, `"USD"`}, {`"name":"b"`, `"name":"a"`},
	} {
		text := strings.Replace(whole, change[0], change[1], 1)
		p, err := signer.ParsePolicy([]byte(text))
		if err == nil {
			log := testkit.Must(signer.OpenLog(filepath.Join(t.TempDir(), "log")))
			master := testkit.Must(bitcoin.MasterFromSeed(make([]byte, 32), "regtest"))
			wallet := testkit.Must(signer.BitcoinWallet(master, "regtest"))
			_, err = signer.New(signer.Options{Policy: p, Log: log, Bitcoin: wallet, Alarm: slog.Default(), Now: time.Now})
			_ = log.Close()
		}
		if err == nil || text == whole {
			t.Errorf("%s is accepted", change[1])
		}
	}
	path := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = testkit.Must(signer.LoadPolicy(path))
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := signer.LoadPolicy(path); err == nil {
		t.Error("a policy that everybody may write is accepted")
	}
}

// Whatever the service sends, a signed transaction without approvals pays at most what the policy permits, and a fee
// within its limit.
func FuzzSignBitcoin(f *testing.F) {
	x := start(f)
	for _, sats := range []int64{10_000_000, 60_000_000} {
		p, _ := x.packet([]chain.WalletCoin{x.coin(sats + 20_000)}, out{address: x.address(0), sats: sats},
			out{address: testkit.Must(x.keys.Address(1, 3)), sats: 15_000, own: &bitcoin.KeyPath{Branch: 1, Index: 3}})
		f.Add(encode(p))
	}
	f.Add([]byte("psbt\xff"))
	const permitted, fee = 20_000_000, 100_000 // approval_above and max_fee
	f.Fuzz(func(t *testing.T, text []byte) {
		x.now = x.now.Add(48 * time.Hour) // the limits of an hour and a day start again
		signed, err := x.client.SignBitcoin(t.Context(), signer.BitcoinRequest{PSBT: text, References: []string{"a", "b"}})
		if err != nil {
			return
		}
		p := testkit.Must(psbt.NewFromRawBytes(bytes.NewReader(signed), false))
		var in, others, all int64
		for _, input := range p.Inputs {
			in += input.WitnessUtxo.Value
		}
		for i, o := range p.UnsignedTx.TxOut {
			all += o.Value
			if _, own := x.keys.Path(p.Outputs[i].Bip32Derivation, o.PkScript); !own {
				others += o.Value
			}
		}
		if others > permitted || in-all > fee {
			t.Errorf("%d sat are paid with a fee of %d", others, in-all)
		}
	})
}
