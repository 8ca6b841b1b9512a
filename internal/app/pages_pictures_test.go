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

	"github.com/chromedp/chromedp"

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

// Every page is photographed at 1440 and 390 px in light and dark colors, and once from right to left. The pictures are
// compared with the design by people, so that the test only reports pages that fail.
func TestPicturesOfEveryPage(t *testing.T) {
	if *pagePictures == "" {
		return
	}
	o := openCompanyBrowser(t, dbtest.SQLite(t))
	seed, base := o.d.seed, o.s.Ready().BaseURL
	paid := o.d.payTwo("1250.00")
	o.d.deposit(paid.PayrollID, "over", "")
	o.d.fulfilled(paid.PayrollID)
	open := o.d.payTwo("980.50")
	claim := o.d.claimOf("20")["claim_id"].(string)
	ids := map[string]string{"/payrolls/{id}": open.PayrollID, "/recipients/{id}": seed.Recipients[0].RecipientID,
		"/claims/{id}": claim}
	paths := pathsOf([]ui.Access{ui.SignedIn, ui.Member, ui.Manager, ui.Administrator}, ids)
	paths = append(paths, "/payrolls/"+paid.PayrollID, "/pay/"+claim, "/search?q=ada", "/nowhere", "/staff/components")
	b := webtest.Start(t)
	p := b.Open(base+"/sign-in", webtest.Look{Width: 1440})
	p.Fill("#email", seed.Admin.Email)
	p.Fill("#password", seed.Admin.Password)
	p.Send("main button")
	public := pathsOf([]ui.Access{ui.Anyone}, nil)
	guest := webtest.Start(t)
	testkit.Check(t, os.MkdirAll(*pagePictures, 0o755))
	unsafe := regexp.MustCompile(`[^a-z0-9]+`)
	take := func(b *webtest.Browser, path string, look webtest.Look, suffix string) {
		tab := b.Open(base+path, look)
		defer tab.Close()
		height := webtest.Evaluate[float64](tab, "document.documentElement.scrollHeight")
		tab.Do(chromedp.EmulateViewport(int64(look.Width), min(max(int64(height), 800), tallest)))
		name := strings.Trim(unsafe.ReplaceAllString(path, "-"), "-")
		if name == "" {
			name = "home"
		}
		file := filepath.Join(*pagePictures, fmt.Sprintf("%s-%d%s.png", name, look.Width, suffix))
		testkit.Check(t, os.WriteFile(file, tab.Picture(), 0o644))
	}
	for _, set := range []struct {
		browser *webtest.Browser
		paths   []string
	}{{guest, public}, {b, paths}} {
		for _, path := range set.paths {
			for _, width := range []int{1440, 390} {
				take(set.browser, path, webtest.Look{Width: width}, "")
				take(set.browser, path, webtest.Look{Width: width, Dark: true}, "-dark")
			}
			take(set.browser, path, webtest.Look{Width: 1440, Language: "he"}, "-rtl")
		}
	}
}
