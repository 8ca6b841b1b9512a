package httpapi

import (
	"context"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/country/workday"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/webhook"
)

type (
	payrollCreateInput struct{ Body PayrollCreateBody }

	// PayrollCreateBody is exported because the contract omits the fields of unexported embedded types.
	PayrollCreateBody struct {
		CompanyID       string      `json:"company_id,omitempty" maxLength:"64"`
		ToPay           []toPayItem `json:"to_pay" minItems:"1" maxItems:"10000"`
		FundingMethod   string      `json:"funding_method,omitempty" minLength:"1" maxLength:"64"`
		FundingCurrency string      `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		FundingNetwork  string      `json:"funding_network,omitempty" minLength:"1" maxLength:"20"`
		Currency        string      `json:"currency,omitempty" minLength:"1" maxLength:"10" doc:"Currency of amount_fiat."`
		ExternalID      string      `json:"external_id,omitempty" maxLength:"255"`
		PayDate         string      `json:"pay_date,omitempty" maxLength:"10" format:"date" example:"2026-09-30"`
		TimeZone        string      `json:"time_zone,omitempty" maxLength:"64" example:"America/New_York"`
		WorkingDay      string      `json:"working_day,omitempty" enum:"none,before,after" example:"before"`
		Calendar        string      `json:"calendar,omitempty" maxLength:"8" example:"US"`
		PeriodStart     string      `json:"period_start,omitempty" maxLength:"10" format:"date" example:"2026-09-01"`
		PeriodEnd       string      `json:"period_end,omitempty" maxLength:"10" format:"date" example:"2026-09-30"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	toPayItem struct {
		AmountFiat        Decimal `json:"amount_fiat,omitempty"`
		ReceiveAmount     Decimal `json:"receive_amount,omitempty"`
		ReceiveCurrency   string  `json:"receive_currency,omitempty" minLength:"1" maxLength:"10"`
		UserID            string  `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		CompanyID         string  `json:"company_id,omitempty" maxLength:"64"`
		Country           string  `json:"country,omitempty" maxLength:"2"`
		IsPremium         bool    `json:"is_premium,omitempty"`
		InvoiceID         string  `json:"invoice_id,omitempty" maxLength:"64"`
		Description       string  `json:"description,omitempty" maxLength:"500"`
		Category          string  `json:"category,omitempty" maxLength:"100" example:"salary"`
		ExternalPaymentID string  `json:"external_payment_id,omitempty" maxLength:"255"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	payrollCreated struct {
		PayrollID string                `json:"payroll_id"`
		Fees      Decimal               `json:"fees"`
		Volume    Decimal               `json:"volume_input_in_input_currency"`
		Total     Decimal               `json:"total_input_in_input_currency"`
		Quote     *webhook.PayrollQuote `json:"quote,omitzero" doc:"Only present if the payroll is funded by crypto."`
		Transfer  *bankTransfer         `json:"bank_transfer,omitzero" doc:"Present when the payroll is funded by bank."`
		DebitID   string                `json:"debit_id,omitempty"`
	}

	bankTransfer struct {
		Holder    string  `json:"account_holder_name"`
		IBAN      string  `json:"iban" doc:"Empty if the account has none."`
		BIC       string  `json:"bic" doc:"Empty if not required."`
		Routing   string  `json:"routing_number" doc:"For an account in the United States; otherwise empty."`
		Number    string  `json:"account_number" doc:"Empty if the account has an IBAN."`
		Currency  string  `json:"currency"`
		Amount    Decimal `json:"amount" doc:"Amount still due."`
		Reference string  `json:"reference" example:"PRL06GZXDN9039YA1ACFFV86BRHZW"`
	}

	payrollUpdateInput struct{ Body payrollUpdateBody }

	payrollUpdateBody struct {
		CompanyID   string      `json:"company_id,omitempty" maxLength:"64"`
		PayrollID   string      `json:"payroll_id" maxLength:"64"`
		ToPay       []toPayItem `json:"to_pay,omitempty" minItems:"1" maxItems:"10000"`
		ExternalID  *string     `json:"external_id,omitempty" maxLength:"255"`
		PeriodStart *string     `json:"period_start,omitempty" maxLength:"10" example:"2026-09-01"`
		PeriodEnd   *string     `json:"period_end,omitempty" maxLength:"10" example:"2026-09-30"`
		Documents   []string    `json:"document_ids,omitempty" maxItems:"1000"`

		Metadata *map[string]string `json:"metadata,omitempty" doc:"Replaces all metadata; empty removes them."`
	}

	payrollRefInput struct{ Body payrollRefBody }

	payrollRefBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		PayrollID string `json:"payroll_id" maxLength:"64"`
	}

	payrollRefreshed struct {
		PayrollID string                 `json:"payroll_id"`
		Quotes    []webhook.PayrollQuote `json:"quotes"`
	}

	payrollPreview struct {
		Currency        string        `json:"currency"`
		FundingMethod   string        `json:"funding_method"`
		FundingCurrency string        `json:"funding_currency"`
		Fees            Decimal       `json:"fees"`
		Volume          Decimal       `json:"volume_input_in_input_currency"`
		Total           Decimal       `json:"total_input_in_input_currency"`
		FundingAmount   *Decimal      `json:"funding_amount,omitzero"`
		Rate            *Decimal      `json:"rate,omitzero"`
		PayDate         string        `json:"pay_date" example:"2026-09-30"`
		Payments        []previewItem `json:"payments"`
		Approvals       int64         `json:"approvals_needed"`
		Blockers        []wrong       `json:"blockers" doc:"Reasons why its creation would be rejected; empty if none."`
	}

	previewItem struct {
		UserID  string         `json:"user_id"`
		Name    string         `json:"name"`
		Amount  Decimal        `json:"amount_fiat"`
		Receive Decimal        `json:"receive_amount"`
		In      string         `json:"receive_currency"`
		Fees    Decimal        `json:"fees"`
		Outputs []previewShare `json:"outputs"`
	}

	previewShare struct {
		DistributionID string  `json:"distribution_id"`
		Currency       string  `json:"output_currency"`
		Volume         Decimal `json:"volume_input_in_input_currency"`
	}

	payrollList struct {
		CompanyID  string       `query:"company_id"`
		Status     payrollState `query:"status"`
		ExternalID string       `query:"external_id"`
		From       time.Time    `query:"from" doc:"Created at this time or later."`
		To         time.Time    `query:"to" doc:"Created before this time."`
		PayeeID    string       `query:"payee_id" maxLength:"64" doc:"ID of a payee, as in to_pay."`
		Amount     string       `query:"amount" maxLength:"30" doc:"Total, volume, or amount of a payment."`
		Search     string       `query:"search" maxLength:"100" doc:"Part of a reference, description, category or invoice."`

		Metadata map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
		cursorPaging
	}

	paymentList struct {
		CompanyID string       `query:"company_id"`
		PayeeID   string       `query:"payee_id" maxLength:"64" doc:"ID of a payee, as in to_pay."`
		Status    paymentState `query:"status"`
		From      time.Time    `query:"from" doc:"Of payrolls created at this time or later."`
		To        time.Time    `query:"to" doc:"Of payrolls created before this time."`

		Metadata map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
		cursorPaging
	}

	paymentPage struct {
		Data []PaymentSummary `json:"data" doc:"Payments of the page."`
		Meta meta             `json:"meta"`
	}

	// PaymentSummary is exported because the contract omits the fields of unexported embedded types.
	PaymentSummary struct {
		SubpayrollID      string       `json:"subpayroll_id"`
		PayrollID         string       `json:"payroll_id"`
		ExternalID        string       `json:"external_id" doc:"Your own reference of the payroll; may be empty."`
		UserID            string       `json:"user_id"`
		RecipientID       string       `json:"recipient_id"`
		Status            paymentState `json:"status"`
		Reason            string       `json:"reason"`
		Currency          string       `json:"currency"`
		AmountFiat        Decimal      `json:"amount_fiat"`
		ReceiveAmount     Decimal      `json:"receive_amount"`
		ReceiveCurrency   string       `json:"receive_currency"`
		Fees              Decimal      `json:"fees"`
		InvoiceID         string       `json:"invoice_id"`
		Description       string       `json:"description"`
		Category          string       `json:"category" doc:"Your own category of the payment." example:"salary"`
		ExternalPaymentID string       `json:"external_payment_id"`
		Created           Time         `json:"created" doc:"When its payroll was created."`

		Metadata map[string]string `json:"metadata"`
	}

	payrollPage struct {
		Data []PayrollSummary `json:"data"`
		Meta meta             `json:"meta"`
	}

	// PayrollSummary is exported because the contract omits the fields of unexported embedded types.
	PayrollSummary struct {
		PayrollID       string                `json:"payroll_id"`
		CompanyID       string                `json:"company_id"`
		ExternalID      string                `json:"external_id"`
		Status          payrollState          `json:"status"`
		FundingState    string                `json:"funding_state" enum:"none,detected,partial,confirming,funded,late,over"`
		Currency        string                `json:"currency"`
		FundingMethod   string                `json:"funding_method"`
		FundingCurrency string                `json:"funding_currency"`
		Payees          int64                 `json:"payees"`
		Fees            Decimal               `json:"fees"`
		Volume          Decimal               `json:"volume_input_in_input_currency"`
		Total           Decimal               `json:"total_input_in_input_currency"`
		PayDate         string                `json:"pay_date" example:"2026-09-30"`
		PeriodStart     string                `json:"period_start" example:"2026-09-01"`
		PeriodEnd       string                `json:"period_end" example:"2026-09-30"`
		Created         Time                  `json:"created"`
		Updated         Time                  `json:"updated"`
		Quote           *webhook.PayrollQuote `json:"quote,omitzero"`

		Metadata map[string]string `json:"metadata"`
	}

	payrollGet struct {
		PayrollID string `path:"payroll_id"`
		CompanyID string `query:"company_id"`
	}

	payrollDetail struct {
		PayrollSummary
		FundedAmount Decimal          `json:"funded_amount" doc:"Confirmed, in the funding currency."`
		HoldReason   string           `json:"hold_reason" doc:"Why it is on hold; empty when it is not."`
		Approval     *payrollApproval `json:"approval,omitzero" doc:"Only present if approval is pending or was given."`
		Transfer     *bankTransfer    `json:"bank_transfer,omitzero"`
		DebitID      string           `json:"debit_id,omitempty"`
		Payments     []paymentDetail  `json:"payments"`
		Deposits     []payrollDeposit `json:"deposits"`
		Timeline     []payrollStep    `json:"timeline"`
	}

	payrollApproval struct {
		Needed int64 `json:"needed" doc:"Required approvals by members other than its creator." example:"2"`
		Given  int64 `json:"given" doc:"Approvals given." example:"1"`
	}

	paymentDetail struct {
		SubpayrollID       string         `json:"subpayroll_id"`
		UserID             string         `json:"user_id"`
		RecipientID        string         `json:"recipient_id"`
		Status             paymentState   `json:"status"`
		Reason             string         `json:"reason"`
		DestinationChanged *Time          `json:"destination_changed,omitzero" example:"2026-09-14T09:30:00Z"`
		Warnings           []warning      `json:"warnings"`
		AmountFiat         Decimal        `json:"amount_fiat"`
		ReceiveAmount      Decimal        `json:"receive_amount"`
		ReceiveCurrency    string         `json:"receive_currency"`
		Fees               Decimal        `json:"fees"`
		Country            string         `json:"country"`
		IsPremium          bool           `json:"is_premium"`
		InvoiceID          string         `json:"invoice_id"`
		Description        string         `json:"description"`
		Category           string         `json:"category" doc:"Your own category of the payment." example:"salary"`
		ExternalPaymentID  string         `json:"external_payment_id"`
		Received           bool           `json:"received"`
		Released           bool           `json:"released"`
		Fulfilled          bool           `json:"fulfilled"`
		Outputs            []payoutOutput `json:"outputs"`

		Metadata map[string]string `json:"metadata"`
	}

	warning struct {
		Code string `json:"code" enum:"first_payment,destination_changed,unusual_amount,frequent_payments,account_check"`
		Text string `json:"text" doc:"Explanation for approvers, in English."`
	}

	payoutOutput struct {
		OutputID       string  `json:"output_id"`
		DistributionID string  `json:"distribution_id"`
		Status         string  `json:"status" enum:"queued,prepared,sent,in_doubt,fulfilled,failed,returned,cancelled"`
		Reason         string  `json:"reason"`
		InputCurrency  string  `json:"input_currency"`
		OutputCurrency string  `json:"output_currency"`
		VolumeInput    Decimal `json:"volume_input_in_input_currency"`
		VolumeOutput   Decimal `json:"volume_output_in_output_currency"`
		RateBase       string  `json:"rate_base" example:"BTC"`
		Rate           Decimal `json:"rate"`
		Address        string  `json:"address"`
		TxHash         string  `json:"tx_hash"`
		Preimage       string  `json:"payment_preimage"`
	}

	payrollDeposit struct {
		DepositID     string  `json:"deposit_id"`
		Status        string  `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		Currency      string  `json:"currency"`
		Amount        Decimal `json:"amount"`
		TxHash        string  `json:"tx_hash" doc:"For a bank transfer, its ID in this service."`
		FirstSeen     Time    `json:"first_seen"`
		Confirmations int64   `json:"confirmations"`
	}

	payrollStep struct {
		ObjectID string        `json:"object_id"`
		From     previousState `json:"from"`
		To       timelineState `json:"to"`
		Reason   string        `json:"reason"`
		At       Time          `json:"at"`
	}

	payrollCancelled struct {
		PayrollID string `json:"payroll_id"`
		Status    string `json:"status" enum:"cancelled"`
	}
)

// params converts the request body to the parameters of payroll.Service.
func (b *PayrollCreateBody) params(company string) payroll.CreateParams {
	return payroll.CreateParams{
		CompanyID: company, FundingMethod: b.FundingMethod, FundingCurrency: b.FundingCurrency,
		FundingNetwork: b.FundingNetwork, Currency: b.Currency, ExternalID: b.ExternalID,
		Metadata: b.Metadata, Period: payroll.Period{Start: b.PeriodStart, End: b.PeriodEnd},
		PayDay: payroll.PayDay{
			Date: b.PayDate, TimeZone: b.TimeZone, WorkingDay: workday.Rule(b.WorkingDay), Calendar: b.Calendar,
		},
		ToPay: payees(b.ToPay),
	}
}

// payees converts the items of to_pay to payees.
func payees(items []toPayItem) []payroll.Payee {
	all := make([]payroll.Payee, len(items))
	for i := range items {
		t := &items[i]
		all[i] = payroll.Payee{
			AmountText: string(t.AmountFiat), ReceiveText: string(t.ReceiveAmount), ReceiveCurrency: t.ReceiveCurrency,
			UserID: t.UserID, CompanyID: t.CompanyID, Country: t.Country,
			IsPremium: t.IsPremium, InvoiceID: t.InvoiceID, Description: t.Description, Category: t.Category,
			ExternalPaymentID: t.ExternalPaymentID, Metadata: t.Metadata,
		}
	}
	return all
}

func createPayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollCreateInput) (*payrollCreated, error) {
	p, err := c.Payroll.Create(ctx, tx, c.by, in.Body.params(c.company))
	if err != nil {
		return nil, err
	}
	return showCreated(ctx, tx, c, p)
}

// period returns the requested pay period, or nil if the period does not change.
func (b *payrollUpdateBody) period() *payroll.Period {
	if b.PeriodStart == nil && b.PeriodEnd == nil {
		return nil
	}
	text := func(day *string) string {
		if day == nil {
			return ""
		}
		return *day
	}
	return &payroll.Period{Start: text(b.PeriodStart), End: text(b.PeriodEnd)}
}

func updatePayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollUpdateInput) (*payrollCreated, error) {
	p, err := c.Vendor.Edit(ctx, tx, c.by, payroll.EditParams{
		PayrollID: in.Body.PayrollID, ToPay: payeesOrNil(in.Body.ToPay), ExternalID: in.Body.ExternalID,
		Period: in.Body.period(), Metadata: in.Body.Metadata,
	}, in.Body.Documents)
	if err != nil {
		return nil, err
	}
	return showCreated(ctx, tx, c, p)
}

func showCreated(ctx context.Context, tx *db.Tx, c *request, p payroll.Payroll) (*payrollCreated, error) {
	transfer, err := showTransfer(c, &p)
	if err != nil {
		return nil, err
	}
	debit, err := debitOf(ctx, tx, p)
	return &payrollCreated{p.ID, amount(p.Fees), amount(p.Volume), amount(p.Total), showQuote(p.Quote), transfer,
		debit}, err
}

// debitOf returns the ID of the newest direct debit that funds a payroll, or "" if the payroll is funded in another
// way.
func debitOf(ctx context.Context, tx *db.Tx, p payroll.Payroll) (string, error) {
	if p.FundingMethod != payroll.MethodDebit {
		return "", nil
	}
	d, err := directdebit.OfPayroll(ctx, tx, p.CompanyID, p.ID)
	return d.ID, err
}

// showTransfer returns the details of the bank transfer that a pending payroll waits for, or nil if the payroll is
// not funded by bank transfer.
func showTransfer(c *request, p *payroll.Payroll) (*bankTransfer, error) {
	t, ok, err := c.Payroll.Transfer(p)
	if !ok || err != nil || p.State != payroll.Pending {
		return nil, err
	}
	iban, number := t.To.Identifiers()
	return &bankTransfer{
		Holder: t.To.Name, IBAN: iban, BIC: t.To.BIC, Routing: t.To.Routing, Number: number,
		Currency: string(t.Amount.Asset()), Amount: amount(t.Amount), Reference: t.Reference,
	}, nil
}

func showQuote(q *quote.Quote) *webhook.PayrollQuote {
	if q == nil {
		return nil
	}
	shown := q.ForPayroll()
	return &shown
}

func refreshQuote(ctx context.Context, tx *db.Tx, c *request, in *payrollRefInput) (*payrollRefreshed, error) {
	p, quotes, err := c.Payroll.Refresh(ctx, tx, c.by, in.Body.PayrollID)
	if err != nil {
		return nil, err
	}
	out := &payrollRefreshed{PayrollID: p.ID, Quotes: make([]webhook.PayrollQuote, len(quotes))}
	for i := range quotes {
		out.Quotes[i] = quotes[i].ForPayroll()
	}
	return out, nil
}

func cancelPayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollRefInput) (*payrollCancelled, error) {
	p, err := c.Payroll.Cancel(ctx, tx, c.by, in.Body.PayrollID)
	if err != nil {
		return nil, err
	}
	return &payrollCancelled{p.ID, string(p.State)}, nil
}

// previewPayroll handles a read with the method POST: its body is that of create-payroll.
func previewPayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollCreateInput) (*payrollPreview, error) {
	v, err := c.Payroll.Preview(ctx, tx, c.by, in.Body.params(c.company))
	if err != nil {
		return nil, err
	}
	return showPreview(v), nil
}

func showPreview(v payroll.Preview) *payrollPreview {
	out := &payrollPreview{
		Currency: string(v.Currency), FundingMethod: v.FundingMethod, FundingCurrency: string(v.FundingCurrency),
		Fees: amount(v.Fees), Volume: amount(v.Volume), Total: amount(v.Total), Approvals: v.Approvals, PayDate: v.PayDate,
		Payments: make([]previewItem, len(v.Items)), Blockers: make([]wrong, len(v.Blockers)),
	}
	if v.Funding.Asset() != "" {
		d := amount(v.Funding)
		out.FundingAmount = &d
	}
	if !v.Rate.IsZero() {
		d := Decimal(v.Rate.String())
		out.Rate = &d
	}
	for i, it := range v.Items {
		p := previewItem{
			UserID: it.PayeeID, Name: it.Name, Amount: amount(it.Amount), Fees: amount(it.Fee),
			Receive: received(it.Receive), In: string(it.Receive.Asset()),
			Outputs: make([]previewShare, len(it.Shares)),
		}
		for j, s := range it.Shares {
			p.Outputs[j] = previewShare{s.Destination.ID, string(s.Destination.Symbol), amount(s.Amount)}
		}
		out.Payments[i] = p
	}
	for i, f := range v.Blockers {
		out.Blockers[i] = showField(f)
	}
	return out
}

func showField(f apierr.Field) wrong {
	if f.In == "" {
		f.In = "body"
	}
	return wrong(f)
}

func listPayrolls(ctx context.Context, tx *db.Tx, c *request, in *payrollList) (*payrollPage, error) {
	var payees []string
	if in.PayeeID != "" {
		payees = []string{in.PayeeID}
	}
	all, total, err := c.Payroll.List(ctx, tx, c.by, c.company, payroll.Filter{
		Status: payroll.State(in.Status), ExternalID: in.ExternalID, From: in.From, To: in.To, Page: in.page(),
		PayeeIDs: payees, Amount: in.Amount, Text: in.Search, Metadata: in.Metadata,
	})
	if err != nil {
		return nil, err
	}
	out := &payrollPage{Data: make([]PayrollSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x payroll.Payroll) string { return x.ID })}
	for i := range all {
		out.Data[i] = summarize(&all[i])
	}
	return out, nil
}

func listPayments(ctx context.Context, tx *db.Tx, c *request, in *paymentList) (*paymentPage, error) {
	all, total, err := c.Payroll.Payments(ctx, tx, c.by, c.company, payroll.PaymentFilter{
		PayeeID: in.PayeeID, State: payroll.State(in.Status), From: in.From, To: in.To, Page: in.page(),
		Metadata: in.Metadata,
	})
	if err != nil {
		return nil, err
	}
	out := &paymentPage{Data: make([]PaymentSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x payroll.PayeePayment) string { return x.ID })}
	for i := range all {
		out.Data[i] = summarizePayment(&all[i])
	}
	return out, nil
}

func summarizePayment(m *payroll.PayeePayment) PaymentSummary {
	return PaymentSummary{
		SubpayrollID: m.ID, PayrollID: m.PayrollID, ExternalID: m.ExternalID, UserID: m.UserID, RecipientID: m.PayeeID,
		Status: paymentState(m.State), Reason: m.Reason, Currency: string(m.Amount.Asset()),
		AmountFiat: amount(m.Amount), ReceiveAmount: received(m.Receive), ReceiveCurrency: string(m.Receive.Asset()),
		Fees: amount(m.Fee), InvoiceID: m.InvoiceID, Description: m.Description,
		Category: m.Category, ExternalPaymentID: m.ExternalPaymentID, Created: Time(m.CreatedAt),
		Metadata: m.Metadata,
	}
}

func summarize(p *payroll.Payroll) PayrollSummary {
	return PayrollSummary{
		PayrollID: p.ID, CompanyID: p.CompanyID, ExternalID: p.ExternalID, Status: payrollState(p.State),
		FundingState: string(p.FundingState), Currency: string(p.Currency), FundingMethod: p.FundingMethod,
		FundingCurrency: string(p.FundingCurrency), Payees: p.Count, Fees: amount(p.Fees), Volume: amount(p.Volume),
		Total: amount(p.Total), PayDate: p.PayDate, PeriodStart: p.Period.Start, PeriodEnd: p.Period.End,
		Created: Time(p.CreatedAt), Updated: Time(p.UpdatedAt), Quote: showQuote(p.Quote), Metadata: p.Metadata,
	}
}

func getPayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollGet) (*payrollDetail, error) {
	p, err := c.Payroll.Get(ctx, tx, c.by, in.PayrollID)
	if err != nil {
		return nil, err
	}
	out := &payrollDetail{
		PayrollSummary: summarize(&p), FundedAmount: amount(p.Escrow),
		Payments: make([]paymentDetail, len(p.Payments)), Timeline: make([]payrollStep, len(p.Timeline)),
	}
	if p.State == payroll.OnHold {
		out.HoldReason = p.HoldReason
	}
	if p.Approval.Needed > 0 {
		out.Approval = &payrollApproval{p.Approval.Needed, int64(len(p.Approval.By))}
	}
	warnings, err := c.Payroll.Warnings(ctx, tx, p)
	if err != nil {
		return nil, err
	}
	for i := range p.Payments {
		m := &out.Payments[i]
		*m = showPayment(&p.Payments[i])
		for _, w := range warnings[m.SubpayrollID] {
			if w.Code == payroll.WarnDestination {
				m.DestinationChanged = (*Time)(&w.Since)
			}
			m.Warnings = append(m.Warnings, showWarning(w))
		}
	}
	for i, s := range p.Timeline {
		out.Timeline[i] = payrollStep{s.ObjectID, previousState(s.From), timelineState(s.To), s.Reason, Time(s.At)}
	}
	if out.Transfer, err = showTransfer(c, &p); err != nil {
		return nil, err
	}
	if out.DebitID, err = debitOf(ctx, tx, p); err != nil {
		return nil, err
	}
	out.Deposits, err = showDeposits(ctx, tx, c, p)
	return out, err
}

// accountWarnings explains the results of account checks to approvers.
var accountWarnings = map[destination.CheckResult]string{
	"":                           "The bank account has not been checked yet.",
	destination.CheckPending:     "The check of the bank account is not complete.",
	destination.CheckCloseMatch:  "The bank account's holder has a similar name, not the same. Ask the payee.",
	destination.CheckNoMatch:     "The bank account belongs to someone with another name. Ask the payee.",
	destination.CheckNotPossible: "The payee's bank could not check the account.",
	destination.CheckReturned:    "The payee's bank returned a prenote to the account. Ask the payee for a correction.",
}

func showWarning(w payroll.Warning) warning {
	v := warning{Code: string(w.Code)}
	switch w.Code {
	case payroll.WarnFirst:
		v.Text = "This is the first payment to this payee."
	case payroll.WarnDestination:
		v.Text = "The destination changed since the payee was last paid. Ask the payee in person or by phone."
	case payroll.WarnAmount:
		v.Text = fmt.Sprintf("The amount is over one and a half times the largest of the payee's last 12 payments, %s %s.",
			w.Most, w.Most.Asset())
	case payroll.WarnFrequent:
		v.Text = fmt.Sprintf("The payee got %d other payments in the last seven days.", w.Recent)
	case payroll.WarnAccount:
		v.Text = accountWarnings[w.Check]
	}
	return v
}

func showPayment(m *payroll.Payment) paymentDetail {
	d := paymentDetail{
		SubpayrollID: m.ID, UserID: m.UserID, RecipientID: m.PayeeID, Status: paymentState(m.State), Reason: m.Reason,
		AmountFiat: amount(m.Amount), ReceiveAmount: received(m.Receive), ReceiveCurrency: string(m.Receive.Asset()),
		Fees: amount(m.Fee), Country: m.Country, IsPremium: m.IsPremium, InvoiceID: m.InvoiceID,
		Description: m.Description, Category: m.Category, ExternalPaymentID: m.ExternalPaymentID, Received: m.Received,
		Released: m.Released, Fulfilled: m.Fulfilled, Outputs: make([]payoutOutput, len(m.Outputs)), Warnings: []warning{},
		Metadata: m.Metadata,
	}
	for i := range m.Outputs {
		d.Outputs[i] = showOutput(&m.Outputs[i])
	}
	return d
}

// received returns the exact amount that a payee receives, or an empty Decimal, which is written as 0, if it is zero.
func received(a money.Amount) Decimal {
	if a.Sign() == 0 {
		return "0"
	}
	return amount(a)
}

func showOutput(o *payout.Output) payoutOutput {
	return payoutOutput{
		OutputID: o.ID, DistributionID: o.DistributionID, Status: string(o.State), Reason: o.Reason,
		InputCurrency: string(o.Input.Asset()), OutputCurrency: string(o.Amount.Asset()), VolumeInput: amount(o.Input),
		VolumeOutput: amount(o.Amount), RateBase: string(o.Rate.Base()), Rate: Decimal(o.Rate.String()), Address: o.Address,
		TxHash: o.TxID, Preimage: o.Proof,
	}
}

// showDeposits returns the payroll's deposits with their current numbers of confirmations.
func showDeposits(ctx context.Context, tx *db.Tx, c *request, p payroll.Payroll) ([]payrollDeposit, error) {
	all, err := deposit.ForObject(ctx, tx, c.company, p.ID)
	if err != nil {
		return nil, err
	}
	shown := make([]payrollDeposit, len(all))
	for i, d := range all {
		shown[i] = payrollDeposit{
			DepositID: d.ID, Status: string(d.State), Currency: string(d.Amount.Asset()), Amount: amount(d.Amount),
			TxHash: d.TxID, FirstSeen: Time(d.FirstSeen),
		}
		if d.ByBank() {
			continue
		}
		o, err := chain.GetOutput(ctx, tx, d.Chain, d.Outpoint)
		if err != nil {
			return nil, err
		}
		shown[i].Confirmations = o.Depth
	}
	return shown, nil
}
