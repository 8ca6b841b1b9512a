package stipend

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"
)

func TestVerifyWebhook(t *testing.T) {
	const body = `{"event":"payroll.created","id":"evt_1","sequence":3,"data":{"payroll_id":"prl_1"}}`
	now := time.Unix(1_700_000_000, 0)
	key := []byte("a key of a webhook endpoint")
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another key"))
	sign := func(at time.Time) http.Header {
		stamp := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("evt_1." + stamp + "." + body))
		header := http.Header{}
		header.Set("webhook-id", "evt_1")
		header.Set("webhook-timestamp", stamp)
		header.Set("webhook-signature", "v1,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return header
	}
	for _, c := range []struct {
		name    string
		body    string
		header  http.Header
		secrets []string
		valid   bool
	}{
		{"signed", body, sign(now), []string{secret}, true},
		{"signed with the old secret during a rotation", body, sign(now), []string{other, secret}, true},
		{"signed four minutes ago", body, sign(now.Add(-4 * time.Minute)), []string{secret}, true},
		{"signed six minutes ago", body, sign(now.Add(-6 * time.Minute)), []string{secret}, false},
		{"signed six minutes ahead", body, sign(now.Add(6 * time.Minute)), []string{secret}, false},
		{"another body", body + " ", sign(now), []string{secret}, false},
		{"another secret", body, sign(now), []string{other}, false},
		{"not signed", body, http.Header{}, []string{secret}, false},
		{"no secret", body, sign(now), nil, false},
	} {
		event, err := verifyWebhook([]byte(c.body), c.header, now, c.secrets)
		if !c.valid {
			if !errors.Is(err, ErrInvalidSignature) {
				t.Errorf("%s: got %v, %v", c.name, event, err)
			}
			continue
		}
		if err != nil || event.Event != "payroll.created" || event.ID != "evt_1" || event.Sequence != 3 {
			t.Errorf("%s: got %+v, %v", c.name, event, err)
		}
	}
	if _, err := verifyWebhook([]byte(body), sign(now), now, []string{"whsec_?"}); err == nil ||
		errors.Is(err, ErrInvalidSignature) {
		t.Errorf("a malformed secret: %v", err)
	}
}
