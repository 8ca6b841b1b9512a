package ui

import (
	"fmt"
	"html/template"
	"strings"

	"rsc.io/qr/coding"
)

// QRCode returns an SVG QR code of text, dark on white with a quiet zone. In bitcoin: links, address and Lightning
// invoice are in uppercase: they mean the same, and the code has fewer modules.
func QRCode(text string) (template.HTML, error) {
	var parts []coding.Encoding
	for _, part := range capitals(text) {
		if coding.Alpha(part).Check() == nil {
			parts = append(parts, coding.Alpha(part))
		} else {
			parts = append(parts, coding.String(part))
		}
	}
	version := coding.Version(coding.MinVersion)
	for {
		bits := 0
		for _, part := range parts {
			bits += part.Bits(version)
		}
		if bits <= version.DataBytes(coding.M)*8 {
			break
		}
		if version++; version > coding.MaxVersion {
			return "", fmt.Errorf("web: %d bytes do not fit into a QR code", len(text))
		}
	}
	plan, err := coding.NewPlan(version, coding.M, 0)
	if err != nil {
		return "", err
	}
	code, err := plan.Encode(parts...)
	if err != nil {
		return "", err
	}
	const quiet = 4
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			from := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if n := x - from; n > 0 {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", from+quiet, y+quiet, n, n)
			}
		}
	}
	size := code.Size + 2*quiet
	image := fmt.Sprintf(`<svg class="qr" viewBox="0 0 %d %d" aria-hidden="true" focusable="false">`+
		`<path fill="#fff" d="M0 0h%dv%dH0z"/><path fill="#000" d="%s"/></svg>`, size, size, size, size, path.String())
	return template.HTML(image), nil //nolint:gosec // numbers only
}

// capitals splits a bitcoin: link into parts of the same alphabet and converts case-insensitive parts to uppercase.
func capitals(text string) []string {
	address, isLink := strings.CutPrefix(text, "bitcoin:")
	if !isLink {
		return []string{text}
	}
	address, query, asks := strings.Cut(address, "?")
	if strings.ToLower(address) != address { // a Base58 address is case-sensitive
		return []string{text}
	}
	parts := []string{"bitcoin:", strings.ToUpper(address)}
	if !asks {
		return parts
	}
	const name = "lightning="
	if before, invoice, ok := strings.Cut(query, name); ok {
		return append(parts, "?"+before+name, strings.ToUpper(invoice))
	}
	return append(parts, "?"+query)
}
