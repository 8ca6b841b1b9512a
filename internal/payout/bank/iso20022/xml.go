// Package iso20022 reads and writes the messages of ISO 20022 that a company and its bank exchange: payment
// orders (pain.001), the answers to them (pain.002), and what happened on an account (camt.052, 053 and 054).
//
// What a bank sends is foreign input. It is read as a stream, in bounded memory: document types, entities,
// deep nesting, endless texts and endless lists are refused with an error that says what was too much, and an
// entry whose amount or date makes no sense carries its own error, so that it hides none of the others.
// Versions are told apart by what they contain, never by their namespace: banks send all of them.
//
// The package knows the messages only. What a payment means is its callers' matter.
package iso20022

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/text/encoding/charmap"

	"github.com/stipend/stipend/internal/money"
)

// Limits on what is read.
const (
	maxFile   = 256 << 20 // bytes of a message
	maxHeads  = 10_000    // statements of a message
	maxPart   = 16 << 20  // bytes of one part: a statement's head, an entry
	maxTokens = 4_000     // elements and texts of the smallest unit: an entry's head, one transaction
	maxUnits  = 20_000    // transactions of one entry
	maxDepth  = 40
)

// ErrTooMuch is input beyond the limits of this package.
var ErrTooMuch = errors.New("iso20022: the message is larger than any that a bank sends")

// meter lets so many bytes through.
type meter struct {
	r     io.Reader
	file  int64
	part  int64
	limit error
}

func (m *meter) Read(b []byte) (int, error) {
	left := min(m.file, m.part)
	if left <= 0 {
		m.limit = ErrTooMuch
		return 0, ErrTooMuch
	}
	n, err := m.r.Read(b[:min(int64(len(b)), left)])
	m.file -= int64(n)
	m.part -= int64(n)
	return n, err
}

// tokens is the source of a decoder that counts what passes.
type tokens struct {
	d     *xml.Decoder
	left  int
	depth int
}

func (t *tokens) Token() (xml.Token, error) {
	token, err := t.d.RawToken()
	if err != nil {
		return nil, err
	}
	if t.left--; t.left < 0 {
		return nil, ErrTooMuch
	}
	switch token.(type) {
	case xml.StartElement:
		if t.depth++; t.depth > maxDepth {
			return nil, fmt.Errorf("%w: nested deeper than %d", ErrTooMuch, maxDepth)
		}
	case xml.EndElement:
		t.depth--
	case xml.Directive:
		return nil, errors.New("iso20022: a message has no document type")
	}
	return token, nil
}

// reader walks through one message.
type reader struct {
	meter  *meter
	tokens *tokens
	d      *xml.Decoder
}

func newReader(r io.Reader) *reader {
	m := &meter{r: r, file: maxFile, part: maxPart}
	raw := xml.NewDecoder(m)
	raw.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		switch strings.ToLower(charset) {
		case "iso-8859-1", "latin1":
			return charmap.ISO8859_1.NewDecoder().Reader(in), nil
		case "iso-8859-15":
			return charmap.ISO8859_15.NewDecoder().Reader(in), nil
		case "windows-1252":
			return charmap.Windows1252.NewDecoder().Reader(in), nil
		case "us-ascii":
			return in, nil
		}
		return nil, fmt.Errorf("iso20022: a message is not written in %q", charset)
	}
	t := &tokens{d: raw, left: maxTokens}
	return &reader{meter: m, tokens: t, d: xml.NewTokenDecoder(t)}
}

// unit begins a unit of its own, which may have as many elements as any.
func (r *reader) unit() { r.tokens.left = maxTokens }

// part begins a part of its own, which may be as long as any.
func (r *reader) part() {
	r.unit()
	r.meter.part = maxPart
}

// where adds the place to an error.
func (r *reader) where(err error) error {
	if err == nil {
		return nil
	}
	if r.meter.limit != nil {
		err = r.meter.limit
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	line, column := r.tokens.d.InputPos()
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// child is the next element within the present one; false when the present one ends.
func (r *reader) child() (xml.StartElement, bool, error) {
	for {
		token, err := r.d.Token()
		if err != nil {
			return xml.StartElement{}, false, r.where(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			return t, true, nil
		case xml.EndElement:
			return xml.StartElement{}, false, nil
		}
	}
}

// decode reads an element into a value.
func (r *reader) decode(v any, start xml.StartElement) error {
	return r.where(r.d.DecodeElement(v, &start))
}

// skip passes over an element, however long it is.
func (r *reader) skip() error {
	for depth := 1; depth > 0; {
		r.part()
		token, err := r.d.Token()
		if err != nil {
			return r.where(err)
		}
		switch token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		}
	}
	return nil
}

// Message is the kind of a message, by the name of the element in its document.
type Message string

// The messages that are read.
const (
	StatusReport  Message = "CstmrPmtStsRpt"        // pain.002: what becomes of an order
	AccountReport Message = "BkToCstmrAcctRpt"      // camt.052: a day so far
	BankStatement Message = "BkToCstmrStmt"         // camt.053: a day as it is booked
	Notification  Message = "BkToCstmrDbtCdtNtfctn" // camt.054: single bookings
)

// open goes into the document and its message.
func (r *reader) open() (Message, error) {
	root, ok, err := r.child()
	if err != nil {
		return "", err
	}
	if !ok || root.Name.Local != "Document" {
		return "", fmt.Errorf("iso20022: the root element is %q, not Document", root.Name.Local)
	}
	message, ok, err := r.child()
	if err != nil {
		return "", err
	}
	if !ok {
		return "", errors.New("iso20022: the document is empty")
	}
	return Message(message.Name.Local), nil
}

// KindOf says which message a file has. It reads the beginning only.
func KindOf(in io.Reader) (Message, error) { return newReader(in).open() }

// Amount is a sum as a message writes it.
type Amount struct {
	Currency string `xml:"Ccy,attr"`
	Text     string `xml:",chardata"`
}

// amountOf writes a sum.
func amountOf(a money.Amount) Amount { return Amount{Currency: string(a.Asset()), Text: a.String()} }

// Money is the sum. Only digits and a point make one; a message says in words on which side it stands.
func (a Amount) Money() (money.Amount, error) {
	text := strings.TrimSpace(a.Text)
	asset, ok := money.Lookup(strings.TrimSpace(a.Currency))
	if !ok || asset.IsCrypto() {
		return money.Amount{}, fmt.Errorf("iso20022: %.8q is no currency", a.Currency)
	}
	if text == "" || len(text) > 24 || strings.Trim(text, "0123456789.") != "" {
		return money.Amount{}, fmt.Errorf("iso20022: %.24q is no amount", text)
	}
	m, err := money.Parse(asset, text)
	if err != nil {
		return m, fmt.Errorf("iso20022: %q is no amount of %s: %w", text, asset, err)
	}
	return m, nil
}

// date is a day, or an instant, as a message writes it.
type date struct {
	Day     string `xml:"Dt,omitempty"`
	Instant string `xml:"DtTm,omitempty"`
}

func dayOf(t time.Time) *date {
	if t.IsZero() {
		return nil
	}
	return &date{Day: t.UTC().Format(time.DateOnly)}
}

// time is the day or instant, zero when there is none. What has no zone is taken as UTC.
func (d *date) time() (time.Time, error) {
	if d == nil {
		return time.Time{}, nil
	}
	if d.Instant != "" {
		return instant(d.Instant)
	}
	if d.Day == "" {
		return time.Time{}, nil
	}
	return instant(d.Day)
}

func instant(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("iso20022: %.40q is no date", text)
}

// code is a reason or a type: one of the lists of ISO 20022, or the bank's own.
type code struct {
	Code string `xml:"Cd,omitempty"`
	Own  string `xml:"Prtry,omitempty"`
}

func (c *code) value() string {
	switch {
	case c == nil:
		return ""
	case c.Code != "":
		return strings.TrimSpace(c.Code)
	default:
		return strings.TrimSpace(c.Own)
	}
}
