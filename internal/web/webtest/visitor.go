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

// Visitor is an HTTP client that keeps cookies, submits the forms of pages and does not follow redirects by itself.
// Use it for journeys across many pages, and for requests that a browser would not send.
type Visitor struct {
	t      testing.TB
	base   *url.URL
	client *http.Client
}

// NewVisitor returns a visitor without cookies.
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

// Visit is a response.
type Visit struct {
	Status int
	Header http.Header
	Text   string // the HTML
}

// PlainText returns the page without its tags, so that an amount and its currency are one text.
func (v Visit) PlainText() string {
	var b strings.Builder
	for z := html.NewTokenizer(strings.NewReader(v.Text)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Raw())
		}
	}
}

// Contains reports whether the HTML or the plain text contains text.
func (v Visit) Contains(text string) bool {
	return strings.Contains(v.Text, text) || strings.Contains(v.PlainText(), text)
}

// Location returns the redirect target, or "".
func (v Visit) Location() string { return v.Header.Get("Location") }

// Get requests a path or a URL of the service.
func (v *Visitor) Get(path string) Visit {
	v.t.Helper()
	return v.do(http.MethodGet, path, "")
}

// Follow follows redirects within the service and returns the last response.
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

// Cookie returns the value of a cookie, or "".
func (v *Visitor) Cookie(name string) string {
	for _, c := range v.client.Jar.Cookies(v.base) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// Post posts values without loading a page first.
func (v *Visitor) Post(path string, values url.Values) Visit {
	v.t.Helper()
	return v.do(http.MethodPost, path, values.Encode())
}

// Submit posts the form of a page whose action has the given path. Pairs of names and values replace inputs of the
// form.
func (v *Visitor) Submit(at Visit, path string, pairs ...string) Visit {
	v.t.Helper()
	action, values := Form(v.t, at.Text, path)
	for i := 0; i < len(pairs); i += 2 {
		if i > 1 && pairs[i] == pairs[i-2] {
			values.Add(pairs[i], pairs[i+1]) // a repeated name adds a value
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

// Form returns the action and the default values of the form whose action has the given path.
func Form(t testing.TB, page, path string) (action string, values url.Values) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var found *html.Node
	for n := range doc.Descendants() {
		if before, _, _ := strings.Cut(attribute(n, "action"), "?"); n.Data == "form" && before == path {
			if strings.EqualFold(attribute(n, "method"), "post") {
				return attribute(n, "action"), inputs(n)
			}
			if found == nil {
				found = n
			}
		}
	}
	if found != nil {
		return attribute(found, "action"), inputs(found)
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
			values.Add(name, selectedValue(n))
		case n.Data == "textarea" && n.FirstChild != nil:
			values.Add(name, n.FirstChild.Data)
		}
	}
	return values
}

// selectedValue returns the value of a select: the selected option, or the first.
func selectedValue(list *html.Node) string {
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
