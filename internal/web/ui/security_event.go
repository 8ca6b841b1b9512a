package ui

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/securitylog"
)

// recordEvent stores who submitted a form, from where, and the outcome, if the person is known: signed in, or named by
// the email address or the link. Attempts above a limit are not stored, so that a flood does not fill the disk.
func (s *Server) recordEvent(c *Request, rt Route, v View, err error) {
	if rt.Method == http.MethodGet || rt.Kind == ReadOnlyForm || rt.Kind == Stream {
		return
	}
	e := securitylog.Event{Action: rt.Method + " " + rt.Path, Path: c.eventPath(rt), UserID: c.Author,
		Outcome: outcomeOf(v, err), Address: c.RemoteAddr().Unmap().String(),
		Network: session.Network(c.RemoteAddr()).String(), Agent: c.HTTP.UserAgent()}
	switch {
	case c.Staff != nil:
		e.StaffID = c.Staff.Member.ID
	case c.Session != nil && e.UserID == "":
		e.UserID = c.Session.User.ID
	}
	if e.UserID == "" && e.StaffID == "" || e.Outcome == ErrAttempts.Code {
		return
	}
	if err := s.DB.Write(context.WithoutCancel(c.HTTP.Context()), func(ctx context.Context, tx *db.Tx) error {
		companies, err := c.eventCompanies(ctx, tx, rt, e.UserID)
		if err != nil {
			return err
		}
		return securitylog.Record(ctx, tx, e, companies...)
	}); err != nil {
		s.Log.Error("recording a security event failed", slog.String("request_id", c.ID), slog.String("route", rt.Path),
			slog.String("error", err.Error()))
	}
}

// eventCompanies returns the companies whose log has the event: the one that the user acts for, or all of a user whose
// account is concerned. How a person is paid does not concern them.
func (c *Request) eventCompanies(ctx context.Context, tx *db.Tx, rt Route, userID string) ([]string, error) {
	if c.Session != nil && rt.Access >= Member && c.Session.Company.ID != "" {
		return []string{c.Session.Company.ID}, nil
	}
	category := securitylog.CategoryOf(rt.Path)
	if userID == "" || category == securitylog.Money || category == securitylog.Settings {
		return nil, nil
	}
	members, err := identity.Memberships(ctx, tx, userID)
	companies := make([]string, len(members))
	for i, m := range members {
		companies[i] = m.CompanyID
	}
	return companies, err
}

// eventPath returns the path of the form. Tokens of links are secret, so it is the route's path if it has one.
func (c *Request) eventPath(rt Route) string {
	if strings.Contains(rt.Path, "{token}") {
		return rt.Path
	}
	return c.HTTP.URL.Path
}

// outcomeOf returns the code of an error, or "" for success.
func outcomeOf(v View, err error) string {
	f, ok := apierr.As(err)
	switch {
	case ok:
		return f.Code
	case err != nil:
		return ErrInternal.Code
	case v.keepsForm:
		return "factor_required"
	}
	return ""
}
