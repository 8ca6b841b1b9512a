package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/oauth2"

	"github.com/stipend/stipend/internal/identity"
)

// LoginCmd signs a person in to an installation.
type LoginCmd struct {
	Client
	Scope []string `default:"c_company_detail,c_company_worker_list,c_company_propose" help:"Scopes (${default})."`
}

// Help returns the details of the help.
func (LoginCmd) Help() string {
	return `It prints an address and a code. Open the address in a browser on any device, sign in, compare the code, and
allow what the page lists. The tokens are stored for this user of this machine, and renewed until you revoke
them on the page of connected apps, or with stipend logout.

By default you can read payrolls and claims, and propose new ones, which a member confirms on a page. To create them
directly: --scope c_company_detail,c_company_workers_pay`
}

// Run signs in with the device flow (RFC 8628) and stores the tokens.
func (cmd LoginCmd) Run(ctx context.Context, std Streams) error {
	base, _, err := cmd.address()
	if err != nil {
		return err
	}
	conf, err := clientOf(ctx, base)
	if err != nil {
		return err
	}
	conf.Scopes = cmd.Scope
	device, err := conf.DeviceAuth(ctx)
	if err != nil {
		return refused(err)
	}
	fmt.Fprintf(std.Out, "Open %s\nand enter the code: %s\n", device.VerificationURI, device.UserCode)
	token, err := conf.DeviceAccessToken(ctx, device)
	if err != nil {
		return refused(err)
	}
	if err := changeLogins(func(all logins) error {
		all[base] = login{conf.Endpoint.TokenURL, token}
		return nil
	}); err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "You are signed in to %s.\n", base)
	return nil
}

// LogoutCmd deletes the tokens of an installation.
type LogoutCmd struct{ Client }

// Run revokes the consent and deletes the tokens.
func (cmd LogoutCmd) Run(ctx context.Context, std Streams) error {
	base, _, err := cmd.address()
	if err != nil {
		return err
	}
	known := false
	if err := changeLogins(func(all logins) error {
		var in login
		if in, known = all[base]; !known {
			return nil
		}
		delete(all, base)
		return revoke(ctx, base, url.Values{"client_id": {identity.CommandLineClient}, "token": {in.Token.RefreshToken}})
	}); err != nil {
		return fmt.Errorf("you are still signed in: %w", err)
	}
	if !known {
		fmt.Fprintf(std.Out, "You are not signed in to %s.\n", base)
		return nil
	}
	fmt.Fprintf(std.Out, "You are signed out of %s.\n", base)
	return nil
}

// revoke revokes a token at an installation.
func revoke(ctx context.Context, base string, form url.Values) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/oauth2/revoke", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers with %s", req.URL, res.Status)
	}
	return nil
}

// refused returns an error with the description in an error response of the authorization server.
func refused(err error) error {
	var e *oauth2.RetrieveError
	if errors.As(err, &e) && e.ErrorDescription != "" {
		return errors.New(e.ErrorDescription)
	}
	return err
}

// clientOf returns the OAuth client of this program at an installation.
func clientOf(ctx context.Context, base string) (*oauth2.Config, error) {
	var meta struct {
		Token  string `json:"token_endpoint"`
		Device string `json:"device_authorization_endpoint"`
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/.well-known/oauth-authorization-server", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the installation cannot be reached: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&meta) != nil || meta.Device == "" {
		return nil, fmt.Errorf("%s is not the address of an installation", base)
	}
	return &oauth2.Config{ClientID: identity.CommandLineClient, Endpoint: oauth2.Endpoint{
		TokenURL: meta.Token, DeviceAuthURL: meta.Device, AuthStyle: oauth2.AuthStyleInParams}}, nil
}

// login contains the tokens for one installation.
type login struct {
	TokenURL string        `json:"token_url"`
	Token    *oauth2.Token `json:"token"`
}

// logins contains the logins by address of the installation.
type logins map[string]login

// loginsFile returns the path of the file with the logins, or "" if the user has no directory for it.
func loginsFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "stipend", "credentials.json")
}

func readLogins(name string) (logins, error) {
	all := logins{}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("the file of your sign-ins cannot be read; delete it and sign in again: %s: %w", name, err)
	}
	return all, nil
}

// changeLogins changes the file with the logins, while no other process can change it. Only the user can read the
// file.
func changeLogins(change func(logins) error) error {
	name := loginsFile()
	if name == "" {
		return errors.New("this user has no directory for sign-ins: set HOME")
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	lock := flock.New(name + ".lock")
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	all, err := readLogins(name)
	if err != nil {
		return err
	}
	if err := change(all); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// hasLogin reports whether the user is signed in to an installation.
func hasLogin(base string) (bool, error) {
	name := loginsFile()
	if name == "" {
		return false, nil
	}
	all, err := readLogins(name)
	_, known := all[base]
	return known, err
}

// accessToken returns an access token that is valid for at least another minute. It exchanges the refresh token while
// it holds the lock of the file, because using a refresh token twice revokes the consent.
func accessToken(ctx context.Context, base string) (token string, err error) {
	name := loginsFile()
	fresh := func(t *oauth2.Token) bool { return t != nil && time.Until(t.Expiry) > time.Minute }
	all, err := readLogins(name)
	if err != nil {
		return "", err
	}
	if in := all[base]; fresh(in.Token) {
		return in.Token.AccessToken, nil
	}
	err = changeLogins(func(all logins) error {
		in, known := all[base]
		if !known || in.Token == nil {
			return fmt.Errorf("sign in first: stipend login --url %s", base)
		}
		if !fresh(in.Token) {
			conf := oauth2.Config{ClientID: identity.CommandLineClient,
				Endpoint: oauth2.Endpoint{TokenURL: in.TokenURL, AuthStyle: oauth2.AuthStyleInParams}}
			next, err := conf.TokenSource(ctx, &oauth2.Token{RefreshToken: in.Token.RefreshToken}).Token()
			if err != nil {
				return fmt.Errorf("your sign-in has ended; sign in again: stipend login --url %s: %w", base, refused(err))
			}
			in.Token = next
			all[base] = in
		}
		token = in.Token.AccessToken
		return nil
	})
	return token, err
}
