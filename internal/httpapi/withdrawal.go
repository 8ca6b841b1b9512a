package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/withdrawal"
)

type (
	withdrawalDestinationList struct {
		CompanyID string `query:"company_id"`
	}

	withdrawalDestinations struct {
		Destinations []withdrawalDestination `json:"destinations" doc:"The company's destinations, oldest first."`
	}

	withdrawalDestination struct {
		DestinationID string `json:"destination_id"`
		Label         string `json:"label" doc:"The company's label." example:"Treasury"`
		Currency      string `json:"currency"`
		Rail          string `json:"rail" doc:"Payout rail." example:"bitcoin"`
		Hint          string `json:"hint" doc:"Masked details of the destination." example:"bcrt1…t080"`
		ReadyAt       Time   `json:"ready_at" doc:"When withdrawals to it become possible, UTC."`
		Created       Time   `json:"created"`
	}

	withdrawInput struct{ Body withdrawBody }

	withdrawBody struct {
		CompanyID     string  `json:"company_id,omitempty" maxLength:"64"`
		DestinationID string  `json:"destination_id" maxLength:"64"`
		Amount        Decimal `json:"amount" doc:"In the destination's currency."`
		ExternalID    string  `json:"external_id,omitempty" maxLength:"255"`
	}

	withdrawalAnswer struct {
		WithdrawalID    string          `json:"withdrawal_id"`
		CompanyID       string          `json:"company_id"`
		DestinationID   string          `json:"destination_id"`
		Destination     string          `json:"destination" example:"Treasury BTC bcrt1…t080"`
		Status          withdrawalState `json:"status"`
		Reason          string          `json:"reason" example:"approval_required"`
		Currency        string          `json:"currency"`
		Amount          Decimal         `json:"amount"`
		TxHash          string          `json:"tx_hash"`
		ExternalID      string          `json:"external_id"`
		ApprovalsNeeded int64           `json:"approvals_needed" example:"2"`
		ApprovalsGiven  int64           `json:"approvals_given" doc:"Approvals given." example:"1"`
		Created         Time            `json:"created"`
		Updated         Time            `json:"updated"`
	}

	withdrawalGet struct {
		CompanyID    string `query:"company_id"`
		WithdrawalID string `path:"withdrawal_id"`
	}

	withdrawalCancelInput struct{ Body withdrawalCancelBody }

	withdrawalCancelBody struct {
		CompanyID    string `json:"company_id,omitempty" maxLength:"64"`
		WithdrawalID string `json:"withdrawal_id" maxLength:"64"`
	}

	withdrawalList struct {
		CompanyID string `query:"company_id"`
		cursorPaging
	}

	withdrawalPage struct {
		Data []withdrawalAnswer `json:"data"`
		Meta meta               `json:"meta"`
	}

	walletStatementGet struct {
		CompanyID string    `query:"company_id"`
		Account   string    `query:"account" enum:"available,claims" default:"available"`
		Currency  string    `query:"currency" required:"true" maxLength:"10"`
		From      time.Time `query:"from" doc:"Booked at this time or later. Default: the beginning of the month."`
		To        time.Time `query:"to" doc:"Booked before this time. Default: now."`
		paging
	}

	walletStatement struct {
		Currency       string              `json:"currency"`
		From           Time                `json:"from" doc:"Start of the period, UTC." example:"2026-09-01T00:00:00.000Z"`
		To             Time                `json:"to" doc:"End of the period, UTC." example:"2026-10-01T00:00:00.000Z"`
		OpeningBalance Decimal             `json:"opening_balance" doc:"Balance at the start of the period." example:"100.00"`
		TotalIn        Decimal             `json:"total_in" doc:"Total credits." example:"50.00"`
		TotalOut       Decimal             `json:"total_out" doc:"Total debits, as a positive number." example:"20.00"`
		ClosingBalance Decimal             `json:"closing_balance" example:"130.00"`
		Data           []walletTransaction `json:"data" doc:"Transactions of the page, oldest first."`
		Meta           meta                `json:"meta"`
	}
)

func showWithdrawal(w withdrawal.Withdrawal) *withdrawalAnswer {
	out := &withdrawalAnswer{
		WithdrawalID: w.ID, CompanyID: w.CompanyID, DestinationID: w.Destination.ID, Destination: w.Destination.Hint(),
		Status: withdrawalState(w.State), Reason: w.Reason, Currency: string(w.Amount.Asset()), Amount: amount(w.Amount),
		TxHash: w.TxHash, ExternalID: w.ExternalID, Created: Time(w.CreatedAt), Updated: Time(w.UpdatedAt),
	}
	if w.State == withdrawal.AwaitingApproval {
		out.ApprovalsNeeded, out.ApprovalsGiven = w.Approval.Needed, int64(len(w.Approval.By))
	}
	return out
}

func listWithdrawalDestinations(
	ctx context.Context, tx *db.Tx, c *request, _ *withdrawalDestinationList,
) (*withdrawalDestinations, error) {
	all, err := withdrawal.Destinations(ctx, tx, c.by, c.company)
	if err != nil {
		return nil, err
	}
	out := &withdrawalDestinations{make([]withdrawalDestination, len(all))}
	for i, d := range all {
		out.Destinations[i] = withdrawalDestination{
			d.ID, d.Label, string(d.To.Symbol), d.To.Rail, d.To.Hint(), Time(d.ReadyAt), Time(d.CreatedAt),
		}
	}
	return out, nil
}

func withdraw(ctx context.Context, tx *db.Tx, c *request, in *withdrawInput) (*withdrawalAnswer, error) {
	w, err := c.Withdrawal.Create(ctx, tx, c.by, withdrawal.Params{
		CompanyID: c.company, DestinationID: in.Body.DestinationID, AmountText: string(in.Body.Amount),
		ExternalID: in.Body.ExternalID,
	})
	if err != nil {
		return nil, err
	}
	return showWithdrawal(w), nil
}

func getWithdrawal(ctx context.Context, tx *db.Tx, c *request, in *withdrawalGet) (*withdrawalAnswer, error) {
	w, err := withdrawal.Get(ctx, tx, c.by, c.company, in.WithdrawalID)
	if err != nil {
		return nil, err
	}
	return showWithdrawal(w), nil
}

func cancelWithdrawal(
	ctx context.Context, tx *db.Tx, c *request, in *withdrawalCancelInput,
) (*withdrawalAnswer, error) {
	w, err := c.Withdrawal.Cancel(ctx, tx, c.by, c.company, in.Body.WithdrawalID)
	if err != nil {
		return nil, err
	}
	return showWithdrawal(w), nil
}

func listWithdrawals(ctx context.Context, tx *db.Tx, c *request, in *withdrawalList) (*withdrawalPage, error) {
	all, total, err := withdrawal.List(ctx, tx, c.by, c.company, in.page())
	if err != nil {
		return nil, err
	}
	out := &withdrawalPage{Data: make([]withdrawalAnswer, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x withdrawal.Withdrawal) string { return x.ID })}
	for i, w := range all {
		out.Data[i] = *showWithdrawal(w)
	}
	return out, nil
}

func getWalletStatement(ctx context.Context, tx *db.Tx, c *request, in *walletStatementGet) (*walletStatement, error) {
	s, err := wallet.StatementOf(ctx, tx, c.by, c.company, wallet.Filter{
		Claims: in.Account == "claims", Currency: in.Currency, From: in.From, To: in.To,
		Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &walletStatement{
		Currency: string(s.Currency), From: Time(s.From), To: Time(s.To), OpeningBalance: amount(s.Opening),
		TotalIn: amount(s.In), TotalOut: amount(s.Out), ClosingBalance: amount(s.Closing),
		Data: make([]walletTransaction, len(s.Lines)), Meta: in.meta(s.Total),
	}
	for i, t := range s.Lines {
		out.Data[i] = showTransaction(t)
	}
	return out, nil
}
