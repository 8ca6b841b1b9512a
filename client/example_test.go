package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/shopspring/decimal"

	"github.com/stipend/stipend/client"
)

// Create a payroll and say what must be paid, and where.
func Example() {
	c, err := client.New("http://127.0.0.1:8080", client.APIKey("stp_sandbox_key_…"))
	if err != nil {
		log.Fatal(err)
	}
	// The partner's own name for this pay run is its key: however often this program runs, it is paid once.
	ctx := client.WithIdempotencyKey(context.Background(), "run-2026-09")
	run, err := c.CreatePayroll(ctx, &client.PayrollCreateBody{
		Currency:   client.NewOptString("USD"),
		ExternalID: client.NewOptString("run-2026-09"),
		ToPay: []client.ToPayItem{
			{UserID: client.NewOptString("usr_…"), AmountFiat: decimal.RequireFromString("1250.50")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	quote := run.Quote.Value
	fmt.Println("pay", quote.FundingAmount, quote.FundingCurrency, "to", quote.FundingDetails.Address, "before", quote.ValidTo)
}

// An error of the service says by its code what is wrong, and lists every place.
func ExampleAsProblem() {
	c, err := client.New("http://127.0.0.1:8080", client.APIKey("stp_sandbox_key_…"))
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.GetPayroll(context.Background(), client.GetPayrollParams{PayrollID: "prl_…"})
	if p, status, ok := client.AsProblem(err); ok {
		fmt.Println(status, p.Code, p.Detail, p.RequestID)
		for _, e := range p.Errors {
			fmt.Println(e.Pointer, e.Message)
		}
	}
}
