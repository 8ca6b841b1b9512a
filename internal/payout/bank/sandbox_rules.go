package bank

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
)

// element is an element of an XML document.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []*element `xml:",any"`
}

// all returns the elements at a path below e, such as "Cdtr/PstlAdr".
func (e *element) all(path string) []*element {
	found := []*element{e}
	for name := range strings.SplitSeq(path, "/") {
		var next []*element
		for _, at := range found {
			for _, c := range at.Children {
				if c.XMLName.Local == name {
					next = append(next, c)
				}
			}
		}
		found = next
	}
	return found
}

// text returns the text of the first element at a path, or "".
func (e *element) text(path string) string {
	if found := e.all(path); len(found) > 0 {
		return found[0].Text
	}
	return ""
}

// readOrder parses a pain.001 document and returns its message.
func readOrder(body []byte) (*element, error) {
	var document element
	if err := xml.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	found := document.all("CstmrCdtTrfInitn")
	if len(found) != 1 || len(found[0].all("PmtInf")) != 1 || len(found[0].all("PmtInf/CdtTrfTxInf")) == 0 {
		return nil, fmt.Errorf("the file is not a credit transfer order with one payment group")
	}
	found[0].XMLName.Space = document.XMLName.Space
	return found[0], nil
}

// refusal is the reason why the simulated bank refuses an order or a payment: a code of the ISO list and a text.
type refusal struct{ code, text string }

func (r refusal) reasons() []iso20022.Reason {
	return []iso20022.Reason{{Code: r.code, Info: []string{r.text}}}
}

// sepaGroup reports whether a payment group is for SEPA.
func sepaGroup(group *element) bool { return group.text("PmtTpInf/SvcLvl/Cd") == "SEPA" }

// Times after a cut-off, and after the end of the hours of instant payments, for which the simulated bank still
// accepts a file, because the file may have been on its way.
const (
	sandboxTolerance        = 30 * time.Minute
	sandboxInstantTolerance = 15 * time.Minute
)

// refuseDay returns a refusal unless the bank can execute a group that it receives now on the stated day. The day
// must be a business day of the currency, and not before the first business day whose cut-off has not passed. An
// instant payment is executed on any day that has not passed, within the hours of the account.
func refuseDay(group *element, accounts []Account, now time.Time) refusal {
	day, err := time.Parse(time.DateOnly, group.text("ReqdExctnDt/Dt"))
	if err != nil {
		return refusal{"DT01", "the execution date is not valid"}
	}
	amount, err := orderAmount(group.all("CdtTrfTxInf")[0])
	i := slices.IndexFunc(accounts, func(a Account) bool { return a.Format == FormatPain && a.Currency == amount.Asset() })
	if err != nil || i < 0 {
		return refusal{"AM03", "there is no account in the currency"}
	}
	a := accounts[i]
	if group.text("PmtTpInf/LclInstrm/Cd") == "INST" && a.Instant != nil {
		at := timeOfDay(now.In(a.zone))
		switch {
		case day.Format(time.DateOnly) < a.Day(now):
			return refusal{"DT01", "the execution date has passed"}
		case at < a.Instant.from-sandboxInstantTolerance || at >= a.Instant.until+sandboxInstantTolerance:
			return refusal{"TM01", "instant payments are not accepted at this hour"}
		}
		return refusal{}
	}
	first := a.executionDay(now.Add(-sandboxTolerance))
	switch {
	case !a.Calendar.isBusinessDay(day):
		return refusal{"DT01", "the execution date is not a business day of the currency"}
	case day.Before(first):
		return refusal{"DT01", "the execution date has passed, or its cut-off was at " + a.CutOff}
	}
	return refusal{}
}

// refuseOrder returns a refusal for the first rule that the whole order breaks if the bank receives it now, or the
// zero refusal.
func refuseOrder(order *element, accounts []Account, now time.Time) refusal {
	version := strings.TrimPrefix(order.XMLName.Space, "urn:iso:std:iso:20022:tech:xsd:")
	head, group := order.all("GrpHdr"), order.all("PmtInf")[0]
	switch {
	case version != iso20022.Order09 && version != iso20022.Order11:
		return refusal{"FF01", "the version of the message is not supported"}
	case len(head) != 1 || !validID(head[0].text("MsgId")) || !validID(group.text("PmtInfId")):
		return refusal{"FF01", "the identification of the message or of the group is not valid"}
	case group.text("PmtMtd") != "TRF":
		return refusal{"FF01", "the payment method is not TRF"}
	}
	if r := refuseTotals(head[0], group); r != (refusal{}) {
		return r
	}
	if r := refuseDay(group, accounts, now); r != (refusal{}) {
		return r
	}
	debtor := group.all("Dbtr")
	if len(debtor) != 1 || debtor[0].text("Nm") == "" || len(debtor[0].all("PstlAdr")) != 1 {
		return refusal{"BE07", "the debtor's name or address is missing"}
	}
	if !validAddress(debtor[0]) {
		return refusal{"BE07", "the debtor's address has no town or no country"}
	}
	if !validAddress(head[0].all("InitgPty")...) {
		return refusal{"FF01", "the address of the initiating party has no town or no country"}
	}
	if r := refuseUltimateDebtor(group); r != (refusal{}) {
		return r
	}
	charges := map[bool]string{true: "SLEV", false: "SHAR"}[sepaGroup(group)]
	purpose, instrument := group.text("PmtTpInf/CtgyPurp/Cd"), group.text("PmtTpInf/LclInstrm/Cd")
	switch {
	case group.text("ChrgBr") != charges:
		return refusal{"AM08", "the charge bearer does not fit the service level"}
	case purpose != "" && !isCode(purpose):
		return refusal{"FF01", "the category purpose is not an ISO code"}
	case instrument != "" && (instrument != "INST" || !sepaGroup(group)):
		return refusal{"FF01", "the local instrument is not supported"}
	case group.text("InstrForDbtrAgt") != "" && len(group.all("CdtTrfTxInf")) == 1:
		return refusal{"FF01", "a single payment cannot opt out of the Verification of Payee"}
	case sepaGroup(group) && !isSEPA(group.text("DbtrAcct/Id/IBAN")):
		return refusal{"AC02", "the debtor's account is not an IBAN in SEPA"}
	case sepaGroup(group) && !sepaTexts(debtor[0], 70):
		return refusal{"RR10", "the debtor's name or address has a character or a length that SEPA does not allow"}
	case !otherTexts(debtor[0]):
		return refusal{"RR10", "the debtor's name or address has a character or a length that is not accepted"}
	}
	return refusal{}
}

// refuseTotals returns a refusal unless the heads state the correct numbers and sums of payments.
func refuseTotals(head, group *element) refusal {
	transfers := group.all("CdtTrfTxInf")
	var sum money.Amount
	for i, t := range transfers {
		a, err := orderAmount(t)
		if err == nil && i > 0 {
			a, err = sum.Add(a)
		}
		if err != nil {
			return refusal{"AM12", "an amount is not valid, or the amounts have several currencies"}
		}
		sum = a
	}
	for _, e := range []*element{head, group} {
		if e.text("NbOfTxs") != strconv.Itoa(len(transfers)) || e.text("CtrlSum") != sum.String() {
			return refusal{"AM10", "the number of payments or the control sum is wrong"}
		}
	}
	return refusal{}
}

// orderAmount returns the amount of a payment.
func orderAmount(transfer *element) (money.Amount, error) {
	found := transfer.all("Amt/InstdAmt")
	if len(found) != 1 || len(found[0].Attrs) != 1 {
		return money.Amount{}, fmt.Errorf("the amount is missing")
	}
	return iso20022.Amount{Currency: found[0].Attrs[0].Value, Text: found[0].Text}.Money()
}

// refuseTransfer returns a refusal for the first rule that a payment breaks, or the zero refusal. amount is the
// payment's amount, which the caller has parsed.
func refuseTransfer(group, t *element, amount money.Amount) refusal {
	sepa, creditor := sepaGroup(group), t.all("Cdtr")
	if len(creditor) != 1 || creditor[0].text("Nm") == "" {
		return refusal{"BE22", "the creditor's name is missing"}
	}
	iban, bic, purpose := t.text("CdtrAcct/Id/IBAN"), t.text("CdtrAgt/FinInstnId/BICFI"), t.text("Purp/Cd")
	number := t.text("CdtrAcct/Id/Othr/Id")
	if r := refuseUltimateDebtor(t); r != (refusal{}) {
		return r
	}
	switch {
	case !validID(t.text("PmtId/EndToEndId")) || !validID(t.text("PmtId/InstrId")):
		return refusal{"RF01", "an identification of the payment is not valid"}
	case amount.Sign() <= 0:
		return refusal{"AM01", "the amount is zero"}
	case !validAddress(creditor[0]) || !validAddress(t.all("UltmtCdtr")...):
		return refusal{"BE04", "the address of the creditor or of the ultimate creditor has no town or no country"}
	case iban+number == "" || iban != "" && !iso20022.IsIBAN(iban) || len(number) > 34 ||
		number == "NOTPROVIDED" && t.text("CdtrAcct/Prxy/Id") == "":
		return refusal{"AC03", "the creditor's account number is not valid"}
	case bic != "" && !iso20022.IsBIC(bic):
		return refusal{"RC04", "the BIC of the creditor's bank is not valid"}
	case purpose != "" && !isCode(purpose):
		return refusal{"FF01", "the purpose is not an ISO code"}
	case utf8.RuneCountInString(t.text("RmtInf/Ustrd")) > 140 || len(t.all("RmtInf/Ustrd")) > 1:
		return refusal{"RR07", "the remittance information is longer than 140 characters"}
	case !sepa && (!otherTexts(t) || len(t.text("Cdtr/Id/OrgId/Othr/Id")+t.text("Cdtr/Id/PrvtId/Othr/Id")) > 35):
		return refusal{"RR10", "a text has a character or a length that is not accepted"}
	case !sepa:
		return refusal{}
	case amount.Asset() != money.EUR:
		return refusal{"AM03", "a SEPA payment must be in euros"}
	case amount.Units() > 999_999_999_99:
		return refusal{"AM02", "the amount is above the limit of SEPA"}
	case group.text("PmtTpInf/LclInstrm/Cd") == "INST" && amount.Units() > sandboxInstant:
		return refusal{"AM02", "the amount is above the bank's limit of instant payments"}
	case !isSEPA(iban):
		return refusal{"AC03", "the creditor's account is not an IBAN in SEPA"}
	case bic != "" && !iso20022.SameCountry(bic, iban):
		return refusal{"RC04", "the BIC and the IBAN are of different countries"}
	case !sepaTexts(t, 70):
		return refusal{"RR10", "a text has a character or a length that SEPA does not allow"}
	}
	return refusal{}
}

// validID reports whether an identification has 1 to 35 characters that every bank accepts.
func validID(s string) bool {
	return s != "" && len(s) <= 35 && iso20022.IsSEPAText(s) && !strings.HasPrefix(s, "/") &&
		!strings.HasSuffix(s, "/") && !strings.Contains(s, "//")
}

// validAddress reports whether all addresses of the parties are structured or hybrid.
func validAddress(parties ...*element) bool {
	for _, p := range parties {
		for _, a := range p.all("PstlAdr") {
			lines := a.all("AdrLine")
			if strings.TrimSpace(a.text("TwnNm")) == "" || !country.Exists(a.text("Ctry")) || len(lines) > 2 ||
				slices.ContainsFunc(lines, func(e *element) bool { return utf8.RuneCountInString(e.Text) > 70 }) {
				return false
			}
		}
	}
	return true
}

// refuseUltimateDebtor returns a refusal unless the ultimate debtor of a group or of a payment, if there is one, has
// a name and, if stated, a valid address and LEI.
func refuseUltimateDebtor(of *element) refusal {
	for _, e := range of.all("UltmtDbtr") {
		if e.text("Nm") == "" || !validAddress(e) {
			return refusal{"RR02", "the ultimate debtor has no name, or an address without a town or a country"}
		}
		if lei := e.text("Id/OrgId/LEI"); lei != "" && !country.ValidLEI(lei) {
			return refusal{"RR02", "the ultimate debtor's LEI is not valid"}
		}
	}
	return refusal{}
}

// isCode reports whether s has the form of an ISO purpose code.
func isCode(s string) bool { return len(s) == 4 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" }

// sepaTexts reports whether all texts within e consist of characters of SEPA, and names have at most the given
// length.
func sepaTexts(e *element, name int) bool {
	text := strings.TrimSpace(e.Text)
	if !iso20022.IsSEPAText(text) || e.XMLName.Local == "Nm" && len(text) > name {
		return false
	}
	return !slices.ContainsFunc(e.Children, func(c *element) bool { return !sepaTexts(c, name) })
}

// lengths are the largest numbers of characters of elements outside of SEPA, by element name.
var lengths = map[string]int{"Nm": 140, "StrtNm": 70, "PstCd": 16, "TwnNm": 35, "CtrySubDvsn": 35, "AdrLine": 70,
	"MmbId": 35, "Prtry": 35, "Ustrd": 140, "Id": 2048, "EmailAdr": 256}

// otherTexts reports whether all texts within e have characters and lengths that banks accept outside of SEPA. A name
// may be in katakana, and an identifier may contain @ and underscores.
func otherTexts(e *element) bool {
	text, name := strings.TrimSpace(e.Text), e.XMLName.Local
	valid := iso20022.IsSEPAText(text)
	switch name {
	case "Nm":
		valid = valid || iso20022.IsKatakana(text)
	case "Id", "Prtry", "EmailAdr", "MmbId":
		valid = iso20022.IsIdentifier(text)
	}
	if most := lengths[name]; !valid || most > 0 && utf8.RuneCountInString(text) > most {
		return false
	}
	return !slices.ContainsFunc(e.Children, func(c *element) bool { return !otherTexts(c) })
}
