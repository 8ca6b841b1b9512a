package company

import (
	"context"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

const (
	brandingPath = claimsPath + "/branding"
	logoFormSize = branding.MaxLogoBytes + ui.FormLimit
)

type brandingPage struct {
	Path                      string
	Fields                    []ui.Field
	Color                     ui.Field
	Languages                 []ui.Option
	Logo                      ui.Field
	Brand                     branding.Branding
	Merchant, Initial, Amount string
	Contrast                  []string // one line per theme
}

// postedBranding returns the change in the posted form. Nothing is changed before a form is posted.
func postedBranding(c *ui.Request) branding.Change {
	if !c.Form.Has("accent_color") {
		return branding.Change{}
	}
	text := func(name string) *string {
		v := strings.TrimSpace(c.Form.Get(name))
		return &v
	}
	change := branding.Change{Name: text("display_name"), Accent: text("accent_color"), Headline: text("headline"),
		ThankYou: text("thank_you"), Languages: append([]string{}, c.Form["languages"]...)}
	if *change.Accent == branding.DefaultAccent {
		*change.Accent = ""
	}
	return change
}

// showBranding renders the branding with a preview of the values in the form, as far as they are valid.
func showBranding(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	b, err := branding.Get(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	settings, err := claim.SettingsOf(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	if b.Accent == "" {
		b.Accent = branding.DefaultAccent
	}
	field := func(name, value string, most int) ui.Field {
		label := c.Text("branding." + name)
		c.Labels = withLabel(c.Labels, name, label)
		f := ui.Field{Name: name, Label: label, Value: value, MaxLength: most}
		if key := "branding." + name + ".hint"; c.HasText(key) {
			f.Hint = c.Text(key)
		}
		return c.Field(f)
	}
	color := field("accent_color", b.Accent, 7)
	color.Type = "color"
	logo := field("logo", "", 0)
	logo.Type, logo.Accept = "file", "image/png,image/jpeg,image/webp"
	p := brandingPage{Path: brandingPath, Color: color, Logo: logo, Fields: []ui.Field{
		field("display_name", b.Name, branding.MaxName), field("headline", b.Headline, branding.MaxText),
		field("thank_you", b.ThankYou, branding.MaxText), field("support_email", settings.SupportEmail, 254),
	}}
	if posted := postedBranding(c); posted.Name != nil {
		b.Name, b.Headline, b.ThankYou, b.Languages = *posted.Name, *posted.Headline, *posted.ThankYou, posted.Languages
		if accent, ok := branding.ParseColor(*posted.Accent); ok && accent != "" {
			b.Accent = accent
		}
	}
	c.Labels = withLabel(c.Labels, "languages", c.Text("branding.languages"))
	for _, l := range texts.Languages {
		p.Languages = append(p.Languages, ui.Option{Value: l.Tag, Label: l.Name, Selected: slices.Contains(b.Languages,
			l.Tag)})
	}
	p.Brand, p.Merchant, p.Initial = b, b.DisplayName(c.Session.Company), c.Session.Company.Name
	p.Amount = c.FormatNumber("48.00") + "\u00a0USD"
	light, dark := b.Themes()
	for _, one := range []struct {
		key string
		of  branding.Theme
	}{{"light", light}, {"dark", dark}} {
		key, contrast := "branding.contrast."+one.key, c.FormatNumber(one.of.Contrast)
		line := c.Text(key, contrast)
		if one.of.Adjusted {
			line = c.Text(key+".adjusted", one.of.Accent, contrast)
		}
		p.Contrast = append(p.Contrast, line)
	}
	return ui.View{Template: "branding", Title: c.Text("branding.title"), Lead: c.Text("branding.lead"),
		Crumbs: claimCrumbs(c), Style: b.StylePath(), Data: p}, nil
}

// previewBranding checks the posted values and shows them, without storing them.
func previewBranding(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if _, err := branding.Preview(ctx, tx, c.Session.Principal(), "", postedBranding(c)); err != nil {
		return ui.View{}, ui.FormError(err)
	}
	return showBranding(ctx, tx, c)
}

// changeBranding stores the posted branding and support address, or neither.
func changeBranding(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	_, err := c.Branding.Change(ctx, tx, by, "", postedBranding(c))
	settings, other := claim.SettingsOf(ctx, tx, by, "")
	if email := strings.TrimSpace(c.Form.Get("support_email")); other == nil && email != settings.SupportEmail {
		_, other = c.Claims.ChangeSettings(ctx, tx, by, "", claim.Change{SupportEmail: &email})
	}
	return ui.View{Redirect: brandingPath}, ui.FormConflict(joinFields(err, other))
}

// joinFields returns the first error, with the fields of the second if both have fields.
func joinFields(first, second error) error {
	if first == nil {
		return second
	}
	f, ok := apierr.As(first)
	s, also := apierr.As(second)
	if !ok || !also || len(f.Fields) == 0 {
		return first
	}
	joined := *f
	joined.Fields = slices.Concat(f.Fields, s.Fields)
	return &joined
}

var errNoLogoFile = apierr.New(apierr.Invalid, "no_file", "Choose an image file.").At("body", "/logo")

// uploadLogo stores the posted logo, or removes the one before.
func uploadLogo(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	picture, err := c.Picture("logo")
	if err != nil {
		return ui.View{}, err
	}
	png := []byte{}
	switch {
	case c.Form.Has("remove"):
	case picture == "":
		return ui.View{}, errNoLogoFile
	default:
		if png, err = c.Branding.ReadLogo(ctx, picture); err != nil {
			return ui.View{}, err
		}
	}
	err = c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		_, err := c.Branding.Change(ctx, tx, c.Session.Principal(), "", branding.Change{Logo: png})
		return err
	})
	return ui.View{Redirect: brandingPath}, ui.FormConflict(err)
}
