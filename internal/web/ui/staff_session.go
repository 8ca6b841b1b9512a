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

// Paths of the staff pages. They have a session cookie of their own: a company's session gives no access.
const (
	StaffPath       = "/operations"
	StaffSignInPath = StaffPath + "/sign-in"
	StaffJobsPath   = StaffPath + "/jobs"
)

func (s *Server) staffCookieName() string {
	return strings.Replace(s.cookieName(), "session", "operator", 1)
}

// StaffToken returns the token of the staff session cookie, or "".
func (c *Request) StaffToken() string {
	if k, err := c.HTTP.Cookie(c.staffCookieName()); err == nil {
		return k.Value
	}
	return ""
}

// StaffCookie returns the staff session cookie, which browsers send only with requests from the pages themselves.
// An empty token deletes it.
func (s *Server) StaffCookie(token string) *http.Cookie {
	k := s.SessionCookie(token) //nolint:gosec // Secure and HttpOnly as that one is
	k.Name, k.SameSite = s.staffCookieName(), http.SameSiteStrictMode
	if token != "" {
		k.MaxAge = int(backoffice.Life.Seconds())
	}
	return k
}

// admitStaff runs a handler for a signed-in staff member. Others, and those who signed in too long ago for rt, are
// redirected to the sign-in page.
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
	case !s.Member.Has(rt.Roles...):
		return View{}, backoffice.ErrRole
	case rt.Factor == FreshFactor && !s.MayAct(tx.Now()):
		return View{Redirect: StaffSignInPath}, nil
	}
	return h(ctx, tx, c)
}

func (c *Request) touchStaffSession() {
	if c.Staff == nil || !c.Staff.NeedsTouch(c.Time) {
		return
	}
	if err := c.DB.Write(c.HTTP.Context(), func(ctx context.Context, tx *db.Tx) error {
		return backoffice.Touch(ctx, tx, *c.Staff)
	}); err != nil {
		c.Log.Warn("recording the use of a staff session failed", slog.String("request_id", c.ID),
			slog.String("error", err.Error()))
	}
}
