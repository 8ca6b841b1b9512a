package onchain

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/testkit"
)

// A batch in a state that only a newer version knows is not changed. Each job reports the state, and works again once
// the state is known.
func TestABatchInAnUnknownStateIsNotChanged(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		c := &Carrier{Config: Config{Rail: payout.RailBitcoin, Chain: "bitcoin-test", Native: money.BTC,
			NudgeEvery: time.Hour, Log: slog.New(slog.DiscardHandler)}}
		write := func(f func(ctx context.Context, tx *db.Tx) error) error { return d.Write(t.Context(), f) }
		testkit.Check(t, write(func(ctx context.Context, tx *db.Tx) error {
			b := Batch{CompanyID: "com_1", ID: "pob_1", Chain: c.Chain, TxID: "aa", Asset: money.BTC, Purpose: PurposePayout}
			if err := insertBatch(ctx, tx, b); err != nil {
				return err
			}
			return insertTransaction(ctx, tx, Transaction{CompanyID: "com_1", BatchID: "pob_1", TxID: "aa"})
		}))
		set := func(state string) {
			t.Helper()
			testkit.Check(t, write(func(ctx context.Context, tx *db.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE payout_batches SET state = $1", state)
				return err
			}))
		}
		run := func(handle job.BatchHandler, payload any) error {
			t.Helper()
			text := testkit.Must(json.Marshal(payload))
			return write(func(ctx context.Context, tx *db.Tx) error {
				return handle(ctx, tx, []job.Job{{CompanyID: "com_1", Payload: text}})
			})
		}
		set("elsewhere")
		for name, err := range map[string]error{
			"confirm": run(c.Confirm, chain.TxRef{Chain: c.Chain, TxID: "aa"}),
			"nudge":   run(c.nudge, nudgeJob{"pob_1"}),
			"send":    c.Send(t.Context(), d, "com_1", []string{"aa"}),
		} {
			if err == nil || !strings.Contains(err.Error(), `unknown state "elsewhere"`) {
				t.Errorf("%s: %v", name, err)
			}
		}
		testkit.Check(t, d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) error {
			all, err := readBatches(ctx, tx, c.Chain, "com_1", []string{"pob_1"})
			if len(all) != 1 || all[0].State != "elsewhere" || all[0].Version != 1 {
				t.Errorf("changed to %+v", all)
			}
			return err
		}))
		set("sent")
		testkit.Check(t, run(c.Confirm, chain.TxRef{Chain: c.Chain, TxID: "aa"}))
	})
}
