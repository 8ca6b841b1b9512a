package kyc

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// The tax forms that a person can certify.
const (
	FormW9    = "w9"    // a US person states their taxpayer identification number
	FormW8BEN = "w8ben" // a person states that they are not a US person
)

// The states of a person's tax form.
const (
	FormMissing = "missing"
	FormValid   = "valid"
	FormExpired = "expired"
)

// Classifications are the federal tax classifications of a W-9.
var Classifications = []string{"individual", "c_corporation", "s_corporation", "partnership", "trust_estate", "llc",
	"other"}

// taxIDKinds are the types of tax IDs of a W-9.
var taxIDKinds = []string{"ssn", "itin", "ein"}

var errTooLong = apierr.New(apierr.Invalid, "invalid_parameter", "A field of a tax form has at most 200 characters.")

// TaxForm contains the statements that a person certified on a W-9 or W-8BEN. The zero value means that there is no
// form.
type TaxForm struct {
	Form           string `json:"form"` // FormW9 or FormW8BEN
	Name           string `json:"name"`
	BusinessName   string `json:"business_name,omitempty"`  // only on a W-9
	Classification string `json:"classification,omitempty"` // one of Classifications; only on a W-9
	TaxIDType      string `json:"tax_id_type,omitempty"`    // ssn, itin or ein; only on a W-9
	TaxID          string `json:"tax_id"`                   // "" on a W-8BEN of a person without a tax ID
	DateOfBirth    string `json:"date_of_birth,omitempty"`  // only on a W-8BEN
	Country        string `json:"country"`                  // of residence; US on a W-9
	StreetAddress  string `json:"street_address"`
	City           string `json:"city"`
	State          string `json:"state,omitempty"`
	Zip            string `json:"zip,omitempty"`

	// SignedBy is the ID of the user, of the API key of the company that acted for the user, or of the recipient.
	SignedBy string `json:"signed_by"`

	SignedAt  time.Time `json:"-"`
	ExpiresAt time.Time `json:"-"` // zero means never
}

// Status returns whether the form is valid at the given time.
func (t TaxForm) Status(now time.Time) string {
	switch {
	case t.Form == "":
		return FormMissing
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return FormExpired
	}
	return FormValid
}

// Masked returns the tax ID with all but its last four characters replaced by points.
func (t TaxForm) Masked() string {
	n := max(0, len([]rune(t.TaxID))-4)
	return strings.Repeat("•", n) + string([]rune(t.TaxID)[n:])
}

// LastDay returns the last day on which the form is valid, such as 2029-12-31, or "" for no limit.
func (t TaxForm) LastDay() string {
	if t.ExpiresAt.IsZero() {
		return ""
	}
	return t.ExpiresAt.AddDate(0, 0, -1).Format(time.DateOnly)
}

// check normalizes the form. It returns an error that lists its problems.
func (t TaxForm) check(certified bool, now time.Time) (TaxForm, error) {
	var list apierr.List
	for _, text := range []*string{&t.Name, &t.BusinessName, &t.TaxID, &t.Country, &t.StreetAddress, &t.City, &t.State,
		&t.Zip, &t.DateOfBirth} {
		*text = strings.TrimSpace(*text)
		if len(*text) > 200 {
			return t, errTooLong.At("body", "")
		}
	}
	t.Country = strings.ToUpper(t.Country)
	if t.Form == FormW9 {
		t.Country = "US"
	}
	for _, f := range [...]struct{ name, value string }{{"name", t.Name}, {"street_address", t.StreetAddress},
		{"city", t.City}, {"country", t.Country}} {
		if f.value == "" {
			list.Add("missing_field", "/"+f.name, "The field "+f.name+" is required.")
		}
	}
	if !certified {
		list.Add("invalid_parameter", "/certified", "Confirm the certification to sign the form.")
	}
	switch t.Form {
	case FormW9:
		t.DateOfBirth = ""
		if !slices.Contains(Classifications, t.Classification) {
			list.Add("invalid_parameter", "/classification", "classification is "+strings.Join(Classifications, ", ")+".")
		}
		if !slices.Contains(taxIDKinds, t.TaxIDType) {
			list.Add("invalid_parameter", "/tax_id_type", "tax_id_type is ssn, itin or ein.")
		} else if id, err := checkTaxID("US", t.TaxIDType, t.TaxID, t.TaxIDType == "ein"); err != nil {
			list.Add(ErrTaxID.Code, "/tax_id", ErrTaxID.Detail)
		} else {
			t.TaxID = id
		}
	case FormW8BEN:
		t.BusinessName, t.Classification, t.TaxIDType = "", "", ""
		if t.Country == "US" {
			list.Add("invalid_parameter", "/country", "A resident of the United States certifies a W-9.")
		} else if t.Country != "" && !country.Exists(t.Country) {
			list.Add(ErrCountry.Code, "/country", "The value must be a country code of two letters, for example DE.")
		}
		born, err := time.Parse(time.DateOnly, t.DateOfBirth)
		if err != nil || !born.Before(now) || born.Year() < 1900 {
			list.Add("invalid_parameter", "/date_of_birth", "date_of_birth is a day such as 1990-12-10.")
		}
	default:
		list.Add("invalid_parameter", "/form", "form is w9 or w8ben.")
	}
	return t, list.Err()
}

// SignTaxForm stores a form that a user certifies now. The user's earlier form is kept, but no longer current. A
// company can store the form of a user that it created. A W-8BEN is valid until the end of the third year after the
// year of its signature. SignTaxForm returns ErrErased for an erased user.
func (s *Service) SignTaxForm(ctx context.Context, tx *db.Tx, by identity.Principal, userID string, t TaxForm,
	certified bool) (TaxForm, error) {
	user, err := changingUser(ctx, tx, by, userID)
	if err != nil {
		return t, err
	}
	t.SignedBy = cmp.Or(by.UserID, by.ID)
	return s.sign(ctx, tx, user.ID, t, certified)
}

// SignTaxFormByLink stores a form that a payee without an account certifies now, through a link that a company mailed
// to them. The payee's earlier form is kept, but no longer current. The caller must have checked the link.
func (s *Service) SignTaxFormByLink(ctx context.Context, tx *db.Tx, recipientID string, t TaxForm, certified bool) (
	TaxForm, error) {
	t.SignedBy = recipientID
	return s.sign(ctx, tx, recipientID, t, certified)
}

// sign checks a form and stores it, encrypted with the key of the person who certifies it.
func (s *Service) sign(ctx context.Context, tx *db.Tx, subjectID string, t TaxForm, certified bool) (TaxForm, error) {
	t, err := t.check(certified, tx.Now())
	if err != nil {
		return t, err
	}
	if t.SignedAt = tx.Now(); t.Form == FormW8BEN {
		t.ExpiresAt = time.Date(t.SignedAt.UTC().Year()+4, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	key, err := s.openSubject(ctx, tx, subjectID)
	if err != nil {
		return t, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return t, err
	}
	id := tx.NewID("tfm")
	return t, insertTaxForm(ctx, tx, subjectID, id, t, key.Seal(taxFormAt(subjectID, id), text))
}

func taxFormAt(subjectID, formID string) identity.SealContext {
	return identity.SealContext{Table: "tax_forms", Column: "sealed", Row: subjectID + "/" + formID}
}

// TaxFormOf returns the newest tax form of a user, or the zero TaxForm.
func (s *Service) TaxFormOf(ctx context.Context, tx *db.Tx, by identity.Principal, userID string) (TaxForm, error) {
	u, err := identity.ActingUser(ctx, tx, by, userID)
	if err != nil {
		return TaxForm{}, err
	}
	all, err := s.TaxForms(ctx, tx, []string{u.ID})
	return all[u.ID], err
}

// TaxForms returns the newest tax form of each of the users and recipients without an account, by ID. The caller must
// have checked access to them.
func (s *Service) TaxForms(ctx context.Context, tx *db.Tx, ids []string) (map[string]TaxForm, error) {
	rows, err := newestTaxForms(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[string]TaxForm, len(rows))
	for id, r := range rows {
		key, err := s.openSubject(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		text, err := key.Open(taxFormAt(id, r.id), r.sealed)
		if err != nil {
			return nil, err
		}
		t := TaxForm{SignedAt: r.signed, ExpiresAt: r.expires}
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, err
		}
		all[id] = t
	}
	return all, nil
}
