package simulation

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	"github.com/stipend/stipend/internal/db"
)

// event contains the members of an event that the receiver reads.
type event struct {
	ID        string          `json:"id"`
	Name      string          `json:"event"`
	CompanyID string          `json:"company_id"`
	Sequence  int64           `json:"sequence"`
	Data      json.RawMessage `json:"data"`
}

// order returns the ID of the payroll or claim in the event's data, or "".
func (e event) order() string {
	var data struct {
		PayrollID string `json:"payroll_id"`
		ClaimID   string `json:"claim_id"`
	}
	_ = json.Unmarshal(e.Data, &data) // the data is an object; other types have no such members
	return cmp.Or(data.PayrollID, data.ClaimID)
}

// receiver is the server that receives the company's webhooks.
type receiver struct {
	first []event        // each event in the order of first arrival
	count map[string]int // number of arrivals of each event
}

// transport sends the webhooks of a process.
type transport struct {
	w *World
	p *process
}

// RoundTrip delivers a webhook, or makes its delivery fail.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	label := db.Label(r.Context()) + " hook " + r.Header.Get("Webhook-Id")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status := http.StatusNoContent
	switch t.w.park(label, atHook, t.p) {
	case killed, killNow:
		return nil, errKilled
	case lost:
		return nil, errLost
	case refused:
		status = http.StatusInternalServerError
	}
	if status == http.StatusNoContent {
		var e event
		if err := json.Unmarshal(body, &e); err != nil {
			return nil, err
		}
		t.w.mu.Lock()
		if t.w.receiver.count[e.ID]++; t.w.receiver.count[e.ID] == 1 {
			t.w.receiver.first = append(t.w.receiver.first, e)
		}
		t.w.mu.Unlock()
	}
	switch t.w.park(label, atReceived, t.p) {
	case killed, killNow:
		return nil, errKilled
	case lostAnswer:
		return nil, errLost
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody,
		Request: r,
	}, nil
}
