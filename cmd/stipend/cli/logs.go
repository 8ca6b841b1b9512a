package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"runtime"
	"slices"
	"time"

	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// LogsCmd groups the commands for the log of a company's API requests.
type LogsCmd struct {
	Tail LogsTailCmd `cmd:"" help:"Print the newest API requests, and further ones as they happen."`
}

// LogsTailCmd follows the log.
type LogsTailCmd struct {
	Client
	Output  string `short:"o" enum:"table,json" default:"table" help:"Form of a line: table or json (${default})."`
	Lines   int    `short:"n" default:"10" help:"Number of past requests to begin with (${default}, at most 100)."`
	Once    bool   `help:"Print the past requests and end."`
	Outcome string `help:"Only requests with this outcome: succeeded, refused, failed or replayed."`
}

// tailEvery is the interval at which the log is read.
const tailEvery = time.Second

// loggedRequest contains the printed part of an entry of the log.
type loggedRequest struct {
	Reference, Method, Path, Code string
	At                            string
	RequestID                     string `json:"request_id"`
	Status                        int
	Took                          int64 `json:"took_us"`
}

// Run prints entries, oldest first, until ctx is done.
func (cmd LogsTailCmd) Run(ctx context.Context, std Streams) error {
	api, err := cmd.API()
	if err != nil {
		return err
	}
	last, err := cmd.tail(ctx, std, api, "", cmd.Lines)
	if err != nil || cmd.Once {
		return err
	}
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if last, err = cmd.tail(ctx, std, api, last, 100); err != nil {
			return err
		}
	}
}

// tail prints the newest entries, at most most of them, that follow the entry with the reference after. It returns
// the reference of the newest entry. It omits the requests of this command itself, which are also in the log.
func (cmd LogsTailCmd) tail(ctx context.Context, std Streams, api *apiclient.Client, after string, most int) (string,
	error) {
	var page struct{ Data []json.RawMessage }
	query := url.Values{"limit": {"100"}}
	if cmd.Outcome != "" {
		query.Set("outcome", cmd.Outcome)
	}
	if err := api.Get(ctx, "/api/company/requests?"+query.Encode(), &page); err != nil {
		return after, err
	}
	var lines []string
	newest := after
	for i, raw := range page.Data {
		var r loggedRequest
		if err := json.Unmarshal(raw, &r); err != nil {
			return after, err
		}
		if i == 0 {
			newest = r.Reference
		}
		if r.Reference == after || len(lines) == most {
			break
		}
		if parsed, err := url.Parse(r.Path); err == nil && parsed.Path == "/api/company/requests" {
			continue
		}
		line := string(raw)
		if cmd.Output != "json" {
			line = fmt.Sprintf("%s  %s  %4d ms  %-6s %s %s", r.At, colored(std.Out, fmt.Sprint(r.Status)),
				r.Took/1000, r.Method, r.Path, r.Code)
		}
		lines = append(lines, line)
	}
	for _, line := range slices.Backward(lines) {
		fmt.Fprintln(std.Out, line)
	}
	return newest, nil
}

// OpenCmd opens a page of an installation in the browser.
type OpenCmd struct {
	Client
	Page  string `arg:"" optional:"" help:"overview, payrolls, claims, people, keys, webhooks, logs, docs, or an ID."`
	Print bool   `help:"Print the address only."`

	Browser string `env:"BROWSER" help:"Program that opens it. Default: that of this machine."`
}

// pages contains the paths of pages by the names that the command accepts.
var pages = map[string]string{"": "/overview", "overview": "/overview", "payrolls": "/payrolls", "claims": "/claims",
	"people": "/recipients", "keys": "/settings/api", "webhooks": "/settings/webhooks",
	"logs": "/settings/api/requests", "docs": "/docs"}

// pagesOfIDs contains the paths of the pages of objects by the prefix of the objects' IDs.
var pagesOfIDs = map[string]string{"prl_": "/payrolls/", "clm_": "/claims/", "pps_": "/proposals/"}

// Run opens the page and prints its address.
func (cmd OpenCmd) Run(ctx context.Context, std Streams) error {
	base, _, err := cmd.address()
	if err != nil {
		return err
	}
	path, known := pages[cmd.Page]
	if len(cmd.Page) > 4 && !known {
		if path, known = pagesOfIDs[cmd.Page[:4]]; known {
			path += url.PathEscape(cmd.Page)
		}
	}
	if !known {
		return fmt.Errorf("%s is no page; see: stipend open --help", cmd.Page)
	}
	fmt.Fprintln(std.Out, base+path)
	if cmd.Print {
		return nil
	}
	program, args := "xdg-open", []string{}
	switch {
	case cmd.Browser != "":
		program = cmd.Browser
	case runtime.GOOS == "darwin":
		program = "open"
	case runtime.GOOS == "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	}
	if err := exec.CommandContext(ctx, program, append(args, base+path)...).Run(); err != nil {
		return fmt.Errorf("no browser could be started; open the address yourself: %w", err)
	}
	return nil
}
