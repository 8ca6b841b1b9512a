package app

import (
	"context"
	"net/http"
	"time"

	"github.com/stipend/stipend/internal/approval"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/monitor"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/datakey"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/invoice/checkout"
	"github.com/stipend/stipend/internal/invoice/vendorbill"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/kyc/sumsub"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
	"github.com/stipend/stipend/internal/platform"
	"github.com/stipend/stipend/internal/proposal"
	"github.com/stipend/stipend/internal/ratelimit"
	"github.com/stipend/stipend/internal/rates"
	"github.com/stipend/stipend/internal/requestlog"
	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/bitcoinsim"
	"github.com/stipend/stipend/internal/sandbox/evmsim"
	"github.com/stipend/stipend/internal/sandbox/lightningsim"
	"github.com/stipend/stipend/internal/screening"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/treasury"
	"github.com/stipend/stipend/internal/virtualaccount"
	"github.com/stipend/stipend/internal/virtualaccount/stripe"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook/delivery"
	"github.com/stipend/stipend/internal/withdrawal"
)

// parts are the components of a process.
type parts struct {
	db        *db.DB // for jobs, and for everything that does not use another handle
	requestDB *db.DB // the same database, for requests
	watcherDB *db.DB // the same database, for watchers of chains

	metrics  *metrics
	tracing  *tracing
	requests *requestlog.Log
	bodies   *ratelimit.BodyBudget // limits the memory for large request bodies
	sealer   *identity.Sealer
	policy   delivery.Policy // addresses to which webhooks may be sent
	rates    *rates.Refresher
	kyc      *kyc.Service
	funding  *virtualaccount.Service

	keys      *bitcoin.Deriver // derives keys of the Bitcoin wallet
	pool      *chain.Pool      // addresses of the Bitcoin wallet
	source    chain.Source
	witnesses []chain.Witness   // of the Bitcoin chain
	sim       *bitcoinsim.Chain // nil unless the Bitcoin chain is simulated
	evms      []EVMChain
	accounts  chain.EVMNetworks  // wallets on the EVM networks
	lightning *lightning.Service // nil if claims cannot be paid over Lightning
	// simulatedLnd is the simulated Lightning node of a sandbox. It is nil if there is none.
	simulatedLnd *lightningsim.Node
	monitor      *monitor.Monitor
	miner        *sandbox.Miner // mines the blocks of simulated chains

	banks         []bank.Account         // the operator's accounts
	collector     *directdebit.Collector // nil if no bank is configured
	simulatedBank *bank.Sandbox          // nil unless the bank is simulated

	lists       *screening.Screener // sanctions lists; only a worker loads them
	screening   destination.Screening
	payroll     *payroll.Service
	schedules   *schedule.Service
	proposals   *proposal.Service
	vendor      *vendorbill.Service
	incomes     *income.Service
	withdrawals *withdrawal.Service
	travelRule  *travelrule.Service
	debits      *directdebit.Service
	wallets     *wallet.Opener
	claims      *claim.Service
	branding    *branding.Service
	links       *paymentlink.Service
	checkout    *checkout.Service
	platforms   *platform.Service
	backoffice  *backoffice.Service
}

// build makes the parts of the process, each from the parts made before it.
func (s *Service) build(ctx context.Context) (err error) {
	if s.sealer, err = s.cfg.Sealer(); err != nil {
		return err
	}
	if err := s.db.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		return datakey.Check(ctx, tx, s.sealer)
	}); err != nil {
		return err
	}
	if s.policy, err = s.cfg.webhookPolicy(); err != nil {
		return err
	}
	s.requests = requestlog.New(s.db, time.Now, s.log)
	s.bodies = ratelimit.DefaultBodyBudget()
	s.rates = s.newRefresher()
	if s.kyc, err = kyc.New(s.sealer, s.cfg.imageDecoder(), s.verifier()); err != nil {
		return err
	}
	s.funding = &virtualaccount.Service{Bank: s.virtualAccountBank(), Sealer: s.sealer}

	if err := s.openBitcoin(); err != nil {
		return err
	}
	if err := s.openEVM(ctx); err != nil {
		return err
	}
	if err := s.openLightning(); err != nil {
		return err
	}
	if s.monitor, err = monitor.New(monitor.Config{
		DB: s.watcherDB, Log: s.log, Holder: s.holder, Lease: leaseFor,
		Limit: s.cfg.BlindLimit, HealthAge: s.cfg.PollInterval, Fail: s.fail,
	}); err != nil {
		return err
	}
	s.miner = &sandbox.Miner{
		DB: s.watcherDB, Holder: s.holder, Lease: leaseFor, Every: s.cfg.BlockInterval, Log: s.log,
	}
	if s.banks, err = s.cfg.OperatorBankAccounts(); err != nil {
		return err
	}
	return s.buildServices()
}

// buildServices makes the services that contain business rules. Until a worker has loaded the sanctions lists, nobody
// can be screened, so nothing is paid.
func (s *Service) buildServices() (err error) {
	lists := screening.Options{
		Paths: s.cfg.SanctionsList, Threshold: s.cfg.SanctionsThreshold, MaxAge: s.cfg.SanctionsMaxAge,
	}
	if s.cfg.Env == Sandbox {
		lists.MaxAge = 0 // no limit, because the clock jumps
	}
	if s.lists, err = screening.New(lists); err != nil {
		return err
	}
	if s.screening, err = destination.NewScreening(s.lists, s.sealer); err != nil {
		return err
	}
	limit, err := s.cfg.releaseLimit()
	if err != nil {
		return err
	}
	velocity, err := s.cfg.velocity()
	if err != nil {
		return err
	}
	release, allowUnverified := approval.NewReleaseLimit(limit).WithVelocity(velocity), s.cfg.Env == Sandbox

	funds, err := treasury.New(TreasuryPolicy(s.cfg.Env))
	if err != nil {
		return err
	}
	if s.debits, err = directdebit.New(directdebit.Config{
		Accounts: s.banks, Setup: s.setup(), Payer: s.payer, AllowUnverified: allowUnverified,
	}, directdebit.Guards{Owns: s.ownsDebitedAccount,
		Stated: func(ctx context.Context, tx *db.Tx, a bank.Account) (string, error) {
			return bankreceipt.ReadThrough(ctx, tx, a.Number, a.Currency)
		}}); err != nil {
		return err
	}
	if err := s.buildTravelRule(); err != nil {
		return err
	}
	if s.payroll, err = payroll.New(payroll.Config{
		Pool: s.pool, ChainName: BitcoinChain, Network: s.cfg.BitcoinNetwork, Accounts: s.accounts, Banks: s.banks,
		Lightning: s.cfg.PaysLightning(),
		SpreadBps: s.cfg.SpreadBps, QuoteValidity: s.cfg.QuoteValidity, CoolDown: s.cfg.CoolDown, Treasury: funds,
		AllowUnverified: allowUnverified, Checks: s.checks(), Sealer: s.sealer, Debits: s.debits,
	}, payroll.Guards{
		CheckWatched: s.checkQuotable, Screen: s.screening.Screen, ReleasePlanned: release.Planned,
		ReleaseApproved: release.Approved, PayeesApproved: release.PayeesApproved, TravelRule: s.travelRule.Record,
	}); err != nil {
		return err
	}
	if s.schedules, err = schedule.New(s.payroll); err != nil {
		return err
	}
	if s.incomes, err = income.New(income.Config{
		Payroll: s.payroll, FeeBps: s.cfg.IncomeFeeBps, CoolDown: s.cfg.CoolDown,
	}, income.Guards{Screen: s.screening.ScreenPerson, ReleaseApproved: release.Approved}); err != nil {
		return err
	}
	s.vendor = &vendorbill.Service{Payroll: s.payroll, Sealer: s.sealer, Intake: s.kyc.Images}
	if s.backoffice, err = backoffice.New(backoffice.Deps{
		Sealer: s.sealer, Payroll: s.payroll, ReleaseLimit: release, Setup: s.setup(), Screen: s.screenAddress,
	}); err != nil {
		return err
	}
	if s.withdrawals, err = withdrawal.New(withdrawal.Config{
		Setup: s.setup(), CoolDown: approval.CoolDown(s.cfg.CoolDown), AllowUnverified: allowUnverified,
	}, withdrawal.Guards{
		Screen: s.screening.Screen, ReleaseApproved: release.Approved, TravelRule: s.travelRule.Record,
	}); err != nil {
		return err
	}
	if s.wallets, err = wallet.New(wallet.Config{
		Pool: s.pool, Accounts: s.accounts, AllowUnverified: allowUnverified,
	}); err != nil {
		return err
	}
	if s.branding, err = branding.New(s.kyc.Images); err != nil {
		return err
	}
	if s.claims, err = claim.New(claim.Config{
		Pool: s.pool, ChainName: BitcoinChain, Network: s.cfg.BitcoinNetwork, Accounts: s.accounts,
		BaseURL:   s.ready.BaseURL,
		SpreadBps: s.cfg.SpreadBps, Validity: s.cfg.ClaimValidity, Lightning: s.lightning, Withdrawals: s.withdrawals,
		PerMinute: int64(s.cfg.ClaimsPerMinute), MaxOpen: int64(s.cfg.OpenClaims), Sealer: s.sealer, Treasury: funds,
		LightningRefunds: s.lightningRefunds(),
	}, claim.Guards{
		CheckWatched: s.checkWatched, Screen: s.screenAddress, ReleaseApproved: release.Approved,
		Renewable: checkout.Renewable,
	}); err != nil {
		return err
	}
	if s.checkout, err = checkout.New(s.claims); err != nil {
		return err
	}
	if s.links, err = paymentlink.New(s.claims, s.ready.BaseURL); err != nil {
		return err
	}
	if s.platforms, err = platform.New(platform.Service{
		Sealer: s.sealer, Env: s.cfg.Env, Contract: s.contract(), BaseURL: s.ready.BaseURL, AllowUnverified: allowUnverified,
	}); err != nil {
		return err
	}
	s.proposals, err = proposal.New(s.payroll, s.claims, s.sealer)
	return err
}

// buildTravelRule makes the service that stores the senders and recipients of large payouts of crypto assets.
func (s *Service) buildTravelRule() error {
	c, err := s.cfg.travelRule()
	if err != nil {
		return err
	}
	c.Sealer, c.Network, c.Company = s.sealer, s.cfg.BitcoinNetwork, s.kyc.CompanyProfile
	s.travelRule, err = travelrule.New(c)
	return err
}

// contract returns the contract terms of companies that sign up or are created by platforms.
func (s *Service) contract() identity.NewCompany {
	return identity.NewCompany{FeeBps: s.cfg.FeeBps, PremiumBps: s.cfg.PremiumBps, ToleranceBps: s.cfg.ToleranceBps}
}

// TreasuryPolicy returns the treasury policy of an environment. Only the simulated banks of a sandbox have unlimited
// funds.
func TreasuryPolicy(env string) treasury.Policy {
	if env == Sandbox {
		return treasury.Unlimited
	}
	return treasury.Bounded
}

// screenAddress reports whether an address is blocked by sanctions screening.
func (s *Service) screenAddress(
	ctx context.Context, tx *db.Tx, companyID, subjectID, address string,
) (bool, error) {
	subject := screening.Subject{ID: subjectID, Addresses: []string{address}}
	blocked, err := s.lists.Screen(ctx, tx, companyID, []screening.Subject{subject})
	return blocked[subjectID], err
}

func (s *Service) setup() destination.Setup {
	return destination.Setup{
		Sealer: s.sealer, BitcoinNetwork: s.cfg.BitcoinNetwork, Chain: BitcoinChain, Accounts: s.accounts,
		Lightning: s.cfg.PaysLightning(),
	}
}

// imagesAtOnce is the number of images that a process decodes at the same time. Each may need 200 MiB.
const imagesAtOnce = 2

// imageDecoder returns the decoder of images of documents. A sandbox accepts images from one pixel upward, because no
// person reads them.
func (c Config) imageDecoder() *kyc.ImageDecoder {
	if c.Env == Sandbox {
		return kyc.NewImageDecoder(imagesAtOnce, 1)
	}
	return kyc.NewImageDecoder(imagesAtOnce, kyc.MinPixels)
}

// virtualAccountBank returns the bank that opens virtual accounts: the configured one, or the simulated one in a
// sandbox, or nil.
func (s *Service) virtualAccountBank() virtualaccount.Bank {
	switch {
	case s.cfg.FundingStripeKey != "":
		return stripe.New(stripe.Options{
			Key: s.cfg.FundingStripeKey, URL: s.cfg.FundingStripeURL, Country: s.cfg.FundingStripeCountry,
		})
	case s.cfg.Env == Sandbox:
		return virtualaccount.Sandbox{}
	}
	return nil
}

// verifier returns the provider that verifies identities: the configured one, or the simulated one in a sandbox. If
// it is nil, nobody can be verified.
func (s *Service) verifier() kyc.Provider {
	switch {
	case s.cfg.SumsubToken != "":
		return sumsub.New(sumsub.Options{
			URL: s.cfg.SumsubURL, Token: s.cfg.SumsubToken, Secret: s.cfg.SumsubSecret,
			WebhookSecret: s.cfg.SumsubWebhookSecret, Now: time.Now,
			PersonLevel: s.cfg.SumsubPersonLevel, CompanyLevel: s.cfg.SumsubCompanyLevel,
		})
	case s.cfg.Env == Sandbox:
		return kyc.Sandbox{}
	}
	return nil
}

// never is the age limit of prices in a sandbox, whose clock jumps.
const never = 100 * 365 * 24 * time.Hour

// newRefresher returns the source of prices: market prices in production, invented prices in a sandbox.
func (s *Service) newRefresher() *rates.Refresher {
	if s.cfg.Env == Sandbox {
		return &rates.Refresher{
			DB: s.db, Sources: []rates.Source{rates.Sandbox()}, Quorum: 1, CryptoLimit: never, FiatLimit: never,
		}
	}
	client := &http.Client{Timeout: 10 * time.Second}
	return &rates.Refresher{DB: s.db, Sources: []rates.Source{
		rates.Coinbase(client, ""), rates.Kraken(client, ""), rates.Bitstamp(client, ""), rates.ECB(client, ""),
	}}
}

// newSandbox returns the service that simulates the outside world of a sandbox.
func (s *Service) newSandbox() (*sandbox.Sandbox, error) {
	simulated := map[string]*evmsim.Chain{}
	for _, a := range s.evms {
		if a.Sim != nil {
			simulated[a.Network.Name] = a.Sim
		}
	}
	return sandbox.New(sandbox.Options{
		DB: s.db, Payroll: s.payroll, Claims: s.claims, Miner: s.miner, BitcoinChain: BitcoinChain,
		BitcoinNetwork: s.cfg.BitcoinNetwork, Bitcoin: s.sim, Accounts: s.accounts, EVM: simulated,
		SimulatedBank: s.cfg.BankAccounts == "", Lightning: s.simulatedLnd,
		Debits: s.debits,
	})
}
