package app

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/auth/sso"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/httpapi"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/notification"
	"github.com/stipend/stipend/internal/oauth"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// jobs returns the handlers of all kinds of jobs. The comment of each line names the packages that enqueue the job,
// and when. startWorker adds the jobs of mails, Lightning and the sandbox. Each rail adds jobs that prepare, send and
// confirm payouts.
func (s *Service) jobs(out *payout.Rails) job.Table {
	table := job.Table{
		chain.JobOutput:            {Batch: deposit.OutputsChanged},       // chain: one of our outputs changed
		lightning.JobPaid:          {Tx: deposit.InvoicePaid},             // lightning: an invoice is paid
		deposit.JobChanged:         {Batch: s.depositsChanged},            // deposit: money for an object
		quote.JobExpired:           {Batch: s.claims.QuoteExpired},        // quote: a claim's quote expired
		claim.JobMonitor:           {Batch: s.claims.Monitor},             // claim: waits for confirmations
		claim.JobRefund:            {Tx: s.claims.Send},                   // claim: a refund was accepted, send it
		claim.JobLinked:            {Tx: s.linkedClaimChanged},            // claim, paymentlink: a linked claim changed
		delivery.JobClear:          {Tx: delivery.Clear},                  // webhook: an endpoint was disabled or deleted
		delivery.JobReplay:         {Tx: delivery.HandleReplay},           // webhook: a range to send again
		payroll.JobRelease:         {Tx: s.payroll.Release},               // payroll: received
		payroll.JobExpire:          {Tx: s.payroll.Expire},                // payroll: created
		proposal.JobExpire:         {Tx: s.proposals.Expire},              // proposal: proposed
		payroll.JobFreeze:          {Tx: backoffice.HandleFreeze},         // backoffice: a company is frozen
		payroll.JobPlatformFee:     {Tx: payroll.CreditPlatform},          // payroll: a platform earned a fee
		payroll.JobReverted:        {Tx: s.fundingReverted},               // payroll: released, and funding is owed
		payout.JobChanged:          {Tx: s.payoutChanged},                 // payout: an output changed state
		kyc.JobSubmit:              {Net: s.kyc.Submit, Limit: 4},         // kyc: a case is complete
		kyc.JobCheck:               {Net: s.kyc.Check, Limit: 4},          // kyc: a case may have changed
		payee.JobActivate:          {Tx: payee.HandleActivate},            // destination: all is allocated
		payee.JobExpire:            {Tx: payee.HandleExpire},              // payee: an invitation is sent
		payee.JobScreen:            {Tx: s.screening.HandleScreen},        // payee, destination: changed
		payee.JobPayable:           {Tx: payable},                         // payee, destination, kyc: changed
		income.JobRelease:          {Tx: s.incomes.Release},               // income: received, or may be payable now
		wallet.JobOpen:             {Tx: s.wallets.Open},                  // wallet: requested
		withdrawal.JobProcess:      {Tx: s.withdrawals.Process},           // withdrawal: created, or decided
		backoffice.JobRefund:       {Tx: s.backoffice.Refund},             // backoffice: returns a deposit
		virtualaccount.JobTransfer: {Tx: income.Received},                 // virtualaccount, bankreceipt: a credit
		virtualaccount.JobOpen:     {Net: s.funding.HandleOpen, Limit: 4}, // virtualaccount: requested
		payee.JobRefresh:           {Tx: payee.HandleRefresh},             // payee: a user's profile changed
		auth.JobLink:               {Tx: auth.HandleLink(s.sealer)},       // auth: a link is requested

		notification.JobNotify: {Tx: notification.HandleNotify},       // notification: an event concerns members
		datakey.JobRotate:      {Tx: datakey.Handle(s.sealer, s.log)}, // datakey: a rotation continues
	}
	maps.Copy(table, out.Jobs())
	return table
}

// payable processes waiting payments to a payee: the user's own incomes, or the payments of a company.
func payable(ctx context.Context, tx *db.Tx, j job.Job) error {
	if identity.IsUser(j.CompanyID) {
		return income.Resume(ctx, tx, j.CompanyID)
	}
	return errors.Join(payroll.HandlePayable(ctx, tx, j), withdrawal.RetryRecorded(ctx, tx, j.CompanyID))
}

// payoutChanged passes a change of a payout to the package that requested the payout.
func (s *Service) payoutChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in payout.Changed
	if err := j.Decode(&in); err != nil {
		return err
	}
	switch {
	case income.IsIncome(in.PayrollID):
		return s.incomes.PayoutChanged(ctx, tx, j)
	case claim.IsClaim(in.PayrollID):
		return s.claims.PayoutChanged(ctx, tx, j)
	case withdrawal.IsWithdrawal(in.PayrollID):
		return s.withdrawals.PayoutChanged(ctx, tx, j)
	case backoffice.Refunds(in.PayrollID):
		return backoffice.RefundChanged(ctx, tx, j)
	}
	return s.payroll.Settle(ctx, tx, j)
}

// linkedClaimChanged passes a change of a claim to the payment link or the invoice that created it.
func (s *Service) linkedClaimChanged(ctx context.Context, tx *db.Tx, j job.Job) error {
	if identity.IsUser(j.CompanyID) {
		return s.checkout.ClaimChanged(ctx, tx, j)
	}
	return s.links.ClaimChanged(ctx, tx, j)
}

// fundingReverted records that a company owes the funding of a released payroll, and freezes the company.
func (s *Service) fundingReverted(ctx context.Context, tx *db.Tx, j job.Job) error {
	return backoffice.FundingReverted(ctx, tx, s.log, j)
}

// depositsChanged passes changes of deposits to the packages whose objects the deposits pay.
func (s *Service) depositsChanged(ctx context.Context, tx *db.Tx, jobs []job.Job) error {
	var ofClaims []job.Job
	for _, j := range jobs {
		var in deposit.Changed
		if err := j.Decode(&in); err != nil {
			return err
		}
		if claim.IsClaim(in.ObjectID) {
			ofClaims = append(ofClaims, j)
		} else if err := s.payroll.Fund(ctx, tx, j); err != nil {
			return err
		}
	}
	return s.claims.Follow(ctx, tx, ofClaims)
}

// periodic returns the work that runs at intervals, on one process at a time.
func (s *Service) periodic(out *payout.Rails) []job.Periodic {
	onDB := func(name string, every time.Duration, run func(context.Context, *db.DB) error) job.Periodic {
		return job.Periodic{Name: name, Every: every, Run: func(ctx context.Context) error { return run(ctx, s.db) }}
	}
	return append(out.Periodic(s.db),
		job.Periodic{Name: "rates.refresh", Every: 20 * time.Second, Run: s.rates.Refresh},
		job.Periodic{Name: "quotes.expire", Every: s.cfg.checkInterval(), Run: s.expireQuotes},
		job.Periodic{Name: "operators.reconcile", Every: time.Hour, Run: s.reconcile},
		job.Periodic{Name: "deposits.heal", Every: 5 * time.Minute, Run: s.healDeposits},
		job.Periodic{Name: "ledger.check", Every: time.Hour, Run: s.checkBalances},
		job.Periodic{Name: "datakey.finish", Every: time.Minute, Timeout: 6 * time.Hour, Run: s.finishRotation},
		onDB("webhooks.prune", time.Hour, delivery.Prune),
		onDB("requests.prune", time.Hour, requestlog.Prune),
		onDB("data.prune", time.Hour, s.cfg.pruneExpired),
		onDB("funding.collect", 30*time.Second, s.funding.Collect),
		onDB("funding.review", 30*time.Second, s.funding.Review),
		onDB("ledger.roll_up", time.Minute, ledger.RollUp),
		onDB("ledger.close_months", time.Hour, ledger.ClosePeriods),
		onDB("payroll.exchange", time.Minute, payroll.RetryConversions),
		onDB("income.retry", time.Minute, new(income.HeldRetrier).Retry),
		onDB("schedules.run", s.cfg.checkInterval(), s.schedules.RunDue),
		onDB("payroll.debts", time.Minute, payroll.SettleDebts),
		onDB("companies.thaw", time.Minute, backoffice.Thaw),
		onDB("claims.settle", 10*time.Minute, s.claims.SettleDue),
		onDB("oauth.forget", time.Hour, oauth.Forget),
		onDB("platforms.forget", time.Hour, platform.Forget),
		onDB("mails.forget_counts", time.Hour, mail.ForgetCounts),
		onDB("sessions.forget", time.Hour, session.Forget),
		onDB("operators.forget", time.Hour, backoffice.Forget),
		onDB("account.forget_links", time.Hour, auth.Forget),
		onDB("sso.forget", time.Hour, sso.Forget),
		onDB("destination.forget_requests", time.Hour, destination.ForgetRequests),
		onDB("kyc.expire", time.Hour, s.kyc.ExpireDue),
		onDB("kyc.forget_callbacks", time.Hour, kyc.ForgetCallbacks),
		onDB("payroll.forget_form_keys", time.Hour, payroll.ForgetFormKeys),
		onDB("api.forget_keys", time.Hour, httpapi.ForgetKeys),
	)
}

// expireQuotes expires unpaid quotes that ended before the time up to which their chain was watched.
func (s *Service) expireQuotes(ctx context.Context) error {
	_, err := quote.ExpireDue(ctx, s.db, s.cfg.BitcoinNetwork, monitor.SeenUntil(BitcoinChain))
	for _, n := range s.accounts.Networks {
		_, failed := quote.ExpireDue(ctx, s.db, n.Name, monitor.SeenUntil(n.Name))
		err = errors.Join(err, failed)
	}
	return err
}

// finishRotation completes a rotation of the data key after all data was encrypted again.
func (s *Service) finishRotation(ctx context.Context) error { return datakey.Finish(ctx, s.db, s.log) }

// healDeposits corrects deposits that contradict the outputs of their chain.
func (s *Service) healDeposits(ctx context.Context) error {
	chains := []string{BitcoinChain}
	for _, a := range s.evms {
		chains = append(chains, a.Network.Name)
	}
	return deposit.Heal(ctx, s.db, s.log, chains...)
}

// checkBalances compares the stored balances with the lines of the ledger.
func (s *Service) checkBalances(ctx context.Context) error {
	return backoffice.CheckBalances(ctx, s.db, s.log)
}

// followBalances checks the balances whenever a posting finds a wrong balance, until ctx is done.
func (s *Service) followBalances(ctx context.Context) {
	found := make(chan struct{}, 1)
	s.db.OnNotice(ledger.NoticeDiffers, func() {
		select {
		case found <- struct{}{}:
		default:
		}
	})
	s.work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-found:
				s.warn(ctx, "the balances cannot be checked", s.checkBalances(ctx))
			}
		}
	})
}

// sources returns the nodes and banks with which the ledger is compared. It returns false if the Bitcoin node cannot
// list coins.
func (s *Service) sources() (backoffice.Sources, bool) {
	node, ok := s.source.(chain.UTXOSource)
	w := backoffice.Sources{Chain: BitcoinChain, Node: node, Banks: s.banks}
	for _, a := range s.evms {
		w.Accounts = append(w.Accounts, a.Node)
	}
	if s.lightning != nil {
		w.Channels = s.lightning.Client
	}
	return w, ok
}

// reconcile compares the ledger with the nodes and banks, if the Bitcoin node can list coins, and reacts to
// differences.
func (s *Service) reconcile(ctx context.Context) error {
	w, ok := s.sources()
	if !ok {
		return nil
	}
	r, err := backoffice.ReconcileSettled(ctx, s.db, w)
	if err != nil {
		return err
	}
	return r.Respond(ctx, s.db, s.log)
}
