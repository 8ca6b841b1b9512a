package document

import (
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
)

// ErrNoReceipt is returned for a payment that has not been sent.
var ErrNoReceipt = apierr.New(apierr.Conflict, "invalid_state",
	"There is no receipt yet, because this payment was not sent.")

// HasReceipt reports whether a payment in the given state has a receipt.
func HasReceipt(state payroll.State) bool {
	return state == payroll.Fulfilled || state == payroll.Released
}

// Receipt contains the data of a payment's receipt. Empty values are omitted.
type Receipt struct {
	ID               string
	Owner            string // name of the person or company for whom the receipt is
	From, To         string // names of the payer and the payee
	Reference, About string
	Period           payroll.Period
	State            payroll.State
	Amount, Fee      money.Amount // Fee is omitted if it is zero
	At, Arrived      time.Time
	Outputs          []payout.Output
}

// ReceiptPDF returns the receipt of a payment as a PDF, or ErrNoReceipt.
func (w *Writer) ReceiptPDF(r Receipt, now time.Time) (File, error) {
	if !HasReceipt(r.State) {
		return File{}, ErrNoReceipt
	}
	fee := ""
	if !r.Fee.IsZero() {
		fee = w.FormatMoney(r.Fee)
	}
	doc := w.New(r.Owner, w.Text("pay.receipt"), w.FormatMoney(r.Amount), r.ID, now, [][2]string{
		{"pay.from", r.From}, {"payment.payee", r.To}, {"pay.fee", fee},
		{"payroll.status", w.Word("payment.state", string(r.State))}, {"pay.about", r.About},
		{"pay.reference", r.Reference}, {"payroll.period", w.Period(r.Period)},
		{"pay.date", w.FormatTime(r.At)}, {"pay.arrived", w.FormatTime(r.Arrived)}})
	doc.Strong(11)
	doc.MultiCell(Width, Line+2, w.Text("pay.outputs"), "", "L", false)
	for _, o := range r.Outputs {
		doc.Strong(10)
		doc.MultiCell(Width, Line+1, w.Text("output.to", w.FormatMoney(o.Amount), DestinationHint(o)), "T", "L", false)
		doc.Plain(9)
		lines := []string{w.Word("output.state", string(o.State))}
		if !o.Rate.IsZero() {
			lines = append(lines, w.FormatMoney(o.Input)+", "+w.FormatRate(o.Rate))
		}
		if o.TxID != "" {
			lines = append(lines, w.Text(referenceKey(o.Rail))+": "+o.TxID)
		}
		if o.Proof != "" {
			lines = append(lines, w.Text("output.proof")+": "+o.Proof)
		}
		for _, line := range lines {
			doc.MultiCell(Width, Line, line, "", "L", false)
		}
		doc.Ln(2)
	}
	return doc.file("receipt-" + r.ID)
}

// referenceKey returns the key of the text that names the payment reference of a rail.
func referenceKey(rail payout.RailName) string {
	switch rail {
	case payout.RailBank:
		return "pay.bank_reference"
	case payout.RailLightning:
		return "pay.hash"
	}
	return "pay.transaction"
}
