package signer_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/signer"
	"github.com/stipend/stipend/internal/testkit"
)

// What no transaction may pay is refused before a transaction has it.
func TestCheckRefusesWhatIsNeverSigned(t *testing.T) {
	f := start(t)
	account := "0x00000000000000000000000000000000000000Aa"
	for name, p := range map[string]signer.Payment{
		"a script":         {Chain: "bitcoin", Asset: money.BTC, Address: "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"},
		"another network":  {Chain: "bitcoin", Asset: money.BTC, Address: "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"},
		"a token":          {Chain: "bitcoin", Asset: money.USDC, Address: f.address(0)},
		"a chain":          {Chain: "ethereum", Asset: money.USDC, Address: account},
		"an unknown token": {Chain: "base", Asset: money.BTC, Address: account},
		"no address":       {Chain: "base", Asset: money.USDC, Address: "0x12"},
		"no amount":        {Chain: "base", Asset: money.USDC},
	} {
		p.Units = 1
		if name == "no amount" {
			p.Units = 0
		}
		request := signer.CheckRequest{Payments: []signer.Payment{p}}
		if v := testkit.Must(f.client.Check(t.Context(), request))[0]; v.Code != signer.NotPermitted {
			t.Errorf("%s: %+v", name, v)
		}
	}
	fee := signer.CheckRequest{Payments: []signer.Payment{{Chain: "base", Asset: money.ETH}}}
	if v := testkit.Must(f.client.Check(t.Context(), fee))[0]; v.Code != "" {
		t.Errorf("a transfer between own addresses: %+v", v)
	}
	fees := testkit.Must(f.client.Info(t.Context())).Fees
	if fees["bitcoin"] != (signer.FeeCap{Fee: 100_000, Rate: 100}) || fees["base"].Fee != 10_000_000 {
		t.Errorf("fee caps %+v", fees)
	}
}

// One pair of approvals permits one output of a transaction, not an equal one beside it.
func TestApprovalsPermitOneOutput(t *testing.T) {
	f := start(t)
	p := signer.Payment{Chain: "bitcoin", Asset: money.BTC, Address: f.address(1), Units: btc/5 + 1, Reference: "out_0"}
	expires := f.now.Add(time.Hour)
	approvals := []signer.Approval{f.staff[0].Approve(p, expires), f.staff[1].Approve(p, expires)}
	coins := []chain.WalletCoin{f.coin(btc/2 - 1000)}
	try := func(outs ...out) error {
		packet, _ := f.packet(coins, outs...)
		_, err := f.client.SignBitcoin(t.Context(), signer.BitcoinRequest{PSBT: encode(packet), Approvals: approvals,
			References: []string{"out_0", "out_0"}})
		return err
	}
	one := out{address: p.Address, sats: p.Units}
	coins[0].Amount = 2*p.Units + 1000
	f.refused("two equal outputs", try(one, one), signer.ApprovalRequired)
	request := signer.CheckRequest{Payments: []signer.Payment{p, p}, Approvals: approvals}
	if v := testkit.Must(f.client.Check(t.Context(), request)); v[0].Code != "" || v[1].Code != signer.ApprovalRequired {
		t.Errorf("check: %+v", v)
	}
	coins = []chain.WalletCoin{f.coin(p.Units + 1000)}
	f.must("one output", try(one))
	f.must("its replacement", try(one))
}

// Of requests at the same time that state different amounts of one coin, one is signed.
func TestACoinHasOneAmountInRequestsAtTheSameTime(t *testing.T) {
	f := start(t)
	f.know(f.address(0))
	shared := f.coin(1_000)
	var sats []int64
	var inputs [][]chain.WalletCoin
	for i := range int64(2) {
		shared.Amount = 1_000 + i
		coins, sum := []chain.WalletCoin{shared}, shared.Amount
		for range 60 { // reading them takes long enough for the other request to be read, too
			coins, sum = append(coins, f.coin(1_000)), sum+1_000
		}
		inputs, sats = append(inputs, coins), append(sats, sum-5_000)
	}
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { errs[i] = f.sign(nil, inputs[i], out{address: f.address(0), sats: sats[i]}) })
	}
	both.Wait()
	if errs[0] == nil {
		errs[0], errs[1] = errs[1], errs[0]
	}
	f.must("the first request", errs[1])
	f.refused("the second request", errs[0], signer.Malformed)
}
