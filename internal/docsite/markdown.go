package docsite

import (
	"bytes"
	"fmt"
	"html"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown returns a parser and renderer for Markdown with tables. It omits HTML, and renders code and tables with
// [rules].
func markdown(page string) goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(rules{page}, 1))))
}

// repository is the address of files that the documentation links to but that are not part of the site.
const repository = "https://github.com/stipend/stipend/blob/main/"

// link matches a link or an image in Markdown.
var link = regexp.MustCompile("(!?)\\[((?:[^\\]`]|`[^`]*`)*)\\]\\(([^)\\s]+)\\)")

// resolveLinks returns the Markdown of a file in the repository in the form that the site serves. A link to the file
// of a page leads to that page, and a link to any other file to the repository. Images are omitted. known reports
// whether a page with a name exists.
func resolveLinks(source, directory string, known func(name string) bool) string {
	return link.ReplaceAllStringFunc(source, func(text string) string {
		m := link.FindStringSubmatch(text)
		image, label, to := m[1] != "", m[2], m[3]
		switch {
		case image:
			return ""
		case strings.Contains(to, "://"), strings.HasPrefix(to, "#"), strings.HasPrefix(to, "/"):
			return text
		}
		file, fragment, _ := strings.Cut(to, "#")
		name := pageName(file)
		if path.Base(path.Dir(file)) == "errors" {
			name = "errors/" + name
		}
		target := repository + path.Join(directory, file)
		if known(name) {
			target = "/docs/" + name + ".md"
		}
		if fragment != "" {
			target += "#" + fragment
		}
		return "[" + label + "](" + target + ")"
	})
}

// linkPages replaces links to the Markdown of pages by links to the pages.
func linkPages(doc ast.Node) {
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && entering && bytes.HasPrefix(l.Destination, []byte("/docs/")) {
			page, fragment, found := bytes.Cut(l.Destination, []byte("#"))
			l.Destination = bytes.TrimSuffix(page, []byte(".md"))
			if found {
				l.Destination = append(append(slices.Clone(l.Destination), '#'), fragment...)
			}
		}
		return ast.WalkContinue, nil
	})
}

// plain returns the text of a node, with a line for each table row and list item.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(util.UnescapePunctuations(n.Value(source)))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		case *table.TableCell:
			if !entering {
				b.WriteByte(' ')
			}
		case *table.TableRow, *table.TableHeader, *ast.ListItem:
			if !entering {
				b.WriteByte('\n')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// languages contains the names of the languages of samples, by the word after the opening fence.
var languages = map[string]string{"sh": "curl", "go": "Go", "ts": "TypeScript", "js": "Node", "python": "Python"}

// rules renders code and tables so that they can be scrolled with the keyboard. Consecutive samples of the same step
// in several languages become alternatives, with the first one open.
type rules struct{ page string }

// RegisterFuncs implements renderer.NodeRenderer.
func (r rules) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindFencedCodeBlock, r.code)
	reg.Register(table.KindTable, r.table)
}

func (r rules) code(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	block := n.(*ast.FencedCodeBlock)
	first, alternatives := group(block, source)
	if alternatives && first == block {
		_, _ = w.WriteString(`<div class="samples">` + "\n")
	}
	if alternatives {
		open := ""
		if first == block {
			open = " open"
		}
		_, _ = fmt.Fprintf(w, "<details name=\"%s-%d\"%s><summary>%s</summary>\n", r.page, first.Lines().At(0).Start, open,
			languages[string(block.Language(source))])
	}
	_, _ = fmt.Fprintf(w, "<pre tabindex=\"0\"><code>%s</code></pre>\n",
		html.EscapeString(string(block.Lines().Value(source))))
	if alternatives {
		_, _ = w.WriteString("</details>\n")
	}
	if alternatives && sample(block.NextSibling(), source) == nil {
		_, _ = w.WriteString("</div>\n")
	}
	return ast.WalkSkipChildren, nil
}

// sample returns n as a code block if it is a sample in one of the languages, or nil.
func sample(n ast.Node, source []byte) *ast.FencedCodeBlock {
	block, ok := n.(*ast.FencedCodeBlock)
	if !ok || languages[string(block.Language(source))] == "" {
		return nil
	}
	return block
}

// group returns the first of the consecutive samples to which a block belongs, and reports whether there are several.
func group(block *ast.FencedCodeBlock, source []byte) (first *ast.FencedCodeBlock, several bool) {
	if sample(block, source) == nil {
		return block, false
	}
	first, several = block, sample(block.NextSibling(), source) != nil
	for {
		before := sample(first.PreviousSibling(), source)
		if before == nil {
			return first, several
		}
		first, several = before, true
	}
}

func (rules) table(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		_, _ = w.WriteString("<div class=\"scroll\" role=\"group\" aria-label=\"Table\" tabindex=\"0\"><table>\n")
	} else {
		_, _ = w.WriteString("</table></div>\n")
	}
	return ast.WalkContinue, nil
}

func parse(source []byte) ast.Node { return markdown("").Parser().Parse(text.NewReader(source)) }
