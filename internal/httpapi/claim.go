package httpapi

import (
	"context"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/webhook"
)

type (
	claimCreateInput struct{ Body claimCreateBody }

	claimCreateBody struct {
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

		Metadata  jsontext.Value `json:"metadata,omitempty"`
		LineItems []lineItemBody `json:"line_items,omitempty" maxItems:"50"`
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

	// ClaimRefund is exported because the contract leaves out what an unexported embedded type has.
	ClaimRefund struct {
		RefundID             string `json:"refund_id"`
		ClaimID              string `json:"claim_id"`
		Status               string `json:"status" enum:"awaiting_approval,offered,accepted,paid,withdrawn"`
		Currency             string `json:"currency"`
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
	}

	claimGet struct {
		CompanyID string `query:"company_id"`
		ClaimID   string `query:"claim_id" required:"true"`
	}

	// ClaimSummary is exported because the contract leaves out what an unexported embedded type has.
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
		Created              Time       `json:"created"`
		Updated              Time       `json:"updated"`
		ExpiresAt            *Time      `json:"expires_at,omitzero" example:"2026-09-14T09:30:00Z"`

		Metadata jsontext.Value `json:"metadata"`
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
	}

	claimPayment struct {
		DepositID             string `json:"deposit_id"`
		Method                string `json:"method" enum:"bitcoin,lightning" doc:"Payment method."`
		Status                string `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		Currency              string `json:"currency"`
		Amount                string `json:"amount" doc:"As decimal text." example:"0.00240000"`
		TxHash                string `json:"tx_hash" doc:"Transaction, or the payment hash over Lightning."`
		InTime                bool   `json:"in_time"`
		FirstSeen             Time   `json:"first_seen"`
		Confirmations         int64  `json:"confirmations"`
		ConfirmationsRequired int64  `json:"confirmations_required"`
	}

	// ClaimFilter is exported because the contract leaves out what an unexported embedded type has.
	ClaimFilter struct {
		CompanyID string     `query:"company_id"`
		Status    claimState `query:"status"`
		PayerID   string     `query:"payer_id" maxLength:"128"`
		From      time.Time  `query:"from" doc:"Created at this time or later."`
		To        time.Time  `query:"to" doc:"Created before this time."`

		ExternalID string `query:"external_id" maxLength:"255"`
		Search     string `query:"search" maxLength:"255"`
		Currency   string `query:"denomination_currency" maxLength:"10"`
		Amount     string `query:"denomination_amount" maxLength:"40"`
	}

	claimList struct {
		ClaimFilter
		paging
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
	}

	settleInput struct{ Body settleBody }

	settleBody struct {
		CompanyID string  `json:"company_id,omitempty" maxLength:"64"`
		Currency  string  `json:"currency" maxLength:"10"`
		Amount    Decimal `json:"amount,omitempty" doc:"Default: everything available."`
	}

	settlement struct {
		SettlementID string `json:"settlement_id"`
		Currency     string `json:"currency"`
		Amount       string `json:"amount" doc:"As decimal text." example:"0.00198000"`
		WithdrawalID string `json:"withdrawal_id"`
		Created      Time   `json:"created"`
	}

	settlementList struct {
		CompanyID string `query:"company_id"`
		paging
	}

	settlementPage struct {
		Data []settlement `json:"data"`
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
		SettlementTo       *string  `json:"settlement_destination_id,omitempty" maxLength:"64"`
		SupportEmail       *string  `json:"support_email,omitempty" maxLength:"254"`
		Origins            []string `json:"origins,omitempty" maxItems:"10"`
	}

	merchantSettings struct {
		CompanyID          string   `json:"company_id"`
		ToleranceBps       int64    `json:"tolerance_bps"`
		Confirmations      int64    `json:"confirmations" doc:"Confirmations that a payment requires."`
		LatePolicy         string   `json:"late_policy" enum:"manual,requote,refund"`
		LateGraceSeconds   int64    `json:"late_grace_seconds"`
		SettlementCurrency string   `json:"settlement_currency" doc:"BTC, or empty for the currency of each claim."`
		SettlementSchedule string   `json:"settlement_schedule" enum:"manual,daily,weekly"`
		SettlementTo       string   `json:"settlement_destination_id" doc:"Empty if settlements remain in the balance."`
		SupportEmail       string   `json:"support_email" doc:"Support address shown at the checkout; may be empty."`
		Origins            []string `json:"origins"`
	}
)

func (in *claimCreateInput) params(c *request) claim.CreateParams {
	b := &in.Body
	p := claim.CreateParams{
		CompanyID: c.company, PayerID: b.PayerID, AmountText: string(b.Amount), Currency: b.DenominationCurrency,
		Funding: b.FundingCurrency, Description: b.Description, ReturnURL: b.ReturnURL, RedirectURL: b.RedirectURL,
		ExternalID: b.ExternalID, ExpiresIn: time.Duration(b.ExpiresIn) * time.Second, Email: b.NotificationEmail,
	}
	for _, one := range b.LineItems {
		p.Items = append(p.Items, claim.ItemParams{
			Description: one.Description, Quantity: one.Quantity, AmountText: string(one.Amount),
		})
	}
	return p
}

// errMetadata is returned for metadata with other values than texts.
var errMetadata = apierr.New(apierr.Invalid, "invalid_parameter",
	"Metadata must be an object whose values are strings.").At("body", "/metadata")

func claimKeys(c *request, in *claimCreateInput) []db.Prefetch { return in.params(c).Keys() }

func createClaim(ctx context.Context, tx *db.Tx, c *request, in *claimCreateInput) (*claimQuote, error) {
	p := in.params(c)
	if len(in.Body.Metadata) > 0 && json.Unmarshal(in.Body.Metadata, &p.Metadata) != nil {
		return nil, errMetadata
	}
	made, err := c.Claim.Create(ctx, tx, c.by, p)
	if err != nil {
		return nil, err
	}
	return c.showClaimQuote(&made), nil
}

func (c *request) showClaimQuote(m *claim.Claim) *claimQuote {
	q := m.Quote
	return &claimQuote{
		ClaimID: m.ID, ExternalID: m.ExternalID, ClaimPrice: q.ForClaim(),
		DenominationCurrency: string(q.Due.Asset()), FundingCurrency: string(q.Funding.Asset()),
		Status: claimState(m.State), Exception: string(m.Exception), CheckoutURL: c.Claim.CheckoutURL(m.ID),
		LightningInvoice: m.Invoice, PaymentURI: m.PaymentURI(),
	}
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
	out := &claimStatus{
		ClaimSummary: c.summarizeClaim(&d.Claim), DueAmount: d.Due.String(), TxHashes: []string{},
		Payments: make([]claimPayment, len(d.Payments)), Quote: c.showClaimQuote(&d.Claim),
		NotificationEmail: d.Email, LineItems: make([]lineItem, len(d.Items)),
	}
	if out.ReturnURL = d.ReturnURL; d.Redirects {
		out.ReturnURL, out.RedirectURL = "", d.ReturnURL
	}
	for i, one := range d.Items {
		out.LineItems[i] = lineItem(one)
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
	metadata, err := json.Marshal(m.Metadata)
	if err != nil || m.Metadata == nil {
		metadata = []byte("{}")
	}
	out := ClaimSummary{
		ClaimID: m.ID, CompanyID: m.CompanyID, PayerID: m.PayerID, ExternalID: m.ExternalID, Description: m.Description,
		Metadata: metadata, Status: claimState(m.State),
		Exception: string(m.Exception), Reverted: m.Reverted, TxHash: m.TxHash,
		DenominationCurrency: string(m.Amount.Asset()), DenominationAmount: m.Amount.String(),
		FundingCurrency: string(m.Funding), SettlementCurrency: string(m.SettleIn), SeenAmount: m.Seen.String(),
		ReceivedAmount: m.Received().String(), RefundableAmount: m.Refundable().String(),
		RefundedAmount: m.RefundedTotal().String(),
		CheckoutURL:    c.Claim.CheckoutURL(m.ID), Created: Time(m.CreatedAt), Updated: Time(m.UpdatedAt),
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
	f.Page, f.PerPage = in.number(), in.size()
	all, total, err := c.Claim.List(ctx, tx, c.by, c.company, f)
	if err != nil {
		return nil, err
	}
	out := &claimPage{Data: make([]ClaimSummary, len(all)), Meta: in.meta(total)}
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

// filter returns the filter of a list. An amount needs its currency.
func (in *ClaimFilter) filter() (claim.Filter, error) {
	f := claim.Filter{
		Status: claim.State(in.Status), PayerID: in.PayerID, ExternalID: in.ExternalID, Search: in.Search,
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

// refundClaim refunds a part of a paid claim if the request has an amount, and otherwise the payer's own money.
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
	return &claimRefunded{showRefund(r), c.Claim.RefundURL(r.ClaimID, token), c.Claim.CheckoutURL(r.ClaimID)}, nil
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
		RefundID: r.ID, ClaimID: r.ClaimID, Status: string(r.State), Currency: string(r.Amount.Asset()),
		Amount: r.Amount.String(), TxHash: r.TxHash, ExpiresAt: Time(r.ExpiresAt),
	}
	if r.OfMerchant() {
		out.DenominationAmount, out.DenominationCurrency = r.Value.String(), string(r.Value.Asset())
		out.CostAmount, out.CostCurrency = r.Cost.String(), string(r.Cost.Asset())
	}
	return out
}

func settleClaims(ctx context.Context, tx *db.Tx, c *request, in *settleInput) (*settlement, error) {
	x, err := c.Claim.Settle(ctx, tx, c.by, c.company, in.Body.Currency, string(in.Body.Amount))
	if err != nil {
		return nil, err
	}
	out := showSettlement(x)
	return &out, nil
}

func showSettlement(x claim.Settlement) settlement {
	return settlement{
		SettlementID: x.ID, Currency: string(x.Amount.Asset()), Amount: x.Amount.String(), WithdrawalID: x.WithdrawalID,
		Created: Time(x.CreatedAt),
	}
}

func listSettlements(ctx context.Context, tx *db.Tx, c *request, in *settlementList) (*settlementPage, error) {
	all, total, err := c.Claim.Settlements(ctx, tx, c.by, c.company, in.number(), in.size())
	if err != nil {
		return nil, err
	}
	out := &settlementPage{Data: make([]settlement, len(all)), Meta: in.meta(total)}
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
		SettleIn: b.SettlementCurrency, Schedule: b.SettlementSchedule, DestinationID: b.SettlementTo,
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
		LateGraceSeconds: s.GraceSeconds, SettlementCurrency: string(s.SettleIn), SettlementSchedule: string(s.Schedule),
		SettlementTo: s.DestinationID, SupportEmail: s.SupportEmail, Origins: append([]string{}, s.Origins...),
	}
}
