package legal

import (
	"strings"
	"testing"
	"testing/fstest"
)

// TestFilesAreChecked checks which files are refused, with the reason.
func TestFilesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":          {nil, "no legal texts"},
		"another name":  {map[string]string{"agb.md": "Version: 1\n"}, "the name of a legal text"},
		"no version":    {map[string]string{"terms.en.md": "# Terms\n"}, "the first line must be the version"},
		"a space in it": {map[string]string{"terms.en.md": "Version: 1 2\n"}, "the first line must be the version"},
		"different versions": {map[string]string{"terms.en.md": "Version: 1\n", "terms.es.md": "Version: 2\n"},
			"has version 2"},
	} {
		dir := fstest.MapFS{}
		for file, text := range c.files {
			dir[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	texts, err := Read(fstest.MapFS{"terms.en.md": {Data: []byte("Version: 1\r\nHello\n")},
		"privacy.fr.md": {Data: []byte("Version: b\nBonjour\n")}})
	if err != nil {
		t.Fatal(err)
	}
	if texts.Versions() != "terms 1 privacy b" {
		t.Errorf("versions %q", texts.Versions())
	}
	if d, ok := texts.Find("privacy", "es"); !ok || d.Language != "fr" {
		t.Errorf("%+v", d)
	}
}
