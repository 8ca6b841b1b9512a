package iso20022

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

const namespaceStatus = namespace + "pain.002.001.10"

// Status is a status report (pain.002) on one order: on the whole order or on single payments.
type Status struct {
	ID       string // message ID of the report
	Order    string // message ID of the order
	Code     string // status of the whole order; "" if only payments have a status
	Reasons  []Reason
	Payments []PaymentStatus
}

// PaymentStatus is the status of one payment.
type PaymentStatus struct {
	ID      string // end-to-end ID
	Code    string
	Reasons []Reason
}

// Reason is a reason code, from ISO's list or proprietary, with additional text.
type Reason struct {
	Code string
	Info []string
}

// Outcome is the outcome of a payment or an order that a status code states.
type Outcome int

// Outcomes of a payment or an order.
const (
	Unknown  Outcome = iota // no status, or an unknown code
	Accepted                // received by the bank, not yet executed
	Paid                    // executed; the money left the account
	Rejected                // not executed
	Mixed                   // partly rejected; see the payments
)

// OutcomeOf returns the outcome of an ISO 20022 status code.
func OutcomeOf(code string) Outcome {
	switch code {
	case "RCVD", "ACTC", "ACCP", "ACSP", "ACWC", "ACWP", "ACFC", "PDNG", "PATC", "ACPD",
		"RCVC", "RVCM", "RVNC", "RVMC", "RVNM", "RVNA":
		return Accepted
	case "ACSC", "ACCC":
		return Paid
	case "RJCT", "CANC":
		return Rejected
	case "PART":
		return Mixed
	}
	return Unknown
}

// Verification is the result of a Verification of Payee, which compares a payee's name with the account holder's
// name.
type Verification string

// Results of a Verification of Payee.
const (
	Match       Verification = "match"
	CloseMatch  Verification = "close_match" // the bank states the holder's name
	NoMatch     Verification = "no_match"
	NotPossible Verification = "not_possible"
)

// VerificationOf returns the result that a status code states, or "" if it states none.
func VerificationOf(code string) Verification {
	switch code {
	case "RCVC":
		return Match
	case "RVMC":
		return CloseMatch
	case "RVNM":
		return NoMatch
	case "RVNA":
		return NotPossible
	}
	return ""
}

type (
	statusReason struct {
		Code *code    `xml:"Rsn"`
		Info []string `xml:"AddtlInf"`
	}
	statusGroup struct {
		ID       string          `xml:"OrgnlPmtInfId"`
		Payments []statusPayment `xml:"TxInfAndSts"`
	}
	statusPayment struct {
		Instruction string         `xml:"OrgnlInstrId,omitempty"`
		EndToEnd    string         `xml:"OrgnlEndToEndId,omitempty"`
		Status      string         `xml:"TxSts,omitempty"`
		Reasons     []statusReason `xml:"StsRsnInf"`
	}
)

// ReadStatus parses a pain.002 message. If the order has no status, ReadStatus uses the status of its payment group,
// because the orders of this service have one group.
func ReadStatus(in io.Reader) (Status, error) {
	r := newReader(in)
	kind, err := r.open()
	if err != nil {
		return Status{}, err
	}
	if kind != StatusReport {
		return Status{}, fmt.Errorf("iso20022: message %.40q is not a status report", kind)
	}
	var s Status
	if err := r.children(r.resetTokens, func(e xml.StartElement) error {
		switch e.Name.Local {
		case "GrpHdr":
			var head struct {
				ID string `xml:"MsgId"`
			}
			err := r.decode(&head, e)
			s.ID = strings.TrimSpace(head.ID)
			return err
		case "OrgnlGrpInfAndSts":
			var whole struct {
				Order   string         `xml:"OrgnlMsgId"`
				Status  string         `xml:"GrpSts"`
				Reasons []statusReason `xml:"StsRsnInf"`
			}
			err := r.decode(&whole, e)
			s.Order, s.Code, s.Reasons = strings.TrimSpace(whole.Order), strings.TrimSpace(whole.Status), reasons(whole.Reasons)
			return err
		case "OrgnlPmtInfAndSts":
			return r.group(&s)
		}
		return r.skipWithin()
	}); err != nil {
		return s, err
	}
	return s, r.end()
}

// group reads the status of a payment group and of its payments.
func (r *reader) group(s *Status) error {
	return r.children(r.resetTokens, func(e xml.StartElement) (err error) {
		switch e.Name.Local {
		case "PmtInfSts":
			var status string
			if err = r.text(&status, e); s.Code == "" {
				s.Code = status
			}
		case "StsRsnInf":
			var why statusReason
			if err = r.decode(&why, e); err == nil && len(s.Reasons) < 100 {
				s.Reasons = append(s.Reasons, reasons([]statusReason{why})...)
			}
		case "TxInfAndSts":
			if len(s.Payments) >= maxUnits {
				return r.withPosition(fmt.Errorf("%w: over %d payments in one report", ErrTooMuch, maxUnits))
			}
			var p statusPayment
			if err = r.decode(&p, e); err == nil {
				s.Payments = append(s.Payments, PaymentStatus{ID: firstOf(idText(p.EndToEnd), idText(p.Instruction)),
					Code: strings.TrimSpace(p.Status), Reasons: reasons(p.Reasons)})
			}
		default:
			return r.skipWithin()
		}
		return err
	})
}

func reasons(in []statusReason) []Reason {
	var out []Reason
	for _, r := range in {
		if why := (Reason{Code: r.Code.value(), Info: clean(r.Info)}); why.Code != "" || len(why.Info) > 0 {
			out = append(out, why)
		}
	}
	return out
}

// Write returns the report as pain.002.001.10.
func (s Status) Write(created time.Time) ([]byte, error) {
	if err := checkIDs(s.ID, s.Order); err != nil {
		return nil, err
	}
	var message struct {
		XMLName xml.Name       `xml:"Document"`
		Space   string         `xml:"xmlns,attr"`
		ID      string         `xml:"CstmrPmtStsRpt>GrpHdr>MsgId"`
		Created string         `xml:"CstmrPmtStsRpt>GrpHdr>CreDtTm"`
		Order   string         `xml:"CstmrPmtStsRpt>OrgnlGrpInfAndSts>OrgnlMsgId"`
		Name    string         `xml:"CstmrPmtStsRpt>OrgnlGrpInfAndSts>OrgnlMsgNmId"`
		Status  string         `xml:"CstmrPmtStsRpt>OrgnlGrpInfAndSts>GrpSts,omitempty"`
		Reasons []statusReason `xml:"CstmrPmtStsRpt>OrgnlGrpInfAndSts>StsRsnInf"`
		Group   *statusGroup   `xml:"CstmrPmtStsRpt>OrgnlPmtInfAndSts"`
	}
	message.Space, message.ID, message.Created, message.Order, message.Name = namespaceStatus, s.ID, formatTime(created),
		s.Order, "pain.001.001.09"
	message.Status, message.Reasons = s.Code, reasonsToXML(s.Reasons)
	if len(s.Payments) > 0 {
		message.Group = &statusGroup{ID: s.Order}
	}
	for _, p := range s.Payments {
		message.Group.Payments = append(message.Group.Payments,
			statusPayment{EndToEnd: p.ID, Status: p.Code, Reasons: reasonsToXML(p.Reasons)})
	}
	return encode(message)
}

func reasonsToXML(in []Reason) []statusReason {
	var out []statusReason
	for _, r := range in {
		out = append(out, statusReason{Code: &code{Code: r.Code}, Info: r.Info})
	}
	return out
}
