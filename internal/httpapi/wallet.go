package httpapi

import (
	"context"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/wallet"
)

type (
	walletRequestInput struct{ Body walletRequestBody }

	walletRequestBody struct {
		CompanyID string `json:"company_id,omitempty" maxLength:"64"`
		Currency  string `json:"currency" maxLength:"10"`
	}

	walletRequested struct {
		WalletID  string `json:"wallet_id"`
		CompanyID string `json:"company_id"`
		Currency  string `json:"currency"`
		Status    string `json:"status" enum:"pending,in_progress,completed,rejected"`
		Reason    string `json:"reason" enum:",currency_not_supported,company_frozen" doc:"Reason for the rejection."`
	}

	walletList struct {
		CompanyID string `query:"company_id"`
	}

	walletBalances struct {
		Wallets []walletBalance `json:"wallets"`
	}

	walletBalance struct {
		WalletID  string   `json:"wallet_id" doc:"Empty if there is a balance but no wallet was requested."`
		Currency  string   `json:"currency"`
		Status    string   `json:"status" enum:",pending,in_progress,completed,rejected"`
		Available Decimal  `json:"available" doc:"Available to fund payrolls."`
		Reserved  Decimal  `json:"reserved" doc:"Reserved for payrolls that are not released yet."`
		Claims    Decimal  `json:"claims" doc:"Proceeds of merchant claims that are not settled yet."`
		Address   string   `json:"address"`
		Networks  []string `json:"networks"`
	}

	walletDepositList struct {
		CompanyID string `query:"company_id"`
		Currency  string `query:"currency" maxLength:"10"`
		cursorPaging
	}

	walletDepositPage struct {
		Data []walletDeposit `json:"data"`
		Meta meta            `json:"meta"`
	}

	walletDeposit struct {
		DepositID     string  `json:"deposit_id"`
		WalletID      string  `json:"wallet_id"`
		Status        string  `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		Currency      string  `json:"currency"`
		Amount        Decimal `json:"amount"`
		Network       string  `json:"network"`
		Address       string  `json:"address"`
		TxHash        string  `json:"tx_hash"`
		Confirmations int64   `json:"confirmations"`
		Required      int64   `json:"confirmations_required"`
		FirstSeen     Time    `json:"first_seen"`
	}

	walletTransactions struct {
		CompanyID string    `query:"company_id"`
		Account   string    `query:"account" enum:"available,claims" default:"available"`
		Currency  string    `query:"currency" maxLength:"10"`
		From      time.Time `query:"from" doc:"Booked at this time or later."`
		To        time.Time `query:"to" doc:"Booked before this time."`
		cursorPaging
	}

	walletTransactionPage struct {
		Data []walletTransaction `json:"data"`
		Meta meta                `json:"meta"`
	}

	walletTransaction struct {
		TransactionID string  `json:"transaction_id"`
		Type          string  `json:"type"`
		Description   string  `json:"description"`
		Currency      string  `json:"currency"`
		Amount        Decimal `json:"amount" doc:"Negative for an outgoing transaction."`
		Balance       Decimal `json:"balance" doc:"Balance of the account in this currency after the transaction."`
		SourceType    string  `json:"source_type"`
		SourceID      string  `json:"source_id"`
		PayrollID     string  `json:"payroll_id"`
		DepositID     string  `json:"deposit_id"`
		Created       Time    `json:"created"`
	}
)

func requestWallet(ctx context.Context, tx *db.Tx, c *request, in *walletRequestInput) (*walletRequested, error) {
	w, err := wallet.Request(ctx, tx, c.by, c.company, in.Body.Currency)
	if err != nil {
		return nil, err
	}
	return &walletRequested{w.ID, w.CompanyID, string(w.Currency), string(w.State), w.Reason}, nil
}

func listWallets(ctx context.Context, tx *db.Tx, c *request, _ *walletList) (*walletBalances, error) {
	all, err := wallet.Balances(ctx, tx, c.by, c.company)
	if err != nil {
		return nil, err
	}
	out := &walletBalances{make([]walletBalance, len(all))}
	for i, b := range all {
		out.Wallets[i] = walletBalance{
			b.ID, string(b.Currency), string(b.State), amount(b.Available), amount(b.Reserved), amount(b.Claims), b.Address,
			[]string{},
		}
		if b.Address != "" {
			out.Wallets[i].Networks = wallet.Networks(b.Currency, c.Payroll.Network, c.Payroll.Accounts)
		}
	}
	return out, nil
}

func listWalletDeposits(ctx context.Context, tx *db.Tx, c *request, in *walletDepositList) (*walletDepositPage, error) {
	all, total, err := deposit.OfBalance(ctx, tx, c.company, in.Currency, in.page())
	if err != nil {
		return nil, err
	}
	depths, err := deposit.Depths(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	out := &walletDepositPage{Data: make([]walletDeposit, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x deposit.Deposit) string { return x.ID })}
	for i, d := range all {
		out.Data[i] = walletDeposit{
			DepositID: d.ID, WalletID: d.WalletID(), Status: string(d.State), Currency: string(d.Amount.Asset()),
			Amount: amount(d.Amount), Network: d.Chain, Address: d.Address, TxHash: d.TxID, Confirmations: depths[i],
			Required: d.Wanted, FirstSeen: Time(d.FirstSeen),
		}
		if d.Chain == c.Payroll.ChainName {
			out.Data[i].Network = c.Payroll.Network
		}
	}
	return out, nil
}

func listTransactions(
	ctx context.Context, tx *db.Tx, c *request, in *walletTransactions,
) (*walletTransactionPage, error) {
	all, total, err := wallet.Transactions(ctx, tx, c.by, c.company, wallet.Filter{
		Claims: in.Account == "claims", Currency: in.Currency, From: in.From, To: in.To,
		Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &walletTransactionPage{Data: make([]walletTransaction, len(all)), Meta: metaOf(in.cursorPaging, total, all,
		func(x wallet.Transaction) string { return x.Ref() })}
	for i, t := range all {
		out.Data[i] = showTransaction(t)
	}
	return out, nil
}

func showTransaction(t wallet.Transaction) walletTransaction {
	return walletTransaction{
		TransactionID: t.ID, Type: t.Type, Description: t.Description, Currency: string(t.Amount.Asset()),
		Amount: amount(t.Amount), Balance: amount(t.Balance), SourceType: t.SourceType, SourceID: t.SourceID,
		PayrollID: t.PayrollID, DepositID: t.DepositID, Created: Time(t.At),
	}
}
