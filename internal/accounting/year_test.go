package accounting

import (
	"bytes"
	"context"
	"encoding/csv"
	"slices"
	"testing"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/testkit/fixture"
)

// US persons who are neither employees nor corporations are in the file from the threshold of the year. A payee in the
// United States without a form is listed without a tax ID, so that it is noticed.
func TestWhoIsInTheFileForForm1099NEC(t *testing.T) {
	person := payee.Payee{ID: "usr_1", Name: "Ada Byron", Kind: payee.TypeUser, Role: payee.Contractor, Country: "US"}
	with := func(change func(*payee.Payee)) payee.Payee {
		p := person
		change(&p)
		return p
	}
	w9 := kyc.TaxForm{Form: kyc.FormW9, Name: "Ada Byron", Classification: "individual", TaxIDType: "ssn",
		TaxID: "536904399", Country: "US"}
	corporation, llc := w9, w9
	corporation.Classification = "c_corporation"
	llc.Classification, llc.BusinessName, llc.TaxIDType = "llc", "Byron Software", "ein"
	const box1 = "Box 1 - Nonemployee Compensation"
	for _, c := range []struct {
		what string
		year int
		who  payee.Payee
		form kyc.TaxForm
		paid int64
		want map[string]string // some columns of the row, nil for none
	}{
		{"from 2,000 USD", 2026, person, w9, 2000_00, map[string]string{"Form Type": "1099-NEC", "Tax Year": "2026",
			"Payer Business or Entity Name Line 1": "Acme", "Payer City/Town": "Springfield", "Recipient TIN Type": "SSN",
			"Recipient Taxpayer ID Number": "536904399", "Recipient Name Type": "I", "Recipient First Name": "Ada",
			"Recipient Last Name (Surname)": "Byron", "Form Account Number": "usr_1", box1: "2000.00"}},
		{"less", 2026, person, w9, 1999_99, nil},
		{"600 USD in 2025", 2025, person, w9, 600_00, map[string]string{"Tax Year": "2025", box1: "600.00"}},
		{"an employee", 2026, with(func(p *payee.Payee) { p.Role = payee.Employee }), w9, 9000_00, nil},
		{"a vendor", 2026, with(func(p *payee.Payee) { p.Role = payee.Vendor }), w9, 9000_00,
			map[string]string{box1: "9000.00"}},
		{"a partnership", 2026, person, llc, 9000_00, map[string]string{"Recipient TIN Type": "EIN",
			"Recipient Name Type": "B", "Recipient Business or Entity Name Line 1": "Ada Byron",
			"Recipient Business or Entity Name Line 2": "Byron Software", "Recipient Last Name (Surname)": ""}},
		{"a US person abroad", 2026, with(func(p *payee.Payee) { p.Country = "DE" }), w9, 9000_00,
			map[string]string{"Recipient Country": "US"}},
		{"a corporation", 2026, person, corporation, 9000_00, nil},
		{"a W-8BEN", 2026, person, kyc.TaxForm{Form: kyc.FormW8BEN}, 9000_00, nil},
		{"no form, in the US", 2026, with(func(p *payee.Payee) { p.Name = "=Ada" }), kyc.TaxForm{}, 9000_00,
			map[string]string{"Recipient Taxpayer ID Number": "", "Recipient Last Name (Surname)": "'=Ada",
				"Recipient First Name": ""}},
		{"no form, elsewhere", 2026, with(func(p *payee.Payee) { p.Country = "DE" }), kyc.TaxForm{}, 9000_00, nil},
	} {
		y := Year{Year: c.year, Company: identity.Company{Name: "Acme"}, Payees: []PayeeYear{{Payee: c.who,
			TaxForm: c.form, USD: money.New(money.USD, c.paid)}}, profile: kyc.CompanyProfile{City: "Springfield"}}
		var b bytes.Buffer
		if err := y.WriteNEC(&b); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || (c.want == nil) != (len(rows) == 1) {
			t.Errorf("%s: %d rows, %v", c.what, len(rows), err)
			continue
		}
		for column, want := range c.want {
			if got := rows[1][slices.Index(rows[0], column)]; got != want {
				t.Errorf("%s: %s is %q, want %q", c.what, column, got, want)
			}
		}
	}
}

// A W-8BEN is valid until the end of the third year after that of its signature, a W-9 without end. The newest form
// counts, and an erased person has none.
func TestTaxFormsExpire(t *testing.T) {
	fixture.Run(t, func(x *fixture.Fixture) {
		x.UseCompany(identity.NewCompany{Name: "Acme", Country: "US"})
		sealer, err := identity.NewSealer(bytes.Repeat([]byte{7}, 32))
		if err != nil {
			x.Fatal(err)
		}
		forms := &kyc.Service{Sealer: sealer}
		u := fixture.Do(x, func(ctx context.Context, tx *db.Tx) (identity.User, error) {
			return identity.CreateUser(ctx, tx, sealer, identity.NewUser{CompanyID: x.By.CompanyID,
				Profile: identity.Profile{Email: "ada@payee.example", Country: "DE"}})
		})
		now := func() (string, string) {
			form := fixture.Get(x, func(ctx context.Context, tx *db.Tx) (kyc.TaxForm, error) {
				return forms.TaxFormOf(ctx, tx, x.By, u.ID)
			})
			return form.Form + " " + form.Status(x.Clock.Now()), form.LastDay()
		}
		want := func(state, day string) {
			x.Helper()
			if got, last := now(); got != state || last != day {
				x.Errorf("%s until %s, want %s until %s", got, last, state, day)
			}
		}
		sign := func(form kyc.TaxForm) {
			x.Helper()
			form.Name, form.StreetAddress, form.City = "Ada Byron", "1 Main Street", "Berlin"
			x.Write(func(ctx context.Context, tx *db.Tx) error {
				_, err := forms.SignTaxForm(ctx, tx, x.By, u.ID, form, true)
				return err
			})
		}
		want(" missing", "")
		sign(kyc.TaxForm{Form: kyc.FormW8BEN, Country: "DE", DateOfBirth: "1990-12-10", TaxID: "12345678911"})
		want("w8ben valid", "2029-12-31")
		if x.Count("SELECT COUNT(*) FROM tax_forms WHERE CAST(sealed AS TEXT) LIKE $1", "%Byron%") != 0 {
			x.Error("the form is stored in plain text")
		}
		x.Clock.Advance(time.Date(2029, time.December, 31, 23, 59, 59, 0, time.UTC).Sub(x.Clock.Now()))
		want("w8ben valid", "2029-12-31")
		x.Clock.Advance(time.Second)
		want("w8ben expired", "2029-12-31")
		sign(kyc.TaxForm{Form: kyc.FormW9, Classification: "individual", TaxIDType: "ssn", TaxID: "536 90 4399"})
		want("w9 valid", "")
		x.WantCount(2, "tax_forms WHERE subject_id = $1", u.ID)
	})
}
