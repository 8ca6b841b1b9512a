package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// The bank rail keeps the contract of payout.Rail with a simulated bank that reads files from a directory.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(t *testing.T, d *db.DB, _ *dbtest.Clock) payouttest.Outside {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		sealer, err := identity.NewSealer(make([]byte, 32))
		must(err)
		root := t.TempDir()
		drop, simulated, err := bank.OpenSandbox(root)
		must(err)
		rail, err := bank.New(bank.Config{
			Drop: drop, Accounts: bank.SandboxAccounts(), Sealer: sealer, Changed: unchanged, Log: slog.New(slog.DiscardHandler),
			Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
				return bank.Destination{Country: "DE", Scheme: "sepa_ct", Data: snapshot}, nil
			},
		})
		must(err)
		payees := 0
		to := func(iban string) payout.Output {
			payees++ // each payee has a unique name, by which Executed counts payments
			data := `{"account_holder_name":"Payee ` + strconv.Itoa(payees) + `","account_holder_type":"individual","iban":"` +
				iban + `"}`
			return payout.Output{Amount: eur(100), Destination: json.RawMessage(data)}
		}
		orders := map[string][]byte{} // contents of files that the bank received, by name
		readOrders := func() error {
			return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() || filepath.Ext(path) != ".xml" || filepath.Base(path)[0] != 'S' {
					return err
				}
				body, err := os.ReadFile(path)
				if bytes.Contains(body, []byte("<CstmrCdtTrfInitn>")) {
					orders[filepath.Base(path)] = body
				}
				return err
			})
		}
		return payouttest.Outside{
			Rail:      rail,
			Output:    func() payout.Output { return to("DE89370400440532013000") },
			Unpayable: func() payout.Output { return payout.Output{Amount: eur(100), Destination: json.RawMessage(`{}`)} },
			Set:       bank.Break(drop),
			Advance: func() {
				now, err := d.Now(t.Context())
				must(err)
				must(readOrders())
				must(simulated.ProcessFiles(now))
				must(rail.Collect(t.Context(), d))
			},
			Revert: func(o payout.Output) {
				now, err := d.Now(t.Context())
				must(err)
				var at bank.Attempt
				must(d.Read(t.Context(), func(ctx context.Context, tx *db.Tx) (err error) {
					at, err = bank.Latest(ctx, tx, o.CompanyID, o.ID)
					return err
				}))
				must(simulated.Return(at.Number, at.Position, at.Amount, false, "AC04", now))
				must(rail.Collect(t.Context(), d))
			},
			Reverted: payout.Returned,
			Executed: func(o payout.Output) (n int) {
				var data struct {
					Name string `json:"account_holder_name"`
				}
				must(json.Unmarshal(o.Destination, &data))
				for _, body := range orders {
					n += bytes.Count(body, []byte("<Nm>"+data.Name+"</Nm>"))
				}
				return n
			},
		}
	})
}
