package app

import (
	"context"
	"maps"
	netmail "net/mail"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/notification"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// startWorker runs jobs and delivers webhooks. Before requests are served, it fetches prices and network fees once;
// if that fails, work that needs them waits.
func (s *Service) startWorker(ctx, background context.Context) error {
	runner, hooks, err := s.buildWorker(ctx, background)
	if err != nil {
		return err
	}
	s.work.Go(func() { runner.Run(background) })
	s.work.Go(func() { hooks.Run(background) })
	return nil
}

// buildWorker makes the job runner and the sender of webhooks.
func (s *Service) buildWorker(ctx, background context.Context) (*job.Runner, *delivery.Sender, error) {
	rails, byBank, err := s.buildRails(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.warn(ctx, "some prices are missing", s.rates.Refresh(ctx))
	if err := s.startScreening(ctx, background); err != nil {
		return nil, nil, err
	}
	mailer, err := s.newMailer()
	if err != nil {
		return nil, nil, err
	}
	table := s.jobs(rails)
	table[mail.JobSend] = job.Entry{Net: mailer.Send, Limit: 8}
	if s.lightning != nil {
		table[lightning.JobInvoice] = job.Entry{Net: s.lightning.HandleInvoice, Limit: 8}
	}
	if s.cfg.Env == Sandbox {
		table[payroll.JobRelease] = job.Entry{Tx: sandbox.WithPayoutFailures(s.payroll.Release)}
	}
	table[destination.JobEntered] = job.Entry{Net: s.checkDestination(byBank), Limit: 4}
	if s.simulatedBank != nil {
		maps.Copy(table, sandbox.BankJobs(s.simulatedBank, byBank))
	}
	if s.collector != nil {
		maps.Copy(table, s.collector.Jobs())
	}
	hooks, err := delivery.NewSender(delivery.Options{
		DB: s.db, Sealer: s.sealer, Env: s.cfg.Env, Policy: s.policy, Log: s.log,
		Observe:   s.observeDelivery,
		Handle:    notification.Handle,
		Transport: s.outside.Webhooks,
	})
	if err != nil {
		return nil, nil, err
	}
	periodic := s.periodic(rails)
	if s.collector != nil {
		periodic = append(periodic, s.collector.Periodic(s.db)...)
	}
	return job.NewRunner(s.db, table, periodic, s.log, s.observeJobs), hooks, nil
}

// buildRails returns the rails of payouts. It also returns the rail for payments by bank, or nil if there is none.
func (s *Service) buildRails(ctx context.Context) (*payout.Rails, *bank.Rail, error) {
	remote, err := s.cfg.client()
	if err != nil {
		return nil, nil, err
	}
	c := bitcoinrail.Config{
		Chain: BitcoinChain, Source: s.source, Pool: s.pool, Log: s.log, Witnesses: s.witnesses, Remote: remote, Keys: s.keys,
	}
	if remote == nil {
		if c.Signer, err = bitcoin.ParseXPriv(s.cfg.BitcoinXPrv, s.cfg.BitcoinNetwork); err != nil {
			return nil, nil, err
		}
	}
	if s.sim != nil {
		c.FeeMaxAge, c.Retry = never, s.cfg.checkInterval()
	}
	onBitcoin, err := bitcoinrail.New(c)
	if err != nil {
		return nil, nil, err
	}
	rails := []payout.Rail{onBitcoin}
	const noFees = "the fee rate is unknown; payouts wait for it"
	s.warn(ctx, noFees, onBitcoin.RefreshFees(ctx, s.db))
	for _, a := range s.evms {
		r, err := s.evmRail(ctx, a, remote)
		if err != nil {
			return nil, nil, err
		}
		rails = append(rails, r)
		s.warn(ctx, noFees, r.RefreshFees(ctx, s.db))
	}
	if s.lightning != nil && s.cfg.PaysLightning() {
		r, err := s.lightningRail(ctx)
		if err != nil {
			return nil, nil, err
		}
		rails = append(rails, r)
	}
	byBank, err := s.bankRail(ctx)
	if err != nil {
		return nil, nil, err
	}
	if byBank != nil {
		rails = append(rails, byBank)
	}
	all, err := payout.New(rails...)
	return all, byBank, err
}

// newMailer returns the mailer. In a sandbox without a mail server, the mailer stores mails instead of sending them.
func (s *Service) newMailer() (*mail.Mailer, error) {
	from, err := netmail.ParseAddress(s.cfg.MailFrom)
	if err != nil {
		return nil, err
	}
	m := &mail.Mailer{From: from, Sealer: s.sealer, BaseURL: s.ready.BaseURL, Sandbox: s.cfg.Env == Sandbox,
		Name: s.cfg.OperatorName}
	m.Verified = func(ctx context.Context, tx *db.Tx, id string) (bool, error) {
		if strings.HasPrefix(id, "usr_") {
			u, err := identity.GetUser(ctx, tx, nil, id)
			return u.KYCStatus == identity.KYCApproved, err
		}
		c, err := identity.CompanyByID(ctx, tx, id)
		return c.KYBStatus == identity.KYBApproved, err
	}
	if m.BaseURL == "" {
		m.BaseURL = "http://" + s.cfg.Listen // another process of this sandbox serves the pages
	}
	if s.cfg.SMTPURL != "" {
		m.Server, err = mail.ParseSMTP(s.cfg.SMTPURL)
	}
	return m, err
}

// listsEvery is how often a worker checks whether the files of the sanctions lists have changed.
const listsEvery = 30 * time.Second

// startScreening loads the sanctions lists and reloads lists that change. A worker does not start without the lists.
func (s *Service) startScreening(ctx, background context.Context) error {
	if _, err := s.lists.Load(); err != nil {
		return err
	}
	if err := s.recordLists(ctx); err != nil {
		return err
	}
	if len(s.cfg.SanctionsList) > 0 {
		s.work.Go(func() { s.followLists(background) })
	}
	return nil
}

// followLists reloads lists that change, until ctx is done.
func (s *Service) followLists(ctx context.Context) {
	tick := time.NewTicker(listsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := s.lists.Load()
		s.warn(ctx, "a sanctions list cannot be read; the previous one stays in use", err)
		if changed {
			s.warn(ctx, "the sanctions lists in use could not be recorded", s.recordLists(ctx))
		}
		if err := s.lists.Current(time.Now()); err != nil {
			s.log.Error("nothing is released before there is a current sanctions list", "error", err)
		}
	}
}

// recordLists logs the lists in use and stores them, so that staff pages and commands can show them.
func (s *Service) recordLists(ctx context.Context) error {
	lists := s.lists.Status()
	for _, l := range lists {
		s.log.Info("sanctions list", "list", l.Name, "published", l.Published.Format(time.DateOnly),
			"entries", l.Entries, "addresses", l.Addresses)
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return screening.SetInUse(ctx, tx, lists) })
}
