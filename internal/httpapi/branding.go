package httpapi

import (
	"context"

	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/db"
)

// logoLimit is the maximum size of a body with a logo in base64, in bytes.
const logoLimit = 1536 << 10

type (
	merchantBrandingGet struct {
		CompanyID string `query:"company_id"`
	}

	merchantBrandingInput struct {
		Body merchantBrandingBody
		logo []byte // decoded Logo
	}

	merchantBrandingBody struct {
		CompanyID   string   `json:"company_id,omitempty" maxLength:"64"`
		DisplayName *string  `json:"display_name,omitempty" maxLength:"60"`
		AccentColor *string  `json:"accent_color,omitempty" maxLength:"7"`
		Headline    *string  `json:"headline,omitempty" maxLength:"200"`
		ThankYou    *string  `json:"thank_you,omitempty" maxLength:"200"`
		Languages   []string `json:"languages,omitempty" maxItems:"6"`
		Logo        *string  `json:"logo,omitempty" maxLength:"1500000"`
	}

	merchantBranding struct {
		CompanyID   string         `json:"company_id"`
		DisplayName string         `json:"display_name"`
		AccentColor string         `json:"accent_color"`
		Themes      brandingThemes `json:"themes" doc:"Colors that follow from the accent color."`
		Headline    string         `json:"headline"`
		ThankYou    string         `json:"thank_you"`
		Languages   []string       `json:"languages"`
		LogoURL     string         `json:"logo_url"`
	}

	brandingThemes struct {
		Light brandingTheme `json:"light" doc:"On light pages."`
		Dark  brandingTheme `json:"dark" doc:"On dark pages."`
	}

	brandingTheme struct {
		Accent   string `json:"accent" doc:"Background of buttons." example:"#1d3f8f"`
		Text     string `json:"text" doc:"Text on the accent: black or white." example:"#ffffff"`
		Link     string `json:"link" doc:"Color of links." example:"#1d3f8f"`
		Contrast string `json:"contrast" doc:"Contrast ratio of the text on the accent, at least 4.5." example:"9.6"`
		Adjusted bool   `json:"adjusted" doc:"Whether accent differs from accent_color because of its contrast."`
	}
)

func getMerchantBranding(
	ctx context.Context, tx *db.Tx, c *request, _ *merchantBrandingGet,
) (*merchantBranding, error) {
	b, err := branding.Get(ctx, tx, c.by, c.company)
	if err != nil {
		return nil, err
	}
	return c.showBranding(b), nil
}

// readLogo decodes and checks the logo before the transaction begins.
func readLogo(ctx context.Context, c *request, in *merchantBrandingInput) (err error) {
	text := in.Body.Logo
	switch {
	case text == nil:
	case *text == "":
		in.logo = []byte{}
	default:
		in.logo, err = c.Branding.ReadLogo(ctx, *text)
		in.Body.Logo = nil
	}
	return err
}

func changeMerchantBranding(
	ctx context.Context, tx *db.Tx, c *request, in *merchantBrandingInput,
) (*merchantBranding, error) {
	p := &in.Body
	b, err := c.Branding.Change(ctx, tx, c.by, c.company, branding.Change{
		Name: p.DisplayName, Accent: p.AccentColor, Headline: p.Headline, ThankYou: p.ThankYou, Languages: p.Languages,
		Logo: in.logo,
	})
	if err != nil {
		return nil, err
	}
	return c.showBranding(b), nil
}

func (c *request) showBranding(b branding.Branding) *merchantBranding {
	out := &merchantBranding{
		CompanyID: b.CompanyID, DisplayName: b.Name, AccentColor: b.Accent, Headline: b.Headline, ThankYou: b.ThankYou,
		Languages: append([]string{}, b.Languages...),
	}
	if b.Logo != "" {
		out.LogoURL = c.BaseURL + b.LogoPath()
	}
	light, dark := b.Themes()
	theme := func(t branding.Theme) brandingTheme {
		return brandingTheme{t.Accent, t.Text, t.Link, t.Contrast, t.Adjusted}
	}
	out.Themes.Light, out.Themes.Dark = theme(light), theme(dark)
	return out
}
