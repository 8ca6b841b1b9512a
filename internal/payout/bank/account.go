package bank

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mozillazg/go-unidecode"

	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// Formats of payment files.
const (
	FormatNACHA = "nacha"
	FormatPain  = "pain.001"
)

// Formats of accounts whose bank executes payments through an API.
const (
	FormatIncrease = "increase"
	FormatColumn   = "column"
	FormatWise     = "wise"
)

// apiSuffix is the extension of the names of files for an API.
const apiSuffix = ".json"

// nachaSuffix is the extension of the names of NACHA files.
const nachaSuffix = ".ach"

// maxPayments is the largest number of payments in one file.
const maxPayments = 10_000

// Account is a bank account of the operator from which payouts are paid.
type Account struct {
	ID       string      `json:"id"` // dimension of ledger account 1020
	Currency money.Asset `json:"currency"`
	Format   string      `json:"format"` // nacha, pain.001, or the name of a bank with an API
	Name     string      `json:"name"`   // account holder
	Number   string      `json:"number"` // IBAN, local account number, or the account's ID at a bank with an API
	BIC      string      `json:"bic,omitempty"`
	// Address of the account holder. pain.001 requires Town and Country, a country code.
	Street   string `json:"street,omitempty"`
	PostCode string `json:"post_code,omitempty"`
	Town     string `json:"town,omitempty"`
	Country  string `json:"country,omitempty"`
	// Version is the version of pain.001 that the bank reads: pain.001.001.09, the default, or pain.001.001.11.
	Version  string   `json:"version,omitempty"`
	Calendar Calendar `json:"calendar"`
	CutOff   string   `json:"cut_off"` // time of day, such as 15:30; later files are executed on the next business day
	Zone     string   `json:"zone"`    // time zone of CutOff, such as Europe/Berlin
	// ReturnFee is the largest amount that the bank may withhold from a returned payment, such as 25.00; empty means
	// zero. If the bank withholds more, staff decide.
	ReturnFee string `json:"return_fee,omitempty"`

	// StatementDays is the number of business days after which a statement sent as a file is overdue; 0 means one. A
	// bank that sends no statement for days without entries needs a higher number.
	StatementDays int `json:"statement_days,omitempty"`

	// VerificationOptOut is the instruction, as agreed with the bank, to execute a SEPA file without Verification of
	// Payee; "" for none. It is written only to files with several payments: the payee of a single payment is always
	// verified.
	VerificationOptOut string `json:"verification_opt_out,omitempty"`
	// Instant has the rules for SEPA instant payments; nil disables them.
	Instant *Instant `json:"instant,omitempty"`

	CompanyID string `json:"company_id,omitempty"` // NACHA: company identification, assigned by the bank
	Routing   string `json:"routing,omitempty"`    // NACHA: routing number of the account's bank
	Origin    string `json:"origin,omitempty"`     // NACHA: immediate origin; empty: CompanyID
	// Destination is the immediate destination of a NACHA file, a routing number; empty means Routing.
	Destination     string `json:"destination,omitempty"`
	DestinationName string `json:"destination_name,omitempty"` // NACHA: name of the immediate destination
	Savings         bool   `json:"savings,omitempty"`          // NACHA: whether it is a savings account
	// SameDay has the bank's deadlines for the three windows of same-day ACH, such as 10:00, 14:15 and 16:15; "" for a
	// window that the bank does not offer. Without deadlines, every payment settles on the next business day.
	SameDay []string `json:"same_day,omitempty"`
	// CTX makes a payment a CTX entry if the payee is a company and the payment has an invoice and a description, so
	// that the entry contains both. The bank must originate this class of entries. Without CTX, entries contain the
	// invoice or, if there is none, the description.
	CTX bool `json:"ctx,omitempty"`

	// Source is the ID of the account number that payees of instant payments see, for Increase. If it is empty, there
	// are no instant payments.
	Source string `json:"source_account,omitempty"`
	// InstantLimit is the largest amount of an instant payment, such as 25000.00. Empty means the network's limit for
	// Increase, and no instant payments for Column.
	InstantLimit string `json:"instant_limit,omitempty"`

	// Profile is the ID of the business profile that owns the balance Number, for Wise.
	Profile string `json:"profile,omitempty"`
	// Pays are further currencies that are paid from the balance with an exchange by the bank, for Wise.
	Pays []money.Asset `json:"pays,omitempty"`

	// Debits has the rules for direct debits to this account; nil disables them.
	Debits *Debits `json:"debits,omitempty"`

	zone    *time.Location
	cutOff  time.Duration
	sameDay []time.Duration // deadlines of SameDay, 0 for none
	newYork *time.Location  // zone in which the windows of same-day ACH close; set with sameDay
}

// Instant has the rules for the SEPA instant payments of an account. Payments above the limit or outside of the hours
// are ordinary SEPA payments.
type Instant struct {
	Limit string `json:"limit"` // largest amount, such as 100000.00
	// From and Until limit the hours of every day in which the bank accepts instant payments, such as 06:00 and 22:00.
	// If both are empty, the bank accepts them at any time.
	From  string `json:"from,omitempty"`
	Until string `json:"until,omitempty"`
	// Fallback states whether a payment that the bank refuses as an instant payment is sent again as an ordinary
	// payment.
	Fallback bool `json:"fallback"`

	most        int64 // cents
	from, until time.Duration
}

// prepare parses the rules.
func (i *Instant) prepare() error {
	most, err := money.Parse(money.EUR, i.Limit)
	if err != nil || most.Sign() <= 0 {
		return fmt.Errorf("instant.limit %q is not an amount such as 100000.00", i.Limit)
	}
	i.most, i.until = most.Units(), 24*time.Hour
	if i.From == "" && i.Until == "" {
		return nil
	}
	from, err := time.Parse("15:04", i.From)
	if err != nil {
		return fmt.Errorf("instant.from %q is not a time of day such as 06:00", i.From)
	}
	until, err := time.Parse("15:04", i.Until)
	if err != nil || !until.After(from) {
		return fmt.Errorf("instant.until %q is not a time of day after instant.from", i.Until)
	}
	i.from, i.until = timeOfDay(from), timeOfDay(until)
	return nil
}

// PaysInstantly reports whether a payment of an amount that is sent now is an instant payment.
func (a Account) PaysInstantly(now time.Time, amount money.Amount) bool {
	return a.instantAt(now) && a.scheme() == iso20022.SEPA && amount.Units() <= a.Instant.most
}

// instantAt reports whether the bank accepts instant payments now.
func (a Account) instantAt(now time.Time) bool {
	since := timeOfDay(now.In(a.zone))
	return a.Instant != nil && since >= a.Instant.from && since < a.Instant.until
}

// ReadAccounts decodes a JSON array of accounts. Its error lists every problem.
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
		if ids[a.ID] {
			problems = append(problems, fmt.Errorf("bank account %d (%s): another account has this id", i+1, a.ID))
		}
		ids[a.ID] = true
		for _, currency := range append([]money.Asset{a.Currency}, a.Pays...) {
			if key := string(currency) + a.Format; of[key] {
				problems = append(problems, fmt.Errorf("bank account %d (%s): another account pays %s by %s", i+1, a.ID, currency,
					a.Format))
			} else {
				of[key] = true
			}
		}
	}
	return all, errors.Join(problems...)
}

func (a *Account) prepare() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if _, known := money.Lookup(string(a.Currency)); !known || a.Currency.IsCrypto() {
		bad("currency %q is not a currency", a.Currency)
	}
	for _, s := range [][2]string{{"id", a.ID}, {"name", a.Name}, {"number", a.Number}} {
		if s[1] == "" {
			bad("%s is missing", s[0])
		}
	}
	if fee, err := a.maxReturnFee(); err != nil || fee.Sign() < 0 {
		bad("return_fee %q is not an amount such as 25.00", a.ReturnFee)
	}
	if a.StatementDays < 0 || a.StatementDays > 30 || a.StatementDays > 0 && a.ByAPI() {
		bad("statement_days must be between 0 and 30, for an account with files")
	}
	if a.ByAPI() {
		a.Calendar, a.CutOff, a.Zone = cmp.Or(a.Calendar, Weekdays), cmp.Or(a.CutOff, "23:59"), cmp.Or(a.Zone, "UTC")
	}
	at, err := time.Parse("15:04", a.CutOff)
	if err != nil {
		bad("cut_off %q is not a time of day such as 15:30", a.CutOff)
	}
	if err := a.Calendar.check(); err != nil {
		bad("%w", err)
	}
	a.cutOff = timeOfDay(at)
	if a.zone, err = time.LoadLocation(a.Zone); err != nil || a.Zone == "" {
		bad("zone %q is not a time zone such as Europe/Berlin", a.Zone)
	}
	if a.VerificationOptOut != "" && (a.scheme() != iso20022.SEPA || !iso20022.IsSEPAText(a.VerificationOptOut) ||
		len(a.VerificationOptOut) > 140) {
		bad("verification_opt_out must be a text of up to 140 characters of SEPA, for an account in EUR with format pain.001")
	}
	if a.Instant != nil {
		if a.scheme() != iso20022.SEPA {
			bad("instant is only for accounts in EUR with format pain.001")
		}
		if err := a.Instant.prepare(); err != nil {
			bad("%w", err)
		}
	}
	if err := a.prepareDebits(); err != nil {
		bad("%w", err)
	}
	switch a.Format {
	case FormatNACHA:
		if a.Currency != money.USD {
			bad("currency %q: a NACHA account must be in USD", a.Currency)
		}
		if !nacha.ValidRoutingNumber(a.Routing) {
			bad("routing %q is not a routing number", a.Routing)
		}
		if a.CompanyID == "" || len(a.CompanyID) > 10 {
			bad("company_id %q must have 1 to 10 characters", a.CompanyID)
		}
		if len(a.Number) > 17 {
			bad("number %q of a NACHA account has over 17 characters", a.Number)
		}
		if a.Destination == "" {
			a.Destination = a.Routing
		}
		if !nacha.ValidRoutingNumber(a.Destination) {
			bad("destination %q is not a routing number", a.Destination)
		}
		if a.Country != "" && !country.InUnitedStates(a.Country) {
			bad("country %q: entries of an originator outside of the United States would be international (IAT)", a.Country)
		}
		if err := a.prepareSameDay(); err != nil {
			bad("%w", err)
		}
	case FormatPain:
		if a.BIC != "" && !iso20022.IsBIC(a.BIC) {
			bad("bic %q is not a BIC", a.BIC)
		}
		if a.Currency == money.EUR && !isSEPA(a.Number) {
			bad("the number of an account in EUR must be an IBAN of a country in SEPA")
		}
		if latin(a.Town) == "" {
			bad("town is missing; banks refuse an address without a town")
		}
		if !country.Exists(a.Country) {
			bad("country %q is not a country code such as DE; banks refuse an address without a country", a.Country)
		}
		if !slices.Contains([]string{"", iso20022.Order09, iso20022.Order11}, a.Version) {
			bad("version %q is neither %s nor %s", a.Version, iso20022.Order09, iso20022.Order11)
		}
	case FormatIncrease, FormatColumn:
		if a.Currency != money.USD {
			bad("currency %q: an account at %s must be in USD", a.Currency, a.Format)
		}
		if most, err := money.Parse(a.Currency, cmp.Or(a.InstantLimit, "0")); err != nil || most.Sign() < 0 {
			bad("instant_limit %q is not an amount such as 25000.00", a.InstantLimit)
		}
	case FormatWise:
		if !isNumber(a.Profile) || !isNumber(a.Number) {
			bad("profile and number must be the numeric IDs of the profile and the balance at Wise")
		}
		for _, x := range a.Pays {
			if _, known := money.Lookup(string(x)); !known || x.IsCrypto() {
				bad("pays: %q is not a currency", x)
			}
		}
	default:
		bad("format %q is neither nacha, pain.001, increase, column nor wise", a.Format)
	}
	if a.CTX && a.Format != FormatNACHA {
		bad("ctx is only for accounts with format nacha")
	}
	if len(a.Pays) > 0 && a.Format != FormatWise {
		bad("pays is only for accounts with format wise")
	}
	return errors.Join(problems...)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func timeOfDay(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
}

// prepareSameDay parses the deadlines of same-day ACH. Each deadline must not be later than the deadline that the ACH
// operators set for banks, in winter and in summer.
func (a *Account) prepareSameDay() error {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil || a.zone == nil {
		return err
	}
	if len(a.SameDay) > len(nacha.SameDayWindows) {
		return fmt.Errorf("same_day has %d deadlines; there are %d windows", len(a.SameDay), len(nacha.SameDayWindows))
	}
	a.sameDay, a.newYork = make([]time.Duration, len(a.SameDay)), newYork
	for i, text := range a.SameDay {
		if text == "" {
			continue
		}
		at, err := time.Parse("15:04", text)
		if err != nil {
			return fmt.Errorf("same_day %q is not a time of day such as 14:15", text)
		}
		a.sameDay[i] = timeOfDay(at)
		for _, month := range []time.Month{time.January, time.July} {
			there := time.Date(2026, month, 15, at.Hour(), at.Minute(), 0, 0, a.zone)
			closes := nacha.SameDayWindows[i].Closes(there, newYork)
			if a.sameDay[i] == 0 || there.In(newYork).Day() != 15 || there.After(closes) {
				return fmt.Errorf("same_day %q is after %s in New York, when the window closes for banks, in %s", text,
					closes.Format("15:04"), month)
			}
		}
	}
	return nil
}

// sameDayWindow returns the index of the window in which a payment that the bank receives now settles, or -1 if the
// payment cannot settle today. A window ends when it closes for banks on that day in New York, even if the account's
// deadline in its own zone is later, as in the weeks in which only one of the zones has summer time.
func (a Account) sameDayWindow(now time.Time, cents int64) int {
	now = now.In(a.zone)
	if !a.Calendar.isBusinessDay(now) || cents > nacha.SameDayMaxCents {
		return -1
	}
	for i, deadline := range a.sameDay {
		if timeOfDay(now) < deadline && now.Before(nacha.SameDayWindows[i].Closes(now, a.newYork)) {
			return i
		}
	}
	return -1
}

// settlement returns the day on which an ACH payment that is written to a file now settles. window is the descriptive
// date that asks the bank for a same-day window, or "" if the payment settles on a later day.
func (a Account) settlement(now time.Time, cents int64) (day time.Time, window string) {
	if i := a.sameDayWindow(now, cents); i >= 0 {
		local := now.In(a.zone)
		return time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC), nacha.SameDayWindows[i].Date
	}
	return a.executionDay(now), ""
}

// maxReturnFee returns ReturnFee as an amount.
func (a Account) maxReturnFee() (money.Amount, error) {
	if a.ReturnFee == "" {
		return money.Zero(a.Currency), nil
	}
	return money.Parse(a.Currency, a.ReturnFee)
}

// MaxReturnFee returns the largest amount that the bank may withhold from a returned payment or charge for a returned
// debit.
func (a Account) MaxReturnFee() money.Amount {
	fee, err := a.maxReturnFee()
	if err != nil {
		return money.Zero(a.Currency)
	}
	return fee
}

// Identifiers returns the account's IBAN or, if Number is not an IBAN, its local number.
func (a Account) Identifiers() (iban, number string) {
	if iso20022.IsIBAN(a.Number) {
		return a.Number, ""
	}
	return "", a.Number
}

// ByAPI reports whether payments are ordered through the bank's API.
func (a Account) ByAPI() bool {
	return a.Format == FormatIncrease || a.Format == FormatColumn || a.Format == FormatWise
}

// AllowsInstant reports whether an amount is within InstantLimit.
func (a Account) AllowsInstant(x money.Amount) bool {
	most, err := money.Parse(a.Currency, a.InstantLimit)
	return a.InstantLimit == "" || err == nil && x.Cmp(most) <= 0
}

// ChooseAccount returns the account from which a payment to a destination in the country to is made. A destination
// for ACH payments in the United States is paid from an account with an API or else from an account with NACHA files.
// Other destinations are paid from an account for credit transfers or else from an account at Wise. If the paying
// company or the payee is outside of the United States, an ACH payment would be an international transaction (IAT),
// which this package does not support; such a payment needs an account for credit transfers. party is the country of
// a party that is abroad; if no party is abroad, the country of any party; "" if unknown.
func ChooseAccount(accounts []Account, asset money.Asset, to, scheme, party string) (Account, bool) {
	formats := []string{FormatPain, FormatWise}
	switch {
	case asset == money.USD && to == "US" && scheme == "fedwire":
		formats = []string{FormatIncrease, FormatColumn, FormatPain}
	case asset == money.USD && to == "US" && scheme == "ach" && // it has all data for a credit transfer
		(party == "" || country.InUnitedStates(party)):
		formats = []string{FormatIncrease, FormatColumn, FormatNACHA, FormatPain, FormatWise}
	}
	for _, format := range formats {
		for _, a := range accounts {
			if (a.Currency == asset || slices.Contains(a.Pays, asset)) && a.Format == format {
				return a, true
			}
		}
	}
	return Account{}, false
}

// OnlyInternationalACH reports whether a destination cannot be paid because a party is outside of the United States,
// and could be paid if both parties were inside.
func OnlyInternationalACH(accounts []Account, asset money.Asset, to, scheme, party string) bool {
	_, payable := ChooseAccount(accounts, asset, to, scheme, party)
	_, otherwise := ChooseAccount(accounts, asset, to, scheme, "US")
	return !payable && otherwise
}

// party returns the country of the party of a payment that is outside of the United States: the payee, by the address
// of the account's holder, or else the payer. If neither is, it returns the payer's country.
func (d Destination) party(payerCountry string) string {
	var data struct {
		Address struct {
			Country string `json:"country"`
		} `json:"address"`
	}
	if err := json.Unmarshal(d.Data, &data); err != nil || payerCountry != "" && !country.InUnitedStates(payerCountry) ||
		data.Address.Country == "" || country.InUnitedStates(data.Address.Country) {
		return payerCountry // an unreadable destination is refused when it is encoded
	}
	return data.Address.Country
}

// Day returns the date of a time in the time zone of the account's bank, such as 2026-03-02.
func (a Account) Day(at time.Time) string {
	if a.zone != nil {
		at = at.In(a.zone)
	}
	return at.Format(time.DateOnly)
}

// executionDay returns the day on which the bank executes a file that it receives now: today if today is a business
// day and the cut-off has not passed, otherwise the next business day. For NACHA files it returns the business day
// after that, on which the money arrives, because NACHA files state that day.
func (a Account) executionDay(now time.Time) time.Time {
	local := now.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	if a.Calendar.isBusinessDay(day) && timeOfDay(local) >= a.cutOff {
		day = day.AddDate(0, 0, 1)
	}
	day = a.Calendar.nextBusinessDay(day)
	if a.Format == FormatNACHA {
		day = a.Calendar.nextBusinessDay(day.AddDate(0, 0, 1))
	}
	return day
}

// Payment is one payment of a file.
type Payment struct {
	Amount  money.Amount
	Country string          // country code of the destination
	Scheme  string          // payment scheme, such as ach or sepa_ct
	Data    json.RawMessage // fields of the destination
	Details payout.Details
	Instant bool // SEPA instant payment, which the bank executes at once
	Prenote bool // ACH entry of zero that only checks the account
}

// Message is an encoded payment file.
type Message struct {
	Name    string    // file name, such as S0000012.xml
	Execute time.Time // earliest day on which a payment of the file is executed
	Body    []byte
	Instant bool  // SEPA instant payments
	Parts   []int // for each payment, the number (from 1) of the debit of the account that covers it
}

// FileReference returns the reference of a file, such as S0000012.
func FileReference(number int64) string { return fmt.Sprintf("S%07d", number) }

// PaymentReference returns the reference of a payment, such as S0000012P00003; positions start at 1.
func PaymentReference(number int64, position int) string {
	return fmt.Sprintf("S%07dP%05d", number, position)
}

// Reference identifies a file and, if not 0, a payment or a part in it.
type Reference struct {
	File     int64
	Position int
	Part     int
}

var referencePattern = regexp.MustCompile(`(?:^|[^A-Za-z0-9])S([0-9]{7})(?:([PB])([0-9]{5}))?(?:$|[^A-Za-z0-9])`)

// FindReference returns the first reference in the given texts. A reference to a payment or a part takes precedence
// over a reference to a file.
func FindReference(texts ...string) (n Reference, ok bool) {
	for _, text := range texts {
		for _, m := range referencePattern.FindAllStringSubmatch(text, 8) {
			file, _ := strconv.ParseInt(m[1], 10, 64)
			at, _ := strconv.Atoi(m[3])
			found := Reference{File: file}
			switch m[2] {
			case "P":
				found.Position = at
			case "B":
				found.Part = at
			}
			if !ok || n.Position == 0 && n.Part == 0 && found != (Reference{File: file}) {
				n, ok = found, true
			}
		}
	}
	return n, ok
}

// Part is a part of a payment's amount that the bank sent back. It is not known why, or whether the rest will follow.
type Part struct {
	Payment string // payment reference, such as S0000012P00003
	Amount  money.Amount
}

// errDestination reports that a destination lacks data that the bank requires.
var errDestination = errors.New("the destination lacks data that the bank requires")

// errTooLarge reports that a payment exceeds the limit of its format.
var errTooLarge = errors.New("the payment exceeds the limit of the file format")

// Check reports whether a payment can be part of a file of the account. The error wraps errDestination if the
// destination is unusable, and is errTooLarge if the amount is too large.
func (a Account) Check(now time.Time, p Payment) error {
	if a.Format == FormatNACHA && p.Amount.Units() > nacha.MaxCents {
		return errTooLarge
	}
	// Encode the payment alone: a payment that cannot be encoded must not block the file of all others.
	if _, err := a.Encode(1, now, []Payment{p}); err != nil {
		return fmt.Errorf("%w: %w", errDestination, err)
	}
	return nil
}

// Encode returns the payment file with the given number.
func (a Account) Encode(number int64, now time.Time, payments []Payment) (Message, error) {
	if number < 1 || number > 9_999_999 || len(payments) > maxPayments {
		return Message{}, fmt.Errorf("bank: file %d with %d payments is out of range", number, len(payments))
	}
	f := Message{Execute: a.executionDay(now), Parts: make([]int, len(payments))}
	if a.ByAPI() {
		body, err := a.encodeOrders(payments)
		f.Name, f.Body, f.Parts = FileReference(number)+apiSuffix, body, slices.Repeat([]int{1}, len(payments))
		return f, err
	}
	transfers := make([]transfer, len(payments))
	for i, p := range payments {
		t, err := a.transfer(p)
		if err != nil {
			return f, fmt.Errorf("payment %d: %w", i+1, err)
		}
		t.ID = PaymentReference(number, i+1)
		transfers[i], f.Parts[i] = t, 1
	}
	var err error
	if a.Format == FormatNACHA {
		f.Name = FileReference(number) + nachaSuffix
		out := a.nacha(number, now)
		for i, p := range payments {
			t, d := transfers[i], p.Details
			if p.Prenote {
				out.Entries = append(out.Entries, nacha.Entry{ID: t.ID, Name: t.Creditor.Name, Routing: t.routing,
					Account: t.Creditor.Account, Savings: t.savings, Company: t.Company, Prenote: true,
					Description: nacha.Prenote, Effective: f.Execute})
				continue
			}
			out.Payer = d.Payer // a file belongs to one company
			day, window := a.settlement(now, t.Amount.Units())
			if i == 0 || day.Before(f.Execute) {
				f.Execute = day
			}
			out.Entries = append(out.Entries, nacha.Entry{ID: t.ID, Name: t.Creditor.Name, Routing: t.routing,
				Account: t.Creditor.Account, Savings: t.savings, Company: t.Company, Cents: t.Amount.Units(),
				Description: entryDescription(d.Purpose, t.Company), Effective: day, Window: window,
				Addenda: nacha.Remittance(d.Invoice, d.Description, t.Amount.Units())})
			if a.CTX && t.Company && d.Invoice != "" && d.Description != "" {
				text, err := nacha.Advice{Reference: t.ID, Payer: cmp.Or(d.Payer, a.Name), Payee: t.Creditor.Name,
					Invoice: d.Invoice, Note: d.Description, Cents: t.Amount.Units(), Created: now.In(a.zone),
					Effective: day}.Encode()
				if err == nil { // otherwise the entry stays a CCD entry: its texts are empty in X12
					e := &out.Entries[len(out.Entries)-1]
					e.CTX, e.Addenda = true, text
				}
			}
		}
		if f.Parts, err = out.Parts(); err == nil {
			f.Body, err = out.Write()
		}
		return f, err
	}
	f.Name, f.Instant = FileReference(number)+".xml", payments[0].Instant
	scheme := a.scheme()
	if payments[0].Instant {
		local := now.In(a.zone)
		scheme, f.Execute = iso20022.SEPAInstant, time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	}
	o := iso20022.Order{Version: a.Version, ID: FileReference(number), Created: now, Execute: f.Execute,
		Scheme: scheme, Category: purposeCode(payments[0].Details.Purpose), Initiator: latin(a.Name),
		Debtor: iso20022.Party{Name: latin(a.Name), Account: a.Number, Bank: a.BIC},
		Address: iso20022.Address{Street: latin(a.Street), PostCode: latin(a.PostCode), Town: latin(a.Town),
			Country: a.Country}}
	if len(transfers) > 1 && scheme != iso20022.CreditTransfer {
		o.Instruction = a.VerificationOptOut
	}
	for _, t := range transfers {
		o.Transfers = append(o.Transfers, t.Transfer)
	}
	f.Body, err = o.Write()
	return f, err
}

// entryDescription returns the company entry description of an ACH credit to a person or a company. PAYROLL is only
// for wages that are paid to people.
func entryDescription(p payout.Purpose, toCompany bool) string {
	switch {
	case p == payout.PurposeVendor:
		return nacha.Vendor
	case p == payout.PurposeWages && !toCompany:
		return nacha.Payroll
	}
	return nacha.Other
}

func (a Account) nacha(number int64, now time.Time) nacha.File {
	const modifiers = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return nacha.File{
		Originator: nacha.Originator{Name: a.Name, ID: a.CompanyID, ODFI: a.Routing, Account: a.Number, Savings: a.Savings,
			Destination:     a.Destination,
			DestinationName: a.DestinationName, Origin: a.Origin},
		Created: now.In(a.zone), Modifier: modifiers[number%int64(len(modifiers))], Reference: FileReference(number),
	}
}

// transfer is a payment with the fields of its destination.
type transfer struct {
	iso20022.Transfer
	holder  string // name of the account's holder, in Latin letters
	routing string // routing number of a bank in the United States
	savings bool
}

func (a Account) transfer(p Payment) (t transfer, err error) {
	var d map[string]any
	if err := json.NewDecoder(bytes.NewReader(p.Data)).Decode(&d); err != nil {
		return t, fmt.Errorf("%w: %w", errDestination, err)
	}
	get := func(key string) string { s, _ := d[key].(string); return strings.TrimSpace(s) }
	t.Amount, t.Company, t.savings = p.Amount, get("account_holder_type") == "business", get("account_type") == "savings"
	t.holder, t.routing = latin(get("account_holder_name")), get("routing_number")
	t.Creditor.Name = t.holder
	if kana := get("account_holder_kana"); kana != "" {
		t.Creditor.Name = kana
	}
	for _, n := range country.AccountNumbers {
		if v := get(n.Field); v != "" && t.Creditor.Account == "" {
			t.Creditor.Account, t.Number, t.Proxy = v, n.Scheme, n.Field == "pix_key"
		}
	}
	if t.Creditor.Account == "" || t.Creditor.Name == "" || a.scheme() == iso20022.SEPA && !isSEPA(t.Creditor.Account) {
		return t, errDestination
	}
	t.Creditor.Bank = get("bic")
	if code := get("bank_code"); iso20022.IsBIC(code) {
		t.Creditor.Bank = code
	}
	if !iso20022.IsIBAN(t.Creditor.Account) {
		t.Clearing = clearingMember(p.Country, p.Scheme, t.Creditor.Account, t.Creditor.Bank, get)
	}
	t.Kind = country.AccountType(get("account_type"))
	if kind := get("pix_key_type"); kind != "" {
		t.Number += " " + kind
	}
	t.BankName, t.LocalPurpose, t.Email = latin(get("bank_name")), get("purpose_code"), get("email")
	t.Purpose = purposeCode(p.Details.Purpose)
	if phone := get("phone_number"); phone != t.Creditor.Account {
		t.Phone = phone
	}
	switch {
	case get("tax_id") != "":
		t.TaxID = get("tax_id")
	case get("id_number") != "":
		t.TaxID, t.IDKind = get("id_number"), get("id_type")
	case get("date_of_birth") != "": // the date distinguishes people of the same name
		t.TaxID, t.IDKind = get("date_of_birth"), "date of birth"
	}
	if home, ok := d["address"].(map[string]any); ok {
		at := func(key string) string { s, _ := home[key].(string); return latin(s) }
		t.Address = iso20022.Address{Street: at("address_line1"), Line: at("address_line2"), PostCode: at("postal_code"),
			Town: at("city"), State: at("state"), Country: at("country")}
	}
	t.Remittance, t.UltimateDebtor, t.UltimateLEI = remittance(p.Details), latin(p.Details.Payer), p.Details.PayerLEI
	if from := p.Details; latin(from.PayerTown) != "" && from.PayerCountry != "" {
		t.UltimateAddress = iso20022.Address{Street: latin(from.PayerStreet), PostCode: latin(from.PayerPostCode),
			Town: latin(from.PayerTown), State: latin(from.PayerState), Country: from.PayerCountry}
	}
	return t, nil
}

// maxRemittance is the largest length of the text of a payment.
const maxRemittance = 140

// remittance returns the text of a payment on the payee's statement: its description and the number of the invoice,
// which is never truncated, or the payer's name if there is neither.
func remittance(d payout.Details) string {
	text, number := latin(d.Description), latin(d.Invoice)
	if strings.Contains(text, number) {
		number = ""
	}
	if number != "" {
		number = " " + number
	}
	if most := maxRemittance - len(number); len(text) > most {
		text = strings.TrimSpace(text[:max(most, 0)])
	}
	if text = strings.TrimSpace(text + number); text == "" {
		text = latin(d.Payer)
	}
	return text
}

// purposeCode returns the ISO 20022 code of a purpose, or "".
func purposeCode(p payout.Purpose) string {
	switch p {
	case payout.PurposeWages:
		return "SALA"
	case payout.PurposeVendor:
		return "SUPP"
	case payout.PurposeOther:
	}
	return ""
}

// scheme returns the scheme of the account's files that are not for instant payments.
func (a Account) scheme() iso20022.Scheme {
	if a.Currency == money.EUR && a.Format == FormatPain {
		return iso20022.SEPA
	}
	return iso20022.CreditTransfer
}

// fileKey identifies the file to which a payment belongs, among the files made at the same time. A pain.001 file has
// one category purpose, so that the bank can book wages separately.
func (a Account) fileKey(p Payment) string {
	key := a.ID + " " + string(p.Amount.Asset()) + " " + a.Format
	if a.Format == FormatPain {
		key += fmt.Sprint(" ", purposeCode(p.Details.Purpose), p.Instant)
	}
	return key
}

// isSEPA reports whether an account number is a valid IBAN of a country whose accounts SEPA reaches.
func isSEPA(number string) bool {
	if !iso20022.IsIBAN(number) {
		return false
	}
	c := country.Find(number[:2])
	return c != nil && c.SEPA && c.IBAN != nil && c.IBAN.MatchString(number)
}

// clearingMember returns the national code of the payee's bank. If ISO 20022 does not define the clearing system, the
// system is named by country and scheme.
func clearingMember(countryCode, scheme, account, bic string, get func(string) string) iso20022.Member {
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

// latin replaces every character of a text that is not accepted by every bank, and collapses spaces.
func latin(s string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if iso20022.IsSEPACharacter(r) {
			return r
		}
		return ' '
	}, unidecode.Unidecode(s))), " ")
}
