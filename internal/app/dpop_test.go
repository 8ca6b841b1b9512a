package app_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web/webtest"
)

// oauth4webapi binds its tokens to a key. They work with proofs of that key only. An app that requires DPoP gets no
// other tokens, and those that it has stop working.
func TestTokensAreBoundToKeys(t *testing.T) {
	t.Parallel()
	testkit.NotQuick(t, "it runs a client in Node.js")
	s := boot(t, dbtest.SQLite(t))
	seed := s.Ready().Seed
	browser := webtest.NewVisitor(t, s.Ready().AuthURL)
	modules, err := filepath.Abs("../../.tools/npm/oauth")
	testkit.Check(t, err)
	node := exec.CommandContext(t.Context(), "node", "testdata/oauth4webapi-dpop.mjs", modules, s.Ready().AuthURL,
		seed.ClientID, seed.ClientSecret, seed.RedirectURI, s.Ready().BaseURL)
	node.Stderr = t.Output()
	in, err := node.StdinPipe()
	testkit.Check(t, err)
	out, err := node.StdoutPipe()
	testkit.Check(t, err)
	testkit.Check(t, node.Start())
	lines := bufio.NewScanner(out)
	lines.Scan()
	_, err = fmt.Fprintln(in, agree(t, browser, seed.Admin, lines.Text()))
	testkit.Check(t, err)
	if lines.Scan(); lines.Text() != "dpop 200 401 401 200 true" {
		t.Errorf("%q", lines.Text())
	}
	_ = node.Wait()

	code := func() string {
		back, err := url.Parse(agree(t, browser, seed.Admin, s.Ready().AuthURL+"/authorize?state=s&client_id="+seed.ClientID))
		testkit.Check(t, err)
		return back.Query().Get("code")
	}
	exchange := func(code string) (status int, body string) {
		got, err := http.Post(s.Ready().BaseURL+"/oauth2/token", "application/x-www-form-urlencoded", strings.NewReader(
			url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {seed.ClientID},
				"client_secret": {seed.ClientSecret}}.Encode()))
		testkit.Check(t, err)
		defer got.Body.Close()
		var text strings.Builder
		_, err = bufio.NewReader(got.Body).WriteTo(&text)
		testkit.Check(t, err)
		return got.StatusCode, text.String()
	}
	status, body := exchange(code())
	token := regexpToken(body)
	if status != 200 || token == "" {
		t.Fatal(status, body)
	}
	works := func() int {
		status, _ := callCompany(t, http.DefaultClient, s, token)
		return status
	}
	if got := works(); got != 200 {
		t.Errorf("a token without a key: %d", got)
	}
	testkit.Check(t, s.DB().Write(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		app, err := identity.AppByClientID(ctx, tx, seed.ClientID)
		if err != nil {
			return err
		}
		return identity.SetDPoP(ctx, tx, app.CompanyID, app.ID, true)
	}))
	if got := works(); got != 401 {
		t.Errorf("a token without a key, of an app that requires one: %d", got)
	}
	if status, body := exchange(code()); status != 400 || !strings.Contains(body, "invalid_dpop_proof") {
		t.Errorf("an exchange without a proof: %d %s", status, body)
	}
}

// regexpToken returns the access token of a response.
func regexpToken(body string) string {
	_, rest, _ := strings.Cut(body, `"access_token":"`)
	token, _, _ := strings.Cut(rest, `"`)
	return token
}
