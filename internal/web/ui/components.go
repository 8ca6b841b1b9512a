package ui

import (
	"hash/fnv"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// iconURL is the URL of the icon sprite. The templates are parsed before the assets are used, so it is looked up late.
func iconURL() string {
	return assets[slices.IndexFunc(assets, func(a asset) bool { return a.name == "icons.svg" })].url
}

// icon returns the icon of a name in static/icons.svg.
func icon(name string) template.HTML {
	return template.HTML( //nolint:gosec // names are constants
		`<svg class="i" aria-hidden="true"><use href="` + iconURL() + "#" + template.HTMLEscapeString(name) + `"/></svg>`)
}

// mark returns the mark of Stipend. Its colors follow the theme.
func mark() template.HTML {
	return `<svg viewBox="0 0 32 32" aria-hidden="true"><rect class="mark-bg" width="32" height="32" rx="8"/>` +
		`<path class="mark-line" d="M22.4 9.4h-8.6a3.3 3.3 0 0 0 0 6.6h4.4a3.3 3.3 0 0 1 0 6.6h-4.6"/>` +
		`<circle class="mark-dot" cx="9" cy="22.6" r="2.3"/></svg>`
}

// moneyHTML returns an amount as FormatMoney writes it with a small currency, and with gray trailing zeros for
// bitcoin. Text without a currency is returned as it is.
func moneyHTML(text string) template.HTML {
	number, currency, ok := strings.Cut(text, "\u00a0")
	if !ok {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	plain := template.HTMLEscapeString(number)
	if currency == "BTC" {
		if kept := strings.TrimRight(plain, "0"); kept != plain && !strings.HasSuffix(kept, ".") &&
			!strings.HasSuffix(kept, ",") && kept != "" {
			plain = kept + `<span class="zero">` + plain[len(kept):] + `</span>`
		}
	}
	return template.HTML( //nolint:gosec // escaped
		`<span class="money">` + plain + "<span class=\"cur\">\u00a0" +
			template.HTMLEscapeString(currency) + `</span></span>`)
}

// initials returns the first letters of the first two words of a name.
func initials(name string) string {
	var letters strings.Builder
	for _, word := range strings.Fields(name) {
		if r, _ := utf8.DecodeRuneInString(word); r != utf8.RuneError {
			letters.WriteRune(r)
		}
		if utf8.RuneCountInString(letters.String()) == 2 {
			break
		}
	}
	return strings.ToUpper(letters.String())
}

// hue returns the color of an avatar, c0 to c7, which is the same for the same name.
func hue(name string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash does not fail
	return "c" + string(rune('0'+h.Sum32()%8))
}

// shortID returns the start and the end of an identifier.
func shortID(id string) string {
	if len(id) <= 16 {
		return id
	}
	return id[:8] + "…" + id[len(id)-4:]
}

// Snippet is code to copy into another site. ID is the ID of its copy button.
type Snippet struct{ ID, Title, Code, Help, Copy, Copied string }

// Snippet returns a snippet, whose title and help have the keys key and key.help.
func (c *Request) Snippet(id, key, code string) Snippet {
	title := c.Text(key)
	return Snippet{ID: id, Title: title, Code: code, Help: c.Text(key + ".help"), Copy: c.Text("copy", title),
		Copied: c.Text("copied", title)}
}

// CheckoutCode returns HTML of elements with data-stipend and of the script that opens them.
func (c *Request) CheckoutCode(elements string) string {
	return elements + "\n" + `<script src="` + c.BaseURL + CheckoutScript + `" async></script>`
}

// Task is something that someone needs to do, with a link to where.
type Task struct{ Tone, Icon, Text, Do, Path string }

// Task returns a task. The key do is that of its button.
func (c *Request) Task(tone, icon, text, do, path string) Task {
	return Task{Tone: tone, Icon: icon, Text: text, Do: c.Text(do), Path: c.URL(path)}
}

// iconNames finds the names of the icons in the sprite.
var iconNames = regexp.MustCompile(`<symbol[^>]* id="([a-z0-9-]+)"`)

// Icons returns the names of all icons.
func Icons() (all []string) {
	sprite, err := files.ReadFile("static/icons.svg")
	if err != nil {
		panic(err) // cannot happen, because the file is embedded
	}
	for _, match := range iconNames.FindAllSubmatch(sprite, -1) {
		all = append(all, string(match[1]))
	}
	return all
}
