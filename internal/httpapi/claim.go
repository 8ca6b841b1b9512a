package httpapi

import (
	"context"
	"io"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

type (
	claimCreateInput struct{ Body ClaimCreateBody }

	// ClaimCreateBody is exported because the contract omits the fields of unexported embedded types.
	ClaimCreateBody struct {
		CompanyID            string  `json:"company_id,omitempty" maxLength:"64"`
		PayerID              string  `json:"payer_id" maxLength:"128"`
		Amount               Decimal `json:"amount"`
		DenominationCurrency string  `json:"denomination_currency" maxLength:"10"`
		FundingCurrency      string  `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		Description          string  `json:"description,omitempty" maxLength:"500"`
		ReturnURL            string  `json:"return_url,omitempty" maxLength:"2000"`
		RedirectURL          string  `json:"redirect_url,omitempty" maxLength:"2000"`
		ExternalID           string  `json:"external_id,omitempty" maxLength:"255"`
		ExpiresIn            int64   `json:"expires_in,omitempty" minimum:"60" maximum:"7776000"`
		NotificationEmail    string  `json:"notification_email,omitempty" maxLength:"254"`

		Metadata  map[string]string `json:"metadata,omitempty"`
		LineItems []lineItemBody    `json:"line_items,omitempty" maxItems:"50"`
	}

	lineItemBody struct {
		Description string  `json:"description" maxLength:"500"`
		Quantity    int64   `json:"quantity,omitempty" minimum:"1" maximum:"1000000"`
		Amount      Decimal `json:"amount"`
	}

	lineItem struct {
		Description string `json:"description"`
		Quantity    int64  `json:"quantity"`
		Amount      string `json:"amount"`
	}

	claimRefInput struct{ Body claimRefBody }

	claimRefBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		ClaimID   string `json:"claim_id" maxLength:"64"`
	}

	claimRefundInput struct{ Body claimRefundBody }

	claimRefundBody struct {
		CompanyID string  `json:"company_id,omitempty" maxLength:"64"`
		ClaimID   string  `json:"claim_id" maxLength:"64"`
		Amount    Decimal `json:"amount,omitempty"`
		Currency  string  `json:"currency,omitempty" maxLength:"10"`
		Rate      string  `json:"rate,omitempty" enum:"current,paid"`
		Source    string  `json:"source,omitempty" enum:"claims,balance"`
	}

	refundRefInput struct{ Body refundRefBody }

	refundRefBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		ClaimID   string `json:"claim_id" maxLength:"64"`
		RefundID  string `json:"refund_id" maxLength:"64"`
	}

	// ClaimRefund is exported because the contract omits the fields of unexported embedded types.
	ClaimRefund struct {
		RefundID             string `json:"refund_id"`
		ClaimID              string `json:"claim_id"`
		Status               string `json:"status" enum:"awaiting_approval,offered,accepted,paid,withdrawn"`
		Currency             string `json:"currency"`
		Network              string `json:"network" doc:"Network of the refund, or lightning." example:"bitcoin"`
		Amount               string `json:"amount" example:"0.00005000"`
		DenominationAmount   string `json:"denomination_amount,omitempty"`
		DenominationCurrency string `json:"denomination_currency,omitempty"`
		CostAmount           string `json:"cost_amount,omitempty"`
		CostCurrency         string `json:"cost_currency,omitempty"`
		TxHash               string `json:"tx_hash"`
		ExpiresAt            Time   `json:"expires_at" doc:"When the link expires, UTC."`
	}

	claimQuote struct {
		ClaimID    string `json:"claim_id"`
		ExternalID string `json:"external_id"`
		webhook.ClaimPrice
		DenominationCurrency string     `json:"denomination_currency"`
		FundingCurrency      string     `json:"funding_currency"`
		Status               claimState `json:"status"`
		Exception            string     `json:"exception" enum:"none,overpaid,late,within_tolerance"`
		CheckoutURL          string     `json:"checkout_url"`
		LightningInvoice     string     `json:"lightning_invoice"`
		PaymentURI           string     `json:"payment_uri"`
		X402URL              string     `json:"x402_url"`

		PaymentOptions []paymentOption `json:"payment_options"`
	}

	paymentOption struct {
		Currency   string `json:"currency" example:"USDC"`
		Network    string `json:"network" doc:"Network of the payment, or lightning." example:"base"`
		Amount     string `json:"amount" doc:"Amount to pay now, as decimal text." example:"120.000000"`
		QuoteID    string `json:"quote_id"`
		Rate       string `json:"rate" example:"1.0"`
		Address    string `json:"address" doc:"Where to pay; empty over Lightning."`
		PaymentURI string `json:"payment_uri" doc:"Link for wallets (BIP 321 or EIP-681)."`
	}

	moneyOwed struct {
		Currency string `json:"currency"`
		Amount   string `json:"amount" doc:"As decimal text." example:"5.000000"`
	}

	claimGet struct {
		CompanyID string `query:"company_id"`
		ClaimID   string `query:"claim_id" required:"true"`
	}

	// ClaimSummary is exported because the contract omits the fields of unexported embedded types.
	ClaimSummary struct {
		ClaimID              string     `json:"claim_id"`
		CompanyID            string     `json:"company_id"`
		PayerID              string     `json:"payer_id"`
		ExternalID           string     `json:"external_id"`
		Description          string     `json:"description"`
		Status               claimState `json:"status"`
		Exception            string     `json:"exception" enum:"none,overpaid,late,within_tolerance"`
		Reverted             bool       `json:"reverted"`
		TxHash               string     `json:"tx_hash"`
		DenominationCurrency string     `json:"denomination_currency"`
		DenominationAmount   string     `json:"denomination_amount" doc:"The claim's amount, as decimal text."`
		FundingCurrency      string     `json:"funding_currency"`
		SettlementCurrency   string     `json:"settlement_currency" doc:"Currency that the merchant receives."`
		SeenAmount           string     `json:"seen_amount"`
		ReceivedAmount       string     `json:"received_amount"`
		RefundableAmount     string     `json:"refundable_amount"`
		RefundedAmount       string     `json:"refunded_amount"`
		CheckoutURL          string     `json:"checkout_url"`
		LinkID               string     `json:"payment_link_id"`
		Created              Time       `json:"created"`
		Updated              Time       `json:"updated"`
		ExpiresAt            *Time      `json:"expires_at,omitzero" example:"2026-09-14T09:30:00Z"`

		Metadata map[string]string `json:"metadata"`
	}

	claimStatus struct {
		ClaimSummary
		ReturnURL         string     `json:"return_url"`
		RedirectURL       string     `json:"redirect_url"`
		NotificationEmail string     `json:"notification_email"`
		LineItems         []lineItem `json:"line_items"`

		DueAmount string         `json:"due_amount"`
		TxHashes  []string       `json:"tx_hashes"`
		Payments  []claimPayment `json:"payments" doc:"Payments received, by the time they were first seen."`
		Quote     *claimQuote    `json:"quote" doc:"Latest quote."`
		Refunds   []ClaimRefund  `json:"refunds" doc:"Refunds of the claim, oldest first."`

		OtherRefundable []moneyOwed `json:"other_refundable"`
	}

	claimPayment struct {
		DepositID             string `json:"deposit_id"`
		Method                string `json:"method" enum:"bitcoin,lightning,ethereum,base,polygon,arbitrum"`
		Status                string `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		Currency              string `json:"currency"`
		Amount                string `json:"amount" doc:"As decimal text." example:"0.00240000"`
		TxHash                string `json:"tx_hash" doc:"Transaction, or the payment hash over Lightning."`
		InTime                bool   `json:"in_time"`
		FirstSeen             Time   `json:"first_seen"`
		Confirmations         int64  `json:"confirmations"`
		ConfirmationsRequired int64  `json:"confirmations_required"`
	}

	// ClaimFilter is exported because the contract omits the fields of unexported embedded types.
	ClaimFilter struct {
		CompanyID string     `query:"company_id"`
		Status    claimState `query:"status"`
		PayerID   string     `query:"payer_id" maxLength:"128"`
		From      time.Time  `query:"from" doc:"Created at this time or later."`
		To        time.Time  `query:"to" doc:"Created before this time."`

		ExternalID string `query:"external_id" maxLength:"255"`
		LinkID     string `query:"payment_link_id" maxLength:"64"`
		Search     string `query:"search" maxLength:"255"`
		Currency   string `query:"denomination_currency" maxLength:"10"`
		Amount     string `query:"denomination_amount" maxLength:"40"`

		Metadata map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
	}

	claimList struct {
		ClaimFilter
		cursorPaging
	}

	claimPage struct {
		Data []ClaimSummary `json:"data"`
		Meta meta           `json:"meta"`
	}

	claimCancelled struct {
		ClaimID     string `json:"claim_id"`
		Status      string `json:"status" enum:"cancelled"`
		CheckoutURL string `json:"checkout_url"`
	}

	claimRefunded struct {
		ClaimRefund
		RefundURL   string `json:"refund_url" doc:"Single-use link for the payer. Returned only once."`
		CheckoutURL string `json:"checkout_url"`
		MailedTo    string `json:"notification_email" doc:"Address to which the link was mailed; empty if it was not."`
	}

	settleInput struct{ Body settleBody }

	settleBody struct {
		CompanyID string  `json:"company_id,omitempty" maxLength:"64"`
		Currency  string  `json:"currency" maxLength:"10"`
		Amount    Decimal `json:"amount,omitempty" doc:"Default: everything available."`
	}

	// Settlement describes a settlement, on its own or in its statement.
	Settlement struct {
		SettlementID   string `json:"settlement_id"`
		Currency       string `json:"currency"`
		Amount         string `json:"amount" doc:"Amount credited to the balance, as decimal text." example:"98.50"`
		EarnedCurrency string `json:"earned_currency" doc:"Currency of earned_amount." example:"BTC"`
		EarnedAmount   string `json:"earned_amount" doc:"What was settled, as decimal text." example:"0.00198000"`
		Rate           string `json:"rate" doc:"Price of one earned unit; empty if nothing was exchanged." example:"49750"`
		WithdrawalID   string `json:"withdrawal_id"`
		Created        Time   `json:"created"`
	}

	settlementGet struct {
		SettlementID string `path:"settlement_id" maxLength:"64"`
		CompanyID    string `query:"company_id"`
		paging
	}

	settlementStatement struct {
		Settlement

		OpeningAmount string                    `json:"opening_amount"`
		ClaimsAmount  string                    `json:"claims_amount"`
		FeesAmount    string                    `json:"fees_amount"`
		RefundsAmount string                    `json:"refunds_amount"`
		ClosingAmount string                    `json:"closing_amount"`
		Data          []settlementStatementLine `json:"data"`
		Meta          meta                      `json:"meta"`
	}

	settlementStatementLine struct {
		Type       string `json:"type" enum:"claim,claim_reverted,refund,refund_withdrawn"`
		ClaimID    string `json:"claim_id"`
		ExternalID string `json:"external_id"`
		RefundID   string `json:"refund_id"`
		Gross      string `json:"gross_amount"`
		Fee        string `json:"fee_amount"`
		Net        string `json:"net_amount"`
		Created    Time   `json:"created"`
	}

	settlementList struct {
		CompanyID string `query:"company_id"`
		cursorPaging
	}

	settlementPage struct {
		Data []Settlement `json:"data"`
		Meta meta         `json:"meta"`
	}

	merchantSettingsGet struct {
		CompanyID string `query:"company_id"`
	}

	merchantSettingsInput struct{ Body merchantSettingsBody }

	merchantSettingsBody struct {
		CompanyID          string   `json:"company_id,omitempty" maxLength:"64"`
		ToleranceBps       *int64   `json:"tolerance_bps,omitempty" minimum:"0" maximum:"500"`
		Confirmations      *int64   `json:"confirmations,omitempty" minimum:"0" maximum:"6"`
		LatePolicy         *string  `json:"late_policy,omitempty" enum:"manual,requote,refund"`
		LateGraceSeconds   *int64   `json:"late_grace_seconds,omitempty" minimum:"0" maximum:"120"`
		SettlementCurrency *string  `json:"settlement_currency,omitempty" maxLength:"10"`
		SettlementSchedule *string  `json:"settlement_schedule,omitempty" enum:"manual,daily,weekly"`
		SettlementTimeZone *string  `json:"settlement_time_zone,omitempty" maxLength:"64"`
		SettlementInto     *string  `json:"settlement_convert_to,omitempty" maxLength:"10"`
		SettlementTo       *string  `json:"settlement_destination_id,omitempty" maxLength:"64"`
		SupportEmail       *string  `json:"support_email,omitempty" maxLength:"254"`
		Origins            []string `json:"origins,omitempty" maxItems:"10"`

		Day *string `json:"settlement_day,omitempty" enum:"sunday,monday,tuesday,wednesday,thursday,friday,saturday"`
	}

	merchantSettings struct {
		CompanyID          string   `json:"company_id"`
		ToleranceBps       int64    `json:"tolerance_bps"`
		Confirmations      int64    `json:"confirmations" doc:"Confirmations that a payment requires."`
		LatePolicy         string   `json:"late_policy" enum:"manual,requote,refund"`
		LateGraceSeconds   int64    `json:"late_grace_seconds"`
		SettlementCurrency string   `json:"settlement_currency" doc:"coin, a coin, or empty for each claim's currency."`
		SettlementSchedule string   `json:"settlement_schedule" enum:"manual,daily,weekly"`
		SettlementTimeZone string   `json:"settlement_time_zone"`
		SettlementDay      string   `json:"settlement_day" enum:"sunday,monday,tuesday,wednesday,thursday,friday,saturday"`
		SettlementInto     string   `json:"settlement_convert_to"`
		SettlementTo       string   `json:"settlement_destination_id" doc:"Empty if settlements remain in the balance."`
		SupportEmail       string   `json:"support_email" doc:"Support address shown at the checkout; may be empty."`
		Origins            []string `json:"origins"`
	}
)

func (b *ClaimCreateBody) params(company string) claim.CreateParams {
	p := claim.CreateParams{
		CompanyID: company, PayerID: b.PayerID, AmountText: string(b.Amount), Currency: b.DenominationCurrency,
		Funding: b.FundingCurrency, Description: b.Description, ReturnURL: b.ReturnURL, RedirectURL: b.RedirectURL,
		ExternalID: b.ExternalID, ExpiresIn: time.Duration(b.ExpiresIn) * time.Second, Email: b.NotificationEmail,
		Metadata: b.Metadata,
	}
	for _, one := range b.LineItems {
		p.Items = append(p.Items, claim.ItemParams{
			Description: one.Description, Quantity: one.Quantity, AmountText: string(one.Amount),
		})
	}
	return p
}

func claimKeys(c *request, in *claimCreateInput) []db.Prefetch {
	return in.Body.params(c.company).Keys()
}

func createClaim(ctx context.Context, tx *db.Tx, c *request, in *claimCreateInput) (*claimQuote, error) {
	made, err := c.Claim.Create(ctx, tx, c.by, in.Body.params(c.company))
	if err != nil {
		return nil, err
	}
	return c.showClaimQuote(&made), nil
}

func (c *request) showClaimQuote(m *claim.Claim) *claimQuote {
	q := m.Quote
	out := &claimQuote{
		ClaimID: m.ID, ExternalID: m.ExternalID, ClaimPrice: q.ForClaim(),
		DenominationCurrency: string(q.Due.Asset()), FundingCurrency: string(q.Funding.Asset()),
		Status: claimState(m.State), Exception: string(m.Exception), CheckoutURL: c.Claim.CheckoutURL(m.ID),
		LightningInvoice: m.Invoice, PaymentURI: m.PaymentURI(), X402URL: c.Claim.X402URL(m),
		PaymentOptions: make([]paymentOption, len(m.Offers)),
	}
	for i, o := range m.Offers {
		out.PaymentOptions[i] = paymentOption{
			Currency: string(o.Amount.Asset()), Network: o.Network, Amount: o.Amount.String(), QuoteID: o.Quote.ID,
			Rate: o.Quote.Rate.String(), Address: o.Quote.Address, PaymentURI: o.URI,
		}
		if o.Lightning() {
			out.PaymentOptions[i].Address = ""
		}
	}
	return out
}

func refreshClaimQuote(ctx context.Context, tx *db.Tx, c *request, in *claimRefInput) (*claimQuote, error) {
	m, err := c.Claim.Refresh(ctx, tx, c.by, c.company, in.Body.ClaimID)
	if err != nil {
		return nil, err
	}
	return c.showClaimQuote(&m), nil
}

func cancelClaim(ctx context.Context, tx *db.Tx, c *request, in *claimRefInput) (*claimCancelled, error) {
	m, err := c.Claim.Cancel(ctx, tx, c.by, c.company, in.Body.ClaimID)
	if err != nil {
		return nil, err
	}
	return &claimCancelled{m.ID, string(m.State), c.Claim.CheckoutURL(m.ID)}, nil
}

func getClaimStatus(ctx context.Context, tx *db.Tx, c *request, in *claimGet) (*claimStatus, error) {
	d, err := c.Claim.Get(ctx, tx, c.by, c.company, in.ClaimID)
	if err != nil {
		return nil, err
	}
	owed := d.OtherRefundable()
	out := &claimStatus{
		OtherRefundable: make([]moneyOwed, len(owed)),
		ClaimSummary:    c.summarizeClaim(&d.Claim), DueAmount: d.Due.String(), TxHashes: []string{},
		Payments: make([]claimPayment, len(d.Payments)), Quote: c.showClaimQuote(&d.Claim),
		NotificationEmail: d.Email, LineItems: make([]lineItem, len(d.Items)),
	}
	if out.ReturnURL = d.ReturnURL; d.Redirects {
		out.ReturnURL, out.RedirectURL = "", d.ReturnURL
	}
	for i, one := range d.Items {
		out.LineItems[i] = lineItem(one)
	}
	for i, one := range owed {
		out.OtherRefundable[i] = moneyOwed{string(one.Asset()), one.String()}
	}
	refunds, err := c.Claim.Refunds(ctx, tx, c.by, c.company, in.ClaimID)
	if err != nil {
		return nil, err
	}
	out.Refunds = make([]ClaimRefund, len(refunds))
	for i, r := range refunds {
		out.Refunds[i] = showRefund(r)
	}
	seen := map[string]bool{}
	for i, p := range d.Payments {
		out.Payments[i] = claimPayment{
			DepositID: p.ID, Method: p.Chain, Status: string(p.State), Currency: string(p.Amount.Asset()),
			Amount: p.Amount.String(), TxHash: p.TxID, InTime: p.OnTime, FirstSeen: Time(p.FirstSeen),
			Confirmations: p.Confirmations, ConfirmationsRequired: p.Wanted,
		}
		if p.State.Live() && !seen[p.TxID] {
			seen[p.TxID] = true
			out.TxHashes = append(out.TxHashes, p.TxID)
		}
	}
	return out, nil
}

func (c *request) summarizeClaim(m *claim.Claim) ClaimSummary {
	out := ClaimSummary{
		ClaimID: m.ID, CompanyID: m.CompanyID, PayerID: m.PayerID, ExternalID: m.ExternalID, Description: m.Description,
		Metadata: m.Metadata, Status: claimState(m.State),
		Exception: string(m.Exception), Reverted: m.Reverted, TxHash: m.TxHash,
		DenominationCurrency: string(m.Amount.Asset()), DenominationAmount: m.Amount.String(),
		FundingCurrency: string(m.Funding), SettlementCurrency: string(m.SettleIn), SeenAmount: m.Seen.String(),
		ReceivedAmount: m.Received().String(), RefundableAmount: m.Refundable().String(),
		RefundedAmount: m.RefundedTotal().String(),
		CheckoutURL:    c.Claim.CheckoutURL(m.ID), LinkID: m.LinkID, Created: Time(m.CreatedAt), Updated: Time(m.UpdatedAt),
	}
	if !m.ExpiresAt.IsZero() {
		out.ExpiresAt = (*Time)(&m.ExpiresAt)
	}
	return out
}

func listClaims(ctx context.Context, tx *db.Tx, c *request, in *claimList) (*claimPage, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	f.Page = in.page()
	all, total, err := c.Claim.List(ctx, tx, c.by, c.company, f)
	if err != nil {
		return nil, err
	}
	out := &claimPage{Data: make([]ClaimSummary, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x claim.Claim) string { return x.ID })}
	for i := range all {
		out.Data[i] = c.summarizeClaim(&all[i])
	}
	return out, nil
}

func exportClaims(ctx context.Context, tx *db.Tx, c *request, in *ClaimFilter) (*file, error) {
	f, err := in.filter()
	if err != nil {
		return nil, err
	}
	write, err := c.Claim.Export(tx, c.by, c.company, f)
	if err != nil {
		return nil, err
	}
	return &file{name: "claims.csv", write: func(w io.Writer) error { return write(ctx, w) }}, nil
}

// filter returns the filter of a list of claims. It returns an error if the request states an amount without its
// currency.
func (in *ClaimFilter) filter() (claim.Filter, error) {
	f := claim.Filter{
		Status: claim.State(in.Status), PayerID: in.PayerID, ExternalID: in.ExternalID, LinkID: in.LinkID,
		Search: in.Search, Metadata: in.Metadata,
		Currency: money.Asset(in.Currency), From: in.From, To: in.To,
	}
	if in.Amount == "" {
		return f, nil
	}
	var err error
	if in.Currency == "" {
		return f, errNoCurrency.At("query", "denomination_amount")
	}
	if f.Amount, err = money.Parse(f.Currency, in.Amount); err != nil {
		return f, errAmountFilter.At("query", "denomination_amount")
	}
	return f, nil
}

var (
	errNoCurrency = apierr.New(apierr.Invalid, "invalid_parameter",
		"An amount needs its currency: send denomination_currency too.")
	errAmountFilter = apierr.New(apierr.Invalid, "invalid_parameter",
		"The amount is not valid in the currency given in denomination_currency.")
)

// refundClaim refunds a claim. If the request states an amount, that part of the paid claim is refunded from the
// merchant's money; otherwise the payer's excess or late money is refunded.
func refundClaim(ctx context.Context, tx *db.Tx, c *request, in *claimRefundInput) (*claimRefunded, error) {
	b := &in.Body
	var r claim.Refund
	var token string
	var err error
	if b.Amount == "" {
		r, token, err = c.Claim.Refund(ctx, tx, c.by, c.company, b.ClaimID)
	} else {
		r, token, err = c.Claim.RefundPart(ctx, tx, c.by, claim.PartParams{
			CompanyID: c.company, ClaimID: b.ClaimID, AmountText: string(b.Amount), Currency: b.Currency,
			Rate: claim.RefundRate(b.Rate), Source: claim.Source(b.Source),
		})
	}
	if err != nil {
		return nil, err
	}
	return &claimRefunded{showRefund(r), c.Claim.RefundURL(r.ClaimID, token), c.Claim.CheckoutURL(r.ClaimID),
		r.MailedTo}, nil
}

func cancelRefund(ctx context.Context, tx *db.Tx, c *request, in *refundRefInput) (*ClaimRefund, error) {
	r, err := c.Claim.CancelRefund(ctx, tx, c.by, c.company, in.Body.ClaimID, in.Body.RefundID)
	if err != nil {
		return nil, err
	}
	out := showRefund(r)
	return &out, nil
}

func showRefund(r claim.Refund) ClaimRefund {
	out := ClaimRefund{
		RefundID: r.ID, ClaimID: r.ClaimID, Status: string(r.State), Currency: string(r.Amount.Asset()), Network: r.Network,
		Amount: r.Amount.String(), TxHash: r.TxHash, ExpiresAt: Time(r.ExpiresAt),
	}
	if r.OfMerchant() {
		out.DenominationAmount, out.DenominationCurrency = r.Value.String(), string(r.Value.Asset())
		out.CostAmount, out.CostCurrency = r.Cost.String(), string(r.Cost.Asset())
	}
	return out
}

func settleClaims(ctx context.Context, tx *db.Tx, c *request, in *settleInput) (*Settlement, error) {
	x, err := c.Claim.Settle(ctx, tx, c.by, c.company, in.Body.Currency, string(in.Body.Amount))
	if err != nil {
		return nil, err
	}
	out := showSettlement(x)
	return &out, nil
}

func showSettlement(x claim.Settlement) Settlement {
	out := Settlement{
		SettlementID: x.ID, Currency: string(x.Amount.Asset()), Amount: x.Amount.String(), WithdrawalID: x.WithdrawalID,
		EarnedCurrency: string(x.Earned.Asset()), EarnedAmount: x.Earned.String(), Created: Time(x.CreatedAt),
	}
	if !x.Rate.IsZero() {
		out.Rate = x.Rate.String()
	}
	return out
}

func getSettlement(ctx context.Context, tx *db.Tx, c *request, in *settlementGet) (*settlementStatement, error) {
	x, err := c.Claim.StatementOf(ctx, tx, c.by, c.company, in.SettlementID)
	if err != nil {
		return nil, err
	}
	lines, err := x.Lines(ctx, tx, in.page())
	if err != nil {
		return nil, err
	}
	out := &settlementStatement{
		Settlement: showSettlement(x.Settlement), OpeningAmount: x.Opening.String(), ClaimsAmount: x.Claims.String(),
		FeesAmount: x.Fees.String(), RefundsAmount: x.Refunds.String(), ClosingAmount: x.Closing.String(),
		Data: make([]settlementStatementLine, len(lines)), Meta: in.meta(x.Count),
	}
	for i, l := range lines {
		out.Data[i] = settlementStatementLine{Type: l.Type, ClaimID: l.ClaimID, ExternalID: l.ExternalID,
			RefundID: l.RefundID, Gross: l.Gross.String(), Fee: l.Fee.String(), Net: l.Net.String(), Created: Time(l.At)}
	}
	return out, nil
}

func listSettlements(ctx context.Context, tx *db.Tx, c *request, in *settlementList) (*settlementPage, error) {
	all, total, err := c.Claim.Settlements(ctx, tx, c.by, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &settlementPage{Data: make([]Settlement, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x claim.Settlement) string { return x.ID })}
	for i, x := range all {
		out.Data[i] = showSettlement(x)
	}
	return out, nil
}

func getMerchantSettings(
	ctx context.Context, tx *db.Tx, c *request, _ *merchantSettingsGet,
) (*merchantSettings, error) {
	s, err := claim.SettingsOf(ctx, tx, c.by, c.company)
	if err != nil {
		return nil, err
	}
	return showSettings(s), nil
}

func changeMerchantSettings(
	ctx context.Context, tx *db.Tx, c *request, in *merchantSettingsInput,
) (*merchantSettings, error) {
	b := &in.Body
	s, err := c.Claim.ChangeSettings(ctx, tx, c.by, c.company, claim.Change{
		ToleranceBps: b.ToleranceBps, Confirmations: b.Confirmations, GraceSeconds: b.LateGraceSeconds, Late: b.LatePolicy,
		SettleIn: b.SettlementCurrency, Schedule: b.SettlementSchedule, TimeZone: b.SettlementTimeZone,
		Day: b.Day, ConvertTo: b.SettlementInto, DestinationID: b.SettlementTo,
		SupportEmail: b.SupportEmail, Origins: b.Origins,
	})
	if err != nil {
		return nil, err
	}
	return showSettings(s), nil
}

func showSettings(s claim.Settings) *merchantSettings {
	return &merchantSettings{
		CompanyID: s.CompanyID, ToleranceBps: s.ToleranceBps, Confirmations: s.Confirmations, LatePolicy: string(s.Late),
		LateGraceSeconds: s.GraceSeconds, SettlementCurrency: s.SettleIn, SettlementSchedule: string(s.Schedule),
		SettlementTimeZone: s.TimeZone, SettlementDay: claim.Days[s.Day], SettlementInto: string(s.ConvertTo),
		SettlementTo: s.DestinationID, SupportEmail: s.SupportEmail, Origins: append([]string{}, s.Origins...),
	}
}
