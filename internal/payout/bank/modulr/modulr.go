// Package modulr compares the names of payees with the names of account holders through the API of Modulr
// (modulrfinance.com), which takes part in the Verification of Payee scheme of the European Payments Council.
package modulr

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/bankhttp"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// URL is the address of Modulr's API. Its sandbox is https://api-sandbox.modulrfinance.com/api-sandbox.
const URL = "https://api.modulrfinance.com/api"

// Verifier implements bank.Verifier.
type Verifier struct {
	client  bankhttp.Client
	account string
}

var _ bank.Verifier = (*Verifier)(nil)

// New returns the Verifier at a URL. It takes an API key, the key's secret, and the ID of the operator's account at
// Modulr, such as A123AAA4, on whose behalf names are compared. It does not connect.
func New(at, key, secret, account string) (*Verifier, error) {
	if at == "" || key == "" || secret == "" || account == "" {
		return nil, errors.New("modulr: the URL, the API key, the secret or the account is missing")
	}
	return &Verifier{bankhttp.Client{Name: "modulr", URL: at, Sign: func(h http.Header) {
		sign(h, key, secret, time.Now())
	}}, account}, nil
}

// sign adds the headers that authenticate a request: the date, a number that is used only once, and a signature of
// both.
func sign(h http.Header, key, secret string, now time.Time) {
	date, nonce := now.UTC().Format(http.TimeFormat), rand.Text()
	mac := hmac.New(sha512.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "date: %s\nx-mod-nonce: %s", date, nonce)
	h.Set("Date", date)
	h.Set("X-Mod-Nonce", nonce)
	h.Set("Authorization", `Signature keyId="`+key+`",algorithm="hmac-sha512",headers="date x-mod-nonce",signature="`+
		url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))+`"`)
}

// results maps Modulr's results.
var results = map[string]iso20022.Verification{"MATCH": iso20022.Match, "CLOSE_MATCH": iso20022.CloseMatch,
	"NO_MATCH": iso20022.NoMatch, "CHECK_NOT_POSSIBLE": iso20022.NotPossible}

// VerifyName implements bank.Verifier. It returns NotPossible for data that Modulr refuses.
func (v *Verifier) VerifyName(ctx context.Context, q bank.NameQuery) (bank.NameAnswer, error) {
	var answer struct {
		Result struct {
			Code string `json:"code"`
			Name string `json:"matchedName"`
		} `json:"result"`
	}
	err := v.client.Post(ctx, "/verify-payee", "", map[string]string{"name": bankhttp.Cut(q.Name, 140), "iban": q.IBAN,
		"paymentAccountId": v.account}, &answer)
	var f *bankhttp.Failure
	if errors.As(err, &f) && f.Status == http.StatusBadRequest {
		return bank.NameAnswer{Result: iso20022.NotPossible}, nil
	}
	if err != nil {
		return bank.NameAnswer{}, err
	}
	result, known := results[answer.Result.Code]
	if !known {
		return bank.NameAnswer{}, fmt.Errorf("modulr: the result %q is unknown", answer.Result.Code)
	}
	if result != iso20022.CloseMatch { // the holder's name is disclosed only for a close match
		return bank.NameAnswer{Result: result}, nil
	}
	return bank.NameAnswer{Result: result, Name: answer.Result.Name}, nil
}
