package ui

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/collate"
	xlanguage "golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/money"
)

// Option is one choice of a select field.
type Option struct {
	Value, Label string
	Selected     bool
}

// DescribedBy returns the element IDs of the hint and the problem, for aria-describedby.
func (f Field) DescribedBy() string {
	var ids []string
	if f.Hint != "" {
		ids = append(ids, f.Name+"-hint")
	}
	if f.Problem.Text != "" {
		ids = append(ids, f.Name+"-problem")
	}
	return strings.Join(ids, " ")
}

// FormProblem is one problem of a posted form.
type FormProblem struct {
	Name  string // field name; "" for the whole form
	Label string
	LocalizedText
}

func (c *Request) problemOf(f apierr.Field) FormProblem {
	// A problem with an item of a list is shown at the field of the list.
	name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "/"), "/")
	p := FormProblem{LocalizedText: c.Localize(f.Code, f.Message, name)}
	if key := "field." + name; c.Labels[name] != "" {
		p.Name, p.Label = name, c.Labels[name]
	} else if c.HasText(key) {
		p.Name, p.Label = name, c.Text(key)
	}
	return p
}

// FormError turns an error without a field into a problem of the whole form, so that the form is shown again.
// Errors that mean "not found" or "unavailable" are returned unchanged and get an error page.
func FormError(err error) error {
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable && len(f.Fields) == 0 {
		return f.At("body", "")
	}
	return err
}

// FormConflict turns a conflict or validation error without a field into a problem of the whole form.
func FormConflict(err error) error {
	if f, ok := apierr.As(err); ok && len(f.Fields) == 0 && (f.Kind == apierr.Conflict || f.Kind == apierr.Invalid) {
		return f.At("body", "")
	}
	return err
}

// RenameFields returns err with the pointers of its fields mapped by to, from API fields to form fields.
func RenameFields(err error, to func(pointer string) string) error {
	f, ok := apierr.As(err)
	if !ok || len(f.Fields) == 0 {
		return err
	}
	renamed := *f
	renamed.Fields = slices.Clone(f.Fields)
	for i := range renamed.Fields {
		renamed.Fields[i].Pointer = to(renamed.Fields[i].Pointer)
	}
	return &renamed
}

// RenameField returns err with the pointer from of its fields replaced by to.
func RenameField(err error, from, to string) error {
	return RenameFields(err, func(pointer string) string {
		if pointer == from {
			return to
		}
		return pointer
	})
}

// WholeFormError turns an error into one problem of the whole form, without fields. "Not found" is returned unchanged.
func WholeFormError(err error) error {
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound {
		return (&apierr.Fault{Kind: f.Kind, Code: f.Code, Detail: f.Detail}).At("body", "")
	}
	return err
}

// GroupsOfFour splits an address into groups of four characters, which are easier to compare.
func GroupsOfFour(address string) (all []string) {
	for len(address) > 4 {
		all, address = append(all, address[:4]), address[4:]
	}
	return append(all, address)
}

// Field is an input of a form, with its label and problem.
type Field struct {
	Name, Label, Hint string
	Type              string // text, email, password, date, datetime-local or select
	Autocomplete      string
	Required          bool
	MaxLength         int // maximum length in characters
	Value             string
	Options           []Option
	Accept, Capture   string // of a file field
	InputMode         string // the on-screen keyboard, such as "decimal"
	Placeholder       string // shown while the field is empty
	Problem           LocalizedText
}

// Field completes f: the label and hint from the catalogs, the value from the posted form, and the problem from the
// error.
func (c *Request) Field(f Field) Field {
	if f.Label == "" {
		f.Label = c.Text("field." + f.Name)
	}
	if key := "field." + f.Name + ".hint"; c.HasText(key) {
		f.Hint = c.Text(key)
	}
	if f.Type == "" {
		f.Type = "text"
	}
	if c.Form.Has(f.Name) && f.Type != "password" {
		f.Value = c.Form.Get(f.Name)
	}
	for i := range f.Options {
		f.Options[i].Selected = f.Options[i].Value == f.Value
	}
	for _, p := range c.Problems() {
		if p.Name == f.Name {
			f.Problem = p.LocalizedText
			break
		}
	}
	return f
}

// Problems returns what is wrong with the posted form, in order.
func (c *Request) Problems() []FormProblem {
	if c.Problem == nil {
		return nil
	}
	var all []FormProblem
	for _, f := range c.Problem.Fields {
		all = append(all, c.problemOf(f))
	}
	return all
}

// NewPasswordField returns the field for a new password.
func (c *Request) NewPasswordField() Field {
	return c.Field(Field{Name: "new_password", Type: "password", Autocomplete: "new-password", Required: true,
		MaxLength: identity.MaxPassword})
}

// Countries returns a select option for each country, sorted by its name in the reader's language, after an empty
// option.
func (c *Request) Countries() []Option {
	tag := xlanguage.Make(c.Language.Tag)
	names := display.Regions(tag)
	var all []Option
	for _, code := range country.Codes() {
		region, err := xlanguage.ParseRegion(code)
		if err != nil {
			continue // a code without a name in x/text
		}
		all = append(all, Option{Value: code, Label: names.Name(region)})
	}
	order := collate.New(tag)
	slices.SortFunc(all, func(a, b Option) int { return order.CompareString(a.Label, b.Label) })
	return append([]Option{{Value: "", Label: c.Text("form.choose")}}, all...)
}

// CountryField completes a field in which the reader chooses a country.
func (c *Request) CountryField(f Field) Field {
	f.Type, f.Hint, f.MaxLength, f.Options = "select", "", 0, c.Countries()
	f.Value = strings.ToUpper(f.Value)
	return c.Field(f)
}

// ImageField returns the field for an image file. On a phone, it opens the given camera.
func (c *Request) ImageField(name, camera string) Field {
	return c.Field(Field{Name: name, Type: "file", Hint: c.Text("documents.limits"), Accept: "image/jpeg,image/png",
		Capture: camera})
}

// Filters is a bar with filters above a list.
type Filters struct {
	Path, Label string
	Lang        string // the language that the reader chose explicitly; "" for none
	Fields      []Field
	// Query is the URL query of the current filter, "" if nothing is filtered. Saved are the reader's saved searches.
	Query string
	Saved []SavedSearch
}

// SavedSearch is a filter that the reader saved. Current reports whether the list shows it.
type SavedSearch struct {
	Name, URL string
	Current   bool
}

// Unsaved reports whether the current filter can be saved.
func (f Filters) Unsaved() bool {
	return f.Query != "" && !slices.ContainsFunc(f.Saved, func(s SavedSearch) bool { return s.Current })
}

// Active reports whether a filter has a value.
func (f Filters) Active() bool {
	return slices.ContainsFunc(f.Fields, func(one Field) bool { return one.Value != "" })
}

// FilterBar returns the filters of the list at path.
func (c *Request) FilterBar(path string, fields ...Field) Filters {
	f := Filters{Path: path, Label: c.Text("list.filter"), Fields: fields}
	if c.Language.Explicit {
		f.Lang = c.Language.Tag
	}
	return f
}

// Filter returns a filter field with the value of the URL parameter of the same name.
func (c *Request) Filter(f Field) Field {
	was := c.Form
	c.Form = url.Values{f.Name: {c.Query(f.Name)}}
	f = c.Field(f)
	c.Form = was
	return f
}

// ClaimCurrencies returns an option for each currency of claims.
func ClaimCurrencies() (all []Option) {
	for _, a := range money.All() {
		if !a.IsCrypto() || a == money.BTC {
			all = append(all, Option{Value: string(a), Label: string(a)})
		}
	}
	return all
}

// Choices returns an option "all" followed by one option per value, labeled with the text whose key is prefix.value.
func (c *Request) Choices(prefix string, values ...string) []Option {
	all := []Option{{Value: "", Label: c.Text("list.all")}}
	for _, v := range values {
		all = append(all, Option{Value: v, Label: c.Word(prefix, v)})
	}
	return all
}

// Query returns a URL parameter without surrounding spaces, cut to 255 bytes.
func (c *Request) Query(name string) string {
	text := strings.TrimSpace(c.HTTP.URL.Query().Get(name))
	return text[:min(len(text), 255)]
}

// QueryDate returns the day of a URL parameter such as 2026-01-31, or the zero time.
func (c *Request) QueryDate(name string) time.Time {
	day, err := time.Parse(time.DateOnly, c.Query(name))
	if err != nil {
		return time.Time{}
	}
	return day
}

// readForm reads the posted form of at most limit bytes. Uploaded files stay in memory.
func (c *Request) readForm(w *responseWriter, limit int64) error {
	kind, _, err := mime.ParseMediaType(c.HTTP.Header.Get("Content-Type"))
	withFiles := kind == "multipart/form-data" && limit > FormLimit
	if err != nil || kind != "application/x-www-form-urlencoded" && !withFiles {
		return errMediaType
	}
	c.HTTP.Body = http.MaxBytesReader(w.ResponseWriter, c.HTTP.Body, limit)
	read := c.HTTP.ParseForm
	if withFiles {
		read = func() error { return c.HTTP.ParseMultipartForm(limit) } //nolint:gosec // the body is bounded
	}
	if err := read(); err != nil {
		var over *http.MaxBytesError
		if errors.As(err, &over) {
			return errTooLarge
		}
		return ErrForm
	}
	if !allValidText(c.HTTP.PostForm) {
		return ErrForm
	}
	c.Form = c.HTTP.PostForm
	return nil
}

// validText reports whether both databases can store text: valid UTF-8 without zero bytes.
func validText(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

func allValidText(values url.Values) bool {
	for name, all := range values {
		if !validText(name) || slices.ContainsFunc(all, func(text string) bool { return !validText(text) }) {
			return false
		}
	}
	return true
}

// Upload returns the content of the uploaded file in field name, or nil if there is none.
func (c *Request) Upload(name string) ([]byte, error) {
	if c.HTTP.MultipartForm == nil || len(c.HTTP.MultipartForm.File[name]) == 0 {
		return nil, nil
	}
	f, err := c.HTTP.MultipartForm.File[name][0].Open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Picture returns an uploaded file in base64, or "" if there is none. It releases the uploaded bytes, so a second
// call returns "".
func (c *Request) Picture(name string) (string, error) {
	if c.HTTP.MultipartForm == nil || len(c.HTTP.MultipartForm.File[name]) == 0 {
		return "", nil
	}
	posted := c.HTTP.MultipartForm.File[name][0]
	delete(c.HTTP.MultipartForm.File, name)
	f, err := posted.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()
	var text strings.Builder
	text.Grow(base64.StdEncoding.EncodedLen(int(posted.Size)))
	w := base64.NewEncoder(base64.StdEncoding, &text)
	if _, err := io.Copy(w, f); err != nil {
		return "", err
	}
	err = w.Close() // flushes the last bytes
	return text.String(), err
}

// FormLimit is the maximum size of a form without files, in bytes.
const FormLimit = 64 << 10
