package stipend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrInvalidSignature is returned for a webhook delivery that was not signed with any of the given secrets, or not
// recently.
var ErrInvalidSignature = errors.New("stipend: invalid webhook signature")

// webhookTolerance is the maximum age of a delivery. It prevents replays.
const webhookTolerance = 5 * time.Minute

// Event is a state change of an object. An event can be delivered more than once: store the IDs of processed events.
type Event struct {
	Event       EventName       `json:"event"`
	ID          string          `json:"id"`
	Created     time.Time       `json:"created"`
	Environment string          `json:"environment"` // sandbox or production
	APIVersion  string          `json:"api_version"`
	CompanyID   string          `json:"company_id"` // company whose event it is, or ""
	UserID      string          `json:"user_id"`    // user whose event it is, or ""
	Sequence    int64           `json:"sequence"`   // increases with each event of the object
	Data        json.RawMessage `json:"data"`       // decode it with Payload
}

// EventName is the name of an event, for example payroll.created.
type EventName string

// VerifyWebhook checks the signature of a webhook delivery (Standard Webhooks 1.0) and parses its event. body is
// the request body exactly as received. During a rotation pass the old and the new secret. It returns
// [ErrInvalidSignature] unless the delivery was signed with one of the secrets less than five minutes ago.
func VerifyWebhook(body []byte, header http.Header, secrets ...string) (*Event, error) {
	return verifyWebhook(body, header, time.Now(), secrets)
}

func verifyWebhook(body []byte, header http.Header, now time.Time, secrets []string) (*Event, error) {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || id == "" || now.Sub(time.Unix(seconds, 0)).Abs() > webhookTolerance {
		return nil, ErrInvalidSignature
	}
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return nil, errors.New("stipend: a webhook secret must be whsec_ followed by base64")
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, timestamp)
		mac.Write(body)
		want := mac.Sum(nil)
		for _, signature := range strings.Fields(header.Get("webhook-signature")) {
			version, text, _ := strings.Cut(signature, ",")
			got, err := base64.StdEncoding.DecodeString(text)
			if version == "v1" && err == nil && hmac.Equal(got, want) {
				return ParseEvent(body)
			}
		}
	}
	return nil, ErrInvalidSignature
}

// ParseEvent parses an event whose origin is already trusted.
func ParseEvent(body []byte) (*Event, error) {
	e := &Event{}
	if err := json.Unmarshal(body, e); err != nil {
		return nil, fmt.Errorf("stipend: decode the event: %w", err)
	}
	return e, nil
}

// payload decodes the data of an event.
func payload[T any](e *Event) (any, error) {
	var data T
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return nil, fmt.Errorf("stipend: decode the data of %s: %w", e.Event, err)
	}
	return &data, nil
}
