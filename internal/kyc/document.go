package kyc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
)

// Kinds of documents that do not depend on the country. Package country defines the other kinds.
const (
	Passport       = "passport"
	Selfie         = "selfie"
	ProofOfAddress = "proof_of_address"
	TaxID          = "tax_id"
)

// Sides of a document.
const (
	Front = "front"
	Back  = "back"
)

// Limits on the documents stored per subject.
const (
	maxFiles = 20
	maxBytes = 100 << 20
)

// Errors of uploads and profiles; see also ErrImage and ErrTaxID.
var (
	ErrCategory = apierr.New(apierr.Invalid, "category_not_allowed",
		"This kind of document has only one side. Send it with the category front.")
	ErrDocumentLimit = apierr.New(apierr.Invalid, "document_limit",
		"At most 20 documents with 100 MiB in total are stored. Replace one by sending the same kind, side and country.")
	ErrProfile = apierr.New(apierr.Conflict, "profile_incomplete",
		"The profile lacks fields that the verification requires. Add them first.")
	ErrErased = apierr.New(apierr.Conflict, "invalid_state", "This profile was erased and cannot be changed.")
)

// Requirement is a kind of document that may be required of a user.
type Requirement struct {
	DocType                string
	RequiresBackside       bool
	RequiresSelfie         bool     // a selfie is also required
	RequiresProofOfAddress bool     // a proof of address is also required
	TaxIDTypes             []string // accepted types of tax IDs
}

// needs are the document requirements for a person.
type needs struct {
	country                       *country.Country
	selfie, proofOfAddress, taxID bool
}

// taxIDCountries are the countries whose residents always need a tax ID, because payments to them are reported.
const taxIDCountries = " US CA MX BR AR CO CL PE EC UY IN ES PT IT ID VN TH KR ZA NG KE "

// euroArea are the countries whose banks verify the addresses of holders of euro accounts: EEA, UK and Switzerland.
const euroArea = " AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE IS LI NO GB CH "

// enhancedCountries are the countries whose residents always need a proof of address.
const enhancedCountries = " VE NG PK BD UA LB "

// needsOf returns the requirements for a resident of a country whose payers pay in the given currencies. A payer in
// USD or EUR requires a selfie, a payer in USD a tax ID, and a payer in EUR a proof of address outside euroArea.
func needsOf(countryCode string, currencies []string) (needs, error) {
	c := supported(countryCode)
	if c == nil {
		return needs{}, ErrCountry.Detailf("Documents of the profile's country are not supported. Contact support.")
	}
	in := func(list string) bool { return strings.Contains(list, " "+countryCode+" ") }
	usd, eur := slices.Contains(currencies, "USD"), slices.Contains(currencies, "EUR")
	return needs{
		country: c, selfie: usd || eur,
		proofOfAddress: eur && !in(euroArea) || in(enhancedCountries),
		taxID:          usd || in(taxIDCountries),
	}, nil
}

// requirements returns the documents for a resident of a country whose payers pay in the given currencies. The
// identity documents of the country come first; only one of them is required. The rest follows, and all of it is
// required. It returns ErrCountry if the country is not supported.
func requirements(countryCode string, currencies []string) ([]Requirement, error) {
	n, err := needsOf(countryCode, currencies)
	if err != nil {
		return nil, err
	}
	var list []Requirement
	for _, d := range n.country.Documents {
		list = append(list, Requirement{
			DocType: d.Type, RequiresBackside: d.Backside, RequiresSelfie: n.selfie, RequiresProofOfAddress: n.proofOfAddress,
			TaxIDTypes: taxIDTypes(n.country, false),
		})
	}
	if n.selfie {
		list = append(list, Requirement{DocType: Selfie})
	}
	if n.proofOfAddress {
		list = append(list, Requirement{DocType: ProofOfAddress})
	}
	if n.taxID {
		list = append(list, Requirement{DocType: TaxID, TaxIDTypes: taxIDTypes(n.country, false)})
	}
	return list, nil
}

// Upload is an uploaded image or tax ID.
type Upload struct {
	DocType        string
	Category       string // front or back; "" for a tax ID
	IssuingCountry string // 2-letter code; for a tax ID, "" means the profile's country
	Base64         string // image in base64; "" for a tax ID
	TaxID          string
	TaxIDType      string
}

// check returns the normalized upload, or an error that lists its problems. It does not decode the image. home is the
// country in the profile; isCompany reports whether the subject is a company.
func (u Upload) check(home string, isCompany bool) (Upload, error) {
	var problems apierr.List
	required := func(name, value string) {
		if value == "" {
			problems.Add("missing_field", "/"+name, "The field "+name+" is required for this doc_type.")
		}
	}
	notAllowed := func(name, value string) {
		if value != "" {
			problems.Add("invalid_parameter", "/"+name, "The field "+name+" is not allowed for this doc_type. Omit it.")
		}
	}
	u.IssuingCountry = strings.ToUpper(u.IssuingCountry)
	unknown := u.IssuingCountry != "" && !country.Exists(u.IssuingCountry)
	if u.DocType == TaxID {
		required("tax_id", u.TaxID)
		required("tax_id_type", u.TaxIDType)
		notAllowed("base64_image", u.Base64)
		if u.IssuingCountry == "" {
			u.IssuingCountry = home
			required("issuing_country", home)
		}
	} else {
		required("category", u.Category)
		required("issuing_country", u.IssuingCountry)
		required("base64_image", u.Base64)
		notAllowed("tax_id", u.TaxID)
		notAllowed("tax_id_type", u.TaxIDType)
	}
	if unknown {
		problems.Add(ErrCountry.Code, "/issuing_country", "The value must be a country code of two letters, for example DE.")
	}
	if err := problems.Err(); err != nil {
		return u, err
	}
	if u.DocType == TaxID {
		var err error
		u.TaxID, err = checkTaxID(u.IssuingCountry, u.TaxIDType, u.TaxID, isCompany)
		return u, err
	}
	return u, u.checkKind(isCompany)
}

// companyDocuments are the kinds of documents of companies.
var companyDocuments = []string{"certificate_of_incorporation", "articles_of_association", "shareholder_register",
	"proof_of_address", "bank_statement", "tax_certificate", "other"}

// checkKind returns an error unless the issuing country has this kind of document with this side.
func (u Upload) checkKind(isCompany bool) error {
	oneSided := u.DocType == Passport || u.DocType == ProofOfAddress || u.DocType == Selfie
	switch {
	case isCompany:
		if !slices.Contains(companyDocuments, u.DocType) {
			return unknownKind(companyDocuments)
		}
		return nil
	case oneSided && u.Category == Back:
		return ErrCategory.At("body", "/category")
	case oneSided:
		return nil
	}
	c := supported(u.IssuingCountry)
	if c == nil {
		if !issuedSomewhere(u.DocType) {
			return unknownKind([]string{Passport, ProofOfAddress})
		}
		return ErrCountry.Detailf("Only passports of this country are supported. Send a passport.").
			At("body", "/issuing_country")
	}
	if document(c, u.DocType) == nil {
		var kinds []string
		for _, d := range c.Documents {
			kinds = append(kinds, d.Type)
		}
		return unknownKind(append(kinds, Selfie, ProofOfAddress, TaxID))
	}
	return nil
}

// issuedSomewhere reports whether any country issues the kind of document.
func issuedSomewhere(docType string) bool {
	return slices.ContainsFunc(country.Codes(), func(code string) bool {
		return document(country.Find(code), docType) != nil
	})
}

func unknownKind(kinds []string) error {
	return apierr.New(apierr.Invalid, "invalid_parameter", "doc_type must be one of "+strings.Join(kinds, ", ")+".").
		At("body", "/doc_type")
}

// Read checks a user's upload and returns the decoded image, or a zero Image for a tax ID. Decoding can take seconds,
// so call Read before the transaction that calls [Service.Store].
func (s *Service) Read(ctx context.Context, d *db.DB, by identity.Principal, userID string, u Upload) (Image, error) {
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		user, err := changingUser(ctx, tx, by, userID)
		if err != nil {
			return err
		}
		_, err = u.check(user.Country, false)
		return err
	})
	if err != nil || u.DocType == TaxID {
		return Image{}, err
	}
	return s.readImage(ctx, u)
}

func (s *Service) readImage(ctx context.Context, u Upload) (Image, error) {
	img, err := s.Images.Read(ctx, u.Base64)
	if f, ok := apierr.As(err); ok {
		err = f.At("body", "/base64_image")
	}
	return img, err
}

// changingUser is like identity.ActingUser, for changes. It returns identity.ErrFrozen while the company is frozen.
func changingUser(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (identity.User, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil || by.CompanyID == "" {
		return user, err
	}
	company, err := identity.CompanyByID(ctx, tx, by.CompanyID)
	if err != nil {
		return user, err
	}
	return user, company.Active()
}

// Store stores a user's upload. It replaces an image of the same kind, side and country, or a tax ID of the same
// country. If the user is verified or the verification is in progress, a new verification is required. Store returns
// ErrDocumentLimit if the user would exceed the limits.
func (s *Service) Store(ctx context.Context, tx *db.Tx, by identity.Principal, userID string, u Upload,
	img Image) error {
	user, err := changingUser(ctx, tx, by, userID)
	if err != nil {
		return err
	}
	if u, err = u.check(user.Country, false); err != nil {
		return err
	}
	if err := s.store(ctx, tx, user.ID, u, img); err != nil {
		return err
	}
	return s.endOnChange(ctx, tx, user.ID, reasonDocuments)
}

func (s *Service) store(ctx context.Context, tx *db.Tx, subjectID string, u Upload, img Image) error {
	key, err := s.openSubject(ctx, tx, subjectID)
	if err != nil {
		return err
	}
	if u.DocType == TaxID {
		sealed := key.Seal(taxIDAt(subjectID, u.IssuingCountry), []byte(u.TaxID))
		return upsertTaxID(ctx, tx, subjectID, u.IssuingCountry, u.TaxIDType, sealed)
	}
	id := tx.NewID("doc")
	if err := insertDocument(ctx, tx, subjectID, id, u, img); err != nil {
		return err
	}
	return insertChunks(ctx, tx, subjectID, id, sealChunks(key, id, img.JPEG))
}

// openSubject returns the key of a subject, which it creates if necessary. It returns ErrErased for an erased
// subject.
func (s *Service) openSubject(ctx context.Context, tx *db.Tx, subjectID string) (identity.SubjectKey, error) {
	wrapped, err := selectSubjectKey(ctx, tx, subjectID)
	if err != nil {
		return identity.SubjectKey{}, err
	}
	if wrapped != "" {
		return s.Sealer.OpenSubjectKey(subjectID, wrapped)
	}
	wrapped, _, err = s.Sealer.NewSubjectKey(subjectID)
	if err != nil {
		return identity.SubjectKey{}, err
	}
	// A concurrent first upload may have inserted another key. Both transactions use the stored key.
	if wrapped, err = insertSubject(ctx, tx, subjectID, wrapped); err != nil {
		return identity.SubjectKey{}, err
	}
	return s.Sealer.OpenSubjectKey(subjectID, wrapped)
}

// chunkSize is the maximum number of image bytes in a row. Large rows are slow on both database engines.
const chunkSize = 512 << 10

func sealChunks(key identity.SubjectKey, documentID string, data []byte) [][]byte {
	total := (len(data) + chunkSize - 1) / chunkSize
	chunks := make([][]byte, 0, total)
	for chunk := range slices.Chunk(data, chunkSize) {
		chunks = append(chunks, key.Seal(chunkAt(documentID, len(chunks), total), chunk))
	}
	return chunks
}

// chunkAt returns the seal context of a chunk. It includes the number of chunks, so that decryption fails if chunks
// are missing or out of order.
func chunkAt(documentID string, n, total int) identity.SealContext {
	return identity.SealContext{Table: "document_chunks", Column: "sealed",
		Row: fmt.Sprintf("%s/%d/%d", documentID, n, total)}
}

func taxIDAt(subjectID, countryCode string) identity.SealContext {
	return identity.SealContext{Table: "tax_ids", Column: "sealed", Row: subjectID + "/" + countryCode}
}

// Document is a current document of a subject, without its image.
type Document struct {
	ID, DocType, Category, IssuingCountry string
}

// DocumentSummary describes a document with all its sides, or a tax ID without its number.
type DocumentSummary struct{ DocType, IssuingCountry string }

// List returns a user's documents, oldest first, followed by the tax IDs.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal,
	userID string) ([]DocumentSummary, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	return listOf(ctx, tx, user.ID)
}

func listOf(ctx context.Context, tx *db.Tx, subjectID string) ([]DocumentSummary, error) {
	documents, err := selectDocuments(ctx, tx, subjectID)
	if err != nil {
		return nil, err
	}
	list := make([]DocumentSummary, 0, len(documents))
	for _, d := range documents {
		if l := (DocumentSummary{d.DocType, d.IssuingCountry}); !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	taxIDs, err := selectTaxIDs(ctx, tx, subjectID)
	for _, t := range taxIDs {
		list = append(list, DocumentSummary{TaxID, t.country})
	}
	return list, err
}

// Types returns the documents that may be required of a user. They depend on the user's country and on the currency
// of one payer or, if payerID is empty, of all payers. Types returns payer.ErrNotFound or payer.ErrDeleted for the
// payer, and ErrProfile if the profile has no country.
func (s *Service) Types(ctx context.Context, tx *db.Tx, by identity.Principal,
	userID, payerID string) ([]Requirement, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	if user.Country == "" {
		return nil, ErrProfile.Detailf("The profile has no country. Update it first.").Set("missing", "country")
	}
	var currencies []string
	if payerID != "" {
		p, err := payer.Use(ctx, tx, user.ID, payerID)
		if err != nil {
			return nil, err
		}
		currencies = []string{string(p.Currency)}
	} else if currencies, err = payerCurrencies(ctx, tx, user.ID); err != nil {
		return nil, err
	}
	return requirements(user.Country, currencies)
}

// payerCurrencies returns the currency of each active payer of the user.
func payerCurrencies(ctx context.Context, tx *db.Tx, userID string) ([]string, error) {
	payers, err := payer.Of(ctx, tx, userID)
	var currencies []string
	for _, p := range payers {
		if p.Status == payer.Active {
			currencies = append(currencies, string(p.Currency))
		}
	}
	return currencies, err
}
