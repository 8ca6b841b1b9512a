package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/paymentlink"
)

type (
	linkCreateInput struct{ Body linkCreateBody }

	linkCreateBody struct {
		CompanyID   string     `json:"company_id,omitempty" maxLength:"64"`
		Title       string     `json:"title" maxLength:"120"`
		Description string     `json:"description,omitempty" maxLength:"500"`
		Currency    string     `json:"denomination_currency" maxLength:"10"`
		Funding     string     `json:"funding_currency,omitempty" minLength:"1" maxLength:"10"`
		Amount      Decimal    `json:"amount,omitempty" doc:"Fixed amount. Absent if the payer chooses."`
		Min         Decimal    `json:"min_amount,omitempty" doc:"Least amount that the payer can choose."`
		Max         Decimal    `json:"max_amount,omitempty" doc:"Largest amount that the payer can choose."`
		Suggested   []Decimal  `json:"suggested_amounts,omitempty" maxItems:"6" doc:"Amounts that the page suggests."`
		MaxPayments int64      `json:"max_payments,omitempty" minimum:"0" maximum:"1000000"`
		EndsAt      *time.Time `json:"ends_at,omitempty" doc:"From then on the link takes no payments."`
		RedirectURL string     `json:"redirect_url,omitempty" maxLength:"2000"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	linkChangeInput struct {
		LinkID string `path:"payment_link_id"`
		Body   linkChangeBody
	}

	linkChangeBody struct {
		Title       *string    `json:"title,omitempty" maxLength:"120"`
		Description *string    `json:"description,omitempty" maxLength:"500"`
		Active      *bool      `json:"active,omitempty"`
		MaxPayments *int64     `json:"max_payments,omitempty" minimum:"0" maximum:"1000000"`
		EndsAt      *time.Time `json:"ends_at,omitempty" doc:"From then on the link takes no payments."`
		RedirectURL *string    `json:"redirect_url,omitempty" maxLength:"2000"`
	}

	linkPath struct {
		LinkID string `path:"payment_link_id"`
	}

	linkList struct {
		CompanyID string            `query:"company_id"`
		Metadata  map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
		cursorPaging
	}

	linkPage struct {
		Data []PaymentLink `json:"data"`
		Meta meta          `json:"meta"`
	}

	// PaymentLink describes a reusable link that creates claims.
	PaymentLink struct {
		LinkID      string   `json:"payment_link_id"`
		CompanyID   string   `json:"company_id"`
		URL         string   `json:"url" doc:"Public page of the link." example:"https://pay.example.com/pay/plk_06gf"`
		X402URL     string   `json:"x402_url"`
		Title       string   `json:"title"`
		Description string   `json:"description"`
		Currency    string   `json:"denomination_currency"`
		Funding     string   `json:"funding_currency" doc:"Currency in which payers pay, or any." example:"any"`
		Amount      string   `json:"denomination_amount" doc:"Fixed amount; empty if the payer chooses." example:"25.00"`
		Min         string   `json:"min_amount" doc:"Empty for none." example:""`
		Max         string   `json:"max_amount" doc:"Empty for none." example:""`
		Suggested   []string `json:"suggested_amounts" example:"[]"`
		MaxPayments int64    `json:"max_payments"`
		Paid        int64    `json:"paid_count" doc:"Number of paid claims." example:"3"`
		Reserved    int64    `json:"reserved_count" doc:"Number of open claims that hold a place." example:"0"`
		Active      bool     `json:"active"`
		EndsAt      *Time    `json:"ends_at,omitzero" example:"2026-12-31T23:00:00Z"`
		RedirectURL string   `json:"redirect_url"`
		Created     Time     `json:"created"`
		Updated     Time     `json:"updated"`

		Metadata map[string]string `json:"metadata"`
	}
)

func createPaymentLink(ctx context.Context, tx *db.Tx, c *request, in *linkCreateInput) (*PaymentLink, error) {
	b := &in.Body
	p := paymentlink.Params{
		CompanyID: c.company, Title: b.Title, Description: b.Description, Currency: b.Currency, Funding: b.Funding,
		Amount: string(b.Amount), Min: string(b.Min), Max: string(b.Max), MaxPayments: b.MaxPayments,
		RedirectURL: b.RedirectURL, Metadata: b.Metadata,
	}
	for _, a := range b.Suggested {
		p.Suggested = append(p.Suggested, string(a))
	}
	if b.EndsAt != nil {
		p.EndsAt = *b.EndsAt
	}
	l, err := c.Links.Create(ctx, tx, c.by, p)
	if err != nil {
		return nil, err
	}
	return c.showLink(l), nil
}

func changePaymentLink(ctx context.Context, tx *db.Tx, c *request, in *linkChangeInput) (*PaymentLink, error) {
	b := &in.Body
	l, err := c.Links.Change(ctx, tx, c.by, "", in.LinkID, paymentlink.Change{
		Title: b.Title, Description: b.Description, Active: b.Active, MaxPayments: b.MaxPayments,
		EndsAt: b.EndsAt, RedirectURL: b.RedirectURL,
	})
	if err != nil {
		return nil, err
	}
	return c.showLink(l), nil
}

func getPaymentLink(ctx context.Context, tx *db.Tx, c *request, in *linkPath) (*PaymentLink, error) {
	l, err := c.Links.Get(ctx, tx, c.by, "", in.LinkID)
	if err != nil {
		return nil, err
	}
	return c.showLink(l), nil
}

func listPaymentLinks(ctx context.Context, tx *db.Tx, c *request, in *linkList) (*linkPage, error) {
	all, total, err := c.Links.List(ctx, tx, c.by, c.company, paymentlink.Filter{
		Metadata: in.Metadata, Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &linkPage{Data: make([]PaymentLink, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x paymentlink.Link) string { return x.ID })}
	for i, l := range all {
		out.Data[i] = *c.showLink(l)
	}
	return out, nil
}

func (c *request) showLink(l paymentlink.Link) *PaymentLink {
	text := func(a money.Amount) string {
		if a.Sign() == 0 {
			return ""
		}
		return a.String()
	}
	out := &PaymentLink{
		LinkID: l.ID, CompanyID: l.CompanyID, URL: c.Links.URL(l.ID), Title: l.Title, Description: l.Description,
		Currency: string(l.Currency), Funding: l.Funding, Amount: text(l.Amount), Min: text(l.Min), Max: text(l.Max),
		Suggested: []string{}, MaxPayments: l.MaxPayments, Paid: l.Paid, Reserved: l.Reserved, Active: l.Active,
		RedirectURL: l.RedirectURL, Created: Time(l.CreatedAt), Updated: Time(l.UpdatedAt), Metadata: l.Metadata,
	}
	if c.Claim.Authorizable(l.Funding) {
		out.X402URL = c.Claim.PaymentURL(l.ID)
	}
	for _, a := range l.Suggested {
		out.Suggested = append(out.Suggested, a.String())
	}
	if !l.EndsAt.IsZero() {
		out.EndsAt = (*Time)(&l.EndsAt)
	}
	return out
}
