package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/stipend/stipend/internal/sandbox"
	"github.com/stipend/stipend/internal/sandbox/apiclient"
)

// Client contains the flags that name the installation whose client a command is, and the credential.
type Client struct {
	URL string `aliases:"base-url" env:"STIPEND_URL" default:"http://127.0.0.1:8080" help:"Address (${default})."`
	Key string `aliases:"api-key" env:"STIPEND_KEY" help:"API key or access token. Default: stipend login's."`
}

// address returns the address of the installation, without a slash at the end. Unless the installation is on this
// machine, the address must use HTTPS, because the credential is sent to it.
func (c Client) address() (base string, local bool, err error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", false, errors.New("--url must be an https:// address")
	}
	ip := net.ParseIP(u.Hostname())
	local = u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "http" && !local {
		return "", false, errors.New("--url must be an https:// address, because a credential is sent to it")
	}
	return strings.TrimRight(c.URL, "/"), local, nil
}

// API returns a client of the installation. Its credential is that of the flag --key, or of stipend login, or, for a
// sandbox on this machine, that of the company in the initial data.
func (c Client) API() (*apiclient.Client, error) {
	base, local, err := c.address()
	if err != nil {
		return nil, err
	}
	api := &apiclient.Client{BaseURL: base, Key: c.Key}
	if c.Key != "" {
		return api, nil
	}
	known, err := hasLogin(base)
	switch {
	case err != nil:
		return nil, err
	case known:
		api.Credential = func(ctx context.Context) (string, error) { return accessToken(ctx, base) }
	case local:
		api.Key = sandbox.DefaultSeed().APIKey
	default:
		return nil, fmt.Errorf("sign in first: stipend login --url %s, or set STIPEND_KEY to an API key", base)
	}
	return api, nil
}

// Output contains the flag that selects the output format of a command.
type Output struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"Form of the output: table or json (${default})."`
}

// print writes a response of the API unchanged, or as a table with a header and rows.
func (o Output) print(w io.Writer, answer json.RawMessage, header string, rows func(row func(cells ...any))) error {
	if o.Output == "json" {
		var value any
		if err := json.Unmarshal(answer, &value); err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
		_, err := fmt.Fprintf(w, "%s\n", strings.TrimSpace(string(answer)))
		return err
	}
	return table(w, header, rows)
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// draws reports whether a stream is a terminal that interprets escape sequences.
func draws(stream any) bool { return terminal(stream) && os.Getenv("TERM") != "dumb" }

// colored returns a state in its color, or unchanged if the stream is not a terminal or NO_COLOR (no-color.org) is
// set. Print it in the last column, because tables count the characters of escape sequences.
func colored(stream any, state string) string {
	if !draws(stream) || os.Getenv("NO_COLOR") != "" {
		return state
	}
	color := "33" // yellow: the state is not final
	switch state {
	case "fulfilled", "paid", "confirmed", "200":
		color = "32"
	case "cancelled", "expired", "expired_unfunded", "underpaid", "invalid", "partially_fulfilled", "declined":
		color = "31"
	}
	return "\x1b[" + color + "m" + state + "\x1b[0m"
}

// readInput returns the contents of a file, or of the standard input if the name is "-".
func readInput(std Streams, name string) ([]byte, error) {
	const most = 32 << 20
	in := std.In
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not valid JSON", cmp.Or(map[string]string{"-": "the standard input"}[name], name))
	}
	return text, err
}
