package bank

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// Sandbox simulates a bank that exchanges files through a local directory. It responds to each file at once: it
// accepts and books the file, and returns or rejects payments to special account numbers.
//
// The last six digits of the payee's account number select the outcome of a payment. 990NNN returns the payment.
// 991NNN rejects it or, for ACH, asks for a correction. 992NNN rejects it only as an instant payment. NNN is the
// number of the ACH code (R03 is 003, C01 is 001) or the position, from 1, of the ISO reason in [SandboxReasons].
// 993001 is a close match of the payee's name, 993002 is no match, and 993003 cannot be verified. 994NNN pays the
// payment, but returns its reversal with the ACH code R and NNN. Payments to other numbers succeed.
//
// A direct debit of an account with 990NNN is credited and then returned; a SEPA direct debit of an account with
// 991NNN is rejected. Debits of other accounts are credited as soon as the file is read.
//
// Each entry is reported at once (camt.054) and in the statement of its day (camt.053), which has the balances. ACH
// returns are in the statement only, because the bank reports them at once in a NACHA file.
type Sandbox struct {
	root     string
	accounts []Account
	newYork  *time.Location // time zone of the deadlines of ACH
	books    sync.Mutex     // held while entries are booked or a statement is made
}

// OpenSandbox returns a drop in a local directory and the simulated bank that reads it.
func OpenSandbox(root string) (*Drop, *Sandbox, error) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		return nil, nil, err
	}
	d, err := OpenFolder(root)
	return d, &Sandbox{root: root, accounts: SandboxAccounts(), newYork: newYork}, err
}

// ownerFile contains the ID of the database whose payments a simulated bank holds.
const ownerFile = "database"

// OpenSandboxFor is like OpenSandbox, for the database with an ID. It first deletes the simulated bank's data of
// another database, because a database that was created anew has other payments under the same references.
func OpenSandboxFor(root, id string) (*Drop, *Sandbox, error) {
	owner, err := os.ReadFile(filepath.Join(root, ownerFile))
	if err == nil && string(owner) != id {
		err = os.RemoveAll(root)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	d, s, err := OpenSandbox(root)
	if err != nil {
		return nil, nil, err
	}
	return d, s, writeWhole(root, ownerFile, []byte(id))
}

// sandboxInstant is the largest instant payment of the simulated bank, in cents.
const sandboxInstant = 100_000_00

// sandboxCalendars are the calendars of the simulated bank by currency. For other currencies, it is open on weekdays.
var sandboxCalendars = map[money.Asset]Calendar{money.USD: FederalReserve, money.EUR: Target, money.GBP: England}

// SandboxAccounts returns a fictitious account of the operator for each currency and format.
func SandboxAccounts() []Account {
	all := []Account{{ID: "sandbox", Currency: money.USD, Format: FormatNACHA, Name: "Stipend Sandbox",
		Number: sandboxACHNumber, Calendar: FederalReserve,
		CompanyID: "1234567890", Routing: "091000019", Destination: "091000019", DestinationName: "Sandbox Bank"}}
	for _, asset := range money.All() {
		if asset.IsCrypto() {
			continue
		}
		a := Account{ID: "sandbox", Currency: asset, Format: FormatPain, Name: "Stipend Sandbox",
			Number: sandboxNumbers(asset), Street: "1 Main Street", PostCode: "10115", Town: "Berlin", Country: "DE",
			Calendar: cmp.Or(sandboxCalendars[asset], Weekdays)}
		if asset == money.EUR {
			a.Instant = &Instant{Limit: "100000.00", From: "00:30", Until: "23:30", Fallback: true, most: sandboxInstant,
				from: 30 * time.Minute, until: 23*time.Hour + 30*time.Minute}
		}
		all = append(all, a)
	}
	for i := range all {
		all[i].CutOff, all[i].Zone, all[i].zone, all[i].cutOff = "16:00", "UTC", time.UTC, 16*time.Hour
	}
	all[0].Debits = &Debits{Schemes: map[DebitScheme]DebitTerms{ACHCCD: {}, ACHWEB: {}}}
	for i := range all {
		if all[i].Currency == money.EUR {
			all[i].Debits = &Debits{CreditorID: "DE98ZZZ09999999999",
				Schemes: map[DebitScheme]DebitTerms{SEPACore: {}, SEPAB2B: {}}}
		}
		if err := all[i].prepareDebits(); err != nil {
			panic(err) // cannot happen: the rules are constants
		}
	}
	if newYork, err := time.LoadLocation("America/New_York"); err == nil {
		ach := &all[0]
		ach.Zone, ach.zone, ach.newYork, ach.CutOff, ach.cutOff = newYork.String(), newYork, newYork, "17:30",
			17*time.Hour+30*time.Minute
		ach.sameDay = []time.Duration{10 * time.Hour, 14*time.Hour + 15*time.Minute, 16*time.Hour + 15*time.Minute}
	}
	return all
}

// SandboxReasons returns the ISO 20022 reasons that the simulated bank can give, sorted.
func SandboxReasons() []string { return iso20022.Reasons() }

// scenario is the simulated outcome that an account number selects.
type scenario struct {
	back, other, slow bool // slow: refused as an instant payment only
	unverified        bool // the account has a holder with another name
	keeps             bool // a reversal is returned
	number            int
}

var tail = regexp.MustCompile(`99([01234])([0-9]{3})$`)

func scenarioOf(account string) scenario {
	m := tail.FindStringSubmatch(strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, account))
	if m == nil {
		return scenario{}
	}
	n, _ := strconv.Atoi(m[2])
	return scenario{back: m[1] == "0", other: m[1] == "1", slow: m[1] == "2", unverified: m[1] == "3", keeps: m[1] == "4",
		number: n}
}

func (w scenario) iso() string {
	if all := SandboxReasons(); w.number >= 1 && w.number <= len(all) {
		return all[w.number-1]
	}
	return "MS03"
}

// sandboxPayment is a payment as the simulated bank reads it.
type sandboxPayment struct {
	id, account, name, trace string
	amount                   money.Amount
}

// ProcessFiles responds to every file in the drop and removes the file. It also sends the daily statements.
func (s *Sandbox) ProcessFiles(now time.Time) error {
	files, err := os.ReadDir(filepath.Join(s.root, partOut))
	if err != nil {
		return err
	}
	if err := s.stateAccounts(now); err != nil {
		return fmt.Errorf("sandbox bank: statements: %w", err)
	}
	for _, f := range files {
		if !fileName.MatchString(f.Name()) {
			continue // the file is only staged
		}
		at := filepath.Join(s.root, partOut, f.Name())
		body, err := os.ReadFile(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // another call has processed it
		case err != nil:
			return err
		case strings.HasSuffix(f.Name(), ".ach"):
			err = s.processACH(f.Name(), body, now)
		case bytes.Contains(body, []byte("<CstmrDrctDbtInitn>")):
			err = s.processCollection(f.Name(), body, now)
		default:
			err = s.processPain(f.Name(), body, now)
		}
		if err != nil {
			return fmt.Errorf("sandbox bank: %s: %w", f.Name(), err)
		}
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// processPain executes an order and reports its status. It refuses an order, or single payments, that break the rules
// of ISO 20022 and SEPA.
func (s *Sandbox) processPain(name string, body []byte, now time.Time) error {
	order, err := readOrder(body)
	if err != nil {
		return s.refuse(name, refusal{"FF01", err.Error()}, now)
	}
	group := order.all("PmtInf")[0]
	if r := refuseOrder(order, s.accounts, now); r != (refusal{}) {
		return s.refuse(name, r, now)
	}
	id := order.text("GrpHdr/MsgId")
	status := iso20022.Status{ID: "A" + id, Order: id, Code: "ACSP"}
	if err := s.verify(name, id, group, now); err != nil {
		return err
	}
	var back []iso20022.Entry
	var total money.Amount
	seen, instant := map[string]bool{}, group.text("PmtTpInf/LclInstrm/Cd") == "INST"
	for i, t := range group.all("CdtTrfTxInf") {
		p := sandboxPayment{id: t.text("PmtId/EndToEndId"), name: t.text("Cdtr/Nm"),
			account: t.text("CdtrAcct/Id/IBAN") + cmp.Or(t.text("CdtrAcct/Prxy/Id"), t.text("CdtrAcct/Id/Othr/Id"))}
		if p.amount, err = orderAmount(t); err != nil {
			return err
		}
		if i == 0 {
			total = money.Zero(p.amount.Asset())
		}
		r, w := refuseTransfer(group, t, p.amount), scenarioOf(p.account)
		switch {
		case r != (refusal{}):
		case seen[p.id]:
			r = refusal{"DU04", "another payment has this end-to-end identification"}
		case w.other, w.slow && instant:
			r = refusal{w.iso(), iso20022.ReasonText(w.iso())}
		}
		if seen[p.id] = true; r != (refusal{}) {
			status.Code = "PART"
			status.Payments = append(status.Payments,
				iso20022.PaymentStatus{ID: p.id, Code: "RJCT", Reasons: r.reasons()})
			continue
		}
		if total, err = total.Add(p.amount); err != nil {
			return err
		}
		if w.back {
			back = append(back, returnEntry(p, w.iso(), now))
		}
	}
	if err := s.writeStatus(name+".1.status.xml", status, now); err != nil || total.IsZero() {
		return err
	}
	debit := iso20022.Entry{Reference: id, Amount: total, Booked: now, Valued: now,
		Type:  iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: "ESCT"},
		Batch: iso20022.Batch{MessageID: id, PaymentInfoID: id}}
	return s.book(name, append([]iso20022.Entry{debit}, back...), notified, now)
}

// sandboxOptOut is the instruction to the simulated bank to execute a file without Verification of Payee.
const sandboxOptOut = "VOP OPT-OUT"

// verify reports the results of Verification of Payee of a SEPA order that has not opted out.
func (s *Sandbox) verify(name, id string, group *element, now time.Time) error {
	if !sepaGroup(group) || group.text("InstrForDbtrAgt") == sandboxOptOut {
		return nil
	}
	status := iso20022.Status{ID: "V" + id, Order: id, Code: "RCVC"}
	for _, t := range group.all("CdtTrfTxInf") {
		p := iso20022.PaymentStatus{ID: t.text("PmtId/EndToEndId"), Code: "RCVC"}
		switch result, name := verificationOf(t.text("CdtrAcct/Id/IBAN"), t.text("Cdtr/Nm")); result {
		case iso20022.CloseMatch:
			p.Code, p.Reasons = "RVMC", []iso20022.Reason{{Code: "NARR", Info: []string{name}}}
		case iso20022.NoMatch:
			p.Code = "RVNM"
		case iso20022.NotPossible:
			p.Code = "RVNA"
		case iso20022.Match:
		}
		if p.Code != "RCVC" {
			status.Code = "RVCM"
		}
		status.Payments = append(status.Payments, p)
	}
	if status.Code == "RCVC" { // the whole order
		status.Payments = nil
	}
	return s.writeStatus(name+".0.verification.xml", status, now)
}

// VerifyName implements Verifier by the account numbers that [Sandbox] documents.
func (s *Sandbox) VerifyName(_ context.Context, q NameQuery) (NameAnswer, error) {
	result, name := verificationOf(q.IBAN, q.Name)
	return NameAnswer{result, name}, nil
}

// verificationOf returns the simulated result for an account, and the holder's name for a close match.
func verificationOf(account, name string) (iso20022.Verification, string) {
	w := scenarioOf(account)
	switch {
	case !w.unverified:
		return iso20022.Match, ""
	case w.number == 1:
		return iso20022.CloseMatch, name + " Sandbox"
	case w.number == 2:
		return iso20022.NoMatch, ""
	}
	return iso20022.NotPossible, ""
}

// writeStatus reports the status of an order. It cuts IDs to 35 characters.
func (s *Sandbox) writeStatus(name string, status iso20022.Status, now time.Time) error {
	status.ID, status.Order = status.ID[:min(35, len(status.ID))], status.Order[:min(35, len(status.Order))]
	response, err := status.Write(now)
	if err != nil {
		return err
	}
	return s.writeResponse(name, response)
}

func returnEntry(o sandboxPayment, reason string, now time.Time) iso20022.Entry {
	return iso20022.Entry{Reference: "R" + o.id, Amount: o.amount, Credit: true, Booked: now, Valued: now,
		Type: iso20022.Type{Domain: "PMNT", Family: "RCDT", SubFamily: "RRTN"},
		Details: []iso20022.Detail{{EndToEndID: o.id, Amount: o.amount, Credit: true,
			Debtor:       iso20022.Party{Name: o.name, Account: o.account},
			ReturnReason: reason, ReturnInfo: []string{ReasonText(reason)}}}}
}

// Numbers of the operator's accounts at the simulated bank: for USD, and for all other currencies.
const (
	sandboxACHNumber = "123456789"
	sandboxNumber    = "DE89370400440532013000"
)

// sandboxNumbers returns the number of the operator's account in a currency, which is the same for all formats.
func sandboxNumbers(currency money.Asset) string {
	if currency == money.USD {
		return sandboxACHNumber
	}
	return sandboxNumber
}

func (s *Sandbox) processACH(name string, body []byte, now time.Time) error {
	entries, err := nacha.Inspect(body, now.In(s.newYork), FederalReserve.isBusinessDay)
	if err != nil {
		return s.refuse(name, refusedACH(err), now)
	}
	if err := s.checkCutOff(entries, now); err != nil {
		return s.refuse(name, refusedACH(err), now)
	}
	earlier, err := s.received(name)
	if err != nil {
		return err
	}
	if err := checkHistory(earlier, entries); err != nil {
		return s.refuse(name, refusedACH(err), now)
	}
	if err := s.remember(name, entries); err != nil {
		return err
	}
	var responses []nacha.Response
	var debits, back []iso20022.Entry
	for _, e := range entries {
		o := sandboxPayment{id: e.ID, account: e.Account, name: e.Name, trace: e.Trace, amount: money.New(money.USD, e.Cents)}
		if e.Description == nacha.Reversal {
			reversed, returned := reversalEntries(o, e.Debit, now)
			debits = append(debits, reversed...)
			responses = append(responses, returned...)
			continue
		}
		if number, ok := FindDebit(e.ID); ok {
			if !e.Debit { // the entry on the operator's account
				debits = append(debits, collectedEntry(number, o.amount, now))
			} else if w := scenarioOf(o.account); w.back {
				responses = append(responses, nacha.Response{ID: o.id, Name: o.name, Trace: o.trace, Debit: true,
					Code: w.ach(), Cents: o.amount.Units()})
				back = append(back, returnedDebitEntry(number, o.amount, w.ach(), now))
			}
			continue
		}
		if e.Debit {
			debits = append(debits, iso20022.Entry{Reference: o.id, Amount: o.amount, Booked: now, Valued: now,
				Info: "ACH " + o.id,
				Type: iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: "ACHT"}})
			continue
		}
		if a, ok := achResponse(o, scenarioOf(o.account)); ok {
			responses = append(responses, a)
			if !a.IsChange() && e.Cents > 0 { // the return of a prenote brings no money
				back = append(back, returnEntry(o, a.Code, now))
			}
		}
	}
	if err := s.book(name, debits, notified, now); err != nil || len(responses) == 0 {
		return err
	}
	return s.returnACH(name, responses, back, now)
}

// checkCutOff returns an error for entries that should settle on a later day than the day of the file, but before the
// first day whose cut-off has not passed. Same-day entries have the deadlines of their windows.
func (s *Sandbox) checkCutOff(entries []nacha.Received, now time.Time) error {
	a, err := s.account(money.USD)
	if err != nil {
		return err
	}
	first := a.executionDay(now.Add(-sandboxTolerance))
	for _, e := range entries {
		if e.Effective.Format(time.DateOnly) > a.Day(now) && e.Effective.Before(first) {
			return fmt.Errorf("%w: the cut-off for %s was at %s", nacha.ErrDay, e.Effective.Format(time.DateOnly), a.CutOff)
		}
	}
	return nil
}

// returnACH reports returns and notifications of change in a NACHA file, and books the money that came back or was
// taken back.
func (s *Sandbox) returnACH(name string, responses []nacha.Response, back []iso20022.Entry, now time.Time) error {
	if err := s.book(name+"_return", back, stated, now); err != nil {
		return err
	}
	return s.writeACHResponses(name+".3.return.ach", responses, now)
}

// reversalEntries returns the entries that the bank books for a reversal: the credit on the operator's account and,
// if the payee's bank returns the debit of the payee, the return.
func reversalEntries(o sandboxPayment, debit bool, now time.Time) ([]iso20022.Entry, []nacha.Response) {
	number, _ := FindReference(o.id)
	file := FileReference(number.File)
	e := iso20022.Entry{Reference: file, Servicer: "RV" + file, Amount: o.amount, Credit: true, Booked: now,
		Valued: now, Info: "ACH " + o.id,
		Type: iso20022.Type{Domain: "PMNT", Family: "RCDT", SubFamily: "ACHT"}}
	w := scenarioOf(o.account)
	switch {
	case !debit:
		return []iso20022.Entry{e}, nil
	case !w.keeps:
		return nil, nil
	}
	e.Credit, e.Reversal = false, true
	return []iso20022.Entry{e}, []nacha.Response{{ID: o.id, Name: o.name, Trace: o.trace, Debit: true,
		Code: fmt.Sprintf("R%02d", w.number), Cents: o.amount.Units()}}
}

// refuse rejects a whole file that cannot be read or breaks a rule. The report identifies the file by its name
// without the extension, which is the message ID of a file that this package wrote: a file that cannot be read states
// no ID.
func (s *Sandbox) refuse(name string, r refusal, now time.Time) error {
	order := strings.TrimSuffix(name, filepath.Ext(name))
	r.text = fmt.Sprintf("%.105s", r.text)
	return s.writeStatus(name+".1.status.xml",
		iso20022.Status{ID: "A" + order, Order: order, Code: "RJCT", Reasons: r.reasons()}, now)
}

// refusedACH converts an error of an ACH file that breaks a rule to a refusal.
func refusedACH(why error) refusal {
	if errors.Is(why, nacha.ErrDay) {
		return refusal{"DT01", why.Error()}
	}
	return refusal{"FF01", why.Error()}
}

func achResponse(o sandboxPayment, w scenario) (nacha.Response, bool) {
	a := nacha.Response{ID: o.id, Name: o.name, Trace: o.trace}
	switch {
	case w.back:
		a.Code, a.Cents = fmt.Sprintf("R%02d", w.number), o.amount.Units()
	case w.other:
		a.Code = fmt.Sprintf("C%02d", w.number)
		a.Corrected = nacha.Correction{Routing: "021000021", Account: "1918171614", Name: "Ada Q Example",
			Type: "savings"}.Corrected(a.Code)
	}
	return a, w.number >= 1 && w.number < 100 && nacha.ReasonText(a.Code) != ""
}

func (s *Sandbox) writeACHResponses(name string, responses []nacha.Response, now time.Time) error {
	i := slices.IndexFunc(s.accounts, func(a Account) bool { return a.Format == FormatNACHA })
	body, err := s.accounts[i].nacha(1, now).WriteResponses(responses)
	if err != nil {
		return err
	}
	return s.writeResponse(name, body)
}

// Return returns a payment that was paid before. A reason that does not exist in the payment's format is replaced by
// a common reason.
func (s *Sandbox) Return(number int64, position int, a money.Amount, ach bool, reason string, now time.Time) error {
	o := sandboxPayment{id: PaymentReference(number, position), amount: a}
	if ach {
		if nacha.ReasonText(reason) == "" || reason[0] != 'R' {
			reason = "R03"
		}
		return s.returnACH(o.id, []nacha.Response{{Code: reason, ID: o.id, Cents: a.Units()}},
			[]iso20022.Entry{returnEntry(o, reason, now)}, now)
	}
	if iso20022.ReasonText(reason) == "" {
		reason = "AC04"
	}
	return s.book(o.id, []iso20022.Entry{returnEntry(o, reason, now)}, notified, now)
}

// Receive reports incoming money on the operator's account, with the bank's reference name and the payer's text. If
// back is set, the bank takes the money back at once.
func (s *Sandbox) Receive(name, reference string, a money.Amount, back bool, now time.Time) error {
	entries := []iso20022.Entry{{Reference: name, Amount: a, Credit: true, Booked: now, Valued: now, Servicer: name,
		Type: iso20022.Type{Domain: "PMNT", Family: "RCDT", SubFamily: "ESCT"},
		Details: []iso20022.Detail{{EndToEndID: "NOTPROVIDED", Amount: a, Credit: true,
			Debtor: iso20022.Party{Name: "A Sandbox Company"}, Remittance: []string{reference}}}}}
	if back {
		entries = append(entries, iso20022.Entry{Reference: name + "R", Amount: a, Reversal: true, Booked: now, Valued: now,
			Servicer: name,
			Type:     iso20022.Type{Domain: "PMNT", Family: "RCDT", SubFamily: "ESCT"}})
	}
	return s.book(name, entries, notified, now)
}

// writeResponse stores a response in the drop atomically.
func (s *Sandbox) writeResponse(name string, body []byte) error {
	return writeWhole(filepath.Join(s.root, partIn), name, body)
}

// writeWhole writes a file atomically: other processes see the whole file or no file.
func writeWhole(dir, name string, body []byte) error {
	temp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(body)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(dir, name))
}
