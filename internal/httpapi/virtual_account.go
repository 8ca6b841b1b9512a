package httpapi

import (
	"context"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/virtualaccount"
)

type (
	fundingOpenInput struct{ Body fundingOpenBody }

	fundingOpenBody struct {
		UserID       string `json:"user_id,omitempty" minLength:"1" maxLength:"64"`
		Currency     string `json:"currency" enum:"EUR,USD"`
		TermsVersion string `json:"terms_version,omitempty" maxLength:"20"`
	}

	fundingQuery struct {
		UserID string `query:"user_id" maxLength:"64"`
	}

	fundingList struct {
		Accounts []fundingAccount `json:"accounts"`
	}

	fundingAccount struct {
		FundingAccountID string  `json:"funding_account_id"`
		UserID           string  `json:"user_id" doc:"Empty for an account of the company."`
		Currency         string  `json:"currency"`
		Status           string  `json:"status" enum:"requested,terms_pending,pending,active,suspended,closed"`
		Reason           string  `json:"reason" enum:",verification_ended,refused_by_bank"`
		TermsURL         string  `json:"terms_url"`
		TermsVersion     string  `json:"terms_version" doc:"Accepted version; empty before."`
		AccountHolder    string  `json:"account_holder_name"`
		BankName         string  `json:"bank_name"`
		IBAN             string  `json:"iban"`
		BIC              string  `json:"bic"`
		RoutingNumber    string  `json:"routing_number"`
		AccountNumber    string  `json:"account_number"`
		Balance          Decimal `json:"balance" doc:"The owner's balance in this currency."`
		Created          Time    `json:"created"`
	}

	fundingTerms struct {
		TermsURL        string `json:"terms_url"`
		TermsVersion    string `json:"terms_version" doc:"Current version."`
		Accepted        bool   `json:"accepted" doc:"Whether this version was accepted."`
		AcceptedVersion string `json:"accepted_version"`
		AcceptedAt      string `json:"accepted_at" doc:"Empty before."`
	}

	bankDepositInput struct{ Body bankDepositBody }

	bankDepositBody struct {
		FundingAccountID string  `json:"funding_account_id,omitempty" maxLength:"64"`
		IBAN             string  `json:"iban,omitempty" maxLength:"42"`
		Amount           Decimal `json:"amount"`
		Currency         string  `json:"currency" maxLength:"10"`
		Reference        string  `json:"reference" maxLength:"140"`
	}

	bankDeposited struct {
		DepositID        string  `json:"deposit_id"`
		FundingAccountID string  `json:"funding_account_id"`
		Currency         string  `json:"currency"`
		Balance          Decimal `json:"balance" doc:"The owner's balance after the transfer."`
	}
)

const termsPath = "/terms/funding-account"

func openFundingAccount(ctx context.Context, tx *db.Tx, c *request, in *fundingOpenInput) (*fundingAccount, error) {
	a, err := c.Funding.Open(ctx, tx, c.by, in.Body.UserID, in.Body.Currency, in.Body.TermsVersion)
	if err != nil {
		return nil, err
	}
	return showFundingAccount(a), nil
}

func listFundingAccounts(ctx context.Context, tx *db.Tx, c *request, in *fundingQuery) (*fundingList, error) {
	all, err := c.Funding.List(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	out := &fundingList{make([]fundingAccount, len(all))}
	for i, a := range all {
		out.Accounts[i] = *showFundingAccount(a)
	}
	return out, nil
}

func showFundingAccount(a virtualaccount.Account) *fundingAccount {
	d := &fundingAccount{
		FundingAccountID: a.ID, Currency: string(a.Currency), Status: string(a.State), Reason: a.Reason, TermsURL: termsPath,
		TermsVersion: a.TermsVersion, AccountHolder: a.Holder, BankName: a.BankName, IBAN: a.IBAN, BIC: a.BIC,
		RoutingNumber: a.RoutingNumber, AccountNumber: a.AccountNumber, Balance: amount(a.Balance),
		Created: Time(a.CreatedAt),
	}
	if a.OwnerID != a.CompanyID {
		d.UserID = a.OwnerID
	}
	return d
}

func getFundingTerms(ctx context.Context, tx *db.Tx, c *request, in *fundingQuery) (*fundingTerms, error) {
	accepted, at, err := c.Funding.Terms(ctx, tx, c.by, in.UserID)
	if err != nil {
		return nil, err
	}
	out := &fundingTerms{
		TermsURL: termsPath, TermsVersion: virtualaccount.TermsVersion, Accepted: accepted == virtualaccount.TermsVersion,
		AcceptedVersion: accepted,
	}
	if accepted != "" {
		out.AcceptedAt = at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return out, nil
}

func bankDeposit(ctx context.Context, tx *db.Tx, c *request, in *bankDepositInput) (*bankDeposited, error) {
	b := &in.Body
	id, a, err := c.Funding.Deposit(ctx, tx, c.by, virtualaccount.Incoming{
		AccountID: b.FundingAccountID, IBAN: b.IBAN, Amount: string(b.Amount), Currency: b.Currency, Reference: b.Reference,
	})
	if err != nil {
		return nil, err
	}
	return &bankDeposited{id, a.ID, string(a.Currency), amount(a.Balance)}, nil
}

var termsPage = template.Must(template.New("terms").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Terms of funding accounts</title>
<meta name="viewport" content="width=device-width">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}</style></head>
<body><h1>Terms of funding accounts</h1><p>Version {{.}}.</p><ol>
<li>The account is for your use only. Its numbers can only be used to receive transfers in its currency. The account
cannot be debited.</li>
<li>A transfer is credited to your balance in this service once the bank reports it. A person's transfer is then paid to
their payment destinations, less the fee. If the bank reverses a transfer, the amount is deducted from your balance;
what was already paid out is owed.</li>
<li>The account is held at the bank or agent named in its details, under the terms of that party.</li>
<li>You confirm that the payments you receive are for lawful work or services, and that you will answer questions about
them.</li>
<li>The account is suspended when your verification ends. The bank may close it.</li>
</ol></body></html>
`))

// serveTerms serves all versions of the terms that owners of virtual accounts accept.
func serveTerms(w http.ResponseWriter, _ *http.Request) *apierr.Fault {
	var b strings.Builder
	if err := termsPage.Execute(&b, virtualaccount.TermsVersion); err != nil {
		return errInternal
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Content-Security-Policy", inlinePolicy)
	_, _ = w.Write([]byte(b.String())) // nothing to do if the client disconnected
	return nil
}
