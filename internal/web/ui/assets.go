package ui

import (
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
}

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
		sum := sha256.Sum256(data)
		file, extension := path.Base(name), path.Ext(name)
		all = append(all, asset{
			name: file, contentType: mime.TypeByExtension(extension), data: data,
			url: "/static/" + strings.TrimSuffix(file, extension) + "-" + hex.EncodeToString(sum[:6]) + extension,
		})
	}
	return all
}

// serveAsset sends an embedded file. The URL contains a hash of the content, so browsers may cache it forever.
func (s *Server) serveAsset(w *responseWriter, r *http.Request) {
	w.route = "/static/{name}"
	i := slices.IndexFunc(assets, func(a asset) bool { return a.url == r.URL.Path })
	if i < 0 {
		s.writeError(w, r, errNoPage)
		return
	}
	h := w.Header()
	h.Set("Content-Type", assets[i].contentType)
	h.Set("Content-Length", strconv.Itoa(len(assets[i].data)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(assets[i].data) // the client may be gone
	}
}
