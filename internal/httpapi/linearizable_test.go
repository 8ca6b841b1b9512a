package httpapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/money"
)

// history records operations of concurrent clients with the times at which they began and ended.
type history struct {
	b     *fixture
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// run lets clients take turns at random steps, all at the same time. step makes one request and returns its input and
// its output for the model; a nil input is not recorded.
func (h *history) run(clients, steps int, step func(client int, rng *rand.Rand) (input, output any)) {
	var wg sync.WaitGroup
	for client := range clients {
		rng := rand.New(rand.NewPCG(1, uint64(client)))
		wg.Go(func() {
			for range steps {
				call := time.Since(h.began)
				input, output := step(client, rng)
				op := porcupine.Operation{
					ClientId: client, Input: input, Output: output, Call: int64(call), Return: int64(time.Since(h.began)),
				}
				if input != nil {
					h.mu.Lock()
					h.ops = append(h.ops, op)
					h.mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
}

// check fails the test unless the operations could have happened one after the other, each at a moment between its
// beginning and its end.
func (h *history) check(model porcupine.Model) {
	h.b.t.Helper()
	switch result := porcupine.CheckOperationsTimeout(model, h.ops, time.Minute); result {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.b.t.Error("the history was not checked in time")
	case porcupine.Illegal:
		for _, op := range h.ops {
			h.b.t.Logf("client %d, %d to %d: %v answered %v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
		}
		h.b.t.Error("no order of these operations explains their answers")
	}
}

// patient repeats a request that got a temporary refusal, as a client should.
func (b *fixture) patient(method, path, body string, headers ...string) (reply, members) {
	for {
		got := b.do(method, path, body, headers...)
		all := got.json(b.t)
		if code := all["code"]; got.status != http.StatusServiceUnavailable && code != "idempotency_in_progress" &&
			got.status != http.StatusTooManyRequests {
			return got, all
		}
	}
}

// spend is a change of a balance by cents, or a read if cents is zero.
type spend struct{ cents int64 }

// A balance behaves like a number that one client at a time reads, reduces if it is large enough, or raises.
func TestBalancesAreLinearizable(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		const start = 100_00
		b.credit("dep_1", money.New(money.USD, start))
		item := `{"user_id":"` + b.payee() + `","amount_fiat":%d}`
		h := &history{b: b, began: time.Now()}
		var keys atomic.Int64
		type payment struct {
			id    string
			cents int64
		}
		var made [4][]payment
		h.run(len(made), 25, func(client int, rng *rand.Rand) (input, output any) {
			key := fmt.Sprint("balance-", keys.Add(1))
			switch mine := made[client]; {
			case rng.IntN(3) == 0:
				_, all := b.patient("GET", "/api/wallets", "")
				for _, w := range all["wallets"].([]any) {
					if w := w.(members); w["currency"] == "USD" {
						return spend{}, int64(w["available"].(float64)*100 + 0.5)
					}
				}
				t.Error("there is no wallet in USD")
				return nil, nil
			case rng.IntN(3) == 0 && len(mine) > 0:
				made[client] = mine[1:]
				got, _ := b.patient("POST", payrollPath+"/cancel", `{"payroll_id":"`+mine[0].id+`"}`)
				if got.status != http.StatusOK {
					t.Errorf("cancel: %d %s", got.status, got.text)
				}
				return spend{-mine[0].cents}, true
			}
			dollars := 1 + rng.Int64N(60)
			got, all := b.patient("POST", "/api/company/payroll/create",
				`{"funding_method":"wallet","to_pay":[`+fmt.Sprintf(item, dollars)+`]}`, "Idempotency-Key", key)
			if got.status == http.StatusOK {
				made[client] = append(made[client], payment{all["payroll_id"].(string), dollars * 100})
			} else if all["code"] != "insufficient_balance" {
				t.Errorf("create: %d %s", got.status, got.text)
			}
			return spend{dollars * 100}, got.status == http.StatusOK
		})
		h.check(porcupine.Model{
			Init: func() any { return int64(start) },
			Step: func(state, input, output any) (bool, any) {
				balance, in := state.(int64), input.(spend)
				switch out := output.(type) {
				case int64:
					return out == balance, balance
				case bool:
					if !out {
						return in.cents > balance, balance
					}
				}
				return in.cents <= balance, balance - in.cents
			},
		})
		b.checkLedger()
	})
}

// keyed is a request with an idempotency key, and one of several bodies.
type keyed struct{ key, body int }

// The first request with an idempotency key decides: an equal one gets the same answer, any other is refused.
func TestIdempotencyKeysAreLinearizable(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		payee := b.payee()
		h := &history{b: b, began: time.Now()}
		h.run(4, 25, func(_ int, rng *rand.Rand) (input, output any) {
			in := keyed{rng.IntN(12), rng.IntN(2)}
			got, all := b.patient("POST", "/api/company/payroll/create", fmt.Sprintf(
				`{"to_pay":[{"user_id":%q,"amount_fiat":%d}]}`, payee, 10+in.body), "Idempotency-Key", fmt.Sprint("key-", in.key))
			switch {
			case got.status == http.StatusOK:
				return in, all["payroll_id"]
			case all["code"] != "idempotency_key_reused":
				t.Errorf("create: %d %s", got.status, got.text)
			}
			return in, ""
		})
		type decided struct {
			body int
			id   string
		}
		h.check(porcupine.Model{
			Partition: func(all []porcupine.Operation) [][]porcupine.Operation {
				byKey := make([][]porcupine.Operation, 12)
				for _, op := range all {
					key := op.Input.(keyed).key
					byKey[key] = append(byKey[key], op)
				}
				return byKey
			},
			Init: func() any { return decided{} },
			Step: func(state, input, output any) (bool, any) {
				first, in, id := state.(decided), input.(keyed), output.(string)
				if first.id == "" {
					return id != "", decided{in.body, id}
				}
				if in.body != first.body {
					return id == "", first
				}
				return id == first.id, first
			},
		})
		if got := b.tally("SELECT COUNT(*) FROM payrolls"); got > 12 {
			t.Errorf("%d payrolls for 12 keys", got)
		}
	})
}

// A payroll has one quote at a time: a read after a refresh shows the new quote or a later one.
func TestQuotesAreLinearizable(t *testing.T) {
	dbtest.Run(t, func(t *testing.T, d *db.DB) {
		b := newService(t, d, nil)
		_, made := b.patient("POST", "/api/company/payroll/create",
			`{"to_pay":[{"user_id":"`+b.payee()+`","amount_fiat":10}]}`, "Idempotency-Key", "quotes")
		id := made["payroll_id"].(string)
		h := &history{b: b, began: time.Now()}
		var keys atomic.Int64
		h.run(4, 10, func(client int, rng *rand.Rand) (input, output any) {
			if client > 0 && rng.IntN(3) > 0 || keys.Load() >= 8 {
				_, all := b.patient("GET", "/api/company/payrolls/"+id, "")
				return "read", all["quote"].(members)["quote_id"]
			}
			got, all := b.patient("POST", payrollPath+"/quote/refresh", `{"payroll_id":"`+id+`"}`, "Idempotency-Key",
				fmt.Sprint("refresh-", keys.Add(1)))
			if got.status != http.StatusOK {
				t.Errorf("refresh: %d %s", got.status, got.text)
				return nil, nil
			}
			return "refresh", all["quotes"].([]any)[0].(members)["quote_id"]
		})
		first := made["quote"].(members)["quote_id"]
		h.check(porcupine.Model{
			Init: func() any { return first },
			Step: func(state, input, output any) (bool, any) {
				return input == "refresh" || output == state, output
			},
		})
	})
}
