package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/wire/v2"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
)

// moment is when a process is killed.
type moment int

const (
	anytime       moment = iota
	fileWritten          // after a file for the bank appeared
	signed               // a payout is signed, and the node has not received it
	broadcast            // the node has received a payout, and its response is lost
	creating             // while a payroll is created
	answered             // a payroll is created, and the response is lost
	crediting            // after the block with a payroll's funding
	settling             // after the block with a payroll's payout
	numberOfKinds        // of moments
)

func (m moment) String() string {
	return [...]string{"at any time", "with a file for the bank", "before a broadcast", "before the answer to a broadcast",
		"while it creates a payroll",
		"before the answer to a payroll", "after a block with a deposit", "after a block with a payout"}[m]
}

// haste is how soon after what it waits for a process is killed, at the latest.
const haste = 60 * time.Millisecond

// line sits between the service and its Bitcoin or EVM node. It records the transactions that the service broadcasts,
// and can kill the broadcasting process just before or just after a transaction reaches the node.
type line struct {
	server *httptest.Server
	url    string

	mu      sync.Mutex
	offered map[string]int  // signed transactions in hex, and how often each was handed over
	through map[string]bool // those that reached the node
	at      moment          // signed or broadcast: when to kill, once
	about   string          // what that transaction contains, in hex
	kill    func()
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	target, err := neturl.Parse(to)
	testkit.Check(t, err)
	l := &line{offered: map[string]int{}, through: map[string]bool{}}
	rewrite := func(r *httputil.ProxyRequest) { r.Out.URL.Host, r.Out.URL.Scheme = target.Host, target.Scheme }
	node := httputil.ReverseProxy{Rewrite: rewrite,
		ErrorLog: log.New(io.Discard, "", 0)} // requests of the killed
	l.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.pass(w, r, &node) }))
	t.Cleanup(l.server.Close)
	l.url = (&neturl.URL{Scheme: "http", User: target.User, Host: l.server.Listener.Addr().String()}).String()
	return l
}

func (l *line) pass(w http.ResponseWriter, r *http.Request, node http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the caller is dead
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sent := broadcasts(body)
	if len(sent) == 0 {
		node.ServeHTTP(w, r)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range sent {
		l.offered[raw]++
	}
	// A process may repeat the broadcasts of the one before.
	armed := l.kill != nil && slices.ContainsFunc(sent, func(raw string) bool {
		return !l.through[raw] && strings.Contains(raw, l.about)
	})
	if armed && l.at == signed {
		l.kill()
		l.kill = nil
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	node.ServeHTTP(answer, r.WithContext(context.WithoutCancel(r.Context())))
	for _, raw := range sent {
		l.through[raw] = true
	}
	if armed {
		l.kill()
		l.kill = nil
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // to somebody who may be dead
}

// broadcasts returns the transactions that a request to a node, or a batch of them, broadcasts.
func broadcasts(body []byte) (raws []string) {
	type request struct {
		Method string `json:"method"`
		Params []any  `json:"params"`
	}
	all := make([]request, 1)
	if json.Unmarshal(body, &all[0]) != nil && json.Unmarshal(body, &all) != nil {
		return nil
	}
	for _, asked := range all {
		if asked.Method == "sendrawtransaction" || asked.Method == "eth_sendRawTransaction" {
			raws = append(raws, asked.Params[0].(string))
		}
	}
	return raws
}

// await arms the line to kill a process at its next broadcast of a transaction that has not reached the node and that
// contains about, in hex.
func (l *line) await(at moment, about string, kill func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.about, l.kill = at, about, kill
}

// disarm says whether the line has killed since it was armed.
func (l *line) disarm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := l.kill == nil
	l.kill = nil
	return done
}

// reached returns the number of transactions that reached the node and that contain about, in hex.
func (l *line) reached(about string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for raw := range l.through {
		if strings.Contains(raw, about) {
			n++
		}
	}
	return n
}

// live is one life of the process, which ends at a moment.
func (w *world) live(round int, at moment) {
	life := patience
	if at <= fileWritten { // there may be no file in this life
		life = mathrand.N(longestLife)
	}
	w.start(life)
	process := w.process.Process
	kill := func() { _ = process.Kill() }
	soon := func() { time.AfterFunc(mathrand.N(haste), kill) }
	w.takeOver()
	first := 2 * round // the first payroll of this life
	before := w.line.reached("")
	switch at {
	case fileWritten:
		w.rails.lurk(w)
	case signed, broadcast:
		w.line.await(at, "", kill)
	case creating:
		time.AfterFunc(mathrand.N(haste/4), kill)
	case answered:
		w.createUnheard(first)
		kill()
	case anytime, crediting, settling, numberOfKinds:
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	reached := at != crediting && at != settling
	for ; w.alive(); <-look.C {
		err := w.step(first + 1) // what it refuses now it may do later
		if !reached && err == nil && (at == crediting || w.line.reached("") > before) {
			reached = true
			soon()
		}
	}
	if at == signed || at == broadcast {
		reached = w.line.disarm()
	}
	if !reached {
		w.t.Errorf("life %d was to end %s, which never came:\n%s", round, at, w.log)
	}
}

// createUnheard has a payroll created by a client who hears nothing of it, and knows from others that it is there.
func (w *world) createUnheard(i int) {
	w.t.Helper()
	for before := range i {
		testkit.Check(w.t, w.create(before))
	}
	body, err := json.Marshal(w.order(i))
	testkit.Check(w.t, err)
	at, err := neturl.Parse(w.ready.BaseURL)
	testkit.Check(w.t, err)
	deaf, err := new(net.Dialer).DialContext(w.t.Context(), "tcp", at.Host)
	testkit.Check(w.t, err)
	defer deaf.Close()
	if _, err := fmt.Fprintf(deaf,
		"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nContent-Type: application/json\r\n"+
			"Idempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		createPath, at.Host, w.ready.Seed.APIKey, keyOf(i), len(body), body); err != nil {
		w.t.Fatal(err)
	}
	w.until("the payroll is there", func() bool {
		var list struct {
			Data []payroll `json:"data"`
		}
		testkit.Check(w.t, w.call(http.MethodGet, "/api/company/payrolls?external_id="+externalID(i), "", nil, &list))
		if len(list.Data) == 1 {
			w.unheard[i] = list.Data[0].PayrollID
		}
		return len(list.Data) == 1
	})
}

// verifyOnce checks that each request had its effect once, whichever process was killed meanwhile, and that every
// signed transaction is the one that paid.
func (w *world) verifyOnce(payrolls int) {
	w.t.Helper()
	d := dbtest.Open(w.t, db.Options{URL: w.url})
	for what, query := range map[string]string{
		"payrolls":              "SELECT COUNT(*) FROM payrolls",
		"answers that are kept": "SELECT COUNT(*) FROM idempotency WHERE key LIKE 'payroll-%'",
		"events of a creation":  "SELECT COUNT(*) FROM events WHERE name = 'payroll.created'",
	} {
		var n int
		if err := d.Read(w.t.Context(), func(ctx context.Context, tx *db.Tx) error {
			return tx.QueryRow(ctx, query).Scan(&n)
		}); err != nil || n != payrolls {
			w.t.Errorf("%d %s, want %d (%v)", n, what, payrolls, err)
		}
	}
	paid := w.onChain()
	again := 0
	for raw, times := range w.line.offered {
		bytesOf, err := hex.DecodeString(raw)
		var tx wire.MsgTx
		if err == nil {
			err = tx.Deserialize(bytes.NewReader(bytesOf))
		}
		testkit.Check(w.t, err)
		found := false
		for line := range paid {
			found = found || strings.HasPrefix(line, tx.TxID())
		}
		if !found {
			w.t.Errorf("%s was handed over for broadcast %d times, and another paid in its place", tx.TxID(), times)
		}
		if times > 1 {
			again++
		}
	}
	if kills := crashes / int(numberOfKinds); again < kills { // of those that the node did not get
		w.t.Errorf("%d transactions were handed over again, want those of %d kills at least", again, kills)
	}
}
