package branding

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Minimum contrast ratios according to WCAG 2.2, level AA.
const (
	textContrast    = 4.5
	surfaceContrast = 3
)

// color is an sRGB color with channels from 0 to 255.
type color [3]int

var (
	black = color{0, 0, 0}
	white = color{255, 255, 255}
	// Of the light theme, --inset is the background with the least contrast; of the dark theme, --button is.
	lightest = color{0xee, 0xf1, 0xee}
	darkest  = color{0x24, 0x2b, 0x28}
)

// Theme contains the colors for light or dark pages that are derived from an accent color.
type Theme struct {
	Accent, Hover string // background of buttons, normally and under the pointer
	Text          string // text on Accent and Hover
	Link, Soft    string // links, and a faint background
	Contrast      string // contrast ratio of Text on Accent, such as "9.6"
	Adjusted      bool   // reports whether Accent differs from the given color, which has too little contrast
}

// ParseColor returns a color in lower case, such as "#1d3f8f", and reports whether text is a valid color. The text ""
// is also valid and means the service's own color.
func ParseColor(text string) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if text == "" {
		return "", true
	}
	_, ok := parse(text)
	return text, ok
}

func parse(text string) (c color, ok bool) {
	digits, ok := strings.CutPrefix(text, "#")
	if !ok || len(digits) != 6 || strings.Trim(digits, "0123456789abcdef") != "" {
		return c, false
	}
	n, err := fmt.Sscanf(digits, "%02x%02x%02x", &c[0], &c[1], &c[2])
	return c, n == 3 && err == nil
}

// DefaultAccent is the accent color of pages for which no color is set.
const DefaultAccent = "#0e4633"

// Themes returns the colors of light and dark pages. If the accent color has too little contrast with the page,
// Themes darkens or lightens the color as far as necessary. Text on the accent color is black or white, so its
// contrast is always at least 4.5.
func (b Branding) Themes() (light, dark Theme) {
	c, _ := parse(cmp.Or(b.Accent, DefaultAccent))
	return theme(c, lightest, black), theme(c, darkest, white)
}

// theme returns the colors for pages with a background. Mixing a color with toward increases its contrast with the
// background.
func theme(c, background, toward color) Theme {
	accent := adjust(c, background, toward, surfaceContrast)
	text, away := white, black
	if contrast(accent, black) > contrast(accent, white) {
		text, away = black, white
	}
	return Theme{
		Accent: accent.String(), Hover: mix(accent, away, 38).String(), Text: text.String(),
		Link: adjust(c, background, toward, textContrast).String(), Soft: mix(background, accent, 26).String(),
		Contrast: fmt.Sprintf("%.1f", math.Floor(contrast(text, accent)*10)/10), Adjusted: accent != c,
	}
}

// adjust mixes c with as little of toward as is needed for the least contrast with a background.
func adjust(c, background, toward color, least float64) color {
	for part := 0; part <= 255; part++ {
		if m := mix(c, toward, part); contrast(m, background) >= least {
			return m
		}
	}
	return toward
}

// mix returns a color that consists of part/255 of b, and of a for the rest.
func mix(a, b color, part int) (c color) {
	for i := range c {
		c[i] = (a[i]*(255-part) + b[i]*part) / 255
	}
	return c
}

// contrast returns the contrast ratio of two colors according to WCAG 2.2, from 1 to 21.
func contrast(a, b color) float64 {
	brighter, darker := max(a.luminance(), b.luminance()), min(a.luminance(), b.luminance())
	return (brighter + 0.05) / (darker + 0.05)
}

func (c color) luminance() float64 {
	linear := func(channel int) float64 {
		v := float64(channel) / 255
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

func (c color) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// StyleSheet returns the style sheet for an accent color, given its file name, such as "1d3f8f.css". It reports
// whether the name is valid. The result depends only on the name, so it can be cached forever.
func StyleSheet(file string) ([]byte, bool) {
	digits, isSheet := strings.CutSuffix(file, ".css")
	of := Branding{Accent: "#" + digits}
	if _, ok := parse(of.Accent); !isSheet || !ok {
		return nil, false
	}
	light, dark := of.Themes()
	var b strings.Builder
	b.WriteString(".shop-accent {\n")
	for _, v := range []struct{ name, light, dark string }{
		{"brand", light.Accent, dark.Accent}, {"brand-hover", light.Hover, dark.Hover},
		{"on-brand", light.Text, dark.Text}, {"brand-soft", light.Soft, dark.Soft},
		{"link", light.Link, dark.Link}, {"focus", light.Link, dark.Link},
	} {
		fmt.Fprintf(&b, "\t--%s: light-dark(%s, %s);\n", v.name, v.light, v.dark)
	}
	b.WriteString("}\n")
	return []byte(b.String()), true
}
