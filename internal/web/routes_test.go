package web_test

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/pagetest"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

var inSpanish = regexp.MustCompile(`href="([^"]*[?;]lang=es)"`)

// TestEveryPageForEveryRole checks that each route allows exactly the roles that it declares. It also checks that
// language links of responses to forms lead to a page.
func TestEveryPageForEveryRole(t *testing.T) {
	x := pagetest.NewFixture(t, pagetest.SQLite(t), auth.Roles...)
	x.Write(func(ctx context.Context, tx *db.Tx) (err error) { // a user without a company
		sealer, err := identity.NewSealer(make([]byte, 32))
		if err == nil {
			_, err = identity.CreateUser(ctx, tx, sealer,
				identity.NewUser{PasswordHash: testkit.PasswordHash(t, pagetest.Password),
					Profile: identity.Profile{Email: "alone@acme.example"}})
		}
		return err
	})
	may := map[ui.Access][]string{
		ui.Anyone:        {"", "alone", identity.RoleViewer, identity.RoleDeveloper, identity.RoleAdmin, identity.RoleOwner},
		ui.SignedIn:      {"alone", identity.RoleViewer, identity.RoleDeveloper, identity.RoleAdmin, identity.RoleOwner},
		ui.Member:        {identity.RoleViewer, identity.RoleDeveloper, identity.RoleAdmin, identity.RoleOwner},
		ui.Manager:       {identity.RoleDeveloper, identity.RoleAdmin, identity.RoleOwner},
		ui.Administrator: {identity.RoleAdmin, identity.RoleOwner},
	}
	responses := 0
	for _, role := range may[ui.Anyone] {
		v := webtest.NewVisitor(t, x.URL)
		if role != "" {
			v = x.SignIn(role)
		}
		for _, rt := range web.Routes() {
			path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(strings.TrimSuffix(rt.Path, "{$}"), "none")
			if rt.Staff && rt.Access == ui.Anyone || rt.DecidesKYC || rt.Simulated || rt.Access == ui.Anyone ||
				strings.HasSuffix(path, "/leave") || strings.HasPrefix(path, "/sign-out") {
				continue
			}
			var got webtest.Visit
			if rt.Method == http.MethodGet {
				got = v.Get(path)
			} else {
				got = v.Post(path, url.Values{"form_token": {ui.FormToken(v.Cookie("stipend_session"))}})
			}
			refused := got.Status == 403 && (strings.Contains(got.Text, "<code>role_required</code>") ||
				strings.Contains(got.Text, "<code>not_a_member</code>")) ||
				got.Status == 303 && (strings.HasPrefix(got.Location(), "/sign-in") || got.Location() == ui.StaffSignInPath) ||
				got.Status == 403 && role == "" // an event stream does not redirect
			if allowed := slices.Contains(may[rt.Access], role); allowed == refused || got.Status >= 500 {
				t.Errorf("%s %s by %q: %d to %q; allowed: %v", rt.Method, path, role, got.Status, got.Location(), allowed)
			}
			if link := inSpanish.FindStringSubmatch(got.Text); rt.Method == http.MethodPost && link != nil {
				responses++
				to := html.UnescapeString(link[1])
				if strings.HasPrefix(to, "?") {
					to = path + to
				}
				if other := v.Get(to); other.Status == http.StatusMethodNotAllowed ||
					!strings.HasPrefix(path, strings.TrimSuffix(to, "?lang=es")) {
					t.Errorf("the response of %s, %d, links to %s in Spanish, which is %d", path, got.Status, to, other.Status)
				}
			}
		}
	}
	if responses < 100 {
		t.Errorf("%d responses of forms were checked", responses)
	}
}
