package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/mcp"
)

// MCPCmd serves an installation's API to one agent on this machine.
type MCPCmd struct {
	URL        string `name:"url" default:"http://127.0.0.1:8080" help:"Address of the installation (${default})."`
	Credential string `env:"STIPEND_CREDENTIAL" hidden:"" help:"Access token or API key."`
}

// Help returns the details of the help.
func (MCPCmd) Help() string {
	return `An agent starts this command and speaks the Model Context Protocol with it over standard input and output.
Put an access token or an API key into the environment variable STIPEND_CREDENTIAL: its scopes decide what the agent
can read. An agent that can send HTTP requests needs no command: it connects to /mcp of the installation.`
}

// maxContract is the maximum size of the contract in bytes.
const maxContract = 32 << 20

// Run serves the agent until it closes the input.
func (cmd MCPCmd) Run(ctx context.Context, std Streams) error {
	base, err := cmd.address()
	if err != nil {
		return err
	}
	if cmd.Credential == "" {
		return errors.New("set STIPEND_CREDENTIAL to an access token or an API key of the installation")
	}
	scheme := "Bearer "
	if strings.Contains(cmd.Credential, "_key_") {
		scheme = "Basic "
	}
	transport := http.DefaultTransport
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/openapi.json", nil)
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(req)
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
	return server.Run(ctx, http.Header{"Authorization": {scheme + cmd.Credential}}, io.NopCloser(std.In),
		unclosed{std.Out})
}

// address returns the address of the installation without a final slash. A credential is sent over HTTPS only, except
// to this machine.
func (cmd MCPCmd) address() (string, error) {
	u, err := url.Parse(cmd.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("--url must be an https:// address")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", errors.New("--url must be an https:// address, because a credential is sent to it")
	}
	return strings.TrimRight(cmd.URL, "/"), nil
}

// unclosed is a writer that the server does not close.
type unclosed struct{ io.Writer }

// Close does nothing.
func (unclosed) Close() error { return nil }
