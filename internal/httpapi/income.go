package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/payroll"
)

type (
	incomeList struct {
		UserID string      `query:"user_id" maxLength:"64"`
		Status incomeState `query:"status"`
		From   time.Time   `query:"from" doc:"Created at this time or later."`
		To     time.Time   `query:"to" doc:"Created before this time."`
		cursorPaging
	}

	incomePage struct {
		Data []IncomeSummary `json:"data"`
		Meta meta            `json:"meta"`
	}

	// IncomeSummary is exported because the contract omits the fields of unexported embedded types.
	IncomeSummary struct {
		IncomeID          string      `json:"income_id"`
		UserID            string      `json:"user_id"`
		Status            incomeState `json:"status"`
		Reason            string      `json:"reason"`
		Currency          string      `json:"currency"`
		Amount            Decimal     `json:"amount"`
		Withheld          Decimal     `json:"withheld"`
		Fees              Decimal     `json:"fees"`
		TransferID        string      `json:"transfer_id"`
		InvoiceID         string      `json:"invoice_id"`
		ExternalCompanyID string      `json:"external_company_id"`
		Created           Time        `json:"created"`
		Updated           Time        `json:"updated"`
	}

	incomeGet struct {
		IncomeID string `path:"income_id"`
		UserID   string `query:"user_id" maxLength:"64"`
	}

	incomeDetail struct {
		IncomeSummary
		Outputs  []payoutOutput `json:"outputs"`
		Timeline []payrollStep  `json:"timeline"`
	}
)

func summarizeIncome(i *income.Income) IncomeSummary {
	return IncomeSummary{
		IncomeID: i.ID, UserID: i.UserID, Status: incomeState(i.State), Reason: i.Reason,
		Currency: string(i.Amount.Asset()), Amount: amount(i.Amount), Withheld: amount(i.Withheld), Fees: amount(i.Fee),
		TransferID: i.TransferID, InvoiceID: i.InvoiceID, ExternalCompanyID: i.PayerID, Created: Time(i.CreatedAt),
		Updated: Time(i.UpdatedAt),
	}
}

func listIncome(ctx context.Context, tx *db.Tx, c *request, in *incomeList) (*incomePage, error) {
	all, total, err := income.List(ctx, tx, c.by, in.UserID, income.Filter{
		State: payroll.State(in.Status), From: in.From, To: in.To, Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &incomePage{Data: make([]IncomeSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x income.Income) string { return x.ID })}
	for n := range all {
		out.Data[n] = summarizeIncome(&all[n])
	}
	return out, nil
}

func getIncome(ctx context.Context, tx *db.Tx, c *request, in *incomeGet) (*incomeDetail, error) {
	i, err := income.Get(ctx, tx, c.by, in.UserID, in.IncomeID)
	if err != nil {
		return nil, err
	}
	out := &incomeDetail{
		IncomeSummary: summarizeIncome(&i), Outputs: make([]payoutOutput, len(i.Outputs)),
		Timeline: make([]payrollStep, len(i.Timeline)),
	}
	for n := range i.Outputs {
		out.Outputs[n] = showOutput(&i.Outputs[n])
	}
	for n, s := range i.Timeline {
		out.Timeline[n] = payrollStep{s.ObjectID, previousState(s.From), timelineState(s.To), s.Reason, Time(s.At)}
	}
	return out, nil
}
