package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/stipend/stipend/internal/sandbox/apiclient"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// ListenCmd forwards the events of a sandbox to a developer's machine.
type ListenCmd struct {
	Client
	ForwardTo string `required:"" placeholder:"URL" help:"Where to send events, such as http://localhost:3000/hooks."`
	Events    string `placeholder:"NAMES" help:"Names and prefixes: payroll.*,user.kyc_status_update. Default: all."`
	Source    string `enum:"company,connections" default:"company" help:"Or connections: of all who connected the app."`
	Secret    string `env:"STIPEND_WEBHOOK_SECRET" help:"Signing secret (whsec_…). Default: a new one, which is printed."`
}

// Help returns the details of the help.
func (ListenCmd) Help() string {
	return `It forwards events as they happen, signed like real deliveries, until it is stopped. It continues when the
service restarts. Each event is sent once; the status of your program's response is printed. In another
terminal: stipend trigger payroll.created`
}

const (
	listenEvery = 100 * time.Millisecond
	listenRetry = 2 * time.Second // pause while the service does not respond
)

// Run forwards events until ctx is done.
func (cmd ListenCmd) Run(ctx context.Context, std Streams) error {
	target, err := url.Parse(cmd.ForwardTo)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return errors.New("--forward-to must be an http:// or https:// address")
	}
	api, err := cmd.API()
	if err != nil {
		return err
	}
	api.Connections = cmd.Source == "connections"
	secret := cmd.Secret
	if secret == "" {
		secret = delivery.NewSecret()
	}
	after, err := api.NewestEvent(ctx)
	if err != nil {
		return err
	}
	if _, err := api.EventsAfter(ctx, after, cmd.Events); err != nil { // fails for an unknown event name, for example
		return err
	}
	fmt.Fprintf(std.Out, "Forwarding events to %s\nSigning secret: %s\n", cmd.ForwardTo, secret)
	client := &http.Client{
		Timeout:       15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tick := time.NewTimer(0)
	defer tick.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		page, err := api.EventsAfter(ctx, after, cmd.Events)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if !lost {
				fmt.Fprintf(std.Err, "The service does not answer: %v\n", err)
			}
			lost = true
			tick.Reset(listenRetry)
			continue
		case lost:
			lost = false
			fmt.Fprintln(std.Err, "The service answers again.")
		}
		for _, body := range page.Data {
			var head apiclient.EventHead
			if err := json.Unmarshal(body, &head); err != nil {
				return fmt.Errorf("an event cannot be decoded: %w", err)
			}
			result := forward(ctx, client, cmd.ForwardTo, head.ID, body, secret)
			fmt.Fprintf(std.Out, "%s %s → %s\n", head.Event, head.ID, result)
			after = head.ID
		}
		tick.Reset(listenEvery)
	}
}

// forward sends one event, and returns the status of the response or the text of the error.
func forward(ctx context.Context, client *http.Client, to, id string, body []byte, secret string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	delivery.Sign(req.Header, id, time.Now(), body, secret)
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	return res.Status
}
