package bank_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/payouttest"
)

// The bank rail keeps the contract of payout.Rail with a simulated bank that reads files from a directory.
func TestRail(t *testing.T) {
	payouttest.Run(t, func(f *payouttest.Fixture) payouttest.Outside {
		root := f.TempDir()
		drop, simulated, err := bank.OpenSandbox(root)
		f.Must(err)
		rail, err := bank.New(config(f, drop))
		f.Must(err)
		// collect makes the rail read the responses that the bank wrote by the function.
		collect := func(respond func(now time.Time) error) {
			t.Helper()
			now, err := f.DB.Now(f.Context())
			f.Must(err)
			f.Must(respond(now))
			f.Must(rail.Collect(f.Context(), f.DB))
		}
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
				f.Must(readOrders())
				collect(simulated.ProcessFiles)
			},
			Revert: func(o payout.Output) {
				collect(func(now time.Time) error {
					var at bank.Attempt
					f.Read(func(ctx context.Context, tx *db.Tx) (err error) {
						at, err = bank.Latest(ctx, tx, o.CompanyID, o.ID)
						return err
					})
					return simulated.Return(at.Number, at.Position, at.Amount, false, "AC04", now)
				})
			},
			Reverted: payout.Returned,
			Executed: func(o payout.Output) (n int) {
				var data struct {
					Name string `json:"account_holder_name"`
				}
				f.Must(json.Unmarshal(o.Destination, &data))
				for _, body := range orders {
					n += bytes.Count(body, []byte("<Nm>"+data.Name+"</Nm>"))
				}
				return n
			},
		}
	})
}
