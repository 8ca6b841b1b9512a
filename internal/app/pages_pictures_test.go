package app_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db/dbtest"
	"github.com/stipend/stipend/internal/testkit"
	"github.com/stipend/stipend/internal/web"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/webtest"
)

// pagePictures is the directory for pictures of every page. If it is empty, the test takes none.
var pagePictures = flag.String("pages", "", "write a picture of every page in both themes and widths to this directory")

// tallest is the height in CSS pixels up to which a picture shows a page.
const tallest = 3000

// pathsOf returns the paths of the pages that a user with an access opens. Objects have the given IDs.
func pathsOf(access []ui.Access, ids map[string]string) (all []string) {
	for _, rt := range web.Routes() {
		path := strings.TrimSuffix(rt.Path, "{$}")
		for route, id := range ids {
			path = strings.ReplaceAll(path, route, strings.TrimSuffix(route, "{id}")+id)
		}
		file := filepath.Ext(path) != "" || strings.HasSuffix(path, "/live") || strings.HasSuffix(path, "/document")
		if rt.Method == http.MethodGet && rt.Kind != ui.Stream && slices.Contains(access, rt.Access) && !file &&
			!strings.Contains(path, "{") && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}
	return all
}

// pictureTime is the time within which all pictures are taken. The test's own limit is an hour.
const pictureTime = 55 * time.Minute

// Every page is photographed at 1440 and 390 px in light and dark colors, and once from right to left. The pictures are
// compared with the design by people, so that the test only reports pages that fail.
func TestPicturesOfEveryPage(t *testing.T) {
	if *pagePictures == "" {
		return
	}
	o := openCompanyBrowser(t, dbtest.SQLite(t), func(c *app.Config) { c.ReleaseLimit = "3000 USD" })
	seed, base := o.d.seed, o.s.Ready().BaseURL
	paid := o.d.payTwo("1250.00")
	o.d.deposit(paid.PayrollID, "over", "")
	o.d.fulfilled(paid.PayrollID)
	open := o.d.payTwo("980.50")
	claim := o.d.claimOf("20")["claim_id"].(string)
	ids := map[string]string{"/payrolls/{id}": open.PayrollID, "/recipients/{id}": seed.Recipients[0].RecipientID,
		"/claims/{id}": claim}
	paths := pathsOf([]ui.Access{ui.Member, ui.Manager, ui.Administrator}, ids)
	paths = append(paths, "/account", "/payrolls/"+paid.PayrollID, "/pay/"+claim, "/search?q=ada", "/nowhere",
		"/staff/components")
	b, payee, guest, staff := webtest.StartFor(t, pictureTime), webtest.StartFor(t, pictureTime),
		webtest.StartFor(t, pictureTime), webtest.StartFor(t, pictureTime)
	p := b.Open(base+"/sign-in", webtest.Look{Width: 1440})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("form:has(#password) button")
	o.payee(payee, "joan@payee.example", webtest.Look{Width: 1440})
	held := o.d.payTwo("4000.00")
	o.d.deposit(held.PayrollID, "exact", "")
	o.d.until(held.PayrollID, "on hold", func(v payrollView) bool { return v.Status == "on_hold" })
	operator := employ(t, o.s, "Katherine")
	p = staff.Open(base+ui.StaffSignInPath, webtest.Look{Width: 1440})
	p.Fill("#email", operator.email)
	p.Fill("#password", operator.password)
	p.Fill("#code", operator.code(t))
	p.Send("main button")
	backOffice := pathsOf([]ui.Access{ui.StaffOnly}, map[string]string{"/companies/{id}": seed.CompanyID})
	for _, queue := range backoffice.Queues {
		backOffice = append(backOffice, ui.StaffPath+"/queues/"+queue)
	}
	testkit.Check(t, os.MkdirAll(*pagePictures, 0o755))
	unsafe := regexp.MustCompile(`[^a-z0-9]+`)
	take := func(b *webtest.Browser, kind, path string, look webtest.Look, suffix string) {
		tab := b.Open(base+path, look)
		defer tab.Close()
		height := webtest.Evaluate[float64](tab, "document.documentElement.scrollHeight")
		tab.Do(chromedp.EmulateViewport(int64(look.Width), min(max(int64(height), 800), tallest)))
		name := strings.Trim(unsafe.ReplaceAllString(kind+path, "-"), "-")
		if name == "" {
			name = "home"
		}
		file := filepath.Join(*pagePictures, fmt.Sprintf("%s-%d%s.png", name, look.Width, suffix))
		testkit.Check(t, os.WriteFile(file, tab.Picture(), 0o644))
	}
	for _, set := range []struct {
		browser *webtest.Browser
		kind    string
		paths   []string
	}{
		{guest, "", pathsOf([]ui.Access{ui.Anyone}, nil)}, {b, "", paths},
		{payee, "payee", pathsOf([]ui.Access{ui.SignedIn}, nil)}, {staff, "", backOffice},
	} {
		for _, path := range set.paths {
			for _, width := range []int{1440, 390} {
				take(set.browser, set.kind, path, webtest.Look{Width: width}, "")
				take(set.browser, set.kind, path, webtest.Look{Width: width, Dark: true}, "-dark")
			}
			take(set.browser, set.kind, path, webtest.Look{Width: 1440, Language: "he"}, "-rtl")
		}
	}
}
