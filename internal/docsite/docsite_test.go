package docsite

import (
	"strings"
	"testing"
	"testing/fstest"
)

// site returns a site whose pages are all empty, except those in files.
func site(t *testing.T, files map[string]string) *Site {
	t.Helper()
	all := fstest.MapFS{}
	for _, s := range sections {
		for _, name := range s.names {
			if name != "events" && name != "error-codes" {
				all["guides/"+name+".md"] = &fstest.MapFile{Data: []byte("# " + name + "\n\nLead of " + name + ".\n")}
			}
		}
	}
	for name, text := range files {
		all["guides/"+name+".md"] = &fstest.MapFile{Data: []byte(text)}
	}
	s, err := New(Content{Files: all, Errors: []Error{{"too_*odd*", 422, "Too odd", "It is <odd>.", "Make it *even*."}},
		Events: []Event{{"sale.made", "A sale was made.", `{"event": "sale.made"}`}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPages(t *testing.T) {
	s := site(t, map[string]string{"errors": "# Errors\n\nSee [payees](payees.md#add), [the rest](../elsewhere.md) and " +
		"[the code](errors/too_*odd*.md).\n\n![a picture](x.png)\n\n<script>alert(1)</script>\n\n```sh\ncurl <x>\n```\n\n" +
		"```go\nrun()\n```\n\n```json\n{}\n```\n\n## Table\n\n| a |\n|---|\n| b |\n"})
	p, ok := s.Page("errors")
	if !ok || p.Title != "Errors" || p.Lead != "See payees, the rest and the code." || len(p.Headings) != 1 {
		t.Fatalf("%+v", p)
	}
	html := string(p.HTML)
	for _, want := range []string{
		`<a href="/docs/payees#add">payees</a>`, `blob/main/elsewhere.md">the rest</a>`,
		"<summary>curl</summary>", "curl &lt;x&gt;",
		"<summary>Go</summary>", `<h2 id="table">Table</h2>`, `tabindex="0"><table>`,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("without %s:\n%s", want, html)
		}
	}
	for _, bad := range []string{"<script", "<img", "../elsewhere", "<summary></summary>"} {
		if strings.Contains(html, bad) {
			t.Errorf("with %s:\n%s", bad, html)
		}
	}
	if open := strings.Count(html, " open>"); open != 1 || strings.Count(html, "</details>") != 2 {
		t.Errorf("%d of the samples are open:\n%s", open, html)
	}
	if e, ok := s.Page("errors/too_*odd*"); !ok || !strings.Contains(string(e.HTML), "<p>Make it *even*.</p>") {
		t.Errorf("the page of the error: %+v", e)
	}
}

func TestSearch(t *testing.T) {
	s := site(t, map[string]string{
		"payees":   "# Payees\n\nThe lead.\n\n## Quagga\n\nNobody here.\n",
		"payrolls": "# Payrolls\n\nA quagga in the text.\n",
	})
	for query, want := range map[string][]string{
		"QUAGGA":      {"/docs/payees#quagga", "/docs/payrolls"},
		"quagga text": {"/docs/payrolls"},
		"sale.made":   {"/docs/events#salemade"},
		"zebra":       nil,
		" ":           nil,
	} {
		var got []string
		for _, h := range s.Search(query) {
			got = append(got, h.URL())
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q finds %v, want %v", query, got, want)
		}
	}
}

// A page in the menu needs a file, and a file needs a place in the menu.
func TestMissingPages(t *testing.T) {
	if _, err := New(Content{Files: fstest.MapFS{}}); err == nil {
		t.Error("a site without files")
	}
	all := fstest.MapFS{"extra.md": &fstest.MapFile{Data: []byte("# Extra\n")}}
	for _, s := range sections {
		for _, name := range s.names {
			all[name+".md"] = &fstest.MapFile{Data: []byte("# " + name + "\n")}
		}
	}
	if _, err := New(Content{Files: all}); err == nil {
		t.Error("a file in no section")
	}
}
