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

// DemoCmd shows the main job to a person. It is a client like any other: what it shows, it got from the public interface.
type DemoCmd struct {
	BaseURL        string        `name:"base-url" env:"STIPEND_BASE_URL" placeholder:"URL" help:"Sandbox to use. Default: one started for the demo."`
	APIKey         string        `name:"api-key" env:"STIPEND_API_KEY" placeholder:"KEY" help:"API key for --base-url."`
	DataDir        string        `placeholder:"DIR" help:"Where the sandbox started for the demo keeps its data. Default: a directory that is removed afterwards."`
	Payees         int           `default:"3" placeholder:"N" help:"How many people to pay, 1 to 10000 (${default})."`
	Amount         string        `default:"500.00" placeholder:"USD" help:"What each of them gets, in USD (${default})."`
	BitcoinRPC     string        `name:"bitcoin-rpc" placeholder:"URL" help:"Use this Bitcoin Core node, http://user:password@host:port, instead of the simulated chain. On regtest the demo mines and pays for itself; elsewhere it waits for you to pay."`
	BitcoinNetwork string        `default:"regtest" enum:"testnet,signet,regtest" placeholder:"NET" help:"The node's network: regtest (default), testnet or signet."`
	Timeout        time.Duration `default:"10m" help:"Give up after this long (${default})."`
}

// Help is the long form of the help.
func (DemoCmd) Help() string {
	return `Creates a payroll, shows its price and address, pays it in the sandbox, and follows the money until every payee has theirs.

  stipend demo                      a sandbox of its own, three payees
  stipend demo --payees 200
  stipend demo --bitcoin-rpc http://user:password@127.0.0.1:18443`
}

// Run plays the demo.
func (cmd DemoCmd) Run(ctx context.Context, std Streams) error {
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the demo took longer than --timeout"))
	defer cancel()
	if cmd.Payees < 1 || cmd.Payees > 10_000 {
		return errors.New("--payees must be from 1 to 10000")
	}
	t := demo.NewTerminal(std.Out)
	err := cmd.play(ctx, std, t)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (cmd DemoCmd) play(ctx context.Context, std Streams, t *demo.Terminal) error {
	o := demo.Options{
		Client: Client{cmd.BaseURL, cmd.APIKey}.API(), Payees: cmd.Payees, Amount: cmd.Amount,
		BitcoinRPC: cmd.BitcoinRPC, BitcoinNetwork: cmd.BitcoinNetwork,
	}
	if cmd.BaseURL != "" {
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
