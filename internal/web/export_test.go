package web

import (
	"html/template"
)

// A page with a form, for the tests of this package only.
func init() {
	for _, l := range languages {
		catalogs[l.Tag]["field.test_day"], catalogs[l.Tag]["field.test_day.hint"] = "A day", "Such as 1990-12-31."
	}
	layout := template.Must(template.ParseFS(files, "templates/layout.html", "templates/form.html"))
	pages["test"] = template.Must(layout.Parse(`{{define "content"}}<h1>{{.Title}}</h1>{{template "problems" .}}
<form method="post" action="{{.URL "/test"}}" novalidate>{{template "field" (.Field "test_day")}}
<p>stored: {{.Data}}</p><button>Send</button></form>{{end}}`))
}

// Field is an input of the test's form.
func (s shown) Field(name string) field { return s.c.field(field{Name: name}) }
