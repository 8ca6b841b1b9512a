package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/sandbox/trigger"
)

// TriggerCmd makes an event happen.
type TriggerCmd struct {
	Client
	Event   string        `arg:"" optional:"" help:"Name of the event."`
	List    bool          `help:"List the events that can be made, and how."`
	Timeout time.Duration `default:"1m" help:"Give up after this long (${default})."`
}

// Help is the long form of the help.
func (TriggerCmd) Help() string {
	return `The event is real: a payroll is created, funded and so on in the sandbox, through the public interface, by an API key. Some
events move the sandbox's clock forward; their lines in the list say so.`
}

// Run makes the event happen, waits for it and prints it.
func (cmd TriggerCmd) Run(ctx context.Context, std Streams) error {
	if cmd.List || !trigger.Known(cmd.Event) {
		for _, name := range trigger.Events() {
			fmt.Fprintf(std.Out, "%-29s %s\n", name, trigger.How(name))
		}
		if cmd.List || cmd.Event == "" {
			return nil
		}
		return fmt.Errorf("%s cannot be triggered; choose an event of the list", cmd.Event)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Timeout, errors.New("the event did not come within --timeout"))
	defer cancel()
	body, err := trigger.Run(ctx, cmd.API(), cmd.Event)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "%s\n", body)
	return nil
}
