// Package web serves all pages. It joins the routes of the packages auth, company, payee, merchant, staff and docs;
// package ui serves them.
package web

import (
	"slices"

	"github.com/stipend/stipend/internal/web/auth"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/docs"
	"github.com/stipend/stipend/internal/web/merchant"
	"github.com/stipend/stipend/internal/web/payee"
	"github.com/stipend/stipend/internal/web/staff"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes returns the routes of all pages.
func Routes() []ui.Route {
	return slices.Concat(auth.Routes, company.Routes, payee.Routes, merchant.Routes, staff.Routes, docs.Routes)
}

// New returns a server of all pages and the files under /static/, and answers 404 for any other path.
func New(d ui.Deps) *ui.Server { return ui.New(d, Routes()) }
