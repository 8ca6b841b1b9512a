package destination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/testkit"
)

const tpub = "tpubDD7tXK8KeQ3YY83yWq755fHY2JW8Ha8Q765tknUM5rSvjPcGWfUppDFM" +
	"pQ1ScziKfW3ZNtZvAD7M3u7bSs7HofjTD3KP3YxPK7X6hwV8Rk2"

// addressOf returns the address that a payment gets at a destination.
func (w world) addressOf(d destination.Destination, payment string) (address string, err error) {
	err = w.d.Write(w.Context(), func(ctx context.Context, tx *db.Tx) error {
		to, err := w.setup.ForPayment(ctx, tx, destination.AddressOwner{CompanyID: w.by.CompanyID, PayrollID: "prl_1",
			PaymentID: payment}, []destination.Destination{d})
		if err == nil {
			address = to[0].Address
		}
		return err
	})
	return address, err
}

// A payee's wallet is encrypted and masked, and each payment gets its next address, once.
func TestEachPaymentGetsANewAddressOfTheWallet(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		_, err := w.create(w.by, w.payee, "BTC", `{"descriptor":"`+tpub+`"}`)
		testkit.Check(t, err)
		var wallet destination.Destination
		w.read(func(ctx context.Context, tx *db.Tx) error {
			own, err := destination.List(ctx, tx, w.by, w.payee)
			wallet = own[0]
			return err
		})
		if stored := string(wallet.Data) + wallet.Sealed; !wallet.Fresh() || strings.Contains(stored, tpub[:20]) ||
			!strings.Contains(string(wallet.Data), "••••"+tpub[len(tpub)-4:]) {
			t.Errorf("%+v", wallet)
		}
		first, err := w.addressOf(wallet, "pmt_0")
		if err != nil || first != wallet.Address {
			t.Errorf("the first payment goes to %s (%v), the payee was shown %s", first, err, wallet.Address)
		}
		seen := map[string]bool{first: true}
		for i := 1; i < destination.GapLimit; i++ {
			payment := fmt.Sprint("pmt_", i)
			address, err := w.addressOf(wallet, payment)
			again, _ := w.addressOf(wallet, payment)
			if err != nil || seen[address] || again != address {
				t.Fatalf("payment %d: %s, then %s, %v", i, address, again, err)
			}
			seen[address] = true
		}

		// A wallet finds 20 unused addresses in a row, so a further payment waits until one of them is paid.
		if _, err := w.addressOf(wallet, "pmt_20"); !errors.Is(err, destination.ErrGap) {
			t.Errorf("after %d unpaid addresses: %v", destination.GapLimit, err)
		}
		w.must(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO outputs (company_id, output_id, payroll_id, payment_id, destination_id, rail,
					asset, amount, address, destination, input_asset, input_amount, state, reason, on_hold, queued_at, batch_id,
					txid, vout, version, updated_at)
				VALUES ($1, 'out_1', 'prl_1', 'pmt_0', $2, 'bitcoin', 'BTC', 1, $3, '{}', 'BTC', 1, 'fulfilled', '', FALSE, 0,
					'', '', 0, 1, 0)`, w.by.CompanyID, wallet.ID, first)
			return err
		})
		next, err := w.addressOf(wallet, "pmt_20")
		if err != nil || seen[next] {
			t.Errorf("after a confirmed payment: %s %v", next, err)
		}
		if _, err := w.addressOf(wallet, "pmt_21"); !errors.Is(err, destination.ErrGap) {
			t.Errorf("20 addresses after the paid one: %v", err)
		}

		// The same wallet, entered again in another form, continues with the next address.
		w.must(func(ctx context.Context, tx *db.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE outputs SET payment_id = 'pmt_20', address = $1", next)
			return err
		})
		other, err := w.create(w.by, w.payee, "BTC", `{"descriptor":"wpkh(`+tpub+`/0/*)"}`)
		testkit.Check(t, err)
		if address, err := w.addressOf(other, "pmt_22"); err != nil || seen[address] || address == next ||
			other.Address != wallet.Address {
			t.Errorf("entered again: %s %v", address, err)
		}
	})
}

// Concurrent payments to one wallet get different addresses.
func TestConcurrentPaymentsGetDifferentAddresses(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		wallet, err := w.create(w.by, w.payee, "BTC", `{"descriptor":"`+tpub+`"}`)
		testkit.Check(t, err)
		var all sync.Map
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				address, err := w.addressOf(wallet, fmt.Sprint("pmt_", i))
				if other, twice := all.LoadOrStore(address, i); err != nil || twice {
					t.Errorf("payment %d gets %s of payment %v, %v", i, address, other, err)
				}
			})
		}
		group.Wait()
	})
}

func TestAWalletIsRefused(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		w := open(t, d)
		const at = "/distribution_data/descriptor"
		const xprv = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiC" +
			"hkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi"
		for data, want := range map[string]string{
			`{"descriptor":"` + xprv + `"}`: "address_invalid " + at,
			`{"descriptor":"zpub"}`:         "address_invalid " + at,
			`{"descriptor":7}`:              "invalid_type " + at,
			`{}`:                            "missing_field /distribution_data/address",
			`{"descriptor":"` + tpub + `","address":"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"}`: "invalid_parameter " + at,
		} {
			_, err := w.create(w.by, w.payee, "BTC", data)
			if f, ok := apierr.As(err); !ok || f.Fields[0].Code+" "+f.Fields[0].Pointer != want ||
				strings.Contains(fmt.Sprint(f, f.Fields), xprv[:20]) {
				t.Errorf("%.60s: %+v, want %s", data, f, want)
			}
		}
		w.must(func(ctx context.Context, tx *db.Tx) error { // a company withdraws to one address
			_, err := w.setup.Own(ctx, tx, w.by.CompanyID, "US", "BTC", []byte(`{"descriptor":"`+tpub+`"}`))
			if err == nil {
				t.Error("a company's own destination took a wallet")
			}
			return nil
		})
		w.read(func(ctx context.Context, tx *db.Tx) error {
			for _, oneAddress := range []bool{true, false} {
				fields, err := w.setup.RequiredIn("BTC", "US")
				if oneAddress {
					fields, err = w.setup.RequiredByCompany("BTC", "US")
				}
				if err != nil || (len(fields.Fields) == 1) != oneAddress {
					t.Errorf("the fields are %+v, %v", fields, err)
				}
			}
			return nil
		})
	})
}
