package ui

import (
	"slices"

	"golang.org/x/text/collate"
	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/stipend/stipend/internal/country"
)

// Countries are those of the world by their names in the reader's language, with an empty choice before them.
func (c *Request) Countries() []Option {
	tag := xlanguage.Make(c.Language.Tag)
	names := display.Regions(tag)
	var all []Option
	for _, code := range country.Codes() {
		region, err := xlanguage.ParseRegion(code)
		if err != nil {
			continue // a code that the tables of names do not have yet
		}
		all = append(all, Option{Value: code, Label: names.Name(region)})
	}
	order := collate.New(tag)
	slices.SortFunc(all, func(a, b Option) int { return order.CompareString(a.Label, b.Label) })
	return append([]Option{{Value: "", Label: c.Text("form.choose")}}, all...)
}
