// Package iso20022 reads and writes the ISO 20022 messages that a company and its bank exchange: payment orders
// (pain.001), their status reports (pain.002), and account reports, statements and notifications (camt.052, 053 and
// 054).
//
// Messages from a bank are not trusted. They are read as a stream, in bounded memory: document types, entities, deep
// nesting, and texts or lists over a limit are rejected. An entry with an invalid amount or date has an error of its
// own, so that the other entries remain usable. Readers accept every version from 02 on. They find data by element
// names and ignore the namespace, because banks use different ones.
//
// The package only encodes and decodes messages. Callers decide on the effect of a payment.
package iso20022

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/text/encoding/charmap"

	"github.com/stipend/stipend/internal/money"
)

// namespace is the beginning of the XML namespaces of all messages.
const namespace = "urn:iso:std:iso:20022:tech:xsd:"

// Limits of messages that are read.
const (
	maxFile   = 256 << 20 // bytes of a message
	maxHeads  = 10_000    // statements in a message
	maxPart   = 16 << 20  // bytes of one part: the head of a statement, or an entry
	maxTokens = 4_000     // elements and texts of one unit: the head of an entry, or a transaction
	maxUnits  = 20_000    // transactions in an entry
	maxDepth  = 40
)

// ErrTooMuch reports that a message exceeds a limit of this package.
var ErrTooMuch = errors.New("iso20022: the message exceeds a size limit")

// limitedReader limits the bytes of a message and of its current part.
type limitedReader struct {
	r     io.Reader
	file  int64
	part  int64
	limit error
}

func (m *limitedReader) Read(b []byte) (int, error) {
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

// tokens is a token source that limits the number and depth of elements.
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
		return nil, errors.New("iso20022: document types are not allowed")
	}
	return token, nil
}

// reader reads one message element by element.
type reader struct {
	limit  *limitedReader
	tokens *tokens
	d      *xml.Decoder
}

func newReader(r io.Reader) *reader {
	m := &limitedReader{r: r, file: maxFile, part: maxPart}
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
		return nil, fmt.Errorf("iso20022: unsupported encoding %q", charset)
	}
	t := &tokens{d: raw, left: maxTokens}
	return &reader{limit: m, tokens: t, d: xml.NewTokenDecoder(t)}
}

// resetTokens starts a unit with a full allowance of tokens.
func (r *reader) resetTokens() { r.tokens.left = maxTokens }

// resetPart starts a part with a full allowance of bytes and tokens.
func (r *reader) resetPart() {
	r.resetTokens()
	r.limit.part = maxPart
}

// withPosition adds the line and column to an error.
func (r *reader) withPosition(err error) error {
	if err == nil {
		return nil
	}
	if r.limit.limit != nil {
		err = r.limit.limit
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	line, column := r.tokens.d.InputPos()
	return fmt.Errorf("line %d, column %d: %w", line, column, err)
}

// child returns the next child element of the current element, or false at the end of the current element.
func (r *reader) child() (xml.StartElement, bool, error) {
	for {
		token, err := r.d.Token()
		if err != nil {
			return xml.StartElement{}, false, r.withPosition(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			return t, true, nil
		case xml.EndElement:
			return xml.StartElement{}, false, nil
		}
	}
}

// children calls f with each child element of the current element, until f fails. It calls reset before it reads a
// child.
func (r *reader) children(reset func(), f func(xml.StartElement) error) error {
	for {
		reset()
		start, ok, err := r.child()
		if err != nil || !ok {
			return err
		}
		if err := f(start); err != nil {
			return err
		}
	}
}

// text decodes the trimmed text of an element.
func (r *reader) text(to *string, start xml.StartElement) error {
	err := r.decode(to, start)
	*to = strings.TrimSpace(*to)
	return err
}

// decode decodes an element into v.
func (r *reader) decode(v any, start xml.StartElement) error {
	return r.withPosition(r.d.DecodeElement(v, &start))
}

// skip skips an element of any size.
func (r *reader) skip() error {
	for depth := 1; depth > 0; {
		r.resetPart()
		token, err := r.d.Token()
		if err != nil {
			return r.withPosition(err)
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

// Message is the kind of a message: the name of its element in the document.
type Message string

// Kinds of messages that are read.
const (
	StatusReport  Message = "CstmrPmtStsRpt"        // pain.002: status of an order
	AccountReport Message = "BkToCstmrAcctRpt"      // camt.052: entries of the current day
	BankStatement Message = "BkToCstmrStmt"         // camt.053: booked entries of a period
	Notification  Message = "BkToCstmrDbtCdtNtfctn" // camt.054: single entries
)

// open enters the document and its message and returns the kind of the message.
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

// KindOf returns the kind of the message in a file. It reads only the start of the file.
func KindOf(in io.Reader) (Message, error) { return newReader(in).open() }

// Amount is an amount of money as written in a message.
type Amount struct {
	Currency string `xml:"Ccy,attr"`
	Text     string `xml:",chardata"`
}

func amountOf(a money.Amount) Amount { return Amount{Currency: string(a.Asset()), Text: a.String()} }

// Money returns the parsed amount. It accepts only digits and a decimal point, because messages state the sign in a
// separate element.
func (a Amount) Money() (money.Amount, error) {
	text := strings.TrimSpace(a.Text)
	asset, ok := money.Lookup(strings.TrimSpace(a.Currency))
	if !ok || asset.IsCrypto() {
		return money.Amount{}, fmt.Errorf("iso20022: %.8q is not a currency", a.Currency)
	}
	if text == "" || len(text) > 24 || strings.Trim(text, "0123456789.") != "" {
		return money.Amount{}, fmt.Errorf("iso20022: %.24q is not an amount", text)
	}
	m, err := money.Parse(asset, text)
	if err != nil {
		return m, fmt.Errorf("iso20022: %q is not an amount of %s: %w", text, asset, err)
	}
	return m, nil
}

// date is a date or a time as it is written in a message.
type date struct {
	Day  string `xml:"Dt,omitempty"`
	Time string `xml:"DtTm,omitempty"`
}

func dayOf(t time.Time) *date {
	if t.IsZero() {
		return nil
	}
	return &date{Day: t.UTC().Format(time.DateOnly)}
}

// time returns the parsed date or time in UTC, or the zero time if there is none. A time without a zone counts as
// UTC.
func (d *date) time() (time.Time, error) {
	if d == nil {
		return time.Time{}, nil
	}
	if d.Time != "" {
		return parseTime(d.Time)
	}
	if d.Day == "" {
		return time.Time{}, nil
	}
	return parseTime(d.Day)
}

func parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999",
		"2006-01-02Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("iso20022: %.40q is not a date", text)
}

// code is a code of an ISO 20022 list or a proprietary code.
type code struct {
	Code        string `xml:"Cd,omitempty"`
	Proprietary string `xml:"Prtry,omitempty"`
}

func (c *code) value() string {
	switch {
	case c == nil:
		return ""
	case c.Code != "":
		return strings.TrimSpace(c.Code)
	default:
		return strings.TrimSpace(c.Proprietary)
	}
}

// encode returns a message as an indented document.
func encode(message any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(xml.Header)
	e := xml.NewEncoder(&out)
	e.Indent("", " ")
	if err := e.Encode(message); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
