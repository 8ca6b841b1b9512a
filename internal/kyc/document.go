package kyc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice/payer"
)

// Kinds of documents that no country issues.
const (
	Passport       = "passport" // of any country
	Selfie         = "selfie"
	ProofOfAddress = "proof_of_address"
	TaxID          = "tax_id"
)

// The sides of a document.
const (
	Front = "front"
	Back  = "back"
)

// The most that is kept of one subject.
const (
	maxFiles = 20
	maxBytes = 100 << 20
)

// What an upload is refused with, beside the faults of its image and its tax id.
var (
	ErrCategory = apierr.New(apierr.Invalid, "category_not_allowed",
		"This kind of document has no back: send it as front.")
	ErrDocumentLimit = apierr.New(apierr.Invalid, "document_limit",
		"There are 20 documents of at most 100 MiB together at a time. Replace one: send the same kind, side and country "+
			"again.")
	ErrProfile = apierr.New(apierr.Conflict, "profile_incomplete",
		"The profile lacks what a verification needs. Update it first.")
	ErrErased = apierr.New(apierr.Conflict, "invalid_state", "This profile was erased.")
)

// Requirement is one kind of document that a user of a country may be asked for.
type Requirement struct {
	DocType                string
	RequiresBackside       bool
	RequiresSelfie         bool     // a selfie must come with it
	RequiresProofOfAddress bool     // a proof of address must come with it
	TaxIDTypes             []string // the tax ids that are taken
}

// needs is what a person's country and payers ask for.
type needs struct {
	country                       *country.Country
	selfie, proofOfAddress, taxID bool
}

// taxCountries are those whose residents' payments are reported with a tax id, whoever pays.
const taxCountries = " US CA MX BR AR CO CL PE EC UY IN ES PT IT ID VN TH KR ZA NG KE "

// euroArea are the countries in which an address is known from the bank: the EEA, Britain and Switzerland.
const euroArea = " AT BE BG HR CY CZ DK EE FI FR DE GR HU IE IT LV LT LU MT NL PL PT RO SK SI ES SE IS LI NO GB CH "

// enhanced are the countries whose residents prove their address in any case.
const enhanced = " VE NG PK BD UA LB "

// needsOf says what a resident of a country needs whose payers pay in the currencies. An account in dollars or euros,
// which a payer in those pays into, takes a face; dollars take a tax id; euros from further away an address.
func needsOf(countryCode string, currencies []string) (needs, error) {
	c := supported(countryCode)
	if c == nil {
		return needs{}, ErrCountry.Detailf("Documents of the country in the profile are not supported.")
	}
	in := func(list string) bool { return strings.Contains(list, " "+countryCode+" ") }
	usd, eur := slices.Contains(currencies, "USD"), slices.Contains(currencies, "EUR")
	return needs{
		country: c, selfie: usd || eur,
		proofOfAddress: eur && !in(euroArea) || in(enhanced),
		taxID:          usd || in(taxCountries),
	}, nil
}

// requirements are the kinds of documents for a resident of a country whose payers pay in the currencies: each
// identity document that the country knows, of which one is enough, and then what must come with it. Each identity
// document carries the tax ids that the country knows; there is an entry tax_id when one is required. A country
// without a row is ErrCountry.
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

// Upload is what somebody hands in: an image, or a tax id.
type Upload struct {
	DocType        string
	Category       string // front or back; "" for a tax id
	IssuingCountry string // 2-letter code; "" for a tax id means the profile's
	Base64         string // the image
	TaxID          string
	TaxIDType      string
}

// check normalises an upload and says everything that is wrong with it, the image and the check digits aside. home is
// the country of the profile, firm says that the subject is a company.
func (u Upload) check(home string, firm bool) (Upload, error) {
	var problems apierr.List
	missing := func(name, value string) {
		if value == "" {
			problems.Add("missing_field", "/"+name, "The member "+name+" is required for this doc_type.")
		}
	}
	surplus := func(name, value string) {
		if value != "" {
			problems.Add("invalid_parameter", "/"+name, "The member "+name+" does not belong to this doc_type. Leave it out.")
		}
	}
	u.IssuingCountry = strings.ToUpper(u.IssuingCountry)
	unknown := u.IssuingCountry != "" && !country.Exists(u.IssuingCountry)
	if u.DocType == TaxID {
		missing("tax_id", u.TaxID)
		missing("tax_id_type", u.TaxIDType)
		surplus("base64_image", u.Base64)
		if u.IssuingCountry == "" {
			u.IssuingCountry = home
			missing("issuing_country", home)
		}
	} else {
		missing("category", u.Category)
		missing("issuing_country", u.IssuingCountry)
		missing("base64_image", u.Base64)
		surplus("tax_id", u.TaxID)
		surplus("tax_id_type", u.TaxIDType)
	}
	if unknown {
		problems.Add(ErrCountry.Code, "/issuing_country", "This takes a country code of two letters, such as DE.")
	}
	if err := problems.Err(); err != nil {
		return u, err
	}
	if u.DocType == TaxID {
		var err error
		u.TaxID, err = checkTaxID(u.IssuingCountry, u.TaxIDType, u.TaxID, firm)
		return u, err
	}
	return u, u.checkKind(firm)
}

// companyPapers are what a company hands in.
var companyPapers = []string{"certificate_of_incorporation", "articles_of_association", "shareholder_register",
	"proof_of_address", "bank_statement", "tax_certificate", "other"}

// checkKind says whether the issuing country has such a document, with such a side.
func (u Upload) checkKind(firm bool) error {
	backless := u.DocType == Passport || u.DocType == ProofOfAddress || u.DocType == Selfie
	switch {
	case firm:
		if !slices.Contains(companyPapers, u.DocType) {
			return unknownKind(companyPapers)
		}
		return nil
	case backless && u.Category == Back:
		return ErrCategory.At("body", "/category")
	case backless:
		return nil
	}
	c := supported(u.IssuingCountry)
	if c == nil {
		if !issuedSomewhere(u.DocType) {
			return unknownKind([]string{Passport, ProofOfAddress})
		}
		return ErrCountry.Detailf("Of this country a passport is supported, and nothing else.").At("body", "/issuing_country")
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

func issuedSomewhere(docType string) bool {
	return slices.ContainsFunc(country.Codes(), func(code string) bool {
		return document(country.Find(code),
			docType) != nil
	})
}

func unknownKind(kinds []string) error {
	return apierr.New(apierr.Invalid, "invalid_parameter", "doc_type is one of: "+strings.Join(kinds, ", ")+".").At("body",
		"/doc_type")
}

// Service stores documents and has them verified by a provider.
type Service struct {
	Sealer   *identity.Sealer
	Images   *ImageDecoder
	Provider Provider // nil: documents are stored, and no verification starts, so nobody is verified
}

// New returns a Service. It refuses a missing sealer or decoder. Without a provider, documents are stored, but no
// verification starts.
func New(sealer *identity.Sealer, images *ImageDecoder, provider Provider) (*Service, error) {
	if sealer == nil || images == nil {
		return nil, errors.New("verification needs the sealer of documents and a decoder of images")
	}
	return &Service{sealer, images, provider}, nil
}

// Read checks an upload of a user and reads its image, which takes a while: it belongs before the transaction in which
// [Service.Store] stores both. Without an image it returns a zero one.
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

// changingUser is the user for whom something is changed; a frozen company changes nothing.
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

// Store keeps what a user hands in. An image of the same kind, side and country as an earlier one takes its place, a
// tax id that of the country's earlier one. More than a subject may have is ErrDocumentLimit.
func (s *Service) Store(ctx context.Context, tx *db.Tx, by identity.Principal, userID string, u Upload,
	img Image) error {
	user, err := changingUser(ctx, tx, by, userID)
	if err != nil {
		return err
	}
	if u, err = u.check(user.Country, false); err != nil {
		return err
	}
	return s.store(ctx, tx, user.ID, u, img)
}

func (s *Service) store(ctx context.Context, tx *db.Tx, subjectID string, u Upload, img Image) error {
	key, err := s.openSubject(ctx, tx, subjectID)
	if err != nil {
		return err
	}
	if u.DocType == TaxID {
		return upsertTaxID(ctx, tx, subjectID, u.IssuingCountry, u.TaxIDType, key.Seal(taxIDAt(subjectID, u.IssuingCountry),
			[]byte(u.TaxID)))
	}
	id := tx.NewID("doc")
	if err := insertDocument(ctx, tx, subjectID, id, u, img); err != nil {
		return err
	}
	return insertChunks(ctx, tx, subjectID, id, sealChunks(key, id, img.JPEG))
}

// openSubject takes the key of a subject, and makes one for a new subject.
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
	// Of two first uploads at once one makes the key; both read what stands.
	if wrapped, err = insertSubject(ctx, tx, subjectID, wrapped); err != nil {
		return identity.SubjectKey{}, err
	}
	return s.Sealer.OpenSubjectKey(subjectID, wrapped)
}

// chunkSize is how much of an image one row holds: small enough that no engine minds the row.
const chunkSize = 512 << 10

func sealChunks(key identity.SubjectKey, documentID string, data []byte) [][]byte {
	total := (len(data) + chunkSize - 1) / chunkSize
	chunks := make([][]byte, 0, total)
	for chunk := range slices.Chunk(data, chunkSize) {
		chunks = append(chunks, key.Seal(chunkAt(documentID, len(chunks), total), chunk))
	}
	return chunks
}

// chunkAt binds a chunk to its place among all, so that none can be dropped or exchanged unseen.
func chunkAt(documentID string, n, total int) identity.Place {
	return identity.Place{Table: "document_chunks", Column: "sealed", Row: fmt.Sprintf("%s/%d/%d", documentID, n, total)}
}

func taxIDAt(subjectID, countryCode string) identity.Place {
	return identity.Place{Table: "tax_ids", Column: "sealed", Row: subjectID + "/" + countryCode}
}

// Document is a present document of a subject.
type Document struct {
	ID, DocType, Category, IssuingCountry string
}

// Listed is a document as a list shows it: both sides are one document, and of a tax id only the country is told.
type Listed struct{ DocType, IssuingCountry string }

// List are the documents of a user, oldest kind first, tax ids at the end.
func (s *Service) List(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) ([]Listed, error) {
	user, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return nil, err
	}
	return listOf(ctx, tx, user.ID)
}

func listOf(ctx context.Context, tx *db.Tx, subjectID string) ([]Listed, error) {
	documents, err := selectDocuments(ctx, tx, subjectID)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, 0, len(documents))
	for _, d := range documents {
		if l := (Listed{d.DocType, d.IssuingCountry}); !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	taxIDs, err := selectTaxIDs(ctx, tx, subjectID)
	for _, t := range taxIDs {
		list = append(list, Listed{TaxID, t.country})
	}
	return list, err
}

// Types are the documents that a user is asked for, by country and the currency of the payer that is named, or of all
// the user's payers. A payer that is not the user's is payer.ErrNotFound, a deleted one payer.ErrDeleted; a profile
// without a country is ErrProfile.
func (s *Service) Types(ctx context.Context, tx *db.Tx, by identity.Principal, userID,
	payerID string) ([]Requirement, error) {
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

// payerCurrencies are what the user's present payers pay in, one for each payer.
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
