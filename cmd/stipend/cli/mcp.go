package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/mcp"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// MCPCmd serves an installation's API to one agent on this machine.
type MCPCmd struct{ Client }

// Help returns the details of the help.
func (MCPCmd) Help() string {
	return `An agent starts this command and speaks the Model Context Protocol with it over standard input and output.
Sign in with stipend login, or put an API key or access token into the environment variable STIPEND_KEY: its scopes
decide what the agent can do. An agent that can send HTTP requests needs no command: it connects to /mcp of the
installation.`
}

// maxContract is the maximum size of the contract in bytes.
const maxContract = 32 << 20

// Run serves the agent until the agent closes the input.
func (cmd MCPCmd) Run(ctx context.Context, std Streams) error {
	api, err := cmd.API()
	if err != nil {
		return err
	}
	base, transport := api.BaseURL, authorized{api}
	authorization, err := api.Authorization(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/openapi.json", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("the installation cannot be reached: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with %s: is it the address of an installation?", req.URL, res.Status)
	}
	contract, err := io.ReadAll(io.LimitReader(res.Body, maxContract))
	if err != nil {
		return err
	}
	server, err := mcp.New(mcp.Options{Contract: contract, API: transport, BaseURL: base, Version: app.Version()})
	if err != nil {
		return err
	}
	return server.Run(ctx, http.Header{"Authorization": {authorization}}, io.NopCloser(std.In),
		unclosed{std.Out})
}

// authorized is a transport that sends each request with the credential that is valid at that time.
type authorized struct{ api *apiclient.Client }

// RoundTrip sends a request.
func (t authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	authorization, err := t.api.Authorization(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", authorization)
	return http.DefaultTransport.RoundTrip(r)
}

// unclosed is a writer whose Close does nothing, so that the server does not close the stream.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
