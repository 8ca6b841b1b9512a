package banktest

import (
	"errors"
	"net/http"
	"time"

	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
)

// CheckCallbacks fails the test unless a webhook of a bank brings the next check of its transfer forward, and every
// webhook that is forged, altered or too old is refused without effect. age is the largest accepted age. sign returns
// a webhook about a transfer at a time, signed with the right key or a wrong one. change makes the bank return the
// transfer of an output, and returns the transfer's ID.
func (b *Branch) CheckCallbacks(all bank.Callbacks, name string, age time.Duration,
	sign func(id string, at time.Time, right bool) (http.Header, []byte), change func(o payout.Output) (id string),
) {
	b.Helper()
	o := b.Queue(b.To("101050001", 100_00))[0]
	b.Work(3)
	b.Want(o.ID, payout.Fulfilled, "")
	id := change(o)
	check := func() {
		b.Helper()
		for _, p := range b.Rails.Periodic(b.DB) {
			b.Must(p.Run(b.Context()))
		}
	}
	now, err := b.DB.Now(b.Context())
	b.Must(err)
	send := func(name string, h http.Header, body []byte) error {
		return all.Handle(b.Context(), b.DB, name, h, body)
	}
	h, body := sign(id, now, true)
	forged, sameBody := sign(id, now, false)
	old, oldBody := sign(id, now.Add(-age-time.Minute), true)
	early, earlyBody := sign(id, now.Add(age+time.Minute), true)
	for what, err := range map[string]error{
		"unsigned":         send(name, http.Header{}, body),
		"signed by others": send(name, forged, sameBody),
		"altered":          send(name, h, append([]byte(" "), body...)),
		"too old":          send(name, old, oldBody),
		"from the future":  send(name, early, earlyBody),
		"another bank":     send("other", h, body),
	} {
		if !errors.Is(err, bank.ErrCallback) {
			b.Errorf("%s: %v", what, err)
		}
	}
	check()
	b.Want(o.ID, payout.Fulfilled, "") // the rail has not asked the bank yet
	other, otherBody := sign("unknown", now, true)
	b.Must(send(name, other, otherBody))
	b.Must(send(name, h, body))
	b.Must(send(name, h, body))
	check()
	b.Want(o.ID, payout.Returned, "")
}
