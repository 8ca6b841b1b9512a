package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// readAll returns the body of a request, or nil if wanted is false because the operation has no body.
func readAll(w *responseWriter, r *http.Request, limit int64, wanted bool) ([]byte, error) {
	if !wanted {
		return nil, nil
	}
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if len(r.Header[name]) > 1 {
			return nil, errDuplicate.At("header", name)
		}
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return nil, errMediaType.Detailf("Compressed bodies are not supported. Send the body without a Content-Encoding.")
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || params["charset"] != "" &&
		!strings.EqualFold(params["charset"], "utf-8") {
		return nil, errMediaType
	}
	tooLarge := errTooLarge.Detailf("The body is larger than the limit of %d bytes.", limit)
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		return nil, tooLarge
	}
	body := make([]byte, 0, max(r.ContentLength+1, 512))
	src := http.MaxBytesReader(w.ResponseWriter, r.Body, limit)
	for {
		n, err := src.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var over *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case errors.As(err, &over):
			return nil, tooLarge
		case err != nil:
			return nil, errMalformed.Detailf("The body could not be read completely.")
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, cap(body))
		}
	}
}
