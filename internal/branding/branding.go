// Package branding stores the appearance of a merchant's public pages and mails: name, logo, accent color, texts and
// languages.
//
// No value that a merchant sets reaches a page as markup, script or style. Texts are single lines, which templates
// escape. A logo is decoded and encoded again. A color is six hexadecimal digits, from which [StyleSheet] computes
// the colors of both themes, with sufficient contrast.
//
// The package owns the tables merchant_brandings and brand_logos. It never changes claims.
package branding

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/webhook"
)

// Maximum lengths, in characters.
const (
	MaxName = 60
	MaxText = 200
)

// MaxLogoBytes is the maximum size of the file of a logo.
const MaxLogoBytes = kyc.MaxLogoBytes

// Languages are the languages that a merchant can offer, which are those of the pages.
var Languages = []string{"en", "es", "pt", "fr", "de", "he"}

// objectID is the object ID of a company's branding in the company's history and events.
const objectID = "merchant_branding"

// ErrNoLogo is returned if no stored logo has the requested digest.
var ErrNoLogo = apierr.New(apierr.NotFound, "not_found", "There is no such logo.")

// Branding is the appearance of a merchant's pages and mails to payers.
type Branding struct {
	CompanyID string
	Name      string   // "" means the company's name
	Accent    string   // color such as "#1d3f8f"; "" means Stipend's color
	Headline  string   // shown at the checkout; "" for none
	ThankYou  string   // shown after the payment and in the receipt; "" for none
	Languages []string // languages offered to payers, the default first; empty means all
	Logo      string   // digest of the logo; "" for none
	Version   int64    // number of changes
	UpdatedAt time.Time
}

// Change contains the values to change. Nil values stay unchanged. Empty values remove the setting.
type Change struct {
	Name, Accent, Headline, ThankYou *string
	Languages                        []string
	// Logo is a PNG that [Service.ReadLogo] returned. An empty slice that is not nil removes the logo.
	Logo []byte
}

// Service changes brandings.
type Service struct{ images *kyc.ImageDecoder }

// New returns a Service. It returns an error if the decoder is missing.
func New(images *kyc.ImageDecoder) (*Service, error) {
	if images == nil {
		return nil, errors.New("branding: the decoder of images is required")
	}
	return &Service{images}, nil
}

// Of returns the branding of a company.
func Of(ctx context.Context, tx *db.Tx, companyID string) (Branding, error) {
	b, found, err := brandings.Get(ctx, tx, companyID)
	if err == nil && !found {
		b = Branding{CompanyID: companyID}
	}
	return b, err
}

// Get returns the branding of the principal's company.
func Get(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string) (Branding, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Branding{}, err
	}
	return Of(ctx, tx, id)
}

// DisplayName returns the name that payers see.
func (b Branding) DisplayName(company identity.Company) string {
	if b.Name != "" {
		return b.Name
	}
	return company.Name
}

// Language returns the language of mails to payers: the first language that the merchant offers, or the language of
// the merchant's country.
func (b Branding) Language(company identity.Company) string {
	if len(b.Languages) > 0 {
		return b.Languages[0]
	}
	return mail.LanguageOf(company.Country)
}

// StylePath returns the path of the style sheet for the accent color, or "" for Stipend's colors.
func (b Branding) StylePath() string {
	if b.Accent == "" {
		return ""
	}
	return "/theme/" + b.Accent[1:] + ".css"
}

// LogoPath returns the path of the logo, or "" if there is none.
func (b Branding) LogoPath() string {
	if b.Logo == "" {
		return ""
	}
	return "/logo/" + b.Logo + ".png"
}

// ReadLogo decodes a PNG, JPEG or WebP in base64 and returns it as a PNG, for [Change]. Decoding takes time and
// memory, so call ReadLogo outside a transaction.
func (s *Service) ReadLogo(ctx context.Context, text string) ([]byte, error) {
	png, err := s.images.ReadLogo(ctx, text)
	if f, ok := apierr.As(err); ok {
		return nil, f.At("body", "/logo")
	}
	return png, err
}

// Preview returns a branding with a change applied, without storing it. The error lists all invalid values.
func Preview(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, change Change) (Branding, error) {
	b, _, err := preview(ctx, tx, by, companyID, change)
	return b, err
}

func preview(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, change Change) (b Branding,
	company identity.Company, err error) {
	if b, err = Get(ctx, tx, by, companyID); err != nil {
		return b, company, err
	}
	if company, err = identity.CompanyByID(ctx, tx, b.CompanyID); err != nil {
		return b, company, err
	}
	return b, company, b.apply(change, company)
}

// Change stores the values that are not nil and returns the new branding.
func (*Service) Change(
	ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, change Change,
) (Branding, error) {
	b, company, err := preview(ctx, tx, by, companyID, change)
	if err != nil {
		return b, err
	}
	if err := company.Active(); err != nil {
		return b, err
	}
	b.UpdatedAt = tx.Now()
	if err := save(ctx, tx, b); err != nil {
		return b, err
	}
	b.Version++
	if change.Logo != nil {
		if err := saveLogo(ctx, tx, b, change.Logo); err != nil {
			return b, err
		}
	}
	db.History(tx, b.CompanyID, objectID, b.Version, "", "changed", "changed by "+by.ID)
	return b, webhook.Emit(tx, webhook.MerchantBrandingUpdate.Event(b.CompanyID, objectID, b.Version,
		webhook.MerchantBrandingData{
			CompanyID: b.CompanyID, Name: b.Name, Accent: b.Accent, Headline: b.Headline, ThankYou: b.ThankYou,
			Languages: append([]string{}, b.Languages...), LogoPath: b.LogoPath(),
		}))
}

func (b *Branding) apply(change Change, company identity.Company) error {
	var list apierr.List
	line := func(to, given *string, pointer string, most int) {
		if given != nil {
			*to = identity.Line(&list, pointer, *given, 0, most)
		}
	}
	line(&b.Name, change.Name, "/display_name", MaxName)
	if change.Name != nil && b.Name != "" && b.Name != company.Name {
		identity.CheckName(&list, "/display_name", b.Name, company)
	}
	line(&b.Headline, change.Headline, "/headline", MaxText)
	line(&b.ThankYou, change.ThankYou, "/thank_you", MaxText)
	if change.Accent != nil {
		accent, ok := ParseColor(*change.Accent)
		if !ok {
			list.Add("invalid_parameter", "/accent_color", "A color is # and six hexadecimal digits, such as #1d3f8f.")
		}
		b.Accent = accent
	}
	if change.Languages != nil {
		b.Languages = nil
		for i, tag := range change.Languages {
			if !slices.Contains(Languages, tag) {
				list.Add("invalid_parameter", "/languages/"+strconv.Itoa(i),
					"The languages are "+strings.Join(Languages, ", ")+".")
			}
			if !slices.Contains(b.Languages, tag) {
				b.Languages = append(b.Languages, tag)
			}
		}
	}
	if change.Logo != nil {
		b.Logo = ""
		if len(change.Logo) > 0 {
			sum := sha256.Sum256(change.Logo)
			b.Logo = hex.EncodeToString(sum[:16])
		}
	}
	return list.Err()
}
