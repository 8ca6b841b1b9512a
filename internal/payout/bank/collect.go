package bank

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// DebitScheme is a scheme of direct debits.
type DebitScheme string

// Schemes of direct debits.
const (
	SEPACore DebitScheme = "sepa_core" // SEPA Direct Debit Core
	SEPAB2B  DebitScheme = "sepa_b2b"  // SEPA Direct Debit Business-to-Business
	ACHCCD   DebitScheme = "ach_ccd"   // ACH debit of a company's account
	ACHWEB   DebitScheme = "ach_web"   // ACH debit of a consumer's account, authorized on the internet
)

// DebitSchemes lists all schemes of direct debits.
var DebitSchemes = []DebitScheme{SEPACore, SEPAB2B, ACHCCD, ACHWEB}

// Asset returns the currency of a scheme.
func (s DebitScheme) Asset() money.Asset {
	if s.SEPA() {
		return money.EUR
	}
	return money.USD
}

// SEPA reports whether the scheme is a SEPA scheme.
func (s DebitScheme) SEPA() bool { return s == SEPACore || s == SEPAB2B }

// defaultTerms are the rules of the schemes, unless an account overrides them. docs/adr explains each number.
var defaultTerms = map[DebitScheme]DebitTerms{
	SEPACore: {Notice: 14, Hold: 63, calendarHold: true},
	SEPAB2B:  {Notice: 14, Hold: 4},
	ACHCCD:   {Notice: 1, Hold: 3},
	ACHWEB:   {Notice: 10, Hold: 62, calendarHold: true},
}

// DebitTerms are the rules of one scheme of direct debits.
type DebitTerms struct {
	Notice int `json:"notice_days"` // calendar days between the pre-notification and the due date
	// Hold is the time between the credit and the use of the money: calendar days for sepa_core and ach_web, banking
	// days for sepa_b2b and ach_ccd.
	Hold int `json:"hold_days"`

	calendarHold bool
}

// Debits has the rules of an account for direct debits.
type Debits struct {
	// CreditorID is the operator's SEPA creditor identifier, required for EUR.
	CreditorID string `json:"creditor_id,omitempty"`
	// Version is the version of pain.008 that the bank reads: pain.008.001.08, the default, or pain.008.001.02.
	Version string `json:"version,omitempty"`
	// Lead is the number of business days before the due date by which the bank must have a file; default 1.
	Lead int `json:"lead_days,omitempty"`
	// Most is the largest amount of one debit, such as 50000.00; empty means the limit of the format.
	Most string `json:"max_amount,omitempty"`
	// Schemes are the schemes that the bank has agreed to, with their rules; 0 means the default of the scheme.
	Schemes map[DebitScheme]DebitTerms `json:"schemes"`
}

// prepareDebits checks the rules for direct debits, and sets the defaults.
func (a *Account) prepareDebits() error {
	d := a.Debits
	if d == nil {
		return nil
	}
	if a.Currency == money.USD && a.Calendar == Weekdays { // ACH returns count banking days of the Federal Reserve
		a.Calendar = FederalReserve
	}
	most, err := money.Parse(a.Currency, cmp.Or(d.Most, "0"))
	switch {
	case len(d.Schemes) == 0:
		return errors.New("debits.schemes is missing: name the schemes that the bank agreed to")
	case d.Lead < 0 || d.Lead > 14:
		return errors.New("debits.lead_days must be between 0 and 14")
	case err != nil || most.Sign() < 0:
		return fmt.Errorf("debits.max_amount %q is not an amount such as 50000.00", d.Most)
	case !slices.Contains([]string{"", iso20022.Collection02, iso20022.Collection08}, d.Version):
		return fmt.Errorf("debits.version %q is neither %s nor %s", d.Version, iso20022.Collection08, iso20022.Collection02)
	case a.Currency == money.EUR && !iso20022.IsCreditorID(d.CreditorID):
		return fmt.Errorf("debits.creditor_id %q is not a SEPA creditor identifier", d.CreditorID)
	}
	d.Lead = cmp.Or(d.Lead, 1)
	for scheme, t := range d.Schemes {
		std, known := defaultTerms[scheme]
		formats := []string{FormatNACHA, FormatIncrease, FormatColumn}
		if scheme.SEPA() {
			formats = []string{FormatPain}
		}
		if !known || scheme.Asset() != a.Currency || !slices.Contains(formats, a.Format) {
			return fmt.Errorf("debits.schemes: an account in %s with format %s has no scheme %q", a.Currency, a.Format, scheme)
		}
		if t.Notice < 0 || t.Notice > 60 || t.Hold < 0 || t.Hold > 400 {
			return fmt.Errorf("debits.schemes: notice_days of %s must be between 0 and 60, and hold_days between 0 and 400",
				scheme)
		}
		d.Schemes[scheme] = DebitTerms{cmp.Or(t.Notice, std.Notice), cmp.Or(t.Hold, std.Hold), std.calendarHold}
	}
	return nil
}

// DebitAccount returns the account that collects direct debits of a scheme. It prefers an account with an API.
func DebitAccount(accounts []Account, scheme DebitScheme) (Account, bool) {
	for _, api := range []bool{true, false} {
		for _, a := range accounts {
			if a.Debits != nil && a.ByAPI() == api {
				if _, ok := a.Debits.Schemes[scheme]; ok {
					return a, true
				}
			}
		}
	}
	return Account{}, false
}

// DueDate returns the due date of a debit that is announced now: the wanted day or, if that is zero or too early, the
// first business day after the scheme's notice that the bank can still meet.
func (a Account) DueDate(scheme DebitScheme, now, wanted time.Time) time.Time {
	local := now.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC).
		AddDate(0, 0, a.Debits.Schemes[scheme].Notice)
	return a.Calendar.nextBusinessDay(latest(day, wanted, a.EarliestDue(now)))
}

// EarliestDue returns the first due date of a file that the bank receives now.
func (a Account) EarliestDue(now time.Time) time.Time {
	local := now.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	if a.Calendar.isBusinessDay(day) && timeOfDay(local) >= a.cutOff {
		day = day.AddDate(0, 0, 1)
	}
	return a.addBusinessDays(day, a.Debits.Lead)
}

// SubmitAt returns the time from which a debit can be sent to the bank: the start of the last day on which the bank
// can still meet the due date.
func (a Account) SubmitAt(due time.Time) time.Time {
	for range a.Debits.Lead {
		for due = due.AddDate(0, 0, -1); !a.Calendar.isBusinessDay(due); {
			due = due.AddDate(0, 0, -1)
		}
	}
	return time.Date(due.Year(), due.Month(), due.Day(), 0, 0, 0, 0, a.zone)
}

// HoldEnd returns the time at which the hold of money that was credited at a time ends.
func (a Account) HoldEnd(scheme DebitScheme, credited time.Time) time.Time {
	t := a.Debits.Schemes[scheme]
	local := credited.In(a.zone)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	if t.calendarHold {
		day = a.Calendar.nextBusinessDay(day.AddDate(0, 0, t.Hold))
	} else {
		day = a.addBusinessDays(day, t.Hold)
	}
	return time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, a.zone).Add(a.cutOff)
}

// addBusinessDays returns the business day that is n business days after a day. If the day is not a business day, it
// counts from the next business day.
func (a Account) addBusinessDays(day time.Time, n int) time.Time {
	day = a.Calendar.nextBusinessDay(day)
	for range n {
		day = a.Calendar.nextBusinessDay(day.AddDate(0, 0, 1))
	}
	return day
}

func latest(days ...time.Time) time.Time { return slices.MaxFunc(days, time.Time.Compare) }

// MaxDebit returns the largest amount of one debit.
func (a Account) MaxDebit() money.Amount {
	if most, err := money.Parse(a.Currency, a.Debits.Most); err == nil && most.Sign() > 0 {
		return most
	}
	return money.New(a.Currency, nacha.MaxCents)
}

// DebitOrder is a direct debit from a company's account.
type DebitOrder struct {
	Payment  // Data has the debited account
	Kind     DebitScheme
	Mandate  string    // reference of the mandate
	Signed   time.Time // day on which the mandate was accepted
	Sequence string    // SEPA sequence type, such as [iso20022.First]
	Due      time.Time
	Retry    bool // the order repeats a returned debit
}

// DebitReference returns the reference of a direct debit, such as D0000012. It is also the name of its file.
func DebitReference(number int64) string { return fmt.Sprintf("D%07d", number) }

// debitEntry returns the reference of the entry of a direct debit in its file.
func debitEntry(number int64) string { return DebitReference(number) + "P00001" }

var debitPattern = regexp.MustCompile(`(?:^|[^A-Za-z0-9])D([0-9]{7})(?:[PB]00001)?(?:$|[^A-Za-z0-9])`)

// FindDebit returns the number of the first direct debit whose reference is in the given texts. ok is false if there
// is none.
func FindDebit(texts ...string) (number int64, ok bool) {
	for _, text := range texts {
		if m := debitPattern.FindStringSubmatch(text); m != nil {
			number, _ = strconv.ParseInt(m[1], 10, 64)
			return number, true
		}
	}
	return 0, false
}

// DebitOf returns the number of the direct debit that an entry of a statement books or returns. A payer can write a
// reference into the text of a transfer, so the reference only counts if the entry is of a direct debit or the
// reference is in a field that the bank fills.
func DebitOf(e *iso20022.Entry) (number int64, ok bool) {
	if number, ok = FindDebit(e.Batch.PaymentInfoID, e.Batch.MessageID); ok {
		return number, true
	}
	isDebit := func(t iso20022.Type) bool { return t.Family == "IDDT" }
	for _, d := range e.Details {
		if isDebit(e.Type) || isDebit(d.Type) {
			if number, ok = FindDebit(d.EndToEndID, d.InstructionID, d.PaymentInfoID, d.MessageID, d.Info); ok {
				return number, true
			}
		}
	}
	if isDebit(e.Type) {
		return FindDebit(e.Reference, e.Servicer, e.Info)
	}
	return 0, false
}

// EncodeDebit returns the file with a direct debit. For a bank with an API, the file contains the stored order.
func (a Account) EncodeDebit(number int64, now time.Time, o DebitOrder) (Message, error) {
	if number < 1 || number > 9_999_999 {
		return Message{}, fmt.Errorf("bank: direct debit %d is out of range", number)
	}
	m := Message{Execute: o.Due, Parts: []int{1}}
	t, err := a.transfer(o.Payment)
	if err != nil {
		return m, err
	}
	switch {
	case o.International():
		return m, fmt.Errorf("direct debit %d would be international (IAT): a party is in %s", number, o.party())
	case a.ByAPI():
		m.Name = DebitReference(number) + apiSuffix
		m.Body, err = json.Marshal(storedOrder{Units: o.Amount.Units(), Country: o.Country, Scheme: o.Scheme, Data: o.Data,
			Details: o.Details})
	case o.Kind.SEPA():
		m.Name = DebitReference(number) + ".xml"
		m.Body, err = iso20022.Collection{Version: a.Debits.Version, ID: DebitReference(number), Created: now, Due: o.Due,
			Instrument: map[DebitScheme]string{SEPACore: iso20022.Core, SEPAB2B: iso20022.B2B}[o.Kind], Sequence: o.Sequence,
			Creditor: iso20022.Party{Name: latin(a.Name), Account: a.Number, Bank: a.BIC}, CreditorID: a.Debits.CreditorID,
			Address: iso20022.Address{Street: latin(a.Street), PostCode: latin(a.PostCode), Town: latin(a.Town),
				Country: a.Country},
			Debits: []iso20022.Debit{{ID: debitEntry(number), Amount: o.Amount, Mandate: o.Mandate, Signed: o.Signed,
				Debtor: t.Creditor, Address: o.debtorAddress(t), Remittance: remittance(o.Details)}}}.Write()
	default:
		m.Name = DebitReference(number) + ".ach"
		f := a.nacha(number, now)
		f.Reference = DebitReference(number)
		f.Entries = []nacha.Entry{{ID: debitEntry(number), Name: t.Creditor.Name, Routing: t.routing,
			Account: t.Creditor.Account, Savings: t.savings, Cents: o.Amount.Units(), Description: debitDescription(o.Retry),
			Effective: o.Due, Debit: debitClass(o.Kind)}}
		m.Body, err = f.Write()
	}
	return m, err
}

// party returns the country of the party of an ACH debit that is abroad; see [Destination].
func (o DebitOrder) party() string { return Destination{Data: o.Data}.party(o.Details.PayerCountry) }

// International reports whether this is an ACH debit with a party outside of the United States. Such a debit would be
// an international transaction (IAT) and is not made.
func (o DebitOrder) International() bool {
	return !o.Kind.SEPA() && o.party() != "" && !country.InUnitedStates(o.party())
}

// LacksAddress reports whether a bank refuses the debit because the company's address is unknown.
func (o DebitOrder) LacksAddress() bool {
	t, err := Account{}.transfer(o.Payment)
	return err == nil && o.Kind.SEPA() && iso20022.NeedsAddress(t.Creditor.Account) && o.debtorAddress(t) ==
		iso20022.Address{}
}

// debtorAddress returns the address of the debited company if the bank requires it, or else no address.
func (o DebitOrder) debtorAddress(t transfer) iso20022.Address {
	if !iso20022.NeedsAddress(t.Creditor.Account) {
		return iso20022.Address{}
	}
	return t.UltimateAddress
}

// debitDescription returns the company entry description of an ACH debit.
func debitDescription(retry bool) string {
	if retry {
		return nacha.Retry
	}
	return nacha.Funding
}

func debitClass(s DebitScheme) nacha.Debit {
	if s == ACHWEB {
		return nacha.WebDebit
	}
	return nacha.CompanyDebit
}

// DebitOrderFor returns the order of a direct debit for the bank's API.
func (a Account) DebitOrderFor(number int64, o DebitOrder) Order {
	return Order{Account: a, Reference: debitEntry(number), Method: methodACH, Payment: o.Payment,
		Debit: debitClass(o.Kind), Retry: o.Retry}
}

// DebitOutcome is the outcome of a direct debit that a bank reports.
type DebitOutcome int

// Outcomes of a direct debit.
const (
	DebitAccepted  DebitOutcome = iota // the bank has the file
	DebitCollected                     // the amount was credited to the account
	DebitRejected                      // the bank does not collect the debit
	DebitReturned                      // the amount was taken back, or the debtor's bank does not pay
)

// DebitFact is one fact that a bank reports about a direct debit.
type DebitFact struct {
	Number  int64
	Outcome DebitOutcome
	Code    string       // reason of a rejection or return, such as R01 or AC04, or ""
	Info    string       // text of the bank
	Amount  money.Amount // without an asset if the bank states no amount
	Booked  bool         // the fact is an entry on an account statement
}

// ReasonText returns a short description of a reason code, or "" if it is unknown.
func ReasonText(code string) string {
	return cmp.Or(nacha.ReasonText(code), iso20022.ReasonText(code))
}

// debitEntryFacts returns one fact for each detail of a collective entry, otherwise one fact for the whole entry.
func debitEntryFacts(number int64, e *iso20022.Entry) []DebitFact {
	var all []DebitFact
	for _, d := range e.Details {
		n, ok := FindDebit(d.EndToEndID, d.InstructionID, d.PaymentInfoID, d.MessageID)
		if !ok || len(e.Details) < 2 {
			return []DebitFact{debitEntryFact(number, e)}
		}
		one := *e
		one.Amount, one.Details = d.Amount, []iso20022.Detail{d}
		all = append(all, debitEntryFact(n, &one))
	}
	if len(all) == 0 {
		all = append(all, debitEntryFact(number, e))
	}
	return all
}

// debitEntryFact returns the fact about a direct debit that an entry of a statement reports.
func debitEntryFact(number int64, e *iso20022.Entry) DebitFact {
	f := DebitFact{Number: number, Outcome: DebitCollected, Amount: e.Amount, Booked: true}
	if !e.Credit || e.Returned(e.Details...) {
		f.Outcome = DebitReturned
	}
	for _, d := range e.Details {
		f.Code, f.Info = cmp.Or(f.Code, d.ReturnReason), cmp.Or(f.Info, strings.Join(d.ReturnInfo, " "))
	}
	return f
}

// debitStatusFacts returns the facts that a status report contains about the file of a direct debit.
func debitStatusFacts(number int64, st iso20022.Status) (facts []DebitFact) {
	add := func(code string, why []iso20022.Reason) {
		f := DebitFact{Number: number}
		switch iso20022.OutcomeOf(code) {
		case iso20022.Rejected:
			f.Outcome = DebitRejected
		case iso20022.Accepted, iso20022.Paid, iso20022.Mixed:
		case iso20022.Unknown:
			return
		}
		for _, r := range why {
			f.Code, f.Info = cmp.Or(f.Code, r.Code), strings.TrimSpace(f.Info+" "+strings.Join(r.Info, " "))
		}
		facts = append(facts, f)
	}
	for _, p := range st.Payments {
		if len(p.Reasons) == 0 && p.Code == st.Code { // the reason applies to the whole file
			p.Reasons = st.Reasons
		}
		add(p.Code, p.Reasons)
	}
	add(st.Code, st.Reasons)
	return facts
}
