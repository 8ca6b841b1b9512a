package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed" // for the files below
	"encoding/hex"
	"errors"
	"html/template"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/identity"
)

// docs/scalar.js.gz is the unchanged file dist/browser/standalone.js of the npm package @scalar/api-reference 1.46.4,
// compressed with gzip -9n. Its license is in the same directory.
var (
	//go:embed docs/scalar.js.gz
	scalarGzip []byte
	//go:embed docs/docs.js
	docsScript []byte
)

// Paths of the scripts of the page /reference. A path changes with the script's content, so browsers may cache the
// scripts indefinitely.
var (
	scalarPath = docsPath("scalar", scalarGzip)
	scriptPath = docsPath("docs", docsScript)
)

func docsPath(name string, content []byte) string {
	sum := sha256.Sum256(content)
	return "/reference/static/" + name + "-" + hex.EncodeToString(sum[:6]) + ".js"
}

// scalar returns the uncompressed script, for clients that do not accept gzip.
var scalar = sync.OnceValue(func() []byte {
	r, err := gzip.NewReader(bytes.NewReader(scalarGzip))
	if err != nil {
		panic(err) // the data is embedded, so tests would already fail
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return plain
})

// docsPolicy is a Content-Security-Policy that allows a page to load resources only from this service. It allows
// inline styles because Scalar's script sets them.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// inlinePolicy is a Content-Security-Policy that allows a page inline styles and nothing else.
const inlinePolicy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; " +
	"base-uri 'none'"

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stipend API</title>
<link rel="icon" href="data:,">
<noscript>
<h1>Stipend API</h1>
<p>This page requires JavaScript. It shows the contract, <a href="/openapi.json">openapi.json</a> or
<a href="/openapi.yaml">openapi.yaml</a>. These pages do not require it: <a href="/docs/sdk-methods">all operations</a>,
<a href="/docs/events">events</a>, <a href="/docs/error-codes">error codes</a> and the <a href="/docs">guides</a>. Each
is also Markdown: <a href="/llms.txt">llms.txt</a> lists the files.</p>
</noscript>
<div id="contract"{{with .Key}} data-key="{{.}}"{{end}}></div>
<script src="{{.Scalar}}"></script>
<script src="{{.Script}}"></script>
</html>
`))

// mountReference serves the page /reference, which presents the contract and loads nothing from other hosts. In the
// sandbox the page sends requests with the sandbox's public API key.
func (s *server) mountReference() {
	key := ""
	if s.Env == identity.Sandbox {
		key = s.TryKey
	}
	var b bytes.Buffer
	if err := docsPage.Execute(&b, struct{ Key, Scalar, Script string }{key, scalarPath, scriptPath}); err != nil {
		panic(err) // the data is constant, so tests would already fail
	}
	serve := func(w *responseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", docsPolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		serveFile(w, "text/html; charset=utf-8", b.Bytes())
	}
	s.mount("GET", "/reference", serve)
	s.mount("GET", "/reference/{$}", serve)
	s.mount("GET", scriptPath, func(w *responseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", forGood)
		serveFile(w, javascript, docsScript)
	})
	s.mount("GET", scalarPath, func(w *responseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", forGood)
		serveCompressed(w, r, javascript, scalar, scalarGzip)
	})
}

// securityContactAge is the period of validity that security.txt states.
const securityContactAge = 180 * 24 * time.Hour

// serveSecurityContact serves security.txt (RFC 9116), which states where to report vulnerabilities.
func (s *server) serveSecurityContact(w *responseWriter, _ *http.Request) {
	expires := s.Now().UTC().Add(securityContactAge).Format(time.RFC3339)
	serveFile(w, "text/plain; charset=utf-8", []byte("Contact: "+s.SecurityContact+"\nExpires: "+expires+
		"\nPreferred-Languages: en\n"))
}

// serveCompressed serves zipped to clients that accept gzip, and the uncompressed result of plain to others.
func serveCompressed(w *responseWriter, r *http.Request, contentType string, plain func() []byte, zipped []byte) {
	w.Header().Set("Vary", "Accept-Encoding")
	if !takesGzip(r.Header) {
		serveFile(w, contentType, plain())
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	serveFile(w, contentType, zipped)
}

// zip compresses a file with gzip.
func zip(plain []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(plain)
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err) // writing to a buffer never fails
	}
	return b.Bytes()
}

const (
	forGood    = "public, max-age=31536000, immutable"
	javascript = "text/javascript; charset=utf-8"
)

// takesGzip reports whether the Accept-Encoding header lists gzip with a weight other than 0 (RFC 9110, 12.5.3).
func takesGzip(h http.Header) bool {
	for _, list := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(list, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			_, q, given := strings.Cut(weight, "=")
			return !given || strings.Trim(q, "0. ") != ""
		}
	}
	return false
}
