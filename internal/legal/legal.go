// Package legal has the operator's terms of service and privacy policy, in versions that users accept.
//
// The texts are Markdown files that the operator writes. Each begins with the line "Version: " and the version. A user
// accepts a version once; after a new version, the pages ask again before they show anything else.
package legal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
)

// Kinds lists the documents.
var Kinds = []string{"terms", "privacy"}

// ErrChanged is returned if a document was replaced by a new version after it was shown.
var ErrChanged = apierr.New(apierr.Conflict, "terms_changed",
	"These documents have changed. Read the new versions, then accept them.")

// Document is a text in one language.
type Document struct {
	Kind, Language, Version string
	HTML                    template.HTML
}

// Texts are the operator's documents. The zero Texts has none, so that nothing needs to be accepted.
type Texts struct{ all []Document }

var (
	fileName    = regexp.MustCompile(`^(terms|privacy)\.([a-z]{2})\.md$`)
	versionLine = regexp.MustCompile(`^Version: ([A-Za-z0-9._-]{1,40})\r?\n`)
)

// Read reads the files of a directory, named such as terms.en.md. All languages of a document have one version. Raw
// HTML in the files is left out.
func Read(dir fs.FS) (Texts, error) {
	names, err := fs.Glob(dir, "*.md")
	if err != nil {
		return Texts{}, err
	}
	var t Texts
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Linkify))
	for _, name := range names {
		parts := fileName.FindStringSubmatch(name)
		if parts == nil {
			return Texts{}, fmt.Errorf("%s: the name of a legal text is such as terms.en.md or privacy.en.md", name)
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return Texts{}, err
		}
		head := versionLine.FindSubmatch(data)
		if head == nil {
			return Texts{}, fmt.Errorf("%s: the first line must be the version, such as \"Version: 2026-07-01\"", name)
		}
		d := Document{Kind: parts[1], Language: parts[2], Version: string(head[1])}
		if other, ok := t.Find(d.Kind, d.Language); ok && other.Version != d.Version {
			return Texts{}, fmt.Errorf("%s has version %s, but %s.%s.md has %s", name, d.Version, d.Kind, other.Language,
				other.Version)
		}
		var html bytes.Buffer
		if err := markdown.Convert(data[len(head[0]):], &html); err != nil {
			return Texts{}, fmt.Errorf("%s: %w", name, err)
		}
		d.HTML = template.HTML(html.String()) //nolint:gosec // goldmark leaves out raw HTML and unsafe links
		t.all = append(t.all, d)
	}
	if len(t.all) == 0 {
		return Texts{}, errors.New("the directory has no legal texts, such as terms.en.md")
	}
	return t, nil
}

// Find returns a document in a language, or else in English or any other one. It reports false if there is none.
func (t Texts) Find(kind, language string) (found Document, ok bool) {
	for _, wanted := range []func(Document) bool{
		func(d Document) bool { return d.Language == language },
		func(d Document) bool { return d.Language == "en" },
		func(Document) bool { return true },
	} {
		if i := slices.IndexFunc(t.all, func(d Document) bool { return d.Kind == kind && wanted(d) }); i >= 0 {
			return t.all[i], true
		}
	}
	return found, false
}

// All returns each document once, in a language if possible.
func (t Texts) All(language string) (all []Document) {
	for _, kind := range Kinds {
		if d, ok := t.Find(kind, language); ok {
			all = append(all, d)
		}
	}
	return all
}

// Accepted reports whether a user has accepted the present version of every document.
func (t Texts) Accepted(ctx context.Context, tx *db.Tx, userID string) (bool, error) {
	current := t.All("en")
	if len(current) == 0 {
		return true, nil
	}
	accepted, err := acceptedBy(ctx, tx, userID)
	for _, d := range current {
		if !slices.Contains(accepted, d.Kind+" "+d.Version) {
			return false, err
		}
	}
	return true, err
}

// Accept stores that a user accepted every document. shown are the versions that the user saw, such as "terms 1
// privacy 2", see [Texts.Versions]. It returns ErrChanged if they are not the present ones.
func (t Texts) Accept(ctx context.Context, tx *db.Tx, userID, shown string) error {
	if shown != t.Versions() {
		return ErrChanged
	}
	for _, d := range t.All("en") {
		if err := insertAcceptance(ctx, tx, userID, d); err != nil {
			return err
		}
	}
	return nil
}

// Versions returns the present versions of all documents, such as "terms 1 privacy 2".
func (t Texts) Versions() string {
	var all []string
	for _, d := range t.All("en") {
		all = append(all, d.Kind, d.Version)
	}
	return strings.Join(all, " ")
}
