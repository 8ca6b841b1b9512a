package stipend_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"

	stipend "github.com/stipend/stipend/sdk/go"
)

// Create a payroll and print what to pay, and to which address.
func Example() {
	client := stipend.New("http://127.0.0.1:8080", stipend.APIKey("stp_sandbox_key_…"))
	payroll, err := client.Payrolls.Create(context.Background(), &stipend.PayrollCreateParams{
		Currency:   "USD",
		ExternalID: "run-2026-09",
		ToPay:      []stipend.ToPayItem{{UserID: "usr_…", AmountFiat: "1250.50"}},
	}, stipend.WithIdempotencyKey("run-2026-09")) // however often this runs, the payees are paid once
	if err != nil {
		log.Fatal(err)
	}
	q := payroll.Quote
	fmt.Println("Pay", q.FundingAmount, q.FundingCurrency, "to", q.FundingDetails.Address, "before", q.ValidTo)
}

// An error of the API names every problem of the request.
func ExampleError() {
	client := stipend.New("http://127.0.0.1:8080", stipend.APIKey("stp_sandbox_key_…"))
	_, err := client.Payrolls.Get(context.Background(), "prl_…", nil)
	var e *stipend.Error
	if errors.As(err, &e) {
		fmt.Println(e.Status, e.Code, e.Detail, e.RequestID)
		for _, field := range e.Errors {
			fmt.Println(field.Pointer, field.Message)
		}
	}
}

// Iterate over all released payrolls.
func ExamplePayrollsService_All() {
	client := stipend.New("http://127.0.0.1:8080", stipend.APIKey("stp_sandbox_key_…"))
	for payroll, err := range client.Payrolls.All(context.Background(), &stipend.PayrollListParams{Status: "released"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(payroll.PayrollID, payroll.Created)
	}
}

// Receive webhooks.
func ExampleVerifyWebhook() {
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		event, err := stipend.VerifyWebhook(body, r.Header, "whsec_…")
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		log.Println(event.Event, event.ID)
	})
}
