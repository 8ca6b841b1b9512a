package simulation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/sandbox"
)

// satoshisPerCent is the price of the sandbox: 50,000 USD for one bitcoin.
const satoshisPerCent = 20

// model knows the answers to clients and what the chain has, and compares them with what the service says. It never
// uses the service's own calculations.
type model struct {
	w          *World
	orders     []*order
	violations []string
	auditor    *app.Assembly // reads the API without faults
	nextCheck  time.Time
	states     map[string]int
}

func basic(key string) string { return base64.StdEncoding.EncodeToString([]byte(key + ":")) }

// satoshis converts an amount of bitcoin.
func satoshis(text json.Number) int64 {
	whole, fraction, _ := strings.Cut(text.String(), ".")
	n, _ := strconv.ParseInt(whole+(fraction + "00000000")[:8], 10, 64)
	return n
}

// violation records that a promise was broken. Any goroutine may call it.
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

// get reads from the API as the company does.
func (m *model) get(path string, v any) {
	rec := httptest.NewRecorder()
	m.auditor.Handler.ServeHTTP(rec, request(m.w.ctx, http.MethodGet, path, "", nil))
	if rec.Code != http.StatusOK {
		m.violation("GET %s answers %d: %s", path, rec.Code, rec.Body)
		return
	}
	if err := json.Unmarshal(rec.Body.Bytes(), v); err != nil {
		m.violation("GET %s: %v", path, err)
	}
}

// audit opens a process without faults, through which the model reads.
func (m *model) audit() {
	if m.auditor != nil {
		return
	}
	c, err := config(m.w.o.Dir + "/stipend.db")
	if err == nil {
		m.auditor, err = app.Assemble(m.w.ctx, c, slog.New(slog.DiscardHandler), "auditor", app.Outside{
			Bitcoin: m.w.chain.Chain,
		})
	}
	if err != nil {
		panic(fmt.Sprintf("simulation: the auditor cannot start: %v", err))
	}
}

// payroll is what the API says about a payroll.
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

// mustPay reports whether an order has been paid in full and was not cancelled.
func (o *order) mustPay() bool { return o.paid >= o.due && !o.cancelled }

// open returns what has not ended. The scheduler calls it while no work runs.
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

// events returns all events of the company by the API.
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

// verify compares everything at the end of a run.
func (m *model) verify() {
	if len(m.violations) > 0 && m.auditor == nil {
		return
	}
	m.audit()
	m.verifyPayrolls()
	m.verifyEvents()
	m.verifyBooks()
}

// verifyPayrolls checks that each acknowledged payroll exists once, that each payee got exactly what the payrolls that
// were paid owe them, and that no money is missing.
func (m *model) verifyPayrolls() {
	var list struct {
		Data []payroll `json:"data"`
	}
	m.get("/api/company/payrolls?per_page=100", &list)
	if len(list.Data) != len(m.orders) {
		m.violation("%d payrolls exist, but clients created %d", len(list.Data), len(m.orders))
	}
	received := m.w.chain.received(m)
	address := m.w.addresses
	owed := map[string][]int64{} // by address
	var balance, balances int64
	for _, o := range m.orders {
		var p payroll
		m.get("/api/company/payrolls/"+o.id, &p)
		m.states[p.Status]++
		var volume int64
		for _, it := range o.items {
			volume += it.cents
		}
		if got := satoshis(p.Volume) / 1_000_000; got != volume {
			m.violation("payroll %s of %s has a volume of %d cents, not %d", o.id, o.key, got, volume)
		}
		in := sum(received[o.address])
		if in != o.paid {
			m.violation("the chain has %d satoshis for payroll %s, its client sent %d", in, o.id, o.paid)
		}
		switch {
		case p.Status == "fulfilled":
			balance += in - o.due
			for _, it := range o.items {
				owed[address[it.payee]] = append(owed[address[it.payee]], it.cents*satoshisPerCent)
			}
			if o.cancelled {
				m.violation("payroll %s was cancelled and then paid", o.id)
			}
			if in < o.due {
				m.violation("payroll %s was paid with %d of %d satoshis", o.id, in, o.due)
			}
		case p.Status == "cancelled":
			balance += in
		case o.mustPay():
			m.violation("payroll %s of %s (%s) was paid and is %s", o.id, o.key, o.behavior, p.Status)
		}
	}
	for _, a := range slices.Sorted(maps.Values(address)) {
		got, want := received[a], owed[a]
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			m.violation("a payee at %s got %v satoshis, and is owed %v", a, got, want)
		}
	}
	var wallets struct {
		Wallets []struct {
			Currency  string      `json:"currency"`
			Available json.Number `json:"available"`
		} `json:"wallets"`
	}
	m.get("/api/wallets", &wallets)
	for _, x := range wallets.Wallets {
		if x.Currency == "BTC" {
			balances += satoshis(x.Available)
		}
	}
	if balances != balance {
		m.violation("the balance is %d satoshis; what was received and not paid out is %d", balances, balance)
	}
}

// received returns the amounts that the best chain has paid to each address, spent or not.
func (n *network) received(m *model) map[string][]int64 {
	ctx := context.Background()
	all := map[string][]int64{}
	height, _, err := n.Tip(ctx)
	for h := int64(0); h <= height && err == nil; h++ {
		var hash string
		if hash, err = n.BlockHash(ctx, h); err != nil {
			break
		}
		b, failed := n.Block(ctx, hash)
		err = failed
		for _, t := range b.Txs {
			for _, out := range t.Outputs {
				all[out.Address] = append(all[out.Address], out.Amount)
			}
		}
	}
	if err != nil {
		m.violation("the chain cannot be read: %v", err)
	}
	return all
}

func sum(all []int64) (n int64) {
	for _, x := range all {
		n += x
	}
	return n
}

// verifyEvents checks that each event arrived, that the events of a payroll arrived in order, and that no transition
// has two events.
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
		at := fmt.Sprintf("%s %d", objects[e.ID], e.Sequence)
		if other := transitions[at]; other != "" {
			m.violation("events %s and %s are of one transition, %s", other, e.ID, at)
		}
		transitions[at] = e.ID
		if e.Name == "payroll.created" {
			createdOf[e.payroll()]++
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
			m.violation("payroll %s has %d events payroll.created", o.id, createdOf[o.id])
		}
	}
}

// verifyBooks checks the ledger in itself and against the chain, and that no job was given up.
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
	report, err := backoffice.Reconcile(m.w.ctx, d, backoffice.Sources{Chain: app.BitcoinChain, Node: m.w.chain.Chain})
	if err != nil {
		m.violation("the ledger cannot be reconciled: %v", err)
	}
	for _, x := range report.Differences {
		m.violation("the ledger differs from the chain: %s %s: ledger %s, chain %s", x.Kind, x.Object, x.Ledger, x.Actual)
	}
}

// payeeAddresses returns the address of each seeded payee that is paid in bitcoin only.
func payeeAddresses() (map[string]string, error) {
	seed := sandbox.DefaultSeed()
	all, err := sandbox.SeedAddresses("regtest", 6)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		seed.Workers[0].UserID: all[0], seed.Workers[1].UserID: all[1],
		seed.Recipients[0].RecipientID: all[3], seed.Recipients[1].RecipientID: all[4],
	}, nil
}
