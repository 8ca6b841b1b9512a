// Package accounting reports a company's payments for the company's own bookkeeping and for tax authorities: totals
// of a year per payee, the columns of Form 1099-NEC, and a month's journal with the company's own account codes. It
// reads data that other packages store, and posts nothing. Values in USD and EUR are computed with the prices at the
// time of each payment, from the history of package rates.
package accounting

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/rates"
)

var errYear = apierr.New(apierr.Invalid, "invalid_parameter", "year is a calendar year such as 2026.").
	At("query", "year")

// Year has the totals of a company's calendar year (UTC), one per payee, sorted by name.
type Year struct {
	Year    int
	Company identity.Company
	Payees  []PayeeYear

	profile kyc.CompanyProfile // profile of the company
}

// PayeeYear has the totals of a payee in a year. A payment belongs to the year in which it reached the payee.
type PayeeYear struct {
	Payee    payee.Payee
	Payments int64
	Totals   []money.Amount // one for each currency of payrolls
	USD, EUR money.Amount   // values at the times of the payments
	Unvalued int64          // number of payments whose value is unknown and missing from USD and EUR
	TaxForm  kyc.TaxForm    // zero if the form is missing
	Status   string         // status of the tax form
}

// YearOf returns the totals of a year of the principal's company. forms provides the tax forms of payees.
func YearOf(ctx context.Context, tx *db.Tx, forms *kyc.Service, by identity.Principal, year int) (Year, error) {
	company, err := by.Company("")
	if err != nil {
		return Year{}, err
	}
	if year < 2000 || year > tx.Now().UTC().Year() {
		return Year{}, errYear
	}
	y := Year{Year: year}
	if y.Company, err = identity.CompanyByID(ctx, tx, company); err != nil {
		return y, err
	}
	if y.profile, err = forms.CompanyProfile(ctx, tx, company); err != nil && !errors.Is(err, kyc.ErrErased) {
		return y, err
	}
	from := time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC)
	paid, err := payroll.PaidBetween(ctx, tx, company, from, from.AddDate(1, 0, 0))
	if err != nil {
		return y, err
	}
	index := map[string]int{}
	prices := valuer{}
	for _, m := range paid {
		i, known := index[m.PayeeID]
		if !known {
			i = len(y.Payees)
			index[m.PayeeID] = i
			y.Payees = append(y.Payees, PayeeYear{Payee: payee.Payee{ID: m.PayeeID}, USD: money.Zero(money.USD),
				EUR: money.Zero(money.EUR)})
		}
		if err := y.Payees[i].add(ctx, tx, prices, m); err != nil {
			return y, err
		}
	}
	return y, y.describe(ctx, tx, forms)
}

// add adds a payment to the totals of its payee.
func (p *PayeeYear) add(ctx context.Context, tx *db.Tx, prices valuer, m payroll.PaidPayment) error {
	p.Payments++
	i := slices.IndexFunc(p.Totals, func(a money.Amount) bool { return a.Asset() == m.Amount.Asset() })
	if i < 0 {
		i = len(p.Totals)
		p.Totals = append(p.Totals, money.Zero(m.Amount.Asset()))
	}
	var err error
	if p.Totals[i], err = p.Totals[i].Add(m.Amount); err != nil {
		return err
	}
	usd, known, err := prices.value(ctx, tx, m.Amount, money.USD, m.PaidAt)
	if err != nil {
		return err
	}
	eur, also, err := prices.value(ctx, tx, m.Amount, money.EUR, m.PaidAt)
	if err != nil {
		return err
	}
	if !known || !also {
		p.Unvalued++
		return nil
	}
	if p.USD, err = p.USD.Add(usd); err != nil {
		return err
	}
	p.EUR, err = p.EUR.Add(eur)
	return err
}

// valuer caches the past prices that a report has read.
type valuer map[price]money.Rate

type price struct {
	base, quote money.Asset
	hour        time.Time
}

// value returns the value of an amount at a time, rounded half to even. It returns false if no price is known.
func (v valuer) value(ctx context.Context, tx *db.Tx, x money.Amount, in money.Asset, at time.Time) (money.Amount, bool,
	error) {
	if x.Asset() == in {
		return x, true, nil
	}
	key := price{x.Asset(), in, at.UTC().Truncate(time.Hour)}
	rate, known := v[key]
	if !known {
		var err error
		if rate, err = rates.Past(ctx, tx, x.Asset(), in, key.hour); err != nil && !errors.Is(err, rates.ErrUnavailable) {
			return money.Amount{}, false, err
		}
		v[key] = rate // the zero rate if there is no price
	}
	if rate.IsZero() {
		return money.Amount{}, false, nil
	}
	worth, err := rate.Convert(x, money.HalfEven)
	return worth, err == nil, err
}

// describe adds the payees' names and tax forms, and sorts the payees by name.
func (y *Year) describe(ctx context.Context, tx *db.Tx, forms *kyc.Service) error {
	ids := make([]string, len(y.Payees))
	for i := range y.Payees {
		ids[i] = y.Payees[i].Payee.ID
	}
	payees, err := payee.Payees(ctx, tx, y.Company.ID, ids)
	if err != nil {
		return err
	}
	var signers []string // users, and recipients without an account
	for _, p := range payees {
		signers = append(signers, cmp.Or(p.UserID, p.ID))
	}
	slices.Sort(signers)
	signed, err := forms.TaxForms(ctx, tx, signers)
	if err != nil {
		return err
	}
	for i := range y.Payees {
		p := &y.Payees[i]
		if known, ok := payees[p.Payee.ID]; ok {
			p.Payee, p.TaxForm = known, signed[cmp.Or(known.UserID, known.ID)]
		}
		p.Status = p.TaxForm.Status(tx.Now())
	}
	slices.SortFunc(y.Payees, func(a, b PayeeYear) int {
		return cmp.Or(cmp.Compare(a.Payee.Name, b.Payee.Name), cmp.Compare(a.Payee.ID, b.Payee.ID))
	})
	return nil
}

// TaxIDOnFile reports whether the payee has a valid tax form with a tax ID.
func (p *PayeeYear) TaxIDOnFile() bool { return p.Status == kyc.FormValid && p.TaxForm.TaxID != "" }

// WriteCSV writes the totals, with one row per payee and currency. The first row of each payee also has the values
// and the number of payments.
func (y *Year) WriteCSV(to io.Writer) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"year", "payee_id", "name", "role", "type", "country", "tax_form", "tax_form_status",
		"tax_id", "payments", "currency", "amount", "value_usd", "value_eur", "unvalued_payments"}) // Error returns it
	for i := range y.Payees {
		p := &y.Payees[i]
		on := "missing"
		if p.TaxIDOnFile() {
			on = "on_file"
		}
		for n, total := range p.Totals {
			row := []string{strconv.Itoa(y.Year), p.Payee.ID, payee.SafeCell(p.Payee.Name), p.Payee.Role, p.Payee.Kind,
				p.Payee.Country, p.TaxForm.Form, p.Status, on, "", string(total.Asset()), total.String(), "", "", ""}
			if n == 0 {
				row[9] = strconv.FormatInt(p.Payments, 10)
				row[12], row[13], row[14] = p.USD.String(), p.EUR.String(), strconv.FormatInt(p.Unvalued, 10)
			}
			_ = w.Write(row)
		}
	}
	w.Flush()
	return w.Error()
}

// MarshalJSON encodes the totals in the form of the API.
func (y *Year) MarshalJSON() ([]byte, error) {
	type total struct {
		Currency money.Asset  `json:"currency"`
		Amount   money.Amount `json:"amount"`
	}
	type line struct {
		PayeeID  string       `json:"payee_id"`
		Name     string       `json:"name"`
		Role     string       `json:"role"`
		Type     string       `json:"recipient_type"`
		Country  string       `json:"country"`
		Payments int64        `json:"payments"`
		Totals   []total      `json:"totals"`
		USD      money.Amount `json:"value_usd"`
		EUR      money.Amount `json:"value_eur"`
		Unvalued int64        `json:"unvalued_payments"`
		Form     string       `json:"tax_form"`
		Status   string       `json:"tax_form_status"`
		OnFile   bool         `json:"tax_id_on_file"`
	}
	all := make([]line, len(y.Payees))
	for i := range y.Payees {
		p := &y.Payees[i]
		all[i] = line{p.Payee.ID, p.Payee.Name, p.Payee.Role, p.Payee.Kind, p.Payee.Country, p.Payments, nil, p.USD,
			p.EUR, p.Unvalued, p.TaxForm.Form, p.Status, p.TaxIDOnFile()}
		for _, x := range p.Totals {
			all[i].Totals = append(all[i].Totals, total{x.Asset(), x})
		}
	}
	return json.Marshal(struct {
		Year int    `json:"year"`
		Data []line `json:"data"`
	}{y.Year, all})
}

// threshold returns the total from which payments of a year must be reported on Form 1099-NEC. The function does not
// know the adjustment for inflation from 2027 on, so the file may list more payees than must be reported.
func threshold(year int) money.Amount {
	if year <= 2025 {
		return money.New(money.USD, 600_00)
	}
	return money.New(money.USD, 2000_00)
}

// reported reports whether the payee belongs on Form 1099-NEC: a US person who is neither an employee nor a
// corporation and was paid at least the threshold. A payee in the United States without a tax form counts as a US
// person, so that the missing tax ID is noticed.
func (p *PayeeYear) reported(year int) bool {
	switch {
	case p.Payee.Role == payee.Employee, p.USD.Cmp(threshold(year)) < 0, p.TaxForm.Form == kyc.FormW8BEN:
		return false
	case p.TaxForm.Form == kyc.FormW9:
		return !strings.HasSuffix(p.TaxForm.Classification, "_corporation")
	}
	return p.Payee.Country == "US" && p.Payee.Kind == payee.TypeUser
}

// necColumns are the columns of the file for Form 1099-NEC that the IRS portal for information returns (IRIS)
// accepts, with the boxes of the form since its revision of April 2025.
var necColumns = []string{
	"Form Type", "Tax Year", "Payer TIN Type", "Payer Taxpayer ID Number", "Payer Name Type",
	"Payer Business or Entity Name Line 1", "Payer Business or Entity Name Line 2", "Payer First Name",
	"Payer Middle Name", "Payer Last Name (Surname)", "Payer Suffix", "Payer Country", "Payer Address Line 1",
	"Payer Address Line 2", "Payer City/Town", "Payer State/Province/Territory", "Payer ZIP/Postal Code",
	"Payer Phone Type", "Payer Phone", "Payer Email Address", "Recipient TIN Type", "Recipient Taxpayer ID Number",
	"Recipient Name Type", "Recipient Business or Entity Name Line 1", "Recipient Business or Entity Name Line 2",
	"Recipient First Name", "Recipient Middle Name", "Recipient Last Name (Surname)", "Recipient Suffix",
	"Recipient Country", "Recipient Address Line 1", "Recipient Address Line 2", "Recipient City/Town",
	"Recipient State/Province/Territory", "Recipient ZIP/Postal Code", "Office Code", "Form Account Number",
	"2nd TIN Notice", "Box 1 - Nonemployee Compensation",
	"Box 2 - Payer made direct sales totaling $5000 or more of consumer products to a recipient for resale",
	"Box 3 - Excess golden parachute payments", "Box 4 - Federal income tax withheld", "Combined Federal/State Filing",
	"State 1", "State 1 - State Tax Withheld", "State 1 - State/Payer state number", "State 1 - State income",
	"State 1 - Local income tax withheld", "State 1 - Special Data Entries", "State 2", "State 2 - State Tax Withheld",
	"State 2 - State/Payer state number", "State 2 - State income", "State 2 - Local income tax withheld",
	"State 2 - Special Data Entries",
}

// WriteNEC writes the payees to report on Form 1099-NEC, with the columns of the IRS. The tax IDs are complete; a tax
// ID that is not on file is empty. Fields that Stipend does not know are empty, such as the company's own tax ID and
// phone number.
func (y *Year) WriteNEC(to io.Writer) error {
	w := csv.NewWriter(to)
	_ = w.Write(necColumns) // Error returns it
	for i := range y.Payees {
		p := &y.Payees[i]
		if !p.reported(y.Year) {
			continue
		}
		t := p.TaxForm
		cells := map[string]string{
			"Form Type": "1099-NEC", "Tax Year": strconv.Itoa(y.Year),
			"Payer Name Type": "B", "Payer Business or Entity Name Line 1": y.Company.Name,
			"Payer Country": y.Company.Country, "Payer Address Line 1": y.profile.StreetAddress,
			"Payer Address Line 2": y.profile.StreetAddress2, "Payer City/Town": y.profile.City,
			"Payer State/Province/Territory": y.profile.State, "Payer ZIP/Postal Code": y.profile.Zip,
			"Payer Email Address": y.Company.Email,
			"Recipient TIN Type":  strings.ToUpper(t.TaxIDType), "Recipient Taxpayer ID Number": t.TaxID,
			"Recipient Country": cmp.Or(t.Country, p.Payee.Country), "Recipient Address Line 1": t.StreetAddress,
			"Recipient City/Town": t.City, "Recipient State/Province/Territory": t.State,
			"Recipient ZIP/Postal Code": t.Zip, "Form Account Number": p.Payee.ID,
			"Box 1 - Nonemployee Compensation": p.USD.String(),
		}
		name := cmp.Or(t.Name, p.Payee.Name)
		if t.BusinessName == "" && p.Payee.Kind == payee.TypeUser && cmp.Or(t.Classification, "individual") == "individual" {
			at := strings.LastIndex(name, " ")
			cells["Recipient Name Type"] = "I"
			cells["Recipient First Name"], cells["Recipient Last Name (Surname)"] = name[:max(at, 0)], name[at+1:]
		} else {
			cells["Recipient Name Type"], cells["Recipient Business or Entity Name Line 1"] = "B", name
			cells["Recipient Business or Entity Name Line 2"] = t.BusinessName
		}
		row := make([]string, len(necColumns))
		for n, column := range necColumns {
			row[n] = payee.SafeCell(cells[column])
		}
		_ = w.Write(row)
	}
	w.Flush()
	return w.Error()
}
