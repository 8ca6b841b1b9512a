package httpapi

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/earnings"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
)

type (
	earningList struct {
		UserID string `query:"user_id" maxLength:"64"`
		Year   int    `query:"year" minimum:"2000" maximum:"9999" doc:"Default: the present year."`
		paging
	}

	earningPage struct {
		Data []EarningSummary `json:"data"`
		Meta meta             `json:"meta"`
	}

	// EarningSummary is exported because the contract omits the fields of unexported embedded types.
	EarningSummary struct {
		PaymentID   string       `json:"payment_id" doc:"Subpayroll or income."`
		Type        string       `json:"type" enum:"payroll,income"`
		From        string       `json:"from" doc:"Name of the company or payer, or empty."`
		Status      paymentState `json:"status"`
		Reason      string       `json:"reason"`
		Currency    string       `json:"currency"`
		Amount      Decimal      `json:"amount"`
		Fees        Decimal      `json:"fees" doc:"What the user paid."`
		Description string       `json:"description"`
		Reference   string       `json:"reference"`
		PeriodStart string       `json:"period_start" example:"2026-09-01"`
		PeriodEnd   string       `json:"period_end" example:"2026-09-30"`
		Created     Time         `json:"created"`
		Arrived     *Time        `json:"arrived,omitempty" doc:"When all of it had arrived; missing before."`
	}

	earningGet struct {
		PaymentID string `path:"payment_id" maxLength:"64"`
		UserID    string `query:"user_id" maxLength:"64"`
	}

	earningReceiptGet struct {
		earningGet
		Language string `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of the document."`
	}

	earningDetail struct {
		EarningSummary
		Outputs  []payoutOutput `json:"outputs"`
		Timeline []payrollStep  `json:"timeline"`
	}

	earningYearGet struct {
		UserID string `query:"user_id" maxLength:"64"`
		Year   int    `query:"year" minimum:"2000" maximum:"9999" doc:"Default: the present year."`
	}

	earningYearExport struct {
		earningYearGet
		Format   string `query:"format" enum:"csv,pdf" default:"csv" doc:"Format of the document."`
		Language string `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of a PDF."`
	}

	earningYear struct {
		UserID   string           `json:"user_id"`
		Year     int              `json:"year"`
		Totals   []earningTotal   `json:"totals" doc:"Sums by currency of the payments that arrived in the year (UTC)."`
		Payments []EarningSummary `json:"payments" doc:"Those payments, oldest first."`
	}

	earningTotal struct {
		Currency string  `json:"currency"`
		Amount   Decimal `json:"amount"`
	}

	emailChangeInput struct{ Body emailChangeBody }

	emailChangeBody struct {
		NewEmail string `json:"new_email" maxLength:"254" example:"ada@example.com"`
	}

	emailChangeRequested struct {
		Requested bool `json:"requested" doc:"Whether links were mailed to both addresses."`
	}

	ownData struct {
		Data jsontext.Value `json:"data" doc:"An object with everything that is stored about the user."`
	}

	splitPreviewInput struct {
		Body struct {
			UserID      string       `json:"user_id" minLength:"1" maxLength:"64"`
			Amount      Decimal      `json:"amount" doc:"Amount of a payment, such as 1000."`
			Currency    string       `json:"currency" maxLength:"10" doc:"Fiat currency of the payment."`
			Allocations []allocation `json:"allocations,omitempty" maxItems:"3" doc:"Default: as they are now."`
		}
	}

	splitPreview struct {
		Parts  []splitPart `json:"parts" doc:"What each destination receives."`
		Reason string      `json:"reason" doc:"Why such a payment could not be made, or empty."`
	}

	splitPart struct {
		DistributionID string  `json:"distribution_id"`
		Currency       string  `json:"currency"`
		Amount         Decimal `json:"amount" doc:"What the destination would get at the present price."`
		Input          Decimal `json:"input" doc:"Its part of the payment, in the payment's currency."`
	}
)

func (c *request) earnings(userID string) earnings.Reader {
	return earnings.Reader{Sealer: c.Sealer, By: c.by, UserID: userID}
}

func summarizeEarning(m *earnings.Payment) EarningSummary {
	s := EarningSummary{
		PaymentID: m.ID, Type: "payroll", From: m.From, Status: paymentState(m.State), Reason: m.Reason,
		Currency: string(m.Amount.Asset()), Amount: amount(m.Amount), Fees: amount(m.Fee), Description: m.About,
		Reference: m.Reference, PeriodStart: m.Period.Start, PeriodEnd: m.Period.End, Created: Time(m.At),
	}
	if m.IsIncome() {
		s.Type = "income"
	}
	if !m.Arrived.IsZero() {
		s.Arrived = (*Time)(&m.Arrived)
	}
	return s
}

func listEarnings(ctx context.Context, tx *db.Tx, c *request, in *earningList) (*earningPage, error) {
	year := cmp.Or(in.Year, tx.Now().UTC().Year())
	from, to := earnings.Year(year)
	all, err := c.earnings(in.UserID).List(ctx, tx, from, to, year == tx.Now().UTC().Year())
	if err != nil {
		return nil, err
	}
	page := in.page()
	begin := min(page.Offset(), int64(len(all)))
	some := all[begin:min(begin+int64(page.PerPage), int64(len(all)))]
	out := &earningPage{Data: make([]EarningSummary, len(some)), Meta: in.meta(int64(len(all)))}
	for i := range some {
		out.Data[i] = summarizeEarning(&some[i])
	}
	return out, nil
}

func getEarning(ctx context.Context, tx *db.Tx, c *request, in *earningGet) (*earningDetail, error) {
	m, err := c.earnings(in.UserID).Find(ctx, tx, in.PaymentID)
	if err != nil {
		return nil, err
	}
	out := &earningDetail{EarningSummary: summarizeEarning(&m), Outputs: make([]payoutOutput, len(m.Outputs)),
		Timeline: make([]payrollStep, len(m.Steps))}
	for i := range m.Outputs {
		out.Outputs[i] = showOutput(&m.Outputs[i])
	}
	for i, s := range m.Steps {
		out.Timeline[i] = payrollStep{s.ObjectID, previousState(s.From), timelineState(s.To), s.Reason, Time(s.At)}
	}
	return out, nil
}

func getEarningReceipt(ctx context.Context, tx *db.Tx, c *request, in *earningReceiptGet) (*file, error) {
	u, err := identity.ActingUser(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	m, err := c.earnings(in.UserID).Find(ctx, tx, in.PaymentID)
	if err != nil {
		return nil, err
	}
	return sent(c.documents(in.Language).ReceiptPDF(document.ReceiptOf(m, u.Name(), m.From), tx.Now()))
}

func getEarningYear(ctx context.Context, tx *db.Tx, c *request, in *earningYearGet) (*earningYear, error) {
	u, year, all, err := c.earnedIn(ctx, tx, in)
	if err != nil {
		return nil, err
	}
	sums, err := earnings.Totals(all)
	if err != nil {
		return nil, err
	}
	out := &earningYear{UserID: u.ID, Year: year, Totals: make([]earningTotal, len(sums)),
		Payments: make([]EarningSummary, len(all))}
	for i, sum := range sums {
		out.Totals[i] = earningTotal{string(sum.Asset()), amount(sum)}
	}
	for i := range all {
		out.Payments[i] = summarizeEarning(&all[i])
	}
	return out, nil
}

func exportEarningYear(ctx context.Context, tx *db.Tx, c *request, in *earningYearExport) (*file, error) {
	u, year, all, err := c.earnedIn(ctx, tx, &in.earningYearGet)
	if err != nil {
		return nil, err
	}
	if in.Format == formatPDF {
		return sent(c.documents(in.Language).EarningsPDF(u.ID, u.Name(), year, all, tx.Now()))
	}
	if err := earnings.LoadOutputs(ctx, tx, all); err != nil {
		return nil, err
	}
	return sent(document.EarningsCSV(year, all))
}

// earnedIn returns the payments that a user received in a year, with the user and the year.
func (c *request) earnedIn(ctx context.Context, tx *db.Tx, in *earningYearGet) (identity.User, int, []earnings.Payment,
	error) {
	year := cmp.Or(in.Year, tx.Now().UTC().Year())
	u, err := identity.ActingUser(ctx, tx, c.by, in.UserID)
	if err != nil {
		return u, year, nil, err
	}
	all, err := c.earnings(in.UserID).OfYear(ctx, tx, year)
	return u, year, all, err
}

func exportOwnData(ctx context.Context, tx *db.Tx, c *request, in *userGet) (*ownData, error) {
	e, err := c.earnings(in.UserID).Export(ctx, tx, c.KYC, false)
	if err != nil {
		return nil, err
	}
	for scope, leave := range map[identity.Scope]func(){
		identity.UserDocumentList:       func() { e.Documents = nil },
		identity.UserDistributionDetail: func() { e.Destinations, e.Changes = nil, nil },
		identity.UserPayerDetail:        func() { e.Payers = nil },
		identity.UserInvoiceDetail:      func() { e.Invoices = nil },
		identity.UserBankDetails:        func() { e.Payments = nil },
	} {
		if !c.by.Has(scope) {
			leave()
		}
	}
	data, err := json.Marshal(e)
	return &ownData{jsontext.Value(data)}, err
}

var errOwnEmail = apierr.New(apierr.Forbidden, "role_required",
	"Only the person can change the address. Use an access token that the person granted to the app.")

func changeEmail(ctx context.Context, tx *db.Tx, c *request, in *emailChangeInput) (*emailChangeRequested, error) {
	if c.by.UserID == "" || c.by.Kind != identity.KindOAuth {
		return nil, errOwnEmail
	}
	u, err := identity.GetUser(ctx, tx, c.Sealer, c.by.UserID)
	if err != nil {
		return nil, err
	}
	err = auth.RequestEmailChange(ctx, tx, c.Sealer, auth.Person{User: u, Language: u.Locale.Language}, in.Body.NewEmail)
	return &emailChangeRequested{err == nil}, err
}

func previewSplit(ctx context.Context, tx *db.Tx, c *request, in *splitPreviewInput) (*splitPreview, error) {
	b := &in.Body
	all, err := forUser(ctx, tx, c, b.UserID, func(id string) ([]destination.Destination, error) {
		return destination.List(ctx, tx, c.by, id)
	})
	if err != nil {
		return nil, err
	}
	if len(b.Allocations) > 0 {
		if err := destination.CheckShares(shares(b.Allocations)); err != nil {
			return nil, err
		}
		if all, err = destination.WithShares(all, shares(b.Allocations)); err != nil {
			return nil, err
		}
		if payroll.Allocated(all) == nil {
			return nil, destination.ErrTotal
		}
	}
	asset, ok := money.Lookup(b.Currency)
	if !ok || asset.IsCrypto() {
		return nil, destination.ErrCurrency.At("body", "/currency")
	}
	x, err := money.Parse(asset, string(b.Amount))
	if err != nil || x.Sign() <= 0 {
		return nil, errPreviewAmount.At("body", "/amount")
	}
	out := &splitPreview{Parts: []splitPart{}, Reason: payroll.ReasonNoDestination}
	used := payroll.Allocated(all)
	if len(used) == 0 {
		return out, nil
	}
	gets, problem, err := c.Payroll.Estimate(ctx, tx, x, used)
	if fault, is := apierr.As(err); is && fault.Kind == apierr.Unavailable {
		problem, err = payroll.ReasonConversion, nil
	}
	if err != nil {
		return nil, err
	}
	out.Reason = problem
	for _, g := range gets {
		out.Parts = append(out.Parts, splitPart{g.Destination.ID, string(g.Receives.Asset()), amount(g.Receives),
			amount(g.Amount)})
	}
	return out, nil
}

var errPreviewAmount = apierr.New(apierr.Invalid, "amount_not_positive",
	"amount is a number above 0 with at most the decimals of its currency, such as 1000.00.")
