package app_test

import (
	"testing"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/db/dbtest"
)

// Each scenario is a client of a whole sandbox, checks something that can go wrong with a payroll, and leaves a ledger
// that balance. The scenarios share one service, as companies do. No scenario depends on another.
func TestScenarios(t *testing.T) {
	t.Parallel()
	dbtest.RunURL(t, func(t *testing.T, url string) {
		s := boot(t, url, func(c *app.Config) { c.ReadsPerSecond, c.WritesPerSecond = 0, 0 })
		type scenario struct {
			name string
			run  func(*apiClient)
		}
		all, ran := []scenario{
			{"under and top-up", underThenTopUp},
			{"short by less than dust", shortByDust},
			{"over", overPaid},
			{"split deposit", splitDeposit},
			{"late and applied", lateApplied},
			{"late and short", lateAndShort},
			{"late and large", lateAndLarge},
			{"refresh during a deposit", refreshDuringDeposit},
			{"replaced", replacedDeposit},
			{"reorganized before the release", reorgBeforeRelease},
			{"reorganized after the release", reorgAfterRelease},
			{"cancel, then deposit", cancelThenDeposit},
			{"half to a bank", halfToBank},
			{"paid from the operator's coins", paidFromOperatorCoins},
			{"funded by bank", fundedByBank},
			{"funded on an EVM network", fundedOnEVMNetwork},
			{"paid on an EVM network", paidOnEVMNetwork},
			{"wallet receives coins", walletReceivesCoins},
			{"same key again", sameKeyAgain},
			{"same key at once", sameKeyAtOnce},
			{"same key elsewhere", sameKeyElsewhere},
			{"external id", externalID},
			{"a thousand payees", thousandPayees},
			{"sanctioned payees", sanctionedPayees},
			{"foreign company", foreignCompany},
			{"dead credentials", deadCredentials},
			{"injection", injection},
		}, 0
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				ran++
				d := newAPIClient(t, s)
				c.run(d)
				d.checkLedgerBalances()
			})
		}
		if needed := checkEvents(t, s); ran == len(all) {
			checkNeeded(t, needed, ofScenarios)
		}
	})
}
