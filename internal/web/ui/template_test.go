package ui_test

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// A page with a form, for tests.
func init() {
	ui.RegisterTemplate("test", `{{define "content"}}
<form method="post" action="{{.URL "/test"}}" novalidate>{{template "field" (.Field "test_day")}}
<p>stored: {{.Data}}</p><button>Send</button></form>{{end}}`,
		map[string]string{"field.test_day": "A day", "field.test_day.hint": "Such as 1990-12-31."})
}
