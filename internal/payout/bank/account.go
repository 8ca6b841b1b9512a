package bank

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"

	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// The formats of files.
const (
	FormatNACHA = "nacha"
	FormatPain  = "pain.001"
)

// MaxPayments is how many payments one file has at most.
const MaxPayments = 10_000

// Account is an account of the house that payouts leave from.
type Account struct {
	ID       string      `json:"id"` // by which the books know it
	Currency money.Asset `json:"currency"`
	Format   string      `json:"format"` // nacha or pain.001
	Name     string      `json:"name"`   // of its owner
	Number   string      `json:"number"` // IBAN, or what the bank calls it
	BIC      string      `json:"bic,omitempty"`
	Country  string      `json:"country,omitempty"`
	Calendar Calendar    `json:"calendar"`
	CutOff   string      `json:"cut_off"` // 15:30: what comes later is of the next day
	Zone     string      `json:"zone"`    // of the cut-off: Europe/Berlin
	// ReturnFee is what the bank keeps at most of a payment that comes back, such as 25.00; empty is nothing. Where more is missing, a
	// person decides.
	ReturnFee string `json:"return_fee,omitempty"`

	CompanyID       string `json:"company_id,omitempty"`       // NACHA: the originator's number, that the bank gave
	Routing         string `json:"routing,omitempty"`          // NACHA: of the account's bank
	Origin          string `json:"origin,omitempty"`           // NACHA: of who delivers the file; the originator's number where it is empty
	Destination     string `json:"destination,omitempty"`      // NACHA: routing number of who takes the file; Routing where it is empty
	DestinationName string `json:"destination_name,omitempty"` // NACHA
	Savings         bool   `json:"savings,omitempty"`          // NACHA

	zone   *time.Location
	cutOff time.Duration
}

// ReadAccounts reads the list of accounts, a JSON array, and says everything that is wrong with it.
func ReadAccounts(in io.Reader) ([]Account, error) {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	var all []Account
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("bank accounts: %w", err)
	}
	var problems []error
	ids, of := map[string]bool{}, map[string]bool{}
	for i := range all {
		a := &all[i]
		if err := a.prepare(); err != nil {
			problems = append(problems, fmt.Errorf("bank account %d (%s): %w", i+1, a.ID, err))
		}
		if key := string(a.Currency) + a.Format; ids[a.ID] || of[key] {
			problems = append(problems, fmt.Errorf("bank account %d (%s): there is another one of this id, or for %s by %s", i+1, a.ID, a.Currency, a.Format))
		} else {
			ids[a.ID], of[key] = true, true
		}
	}
	return all, errors.Join(problems...)
}

func (a *Account) prepare() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if _, known := money.Lookup(string(a.Currency)); !known || a.Currency.IsCrypto() {
		bad("%q is no currency", a.Currency)
	}
	if a.ID == "" || a.Name == "" || a.Number == "" {
		bad("id, name and number are needed")
	}
	if err := a.Calendar.check(); err != nil {
		bad("%w", err)
	}
	if fee, err := a.KeepsOfReturn(); err != nil || fee.Sign() < 0 {
		bad("return_fee %q is no amount such as 25.00", a.ReturnFee)
	}
	at, err := time.Parse("15:04", a.CutOff)
	if err != nil {
		bad("cut_off %q is no time of day such as 15:30", a.CutOff)
	}
	a.cutOff = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	if a.zone, err = time.LoadLocation(a.Zone); err != nil || a.Zone == "" {
		bad("zone %q is none, such as Europe/Berlin", a.Zone)
	}
	switch a.Format {
	case FormatNACHA:
		if a.Currency != money.USD || !nacha.Routing(a.Routing) || a.CompanyID == "" || len(a.CompanyID) > 10 || len(a.Number) > 17 {
			bad("an account for NACHA is in USD, has a routing number and a company_id of up to 10 characters")
		}
		if a.Destination == "" {
			a.Destination = a.Routing
		}
		if !nacha.Routing(a.Destination) {
			bad("destination %q is no routing number", a.Destination)
		}
	case FormatPain:
		if a.BIC != "" && !iso20022.IsBIC(a.BIC) {
			bad("%q is no BIC", a.BIC)
		}
		if a.Currency == money.EUR && !iso20022.IsIBAN(a.Number) {
			bad("an account in EUR has an IBAN")
		}
	default:
		bad("format %q is neither nacha nor pain.001", a.Format)
	}
	return errors.Join(problems...)
}

// KeepsOfReturn is ReturnFee as an amount.
func (a Account) KeepsOfReturn() (money.Amount, error) {
	if a.ReturnFee == "" {
		return money.Zero(a.Currency), nil
	}
	return money.Parse(a.Currency, a.ReturnFee)
}

// Numbers are what somebody who pays to the account writes on the order: its IBAN, or its number where it has none.
func (a Account) Numbers() (iban, number string) {
	if iso20022.IsIBAN(a.Number) {
		return a.Number, ""
	}
	return "", a.Number
}

// Choose finds the account that a destination is paid from: US accounts by ACH through the clearing house where there is an account
// for it, everything else by a credit transfer.
func Choose(accounts []Account, asset money.Asset, country, scheme string) (Account, bool) {
	want := FormatPain
	if asset == money.USD && country == "US" && scheme == "ach" {
		want = FormatNACHA
	}
	for _, a := range accounts {
		if a.Currency == asset && a.Format == want {
			return a, true
		}
	}
	for _, a := range accounts { // an ACH destination has all that a credit transfer needs, but not the other way round
		if a.Currency == asset && want == FormatNACHA {
			return a, true
		}
	}
	return Account{}, false
}

// Day is the date at the account's bank.
func (a Account) Day(at time.Time) string {
	if a.zone != nil {
		at = at.In(a.zone)
	}
	return at.Format(time.DateOnly)
}

// execution is the day on which the bank acts on a file that it has now: today, if it works and the cut-off is to come, else the
// next day on which it does. By ACH the money arrives on the working day after that, and that is the day that the file names.
func (a Account) execution(now time.Time) time.Time {
	local := now.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	since := time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute
	if a.Calendar.Open(day) && since >= a.cutOff {
		day = day.AddDate(0, 0, 1)
	}
	day = a.Calendar.Next(day)
	if a.Format == FormatNACHA {
		day = a.Calendar.Next(day.AddDate(0, 0, 1))
	}
	return day
}

// Payment is one payment of a file.
type Payment struct {
	Amount  money.Amount
	Country string          // of the destination
	Scheme  string          // by which the destination is reached: ach, sepa_ct
	Data    json.RawMessage // the destination's members
	Text    string          // for the payee's statement
}

// Message is an encoded payment file, as the bank gets it.
type Message struct {
	Name    string // of the file itself: S0000012.xml
	Execute time.Time
	Body    []byte
	Parts   []int // for each payment, which debit of the account pays for it, from 1
}

// Reference is the name of a file; Position that of a payment, from 1.
func Reference(number int64) string { return fmt.Sprintf("S%07d", number) }

// Position is the name of a payment within a file.
func Position(number int64, position int) string { return fmt.Sprintf("S%07dP%05d", number, position) }

// Named is what of ours a text names: a file, and in it a payment or a part. 0 is none.
type Named struct {
	File     int64
	Position int
	Part     int
}

var named = regexp.MustCompile(`(?:^|[^A-Za-z0-9])S([0-9]{7})(?:([PB])([0-9]{5}))?(?:$|[^A-Za-z0-9])`)

// FindNamed looks for a name of ours in texts that a bank gave back; one of a payment or part counts more than that of a file.
func FindNamed(texts ...string) (n Named, ok bool) {
	for _, text := range texts {
		for _, m := range named.FindAllStringSubmatch(text, 8) {
			file, _ := strconv.ParseInt(m[1], 10, 64)
			at, _ := strconv.Atoi(m[3])
			found := Named{File: file}
			switch m[2] {
			case "P":
				found.Position = at
			case "B":
				found.Part = at
			}
			if !ok || n.Position == 0 && n.Part == 0 && found != (Named{File: file}) {
				n, ok = found, true
			}
		}
	}
	return n, ok
}

// Part is what came back of a payment of ours that is not all of it: nobody knows yet why, and what becomes of the rest.
type Part struct {
	Payment string // S0000012P00003
	Amount  money.Amount
}

// ErrDestination says that a destination lacks what a bank needs.
var ErrDestination = errors.New("the destination lacks what a bank needs")

// ErrTooLarge says that one payment is of more than a bank takes.
var ErrTooLarge = errors.New("the payment is larger than a bank takes")

// Check says whether a payment can stand in a file of the account: ErrDestination when its destination is the reason, ErrTooLarge
// when its amount is.
func (a Account) Check(now time.Time, p Payment) error {
	if a.Format == FormatNACHA && p.Amount.Units() > nacha.MaxCents {
		return ErrTooLarge
	}
	// A file of its own shows whatever could stand against it in a file of many, which one bad payment must not hold up.
	if _, err := a.Encode(1, now, []Payment{p}); err != nil {
		return fmt.Errorf("%w: %w", ErrDestination, err)
	}
	return nil
}

// Encode encodes the file with the given number.
func (a Account) Encode(number int64, now time.Time, payments []Payment) (Message, error) {
	if number < 1 || number > 9_999_999 || len(payments) > MaxPayments {
		return Message{}, fmt.Errorf("bank: no file %d of %d payments", number, len(payments))
	}
	f := Message{Execute: a.execution(now), Parts: make([]int, len(payments))}
	transfers := make([]transfer, len(payments))
	for i, p := range payments {
		t, err := a.transfer(p)
		if err != nil {
			return f, fmt.Errorf("payment %d: %w", i+1, err)
		}
		t.ID = Position(number, i+1)
		transfers[i], f.Parts[i] = t, 1
	}
	var err error
	if a.Format == FormatNACHA {
		f.Name = Reference(number) + ".ach"
		out := a.nacha(number, now)
		for _, t := range transfers {
			out.Entries = append(out.Entries, nacha.Entry{ID: t.ID, Name: t.Creditor.Name, Routing: t.routing, Account: t.Creditor.Account,
				Savings: t.savings, Company: t.Company, Cents: t.Amount.Units()})
		}
		if f.Parts, err = out.Parts(); err == nil {
			f.Body, err = out.Write()
		}
		return f, err
	}
	f.Name = Reference(number) + ".xml"
	o := iso20022.Order{ID: Reference(number), Created: now, Execute: f.Execute, Initiator: a.Name, Debtor: iso20022.Party{Name: a.Name, Account: a.Number, Bank: a.BIC},
		Country: a.Country, SEPA: a.Currency == money.EUR}
	for _, t := range transfers {
		o.Transfers = append(o.Transfers, t.Transfer)
	}
	f.Body, err = o.Write()
	return f, err
}

func (a Account) nacha(number int64, now time.Time) nacha.File {
	const modifiers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return nacha.File{
		Originator: nacha.Originator{Name: a.Name, ID: a.CompanyID, ODFI: a.Routing, Account: a.Number, Savings: a.Savings, Destination: a.Destination,
			DestinationFor: a.DestinationName, Origin: a.Origin},
		Created: now.In(a.zone), Modifier: modifiers[number%int64(len(modifiers))], Reference: Reference(number), Effective: a.execution(now),
	}
}

// transfer is a payment as the destination's members say it.
type transfer struct {
	iso20022.Transfer
	routing string // of the United States
	savings bool
}

func (a Account) transfer(p Payment) (t transfer, err error) {
	var d map[string]any
	if err := json.NewDecoder(bytes.NewReader(p.Data)).Decode(&d); err != nil {
		return t, fmt.Errorf("%w: %w", ErrDestination, err)
	}
	get := func(key string) string { s, _ := d[key].(string); return strings.TrimSpace(s) }
	t.Amount, t.Company, t.savings = p.Amount, get("account_holder_type") == "business", get("account_type") == "savings"
	t.Creditor.Name, t.routing = latin(get("account_holder_name")), get("routing_number")
	if kana := get("account_holder_kana"); kana != "" {
		t.Creditor.Name = kana
	}
	for _, n := range country.AccountNumbers {
		if v := get(n.Field); v != "" && t.Creditor.Account == "" {
			t.Creditor.Account, t.Number = v, n.Scheme
		}
	}
	if t.Creditor.Account == "" || t.Creditor.Name == "" {
		return t, ErrDestination
	}
	t.Creditor.Bank = get("bic")
	if code := get("bank_code"); iso20022.IsBIC(code) {
		t.Creditor.Bank = code
	}
	if !iso20022.IsIBAN(t.Creditor.Account) {
		t.Clearing = member(p.Country, p.Scheme, t.Creditor.Account, t.Creditor.Bank, get)
	}
	t.Kind = country.AccountType(get("account_type"))
	if kind := get("pix_key_type"); kind != "" {
		t.Number += " " + kind
	}
	t.BankName, t.Purpose, t.Email = latin(get("bank_name")), get("purpose_code"), get("email")
	if phone := get("phone_number"); phone != t.Creditor.Account {
		t.Phone = phone
	}
	switch {
	case get("tax_id") != "":
		t.TaxID = get("tax_id")
	case get("id_number") != "":
		t.TaxID, t.IDKind = get("id_number"), get("id_type")
	case get("date_of_birth") != "": // by which banks tell people of one name apart
		t.TaxID, t.IDKind = get("date_of_birth"), "date of birth"
	}
	if home, ok := d["address"].(map[string]any); ok {
		at := func(key string) string { s, _ := home[key].(string); return latin(s) }
		t.Address = iso20022.Address{Street: at("address_line1"), PostCode: at("postal_code"), Town: at("city"), State: at("state"), Country: at("country")}
	}
	t.Remittance = latin(p.Text)
	return t, nil
}

// member is the payee's bank by the code of its country. Where ISO has no name for the system, ours says which it is.
func member(countryCode, scheme, account, bic string, get func(string) string) iso20022.Member {
	if c := country.Find(countryCode); c != nil && c.Clearing != nil {
		code := ""
		if digits := c.Clearing.AccountDigits; digits > 0 && len(account) >= digits {
			code = strings.ReplaceAll(account, "-", "")[:digits]
		}
		for _, key := range c.Clearing.Fields {
			code += get(key)
		}
		if code == "" {
			return iso20022.Member{}
		}
		return iso20022.Member{System: c.Clearing.System, Listed: true, Code: c.Clearing.Prefix + code}
	}
	code := get("bank_code") + get("branch_code")
	if bic != "" && get("bank_code") == bic {
		code = get("branch_code")
	}
	if code == "" {
		if code = get("routing_number"); code == "" {
			code = get("channel")
		}
	}
	if code == "" {
		return iso20022.Member{}
	}
	return iso20022.Member{System: countryCode + " " + scheme, Code: code}
}

// latin is a text in the characters that every bank takes.
func latin(s string) string {
	s = unidecode.Unidecode(s)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("/-?:().,'+ ", r):
			return r
		}
		return ' '
	}, s))
}
