package webtest

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Visitor is a browser without windows: it keeps cookies and sends forms as they stand, and follows no redirect by
// itself. It is for journeys through many pages, and for what a real browser would not send.
type Visitor struct {
	t      testing.TB
	base   *url.URL
	client *http.Client
}

// NewVisitor is somebody who comes to a service for the first time.
func NewVisitor(t testing.TB, base string) *Visitor {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Visitor{t: t, base: u, client: &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Visit is a page that came.
type Visit struct {
	Status int
	Header http.Header
	Text   string // its HTML
}

// Location is where the answer leads, "" when nowhere.
func (v Visit) Location() string { return v.Header.Get("Location") }

// Get asks for a path, or for an address of the service.
func (v *Visitor) Get(path string) Visit {
	v.t.Helper()
	return v.do(http.MethodGet, path, "")
}

// Follow goes where an answer leads, as long as that is the service itself, and returns the last answer.
func (v *Visitor) Follow(at Visit) Visit {
	v.t.Helper()
	for range 10 {
		to, err := v.base.Parse(at.Location())
		if at.Location() == "" || err != nil || to.Host != v.base.Host {
			return at
		}
		at = v.do(http.MethodGet, to.String(), "")
	}
	v.t.Fatal("more than ten redirects")
	return at
}

// Cookie is what the visitor holds under a name, "" without.
func (v *Visitor) Cookie(name string) string {
	for _, c := range v.client.Jar.Cookies(v.base) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// Post sends values without a page that asked for them.
func (v *Visitor) Post(path string, values url.Values) Visit {
	v.t.Helper()
	return v.do(http.MethodPost, path, values.Encode())
}

// Submit sends the page's form whose action has a path, as it stands but for pairs of names and values.
func (v *Visitor) Submit(at Visit, path string, pairs ...string) Visit {
	v.t.Helper()
	action, values := Form(v.t, at.Text, path)
	for i := 0; i < len(pairs); i += 2 {
		if i > 1 && pairs[i] == pairs[i-2] {
			values.Add(pairs[i], pairs[i+1]) // several of one name stand together
		} else {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return v.do(http.MethodPost, action, values.Encode())
}

func (v *Visitor) do(method, path, form string) Visit {
	v.t.Helper()
	to, err := v.base.Parse(path)
	if err != nil {
		v.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, to.String(), strings.NewReader(form))
	if err != nil {
		v.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	got, err := v.client.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return Visit{got.StatusCode, got.Header, string(body)}
}

// Form reads the form of a page whose action has a path: where it leads and what it sends when nobody changes anything.
func Form(t testing.TB, page, path string) (action string, values url.Values) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if before, _, _ := strings.Cut(attribute(n, "action"), "?"); n.Data == "form" && before == path {
			return attribute(n, "action"), inputs(n)
		}
	}
	t.Fatalf("no form for %s in\n%s", path, page)
	return "", nil
}

func inputs(form *html.Node) url.Values {
	values := url.Values{}
	for n := range form.Descendants() {
		name := attribute(n, "name")
		switch {
		case name == "" || n.Data == "button":
		case n.Data == "input" && (attribute(n, "type") == "checkbox" || attribute(n, "type") == "radio"):
			if has(n, "checked") {
				values.Add(name, attribute(n, "value"))
			}
		case n.Data == "input":
			values.Add(name, attribute(n, "value"))
		case n.Data == "select":
			values.Add(name, chosen(n))
		}
	}
	return values
}

// chosen is the value of a select: of the chosen option, else of the first.
func chosen(list *html.Node) string {
	first, found := "", false
	for n := range list.Descendants() {
		if n.Data != "option" {
			continue
		}
		if has(n, "selected") {
			return attribute(n, "value")
		}
		if !found {
			first, found = attribute(n, "value"), true
		}
	}
	return first
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}
