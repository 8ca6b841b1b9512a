package lightning

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

const (
	lookupTimeout = 10 * time.Second
	maxAnswer     = 256 << 10
)

// Servers asks the servers of Lightning addresses for invoices, by LNURL-pay (LUD-06, LUD-16).
type Servers struct {
	policy delivery.Policy
	client *http.Client
	host   string // test server that serves all domains; "" in production
}

var _ Resolver = (*Servers)(nil)

// NewServers returns a resolver that calls only addresses that the policy permits. roots is nil except in tests.
func NewServers(p delivery.Policy, roots *tls.Config) *Servers {
	return &Servers{policy: p, client: p.Client(lookupTimeout, roots)}
}

// Invoice implements [Resolver]. The server first returns the terms of the address and then an invoice for the
// amount. The hash of the description in the invoice must match the terms.
func (s *Servers) Invoice(ctx context.Context, to string, sats int64) (string, error) {
	if !lightning.IsAddress(to) {
		return "", &Refusal{ReasonRefused, "not a Lightning address"}
	}
	user, domain, _ := strings.Cut(to, "@")
	var terms struct {
		Tag      string `json:"tag"`
		Callback string `json:"callback"`
		Min      int64  `json:"minSendable"`
		Max      int64  `json:"maxSendable"`
		Metadata string `json:"metadata"`
	}
	first := "https://" + cmp.Or(s.host, domain) + "/.well-known/lnurlp/" + url.PathEscape(user)
	if err := s.get(ctx, first, &terms); err != nil {
		return "", err
	}
	msat := 1000 * sats
	switch {
	case terms.Tag != "payRequest":
		return "", &Refusal{ReasonRefused, "its server does not accept payments"}
	case terms.Max > 0 && msat > terms.Max:
		return "", &Refusal{ReasonAmountTooLarge, fmt.Sprintf("at most %d msat", terms.Max)}
	case msat < terms.Min:
		return "", &Refusal{ReasonAmountTooSmall, fmt.Sprintf("at least %d msat", terms.Min)}
	}
	callback, err := url.Parse(terms.Callback)
	if err != nil || callback.Scheme != "https" {
		return "", &Refusal{ReasonRefused, "its callback is not an https address"}
	}
	query := callback.Query()
	query.Set("amount", strconv.FormatInt(msat, 10))
	callback.RawQuery = query.Encode()
	var answer struct {
		Request string `json:"pr"`
	}
	if err := s.get(ctx, callback.String(), &answer); err != nil {
		return "", err
	}
	invoice, err := lightning.Decode(answer.Request)
	switch {
	case err != nil:
		return "", &Refusal{ReasonRefused, err.Error()}
	case invoice.Msat != msat:
		return "", &Refusal{ReasonInvoiceAmount, fmt.Sprintf("its invoice is for %d msat instead of %d", invoice.Msat, msat)}
	case invoice.DescriptionHash != lightning.Hash{} && invoice.DescriptionHash != sha256.Sum256([]byte(terms.Metadata)):
		return "", &Refusal{ReasonRefused, "its invoice is for another description"}
	}
	return answer.Request, nil
}

// get reads a JSON answer. A server refuses in the body of its answer; any other failure may be temporary.
func (s *Servers) get(ctx context.Context, address string, answer any) error {
	if s.policy.CheckURL(address) != nil {
		return &Refusal{ReasonRefused, "its server is not public"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return &Refusal{ReasonRefused, err.Error()}
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	var refused struct {
		Status string `json:"status"`
		Reason string `json:"reason"`
	}
	readable := json.Unmarshal(text, &refused) == nil
	switch {
	case readable && strings.EqualFold(refused.Status, "ERROR"):
		return &Refusal{ReasonRefused, fmt.Sprintf("%.200q", refused.Reason)}
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return &Refusal{ReasonRefused, "its server does not know it"}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("lightning: the server of an address answered %s", resp.Status)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return errors.New("lightning: the server of an address did not answer with JSON")
	}
	return nil
}
