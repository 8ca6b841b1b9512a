package payroll

import (
	"encoding/json"
	"strconv"
)

// AppendJSON writes what encoding/json would write of it. A payroll tells of each of its payments several times, and this takes a tenth
// of the time.
func (d *paymentData) AppendJSON(b []byte) []byte {
	b = appendText(append(b, `{"user_id":`...), d.UserID)
	b = appendText(append(b, `,"subpayroll_id":`...), d.SubpayrollID)
	b = appendText(append(b, `,"payroll_id":`...), d.PayrollID)
	b = append(b, `,"claim_id":`...)
	if d.ClaimID == nil {
		b = append(b, "null"...)
	} else {
		b = appendText(b, *d.ClaimID)
	}
	b = appendText(append(b, `,"status":`...), string(d.Status))
	if d.Reason != "" {
		b = appendText(append(b, `,"reason":`...), d.Reason)
	}
	b = appendText(append(b, `,"payment":{"subpayroll_id":`...), d.Payment.SubpayrollID)
	b = strconv.AppendBool(append(b, `,"received":`...), d.Payment.Received)
	b = strconv.AppendBool(append(b, `,"released":`...), d.Payment.Released)
	b = strconv.AppendBool(append(b, `,"fulfilled":`...), d.Payment.Fulfilled)
	b = append(b, `,"outputs":[`...)
	for i := range d.Payment.Outputs {
		o := &d.Payment.Outputs[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"input_currency":`...), string(o.InputCurrency))
		b = appendText(append(b, `,"output_currency":`...), string(o.OutputCurrency))
		b = o.Input.Append(append(b, `,"volume_input_in_input_currency":`...))
		b = o.Output.Append(append(b, `,"volume_output_in_output_currency":`...))
		b = o.Fees.Append(append(b, `,"fees":`...))
		b = append(appendText(append(b, `,"tx_hash":`...), o.TxHash), '}')
	}
	return append(b, "]}}"...)
}

// appendText writes a string as JSON.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string has no reason to fail
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
