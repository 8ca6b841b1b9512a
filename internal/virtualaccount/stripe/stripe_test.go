package stripe_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
	"github.com/stipend/stipend/internal/virtualaccount/stripe/stripetest"
)

func open(t *testing.T) (*stripetest.Server, *stripe.Bank) {
	s := stripetest.Start(t)
	return s, stripe.New(stripe.Options{Key: stripetest.Key, URL: s.URL, Country: "NL"})
}

func TestOpen(t *testing.T) {
	s, b := open(t)
	euro := virtualaccount.Application{AccountID: "fac_1", OwnerID: "usr_1", Currency: money.EUR, Holder: "Ada Lovelace",
		Email: "ada@example.com"}
	if _, ok := b.OpenImmediately(euro); ok {
		t.Error("the account was opened without a request")
	}
	for range 2 { // the second request has the same idempotency key
		got, err := b.Open(t.Context(), euro)
		want := virtualaccount.Opened{Ref: "cus_1",
			Details: virtualaccount.Details{Holder: "Agent Ltd", IBAN: "NL91ABNA0417164300", BIC: "AAAANL2A"}}
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	dollar := euro
	dollar.AccountID, dollar.Currency = "fac_2", money.USD
	got, err := b.Open(t.Context(), dollar)
	if want := (virtualaccount.Opened{Ref: "cus_2",
		Details: virtualaccount.Details{Holder: "Ada Lovelace", BankName: "Some Bank", RoutingNumber: "999999992",
			AccountNumber: "11119987600453127"}}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if n := s.Customers(); n != 2 {
		t.Errorf("%d customers for two accounts", n)
	}

	// Permanent refusals are distinguished from temporary failures, and Stripe's message is not passed on.
	other := euro
	other.AccountID = "fac_3"
	for status, final := range map[int]bool{400: true, 401: false, 429: false, 500: false} {
		s.Refuse(status)
		_, err := b.Open(t.Context(), other)
		if err == nil || errors.Is(err, virtualaccount.ErrRefused) != final || strings.Contains(err.Error(), "Ada") {
			t.Errorf("%d: %v", status, err)
		}
	}
	s.Refuse(0)
	other.AccountID, other.Holder = "fac_1", "Another Person" // reuses the idempotency key of another request
	if _, err := b.Open(t.Context(), other); err == nil || errors.Is(err, virtualaccount.ErrRefused) {
		t.Errorf("a reused key: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Open(ended, euro); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled call: %v", err)
	}
}

func TestReceipts(t *testing.T) {
	s, b := open(t)
	var cursor string
	var seen []string
	collect := func() (n int) {
		t.Helper()
		got, next, err := b.Receipts(t.Context(), "cus_1", money.EUR, cursor)
		testkit.Check(t, err)
		for _, r := range got {
			if r.Amount.Asset() != money.EUR || r.Amount.Units() <= 0 || len(seen) > 0 && r.Reference <= seen[len(seen)-1] {
				t.Errorf("%+v after %v", r, seen)
			}
			seen = append(seen, r.Reference)
		}
		cursor = next
		return len(got)
	}
	if collect() != 0 || cursor != "" {
		t.Errorf("%v %q", seen, cursor)
	}
	for i := range 250 {
		s.Add("funded", "eur", int64(i+1))
	}
	s.Add("applied_to_payment", "eur", -5)
	s.Add("funded", "usd", 7)
	if n := collect(); n != 250 {
		t.Errorf("first call: %d", n)
	}
	if n := collect(); n != 0 {
		t.Errorf("nothing new: %d", n)
	}
	for range 230 {
		s.Add("funded", "eur", 1)
	}
	if n := collect(); n != 230 {
		t.Errorf("later: %d", n)
	}
	s.Refuse(500)
	if _, next, err := b.Receipts(t.Context(), "cus_1", money.EUR, cursor); err == nil || next != cursor {
		t.Errorf("%q %v", next, err)
	}
}
