// Package vendorbill pays vendors against the invoices that they sent as documents. It also records bills, which are
// amounts owed to vendors that a later payroll pays. Package invoice stores the bills.
//
// A vendor is a business, or a recipient with the role vendor. A company uploads a vendor's invoice and pays it with
// a payroll in which every item names a document. Package payroll pays that payroll like any other. This package
// ensures that only vendors are paid in this way and that a document is paid once: a document is assigned to one
// payroll, and becomes free again only if that payroll is cancelled or expires unfunded.
//
// A PDF is stored as uploaded and never interpreted. An image is re-encoded by package kyc. Both are encrypted.
package vendorbill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payroll"
)

// Formats of stored documents.
const (
	PDF  = "application/pdf"
	JPEG = "image/jpeg"
)

const (
	maxBytes  = 10 << 20  // largest document, in bytes
	chunkSize = 512 << 10 // bytes of a document that one row stores
)

// Errors returned to callers.
var (
	ErrDocument = apierr.New(apierr.Invalid, "unsupported_image",
		"The file cannot be read. Send a PDF, or a whole JPEG or PNG, in base64.")
	ErrTooLarge = apierr.New(apierr.TooLarge, "payload_too_large", "The document is larger than 10 MiB.")
	ErrTaken    = apierr.New(apierr.Conflict, "invalid_state", "Another payroll or bill has this document.")
)

// Service pays vendors.
type Service struct {
	Payroll *payroll.Service
	Sealer  *identity.Sealer
	Intake  *kyc.ImageDecoder // decodes images
}

// Document is an uploaded invoice.
type Document struct {
	CompanyID string
	ID        string
	MediaType string
	Bytes     int64
	SHA256    string // SHA-256 hash of the stored bytes
	PayrollID string // ID of the payroll that pays the document; "" for none

	version int64
}

// File is an upload that was decoded and validated.
type File struct {
	MediaType string
	Data      []byte
}

// Read decodes a document from base64. Call it before the transaction, because decoding an image takes a while. It
// returns ErrDocument or ErrTooLarge for an invalid document.
func (s *Service) Read(ctx context.Context, text string) (File, error) {
	if base64.StdEncoding.DecodedLen(len(text)) > maxBytes+2 {
		return File{}, ErrTooLarge
	}
	// The decoder ignores line breaks even in strict mode.
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) == 0 || strings.ContainsAny(text, "\r\n") {
		return File{}, ErrDocument.At("body", "/base64_document")
	}
	if len(data) > maxBytes {
		return File{}, ErrTooLarge
	}
	// Only the header and trailer of a PDF are checked.
	if bytes.HasPrefix(data, []byte("%PDF-")) {
		if !bytes.Contains(data[max(0, len(data)-1024):], []byte("%%EOF")) {
			return File{}, ErrDocument.Detailf("The PDF is not whole: it has no end.").At("body", "/base64_document")
		}
		return File{PDF, data}, nil
	}
	img, err := s.Intake.Read(ctx, text)
	if f, isFault := apierr.As(err); isFault && f.Kind == apierr.Invalid {
		return File{}, f.At("body", "/base64_document")
	}
	return File{JPEG, img.JPEG}, err
}

// Upload stores a document of the company.
func (s *Service) Upload(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	f File) (Document, error) {
	company, err := by.Company(companyID)
	if err != nil {
		return Document{}, err
	}
	c, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return Document{}, err
	}
	if err := c.Active(); err != nil {
		return Document{}, err
	}
	sum := sha256.Sum256(f.Data)
	d := Document{
		CompanyID: company, ID: tx.NewID("doc"), MediaType: f.MediaType, Bytes: int64(len(f.Data)),
		SHA256: hex.EncodeToString(sum[:]), version: 1,
	}
	if err := insert(ctx, tx, d); err != nil {
		return Document{}, err
	}
	n := 0
	for chunk := range slices.Chunk(f.Data, chunkSize) {
		sealed, err := s.Sealer.Seal(d.place(n), chunk)
		if err != nil {
			return Document{}, err
		}
		if err := insertChunk(ctx, tx, d, n, sealed); err != nil {
			return Document{}, err
		}
		n++
	}
	return d, nil
}

// place returns the context to which a sealed piece is bound: its document and its index.
func (d Document) place(n int) identity.SealContext {
	return identity.SealContext{Table: "vendor_document_chunks", Column: "sealed",
		Row: fmt.Sprintf("%s/%s/%d/%d", d.CompanyID, d.ID, n, d.Bytes)}
}

// Params describes a payroll whose payees are vendors.
type Params struct {
	payroll.CreateParams // ToPay is not used
	Items                []Item
}

// Item is one vendor to pay.
type Item struct {
	VendorID          string
	DocumentID        string // ID of the document; ignored by Quote
	AmountText        string
	ReceiveText       string // fixed amount that the vendor receives, instead of AmountText
	ReceiveCurrency   string
	InvoiceNumber     string // the vendor's number of the invoice
	Country           string
	IsPremium         bool
	Description       string
	Category          string
	ExternalPaymentID string
	Metadata          map[string]string
}

// plan converts vendors to payees, and adds a problem to list for each payee that is not a vendor.
func (p *Params) plan(ctx context.Context, tx *db.Tx, by identity.Principal,
	list *apierr.List) (payroll.CreateParams, error) {
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return payroll.CreateParams{}, err
	}
	ids := make([]string, len(p.Items))
	for i, it := range p.Items {
		ids[i] = it.VendorID
	}
	vendors, err := payee.Vendors(ctx, tx, company, ids)
	if err != nil {
		return payroll.CreateParams{}, err
	}
	run := p.CreateParams
	run.ToPay = make([]payroll.Payee, len(p.Items))
	for i, it := range p.Items {
		to := payroll.Payee{
			AmountText: it.AmountText, ReceiveText: it.ReceiveText, ReceiveCurrency: it.ReceiveCurrency,
			InvoiceID: it.InvoiceNumber, Country: it.Country, IsPremium: it.IsPremium,
			Description: it.Description,
			Category:    it.Category, ExternalPaymentID: it.ExternalPaymentID,
			Metadata: it.Metadata,
		}
		v, found := vendors[it.VendorID]
		switch {
		case !found:
			list.Add("invalid_parameter", fmt.Sprintf("/to_pay/%d/vendor_id", i), "The company has no vendor of this id.")
		case v.Kind == payee.TypeCompany:
			to.CompanyID = v.ID
		default:
			to.UserID = v.ID
		}
		if strings.HasPrefix(it.InvoiceNumber, "inv_") {
			list.Add("invalid_parameter", fmt.Sprintf("/to_pay/%d/invoice_number", i),
				"This is the vendor's own number; an invoice of this service is paid by a payroll's invoice_id.")
		}
		run.ToPay[i] = to
	}
	return run, nil
}

// Quote returns the present cost of paying vendors, and the problems for which Create would refuse the payment. It
// stores nothing and fixes no price.
func (s *Service) Quote(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (payroll.Preview, error) {
	var list apierr.List
	run, err := p.plan(ctx, tx, by, &list)
	if err != nil {
		return payroll.Preview{}, err
	}
	if err := list.Err(); err != nil {
		return payroll.Preview{}, err
	}
	v, err := s.Payroll.Preview(ctx, tx, by, run)
	v.Blockers = ours(v.Blockers)
	return v, ourErr(err)
}

// Create creates a payroll that pays vendors, each against a document.
func (s *Service) Create(ctx context.Context, tx *db.Tx, by identity.Principal, p Params) (payroll.Payroll, error) {
	var list apierr.List
	run, err := p.plan(ctx, tx, by, &list)
	if err != nil {
		return payroll.Payroll{}, err
	}
	docs := make([]Document, len(p.Items))
	seen := map[string]bool{}
	for i, it := range p.Items {
		at := fmt.Sprintf("/to_pay/%d/document_id", i)
		d, err := find(ctx, tx, by.CompanyID, it.DocumentID)
		switch {
		case errors.Is(err, apierr.NotFoundErr):
			list.Add("invalid_parameter", at, "The company has no document of this id.")
		case err != nil:
			return payroll.Payroll{}, err
		case seen[d.ID]:
			list.Add("invalid_parameter", at, "Another item of this payroll pays the same document.")
		}
		docs[i] = d
		seen[d.ID] = true
	}
	if err := list.Err(); err != nil {
		return payroll.Payroll{}, err
	}
	made, err := s.Payroll.Create(ctx, tx, by, run)
	if err != nil {
		return payroll.Payroll{}, ourErr(err)
	}
	for i, d := range docs {
		if err := s.take(ctx, tx, by, d, made.ID, made.Payments[i].ID); err != nil {
			if f, isFault := apierr.As(err); isFault {
				return payroll.Payroll{}, f.At("body", fmt.Sprintf("/to_pay/%d/document_id", i))
			}
			return payroll.Payroll{}, err
		}
	}
	return made, nil
}

// maxID is the length of the longest ID that a request can contain.
const maxID = 64

// Edit changes a payroll as payroll.Service.Edit does. In a payroll that pays vendors against documents, each payment
// has a document. documentIDs names one document for each item of e.ToPay, in the same order. If it is empty, a
// payment keeps the document of the vendor's former payment with the same invoice number, or else of another former
// payment to the vendor. Documents that no payment uses any more can be paid by another payroll.
func (s *Service) Edit(ctx context.Context, tx *db.Tx, by identity.Principal, e payroll.EditParams,
	documentIDs []string) (payroll.Payroll, error) {
	for i, id := range documentIDs {
		if len(id) > maxID {
			return payroll.Payroll{}, apierr.New(apierr.Invalid, "invalid_parameter",
				"The company has no document of this id.").At("body", fmt.Sprintf("/document_ids/%d", i))
		}
	}
	if n := len(documentIDs); n > 0 && n != len(e.ToPay) {
		return payroll.Payroll{}, apierr.New(apierr.Invalid, "invalid_parameter",
			"document_ids names one document for each item of to_pay.").At("body", "/document_ids")
	}
	e.Documents = func(ctx context.Context, tx *db.Tx, before, after []payroll.Payment) error {
		return s.reassign(ctx, tx, by, e.PayrollID, before, after, documentIDs)
	}
	return s.Payroll.Edit(ctx, tx, by, e)
}

// reassign assigns the documents of a payroll, and the documents that documentIDs names, to its new payments.
func (s *Service) reassign(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string,
	before, after []payroll.Payment, documentIDs []string) error {
	company, err := by.Company("")
	if err != nil {
		return err
	}
	had, err := ofPayroll(ctx, tx, company, payrollID)
	if err != nil {
		return err
	}
	if len(had) == 0 {
		if len(documentIDs) > 0 {
			return apierr.New(apierr.Invalid, "invalid_parameter",
				"This payroll pays no vendors against documents. Leave document_ids out.").At("body", "/document_ids")
		}
		return nil
	}
	var list apierr.List
	docs := keep(had, before, after)
	if len(documentIDs) > 0 {
		if docs, err = named(ctx, tx, company, documentIDs, &list); err != nil {
			return err
		}
	}
	ids := make([]string, len(after))
	for i := range after {
		ids[i] = after[i].PayeeID
	}
	vendors, err := payee.Vendors(ctx, tx, company, ids)
	if err != nil {
		return err
	}
	for i := range after {
		at := fmt.Sprintf("/to_pay/%d/", i)
		if _, found := vendors[after[i].PayeeID]; !found {
			list.Add("invalid_parameter", at+"user_id", "The company has no vendor of this id.")
		} else if docs[i].ID == "" && len(documentIDs) == 0 {
			list.Add("invalid_parameter", at+"user_id", "This payment has no document. Name one in document_ids.")
		}
		if invoice.Is(after[i].InvoiceID) {
			list.Add("invalid_parameter", at+"invoice_id", "A payment against a document pays no invoice of this service.")
		}
	}
	if err := list.Err(); err != nil {
		return err
	}
	for i, d := range docs {
		if d.PayrollID == payrollID {
			if err := mustAssign(ctx, tx, d, payrollID, after[i].ID); err != nil {
				return err
			}
			maps.DeleteFunc(had, func(_ string, old Document) bool { return old.ID == d.ID })
			continue
		}
		err := s.take(ctx, tx, by, d, payrollID, after[i].ID)
		if f, isFault := apierr.As(err); isFault {
			return f.At("body", fmt.Sprintf("/document_ids/%d", i))
		}
		if err != nil {
			return err
		}
	}
	for _, d := range had {
		if err := mustAssign(ctx, tx, d, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// keep returns the document of each new payment: the document of the vendor's former payment with the same invoice
// number, or else of the vendor's first former payment whose document is unused. A payment without a document gets
// the zero Document.
func keep(had map[string]Document, before, after []payroll.Payment) []Document {
	docs := make([]Document, len(after))
	left := slices.Clone(before)
	for _, sameNumber := range []bool{true, false} {
		for i, m := range after {
			if docs[i].ID != "" {
				continue
			}
			n := slices.IndexFunc(left, func(old payroll.Payment) bool {
				return old.PayeeID == m.PayeeID && (!sameNumber || old.InvoiceID == m.InvoiceID)
			})
			if n >= 0 {
				docs[i] = had[left[n].ID]
				left = slices.Delete(left, n, n+1)
			}
		}
	}
	return docs
}

// named returns documents of a company by their IDs, and adds a problem for each ID that does not exist or is named
// twice.
func named(ctx context.Context, tx *db.Tx, companyID string, documentIDs []string, list *apierr.List) ([]Document,
	error) {
	docs := make([]Document, len(documentIDs))
	for i, id := range documentIDs {
		at := fmt.Sprintf("/document_ids/%d", i)
		d, err := find(ctx, tx, companyID, id)
		switch {
		case errors.Is(err, apierr.NotFoundErr):
			list.Add("invalid_parameter", at, "The company has no document of this id.")
		case err != nil:
			return nil, err
		case slices.Contains(documentIDs[:i], id):
			list.Add("invalid_parameter", at, "Another item of this payroll pays the same document.")
		}
		docs[i] = d
	}
	return docs, nil
}

// mustAssign assigns a document to a payroll that the transaction has locked. It fails if the document has changed.
func mustAssign(ctx context.Context, tx *db.Tx, d Document, payrollID, paymentID string) error {
	done, err := assign(ctx, tx, d, payrollID, paymentID)
	if err == nil && !done {
		err = db.ErrConflict
	}
	return err
}

// OfPayments returns the IDs of the documents of a payroll's payments, by payment ID.
func OfPayments(ctx context.Context, tx *db.Tx, by identity.Principal, payrollID string) (map[string]string, error) {
	company, err := by.Company("")
	if err != nil {
		return nil, err
	}
	docs, err := ofPayroll(ctx, tx, company, payrollID)
	ids := make(map[string]string, len(docs))
	for payment, d := range docs {
		ids[payment] = d.ID
	}
	return ids, err
}

// take assigns a document to a payroll. It returns an error unless an earlier payroll of the document has ended
// without paying it.
func (s *Service) take(ctx context.Context, tx *db.Tx, by identity.Principal, d Document, payrollID,
	paymentID string) error {
	if invoice.Is(d.PayrollID) {
		if err := released(ctx, tx, by, d); err != nil {
			return err
		}
	} else if d.PayrollID != "" {
		other, err := s.Payroll.Head(ctx, tx, by, d.PayrollID)
		if err != nil {
			return err
		}
		if other.State != payroll.Cancelled && other.State != payroll.ExpiredUnfunded {
			return ErrTaken
		}
	}
	taken, err := assign(ctx, tx, d, payrollID, paymentID)
	if err == nil && !taken {
		return ErrTaken
	}
	return err
}

// released returns ErrTaken unless the bill of a document is void.
func released(ctx context.Context, tx *db.Tx, by identity.Principal, d Document) error {
	bill, err := invoice.OneOfCompany(ctx, tx, by, d.PayrollID)
	if err == nil && bill.Status != invoice.Void {
		err = ErrTaken
	}
	return err
}

// CreateBill records a bill of a vendor, with its document if there is one.
func (s *Service) CreateBill(ctx context.Context, tx *db.Tx, by identity.Principal, p invoice.BillParams) (
	invoice.Invoice, error) {
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return invoice.Invoice{}, err
	}
	c, err := identity.CompanyByID(ctx, tx, company)
	if err != nil {
		return invoice.Invoice{}, err
	}
	if err := c.Active(); err != nil {
		return invoice.Invoice{}, err
	}
	vendors, err := payee.Vendors(ctx, tx, company, []string{p.VendorID})
	if err != nil {
		return invoice.Invoice{}, err
	}
	var list apierr.List
	if _, found := vendors[p.VendorID]; !found {
		list.Add("invalid_parameter", "/vendor_id", "The company has no vendor of this id.")
	}
	var d Document
	if p.Document != "" {
		d, err = find(ctx, tx, company, p.Document)
		if errors.Is(err, apierr.NotFoundErr) {
			list.Add("invalid_parameter", "/document_id", "The company has no document of this id.")
		} else if err != nil {
			return invoice.Invoice{}, err
		}
	}
	p.CompanyID = company
	v, err := invoice.CreateBill(ctx, tx, s.Sealer, p, &list)
	if err != nil || d.ID == "" {
		return v, err
	}
	err = s.take(ctx, tx, by, d, v.ID, "")
	if f, isFault := apierr.As(err); isFault {
		return v, f.At("body", "/document_id")
	}
	return v, err
}

// File returns the content of a document of the principal's company.
func (s *Service) File(ctx context.Context, tx *db.Tx, by identity.Principal, documentID string) (File, error) {
	company, err := by.Company("")
	if err != nil {
		return File{}, err
	}
	d, err := find(ctx, tx, company, documentID)
	if err != nil {
		return File{}, err
	}
	chunks, err := chunksOf(ctx, tx, d)
	if err != nil {
		return File{}, err
	}
	f := File{MediaType: d.MediaType}
	for n, sealed := range chunks {
		chunk, err := s.Sealer.Open(d.place(n), sealed)
		if err != nil {
			return File{}, err
		}
		f.Data = append(f.Data, chunk...)
	}
	return f, nil
}

// ours changes the pointers of package payroll's problems into pointers to this package's request fields.
func ours(fields []apierr.Field) []apierr.Field {
	for i, f := range fields {
		if !strings.HasPrefix(f.Pointer, "/to_pay/") {
			continue
		}
		for _, member := range [][2]string{{"/user_id", "/vendor_id"}, {"/company_id", "/vendor_id"}, {"/invoice_id",
			"/invoice_number"}} {
			if before, is := strings.CutSuffix(f.Pointer, member[0]); is {
				fields[i].Pointer = before + member[1]
			}
		}
	}
	return fields
}

func ourErr(err error) error {
	f, isFault := apierr.As(err)
	if !isFault || len(f.Fields) == 0 {
		return err
	}
	c := *f
	c.Fields = ours(slices.Clone(f.Fields))
	return &c
}
