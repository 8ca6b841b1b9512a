package backoffice

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
)

// ErrUnexplained refuses to resume payouts while an unknown transaction may have paid queued outputs.
var ErrUnexplained = apierr.New(apierr.Conflict, "invalid_state",
	"Unknown transactions spent coins of the wallet, and may have paid queued outputs. `stipend payouts status` lists "+
		"them. Mark what each paid with `stipend payouts paid`, or declare that it paid none with "+
		"`stipend payouts resume --not-payouts`.")

// settingNotPayouts is the setting with the IDs of the unknown transactions that staff declared to be no payouts,
// separated by spaces.
const settingNotPayouts = "not_payouts"

// UnexplainedSpends returns the transactions that spent coins of the wallet or nonces of the paying accounts, that the
// database does not know, and that staff has not declared to be no payouts. After a restore they are payments that the
// database lacks.
func UnexplainedSpends(ctx context.Context, tx *db.Tx) ([]chain.UnknownSpend, error) {
	declared, err := db.Setting(ctx, tx, settingNotPayouts)
	if err != nil {
		return nil, err
	}
	var all []chain.UnknownSpend
	for _, f := range []network.Family{network.Bitcoin, network.EVM} {
		for _, name := range network.Names(f) {
			spends, err := chain.UnknownSpends(ctx, tx, name)
			if err != nil {
				return nil, err
			}
			all = append(all, spends...)
		}
	}
	known := strings.Fields(declared)
	return slices.DeleteFunc(all, func(s chain.UnknownSpend) bool { return slices.Contains(known, s.TxID) }), nil
}

// ResumePayouts resumes payouts, after staff has declared that the given unknown transactions paid no queued output. It
// returns ErrUnexplained while another unknown transaction is neither declared nor marked as the payment of outputs.
func ResumePayouts(ctx context.Context, tx *db.Tx, notPayouts ...string) error {
	if err := declareNotPayouts(ctx, tx, notPayouts); err != nil {
		return err
	}
	if err := requireExplained(ctx, tx); err != nil {
		return err
	}
	return payout.SetPaused(ctx, tx, "")
}

// declareNotPayouts stores the IDs of unknown transactions that paid no queued output. It refuses IDs of others.
func declareNotPayouts(ctx context.Context, tx *db.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	spends, err := UnexplainedSpends(ctx, tx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if !slices.ContainsFunc(spends, func(s chain.UnknownSpend) bool { return s.TxID == id }) {
			return fmt.Errorf("%s is not among the unknown transactions that stipend payouts status lists", id)
		}
	}
	declared, err := db.Setting(ctx, tx, settingNotPayouts)
	if err != nil {
		return err
	}
	return db.SetSetting(ctx, tx, settingNotPayouts, strings.Join(append(strings.Fields(declared), ids...), " "))
}

// requireExplained returns ErrUnexplained if there are unexplained transactions.
func requireExplained(ctx context.Context, tx *db.Tx) error {
	spends, err := UnexplainedSpends(ctx, tx)
	if err == nil && len(spends) > 0 {
		err = ErrUnexplained
	}
	return err
}
