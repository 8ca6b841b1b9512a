package payout

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/chain/bitcoin"
	"github.com/stipend/stipend/internal/chain/evm"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/rail"
	"github.com/stipend/stipend/internal/rail/onchain"
	"github.com/stipend/stipend/internal/webhook"
)

// Config is what an Engine needs and the limits it keeps. Zero limits take the default.
type Config struct {
	Chain     string          // name under which package chain keeps the network's rows
	Source    chain.Source    // node to broadcast through
	Witnesses []chain.Witness // nodes that are asked, too, whether they know a transaction of which Source says nothing
	Pool      *chain.Pool     // where change addresses come from
	Signer    *bitcoin.Signer // keys of the hot wallet
	Log       *slog.Logger    // nil: slog.Default

	Confirmations int64         // of a payout before it is fulfilled; 1: the payer is ourselves, and reorgs walk back
	ConflictDepth int64         // of a rival transaction before it proves that a payout can never confirm; 6
	MaxOutputs    int           // in one transaction; 2000
	MaxFeeRate    int64         // sat/vB above which payouts wait; 150
	MaxFeeShare   int64         // fee in basis points of the value paid, above which payouts wait; 300
	SmallFee      int64         // sat; a fee up to this is never too large a share, so that small payrolls leave; 1000
	FeeMaxAge     time.Duration // age at which a fee rate is not trusted any more; 2 h
	BumpAfter     time.Duration // age of an unconfirmed batch before its fee is raised; 6 h
	NudgeEvery    time.Duration // how often an unconfirmed batch is looked at; 1 h
	Retry         time.Duration // how often a held queue is looked at; 1 min
}

// Engine carries outputs from the queue to their confirmation. Its methods are job handlers.
type Engine struct {
	c    Config
	rail rail.Rail
	acc  *account // of a network of accounts; nil for Bitcoin
}

// New makes an engine. It panics without a chain, since nothing could ever be paid.
func New(c Config) *Engine {
	if c.Source == nil || c.Pool == nil || c.Signer == nil || c.Chain == "" {
		panic("payout: chain, source, pool and signer are needed")
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	orInt := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	orTime := func(v *time.Duration, def time.Duration) {
		if *v == 0 {
			*v = def
		}
	}
	orInt(&c.Confirmations, 1)
	orInt(&c.ConflictDepth, 6)
	orInt(&c.MaxFeeRate, 150)
	orInt(&c.MaxFeeShare, 300)
	orInt(&c.SmallFee, 1000)
	orTime(&c.FeeMaxAge, 2*time.Hour)
	orTime(&c.BumpAfter, 6*time.Hour)
	orTime(&c.NudgeEvery, time.Hour)
	orTime(&c.Retry, time.Minute)
	if c.MaxOutputs == 0 {
		c.MaxOutputs = 2000
	}
	return &Engine{c: c, rail: onchain.Rail{Source: c.Source, Witnesses: c.Witnesses}}
}

// Jobs is the engine's part of the job table. Confirm listens to the chain's news about our transactions.
func (e *Engine) Jobs() job.Table {
	return job.Table{
		JobPrepare:  {Tx: e.Prepare},
		JobSend:     {Net: e.Send},
		JobNudge:    {Batch: e.Nudge},
		chain.JobTx: {Batch: e.Confirm},
	}
}

// Periodic is what the engine does by the clock: ask the node for the fee rate.
func (e *Engine) Periodic(d *db.DB) []job.Periodic {
	all := []job.Periodic{{Name: "chain.fees", Every: time.Minute, Run: func(ctx context.Context) error { return e.RefreshFees(ctx, d) }}}
	if e.acc != nil {
		all[0].Name, all[0].Every = "chain.fees."+e.c.Chain, 20*time.Second
		all = append(all, job.Periodic{Name: "payout.sweep." + e.c.Chain, Every: e.acc.sweepEvery, Run: func(ctx context.Context) error { return e.Sweep(ctx, d) }})
	}
	return all
}

// RefreshFees stores the node's present fee rate, at least 1 sat/vB. Without a fresh one nothing is prepared.
func (e *Engine) RefreshFees(ctx context.Context, d *db.DB) error {
	rate, err := e.c.Source.FeeRate(ctx)
	if err != nil {
		return fmt.Errorf("fee rate: %w", err)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		return SetFeeRate(ctx, tx, e.c.Chain, rate)
	})
}

// SetFeeRate stores what the nodes of a chain ask for at present, in sat/vB.
func SetFeeRate(ctx context.Context, tx *db.Tx, chainName string, rate int64) error {
	return setFeeRate(ctx, tx, chainName, max(rate, 1))
}

type (
	prepareJob struct {
		CompanyID string `json:"company_id"`
	}
	sendJob struct {
		TxID  string   `json:"txid,omitempty"`
		TxIDs []string `json:"txids,omitempty"` // more than one
	}
	nudgeJob struct {
		BatchID string `json:"batch_id"`
	}
)

// Changed is the payload of JobChanged.
type Changed struct {
	PayrollID string `json:"payroll_id"`
	OutputID  string `json:"output_id,omitempty"`
}

// Add queues outputs at their release, in the release's own transaction, and keeps them until its commit. It gives each an ID
// where it has none; the release credits 2110 of that dimension by the same amount. Destinations are snapshots: later
// changes of a payee's distribution do not reach them.
func Add(tx *db.Tx, outs []Output) error {
	for i := range outs {
		o := &outs[i]
		if err := o.check(); err != nil {
			return err
		}
		if o.ID == "" {
			o.ID = tx.NewID("out")
		}
		if len(o.Destination) == 0 {
			o.Destination = []byte("{}")
		}
		o.State, o.Version, o.QueuedAt, o.UpdatedAt = Queued, 1, tx.Now(), tx.Now()
		addOutput(tx, o)
	}
	return nil
}

// check refuses what no engine could pay.
func (o *Output) check() error {
	if o.CompanyID == "" || o.PayrollID == "" || o.Amount.Sign() <= 0 {
		return fmt.Errorf("payout: output of payroll %q without company, payroll or amount", o.PayrollID)
	}
	switch asset := o.Amount.Asset(); {
	case o.Rail == RailBank:
	case o.Rail == RailBitcoin && asset == money.BTC:
	case o.Rail.accounts() && asset != money.BTC && asset.IsCrypto():
	default:
		return fmt.Errorf("payout: rail %q does not carry %s", o.Rail, asset)
	}
	return nil
}

// Hold keeps the queued outputs of a payroll back, for as long as its funding or its screening is open. It
// says how many there were; outputs already prepared are not among them.
func Hold(ctx context.Context, tx *db.Tx, companyID, payrollID string) (int64, error) {
	return setHeld(ctx, tx, companyID, payrollID, true)
}

// Resume ends a Hold.
func Resume(ctx context.Context, tx *db.Tx, companyID, payrollID string) error {
	n, err := setHeld(ctx, tx, companyID, payrollID, false)
	if err == nil && n > 0 {
		lookAt(tx, companyID, time.Time{})
		for _, name := range evm.Names() {
			lookAtAccount(tx, companyID, Rail(name), time.Time{})
		}
	}
	return err
}

// Correct queues a failed, returned or still waiting output again, as it was read but for where it goes: the rail, the
// amount and its rate, the address, the destination and its id may be others. Who gives it another asset moves what is owed to the
// output (2110) in the same transaction. It is the same output, so it is paid once however often it is corrected: ErrProcessing when it
// is on its way or done, or when somebody else has changed it since it was read.
func Correct(ctx context.Context, tx *db.Tx, o Output) error {
	if err := o.check(); err != nil {
		return err
	}
	if err := requeue(ctx, tx, o); err != nil {
		return err
	}
	switch {
	case o.Rail == RailBank:
		fileFor(tx, o.CompanyID)
	case o.Rail == RailBitcoin:
		lookAt(tx, o.CompanyID, time.Time{})
	case o.Rail.accounts():
		lookAtAccount(tx, o.CompanyID, o.Rail, time.Time{})
	}
	changed(tx, []Output{o})
	return nil
}

// Look has a company's queue looked at now, rather than when it is due.
func Look(tx *db.Tx, companyID string) { lookAt(tx, companyID, time.Time{}) }

func lookAt(tx *db.Tx, companyID string, at time.Time) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobPrepare, Payload: prepareJob{companyID}, RunAt: at})
}

func fileFor(tx *db.Tx, companyID string) {
	job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobBank, Payload: prepareJob{companyID}})
}

// Announce tells whoever some outputs are paid for that they have moved.
func Announce(tx *db.Tx, outs []Output) { changed(tx, outs) }

// together is how many transactions are broadcast by one job.
const together = 50

func send(tx *db.Tx, companyID string, at time.Time, txids ...string) {
	for some := range slices.Chunk(txids, together) {
		in := sendJob{TxIDs: some}
		if len(some) == 1 {
			in = sendJob{TxID: some[0]}
		}
		job.Enqueue(tx, job.New{CompanyID: companyID, Kind: JobSend, Payload: in, RunAt: at})
	}
}

func (e *Engine) nudge(tx *db.Tx, b Batch) {
	job.Enqueue(tx, job.New{CompanyID: b.CompanyID, Kind: JobNudge, Payload: nudgeJob{b.ID}, RunAt: tx.Now().Add(e.c.NudgeEvery)})
}

// changed tells the payrolls of some outputs: one job per payroll, since the reader looks at the whole.
func changed(tx *db.Tx, outs []Output) {
	type key struct{ company, payroll string }
	var order []key
	of := map[key][]string{}
	for _, o := range outs {
		k := key{o.CompanyID, o.PayrollID}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], o.ID)
	}
	for _, k := range order {
		p := Changed{PayrollID: k.payroll}
		if ids := of[k]; len(ids) == 1 {
			p.OutputID = ids[0]
		}
		job.Enqueue(tx, job.New{CompanyID: k.company, Kind: JobChanged, Payload: p})
	}
}

func sats(n int64) money.Amount { return money.New(money.BTC, n) }

// Why a queue waits.
const (
	heldPaused  = "paused"
	heldNoFee   = "fee_unknown"
	heldFee     = "fee_too_high"
	heldFunds   = "insufficient_funds"
	heldUnclear = "not_estimated" // the node does not say what a payment needs
	heldComing  = "funds_coming"  // too little, and deposits may be on their way to the account that pays: told to nobody before it has lasted
)

// MayLeave says why no payout may leave, or "". Whoever lets one leave asks in the same transaction: also when this is the first
// since another server took the database's place. Payments that the old server knew of may be missing then; the outside shows
// them, and a person compares.
func MayLeave(ctx context.Context, tx *db.Tx, log *slog.Logger) (why string, err error) {
	switch replaced, err := db.Replaced(ctx, tx); {
	case err != nil:
		return "", err
	case replaced:
		log.ErrorContext(ctx, "the database server was replaced; payouts are paused")
		why = "the database server was replaced by another; see which payouts left that it does not know before they go on"
		return why, SetPaused(ctx, tx, why)
	}
	return Paused(ctx, tx)
}

// lane is the rail whose outputs the engine pays.
func (e *Engine) lane() Rail {
	if e.acc != nil {
		return Rail(e.c.Chain)
	}
	return RailBitcoin
}

// look has a queue looked at.
func (q queueState) look(tx *db.Tx, at time.Time) {
	if q.rail == RailBitcoin {
		lookAt(tx, q.companyID, at)
		return
	}
	lookAtAccount(tx, q.companyID, q.rail, at)
}

// hold lets a company's queue wait, or of a network of accounts some assets of it, and schedules one later look, however many jobs ask
// for it.
func (e *Engine) hold(ctx context.Context, tx *db.Tx, q queueState, reason string, rate int64, assets ...money.Asset) error {
	wake := int64(0)
	if q.wakeAt <= db.Micros(tx.Now()) {
		at := tx.Now().Add(e.c.Retry)
		wake = db.Micros(at)
		q.look(tx, at)
	}
	return e.delay(ctx, tx, q, reason, rate, wake, "", assets...)
}

// delay notes why payouts wait: those of the queue, and those of a batch that is stuck, "" for none. Wake is when somebody looks
// again, 0 for when it was to be. Assets are those of which some wait for this, none for all. The company hears of a reason of
// the network's or the wallet's when it begins, once for each of the assets that wait then.
func (e *Engine) delay(ctx context.Context, tx *db.Tx, q queueState, reason string, rate, wake int64, stuck string, assets ...money.Asset) error {
	fresh := q.held != reason
	if !fresh && wake == 0 {
		return nil
	}
	since := q.since
	if q.held == "" {
		since = tx.Now()
	}
	if err := setQueue(ctx, tx, q, reason, db.Micros(since), cmp.Or(wake, q.wakeAt)); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	waiting, err := countQueue(ctx, tx, q, stuck)
	if err != nil {
		return err
	}
	for _, d := range waiting {
		if len(assets) > 0 && !slices.Contains(assets, d.sum.Asset()) {
			continue
		}
		e.c.Log.WarnContext(ctx, "payouts wait", "company_id", q.companyID, "reason", reason, "fee_rate", rate, "outputs", d.n, "amount", d.sum.String(), "currency", d.sum.Asset())
		if reason != heldFee && reason != heldFunds && reason != heldUnclear {
			continue
		}
		if err := webhook.EmitNext(ctx, tx, webhook.PayoutDelayed.Event(q.companyID, q.companyID, 0, webhook.PayoutDelayedData{
			Reason: reason, Waiting: d.n, Amount: d.sum, Currency: d.sum.Asset(), Network: string(q.rail), Since: since,
		})); err != nil {
			return err
		}
	}
	return nil
}

// flowing ends a hold.
func flowing(ctx context.Context, tx *db.Tx, q queueState) error {
	if q.held == "" {
		return nil
	}
	return setQueue(ctx, tx, q, "", 0, q.wakeAt)
}
