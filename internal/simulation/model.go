package simulation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/sandbox"
)

// satoshisPerCent is the price of the sandbox: 50,000 USD for one bitcoin.
const satoshisPerCent = 20

// model knows the responses that clients received and the contents of the chains, and compares them with the data
// that the service returns. It never uses the service's own calculations.
type model struct {
	w          *World
	orders     []*order
	violations []string
	auditor    *app.Assembly // reads the API without faults
	nextCheck  time.Time
	states     map[string]int
}

func basic(key string) string { return base64.StdEncoding.EncodeToString([]byte(key + ":")) }

// decimals are the numbers of decimal places of the currencies that the model knows.
var decimals = map[string]int{"BTC": 8, "USDC": 6, "USD": 2}

// units converts an amount to the smallest unit of its currency.
func units(text json.Number, currency string) int64 {
	whole, fraction, _ := strings.Cut(text.String(), ".")
	n, _ := strconv.ParseInt(whole+(fraction + "00000000")[:decimals[currency]], 10, 64)
	return n
}

// worth converts cents to the smallest unit of a currency, at the prices of the sandbox.
func worth(cents int64, currency string) int64 {
	return cents * map[string]int64{"BTC": satoshisPerCent, "USDC": 10_000, "USD": 1}[currency]
}

// violation records that the service broke a guarantee. Any goroutine may call it.
func (m *model) violation(format string, args ...any) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.violations = append(m.violations, fmt.Sprintf(format, args...))
}

func (m *model) add(o *order) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.orders = append(m.orders, o)
}

// get sends a GET request to the API with the company's key.
func (m *model) get(path string, v any) {
	rec := httptest.NewRecorder()
	m.auditor.Handler.ServeHTTP(rec, request(m.w.ctx, http.MethodGet, path, "", content{}))
	if rec.Code != http.StatusOK {
		m.violation("GET %s answers %d: %s", path, rec.Code, rec.Body)
		return
	}
	if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
		m.violation("GET %s: %v", path, err)
	}
}

// audit starts a process without faults, through which the model reads.
func (m *model) audit() {
	if m.auditor != nil {
		return
	}
	c, err := config(m.w.o.Dir + "/stipend.db")
	if err == nil {
		m.auditor, err = app.Assemble(m.w.ctx, c, slog.New(slog.DiscardHandler), "auditor", app.Outside{
			Bitcoin: m.w.chain.Chain, EVM: map[string]evm.Node{evmName: m.w.evm},
		})
	}
	if err != nil {
		panic(fmt.Sprintf("simulation: the auditor cannot start: %v", err))
	}
}

// payroll contains the members of a payroll in API responses that the model reads.
type payroll struct {
	ID       string      `json:"payroll_id"`
	Status   string      `json:"status"`
	Funding  string      `json:"funding_state"`
	Volume   json.Number `json:"volume_input_in_input_currency"`
	Hold     string      `json:"hold_reason"`
	Payments []struct {
		UserID      string `json:"user_id"`
		RecipientID string `json:"recipient_id"`
		Status      string `json:"status"`
		Reason      string `json:"reason"`
		Outputs     []struct {
			Status  string      `json:"status"`
			Volume  json.Number `json:"volume_output_in_output_currency"`
			Address string      `json:"address"`
			TxHash  string      `json:"tx_hash"`
		} `json:"outputs"`
	} `json:"payments"`
}

// mustPay reports whether an order has been paid in full and was not cancelled. It returns false for a claim that was
// paid too late, because the merchant decides about such a payment.
func (o *order) mustPay() bool {
	return o.paid >= o.due && !o.cancelled && (!o.claim || o.behavior != "late")
}

// open describes everything that has not ended. The scheduler calls it while no work runs.
func (m *model) open() (open []string) {
	for _, c := range m.w.clients {
		if !c.done {
			open = append(open, c.name+" is not done")
		}
	}
	if len(open) > 0 {
		return open
	}
	m.audit()
	for _, o := range m.orders {
		if o.claim {
			open = append(open, m.openClaim(o)...)
			continue
		}
		var p payroll
		m.get("/api/company/payrolls/"+o.id, &p)
		if o.mustPay() && p.Status != "fulfilled" {
			open = append(open, fmt.Sprintf("payroll %s of %s (%s) is %s %s %s, and was paid", o.id, o.key, o.behavior,
				p.Status, p.Funding, p.Hold))
		}
		for _, pay := range p.Payments {
			for _, out := range pay.Outputs {
				if out.Status == "prepared" || out.Status == "sent" || out.Status == "in_doubt" {
					open = append(open, "an output of "+o.id+" is "+out.Status)
				}
			}
		}
	}
	for _, e := range m.events() {
		if m.w.receiver.count[e.ID] == 0 {
			open = append(open, "event "+e.ID+" "+e.Name+" was not delivered")
		}
	}
	return open
}

// events reads all events of the company through the API.
func (m *model) events() (all []event) {
	after := ""
	for {
		var page struct {
			Data  []event `json:"data"`
			More  bool    `json:"has_more"`
			After string  `json:"next_after"`
		}
		m.get("/api/events?limit=100"+after, &page)
		all = append(all, page.Data...)
		if !page.More || page.After == "" {
			return all
		}
		after = "&after=" + page.After
	}
}

// verify makes all checks at the end of a run.
func (m *model) verify() {
	if len(m.violations) > 0 && m.auditor == nil {
		return
	}
	m.audit()
	m.verifyPayments()
	m.verifyEvents()
	m.verifyBooks()
}

// account contains the amounts that the model computes from the responses to clients and from the contents of the
// chain and the bank.
type account struct {
	received map[string][]int64 // amounts that arrived at each address and bank account
	owed     map[string][]int64 // amounts that had to arrive for payees, and for payers with a refund
	balances map[string]int64   // the company's money, by currency
}

// verifyPayments checks that each payroll and claim with a response exists once, that each payee received exactly the
// amounts that paid payrolls owe them, that each refund was paid once, and that no money is missing.
func (m *model) verifyPayments() {
	a := &account{received: m.received(), owed: map[string][]int64{}, balances: map[string]int64{}}
	if err := bankCredits(m.w.o.Dir, a.received); err != nil {
		m.violation("the files of the bank cannot be read: %v", err)
	}
	payrolls, claims := 0, 0
	for _, o := range m.orders {
		if got := sum(a.received[o.address]); got != o.paid {
			m.violation("the chain has %d for %s %s, its client sent %d", got, o.key, o.id, o.paid)
		}
		if o.claim {
			claims++
			m.verifyClaim(a, o)
		} else {
			payrolls++
			m.verifyPayroll(a, o)
		}
	}
	for path, want := range map[string]int{"/api/company/payrolls": payrolls, "/api/merchant/claims": claims} {
		var list struct {
			Meta struct {
				Total int `json:"total"`
			} `json:"meta"`
		}
		if m.get(path, &list); list.Meta.Total != want {
			m.violation("%s lists %d, but clients created %d", path, list.Meta.Total, want)
		}
	}
	for _, p := range m.w.payees {
		m.verifyPlace(a, p.Place, 0)
	}
	for _, address := range m.w.refunds {
		m.verifyPlace(a, address, refundFee)
	}
	m.verifyBalances(a)
}

// refundFee is the maximum network fee that is deducted from a refund, in satoshis.
const refundFee = 2_000

// verifyPlace checks that exactly the owed amounts arrived at an address or bank account. A network fee of at most
// fee may have been deducted from each amount.
func (m *model) verifyPlace(a *account, place string, fee int64) {
	got, want := a.received[place], a.owed[place]
	slices.Sort(got)
	slices.Sort(want)
	if !slices.EqualFunc(got, want, func(got, want int64) bool { return got <= want && got >= want-fee }) {
		m.violation("at %s arrived %v, and %v is owed", place, got, want)
	}
}

// verifyPayroll checks a payroll. It adds the amounts that the payroll owes, and the money that it leaves with the
// company, to a.
func (m *model) verifyPayroll(a *account, o *order) {
	var p payroll
	m.get("/api/company/payrolls/"+o.id, &p)
	m.states[p.Status]++
	var volume int64
	for _, it := range o.items {
		volume += it.cents
	}
	if got := units(p.Volume, "USD"); got != volume {
		m.violation("payroll %s of %s has a volume of %d cents, not %d", o.id, o.key, got, volume)
	}
	switch {
	case p.Status == "fulfilled":
		a.balances[o.currency] += o.paid - o.due
		for _, it := range o.items {
			a.owed[it.payee.Place] = append(a.owed[it.payee.Place], worth(it.cents, it.payee.Currency))
		}
		if o.cancelled {
			m.violation("payroll %s was cancelled and then paid", o.id)
		}
		if o.paid < o.due {
			m.violation("payroll %s was paid with %d of %d", o.id, o.paid, o.due)
		}
	case p.Status == "cancelled":
		a.balances[o.currency] += o.paid
	case o.mustPay():
		m.violation("payroll %s of %s (%s) was paid and is %s", o.id, o.key, o.behavior, p.Status)
	}
}

// verifyBalances compares the company's balances with the balances that the model computed.
func (m *model) verifyBalances(a *account) {
	var wallets struct {
		Wallets []struct {
			Currency  string      `json:"currency"`
			Available json.Number `json:"available"`
			Claims    json.Number `json:"claims"`
		} `json:"wallets"`
	}
	m.get("/api/wallets", &wallets)
	got := map[string]int64{}
	for _, x := range wallets.Wallets {
		got[x.Currency] += units(x.Available, x.Currency) + units(x.Claims, x.Currency)
	}
	for currency := range decimals {
		if got[currency] != a.balances[currency] {
			m.violation("the company has %d of %s; what it received and earned, and did not pay out, is %d", got[currency],
				currency, a.balances[currency])
		}
	}
}

// received returns the amounts that the best chains have paid to each address, whether they were spent later or not.
func (m *model) received() map[string][]int64 {
	all := map[string][]int64{}
	for _, c := range []chain.Source{m.w.chain, m.w.evm} {
		if err := addReceived(m.w.ctx, c, all); err != nil {
			m.violation("the chain %s cannot be read: %v", c.Network(), err)
		}
	}
	return all
}

func addReceived(ctx context.Context, c chain.Source, all map[string][]int64) error {
	height, _, err := c.Tip(ctx)
	for h := int64(0); h <= height && err == nil; h++ {
		var hash string
		if hash, err = c.BlockHash(ctx, h); err != nil {
			break
		}
		b, failed := c.Block(ctx, hash)
		err = failed
		for _, t := range b.Txs {
			for _, out := range t.Outputs {
				if !t.Failed && (out.Asset == "" || out.Asset == money.USDC) { // excludes coins that pay for gas
					all[out.Address] = append(all[out.Address], out.Amount)
				}
			}
		}
	}
	return err
}

func sum(all []int64) (n int64) {
	for _, x := range all {
		n += x
	}
	return n
}

// verifyEvents checks that each event arrived, that the events of each payroll arrived in order, and that no
// transition has two events.
func (m *model) verifyEvents() {
	objects, err := eventObjects(m.w.ctx, m.auditor.DB())
	if err != nil {
		m.violation("the objects of events cannot be read: %v", err)
	}
	known := map[string]bool{}
	transitions := map[string]string{}
	createdOf := map[string]int{}
	for _, e := range m.events() {
		known[e.ID] = true
		if m.w.receiver.count[e.ID] == 0 {
			m.violation("event %s %s never arrived", e.ID, e.Name)
		}
		at := fmt.Sprintf("%s %d %s", objects[e.ID], e.Sequence, e.Name)
		if other := transitions[at]; other != "" {
			m.violation("events %s and %s are of one transition, %s", other, e.ID, at)
		}
		transitions[at] = e.ID
		if e.Name == "payroll.created" || e.Name == "claim.created" {
			createdOf[e.order()]++
		}
	}
	last := map[string]int64{}
	for _, e := range m.w.receiver.first {
		if !known[e.ID] {
			m.violation("event %s %s arrived, and the API does not list it", e.ID, e.Name)
		}
		object := objects[e.ID]
		if e.Sequence < last[object] {
			m.violation("event %s of %s arrived after one with sequence %d, its own is %d", e.Name, object, last[object],
				e.Sequence)
		}
		last[object] = max(last[object], e.Sequence)
	}
	for _, o := range m.orders {
		if createdOf[o.id] != 1 {
			m.violation("%s has %d events of its creation", o.id, createdOf[o.id])
		}
	}
}

// verifyBooks checks that the ledger is consistent and agrees with the chain, and that no job is dead.
func (m *model) verifyBooks() {
	d := m.auditor.DB()
	if err := d.Read(m.w.ctx, func(ctx context.Context, tx *db.Tx) error {
		report, err := ledger.Check(ctx, tx)
		for _, problem := range report.Problems {
			m.violation("ledger: %s", problem)
		}
		if err != nil {
			return err
		}
		dead, err := job.ListDead(ctx, tx, 10)
		for _, j := range dead {
			m.violation("job %s was given up: %s", j.Kind, j.LastError)
		}
		return err
	}); err != nil {
		m.violation("the ledger cannot be checked: %v", err)
	}
	report, err := backoffice.Reconcile(m.w.ctx, d, backoffice.Sources{
		Chain: app.BitcoinChain, Node: m.w.chain.Chain, Accounts: []evm.Node{m.w.evm},
	})
	if err != nil {
		m.violation("the ledger cannot be reconciled: %v", err)
	}
	for _, x := range report.Differences {
		m.violation("the ledger differs from the chain: %s %s: ledger %s, chain %s", x.Kind, x.Object, x.Ledger, x.Actual)
	}
}

// seededPayees returns those payees of the initial data who are paid only in bitcoin.
func seededPayees() ([]payee, error) {
	seed := sandbox.DefaultSeed()
	all, err := sandbox.SeedAddresses("regtest", 6)
	if err != nil {
		return nil, err
	}
	return []payee{
		{ID: seed.Workers[0].UserID, Place: all[0], Currency: "BTC"},
		{ID: seed.Workers[1].UserID, Place: all[1], Currency: "BTC"},
		{ID: seed.Recipients[0].RecipientID, Place: all[3], Currency: "BTC"},
		{ID: seed.Recipients[1].RecipientID, Place: all[4], Currency: "BTC"},
	}, nil
}

// refundAddresses returns addresses of the payers of claims, for refunds.
func refundAddresses() ([]string, error) {
	all, err := sandbox.SeedAddresses("regtest", 10)
	if err != nil {
		return nil, err
	}
	return all[6:], nil
}

func readPayees(dir string) (all []payee, err error) {
	text, err := os.ReadFile(filepath.Join(dir, payeesFile))
	if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(text, &all)
}
