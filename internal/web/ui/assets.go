package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// asset is an embedded file that pages load.
type asset struct {
	name, url, contentType string
	data                   []byte
	zipped                 []byte // data in gzip; nil if that is not smaller
}

// styles lists the sources of style.css, in order. The layers that the first line declares decide which rule wins.
var styles = []string{"tokens", "base", "components", "pages"}

// readAssets returns the embedded files and the style sheet, which is made of the files in styles/.
func readAssets() []asset {
	names, err := fs.Glob(files, "static/*")
	if err != nil {
		panic(err)
	}
	var all []asset
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all = append(all, newAsset(path.Base(name), data))
	}
	font := all[slices.IndexFunc(all, func(a asset) bool { return a.name == "inter.woff2" })]
	var css bytes.Buffer
	css.WriteString("@layer base, layout, shell, components, pages, print;\n" +
		`@font-face { font-family: "Inter Variable"; font-weight: 400 650; font-display: swap; src: url(` + font.url +
		`) format("woff2"); }` + "\n")
	for _, name := range styles {
		data, err := files.ReadFile("styles/" + name + ".css")
		if err != nil {
			panic(err)
		}
		css.Write(data)
	}
	return append(all, newAsset("style.css", css.Bytes()))
}

// contentTypes are the types of files that the system may not know.
var contentTypes = map[string]string{".woff2": "font/woff2", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// newAsset returns an asset whose URL contains a hash of its content.
func newAsset(file string, data []byte) asset {
	sum := sha256.Sum256(data)
	extension := path.Ext(file)
	a := asset{name: file, data: data, contentType: contentTypes[extension],
		url: "/static/" + strings.TrimSuffix(file, extension) + "-" + hex.EncodeToString(sum[:6]) + extension}
	if a.contentType == "" {
		a.contentType = mime.TypeByExtension(extension)
	}
	if zipped := compress(data); len(zipped) < len(data) {
		a.zipped = zipped
	}
	return a
}

// compress returns data in gzip.
func compress(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = w.Write(data) // a bytes.Buffer does not fail
	_ = w.Close()
	return b.Bytes()
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		weight = strings.ReplaceAll(weight, " ", "")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") &&
			strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" ||
			strings.EqualFold(strings.TrimSpace(coding), "gzip") && weight == "" {
			return true
		}
	}
	return false
}

// immutable is the Cache-Control of files whose URL changes with their content.
const immutable = "public, max-age=31536000, immutable"

// serveAsset sends an embedded file. The URL contains a hash of the content, so browsers may cache it forever.
func (s *Server) serveAsset(w *responseWriter, r *http.Request) {
	w.route = "/static/{name}"
	if s.logo != nil && s.logo.url == r.URL.Path {
		w.Header().Set("Cache-Control", immutable)
		s.logo.send(w, r)
		return
	}
	i := slices.IndexFunc(assets, func(a asset) bool { return a.url == r.URL.Path })
	if i < 0 {
		s.writeError(w, r, ErrNoPage)
		return
	}
	w.Header().Set("Cache-Control", immutable)
	assets[i].send(w, r)
}

// CheckoutScript is the path of the script that merchants' pages load. Its version changes when pages that use it
// would have to change.
const CheckoutScript = "/checkout/v1.js"

// serveCheckoutScript sends the script, which any site may load. Browsers keep it for an hour.
func (s *Server) serveCheckoutScript(w *responseWriter, r *http.Request) {
	w.route = CheckoutScript
	i := slices.IndexFunc(assets, func(a asset) bool { return a.name == "checkout.js" })
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Cache-Control", "public, max-age=3600")
	assets[i].send(w, r)
}

// send sends the file, compressed if the client accepts that.
func (a asset) send(w *responseWriter, r *http.Request) {
	h, data := w.Header(), a.data
	if a.zipped != nil {
		h.Add("Vary", "Accept-Encoding")
		if acceptsGzip(r) {
			h.Set("Content-Encoding", "gzip")
			data = a.zipped
		}
	}
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // the client may be gone
	}
}
