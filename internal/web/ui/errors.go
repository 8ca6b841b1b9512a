package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/stipend/stipend/internal/apierr"
)

// Errors of the server itself.
var (
	// ErrNoPage is returned for a path without a page.
	ErrNoPage      = apierr.NotFoundErr.Detailf("Page not found.")
	errMethod      = apierr.New(http.StatusMethodNotAllowed, "method_not_allowed", "This URL does not accept that method.")
	errCrossOrigin = apierr.New(apierr.Forbidden, "cross_origin", "This form was sent from another site.")
	ErrForm        = apierr.New(apierr.BadRequest, "malformed_form", "The form could not be read.")
	errTooLarge    = apierr.New(apierr.TooLarge, "payload_too_large", "The form is too large.")
	errMediaType   = apierr.New(apierr.Unsupported, "unsupported_media_type",
		"Send the form as application/x-www-form-urlencoded.")
	errRetryLater = apierr.New(apierr.Unavailable, "retry_later", "The request took too long. Try again.")
	ErrInternal   = apierr.New(apierr.Internal, "internal",
		"Something went wrong on our side. Contact support with this request ID.")
)

type errorPage struct {
	Fault     *apierr.Fault
	Message   LocalizedText
	Do        string
	Icon      string
	RequestID string
}

// notFoundError returns the error for a request that matched no route: 405 if another method is allowed, else 404.
func (s *Server) notFoundError(r *http.Request) error {
	probe := *r
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe.Method = method
		if _, pattern := s.mux.Handler(&probe); pattern != "/" {
			return errMethod.Set("allow", method)
		}
	}
	return ErrNoPage
}

// errorIcon returns the icon of an error page.
func errorIcon(status int) string {
	switch {
	case status == http.StatusNotFound:
		return "search"
	case status == http.StatusForbidden:
		return "lock"
	case status >= http.StatusInternalServerError:
		return "triangle-alert"
	}
	return "circle-alert"
}

// writeError sends an error page. It does nothing if the response has already started.
func (s *Server) writeError(w *responseWriter, r *http.Request, err error) {
	if w.status != 0 {
		return
	}
	f, ok := apierr.As(err)
	switch {
	case ok:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		f = errRetryLater
	default:
		f = ErrInternal
		s.Log.Error("internal error", slog.String("request_id", w.ID), slog.String("route", w.route),
			slog.String("error", err.Error()))
	}
	if f.Kind == apierr.Unavailable && !errors.Is(err, context.Canceled) {
		s.Log.Warn("requests get 503", slog.String("code", f.Code), slog.String("error", err.Error()))
	}
	w.code = f.Code
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Robots-Tag", "noindex")
	if allow := f.Meta["allow"]; allow != "" {
		h.Set("Allow", allow)
	}
	if wait := f.Meta["retry_after"]; wait != "" {
		h.Set("Retry-After", wait)
	} else if f.Kind == apierr.Unavailable {
		h.Set("Retry-After", "5")
	}
	c := s.newRequest(w, r)
	status := int(f.Kind)
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	group := "error." + strconv.Itoa(status)
	if !c.HasText(group + ".title") {
		group = "error.other"
	}
	s.writePage(w, c, View{Template: "error", Title: c.Text(group + ".title"), status: status, Data: errorPage{
		Fault: f, Message: c.Localize(f.Code, f.Detail), Do: c.Text(group + ".do"), RequestID: w.ID, Icon: errorIcon(status),
	}})
}
