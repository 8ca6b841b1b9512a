// Package web serves all pages: it joins the routes of each audience's package. Its tests run against all of them.
package web

import (
	"net/http"
	"slices"

	"github.com/stipend/stipend/internal/web/auth"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/merchant"
	"github.com/stipend/stipend/internal/web/payee"
	"github.com/stipend/stipend/internal/web/staff"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes returns every page. Any other address is a 404, except files under /static/.
func Routes() []ui.Route {
	return slices.Concat(auth.Routes, company.Routes, payee.Routes, merchant.Routes, staff.Routes)
}

// New returns the handler of all pages.
func New(d ui.Deps) http.Handler { return ui.New(d, Routes()) }
