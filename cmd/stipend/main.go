// Command stipend runs and administers the Stipend payroll service. See stipend --help.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/cmd/stipend/cli"
)

func main() {
	os.Exit(run())
}

// run returns the exit code: 0 for success, 1 for an error, 2 for invalid arguments.
func run() int {
	var commands cli.CLI
	parser := kong.Must(&commands, append(cli.Options(),
		kong.Name("stipend"),
		kong.Description("Stipend pays people: a company funds a payroll with one payment, and each payee is paid "+
			"where they "+
			"chose to be paid."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.UsageOnError(),
		kong.Vars{"version": cli.About()},
	)...)
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "stipend: %v\nSee: stipend --help\n", err)
		return 2
	}

	// The first signal stops the program in an orderly way. A second signal ends it at once.
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release)

	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 0
	default:
		fmt.Fprintf(os.Stderr, "stipend: %s\n", cli.Text(err))
		return 1
	}
}
