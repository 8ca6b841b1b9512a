package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moov-io/ach"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/chain/evmtest"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/testkit"
)

// rails has the rails other than Bitcoin: a real EVM node, and a bank behind a directory.
type rails struct {
	lab   *evmtest.Chain
	gas   *evmtest.Chain // funds the paying account's gas
	hot   string
	nodes []string // flags of commands that name the node
	flags []string // flags of the service

	drop string // directory between the service and the bank
	desk string // the bank's own directory
	bank *bank.Sandbox
	took map[string][]byte // files that the bank received, by name
}

// evmKey is the seed of the account that the service pays from.
const evmKey = "a wallet of the killed"

func openRails(t *testing.T) *rails {
	t.Helper()
	r := &rails{drop: t.TempDir(), desk: t.TempDir(), took: map[string][]byte{}}
	node := evmtest.Start(t)
	r.lab = node.Chain(t, money.USDC)
	xprv, err := evm.MasterFromSeed([]byte(evmKey))
	testkit.Check(t, err)
	signer, err := evm.ParseXPriv(xprv)
	testkit.Check(t, err)
	hot, err := signer.Deriver().HotAddress()
	r.hot, r.gas = hot, node.Chain(t, money.ETH)
	if err == nil {
		_, r.bank, err = bank.OpenSandbox(r.desk)
	}
	testkit.Check(t, err)
	accounts, err := json.Marshal([]bank.Account{
		{ID: "usd", Currency: money.USD, Format: bank.FormatNACHA, Name: "Example Payments Inc", Number: "987654321",
			CompanyID: "1234567890",
			Routing:   "091000019", DestinationName: "Example Bank", Calendar: bank.FederalReserve, CutOff: "17:30",
			Zone: "America/New_York"},
		{ID: "eur", Currency: money.EUR, Format: bank.FormatPain, Name: "Example Payments GmbH",
			Number: "DE89370400440532013000", Town: "Berlin", Country: "DE",
			Calendar: bank.Target, CutOff: "15:00", Zone: "Europe/Berlin"},
	})
	list := filepath.Join(r.desk, "accounts.json")
	if err == nil {
		err = os.WriteFile(list, accounts, 0o600)
	}
	testkit.Check(t, err)
	r.nodes = []string{"--evm-rpc", "base=" + node.URL, "--evm-chain-id", fmt.Sprintf("base=%d", evmtest.ChainID)}
	for _, token := range node.Spec().Tokens {
		if token.Asset == money.USDC {
			r.nodes = append(r.nodes, "--evm-token", "base.USDC="+token.Contract)
		}
	}
	r.flags = append([]string{"--bank-dir", r.drop, "--bank-accounts", list, "--evm-xprv", xprv}, r.nodes...)
	return r
}

// addPayees adds two payees who are paid in dollars on a chain, one with an American and one with a European bank
// account.
func (r *rails) addPayees(w *world) {
	w.t.Helper()
	if _, err := r.gas.PayAll(w.t.Context(), chain.Output{Address: r.hot, Amount: 1_000_000_000}); err != nil {
		w.t.Fatal(err)
	}
	for range 2 {
		var a evm.Address
		_, _ = rand.Read(a[:]) // never fails
		w.payees = append(w.payees, w.hire(money.USDC, a.String(), map[string]any{"network": "base", "address": a.String()}))
	}
	person := map[string]any{"account_holder_name": "Payee Number", "account_holder_type": "individual"}
	with := func(more map[string]any) map[string]any {
		maps.Copy(more, person)
		return more
	}
	w.payees = append(w.payees, w.hire(money.USD, "12345678", with(map[string]any{
		"rail": "ach", "routing_number": "021000021", "account_number": "12345678", "account_type": "checking",
		"address": map[string]any{"address_line1": "1 Main Street", "city": "Springfield", "state": "IL",
			"postal_code": "62701", "country": "US"},
	})))
	w.payees = append(w.payees, w.hire(money.EUR, "DE02120300000000202051",
		with(map[string]any{"iban": "DE02120300000000202051"})))
}

// step mines a block, and lets the bank process and answer waiting files.
func (r *rails) step(t *testing.T) {
	t.Helper()
	testkit.Check(t, r.lab.Mine(t.Context(), 1))
	testkit.Check(t, r.take(t))
}

// lurk kills a process at a random time after it began to write a bank file: staged, recorded, submitted, recorded
// again.
func (r *rails) lurk(w *world) {
	waiting := func() []os.DirEntry {
		files, _ := os.ReadDir(filepath.Join(r.drop, "out")) // missing directory: nothing waits
		return files
	}
	seen := map[string]bool{}
	for _, f := range waiting() {
		seen[f.Name()] = true
	}
	process, exited := w.process.Process, w.exited
	go func() {
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			select {
			case <-exited:
				return
			case <-look.C:
			}
			if slices.ContainsFunc(waiting(), func(f os.DirEntry) bool { return !seen[f.Name()] }) {
				time.AfterFunc(mathrand.N(20*time.Millisecond), func() { _ = process.Kill() })
				return
			}
		}
	}()
}

func (r *rails) take(t *testing.T) error {
	files, err := os.ReadDir(filepath.Join(r.drop, "out"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") {
			continue // staged
		}
		at := filepath.Join(r.desk, "out", f.Name())
		if err := os.Rename(filepath.Join(r.drop, "out", f.Name()), at); err != nil {
			return err
		}
		body, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if _, again := r.took[f.Name()]; again {
			t.Errorf("the bank got %s twice", f.Name())
		}
		r.took[f.Name()] = body
	}
	if mathrand.N(10) > 0 {
		return nil // the bank answers later
	}
	if err := r.bank.ProcessFiles(time.Now()); err != nil {
		return err
	}
	answers, err := os.ReadDir(filepath.Join(r.desk, "in"))
	for _, f := range answers {
		if err := os.Rename(filepath.Join(r.desk, "in", f.Name()), filepath.Join(r.drop, "in", f.Name())); err != nil {
			return err
		}
	}
	return err
}

// inFiles counts the payments in all files that the bank ever received. American files are read by a third-party
// parser, the others as XML.
func (r *rails) inFiles(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for name, body := range r.took {
		if strings.HasSuffix(name, ".ach") {
			file, err := ach.NewReader(bytes.NewReader(body)).Read()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, b := range file.Batches {
				for _, e := range b.GetEntries() {
					if e.TransactionCode == ach.CheckingCredit {
						found[fmt.Sprintf(" %s %d", strings.TrimSpace(e.DFIAccountNumber), e.Amount)]++
					}
				}
			}
			continue
		}
		var order struct {
			Transfers []struct {
				Amount string `xml:"Amt>InstdAmt"`
				IBAN   string `xml:"CdtrAcct>Id>IBAN"`
			} `xml:"CstmrCdtTrfInitn>PmtInf>CdtTrfTxInf"`
		}
		if err := xml.Unmarshal(body, &order); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, one := range order.Transfers {
			cents, err := strconv.ParseInt(strings.Replace(one.Amount, ".", "", 1), 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			found[fmt.Sprintf(" %s %d", one.IBAN, cents)]++
		}
	}
	return found
}
