package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
)

// The house's own pages stand below one path, with a cookie and a session of their own. A company's session is nobody here.
const (
	StaffPath       = "/operations"
	StaffSignInPath = StaffPath + "/sign-in"
	StaffJobsPath   = StaffPath + "/jobs"
)

func (s *Server) staffCookieName() string {
	return strings.Replace(s.cookieName(), "session", "operator", 1)
}

// StaffToken is what the browser of an operator holds, "" without.
func (c *Request) StaffToken() string {
	if k, err := c.HTTP.Cookie(c.staffCookieName()); err == nil {
		return k.Value
	}
	return ""
}

// StaffCookie goes to the house's own pages only, and comes with no link from elsewhere.
func (s *Server) StaffCookie(token string) *http.Cookie {
	k := s.SessionCookie(token) //nolint:gosec // Secure and HttpOnly as that one is
	k.Name, k.SameSite = s.staffCookieName(), http.SameSiteStrictMode
	if token != "" {
		k.MaxAge = int(backoffice.Life.Seconds())
	}
	return k
}

// admitStaff runs a handler for an operator. Whoever is none, or signed in too long ago to act, is sent to sign in.
func (c *Request) admitStaff(ctx context.Context, tx *db.Tx, rt Route, h handler) (View, error) {
	s, err := backoffice.Find(ctx, tx, c.StaffToken())
	if errors.Is(err, apierr.NotFoundErr) {
		return View{Redirect: StaffSignInPath}, nil
	}
	if err != nil {
		return View{}, err
	}
	c.Session, c.Staff, c.Time = nil, &s, tx.Now()
	switch {
	case c.HTTP.PostForm != nil && !c.HasFormToken():
		return View{}, ErrFormToken
	case rt.Factor == FreshFactor && !s.Acts(tx.Now()):
		return View{Redirect: StaffSignInPath}, nil
	}
	return h(ctx, tx, c)
}

func (c *Request) touchStaffSession() {
	if c.Staff == nil || !c.Staff.NeedsTouch(c.Time) {
		return
	}
	if err := c.DB.Write(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) error { return backoffice.Touch(ctx, tx, *c.Staff) }); err != nil {
		c.Log.Warn("an operator's session's use was not noted", slog.String("request_id", c.ID), slog.String("error", err.Error()))
	}
}

// staffMenu are the parts of the house's pages.
var staffMenu = []struct{ key, path string }{
	{"operations.title", StaffPath}, {"position.title", StaffPath + "/position"}, {"reconciliation.title", StaffPath + "/reconciliation"}, {"operations.jobs", StaffJobsPath}, {"operations.acts", StaffPath + "/acts"},
}

// Operations is the menu of an operator.
func (s PageData) Operations() (all []section) {
	if s.request.Staff == nil {
		return nil
	}
	for _, it := range staffMenu {
		all = append(all, section{s.T(it.key), s.URL(it.path), s.request.HTTP.URL.Path == it.path})
	}
	return all
}
