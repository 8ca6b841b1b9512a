package branding

import (
	"strings"
	"testing"
)

// Whatever the accent color, text on it and links have a contrast of at least 4.5 on light and dark pages, and buttons
// are visible.
func TestEveryAccentColorHasEnoughContrast(t *testing.T) {
	t.Parallel()
	for r := 0; r < 256; r += 51 {
		for g := 0; g < 256; g += 51 {
			for b := 0; b < 256; b += 51 {
				of := Branding{Accent: color{r, g, b}.String()}
				light, dark := of.Themes()
				for _, one := range []struct {
					of Theme
					on color
				}{{light, lightest}, {dark, darkest}} {
					at := func(text string) color { c, _ := parse(text); return c }
					switch {
					case contrast(at(one.of.Text), at(one.of.Accent)) < textContrast,
						contrast(at(one.of.Text), at(one.of.Hover)) < textContrast,
						contrast(at(one.of.Link), one.on) < textContrast,
						contrast(at(one.of.Accent), one.on) < surfaceContrast,
						one.of.Adjusted != (one.of.Accent != of.Accent):
						t.Fatalf("%s: %+v", of.Accent, one.of)
					}
				}
			}
		}
	}
}

func TestOnlyColorsHaveStyleSheets(t *testing.T) {
	t.Parallel()
	css, ok := StyleSheet("1d3f8f.css")
	if !ok || !strings.Contains(string(css), "--brand: light-dark(#1d3f8f, ") || strings.Count(string(css), "{") != 1 {
		t.Errorf("%v %s", ok, css)
	}
	for _, file := range []string{"1d3f8f", "1D3F8F.css", "1d3f8.css", "}*{color.css", "+d3f8f.css", ".css"} {
		if _, ok := StyleSheet(file); ok {
			t.Errorf("%s has a style sheet", file)
		}
	}
	if text, ok := ParseColor(" #1D3F8F "); text != "#1d3f8f" || !ok {
		t.Errorf("%q, %v", text, ok)
	}
}
