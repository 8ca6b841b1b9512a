package bank

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// ach returns the ACH code of a return.
func (w scenario) ach() string {
	if code := fmt.Sprintf("R%02d", w.number); nacha.ReasonText(code) != "" {
		return code
	}
	return "R01"
}

// collectedEntry returns the entry of a statement that credits a direct debit.
func collectedEntry(number int64, a money.Amount, now time.Time) iso20022.Entry {
	return iso20022.Entry{Reference: DebitReference(number), Amount: a, Credit: true, Booked: now, Valued: now,
		Type:  iso20022.Type{Domain: "PMNT", Family: "IDDT", SubFamily: "ESDD"},
		Batch: iso20022.Batch{MessageID: DebitReference(number), PaymentInfoID: DebitReference(number)}}
}

// returnedDebitEntry returns the entry of a statement that takes a direct debit back.
func returnedDebitEntry(number int64, a money.Amount, reason string, now time.Time) iso20022.Entry {
	return iso20022.Entry{Reference: "R" + DebitReference(number), Amount: a, Booked: now, Valued: now,
		Type: iso20022.Type{Domain: "PMNT", Family: "IDDT", SubFamily: "UPDD"},
		Details: []iso20022.Detail{{EndToEndID: debitEntry(number), Amount: a, ReturnReason: reason,
			ReturnInfo: []string{ReasonText(reason)}}}}
}

// SandboxOwns reports whether an account at the simulated bank belongs to the company that claims it: every account
// does, except accounts whose numbers end with 993NNN.
func SandboxOwns(account string) bool { return !scenarioOf(account).unverified }

// processCollection collects SEPA direct debits. It refuses a file, or single debits, that break the rules of SEPA.
func (s *Sandbox) processCollection(name string, body []byte, now time.Time) error {
	var document element
	if err := xml.Unmarshal(body, &document); err != nil {
		return s.refuse(name, refusal{"FF01", err.Error()}, now)
	}
	messages, groups := document.all("CstmrDrctDbtInitn"), document.all("CstmrDrctDbtInitn/PmtInf")
	if len(messages) != 1 || len(groups) != 1 || len(groups[0].all("DrctDbtTxInf")) != 1 {
		return s.refuse(name, refusal{"FF01", "the file is not a collection of one direct debit"}, now)
	}
	group := groups[0]
	debit, id := group.all("DrctDbtTxInf")[0], document.text("CstmrDrctDbtInitn/GrpHdr/MsgId")
	number, known := FindDebit(id)
	creditor, err := s.account(money.EUR)
	if err != nil {
		return err
	}
	amount, r := refuseCollection(messages[0], group, debit, creditor.EarliestDue(now.Add(-sandboxTolerance)), now)
	w := scenarioOf(debit.text("DbtrAcct/Id/IBAN"))
	switch {
	case r != (refusal{}):
	case !known:
		r = refusal{"FF01", "the identification of the message is not the reference of a direct debit"}
	case w.other:
		r = refusal{w.iso(), iso20022.ReasonText(w.iso())}
	}
	if r != (refusal{}) {
		return s.refuse(name, r, now)
	}
	status := iso20022.Status{ID: "A" + id, Order: id, Code: "ACSP"}
	if err := s.writeStatus(name+".1.status.xml", status, now); err != nil {
		return err
	}
	entries := []iso20022.Entry{collectedEntry(number, amount, now)}
	if w.back {
		entries = append(entries, returnedDebitEntry(number, amount, w.iso(), now))
	}
	return s.book(name, entries, notified, now)
}

// refuseCollection returns the amount of a collection, and a refusal for the first rule that it breaks, or the zero
// refusal. earliest is the first possible due date of a file that arrives now.
func refuseCollection(message, group, debit *element, earliest, now time.Time) (money.Amount, refusal) {
	found := debit.all("InstdAmt")
	if len(found) != 1 || len(found[0].Attrs) != 1 {
		return money.Amount{}, refusal{"AM12", "the amount is not valid"}
	}
	amount, err := iso20022.Amount{Currency: found[0].Attrs[0].Value, Text: found[0].Text}.Money()
	due, dateErr := time.Parse(time.DateOnly, group.text("ReqdColltnDt"))
	signed, signedErr := time.Parse(time.DateOnly, debit.text("DrctDbtTx/MndtRltdInf/DtOfSgntr"))
	bic, iban := debit.text("DbtrAgt/FinInstnId/BICFI")+debit.text("DbtrAgt/FinInstnId/BIC"),
		debit.text("DbtrAcct/Id/IBAN")
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, time.UTC)
	sum := strconv.Itoa(1) + " " + amount.String()
	version := strings.TrimPrefix(message.XMLName.Space, "urn:iso:std:iso:20022:tech:xsd:")
	creditor, debtor := group.all("Cdtr"), debit.all("Dbtr")
	switch {
	case version != iso20022.Collection02 && version != iso20022.Collection08:
		return amount, refusal{"FF01", "the version of the message is not supported"}
	case !validID(message.text("GrpHdr/MsgId")) || !validID(group.text("PmtInfId")):
		return amount, refusal{"FF01", "the identification of the message or of the group is not valid"}
	case err != nil || amount.Asset() != money.EUR:
		return amount, refusal{"AM03", "a SEPA direct debit must be of an amount in euros"}
	case amount.Sign() <= 0:
		return amount, refusal{"AM01", "the amount is zero"}
	case message.text("GrpHdr/NbOfTxs")+" "+message.text("GrpHdr/CtrlSum") != sum ||
		group.text("NbOfTxs")+" "+group.text("CtrlSum") != sum:
		return amount, refusal{"AM10", "the number of debits or the control sum is wrong"}
	case group.text("PmtMtd") != "DD" || group.text("PmtTpInf/SvcLvl/Cd") != "SEPA" || group.text("ChrgBr") != "SLEV":
		return amount, refusal{"FF01", "the method, service level or charge bearer is not that of a SEPA direct debit"}
	case !slices.Contains([]string{iso20022.Core, iso20022.B2B}, group.text("PmtTpInf/LclInstrm/Cd")) ||
		!slices.Contains([]string{iso20022.First, iso20022.Recurring, iso20022.Final, iso20022.OneOff},
			group.text("PmtTpInf/SeqTp")):
		return amount, refusal{"FF01", "the instrument or the sequence is unknown"}
	case dateErr != nil || !Target.isBusinessDay(due) || due.Before(earliest):
		return amount, refusal{"DT01", "the due date is not a TARGET day after the file arrived, or missed the cut-off"}
	case due.Sub(today) > 14*24*time.Hour:
		return amount, refusal{"DT04", "the due date is more than 14 days ahead"}
	case amount.Units() > 999_999_999_99:
		return amount, refusal{"AM02", "the amount is above the limit of SEPA"}
	case len(creditor) != 1 || creditor[0].text("Nm") == "" || !validAddress(creditor[0]) ||
		version == iso20022.Collection08 && len(creditor[0].all("PstlAdr")) != 1:
		return amount, refusal{"BE04", "the creditor has no name, or no address with a town and a country"}
	case !iso20022.IsCreditorID(group.text("CdtrSchmeId/Id/PrvtId/Othr/Id")) ||
		group.text("CdtrSchmeId/Id/PrvtId/Othr/SchmeNm/Prtry") != "SEPA":
		return amount, refusal{"BE17", "the creditor identifier is not valid"}
	case !validID(debit.text("DrctDbtTx/MndtRltdInf/MndtId")) || signedErr != nil || signed.After(today):
		return amount, refusal{"MD02", "the reference of the mandate or its date is not valid"}
	case !validID(debit.text("PmtId/EndToEndId")) || !validID(debit.text("PmtId/InstrId")):
		return amount, refusal{"RF01", "the identification of the debit is not valid"}
	case len(debtor) != 1 || debtor[0].text("Nm") == "" || !isSEPA(iban) || !isSEPA(group.text("CdtrAcct/Id/IBAN")):
		return amount, refusal{"AC03", "the debtor's name or an IBAN is not valid"}
	case bic != "" && (!iso20022.IsBIC(bic) || !iso20022.SameCountry(bic, iban)):
		return amount, refusal{"RC01", "the BIC of the debtor's bank does not fit the IBAN"}
	case !validAddress(slices.Concat(message.all("GrpHdr/InitgPty"), group.all("UltmtCdtr"), debit.all("UltmtCdtr"),
		debit.all("UltmtDbtr"))...):
		return amount, refusal{"RR02", "the address of an ultimate or initiating party has no town or no country"}
	case !validAddress(debtor[0]) || iso20022.NeedsAddress(iban) && len(debtor[0].all("PstlAdr")) != 1:
		return amount, refusal{"BE07", "the debtor's address is missing, or has no town or no country"}
	case utf8.RuneCountInString(debit.text("RmtInf/Ustrd")) > 140 || len(debit.all("RmtInf/Ustrd")) > 1:
		return amount, refusal{"RR07", "the remittance information is longer than 140 characters"}
	case !sepaTexts(message, 70):
		return amount, refusal{"RR10", "a text has a character or a length that SEPA does not allow"}
	}
	return amount, refusal{}
}

// ReturnDebit returns a direct debit that was credited before. A reason that does not exist in the debit's format is
// replaced by a common reason.
func (s *Sandbox) ReturnDebit(number int64, scheme DebitScheme, a money.Amount, reason string, now time.Time) error {
	name := "R" + DebitReference(number)
	if !scheme.SEPA() {
		if nacha.ReasonText(reason) == "" || reason[0] != 'R' {
			reason = "R01"
		}
		return s.returnACH(name, []nacha.Response{{Code: reason, ID: debitEntry(number), Cents: a.Units(), Debit: true}},
			[]iso20022.Entry{returnedDebitEntry(number, a, reason, now)}, now)
	}
	if iso20022.ReasonText(reason) == "" {
		reason = "AM04"
	}
	return s.book(name, []iso20022.Entry{returnedDebitEntry(number, a, reason, now)}, notified, now)
}
