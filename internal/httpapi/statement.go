package httpapi

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui/texts"
)

type (
	paymentGet struct {
		PayrollID    string `path:"payroll_id"`
		SubpayrollID string `path:"subpayroll_id" maxLength:"64"`
		CompanyID    string `query:"company_id"`
	}

	receiptGet struct {
		paymentGet
		Language string `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of the document."`
	}

	// paymentWithOutputs contains all data of a payment, including its outputs and its history.
	paymentWithOutputs struct {
		PaymentSummary
		Outputs  []payoutOutput `json:"outputs"`
		Arrived  *Time          `json:"arrived,omitzero" doc:"When the payee had received all of it, UTC."`
		Timeline []payrollStep  `json:"timeline"`
	}

	payrollExport struct {
		PayrollID string `path:"payroll_id"`
		CompanyID string `query:"company_id"`
		Format    string `query:"format" enum:"csv,pdf" default:"csv" doc:"Format of the document."`
		Language  string `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of a PDF."`
	}

	walletStatementExport struct {
		CompanyID string    `query:"company_id"`
		Account   string    `query:"account" enum:"available,claims" default:"available"`
		Currency  string    `query:"currency" required:"true" maxLength:"10"`
		From      time.Time `query:"from" doc:"Booked at this time or later. Default: the beginning of the month."`
		To        time.Time `query:"to" doc:"Booked before this time. Default: now."`
		Format    string    `query:"format" enum:"csv,pdf,camt.053" default:"csv" doc:"camt.053 is for fiat currencies only."`
		Language  string    `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of a PDF."`
	}

	settlementExport struct {
		SettlementID string `path:"settlement_id" maxLength:"64"`
		CompanyID    string `query:"company_id"`
		Format       string `query:"format" enum:"csv,pdf" default:"csv" doc:"Format of the document."`
		Language     string `query:"language" enum:"en,es,pt,fr,de,he" default:"en" doc:"Language of a PDF."`
	}
)

var errTooLong = apierr.New(apierr.Invalid, "invalid_parameter",
	"The period has more than 10,000 transactions. Choose a shorter one.")

// Formats of exported statements.
const (
	formatPDF = "pdf"
	formatISO = "camt.053"
)

// documents returns a writer of documents in a language, with times in UTC.
func (c *request) documents(language string) *document.Writer {
	return &document.Writer{Sandbox: c.Env == identity.Sandbox && c.Sandbox != nil,
		Reader: texts.Reader{Language: texts.Language{Tag: language}, Service: c.ServiceName}}
}

// sent returns the response that sends a document as a file.
func sent(f document.File, err error) (*file, error) {
	return &file{name: f.Name, contentType: f.ContentType, write: func(w io.Writer) error {
		_, err := w.Write(f.Data)
		return err
	}}, err
}

func getPayment(ctx context.Context, tx *db.Tx, c *request, in *paymentGet) (*paymentWithOutputs, error) {
	m, steps, err := c.Payroll.Payment(ctx, tx, c.by, in.PayrollID, in.SubpayrollID)
	if err != nil {
		return nil, err
	}
	out := &paymentWithOutputs{PaymentSummary: summarizePayment(&m), Outputs: make([]payoutOutput, len(m.Outputs)),
		Timeline: make([]payrollStep, len(steps))}
	for i := range m.Outputs {
		out.Outputs[i] = showOutput(&m.Outputs[i])
	}
	if at := payroll.Arrived(m.State, steps); !at.IsZero() {
		out.Arrived = (*Time)(&at)
	}
	for i, s := range steps {
		out.Timeline[i] = payrollStep{s.ObjectID, previousState(s.From), timelineState(s.To), s.Reason, Time(s.At)}
	}
	return out, nil
}

func getReceipt(ctx context.Context, tx *db.Tx, c *request, in *receiptGet) (*file, error) {
	m, steps, err := c.Payroll.Payment(ctx, tx, c.by, in.PayrollID, in.SubpayrollID)
	if err != nil {
		return nil, err
	}
	company, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	one := payroll.Payroll{CompanyID: c.company, Payments: []payroll.Payment{m.Payment}}
	names, err := one.PayeeNames(ctx, tx)
	if err != nil {
		return nil, err
	}
	return sent(c.documents(in.Language).ReceiptPDF(document.Receipt{
		ID: m.ID, Owner: company.Name, From: company.Name, To: names[m.PayeeID], Reference: m.ExternalID,
		Period: m.Period, About: m.Description, State: m.State, Amount: m.Amount, Fee: m.Fee, At: m.CreatedAt,
		Arrived: payroll.Arrived(m.State, steps), Outputs: m.Outputs,
	}, tx.Now()))
}

func exportPayroll(ctx context.Context, tx *db.Tx, c *request, in *payrollExport) (*file, error) {
	p, err := c.Payroll.Get(ctx, tx, c.by, in.PayrollID)
	if err != nil {
		return nil, err
	}
	names, err := p.PayeeNames(ctx, tx)
	if err != nil {
		return nil, err
	}
	if in.Format != formatPDF {
		return sent(document.PayrollCSV(p, names))
	}
	company, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	return sent(c.documents(in.Language).PayrollPDF(company.Name, p, names, tx.Now()))
}

func exportWalletStatement(ctx context.Context, tx *db.Tx, c *request, in *walletStatementExport) (*file, error) {
	s, err := wallet.WholeStatement(ctx, tx, c.by, c.company, wallet.Filter{
		Claims: in.Account == "claims", Currency: in.Currency, From: in.From, To: in.To,
	})
	if errors.Is(err, wallet.ErrTooLong) {
		return nil, errTooLong.At("query", "from")
	}
	if err != nil {
		return nil, err
	}
	company, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	switch in.Format {
	case formatPDF:
		return sent(c.documents(in.Language).BalancePDF(company.Name, s, tx.Now()))
	case formatISO:
		return sent(document.BalanceISO(company.Name, s, tx.Now()))
	}
	return sent(document.BalanceCSV(s))
}

func exportSettlement(ctx context.Context, tx *db.Tx, c *request, in *settlementExport) (*file, error) {
	x, err := c.Claim.StatementOf(ctx, tx, c.by, c.company, in.SettlementID)
	if err != nil {
		return nil, err
	}
	var lines []claim.StatementLine
	if in.Format != formatPDF {
		if lines, err = x.AllLines(ctx, tx); err != nil {
			return nil, err
		}
		return sent(document.SettlementCSV(x, lines))
	}
	if lines, err = x.Lines(ctx, tx, db.Page{PerPage: document.MaxSettlementLines}); err != nil {
		return nil, err
	}
	company, err := identity.CompanyByID(ctx, tx, c.company)
	if err != nil {
		return nil, err
	}
	return sent(c.documents(in.Language).SettlementPDF(company.Name, x, lines, tx.Now()))
}
