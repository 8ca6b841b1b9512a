package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
	"github.com/stipend/stipend/internal/sandbox/demo"
)

// DemoCmd shows a payroll from its creation to the last payout. It is a client of the public API.
type DemoCmd struct {
	URL            string        `name:"url" aliases:"base-url" help:"Sandbox to use. Default: a new one."`
	Key            string        `aliases:"api-key" env:"STIPEND_KEY" placeholder:"KEY" help:"API key for --url."`
	DataDir        string        `env:"-" help:"Data of the new sandbox. Default: a temporary directory."`
	Payees         int           `default:"3" placeholder:"N" help:"Number of payees, 1 to 10000 (${default})."`
	Amount         string        `default:"500.00" placeholder:"USD" help:"Amount of each payment, in USD (${default})."`
	BitcoinRPC     string        `name:"bitcoin-rpc" env:"-" help:"Bitcoin Core node, instead of a simulated chain."`
	BitcoinNetwork string        `default:"regtest" enum:"testnet,signet,regtest" env:"-" help:"Network of the node."`
	Timeout        time.Duration `default:"10m" help:"Give up after this long (${default})."`
}

// Help returns the details of the help.
func (DemoCmd) Help() string {
	return `It creates a payroll, shows its price and address, pays it in the sandbox, and follows the money until all
payees are paid. With a node on regtest it mines and pays by itself; on another network it waits until you
pay.

  stipend demo                      a new sandbox, three payees
  stipend demo --payees 200
  stipend demo --bitcoin-rpc http://user:password@127.0.0.1:18443`
}

// Run runs the demo.
func (cmd DemoCmd) Run(ctx context.Context, std Streams) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the demo took longer than --timeout"))
	defer cancel()
	if cmd.Payees < 1 || cmd.Payees > 10_000 {
		return errors.New("--payees must be from 1 to 10000")
	}
	t := demo.NewTerminal(std.Out)
	err := cmd.run(ctx, std, t)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (cmd DemoCmd) run(ctx context.Context, std Streams, t *demo.Terminal) error {
	o := demo.Options{
		Payees: cmd.Payees, Amount: cmd.Amount, BitcoinRPC: cmd.BitcoinRPC, BitcoinNetwork: cmd.BitcoinNetwork,
	}
	if cmd.URL != "" {
		api, err := Client{cmd.URL, cmd.Key}.API()
		if err != nil {
			return err
		}
		o.Client = api
		if err := demo.Run(ctx, t, o); err != nil {
			return err
		}
		t.Note("\nTo check the ledger, run this with the service's database: stipend ledger check")
		return nil
	}
	service, stop, err := cmd.start(ctx, t)
	if err != nil {
		return err
	}
	defer stop()
	o.Client = &apiclient.Client{BaseURL: service.Ready().BaseURL, Key: service.Ready().Seed.APIKey}
	if err := demo.Run(ctx, t, o); err != nil {
		return err
	}
	t.Step("Trial balance")
	return checkLedger(ctx, std, service.DB())
}

// start starts a sandbox in this process.
func (cmd DemoCmd) start(ctx context.Context, t *demo.Terminal) (service *app.Service, stop func(), err error) {
	cfg, err := app.Defaults()
	if err != nil {
		return nil, nil, err
	}
	cfg.Env, cfg.DatabaseURL, cfg.BaseURL, cfg.AuthURL = app.Sandbox, "", "", ""
	cfg.Listen, cfg.MetricsListen = "127.0.0.1:0", ""
	cfg.ReadsPerSecond, cfg.WritesPerSecond = 0, 0
	cfg.BitcoinRPC, cfg.BitcoinNetwork = cmd.BitcoinRPC, cmd.BitcoinNetwork
	if cmd.BitcoinRPC != "" {
		cfg.PollInterval = 250 * time.Millisecond
	} else {
		cfg.BitcoinNetwork = "regtest"
	}
	remove := func() {}
	if cfg.DataDir = cmd.DataDir; cfg.DataDir == "" {
		if cfg.DataDir, err = os.MkdirTemp("", "stipend-demo-"); err != nil {
			return nil, nil, err
		}
		remove = func() { _ = os.RemoveAll(cfg.DataDir) }
	}
	t.Note("Starting a sandbox in %s …", cfg.DataDir)
	if service, err = app.Start(ctx, cfg, slog.New(slog.DiscardHandler)); err != nil {
		remove()
		return nil, nil, err
	}
	return service, func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout)
		defer cancel()
		_ = service.Stop(stop)
		remove()
	}, nil
}
