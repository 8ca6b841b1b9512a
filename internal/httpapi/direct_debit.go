package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
)

type (
	mandateList struct {
		CompanyID string `query:"company_id"`
	}

	mandates struct {
		Mandates []mandateAnswer `json:"mandates" doc:"The company's mandates, newest first."`
	}

	mandateGet struct {
		CompanyID string `query:"company_id"`
		MandateID string `path:"mandate_id"`
	}

	mandateRevokeInput struct{ Body mandateRevokeBody }

	mandateRevokeBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		MandateID string `json:"mandate_id" maxLength:"64"`
	}

	mandateAnswer struct {
		MandateID  string       `json:"mandate_id"`
		CompanyID  string       `json:"company_id"`
		Scheme     debitScheme  `json:"scheme"`
		Currency   string       `json:"currency"`
		Reference  string       `json:"reference" example:"MDT-06GF58G6W0AYCHQ170KKS701Q0"`
		Creditor   string       `json:"creditor" doc:"Name of the creditor." example:"Example Payments GmbH"`
		CreditorID string       `json:"creditor_id" example:"DE98ZZZ09999999999"`
		Account    string       `json:"account" doc:"The debited account, masked." example:"EUR ••••3000"`
		Status     mandateState `json:"status"`
		Reason     string       `json:"reason" example:"AC04"`
		AcceptedBy string       `json:"accepted_by" example:"usr_06gf58g6w3fq8w7v5cj0n9t2zk"`
		AcceptedAt Time         `json:"accepted_at" doc:"When the mandate was accepted, UTC."`
		LastUsed   *Time        `json:"last_used,omitzero" doc:"When the last direct debit was made, UTC."`

		Proof *mandateProof `json:"proof,omitzero" doc:"What proves the acceptance; only in the response for one mandate."`
	}

	mandateProof struct {
		Text     string `json:"text" example:"By accepting this mandate form, you authorize …"`
		Language string `json:"language" doc:"Language of the text." example:"en"`
		Address  string `json:"accepted_from" doc:"Network address of the member." example:"203.0.113.7"`
		Browser  string `json:"accepted_with" doc:"Browser of the member." example:"Mozilla/5.0"`
	}

	debitInput struct{ Body debitBody }

	debitBody struct {
		CompanyID   string  `json:"company_id,omitempty" maxLength:"64"`
		MandateID   string  `json:"mandate_id" maxLength:"64"`
		Amount      Decimal `json:"amount" doc:"In the mandate's currency."`
		DueOn       string  `json:"due_on,omitempty" maxLength:"10" example:"2026-10-15"`
		Description string  `json:"description,omitempty" maxLength:"140" example:"Payroll October"`
		ExternalID  string  `json:"external_id,omitempty" maxLength:"255"`
		Final       bool    `json:"final,omitempty"`
	}

	debitAnswer struct {
		DebitID        string     `json:"debit_id"`
		CompanyID      string     `json:"company_id"`
		MandateID      string     `json:"mandate_id"`
		Status         debitState `json:"status"`
		Reason         string     `json:"reason" example:"R01"`
		Currency       string     `json:"currency"`
		Amount         Decimal    `json:"amount"`
		ReleasedAmount Decimal    `json:"released_amount" example:"0.00"`
		DueOn          string     `json:"due_on" doc:"The day on which the account is debited." example:"2026-10-15"`
		HeldUntil      *Time      `json:"held_until,omitzero"`
		Reference      string     `json:"reference" doc:"Reference at the bank; empty before it was sent." example:"D0000012"`
		Description    string     `json:"description" doc:"Text on the bank statement." example:"Payroll October"`
		RetryOf        string     `json:"retry_of" example:"ddb_06gf58g6w0aychq170kks701q0"`
		PayrollID      string     `json:"payroll_id"`
		ExternalID     string     `json:"external_id"`
		Final          bool       `json:"final" doc:"Whether it is the last direct debit under the mandate."`
		Created        Time       `json:"created"`
		Updated        Time       `json:"updated"`
	}

	debitGet struct {
		CompanyID string `query:"company_id"`
		DebitID   string `path:"debit_id"`
	}

	debitChangeInput struct{ Body debitChangeBody }

	debitChangeBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		DebitID   string `json:"debit_id" maxLength:"64"`
	}

	debitList struct {
		CompanyID string `query:"company_id"`
		cursorPaging
	}

	debitPage struct {
		Data []debitAnswer `json:"data"`
		Meta meta          `json:"meta"`
	}

	sandboxMandateInput struct{ Body sandboxMandateBody }

	sandboxMandateBody struct {
		Scheme  debitScheme `json:"scheme"`
		Account string      `json:"account,omitempty" maxLength:"34" example:"123456789"`
	}

	sandboxDebitReturnInput struct{ Body sandboxDebitReturnBody }

	sandboxDebitReturnBody struct {
		DebitID string `json:"debit_id" maxLength:"64"`
		Reason  string `json:"reason,omitempty" maxLength:"10" example:"R01"`
	}

	sandboxDebitReturn struct {
		DebitID string `json:"debit_id"`
	}
)

func showMandate(m directdebit.Mandate) mandateAnswer {
	out := mandateAnswer{
		MandateID: m.ID, CompanyID: m.CompanyID, Scheme: debitScheme(m.Scheme), Currency: string(m.Scheme.Asset()),
		Reference: m.Reference, Creditor: m.Creditor, CreditorID: m.CreditorID, Account: m.Hint(),
		Status: mandateState(m.State), Reason: m.Reason, AcceptedBy: m.AcceptedBy, AcceptedAt: Time(m.AcceptedAt),
	}
	if !m.LastUsedAt.IsZero() {
		out.LastUsed = (*Time)(&m.LastUsedAt)
	}
	return out
}

func showDebit(d directdebit.Debit) *debitAnswer {
	out := &debitAnswer{
		DebitID: d.ID, CompanyID: d.CompanyID, MandateID: d.Mandate.ID, Status: debitState(d.State), Reason: d.Reason,
		Currency: string(d.Amount.Asset()), Amount: amount(d.Amount), ReleasedAmount: amount(d.Released), DueOn: d.DueOn,
		Reference: d.Reference(), Description: d.Description, RetryOf: d.RetryOf, ExternalID: d.ExternalID, Final: d.Final,
		PayrollID: d.PayrollID,
		Created:   Time(d.CreatedAt), Updated: Time(d.UpdatedAt),
	}
	if !d.HeldUntil.IsZero() {
		out.HeldUntil = (*Time)(&d.HeldUntil)
	}
	return out
}

func listMandates(ctx context.Context, tx *db.Tx, c *request, _ *mandateList) (*mandates, error) {
	all, err := directdebit.Mandates(ctx, tx, c.by, c.company)
	out := &mandates{make([]mandateAnswer, len(all))}
	for i, m := range all {
		out.Mandates[i] = showMandate(m)
	}
	return out, err
}

func getMandate(ctx context.Context, tx *db.Tx, c *request, in *mandateGet) (*mandateAnswer, error) {
	m, err := directdebit.GetMandate(ctx, tx, c.by, c.company, in.MandateID)
	if err != nil {
		return nil, err
	}
	p, err := c.Debits.ProofOf(m)
	out := showMandate(m)
	out.Proof = &mandateProof{p.Text, p.Language, p.Address, p.Browser}
	return &out, err
}

func revokeMandate(ctx context.Context, tx *db.Tx, c *request, in *mandateRevokeInput) (*mandateAnswer, error) {
	m, err := c.Debits.Revoke(ctx, tx, c.by, c.company, in.Body.MandateID)
	if err != nil {
		return nil, err
	}
	out := showMandate(m)
	return &out, nil
}

func createDebit(ctx context.Context, tx *db.Tx, c *request, in *debitInput) (*debitAnswer, error) {
	d, err := c.Debits.Create(ctx, tx, c.by, directdebit.Params{
		CompanyID: c.company, MandateID: in.Body.MandateID, AmountText: string(in.Body.Amount), DueOn: in.Body.DueOn,
		Description: in.Body.Description, ExternalID: in.Body.ExternalID, Final: in.Body.Final,
	})
	if err != nil {
		return nil, err
	}
	return showDebit(d), nil
}

func getDebit(ctx context.Context, tx *db.Tx, c *request, in *debitGet) (*debitAnswer, error) {
	d, err := directdebit.Get(ctx, tx, c.by, c.company, in.DebitID)
	if err != nil {
		return nil, err
	}
	return showDebit(d), nil
}

func listDebits(ctx context.Context, tx *db.Tx, c *request, in *debitList) (*debitPage, error) {
	all, total, err := directdebit.List(ctx, tx, c.by, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &debitPage{Data: make([]debitAnswer, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x directdebit.Debit) string { return x.ID })}
	for i, d := range all {
		out.Data[i] = *showDebit(d)
	}
	return out, nil
}

func cancelDebit(ctx context.Context, tx *db.Tx, c *request, in *debitChangeInput) (*debitAnswer, error) {
	d, err := c.Debits.Cancel(ctx, tx, c.by, c.company, in.Body.DebitID)
	if err != nil {
		return nil, err
	}
	return showDebit(d), nil
}

func retryDebit(ctx context.Context, tx *db.Tx, c *request, in *debitChangeInput) (*debitAnswer, error) {
	d, err := c.Debits.RetryDebit(ctx, tx, c.by, c.company, in.Body.DebitID)
	if err != nil {
		return nil, err
	}
	return showDebit(d), nil
}

func acceptMandate(ctx context.Context, tx *db.Tx, c *request, in *sandboxMandateInput) (*mandateAnswer, error) {
	m, err := c.Sandbox.AcceptMandate(ctx, tx, c.by, string(in.Body.Scheme), in.Body.Account)
	if err != nil {
		return nil, err
	}
	out := showMandate(m)
	return &out, nil
}

func returnDebit(ctx context.Context, tx *db.Tx, c *request, in *sandboxDebitReturnInput) (*sandboxDebitReturn, error) {
	if err := c.Sandbox.DebitReturn(ctx, tx, c.by, in.Body.DebitID, in.Body.Reason); err != nil {
		return nil, err
	}
	return &sandboxDebitReturn{in.Body.DebitID}, nil
}
