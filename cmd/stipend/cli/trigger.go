package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/sandbox/trigger"
)

// TriggerCmd causes an event in a sandbox.
type TriggerCmd struct {
	Client
	Event   string        `arg:"" optional:"" help:"Name of the event."`
	List    bool          `help:"List the events that can be triggered, and how."`
	Timeout time.Duration `default:"1m" help:"Give up after this long (${default})."`
}

// Help returns the text that --help shows below the usage.
func (TriggerCmd) Help() string {
	return `The event is real: the command creates and funds a payroll, for example, through the sandbox's API. Some
events advance the sandbox's clock; the list says so.`
}

// Run causes the event, waits for it and prints it.
func (cmd TriggerCmd) Run(ctx context.Context, std Streams) error {
	if cmd.List || !trigger.Known(cmd.Event) {
		for _, name := range trigger.Events() {
			fmt.Fprintf(std.Out, "%-29s %s\n", name, trigger.How(name))
		}
		if cmd.List || cmd.Event == "" {
			return nil
		}
		return fmt.Errorf("%s cannot be triggered; choose an event from the list", cmd.Event)
	}
	api, err := cmd.API()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the event did not happen within --timeout"))
	defer cancel()
	body, err := trigger.Run(ctx, api, cmd.Event)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s\n", body)
	return nil
}
