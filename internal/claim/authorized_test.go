package claim_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	evmrail "github.com/stipend/stipend/internal/payout/evm"
	"github.com/stipend/stipend/internal/testkit"
)

// runAuthorized runs f with claims that authorized transfers of USDC can pay.
func runAuthorized(t *testing.T, f func(m *merchant, n evm.Network)) {
	t.Helper()
	run(t, func(m *merchant) {
		sim, keys := simulateBase(t, m.DB)
		m.accept(base{sim, money.USDC}, sim.Spec(), keys)
		f(m, sim.Spec())
	})
}

// authorize authorizes the payment of the claim, 100 USDC.
func (s *sale) authorize(n evm.Network, nonce byte) error {
	s.Helper()
	a := evm.Authorization{
		From: testkit.Must(evm.ParseAddress("0xd41c057fd1c78805aac12b0a94a405c0461a6fbb")),
		To:   testkit.Must(evm.ParseAddress(s.Address)), Amount: money.New(money.USDC, 100_000_000), ValidBefore: 1 << 33,
		Nonce: [32]byte{nonce},
	}
	testkit.Check(s.TB, evmtest.Authorize(n, append(make([]byte, 31), 7), &a))
	contract, _ := n.Contract(money.USDC)
	return s.m.DB.Write(s.Context(), func(ctx context.Context, tx *db.Tx) error {
		return s.m.claims.Authorize(ctx, tx, s.id, n.ChainID, contract, "100000000", a)
	})
}

// collections returns the authorized transfers of the claim.
func (s *sale) collections() (all []evmrail.Collection) {
	s.Helper()
	s.Read(func(ctx context.Context, tx *db.Tx) error {
		charge, err := s.m.claims.Charge(ctx, tx, s.id)
		all = charge.Collections
		return err
	})
	return all
}

// An authorized transfer is sent only while its claim offers exactly this payment, and in time for its price.
func TestTransfersAreDueWhileTheClaimOffersThem(t *testing.T) {
	runAuthorized(t, func(m *merchant, n evm.Network) {
		for steps, want := range map[string]bool{
			"":                        true,
			"pay 100_000_000":         false,
			"pay 40_000_000":          false,
			"cancel":                  false,
			"wait 15m1s":              false,
			"wait 15m1s, refresh":     true, // the same amount; the job itself ends the transfer
			"pay 100_000_000, mine 1": false,
		} {
			s := m.openIn(money.USDC, "USDC")
			testkit.Check(s.TB, s.authorize(n, 1))
			transfer := s.collections()[0]
			s.Read(func(ctx context.Context, tx *db.Tx) error {
				if left := transfer.SendBefore.Sub(tx.Now()); left != validity-30*time.Second {
					t.Errorf("the transfer is sent for %s", left)
				}
				return nil
			})
			if steps != "" {
				s.Play(steps, s.step)
			}
			m.Write(func(ctx context.Context, tx *db.Tx) error {
				due, err := m.claims.Due(ctx, tx, transfer)
				if due != want {
					t.Errorf("after %q the transfer is due: %t", steps, due)
				}
				return err
			})
		}
	})
}

// settle makes a transfer of the claim signed, and in a block as a transaction; the deposit may be recorded or not.
func (s *sale) settle(c evmrail.Collection, txid string) {
	s.Helper()
	s.m.Exec(`INSERT INTO payout_batches (company_id, batch_id, chain, state, txid, value, fee, inputs, change, sent_at,
		asset, purpose, account, nonce, version, created_at)
		VALUES ('operator', $1, 'base', 'lost', $2, 0, 0, '[]', '', 0, 'ETH', 'collect', '', 0, 1, 0)`, "bat_"+c.ID, txid)
	s.m.Exec("UPDATE payout_collections SET batch_id = $1 WHERE collection_id = $2", "bat_"+c.ID, c.ID)
}

// A transfer that is in a block and not yet counted excludes another one. A transfer that was counted too late does
// not: with a new price, the claim takes another one.
func TestATransferThatWasLateDoesNotBlockTheClaim(t *testing.T) {
	runAuthorized(t, func(m *merchant, n evm.Network) {
		s := m.openIn(money.USDC, "USDC")
		testkit.Check(s.TB, s.authorize(n, 1))
		if err := s.authorize(n, 2); !errors.Is(err, claim.ErrCollecting) {
			t.Errorf("a second transfer while the first is on its way: %v", err)
		}
		first := s.collections()[0]
		s.settle(first, "0x01")
		testkit.Check(s.TB, s.authorize(n, 2))
		if all := s.collections(); len(all) != 1 {
			t.Errorf("%d transfers, although the first is about to be counted", len(all))
		}
		s.Play("wait 15m1s, is expired, pay 100_000_000, is expired, refresh, is awaiting_payment", s.step)
		m.Exec("UPDATE payout_batches SET txid = $1 WHERE batch_id = $2", s.Paid[0], "bat_"+first.ID)
		testkit.Check(s.TB, s.authorize(n, 2))
		if all := s.collections(); len(all) != 2 || !all[1].SendBefore.After(first.SendBefore) {
			t.Errorf("after a late transfer, the claim has %+v", all)
		}
	})
}

// Only transfers that were signed, which can cost gas, use up the authorizations of a claim.
func TestFailuresWithoutGasDoNotUseUpAuthorizations(t *testing.T) {
	runAuthorized(t, func(m *merchant, n evm.Network) {
		s := m.openIn(money.USDC, "USDC")
		for i := range byte(12) {
			testkit.Check(s.TB, s.authorize(n, i))
			m.Exec("UPDATE payout_collections SET reason = 'insufficient_funds'")
		}
		for i, c := range s.collections()[:10] {
			s.settle(c, "0x"+string(rune('a'+i)))
		}
		m.Exec("UPDATE payout_batches SET state = 'dead' WHERE purpose = 'collect'")
		if err := s.authorize(n, 12); err == nil || len(s.collections()) != 12 {
			t.Errorf("after ten transfers that cost gas: %v", err)
		}
	})
}
