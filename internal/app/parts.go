package app

import (
	"context"
	"maps"
	"net/http"
	netmail "net/mail"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	bitcoinrail "github.com/stipend/stipend/internal/payout/bitcoin"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// readSettings makes what needs nothing but the configuration and the database.
func (s *Service) readSettings() error {
	s.requests = requestlog.New(s.db, time.Now, s.log)
	key, err := ParseDataKey(s.cfg.DataKey)
	if err != nil {
		return err
	}
	if s.sealer, err = identity.NewSealer(key); err != nil {
		return err
	}
	if s.kyc, err = kyc.New(s.sealer, s.cfg.intake(), s.verifier()); err != nil {
		return err
	}
	s.funding = &virtualaccount.Service{Bank: s.bank(), Sealer: s.sealer}
	s.rates = s.refresher()
	s.policy, err = s.cfg.webhookPolicy()
	return err
}

// parts are the services that several roles share.
type parts struct {
	keys        *bitcoin.Deriver // of the Bitcoin wallet
	pool        *chain.Pool      // of its addresses
	payroll     *payroll.Service
	claims      *claim.Service
	withdrawals *withdrawal.Service
	lists       *screening.Screener // sanctions lists, loaded by startScreening
	screening   destination.Screening
}

// assemble makes the services of the business, and tells them of each other.
func (s *Service) assemble() (p parts, err error) {
	if p.keys, err = bitcoin.ParseXPub(s.cfg.BitcoinXPub, s.cfg.BitcoinNetwork); err != nil {
		return p, err
	}
	p.pool = chain.NewPool(s.db, BitcoinChain, p.keys)
	banks, err := s.cfg.OperatorBankAccounts()
	if err != nil {
		return p, err
	}
	limit, err := s.cfg.releaseLimit()
	if err != nil {
		return p, err
	}
	if s.lightning, err = s.cfg.OpenLightning(); err != nil {
		return p, err
	}
	if s.lightning != nil {
		s.lightning.Sealer = s.sealer
	}
	// Only a worker process loads the lists. Until they are loaded nobody can be screened, so nothing is paid.
	if p.lists, err = screening.New(screening.Options{
		Paths: s.cfg.SanctionsList, Threshold: s.cfg.SanctionsThreshold, MaxAge: s.cfg.maxListAge(),
	}); err != nil {
		return p, err
	}
	if p.screening, err = destination.NewScreening(p.lists, s.sealer); err != nil {
		return p, err
	}
	screenAddress := func(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (bool, error) {
		blocked, err := p.lists.Screen(ctx, tx, companyID, []screening.Subject{{ID: subjectID, Addresses: []string{address}}})
		return blocked[subjectID], err
	}
	release := approval.NewReleaseLimit(limit)
	if p.payroll, err = payroll.New(payroll.Config{
		Pool: p.pool, ChainName: BitcoinChain, Network: s.cfg.BitcoinNetwork, Accounts: s.accounts, SpreadBps: s.cfg.SpreadBps,
		QuoteValidity: s.cfg.QuoteValidity, CoolDown: s.cfg.CoolDown, VerifiedOnly: s.cfg.Env == Production, FX: treasury.Desk{Open: s.cfg.Env == Sandbox}, Banks: banks,
	}, payroll.Guards{CheckWatched: s.checkQuotable, Screen: p.screening.Screen, ReleaseApproved: release.Approved}); err != nil {
		return p, err
	}
	if s.operators, err = backoffice.New(backoffice.Deps{
		Sealer: s.sealer, Payroll: p.payroll, ReleaseLimit: release, Setup: s.setup(), Screen: screenAddress,
	}); err != nil {
		return p, err
	}
	if p.withdrawals, err = withdrawal.New(withdrawal.Config{
		Setup: s.setup(), CoolDown: approval.CoolDown(s.cfg.CoolDown), VerifiedOnly: s.cfg.Env == Production,
	}, withdrawal.Guards{Screen: p.screening.Screen, ReleaseApproved: release.Approved}); err != nil {
		return p, err
	}
	p.claims, err = claim.New(claim.Config{
		Pool: p.pool, ChainName: BitcoinChain, Network: s.cfg.BitcoinNetwork, SpreadBps: s.cfg.SpreadBps, Validity: s.cfg.ClaimValidity,
		BaseURL: s.ready.BaseURL, Lightning: s.lightning, PerMinute: int64(s.cfg.ClaimsPerMinute), MaxOpen: int64(s.cfg.OpenClaims),
		Withdrawals: p.withdrawals,
	}, claim.Guards{CheckWatched: s.checkWatched, Screen: screenAddress, ReleaseApproved: release.Approved})
	return p, err
}

// imagesAtOnce is how many images a process decodes at a time; each may need 200 MiB.
const imagesAtOnce = 2

// intake reads images of documents. A sandbox has nobody who would look at them: it takes pictures from one pixel on, so that
// tests need no large files.
func (c Config) intake() *kyc.ImageDecoder {
	if c.Env == Sandbox {
		return kyc.NewImageDecoder(imagesAtOnce, 1)
	}
	return kyc.NewImageDecoder(imagesAtOnce, kyc.MinPixels)
}

// bank chooses who opens funding accounts: the configured provider, the bank of the sandbox, or nobody.
func (s *Service) bank() virtualaccount.Bank {
	switch {
	case s.cfg.FundingStripeKey != "":
		return stripe.New(stripe.Options{Key: s.cfg.FundingStripeKey, URL: s.cfg.FundingStripeURL, Country: s.cfg.FundingStripeCountry})
	case s.cfg.Env == Sandbox:
		return virtualaccount.Sandbox{}
	}
	return nil
}

// verifier is the vendor that was set up. The sandbox has one of its own; production without a vendor verifies nobody.
func (s *Service) verifier() kyc.Provider {
	switch {
	case s.cfg.SumsubToken != "":
		return sumsub.New(sumsub.Options{
			URL: s.cfg.SumsubURL, Token: s.cfg.SumsubToken, Secret: s.cfg.SumsubSecret, WebhookSecret: s.cfg.SumsubWebhookSecret,
			PersonLevel: s.cfg.SumsubPersonLevel, CompanyLevel: s.cfg.SumsubCompanyLevel, Now: time.Now,
		})
	case s.cfg.Env == Sandbox:
		return kyc.Sandbox{}
	}
	return nil
}

// openChain chooses the chain: a node's, or the simulated one.
func (s *Service) openChain() (err error) {
	if s.witnesses, err = s.cfg.bitcoinWitnesses(); err != nil {
		return err
	}
	if s.cfg.Simulated() {
		s.sim = bitcoinsim.New(s.watching)
		s.source = s.sim
		return nil
	}
	client, err := newClient(s.cfg.BitcoinRPC, s.cfg.BitcoinCookie, s.cfg.BitcoinNetwork)
	s.source = client
	return err
}

func newClient(rpc, cookie, network string) (*bitcoin.Client, error) {
	return bitcoin.NewClient(bitcoin.Options{URL: rpc, CookieFile: cookie, Network: network})
}

// never is the age at which a price grows old where the clock jumps.
const never = 100 * 365 * 24 * time.Hour

// refresher asks markets in production. The sandbox invents its prices, and its clock jumps, so they never grow old there.
func (s *Service) refresher() *rates.Refresher {
	if s.cfg.Env == Sandbox {
		return &rates.Refresher{DB: s.db, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: never, FiatLimit: never}
	}
	client := &http.Client{Timeout: 10 * time.Second}
	return &rates.Refresher{DB: s.db, Sources: []rates.Source{
		rates.Coinbase(client, ""), rates.Kraken(client, ""), rates.Bitstamp(client, ""), rates.ECB(client, ""),
	}}
}

func (s *Service) setup() destination.Setup {
	return destination.Setup{Sealer: s.sealer, BitcoinNetwork: s.cfg.BitcoinNetwork, Chain: BitcoinChain, Accounts: s.accounts}
}

// startWorker runs jobs. The first prices and fees are fetched before anything is served, where that is possible.
func (s *Service) startWorker(ctx, background context.Context, p parts) error {
	signer, err := bitcoin.ParseXPriv(s.cfg.BitcoinXPrv, s.cfg.BitcoinNetwork)
	if err != nil {
		return err
	}
	out := bitcoinrail.Config{Chain: BitcoinChain, Source: s.source, Pool: p.pool, Signer: signer, Log: s.log, Witnesses: s.witnesses}
	if s.sim != nil {
		out.FeeMaxAge = never
	}
	btc, err := bitcoinrail.New(out)
	if err != nil {
		return err
	}
	rails := []payout.Rail{btc}
	feeRates := []func(context.Context, *db.DB) error{btc.RefreshFees}
	for _, a := range s.evms {
		r, err := s.evmRail(ctx, a)
		if err != nil {
			return err
		}
		rails, feeRates = append(rails, r), append(feeRates, r.RefreshFees)
	}
	banker, err := s.bankRail()
	if err != nil {
		return err
	}
	if banker != nil {
		rails = append(rails, banker)
	}
	payouts, err := payout.New(rails...)
	if err != nil {
		return err
	}
	if err := s.rates.Refresh(ctx); err != nil {
		s.log.Warn("some prices are missing", "error", err)
	}
	for _, refresh := range feeRates {
		if err := refresh(ctx, s.db); err != nil {
			s.log.Warn("the fee rate is unknown; payouts wait for it", "error", err)
		}
	}
	if err := s.startScreening(ctx, background, p.lists); err != nil {
		return err
	}
	table := jobs(p.payroll, p.claims, payouts, p.screening, s.operators, wallet.Opener{Verified: s.cfg.Env == Production, Pool: p.pool, Accounts: s.accounts}, p.withdrawals, s.funding, s.kyc)
	if s.lightning != nil {
		table[lightning.JobInvoice] = job.Entry{Net: s.lightning.HandleInvoice, Limit: 8}
	}
	if s.cfg.Env == Sandbox {
		table[payroll.JobRelease] = job.Entry{Tx: sandbox.WithPayoutFailures(p.payroll.Release)}
	}
	if s.playedBank != nil {
		maps.Copy(table, sandbox.BankJobs(s.playedBank, banker))
	}
	mailer, err := s.mailer()
	if err != nil {
		return err
	}
	table[mail.JobSend] = job.Entry{Net: mailer.Send, Limit: 8}
	runner := job.NewRunner(s.db, table, s.periodic(payouts, p.claims), s.log)
	s.work.Go(func() { runner.Run(background) })
	hooks := delivery.NewSender(delivery.Options{DB: s.db, Sealer: s.sealer, Env: s.cfg.Env, Policy: s.policy, Log: s.log})
	s.work.Go(func() { hooks.Run(background) })
	return nil
}

// mailer sends through the server that is set, and keeps the mails of a sandbox that has none.
func (s *Service) mailer() (*mail.Mailer, error) {
	from, err := netmail.ParseAddress(s.cfg.MailFrom)
	if err != nil {
		return nil, err
	}
	m := &mail.Mailer{From: from, Sealer: s.sealer, BaseURL: s.ready.BaseURL, Sandbox: s.cfg.Env == Sandbox, Verified: func(ctx context.Context, tx *db.Tx, companyID string) (bool, error) {
		c, err := identity.CompanyByID(ctx, tx, companyID)
		return c.KYBStatus == identity.KYBApproved, err
	}}
	if m.BaseURL == "" {
		m.BaseURL = "http://" + s.cfg.Listen // of a sandbox whose pages another process serves
	}
	if s.cfg.SMTPURL != "" {
		m.Server, err = mail.ParseSMTP(s.cfg.SMTPURL)
	}
	return m, err
}
