package app

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// jobs is the map of what starts what: kind of job → who listens. With the table of routes it is the whole of it.
//
//	who enqueues                     kind                who listens
//	chain: an output to us changed   chain.output        deposit
//	claim: to be paid over Lightning lightning.invoice   lightning: make it at the node, or end it there
//	lightning: an invoice is paid    lightning.paid      deposit
//	deposit: money for an object     deposit.changed     payroll: fund; claim: follow
//	quote: a claim's price has ended quote.expired       claim: follow
//	claim: waits for confirmations   claim.monitor       claim: follow, or give up
//	claim: a refund is accepted      claim.refund        claim: screen the address, queue an output
//	(none: an old settlement)        claim.settle        claim: give the balance what was to be paid to an address
//	webhook: an endpoint stopped     webhook.clear       webhook: cancel or delete what it left
//	webhook: a range to send again   webhook.replay      webhook: add it to the queue
//	payroll: received                payroll.release     payroll: release, which queues outputs
//	payroll: created                 payroll.expire      payroll: give up waiting for money
//	payout: outputs are queued       payout.prepare.RAIL the rail: store signed transactions or files
//	payout: prepared                 payout.send.RAIL    the rail: hand over what is stored
//	payout: sent, but unconfirmed    payout.nudge.RAIL   the rail: broadcast again, raise the fee
//	chain: our transaction changed   chain.tx            payout: confirm
//	chain: others spent our coin     chain.stranger      payout: stop everything
//	bank: it wants a change  payout.bank_change  distribution: keep the correction, and tell of it
//	payout: an output's state moved  payout.changed      payroll: settle; claim: refunds; withdrawal; operator
//	kyc: a case is complete          kyc.submit          kyc: give it to the provider
//	kyc: a case may have moved       kyc.check           kyc: ask the provider
//	distribution: all is allocated   recipient.activate  recipient
//	recipient, distribution: changed recipient.screen    distribution: look for the payee on the sanctions lists
//	recipient: an invitation is sent invitation.expire   recipient: end it after 14 days
//	recipient, distribution: changed recipient.payable   payroll: release anew what waits for the payee
//	operator: a company is frozen    payroll.freeze      payroll: hold what was being released meanwhile
//	wallet: asked for                wallet.open         wallet: decide, or wait for the company's verification
//	withdrawal: made, or decided     withdrawal.look     withdrawal: queue an output, or say what stands in the way
//	operator: a deposit is sent back deposit.refund      operator: screen the address, queue an output
//	funding: an account is asked for funding.open        funding: ask the bank
//	any package: a mail to a person  mail.send           mail
//	account: a link is asked for     account.link        account: write to the address
//	recipient: a user's profile      recipient.refresh   recipient: each company's copy of it
func jobs(pay *payroll.Service, claims *claim.Service, out *payout.Rails, look destination.Screening, house *backoffice.Service, open wallet.Opener, take *withdrawal.Service, accounts *virtualaccount.Service, who *kyc.Service) job.Table {
	table := job.Table{
		chain.JobOutput:        {Batch: deposit.OutputsChanged},
		lightning.JobPaid:      {Tx: deposit.InvoicePaid},
		deposit.JobChanged:     {Batch: byObject(pay.Fund, claims.Follow)},
		quote.JobExpired:       {Batch: claims.QuoteExpired},
		claim.JobMonitor:       {Batch: claims.Monitor},
		claim.JobRefund:        {Tx: claims.Send},
		delivery.JobClear:      {Tx: delivery.Clear},
		delivery.JobReplay:     {Tx: delivery.HandleReplay},
		payroll.JobRelease:     {Tx: pay.Release},
		payroll.JobExpire:      {Tx: pay.Expire},
		payroll.JobFreeze:      {Tx: payroll.HandleFreeze},
		payout.JobChanged:      {Tx: byPayout(pay.Settle, claims.PayoutChanged, take.PayoutChanged, backoffice.RefundChanged)},
		kyc.JobSubmit:          {Net: who.Submit, Limit: 4},
		kyc.JobCheck:           {Net: who.Check, Limit: 4},
		payee.JobActivate:      {Tx: payee.HandleActivate},
		payee.JobExpire:        {Tx: payee.HandleExpire},
		payee.JobScreen:        {Tx: look.HandleScreen},
		payee.JobPayable:       {Tx: payroll.HandlePayable},
		wallet.JobOpen:         {Tx: open.Open},
		withdrawal.JobLook:     {Tx: take.Look},
		backoffice.JobRefund:   {Tx: house.Refund},
		virtualaccount.JobOpen: {Net: accounts.HandleOpen, Limit: 4},
		payee.JobRefresh:       {Tx: payee.HandleRefresh},
		auth.JobLink:           {Tx: auth.HandleLink(who.Sealer)},
	}
	maps.Copy(table, out.Jobs())
	return table
}

// byPayout hands news of a payout on to whom it is paid for. Whatever is no claim's, settlement's, withdrawal's or deposit's is
// a payroll's.
func byPayout(payrolls, claims, withdrawals, refunds job.TxHandler) job.TxHandler {
	return func(ctx context.Context, tx *db.Tx, j job.Job) error {
		var in payout.Changed
		if err := j.Decode(&in); err != nil {
			return err
		}
		if claim.IsClaim(in.PayrollID) {
			return claims(ctx, tx, j)
		}
		if withdrawal.Pays(in.PayrollID) {
			return withdrawals(ctx, tx, j)
		}
		if backoffice.Refunds(in.PayrollID) {
			return refunds(ctx, tx, j)
		}
		return payrolls(ctx, tx, j)
	}
}

// byObject hands news of money on to whom it came for. An object of another kind is a payroll.
func byObject(payrolls job.TxHandler, claims job.BatchHandler) job.BatchHandler {
	return func(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
		var ofClaims []job.Job
		for _, j := range jobs {
			var in deposit.Changed
			if err := j.Decode(&in); err != nil {
				return err
			}
			if claim.IsClaim(in.ObjectID) {
				ofClaims = append(ofClaims, j)
			} else if err := payrolls(ctx, tx, j); err != nil {
				return err
			}
		}
		return claims(ctx, tx, ofClaims)
	}
}

// periodic is what happens by the clock, on one process at a time.
func (s *Service) periodic(out *payout.Rails, claims *claim.Service) []job.Periodic {
	return append(out.Periodic(s.db),
		job.Periodic{Name: "webhooks.prune", Every: time.Hour, Run: func(ctx context.Context) error { return delivery.Prune(ctx, s.db) }},
		job.Periodic{Name: "requests.prune", Every: time.Hour, Run: func(ctx context.Context) error { return requestlog.Prune(ctx, s.db) }},
		job.Periodic{Name: "rates.refresh", Every: 20 * time.Second, Run: s.rates.Refresh},
		job.Periodic{Name: "funding.collect", Every: 30 * time.Second, Run: func(ctx context.Context) error { return s.funding.Collect(ctx, s.db) }},
		job.Periodic{Name: "funding.review", Every: 30 * time.Second, Run: func(ctx context.Context) error { return s.funding.Review(ctx, s.db) }},
		job.Periodic{Name: "ledger.roll_up", Every: time.Minute, Run: func(ctx context.Context) error { return ledger.RollUp(ctx, s.db) }},
		job.Periodic{Name: "payroll.exchange", Every: time.Minute, Run: func(ctx context.Context) error { return payroll.RetryConversions(ctx, s.db) }},
		job.Periodic{Name: "payroll.debts", Every: time.Minute, Run: func(ctx context.Context) error { return payroll.SettleDebts(ctx, s.db) }},
		job.Periodic{Name: "quotes.expire", Every: s.cfg.lookEvery(), Run: s.expireQuotes},
		job.Periodic{Name: "claims.settle", Every: 10 * time.Minute, Run: func(ctx context.Context) error { return claims.SettleDue(ctx, s.db) }},
		job.Periodic{Name: "oauth.forget_codes", Every: time.Hour, Run: func(ctx context.Context) error { return oauth.ForgetCodes(ctx, s.db) }},
		job.Periodic{Name: "mails.forget", Every: time.Hour, Run: func(ctx context.Context) error { return mail.Forget(ctx, s.db) }},
		job.Periodic{Name: "sessions.forget", Every: time.Hour, Run: func(ctx context.Context) error { return session.Forget(ctx, s.db) }},
		job.Periodic{Name: "ledger.close_months", Every: time.Hour, Run: func(ctx context.Context) error { return ledger.ClosePeriods(ctx, s.db) }},
		job.Periodic{Name: "operators.reconcile", Every: reconcileEvery, Run: s.reconcileNow},
		job.Periodic{Name: "operators.forget", Every: time.Hour, Run: func(ctx context.Context) error { return backoffice.Forget(ctx, s.db) }},
		job.Periodic{Name: "account.forget_links", Every: time.Hour, Run: func(ctx context.Context) error { return auth.Forget(ctx, s.db) }},
		job.Periodic{Name: "kyc.expire", Every: time.Hour, Run: func(ctx context.Context) error { return s.kyc.ExpireDue(ctx, s.db) }},
		job.Periodic{Name: "api.forget_keys", Every: time.Hour, Run: func(ctx context.Context) error { return httpapi.ForgetKeys(ctx, s.db) }},
	)
}

// expireQuotes expires what nobody paid in time, as far as each chain has been seen.
func (s *Service) expireQuotes(ctx context.Context) error {
	_, err := quote.ExpireDue(ctx, s.db, s.cfg.BitcoinNetwork, watchedUntil(BitcoinChain))
	for _, n := range s.accounts.Networks {
		_, failed := quote.ExpireDue(ctx, s.db, n.Name, watchedUntil(n.Name))
		err = errors.Join(err, failed)
	}
	return err
}
